//! Why there is no device for what the user typed, and the way out.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::DeviceNumber;
use super::near::near_names;
use crate::failure::{Failure, NO_PROC, exit};
use crate::host::Host;

/// Why there is no device for what the user typed.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum DeviceError {
    #[error("there is no block device {target}")]
    NoSuch { target: String, near: Vec<String> },
    #[error("{target:?} cannot be the name of a block device: it {why}")]
    BadName { target: String, why: BadName },
    #[error("{} is not a block device but a {what}", path.display())]
    NotBlock {
        path: PathBuf,
        /// What it is: `character device`, `directory` …
        what: &'static str,
        near: Vec<String>,
    },
    #[error("the kernel has no block device {number}, which {} stands for", path.display())]
    NoDriver { path: PathBuf, number: DeviceNumber },
    #[error(
        "{} is on {fs_type} (mounted on {}), which is not on a block device",
        path.display(),
        mount_point.display()
    )]
    NoBlockDevice {
        path: PathBuf,
        mount_point: PathBuf,
        /// `tmpfs`, `overlay`, `nfs4` …
        fs_type: String,
    },
    /// Somebody else can make the path stand for another device.
    #[error("refusing to take {target} for a device: {who} may change {}", at.display())]
    UntrustedPath {
        target: String,
        at: PathBuf,
        who: String,
        /// Kernel name of the device that it stands for now.
        device: String,
    },
    #[error("{} does not exist", path.display())]
    NoSuchPath { path: PathBuf },
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
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
        // No ready command: which disk is meant is a guess, and most commands change it.
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
            DeviceError::UntrustedPath { device, .. } => Some(format!(
                "it stands for {device} now: if you mean that, name {device}"
            )),
            DeviceError::NoSuchPath { .. } => None,
            DeviceError::Unreadable { path, source } => match source.kind() {
                io::ErrorKind::PermissionDenied => Some("run it as root".to_owned()),
                io::ErrorKind::NotFound if path.starts_with("/proc") => Some(NO_PROC.to_owned()),
                _ => None,
            },
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
            DeviceError::UntrustedPath { .. } => exit::UNSAFE,
            _ => exit::NO_SUCH_DEVICE,
        }
    }
}

const SEE_LIST: &str = "`iosched list --all` shows the devices of this machine";

impl DeviceError {
    pub(super) fn from_read(host: &Host, target: &str, error: io::Error) -> DeviceError {
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
