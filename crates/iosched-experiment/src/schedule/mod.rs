//! Which trial is next: a function of the plan and the record, and of nothing else.
//!
//! A run that was interrupted goes on as if it had not been, and what the race decides after a
//! round does not depend on when anybody looked. See [`iosched_stats::race`] for the rules.
//!
//! A [`RunProgress`] follows a record while it grows and reads each line once: after ten thousand trials the
//! next one is found as fast as after ten. It knows nothing that the record does not say.

use std::collections::BTreeMap;
use std::time::Duration;

use iosched_stats::race::{
    Better, Bound, Contest, Design, Judge, Load, Race, Requirement, Rules, Scale, Standing, Verdict,
};

use crate::objective::Objective;
use crate::plan::{MIN_FIXED_ROUNDS, Plan, TRIAL_OVERHEAD};
use crate::record::{Entry, Record, StopReason, counted_from};
use crate::trial::{Slot, Trial};

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
    RunProgress::of(plan, record).next()
}

/// Where the race stands for a reader of the record, and after how many rounds that count: once the run has ended, what
/// is not decided is undecided, with its bound.
pub(crate) fn standing_to_report(plan: &Plan, record: &Record) -> (u32, Standing) {
    let RunProgress {
        rounds,
        standing,
        mut race,
        ..
    } = RunProgress::of(plan, record);
    let rounds = rounds.saturating_sub(record.first_round());
    let seen = rounds as usize;
    let is_over = record.stop_reason().is_some() && standing.next.is_some();
    if !is_over || seen < MIN_FIXED_ROUNDS as usize {
        return (rounds, standing);
    }
    race.rules.budget_rounds = seen;
    race.rules.min_rounds = race.rules.min_rounds.min(seen);
    if matches!(race.rules.design, Design::FixedRounds(_)) {
        race.rules.design = Design::FixedRounds(seen);
    }
    let standing = race.judge();
    (rounds, standing)
}

/// Where a run has got to.
#[derive(Debug, Clone, PartialEq)]
pub struct RunProgress<'a> {
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
    /// Time that went into what is neither that nor a trial that counts: preparing, void trials.
    besides: Duration,
    /// Runs before each trial that do not count.
    lead_in: u32,
    withdrawn: Vec<usize>,
    /// Complete rounds, all of which `race` has.
    rounds: u32,
    race: Race,
    judge: Judge,
    /// After those rounds.
    standing: Standing,
    /// What came in of the rounds after them.
    begun: BTreeMap<u32, Vec<RoundOfLoad>>,
}

/// A load's trials in a round.
#[derive(Debug, Clone, PartialEq)]
struct RoundOfLoad {
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

    /// What the round says of each arm: the geometric mean of its turns, or the mean where that is none.
    fn of_round(self) -> Vec<Option<f64>> {
        let mean = |values: Vec<f64>| match values[..] {
            [] => None,
            [value] => Some(value),
            _ if values.iter().any(|value| *value <= 0.0) => {
                Some(values.iter().sum::<f64>() / values.len() as f64)
            }
            _ => {
                let logs = values.iter().map(|value| value.ln());
                Some((logs.sum::<f64>() / values.len() as f64).exp())
            }
        };
        self.0.into_iter().map(mean).collect()
    }
}

