//! fio job files: read, checked, and made into the file that a trial runs.
//!
//! A job file comes from us (the built-in loads) or from the user. In both cases fio never sees it
//! as written: [`JobFile::parse`] refuses by name and line every option that is not known to stay
//! inside the target, and [`JobFile::compose`] writes the sections anew with the target, the seed
//! and the run time of the trial put last, where fio lets them win.
//!
//! Follows fio's HOWTO ("Job file format", fio 3.33). Left out: `include`, options given on a
//! command line, environment variables in values.

use std::fmt::Write as _;
use std::time::Duration;

use crate::failure::{Failure, exit};
use crate::objective::Objective;

/// A job file whose every option may be run against a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFile {
    jobs: Vec<Job>,
}

/// One section other than `[global]`, with the globals that stood before it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Job {
    name: String,
    assignments: Vec<Assignment>,
}

/// `key=value`, or a bare `key`, and the line it stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Assignment {
    line: usize,
    key: String,
    value: Option<String>,
}

/// Why a job file cannot be a load.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobFileError {
    /// A line that is neither a section, an option nor a comment.
    #[error("{file}:{line}: cannot read {text:?}: {cause}")]
    Syntax {
        /// The job file as the user named it.
        file: String,
        /// Counted from 1.
        line: usize,
        /// The line.
        text: String,
        /// What is wrong with it.
        cause: &'static str,
    },
    /// An option that could reach beyond the target, or change the scheduler under the trial.
    #[error("{file}:{line}: option {option} is refused: {cause}")]
    Dangerous {
        /// The job file as the user named it.
        file: String,
        /// Counted from 1.
        line: usize,
        /// The option's name.
        option: String,
        /// What it could do.
        cause: &'static str,
    },
    /// An option that we do not know to be harmless.
    #[error("{file}:{line}: option {option} is not supported in a load")]
    Unsupported {
        /// The job file as the user named it.
        file: String,
        /// Counted from 1.
        line: usize,
        /// The option's name.
        option: String,
    },
    /// A value that we do not allow for an option that we do.
    #[error("{file}:{line}: {option}={value} is not supported in a load: {cause}")]
    BadValue {
        /// The job file as the user named it.
        file: String,
        /// Counted from 1.
        line: usize,
        /// The option's name.
        option: String,
        /// The value.
        value: String,
        /// Why not.
        cause: String,
    },
    /// No section but `[global]`.
    #[error("{file}: no job in it: only a [global] section or nothing at all")]
    NoJobs {
        /// The job file as the user named it.
        file: String,
    },
}

impl Failure for JobFileError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            JobFileError::Syntax { .. } => {
                "a job file has [section] lines, option=value lines, and comments after # or ;"
                    .into()
            }
            JobFileError::Dangerous { option, .. } => match option.as_str() {
                "ioscheduler" => "name the schedulers with --arms instead".into(),
                "filename" | "directory" | "filename_format" | "opendir" => {
                    "name the target on the command line: iosched tune TARGET".into()
                }
                _ => format!("remove {option} from the job file"),
            },
            JobFileError::Unsupported { option, .. } => format!(
                "remove {option}: only options that are known to stay inside the target are run"
            ),
            JobFileError::BadValue { .. } => "change the value".into(),
            JobFileError::NoJobs { .. } => "add a section such as [job] with rw=randread".into(),
        })
    }

    fn exit_code(&self) -> u8 {
        exit::USAGE
    }
}

/// Where a composed job file sends its I/O.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// One block device or existing file, shared by all jobs.
    Path(String),
    /// A directory of our own, in which fio makes one file per job of the given size in bytes
    /// (jobs that set `size` themselves keep theirs).
    Directory {
        /// Where.
        directory: String,
        /// Default size of each job's file, bytes.
        file_size: u64,
    },
}

/// What [`JobFile::compose`] puts into each job, over whatever the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialSettings {
    /// Where the I/O goes.
    pub place: Place,
    /// Run time of each job; `None` keeps what the file says.
    pub runtime: Option<Duration>,
    /// Time before counting starts; `None` keeps what the file says.
    pub ramp: Option<Duration>,
    /// Seed of fio's random offsets: equal within a round, so that arms meet the same offsets.
    pub seed: u64,
}

