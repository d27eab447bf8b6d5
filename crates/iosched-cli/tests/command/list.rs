//! `iosched list` on copied machines: what it prints is kept beside each text in `tests/machines/`.
//!
//! After an intended change look at the difference, then accept it:
//! `INSTA_UPDATE=always cargo test -p iosched-cli --test command list::`.
use iosched_testing::lacks;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use iosched_testing::machine_tree::{self, tree, unpack};

use crate::common::machines::on_each_machine;
use crate::common::{CopyForEverybody, answer, text};

fn list(root: &Path, args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("iosched").unwrap();
    command
        .env("COLUMNS", "80")
        .arg("list")
        .arg("--root")
        .arg(root)
        .args(args);
    command.output().unwrap()
}

fn stdout(root: &Path, args: &[&str]) -> String {
    let output = list(root, args);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn json(root: &Path, args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&stdout(root, args)).unwrap()
}

/// The exit code, and the error and hint that a target is refused with.
fn refused(root: &Path, target: &str) -> (i32, String) {
    let output = list(root, &["--", target]);
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), text)
}

/// The names in a listing.
fn names(listing: &serde_json::Value) -> Vec<&str> {
    let devices = listing["devices"].as_array().unwrap();
    devices
        .iter()
        .map(|device| device["name"].as_str().unwrap())
        .collect()
}

#[test]
fn every_machine_is_listed_as_kept_beside_its_tree() {
    on_each_machine(|root| {
        let text = stdout(root, &[]);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "too wide: {line}");
        }
        insta::assert_snapshot!("list", text);
        insta::assert_snapshot!("list-verbose", stdout(root, &["-v"]));
        insta::assert_json_snapshot!("list-json", json(root, &["--json"]));
    });
}

