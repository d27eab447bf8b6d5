//! The directory of one emulated disk below `/run/iosched/emulated`: what it is, and whether its
//! server lives.
//!
//! ```text
//! hdd-7200-1/
//!   spec.json    what was asked for; locked as long as the server lives
//!   state.json   what was made of it; there once the disk is ready
//!   server.log   what the server has to say
//!   mount/       the FUSE file system: disk, served.csv
//! ```
//!
//! The lock (flock) is what tells a running disk from the remains of one: the kernel drops it with
//! the process, however that ends, and no process number has to be trusted.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use iosched_machine::failure::Problem;
use iosched_machine::host::Host;
use iosched_machine::process::Owner;
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, rename, renameat_with};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::cannot_with;
use super::spec::Spec;

/// Directories that are not yet complete begin with this.
const UNFINISHED: &str = ".new-";

const SPEC: &str = "spec.json";
const STATE: &str = "state.json";
const NOT_FLUSHED: &str = "not-flushed";

/// The least depth that the kernel accepts for a driver's queue.
pub(super) const MIN_DRIVER_DEPTH: u32 = 4;
const LOG: &str = "server.log";
const MOUNT: &str = "mount";

/// The directory of one emulated disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DiskDirectory {
    dir: PathBuf,
    id: String,
}

/// What became of a [`Spec`]: written by the server once the disk is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) version: u32,
    pub(super) loop_number: u32,
    pub(super) size_bytes: u64,
    pub(super) queue_depth: usize,
    pub(super) driver_depth: u32,
    /// The most that the loop driver has.
    #[serde(default = "usual_requests")]
    pub(super) most_requests: u32,
    pub(super) max_request_bytes: u64,
    pub(super) rotational: bool,
    pub(super) backing_dir: PathBuf,
    pub(super) backing_in_memory: bool,
    /// The data file's descriptor in the server: the file has no name.
    pub(super) backing_fd: i32,
    /// Time that a request is under way to the model and back, which is taken off.
    pub(super) path_ns: u64,
    pub(super) server_pid: i32,
    /// The scheduler of ours that stands inside.
    #[serde(default)]
    pub(super) scheduler: Option<String>,
    /// In clock ticks since boot, so that a recycled number is not taken for the server.
    pub(super) server_started: u64,
}

/// The number of requests nearest to this one that a loop driver takes that has so many at the most.
pub(super) fn driver_takes(requests: usize, most: u32) -> u32 {
    let requests = u32::try_from(requests).unwrap_or(u32::MAX);
    requests.clamp(MIN_DRIVER_DEPTH, most.max(MIN_DRIVER_DEPTH))
}

/// `hw_queue_depth` of the loop driver, unless somebody has set it.
fn usual_requests() -> u32 {
    128
}

impl State {
    pub(super) const VERSION: u32 = 1;

    /// The number of requests nearest to this one that the loop driver takes.
    pub(super) fn driver_takes(&self, requests: usize) -> u32 {
        driver_takes(requests, self.most_requests)
    }
}

/// A state that is written, and not yet in force: it goes with this value.
#[derive(Debug)]
pub(super) struct PreparedState {
    file: tempfile::NamedTempFile,
    path: PathBuf,
}

impl PreparedState {
    /// Puts it in force, which takes no more room.
    pub(super) fn commit(self) -> io::Result<()> {
        match self.file.persist(self.path) {
            Ok(_) => Ok(()),
            Err(error) => Err(of_system(error.error)),
        }
    }
}

impl DiskDirectory {
    /// Makes a directory for a new disk and locks it. The lock lasts as long as the returned file,
    /// which has the specification in it, or a copy of its descriptor is open.
    pub(super) fn claim(spec: &Spec) -> Result<(DiskDirectory, File), Problem> {
        let state_dir = &spec.state_dir;
        let mut private = DirBuilder::new();
        private.recursive(true).mode(0o700);
        private
            .create(state_dir)
            .map_err(cannot_with("make", state_dir))?;
        let unfinished = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .tempdir_in(state_dir);
        let unfinished = unfinished.map_err(cannot_with("make a directory in", state_dir))?;
        let write = || -> io::Result<File> {
            let mut file = create_new(&unfinished.path().join(SPEC))?;
            flock(&file, FlockOperation::LockExclusive)?;
            serde_json::to_writer(&file, spec)?;
            file.rewind()?;
            DirBuilder::new()
                .mode(0o700)
                .create(unfinished.path().join(MOUNT))?;
            Ok(file)
        };
        let file = write().map_err(cannot_with("prepare", unfinished.path()))?;
        for number in 1.. {
            let place = DiskDirectory::new(state_dir, &format!("{}-{number}", spec.id()));
            let from = unfinished.path();
            match rename_to_free_name(from, &place.dir) {
                Ok(()) => {
                    let _ = unfinished.keep(); // it has a new name
                    return Ok((place, file));
                }
                Err(Errno::EXIST | Errno::NOTEMPTY) => {}
                Err(error) => return Err(cannot_with("make", &place.dir)(error.into())),
            }
        }
        unreachable!("numbers do not end")
    }

