//! Where the loads of a run work: a directory of our own, which may be on a file system of our own, or
//! the target itself.

use std::fs::{self, File};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use iosched_machine::file_system::OwnFileSystem;
use iosched_machine::host::Host;
use iosched_machine::process::{Stop, User};
use iosched_machine::user_files;
use rustix::fs::{Mode, OFlags, fstat};

use super::{RunError, check_way};
use crate::load::files;
use crate::load::fio_job::JobTarget;
use crate::plan::Target;
use iosched_switch::journal::{OwnedResources, TargetMount};

/// Where the loads run, and what of it is our own.
pub(super) struct Site {
    place: JobTarget,
    directory: Option<PathBuf>,
    file_system: Option<OwnFileSystem>,
}

impl Site {
    /// Chooses names; makes nothing. Refuses a directory where somebody else than the loads' user could lead
    /// them astray.
    pub(super) fn choose(
        host: &Host,
        target: &Target,
        user: Option<&User>,
    ) -> Result<Site, RunError> {
        check_way(target, user)?;
        Ok(match target {
            // The node of the device that is asked about, whatever path an edited record names.
            Target::Device { device, .. } => Site::whole(host.dev(device).display().to_string()),
            Target::File { path, .. } => Site::whole(path.display().to_string()),
            Target::Simulated(disk) => Site::whole(disk.model.name.clone()),
            Target::Directory {
                path, file_size, ..
            } => Site::within(path, *file_size, None),
            Target::FileSystem {
                device,
                file_system,
                file_size,
            } => {
                let file_system = OwnFileSystem::choose(host, device, *file_system);
                let mount_point = file_system.mount_point.clone();
                Site::within(&mount_point, *file_size, Some(file_system))
            }
        })
    }

    /// The target itself.
    fn whole(path: String) -> Site {
        Site {
            place: JobTarget::Path(path),
            directory: None,
            file_system: None,
        }
    }

    /// A directory of our own in a directory.
    fn within(above: &Path, file_size: u64, file_system: Option<OwnFileSystem>) -> Site {
        let directory = above.join(user_files::draw_name());
        Site {
            place: JobTarget::Directory {
                directory: directory.display().to_string(),
                file_size,
            },
            directory: Some(directory),
            file_system,
        }
    }

    /// What has to be removed. A directory goes with the file system that it is in.
    pub(super) fn ours(&self, host: &Host, user: Option<&User>) -> OwnedResources {
        let above = self.directory.as_deref().and_then(Path::parent);
        match &self.file_system {
            Some(file_system) => OwnedResources {
                file_system: Some(file_system.clone()),
                ..OwnedResources::default()
            },
            None => OwnedResources {
                directories: self.directory.iter().cloned().collect(),
                mount: above.and_then(|above| TargetMount::of(host, above)),
                user: user.cloned(),
                ..OwnedResources::default()
            },
        }
    }

    pub(super) fn place(&self) -> JobTarget {
        self.place.clone()
    }

    /// Makes the file system, and in it or in the target the directory, which must not be there: its
    /// name cannot be guessed, nor be a link. mkfs and the mount claim the device for themselves, so that
    /// our claim ends right before.
    pub(super) fn make(
        &self,
        claim: &mut Option<File>,
        user: Option<&User>,
        stop: &Stop,
    ) -> Result<Option<Held>, RunError> {
        if let Some(file_system) = &self.file_system {
            drop(claim.take());
            file_system.make(user, stop)?;
        }
        let Some(directory) = &self.directory else {
            return Ok(None);
        };
        files::make_new_directory(directory, user)
            .map_err(|error| RunError::io(directory, &error))?;
        // One on a file system of our own would be kept from being unmounted.
        let is_unmounted = self.file_system.is_some();
        Ok(Held::of(directory).filter(|_| !is_unmounted))
    }
}

/// The directory of a run, wherever its loads move it.
pub(super) struct Held {
    path: PathBuf,
    file: OwnedFd,
}

impl Held {
    fn of(path: &Path) -> Option<Held> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        let path = path.to_owned();
        Some(Held { path, file })
    }

    /// Where it was made and where it is now, if it is there still, and not where it was made.
    pub(super) fn moved(&self) -> Option<(String, String)> {
        let is_removed = fstat(&self.file).ok()?.st_nlink == 0;
        let file = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let now = fs::read_link(file).ok()?;
        let in_words = |path: &Path| path.display().to_string();
        (!is_removed && now != self.path).then(|| (in_words(&self.path), in_words(&now)))
    }
}
