//! `iosched set`: an arm on every disk that matters for a device, all of them or none.
//!
//! Decide ([`Change::plan`]), then do ([`Change::make`]). Until the last disk has taken the arm the
//! journal holds the state before, and an error, a signal or a crash puts it back.

use iosched_experiment::plan::disks_below;
use iosched_machine::device::{self, Device, DeviceKind, Role};
use iosched_machine::failure::{OrProblem, Problem, exit, problem};
use iosched_machine::host::Host;
use iosched_switch::journal::{self, Journal, Leftover, OwnedResources, Parts, SavedDisk, Undone};
use iosched_switch::lock;
use iosched_switch::{self as switch, Arm, Entered, QueueState, SwitchError};

use crate::history::{self, Turn};

/// What will be set where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Each disk with its state now and the arm that it will get.
    pub disks: Vec<(String, QueueState, Arm)>,
    /// What the user should know: old names, other layers.
    pub notes: Vec<String>,
}

/// What was done.
#[derive(Debug)]
pub struct AppliedChange {
    /// Each disk and what came of it.
    pub disks: Vec<(String, Entered)>,
    /// What interrupted runs had left of these disks, put back before.
    pub settled: Vec<Settled>,
    /// The states before, to be kept, put back, or handed over.
    pub journal: Journal,
}

impl AppliedChange {
    /// Keeps the change, and writes it down so that `undo` can take it back; `why` is for `log`.
    pub fn keep(self, turn: &Turn, why: Option<String>) -> Result<(), Problem> {
        let before = self.journal.saved().iter().cloned();
        let after = self.disks.into_iter().map(|(_, entered)| entered.state);
        history::remember(turn, why, before.zip(after).collect())?;
        self.journal.keep_changes()
    }

    /// Puts the disks back, because of this error.
    pub fn take_back(self, error: Problem) -> Problem {
        put_back(self.journal, error)
    }
}

impl Change {
    /// Finds the disks below a device and what each will really get.
    pub fn plan(host: &Host, target: &str, wanted: &Arm) -> Result<Change, Problem> {
        let device = device::find_to_change(host, target)?;
        let names = disks_of(host, &device)?;
        let mut change = Change::default();
        if names != [device.name.clone()] {
            let names = names.join(", ");
            change
                .notes
                .push(format!("{} stands on {names}: set there", device.name));
        }
        if device.kind == DeviceKind::Loop && stands_on_a_disk(host, &device) {
            change.notes.push(format!(
                "the disk that holds the file of {} has a scheduler of its own, which stays",
                device.name
            ));
        }
        for name in names {
            change.add(host, name, wanted)?;
        }
        Ok(change)
    }

    /// Adds a disk by its kernel name, if it can get the arm.
    pub(crate) fn add(&mut self, host: &Host, name: String, wanted: &Arm) -> Result<(), Problem> {
        let sysfs = host.sysfs();
        let scheduler = switch::resolve(&sysfs, &name, &wanted.scheduler).or_problem()?;
        let note = switch::renamed(&wanted.scheduler, &scheduler);
        self.notes
            .extend(note.filter(|note| !self.notes.contains(note)));
        switch::check_order(host, &name, &scheduler)?;
        switch::check_hang(host, &name)?;
        let state = QueueState::read(&sysfs, &name).or_problem()?;
        if let Some(served) = &state.served {
            self.notes.push(format!(
                "{served} stands inside {name}, below what is set here; `iosched emulate set {name} SCHEDULER` switches that"
            ));
        }
        let arm = Arm {
            layer: None,
            scheduler,
            tunables: wanted.tunables.clone(),
        };
        self.disks.push((name, state, arm));
        Ok(())
    }

    /// Sets every disk and reads it back; after an error all are as before. Where the kernel does not name this boot,
    /// nothing is set: after the next one `undo` and `restore` would take what stands then for ours.
    pub fn make(&self, host: &Host) -> Result<AppliedChange, Problem> {
        if journal::boot_id(host)?.is_empty() {
            let message = "nothing was set: which boot this is cannot be told without /proc/sys/kernel/random/boot_id";
            return Err(Problem::new(exit::FAILURE, message).hint("mount /proc"));
        }
        let names: Vec<String> = self.disks.iter().map(|(name, ..)| name.clone()).collect();
        let _locks = names
            .iter()
            .map(|name| lock::lock(host, name))
            .collect::<Result<Vec<_>, _>>()?;
        let settled = settle(host, &names)?;
        let schedulers = self.disks.iter().map(|(_, _, arm)| &*arm.scheduler);
        let schedulers: Vec<&str> = schedulers.collect();
        let journal = Journal::open(
            host,
            &names,
            &schedulers,
            OwnedResources::default(),
            Parts::ButDatabases,
        );
        let journal = journal.or_problem()?;
        let sysfs = host.sysfs();
        let set = |(name, _, arm): &(String, _, Arm)| {
            Ok::<_, SwitchError>((name.clone(), switch::set(&sysfs, name, arm, None)?))
        };
        match self.disks.iter().map(set).collect() {
            Ok(disks) => Ok(AppliedChange {
                disks,
                settled,
                journal,
            }),
            Err(error) => Err(put_back(journal, problem(&error))),
        }
    }
}

