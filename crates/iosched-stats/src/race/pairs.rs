//! Differences between the arms of a table, pair by pair, and their intervals.
//!
//! The unit of evidence is the difference of two arms' logarithms within one round: what the machine
//! does to the whole round cancels. Each pair has its own mean; its standard deviation is estimated
//! twice, from the pair alone and from all pairs together, and the two are joined as
//! [`Pairs::half_width`] says.
//!
//! A pair that runs no more keeps its interval, or gets a narrower one, as what the others show changes
//! what is believed of its noise: the interval by which an arm left is not taken back.

use crate::distribution::student_t_quantile;
use crate::interval::Interval;
use crate::sequence;

/// How sure an interval has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Precision {
    /// The probability, per pair, with which its intervals may be wrong at any time.
    pub(super) level: f64,
    /// The smallest standard deviation of a difference that we believe, on the log scale.
    pub(super) resolution: f64,
    /// The standard deviation of a difference, where it is not estimated.
    pub(super) known_sd: Option<f64>,
    /// True if the intervals must hold however often one looks; false for one look.
    pub(super) anytime: bool,
    /// False if the values of a row have nothing in common: the arms' means are compared, as Welch does.
    pub(super) paired: bool,
}

/// What a round says of an arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Merit {
    /// More is better; a logarithm.
    pub(super) value: f64,
    /// By how much the true one may differ, as its number was rounded when it was printed.
    pub(super) rounded: f64,
}

impl Merit {
    pub(super) fn exact(value: f64) -> Merit {
        Merit {
            value,
            rounded: 0.0,
        }
    }
}

/// Running sums over the rounds seen so far.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pairs {
    arms: usize,
    precision: Precision,
    sums: Vec<Sums>,
    /// Of each arm by itself.
    own: Vec<Sums>,
    /// Of `a - b`, where `a < b`.
    intervals: Vec<Option<Interval>>,
    rounds_of: Vec<usize>,
    rounds: usize,
}

/// Welford's running mean and sum of squares.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sums {
    n: usize,
    mean: f64,
    squares: f64,
    /// Of what both sides may be off by rounding.
    rounded: f64,
}

/// What all pairs together say about the noise of one difference.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pooled {
    variance: f64,
    df: f64,
}

impl Pairs {
    pub(super) fn new(arms: usize, precision: Precision) -> Pairs {
        Pairs {
            arms,
            precision,
            sums: vec![Sums::default(); arms * arms],
            own: vec![Sums::default(); arms],
            intervals: vec![None; arms * arms],
            rounds_of: vec![0; arms],
            rounds: 0,
        }
    }

    /// Takes in one round: a merit per arm, or nothing where the arm did not run.
    pub(super) fn add(&mut self, round: &[Option<Merit>]) {
        assert_eq!(round.len(), self.arms, "a round has a place for every arm");
        for (own, merit) in self.own.iter_mut().zip(round) {
            if let Some(merit) = merit {
                own.add(merit.value, merit.rounded);
            }
        }
        let present = round.iter().flatten().count();
        if present < 2 && self.precision.paired {
            return;
        }
        self.rounds += 1;
        for (a, value_a) in round.iter().enumerate() {
            let Some(value_a) = value_a else { continue };
            self.rounds_of[a] += 1;
            for (b, value_b) in round.iter().enumerate().skip(a + 1) {
                let Some(value_b) = value_b else { continue };
                self.sums[a * self.arms + b].add(
                    value_a.value - value_b.value,
                    value_a.rounded + value_b.rounded,
                );
            }
        }
        self.judge(round);
    }

    /// The intervals of all pairs, after this round.
    fn judge(&mut self, round: &[Option<Merit>]) {
        let pooled = self.pooled();
        for a in 0..self.arms {
            for b in a + 1..self.arms {
                let rounds = self.rounds(a, b);
                let (Some(mean), 2..) = (self.mean(a, b), rounds) else {
                    continue;
                };
                let half_width = self.half_width(a, b, pooled, rounds);
                let interval = Interval::around(mean, half_width);
                let ran = round[a].is_some() && round[b].is_some() || !self.precision.paired;
                let known = &mut self.intervals[a * self.arms + b];
                if ran || known.is_none_or(|known| interval.upper < known.upper) {
                    *known = Some(interval);
                }
            }
        }
    }

