//! Of what bigger thing a device is a part that the kernel does not tell: a ZFS pool, or an array, volume group or cache
//! that does not run. By what udev found written on it.

use std::fmt;

use serde::Serialize;

use super::content::SignatureClass;
use super::identity::udev_record;
use super::number::DeviceNumber;
use crate::host::Host;
use crate::sysfs::{DeviceDir, sysfs_name};

/// What a device is a part of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Member {
    /// As `blkid` calls it: `zfs_member`, `LVM2_member`, `bcache`.
    pub format: String,
    /// The name of the whole, where it has one: of a ZFS pool.
    pub label: Option<String>,
}

impl Member {
    /// Of a device, or of one of its partitions; none where something that the kernel knows stands on it.
    pub(super) fn of(
        host: &Host,
        dir: &DeviceDir,
        number: DeviceNumber,
        partitions: &[String],
    ) -> Option<Member> {
        let of_partition = |partition: &String| {
            let entry = sysfs_name(partition);
            let is_held = !dir.devices(&format!("{entry}/holders")).is_empty();
            let number = DeviceNumber::parse(&dir.text(&format!("{entry}/dev"))?)?;
            (!is_held).then(|| Member::written_on(host, number))?
        };
        let own = dir.devices("holders").is_empty();
        let own = own.then(|| Member::written_on(host, number)).flatten();
        own.or_else(|| partitions.iter().find_map(of_partition))
    }

    fn written_on(host: &Host, number: DeviceNumber) -> Option<Member> {
        let property = udev_record(host, number)?;
        let format = property("ID_FS_TYPE")?;
        let is_member = SignatureClass::of(&format) == SignatureClass::Member;
        // An encrypted volume that is closed is a part of nothing.
        (is_member && format != "crypto_LUKS" && format != "BitLocker").then(|| Member {
            label: property("ID_FS_LABEL"),
            format,
        })
    }

    /// True of a disk that ZFS has, or had.
    pub fn is_zfs(&self) -> bool {
        self.format == "zfs_member"
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.format.as_str() {
            "zfs_member" => "ZFS pool",
            "LVM2_member" | "LVM1_member" => "LVM volume group",
            "linux_raid_member" => "md array",
            "stratis" => "Stratis pool",
            "vdo" => "VDO volume",
            "drbd" => "DRBD volume",
            "ceph_bluestore" => "Ceph OSD",
            other => other.strip_suffix("_member").unwrap_or(other),
        })?;
        match &self.label {
            Some(label) => write!(f, " {label}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DeviceKind, find};
    use super::*;

    #[test]
    fn what_only_udev_knows_is_told_of_the_disk_and_a_zvol_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = dir.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        for (disk, number) in [("sda", 0), ("sdb", 16), ("zd0", 32)] {
            write(&format!("sys/block/{disk}/dev"), &format!("8:{number}\n"));
            write(
                &format!("sys/block/{disk}/{disk}1/dev"),
                &format!("8:{}\n", number + 1),
            );
            write(&format!("sys/block/{disk}/{disk}1/partition"), "1\n");
        }
        write(
            "run/udev/data/b8:1",
            "E:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=tank\n",
        );
        write("run/udev/data/b8:16", "E:ID_FS_TYPE=ext4\n");
        write("run/udev/data/b8:17", "E:ID_FS_TYPE=bcache\n");
        write("sys/block/sdb/sdb1/holders/bcache0", "");
        let host = Host::at(dir.path());
        let device = |name: &str| find(&host, name).unwrap();
        let member = device("sda").member.unwrap();
        assert!(member.is_zfs());
        assert_eq!(member.to_string(), "ZFS pool tank");
        assert_eq!(device("sdb").member, None);
        assert_eq!(device("zd0").kind, DeviceKind::Zvol);
    }
}
