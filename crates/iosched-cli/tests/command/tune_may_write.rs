//! Whether `iosched tune` may write to a raw device: what somebody else has put there, or has open, or has put
//! in its place, is not touched, neither by a new run nor by one that goes on.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use iosched_machine::device;
use iosched_machine::host::Host;
use iosched_testing::loop_device;

use crate::common::tuning::{fio_runs_on, record, signal, small_disk, start, tune};
use crate::common::{LoopDevice, iosched, run, wait_until};

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
