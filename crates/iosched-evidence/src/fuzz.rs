//! The reader of evidence as a function of bytes: for fuzzing.
//!
//! See [`iosched_testing::fuzz`]: what a reader promises, and who runs this list.

use iosched_testing::fuzz::{MIB, Target, target};

use crate::columns::Texts;
use crate::dataset::{RowFilter, bytes_of, needs, rows_of};
use crate::row::Row;

/// The readers of this crate.
pub const TARGETS: &[Target] = &[target("evidence", evidence, MIB, 2048)];

fn evidence(bytes: &[u8]) {
    let Some(rows) = read(bytes) else {
        return;
    };
    if rows.is_empty() || rows.iter().any(|row| row.check().is_err()) {
        return;
    }
    let written = bytes_of(&rows.iter().collect::<Vec<_>>()).expect("rows have the columns");
    assert_eq!(read(&written), Some(rows));
}

fn read(bytes: &[u8]) -> Option<Vec<Row>> {
    needs(bytes).ok()?;
    let mut rows = Vec::new();
    let mut texts = Texts::within(u64::MAX);
    let all = RowFilter::default();
    rows_of(bytes.to_vec().into(), &all, &mut texts, &mut rows).ok()?;
    Some(rows)
}

iosched_testing::replay!(TARGETS);
