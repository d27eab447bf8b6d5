//! The history: every change that was meant to stay, when, by which command and why, with all that is
//! needed to take it back.
//!
//! One file per change below `/var/lib/iosched/history/`, written before the change is made and again
//! after it. A change that a power failure cut short is seen by its status, and can be taken back
//! like any other: each of its files is the old one or the new one. `undo` takes changes back, one command
//! at a time (`turn`).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use iosched_machine::clock::unix_time;
use iosched_machine::durable;
use iosched_machine::facts;
use iosched_machine::failure::{Problem, exit, room_hint};
use iosched_machine::host::Host;
use iosched_machine::lock;
use iosched_machine::user_files;
use iosched_switch::QueueState;
use iosched_switch::journal::{self, Leftover, SavedDisk};
use serde::{Deserialize, Serialize};

use crate::system_config::files::FileChange;

mod turn;
mod undo;

pub use turn::{Turn, Waiting, take_turn};
pub use undo::{NextUndo, TakenBack, is_undo_cut_short, next_undo};

/// The newest version of the format; an entry has the lowest whose programs can take back all of it.
pub(crate) const SCHEMA: u32 = 2;

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
    /// The change that it takes back, if it is an undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes_back: Option<u64>,
    /// The boot in which the states of the disks were read: they mean nothing in another.
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
    /// It takes another one back, or was cut short in that: the next command finishes it.
    Undoing,
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

/// The history cannot be written: nothing was changed.
fn not_written(path: &Path, source: &io::Error) -> Problem {
    let message = format!("cannot write the history {}: {source}", path.display());
    let way = room_hint(source).unwrap_or("make room or rights there");
    with_rights(
        source,
        message,
        format!("without a history nothing is changed: {way}"),
    )
}

/// It cannot be read: nothing was changed.
fn not_read(path: &Path, source: &io::Error) -> Problem {
    let message = format!("cannot read the history {}: {source}", path.display());
    with_rights(source, message, "look what keeps it from being read".into())
}

fn with_rights(source: &io::Error, message: String, hint: String) -> Problem {
    if source.kind() == io::ErrorKind::PermissionDenied {
        return Problem::new(exit::NOT_PERMITTED, message).hint("run it as root");
    }
    Problem::new(exit::BAD_FILE, message).hint(hint)
}

/// A command that is alive has changed a disk, and will put it back itself.
pub(crate) fn pending(device: &str, living: &Leftover) -> Problem {
    let how = "it will put back what it changed";
    let message = lock::in_use(device, Some(&living.holder()), how);
    Problem::new(exit::BUSY, message).hint(living.way_out())
}

/// A change that is being made.
#[derive(Debug)]
pub(crate) struct Change {
    path: PathBuf,
    entry: Entry,
}

/// Where changes are written down, on the machine.
const DIRECTORY: &str = "/var/lib/iosched/history";

fn directory(host: &Host) -> PathBuf {
    host.path(Path::new(DIRECTORY))
}

/// In a copied tree a link leads to this machine's files, or anywhere.
fn refuse_links(host: &Host) -> io::Result<()> {
    if host.is_live() {
        return Ok(());
    }
    let ways = Path::new(DIRECTORY).ancestors().map(|way| host.path(way));
    for way in ways.take(Path::new(DIRECTORY).components().count() - 1) {
        if way.is_symlink() {
            return Err(io::Error::other(format!(
                "{} is a symbolic link, which may lead out of the tree",
                way.display()
            )));
        }
    }
    Ok(())
}

/// Writes down a change of disks alone that was just made. A loop device counts as a disk until it is detached:
/// its `diskseq` tells it from the next one of its name.
pub(crate) fn remember(
    turn: &Turn,
    why: Option<String>,
    changed: Vec<(SavedDisk, QueueState)>,
) -> Result<(), Problem> {
    let (before, after): (_, Vec<QueueState>) = changed.into_iter().unzip();
    let mut change = Change::of(
        turn.host(),
        new_entry(turn.host(), why, Vec::new(), before)?,
    );
    if let Err(error) = change.done(after) {
        change.forget(); // the caller puts the disks back
        return Err(error);
    }
    Ok(())
}

