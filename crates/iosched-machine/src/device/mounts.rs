//! What is mounted, from which devices, and which mount a path is on.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat, syncfs};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use serde::Serialize;

use super::DeviceNumber;
use super::node::name_of_node;
use crate::beneath;
use crate::host::Host;
use crate::regular_file;

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// The kernel's number of the mount itself.
    #[serde(skip)]
    pub id: u64,
    /// That of the mount that it stands on.
    #[serde(skip)]
    parent: u64,
    /// The number of the device, or one with major 0 that stands for none.
    pub number: DeviceNumber,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The type of file system: `ext4`.
    pub fs_type: String,
    /// What was mounted: a node, usually.
    pub source: PathBuf,
    /// The directory (or file) of the file system that is mounted there.
    #[serde(skip)]
    pub(super) root: PathBuf,
    /// What the file system says of how it was mounted.
    #[serde(skip)]
    pub(super) options: Vec<u8>,
    /// Nothing can be written through it.
    pub is_read_only: bool,
}

/// A mount that is held: whatever stands at its path meanwhile, this is the one.
#[derive(Debug)]
pub struct HeldMount(OwnedFd);

impl HeldMount {
    /// The mount of a device at a path; none if another stands there, or nothing, or the path leads through a link:
    /// somebody may have moved directories since it was read.
    pub fn of(host: &Host, device: &str, mount_point: &Path) -> io::Result<Option<HeldMount>> {
        let held = match beneath::hold_path(mount_point) {
            Ok(held) => held,
            Err(error) => {
                let errno = Errno::from_io_error(&error);
                let is_moved = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::XDEV];
                return match errno {
                    Some(errno) if is_moved.contains(&errno) => Ok(None),
                    _ => Err(error),
                };
            }
        };
        let table = MountTable::read(host)?;
        let is_it = |mount: &Mount| table.devices_of(host, mount).iter().any(|of| of == device);
        let found = if let Some(id) = mount_id(&held)? {
            table
                .mounts
                .iter()
                .any(|mount| mount.id == id && is_it(mount))
        } else {
            // Linux before 3.15 does not say it: file systems of one device have its number.
            let number = DeviceNumber::of_raw(rustix::fs::fstat(&held)?.st_dev);
            table.with_number(number).is_some_and(is_it)
        };
        Ok(found.then_some(HeldMount(held)))
    }

    /// Takes it away now, with what is mounted below it; what is open in it goes on until it is closed.
    pub fn detach(&self) -> io::Result<()> {
        match unmount(of_descriptor("fd", &self.0), UnmountFlags::DETACH) {
            Err(Errno::INVAL | Errno::NOENT) => Ok(()), // somebody did it just now
            other => Ok(other?),
        }
    }

    /// Has what is dirty in its file system written.
    pub fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(&self.0, ".", flags, Mode::empty())?;
        Ok(syncfs(opened)?)
    }
}

/// What `/proc` has of a descriptor. Of this thread (Linux 3.17): the first one of a server may have ended before the
/// others, and `/proc/self` is empty then.
fn of_descriptor(directory: &str, held: &OwnedFd) -> String {
    let number = held.as_raw_fd();
    let of_thread = format!("/proc/thread-self/{directory}/{number}");
    if Path::new(&of_thread).symlink_metadata().is_ok() {
        return of_thread;
    }
    format!("/proc/self/{directory}/{number}")
}

/// The number of the mount that a descriptor is on.
fn mount_id(held: &OwnedFd) -> io::Result<Option<u64>> {
    let about = std::fs::read_to_string(of_descriptor("fdinfo", held))?;
    let id = about.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    Ok(id.and_then(|id| id.trim().parse().ok()))
}

/// All mounts that we see, findable by path and by numbers.
#[derive(Debug, Default)]
pub struct MountTable {
    pub(crate) mounts: Vec<Mount>,
    by_point: HashMap<PathBuf, usize>,
    by_id: HashMap<u64, usize>,
    by_number: HashMap<DeviceNumber, usize>,
    /// The members of each btrfs, by each of them.
    btrfs: HashMap<String, Vec<String>>,
}

