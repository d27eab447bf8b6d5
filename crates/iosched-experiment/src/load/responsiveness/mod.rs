//! Responsiveness: how long a program takes to start, cold, beside readers and writers.
//!
//! What the S suite (P. Valente, github.com/Algodev-github/S) measures as `comm_startup_lat`: while streams read
//! and write files, a program is started several times with none of its files in memory, and the mean time from
//! its start to its end is what counts. The program's own files are read through the page cache and the file system, as
//! any program's are; the streams go past the page cache (`O_DIRECT`), which a stream of reads would otherwise
//! soon live on.

pub(in crate::load) mod program;
pub(in crate::load) mod start;
mod streams;

use std::process::Command;
use std::thread::{Builder, ScopedJoinHandle};
use std::time::{Duration, Instant};

use iosched_machine::host::Host;
use iosched_machine::process::{self, Session, Stop};
use serde::{Deserialize, Serialize};

use self::program::Program;
use super::command::CommandError;
use super::fio::{self, FioError};
use super::fio_job::{JobFile, JobFileError, JobTarget, TrialSettings};
use super::settings::{self, SettingError};
use super::{Kept, Load, LoadError, Outcome, Turn, Workplace, files, lacks_if_untimed, words};
use crate::objective::Objective;

/// The name of the load, and of its directory on the target.
pub(crate) const NAME: &str = "responsiveness";

/// The settings that it has.
const KNOWN: &[&str] = &[
    "readers",
    "random-readers",
    "writers",
    "random-writers",
    "size",
    "settle",
    "starts",
    "command",
];

/// Streams of one kind.
const MOST_STREAMS: u32 = 100;

/// Seconds for which streams run before the first start unless something else is asked for: none is in its first moments
/// then.
const SETTLING: u64 = 2;

/// Room for the copied program: a shell with its libraries takes some 4 MB.
const ROOM_FOR_PROGRAM: u64 = 64 << 20;

/// What runs, and beside what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponsivenessSettings {
    /// Streams that read one after the other, 128 KiB each.
    pub readers: u32,
    /// Streams that read 4 KiB here and there.
    pub random_readers: u32,
    /// Streams that write one after the other, 128 KiB each.
    pub writers: u32,
    /// Streams that write 4 KiB here and there.
    pub random_writers: u32,
    /// Bytes of each stream's file.
    pub size: u64,
    /// Seconds from the first access of the stream that begins last to the first start.
    #[serde(default = "usual_settling", skip_serializing_if = "is_usual_settling")]
    pub settle: u64,
    /// Starts of a trial.
    pub starts: u32,
    /// What is started, in the target directory; `None` for a shell that is copied there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

