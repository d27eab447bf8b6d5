//! Which trial is next: a function of the plan and the record, and of nothing else.
//!
//! A run that was interrupted goes on as if it had not been, and what the race decides after a
//! round does not depend on when anybody looked. See [`iosched_stats::race`] for the rules.

use std::time::Duration;

use iosched_stats::race::{Better, Bound, Design, Load, Race, Requirement, Rules, Standing};

use crate::plan::Plan;
use crate::record::{Record, StopReason};
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
    for round in 0.. {
        let standing = standing(plan, record, round);
        let Some(arms) = &standing.next else {
            return Next::Done(stop_reason(&standing));
        };
        let mut missing = slots(plan, record, round, arms).filter(|s| record.trial(*s).is_none());
        let is_begun = record.trials().any(|trial| trial.slot.round == round);
        if let Some(slot) = missing.next() {
            if !is_begun && is_time_spent(plan, record, round, arms) {
                return Next::Done(StopReason::TimeSpent);
            }
            return Next::Trial(slot);
        }
    }
    unreachable!("a race ends within its budget of rounds")
}

/// Where the race stands after the first `rounds` rounds of the record.
pub fn standing(plan: &Plan, record: &Record, rounds: u32) -> Standing {
    race(plan, record, rounds)
        .judge()
        .expect("the plan's rules and the record's values were checked")
}

/// Where the race stands after all rounds that are complete.
pub fn standing_now(plan: &Plan, record: &Record) -> (u32, Standing) {
    let mut rounds = 0;
    loop {
        let standing = standing(plan, record, rounds);
        let is_complete = standing.next.as_ref().is_some_and(|arms| {
            slots(plan, record, rounds, arms).all(|slot| record.trial(slot).is_some())
                && record.trials().any(|trial| trial.slot.round == rounds)
        });
        if !is_complete {
            return (rounds, standing);
        }
        rounds += 1;
    }
}

/// Where the race stands for a reader of the record: when time ran out, what is not decided is
/// undecided, with its bound.
pub fn standing_to_report(plan: &Plan, record: &Record) -> (u32, Standing) {
    let (rounds, standing) = standing_now(plan, record);
    if record.stop_reason() != Some(StopReason::TimeSpent) {
        return (rounds, standing);
    }
    let mut race = race(plan, record, rounds);
    race.rules.budget_rounds = rounds as usize;
    race.rules.min_rounds = race.rules.min_rounds.min(rounds as usize);
    let standing = race.judge().expect("the same race with another budget");
    (rounds, standing)
}

/// True if the round of this slot has no trial left to run.
pub fn is_round_complete(plan: &Plan, record: &Record, slot: Slot) -> bool {
    match next(plan, record) {
        Next::Trial(other) => other.round > slot.round,
        Next::Done(_) => true,
    }
}

/// How long the rest of the run takes at the most.
pub fn at_most(plan: &Plan, record: &Record) -> Duration {
    let (round, standing) = standing_now(plan, record);
    let Some(arms) = &standing.next else {
        return Duration::ZERO;
    };
    let rounds_left = plan.rounds_at_most().saturating_sub(round);
    let done_of_round: Duration = record
        .trials()
        .filter(|trial| trial.slot.round == round)
        .map(|trial| trial_time(plan, record, trial.slot.load))
        .sum();
    let by_rounds = (round_time(plan, record, arms) * rounds_left).saturating_sub(done_of_round);
    match plan.rules.time_budget_s {
        // A round that was begun in time is run to its end.
        Some(budget) => by_rounds.min(
            Duration::from_secs_f64(budget).saturating_sub(spent(record))
                + round_time(plan, record, arms),
        ),
        None => by_rounds,
    }
}

/// The slots of a round in the order they run; arms that left are not in it.
fn slots<'a>(
    plan: &'a Plan,
    record: &'a Record,
    round: u32,
    arms: &'a [Vec<usize>],
) -> impl Iterator<Item = Slot> + 'a {
    arms.iter().enumerate().flat_map(move |(load, arms)| {
        plan.order(round, load, arms)
            .into_iter()
            .filter(|&arm| record.arm_left(arm).is_none())
            .map(move |arm| Slot { load, round, arm })
    })
}

