//! One trial: from the load's data and the arm to the numbers.

use std::io::{self, Seek, SeekFrom};
use std::process::Command;
use std::time::{Duration, Instant};

use iosched_machine::clock::unix_time;
use iosched_machine::failure::{Problem, exit, in_a_message};
use iosched_machine::process::{self, Stop};
use iosched_switch::{self as switch, QueueState, SwitchError};

use super::{RunError, Runner, workplace};
use crate::course::CourseWatch;
use crate::event::RunEvent;
use crate::interference::{Change, Disturbance, ForeignIo, Interference};
use crate::load::fio_job::{JobTarget, TrialSettings};
use crate::load::{LoadError, Outcome, Spec, TrialInfo};
use crate::measure::{self, Counters, Measured};
use crate::plan::Target;
use crate::split::Split;
use crate::trial::{Metrics, Phases, Slot, Trial, VoidReason};
use iosched_switch::journal;

/// A running load is said to run about ten times a second; who waits for it looks around twice as often.
const SHOWN: Duration = Duration::from_millis(90);

/// What a file system or a program that looks at a new disk may read beside the load, where no events tell.
const FEW_BYTES: u64 = 128 << 10;
const FEW_IOS: u64 = 16;

/// How many places trials begin at on a disk: more than a round has runs.
const SHIFTS: u32 = 64;

/// How far they lie apart, at most: further than a drive reads ahead.
const SHIFT: u64 = 16 << 20;

/// How far apart trials begin on a disk or file: less than a tenth of a percent of it, and whole mebibytes.
pub(super) fn shift(path: &str) -> u64 {
    let size = std::fs::File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0)));
    (size.unwrap_or(0) >> 10).min(SHIFT) >> 20 << 20
}

/// Requests up to this mean size are taken for whole accesses.
const LONGEST_WHOLE: u64 = 64 << 10;

/// How a trial ended.
pub(super) enum TrialEnd {
    Counts(Box<Trial>),
    Void(VoidReason),
}

/// A load that ran, and what the kernel counted meanwhile.
pub(super) struct Run {
    outcome: Outcome,
    measured: Measured,
    interference: Option<Interference>,
    change: Option<Change>,
    started_unix_s: f64,
    elapsed: Duration,
}

impl Run {
    /// The numbers that arms are compared by.
    pub(super) fn metrics(&self) -> Metrics {
        Metrics::of(&self.outcome, &self.measured, self.elapsed)
    }
}

