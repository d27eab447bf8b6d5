//! The trial loop: does what the plan says, and leaves the machine as it found it.
//!
//! Lock the disks, write the journal, rehearse every arm once, then trial after trial: put the
//! load's data back, set the arm and read it back, drop caches, run the load, read counters and
//! state again, save. Which trial is next is decided by [`crate::schedule`] from the plan and the
//! record alone, so a run that was interrupted goes on as if it had not been.

use std::path::Path;
use std::time::{Duration, Instant};

use iosched_emulate as emulate;
use iosched_machine::clock::unix_time;
use iosched_machine::device;
use iosched_machine::failure::{Problem, exit, in_a_message};
use iosched_machine::host::Host;
use iosched_machine::process::{self, LoadProcesses, Owner, Scope, Stop, User};
use iosched_switch::lock::{self, Lock};
use iosched_switch::{QueueState, SwitchError};
use rand::Rng;

use crate::analysis::{Analysis, lead_in};
use crate::event::{Observer, RunEvent};
use crate::interference::Watch;
use crate::load::fio_job::{JobFile, JobTarget};
use crate::load::{Load, LoadError, Spec, Workplace, undo_outside};
use crate::plan::{Plan, PlannedLoad, Target};
use crate::record::{Entry, LONGEST_LEAD_IN, Record, Recorder, StopReason};
use crate::schedule::{Next, RunProgress};
use crate::split::SplitWatch;
use crate::trial::{Slot, VoidReason, VoidTrial};
use iosched_switch::journal::{
    self, Journal, OutsideResource, OwnedResources, Parts, Resolution, Undone,
};

mod error;
mod permission;
mod prepare;
mod site;
mod trial;
mod way;

use trial::{TrialEnd, shift};

pub use error::{Resume, RunError};
pub use permission::may_go_on;

/// How often a void trial is repeated before its arm leaves the load.
pub(crate) const MOST_VOID: usize = 3;

/// How often a trial that others disturbed is repeated before the run ends: that is no fault of the arm.
const MOST_DISTURBED: usize = 5;

/// What follows from a trial that does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterVoid {
    /// It is tried again.
    Repeat,
    /// It failed too often: the arm leaves.
    ArmLeaves,
    /// Others interfered too often: the run ends.
    EndRun,
}

/// The same, for one that is not in the record yet.
pub(crate) fn after_void(record: &Record, void: &VoidTrial) -> AfterVoid {
    let is_failure = void.reason.is_failure();
    let alike =
        |other: &&VoidTrial| other.slot == void.slot && other.reason.is_failure() == is_failure;
    let so_far = record.void_trials().filter(alike).count() + 1;
    match is_failure {
        true if so_far >= MOST_VOID => AfterVoid::ArmLeaves,
        false if so_far >= MOST_DISTURBED => AfterVoid::EndRun,
        _ => AfterVoid::Repeat,
    }
}

/// What a run may be told besides its plan.
pub struct RunOptions<'a> {
    /// When the command began: the budget of time counts from here.
    pub begun: Instant,
    /// Largest time for the load of one trial; `None` for the load's own choice.
    pub trial_limit: Option<Duration>,
    /// Whose rights the load has, if not ours.
    pub user: Option<User>,
    /// Asked when a load failed: whether what it ran on still works, and if not, why.
    pub health: &'a dyn Fn() -> Option<String>,
}

/// Refuses a directory in which the loads of `user` (ours, if there is none) could be led to somebody else's files,
/// or that this user cannot enter. A run asks this itself, before it makes anything.
///
/// # Errors
/// What is wrong with it.
pub fn check_way(target: &Target, user: Option<&User>) -> Result<(), RunError> {
    match target {
        Target::Directory { path, .. } => way::check(path, user),
        _ => Ok(()),
    }
}

/// Refuses the path of a target, as it was written, that somebody else could lead elsewhere for the loads of `user`:
/// that one would choose where root measures.
///
/// # Errors
/// Who that is, and where.
pub fn check_links(path: &Path, user: Option<&User>) -> Result<(), RunError> {
    way::check_links(path, user)
}

