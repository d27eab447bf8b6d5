//! The robust view, printed beside the race's intervals and deciding nothing: median of the rounds'
//! ratios with a bootstrap interval, and a trimmed mean.
//!
//! Where mean and median disagree, a few rounds carry the mean; the reader should look at them. The
//! interval is the bias-corrected and accelerated bootstrap (`BCa`): B. Efron, *Better bootstrap
//! confidence intervals*, JASA 82 (1987); B. Efron and R. Tibshirani, *An Introduction to the Bootstrap*
//! (1993), chapter 14. It is made for one look at the end, and it is short for fewer than about ten
//! rounds, as every bootstrap is; the intervals of [`crate::race`] are the ones to decide by.

use serde::Serialize;

use crate::chance::Chance;
use crate::distribution::{normal_cdf, normal_quantile};
use crate::interval::{Interval, Moments};

/// Resamples of a bootstrap: enough for the third digit of a 95 % bound.
pub(crate) const RESAMPLES: usize = 4000;

/// Fewest values of which a bootstrap is made; below, the interval is `None`.
pub(crate) const FEWEST: usize = 5;

/// Ratios of one arm to the baseline over the rounds, seen robustly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// How many rounds.
    pub rounds: usize,
    /// The median ratio.
    pub median: f64,
    /// Its bootstrap interval.
    pub median_interval: Option<Interval>,
    /// The geometric mean of the ratios without the lowest and the highest fifth.
    pub trimmed_mean: f64,
    /// Its bootstrap interval.
    pub trimmed_interval: Option<Interval>,
    /// The lowest ratio of a round.
    pub lowest: f64,
    /// The highest ratio of a round.
    pub highest: f64,
}

/// Summarises the ratios of the rounds; `None` if there are none. Ratios must be positive.
pub fn summarize(ratios: &[f64], confidence: f64, seed: u64) -> Option<Summary> {
    if ratios.is_empty() {
        return None;
    }
    assert!(
        ratios.iter().all(|ratio| *ratio > 0.0),
        "a ratio of two metrics is positive: {ratios:?}"
    );
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let ordered = sorted(&logs);
    let interval = |statistic: fn(&[f64]) -> f64, stream| {
        (logs.len() >= FEWEST)
            .then(|| {
                bca(
                    &logs,
                    statistic,
                    confidence,
                    RESAMPLES,
                    &mut Chance::new(seed, stream),
                )
            })
            .map(Interval::exp)
    };
    Some(Summary {
        rounds: logs.len(),
        median: median(&logs).exp(),
        median_interval: interval(median, 0),
        trimmed_mean: trimmed_mean(&logs).exp(),
        trimmed_interval: interval(trimmed_mean, 1),
        lowest: ordered[0].exp(),
        highest: ordered[ordered.len() - 1].exp(),
    })
}

/// The middle value, or the mean of the two middle ones.
pub fn median(values: &[f64]) -> f64 {
    let ordered = sorted(values);
    let middle = ordered.len() / 2;
    if ordered.len() % 2 == 1 {
        ordered[middle]
    } else {
        0.5 * (ordered[middle - 1] + ordered[middle])
    }
}

