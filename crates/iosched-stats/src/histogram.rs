//! Percentiles from histograms: merged first, read off then.
//!
//! The mean of two p99 is not a p99. Histograms add up without loss, so the percentile of several jobs,
//! files or trials is read from their sum. The bins are those of fio's `json+` output (`lat_ns.bins`):
//! the middle of the bin, and a count. fio's bins are between 0.8 and 1.6 % wide, so what is read from
//! them is at most 0.8 % off.

use std::collections::BTreeMap;

use crate::distribution::incomplete_beta;

/// Counts by value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    bins: BTreeMap<u64, u64>,
}

impl Histogram {
    /// From bins in any order; counts of the same value add up. A sum of counts ends at the largest number that there is:
    /// bins come from files.
    pub fn from_bins(bins: impl IntoIterator<Item = (u64, u64)>) -> Histogram {
        let mut histogram = Histogram::default();
        for (value, count) in bins {
            histogram.add(value, count);
        }
        histogram
    }

    fn add(&mut self, value: u64, count: u64) {
        if count > 0 {
            let counted = self.bins.entry(value).or_default();
            *counted = counted.saturating_add(count);
        }
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.bins.values().copied().fold(0, u64::saturating_add)
    }

    /// The mean; `None` if nothing was counted.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        let sum: f64 = self
            .bins
            .iter()
            .map(|(&value, &count)| value as f64 * count as f64)
            .sum();
        (count > 0).then(|| sum / count as f64)
    }

    /// The smallest value that at least `percent` of all do not exceed: the nearest rank, as fio
    /// prints it. Hyndman and Fan's type 1 (*Sample quantiles in statistical packages*, The American
    /// Statistician 50, 1996). `None` if nothing was counted.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        // ceil() of 99.9 % of 1000 must be 999, not 1000 because 0.999 is not exact in binary.
        let exact = percent_of(percent, count);
        self.at_rank((exact - 1e-9 * exact.max(1.0)).ceil())
    }

    /// An interval that holds the percentile of what these were drawn from with this confidence: two of the values, whatever
    /// their distribution (Conover, *Practical Nonparametric Statistics*, 3.2). An end is missing where so few
    /// values do not bound it: the 99th percentile has no upper end below 368 values, at 95 %. For values that
    /// do not depend on one another; of latencies that follow one another it is too narrow.
    pub fn percentile_interval(&self, percent: f64, confidence: f64) -> (Option<u64>, Option<u64>) {
        let count = self.count();
        let (share, tail) = (percent / 100.0, 0.5 - confidence / 2.0);
        // How likely at most so many of the values lie below the percentile.
        let at_most = |rank: u64| match rank {
            rank if rank >= count => 1.0,
            rank => incomplete_beta((count - rank) as f64, rank as f64 + 1.0, 1.0 - share),
        };
        let first = |wanted: &dyn Fn(u64) -> bool| {
            let (mut from, mut to) = (0, count);
            while from < to {
                let middle = from + (to - from) / 2;
                if wanted(middle) {
                    to = middle;
                } else {
                    from = middle + 1;
                }
            }
            from
        };
        let lower = first(&|rank| at_most(rank) > tail);
        let upper = first(&|rank| at_most(rank) >= 1.0 - tail) + 1;
        let value = |rank: u64| {
            let is_one = (1..=count).contains(&rank);
            is_one.then(|| self.at_rank(rank as f64)).flatten()
        };
        (value(lower), value(upper))
    }

    /// The cumulative distribution: each value with the share of all that do not exceed it.
    pub fn cdf(&self) -> Vec<(u64, f64)> {
        let count = self.count() as f64;
        let mut seen = 0;
        self.bins
            .iter()
            .map(|(&value, &here)| {
                seen = here.saturating_add(seen);
                (value, seen as f64 / count)
            })
            .collect()
    }

    /// The value of the `rank`-th smallest, from 1; the smallest for what is below.
    fn at_rank(&self, rank: f64) -> Option<u64> {
        let mut seen = 0;
        for (&value, &count) in &self.bins {
            seen = count.saturating_add(seen);
            if seen as f64 >= rank {
                return Some(value);
            }
        }
        None
    }
}

