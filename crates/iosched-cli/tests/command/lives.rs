//! Random lives of an installation: what it set, kept and took back, beside crashes, foreign writes, new disks of an
//! old name and reboots. A model says after each step what must be so; at the end all is taken back.
//!
//! `IOSCHED_TEST_LIVES` says how many, `IOSCHED_TEST_SEED` which is the first: a failure names its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::chance::{Chance, number, seed};
use crate::common::machine::{Machine, is_unfinished};
use crate::common::traced::{self, End, Kind, Way};
use crate::common::tuning::MIB;
use crate::common::{LoopDevice, can_use_loop_devices, iosched, iosched_process, text};

/// So many where nothing else is said.
const LIVES: u64 = 12;

/// Steps of a life, at the most.
const STEPS: usize = 10;

fn seeds() -> impl Iterator<Item = u64> {
    let first = seed();
    first..first + number("IOSCHED_TEST_LIVES", LIVES)
}

/// True if the history, as `log --json` prints it, has an undo that was cut short.
fn is_undo_cut_short(log: &[u8]) -> bool {
    let log: Vec<serde_json::Value> = serde_json::from_slice(log).unwrap();
    log.iter().any(|entry| entry["status"] == "undoing")
}

/// How many changes the history has, as `log --json` prints it, that were not taken back.
fn not_taken_back(log: &[u8]) -> usize {
    let log: Vec<serde_json::Value> = serde_json::from_slice(log).unwrap();
    let is_there = |entry: &&serde_json::Value| {
        let status = entry["status"].as_str().unwrap();
        matches!(status, "begun" | "done")
    };
    log.iter().filter(is_there).count()
}

/// A queue: every file and its text.
type Queue = BTreeMap<String, String>;

/// A change that is in the history and was not taken back.
struct Kept {
    /// Of the disk that was there then.
    disk: u64,
    before: Queue,
}

/// What is lived, step by step.
trait Life {
    /// Something happens, and what must be so is so.
    fn step(&mut self, chance: &mut Chance);

    /// All is taken back.
    fn end(&mut self);

    /// What happened.
    fn told(&self) -> String;
}

/// A loop device over its life, and what must be so.
struct LifeOfDisk {
    disk: LoopDevice,
    /// Which of the disks that had the name this is.
    number: u64,
    kept: Vec<Kept>,
    told: Vec<String>,
}

const ARMS: &[&[&str]] = &[
    &["none"],
    &["none", "nr_requests=32"],
    &["mq-deadline", "fifo_batch=3"],
    &["bfq", "low_latency=0", "nr_requests=64"],
    &["kyber", "read_lat_nsec=1000000"],
    &["mq-deadline", "read_ahead_kb=64"],
];

impl LifeOfDisk {
    fn new() -> LifeOfDisk {
        for directory in ["history", "journal"] {
            let _ = fs::remove_dir_all(Path::new("/var/lib/iosched").join(directory));
        }
        LifeOfDisk {
            disk: LoopDevice::new(8 * MIB),
            number: 0,
            kept: Vec::new(),
            told: Vec::new(),
        }
    }

    fn keep(&mut self, before: Queue) {
        let disk = self.number;
        self.kept.push(Kept { disk, before });
        assert_eq!(self.entries(), self.kept.len());
    }

    fn entries(&self) -> usize {
        not_taken_back(&iosched().args(["log", "--json"]).output().unwrap().stdout)
    }

    /// After a `set` that was killed: restored, or kept and in the history.
    fn settle(&mut self, before: Queue) {
        iosched().arg("restore").assert().success();
        if self.entries() > self.kept.len() {
            self.keep(before);
        } else {
            assert_eq!(self.disk.whole_queue(), before);
        }
    }

    /// What an undo that came to its end must have done.
    fn was_undone(&mut self, before: &Queue, output: &Output) {
        let said = text(&output.stdout) + &text(&output.stderr);
        let is = self.disk.whole_queue();
        match self.kept.pop() {
            None => {
                assert!(said.contains("no change to take back"), "{said}");
                assert_eq!(is, *before);
            }
            Some(kept) => {
                assert!(output.status.success(), "{said}");
                let expected = if kept.disk == self.number {
                    &kept.before
                } else {
                    before
                };
                assert_eq!(is, *expected, "{said}");
            }
        }
    }

