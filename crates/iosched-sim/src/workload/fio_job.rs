//! fio job files, as far as they can be simulated.
//!
//! What is understood: `rw` (all of reads and writes; `read:SKIP`), `rwmixread`, `rwmixwrite`, `bs`,
//! `size`, `offset`, `offset_increment`, `iodepth`, `iodepth_batch`, `numjobs`, `thinktime`,
//! `rate_iops`, `prio`, `prioclass`, `startdelay`, `runtime`, `time_based`, `stonewall`,
//! `random_distribution` (random, zipf), `percentage_random`, `direct=1`, and options that
//! change nothing here (`ioengine`, `group_reporting`, …). All others are refused by name with their
//! line, because a load that is only nearly the one described gives figures that mean nothing.
//!
//! Where this differs from fio: access is always direct; random places are drawn with
//! replacement (as with `norandommap`); with a synchronous engine the depth is 1.

use super::{Job, Mix, Pattern};
use crate::request::{IoPriority, PriorityClass};
use crate::units::{Bytes, Nanos, Sector, Sectors};

/// Why a job file cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// The option is not understood, or not simulated.
    #[error("line {line}: `{name}` is not simulated")]
    Unsupported {
        /// Number of the line, from 1.
        line: usize,
        /// The option.
        name: String,
    },
    /// The value is not understood, or not simulated.
    #[error("line {line}: {name} cannot be `{value}`: it can be {allowed}")]
    Value {
        /// Number of the line, from 1.
        line: usize,
        /// The option.
        name: String,
        /// Its value.
        value: String,
        /// What it can be.
        allowed: &'static str,
    },
    /// An option stands before the first section.
    #[error("line {line}: `{text}` stands in no section")]
    NoSection {
        /// Number of the line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// There is no job.
    #[error("there is no job in it")]
    Empty,
    /// A job's part of the disk is empty or smaller than one access.
    #[error("{job}: its part of the disk ({span}) is smaller than one access ({access})")]
    TooSmall {
        /// The job.
        job: String,
        /// How long its part is.
        span: Bytes,
        /// How long an access is.
        access: Bytes,
    },
    /// A job reaches beyond the disk.
    #[error("{job}: its part begins at {offset}, and the disk ends at {capacity}")]
    BeyondEnd {
        /// The job.
        job: String,
        /// Where its part begins.
        offset: Bytes,
        /// How large the disk is.
        capacity: Bytes,
    },
    /// More processes than a simulation can hold.
    #[error("{count} processes are more than the {max} that can be simulated")]
    TooMany {
        /// How many there would be.
        count: u64,
        /// How many there can be.
        max: u64,
    },
}

/// Most processes in a load.
const MAX_PROCESSES: u64 = 10_000;

/// A size in the file: bytes, or a share of the disk.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Size {
    Bytes(u64),
    Percent(u64),
}

impl Size {
    /// In whole 4 KiB blocks of a disk.
    fn on(self, capacity: Sectors) -> Sectors {
        let bytes = match self {
            Size::Bytes(bytes) => bytes,
            Size::Percent(percent) => capacity.to_bytes().as_u64() / 100 * percent,
        };
        Bytes::new(bytes / 4096 * 4096).to_sectors()
    }
}

/// A section as it is being read.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "fio's switches, one by one")]
struct Section {
    name: String,
    mix: Mix,
    mixed: bool,
    pattern: Pattern,
    zipf: Option<f64>,
    random_percent: u8,
    read_size: u64,
    write_size: u64,
    size: Option<Size>,
    offset: Size,
    offset_increment: Size,
    depth: usize,
    batch: usize,
    numjobs: u64,
    synchronous: bool,
    think: Nanos,
    rate_iops: Option<u64>,
    class: Option<PriorityClass>,
    level: Option<u8>,
    delay: Nanos,
    runtime: Option<Nanos>,
    time_based: bool,
    stonewall: bool,
}

