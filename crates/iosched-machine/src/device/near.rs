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
            let distance = edit_distance(target, &name);
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

/// Letters to insert, delete, exchange or swap with their neighbour to make one name of the other.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // The distances of the last two beginnings of `a` to every beginning of `b`.
    let (mut before, mut last) = (Vec::new(), (0..=b.len()).collect::<Vec<usize>>());
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let exchanged = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut distance = exchanged.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                distance = distance.min(before[j - 2] + 1);
            }
            row.push(distance);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::super::testing::machine;
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

    #[test]
    fn the_distance_of_names_counts_letters() {
        assert_eq!(edit_distance("sda", "sda"), 0);
        assert_eq!(edit_distance("sda", "sdb1"), 2);
        assert_eq!(edit_distance("sad", "sda"), 1);
        assert_eq!(edit_distance("", "sda"), 3);
        assert_eq!(edit_distance("nvme0n1", "nvme1n1"), 1);
    }
}