    /// Rounds in which both arms ran; without pairs, values of the arm that has fewer.
    pub(super) fn rounds(&self, a: usize, b: usize) -> usize {
        if self.precision.paired {
            self.sums(a, b).n
        } else {
            self.own[a].n.min(self.own[b].n)
        }
    }

    /// The mean of `a - b`, if they ever ran in the same round.
    pub(super) fn mean(&self, a: usize, b: usize) -> Option<f64> {
        if !self.precision.paired {
            let [a, b] = [self.own[a], self.own[b]];
            return (a.n > 0 && b.n > 0).then_some(a.mean - b.mean);
        }
        let sums = self.sums(a, b);
        let sign = if a < b { 1.0 } else { -1.0 };
        (sums.n > 0).then_some(sign * sums.mean)
    }

    /// The interval of `a - b`; `None` before two rounds in which both ran.
    pub(super) fn interval(&self, a: usize, b: usize) -> Option<Interval> {
        let interval = self.intervals[a.min(b) * self.arms + a.max(b)];
        interval.map(|interval| if a < b { interval } else { interval.negated() })
    }

    /// Half the width that the interval of `a - b` has after `rounds` rounds with the noise seen so
    /// far; `rounds` beyond those seen make a forecast.
    ///
    /// The pair's own standard deviation is always honest but little known in the first rounds; the
    /// one of all pairs is known much better, and honest if the arms are about equally noisy. The
    /// narrower of two intervals is taken:
    ///
    /// - own standard deviation, own degrees of freedom;
    /// - the larger of own and pooled standard deviation; pooled degrees of freedom (at most
    ///   [`POOL_LIMIT`] times the own ones) as long as the pair is not noisier than the pool, falling
    ///   to its own as its variance exceeds the pool's.
    ///
    /// The first alone keeps its promise by theorem. That the two together keep it, also with arms of
    /// very different noise, is shown by simulation (`iosched calibrate`, `results/calibration.md`).
    ///
    /// What values were rounded by may have one sign in all rounds: rounds do not make it less.
    pub(super) fn half_width(&self, a: usize, b: usize, pooled: Pooled, rounds: usize) -> f64 {
        if self.precision.paired {
            return self.by_chance(a, b, pooled, rounds) + self.sums(a, b).rounded;
        }
        // Of a forecast, each arm has gained as much as the one with fewer values.
        let gained = rounds as f64 / self.rounds(a, b) as f64;
        let (variance, df) = self.welch(a, b, gained);
        let critical = student_t_quantile(1.0 - self.precision.level / 2.0, df);
        critical * variance.sqrt() + self.own[a].rounded + self.own[b].rounded
    }

    /// Variance and degrees of freedom of a difference of two means whose values have nothing in common, were there so
    /// many times as many values. B. L. Welch, *The generalization of "Student's" problem*, Biometrika 34 (1947); the
    /// degrees of freedom are rounded down.
    fn welch(&self, a: usize, b: usize, gained: f64) -> (f64, f64) {
        let floor = self.precision.resolution.powi(2) / 2.0;
        let parts = [a, b].map(|arm| {
            let n = self.own[arm].n as f64 * gained;
            (self.own[arm].variance().max(floor) / n, n - 1.0)
        });
        let variance = parts[0].0 + parts[1].0;
        let spread: f64 = parts.iter().map(|(part, df)| part.powi(2) / df).sum();
        (variance, (variance.powi(2) / spread).floor().max(1.0))
    }

