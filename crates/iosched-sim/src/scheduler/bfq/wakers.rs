//! Wakers: a queue whose requests come three times right after a completion of the same other queue is
//! taken to be woken by it. Then each may be served while the disk is kept idle for the other.

use super::Bfq;
use super::moment::{MILLI, Moment};
use super::queue::QueueId;

/// A request that comes later than this after a completion was not woken by it.
const SOON: i64 = 4 * MILLI;

/// Coincidences that are believed.
const BELIEVED: u32 = 3;

/// Lengths of idling that they may be spread over.
const SPREAD: i64 = 128;

impl Bfq {
    /// A request has come for a process that had none (`bfq_check_waker()`).
    pub(super) fn check_waker(&mut self, at: Moment, id: QueueId) {
        let Some(last) = self.last_completed_rq_bfqq.filter(|&last| last != id) else {
            return;
        };
        let spread = SPREAD * self.slice_idle;
        let is_late = at.ns - self.rate.last_completion >= SOON;
        let queue = self.queue_mut(id);
        if queue.has_short_ttime || is_late {
            return;
        }
        let waking = &mut queue.waking;
        if waking.candidate != Some(last) || at.ns > waking.since + spread {
            waking.candidate = Some(last);
            waking.detections = 1;
            waking.since = at.ns;
        } else {
            waking.detections += 1;
        }
        if waking.detections == BELIEVED {
            waking.candidate = None;
            self.set_waker(id, last);
        }
    }

    /// The queue is woken by this one from now on.
    pub(super) fn set_waker(&mut self, id: QueueId, waker: QueueId) {
        self.forget_waker(id);
        self.queue_mut(id).waking.waker = Some(waker);
        self.queue_mut(waker).waking.woken.insert(0, id);
    }

    /// Nobody is known to wake the queue.
    pub(super) fn forget_waker(&mut self, id: QueueId) {
        if let Some(waker) = self.queue_mut(id).waking.waker.take() {
            let woken = &mut self.queue_mut(waker).waking.woken;
            woken.retain(|&other| other != id);
        }
    }

    /// The queue is busy: it comes first among those that its waker wakes.
    pub(super) fn come_first_among_woken(&mut self, id: QueueId) {
        if let Some(waker) = self.queue(id).waking.waker {
            let woken = &mut self.queue_mut(waker).waking.woken;
            woken.retain(|&other| other != id);
            woken.insert(0, id);
        }
    }

    /// The queue is no more: it wakes nobody, and is not woken.
    pub(super) fn leave_wakers(&mut self, id: QueueId) {
        self.forget_waker(id);
        for woken in std::mem::take(&mut self.queue_mut(id).waking.woken) {
            self.queue_mut(woken).waking.waker = None;
        }
        for queue in &mut self.queues {
            if queue.waking.candidate == Some(id) {
                queue.waking.candidate = None;
            }
        }
        self.last_completed_rq_bfqq = self.last_completed_rq_bfqq.filter(|&last| last != id);
    }
}