/// The mean without the lowest and the highest fifth (rounded down).
pub(crate) fn trimmed_mean(values: &[f64]) -> f64 {
    let ordered = sorted(values);
    let cut = ordered.len() / 5;
    let kept = &ordered[cut..ordered.len() - cut];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// The `BCa` interval of a statistic. The estimate is the statistic of the values themselves.
pub(crate) fn bca(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
    confidence: f64,
    resamples: usize,
    chance: &mut Chance,
) -> Interval {
    assert!(values.len() >= 2, "a bootstrap needs values to draw from");
    let estimate = statistic(values);
    let mut drawn = vec![0.0; values.len()];
    let mut replicates: Vec<f64> = (0..resamples)
        .map(|_| {
            for place in &mut drawn {
                *place = values[chance.below(values.len())];
            }
            statistic(&drawn)
        })
        .collect();
    replicates.sort_by(f64::total_cmp);

    // Ties with the estimate, frequent for a median, count half.
    let less = replicates.partition_point(|replicate| *replicate < estimate);
    let not_more = replicates.partition_point(|replicate| *replicate <= estimate);
    let bias = normal_quantile((less + not_more) as f64 / (2 * resamples) as f64);
    let acceleration = acceleration(values, &statistic);
    let bound = |probability: f64| {
        let z = bias + normal_quantile(probability);
        let corrected = normal_cdf(bias + z / (1.0 - acceleration * z));
        quantile(&replicates, corrected)
    };
    if bias.is_infinite() {
        // All replicates on one side: the correction has no meaning, the plain percentiles have.
        return Interval {
            estimate,
            lower: quantile(&replicates, 0.5 - confidence / 2.0).min(estimate),
            upper: quantile(&replicates, 0.5 + confidence / 2.0).max(estimate),
        };
    }
    Interval {
        estimate,
        lower: bound(0.5 - confidence / 2.0),
        upper: bound(0.5 + confidence / 2.0),
    }
}

/// From the jackknife: how fast the statistic's spread changes with its value.
fn acceleration(values: &[f64], statistic: impl Fn(&[f64]) -> f64) -> f64 {
    let without_one: Vec<f64> = (0..values.len())
        .map(|skip| {
            let mut rest = values.to_vec();
            rest.remove(skip);
            statistic(&rest)
        })
        .collect();
    let Some(moments) = Moments::of(&without_one) else {
        return 0.0;
    };
    let (mut squares, mut cubes) = (0.0, 0.0);
    for value in &without_one {
        squares += (moments.mean - value).powi(2);
        cubes += (moments.mean - value).powi(3);
    }
    if squares > 0.0 {
        cubes / (6.0 * squares.powf(1.5))
    } else {
        0.0
    }
}

/// Linear interpolation between ordered values.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the place lies between 0 and the last index"
)]
fn quantile(ordered: &[f64], probability: f64) -> f64 {
    let place = probability.clamp(0.0, 1.0) * (ordered.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = place.ceil() as usize;
    ordered[below] + (ordered[above] - ordered[below]) * (place - place.floor())
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut ordered = values.to_vec();
    ordered.sort_by(f64::total_cmp);
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    // Efron and Tibshirani (1993), table 14.1, spatial test A: the plug-in variance is 171.5, its 90 %
    // BCa interval from 2000 resamples 115.8 to 259.6. SciPy 1.17.1 with 200 000 resamples:
    // bootstrap((A,), np.var, n_resamples=200000, method='BCa', confidence_level=.9) -> 115.4 to 116.0,
    // 260.3 to 261.6, from seed to seed.
    #[test]
    fn efron_and_tibshirani_s_example_comes_out_as_published() {
        let spatial_test = [
            48.0, 36.0, 20.0, 29.0, 42.0, 42.0, 20.0, 42.0, 22.0, 41.0, 45.0, 14.0, 6.0, 0.0, 33.0,
            28.0, 34.0, 4.0, 32.0, 24.0, 47.0, 41.0, 24.0, 26.0, 30.0, 41.0,
        ];
        let variance = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64
        };
        let interval = bca(&spatial_test, variance, 0.9, 60_000, &mut Chance::new(1, 0));
        assert!((interval.estimate - 171.534).abs() < 1e-3);
        assert!((interval.lower - 115.8).abs() < 1.0, "{interval:?}");
        assert!((interval.upper - 261.0).abs() < 2.0, "{interval:?}");
    }

    // x = np.array([1.02, 1.05, .98, 1.11, 1.07, 1.03, 1.30, 1.01, 1.06])
    // bootstrap((x,), np.median, n_resamples=200000, method='BCa') -> 1.01, 1.11
    // bootstrap((x,), lambda x, axis: trim_mean(x, .2, axis), ...) -> 1.0186, 1.1286
    #[test]
    fn median_and_trimmed_mean_agree_with_scipy() {
        let values = [1.02, 1.05, 0.98, 1.11, 1.07, 1.03, 1.30, 1.01, 1.06];
        let interval = bca(&values, median, 0.95, 20_000, &mut Chance::new(1, 0));
        assert!((interval.estimate - 1.05).abs() < 1e-12);
        assert!((interval.lower - 1.01).abs() < 0.011, "{interval:?}");
        assert!((interval.upper - 1.11).abs() < 0.011, "{interval:?}");
        let interval = bca(&values, trimmed_mean, 0.95, 20_000, &mut Chance::new(1, 0));
        assert!((interval.estimate - 1.05).abs() < 1e-12);
        assert!((interval.lower - 1.018_6).abs() < 0.004, "{interval:?}");
        assert!((interval.upper - 1.128_6).abs() < 0.008, "{interval:?}");
    }

    #[test]
    fn one_wild_round_does_not_move_the_median() {
        let calm = [1.10, 1.11, 1.09, 1.12, 1.10, 1.08, 1.11];
        let mut wild = calm;
        wild[3] = 40.0;
        let (calm, wild) = (
            summarize(&calm, 0.95, 1).unwrap(),
            summarize(&wild, 0.95, 1).unwrap(),
        );
        assert!((wild.median / calm.median - 1.0).abs() < 0.02);
        assert!((wild.trimmed_mean / calm.trimmed_mean - 1.0).abs() < 0.02);
        assert!((wild.highest - 40.0).abs() < 1e-9);
    }

    #[test]
    fn few_rounds_have_no_bootstrap_and_constant_ones_no_width() {
        assert_eq!(summarize(&[], 0.95, 1), None);
        assert_eq!(summarize(&[1.1; 4], 0.95, 1).unwrap().median_interval, None);
        let constant = summarize(&[1.1; 6], 0.95, 1).unwrap();
        let interval = constant.median_interval.unwrap();
        assert!((interval.lower - 1.1).abs() < 1e-12 && (interval.upper - 1.1).abs() < 1e-12);
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let ratios = [1.0, 1.2, 1.1, 1.3, 0.9, 1.15];
        assert_eq!(summarize(&ratios, 0.95, 9), summarize(&ratios, 0.95, 9));
    }
}
