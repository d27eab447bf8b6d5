//! A desktop beside a copy: programs are started, a video plays, a package is unpacked, a browser commits to its
//! profile, and programs read small things, while a large file is copied.
//!
//! What distributions argue about. The S suite (P. Valente, github.com/Algodev-github/S) measures two of these, each
//! beside streams: the start of a program, and the frames that a player drops. All files are ordinary ones of a file
//! system and go through the page cache. What does not start programs are threads of ours, with the file rights of the
//! load's user: it needs no program but a shell.

mod activity;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use iosched_machine::beneath::Directory;
use iosched_machine::process::{Stop, User, as_user};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};

use super::fio::FioError;
use super::responsiveness::program::{self, Program};
use super::responsiveness::start;
use super::settings::{self, SettingError};
use super::{Kept, Load, LoadError, Outcome, Turn, Workplace, files};
use crate::metrics::{FRAMES_IN_TIME, Flow, JobResult};
use crate::objective::Objective;

pub(super) use self::activity::{BETWEEN_COMMITS, BETWEEN_READS, CHUNK, FILES_OF_A_PACKAGE, PAGE};

/// The name of the load, and of its directory on the target.
pub(crate) const NAME: &str = "desktop";

/// The settings that it has.
const KNOWN: &[&str] = &["starts", "seconds", "size"];

/// How long all runs before the first start: the copy has filled memory with what is to be written by then.
pub(super) const SETTLING: Duration = Duration::from_secs(2);

/// Bytes of a browser's profile.
pub(super) const PROFILE: u64 = 32 << 20;

/// Room for the copied program and a package.
const ROOM_FOR_SMALL_FILES: u64 = 96 << 20;

/// Files of `size` bytes: what is copied and its copy, the video, and what small reads read.
const LARGE_FILES: u64 = 4;

const COPIED: &str = "copied";
const COPY: &str = "copy";
const VIDEO: &str = "video";
pub(super) const SMALL_READS: &str = "small-reads";
const PROFILE_NAME: &str = "profile";
const PACKAGE: &str = "package";

/// How long it goes on, and on how much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesktopSettings {
    /// Starts of a program in a trial.
    pub starts: u32,
    /// How long a trial goes on at least, after it has settled, s.
    pub seconds: u32,
    /// Bytes of each large file.
    pub size: u64,
}

impl Default for DesktopSettings {
    fn default() -> DesktopSettings {
        DesktopSettings {
            starts: 5,
            seconds: 20,
            size: 256 << 20,
        }
    }
}

impl DesktopSettings {
    /// Reads what stands after `desktop:`.
    ///
    /// # Errors
    /// A setting that it does not have, or a value that the setting does not take.
    pub(crate) fn parse(text: &str) -> Result<DesktopSettings, SettingError> {
        let mut given = settings::GivenSettings::parse(NAME, text, KNOWN)?;
        let default = DesktopSettings::default();
        Ok(DesktopSettings {
            starts: given.number("starts", 1..=100, default.starts)?,
            seconds: given.number("seconds", 1..=3600, default.seconds)?,
            size: given.size("size", 1 << 20..=1 << 40, default.size)?,
        })
    }
}

/// The load.
#[derive(Debug)]
pub(crate) struct Desktop {
    settings: DesktopSettings,
    program: Option<Program>,
}

/// What went on beside the starts.
struct Besides {
    copied_bytes: u64,
    frames_in_time: f64,
    small_reads: Vec<Duration>,
    commits: Vec<Duration>,
    unpacked_files: u64,
}

/// The files of a trial, open.
struct Files {
    copied: File,
    copy: File,
    video: File,
    small_reads: File,
    profile: File,
}

impl Desktop {
    /// Makes it of its settings.
    pub(crate) fn new(settings: &DesktopSettings) -> Desktop {
        Desktop {
            settings: settings.clone(),
            program: None,
        }
    }

    /// Starts the program, cold, and says how long it took.
    fn one_start(
        &self,
        at: &Workplace<'_>,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Duration, LoadError> {
        let program = self.program.as_ref();
        let program = program.expect("it was copied while the load was prepared");
        program.forget(at.user()).map_err(FioError::Files)?;
        Ok(start::time(
            program.command(),
            &program.to_string(),
            at,
            tick,
        )?)
    }

