//! Commands that change settings or files: `set`, `persist`, `apply`, and `undo` of each.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{DRAWN, Situation, at_calls};
use crate::common::checks::{difference, must, restore, undo_all};
use crate::common::machine::{Machine, is_unfinished};
use crate::common::traced::{End, Traced, Way};
use crate::common::tuning::MIB;
use crate::common::{LoopDevice, can_use_loop_devices, iosched, iosched_process};

/// `iosched set`, or the `iosched undo` after it.
struct Set {
    disk: LoopDevice,
    is_undo: bool,
    before: BTreeMap<String, String>,
    after: BTreeMap<String, String>,
}

impl Set {
    fn new(is_undo: bool) -> Option<Set> {
        if !can_use_loop_devices() {
            return None;
        }
        let mut set = Set {
            disk: LoopDevice::new(8 * MIB),
            is_undo,
            before: BTreeMap::new(),
            after: BTreeMap::new(),
        };
        set.begin_anew();
        set.before = set.disk.whole_queue();
        set.set();
        set.after = set.disk.whole_queue();
        assert_ne!(set.after, set.before);
        Some(set)
    }

    /// Whatever came before, which may have failed.
    fn begin_anew(&self) {
        for directory in ["history", "journal"] {
            let _ = fs::remove_dir_all(Path::new("/var/lib/iosched").join(directory));
        }
        for (file, value) in [
            ("scheduler", "none"),
            ("scheduler", "mq-deadline"),
            ("iosched/fifo_batch", "7"),
            ("nr_requests", "99"),
        ] {
            self.disk.write(file, value);
        }
    }

    fn arguments(&self) -> [&str; 5] {
        [
            "set",
            &self.disk.name,
            "bfq",
            "low_latency=0",
            "nr_requests=64",
        ]
    }

    fn set(&self) {
        iosched().args(self.arguments()).assert().success();
    }
}

impl Situation for Set {
    fn prepare(&mut self) {
        self.begin_anew();
        assert_eq!(self.disk.whole_queue(), self.before);
        if self.is_undo {
            self.set();
        }
    }

    fn command(&self) -> Command {
        let mut command = iosched_process();
        if self.is_undo {
            command.arg("undo");
        } else {
            command.args(self.arguments());
        }
        command
    }

    fn holds(&mut self, run: &Traced) -> Result<(), String> {
        let (from, to) = if self.is_undo {
            (&self.after, &self.before)
        } else {
            (&self.before, &self.after)
        };
        restore()?;
        let is = self.disk.whole_queue();
        if run.end == End::Exited(0) {
            must(is == *to, || format!("not done: {}", difference(&is, to)))?;
        }
        must(is == *from || is == *to, || {
            format!("half: {}", difference(&is, to))
        })?;
        undo_all(None)?;
        let is = self.disk.whole_queue();
        must(is == self.before, || {
            format!("not taken back: {}", difference(&is, &self.before))
        })
    }
}

#[test]
fn set_is_done_or_not_done_whatever_fails() {
    if let Some(mut set) = Set::new(false) {
        at_calls("set", DRAWN, &mut set);
    }
}

#[test]
fn undo_is_done_or_not_done_whatever_fails() {
    if let Some(mut undo) = Set::new(true) {
        at_calls("undo", DRAWN, &mut undo);
    }
}

/// `iosched persist`, `iosched undo` after it, or `iosched apply`, on a copied tree.
struct Persist {
    command: &'static str,
    machine: Machine,
    /// Before all changes.
    at_first: BTreeMap<PathBuf, String>,
    before: BTreeMap<PathBuf, String>,
    after: BTreeMap<PathBuf, String>,
}

impl Persist {
    fn new(command: &'static str) -> Persist {
        let mut persist = Persist {
            command,
            machine: Machine::two_disks(),
            at_first: BTreeMap::new(),
            before: BTreeMap::new(),
            after: BTreeMap::new(),
        };
        persist.at_first = persist.etc();
        persist.prepare();
        let output = persist.command().output().unwrap();
        assert!(output.status.success(), "{output:?}");
        persist.after = persist.etc();
        persist
    }

    /// Below `/etc`, by what it is called there.
    fn etc(&self) -> BTreeMap<PathBuf, String> {
        let files = self.machine.etc().into_iter();
        let root = self.machine.root();
        files
            .map(|(path, text)| (path.strip_prefix(root).unwrap().to_owned(), text))
            .collect()
    }
}

impl Situation for Persist {
    fn prepare(&mut self) {
        self.machine = Machine::two_disks();
        self.machine.succeeds("persist", &["--yes", "sdb", "none"]);
        match self.command {
            "undo" => {
                self.machine.succeeds("persist", &["--yes", "sda", "bfq"]);
            }
            "apply" => {
                let policy = self.machine.read("etc/iosched/policy.toml");
                let policy = policy.replace("\"none\"", "\"mq-deadline\"");
                self.machine.write("etc/iosched/policy.toml", &policy);
            }
            _ => {}
        }
        self.before = self.etc();
    }

    fn command(&self) -> Command {
        let mut command = iosched_process();
        command
            .arg(self.command)
            .arg("--root")
            .arg(self.machine.root());
        match self.command {
            "persist" => command.args(["--yes", "sda", "bfq"]),
            "apply" => command.arg("--yes"),
            _ => &mut command,
        };
        command
    }

    fn holds(&mut self, run: &Traced) -> Result<(), String> {
        let is = self.etc();
        let told = format!("{is:#?}");
        match run.end {
            End::Exited(0) => must(is == self.after, || format!("not done: {told}"))?,
            End::Exited(_) if run.way != Way::FailEver => {
                let is_whole = is == self.before || is == self.after;
                must(is_whole, || format!("half: {told}"))?;
            }
            // Not even what was changed can be changed back.
            End::Exited(_) | End::Killed => {}
        }
        // The next one finishes what is left.
        let mut again = self.command();
        let output = again.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_undone = self.command == "undo" && output.status.code() == Some(1);
        must(output.status.success() || is_undone, || {
            format!("again: {said}")
        })?;
        let mut expected = &self.after;
        if self.command == "undo" {
            while self.machine.run("undo", &[]).0 == 0 {}
            expected = &self.at_first;
        }
        let is = self.etc();
        must(is == *expected, || format!("not finished: {is:#?}"))?;
        let left: Vec<_> = is.keys().filter(|path| is_unfinished(path)).collect();
        must(left.is_empty(), || format!("left: {left:?}"))
    }
}

#[test]
fn persist_is_done_or_not_done_whatever_fails() {
    at_calls("persist", DRAWN, &mut Persist::new("persist"));
}

#[test]
fn undo_of_persist_is_done_or_not_done_whatever_fails() {
    at_calls("undo of persist", DRAWN, &mut Persist::new("undo"));
}

#[test]
fn apply_is_done_or_not_done_whatever_fails() {
    at_calls("apply", DRAWN, &mut Persist::new("apply"));
}
