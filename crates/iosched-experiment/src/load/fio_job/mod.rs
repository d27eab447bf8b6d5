//! fio job files: read, checked, and made into the file that a trial runs.
//!
//! A job file comes from us (the built-in loads) or from the user. In both cases fio never sees it
//! as written: `JobFile::parse` leaves out what iosched sets itself, refuses by line what no load can be, and keeps the
//! rest; `JobFile::compose` writes the sections anew with the target, the seed and the run time of the trial put last,
//! where fio lets them win. That fio reaches nothing but the target does not depend on it ([`Reach`](iosched_machine::process::Reach)).
//!
//! Follows fio's HOWTO ("Job file format", fio 3.33).
//!
//! - `command_line`: a command line of fio as a job file
//! - `expand`: a file with what it includes, and with values of variables, as one text
//! - `read`: lines to sections and options
//! - `allowed`: what becomes of an option (the table is [`iosched_facts::fio`])
//! - `room`: how much its files take in a directory
//! - `stages`: which jobs run at the same time
//! - `compose`: the job file that fio gets

use std::fmt;
use std::time::Duration;

use iosched_facts::fio::{FioOption, Value};
use iosched_sim::quantity;

use crate::objective::Objective;

mod allowed;
pub(crate) mod command_line;
mod compose;
pub(crate) mod expand;
mod read;

pub(crate) use read::refusal;
mod room;
pub(crate) mod stages;

/// A job file whose every option may be run against a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobFile {
    jobs: Vec<Job>,
    /// Options that were left out, each with what is there instead.
    replaced: Vec<(String, &'static str)>,
}

/// One section other than `[global]`, with the globals that stood before it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Job {
    name: String,
    assignments: Vec<Assignment>,
}

/// `key=value`, or a bare `key`, and the line it stands on. The key is fio's name of the option, never its other one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Assignment {
    line: usize,
    key: String,
    value: Option<String>,
}

/// As fio reads it: whether an option may stand without a value, fio knows.
impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.key),
            None => f.write_str(&self.key),
        }
    }
}

impl Assignment {
    /// The same so that every fio understands it as it is meant: it takes `1h30m` for no time and 1.5 for 1, and a share of a
    /// file that we lay out is one of the size that it gets.
    fn plain(&self, place: &JobTarget) -> Assignment {
        let value = self.value.as_deref().unwrap_or_default();
        let kind = FioOption::find(&self.key).map(|option| option.value);
        let plain = match (kind, place) {
            (Some(Value::Time(unit)), _) if !value.bytes().all(|byte| byte.is_ascii_digit()) => {
                quantity::time(value, unit).map(|time| format!("{}us", time.as_nanos() / 1000))
            }
            (Some(Value::SizeOrShare), JobTarget::Directory { file_size, .. })
                if value.ends_with('%') =>
            {
                room::parse_size(value).map(|size| size.of(*file_size).to_string())
            }
            _ => None,
        };
        Assignment {
            value: plain.or_else(|| self.value.clone()),
            ..self.clone()
        }
    }
}

/// Where a composed job file sends its I/O.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobTarget {
    /// One block device or existing file, shared by all jobs.
    Path(String),
    /// A directory of our own, in which fio makes one file per job of the given size in bytes
    /// (jobs that set `size` themselves keep theirs).
    Directory {
        /// The file or directory concerned.
        directory: String,
        /// Default size of each job's file, bytes.
        file_size: u64,
    },
}

/// What `JobFile::compose` puts into each job, over whatever the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrialSettings {
    /// Where the I/O goes.
    pub place: JobTarget,
    /// Run time of each job; `None` keeps what the file says.
    pub runtime: Option<Duration>,
    /// Time before counting starts; `None` keeps what the file says.
    pub ramp: Option<Duration>,
    /// How much of the run time percentiles are of, where that is not all (`JobFile::counted`).
    pub counted: Option<Duration>,
    /// Seed of fio's random offsets: equal within a round, so that arms meet the same offsets.
    pub seed: u64,
    /// By how much, in bytes, offsets on a disk are moved: a drive's cache holds what the arm before read.
    pub shift: u64,
}