fn usual_settling() -> u64 {
    SETTLING
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_usual_settling(settle: &u64) -> bool {
    *settle == SETTLING
}

impl Default for ResponsivenessSettings {
    fn default() -> ResponsivenessSettings {
        ResponsivenessSettings {
            readers: 10,
            random_readers: 0,
            writers: 0,
            random_writers: 0,
            size: 256 << 20,
            settle: SETTLING,
            starts: 3,
            command: None,
        }
    }
}

impl ResponsivenessSettings {
    /// Reads what stands after `responsiveness:`.
    ///
    /// # Errors
    /// A setting that it does not have, or a value that the setting does not take.
    pub(crate) fn parse(text: &str) -> Result<ResponsivenessSettings, SettingError> {
        let mut given = settings::GivenSettings::parse(NAME, text, KNOWN)?;
        let default = ResponsivenessSettings::default();
        // Who names streams means these, and not ten readers besides.
        let streams = &KNOWN[..4];
        let names_streams = streams.iter().any(|name| given.has(name));
        let readers = if names_streams { 0 } else { default.readers };
        let mut count = |name, default| given.number(name, 0..=MOST_STREAMS, default);
        let (readers, random_readers) = (count("readers", readers)?, count("random-readers", 0)?);
        let (writers, random_writers) = (count("writers", 0)?, count("random-writers", 0)?);
        let starts = given.number("starts", 1..=100, default.starts)?;
        let size = given.size("size", 1 << 20..=1 << 40, default.size)?;
        let settle = given.seconds("settle", 0..=600, default.settle)?;
        let command = given.text("command").map(str::to_owned);
        if let Some(line) = &command {
            let split = words::split(line);
            split.map_err(|cause| given.refuse("command", line, cause.to_string()))?;
        }
        Ok(ResponsivenessSettings {
            readers,
            random_readers,
            writers,
            random_writers,
            size,
            settle,
            starts,
            command,
        })
    }

    /// How long all streams run before the first start.
    pub(super) fn settling(&self) -> Duration {
        Duration::from_secs(self.settle)
    }

    /// The streams as a fio job file; nothing where there is none.
    fn job_file(&self) -> String {
        let kinds = [
            ("readers", "read", "128k", self.readers),
            ("random-readers", "randread", "4k", self.random_readers),
            ("writers", "write", "128k", self.writers),
            ("random-writers", "randwrite", "4k", self.random_writers),
        ];
        let wanted = kinds.into_iter().filter(|(.., streams)| *streams > 0);
        let jobs = wanted.map(|(name, rw, bs, streams)| {
            let size = self.size;
            format!("[{name}]\nrw={rw}\nbs={bs}\nnumjobs={streams}\nsize={size}\ntime_based\n")
        });
        jobs.collect()
    }
}

/// The load.
#[derive(Debug)]
pub(crate) struct Responsiveness {
    settings: ResponsivenessSettings,
    streams: Option<JobFile>,
    program: Option<Program>,
}

impl Responsiveness {
    /// Makes it of its settings.
    ///
    /// # Errors
    /// Never with settings that were parsed: a record may be anybody's.
    pub(crate) fn new(settings: &ResponsivenessSettings) -> Result<Responsiveness, JobFileError> {
        let text = settings.job_file();
        let streams = (!text.is_empty()).then(|| JobFile::parse(NAME, &text));
        Ok(Responsiveness {
            settings: settings.clone(),
            streams: streams.transpose()?,
            program: None,
        })
    }

    fn of_streams(
        &self,
        at: &Workplace<'_>,
        seed: u64,
        runtime: Option<Duration>,
    ) -> TrialSettings {
        TrialSettings {
            place: JobTarget::Directory {
                directory: at.directory_of(NAME).display().to_string(),
                file_size: self.settings.size,
            },
            runtime,
            ramp: None,
            counted: None,
            seed,
        }
    }

    /// Starts the program, cold, and says how long it took.
    fn one_start(
        &self,
        at: &Workplace<'_>,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Duration, LoadError> {
        let (line, command) = match (&self.program, &self.settings.command) {
            (Some(program), _) => {
                program.forget(at.user()).map_err(FioError::Files)?;
                (program.to_string(), program.command())
            }
            (None, Some(line)) => {
                // Who may not empties nothing: then nothing is measured but the processor.
                let emptied = Host::live().drop_page_cache();
                emptied.map_err(FioError::Files)?;
                let words = words::split(line).expect("checked when it was parsed");
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]);
                (line.clone(), command)
            }
            (None, None) => unreachable!("it was copied while the load was prepared"),
        };
        Ok(start::time(command, &line, at, tick)?)
    }

    /// All starts of a trial, after the streams have begun and settled.
    fn starts(
        &self,
        at: &Workplace<'_>,
        session: &Session,
        are_over: &dyn Fn() -> bool,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Vec<Duration>, LoadError> {
        let begun = Instant::now();
        if let Some(streams) = &self.streams {
            let count = usize::try_from(streams.workers()).unwrap_or(usize::MAX);
            let settled = self.settings.settling();
            if !streams::wait_until_settled(count, settled, session, at, are_over, tick)? {
                return Ok(Vec::new()); // what went wrong is theirs to say
            }
        }
        let mut took = Vec::new();
        for _ in 0..self.settings.starts {
            if are_over() {
                return Ok(Vec::new());
            }
            took.push(self.one_start(at, &mut |_| tick(begun.elapsed()))?);
        }
        Ok(took)
    }
}

impl Load for Responsiveness {
    fn needs_directory(&self) -> bool {
        true
    }

    fn programs(&self) -> Result<Vec<String>, LoadError> {
        if let Some(line) = &self.settings.command {
            let words = words::split(line).expect("checked when it was parsed");
            process::check_installed(&words[0]).map_err(CommandError::from)?;
        }
        Ok(match self.streams {
            Some(_) => vec![fio::version()?],
            None => Vec::new(),
        })
    }

    fn kept(&self, _file_size: u64) -> Vec<Kept> {
        let streams = self.streams.as_ref().map_or(0, JobFile::workers);
        Kept::own(ROOM_FOR_PROGRAM.saturating_add(streams.saturating_mul(self.settings.size)))
    }

