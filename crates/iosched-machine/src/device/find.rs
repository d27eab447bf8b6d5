//! From what a user types to a [`Device`]: a kernel name, a path to a node, or a directory or file.
//!
//! A node is taken for what its number says, not for its name, so links (`/dev/disk/by-id/…`,
//! `/dev/mapper/…`) need no special care. In a copied tree there are no nodes: there the links are
//! followed by hand and the last name counts.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::error;
use super::mounts::MountTable;
use super::node::name_of_node;
use super::{Device, DeviceNumber};
use crate::failure::{Problem, exit};
use crate::host::Host;
use crate::path_trust::{self, WayError};
use crate::process;
use crate::sysfs::is_kernel_name;

/// What the user means by a target: a device, or a file system on one or more devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A block device or partition.
    Device(Box<Device>),
    /// A directory or file, and the file system that it is on.
    FileSystem(FileSystem),
}

/// A directory or file, and the file system that it is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileSystem {
    /// The directory or file, without links.
    pub path: PathBuf,
    /// Where the file system is mounted.
    pub mount_point: PathBuf,
    /// Its type: `ext4`.
    pub fs_type: String,
    /// The devices it is on: one, or several for btrfs and bcachefs.
    pub devices: Vec<Device>,
}

impl Target {
    /// Finds a device by name or node, or else the file system of a directory or file.
    pub fn find(host: &Host, target: &str) -> Result<Target, Problem> {
        let is_path = target.starts_with(['/', '.']);
        let names_file = || {
            if host.is_live() {
                std::fs::metadata(target).is_ok_and(|meta| meta.is_dir() || meta.is_file())
            } else {
                // A copy has the mounts, but not the files.
                target.starts_with('/') && !target.starts_with("/dev/")
            }
        };
        if is_path && names_file() {
            return find_file_system(host, Path::new(target)).map(Target::FileSystem);
        }
        match find(host, target) {
            Ok(device) => Ok(Target::Device(Box::new(device))),
            // A relative path (`data`) that no device is called by.
            Err(_) if names_file() => {
                find_file_system(host, Path::new(target)).map(Target::FileSystem)
            }
            Err(error) => Err(error),
        }
    }

    /// The same for a target whose device is to be changed.
    pub fn find_to_change(host: &Host, target: &str) -> Result<Target, Problem> {
        let found = Target::find(host, target)?;
        if let Target::Device(device) = &found {
            check_path(host, target, device)?;
        }
        Ok(found)
    }

    /// The devices that the target is on.
    pub fn devices(&self) -> &[Device] {
        match self {
            Target::Device(device) => std::slice::from_ref(device.as_ref()),
            Target::FileSystem(file_system) => &file_system.devices,
        }
    }
}

/// Finds a block device or partition by kernel name (`sda`, `cciss/c0d0`, `cciss!c0d0`) or by the path
/// of its node or of a link to it.
pub fn find(host: &Host, target: &str) -> Result<Device, Problem> {
    let path = Path::new(target);
    let name = if target.starts_with(['/', '.']) && target.contains('/') {
        name_of_node(host, path)?
    } else {
        check_name(host, target)?
    };
    Device::read(host, &name).map_err(|error| error::not_read(host, target, &error))
}

/// The same for a device that is to be changed: as root by no path that another user can make lead to another device.
pub fn find_to_change(host: &Host, target: &str) -> Result<Device, Problem> {
    let device = find(host, target)?;
    check_path(host, target, &device)?;
    Ok(device)
}

/// Refuses the path of a device that another user can make lead to another one.
fn check_path(host: &Host, target: &str, device: &Device) -> Result<(), Problem> {
    if !host.is_live() || !target.contains('/') || host.sysfs().has_device(target) {
        return Ok(());
    }
    path_trust::check_device(Path::new(target)).map_err(|refusal| match refusal {
        WayError::Danger { at, danger } => {
            error::untrusted(target, &at, &danger.who(), &device.name)
        }
        WayError::Unusable { path, source } => error::unreadable(&path, &source),
    })
}

/// Refuses a path whose file system does not answer: whoever asks about it then waits for a server that may be gone.
pub fn answers(path: &Path) -> Result<(), Problem> {
    let asked = path.to_owned();
    // Unlike attributes, which may be cached, it asks the server.
    if process::ask_patiently(move || rustix::fs::statvfs(&asked)).is_some() {
        return Ok(()); // also where nothing is there
    }
    let message = format!("{}: its file system does not answer", path.display());
    Err(Problem::new(exit::FAILURE, message)
        .hint("its server (NFS, FUSE) may be gone: bring it back, or name another place; a disk that still spins up answers if asked again"))
}

