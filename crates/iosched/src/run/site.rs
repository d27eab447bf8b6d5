//! Where the loads of a run work: a directory of our own, or the target itself.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, lchown};
use std::path::PathBuf;

use rand::Rng;

use super::RunError;
use crate::load::fio_job::Place;
use crate::plan::Target;
use crate::process::User;

/// While a raw device is written, nobody may mount it or open it for himself.
pub(super) fn claim(target: &Target) -> Result<Option<fs::File>, RunError> {
    let Target::Device {
        device,
        path,
        writes: true,
    } = target
    else {
        return Ok(None);
    };
    #[expect(clippy::cast_possible_wrap, reason = "a flag of the kernel's int")]
    let exclusive = rustix::fs::OFlags::EXCL.bits() as i32;
    match OpenOptions::new()
        .read(true)
        .custom_flags(exclusive)
        .open(path)
    {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(RunError::InUse {
            device: device.clone(),
        }),
        Err(source) => Err(RunError::Io {
            path: path.clone(),
            source,
        }),
    }
}

/// Where the loads run, and the directory of our own if that is in one.
pub(super) struct Site {
    place: Place,
    directory: Option<PathBuf>,
}

impl Site {
    /// Chooses names; makes nothing.
    pub(super) fn choose(target: &Target) -> Site {
        match target {
            Target::Device { path, .. } | Target::File { path, .. } => Site {
                place: Place::Path(path.display().to_string()),
                directory: None,
            },
            Target::Simulated(disk) => Site {
                place: Place::Path(disk.model.name.clone()),
                directory: None,
            },
            Target::Directory {
                path, file_size, ..
            } => {
                let name = format!(".iosched-{:016x}", rand::rng().next_u64());
                let directory = path.join(name);
                Site {
                    place: Place::Directory {
                        directory: directory.display().to_string(),
                        file_size: *file_size,
                    },
                    directory: Some(directory),
                }
            }
        }
    }

    pub(super) fn directories(&self) -> Vec<PathBuf> {
        self.directory.iter().cloned().collect()
    }

    pub(super) fn place(&self) -> Place {
        self.place.clone()
    }

    /// Makes the directory, which must not be there: its name cannot be guessed, nor be a link.
    pub(super) fn make(&self, user: Option<User>) -> Result<(), RunError> {
        let Some(directory) = &self.directory else {
            return Ok(());
        };
        let made = DirBuilder::new().mode(0o700).create(directory);
        let owned = made.and_then(|()| match user {
            Some(user) => lchown(directory, Some(user.uid), Some(user.gid)),
            None => Ok(()),
        });
        owned.map_err(|source| RunError::Io {
            path: directory.clone(),
            source,
        })
    }
}
