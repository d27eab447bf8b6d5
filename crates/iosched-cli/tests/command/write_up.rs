//! `lab/write-up`: the commands that it would run are accepted, and its tables in the documentation come from the results kept there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use iosched_testing::lacks;

use crate::common::text;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn write_up(arguments: &[&str]) -> Output {
    Command::new(root().join("lab/write-up"))
        .args(arguments)
        .env("IOSCHED", env!("CARGO_BIN_EXE_iosched"))
        .output()
        .unwrap()
}

#[test]
fn tables_of_the_document_are_those_of_the_results_that_are_kept_beside_it() {
    if Command::new("jq").arg("--version").output().is_err() {
        return lacks("jq");
    }
    let results = root().join("results");
    let document = fs::read_to_string(results.join("write-ups.md")).unwrap();
    for number in ["1", "2", "3", "4"] {
        let kept = results.join(format!("write-ups/{number}.jsonl"));
        let begins = format!("\n<!-- tables of {number} -->\n");
        let (_, rest) = document
            .split_once(&begins)
            .expect("a place for its tables");
        let (tables, _) = rest
            .split_once("\n<!-- end of tables -->\n")
            .expect("its end");
        let made = write_up(&[number, "--tables", kept.to_str().unwrap()]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        assert_eq!(tables.trim(), text(&made.stdout).trim(), "{number}");
    }
}
