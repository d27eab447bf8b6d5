//! Readers of what others wrote, or what a power failure damaged, as functions of bytes.
//!
//! Each crate lists its own readers (its `fuzz.rs`, compiled for tests and with the feature `fuzz`), because most are
//! private. Two run the lists: the program in `fuzz/` (`scripts/fuzz`), guided by coverage, and in each crate the tests
//! of [`replay!`](crate::replay), which read the corpus that is kept in `fuzz/corpus` and some hundreds of mutants of
//! each of its files, on any toolchain, in `make test`.
//!
//! What a reader promises for any bytes: it returns (no panic, no endless loop), in memory that is bounded by
//! [`Target::most_memory`], and what it has accepted is written and read back as the same.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tempfile::TempDir;

use crate::memory::most_during;

/// Bytes.
pub const KIB: usize = 1 << 10;
/// Bytes.
pub const MIB: usize = 1 << 20;

/// What errors call a file that is not there.
pub const NOWHERE: &str = "fuzzed";

/// Mutants of each file; `IOSCHED_TEST_MUTANTS` asks for more.
const MUTANTS: usize = 200;

/// A reader.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// What it is called; the name of its directory in the corpus.
    pub name: &'static str,
    /// Reads, and panics if a promise is broken.
    pub read: fn(&[u8]),
    /// Memory for nothing at all, bytes.
    fixed: usize,
    /// Memory for each byte that is read, bytes.
    per_byte: usize,
}

impl Target {
    /// The most memory that reading so many bytes may take.
    pub fn most_memory(&self, length: usize) -> usize {
        self.fixed + self.per_byte * length
    }
}

/// A target of this name, with its bound: bytes for nothing at all, and for each byte that is read.
pub const fn target(name: &'static str, read: fn(&[u8]), fixed: usize, per_byte: usize) -> Target {
    Target {
        name,
        read,
        fixed,
        per_byte,
    }
}

/// The bytes as text, if they are any.
pub fn utf8(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// As JSON.
pub fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("our own types serialise")
}

/// The files that follow one another in the bytes, each after a line `#file NAME`.
pub fn files(bytes: &[u8]) -> impl Iterator<Item = (&str, &[u8])> {
    const HEADING: &[u8] = b"#file ";
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let at = find(rest, HEADING)?;
        let after = &rest[at + HEADING.len()..];
        let end = after.iter().position(|&byte| byte == b'\n')?;
        let body = &after[end + 1..];
        let length = find(body, HEADING).unwrap_or(body.len());
        rest = &body[length..];
        Some((utf8(&after[..end])?, &body[..length]))
    })
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

thread_local! {
    /// A directory for files that are read by path.
    static PLACE: TempDir = tempfile::tempdir().expect("there is room for a directory");
}

/// Writes a file to be read by path.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PLACE.with(|place| place.path().join(name));
    write_anew(&path, bytes);
    path
}

/// A file that is cut to nothing and written again is brought to disk when it is closed (ext4); a new one is not.
pub fn write_anew(path: &Path, bytes: &[u8]) {
    let _ = fs::remove_file(path);
    fs::write(path, bytes).expect("there is room for a file");
}

/// Makes tests of a crate's list: each target has a corpus below `fuzz/corpus/CRATE`, each corpus a target, and damaged
/// files are read or refused in bounded memory.
#[macro_export]
macro_rules! replay {
    ($targets:ident) => {
        #[cfg(test)]
        mod replay {
            #[global_allocator]
            static ALLOCATOR: $crate::memory::Counting = $crate::memory::Counting;

            #[test]
            fn every_target_has_a_corpus_and_every_corpus_a_target() {
                $crate::fuzz::has_corpora(env!("CARGO_PKG_NAME"), super::$targets);
            }

            #[test]
            fn damaged_files_are_read_or_refused_in_bounded_memory() {
                $crate::fuzz::replay(env!("CARGO_PKG_NAME"), super::$targets);
            }
        }
    };
}

/// Fails where a target has no corpus, or a corpus no target.
pub fn has_corpora(crate_name: &str, targets: &[Target]) {
    let mut known: Vec<&str> = targets.iter().map(|target| target.name).collect();
    known.sort_unstable();
    assert_eq!(names(&corpus(crate_name)), known);
}

/// Reads every file of the corpus and a few hundred mutants of each: the same each time.
pub fn replay(crate_name: &str, targets: &[Target]) {
    let mutants = std::env::var("IOSCHED_TEST_MUTANTS");
    let mutants = mutants.map_or(MUTANTS, |text| text.parse().expect("a number of mutants"));
    for target in targets {
        let directory = corpus(crate_name).join(target.name);
        let seeds: Vec<(String, Vec<u8>)> = names(&directory)
            .into_iter()
            .map(|name| {
                (
                    name.clone(),
                    fs::read(directory.join(name)).expect("a seed"),
                )
            })
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

fn corpus(crate_name: &str) -> PathBuf {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    all.join(crate_name)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the corpus is there");
    let mut names: Vec<String> = entries
        .map(|entry| {
            let name = entry.expect("an entry").file_name();
            name.into_string().expect("a plain name")
        })
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
        fs::create_dir_all(&found).expect("there is room for a directory");
        let kept = found.join(target.name);
        fs::write(&kept, bytes).expect("there is room for a file");
        panic!(
            "{} of {what}: {most} bytes of memory, {bound} promised; kept as {}",
            target.name,
            kept.display()
        );
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
