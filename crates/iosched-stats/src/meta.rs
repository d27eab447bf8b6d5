//! One effect over many machines: random-effects meta-analysis.
//!
//! Each machine has a true effect of its own, drawn around a common mean with the variance tau², and measured it with a
//! known variance. What is asked is the mean with its interval, how much machines differ, and what the next machine may
//! expect: the prediction interval, which is the one to act by.
//!
//! - tau²: the moment estimator of R. `DerSimonian` and N. Laird, *Meta-analysis in clinical trials*, Controlled Clinical
//!   Trials 7 (1986)
//! - the interval of the mean: J. Hartung and G. Knapp, Statistics in Medicine 20 (2001), with the variance never below
//!   the one that tau² gives (C. Röver, G. Knapp, T. Friede, BMC Medical Research Methodology 15 (2015)): with few machines
//!   that agree by chance the plain one is too narrow
//! - I²: J. P. T. Higgins and S. G. Thompson, Statistics in Medicine 21 (2002)
//! - the prediction interval: t with k - 2 degrees of freedom (J. P. T. Higgins, S. G. Thompson, D. J. Spiegelhalter,
//!   Journal of the Royal Statistical Society A 172 (2009)), which takes tau² for known. Where machines differ about as much
//!   as they are measured exactly, that covers too little (87 % of the next machines instead of 95 % with eight machines);
//!   so it is widened to what holds over all values of tau² that the data leave possible, each with its confidence:
//!   W. Viechtbauer's Q-profile (Statistics in Medicine 26 (2007)), used as a distribution as in K. Nagashima, H. Noma,
//!   T. A. Furukawa, Statistical Methods in Medical Research 28 (2019), by quadrature instead of drawn numbers
//!
//! Left out: covariates, and machines whose effects are correlated.

use std::collections::BTreeMap;
use std::f64::consts::TAU;

use serde::Serialize;

use crate::distribution::{
    bisect, chi_square_cdf, normal_cdf, normal_quantile, student_t_quantile,
};
use crate::interval::Interval;

/// What one machine found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Study {
    /// The effect, a log-ratio.
    pub effect: f64,
    /// Its variance, above 0: the square of its standard error.
    pub variance: f64,
}

/// What all of them say together, on the scale of the effects.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pooled {
    /// How many machines.
    pub studies: usize,
    /// The mean effect with its interval (Hartung and Knapp).
    pub mean: Interval,
    /// The standard error that the interval is made of.
    pub standard_error: f64,
    /// Variance of the true effects between machines.
    pub tau_squared: f64,
    /// Cochran's Q.
    pub q: f64,
    /// Part of the variance that is between machines and no error of measurement, 0 to 1.
    pub i_squared: f64,
    /// Where the true effect of the next machine lies; none below three machines.
    pub prediction: Option<Interval>,
}

/// Pools machines with one confidence; keeps what is the same for all groups of one size.
#[derive(Debug, Clone)]
pub struct RandomEffects {
    confidence: f64,
    /// For so many machines: the values of Q in the middle of equal parts of its distribution, rising.
    profiles: BTreeMap<usize, Vec<f64>>,
}

/// Values of tau² that the prediction is averaged over.
const NODES: usize = 32;

impl RandomEffects {
    /// Intervals of this confidence, 0.95 for 95 %.
    pub fn new(confidence: f64) -> RandomEffects {
        assert!(
            confidence > 0.0 && confidence < 1.0,
            "a confidence is between 0 and 1, not {confidence}"
        );
        RandomEffects {
            confidence,
            profiles: BTreeMap::new(),
        }
    }

