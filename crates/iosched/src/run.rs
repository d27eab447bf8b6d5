//! The trial loop: does what the plan says, and leaves the machine as it found it.
//!
//! Lock the disks, write the journal, rehearse every arm once, then trial after trial: set the arm
//! and read it back, drop caches, run the load, read counters and state again, save. Which trial
//! is next is decided by [`crate::schedule`] from the plan and the record alone, so a run that was
//! interrupted goes on as if it had not been.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, lchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use iosched_stats::steady;
use rand::Rng;

use crate::analysis::Analysis;
use crate::event::{Event, Observer};
use crate::failure::{Failure, exit};
use crate::host::Host;
use crate::journal::{Journal, JournalError, Undone};
use crate::load::fio::{self, FioError, Running};
use crate::load::fio_job::{JobFile, Place, TrialSettings};
use crate::lock::{self, Lock, LockError};
use crate::measure::Counters;
use crate::plan::{Plan, Target};
use crate::process::{ChildError, Stop, User};
use crate::record::{Entry, RecordError, Recorder, SteadyWindow, StopReason};
use crate::schedule::{self, Next};
use crate::switch::{self, QueueState, SwitchError};
use crate::trial::{JobResult, Metrics, Phases, Slot, Trial, VoidReason, VoidTrial};

/// How often a void trial is repeated before its arm leaves the load.
pub const MOST_VOID: usize = 3;

/// Runs of a load after which it is measured although it is not steady (SNIA: 25 rounds).
pub const MOST_STEADY_RUNS: usize = 25;

/// Writing test files or a whole device takes at the most this long: a large slow disk, twice.
const LONGEST_PREPARATION: Duration = Duration::from_secs(7 * 24 * 3600);

/// The job that fills a device twice.
const PRECONDITION: &str = "[precondition]\nrw=write\nbs=128k\niodepth=32\nloops=2\n";

/// What a run may be told besides its plan.
pub struct RunOptions<'a> {
    /// Largest time for the load of one trial; `None` for twice its duration and 30 s.
    pub trial_limit: Option<Duration>,
    /// Whose rights the load has, if not ours.
    pub user: Option<User>,
    /// Asked when a load failed: whether what it ran on still works, and if not, why.
    pub health: &'a dyn Fn() -> Option<String>,
}

