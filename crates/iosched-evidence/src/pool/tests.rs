//! Pooling: rows that were made for one rule each, and the whole way from trials to advice on fleets whose truth is known.

use super::*;
use crate::fixture::{ARMS, Fleet, Size, example};

/// A machine's rows of three arms that are so many times as good as none.
fn machine(number: usize, kyber: f64, bfq: f64) -> Vec<Row> {
    let row = |arm: &str, against: &str, ratio: f64| Row {
        record: format!("{number:032x}").into(),
        machine: format!("{number:016x}").into(),
        arm: arm.into(),
        against: against.into(),
        log_ratio: ratio.ln(),
        ..example()
    };
    vec![
        row("kyber", "none", kyber),
        row("none", "bfq", 1.0 / bfq), // as it stands where bfq is the baseline
        row("bfq", "kyber", bfq / kyber),
    ]
}

fn machines(count: usize) -> Vec<Row> {
    let all = (0..count).flat_map(|number| {
        let off = [0.98, 1.0, 1.02, 1.01, 0.99][number % 5];
        machine(number, 1.3 * off, 0.8 * off)
    });
    all.collect()
}

fn of_model(rows: &[Row]) -> Finding {
    let mut groups = Groups::of(rows, |question| question.level == Level::Model);
    let mut findings = groups.findings();
    assert_eq!(findings.len(), 1);
    findings.remove(0)
}

#[test]
fn the_best_arm_is_taken_and_its_ratio_holds_the_truth() {
    let found = of_model(&machines(8));
    assert_eq!((found.machines, &*found.reference), (8, "none"));
    assert_eq!(found.take, ["kyber".into()]);
    let [kyber, bfq] = &found.arms[..] else {
        panic!("{found:?}")
    };
    assert!(kyber.ratio.unwrap().contains(1.3) && bfq.ratio.unwrap().contains(0.8));
    assert!(kyber.next_machine.unwrap().lower < kyber.ratio.unwrap().lower);
    assert_eq!(kyber.each.len(), 8);
    assert!((kyber.p99_ratio.unwrap() - 0.8).abs() < 1e-9);
}

#[test]
fn few_machines_say_nothing() {
    let found = of_model(&machines(LEAST_MACHINES - 1));
    assert_eq!((found.machines, found.is_known()), (4, false));
    assert_eq!(found.arms[0].ratio, None);
    assert!(of_model(&machines(LEAST_MACHINES)).is_known());
}

#[test]
fn one_machine_counts_once_however_often_it_measured() {
    let mut rows = machines(LEAST_MACHINES);
    for row in &mut rows {
        row.machine = "one".into();
    }
    let found = of_model(&rows);
    assert_eq!((found.machines, found.is_known()), (1, false));
    let study = found
        .arms
        .iter()
        .find(|arm| &*arm.arm == "kyber")
        .unwrap()
        .each[0]
        .1;
    assert!(
        (study.variance - 0.02_f64.powi(2) / 5.0).abs() < 1e-9,
        "{study:?}"
    );
}

#[test]
fn kernels_loads_sources_and_objectives_are_never_mixed() {
    type Other = fn(&mut Row);
    let others: [Other; 4] = [
        |row| row.kernel = "6.6.3".into(),
        |row| row.load_class = "database".into(),
        |row| row.source = Source::Emulated,
        |row| row.objective = "p99".into(),
    ];
    for other in others {
        let mut rows = machines(10);
        rows.iter_mut().skip(15).for_each(other);
        let groups = Groups::of(&rows, |_| true);
        let counts: Vec<usize> = groups
            .questions()
            .map(|question| groups.machines(question))
            .collect();
        assert_eq!(counts, [5; 6], "two of each level");
    }
}

