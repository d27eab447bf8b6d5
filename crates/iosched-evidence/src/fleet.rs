//! Tests of the whole way, from trials to advice, on fleets whose truth is known.

use std::collections::BTreeMap;

use crate::fixture::{ARMS, Fleet, Size};
use crate::pool::{Answer, Finding, Groups, LEAST_MACHINES, Level, MARGIN};

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
    /// The same by how much machines of the model differ, in thousandths.
    by_difference: BTreeMap<u32, (u32, u32)>,
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
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to 0.1"
        )]
        let difference = (truth.between_machines * 1000.0).round() as u32;
        let at = |arm: &str| {
            ARMS.iter()
                .position(|name| *name == arm)
                .expect("an arm of the fleet")
        };
        if finding.machines >= 8 {
            let best = truth
                .effects
                .iter()
                .copied()
                .fold(f64::NEG_INFINITY, f64::max);
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
                let by = self.by_difference.entry(difference).or_default();
                *by = (by.0 + 1, by.1 + u32::from(is_held));
            }
        }
    }
}

/// `IOSCHED_TEST_FLEETS` has the number of fleets, one if it is not set; each is drawn from its number. The figures of 100
/// are in docs/evidence.md.
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
    let right = f64::from(tally.right) / f64::from(tally.asked);
    let held = f64::from(tally.held) / f64::from(tally.next);
    let share = |part: u32, of: u32| f64::from(part) / f64::from(of);
    let told_right = share(tally.told_right, tally.told);
    let holds_best = share(tally.holds_best, tally.asked);
    let clear_told = share(tally.clear_told, tally.clear);
    println!(
        "{fleets} fleets: {tally:?}: right {right:.4}, held {held:.4}, told right {told_right:.4}, \
         holds the best {holds_best:.4}, clear ones told {clear_told:.4}"
    );
    assert!(tally.few > 0 && tally.asked > 30, "{tally:?}");
    assert!(right >= 0.95, "{right}: {tally:?}");
    assert!(told_right >= 0.95 && holds_best >= 0.95, "{tally:?}");
    // Who never answers is never wrong: where one arm is clearly the best there is an answer, and so there is for most.
    assert!(
        clear_told >= 0.95 && tally.told * 2 > tally.asked,
        "{tally:?}"
    );
    assert!(held >= 0.93, "{held}: {tally:?}");
}

#[test]
fn of_a_model_that_nobody_has_there_is_nothing() {
    let fleet = Fleet::new(
        7,
        Size {
            machines: 60,
            models: 4,
            loads: 1,
        },
    );
    let groups = Groups::of(&fleet.rows, |question| {
        &*question.drive == "Maker Series Z 1TB"
    });
    assert_eq!(groups.questions().count(), 0);
}