impl Default for Section {
    fn default() -> Section {
        Section {
            name: String::new(),
            mix: Mix { read_percent: 100 },
            mixed: false,
            pattern: Pattern::Sequential {
                skip: Sectors::ZERO,
            },
            zipf: None,
            random_percent: 0,
            read_size: 4096, // fio's default block size
            write_size: 4096,
            size: None,
            offset: Size::Bytes(0),
            offset_increment: Size::Bytes(0),
            depth: 1,
            batch: 1,
            numjobs: 1,
            synchronous: false,
            think: Nanos::ZERO,
            rate_iops: None,
            class: None,
            level: None,
            delay: Nanos::ZERO,
            runtime: None,
            time_based: false,
            stonewall: false,
        }
    }
}

/// The processes that a job file describes, on a disk of this size.
pub fn parse(text: &str, capacity: Sectors) -> Result<Vec<Job>, JobError> {
    let mut global = Section::default();
    let mut sections: Vec<Section> = Vec::new();
    let mut in_global = None;
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            in_global = Some(name == "global");
            if name != "global" {
                sections.push(Section {
                    name: name.to_owned(),
                    ..global.clone()
                });
            }
            continue;
        }
        let section = match in_global {
            None => {
                return Err(JobError::NoSection {
                    line: line_number,
                    text: line.to_owned(),
                });
            }
            Some(true) => &mut global,
            Some(false) => sections.last_mut().expect("a section was begun"),
        };
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let (name, value) = (name.trim(), value.trim());
        Setting {
            line: line_number,
            name,
            value,
        }
        .apply(section)?;
    }
    let count: u64 = sections.iter().map(|section| section.numjobs).sum();
    if count > MAX_PROCESSES {
        return Err(JobError::TooMany {
            count,
            max: MAX_PROCESSES,
        });
    }
    let mut jobs = Vec::new();
    let mut group = 0;
    for section in &sections {
        if section.stonewall && !jobs.is_empty() {
            group += 1;
        }
        for clone in 0..section.numjobs {
            jobs.push(section.job(clone, group, capacity)?);
        }
    }
    if jobs.is_empty() {
        Err(JobError::Empty)
    } else {
        Ok(jobs)
    }
}

impl Section {
    fn job(&self, clone: u64, group: usize, capacity: Sectors) -> Result<Job, JobError> {
        let name = if self.numjobs == 1 {
            self.name.clone()
        } else {
            format!("{}.{clone}", self.name)
        };
        let offset = self.offset.on(capacity) + self.offset_increment.on(capacity) * clone;
        if offset >= capacity {
            let (offset, capacity) = (offset.to_bytes(), capacity.to_bytes());
            return Err(JobError::BeyondEnd {
                job: name,
                offset,
                capacity,
            });
        }
        let left = capacity - offset;
        let span = self.size.map_or(left, |size| size.on(capacity)).min(left);
        let access = Bytes::new(self.read_size.max(self.write_size));
        if span.to_bytes() < access {
            return Err(JobError::TooSmall {
                job: name,
                span: span.to_bytes(),
                access,
            });
        }
        let pattern = match (self.pattern, self.zipf) {
            (Pattern::Random, Some(theta)) => Pattern::Zipf { theta },
            (pattern, _) => pattern,
        };
        let class = self.class.unwrap_or_default();
        let priority = match class {
            PriorityClass::Idle => IoPriority { class, level: 7 },
            _ => IoPriority {
                class,
                level: self.level.unwrap_or(4),
            },
        };
        Ok(Job {
            name,
            mix: self.mix,
            pattern,
            random_percent: self.random_percent,
            read_size: Bytes::new(self.read_size).to_sectors(),
            write_size: Bytes::new(self.write_size).to_sectors(),
            start: Sector::ZERO + offset,
            span,
            depth: if self.synchronous { 1 } else { self.depth },
            batch: self.batch,
            think: self.think,
            rate_iops: self.rate_iops,
            priority,
            delay: self.delay,
            amount: (!self.time_based).then(|| span.to_bytes()),
            runtime: self.runtime,
            group,
            listed: None,
        })
    }
}

/// One line of a section.
struct Setting<'text> {
    line: usize,
    name: &'text str,
    value: &'text str,
}