#[test]
fn a_family_has_all_its_models_and_a_class_all_families() {
    let mut rows = machines(6);
    rows.iter_mut()
        .skip(9)
        .for_each(|row| row.model = "Samsung SSD 970 EVO Plus 500GB".into());
    let mut groups = Groups::of(&rows, |_| true);
    let counts: Vec<(Level, usize)> = groups
        .findings()
        .iter()
        .map(|found| (found.question.level, found.machines))
        .collect();
    assert_eq!(
        counts,
        [
            (Level::Model, 3),
            (Level::Model, 3),
            (Level::Family, 6),
            (Level::Class, 6)
        ]
    );
}

#[test]
fn what_an_arm_costs_is_told_where_it_is_proven_or_large_and_of_machines_that_measured_it() {
    let rows_of = |p99: &[Option<f64>], cpu: f64| {
        let mut rows = machines(p99.len());
        for row in &mut rows {
            let number = usize::from_str_radix(&row.machine, 16).unwrap();
            (row.p99_ratio, row.cpu_ratio) = (p99[number], Some(cpu));
        }
        rows
    };
    let prices = |rows: &[Row], arm: &str, against: &str| {
        let mut groups = Groups::of(rows, |_| true);
        let found = groups.findings().remove(0);
        groups.prices(&found.question, arm, against)
    };
    let twelve = [11.0, 12.0, 13.0, 12.0, 12.5, 11.5].map(Some);
    let rows = rows_of(&twelve, 1.04);
    let found = prices(&rows, "kyber", "none").unwrap();
    let [price] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((price.number, price.machines), (SideNumber::P99, 6));
    assert!((price.ratio - 12.0).abs() < 0.1, "{price:?}");
    assert!(price.is_proven && price.is_surely_large(), "{price:?}");
    assert_eq!(prices(&rows, "none", "kyber"), Some(Vec::new()), "a gain");
    assert_eq!(prices(&rows, "kyber", "nobody"), None);
    // Some percent more on all machines is proven; a lot more on few is told, and said not to be.
    let found = prices(&rows_of(&twelve, 1.2), "kyber", "none").unwrap();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].is_proven && !found[1].is_surely_large());
    let few = [Some(9.0), Some(12.0), None, None, None, None];
    let found = prices(&rows_of(&few, 1.0), "kyber", "none").unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].machines, found[0].interval), (2, None));
    assert!(!found[0].is_proven && !found[0].is_surely_large());
    // One machine that lies makes no price.
    let lie = [1.0, 1.0, 1.0, 1.0, 1.0, 1e9].map(Some);
    assert_eq!(prices(&rows_of(&lie, 1.0), "kyber", "none"), Some(vec![]));
    // What decides is no number beside it.
    let mut rows = rows_of(&twelve, 1.0);
    for row in &mut rows {
        row.objective = "p99".into();
    }
    assert_eq!(prices(&rows, "kyber", "none"), Some(Vec::new()));
}

#[test]
fn what_the_interval_does_not_tell_apart_is_not_advised() {
    // 1.07 (0.74 to 1.57) says neither that kyber is better nor that it is as good.
    let found = |ratios: [f64; 5]| {
        let rows = ratios.into_iter().enumerate();
        let rows = rows.flat_map(|(number, ratio)| machine(number, ratio, 0.2));
        of_model(&rows.collect::<Vec<_>>())
    };
    let unsure = found([1.06, 0.7, 1.7, 1.2, 0.9]);
    assert_eq!(unsure.answer, Answer::NotToldApart, "{unsure:?}");
    assert_eq!(unsure.not_told_apart, ["kyber".into(), "none".into()]);
    assert!(unsure.take.is_empty() && unsure.is_known());
    assert_eq!(unsure.candidates(), unsure.not_told_apart);
    let sure = found([1.30, 1.31, 1.29, 1.3, 1.3]);
    assert_eq!(
        (sure.answer, &*sure.take),
        (Answer::Take, &["kyber".into()][..])
    );
    assert!(sure.not_told_apart.is_empty());
}

