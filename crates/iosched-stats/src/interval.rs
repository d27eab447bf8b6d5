//! An estimate with its interval, and the classical paired t interval of a ratio.
//!
//! All work is done on logarithms, where "20 % more" and "20 % less of it" are the same distance from
//! nothing; what leaves this module is a ratio again. Method: W. S. Gosset ("Student"), *The probable
//! error of a mean*, Biometrika 6 (1908), applied to the logarithms of within-round ratios.

use serde::{Deserialize, Serialize};

use crate::distribution::student_t_quantile;

/// A value and the range that holds the true one with the confidence that was asked for.
///
/// A bound that the data do not give yet is infinite (for a ratio: 0 and infinity); JSON has no word for
/// infinity, there it is `null`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The best single value.
    pub estimate: f64,
    /// The lowest value that the data leave possible.
    pub lower: f64,
    /// The highest value that the data leave possible.
    pub upper: f64,
}

impl Interval {
    /// `centre` plus and minus `half_width`.
    pub fn around(centre: f64, half_width: f64) -> Interval {
        assert!(
            half_width >= 0.0,
            "half a width cannot be negative: {half_width}"
        );
        Interval {
            estimate: centre,
            lower: centre - half_width,
            upper: centre + half_width,
        }
    }

    /// From logarithms to ratios.
    #[must_use]
    pub fn exp(self) -> Interval {
        self.map(f64::exp)
    }

    /// Each of its numbers, by what keeps their order.
    #[must_use]
    pub(crate) fn map(self, number: impl Fn(f64) -> f64) -> Interval {
        Interval {
            estimate: number(self.estimate),
            lower: number(self.lower),
            upper: number(self.upper),
        }
    }

    /// The same difference seen from the other side, on the log scale: `a - b` becomes `b - a`.
    #[must_use]
    pub(crate) fn negated(self) -> Interval {
        Interval {
            estimate: -self.estimate,
            lower: -self.upper,
            upper: -self.lower,
        }
    }

    /// True if `value` lies in the interval, bounds included.
    pub fn contains(&self, value: f64) -> bool {
        self.lower <= value && value <= self.upper
    }

    /// True if both bounds are finite numbers.
    pub fn is_bounded(&self) -> bool {
        self.lower.is_finite() && self.upper.is_finite()
    }

    /// On the log scale: the largest distance from 0 that the data leave possible.
    pub(crate) fn reach(&self) -> f64 {
        self.lower.abs().max(self.upper.abs())
    }
}

/// The classical interval for the mean of `values` (log-ratios), valid for one look at a number of
/// rounds fixed in advance. `None` for fewer than two values.
pub fn student_t(values: &[f64], confidence: f64) -> Option<Interval> {
    let moments = Moments::of(values)?;
    let quantile = student_t_quantile(0.5 + confidence / 2.0, moments.df());
    Some(Interval::around(
        moments.mean,
        quantile * moments.standard_error(),
    ))
}

/// Count, mean and spread of at least two numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moments {
    pub(crate) n: usize,
    pub(crate) mean: f64,
    pub(crate) sd: f64,
}

impl Moments {
    pub(crate) fn of(values: &[f64]) -> Option<Moments> {
        let n = values.len();
        if n < 2 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Moments {
            n,
            mean,
            sd: (squares / (n - 1) as f64).sqrt(),
        })
    }

    pub(crate) fn df(&self) -> f64 {
        (self.n - 1) as f64
    }

    pub(crate) fn standard_error(&self) -> f64 {
        self.sd / (self.n as f64).sqrt()
    }
}

/// What blocks say of the differences between treatments, on the scale of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Differences {
    /// How far any two treatments may be apart: an upper bound.
    pub within: f64,
    /// True if any two of them surely are apart.
    pub are_seen: bool,
}

/// The differences between treatments of which each block (here: a turn) had every one once. What a
/// block as a whole has in common cancels. Intervals hold for all pairs together with this confidence.
///
/// Randomised complete blocks, one variance for all, Bonferroni over the pairs: D. C. Montgomery, *Design
/// and Analysis of Experiments*, chapter 4; for a number of blocks that does not depend on the values.
/// `None` without a spread to judge by.
pub fn differences(blocks: &[Vec<f64>], confidence: f64) -> Option<Differences> {
    let treatments = blocks.first().map_or(0, Vec::len);
    if blocks.len() < 2 || treatments < 2 {
        return None;
    }
    assert!(
        blocks.iter().all(|block| block.len() == treatments),
        "every block has every treatment"
    );
    let count = blocks.len() as f64;
    let means: Vec<f64> = (0..treatments)
        .map(|treatment| blocks.iter().map(|block| block[treatment]).sum::<f64>() / count)
        .collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / treatments as f64;
    let overall = mean(&means);
    let residual = |block: &Vec<f64>| {
        let shift = mean(block) - overall;
        let left = block
            .iter()
            .zip(&means)
            .map(|(value, mean)| value - mean - shift);
        left.map(|left| left * left).sum::<f64>()
    };
    let df = (treatments - 1) as f64 * (count - 1.0);
    let variance = blocks.iter().map(residual).sum::<f64>() / df;
    let pairs = treatments * (treatments - 1) / 2;
    let level = (1.0 - confidence) / pairs as f64;
    let half_width = student_t_quantile(1.0 - level / 2.0, df) * (variance * 2.0 / count).sqrt();
    let largest = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = means.iter().copied().fold(f64::INFINITY, f64::min);
    Some(Differences {
        within: largest - smallest + half_width,
        are_seen: largest - smallest > half_width,
    })
}

