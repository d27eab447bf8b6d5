//! Data directions, by which deadline and mq-deadline tell requests apart, and which of them has the next batch.

use crate::request::Op;

pub(super) const READ: usize = 0;
pub(super) const WRITE: usize = 1;

/// `rq_data_dir`.
#[inline]
pub(super) fn data_dir(op: Op) -> usize {
    if op.is_write() { WRITE } else { READ }
}

/// The direction of the next batch: reads, until writes that wait were passed over `writes_starved` times, which
/// `starved` counts.
#[inline]
pub(super) fn next_direction(
    [reads, writes]: [bool; 2],
    starved: &mut i64,
    writes_starved: i64,
) -> Option<usize> {
    if reads && writes {
        let too_often = *starved >= writes_starved;
        *starved += 1;
        if !too_often {
            return Some(READ);
        }
    } else if reads {
        return Some(READ);
    } else if !writes {
        return None;
    }
    *starved = 0;
    Some(WRITE)
}