#[test]
fn arms_that_no_machine_measured_together_are_told_apart_by_what_both_have_in_common() {
    let only = |number: usize, arm: &str, ratio: f64| {
        let mut rows = machine(number, ratio, ratio);
        let is_with_none = |row: &Row| {
            let arms = [&*row.arm, &*row.against];
            arms.contains(&arm) && arms.contains(&"none")
        };
        rows.retain(is_with_none);
        rows
    };
    let with = |bfq: f64| {
        let kyber = (0..6).flat_map(|number| only(number, "kyber", 1.3));
        let bfq = (6..12).flat_map(|number| only(number, "bfq", bfq));
        of_model(&kyber.chain(bfq).collect::<Vec<_>>())
    };
    let apart = with(0.8);
    assert_eq!(
        (apart.answer, &*apart.take),
        (Answer::Take, &["kyber".into()][..])
    );
    let close = with(1.28);
    assert_eq!(
        close.not_told_apart,
        ["kyber".into(), "bfq".into()],
        "{close:?}"
    );
}

/// What machines found of two arms alone.
fn pair(machines: std::ops::Range<usize>, arm: &str, against: &str, ratio: f64) -> Vec<Row> {
    let row = |number: usize| Row {
        record: format!("{number:032x}").into(),
        machine: format!("{number:016x}").into(),
        arm: arm.into(),
        against: against.into(),
        log_ratio: (ratio * [0.98, 1.0, 1.02, 1.01, 0.99][number % 5]).ln(),
        ..example()
    };
    machines.map(row).collect()
}

#[test]
fn an_arm_that_was_measured_beside_another_than_the_reference_counts() {
    let without = [
        pair(0..25, "mq-deadline", "none", 1.05),
        pair(30..38, "bfq", "none", 1.3),
    ]
    .concat();
    assert_eq!(of_model(&without).take, ["bfq".into()]);
    let faster = of_model(&[without.clone(), pair(40..60, "kyber", "bfq", 2.0)].concat());
    assert_eq!(faster.take, ["kyber".into()], "{faster:?}");
    let kyber = faster.arms.iter().find(|arm| &*arm.arm == "kyber").unwrap();
    assert_eq!((kyber.machines, kyber.ratio), (0, None));
    let slower = of_model(&[without.clone(), pair(40..60, "kyber", "bfq", 0.5)].concat());
    assert_eq!(slower.take, ["bfq".into()], "{slower:?}");
    // Beside nothing that both were compared with.
    let apart = of_model(&[without, pair(40..60, "kyber", "cfq", 2.0)].concat());
    let all = ["bfq", "cfq", "kyber"].map(Text::from);
    assert_eq!(apart.not_told_apart, all, "{apart:?}");
}

#[test]
fn what_was_measured_side_by_side_decides_against_the_ratios_to_the_reference() {
    let rows = [
        pair(0..8, "mq-deadline", "none", 1.10),
        pair(10..18, "bfq", "none", 1.20),
        pair(20..28, "mq-deadline", "bfq", 1.30),
    ];
    let found = of_model(&rows.concat());
    assert_eq!(found.take, ["mq-deadline".into()], "{found:?}");
}

#[test]
fn arms_that_are_as_good_are_named_too() {
    let rows: Vec<Row> = (0..6)
        .flat_map(|number| machine(number, 1.02, 0.5))
        .collect();
    assert_eq!(of_model(&rows).take, ["kyber".into(), "none".into()]);
    let same: Vec<Row> = (0..6)
        .flat_map(|number| machine(number, 1.0, 1.0))
        .collect();
    assert_eq!(
        of_model(&same).take,
        ["none".into(), "bfq".into(), "kyber".into()]
    );
}

/// What came out of fleets.
#[derive(Debug, Default)]
struct Tally {
    /// Models on a kernel series with eight machines or more, and how often what to take is right within the margin.
    asked: u32,
    right: u32,
    /// Of these, those with an answer, and how often all that it says to take is right.
    told: u32,
    told_right: u32,
    /// How often the best is among what may be taken.
    holds_best: u32,
    /// Models whose best arm is far ahead of the second, and how many of them have an answer.
    clear: u32,
    clear_told: u32,
    /// Machines that were not measured, and how many of them the prediction interval holds.
    next: u32,
    held: u32,
    /// Models on a series with fewer machines than are needed, all of which are to be unknown.
    few: u32,
}

