//! Why there is no plan.

use iosched_machine::command_line::Remedy;
use iosched_machine::failure::{Problem, exit};

pub use iosched_machine::failure::Remediable as PlanError;

/// A problem that the same command with another option does not have.
pub(super) fn with(problem: Problem, remedy: Remedy) -> PlanError {
    let remedy = Some(remedy);
    PlanError { problem, remedy }
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
    let message = format!("{device} has no scheduler of ours inside: {arm} cannot be set there");
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
