//! The fold itself: round after round into the pairs, arms out by the rule of [`super`], a verdict at
//! the end.
//!
//! Inside, every metric is turned into a *merit*: its logarithm, negated where lower is better, so that
//! more is always better.

use super::pairs::{Pairs, Pooled, Precision};
use super::{
    ArmStanding, Better, Bound, Contest, Design, Load, Place, Race, Requirement, Rules, Standing,
    Stopped, Until, Verdict,
};
use crate::distribution::student_t_cdf;
use crate::interval::Interval;
use crate::sequence;

pub(super) fn judge(race: &Race) -> Standing {
    let several = race.loads.len() > 1;
    let families = race
        .loads
        .iter()
        .map(|load| 1 + load.requirements.len())
        .sum::<usize>()
        + usize::from(several);
    let referee = Referee::new(race, families);

    let gates: Vec<Gates> = race
        .loads
        .iter()
        .map(|load| referee.gates(&load.requirements, load.rounds.len()))
        .collect();
    let loads: Vec<Contest> = race
        .loads
        .iter()
        .zip(&gates)
        .map(|(load, gates)| referee.contest(&merits(load), load.better, gates))
        .collect();
    let overall = several.then(|| {
        let merits = overall_merits(&race.loads, race.arms);
        let gates = Gates::all_of(&gates, merits.len(), race.arms);
        referee.contest(&merits, Better::Higher, &gates)
    });
    let next = next(race, &loads, overall.as_ref(), &gates);
    Standing {
        loads,
        overall,
        next,
    }
}

/// Who runs in the next round of each load.
///
/// A load needs its own candidates while its own verdict is wanted and open, and the candidates of the
/// verdict over all loads while that is open. The baseline also runs, as a measure only, while a
/// requirement, which is a ratio to it, is not settled for a candidate.
fn next(
    race: &Race,
    loads: &[Contest],
    overall: Option<&Contest>,
    gates: &[Gates],
) -> Option<Vec<Vec<usize>>> {
    let own_verdicts = overall.is_none() || race.rules.until == Until::EveryLoad;
    let mut anybody = false;
    let mut next = Vec::with_capacity(loads.len());
    for (load, gates) in loads.iter().zip(gates) {
        let mut runs = vec![false; race.arms];
        for contest in [own_verdicts.then_some(load), overall]
            .into_iter()
            .flatten()
        {
            if contest.verdict == Verdict::Open {
                contest.remaining().for_each(|arm| runs[arm] = true);
            }
        }
        let unsettled = (0..race.arms).any(|arm| runs[arm] && gates.last(arm) == Gate::Unknown);
        if unsettled && !race.withdrawn.contains(&race.baseline) {
            runs[race.baseline] = true;
        }
        anybody |= runs.contains(&true);
        next.push((0..race.arms).filter(|&arm| runs[arm]).collect());
    }
    anybody.then_some(next)
}

fn merits(load: &Load) -> Vec<Vec<Option<f64>>> {
    let sign = sign(load.better);
    let merit = |value: &Option<f64>| value.map(|value| sign * value.ln());
    load.rounds
        .iter()
        .map(|round| round.iter().map(merit).collect())
        .collect()
}

/// The weighted mean of the loads' merits, for the rounds and arms that every load has.
fn overall_merits(loads: &[Load], arms: usize) -> Vec<Vec<Option<f64>>> {
    let merits: Vec<_> = loads.iter().map(merits).collect();
    let rounds = merits.iter().map(Vec::len).min().unwrap_or(0);
    let weights: f64 = loads.iter().map(|load| load.weight).sum();
    let mean = |round: usize, arm: usize| {
        loads
            .iter()
            .zip(&merits)
            .try_fold(0.0, |sum, (load, rows)| {
                rows[round][arm].map(|merit| sum + merit * load.weight / weights)
            })
    };
    (0..rounds)
        .map(|round| (0..arms).map(|arm| mean(round, arm)).collect())
        .collect()
}

fn sign(better: Better) -> f64 {
    match better {
        Better::Higher => 1.0,
        Better::Lower => -1.0,
    }
}

/// Does an arm fulfil its requirements?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Unknown,
    /// Surely not this one.
    Closed(usize),
}

/// The gates after each number of rounds: `after[rounds][arm]`.
struct Gates {
    after: Vec<Vec<Gate>>,
    /// How many requirements stand behind them.
    requirements: usize,
}

impl Gates {
    fn at(&self, rounds: usize, arm: usize) -> Gate {
        self.after[rounds.min(self.after.len() - 1)][arm]
    }

