//! Loads: what a trial runs.
//!
//! A [`Spec`] is what plan and record know of a load: data, from which the load can be made again.
//! `Spec::open` makes the `Load` itself, which answers the planner's questions (does it write,
//! how long does it take, which numbers has it?) and does the work: once before the first trial,
//! before each trial, the trial, and the end.
//!
//! - `job_file`: a fio job file, one of the [`builtin`] ones or the user's own; `fio_job` reads
//!   and checks it, [`fio`] runs it
//! - `command`: any program, its time or a number that it prints; `words` cuts its command line
//! - [`simulated`]: the same job files, run by the simulator over a disk model
//! - [`pgbench`]: PostgreSQL with a database of our own
//! - `fixed_work`: a job file with an end, judged by its time; [`families`] makes those of the
//!   sweep, the document server and the database server
//! - `desktop`: the start of a program, and small reads, beside a copy or streams; for the simulator, too
//! - [`retired`]: loads that are no more, whose records are still read
//! - `settings`: what stands after a load's name; [`listed`]: all names, for help
//! - `files`: what we do to a load's files, with the rights of its user

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use iosched_machine::failure::{Failure, NotUndone, Problem, exit, in_a_sentence, problem};
use iosched_machine::foreign;
use iosched_machine::process::{ChildError, Scope, Stop, User};
use iosched_switch::Arm;
use iosched_switch::journal::OutsideResource;
use serde::{Deserialize, Serialize};

use crate::measure::Measured;
use crate::metrics::{JobResult, Metrics};
use crate::objective::Objective;

pub mod builtin;
pub(crate) mod command;
pub(crate) mod desktop;
pub mod families;
pub mod fio;
pub(crate) mod fio_job;
mod fixed_work;
pub(crate) mod job_file;
pub mod listed;
pub mod pgbench;
pub mod retired;
pub(crate) mod settings;
pub mod simulated;
pub(crate) mod words;

pub(crate) mod files;

use desktop::simulated::SimulatedDesktop;
use fio_job::stages::Stages;
use fio_job::{JobTarget, TrialSettings};
use pgbench::OwnDatabases;
use retired::{RetiredLoad, RetiredScenario};
use simulated::{SimulatedDisk, SimulatedLoad};

/// What plan and record know of a load.
///
/// Written as one field, named after the variant, so that records from when every load was a job
/// file are read as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spec {
    /// A fio job file, as it was read.
    JobFile(String),
    /// Any program.
    Command(command::CommandSettings),
    /// A job file for the simulator.
    Simulated {
        /// As it was read.
        job_file: String,
        /// What it runs on.
        disk: Box<SimulatedDisk>,
    },
    /// The start of a program beside a copy or streams, for the simulator.
    SimulatedDesktop {
        /// What is started how often, and beside what.
        desktop: desktop::DesktopSettings,
        /// What it runs on.
        disk: Box<SimulatedDisk>,
    },
    /// A load that is no more, for the simulator.
    SimulatedScenario {
        /// Which it was.
        scenario: RetiredScenario,
        /// What it ran on.
        disk: Box<SimulatedDisk>,
    },
    /// pgbench.
    Pgbench(pgbench::PgbenchSettings),
    /// A fio job file with an end.
    FixedWork(fixed_work::FixedWorkSettings),
    /// The start of a program beside a copy or streams.
    DesktopStart(desktop::DesktopSettings),
    /// No more: a program that was started beside streams.
    Responsiveness(retired::ResponsivenessSettings),
    /// No more: programs that were started beside a copy, a video, a package, a browser and small reads.
    Desktop(retired::DesktopSettings),
    /// No more: many small files that became others.
    Build(retired::BuildSettings),
    /// No more: a test of the sweep by iozone.
    Iozone(retired::IozoneSettings),
}

impl Spec {
    /// Whether what its workers say they did is all that it does to the disk, access by access.
    pub(crate) fn counts_each_access(&self) -> bool {
        matches!(self, Spec::JobFile(_) | Spec::Simulated { .. })
    }

    /// Whether its trials run for a time that is given, so that they may be made shorter or longer.
    pub(crate) fn runs_for_a_time(&self) -> bool {
        matches!(self, Spec::JobFile(_) | Spec::Simulated { .. })
    }

