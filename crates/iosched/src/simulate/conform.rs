//! Recordings of a kernel's scheduler, followed by ours: files in, one report for each.

use std::path::{Path, PathBuf};

use iosched_sim::conform::{Follower, Report};
use iosched_sim::scheduler;
use iosched_sim::trace::kernel::TraceError;
use iosched_sim::units::Nanos;
use serde::Serialize;

use super::file::{FileError, Lines};
use super::settings::Checked;
use crate::failure::{Failure, exit};

/// Why a recording cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum ConformError {
    /// The file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A line of it.
    #[error("{}, {cause}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// What is wrong with the line.
        cause: TraceError,
    },
    /// There is no decision in it.
    #[error("{} holds no decision of a scheduler: no line of it is an issue (D)", path.display())]
    Empty {
        /// Which file.
        path: PathBuf,
    },
}

impl Failure for ConformError {
    fn hint(&self) -> Option<String> {
        match self {
            ConformError::File(file) => file.hint(),
            ConformError::Line {
                cause: TraceError::MultiQueue { .. },
                ..
            } => None,
            _ => Some(
                "a recording has lines `time_us action rwbs sector nsectors pid comm owner`"
                    .to_owned(),
            ),
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            ConformError::File(file) => file.exit_code(),
            _ => exit::USAGE,
        }
    }
}

/// A decision where ours differs.
#[derive(Debug, Clone, Serialize)]
pub struct Disagreement {
    /// Time in the recording.
    pub time_us: f64,
    /// What was recorded.
    pub recorded: String,
    /// What ours wanted.
    pub ours: String,
    /// The state from which ours decided.
    pub why: String,
}

/// How well ours agrees with one recording.
#[derive(Debug, Clone, Serialize)]
pub struct Conformance {
    /// The recording.
    pub trace: String,
    /// Our scheduler.
    pub scheduler: String,
    /// Requests that the recorded scheduler gave out.
    pub decisions: u64,
    /// Those that ours gave out too.
    pub agreed: u64,
    /// Their share.
    pub agreement: f64,
    /// Moments where ours would have given out a request and the recorded one held back.
    pub eager: u64,
    /// Merges that one made and the other did not.
    pub merge_mismatches: u64,
    /// Events that do not fit what went before.
    pub unexplained: u64,
    /// How long before the recording's clock was zero a tick began, where that matters.
    pub tick_phase_us: f64,
    /// The first disagreements.
    pub first_disagreements: Vec<Disagreement>,
}

impl Conformance {
    fn new(path: &Path, settings: &Checked, report: &Report) -> Conformance {
        let disagreements = report.first_disagreements.iter().map(|one| Disagreement {
            time_us: one.time_us,
            recorded: one.recorded.clone(),
            ours: one.ours.clone(),
            why: one.why.clone(),
        });
        Conformance {
            trace: path.display().to_string(),
            scheduler: settings.spec.name.clone(),
            decisions: report.decisions,
            agreed: report.agreed,
            agreement: report.agreement(),
            eager: report.eager,
            merge_mismatches: report.merge_mismatches,
            unexplained: report.unexplained,
            tick_phase_us: 0.0,
            first_disagreements: disagreements.collect(),
        }
    }
}

/// Follows one recording.
///
/// Where ticks began in it is not recorded. A scheduler whose decisions depend on it is given the
/// one phase, the same for the whole recording, with which it agrees best: each expiry that lies
/// near the edge of a tick rules out some phases, so that the count falls on both sides of the true
/// one, and narrowing in on it finds it.
pub fn follow(path: &Path, settings: &Checked) -> Result<Conformance, ConformError> {
    let mut settings = settings.clone();
    let mut best = follow_once(path, &settings)?;
    let info = scheduler::info(&settings.spec.name).expect("checked when the settings were");
    if !info.uses_ticks {
        return Ok(best);
    }
    let tick = settings.kernel.tick_nanos();
    let mut best_phase = 0;
    let mut step = tick / STEPS;
    while best.agreed < best.decisions && step > 0 {
        let from = best_phase + tick - step * (STEPS / 2);
        for phase in (0..=STEPS).map(|index| (from + index * step) % tick) {
            settings.kernel.tick_phase = Nanos::new(phase);
            let tried = follow_once(path, &settings)?;
            if tried.agreed > best.agreed {
                best = tried;
                best_phase = phase;
            }
        }
        step /= STEPS / 4;
    }
    best.tick_phase_us = Nanos::new(best_phase).as_micros_f64();
    Ok(best)
}

