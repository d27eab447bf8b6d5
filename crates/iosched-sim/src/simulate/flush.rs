//! Flushes: that what was acknowledged is on the medium. Many who ask share one command.
//!
//! Follows Linux 4.19: whoever asks while a flush runs, or while a write runs that is to be followed by
//! one, waits for the next; but nobody makes others wait for longer than five seconds.

use super::access::AccessId;
use crate::request::RequestId;
use crate::units::{Nanos, Time};

/// The tag of the flush in the drive: requests have their indices.
pub(super) const FLUSH: u64 = u64::MAX;

/// A waiting flush does not wait for writes any more after this.
const PATIENCE: Nanos = Nanos::from_secs(5);

/// What waits for a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A process that wants nothing but this.
    Access(AccessId),
    /// A write that is to be on the medium: its data are in the disk's cache.
    Write(RequestId),
}

/// Steps that wait for a flush.
#[derive(Debug)]
pub(super) struct Flushes<S> {
    pending: Vec<S>,
    /// Since when the oldest of them has waited.
    since: Option<Time>,
    /// Those for which the flush that runs was issued.
    served: Vec<S>,
    runs: bool,
    /// Writes in the drive that a flush is to follow.
    writes: u64,
}

impl<S> Default for Flushes<S> {
    fn default() -> Flushes<S> {
        Flushes {
            pending: Vec::new(),
            since: None,
            served: Vec::new(),
            runs: false,
            writes: 0,
        }
    }
}

impl<S> Flushes<S> {
    /// The step waits for a flush from now on.
    pub(super) fn ask(&mut self, now: Time, step: S) {
        self.pending.push(step);
        self.since.get_or_insert(now);
    }

    /// A write that a flush is to follow goes to the drive.
    pub(super) fn write_begins(&mut self) {
        self.writes += 1;
    }

    /// It is done.
    pub(super) fn write_ends(&mut self) {
        self.writes -= 1;
    }

    /// True if a flush is to be issued now: it runs then, for all who wait.
    pub(super) fn begin(&mut self, now: Time) -> bool {
        let Some(since) = self.since else {
            return false;
        };
        if self.runs || (self.writes > 0 && now < since + PATIENCE) {
            return false;
        }
        self.runs = true;
        self.since = None;
        std::mem::swap(&mut self.pending, &mut self.served);
        true
    }

    /// The flush is done: for these steps.
    pub(super) fn end(&mut self) -> std::vec::Drain<'_, S> {
        self.runs = false;
        self.served.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_while_a_flush_runs_shares_the_next_one() {
        let mut flushes = Flushes::default();
        let now = Time::ZERO;
        assert!(!flushes.begin(now));
        flushes.ask(now, 1);
        assert!(flushes.begin(now));
        flushes.ask(now, 2);
        flushes.ask(now, 3);
        assert!(!flushes.begin(now));
        assert_eq!(flushes.end().collect::<Vec<_>>(), [1]);
        assert!(flushes.begin(now));
        assert_eq!(flushes.end().collect::<Vec<_>>(), [2, 3]);
        assert!(!flushes.begin(now));
    }

    #[test]
    fn a_flush_waits_for_writes_that_want_one_too_but_not_for_ever() {
        let mut flushes = Flushes::default();
        flushes.write_begins();
        flushes.ask(Time::ZERO, ());
        assert!(!flushes.begin(Time::ZERO + Nanos::from_millis(4_999)));
        assert!(flushes.begin(Time::ZERO + PATIENCE));
        flushes.end();
        flushes.ask(Time::ZERO, ());
        flushes.write_ends();
        assert!(flushes.begin(Time::ZERO));
    }
}