    /// An undo that was killed is finished by the next, or has not begun.
    fn is_undone_or_not(&mut self, before: &Queue) {
        let log = iosched().args(["log", "--json"]).output().unwrap().stdout;
        let is_begun = is_undo_cut_short(&log);
        if is_begun {
            let output = iosched().arg("undo").output().unwrap();
            self.was_undone(before, &output);
        } else if self.entries() < self.kept.len() {
            let kept = self.kept.pop().unwrap();
            let expected = if kept.disk == self.number {
                &kept.before
            } else {
                before
            };
            assert_eq!(self.disk.whole_queue(), *expected);
        } else {
            assert_eq!(self.disk.whole_queue(), *before);
        }
    }

    fn nothing_is_left(&self) {
        let journal = fs::read_dir("/var/lib/iosched/journal")
            .into_iter()
            .flatten();
        assert_eq!(journal.count(), 0, "the journal is empty");
        assert_eq!(self.entries(), self.kept.len());
    }
}

impl Life for LifeOfDisk {
    fn step(&mut self, chance: &mut Chance) {
        let before = self.disk.whole_queue();
        match chance.below(10) {
            0..=3 => {
                let arm = chance.of(ARMS);
                self.told.push(format!("set {arm:?}"));
                iosched()
                    .arg("set")
                    .arg(&self.disk.name)
                    .args(arm)
                    .assert()
                    .success();
                self.keep(before);
            }
            4 => {
                let arm = chance.of(ARMS);
                let n = 1 + chance.below(25);
                self.told
                    .push(format!("set {arm:?}, killed before change {n}"));
                let mut command = iosched_process();
                command.arg("set").arg(&self.disk.name).args(arm);
                let end = traced::run(&mut command, Kind::is_change, n, Way::Kill).end;
                assert_ne!(end, End::Exited(1), "it works but for the kill");
                self.settle(before);
            }
            5 | 6 => {
                self.told.push("undo".into());
                let output = iosched().arg("undo").output().unwrap();
                self.was_undone(&before, &output);
            }
            7 => {
                let n = 1 + chance.below(20);
                self.told.push(format!("undo, killed before change {n}"));
                let mut command = iosched_process();
                command.arg("undo");
                traced::run(&mut command, Kind::is_change, n, Way::Kill);
                self.is_undone_or_not(&before);
            }
            8 => {
                let scheduler = chance.of(&["none", "mq-deadline", "bfq"]);
                self.told.push(format!("somebody else sets {scheduler}"));
                self.disk.write("scheduler", scheduler);
            }
            _ => {
                self.told.push("another disk takes its name".into());
                self.disk.attach_again();
                self.number += 1;
            }
        }
        self.nothing_is_left();
    }

    fn end(&mut self) {
        while !self.kept.is_empty() {
            let before = self.disk.whole_queue();
            let output = iosched().arg("undo").output().unwrap();
            self.was_undone(&before, &output);
        }
        let before = self.disk.whole_queue();
        let output = iosched().arg("undo").output().unwrap();
        self.was_undone(&before, &output);
    }

    fn told(&self) -> String {
        self.told.join("; ")
    }
}

/// Lives one life; a panic in it says which, and what happened.
fn live<L: Life>(seed: u64, mut life: L) {
    let mut chance = Chance::new(seed);
    let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for _ in 0..=chance.below(STEPS) {
            life.step(&mut chance);
        }
        life.end();
    }));
    assert!(lived.is_ok(), "IOSCHED_TEST_SEED={seed}: {}", life.told());
}

#[test]
fn whatever_a_disk_lives_through_its_changes_are_taken_back() {
    if !can_use_loop_devices() {
        return;
    }
    for seed in seeds() {
        live(seed, LifeOfDisk::new());
    }
}

/// Files below `/etc` of a copied machine over its life.
struct LifeOfPolicy {
    machine: Machine,
    /// Before each change that was not taken back.
    kept: Vec<BTreeMap<PathBuf, String>>,
    boots: u64,
    told: Vec<String>,
}