impl Runner<'_> {
    /// One trial from the load's data to the numbers.
    pub(super) fn trial(&mut self, slot: Slot, sequence: u32) -> Result<TrialEnd, RunError> {
        let begun = Instant::now();
        if let Err(error) = self.reset_load(slot) {
            return void(error);
        }
        let was_reset = Instant::now();
        let states = self.enter(slot.arm)?;
        let switched = Instant::now();
        for _ in 0..self.recorder.record().lead_in() {
            if let Err(error) = self.lead_in_run(slot) {
                return match error {
                    RunError::Load(error) => void(error),
                    error => Err(error),
                };
            }
        }
        if let Err(error) = self.start_load(slot) {
            return void(error);
        }
        let started = Instant::now();
        let run = match self.run_load(slot) {
            Ok(run) => run,
            Err(RunError::Load(error)) => return void(error),
            Err(error) => return Err(error),
        };
        if let Some(reason) = self.changed_state(&states)? {
            return Ok(TrialEnd::Void(reason));
        }
        if let Some(change) = run.change {
            return Ok(TrialEnd::Void(VoidReason::StateChanged {
                device: change.device,
                file: change.file,
                expected: change.before,
                found: change.found,
            }));
        }
        if let Some(disturbance) = self.disturbance(&run) {
            return Ok(TrialEnd::Void(VoidReason::Disturbed(disturbance)));
        }
        let metrics = run.metrics();
        if let Some(reason) = self.plan.bad_metric(slot, &metrics) {
            return Ok(TrialEnd::Void(reason));
        }
        let switch = switched - was_reset;
        let prepare = (was_reset - begun) + (started - switched);
        let known = switch + prepare + run.elapsed;
        Ok(TrialEnd::Counts(Box::new(Trial {
            slot,
            sequence,
            started_unix_s: run.started_unix_s,
            phases: Phases {
                switch_ns: nanos(switch),
                prepare_ns: nanos(prepare),
                load_ns: nanos(run.elapsed),
                harness_ns: nanos(self.mark.elapsed().saturating_sub(known)),
            },
            states,
            measured: run.measured,
            jobs: run.outcome.jobs,
            metrics,
            counted_s: run.outcome.counted.map(|counted| counted.as_secs_f64()),
            runtime_s: None,
            interference: run.interference,
            beside: journal::others(self.host),
        })))
    }

    /// A run under the arm of a slot that does not count, and the load's data as they were at first.
    fn lead_in_run(&mut self, slot: Slot) -> Result<(), RunError> {
        self.start_load(slot)?;
        self.run_load(slot)?;
        Ok(self.reset_load(slot)?)
    }

    fn trial_info(&self, slot: Slot) -> TrialInfo {
        let (load, round, place) = (slot.load, slot.round, self.place.clone());
        // All arms of a round have one seed. A drive has in its cache what the arm before read: fio reads a little further on
        // each time, or at other places where it cannot.
        let is_simulated = matches!(self.plan.target, Target::Simulated(_));
        let is_fio = matches!(self.plan.loads[load].spec, Spec::JobFile(_));
        let is_elsewhere = is_fio && !is_simulated && self.shifts[load] == 0;
        let number = if is_elsewhere { self.runs } else { round };
        let settings = TrialSettings {
            shift: u64::from(self.runs % SHIFTS) * self.shifts[load],
            ..self.plan.trial_settings(load, number, place)
        };
        TrialInfo {
            arm: self.plan.arms[slot.arm].clone(),
            label: self.plan.arm_label(slot.arm),
            round,
            settings,
        }
    }

    pub(super) fn enter(&self, arm: usize) -> Result<Vec<QueueState>, SwitchError> {
        let sysfs = self.host.sysfs();
        let disks = self.plan.disks.iter().zip(&self.baseline);
        disks
            .map(|(disk, baseline)| {
                Ok(switch::enter(&sysfs, disk, &self.plan.arms[arm], baseline)?.state)
            })
            .collect()
    }

    /// The load's data as they were at first.
    pub(super) fn reset_load(&mut self, slot: Slot) -> Result<(), LoadError> {
        let at = workplace(self.options, &self.scope, self.stop, &self.place);
        let trial = self.trial_info(slot);
        self.loads[slot.load].reset(&at, &trial)
    }

    /// Empties the page cache and gets the load ready.
    pub(super) fn start_load(&mut self, slot: Slot) -> Result<(), LoadError> {
        let at = workplace(self.options, &self.scope, self.stop, &self.place);
        let trial = self.trial_info(slot);
        let load = &mut self.loads[slot.load];
        if !self.plan.disks.is_empty() {
            let is_done = write_back(&self.place, load.is_cold(), self.stop);
            if self.stop.is_wanted() {
                return Err(LoadError::Stopped);
            }
            if !is_done {
                let message = "what is dirty on the target could not be written back in time";
                return Err(LoadError::Trial(Problem::new(exit::FAILURE, message)));
            }
        }
        load.start(&at, &trial)
    }

    /// Runs the load between two looks at the kernel's counters.
    pub(super) fn run_load(&mut self, slot: Slot) -> Result<Run, RunError> {
        let at = workplace(self.options, &self.scope, self.stop, &self.place);
        let trial = self.trial_info(slot);
        self.runs += 1;
        let mut watched = self.watch.as_mut().map(|watch| watch.begin(self.host));
        let before = self.counters()?;
        let started_unix_s = unix_time();
        let started = Instant::now();
        let observer = &mut *self.observer;
        let mut course = CourseWatch::new();
        let (host, disks) = (self.host, &self.plan.disks);
        let mut next_tick = Duration::ZERO;
        let mut split = self.split.as_mut();
        let mut watch = self.watch.as_mut();
        let mut recorded = split
            .as_mut()
            .map_or(Ok(()), |split| split.begin(slot.load));
        let outcome = self.loads[slot.load].run(&at, &trial, &mut |elapsed| {
            if !disks.is_empty() {
                let now = started.elapsed();
                if course.is_due(now)
                    && let Some((ios, bytes)) = measure::completed_since(&before, host, disks)
                {
                    course.add(now, ios, bytes);
                }
            }
            if elapsed < next_tick {
                return;
            }
            next_tick = elapsed + SHOWN;
            observer.event(&RunEvent::Tick {
                elapsed_s: elapsed.as_secs_f64(),
            });
            if let Some((watch, before)) = watch.as_mut().zip(watched.as_mut()) {
                watch.tick(host, before);
            }
            if let Some(split) = &mut split
                && recorded.is_ok()
            {
                recorded = split.drain();
            }
        });
        let elapsed = started.elapsed();
        let after = self.counters();
        let counted = after.map(|after| after.since(&before, nanos(elapsed)));
        let seen = self.watch.as_mut().zip(watched).map(|(watch, before)| {
            let none = Measured::default();
            let counted = counted.as_ref().unwrap_or(&none);
            watch.end(self.host, before, counted, nanos(elapsed))
        });
        let (interference, others, change) = match seen {
            Some((interference, others, change)) => (Some(interference), Some(others), change),
            None => (None, None, None),
        };
        let split = self.end_split(recorded);
        let is_timed = self.plan.loads[slot.load].spec.runs_for_a_time();
        let mut outcome = outcome?;
        let measured = match outcome.measured.take() {
            Some(measured) => measured,
            None => Measured {
                split,
                others_cpu_ns: others,
                course: course.end().filter(|_| is_timed),
                ..counted?
            },
        };
        let by_account = |mut seen: Interference| {
            seen.io = seen
                .io
                .or_else(|| self.beyond_account(slot, &outcome, &measured));
            seen
        };
        let interference = interference.map(by_account);
        let run = Run {
            outcome,
            measured,
            interference,
            change,
            started_unix_s,
            elapsed,
        };
        run.outcome.check(&run.metrics())?;
        Ok(run)
    }

    /// What others read, where no events tell: what the kernel counted beyond the load's own account. None of a load of which
    /// these two are not of the same I/O: through the page cache, or with a beginning that it does not count.
    fn beyond_account(&self, slot: Slot, run: &Outcome, counted: &Measured) -> Option<ForeignIo> {
        let planned = &self.plan.loads[slot.load];
        let Spec::JobFile(text) = &planned.spec else {
            return None;
        };
        let is_cut = self.plan.ramp_s > 0.0 || text.contains("ramp_time");
        if is_cut || self.loads[slot.load].is_cold() {
            return None;
        }
        let own = run.jobs.iter().filter_map(|job| job.read.as_ref());
        let (ios, bytes) = own.fold((0, 0), |(ios, bytes), flow| {
            (ios + flow.ios, bytes + flow.bytes)
        });
        let bytes = counted.read_bytes.saturating_sub(bytes + FEW_BYTES);
        // What is longer may have been split.
        let is_short = counted.read_bytes < ios.saturating_mul(LONGEST_WHOLE);
        let done = counted.reads + counted.reads_merged;
        let ios = if is_short {
            done.saturating_sub(ios + FEW_IOS)
        } else {
            0
        };
        let of = |part: u64, all: u64| part as f64 / all.max(1) as f64;
        let all = (
            done + counted.writes,
            counted.read_bytes + counted.write_bytes,
        );
        Some(ForeignIo {
            share: counted.utilisation * of(ios, all.0).max(of(bytes, all.1)),
            ios,
            bytes,
            ..ForeignIo::default()
        })
    }

    /// Where the requests spent their time, if that was recorded so far.
    fn end_split(&mut self, recorded: Result<(), Problem>) -> Option<Split> {
        let split = self.split.as_mut()?;
        let ended = recorded.and_then(|()| split.end());
        self.or_no_split(ended)
    }

    /// What was recorded; or says why not, and records no further.
    pub(super) fn or_no_split<T>(&mut self, recorded: Result<T, Problem>) -> Option<T> {
        recorded
            .inspect_err(|error| {
                self.split = None;
                let reason = &error.to_string();
                self.observer.event(&RunEvent::NoSplit { reason });
            })
            .ok()
    }

    /// What the trial of a load does not count for, if others did too much meanwhile.
    fn disturbance(&self, run: &Run) -> Option<Disturbance> {
        run.interference.as_ref()?.beyond(
            &self.plan.rules.tolerance,
            run.measured.others_cpu_ns,
            nanos(run.elapsed),
            self.recorder.record().header.machine.cpus,
        )
    }

    fn counters(&self) -> Result<Counters, RunError> {
        Counters::read(self.host, &self.plan.disks).map_err(|source| {
            if source.kind() == io::ErrorKind::NotFound {
                RunError::Switch(SwitchError::Vanished {
                    device: self.plan.disks[0].clone(),
                })
            } else {
                RunError::io(&self.host.proc("diskstats"), &source)
            }
        })
    }

    /// The first file that is not as it was set, if any.
    fn changed_state(&self, states: &[QueueState]) -> Result<Option<VoidReason>, RunError> {
        for (disk, expected) in self.plan.disks.iter().zip(states) {
            let found = QueueState::read(&self.host.sysfs(), disk)?;
            if let Some(difference) = expected.differences(&found).into_iter().next() {
                return Ok(Some(VoidReason::StateChanged {
                    device: disk.clone(),
                    file: difference.file,
                    expected: difference.expected,
                    found: difference.found,
                }));
            }
        }
        Ok(None)
    }
}

