//! What looks odd in a load's table of trials. Remarks only: no value is ever removed because of them.
//!
//! The table (logarithms) is taken apart into a level per round, a level per arm, and what is left of
//! each trial, by least squares. Outliers are found one after the other, the farthest first, by its
//! residual studentised without itself (R. D. Cook, S. Weisberg, *Residuals and Influence in Regression*,
//! 1982), and set aside for the rest of this module's work, so that one does not hide the next.
//!
//! What all arms share in a round (drift, a cold start) is harmless, because the race compares within rounds, and is not
//! remarked on. What an arm does by itself over the rounds breaks the assumption that rounds repeat each other, and
//! [`Remark::weakens`] the verdict.
//!
//! Each threshold is set so that a table of independent normal noise gives a remark of its kind in about
//! one of a hundred tunes (the tests count). Trends: H. B. Mann, *Nonparametric tests against trend*
//! (1945), M. G. Kendall; their size: P. K. Sen (1968), H. Theil (1950). Left out: tests of normality,
//! which are mute when rounds are few and loud when they do not matter.

mod series;

use serde::Serialize;

use self::series::{autocorrelation, mean, trend, two_groups};
use crate::distribution::student_t_quantile;
use crate::summary::median;

/// Something that looks odd.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Remark {
    /// One trial is far from what its arm and its round make one expect.
    Outlier {
        /// Which arm.
        arm: usize,
        /// Which round, from 0.
        round: usize,
        /// The trial / what its arm's and its round's other trials make one expect.
        ratio: f64,
    },
    /// An arm becomes slower or faster than the others over the rounds: its ratio depends on when one
    /// stops.
    OwnTrend {
        /// Which arm.
        arm: usize,
        /// Change from one round to the next, as a ratio.
        per_round: f64,
    },
    /// An arm's trials remember the one before: rounds are not independent, intervals are too narrow.
    Autocorrelated {
        /// Which arm.
        arm: usize,
        /// Correlation of a round with the next.
        coefficient: f64,
    },
    /// An arm's trials fall into two groups, as if it had two states.
    TwoGroups {
        /// Which arm.
        arm: usize,
        /// Level of the lower group, relative to the arm's median.
        low: f64,
        /// Level of the higher group, relative to the arm's median.
        high: f64,
        /// Share of the trials in the higher group.
        high_share: f64,
    },
}

impl Remark {
    /// True if the race's intervals may be too narrow where this is so.
    pub fn weakens(&self) -> bool {
        matches!(
            self,
            Remark::OwnTrend { .. } | Remark::Autocorrelated { .. } | Remark::TwoGroups { .. }
        )
    }
}

/// Looks at `rounds[round][arm]` of one load, positive values of one metric.
pub fn remarks(rounds: &[Vec<Option<f64>>]) -> Vec<Remark> {
    let fit = Fit::of(rounds);
    let mut remarks = fit.outliers();
    remarks.extend(fit.of_arms());
    remarks
}

/// Fewest rounds for a remark on single values.
const FEW: usize = 5;

/// Nothing smaller is worth a remark: 2 %.
const WORTH: f64 = 0.02;

/// Probability of a remark where there is nothing to remark, per table and kind.
const FALSE_ALARM: f64 = 0.01;

/// At most one of this many values is taken for an outlier: more are not out of the ordinary.
const ORDINARY: usize = 8;

/// A table taken apart: `log value = round level + arm level + residual`, over the rounds in which at
/// least two arms ran.
struct Fit {
    arms: usize,
    logs: Vec<Vec<Option<f64>>>,
    residuals: Vec<Vec<Option<f64>>>,
    round_levels: Vec<f64>,
    /// Where each round stood in the table.
    places: Vec<usize>,
    /// (round, arm) of the values that took no part in the levels.
    outliers: Vec<(usize, usize)>,
}

impl Fit {
    fn of(rounds: &[Vec<Option<f64>>]) -> Fit {
        let (places, logs): (Vec<usize>, Vec<Vec<Option<f64>>>) = rounds
            .iter()
            .enumerate()
            .filter(|(_, round)| round.iter().flatten().count() >= 2)
            .map(|(place, round)| {
                let log = |value: &Option<f64>| value.map(f64::ln);
                (place, round.iter().map(log).collect())
            })
            .unzip();
        let mut fit = Fit {
            arms: logs.iter().map(Vec::len).max().unwrap_or(0),
            residuals: logs.clone(),
            round_levels: vec![0.0; logs.len()],
            logs,
            places,
            outliers: Vec::new(),
        };
        fit.adjust();
        while let Some(outlier) = fit.farthest() {
            fit.outliers.push(outlier);
            fit.adjust();
        }
        fit
    }

