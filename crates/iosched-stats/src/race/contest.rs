//! One contest: round after round into the pairs, arms out by the rule of [`super`], a verdict whenever
//! it is asked for.
//!
//! Inside, every metric is turned into a *merit*: its logarithm (or itself, [`Scale`]), negated where lower is better, so
//! that more is always better.

use super::pairs::{Merit, Pairs, Pooled, Precision};
use super::{ArmStanding, ArmState, Better, Contest, Design, Race, Rules, Scale, Verdict};
use crate::distribution::{normal_cdf, normal_quantile, student_t_cdf};
use crate::interval::Interval;
use crate::sequence;

/// What is surely near the best ends the race where the others are at the most so many margins worse, so that little
/// depends on separating them...
const STAKE: f64 = 3.0;

/// ... and where that would take at least so many times the rounds there have been.
const PATIENCE: usize = 2;

/// Holds the rules, which are the same for all contests of a race.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Referee {
    pub(super) arms: usize,
    pub(super) baseline: usize,
    /// How many arms the caller took out.
    withdrawn: usize,
    rules: Rules,
    pub(super) precision: Precision,
    pub(super) margin: f64,
    /// The rounds after which arms may leave and a verdict may be given.
    pub(super) first_look: usize,
    last_look: usize,
}

impl Referee {
    pub(super) fn new(race: &Race) -> Referee {
        let rules = race.rules;
        let (first_look, last_look) = match rules.design {
            Design::Sequential => (rules.min_rounds, rules.budget_rounds),
            Design::FixedRounds(rounds) | Design::Unpaired(rounds) => (rounds, rounds),
        };
        let of_loads = race.loads.iter().map(|load| 1 + load.requirements.len());
        let families = of_loads.sum::<usize>() + usize::from(race.loads.len() > 1);
        Referee {
            arms: race.arms,
            baseline: race.baseline,
            withdrawn: race.withdrawn.len(),
            rules,
            precision: Precision {
                level: (1.0 - rules.confidence) / ((race.arms - 1) * families) as f64,
                resolution: rules.resolution,
                known_sd: rules.known_noise.map(|noise| noise * 2f64.sqrt()),
                anytime: rules.design == Design::Sequential,
                paired: !matches!(rules.design, Design::Unpaired(_)),
            },
            margin: rules.margin.ln(),
            first_look,
            last_look,
        }
    }
}

/// Does an arm fulfil its requirements?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    Unknown,
    /// Surely not this one.
    Closed(usize),
}

/// +1 where more of a metric is better, -1 where less is.
pub(super) fn sign(better: Better) -> f64 {
    match better {
        Better::Higher => 1.0,
        Better::Lower => -1.0,
    }
}

/// The arms of one contest while the rounds go by.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    referee: Referee,
    better: Better,
    scale: Scale,
    /// Rounds taken in.
    pub(super) rounds: usize,
    pairs: Pairs,
    places: Vec<ArmState>,
    seen: Vec<usize>,
}

impl Field {
    pub(super) fn new(
        referee: Referee,
        better: Better,
        scale: Scale,
        withdrawn: &[usize],
    ) -> Field {
        let mut places = vec![ArmState::Remaining; referee.arms];
        for &arm in withdrawn {
            places[arm] = ArmState::Withdrawn;
        }
        Field {
            referee,
            better,
            scale,
            rounds: 0,
            pairs: Pairs::new(referee.arms, referee.precision),
            places,
            seen: vec![0; referee.arms],
        }
    }

    /// Takes in a round's merits; `gates` are those after it.
    pub(super) fn add(&mut self, merits: &[Option<Merit>], gates: &[Gate]) {
        self.rounds += 1;
        self.pairs.add(merits);
        for (seen, merit) in self.seen.iter_mut().zip(merits) {
            *seen += usize::from(merit.is_some());
        }
        if self.rounds >= self.referee.first_look {
            self.disqualify(gates);
            self.drop_the_worse(gates);
        }
    }

    fn remaining(&self) -> Vec<usize> {
        (0..self.places.len())
            .filter(|&arm| self.places[arm] == ArmState::Remaining)
            .collect()
    }

    fn disqualify(&mut self, gates: &[Gate]) {
        for arm in self.remaining() {
            if let Gate::Closed(requirement) = gates[arm] {
                self.places[arm] = ArmState::Disqualified {
                    after: self.rounds,
                    requirement,
                };
            }
        }
    }