    /// The load itself. `name` is what errors call it.
    pub(crate) fn open(&self, name: &str) -> Result<Box<dyn Load>, Problem> {
        match self {
            Spec::JobFile(text) => Ok(Box::new(job_file::FioLoad::new(name, text)?)),
            Spec::Command(settings) => Ok(Box::new(command::CommandLoad::new(settings)?)),
            Spec::Simulated { job_file, disk } => {
                Ok(Box::new(SimulatedLoad::new(name, job_file, disk)?))
            }
            Spec::SimulatedDesktop { desktop, disk } => {
                Ok(Box::new(SimulatedDesktop::new(desktop, disk)?))
            }
            Spec::Pgbench(settings) => Ok(Box::new(pgbench::PgbenchLoad::new(settings)?)),
            Spec::FixedWork(settings) => Ok(Box::new(fixed_work::FixedWork::new(name, settings)?)),
            Spec::DesktopStart(settings) => Ok(Box::new(desktop::Desktop::new(settings))),
            Spec::SimulatedScenario { .. }
            | Spec::Responsiveness(_)
            | Spec::Desktop(_)
            | Spec::Build(_)
            | Spec::Iozone(_) => Ok(Box::new(RetiredLoad)),
        }
    }

    /// True of a load that is no more: its records can be reported, its runs cannot go on.
    pub(crate) fn is_retired(&self) -> bool {
        matches!(
            self,
            Spec::SimulatedScenario { .. }
                | Spec::Responsiveness(_)
                | Spec::Desktop(_)
                | Spec::Build(_)
                | Spec::Iozone(_)
        )
    }

    /// False of what the user wrote, whatever it is called.
    pub fn is_ours(&self) -> bool {
        match self {
            Spec::JobFile(text) | Spec::Simulated { job_file: text, .. } => {
                builtin::BUILT_IN.iter().any(|load| load.is_text(text))
                    || families::has_job_file(text)
            }
            Spec::Command(_) => false,
            Spec::Pgbench(settings) => settings.is_ours(),
            Spec::Responsiveness(settings) => settings.command.is_none(),
            Spec::SimulatedDesktop { .. }
            | Spec::SimulatedScenario { .. }
            | Spec::FixedWork(_)
            | Spec::DesktopStart(_)
            | Spec::Desktop(_)
            | Spec::Build(_)
            | Spec::Iozone(_) => true,
        }
    }
}

/// Where a load works, and under which conditions. The same for all its trials.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workplace<'a> {
    /// A device, a file, or a directory of our own.
    pub place: &'a JobTarget,
    /// Whose rights it has, and where its processes are kept together.
    pub scope: &'a Scope,
    /// Largest time for the load of one trial; `None` for the load's own choice.
    pub trial_limit: Option<Duration>,
    /// Whether the user wants us to stop.
    pub stop: &'a Stop,
}

impl Workplace<'_> {
    /// Whose rights the load has, if not ours.
    pub(crate) fn user(&self) -> Option<&User> {
        self.scope.user()
    }

    /// The directory of our own on the target, removed after the run.
    pub(crate) fn own_directory(&self) -> Option<&Path> {
        match self.place {
            JobTarget::Directory { directory, .. } => Some(Path::new(directory)),
            JobTarget::Path(_) => None,
        }
    }

    /// The part of it that belongs to the load of this name.
    ///
    /// # Panics
    /// If there is none: the plan gives one to each load that says it needs one.
    pub(crate) fn directory_of(&self, load: &str) -> PathBuf {
        let own = self.own_directory();
        own.expect("the plan gave this load a directory").join(load)
    }

    /// The directory that the user named.
    pub(crate) fn target_directory(&self) -> Option<&Path> {
        self.own_directory()?.parent()
    }
}

/// Which trial it is.
#[derive(Debug, Clone)]
pub(crate) struct TrialInfo {
    /// The scheduler with its tunables.
    pub arm: Arm,
    /// What the arm is called.
    pub label: String,
    /// Counted from 0.
    pub round: u32,
    /// Where its I/O goes, run time and seed.
    pub settings: TrialSettings,
}

/// What a load gave in one trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Outcome {
    /// What each of its workers saw; empty for a load that does not count its own I/O.
    pub jobs: Vec<JobResult>,
    /// When they ran, if not all side by side.
    pub stages: Option<Stages>,
    /// True if these workers are only a part of the load: then rates are those of the disk.
    pub counts_a_part: bool,
    /// How long a fixed amount of work took, s.
    pub elapsed_s: Option<f64>,
    /// How long the trial took in virtual time, of which its rates are (a simulated load).
    pub virtual_time: Option<Duration>,
    /// Until when the latencies of percentiles were counted, if the load still ran then.
    pub counted: Option<Duration>,
    /// The number that the load was asked to find.
    pub number: Option<f64>,
    /// The unit of the last digit that was printed of it.
    pub number_unit: Option<f64>,
    /// What else it says, by name: kept, shown, never decisive.
    pub numbers: BTreeMap<String, f64>,
    /// What the disk and the processors did, where no kernel counted it (a simulated load).
    pub measured: Option<Measured>,
}

