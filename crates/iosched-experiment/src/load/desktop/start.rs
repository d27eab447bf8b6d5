//! The start of a program while other work goes on: waited for, and timed.

use std::time::{Duration, Instant};

use super::program::Program;
use crate::load::command;
use crate::load::{LoadError, Workplace};

/// A start that hangs is killed after this time, where the user does not say (`--timeout`).
const LONGEST: Duration = Duration::from_secs(600);

/// How long the other work is left alone before it is looked at again.
const NAP: Duration = Duration::from_millis(20);

/// Waits until `begun` is so long ago; false if the other work is over before that.
///
/// # Errors
/// The run is to stop.
pub(super) fn wait_until(
    when: Duration,
    begun: Instant,
    at: &Workplace<'_>,
    is_over: &dyn Fn() -> bool,
    tick: &mut dyn FnMut(Duration),
) -> Result<bool, LoadError> {
    while begun.elapsed() < when {
        if at.stop.is_wanted() {
            return Err(LoadError::Stopped);
        }
        if is_over() {
            return Ok(false);
        }
        std::thread::sleep(NAP);
        tick(begun.elapsed());
    }
    Ok(true)
}

/// Runs the program to its end: how long that took.
///
/// # Errors
/// It cannot be started, hangs, or does not say that it went well.
pub(super) fn time(
    program: &Program,
    at: &Workplace<'_>,
    tick: &mut dyn FnMut(Duration),
) -> Result<Duration, LoadError> {
    let mut command = program.command();
    if let Some(target) = at.target_directory() {
        command.current_dir(target);
    }
    let limit = at.trial_limit.unwrap_or(LONGEST);
    let finished = at.scope.run(command, limit, at.stop, tick)?;
    let what = format!("the start of {:?}", program.to_string());
    Ok(command::went_well(finished, &what)?.elapsed)
}