/// A trial whose load failed does not count; an error that would come again ends the run.
fn void(error: LoadError) -> Result<TrialEnd, RunError> {
    match error {
        LoadError::Trial(_) => Ok(TrialEnd::Void(VoidReason::LoadFailed {
            message: in_a_message(&error),
        })),
        LoadError::Stopped | LoadError::Run(_) => Err(error.into()),
    }
}

/// How long what is dirty on the target may take to be written back: a trial cannot begin before.
const WRITTEN_BACK_WITHIN: Duration = Duration::from_secs(120);

/// Writes back what is dirty on the target, and drops the page cache for a load that needs it cold, so that no trial lives
/// on the one before. Other file systems are not waited for: one whose server is gone never answers. Without the right to
/// drop it (not root, a container) trials still compare, since most loads use `O_DIRECT`.
fn write_back(place: &JobTarget, is_cold: bool, stop: &Stop) -> bool {
    let (sync, path) = match place {
        JobTarget::Path(path) => ("sync --", path),
        JobTarget::Directory { directory, .. } => ("sync -f --", directory),
    };
    let drop = if is_cold {
        "; echo 3 2>&- >/proc/sys/vm/drop_caches || :"
    } else {
        ""
    };
    let mut command = Command::new("/bin/sh");
    let script = format!("{sync} \"$1\"{drop}");
    command.args(["-c", &script, "sh", path]);
    command.env("PATH", process::SAFE_PATH);
    process::do_patiently(command, WRITTEN_BACK_WITHIN, stop)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
