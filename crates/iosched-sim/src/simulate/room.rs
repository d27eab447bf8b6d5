//! How much may wait for the disk: as much as a host could hold, so that memory does not grow with what a slow disk
//! cannot do.
//!
//! A process that keeps accesses in flight, as its job or a trace says, begins no other one while there are too many bios.
//! It goes on when some were answered, those that have waited longest first, and the account says for how long any waited.

use std::collections::VecDeque;

use crate::units::{Nanos, Time};

/// Most accesses of an open loop that wait for an answer.
const MOST_WAITING: usize = 1 << 16;

/// Most bios, but for those of the last access: a few long accesses take as much memory as many short ones.
const MOST_BIOS: u64 = 1 << 20;

/// Whether no more accesses of an open loop can be made while so many wait, of so many bios.
pub(super) fn is_full((accesses, bios): (usize, u64)) -> bool {
    accesses >= MOST_WAITING || bios >= MOST_BIOS
}

/// How many more accesses of one bio there is room for beside these, where processes keep them in flight.
pub(super) fn left((_, bios): (usize, u64)) -> u64 {
    MOST_BIOS.saturating_sub(bios)
}

/// Processes that wait for room.
#[derive(Debug, Default)]
pub(super) struct Room {
    waiting: VecDeque<usize>,
    /// Since when any waits.
    since: Time,
    held_back: Nanos,
}

impl Room {
    /// For how long some process waited.
    pub(super) fn held_back(&self, now: Time) -> Nanos {
        if self.waiting.is_empty() {
            self.held_back
        } else {
            self.held_back + now.saturating_since(self.since)
        }
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn add(&mut self, now: Time, process: usize) {
        if self.waiting.is_empty() {
            self.since = now;
        }
        self.waiting.push_back(process);
    }

    /// The one that has waited longest.
    pub(super) fn take(&mut self, now: Time) -> Option<usize> {
        let process = self.waiting.pop_front()?;
        if self.waiting.is_empty() {
            self.held_back += now.saturating_since(self.since);
        }
        Some(process)
    }
}
