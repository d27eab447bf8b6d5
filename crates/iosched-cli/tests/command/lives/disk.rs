//! A loop device over its life: set, taken back, by us or by others, and replaced by another disk of its name.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;

use super::{LIVES, Life, is_undo_cut_short, live, not_taken_back, seeds};
use crate::common::chance::Chance;
use crate::common::traced::{self, End, Kind, Way};
use crate::common::tuning::MIB;
use crate::common::{LoopDevice, can_use_loop_devices, iosched, iosched_process, text};

/// A queue: every file and its text.
type Queue = BTreeMap<String, String>;

/// A change that is in the history and was not taken back.
struct Kept {
    /// Of the disk that was there then.
    disk: u64,
    before: Queue,
    /// What it left; none where a killed command was put back, and what it would have left is not known.
    after: Option<Queue>,
}

impl Kept {
    /// What its undo finds becomes this, and whether it can be taken back: not where somebody has since set what it had set. What
    /// it had not touched stays.
    fn undone(&self, disk: u64, found: &Queue, said: &str, is: &Queue) -> (Queue, bool) {
        if self.disk != disk {
            return (found.clone(), true);
        }
        let before = &self.before;
        let Some(after) = &self.after else {
            // It may have changed nothing before it was killed.
            let is_back = if is == before { before } else { found };
            return (is_back.clone(), !said.contains("left alone"));
        };
        let names = before.keys().chain(after.keys());
        let touched: Vec<&String> = names
            .filter(|name| before.get(*name) != after.get(*name))
            .collect();
        let is_ours = |name: &&String| {
            let now = found.get(*name);
            now == before.get(*name) || now == after.get(*name)
        };
        if !touched.iter().all(is_ours) {
            return (found.clone(), false);
        }
        let mut expected = found.clone();
        for name in touched {
            match before.get(name) {
                Some(value) => expected.insert(name.clone(), value.clone()),
                None => expected.remove(name),
            };
        }
        (expected, true)
    }
}

/// A loop device over its life, and what must be so.
pub(super) struct LifeOfDisk {
    pub(super) disk: LoopDevice,
    /// Which of the disks that had the name this is.
    number: u64,
    kept: Vec<Kept>,
    pub(super) told: Vec<String>,
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
    pub(super) fn new(disk: LoopDevice) -> LifeOfDisk {
        for directory in ["history", "journal"] {
            let _ = fs::remove_dir_all(Path::new("/var/lib/iosched").join(directory));
        }
        LifeOfDisk {
            disk,
            number: 0,
            kept: Vec::new(),
            told: Vec::new(),
        }
    }

    fn keep(&mut self, before: Queue, after: Option<Queue>) {
        self.kept.push(Kept {
            disk: self.number,
            after,
            before,
        });
        assert_eq!(self.entries(), self.kept.len());
    }

    fn entries(&self) -> usize {
        not_taken_back(&iosched().args(["log", "--json"]).output().unwrap().stdout)
    }

    /// After a `set` that was killed: restored, or kept and in the history.
    fn settle(&mut self, before: Queue) {
        iosched().arg("restore").assert().success();
        if self.entries() > self.kept.len() {
            let now = self.disk.whole_queue();
            let after = (now != before).then_some(now);
            self.keep(before, after);
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
                let (expected, is_taken_back) = kept.undone(self.number, before, &said, &is);
                assert_eq!(is, expected, "{said}");
                assert_eq!(output.status.success(), is_taken_back, "{said}");
                assert_eq!(said.contains("left alone"), !is_taken_back, "{said}");
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
            // It was killed after it had said so to nobody.
            let is = self.disk.whole_queue();
            let said = if is == *before { "left alone" } else { "" };
            assert_eq!(is, kept.undone(self.number, before, said, &is).0);
        } else {
            assert_eq!(self.disk.whole_queue(), *before);
        }
    }

    pub(super) fn nothing_is_left(&self) {
        let journal = fs::read_dir("/var/lib/iosched/journal")
            .into_iter()
            .flatten();
        assert_eq!(journal.count(), 0, "the journal is empty");
        assert_eq!(self.entries(), self.kept.len());
    }

    /// It is set, that is taken back, or somebody else sets it.
    pub(super) fn change_settings(&mut self, chance: &mut Chance) {
        let before = self.disk.whole_queue();
        match chance.below(9) {
            0..=3 => {
                let arm = chance.of(ARMS);
                self.told.push(format!("set {arm:?}"));
                iosched()
                    .arg("set")
                    .arg(&self.disk.name)
                    .args(arm)
                    .assert()
                    .success();
                let after = self.disk.whole_queue();
                self.keep(before, Some(after));
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
            _ => {
                let scheduler = chance.of(&["none", "mq-deadline", "bfq"]);
                self.told.push(format!("somebody else sets {scheduler}"));
                self.disk.write("scheduler", scheduler);
            }
        }
        self.nothing_is_left();
    }

    /// To the kernel it is another disk from now on.
    pub(super) fn is_another(&mut self) {
        self.number += 1;
    }
}

impl Life for LifeOfDisk {
    fn step(&mut self, chance: &mut Chance) {
        if chance.below(10) < 9 {
            return self.change_settings(chance);
        }
        self.told.push("another disk takes its name".into());
        self.disk.attach_again();
        self.is_another();
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

#[test]
fn whatever_a_disk_lives_through_its_changes_are_taken_back() {
    if !can_use_loop_devices() {
        return;
    }
    for seed in seeds(LIVES) {
        live(seed, LifeOfDisk::new(LoopDevice::new(8 * MIB)));
    }
}
