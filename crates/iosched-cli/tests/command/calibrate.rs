//! `iosched calibrate` as a user runs it: no device, no root, the same tables from the same seed.

use assert_cmd::Command;

fn calibrate(arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::cargo_bin("iosched").expect("the command is built with the tests");
    command.arg("calibrate").args(arguments).assert()
}

fn standard_output(arguments: &[&str]) -> String {
    let assert = calibrate(arguments).success();
    String::from_utf8(assert.get_output().stdout.clone()).expect("text")
}

#[test]
fn the_tables_end_in_the_ratio_of_trials_and_repeat_with_the_seed() {
    let once = standard_output(&["--runs", "3", "--seed", "7"]);
    assert!(once.starts_with("3 runs of each method in each case, seed 7."));
    assert!(
        once.contains("False winners, where nobody may be named"),
        "{once}"
    );
    assert!(once.contains("A fixed design"), "{once}");
    let again = standard_output(&["--runs", "3", "--seed", "7"]);
    assert_eq!(once, again);
}

#[test]
fn json_has_every_case_under_every_method() {
    let text = standard_output(&["--runs", "2", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&text).expect("one JSON value");
    assert_eq!(value["mix"].as_array().map(Vec::len), Some(12));
    assert_eq!(value["nobody"].as_array().map(Vec::len), Some(40));
    for row in value["mix"].as_array().into_iter().flatten() {
        for method in ["race", "one_run", "points", "plain_t"] {
            let rate = row[method]["false_winner"].as_f64().expect("a rate");
            assert!((0.0..=1.0).contains(&rate), "{row}");
        }
    }
}

#[test]
fn no_runs_are_refused() {
    let assert = calibrate(&["--runs", "0"]).failure().code(2);
    let message = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(message.contains("--runs"), "{message}");
}
