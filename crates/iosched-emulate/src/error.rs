//! What can go wrong with emulated disks.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use iosched_facts::Problem;
use iosched_machine::command_line::{Remedy, quoted_path};
use iosched_machine::device::{DeviceError, MayNotWrite};
use iosched_machine::failure::{Failure, exit, room_hint};
use iosched_sim::disk::ModelError;
use iosched_sim::units::Bytes;

use super::over::{NotOver, OverError};
use super::usage::User;
use crate::disk_file::DiskFileError;

/// Something that emulated disks need and this machine does not give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// We are not root.
    Root,
    /// `/dev/fuse` is not there or cannot be opened.
    Fuse {
        /// The cause, as a clause of the message.
        why: String,
    },
    /// `/dev/loop-control` is not there or cannot be opened.
    LoopControl {
        /// The cause, as a clause of the message.
        why: String,
    },
    /// The kernel cannot set a loop device up in one step.
    LoopConfigure,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Root => write!(f, "emulated disks need root, and this is not root"),
            Missing::Fuse { why } => write!(f, "emulated disks need /dev/fuse: {why}"),
            Missing::LoopControl { why } => {
                write!(f, "emulated disks need /dev/loop-control: {why}")
            }
            Missing::LoopConfigure => write!(
                f,
                "emulated disks need Linux 5.8 or later (LOOP_CONFIGURE): this kernel has no such request"
            ),
        }
    }
}

impl Missing {
    /// How to get it.
    pub fn hint(&self) -> String {
        match self {
            Missing::Root => "run it as root, for example with `sudo`".to_owned(),
            Missing::Fuse { .. } => "run `modprobe fuse`; in a container, start it with \
                 `--device /dev/fuse --privileged`"
                .to_owned(),
            Missing::LoopControl { .. } => "run `modprobe loop`; in a container, start it with \
                 `--privileged`"
                .to_owned(),
            Missing::LoopConfigure => {
                "measure a real disk instead: `iosched list` shows them, and \
                 `iosched tune DEVICE` reads one without writing to it"
                    .to_owned()
            }
        }
    }
}

/// What [`EmulateError::File`] says of the file with a disk's data.
pub(super) const DATA_FILE: &str = "make a data file in";

