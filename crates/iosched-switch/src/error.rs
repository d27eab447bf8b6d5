//! Why a state could not be set, with the way out of each.

use std::fmt;
use std::io;

use iosched_facts::scheduler;
use iosched_machine::failure::{Failure, Problem, exit};
use iosched_machine::visible::lines_of_error;
use rustix::io::Errno;

use super::blk_mq::ToBlkMq;
use super::names::{is_of_other_layer, is_single_queue, modern_name, predecessor};

/// Why a state could not be set.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum SwitchError {
    #[error("{name:?} is no scheduler name: those have 1 to 15 letters a-z, digits, _ and -")]
    BadName {
        /// The argument as the user wrote it.
        name: String,
    },
    /// `scheduler:tunable=value,…` was expected.
    #[error("cannot read {text:?}: {cause}")]
    BadArm {
        /// The argument as the user wrote it.
        text: String,
        cause: &'static str,
    },
    #[error("{device} has no scheduler to choose: {}", reason.trim_start_matches("no scheduler: "))]
    NothingToChoose { device: String, reason: String },
    /// The kernel does not offer it, and loading its module did not help.
    #[error(fmt = says_not_offered)]
    NotOffered {
        device: String,
        scheduler: String,
        offered: Vec<String>,
        /// Where it is on the single-queue path, how it gets away from there.
        to_blk_mq: ToBlkMq,
        /// True of a copied tree, where no module was loaded.
        is_copied: bool,
    },
    /// EINVAL on the switch itself, of a name that the file offers.
    #[error(
        "cannot switch {device} to {scheduler}: the kernel refuses it as invalid, though it lists it; now active: {active}"
    )]
    Refused {
        device: String,
        scheduler: String,
        /// What is active after the failure: it may not be what was before.
        active: String,
    },
    #[error(
        "{device} is zoned ({model}), and on Linux {kernel} only mq-deadline keeps its writes in order"
    )]
    Zoned {
        device: String,
        /// `host-managed` or `host-aware`.
        model: String,
        kernel: String,
    },
    /// EOPNOTSUPP.
    #[error(
        "cannot switch {device} to {scheduler}: the device does not support a switch now; now active: {active}"
    )]
    NotSupported {
        device: String,
        scheduler: String,
        active: String,
    },
    /// EBUSY.
    #[error(
        "cannot switch {device} to {scheduler}: the queue is busy being changed; now active: {active}"
    )]
    Busy {
        device: String,
        scheduler: String,
        active: String,
    },
    /// EACCES, EPERM or EROFS.
    #[error("cannot change {file} of {device}: permission denied")]
    NotPermitted {
        device: String,
        /// Below `/sys/block/<device>/`.
        file: String,
    },
    #[error("{device}: the kernel accepted {asked} and made it {got}")]
    NotTaken {
        device: String,
        asked: String,
        got: String,
    },
    /// No such file below `queue/iosched/` or among the settings.
    #[error(fmt = unknown_tunable)]
    UnknownTunable {
        device: String,
        scheduler: String,
        /// The argument as the user wrote it.
        tunable: String,
        known: Vec<String>,
    },
    /// Never written by us.
    #[error("{tunable} is never written: {cause}")]
    Forbidden {
        /// The argument as the user wrote it.
        tunable: String,
        /// The cause, as a clause of the message.
        cause: &'static str,
    },
    /// The kernel would refuse the value, or take another number for it.
    #[error("{tunable} cannot be {value}: {cause}")]
    WrongValue {
        /// Where one was asked.
        device: Option<Box<str>>,
        tunable: String,
        /// The argument as the user wrote it.
        value: String,
        cause: String,
    },
    #[error("{device}: the kernel refuses {tunable}={value} ({source})")]
    BadValue {
        device: String,
        tunable: String,
        /// The argument as the user wrote it.
        value: String,
        source: io::Error,
    },
    /// The scheduler of ours inside cannot be switched.
    #[error("cannot switch what stands inside {device}: {source}")]
    Inside { device: String, source: Problem },
    #[error("{device} has vanished")]
    Vanished { device: String },
    #[error("cannot access {file} of {device}")]
    Io {
        device: String,
        /// Below `/sys/block/<device>/`.
        file: String,
        #[source]
        source: io::Error,
    },
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "thiserror passes references"
)]
fn says_not_offered(
    device: &str,
    scheduler: &str,
    offered: &[String],
    _to_blk_mq: &ToBlkMq, // for the hint
    _is_copied: &bool,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let first = format!("cannot switch {device} to {scheduler}: this kernel does not offer it");
    lines_of_error(
        f,
        &first,
        [format!("{device} offers: {}", offered.join(", "))],
    )
}

