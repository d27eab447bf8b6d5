//! The history: every change that was meant to stay, when, by which command and why, with all that is
//! needed to take it back.
//!
//! One file per change below `/var/lib/iosched/history/`, written before the change is made and again
//! after it. A change that a power failure cut short is seen by its status, and can be taken back
//! like any other: each of its files is the old one or the new one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::facts;
use crate::failure::{Failure, exit};
use crate::host::Host;
use crate::journal::{self, SavedDisk, Undone};
use crate::lock::Holder;
use crate::persist::announce::announce;
use crate::persist::files::{self, FileChange, FileError};
use crate::persist::udev::UdevError;
use crate::switch::QueueState;

mod turn;

pub use turn::{Turn, Waiting, take_turn};

/// The version of the format.
const SCHEMA: u32 = 1;

/// A change of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Version of this format.
    pub schema: u32,
    /// Its number, from 1; later changes have higher ones.
    pub id: u64,
    /// When, in seconds since 1970.
    pub at_unix_s: f64,
    /// The command that made it.
    pub command: String,
    /// Why, in words.
    pub why: Option<String>,
    /// How far it came.
    pub status: Status,
    /// The boot in which it was made: states of a queue mean nothing in another.
    pub boot_id: String,
    /// The files.
    pub files: Vec<FileChange>,
    /// The disks.
    pub disks: Vec<DiskChange>,
}

/// How far a change came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It is being made, or was cut short.
    Begun,
    /// It was made.
    Done,
    /// It was taken back.
    TakenBack,
    /// It took another one back.
    Undo,
}

/// A disk before and after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskChange {
    /// The disk and its state before.
    pub before: SavedDisk,
    /// Its state after; none until it is known.
    pub after: Option<QueueState>,
}

