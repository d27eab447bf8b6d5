//! The last change taken back: killed at any moment, it is finished by the next command.
//!
//! An undo is in the history as [`Status::Undoing`] before it touches anything, and stays so until all is as
//! before; with a disk that does not take its state back it goes on to be tried. Each of its steps can be done twice, and saying that it was done is the last.

use std::io;
use std::path::PathBuf;

use iosched_machine::durable::Prepared;
use iosched_machine::failure::{Problem, exit, room_hint};
use iosched_machine::host::Host;
use iosched_switch::QueueState;
use iosched_switch::journal::{self, Foreseen, Resolution, SavedDisk, Undone};
use iosched_switch::lock::{self, Lock};
use serde::Serialize;

use super::{
    Change, DiskChange, Entry, Status, Turn, entries, file_of, id_of, not_understood, not_written,
};
use crate::system_config::announce::announce;
use crate::system_config::files::{self, FileChange};
use crate::system_config::grub;

/// What was taken back.
#[derive(Debug, Serialize)]
pub struct TakenBack {
    /// The change.
    pub entry: Entry,
    /// True if an earlier undo had been cut short, and was finished now.
    pub was_cut_short: bool,
    /// The files that are as before.
    pub files: Vec<PathBuf>,
    /// Files that are gone since the change, or that somebody changed after the undo was cut short: theirs now.
    pub left_alone: Vec<PathBuf>,
    /// What became of each disk.
    pub disks: Vec<Undone>,
}

/// What the next undo would take back.
#[derive(Debug, Serialize)]
pub struct NextUndo {
    /// The change.
    pub entry: Entry,
    /// True if an undo of it was cut short, and would be finished.
    pub was_cut_short: bool,
    /// The files that would be as before.
    pub files: Vec<PathBuf>,
    /// Files that are gone since the change, or that somebody changed after the undo was cut short: they would stay as
    /// they are.
    pub left_alone: Vec<PathBuf>,
    /// What would become of each disk.
    pub disks: Vec<Foreseen>,
}

/// What [`Turn::undo`] would do; touches nothing, and waits for nobody.
///
/// # Errors
/// As an undo would fail before it touches anything.
pub fn next_undo(host: &Host) -> Result<NextUndo, Problem> {
    let all = entries(host)?;
    let undo = unfinished(&all);
    let (entry, (changes, left_alone)) = if let Some(undo) = undo {
        let entry = taken_back_by(undo, &all);
        (entry, left_to_do(host, &undo.files)?)
    } else {
        let entry = last(host, &all)?;
        let changes = changes_back(host, &entry)?;
        (entry, changes)
    };
    check_nobody_puts_back(host, undo.unwrap_or(&entry))?;
    let theirs = theirs(host, &entry, undo)?;
    let same_boot = entry.boot_id == journal::boot_id(host)?;
    let disks = entry.disks.iter().filter(|_| host.is_live());
    let disks = disks.map(|disk| match of_disk(&theirs, disk) {
        Some(theirs) => theirs.clone().into(),
        None => disk.before.foresee(host, same_boot),
    });
    Ok(NextUndo {
        was_cut_short: undo.is_some(),
        files: changes.into_iter().map(|change| change.path).collect(),
        left_alone,
        disks: disks.collect(),
        entry,
    })
}

/// The change that an undo takes back; the undo itself where that is not there any more.
fn taken_back_by(undo: &Entry, all: &[Entry]) -> Entry {
    let entry = all.iter().find(|entry| Some(entry.id) == undo.takes_back);
    entry.unwrap_or(undo).clone()
}

/// The last change of all that was not taken back.
fn last(host: &Host, all: &[Entry]) -> Result<Entry, Problem> {
    let entry = all
        .iter()
        .rev()
        .find(|entry| matches!(entry.status, Status::Begun | Status::Done));
    let last = entry.map(|entry| entry.id);
    let later = |path: &PathBuf| id_of(path) > last;
    if let Some(path) = not_understood(host)?.into_iter().rfind(later) {
        let message = format!(
            "{} is a later change that cannot be read: nothing was taken back",
            path.display()
        );
        return Err(Problem::new(exit::BAD_FILE, message).hint(
            "use the version of iosched that wrote it; if it is damaged, look what it changed, and move it away",
        ));
    }
    entry.cloned().ok_or_else(|| {
        let problem = Problem::new(exit::FAILURE, "there is no change to take back");
        problem.hint("`iosched log` shows what was changed")
    })
}

