//! What a trial leaves behind for the one after it, as far as a record tells.

use iosched_stats::Interval;
use iosched_stats::carry::{Follower, carry_over};

use crate::plan::{Plan, Target};
use crate::record::{Entry, LONGEST_LEAD_IN, Record};
use crate::schedule::RunProgress;
use crate::trial::Slot;

/// A mistake about what is left behind is made in one look of so many of those in which the confidence allows one: it
/// costs all trials so far, or takes the answer away, and is looked for after every round.
const CAUTION: f64 = 20.0;

/// For each arm of a load: what is measured after it / what is measured after the others. All intervals hold together with
/// the confidence of the run.
pub(super) fn carried(plan: &Plan, record: &Record, load: usize) -> Vec<Option<Interval>> {
    let arms = plan.arms.len();
    let level = (1.0 - plan.rules.confidence) / arms as f64;
    carry_over(&followers(plan, record, load), arms, 1.0 - level)
}

/// After a round: whether the trials begin anew, each led in by runs under its own arm, since they surely depend on the arm
/// before them. Where the longest lead-in does not help, the run has no answer.
/// Nor where there is no room for them: then what was measured stays.
pub(crate) fn lead_in(plan: &Plan, record: &Record, progress: &RunProgress<'_>) -> Option<Entry> {
    let runs = record.lead_in() + 1;
    if runs > LONGEST_LEAD_IN || !progress.can_begin_anew(runs) {
        return None;
    }
    let (load, arm, ratio) = surely_carried(plan, record)?;
    Some(Entry::LeadIn {
        load,
        arm,
        ratio,
        runs,
        round: progress.rounds(),
    })
}

/// What surely changes the trial after it, by more than the margin: load, arm and ratio of what does so most in the first
/// such load.
pub(super) fn surely_carried(plan: &Plan, record: &Record) -> Option<(usize, usize, Interval)> {
    if matches!(plan.target, Target::Simulated(_)) {
        return None; // each trial is a machine of its own
    }
    let (arms, loads) = (plan.arms.len(), plan.loads.len());
    let level = (1.0 - plan.rules.confidence) / CAUTION / (arms * loads) as f64;
    let margin = plan.rules.margin;
    (0..loads).find_map(|load| {
        let ratios = carry_over(&followers(plan, record, load), arms, 1.0 - level);
        let found = ratios.into_iter().zip(0..);
        found
            .filter_map(|(ratio, arm)| Some((load, arm, ratio?)))
            .filter(|(_, _, ratio)| ratio.lower > margin || ratio.upper < 1.0 / margin)
            .max_by(|(_, _, a), (_, _, b)| {
                let size = |ratio: &Interval| ratio.estimate.ln().abs();
                size(a).total_cmp(&size(b))
            })
    })
}

/// The trials of a load that count, each with the arm that ran before it.
fn followers(plan: &Plan, record: &Record, load: usize) -> Vec<Follower> {
    let objective = plan.loads[load].objective;
    let mut before = None;
    let followers = record.that_count().filter_map(|entry| {
        let (slot, value) = match entry {
            Entry::Trial(trial) => (trial.slot, objective.of(&trial.metrics)),
            Entry::Void(void) => (void.slot, None),
            _ => return None,
        };
        let after = before.replace(slot.arm)?;
        let log = value.filter(|_| slot.load == load)?.ln();
        let Slot { round, arm, .. } = slot;
        log.is_finite().then_some(Follower {
            round,
            arm,
            after,
            log,
        })
    });
    followers.collect()
}
