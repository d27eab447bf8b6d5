//! A race between arms: who leaves, who wins, when to stop. A pure fold over the table of trials.
//!
//! # The table
//! For each load a list of rounds; a round has one value per arm, or nothing where the arm had left, was
//! not run, or its trial was void. [`Race::judge`] reads the whole table from its first round, so the
//! judgement after a resumed run is the judgement of one uninterrupted run; a [`Judge`] says the same
//! while the table grows, and reads each round once.
//!
//! # The rule
//! Let `a/b` be the true ratio of two arms in a load ("better" is up, whatever the metric), with its
//! confidence sequence [`crate::sequence`] on the log scale.
//!
//! - *Surely better*: the interval of `a/b` lies above 1. *Surely within the margin*: it lies inside
//!   `1/margin … margin`.
//! - An arm **leaves** when a remaining arm is surely better than it, and the two are not surely within
//!   the margin. It need not be worse by more than the margin: what is surely not the best cannot win.
//! - An arm leaves when it surely misses a requirement. An arm that may yet miss one drives nobody out.
//! - A **baseline that has left** for being worse cannot win, but runs on as a measure, until every
//!   remaining arm is surely better than it.
//! - **Winner**: one arm remains. It is then surely better than every arm that left by comparison
//!   (directly, or through another that left later), and always directly than a baseline that did.
//! - **Equal**: several remain and each two of them are surely within the margin of one another. A proven
//!   difference smaller than the margin is no victory. If a baseline has left for being worse, at least
//!   one of them is directly and surely better than it.
//! - **Near the best**: several remain, and one of them, the baseline or one surely better than it, is surely not
//!   worse than any other by more than the margin. It ends the race where the others can be worse by a few
//!   margins only, or where the chance to decide within the budget has become too small.
//! - **Undecided**: the budget is spent. Until then each round narrows [what the arm to keep can
//!   cost](Contest::most_cost).
//!
//! So the ratio to the baseline that is printed beside an answer always proves it: that an arm beat another
//! one which had beaten the baseline is reason to drop the baseline, and no reason to name the arm. What
//! must be shown of an arm to be used is in [`Contest::choice`].
//!
//! A true difference `d` other than 0 ends in one of the first two as soon as half the interval is
//! narrower than the larger of `|d|` and `margin - |d|`, which is never below half the margin: with
//! rounds enough, the rule always ends.
//!
//! # What is promised
//! Each pair's sequence has the level `(1 - confidence) / ((arms - 1) × families)`; a family is one load's
//! objective, one requirement, or the objective over all loads. So with probability `confidence` all
//! the sequences that involve *one given arm* hold for ever, in all families. Take the baseline: all
//! printed ratios hold at once. Take the truly best arm: it never leaves, no other arm is named winner,
//! and no arm is called equal that is worse by more than the margin. If several are truly best, take any
//! of them: it can neither be beaten, nor beat the other one, so nobody is named winner.
//! (The union is over `arms - 1` pairs, not over all of them.) That a beaten baseline runs on changes none of
//! this: each pair's sequence holds for whatever rounds both arms run in, as long as who runs is decided
//! by earlier rounds.
//!
//! Reference for races that drop the losers: O. Maron and A. Moore, *Hoeffding races* (NIPS 1993);
//! E. Even-Dar, S. Mannor, Y. Mansour, *Action elimination and stopping conditions*, JMLR 7 (2006).

mod contest;
mod judge;
mod pairs;

use serde::{Deserialize, Serialize};

use crate::interval::Interval;

use contest::sign;
pub use judge::Judge;
use pairs::Merit;

/// Which direction of a metric is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Throughput, fairness.
    Higher,
    /// Latency, CPU time per I/O.
    Lower,
}

/// What two arms are compared by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// `a / b`.
    #[default]
    Ratio,
    /// `a - b`: of a metric that can be 0.
    Difference {
        /// What the metric is like: a difference of `size` weighs as much as a logarithm of 1.
        size: f64,
    },
}

