//! Why there is no device for what the user typed, and the way out.

use std::io;
use std::path::Path;

use super::DeviceNumber;
use super::near::near_names;
use crate::failure::{NO_PROC, Problem, exit};
use crate::host::Host;

const SEE_LIST: &str = "`iosched list --all` shows the devices of this machine";

fn no_device(message: String, hint: impl Into<String>) -> Problem {
    Problem::new(exit::NO_SUCH_DEVICE, message).hint(hint)
}

/// No ready command: which disk is meant is a guess, and most commands change it.
fn did_you_mean(near: &[String]) -> Option<String> {
    (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")))
}

/// No device has this name, or one like `name` in its place.
pub(super) fn no_such(host: &Host, target: &str, name: &str) -> Problem {
    let near = did_you_mean(&near_names(host, name));
    let message = format!("there is no block device {target}");
    no_device(message, near.unwrap_or_else(|| SEE_LIST.into()))
}

/// No device can have this name: it begins so: `is empty`.
pub(super) fn bad_name(target: &str, why: &str) -> Problem {
    let message = format!("{target:?} cannot be the name of a block device: it {why}");
    no_device(message, SEE_LIST)
}

/// It has a `/` where no device has one.
pub(super) fn misplaced_slash(target: &str) -> Problem {
    bad_name(target, "contains a / where no device has one").hint(
        "give a kernel name (sda), a path that begins with / (/dev/disk/by-id/…), or a directory that exists",
    )
}

/// What is there is something else: a `directory`, a `character device`.
pub(super) fn not_block(path: &Path, what: &str, near: &[String]) -> Problem {
    let message = format!("{} is not a block device but a {what}", path.display());
    let hint = match what {
        "directory" | "file" => {
            "this command needs the device; `iosched list` shows which one a mount is on"
        }
        _ => SEE_LIST,
    };
    no_device(message, did_you_mean(near).unwrap_or_else(|| hint.into()))
}

pub(super) fn no_driver(path: &Path, number: DeviceNumber) -> Problem {
    let path = path.display();
    no_device(
        format!("the kernel has no block device {number}, which {path} stands for"),
        "its driver may not be loaded, or the disk was taken out",
    )
}

/// It lies on a file system of this type, which is on no block device.
pub(super) fn no_block_device(path: &Path, mount_point: &Path, fs_type: &str) -> Problem {
    let message = format!(
        "{} is on {fs_type} (mounted on {}), which is not on a block device",
        path.display(),
        mount_point.display()
    );
    let hint = match fs_type {
        "zfs" => "ZFS does not tell the kernel its disks: name them (`zpool status` lists them)",
        _ => "name a directory on a disk of this machine, or the disk",
    };
    no_device(message, hint)
}

/// Somebody else can make the path stand for another device than this one.
pub(super) fn untrusted(target: &str, at: &Path, who: &str, device: &str) -> Problem {
    let at = at.display();
    let message = format!("refusing to take {target} for a device: {who} may change {at}");
    let hint = format!("it stands for {device} now: if you mean that, name {device}");
    Problem::new(exit::UNSAFE, message).hint(hint)
}

pub(super) fn no_such_path(path: &Path) -> Problem {
    let message = format!("{} does not exist", path.display());
    Problem::new(exit::NO_SUCH_DEVICE, message)
}

pub(super) fn unreadable(path: &Path, error: &io::Error) -> Problem {
    let message = format!("cannot read {}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Problem::new(exit::NOT_PERMITTED, message).hint("run it as root")
        }
        io::ErrorKind::NotFound if path.starts_with("/proc") => {
            Problem::new(exit::FAILURE, message).hint(NO_PROC)
        }
        _ => Problem::new(exit::FAILURE, message),
    }
}

/// Sysfs does not give this device.
pub(super) fn not_read(host: &Host, target: &str, error: &io::Error) -> Problem {
    if error.kind() == io::ErrorKind::NotFound {
        no_such(host, target, target)
    } else {
        unreadable(&host.sysfs().device_dir(target), error)
    }
}
