//! What became of what a run had changed.

use std::path::PathBuf;

use iosched_machine::failure::NotUndone;
use iosched_machine::file_system::{self, OwnFileSystem, Removal};
use iosched_machine::host::Host;
use iosched_switch::Adjusted;
use serde::Serialize;

use super::TargetMount;
use crate::load::pgbench::OwnDatabases;

/// What became of one disk, process, directory or file system of an [`Entry`](super::Entry).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Undone {
    /// The disk is as before.
    Restored {
        /// Kernel name.
        device: String,
        /// The scheduler that is active again.
        scheduler: String,
    },
    /// The disk is as before but for these.
    RestoredExcept {
        /// Kernel name.
        device: String,
        /// What the kernel did not take back.
        adjusted: Vec<Adjusted>,
    },
    /// The disk is not there any more, or is another one: nothing to put back.
    Gone {
        /// Kernel name.
        device: String,
    },
    /// The machine was booted since: the kernel has set up the disk anew.
    Rebooted {
        /// Kernel name.
        device: String,
    },
    /// Somebody set the disk since an undo was cut short: it is as they want it.
    ChangedSince {
        /// Kernel name.
        device: String,
        /// The scheduler that is active.
        scheduler: String,
    },
    /// The disk could not be put back.
    Failed {
        /// Kernel name or path.
        thing: String,
        /// The cause, as a clause of the message.
        cause: String,
    },
    /// A directory of ours was removed.
    Removed {
        /// Where it was.
        directory: PathBuf,
    },
    /// A directory of ours is on a file system that is not mounted now: it may still be there.
    NotMounted {
        /// Where it was.
        directory: PathBuf,
        /// What must be mounted.
        mount: TargetMount,
    },
    /// The device on which a file system of ours may be is not there.
    Away {
        /// Kernel name that it had.
        device: String,
        /// The label of the file system.
        label: String,
    },
    /// A file system of ours was unmounted, and its signature erased.
    FileSystemRemoved {
        /// Kernel name of the device that it was on.
        device: String,
        /// What it was.
        kind: file_system::FileSystemKind,
    },
    /// What is no file system of ours any more was unmounted.
    FileSystemUnmounted {
        /// Kernel name of the device that it is on.
        device: String,
        /// The label that it had.
        label: String,
    },
    /// What the loads had left running was ended.
    ProcessesEnded {
        /// Name and pid of each.
        names: Vec<String>,
    },
    /// Databases of ours were dropped.
    DatabasesDropped {
        /// Their names.
        names: Vec<String>,
    },
}

impl From<NotUndone> for Undone {
    fn from(NotUndone { thing, cause }: NotUndone) -> Undone {
        Undone::Failed { thing, cause }
    }
}

impl Undone {
    /// Drops databases of ours; nothing to say where none is there.
    pub(super) fn of_databases(own: &OwnDatabases) -> Option<Undone> {
        match own.undo() {
            Ok(names) => (!names.is_empty()).then_some(Undone::DatabasesDropped { names }),
            Err(left) => Some(left.into()),
        }
    }

    /// Removes a file system of ours; nothing to say where it is not there.
    pub(super) fn of_file_system(host: &Host, own: &OwnFileSystem) -> Option<Undone> {
        match own.undo(host) {
            Ok(Removal::Nothing) => None,
            Ok(Removal::Done(device)) => Some(Undone::FileSystemRemoved {
                device,
                kind: own.kind,
            }),
            Ok(Removal::Unmounted(device)) => Some(Undone::FileSystemUnmounted {
                device,
                label: own.label.clone(),
            }),
            Ok(Removal::Away) => Some(Undone::Away {
                device: own.device.clone(),
                label: own.label.clone(),
            }),
            Err(left) => Some(left.into()),
        }
    }

    /// What is still to be put back, and why it is not, if it is.
    pub fn left(&self) -> Option<String> {
        match self {
            Undone::Failed { thing, cause } => Some(format!("{thing}: {cause}")),
            Undone::NotMounted { directory, mount } => Some(format!(
                "{}: {} is not mounted",
                directory.display(),
                mount.source.display()
            )),
            Undone::Away { device, label } => Some(format!(
                "{device}: the disk that may have our file system {label} is not there, or does not answer"
            )),
            _ => None,
        }
    }

    /// The disk that this settles, if it is about one.
    pub fn settled_disk(&self) -> Option<&str> {
        match self {
            Undone::Restored { device, .. }
            | Undone::RestoredExcept { device, .. }
            | Undone::Gone { device }
            | Undone::Rebooted { device }
            | Undone::ChangedSince { device, .. } => Some(device),
            _ => None,
        }
    }

    /// True unless something is still to be put back.
    pub fn is_settled(&self) -> bool {
        self.left().is_none()
    }
}