fn unknown_tunable(
    device: &str,
    scheduler: &str,
    tunable: &str,
    known: &[String],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let first = format!("{scheduler} on {device} has no tunable {tunable}");
    lines_of_error(f, &first, [format!("it has: {}", or_none(known))])
}

fn values_of(device: &str) -> String {
    format!("`iosched list -v {device}` shows units and values")
}

impl Failure for SwitchError {
    fn hint(&self) -> Option<String> {
        match self {
            SwitchError::Zoned { .. } => {
                Some("leave it at mq-deadline, or use Linux 6.10 or later".into())
            }
            SwitchError::BadName { name } if name.contains('=') => Some(format!(
                "a setting stands behind its scheduler, the active one or another: `iosched set DEVICE SCHEDULER {name}`; \
                 `iosched list` shows both"
            )),
            SwitchError::BadName { .. } => {
                Some("`iosched list` shows what each device offers".into())
            }
            SwitchError::BadArm { .. } => Some(
                "a tunable is written as name=value; an arm as scheduler:name=value,name=value"
                    .into(),
            ),
            SwitchError::NotOffered {
                scheduler,
                offered,
                to_blk_mq,
                is_copied,
                ..
            } => {
                let lacks_module = if *is_copied {
                    lacks_module_in_tree
                } else {
                    lacks_module
                };
                Some(not_offered(scheduler, offered, *to_blk_mq, lacks_module))
            }
            SwitchError::NotPermitted { .. } => {
                Some("run it as root, and outside a container that mounts /sys read-only".into())
            }
            SwitchError::NothingToChoose { .. } => {
                Some("`iosched list` shows which devices have one".into())
            }
            SwitchError::Busy { .. } => Some("try again in a moment".into()),
            SwitchError::Io { source, .. } if is_busy(source) => {
                Some("try again in a moment".into())
            }
            SwitchError::NotTaken { .. } => {
                Some("old kernels do this for schedulers that they lack: see `iosched list`".into())
            }
            SwitchError::Refused { active, .. } | SwitchError::NotSupported { active, .. } => Some(
                format!("a failed switch may leave another scheduler: {active} is active now"),
            ),
            SwitchError::Inside { source, .. } => source.hint.clone(),
            // Where no device was asked, it is the same on all.
            SwitchError::WrongValue { device: None, .. } => {
                Some("`iosched list --help-tunables` shows units and values".into())
            }
            SwitchError::WrongValue {
                device: Some(device),
                ..
            } => Some(values_of(device)),
            SwitchError::BadValue { device, .. } => Some(values_of(device)),
            _ => None,
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            SwitchError::BadName { .. } | SwitchError::BadArm { .. } => exit::USAGE,
            SwitchError::NothingToChoose { .. } => exit::NOTHING_TO_CHOOSE,
            SwitchError::Zoned { .. } => exit::UNSAFE,
            SwitchError::NotOffered { .. } | SwitchError::Refused { .. } => exit::NOT_OFFERED,
            SwitchError::NotSupported { .. } => exit::NOT_SUPPORTED,
            SwitchError::NotTaken { .. } => exit::NOT_TAKEN,
            SwitchError::Busy { .. } => exit::BUSY,
            SwitchError::Io { source, .. } if is_busy(source) => exit::BUSY,
            SwitchError::NotPermitted { .. } => exit::NOT_PERMITTED,
            SwitchError::UnknownTunable { .. }
            | SwitchError::Forbidden { .. }
            | SwitchError::WrongValue { .. }
            | SwitchError::BadValue { .. } => exit::BAD_TUNABLE,
            SwitchError::Inside { source, .. } => source.code,
            SwitchError::Vanished { .. } => exit::VANISHED,
            SwitchError::Io { .. } => exit::FAILURE,
        }
    }
}

/// That a scheduler's module lacks, which was asked for; and the option of the kernel that makes it.
fn lacks_module(_: &str, option: &str) -> String {
    format!("its module could not be loaded: is {option} in this kernel?")
}

/// The same of a copied tree: none was asked for.
fn lacks_module_in_tree(scheduler: &str, option: &str) -> String {
    format!(
        "its module was not loaded when the tree was copied: where that kernel has {option}, load it there \
         (`modprobe {scheduler}-iosched`) and copy the tree again"
    )
}

