//! From the path of a node, or of a link to one, to the kernel name of its device.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::DeviceNumber;
use super::error;
use super::near::near_names;
use crate::failure::Problem;
use crate::host::Host;

/// Opens a device so that nobody else can mount it or hold it; to be read only, because closing a writable descriptor
/// would wake udev.
///
/// # Errors
/// `EBUSY` where it is mounted or held, among others.
pub fn open_exclusively(node: &Path) -> io::Result<File> {
    open_for_oneself(node, OFlags::RDONLY | OFlags::NONBLOCK)
}

/// The same with other access.
pub(super) fn open_for_oneself(node: &Path, access: OFlags) -> io::Result<File> {
    let flags = access | OFlags::EXCL | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(node, flags, Mode::empty())?))
}

/// The kernel name of the device that a path's node stands for.
pub(super) fn name_of_node(host: &Host, path: &Path) -> Result<String, Problem> {
    let last = path.file_name().unwrap_or(OsStr::new("")).to_string_lossy();
    let no_such = || {
        if path.starts_with("/dev") {
            error::no_such(host, &path.display().to_string(), &last)
        } else {
            error::no_such_path(path)
        }
    };
    if !host.is_live() {
        let end = follow_links(host, path).ok_or_else(no_such)?;
        let name = end.strip_prefix("/dev").ok().and_then(Path::to_str);
        return match name.filter(|name| host.sysfs().has_device(name)) {
            Some(name) => Ok(name.to_owned()),
            None => Err(what_is(&host.path(&end))
                .map_or_else(|_| no_such(), |what| error::not_block(path, what, &[]))),
        };
    }
    let meta = std::fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => no_such(),
        _ => error::unreadable(path, &error),
    })?;
    if !meta.file_type().is_block_device() {
        // `/dev/nvme0` is the controller of `nvme0n1`.
        let is_character = meta.file_type().is_char_device();
        let near = is_character.then(|| near_names(host, &last));
        let what = what_is(path).unwrap_or("file");
        return Err(error::not_block(path, what, &near.unwrap_or_default()));
    }
    let number = DeviceNumber::of_raw(meta.rdev());
    let name = host.sysfs().device_with_number(number.major, number.minor);
    name.ok_or_else(|| error::no_driver(path, number))
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