impl MountTable {
    /// What is mounted here: `/proc/self/mountinfo`.
    pub fn read(host: &Host) -> io::Result<MountTable> {
        let mut table = MountTable::of(&regular_file::read(host.proc("self/mountinfo"))?);
        let sysfs = host.sysfs();
        if table.mounts.iter().any(|mount| mount.fs_type == "btrfs") {
            for id in sysfs.entries("fs/btrfs") {
                let members: Vec<String> = sysfs
                    .entries(&format!("fs/btrfs/{id}/devices"))
                    .iter()
                    .map(|name| crate::sysfs::kernel_name(name))
                    .collect();
                for member in &members {
                    table.btrfs.insert(member.clone(), members.clone());
                }
            }
        }
        Ok(table)
    }

    /// What the text of `mountinfo` says.
    pub(crate) fn of(text: &[u8]) -> MountTable {
        let mut table = MountTable::default();
        for mount in text.split(|&byte| byte == b'\n').filter_map(parse_mount) {
            let at = table.mounts.len();
            // A later mount on the same point hides the earlier one.
            table.by_point.insert(mount.mount_point.clone(), at);
            table.by_number.entry(mount.number).or_insert(at);
            table.by_id.insert(mount.id, at);
            table.mounts.push(mount);
        }
        table
    }

    /// The mount that a path without links is on.
    pub fn containing(&self, path: &Path) -> Option<&Mount> {
        path.ancestors()
            .find_map(|above| self.by_point.get(above))
            .map(|&at| &self.mounts[at])
    }

    /// The mount of the file system with this device number, if there is one.
    pub fn with_number(&self, number: DeviceNumber) -> Option<&Mount> {
        self.by_number.get(&number).map(|&at| &self.mounts[at])
    }

    /// The mount with this number of its own.
    pub(super) fn with_id(&self, id: u64) -> Option<&Mount> {
        self.by_id.get(&id).map(|&at| &self.mounts[at])
    }

    /// File systems of other devices that stand below a mount of one of these, and go with it when that is detached.
    pub fn of_others_below(&self, host: &Host, devices: &[&str]) -> Vec<&Mount> {
        let is_theirs = |mount: &Mount| {
            let of = self.devices_of(host, mount);
            of.iter().any(|of| devices.contains(&of.as_str()))
        };
        let of_devices = self.mounts.iter().filter(|mount| is_theirs(mount));
        let mut going: HashSet<u64> = of_devices.map(|mount| mount.id).collect();
        loop {
            let stands_on = |mount: &&Mount| going.contains(&mount.parent);
            let below = self.mounts.iter().filter(stands_on);
            let new: Vec<u64> = below.map(|mount| mount.id).collect();
            let known = going.len();
            going.extend(new);
            if going.len() == known {
                break;
            }
        }
        let goes = |mount: &&Mount| going.contains(&mount.id) && !is_theirs(mount);
        let others = self.mounts.iter().filter(goes);
        others
            .filter(|mount| !self.devices_of(host, mount).is_empty())
            .collect()
    }

    /// The kernel names of the devices a file system is on; none for `tmpfs`, `nfs` and their like.
    pub(super) fn devices_of(&self, host: &Host, mount: &Mount) -> Vec<String> {
        let DeviceNumber { major, minor } = mount.number;
        if major != 0 {
            return host
                .sysfs()
                .device_with_number(major, minor)
                .or_else(|| name_of_node(host, &mount.source).ok())
                .into_iter()
                .collect();
        }
        // File systems over several devices have a number of their own; their source is one of the
        // devices, or all of them with colons between.
        let sources: Vec<&Path> = match mount.fs_type.as_str() {
            "btrfs" => vec![&mount.source],
            "bcachefs" => mount
                .source
                .as_os_str()
                .as_bytes()
                .split(|&byte| byte == b':')
                .map(|part| Path::new(std::ffi::OsStr::from_bytes(part)))
                .collect(),
            _ => return Vec::new(),
        };
        let mut names = Vec::new();
        for name in sources
            .into_iter()
            .filter_map(|source| name_of_node(host, source).ok())
        {
            match self.btrfs.get(&name) {
                Some(members) => names.extend(members.iter().cloned()),
                None => names.push(name),
            }
        }
        names
    }
}

