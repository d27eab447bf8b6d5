//! When a write to a queue may never return: bugs of kernels that freeze a queue for it.

use iosched_facts::kernel::KernelVersion;
use iosched_facts::kernel::rules::Rule;
use iosched_machine::failure::Problem;
use iosched_machine::host::Host;
use iosched_machine::sysfs::Sysfs;

use super::error;

/// Refuses to change a queue where the kernel may wait for ever: a zoned disk, or what lies on one, with writes under way,
/// on Linux 6.10 to 6.15; a multipath map, or a path of one, of which no path is up.
///
/// # Errors
/// That is so here.
pub fn check_hang(host: &Host, device: &str) -> Result<(), Problem> {
    let sysfs = host.sysfs();
    let below = below(&sysfs, device);
    // A freeze and queued writes of a sequential zone wait for one another (blktests zbd/013).
    let deadlocks = |kernel: &KernelVersion| {
        Rule::ZonesOrderedBelow.holds(*kernel) && !Rule::FreezeBesideZoneWrites.holds(*kernel)
    };
    if let Some(kernel) = host.kernel_version().filter(deadlocks)
        && let Some(zoned) = below.iter().find(|disk| is_zoned(&sysfs, disk))
        && below.iter().any(|disk| writes_under_way(&sysfs, disk) > 0)
    {
        let why = format!("{zoned} is zoned, Linux is {kernel}, and writes are under way");
        let way_out = "stop what writes there, or use Linux 6.16 or later";
        return Err(error::may_hang(device, &why, way_out));
    }
    let holders = sysfs.list(device, "holders");
    let mut maps = holders.iter().map(String::as_str).chain([device]);
    let is_down = |map: &&str| is_multipath(&sysfs, map) && !has_path(&sysfs, map);
    if let Some(map) = maps.find(is_down) {
        let why = format!("no path of the multipath map {map} is up");
        let way_out = "bring a path up first: `multipath -ll` shows them";
        return Err(error::may_hang(device, &why, way_out));
    }
    Ok(())
}

/// The device and all that it lies on.
fn below(sysfs: &Sysfs, device: &str) -> Vec<String> {
    let mut all = vec![device.to_owned()];
    let mut at = 0;
    while let Some(one) = all.get(at) {
        let mut slaves = sysfs.list(one, "slaves");
        slaves.retain(|slave| !all.contains(slave));
        all.append(&mut slaves);
        at += 1;
    }
    all
}

fn is_zoned(sysfs: &Sysfs, disk: &str) -> bool {
    let model = sysfs.read_if_present(disk, "queue/zoned");
    model.is_some_and(|model| model.starts_with("host-"))
}

/// `inflight`: reads, then writes.
fn writes_under_way(sysfs: &Sysfs, disk: &str) -> u64 {
    let counts = sysfs.read_if_present(disk, "inflight").unwrap_or_default();
    let writes = counts.split_ascii_whitespace().nth(1);
    writes.and_then(|writes| writes.parse().ok()).unwrap_or(0)
}

fn is_multipath(sysfs: &Sysfs, device: &str) -> bool {
    let uuid = sysfs.read_if_present(device, "dm/uuid");
    uuid.is_some_and(|uuid| uuid.starts_with("mpath-"))
}

/// One of the disks below is there; of one that says nothing it is assumed.
fn has_path(sysfs: &Sysfs, map: &str) -> bool {
    sysfs.list(map, "slaves").iter().any(|path| {
        let state = sysfs.read_if_present(path, "device/state");
        state.is_none_or(|state| matches!(&*state, "running" | "live"))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn refused(root: &Path, device: &str) -> Option<String> {
        let checked = check_hang(&Host::at(root), device);
        checked.err().map(|problem| problem.to_string())
    }

    #[test]
    fn writes_under_way_keep_a_zoned_disk_and_what_lies_on_it_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, "sys/block/sda/queue/zoned", "host-managed\n");
        write(root, "sys/block/sda/inflight", "       0        3\n");
        write(root, "sys/block/dm-0/slaves/sda/x", "");
        write(root, "sys/block/dm-0/queue/zoned", "none\n");
        for (kernel, hangs) in [
            ("6.9.1", false),
            ("6.10.0", true),
            ("6.15.4", true),
            ("6.16.0", false),
        ] {
            write(root, "proc/sys/kernel/osrelease", kernel);
            for device in ["sda", "dm-0"] {
                assert_eq!(refused(root, device).is_some(), hangs, "{device} {kernel}");
            }
        }
        write(root, "proc/sys/kernel/osrelease", "6.12.1");
        write(root, "sys/block/sda/inflight", "       4        0\n");
        assert_eq!(refused(root, "sda"), None);
    }

    #[test]
    fn a_multipath_map_without_a_path_and_its_paths_stay_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, "sys/block/dm-1/dm/uuid", "mpath-3600\n");
        for path in ["sdb", "sdc"] {
            write(root, &format!("sys/block/dm-1/slaves/{path}/x"), "");
            write(root, &format!("sys/block/{path}/holders/dm-1/x"), "");
            write(root, &format!("sys/block/{path}/device/state"), "offline\n");
        }
        for device in ["dm-1", "sdb"] {
            let said = refused(root, device).unwrap();
            assert!(said.contains("no path of the multipath map dm-1"), "{said}");
        }
        write(root, "sys/block/sdc/device/state", "running\n");
        assert_eq!(refused(root, "sdb"), None);
    }
}