    /// Takes out the arms that another one surely beats, the most clearly beaten one first, so that
    /// whoever drives out is himself still in.
    fn drop_the_worse(&mut self, gates: &[Gate]) {
        let remaining = self.remaining();
        let mut leads: Vec<(usize, usize, Interval)> = Vec::new();
        for &winner in remaining.iter().filter(|&&arm| gates[arm] == Gate::Open) {
            for &loser in remaining.iter().filter(|&&loser| loser != winner) {
                let Some(lead) = self.pairs.interval(winner, loser) else {
                    continue;
                };
                let within_margin = lead.upper <= self.referee.margin;
                if lead.lower > 0.0 && !within_margin {
                    leads.push((winner, loser, lead));
                }
            }
        }
        leads.sort_by(|(_, _, one), (_, _, other)| other.lower.total_cmp(&one.lower));
        for (winner, loser, lead) in leads {
            if [winner, loser].map(|arm| self.places[arm]) == [ArmState::Remaining; 2] {
                self.places[loser] = ArmState::Worse {
                    after: self.rounds,
                    than: winner,
                    ratio: self.to_metric(lead.negated()),
                };
            }
        }
    }

    /// The baseline, if another arm has beaten it.
    fn beaten_baseline(&self) -> Option<usize> {
        let baseline = self.referee.baseline;
        matches!(self.places[baseline], ArmState::Worse { .. }).then_some(baseline)
    }

    /// True if the interval of the two themselves says that `a` is better than `b`.
    fn is_surely_better(&self, a: usize, b: usize) -> bool {
        let lead = self.pairs.interval(a, b);
        lead.is_some_and(|lead| lead.lower > 0.0)
    }

    /// The arms that run while the contest is open: the candidates, and a beaten baseline for as long
    /// as one of them is not surely better than it.
    pub(super) fn runs(&self) -> Vec<usize> {
        let mut runs = self.remaining();
        let measure = self.beaten_baseline();
        let lacks_proof = |&baseline: &usize| {
            let mut candidates = runs.iter();
            candidates.any(|&arm| !self.is_surely_better(arm, baseline))
        };
        runs.extend(measure.filter(lacks_proof));
        runs
    }

    /// The beaten baseline, if none of these arms is surely better than it: whoever beat it has left.
    fn unbeaten_by(&self, arms: &[usize]) -> Option<usize> {
        let beats = |baseline: usize| {
            let mut arms = arms.iter();
            arms.any(|&arm| self.is_surely_better(arm, baseline))
        };
        self.beaten_baseline().filter(|&baseline| !beats(baseline))
    }

    /// From a difference of merits to a ratio of metrics, or their difference.
    fn to_metric(&self, merit: Interval) -> Interval {
        let metric = match self.better {
            Better::Higher => merit,
            Better::Lower => merit.negated(),
        };
        metric.map(|merit| self.scale.number(merit))
    }