    /// What the machines say together; none below two.
    pub fn pool(&mut self, studies: &[Study]) -> Option<Pooled> {
        let k = studies.len();
        if k < 2 {
            return None;
        }
        for study in studies {
            let Study { effect, variance } = *study;
            assert!(
                effect.is_finite() && variance > 0.0 && variance.is_finite(),
                "an effect has a finite value and a variance above 0: {effect}, {variance}"
            );
        }
        let fixed = Weighted::at(studies, 0.0);
        let df = (k - 1) as f64;
        let tau_squared = ((fixed.q - df) / fixed.scale).max(0.0);
        let random = Weighted::at(studies, tau_squared);
        Some(Pooled {
            studies: k,
            mean: self.interval_of_mean(&random),
            standard_error: random.hartung_knapp(),
            tau_squared,
            q: fixed.q,
            i_squared: if fixed.q > 0.0 {
                ((fixed.q - df) / fixed.q).max(0.0)
            } else {
                0.0
            },
            prediction: (k > 2).then(|| {
                let by_t = prediction_by_t(&random, tau_squared, k, self.confidence);
                let over_all = self.prediction_over_all(studies, &fixed);
                Interval {
                    estimate: random.mean,
                    lower: by_t.lower.min(over_all.lower),
                    upper: by_t.upper.max(over_all.upper),
                }
            }),
        })
    }

    /// The interval of the mean alone, which costs little; none below two machines.
    pub fn mean(&self, studies: &[Study]) -> Option<Interval> {
        if studies.len() < 2 {
            return None;
        }
        let fixed = Weighted::at(studies, 0.0);
        let df = (studies.len() - 1) as f64;
        let tau_squared = ((fixed.q - df) / fixed.scale).max(0.0);
        Some(self.interval_of_mean(&Weighted::at(studies, tau_squared)))
    }

    fn interval_of_mean(&self, at: &Weighted) -> Interval {
        let upper = 0.5 + self.confidence / 2.0;
        let t = student_t_quantile(upper, (at.studies - 1) as f64);
        Interval::around(at.mean, t * at.hartung_knapp())
    }

    /// The mixture of what each value of tau² predicts.
    fn prediction_over_all(&mut self, studies: &[Study], fixed: &Weighted) -> Interval {
        let profile = self.profiles.entry(studies.len()).or_insert_with(|| {
            let df = (studies.len() - 1) as f64;
            let middle = |node: usize| (node as f64 + 0.5) / NODES as f64;
            let nodes = (0..NODES).map(|node| chi_square_quantile(middle(node), df));
            nodes.collect()
        });
        // From the largest Q, which is the smallest tau², so that each search begins where the one before ended.
        let mut tau_squared = 0.0;
        let parts: Vec<(f64, f64)> = profile
            .iter()
            .rev()
            .map(|&q| {
                tau_squared = tau_squared_at(studies, fixed, q, tau_squared);
                let at = Weighted::at(studies, tau_squared);
                (at.mean, (tau_squared + 1.0 / at.weight).sqrt())
            })
            .collect();
        let tail = (1.0 - self.confidence) / 2.0;
        Interval {
            estimate: fixed.mean,
            lower: quantile_of_mixture(&parts, tail),
            upper: quantile_of_mixture(&parts, 1.0 - tail),
        }
    }
}

/// The value with the probability `p` below it, of normal distributions (mean, standard deviation) of equal weight.
///
/// Newton's method, within the bounds that the parts' own quantiles are.
fn quantile_of_mixture(parts: &[(f64, f64)], p: f64) -> f64 {
    let z = normal_quantile(p);
    let quantiles = || parts.iter().map(|(mean, sd)| mean + z * sd);
    let mut below = quantiles().fold(f64::INFINITY, f64::min);
    let mut above = quantiles().fold(f64::NEG_INFINITY, f64::max);
    let enough = 1e-12 * (above - below).max(parts[0].1);
    let mut value = f64::midpoint(below, above);
    for _ in 0..200 {
        let (mut share, mut density) = (0.0, 0.0);
        for (mean, sd) in parts {
            let z = (value - mean) / sd;
            share += normal_cdf(z);
            density += (-0.5 * z * z).exp() / (sd * TAU.sqrt());
        }
        let off = share - p * parts.len() as f64;
        if off < 0.0 {
            below = value;
        } else {
            above = value;
        }
        let next = value - off / density;
        let next = if below < next && next < above {
            next
        } else {
            f64::midpoint(below, above)
        };
        let step = (next - value).abs();
        value = next;
        if step <= enough {
            break;
        }
    }
    value
}

/// Higgins, Thompson and Spiegelhalter (2009), equation (12).
fn prediction_by_t(at: &Weighted, tau_squared: f64, k: usize, confidence: f64) -> Interval {
    let t = student_t_quantile(0.5 + confidence / 2.0, (k - 2) as f64);
    let variance = tau_squared + at.hartung_knapp().powi(2);
    Interval::around(at.mean, t * variance.sqrt())
}

