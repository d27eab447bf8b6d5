//! What every model needs around its mechanics: the door where commands wait for a place in the
//! drive, the agenda of what will happen, and the tray of what has completed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::{Command, Completion};
use crate::units::Time;

/// Commands that wait for a place in the drive, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Door {
    waiting: VecDeque<Command>,
    inside: usize,
    depth: usize,
}

impl Door {
    pub(super) fn new(depth: usize) -> Door {
        Door {
            waiting: VecDeque::with_capacity(64),
            inside: 0,
            depth,
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    pub(super) fn arrive(&mut self, command: Command) {
        self.waiting.push_back(command);
    }

    /// The next command, if there is room in the drive for it.
    pub(super) fn enter(&mut self) -> Option<Command> {
        if self.inside == self.depth {
            return None;
        }
        let command = self.waiting.pop_front()?;
        self.inside += 1;
        Some(command)
    }

    pub(super) fn leave(&mut self) {
        assert!(self.inside > 0, "a command left an empty drive");
        self.inside -= 1;
    }
}

/// What will happen, by time; what is planned for the same time happens in the order of planning.
#[derive(Debug)]
pub(super) struct Agenda<E: Ord> {
    events: BinaryHeap<Reverse<(Time, u64, E)>>,
    planned: u64,
}

impl<E: Ord> Agenda<E> {
    pub(super) fn new() -> Agenda<E> {
        Agenda {
            events: BinaryHeap::with_capacity(256),
            planned: 0,
        }
    }

    pub(super) fn plan(&mut self, time: Time, event: E) {
        self.planned += 1;
        self.events.push(Reverse((time, self.planned, event)));
    }

    pub(super) fn next_time(&self) -> Option<Time> {
        self.events.peek().map(|Reverse((time, _, _))| *time)
    }

    /// The next event that is due by `now`.
    pub(super) fn take_due(&mut self, now: Time) -> Option<(Time, E)> {
        if self.next_time()? > now {
            return None;
        }
        self.events
            .pop()
            .map(|Reverse((time, _, event))| (time, event))
    }
}

/// What completed and has not been fetched yet, in order of time.
#[derive(Debug, Default)]
pub(super) struct Tray {
    completed: VecDeque<Completion>,
}

impl Tray {
    pub(super) fn put(&mut self, completion: Completion) {
        debug_assert!(
            self.completed
                .back()
                .is_none_or(|last| last.time <= completion.time)
        );
        self.completed.push_back(completion);
    }

    pub(super) fn next_time(&self) -> Option<Time> {
        self.completed.front().map(|completion| completion.time)
    }

    pub(super) fn fetch(&mut self, into: &mut Vec<Completion>) {
        into.extend(self.completed.drain(..));
    }
}

/// The earlier of two times that may not exist.
pub(super) fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
