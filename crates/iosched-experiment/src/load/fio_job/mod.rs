//! fio job files: read, checked, and made into the file that a trial runs.
//!
//! A job file comes from us (the built-in loads) or from the user. In both cases fio never sees it
//! as written: `JobFile::parse` refuses by name and line every option that is not known to stay
//! inside the target, and `JobFile::compose` writes the sections anew with the target, the seed
//! and the run time of the trial put last, where fio lets them win.
//!
//! Follows fio's HOWTO ("Job file format", fio 3.33). Left out: `include`, options given on a
//! command line, environment variables in values.
//!
//! - `read`: lines to sections and options
//! - `allowed`: which options and values may be in a load
//! - `room`: how much its files take in a directory
//! - `compose`: the job file that fio gets
//! - `error`: why a job file cannot be a load

use std::time::Duration;

use iosched_sim::quantity;

use crate::objective::Objective;

mod allowed;
mod compose;
mod error;
mod read;
mod room;

pub use error::JobFileError;

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

/// Where a composed job file sends its I/O.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobTarget {
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
pub struct TrialSettings {
    /// Where the I/O goes.
    pub place: JobTarget,
    /// Run time of each job; `None` keeps what the file says.
    pub runtime: Option<Duration>,
    /// Time before counting starts; `None` keeps what the file says.
    pub ramp: Option<Duration>,
    /// Seed of fio's random offsets: equal within a round, so that arms meet the same offsets.
    pub seed: u64,
}

impl JobFile {
    /// Why it can never have the number that is to decide; `None` if it can.
    pub(crate) fn lacks(&self, objective: Objective) -> Option<&'static str> {
        match objective {
            Objective::Fairness if self.workers() < 2 => Some("it has one worker"),
            Objective::ReadMean | Objective::ReadP99 if !self.reads() => Some("it reads nothing"),
            Objective::Tps => Some("it makes no transactions"),
            Objective::NumberHigher | Objective::NumberLower => Some("it prints no number"),
            Objective::Time => Some("it runs for a time that is given"),
            Objective::Frames => Some("it shows no video"),
            _ => None,
        }
    }
    /// True if any job writes or trims.
    pub(crate) fn writes(&self) -> bool {
        self.jobs
            .iter()
            .any(|job| direction_writes(job.last("rw", "readwrite").unwrap_or("read")))
    }

    /// True if any job reads.
    pub(crate) fn reads(&self) -> bool {
        self.jobs.iter().any(|job| {
            let direction = job.last("rw", "readwrite").unwrap_or("read");
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
            let depth = job.number("iodepth", "iodepth").unwrap_or(1);
            if depth > 1 && job.is_asynchronous() {
                depth.saturating_mul(job.workers())
            } else {
                0
            }
        };
        self.jobs.iter().map(of_job).fold(0, u64::saturating_add)
    }

    /// How long a trial lasts at the most by the file's own words and the settings: jobs run side
    /// by side, a `stonewall` job after all before it.
    pub(crate) fn duration(&self, settings: &TrialSettings) -> Duration {
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
    pub(crate) fn has_runtime(&self) -> bool {
        self.jobs.iter().all(|job| job.has("runtime"))
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

    /// Whether an access is under way after the call that submits it: not through the page cache, nor with an engine
    /// that waits.
    fn is_asynchronous(&self) -> bool {
        let is_cached = self.last("direct", "direct") == Some("0") || self.has("buffered");
        let engine = self.last("ioengine", "ioengine");
        !is_cached && engine.is_none_or(|name| matches!(name, "libaio" | "io_uring" | "posixaio"))
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

fn direction_writes(rw: &str) -> bool {
    !matches!(rw.split(':').next(), Some("read" | "randread"))
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
            seed: 7,
        };
        assert_eq!(file.duration(&settings(None)), Duration::from_secs(85));
        let told = settings(Some(Duration::from_secs(10)));
        assert_eq!(file.duration(&told), Duration::from_secs(15 + 10));
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