fn percent_of(percent: f64, count: u64) -> f64 {
    assert!(
        (0.0..=100.0).contains(&percent),
        "a percentile is between 0 and 100, not {percent}"
    );
    percent / 100.0 * count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Histogram {
        Histogram::from_bins([(2000, 15), (1000, 50), (1500, 30), (8000, 4), (250_000, 1)])
    }

    // import numpy as np; v = np.repeat([1000, 1500, 2000, 8000, 250000], [50, 30, 15, 4, 1])
    // for p in [0, 50, 90, 95, 99, 99.5, 100]:
    //     print(np.percentile(v, p, method='inverted_cdf'))
    #[test]
    fn percentiles_agree_with_numpy_on_the_unfolded_values() {
        for (percent, nearest) in [
            (0.0, 1000),
            (50.0, 1000),
            (90.0, 2000),
            (95.0, 2000),
            (99.0, 8000),
            (99.5, 250_000),
            (100.0, 250_000),
        ] {
            let histogram = example();
            assert_eq!(histogram.percentile(percent), Some(nearest), "p{percent}");
        }
    }

    #[test]
    fn the_merged_percentile_is_not_the_mean_of_percentiles() {
        let [fast, slow] = [[(100, 990), (200, 10)], [(100, 90), (10_000, 10)]];
        let both = Histogram::from_bins([fast, slow].concat());
        let [fast, slow] = [fast, slow].map(Histogram::from_bins);
        assert_eq!(both.count(), 1100);
        assert_eq!(fast.percentile(99.0), Some(100));
        assert_eq!(slow.percentile(99.0), Some(10_000));
        assert_eq!(both.percentile(99.0), Some(200));
    }

    #[test]
    fn an_exact_rank_is_not_rounded_up() {
        let thousand = Histogram::from_bins([(1, 999), (2, 1)]);
        assert_eq!(thousand.percentile(99.9), Some(1));
        assert_eq!(thousand.percentile(99.91), Some(2));
    }

    #[test]
    fn an_empty_histogram_knows_nothing() {
        let empty = Histogram::from_bins([(7, 0)]);
        assert_eq!(empty.count(), 0);
        assert_eq!(empty.mean(), None);
        assert_eq!(empty.percentile(50.0), None);
        assert!(empty.cdf().is_empty());
    }

    #[test]
    fn mean_and_cdf_are_those_of_the_unfolded_values() {
        assert!((example().mean().unwrap() - 4070.0).abs() < 1e-9);
        let cdf = example().cdf();
        assert_eq!(cdf[0], (1000, 0.5));
        assert_eq!(cdf[4], (250_000, 1.0));
    }

    // from scipy.stats import binom; n, p, a = 1000, .99, .025
    // binom.ppf(a, n, p), binom.ppf(1 - a, n, p) + 1
    #[test]
    fn the_ends_of_a_percentiles_interval_are_the_order_statistics_of_a_binomial() {
        let each = |count: u64| Histogram::from_bins((1..=count).map(|value| (value, 1)));
        for (count, percent, lower, upper) in [
            (1000, 99.0, Some(983), Some(997)),
            (700, 99.0, Some(687), Some(699)),
            (368, 99.0, Some(360), Some(368)),
            (367, 99.0, Some(359), None),
            (44, 99.0, Some(42), None),
            (100, 50.0, Some(40), Some(61)),
            (3, 50.0, None, None),
            (0, 99.0, None, None),
        ] {
            let found = each(count).percentile_interval(percent, 0.95);
            assert_eq!(found, (lower, upper), "{percent} of {count}");
        }
    }

    proptest! {
        #[test]
        fn a_percentile_has_its_share_at_or_below_it(
            one in prop::collection::vec((0u64..1_000_000, 0u8..50), 0..40),
            two in prop::collection::vec((0u64..1_000_000, 0u8..50), 0..40),
            percent in 0.0f64..=100.0,
        ) {
            let bins = |part: &[(u64, u8)]| -> Vec<(u64, u64)> {
                part.iter().map(|&(value, count)| (value, u64::from(count))).collect()
            };
            let merged = Histogram::from_bins([bins(&one), bins(&two)].concat());
            let mut values: Vec<u64> = one
                .iter()
                .chain(&two)
                .flat_map(|&(value, count)| std::iter::repeat_n(value, usize::from(count)))
                .collect();
            values.sort_unstable();
            if !values.is_empty() {
                let found = merged.percentile(percent).unwrap();
                let below = values.partition_point(|&value| value <= found) as f64;
                prop_assert!(below / values.len() as f64 >= percent / 100.0 - 1e-6);
            }
        }
    }
}
