//! What a race does with tables small enough to see through.

use super::*;

/// A table of rounds with small, different deviations, so that no variance is zero.
fn rounds(levels: &[f64], count: usize) -> Vec<Vec<Option<f64>>> {
    const WIGGLE: [f64; 7] = [0.0, 0.011, -0.007, 0.004, -0.012, 0.009, -0.003];
    (0..count)
        .map(|round| {
            let drift = 1.0 + 0.05 * round as f64;
            let value = |(arm, level): (usize, &f64)| {
                let wiggle = WIGGLE[(round * 3 + arm * 5 + round * arm) % WIGGLE.len()];
                Some(level * drift * (1.0 + wiggle))
            };
            levels.iter().enumerate().map(value).collect()
        })
        .collect()
}

fn race(loads: Vec<Load>) -> Race {
    Race {
        arms: loads[0].rounds.first().map_or(2, Vec::len),
        baseline: 0,
        loads,
        withdrawn: Vec::new(),
        rules: Rules::default(),
    }
}

fn one_load(levels: &[f64], count: usize) -> Race {
    let mut race = race(vec![Load::new(Better::Higher, rounds(levels, count))]);
    race.arms = levels.len();
    race
}

fn verdict(race: &Race) -> Verdict {
    race.judge().decisive().verdict.clone()
}

#[test]
fn nothing_is_said_before_the_least_number_of_rounds() {
    for count in 0..3 {
        let race = one_load(&[100.0, 300.0], count);
        let standing = race.judge();
        assert_eq!(standing.decisive().verdict, Verdict::Open);
        assert_eq!(standing.next, Some(vec![vec![0, 1]]));
    }
}

#[test]
fn a_clear_winner_is_named_and_the_ratio_is_said_in_the_metric() {
    let standing = one_load(&[100.0, 160.0, 90.0], 5).judge();
    let contest = standing.decisive();
    assert_eq!(contest.verdict, Verdict::Winner { arm: 1 });
    assert_eq!(standing.next, None);
    let ratio = contest.arms[1].to_baseline.unwrap();
    assert!(ratio.contains(1.6), "{ratio:?}");
    assert!(ratio.lower > 1.5 && ratio.upper < 1.7, "{ratio:?}");
    let ArmState::Worse { than, ratio, .. } = contest.arms[2].place else {
        panic!("{:?}", contest.arms[2]);
    };
    assert_eq!(than, 1);
    assert!(ratio.contains(90.0 / 160.0), "{ratio:?}");
}

#[test]
fn lower_is_better_turns_the_race_round_but_not_the_ratios() {
    let mut race = one_load(&[100.0, 160.0], 5);
    race.loads[0].better = Better::Lower;
    let standing = race.judge();
    assert_eq!(standing.decisive().verdict, Verdict::Winner { arm: 0 });
    assert!(standing.decisive().ratio(1, 0).unwrap().contains(1.6));
    assert!(standing.decisive().ratio(0, 1).unwrap().contains(1.0 / 1.6));
}

#[test]
fn drift_that_all_arms_share_does_not_widen_the_intervals() {
    // rounds() drifts by 5 % a round; the deviations of the arms are about 1 %.
    let contest = one_load(&[100.0, 100.0], 12).judge();
    let ratio = contest.decisive().arms[1].to_baseline.unwrap();
    assert!(ratio.upper / ratio.lower < 1.04, "{ratio:?}");
}

#[test]
fn equal_arms_are_proven_equal_when_the_noise_permits() {
    let race = one_load(&[100.0, 100.0, 70.0], 30);
    match verdict(&race) {
        Verdict::Equal { arms, within } => {
            assert_eq!(arms, [0, 1]);
            assert!(within <= 1.02);
        }
        other => panic!("{other:?}"),
    }
}