    /// The part of the half width that comes from noise.
    fn by_chance(&self, a: usize, b: usize, pooled: Pooled, rounds: usize) -> f64 {
        let (sums, precision) = (self.sums(a, b), self.precision);
        let floor = precision.resolution.powi(2);
        let own_variance = sums.variance().max(floor);
        let own_df = (rounds - 1) as f64;
        let width = |variance: f64, df: f64| {
            let critical = if precision.anytime {
                sequence::critical_t_with(rounds, df, precision.level)
            } else {
                student_t_quantile(1.0 - precision.level / 2.0, df)
            };
            critical * (variance / rounds as f64).sqrt()
        };
        if let Some(known_sd) = precision.known_sd {
            return width(known_sd.powi(2), KNOWN_DF);
        }
        let own = width(own_variance, own_df);
        if !precision.anytime {
            return own;
        }
        let pooled_variance = pooled.variance.max(floor);
        let pooled_df = (pooled.df * own_df / (sums.n - 1).max(1) as f64).min(POOL_LIMIT * own_df);
        let excess = (own_variance / pooled_variance).max(1.0);
        let df = own_df + (pooled_df - own_df).max(0.0) / excess.powi(POOL_RETREAT);
        own.min(width(own_variance.max(pooled_variance), df))
    }

    /// The standard deviation of one difference between `a` and `b`, as used for forecasts.
    pub(super) fn sd(&self, a: usize, b: usize) -> f64 {
        let own = if self.precision.paired {
            self.sums(a, b).variance()
        } else {
            self.own[a].variance() + self.own[b].variance()
        };
        let own = own.sqrt();
        let sd = self.precision.known_sd.unwrap_or(own);
        sd.max(self.precision.resolution)
    }

    /// The degrees of freedom of [`sd`](Pairs::sd).
    pub(super) fn df(&self, a: usize, b: usize) -> f64 {
        let own = if self.precision.paired {
            self.sums(a, b).n.saturating_sub(1) as f64
        } else {
            self.welch(a, b, 1.0).1
        };
        self.precision.known_sd.map_or(own, |_| KNOWN_DF)
    }

    /// The noise of a difference, over all pairs: the mean of their variances, weighted by their
    /// degrees of freedom. In a complete table this is twice the residual mean square of the two-way
    /// analysis of variance (rounds and arms), and has its degrees of freedom.
    pub(super) fn pooled(&self) -> Pooled {
        let (mut squares, mut weights) = (0.0, 0.0);
        for sums in self.sums.iter().filter(|sums| sums.n >= 2) {
            squares += sums.squares;
            weights += (sums.n - 1) as f64;
        }
        let values: usize = self.rounds_of.iter().map(|n| n.saturating_sub(1)).sum();
        Pooled {
            variance: if weights > 0.0 {
                squares / weights
            } else {
                0.0
            },
            df: (values as f64 - self.rounds.saturating_sub(1) as f64).max(0.0),
        }
    }

    fn sums(&self, a: usize, b: usize) -> &Sums {
        assert_ne!(a, b, "an arm does not differ from itself");
        &self.sums[a.min(b) * self.arms + a.max(b)]
    }
}

/// Degrees of freedom of a standard deviation that is known: Student's t is the normal distribution then.
const KNOWN_DF: f64 = 1e6;

/// The pool is trusted with at most this many times the degrees of freedom of the pair itself: with
/// more, many quiet arms would vouch for a noisy one.
const POOL_LIMIT: f64 = 3.0;

/// Degrees of freedom fall with this power of (own variance / pooled variance), from the pool's to
/// the pair's own.
const POOL_RETREAT: i32 = 2;

impl Sums {
    fn add(&mut self, value: f64, rounded: f64) {
        self.n += 1;
        let before = value - self.mean;
        self.mean += before / self.n as f64;
        self.rounded += (rounded - self.rounded) / self.n as f64;
        self.squares += before * (value - self.mean);
    }

    fn variance(&self) -> f64 {
        if self.n < 2 {
            return 0.0;
        }
        self.squares / (self.n - 1) as f64
    }
}
