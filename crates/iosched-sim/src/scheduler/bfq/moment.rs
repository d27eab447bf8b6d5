//! Time as bfq keeps it: in nanoseconds, and in ticks of the kernel.
//!
//! Everything that is done under one hold of the lock sees one tick, that of the moment in which the
//! lock was taken: interrupts are off. Both clocks are signed, so that "long ago" needs no special case.

use crate::scheduler::{Kernel, Rule};
use crate::units::{Nanos, Time};

/// Before anything that matters, on either clock.
pub(super) const LONG_AGO: i64 = -(1 << 60);

/// Nanoseconds in a millisecond.
pub(super) const MILLI: i64 = 1_000_000;

/// Now, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) ns: i64,
    pub(super) tick: i64,
}

/// Lengths in ticks that rules name, and how others are turned into ticks.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    kernel: Kernel,
    /// 10 ms.
    pub(super) after_split: i64,
    /// 100 ms.
    pub(super) inject_settles: i64,
    /// 180 ms.
    pub(super) burst: i64,
    /// 300 ms.
    pub(super) soft_rt: i64,
    /// 500 ms.
    pub(super) between_async_wr: i64,
    /// 600 ms.
    pub(super) stable_merge: i64,
    /// 1000 ms.
    pub(super) inject_renewal: i64,
    /// 2000 ms.
    pub(super) idle_long: i64,
    /// 10 s.
    pub(super) burst_over: i64,
    /// 3 s and 25 s: bounds of an interactive weight-raising.
    pub(super) wr_duration: (i64, i64),
    /// A tenth of a second, rounded down.
    pub(super) early_merge: i64,
    /// A fifth of a second, rounded down.
    pub(super) idle_class: i64,
}

#[expect(clippy::cast_possible_wrap, reason = "runs are shorter than 292 years")]
fn signed(number: u64) -> i64 {
    number as i64
}

/// A length in nanoseconds.
pub(super) fn span(nanos: Nanos) -> i64 {
    signed(nanos.as_nanos())
}

/// A time that a timer is set to.
pub(super) fn time(ns: i64) -> Time {
    Time::from_nanos(u64::try_from(ns).unwrap_or(0))
}

impl Clock {
    pub(super) fn new(kernel: &Kernel) -> Clock {
        let ticks = |millis| signed(kernel.millis_to_ticks(millis));
        let hz = i64::from(kernel.hz);
        Clock {
            kernel: *kernel,
            after_split: ticks(10),
            inject_settles: ticks(100),
            burst: ticks(180),
            soft_rt: ticks(300),
            between_async_wr: ticks(500),
            stable_merge: ticks(600),
            inject_renewal: ticks(1000),
            idle_long: ticks(2000),
            burst_over: ticks(10_000),
            wr_duration: (ticks(3000), ticks(25_000)),
            early_merge: hz / 10,
            idle_class: hz / 5,
        }
    }

    pub(super) fn hz(&self) -> i64 {
        i64::from(self.kernel.hz)
    }

    /// All that is done for a bio sees one time in nanoseconds, that at which the first of it was done.
    pub(super) fn is_read_once_for_a_bio(&self) -> bool {
        self.kernel.follows(Rule::BioInPlug)
    }

    /// The tick in which a time lies.
    pub(super) fn tick(&self, at: Time) -> i64 {
        signed(self.kernel.tick(at))
    }

    /// This time, where the lock was taken then or at another time.
    pub(super) fn moment(&self, now: Time, locked: Option<Time>) -> Moment {
        Moment {
            ns: signed(now.as_nanos()),
            tick: self.tick(locked.unwrap_or(now)),
        }
    }

    /// Milliseconds in ticks, rounded up.
    pub(super) fn ticks(&self, millis: u64) -> i64 {
        signed(self.kernel.millis_to_ticks(millis))
    }

    /// Nanoseconds in whole ticks.
    pub(super) fn whole_ticks(&self, nanos: i64) -> i64 {
        nanos / signed(self.kernel.tick_nanos())
    }

    /// Ticks in whole milliseconds.
    pub(super) fn millis(&self, ticks: i64) -> i64 {
        ticks * 1000 / self.hz()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_become_ticks_rounded_up() {
        let clock = Clock::new(&Kernel {
            hz: 250,
            ..Kernel::default()
        });
        let lengths = [clock.after_split, clock.burst, clock.soft_rt];
        assert_eq!(lengths, [3, 45, 75]);
        let lengths = [clock.between_async_wr, clock.stable_merge, clock.idle_long];
        assert_eq!(lengths, [125, 150, 500]);
        assert_eq!((clock.millis(31), clock.whole_ticks(8 * MILLI)), (124, 2));
    }

    #[test]
    fn the_tick_is_that_in_which_the_lock_was_taken() {
        let clock = Clock::new(&Kernel {
            hz: 250,
            ..Kernel::default()
        });
        let now = Time::from_nanos(8_000_001);
        let moment = clock.moment(now, Some(Time::from_nanos(7_999_999)));
        assert_eq!((moment.ns, moment.tick), (8_000_001, 1));
    }
}
