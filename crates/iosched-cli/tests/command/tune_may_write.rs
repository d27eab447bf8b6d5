//! Whether `iosched tune` may write to a raw device: what somebody else has put there, or has open, or has put
//! in its place, is not touched, neither by a new run nor by one that goes on.
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use iosched_machine::device;
use iosched_machine::host::Host;
use iosched_testing::{lacks, loop_device};

use crate::common::tuning::{MIB, fio_runs_on, record, signal, small_disk, start, tune};
use crate::common::{LoopDevice, Mounted, can_emulate, iosched, run, wait_until};

/// A run of `random-write` that was interrupted while it wrote to a blank disk.
pub(crate) struct Interrupted {
    pub(crate) disk: LoopDevice,
    directory: tempfile::TempDir,
}

impl Interrupted {
    pub(crate) fn new() -> Option<Interrupted> {
        Interrupted::by(rustix::process::Signal::INT)
    }

    fn by(how: rustix::process::Signal) -> Option<Interrupted> {
        let interrupted = Interrupted {
            disk: small_disk()?,
            directory: tempfile::tempdir().unwrap(),
        };
        let disk = &interrupted.disk.name;
        let load = [disk, "--load", "random-write", "--destroy-data"];
        let short = ["--arms", "none,mq-deadline", "--fixed-rounds", "2"];
        let long = ["--steady", "off", "--runtime", "600s"];
        let arguments = [&load[..], &short, &long].concat();
        let mut child = start(&arguments, &interrupted.out());
        assert!(wait_until(|| fio_runs_on(disk)), "fio never ran");
        assert!(wait_until(|| is_written(&interrupted.disk)));
        signal(child.id(), how);
        child.wait().unwrap();
        assert!(wait_until(|| !is_open(disk)), "fio goes on");
        // What goes on shall soon end.
        interrupted.edit("\"runtime_s\":600.0", "\"runtime_s\":0.2");
        Some(interrupted)
    }

    /// Where its record is.
    pub(crate) fn out(&self) -> PathBuf {
        self.directory.path().join("r")
    }

    /// Changes the record.
    fn edit(&self, from: &str, to: &str) {
        let path = self.out().join("record.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replace(from, to)).unwrap();
    }

    /// Goes on: exit code and standard error.
    fn resume(&self, more: &[&str]) -> (i32, String) {
        let mut command = iosched();
        command.args(["tune", "--resume"]).arg(self.out());
        let output = command.args(more).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap_or(-1), stderr)
    }

    /// `--destroy-data=loop3`.
    fn named(&self) -> String {
        named(&self.disk)
    }

    /// It must not go on, and not a byte of the disk may change.
    fn must_not_go_on(&self, more: &[&str], because: &str) -> String {
        let before = fs::read(self.disk.file()).unwrap();
        let (code, stderr) = self.resume(more);
        assert_eq!(code, 11, "{stderr}");
        assert!(stderr.contains(because), "{stderr}");
        assert_eq!(stderr.matches("error: ").count(), 1, "{stderr}");
        let after = fs::read(self.disk.file()).unwrap();
        assert!(before == after, "the disk was written");
        stderr
    }
}

fn named(disk: &LoopDevice) -> String {
    format!("--destroy-data={}", disk.name)
}

/// True while any process has it open.
fn is_open(disk: &str) -> bool {
    let host = Host::live();
    let device = device::find(&host, disk).unwrap();
    !device::openers(&host, &[device], &[]).found.is_empty()
}

fn is_written(disk: &LoopDevice) -> bool {
    let file = fs::read(disk.file()).unwrap();
    file.iter().any(|&byte| byte != 0)
}

/// Makes a file system with 200 files.
fn make_file_system(disk: &LoopDevice) {
    let node = disk.path().display().to_string();
    run("mkfs.ext4", &["-q", "-F", &node]);
    let point = tempfile::tempdir().unwrap();
    let at = point.path().to_str().unwrap();
    run("mount", &[&node, at]);
    for file in 0..200 {
        fs::write(point.path().join(file.to_string()), [7; 1000]).unwrap();
    }
    run("umount", &[at]);
}

/// Writes data that have no signature through the device's node.
fn write_data(disk: &LoopDevice, offset: u64) {
    let node = fs::File::options().write(true).open(disk.path()).unwrap();
    let data = vec![0xa5; 1 << 20];
    node.write_all_at(&data, offset).unwrap();
    node.sync_all().unwrap();
}