/// The disks whose scheduler is meant where a device is named, at least one.
///
/// # Errors
/// There is none to choose.
pub fn disks_of(host: &Host, device: &Device) -> Result<Vec<String>, Problem> {
    let names = disks_below(host, device).or_problem()?;
    if names.is_empty() {
        return Err(nothing_below(host, device));
    }
    Ok(names)
}

/// Puts back what was changed before an error.
pub(crate) fn put_back(journal: Journal, error: Problem) -> Problem {
    let left: Vec<String> = journal.undo().iter().filter_map(Undone::left).collect();
    if left.is_empty() {
        return error;
    }
    let message = format!(
        "{}; nor can it be put back now ({})",
        error.message,
        left.join("; ")
    );
    Problem::new(exit::FAILURE, message)
        .hint("`iosched restore` puts it back; what is to be is in the journal")
}

/// What a dead run left, and what became of it.
#[derive(Debug)]
pub struct Settled {
    /// The run.
    pub leftover: Leftover,
    /// What became of each thing.
    pub undone: Vec<Undone>,
}

impl Settled {
    /// A line for the user, and one for each thing that is still to be put back.
    pub fn notes(&self) -> Vec<String> {
        let command = &self.leftover.entry.command;
        let left = self.undone.iter().filter_map(Undone::left);
        let failed =
            left.map(|left| format!("not put back: {left}; `iosched restore` tries again"));
        let head = format!("put back what an interrupted run left: {command}");
        std::iter::once(head).chain(failed).collect()
    }
}

/// Puts back what dead runs left of these disks, the disks first; a live one that will put them back is an error.
pub fn settle(host: &Host, disks: &[String]) -> Result<Vec<Settled>, Problem> {
    let left = left_by_dead(host, disks)?.into_iter();
    let mut settled: Vec<Settled> = left
        .map(|leftover| Settled {
            undone: leftover.undo_disks(host),
            leftover,
        })
        .collect();
    for Settled { leftover, undone } in &mut settled {
        let rest = leftover.undo(
            host,
            Parts::All(iosched_experiment::load::undo_outside),
            undone,
        );
        undone.extend(rest);
    }
    Ok(settled)
}

/// What dead runs left of these disks.
///
/// # Errors
/// A live one will put them back.
pub fn left_by_dead(host: &Host, disks: &[String]) -> Result<Vec<Leftover>, Problem> {
    let left = left_on(host, disks);
    let Some(living) = left.iter().find(|leftover| leftover.run.is_alive()) else {
        return Ok(left);
    };
    Err(history::pending(&disks.join(", "), living))
}

/// What runs, dead or alive, have yet to put back on these disks.
pub(crate) fn left_on(host: &Host, disks: &[String]) -> Vec<Leftover> {
    let may_be_there = |disk: &SavedDisk| disk.is_still_there(host).unwrap_or(true);
    let is_ours = |disk: &SavedDisk| disks.contains(&disk.device) && may_be_there(disk);
    journal::leftovers(host)
        .into_iter()
        .filter(|leftover| leftover.entry.disks.iter().any(is_ours))
        .collect()
}

/// True if the file of a loop device is on a disk that has a scheduler itself.
fn stands_on_a_disk(host: &Host, device: &Device) -> bool {
    device::schedulable_disks(host, device)
        .is_ok_and(|disks| disks.iter().any(|disk| disk.name != device.name))
}

fn nothing_below(host: &Host, device: &Device) -> Problem {
    let role = device::stack(host, device)
        .ok()
        .and_then(|layers| layers.first().map(|layer| layer.role));
    if role == Some(Role::PathOfMultipath) {
        let message = format!(
            "{} is one path of a multipath disk, and stays at none",
            device.name
        );
        let holders = device.holders.join(", ");
        return Problem::new(exit::NOTHING_TO_CHOOSE, message)
            .hint(format!("set it on the multipath device: {holders}"));
    }
    switch::nothing_to_choose(&device.name, &device.schedulers.to_string())
}
