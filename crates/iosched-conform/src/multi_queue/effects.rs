//! When what a recording of bfq shows took effect, where the kernel printed bfq's messages.
//!
//! Printing takes longer than deciding, so that lines and what they tell of lie apart. Measured on
//! recordings of Linux 6.1 in which the messages say when what was decided: a request that is inserted
//! counts 3 µs after its line, with the tick of 5 µs before it, when the lock was taken; one that
//! completes 5 µs after its line; a choice was made 15 µs before its line, or 45 µs if it first ended a
//! slot. While the kernel chooses, it takes no interrupts: a completion whose line comes less than 13 µs
//! before that of the choice happened after it.

use iosched_facts::units::{Nanos, Time};
use iosched_sim::trace::kernel::Action;

use super::super::MOST_UNDER_WAY;
use super::super::recording::{Recording, Step};

const INSERTED: Nanos = Nanos::from_micros(3);
const LOCKED_BEFORE_INSERT: Nanos = Nanos::from_micros(5);
const COMPLETED: Nanos = Nanos::from_micros(5);
const CHOSEN: Nanos = Nanos::from_micros(15);

/// A choice that first ended a slot was begun this much earlier than others.
pub(super) const ENDING_A_SLOT: Nanos = Nanos::from_micros(30);

/// A completion this little before a choice came while interrupts were off.
const HELD_OFF: Nanos = Nanos::from_micros(13);

/// The choice had begun this much before such a completion.
const CHOSEN_BEFORE: Nanos = Nanos::from_micros(16);

/// From an insert to a choice right after it, in a kernel that prints nothing between them, at most.
const SILENT: Nanos = Nanos::from_micros(20);

/// So long before a time, if there is such a time.
pub(super) fn before(time: Time, by: Nanos) -> Time {
    Time::from_nanos(time.as_nanos().saturating_sub(by.as_nanos()))
}

impl Recording {
    /// The kernel printed the scheduler's messages: between an insert (or, where there is no such, a
    /// completion) and a choice that follows at once passed more time than deciding takes.
    pub(super) fn has_messages(&self) -> bool {
        if self.is_simulated() {
            return false;
        }
        let after = |action: Action| {
            let pairs = self.steps.windows(2);
            let pairs = pairs
                .filter(|pair| pair[0].action == action && pair[1].action == Action::Dispatched);
            let mut gaps: Vec<_> = pairs.map(|pair| pair[1].time - pair[0].time).collect();
            gaps.sort_unstable();
            gaps.get(gaps.len() / 2).copied()
        };
        let gap = after(Action::Inserted).or_else(|| after(Action::Completed));
        gap.is_some_and(|gap| gap > SILENT)
    }

    /// The steps in the order and at the times in which they took effect. Their times may run backwards.
    pub(super) fn effects(&self) -> Vec<Step> {
        let mut effects: Vec<Step> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let mut step = *step;
            match step.action {
                Action::Inserted => {
                    step.locked = Some(before(step.time, LOCKED_BEFORE_INSERT));
                    step.time += INSERTED;
                }
                Action::Completed => step.time += COMPLETED,
                Action::Dispatched => {
                    let held_off = |other: &Step| {
                        other.action == Action::Completed
                            && step.time + COMPLETED < other.time + HELD_OFF
                    };
                    let behind = effects.iter().rev().take(MOST_UNDER_WAY);
                    let behind = behind.take_while(|other| held_off(other));
                    let place = effects.len() - behind.count();
                    match effects.get(place) {
                        None => step.time = before(step.time, CHOSEN),
                        Some(completion) => {
                            step.time = before(completion.time, COMPLETED + CHOSEN_BEFORE);
                            step.begun = true;
                        }
                    }
                    effects.insert(place, step);
                    continue;
                }
                _ => {}
            }
            effects.push(step);
        }
        effects
    }
}