impl Scale {
    /// What two equal arms have.
    pub fn equal(self) -> f64 {
        match self {
            Scale::Ratio => 1.0,
            Scale::Difference { .. } => 0.0,
        }
    }

    /// A number of this scale as the ratio that weighs as much.
    pub fn relative(self, number: f64) -> f64 {
        match self {
            Scale::Ratio => number,
            Scale::Difference { size } => 1.0 + number / size,
        }
    }

    /// From a difference of merits to one of this scale.
    fn number(self, merit: f64) -> f64 {
        match self {
            Scale::Ratio => merit.exp(),
            Scale::Difference { size } => merit * size,
        }
    }

    /// True of ratios.
    pub fn is_ratio(&self) -> bool {
        *self == Scale::Ratio
    }
}

/// How the number of rounds is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// As many as the answer needs, within the budget.
    Sequential,
    /// The classical one: every arm in this many rounds, one look at the end.
    FixedRounds(usize),
    /// At most so many values of each arm, which have no rounds in common: a row is no pair. One look at the end.
    Unpaired(usize),
}

/// What has to be known before the race ends, where there are several loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// The verdict over all loads; the loads' own verdicts are as they are then.
    Overall,
    /// The verdict over all loads and that of each.
    EveryLoad,
}

/// The rules of a race.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Ratio up to which two arms count as equal: 1.02 is 2 %.
    pub margin: f64,
    /// Probability with which everything that is said is right.
    pub confidence: f64,
    /// How the number of rounds is chosen.
    pub design: Design,
    /// No arm leaves and nothing is decided before this many rounds.
    pub min_rounds: usize,
    /// After this many rounds the race ends, decided or not.
    pub budget_rounds: usize,
    /// A race of which the best is known but for the margin ends early if the chance that it is decided within the budget
    /// falls below this; 0 lets it run to the end.
    pub hopeless: f64,
    /// The smallest relative standard deviation of a difference that is believed: 0.001 is 0.1 %.
    pub resolution: f64,
    /// The standard deviation of the logarithm of a trial, for an oracle that knows it: what a race would take that need
    /// not estimate it. `None` for everybody else.
    pub known_noise: Option<f64>,
    /// What has to be known before the race ends.
    pub until: Until,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            margin: 1.02,
            confidence: 0.95,
            design: Design::Sequential,
            min_rounds: 3,
            budget_rounds: 30,
            hopeless: 0.08,    // see docs/statistics.md
            resolution: 0.001, // below it, nothing that runs on a shared machine repeats itself
            known_noise: None,
            until: Until::Overall,
        }
    }
}

/// A race: arms, loads, everything measured so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Race {
    /// How many arms started.
    pub arms: usize,
    /// The arm that ratios are taken to, and that stays among equals.
    pub baseline: usize,
    /// What was measured.
    pub loads: Vec<Load>,
    /// Arms that the caller took out, because they always fail.
    pub withdrawn: Vec<usize>,
    /// The rules.
    pub rules: Rules,
}

/// One load's measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The load's part in the verdict over all loads, relative to the others'.
    pub weight: f64,
    /// Which direction of the objective is good.
    pub better: Better,
    /// What its arms are compared by.
    pub scale: Scale,
    /// The objective: `rounds[round][arm]`.
    pub rounds: Vec<Vec<Option<f64>>>,
    /// The unit of the last digit that its values were rounded to; none where they are measured.
    pub unit: Option<f64>,
    /// What an arm must fulfil besides.
    pub requirements: Vec<Requirement>,
}

impl Load {
    /// A load of weight 1 without requirements.
    pub fn new(better: Better, rounds: Vec<Vec<Option<f64>>>) -> Load {
        Load {
            weight: 1.0,
            better,
            scale: Scale::Ratio,
            rounds,
            unit: None,
            requirements: Vec::new(),
        }
    }

