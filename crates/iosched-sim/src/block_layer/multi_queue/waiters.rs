//! Processes that sleep in the kernel until a tag is free, and when they run again.
//!
//! A freed tag returns to the bitmap, and the first waiter in `wait_queues` is woken. Until it runs, any
//! process can take the tag: the process whose request completed was woken just before, and takes it if
//! it submits its next request sooner. The waiter then finds no tag and sleeps again. Which of the two is
//! first is random ([`TagSteal`]).
//!
//! Facts: `blk_mq_get_tag` (Linux 6.12).

use super::super::{Delays, TagSteal};
use crate::random::Random;
use crate::units::{Nanos, Time};

/// Whether a process sleeps for a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sleep {
    Awake,
    Asleep,
    /// It tries again then.
    Woken(Time),
}

/// What becomes of a process that is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeState {
    /// It sleeps for a tag, and nobody has woken it: an answer to something else does not.
    Sleeps,
    /// It was woken for a tag, and runs then.
    Later(Time),
    /// It was woken for a tag, and runs.
    Woken,
    /// It did not sleep for a tag.
    Awake,
}

#[derive(Debug, Clone, Copy)]
struct Waiter {
    sleep: Sleep,
    /// How often it was woken and found no tag.
    failed_wakes: u32,
}

#[derive(Debug)]
pub(super) struct Waiters {
    /// By process.
    all: Vec<Waiter>,
    tag_steal: TagSteal,
    delays: Delays,
    chance: Random,
}

impl Waiters {
    pub(super) fn new(
        processes: usize,
        tag_steal: &TagSteal,
        delays: Delays,
        seed: u64,
    ) -> Waiters {
        let awake = Waiter {
            sleep: Sleep::Awake,
            failed_wakes: 0,
        };
        Waiters {
            all: vec![awake; processes],
            tag_steal: *tag_steal,
            delays,
            chance: Random::new(seed, "waiters"),
        }
    }

    /// The process found no tag, `again` if it had been woken for one.
    pub(super) fn sleeps(&mut self, process: usize, again: bool) {
        let waiter = &mut self.all[process];
        waiter.sleep = Sleep::Asleep;
        waiter.failed_wakes = if again {
            waiter.failed_wakes.saturating_add(1)
        } else {
            0
        };
    }

    /// Whether all who are woken for a tag run only after the process that gave it back, which was
    /// woken before them and comes again; the first of them is this one.
    pub(super) fn loses_tag_race(&mut self, now: Time, first: usize) -> bool {
        let share = self.tag_steal.at(now, self.all[first].failed_wakes);
        share > 0.0 && self.chance.unit() < share
    }

    /// The process is woken for a tag; says when it runs, which is after the one that gave the tag back
    /// if it is `late`.
    pub(super) fn wake(&mut self, now: Time, process: usize, late: bool) -> Time {
        let behind = if late {
            self.delays.wakeup
        } else {
            Nanos::ZERO
        };
        let runs = now + behind + self.delays.tag_wakeup;
        self.all[process].sleep = Sleep::Woken(runs);
        runs
    }

    /// The process is to go on.
    pub(super) fn wake_state(&mut self, now: Time, process: usize) -> WakeState {
        let rise = match self.all[process].sleep {
            Sleep::Awake => WakeState::Awake,
            Sleep::Asleep => return WakeState::Sleeps,
            Sleep::Woken(runs) if runs > now => return WakeState::Later(runs),
            Sleep::Woken(_) => WakeState::Woken,
        };
        self.all[process].sleep = Sleep::Awake;
        rise
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiters(tag_steal: &TagSteal) -> Waiters {
        Waiters::new(1, tag_steal, Delays::RECORDED, 7)
    }

    #[test]
    fn who_sleeps_rises_when_it_was_woken_and_not_before() {
        let mut waiters = waiters(&TagSteal::default());
        let now = Time::ZERO + Nanos::from_micros(1);
        assert_eq!(waiters.wake_state(now, 0), WakeState::Awake);
        waiters.sleeps(0, false);
        assert_eq!(waiters.wake_state(now, 0), WakeState::Sleeps);
        let runs = waiters.wake(now, 0, false);
        assert_eq!(runs, now + Delays::RECORDED.tag_wakeup);
        assert_eq!(waiters.wake_state(now, 0), WakeState::Later(runs));
        assert_eq!(waiters.wake_state(runs, 0), WakeState::Woken);
        assert_eq!(
            waiters.wake_state(now, 0),
            WakeState::Awake,
            "it sleeps no longer"
        );
    }

    #[test]
    fn who_was_woken_and_found_no_tag_comes_too_late_as_often_as_is_said_for_that() {
        let mut waiters = waiters(&TagSteal::steadily([0.8, 0.1, 1.0, 0.0]));
        let mut late = |again: bool| {
            waiters.sleeps(0, again);
            let is_late = |_: &i32| waiters.loses_tag_race(Time::ZERO, 0);
            (0..1000).filter(is_late).count()
        };
        assert!((750..850).contains(&late(false)));
        assert!((50..150).contains(&late(true)));
        assert_eq!([late(true), late(true), late(true)], [1000, 1000, 0]);
        assert!((750..850).contains(&late(false)), "it has had a tag");
    }
}