/// Why the history could not be kept, or a change not taken back.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// It cannot be written: nothing was changed.
    #[error("cannot write the history {}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Asked to stop while another command had its turn: nothing was changed.
    #[error("nothing was changed: stopped while {0}")]
    Stopped(Waiting),
    /// There is nothing left to take back.
    #[error("there is no change to take back")]
    Nothing,
    /// Somebody changed a file after us.
    #[error("{} is not as change {id} left it: not taken back", path.display())]
    ChangedSince {
        /// Where.
        path: PathBuf,
        /// The change.
        id: u64,
    },
    /// A file could not be put back.
    #[error(transparent)]
    File(#[from] FileError),
    /// udev did not load what was put back.
    #[error(transparent)]
    Udev(#[from] UdevError),
}

impl Failure for HistoryError {
    fn hint(&self) -> Option<String> {
        match self {
            HistoryError::Write { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                Some("run it as root".into())
            }
            HistoryError::Write { .. } => {
                Some("without a history nothing is changed: make room or rights there".into())
            }
            HistoryError::Stopped(Waiting { holder, .. }) => Some(match holder {
                Some(Holder { pid, .. }) => format!("wait for it, or look what it does: ps {pid}"),
                None => "try again once it has ended".into(),
            }),
            HistoryError::Nothing => Some("`iosched log` shows what was changed; what was set on loop devices is not kept, since tomorrow each is another disk".into()),
            HistoryError::ChangedSince { id, .. } => Some(format!(
                "`iosched log --id {id}` shows what it held before: put back by hand what you want"
            )),
            HistoryError::File(error) => error.hint(),
            HistoryError::Udev(error) => error.hint(),
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            HistoryError::Write { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                exit::NOT_PERMITTED
            }
            HistoryError::Stopped(_) => exit::BUSY,
            HistoryError::Nothing => exit::FAILURE,
            HistoryError::Write { .. } | HistoryError::ChangedSince { .. } => exit::BAD_FILE,
            HistoryError::File(error) => error.exit_code(),
            HistoryError::Udev(error) => error.exit_code(),
        }
    }
}

/// A change that is being made.
#[derive(Debug)]
pub struct Change {
    path: PathBuf,
    entry: Entry,
}

/// What was taken back.
#[derive(Debug, Serialize)]
pub struct TakenBack {
    /// The change.
    pub entry: Entry,
    /// The files that are as before.
    pub files: Vec<PathBuf>,
    /// What became of each disk.
    pub disks: Vec<Undone>,
}

fn directory(host: &Host) -> PathBuf {
    host.path(Path::new("/var/lib/iosched/history"))
}

/// Writes down a change of disks alone that was just made. Loop devices are left out: tomorrow each
/// of them is another disk.
pub fn remember(
    turn: &Turn,
    why: Option<String>,
    changed: Vec<(SavedDisk, QueueState)>,
) -> Result<(), HistoryError> {
    let (before, after): (Vec<_>, Vec<_>) = changed
        .into_iter()
        .filter(|(disk, _)| !disk.device.starts_with("loop"))
        .unzip();
    if before.is_empty() {
        return Ok(());
    }
    turn.begin(why, Vec::new(), before)?.done(after)
}

/// All changes, the oldest first. What cannot be read is passed over.
pub fn entries(host: &Host) -> Vec<Entry> {
    let Ok(files) = fs::read_dir(directory(host)) else {
        return Vec::new();
    };
    let mut entries: Vec<Entry> = files
        .filter_map(|file| serde_json::from_slice(&fs::read(file.ok()?.path()).ok()?).ok())
        .collect();
    entries.sort_by_key(|entry| entry.id);
    entries
}

impl Turn {
    /// Writes down what will be changed. From now on it may be.
    pub fn begin(
        &self,
        why: Option<String>,
        files: Vec<FileChange>,
        disks: Vec<SavedDisk>,
    ) -> Result<Change, HistoryError> {
        let id = entries(self.host()).last().map_or(1, |entry| entry.id + 1);
        let change = Change {
            path: directory(self.host()).join(format!("{id:06}.json")),
            entry: Entry {
                schema: SCHEMA,
                id,
                at_unix_s: now_unix_s(),
                command: facts::command_line().join(" "),
                why,
                status: Status::Begun,
                boot_id: journal::boot_id(self.host()),
                files,
                disks: disks
                    .into_iter()
                    .map(|before| DiskChange {
                        before,
                        after: None,
                    })
                    .collect(),
            },
        };
        change.save()?;
        Ok(change)
    }

    /// Takes the last change back that was not taken back yet.
    pub fn undo(&self) -> Result<TakenBack, HistoryError> {
        let host = self.host();
        let mut entry = entries(host)
            .into_iter()
            .rev()
            .find(|entry| matches!(entry.status, Status::Begun | Status::Done))
            .ok_or(HistoryError::Nothing)?;
        let back = changes_back(host, &entry)?;
        let disks = entry.disks.iter().map(|disk| disk.before.clone()).collect();
        let why = Some(format!("takes back change {}", entry.id));
        let mut undo = self.begin(why, back.clone(), disks)?;
        if let Err(error) = install_all(host, &back) {
            undo.forget();
            return Err(error.into());
        }
        announce(host, &back)?;
        let same_boot = entry.boot_id == journal::boot_id(host);
        let disks: Vec<Undone> = entry
            .disks
            .iter()
            .filter(|_| host.is_live())
            .map(|disk| disk.before.undo(host, same_boot))
            .collect();
        undo.entry.status = Status::Undo;
        undo.save()?;
        entry.status = Status::TakenBack;
        save(
            &directory(host).join(format!("{:06}.json", entry.id)),
            &entry,
        )?;
        Ok(TakenBack {
            files: back.into_iter().map(|change| change.path).collect(),
            disks,
            entry,
        })
    }
}

/// Makes all these changes, or none.
fn install_all(host: &Host, changes: &[FileChange]) -> Result<(), FileError> {
    for (index, change) in changes.iter().enumerate() {
        if let Err(error) = change.install(host) {
            for made in changes[..index].iter().rev() {
                let _ = made.reversed().install(host);
            }
            return Err(error);
        }
    }
    Ok(())
}

/// The changes of files that take an entry back, last first; those that were never made are left out.
fn changes_back(host: &Host, entry: &Entry) -> Result<Vec<FileChange>, HistoryError> {
    let mut back = Vec::new();
    for change in entry.files.iter().rev() {
        let now = files::read(host, &change.path)?;
        if now == change.before {
            continue;
        }
        if now != change.after {
            return Err(HistoryError::ChangedSince {
                path: change.path.clone(),
                id: entry.id,
            });
        }
        back.push(change.reversed());
    }
    Ok(back)
}

impl Change {
    /// Its number.
    pub fn id(&self) -> u64 {
        self.entry.id
    }

    /// It was made, and left the disks in these states.
    pub fn done(mut self, after: Vec<QueueState>) -> Result<(), HistoryError> {
        for (disk, state) in self.entry.disks.iter_mut().zip(after) {
            disk.after = Some(state);
        }
        self.entry.status = Status::Done;
        self.save()
    }

    /// It was not made: nothing of it is left.
    pub fn forget(self) {
        let _ = fs::remove_file(&self.path);
    }

    fn save(&self) -> Result<(), HistoryError> {
        save(&self.path, &self.entry)
    }
}

fn save(path: &Path, entry: &Entry) -> Result<(), HistoryError> {
    journal::write_whole(path, entry).map_err(|source| HistoryError::Write {
        path: path.into(),
        source,
    })
}

fn now_unix_s() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persist::testing::{machine, write};
    use crate::process::Stop;

    fn a_turn(host: &Host) -> Turn {
        take_turn(host, &Stop::new(), &mut |_| {}).unwrap()
    }

    fn change(host: &Host, turn: &Turn, text: &str) -> Change {
        let file = FileChange::plan(host, "/etc/x", Some(text.into()))
            .unwrap()
            .unwrap();
        let change = turn.begin(None, vec![file.clone()], vec![]).unwrap();
        file.install(host).unwrap();
        change
    }

    #[test]
    fn changes_are_taken_back_one_after_the_other() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "etc/x", "0");
        let turn = a_turn(&host);
        change(&host, &turn, "1").done(vec![]).unwrap();
        change(&host, &turn, "2").done(vec![]).unwrap();
        let text = || fs::read_to_string(dir.path().join("etc/x")).unwrap();
        assert_eq!(turn.undo().unwrap().entry.id, 2);
        assert_eq!(text(), "1");
        assert_eq!(turn.undo().unwrap().entry.id, 1);
        assert_eq!(text(), "0");
        assert!(matches!(turn.undo(), Err(HistoryError::Nothing)));
        let statuses: Vec<Status> = entries(&host).iter().map(|entry| entry.status).collect();
        assert_eq!(
            statuses,
            [
                Status::TakenBack,
                Status::TakenBack,
                Status::Undo,
                Status::Undo
            ]
        );
    }

    #[test]
    fn what_a_power_failure_cut_short_can_be_taken_back_whichever_file_is_there() {
        for was_made in [false, true] {
            let (dir, host) = machine(&[]);
            write(dir.path(), "etc/x", "0");
            let turn = a_turn(&host);
            let file = FileChange::plan(&host, "/etc/x", Some("1".into()))
                .unwrap()
                .unwrap();
            turn.begin(None, vec![file.clone()], vec![]).unwrap();
            if was_made {
                file.install(&host).unwrap();
            }
            turn.undo().unwrap();
            assert_eq!(fs::read_to_string(dir.path().join("etc/x")).unwrap(), "0");
        }
    }

    #[test]
    fn what_somebody_changed_since_is_not_overwritten() {
        let (dir, host) = machine(&[]);
        let turn = a_turn(&host);
        change(&host, &turn, "1").done(vec![]).unwrap();
        write(dir.path(), "etc/x", "theirs");
        let error = turn.undo().unwrap_err();
        assert!(
            matches!(error, HistoryError::ChangedSince { id: 1, .. }),
            "{error}"
        );
        assert_eq!(
            fs::read_to_string(dir.path().join("etc/x")).unwrap(),
            "theirs"
        );
    }
}
