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
            Event::RunQueue => return self.others.push(Reverse(entry)),
        };
        if line.back().is_none_or(|last| last.0 <= time) {
            line.push_back(entry);
        } else {
            self.others.push(Reverse(entry));
        }
    }

    pub(super) fn next_time(&self) -> Option<Time> {
        self.next().map(|((time, _, _), _)| time)
    }

    /// The next entry, and in which line it stands (behind the last: in the heap).
    fn next(&self) -> Option<(Entry, usize)> {
        let [completions, wakes] = &self.lines;
        let firsts = [
            completions.front().copied(),
            wakes.front().copied(),
            self.others.peek().map(|Reverse(entry)| *entry),
        ];
        let firsts = firsts.into_iter().zip(0..);
        let firsts = firsts.filter_map(|(entry, line)| entry.map(|entry| (entry, line)));
        firsts.min_by_key(|((time, number, _), _)| (*time, *number))
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        let ((_, _, event), line) = self.next()?;
        match self.lines.get_mut(line) {
            Some(line) => drop(line.pop_front()),
            None => drop(self.others.pop()),
        }
        Some(event)
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
                prop_assert_eq!(agenda.next_time(), Some(Time::from_nanos(time)));
                prop_assert_eq!(agenda.pop(), Some(event));
            }
            prop_assert_eq!(agenda.pop(), None);
        }
    }
}
