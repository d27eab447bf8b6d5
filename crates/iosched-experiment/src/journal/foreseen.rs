//! What putting back would do: looked at, with nothing touched.

use std::path::{Path, PathBuf};

use iosched_machine::file_system::{self, Bearer, OwnFileSystem};
use iosched_machine::host::Host;
use iosched_switch::{Difference, QueueState};
use serde::Serialize;

use super::{Leftover, SavedDisk, Standing, TargetMount, boot_id, standing_of_directory};

/// What would become of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Foreseen {
    /// The disk's settings would be set back; none if all are as before.
    Restored {
        /// Kernel name.
        device: String,
        /// What differs. With another scheduler active, that alone: its settings come with it.
        differences: Vec<Difference>,
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
    /// Somebody set the disk since an undo was cut short: it would be left as they want it.
    ChangedSince {
        /// Kernel name.
        device: String,
        /// The scheduler that is active.
        scheduler: String,
    },
    /// It cannot be told.
    Unknown {
        /// Kernel name or path.
        thing: String,
        /// The cause, as a clause of the message.
        cause: String,
    },
    /// A directory of ours would be removed.
    Removed {
        /// Where it is.
        directory: PathBuf,
    },
    /// A directory of ours is on a file system that is not mounted now: it would be kept in mind.
    NotMounted {
        /// Where it was.
        directory: PathBuf,
        /// What must be mounted.
        mount: TargetMount,
    },
    /// The device on which a file system of ours may be is not there: it would be kept in mind.
    Away {
        /// Kernel name that it had.
        device: String,
        /// The label of the file system.
        label: String,
    },
    /// A file system of ours would be unmounted, and its signature erased, if it is still there.
    FileSystemRemoved {
        /// Kernel name of the device that it was made on.
        device: String,
        /// What it is.
        kind: file_system::FileSystemKind,
    },
    /// What is no file system of ours any more would be unmounted.
    FileSystemUnmounted {
        /// Kernel name of the device that it is on.
        device: String,
        /// The label that it had.
        label: String,
    },
    /// What the loads have left running would be ended.
    ProcessesEnded {
        /// Name and pid of each.
        names: Vec<String>,
    },
    /// Databases of ours would be dropped from this server.
    DatabasesDropped {
        /// How it is reached.
        server: String,
    },
}

impl SavedDisk {
    /// What putting the disk back would do.
    pub fn foresee(&self, host: &Host, same_boot: bool) -> Foreseen {
        let device = self.device.clone();
        let unknown = |cause: String| Foreseen::Unknown {
            thing: self.device.clone(),
            cause,
        };
        match self.standing(host, same_boot) {
            Standing::There => {}
            Standing::Rebooted => return Foreseen::Rebooted { device },
            Standing::Gone => return Foreseen::Gone { device },
            Standing::Unknown(error) => return unknown(error.to_string()),
        }
        match QueueState::read(&host.sysfs(), &device) {
            Ok(now) => Foreseen::Restored {
                device,
                differences: self.state.differences(&now),
            },
            Err(error) => unknown(error.to_string()),
        }
    }
}

impl Leftover {
    /// What [`Leftover::undo`] would do.
    pub fn foresee(&self, host: &Host) -> Vec<Foreseen> {
        let same_boot = match boot_id(host) {
            Ok(now) => now == self.entry.boot_id,
            Err(error) => {
                return vec![Foreseen::Unknown {
                    thing: "this boot of the machine".into(),
                    cause: error.to_string(),
                }];
            }
        };
        let ours = &self.entry.ours;
        let mut all = Vec::new();
        let processes = ours.processes.as_ref().filter(|_| same_boot);
        let names = processes
            .map(|processes| processes.names(host))
            .unwrap_or_default();
        if !names.is_empty() {
            all.push(Foreseen::ProcessesEnded { names });
        }
        let disks = self.entry.disks.iter();
        all.extend(disks.map(|disk| disk.foresee(host, same_boot)));
        all.extend(
            ours.databases
                .iter()
                .map(|databases| Foreseen::DatabasesDropped {
                    server: databases.connection().to_owned(),
                }),
        );
        let directories = ours.directories.iter();
        all.extend(directories.filter_map(|path| of_directory(host, path, ours.mount.as_ref())));
        let file_system = ours.file_system.iter();
        all.extend(file_system.filter_map(|own| of_file_system(host, own)));
        all
    }
}

fn of_file_system(host: &Host, own: &OwnFileSystem) -> Option<Foreseen> {
    match own.bearer(host) {
        Bearer::None => None,
        Bearer::Away => Some(Foreseen::Away {
            device: own.device.clone(),
            label: own.label.clone(),
        }),
        Bearer::MountedAlone => Some(Foreseen::FileSystemUnmounted {
            device: own.device.clone(),
            label: own.label.clone(),
        }),
        Bearer::Known(node) => Some(Foreseen::FileSystemRemoved {
            device: file_system::kernel_name(&node),
            kind: own.kind,
        }),
        Bearer::Doubtful(node) => Some(Foreseen::Unknown {
            thing: file_system::kernel_name(&node),
            cause: format!(
                "it has the file system {} of the run, and nothing proves that it is the device that was given up",
                own.label
            ),
        }),
    }
}

fn of_directory(host: &Host, path: &Path, mount: Option<&TargetMount>) -> Option<Foreseen> {
    let directory = path.to_owned();
    match standing_of_directory(host, path, mount)? {
        (Standing::There, _) => Some(Foreseen::Removed { directory }),
        (Standing::Unknown(error), _) => Some(Foreseen::Unknown {
            thing: path.display().to_string(),
            cause: error.to_string(),
        }),
        (_, mount) => mount.map(|mount| Foreseen::NotMounted { directory, mount }),
    }
}
