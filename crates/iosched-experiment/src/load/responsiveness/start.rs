//! The start of a program while other work goes on: waited for, and timed.

use std::process::Command;
use std::time::{Duration, Instant};

use iosched_machine::process::ChildError;

use crate::load::command::{self, CommandError};
use crate::load::fio::FioError;
use crate::load::{LoadError, Workplace};

/// A start that hangs is killed after this time, where the user does not say (`--timeout`).
pub(super) const LONGEST: Duration = Duration::from_secs(600);

/// How long the other work is left alone before it is looked at again.
const NAP: Duration = Duration::from_millis(20);

/// Waits until `begun` is so long ago; false if the other work is over before that.
///
/// # Errors
/// The run is to stop.
pub(in crate::load) fn wait_until(
    when: Duration,
    begun: Instant,
    at: &Workplace<'_>,
    is_over: &dyn Fn() -> bool,
    tick: &mut dyn FnMut(Duration),
) -> Result<bool, LoadError> {
    let mut is_due = || begun.elapsed() >= when;
    wait(&mut is_due, begun, at, is_over, tick)
}

/// Waits for something; false if the other work is over before that.
///
/// # Errors
/// The run is to stop.
pub(super) fn wait(
    is_due: &mut dyn FnMut() -> bool,
    begun: Instant,
    at: &Workplace<'_>,
    is_over: &dyn Fn() -> bool,
    tick: &mut dyn FnMut(Duration),
) -> Result<bool, LoadError> {
    while !is_due() {
        if at.stop.is_wanted() {
            return Err(FioError::Child(ChildError::Stopped).into());
        }
        if is_over() {
            return Ok(false);
        }
        std::thread::sleep(NAP);
        tick(begun.elapsed());
    }
    Ok(true)
}

/// Runs a program to its end, in the directory that the user named: how long that took.
///
/// # Errors
/// It cannot be started, hangs, or does not say that it went well.
pub(in crate::load) fn time(
    mut command: Command,
    line: &str,
    at: &Workplace<'_>,
    tick: &mut dyn FnMut(Duration),
) -> Result<Duration, CommandError> {
    if let Some(target) = at.target_directory() {
        command.current_dir(target);
    }
    let limit = at.trial_limit.unwrap_or(LONGEST);
    let finished = at.scope.run(command, limit, at.stop, tick)?;
    Ok(command::went_well(finished, "the start of", line, false)?.elapsed)
}