impl Setting<'_> {
    /// What each option means.
    fn apply(&self, section: &mut Section) -> Result<(), JobError> {
        match self.name {
            "rw" | "readwrite" => self.access(section)?,
            "rwmixread" => section.set_mix(self.percent()?),
            "rwmixwrite" => section.set_mix(100 - self.percent()?),
            "bs" | "blocksize" => self.block_size(section)?,
            "size" => section.size = Some(self.size()?),
            "offset" => section.offset = self.size()?,
            "offset_increment" => section.offset_increment = self.size()?,
            "iodepth" => section.depth = self.count(65_536)?,
            "iodepth_batch" | "iodepth_batch_submit" => section.batch = self.count(65_536)?,
            "numjobs" => section.numjobs = self.count(1 << 20)? as u64,
            "thinktime" => section.think = self.time(1_000)?,
            "rate_iops" => section.rate_iops = Some(self.count(1 << 30)? as u64),
            "prioclass" => {
                section.class = Some(match self.value {
                    "1" => PriorityClass::RealTime,
                    "0" | "2" => PriorityClass::BestEffort,
                    "3" => PriorityClass::Idle,
                    _ => return Err(self.bad("0 to 3")),
                });
            }
            "prio" => {
                let level = self.value.parse().ok().filter(|&level| level < 8);
                section.level = Some(level.ok_or_else(|| self.bad("0 to 7"))?);
            }
            "startdelay" => section.delay = self.time(1_000_000_000)?,
            "runtime" => section.runtime = Some(self.time(1_000_000_000)?),
            "time_based" => section.time_based = self.switch()?,
            "stonewall" | "wait_for_previous" => section.stonewall = self.switch()?,
            "random_distribution" => self.distribution(section)?,
            "percentage_random" => section.random_percent = self.percent()?,
            "ioengine" => {
                let synchronous =
                    ["sync", "psync", "vsync", "pvsync", "pvsync2"].contains(&self.value);
                if !synchronous && !["libaio", "io_uring", "posixaio"].contains(&self.value) {
                    return Err(self.bad("libaio, io_uring, posixaio, sync, psync, pvsync"));
                }
                section.synchronous = synchronous;
            }
            "direct" if !self.switch()? => {
                return Err(self.bad("1: only direct access is simulated"));
            }
            // Change nothing where access is direct, places are drawn anew, and the disk is ours.
            "direct" | "norandommap" | "group_reporting" | "invalidate" | "filename"
            | "description" | "randseed" | "randrepeat" | "allrandrepeat" | "thread"
            | "disable_lat" | "disable_clat" | "disable_slat" | "percentile_list"
            | "random_generator" | "end_fsync"
                if self.changes_nothing() => {}
            _ => return Err(self.unsupported()),
        }
        Ok(())
    }

    /// `end_fsync=1` would be a flush that is not simulated.
    fn changes_nothing(&self) -> bool {
        self.name != "end_fsync" || self.value == "0"
    }

    fn unsupported(&self) -> JobError {
        JobError::Unsupported {
            line: self.line,
            name: self.name.to_owned(),
        }
    }

    fn bad(&self, allowed: &'static str) -> JobError {
        let (name, value) = (self.name.to_owned(), self.value.to_owned());
        JobError::Value {
            line: self.line,
            name,
            value,
            allowed,
        }
    }

    fn access(&self, section: &mut Section) -> Result<(), JobError> {
        let allowed = "read, write, randread, randwrite, rw or randrw, and for sequential ones \
                       `:SIZE` to leave out after each";
        let (kind, skip) = self.value.split_once(':').unwrap_or((self.value, ""));
        let (random, percent, mixed) = match kind {
            "read" => (false, 100, false),
            "write" => (false, 0, false),
            "randread" => (true, 100, false),
            "randwrite" => (true, 0, false),
            "rw" | "readwrite" => (false, 50, true),
            "randrw" => (true, 50, true),
            _ => return Err(self.bad(allowed)),
        };
        if random && !skip.is_empty() {
            return Err(self.bad(allowed));
        }
        let skip = if skip.is_empty() {
            0
        } else {
            parse_size(skip)
                .filter(|size| size.is_multiple_of(512))
                .ok_or_else(|| self.bad(allowed))?
        };
        section.mixed = mixed;
        if !mixed || section.mix.read_percent.is_multiple_of(100) {
            section.mix = Mix {
                read_percent: percent,
            };
        }
        section.pattern = if random {
            Pattern::Random
        } else {
            Pattern::Sequential {
                skip: Bytes::new(skip).to_sectors(),
            }
        };
        Ok(())
    }

    fn block_size(&self, section: &mut Section) -> Result<(), JobError> {
        let allowed = "SIZE or READ,WRITE in multiples of 512 bytes up to 1 GiB";
        let one = |text: &str| {
            let size = parse_size(text)
                .filter(|&size| size > 0 && size.is_multiple_of(512) && size <= 1 << 30);
            size.ok_or_else(|| self.bad(allowed))
        };
        let mut parts = self.value.split(',');
        section.read_size = one(parts.next().unwrap_or(""))?;
        section.write_size = match parts.next() {
            None | Some("") => section.read_size,
            Some(write) => one(write)?,
        };
        Ok(())
    }

    fn distribution(&self, section: &mut Section) -> Result<(), JobError> {
        let allowed = "random, or zipf:THETA with a theta above 0 that is not 1";
        section.zipf = match self.value.split_once(':') {
            None if self.value == "random" => None,
            None if self.value == "zipf" => Some(1.1), // fio's default
            Some(("zipf", theta)) => {
                let theta = theta.parse::<f64>().ok();
                let good = theta
                    .filter(|&theta| theta > 0.0 && theta < 10.0 && (theta - 1.0).abs() > 1e-6);
                Some(good.ok_or_else(|| self.bad(allowed))?)
            }
            _ => return Err(self.bad(allowed)),
        };
        Ok(())
    }

    fn switch(&self) -> Result<bool, JobError> {
        match self.value {
            "" | "1" | "true" => Ok(true),
            "0" | "false" => Ok(false),
            _ => Err(self.bad("0 or 1")),
        }
    }

    fn percent(&self) -> Result<u8, JobError> {
        let number = self.value.trim_end_matches('%').parse().ok();
        number
            .filter(|&percent| percent <= 100)
            .ok_or_else(|| self.bad("0 to 100"))
    }

    fn count(&self, max: usize) -> Result<usize, JobError> {
        let number = self.value.parse().ok();
        let good = number.filter(|&number| (1..=max).contains(&number));
        good.ok_or_else(|| self.bad("a number from 1 on"))
    }

    fn size(&self) -> Result<Size, JobError> {
        let allowed = "a size like 4096, 64k, 10g, or a share like 50%";
        if let Some(percent) = self.value.strip_suffix('%') {
            let percent = percent.parse().ok().filter(|&percent| percent <= 100);
            return percent.map(Size::Percent).ok_or_else(|| self.bad(allowed));
        }
        parse_size(self.value)
            .map(Size::Bytes)
            .ok_or_else(|| self.bad(allowed))
    }

    /// A length of time; a bare number counts in `unit` nanoseconds.
    fn time(&self, unit: u64) -> Result<Nanos, JobError> {
        let digits = self
            .value
            .trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &self.value[digits.len()..] {
            "" => Some(unit),
            "us" => Some(1_000),
            "ms" => Some(1_000_000),
            "s" => Some(1_000_000_000),
            "m" => Some(60_000_000_000),
            "h" => Some(3_600_000_000_000),
            _ => None,
        };
        let number = digits.parse::<u64>().ok();
        let time = unit
            .zip(number)
            .and_then(|(unit, number)| number.checked_mul(unit));
        let good = time.filter(|&time| time < 1 << 60);
        good.map(Nanos::new)
            .ok_or_else(|| self.bad("a time like 10, 500ms, 30s, 2m"))
    }
}