/// Phases tried at once.
const STEPS: u64 = 32;

fn follow_once(path: &Path, settings: &Checked) -> Result<Conformance, ConformError> {
    let mut follower = Follower::new(settings.build(), settings.limits, settings.queue_depth);
    let mut lines = Lines::open(path)?;
    while let Some(line) = lines.next_line()? {
        let read = follower.line(line);
        read.map_err(|cause| ConformError::Line {
            path: path.to_owned(),
            cause,
        })?;
    }
    let report = follower.finish();
    if report.decisions == 0 {
        return Err(ConformError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(Conformance::new(path, settings, &report))
}

#[cfg(test)]
mod tests {
    use iosched_sim::disk::{self, ModelOptions};
    use iosched_sim::request::ProcessId;
    use iosched_sim::scheduler::{Kernel, SchedulerSpec, build};
    use iosched_sim::simulate::{Happening, HostTimes, Observer, Setup, run};
    use iosched_sim::trace::kernel::write_line;
    use iosched_sim::units::Time;
    use iosched_sim::workload::fio_job;

    use super::super::settings::Wanted;
    use super::*;

    struct Recorder(String);

    impl Observer for Recorder {
        fn happened(&mut self, happening: &Happening) {
            write_line(&mut self.0, Time::ZERO, happening).unwrap();
        }

        fn exited(&mut self, _time: Time, _process: ProcessId, _name: &str) {}
    }

    #[test]
    fn where_ticks_began_in_a_recording_is_found() {
        // Requests expire often, in a kernel of 100 ticks per second whose ticks are not ours.
        let scheduler = "deadline:read_expire=90,write_expire=260,fifo_batch=4";
        let phase = Nanos::from_micros(6_300);
        let kernel = Kernel {
            tick_phase: phase,
            hz: 100,
            ..Kernel::default()
        };
        let disk = disk::build("formula", &ModelOptions::default()).unwrap();
        let load = "[r]\nrw=randread\niodepth=8\n[w]\nrw=randwrite\niodepth=16\n";
        let settings = Checked::new(&Wanted {
            scheduler: scheduler.to_owned(),
            hz: Some(100),
            ..Wanted::default()
        });
        let settings = settings.unwrap();
        let spec = SchedulerSpec::parse(scheduler).unwrap();
        let setup = Setup {
            scheduler: build(&spec, &kernel, &Vec::new()).unwrap(),
            jobs: fio_job::parse(load, disk.capacity()).unwrap(),
            disk,
            queue_depth: 1,
            nr_requests: 128,
            limits: settings.limits,
            host: HostTimes::default(),
            seed: 3,
            until: Nanos::from_secs(12),
        };
        let mut recorder = Recorder(String::new());
        run(setup, &mut recorder);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("recording");
        std::fs::write(&path, recorder.0).unwrap();
        let at_our_ticks = follow_once(&path, &settings).unwrap();
        assert!(
            at_our_ticks.agreed < at_our_ticks.decisions,
            "the phase must matter"
        );
        let found = follow(&path, &settings).unwrap();
        assert_eq!(
            found.agreed, found.decisions,
            "at {} µs",
            found.tick_phase_us
        );
        assert!(
            (found.tick_phase_us - 6_300.0).abs() < 1_500.0,
            "{} µs",
            found.tick_phase_us
        );
    }
}
