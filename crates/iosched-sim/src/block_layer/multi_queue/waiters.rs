//! Processes that sleep in the kernel until a tag is free, and when they run again.
//!
//! A freed tag returns to the bitmap, and the first waiter in `wait_queues` is woken. Until it runs, any
//! process can take the tag. The waiter then finds no tag and sleeps again.
//!
//! Facts: `blk_mq_get_tag` (Linux 6.12).

use super::super::Delays;
use crate::units::Time;

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

#[derive(Debug)]
pub(super) struct Waiters {
    /// By process.
    all: Vec<Sleep>,
    delays: Delays,
}

impl Waiters {
    pub(super) fn new(processes: usize, delays: Delays) -> Waiters {
        Waiters {
            all: vec![Sleep::Awake; processes],
            delays,
        }
    }

    /// The process found no tag.
    pub(super) fn sleeps(&mut self, process: usize) {
        self.all[process] = Sleep::Asleep;
    }

    /// The process is woken for a tag; says when it runs.
    pub(super) fn wake(&mut self, now: Time, process: usize) -> Time {
        let runs = now + self.delays.tag_wakeup;
        self.all[process] = Sleep::Woken(runs);
        runs
    }

    /// The process is to go on.
    pub(super) fn wake_state(&mut self, now: Time, process: usize) -> WakeState {
        let rise = match self.all[process] {
            Sleep::Awake => WakeState::Awake,
            Sleep::Asleep => return WakeState::Sleeps,
            Sleep::Woken(runs) if runs > now => return WakeState::Later(runs),
            Sleep::Woken(_) => WakeState::Woken,
        };
        self.all[process] = Sleep::Awake;
        rise
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nanos;

    #[test]
    fn who_sleeps_rises_when_it_was_woken_and_not_before() {
        let mut waiters = Waiters::new(1, Delays::RECORDED);
        let now = Time::ZERO + Nanos::from_micros(1);
        assert_eq!(waiters.wake_state(now, 0), WakeState::Awake);
        waiters.sleeps(0);
        assert_eq!(waiters.wake_state(now, 0), WakeState::Sleeps);
        let runs = waiters.wake(now, 0);
        assert_eq!(runs, now + Delays::RECORDED.tag_wakeup);
        assert_eq!(waiters.wake_state(now, 0), WakeState::Later(runs));
        assert_eq!(waiters.wake_state(runs, 0), WakeState::Woken);
        assert_eq!(
            waiters.wake_state(now, 0),
            WakeState::Awake,
            "it sleeps no longer"
        );
    }
}
