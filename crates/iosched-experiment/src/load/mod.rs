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
//! - [`simulated`]: the same job files, run by the simulator over a disk model; `scenario`: loads that start
//!   programs or work on files, for the simulator
//! - [`pgbench`]: PostgreSQL with a database of our own
//! - `fixed_work`: a job file with an end, judged by its time; [`families`] makes those of the
//!   sweep, the document server and the database server
//! - `responsiveness`: how long a program takes to start beside readers and writers
//! - `desktop`: starts, a video, a package, a browser and small reads beside a copy
//! - `build`: many small files read and written by several processes
//! - `iozone`: the sweep's tests by the program that it was made with
//! - `settings`: what stands after a load's name
//! - `files`: what we do to a load's files, with the rights of its user

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use iosched_machine::failure::{Failure, NotUndone};
use iosched_machine::foreign;
use iosched_machine::process::{ChildError, Scope, Stop, User};
use iosched_switch::Arm;
use serde::{Deserialize, Serialize};

use crate::measure::Measured;
use crate::metrics::{JobResult, Metrics};
use crate::objective::Objective;

pub(crate) mod build;
pub mod builtin;
pub(crate) mod command;
pub(crate) mod desktop;
pub mod families;
pub mod fio;
pub(crate) mod fio_job;
mod fixed_work;
pub(crate) mod iozone;
mod job_file;
pub mod pgbench;
pub(crate) mod responsiveness;
pub(crate) mod scenario;
pub(crate) mod settings;
pub mod simulated;
pub(crate) mod words;

pub(crate) mod files;

use command::{CommandError, CommandSpecError};
use fio::FioError;
use fio_job::{JobFile, JobFileError, JobTarget, TrialSettings};
use iozone::IozoneError;
use pgbench::{OwnDatabases, PgbenchError, PgbenchSpecError};
use scenario::{ScenarioError, SimulatedScenario};
use settings::SettingError;
use simulated::{SimulatedDisk, SimulatedLoad, SimulationError};

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
    /// A load that starts programs or works on files, for the simulator.
    SimulatedScenario {
        /// The scenario that the simulator runs.
        scenario: scenario::Scenario,
        /// What it runs on.
        disk: Box<SimulatedDisk>,
    },
    /// pgbench.
    Pgbench(pgbench::PgbenchSettings),
    /// A fio job file with an end.
    FixedWork(fixed_work::FixedWorkSettings),
    /// A test of the sweep.
    Iozone(iozone::IozoneSettings),
    /// A program that is started beside streams.
    Responsiveness(responsiveness::ResponsivenessSettings),
    /// A desktop beside a copy.
    Desktop(desktop::DesktopSettings),
    /// Many small files that become others.
    Build(build::BuildSettings),
}