/// So long before the end of the run time fio is asked at least: it starts its workers, and asks them, when the
/// machine lets it.
const SHORTEST_REST: Duration = Duration::from_millis(500);

/// The most workers of whom fio is asked for one account more: each takes some 40 KiB of its output.
const MOST_ACCOUNTED: u64 = 64;

/// What of a trial percentiles are of: fio prints an account at its end, while the load still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountedWindow {
    /// Time before counting starts.
    pub ramp: Duration,
    /// How long is counted.
    pub counted: Duration,
    /// How long the load runs from then on.
    pub runtime: Duration,
}

impl JobFile {
    /// True if a job goes through the page cache.
    pub(crate) fn is_cached(&self) -> bool {
        self.jobs.iter().any(Job::is_cached)
    }

    /// Why it can never have the number that is to decide; `None` if it can.
    pub(crate) fn lacks(&self, objective: Objective) -> Option<&'static str> {
        match objective {
            Objective::Fairness if self.workers() < 2 => Some("it has one worker"),
            Objective::ReadMean | Objective::ReadP99 if !self.reads() => Some("it reads nothing"),
            Objective::Tps => Some("it makes no transactions"),
            Objective::NumberHigher | Objective::NumberLower => Some("it prints no number"),
            Objective::Time => Some("it runs for a time that is given"),
            _ => None,
        }
    }

    /// Which options were left out and what is there instead, in one line.
    pub(crate) fn remark(&self) -> Option<String> {
        let mut by_what: Vec<(&str, Vec<&str>)> = Vec::new();
        for (key, by) in &self.replaced {
            match by_what.iter_mut().find(|(other, _)| other == by) {
                Some((_, keys)) => keys.push(key),
                None => by_what.push((by, vec![key])),
            }
        }
        let parts = by_what.iter();
        let parts: Vec<String> = parts
            .map(|(by, keys)| format!("{}: replaced by {by}", keys.join(", ")))
            .collect();
        let says = |job: &Job| job.last("direct").or(job.last("buffered")).is_some();
        let silent = (!self.jobs.iter().all(says))
            .then(|| "without direct=1 fio reads and writes through the page cache".to_owned());
        let parts: Vec<String> = parts.into_iter().chain(silent).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Removes the option that fio refuses in these words, and gives its line, if that is known.
    pub(crate) fn remove_refused(&mut self, said: &str) -> Option<usize> {
        let mut all = self.jobs.iter().flat_map(|job| &job.assignments);
        let line = all.find(|given| said.contains(&given.to_string()))?.line;
        for job in &mut self.jobs {
            job.assignments.retain(|given| given.line != line);
        }
        Some(line)
    }

    /// True if any job writes or trims.
    pub(crate) fn writes(&self) -> bool {
        self.jobs.iter().any(Job::writes)
    }

    /// True if any job trims.
    pub(crate) fn trims(&self) -> bool {
        let direction = |job: &Job| job.last("rw").is_some_and(|rw| rw.contains("trim"));
        self.jobs.iter().any(direction)
    }

    /// True if any job reads.
    pub(crate) fn reads(&self) -> bool {
        self.jobs.iter().any(|job| {
            let direction = job.last("rw").unwrap_or("read");
            !matches!(
                direction.split(':').next(),
                Some("write" | "randwrite" | "trim" | "randtrim" | "trimwrite" | "randtrimwrite")
            )
        })
    }

    /// How many workers fio starts: the sum of `numjobs`.
    pub(crate) fn workers(&self) -> u64 {
        self.jobs
            .iter()
            .map(Job::workers)
            .fold(0, u64::saturating_add)
    }

    /// Accesses that can be under way when the run time is over, of workers that have several at a time. fio waits for
    /// all of such a worker's, and counts each as done when the last one is (fio 3.33, `do_io` in backend.c).
    pub(crate) fn under_way_at_the_end(&self) -> u64 {
        let of_job = |job: &Job| {
            let depth = job.number("iodepth").unwrap_or(1);
            if depth > 1 && job.is_asynchronous() {
                depth.saturating_mul(job.workers())
            } else {
                0
            }
        };
        self.jobs.iter().map(of_job).fold(0, u64::saturating_add)
    }

    /// How much of a trial's run time the percentiles of latencies are to be of, where that is not all: if accesses can be
    /// under way when it is over, what was completed shortly before, while the load still ran. `None` also where the
    /// jobs do not all run at the same time, and where the run time is too short.
    pub(crate) fn counted(&self, settings: &TrialSettings) -> Option<Duration> {
        let is_no_account_needed = self.under_way_at_the_end() == 0;
        if is_no_account_needed
            || self.workers() > MOST_ACCOUNTED
            || self.times_of_its_own().is_some()
        {
            return None;
        }
        self.common_time("ramp_time", settings.ramp)?;
        let runtime = self.common_time("runtime", settings.runtime)?;
        let rest = (runtime / 10).max(SHORTEST_REST);
        let counted = runtime.checked_sub(rest)?;
        (counted >= rest).then_some(counted)
    }

    /// An option by which the jobs do not all run at the same time.
    pub(crate) fn times_of_its_own(&self) -> Option<&'static str> {
        ["stonewall", "startdelay", "wait_for", "exitall"]
            .into_iter()
            .find(|key| self.jobs.iter().any(|job| job.has(key)))
    }

    /// When fio is to say what it has counted, in a trial of which not all counts.
    pub(super) fn counted_window(&self, settings: &TrialSettings) -> Option<CountedWindow> {
        Some(CountedWindow {
            ramp: self.common_time("ramp_time", settings.ramp)?,
            counted: settings.counted?,
            runtime: self.common_time("runtime", settings.runtime)?,
        })
    }

    /// A time that all jobs have in common: the trial's, or what the file says.
    fn common_time(&self, key: &str, of_trial: Option<Duration>) -> Option<Duration> {
        let of_job = |job: &Job| job.last(key).and_then(parse_time).unwrap_or_default();
        let mut of_jobs = self.jobs.iter().map(of_job);
        let first = of_trial.or_else(|| of_jobs.next())?;
        (of_trial.is_some() || of_jobs.all(|time| time == first)).then_some(first)
    }

    /// How long a trial lasts at the most by the file's own words and the settings: jobs run side
    /// by side, a `stonewall` job after all before it.
    pub(crate) fn duration(&self, settings: &TrialSettings) -> Duration {
        let mut total = Duration::ZERO;
        let mut side_by_side = Duration::ZERO;
        for job in &self.jobs {
            let seconds = |key: &str| job.last(key).and_then(parse_time).unwrap_or_default();
            let runtime = settings.runtime.unwrap_or_else(|| seconds("runtime"));
            let ramp = settings.ramp.unwrap_or_else(|| seconds("ramp_time"));
            let this = seconds("startdelay") + ramp + runtime;
            if job.has("stonewall") {
                total += side_by_side;
                side_by_side = this;
            } else {
                side_by_side = side_by_side.max(this);
            }
        }
        total + side_by_side
    }

    /// True if every job says how long it runs.
    pub(crate) fn has_runtime(&self) -> bool {
        self.jobs.iter().all(|job| job.has("runtime"))
    }
}

