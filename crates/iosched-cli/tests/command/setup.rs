//! `scripts/setup run` on distributions that are not Debian: which packages it asks which program for.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::common::text;

/// What the script calls besides.
const TOOLS: [&str; 4] = ["bash", "dirname", "id", "env"];

#[test]
fn each_distribution_is_asked_for_its_own_packages_and_only_for_what_is_missing() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/setup");
    for (manager, words) in [
        ("dnf", "install -y fio gcc"),
        ("yum", "install -y fio gcc"),
        ("zypper", "--non-interactive install fio gcc"),
        ("pacman", "-S --needed --noconfirm fio gcc"),
        ("apk", "add fio build-base"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        for tool in TOOLS {
            symlink(Path::new("/usr/bin").join(tool), dir.path().join(tool)).unwrap();
        }
        let program = |name: &str, script: &str| {
            let path = dir.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        for there in ["cargo", "modprobe", "losetup"] {
            program(there, "exit 0");
        }
        program("sudo", "exec \"$@\"");
        program(manager, "echo \"asked: $*\"");
        let output = Command::new("/usr/bin/bash")
            .arg(&script)
            .arg("run")
            .env("PATH", dir.path())
            .output()
            .unwrap();
        let said = text(&output.stdout);
        assert!(output.status.success(), "{said}{}", text(&output.stderr));
        assert!(
            said.contains(&format!("asked: {words}\n")),
            "{manager}: {said}"
        );
    }
}