/// Why an emulated disk cannot be made, found or removed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum EmulateError {
    /// The machine lacks something.
    #[error("{0}")]
    Missing(Missing),
    /// The model cannot be built as asked.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// An array's cache would hold more than the machine that plays it.
    #[error("the cache of {model} is {cache}, more than this machine's memory, {memory}")]
    CacheAboveMemory {
        model: String,
        cache: Bytes,
        memory: Bytes,
    },
    /// The scheduler that is to stand inside cannot be made.
    #[error(transparent)]
    Scheduler(#[from] Problem),
    /// A disk was made without a scheduler inside: the kernel's stand above it.
    #[error("{id} is served without a scheduler inside")]
    NoScheduler { id: String, model: String },
    #[error("the server of {id} is gone")]
    Gone { id: String },
    /// It is stopped, or waits for something itself.
    #[error("the server of {id} (pid {pid}) does not answer")]
    NotAnswering { id: String, pid: i32 },
    /// There is no such model.
    #[error(transparent)]
    DiskFile(#[from] DiskFileError),
    /// A disk cannot stand over what was named.
    #[error(transparent)]
    Over(#[from] OverError),
    /// There is no such device for it to stand over.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// What it is to stand over may not be written, or not be read alone.
    #[error(transparent)]
    MayNotWrite(#[from] MayNotWrite),
    /// A file or directory of ours cannot be used.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What we wanted to do, a verb.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The server could not write down that another scheduler is to stand inside: the old one stays.
    #[error("nothing was changed: cannot write the state in {}", dir.display())]
    StateNotWritten {
        dir: PathBuf,
        scheduler: String,
        source: io::Error,
    },
    #[error("cannot set queue/nr_requests of {device} as {wanted_by} needs it")]
    NoRequests {
        device: String,
        wanted_by: String,
        /// What stands inside now.
        inside: String,
        source: io::Error,
    },
    #[error("cannot start the server of the emulated disk, {}", server.display())]
    Start { server: PathBuf, source: io::Error },
    /// The server could not set the disk up, and said why.
    #[error("{message}")]
    Server {
        message: String,
        hint: Option<String>,
        exit_code: u8,
    },
    /// The server ended without a word.
    #[error("the server of the emulated disk {id} ended while it set the disk up")]
    Ended {
        id: String,
        /// The last lines of its log.
        log: String,
    },
    #[error("the emulated disk {id} was not ready after {} s", after.as_secs())]
    NotReady { id: String, after: Duration },
    #[error("there is no emulated disk {name}")]
    Unknown { name: String, known: Vec<String> },
    #[error("cannot remove {device}: {}", User::list(users))]
    InUse { device: String, users: Vec<User> },
    /// Another disk's file system would go with the mounts of this one.
    #[error("cannot remove {id}: {source_of} is mounted at {}, below a mount of it", at.display())]
    MountedBelow {
        id: String,
        source_of: String,
        at: PathBuf,
    },
    #[error("not removed: {}", each(failures))]
    NotRemoved {
        /// Which, and why; at least one.
        failures: Vec<(String, EmulateError)>,
    },
    #[error("the server of {id} (pid {pid}) does not end")]
    Stuck { id: String, pid: i32 },
    #[error("{id} is removed, but what was written to it may not be on the medium: {why}")]
    NotFlushed { id: String, why: String },
    #[error("cannot watch process {pid}, which the disk is to end with")]
    Owner { pid: i32, source: io::Error },
    #[error("cannot {step}")]
    Step {
        /// What, as a verb with its object.
        step: String,
        source: io::Error,
    },
    #[error("cannot check {device}: {why}")]
    Check {
        device: String,
        /// The cause, as a clause of the message.
        why: String,
    },
}

impl From<NotOver> for EmulateError {
    fn from(error: NotOver) -> EmulateError {
        match error {
            NotOver::Over(error) => EmulateError::Over(error),
            NotOver::Device(error) => EmulateError::Device(error),
            NotOver::MayNot(error) => EmulateError::MayNotWrite(error),
        }
    }
}

/// What can be done where the target may not be written: it can be read, and no directory takes its place.
fn instead_of_writing(error: &MayNotWrite) -> Option<String> {
    match error {
        MayNotWrite::NotAllowed { device, .. } => Some(format!(
            "allow it with --destroy-data if nothing on {device} is needed; --read-only serves it without a change"
        )),
        MayNotWrite::Refused { device, .. } => Some(match error.way_out() {
            Some(option) => format!(
                "if all of that may be destroyed, name it again: {option}; --read-only serves it without a change"
            ),
            None => format!("take {device} out of use first"),
        }),
        other => other.hint(),
    }
}

fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn each(failures: &[(String, EmulateError)]) -> String {
    let reasons = failures.iter().map(|(id, why)| format!("{id}: {why}"));
    reasons.collect::<Vec<_>>().join("; ")
}

impl Failure for EmulateError {
    iosched_machine::passes_on!(EmulateError: DiskFile, Over, Device, Scheduler, MayNotWrite);

    fn hint(&self) -> Option<String> {
        match self {
            EmulateError::Missing(missing) => Some(missing.hint()),
            EmulateError::MayNotWrite(error) => instead_of_writing(error),
            EmulateError::CacheAboveMemory { .. } => Some(
                "`size_bytes` in [array.cache] of a file of its own makes it smaller; `iosched simulate --disk` takes any"
                    .to_owned(),
            ),
            EmulateError::NoScheduler { model, .. } => Some(format!(
                "make one with it: `iosched emulate create {model} --scheduler cfq`; the kernel's are set \
                 with `iosched set`"
            )),
            EmulateError::Server { hint, .. } => hint.clone(),
            EmulateError::Ended { log, .. } if !log.is_empty() => {
                Some(format!("its log ends:\n{log}"))
            }
            EmulateError::Unknown { known, .. } if known.is_empty() => {
                Some("there are none; `iosched emulate create MODEL` makes one".to_owned())
            }
            EmulateError::Unknown { known, .. } => Some(format!("there are: {}", known.join(", "))),
            EmulateError::InUse { .. } => Some(
                "end that first, or take the disk away from under it with `--force`".to_owned(),
            ),
            EmulateError::MountedBelow { at, .. } => Some(format!(
                "it would be taken away with it: umount {} first",
                quoted_path(at)
            )),
            EmulateError::Step { source, .. } if is_refusal(source) => Some(
                "root is not enough where the system takes rights from it: in a container, start \
                 it with `--privileged`"
                    .to_owned(),
            ),
            EmulateError::NotRemoved { failures } => {
                failures.iter().find_map(|(_, why)| why.hint())
            }
            EmulateError::NotReady { .. } => Some(
                "`iosched emulate remove --force` ends it; where --slow-down makes single reads take seconds, less of it \
                 helps"
                    .to_owned(),
            ),
            EmulateError::StateNotWritten {
                scheduler, source, ..
            } => {
                let way = room_hint(source).unwrap_or("make room or rights there");
                Some(format!("{scheduler} stands inside still: {way}"))
            }
            EmulateError::NoRequests { inside, .. } => Some(format!("{inside} stands inside")),
            EmulateError::NotAnswering { id, pid } => Some(format!(
                "`kill -CONT {pid}` if it is stopped; `iosched emulate remove --force {id}` ends it"
            )),
            EmulateError::Gone { .. } => {
                Some("`iosched emulate remove --all` clears what it left".to_owned())
            }
            EmulateError::Stuck { .. } => Some("`--force` kills it".to_owned()),
            EmulateError::Owner { .. } => {
                Some("name a process that runs: `--owner-pid $$` is the shell itself".to_owned())
            }
            EmulateError::File { action, .. } if *action == DATA_FILE => Some(
                "`--backing-dir` names another directory: on ext4, xfs, btrfs or tmpfs, with room for \
                 what will be written"
                    .to_owned(),
            ),
            _ => self.passes_on()?.hint(),
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            EmulateError::Stuck { .. } => Some(Remedy::With("--force".into())),
            _ => self.passes_on()?.remedy(),
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            EmulateError::Missing(Missing::Root) => exit::NOT_PERMITTED,
            EmulateError::Missing(_) => exit::MISSING,
            EmulateError::Model(_)
            | EmulateError::CacheAboveMemory { .. }
            | EmulateError::NoScheduler { .. }
            | EmulateError::Owner { .. } => exit::USAGE,
            EmulateError::Server { exit_code, .. } => *exit_code,
            EmulateError::Unknown { .. } => exit::NO_SUCH_DEVICE,
            EmulateError::InUse { .. } | EmulateError::MountedBelow { .. } => exit::BUSY,
            EmulateError::NotRemoved { failures } => failures
                .first()
                .map_or(exit::FAILURE, |(_, why)| why.exit_code()),
            EmulateError::Step { source, .. } if is_refusal(source) => exit::NOT_PERMITTED,
            _ => self.passes_on().map_or(exit::FAILURE, Failure::exit_code),
        }
    }
}