    /// The merit of a value: more is better.
    fn merit(&self, value: f64) -> Merit {
        let half = self.unit.map_or(0.0, |unit| unit / 2.0);
        let (merit, rounded) = match self.scale {
            Scale::Ratio => (value.ln(), -(1.0 - half / value).max(0.0).ln()),
            Scale::Difference { size } => (value / size, half / size),
        };
        Merit {
            value: sign(self.better) * merit,
            rounded,
        }
    }

    /// Two printed units are never told to be a difference, whatever the margin.
    fn margin(&self, rules: &Rules) -> f64 {
        let margin = rules.margin.ln();
        match (self.scale, self.unit) {
            (Scale::Difference { size }, Some(unit)) => margin.max(2.0 * unit / size),
            _ => margin,
        }
    }
}

/// A metric that must keep a ratio to the baseline's.
#[derive(Debug, Clone, PartialEq)]
pub struct Requirement {
    /// The ratio to keep.
    pub bound: Bound,
    /// The metric: `rounds[round][arm]`, in step with the load's.
    pub rounds: Vec<Vec<Option<f64>>>,
}

/// One side of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// `throughput>=0.95`
    AtLeast(f64),
    /// `p99<=1.1`
    AtMost(f64),
}

/// Where a race stands after its last round.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Standing {
    /// Each load by itself.
    pub loads: Vec<Contest>,
    /// The weighted mean of the loads' log-ratios, where there are several loads.
    pub overall: Option<Contest>,
    /// The arms of the next round, per load; `None` when the race is over.
    pub next: Option<Vec<Vec<usize>>>,
}

impl Standing {
    /// The verdict that the race is about: over all loads, or that of the only load.
    pub fn decisive(&self) -> &Contest {
        self.overall.as_ref().unwrap_or(&self.loads[0])
    }
}

/// One question of the race: a load's objective, or the objective over all loads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contest {
    /// Rounds seen.
    pub rounds: usize,
    /// Direction of the metric; over all loads a ratio above 1 is always the better one.
    pub better: Better,
    /// What its arms are compared by: all that is called a ratio of a metric is one of this scale.
    #[serde(skip_serializing_if = "Scale::is_ratio")]
    pub scale: Scale,
    /// One entry per arm.
    pub arms: Vec<ArmStanding>,
    /// The remaining arm with the best estimate.
    pub leader: Option<usize>,
    /// What is known.
    pub verdict: Verdict,
    /// Metric of `a` / metric of `b`: `pairs[a][b]`; `None` on the diagonal and before two rounds.
    pairs: Vec<Vec<Option<Interval>>>,
}

/// An arm in a contest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ArmStanding {
    /// Rounds in which it was measured.
    pub rounds: usize,
    /// Its metric / the baseline's metric, over the rounds that both ran; exactly 1 for the baseline.
    pub to_baseline: Option<Interval>,
    /// In or out.
    pub place: ArmState,
}

/// In or out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArmState {
    /// Still a candidate.
    Remaining,
    /// Surely worse than another one.
    Worse {
        /// Number of rounds after which it left.
        after: usize,
        /// The better one.
        than: usize,
        /// This arm's metric / the better one's metric, when it left.
        ratio: Interval,
    },
    /// Surely missing a requirement.
    Disqualified {
        /// Number of rounds after which it left.
        after: usize,
        /// Which of the load's requirements (over all loads: counted through).
        requirement: usize,
    },
    /// Taken out by the caller.
    Withdrawn,
}