    fn last(&self, arm: usize) -> Gate {
        self.at(usize::MAX, arm)
    }

    /// An arm must fulfil the requirements of all loads; they are counted through.
    fn all_of(loads: &[Gates], rounds: usize, arms: usize) -> Gates {
        let join = |rounds: usize, arm: usize| {
            let mut before = 0;
            let mut joined = Gate::Open;
            for gates in loads {
                joined = joined.and(match gates.at(rounds, arm) {
                    Gate::Closed(which) => Gate::Closed(before + which),
                    gate => gate,
                });
                before += gates.requirements;
            }
            joined
        };
        Gates {
            after: (0..=rounds)
                .map(|rounds| (0..arms).map(|arm| join(rounds, arm)).collect())
                .collect(),
            requirements: loads.iter().map(|gates| gates.requirements).sum(),
        }
    }
}

impl Gate {
    fn and(self, other: Gate) -> Gate {
        match (self, other) {
            (Gate::Closed(which), _) | (_, Gate::Closed(which)) => Gate::Closed(which),
            (Gate::Unknown, _) | (_, Gate::Unknown) => Gate::Unknown,
            (Gate::Open, Gate::Open) => Gate::Open,
        }
    }
}

/// Holds the rules and applies them to one contest after the other.
struct Referee<'a> {
    arms: usize,
    baseline: usize,
    withdrawn: &'a [usize],
    rules: Rules,
    precision: Precision,
    margin: f64,
    /// The rounds after which arms may leave and a verdict may be given.
    first_look: usize,
    last_look: usize,
}

impl Referee<'_> {
    fn new(race: &Race, families: usize) -> Referee<'_> {
        let rules = race.rules;
        let (first_look, last_look) = match rules.design {
            Design::Sequential => (rules.min_rounds, rules.budget_rounds),
            Design::FixedRounds(rounds) => (rounds, rounds),
        };
        Referee {
            arms: race.arms,
            baseline: race.baseline,
            withdrawn: &race.withdrawn,
            rules,
            precision: Precision {
                level: (1.0 - rules.confidence) / ((race.arms - 1) * families) as f64,
                resolution: rules.resolution,
                anytime: rules.design == Design::Sequential,
            },
            margin: rules.margin.ln(),
            first_look,
            last_look,
        }
    }

    fn gates(&self, requirements: &[Requirement], rounds: usize) -> Gates {
        let mut after = vec![vec![Gate::Open; self.arms]; rounds + 1];
        for (which, requirement) in requirements.iter().enumerate() {
            let mut pairs = Pairs::new(self.arms);
            for (seen, gates) in after.iter_mut().enumerate() {
                if let Some(round) = seen
                    .checked_sub(1)
                    .and_then(|last| requirement.rounds.get(last))
                {
                    let logs: Vec<_> = round.iter().map(|value| value.map(f64::ln)).collect();
                    pairs.add(&logs);
                }
                let pooled = pairs.pooled();
                for (arm, gate) in gates.iter_mut().enumerate() {
                    let ratio = if arm == self.baseline {
                        Some(Interval::around(0.0, 0.0))
                    } else if seen >= self.first_look {
                        pairs.interval(arm, self.baseline, pooled, self.precision)
                    } else {
                        None
                    };
                    *gate = gate.and(requirement.gate(which, ratio));
                }
            }
        }
        Gates {
            after,
            requirements: requirements.len(),
        }
    }

    fn contest(&self, merits: &[Vec<Option<f64>>], better: Better, gates: &Gates) -> Contest {
        let mut field = Field {
            referee: self,
            pairs: Pairs::new(self.arms),
            places: vec![Place::Remaining; self.arms],
            seen: vec![0; self.arms],
            sign: sign(better),
        };
        for &arm in self.withdrawn {
            field.places[arm] = Place::Withdrawn;
        }
        for (index, round) in merits.iter().enumerate() {
            let rounds = index + 1;
            field.pairs.add(round);
            for (seen, merit) in field.seen.iter_mut().zip(round) {
                *seen += usize::from(merit.is_some());
            }
            if rounds >= self.first_look {
                field.disqualify(rounds, gates);
                field.drop_the_worse(rounds, gates);
            }
        }
        field.close(merits.len(), better, gates)
    }
}

