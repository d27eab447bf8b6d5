//! Which trial is next: a function of the plan and the record, and of nothing else.
//!
//! A run that was interrupted goes on as if it had not been, and what the race decides after a
//! round does not depend on when anybody looked. See [`iosched_stats::race`] for the rules.
//!
//! A [`Course`] follows a record while it grows and reads each line once: after ten thousand trials the
//! next one is found as fast as after ten. It knows nothing that the record does not say.

use std::collections::BTreeMap;
use std::time::Duration;

use iosched_stats::race::{
    Better, Bound, Contest, Design, Judge, Load, Race, Requirement, Rules, Standing, Stopped,
    Verdict,
};

use crate::objective::Objective;
use crate::plan::Plan;
use crate::record::{Entry, Record, StopReason};
use crate::trial::{Slot, Trial};

/// What a trial takes besides its load: a switch, dropped caches, fio's start and end.
const OVERHEAD: Duration = Duration::from_millis(800);

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This trial.
    Trial(Slot),
    /// Nothing: the run has come to its end.
    Done(StopReason),
}

/// What comes next after the trials in the record.
pub fn next(plan: &Plan, record: &Record) -> Next {
    Course::of(plan, record).next()
}

/// Where the race stands for a reader of the record, and after how many rounds: when time ran out, what
/// is not decided is undecided, with its bound.
pub fn standing_to_report(plan: &Plan, record: &Record) -> (u32, Standing) {
    let Course {
        rounds,
        standing,
        mut race,
        ..
    } = Course::of(plan, record);
    if record.stop_reason() != Some(StopReason::TimeSpent) {
        return (rounds, standing);
    }
    race.rules.budget_rounds = rounds as usize;
    race.rules.min_rounds = race.rules.min_rounds.min(rounds as usize);
    let standing = race.judge().expect("the same race with another budget");
    (rounds, standing)
}

/// Where a run has got to.
#[derive(Debug, Clone, PartialEq)]
pub struct Course<'a> {
    plan: &'a Plan,
    /// How long a trial of each load takes, as far as the load says it.
    planned: Vec<Option<Duration>>,
    /// Entries of the record that were read.
    entries: usize,
    /// Trials, and trials that do not count.
    attempts: u32,
    /// Per load: how many trials there were, and how long they took.
    took: Vec<(u32, Duration)>,
    /// How long loads were run until they were steady.
    steadying: Duration,
    withdrawn: Vec<usize>,
    /// Complete rounds, all of which `race` has.
    rounds: u32,
    race: Race,
    judge: Judge,
    /// After those rounds.
    standing: Standing,
    /// What came in of the rounds after them.
    begun: BTreeMap<u32, Vec<Row>>,
}

/// A load's trials in a round.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    /// How many of each arm.
    ran: Vec<u32>,
    objective: Values,
    /// Of each requirement.
    required: Vec<Values>,
}

/// The values of one metric that a round's turns gave, per arm.
#[derive(Debug, Clone, PartialEq)]
struct Values(Vec<Vec<f64>>);

impl Values {
    fn none(arms: usize) -> Values {
        Values(vec![Vec::new(); arms])
    }

    fn add(&mut self, arm: usize, value: Option<f64>) {
        self.0[arm].extend(value);
    }

    /// What the round says of each arm: the geometric mean of its turns.
    fn of_round(self) -> Vec<Option<f64>> {
        let mean = |values: Vec<f64>| match values[..] {
            [] => None,
            [value] => Some(value),
            _ => {
                let logs = values.iter().map(|value| value.ln());
                Some((logs.sum::<f64>() / values.len() as f64).exp())
            }
        };
        self.0.into_iter().map(mean).collect()
    }
}

