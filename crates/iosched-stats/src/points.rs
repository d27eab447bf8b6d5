//! Points by place, as schedulers were chosen by hand from benchmark sweeps.
//!
//! In each test and run the best of three schedulers gets 2, the next 1, the worst 0; the sums are compared. That is a
//! Borda count, and it names a winner nearly always, whether there is one or not: `iosched calibrate` has the rate.

use std::cmp::Ordering;

/// The points of each arm over all tests and runs, one row each, where more is better: one for each arm that it beats, half
/// of one for each that is equal. An arm without a value gets nothing, and is nobody's to beat.
pub(crate) fn sums(rows: &[Vec<Option<f64>>]) -> Vec<f64> {
    let arms = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut sums = vec![0.0; arms];
    for row in rows {
        for (arm, value) in row.iter().enumerate() {
            let Some(value) = value else { continue };
            let rivals = row.iter().enumerate().filter(|(other, _)| *other != arm);
            for rival in rivals.filter_map(|(_, rival)| *rival) {
                sums[arm] += match value.total_cmp(&rival) {
                    Ordering::Greater => 1.0,
                    Ordering::Equal => 0.5,
                    Ordering::Less => 0.0,
                };
            }
        }
    }
    sums
}

/// The arms with the most points.
pub(crate) fn leaders(sums: &[f64]) -> Vec<usize> {
    let most = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (0..sums.len()).filter(|&arm| sums[arm] >= most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_over_rows_give_the_leaders() {
        let some = |values: [f64; 3]| values.map(Some).to_vec();
        let rows = [
            some([3.0, 2.0, 1.0]),
            some([1.0, 3.0, 2.0]),
            some([3.0, 1.0, 2.0]),
        ];
        assert_eq!(sums(&rows), [4.0, 3.0, 2.0]);
        assert_eq!(leaders(&[4.0, 3.0, 2.0]), [0]);
        assert_eq!(leaders(&[2.0, 2.0, 1.0]), [0, 1]);
    }

    #[test]
    fn equal_values_share_and_missing_ones_do_not_play() {
        let row = vec![Some(5.0), Some(5.0), None, Some(1.0)];
        assert_eq!(sums(&[row]), [1.5, 1.5, 0.0, 0.0]);
    }
}