/// The weighted mean for a value of tau².
#[derive(Debug, Clone, Copy)]
struct Weighted {
    studies: usize,
    mean: f64,
    /// Sum of the weights.
    weight: f64,
    /// `DerSimonian` and Laird's denominator.
    scale: f64,
    /// Sum of the weighted squares of what is off the mean: Cochran's Q where tau² is 0.
    q: f64,
    /// What Q loses for each unit of tau².
    slope: f64,
}

impl Weighted {
    /// Standard errors may differ by many orders of magnitude: so no difference is taken of two numbers that one weight makes
    /// almost equal, neither of weights nor of effects.
    fn at(studies: &[Study], tau_squared: f64) -> Weighted {
        let of = |study: &Study| 1.0 / (study.variance + tau_squared);
        let weights = || studies.iter().map(move |study| (study, of(study)));
        let heaviest = weights().enumerate();
        let heaviest = heaviest.max_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let (heaviest, (center, most)) = heaviest.expect("there are studies");
        let others = weights()
            .enumerate()
            .filter(|(index, _)| *index != heaviest);
        let others: f64 = others.map(|(_, (_, w))| w).sum();
        let weight = most + others;
        // From the effect that weighs most, near which the mean is.
        let from_center = |study: &Study| study.effect - center.effect;
        let shift = weights().map(|(study, w)| w * from_center(study));
        let shift = shift.sum::<f64>() / weight;
        let off = |study: &Study| (from_center(study) - shift).powi(2);
        let scale = weights().enumerate().map(|(index, (_, w))| {
            let rest = if index == heaviest {
                others
            } else {
                weight - w
            };
            w * (rest / weight)
        });
        Weighted {
            studies: studies.len(),
            mean: center.effect + shift,
            weight,
            scale: scale.sum(),
            q: weights().map(|(study, w)| w * off(study)).sum(),
            slope: weights().map(|(study, w)| w * w * off(study)).sum(),
        }
    }

    /// The standard error of the mean by Hartung and Knapp, not below the usual one.
    fn hartung_knapp(&self) -> f64 {
        let factor = self.q / (self.studies - 1) as f64;
        (factor.max(1.0) / self.weight).sqrt()
    }
}

/// The tau² at which the weighted squares sum up to `q`, not below `from`, where they are more; 0 where they never are.
///
/// Newton's method: the sum falls with tau² and is convex, so each step stays on this side of the answer.
fn tau_squared_at(studies: &[Study], fixed: &Weighted, q: f64, from: f64) -> f64 {
    if fixed.q <= q {
        return 0.0;
    }
    let mut tau_squared = from;
    for _ in 0..200 {
        let at = Weighted::at(studies, tau_squared);
        let step = (at.q - q) / at.slope;
        if step.is_nan() || step <= tau_squared * 1e-12 {
            break;
        }
        tau_squared += step;
    }
    tau_squared
}