/// Why a run ended before its end. The disks are as before all the same.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Somebody else measures the disk.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The journal cannot be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// An arm cannot be set.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// The record cannot be kept.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// fio is missing, or the test files cannot be written.
    #[error(transparent)]
    Fio(#[from] FioError),
    /// A signal.
    #[error("interrupted: the disks are as before, the trials so far are saved in {}", directory.display())]
    Interrupted {
        /// The record.
        directory: PathBuf,
    },
    /// A disk went away.
    #[error("{device} vanished during the run: the trials so far are saved in {}", directory.display())]
    Vanished {
        /// Kernel name.
        device: String,
        /// The record.
        directory: PathBuf,
    },
    /// What the load ran on stopped working.
    #[error("the target failed during the run: {cause}; the trials so far are saved in {}", directory.display())]
    TargetFailed {
        /// Why.
        cause: String,
        /// The record.
        directory: PathBuf,
    },
    /// Not one trial of a load counts.
    #[error("load {load} fails under every arm: {cause}")]
    LoadFails {
        /// The load.
        load: String,
        /// Its words, the last time.
        cause: String,
    },
    /// The target is open for itself by another program.
    #[error("{device} is in use: somebody holds it open for itself")]
    InUse {
        /// Kernel name.
        device: String,
    },
    /// The target cannot be used.
    #[error("cannot use {}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Failure for RunError {
    fn hint(&self) -> Option<String> {
        match self {
            RunError::Lock(error) => error.hint(),
            RunError::Journal(error) => error.hint(),
            RunError::Switch(error) => error.hint(),
            RunError::Record(error) => error.hint(),
            RunError::Fio(error) => error.hint(),
            RunError::Interrupted { directory }
            | RunError::Vanished { directory, .. }
            | RunError::TargetFailed { directory, .. } => Some(format!(
                "go on with: iosched tune --resume {}",
                directory.display()
            )),
            RunError::LoadFails { .. } => Some("run the load by hand with fio to see more".into()),
            RunError::InUse { .. } => Some("take it out of use: see `iosched list -v`".into()),
            RunError::Io { .. } => None,
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            RunError::Lock(error) => error.exit_code(),
            RunError::Journal(error) => error.exit_code(),
            RunError::Switch(error) => error.exit_code(),
            RunError::Record(error) => error.exit_code(),
            RunError::Fio(error) => error.exit_code(),
            RunError::Interrupted { .. } => exit::INTERRUPTED,
            RunError::Vanished { .. } | RunError::TargetFailed { .. } => exit::VANISHED,
            RunError::LoadFails { .. } => exit::LOAD_FAILED,
            RunError::InUse { .. } => exit::UNSAFE,
            RunError::Io { .. } => exit::FAILURE,
        }
    }
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
    let _locks = plan
        .disks
        .iter()
        .map(|disk| lock::lock(host, disk))
        .collect::<Result<Vec<Lock>, _>>()?;
    let _claim = claim(&plan.target)?;
    let place = Site::choose(&plan.target);
    let journal = Journal::open(host, &plan.disks, place.directories())?;
    observer.event(&Event::Started {
        plan: &plan,
        directory: recorder.directory(),
        trials_done: recorder.record().trials().count(),
    });
    let baseline = journal
        .saved()
        .iter()
        .map(|disk| disk.state.clone())
        .collect();
    let mut runner = Runner {
        host,
        plan: &plan,
        recorder,
        options,
        stop,
        observer,
        place: place.place(),
        baseline,
        mark: Instant::now(),
    };
    let outcome = place.make(options.user).and_then(|()| runner.all_trials());
    let undone = journal.undo();
    observer.event(&Event::Restored { undone: &undone });
    let unsettled = undone.iter().any(|one| matches!(one, Undone::Gone { .. }));
    match outcome {
        Err(RunError::Switch(SwitchError::Vanished { device })) => Err(RunError::Vanished {
            device,
            directory: recorder.directory().into(),
        }),
        Err(RunError::Fio(FioError::Child(ChildError::Stopped))) => Err(RunError::Interrupted {
            directory: recorder.directory().into(),
        }),
        Err(error) if unsettled && matches!(error, RunError::LoadFails { .. }) => {
            Err(RunError::Vanished {
                device: plan.disks[0].clone(),
                directory: recorder.directory().into(),
            })
        }
        other => other,
    }
}

/// While a raw device is written, nobody may mount it or open it for himself.
fn claim(target: &Target) -> Result<Option<fs::File>, RunError> {
    let Target::Device {
        device,
        path,
        writes: true,
    } = target
    else {
        return Ok(None);
    };
    #[expect(clippy::cast_possible_wrap, reason = "a flag of the kernel's int")]
    let exclusive = rustix::fs::OFlags::EXCL.bits() as i32;
    match OpenOptions::new()
        .read(true)
        .custom_flags(exclusive)
        .open(path)
    {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(RunError::InUse {
            device: device.clone(),
        }),
        Err(source) => Err(RunError::Io {
            path: path.clone(),
            source,
        }),
    }
}

/// Where the loads run, and the directory of our own if that is in one.
struct Site {
    place: Place,
    directory: Option<PathBuf>,
}

impl Site {
    /// Chooses names; makes nothing.
    fn choose(target: &Target) -> Site {
        match target {
            Target::Device { path, .. } | Target::File { path, .. } => Site {
                place: Place::Path(path.display().to_string()),
                directory: None,
            },
            Target::Directory {
                path, file_size, ..
            } => {
                let name = format!(".iosched-{:016x}", rand::rng().next_u64());
                let directory = path.join(name);
                Site {
                    place: Place::Directory {
                        directory: directory.display().to_string(),
                        file_size: *file_size,
                    },
                    directory: Some(directory),
                }
            }
        }
    }

    fn directories(&self) -> Vec<PathBuf> {
        self.directory.iter().cloned().collect()
    }

    fn place(&self) -> Place {
        self.place.clone()
    }

    /// Makes the directory, which must not be there: its name cannot be guessed, nor be a link.
    fn make(&self, user: Option<User>) -> Result<(), RunError> {
        let Some(directory) = &self.directory else {
            return Ok(());
        };
        let made = DirBuilder::new().mode(0o700).create(directory);
        let owned = made.and_then(|()| match user {
            Some(user) => lchown(directory, Some(user.uid), Some(user.gid)),
            None => Ok(()),
        });
        owned.map_err(|source| RunError::Io {
            path: directory.clone(),
            source,
        })
    }
}

