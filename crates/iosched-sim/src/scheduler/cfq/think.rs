//! What cfq remembers of a process: how long it thinks between two requests, and how far apart they
//! lie.

use crate::units::{Nanos, Time};

/// The decaying number of observations that many of them approach.
const SETTLED: u64 = 249;

/// A decaying mean of the time between a completion and the next request.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThinkTime {
    last_end: Time,
    total: u64,
    samples: u64,
    mean: u64,
}

impl ThinkTime {
    /// Nothing is known; the first pause counts from `now`.
    pub(super) fn new(now: Time) -> ThinkTime {
        ThinkTime {
            last_end: now,
            total: 0,
            samples: 0,
            mean: 0,
        }
    }

    /// When the last request was completed.
    pub(super) fn last_end(&self) -> Time {
        self.last_end
    }

    /// The mean is said to be this, of as many observations as count.
    pub(super) fn believe(&mut self, mean: Nanos) {
        self.mean = mean.as_nanos();
        self.samples = SETTLED;
        self.total = self.mean * self.samples;
    }

    /// A request was completed.
    pub(super) fn ended(&mut self, now: Time) {
        self.last_end = now;
    }

    /// The next one came. Pauses count up to twice the idle time that they are compared with.
    pub(super) fn came(&mut self, now: Time, idle: Nanos) {
        let pause = now
            .saturating_since(self.last_end)
            .as_nanos()
            .min(2 * idle.as_nanos());
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * pause) / 8;
        self.mean = (self.total + 128) / self.samples;
    }

    /// The mean, once there were three observations.
    pub(super) fn mean(&self) -> Option<Nanos> {
        (self.samples > 80).then(|| Nanos::new(self.mean))
    }

    /// True if it is known to be longer than `idle`.
    pub(super) fn is_longer_than(&self, idle: Nanos) -> bool {
        self.mean().is_some_and(|mean| mean > idle)
    }
}

/// Which of the last 32 requests were far from the one before.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SeekHistory(u32);

impl SeekHistory {
    pub(super) fn note(&mut self, far: bool) {
        self.0 = self.0 << 1 | u32::from(far);
    }

    pub(super) fn is_seeky(self) -> bool {
        self.0.count_ones() > 4
    }
}
