//! Why there is no plan.

use iosched_machine::command_line::Remedy;
use iosched_machine::device::MayNotWrite;
use iosched_machine::failure::{Failure, Problem, exit};
use iosched_switch::SwitchError;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PlanError {
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// The load writes, and the device may not be written.
    #[error(transparent)]
    MayNotWrite(#[from] MayNotWrite),
    #[error(transparent)]
    Problem(#[from] Problem),
    /// The same command with another option has no such problem.
    #[error("{problem}")]
    WithRemedy { problem: Problem, remedy: Remedy },
}

impl PlanError {
    /// A problem that the same command with another option does not have.
    pub(super) fn with(problem: Problem, remedy: Remedy) -> PlanError {
        PlanError::WithRemedy { problem, remedy }
    }

    /// A value that cannot be.
    pub(super) fn out_of_range(what: &str, value: &str, range: &str) -> PlanError {
        Problem::usage(format!("{what} is {value}, and must be {range}")).into()
    }

    /// There is nothing that the only arm could be compared with.
    pub(super) fn one_arm(arm: &str) -> PlanError {
        Problem::usage(format!(
            "there is nothing to compare: {arm} is the only arm"
        ))
        .hint("give two or more with --arms, for example none,bfq:low_latency=0")
        .into()
    }

    /// The arm stands inside an emulated disk, and there is no such thing.
    pub(super) fn not_served(device: &str, arm: &str) -> PlanError {
        let message =
            format!("{device} has no scheduler of ours inside: {arm} cannot be set there");
        Problem::new(exit::NOT_OFFERED, message)
            .hint(format!(
                "make a disk that has one: `iosched tune --emulate hdd-7200 --arms {arm},…` for the run alone, or \
                 `iosched emulate create hdd-7200 --scheduler …`"
            ))
            .into()
    }

    /// There is no device, and none can be done without.
    pub(super) fn not_simulated(what: &str) -> PlanError {
        Problem::usage(format!("{what} cannot be simulated: it needs a device"))
            .hint("let a disk be made for the run: --emulate in place of --simulate; or name one")
            .into()
    }
}

impl Failure for PlanError {
    iosched_machine::passes_on!(PlanError: Switch, MayNotWrite, Problem);

    fn hint(&self) -> Option<String> {
        match self {
            PlanError::WithRemedy { problem, .. } => problem.hint.clone(),
            _ => self.passes_on()?.hint(),
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            PlanError::WithRemedy { remedy, .. } => Some(remedy.clone()),
            _ => self.passes_on()?.remedy(),
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            PlanError::WithRemedy { problem, .. } => problem.code,
            _ => self.passes_on().map_or(exit::USAGE, Failure::exit_code),
        }
    }
}
