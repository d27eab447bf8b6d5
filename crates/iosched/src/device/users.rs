//! Who uses a device: mounts and swap, on it or on anything that stands on it.
//!
//! "Stands on it" is followed through partitions, holders (md, LVM, crypt, multipath, bcache) and loop
//! devices whose file lies on it. Mounts in other mount namespaces (containers) are not visible here; they
//! show when the device is opened exclusively, which [`refusals`](super::refusals) does.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::find::name_of_node;
use super::stack::{LiveSource, Source};
use super::{Device, DeviceNumber};
use crate::host::Host;
use crate::sysfs::natural_order;

/// One use of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum User {
    /// A file system on it is mounted.
    Mount {
        /// The device the file system is on: the one asked for, or one that stands on it.
        device: String,
        /// Where it is mounted.
        mount_point: PathBuf,
        /// Its type: `ext4`.
        fs_type: String,
    },
    /// The kernel swaps to it.
    Swap {
        /// The device the swap is on.
        device: String,
        /// The swap file, if it is one.
        file: Option<PathBuf>,
    },
}

impl User {
    /// The device that is mounted or swapped to.
    pub fn device(&self) -> &str {
        match self {
            User::Mount { device, .. } | User::Swap { device, .. } => device,
        }
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            User::Mount {
                device,
                mount_point,
                fs_type,
            } => write!(
                f,
                "{device} ({fs_type}) is mounted on {}",
                mount_point.display()
            ),
            User::Swap { device, file: None } => write!(f, "{device} is swap"),
            User::Swap {
                device,
                file: Some(file),
            } => write!(f, "{device} has the swap file {}", file.display()),
        }
    }
}

/// The mounts and swap that depend on a device, through the whole stack upwards.
pub fn users(host: &Host, device: &Device) -> Vec<User> {
    Usage::read(host).above(host, device)
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// The number of the device, or one with major 0 that stands for none.
    pub number: DeviceNumber,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The type of file system: `ext4`.
    pub fs_type: String,
    /// What was mounted: a node, usually.
    pub source: PathBuf,
}

/// All mounts that we see, findable by path and by number.
#[derive(Debug, Default)]
pub(super) struct MountTable {
    mounts: Vec<Mount>,
    by_point: HashMap<PathBuf, usize>,
    by_number: HashMap<DeviceNumber, usize>,
    /// The members of each btrfs, by each of them.
    btrfs: HashMap<String, Vec<String>>,
}

/// All uses of all devices of a machine, read once.
#[derive(Debug, Default)]
pub struct Usage {
    /// What is mounted from, or swapped to, each device itself, by kernel name.
    direct: HashMap<String, Vec<User>>,
    /// The loop devices whose file lies on each device.
    loops: HashMap<String, Vec<String>>,
}

impl Usage {
    /// Reads mounts, swap and loop devices. What cannot be read has no users.
    pub fn read(host: &Host) -> Usage {
        let sysfs = host.sysfs();
        let loops: Vec<Device> = sysfs
            .block_devices()
            .unwrap_or_default()
            .iter()
            .filter(|name| name.starts_with("loop"))
            .filter_map(|name| Device::read_with(host, &sysfs, name).ok())
            .collect();
        let mounts = MountTable::read(host).unwrap_or_default();
        Usage::of(host, &mounts, &loops)
    }

    /// From mounts and devices that were read already.
    pub(super) fn of(host: &Host, mounts: &MountTable, devices: &[Device]) -> Usage {
        let mut usage = Usage::default();
        let mut seen = HashSet::new();
        for mount in &mounts.mounts {
            for device in mounts.devices_of(host, mount) {
                if seen.insert((device.clone(), &mount.mount_point)) {
                    let user = User::Mount {
                        device: device.clone(),
                        mount_point: mount.mount_point.clone(),
                        fs_type: mount.fs_type.clone(),
                    };
                    usage.direct.entry(device).or_default().push(user);
                }
            }
        }
        for path in read_swaps(host) {
            // A node, or a file that lies on a file system.
            if let Ok(device) = name_of_node(host, &path) {
                let user = User::Swap {
                    device: device.clone(),
                    file: None,
                };
                usage.direct.entry(device).or_default().push(user);
            } else if let Some(mount) = mounts.containing(&path) {
                for device in mounts.devices_of(host, mount) {
                    let user = User::Swap {
                        device: device.clone(),
                        file: Some(path.clone()),
                    };
                    usage.direct.entry(device).or_default().push(user);
                }
            }
        }
        for device in devices {
            if let Some(file) = &device.backing_file {
                for below in devices_below_file(host, mounts, file) {
                    let loops = usage.loops.entry(below).or_default();
                    loops.push(device.name.clone());
                }
            }
        }
        usage
    }

    /// What is mounted from, or swapped to, this device itself.
    pub fn direct(&self, device: &str) -> &[User] {
        self.direct.get(device).map_or(&[], Vec::as_slice)
    }

    /// The loop devices whose file lies on a file system of this device, or is this device.
    pub fn loops(&self, device: &str) -> &[String] {
        self.loops.get(device).map_or(&[], Vec::as_slice)
    }

    /// What depends on this device: itself, its partitions, and all that stands on them.
    pub fn above(&self, host: &Host, device: &Device) -> Vec<User> {
        names_above(&LiveSource::new(host), device, self)
            .iter()
            .flat_map(|name| self.direct(name))
            .cloned()
            .collect()
    }
}