    fn lacks(&self, objective: Objective) -> Option<&'static str> {
        let untimed = "the program does not time its accesses: its start is what is timed";
        lacks_if_untimed(objective, untimed, "one program is started")
    }

    fn prepare(&mut self, at: &Workplace<'_>, say: &mut dyn FnMut(&str)) -> Result<(), LoadError> {
        let directory = at.directory_of(NAME);
        files::make_directory(&directory, at.user()).map_err(FioError::Files)?;
        if self.settings.command.is_none() {
            let copied = Program::copy(&directory, at)?;
            say(&format!("what is started: {copied}, a copy on the target"));
            self.program = Some(copied);
        }
        if let Some(streams) = &self.streams {
            say("writing the files of the streams");
            let layout = streams.compose_layout(&self.of_streams(at, 1, None));
            fio::run_long(&layout, at.scope, at.stop)?;
        }
        Ok(())
    }

    fn run(
        &mut self,
        at: &Workplace<'_>,
        turn: &Turn<'_>,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError> {
        let composed = self.streams.as_ref().map(|streams| {
            let runtime = Some(fio::LONGEST);
            streams.compose(&self.of_streams(at, turn.settings.seed, runtime))
        });
        let enough = Stop::new();
        let session = Session::default();
        let scope = at.scope.with_session(&session);
        let (took, ended) = std::thread::scope(|threads| {
            // Whatever happens here, the streams end: the scope waits for them.
            let _ends = enough.ask_at_end();
            let streams = composed.as_deref().map(|job_file| {
                Builder::new().spawn_scoped(threads, || streams::run(job_file, &scope, &enough))
            });
            let streams = match streams.transpose() {
                Ok(streams) => streams,
                Err(error) => return (Err(FioError::Files(error).into()), Ok(())),
            };
            let are_over = || streams.as_ref().is_some_and(ScopedJoinHandle::is_finished);
            let took = self.starts(at, &session, &are_over, tick);
            enough.ask();
            let ended = streams.map(|thread| thread.join().expect("it does not panic"));
            (took, ended.unwrap_or(Ok(())))
        });
        let took = took?;
        ended?;
        let seconds: Vec<f64> = took.iter().map(Duration::as_secs_f64).collect();
        let slowest = seconds.iter().copied().fold(0.0, f64::max);
        Ok(Outcome {
            elapsed_s: Some(seconds.iter().sum::<f64>() / seconds.len() as f64),
            numbers: [("slowest start s".to_owned(), slowest)].into(),
            ..Outcome::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_readers_are_meant_where_no_stream_is_named() {
        assert_eq!(
            ResponsivenessSettings::parse("").unwrap(),
            ResponsivenessSettings::default()
        );
        let few = ResponsivenessSettings::parse("writers=2,starts=5,size=16m,settle=20s").unwrap();
        let expected = ResponsivenessSettings {
            readers: 0,
            writers: 2,
            settle: 20,
            starts: 5,
            size: 16 << 20,
            ..ResponsivenessSettings::default()
        };
        assert_eq!(few, expected);
        let of_command = ResponsivenessSettings::parse("command=touch writers=1").unwrap();
        assert_eq!((of_command.readers, of_command.writers), (10, 0));
        let idle = ResponsivenessSettings::parse("readers=0").unwrap();
        assert!(Responsiveness::new(&idle).unwrap().streams.is_none());
    }

    #[test]
    fn what_it_does_not_have_is_refused_by_name() {
        for (text, named) in [
            ("reader=1", "reader"),
            ("readers=101", "readers"),
            ("starts=0", "starts"),
            ("settle=601", "settle"),
            ("size=1k", "size"),
            ("command='x", "command"),
        ] {
            let error = ResponsivenessSettings::parse(text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn a_record_from_before_there_was_settling_to_choose_is_read_and_written_as_it_was() {
        let usual = ResponsivenessSettings::default();
        let written = serde_json::to_string(&usual).unwrap();
        assert!(!written.contains("settle"), "{written}");
        let read: ResponsivenessSettings = serde_json::from_str(&written).unwrap();
        assert_eq!(read, usual);
        let longer = ResponsivenessSettings::parse("settle=20").unwrap();
        let written = serde_json::to_string(&longer).unwrap();
        let read: ResponsivenessSettings = serde_json::from_str(&written).unwrap();
        assert_eq!(read, longer);
    }

    #[test]
    fn every_kind_of_stream_is_a_job_that_goes_on() {
        let settings =
            ResponsivenessSettings::parse("readers=2,random-readers=1,writers=1,random-writers=3");
        let load = Responsiveness::new(&settings.unwrap()).unwrap();
        assert_eq!(load.streams.as_ref().unwrap().workers(), 7);
        let kept: u64 = load.kept(0).iter().map(|kept| kept.bytes).sum();
        assert_eq!(kept, 7 * (256 << 20) + ROOM_FOR_PROGRAM);
    }
}