/// Both beat the baseline; which is better takes longer to know than it is worth.
#[test]
fn two_arms_less_than_a_margin_apart_are_not_run_until_they_are_separated() {
    let levels = [100.0, 160.0, 162.0];
    let ended = (3..30).find_map(|count| match verdict(&one_load(&levels, count)) {
        Verdict::Open => None,
        verdict => Some((count, verdict)),
    });
    let (rounds, verdict) = ended.expect("it ends");
    let Verdict::NearBest {
        arms,
        among,
        within,
    } = verdict
    else {
        panic!("{verdict:?} after {rounds}");
    };
    assert_eq!((arms, among), (vec![2], vec![1, 2]));
    assert!(within <= 1.02, "{within}");
    let told_apart = (rounds..30).find(|&count| {
        let standing = one_load(&levels, count).judge();
        standing.decisive().is_surely_better(2, 1)
    });
    assert!(
        told_apart.is_none_or(|later| later > rounds),
        "{told_apart:?}"
    );
}

#[test]
fn the_baseline_is_near_the_best_without_being_better_than_anything() {
    let mut race = one_load(&[100.0, 99.0], 6);
    race.rules.budget_rounds = 6;
    let standing = race.judge();
    let contest = standing.decisive();
    let Verdict::NearBest { arms, .. } = &contest.verdict else {
        panic!("{contest:?}");
    };
    assert_eq!(*arms, [0]);
    assert_eq!(contest.choice(0, &[None, None]), Some(0));
}

#[test]
fn nothing_is_near_the_best_that_is_not_surely_better_than_the_baseline() {
    let mut race = one_load(&[100.0, 101.0], 6);
    race.rules.budget_rounds = 6;
    let standing = race.judge();
    let contest = standing.decisive();
    let is_better = contest.is_surely_better(1, 0);
    let is_near = matches!(&contest.verdict, Verdict::NearBest { arms, .. } if arms.contains(&1));
    assert!(!is_near || is_better, "{contest:?}");
}

#[test]
fn constant_data_are_proven_equal_and_not_proven_different_by_rounding() {
    let same = vec![vec![Some(500.0), Some(500.0)]; 4];
    let race_same = race(vec![Load::new(Better::Higher, same)]);
    assert!(matches!(verdict(&race_same), Verdict::Equal { .. }));
    let rounded = vec![vec![Some(500.0), Some(500.1)]; 4];
    let race_rounded = race(vec![Load::new(Better::Higher, rounded)]);
    assert!(matches!(verdict(&race_rounded), Verdict::Equal { .. }));
}

