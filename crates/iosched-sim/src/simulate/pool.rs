//! Requests to be had: `nr_requests` of each kind, and who waits for one.
//!
//! Follows Linux 4.19: the process that takes the last one, and each that has waited, may take a batch
//! beyond it, up to half as many again, so that it does not sleep for every single request.

use std::collections::VecDeque;

use crate::units::{Nanos, Time};

/// Requests in a batch.
const BATCH: u32 = 32;
/// How long a batch may take.
const BATCH_TIME: Nanos = Nanos::from_millis(20);

/// Whether a request was to be had.
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
struct Kind {
    in_use: usize,
    full: bool,
    congested: bool,
    waiting: VecDeque<usize>,
}

/// See the [module's page](self).
#[derive(Debug)]
pub(super) struct Pool {
    limit: usize,
    /// Asynchronous, synchronous.
    kinds: [Kind; 2],
    /// By process.
    batches: Vec<Batch>,
}

impl Pool {
    pub(super) fn new(limit: usize, processes: usize) -> Pool {
        Pool {
            limit: limit.max(1),
            kinds: [Kind::default(), Kind::default()],
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

    /// A request is free again. Returns who is to be woken for it.
    pub(super) fn free(&mut self, sync: bool) -> Option<usize> {
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
        kind.waiting.pop_front()
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
    use super::*;

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
        assert_eq!(pool.free(true), None, "still beyond the limit");
        assert_eq!(pool.free(true), None);
        assert_eq!(pool.free(true), Some(1));
        pool.woken(NOW, 1);
        assert!(take(&mut pool, 1) && take(&mut pool, 1));
    }

    #[test]
    fn a_batch_ends_with_its_time() {
        let mut pool = Pool::new(4, 2);
        while take(&mut pool, 0) {}
        pool.free(true);
        pool.free(true);
        let late = NOW + BATCH_TIME;
        assert_eq!(pool.allocate(late, 0, true, false), Allocation::Wait);
    }

    #[test]
    fn congestion_is_between_the_kernels_thresholds() {
        assert_eq!((congestion_on(128), congestion_off(128)), (113, 103));
        for limit in 1..300 {
            assert!(congestion_on(limit) <= limit);
            assert!(congestion_off(limit) >= 1);
        }
    }

    #[test]
    fn the_smallest_pool_works() {
        let mut pool = Pool::new(1, 2);
        assert!(take(&mut pool, 0));
        assert!(!take(&mut pool, 1));
        pool.wait(1, true);
        assert_eq!(pool.free(true), Some(1));
        pool.woken(NOW, 1);
        assert!(take(&mut pool, 1));
    }
}