#[test]
fn a_named_device_comes_with_all_below_and_above_it_and_nothing_else() {
    let root = tree("md-raid");
    insta::assert_snapshot!(stdout(&root, &["sdb1"]), @r#"
    DEVICE     SIZE  SCHEDULER                     ROT  QUEUES  WHAT
    sdb       10.9T  [mq-deadline] kyber bfq none  yes  1x254   sas SEAGATE ST12000…
    └─sdb1       1G
      └─md0      1G  md raid1: scheduled below; /boot (ext4)
    "#);
    let root = tree("virtual-machine");
    insta::assert_snapshot!(stdout(&root, &["loop0"]), @r#"
    DEVICE    SIZE  SCHEDULER                     ROT  QUEUES  WHAT
    loop0      74M  [none] mq-deadline kyber bfq  no   1x128   loop /var/lib/snapd/…
        /snap/core22/1748 (squashfs)
    vda        40G  [none] mq-deadline kyber bfq  yes  2x256   virtio
    └─vda1   39.9G  / (ext4); under loop0
    "#);
}

#[test]
fn a_device_is_found_by_whatever_name_it_has() {
    for (machine, target, expected) in [
        ("workstation", "sda", "sda"),
        ("workstation", "/dev/sda", "sda"),
        (
            "workstation",
            "/dev/disk/by-id/ata-ST4000DM004-2CV104_ZFN00001",
            "sda",
        ),
        (
            "workstation",
            "/dev/disk/by-id/ata-ST4000DM004-2CV104_ZFN00001-part1",
            "sda1",
        ),
        ("workstation", "/dev/../dev/./sda", "sda"),
        ("workstation", "/boot/efi/EFI", "nvme0n1p1"),
        ("workstation", "/media/anna/USB stick", "sdc1"),
        ("workstation", "/home", "sdb1"), // btrfs over two partitions
        ("cciss", "cciss/c0d0", "cciss/c0d0"),
        ("cciss", "cciss!c0d0", "cciss/c0d0"),
        ("cciss", "/dev/cciss/c0d0p2", "cciss/c0d0p2"),
        ("lvm-on-crypt", "/dev/mapper/vg0-root", "dm-1"),
        ("lvm-on-crypt", "/dev/vg0/root", "dm-1"),
        ("md-raid", "/dev/md/data", "md1"),
        ("nvme-multipath", "nvme0n1p1", "nvme0n1p1"),
    ] {
        let listing = json(&tree(machine), &["--json", "--", target]);
        assert!(names(&listing).contains(&expected), "{target}: {listing}");
    }
}

#[test]
fn what_is_no_device_is_refused_with_its_cause_and_the_way_out() {
    let root = tree("workstation");
    let said: Vec<String> = [
        "sdz",
        "nvme0n2",
        "",
        "a b",
        "../sda",
        "foo/bar",
        "/dev/nothing",
        "/tmp/x",
        "/var/lib/docker/overlay2/1f/merged/etc",
        "/net/backup/x",
        "/proc",
    ]
    .iter()
    .map(|target| {
        let (code, text) = refused(&root, target);
        format!("{target:?} ({code})\n{text}")
    })
    .collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    "sdz" (3)
    error: there is no block device sdz
    hint: `iosched list --all` shows the devices of this machine

    "nvme0n2" (3)
    error: there is no block device nvme0n2
    hint: `iosched list --all` shows the devices of this machine

    "" (3)
    error: "" cannot be the name of a block device: it is empty
    hint: `iosched list --all` shows the devices of this machine

    "a b" (3)
    error: "a b" cannot be the name of a block device: it contains a blank or a control character
    hint: `iosched list --all` shows the devices of this machine

    "../sda" (3)
    error: ../sda does not exist

    "foo/bar" (3)
    error: "foo/bar" cannot be the name of a block device: it contains a / where no device has one
    hint: give a kernel name (sda), a path that begins with / (/dev/disk/by-id/…), or a directory that exists

    "/dev/nothing" (3)
    error: there is no block device /dev/nothing
    hint: `iosched list --all` shows the devices of this machine

    "/tmp/x" (3)
    error: /tmp/x is on tmpfs (mounted on /tmp), which is not on a block device
    hint: name a directory on a disk of this machine, or the disk

    "/var/lib/docker/overlay2/1f/merged/etc" (3)
    error: /var/lib/docker/overlay2/1f/merged/etc is on overlay (mounted on /var/lib/docker/overlay2/1f/merged), which is not on a block device
    hint: name a directory on a disk of this machine, or the disk

    "/net/backup/x" (3)
    error: /net/backup/x is on nfs4 (mounted on /net/backup), which is not on a block device
    hint: name a directory on a disk of this machine, or the disk

    "/proc" (3)
    error: /proc is on proc (mounted on /proc), which is not on a block device
    hint: name a directory on a disk of this machine, or the disk
    "#);
}

#[test]
fn unused_devices_are_counted_and_shown_when_asked_for() {
    let root = tree("virtual-machine");
    let output = list(&root, &[]);
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "6 unused devices without size not shown (--all shows them)\n"
    );
    assert!(stdout(&root, &["--all"]).contains("loop7"));
    assert!(stdout(&root, &["loop7"]).contains("loop7"));
    assert!(names(&json(&root, &["--all", "--json"])).contains(&"loop7"));
    assert!(!names(&json(&root, &["--json"])).contains(&"loop7"));
}

#[test]
fn a_copy_of_this_machine_is_listed_as_the_machine_itself() {
    if !Path::new("/sys/block").exists() {
        lacks("/sys/block");
        return;
    }
    let copy = tempfile::tempdir().unwrap();
    let captured = std::process::Command::new("sh")
        .arg(machine_tree::texts().join("capture.sh"))
        .output()
        .unwrap();
    assert!(captured.status.success(), "{captured:?}");
    unpack(&text(&captured.stdout), copy.path());
    let settled = |listing: serde_json::Value| {
        // Other tests attach loop devices meanwhile, and mount them.
        let mut devices = listing["devices"].as_array().unwrap().clone();
        devices.retain(|device| !device["name"].as_str().unwrap().starts_with("loop"));
        for device in &mut devices {
            device["users"] = serde_json::Value::Null;
        }
        devices
    };
    let live = settled(json(Path::new("/"), &["--json", "--all"]));
    assert!(!live.is_empty());
    assert_eq!(live, settled(json(copy.path(), &["--json", "--all"])));
}

#[test]
fn this_machine_is_listed_without_root() {
    if !Path::new("/sys/block").exists() {
        lacks("/sys/block");
        return;
    }
    let copy = CopyForEverybody::new();
    let mut command = std::process::Command::new(copy.binary());
    command
        .args(["list", "--json", "--all", "-v"])
        .current_dir("/");
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let listing: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!names(&listing).is_empty());
}

#[test]
fn each_tunable_that_a_machine_here_has_is_explained() {
    let explained = text(&answer(&["list", "--help-tunables"]).stdout);
    assert!(
        explained.lines().all(|line| line.chars().count() <= 80),
        "{explained}"
    );
    let listed = answer(&["list", "--help-tunables", "--json"]).stdout;
    let listed: serde_json::Value = serde_json::from_slice(&listed).unwrap();
    let known: BTreeSet<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    let (mut open, mut seen) = (
        machine_tree::names()
            .iter()
            .map(|name| tree(name))
            .collect::<Vec<_>>(),
        0,
    );
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else if directory.ends_with("queue/iosched") {
                let active = fs::read_to_string(directory.join("../scheduler")).unwrap();
                if active.contains("[adios]") {
                    continue; // a scheduler that nobody knows
                }
                let name = entry.file_name().into_string().unwrap();
                assert!(known.contains(name.as_str()), "{}", entry.path().display());
                seen += 1;
            }
        }
    }
    assert!(seen > 0);
}