/// Runs the plan of a record to its end, or until stopped.
///
/// # Errors
/// Whatever happens, the disks are put back and our own files removed before this returns.
pub fn run(
    host: &Host,
    recorder: &mut Recorder,
    options: &RunOptions<'_>,
    stop: &Stop,
    observer: &mut dyn Observer,
) -> Result<StopReason, RunError> {
    let plan = recorder.record().header.plan.clone();
    let progress = RunProgress::of(&plan, recorder.record());
    let time_left = progress.time_left();
    let stop = &stop.at(time_left.map(|left| options.begun + left));
    if !plan.disks.is_empty() {
        process::be_spared_for_want_of_memory();
    }
    let lock = match plan.emulated {
        Some(_) => lock::lock_own,
        None => lock::lock,
    };
    let locks = plan.disks.iter().map(|disk| lock(host, disk));
    let _locks = locks.collect::<Result<Vec<Lock>, _>>()?;
    // While we waited for them another run may have been killed: what it left is not what was there before.
    journal::put_disks_back_of_dead_runs(host, &plan.disks);
    let mut claim = permission::claim(host, recorder.record())?;
    let site = site::Site::choose(host, &plan.target, options.user.as_ref())?;
    let loads: Vec<Box<dyn Load>> = plan.loads.iter().map(PlannedLoad::open).collect();
    let processes = processes(host, &plan);
    let ours = OwnedResources {
        outside: outside(&loads, options),
        processes: processes.clone(),
        ..site.ours(host, options.user.as_ref())
    };
    let journal = open_journal(host, &plan, ours)?;
    let mut scope = Scope::new(options.user.clone(), processes);
    scope.make();
    observer.event(&RunEvent::Started {
        plan: &plan,
        directory: recorder.directory(),
        trials_done: recorder.record().trials().count(),
    });
    let saved = journal.iter().flat_map(Journal::saved);
    let baseline = saved.map(|disk| disk.state.clone()).collect();
    let place = site.place();
    let shift = match &place {
        JobTarget::Path(path) => shift(path),
        JobTarget::Directory { .. } => 0,
    };
    let can_move = |load: &PlannedLoad| matches!(&load.spec, Spec::JobFile(text) if JobFile::read(text).0.can_move());
    let shifts = plan
        .loads
        .iter()
        .map(|load| if can_move(load) { shift } else { 0 });
    let shifts = shifts.collect();
    let mut runner = Runner {
        host,
        plan: &plan,
        runs: progress.attempts().saturating_mul(1 + LONGEST_LEAD_IN),
        progress,
        loads,
        recorder,
        options,
        scope,
        stop,
        observer,
        place,
        shifts,
        baseline,
        servers: servers(host, &plan),
        watch: None,
        split: None,
        mark: Instant::now(),
    };
    if let Target::FileSystem { file_system, .. } = &plan.target {
        // On a large and slow disk it takes minutes.
        let what = format!("making the {} file system", file_system.name());
        runner.observer.event(&RunEvent::Preparing { what: &what });
    }
    let made = site.make(&mut claim, options.user.as_ref(), stop);
    let (held, made) = made.map_or_else(|error| (None, Err(error)), |held| (held, Ok(())));
    let outcome = made.and_then(|()| runner.all_trials());
    let outcome = outcome.or_else(|error| runner.end_of_time(error));
    let undone = runner.put_back(journal);
    permission::note_what_is_left(host, recorder);
    observer.event(&RunEvent::Restored { undone: &undone });
    if let Some((directory, now)) = held.and_then(|held| held.moved()) {
        observer.event(&RunEvent::Moved {
            directory: &directory,
            now: &now,
        });
    }
    ended(outcome, &undone, &plan, recorder.directory())
}

/// How a run ended: what is not put back is said before anything else.
fn ended(
    outcome: Result<StopReason, RunError>,
    undone: &[Undone],
    plan: &Plan,
    directory: &Path,
) -> Result<StopReason, RunError> {
    let is_gone = undone
        .iter()
        .any(|one| matches!(one, Undone::As(Resolution::Gone { .. })));
    let ended = outcome.map_err(|error| say_what_ended_it(error, is_gone, plan, directory));
    let left: Vec<String> = undone.iter().filter_map(Undone::left).collect();
    if left.is_empty() {
        return ended;
    }
    Err(RunError::NotPutBack {
        left: left.join("; "),
        ended_by: ended.err().map(Box::new),
    })
}

/// The journal, where there is anything that may have to be put back.
fn open_journal(
    host: &Host,
    plan: &Plan,
    ours: OwnedResources,
) -> Result<Option<Journal>, RunError> {
    if plan.disks.is_empty() && ours.is_empty() {
        return Ok(None);
    }
    let schedulers: Vec<&str> = plan.arms.iter().map(|arm| &*arm.scheduler).collect();
    Ok(Some(Journal::open(
        host,
        &plan.disks,
        &schedulers,
        ours,
        Parts::All(undo_outside),
    )?))
}