#[test]
fn a_run_that_writes_goes_on_only_when_it_is_allowed_again() {
    let Some(interrupted) = Interrupted::new() else {
        return;
    };
    let stderr = interrupted.must_not_go_on(&["--no-html"], "load random-write writes");
    let out = interrupted.out().display().to_string();
    let command = format!("iosched tune --resume {out} --no-html --destroy-data");
    assert!(stderr.contains(&command), "{stderr}");
    interrupted.must_not_go_on(&["--destroy-data=loop-control"], "names loop-control");
    let (code, stderr) = interrupted.resume(&["--destroy-data"]);
    assert_eq!(code, 0, "what it wrote itself is its own: {stderr}");
    let kinds: Vec<_> = record(&interrupted.out())
        .iter()
        .filter_map(|line| Some(line["type"].as_str()?.to_owned()))
        .collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "left").count(), 2);
    let (code, stderr) = interrupted.resume(&["--destroy-data"]);
    assert_eq!(code, 12, "it is complete: {stderr}");
}

#[test]
fn a_run_that_was_killed_goes_on_over_what_it_wrote() {
    let Some(interrupted) = Interrupted::by(rustix::process::Signal::KILL) else {
        return;
    };
    let (code, stderr) = interrupted.resume(&["--destroy-data"]);
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn a_file_system_that_came_after_the_interruption_keeps_a_run_from_going_on() {
    for how in [rustix::process::Signal::INT, rustix::process::Signal::KILL] {
        let Some(interrupted) = Interrupted::by(how) else {
            return;
        };
        make_file_system(&interrupted.disk);
        let because = "ext4 file system, new or changed since";
        let stderr = interrupted.must_not_go_on(&["--destroy-data"], because);
        let named = interrupted.named();
        let out = interrupted.out().display().to_string();
        let command = format!("iosched tune --resume {out} {named}");
        assert!(stderr.contains(&command), "{stderr}");
        interrupted.must_not_go_on(&[], "writes, and");
        let (code, stderr) = interrupted.resume(&[&named]);
        assert_eq!(code, 0, "named again: {stderr}");
    }
}

#[test]
fn another_disk_of_the_same_size_under_the_old_name_is_not_written() {
    let Some(interrupted) = Interrupted::new() else {
        return;
    };
    let other = LoopDevice::new(64 * MIB);
    // As if the two had changed their names over a reboot.
    interrupted.edit(&interrupted.disk.name, &other.name);
    for consent in ["--destroy-data".to_owned(), named(&other)] {
        interrupted.must_not_go_on(&[&consent], "not the disk that was given up");
    }
    assert!(!is_written(&other));
}

#[test]
fn data_without_a_signature_that_came_after_the_interruption_are_not_overwritten() {
    let Some(interrupted) = Interrupted::new() else {
        return;
    };
    write_data(&interrupted.disk, 0);
    interrupted.must_not_go_on(&["--destroy-data"], "holds other data");
    let (code, stderr) = interrupted.resume(&[&interrupted.named()]);
    assert_eq!(code, 0, "named again: {stderr}");
}

#[test]
fn a_record_that_does_not_say_what_was_given_up_needs_the_disk_to_be_named() {
    let Some(interrupted) = Interrupted::new() else {
        return;
    };
    let path = interrupted.out().join("record.jsonl");
    let mut lines = record(&interrupted.out());
    lines[0]["schema"] = 2.into();
    let plan = lines[0]["plan"].as_object_mut().unwrap();
    plan.remove("given_up").unwrap();
    lines.retain(|line| line["type"] != "left");
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    fs::write(path, lines.join("\n") + "\n").unwrap();
    interrupted.must_not_go_on(&["--destroy-data"], "an older iosched wrote it");
    let (code, stderr) = interrupted.resume(&[&interrupted.named()]);
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn a_disk_that_somebody_else_can_write_to_is_refused_whatever_is_said() {
    let Some(interrupted) = Interrupted::new() else {
        return;
    };
    let blank = LoopDevice::new(64 * MIB);
    let dir = tempfile::tempdir().unwrap();
    let write = ["--load", "random-write", "--steady", "off"];
    let reader = fs::File::open(blank.path()).unwrap();
    let allowed = [&write[..], &["--destroy-data"]].concat();
    let (code, _, stderr) = tune(&blank.name, &dir.path().join("1"), &allowed);
    assert_eq!(code, 0, "a reader loses nothing: {stderr}");
    drop(reader);

    let open = |disk: &LoopDevice| fs::File::options().read(true).write(true).open(disk.path());
    let _machine = open(&blank).unwrap();
    let before = fs::read(blank.file()).unwrap();
    let ours = format!("(pid {}): open for writing", std::process::id());
    for consent in ["--destroy-data".to_owned(), named(&blank)] {
        for mkfs in [&[][..], &["--mkfs", "ext4"]] {
            let arguments = [&write[..], &[consent.as_str()], mkfs].concat();
            let (code, _, stderr) = tune(&blank.name, &dir.path().join("2"), &arguments);
            assert_eq!(code, 11, "{stderr}");
            let in_use = format!("{} is in use by ", blank.name);
            assert!(
                stderr.contains(&in_use) && stderr.contains(&ours),
                "{stderr}"
            );
            assert!(stderr.contains("out of use"), "{stderr}");
        }
    }
    assert!(fs::read(blank.file()).unwrap() == before);

    let _database = open(&interrupted.disk).unwrap();
    interrupted.must_not_go_on(&[&interrupted.named()], "open for writing");
}

#[test]
fn a_disk_without_a_signature_that_is_not_empty_has_to_be_named() {
    let Some(disk) = small_disk() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    write_data(&disk, 32 * MIB);
    let before = fs::read(disk.file()).unwrap();
    let write = ["--load", "random-write", "--steady", "off"];
    let allowed = [&write[..], &["--destroy-data"]].concat();
    let (code, _, stderr) = tune(&disk.name, &dir.path().join("1"), &allowed);
    assert_eq!(code, 11, "{stderr}");
    assert!(
        stderr.contains("carries no signature, but it is not empty"),
        "{stderr}"
    );
    assert!(stderr.contains(&named(&disk)), "{stderr}");
    assert!(fs::read(disk.file()).unwrap() == before);
    let named = named(&disk);
    let twice = [&write[..], &[&named]].concat();
    let (code, _, stderr) = tune(&disk.name, &dir.path().join("2"), &twice);
    assert_eq!(code, 0, "{stderr}");
}

/// A loop device beside those of [`LoopDevice`], detached when dropped.
struct Beside(String);

impl Beside {
    fn on(file: &Path, options: &[&str]) -> Beside {
        Beside(loop_device::attach(file, options))
    }

    fn node(&self) -> String {
        format!("/dev/{}", self.0)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .args(["--detach", &self.node()])
            .output();
    }
}

/// What else is written where the disk is written, and nobody sees by its path.
#[test]
fn a_disk_whose_bytes_another_loop_device_or_process_uses_is_refused_whatever_is_said() {
    let Some(disk) = small_disk() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let refused = |target: &str, because: &str| {
        let before = fs::read(disk.file()).unwrap();
        let consent = format!("--destroy-data={target}");
        for more in [&[][..], &["--mkfs", "ext4"]] {
            let write = ["--load", "random-write", "--steady", "off", &consent];
            let (code, _, stderr) = tune(target, &dir.path().join("r"), &[&write, more].concat());
            assert_eq!(code, 11, "{stderr}");
            assert!(stderr.contains(because), "{because}: {stderr}");
        }
        assert!(fs::read(disk.file()).unwrap() == before, "{because}");
    };

    // Through a node elsewhere, as a container has.
    let number = fs::read_to_string(format!("/sys/block/{}/dev", disk.name)).unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    let node = dir.path().join("node");
    run("mknod", &[node.to_str().unwrap(), "b", major, minor]);
    let above = Beside::on(&node, &[]);
    refused(&disk.name, &format!("{} stands on {}", above.0, disk.name));
    // And what stands on a disk that is used.
    let user = fs::File::options().write(true).open(disk.path()).unwrap();
    refused(&above.0, &format!("{} is in use by", disk.name));
    drop((user, above));

    // The same file twice, and a part of it.
    let file = disk.file().display().to_string();
    for options in [&[][..], &["--offset", "1048576"]] {
        let second = Beside::on(disk.file(), options);
        refused(&disk.name, &format!("{} stands on {file}", second.0));
        refused(&second.0, &format!("{} stands on {file}", disk.name));
    }

    // The file itself, as a virtual machine has it.
    let machine = fs::File::options().write(true).open(disk.file()).unwrap();
    refused(&disk.name, &format!("{file} is in use by"));
    drop(machine);
}

/// Turned off when dropped.
struct Swap(PathBuf);

impl Swap {
    /// A file of this file system that the kernel swaps to; says what lacks otherwise.
    fn on(mounted: &Mounted) -> Option<Swap> {
        let path = mounted.at.join("swap");
        fs::write(&path, vec![0; 16 << 20]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        run("mkswap", &["--quiet", path.to_str().unwrap()]);
        let on = Command::new("swapon").arg(&path).output().unwrap();
        if !on.status.success() {
            lacks("a kernel that lets us swap to a file");
            return None;
        }
        Some(Swap(path))
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).output();
    }
}

#[test]
fn a_swap_file_below_a_loop_device_is_refused_by_name_whatever_is_said() {
    let Some(disk) = small_disk() else {
        return;
    };
    let mounted = Mounted::with(disk, &[]);
    let Some(swap) = Swap::on(&mounted) else {
        return;
    };
    let above = Beside::on(&swap.0, &[]);
    let dir = tempfile::tempdir().unwrap();
    let consent = format!("--destroy-data={}", above.0);
    let write = ["--load", "random-write", "--steady", "off", &consent];
    let (code, _, stderr) = tune(&above.0, &dir.path().join("r"), &write);
    assert_eq!(code, 11, "{stderr}");
    let is_swap = format!("{} is swap", swap.0.display());
    assert!(stderr.contains(&is_swap), "{stderr}");
}

/// An overlay of two layers with a file each, which is called as the layer; unmounted when dropped.
struct Overlay(tempfile::TempDir);

impl Overlay {
    /// None, and a line that says why, where the kernel has none.
    fn new() -> Option<Overlay> {
        let dir = tempfile::tempdir_in(loop_device::directory()).unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        for name in ["lower", "upper", "work", "merged"] {
            fs::create_dir(at(name)).unwrap();
        }
        for name in ["lower", "upper"] {
            let file = fs::File::create(dir.path().join(name).join(name));
            file.unwrap().set_len(64 * MIB).unwrap();
        }
        let [lower, upper, work] = ["lower", "upper", "work"].map(at);
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let arguments = ["-t", "overlay", "none", "-o", &options, &at("merged")];
        let mounted = Command::new("mount").args(arguments).output().unwrap();
        if !mounted.status.success() {
            lacks("a kernel with overlayfs");
            return None;
        }
        Some(Overlay(dir))
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(below)
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path("merged")).output();
    }
}

/// A file of an overlay has other numbers than the file of the layer that it shows.
#[test]
fn a_file_that_an_overlay_shows_is_the_file_of_its_layer() {
    if small_disk().is_none() {
        return;
    }
    let Some(overlay) = Overlay::new() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let refused = |target: &Beside, because: &str| {
        let consent = format!("--destroy-data={}", target.0);
        let write = ["--load", "random-write", "--steady", "off", &consent];
        let (code, _, stderr) = tune(&target.0, &dir.path().join("r"), &write);
        assert_eq!(code, 11, "{stderr}");
        assert!(stderr.contains(because), "{because}: {stderr}");
    };
    for layer in ["upper", "lower"] {
        let [below, shown] = [layer, "merged"].map(|at| overlay.path(at).join(layer));
        let [layer_file, shown_file] = [&below, &shown].map(|path| path.display().to_string());
        // What is written through the overlay is a copy in the upper layer.
        let options = if layer == "lower" {
            &["--read-only"][..]
        } else {
            &[]
        };
        let layer_loop = Beside::on(&below, &[]);
        let shown_loop = Beside::on(&shown, options);
        refused(
            &layer_loop,
            &format!("{} stands on {layer_file}", shown_loop.0),
        );
        if layer == "lower" {
            continue;
        }
        refused(
            &shown_loop,
            &format!("{} stands on {shown_file}", layer_loop.0),
        );
        drop(shown_loop);
        let write = |path: &Path| fs::File::options().write(true).open(path).unwrap();
        let writer = write(&shown);
        refused(&layer_loop, &format!("{layer_file} is in use by"));
        drop((writer, layer_loop));
        let shown_loop = Beside::on(&shown, &[]);
        let writer = write(&below);
        refused(&shown_loop, &format!("{shown_file} is in use by"));
        drop((writer, shown_loop));
        if can_emulate() {
            let _layer_loop = Beside::on(&below, &[]);
            let serve = [
                "emulate",
                "create",
                "--scheduler",
                "noop",
                "--over",
                &shown_file,
            ];
            let output = iosched().args(serve).output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(11), "{stderr}");
            let because = format!("stands on {shown_file}");
            assert!(stderr.contains(&because), "{stderr}");
        }
    }
}

#[test]
fn another_part_of_the_file_behind_a_loop_device_is_another_disk() {
    let Some(interrupted) = Interrupted::by(rustix::process::Signal::KILL) else {
        return;
    };
    let disk = &interrupted.disk;
    let file = fs::File::options().write(true).open(disk.file()).unwrap();
    file.set_len(128 * MIB).unwrap();
    drop(file);
    // As LOOP_SET_STATUS does it: the device stays, with its name and its count of attachments.
    let node = disk.path();
    loop_device::detach(&disk.name);
    let half = ["--offset", "67108864", "--sizelimit", "67108864"];
    let output = Command::new("losetup")
        .args(half)
        .arg(&node)
        .arg(disk.file())
        .output();
    if !output.unwrap().status.success() {
        return; // another test was faster
    }
    interrupted.must_not_go_on(&["--destroy-data"], "another part of its file");
    interrupted.must_not_go_on(&[&interrupted.named()], "another part of its file");
}
