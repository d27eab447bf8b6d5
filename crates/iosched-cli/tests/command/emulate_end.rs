//! Emulated disks on the real kernel that others use while they are made, removed or broken: nothing is
//! left of them, and nobody waits for ever.
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::lab::{Lab, wait_for};
use crate::common::{
    LoopDevice, assert_done, assert_refused, can_emulate, iosched_process, lossy, run, wait_until,
};

#[test]
fn a_mounted_disk_is_removed_only_by_force() {
    let Some(lab) = Lab::new(&["mkfs.ext4", "mount"]) else {
        return;
    };
    let device = lab.create("null --size 32M");
    let mount_point = lab.mount_point();
    let at = mount_point.to_str().unwrap();
    run("mkfs.ext4", &["-q", &device]);
    run("mount", &[&device, at]);
    let refused = lab.emulate(&format!("remove {device}"));
    assert_refused(&refused, 9, &format!("is mounted at {at}"));
    fs::write(mount_point.join("still"), "works").unwrap();
    lab.remove(&format!("--force {device}"));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(at), "{mounts}");
    lab.assert_clean();
}

#[test]
fn an_open_disk_is_removed_only_by_force_and_its_device_goes_when_it_is_closed() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let device = lab.create("null --size 8M");
    let file = fs::File::open(&device).unwrap();
    let pid = format!("(pid {})", std::process::id());
    lab.refuses(&format!("remove {device}"), 9, &pid);
    lab.remove(&format!("--force {device}"));
    // All of it: some may be in the page cache, if somebody else has looked at the disk.
    let mut blocks = vec![0; 8 << 20];
    assert!(
        file.read_exact_at(&mut blocks, 0).is_err(),
        "the plug was pulled"
    );
    assert_eq!(lab.only_disk()["condition"], "remains");
    drop(file);
    lab.remove("--all");
    lab.assert_clean();
}

/// A process that reads a device with direct I/O until it fails.
fn reader(device: &str) -> Child {
    let mut command = Command::new("dd");
    command.args([
        &format!("if={device}"),
        "of=/dev/null",
        "bs=4k",
        "iflag=direct",
    ]);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_server_fails_its_requests_and_its_remains_are_cleared() {
    let Some(lab) = Lab::new(&["dd"]) else {
        return;
    };
    let device = lab.create("fixed --size 256M"); // 1 ms for each read: a minute and more
    let mut reader = reader(&device);
    wait_for("reads", || lab.served().len() > 10);
    lab.kill_server();
    wait_for("the reader's end", || reader.try_wait().unwrap().is_some());
    assert!(!reader.wait().unwrap().success());
    assert!(fs::read(&device).is_err(), "later requests fail as well");
    let disk = lab.only_disk();
    assert_eq!(disk["condition"], "remains");
    let remains = disk["remains"].to_string();
    for part in ["loop device", "mount", "directory"] {
        assert!(remains.contains(part), "{remains}");
    }
    lab.remove("--all");
    lab.assert_clean();
}

#[test]
fn a_terminated_server_takes_everything_down_itself() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    lab.create("null --size 8M");
    let pid = lab.server_pid();
    run("kill", &["-TERM", &pid]);
    wait_for("the server's end", || lab.list().is_empty());
    wait_for("the process' end", || {
        !Path::new("/proc").join(&pid).exists()
    });
    lab.assert_clean();
}

#[test]
fn a_disk_ends_with_its_owner() {
    let Some(lab) = Lab::new(&["sleep"]) else {
        return;
    };
    let mut owner = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = owner.id().to_string();
    lab.create(&format!("null --size 8M --owner-pid {pid}"));
    assert_eq!(lab.only_disk()["owner_pid"], owner.id());
    owner.kill().unwrap(); // SIGKILL
    owner.wait().unwrap();
    wait_for("the disk's end", || lab.list().is_empty());
    // The owner is gone already: no disk, and a reason.
    let create = format!("create null --size 8M --owner-pid {pid}");
    lab.refuses(&create, 2, &format!("cannot watch process {pid}"));
    lab.assert_clean();
}

#[test]
fn a_disk_with_another_mounted_below_it_stays_also_by_force_and_without_its_server() {
    if !can_emulate() {
        return;
    }
    let at = tempfile::tempdir().unwrap();
    let (above, below) = (at.path().join("above"), at.path().join("above/be low"));
    let created = run_iosched("emulate create null --size 64M");
    let device = String::from_utf8(created.stdout).unwrap().trim().to_owned();
    run("mkfs.ext4", &["-q", &device]);
    fs::create_dir(&above).unwrap();
    run("mount", &[&device, above.to_str().unwrap()]);
    let disk = LoopDevice::new(8 << 20);
    let other = disk.path().display().to_string();
    run("mkfs.ext4", &["-q", &other]);
    fs::create_dir(&below).unwrap();
    run("mount", &[&other, below.to_str().unwrap()]);
    fs::write(below.join("precious"), "text").unwrap();
    let listed = run_iosched("emulate list --json");
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let server = i32::try_from(listed[0]["server_pid"].as_i64().unwrap()).unwrap();
    let is_refused = |words: &str, code: i32| {
        let refused = run_iosched(words);
        let said = lossy(&refused.stdout) + &lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(code), "{said}");
        let says = format!("{} is mounted at {}", other, below.display());
        let way = format!("umount '{}'", below.display());
        assert!(said.contains(&says) && said.contains(&way), "{said}");
        assert_eq!(fs::read_to_string(below.join("precious")).unwrap(), "text");
    };
    is_refused("emulate remove --all --force", 9);
    kill_process(Pid::from_raw(server).unwrap(), Signal::KILL).unwrap();
    // The lock goes with the last of its threads.
    let is_running = || {
        let listed = run_iosched("emulate list --json");
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        listed[0]["condition"] == "running"
    };
    assert!(wait_until(|| !is_running()));
    is_refused("emulate remove --all", 9);
    is_refused("restore", 1);
    run("umount", &[below.to_str().unwrap()]);
    let restored = run_iosched("restore");
    assert_done(&restored);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(above.to_str().unwrap()), "{mounts}");
}

fn run_iosched(words: &str) -> Output {
    iosched_process().args(words.split(' ')).output().unwrap()
}
