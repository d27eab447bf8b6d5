//! Why a state could not be set, with the way out of each.

use std::io;

use iosched_facts::near::did_you_mean;
use iosched_facts::scheduler;
use iosched_machine::failure::{Failure, Problem, Remediable, exit, problem};
use rustix::io::Errno;

use super::names::{is_of_other_layer, is_single_queue, modern_name, predecessor};

/// Why a state could not be set.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The disk is not there any more.
    #[error("{device} has vanished")]
    Vanished {
        /// Kernel name.
        device: String,
    },
    /// The kernel does not offer the scheduler, and loading its module did not help.
    #[error("{0}")]
    NotOffered(Problem),
    /// Anything else.
    #[error(transparent)]
    Problem(#[from] Problem),
}

impl From<SwitchError> for Problem {
    fn from(error: SwitchError) -> Problem {
        problem(&error)
    }
}

impl From<SwitchError> for Remediable {
    fn from(error: SwitchError) -> Remediable {
        Remediable::of(&error)
    }
}

impl Failure for SwitchError {
    fn hint(&self) -> Option<String> {
        match self {
            SwitchError::Vanished { .. } => None,
            SwitchError::NotOffered(problem) | SwitchError::Problem(problem) => {
                problem.hint.clone()
            }
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            SwitchError::Vanished { .. } => exit::VANISHED,
            SwitchError::NotOffered(problem) | SwitchError::Problem(problem) => problem.code,
        }
    }
}

/// It is no name of a scheduler.
pub(super) fn bad_name(name: &str) -> Problem {
    let hint = if name.contains('=') {
        format!(
            "a setting stands behind its scheduler, the active one or another: `iosched set DEVICE SCHEDULER {name}`; \
             `iosched list` shows both"
        )
    } else {
        "`iosched list` shows what each device offers".into()
    };
    Problem::usage(format!(
        "{name:?} is no scheduler name: those have 1 to 15 letters a-z, digits, _ and -"
    ))
    .hint(hint)
}

/// `scheduler:tunable=value,…` was expected.
pub(super) fn bad_arm(text: &str, cause: &str) -> Problem {
    Problem::usage(format!("cannot read {text:?}: {cause}"))
        .hint("a tunable is written as name=value; an arm as scheduler:name=value,name=value")
}

/// That a disk has no scheduler to choose.
pub fn nothing_to_choose(device: &str, reason: &str) -> Problem {
    let reason = reason.trim_start_matches("no scheduler: ");
    let message = format!("{device} has no scheduler to choose: {reason}");
    Problem::new(exit::NOTHING_TO_CHOOSE, message)
        .hint("`iosched list` shows which devices have one")
}

/// That a device does not offer a scheduler, with what is known of the way to it.
pub fn not_offered(device: &str, scheduler: &str, offered: &[String]) -> SwitchError {
    let message = format!(
        "cannot switch {device} to {scheduler}: this kernel does not offer it; {device} offers: {}",
        or_none(offered)
    );
    let problem = Problem::new(exit::NOT_OFFERED, message);
    SwitchError::NotOffered(problem.hint(way_out(scheduler, offered)))
}

/// Writes to this disk would lose their order.
pub(super) fn zoned(device: &str, model: &str, kernel: &str) -> Problem {
    Problem::new(
        exit::UNSAFE,
        format!(
            "{device} is zoned ({model}), and on Linux {kernel} only mq-deadline keeps its writes in order"
        ),
    )
    .hint("leave it at mq-deadline, or use Linux 6.10 or later")
}

/// The kernel may never return from a write to this queue now.
pub(super) fn may_hang(device: &str, why: &str, way_out: &str) -> Problem {
    let message = format!("{device}: a change of its queue may hang the kernel for ever: {why}");
    Problem::new(exit::UNSAFE, message).hint(way_out)
}

/// The kernel refuses the switch itself; `active` is what it left: it may not be what was before.
pub(super) fn not_switched(
    device: &str,
    scheduler: &str,
    active: &str,
    error: io::Error,
) -> SwitchError {
    let left = format!("a failed switch may leave another scheduler: {active} is active now");
    let (code, cause, hint) = match Errno::from_io_error(&error) {
        Some(Errno::INVAL) => (
            exit::NOT_OFFERED,
            "the kernel refuses it as invalid, though it lists it",
            left,
        ),
        Some(Errno::OPNOTSUPP) => (
            exit::NOT_SUPPORTED,
            "the device does not support a switch now",
            left,
        ),
        Some(Errno::BUSY) => (
            exit::BUSY,
            "the queue is busy being changed",
            TRY_AGAIN.into(),
        ),
        _ => return io_error(device, "queue/scheduler", error),
    };
    let message = format!("cannot switch {device} to {scheduler}: {cause}; now active: {active}");
    Problem::new(code, message).hint(hint).into()
}

const HUNG: &str = "`dmesg` shows what the kernel waits for; once it answers, `iosched restore` puts back what is left";