/// Why a load cannot be made of what the user wrote.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum SpecError {
    #[error(transparent)]
    JobFile(#[from] JobFileError),
    #[error(transparent)]
    Command(#[from] CommandSpecError),
    /// It cannot be simulated.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A load that starts programs or works on files cannot be simulated.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Pgbench(#[from] PgbenchSpecError),
    /// A setting of a family.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

impl Failure for SpecError {
    iosched_machine::passes_on!(SpecError: JobFile, Command, Simulation, Scenario, Pgbench, Setting);
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

    /// An option of its job file by which its jobs do not all run at the same time, so that what a trial takes besides one of
    /// them is no overhead.
    pub(crate) fn times_of_its_own(&self) -> Option<&'static str> {
        let (Spec::JobFile(text) | Spec::Simulated { job_file: text, .. }) = self else {
            return None;
        };
        JobFile::parse("", text).ok()?.times_of_its_own()
    }

    /// The load itself. `name` is what errors call it.
    pub(crate) fn open(&self, name: &str) -> Result<Box<dyn Load>, SpecError> {
        match self {
            Spec::JobFile(text) => Ok(Box::new(job_file::FioLoad::new(name, text)?)),
            Spec::Command(settings) => Ok(Box::new(command::CommandLoad::new(settings)?)),
            Spec::Simulated { job_file, disk } => {
                Ok(Box::new(SimulatedLoad::new(name, job_file, disk)?))
            }
            Spec::SimulatedScenario { scenario, disk } => {
                Ok(Box::new(SimulatedScenario::new(scenario, disk)?))
            }
            Spec::Pgbench(settings) => Ok(Box::new(pgbench::PgbenchLoad::new(settings)?)),
            Spec::FixedWork(settings) => Ok(Box::new(fixed_work::FixedWork::new(name, settings)?)),
            Spec::Iozone(settings) => Ok(Box::new(iozone::IozoneLoad::new(settings))),
            Spec::Responsiveness(settings) => {
                Ok(Box::new(responsiveness::Responsiveness::new(settings)?))
            }
            Spec::Desktop(settings) => Ok(Box::new(desktop::Desktop::new(settings))),
            Spec::Build(settings) => Ok(Box::new(build::Build::new(settings))),
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
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn<'a> {
    /// The scheduler with its tunables.
    pub arm: &'a Arm,
    /// What the arm is called.
    pub label: &'a str,
    /// Counted from 0.
    pub round: u32,
    /// Where its I/O goes, run time and seed.
    pub settings: &'a TrialSettings,
}

/// What a load gave in one trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Outcome {
    /// What each of its workers saw; empty for a load that does not count its own I/O.
    pub jobs: Vec<JobResult>,
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
            .map_err(|cause| LoadError::Impossible { cause })
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

/// What a load makes outside of the target and of this machine's files, to be taken back after a crash, too: today the
/// databases of `pgbench` on an external server. The journal keeps it, and asks no more of it than this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OutsideResource(OwnDatabases);

impl From<OwnDatabases> for OutsideResource {
    fn from(databases: OwnDatabases) -> OutsideResource {
        OutsideResource(databases)
    }
}

impl OutsideResource {
    /// The server that has it, as the user named it.
    pub(crate) fn server(&self) -> &str {
        self.0.connection()
    }

    /// Removes it, and gives the names of what was removed: none where nothing is there.
    pub(crate) fn undo(&self) -> Result<Vec<String>, NotUndone> {
        self.0.undo()
    }

    /// What is said where its server is not asked to remove it.
    pub(crate) fn not_asked(&self) -> NotUndone {
        self.0.not_asked()
    }
}

/// What a trial runs.
///
/// Of the actions only `run` must be there. An error in one of them makes the trial void, unless
/// `LoadError::ends_the_run`.
pub(crate) trait Load {
    /// True if it writes to a raw device, or to the file that is the target, or may, as far as is known.
    fn writes(&self) -> bool {
        true
    }

    /// True if it needs a directory on the target.
    fn needs_directory(&self) -> bool {
        false
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
    fn reset(&mut self, _at: &Workplace<'_>, _turn: &Turn<'_>) -> Result<(), LoadError> {
        Ok(())
    }

    /// After the arm was set and the page cache emptied, before anything is counted.
    fn start(&mut self, _at: &Workplace<'_>, _turn: &Turn<'_>) -> Result<(), LoadError> {
        Ok(())
    }

    /// The trial. `tick` is called while it runs.
    fn run(
        &mut self,
        at: &Workplace<'_>,
        turn: &Turn<'_>,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError>;

    /// After the last trial, and after an error: nothing that runs is left. Our directory on the
    /// target is removed by others.
    fn clean_up(&mut self) {}
}

/// [`Load::lacks`] of a load that is timed as a whole; the words say so of its accesses, and why it has no workers.
fn lacks_if_untimed(
    objective: Objective,
    untimed: &'static str,
    no_workers: &'static str,
) -> Option<&'static str> {
    match objective {
        Objective::Time | Objective::Throughput | Objective::Iops | Objective::Cpu => None,
        Objective::Tps => Some("it makes no transactions"),
        Objective::NumberHigher | Objective::NumberLower => Some("it prints no number"),
        Objective::Fairness => Some(no_workers),
        _ => Some(untimed),
    }
}

/// Why a load gave no result.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum LoadError {
    #[error(transparent)]
    Fio(#[from] FioError),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A load that starts programs or works on files, in the simulator.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// pgbench, or its server.
    #[error(transparent)]
    Pgbench(#[from] PgbenchError),
    #[error(transparent)]
    Iozone(#[from] IozoneError),
    /// Numbers that no disk and no clock has: a program printed them all the same.
    #[error("it printed what cannot have been measured: {cause}")]
    Impossible { cause: String },
}

impl LoadError {
    /// True if the user wants us to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.child(), Some(ChildError::Stopped))
            || matches!(self.simulation(), Some(SimulationError::Stopped))
    }

    /// True if another trial would fail the same way.
    pub(crate) fn ends_the_run(&self) -> bool {
        match self {
            LoadError::Fio(FioError::Child(error)) => {
                matches!(error, ChildError::Stopped | ChildError::Missing { .. })
            }
            LoadError::Fio(FioError::NoEngine { .. }) => true,
            LoadError::Fio(_) | LoadError::Impossible { .. } => false,
            LoadError::Simulation(_) | LoadError::Scenario(_) => self.is_stopped(),
            LoadError::Command(error) => error.ends_the_run(),
            LoadError::Pgbench(error) => error.ends_the_run(),
            LoadError::Iozone(error) => error.ends_the_run(),
        }
    }

    fn simulation(&self) -> Option<&SimulationError> {
        match self {
            LoadError::Simulation(error)
            | LoadError::Scenario(ScenarioError::Simulation(error)) => Some(error),
            _ => None,
        }
    }

    fn child(&self) -> Option<&ChildError> {
        match self {
            LoadError::Fio(FioError::Child(error))
            | LoadError::Command(CommandError::Child(error))
            | LoadError::Pgbench(PgbenchError::Child(error))
            | LoadError::Iozone(IozoneError::Child(error)) => Some(error),
            _ => None,
        }
    }
}

impl Failure for LoadError {
    iosched_machine::passes_on!(LoadError: Fio, Command, Simulation, Scenario, Pgbench, Iozone);
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
            (vec![flow(1, 1e18); 20], "throughput_bytes_per_s is 2e19"),
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