fn servers(host: &Host, plan: &Plan) -> Vec<i32> {
    let disks = plan.disks.iter();
    disks
        .filter_map(|disk| emulate::server_of(host, disk))
        .collect()
}

/// How the processes of the loads are found again, where loads are processes.
fn processes(host: &Host, plan: &Plan) -> Option<LoadProcesses> {
    let is_simulated = matches!(plan.target, Target::Simulated(_));
    let Owner {
        pid, start_ticks, ..
    } = Owner::this_process(host);
    (!is_simulated).then(|| LoadProcesses::of_run(host, pid, start_ticks))
}

/// What the loads make, or have left, outside of the target.
fn outside(loads: &[Box<dyn Load>], options: &RunOptions<'_>) -> Vec<OutsideResource> {
    let user = options.user.as_ref();
    loads.iter().filter_map(|load| load.outside(user)).collect()
}

/// A signal and a vanished disk show first as something else that failed.
fn say_what_ended_it(error: RunError, is_gone: bool, plan: &Plan, directory: &Path) -> RunError {
    let resume = resume(plan, directory);
    match error {
        RunError::Switch(SwitchError::Vanished { device }) => RunError::Vanished { device, resume },
        error if error.is_stopped() => RunError::Interrupted { resume },
        RunError::LoadFails { .. } if is_gone => RunError::Vanished {
            device: plan.disks[0].clone(),
            resume,
        },
        other => other,
    }
}

fn resume(plan: &Plan, directory: &Path) -> Resume {
    Resume {
        directory: directory.to_owned(),
        destroys_data: plan.destroys().is_some(),
    }
}

struct Runner<'a> {
    host: &'a Host,
    plan: &'a Plan,
    /// Follows the record.
    progress: RunProgress<'a>,
    /// Those of the plan, in its order.
    loads: Vec<Box<dyn Load>>,
    recorder: &'a mut Recorder,
    options: &'a RunOptions<'a>,
    scope: Scope,
    stop: &'a Stop,
    observer: &'a mut dyn Observer,
    place: JobTarget,
    /// The state of each disk before the run.
    baseline: Vec<QueueState>,
    /// The processes that serve the disks, where they are emulated.
    servers: Vec<i32>,
    /// Looks on at what others do, where a load uses a disk.
    watch: Option<Watch>,
    /// Records where requests spend their time, where that is wanted and possible.
    split: Option<SplitWatch>,
    /// Runs of loads so far, those of earlier sittings among them.
    runs: u32,
    /// How far apart those of each load begin on a disk, bytes; 0 where they are not moved.
    shifts: Vec<u64>,
    /// When the last trial was saved and told: what passes from there is ours.
    mark: Instant,
}

