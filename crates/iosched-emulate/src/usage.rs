//! Who uses a block device right now: what has to end before it can be taken away.
//!
//! To the mounts, swap and holders that [`device`](iosched_machine::device) knows come the processes that have it
//! open: a disk that is measured has no file system on it.

use std::fmt;
use std::path::PathBuf;

use iosched_machine::device::{self, Device, OPENED_EXCLUSIVELY};
use iosched_machine::host::Host;
use iosched_machine::lock;
use iosched_machine::lossy;
use iosched_machine::process::ProcessStat;
use serde::Serialize;

/// One use of a device or of a partition of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "use")]
pub enum User {
    /// A file system on it is mounted.
    Mounted {
        /// The device or partition.
        device: String,
        /// The file or directory concerned.
        at: PathBuf,
    },
    /// Pages are swapped to it.
    Swap {
        /// The device or partition.
        device: String,
    },
    /// Another device stands on it (md, LVM, dm-crypt, bcache).
    Holder {
        /// The device or partition.
        device: String,
        /// What stands on it.
        holder: String,
    },
    /// A process has it open.
    Open {
        /// The device or partition.
        device: String,
        /// The process' command.
        command: String,
        /// The process.
        pid: i32,
    },
    /// Somebody whom we cannot name has it open exclusively.
    Exclusive {
        /// The device.
        device: String,
    },
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            User::Mounted { device, at } => write!(f, "{device} is mounted at {}", at.display()),
            User::Swap { device } => write!(f, "{device} is used as swap"),
            User::Holder { device, holder } => write!(f, "{holder} stands on {device}"),
            User::Open {
                device,
                command,
                pid,
            } => f.write_str(&lock::in_use_by(device, command, *pid, "open")),
            User::Exclusive { device } => {
                f.write_str(&lock::in_use(device, None, OPENED_EXCLUSIVELY))
            }
        }
    }
}

impl User {
    /// Several, with commas between.
    pub fn list(users: &[User]) -> String {
        let names: Vec<String> = users.iter().map(User::to_string).collect();
        names.join(", ")
    }

    /// True for udev's look at a device that has just changed, or that of a program which its rules run: it ends by
    /// itself.
    pub(super) fn is_passing(&self, host: &Host) -> bool {
        let User::Open { command, pid, .. } = self else {
            return false;
        };
        let is_udev = |command: &str| command.contains("udev");
        is_udev(command)
            || command == "blkid"
            || parent_command(host, *pid).is_some_and(|parent| is_udev(&parent))
    }
}

/// The command of whoever started a process.
fn parent_command(host: &Host, pid: i32) -> Option<String> {
    let parent = ProcessStat::read(host, pid)?.parent;
    lossy::read(host.proc(&format!("{parent}/comm"))).ok()
}

/// Everybody who uses `device` or anything that stands on it, except the processes in `ours`.
pub(super) fn users(host: &Host, device: &str, ours: &[i32]) -> Vec<User> {
    let Ok(device) = Device::read(host, device) else {
        return Vec::new();
    };
    let mut users: Vec<User> = device::users(host, &device)
        .into_iter()
        .map(User::from)
        .collect();
    let mut devices = vec![device.name.clone()];
    devices.extend(device.partitions.iter().cloned());
    users.extend(holders(host, &devices));
    users.extend(openers(host, &devices, ours));
    users
}

/// Where file systems on `device` are mounted, the last mounted first.
pub(super) fn mount_points(host: &Host, device: &str) -> Vec<(String, PathBuf)> {
    let Ok(device) = Device::read(host, device) else {
        return Vec::new();
    };
    let users = device::users(host, &device).into_iter().rev();
    users
        .filter_map(|user| match user {
            device::User::Mount {
                device,
                mount_point,
                ..
            } => Some((device, mount_point)),
            device::User::Swap { .. } => None,
        })
        .collect()
}

impl From<device::User> for User {
    fn from(user: device::User) -> User {
        match user {
            device::User::Mount {
                device,
                mount_point,
                ..
            } => User::Mounted {
                device,
                at: mount_point,
            },
            device::User::Swap { device, .. } => User::Swap { device },
        }
    }
}

fn holders(host: &Host, devices: &[String]) -> Vec<User> {
    let mut users = Vec::new();
    for device in devices {
        for holder in host.sysfs().list(device, "holders") {
            users.push(User::Holder {
                device: device.clone(),
                holder,
            });
        }
    }
    users
}

