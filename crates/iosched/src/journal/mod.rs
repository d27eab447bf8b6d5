//! The journal: what a run changes on this machine, written down before it changes it, so that it
//! can be put back after Ctrl-C, SIGKILL, a power failure or a vanished device.
//!
//! One file per run below `/var/lib/iosched/journal/` (not `/run`: a directory of test files
//! outlives a power failure, so what names it must too). A file is there exactly as long as
//! something may have to be put back. [`leftovers`] finds the files of dead runs, [`Entry::undo`]
//! works one off.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::beneath;
use crate::durable;
use crate::facts;
use crate::failure::{Failure, exit};
use crate::file_system::OwnFileSystem;
use crate::host::Host;
use crate::load::pgbench::OwnDatabases;
use crate::process::{LoadProcesses, User, as_user};
use crate::switch::{QueueState, SwitchError};
use crate::sysfs::Sysfs;

mod undone;

pub use undone::Undone;

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
    pub ours: Ours,
}

/// What a run makes besides changing disks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ours {
    /// Directories on the target.
    pub directories: Vec<PathBuf>,
    /// The file system on the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<OwnFileSystem>,
    /// Databases on servers of somebody's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<OwnDatabases>,
    /// Whose rights the loads have, if not the run's: with them the directories are emptied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
    /// How the processes of the loads are found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<LoadProcesses>,
}

impl Ours {
    /// True if there is nothing to remove.
    pub fn is_empty(&self) -> bool {
        let Ours {
            directories,
            file_system,
            databases,
            user: _,
            processes,
        } = self;
        let is_without_things =
            directories.is_empty() && file_system.is_none() && databases.is_empty();
        is_without_things && processes.is_none()
    }
}

/// A process that can be told from a later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its pid.
    pub pid: u32,
    /// When it started, in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub start_ticks: u64,
}

/// A disk and its state before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedDisk {
    /// Kernel name.
    pub device: String,
    /// What tells it from a later disk of the same name.
    pub identity: Identity,
    /// Its state.
    pub state: QueueState,
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
}

/// Why the journal could not be kept or used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be written: nothing was changed.
    #[error("cannot write the journal {}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The state of a disk could not be read.
    #[error(transparent)]
    Switch(#[from] SwitchError),
}

impl Failure for JournalError {
    fn hint(&self) -> Option<String> {
        match self {
            JournalError::Write { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                Some("run it as root".into())
            }
            JournalError::Write { .. } => {
                Some("without a journal nothing is changed: make room or rights there".into())
            }
            JournalError::Switch(error) => error.hint(),
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            JournalError::Write { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                exit::NOT_PERMITTED
            }
            JournalError::Write { .. } => exit::FAILURE,
            JournalError::Switch(error) => error.exit_code(),
        }
    }
}

/// A journal file while its run lasts.
#[derive(Debug)]
pub struct Journal {
    host: Host,
    path: PathBuf,
    entry: Entry,
    is_open: bool,
}

/// Where the journal files are.
pub fn directory(host: &Host) -> PathBuf {
    host.path(Path::new("/var/lib/iosched/journal"))
}

impl Journal {
    /// Reads the state of the disks and writes it down. From now on they may be changed.
    pub fn open(host: &Host, devices: &[String], ours: Ours) -> Result<Journal, JournalError> {
        let sysfs = host.sysfs();
        let disks = devices
            .iter()
            .map(|device| SavedDisk::read(&sysfs, device))
            .collect::<Result<Vec<_>, SwitchError>>()?;
        let entry = Entry {
            schema: 1,
            command: facts::command_line().join(" "),
            owner: Owner::this_process(host),
            boot_id: boot_id(host),
            disks,
            ours,
        };
        let chance = rand::rng().next_u32();
        let name = format!("{}-{chance:08x}.json", entry.owner.pid);
        let journal = Journal {
            host: host.clone(),
            path: directory(host).join(name),
            entry,
            is_open: true,
        };
        journal.save()?;
        Ok(journal)
    }

