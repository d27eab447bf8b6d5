//! The reader of evidence as a function of bytes: for fuzzing.
//!
//! See [`iosched_testing::fuzz`]: what a reader promises, and who runs this list.

use std::path::Path;

use iosched_testing::fuzz::{MIB, NOWHERE, Target, json, target};

use crate::dataset::parse;

/// The readers of this crate.
pub const TARGETS: &[Target] = &[target("evidence", evidence, MIB, 2048)];

/// What the rows of a dataset are without their compression.
fn evidence(bytes: &[u8]) {
    let read = |bytes: &[u8]| parse(Path::new(NOWHERE), bytes, |_| true);
    let Ok(rows) = read(bytes) else {
        return;
    };
    let head = bytes.split_inclusive(|byte| *byte == b'\n').next();
    let mut written = head.unwrap_or_default().to_vec();
    for row in &rows {
        written.extend(json(row).into_bytes());
        written.push(b'\n');
    }
    assert_eq!(read(&written), Ok(rows));
}

iosched_testing::replay!(TARGETS);
