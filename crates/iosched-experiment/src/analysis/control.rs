//! What a load that no scheduler can change says of the measurement.

use std::collections::BTreeMap;

use iosched_stats::interval;
use serde::Serialize;

use crate::plan::Plan;
use crate::record::Record;
use crate::trial::Trial;

/// What a load says that no scheduler can change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "finding", rename_all = "kebab-case")]
pub enum Control {
    /// It is proven that its arms differ by no more than this ratio.
    Equal {
        /// 1.04 for 4 %.
        within: f64,
    },
    /// Its arms differ: something else than the scheduler was measured.
    Differs,
    /// No difference is seen, and none is excluded up to this ratio.
    NotProven {
        /// Infinite after few rounds.
        within: f64,
    },
}

/// Ratio up to which a control's arms are taken for equal. It decides nothing: what is to be excluded
/// is that what was seen in the other loads came from elsewhere, and that was more.
const CONTROL_MARGIN: f64 = 1.1;

impl Control {
    /// A control has no say in when the run ends: so an interval of fixed size holds, which needs fewer
    /// rounds than those of the race.
    pub(super) fn of(turns: &Turns, confidence: f64) -> Control {
        let Some(differences) = interval::differences(&turns.complete, confidence) else {
            return Control::NotProven {
                within: f64::INFINITY,
            };
        };
        let within = differences.within.exp();
        match differences.are_seen {
            _ if within <= CONTROL_MARGIN => Control::Equal { within },
            true => Control::Differs,
            false => Control::NotProven { within },
        }
    }
}

/// A control's trials, turn by turn.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Turns {
    /// The logarithms of what decides: one of each arm that ran at all, for the turns that had them all.
    complete: Vec<Vec<f64>>,
    /// Turns in which a trial was none of memory alone.
    pub(super) left_out: usize,
}

impl Turns {
    pub(super) fn of(plan: &Plan, record: &Record, load: usize) -> Turns {
        let objective = plan.loads[load].objective;
        let mut rounds: BTreeMap<u32, Vec<Vec<Option<f64>>>> = BTreeMap::new();
        let mut ran = vec![false; plan.arms.len()];
        for trial in record.trials().filter(|trial| trial.slot.load == load) {
            let of_round = rounds.entry(trial.slot.round);
            let of_round = of_round.or_insert_with(|| vec![Vec::new(); plan.arms.len()]);
            let value = objective.of(&trial.metrics);
            let value = value.filter(|_| is_from_memory(trial)).map(f64::ln);
            of_round[trial.slot.arm].push(value);
            ran[trial.slot.arm] = true;
        }
        let mut turns = Turns::default();
        for of_round in rounds.into_values() {
            let ran = of_round.into_iter().zip(&ran).filter(|(_, ran)| **ran);
            let arms: Vec<Vec<Option<f64>>> = ran.map(|(values, _)| values).collect();
            for turn in 0..arms.iter().map(Vec::len).min().unwrap_or(0) {
                match arms.iter().map(|values| values[turn]).collect() {
                    Some(values) => turns.complete.push(values),
                    None => turns.left_out += 1,
                }
            }
        }
        turns
    }
}

/// A control reads what is in memory; where somebody empties the page cache meanwhile, it is none.
fn is_from_memory(trial: &Trial) -> bool {
    let flows = trial.jobs.iter().filter_map(|job| job.read.as_ref());
    let bytes = flows.map(|flow| flow.bytes);
    let read = bytes.fold(0, u64::saturating_add);
    trial.measured.read_bytes <= read / 100
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Analysis;
    use crate::fixture::{plan, record, trial};
    use crate::schedule::{Next, next};

    #[test]
    fn a_turn_of_a_control_that_read_the_disk_is_left_out() {
        let mut plan = plan(2);
        plan.loads[0].is_control = true;
        let mut record = record(&plan);
        while let Next::Trial(slot) = next(&plan, &record) {
            let noise = ((slot.round as usize * 7 + slot.arm * 3) % 5) as f64 * 0.001;
            let is_emptied = slot.round == 1 && slot.arm == 0;
            let factor = if is_emptied { 0.01 } else { 1.0 };
            let mut entry = trial(slot, 1e6 * factor * (1.0 + noise));
            if let crate::record::Entry::Trial(trial) = &mut entry {
                trial.measured.read_bytes = if is_emptied { 1 << 40 } else { 0 };
            }
            record.entries.push(entry);
        }
        let found = &Analysis::of(&record).loads[0];
        assert!(
            matches!(found.control, Some(Control::Equal { .. })),
            "{found:?}"
        );
        assert_eq!(found.turns_left_out, 1);
    }
}