impl<'a> Course<'a> {
    /// Where the run of a record has got to.
    pub fn of(plan: &'a Plan, record: &Record) -> Course<'a> {
        let withdrawn = (0..plan.arms.len()).filter(|&arm| record.arm_left(arm).is_some());
        let withdrawn: Vec<usize> = withdrawn.collect();
        let race = race(plan, withdrawn.clone());
        let judge = Judge::new(&race).expect("the plan's rules were checked");
        let loads = plan.loads.len();
        let mut course = Course {
            plan,
            planned: (0..loads).map(|load| plan.trial_duration(load)).collect(),
            entries: 0,
            attempts: 0,
            took: vec![(0, Duration::ZERO); loads],
            steadying: Duration::ZERO,
            withdrawn,
            rounds: 0,
            standing: judge.standing(),
            race,
            judge,
            begun: BTreeMap::new(),
        };
        course.read(record);
        course
    }

    /// Reads what was added to the record.
    pub fn follow(&mut self, record: &Record) {
        let added = &record.entries[self.entries.min(record.entries.len())..];
        // An arm that leaves is taken out of all rounds, the first included.
        let changes_the_past = |entry: &Entry| match entry {
            Entry::ArmLeft { arm, .. } => !self.withdrawn.contains(arm),
            Entry::Trial(trial) => trial.slot.round < self.rounds,
            _ => false,
        };
        if added.iter().any(changes_the_past) {
            *self = Course::of(self.plan, record);
        } else {
            self.read(record);
        }
    }

    fn read(&mut self, record: &Record) {
        let added = &record.entries[self.entries..];
        self.entries = record.entries.len();
        for entry in added {
            match entry {
                Entry::Trial(trial) => self.take_in(trial),
                Entry::Void(_) => self.attempts += 1,
                Entry::Steady { elapsed_s, .. } => {
                    self.steadying += Duration::try_from_secs_f64(*elapsed_s).unwrap_or_default();
                }
                _ => {}
            }
        }
        self.close_rounds();
    }

    fn take_in(&mut self, trial: &Trial) {
        let Slot { load, round, arm } = trial.slot;
        self.attempts += 1;
        let (trials, time) = &mut self.took[load];
        *trials += 1;
        *time += trial.phases.total();
        let plan = self.plan;
        let rows = self.begun.entry(round).or_insert_with(|| Row::none(plan));
        let row = &mut rows[load];
        row.ran[arm] += 1;
        let value = plan.loads[load].objective.of(&trial.metrics);
        row.objective.add(arm, value);
        for (values, objective) in row.required.iter_mut().zip(required(plan)) {
            values.add(arm, objective.of(&trial.metrics));
        }
    }

    /// Judges the rounds that have become complete.
    fn close_rounds(&mut self) {
        while self
            .missing()
            .is_some_and(|mut slots| slots.next().is_none())
        {
            let Some(rows) = self.begun.remove(&self.rounds) else {
                return;
            };
            for (load, row) in self.race.loads.iter_mut().zip(rows) {
                load.rounds.push(row.objective.of_round());
                let tables = load.requirements.iter_mut();
                for (requirement, values) in tables.zip(row.required) {
                    requirement.rounds.push(values.of_round());
                }
            }
            let judged = self.judge.follow(&self.race);
            judged.expect("the record's values were checked");
            self.standing = self.judge.standing();
            self.rounds += 1;
        }
    }

    /// What comes next.
    pub fn next(&self) -> Next {
        let Some(mut missing) = self.missing() else {
            return Next::Done(stop_reason(&self.standing));
        };
        let slot = missing.next().expect("complete rounds are closed");
        if !self.begun.contains_key(&self.rounds) && self.is_time_spent() {
            return Next::Done(StopReason::TimeSpent);
        }
        Next::Trial(slot)
    }

    /// The trials that the round still needs, in the order they run; none after the last round.
    fn missing(&self) -> Option<impl Iterator<Item = Slot> + '_> {
        let (round, rows) = (self.rounds, self.begun.get(&self.rounds));
        let arms = self.standing.next.as_ref()?.iter().enumerate();
        let slots = arms.flat_map(move |(load, arms)| {
            let turns = self.plan.order(round, load, arms).into_iter().zip(0..);
            turns.flat_map(move |(order, turn)| {
                let left = order
                    .into_iter()
                    .filter(move |&arm| rows.is_none_or(|rows| rows[load].ran[arm] <= turn));
                left.map(move |arm| Slot { load, round, arm })
            })
        });
        Some(slots)
    }

