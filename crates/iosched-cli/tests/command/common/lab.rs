//! A place of its own for the emulated disks of one test, which takes down whatever is left in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use iosched_testing::lacks;

use super::{assert_done, assert_refused, iosched_process, remove_emulated, run, wait_until};
pub(crate) use super::{stderr, stdout};

/// A state directory, and a mount point beside it.
pub(crate) struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    /// `None`, with a word about it, where this machine cannot run the test.
    pub(crate) fn new(tools: &[&str]) -> Option<Lab> {
        let mut lacking: Vec<String> =
            iosched_emulate::missing(&iosched_machine::host::Host::live())
                .iter()
                .map(ToString::to_string)
                .collect();
        let absent = tools.iter().filter(|tool| !is_installed(tool));
        lacking.extend(absent.map(ToString::to_string));
        if !lacking.is_empty() {
            lacks(&lacking.join(", "));
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("mnt")).unwrap();
        Some(Lab { dir })
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.dir.path().join("emulated")
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    /// `iosched emulate ...` with our state directory: words between blanks.
    pub(crate) fn emulate(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// The same, to be started otherwise.
    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = iosched_process();
        command.arg("emulate").args(words.split(' '));
        command.arg("--state-dir").arg(self.state_dir());
        command
    }

    /// See [`assert_refused`].
    #[track_caller]
    pub(crate) fn refuses(&self, words: &str, code: i32, says: &str) {
        assert_refused(&self.emulate(words), code, says);
    }

    /// Makes a disk and returns its device.
    pub(crate) fn create(&self, words: &str) -> String {
        let output = self.emulate(&format!("create {words}"));
        assert_done(&output);
        let device = stdout(&output);
        assert!(
            device.starts_with("/dev/loop") && device.ends_with('\n'),
            "{device:?}"
        );
        device.trim_end().to_owned()
    }

    /// Removes a disk once nobody looks into it any more: another test, or udev.
    pub(crate) fn remove(&self, words: &str) {
        let state_dir = self.state_dir();
        let mut words: Vec<&str> = words.split(' ').collect();
        words.extend(["--state-dir", state_dir.to_str().unwrap()]);
        remove_emulated(&words);
    }

    /// Removes all disks once nobody looks into them any more, after which nothing of them is left.
    pub(crate) fn remove_all(&self) {
        self.remove("--all");
        wait_for("the end of all", || self.remains().is_empty());
    }

    pub(crate) fn list(&self) -> Vec<Value> {
        let output = self.emulate("list --json");
        let disks: Value = serde_json::from_slice(&output.stdout).unwrap();
        disks.as_array().unwrap().clone()
    }

    /// The one disk that there is.
    pub(crate) fn only_disk(&self) -> Value {
        let disks = self.list();
        assert_eq!(disks.len(), 1, "{disks:?}");
        disks[0].clone()
    }

    pub(crate) fn server_pid(&self) -> String {
        self.only_disk()["server_pid"].as_i64().unwrap().to_string()
    }

    pub(crate) fn kill_server(&self) {
        run("kill", &["-KILL", &self.server_pid()]);
        wait_for("the server's end", || {
            self.only_disk()["condition"] == "remains"
        });
    }

    /// Puts every scheduler that there is inside, one after the other.
    pub(crate) fn set_each_inside(&self, device: &str) {
        for scheduler in [
            "deadline:fifo_batch=1",
            "noop",
            "mq-deadline",
            "kyber",
            "bfq",
            "none",
            "cfq",
        ] {
            let set = self.emulate(&format!("set {device} {scheduler}"));
            assert_done(&set);
            assert_eq!(self.only_disk()["scheduler"], scheduler);
        }
    }

    /// Asks the server of a disk that somebody uses to end, and waits until it has.
    pub(crate) fn end_server(&self) {
        run("kill", &["-TERM", &self.server_pid()]);
        wait_for("the server's end", || {
            self.only_disk()["condition"] == "remains"
        });
    }

    /// The disk's own account of what it served.
    pub(crate) fn served(&self) -> Vec<Served> {
        let id = self.only_disk()["id"].as_str().unwrap().to_owned();
        let path = self.state_dir().join(id).join("mount/served.csv");
        let text = fs::read_to_string(path).unwrap();
        text.lines().skip(1).map(Served::parse).collect()
    }

    /// Asserts that nothing of any disk is left.
    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.remains(), "");
    }

    /// What is left of any disk: mounts, loop devices, directories, processes.
    pub(crate) fn remains(&self) -> String {
        let state_dir = self.state_dir();
        let state_dir = state_dir.to_str().unwrap();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mut left: Vec<String> = mounts
            .lines()
            .filter(|line| line.contains(state_dir))
            .map(str::to_owned)
            .collect();
        for device in fs::read_dir("/sys/block").unwrap().flatten() {
            let file = fs::read_to_string(device.path().join("loop/backing_file"));
            if file.is_ok_and(|file| file.contains(state_dir)) {
                left.push(device.path().display().to_string());
            }
        }
        let entries = fs::read_dir(state_dir).into_iter().flatten().flatten();
        left.extend(entries.map(|entry| entry.path().display().to_string()));
        let pids = super::processes_with(state_dir).into_iter();
        left.extend(pids.map(|pid| format!("process {pid}")));
        left.join("; ")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        let _ = unmount.arg("-l").arg(self.mount_point()).output();
        self.emulate("remove --all --force");
    }
}

/// A line of `served.csv`.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) op: String,
    pub(crate) start: u64,
    pub(crate) arrived: u64,
    pub(crate) completed: u64,
}

impl Served {
    pub(crate) fn parse(line: &str) -> Served {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse().unwrap();
        Served {
            op: fields[0].to_owned(),
            start: number(1),
            arrived: number(3),
            completed: number(5),
        }
    }
}

pub(crate) fn is_installed(tool: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut dirs = path.split(':').chain(["/usr/sbin", "/sbin"]);
    dirs.any(|dir| Path::new(dir).join(tool).is_file())
}

pub(crate) fn attribute(device: &str, file: &str) -> String {
    let path = device.replace("/dev/", "/sys/block/");
    fs::read_to_string(Path::new(&path).join(file))
        .unwrap()
        .trim()
        .to_owned()
}

pub(crate) fn wait_for(what: &str, condition: impl FnMut() -> bool) {
    assert!(wait_until(condition), "never came true: {what}");
}
