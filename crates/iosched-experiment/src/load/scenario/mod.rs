//! The loads that start programs and work on files, as processes of the simulator: what they would read and
//! write if no file system stood between.
//!
//! - [`responsiveness`](super::responsiveness): `starts` of a program, each a process that reads its pages one
//!   after the other, beside streams
//! - [`desktop`](super::desktop): the same beside a copy, a video, small reads, a browser and a package
//! - [`build`](super::build): sources and headers read, objects and a program written
//!
//! Files lie one after the other from the beginning of the disk, each in one piece. Left out: what a file
//! system reads and writes besides (inodes, directories, its journal), and processors that somebody else needs.

mod build;
mod desktop;
mod files;
mod responsiveness;
mod starts;

use std::collections::BTreeMap;
use std::time::Duration;

use iosched_machine::failure::{Failure, exit};
use iosched_sim::simulate::Outcome as Simulated;
use iosched_sim::units::{Bytes, Nanos, Sectors};
use iosched_sim::workload::Job;
use iosched_switch::Arm;
use serde::{Deserialize, Serialize};

use self::files::Files;
use super::settings::SettingError;
use super::simulated::{self, RealTime, SimulatedDisk, SimulationError};
use super::{Load, LoadError, Outcome, Turn, Workplace};
use super::{build as real_build, desktop as real_desktop, responsiveness as real_responsiveness};
use crate::objective::Objective;

/// A run ends here at the latest.
pub(crate) const LONGEST: Nanos = Nanos::from_secs(3600);

/// Which load it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    /// A program that is started beside streams.
    Responsiveness(real_responsiveness::ResponsivenessSettings),
    /// A desktop beside a copy.
    Desktop(real_desktop::DesktopSettings),
    /// Many small files that become others.
    Build(real_build::BuildSettings),
}

/// Why it cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The disk or the scheduler.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    #[error("responsiveness:command=… cannot be simulated: what that program reads is not known")]
    Command,
    #[error("the files of load {load} need {needed}, and the disk has {capacity}")]
    Room {
        load: &'static str,
        needed: Bytes,
        capacity: Bytes,
    },
    #[error("load {load} was not over after {} s of virtual time", after.as_secs_f64())]
    TooSlow { load: &'static str, after: Nanos },
}

impl Failure for ScenarioError {
    fn hint(&self) -> Option<String> {
        match self {
            ScenarioError::Simulation(error) => error.hint(),
            ScenarioError::Command => Some(
                "leave it out for the program that comes with the load, or measure: `iosched tune DIRECTORY --load \
                 responsiveness:command=…`"
                    .to_owned(),
            ),
            ScenarioError::Room { load, .. } => Some(match *load {
                real_build::NAME => "build fewer: --load build:files=100".to_owned(),
                load => format!("make them smaller: --load {load}:size=16m"),
            }),
            ScenarioError::TooSlow { .. } => {
                Some(
                    "let it run longer (`simulate --until`), or leave out the scheduler or the streams that \
                     starve it"
                        .to_owned(),
                )
            }
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            ScenarioError::Simulation(error) => error.exit_code(),
            ScenarioError::TooSlow { .. } => exit::FAILURE,
            _ => exit::USAGE,
        }
    }
}

/// The processes of a trial, and what their results mean.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) jobs: Vec<Job>,
    scenario: Scenario,
}

impl Scenario {
    /// Of what stands after `--load`, if that names one of them.
    ///
    /// # Errors
    /// A setting that it does not have.
    pub(crate) fn parse(text: &str) -> Option<Result<Scenario, SettingError>> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        Some(match name {
            real_responsiveness::NAME => {
                real_responsiveness::ResponsivenessSettings::parse(settings)
                    .map(Scenario::Responsiveness)
            }
            real_desktop::NAME => {
                real_desktop::DesktopSettings::parse(settings).map(Scenario::Desktop)
            }
            real_build::NAME => real_build::BuildSettings::parse(settings).map(Scenario::Build),
            _ => return None,
        })
    }

    /// The names of all of them.
    pub(crate) const NAMES: [&str; 3] = [
        real_responsiveness::NAME,
        real_desktop::NAME,
        real_build::NAME,
    ];

    /// What the user calls it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Scenario::Responsiveness(_) => real_responsiveness::NAME,
            Scenario::Desktop(_) => real_desktop::NAME,
            Scenario::Build(_) => real_build::NAME,
        }
    }

    fn check(&self) -> Result<(), ScenarioError> {
        match self {
            Scenario::Responsiveness(settings) if settings.command.is_some() => {
                Err(ScenarioError::Command)
            }
            _ => Ok(()),
        }
    }

    /// The processes on a disk of this size, as chance has it.
    ///
    /// # Errors
    /// What cannot be simulated, or does not fit.
    pub(crate) fn script(&self, capacity: Sectors, seed: u64) -> Result<Script, ScenarioError> {
        self.check()?;
        let mut files = Files::default();
        let jobs = match self {
            Scenario::Responsiveness(settings) => responsiveness::jobs(settings, &mut files, seed),
            Scenario::Desktop(settings) => desktop::jobs(settings, &mut files, seed),
            Scenario::Build(settings) => build::jobs(settings, &mut files),
        };
        if files.end() > capacity {
            return Err(ScenarioError::Room {
                load: self.name(),
                needed: files.end().to_bytes(),
                capacity: capacity.to_bytes(),
            });
        }
        Ok(Script {
            jobs,
            scenario: self.clone(),
        })
    }

    /// Why it can never have the number that is to decide.
    pub(crate) fn lacks(&self, objective: Objective) -> Option<&'static str> {
        if objective == Objective::Cpu {
            return Some("the simulation has no processors");
        }
        match self {
            Scenario::Responsiveness(settings) => {
                let real = real_responsiveness::Responsiveness::new(settings);
                real.map_or(None, |real| real.lacks(objective))
            }
            Scenario::Desktop(settings) => real_desktop::Desktop::new(settings).lacks(objective),
            Scenario::Build(settings) => real_build::Build::new(settings).lacks(objective),
        }
    }
}