const CHOICES: &[&[&str]] = &[
    &["--yes", "sda", "bfq"],
    &["--yes", "sda", "mq-deadline", "fifo_batch=4"],
    &["--yes", "sdb", "none"],
    &["--yes", "sdb", "bfq"],
];

impl LifeOfPolicy {
    fn new() -> LifeOfPolicy {
        LifeOfPolicy {
            machine: Machine::two_disks(),
            kept: Vec::new(),
            boots: 0,
            told: Vec::new(),
        }
    }

    /// Whole files below `/etc`; unfinished ones go with the next change.
    fn etc(&self) -> BTreeMap<PathBuf, String> {
        let mut files = self.machine.etc();
        files.retain(|path, _| !is_unfinished(path));
        files
    }

    fn command(&self, command: &str, arguments: &[&str]) -> std::process::Command {
        let mut process = iosched_process();
        process
            .arg(command)
            .arg("--root")
            .arg(self.machine.root())
            .args(arguments);
        process
    }

    /// A change that altered nothing is none.
    fn keep(&mut self, before: BTreeMap<PathBuf, String>) {
        if self.entries() > self.kept.len() {
            self.kept.push(before);
        } else {
            assert_eq!(self.etc(), before);
        }
    }

    fn entries(&self) -> usize {
        not_taken_back(self.machine.succeeds("log", &["--json"]).as_bytes())
    }

    fn undo(&mut self) {
        let before = self.etc();
        let (code, _, stderr) = self.machine.run("undo", &[]);
        match self.kept.pop() {
            None => {
                assert_eq!(code, 1, "{stderr}");
                assert_eq!(self.etc(), before);
            }
            Some(kept) => {
                assert_eq!(code, 0, "{stderr}");
                assert_eq!(self.etc(), kept);
            }
        }
    }
}

impl Life for LifeOfPolicy {
    fn step(&mut self, chance: &mut Chance) {
        let before = self.etc();
        match chance.below(8) {
            0..=2 => {
                let choice = chance.of(CHOICES);
                self.told.push(format!("persist {choice:?}"));
                self.machine.succeeds("persist", choice);
                self.keep(before);
            }
            3 => {
                let choice = chance.of(CHOICES);
                let n = 1 + chance.below(40);
                self.told
                    .push(format!("persist {choice:?}, killed before change {n}"));
                let mut command = self.command("persist", choice);
                traced::run(&mut command, Kind::is_change, n, Way::Kill);
                // It was made, in part or wholly, and can be taken back; or it was not.
                self.keep(before);
            }
            4 | 5 => {
                self.told.push("undo".into());
                self.undo();
            }
            6 => {
                let n = 1 + chance.below(40);
                self.told.push(format!("undo, killed before change {n}"));
                let mut command = self.command("undo", &[]);
                traced::run(&mut command, Kind::is_change, n, Way::Kill);
                let log = self.machine.succeeds("log", &["--json"]);
                let is_begun = is_undo_cut_short(log.as_bytes());
                if is_begun || self.entries() < self.kept.len() {
                    if is_begun {
                        self.machine.succeeds("undo", &[]);
                    }
                    let kept = self.kept.pop().unwrap();
                    assert_eq!(self.etc(), kept);
                } else {
                    assert_eq!(self.etc(), before);
                }
            }
            _ => {
                self.told.push("reboot".into());
                self.boots += 1;
                let boot = format!("boot-{}\n", self.boots);
                self.machine.write("proc/sys/kernel/random/boot_id", &boot);
            }
        }
        assert_eq!(self.entries(), self.kept.len());
    }

    fn end(&mut self) {
        while !self.kept.is_empty() {
            self.undo();
        }
        self.undo();
        self.machine.succeeds("persist", CHOICES[0]);
        let left: Vec<PathBuf> = self.machine.etc().into_keys().collect();
        assert!(!left.iter().any(|path| is_unfinished(path)), "{left:?}");
    }

    fn told(&self) -> String {
        self.told.join("; ")
    }
}

#[test]
fn whatever_a_policy_lives_through_its_changes_are_taken_back() {
    for seed in seeds() {
        live(seed, LifeOfPolicy::new());
    }
}
