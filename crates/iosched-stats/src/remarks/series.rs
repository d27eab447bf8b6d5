//! What the order and the spread of one series of values tell.

use crate::distribution::{normal_cdf, normal_quantile};
use crate::summary::median;

/// Fewest rounds for a remark on their order.
const SOME: usize = 8;

/// Fewest rounds for a remark on groups.
const MANY: usize = 12;

/// The mean; 0 of nothing, which a level of an absent arm may be.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// The slope per step (Theil and Sen) if Mann and Kendall's test finds a trend.
pub(super) fn trend(series: &[f64], false_alarm: f64) -> Option<f64> {
    let n = series.len();
    if n < SOME {
        return None;
    }
    let (mut score, mut slopes) = (0.0, Vec::with_capacity(n * (n - 1) / 2));
    for (i, before) in series.iter().enumerate() {
        for (j, after) in series.iter().enumerate().skip(i + 1) {
            let change = after - before;
            score += if change > 0.0 {
                1.0
            } else if change < 0.0 {
                -1.0
            } else {
                0.0
            };
            slopes.push(change / (j - i) as f64);
        }
    }
    (mann_kendall(score, n) < false_alarm).then(|| median(&slopes))
}

/// Two-sided probability of a score of concordant minus discordant pairs, without ties, by the normal
/// approximation with continuity correction.
fn mann_kendall(score: f64, n: usize) -> f64 {
    let n = n as f64;
    let variance = n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
    let z = (score.abs() - 1.0).max(0.0) / variance.sqrt();
    2.0 * normal_cdf(-z)
}

/// The correlation of neighbours if it is more than chance makes.
///
/// For independent values it is about normal with mean `-1/n` and variance `1/n` (Bartlett 1946).
pub(super) fn autocorrelation(series: &[f64], false_alarm: f64) -> Option<f64> {
    let n = series.len();
    if n < SOME {
        return None;
    }
    let mean = mean(series.iter().copied());
    let squares: f64 = series.iter().map(|value| (value - mean).powi(2)).sum();
    if squares <= 0.0 {
        return None;
    }
    let products: f64 = series
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean))
        .sum();
    let coefficient = products / squares;
    let n = n as f64;
    let limit = -1.0 / n + normal_quantile(1.0 - false_alarm) / n.sqrt();
    (coefficient > limit).then_some(coefficient)
}

/// The two groups that explain most of the variance, if they explain more than normal noise lets any
/// two groups do: their means and the share of the higher one.
///
/// The limit is the 99.9th percentile for normal noise, from 40 000 simulated series per length
/// (0.925 for 12 values, 0.869 for 20, 0.789 for 50), as a formula. A group has at least a fifth of the
/// values: fewer are outliers.
pub(super) fn two_groups(series: &[f64]) -> Option<(f64, f64, f64)> {
    let n = series.len();
    if n < MANY {
        return None;
    }
    let mut ordered = series.to_vec();
    ordered.sort_by(f64::total_cmp);
    let mean = |part: &[f64]| mean(part.iter().copied());
    let whole = mean(&ordered);
    let total: f64 = ordered.iter().map(|value| (value - whole).powi(2)).sum();
    let least = n.div_ceil(5);
    let mut best: Option<(f64, usize)> = None;
    for cut in least..=n - least {
        let (low, high) = ordered.split_at(cut);
        let between = (low.len() * high.len()) as f64 / n as f64 * (mean(high) - mean(low)).powi(2);
        if best.is_none_or(|(most, _)| between > most) {
            best = Some((between, cut));
        }
    }
    let (between, cut) = best?;
    let limit = 0.64 + 1.05 / (n as f64).sqrt();
    (total > 0.0 && between / total > limit).then(|| {
        let (low, high) = ordered.split_at(cut);
        (mean(low), mean(high), high.len() as f64 / n as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // scipy.stats.kendalltau(range(10), [1, 3, 2, 4, 6, 5, 8, 7, 9, 10], method='asymptotic') has no
    // continuity correction: score 39, variance 125, p = 4.86e-4. With it (as R's Kendall::MannKendall
    // does): 2 * norm.sf(38 / 125 ** .5) = 6.7676e-04.
    #[test]
    fn mann_and_kendall_s_probability_agrees_with_scipy() {
        let p = mann_kendall(39.0, 10);
        assert!((p - PROBABILITY).abs() < 1e-9, "{p}");
        let series = [1.0, 3.0, 2.0, 4.0, 6.0, 5.0, 8.0, 7.0, 9.0, 10.0];
        // scipy.stats.theilslopes(series)[0] = 1.0
        assert_eq!(trend(&series, 0.01), Some(1.0));
        assert_eq!(trend(&series, 1e-6), None);
    }
    const PROBABILITY: f64 = 6.767_641_801_21e-4;
}