    /// All starts of a trial, spread over its time; none if something beside them ended.
    fn starts(
        &self,
        at: &Workplace<'_>,
        begun: Instant,
        is_over: &dyn Fn() -> bool,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Vec<Duration>, LoadError> {
        let whole = Duration::from_secs(self.settings.seconds.into());
        let mut took = Vec::new();
        for start in 0..=self.settings.starts {
            let when = SETTLING + whole * start / self.settings.starts;
            if !start::wait_until(when, begun, at, is_over, tick)? {
                return Ok(Vec::new()); // what went wrong is theirs to say
            }
            if start < self.settings.starts {
                took.push(self.one_start(at, &mut |_| tick(begun.elapsed()))?);
            }
        }
        Ok(took)
    }

    /// Everything at once: the starts, and what went on beside them.
    fn all(
        &self,
        at: &Workplace<'_>,
        seed: u64,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<(Vec<Duration>, Besides, Duration), LoadError> {
        let directory = at.directory_of(NAME);
        let files = Files::open(&directory, self.settings.size, at).map_err(FioError::Files)?;
        let package = directory.join(PACKAGE);
        let end = Stop::new();
        let settled = OnceLock::new();
        let (files, package, ends, settled) = (&files, &package, &end, &settled);
        std::thread::scope(|threads| {
            // Whatever happens here, what has begun ends: the scope waits for it.
            let _ends = end.ask_at_end();
            let all = Beside::new(threads, at.user());
            let copy = all.begin(|| activity::copy(&files.copied, &files.copy, ends))?;
            let video = all.begin(|| activity::play(&files.video, ends))?;
            let reads = all.begin(move || {
                activity::read_here_and_there(&files.small_reads, seed, settled, ends)
            })?;
            let commits = all.begin(move || activity::commit(&files.profile, seed, ends))?;
            let package = all.begin(|| activity::unpack(package, ends))?;
            all.wait_until_begun();
            let begun = Instant::now();
            settled.get_or_init(|| begun + SETTLING);
            let is_over = || {
                copy.is_finished()
                    || video.is_finished()
                    || reads.is_finished()
                    || commits.is_finished()
                    || package.is_finished()
            };
            let took = self.starts(at, begun, &is_over, tick);
            end.ask();
            let besides = (|| {
                Ok(Besides {
                    copied_bytes: joined(copy)?,
                    frames_in_time: joined(video)?,
                    small_reads: joined(reads)?,
                    commits: joined(commits)?,
                    unpacked_files: joined(package)?,
                })
            })();
            // The copy's last bytes are on the disk by now.
            let elapsed = begun.elapsed();
            let took = took?;
            Ok((took, besides.map_err(FioError::Files)?, elapsed))
        })
    }
}

/// Where what goes on beside the starts runs, and with whose file rights.
struct Beside<'scope, 'env> {
    threads: &'scope Scope<'scope, 'env>,
    user: Option<&'scope User>,
    /// Goes with the last that has begun.
    begins: Sender<()>,
    begun: Receiver<()>,
}

impl<'scope, 'env> Beside<'scope, 'env> {
    fn new(threads: &'scope Scope<'scope, 'env>, user: Option<&'scope User>) -> Self {
        let (begins, begun) = channel();
        Beside {
            threads,
            user,
            begins,
            begun,
        }
    }

    /// Begins something. With the user's rights its files grow as the user's do: no further than into what the file
    /// system keeps for root.
    fn begin<T: Send + 'scope>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'scope,
    ) -> Result<ScopedJoinHandle<'scope, io::Result<T>>, LoadError> {
        let (user, begins) = (self.user, self.begins.clone());
        let work = move || {
            drop(begins);
            work()
        };
        let thread = Builder::new().spawn_scoped(self.threads, move || as_user(user, work));
        Ok(thread.map_err(FioError::Files)?)
    }

    /// Waits until everything runs, or has failed to: on a busy machine a thread begins late.
    fn wait_until_begun(self) {
        drop(self.begins);
        self.begun.iter().for_each(drop);
    }
}

fn joined<T>(thread: ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().expect("it does not panic")
}

impl Files {
    /// Those of large files of `size` bytes.
    fn open(directory: &Path, size: u64, at: &Workplace<'_>) -> io::Result<Files> {
        as_user(at.user(), || {
            let directory = Directory::open(directory)?;
            Ok(Files {
                copied: of_size(directory.open_file(COPIED.as_ref())?, size)?,
                copy: directory.open_file_to_write(COPY.as_ref())?,
                video: directory.open_file(VIDEO.as_ref())?,
                small_reads: directory.open_file(SMALL_READS.as_ref())?,
                profile: directory.open_file_to_write(PROFILE_NAME.as_ref())?,
            })
        })
    }