/// All changes, the oldest first, but for those that are [`not_understood`].
///
/// # Errors
/// They cannot be listed, or we may not read one.
pub fn entries(host: &Host) -> Result<Vec<Entry>, Problem> {
    let files = files(host)?;
    files.iter().try_for_each(|path| check_permitted(path))?;
    let mut entries: Vec<Entry> = files.iter().filter_map(|path| read(path)).collect();
    entries.sort_by_key(|entry| entry.id);
    Ok(entries)
}

/// Files of changes that are damaged or of a newer version, the oldest first: they stay as they are.
pub fn not_understood(host: &Host) -> Result<Vec<PathBuf>, Problem> {
    let mut files = files(host)?;
    files.retain(|path| id_of(path).is_some() && read(path).is_none());
    files.sort();
    Ok(files)
}

fn files(host: &Host) -> Result<Vec<PathBuf>, Problem> {
    let directory = directory(host);
    let listed = refuse_links(host).and_then(|()| durable::whole_files(&directory));
    listed.map_err(|source| not_read(&directory, &source))
}

/// What we may not read is not damaged.
fn check_permitted(path: &Path) -> Result<(), Problem> {
    match user_files::open_to_read(path) {
        Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
            Err(not_read(path, &source))
        }
        _ => Ok(()),
    }
}

fn read(path: &Path) -> Option<Entry> {
    let entry: Entry = durable::read_entry(path, SCHEMA).ok()?;
    // Another number would have another change taken back, and be written elsewhere. No change has a disk twice, whose states
    // would contradict one another; and forged entries would have it looked at thousands of times.
    let mut named = BTreeSet::new();
    let mut disks = entry.disks.iter();
    let is_ours =
        Some(entry.id) == id_of(path) && disks.all(|disk| named.insert(&disk.before.device));
    is_ours.then_some(entry)
}

/// The number of the change that a file is of.
fn id_of(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}

impl Turn {
    /// Writes down what will be changed. From now on it may be.
    pub(crate) fn begin(
        &self,
        why: Option<String>,
        files: Vec<FileChange>,
        disks: Vec<SavedDisk>,
    ) -> Result<Change, Problem> {
        self.write_down(new_entry(self.host(), why, files, disks)?)
    }

    /// The entry of an undo of `entry`, which changes these files.
    fn new_undo(&self, entry: &Entry, files: Vec<FileChange>) -> Result<Change, Problem> {
        let disks = entry.disks.iter().map(|disk| disk.before.clone());
        let why = Some(format!("takes back change {}", entry.id));
        let undo = Entry {
            status: Status::Undoing,
            takes_back: Some(entry.id),
            boot_id: entry.boot_id.clone(),
            ..new_entry(self.host(), why, files, disks.collect())?
        };
        Ok(Change::of(self.host(), undo))
    }

    fn write_down(&self, entry: Entry) -> Result<Change, Problem> {
        let change = Change::of(self.host(), entry);
        change.save()?;
        Ok(change)
    }
}

fn new_entry(
    host: &Host,
    why: Option<String>,
    files: Vec<FileChange>,
    disks: Vec<SavedDisk>,
) -> Result<Entry, Problem> {
    // What was kept is not taken back from another medium, on whose queue it may be wanted.
    let disks: Vec<SavedDisk> = disks
        .into_iter()
        .map(|disk| SavedDisk {
            may_be_set: Vec::new(),
            ..disk
        })
        .collect();
    let schema = journal::schema_of(disks.iter().map(|disk| &disk.state));
    let disks = disks.into_iter().map(|before| DiskChange {
        before,
        after: None,
    });
    Ok(Entry {
        schema,
        id: next_id(host)?,
        at_unix_s: unix_time(),
        command: facts::command_line().join(" "),
        why,
        status: Status::Begun,
        takes_back: None,
        boot_id: journal::boot_id(host)?,
        files,
        disks: disks.collect(),
    })
}

/// One more than any number in use, that of an entry that we cannot read included.
fn next_id(host: &Host) -> Result<u64, Problem> {
    let files = files(host)?.into_iter();
    let ids = files.filter_map(|path| id_of(&path));
    let last = ids.max().unwrap_or(0);
    last.checked_add(1).ok_or_else(|| {
        let full = io::Error::other("no number is left after this one: move it away");
        not_written(&file_of(host, last), &full)
    })
}

fn file_of(host: &Host, id: u64) -> PathBuf {
    directory(host).join(format!("{id:06}.json"))
}

