//! What is to happen and when; of two things at one time the one that was planned first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

/// See the [module's page](self).
#[derive(Debug, Default)]
pub(super) struct Agenda {
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    planned: u64,
}

impl Agenda {
    pub(super) fn plan(&mut self, time: Time, event: Event) {
        self.planned += 1;
        self.events.push(Reverse((time, self.planned, event)));
    }

    pub(super) fn next_time(&self) -> Option<Time> {
        self.events.peek().map(|Reverse((time, _, _))| *time)
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.events.pop().map(|Reverse((_, _, event))| event)
    }
}
