//! A disk slowed down: all that the model inside does takes a whole number of times as long.
//!
//! So what schedulers do on a fast disk can be watched on a machine that is too slow to serve it in
//! real time. Time is divided on the way in and multiplied on the way out, exactly: commands that
//! come at N times the times complete at N times the times. What comes between two of the model's
//! nanoseconds comes at the later one, so that nothing is done before it came.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use super::{Command, Completion, DiskModel};
use crate::units::{Sectors, Time};

/// A model, and by how much it is slowed down.
pub(super) struct SlowedDown {
    inner: Box<dyn DiskModel>,
    factor: u64,
    /// Completed inside at the very nanosecond to which an arrival was put off: not yet outside.
    ahead: VecDeque<Completion>,
    /// What the model returned; kept to reuse its memory.
    fetched: Vec<Completion>,
    now: Time,
}

impl SlowedDown {
    pub(super) fn new(inner: Box<dyn DiskModel>, factor: NonZeroU32) -> SlowedDown {
        SlowedDown {
            inner,
            factor: factor.get().into(),
            ahead: VecDeque::new(),
            fetched: Vec::new(),
            now: Time::ZERO,
        }
    }
}

/// A time of the model, as it is outside.
fn outside(time: Time, factor: u64) -> Time {
    Time::from_nanos(time.as_nanos().saturating_mul(factor))
}

impl DiskModel for SlowedDown {
    fn capacity(&self) -> Sectors {
        self.inner.capacity()
    }

    fn queue_depth(&self) -> usize {
        self.inner.queue_depth()
    }

    fn submit(&mut self, now: Time, command: Command) {
        self.now = self.now.max(now);
        let inside = self.now.as_nanos().div_ceil(self.factor);
        self.inner.submit(Time::from_nanos(inside), command);
    }

    fn next_event(&self) -> Option<Time> {
        let ahead = self.ahead.front().map(|first| first.time);
        let inside = self
            .inner
            .next_event()
            .map(|time| outside(time, self.factor));
        ahead.into_iter().chain(inside).min()
    }

    fn advance(&mut self, now: Time, completed: &mut Vec<Completion>) {
        self.now = self.now.max(now);
        let inside = Time::from_nanos(self.now.as_nanos() / self.factor);
        self.inner.advance(inside, &mut self.fetched);
        let factor = self.factor;
        let fetched = self.fetched.drain(..).map(|done| Completion {
            tag: done.tag,
            started: outside(done.started, factor),
            time: outside(done.time, factor),
        });
        self.ahead.extend(fetched);
        let due = self.ahead.partition_point(|done| done.time <= self.now);
        completed.extend(self.ahead.drain(..due));
    }
}