/// The disks of a change that somebody has set otherwise since: undo leaves them alone. An undo that was cut short may have
/// left its disks in any state with the scheduler before or after the change.
fn theirs(host: &Host, entry: &Entry, undo: Option<&Entry>) -> Result<Vec<Resolution>, Problem> {
    let same_boot = entry.boot_id == journal::boot_id(host)?;
    let is_in = |undo: &Entry, device: &String| {
        let mut disks = undo.disks.iter();
        disks.any(|disk| disk.before.device == *device)
    };
    let left = journal::leftovers(host);
    let theirs = entry.disks.iter().filter_map(|disk| {
        let DiskChange { before, after } = disk;
        // As a run left it that was killed.
        let mut left = left.iter().flat_map(|of| &of.entry.disks);
        if left.any(|of| of.device == before.device) {
            return None;
        }
        let Foreseen::Restored { device, .. } = before.foresee(host, same_boot) else {
            return None;
        };
        let after = after.as_ref()?;
        let now = QueueState::read(&host.sysfs(), &device).ok()?;
        let is_theirs = match undo {
            None => now.taken_back(&before.state, after).is_none(),
            Some(undo) => {
                let was = &before.state.scheduler;
                let is_third = *was != after.scheduler
                    && now.scheduler != *was
                    && now.scheduler != after.scheduler;
                is_third || !is_in(undo, &device)
            }
        };
        let differences = after.differences(&now);
        is_theirs.then_some(Resolution::SetSince {
            device,
            differences,
        })
    });
    Ok(theirs.filter(|_| host.is_live()).collect())
}

/// What a change did not touch of its disks stays as it is now when it is taken back. A disk may have another name now.
fn keep_untouched(host: &Host, entry: &Entry, undo: &mut Entry) -> Result<(), Problem> {
    let same_boot = entry.boot_id == journal::boot_id(host)?;
    for disk in &mut undo.disks {
        let is_same = |of: &&DiskChange| of.before.device == disk.before.device;
        let after = (entry.disks.iter())
            .find(is_same)
            .and_then(|of| of.after.as_ref());
        let now = match disk.before.foresee(host, same_boot) {
            Foreseen::Restored { device, .. } => QueueState::read(&host.sysfs(), &device).ok(),
            _ => None,
        };
        let both = now.zip(after);
        let back = both.and_then(|(now, after)| now.taken_back(&disk.before.state, after));
        if let Some(back) = back {
            disk.before.state = back;
        }
    }
    Ok(())
}

/// What is said of this disk.
fn of_disk<'a>(theirs: &'a [Resolution], disk: &DiskChange) -> Option<&'a Resolution> {
    theirs
        .iter()
        .find(|theirs| matches!(theirs, Resolution::SetSince { device, .. } if *device == disk.before.device))
}

/// Keeps runs off the disks of a change until they are put back. What a run left on them that was killed is no change of
/// somebody else's: that is put back first.
fn take_disks(host: &Host, entry: &Entry) -> Result<Vec<Lock>, Problem> {
    let devices = entry.disks.iter().map(|disk| disk.before.device.clone());
    let there = devices.filter(|device| host.is_live() && host.sysfs().has_device(device));
    let there: Vec<String> = there.collect();
    let locks = there.iter().map(|device| lock::lock(host, device));
    let locks = locks.collect::<Result<Vec<Lock>, _>>()?;
    check_nobody_puts_back(host, entry)?;
    journal::put_disks_back_of_dead_runs(host, &there);
    let left = journal::leftovers(host);
    let mut left = left.iter().flat_map(|of| &of.entry.disks);
    if let Some(disk) = left.find(|disk| there.contains(&disk.device)) {
        let message = format!(
            "{} is not as it was before a run that was killed: nothing was taken back",
            disk.device
        );
        return Err(Problem::new(exit::FAILURE, message).hint("`iosched restore` puts it back"));
    }
    Ok(locks)
}

/// Refuses while a run measures a disk of the change, or `set --for` waits: it would put back what it found, and so
/// take the undo back.
fn check_nobody_puts_back(host: &Host, entry: &Entry) -> Result<(), Problem> {
    let is_of_entry = |disk: &SavedDisk| {
        let mut disks = entry.disks.iter();
        disks.any(|of| of.before.device == disk.device) && disk.is_still_there(host).unwrap_or(true)
    };
    let leftovers = journal::leftovers(host).into_iter();
    for other in leftovers.filter(|leftover| leftover.run.is_alive()) {
        if let Some(disk) = other.entry.disks.iter().find(|disk| is_of_entry(disk)) {
            let problem = super::pending(&disk.device, &other);
            let way = problem.hint.clone().unwrap_or_default();
            return Err(problem.hint(format!("nothing was taken back: {way}")));
        }
    }
    Ok(())
}

