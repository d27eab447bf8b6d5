//! What a device is: by the directories that its driver adds, and by its name.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::is_number;
use crate::sysfs::DeviceDir;

/// What a device is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A whole disk of any sort that is not below.
    Disk,
    /// A partition of a disk.
    Partition,
    /// Linux software RAID.
    MdRaid {
        /// `raid1`, `raid5`, `linear` …; absent while it is not running.
        level: Option<String>,
    },
    /// A logical volume (device mapper, by the prefix of its uuid).
    Lvm,
    /// An encrypted volume.
    Crypt,
    /// Several paths to one disk, joined by the device mapper.
    Multipath,
    /// Another device-mapper device, with the prefix of its uuid (`DMRAID`, `part1`, `VDO` …).
    DeviceMapper {
        /// What its uuid begins with; absent where it has none.
        prefix: Option<String>,
    },
    /// A file, or another device, served as a disk.
    Loop,
    /// Compressed memory.
    Zram,
    /// Memory (`ram0`, `pmem0`).
    Memory,
    /// The head of an NVMe disk that may have several paths.
    NvmeHead,
    /// One path to an NVMe disk: hidden, without a node in `/dev`.
    NvmePath {
        /// The name of its head.
        head: String,
    },
    /// A disk with a cache before it.
    Bcache,
    /// A volume of a ZFS pool.
    Zvol,
    /// A disk mirrored over the network.
    Drbd,
    /// A disk served over the network (`nbd`, `rbd`).
    Network,
    /// A CD, DVD or BD drive.
    Optical,
    /// A floppy drive.
    Floppy,
}

/// What a device is, by the directories that its driver adds and by its name.
pub(super) fn kind(
    dir: &DeviceDir,
    name: &str,
    is_partition: bool,
    entries: &[String],
) -> DeviceKind {
    let has = |entry: &str| entries.iter().any(|e| e == entry);
    if is_partition {
        return DeviceKind::Partition;
    }
    if has("dm") {
        return device_mapper_kind(dir.text("dm/uuid").as_deref());
    }
    if has("md") {
        return DeviceKind::MdRaid {
            level: dir.text("md/level"),
        };
    }
    if let Some(head) = nvme_head_of(name) {
        return DeviceKind::NvmePath { head };
    }
    if name.starts_with("nvme") && in_subsystem(dir.location()) {
        return DeviceKind::NvmeHead;
    }
    let (driver, rest) = name.split_at(
        name.find(|c: char| c.is_ascii_digit())
            .unwrap_or(name.len()),
    );
    match driver {
        "loop" => DeviceKind::Loop,
        "zram" => DeviceKind::Zram,
        "ram" | "pmem" => DeviceKind::Memory,
        "bcache" => DeviceKind::Bcache,
        "drbd" => DeviceKind::Drbd,
        "zd" if is_number(rest) => DeviceKind::Zvol,
        "nbd" | "rbd" => DeviceKind::Network,
        "sr" if is_number(rest) => DeviceKind::Optical,
        "fd" if is_number(rest) => DeviceKind::Floppy,
        _ => DeviceKind::Disk,
    }
}

/// What a device-mapper device is: the part of its uuid before the first `-` says who made it.
fn device_mapper_kind(uuid: Option<&str>) -> DeviceKind {
    let prefix = uuid
        .and_then(|uuid| uuid.split_once('-'))
        .map(|(prefix, _)| prefix);
    match prefix {
        Some("LVM") => DeviceKind::Lvm,
        Some("CRYPT") => DeviceKind::Crypt,
        Some("mpath") => DeviceKind::Multipath,
        other => DeviceKind::DeviceMapper {
            prefix: other.map(str::to_owned),
        },
    }
}

/// The head of an NVMe path: `nvme0n1` for `nvme0c1n1` (subsystem 0, controller 1, namespace 1).
fn nvme_head_of(name: &str) -> Option<String> {
    let rest = name.strip_prefix("nvme")?;
    let (subsystem, rest) = rest.split_once('c')?;
    let (controller, namespace) = rest.split_once('n')?;
    [subsystem, controller, namespace]
        .iter()
        .all(|part| is_number(part))
        .then(|| format!("nvme{subsystem}n{namespace}"))
}

/// True for a device that hangs from an NVMe subsystem, not from one controller.
fn in_subsystem(location: &Path) -> bool {
    location
        .parent()
        .and_then(Path::file_name)
        .is_some_and(|parent| parent.to_string_lossy().starts_with("nvme-subsys"))
}

/// In a few words: `raid1`, `LVM`, `NVMe path of nvme0n1`.
impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceKind::Disk => f.write_str("disk"),
            DeviceKind::Partition => f.write_str("partition"),
            DeviceKind::MdRaid { level: Some(level) } => write!(f, "md {level}"),
            DeviceKind::MdRaid { level: None } => f.write_str("md raid"),
            DeviceKind::Lvm => f.write_str("LVM"),
            DeviceKind::Crypt => f.write_str("crypt"),
            DeviceKind::Multipath => f.write_str("multipath"),
            DeviceKind::DeviceMapper {
                prefix: Some(prefix),
            } => write!(f, "dm {prefix}"),
            DeviceKind::DeviceMapper { prefix: None } => f.write_str("dm"),
            DeviceKind::Loop => f.write_str("loop"),
            DeviceKind::Zram => f.write_str("zram"),
            DeviceKind::Memory => f.write_str("memory"),
            DeviceKind::NvmeHead => f.write_str("NVMe head"),
            DeviceKind::NvmePath { head } => write!(f, "NVMe path of {head}"),
            DeviceKind::Bcache => f.write_str("bcache"),
            DeviceKind::Zvol => f.write_str("zvol"),
            DeviceKind::Drbd => f.write_str("DRBD"),
            DeviceKind::Network => f.write_str("network disk"),
            DeviceKind::Optical => f.write_str("optical"),
            DeviceKind::Floppy => f.write_str("floppy"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_nvme_path_tells_its_head() {
        assert_eq!(nvme_head_of("nvme0c1n2").as_deref(), Some("nvme0n2"));
        assert_eq!(nvme_head_of("nvme0n1"), None);
        assert_eq!(nvme_head_of("nvme0c1"), None);
        assert_eq!(nvme_head_of("nvmecn"), None);
    }
}