impl Tally {
    fn add(&mut self, fleet: &mut Fleet, finding: &Finding) {
        let question = &finding.question;
        if finding.machines < LEAST_MACHINES {
            assert!(!finding.is_known(), "{finding:?}");
            self.few += 1;
            return;
        }
        let truth = fleet.truth[&(question.drive.to_string(), question.kernel.to_string())];
        let at = |arm: &str| ARMS.iter().position(|name| *name == arm).unwrap();
        if finding.machines >= 8 {
            let best = truth.effects.into_iter().fold(f64::MIN, f64::max);
            let behind = |arm: &str| best - truth.effects[at(arm)];
            let is_within = |arm: &str| behind(arm) <= MARGIN.ln();
            self.asked += 1;
            // Whatever the answer is called, the first arm that it names is the one that is taken.
            self.right += u32::from(is_within(&finding.candidates()[0]));
            let mut gaps: Vec<f64> = ARMS.iter().map(|arm| behind(arm)).collect();
            gaps.sort_by(f64::total_cmp);
            let is_told = finding.answer == Answer::Take;
            if is_told {
                self.told += 1;
                self.told_right += u32::from(finding.take.iter().all(|arm| is_within(arm)));
            }
            self.holds_best += u32::from(finding.candidates().iter().any(|arm| behind(arm) == 0.0));
            if gaps[1] > 2.0 * MARGIN.ln() && truth.between_machines < 0.1 {
                self.clear += 1;
                self.clear_told += u32::from(is_told);
            }
        }
        for _ in 0..20 {
            let next = fleet.another_machine(&question.drive, &question.kernel);
            for arm in &finding.arms {
                let ratio = (next[at(&arm.arm)] - next[at(&finding.reference)]).exp();
                let is_held = arm.next_machine.expect("it is known").contains(ratio);
                self.next += 1;
                self.held += u32::from(is_held);
            }
        }
    }
}

/// `IOSCHED_TEST_FLEETS` has the number of fleets, one if it is not set; each is drawn from its number. The figures of 100
/// are in results/fleet.md.
#[test]
fn a_thousand_machines_of_forty_models_are_advised_right() {
    let fleets =
        std::env::var("IOSCHED_TEST_FLEETS").map_or(1, |count| count.parse().expect("a number"));
    let size = Size {
        machines: 1000,
        models: 40,
        loads: 1,
    };
    let mut tally = Tally::default();
    for seed in 0..fleets {
        let mut fleet = Fleet::new(seed, size);
        let rows = std::mem::take(&mut fleet.rows);
        let findings = Groups::of(&rows, |question| question.level == Level::Model).findings();
        for finding in &findings {
            tally.add(&mut fleet, finding);
        }
    }
    let share = |part: u32, of: u32| f64::from(part) / f64::from(of);
    let right = share(tally.right, tally.asked);
    let told_right = share(tally.told_right, tally.told);
    let holds_best = share(tally.holds_best, tally.asked);
    let clear_told = share(tally.clear_told, tally.clear);
    let held = share(tally.held, tally.next);
    let said = format!(
        "{fleets} fleets: {tally:?}: right {right:.4}, held {held:.4}, told right {told_right:.4}, \
         holds the best {holds_best:.4}, clear ones told {clear_told:.4}"
    );
    println!("{said}");
    assert!(tally.few > 0 && tally.asked > 30, "{said}");
    assert!(right.min(told_right).min(holds_best) >= 0.95, "{said}");
    // Who never answers is never wrong: where one arm is clearly the best there is an answer, and so there is for most.
    assert!(clear_told >= 0.95 && tally.told * 2 > tally.asked, "{said}");
    assert!(held >= 0.93, "{said}");
}