impl Outcome {
    /// Why it, or what was worked out of it, cannot have been measured, if so: programs print what they like, and a
    /// record takes no such number.
    pub(crate) fn check(&self, metrics: &Metrics) -> Result<(), LoadError> {
        foreign::check_kept(&self.jobs)
            .and_then(|()| foreign::check_kept(metrics))
            .map_err(|cause| {
                LoadError::trial(format!(
                    "it printed what cannot have been measured: {cause}"
                ))
            })
    }
}

/// Files that a load keeps in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Other loads that keep files of this name keep the same ones; none if they are this load's own.
    pub name: Option<String>,
    /// How much they take.
    pub bytes: u64,
}

impl Kept {
    /// Files of a load's own.
    pub(crate) fn own(bytes: u64) -> Vec<Kept> {
        vec![Kept { name: None, bytes }]
    }

    /// The directory that a family of loads shares.
    pub(crate) fn in_directory(directory: &str, bytes: u64) -> Vec<Kept> {
        let name = Some(format!("{directory}/"));
        vec![Kept { name, bytes }]
    }
}

/// Removes what a load made outside of the target ([`UndoOutside`](iosched_switch::journal::UndoOutside)).
///
/// # Errors
/// It is still there.
pub fn undo_outside(own: &OutsideResource) -> Result<Vec<String>, NotUndone> {
    OwnDatabases::of(own).undo(own)
}

/// What a trial runs.
///
/// Of the actions only `run` must be there.
pub(crate) trait Load {
    /// True if it writes to a raw device, or to the file that is the target, or may, as far as is known.
    fn writes(&self) -> bool {
        true
    }

    /// True if it needs a directory on the target.
    fn needs_directory(&self) -> bool {
        false
    }

    /// True if it is given a directory where the disk is the run's own.
    fn wants_directory(&self) -> bool {
        self.needs_directory()
    }

    /// True if running it changes what it will find the next time, so that it has to be run until
    /// it is steady. A load that restores its data does not drift.
    fn drifts(&self) -> bool {
        false
    }

    /// True if it can leave the beginning of a trial out (`--ramp`).
    fn takes_ramp(&self) -> bool {
        false
    }

    /// True if its trials begin with an empty page cache.
    fn is_cold(&self) -> bool {
        true
    }

    /// The programs that it needs, with their versions, which are kept in the record.
    ///
    /// # Errors
    /// One of them is missing.
    fn programs(&self) -> Result<Vec<String>, LoadError> {
        Ok(Vec::new())
    }

    /// How much of the run time of a trial the percentiles of its latencies are of, where that is not all.
    fn counted(&self, _settings: &TrialSettings) -> Option<Duration> {
        None
    }

    /// How long the load of one trial takes; `None` if that is not known before it ran.
    fn duration(&self, _settings: &TrialSettings) -> Option<Duration> {
        None
    }

    /// Run time of a trial where the user does not say; `None` if the load has its own end.
    fn default_runtime(&self) -> Option<Duration> {
        None
    }

    /// What it keeps in a directory, with test files of this size.
    fn kept(&self, _file_size: u64) -> Vec<Kept> {
        Vec::new()
    }

    /// An option by which it would take all that is free in a directory, with its place.
    fn fills_directory(&self) -> Option<String> {
        None
    }

    /// What it makes outside of the target, or after [`Load::clean_up`] what of it is left: the
    /// journal knows it before it is made.
    fn outside(&self, _user: Option<&User>) -> Option<OutsideResource> {
        None
    }

    /// True if it discards what is on a disk, which files do not take.
    fn trims(&self) -> bool {
        false
    }

    /// Why it can never have the number that is to decide; `None` if it can.
    fn lacks(&self, objective: Objective) -> Option<&'static str>;

    /// Once, before the first trial: what all trials use. `say` tells the user what takes time.
    fn prepare(
        &mut self,
        _at: &Workplace<'_>,
        _say: &mut dyn FnMut(&str),
    ) -> Result<(), LoadError> {
        Ok(())
    }

    /// Before each trial, under whatever scheduler was active: the data as they were at first.
    fn reset(&mut self, _at: &Workplace<'_>, _trial: &TrialInfo) -> Result<(), LoadError> {
        Ok(())
    }

