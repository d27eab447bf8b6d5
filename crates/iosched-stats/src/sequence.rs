//! A confidence sequence: intervals for a mean, one after each observation, that hold all at once.
//!
//! A classical interval is right 95 times in 100 for somebody who looks once. Who looks after every
//! round and stops when he likes what he sees is fooled far more often. The intervals of a confidence
//! sequence are right, all of them together, in 95 of 100 runs: one may look, stop, go on or resume at
//! will.
//!
//! Method: the t-mixture. The observations are taken as normal with unknown mean and unknown variance;
//! the likelihood ratio of the t statistic is averaged over a normal distribution of the standardised
//! effect with mean 0 and variance `1 / PRIOR_ROUNDS`. Under the true mean this average is a martingale
//! that starts at 1, so (Ville 1939) it ever exceeds `1 / level` with probability at most `level`; the
//! interval is the set of means at which it has not.
//!
//! - T. L. Lai, *On confidence sequences*, Annals of Statistics 4 (1976)
//! - H. Wang and A. Ramdas, *Anytime-valid t-tests and confidence sequences for Gaussian means with
//!   unknown variance* (2023, arXiv:2310.03722)
//! - M. Lindon, D. W. Ham, M. Tingley, I. Bojinov, *Anytime-valid linear models and regression adjusted
//!   causal inference* (2022, arXiv:2210.08589): the closed form that is used here
//!
//! Left out: means of distributions without a variance.

use crate::interval::{Interval, Moments};

/// The prior's weight, in rounds: the standardised effects that the mixture favours have a variance of
/// `1 / PRIOR_ROUNDS`, a standard deviation of about 2.2 (a difference of 2.2 times its own noise).
///
/// Any value is valid; this one makes the intervals narrow where a tune ends. Smaller values decide
/// large differences a round earlier and small ones several rounds later; `docs/statistics.md` has the
/// comparison.
pub(crate) const PRIOR_ROUNDS: f64 = 0.2;

/// The interval after the observations `values`, valid together with those after every shorter and
/// every longer stretch of them, with probability `1 - level`.
///
/// The standard deviation is never taken below `resolution`: measurements that agree to the last digit
/// (a rate limit, a coarse clock) would otherwise prove differences that nothing but rounding makes.
/// `None` for fewer than two values; with two or three the bounds may still be infinite.
pub fn interval(values: &[f64], level: f64, resolution: f64) -> Option<Interval> {
    let moments = Moments::of(values)?;
    let sd = moments.sd.max(resolution);
    Some(Interval::around(
        moments.mean,
        half_width(moments.n, sd, level),
    ))
}

/// Half the width of the interval after `rounds` observations with standard deviation `sd`.
pub(crate) fn half_width(rounds: usize, sd: f64, level: f64) -> f64 {
    let t = critical_t(rounds, level);
    if t.is_infinite() {
        return f64::INFINITY;
    }
    t * sd / (rounds as f64).sqrt()
}

/// The t statistic from which on a mean is excluded after `rounds` observations.
pub(crate) fn critical_t(rounds: usize, level: f64) -> f64 {
    critical_t_with(rounds, rounds.saturating_sub(1) as f64, level)
}

/// The same where the standard deviation comes from a linear model with `df` residual degrees of
/// freedom, more than the observations of one mean would give (Lindon et al., theorem 3.1).
pub(crate) fn critical_t_with(rounds: usize, df: f64, level: f64) -> f64 {
    assert!(
        level > 0.0 && level < 1.0,
        "a level is between 0 and 1, not {level}"
    );
    if rounds < 2 || df < 1.0 {
        return f64::INFINITY;
    }
    let n = rounds as f64;
    let shrink = PRIOR_ROUNDS / (PRIOR_ROUNDS + n);
    // martingale(t) = sqrt(shrink) * ((1 + t²/df) / (1 + shrink t²/df)) ^ ((df + 1)/2), set equal to
    // 1 / level and solved for t.
    let bound = ((-level.ln() - 0.5 * shrink.ln()) * 2.0 / (df + 1.0)).exp();
    let room = 1.0 - bound * shrink;
    if room <= 0.0 {
        return f64::INFINITY; // so few observations cannot exclude anything at this level
    }
    (df * (bound - 1.0) / room).sqrt()
}

