//! Mounts of a test, told from those that were there before it.

use std::collections::BTreeSet;
use std::fs;
use std::sync::OnceLock;

/// The mount table of a world when it was made. Its mounts are private: what others mount later, a user's emulated disk
/// as well as another test's, is not in it; what they unmount stays in it, or goes with the directory that they remove.
static AT_FIRST: OnceLock<BTreeSet<String>> = OnceLock::new();

/// The lines in which the mount table differs from that of our world when it was made: what a test mounted, and what
/// it took away.
pub fn own_mounts() -> String {
    let at_first = AT_FIRST.get().expect("a test of mounts is in a world");
    differ(at_first, &table("self"), &table("1")).join("\n")
}

/// What a test took away is still there for the machine's first process; what is not, others have unmounted.
fn differ(
    at_first: &BTreeSet<String>,
    now: &BTreeSet<String>,
    elsewhere: &BTreeSet<String>,
) -> Vec<String> {
    let gone = at_first.difference(now);
    let taken_away = gone.filter(|line| elsewhere.contains(*line));
    now.difference(at_first)
        .chain(taken_away)
        .cloned()
        .collect()
}

/// To be called once the world is made.
pub(crate) fn remember() {
    AT_FIRST.get_or_init(|| table("self"));
}

fn table(process: &str) -> BTreeSet<String> {
    let table = fs::read(format!("/proc/{process}/mounts"));
    let table = table.expect("there is a mount table");
    let table = String::from_utf8_lossy(&table); // names are bytes
    table.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_mount_and_unmount_is_none_of_ours() {
        let table = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
        let at_first = table(&["root", "theirs", "theirs, removed", "taken away"]);
        let now = table(&["root", "theirs", "ours"]);
        let elsewhere = table(&["root", "taken away", "theirs, later"]);
        assert_eq!(differ(&at_first, &now, &elsewhere), ["ours", "taken away"]);
        assert!(differ(&at_first, &at_first, &elsewhere).is_empty());
    }
}
