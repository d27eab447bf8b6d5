//! The fold over the whole race: requirements open and close the gates, each load has its contest, and
//! all loads together have one.
//!
//! A [`Judge`] keeps what the rounds so far have made, so that a race of many rounds need not be read
//! from its first round again whenever one is added. What it says is what [`Race::judge`] says of the
//! same table, however the rounds came in.

use super::contest::{Field, Gate, Referee};
use super::pairs::{Merit, Pairs};
use super::{Better, Bound, Contest, Load, Race, Requirement, Standing, Until, Verdict};
use crate::interval::Interval;

/// Follows a race whose rounds come in one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Judge {
    referee: Referee,
    withdrawn: Vec<usize>,
    until: Until,
    loads: Vec<LoadJudge>,
    overall: Option<Field>,
}

/// One load: who may win it, and the contest.
#[derive(Debug, Clone, PartialEq)]
struct LoadJudge {
    gates: Gates,
    field: Field,
}

impl Judge {
    /// Reads the rounds that a race has by now.
    ///
    /// # Panics
    /// If it is none that can be judged.
    pub fn new(race: &Race) -> Judge {
        race.check();
        let referee = Referee::new(race);
        let field = |load: &Load| {
            let mut referee = referee;
            referee.margin = load.margin(&race.rules);
            Field::new(referee, load.better, load.scale, &race.withdrawn)
        };
        let all = Load::new(Better::Higher, Vec::new());
        let mut judge = Judge {
            referee,
            withdrawn: race.withdrawn.clone(),
            until: race.rules.until,
            loads: race
                .loads
                .iter()
                .map(|load| LoadJudge {
                    gates: Gates::new(referee, &load.requirements),
                    field: field(load),
                })
                .collect(),
            overall: (race.loads.len() > 1).then(|| field(&all)),
        };
        judge.read(race);
        judge
    }

    /// Reads the rounds that the same race has got since.
    ///
    /// # Panics
    /// If one of them cannot be judged, or if rounds have gone: it is another race.
    pub fn follow(&mut self, race: &Race) {
        race.check_rounds_from(|load| self.loads[load].field.rounds);
        self.read(race);
    }

    fn read(&mut self, race: &Race) {
        assert_eq!(self.loads.len(), race.loads.len(), "another race");
        for (judge, load) in self.loads.iter_mut().zip(&race.loads) {
            assert!(judge.field.rounds <= load.rounds.len(), "rounds have gone");
            for round in judge.field.rounds..load.rounds.len() {
                judge.gates.add(&load.requirements, round);
                let gates = judge.gates.at(round + 1);
                judge.field.add(&merits(load, round), gates);
            }
        }
        let rounds = race.loads.iter().map(|load| load.rounds.len()).min();
        let Some(overall) = &mut self.overall else {
            return;
        };
        for round in overall.rounds..rounds.unwrap_or(0) {
            let gates = joined(&self.loads, round + 1, race.arms);
            overall.add(&overall_merits(&race.loads, round, race.arms), &gates);
        }
    }

    /// Where the race stands.
    pub fn standing(&self) -> Standing {
        let loads: Vec<Contest> = self
            .loads
            .iter()
            .map(|load| load.field.standing(load.gates.last()))
            .collect();
        let overall = self.overall.as_ref().map(|field| {
            let gates = joined(&self.loads, field.rounds, self.referee.arms);
            field.standing(&gates)
        });
        Standing {
            next: self.next(&loads, overall.as_ref()),
            loads,
            overall,
        }
    }

    /// Who runs in the next round of each load.
    ///
    /// A load needs its own candidates while its own verdict is wanted and open, and the candidates of
    /// the verdict over all loads while that is open. A baseline that has left runs on, as a measure
    /// only, while a candidate is not surely better than it, or a requirement, which is a ratio to it, is
    /// not settled for a candidate.
    fn next(&self, loads: &[Contest], overall: Option<&Contest>) -> Option<Vec<Vec<usize>>> {
        let Referee { arms, baseline, .. } = self.referee;
        let own_verdicts = overall.is_none() || self.until == Until::EveryLoad;
        let mut anybody = false;
        let mut next = Vec::with_capacity(loads.len());
        for (load, judge) in loads.iter().zip(&self.loads) {
            let mut runs = vec![false; arms];
            let of_load = own_verdicts.then_some((load, &judge.field));
            let of_all = overall.zip(self.overall.as_ref());
            for (contest, field) in of_load.into_iter().chain(of_all) {
                if contest.verdict == Verdict::Open {
                    field.runs().into_iter().for_each(|arm| runs[arm] = true);
                }
            }
            let gates = judge.gates.last();
            let unsettled = (0..arms).any(|arm| runs[arm] && gates[arm] == Gate::Unknown);
            if unsettled && !self.withdrawn.contains(&baseline) {
                runs[baseline] = true;
            }
            anybody |= runs.contains(&true);
            next.push((0..arms).filter(|&arm| runs[arm]).collect());
        }
        anybody.then_some(next)
    }
}

