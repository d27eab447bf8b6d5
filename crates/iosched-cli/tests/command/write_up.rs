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
fn a_dry_run_writes_nothing_and_its_simulation_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let document = fs::read_to_string(root().join("docs/write-ups.md")).unwrap();
    for (number, disks) in [("1", 1), ("2", 2), ("3", 1), ("4", 2)] {
        // Its page begins with what the document tells of it.
        let told = document.split_once(&format!("\n## {number}. ")).unwrap().1;
        for part in [
            "What they had.",
            "What they did.",
            "What they got.",
            "What we run.",
        ] {
            let begins = told.split("\n## ").next().unwrap();
            assert!(begins.contains(&format!("**{part}**")), "{number}: {part}");
        }
        for size in [&[][..], &["--full"]] {
            let arguments = [&[number, "--dry-run", "--out", out.to_str().unwrap()], size].concat();
            let output = write_up(&arguments);
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert!(!out.exists());
            let said = text(&output.stderr);
            let commands: Vec<&str> = said.lines().collect();
            assert_eq!(commands.len(), 2 * disks, "{said}");
            for pair in commands.chunks(2) {
                assert!(pair[0].contains("tune --emulate "), "{said}");
                assert!(pair[1].contains("tune --simulate "), "{said}");
                assert_accepted(pair[1]);
            }
        }
    }
}

/// The command that was printed, quoted for a shell, passes as a dry run.
fn assert_accepted(printed: &str) {
    let dry = format!("{} --dry-run", printed.strip_prefix("+ ").unwrap());
    let tried = Command::new("bash")
        .args(["-c", &dry])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(tried.status.success(), "{}", text(&tried.stderr));
}

#[test]
fn tables_of_the_document_are_those_of_the_results_that_are_kept_beside_it() {
    if Command::new("jq").arg("--version").output().is_err() {
        return lacks("jq");
    }
    let docs = root().join("docs");
    let document = fs::read_to_string(docs.join("write-ups.md")).unwrap();
    for number in ["1", "2", "3", "4"] {
        let kept = docs.join(format!("write-ups/{number}.jsonl"));
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
