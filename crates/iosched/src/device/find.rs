//! From what a user types to a [`Device`]: a kernel name, a path to a node, or a directory or file.
//!
//! A node is taken for what its number says, not for its name, so links (`/dev/disk/by-id/…`,
//! `/dev/mapper/…`) need no special care. In a copied tree there are no nodes: there the links are
//! followed by hand and the last name counts.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use serde::Serialize;
use thiserror::Error;

use super::users::MountTable;
use super::{Device, DeviceNumber};
use crate::failure::{Failure, exit};
use crate::host::Host;
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
    pub fn find(host: &Host, target: &str) -> Result<Target, DeviceError> {
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
pub fn find(host: &Host, target: &str) -> Result<Device, DeviceError> {
    let path = Path::new(target);
    let name = if target.starts_with(['/', '.']) && target.contains('/') {
        name_of_node(host, path)?
    } else {
        check_name(host, target)?
    };
    Device::read(host, &name).map_err(|error| DeviceError::from_read(host, target, error))
}

/// The file system that a directory or file is on, and its devices.
pub fn find_file_system(host: &Host, path: &Path) -> Result<FileSystem, DeviceError> {
    let unreadable = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => DeviceError::NoSuchPath {
            path: path.to_owned(),
        },
        _ => DeviceError::Unreadable {
            path: path.to_owned(),
            source,
        },
    };
    let real = if host.is_live() {
        std::fs::canonicalize(path).map_err(unreadable)?
    } else {
        // The copy need not have the file: which mount it would be on is all we ask.
        Path::new("/").join(path)
    };
    let mounts = MountTable::read(host).map_err(|source| DeviceError::Unreadable {
        path: host.proc("self/mountinfo"),
        source,
    })?;
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
        return Err(DeviceError::NoSuchPath {
            path: path.to_owned(),
        });
    };
    let mut devices = Vec::new();
    for name in mounts.devices_of(host, mount) {
        devices.push(
            Device::read(host, &name)
                .map_err(|error| DeviceError::from_read(host, &name, error))?,
        );
    }
    if devices.is_empty() {
        return Err(DeviceError::NoBlockDevice {
            path: real,
            mount_point: mount.mount_point.clone(),
            fs_type: mount.fs_type.clone(),
        });
    }
    Ok(FileSystem {
        path: real,
        mount_point: mount.mount_point.clone(),
        fs_type: mount.fs_type.clone(),
        devices,
    })
}

/// Why there is no device for what the user typed.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// No device has this name.
    #[error("there is no block device {target}")]
    NoSuch {
        /// What was asked for.
        target: String,
        /// Names that look like it.
        near: Vec<String>,
    },
    /// This cannot be the name of a device.
    #[error("{target:?} cannot be the name of a block device: it {why}")]
    BadName {
        /// What was asked for.
        target: String,
        /// What is wrong with it.
        why: BadName,
    },
    /// The path is there, and is not a block device.
    #[error("{} is not a block device but a {what}", path.display())]
    NotBlock {
        /// The path.
        path: PathBuf,
        /// What it is: `character device`, `directory` …
        what: &'static str,
        /// Block devices that may have been meant.
        near: Vec<String>,
    },
    /// There is a node, and the kernel has no such device (any more).
    #[error("the kernel has no block device {number}, which {} stands for", path.display())]
    NoDriver {
        /// The node.
        path: PathBuf,
        /// Its number.
        number: DeviceNumber,
    },
    /// The file system is not on a block device.
    #[error(
        "{} is on {fs_type} (mounted on {}), which is not on a block device",
        path.display(),
        mount_point.display()
    )]
    NoBlockDevice {
        /// What was asked for.
        path: PathBuf,
        /// Where its file system is mounted.
        mount_point: PathBuf,
        /// `tmpfs`, `overlay`, `nfs4` …
        fs_type: String,
    },
    /// There is no such path.
    #[error("{} does not exist", path.display())]
    NoSuchPath {
        /// The path.
        path: PathBuf,
    },
    /// Something had to be read and could not be.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What keeps a text from being a device's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadName {
    /// Nothing at all.
    Empty,
    /// A blank, a tab, a newline or a control character.
    Blank,
    /// A part that is `..` or `.`.
    Dots,
    /// A `/` that no device has at this place.
    Slash,
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadName::Empty => "is empty",
            BadName::Blank => "contains a blank or a control character",
            BadName::Dots => "contains . or .. as a part",
            BadName::Slash => "contains a / where no device has one",
        })
    }
}