impl JobFile {
    /// Why it can never have the number that is to decide; `None` if it can.
    pub fn lacks(&self, objective: Objective) -> Option<&'static str> {
        match objective {
            Objective::Fairness if self.workers() < 2 => Some("it has one worker"),
            Objective::ReadMean | Objective::ReadP99 if !self.reads() => Some("it reads nothing"),
            Objective::Tps => Some("it makes no transactions"),
            Objective::NumberHigher | Objective::NumberLower => Some("it prints no number"),
            Objective::Time => Some("it runs for a time that is given"),
            _ => None,
        }
    }

    /// Reads and checks a job file. `file` is what errors call it.
    pub fn parse(file: &str, text: &str) -> Result<JobFile, JobFileError> {
        let mut globals = Vec::new();
        let mut jobs: Vec<Job> = Vec::new();
        let mut in_global = false;
        for (index, raw) in text.lines().enumerate() {
            let line = index + 1;
            let syntax = |cause| JobFileError::Syntax {
                file: file.into(),
                line,
                text: raw.trim().into(),
                cause,
            };
            let content = without_comment(raw.trim_start_matches('\u{feff}')).trim();
            if content.is_empty() || content.starts_with(['#', ';']) {
                continue;
            }
            if let Some(rest) = content.strip_prefix('[') {
                let name = rest
                    .split_once(']')
                    .map(|(name, _)| name.trim())
                    .ok_or_else(|| syntax("the section's ] is missing"))?;
                in_global = name == "global";
                if !in_global {
                    check_section_name(name).map_err(syntax)?;
                    // What a [global] section says holds for the jobs after it.
                    jobs.push(Job {
                        name: name.into(),
                        assignments: globals.clone(),
                    });
                }
                continue;
            }
            let assignment = read_assignment(line, content).map_err(syntax)?;
            check(file, &assignment)?;
            match jobs.last_mut() {
                _ if in_global => globals.push(assignment),
                Some(job) => job.assignments.push(assignment),
                None => return Err(syntax("an option before any [section]")),
            }
        }
        if jobs.is_empty() {
            return Err(JobFileError::NoJobs { file: file.into() });
        }
        Ok(JobFile { jobs })
    }

    /// True if any job writes or trims.
    pub fn writes(&self) -> bool {
        self.jobs
            .iter()
            .any(|job| direction_writes(job.last("rw", "readwrite").unwrap_or("read")))
    }

    /// True if any job reads.
    pub fn reads(&self) -> bool {
        self.jobs.iter().any(|job| {
            let direction = job.last("rw", "readwrite").unwrap_or("read");
            !matches!(
                direction.split(':').next(),
                Some("write" | "randwrite" | "trim" | "randtrim" | "trimwrite" | "randtrimwrite")
            )
        })
    }

    /// True if any job trims.
    pub fn trims(&self) -> bool {
        self.jobs.iter().any(|job| {
            job.last("rw", "readwrite")
                .is_some_and(|rw| rw.contains("trim"))
        })
    }

    /// Names of the jobs in the order of the file.
    pub fn job_names(&self) -> impl Iterator<Item = &str> {
        self.jobs.iter().map(|job| job.name.as_str())
    }

    /// How many workers fio starts: the sum of `numjobs`.
    pub fn workers(&self) -> u64 {
        self.jobs
            .iter()
            .map(|job| {
                job.last("numjobs", "numjobs")
                    .and_then(|n| n.parse().ok())
                    .unwrap_or(1)
            })
            .sum()
    }

    /// How long a trial lasts at the most by the file's own words and the settings: jobs run side
    /// by side, a `stonewall` job after all before it.
    pub fn duration(&self, settings: &TrialSettings) -> Duration {
        let mut total = Duration::ZERO;
        let mut side_by_side = Duration::ZERO;
        for job in &self.jobs {
            let seconds = |key: &str| job.last(key, key).and_then(parse_time).unwrap_or_default();
            let runtime = settings.runtime.unwrap_or_else(|| seconds("runtime"));
            let ramp = settings.ramp.unwrap_or_else(|| seconds("ramp_time"));
            let this = seconds("startdelay") + ramp + runtime;
            if job.has("stonewall") || job.has("wait_for_previous") {
                total += side_by_side;
                side_by_side = this;
            } else {
                side_by_side = side_by_side.max(this);
            }
        }
        total + side_by_side
    }

    /// True if every job says how long it runs.
    pub fn has_runtime(&self) -> bool {
        self.jobs.iter().all(|job| job.has("runtime"))
    }

    /// The job file that fio gets for a trial.
    pub fn compose(&self, settings: &TrialSettings) -> String {
        self.compose_with(settings, &[])
    }

    /// The job file that writes the test files of a directory and does nothing else.
    pub fn compose_layout(&self, settings: &TrialSettings) -> String {
        let mut file = self.clone();
        for job in &mut file.jobs {
            // The first one that has its file must not end the others.
            job.assignments.retain(|given| given.key != "exitall");
        }
        file.compose_with(settings, &[("create_only", "1")])
    }

    /// The same for jobs that make their files: nothing is written before.
    pub fn compose_new(&self, settings: &TrialSettings) -> String {
        self.compose_with(settings, &[("overwrite", "0"), ("create_on_open", "1")])
    }

    fn compose_with(&self, settings: &TrialSettings, last: &[(&str, &str)]) -> String {
        let mut text = String::new();
        for job in &self.jobs {
            let _ = writeln!(text, "[{}]", job.name);
            let mut put = |key: &str, value: &str| {
                let _ = writeln!(text, "{key}={value}");
            };
            put("ioengine", "libaio");
            put("direct", "1");
            if let Place::Directory { file_size, .. } = &settings.place {
                put("size", &file_size.to_string());
            }
            for assignment in &job.assignments {
                match &assignment.value {
                    Some(value) => put(&assignment.key, value),
                    None => put(&assignment.key, "1"),
                }
            }
            match &settings.place {
                Place::Path(path) => put("filename", &path.replace(':', "\\:")),
                Place::Directory { directory, .. } => {
                    put("directory", &directory.replace(':', "\\:"));
                    // Files are written in full before the first trial, and only overwritten then:
                    // reads of holes and first writes would measure the file system's allocator.
                    put("fallocate", "none");
                    put("overwrite", "1");
                    put("unlink", "0");
                }
            }
            if let Some(runtime) = settings.runtime {
                put("runtime", &format!("{}ms", runtime.as_millis()));
                put("time_based", "1");
            }
            if let Some(ramp) = settings.ramp {
                put("ramp_time", &format!("{}ms", ramp.as_millis()));
            }
            put("randseed", &settings.seed.to_string());
            // Threads of one process: they die with it, and each still has its own io context.
            put("thread", "1");
            put("group_reporting", "0");
            for (key, value) in last {
                put(key, value);
            }
            text.push('\n');
        }
        text
    }
}