/// Why a disk that offers these schedulers does not offer this one, and what does its work there.
fn not_offered(
    scheduler: &str,
    offered: &[String],
    to_blk_mq: ToBlkMq,
    lacks_module: fn(&str, &str) -> String,
) -> String {
    if is_single_queue(offered) {
        let of_blk_mq = match to_blk_mq {
            ToBlkMq::Parameter(module) => format!(
                "the disk is on the single-queue path; {}.use_blk_mq=1 on the kernel's command line puts it and all its \
                 driver's disks on blk-mq, which has {scheduler} since Linux 4.12",
                module.name()
            ),
            ToBlkMq::Nothing => format!(
                "{scheduler} is for disks on blk-mq, and this kernel has no parameter that puts this disk there"
            ),
            ToBlkMq::Unknown => {
                format!("{scheduler} is for disks on blk-mq; this one is on the single-queue path")
            }
        };
        return match predecessor(scheduler) {
            Some(old) if !old.is_outdone => {
                let old = old.name;
                format!("the disk is on the single-queue path, where {old} does that")
            }
            Some(old) if offered.iter().any(|name| name == old.name) => {
                let old = old.name;
                format!("{of_blk_mq}; {old}, from which {scheduler} descends, is offered")
            }
            _ if is_of_other_layer(scheduler, offered) => of_blk_mq,
            _ => "choose one of those it offers".into(),
        };
    }
    if let Some(modern) = modern_name(scheduler) {
        let modern = if offered.iter().any(|name| name == modern) {
            format!("write {modern}")
        } else {
            format!(
                "that is {modern}: {}",
                not_offered(modern, offered, to_blk_mq, lacks_module)
            )
        };
        return format!(
            "{scheduler} is for disks on the single-queue path, which Linux 5.0 removed (`iosched simulate` still has it); on \
             blk-mq, where this one is, {modern}"
        );
    }
    let option = scheduler::find(scheduler).and_then(|info| info.kernel_option);
    option.map_or_else(
        || "choose one of those it offers".into(),
        |option| lacks_module(scheduler, option),
    )
}

/// Names in a row, or that there is none.
fn or_none(names: &[String]) -> String {
    if names.is_empty() {
        return "none".into();
    }
    names.join(", ")
}

/// That somebody else is changing the queue, or that of another disk of the same controller.
pub(super) fn is_busy(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::BUSY)
}

/// What an error of a read or write below `/sys/block/<device>/` means.
pub(super) fn io_error(device: &str, file: &str, source: io::Error) -> SwitchError {
    let (device, file) = (device.to_owned(), file.to_owned());
    match (source.kind(), Errno::from_io_error(&source)) {
        (io::ErrorKind::PermissionDenied, _) | (_, Some(Errno::ROFS)) => {
            SwitchError::NotPermitted { device, file }
        }
        (io::ErrorKind::NotFound, _) | (_, Some(Errno::NXIO | Errno::NODEV)) => {
            SwitchError::Vanished { device }
        }
        _ => SwitchError::Io {
            device,
            file,
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_name_on_blk_mq_is_answered_with_the_new_one() {
        let offered = ["none", "mq-deadline", "bfq"].map(str::to_owned);
        for (old, modern) in [
            ("cfq", "bfq"),
            ("deadline", "mq-deadline"),
            ("noop", "none"),
        ] {
            let hint =
                |offered: &[String]| not_offered(old, offered, ToBlkMq::Unknown, lacks_module);
            let way = format!("where this one is, write {modern}");
            assert!(hint(&offered).ends_with(&way), "{}", hint(&offered));
            let way = format!("that is {modern}: ");
            assert!(hint(&[]).contains(&way), "{}", hint(&[]));
        }
    }

    #[test]
    fn of_a_copied_tree_nobody_has_tried_to_load_a_module() {
        for (is_copied, said) in [
            (true, "was not loaded when the tree was copied"),
            (false, "could not be loaded: is CONFIG_IOSCHED_BFQ"),
        ] {
            let error = SwitchError::NotOffered {
                device: "sda".into(),
                scheduler: "bfq".into(),
                offered: vec!["none".into()],
                to_blk_mq: ToBlkMq::Unknown,
                is_copied,
            };
            assert!(error.hint().unwrap().contains(said), "{:?}", error.hint());
        }
    }
}