/// True if an undo was cut short.
pub fn is_undo_cut_short(host: &Host) -> bool {
    // Where that cannot be told, finishing it says why.
    entries(host).map_or(true, |entries| unfinished(&entries).is_some())
}

fn unfinished(entries: &[Entry]) -> Option<&Entry> {
    entries.iter().find(|entry| entry.status == Status::Undoing)
}

impl Turn {
    /// Takes the last change back that was not taken back yet. If an undo was cut short, this finishes it
    /// and does no more.
    pub fn undo(&self) -> Result<TakenBack, Problem> {
        match self.finish_undo()? {
            Some(taken) => Ok(taken),
            None => self.undo_last(),
        }
    }

    /// Finishes an undo that was cut short; none if there is none.
    pub fn finish_undo(&self) -> Result<Option<TakenBack>, Problem> {
        let all = entries(self.host())?;
        let Some(undo) = unfinished(&all) else {
            return Ok(None);
        };
        let _locks = take_disks(self.host(), undo)?;
        let entry = taken_back_by(undo, &all);
        let (files, left_alone) = left_to_do(self.host(), &undo.files)?;
        let theirs = theirs(self.host(), &entry, Some(undo))?;
        let undo = Change::of(self.host(), undo.clone());
        let ending = Ending::prepare(self.host(), &undo, &entry)?;
        install_all(self.host(), &files)?;
        let mut taken = self.end(undo, entry, ending, theirs)?;
        taken.was_cut_short = true;
        taken.files.retain(|path| !left_alone.contains(path));
        taken.left_alone = left_alone;
        Ok(Some(taken))
    }

    fn undo_last(&self) -> Result<TakenBack, Problem> {
        let entry = last(self.host(), &entries(self.host())?)?;
        let _locks = take_disks(self.host(), &entry)?;
        let (files, left_alone) = changes_back(self.host(), &entry)?;
        let theirs = theirs(self.host(), &entry, None)?;
        let mut undo = self.new_undo(&entry, files.clone())?;
        undo.entry
            .disks
            .retain(|disk| of_disk(&theirs, disk).is_none());
        keep_untouched(self.host(), &entry, &mut undo.entry)?;
        let ending = Ending::prepare(self.host(), &undo, &entry)?;
        undo.save()?;
        if let Err(error) = install_all(self.host(), &files) {
            undo.forget();
            return Err(error);
        }
        let mut taken = self.end(undo, entry, ending, theirs)?;
        taken.left_alone = left_alone;
        Ok(taken)
    }

    /// What comes after the files: programs are told, disks put back, and both entries say so.
    fn end(
        &self,
        undo: Change,
        entry: Entry,
        ending: Ending,
        theirs: Vec<Resolution>,
    ) -> Result<TakenBack, Problem> {
        let host = self.host();
        // What was made for files that are gone: by an undo that was cut short, or because the change was, before it.
        let gone = undo
            .entry
            .files
            .iter()
            .filter(|change| change.after.is_none());
        let never_made = entry.files.iter().filter(|change| change.before.is_none());
        for change in gone.chain(never_made) {
            change.remove_directories(host);
        }
        announce(host, &self.scope()?, &undo.entry.files, self.stop()).map_err(
            |error| match error.code {
                exit::INTERRUPTED => error.hint("`iosched undo` goes on with it"),
                _ => error,
            },
        )?;
        let same_boot = undo.entry.boot_id == journal::boot_id(host)?;
        let disks = undo.entry.disks.iter().filter(|_| host.is_live());
        let disks = disks.filter(|disk| of_disk(&theirs, disk).is_none());
        // A write that fails once may not fail again.
        let put_back = |disk: &DiskChange| match disk.before.undo(host, same_boot) {
            undone if undone.is_settled() => undone,
            _ => disk.before.undo(host, same_boot),
        };
        let put_back = disks.map(put_back);
        let disks: Vec<Undone> = put_back
            .chain(theirs.iter().cloned().map(Undone::As))
            .collect();
        let paths = undo.entry.files.iter().map(|change| change.path.clone());
        let files: Vec<PathBuf> = paths.collect();
        if disks.iter().all(Undone::is_settled) {
            ending.commit().map_err(|(path, source)| {
                let message = format!(
                    "change {} is taken back ({}), but that cannot be written in {}: {source}",
                    entry.id,
                    in_words(&files, &disks),
                    path.display()
                );
                let way = room_hint(&source).unwrap_or("make it writable");
                Problem::new(exit::BAD_FILE, message).hint(format!(
                    "{way}, then `iosched undo` writes it; what is set until then stays"
                ))
            })?;
        }
        Ok(TakenBack {
            entry,
            was_cut_short: false,
            files,
            left_alone: Vec::new(),
            disks,
        })
    }
}