/// What is known.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// More rounds, please.
    Open,
    /// One arm is surely better than every other.
    Winner {
        /// The arm, by its place among all.
        arm: usize,
    },
    /// These arms are surely within the margin of one another, and every other arm is worse.
    Equal {
        /// The arms, by their places among all.
        arms: Vec<usize>,
        /// Largest ratio between two of them that is still possible.
        within: f64,
    },
    /// Which is best is not known, but none is better than these by more than the margin.
    NearBest {
        /// Which: the baseline, or what is surely better than it.
        arms: Vec<usize>,
        /// All that remain.
        among: Vec<usize>,
        /// Largest ratio by which the best may be better than one of `arms`.
        within: f64,
    },
    /// Not told apart.
    Undecided {
        /// The arms, by their places among all.
        arms: Vec<usize>,
        /// Largest ratio between two of them that is still possible; infinite if nothing is known.
        within: f64,
        /// Rounds, from the first, that a decision would take if the estimates are right; `None` if
        /// beyond a million.
        rounds_needed: Option<usize>,
    },
    /// All other arms were withdrawn by the caller: there is nothing to compare with.
    Alone {
        /// The arm, by its place among all.
        arm: usize,
    },
    /// No arm is left.
    Nobody,
}

impl Contest {
    /// Metric of `a` / metric of `b`, or by what the scale is, valid at any time; `None` before two common rounds.
    pub fn ratio(&self, a: usize, b: usize) -> Option<Interval> {
        self.pairs[a][b]
    }

    /// The one of `others` that comes nearest to `arm`, or passes it, by estimate; none before two common rounds.
    pub fn nearest(&self, arm: usize, others: impl Iterator<Item = usize>) -> Option<usize> {
        let near = others.filter_map(|other| Some((other, self.ratio(other, arm)?.estimate)));
        let nearest = match self.better {
            Better::Higher => near.max_by(|a, b| a.1.total_cmp(&b.1)),
            Better::Lower => near.min_by(|a, b| a.1.total_cmp(&b.1)),
        };
        nearest.map(|(other, _)| other)
    }

    /// The arms that are still candidates.
    pub fn remaining(&self) -> impl Iterator<Item = usize> + '_ {
        self.arms
            .iter()
            .enumerate()
            .filter(|(_, arm)| arm.place == ArmState::Remaining)
            .map(|(index, _)| index)
    }

    /// True if the interval of the two themselves says that `a` is better than `b`.
    pub fn is_surely_better(&self, a: usize, b: usize) -> bool {
        self.ratio(a, b).is_some_and(|ratio| match self.better {
            Better::Higher => ratio.lower > self.scale.equal(),
            Better::Lower => ratio.upper < self.scale.equal(),
        })
    }

    /// The most by which one of the remaining arms may still be better than `arm`: a factor, 1 if none can be, or a difference.
    /// `None` where it is unknown of one.
    ///
    /// It holds for whichever arm the data suggest: the intervals of the truly best arm hold together, and that arm remains.
    pub fn most_cost(&self, arm: usize) -> Option<f64> {
        let mut others = self.remaining().filter(|&other| other != arm);
        others.try_fold(self.scale.equal(), |most: f64, other| {
            Some(most.max(self.cost_against(arm, other)?))
        })
    }

    /// The most by which `other` may be better than `arm`: a factor, or a difference. `None` where it is unknown.
    pub fn cost_against(&self, arm: usize, other: usize) -> Option<f64> {
        let ratio = self.ratio(other, arm)?;
        let cost = match (self.better, self.scale) {
            (Better::Higher, _) => ratio.upper,
            (Better::Lower, Scale::Ratio) => 1.0 / ratio.lower,
            (Better::Lower, Scale::Difference { .. }) => -ratio.lower,
        };
        cost.is_finite().then_some(cost)
    }

    /// The arms of which one may be used: the winner; equals; those near the best. While it is undecided, none.
    pub fn eligible(&self, baseline: usize) -> Vec<usize> {
        let has_lost = matches!(self.arms[baseline].place, ArmState::Worse { .. });
        let is_proven = |&arm: &usize| !has_lost || self.is_surely_better(arm, baseline);
        match &self.verdict {
            Verdict::Winner { arm } => vec![*arm],
            Verdict::Equal { arms, .. } => arms.iter().copied().filter(is_proven).collect(),
            Verdict::NearBest { arms, .. } => arms.clone(),
            _ => Vec::new(),
        }
    }

    /// The arm to use: of the [eligible](Contest::eligible) ones the baseline if it is among them,
    /// otherwise the one of least `cost`, otherwise the one with the best ratio to the baseline.
    ///
    /// `cost` is CPU time per I/O, or whatever breaks a tie; arms without one come last.
    pub fn choice(&self, baseline: usize, cost: &[Option<f64>]) -> Option<usize> {
        let eligible = self.eligible(baseline);
        if eligible.contains(&baseline) {
            return Some(baseline);
        }
        let cost_of = |arm: usize| cost.get(arm).copied().flatten();
        let handicap = |arm: usize| match (self.ratio(arm, baseline), self.better) {
            (None, _) => f64::INFINITY,
            (Some(ratio), Better::Higher) => -ratio.estimate,
            (Some(ratio), Better::Lower) => ratio.estimate,
        };
        eligible.into_iter().min_by(|&a, &b| {
            let by_cost = match (cost_of(a), cost_of(b)) {
                (Some(a), Some(b)) => a.total_cmp(&b),
                (a, b) => a.is_none().cmp(&b.is_none()),
            };
            by_cost.then(handicap(a).total_cmp(&handicap(b)))
        })
    }
}