    /// The state before of each disk, in the order given to [`Journal::open`].
    pub fn saved(&self) -> &[SavedDisk] {
        &self.entry.disks
    }

    /// Hands the entry over to another process, which will put things back in our place.
    pub fn hand_over(mut self, owner: Owner) -> Result<(), JournalError> {
        self.entry.owner = owner;
        self.save()?;
        self.is_open = false;
        Ok(())
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The loads have dropped their databases themselves, but for these.
    pub fn leave_databases(&mut self, left: Vec<OwnDatabases>) {
        self.entry.ours.databases = left;
    }

    /// Puts everything back and, when that worked, removes the file.
    pub fn undo(mut self) -> Vec<Undone> {
        self.is_open = false;
        undo_file(&self.host, &self.path, &self.entry)
    }

    /// Removes the file without putting anything back: the change is meant to stay.
    pub fn keep_changes(mut self) {
        self.is_open = false;
        let _ = fs::remove_file(&self.path);
    }

    fn save(&self) -> Result<(), JournalError> {
        durable::write_whole(&self.path, &self.entry).map_err(|source| JournalError::Write {
            path: self.path.clone(),
            source,
        })
    }
}

impl Drop for Journal {
    /// A run that ends by an error or a panic puts things back all the same.
    fn drop(&mut self) {
        if self.is_open {
            let _ = undo_file(&self.host, &self.path, &self.entry);
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
    /// True if the run is still alive.
    pub is_alive: bool,
}

/// The journal files on this machine. A file that cannot be read is passed over (and stays).
pub fn leftovers(host: &Host) -> Vec<Leftover> {
    let Ok(files) = fs::read_dir(directory(host)) else {
        return Vec::new();
    };
    let mut found: Vec<Leftover> = files
        .filter_map(|file| {
            let path = file.ok()?.path();
            let entry: Entry = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            let is_alive = entry.boot_id == boot_id(host) && entry.owner.is_alive(host);
            Some(Leftover {
                path,
                entry,
                is_alive,
            })
        })
        .collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// An error if there may be journal files that we cannot see or read.
pub fn check_readable(host: &Host) -> io::Result<()> {
    match fs::read_dir(directory(host)) {
        Ok(files) => files.into_iter().try_for_each(|file| {
            fs::File::open(file?.path())?;
            Ok(())
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

impl Leftover {
    /// True if its owner does nothing but wait to put things back (`set --for`).
    pub fn is_waiting_to_revert(&self, host: &Host) -> bool {
        fs::read(host.proc(&format!("{}/cmdline", self.entry.owner.pid)))
            .is_ok_and(|cmdline| cmdline.split(|&b| b == 0).nth(1) == Some(b"revert-after"))
    }

    /// Ends its owner with SIGTERM, and waits a moment for that; true once it has ended.
    pub fn end_owner(&self, host: &Host) -> bool {
        let pid = i32::try_from(self.entry.owner.pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        let Some(pid) = pid else { return false };
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        for _ in 0..100 {
            if !self.entry.owner.is_alive(host) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }

    /// Puts back what the dead run left, and removes the file when that worked.
    pub fn undo(&self, host: &Host) -> Vec<Undone> {
        undo_file(host, &self.path, &self.entry)
    }
}

fn undo_file(host: &Host, path: &Path, entry: &Entry) -> Vec<Undone> {
    let undone = entry.undo(host);
    if undone.iter().all(Undone::is_settled) {
        let _ = fs::remove_file(path);
    }
    undone
}

impl Entry {
    /// Ends what the loads left running, then puts every disk back and removes what is ours. While a process of
    /// a load goes on, nothing is as before: then nothing else is done.
    pub fn undo(&self, host: &Host) -> Vec<Undone> {
        let same_boot = self.boot_id == boot_id(host);
        let processes = self.ours.processes.as_ref().filter(|_| same_boot);
        let processes = processes.and_then(|processes| match processes.end(host) {
            Ok(ended) if ended.is_empty() => None,
            Ok(names) => Some(Undone::ProcessesEnded { names }),
            Err(left) => Some(Undone::Failed {
                thing: left.join(", "),
                cause: "this process of its load does not end, and may still write".into(),
            }),
        });
        if let Some(failed) = processes.iter().find(|ended| !ended.is_settled()) {
            return vec![failed.clone()];
        }
        let disks = self.disks.iter().map(|disk| disk.undo(host, same_boot));
        let Ours {
            directories,
            file_system,
            databases,
            user,
            processes: _,
        } = &self.ours;
        let databases = databases.iter().filter_map(OwnDatabases::undo);
        let user = user.as_ref();
        let directories = directories.iter();
        let directories = directories.filter_map(|path| remove_directory(path, user));
        let file_system = file_system.iter().filter_map(OwnFileSystem::undo);
        let ours = databases.chain(directories).chain(file_system);
        processes.into_iter().chain(disks).chain(ours).collect()
    }
}

impl SavedDisk {
    /// The disk as it is now.
    pub fn read(sysfs: &Sysfs, device: &str) -> Result<SavedDisk, SwitchError> {
        Ok(SavedDisk {
            device: device.into(),
            identity: Identity::read(sysfs, device),
            state: QueueState::read(sysfs, device)?,
        })
    }

    /// True if that very disk is there, not a later one of the same name.
    pub fn is_still_there(&self, host: &Host) -> bool {
        let sysfs = host.sysfs();
        sysfs.has_device(&self.device) && Identity::read(&sysfs, &self.device) == self.identity
    }

    /// True if the disk is gone within a moment.
    fn goes_away(&self, host: &Host) -> bool {
        (0..20).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            !self.is_still_there(host)
        })
    }

    /// Puts the disk back to this state, if it is that disk and that boot.
    pub fn undo(&self, host: &Host, same_boot: bool) -> Undone {
        let device = self.device.clone();
        if !same_boot {
            return Undone::Rebooted { device };
        }
        if !self.is_still_there(host) {
            return Undone::Gone { device };
        }
        match self.state.restore(&host.sysfs(), &device) {
            Ok(adjusted) if adjusted.is_empty() => Undone::Restored {
                device,
                scheduler: self.state.scheduler.clone(),
            },
            Ok(adjusted) => Undone::RestoredExcept { device, adjusted },
            Err(SwitchError::Vanished { .. }) => Undone::Gone { device },
            // A device that is being removed loses its files before its name.
            Err(_) if self.goes_away(host) => Undone::Gone { device },
            Err(error) => Undone::Failed {
                thing: device,
                cause: error.to_string(),
            },
        }
    }
}

/// Removes a directory of ours, in which `user` (or else we) worked; nothing to say where there is none.
fn remove_directory(path: &Path, user: Option<&User>) -> Option<Undone> {
    let is_ours = path
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(".iosched-"));
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() && is_ours => {}
        _ => return None,
    }
    Some(match remove_tree(path, user) {
        Ok(()) => Undone::Removed {
            directory: path.into(),
        },
        Err(error) => Undone::Failed {
            thing: path.display().to_string(),
            cause: error.to_string(),
        },
    })
}

/// What is in it goes with its user's rights, so that it cannot lead us to what he may not remove; the empty
/// directory goes with ours, where he may not remove that.
fn remove_tree(path: &Path, user: Option<&User>) -> io::Result<()> {
    as_user(user, || {
        let (above, name) = beneath::split(path)?;
        above.clear_directory(name)
    })?;
    let (above, name) = beneath::split(path)?;
    above.remove_directory(name)
}

impl Identity {
    /// Reads it. Files that are not there are not compared.
    pub fn read(sysfs: &Sysfs, device: &str) -> Identity {
        let diskseq = sysfs.read_if_present(device, "diskseq");
        let size = if diskseq.is_some() {
            None
        } else {
            sysfs.read_if_present(device, "size")
        };
        Identity {
            number: sysfs.read_if_present(device, "dev").unwrap_or_default(),
            diskseq,
            size,
        }
    }
}

impl Owner {
    /// Us.
    pub fn this_process(host: &Host) -> Owner {
        let pid = std::process::id();
        Owner {
            pid,
            start_ticks: start_ticks(host, pid).unwrap_or_default(),
        }
    }

    /// The process of this pid that runs now.
    pub fn of_pid(host: &Host, pid: u32) -> Option<Owner> {
        Some(Owner {
            pid,
            start_ticks: start_ticks(host, pid)?,
        })
    }

    /// True while that very process runs.
    pub fn is_alive(&self, host: &Host) -> bool {
        start_ticks(host, self.pid) == Some(self.start_ticks)
    }
}

/// Field 22 of `/proc/PID/stat`; none for a process that has ended, zombies included.
fn start_ticks(host: &Host, pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(host.proc(&format!("{pid}/stat"))).ok()?;
    // The command (field 2) may hold anything, so count from its closing parenthesis.
    let after_command = stat.rsplit_once(')')?.1;
    let mut fields = after_command.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Names this boot of the machine.
pub fn boot_id(host: &Host) -> String {
    fs::read_to_string(host.proc("sys/kernel/random/boot_id"))
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
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

    fn live(host: &Host, pid: u32) {
        let dir = host.proc(&pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        let fields = (4..22).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        fs::write(
            dir.join("stat"),
            format!("{pid} (a) b) S {fields} 4711 9\n"),
        )
        .unwrap();
    }

    #[test]
    fn start_ticks_are_field_22_whatever_the_command_is_called() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        live(&host, 5);
        assert_eq!(Owner::of_pid(&host, 5).unwrap().start_ticks, 4711);
    }

    #[test]
    fn what_a_dead_run_changed_is_put_back_and_the_file_goes() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        let journal = Journal::open(&host, &["sda".into()], Ours::default()).unwrap();
        host.sysfs().write("sda", "queue/nr_requests", "8").unwrap();
        let path = journal.path().to_owned();
        std::mem::forget(journal); // SIGKILL
        let found = leftovers(&host);
        assert_eq!(found.len(), 1);
        assert!(!found[0].is_alive, "this /proc knows no such process");
        let undone = found[0].undo(&host);
        assert!(
            matches!(&undone[..], [Undone::Restored { .. }]),
            "{undone:?}"
        );
        assert_eq!(host.sysfs().read("sda", "queue/nr_requests").unwrap(), "64");
        assert!(!path.exists());
    }

    #[test]
    fn another_disk_of_the_same_name_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        std::mem::forget(Journal::open(&host, &["sda".into()], Ours::default()).unwrap());
        host.sysfs().write("sda", "diskseq", "8").unwrap();
        host.sysfs().write("sda", "queue/nr_requests", "8").unwrap();
        let undone = leftovers(&host)[0].undo(&host);
        assert_eq!(
            undone,
            [Undone::Gone {
                device: "sda".into()
            }]
        );
        assert_eq!(host.sysfs().read("sda", "queue/nr_requests").unwrap(), "8");
    }

    #[test]
    fn after_a_reboot_the_states_mean_nothing_but_the_directories_still_go() {
        let dir = tempfile::tempdir().unwrap();
        let host = machine(dir.path());
        let ours = dir.path().join(".iosched-x1");
        fs::create_dir(&ours).unwrap();
        let made = Ours {
            directories: vec![ours.clone()],
            ..Ours::default()
        };
        std::mem::forget(Journal::open(&host, &["sda".into()], made).unwrap());
        fs::write(host.proc("sys/kernel/random/boot_id"), "boot-2\n").unwrap();
        let undone = leftovers(&host)[0].undo(&host);
        assert!(matches!(
            &undone[..],
            [Undone::Rebooted { .. }, Undone::Removed { .. }]
        ));
        assert!(!ours.exists());
    }

    #[test]
    fn a_directory_that_is_not_ours_is_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(remove_directory(dir.path(), None), None);
        assert!(dir.path().exists());
    }
}
