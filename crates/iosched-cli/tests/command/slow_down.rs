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

#[test]
fn a_simulated_disk_slowed_down_does_so_many_times_less() {
    let simulate = [
        "simulate",
        "--disk",
        "fixed",
        "--scheduler",
        "none",
        "--load",
        "random-read",
        "--json",
    ];
    let commands = |run: &Value| run["runs"][0]["commands"].as_u64().unwrap();
    let as_fast = json(&simulate);
    let slowed = json(&[&simulate[..], &["--slow-down", "4"]].concat());
    assert_eq!(as_fast["slow_down"], Value::Null);
    assert_eq!(slowed["slow_down"], 4);
    // All but those that are under way when the time is up.
    assert!(
        commands(&as_fast).abs_diff(4 * commands(&slowed)) <= 4 * 64,
        "{as_fast} {slowed}"
    );
    let table = text(&answer(&[&simulate[..7], &["--slow-down", "4"]].concat()).stdout);
    assert!(table.starts_with("fixed (4 times as slow) of"), "{table}");
}

#[test]
fn a_factor_is_a_whole_number_above_nothing() {
    for factor in ["0", "-1", "1.5", "many"] {
        let output = answer(&["simulate", "--slow-down", factor]);
        assert_eq!(output.status.code(), Some(2), "{factor}");
    }
}
