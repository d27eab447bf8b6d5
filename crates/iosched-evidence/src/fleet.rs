//! Tests of the whole way, from trials to advice, on fleets whose truth is known.

use std::collections::BTreeMap;

use crate::fixture::{ARMS, Fleet, Size};
use crate::pool::{Finding, Groups, LEAST_MACHINES, Level, MARGIN};

/// What came out of fleets.
#[derive(Debug, Default)]
struct Tally {
    /// Models on a kernel series with eight machines or more, and how often what to take is right within the margin.
    asked: u32,
    right: u32,
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
            self.asked += 1;
            self.right += u32::from(best - truth.effects[at(&finding.take[0])] <= MARGIN.ln());
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
    println!("{fleets} fleets: {tally:?}: right {right:.4}, held {held:.4}");
    assert!(tally.few > 0 && tally.asked > 30, "{tally:?}");
    assert!(right >= 0.95, "{right}: {tally:?}");
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