impl Job {
    /// The value that fio would use: the last one given, under the option's name or its alias.
    fn last(&self, key: &str, alias: &str) -> Option<&str> {
        self.assignments
            .iter()
            .rev()
            .find(|assignment| assignment.key == key || assignment.key == alias)
            .and_then(|assignment| assignment.value.as_deref())
    }

    fn has(&self, key: &str) -> bool {
        self.assignments
            .iter()
            .any(|assignment| assignment.key == key && assignment.value.as_deref() != Some("0"))
    }
}

/// The line up to a comment: `#` or `;` at its beginning or after a blank.
fn without_comment(line: &str) -> &str {
    let starts = |(at, c): &(usize, char)| {
        matches!(c, '#' | ';') && line[..*at].chars().last().is_none_or(char::is_whitespace)
    };
    line.char_indices()
        .find(starts)
        .map_or(line, |(at, _)| &line[..at])
}

fn check_section_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("the section has no name");
    }
    if name.len() > 64 || name.chars().any(|c| c.is_control() || c == '/' || c == '$') {
        return Err("a section's name is at most 64 characters, without / and $");
    }
    Ok(())
}

fn read_assignment(line: usize, content: &str) -> Result<Assignment, &'static str> {
    // fio starts a comment at # or ; only where a line begins, but a value with one is an accident.
    let (key, value) = match content.split_once('=') {
        Some((key, value)) => (key.trim(), Some(value.trim().to_owned())),
        None => (content, None),
    };
    if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err("this is not option=value");
    }
    if value
        .as_deref()
        .is_some_and(|value| value.contains(['$', '`']))
    {
        return Err("variables and commands in values are not supported");
    }
    Ok(Assignment {
        line,
        key: key.to_ascii_lowercase(),
        value,
    })
}

