//! What every model needs around its mechanics: [`Admission`], where commands wait for a place in the
//! drive, and the [`CompletionQueue`] of what has completed.

use std::collections::VecDeque;

use super::{Command, Completion};
use crate::units::Time;

/// Commands that wait for a place in the drive, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Admission {
    waiting: VecDeque<Command>,
    inside: usize,
    depth: usize,
}

impl Admission {
    pub(super) fn new(depth: usize) -> Admission {
        Admission {
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

    /// True if a command that arrives now need not wait: it is inside then.
    pub(super) fn passes(&mut self) -> bool {
        let passes = self.waiting.is_empty() && self.inside < self.depth;
        self.inside += usize::from(passes);
        passes
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

/// What completed and has not been fetched yet, in order of time.
#[derive(Debug, Default)]
pub(super) struct CompletionQueue {
    completed: Vec<Completion>,
}

impl CompletionQueue {
    pub(super) fn put(&mut self, completion: Completion) {
        debug_assert!(
            self.completed
                .last()
                .is_none_or(|last| last.time <= completion.time)
        );
        self.completed.push(completion);
    }

    /// When the first of them completed; [`Time::MAX`] if there is none.
    pub(super) fn next_time(&self) -> Time {
        let first = self.completed.first();
        first.map_or(Time::MAX, |completion| completion.time)
    }

    pub(super) fn fetch(&mut self, into: &mut Vec<Completion>) {
        if into.is_empty() {
            std::mem::swap(into, &mut self.completed); // nothing is copied
        } else {
            into.append(&mut self.completed);
        }
    }
}
