//! One effect over many machines: random-effects meta-analysis.
//!
//! Each machine has a true effect of its own, drawn around a common mean with the variance tau², and measured it with a
//! known variance. What is asked is the mean with its interval, how much machines differ, and what the next machine may
//! expect: the prediction interval, which is the one to act by.
//!
//! - tau²: the value at which the weighted squares sum up to what is expected of them (R. C. Paule and J. Mandel, Journal of
//!   Research of the National Bureau of Standards 87 (1982); R. `DerSimonian` and R. Kacker, Contemporary Clinical Trials
//!   28 (2007)). The moment estimator of 1986 weighs by precision alone: two machines without noise that agree with each
//!   other, and with none of twenty others, made it nearly 0
//! - the mean: weighted by 1 / (variance + tau²), where no variance counts as less than the median one. So half of the
//!   machines weigh the same, and one or two that measured far more exactly, or say so, do not decide alone: machines are
//!   what is drawn by chance, and an interval can be made of several only
//! - the interval of the mean: t, with the squared distances of the machines from the mean, each divided by what the model
//!   expects of it (the HC2 or CR2 adjustment of R. M. Bell and D. F. `McCaffrey`, Survey Methodology 28 (2002)) and
//!   Satterthwaite's degrees of freedom (E. Tipton, Psychological Methods 20 (2015)). With equal variances that is t with
//!   k - 1 degrees of freedom, as by J. Hartung and G. Knapp (Statistics in Medicine 20 (2001)). The variance is never below
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
    /// The mean effect with its interval.
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
        let tau_squared = tau_squared_at(studies, &fixed, df, 0.0);
        let mean = Mean::at(studies, tau_squared);
        Some(Pooled {
            studies: k,
            mean: mean.interval(self.confidence),
            standard_error: mean.standard_error,
            tau_squared,
            q: fixed.q,
            i_squared: if fixed.q > 0.0 {
                ((fixed.q - df) / fixed.q).max(0.0)
            } else {
                0.0
            },
            prediction: (k > 2).then(|| {
                let by_t = prediction_by_t(&mean, tau_squared, k, self.confidence);
                let over_all = self.prediction_over_all(studies, &fixed);
                Interval {
                    estimate: mean.estimate,
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
        let tau_squared = tau_squared_at(studies, &fixed, (studies.len() - 1) as f64, 0.0);
        Some(Mean::at(studies, tau_squared).interval(self.confidence))
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

/// Higgins, Thompson and Spiegelhalter (2009), equation (12), with no more degrees of freedom than the mean has: so the
/// mean's interval is within it.
fn prediction_by_t(mean: &Mean, tau_squared: f64, k: usize, confidence: f64) -> Interval {
    let df = mean.df.min((k - 2) as f64);
    let t = student_t_quantile(0.5 + confidence / 2.0, df);
    let variance = tau_squared + mean.standard_error.powi(2);
    Interval::around(mean.estimate, t * variance.sqrt())
}

/// The mean over machines, with weights of which none is above those of the better half.
#[derive(Debug, Clone, Copy)]
struct Mean {
    estimate: f64,
    standard_error: f64,
    /// Degrees of freedom of the standard error.
    df: f64,
}

impl Mean {
    fn at(studies: &[Study], tau_squared: f64) -> Mean {
        let k = studies.len();
        let mut variances: Vec<f64> = studies.iter().map(|study| study.variance).collect();
        let (_, middle, _) = variances.select_nth_unstable_by(k / 2, f64::total_cmp);
        let least = *middle;
        // With the smallest of these as the unit, no weight is beyond what a number can hold.
        let weight =
            |study: &Study| (least + tau_squared) / (study.variance.max(least) + tau_squared);
        let sum: f64 = studies.iter().map(weight).sum();
        let share = |study: &Study| weight(study) / sum;
        let center = studies[0].effect;
        let shift = studies
            .iter()
            .map(|study| share(study) * (study.effect - center));
        let shift: f64 = shift.sum();
        let variance = |study: &Study| study.variance + tau_squared;
        // What the variances of the model give.
        let by_model: f64 = studies
            .iter()
            .map(|it| share(it).powi(2) * variance(it))
            .sum();
        // What the machines' own distances from the mean give, each divided by what the model expects of it.
        let (mut by_distance, mut d0, mut d1, mut d2, mut own) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for study in studies {
            let (p, of_model) = (share(study), variance(study));
            let off = study.effect - center - shift;
            let expected = of_model * (1.0 - 2.0 * p) + by_model;
            let d = p * p * of_model / expected;
            by_distance += d * off * off;
            let b = p * of_model;
            d0 += d;
            d1 += d * b;
            d2 += d * b * b;
            own += d * d * of_model * (of_model + 2.0 * (by_model - 2.0 * b));
        }
        // Satterthwaite: twice the square of its mean by its variance, the sum over all pairs multiplied out.
        let pairs = by_model * by_model * d0 * d0 + 2.0 * d2 * d0 - 4.0 * by_model * d1 * d0
            + 2.0 * d1 * d1;
        let df = by_model * by_model / (pairs + own);
        Mean {
            estimate: center + shift,
            standard_error: by_distance.max(by_model).sqrt(),
            df: df.clamp(1.0, (k - 1) as f64),
        }
    }

    fn interval(&self, confidence: f64) -> Interval {
        let t = student_t_quantile(0.5 + confidence / 2.0, self.df);
        Interval::around(self.estimate, t * self.standard_error)
    }
}

/// The weighted mean for a value of tau².
#[derive(Debug, Clone, Copy)]
struct Weighted {
    mean: f64,
    /// Sum of the weights.
    weight: f64,
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
        Weighted {
            mean: center.effect + shift,
            weight,
            q: weights().map(|(study, w)| w * off(study)).sum(),
            slope: weights().map(|(study, w)| w * w * off(study)).sum(),
        }
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
    fn heterogeneity_and_the_weighted_mean_come_out_as_metafor_prints_them() {
        let pooled = RandomEffects::new(0.95).pool(&bcg()).unwrap();
        assert_near(pooled.i_squared, 0.9212, 4);
        assert_near(pooled.q, 152.2330, 4);
        // tau² is known to four digits, so the rest to three.
        let plain = Weighted::at(&bcg(), 0.3088);
        let error = plain.weight.sqrt().recip();
        assert_near(plain.mean, -0.7141, 3);
        assert_near(error, 0.1787, 3);
        assert_near(plain.mean - 1.959_963_984_540_054 * error, -1.0644, 3);
        assert_near(plain.mean + 1.959_963_984_540_054 * error, -0.3638, 3);
    }

    // The formulas evaluated in Python, tau² by halving, the degrees of freedom as the sum over all pairs.
    #[test]
    fn tau_squared_and_the_mean_are_what_their_formulas_give() {
        let pooled = RandomEffects::new(0.95).pool(&bcg()).unwrap();
        let mean = Mean::at(&bcg(), pooled.tau_squared);
        assert_near(pooled.tau_squared, 0.318_068_5, 6);
        assert_near(mean.estimate, -0.726_868_5, 6);
        assert_near(mean.standard_error, 0.181_438_7, 6);
        assert_near(mean.df, 11.443_79, 4);
        assert_eq!(pooled.mean, mean.interval(0.95));
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

    #[test]
    fn the_prediction_is_at_least_as_wide_as_t_with_two_degrees_less() {
        let studies = bcg();
        let pooled = RandomEffects::new(0.95).pool(&studies).unwrap();
        let mean = Mean::at(&studies, pooled.tau_squared);
        let by_t = prediction_by_t(&mean, pooled.tau_squared, 13, 0.95);
        // 2.200985 is t with 11 degrees of freedom.
        let half = 2.200_985 * (pooled.tau_squared + mean.standard_error.powi(2)).sqrt();
        assert_near(by_t.upper - mean.estimate, half, 5);
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

    /// Q at a value of tau², as a sum over pairs: nothing in it cancels.
    fn q_by_pairs(studies: &[Study], tau_squared: f64) -> f64 {
        let weights: Vec<f64> = studies
            .iter()
            .map(|study| 1.0 / (study.variance + tau_squared))
            .collect();
        let total: f64 = weights.iter().sum();
        let mut q = 0.0;
        for first in 0..studies.len() {
            for second in first + 1..studies.len() {
                let off = studies[first].effect - studies[second].effect;
                q += weights[first] / total * weights[second] * off.powi(2);
            }
        }
        q
    }

    /// True if tau² is what makes Q as large as it is expected to be, or 0 where it never is.
    fn is_paule_and_mandel(studies: &[Study], tau_squared: f64) -> bool {
        let df = (studies.len() - 1) as f64;
        let q = q_by_pairs(studies, tau_squared);
        if tau_squared == 0.0 {
            q <= df * (1.0 + 1e-9)
        } else {
            (q / df - 1.0).abs() < 1e-6
        }
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
            assert!(
                is_paule_and_mandel(&studies, pooled.tau_squared),
                "{pooled:?}"
            );
            assert!(pooled.mean.estimate.abs() < 1e-9, "{pooled:?}");
            assert_eq!(method.mean(&studies), Some(pooled.mean));
        }
    }

    /// How many machines have which standard error, and by how much they differ.
    const UNEVEN: [(&[(usize, f64)], f64); 12] = [
        (&[(8, 0.02)], 0.05),
        (&[(20, 0.02)], 0.02),
        (&[(1, 0.01), (4, 0.058)], 0.02),
        (&[(2, 0.01), (6, 0.058)], 0.02),
        (&[(1, 0.005), (7, 0.1)], 0.05),
        (&[(2, 0.005), (6, 0.1)], 0.05),
        (&[(3, 0.003), (5, 0.2)], 0.1),
        (&[(2, 0.003), (18, 0.2)], 0.05),
        (&[(1, 0.0004), (4, 0.5)], 0.05),
        (&[(3, 0.003), (2, 0.2)], 0.05),
        (&[(5, 0.003), (3, 0.2)], 0.1),
        (&[(11, 0.003), (9, 0.2)], 0.05),
    ];

    /// How often the intervals of the mean and of the next machine hold the truth, which is 0.
    fn held_by(errors: &[(usize, f64)], tau: f64, runs: u32) -> (f64, f64) {
        let mut method = RandomEffects::new(0.95);
        let mut chance = Chance::new(1, tau.to_bits());
        let (mut of_mean, mut of_next) = (0, 0);
        for _ in 0..runs {
            let each = errors
                .iter()
                .flat_map(|(count, error)| std::iter::repeat_n(*error, *count));
            let studies: Vec<Study> = each
                .map(|error| Study {
                    effect: tau * chance.normal() + error * chance.normal(),
                    variance: error * error,
                })
                .collect();
            let next = tau * chance.normal();
            let pooled = method.pool(&studies).unwrap();
            let prediction = pooled.prediction.unwrap();
            assert!(
                prediction.lower <= pooled.mean.lower && pooled.mean.upper <= prediction.upper,
                "{pooled:?}"
            );
            of_mean += u32::from(pooled.mean.contains(0.0));
            of_next += u32::from(prediction.contains(next));
        }
        let share = |count: u32| f64::from(count) / f64::from(runs);
        (share(of_mean), share(of_next))
    }

    // Drawn from a seed, so it is the same every time. With 1500 runs of each case the lowest shares were 93.9 % (mean) and
    // 93.7 % (next machine), both where all errors are equal; weights by precision alone held the mean in 41 to 95 %.
    #[test]
    fn intervals_hold_what_they_promise_however_uneven_machines_measure() {
        for (errors, tau) in UNEVEN {
            let (mean, next) = held_by(errors, tau, 400);
            assert!(mean > 0.92 && next > 0.92, "{errors:?}: {mean} {next}");
        }
    }

    #[test]
    fn two_machines_that_claim_to_measure_without_noise_do_not_outvote_twenty() {
        let honest = (0..20).map(|number| Study {
            effect: 0.3 + 0.01 * f64::from(number % 5 - 2),
            variance: 0.03_f64.powi(2),
        });
        let exact = Study {
            effect: -0.21,
            variance: 3e-5_f64.powi(2),
        };
        let studies: Vec<Study> = honest.chain([exact; 2]).collect();
        let pooled = RandomEffects::new(0.95).pool(&studies).unwrap();
        assert!(pooled.mean.lower > 0.0, "{pooled:?}");
        assert!(pooled.tau_squared > 0.01, "{pooled:?}");
        // They are two of 22, of which the next machine may be one in twenty.
        let next = pooled.prediction.unwrap();
        assert!(next.lower < 0.0 && next.contains(0.3), "{pooled:?}");
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
            prop_assert!(is_paule_and_mandel(&studies, pooled.tau_squared), "{pooled:?}");
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