/// The rule which options may be in a load: what is known to stay inside the target passes, what
/// is known to reach beyond it is refused with the reason, everything else is refused by name.
fn check(file: &str, assignment: &Assignment) -> Result<(), JobFileError> {
    let Assignment { line, key, value } = assignment;
    if let Some((_, cause)) = DANGEROUS.iter().find(|(option, _)| option == key) {
        return Err(JobFileError::Dangerous {
            file: file.into(),
            line: *line,
            option: key.clone(),
            cause,
        });
    }
    if HARMLESS.binary_search(&key.as_str()).is_err() {
        return Err(JobFileError::Unsupported {
            file: file.into(),
            line: *line,
            option: key.clone(),
        });
    }
    let given = value.as_deref().unwrap_or("1");
    let bad = |cause: String| JobFileError::BadValue {
        file: file.into(),
        line: *line,
        option: key.clone(),
        value: given.into(),
        cause,
    };
    match key.as_str() {
        "ioengine" if !ENGINES.contains(&given) => Err(bad(format!(
            "engines that do block I/O on the target are {}",
            ENGINES.join(", ")
        ))),
        "rw" | "readwrite" if !DIRECTIONS.contains(&given.split(':').next().unwrap_or("")) => {
            Err(bad(format!("known are {}", DIRECTIONS.join(", "))))
        }
        "numjobs"
            if given
                .parse::<u64>()
                .ok()
                .is_none_or(|n| !(1..=4096).contains(&n)) =>
        {
            Err(bad("a number from 1 to 4096 is wanted".into()))
        }
        "runtime" | "ramp_time" | "startdelay" if parse_time(given).is_none() => {
            Err(bad("a time such as 10, 10s or 500ms is wanted".into()))
        }
        _ => Ok(()),
    }
}

