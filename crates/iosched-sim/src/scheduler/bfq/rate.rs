//! The peak rate of the disk, from what was dispatched in about a second without a pause.
//!
//! An observation that was mostly sequential weighs more; one that was not counts only if it was faster.

use super::Bfq;
use super::moment::{LONG_AGO, MILLI, Moment};
use super::queue::{QueueId, is_seek, sectors_of};
use crate::request::{Request, RequestId, Requests};
use crate::units::{Sector, Sectors};

/// Bits of a rate behind the point: rates are in sectors per microsecond.
pub(super) const SHIFT: u32 = 16;

/// An observation ends after a second, and is too short below 300 ms.
const WHOLE: i64 = 1000 * MILLI;
const SHORTEST: i64 = 300 * MILLI;

/// And with fewer requests than these.
const ENOUGH: i64 = 32;

/// A disk that was idle this long was not observed.
const PAUSE: i64 = 100 * MILLI;

/// Two requests closer than this follow one another.
pub(super) const CLOSE_IN_TIME: i64 = 2 * MILLI;

/// Faster disks are not believed in.
const FASTEST: i64 = 20 << SHIFT;

#[derive(Debug, Clone)]
pub(super) struct Rate {
    /// What the disk can do, in sectors per microsecond times 2^16.
    pub(super) peak: i64,
    pub(super) samples: i64,
    pub(super) sequential: i64,
    pub(super) sectors: i64,
    pub(super) largest: i64,
    /// From the first dispatch to the last, in nanoseconds.
    pub(super) interval: i64,
    pub(super) first_dispatch: i64,
    pub(super) last_dispatch: i64,
    pub(super) last_completion: i64,
}

impl Rate {
    pub(super) fn new(peak: i64) -> Rate {
        Rate {
            peak,
            samples: 0,
            sequential: 0,
            sectors: 0,
            largest: 0,
            interval: 0,
            first_dispatch: LONG_AGO,
            last_dispatch: LONG_AGO,
            last_completion: LONG_AGO,
        }
    }

    /// `bfq_reset_rate_computation()`.
    fn begin(&mut self, at: Moment, first: &Request) {
        let length = sectors_of(first);
        (self.samples, self.sequential) = (1, 0);
        (self.sectors, self.largest) = (length, length);
        (self.first_dispatch, self.last_dispatch) = (at.ns, at.ns);
    }

    fn add(&mut self, at: Moment, request: &Request, follows: bool) {
        let length = sectors_of(request);
        self.samples += 1;
        self.sequential += i64::from(follows);
        self.sectors += length;
        self.largest = if self.samples % 32 == 0 {
            length
        } else {
            self.largest.max(length)
        };
        self.interval = at.ns - self.first_dispatch;
    }

    /// The observation ends. True if there is another peak rate (`bfq_update_rate_reset()`).
    fn close(&mut self) -> bool {
        if self.samples < ENOUGH || self.interval < SHORTEST {
            return false;
        }
        let until_completed = self.last_completion - self.first_dispatch;
        self.interval = self.interval.max(until_completed);
        let rate = (self.sectors << SHIFT) / (self.interval / 1000);
        let mostly_random = self.sequential < 3 * self.samples / 4;
        if mostly_random && rate <= self.peak || rate > FASTEST {
            return false;
        }
        let weight = 9 * self.sequential / self.samples;
        let weight = (weight * self.interval / WHOLE).min(8);
        let parts = 10 - weight;
        self.peak = (self.peak * (parts - 1) / parts + rate / parts).max(1);
        true
    }
}

impl Bfq {
    fn close_rate(&mut self) {
        if self.rate.close() {
            self.learn_max_budget();
        }
    }

    /// A request goes to the disk; it does not count as being there yet (`bfq_update_peak_rate()`).
    pub(super) fn observe_dispatch(
        &mut self,
        at: Moment,
        requests: &Requests,
        id: RequestId,
        queue: QueueId,
    ) {
        let request = &requests[id];
        let seeks = self.seeks_from(self.last_position, request);
        let quick = at.ns - self.rate.last_completion < CLOSE_IN_TIME;
        let follows = (self.rq_in_driver > 0 || quick) && !seeks;
        if self.rate.samples == 0 {
            self.rate.begin(at, request);
        } else if at.ns - self.rate.last_dispatch > PAUSE && self.rq_in_driver == 0 {
            self.close_rate();
            self.rate.begin(at, request);
        } else {
            self.rate.add(at, request, follows);
            if self.rate.interval >= WHOLE {
                self.close_rate();
                self.rate.begin(at, request);
            }
        }
        self.last_position = request.end();
        if self.in_service_queue == Some(queue) {
            self.in_serv_last_pos = request.end();
        }
        self.rate.last_dispatch = at.ns;
    }

    /// A request has completed. One that took so long that the disk cannot have been busy with it ends
    /// the observation.
    pub(super) fn observe_completion(&mut self, at: Moment) {
        let since = at.ns - self.rate.last_completion;
        let too_slow = || (self.rate.largest << SHIFT) / (since / 1000) < 1 << (SHIFT - 10);
        if since / 1000 > CLOSE_IN_TIME / 1000 && too_slow() {
            self.close_rate();
            self.rate.samples = 0;
        }
        self.rate.last_completion = at.ns;
    }

    /// The disk has to seek from this position to the request.
    pub(super) fn seeks_from(&self, from: Sector, request: &Request) -> bool {
        let length: Sectors = request.length;
        is_seek(from, request.start, length, self.rotational)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ProcessId;
    use crate::request::{Bio, IoPriority};
    use crate::units::Time;

    fn request(length: u64) -> Request {
        let bio = Bio {
            length: Sectors::new(length),
            ..Bio::flush(ProcessId(1), IoPriority::default())
        };
        Request::new(&bio, Time::ZERO)
    }

    fn observed(sequential: bool, length: u64) -> Rate {
        let mut rate = Rate::new(9333);
        let at = |ms: i64| Moment {
            ns: ms * MILLI,
            tick: 0,
        };
        rate.begin(at(0), &request(length));
        for ms in 1..=1000 {
            rate.add(at(ms), &request(length), sequential);
        }
        rate
    }

    #[test]
    fn a_second_of_sequential_requests_replaces_half_of_the_rate() {
        let mut rate = observed(true, 128);
        assert!(rate.close());
        let seen = ((1001 * 128) << 16) / 1_000_000;
        assert_eq!(rate.peak, 9333 / 2 + seen / 2);
    }

    #[test]
    fn random_requests_count_only_where_they_were_faster() {
        assert!(!observed(false, 8).close());
        let mut fast = observed(false, 1024);
        assert!(fast.close());
        let seen = ((1001 * 1024) << 16) / 1_000_000;
        assert_eq!(fast.peak, 9333 * 9 / 10 + seen / 10, "of the least weight");
    }

    #[test]
    fn short_observations_and_few_requests_do_not_count() {
        let mut short = observed(true, 128);
        short.interval = SHORTEST - 1;
        assert!(!short.close());
        let mut few = observed(true, 128);
        few.samples = 31;
        assert!(!few.close());
    }
}
