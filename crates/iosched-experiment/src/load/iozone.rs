//! One test of the sweep, run by iozone itself.
//!
//! Follows `iozone -h` (3.489) and what it was seen to do (`strace`): in its mixed workload every
//! other thread, the first among them, reads at random and the others write at random; with `-+p` all
//! of them do the one or the other, so that each test is a run of its own. All threads take the same
//! random order. What a thread did until the first one was ready counts, its `fsync` included.
//! It refuses to read what it did not write, so it makes the files, too.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use iosched_machine::failure::{Failure, exit};
use iosched_machine::process::{self, ChildError, Finished, Stop};
use serde::{Deserialize, Serialize};

use super::{Kept, Load, LoadError, Outcome, Turn, Workplace, files};
use crate::metrics::{Flow, JobResult};
use crate::objective::Objective;

const PROGRAM: &str = "iozone";

/// A run that hangs is killed after this time, where the user does not say (`--timeout`).
const LONGEST: Duration = Duration::from_secs(6 * 3600);

/// iozone's records are whole pages: of other sizes it cannot use `O_DIRECT`.
const PAGE: u64 = 4096;

/// `MAXBUFFERSIZE` of iozone.
const LARGEST_RECORD: u64 = 16 << 20;

/// A test of the sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// New files, in order.
    InitialWrite,
    /// The same files again, in order.
    Rewrite,
    /// Every record once, in random order.
    RandomRead,
    /// The first, third, … thread reads at random, the others write at random.
    Mixed,
    /// Every record once, in random order.
    RandomWrite,
}

impl Test {
    /// What makes iozone run this test and no other.
    fn options(self) -> &'static [&'static str] {
        match self {
            Test::InitialWrite => &["-i", "0", "-+n"],
            Test::Rewrite => &["-i", "0", "-+n", "-+N"],
            Test::RandomRead => &["-i", "8", "-+p", "100"],
            Test::Mixed => &["-i", "8"],
            Test::RandomWrite => &["-i", "8", "-+p", "0"],
        }
    }

    /// True if a thread (counted from 0) reads.
    pub(super) fn reads(self, thread: u32) -> bool {
        match self {
            Test::RandomRead => true,
            Test::Mixed => thread.is_multiple_of(2),
            Test::InitialWrite | Test::Rewrite | Test::RandomWrite => false,
        }
    }
}

/// A test with its sizes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IozoneSettings {
    /// The test of the sweep.
    pub test: Test,
    /// Side by side, each with a file of its own.
    pub threads: u32,
    /// Bytes of each file.
    pub size: u64,
    /// Bytes of an access.
    pub record: u64,
    /// The directory of the files, which the tests of a sweep share.
    pub directory: String,
    /// Bytes of all files in it.
    pub bytes: u64,
}

/// Why iozone gave no result.
#[derive(Debug, thiserror::Error)]
pub enum IozoneError {
    /// It is not there, hung, or we were interrupted.
    #[error(transparent)]
    Child(#[from] ChildError),
    #[error("iozone failed with {status}: {message}")]
    Failed {
        status: String,
        /// The last lines it wrote.
        message: String,
    },
    #[error("iozone printed no throughput of its threads: {printed}")]
    NoResult {
        /// The last lines it wrote.
        printed: String,
    },
    #[error("cannot use the files of the load")]
    Files(#[source] io::Error),
}

impl IozoneError {
    /// True if another trial would fail the same way.
    pub(crate) fn ends_the_run(&self) -> bool {
        matches!(
            self,
            IozoneError::Child(ChildError::Stopped | ChildError::Missing { .. })
        )
    }
}

impl Failure for IozoneError {
    fn hint(&self) -> Option<String> {
        match self {
            IozoneError::Child(ChildError::Missing { .. }) => Some(
                "install it: apt install iozone3 (Debian's non-free, Ubuntu's multiverse); or let fio \
                 do the same: five-tests:driver=fio"
                    .into(),
            ),
            _ => None,
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            IozoneError::Child(ChildError::Missing { .. }) => exit::MISSING,
            IozoneError::Child(ChildError::Stopped) => exit::INTERRUPTED,
            _ => exit::LOAD_FAILED,
        }
    }
}

/// True if it is on PATH.
pub(crate) fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|place| place.join(PROGRAM).is_file())
}

/// True if it can work with records of this size.
pub(crate) fn takes(record: u64) -> bool {
    record.is_multiple_of(PAGE) && record <= LARGEST_RECORD
}

