//! The names of partitions and of the disks that they lie on.

use std::path::Path;

use super::is_number;
use crate::sysfs::{kernel_name, sysfs_name};

/// The disk that a partition lies on: the directory above its own, or its name without the number.
pub(super) fn disk_of_partition(location: &Path, name: &str) -> String {
    let above = location
        .parent()
        .and_then(Path::file_name)
        .map(|disk| kernel_name(&disk.to_string_lossy()))
        .filter(|disk| is_partition_of(&sysfs_name(name), &sysfs_name(disk)));
    above.unwrap_or_else(|| {
        let disk = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let before = disk.strip_suffix('p').unwrap_or(disk);
        // `nvme0n1p2` is on `nvme0n1`, but `sdp2` is on `sdp`.
        if before.ends_with(|c: char| c.is_ascii_digit()) {
            before.to_owned()
        } else {
            disk.to_owned()
        }
    })
}

/// True if `name` is `disk` and a partition number, with a `p` between them if the disk's name ends
/// with a digit.
pub(super) fn is_partition_of(name: &str, disk: &str) -> bool {
    name.strip_prefix(disk).is_some_and(|rest| {
        let rest = if disk.ends_with(|c: char| c.is_ascii_digit()) {
            rest.strip_prefix('p').unwrap_or("")
        } else {
            rest
        };
        is_number(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_name_tells_its_disk() {
        for (partition, disk) in [
            ("sda1", "sda"),
            ("sdp12", "sdp"),
            ("nvme0n1p2", "nvme0n1"),
            ("cciss/c0d0p1", "cciss/c0d0"),
            ("mmcblk0p1", "mmcblk0"),
            ("md0p1", "md0"),
        ] {
            assert_eq!(disk_of_partition(Path::new(""), partition), disk);
            assert!(is_partition_of(&sysfs_name(partition), &sysfs_name(disk)));
        }
        assert!(!is_partition_of("sdab", "sda"));
        assert!(!is_partition_of("loop10", "loop1"));
        assert!(!is_partition_of("sda", "sda"));
    }
}
