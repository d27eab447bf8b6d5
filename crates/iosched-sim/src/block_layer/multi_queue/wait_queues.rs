//! The wait queues of processes that sleep until a hardware queue has a free tag.
//!
//! There are eight queues. Successive sleepers join successive queues, at the end. A freed tag wakes the
//! first sleeper of one queue, the next freed tag that of the next queue; empty queues are skipped. A
//! process that wakes reserves its place for another sleep before it looks for a tag, whether it gets one
//! or not. So places are skipped and the queues differ in length; each queue gets the same number of
//! tags, so that sleepers in a long queue wait longer. With a bitmap of 16 tags or more, only every second
//! up to every eighth freed tag wakes anyone, and then as many at a time.
//!
//! Facts: `lib/sbitmap.c`, `blk_mq_get_tag` (Linux 6.8 to 6.18). In recordings with events of the process
//! scheduler these rules predicted hundreds of wakes in a row, until two processors joined queues at the
//! same time (`results/validation.md`). Left out: that case, and batched wakes for tags of kyber.

use std::collections::VecDeque;

/// How many queues there are.
const QUEUES: usize = u8::BITS as usize; // a bit each in `occupied`

/// Most that are woken at a time.
const MOST_AT_A_TIME: usize = 8;

/// Which of the queues a process will stand in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WaitQueueIndex(usize);

#[derive(Debug)]
pub(super) struct WaitQueues {
    queues: [VecDeque<usize>; QUEUES],
    /// A bit for each queue: somebody stands in it.
    occupied: u8,
    /// Where the next one stands.
    place: usize,
    /// Where the next one is woken.
    turn: u32,
    /// Processes that stand in queues, and those that were woken and do not run yet.
    waiting: usize,
    /// Tags that were freed, for which nobody was woken yet.
    freed: usize,
    /// Tags that are freed until processes are woken, as many.
    batch: usize,
}

impl WaitQueues {
    /// For tags of which any request may have so many (`sbq_calc_wake_batch`).
    pub(super) fn new(tags: u32) -> WaitQueues {
        let batch = (tags as usize / QUEUES).clamp(1, MOST_AT_A_TIME);
        WaitQueues {
            queues: Default::default(),
            occupied: 0,
            place: 0,
            turn: 0,
            waiting: 0,
            freed: 0,
            batch,
        }
    }

    /// The next place to sleep at.
    fn next_place(&mut self) -> WaitQueueIndex {
        let place = WaitQueueIndex(self.place);
        self.place = (self.place + 1) % QUEUES;
        place
    }

    /// A process found no tag and sleeps: at its place, if it has one.
    pub(super) fn sleeps(&mut self, process: usize, place: Option<WaitQueueIndex>) {
        let WaitQueueIndex(queue) = place.unwrap_or_else(|| self.next_place());
        self.queues[queue].push_back(process);
        self.occupied |= 1 << queue;
        self.waiting += 1;
    }

    /// A process that was woken runs, and has its place for another sleep.
    pub(super) fn runs(&mut self) -> WaitQueueIndex {
        self.waiting -= 1;
        self.next_place()
    }

    /// Whether someone waits for a tag.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting > 0
    }

    /// A tag was given back while someone waited: who is woken.
    pub(super) fn wake_up(&mut self, mut wake: impl FnMut(usize)) {
        self.freed += 1;
        if self.freed < self.batch {
            return;
        }
        self.freed -= self.batch;
        let first = self.turn;
        let mut left = self.batch;
        while left > 0 {
            let Some(index) = self.next_occupied() else {
                self.turn = first; // once around, and nobody is left
                return;
            };
            self.turn = (index + 1) % u8::BITS;
            let queue = &mut self.queues[index as usize];
            while left > 0
                && let Some(process) = queue.pop_front()
            {
                wake(process);
                left -= 1;
            }
            if queue.is_empty() {
                self.occupied &= !(1 << index);
            }
        }
    }

    /// The first queue in turn in which somebody stands.
    fn next_occupied(&self) -> Option<u32> {
        let skipped = self.occupied.rotate_right(self.turn).trailing_zeros();
        (skipped < u8::BITS).then_some((self.turn + skipped) % u8::BITS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn woken(queues: &mut WaitQueues) -> Vec<usize> {
        let mut woken = Vec::new();
        queues.wake_up(|process| woken.push(process));
        woken
    }

    #[test]
    fn queues_are_filled_and_served_in_turn_and_who_is_woken_takes_a_place() {
        let mut queues = WaitQueues::new(4);
        for process in 0..10 {
            queues.sleeps(process, None); // 8 and 9 stand behind 0 and 1
        }
        assert_eq!(woken(&mut queues), [0]);
        let place = queues.runs(); // the third: 10 stands behind 3
        queues.sleeps(10, None);
        assert_eq!(woken(&mut queues), [1]);
        queues.sleeps(0, Some(place)); // it came too late
        let order: Vec<_> = (0..10).flat_map(|_| woken(&mut queues)).collect();
        assert_eq!(order, [2, 3, 4, 5, 6, 7, 8, 9, 0, 10]);
        for _ in 0..11 {
            assert!(queues.is_awaited());
            queues.runs();
        }
        assert!(!queues.is_awaited());
    }

    proptest! {
        #[test]
        fn whoever_sleeps_is_woken_once_if_as_many_tags_are_given_back(
            tags in 1..100_u32,
            steps in prop::collection::vec(any::<bool>(), 1..200),
        ) {
            let mut queues = WaitQueues::new(tags);
            let mut asleep = std::collections::BTreeSet::new();
            for (number, sleeps) in steps.into_iter().enumerate() {
                if sleeps {
                    queues.sleeps(number, None);
                    asleep.insert(number);
                } else if queues.is_awaited() {
                    for process in woken(&mut queues) {
                        prop_assert!(asleep.remove(&process));
                        queues.runs();
                    }
                }
                prop_assert_eq!(queues.is_awaited(), !asleep.is_empty());
            }
            // As long as processes wait, all tags were in use, and will be given back.
            for _ in 0..asleep.len() + queues.batch {
                for process in woken(&mut queues) {
                    prop_assert!(asleep.remove(&process));
                }
            }
            prop_assert!(asleep.is_empty(), "{:?}", asleep);
        }
    }
}
