//! The tables that people know: points by place, and baseline = 100.
//!
//! Points: in each test and run the best of three schedulers gets 2, the next 1, the worst 0; the sums
//! are compared. That is how schedulers were chosen by hand from benchmark sweeps; it is a Borda count,
//! and it names a winner nearly always, whether there is one or not (`iosched calibrate` has the rate).
//! Baseline = 100: each metric relative to one scheduler's. Both are shown beside the verdict, and decide
//! nothing.

use crate::race::Better;

/// Points of each arm in one test and run: the number of arms that it beats. Equal values share the
/// points of their places; an arm without a value gets nothing, and is nobody's to beat.
pub(crate) fn by_place(values: &[Option<f64>], better: Better) -> Vec<f64> {
    let beats = |a: f64, b: f64| match better {
        Better::Higher => a > b,
        Better::Lower => a < b,
    };
    let points = |arm: usize, value: f64| -> f64 {
        values
            .iter()
            .enumerate()
            .filter_map(|(other, rival)| rival.filter(|_| other != arm))
            .map(|rival| match (beats(value, rival), beats(rival, value)) {
                (true, _) => 1.0,
                (false, true) => 0.0,
                (false, false) => 0.5,
            })
            .sum()
    };
    values
        .iter()
        .enumerate()
        .map(|(arm, value)| value.map_or(0.0, |value| points(arm, value)))
        .collect()
}

/// The sums of the points over all tests and runs, one row each.
pub fn sums(rows: &[Vec<Option<f64>>], better: Better) -> Vec<f64> {
    let arms = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut sums = vec![0.0; arms];
    for row in rows {
        for (sum, points) in sums.iter_mut().zip(by_place(row, better)) {
            *sum += points;
        }
    }
    sums
}

/// The arms with the most points.
pub(crate) fn leaders(sums: &[f64]) -> Vec<usize> {
    let most = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (0..sums.len()).filter(|&arm| sums[arm] >= most).collect()
}

/// Each value with the baseline as 100. Where lower is better the ratio is turned round, so that more
/// than 100 is always better than the baseline. `None` where a value, or the baseline's, is missing.
pub fn baseline_100(values: &[Option<f64>], baseline: usize, better: Better) -> Vec<Option<f64>> {
    let of = values.get(baseline).copied().flatten();
    values
        .iter()
        .map(|value| {
            let (value, of) = (value.as_ref()?, of?);
            Some(match better {
                Better::Higher => 100.0 * value / of,
                Better::Lower => 100.0 * of / value,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn three_arms_get_two_one_and_nothing() {
        let row = some(&[45_654.0, 47_001.0, 44_100.0]);
        assert_eq!(by_place(&row, Better::Higher), [1.0, 2.0, 0.0]);
        assert_eq!(by_place(&row, Better::Lower), [1.0, 0.0, 2.0]);
    }

    #[test]
    fn equal_values_share_and_missing_ones_do_not_play() {
        let row = [Some(5.0), Some(5.0), None, Some(1.0)];
        assert_eq!(by_place(&row, Better::Higher), [1.5, 1.5, 0.0, 0.0]);
    }

    #[test]
    fn sums_over_rows_give_the_leaders() {
        let rows = [
            some(&[3.0, 2.0, 1.0]),
            some(&[1.0, 3.0, 2.0]),
            some(&[3.0, 1.0, 2.0]),
        ];
        let sums = sums(&rows, Better::Higher);
        assert_eq!(sums, [4.0, 3.0, 2.0]);
        assert_eq!(leaders(&sums), [0]);
        assert_eq!(leaders(&[2.0, 2.0, 1.0]), [0, 1]);
    }

    // A published comparison of pgbench under three schedulers (kernel 4.4, 2017): average latency in
    // ms and transactions per second for cfq, deadline and noop; its own ratios are 1.30 and 1.31.
    #[test]
    fn a_published_table_comes_out_with_the_baseline_as_100() {
        let tps = some(&[1_644.104_024, 2_141.318_132, 2_156.838_618]);
        let latency = some(&[60.823, 46.700, 46.364]);
        for (values, better) in [(tps, Better::Higher), (latency, Better::Lower)] {
            let rounded: Vec<f64> = baseline_100(&values, 0, better)
                .into_iter()
                .map(|value| value.unwrap().round())
                .collect();
            assert_eq!(rounded, [100.0, 130.0, 131.0]);
        }
    }

    #[test]
    fn without_a_baseline_there_is_no_hundred() {
        assert_eq!(
            baseline_100(&[None, Some(3.0)], 0, Better::Higher),
            [None, None]
        );
    }
}
