//! Names of devices that may have been meant by a name that no device has.

use crate::host::Host;

/// At most three names of devices that look like this one, the nearest first.
pub(super) fn near_names(host: &Host, target: &str) -> Vec<String> {
    let target = target.trim_start_matches("/dev/");
    let mut near: Vec<(usize, String)> = host
        .sysfs()
        .all_devices()
        .unwrap_or_default()
        .into_iter()
        .filter_map(|name| {
            let distance = strsim::osa_distance(target, &name);
            // One letter of a short name is already much.
            (distance <= 1 + target.chars().count() / 6).then_some((distance, name))
        })
        .collect();
    near.sort();
    near.truncate(3);
    near.into_iter().map(|(_, name)| name).collect()
}

/// At most three names of devices that begin with this one.
pub(super) fn longer_names(host: &Host, start: &str) -> Vec<String> {
    let mut names = host.sysfs().all_devices().unwrap_or_default();
    names.retain(|name| !start.is_empty() && name.starts_with(start));
    names.sort();
    names.truncate(3);
    names
}

#[cfg(test)]
mod tests {
    use super::super::fixture::machine;
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let host = machine("workstation");
        assert_eq!(near_names(&host, "sad"), ["sda"]);
        assert_eq!(near_names(&host, "sd"), ["sda", "sdb", "sdc"]);
        assert_eq!(near_names(&host, "/dev/nvme0n1p3")[0], "nvme0n1p1");
        assert_eq!(near_names(&host, "potato"), [""; 0]);
        assert_eq!(
            longer_names(&host, "nvme0"),
            ["nvme0n1", "nvme0n1p1", "nvme0n1p2"]
        );
    }
}