/// Processes that have one of the devices open, to read or to write.
fn openers(host: &Host, devices: &[String], ours: &[i32]) -> Vec<User> {
    let devices: Vec<Device> = devices
        .iter()
        .filter_map(|device| Device::read(host, device).ok())
        .collect();
    let openers = device::openers(host, &devices, ours).found.into_iter();
    openers
        .map(|opener| User::Open {
            device: opener.device,
            command: opener.command,
            pid: opener.pid,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    /// A machine with `loop8`, its partition `loop8p1`, and nobody who uses them.
    fn machine() -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().unwrap();
        for (dir, numbers) in [("loop8", "7:8"), ("loop8/loop8p1", "259:0")] {
            let dir = root.path().join("sys/block").join(dir);
            fs::create_dir_all(dir.join("holders")).unwrap();
            fs::write(dir.join("dev"), format!("{numbers}\n")).unwrap();
        }
        fs::write(root.path().join("sys/block/loop8/loop8p1/partition"), "1\n").unwrap();
        fs::create_dir_all(root.path().join("sys/class/block")).unwrap();
        for (name, target) in [("loop8", "loop8"), ("loop8p1", "loop8/loop8p1")] {
            let link = root.path().join("sys/class/block").join(name);
            symlink(Path::new("../../block").join(target), link).unwrap();
        }
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let host = Host::at(root.path());
        (root, host)
    }

    #[test]
    fn a_device_that_nobody_uses_has_no_users() {
        let (_root, host) = machine();
        assert_eq!(users(&host, "loop8", &[]), []);
    }

    #[test]
    fn mounts_count_also_of_partitions_and_come_off_in_reverse() {
        let (root, host) = machine();
        let table = "22 1 259:0 / /mnt/a\\040b rw - ext4 /dev/loop8p1 rw\n\
                     23 1 7:8 / /mnt/whole rw shared:1 - ext4 /dev/loop8 rw\n\
                     24 1 8:1 / /other rw - ext4 /dev/sda1 rw\n";
        fs::write(root.path().join("proc/self/mountinfo"), table).unwrap();
        let mut users: Vec<String> = users(&host, "loop8", &[])
            .iter()
            .map(User::to_string)
            .collect();
        users.sort();
        assert_eq!(
            users,
            [
                "loop8 is mounted at /mnt/whole",
                "loop8p1 is mounted at /mnt/a b"
            ]
        );
        assert_eq!(mount_points(&host, "loop8").len(), 2);
    }

    #[test]
    fn swap_holders_and_open_files_are_named() {
        let (root, host) = machine();
        let swaps = "Filename Type Size Used Priority\n/dev/loop8p1 partition 1 0 -2\n";
        fs::write(root.path().join("proc/swaps"), swaps).unwrap();
        fs::create_dir(root.path().join("sys/block/loop8/holders/dm-0")).unwrap();
        for (pid, name) in [(41, "fio"), (42, "iosched")] {
            let process = root.path().join("proc").join(pid.to_string());
            fs::create_dir_all(process.join("fd")).unwrap();
            fs::write(process.join("comm"), format!("{name}\n")).unwrap();
            symlink("/dev/loop8", process.join("fd/3")).unwrap();
        }
        let users: Vec<String> = users(&host, "loop8", &[42])
            .iter()
            .map(User::to_string)
            .collect();
        assert_eq!(
            users,
            [
                "loop8p1 is used as swap",
                "dm-0 stands on loop8",
                "loop8 is in use by fio (pid 41): open"
            ]
        );
    }

    #[test]
    fn what_udev_and_the_programs_of_its_rules_do_passes() {
        let (root, host) = machine();
        for (pid, name, parent) in [
            (40, "(udev-worker)", 1),
            (41, "probe-bcache", 40),
            (42, "(sh) S 40", 43),
            (43, "sh", 1),
            (44, "blkid", 43),
        ] {
            let process = root.path().join("proc").join(pid.to_string());
            fs::create_dir_all(process.join("fd")).unwrap();
            fs::write(process.join("comm"), format!("{name}\n")).unwrap();
            let stat = format!("{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9\n");
            fs::write(process.join("stat"), stat).unwrap();
            symlink("/dev/loop8", process.join("fd/3")).unwrap();
        }
        let mut passing: Vec<i32> = users(&host, "loop8", &[])
            .iter()
            .filter(|user| user.is_passing(&host))
            .map(|user| match user {
                User::Open { pid, .. } => *pid,
                other => panic!("{other}"),
            })
            .collect();
        passing.sort_unstable();
        assert_eq!(passing, [40, 41, 44]);
    }
}