impl Section {
    fn set_mix(&mut self, read_percent: u8) {
        self.mix = Mix { read_percent };
    }
}

/// fio's sizes: powers of 1024, with or without `b` or `ib` behind the letter.
fn parse_size(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &lower[digits.len()..] {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let number = digits.parse::<u64>().ok()?;
    number
        .checked_mul(1 << shift)
        .filter(|&size| size < 1 << 62)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAPACITY: Sectors = Sectors::new((16 << 30) / 512);

    #[test]
    fn a_job_file_is_read_with_its_globals_and_clones() {
        let text = "; two readers\n[global]\nbs=64k\nruntime=10\ntime_based\nioengine=libaio\n\n\
                    [sr]\nrw=read\noffset=1g\nsize=4g\n[w]\nrw=randrw\nrwmixread=70\nbs=4k,8k\n\
                    iodepth=32\niodepth_batch=8\nnumjobs=2\noffset_increment=25%\nprioclass=1\nprio=2\n";
        let jobs = parse(text, CAPACITY).unwrap();
        let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["sr", "w.0", "w.1"]);
        let reader = &jobs[0];
        assert_eq!(
            reader.pattern,
            Pattern::Sequential {
                skip: Sectors::ZERO
            }
        );
        assert_eq!(
            (reader.start, reader.span),
            (Sector::new(1 << 21), Sectors::new(1 << 23))
        );
        assert_eq!((reader.read_size, reader.depth), (Sectors::new(128), 1));
        assert_eq!(
            (reader.runtime, reader.amount),
            (Some(Nanos::from_secs(10)), None)
        );
        let writer = &jobs[2];
        assert_eq!(writer.mix, Mix { read_percent: 70 });
        assert_eq!(
            (writer.read_size, writer.write_size),
            (Sectors::new(8), Sectors::new(16))
        );
        assert_eq!((writer.depth, writer.batch), (32, 8));
        assert_eq!(
            writer.start,
            Sector::new(CAPACITY.as_u64() / 100 * 25 / 8 * 8)
        );
        let priority = IoPriority {
            class: PriorityClass::RealTime,
            level: 2,
        };
        assert_eq!(writer.priority, priority);
    }

    #[test]
    fn what_cannot_be_simulated_is_named_with_its_line() {
        let message = |text: &str| parse(text, CAPACITY).unwrap_err().to_string();
        assert_eq!(
            message("[a]\nrw=read\nverify=crc32c\n"),
            "line 3: `verify` is not simulated"
        );
        assert_eq!(
            message("[a]\ndirect=0"),
            "line 2: direct cannot be `0`: it can be 1: only direct access is simulated"
        );
        assert!(
            message("[a]\nrw=trim").starts_with("line 2: rw cannot be `trim`: it can be read,")
        );
        assert_eq!(message("rw=read"), "line 1: `rw=read` stands in no section");
        assert_eq!(message("[global]\nrw=read"), "there is no job in it");
        assert_eq!(
            message("[a]\nsize=4k\nbs=64k"),
            "a: its part of the disk (4 KiB) is smaller than one access (64 KiB)"
        );
        assert_eq!(
            message("[a]\noffset=17g"),
            "a: its part begins at 17 GiB, and the disk ends at 16 GiB"
        );
    }

    #[test]
    fn groups_follow_one_another_at_a_stonewall() {
        let jobs = parse("[a]\n[b]\n[c]\nstonewall\n[d]\n", CAPACITY).unwrap();
        assert_eq!(
            jobs.iter().map(|job| job.group).collect::<Vec<_>>(),
            [0, 0, 1, 1]
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(\\[[a-z]{1,4}\\]\n|[a-z_]{0,12}=?[-0-9a-z:%.,]{0,12}\n){0,8}") {
            let _ = parse(&text, CAPACITY);
        }

        #[test]
        fn no_value_of_a_known_option_makes_it_panic(
            name in prop::sample::select(vec![
                "rw", "bs", "size", "offset", "offset_increment", "iodepth", "numjobs",
                "thinktime", "rate_iops", "runtime", "random_distribution", "startdelay",
            ]),
            value in "[-0-9a-zµ:%.,]{0,22}",
        ) {
            let _ = parse(&format!("[a]\n{name}={value}\n"), CAPACITY);
        }
    }
}
