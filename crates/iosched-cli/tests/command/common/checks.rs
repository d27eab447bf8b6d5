//! What must hold after a command, however it ended: `Err` says in words what does not.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::iosched;

/// Asks for something with words for people.
pub(crate) fn must(is_so: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what()) }
}

/// What two maps have that differs.
pub(crate) fn difference<K: Ord + Clone + std::fmt::Debug>(
    is: &BTreeMap<K, String>,
    was: &BTreeMap<K, String>,
) -> String {
    let mut names: Vec<&K> = is.keys().chain(was.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let differ = names
        .into_iter()
        .filter(|name| is.get(*name) != was.get(*name));
    let lines = differ.map(|name| format!("{name:?}: {:?}, was {:?}", is.get(name), was.get(name)));
    lines.collect::<Vec<_>>().join("; ")
}

/// `iosched restore` must say that all is as before, and leave nothing in the journal.
pub(crate) fn restore() -> Result<(), String> {
    let output = iosched().arg("restore").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    must(output.status.success(), || format!("restore: {said}"))?;
    let left = names(Path::new("/var/lib/iosched/journal"));
    must(left.is_empty(), || format!("left in the journal: {left:?}"))
}

/// What stands in a directory; nothing where there is none.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// The processes of this test's world, but for the test itself: what the command has left.
pub(crate) fn processes_here() -> Vec<String> {
    let world = fs::read_link("/proc/self/ns/mnt").unwrap();
    let ours = std::process::id().to_string();
    let is_left = |pid: &String| {
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_zombie = status
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.starts_with(" Z"));
        let is_here = fs::read_link(format!("/proc/{pid}/ns/mnt")).is_ok_and(|its| its == world);
        is_here && !is_zombie && *pid != ours
    };
    let pids = names(Path::new("/proc"))
        .into_iter()
        .filter(|name| name.parse::<u32>().is_ok());
    let name = |pid: &String| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    pids.filter(is_left)
        .map(|pid| format!("{pid} {}", name(&pid).trim()))
        .collect()
}

/// Takes back all changes that the history has, and says how many these were.
pub(crate) fn undo_all(root: Option<&Path>) -> Result<usize, String> {
    for undone in 0.. {
        let mut command = iosched();
        command.arg("undo");
        if let Some(root) = root {
            command.arg("--root").arg(root);
        }
        let output = command.output().unwrap();
        if output.status.success() {
            continue;
        }
        let code = output.status.code();
        let said = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        let is_done = code == Some(1) && error.contains("no change to take back");
        must(is_done, || {
            format!("undo ends with {code:?}: {said}{error}")
        })?;
        return Ok(undone);
    }
    unreachable!("it ends with an error at last")
}
