//! What is to happen and when; of two things at one time the one that was planned first.
//!
//! Most of what is planned comes a fixed time after what plans it, so that things of one kind are
//! planned in order of time: they stand in a line of their own, and only what does not fit at its
//! end goes into a heap.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::units::Time;

/// What can be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A command that the disk finished is completed in the block layer. Its tag.
    Completed(u64),
    /// A process goes on. Its index.
    Wake(usize),
    /// The next access of an open loop is made.
    Arrival,
    /// A worker runs the queue.
    RunQueue,
}

/// When, which in order of planning, what.
type Entry = (Time, u64, Event);

/// See the [module's page](self).
#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// Completions, wake-ups.
    lines: [VecDeque<Entry>; 2],
    others: BinaryHeap<Reverse<Entry>>,
    planned: u64,
}

impl Agenda {
    pub(super) fn plan(&mut self, time: Time, event: Event) {
        self.planned += 1;
        let entry = (time, self.planned, event);
        let line = match event {
            Event::Completed(_) => &mut self.lines[0],
            Event::Wake(_) => &mut self.lines[1],
            Event::Arrival | Event::RunQueue => return self.others.push(Reverse(entry)),
        };
        if line.back().is_none_or(|last| last.0 <= time) {
            line.push_back(entry);
        } else {
            self.others.push(Reverse(entry));
        }
    }

    /// When something is to happen next; [`Time::MAX`] if nothing is.
    pub(super) fn next_time(&self) -> Time {
        let (completions, wakes, others) = self.firsts();
        completions.0.min(wakes.0).min(others.0)
    }

    /// Time and number of the first entry of each line and of the heap.
    fn firsts(&self) -> ((Time, u64), (Time, u64), (Time, u64)) {
        let place = |entry: Option<&Entry>| match entry {
            Some(&(time, number, _)) => (time, number),
            None => (Time::MAX, u64::MAX),
        };
        let [completions, wakes] = &self.lines;
        let other = self.others.peek().map(|Reverse(entry)| entry);
        (
            place(completions.front()),
            place(wakes.front()),
            place(other),
        )
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        let (completions, wakes, others) = self.firsts();
        let entry = if completions <= wakes && completions <= others {
            self.lines[0].pop_front()
        } else if wakes <= others {
            self.lines[1].pop_front()
        } else {
            self.others.pop().map(|Reverse(entry)| entry)
        };
        entry.map(|(_, _, event)| event)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn things_come_in_order_of_time_and_then_of_planning(
            things in prop::collection::vec((0..20_u64, 0..3_u8), 0..100),
        ) {
            let mut agenda = Agenda::default();
            let mut expected = Vec::new();
            for (number, &(time, kind)) in things.iter().enumerate() {
                let event = match kind {
                    0 => Event::Completed(number as u64),
                    1 => Event::Wake(number),
                    _ => Event::RunQueue,
                };
                agenda.plan(Time::from_nanos(time), event);
                expected.push((time, event));
            }
            expected.sort_by_key(|(time, _)| *time); // keeps the order of equals
            for (time, event) in expected {
                prop_assert_eq!(agenda.next_time(), Time::from_nanos(time));
                prop_assert_eq!(agenda.pop(), Some(event));
            }
            prop_assert_eq!(agenda.pop(), None);
        }
    }
}
