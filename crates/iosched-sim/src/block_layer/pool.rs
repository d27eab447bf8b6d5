//! Free requests: `nr_requests` of each kind, and the processes that wait for one.
//!
//! Follows Linux 4.19: the process that takes the last one, and each that has waited, may allocate a
//! batch beyond the limit, up to half as many again, so that it does not sleep for every single request.

use std::collections::VecDeque;

use crate::units::{Nanos, Time};

/// Requests in a batch.
const BATCH: u32 = 32;
/// How long a batch may take.
const BATCH_TIME: Nanos = Nanos::from_millis(20);

/// Whether there was a free request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allocation {
    Given,
    /// The process sleeps until it is woken.
    Wait,
}

/// A process's right to requests beyond the limit.
#[derive(Debug, Clone, Copy, Default)]
struct Batch {
    left: u32,
    since: Time,
}

impl Batch {
    /// The first request may be had however late it is.
    fn lasts(self, now: Time) -> bool {
        self.left == BATCH || (self.left > 0 && now < self.since + BATCH_TIME)
    }
}

#[derive(Debug, Default)]
struct RequestList {
    in_use: usize,
    full: bool,
    congested: bool,
    waiting: VecDeque<usize>,
}

#[derive(Debug)]
pub(super) struct Pool {
    limit: usize,
    /// Asynchronous, synchronous.
    kinds: [RequestList; 2],
    /// By process.
    batches: Vec<Batch>,
}

impl Pool {
    pub(super) fn new(limit: usize, processes: usize) -> Pool {
        Pool {
            limit: limit.max(1),
            kinds: [RequestList::default(), RequestList::default()],
            batches: vec![Batch::default(); processes],
        }
    }

    /// A request for the process, which must have one if the scheduler says so.
    pub(super) fn allocate(
        &mut self,
        now: Time,
        process: usize,
        sync: bool,
        must: bool,
    ) -> Allocation {
        let limit = self.limit;
        let kind = &mut self.kinds[usize::from(sync)];
        if kind.in_use + 1 >= limit {
            if !kind.full {
                kind.full = true;
                Self::begin_batch(&mut self.batches[process], now);
            } else if !must && !self.batches[process].lasts(now) {
                return Allocation::Wait;
            }
        }
        // Not even a batch goes farther; of one request there is no half.
        if kind.in_use >= (limit * 3 / 2).max(1) {
            return Allocation::Wait;
        }
        kind.in_use += 1;
        kind.congested |= kind.in_use >= congestion_on(limit);
        let batch = &mut self.batches[process];
        if batch.lasts(now) {
            batch.left -= 1;
        }
        Allocation::Given
    }

    fn begin_batch(batch: &mut Batch, now: Time) {
        if !batch.lasts(now) {
            *batch = Batch {
                left: BATCH,
                since: now,
            };
        }
    }

    /// The process sleeps until one is free.
    pub(super) fn wait(&mut self, process: usize, sync: bool) {
        let waiting = &mut self.kinds[usize::from(sync)].waiting;
        if !waiting.contains(&process) {
            waiting.push_back(process);
        }
    }

    /// The process has waited and tries again: it takes a batch.
    pub(super) fn woken(&mut self, now: Time, process: usize) {
        Self::begin_batch(&mut self.batches[process], now);
    }

    /// A request is free again. Returns who is to be woken for it: the first that waited and still does.
    /// Who has gone on for another reason (an access of its own was answered) has no use for it, and
    /// the others would wait for ever if no request completes after this one.
    pub(super) fn free(&mut self, sync: bool, waits: impl Fn(usize) -> bool) -> Option<usize> {
        let limit = self.limit;
        let kind = &mut self.kinds[usize::from(sync)];
        kind.in_use -= 1;
        if kind.in_use < congestion_off(limit) {
            kind.congested = false;
        }
        if kind.in_use + 1 > limit {
            return None;
        }
        kind.full = false;
        while let Some(process) = kind.waiting.pop_front() {
            if waits(process) {
                return Some(process);
            }
        }
        None
    }

    /// There are so many asynchronous requests that writeback holds back.
    pub(super) fn is_congested(&self) -> bool {
        self.kinds[0].congested
    }
}

fn congestion_on(limit: usize) -> usize {
    (limit - limit / 8 + 1).min(limit)
}