/// The smallest number of rounds for which `reached` is true; `reached` must stay true beyond it.
/// `None` beyond a million.
pub(crate) fn first_rounds(reached: impl Fn(usize) -> bool) -> Option<usize> {
    const LIMIT: usize = 1_000_000;
    if !reached(LIMIT) {
        return None;
    }
    let (mut below, mut above) = (1, LIMIT);
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if reached(middle) {
            above = middle;
        } else {
            below = middle;
        }
    }
    Some(above)
}

/// The martingale itself: the evidence against a mean whose t statistic after `rounds` is `t`.
#[cfg(test)]
fn evidence(t: f64, rounds: usize, prior_rounds: f64) -> f64 {
    let n = rounds as f64;
    let shrink = prior_rounds / (prior_rounds + n);
    let s = t * t / (n - 1.0);
    shrink.sqrt() * ((1.0 + s) / (1.0 + shrink * s)).powf(n / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // The average over the prior, integrated numerically by SciPy 1.17.1 from its noncentral t density:
    // def E(t, n, phi): return quad(lambda d: nct.pdf(t, n-1, sqrt(n)*d) * norm.pdf(d, 0, phi**-.5),
    //     -12*phi**-.5, 12*phi**-.5, points=[0, t/sqrt(n)], limit=800)[0] / scipy.stats.t.pdf(t, n-1)
    #[test]
    fn closed_form_agrees_with_numerical_integration() {
        for (t, rounds, prior, expected) in [
            (3.0, 5, 0.3, 3.357_190_573_119_276),
            (-8.0, 4, 0.3, 21.276_630_492_033_07),
            (1.2, 20, 0.3, 0.249_588_147_263_009_16),
            (25.0, 3, 1.0, 3.943_262_943_611_453),
        ] {
            let ours = evidence(t, rounds, prior);
            assert!((ours / expected - 1.0).abs() < 1e-9, "{ours}, {expected}");
        }
    }

    #[test]
    fn evidence_at_the_critical_t_is_one_over_the_level() {
        for rounds in [3, 5, 12, 30, 200] {
            for level in [0.05, 0.05 / 3.0, 0.001] {
                let t = critical_t(rounds, level);
                if t.is_finite() {
                    let evidence = evidence(t, rounds, PRIOR_ROUNDS);
                    assert!((evidence * level - 1.0).abs() < 1e-9, "{rounds} {level}");
                }
            }
        }
    }

    #[test]
    fn one_observation_says_nothing_two_begin_and_four_give_bounds() {
        let values = [0.3, 0.31, 0.29, 0.305];
        assert_eq!(interval(&values[..1], 0.05, 1e-3), None);
        assert!(interval(&values[..2], 0.05, 1e-3).is_some());
        assert!(interval(&values, 0.05, 1e-3).unwrap().is_bounded());
    }

    #[test]
    fn constant_data_keep_the_width_that_the_resolution_gives() {
        let values = [0.0; 6];
        let interval = interval(&values, 0.05, 1e-3).unwrap();
        assert!(interval.lower < 0.0 && interval.upper > 0.0);
        assert!((interval.upper - half_width(6, 1e-3, 0.05)).abs() < 1e-15);
    }

    #[test]
    fn first_rounds_is_the_first_number_that_is_enough() {
        for target in [0.02, 0.1, 0.5] {
            let reached = |rounds| half_width(rounds, 0.07, 0.0166) < target;
            let rounds = first_rounds(reached).unwrap();
            assert!(reached(rounds) && !reached(rounds - 1));
        }
        assert_eq!(first_rounds(|_| false), None);
    }

    proptest! {
        #[test]
        fn more_rounds_and_less_confidence_make_narrower_intervals(
            rounds in 3usize..500, sd in 1e-4f64..1.0, level in 1e-4f64..0.2,
        ) {
            prop_assert!(half_width(rounds + 1, sd, level) <= half_width(rounds, sd, level));
            prop_assert!(half_width(rounds, sd, level * 2.0) <= half_width(rounds, sd, level));
        }

        #[test]
        fn intervals_move_with_the_data_and_scale_with_it(
            values in prop::collection::vec(-1.0f64..1.0, 4..30), shift in -1.0f64..1.0,
        ) {
            let before = interval(&values, 0.05, 1e-9).unwrap();
            let moved: Vec<f64> = values.iter().map(|value| 2.0 * value + shift).collect();
            let after = interval(&moved, 0.05, 2e-9).unwrap();
            prop_assert!((after.lower - (2.0 * before.lower + shift)).abs() < 1e-9);
            prop_assert!((after.upper - (2.0 * before.upper + shift)).abs() < 1e-9);
        }
    }
}
