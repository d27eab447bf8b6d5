//! The journal: what a run changes on this machine, written down before it changes it, so that it
//! can be put back after Ctrl-C, SIGKILL, a power failure or a vanished device.
//!
//! One file per run below `/var/lib/iosched/journal/` (not `/run`: a directory of test files
//! outlives a power failure, so what names it must too). A file is there exactly as long as
//! something may have to be put back. [`leftovers`] finds the files of dead runs, `Entry::undo`
//! works one off.
//!
//! Whether a run is dead is told by its pid and start. Of a run in another pid namespace (a container that shares
//! `/var/lib`) these say nothing: it has its file locked as long as it lives.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iosched_machine::beneath;
use iosched_machine::durable::{self, Unfinished};
use iosched_machine::facts;
use iosched_machine::failure::{NotUndone, Problem, exit, room_hint};
use iosched_machine::file_system::OwnFileSystem;
use iosched_machine::host::Host;
use iosched_machine::lock::{self, Holder};
use iosched_machine::process::{self, LoadProcesses, Owner, OwnerState, Stop, User, as_user};
use iosched_machine::sysfs::Sysfs;
use iosched_machine::user_files;
use rand::Rng;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::error::io_error;
use crate::{QueueState, SwitchError};

mod foreseen;
mod resolution;
mod target_mount;
mod undone;

pub use foreseen::Foreseen;
pub use resolution::Resolution;
pub use target_mount::TargetMount;
pub use undone::Undone;

/// The newest version of the format. An entry has the lowest whose programs can put back all of it
/// ([`QueueState::schema`]); what has a higher one is left to the version that wrote it.
pub const SCHEMA: u32 = 2;

/// What one run may have to put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Version of this format.
    pub schema: u32,
    /// The command, for people.
    pub command: String,
    /// Who wrote it: a run that is alive is left alone.
    pub owner: Owner,
    /// The boot in which the states were read: after another boot they mean nothing.
    pub boot_id: String,
    /// Each disk and its state before.
    pub disks: Vec<SavedDisk>,
    /// What is our own, to be removed.
    #[serde(flatten)]
    pub ours: OwnedResources,
}

/// What a run makes besides changing disks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedResources {
    /// Directories on the target.
    pub directories: Vec<PathBuf>,
    /// Where the file system with the directories was mounted, and from what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<TargetMount>,
    /// The file system on the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<OwnFileSystem>,
    /// What the loads make outside of the target: today databases on external servers, after which the field is named.
    #[serde(rename = "databases", default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<OutsideResource>,
    /// Whose rights the loads have, if not the run's: with them the directories are emptied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
    /// How the processes of the loads are found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<LoadProcesses>,
}

impl OwnedResources {
    /// True if there is nothing to remove.
    pub fn is_empty(&self) -> bool {
        let OwnedResources {
            directories,
            mount: _,
            file_system,
            outside,
            user: _,
            processes,
        } = self;
        let is_without_things =
            directories.is_empty() && file_system.is_none() && outside.is_empty();
        is_without_things && processes.is_none()
    }
}

/// What a load makes outside of the target and of this machine's files, to be taken back after a crash, too: today the
/// databases of `pgbench` on an external server. Whoever makes it knows how it goes ([`UndoOutside`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsideResource {
    /// The server, as the user named it.
    pub connection: String,
    /// First part of the names of what is there.
    pub prefix: String,
    /// Whose rights the programs have, if not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
}

impl OutsideResource {
    /// Why it is still there.
    pub fn left(&self, cause: impl Into<String>) -> NotUndone {
        NotUndone {
            thing: format!("databases {}_… on the server of --pg", self.prefix),
            cause: cause.into(),
        }
    }
}

/// Removes what is outside, and gives the names of what was removed: none where nothing is there.
pub type UndoOutside = fn(&OutsideResource) -> Result<Vec<String>, NotUndone>;

/// A disk and its state before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedDisk {
    /// Kernel name.
    pub device: String,
    /// What tells it from a later disk of the same name.
    pub identity: Identity,
    /// Its state.
    pub state: QueueState,
    /// The schedulers that a run may set on it for a while: one of them is left on its queue if the medium changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_be_set: Vec<String>,
}

/// What tells a disk from a later one of the same name, within one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// `dev`: major:minor.
    pub number: String,
    /// `diskseq` (5.15 and later): never used twice in one boot.
    pub diskseq: Option<String>,
    /// `size` in sectors, for kernels without `diskseq`.
    pub size: Option<String>,
    /// The inode of `queue/`, which on kernels with `diskseq` is never used twice in one boot: a change of medium (another
    /// file behind a loop device, another card in a reader) counts `diskseq` up, and leaves the queue as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<u64>,
}

/// The journal cannot be written: nothing was changed.
fn not_written(path: &Path, error: &io::Error) -> Problem {
    let message = format!("cannot write the journal {}: {error}", path.display());
    if error.kind() == io::ErrorKind::PermissionDenied {
        return Problem::new(exit::NOT_PERMITTED, message).hint("run it as root");
    }
    let way = room_hint(error).unwrap_or("make room or rights there");
    Problem::new(exit::FAILURE, message)
        .hint(format!("without a journal nothing is changed: {way}"))
}

/// A journal file while its run lasts.
#[derive(Debug)]
pub struct Journal {
    host: Host,
    path: PathBuf,
    entry: Entry,
    /// The file, which is locked while we hold it.
    held: fs::File,
    /// What is put back at the end.
    parts: Parts,
    is_open: bool,
}

/// The version that an entry with these states has.
pub fn schema_of<'a>(states: impl Iterator<Item = &'a QueueState>) -> u32 {
    states.map(QueueState::schema).max().unwrap_or(1)
}

/// Where the journal files are.
pub fn directory(host: &Host) -> PathBuf {
    host.path(Path::new("/var/lib/iosched/journal"))
}

