//! One file per command: its arguments, the call into the library, and what it prints.

pub(crate) mod advise;
pub(crate) mod apply;
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod conform;
pub(crate) mod emulate;
pub(crate) mod evidence;
pub(crate) mod judge;
pub(crate) mod list;
pub(crate) mod loads;
pub(crate) mod log;
pub(crate) mod manual;
pub(crate) mod persist;
pub(crate) mod report;
pub(crate) mod restore;
pub(crate) mod set;
pub(crate) mod simulate;
pub(crate) mod trace_args;
pub(crate) mod tune;
pub(crate) mod undo;
pub(crate) mod watch;

use iosched_experiment::analysis::{Analysis, Conclusion};
use iosched_machine::failure::{Failure, exit};
use iosched_machine::host::Host;
use iosched_machine::process::{Stop, hurry_on};
use iosched_policy::history::{self, Turn};

use crate::output::Output;
use crate::streams;

/// What a command ends with: an exit code, or an error that knows its hint and its code.
pub(crate) type Outcome = Result<u8, Box<dyn Failure>>;

/// What `--exit-code` tells of an answer.
fn answer_code(analysis: &Analysis) -> u8 {
    match analysis.conclusion {
        Conclusion::Winner => exit::OK,
        Conclusion::Equal => exit::EQUAL,
        Conclusion::Undecided => exit::UNDECIDED,
        Conclusion::Disturbed => exit::DISTURBED,
    }
}

/// Any error of the library, as a command returns it.
pub(crate) fn boxed<F: Failure + 'static>(failure: F) -> Box<dyn Failure> {
    Box::new(failure)
}

/// Waits for the right to change the machine for good, and says so where that takes long.
pub(crate) fn take_turn(
    host: &Host,
    stop: &Stop,
    output: &Output,
) -> Result<Turn, Box<dyn Failure>> {
    let turn = history::take_turn(host, stop, &mut |waiting| {
        output.warn(&format!("{waiting}; Ctrl-C to give up"));
    });
    Ok(turn?)
}

/// A file that may not become larger (`ulimit -f`) is an error of the write, not the end in the middle of a change.
/// Programs that we start are ended by it, as they would be anywhere: they have no handler of ours.
pub(crate) fn survive_limits() {
    let seen = std::sync::Arc::default();
    let caught = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, seen);
    caught.expect("this signal can be caught");
}

/// Makes Ctrl-C, SIGTERM, SIGHUP and the other signals that would end us ask for a stop; a second Ctrl-C within it is
/// ignored, because putting things back must not be interrupted. What nobody reads keeps nothing waiting from then on.
pub(crate) fn stop_on_signals(stop: &Stop) {
    hurry_on(stop);
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
        signal_hook::consts::SIGQUIT,
        signal_hook::consts::SIGABRT,
        signal_hook::consts::SIGALRM,
    ] {
        for flag in [stop.flag(), streams::is_to_end()] {
            signal_hook::flag::register(signal, flag).expect("these signals can be caught");
        }
    }
}
