//! Mounts of a test, told from those that were there before it.

use std::collections::BTreeSet;
use std::fs;
use std::sync::OnceLock;

/// The mount table of a world when it was made. Its mounts are private: what others mount and unmount later, a user's
/// emulated disk as well as another test's, is not in it and does not leave it.
static AT_FIRST: OnceLock<BTreeSet<String>> = OnceLock::new();

/// The lines in which the mount table differs from that of our world when it was made: what a test mounted, and what
/// it took away.
pub fn own_mounts() -> String {
    let at_first = AT_FIRST.get().expect("a test of mounts is in a world");
    let differ: Vec<_> = at_first.symmetric_difference(&table()).cloned().collect();
    differ.join("\n")
}

/// To be called once the world is made.
pub(crate) fn remember() {
    AT_FIRST.get_or_init(table);
}

fn table() -> BTreeSet<String> {
    let table = fs::read_to_string("/proc/self/mounts").expect("there is a mount table");
    table.lines().map(str::to_owned).collect()
}