impl Job {
    /// The value that fio would use: the last one given.
    fn last(&self, key: &str) -> Option<&str> {
        self.given(key)?.value.as_deref()
    }

    fn given(&self, key: &str) -> Option<&Assignment> {
        let mut latest_first = self.assignments.iter().rev();
        latest_first.find(|assignment| assignment.key == key)
    }

    /// True if it writes or trims.
    fn writes(&self) -> bool {
        let rw = self.last("rw").unwrap_or("read");
        !matches!(rw.split(':').next(), Some("read" | "randread"))
    }

    /// Whether an access is under way after the call that submits it: not through the page cache, nor with an engine
    /// that waits.
    fn is_asynchronous(&self) -> bool {
        let is_cached = self.is_cached();
        let engine = self.last("ioengine");
        !is_cached && engine.is_some_and(|name| matches!(name, "libaio" | "io_uring" | "posixaio"))
    }

    /// Its accesses go through the page cache.
    fn is_cached(&self) -> bool {
        match (self.last("direct"), self.last("buffered")) {
            (Some(direct), _) => direct == "0",
            (None, Some(buffered)) => buffered != "0",
            (None, None) => true,
        }
    }

    fn has(&self, key: &str) -> bool {
        self.assignments
            .iter()
            .any(|assignment| assignment.key == key && assignment.value.as_deref() != Some("0"))
    }
}