/// The race that the first `rounds` rounds of the record make.
fn race(plan: &Plan, record: &Record, rounds: u32) -> Race {
    let arms = plan.arms.len();
    let loads = plan
        .loads
        .iter()
        .enumerate()
        .map(|(index, load)| Load {
            weight: load.weight,
            better: better(load.objective.higher_is_better()),
            rounds: objective_table(plan, record, index, rounds),
            requirements: plan
                .rules
                .requirements
                .iter()
                .map(|requirement| {
                    let objective = requirement.objective;
                    Requirement {
                        bound: if objective.higher_is_better() {
                            Bound::AtLeast(requirement.at_least)
                        } else {
                            Bound::AtMost(1.0 / requirement.at_least)
                        },
                        rounds: table(record, index, rounds, arms, |trial| {
                            objective.of(&trial.metrics)
                        }),
                    }
                })
                .collect(),
        })
        .collect();
    Race {
        arms,
        baseline: plan.baseline,
        loads,
        withdrawn: (0..arms)
            .filter(|&arm| record.arm_left(arm).is_some())
            .collect(),
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

/// `rounds[round][arm]` of what decides a load.
pub fn objective_table(
    plan: &Plan,
    record: &Record,
    load: usize,
    rounds: u32,
) -> Vec<Vec<Option<f64>>> {
    let objective = plan.loads[load].objective;
    table(record, load, rounds, plan.arms.len(), |trial| {
        objective.of(&trial.metrics)
    })
}

/// `rounds[round][arm]` of one metric of one load.
fn table(
    record: &Record,
    load: usize,
    rounds: u32,
    arms: usize,
    metric: impl Fn(&Trial) -> Option<f64>,
) -> Vec<Vec<Option<f64>>> {
    let mut table = vec![vec![None; arms]; rounds as usize];
    for trial in record.trials().filter(|trial| trial.slot.load == load) {
        if let Some(row) = table.get_mut(trial.slot.round as usize) {
            row[trial.slot.arm] = metric(trial);
        }
    }
    table
}

fn stop_reason(standing: &Standing) -> StopReason {
    use iosched_stats::race::{Stopped, Verdict};
    match &standing.decisive().verdict {
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

/// True if another round would end after the budget of time. Two rounds are always run: fewer say
/// nothing at all.
fn is_time_spent(plan: &Plan, record: &Record, round: u32, arms: &[Vec<usize>]) -> bool {
    plan.rules.time_budget_s.is_some_and(|budget| {
        let after = spent(record) + round_time(plan, record, arms);
        round >= 2 && after > Duration::from_secs_f64(budget)
    })
}

/// How long a round of these arms (per load) takes.
fn round_time(plan: &Plan, record: &Record, arms: &[Vec<usize>]) -> Duration {
    arms.iter()
        .enumerate()
        .map(|(load, arms)| {
            let trials = u32::try_from(arms.len()).unwrap_or(u32::MAX);
            trial_time(plan, record, load) * trials
        })
        .sum()
}

/// How long a trial of a load takes: what the load says, or else the mean of those that ran.
pub fn trial_time(plan: &Plan, record: &Record, load: usize) -> Duration {
    if let Some(duration) = plan.trial_duration(load) {
        return duration + OVERHEAD;
    }
    let ran = record.trials().filter(|trial| trial.slot.load == load);
    let times: Vec<Duration> = ran.map(|trial| trial.phases.total()).collect();
    let count = u32::try_from(times.len()).unwrap_or(u32::MAX);
    if count == 0 {
        return OVERHEAD;
    }
    times.iter().sum::<Duration>() / count
}

/// Time that the trials of the record took, over all sittings.
fn spent(record: &Record) -> Duration {
    record.trials().map(|trial| trial.phases.total()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{plan, record, trial};

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
}