/// What was put back, for an error.
fn in_words(files: &[PathBuf], disks: &[Undone]) -> String {
    let files = files.iter().map(|path| path.display().to_string());
    let disks = disks.iter().filter_map(Undone::settled_disk);
    let all: Vec<String> = files.chain(disks.map(str::to_owned)).collect();
    all.join(", ")
}

/// The files that say that an undo is over: written before it changes anything, because there may be no room for them
/// afterwards. They only take their places then.
struct Ending(Vec<Prepared>);

impl Ending {
    fn prepare(host: &Host, undo: &Change, entry: &Entry) -> Result<Ending, Problem> {
        let taken_back = Entry {
            status: Status::TakenBack,
            ..entry.clone()
        };
        let over = Entry {
            status: Status::Undo,
            ..undo.entry.clone()
        };
        // The undo itself may be all that is left of the change.
        let both = [taken_back, over].into_iter();
        let files = both.filter(|one| one.status == Status::Undo || one.id != undo.entry.id);
        let prepared = files.map(|one| {
            let path = file_of(host, one.id);
            Prepared::new(&path, &one).map_err(|source| not_written(&path, &source))
        });
        Ok(Ending(prepared.collect::<Result<_, _>>()?))
    }

    fn commit(self) -> Result<(), (PathBuf, io::Error)> {
        for prepared in self.0 {
            let path = prepared.path().to_owned();
            prepared.commit().map_err(|source| (path, source))?;
        }
        Ok(())
    }
}

/// The changes of an undo that are still to be made, and the files that are neither as before it nor as after.
fn left_to_do(
    host: &Host,
    changes: &[FileChange],
) -> Result<(Vec<FileChange>, Vec<PathBuf>), Problem> {
    let mut left = Vec::new();
    let mut theirs = Vec::new();
    for change in changes {
        let now = files::read(host, &change.path)?;
        if now == change.before {
            left.push(change.clone());
        } else if now != change.after {
            let in_it = |now: &String| grub::taken_back_in(&change.reversed(), now);
            match now.as_ref().and_then(in_it) {
                Some(after) => left.extend(in_place_of(change, now, after)),
                None => theirs.push(change.path.clone()),
            }
        }
    }
    Ok((left, theirs))
}

/// A change of the same file from what it holds now; nothing if that is as it is to be.
fn in_place_of(change: &FileChange, now: Option<String>, after: String) -> Option<FileChange> {
    let after = Some(after);
    (now != after).then(|| FileChange {
        before: now,
        after,
        ..change.clone()
    })
}

