//! The start of a program, and small reads, beside a copy or beside streams.
//!
//! What distributions argue about: does the desktop stay responsive while something large is copied? The S suite
//! (P. Valente, github.com/Algodev-github/S) measures the start as `comm_startup_lat`. The program, the copy and the small
//! reads go through the file system and the page cache, as any program's do. The streams bypass the page cache, because
//! a stream of reads would soon be served from it. What does not start programs is a thread of ours with the file
//! rights of the load's user: the load needs no program but a shell.
//!
//! - `activity`: what goes on beside the starts
//! - `program`, `start`: what is started, and how long that takes
//! - [`simulated`], `recorded_start`, `extents`: the same load for the simulator

mod activity;
mod extents;
mod program;
mod recorded_start;
pub(crate) mod simulated;
mod start;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use iosched_machine::beneath::Directory;
use iosched_machine::failure::Problem;
use iosched_machine::process::{Stop, User, as_user};
use iosched_sim::random::Random;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl};
use serde::{Deserialize, Serialize};

use self::program::Program;
use super::settings;
use super::{Kept, Load, LoadError, Outcome, TrialInfo, Workplace, files};
use crate::metrics::{Flow, JobResult};
use crate::objective::Objective;

/// The name of the load, and of its directory on the target.
pub(crate) const NAME: &str = "desktop";
/// The number of a simulation of it: seconds that a program takes to start.
pub const START: &str = "start of a program s";

const KNOWN: &[&str] = &["readers", "writers", "starts", "seconds", "size"];

/// How long everything else runs before the first start.
const SETTLING: Duration = Duration::from_secs(2);

/// Room for the copied program: a shell with its libraries takes some 4 MB.
const ROOM_FOR_PROGRAM: u64 = 64 << 20;

const COPIED: &str = "copied";
const COPY: &str = "copy";
const SMALL_READS: &str = "small-reads";

/// What is started how often, and beside what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesktopSettings {
    /// Streams that read in sequence. With any stream there is no copy.
    pub readers: u32,
    /// Streams that write in sequence.
    pub writers: u32,
    /// Starts of a program in a trial.
    pub starts: u32,
    /// How long a trial goes on at least after it has settled, s.
    pub seconds: u32,
    /// Bytes of each file.
    pub size: u64,
}

impl Default for DesktopSettings {
    /// Ten rounds of four arms within three minutes.
    fn default() -> DesktopSettings {
        DesktopSettings {
            readers: 0,
            writers: 0,
            starts: 2,
            seconds: 1,
            size: 64 << 20,
        }
    }
}

impl DesktopSettings {
    /// Reads what stands after `desktop:`.
    ///
    /// # Errors
    /// A setting that it does not have, or a value that the setting does not take.
    pub(crate) fn parse(text: &str) -> Result<DesktopSettings, Problem> {
        let mut given = settings::GivenSettings::parse(NAME, text, KNOWN)?;
        let default = DesktopSettings::default();
        Ok(DesktopSettings {
            readers: given.number("readers", 0..=100, default.readers)?,
            writers: given.number("writers", 0..=100, default.writers)?,
            starts: given.number("starts", 1..=100, default.starts)?,
            seconds: given.number("seconds", 1..=3600, default.seconds)?,
            size: given.size("size", 1 << 20..=1 << 40, default.size)?,
        })
    }

    /// True if something is copied: without streams.
    fn copies(&self) -> bool {
        self.readers + self.writers == 0
    }

    /// How long a trial goes on after it has settled.
    fn whole(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// The names of the files that are written before the first trial.
    fn files(&self) -> Vec<String> {
        let mut names = vec![SMALL_READS.to_owned()];
        if self.copies() {
            names.push(COPIED.to_owned());
        }
        names.extend((0..self.readers).map(|stream| format!("reader-{stream}")));
        names.extend((0..self.writers).map(|stream| format!("writer-{stream}")));
        names
    }

    /// Why it can never have the number that is to decide.
    fn lacks(objective: Objective) -> Option<&'static str> {
        match objective {
            Objective::Tps => Some("it makes no transactions"),
            Objective::NumberHigher | Objective::NumberLower => Some("it prints no number"),
            Objective::Fairness => Some("its parts want different things"),
            _ => None,
        }
    }
}

