//! What the user asked for, before it is held against the machine.

use std::time::Duration;

use iosched_machine::device::Consent;
use iosched_machine::file_system;

use super::{OwnDisk, Rules};
use crate::load::fio_job::expand;
use crate::load::simulated::SimulatedDisk;
use crate::objective::Objective;

/// What the user asked for, as far as it needs the machine to be understood.
#[derive(Debug, Clone)]
pub struct PlanRequest {
    /// A device, a directory or a file.
    pub target: String,
    /// Simulate this disk instead: then there is no target, and no device is touched.
    pub simulate: Option<SimulatedDisk>,
    /// True if the target is an emulated disk that this very run made: it may be written.
    pub is_our_own: bool,
    /// What that disk is, which is known before it is made.
    pub own_disk: Option<OwnDisk>,
    /// `NAME`, `NAME:WEIGHT`, or a path to a job file, with an optional weight too.
    pub loads: Vec<String>,
    /// Values of variables in job files, before those of the environment.
    pub defines: Vec<(String, String)>,
    /// What the user said of the load that is a command.
    pub command: CommandOptions,
    /// The server that pgbench uses, if it is not one of our own: libpq's `keyword=value …`.
    pub connection: Option<String>,
    /// Arms as the user wrote them; empty for all that the device offers.
    pub arms: Vec<String>,
    /// The arm to compare with; default the active one.
    pub baseline: Option<String>,
    /// What decides, over what each load says itself.
    pub objective: Option<Objective>,
    /// Run time of each trial; `None` leaves it to the load.
    pub runtime: Option<Duration>,
    /// Time at the start of each trial that does not count.
    pub ramp: Duration,
    /// How to decide and when to give up.
    pub rules: Rules,
    /// Source of all chance.
    pub seed: u64,
    /// Size of each test file in a directory, bytes.
    pub file_size: u64,
    /// Whether trials wait until writes have become steady.
    pub steady: Steady,
    /// Fill the whole raw device twice before anything else.
    pub precondition: bool,
    /// Record where requests spend their time.
    pub split: bool,
    /// Make a file system on the device for the run.
    pub mkfs: Option<file_system::FileSystemKind>,
    /// What the user said about the data on a raw device.
    pub destroy_data: Consent,
}

impl PlanRequest {
    /// The value of a variable in a job file.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        expand::value_of(&self.defines, name)
    }
}

/// What the user said of the load that is a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandOptions {
    /// `--setup`: a command line, once.
    pub setup: Option<String>,
    /// `--prepare`: a command line, before each trial.
    pub prepare: Option<String>,
    /// `--metric`: `time`, a JSON pointer or a regular expression.
    pub metric: Option<String>,
    /// `--better`.
    pub is_higher_better: Option<bool>,
}

impl CommandOptions {
    pub(super) fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--setup", self.setup.is_some()),
            ("--prepare", self.prepare.is_some()),
            ("--metric", self.metric.is_some()),
            ("--better", self.is_higher_better.is_some()),
        ];
        given
            .into_iter()
            .find_map(|(name, is_given)| is_given.then_some(name))
    }
}

/// Whether trials wait until writes have become steady.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Steady {
    /// For loads that write to a disk that is not emulated: models do not age.
    #[default]
    Auto,
    /// For all loads.
    On,
    /// Never.
    Off,
}
