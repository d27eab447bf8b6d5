//! `scripts/setup run` on distributions that are not Debian: which packages it asks which program for.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use iosched_testing::world::own_mounts;
use iosched_testing::{is_root, lacks};

use crate::common::{run, stand_in, text};

/// What the script calls besides.
const TOOLS: [&str; 4] = ["bash", "dirname", "id", "env"];

/// A machine with these programs and no others but a package manager.
fn machine(manager: &str, programs: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for tool in TOOLS {
        symlink(Path::new("/usr/bin").join(tool), dir.path().join(tool)).unwrap();
    }
    let own = [
        ("sudo", "exec \"$@\""),
        (manager, "echo \"asked: $*\""),
        ("cargo", "exit 0"),
        ("modprobe", "exit 0"),
    ];
    for (name, script) in own.iter().chain(programs) {
        stand_in(dir.path(), name, &format!("#!/bin/sh\n{script}\n"));
    }
    dir
}

/// What `scripts/setup run` asks the package manager for.
#[track_caller]
fn asked_on(dir: &Path) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/setup");
    let output = Command::new("/usr/bin/bash")
        .arg(&script)
        .arg("run")
        .env("PATH", dir)
        .output()
        .unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    let asked = said.lines().filter_map(|line| line.strip_prefix("asked: "));
    asked.map(str::to_owned).collect()
}

#[test]
fn each_distribution_is_asked_for_its_own_packages_and_only_for_what_is_missing() {
    for (manager, words) in [
        ("dnf", "install -y fio gcc"),
        ("yum", "install -y fio gcc"),
        ("zypper", "--non-interactive install fio gcc"),
        ("pacman", "-S --needed --noconfirm fio gcc"),
        ("apk", "add fio build-base"),
    ] {
        let dir = machine(manager, &[("wipefs", "exit 0")]);
        assert_eq!(asked_on(dir.path()), [words], "{manager}");
    }
}

/// Its own `losetup` says nothing of util-linux.
#[test]
fn busybox_is_no_util_linux() {
    if !is_root() {
        return lacks("root");
    }
    // The script looks there, too.
    own_mounts().unwrap();
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    run("mount", &["--bind", empty, "/usr/sbin"]);
    let there = [("losetup", "exit 0"), ("fio", "exit 0"), ("cc", "exit 0")];
    let dir = machine("apk", &there);
    assert_eq!(asked_on(dir.path()), ["add util-linux"]);
}

#[test]
fn an_engine_of_fios_that_was_left_out_is_installed() {
    let rest = [("wipefs", "exit 0"), ("cc", "exit 0")];
    for (engines, expected) in [
        ("psync", &["install -y fio-engine-libaio"][..]),
        ("libaio", &[]),
    ] {
        let engines = format!("echo {engines}");
        let fio = [("fio", engines.as_str())];
        let dir = machine("dnf", &[&rest[..], &fio].concat());
        assert_eq!(asked_on(dir.path()), expected);
    }
}