fn chi_square_quantile(p: f64, df: f64) -> f64 {
    bisect(|x| chi_square_cdf(x, df) >= p)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use proptest::prelude::*;

    /// Colditz et al., JAMA 271 (1994): the vaccine BCG in 13 trials; tuberculosis and not, with and without it.
    const BCG: [[f64; 4]; 13] = [
        [4.0, 119.0, 11.0, 128.0],
        [6.0, 300.0, 29.0, 274.0],
        [3.0, 228.0, 11.0, 209.0],
        [62.0, 13536.0, 248.0, 12619.0],
        [33.0, 5036.0, 47.0, 5761.0],
        [180.0, 1361.0, 372.0, 1079.0],
        [8.0, 2537.0, 10.0, 619.0],
        [505.0, 87886.0, 499.0, 87892.0],
        [29.0, 7470.0, 45.0, 7232.0],
        [17.0, 1699.0, 65.0, 1600.0],
        [186.0, 50448.0, 141.0, 27197.0],
        [5.0, 2493.0, 3.0, 2338.0],
        [27.0, 16886.0, 29.0, 17825.0],
    ];

    /// The logarithms of the risk ratios.
    fn bcg() -> Vec<Study> {
        let studies = BCG.iter().map(|[a, b, c, d]| Study {
            effect: ((a / (a + b)) / (c / (c + d))).ln(),
            variance: 1.0 / a - 1.0 / (a + b) + 1.0 / c - 1.0 / (c + d),
        });
        studies.collect()
    }

    #[track_caller]
    fn assert_near(ours: f64, published: f64, digits: i32) {
        let error = (ours - published).abs();
        assert!(
            error <= 0.5 * 10_f64.powi(-digits) * 1.001,
            "{ours} is not {published}"
        );
    }

    // metafor 4: rma(yi, vi, data = dat, method = "DL") on dat.bcg prints tau² 0.3088, I² 92.12 %, Q 152.2330,
    // -0.7141 with standard error 0.1787, -1.0644 to -0.3638 (normal).
    #[test]
    fn dersimonian_and_laird_come_out_as_metafor_prints_them() {
        let pooled = RandomEffects::new(0.95).pool(&bcg()).unwrap();
        assert_near(pooled.tau_squared, 0.3088, 4);
        assert_near(pooled.i_squared, 0.9212, 4);
        assert_near(pooled.q, 152.2330, 4);
        assert_near(pooled.mean.estimate, -0.7141, 4);
        let plain = Weighted::at(&bcg(), pooled.tau_squared);
        let error = plain.weight.sqrt().recip();
        assert_near(error, 0.1787, 4);
        assert_near(plain.mean - 1.959_963_984_540_054 * error, -1.0644, 4);
        assert_near(plain.mean + 1.959_963_984_540_054 * error, -0.3638, 4);
    }

    // The same with test = "knha" and the default method, REML, whose tau² is 0.3132: -0.7145 with standard error
    // 0.1808, -1.1084 to -0.3206 (t with 12 degrees of freedom). tau² is known to four digits, so the rest to three.
    #[test]
    fn hartung_and_knapp_come_out_as_metafor_prints_them() {
        let at = Weighted::at(&bcg(), 0.3132);
        let half_width = student_t_quantile(0.975, 12.0) * at.hartung_knapp();
        assert_near(at.hartung_knapp(), 0.1808, 4);
        assert_near(at.mean, -0.7145, 4);
        assert_near(at.mean - half_width, -1.108, 3);
        assert_near(at.mean + half_width, -0.321, 3);
        // With DerSimonian and Laird's tau²: what the two formulas give (Python).
        let pooled = RandomEffects::new(0.95).pool(&bcg()).unwrap();
        assert_near(pooled.standard_error, 0.180_697, 6);
        assert_near(pooled.mean.lower, -1.107_821, 5);
        assert_near(pooled.mean.upper, -0.320_414, 5);
    }

    // metafor: confint(res) prints tau² 0.1197 to 1.1115, which are the values of tau² at the ends of Q's distribution.
    #[test]
    fn the_profile_of_q_has_the_ends_that_metafor_prints() {
        let studies = bcg();
        let fixed = Weighted::at(&studies, 0.0);
        for (p, published) in [(0.975, 0.1197), (0.025, 1.1115)] {
            let q = chi_square_quantile(p, 12.0);
            assert_near(tau_squared_at(&studies, &fixed, q, 0.0), published, 4);
        }
    }

    // Higgins, Thompson and Spiegelhalter's formula, evaluated in Python: -0.714117 ± 2.200985 sqrt(0.308760 + 0.180697²).
    #[test]
    fn the_prediction_is_at_least_as_wide_as_t_with_two_degrees_less() {
        let studies = bcg();
        let pooled = RandomEffects::new(0.95).pool(&studies).unwrap();
        let random = Weighted::at(&studies, pooled.tau_squared);
        let by_t = prediction_by_t(&random, pooled.tau_squared, 13, 0.95);
        assert_near(by_t.lower, -2.0001, 3);
        assert_near(by_t.upper, 0.5719, 3);
        let prediction = pooled.prediction.unwrap();
        assert!(prediction.lower <= by_t.lower && prediction.upper >= by_t.upper);
        assert!(prediction.upper - prediction.lower < 1.1 * (by_t.upper - by_t.lower));
    }

    #[test]
    fn a_mixture_has_the_share_below_its_quantile() {
        for parts in [
            vec![(0.0, 1.0)],
            vec![(0.0, 1.0), (3.0, 0.2), (-7.0, 4.0)],
            vec![(2.0, 0.01), (2.0, 100.0)],
        ] {
            for p in [0.001, 0.025, 0.5, 0.975] {
                let value = quantile_of_mixture(&parts, p);
                let shares = parts
                    .iter()
                    .map(|(mean, sd)| normal_cdf((value - mean) / sd));
                let share = shares.sum::<f64>() / parts.len() as f64;
                assert!((share - p).abs() < 1e-9, "{parts:?} {p}: {share}");
            }
        }
    }

    #[test]
    fn machines_that_agree_by_chance_do_not_narrow_the_interval_to_nothing() {
        let study = Study {
            effect: 0.1,
            variance: 0.01,
        };
        let pooled = RandomEffects::new(0.95).pool(&[study; 4]).unwrap();
        assert!((pooled.standard_error - 0.05).abs() < 1e-12, "{pooled:?}");
        assert_eq!((pooled.tau_squared, pooled.i_squared), (0.0, 0.0));
        let prediction = pooled.prediction.unwrap();
        assert!(prediction.lower < pooled.mean.lower && prediction.upper > pooled.mean.upper);
    }

    #[test]
    fn few_machines_predict_nothing() {
        let study = |effect| Study {
            effect,
            variance: 0.01,
        };
        let mut method = RandomEffects::new(0.95);
        assert_eq!(method.pool(&[study(1.0)]), None);
        assert_eq!(
            method.pool(&[study(1.0), study(2.0)]).unwrap().prediction,
            None
        );
        assert!(
            method
                .pool(&[0.1, 0.2, 0.4].map(study))
                .unwrap()
                .prediction
                .is_some()
        );
    }

    /// How often the intervals hold the mean and the next machine's true effect, for machines that differ by `tau` and
    /// are measured with standard errors around 1.
    fn covered(machines: usize, tau: f64, runs: u32) -> (f64, f64) {
        let mut method = RandomEffects::new(0.95);
        let mut chance = Chance::new(machines as u64, tau.to_bits());
        let (mut of_mean, mut of_next) = (0, 0);
        for _ in 0..runs {
            let studies: Vec<Study> = (0..machines)
                .map(|_| {
                    let error = (0.5 * chance.normal()).exp();
                    Study {
                        effect: tau * chance.normal() + error * chance.normal(),
                        variance: error * error,
                    }
                })
                .collect();
            let next = tau * chance.normal();
            let pooled = method.pool(&studies).unwrap();
            of_mean += u32::from(pooled.mean.contains(0.0));
            of_next += u32::from(pooled.prediction.unwrap().contains(next));
        }
        (
            f64::from(of_mean) / f64::from(runs),
            f64::from(of_next) / f64::from(runs),
        )
    }

    // Drawn from a seed, so it is the same every time. With 2000 runs of each case the lowest shares were 94.3 % (mean) and
    // 92.7 % (next machine).
    #[test]
    fn intervals_hold_what_they_promise_however_much_machines_differ() {
        let mut all = Vec::new();
        for machines in [3, 5, 8, 25] {
            for tau in [0.0, 0.5, 1.0, 2.0, 5.0] {
                let (mean, next) = covered(machines, tau, 300);
                assert!(
                    mean > 0.91 && next > 0.91,
                    "{machines} {tau}: {mean} {next}"
                );
                all.push(next);
            }
        }
        let average = all.iter().sum::<f64>() / all.len() as f64;
        assert!(average > 0.95, "{average}");
    }

    /// `DerSimonian` and Laird's mean and tau², from sums over pairs alone: nothing in them cancels.
    fn by_pairs(studies: &[Study]) -> (f64, f64) {
        let k = studies.len();
        let weights: Vec<f64> = studies.iter().map(|study| 1.0 / study.variance).collect();
        let total: f64 = weights.iter().sum();
        let (mut q, mut scale) = (0.0, 0.0);
        for first in 0..k {
            for second in first + 1..k {
                let product = weights[first] / total * weights[second];
                q += product * (studies[first].effect - studies[second].effect).powi(2);
                scale += 2.0 * product;
            }
        }
        let tau_squared = ((q - (k - 1) as f64) / scale).max(0.0);
        let weights = studies
            .iter()
            .map(|study| 1.0 / (study.variance + tau_squared));
        let weights: Vec<f64> = weights.collect();
        let weighted = weights
            .iter()
            .zip(studies)
            .map(|(w, study)| w * study.effect);
        (
            weighted.sum::<f64>() / weights.iter().sum::<f64>(),
            tau_squared,
        )
    }

    #[test]
    fn one_error_that_is_far_smaller_than_the_others_makes_no_nonsense() {
        let found = [0.0, 20.0, -20.0, 20.0, -20.0].into_iter();
        let studies = |error: f64| -> Vec<Study> {
            let errors = [1e-9, error, error, error, error].into_iter();
            let both = found.clone().zip(errors);
            both.map(|(effect, error)| Study {
                effect,
                variance: error * error,
            })
            .collect()
        };
        let mut method = RandomEffects::new(0.95);
        for error in [5.0, 0.1, 1e-9] {
            let studies = studies(error);
            let pooled = method.pool(&studies).unwrap();
            let (mean, tau_squared) = by_pairs(&studies);
            assert!(
                (pooled.tau_squared / tau_squared - 1.0).abs() < 1e-9,
                "{pooled:?}"
            );
            assert!((pooled.mean.estimate - mean).abs() < 1e-9, "{pooled:?}");
            assert_eq!(method.mean(&studies), Some(pooled.mean));
        }
    }

    proptest! {
        /// Whatever a row of a dataset may have.
        #[test]
        fn what_is_found_is_finite_and_that_of_the_pairs_however_different_the_errors_are(
            studies in prop::collection::vec((-12.0..12.0_f64, -9.0..1.3_f64), 3..12),
            error in -9.0..1.3_f64,
            are_alike: bool,
        ) {
            let studies = studies.iter().enumerate().map(|(index, (effect, own))| {
                let error = if are_alike && index > 0 { error } else { *own };
                Study { effect: *effect, variance: 10_f64.powf(error).powi(2) }
            });
            let studies: Vec<Study> = studies.collect();
            let pooled = RandomEffects::new(0.95).pool(&studies).unwrap();
            let (mean, tau_squared) = by_pairs(&studies);
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (a.abs() + b.abs()).max(1e-9);
            prop_assert!(near(pooled.tau_squared, tau_squared), "{pooled:?} {tau_squared}");
            prop_assert!((pooled.mean.estimate - mean).abs() < 1e-6, "{pooled:?} {mean}");
            for Interval { estimate, lower, upper } in [pooled.mean, pooled.prediction.unwrap()] {
                prop_assert!(lower.is_finite() && upper.is_finite(), "{pooled:?}");
                prop_assert!(lower <= estimate && estimate <= upper, "{pooled:?}");
            }
            prop_assert!((0.0..=1.0).contains(&pooled.i_squared), "{pooled:?}");
        }

        #[test]
        fn neither_order_nor_scale_nor_a_shift_changes_what_is_found(
            studies in prop::collection::vec((-2.0..2.0_f64, 0.01..1.0_f64), 3..20),
            scale in 0.1..10.0_f64,
            shift in -5.0..5.0_f64,
        ) {
            let pool = |studies: Vec<(f64, f64)>| {
                let studies = studies.into_iter().map(|(effect, variance)| Study { effect, variance });
                RandomEffects::new(0.95).pool(&studies.collect::<Vec<_>>()).unwrap()
            };
            let here = pool(studies.clone());
            let there = studies.iter().rev();
            let there = there.map(|(effect, variance)| (effect * scale + shift, variance * scale * scale));
            let there = pool(there.collect());
            let moved = |value: f64| value * scale + shift;
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (1.0 + scale);
            prop_assert!(near(there.mean.lower, moved(here.mean.lower)));
            prop_assert!(near(there.mean.upper, moved(here.mean.upper)));
            let (here_next, there_next) = (here.prediction.unwrap(), there.prediction.unwrap());
            prop_assert!(near(there_next.lower, moved(here_next.lower)));
            prop_assert!(near(there_next.upper, moved(here_next.upper)));
            prop_assert!(near(there.i_squared, here.i_squared));
            prop_assert!(here_next.lower <= here.mean.estimate && here.mean.estimate <= here_next.upper);
        }
    }
}
