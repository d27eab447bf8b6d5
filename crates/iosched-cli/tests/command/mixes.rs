//! Commands side by side, some of them killed: with all undone and `restore`, the machine is as it was at first.
//!
//! `IOSCHED_TEST_MIXES` says how many rounds, `IOSCHED_TEST_SEED` which is the first: a failure names its own.
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::chance::{Chance, number, seed};
use crate::common::checks::{difference, names};
use crate::common::machine::Machine;
use crate::common::tuning::MIB;
use crate::common::{LoopDevice, can_emulate, can_use_loop_devices, iosched, iosched_process};
use crate::common::{text, wait_until};

const ROUNDS: u64 = 6;

const ARMS: &[&[&str]] = &[
    &["none", "nr_requests=32"],
    &["mq-deadline", "fifo_batch=3"],
    &["bfq", "low_latency=0"],
    &["kyber", "read_ahead_kb=64"],
];

/// What commands work on.
struct Mix {
    disk: LoopDevice,
    machine: Machine,
    records: tempfile::TempDir,
    started: Vec<(String, Child)>,
}

impl Mix {
    /// Any command.
    fn command(&self, chance: &mut Chance) -> Command {
        let mut command = iosched_process();
        let name = &self.disk.name;
        match chance.below(8) {
            0 | 1 => command.args(["set", name]).args(chance.of(ARMS)),
            2 => {
                let time = ["--for", chance.of(&["1ms", "200ms", "1h"])];
                command.args(["set", name]).args(chance.of(ARMS)).args(time)
            }
            3 => command.arg("undo"),
            4 => command.arg("restore"),
            5 => {
                let out = self.records.path().join(self.started.len().to_string());
                command.arg("tune").arg(self.disk.path());
                command.args(["--arms", "none,mq-deadline", "--fixed-rounds", "2"]);
                command.args(["--load", "command: true", "--no-html", "--out"]);
                command.arg(out)
            }
            6 => {
                command
                    .arg("persist")
                    .arg("--root")
                    .arg(self.machine.root());
                command.args(["sda", chance.of(&["none", "bfq"]), "--yes"])
            }
            _ => command.args(["emulate", "create", "null", "--size", "16M"]),
        };
        command
    }

    /// Starts a command beside those that run, and may kill one of them.
    fn step(&mut self, chance: &mut Chance) {
        let mut command = self.command(chance);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null());
        let said = format!("{command:?}");
        self.started.push((said, command.spawn().unwrap()));
        let long = [10, 40, 400][chance.below(3)];
        let micros = 1000 * chance.below(long);
        std::thread::sleep(Duration::from_micros(u64::try_from(micros).unwrap()));
        let mut newest = self.started.iter_mut().rev();
        let running = newest.find_map(|(said, child)| match child.try_wait().unwrap() {
            None => Some((said, child)),
            Some(_) => None,
        });
        if let Some((said, child)) = running.filter(|_| chance.below(3) == 0) {
            let _ = child.kill();
            said.push_str(" (killed)");
        }
    }

    fn told(&self) -> String {
        let said: Vec<&str> = self.started.iter().map(|(said, _)| &**said).collect();
        said.join("; ")
    }

    /// Undoes what is in the history until there is nothing.
    fn undo_all(&self, more: &[&str]) {
        loop {
            let output = iosched().arg("undo").args(more).output().unwrap();
            let said = text(&output.stderr);
            if said.contains("no change to take back") {
                return;
            }
            assert!(output.status.success(), "{said}: {}", self.told());
        }
    }
}

impl Drop for Mix {
    fn drop(&mut self) {
        for (_, child) in &mut self.started {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn round(seed: u64) {
    for directory in ["history", "journal"] {
        let _ = fs::remove_dir_all(Path::new("/var/lib/iosched").join(directory));
    }
    let mut chance = Chance::new(seed);
    let mut mix = Mix {
        disk: LoopDevice::new(8 * MIB),
        machine: Machine::two_disks(),
        records: tempfile::tempdir().unwrap(),
        started: Vec::new(),
    };
    mix.disk.write("scheduler", chance.of(&["none", "bfq"]));
    let (before, etc) = (mix.disk.whole_queue(), mix.machine.etc());
    for _ in 0..5 + chance.below(10) {
        mix.step(&mut chance);
    }
    for (said, child) in &mut mix.started {
        let has_ended = wait_until(|| child.try_wait().unwrap().is_some());
        assert!(has_ended, "{said} does not end, seed {seed}");
    }
    let told = format!("seed {seed}: {}", mix.told());
    // What a killed run started may still be ending.
    let is_restored = || iosched().arg("restore").output().unwrap().status.success();
    assert!(wait_until(is_restored), "{told}");
    mix.undo_all(&[]);
    mix.undo_all(&["--root", mix.machine.root().to_str().unwrap()]);
    let after = mix.disk.whole_queue();
    assert!(after == before, "{}: {told}", difference(&after, &before));
    assert_eq!(mix.machine.etc(), etc, "{told}");
    let journal = names(Path::new("/var/lib/iosched/journal"));
    assert_eq!(journal, [""; 0], "{told}");
    let removed = || {
        iosched()
            .args(["emulate", "remove", "--all"])
            .output()
            .unwrap()
    };
    assert!(wait_until(|| removed().status.success()), "{told}");
}

#[test]
fn commands_side_by_side_and_killed_leave_what_was_there_at_first() {
    if !can_use_loop_devices() || !can_emulate() {
        return;
    }
    let first = seed();
    for seed in first..first + number("IOSCHED_TEST_MIXES", ROUNDS) {
        round(seed);
    }
}