    /// Least squares by sweeping rows and columns in turn; a dozen sweeps settle a table of any size
    /// that a tune makes.
    fn adjust(&mut self) {
        let mut arm_levels = vec![0.0; self.arms];
        self.round_levels.fill(0.0);
        for _ in 0..12 {
            for (round, level) in self.round_levels.iter_mut().enumerate() {
                let left = self.logs[round].iter().zip(&arm_levels).enumerate();
                let left = left.filter(|&(arm, _)| !self.outliers.contains(&(round, arm)));
                *level = mean(left.filter_map(|(_, (log, arm))| Some((*log)? - arm)));
            }
            for (arm, level) in arm_levels.iter_mut().enumerate() {
                let left = self.logs.iter().zip(&self.round_levels).enumerate();
                let left = left.filter(|&(round, _)| !self.outliers.contains(&(round, arm)));
                *level = mean(left.filter_map(|(_, (logs, round))| Some(logs[arm]? - round)));
            }
        }
        for (round, (logs, residuals)) in self.logs.iter().zip(&mut self.residuals).enumerate() {
            for (arm, (log, residual)) in logs.iter().zip(residuals).enumerate() {
                *residual = log.map(|log| log - self.round_levels[round] - arm_levels[arm]);
            }
        }
    }

    /// The value farthest out, if chance does not explain it.
    fn farthest(&self) -> Option<(usize, usize)> {
        if self.logs.len() < FEW {
            return None;
        }
        let values = self.logs.iter().flatten().flatten().count() - self.outliers.len();
        let levels = self.logs.len() + self.arms - 1;
        if values < levels + 3 || values < ORDINARY * self.outliers.len() {
            return None;
        }
        let df = (values - levels) as f64;
        let mut squares = 0.0;
        let mut farthest: Option<(f64, usize, usize)> = None;
        for (round, residuals) in self.residuals.iter().enumerate() {
            for (arm, residual) in residuals.iter().enumerate() {
                let Some(residual) = *residual else { continue };
                if self.outliers.contains(&(round, arm)) {
                    continue;
                }
                squares += residual * residual;
                // Of two arms each mirrors the other: the one that left its own level is out.
                let mirrored =
                    self.arms == 2 && self.stray(round, arm) < self.stray(round, 1 - arm);
                if !mirrored && farthest.is_none_or(|(most, ..)| residual.abs() > most) {
                    farthest = Some((residual.abs(), round, arm));
                }
            }
        }
        let (residual, round, arm) = farthest?;
        // Each residual has the share df / values of the noise's variance, on average.
        let own = residual * residual * values as f64 / df;
        let others = (squares - own).max(0.0) / (df - 1.0);
        let limit = student_t_quantile(1.0 - FALSE_ALARM / (2 * values) as f64, df - 1.0);
        let deviation = residual * values as f64 / df;
        (own > limit * limit * others && deviation > WORTH).then_some((round, arm))
    }

    /// How far a trial is from the median of its arm's trials, whatever its round.
    fn stray(&self, round: usize, arm: usize) -> f64 {
        let column: Vec<f64> = self.logs.iter().filter_map(|logs| logs[arm]).collect();
        self.logs[round][arm].map_or(0.0, |log| (log - median(&column)).abs())
    }

    /// An arm in the order of the rounds, without outliers: its distance to the middle one of the
    /// others. The median, and not the round's level, so that one odd arm does not make the others odd.
    fn series(&self, arm: usize) -> Vec<f64> {
        let mut series = Vec::with_capacity(self.residuals.len());
        for (round, residuals) in self.residuals.iter().enumerate() {
            let kept = |other: usize| {
                let residual = residuals[other]?;
                (!self.outliers.contains(&(round, other))).then_some(residual)
            };
            let others: Vec<f64> = (0..self.arms)
                .filter(|&other| other != arm)
                .filter_map(kept)
                .collect();
            if let Some(own) = kept(arm)
                && !others.is_empty()
            {
                series.push(own - median(&others));
            }
        }
        series
    }

    /// The arms that can be looked at by themselves. Of two arms each mirrors the other, so that one
    /// speaks for both.
    fn own_arms(&self) -> std::ops::Range<usize> {
        if self.arms == 2 { 1..2 } else { 0..self.arms }
    }

    fn outliers(&self) -> Vec<Remark> {
        let mut outliers = self.outliers.clone();
        outliers.sort_unstable();
        outliers
            .into_iter()
            .map(|(round, arm)| Remark::Outlier {
                arm,
                round: self.places[round],
                ratio: self.residuals[round][arm].unwrap_or(0.0).exp(),
            })
            .collect()
    }

