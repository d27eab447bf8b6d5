//! What putting back would do: looked at, with nothing touched.

use std::path::Path;

use iosched_machine::file_system::{self, Bearer, OwnFileSystem};
use iosched_machine::host::Host;

use serde::Serialize;

use crate::{Difference, QueueState};

use super::{Leftover, Resolution, SavedDisk, Standing, TargetMount, boot_id};

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
    /// It cannot be told.
    Unknown {
        /// Kernel name or path.
        thing: String,
        /// The cause, as a clause of the message.
        cause: String,
    },
    /// Databases of ours would be dropped from this server.
    DatabasesDropped {
        /// How it is reached.
        server: String,
    },
    /// What is told alike before and after.
    #[serde(untagged)]
    As(Resolution),
}

impl From<Resolution> for Foreseen {
    fn from(resolution: Resolution) -> Foreseen {
        Foreseen::As(resolution)
    }
}

impl SavedDisk {
    /// What putting the disk back would do.
    pub fn foresee(&self, host: &Host, same_boot: bool) -> Foreseen {
        let device = self.device.clone();
        let unknown = |cause: String| Foreseen::Unknown {
            thing: self.device.clone(),
            cause,
        };
        match self.why_nothing_to_put_back(host, same_boot) {
            Ok(None) => {}
            Ok(Some(why)) => return why.into(),
            Err(error) => return unknown(error.to_string()),
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
            all.push(Resolution::ProcessesEnded { names }.into());
        }
        let disks = self.entry.disks.iter();
        all.extend(disks.map(|disk| disk.foresee(host, same_boot)));
        all.extend(ours.outside.iter().map(|own| Foreseen::DatabasesDropped {
            server: own.connection.clone(),
        }));
        let directories = ours.directories.iter();
        all.extend(directories.filter_map(|path| of_directory(host, path, ours.mount.as_ref())));
        let file_system = ours.file_system.iter();
        all.extend(file_system.filter_map(|own| of_file_system(host, own)));
        all
    }
}

fn of_file_system(host: &Host, own: &OwnFileSystem) -> Option<Foreseen> {
    let resolution = match own.bearer(host) {
        Bearer::None => return None,
        Bearer::Away => Resolution::Away {
            device: own.device.clone(),
            label: own.label.clone(),
        },
        Bearer::MountedAlone => Resolution::FileSystemUnmounted {
            device: own.device.clone(),
            label: own.label.clone(),
        },
        Bearer::Known(node) => Resolution::FileSystemRemoved {
            device: file_system::kernel_name(&node),
            kind: own.kind,
        },
        Bearer::Doubtful(node) => {
            return Some(Foreseen::Unknown {
                thing: file_system::kernel_name(&node),
                cause: format!(
                    "it has the file system {} of the run, and nothing proves that it is the device that was given up",
                    own.label
                ),
            });
        }
    };
    Some(resolution.into())
}

fn of_directory(host: &Host, path: &Path, mount: Option<&TargetMount>) -> Option<Foreseen> {
    let directory = path.to_owned();
    match Standing::of_directory(host, path, mount)? {
        Ok(Standing::There) => Some(Resolution::Removed { directory }.into()),
        Ok(Standing::NotMounted(mount)) => Some(Resolution::NotMounted { directory, mount }.into()),
        Ok(Standing::Gone) => None,
        Err(error) => Some(Foreseen::Unknown {
            thing: path.display().to_string(),
            cause: error.to_string(),
        }),
    }
}
