//! What became of what a run had changed.

use iosched_machine::failure::NotUndone;
use iosched_machine::file_system::{OwnFileSystem, Removal};
use iosched_machine::host::Host;
use serde::Serialize;

use super::Resolution;
use crate::Adjusted;

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
    /// The disk could not be put back.
    Failed {
        /// Kernel name or path.
        thing: String,
        /// The cause, as a clause of the message.
        cause: String,
    },
    /// Databases of ours were dropped.
    DatabasesDropped {
        /// Their names.
        names: Vec<String>,
    },
    /// What is told alike before and after.
    #[serde(untagged)]
    As(Resolution),
}

impl From<Resolution> for Undone {
    fn from(resolution: Resolution) -> Undone {
        Undone::As(resolution)
    }
}

impl From<NotUndone> for Undone {
    fn from(NotUndone { thing, cause }: NotUndone) -> Undone {
        Undone::Failed { thing, cause }
    }
}

impl Undone {
    /// What became of what a load made outside of the target; nothing to say where nothing was there.
    pub(super) fn of_outside(undone: Result<Vec<String>, NotUndone>) -> Option<Undone> {
        match undone {
            Ok(names) => (!names.is_empty()).then_some(Undone::DatabasesDropped { names }),
            Err(left) => Some(left.into()),
        }
    }

    /// Removes a file system of ours; nothing to say where it is not there.
    pub(super) fn of_file_system(host: &Host, own: &OwnFileSystem) -> Option<Undone> {
        let resolution = match own.undo(host) {
            Ok(Removal::Nothing) => return None,
            Ok(Removal::Done(device)) => Resolution::FileSystemRemoved {
                device,
                kind: own.kind,
            },
            Ok(Removal::Unmounted(device)) => Resolution::FileSystemUnmounted {
                device,
                label: own.label.clone(),
            },
            Ok(Removal::Away) => Resolution::Away {
                device: own.device.clone(),
                label: own.label.clone(),
            },
            Err(left) => return Some(left.into()),
        };
        Some(resolution.into())
    }

    /// What is still to be put back, and why it is not, if it is.
    pub fn left(&self) -> Option<String> {
        match self {
            Undone::Failed { thing, cause } => Some(format!("{thing}: {cause}")),
            Undone::As(Resolution::NotMounted { directory, mount }) => Some(format!(
                "{}: {} is not mounted",
                directory.display(),
                mount.source.display()
            )),
            Undone::As(Resolution::Away { device, label }) => Some(format!(
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
            | Undone::As(Resolution::Gone { device } | Resolution::Rebooted { device }) => {
                Some(device)
            }
            _ => None,
        }
    }

    /// The disk that was left alone because somebody has set it otherwise since.
    pub fn set_since(&self) -> Option<&str> {
        match self {
            Undone::As(Resolution::SetSince { device, .. }) => Some(device),
            _ => None,
        }
    }

    /// True unless something is still to be put back.
    pub fn is_settled(&self) -> bool {
        self.left().is_none()
    }
}