    /// Takes all that was read or written of them out of memory.
    fn forget(&self) -> io::Result<()> {
        for file in [&self.copied, &self.video, &self.small_reads, &self.profile] {
            fadvise(file, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }
}

/// A file, if it is as large as it was made. Its user may have made it larger, and its copy would fill the disk.
fn of_size(file: File, size: u64) -> io::Result<File> {
    if file.metadata()?.len() == size {
        return Ok(file);
    }
    Err(io::Error::other(format!(
        "{COPIED} has another size than it was made with"
    )))
}

/// Writes a file that is no hole and does not shrink, unless it is there.
fn write_file(directory: &Directory, name: &str, bytes: u64) -> io::Result<()> {
    let mut file = match directory.create_file(name.as_ref()) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    };
    let mut stream = ChaCha8Rng::seed_from_u64(bytes);
    let mut chunk = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        stream.fill_bytes(&mut chunk);
        let length = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.write_all(&chunk[..length])?;
        left -= length as u64;
    }
    file.sync_all()
}

/// How long small reads took, as a worker's flow; `None` of nothing.
fn flow_of(took: &[Duration], elapsed: Duration) -> Option<Flow> {
    let nanos = |time: &Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let seconds = elapsed.as_secs_f64().max(1e-9);
    let flow = Flow::of_latencies(took.iter().map(nanos), |ns| ns, |ios| ios as f64 / seconds)?;
    let bytes = flow.ios * activity::PAGE as u64;
    Some(Flow {
        bytes,
        bytes_per_s: bytes as f64 / seconds,
        ..flow
    })
}

/// In seconds; 0 of nothing.
fn mean(took: &[Duration]) -> f64 {
    let sum: f64 = took.iter().map(Duration::as_secs_f64).sum();
    sum / took.len().max(1) as f64
}

impl Load for Desktop {
    fn needs_directory(&self) -> bool {
        true
    }

    fn programs(&self) -> Result<Vec<String>, LoadError> {
        program::shell()?;
        Ok(Vec::new())
    }

    fn kept(&self, _file_size: u64) -> Vec<Kept> {
        let large = self.settings.size.saturating_mul(LARGE_FILES);
        Kept::own(large.saturating_add(PROFILE + ROOM_FOR_SMALL_FILES))
    }

