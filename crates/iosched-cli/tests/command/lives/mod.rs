//! Random lives of an installation: what it set, measured, kept and took back, beside crashes, foreign writes, new disks
//! of an old name, new names of an old disk and reboots. A model says after each step what must be so; at the end all is
//! taken back.
//!
//! `IOSCHED_TEST_LIVES` says how many, `IOSCHED_TEST_SEED` which is the first: a failure names its own.

mod directory;
mod disk;
mod policy;
mod raw;
mod runs;

use crate::common::chance::{Chance, number, seed};

/// So many where nothing else is said.
const LIVES: u64 = 12;

/// The same of lives in which disks are measured, which take longer.
const LIVES_OF_RUNS: u64 = 3;

/// Steps of a life, at the most.
const STEPS: usize = 10;

fn seeds(lives: u64) -> impl Iterator<Item = u64> {
    let first = seed();
    first..first + number("IOSCHED_TEST_LIVES", lives)
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

/// What is lived, step by step.
trait Life {
    /// Something happens, and what must be so is so.
    fn step(&mut self, chance: &mut Chance);

    /// All is taken back.
    fn end(&mut self);

    /// What happened.
    fn told(&self) -> String;
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
    let told = format!("IOSCHED_TEST_SEED={seed}: {}", life.told());
    eprintln!("{told}");
    assert!(lived.is_ok(), "{told}");
}