impl Failure for DeviceError {
    fn hint(&self) -> Option<String> {
        let did_you_mean = |near: &[String]| {
            (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")))
        };
        match self {
            DeviceError::NoSuch { near, .. } => {
                Some(did_you_mean(near).unwrap_or_else(|| SEE_LIST.to_owned()))
            }
            DeviceError::BadName { why, .. } => Some(match why {
                BadName::Slash => {
                    "give a kernel name (sda), a path that begins with / (/dev/disk/by-id/…), or a \
                     directory that exists"
                        .to_owned()
                }
                _ => SEE_LIST.to_owned(),
            }),
            DeviceError::NotBlock { near, what, .. } => did_you_mean(near).or_else(|| {
                Some(match *what {
                    "directory" | "file" => {
                        "this command needs the device; `iosched list` shows which one a mount \
                             is on"
                            .to_owned()
                    }
                    _ => SEE_LIST.to_owned(),
                })
            }),
            DeviceError::NoDriver { .. } => {
                Some("its driver may not be loaded, or the disk was taken out".to_owned())
            }
            DeviceError::NoBlockDevice { fs_type, .. } => Some(match fs_type.as_str() {
                "overlay" | "aufs" | "fuse.overlayfs" => {
                    "name a directory of its upper layer, on the disk itself".to_owned()
                }
                "tmpfs" | "ramfs" | "devtmpfs" | "rootfs" => {
                    "it is kept in memory; name a directory on a disk".to_owned()
                }
                "zfs" => {
                    "ZFS does not tell the kernel its disks: name them (`zpool status` lists them)"
                        .to_owned()
                }
                kind if kind.starts_with("nfs")
                    || matches!(kind, "cifs" | "smb3" | "9p" | "ceph" | "virtiofs" | "afs") =>
                {
                    "its disks belong to another machine: run iosched there".to_owned()
                }
                _ => "name a directory on a disk, or the disk".to_owned(),
            }),
            DeviceError::NoSuchPath { .. } => None,
            DeviceError::Unreadable { source, .. } => (source.kind()
                == io::ErrorKind::PermissionDenied)
                .then(|| "run it as root".to_owned()),
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            DeviceError::Unreadable { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                exit::NOT_PERMITTED
            }
            DeviceError::Unreadable { .. } => exit::FAILURE,
            _ => exit::NO_SUCH_DEVICE,
        }
    }
}

const SEE_LIST: &str = "`iosched list --all` shows the devices of this machine";

impl DeviceError {
    fn from_read(host: &Host, target: &str, error: io::Error) -> DeviceError {
        if error.kind() == io::ErrorKind::NotFound {
            DeviceError::NoSuch {
                target: target.to_owned(),
                near: near_names(host, target),
            }
        } else {
            DeviceError::Unreadable {
                path: host.sysfs().device_dir(target),
                source: error,
            }
        }
    }
}

impl DeviceNumber {
    /// From the number as `stat(2)` gives it.
    pub fn of_raw(raw: u64) -> DeviceNumber {
        DeviceNumber {
            major: rustix::fs::major(raw),
            minor: rustix::fs::minor(raw),
        }
    }
}

/// Checks a kernel name: it must be able to be one, and there must be such a device.
fn check_name(host: &Host, target: &str) -> Result<String, DeviceError> {
    let bad = |why| {
        Err(DeviceError::BadName {
            target: target.to_owned(),
            why,
        })
    };
    if target.is_empty() {
        return bad(BadName::Empty);
    }
    if target.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return bad(BadName::Blank);
    }
    if target
        .split(['/', '!'])
        .any(|part| part == "." || part == "..")
    {
        return bad(BadName::Dots);
    }
    if !is_kernel_name(target) {
        return bad(BadName::Slash);
    }
    if host.sysfs().has_device(target) {
        return Ok(target.to_owned());
    }
    let near = near_names(host, target);
    if target.contains('/') && near.is_empty() {
        return bad(BadName::Slash);
    }
    Err(DeviceError::NoSuch {
        target: target.to_owned(),
        near,
    })
}

/// The kernel name of the device that a path's node stands for.
pub(super) fn name_of_node(host: &Host, path: &Path) -> Result<String, DeviceError> {
    let no_such = || {
        let last = path.file_name().unwrap_or(OsStr::new("")).to_string_lossy();
        if path.starts_with("/dev") {
            DeviceError::NoSuch {
                target: path.display().to_string(),
                near: near_names(host, &last),
            }
        } else {
            DeviceError::NoSuchPath {
                path: path.to_owned(),
            }
        }
    };
    if !host.is_live() {
        let end = follow_links(host, path).ok_or_else(no_such)?;
        let name = end
            .strip_prefix("/dev")
            .ok()
            .and_then(Path::to_str)
            .filter(|name| host.sysfs().has_device(name));
        return match name {
            Some(name) => Ok(name.to_owned()),
            None => match what_is(&host.path(&end)) {
                Ok(what) => Err(DeviceError::NotBlock {
                    path: path.to_owned(),
                    what,
                    near: Vec::new(),
                }),
                Err(_) => Err(no_such()),
            },
        };
    }
    let meta = std::fs::metadata(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => no_such(),
        _ => DeviceError::Unreadable {
            path: path.to_owned(),
            source,
        },
    })?;
    if !meta.file_type().is_block_device() {
        let last = path.file_name().unwrap_or(OsStr::new("")).to_string_lossy();
        return Err(DeviceError::NotBlock {
            path: path.to_owned(),
            what: what_is(path).unwrap_or("file"),
            // `/dev/nvme0` is the controller of `nvme0n1`.
            near: if meta.file_type().is_char_device() {
                longer_names(host, &last)
            } else {
                Vec::new()
            },
        });
    }
    let number = DeviceNumber::of_raw(meta.rdev());
    host.sysfs()
        .device_with_number(number.major, number.minor)
        .ok_or_else(|| DeviceError::NoDriver {
            path: path.to_owned(),
            number,
        })
}