/// The device itself and everything that stands on it, each once, nearest first.
pub(super) fn names_above(source: &impl Source, device: &Device, usage: &Usage) -> Vec<String> {
    let mut names = vec![device.name.clone()];
    let mut seen: HashSet<String> = names.iter().cloned().collect();
    let mut next = 0;
    while next < names.len() {
        let name = names[next].clone();
        next += 1;
        let mut above: Vec<String> = usage.loops(&name).to_vec();
        if let Ok(found) = source.device(&name) {
            above.extend(found.partitions.iter().chain(&found.holders).cloned());
        }
        above.sort_by(|a, b| natural_order(a, b));
        names.extend(above.into_iter().filter(|name| seen.insert(name.clone())));
    }
    names
}

impl MountTable {
    pub(super) fn read(host: &Host) -> io::Result<MountTable> {
        let text = std::fs::read(host.proc("self/mountinfo"))?;
        let mut table = MountTable::default();
        for mount in text.split(|&byte| byte == b'\n').filter_map(parse_mount) {
            let at = table.mounts.len();
            // A later mount on the same point hides the earlier one.
            table.by_point.insert(mount.mount_point.clone(), at);
            table.by_number.entry(mount.number).or_insert(at);
            table.mounts.push(mount);
        }
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

    /// The mount that a path without links is on.
    pub(super) fn containing(&self, path: &Path) -> Option<&Mount> {
        path.ancestors()
            .find_map(|above| self.by_point.get(above))
            .map(|&at| &self.mounts[at])
    }

    pub(super) fn with_number(&self, number: DeviceNumber) -> Option<&Mount> {
        self.by_number.get(&number).map(|&at| &self.mounts[at])
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

/// The paths that the kernel swaps to.
fn read_swaps(host: &Host) -> Vec<PathBuf> {
    let text = std::fs::read(host.proc("swaps")).unwrap_or_default();
    text.split(|&byte| byte == b'\n')
        .skip(1) // the heading
        .filter_map(|line| {
            let path = line.split(u8::is_ascii_whitespace).next()?;
            (!path.is_empty()).then(|| unescape(path))
        })
        .collect()
}

/// `36 35 98:0 /root /mount rw,noatime shared:1 - ext3 /dev/root rw`: the fields after the sixth are
/// optional up to a `-`.
fn parse_mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let number = DeviceNumber::parse(std::str::from_utf8(fields.nth(2)?).ok()?)?;
    let mount_point = unescape(fields.nth(1)?);
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    Some(Mount {
        number,
        mount_point,
        fs_type: String::from_utf8_lossy(fields.next()?).into_owned(),
        source: unescape(fields.next()?),
    })
}

/// Undoes the kernel's `\040` for a blank (and tab, newline, backslash, `#`).
fn unescape(text: &[u8]) -> PathBuf {
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
    use super::super::testing::machine;
    use super::super::{find, find_file_system};
    use super::*;

    fn users_of(name: &str, device: &str) -> Vec<String> {
        let host = machine(name);
        let device = find(&host, device).unwrap();
        users(&host, &device)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn mounts_and_swap_are_found_through_the_whole_stack_above() {
        assert_eq!(
            users_of("lvm-on-crypt", "nvme0n1"),
            [
                "nvme0n1p1 (vfat) is mounted on /boot/efi",
                "nvme0n1p2 (ext4) is mounted on /boot",
                "dm-1 (ext4) is mounted on /",
                "dm-2 is swap",
                "dm-3 (ext4) is mounted on /home",
                "dm-3 (ext4) is mounted on /var/lib/containers",
            ]
        );
        assert_eq!(
            users_of("md-raid", "sdd"),
            ["md1p1 (xfs) is mounted on /srv"]
        );
        assert_eq!(
            users_of("dm-multipath", "sdc"),
            ["dm-2 (xfs) is mounted on /var/lib/mysql"]
        );
        assert_eq!(
            users_of("nvme-multipath", "nvme0c1n1"),
            ["nvme0n1p1 (xfs) is mounted on /srv"]
        );
        assert_eq!(users_of("md-raid", "md127"), [""; 0]);
    }

    #[test]
    fn a_loop_device_mounted_from_a_file_uses_the_disk_below_the_file() {
        assert_eq!(
            users_of("virtual-machine", "vda"),
            [
                "vda1 (ext4) is mounted on /",
                "loop0 (squashfs) is mounted on /snap/core22/1748",
            ]
        );
    }

    #[test]
    fn a_file_system_over_several_devices_uses_all_of_them() {
        assert_eq!(
            users_of("workstation", "sdb"),
            ["sdb1 (btrfs) is mounted on /home"]
        );
        let host = machine("workstation");
        let home = find_file_system(&host, Path::new("/home/anna")).unwrap();
        let devices: Vec<&str> = home.devices.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(devices, ["sda1", "sdb1"]);
    }

    #[test]
    fn a_swap_file_with_a_blank_in_its_name_uses_the_disk_it_lies_on() {
        assert_eq!(
            users_of("workstation", "nvme0n1p2"),
            [
                "nvme0n1p2 (ext4) is mounted on /",
                "nvme0n1p2 has the swap file /var/swap file",
            ]
        );
    }

    #[test]
    fn a_partition_is_not_used_by_what_is_on_its_neighbour() {
        assert_eq!(
            users_of("lvm-on-crypt", "nvme0n1p1"),
            ["nvme0n1p1 (vfat) is mounted on /boot/efi"]
        );
    }

    #[test]
    fn escapes_of_the_kernel_are_undone_and_half_ones_are_left() {
        assert_eq!(unescape(br"/a\040b\134"), Path::new(r"/a b\"));
        assert_eq!(unescape(br"/a\04"), Path::new(r"/a\04"));
        assert_eq!(unescape(br"/a\999"), Path::new(r"/a\999"));
    }
}
