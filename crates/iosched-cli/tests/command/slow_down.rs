//! A disk slowed down by a factor: emulated and simulated, it takes so many times as long.
use crate::common::{answer, can_emulate, remove_emulated, text, wait_until};
use serde_json::Value;

fn json(arguments: &[&str]) -> Value {
    let output = answer(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_slowed_disk_serves_by_the_slowed_time_and_says_so() {
    if !can_emulate() {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let state_dir = state.path().to_str().unwrap();
    // 1 ms for each command, three times as slow; it goes with this process, whatever happens.
    let owner = std::process::id().to_string();
    let create = [
        "emulate",
        "create",
        "fixed",
        "--size",
        "64M",
        "--slow-down",
        "3",
        "--owner-pid",
        &owner,
        "--json",
        "--state-dir",
        state_dir,
    ];
    let disk = json(&create);
    assert_eq!(disk["slow_down"], 3);
    let id = disk["id"].as_str().unwrap();
    let listed = json(&["emulate", "list", "--json", "--state-dir", state_dir]);
    let table = answer(&["emulate", "list", "--state-dir", state_dir]);
    let check = [
        "emulate",
        "check",
        id,
        "--reads",
        "30",
        "--json",
        "--state-dir",
        state_dir,
    ];
    // `restore` in a test beside this one looks at all disks: then it is refused.
    let mut checked = None;
    let was_alone = wait_until(|| {
        let output = answer(&check);
        checked = serde_json::from_slice(&output.stdout)
            .ok()
            .filter(|_| output.status.success());
        checked.is_some()
    });
    assert!(was_alone);
    let checked: Value = checked.unwrap();
    remove_emulated(&[id, "--state-dir", state_dir]);
    assert_eq!(listed[0]["slow_down"], 3);
    let table = text(&table.stdout);
    assert!(table.contains("running, 3 times as slow"), "{table}");
    // What comes between two nanoseconds of the model waits for the later one.
    for bound in ["min", "max"] {
        let modelled = checked["modelled_ns"][bound].as_i64().unwrap();
        assert!((3_000_000..3_000_003).contains(&modelled), "{checked}");
    }
}