/// Makes all these changes, or none.
fn install_all(host: &Host, changes: &[FileChange]) -> Result<(), Problem> {
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

/// The changes of files that take an entry back, last first, without those that were never made; and the files that are
/// gone since, as the boot entry of a kernel that was removed.
fn changes_back(host: &Host, entry: &Entry) -> Result<(Vec<FileChange>, Vec<PathBuf>), Problem> {
    let (mut back, mut gone) = (Vec::new(), Vec::new());
    for change in entry.files.iter().rev() {
        let now = files::read(host, &change.path)?;
        if now == change.before {
            continue;
        }
        if now == change.after {
            back.push(change.reversed());
            continue;
        }
        let Some(now) = now else {
            gone.push(change.path.clone());
            continue;
        };
        let Some(after) = grub::taken_back_in(change, &now) else {
            let (id, path) = (entry.id, change.path.display());
            let message = format!("{path} is not as change {id} left it: not taken back");
            return Err(Problem::new(exit::BAD_FILE, message).hint(format!(
                "`iosched log --id {id}` shows what it held before: put back by hand what you want"
            )));
        };
        back.extend(in_place_of(&change.reversed(), Some(now), after));
    }
    Ok((back, gone))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::history::take_turn;
    use crate::system_config::testing::{machine, write};
    use iosched_machine::process::Stop;

    /// A change of two files, whose undo was cut short when this many of them were as before.
    fn cut_short(made: usize) -> (tempfile::TempDir, Turn) {
        let (dir, host) = machine(&[]);
        let turn = take_turn(&host, &Stop::new(), &mut |_| {}).unwrap();
        let plan = |path: &str| FileChange::plan(&host, path, Some("1".into()));
        let plans = ["/etc/x", "/etc/y"].map(|path| {
            write(dir.path(), &path[1..], "0");
            plan(path).unwrap().unwrap()
        });
        let mut change = turn.begin(None, plans.to_vec(), vec![]).unwrap();
        install_all(&host, &plans).unwrap();
        let entry = change.entry.clone();
        change.done(vec![]).unwrap();
        let (back, _) = changes_back(&host, &entry).unwrap();
        turn.new_undo(&entry, back.clone()).unwrap().save().unwrap();
        install_all(&host, &back[..made]).unwrap();
        (dir, turn)
    }

    fn text(dir: &tempfile::TempDir, name: &str) -> String {
        fs::read_to_string(dir.path().join("etc").join(name)).unwrap()
    }

    #[test]
    fn an_undo_that_was_cut_short_is_finished_and_never_taken_back() {
        for made in 0..=2 {
            let (dir, turn) = cut_short(made);
            assert!(is_undo_cut_short(turn.host()));
            let taken = turn.undo().unwrap();
            assert_eq!((taken.entry.id, taken.was_cut_short), (1, true));
            assert_eq!((text(&dir, "x"), text(&dir, "y")), ("0".into(), "0".into()));
            assert!(
                turn.undo()
                    .unwrap_err()
                    .message
                    .contains("no change to take back")
            );
            assert!(!is_undo_cut_short(turn.host()));
        }
    }

    /// As when a kernel is removed, whose boot entry was changed.
    #[test]
    fn a_file_that_is_gone_keeps_no_other_from_being_as_before() {
        let (dir, host) = machine(&[]);
        let turn = take_turn(&host, &Stop::new(), &mut |_| {}).unwrap();
        let plans = ["x", "y"].map(|name| {
            write(dir.path(), &format!("etc/{name}"), "0");
            let plan = FileChange::plan(&host, format!("/etc/{name}"), Some("1".into()));
            plan.unwrap().unwrap()
        });
        let mut change = turn.begin(None, plans.to_vec(), vec![]).unwrap();
        install_all(&host, &plans).unwrap();
        change.done(vec![]).unwrap();
        fs::remove_file(dir.path().join("etc/x")).unwrap();
        let gone = [PathBuf::from("/etc/x")];
        assert_eq!(next_undo(&host).unwrap().left_alone, gone);
        assert_eq!(turn.undo().unwrap().left_alone, gone);
        assert!(!dir.path().join("etc/x").exists());
        assert_eq!(text(&dir, "y"), "0");
        assert!(
            turn.undo()
                .unwrap_err()
                .message
                .contains("no change to take back")
        );
    }

    /// GRUB itself and the boot that succeeded write variables of their own there.
    #[test]
    fn an_undo_that_cannot_be_recorded_says_what_it_did() {
        let (dir, turn) = cut_short(0);
        let all = entries(turn.host()).unwrap();
        let undo = Change::of(turn.host(), unfinished(&all).unwrap().clone());
        let entry = taken_back_by(&undo.entry, &all);
        let ending = Ending::prepare(turn.host(), &undo, &entry).unwrap();
        fs::remove_dir_all(dir.path().join("var/lib/iosched/history")).unwrap();
        let error = turn
            .end(undo, entry, ending, vec![])
            .unwrap_err()
            .to_string();
        let said = "change 1 is taken back (/etc/y, /etc/x), but that cannot be written in ";
        assert!(error.starts_with(said), "{error}");
    }

    #[test]
    fn what_somebody_changed_after_an_undo_was_cut_short_is_theirs() {
        let (dir, turn) = cut_short(1);
        write(dir.path(), "etc/x", "theirs");
        let taken = turn.undo().unwrap();
        assert_eq!(taken.left_alone, [PathBuf::from("/etc/x")]);
        assert_eq!(
            (text(&dir, "x"), text(&dir, "y")),
            ("theirs".into(), "0".into())
        );
    }

    #[test]
    fn the_number_of_an_entry_that_cannot_be_read_is_not_given_again() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "var/lib/iosched/history/000007.json", "{");
        let turn = take_turn(&host, &Stop::new(), &mut |_| {}).unwrap();
        assert_eq!(turn.begin(None, vec![], vec![]).unwrap().id(), 8);
        let last = format!("var/lib/iosched/history/{}.json", u64::MAX);
        write(dir.path(), &last, "{");
        assert!(turn.begin(None, vec![], vec![]).is_err());
        assert_eq!(fs::read_to_string(dir.path().join(last)).unwrap(), "{");
    }
}