/// fio's time: a number in seconds, or with `us`, `ms`, `s`, `m`, `h`, `d`.
fn parse_time(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    let micros: u64 = match text[digits..].trim() {
        "" | "s" => 1_000_000,
        "us" | "usec" => 1,
        "ms" | "msec" => 1_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    Some(Duration::from_micros(number.checked_mul(micros)?))
}

fn direction_writes(rw: &str) -> bool {
    !matches!(rw.split(':').next(), Some("read" | "randread"))
}

const ENGINES: &[&str] = &[
    "libaio", "io_uring", "psync", "sync", "vsync", "pvsync", "pvsync2", "posixaio", "mmap",
];

const DIRECTIONS: &[&str] = &[
    "read",
    "write",
    "randread",
    "randwrite",
    "rw",
    "readwrite",
    "randrw",
    "trim",
    "randtrim",
    "trimwrite",
    "randtrimwrite",
];

/// Options that could write elsewhere than the target, run programs, or change what is measured.
const DANGEROUS: &[(&str, &str)] = &[
    (
        "ioscheduler",
        "it would switch the scheduler under the trial",
    ),
    ("filename", "it could write elsewhere than the target"),
    ("directory", "it could write elsewhere than the target"),
    (
        "filename_format",
        "it could write elsewhere than the target",
    ),
    ("opendir", "it could write elsewhere than the target"),
    ("include", "it reads another file, which is not checked"),
    ("exec_prerun", "it runs a program"),
    ("exec_postrun", "it runs a program"),
    (
        "replay_redirect",
        "it could write elsewhere than the target",
    ),
    ("read_iolog", "it could write elsewhere than the target"),
    ("write_iolog", "it writes a file outside the target"),
    ("write_bw_log", "it writes a file outside the target"),
    ("write_lat_log", "it writes a file outside the target"),
    ("write_hist_log", "it writes a file outside the target"),
    ("write_iops_log", "it writes a file outside the target"),
    ("bwavgtime", "it belongs to log files, which are refused"),
    ("write_global", "it writes a file outside the target"),
    ("aux-path", "it writes files outside the target"),
    ("trigger_file", "it runs a program"),
    ("trigger", "it runs a program"),
    ("verify_state_save", "it writes a file outside the target"),
    ("verify_state_load", "it reads a file outside the target"),
    ("buffer_pattern", "it can read any file of the machine"),
    ("hostname", "it opens a network connection"),
    ("uid", "use --user of iosched instead"),
    ("gid", "use --user of iosched instead"),
    (
        "allow_mounted_write",
        "it takes away fio's own guard of mounted disks",
    ),
    ("kb_base", "it changes the units of the result"),
    ("unit_base", "it changes the units of the result"),
    ("group_reporting", "results are wanted job by job"),
];

/// Options that stay inside the target. Sorted, for the search.
const HARMLESS: &[&str] = &[
    "atomic",
    "blockalign",
    "blocksize",
    "blocksize_range",
    "blocksize_unaligned",
    "bs",
    "bs_is_seq_rand",
    "bs_unaligned",
    "bsrange",
    "bssplit",
    "buffer_compress_chunk",
    "buffer_compress_percentage",
    "buffered",
    "clat_percentiles",
    "clocksource",
    "cmdprio_percentage",
    "continue_on_error",
    "cpus_allowed",
    "cpus_allowed_policy",
    "create_fsync",
    "create_on_open",
    "create_serialize",
    "dedupe_percentage",
    "direct",
    "disable_clat",
    "disable_slat",
    "do_verify",
    "end_fsync",
    "exitall",
    "fadvise_hint",
    "fallocate",
    "fdatasync",
    "file_service_type",
    "filesize",
    "fill_device",
    "fill_fs",
    "fixedbufs",
    "flow",
    "flow_id",
    "flow_sleep",
    "fsync",
    "fsync_on_close",
    "gtod_reduce",
    "hipri",
    "invalidate",
    "io_size",
    "io_submit_mode",
    "iodepth",
    "iodepth_batch",
    "iodepth_batch_complete",
    "iodepth_batch_complete_max",
    "iodepth_batch_complete_min",
    "iodepth_batch_submit",
    "iodepth_low",
    "ioengine",
    "latency_percentile",
    "latency_run",
    "latency_target",
    "latency_window",
    "lockmem",
    "log_avg_msec",
    "loops",
    "max_latency",
    "new_group",
    "nice",
    "norandommap",
    "nowait",
    "nr_files",
    "nrfiles",
    "number_ios",
    "numjobs",
    "offset",
    "offset_align",
    "offset_increment",
    "openfiles",
    "overwrite",
    "percentage_random",
    "percentage_sequential",
    "percentile_list",
    "pre_read",
    "prio",
    "prio_class",
    "prioclass",
    "priolevel",
    "ramp_time",
    "random_distribution",
    "random_generator",
    "randrepeat",
    "randseed",
    "rate",
    "rate_cycle",
    "rate_iops",
    "rate_iops_min",
    "rate_min",
    "rate_process",
    "read_beyond_wp",
    "readwrite",
    "refill_buffers",
    "registerfiles",
    "runtime",
    "rw",
    "rw_sequencer",
    "rwmixread",
    "rwmixwrite",
    "scramble_buffers",
    "serialize_overlap",
    "significant_figures",
    "size",
    "slat_percentiles",
    "softrandommap",
    "ss",
    "ss_dur",
    "ss_ramp",
    "startdelay",
    "steadystate",
    "steadystate_duration",
    "steadystate_ramp_time",
    "stonewall",
    "sync",
    "sync_file_range",
    "thinktime",
    "thinktime_blocks",
    "thinktime_blocks_type",
    "thinktime_iotime",
    "thinktime_spin",
    "thread",
    "time_based",
    "timeout",
    "trim_backlog",
    "trim_percentage",
    "unlink",
    "userspace_reap",
    "verify",
    "verify_fatal",
    "verify_interval",
    "wait_for",
    "wait_for_previous",
    "write_barrier",
    "zero_buffers",
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn settings() -> TrialSettings {
        TrialSettings {
            place: Place::Path("/dev/loop9".into()),
            runtime: Some(Duration::from_secs(10)),
            ramp: None,
            seed: 7,
        }
    }

    #[test]
    fn the_harmless_options_are_sorted_for_the_search_and_none_is_dangerous() {
        assert!(HARMLESS.is_sorted(), "keep the list sorted");
        for (option, _) in DANGEROUS {
            assert!(HARMLESS.binary_search(option).is_err(), "{option}");
        }
    }

    #[test]
    fn the_target_the_seed_and_the_run_time_stand_last_where_fio_lets_them_win() {
        let file = JobFile::parse("j", "[global]\nbs=4k\n[a]\nrw=randread\nruntime=99\n").unwrap();
        let text = file.compose(&settings());
        let own = text.find("runtime=99").unwrap();
        assert!(text.find("runtime=10000ms").unwrap() > own, "{text}");
        assert!(text.contains("filename=/dev/loop9\n"), "{text}");
        assert!(
            text.contains("randseed=7\n") && text.contains("thread=1\n"),
            "{text}"
        );
    }

    #[test]
    fn each_job_gets_the_globals_that_stand_before_it_and_not_those_after() {
        let text = "[global]\nbs=4k\n[a]\nrw=read\n[global]\nbs=8k\n[b]\nrw=read\n";
        let file = JobFile::parse("j", text).unwrap();
        assert_eq!(file.jobs[0].last("bs", "blocksize"), Some("4k"));
        assert_eq!(file.jobs[1].last("bs", "blocksize"), Some("8k"));
    }

    #[test]
    fn an_option_that_reaches_beyond_the_target_is_refused_by_name_and_line() {
        for (option, line) in [
            ("filename=/etc/passwd", 3),
            ("ioscheduler=bfq", 3),
            ("exec_prerun=rm -rf /", 3),
            ("write_bw_log=x", 3),
            ("directory=/", 3),
        ] {
            let text = format!("[a]\nrw=read\n{option}\n");
            let error = JobFile::parse("my.fio", &text).unwrap_err();
            let name = option.split('=').next().unwrap();
            assert!(
                matches!(&error, JobFileError::Dangerous { option, line: l, .. } if option == name && *l == line),
                "{error}"
            );
        }
    }

    #[test]
    fn an_unknown_option_an_engine_and_a_direction_are_refused_by_name() {
        let refused = |text: &str| JobFile::parse("j", text).unwrap_err().to_string();
        assert_eq!(
            refused("[a]\nrw=read\nfrobnicate=1\n"),
            "j:3: option frobnicate is not supported in a load"
        );
        assert!(refused("[a]\nioengine=exec\n").starts_with("j:2: ioengine=exec is not supported"));
        assert!(refused("[a]\nrw=upward\n").starts_with("j:2: rw=upward is not supported"));
        assert!(refused("[a]\nbs=${HOME}\n").contains("variables"));
        assert!(refused("[global]\nbs=4k\n").contains("no job in it"));
    }

    #[test]
    fn who_writes_is_known_from_the_last_direction_given() {
        let writes = |text: &str| JobFile::parse("j", text).unwrap().writes();
        assert!(!writes("[a]\nrw=randread\n"));
        assert!(writes("[a]\nrw=read\n[b]\nrw=randwrite\n"));
        assert!(writes("[a]\nrw=read\nreadwrite=rw\n"));
        assert!(writes("[a]\nrw=randtrim\n"));
        assert!(!writes("[a]\nbs=4k\n"), "fio's default is read");
    }

    #[test]
    fn comments_after_a_value_and_a_byte_order_mark_are_passed_over() {
        let text = "\u{feff}[a] # first\nrw=randwrite ; of all\nbs=4k\t# small\n;rw=read\n";
        let file = JobFile::parse("j", text).unwrap();
        assert!(file.writes() && !file.reads());
        assert_eq!(file.jobs[0].last("bs", "blocksize"), Some("4k"));
    }

    #[test]
    fn a_stonewall_starts_after_everything_before_it() {
        let text = "[a]\nruntime=10\n[b]\nruntime=20\nstartdelay=5\n[c]\nstonewall\nruntime=1m\n";
        let file = JobFile::parse("j", text).unwrap();
        let own = TrialSettings {
            runtime: None,
            ..settings()
        };
        assert_eq!(file.duration(&own), Duration::from_secs(85));
        assert_eq!(file.duration(&settings()), Duration::from_secs(15 + 10));
    }

    #[test]
    fn a_colon_in_a_path_is_escaped_because_fio_splits_there() {
        let file = JobFile::parse("j", "[a]\nrw=read\n").unwrap();
        let place = Place::Path("/dev/disk/by-path/pci-0000:00".into());
        let text = file.compose(&TrialSettings {
            place,
            ..settings()
        });
        assert!(
            text.contains("filename=/dev/disk/by-path/pci-0000\\:00\n"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,200}(\\n\\PC{0,80}){0,8}") {
            let _ = JobFile::parse("fuzz", &text);
        }

        #[test]
        fn what_is_composed_can_be_read_again_but_for_our_own_options(
            bs in 1u32..64, depth in 1u32..64, direction in 0usize..7,
        ) {
            let text = format!("[a]\nrw={}\nbs={bs}k\niodepth={depth}\n", DIRECTIONS[direction]);
            let file = JobFile::parse("j", &text).unwrap();
            let composed = file.compose(&settings());
            for line in text.lines() {
                prop_assert!(composed.lines().any(|other| other == line));
            }
        }
    }
}