    fn lacks(&self, objective: Objective) -> Option<&'static str> {
        match objective {
            Objective::Tps => Some("it makes no transactions"),
            Objective::NumberHigher | Objective::NumberLower => Some("it prints no number"),
            Objective::Fairness => Some("its parts want different things"),
            _ => None,
        }
    }

    fn prepare(&mut self, at: &Workplace<'_>, say: &mut dyn FnMut(&str)) -> Result<(), LoadError> {
        let path = at.directory_of(NAME);
        files::make_directory(&path, at.user()).map_err(FioError::Files)?;
        files::make_directory(&path.join(PACKAGE), at.user()).map_err(FioError::Files)?;
        let copied = Program::copy(&path, at)?;
        say(&format!("what is started: {copied}, a copy on the target"));
        self.program = Some(copied);
        say("writing the files of the desktop");
        let size = self.settings.size;
        let written = as_user(at.user(), || {
            let directory = Directory::open(&path)?;
            write_file(&directory, COPIED, size)?;
            write_file(&directory, COPY, 0)?;
            write_file(&directory, VIDEO, size)?;
            write_file(&directory, SMALL_READS, size)?;
            write_file(&directory, PROFILE_NAME, PROFILE)
        });
        Ok(written.map_err(FioError::Files)?)
    }

    fn reset(&mut self, at: &Workplace<'_>, _turn: &Turn<'_>) -> Result<(), LoadError> {
        let path = at.directory_of(NAME);
        let reset = as_user(at.user(), || {
            let directory = Directory::open(&path)?;
            directory.clear_directory(PACKAGE.as_ref())?;
            let copy = directory.open_file_to_write(COPY.as_ref())?;
            copy.set_len(0)?;
            copy.sync_all()
        });
        Ok(reset.map_err(FioError::Files)?)
    }

    /// Also where we may not empty the whole page cache.
    fn start(&mut self, at: &Workplace<'_>, _turn: &Turn<'_>) -> Result<(), LoadError> {
        let files = Files::open(&at.directory_of(NAME), self.settings.size, at);
        let forgotten = files.and_then(|files| files.forget());
        Ok(forgotten.map_err(FioError::Files)?)
    }

    fn run(
        &mut self,
        at: &Workplace<'_>,
        turn: &Turn<'_>,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError> {
        let (took, besides, elapsed) = self.all(at, turn.settings.seed, tick)?;
        let slowest = took.iter().max().copied().unwrap_or_default();
        let in_time = 100.0 * besides.frames_in_time;
        let seconds = elapsed.as_secs_f64();
        let numbers = [
            (FRAMES_IN_TIME, in_time),
            ("dropped frames %", 100.0 - in_time),
            ("slowest start s", slowest.as_secs_f64()),
            ("browser's commit ms", 1e3 * mean(&besides.commits)),
            ("files unpacked/s", besides.unpacked_files as f64 / seconds),
            ("copied MB/s", besides.copied_bytes as f64 / 1e6 / seconds),
        ];
        Ok(Outcome {
            jobs: vec![JobResult {
                name: SMALL_READS.into(),
                read: flow_of(&besides.small_reads, elapsed),
                write: None,
                trim: None,
                transactions: None,
            }],
            counts_a_part: true,
            elapsed_s: Some(mean(&took)),
            numbers: numbers
                .map(|(name, number)| (name.to_owned(), number))
                .into(),
            ..Outcome::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_does_not_have_is_refused_by_name() {
        assert_eq!(
            DesktopSettings::parse("").unwrap(),
            DesktopSettings::default()
        );
        let short = DesktopSettings::parse("starts=1,seconds=2,size=4m").unwrap();
        assert_eq!((short.starts, short.seconds, short.size), (1, 2, 4 << 20));
        for (text, named) in [
            ("start=1", "start"),
            ("starts=0", "starts"),
            ("seconds=0", "seconds"),
            ("size=1k", "size"),
        ] {
            let error = DesktopSettings::parse(text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn its_numbers_are_those_that_can_decide() {
        let load = Desktop::new(&DesktopSettings::default());
        for objective in [Objective::Time, Objective::Frames, Objective::ReadP99] {
            assert_eq!(load.lacks(objective), None);
        }
        for objective in [Objective::Tps, Objective::Fairness, Objective::NumberLower] {
            assert!(load.lacks(objective).is_some());
        }
    }

    #[test]
    fn small_reads_are_counted_each_by_how_long_it_took() {
        let took = [3, 1, 3].map(Duration::from_millis);
        let flow = flow_of(&took, Duration::from_secs(1)).unwrap();
        assert_eq!(flow.latency_bins, [(1_000_000, 1), (3_000_000, 2)]);
        assert_eq!(
            (flow.ios, flow.bytes, flow.latency_max_ns),
            (3, 3 * 4096, 3_000_000)
        );
    }

    #[test]
    fn what_has_begun_ends_where_the_next_cannot_begin() {
        let end = Stop::new();
        let begun: Result<(), LoadError> = std::thread::scope(|threads| {
            let _ends = end.ask_at_end();
            let all = Beside::new(threads, None);
            all.begin(|| {
                while !end.is_wanted() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            })?;
            Err(FioError::Files(io::ErrorKind::WouldBlock.into()).into())
        });
        assert!(begun.is_err());
    }

    #[test]
    fn what_has_begun_is_waited_for_no_longer() {
        let end = Stop::new();
        let ran = std::thread::scope(|threads| {
            let _ends = end.ask_at_end();
            let all = Beside::new(threads, None);
            let runs = all.begin(|| {
                while !end.is_wanted() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            });
            all.wait_until_begun();
            let still_runs = !runs.as_ref().unwrap().is_finished();
            end.ask();
            still_runs && joined(runs.unwrap()).is_ok()
        });
        assert!(ran);
    }

    #[test]
    fn what_goes_on_beside_the_starts_has_the_users_file_rights() {
        if !iosched_testing::is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let nobody = User::find("nobody").unwrap().unwrap();
        let made = std::thread::scope(|threads| {
            let all = Beside::new(threads, Some(&nobody));
            joined(all.begin(|| File::create(dir.path().join("x"))).unwrap())
        });
        assert_eq!(made.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_file_that_somebody_made_larger_is_not_copied() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        assert!(of_size(file.try_clone().unwrap(), 4096).is_ok());
        file.set_len(1 << 40).unwrap();
        assert!(of_size(file, 4096).is_err());
    }
}
