//! A policy brought into force: planned ([`Deployment::plan`], nothing touched), then made
//! ([`Deployment::make`]) as a whole or not at all.
//!
//! Made means: each scheduler and tunable tried on the disk, so that the kernel itself says what it
//! does not take; put back; the files written; udev told; and what udev then did read back. If that
//! is not what was tried, somebody else's rule comes after ours: everything is taken back.

use std::path::Path;
use std::slice;

use iosched_experiment::journal::{SavedDisk, Undone};
use iosched_machine::device::{self, Device, NoChoice, Schedulers};
use iosched_machine::host::Host;
use iosched_switch::{self as switch, Adjusted, Entered, QueueState, SwitchError};

use crate::history::Turn;
use crate::persist::{from_policy, tuned};
use crate::policy::file::{self, Policy};
use crate::policy::matching;
use crate::policy::wanted::{self, Deviation, WantedDisk};
use crate::policy::writers;
use crate::set::{self, SetError};
use crate::system_config::announce::announce;
use crate::system_config::files::FileChange;
use crate::system_config::identity::Properties;
use crate::system_config::{boot, rules, udev};

pub use crate::persist::error::DeployError;
pub use crate::persist::from_policy::{DeployOptions, Method};

/// What will be changed, and what the user should know of it.
#[derive(Debug)]
pub struct Deployment {
    /// The policy that will be in force.
    pub policy: Policy,
    /// The disks that it is for, and what of each is not as wanted now.
    pub disks: Vec<(WantedDisk, Vec<Deviation>)>,
    /// The files that change.
    pub files: Vec<FileChange>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// The switches to be tried.
    change: set::Change,
}

/// What was done.
#[derive(Debug)]
pub struct Deployed {
    /// The number of the change in the history; none if nothing was to be changed.
    pub id: Option<u64>,
    /// Each disk that was switched, with its state now.
    pub disks: Vec<(String, QueueState)>,
    /// What the kernel took otherwise than asked.
    pub adjusted: Vec<Adjusted>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// When the disks get what the policy wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Now, and at every boot.
    Now,
    /// At the next boot or event.
    Later,
}

impl Deployment {
    /// What brings the machine's policy into force; with `text`, after the policy has become that.
    pub fn plan(
        host: &Host,
        text: Option<String>,
        options: DeployOptions,
    ) -> Result<Deployment, DeployError> {
        let path = Path::new(file::PATH);
        let (policy, policy_file) = match text {
            Some(text) => {
                let policy = Policy::parse(&text, path)?;
                // A policy without rules that we would have made anew need not be there.
                let keep = !policy.rules.is_empty() || !text.trim().is_empty();
                (policy, FileChange::plan(host, path, keep.then_some(text))?)
            }
            None => (
                file::read(host)?
                    .map(|(policy, _)| policy)
                    .unwrap_or_default(),
                None,
            ),
        };
        let disks = matching::disks(host).map_err(DeployError::List)?;
        let wanted = wanted::wanted(&policy, &disks);
        if options.method == Method::Tuned && !writers::tuned_runs(host) {
            return Err(DeployError::NoTuned);
        }
        let made = from_policy::files(host, &policy, &wanted, options)?;
        for file in &made {
            if let (Some(text), true) = (&file.after, file.path == Path::new(rules::PATH)) {
                if !udev::is_here(host) {
                    return Err(DeployError::NoUdev);
                }
                udev::verify(text)?;
            }
        }
        tuned::check_is_ours_to_choose(host, &made)?;
        let notes = from_policy::notes(host, &policy, &wanted, &made, options);
        for wanted in &wanted {
            switch::check_can_be_kept(&wanted.arm)?;
        }
        let change = switches(host, &wanted)?;
        let sysfs = host.sysfs();
        let disks = wanted
            .into_iter()
            .map(|wanted| {
                let deviations = wanted.deviations(&sysfs)?;
                Ok((wanted, deviations))
            })
            .collect::<Result<Vec<_>, SwitchError>>()?;
        let deployment = Deployment {
            policy,
            disks,
            files: policy_file.into_iter().chain(made).collect(),
            notes,
            change,
        };
        if !host.is_live() {
            deployment.foresee(host)?;
        }
        Ok(deployment)
    }