    /// Where the contest stands; `gates` are those after its last round.
    pub(super) fn standing(&self, gates: &[Gate]) -> Contest {
        let arms = self.places.len();
        let pairs: Vec<Vec<Option<Interval>>> = (0..arms)
            .map(|a| {
                (0..arms)
                    .map(|b| {
                        let merit = (a != b).then(|| self.pairs.interval(a, b)).flatten();
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
                    Some(Interval::around(self.scale.equal(), 0.0))
                } else {
                    pairs[arm][baseline]
                },
                place: self.places[arm],
            })
            .collect();
        Contest {
            rounds: self.rounds,
            better: self.better,
            scale: self.scale,
            arms: standings,
            leader: self.leader(),
            verdict: self.verdict(gates),
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

    fn verdict(&self, gates: &[Gate]) -> Verdict {
        let (referee, rounds) = (self.referee, self.rounds);
        let mut arms = self.remaining();
        let unbeaten = self.unbeaten_by(&arms);
        let settled = arms.iter().all(|&arm| gates[arm] == Gate::Open);
        if rounds >= referee.first_look || arms.len() < 2 {
            match arms[..] {
                [] => return Verdict::Nobody,
                [arm] if referee.withdrawn + 1 == referee.arms => {
                    return Verdict::Alone { arm };
                }
                [arm] if settled && unbeaten.is_none() => return Verdict::Winner { arm },
                _ => {}
            }
        }
        if rounds < referee.first_look {
            return Verdict::Open;
        }
        let pooled = self.pairs.pooled();
        let reach = self.reach(&arms);
        if settled && unbeaten.is_none() && arms.len() > 1 && reach <= referee.margin {
            let within = self.scale.number(reach);
            return Verdict::Equal { arms, within };
        }
        let near_best = if settled {
            self.near_best(&arms)
        } else {
            Vec::new()
        };
        let is_little_at_stake = |&arm: &usize| self.stake(arm, &arms) <= STAKE * referee.margin;
        let is_enough = near_best.iter().any(is_little_at_stake)
            && self
                .rounds_needed(&arms, pooled)
                .is_none_or(|needed| needed >= PATIENCE * rounds);
        let least_chance = referee.rules.hopeless;
        let is_hopeless = || least_chance > 0.0 && self.chance(&arms, pooled) < least_chance;
        let may_end = !near_best.is_empty() && (is_enough || is_hopeless());
        if rounds < referee.last_look && !may_end {
            return Verdict::Open;
        }
        if !near_best.is_empty() {
            let shortfall = |&arm: &usize| self.shortfall(arm, &arms);
            let within = near_best.iter().map(shortfall).fold(0.0, f64::max);
            return Verdict::NearBest {
                arms: near_best,
                among: arms,
                within: self.scale.number(within),
            };
        }
        let rounds_needed = self.rounds_needed(&arms, pooled);
        arms.extend(unbeaten);
        arms.sort_unstable();
        Verdict::Undecided {
            within: self.scale.number(self.reach(&arms)),
            rounds_needed,
            arms,
        }
    }

    /// The arms that no other one may be better than by more than the margin, and that may be named: the
    /// baseline, or what is surely better than it. A baseline that was withdrawn or disqualified is nobody's
    /// measure.
    fn near_best(&self, arms: &[usize]) -> Vec<usize> {
        let baseline = self.referee.baseline;
        let is_measure = arms.contains(&baseline) || self.beaten_baseline().is_some();
        let may_be_named =
            |arm: usize| arm == baseline || !is_measure || self.is_surely_better(arm, baseline);
        let near = arms
            .iter()
            .copied()
            .filter(|&arm| may_be_named(arm) && self.shortfall(arm, arms) <= self.referee.margin);
        near.collect()
    }

    /// By how much the best of these arms may be better than this one.
    fn shortfall(&self, arm: usize, arms: &[usize]) -> f64 {
        self.most(arms, arm, |lead| lead.upper)
    }

    /// By how much this arm may be better than the least of the others.
    fn stake(&self, arm: usize, arms: &[usize]) -> f64 {
        self.most(arms, arm, |lead| -lead.lower)
    }

    /// The largest of what the leads of these arms over this one say; infinite where one is not known.
    fn most(&self, arms: &[usize], over: usize, of: impl Fn(Interval) -> f64) -> f64 {
        let others = arms.iter().filter(|&&arm| arm != over);
        let leads = others.map(|&arm| self.pairs.interval(arm, over).map_or(f64::INFINITY, &of));
        leads.fold(0.0, f64::max)
    }

    /// The largest difference between two of the arms that is still possible.
    fn reach(&self, arms: &[usize]) -> f64 {
        let mut reach: f64 = 0.0;
        for (a, b) in every_two(arms) {
            let interval = self.pairs.interval(a, b);
            reach = reach.max(interval.map_or(f64::INFINITY, |interval| interval.reach()));
        }
        reach
    }

    /// The chance that the race is decided when its budget is spent, if it goes on as it began.
    ///
    /// Deciding means that one arm beats each other one, or that each two are within the margin; and
    /// that the arm, or one of these, beats a baseline that has left. The chance to beat each other one is
    /// that of [`all_of`]; for the rest the least likely pair bounds the chance from above.
    fn chance(&self, arms: &[usize], pooled: Pooled) -> f64 {
        let margin = self.referee.margin;
        let mut equal: f64 = if arms.len() > 1 { 1.0 } else { 0.0 };
        let mut wins = Vec::with_capacity(arms.len());
        let mut one_beats_baseline: f64 = 0.0;
        for &a in arms {
            let beats_baseline = match self.beaten_baseline() {
                Some(baseline) if !self.is_surely_better(a, baseline) => {
                    let prediction = self.predict(a, baseline, pooled);
                    prediction.map_or(1.0, |at_end| at_end.above(at_end.half_width))
                }
                _ => 1.0,
            };
            one_beats_baseline = one_beats_baseline.max(beats_baseline);
            let mut beats = Vec::with_capacity(arms.len());
            for &b in arms.iter().filter(|&&b| b != a) {
                let Some(at_end) = self.predict(a, b, pooled) else {
                    return 1.0;
                };
                let room = margin - at_end.half_width;
                let inside = if room > 0.0 {
                    at_end.above(-room) - at_end.above(room)
                } else {
                    0.0
                };
                equal = equal.min(inside);
                beats.push(at_end.above(at_end.half_width));
            }
            wins.push(all_of(&beats).min(beats_baseline));
        }
        equal.min(one_beats_baseline) + wins.iter().sum::<f64>()
    }

    /// Where the mean of `a - b` will be when the budget is spent: a Student t, from the mean and the
    /// noise so far. `None` before two rounds in which both ran.
    fn predict(&self, a: usize, b: usize, pooled: Pooled) -> Option<Prediction> {
        let seen = self.pairs.rounds(a, b);
        let left = self.referee.last_look - self.rounds;
        (seen >= 2).then(|| Prediction {
            mean: self.pairs.mean(a, b).unwrap_or(0.0),
            scale: self.pairs.sd(a, b)
                * (left as f64 / ((seen + left) as f64 * seen as f64)).sqrt(),
            df: self.pairs.df(a, b),
            half_width: self.pairs.half_width(a, b, pooled, seen + left),
        })
    }

    /// Rounds after which the leader would be told apart from each other arm, or be within the margin
    /// of it, and would have beaten a baseline that has left.
    fn rounds_needed(&self, arms: &[usize], pooled: Pooled) -> Option<usize> {
        let leader = self.leader()?;
        let mut needed = 0;
        for &arm in arms.iter().filter(|&&arm| arm != leader) {
            let lead = self.pairs.mean(leader, arm)?.abs();
            let target = lead.max(self.referee.margin - lead);
            needed = needed.max(self.rounds_for(leader, arm, target, pooled)?);
        }
        let beaten = self.beaten_baseline();
        if let Some(baseline) = beaten.filter(|&it| !self.is_surely_better(leader, it)) {
            let lead = self.pairs.mean(leader, baseline)?;
            needed = needed.max(self.rounds_for(leader, baseline, lead, pooled)?);
        }
        (needed > 0).then_some(needed)
    }

    /// The smallest number of rounds at which the pair's interval is narrower than `target`.
    fn rounds_for(&self, a: usize, b: usize, target: f64, pooled: Pooled) -> Option<usize> {
        sequence::first_rounds(|rounds| self.pairs.half_width(a, b, pooled, rounds) < target)
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

/// The chance that an arm beats each other one, from the chances to beat this one and that one.
///
/// Two leads of the same arm share its own trials: with arms about equally noisy their correlation is 1/2. Given what
/// is shared, a normal `x`, they are independent (Dunnett 1955), so that the chance is the mean over `x` of the
/// product; the sum over steps of a half has an error below 1e-6. Where the least of the chances is too small to
/// matter it stands for that of all, which it bounds from above.
fn all_of(chances: &[f64]) -> f64 {
    let least = chances.iter().copied().fold(1.0, f64::min);
    if least < 1e-3 {
        return least;
    }
    // One that is certain has no finite score.
    let score = |chance: &f64| normal_quantile(chance.min(1.0 - 1e-12));
    let scores: Vec<f64> = chances.iter().map(score).collect();
    let (mut sum, mut weights) = (0.0, 0.0);
    for step in -12..=12 {
        let x = 0.5 * f64::from(step);
        let weight = (-0.5 * x * x).exp();
        let given_x = scores
            .iter()
            .map(|score| normal_cdf(2f64.sqrt() * score + x));
        sum += weight * given_x.product::<f64>();
        weights += weight;
    }
    sum / weights
}

fn every_two(arms: &[usize]) -> impl Iterator<Item = (usize, usize)> + '_ {
    arms.iter()
        .enumerate()
        .flat_map(|(index, &a)| arms[index + 1..].iter().map(move |&b| (a, b)))
}

#[cfg(test)]
mod tests {
    use super::all_of;

    // Of n equally good arms each is the best with a chance of 1/n, and beats each other one with 1/2.
    #[test]
    fn the_chance_to_beat_all_knows_that_leads_share_the_arm() {
        for (chances, expected) in [
            (&[0.37][..], 0.37),
            (&[0.5, 0.5], 1.0 / 3.0),
            (&[0.5, 0.5, 0.5], 0.25),
            (&[0.5; 7], 0.125),
            (&[0.0, 0.9], 0.0),
            (&[1.0, 0.2], 0.2),
            (&[1.0, 1.0], 1.0),
        ] {
            let chance = all_of(chances);
            assert!(
                (chance - expected).abs() < 1e-6,
                "{chances:?}: {chance}, not {expected}"
            );
        }
    }

    #[test]
    fn beating_all_is_less_likely_than_beating_the_strongest() {
        let all = all_of(&[0.1, 0.2, 0.6]);
        assert!(all < 0.1 && all > 0.1 * 0.2 * 0.6, "{all}");
    }
}
