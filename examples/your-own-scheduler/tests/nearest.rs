//! What docs/your-own-scheduler.md says, done with the program of the example.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

use iosched_machine::host::Host;
use iosched_testing::{is_root, lacks};
use serde_json::Value;

iosched_testing::world!();

/// Runs the command in a directory. What it says must be without errors.
fn iosched(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iosched-nearest"));
    let output: Output = command
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn it_is_simulated_beside_the_kernels_and_compared_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let simulated = iosched(
        dir.path(),
        &[
            "simulate",
            "--load=random-read",
            "--disk=hdd-7200-fifo",
            "--scheduler=nearest,mq-deadline,none",
            "--json",
        ],
    );
    let simulated: Value = serde_json::from_str(&simulated).unwrap();
    let iops = |run: usize| simulated["runs"][run]["total"]["iops"].as_f64().unwrap();
    assert!(iops(0) > iops(1) && iops(1) > iops(2), "{simulated}");
    let tune = ["tune", "--simulate=hdd-7200-fifo", "--arms=nearest,none"];
    let answer = iosched(dir.path(), &[&tune[..], &["--rounds=3"]].concat());
    assert!(answer.contains("nearest"), "{answer}");
}

#[test]
fn it_follows_its_own_recording_and_others_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let events = "--events=nearest.txt";
    let (disk, load) = ("--disk=hdd-7200-fifo", "--load=readers-vs-writer");
    iosched(
        dir.path(),
        &["simulate", disk, load, "--scheduler=nearest", events],
    );
    let says = |scheduler: &str| iosched(dir.path(), &["conform", "nearest.txt", scheduler]);
    assert!(says("--scheduler=nearest").contains("100.000 %"));
    assert!(!says("--scheduler=mq-deadline").contains("100.000 %"));
}

#[test]
fn lists_and_help_name_it() {
    let dir = tempfile::tempdir().unwrap();
    let tunables = iosched(dir.path(), &["list", "--help-tunables"]);
    assert!(tunables.contains("nearest") && tunables.contains("expire"));
    assert!(iosched(dir.path(), &["simulate", "--help"]).contains("nearest"));
}

#[test]
fn it_serves_a_block_device() {
    if !is_root() {
        return;
    }
    let missing = iosched_emulate::missing(&Host::live());
    if !missing.is_empty() {
        let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
        return lacks(&missing.join(", "));
    }
    let dir = tempfile::tempdir().unwrap();
    let emulate = |arguments: &[&str]| {
        let place = ["--state-dir", dir.path().to_str().unwrap()];
        iosched(dir.path(), &[&["emulate"], arguments, &place].concat())
    };
    let of_ours = "--scheduler=nearest:expire=300";
    let device = emulate(&["create", "hdd-7200-fifo", "--size=64M", of_ours]);
    let device = device.trim_end();
    let mut read = [0; 4096];
    for block in [7000, 100, 3000] {
        let disk = File::open(device).unwrap();
        disk.read_exact_at(&mut read, block * 4096).unwrap();
    }
    let inside = emulate(&["list"]);
    emulate(&["set", device, "deadline"]);
    let afterwards = emulate(&["list"]);
    emulate(&["remove", device]);
    assert!(inside.contains("nearest:expire=300"), "{inside}");
    assert!(afterwards.contains("deadline"), "{afterwards}");
}
