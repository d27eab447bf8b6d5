//! The models' completion times, bit by bit: whatever makes a model faster must leave them as they
//! are. Where a model is changed on purpose, its line in `golden/disk-times.txt` changes with it.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test that cannot go on is to fail"
)]

use std::fmt::Write as _;

use iosched_sim::disk::{self, Command, Completion, DiskModel, DiskOp, ModelOptions};
use iosched_sim::random::Random;
use iosched_sim::units::{Bytes, Sector, Sectors, Time};

/// Commands per run: enough for a write cache of 64 MB to fill and to be written back.
const COMMANDS: u64 = 4_000;

/// FNV-1a over the numbers that make up a completion.
fn digest(hash: u64, completion: &Completion) -> u64 {
    let numbers = [
        completion.tag,
        completion.started.as_nanos(),
        completion.time.as_nanos(),
    ];
    let bytes = numbers.into_iter().flat_map(u64::to_le_bytes);
    bytes.fold(hash, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A bit of everything: random and sequential, short and long, reads, writes, flushes.
fn next_command(random: &mut Random, tag: u64, sectors: u64, last_end: &mut u64) -> Command {
    let length = [8, 8, 8, 1, 64, 256, 1024][usize::try_from(random.below(7)).unwrap()];
    let start = match random.below(4) {
        0 => *last_end,
        1 => (*last_end + random.below(4096)) % sectors,
        _ => random.below(sectors),
    };
    let start = start.min(sectors - length);
    *last_end = start + length;
    let op = match random.below(100) {
        0 => DiskOp::Flush,
        1 => DiskOp::Discard,
        2..40 => DiskOp::Write,
        _ => DiskOp::Read,
    };
    Command {
        tag,
        op,
        start: Sector::new(start),
        length: Sectors::new(length),
        fua: random.below(50) == 0,
    }
}

/// Keeps `depth` commands in the drive; returns the digest of all completions.
fn run(mut model: Box<dyn DiskModel>, depth: u64) -> u64 {
    let mut random = Random::new(7, "disk times");
    let sectors = model.capacity().as_u64();
    let (mut hash, mut last_end, mut given) = (0xcbf2_9ce4_8422_2325, 0, 0);
    let mut completed = Vec::new();
    let mut now = Time::ZERO;
    let mut done = 0;
    while done < COMMANDS {
        while given < COMMANDS && given < done + depth {
            model.submit(
                now,
                next_command(&mut random, given, sectors, &mut last_end),
            );
            given += 1;
        }
        now = now.max(model.next_event().unwrap());
        model.advance(now, &mut completed);
        for completion in completed.drain(..) {
            hash = digest(hash, &completion);
            done += 1;
        }
    }
    hash
}

#[test]
fn completion_times_are_those_of_the_golden_file() {
    let mut lines = String::new();
    for info in disk::models() {
        for depth in [1, 32] {
            for size in [None, Some(Bytes::from_gib(1))] {
                let options = ModelOptions {
                    size,
                    seed: 1,
                    ..ModelOptions::default()
                };
                let hash = run(disk::build(&info.name, &options).unwrap(), depth);
                let size = size.map_or_else(|| "whole".to_owned(), |size| size.to_string());
                writeln!(
                    lines,
                    "{} {size}, {depth} at a time: {hash:016x}",
                    info.name
                )
                .unwrap();
            }
        }
    }
    let golden = include_str!("golden/disk-times.txt");
    assert!(lines == golden, "the times are now\n{lines}");
}