    /// Asks what nobody tries out (a copied machine, `--dry-run`): whether each disk has the tunables that the policy
    /// wants of it, and whether their values are what such a file shows.
    ///
    /// # Errors
    /// The first one that it has not, or that cannot be.
    pub fn foresee(&self, host: &Host) -> Result<(), DeployError> {
        let sysfs = host.sysfs();
        for (wanted, _) in &self.disks {
            switch::foresee(&sysfs, &wanted.disk.device.name, &wanted.arm)?;
        }
        Ok(())
    }

    /// The changes of the files that are made from a policy, if it is not in force.
    pub(crate) fn files_for(host: &Host, policy: &Policy) -> Result<Vec<FileChange>, DeployError> {
        let disks = matching::disks(host).map_err(DeployError::List)?;
        let wanted = wanted::wanted(policy, &disks);
        from_policy::files(host, policy, &wanted, DeployOptions::default())
    }

    /// What sets `elevator=` at every boot, for a device on the single-queue path and all others there; with no
    /// scheduler, what takes it out, on all machines.
    pub fn plan_command_line(
        host: &Host,
        wanted: Option<(&str, &str)>,
    ) -> Result<Deployment, DeployError> {
        let mut notes = Vec::new();
        if let Some((device, scheduler)) = wanted {
            notes.push(check_elevator(host, device, scheduler)?);
        }
        let scheduler = wanted.map(|(_, scheduler)| scheduler);
        let files = boot::files(host, scheduler)?;
        if scheduler.is_some() && files.is_empty() && boot::places_of_elevator(host).is_empty() {
            let of_another = boot::of_another_machine(host).map(DeployError::File);
            return Err(of_another.unwrap_or(DeployError::NoBootLoader {
                by_hand: boot::changed_by_hand(host),
            }));
        }
        notes.extend(boot::notes(host, &files));
        if scheduler.is_none() && files.is_empty() {
            notes.extend(boot::given_from_elsewhere(host));
        }
        Ok(Deployment {
            policy: Policy::default(),
            disks: Vec::new(),
            files,
            notes,
            change: set::Change {
                disks: Vec::new(),
                notes: Vec::new(),
            },
        })
    }

    /// True if there is nothing to do.
    pub fn is_in_force(&self) -> bool {
        self.files.is_empty()
            && self
                .disks
                .iter()
                .all(|(_, deviations)| deviations.is_empty())
    }

    /// Does it, or leaves the machine as it was.
    pub fn make(
        &self,
        turn: &Turn,
        when: When,
        why: Option<String>,
    ) -> Result<Deployed, DeployError> {
        if self.is_in_force() {
            return Ok(Deployed {
                id: None,
                disks: Vec::new(),
                adjusted: Vec::new(),
                notes: Vec::new(),
            });
        }
        let host = turn.host();
        let now = when == When::Now && host.is_live();
        let tried = if now {
            try_out(host, &self.change)?
        } else {
            Vec::new()
        };
        let sysfs = host.sysfs();
        let before = tried
            .iter()
            .map(|(device, _)| SavedDisk::read(&sysfs, device))
            .collect::<Result<Vec<_>, SwitchError>>()?;
        let mut change = turn.begin(why, self.files.clone(), before.clone())?;
        let mut made = Vec::new();
        let carried_out = self.carry_out(turn, now, &tried, &mut made);
        let outcome = carried_out.and_then(|(states, notes)| {
            change.done(states.clone())?;
            Ok((states, notes))
        });
        match outcome {
            Ok((states, notes)) => {
                let id = change.id();
                let devices = tried.iter().map(|(device, _)| device.clone());
                Ok(Deployed {
                    id: Some(id),
                    disks: devices.zip(states).collect(),
                    adjusted: tried.into_iter().flat_map(|(_, e)| e.adjusted).collect(),
                    notes,
                })
            }
            Err(error) => {
                if take_back(turn, &made, &before) {
                    change.forget();
                    return Err(error);
                }
                Err(DeployError::InPart {
                    id: change.id(),
                    error: Box::new(error),
                })
            }
        }
    }