fn congestion_off(limit: usize) -> usize {
    (limit - limit / 8).saturating_sub(limit / 16 + 1).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Processes that want so many requests of each kind, one after the other.
    struct World {
        pool: Pool,
        /// By process: whether each request wanted is synchronous, the next one last.
        wanted: Vec<Vec<bool>>,
        /// Requests that have not completed, with their processes.
        out: Vec<(bool, usize)>,
        asleep: Vec<bool>,
        /// Woken, and not running yet.
        woken: Vec<usize>,
        now: Time,
    }

    impl World {
        /// The process takes what it wants until it has to sleep.
        fn go_on(&mut self, process: usize) {
            if self.asleep[process] {
                self.pool.woken(self.now, process);
                self.asleep[process] = false;
            }
            while let Some(&sync) = self.wanted[process].last() {
                if self.pool.allocate(self.now, process, sync, false) == Allocation::Wait {
                    self.pool.wait(process, sync);
                    self.asleep[process] = true;
                    return;
                }
                self.wanted[process].pop();
                self.out.push((sync, process));
            }
        }

        /// A request completes; its process goes on for that, too, if `answers`.
        fn complete(&mut self, index: usize, answers: bool) {
            let (sync, owner) = self.out.swap_remove(index);
            let World { wanted, asleep, .. } = self;
            let waits = |process: usize| asleep[process] && wanted[process].last() == Some(&sync);
            let first = self.pool.free(sync, waits);
            self.woken
                .extend(first.into_iter().chain(answers.then_some(owner)));
        }
    }

    proptest! {
        #[test]
        fn who_waits_is_woken_as_long_as_requests_complete(
            limit in 1..6_usize,
            wanted in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..12), 1..8),
            steps in prop::collection::vec((any::<bool>(), any::<bool>(), 0..64_usize, 0..30_u64), 0..100),
        ) {
            let processes = wanted.len();
            let mut world = World {
                pool: Pool::new(limit, processes),
                wanted,
                out: Vec::new(),
                asleep: vec![false; processes],
                woken: (0..processes).collect(),
                now: Time::ZERO,
            };
            // Whatever comes first at first; in the end all that is on its way arrives.
            for (run, answers, which, millis) in steps {
                world.now += Nanos::from_millis(millis);
                if run && !world.woken.is_empty() {
                    let process = world.woken.remove(which % world.woken.len());
                    world.go_on(process);
                } else if !world.out.is_empty() {
                    world.complete(which % world.out.len(), answers);
                }
            }
            loop {
                if let Some(process) = world.woken.pop() {
                    world.go_on(process);
                } else if world.out.is_empty() {
                    break;
                } else {
                    world.complete(0, false);
                }
            }
            prop_assert!(world.wanted.iter().all(Vec::is_empty), "{:?} wait for ever", world.wanted);
        }
    }

    const NOW: Time = Time::ZERO;

    fn take(pool: &mut Pool, process: usize) -> bool {
        pool.allocate(NOW, process, true, false) == Allocation::Given
    }

    #[test]
    fn the_process_that_fills_the_pool_takes_a_batch_and_others_wait() {
        let mut pool = Pool::new(128, 2);
        for _ in 0..127 {
            assert!(take(&mut pool, 0));
        }
        // The 128th fills it; a batch is 32 requests, the one that fills it among them.
        let beyond = (0..100).take_while(|_| take(&mut pool, 0)).count();
        assert_eq!(beyond, 32);
        assert!(!take(&mut pool, 1));
        let must = pool.allocate(NOW, 1, true, true);
        assert_eq!(must, Allocation::Given);
        assert_eq!(pool.allocate(NOW, 1, false, false), Allocation::Given);
    }

    #[test]
    fn nobody_goes_beyond_half_as_many_again() {
        let mut pool = Pool::new(8, 1);
        assert_eq!((0..100).take_while(|_| take(&mut pool, 0)).count(), 12);
    }

    #[test]
    fn who_waited_is_woken_in_turn_and_takes_a_batch() {
        let mut pool = Pool::new(4, 3);
        while take(&mut pool, 0) {}
        for process in [1, 2] {
            assert!(!take(&mut pool, process));
            pool.wait(process, true);
        }
        assert_eq!(pool.free(true, |_| true), None, "still beyond the limit");
        assert_eq!(pool.free(true, |_| true), None);
        assert_eq!(pool.free(true, |_| true), Some(1));
        pool.woken(NOW, 1);
        assert!(take(&mut pool, 1) && take(&mut pool, 1));
    }
}
