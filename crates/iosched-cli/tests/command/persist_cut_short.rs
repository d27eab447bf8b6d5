//! `iosched persist` that ends while a maker of boot files runs: what it started is waited for, or ended.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use iosched_testing::is_root;

use crate::common::{run, wait_until};

/// A machine of its own, as far as it goes: GRUB's settings, a maker of its menu that works in a child until it is let
/// go, and our own state.
struct Bench {
    directory: tempfile::TempDir,
}

/// In a mount namespace: `$1` is the directory with what is put over the machine's own, the rest the command.
const INSIDE: &str = r#"
    at=$1; shift
    mount --make-rprivate /
    mount --bind "$at/state" /var/lib/iosched
    mount --bind "$at/default" /etc/default
    mount --bind /usr/sbin "$at/sbin"
    for program in "$at"/sbin/*; do
        ln -sf "$program" "$at/programs/"
    done
    rm -f "$at/programs/update-grub" "$at/programs/grub-mkconfig"
    cp "$at/update-grub" "$at/programs/"
    mount --bind "$at/programs" /usr/sbin
    exec "$@"
"#;

impl Bench {
    fn new() -> Option<Bench> {
        if !is_root() {
            return None;
        }
        let directory = tempfile::Builder::new()
            .prefix("iosched-test-")
            .tempdir()
            .unwrap();
        let bench = Bench { directory };
        for name in ["state", "default", "sbin", "programs"] {
            fs::create_dir(bench.at(name)).unwrap();
        }
        fs::create_dir_all("/var/lib/iosched").unwrap();
        fs::write(
            bench.at("default/grub"),
            "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet elevator=cfq\"\n",
        )
        .unwrap();
        // What reads the settings is a child, as for each kernel's image; it waits for the file `go`.
        let maker = format!(
            r#"#!/bin/sh
            (
                read -r settings </etc/default/grub
                : >"{at}/begun"
                while [ ! -e "{at}/go" ]; do sleep 0.05; done
                echo "$settings" >"{at}/menu"
            ) &
            wait
            "#,
            at = bench.directory.path().display()
        );
        fs::write(bench.at("update-grub"), maker).unwrap();
        run("chmod", &["755", &bench.text("update-grub")]);
        Some(bench)
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }

    fn start(&self, arguments: &[&str]) -> Child {
        Command::new("unshare")
            .args(["--mount", "sh", "-ec", INSIDE, "sh"])
            .arg(self.directory.path())
            .arg(env!("CARGO_BIN_EXE_iosched"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// A change whose maker is at work.
    fn begun(&self) -> Child {
        let child = self.start(&["persist", "--remove", "elevator", "--yes"]);
        assert!(
            wait_until(|| self.at("begun").exists()),
            "the maker was not started"
        );
        fs::remove_file(self.at("begun")).unwrap();
        child
    }

    fn settings(&self) -> String {
        fs::read_to_string(self.at("default/grub")).unwrap()
    }

    fn menu(&self) -> String {
        fs::read_to_string(self.at("menu")).unwrap_or_default()
    }
}

fn ended(child: Child) -> (Option<i32>, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().unwrap();
    let said = [stdout, stderr].concat();
    (status.code(), String::from_utf8_lossy(&said).into_owned())
}

fn signal(child: &Child, name: &str) {
    run("kill", &["-s", name, &child.id().to_string()]);
}

#[test]
fn an_undo_waits_for_what_a_killed_persist_has_started() {
    let Some(bench) = Bench::new() else { return };
    let before = bench.settings();
    let mut killed = bench.begun();
    signal(&killed, "KILL");
    killed.wait().unwrap();
    let undo = bench.start(&["undo"]);
    // It has found the turn taken once it waits for it.
    assert!(wait_until(|| is_waiting_for(&undo, "state/lock")));
    fs::write(bench.at("go"), "").unwrap();
    let (code, said) = ended(undo);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(bench.settings(), before);
    // Whatever the killed one's maker wrote, the last menu is that of the settings that stand.
    assert_eq!(bench.menu(), before, "{said}");
}

#[test]
fn ctrl_c_within_a_maker_of_boot_files_takes_the_change_back() {
    let Some(bench) = Bench::new() else { return };
    let before = bench.settings();
    let interrupted = bench.begun();
    signal(&interrupted, "INT");
    // The maker is run once more, for the settings that stand again.
    assert!(wait_until(|| bench.at("begun").exists()));
    fs::write(bench.at("go"), "").unwrap();
    let (code, said) = ended(interrupted);
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("taken back"), "{said}");
    assert_eq!(bench.settings(), before);
    assert_eq!(bench.menu(), before);
    let (_, said) = ended(bench.start(&["undo", "--dry-run"]));
    assert!(!said.contains("elevator"), "{said}");
}

/// True once a process has a file open.
fn is_waiting_for(child: &Child, file: &str) -> bool {
    let descriptors = format!("/proc/{}/fd", child.id());
    let entries = fs::read_dir(Path::new(&descriptors)).into_iter().flatten();
    entries.flatten().any(|entry| {
        entry.path().read_link().is_ok_and(|target| {
            target.to_string_lossy().ends_with(file) || target.ends_with("iosched/lock")
        })
    })
}
