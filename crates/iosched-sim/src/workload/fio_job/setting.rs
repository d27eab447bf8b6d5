//! What each option of a job file means.

use super::super::{Mix, Rate};
use iosched_facts::Problem;
use iosched_facts::fio::{FioOption, Handling};

use super::bad_value;
use super::section::Section;
use super::value::{self, Size};
use crate::quantity;
use crate::request::PriorityClass;
use crate::units::Nanos;

/// Options that are kept in a real trial and change nothing where places are drawn anew, processors are not simulated and data
/// have no content.
const WITHOUT_EFFECT: &[&str] = &[
    "atomic",
    "block_error_percentiles",
    "buffer_compress_chunk",
    "buffer_compress_percentage",
    "buffer_pattern",
    "cgroup_nodelete",
    "clocksource",
    "continue_on_error",
    "cpumask",
    "cpus_allowed",
    "cpus_allowed_policy",
    "dedupe_mode",
    "dedupe_percentage",
    "description",
    "disable_bw_measurement",
    "disk_util",
    "error_dump",
    "exit_what",
    "exitall",
    "exitall_on_error",
    "fadvise_hint",
    "fallocate",
    "file_service_type",
    "fill_device",
    "fixedbufs",
    "force_async",
    "gtod_cpu",
    "hipri",
    "hipri_percentage",
    "hugepage-size",
    "ignore_error",
    "invalidate",
    "kb_base",
    "lockfile",
    "lockmem",
    "max_latency",
    "mem",
    "new_group",
    "nice",
    "nonvectored",
    "norandommap",
    "nowait",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "offset_align",
    "openfiles",
    "overwrite",
    "random_generator",
    "rate_cycle",
    "rate_iops_min",
    "rate_min",
    "read_beyond_wp",
    "refill_buffers",
    "registerfiles",
    "scramble_buffers",
    "significant_figures",
    "softrandommap",
    "sqthread_poll",
    "sqthread_poll_cpu",
    "thinktime_spin",
    "thp",
    "uncached",
    "unified_rw_reporting",
    "unit_base",
    "userspace_reap",
    "write_hint",
    "zero_buffers",
];

/// Options that ask for nothing if they are 0.
const OFF_AT_ZERO: &[&str] = &[
    "verify",
    "do_verify",
    "flow",
    "latency_target",
    "sync_file_range",
    "write_barrier",
];

const SECOND: u64 = 1_000_000_000;

/// One line of a section.
pub(super) struct Setting<'text> {
    pub(super) line: usize,
    pub(super) name: &'text str,
    pub(super) value: &'text str,
}