impl<'a> RunProgress<'a> {
    /// Where the run of a record has got to.
    pub fn of(plan: &'a Plan, record: &Record) -> RunProgress<'a> {
        let withdrawn = (0..plan.arms.len()).filter(|&arm| record.arm_left(arm).is_some());
        let withdrawn: Vec<usize> = withdrawn.collect();
        let race = race(plan, record, withdrawn.clone());
        let judge = Judge::new(&race);
        let loads = plan.loads.len();
        let mut progress = RunProgress {
            plan,
            planned: (0..loads).map(|load| plan.trial_duration(load)).collect(),
            entries: 0,
            attempts: 0,
            took: vec![(0, Duration::ZERO); loads],
            steadying: Duration::ZERO,
            besides: Duration::ZERO,
            lead_in: 0,
            withdrawn,
            rounds: 0,
            standing: judge.standing(),
            race,
            judge,
            begun: BTreeMap::new(),
        };
        progress.read(record);
        progress
    }

    /// Reads what was added to the record.
    pub(crate) fn follow(&mut self, record: &Record) {
        let added = &record.entries[self.entries.min(record.entries.len())..];
        // An arm that leaves is taken out of all rounds, the first included.
        let changes_the_past = |entry: &Entry| match entry {
            Entry::ArmLeft { arm, .. } => !self.withdrawn.contains(arm),
            Entry::Trial(trial) => trial.slot.round < self.rounds || self.changes_measure(trial),
            Entry::LeadIn { .. } => true,
            _ => false,
        };
        if added.iter().any(changes_the_past) {
            *self = RunProgress::of(self.plan, record);
        } else {
            self.read(record);
        }
    }

    /// True if a trial changes by what its load's arms are compared ([`scale`]), or how coarse that is ([`unit`]).
    fn changes_measure(&self, trial: &Trial) -> bool {
        let load = trial.slot.load;
        let objective = self.plan.loads[load].objective;
        let race = &self.race.loads[load];
        let is_new = match race.scale {
            Scale::Ratio => objective
                .of(&trial.metrics)
                .is_some_and(|value| value <= 0.0),
            Scale::Difference { .. } => {
                self.race.loads[load].rounds.len() < ROUNDS_OF_SIZE as usize
            }
        };
        let unit = objective.unit(&trial.metrics);
        is_new || unit.is_some_and(|unit| race.unit.is_none_or(|known| unit < known))
    }

    fn read(&mut self, record: &Record) {
        // Who follows a record begins anew at a lead-in: what was read before counts.
        let added = &record.entries[self.entries..];
        let counted = counted_from(added);
        for (index, entry) in added.iter().enumerate() {
            match entry {
                Entry::Trial(trial) => {
                    self.count(trial);
                    if index >= counted {
                        self.take_in(trial);
                    }
                }
                Entry::Void(void) => {
                    self.attempts += 1;
                    self.besides += seconds(void.elapsed_s);
                }
                Entry::Finished { is_cut: false, .. } => self.close_begun_rounds(),
                Entry::Prepared { elapsed_s } => self.besides += seconds(*elapsed_s),
                Entry::LeadIn { runs, round, .. } => self.lead_in(*runs, *round),
                Entry::Steady { elapsed_s, .. } => self.steadying += seconds(*elapsed_s),
                _ => {}
            }
        }
        self.entries = record.entries.len();
        self.close_rounds();
    }

    fn count(&mut self, trial: &Trial) {
        self.attempts += 1;
        let (trials, time) = &mut self.took[trial.slot.load];
        *trials += 1;
        *time += trial.phases.total();
    }

    fn take_in(&mut self, trial: &Trial) {
        let Slot { load, round, arm } = trial.slot;
        let plan = self.plan;
        let rows = self
            .begun
            .entry(round)
            .or_insert_with(|| RoundOfLoad::none(plan));
        let row = &mut rows[load];
        row.ran[arm] += 1;
        let value = plan.loads[load].objective.of(&trial.metrics);
        row.objective.add(arm, value);
        for (values, objective) in row.required.iter_mut().zip(required(plan)) {
            values.add(arm, objective.of(&trial.metrics));
        }
    }

    /// Begins anew with longer trials: nothing of the rounds so far counts, but the time that they took.
    fn lead_in(&mut self, runs: u32, round: u32) {
        for load in 0..self.took.len() {
            self.planned[load] = Some(self.led_in(self.trial_time(load), runs));
            let (_, time) = std::mem::take(&mut self.took[load]);
            self.besides += time;
        }
        self.lead_in = runs;
        self.rounds = round;
    }

    /// How long something takes with so many runs before each trial, if it takes so long now.
    fn led_in(&self, now: Duration, runs: u32) -> Duration {
        now.mul_f64(f64::from(runs + 1) / f64::from(self.lead_in + 1))
    }

    /// Whether as many rounds as an answer takes at the least are left for trials that are led in by so many runs.
    pub(crate) fn can_begin_anew(&self, runs: u32) -> bool {
        let least = u32::try_from(self.race.rules.min_rounds).unwrap_or(u32::MAX);
        let arms = u32::try_from(self.plan.arms.len()).unwrap_or(u32::MAX);
        let loads = self.plan.loads.iter().enumerate();
        let round: Duration = loads
            .map(|(load, of)| self.trial_time(load) * arms * of.turns)
            .sum();
        let takes = self.led_in(round * least, runs);
        self.plan.rounds_at_most().saturating_sub(self.rounds) >= least
            && self.time_left().is_none_or(|left| left >= takes)
    }

    /// Judges the rounds that have become complete.
    fn close_rounds(&mut self) {
        while self
            .missing()
            .is_some_and(|mut slots| slots.next().is_none())
        {
            if !self.close_round() {
                return;
            }
        }
    }

    /// A run that is not cut ends between two rounds: what has begun by then was complete by the rules of
    /// that run, also if those of today would have run an arm longer.
    fn close_begun_rounds(&mut self) {
        while self.close_round() {}
    }

    /// Judges the next round, if it has begun.
    fn close_round(&mut self) -> bool {
        let Some(rows) = self.begun.remove(&self.rounds) else {
            return false;
        };
        for (load, row) in self.race.loads.iter_mut().zip(rows) {
            load.rounds.push(row.objective.of_round());
            let tables = load.requirements.iter_mut();
            for (requirement, values) in tables.zip(row.required) {
                requirement.rounds.push(values.of_round());
            }
        }
        self.judge.follow(&self.race);
        self.standing = self.judge.standing();
        self.rounds += 1;
        true
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

    /// The trials that the round still needs, in the order they run.
    pub fn left_in_round(&self) -> Vec<Slot> {
        match self.next() {
            Next::Trial(_) => self.missing().into_iter().flatten().collect(),
            Next::Done(_) => Vec::new(),
        }
    }

    /// How many trials the rest of the run has at the most.
    pub fn trials_at_most(&self) -> u32 {
        let left = self.left_in_round().len();
        if left == 0 {
            return 0;
        }
        let whole_rounds = (self.plan.rounds_at_most()).saturating_sub(self.rounds + 1);
        let of_whole = whole_rounds.saturating_mul(self.trials_per_round());
        u32::try_from(left)
            .unwrap_or(u32::MAX)
            .saturating_add(of_whole)
    }

    /// Complete rounds.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Where the race stands after them.
    pub(crate) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Trials so far, those that do not count included.
    pub(crate) fn attempts(&self) -> u32 {
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
        self.time_left()
            .map_or(by_rounds, |left| by_rounds.min(left))
    }

    /// The same, where something is known of it: a budget of time bounds it, or a whole round has run.
    pub(crate) fn foreseen(&self) -> Option<Duration> {
        let is_known = self.rounds > 0 || self.plan.rules.time_budget_s.is_some();
        is_known.then(|| self.at_most())
    }

    /// What is left of the budget of time, if there is one.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let budget = self.plan.rules.time_budget()?;
        Some(budget.saturating_sub(self.spent()))
    }

    /// True if another round would end after the budget of time, as far as the rounds before it tell. Before
    /// there are two, which say nothing at all, it is tried as long as there is time.
    fn is_time_spent(&self) -> bool {
        let expected = match self.rounds {
            0 | 1 => Duration::ZERO,
            _ => self.round_time(),
        };
        self.time_left()
            .is_some_and(|left| left.is_zero() || left < expected)
    }

    /// Trials of a whole round of the arms that still run.
    fn trials_per_round(&self) -> u32 {
        let loads = self.standing.next.iter().flatten().enumerate();
        let trials = loads.map(|(load, arms)| {
            u32::try_from(arms.len()).unwrap_or(u32::MAX) * self.plan.loads[load].turns
        });
        trials.sum()
    }

    /// How long the next round takes; none if there is none.
    pub fn round_time(&self) -> Duration {
        let loads = self.standing.next.iter().flatten().enumerate();
        let times = loads.map(|(load, arms)| {
            let trials = u32::try_from(arms.len()).unwrap_or(u32::MAX);
            self.trial_time(load) * trials * self.plan.loads[load].turns
        });
        times.sum()
    }

    /// How long a trial of a load takes: the mean of those that ran, or before what the load says.
    pub(crate) fn trial_time(&self, load: usize) -> Duration {
        match self.took[load] {
            (0, _) => self.planned[load].unwrap_or_default() + TRIAL_OVERHEAD,
            (trials, time) => time / trials,
        }
    }

    /// How long loads were run until they were steady, over all sittings.
    pub(crate) fn steadying(&self) -> Duration {
        self.steadying
    }

    /// Time that the trials took and what was run before and between them, over all sittings.
    pub fn spent(&self) -> Duration {
        let trials = self.took.iter().map(|(_, time)| *time);
        trials.sum::<Duration>() + self.steadying + self.besides
    }
}

/// Seconds of a record, which may be anybody's.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

impl RoundOfLoad {
    /// One for each load of a plan, of which nothing has run.
    fn none(plan: &Plan) -> Vec<RoundOfLoad> {
        let arms = plan.arms.len();
        let row = RoundOfLoad {
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
fn race(plan: &Plan, record: &Record, withdrawn: Vec<usize>) -> Race {
    let loads = plan.loads.iter().enumerate();
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
            .map(|(index, load)| Load {
                weight: load.weight,
                better: better(load.objective.higher_is_better()),
                scale: scale(plan, record, index),
                rounds: Vec::new(),
                unit: unit(record, index, load.objective),
                requirements: requirements.clone(),
            })
            .collect(),
        withdrawn,
        rules: rules(plan, record.first_round()),
    }
}

/// By what the arms of a load are compared, all of them alike: ratios, unless a number of any trial has none. How large the numbers are
/// is that of the arm with the largest in the first rounds, before anything is decided.
pub(crate) fn scale(plan: &Plan, record: &Record, load: usize) -> Scale {
    let objective = plan.loads[load].objective;
    let trials = || record.trials().filter(|trial| trial.slot.load == load);
    let mut values = trials().filter_map(|trial| objective.of(&trial.metrics));
    if values.all(|value| value > 0.0) {
        return Scale::Ratio;
    }
    let first = table(record, load, ROUNDS_OF_SIZE, objective);
    let size = |arm: usize| {
        let values = first.iter().filter_map(|row| row[arm]);
        let sizes: Vec<f64> = values.map(f64::abs).collect();
        sizes.iter().sum::<f64>() / sizes.len().max(1) as f64
    };
    let size = (0..plan.arms.len()).map(size).fold(0.0, f64::max);
    let unit = unit(record, load, objective).unwrap_or(1.0);
    Scale::Difference {
        size: size.max(unit),
    }
}

/// Nothing is decided before so many.
const ROUNDS_OF_SIZE: u32 = 3;

/// The unit of the last digit of a load's numbers, by the one with the most digits: many programs leave out zeros at the end.
fn unit(record: &Record, load: usize, objective: Objective) -> Option<f64> {
    let trials = record.trials().filter(|trial| trial.slot.load == load);
    let units = trials.filter_map(|trial| objective.unit(&trial.metrics));
    units.reduce(f64::min)
}

fn better(is_higher: bool) -> Better {
    if is_higher {
        Better::Higher
    } else {
        Better::Lower
    }
}

/// The rules of a plan whose rounds count from this one on.
fn rules(plan: &Plan, first_round: u32) -> Rules {
    let left = |rounds: u32| rounds.saturating_sub(first_round).max(MIN_FIXED_ROUNDS) as usize;
    let budget_rounds = left(plan.rounds_at_most());
    let defaults = Rules::default();
    Rules {
        margin: plan.rules.margin,
        confidence: plan.rules.confidence,
        design: match plan.rules.fixed_rounds {
            Some(rounds) if plan.rules.is_unpaired => Design::Unpaired(left(rounds)),
            Some(rounds) => Design::FixedRounds(left(rounds)),
            None => Design::Sequential,
        },
        min_rounds: defaults.min_rounds.min(budget_rounds),
        budget_rounds,
        ..defaults
    }
}

/// `rounds[round][arm]` of one metric of one load, for the first so many rounds that count.
pub fn table(
    record: &Record,
    load: usize,
    rounds: u32,
    objective: Objective,
) -> Vec<Vec<Option<f64>>> {
    let arms = record.header.plan.arms.len();
    let mut table = vec![Values::none(arms); rounds as usize];
    for trial in record.trials().filter(|trial| trial.slot.load == load) {
        let round = trial.slot.round.checked_sub(record.first_round());
        if let Some(row) = round.and_then(|round| table.get_mut(round as usize)) {
            row.add(trial.slot.arm, objective.of(&trial.metrics));
        }
    }
    table.into_iter().map(Values::of_round).collect()
}

fn stop_reason(standing: &Standing) -> StopReason {
    let Contest { verdict, .. } = standing.decisive();
    match verdict {
        Verdict::Undecided { .. } | Verdict::Open => StopReason::RoundsSpent,
        _ => StopReason::Decided,
    }
}

#[cfg(test)]
mod tests;
