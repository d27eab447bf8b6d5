//! Who uses a device: mounts and swap, on it or on anything that stands on it.
//!
//! "Stands on it" is followed through partitions, holders (md, LVM, crypt, multipath, bcache) and loop
//! devices whose file lies on it. Mounts in other mount namespaces (containers) are not visible here; they
//! show when the device is opened exclusively, which [`refusals`](super::refusals) does.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Device;
use super::mounts::{MountTable, devices_below_file, unescape};
use super::node::name_of_node;
use crate::host::Host;
use crate::regular_file;

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
        /// Nothing can be written through this mount.
        #[serde(skip)]
        is_read_only: bool,
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
    pub(crate) fn device(&self) -> &str {
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
                ..
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

/// All uses of all devices of a machine, read once.
#[derive(Debug, Default)]
pub struct Usage {
    /// What is mounted from, or swapped to, each device itself, by kernel name.
    direct: HashMap<String, Vec<User>>,
    /// The loop devices whose file lies on each device.
    loops: HashMap<String, Vec<String>>,
}

impl Usage {
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
                        is_read_only: mount.is_read_only,
                    };
                    usage.direct.entry(device).or_default().push(user);
                }
            }
        }
        for SwapArea { path, is_device } in swap_areas(host) {
            // A node, or a file that lies on a file system.
            if let Some(device) = device_swapped_to(host, &path, is_device) {
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
}

/// The device whose node this path is. A node that was given to `swapon` in a mount namespace that we cannot see is
/// shown from the root of its mount: `/sdb2`, which is no path of ours.
fn device_swapped_to(host: &Host, path: &Path, is_device: bool) -> Option<String> {
    if let Ok(device) = name_of_node(host, path) {
        return Some(device);
    }
    let name = path.strip_prefix("/").ok()?.to_str()?;
    (is_device && host.sysfs().has_device(name)).then(|| name.to_owned())
}

/// A line of `/proc/swaps`.
struct SwapArea {
    path: PathBuf,
    /// The kernel says `partition` of every device, and `file` of the rest.
    is_device: bool,
}

fn swap_areas(host: &Host) -> Vec<SwapArea> {
    let text = regular_file::read(host.proc("swaps")).unwrap_or_default();
    text.split(|&byte| byte == b'\n')
        .skip(1) // the heading
        .filter_map(|line| {
            let mut words = line
                .split(u8::is_ascii_whitespace)
                .filter(|word| !word.is_empty());
            Some(SwapArea {
                path: unescape(words.next()?),
                is_device: words.next() == Some(b"partition"),
            })
        })
        .collect()
}

/// The paths that the kernel swaps to: nodes and files.
pub(super) fn swap_files(host: &Host) -> Vec<PathBuf> {
    let areas = swap_areas(host).into_iter();
    areas.map(|area| area.path).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::machine;
    use super::super::{Inventory, find, find_file_system, users};
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
    fn swap_that_another_mount_namespace_turned_on_is_of_its_device() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for path in ["sys/class/block/sdb", "sys/block/sdb", "proc/self"] {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        let lines = "Filename Type Size Used Priority\n/sdb partition 1 0 -2\n/sdb file 1 0 -3\n";
        std::fs::write(at("proc/swaps"), lines).unwrap();
        std::fs::write(at("proc/self/mountinfo"), "").unwrap();
        let usage = Inventory::read(&Host::at(dir.path())).unwrap().usage;
        let swap = User::Swap {
            device: "sdb".into(),
            file: None,
        };
        assert_eq!(
            usage.direct("sdb"),
            [swap],
            "a file of that name is another"
        );
    }
}