/// fio's time: a number without a unit counts in seconds.
fn parse_time(text: &str) -> Option<Duration> {
    let time = quantity::time(text, 1_000_000_000)?;
    Some(Duration::from_nanos(time.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_stonewall_starts_after_everything_before_it() {
        let text = "[a]\nruntime=10\n[b]\nruntime=20\nstartdelay=5\n[c]\nstonewall\nruntime=1m\n";
        let file = JobFile::parse("j", text).unwrap();
        let settings = |runtime| TrialSettings {
            place: JobTarget::Path("/dev/loop9".into()),
            runtime,
            ramp: None,
            counted: None,
            seed: 7,
            shift: 0,
        };
        assert_eq!(file.duration(&settings(None)), Duration::from_secs(85));
        let told = settings(Some(Duration::from_secs(10)));
        assert_eq!(file.duration(&told), Duration::from_secs(15 + 10));
    }

    #[test]
    fn what_counts_ends_before_the_run_time_where_accesses_can_be_under_way_then() {
        let counted = |text: &str, runtime: Option<u64>| {
            let settings = TrialSettings {
                place: JobTarget::Path("/dev/loop9".into()),
                runtime: runtime.map(Duration::from_millis),
                ramp: None,
                counted: None,
                seed: 7,
                shift: 0,
            };
            let file = JobFile::parse("j", text).unwrap();
            file.counted(&settings).map(|counted| counted.as_millis())
        };
        let deep = "[a]\nioengine=libaio\ndirect=1\niodepth=32\n";
        assert_eq!(counted(deep, Some(60_000)), Some(54_000));
        assert_eq!(counted(deep, Some(2000)), Some(1500));
        assert_eq!(counted(deep, Some(999)), None, "too short");
        assert_eq!(counted("[a]\n", Some(60_000)), None, "one at a time");
        let many = format!("{deep}numjobs=65\n");
        assert_eq!(counted(&many, Some(60_000)), None, "too many workers");
        let with_a_runtime = format!("{deep}runtime=20\n[b]\n");
        assert_eq!(
            counted(&format!("{with_a_runtime}runtime=20\n"), None),
            Some(18_000)
        );
        assert_eq!(
            counted(&format!("{with_a_runtime}runtime=30\n"), None),
            None
        );
        assert_eq!(counted(&with_a_runtime, Some(10_000)), Some(9000));
        for own_times in [
            "stonewall\n",
            "startdelay=1\n",
            "exitall\n",
            "ramp_time=1\n",
        ] {
            let text = format!("{deep}[b]\n{own_times}");
            assert_eq!(counted(&text, Some(10_000)), None, "{own_times}");
        }
    }

    #[test]
    fn a_job_without_files_or_workers_is_refused() {
        for (text, words) in [
            (
                "[a]\nnrfiles=0\n",
                "nrfiles=0 is not supported in a load: a job without files does nothing",
            ),
            (
                "[a]\nnr_files=-1\n",
                "nr_files=-1 is not supported in a load: a number of files",
            ),
            (
                "[a]\nnumjobs=0\n",
                "numjobs=0 is not supported in a load: a number from 1 to 4096",
            ),
        ] {
            let error = JobFile::parse("j", text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