impl Setting<'_> {
    /// Takes the option into the section.
    pub(super) fn apply(&self, section: &mut Section) -> Result<(), Problem> {
        if self.places(section)? || self.pace(section)? || self.process(section)? {
            return Ok(());
        }
        if self.name == "filename" && self.value.replace("\\:", "").contains(':') {
            return Err(self.bad("one file: there is one disk"));
        }
        let (line, name) = (self.line, self.name);
        match FioOption::find(name).map(|option| option.handling) {
            _ if WITHOUT_EFFECT.contains(&name) => Ok(()),
            _ if OFF_AT_ZERO.contains(&name) && self.value == "0" => Ok(()),
            Some(Handling::Replaced(_)) => Ok(()),
            Some(Handling::Refused(cause)) => Err(Problem::usage(format!(
                "line {line}: {name} is refused: {cause}"
            ))),
            _ => Err(
                Problem::usage(format!("line {line}: `{name}` is not simulated")).hint(
                    "remove it if it does not matter; docs/simulate.md lists what is simulated",
                ),
            ),
        }
    }

    /// What is read and written, and where.
    fn places(&self, section: &mut Section) -> Result<bool, Problem> {
        match self.name {
            "rw" => self.access(section)?,
            "rwmixread" => section.mix = self.mix(self.percent()?),
            "rwmixwrite" => section.mix = self.mix(100 - self.percent()?),
            "bs" => {
                let allowed = "SIZE or READ,WRITE in multiples of 512 bytes up to 1 GiB";
                let blocks = value::pair(self.value, section.blocks, value::block);
                section.blocks = blocks.ok_or_else(|| self.bad(allowed))?;
                section.splits = None;
            }
            "bsrange" => {
                let allowed = "LEAST-MOST in multiples of 512 bytes up to 1 GiB, or two of these for \
                               READ,WRITE";
                let before = section.blocks.map(super::super::Sizes::one);
                let ranges = value::pair(self.value, before, value::range);
                section.splits = Some(ranges.ok_or_else(|| self.bad(allowed))?);
            }
            "bssplit" => {
                let allowed = "SIZE/PERCENT:SIZE/PERCENT:… of 100 % at most, or two of these \
                               for READ,WRITE";
                let before = section.blocks.map(super::super::Sizes::one);
                let splits = value::pair(self.value, before, value::split);
                section.splits = Some(splits.ok_or_else(|| self.bad(allowed))?);
            }
            "size" => section.size = Some(self.size()?),
            "filesize" if self.value.contains('-') => return Err(self.bad("one size here")),
            "filesize" if section.size.is_none() => section.size = Some(self.size()?),
            "filesize" => {}
            "nrfiles" => section.files = self.count(1 << 30)? as u64,
            "loops" => section.loops = self.count(1 << 30)? as u64,
            "io_size" => section.io_size = Some(self.size()?),
            "offset" => section.offset = self.size()?,
            "offset_increment" => section.offset_increment = self.size()?,
            "random_distribution" => {
                let allowed = "random, zipf:THETA (above 0, not 1), pareto:H (between 0 and 1) or \
                               normal:DEVIATION (percent)";
                let found = value::distribution(self.value);
                section.distribution = found.ok_or_else(|| self.bad(allowed))?;
            }
            "percentage_random" => section.random_percent = self.percent()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// How much at a time, and how fast.
    fn pace(&self, section: &mut Section) -> Result<bool, Problem> {
        match self.name {
            "iodepth" => section.depth = self.count(65_536)?,
            "iodepth_batch" => section.batch = self.count(65_536)?,
            "ioengine" => section.synchronous = self.engine()?,
            "iodepth_batch_complete_min" => {
                section.reaps = Some(self.value.parse().map_err(|_| self.bad("a number"))?);
            }
            "iodepth_batch_complete_max" => {}
            "iodepth_low" => section.keeps = Some(self.count(65_536)?),
            "direct" => section.buffered = !self.switch()?,
            "buffered" => section.buffered = self.switch()?,
            "fsync" | "fdatasync" => {
                let every: u64 = self
                    .value
                    .parse()
                    .map_err(|_| self.bad("a number of writes"))?;
                section.sync.every = (every > 0).then_some(every);
            }
            "sync" => {
                section.sync.each_write = match self.value {
                    "" | "1" | "sync" | "dsync" => true,
                    "0" | "none" => false,
                    _ => return Err(self.bad("none, sync or dsync")),
                };
            }
            "end_fsync" | "fsync_on_close" => section.sync.at_end = self.switch()?,
            "thinktime" => section.think = self.time(1_000)?,
            "thinktime_blocks" => section.think_every = self.count(1 << 30)? as u64,
            "thinktime_blocks_type" => {
                section.think_counts_submitted = match self.value {
                    "complete" => false,
                    "issue" => true,
                    _ => return Err(self.bad("complete or issue")),
                };
            }
            "rate" => self.rate(section, value::byte_rate, "bytes per second, or READ,WRITE")?,
            "rate_iops" => {
                self.rate(
                    section,
                    value::access_rate,
                    "accesses per second, or READ,WRITE",
                )?;
            }
            "rate_process" => {
                section.poisson = match self.value {
                    "linear" => false,
                    "poisson" => true,
                    _ => return Err(self.bad("linear or poisson")),
                };
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Who does it, and when.
    fn process(&self, section: &mut Section) -> Result<bool, Problem> {
        match self.name {
            "numjobs" => section.numjobs = self.count(1 << 20)? as u64,
            "prioclass" => {
                section.class = Some(self.class()?);
            }
            "cmdprio_percentage" => {
                let shares = value::pair(self.value, section.other_priority.0, value::percent);
                section.other_priority.0 =
                    shares.ok_or_else(|| self.bad("0 to 100, or READ,WRITE"))?;
            }
            "cmdprio_class" => section.other_priority.1.class = self.class()?,
            "cmdprio" => section.other_priority.1.level = self.level()?,
            "prio" => {
                section.level = Some(self.level()?);
            }
            "cgroup" if self.value.is_empty() => return Err(self.bad("the name of a group")),
            "cgroup" => section.cgroup = Some(self.value.to_owned()),
            "cgroup_weight" => {
                let weight = self.value.parse().ok();
                let weight = weight.filter(|weight| (10..=1000).contains(weight));
                let weight = weight.ok_or_else(|| self.bad("10 to 1000"))?;
                section.weight = Some((weight, self.line));
            }
            "startdelay" => section.delay = self.time(SECOND)?,
            "ramp_time" => section.ramp = self.time(SECOND)?,
            "runtime" => section.runtime = Some(self.time(SECOND)?),
            "time_based" => section.time_based = self.switch()?,
            "stonewall" => section.stonewall = self.switch()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn class(&self) -> Result<PriorityClass, Problem> {
        match self.value {
            "1" => Ok(PriorityClass::RealTime),
            "0" | "2" => Ok(PriorityClass::BestEffort),
            "3" => Ok(PriorityClass::Idle),
            _ => Err(self.bad("0 to 3")),
        }
    }

    fn level(&self) -> Result<u8, Problem> {
        let level = self.value.parse().ok().filter(|&level| level < 8);
        level.ok_or_else(|| self.bad("0 to 7"))
    }

    fn bad(&self, allowed: &str) -> Problem {
        bad_value(self.line, self.name, self.value, allowed)
    }

    fn mix(&self, read_percent: u8) -> Mix {
        Mix { read_percent }
    }

    fn access(&self, section: &mut Section) -> Result<(), Problem> {
        let allowed = "read, write, randread, randwrite, rw, randrw, trim or randtrim, and for sequential \
                       ones `:SIZE` to leave out after each, for random ones `:COUNT` from each place on";
        let (size, run) = (section.skip, section.run);
        let (kind, skip) = self.value.split_once(':').unwrap_or((self.value, ""));
        let (random, percent, mixed) = match kind {
            "read" => (false, 100, false),
            "write" | "trim" => (false, 0, false),
            "randread" => (true, 100, false),
            "randwrite" | "randtrim" => (true, 0, false),
            "rw" | "readwrite" => (false, 50, true),
            "randrw" => (true, 50, true),
            _ => return Err(self.bad(allowed)),
        };
        section.trims = kind.ends_with("trim");
        (section.skip, section.run) = match skip {
            "" => (0, 1),
            count if random => {
                let count = count.parse().ok().filter(|&count: &u64| count > 0);
                (size, count.ok_or_else(|| self.bad(allowed))?)
            }
            skip => {
                let size = quantity::bytes(skip.trim_start_matches('-'));
                let size = size.filter(|size| size.is_multiple_of(512));
                let size = size.and_then(|size| i64::try_from(size / 512).ok());
                let size = size.ok_or_else(|| self.bad(allowed))?;
                (if skip.starts_with('-') { -size } else { size }, run)
            }
        };
        // A mix that was given before `rw` stays.
        if !mixed || section.mix.read_percent.is_multiple_of(100) {
            section.mix = self.mix(percent);
        }
        section.random = random;
        Ok(())
    }

    /// True for an engine that waits for each access.
    fn engine(&self) -> Result<bool, Problem> {
        match self.value {
            "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" | "mmap" | "splice" => Ok(true),
            "libaio" | "io_uring" | "posixaio" => Ok(false),
            _ => Err(self.bad(
                "libaio, io_uring, posixaio, sync, psync, vsync, pvsync, pvsync2, mmap, splice",
            )),
        }
    }

    fn rate(
        &self,
        section: &mut Section,
        one: impl Fn(&str) -> Option<Rate>,
        allowed: &'static str,
    ) -> Result<(), Problem> {
        let rates = value::pair(self.value, section.rates, |text| one(text).map(Some));
        section.rates = rates.ok_or_else(|| self.bad(allowed))?;
        Ok(())
    }

    fn switch(&self) -> Result<bool, Problem> {
        match self.value {
            "" | "1" | "true" => Ok(true),
            "0" | "false" => Ok(false),
            _ => Err(self.bad("0 or 1")),
        }
    }

    fn percent(&self) -> Result<u8, Problem> {
        value::percent(self.value).ok_or_else(|| self.bad("0 to 100"))
    }

    fn count(&self, max: usize) -> Result<usize, Problem> {
        let number = self.value.parse().ok();
        let good = number.filter(|&number| (1..=max).contains(&number));
        good.ok_or_else(|| self.bad("a number from 1 on"))
    }

    fn size(&self) -> Result<Size, Problem> {
        let allowed = "a size like 4096, 64k, 10g, or a share like 50%";
        value::size(self.value).ok_or_else(|| self.bad(allowed))
    }

    fn time(&self, unit: u64) -> Result<Nanos, Problem> {
        let allowed = "a time like 10, 500ms, 30s, 2m";
        quantity::time(self.value, unit).ok_or_else(|| self.bad(allowed))
    }
}