impl Journal {
    /// Reads the state of the disks and writes it down. From now on they may be changed, to these schedulers. At the end
    /// these parts are put back.
    ///
    /// # Errors
    /// Nothing may be changed.
    pub fn open(
        host: &Host,
        devices: &[String],
        schedulers: &[&str],
        ours: OwnedResources,
        parts: Parts,
    ) -> Result<Journal, SwitchError> {
        let sysfs = host.sysfs();
        let mut disks = devices
            .iter()
            .map(|device| SavedDisk::read(&sysfs, device))
            .collect::<Result<Vec<_>, SwitchError>>()?;
        for disk in &mut disks {
            let names = schedulers.iter().map(ToString::to_string);
            disk.may_be_set = names.collect::<BTreeSet<_>>().into_iter().collect();
        }
        let entry = Entry {
            schema: schema_of(disks.iter().map(|disk| &disk.state)),
            command: facts::command_line().join(" "),
            owner: Owner::this_process(host),
            boot_id: boot_id(host)?,
            disks,
            ours,
        };
        let chance = rand::rng().next_u32();
        let name = format!("{}-{chance:08x}.json", entry.owner.pid);
        let path = directory(host).join(name);
        let held = Unfinished::beside(&path).and_then(|file| file.finish(&path, &entry));
        Ok(Journal {
            host: host.clone(),
            held: held.map_err(|error| not_written(&path, &error))?,
            path,
            entry,
            parts,
            is_open: true,
        })
    }

    /// The state before of each disk, in the order given to [`Journal::open`].
    pub fn saved(&self) -> &[SavedDisk] {
        &self.entry.disks
    }

    /// Hands the entry over to another process, which will put things back in our place. `start` starts it, with the
    /// descriptor that it is to hold: it is its turn once the file with the journal's path is that one ([`Held`]).
    ///
    /// # Errors
    /// Nobody took it over, and all was put back.
    pub fn hand_over(
        mut self,
        start: impl FnOnce(fs::File) -> io::Result<Owner>,
    ) -> Result<(), Problem> {
        let path = self.path.clone();
        let failed = |error| not_written(&path, &error);
        let file = Unfinished::beside(&path).map_err(failed)?;
        let descriptor = file.descriptor().map_err(failed)?;
        self.entry.owner = start(descriptor).map_err(|error| {
            let message = "cannot start the process that puts it back; it was put back at once";
            Problem::new(exit::FAILURE, format!("{message}: {error}"))
        })?;
        file.finish(&path, &self.entry).map_err(failed)?;
        self.is_open = false;
        Ok(())
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The loads have removed what they had outside of the target themselves, but for this.
    pub fn leave_outside(&mut self, left: Vec<OutsideResource>) {
        self.entry.ours.outside = left;
    }

    /// Puts the disks back. Those that could not be are tried once more with the rest ([`Journal::undo`]).
    pub fn undo_disks(&mut self) -> Vec<Undone> {
        let (settled, left) = self.entry.undo_disks(&self.host);
        if !settled.is_empty() {
            self.entry.disks = left;
            // If it cannot be written, and we are killed now, they are put back once more.
            let written = Unfinished::beside(&self.path);
            if let Ok(held) = written.and_then(|file| file.finish(&self.path, &self.entry)) {
                self.held = held;
            }
        }
        settled
    }

    /// Puts everything back and, when that worked, removes the file.
    pub fn undo(self) -> Vec<Undone> {
        self.undo_until(&Stop::new())
    }

    /// The same, but once we are asked to stop, what is left of very many files in our directories stays for `restore`.
    pub fn undo_until(mut self, stop: &Stop) -> Vec<Undone> {
        self.is_open = false;
        undo_file(&self.host, &self.path, &self.entry, (self.parts, stop))
    }

    /// Removes the file without putting anything back: the change is meant to stay.
    ///
    /// # Errors
    /// The change stays, but the file that says how to take it back is still there.
    pub fn keep_changes(mut self) -> Result<(), Problem> {
        self.is_open = false;
        durable::remove(&self.path).map_err(|error| {
            let path = self.path.display();
            let message = format!(
                "cannot remove {path}: a later `iosched restore` would take back what was set now: {error}"
            );
            Problem::new(exit::FAILURE, message).hint(format!("remove it by hand: rm {path}"))
        })
    }
}

/// An entry as the process has it that it is handed over to ([`Journal::hand_over`]).
#[derive(Debug)]
pub struct Held<'a> {
    host: &'a Host,
    path: &'a Path,
    file: fs::File,
}

/// Whose turn it is to put back what an entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handover {
    /// That of the process that hands it over, which still runs.
    NotYet,
    /// Ours.
    Ours,
    /// Nobody's, or that of whoever works it off after a crash.
    Over,
}

impl<'a> Held<'a> {
    /// The entry with this path, by the descriptor that came with it.
    ///
    /// # Errors
    /// One of the two is no regular file, so that nobody has handed over anything.
    pub fn new(host: &'a Host, path: &'a Path, file: fs::File) -> Result<Held<'a>, Problem> {
        let not_handed_over = |cause: &str| {
            let path = path.display();
            let message = format!("{path} was not handed over to be put back: {cause}");
            Problem::usage(message).hint(
                "`iosched set DEVICE SCHEDULER --for 10m` does that; `iosched restore` puts back at once",
            )
        };
        if !file.metadata().is_ok_and(|file| file.is_file()) {
            return Err(not_handed_over("standard input is no entry of the journal"));
        }
        match fs::symlink_metadata(path) {
            Ok(there) if !there.is_file() => Err(not_handed_over("it is no regular file")),
            _ => Ok(Held { host, path, file }),
        }
    }

    /// Whose turn it is now. What cannot be told is asked again.
    pub fn turn(&self) -> Handover {
        let Ok(ours) = self.file.metadata() else {
            return Handover::Over;
        };
        match fs::symlink_metadata(self.path) {
            Ok(now) if (now.dev(), now.ino()) == (ours.dev(), ours.ino()) => Handover::Ours,
            Err(error) if is_absence(&error) => Handover::Over,
            Err(_) => Handover::NotYet,
            Ok(_) => match read_with_run(self.host, self.path) {
                Ok((_, run)) if !run.is_alive() => Handover::Over,
                _ => Handover::NotYet,
            },
        }
    }

    /// Puts back what it says.
    pub fn undo(self, parts: Parts) -> Vec<Undone> {
        match durable::read_entry(self.path, SCHEMA) {
            Ok(entry) => undo_file(self.host, self.path, &entry, (parts, &Stop::new())),
            Err(cause) => vec![Undone::Failed {
                thing: self.path.display().to_string(),
                cause,
            }],
        }
    }
}

impl Drop for Journal {
    /// A run that ends by an error or a panic puts things back all the same.
    fn drop(&mut self) {
        if self.is_open {
            let whole = (self.parts, &Stop::new());
            let _ = undo_file(&self.host, &self.path, &self.entry, whole);
        }
    }
}

/// A journal file that some run left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The file.
    pub path: PathBuf,
    /// What it says.
    pub entry: Entry,
    /// Whether the run is still alive.
    pub run: RunState,
}

