//! Runs in a life: how they are cut short, what their records say, and what stands for the kernel's own files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{UnmountFlags, mount_bind, unmount};

use crate::common::chance::Chance;
use crate::common::checks::{names, processes_here};
use crate::common::traced::{self, End, Kind, Traced, Way};
use crate::common::{iosched, iosched_process, lossy, wait_until};

/// A run makes about so many calls that change files.
const CHANGES: usize = 150;

/// The exit code of what Ctrl-C ended.
pub(super) const INTERRUPTED: i32 = 130;

/// `tune` of a target, two rounds of two arms of a load that is a command of the shell.
pub(super) fn tune(target: &Path, load: &str, out: &Path) -> Command {
    let mut command = iosched_process();
    command.arg("tune").arg(target);
    command.args(["--arms", "none,mq-deadline", "--fixed-rounds", "2"]);
    command.arg("--load").arg(format!("command: sh: {load}"));
    command.arg("--no-html").arg("--out").arg(out);
    command
}

/// `tune --resume`.
pub(super) fn resume(out: &Path) -> Command {
    let mut command = iosched_process();
    command.arg("tune").arg("--resume").arg(out);
    command
}

/// Runs a command to its end, or until Ctrl-C or SIGKILL at a call that is drawn.
pub(super) fn run(command: &mut Command, chance: &mut Chance, told: &mut Vec<String>) -> Traced {
    let (way, how) = match chance.below(4) {
        0 => (Way::Interrupt, "interrupted"),
        1 => (Way::Kill, "killed"),
        _ => (Way::Kill, ""),
    };
    let n = if how.is_empty() {
        usize::MAX
    } else {
        1 + chance.below(CHANGES)
    };
    let run = traced::run(command, Kind::is_change, n, way);
    let hit = run.hit.as_deref().unwrap_or("its end");
    told.push(format!("{how} at {hit}: {:?}", run.end));
    run
}

/// True if it did not come to an orderly end: SIGKILL, or Ctrl-C before it was listened to.
pub(super) fn is_killed(run: &Traced) -> bool {
    run.end == End::Killed
}

/// What the record of a run says of it.
#[derive(Debug, PartialEq)]
pub(super) enum Recorded {
    /// There is none.
    Nothing,
    Unfinished {
        /// How often it was gone on with.
        resumptions: usize,
        /// True if it says what was left on a raw disk when it was last interrupted.
        has_left: bool,
    },
    Finished,
}

pub(super) fn recorded(out: &Path) -> Recorded {
    let Ok(text) = fs::read_to_string(out.join("record.jsonl")) else {
        return Recorded::Nothing;
    };
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let kinds: Vec<String> = whole
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["type"].as_str().unwrap_or_default().to_owned()
        })
        .collect();
    if kinds.iter().any(|kind| kind == "finished") {
        return Recorded::Finished;
    }
    let notes = kinds.iter().rev();
    let mut notes = notes.filter(|kind| matches!(kind.as_str(), "left" | "resumed"));
    Recorded::Unfinished {
        resumptions: kinds.iter().filter(|kind| *kind == "resumed").count(),
        has_left: notes.next().is_some_and(|kind| kind == "left"),
    }
}

/// Nothing of ours runs, is mounted or is to be put back, besides what is in these directories.
pub(super) fn nothing_is_left() {
    assert!(
        wait_until(|| processes_here().is_empty()),
        "{:?}",
        processes_here()
    );
    for directory in ["/var/lib/iosched/journal", "/run/iosched/mounted"] {
        assert_eq!(names(Path::new(directory)), [""; 0], "{directory}");
    }
}

/// What was killed is put back.
pub(super) fn restore() {
    let output = iosched().arg("restore").output().unwrap();
    let said = lossy(&output.stdout) + &lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// Every record of a run, finished or not, can be read.
pub(super) fn records_are_read(records: &Path) {
    for name in names(records) {
        let out = records.join(name);
        if recorded(&out) != Recorded::Nothing {
            iosched().arg("report").arg(&out).assert().success();
        }
    }
}

/// A file of the test's own in the place of one of the kernel's.
struct StandIn {
    file: tempfile::NamedTempFile,
    at: &'static str,
}

impl StandIn {
    fn new(at: &'static str) -> StandIn {
        let file = tempfile::NamedTempFile::new().unwrap();
        mount_bind(file.path(), at).unwrap();
        StandIn { file, at }
    }

    fn write(&self, text: &str) {
        fs::write(self.file.path(), text).unwrap();
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = unmount(self.at, UnmountFlags::DETACH);
    }
}

/// What the kernel says of itself, which a life can change.
pub(super) struct Kernel {
    boot_id: StandIn,
    boots: u64,
    /// A run empties the page cache before each trial, which makes everybody on the machine wait; here nobody measures.
    _drop_caches: StandIn,
}

impl Kernel {
    pub(super) fn new() -> Kernel {
        let mut kernel = Kernel {
            boot_id: StandIn::new("/proc/sys/kernel/random/boot_id"),
            boots: 0,
            _drop_caches: StandIn::new("/proc/sys/vm/drop_caches"),
        };
        kernel.is_booted();
        kernel
    }

    /// The machine was booted; what a boot does to disks and mounts is the caller's.
    pub(super) fn is_booted(&mut self) {
        self.boots += 1;
        let id = format!("00000000-0000-4000-8000-{:012}\n", self.boots);
        self.boot_id.write(&id);
    }
}

/// A place for records.
pub(super) struct Records {
    directory: tempfile::TempDir,
    made: usize,
}

impl Records {
    pub(super) fn new() -> Records {
        Records {
            directory: tempfile::tempdir().unwrap(),
            made: 0,
        }
    }

    /// A new one's name, and its number.
    pub(super) fn next(&mut self) -> (usize, PathBuf) {
        self.made += 1;
        (self.made, self.path().join(self.made.to_string()))
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}
