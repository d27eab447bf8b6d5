//! The units of systemd in `packaging`: what they may do is little, and what they run exists.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use iosched_testing::lacks;

use crate::common::iosched;

/// Exposure of a unit as `systemd-analyze security` has it, in tenths: all may be done at 100.
const MOST_EXPOSED: &str = "20";

fn services() -> Vec<PathBuf> {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let files = fs::read_dir(packaging).unwrap().flatten();
    let files = files.map(|file| file.path());
    let services: Vec<PathBuf> = files
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "service")
        })
        .collect();
    assert!(services.len() >= 2, "{services:?}");
    services
}

#[test]
fn each_service_may_do_little_more_than_it_needs() {
    for service in services() {
        let output = Command::new("systemd-analyze")
            .args(["security", "--no-pager", "--offline=true"])
            .arg(format!("--threshold={MOST_EXPOSED}"))
            .arg(&service)
            .output();
        let Ok(output) = output else {
            return lacks("systemd-analyze (package systemd)");
        };
        let stderr = String::from_utf8_lossy(&output.stderr);
        if stderr.contains("unrecognized option") {
            return lacks("systemd-analyze security --offline (systemd 250)");
        }
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{service:?}: {stdout}{stderr}");
    }
}

#[test]
fn each_service_runs_a_command_that_exists_and_only_where_there_is_something_to_do() {
    for service in services() {
        let text = fs::read_to_string(&service).unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="));
        let command = line.unwrap().strip_prefix("/usr/bin/iosched ").unwrap();
        iosched()
            .args(command.split(' '))
            .arg("--help")
            .assert()
            .success();
        assert!(text.contains("\nCondition"), "{service:?}");
    }
}