fn merits(load: &Load, round: usize) -> Vec<Option<Merit>> {
    let values = load.rounds[round].iter();
    let merit = |value| load.merit(value);
    values.map(|value| value.map(merit)).collect()
}

/// The weighted mean of the loads' merits, for the arms that every load has.
fn overall_merits(loads: &[Load], round: usize, arms: usize) -> Vec<Option<Merit>> {
    let merits: Vec<_> = loads.iter().map(|load| merits(load, round)).collect();
    let weights: f64 = loads.iter().map(|load| load.weight).sum();
    let mean = |arm: usize| {
        let none = Merit::exact(0.0);
        loads
            .iter()
            .zip(&merits)
            .try_fold(none, |sum, (load, row)| {
                let share = load.weight / weights;
                row[arm].map(|merit| Merit {
                    value: sum.value + merit.value * share,
                    rounded: sum.rounded + merit.rounded * share,
                })
            })
    };
    (0..arms).map(mean).collect()
}

/// The gates of a load after each number of rounds.
#[derive(Debug, Clone, PartialEq)]
struct Gates {
    referee: Referee,
    /// `after[rounds][arm]`.
    after: Vec<Vec<Gate>>,
    /// What the requirements' metrics have shown so far.
    pairs: Vec<Pairs>,
}

impl Gates {
    fn new(referee: Referee, requirements: &[Requirement]) -> Gates {
        let mut gates = Gates {
            referee,
            after: Vec::new(),
            pairs: vec![Pairs::new(referee.arms, referee.precision); requirements.len()],
        };
        gates.after.push(gates.now(requirements, 0));
        gates
    }

    /// Takes in what the requirements' metrics were in a round.
    fn add(&mut self, requirements: &[Requirement], round: usize) {
        for (pairs, requirement) in self.pairs.iter_mut().zip(requirements) {
            if let Some(values) = requirement.rounds.get(round) {
                let log = |value: f64| Merit::exact(value.ln());
                let logs: Vec<_> = values.iter().map(|value| value.map(log)).collect();
                pairs.add(&logs);
            }
        }
        self.after.push(self.now(requirements, round + 1));
    }

    fn now(&self, requirements: &[Requirement], seen: usize) -> Vec<Gate> {
        let Referee {
            arms,
            baseline,
            first_look,
            ..
        } = self.referee;
        let mut gates = vec![Gate::Open; arms];
        for (which, (pairs, requirement)) in self.pairs.iter().zip(requirements).enumerate() {
            for (arm, gate) in gates.iter_mut().enumerate() {
                let ratio = if arm == baseline {
                    Some(Interval::around(0.0, 0.0))
                } else if seen >= first_look {
                    pairs.interval(arm, baseline)
                } else {
                    None
                };
                *gate = gate.and(requirement.gate(which, ratio));
            }
        }
        gates
    }

    fn at(&self, rounds: usize) -> &[Gate] {
        &self.after[rounds.min(self.after.len() - 1)]
    }

    fn last(&self) -> &[Gate] {
        self.at(usize::MAX)
    }
}

/// An arm must fulfil the requirements of all loads; they are counted through.
fn joined(loads: &[LoadJudge], rounds: usize, arms: usize) -> Vec<Gate> {
    let join = |arm: usize| {
        let mut before = 0;
        let mut joined = Gate::Open;
        for LoadJudge { gates, .. } in loads {
            joined = joined.and(match gates.at(rounds)[arm] {
                Gate::Closed(which) => Gate::Closed(before + which),
                gate => gate,
            });
            before += gates.pairs.len();
        }
        joined
    };
    (0..arms).map(join).collect()
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