    /// Complete rounds.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Where the race stands after them.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Trials so far, those that do not count included.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long the rest of the run takes at the most.
    pub fn at_most(&self) -> Duration {
        if self.standing.next.is_none() {
            return Duration::ZERO;
        }
        let round_time = self.round_time();
        let rounds_left = self.plan.rounds_at_most().saturating_sub(self.rounds);
        let rows = self.begun.get(&self.rounds).into_iter().flatten();
        let done = rows
            .enumerate()
            .map(|(load, row)| self.trial_time(load) * row.ran.iter().sum::<u32>());
        let by_rounds = (round_time * rounds_left).saturating_sub(done.sum());
        match self.plan.rules.time_budget_s {
            // A round that was begun in time is run to its end.
            Some(budget) => by_rounds
                .min(Duration::from_secs_f64(budget).saturating_sub(self.spent()) + round_time),
            None => by_rounds,
        }
    }

    /// True if another round would end after the budget of time. Two rounds are always run: fewer say
    /// nothing at all.
    fn is_time_spent(&self) -> bool {
        self.plan.rules.time_budget_s.is_some_and(|budget| {
            let after = self.spent() + self.round_time();
            self.rounds >= 2 && after > Duration::from_secs_f64(budget)
        })
    }

    /// How long the next round takes.
    fn round_time(&self) -> Duration {
        let loads = self.standing.next.iter().flatten().enumerate();
        let times = loads.map(|(load, arms)| {
            let trials = u32::try_from(arms.len()).unwrap_or(u32::MAX);
            self.trial_time(load) * trials * self.plan.loads[load].turns
        });
        times.sum()
    }

    /// How long a trial of a load takes: the mean of those that ran, or before what the load says.
    pub fn trial_time(&self, load: usize) -> Duration {
        match self.took[load] {
            (0, _) => self.planned[load].unwrap_or_default() + OVERHEAD,
            (trials, time) => time / trials,
        }
    }

    /// How long loads were run until they were steady, over all sittings.
    pub fn steadying(&self) -> Duration {
        self.steadying
    }

    /// Time that the trials took and what was run before them, over all sittings.
    fn spent(&self) -> Duration {
        let trials = self.took.iter().map(|(_, time)| *time);
        trials.sum::<Duration>() + self.steadying
    }
}

impl Row {
    /// One for each load of a plan, of which nothing has run.
    fn none(plan: &Plan) -> Vec<Row> {
        let arms = plan.arms.len();
        let row = Row {
            ran: vec![0; arms],
            objective: Values::none(arms),
            required: required(plan).map(|_| Values::none(arms)).collect(),
        };
        vec![row; plan.loads.len()]
    }
}

fn required(plan: &Plan) -> impl Iterator<Item = Objective> {
    let requirements = plan.rules.requirements.iter();
    requirements.map(|requirement| requirement.objective)
}

/// The race of a plan, before its first round.
fn race(plan: &Plan, withdrawn: Vec<usize>) -> Race {
    let loads = plan.loads.iter();
    let requirements = plan.rules.requirements.iter();
    let requirements: Vec<Requirement> = requirements
        .map(|requirement| Requirement {
            bound: if requirement.objective.higher_is_better() {
                Bound::AtLeast(requirement.at_least)
            } else {
                Bound::AtMost(1.0 / requirement.at_least)
            },
            rounds: Vec::new(),
        })
        .collect();
    Race {
        arms: plan.arms.len(),
        baseline: plan.baseline,
        loads: loads
            .map(|load| Load {
                weight: load.weight,
                better: better(load.objective.higher_is_better()),
                rounds: Vec::new(),
                requirements: requirements.clone(),
            })
            .collect(),
        withdrawn,
        rules: rules(plan),
    }
}

fn better(is_higher: bool) -> Better {
    if is_higher {
        Better::Higher
    } else {
        Better::Lower
    }
}

fn rules(plan: &Plan) -> Rules {
    let budget_rounds = plan.rounds_at_most() as usize;
    let defaults = Rules::default();
    Rules {
        margin: plan.rules.margin,
        confidence: plan.rules.confidence,
        design: match plan.rules.fixed_rounds {
            Some(rounds) => Design::FixedRounds(rounds as usize),
            None => Design::Sequential,
        },
        min_rounds: defaults.min_rounds.min(budget_rounds),
        budget_rounds,
        ..defaults
    }
}

/// `rounds[round][arm]` of one metric of one load, for the first so many rounds.
pub fn table(
    record: &Record,
    load: usize,
    rounds: u32,
    objective: Objective,
) -> Vec<Vec<Option<f64>>> {
    let arms = record.header.plan.arms.len();
    let mut table = vec![Values::none(arms); rounds as usize];
    for trial in record.trials().filter(|trial| trial.slot.load == load) {
        if let Some(row) = table.get_mut(trial.slot.round as usize) {
            row.add(trial.slot.arm, objective.of(&trial.metrics));
        }
    }
    table.into_iter().map(Values::of_round).collect()
}