    fn new(state_dir: &Path, id: &str) -> DiskDirectory {
        DiskDirectory {
            dir: state_dir.join(id),
            id: id.to_owned(),
        }
    }

    /// The place whose directory is `dir`.
    pub(super) fn at(dir: &Path) -> Option<DiskDirectory> {
        let id = dir.file_name()?.to_str()?;
        Some(DiskDirectory {
            dir: dir.to_owned(),
            id: id.to_owned(),
        })
    }

    /// All places below `state_dir`, sorted by name; a disk that is being made is not among them.
    /// None if the directory is not there; that it cannot be read is an error.
    pub(super) fn all(state_dir: &Path) -> Result<Vec<DiskDirectory>, Problem> {
        let entries = match fs::read_dir(state_dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(cannot_with("read", state_dir))?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry.map_err(cannot_with("read", state_dir))?.file_name();
            ids.extend(
                name.into_string()
                    .ok()
                    .filter(|name| !name.starts_with('.')),
            );
        }
        ids.sort();
        Ok(ids
            .iter()
            .map(|id| DiskDirectory::new(state_dir, id))
            .collect())
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// When the disk was made: its specification is written once.
    pub(super) fn made(&self) -> Option<SystemTime> {
        fs::metadata(self.dir.join(SPEC)).ok()?.modified().ok()
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn mount_point(&self) -> PathBuf {
        self.dir.join(MOUNT)
    }

    /// True while the server, or whoever is starting it, lives, and where it cannot be told.
    pub(super) fn is_alive(&self) -> bool {
        match File::open(self.dir.join(SPEC)) {
            // The test's own lock goes with `file`.
            Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared).is_err(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// The server, whatever a state says of it: the specification is its standard input.
    pub(super) fn lock_holder(&self, host: &Host) -> Option<i32> {
        let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        let spec = fs::metadata(self.dir.join(SPEC)).ok()?;
        let processes = fs::read_dir(host.path(Path::new("/proc"))).ok()?.flatten();
        // Whoever only reads the specification has no lock on it.
        let serves_it = |process: &fs::DirEntry| {
            let input = fs::metadata(process.path().join("fd/0"));
            let locks = fs::read_to_string(process.path().join("fdinfo/0"));
            input.is_ok_and(|input| same(&input, &spec))
                && locks.is_ok_and(|info| info.lines().any(is_flock))
        };
        processes
            .filter(serves_it)
            .find_map(|process| process.file_name().to_str()?.parse().ok())
    }

    pub(super) fn spec(&self) -> Option<Spec> {
        self.try_spec().ok().flatten()
    }

    pub(super) fn state(&self) -> Option<State> {
        self.try_state().ok().flatten()
    }

    /// The specification; `None` if there is none, or half of one.
    pub(super) fn try_spec(&self) -> Result<Option<Spec>, Problem> {
        self.read(SPEC)
    }

    /// The state; `None` if there is none yet, or half of one.
    pub(super) fn try_state(&self) -> Result<Option<State>, Problem> {
        self.read(STATE)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Problem> {
        let path = self.dir.join(name);
        match fs::read(&path) {
            Ok(text) => Ok(serde_json::from_slice(&text).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(cannot_with("read", &path)(error)),
        }
    }

    /// Writes the state so that nobody ever reads half of it.
    pub(super) fn write_state(&self, state: &State) -> io::Result<()> {
        self.prepare_state(state)?.commit()
    }

    /// Writes a state that nobody reads yet.
    pub(super) fn prepare_state(&self, state: &State) -> io::Result<PreparedState> {
        let file = tempfile::NamedTempFile::new_in(&self.dir).map_err(of_system)?;
        let text = serde_json::to_vec_pretty(state)?;
        file.as_file().write_all(&text)?;
        let path = self.dir.join(STATE);
        Ok(PreparedState { file, path })
    }

    /// The file for the server's standard error.
    pub(super) fn create_log(&self) -> io::Result<File> {
        create_new(&self.dir.join(LOG))
    }

    /// The last lines of the server's log.
    pub(super) fn log_tail(&self) -> String {
        let text = read_end(&self.dir.join(LOG)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    /// Keeps that what was written below may not be on the medium.
    pub(super) fn note_not_flushed(&self, why: &io::Error) {
        let _ = fs::write(self.dir.join(NOT_FLUSHED), why.to_string());
    }

    /// What was kept of that.
    pub(super) fn not_flushed(&self) -> Option<String> {
        fs::read_to_string(self.dir.join(NOT_FLUSHED)).ok()
    }

    /// Deletes the directory. It has to be unmounted: nothing is followed down.
    pub(super) fn delete(&self) -> io::Result<()> {
        for file in [STATE, LOG, NOT_FLUSHED, SPEC] {
            absent_is_fine(fs::remove_file(self.dir.join(file)))?;
        }
        absent_is_fine(fs::remove_dir(self.dir.join(MOUNT)))?;
        absent_is_fine(fs::remove_dir(&self.dir))
    }
}

/// The error as the system has it: tempfile hides its number behind the path, and FUSE answers with numbers.
fn of_system(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(std::error::Error::source);
    let inner = inner.and_then(|inner| inner.downcast_ref::<io::Error>());
    let number = inner.and_then(io::Error::raw_os_error);
    number.map_or(error, io::Error::from_raw_os_error)
}

/// The end of a file, however long it is.
fn read_end(path: &Path) -> io::Result<String> {
    const LENGTH: u64 = 16 << 10;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LENGTH)))?;
    let mut end = Vec::new();
    file.take(LENGTH).read_to_end(&mut end)?;
    Ok(String::from_utf8_lossy(&end).into_owned())
}

/// True for the line of `/proc/PID/fdinfo` that says that the descriptor has an exclusive `flock`.
fn is_flock(line: &str) -> bool {
    line.starts_with("lock:") && line.contains("FLOCK") && line.contains("WRITE")
}

/// Deletes directories of disks whose maker died before they had a name.
pub(super) fn delete_unfinished(state_dir: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(state_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with(UNFINISHED) {
            continue;
        }
        let place = DiskDirectory {
            dir: entry.path(),
            id: name.to_string_lossy().into_owned(),
        };
        // One that is being made right now is locked, or a moment old.
        let age = entry.metadata().and_then(|meta| meta.modified()).ok();
        let is_old = age
            .and_then(|at| at.elapsed().ok())
            .is_some_and(|age| age.as_secs() > 10);
        if is_old && !place.is_alive() {
            place.delete()?;
        }
    }
    Ok(())
}

/// Gives a directory a name that nothing has. Without `renameat2` (Linux 3.15; `EINVAL` where the file system lacks it)
/// it takes the place of an empty directory, which is a disk that is just being removed.
fn rename_to_free_name(from: &Path, to: &Path) -> Result<(), Errno> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::NOSYS | Errno::INVAL) => rename(from, to),
        other => other,
    }
}

fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// When a process started; `None` if there is none, or it has ended and is not waited for.
pub(crate) fn start_ticks(pid: i32) -> Option<u64> {
    Some(Owner::of_pid(&Host::live(), u32::try_from(pid).ok()?)?.start_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(state_dir: &Path) -> Spec {
        let mut spec = Spec::new(
            iosched_sim::disk::Model::named("null").unwrap(),
            "/bin/true",
        );
        spec.state_dir = state_dir.to_owned();
        spec
    }

    #[test]
    fn a_place_lives_as_long_as_its_lock_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let (place, lock) = DiskDirectory::claim(&spec(dir.path())).unwrap();
        assert!(place.is_alive());
        let copy = lock.try_clone().unwrap();
        drop(lock);
        assert!(place.is_alive(), "the server has a copy");
        drop(copy);
        assert!(!place.is_alive());
    }

    #[test]
    fn the_server_of_a_disk_is_who_has_its_lock_not_who_reads_its_specification() {
        use std::process::{Command, Stdio};
        let dir = tempfile::tempdir().unwrap();
        let (place, lock) = DiskDirectory::claim(&spec(dir.path())).unwrap();
        let sleeping = |input: File| {
            let mut command = Command::new("sleep");
            command.arg("1000").stdin(Stdio::from(input));
            command.spawn().unwrap()
        };
        let mut reader = sleeping(File::open(place.dir().join(SPEC)).unwrap());
        let host = Host::live();
        assert_eq!(place.lock_holder(&host), None);
        let mut server = sleeping(lock);
        let found = place.lock_holder(&host);
        for process in [&mut reader, &mut server] {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        assert_eq!(found, i32::try_from(server.id()).ok());
    }

    #[test]
    fn of_a_log_however_long_the_last_lines_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let (place, _lock) = DiskDirectory::claim(&spec(dir.path())).unwrap();
        assert_eq!(place.log_tail(), "");
        let mut log = place.create_log().unwrap();
        log.write_all(b"1\n2\n").unwrap();
        assert_eq!(place.log_tail(), "1\n2");
        log.set_len(1 << 40).unwrap(); // more than memory has room for
        log.seek(SeekFrom::End(0)).unwrap();
        for number in 0..20 {
            writeln!(log, "\n\u{fc}{number}").unwrap();
        }
        assert!(place.log_tail().ends_with("\n\u{fc}19"));
    }

    #[test]
    fn every_disk_has_a_place_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let wanted = spec(dir.path());
        let (first, _lock) = DiskDirectory::claim(&wanted).unwrap();
        let (second, _lock) = DiskDirectory::claim(&spec(dir.path())).unwrap();
        assert_eq!((first.id(), second.id()), ("null-1", "null-2"));
        let all = || DiskDirectory::all(dir.path()).unwrap();
        assert_eq!(all(), [first.clone(), second]);
        assert_eq!(first.spec(), Some(wanted));
        first.delete().unwrap();
        assert_eq!(all().len(), 1);
    }
}