/// What is known of the run that wrote an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// It is over.
    Dead,
    /// It is alive, and puts back what it changed.
    Alive,
    /// It was killed, and what it was doing in the kernel goes on.
    Dying,
    /// It is alive in a pid namespace that we do not see into.
    OutOfSight,
}

impl RunState {
    /// True unless it is over: what it changed is not to be put back by others.
    pub fn is_alive(self) -> bool {
        self != RunState::Dead
    }
}

/// Reads an entry, and tells what is known of its run.
fn read_with_run(host: &Host, path: &Path) -> Result<(Entry, RunState), String> {
    let mut entry = durable::read_entry::<Entry>(path, SCHEMA)?;
    loop {
        let run = state_of(host, path, &entry);
        if run.is_alive() {
            return Ok((entry, run));
        }
        // It may have handed the entry over since that was read, and ended with that done.
        let now = durable::read_entry::<Entry>(path, SCHEMA)?;
        if now.owner == entry.owner {
            return Ok((now, run));
        }
        entry = now;
    }
}

/// Whether the run that wrote this entry is alive.
fn state_of(host: &Host, path: &Path, entry: &Entry) -> RunState {
    if boot_id(host).is_ok_and(|now| now != entry.boot_id) {
        return RunState::Dead;
    }
    match entry.owner.state(host) {
        OwnerState::Runs => RunState::Alive,
        OwnerState::Dying => RunState::Dying,
        OwnerState::OutOfSight if durable::is_locked(path) => RunState::OutOfSight,
        OwnerState::Ended | OwnerState::OutOfSight => RunState::Dead,
    }
}

/// A journal file that does not say what is to be put back. It stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotUnderstood {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub cause: String,
}

/// Removes what runs left that were killed before their file was whole: they had changed nothing yet.
pub fn remove_unfinished(host: &Host) {
    durable::remove_unfinished(&directory(host));
}

/// The journal files on this machine that can be understood.
pub fn leftovers(host: &Host) -> Vec<Leftover> {
    read_all(host).0
}

/// Puts those of these disks back that dead runs left changed. What else they left stays in their entries.
pub fn put_disks_back_of_dead_runs(host: &Host, disks: &[String]) {
    let dead = leftovers(host).into_iter();
    let dead = dead.filter(|leftover| !leftover.run.is_alive());
    for leftover in dead {
        let mut saved = leftover.entry.disks.iter();
        if saved.any(|disk| disks.contains(&disk.device)) {
            leftover.undo_disks(host);
        }
    }
}

/// The commands of other runs that are alive and do more than wait to put something back.
pub fn others(host: &Host) -> Vec<String> {
    let us = Owner::this_process(host);
    let others = leftovers(host).into_iter();
    others
        .filter(|other| other.run.is_alive() && other.entry.owner != us)
        .filter(|other| !other.is_waiting_to_revert(host))
        .map(|other| other.entry.command)
        .collect()
}

/// The journal files on this machine, and those that cannot be understood: cut short, damaged, or of a newer
/// version.
pub fn read_all(host: &Host) -> (Vec<Leftover>, Vec<NotUnderstood>) {
    let mut found = Vec::new();
    let mut not_understood = Vec::new();
    let directory = directory(host);
    let mut paths = durable::whole_files(&directory).unwrap_or_else(|error| {
        not_understood.push(NotUnderstood {
            cause: error.to_string(),
            path: directory,
        });
        Vec::new()
    });
    paths.sort();
    for path in paths {
        match read_with_run(host, &path) {
            Ok((entry, run)) => found.push(Leftover { path, entry, run }),
            // Its run has ended since the directory was read.
            Err(_) if !path.exists() => {}
            Err(cause) => not_understood.push(NotUnderstood { path, cause }),
        }
    }
    (found, not_understood)
}