impl Runner<'_> {
    fn all_trials(&mut self) -> Result<StopReason, RunError> {
        self.open_watch();
        self.prepare_loads()?;
        self.tell_what_is_dropped();
        self.tell_what_is_not_counted();
        self.open_split();
        self.rehearse()?;
        self.precondition()?;
        self.save(Entry::Prepared {
            elapsed_s: self.options.begun.elapsed().as_secs_f64(),
        })?;
        self.wait_until_steady()?;
        self.mark = Instant::now();
        loop {
            match self.progress.next() {
                Next::Trial(slot) => {
                    if let Some(stop) = self.one_slot(slot)? {
                        return self.finish(stop, true);
                    }
                }
                Next::Done(stop) => return self.finish(stop, false),
            }
        }
    }

    /// Puts back what the run changed, the disks first: whatever a load needs to tidy up, or keeps us from tidying up,
    /// no scheduler waits for it.
    fn put_back(&mut self, mut journal: Option<Journal>) -> Vec<Undone> {
        let mut undone = journal.as_mut().map_or_else(Vec::new, Journal::undo_disks);
        // Who asks again does not want to wait until all our files are gone.
        let was_asked = self.stop.is_asked();
        self.stop.forget();
        self.loads.iter_mut().for_each(|load| load.clean_up());
        self.scope.end();
        if let Some(journal) = &mut journal {
            journal.leave_outside(outside(&self.loads, self.options));
        }
        undone.extend(journal.map_or_else(Vec::new, |journal| journal.undo_until(self.stop)));
        if was_asked {
            self.stop.ask();
        }
        undone
    }

    fn tell_what_is_dropped(&mut self) {
        if !self.plan.disks.is_empty() && self.loads.iter().any(|load| load.is_cold()) {
            let what = "the whole machine's page cache is dropped before each trial of a load that reads through it";
            self.observer.event(&RunEvent::Preparing { what });
        }
    }

    fn tell_what_is_not_counted(&mut self) {
        for disk in &self.plan.disks {
            let counts = self.host.sysfs().read_if_present(disk, "queue/iostats");
            if counts.is_some_and(|counts| counts == "0") {
                self.observer.event(&RunEvent::NotCounted { disk });
            }
        }
    }

    /// The run comes to its end; `is_cut` if that is within a round.
    fn finish(&mut self, stop: StopReason, is_cut: bool) -> Result<StopReason, RunError> {
        self.save(Entry::Finished {
            at_unix_s: unix_time(),
            stop,
            is_cut,
        })?;
        let analysis = Analysis::of(self.recorder.record());
        self.observer.event(&RunEvent::Finished {
            stop,
            analysis: &analysis,
        });
        Ok(stop)
    }

    /// What was ended because the budget of time is spent is an end of the run like others, if it has
    /// measured anything.
    fn end_of_time(&mut self, error: RunError) -> Result<StopReason, RunError> {
        if !error.is_stopped() || self.stop.is_asked() {
            return Err(error);
        }
        if self.recorder.record().trials().next().is_none() {
            return Err(RunError::NoTimeLeft {
                budget: self.plan.rules.time_budget().unwrap_or_default(),
                is_simulated: matches!(self.plan.target, Target::Simulated(_)),
            });
        }
        self.finish(StopReason::TimeSpent, true)
    }

    fn check_stop(&self) -> Result<(), RunError> {
        if self.stop.is_wanted() {
            return Err(LoadError::Stopped.into());
        }
        Ok(())
    }

    /// Runs the trial of a slot, which comes again until it counts or its arm leaves; says why the run ends, if it does
    /// with this trial.
    fn one_slot(&mut self, slot: Slot) -> Result<Option<StopReason>, RunError> {
        self.check_stop()?;
        let label = self.plan.arm_label(slot.arm);
        let load = self.plan.loads[slot.load].name.clone();
        let sequence = self.progress.attempts();
        self.observer.event(&RunEvent::TrialStarted {
            arm: &label,
            load: &load,
            round: slot.round + 1,
            expected_s: self.progress.trial_time(slot.load).as_secs_f64(),
            at_most_s: self.progress.foreseen().map(|left| left.as_secs_f64()),
        });
        let trial = match self.trial(slot, sequence) {
            Err(RunError::Load(error)) if !error.is_stopped() => {
                self.save_failure(slot, sequence, &error)?;
                // That says more than what could not be done in there.
                check_way(&self.plan.target, self.options.user.as_ref())?;
                return Err(error.into());
            }
            trial => trial?,
        };
        match trial {
            TrialEnd::Counts(trial) => {
                self.save(Entry::Trial(trial.clone()))?;
                self.observer.event(&RunEvent::TrialEnded {
                    arm: &label,
                    load: &load,
                    trial: &trial,
                });
                self.mark = Instant::now();
                if self.progress.rounds() > slot.round {
                    self.observer.event(&RunEvent::Estimate {
                        rounds: self.progress.rounds(),
                        standing: self.progress.standing(),
                    });
                    self.lead_in()?;
                }
            }
            TrialEnd::Void(reason) => {
                return self.void(
                    &VoidTrial {
                        slot,
                        sequence,
                        reason,
                        elapsed_s: self.mark.elapsed().as_secs_f64(),
                    },
                    &label,
                    &load,
                );
            }
        }
        Ok(None)
    }

    /// Begins the trials anew where what an arm leaves behind asks for it.
    fn lead_in(&mut self) -> Result<(), RunError> {
        let Some(entry) = lead_in(self.plan, self.recorder.record(), &self.progress) else {
            return Ok(());
        };
        if let Entry::LeadIn {
            load,
            arm,
            ratio,
            runs,
            ..
        } = entry
        {
            self.observer.event(&RunEvent::LeadIn {
                arm: &self.plan.arm_label(arm),
                load: &self.plan.loads[load].name,
                ratio,
                runs,
            });
        }
        self.save(entry)
    }

    /// The record keeps the words of a load that ends the run.
    fn save_failure(
        &mut self,
        slot: Slot,
        sequence: u32,
        error: &LoadError,
    ) -> Result<(), RunError> {
        self.save(Entry::Void(VoidTrial {
            slot,
            sequence,
            reason: VoidReason::LoadFailed {
                message: in_a_message(error),
            },
            elapsed_s: self.mark.elapsed().as_secs_f64(),
        }))
    }

    fn void(
        &mut self,
        void: &VoidTrial,
        label: &str,
        load: &str,
    ) -> Result<Option<StopReason>, RunError> {
        let slot = void.slot;
        let after = after_void(self.recorder.record(), void);
        let is_repeated = after == AfterVoid::Repeat;
        self.save(Entry::Void(void.clone()))?;
        self.observer.event(&RunEvent::TrialVoid {
            arm: label,
            load,
            trial: void,
            is_repeated,
        });
        self.mark = Instant::now();
        let reason = void.reason.to_string();
        if matches!(void.reason, VoidReason::LoadFailed { .. }) {
            self.check_target()?;
        }
        match after {
            AfterVoid::Repeat => return Ok(None),
            AfterVoid::EndRun => return Ok(Some(StopReason::Disturbed)),
            AfterVoid::ArmLeaves => {}
        }
        self.save(Entry::ArmLeft {
            load: slot.load,
            arm: slot.arm,
            reason: reason.clone(),
        })?;
        self.observer.event(&RunEvent::ArmLeft {
            arm: label,
            load,
            reason: &reason,
        });
        let record = self.recorder.record();
        let arms = 0..self.plan.arms.len();
        let remaining = arms.filter(|&arm| record.arm_left(arm).is_none()).count();
        // With one arm left there is nothing to compare; if nothing was measured at all, that is
        // the load's fault and not the arms'.
        if remaining == 0 || (remaining == 1 && record.trials().next().is_none()) {
            return Err(RunError::LoadFails {
                load: load.into(),
                cause: reason,
            });
        }
        Ok(None)
    }

    /// After a load failed: is what it ran on still there and working?
    fn check_target(&self) -> Result<(), RunError> {
        let resume = || resume(self.plan, self.recorder.directory());
        if let Some(cause) = (self.options.health)() {
            let resume = resume();
            let directory = resume.directory.display();
            let message = format!(
                "the target failed during the run: {cause}; the trials so far are saved in {directory}"
            );
            let hint = format!("go on with: {resume}");
            return Err(Problem::new(exit::VANISHED, message).hint(hint).into());
        }
        let broken = || {
            let mut disks = self.plan.disks.iter();
            disks.find_map(|disk| device::unreadable(self.host, disk))
        };
        if let Some(cause) = self.plan.target.failed().or_else(broken) {
            let resume = resume();
            let directory = resume.directory.display();
            let message = format!(
                "the target failed during the run: {cause}; the trials so far are saved in {directory}"
            );
            let hint = format!("go on with: {resume}");
            return Err(Problem::new(exit::VANISHED, message).hint(hint).into());
        }
        let sysfs = self.host.sysfs();
        let is_gone = |disk: &&String| sysfs.read_if_present(disk, "size").is_none_or(|s| s == "0");
        let gone = self.plan.disks.iter().find(is_gone);
        match gone {
            Some(device) => Err(RunError::Vanished {
                device: device.clone(),
                resume: resume(),
            }),
            None => Ok(()),
        }
    }

    fn save(&mut self, entry: Entry) -> Result<(), RunError> {
        self.recorder.append(entry)?;
        self.progress.follow(self.recorder.record());
        Ok(())
    }
}

/// Where the loads work.
fn workplace<'a>(
    options: &RunOptions<'_>,
    scope: &'a Scope,
    stop: &'a Stop,
    place: &'a JobTarget,
) -> Workplace<'a> {
    Workplace {
        place,
        scope,
        trial_limit: options.trial_limit,
        stop,
    }
}

/// A seed that nobody chose.
pub fn random_seed() -> u64 {
    u64::from(rand::rng().next_u32()) // short enough to be typed again
}

/// A directory name for a new record, from the time and the target: `20261121-101500-loop0`.
pub fn record_name(target: &Path, unix_s: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "seconds since 1970 fit")]
    let stamp = jiff::Timestamp::from_second(unix_s as i64)
        .unwrap_or_default()
        .strftime("%Y%m%d-%H%M%S");
    let name = target
        .file_name()
        .map_or("target".into(), |name| name.to_string_lossy().into_owned());
    let safe: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
                c
            } else {
                '_'
            }
        })
        .collect();
    format!("{stamp}-{safe}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_named_by_time_and_target() {
        assert_eq!(
            record_name(Path::new("/srv/my data"), 0.0),
            "19700101-000000-my_data"
        );
        assert_eq!(record_name(Path::new("/"), 1.0), "19700101-000001-target");
    }
}