    /// Installs the files and has udev (or, where none runs, us) apply them; the disks' states then.
    fn carry_out(
        &self,
        turn: &Turn,
        now: bool,
        tried: &[(String, Entered)],
        made: &mut Vec<FileChange>,
    ) -> Result<(Vec<QueueState>, Vec<String>), DeployError> {
        let host = turn.host();
        for file in &self.files {
            file.install(host)?;
            made.push(file.clone());
        }
        announce(host, &turn.scope()?, &self.files, turn.stop())?;
        let mut notes = Vec::new();
        if !now {
            return Ok((Vec::new(), notes));
        }
        if udev::is_running(host) {
            let devices: Vec<String> = tried.iter().map(|(device, _)| device.clone()).collect();
            ask_udev(
                &devices,
                |some| Ok(udev::trigger(host, some)?),
                || self.compare(host, tried),
            )?;
        } else if !tried.is_empty() {
            notes.push(
                "udev does not run here: the disks were set directly, and the rules are for the \
                 next boot"
                    .into(),
            );
            let journal = self.change.make(host)?.journal;
            journal.keep_changes().map_err(SetError::from)?;
        }
        let sysfs = host.sysfs();
        let states = tried
            .iter()
            .map(|(device, _)| QueueState::read(&sysfs, device))
            .collect::<Result<Vec<_>, SwitchError>>()?;
        Ok((states, notes))
    }

    /// What udev did must be what the kernel took when it was tried.
    fn compare(&self, host: &Host, tried: &[(String, Entered)]) -> Result<(), DeployError> {
        let sysfs = host.sysfs();
        for (device, entered) in tried {
            let found = QueueState::read(&sysfs, device)?;
            let wanted = self
                .disks
                .iter()
                .map(|(wanted, _)| wanted)
                .find(|wanted| wanted.disk.device.name == *device);
            let Some(wanted) = wanted else { continue };
            // Settings that the arm does not name may be another rule's business.
            let differing = entered
                .state
                .differences(&found)
                .into_iter()
                .find(|difference| {
                    difference.file == "queue/scheduler"
                        || wanted
                            .arm
                            .files_in_order()
                            .iter()
                            .any(|(places, _)| places.contains(&difference.file))
                });
            if let Some(difference) = differing {
                return Err(DeployError::Overridden {
                    device: device.clone(),
                    file: difference.file,
                    found: difference.found,
                    expected: difference.expected,
                    reason: if self.mark_is_there(host, wanted) {
                        "another rule or program comes after ours"
                    } else {
                        "our rule was not applied"
                    },
                });
            }
        }
        Ok(())
    }

    /// True if udev's database says that our rule was the one applied.
    fn mark_is_there(&self, host: &Host, wanted: &WantedDisk) -> bool {
        // What cannot be read does not say so.
        let properties = Properties::read(host, &wanted.disk.device).unwrap_or_default();
        let name = &self.policy.rules[wanted.rule].name;
        properties.get(rules::MARK) == Some(&rules::mark(name))
    }
}

/// Asks whether the disks of a device listen to `elevator=` with this value; a note on all that do.
fn check_elevator(host: &Host, device: &str, scheduler: &str) -> Result<String, DeployError> {
    let device = device::find(host, device)?;
    let disks = matching::disks(host).map_err(DeployError::List)?;
    let listens = |disk: &Device| switch::is_single_queue(disk.schedulers.offered());
    let names = |are: bool| {
        let of = disks.iter().map(|disk| &disk.device);
        let names: Vec<&str> = of
            .filter(|disk| listens(disk) == are)
            .map(|disk| disk.name.as_str())
            .collect();
        names.join(", ")
    };
    let listening = names(true);
    let sysfs = host.sysfs();
    let is_unreadable = |disk: &&Device| {
        let Schedulers::Nothing(reason) = &disk.schedulers else {
            return false;
        };
        matches!(
            reason,
            NoChoice::Unreadable { .. } | NoChoice::NotUnderstood { .. }
        )
    };
    // What cannot be read says nothing of the path.
    let others = disks.iter().map(|disk| &disk.device);
    let others = others.filter(|_| listening.is_empty());
    if let Some(disk) = std::iter::once(&device).chain(others).find(is_unreadable) {
        switch::offered(&sysfs, &disk.name)?;
    }
    if listening.is_empty() {
        let kernel = host.kernel_version();
        return Err(DeployError::DeadCommandLine {
            kernel: kernel.map_or("of unknown version".into(), |version| version.to_string()),
        });
    }
    let below = device::schedulable_disks(host, &device).map_err(DeployError::List)?;
    if below.is_empty() {
        return Err(DeployError::NotForElevator {
            device: device.name,
            listening,
        });
    }
    for disk in below {
        let offered = disk.schedulers.offered();
        if !listens(&disk) {
            return Err(DeployError::NotForElevator {
                device: disk.name,
                listening,
            });
        }
        if !offered.iter().any(|name| name == scheduler) {
            let offered = offered.to_vec();
            let error = switch::not_offered(&sysfs, &disk.name, scheduler, offered);
            return Err(DeployError::Switch(error));
        }
    }
    let others = names(false);
    let stay = if others.is_empty() {
        String::new()
    } else {
        format!("; {others}: on blk-mq, as before")
    };
    Ok(format!(
        "elevator= is for all disks on the single-queue path, from the next boot on: {listening}{stay}"
    ))
}

