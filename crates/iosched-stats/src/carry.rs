//! Carry-over: does a trial depend on the arm that ran before it?
//!
//! A trial's logarithm is taken as the level of its round, plus its arm's effect, plus what the arm before it left
//! behind, plus noise (a cross-over design with first-order carry-over: B. Jones and M. Kenward, *Design and Analysis of
//! Cross-Over Trials*, chapter 1).
//!
//! For each arm there is a column: 1 for the trials that ran after it, 0 for the others. Rounds and arms are taken out of
//! the column and of the logarithms. What is left of both is fitted by least squares.

use crate::distribution::student_t_quantile;
use crate::interval::Interval;

/// A trial that ran after another one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Follower {
    /// Its round.
    pub round: u32,
    /// Its arm.
    pub arm: usize,
    /// The arm of the trial before it.
    pub after: usize,
    /// The logarithm of what was measured.
    pub log: f64,
}

/// The smallest standard deviation of a trial that we believe: 0.1 %, as between arms.
const RESOLUTION: f64 = 0.001;

/// Nobody measures so many arms; a record of strangers may.
const MOST_ARMS: usize = 64;

/// What is left of a column, as a part of its length, below which it says nothing that others do not say.
const NOTHING_LEFT: f64 = 1e-6;

/// For each arm: what is measured after it / what is measured after the others, each with this confidence. `None` where
/// the order of the trials does not tell.
///
/// Of more than `MOST_ARMS` it tells of none: it takes time with the square of their number.
pub fn carry_over(trials: &[Follower], arms: usize, confidence: f64) -> Vec<Option<Interval>> {
    if arms > MOST_ARMS {
        return vec![None; arms];
    }
    let rounds = Rounds::of(trials);
    let indicator = |is: &dyn Fn(&Follower) -> bool| -> Vec<f64> {
        let ones = trials.iter().map(|trial| f64::from(u8::from(is(trial))));
        rounds.centred(ones.collect())
    };
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for arm in 0..arms {
        basis.extend(unit(&basis, indicator(&|trial| trial.arm == arm)));
    }
    let logs = trials.iter().map(|trial| trial.log).collect();
    let values = left_over(&basis, rounds.centred(logs));
    let parameters = rounds.count + basis.len() + 1;
    let effect = |arm: usize| {
        let column = left_over(&basis, indicator(&|trial| trial.after == arm));
        let length = dot(&column, &column);
        let df = trials.len().checked_sub(parameters).filter(|&df| df > 0)? as f64;
        if length < NOTHING_LEFT * trials.len() as f64 {
            return None;
        }
        let effect = dot(&column, &values) / length;
        let squares = (dot(&values, &values) - effect * effect * length).max(0.0);
        let sd = (squares / df).sqrt().max(RESOLUTION);
        let quantile = student_t_quantile(0.5 + confidence / 2.0, df);
        Some(Interval::around(effect, quantile * sd / length.sqrt()).exp())
    };
    (0..arms).map(effect).collect()
}

/// Which trials share a round.
struct Rounds {
    /// For each trial the number of its round, counted from 0 without gaps.
    of: Vec<usize>,
    count: usize,
}

impl Rounds {
    fn of(trials: &[Follower]) -> Rounds {
        let mut seen: Vec<u32> = trials.iter().map(|trial| trial.round).collect();
        seen.sort_unstable();
        seen.dedup();
        let place = |trial: &Follower| seen.partition_point(|&round| round < trial.round);
        Rounds {
            of: trials.iter().map(place).collect(),
            count: seen.len(),
        }
    }

    /// Each value without the mean of its round.
    fn centred(&self, mut values: Vec<f64>) -> Vec<f64> {
        let mut sums = vec![(0.0, 0.0); self.count];
        for (&round, value) in self.of.iter().zip(&values) {
            sums[round].0 += value;
            sums[round].1 += 1.0;
        }
        for (&round, value) in self.of.iter().zip(&mut values) {
            *value -= sums[round].0 / sums[round].1;
        }
        values
    }
}

/// What of a column is not in the span of a basis of unit vectors.
fn left_over(basis: &[Vec<f64>], mut column: Vec<f64>) -> Vec<f64> {
    for vector in basis {
        let along = dot(vector, &column);
        for (value, part) in column.iter_mut().zip(vector) {
            *value -= along * part;
        }
    }
    column
}

/// The same, one long; none if nothing is left.
fn unit(basis: &[Vec<f64>], column: Vec<f64>) -> Option<Vec<f64>> {
    let mut column = left_over(basis, column);
    let length = dot(&column, &column);
    if length < NOTHING_LEFT * column.len() as f64 {
        return None;
    }
    for value in &mut column {
        *value /= length.sqrt();
    }
    Some(column)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    /// Rounds of arms in drawn orders, each second one the reverse of the one before it: the first arm is 10 % slower,
    /// and what runs after it so many times as fast.
    fn trials(arms: usize, rounds: u32, left_behind: f64, seed: u64) -> Vec<Follower> {
        let mut chance = Chance::new(seed, 0);
        let (mut order, mut before): (Vec<usize>, _) = ((0..arms).collect(), None);
        let mut trials = Vec::new();
        for round in 0..rounds {
            if round % 2 == 1 {
                order.reverse();
            } else {
                chance.shuffle(&mut order);
            }
            for &arm in &order {
                let own = if arm == 0 { 0.9f64.ln() } else { 0.0 };
                let carried = if before == Some(0) {
                    left_behind.ln()
                } else {
                    0.0
                };
                let log = own + carried + 0.02 * chance.normal();
                trials.extend(before.map(|after| Follower {
                    round,
                    arm,
                    after,
                    log,
                }));
                before = Some(arm);
            }
        }
        trials
    }

    #[test]
    fn what_an_arm_leaves_behind_is_found_and_what_is_not_there_is_not() {
        for arms in [2, 4] {
            let count = |left_behind, is: fn(Interval) -> bool| {
                let found = |seed| carry_over(&trials(arms, 16, left_behind, seed), arms, 0.95)[0];
                (0..200).filter(|&seed| found(seed).is_some_and(is)).count()
            };
            let found = count(0.7, |ratio| ratio.upper < 1.0 && ratio.contains(0.7));
            let false_alarms = count(1.0, |ratio| !ratio.contains(1.0));
            assert!(
                found >= 180 && false_alarms <= 20,
                "{arms} arms: {found}, {false_alarms}"
            );
        }
    }

    #[test]
    fn an_order_in_which_each_trial_of_a_round_follows_the_same_arm_does_not_tell() {
        let follower = |round, arm, after| Follower {
            round,
            arm,
            after,
            log: arm as f64,
        };
        let trials: Vec<Follower> = (0..6)
            .flat_map(|round| [follower(round, 0, 0), follower(round, 1, 0)])
            .collect();
        assert_eq!(carry_over(&trials, 2, 0.95), [None, None]);
        assert_eq!(carry_over(&[], 2, 0.95), [None, None]);
    }
}