/// A test, and iozone to run it.
#[derive(Debug)]
pub(crate) struct IozoneLoad {
    settings: IozoneSettings,
}

impl IozoneLoad {
    /// The load of these settings.
    pub(crate) fn new(settings: &IozoneSettings) -> IozoneLoad {
        IozoneLoad {
            settings: settings.clone(),
        }
    }

    fn directory(&self, at: &Workplace<'_>) -> PathBuf {
        at.directory_of(&self.settings.directory)
    }

    /// Runs it on these files; what it says goes through without a judgement.
    fn run_on(
        &self,
        at: &Workplace<'_>,
        test: Test,
        files: &[String],
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Finished, IozoneError> {
        let IozoneSettings { size, record, .. } = self.settings;
        let kilobytes = |bytes: u64| format!("{}k", bytes / 1024);
        let mut command = Command::new(PROGRAM);
        command.current_dir(self.directory(at));
        // O_DIRECT; fsync counts; each thread's own numbers; no more than what is asked.
        command.args(["-I", "-e", "-C", "-w"]);
        command.args(["-s", &kilobytes(size), "-r", &kilobytes(record)]);
        command.args(["-t", &files.len().to_string()]);
        command.args(test.options()).arg("-F").args(files);
        let limit = at.trial_limit.unwrap_or(LONGEST);
        let finished = at.scope.run(command, limit, at.stop, tick)?;
        if finished.status.success() {
            return Ok(finished);
        }
        Err(IozoneError::Failed {
            status: process::describe(finished.status),
            message: last_words(&finished),
        })
    }

    /// Makes the files one after the other, so that each lies together as fio would lay it.
    fn make_files(&self, at: &Workplace<'_>, say: &mut dyn FnMut(&str)) -> Result<(), IozoneError> {
        let directory = self.directory(at);
        files::make_directory(&directory, at.user()).map_err(IozoneError::Files)?;
        let is_missing = |file: &String| {
            let length = files::length(&directory, file, at.user());
            length.ok() != Some(self.settings.size)
        };
        let names = names(self.settings.threads).into_iter();
        let missing: Vec<String> = names.filter(is_missing).collect();
        if self.settings.test == Test::InitialWrite || missing.is_empty() {
            return Ok(());
        }
        say("writing test files for iozone");
        for file in missing {
            let made = self.run_on(at, Test::InitialWrite, &[file], &mut |_| {})?;
            results(&made, Test::InitialWrite, self.settings.record)?;
        }
        Ok(())
    }
}

/// The names of the threads' files.
fn names(threads: u32) -> Vec<String> {
    (1..=threads)
        .map(|thread| format!("thread-{thread}"))
        .collect()
}

fn last_words(finished: &Finished) -> String {
    let said = format!("{}\n{}", finished.stdout, finished.stderr);
    let is_telling = |line: &&str| line.contains("rror") || line.contains("Can");
    let telling: Vec<&str> = said.lines().filter(is_telling).collect();
    match telling.first() {
        Some(first) => (*first).trim().to_owned(),
        None => process::last_lines(&said, 3),
    }
}

/// What each thread did: the lines `Child[0] xfer count = 98304.00 kB, Throughput = 36398.48 kB/sec`.
pub(crate) fn results(
    finished: &Finished,
    test: Test,
    record: u64,
) -> Result<Vec<JobResult>, IozoneError> {
    let lines = finished.stdout.lines().map(str::trim);
    let children = lines.filter(|line| line.starts_with("Child["));
    let jobs: Option<Vec<JobResult>> = children
        .zip(0..)
        .map(|(line, thread)| {
            let mut numbers = line.split('=').skip(1).filter_map(|part| {
                let number: f64 = part.trim().split(' ').next()?.parse().ok()?;
                (number > 0.0).then_some(number * 1024.0)
            });
            Some(job(test, thread, record, numbers.next()?, numbers.next()?))
        })
        .collect();
    jobs.filter(|jobs| !jobs.is_empty())
        .ok_or_else(|| IozoneError::NoResult {
            printed: last_words(finished),
        })
}

fn job(test: Test, thread: u32, record: u64, bytes: f64, bytes_per_s: f64) -> JobResult {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number of kB, and not negative"
    )]
    let bytes = bytes as u64;
    let flow = Some(Flow {
        ios: bytes / record,
        bytes,
        bytes_per_s,
        iops: bytes_per_s / record as f64,
        // It times threads, not accesses.
        latency_mean_ns: 0.0,
        latency_max_ns: 0,
        latency_bins: Vec::new(),
    });
    let (read, write) = if test.reads(thread) {
        (flow, None)
    } else {
        (None, flow)
    };
    JobResult {
        name: format!("thread-{}", thread + 1),
        read,
        write,
        trim: None,
        transactions: None,
    }
}