impl Script {
    /// What came out of a trial, as the load itself would say it.
    ///
    /// # Errors
    /// It was not over when the simulation ended.
    pub(crate) fn outcome(&self, simulated: &Simulated) -> Result<Outcome, ScenarioError> {
        let is_over = self
            .jobs
            .iter()
            .zip(&simulated.processes)
            .all(|(job, process)| {
                let steps = job.steps.iter().flat_map(|steps| steps.iter());
                let bytes: u64 = steps
                    .map(|step| step.access.length.to_bytes().as_u64())
                    .sum();
                job.background || job.steps.is_none() || process.bytes().as_u64() == bytes
            });
        if !is_over {
            return Err(ScenarioError::TooSlow {
                load: self.scenario.name(),
                after: simulated.elapsed,
            });
        }
        let outcome = match &self.scenario {
            Scenario::Responsiveness(settings) => responsiveness::outcome(settings, simulated),
            Scenario::Desktop(settings) => desktop::outcome(settings, simulated),
            Scenario::Build(_) => build::outcome(simulated),
        };
        Ok(Outcome {
            measured: Some(simulated::measured(simulated)),
            virtual_time: Some(Duration::from_nanos(simulated.elapsed.as_nanos())),
            ..outcome
        })
    }

    /// What a user asks of it, by name: how long it took, and its other numbers.
    ///
    /// # Errors
    /// It was not over when the simulation ended.
    pub(crate) fn numbers(
        &self,
        simulated: &Simulated,
    ) -> Result<BTreeMap<String, f64>, ScenarioError> {
        let outcome = self.outcome(simulated)?;
        let mut numbers = outcome.numbers;
        let name = match self.scenario {
            Scenario::Build(_) => "build s",
            _ => "start of a program s",
        };
        numbers.extend(outcome.elapsed_s.map(|elapsed| (name.to_owned(), elapsed)));
        Ok(numbers)
    }
}

/// A scenario over a disk model.
#[derive(Debug)]
pub(super) struct SimulatedScenario {
    scenario: Scenario,
    disk: SimulatedDisk,
}

impl SimulatedScenario {
    /// Checks that it fits the disk.
    pub(super) fn new(
        scenario: &Scenario,
        disk: &SimulatedDisk,
    ) -> Result<SimulatedScenario, ScenarioError> {
        scenario.script(disk.model.capacity().to_sectors(), 0)?;
        Ok(SimulatedScenario {
            scenario: scenario.clone(),
            disk: disk.clone(),
        })
    }

    fn simulate(
        &self,
        arm: &Arm,
        seed: u64,
        real_time: &mut RealTime<'_>,
    ) -> Result<Outcome, ScenarioError> {
        let capacity = self.disk.model.capacity().to_sectors();
        let script = self.scenario.script(capacity, seed)?;
        let until = Some(LONGEST);
        let jobs = script.jobs.clone();
        let simulated = self.disk.run((arm, seed), jobs, until, None, real_time)?;
        script.outcome(&simulated)
    }
}

impl Load for SimulatedScenario {
    /// No device is there to be written.
    fn writes(&self) -> bool {
        false
    }

    fn is_cold(&self) -> bool {
        false
    }

    fn lacks(&self, objective: Objective) -> Option<&'static str> {
        self.scenario.lacks(objective)
    }

    fn run(
        &mut self,
        at: &Workplace<'_>,
        turn: &Turn<'_>,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError> {
        let real_time = &mut RealTime::of_trial(at, tick);
        Ok(self.simulate(turn.arm, turn.settings.seed, real_time)?)
    }
}

#[cfg(test)]
mod tests;
