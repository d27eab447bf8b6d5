//! Names of devices that may have been meant by a name that no device has.

use crate::host::Host;

/// At most three names of devices that begin with this one.
pub(super) fn near_names(host: &Host, start: &str) -> Vec<String> {
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
    fn names_that_begin_so_are_suggested() {
        let host = machine("workstation");
        assert_eq!(near_names(&host, "sd"), ["sda", "sda1", "sdb"]);
        assert_eq!(near_names(&host, "potato"), [""; 0]);
        assert_eq!(
            near_names(&host, "nvme0"),
            ["nvme0n1", "nvme0n1p1", "nvme0n1p2"]
        );
    }
}