/// The file system that a directory or file is on, and its devices.
pub fn find_file_system(host: &Host, path: &Path) -> Result<FileSystem, Problem> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => error::no_such_path(path),
        _ => error::unreadable(path, &error),
    };
    let real = if host.is_live() {
        answers(path)?;
        std::fs::canonicalize(path).map_err(unreadable)?
    } else {
        // The copy need not have the file: which mount it would be on is all we ask.
        Path::new("/").join(path)
    };
    let mounts = MountTable::read(host)
        .map_err(|error| error::unreadable(&host.proc("self/mountinfo"), &error))?;
    let mut mount = mounts.containing(&real);
    if host.is_live()
        && let Ok(meta) = std::fs::metadata(&real)
        && let number = DeviceNumber::of_raw(meta.dev())
        && mount.is_none_or(|mount| mount.number != number)
        && let Some(by_number) = mounts.with_number(number)
    {
        // The mount point is hidden below another one, or is one that we do not see by its path.
        mount = Some(by_number);
    }
    let Some(mount) = mount else {
        return Err(error::no_such_path(path));
    };
    let mut devices = Vec::new();
    for name in mounts.devices_of(host, mount) {
        devices
            .push(Device::read(host, &name).map_err(|error| error::not_read(host, &name, &error))?);
    }
    if devices.is_empty() {
        let (mount_point, fs_type) = (&mount.mount_point, &mount.fs_type);
        return Err(error::no_block_device(&real, mount_point, fs_type));
    }
    Ok(FileSystem {
        path: real,
        mount_point: mount.mount_point.clone(),
        fs_type: mount.fs_type.clone(),
        devices,
    })
}

/// Checks a kernel name: it must be able to be one, and there must be such a device.
fn check_name(host: &Host, target: &str) -> Result<String, Problem> {
    if target.is_empty() {
        return Err(error::bad_name(target, "is empty"));
    }
    if target.chars().any(|c| c.is_whitespace() || c.is_control()) {
        let why = "contains a blank or a control character";
        return Err(error::bad_name(target, why));
    }
    if target
        .split(['/', '!'])
        .any(|part| part == "." || part == "..")
    {
        return Err(error::bad_name(target, "contains . or .. as a part"));
    }
    if is_kernel_name(target) && host.sysfs().has_device(target) {
        return Ok(target.to_owned());
    }
    let is_misplaced = !is_kernel_name(target) || target.contains('/');
    Err(if is_misplaced {
        error::misplaced_slash(target)
    } else {
        error::no_such(host, target, target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::exit;

    #[test]
    fn what_is_there_and_is_no_block_device_is_called_what_it_is() {
        let host = Host::live();
        for (path, expected) in [
            ("/dev/null", "character device"),
            ("/proc", "directory"),
            ("/proc/self/stat", "file"),
        ] {
            let error = find(&host, path).unwrap_err();
            assert!(error.message.ends_with(expected), "{error}");
            assert_eq!(error.code, exit::NO_SUCH_DEVICE);
            assert!(error.hint.is_some());
        }
    }

    #[test]
    fn a_path_that_does_not_exist_is_not_guessed_at() {
        let host = Host::live();
        for path in [
            "/dev/no-such-disk",
            "/dev/null/x",
            "/no/such/dir",
            "./no-such",
        ] {
            let error = Target::find(&host, path).unwrap_err();
            let said = error.message;
            let is_absent = said.starts_with("there is no") || said.ends_with("does not exist");
            assert!(is_absent, "{said}");
        }
    }

    #[test]
    fn a_directory_without_a_device_says_what_it_is_on() {
        let error = Target::find(&Host::live(), "/proc/self").unwrap_err();
        assert!(error.message.contains("is on proc "), "{error}");
    }

    #[test]
    fn a_node_that_no_driver_stands_behind_is_not_taken_for_a_missing_file() {
        if !rustix::process::geteuid().is_root() {
            iosched_testing::lacks("root for mknod");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let node = dir.path().join("stale");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &node,
            rustix::fs::FileType::BlockDevice,
            rustix::fs::Mode::RUSR,
            rustix::fs::makedev(4000, 7),
        )
        .unwrap();
        let error = find(&Host::live(), node.to_str().unwrap()).unwrap_err();
        assert!(error.message.contains("no block device 4000:7"), "{error}");
    }
}
