//! What becomes of a thing that a run changed, the same when it is foreseen and when it is done.

use std::path::PathBuf;

use iosched_machine::file_system::FileSystemKind;
use serde::Serialize;

use super::TargetMount;
use crate::Difference;

/// What becomes of one disk, process, directory or file system of an [`Entry`](super::Entry).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Resolution {
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
    /// Somebody has set the disk otherwise since a change that was meant to stay: its settings are theirs.
    SetSince {
        /// Kernel name.
        device: String,
        /// How it differs from what the change left.
        differences: Vec<Difference>,
    },
    /// A directory of ours is removed.
    Removed {
        /// Where it is, or was.
        directory: PathBuf,
    },
    /// A directory of ours is on a file system that is not mounted now: it may still be there, and stays in the journal.
    NotMounted {
        /// Where it was.
        directory: PathBuf,
        /// What must be mounted.
        mount: TargetMount,
    },
    /// The device on which a file system of ours may be is not there: it stays in the journal.
    Away {
        /// Kernel name that it had.
        device: String,
        /// The label of the file system.
        label: String,
    },
    /// A file system of ours is unmounted, and its signature erased.
    FileSystemRemoved {
        /// Kernel name of the device that it was made on.
        device: String,
        /// What it is, or was.
        kind: FileSystemKind,
    },
    /// What is no file system of ours any more is unmounted.
    FileSystemUnmounted {
        /// Kernel name of the device that it is on.
        device: String,
        /// The label that it had.
        label: String,
    },
    /// What the loads have left running is ended.
    ProcessesEnded {
        /// Name and pid of each.
        names: Vec<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Foreseen, Undone};

    #[test]
    fn programs_read_it_as_any_other_thing_that_is_foreseen_or_done() {
        let gone = || Resolution::Gone {
            device: "sda".to_owned(),
        };
        let expected = r#"{"what":"gone","device":"sda"}"#;
        let foreseen = serde_json::to_string(&Foreseen::from(gone())).unwrap();
        let undone = serde_json::to_string(&Undone::from(gone())).unwrap();
        assert_eq!([&*foreseen, &*undone], [expected; 2]);
    }
}
