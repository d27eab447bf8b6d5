//! Flushes, which put acknowledged writes on the medium. Several requests to flush share one command.
//!
//! Follows Linux 4.19: while a flush is in flight, or a write that a flush has to follow, those that
//! arrive wait for the next flush; writes hold it back for at most five seconds.

use super::{Outputs, Subject, Token};
use crate::request::{Action, ProcessId, RequestId};
use crate::units::{Nanos, Time};

/// The tag of the flush in the device: requests have their indices.
pub(crate) const FLUSH: u64 = u64::MAX;

/// A waiting flush does not wait for writes any more after this.
const PATIENCE: Nanos = Nanos::from_secs(5);

/// What waits for a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A bio that wants nothing but this.
    Bio(Token),
    /// The same, where it takes a request; or a write that is to be on the medium: its data are in the
    /// disk's cache.
    Request(RequestId),
}

/// Steps that wait for a flush.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    pending: Vec<Step>,
    /// Since when the oldest of them has waited.
    since: Option<Time>,
    /// Those for which the flush that runs was issued.
    served: Vec<Step>,
    runs: bool,
    /// It is to go to the device, before everything else.
    due: bool,
    /// Writes in the drive that a flush is to follow.
    writes: u64,
}

impl Flushes {
    /// The step waits for a flush from now on.
    pub(super) fn ask(&mut self, now: Time, step: Step) {
        self.pending.push(step);
        self.since.get_or_insert(now);
    }

    /// A write that a flush is to follow goes to the drive.
    pub(super) fn write_begins(&mut self) {
        self.writes += 1;
    }

    /// It is done, and waits for the flush.
    fn write_ends(&mut self, now: Time, id: RequestId) {
        self.writes -= 1;
        self.ask(now, Step::Request(id));
    }

    /// If a flush is to be issued now it is due, for all who wait.
    pub(super) fn begin(&mut self, now: Time) {
        if let Some(since) = self.since {
            self.begin_for_those_since(since, now);
        }
    }

    fn begin_for_those_since(&mut self, since: Time, now: Time) {
        if self.runs || (self.writes > 0 && now < since + PATIENCE) {
            return;
        }
        self.runs = true;
        self.due = true;
        self.since = None;
        std::mem::swap(&mut self.pending, &mut self.served);
    }

    /// True if a flush is to go to the device.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// It goes there.
    pub(super) fn issued(&mut self) {
        self.due = false;
    }

    /// The flush is done: for these steps.
    fn end(&mut self) -> Vec<Step> {
        self.runs = false;
        std::mem::take(&mut self.served)
    }
}

/// A block layer over a device that flushes: what is the same for both when the device is done.
pub(super) trait Flushing {
    fn flushes(&mut self) -> &mut Flushes;

    /// A request is done, and so is what it carried.
    fn request_done(&mut self, out: &mut impl Outputs, now: Time, id: RequestId);

    /// The device is done with a request, which is a write that a flush is to `follow` or not.
    fn device_done(&mut self, out: &mut impl Outputs, now: Time, id: RequestId, follow: bool) {
        if follow {
            self.flushes().write_ends(now, id);
        } else {
            self.request_done(out, now, id);
        }
        self.flushes().begin(now);
    }

    /// The device is done with a flush, and so are those for which it was issued.
    fn flush_done(&mut self, out: &mut impl Outputs, now: Time) {
        if out.is_traced() {
            out.trace(now, Action::Completed, Subject::Flush, ProcessId(0));
        }
        let mut served = self.flushes().end();
        for step in served.drain(..) {
            match step {
                Step::Bio(token) => out.answered(now, token, now),
                Step::Request(id) => self.request_done(out, now, id),
            }
        }
        self.flushes().served = served; // its memory is used again
        self.flushes().begin(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(number: u64) -> Step {
        Step::Request(RequestId::of_tag(number))
    }

    /// A flush becomes due now.
    fn begins(flushes: &mut Flushes, now: Time) -> bool {
        flushes.begin(now);
        let due = flushes.is_due();
        flushes.issued();
        due
    }

    #[test]
    fn who_asks_while_a_flush_runs_shares_the_next_one() {
        let mut flushes = Flushes::default();
        let now = Time::ZERO;
        assert!(!begins(&mut flushes, now));
        flushes.ask(now, write(1));
        assert!(begins(&mut flushes, now));
        flushes.ask(now, write(2));
        flushes.ask(now, write(3));
        assert!(!begins(&mut flushes, now));
        assert_eq!(flushes.end(), [write(1)]);
        assert!(begins(&mut flushes, now));
        assert_eq!(flushes.end(), [write(2), write(3)]);
        assert!(!begins(&mut flushes, now));
    }

    #[test]
    fn a_flush_waits_for_writes_that_want_one_too_but_not_for_ever() {
        let mut flushes = Flushes::default();
        flushes.write_begins();
        flushes.ask(Time::ZERO, write(1));
        let early = Time::ZERO + Nanos::from_millis(4_999);
        assert!(!begins(&mut flushes, early));
        assert!(begins(&mut flushes, Time::ZERO + PATIENCE));
        flushes.end();
        flushes.write_ends(Time::ZERO, RequestId::of_tag(2));
        assert!(begins(&mut flushes, Time::ZERO));
    }
}
