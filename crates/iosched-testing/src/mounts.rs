//! Mounts of a test, told from those that others make and remove meanwhile.

use std::collections::BTreeSet;
use std::fs;

/// The lines of the mount table in which this process's mount namespace differs from the machine's first:
/// what a test mounted, and what it took away. What others mount and unmount is in both.
pub fn own_mounts() -> String {
    let table = |process: &str| -> BTreeSet<String> {
        let table = fs::read_to_string(format!("/proc/{process}/mounts"));
        let table = table.expect("there is a mount table");
        table.lines().map(str::to_owned).collect()
    };
    loop {
        let (first, own) = (table("1"), table("self"));
        if first == table("1") {
            let differ = first.symmetric_difference(&own);
            return differ.cloned().collect::<Vec<_>>().join("\n");
        }
    }
}
