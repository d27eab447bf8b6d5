//! `scripts/write-up`: what it refuses, the commands that it would run, and its table, made from records.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use iosched_testing::{is_root, lacks};

use crate::common::{iosched, text};

/// The script with an `iosched` of the caller's.
fn write_up(iosched: &Path, arguments: &[&str]) -> Output {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/write-up"))
        .args(arguments)
        .env("IOSCHED", iosched)
        .output()
        .unwrap()
}

fn real() -> &'static Path {
    Path::new(assert_cmd::cargo::cargo_bin!("iosched"))
}

#[test]
fn help_names_every_option_and_what_cannot_be_is_refused_with_a_hint() {
    let help = write_up(real(), &["--help"]);
    assert!(help.status.success());
    let help = text(&help.stdout);
    for option in ["--full", "--rounds", "--out", "--dry-run"] {
        assert!(
            help.contains(&format!("\n    {option} ")),
            "{option}: {help}"
        );
    }
    for (arguments, cause) in [
        (&[][..], "which write-up?"),
        (&["9"], "write-up 9 cannot be done again yet; there is: 3"),
        (&["3", "3"], "one write-up at a time"),
        (&["3", "--rounds", "1"], "--rounds wants a number from 2 on"),
        (&["3", "--rounds"], "--rounds wants a value"),
        (&["3", "--fast"], "there is no option --fast"),
    ] {
        let output = write_up(real(), arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(cause), "{arguments:?}: {said}");
        assert!(said.contains("hint: scripts/write-up --help"), "{said}");
    }
}

#[test]
fn a_dry_run_writes_nothing_and_its_simulation_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    for size in [&[][..], &["--full"]] {
        let arguments = [&["3", "--dry-run", "--out", out.to_str().unwrap()], size].concat();
        let output = write_up(real(), &arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(!out.exists());
        let said = text(&output.stderr);
        let commands: Vec<&str> = said.lines().collect();
        assert_eq!(commands.len(), 2, "{said}");
        assert!(commands[0].contains("--emulate raid10-15k"), "{said}");
        assert!(commands[1].contains("--simulate raid10-15k"), "{said}");
        // Quoted for a shell.
        let dry = format!("{} --dry-run", commands[1].strip_prefix("+ ").unwrap());
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let tried = Command::new("bash")
            .args(["-c", &dry])
            .current_dir(root)
            .output()
            .unwrap();
        assert!(tried.status.success(), "{}", text(&tried.stderr));
    }
}

/// The emulated part is replaced by a simulated one: what is tested is the way from records to the table.
#[test]
fn the_table_has_theirs_beside_ours_and_nothing_is_overwritten() {
    if !is_root() {
        return;
    }
    if Command::new("jq").arg("--version").output().is_err() {
        return lacks("jq");
    }
    let dir = tempfile::tempdir().unwrap();
    let stand_in = dir.path().join("iosched");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let script = format!(
        "#!/bin/bash\nreal={}\n\
         [[ $* == *--emulate* ]] || exec \"$real\" \"$@\"\n\
         exec \"$real\" tune --simulate raid10-15k --load {}/examples/write-ups/3-read.fio --arms cfq,deadline,noop \
         --runtime 1s --fixed-rounds 2 --out \"${{@: -1}}\"\n",
        real().display(),
        root.display(),
    );
    fs::write(&stand_in, script).unwrap();
    fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
    let out = dir.path().join("out");
    let arguments = ["3", "--rounds", "2", "--out", out.to_str().unwrap()];
    let output = write_up(&stand_in, &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = fs::read_to_string(out.join("table.md")).unwrap();
    assert!(table.starts_with("| test | theirs, cfq ÷ noop | ours, cfq ÷ deadline (95 %) |"));
    let row = "\n| read, cold, as stored (virtual time) | 1.82 | ";
    assert!(table.contains(row), "{table}");
    assert!(text(&output.stdout).contains(&table));
    // Ratios are the first arm's time over each other one's, whatever decides a load.
    let report = iosched()
        .args(["report", "--json"])
        .arg(out.join("simulate"))
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let contest = &report["loads"][1]["contest"];
    assert_eq!(contest["better"], "higher");
    let noop = &contest["arms"][2];
    assert_eq!(noop["arm"], "noop");
    let ratio = noop["to_baseline"]["estimate"].as_f64().unwrap();
    let cells: Vec<&str> = table.split_once(row).unwrap().1.split(" | ").collect();
    let said: f64 = cells[1].split(' ').next().unwrap().parse().unwrap();
    assert!((said - ratio).abs() < 0.006, "{said} of {ratio}: {table}");

    let again = write_up(&stand_in, &arguments);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("has results already"));
}