impl Race {
    /// Where the race stands.
    ///
    /// # Panics
    /// If it cannot be judged: whoever makes plans checks them first.
    pub fn judge(&self) -> Standing {
        Judge::new(self).standing()
    }

    fn check(&self) {
        self.rules.check();
        let arms = self.arms;
        assert!(
            arms >= 2 && !self.loads.is_empty(),
            "{arms} arms, {} loads",
            self.loads.len()
        );
        let mut named = self.withdrawn.iter().chain([&self.baseline]);
        let unknown = named.find(|arm| **arm >= arms);
        assert_eq!(unknown, None, "no such arm among {arms}");
        for load in &self.loads {
            let is_positive = |number: f64| number > 0.0 && number.is_finite();
            assert!(is_positive(load.weight), "a weight of {}", load.weight);
            for requirement in &load.requirements {
                let (Bound::AtLeast(ratio) | Bound::AtMost(ratio)) = requirement.bound;
                assert!(is_positive(ratio), "a required ratio of {ratio}");
            }
        }
        self.check_rounds_from(|_| 0);
    }

    /// Checks each load's rounds from this one on: a value without a logarithm is of a void trial, and must not come here.
    fn check_rounds_from(&self, first: impl Fn(usize) -> usize) {
        for (load, entry) in self.loads.iter().enumerate() {
            let required = entry.requirements.iter();
            let required = required.map(|one| (&one.rounds, Scale::Ratio));
            for (rounds, scale) in required.chain([(&entry.rounds, entry.scale)]) {
                let may_be_any = scale != Scale::Ratio;
                for (round, values) in rounds.iter().enumerate().skip(first(load)) {
                    let is_value = |value: &f64| (may_be_any || *value > 0.0) && value.is_finite();
                    let is_whole = values.len() == self.arms;
                    assert!(
                        is_whole && values.iter().flatten().all(is_value),
                        "load {load}, round {round}: {values:?} of {} arms",
                        self.arms
                    );
                }
            }
        }
    }
}

impl Rules {
    /// Fails unless these are rules that a race can be held by.
    fn check(&self) {
        let (min, budget) = match self.design {
            Design::Sequential => (self.min_rounds, self.budget_rounds),
            Design::FixedRounds(rounds) | Design::Unpaired(rounds) => (rounds, rounds),
        };
        let is_sound = (1.0..=2.0).contains(&self.margin)
            && (0.5..1.0).contains(&self.confidence)
            && (2..=budget).contains(&min)
            && (0.0..1.0).contains(&self.hopeless)
            && self.resolution > 0.0
            && self.resolution < 1.0;
        assert!(is_sound, "{self:?}");
    }
}

#[cfg(test)]
mod tests;