    /// Remarks on the order and the grouping of each arm's own values.
    fn of_arms(&self) -> Vec<Remark> {
        let arms = self.own_arms();
        let false_alarm = FALSE_ALARM / arms.len().max(1) as f64;
        let mut remarks = Vec::new();
        for arm in arms {
            let series = self.series(arm);
            if let Some(slope) = trend(&series, false_alarm) {
                remarks.push(Remark::OwnTrend {
                    arm,
                    per_round: slope.exp(),
                });
            } else if let Some(coefficient) = autocorrelation(&series, false_alarm) {
                remarks.push(Remark::Autocorrelated { arm, coefficient });
            }
            if let Some((low, high, high_share)) = two_groups(&series)
                && high - low > WORTH
            {
                let middle = median(&series);
                remarks.push(Remark::TwoGroups {
                    arm,
                    low: (low - middle).exp(),
                    high: (high - middle).exp(),
                    high_share,
                });
            }
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    /// A table of normal noise of 3 %, changed by `log(arm, round, z)`.
    fn table(
        arms: usize,
        rounds: usize,
        seed: u64,
        mut log: impl FnMut(usize, usize, f64) -> f64,
    ) -> Vec<Vec<Option<f64>>> {
        let mut chance = Chance::new(seed, 0);
        (0..rounds)
            .map(|round| {
                (0..arms)
                    .map(|arm| Some((5.0 + log(arm, round, 0.03 * chance.normal())).exp()))
                    .collect()
            })
            .collect()
    }

    /// In how many of `tables` a remark of this kind is made.
    fn count(
        tables: u64,
        make: impl Fn(u64) -> Vec<Vec<Option<f64>>>,
        kind: impl Fn(&Remark) -> bool,
    ) -> usize {
        (0..tables)
            .filter(|&seed| remarks(&make(seed)).iter().any(&kind))
            .count()
    }

    #[test]
    fn plain_noise_is_hardly_ever_remarked_on() {
        for (arms, rounds) in [(2, 30), (4, 5), (4, 10), (4, 30), (8, 12)] {
            let any = count(200, |seed| table(arms, rounds, seed, |_, _, z| z), |_| true);
            assert!(any <= 14, "{any} of 200 with {arms} arms, {rounds} rounds");
        }
    }

    #[test]
    fn a_single_slow_trial_is_found_and_named() {
        for arms in [2, 4] {
            let slow = table(arms, 12, 3, |arm, round, z| {
                if (arm, round) == (1, 7) { z - 0.7 } else { z }
            });
            let found = remarks(&slow);
            assert_eq!(found.len(), 1, "{found:?}");
            let Remark::Outlier { arm, round, ratio } = found[0] else {
                panic!("{found:?}");
            };
            assert_eq!((arm, round), (1, 7));
            assert!((ratio.ln() + 0.7).abs() < 0.2, "{ratio}");
        }
    }

    #[test]
    fn what_all_arms_share_is_not_remarked_on_and_a_drift_of_an_arm_is() {
        let cold = table(4, 10, 1, |_, round, z| if round == 0 { z - 0.5 } else { z });
        let slower = table(4, 14, 2, |_, round, z| z - 0.02 * round as f64);
        for shared in [cold, slower] {
            assert_eq!(remarks(&shared), []);
        }
        let own = |arm: usize, round: usize, z: f64| {
            if arm == 2 { z + 0.02 * round as f64 } else { z }
        };
        let found = remarks(&table(4, 14, 2, own));
        let named = |remark: &&Remark| matches!(remark, Remark::OwnTrend { arm: 2, .. });
        assert!(found.iter().find(named).unwrap().weakens(), "{found:?}");
    }

    #[test]
    fn two_states_of_an_arm_are_found() {
        let two = table(4, 24, 5, |arm, round, z| {
            if arm == 3 && (round * 7) % 5 < 2 {
                z - 0.4
            } else {
                z
            }
        });
        let found = remarks(&two);
        let groups = found.iter().find_map(|remark| match *remark {
            Remark::TwoGroups {
                arm,
                low,
                high,
                high_share,
            } => Some((arm, high / low, high_share)),
            _ => None,
        });
        let (arm, ratio, share) = groups.expect("two groups");
        assert_eq!(arm, 3);
        assert!((ratio.ln() - 0.4).abs() < 0.1, "{ratio}");
        assert!((0.5..0.7).contains(&share), "{share}");
    }

    #[test]
    fn an_arm_with_memory_is_found_in_a_long_tune() {
        let moody = |seed| {
            let mut mood = 0.0;
            table(4, 30, seed, move |arm, _, z| {
                if arm == 1 {
                    mood = 0.8 * mood + 2.0 * z;
                    mood
                } else {
                    z
                }
            })
        };
        let named = |remark: &Remark| {
            matches!(
                remark,
                Remark::Autocorrelated { arm: 1, .. } | Remark::OwnTrend { arm: 1, .. }
            )
        };
        let found = count(50, moody, named);
        assert!(found >= 35, "{found} of 50");
    }

    #[test]
    fn tables_with_gaps_and_constant_tables_are_no_trouble() {
        assert_eq!(remarks(&[]), []);
        assert_eq!(remarks(&vec![vec![Some(5.0), Some(5.0)]; 20]), []);
        let mut gaps = table(3, 15, 4, |_, _, z| z);
        for round in &mut gaps[6..] {
            round[2] = None;
        }
        gaps[3] = vec![None, Some(140.0), None];
        assert_eq!(remarks(&gaps), []);
    }
}
