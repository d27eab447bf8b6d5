//! Files below `/etc` of a copied machine over its life.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{LIVES, Life, is_undo_cut_short, live, not_taken_back, seeds};
use crate::common::chance::Chance;
use crate::common::iosched_process;
use crate::common::machine::{Machine, is_unfinished};
use crate::common::traced::{self, Kind, Way};

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

    fn reboot(&mut self) {
        self.boots += 1;
        let boot = format!("boot-{}\n", self.boots);
        self.machine.write("proc/sys/kernel/random/boot_id", &boot);
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
        match chance.below(9) {
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
            7 => {
                self.told.push("reboot".into());
                self.reboot();
            }
            _ => {
                self.told
                    .push("reboot, after which disks have other names".into());
                self.reboot();
                let [one, other] = ["run/udev/data/b8:0", "run/udev/data/b8:16"];
                let (first, second) = (self.machine.read(one), self.machine.read(other));
                self.machine.write(one, &second);
                self.machine.write(other, &first);
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
    for seed in seeds(LIVES) {
        live(seed, LifeOfPolicy::new());
    }
}