/// The kernel names of the devices that a loop device's file lies on, or is.
pub(super) fn devices_below_file(host: &Host, mounts: &MountTable, file: &Path) -> Vec<String> {
    let bytes = file.as_os_str().as_bytes();
    let file = bytes
        .strip_suffix(b" (deleted)")
        .map_or(file, |bytes| Path::new(std::ffi::OsStr::from_bytes(bytes)));
    if file.starts_with("/dev")
        && let Ok(device) = name_of_node(host, file)
    {
        return vec![device];
    }
    mounts
        .containing(file)
        .map(|mount| mounts.devices_of(host, mount))
        .unwrap_or_default()
}

/// `36 35 98:0 /root /mount rw,noatime shared:1 - ext3 /dev/root rw`: the fields after the sixth are
/// optional up to a `-`.
fn parse_mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let parent = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let number = DeviceNumber::parse(std::str::from_utf8(fields.next()?).ok()?)?;
    let root = unescape(fields.next()?);
    let mount_point = unescape(fields.next()?);
    let has_ro = |options: &[u8]| {
        options
            .split(|&byte| byte == b',')
            .any(|option| option == b"ro")
    };
    let is_read_only = has_ro(fields.next()?);
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    Some(Mount {
        id,
        parent,
        number,
        mount_point,
        is_read_only,
        fs_type: String::from_utf8_lossy(fields.next()?).into_owned(),
        source: unescape(fields.next()?),
        options: fields.next().unwrap_or_default().to_vec(),
        root,
    })
}

/// Undoes the kernel's `\040` for a blank (and tab, newline, backslash, `#`).
pub(super) fn unescape(text: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let code = (byte == b'\\')
            .then(|| after.get(..3))
            .flatten()
            .and_then(|octal| u8::from_str_radix(std::str::from_utf8(octal).ok()?, 8).ok());
        if let Some(code) = code {
            out.push(code);
            rest = &after[3..];
        } else {
            out.push(byte);
            rest = after;
        }
    }
    std::ffi::OsString::from_vec(out).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_below_a_mount_is_found_by_the_tree_and_not_by_paths() {
        let root = tempfile::tempdir().unwrap();
        for (name, number) in [("sda", "8:0"), ("sdb", "8:16"), ("loop3", "7:3")] {
            let dir = root.path().join("sys/block").join(name);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("dev"), number).unwrap();
        }
        let host = Host::at(root.path());
        let table = MountTable::of(
            b"1 0 8:0 / / rw - ext4 /dev/sda rw\n\
              2 1 8:16 / /mnt/hidden rw - ext4 /dev/sdb rw\n\
              3 1 7:3 / /mnt rw - ext4 /dev/loop3 rw\n\
              4 3 0:5 / /mnt/tmp rw - tmpfs none rw\n\
              5 4 8:16 / /mnt/tmp/sdb rw - ext4 /dev/sdb rw\n\
              6 3 7:3 /a /mnt/b rw - ext4 /dev/loop3 rw\n",
        );
        let below = |device| -> Vec<u64> {
            let below = table.of_others_below(&host, &[device]).into_iter();
            below.map(|mount| mount.id).collect()
        };
        assert_eq!(below("loop3"), [5], "not the one that it hides");
        assert_eq!(below("sdb"), [] as [u64; 0]);
        assert_eq!(below("sda"), [2, 3, 5, 6]);
    }

    #[test]
    fn escapes_of_the_kernel_are_undone_and_half_ones_are_left() {
        assert_eq!(unescape(br"/a\040b\134"), Path::new(r"/a b\"));
        assert_eq!(unescape(br"/a\04"), Path::new(r"/a\04"));
        assert_eq!(unescape(br"/a\999"), Path::new(r"/a\999"));
    }
}