/// Two treatments of which the first surely has more than the second, by more than `least`, and by how much; a block need not
/// have all of them. Each pair, in each direction, has this level; for one look.
///
/// t intervals of the differences within blocks. A pair's variance is its own, that of all pairs where that is larger, or
/// the square of `resolution`; its degrees of freedom are those of all.
pub fn surely_more(
    blocks: &[Vec<Option<f64>>],
    level: f64,
    least: f64,
    resolution: f64,
) -> Option<(usize, usize, f64)> {
    let treatments = blocks.first().map_or(0, Vec::len);
    let pairs = (0..treatments).flat_map(|a| (a + 1..treatments).map(move |b| (a, b)));
    let found: Vec<(usize, usize, Moments)> = pairs
        .filter_map(|(a, b)| {
            let rows = blocks.iter();
            let differences = rows.filter_map(|row| Some(row[a]? - row[b]?));
            let moments = Moments::of(&differences.collect::<Vec<f64>>())?;
            Some((a, b, moments))
        })
        .collect();
    if found.is_empty() {
        return None;
    }
    let freedom: f64 = found.iter().map(|(.., of)| of.df()).sum();
    let squares: f64 = found.iter().map(|(.., of)| of.df() * of.sd.powi(2)).sum();
    let pooled = (squares / freedom).sqrt();
    let is_compared = |&one: &usize| found.iter().any(|&(a, b, _)| a == one || b == one);
    let compared = (0..treatments).filter(is_compared).count();
    let quantile = student_t_quantile(1.0 - level, (freedom * 2.0 / compared as f64).max(1.0));
    found.into_iter().find_map(|(a, b, of)| {
        let sd = of.sd.max(pooled).max(resolution);
        let is_more = of.mean.abs() - quantile * sd / (of.n as f64).sqrt() > least;
        let (more, less) = if of.mean > 0.0 { (a, b) } else { (b, a) };
        is_more.then_some((more, less, of.mean.abs()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // The sleep data of Student (1908), also `sleep` in R: ten patients, two drugs.
    // R: t.test(extra ~ group, data = sleep, paired = TRUE) gives -1.58, -2.4598858 to -0.7001142.
    #[test]
    fn student_s_own_example_comes_out_as_published() {
        let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
        let interval = student_t(&differences, 0.95).unwrap();
        assert!((interval.estimate + 1.58).abs() < 1e-12);
        assert!((interval.lower + 2.459_885_8).abs() < 1e-7);
        assert!((interval.upper + 0.700_114_2).abs() < 1e-7);
    }

    #[test]
    fn one_value_gives_no_interval() {
        assert_eq!(student_t(&[0.1], 0.95), None);
        assert_eq!(student_t(&[], 0.95), None);
    }

    #[test]
    fn constant_values_give_an_interval_of_no_width() {
        let interval = student_t(&[0.25, 0.25, 0.25], 0.95).unwrap();
        assert_eq!((interval.lower, interval.upper), (0.25, 0.25));
    }

    // Two treatments in blocks are pairs: Student's sleep data again.
    #[test]
    fn differences_of_two_treatments_are_those_of_pairs() {
        let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let blocks: Vec<Vec<f64>> = first.iter().zip(second).map(|(a, b)| vec![*a, b]).collect();
        let found = differences(&blocks, 0.95).unwrap();
        assert!((found.within - 2.459_885_8).abs() < 1e-6, "{found:?}");
        assert!(found.are_seen);
    }

    #[test]
    fn what_a_block_has_in_common_says_nothing_of_the_treatments() {
        let noise = [[0.0, 0.1, 0.2], [0.2, 0.0, 0.1], [0.1, 0.2, 0.0]];
        let at = |shift: f64| -> Option<Differences> {
            let shifted = noise.iter().enumerate();
            let blocks = shifted.map(|(block, row)| row.map(|x| x + shift * block as f64).to_vec());
            differences(&blocks.collect::<Vec<_>>(), 0.95)
        };
        let (still, drifting) = (at(0.0).unwrap(), at(50.0).unwrap());
        assert!((still.within - drifting.within).abs() < 1e-9);
        assert!(!still.are_seen);
        // Residual variance 0.06 / 4; t(1 - 0.05 / 6, 4) = 3.961.
        assert!((still.within - 3.961 * (0.015_f64 * 2.0 / 3.0).sqrt()).abs() < 1e-3);
        assert_eq!(differences(&[vec![1.0, 2.0]], 0.95), None);
    }

    #[test]
    fn what_surely_has_more_is_found_and_chance_is_not() {
        let row = |more: f64, chance: f64| vec![Some(chance), Some(0.5 + more - chance), None];
        let blocks = |more: f64| [row(more, 0.1), row(more, 0.15), row(more, 0.12)];
        assert_eq!(surely_more(&blocks(0.0), 0.01, 0.5, 0.001), None);
        let (more, less, by) = surely_more(&blocks(0.4), 0.01, 0.1, 0.001).unwrap();
        assert_eq!((more, less), (1, 0));
        assert!((by - 0.653).abs() < 0.001, "{by}");
        // t(0.99, 2) = 6.96, and the standard deviation 0.0503: not above 0.46.
        assert_eq!(surely_more(&blocks(0.4), 0.01, 0.46, 0.001), None);
        assert!(surely_more(&blocks(0.4), 0.01, 0.44, 0.001).is_some());
        assert_eq!(surely_more(&[], 0.01, 0.0, 0.001), None);
    }
}
