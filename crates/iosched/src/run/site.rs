//! Where the loads of a run work: a directory of our own, which may be on a file system of our own, or
//! the target itself.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rand::Rng;

use super::{RunError, way};
use crate::file_system::OwnFileSystem;
use crate::host::Host;
use crate::journal::Ours;
use crate::load::files;
use crate::load::fio_job::Place;
use crate::plan::Target;
use crate::process::{Stop, User};

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

/// Where the loads run, and what of it is our own.
pub(super) struct Site {
    place: Place,
    directory: Option<PathBuf>,
    file_system: Option<Made>,
}

/// A file system of our own, and what its device held when the user gave it up.
struct Made {
    file_system: OwnFileSystem,
    held: Vec<String>,
}

impl Site {
    /// Chooses names; makes nothing. Refuses a directory where somebody else than the loads' user could lead
    /// them astray.
    pub(super) fn choose(
        host: &Host,
        target: &Target,
        user: Option<&User>,
    ) -> Result<Site, RunError> {
        Ok(match target {
            Target::Device { path, .. } | Target::File { path, .. } => {
                Site::whole(path.display().to_string())
            }
            Target::Simulated(disk) => Site::whole(disk.model.name.clone()),
            Target::Directory {
                path, file_size, ..
            } => {
                way::check(path, user)?;
                Site::within(path, *file_size, None)
            }
            Target::FileSystem {
                device,
                file_system,
                file_size,
                held,
            } => {
                let file_system = OwnFileSystem::choose(host, device, *file_system);
                let mount_point = file_system.mount_point.clone();
                let held = held.clone();
                let made = Made { file_system, held };
                Site::within(&mount_point, *file_size, Some(made))
            }
        })
    }

    /// The target itself.
    fn whole(path: String) -> Site {
        Site {
            place: Place::Path(path),
            directory: None,
            file_system: None,
        }
    }

    /// A directory of our own in a directory.
    fn within(above: &Path, file_size: u64, file_system: Option<Made>) -> Site {
        let directory = above.join(format!(".iosched-{:016x}", rand::rng().next_u64()));
        Site {
            place: Place::Directory {
                directory: directory.display().to_string(),
                file_size,
            },
            directory: Some(directory),
            file_system,
        }
    }

    /// What has to be removed. A directory goes with the file system that it is in.
    pub(super) fn ours(&self, user: Option<&User>) -> Ours {
        match &self.file_system {
            Some(made) => Ours {
                file_system: Some(made.file_system.clone()),
                ..Ours::default()
            },
            None => Ours {
                directories: self.directory.iter().cloned().collect(),
                user: user.cloned(),
                ..Ours::default()
            },
        }
    }

    pub(super) fn place(&self) -> Place {
        self.place.clone()
    }

    /// Makes the file system, and in it or in the target the directory, which must not be there: its
    /// name cannot be guessed, nor be a link.
    pub(super) fn make(
        &self,
        host: &Host,
        user: Option<&User>,
        stop: &Stop,
    ) -> Result<(), RunError> {
        if let Some(Made { file_system, held }) = &self.file_system {
            file_system.make(host, held, user, stop)?;
        }
        let Some(directory) = &self.directory else {
            return Ok(());
        };
        files::make_new_directory(directory, user).map_err(|source| RunError::Io {
            path: directory.clone(),
            source,
        })
    }
}