#[test]
fn a_spent_budget_is_undecided_with_its_bound_and_the_rounds_it_would_take() {
    let mut race = one_load(&[100.0, 100.6], 4);
    race.rules.budget_rounds = 4;
    race.rules.margin = 1.001;
    match verdict(&race) {
        Verdict::Undecided {
            arms,
            within,
            rounds_needed,
        } => {
            assert_eq!(arms, [0, 1]);
            assert!(within > 1.005 && within < 1.5, "{within}");
            assert!(rounds_needed.unwrap() > 4);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_an_arm_may_cost_is_the_most_that_one_which_remains_may_be_better() {
    for better in [Better::Higher, Better::Lower] {
        let mut race = one_load(&[100.0, 100.6, 90.0], 4);
        race.rules.budget_rounds = 4;
        race.rules.margin = 1.001;
        race.loads[0].better = better;
        let contest = race.judge().loads[0].clone();
        for arm in 0..3 {
            let others = contest.remaining().filter(|&other| other != arm);
            let costs = others.map(|other| match better {
                Better::Higher => contest.ratio(other, arm).unwrap().upper,
                Better::Lower => 1.0 / contest.ratio(other, arm).unwrap().lower,
            });
            let most = costs.fold(1.0, f64::max);
            assert_eq!(contest.most_cost(arm), Some(most), "{better:?}, {arm}");
        }
    }
    let once = one_load(&[100.0, 100.6], 1);
    assert_eq!(once.judge().loads[0].most_cost(0), None);
}

#[test]
fn what_may_cost_more_than_the_margin_takes_the_whole_budget() {
    let noisy = |round: usize| {
        let swing = if round.is_multiple_of(2) { 1.3 } else { 0.77 };
        vec![Some(100.0), Some(100.0 * swing)]
    };
    let table = (0..12).map(noisy).collect();
    let mut race = race(vec![Load::new(Better::Higher, table)]);
    assert_eq!(verdict(&race), Verdict::Open);
    race.rules.budget_rounds = 12;
    assert!(matches!(verdict(&race), Verdict::Undecided { .. }));
}

#[test]
fn a_resumed_run_is_judged_as_an_uninterrupted_one() {
    // The fold has no state but the table: half the table and then the rest is the table.
    let whole = one_load(&[100.0, 108.0, 95.0], 9);
    let mut resumed = whole.clone();
    let rest = resumed.loads[0].rounds.split_off(4);
    resumed.judge();
    resumed.loads[0].rounds.extend(rest);
    assert_eq!(resumed.judge(), whole.judge());
}

#[test]
fn an_arm_that_left_stays_out_and_keeps_its_reason() {
    let mut race = one_load(&[100.0, 160.0, 90.0, 158.0], 6);
    for round in &mut race.loads[0].rounds[4..] {
        round[2] = None;
    }
    let standing = race.judge();
    let contest = standing.decisive();
    assert!(matches!(contest.arms[2].place, ArmState::Worse { after, .. } if after <= 4));
    assert_eq!(contest.arms[2].rounds, 4);
}

#[test]
fn a_withdrawn_arm_neither_wins_nor_drives_out() {
    let mut race = one_load(&[100.0, 101.0, 300.0], 4);
    race.withdrawn = vec![2];
    let standing = race.judge();
    let contest = standing.decisive();
    assert_eq!(contest.arms[2].place, ArmState::Withdrawn);
    assert_eq!(contest.arms[0].place, ArmState::Remaining);
    assert_eq!(standing.next, Some(vec![vec![0, 1]]));
    race.withdrawn = vec![1, 2];
    assert_eq!(verdict(&race), Verdict::Alone { arm: 0 });
    race.withdrawn = vec![0, 1, 2];
    assert_eq!(verdict(&race), Verdict::Nobody);
}

#[test]
fn what_was_rounded_when_it_was_printed_widens_the_interval() {
    // 3.53 s and 3.45 s.
    let table = vec![vec![Some(4.0), Some(3.0)]; 20];
    let contest = |unit: Option<f64>| {
        let load = Load {
            unit,
            ..Load::new(Better::Lower, table.clone())
        };
        let mut race = race(vec![load]);
        race.rules.budget_rounds = 20;
        race.judge().loads.remove(0)
    };
    assert_eq!(contest(None).verdict, Verdict::Winner { arm: 1 });
    let rounded = contest(Some(1.0));
    let ratio = rounded.ratio(1, 0).unwrap();
    assert!(
        ratio.contains(3.45 / 3.53) && ratio.lower > 0.5,
        "{ratio:?}"
    );
    let Verdict::Undecided { rounds_needed, .. } = rounded.verdict else {
        panic!("{:?}", rounded.verdict)
    };
    assert_eq!(rounds_needed, None, "rounds do not help");
}

#[test]
fn a_metric_that_is_best_at_zero_is_compared_by_differences() {
    let contest = |levels: [f64; 3]| {
        let round = |round: u32| {
            let noise = f64::from(round % 3);
            let value = |level: f64| Some(if level > 0.0 { level + noise } else { 0.0 });
            levels.map(value).to_vec()
        };
        let load = Load {
            scale: Scale::Difference { size: 81.0 },
            unit: Some(1.0),
            ..Load::new(Better::Lower, (0..12).map(round).collect())
        };
        race(vec![load]).judge().loads.remove(0)
    };
    let won = contest([80.0, 0.0, 80.0]);
    assert_eq!(won.verdict, Verdict::Winner { arm: 1 });
    assert!(won.ratio(1, 0).unwrap().contains(-81.0), "{won:?}");
    assert_eq!(won.most_cost(1), Some(0.0));
    let equal = contest([0.0, 0.0, 80.0]);
    assert!(
        matches!(&equal.verdict, Verdict::Equal { arms, within } if arms == &[0, 1] && *within <= 2.0),
        "{equal:?}"
    );
}

#[test]
fn void_trials_are_gaps_not_values() {
    let mut race = one_load(&[100.0, 160.0], 7);
    race.loads[0].rounds[1][0] = None;
    race.loads[0].rounds[3][1] = None;
    let standing = race.judge();
    assert_eq!(standing.decisive().verdict, Verdict::Winner { arm: 1 });
    assert_eq!(standing.decisive().arms[0].rounds, 6);
}

#[test]
fn an_arm_that_misses_a_requirement_cannot_win() {
    let mut race = one_load(&[100.0, 160.0, 120.0], 6);
    race.loads[0].requirements.push(Requirement {
        bound: Bound::AtMost(1.1),
        rounds: rounds(&[5.0, 9.0, 5.1], 6),
    });
    let standing = race.judge();
    let contest = standing.decisive();
    assert!(matches!(
        contest.arms[1].place,
        ArmState::Disqualified { requirement: 0, .. }
    ));
    assert_eq!(contest.verdict, Verdict::Winner { arm: 2 });
}

#[test]
fn over_all_loads_requirements_are_counted_through() {
    let mut first = Load::new(Better::Higher, rounds(&[100.0, 160.0], 6));
    first.requirements.push(Requirement {
        bound: Bound::AtMost(1.1),
        rounds: rounds(&[5.0, 5.0], 6),
    });
    let mut second = Load::new(Better::Higher, rounds(&[100.0, 160.0], 6));
    second.requirements.push(Requirement {
        bound: Bound::AtLeast(0.9),
        rounds: rounds(&[5.0, 3.0], 6),
    });
    let standing = race(vec![first, second]).judge();
    let missed = |contest: &Contest| match contest.arms[1].place {
        ArmState::Disqualified { requirement, .. } => Some(requirement),
        _ => None,
    };
    assert_eq!(missed(&standing.loads[0]), None);
    assert_eq!(missed(&standing.loads[1]), Some(0));
    assert_eq!(missed(standing.overall.as_ref().unwrap()), Some(1));
    assert_eq!(standing.decisive().verdict, Verdict::Winner { arm: 0 });
}

#[test]
fn while_a_requirement_is_unsettled_nobody_is_driven_out_by_it_and_the_baseline_runs() {
    let mut race = one_load(&[100.0, 160.0, 200.0], 4);
    race.loads[0].requirements.push(Requirement {
        bound: Bound::AtMost(1.1),
        rounds: rounds(&[5.0, 5.0, 5.5], 4), // arm 2 sits on the bound
    });
    let standing = race.judge();
    let contest = standing.decisive();
    assert_eq!(contest.verdict, Verdict::Open);
    assert_eq!(contest.arms[1].place, ArmState::Remaining);
    assert!(matches!(
        contest.arms[0].place,
        ArmState::Worse { than: 1, .. }
    ));
    assert_eq!(standing.next, Some(vec![vec![0, 1, 2]]));
}

#[test]
fn several_loads_have_their_own_verdicts_and_one_over_all() {
    let first = Load::new(Better::Higher, rounds(&[100.0, 160.0], 5));
    let second = Load::new(Better::Lower, rounds(&[10.0, 12.0], 5));
    let mut race = race(vec![first, second]);
    let standing = race.judge();
    assert_eq!(standing.loads[0].verdict, Verdict::Winner { arm: 1 });
    assert_eq!(standing.loads[1].verdict, Verdict::Winner { arm: 0 });
    let overall = standing.overall.as_ref().unwrap();
    assert_eq!(overall.verdict, Verdict::Winner { arm: 1 });
    // The square root of 1.6 / 1.2, as both weigh the same.
    let ratio = overall.ratio(1, 0).unwrap();
    assert!(ratio.contains((1.6_f64 / 1.2).sqrt()), "{ratio:?}");
    race.loads[1].weight = 9.0;
    assert_eq!(verdict(&race), Verdict::Winner { arm: 0 });
}

#[test]
fn until_every_load_goes_on_while_one_load_is_open() {
    let first = Load::new(Better::Higher, rounds(&[100.0, 300.0], 5));
    let second = Load::new(Better::Higher, rounds(&[100.0, 101.5], 5));
    let mut race = race(vec![first, second]);
    race.rules.hopeless = 0.0;
    let standing = race.judge();
    assert_eq!(standing.loads[1].verdict, Verdict::Open);
    assert_eq!(standing.next, None);
    race.rules.until = Until::EveryLoad;
    let standing = race.judge();
    assert_eq!(standing.next, Some(vec![vec![], vec![0, 1]]));
}

#[test]
fn a_fixed_design_looks_once_at_its_end() {
    let mut race = one_load(&[100.0, 160.0], 4);
    race.rules.design = Design::FixedRounds(5);
    assert_eq!(verdict(&race), Verdict::Open);
    race.loads[0].rounds = rounds(&[100.0, 160.0], 5);
    assert_eq!(verdict(&race), Verdict::Winner { arm: 1 });
}

#[test]
fn the_baseline_stays_among_equals_and_otherwise_the_cheapest() {
    let race = one_load(&[70.0, 100.0, 100.0], 30);
    let standing = race.judge();
    let contest = standing.decisive();
    assert!(matches!(&contest.verdict, Verdict::Equal { arms, .. } if arms == &[1, 2]));
    assert_eq!(
        contest.choice(0, &[Some(1.0), Some(9.0), Some(8.0)]),
        Some(2)
    );
    assert_eq!(contest.choice(0, &[Some(1.0), Some(9.0), None]), Some(1));
    assert_eq!(contest.choice(0, &[None; 3]), contest.leader);
    let mut race = race;
    race.baseline = 1;
    let contest = race.judge().loads.remove(0);
    assert_eq!(contest.choice(1, &[None; 3]), Some(1));
}

#[test]
fn an_extreme_confidence_is_judged_and_only_takes_longer() {
    let mut race = one_load(&[100.0, 160.0], 12);
    race.rules.confidence = 1.0 - 1e-8;
    let ratio = race.judge().decisive().ratio(1, 0).unwrap();
    assert!(ratio.is_bounded() && ratio.contains(1.6), "{ratio:?}");
    race.rules.confidence = 0.5;
    let narrower = race.judge().decisive().ratio(1, 0).unwrap();
    assert!(narrower.upper / narrower.lower < ratio.upper / ratio.lower);
}

/// A disk where two arms are far ahead and not told apart: neither what is cheap nor the beaten baseline is
/// the answer.
#[test]
fn an_undecided_race_chooses_no_arm() {
    let mut race = one_load(&[100.0, 160.0, 160.9], 5);
    race.rules.budget_rounds = 5;
    race.rules.margin = 1.001;
    let standing = race.judge();
    let contest = standing.decisive();
    assert!(matches!(&contest.verdict, Verdict::Undecided { arms, .. } if arms == &[1, 2]));
    assert!(matches!(contest.arms[0].place, ArmState::Worse { .. }));
    assert_eq!(contest.choice(0, &[Some(1.0), Some(3.0), Some(2.0)]), None);
    assert_eq!(contest.choice(0, &[None; 3]), None);
}

/// Three rounds as on a simulated hard disk: arm 2 beats the baseline at once, arm 1 beats arm 2 and varies
/// so much beside the baseline that three rounds leave their ratio open; then so many rounds of these.
fn beaten_by_one_that_leaves(rounds_with_baseline: usize) -> Race {
    let wiggle = [0.0, 0.012, -0.013, 0.004, -0.006, 0.009];
    let round = |round: usize| {
        let swing = 1.0 + wiggle[round % 6];
        let baseline = 100.0 / swing;
        let (first, second) = (160.0 * swing * swing, 140.0 * swing);
        if round < 3 {
            vec![Some(baseline), Some(first), Some(second)]
        } else {
            vec![Some(baseline), Some(first), None]
        }
    };
    let rounds = (0..3 + rounds_with_baseline).map(round).collect();
    race(vec![Load::new(Better::Higher, rounds)])
}

#[test]
fn a_baseline_that_was_beaten_by_another_runs_on_until_the_winner_is_proven_against_it() {
    let standing = beaten_by_one_that_leaves(0).judge();
    let contest = standing.decisive();
    assert!(matches!(
        contest.arms[0].place,
        ArmState::Worse { than: 2, .. }
    ));
    assert!(matches!(
        contest.arms[2].place,
        ArmState::Worse { than: 1, .. }
    ));
    assert!(!contest.is_surely_better(1, 0), "{:?}", contest.ratio(1, 0));
    assert_eq!(contest.verdict, Verdict::Open);
    assert_eq!(standing.next, Some(vec![vec![0, 1]]));
    let standing = beaten_by_one_that_leaves(3).judge();
    let contest = standing.decisive();
    assert_eq!(contest.verdict, Verdict::Winner { arm: 1 });
    assert!(contest.is_surely_better(1, 0));
    assert_eq!(standing.next, None);
}

#[test]
fn a_winner_that_is_not_proven_when_the_budget_is_spent_is_undecided() {
    let mut race = beaten_by_one_that_leaves(0);
    race.rules.budget_rounds = 3;
    let standing = race.judge();
    let contest = standing.decisive();
    match &contest.verdict {
        Verdict::Undecided {
            arms,
            rounds_needed,
            ..
        } => {
            assert_eq!(arms, &[0, 1]);
            assert!(
                (4..10).contains(&rounds_needed.unwrap()),
                "{rounds_needed:?}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(contest.choice(0, &[None; 3]), None);
}

mod properties {
    use proptest::prelude::*;

    use super::*;
    use crate::chance::Chance;

    /// Up to a dozen rounds of three arms; some trials void.
    fn tables() -> impl Strategy<Value = Vec<Vec<Option<f64>>>> {
        let trial = prop_oneof![
            9 => (50.0f64..200.0).prop_map(Some),
            1 => Just(None),
        ];
        prop::collection::vec(prop::collection::vec(trial, 3), 1..12)
    }

    fn judged(rounds: Vec<Vec<Option<f64>>>, better: Better, baseline: usize) -> Contest {
        let mut race = race(vec![Load::new(better, rounds)]);
        race.baseline = baseline;
        race.judge().loads.remove(0)
    }

    fn close(a: Option<Interval>, b: Option<Interval>) -> bool {
        let same = |x: f64, y: f64| x.to_bits() == y.to_bits(); // 0 and infinity
        let near = |x: f64, y: f64| same(x, y) || (x / y - 1.0).abs() < 1e-6;
        match (a, b) {
            (Some(a), Some(b)) => {
                near(a.estimate, b.estimate) && near(a.lower, b.lower) && near(a.upper, b.upper)
            }
            (a, b) => a == b,
        }
    }

    fn in_or_out(contest: &Contest, arm: usize) -> bool {
        contest.arms[arm].place == ArmState::Remaining
    }

    /// A race of four arms, run as it asks for its rounds.
    fn raced(
        levels: [f64; 4],
        noise: [f64; 4],
        better: Better,
        seed: u64,
        budget: usize,
    ) -> Contest {
        let mut chance = Chance::new(seed, 0);
        let mut race = race(vec![Load::new(better, Vec::new())]);
        race.arms = 4;
        race.rules.budget_rounds = budget;
        let mut standing = race.judge();
        while let Some(next) = &standing.next {
            let mut round = vec![None; 4];
            for &arm in &next[0] {
                round[arm] = Some(levels[arm] * (noise[arm] * chance.normal()).exp());
            }
            race.loads[0].rounds.push(round);
            standing = race.judge();
        }
        standing.loads.remove(0)
    }

    proptest! {
        #[test]
        fn the_arm_to_use_is_proven_against_the_baseline(
            levels in prop::array::uniform4(90.0f64..130.0),
            noise in prop::array::uniform4(0.001f64..0.06),
            is_higher: bool, seed: u64, budget in 3usize..20,
        ) {
            let better = if is_higher { Better::Higher } else { Better::Lower };
            let contest = raced(levels, noise, better, seed, budget);
            if let Some(arm) = contest.choice(0, &[None; 4]).filter(|&arm| arm != 0) {
                prop_assert!(contest.is_surely_better(arm, 0), "{contest:?}");
            }
            if let Verdict::Winner { arm } = contest.verdict {
                prop_assert_eq!(contest.choice(0, &[None; 4]), Some(arm));
            }
        }

        #[test]
        fn what_a_round_shares_and_the_unit_of_the_metric_change_nothing(
            table in tables(), unit in 0.001f64..1000.0, drift in -0.3f64..0.3,
        ) {
            let mut scaled = table.clone();
            for (round, values) in scaled.iter_mut().enumerate() {
                let factor = unit * (drift * round as f64).exp();
                values.iter_mut().flatten().for_each(|value| *value *= factor);
            }
            let (before, after) = (
                judged(table, Better::Higher, 0),
                judged(scaled, Better::Higher, 0),
            );
            for arm in 0..3 {
                prop_assert!(close(before.arms[arm].to_baseline, after.arms[arm].to_baseline));
                prop_assert_eq!(in_or_out(&before, arm), in_or_out(&after, arm));
            }
        }

        #[test]
        fn a_judge_who_follows_says_what_one_says_who_reads_all(
            tables in prop::collection::vec(tables(), 1..3), bound in 0.5f64..1.2, every_load: bool,
            look_at in prop::collection::vec(any::<bool>(), 12),
        ) {
            let mut whole = race(tables.iter().map(|table| Load {
                requirements: vec![Requirement {
                    bound: Bound::AtLeast(bound),
                    rounds: table.iter().map(|round| vec![round[1], round[2], round[0]]).collect(),
                }],
                ..Load::new(Better::Higher, table.clone())
            }).collect());
            whole.arms = 3;
            whole.rules.until = if every_load { Until::EveryLoad } else { Until::Overall };
            let cut = |rounds: usize| {
                let mut part = whole.clone();
                for load in &mut part.loads {
                    load.rounds.truncate(rounds);
                    load.requirements[0].rounds.truncate(rounds);
                }
                part
            };
            let mut judge = Judge::new(&cut(0));
            for rounds in (0..12).filter(|rounds| look_at[*rounds]) {
                let part = cut(rounds);
                judge.follow(&part);
                prop_assert_eq!(judge.standing(), part.judge());
            }
        }

        #[test]
        fn the_arms_numbers_do_not_matter(table in tables()) {
            let turned: Vec<Vec<Option<f64>>> = table
                .iter()
                .map(|round| vec![round[2], round[0], round[1]])
                .collect();
            let (before, after) = (
                judged(table, Better::Higher, 0),
                judged(turned, Better::Higher, 1),
            );
            for arm in 0..3 {
                let now = (arm + 1) % 3;
                prop_assert!(close(before.arms[arm].to_baseline, after.arms[now].to_baseline));
                prop_assert_eq!(in_or_out(&before, arm), in_or_out(&after, now));
            }
        }

        #[test]
        fn the_reciprocal_of_a_metric_gives_the_reciprocal_ratios_and_the_same_places(table in tables()) {
            let reciprocal: Vec<Vec<Option<f64>>> = table
                .iter()
                .map(|round| round.iter().map(|value| value.map(f64::recip)).collect())
                .collect();
            let (higher, lower) = (
                judged(table, Better::Higher, 0),
                judged(reciprocal, Better::Lower, 0),
            );
            for a in 0..3 {
                prop_assert_eq!(in_or_out(&higher, a), in_or_out(&lower, a));
                for b in (0..3).filter(|&b| b != a) {
                    prop_assert!(close(higher.ratio(a, b), lower.ratio(b, a)));
                }
            }
        }

        #[test]
        fn somebody_remains_and_who_left_was_surely_worse_then(table in tables()) {
            let contest = judged(table, Better::Higher, 0);
            prop_assert!(contest.remaining().count() >= 1);
            for arm in &contest.arms {
                if let ArmState::Worse { after, than, ratio } = arm.place {
                    prop_assert!(ratio.upper < 1.0 && after >= 3);
                    prop_assert!(than < 3);
                }
            }
        }

        #[test]
        fn the_ratio_by_which_an_arm_left_is_not_taken_back(mut table in tables()) {
            // Quiet rounds of those that remain change what is believed of the noise.
            let rest = judged(table.clone(), Better::Higher, 0);
            for arm in 0..3 {
                if let ArmState::Worse { after, .. } = rest.arms[arm].place {
                    table.iter_mut().skip(after).for_each(|round| round[arm] = None);
                }
            }
            for round in 0..12 {
                let quiet = |arm: usize| {
                    let value = 100.0 + 0.01 * ((round + arm) % 3) as f64;
                    (rest.arms[arm].place == ArmState::Remaining).then_some(value)
                };
                table.push((0..3).map(quiet).collect());
            }
            let contest = judged(table, Better::Higher, 0);
            for arm in 0..3 {
                if let ArmState::Worse { than, ratio, after } = contest.arms[arm].place
                    && rest.arms[arm].place == contest.arms[arm].place
                {
                    let now = contest.pairs[arm][than].unwrap();
                    let kept = now.upper <= ratio.upper * (1.0 + 1e-9);
                    prop_assert!(kept, "left after {after} by {ratio:?}, now {now:?}");
                }
            }
        }
    }
}

// Published raw results (KPP against kyber, two runs each), by Welch's interval of the logarithms.
#[test]
fn values_without_pairs_are_compared_as_welch_does() {
    let judged = |rows: &[[Option<f64>; 2]]| {
        let rows = rows.iter().map(|row| row.to_vec()).collect();
        let mut race = race(vec![Load::new(Better::Higher, rows)]);
        race.rules.design = Design::Unpaired(race.loads[0].rounds.len());
        let standing = race.judge();
        let contest = standing.decisive().clone();
        let ratio = contest.ratio(1, 0).unwrap();
        (contest.verdict, [ratio.estimate, ratio.lower, ratio.upper])
    };
    let near = |found: [f64; 3], expected: [f64; 3]| {
        let pairs = found.into_iter().zip(expected);
        assert!(
            pairs.clone().all(|(a, b)| (a / b - 1.0).abs() < 0.01),
            "{found:?}"
        );
    };
    let both = |a, b| [Some(a), Some(b)];
    let (verdict, ratio) = judged(&[both(52_511.0, 46_200.0), both(52_373.0, 46_134.0)]);
    near(ratio, [0.880, 0.864, 0.897]);
    assert_eq!(verdict, Verdict::Winner { arm: 0 });
    let (verdict, ratio) = judged(&[both(17_388.0, 9679.0), both(14_082.0, 12_470.0)]);
    near(ratio, [0.702, 0.0863, 5.71]);
    assert!(matches!(verdict, Verdict::Undecided { .. }), "{verdict:?}");
    // One arm ran more often.
    let (verdict, ratio) = judged(&[both(100.0, 150.0), both(102.0, 151.0), [Some(101.0), None]]);
    assert!(
        (ratio[0] - 1.490).abs() < 1e-3 && ratio[1] > 1.4,
        "{ratio:?}"
    );
    assert_eq!(verdict, Verdict::Winner { arm: 1 });
}