/// How much later than the rest has settled the first start begins, as chance has it: what a copy does comes in turns,
/// and starts are not to meet the same turn in each trial.
fn later(seed: u64) -> Duration {
    Duration::from_nanos(Random::new(seed, "first start").below(500_000_000))
}

/// The load.
#[derive(Debug)]
pub(crate) struct Desktop {
    settings: DesktopSettings,
    program: Option<Program>,
}

/// What went on beside the starts.
struct Beside {
    copied_bytes: u64,
    small_reads: Vec<Duration>,
}

/// The files of a trial, open.
struct Files {
    /// What is copied, and its copy.
    copy: Option<(File, File)>,
    readers: Vec<File>,
    writers: Vec<File>,
    small_reads: File,
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
        program.forget(at.user()).map_err(LoadError::files)?;
        start::time(program, at, tick)
    }

    /// All starts of a trial, spread over its time; none if something beside them ended.
    fn starts(
        &self,
        at: &Workplace<'_>,
        (begun, seed): (Instant, u64),
        is_over: &dyn Fn() -> bool,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Vec<Duration>, LoadError> {
        let mut took = Vec::new();
        for start in 0..=self.settings.starts {
            let when =
                SETTLING + later(seed) + self.settings.whole() * start / self.settings.starts;
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
    ) -> Result<(Vec<Duration>, Beside, Duration), LoadError> {
        let files = Files::open(&at.directory_of(NAME), &self.settings, at);
        let files = &files.map_err(LoadError::files)?;
        let (end, settled) = (&Stop::new(), &OnceLock::new());
        std::thread::scope(|threads| {
            // Whatever happens here, what has begun ends: the scope waits for it.
            let _ends = end.ask_at_end();
            let all = Threads::new(threads, at.user());
            let mut streams = Vec::new();
            if let Some((from, to)) = &files.copy {
                streams.push(all.begin(|| activity::copy(from, to, end))?);
            }
            for file in &files.readers {
                streams.push(all.begin(|| activity::read_on(file, end))?);
            }
            for file in &files.writers {
                streams.push(all.begin(|| activity::write_on(file, end))?);
            }
            let reads = all.begin(move || {
                activity::read_here_and_there(&files.small_reads, seed, settled, end)
            })?;
            all.wait_until_begun();
            let begun = Instant::now();
            settled.get_or_init(|| begun + SETTLING);
            let is_over =
                || reads.is_finished() || streams.iter().any(ScopedJoinHandle::is_finished);
            let took = self.starts(at, (begun, seed), &is_over, tick);
            end.ask();
            let moved: io::Result<Vec<u64>> = streams.into_iter().map(joined).collect();
            let small_reads = joined(reads);
            // The copy's last bytes are on the disk by now.
            let elapsed = begun.elapsed();
            let took = took?;
            let beside = Beside {
                copied_bytes: moved.map_err(LoadError::files)?.iter().sum(),
                small_reads: small_reads.map_err(LoadError::files)?,
            };
            Ok((took, beside, elapsed))
        })
    }
}

/// Where what goes on beside the starts runs, and with whose file rights.
struct Threads<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    user: Option<&'scope User>,
    /// Goes with the last that has begun.
    begins: Sender<()>,
    begun: Receiver<()>,
}