impl Requirement {
    /// What the interval of the log-ratio to the baseline says about requirement number `which`.
    fn gate(&self, which: usize, ratio: Option<Interval>) -> Gate {
        let Some(ratio) = ratio else {
            return Gate::Unknown;
        };
        let (kept, missed) = match self.bound {
            Bound::AtLeast(bound) => (ratio.lower >= bound.ln(), ratio.upper < bound.ln()),
            Bound::AtMost(bound) => (ratio.upper <= bound.ln(), ratio.lower > bound.ln()),
        };
        match (kept, missed) {
            (true, _) => Gate::Open,
            (false, true) => Gate::Closed(which),
            (false, false) => Gate::Unknown,
        }
    }
}

/// The arms of one contest while the rounds go by.
struct Field<'a> {
    referee: &'a Referee<'a>,
    pairs: Pairs,
    places: Vec<Place>,
    seen: Vec<usize>,
    sign: f64,
}

impl Field<'_> {
    fn remaining(&self) -> Vec<usize> {
        (0..self.places.len())
            .filter(|&arm| self.places[arm] == Place::Remaining)
            .collect()
    }

    fn disqualify(&mut self, rounds: usize, gates: &Gates) {
        for arm in self.remaining() {
            if let Gate::Closed(requirement) = gates.at(rounds, arm) {
                self.places[arm] = Place::Disqualified {
                    after: rounds,
                    requirement,
                };
            }
        }
    }

    /// Takes out the arms that another one surely beats, the most clearly beaten one first, so that
    /// whoever drives out is himself still in.
    fn drop_the_worse(&mut self, rounds: usize, gates: &Gates) {
        let pooled = self.pairs.pooled();
        loop {
            let remaining = self.remaining();
            let mut clearest: Option<(usize, usize, Interval)> = None;
            for &winner in &remaining {
                if gates.at(rounds, winner) != Gate::Open {
                    continue;
                }
                for &loser in remaining.iter().filter(|&&loser| loser != winner) {
                    let Some(lead) = self.interval(winner, loser, pooled) else {
                        continue;
                    };
                    let surely_better = lead.lower > 0.0;
                    let within_margin = lead.upper <= self.referee.margin;
                    let clearer = clearest.is_none_or(|(_, _, other)| lead.lower > other.lower);
                    if surely_better && !within_margin && clearer {
                        clearest = Some((winner, loser, lead));
                    }
                }
            }
            let Some((winner, loser, lead)) = clearest else {
                return;
            };
            self.places[loser] = Place::Worse {
                after: rounds,
                than: winner,
                ratio: self.to_metric(lead.negated()),
            };
        }
    }

    /// The interval of the merit of `a` minus that of `b`, if enough rounds were seen.
    fn interval(&self, a: usize, b: usize, pooled: Pooled) -> Option<Interval> {
        self.pairs.interval(a, b, pooled, self.referee.precision)
    }

    /// From a difference of merits to a ratio of metrics.
    fn to_metric(&self, merit: Interval) -> Interval {
        if self.sign > 0.0 {
            merit.exp()
        } else {
            merit.negated().exp()
        }
    }

    fn close(self, rounds: usize, better: Better, gates: &Gates) -> Contest {
        let arms = self.places.len();
        let pooled = self.pairs.pooled();
        let pairs: Vec<Vec<Option<Interval>>> = (0..arms)
            .map(|a| {
                (0..arms)
                    .map(|b| {
                        let merit = (a != b).then(|| self.interval(a, b, pooled)).flatten();
                        merit.map(|merit| self.to_metric(merit))
                    })
                    .collect()
            })
            .collect();
        let baseline = self.referee.baseline;
        let standings = (0..arms)
            .map(|arm| ArmStanding {
                rounds: self.seen[arm],
                to_baseline: if arm == baseline {
                    Some(Interval::around(1.0, 0.0))
                } else {
                    pairs[arm][baseline]
                },
                place: self.places[arm],
            })
            .collect();
        Contest {
            rounds,
            better,
            arms: standings,
            leader: self.leader(),
            verdict: self.verdict(rounds, pooled, gates),
            pairs,
        }
    }

    /// The remaining arm with the largest mean lead over the other remaining ones.
    fn leader(&self) -> Option<usize> {
        let remaining = self.remaining();
        let lead = |arm: usize| -> f64 {
            remaining
                .iter()
                .filter(|&&other| other != arm)
                .filter_map(|&other| self.pairs.mean(arm, other))
                .sum()
        };
        remaining
            .iter()
            .copied()
            .max_by(|&a, &b| lead(a).total_cmp(&lead(b)).then(b.cmp(&a)))
    }

    fn verdict(&self, rounds: usize, pooled: Pooled, gates: &Gates) -> Verdict {
        let referee = self.referee;
        let arms = self.remaining();
        let settled = arms.iter().all(|&arm| gates.at(rounds, arm) == Gate::Open);
        if rounds >= referee.first_look || arms.len() < 2 {
            match arms[..] {
                [] => return Verdict::Nobody,
                [arm] if referee.withdrawn.len() + 1 == referee.arms => {
                    return Verdict::Alone { arm };
                }
                [arm] if settled => return Verdict::Winner { arm },
                _ => {}
            }
        }
        if rounds < referee.first_look {
            return Verdict::Open;
        }
        let reach = self.reach(&arms, pooled);
        let within = reach.exp();
        if settled && arms.len() > 1 && reach <= referee.margin {
            return Verdict::Equal { arms, within };
        }
        let because = if rounds >= referee.last_look {
            Stopped::Budget
        } else if settled && self.chance(&arms, rounds, pooled) < referee.rules.hopeless {
            Stopped::Hopeless
        } else {
            return Verdict::Open;
        };
        Verdict::Undecided {
            rounds_needed: self.rounds_needed(&arms, pooled),
            arms,
            within,
            because,
        }
    }

    /// The largest difference between two of the arms that is still possible.
    fn reach(&self, arms: &[usize], pooled: Pooled) -> f64 {
        let mut reach: f64 = 0.0;
        for (a, b) in every_two(arms) {
            let interval = self.interval(a, b, pooled);
            reach = reach.max(interval.map_or(f64::INFINITY, |interval| interval.reach()));
        }
        reach
    }

    /// The chance that the race is decided when its budget is spent, if it goes on as it began.
    ///
    /// The mean of all rounds at the end is predicted, as a Student t, from the mean and the noise so
    /// far. Deciding means that one arm beats each other one, or that each two are within the margin;
    /// for each of these the least likely pair bounds the chance from above.
    fn chance(&self, arms: &[usize], rounds: usize, pooled: Pooled) -> f64 {
        let end = self.referee.last_look;
        let precision = self.referee.precision;
        let margin = self.referee.margin;
        let predicted = |a: usize, b: usize| -> Option<Prediction> {
            let seen = self.pairs.rounds(a, b);
            let left = end - rounds;
            (seen >= 2).then(|| Prediction {
                mean: self.pairs.mean(a, b).unwrap_or(0.0),
                scale: self.pairs.sd(a, b, precision)
                    * (left as f64 / ((seen + left) as f64 * seen as f64)).sqrt(),
                df: (seen - 1) as f64,
                half_width: self.pairs.half_width(a, b, pooled, precision, seen + left),
            })
        };
        let mut equal: f64 = 1.0;
        let mut wins = vec![1.0_f64; arms.len()];
        for (i, &a) in arms.iter().enumerate() {
            for &b in arms.iter().filter(|&&b| b != a) {
                let Some(prediction) = predicted(a, b) else {
                    return 1.0;
                };
                let room = margin - prediction.half_width;
                let inside = if room > 0.0 {
                    prediction.above(-room) - prediction.above(room)
                } else {
                    0.0
                };
                equal = equal.min(inside);
                wins[i] = wins[i].min(prediction.above(prediction.half_width));
            }
        }
        equal + wins.iter().sum::<f64>()
    }

    /// Rounds after which every pair with the leader would be told apart or within the margin.
    fn rounds_needed(&self, arms: &[usize], pooled: Pooled) -> Option<usize> {
        let leader = self.leader()?;
        let mut needed = 0;
        for &arm in arms.iter().filter(|&&arm| arm != leader) {
            let lead = self.pairs.mean(leader, arm)?.abs();
            let target = lead.max(self.referee.margin - lead);
            needed = needed.max(self.rounds_for(leader, arm, target, pooled)?);
        }
        (needed > 0).then_some(needed)
    }

    /// The smallest number of rounds at which the pair's interval is narrower than `target`.
    fn rounds_for(&self, a: usize, b: usize, target: f64, pooled: Pooled) -> Option<usize> {
        let precision = self.referee.precision;
        sequence::first_rounds(|rounds| {
            self.pairs.half_width(a, b, pooled, precision, rounds) < target
        })
    }
}

/// Where a pair's mean will be when the budget is spent.
struct Prediction {
    mean: f64,
    scale: f64,
    df: f64,
    half_width: f64,
}

impl Prediction {
    fn above(&self, bound: f64) -> f64 {
        student_t_cdf((self.mean - bound) / self.scale.max(1e-12), self.df)
    }
}

fn every_two(arms: &[usize]) -> impl Iterator<Item = (usize, usize)> + '_ {
    arms.iter()
        .enumerate()
        .flat_map(|(index, &a)| arms[index + 1..].iter().map(move |&b| (a, b)))
}