impl Change {
    fn of(host: &Host, entry: Entry) -> Change {
        Change {
            path: file_of(host, entry.id),
            entry,
        }
    }

    /// Its number.
    pub(crate) fn id(&self) -> u64 {
        self.entry.id
    }

    /// It was made, and left the disks in these states.
    pub(crate) fn done(&mut self, after: Vec<QueueState>) -> Result<(), Problem> {
        for (disk, state) in self.entry.disks.iter_mut().zip(after) {
            disk.after = Some(state);
        }
        self.entry.status = Status::Done;
        self.save()
    }

    /// It was not made: nothing of it is left.
    pub(crate) fn forget(self) {
        let _ = fs::remove_file(&self.path);
    }

    fn save(&self) -> Result<(), Problem> {
        save(&self.path, &self.entry)
    }
}

fn save(path: &Path, entry: &Entry) -> Result<(), Problem> {
    durable::write_whole(path, entry).map_err(|source| not_written(path, &source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system_config::testing::{machine, write};
    use iosched_machine::process::Stop;

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
    fn what_came_after_and_cannot_be_read_keeps_an_undo_from_taking_the_one_before() {
        let newer = |text: &str| text.replace("\"schema\":1", "\"schema\":3");
        let cut = |text: &str| text[..120].to_owned();
        let renumbered = |text: &str| text.replace("\"id\":2", "\"id\":18446744073709551615");
        let spoil: [&dyn Fn(&str) -> String; 3] = [&newer, &cut, &renumbered];
        for spoil in spoil {
            let (dir, host) = machine(&[]);
            write(dir.path(), "etc/x", "0");
            let turn = a_turn(&host);
            change(&host, &turn, "1").done(vec![]).unwrap();
            change(&host, &turn, "2").done(vec![]).unwrap();
            let (first, last) = (file_of(&host, 1), file_of(&host, 2));
            let compact = |path: &Path| {
                let value: serde_json::Value =
                    serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
                value.to_string()
            };
            let spoiled = spoil(&compact(&last));
            fs::write(&last, &spoiled).unwrap();
            let error = turn.undo().unwrap_err();
            let said = format!("{} is a later change that cannot be read", last.display());
            assert!(error.message.starts_with(&said), "{error}");
            assert_eq!(fs::read_to_string(dir.path().join("etc/x")).unwrap(), "2");
            assert_eq!(fs::read_to_string(&last).unwrap(), spoiled);
            assert_eq!(not_understood(&host).unwrap(), [last]);
            // What came before it keeps nobody from undoing what came after.
            change(&host, &turn, "3").done(vec![]).unwrap();
            assert_eq!(turn.undo().unwrap().entry.id, 3);
            fs::write(&first, "{").unwrap();
            let error = turn.undo().unwrap_err();
            assert!(error.message.contains("cannot be read"), "{error}");
        }
    }

    #[test]
    fn an_entry_that_names_a_disk_twice_is_not_understood() {
        let (_dir, host) = machine(&[]);
        let turn = a_turn(&host);
        let disk = |device: &str| {
            let value = serde_json::json!({
                "device": device,
                "identity": {"number": "8:0", "diskseq": null, "size": null},
                "state": {"scheduler": "none", "tunables": {}, "settings": {}},
            });
            serde_json::from_value(value).unwrap()
        };
        turn.begin(None, vec![], vec![disk("sda"), disk("sdb")])
            .unwrap();
        assert!(not_understood(&host).unwrap().is_empty());
        turn.begin(None, vec![], vec![disk("sda"), disk("sdb"), disk("sda")])
            .unwrap();
        assert_eq!(not_understood(&host).unwrap(), [file_of(&host, 2)]);
        let error = next_undo(&host).unwrap_err();
        assert!(error.message.contains("cannot be read"), "{error}");
    }

    #[test]
    fn what_somebody_changed_since_is_not_overwritten() {
        let (dir, host) = machine(&[]);
        let turn = a_turn(&host);
        change(&host, &turn, "1").done(vec![]).unwrap();
        write(dir.path(), "etc/x", "theirs");
        let error = turn.undo().unwrap_err();
        assert!(
            error.message.contains("is not as change 1 left it"),
            "{error}"
        );
        assert_eq!(
            fs::read_to_string(dir.path().join("etc/x")).unwrap(),
            "theirs"
        );
    }
}
