//! What comes next, in records small enough to see through.

use iosched_stats::Interval;
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
    // A round takes 20 s. The second is tried although it will not fit: one round alone says nothing.
    for (budget_s, trials) in [(20.0, 2), (25.0, 4), (40.0, 4), (59.0, 4), (60.0, 6)] {
        assert_eq!(trials_within(budget_s, &[]), trials, "{budget_s} s");
    }
}

/// The trials of a run of two arms with this budget, each of 10 s, after what has happened before.
fn trials_within(budget_s: f64, before: &[Entry]) -> usize {
    let mut plan = plan(2);
    plan.rules.time_budget_s = Some(budget_s);
    let mut record = record(&plan);
    record.entries.extend_from_slice(before);
    while let Next::Trial(slot) = next(&plan, &record) {
        record.entries.push(trial(slot, 100.0));
    }
    record.trials().count()
}

#[test]
fn all_that_takes_time_counts_into_the_budget() {
    let lost = VoidTrial {
        slot: Slot {
            load: 0,
            round: 0,
            arm: 0,
        },
        sequence: 0,
        reason: VoidReason::LoadFailed {
            message: "it failed".into(),
        },
        elapsed_s: 15.0,
    };
    let steady = Entry::Steady {
        load: 0,
        throughput_bytes_per_s: vec![1.0; 5],
        window: None,
        elapsed_s: 15.0,
    };
    for what in [
        Entry::Void(lost),
        Entry::Prepared { elapsed_s: 15.0 },
        steady,
    ] {
        for (budget_s, trials) in [(15.0, 0), (35.0, 2), (55.0, 4), (74.0, 4), (75.0, 6)] {
            let found = trials_within(budget_s, std::slice::from_ref(&what));
            assert_eq!(found, trials, "{budget_s} s after {what:?}");
        }
    }
}

/// Too few rounds say nothing, whatever the design; they are no reason to fall over either.
#[test]
fn a_run_whose_time_was_spent_early_is_judged_by_the_rounds_it_has() {
    for fixed_rounds in [None, Some(5)] {
        for rounds in 0..4 {
            let mut plan = plan(2);
            plan.rules.fixed_rounds = fixed_rounds;
            let mut record = record(&plan);
            for round in 0..rounds {
                for arm in 0..2 {
                    let slot = Slot {
                        load: 0,
                        round,
                        arm,
                    };
                    let value = 100.0 + f64::from(round * 2) + arm as f64;
                    record.entries.push(trial(slot, value));
                }
            }
            record.entries.push(Entry::Finished {
                at_unix_s: 0.0,
                stop: StopReason::TimeSpent,
                is_cut: true,
            });
            let (seen, standing) = standing_to_report(&plan, &record);
            assert_eq!(seen, rounds);
            let is_open = standing.decisive().verdict == Verdict::Open;
            assert_eq!(is_open, rounds < 2, "{rounds} of {fixed_rounds:?}");
        }
    }
}

#[test]
fn the_time_left_never_grows_where_there_is_a_budget() {
    let mut plan = plan(3);
    plan.rules.time_budget_s = Some(500.0);
    let mut record = record(&plan);
    let mut left = RunProgress::of(&plan, &record).at_most();
    assert!(left <= Duration::from_secs(500));
    while let Next::Trial(slot) = next(&plan, &record) {
        // Three times as long as planned.
        let Entry::Trial(mut slow) = trial(slot, 100.0 + f64::from(slot.round)) else {
            unreachable!("a trial is one")
        };
        slow.phases.load_ns *= 3;
        record.entries.push(Entry::Trial(slow));
        let now = RunProgress::of(&plan, &record).at_most();
        assert!(now <= left, "{now:?} after {left:?}");
        left = now;
    }
}

#[test]
fn what_a_finished_run_measured_is_all_read_although_it_lacks_an_arm_that_would_run_today() {
    let plan = plan(3);
    let mut record = record(&plan);
    for round in 0..4 {
        for arm in (0..3).filter(|&arm| round < 3 || arm > 0) {
            let slot = Slot {
                load: 0,
                round,
                arm,
            };
            record.entries.push(trial(slot, 100.0));
        }
    }
    assert_eq!(RunProgress::of(&plan, &record).rounds(), 3);
    let finished = |is_cut| Entry::Finished {
        at_unix_s: 0.0,
        stop: StopReason::Decided,
        is_cut,
    };
    record.entries.push(finished(false));
    assert_eq!(RunProgress::of(&plan, &record).rounds(), 4);
    *record.entries.last_mut().expect("the end") = finished(true);
    let whole = RunProgress::of(&plan, &record).rounds();
    assert_eq!(whole, 3, "the budget of time cut the fourth");
}

/// The definition, slowly: from the first round on, judge the rounds so far and look for the first
/// trial that the next one lacks.
fn by_definition(plan: &Plan, record: &Record) -> Next {
    let left = |arm: &usize| record.arm_left(*arm).is_some();
    let first = record.first_round();
    for round in first.. {
        let mut race = race(plan, record, (0..plan.arms.len()).filter(left).collect());
        for (index, load) in race.loads.iter_mut().enumerate() {
            let objective = plan.loads[index].objective;
            load.rounds = table(record, index, round - first, objective);
            for (requirement, objective) in load.requirements.iter_mut().zip(required(plan)) {
                requirement.rounds = table(record, index, round - first, objective);
            }
        }
        let standing = race.judge();
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

/// A trial whose number is its throughput with so few digits, or 0.
fn printed(mut entry: Entry, digits: u8) -> Entry {
    if let Entry::Trial(trial) = &mut entry {
        let unit = 10_f64.powi(8 - i32::from(digits % 4));
        let throughput = trial.metrics.throughput_bytes_per_s;
        let number = if digits == 9 { 0.0 } else { throughput };
        trial.metrics.number = Some((number / unit).round() * unit);
        trial.metrics.number_unit = Some(unit);
    }
    entry
}

proptest! {
    #[test]
    fn who_follows_a_record_says_what_the_definition_says(
        arms in 2usize..5, loads in 1usize..3, turns in 1u32..3, is_required: bool,
        is_printed: bool,
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
        if is_printed {
            plan.loads[0].objective = Objective::NumberHigher;
        }
        let mut record = record(&plan);
        let mut progress = RunProgress::of(&plan, &record);
        for step in 0..200 {
            let Next::Trial(slot) = by_definition(&plan, &record) else {
                break;
            };
            let is_begun = record.trials().any(|trial| trial.slot.round == slot.round);
            record.entries.push(match mishaps[step] {
                2 if !is_begun && record.lead_in() < 2 => Entry::LeadIn {
                    load: slot.load,
                    arm: slot.arm,
                    ratio: Interval::around(1.0, 0.0),
                    runs: record.lead_in() + 1,
                    round: slot.round,
                },
                0 => Entry::ArmLeft { load: slot.load, arm: slot.arm, reason: "it failed".into() },
                1 => Entry::Void(VoidTrial {
                    slot,
                    sequence: 0,
                    reason: VoidReason::LoadFailed { message: "it failed".into() },
                    elapsed_s: 1.0,
                }),
                _ => printed(trial(slot, 1e8 * levels[slot.arm] * noise[step]), mishaps[step]),
            });
            if looks[step] {
                progress.follow(&record);
                prop_assert_eq!(progress.next(), by_definition(&plan, &record));
                prop_assert_eq!(&progress, &RunProgress::of(&plan, &record));
            }
        }
    }
}