struct Runner<'a> {
    host: &'a Host,
    plan: &'a Plan,
    recorder: &'a mut Recorder,
    options: &'a RunOptions<'a>,
    stop: &'a Stop,
    observer: &'a mut dyn Observer,
    place: Place,
    /// The state of each disk before the run.
    baseline: Vec<QueueState>,
    /// When the last trial was saved: what passes from there is ours.
    mark: Instant,
}

impl Runner<'_> {
    fn all_trials(&mut self) -> Result<StopReason, RunError> {
        self.lay_out_files()?;
        self.rehearse()?;
        self.precondition()?;
        self.wait_until_steady()?;
        self.mark = Instant::now();
        loop {
            match schedule::next(self.plan, self.recorder.record()) {
                Next::Trial(slot) => self.one_slot(slot)?,
                Next::Done(stop) => {
                    self.recorder.append(Entry::Finished {
                        at_unix_s: unix_time(),
                        stop,
                    })?;
                    let analysis = Analysis::of(self.recorder.record());
                    self.observer.event(&Event::Finished {
                        stop,
                        analysis: &analysis,
                    });
                    return Ok(stop);
                }
            }
        }
    }

    /// Writes the test files of all loads before the first trial, so that none pays for it.
    fn lay_out_files(&mut self) -> Result<(), RunError> {
        if !matches!(self.place, Place::Directory { .. }) {
            return Ok(());
        }
        self.observer.event(&Event::Preparing {
            what: "writing test files",
        });
        for load in 0..self.plan.loads.len() {
            let settings = self.plan.trial_settings(load, 0, self.place.clone());
            let job_file = self.plan.loads[load].parsed().compose_layout(&settings);
            self.prepare(&job_file)?;
        }
        Ok(())
    }

    /// Runs fio for as long as it takes: to write test files, or to fill a device.
    fn prepare(&self, job_file: &str) -> Result<Vec<JobResult>, FioError> {
        let running = Running {
            duration: Duration::ZERO,
            read_only: false,
            limit: Some(LONGEST_PREPARATION),
            user: self.options.user,
            stop: self.stop,
        };
        fio::run(job_file, &running, &mut |_| {})
    }

    /// Fills the whole device twice, sequentially, as the SNIA's Performance Test Specification
    /// (2.0.1, purge left out) does before it measures flash.
    fn precondition(&mut self) -> Result<(), RunError> {
        let was_done = |entry: &Entry| matches!(entry, Entry::Preconditioned { .. });
        if !self.plan.precondition || self.recorder.record().entries.iter().any(was_done) {
            return Ok(());
        }
        self.observer.event(&Event::Preparing {
            what: "filling the whole device twice (--precondition)",
        });
        let fill = JobFile::parse("precondition", PRECONDITION).expect("our own job file");
        let settings = TrialSettings {
            runtime: None,
            ramp: None,
            ..self.plan.trial_settings(0, 0, self.place.clone())
        };
        let begun = Instant::now();
        let jobs = self.prepare(&fill.compose(&settings))?;
        let written = jobs.iter().filter_map(|job| job.write.as_ref());
        self.recorder.append(Entry::Preconditioned {
            bytes: written.map(|flow| flow.bytes).sum(),
            elapsed_s: begun.elapsed().as_secs_f64(),
        })?;
        Ok(())
    }

    /// Runs each load that asks for it, under the baseline, until five runs in a row are steady by
    /// the SNIA's rule, or [`MOST_STEADY_RUNS`] have passed. Again after an interruption: a rest
    /// lets flash recover.
    fn wait_until_steady(&mut self) -> Result<(), RunError> {
        let rule = steady::Rule::default();
        for load in 0..self.plan.loads.len() {
            if !self.plan.loads[load].wait_until_steady {
                continue;
            }
            self.enter(self.plan.baseline)?;
            let mut throughput = Vec::new();
            let mut window = None;
            while window.is_none() && throughput.len() < MOST_STEADY_RUNS {
                self.check_stop()?;
                let round = u32::MAX - u32::try_from(throughput.len()).unwrap_or(0);
                let slot = Slot {
                    load,
                    round,
                    arm: self.plan.baseline,
                };
                let jobs = self.run_load(slot)?;
                let flows = jobs.iter().flat_map(JobResult::flows);
                throughput.push(flows.map(|flow| flow.bytes_per_s).sum::<f64>());
                window = throughput
                    .len()
                    .checked_sub(rule.rounds)
                    .and_then(|first| rule.window(&throughput, first))
                    .filter(|window| rule.holds(window));
                self.observer.event(&Event::SteadyRun {
                    load: &self.plan.loads[load].name,
                    throughput_bytes_per_s: &throughput,
                    is_steady: window.is_some(),
                });
            }
            self.recorder.append(Entry::Steady {
                load,
                throughput_bytes_per_s: throughput,
                window: window.map(|window| SteadyWindow {
                    excursion: window.excursion,
                    slope: window.slope,
                }),
            })?;
        }
        Ok(())
    }

    /// Sets every arm once, so that a tunable that this kernel refuses is known before an hour
    /// of measuring, and what it clamps is said.
    fn rehearse(&mut self) -> Result<(), RunError> {
        for arm in 0..self.plan.arms.len() {
            self.check_stop()?;
            let label = self.plan.arm_label(arm);
            for (disk, baseline) in self.plan.disks.iter().zip(&self.baseline) {
                let entered =
                    switch::enter(&self.host.sysfs(), disk, &self.plan.arms[arm], baseline)?;
                for adjusted in &entered.adjusted {
                    self.observer.event(&Event::Adjusted {
                        arm: &label,
                        adjusted,
                    });
                }
            }
        }
        Ok(())
    }

    fn check_stop(&self) -> Result<(), RunError> {
        if self.stop.is_wanted() {
            return Err(RunError::Fio(FioError::Child(ChildError::Stopped)));
        }
        Ok(())
    }

    /// Runs the trial of a slot, again and again until it counts or its arm leaves.
    fn one_slot(&mut self, slot: Slot) -> Result<(), RunError> {
        self.check_stop()?;
        let label = self.plan.arm_label(slot.arm);
        let load = self.plan.loads[slot.load].name.clone();
        let sequence = self.sequence();
        self.observer.event(&Event::TrialStarted {
            arm: &label,
            load: &load,
            round: slot.round + 1,
            expected_s: self.plan.trial_duration(slot.load).as_secs_f64(),
            at_most_s: schedule::at_most(self.plan, self.recorder.record()).as_secs_f64(),
        });
        match self.trial(slot, sequence)? {
            Ok(trial) => {
                self.observer.event(&Event::TrialEnded {
                    arm: &label,
                    load: &load,
                    trial: &trial,
                });
                self.recorder.append(Entry::Trial(Box::new(trial)))?;
                self.mark = Instant::now();
                if schedule::is_round_complete(self.plan, self.recorder.record(), slot) {
                    let analysis = Analysis::of(self.recorder.record());
                    self.observer.event(&Event::Estimate {
                        analysis: &analysis,
                    });
                }
            }
            Err(reason) => self.void(
                VoidTrial {
                    slot,
                    sequence,
                    reason,
                },
                &label,
                &load,
            )?,
        }
        Ok(())
    }

    fn void(&mut self, void: VoidTrial, label: &str, load: &str) -> Result<(), RunError> {
        let slot = void.slot;
        let before = self
            .recorder
            .record()
            .void_trials()
            .filter(|v| v.slot == slot)
            .count();
        let is_repeated = before + 1 < MOST_VOID;
        self.observer.event(&Event::TrialVoid {
            arm: label,
            load,
            trial: &void,
            is_repeated,
        });
        let reason = void.reason.to_string();
        let is_failure = matches!(void.reason, VoidReason::LoadFailed { .. });
        self.recorder.append(Entry::Void(void))?;
        self.mark = Instant::now();
        if is_failure {
            self.check_target()?;
        }
        if is_repeated {
            return Ok(());
        }
        self.observer.event(&Event::ArmLeft {
            arm: label,
            load,
            reason: &reason,
        });
        self.recorder.append(Entry::ArmLeft {
            load: slot.load,
            arm: slot.arm,
            reason: reason.clone(),
        })?;
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
        Ok(())
    }

    /// After a load failed: is what it ran on still there and working?
    fn check_target(&self) -> Result<(), RunError> {
        let directory = || self.recorder.directory().to_owned();
        if let Some(cause) = (self.options.health)() {
            return Err(RunError::TargetFailed {
                cause,
                directory: directory(),
            });
        }
        let sysfs = self.host.sysfs();
        let is_gone = |disk: &&String| sysfs.read_if_present(disk, "size").is_none_or(|s| s == "0");
        let gone = self.plan.disks.iter().find(is_gone);
        match gone {
            Some(device) => Err(RunError::Vanished {
                device: device.clone(),
                directory: directory(),
            }),
            None => Ok(()),
        }
    }

    fn sequence(&self) -> u32 {
        let record = self.recorder.record();
        let count = record.trials().count() + record.void_trials().count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// One trial from setting the arm to the numbers; `Err` inside if it does not count.
    fn trial(&mut self, slot: Slot, sequence: u32) -> Result<Result<Trial, VoidReason>, RunError> {
        let begun = Instant::now();
        let states = self.enter(slot.arm)?;
        let switched = Instant::now();
        drop_caches(self.host);
        let prepared = Instant::now();
        let before = self.counters()?;
        let started_unix_s = unix_time();
        let started = Instant::now();
        let result = self.run_load(slot);
        let load = started.elapsed();
        let jobs = match result {
            Ok(jobs) => jobs,
            Err(error @ FioError::Child(ChildError::Stopped | ChildError::Missing { .. })) => {
                return Err(error.into());
            }
            Err(error) => {
                return Ok(Err(VoidReason::LoadFailed {
                    message: error.to_string(),
                }));
            }
        };
        let measured = self.counters()?.since(&before, nanos(load));
        if let Some(reason) = self.changed_state(&states)? {
            return Ok(Err(reason));
        }
        let metrics = Metrics::of(&jobs, &measured);
        if let Some(reason) = self.plan.bad_metric(slot, &metrics) {
            return Ok(Err(reason));
        }
        let (switch, prepare) = (switched - begun, prepared - switched);
        Ok(Ok(Trial {
            slot,
            sequence,
            started_unix_s,
            phases: Phases {
                switch_ns: nanos(switch),
                prepare_ns: nanos(prepare),
                load_ns: nanos(load),
                harness_ns: nanos(self.mark.elapsed().saturating_sub(switch + prepare + load)),
            },
            states,
            measured,
            jobs,
            metrics,
        }))
    }

    fn enter(&self, arm: usize) -> Result<Vec<QueueState>, SwitchError> {
        let sysfs = self.host.sysfs();
        self.plan
            .disks
            .iter()
            .zip(&self.baseline)
            .map(|(disk, baseline)| {
                Ok(switch::enter(&sysfs, disk, &self.plan.arms[arm], baseline)?.state)
            })
            .collect()
    }

    fn run_load(&mut self, slot: Slot) -> Result<Vec<JobResult>, FioError> {
        let load = self.plan.loads[slot.load].parsed();
        let settings = self
            .plan
            .trial_settings(slot.load, slot.round, self.place.clone());
        let running = Running {
            duration: load.duration(&settings),
            read_only: !load.writes(),
            limit: self.options.trial_limit,
            user: self.options.user,
            stop: self.stop,
        };
        let observer = &mut *self.observer;
        fio::run(&load.compose(&settings), &running, &mut |elapsed| {
            observer.event(&Event::Tick {
                elapsed_s: elapsed.as_secs_f64(),
            });
        })
    }

    fn counters(&self) -> Result<Counters, RunError> {
        Counters::read(self.host, &self.plan.disks).map_err(|source| {
            if source.kind() == io::ErrorKind::NotFound {
                RunError::Switch(SwitchError::Vanished {
                    device: self.plan.disks[0].clone(),
                })
            } else {
                RunError::Io {
                    path: self.host.proc("diskstats"),
                    source,
                }
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

/// Writes back what is dirty and drops the page cache, so that no trial lives on the one before.
/// Without the right to (not root, a container) trials still compare, since loads use `O_DIRECT`.
fn drop_caches(host: &Host) {
    rustix::fs::sync();
    let _ = fs::write(host.proc("sys/vm/drop_caches"), "3");
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Seconds since 1970.
pub fn unix_time() -> f64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
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