/// The checked switches of all disks that are not as wanted.
fn switches(host: &Host, wanted: &[WantedDisk]) -> Result<set::Change, DeployError> {
    let sysfs = host.sysfs();
    let mut change = set::Change {
        disks: Vec::new(),
        notes: Vec::new(),
    };
    for disk in wanted {
        if disk.deviations(&sysfs)?.is_empty() {
            continue;
        }
        let planned = set::Change::plan(host, &disk.disk.device.name, &disk.arm)?;
        change.disks.extend(planned.disks);
    }
    Ok(change)
}

/// Sets the disks, so that the kernel says what it takes, and puts them back.
fn try_out(host: &Host, change: &set::Change) -> Result<Vec<(String, Entered)>, DeployError> {
    if change.disks.is_empty() {
        return Ok(Vec::new());
    }
    let made = change.make(host)?;
    made.journal.undo();
    Ok(made.disks)
}

/// Puts files and disks back after a failure; true if all is as before.
fn take_back(turn: &Turn, made: &[FileChange], before: &[SavedDisk]) -> bool {
    let host = turn.host();
    let files = made
        .iter()
        .rev()
        .all(|file| file.reversed().install(host).is_ok());
    // A second Ctrl-C ends that, too: what is left then is for `undo`.
    turn.stop().forget();
    let announced = turn
        .scope()
        .and_then(|scope| announce(host, &scope, made, turn.stop()))
        .is_ok();
    let disks = before
        .iter()
        .filter(|_| host.is_live())
        .all(|disk| Undone::is_settled(&disk.undo(host, true)));
    files && announced && disks
}

/// Has udev apply its rules to these disks and compares what came of it; where that is not right, to one after the other.
/// udev writes to several at once, does not try again, and a kernel may refuse to change two disks of one controller at
/// the same time (`EBUSY`, since 7.0).
fn ask_udev(
    devices: &[String],
    mut trigger: impl FnMut(&[String]) -> Result<(), DeployError>,
    compare: impl Fn() -> Result<(), DeployError>,
) -> Result<(), DeployError> {
    trigger(devices)?;
    let compared = compare();
    if compared.is_ok() || devices.len() < 2 {
        return compared;
    }
    for device in devices {
        trigger(slice::from_ref(device))?;
    }
    compare()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// What udev is asked, where a disk is right once it was alone.
    fn asked(devices: &[&str], is_right: impl Fn(&[String]) -> bool) -> (Vec<String>, bool) {
        let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
        let asked = RefCell::new(Vec::new());
        let trigger = |some: &[String]| {
            asked.borrow_mut().push(some.join(" "));
            Ok(())
        };
        let compare = || {
            if is_right(&asked.borrow()) {
                return Ok(());
            }
            Err(DeployError::NoUdev)
        };
        let done = ask_udev(&devices, trigger, compare).is_ok();
        (asked.into_inner(), done)
    }

    #[test]
    fn disks_that_udev_found_busy_are_done_one_by_one() {
        let said = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let at_once = asked(&["sda", "sdb"], |_| true);
        assert_eq!(at_once, (said(&["sda sdb"]), true));
        let one_by_one = asked(&["sda", "sdb"], |asked| {
            asked.iter().any(|some| some == "sdb")
        });
        assert_eq!(one_by_one, (said(&["sda sdb", "sda", "sdb"]), true));
        let overruled = asked(&["sda", "sdb"], |_| false);
        assert_eq!(overruled, (said(&["sda sdb", "sda", "sdb"]), false));
        let alone = asked(&["sda"], |_| false);
        assert_eq!(alone, (said(&["sda"]), false));
    }
}
