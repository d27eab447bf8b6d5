//! Every file of the corpus and a few hundred mutants of each, on any toolchain: the same each time.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use iosched_testing::memory::{Counting, most_during};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{TARGETS, Target};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Mutants of each file; `IOSCHED_TEST_MUTANTS` asks for more.
const MUTANTS: usize = 200;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Reads; says what was broken, and on which bytes.
fn read(target: &Target, what: &str, bytes: &[u8]) {
    let mut outcome = Ok(());
    let most = most_during(|| {
        outcome = catch_unwind(AssertUnwindSafe(|| (target.read)(bytes)));
    });
    let bound = target.most_memory(bytes.len());
    let is_bounded = most <= bound;
    if outcome.is_err() || !is_bounded {
        // Not among the temporary files, which the runner removes.
        let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz/found");
        fs::create_dir_all(&found).unwrap();
        let kept = found.join(target.name);
        fs::write(&kept, bytes).unwrap();
        panic!(
            "{} of {what}: {most} bytes of memory, {bound} promised; kept as {}",
            target.name,
            kept.display()
        );
    }
}

#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    let mut known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    known.sort_unstable();
    assert_eq!(names(&corpus()), known);
}

#[test]
fn damaged_files_are_read_or_refused_in_bounded_memory() {
    let mutants =
        std::env::var("IOSCHED_TEST_MUTANTS").map_or(MUTANTS, |text| text.parse().unwrap());
    for target in TARGETS {
        let directory = corpus().join(target.name);
        let seeds: Vec<(String, Vec<u8>)> = names(&directory)
            .into_iter()
            .map(|name| (name.clone(), fs::read(directory.join(name)).unwrap()))
            .collect();
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for (name, seed) in &seeds {
            read(target, name, seed);
            for number in 0..mutants {
                let other = &seeds[random.random_range(0..seeds.len())].1;
                let mutant = mutant(seed, other, &mut random);
                read(target, &format!("{name}, mutant {number}"), &mutant);
            }
        }
    }
}

/// What readers of numbers stumble over.
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1",
    "255",
    "4096",
    "4294967295",
    "9223372036854775807",
    "18446744073709551615",
    "1e300",
    "-0.5",
    "NaN",
    "inf",
];

/// A file with one to four damages.
fn mutant(seed: &[u8], other: &[u8], random: &mut impl Rng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.random_range(1..=4) {
        damage(&mut bytes, other, random);
    }
    bytes
}

fn damage(bytes: &mut Vec<u8>, other: &[u8], random: &mut impl Rng) {
    let (begin, end) = range(bytes.len(), random);
    match random.random_range(0..8) {
        0 if !bytes.is_empty() => {
            bytes[begin.min(end.saturating_sub(1))] ^= 1 << random.random_range(0..8);
        }
        1 => bytes.truncate(begin),
        2 => _ = bytes.drain(begin..end),
        3 => bytes.insert(begin, random.random()),
        4 => {
            let repeated = bytes[begin..end].to_vec();
            bytes.splice(begin..begin, repeated);
        }
        5 => {
            let (from, to) = range(other.len(), random);
            bytes.splice(begin..end, other[from..to].iter().copied());
        }
        6 => number(bytes, begin, random),
        _ => {
            // Binary numbers: all bits of some bytes.
            let value = [0, 0x7f, 0x80, 0xff][random.random_range(0..4)];
            let end = end.min(begin + 8);
            bytes[begin..end].fill(value);
        }
    }
}

/// Part of so many bytes, mostly a short one.
fn range(length: usize, random: &mut impl Rng) -> (usize, usize) {
    let begin = random.random_range(0..=length);
    let most = if random.random_bool(0.8) { 32 } else { length };
    (begin, length.min(begin + random.random_range(0..=most)))
}

/// Puts another number in the place of the next one.
fn number(bytes: &mut Vec<u8>, from: usize, random: &mut impl Rng) {
    let digits = |bytes: &[u8]| bytes.iter().position(u8::is_ascii_digit);
    let Some(begin) = digits(&bytes[from..]).map(|at| from + at) else {
        return;
    };
    let rest = &bytes[begin..];
    let end = rest
        .iter()
        .position(|byte| !byte.is_ascii_digit() && *byte != b'.');
    let end = end.map_or(bytes.len(), |length| begin + length);
    let number = NUMBERS[random.random_range(0..NUMBERS.len())];
    bytes.splice(begin..end, number.bytes());
}