impl<'scope, 'env> Threads<'scope, 'env> {
    fn new(scope: &'scope Scope<'scope, 'env>, user: Option<&'scope User>) -> Self {
        let (begins, begun) = channel();
        Threads {
            scope,
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
        let thread = Builder::new().spawn_scoped(self.scope, move || as_user(user, work));
        thread.map_err(LoadError::files)
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
    fn open(directory: &Path, settings: &DesktopSettings, at: &Workplace<'_>) -> io::Result<Files> {
        as_user(at.user(), || {
            let directory = Directory::open(directory)?;
            let to_read = |name: &str| directory.open_file(name.as_ref());
            let to_write = |name: &str| directory.open_file_to_write(name.as_ref());
            let copy =
                || Ok::<_, io::Error>((of_size(to_read(COPIED)?, settings.size)?, to_write(COPY)?));
            let readers = (0..settings.readers).map(|stream| to_read(&format!("reader-{stream}")));
            let writers = (0..settings.writers).map(|stream| to_write(&format!("writer-{stream}")));
            Ok(Files {
                copy: settings.copies().then(copy).transpose()?,
                readers: readers
                    .map(|file| directly(file?))
                    .collect::<io::Result<_>>()?,
                writers: writers
                    .map(|file| directly(file?))
                    .collect::<io::Result<_>>()?,
                small_reads: to_read(SMALL_READS)?,
            })
        })
    }

    /// Takes all that was read of them out of memory.
    fn forget(&self) -> io::Result<()> {
        let copied = self.copy.iter().map(|(copied, _)| copied);
        for file in copied.chain([&self.small_reads]) {
            fadvise(file, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }
}

/// The same file past the page cache, where its file system can do that.
fn directly(file: File) -> io::Result<File> {
    let flags = fcntl_getfl(&file)?;
    let _ = fcntl_setfl(&file, flags | OFlags::DIRECT);
    Ok(file)
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

/// What came out of a trial: the mean of the starts decides.
fn outcome(took: &[f64], small_reads: JobResult, copied_bytes_per_s: Option<f64>) -> Outcome {
    let mean = took.iter().sum::<f64>() / took.len().max(1) as f64;
    let slowest = took.iter().copied().fold(0.0, f64::max);
    let copied = copied_bytes_per_s.map(|rate| ("copied MB/s".to_owned(), rate / 1e6));
    let slowest = ("slowest start s".to_owned(), slowest);
    Outcome {
        jobs: vec![small_reads],
        counts_a_part: true,
        elapsed_s: Some(mean),
        numbers: copied.into_iter().chain([slowest]).collect(),
        ..Outcome::default()
    }
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
        let files = self.settings.files().len() as u64 + u64::from(self.settings.copies());
        let bytes = files.saturating_mul(self.settings.size);
        Kept::own(bytes.saturating_add(ROOM_FOR_PROGRAM))
    }

    fn lacks(&self, objective: Objective) -> Option<&'static str> {
        DesktopSettings::lacks(objective)
    }

    fn prepare(&mut self, at: &Workplace<'_>, say: &mut dyn FnMut(&str)) -> Result<(), LoadError> {
        let path = at.directory_of(NAME);
        files::make_directory(&path, at.user()).map_err(LoadError::files)?;
        let copied = Program::copy(&path, at)?;
        say(&format!("what is started: {copied}, a copy on the target"));
        self.program = Some(copied);
        say("writing the files of the desktop");
        let written = as_user(at.user(), || {
            let directory = Directory::open(&path)?;
            write_file(&directory, COPY, 0)?;
            let files = self.settings.files();
            files
                .iter()
                .try_for_each(|name| write_file(&directory, name, self.settings.size))
        });
        written.map_err(LoadError::files)
    }

    fn reset(&mut self, at: &Workplace<'_>, _trial: &TrialInfo) -> Result<(), LoadError> {
        let path = at.directory_of(NAME);
        let reset = as_user(at.user(), || {
            let copy = Directory::open(&path)?.open_file_to_write(COPY.as_ref())?;
            copy.set_len(0)?;
            copy.sync_all()
        });
        reset.map_err(LoadError::files)
    }

    /// Also where we may not empty the whole page cache.
    fn start(&mut self, at: &Workplace<'_>, _trial: &TrialInfo) -> Result<(), LoadError> {
        let files = Files::open(&at.directory_of(NAME), &self.settings, at);
        let forgotten = files.and_then(|files| files.forget());
        forgotten.map_err(LoadError::files)
    }

    fn run(
        &mut self,
        at: &Workplace<'_>,
        trial: &TrialInfo,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError> {
        let (took, beside, elapsed) = self.all(at, trial.settings.seed, tick)?;
        let took: Vec<f64> = took.iter().map(Duration::as_secs_f64).collect();
        let small_reads = JobResult {
            name: SMALL_READS.into(),
            read: flow_of(&beside.small_reads, elapsed),
            write: None,
            trim: None,
            transactions: None,
        };
        let copied = beside.copied_bytes as f64 / elapsed.as_secs_f64();
        Ok(outcome(
            &took,
            small_reads,
            self.settings.copies().then_some(copied),
        ))
    }
}

#[cfg(test)]
mod tests;
