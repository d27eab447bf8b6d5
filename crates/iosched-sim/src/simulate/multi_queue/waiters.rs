//! Processes that sleep in the kernel until there is a tag, and when they run again.
//!
//! A freed tag goes back to the others, and a waiter is woken for it. Until that runs the tag is
//! anyone's: the process whose request gave it back was woken just before, and takes it if it is back
//! with its next request sooner. The waiter then finds nothing and sleeps again, behind all others.
//! Which of the two is first depends on where the kernel's scheduler of processes puts them: with a
//! processor for each the waiter, which has only to leave the kernel's sleep; on one processor often
//! the other. This is drawn.
//!
//! Facts: `blk_mq_get_tag`, `lib/sbitmap.c` (Linux 6.12). Left out: that more than 15 tags are woken
//! for in batches, and that waiters stand in eight queues, which are served in turn as they were filled.

use super::super::HostTimes;
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

/// See the [module's page](self).
#[derive(Debug)]
pub(super) struct Waiters {
    /// By process.
    all: Vec<Sleep>,
    /// The share of waiters that run only after the process woken before them.
    retaken: f64,
    chance: Random,
}

impl Waiters {
    pub(super) fn new(processes: usize, retaken: f64, seed: u64) -> Waiters {
        Waiters {
            all: vec![Sleep::Awake; processes],
            retaken,
            chance: Random::new(seed, "waiters"),
        }
    }

    /// The process found no tag.
    pub(super) fn sleeps(&mut self, process: usize) {
        self.all[process] = Sleep::Asleep;
    }

    /// The process is woken for a tag; says when it runs. Before it was woken a `rival`, if one waited
    /// for the request that had the tag.
    pub(super) fn wake(
        &mut self,
        now: Time,
        process: usize,
        rival: bool,
        times: &HostTimes,
    ) -> Time {
        let is_retaken = rival && self.retaken > 0.0 && self.chance.unit() < self.retaken;
        let behind = if is_retaken {
            times.wakeup
        } else {
            Nanos::ZERO
        };
        let runs = now + behind + times.tag_wakeup;
        self.all[process] = Sleep::Woken(runs);
        runs
    }

    /// The process does not sleep for a tag any longer. If it does, an answer to something else does
    /// not wake it: says when it will run, [`Time::MAX`] if nobody has woken it yet.
    pub(super) fn rises(&mut self, now: Time, process: usize) -> Result<(), Time> {
        match self.all[process] {
            Sleep::Asleep => Err(Time::MAX),
            Sleep::Woken(runs) if runs > now => Err(runs),
            Sleep::Woken(_) | Sleep::Awake => {
                self.all[process] = Sleep::Awake;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_rises_when_it_was_woken_and_not_before() {
        let (mut waiters, times) = (Waiters::new(1, 0.0, 1), HostTimes::default());
        let now = Time::ZERO + times.worker;
        assert_eq!(waiters.rises(now, 0), Ok(()), "it does not sleep");
        waiters.sleeps(0);
        assert_eq!(waiters.rises(now, 0), Err(Time::MAX));
        let runs = waiters.wake(now, 0, true, &times);
        assert_eq!(runs, now + times.tag_wakeup);
        assert_eq!(waiters.rises(now, 0), Err(runs));
        assert_eq!(waiters.rises(runs, 0), Ok(()));
        assert_eq!(waiters.rises(now, 0), Ok(()), "it sleeps no longer");
    }

    #[test]
    fn only_a_rival_overtakes_and_as_often_as_is_said() {
        let times = HostTimes::default();
        let late = |rival: bool, retaken: f64| {
            let mut waiters = Waiters::new(1, retaken, 7);
            let is_late = |_: &i32| {
                let runs = waiters.wake(Time::ZERO, 0, rival, &times);
                runs > Time::ZERO + times.wakeup
            };
            (0..1000).filter(is_late).count()
        };
        assert_eq!(
            (late(true, 0.0), late(true, 1.0), late(false, 1.0)),
            (0, 1000, 0)
        );
        assert!((250..350).contains(&late(true, 0.3)), "{}", late(true, 0.3));
    }
}