/// An error if there may be journal files that we cannot see or read.
pub fn check_readable(host: &Host) -> io::Result<()> {
    match fs::read_dir(directory(host)) {
        Ok(files) => files.into_iter().try_for_each(|file| {
            let file = file?;
            // A FIFO would be waited for; it is named with what is not understood.
            if file.file_type()?.is_file() {
                user_files::open_to_read(&file.path())?;
            }
            Ok(())
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

impl Leftover {
    /// True if its owner does nothing but wait to put things back (`set --for`).
    pub fn is_waiting_to_revert(&self, host: &Host) -> bool {
        if self.run != RunState::Alive {
            return false; // that number may be another's
        }
        fs::read(host.proc(&format!("{}/cmdline", self.entry.owner.pid)))
            .is_ok_and(|cmdline| cmdline.split(|&b| b == 0).nth(1) == Some(b"revert-after"))
    }

    /// The run, for sentences about it.
    pub fn holder(&self) -> Holder {
        let command = &self.entry.command;
        Holder {
            pid: self.entry.owner.pid,
            command: match self.run {
                RunState::OutOfSight => format!("{command}, in another pid namespace"),
                _ => command.clone(),
            },
        }
    }

    /// What to do where it stands in the way.
    pub fn way_out(&self) -> String {
        match self.run {
            RunState::OutOfSight => {
                "wait for it, or end it where it runs: in a container that shares /var/lib/iosched?"
                    .into()
            }
            RunState::Dying => {
                "it was killed and has not ended: `iosched restore` waits for it, and puts back what it changed"
                    .into()
            }
            RunState::Alive | RunState::Dead => format!(
                "wait for it, or end it now and have it put back: kill {}",
                self.entry.owner.pid
            ),
        }
    }

    /// Ends its owner with SIGTERM, and waits a moment for that; what does not end then (it was stopped) is killed.
    /// True once it has ended.
    pub fn end_owner(&self, host: &Host) -> bool {
        let pid = i32::try_from(self.entry.owner.pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        let Some(pid) = pid else { return false };
        [Signal::TERM, Signal::KILL].into_iter().any(|signal| {
            match self.entry.owner.state(host) {
                OwnerState::Ended => return true,
                OwnerState::OutOfSight => return false,
                OwnerState::Runs | OwnerState::Dying => {}
            }
            process::signal_if(pid, signal, || {
                self.entry.owner.state(host) != OwnerState::Ended
            });
            self.ends_within(host, END_PATIENCE)
        })
    }

    /// Waits for the end of its owner, which was killed; true once it has ended.
    pub fn wait_for_end(&self, host: &Host) -> bool {
        self.ends_within(host, DEATH_PATIENCE)
    }

    fn ends_within(&self, host: &Host, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            if self.entry.owner.state(host) == OwnerState::Ended {
                return true;
            }
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Puts back what the dead run left, and removes the file when that worked. One command at a time: what another
    /// has put back since the entry was read is not put back again, and may have been changed on purpose by now.
    ///
    /// What [`Leftover::undo_disks`] has settled before is left alone, even where the entry could not be written without it.
    pub fn undo(&self, host: &Host, parts: Parts, settled: &[Undone]) -> Vec<Undone> {
        let is_settled = |disk: &SavedDisk| {
            let mut devices = settled.iter().filter_map(Undone::settled_disk);
            devices.any(|device| device == disk.device)
        };
        self.in_turn(host, |entry| {
            let mut entry = entry.clone();
            entry.disks.retain(|disk| !is_settled(disk));
            undo_file(host, &self.path, &entry, (parts, &Stop::new()))
        })
    }

    /// Puts the disks back that the dead run left changed, and nothing else: what else there is may have to be waited for.
    /// Those that could not be are tried once more with the rest ([`Leftover::undo`]).
    pub fn undo_disks(&self, host: &Host) -> Vec<Undone> {
        self.in_turn(host, |entry| {
            let (settled, disks) = entry.undo_disks(host);
            if !settled.is_empty() {
                let left = Entry {
                    disks,
                    ..entry.clone()
                };
                // If it cannot be written, they are put back once more.
                let _ = durable::write_whole(&self.path, &left);
            }
            settled
        })
    }

    /// Does something with the entry as it is now, once nobody else does; nothing if somebody has put all of it back.
    fn in_turn(&self, host: &Host, work: impl FnOnce(&Entry) -> Vec<Undone>) -> Vec<Undone> {
        let failed = |cause: String| {
            vec![Undone::Failed {
                thing: self.path.display().to_string(),
                cause,
            }]
        };
        let _turn = match turn_at(&self.path) {
            Ok(Some(file)) => file,
            Ok(None) => return Vec::new(),
            Err(error) => return failed(error.to_string()),
        };
        match durable::read_entry(&self.path, SCHEMA) {
            Ok(entry) => {
                let entry: Entry = entry;
                for disk in &entry.disks {
                    crate::lock::wait_until_free(host, &disk.device);
                }
                work(&entry)
            }
            Err(cause) => failed(cause),
        }
    }
}

/// Waits until nobody else works off this file, which is then locked; none if it is gone.
fn turn_at(path: &Path) -> io::Result<Option<fs::File>> {
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let deadline = Instant::now() + TURN_PATIENCE;
    loop {
        let file = match user_files::open_to_read(path) {
            Err(error) if is_gone(&error) => return Ok(None),
            opened => opened?,
        };
        if lock::try_lock(&file)? {
            // It may have been written anew, or removed, while we waited.
            let ours = file.metadata()?;
            match fs::symlink_metadata(path) {
                Ok(now) if (now.dev(), now.ino()) == (ours.dev(), ours.ino()) => {
                    return Ok(Some(file));
                }
                Err(error) if is_gone(&error) => return Ok(None),
                Err(error) => return Err(error),
                Ok(_) => continue,
            }
        }
        if Instant::now() > deadline {
            return Err(io::Error::other(format!(
                "another command is putting it back: {}",
                lock::named(lock::holder(&Host::live(), &file).as_ref())
            )));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// So long may an owner take to put things back once it is asked to end.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// So long may a killed run take to end: a mount, or an mkfs on a slow disk, ends when the kernel is done with it.
const DEATH_PATIENCE: Duration = Duration::from_secs(20);

/// So long is another command waited for that puts the same things back.
const TURN_PATIENCE: Duration = Duration::from_secs(60);

/// What of an entry is to be put back.
#[derive(Debug, Clone, Copy)]
pub enum Parts {
    /// All of it.
    All(UndoOutside),
    /// What is on this machine: databases, for which a server has to be asked, stay in the entry.
    ButDatabases,
}

/// Puts back what an entry says. Its file goes when all is done, and else keeps what is not.
fn undo_file(
    host: &Host,
    path: &Path,
    entry: &Entry,
    (parts, stop): (Parts, &Stop),
) -> Vec<Undone> {
    let (mut undone, left) = entry.undo(host, parts, stop);
    let result = match &left {
        None => durable::remove(path),
        Some(left) => durable::write_whole(path, left),
    };
    if let Err(error) = result {
        undone.push(Undone::Failed {
            thing: path.display().to_string(),
            cause: format!("the journal cannot say what was put back: {error}"),
        });
    }
    undone
}

impl Entry {
    /// Puts the disks back: those that are settled, and those that are still to be put back.
    fn undo_disks(&self, host: &Host) -> (Vec<Undone>, Vec<SavedDisk>) {
        let Ok(now) = boot_id(host) else {
            return (Vec::new(), self.disks.clone());
        };
        let same_boot = now == self.boot_id;
        let mut undone = Vec::new();
        let left = Rest(&mut undone).of(&self.disks, |disk| Some(disk.undo(host, same_boot)));
        undone.retain(Undone::is_settled);
        (undone, left)
    }

    /// Ends what the loads left running, then puts every disk back and removes what is ours; with it goes what is
    /// still to be done, if anything is. While a process of a load goes on, it may still write: then only the disks are put
    /// back.
    fn undo(&self, host: &Host, parts: Parts, stop: &Stop) -> (Vec<Undone>, Option<Entry>) {
        let same_boot = match boot_id(host) {
            Ok(now) => now == self.boot_id,
            Err(error) => {
                let failed = Undone::Failed {
                    thing: "this boot of the machine".into(),
                    cause: error.to_string(),
                };
                return (vec![failed], Some(self.clone()));
            }
        };
        let processes = self.ours.processes.as_ref().filter(|_| same_boot);
        let processes = processes.and_then(|processes| match processes.end(host) {
            Ok(ended) if ended.is_empty() => None,
            Ok(names) => Some(Resolution::ProcessesEnded { names }.into()),
            Err(left) => Some(Undone::Failed {
                thing: left.join(", "),
                cause: "this process of its load does not end, and may still write".into(),
            }),
        });
        let goes_on = processes.as_ref().is_some_and(|ended| !ended.is_settled());
        let mut undone: Vec<Undone> = processes.into_iter().collect();
        let OwnedResources {
            directories,
            mount,
            file_system,
            outside,
            user,
            processes: _,
        } = &self.ours;
        let mut rest = Rest(&mut undone);
        let disks = rest.of(&self.disks, |disk| Some(disk.undo(host, same_boot)));
        if goes_on {
            let left = Entry {
                disks,
                ..self.clone()
            };
            return (undone, Some(left));
        }
        let outside = rest.of(outside, |own| match parts {
            Parts::All(undo) => Undone::of_outside(undo(own)),
            Parts::ButDatabases => Some(own.left("its server is not asked now").into()),
        });
        let directories = rest.of(directories, |path| {
            remove_directory(host, path, user.as_ref(), mount.as_ref(), stop)
        });
        let file_system = rest
            .of(file_system.as_slice(), |own| {
                Undone::of_file_system(host, own)
            })
            .pop();
        let left = Entry {
            disks,
            ours: OwnedResources {
                outside,
                directories,
                file_system,
                processes: None,
                ..self.ours.clone()
            },
            ..self.clone()
        };
        let is_done = left.disks.is_empty() && left.ours.is_empty();
        (undone, (!is_done).then_some(left))
    }
}

/// Collects what became of things, and tells which are still to be put back.
struct Rest<'a>(&'a mut Vec<Undone>);

impl Rest<'_> {
    fn of<T: Clone>(&mut self, things: &[T], undo: impl Fn(&T) -> Option<Undone>) -> Vec<T> {
        let mut left = Vec::new();
        for thing in things {
            let undone = undo(thing);
            if undone.as_ref().is_some_and(|undone| !undone.is_settled()) {
                left.push(thing.clone());
            }
            self.0.extend(undone);
        }
        left
    }
}

impl SavedDisk {
    /// The disk as it is now.
    pub fn read(sysfs: &Sysfs, device: &str) -> Result<SavedDisk, SwitchError> {
        let identity = Identity::read(sysfs, device);
        let unknown = |source| io_error(device, "diskseq", source);
        Ok(SavedDisk {
            device: device.into(),
            identity: identity.map_err(unknown)?,
            state: QueueState::read(sysfs, device)?,
            may_be_set: Vec::new(),
        })
    }

    /// True if that very disk is there, not a later one of the same name; or its queue, with what a run left on it.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn is_still_there(&self, host: &Host) -> io::Result<bool> {
        let sysfs = host.sysfs();
        if !sysfs.has_device(&self.device) {
            return Ok(false);
        }
        let now = Identity::read(&sysfs, &self.device)?;
        Ok(now.is_of_same_disk(&self.identity)
            || (now.is_of_same_queue(&self.identity) && self.is_left_on_queue(&sysfs)))
    }

    /// True if the queue, whose medium was changed, has a scheduler that the run may have set, and not one that somebody
    /// chose for the new medium. What stands inside a served disk went with that disk.
    fn is_left_on_queue(&self, sysfs: &Sysfs) -> bool {
        let Ok(now) = QueueState::read(sysfs, &self.device) else {
            return false;
        };
        let is_served = now.served.is_some() || self.state.served.is_some();
        let is_put_back = !self.may_be_set.is_empty() && now.scheduler == self.state.scheduler;
        !is_served && (is_put_back || self.may_be_set.contains(&now.scheduler))
    }

    /// What has become of the disk if there is nothing to put back; none if it is there.
    fn why_nothing_to_put_back(
        &self,
        host: &Host,
        same_boot: bool,
    ) -> io::Result<Option<Resolution>> {
        let device = self.device.clone();
        if !same_boot {
            return Ok(Some(Resolution::Rebooted { device }));
        }
        let is_there = self.is_still_there(host)?;
        Ok((!is_there).then_some(Resolution::Gone { device }))
    }

    /// True if the disk is gone within a moment.
    fn goes_away(&self, host: &Host) -> bool {
        (0..20).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            self.is_still_there(host).is_ok_and(|is_there| !is_there)
        })
    }

    /// Puts the disk back to this state, if it is that disk and that boot.
    pub fn undo(&self, host: &Host, same_boot: bool) -> Undone {
        let device = self.device.clone();
        match self.why_nothing_to_put_back(host, same_boot) {
            Ok(None) => {}
            Ok(Some(why)) => return why.into(),
            Err(error) => {
                return Undone::Failed {
                    thing: device,
                    cause: error.to_string(),
                };
            }
        }
        match self.state.restore(&host.sysfs(), &device) {
            Ok(adjusted) if adjusted.is_empty() => Undone::Restored {
                device,
                scheduler: self.state.deciding(),
            },
            Ok(adjusted) => Undone::RestoredExcept { device, adjusted },
            Err(SwitchError::Vanished { .. }) => Resolution::Gone { device }.into(),
            // A device that is being removed loses its files before its name.
            Err(_) if self.goes_away(host) => Resolution::Gone { device }.into(),
            Err(error) => Undone::Failed {
                thing: device,
                cause: error.to_string(),
            },
        }
    }
}

/// Whether a directory of ours is there.
enum Standing {
    There,
    Gone,
    /// Its file system is not mounted now.
    NotMounted(TargetMount),
}

impl Standing {
    /// None if something else is there.
    fn of_directory(
        host: &Host,
        path: &Path,
        mount: Option<&TargetMount>,
    ) -> Option<io::Result<Standing>> {
        let is_ours = path.file_name().is_some_and(user_files::is_drawn_name);
        match fs::symlink_metadata(path) {
            Ok(metadata) => (metadata.is_dir() && is_ours).then_some(Ok(Standing::There)),
            Err(error) if is_absence(&error) => {
                let mount = mount.filter(|mount| is_ours && !mount.is_mounted(host));
                Some(Ok(mount
                    .cloned()
                    .map_or(Standing::Gone, Standing::NotMounted)))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// Removes a directory of ours, in which `user` (or else we) worked; nothing to say where there is none, if the
/// file system that it was on is there.
fn remove_directory(
    host: &Host,
    path: &Path,
    user: Option<&User>,
    mount: Option<&TargetMount>,
    stop: &Stop,
) -> Option<Undone> {
    let failed = |error: io::Error| Undone::Failed {
        thing: path.display().to_string(),
        cause: error.to_string(),
    };
    let directory = path.to_owned();
    match Standing::of_directory(host, path, mount)? {
        Ok(Standing::There) => {}
        Ok(Standing::NotMounted(mount)) => {
            return Some(Resolution::NotMounted { directory, mount }.into());
        }
        // Whoever removed it may have been killed before that was on disk.
        Ok(Standing::Gone) => return sync_above(path).err().map(failed),
        Err(error) => return Some(failed(error)),
    }
    Some(match remove_tree(path, user, stop) {
        Ok(()) => Resolution::Removed { directory }.into(),
        Err(error) if is_of_others(&error) => Undone::Failed {
            thing: path.display().to_string(),
            cause: format!(
                "{error}: it is not the load's to remove; let the load's user in, or remove or unmount it as root, then \
                 run iosched restore"
            ),
        },
        Err(error) => failed(error),
    })
}

/// Somebody else's file, or something mounted, that came into a directory of ours.
fn is_of_others(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::CrossesDevices
            | io::ErrorKind::ResourceBusy
            | io::ErrorKind::DirectoryNotEmpty
    )
}

fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// What is in it goes with its user's rights, so that it cannot lead us to what he may not remove; the empty
/// directory goes with ours, where he may not remove that. It is gone on disk when this returns: the entry that
/// names it goes next, and may be on another disk.
fn remove_tree(path: &Path, user: Option<&User>, stop: &Stop) -> io::Result<()> {
    as_user(user, || {
        let (above, name) = beneath::split(path)?;
        above.clear_directory_until(stop, name)
    })?;
    let (above, name) = beneath::split(path)?;
    above.remove_directory(name)?;
    durable::sync_names(above.descriptor())
}

/// Makes sure that the name of a directory that is gone is gone on disk.
fn sync_above(path: &Path) -> io::Result<()> {
    match beneath::split(path) {
        Ok((above, _)) => durable::sync_names(above.descriptor()),
        Err(error) if is_absence(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

impl Identity {
    /// Reads it. Files that are not there are not compared.
    ///
    /// # Errors
    /// One that is there cannot be read.
    fn read(sysfs: &Sysfs, device: &str) -> io::Result<Identity> {
        let diskseq = sysfs.read_or_absent(device, "diskseq")?;
        let size = if diskseq.is_some() {
            None
        } else {
            sysfs.read_or_absent(device, "size")?
        };
        let queue = fs::metadata(sysfs.device_dir(device).join("queue")).ok();
        Ok(Identity {
            number: sysfs.read_or_absent(device, "dev")?.unwrap_or_default(),
            queue: queue.filter(|_| diskseq.is_some()).map(|queue| queue.ino()),
            diskseq,
            size,
        })
    }

    fn is_of_same_disk(&self, other: &Identity) -> bool {
        let disk = |of: &Identity| (of.number.clone(), of.diskseq.clone(), of.size.clone());
        disk(self) == disk(other)
    }

    fn is_of_same_queue(&self, other: &Identity) -> bool {
        self.number == other.number && self.queue.is_some() && self.queue == other.queue
    }
}

/// Names this boot of the machine; empty where the kernel has no name for it (a copied tree).
///
/// # Errors
/// It is there and cannot be read.
pub fn boot_id(host: &Host) -> Result<String, Problem> {
    let failed = |error| {
        let message = format!("cannot read /proc/sys/kernel/random/boot_id: {error}");
        Problem::new(exit::FAILURE, message)
    };
    Ok(host.boot_id().map_err(failed)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with one disk and a `/proc` of our own.
    fn machine(dir: &Path) -> Host {
        let block = dir.join("sys/block/sda/queue");
        fs::create_dir_all(&block).unwrap();
        fs::create_dir_all(dir.join("proc/sys/kernel/random")).unwrap();
        fs::write(dir.join("proc/sys/kernel/random/boot_id"), "boot-1\n").unwrap();
        fs::write(block.join("scheduler"), "[none] bfq\n").unwrap();
        fs::write(block.join("nr_requests"), "64\n").unwrap();
        fs::write(dir.join("sys/block/sda/dev"), "8:0\n").unwrap();
        fs::write(dir.join("sys/block/sda/diskseq"), "7\n").unwrap();
        Host::at(dir)
    }

    /// A run that may change the disk, and makes nothing.
    fn opened(host: &Host) -> Journal {
        let nothing = OwnedResources::default();
        Journal::open(host, &["sda".into()], &[], nothing, Parts::ButDatabases).unwrap()
    }

    /// As SIGKILL leaves it: the file is there, and nobody has it locked.
    fn killed(mut journal: Journal) {
        journal.is_open = false;
    }

    #[test]
    fn what_a_dead_run_changed_is_put_back_and_the_file_goes() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        let journal = opened(&host);
        host.sysfs().write("sda", "queue/nr_requests", "8").unwrap();
        let path = journal.path().to_owned();
        killed(journal);
        let found = leftovers(&host);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].run,
            RunState::Dead,
            "this /proc knows no such process"
        );
        let undone = found[0].undo(&host, Parts::ButDatabases, &[]);
        assert!(
            matches!(&undone[..], [Undone::Restored { .. }]),
            "{undone:?}"
        );
        assert_eq!(host.sysfs().read("sda", "queue/nr_requests").unwrap(), "64");
        assert!(!path.exists());
    }

    #[test]
    fn the_disks_of_dead_runs_come_back_before_the_next_run_reads_them() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        let devices = ["sda".to_owned()];
        let ours = OwnedResources {
            directories: vec![dir.path().join(".iosched-0123456789abcdef")],
            ..OwnedResources::default()
        };
        let journal = Journal::open(&host, &devices, &[], ours, Parts::ButDatabases).unwrap();
        let path = journal.path().to_owned();
        let before = journal.saved()[0].state.clone();
        let requests = || host.sysfs().read("sda", "queue/nr_requests").unwrap();
        host.sysfs().write("sda", "queue/nr_requests", "8").unwrap();
        killed(journal);
        put_disks_back_of_dead_runs(&host, &["sdb".into()]);
        assert_eq!(requests(), "8");
        put_disks_back_of_dead_runs(&host, &devices);
        assert_eq!(requests(), "64");
        let next = opened(&host);
        assert_eq!(next.saved()[0].state, before);
        killed(next);
        // What else it left is still to be removed, and the disk is nobody's to put back any more.
        let left: Entry = durable::read_entry(&path, SCHEMA).unwrap();
        assert!(left.disks.is_empty());
        assert_eq!(left.ours.directories.len(), 1);
    }

    #[test]
    fn a_run_that_is_killed_while_it_tidies_up_leaves_the_disk_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        let mut journal = opened(&host);
        host.sysfs().write("sda", "queue/nr_requests", "8").unwrap();
        assert!(matches!(
            journal.undo_disks()[..],
            [Undone::Restored { .. }]
        ));
        killed(journal);
        host.sysfs()
            .write("sda", "queue/nr_requests", "32")
            .unwrap();
        assert_eq!(
            leftovers(&host)[0].undo(&host, Parts::ButDatabases, &[]),
            []
        );
        assert_eq!(host.sysfs().read("sda", "queue/nr_requests").unwrap(), "32");
    }

    #[test]
    fn what_another_command_has_put_back_since_is_not_put_back_again() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        killed(opened(&host));
        let read = leftovers(&host);
        leftovers(&host)[0].undo(&host, Parts::ButDatabases, &[]);
        host.sysfs().write("sda", "queue/nr_requests", "8").unwrap(); // and is to stay so
        assert_eq!(read[0].undo(&host, Parts::ButDatabases, &[]), []);
        assert_eq!(host.sysfs().read("sda", "queue/nr_requests").unwrap(), "8");
    }

    #[test]
    fn a_fifo_in_the_journal_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        fs::create_dir_all(directory(&host)).unwrap();
        let fifo = directory(&host).join("1-x.json");
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        check_readable(&host).unwrap();
        assert_eq!(read_all(&host).1[0].cause, "it is no regular file");
    }

    #[test]
    fn runs_beside_us_are_those_of_others_that_are_alive() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        let fields = (5..22).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let is_alive = |pid: u32, start: u64| {
            fs::create_dir_all(host.proc(&pid.to_string())).unwrap();
            let stat = format!("{pid} (iosched) S 1 {fields} {start} 9\n");
            fs::write(host.proc(&format!("{pid}/stat")), stat).unwrap();
        };
        is_alive(std::process::id(), 1);
        let own = opened(&host);
        assert_eq!(others(&host), Vec::<String>::new(), "we are not beside us");
        let other = |pid, start_ticks| {
            let journal = opened(&host);
            let owner = Owner {
                pid,
                start_ticks,
                pid_namespace: None,
            };
            journal.hand_over(|_| Ok(owner)).unwrap();
        };
        is_alive(4711, 5);
        other(4711, 5);
        other(4712, 5); // has ended
        assert_eq!(others(&host), std::slice::from_ref(&own.entry.command));
        fs::write(host.proc("4711/cmdline"), b"iosched\0revert-after\0").unwrap();
        assert_eq!(others(&host), Vec::<String>::new(), "it only waits");
    }

    #[test]
    fn a_run_of_another_pid_namespace_is_alive_while_it_has_its_file_locked() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        let journal = opened(&host);
        let (path, mut entry) = (journal.path.clone(), journal.entry.clone());
        killed(journal);
        entry.owner.pid_namespace = Some(1);
        let held = Unfinished::beside(&path).unwrap();
        let held = held.finish(&path, &entry).unwrap();
        let state = || leftovers(&host)[0].run;
        assert_eq!(state(), RunState::OutOfSight);
        assert!(!leftovers(&host)[0].end_owner(&host), "nor is it signalled");
        drop(held); // SIGKILL
        assert_eq!(state(), RunState::Dead);
    }

    #[test]
    fn who_takes_an_entry_over_has_it_once_it_is_written_and_not_if_the_giver_dies_before() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        fs::create_dir_all(host.proc("4711")).unwrap();
        let fields = (5..22).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let us = host.proc(&std::process::id().to_string());
        fs::create_dir_all(&us).unwrap();
        fs::write(us.join("stat"), format!("1 (iosched) S 1 {fields} 5 9\n")).unwrap();
        let journal = opened(&host);
        let path = journal.path.clone();
        let taker = Owner {
            pid: 4711,
            ..journal.entry.owner
        };
        let mut descriptor = None;
        let held = |file: &fs::File| Held::new(&host, &path, file.try_clone().unwrap()).unwrap();
        journal
            .hand_over(|file| {
                assert_eq!(held(&file).turn(), Handover::NotYet);
                fs::rename(us.join("stat"), us.join("dead")).unwrap();
                assert_eq!(held(&file).turn(), Handover::Over, "the giver was killed");
                descriptor = Some(file);
                Ok(taker)
            })
            .unwrap();
        let file = descriptor.unwrap();
        assert_eq!(held(&file).turn(), Handover::Ours);
        assert!(durable::is_locked(&path));
        assert!(matches!(
            held(&file).undo(Parts::ButDatabases)[..],
            [Undone::Restored { .. }]
        ));
        assert_eq!(held(&file).turn(), Handover::Over);
    }

    /// Both who takes an entry over and another command may look just then.
    #[test]
    fn who_hands_over_and_ends_while_it_is_asked_for_was_not_killed_before() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        let taker = Owner {
            pid: 4711,
            start_ticks: 5,
            pid_namespace: None,
        };
        let fields = (5..22).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        fs::create_dir_all(host.proc("4711")).unwrap();
        let runs = format!("4711 (iosched) S 1 {fields} 5 9\n");
        fs::write(host.proc("4711/stat"), runs).unwrap();
        // Whoever asks whether the giver runs waits here until the other end is closed.
        let giver = host.proc(&format!("{}/stat", std::process::id()));
        fs::create_dir_all(giver.parent().unwrap()).unwrap();
        let while_asked = |ask: &(dyn Fn(&Path, fs::File) -> bool + Sync)| {
            let journal = opened(&host);
            let path = journal.path.clone();
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            let fifo = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, &giver, fifo, mode, 0).unwrap();
            let in_journal = &path;
            std::thread::scope(|scope| {
                let mut asked = None;
                let handed_over = journal.hand_over(|file| {
                    let answer = scope.spawn(move || ask(in_journal, file));
                    let is_waiting = fs::OpenOptions::new().write(true).open(&giver)?;
                    asked = Some((answer, is_waiting));
                    Ok(taker)
                });
                handed_over.unwrap();
                fs::remove_file(&giver).unwrap();
                let (answer, is_waiting) = asked.unwrap();
                drop(is_waiting);
                let is_right = answer.join().unwrap();
                fs::remove_file(in_journal).unwrap();
                is_right
            })
        };
        assert!(while_asked(&|path, file| {
            Held::new(&host, path, file).unwrap().turn() == Handover::NotYet
        }));
        assert!(while_asked(
            &|_, _| leftovers(&host)[0].run == RunState::Alive
        ));
    }

    #[test]
    fn another_disk_of_the_same_name_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        killed(opened(&host));
        host.sysfs().write("sda", "diskseq", "8").unwrap();
        host.sysfs().write("sda", "queue/nr_requests", "8").unwrap();
        let undone = leftovers(&host)[0].undo(&host, Parts::ButDatabases, &[]);
        assert_eq!(
            undone,
            [Undone::As(Resolution::Gone {
                device: "sda".into()
            })]
        );
        assert_eq!(host.sysfs().read("sda", "queue/nr_requests").unwrap(), "8");
    }

    /// The file behind a loop device, or the card in a reader.
    #[test]
    fn what_is_left_on_a_queue_is_put_back_though_its_medium_was_changed() {
        let is_there = |now: &str, allowed: &[&str], is_new_queue: bool| {
            let dir = tempfile::tempdir().unwrap();
            let host = machine(dir.path());
            let disks = ["sda".into()];
            killed(
                Journal::open(
                    &host,
                    &disks,
                    allowed,
                    OwnedResources::default(),
                    Parts::ButDatabases,
                )
                .unwrap(),
            );
            let sysfs = host.sysfs();
            sysfs.write("sda", "diskseq", "8").unwrap();
            sysfs.write("sda", "queue/scheduler", now).unwrap();
            if is_new_queue {
                let queue = sysfs.device_dir("sda").join("queue");
                let old = dir.path().join("old");
                fs::rename(&queue, &old).unwrap();
                fs::create_dir(&queue).unwrap();
                for file in ["scheduler", "nr_requests"] {
                    fs::copy(old.join(file), queue.join(file)).unwrap();
                }
            }
            leftovers(&host)[0].entry.disks[0]
                .is_still_there(&host)
                .unwrap()
        };
        assert!(is_there("none [bfq]", &["bfq"], false));
        assert!(!is_there("none [bfq]", &["bfq"], true), "another device");
        assert!(!is_there("none [kyber]", &["bfq"], false), "chosen since");
        assert!(!is_there("none [bfq]", &[], false), "of an older version");
    }

    #[test]
    fn after_a_reboot_the_states_mean_nothing_but_the_directories_still_go() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        let ours = dir.path().join(".iosched-0123456789abcdef");
        fs::create_dir(&ours).unwrap();
        let made = OwnedResources {
            directories: vec![ours.clone()],
            ..OwnedResources::default()
        };
        killed(Journal::open(&host, &["sda".into()], &[], made, Parts::ButDatabases).unwrap());
        fs::write(host.proc("sys/kernel/random/boot_id"), "boot-2\n").unwrap();
        let undone = leftovers(&host)[0].undo(&host, Parts::ButDatabases, &[]);
        assert!(matches!(
            &undone[..],
            [
                Undone::As(Resolution::Rebooted { .. }),
                Undone::As(Resolution::Removed { .. })
            ]
        ));
        assert!(!ours.exists());
    }

    #[test]
    fn a_directory_that_is_not_ours_is_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        // What an entry names that is damaged, but can be read.
        for theirs in ["precious", ".iosched-notes", ".iosched-0123456789abcdeg"] {
            let theirs = dir.path().join(theirs);
            fs::create_dir(&theirs).unwrap();
            let removed = remove_directory(&Host::live(), &theirs, None, None, &Stop::new());
            assert_eq!(removed, None);
            assert!(theirs.exists());
        }
    }

    #[test]
    fn an_entry_with_databases_is_read_and_written_as_by_every_version() {
        let databases = serde_json::json!([
            {"connection": "host=db port=5433", "prefix": "iosched_4242_0badcafe"},
            {
                "connection": "host=/run/postgresql",
                "prefix": "iosched_4242_00c0ffee",
                "user": {
                    "uid": 1000,
                    "gid": 1000,
                    "groups": [4, 1000],
                    "name": "anna",
                    "home": "/home/anna",
                    "shell": "/bin/sh",
                },
            },
        ]);
        let written = serde_json::json!({"directories": [], "databases": databases});
        let ours: OwnedResources = serde_json::from_value(written.clone()).unwrap();
        let servers: Vec<&str> = ours.outside.iter().map(|own| &*own.connection).collect();
        assert_eq!(servers, ["host=db port=5433", "host=/run/postgresql"]);
        assert!(!ours.is_empty());
        assert_eq!(serde_json::to_value(&ours).unwrap(), written);
        let without = OwnedResources::default();
        let written = serde_json::json!({"directories": []});
        assert_eq!(serde_json::to_value(&without).unwrap(), written);
    }

    #[test]
    fn an_entry_that_is_cut_short_or_of_a_newer_version_is_named_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        let journal = opened(&host);
        let path = journal.path().to_owned();
        killed(journal);
        let whole = fs::read_to_string(&path).unwrap();
        let newer = whole.replace("\"schema\": 1", "\"schema\": 3");
        for (text, cause) in [
            (&whole[..whole.len() / 2], "cut short"),
            (&newer, "schema 3"),
        ] {
            fs::write(&path, text).unwrap();
            let (found, not_understood) = read_all(&host);
            assert_eq!(found, []);
            assert_eq!(not_understood[0].path, path);
            assert!(
                not_understood[0].cause.contains(cause),
                "{not_understood:?}"
            );
        }
    }

    #[test]
    fn what_older_programs_cannot_put_back_has_a_schema_that_they_leave_alone() {
        let plain = QueueState::default();
        let served = QueueState {
            served: Some("cfq".into()),
            ..QueueState::default()
        };
        assert_eq!(schema_of([].into_iter()), 1);
        assert_eq!(schema_of([&plain].into_iter()), 1);
        assert_eq!(schema_of([&plain, &served].into_iter()), 2);
    }

    #[test]
    fn a_file_that_does_not_go_is_an_error_when_the_change_is_to_stay() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        let journal = opened(&host);
        let path = journal.path().to_owned();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let error = journal.keep_changes().unwrap_err();
        assert!(error.to_string().contains("would take back"), "{error}");
        assert!(error.hint.unwrap().contains("rm "));
    }

    #[test]
    fn what_is_put_back_is_not_put_back_again_while_the_rest_waits_for_its_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        let mount = TargetMount {
            mount_point: dir.path().join("mnt"),
            source: "/dev/sda1".into(),
            uuid: None,
        };
        let ours = OwnedResources {
            directories: vec![dir.path().join("mnt/.iosched-0123456789abcdef")],
            mount: Some(mount.clone()),
            ..OwnedResources::default()
        };
        let journal =
            Journal::open(&host, &["sda".into()], &[], ours, Parts::ButDatabases).unwrap();
        let path = journal.path().to_owned();
        killed(journal);
        let undone = leftovers(&host)[0].undo(&host, Parts::ButDatabases, &[]);
        assert!(
            matches!(
                &undone[..],
                [
                    Undone::Restored { .. },
                    Undone::As(Resolution::NotMounted { .. })
                ]
            ),
            "{undone:?}"
        );
        let left = &leftovers(&host)[0].entry;
        assert_eq!((left.disks.len(), left.ours.directories.len()), (0, 1));
        assert!(path.exists());
    }
}