    /// After the arm was set and the page cache emptied, before anything is counted.
    fn start(&mut self, _at: &Workplace<'_>, _trial: &TrialInfo) -> Result<(), LoadError> {
        Ok(())
    }

    /// The trial. `tick` is called while it runs.
    fn run(
        &mut self,
        at: &Workplace<'_>,
        trial: &TrialInfo,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError>;

    /// After the last trial, and after an error: nothing that runs is left. Our directory on the
    /// target is removed by others.
    fn clean_up(&mut self) {}
}

/// Why a load gave no result.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The user wants us to stop, or the time is over.
    #[error("interrupted")]
    Stopped,
    /// The trial does not count; another one may.
    #[error(transparent)]
    Trial(Problem),
    /// Another trial would fail the same way.
    #[error(transparent)]
    Run(Problem),
}

impl LoadError {
    /// A trial that does not count.
    pub(crate) fn trial(message: impl Into<String>) -> LoadError {
        LoadError::Trial(Problem::new(exit::LOAD_FAILED, message))
    }

    /// What would fail again.
    pub(crate) fn run(message: impl Into<String>) -> LoadError {
        LoadError::Run(Problem::new(exit::LOAD_FAILED, message))
    }

    /// The files of a load cannot be used.
    pub(crate) fn files(error: io::Error) -> LoadError {
        LoadError::trial(format!("cannot use the files of the load: {error}"))
    }

    /// The same with another hint.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> LoadError {
        match self {
            LoadError::Stopped => self,
            LoadError::Trial(problem) => LoadError::Trial(problem.hint(hint)),
            LoadError::Run(problem) => LoadError::Run(problem.hint(hint)),
        }
    }

    /// The same, ending the run.
    pub(crate) fn ending_the_run(self) -> LoadError {
        match self {
            LoadError::Trial(problem) => LoadError::Run(problem),
            other => other,
        }
    }

    /// True if the user wants us to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self, LoadError::Stopped)
    }

    fn problem(&self) -> Option<&Problem> {
        match self {
            LoadError::Stopped => None,
            LoadError::Trial(problem) | LoadError::Run(problem) => Some(problem),
        }
    }
}

/// A program that is missing will be missing again.
impl From<ChildError> for LoadError {
    fn from(error: ChildError) -> LoadError {
        match error {
            ChildError::Stopped => LoadError::Stopped,
            ChildError::Missing { .. } => {
                LoadError::Run(Problem::new(exit::MISSING, error.to_string()))
            }
            error => LoadError::trial(in_a_sentence(&error)),
        }
    }
}

impl From<LoadError> for Problem {
    fn from(error: LoadError) -> Problem {
        problem(&error)
    }
}

impl Failure for LoadError {
    fn hint(&self) -> Option<String> {
        self.problem()?.hint.clone()
    }

    fn exit_code(&self) -> u8 {
        self.problem()
            .map_or(exit::INTERRUPTED, |problem| problem.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Measured;
    use crate::metrics::Flow;

    fn checked(outcome: &Outcome) -> Result<(), String> {
        let metrics = Metrics::of(outcome, &Measured::default(), Duration::from_secs(1));
        outcome.check(&metrics).map_err(|error| error.to_string())
    }

    #[test]
    fn what_cannot_have_been_measured_is_no_result() {
        let flow = |bytes, bytes_per_s| JobResult {
            name: "a".into(),
            read: Some(Flow {
                ios: 1 << 60,
                bytes,
                bytes_per_s,
                iops: 1.0,
                latency_mean_ns: 1.0,
                latency_max_ns: 1,
                latency_bins: vec![(1, 1 << 60)],
            }),
            write: None,
            trim: None,
            transactions: None,
        };
        let with = |jobs: Vec<JobResult>| Outcome {
            jobs,
            ..Outcome::default()
        };
        assert_eq!(checked(&with(vec![flow(4096, 4096.0)])), Ok(()));
        for (jobs, words) in [
            (vec![flow(u64::MAX, 1.0)], "read.bytes is 1.8"),
            (vec![flow(1, f64::INFINITY)], "null"),
            // Each could be, and all of them together not.
            (vec![flow(1, 1e18); 20], "bytes_per_s is 2e19"),
        ] {
            let error = checked(&with(jobs)).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let named = Outcome {
            numbers: BTreeMap::from([("rate".to_owned(), f64::NAN)]),
            ..Outcome::default()
        };
        assert!(checked(&named).is_err());
    }
}