impl Load for IozoneLoad {
    fn needs_directory(&self) -> bool {
        true
    }

    fn programs(&self) -> Result<Vec<String>, LoadError> {
        let mut command = Command::new(PROGRAM);
        command.arg("-v");
        let limit = Duration::from_secs(30);
        let finished = process::run(command, limit, &Stop::new(), &mut |_| {});
        let finished = finished.map_err(IozoneError::from)?;
        let revision = finished.stdout.split("$Revision:").nth(1);
        let revision = revision.and_then(|rest| rest.split_whitespace().next());
        Ok(vec![format!(
            "iozone {}",
            revision.unwrap_or("of unknown version")
        )])
    }

    fn kept(&self, _file_size: u64) -> Vec<Kept> {
        Kept::in_directory(&self.settings.directory, self.settings.bytes)
    }

    fn lacks(&self, objective: Objective) -> Option<&'static str> {
        match objective {
            Objective::Time => Some("iozone waits for some seconds of its own"),
            Objective::Fairness if self.settings.threads < 2 => Some("it has one thread"),
            Objective::Fairness | Objective::Throughput | Objective::Iops | Objective::Cpu => None,
            Objective::Tps => Some("it makes no transactions"),
            Objective::NumberHigher | Objective::NumberLower => Some("it prints no such number"),
            _ => Some("iozone does not time single accesses: use five-tests:driver=fio"),
        }
    }

    fn prepare(&mut self, at: &Workplace<'_>, say: &mut dyn FnMut(&str)) -> Result<(), LoadError> {
        Ok(self.make_files(at, say)?)
    }

    fn reset(&mut self, at: &Workplace<'_>, _turn: &Turn<'_>) -> Result<(), LoadError> {
        if self.settings.test == Test::InitialWrite {
            files::remove_files(&self.directory(at), at.user()).map_err(IozoneError::Files)?;
        }
        Ok(())
    }

    fn run(
        &mut self,
        at: &Workplace<'_>,
        _turn: &Turn<'_>,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError> {
        let IozoneSettings { test, record, .. } = self.settings;
        let finished = self.run_on(at, test, &names(self.settings.threads), tick)?;
        Ok(Outcome {
            jobs: results(&finished, test, record)?,
            ..Outcome::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(stdout: &str) -> Finished {
        Finished {
            status: std::process::ExitStatus::default(),
            stdout: stdout.into(),
            stderr: String::new(),
            elapsed: Duration::from_secs(1),
        }
    }

    const MIXED: &str = "\
\tChildren see throughput for 2 mixed workload \t=   87692.53 kB/sec
\tMin xfer \t\t\t\t\t=   47104.00 kB
\tChild[0] xfer count =   47104.00 kB, Throughput =   28441.53 kB/sec
\tChild[1] xfer count =   98304.00 kB, Throughput =   59251.00 kB/sec
iozone test complete.
";

    #[test]
    fn each_threads_bytes_and_rate_are_read_and_every_other_one_reads() {
        let jobs = results(&finished(MIXED), Test::Mixed, 1 << 20).unwrap();
        let read = jobs[0].read.as_ref().unwrap();
        let write = jobs[1].write.as_ref().unwrap();
        assert_eq!((read.ios, read.bytes), (46, 47_104 << 10));
        assert_eq!((write.ios, write.bytes), (96, 98_304 << 10));
        assert!((write.bytes_per_s - 59_251.0 * 1024.0).abs() < 1.0);
    }

    #[test]
    fn a_thread_that_moved_nothing_is_an_error_though_iozone_ends_well() {
        let text = "Error in file: Found ?600000? Expecting ?5f5f?\n\
                    Child[0] xfer count = 0.00 kB, Throughput = 0.00 kB/sec\n";
        let error = results(&finished(text), Test::RandomRead, 4096).unwrap_err();
        assert_eq!(
            error.to_string(),
            "iozone printed no throughput of its threads: Error in file: Found ?600000? Expecting \
             ?5f5f?"
        );
        assert!(results(&finished(""), Test::RandomRead, 4096).is_err());
    }
}