const TRY_AGAIN: &str = "try again in a moment";

/// The kernel accepted a write, and did something else.
pub(super) fn not_taken(device: &str, asked: &str, got: &str) -> Problem {
    let message = format!("{device}: the kernel accepted {asked} and made it {got}");
    Problem::new(exit::NOT_TAKEN, message)
        .hint("old kernels do this for schedulers that they lack: see `iosched list`")
}

/// A scheduler has no such tunable, but these.
pub fn unknown_tunable(device: &str, scheduler: &str, tunable: &str, known: &[String]) -> Problem {
    let known = or_none(known);
    let message = format!("{scheduler} on {device} has no tunable {tunable}; it has: {known}");
    Problem::new(exit::BAD_TUNABLE, message)
}

/// Never written by us.
pub(super) fn forbidden(tunable: &str, cause: &str) -> Problem {
    Problem::new(
        exit::BAD_TUNABLE,
        format!("{tunable} is never written: {cause}"),
    )
}

/// The kernel would refuse the value, or take another number for it. Where no device was asked, it is the same on all.
pub(super) fn wrong_value(
    device: Option<&str>,
    tunable: &str,
    value: &str,
    cause: &str,
) -> Problem {
    let message = format!("{tunable} cannot be {value}: {cause}");
    let hint = device.map_or_else(
        || "`iosched list --help-tunables` shows units and values".into(),
        values_of,
    );
    Problem::new(exit::BAD_TUNABLE, message).hint(hint)
}

/// The kernel does not take a value.
pub(super) fn bad_value(device: &str, tunable: &str, value: &str, error: &io::Error) -> Problem {
    let message = format!("{device}: the kernel refuses {tunable}={value} ({error})");
    Problem::new(exit::BAD_TUNABLE, message).hint(values_of(device))
}

fn values_of(device: &str) -> String {
    format!("`iosched list -v {device}` shows units and values")
}

/// Why a disk that offers these schedulers does not offer this one, and what does its work there.
fn way_out(scheduler: &str, offered: &[String]) -> String {
    let choose = || {
        let near = did_you_mean(scheduler, offered.iter().map(String::as_str));
        near.unwrap_or_else(|| "choose one of those it offers".into())
    };
    if is_single_queue(offered) {
        let predecessor = predecessor(scheduler).map(|old| old.name);
        return match predecessor.filter(|old| offered.iter().any(|name| name == old)) {
            Some(old) => {
                format!("the disk is on the single-queue path: take {old}, its predecessor")
            }
            None if is_of_other_layer(scheduler, offered) => {
                format!("{scheduler} is for disks on blk-mq; this one is on the single-queue path")
            }
            None => choose(),
        };
    }
    if let Some(modern) = modern_name(scheduler) {
        return format!(
            "{scheduler} is for disks on the single-queue path, which Linux 5.0 removed (`iosched simulate` still has it); \
             on blk-mq its successor is {modern}"
        );
    }
    let option = scheduler::find(scheduler).and_then(|info| info.kernel_option);
    option.map_or_else(choose, |option| {
        format!("its module is not loaded: is {option} in this kernel?")
    })
}

/// Names in a row, or that there is none.
fn or_none(names: &[String]) -> String {
    if names.is_empty() {
        return "none".into();
    }
    names.join(", ")
}

/// True if nothing but the attribute's own value can be the cause.
pub(super) fn is_of_value(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    let is_ours = matches!(
        errno,
        Some(Errno::BUSY | Errno::ROFS | Errno::NXIO | Errno::NODEV)
    );
    let kind = error.kind();
    !is_ours
        && !matches!(
            kind,
            io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound | io::ErrorKind::TimedOut
        )
}

/// What an error of a read or write below `/sys/block/<device>/` means.
pub(super) fn io_error(device: &str, file: &str, error: io::Error) -> SwitchError {
    let errno = Errno::from_io_error(&error);
    match (error.kind(), errno) {
        (io::ErrorKind::PermissionDenied, _) | (_, Some(Errno::ROFS)) => {
            let message = format!("cannot change {file} of {device}: permission denied");
            Problem::new(exit::NOT_PERMITTED, message)
                .hint("run it as root, and outside a container that mounts /sys read-only")
                .into()
        }
        (io::ErrorKind::NotFound, _) | (_, Some(Errno::NXIO | Errno::NODEV)) => {
            SwitchError::Vanished {
                device: device.to_owned(),
            }
        }
        _ => {
            let message = format!("cannot access {file} of {device}: {error}");
            // Somebody else is changing the queue, or that of another disk of the same controller.
            let is_busy = errno == Some(Errno::BUSY);
            let code = if is_busy { exit::BUSY } else { exit::FAILURE };
            let hint = match error.kind() {
                io::ErrorKind::TimedOut => Some(HUNG),
                _ => is_busy.then_some(TRY_AGAIN),
            };
            Problem::new(code, message).maybe_hint(hint).into()
        }
    }
}