fn what_is(path: &Path) -> io::Result<&'static str> {
    let kind = std::fs::metadata(path)?.file_type();
    Ok(if kind.is_dir() {
        "directory"
    } else if kind.is_char_device() {
        "character device"
    } else if kind.is_fifo() {
        "pipe"
    } else if kind.is_socket() {
        "socket"
    } else {
        "file"
    })
}

/// Follows the links of a path inside a copied tree; `None` if they go in circles.
fn follow_links(host: &Host, path: &Path) -> Option<PathBuf> {
    let mut path = normal(path);
    for _ in 0..40 {
        let Ok(link) = std::fs::read_link(host.path(&path)) else {
            return Some(path);
        };
        path = normal(&path.parent().unwrap_or(Path::new("/")).join(link));
    }
    None
}

/// A path from the root, with `.` and `..` worked out by name.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(part) => out.push(part),
            Component::ParentDir => {
                out.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out
}

/// At most three names of devices that look like this one, the nearest first.
fn near_names(host: &Host, target: &str) -> Vec<String> {
    let target = target.trim_start_matches("/dev/");
    let mut near: Vec<(usize, String)> = host
        .sysfs()
        .all_devices()
        .unwrap_or_default()
        .into_iter()
        .filter_map(|name| {
            let distance = edit_distance(target, &name);
            // One letter of a short name is already much.
            (distance <= 1 + target.chars().count() / 6).then_some((distance, name))
        })
        .collect();
    near.sort();
    near.truncate(3);
    near.into_iter().map(|(_, name)| name).collect()
}

/// At most three names of devices that begin with this one.
fn longer_names(host: &Host, start: &str) -> Vec<String> {
    let mut names = host.sysfs().all_devices().unwrap_or_default();
    names.retain(|name| !start.is_empty() && name.starts_with(start));
    names.sort();
    names.truncate(3);
    names
}

/// Letters to insert, delete, exchange or swap with their neighbour to make one name of the other.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // The distances of the last two beginnings of `a` to every beginning of `b`.
    let (mut before, mut last) = (Vec::new(), (0..=b.len()).collect::<Vec<usize>>());
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let exchanged = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut distance = exchanged.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                distance = distance.min(before[j - 2] + 1);
            }
            row.push(distance);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::super::testing::machine;
    use super::*;

    #[test]
    fn what_is_there_and_is_no_block_device_is_called_what_it_is() {
        let host = Host::live();
        for (path, expected) in [
            ("/dev/null", "character device"),
            ("/proc", "directory"),
            ("/proc/self/stat", "file"),
        ] {
            let error = find(&host, path).unwrap_err();
            assert!(
                matches!(&error, DeviceError::NotBlock { what, .. } if *what == expected),
                "{error}"
            );
            assert_eq!(error.exit_code(), exit::NO_SUCH_DEVICE);
            assert!(error.hint().is_some());
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
            assert!(
                matches!(
                    error,
                    DeviceError::NoSuch { .. } | DeviceError::NoSuchPath { .. }
                ),
                "{error}"
            );
        }
    }

    #[test]
    fn a_directory_without_a_device_says_what_it_is_on() {
        let error = Target::find(&Host::live(), "/proc/self").unwrap_err();
        assert!(
            matches!(&error, DeviceError::NoBlockDevice { fs_type, .. } if fs_type == "proc"),
            "{error}"
        );
    }

    #[test]
    fn a_node_that_no_driver_stands_behind_is_not_taken_for_a_missing_file() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: needs root for mknod");
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
        let expected = DeviceNumber {
            major: 4000,
            minor: 7,
        };
        assert!(
            matches!(error, DeviceError::NoDriver { number, .. } if number == expected),
            "{error}"
        );
    }

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let host = machine("workstation");
        assert_eq!(near_names(&host, "sad"), ["sda"]);
        assert_eq!(near_names(&host, "sd"), ["sda", "sdb", "sdc"]);
        assert_eq!(near_names(&host, "/dev/nvme0n1p3")[0], "nvme0n1p1");
        assert_eq!(near_names(&host, "potato"), [""; 0]);
        assert_eq!(
            longer_names(&host, "nvme0"),
            ["nvme0n1", "nvme0n1p1", "nvme0n1p2"]
        );
    }

    #[test]
    fn the_distance_of_names_counts_letters() {
        assert_eq!(edit_distance("sda", "sda"), 0);
        assert_eq!(edit_distance("sda", "sdb1"), 2);
        assert_eq!(edit_distance("sad", "sda"), 1);
        assert_eq!(edit_distance("", "sda"), 3);
        assert_eq!(edit_distance("nvme0n1", "nvme1n1"), 1);
    }
}