fn stop_reason(standing: &Standing) -> StopReason {
    let Contest { verdict, .. } = standing.decisive();
    match verdict {
        Verdict::Undecided {
            because: Stopped::Hopeless,
            ..
        } => StopReason::Hopeless,
        Verdict::Undecided {
            because: Stopped::Budget,
            ..
        }
        | Verdict::Open => StopReason::RoundsSpent,
        _ => StopReason::Decided,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::{plan, record, trial};
    use crate::plan;
    use crate::trial::{VoidReason, VoidTrial};

    #[test]
    fn a_round_has_every_arm_once_in_an_order_of_its_own() {
        let plan = plan(4);
        let mut record = record(&plan);
        let mut orders = Vec::new();
        for _ in 0..3 {
            let mut order = Vec::new();
            for _ in 0..4 {
                let Next::Trial(slot) = next(&plan, &record) else {
                    panic!("not done")
                };
                order.push(slot.arm);
                record
                    .entries
                    .push(trial(slot, 100.0 + slot.arm as f64 * 1e-3));
            }
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
            orders.push(order);
        }
        assert!(orders.iter().any(|order| *order != orders[0]), "{orders:?}");
    }

    #[test]
    fn every_turn_of_a_round_has_every_arm_once_and_the_round_says_their_geometric_mean() {
        let mut plan = plan(3);
        plan.loads[0].turns = 2;
        let mut record = record(&plan);
        let mut order = Vec::new();
        for turn in 0..2_i32 {
            for _ in 0..3 {
                let Next::Trial(slot) = next(&plan, &record) else {
                    panic!("not done")
                };
                assert_eq!(slot.round, 0);
                order.push(slot.arm);
                let value = 4.0_f64.powi(turn) * (1.0 + slot.arm as f64);
                record.entries.push(trial(slot, value));
            }
        }
        for turn in order.chunks_mut(3) {
            turn.sort_unstable();
            assert_eq!(turn, [0, 1, 2]);
        }
        let row = &table(&record, 0, 1, Objective::Throughput)[0];
        for (value, expected) in row.iter().zip([2.0, 4.0, 6.0]) {
            assert!((value.unwrap() - expected).abs() < 1e-9, "{row:?}");
        }
        assert!(matches!(next(&plan, &record), Next::Trial(slot) if slot.round == 1));
    }

    #[test]
    fn a_record_cut_anywhere_goes_on_the_same() {
        let plan = plan(3);
        let mut whole = record(&plan);
        let mut slots = Vec::new();
        while let Next::Trial(slot) = next(&plan, &whole) {
            slots.push(slot);
            let noise = f64::from((slot.round * 7 + 3) % 5) * 0.01;
            whole
                .entries
                .push(trial(slot, 100.0 * (1.0 + noise) * (1.0 + slot.arm as f64)));
        }
        for (cut, &slot) in slots.iter().enumerate() {
            let mut part = whole.clone();
            part.entries.truncate(cut);
            assert_eq!(next(&plan, &part), Next::Trial(slot));
        }
    }

    #[test]
    fn large_differences_end_the_run_long_before_its_rounds_are_spent() {
        let plan = plan(2);
        let mut record = record(&plan);
        let mut trials = 0;
        let reason = loop {
            match next(&plan, &record) {
                Next::Trial(slot) => {
                    trials += 1;
                    let noise = f64::from((slot.round * 7 + 3) % 5) * 0.01;
                    let value = 100.0 * (1.0 + noise) * (1.0 + slot.arm as f64);
                    record.entries.push(trial(slot, value));
                }
                Next::Done(reason) => break reason,
            }
        };
        assert_eq!(reason, StopReason::Decided);
        assert!(trials <= 10, "{trials} trials for a factor of two");
    }

    #[test]
    fn an_arm_that_left_gets_no_more_trials() {
        let plan = plan(3);
        let mut record = record(&plan);
        record.entries.push(crate::record::Entry::ArmLeft {
            load: 0,
            arm: 1,
            reason: "the load failed".into(),
        });
        for _ in 0..6 {
            let Next::Trial(slot) = next(&plan, &record) else {
                panic!("not done")
            };
            assert_ne!(slot.arm, 1);
            record.entries.push(trial(slot, 100.0));
        }
    }

    #[test]
    fn no_round_is_begun_that_would_end_after_the_budget_of_time() {
        let mut plan = plan(2);
        plan.rules.time_budget_s = Some(1.0);
        let mut record = record(&plan);
        for _ in 0..4 {
            let Next::Trial(slot) = next(&plan, &record) else {
                panic!("two rounds always run")
            };
            record.entries.push(trial(slot, 100.0));
        }
        assert_eq!(next(&plan, &record), Next::Done(StopReason::TimeSpent));
    }

    #[test]
    fn runs_until_steady_count_into_the_budget_of_time() {
        let mut plan = plan(2);
        plan.rules.time_budget_s = Some(1000.0);
        let with = |elapsed_s| {
            let mut record = record(&plan);
            record.entries.push(Entry::Steady {
                load: 0,
                throughput_bytes_per_s: vec![1.0; 5],
                window: None,
                elapsed_s,
            });
            for _ in 0..4 {
                let Next::Trial(slot) = next(&plan, &record) else {
                    panic!("two rounds always run")
                };
                record.entries.push(trial(slot, 100.0));
            }
            next(&plan, &record)
        };
        assert!(matches!(with(100.0), Next::Trial(_)));
        assert_eq!(with(999.0), Next::Done(StopReason::TimeSpent));
    }

    /// The definition, slowly: from the first round on, judge the rounds so far and look for the first
    /// trial that the next one lacks.
    fn by_definition(plan: &Plan, record: &Record) -> Next {
        let left = |arm: &usize| record.arm_left(*arm).is_some();
        for round in 0.. {
            let mut race = race(plan, (0..plan.arms.len()).filter(left).collect());
            for (index, load) in race.loads.iter_mut().enumerate() {
                let objective = plan.loads[index].objective;
                load.rounds = table(record, index, round, objective);
                for (requirement, objective) in load.requirements.iter_mut().zip(required(plan)) {
                    requirement.rounds = table(record, index, round, objective);
                }
            }
            let standing = race.judge().unwrap();
            let Some(arms) = &standing.next else {
                return Next::Done(stop_reason(&standing));
            };
            for (load, arms) in arms.iter().enumerate() {
                for (turn, order) in plan.order(round, load, arms).into_iter().enumerate() {
                    for arm in order {
                        let slot = Slot { load, round, arm };
                        if record.trials().filter(|trial| trial.slot == slot).count() <= turn {
                            return Next::Trial(slot);
                        }
                    }
                }
            }
        }
        unreachable!("a race ends within its budget of rounds")
    }

    proptest! {
        #[test]
        fn who_follows_a_record_says_what_the_definition_says(
            arms in 2usize..5, loads in 1usize..3, turns in 1u32..3, is_required: bool,
            levels in prop::collection::vec(0.9f64..1.2, 4),
            noise in prop::collection::vec(0.95f64..1.05, 200),
            mishaps in prop::collection::vec(0u8..40, 200),
            looks in prop::collection::vec(any::<bool>(), 200),
        ) {
            let mut plan = plan(arms);
            plan.loads = vec![plan.loads[0].clone(); loads];
            plan.loads[0].turns = turns;
            if is_required {
                let objective = Objective::Mean;
                plan.rules.requirements.push(plan::Requirement { objective, at_least: 0.97 });
            }
            let mut record = record(&plan);
            let mut course = Course::of(&plan, &record);
            for step in 0..200 {
                let Next::Trial(slot) = by_definition(&plan, &record) else {
                    break;
                };
                record.entries.push(match mishaps[step] {
                    0 => Entry::ArmLeft { load: slot.load, arm: slot.arm, reason: "it failed".into() },
                    1 => Entry::Void(VoidTrial { slot, sequence: 0, reason: VoidReason::LoadFailed {
                        message: "it failed".into(),
                    } }),
                    _ => trial(slot, 1e8 * levels[slot.arm] * noise[step]),
                });
                if looks[step] {
                    course.follow(&record);
                    prop_assert_eq!(course.next(), by_definition(&plan, &record));
                    prop_assert_eq!(&course, &Course::of(&plan, &record));
                }
            }
        }
    }
}
