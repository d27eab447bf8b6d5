//! Which of two requests of a queue is better served next, seen from a position: the rule that cfq and bfq have in common
//! (`cfq_choose_req` of Linux 4.9, `bfq_choose_req` of 6.1).

use super::Values;
use crate::request::{RequestId, Requests};
use crate::sorted::Sorted;
use crate::units::Sector;

/// What a way backwards costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct BackSeek {
    /// So far behind a request still counts as near, in sectors.
    max: u64,
    /// So many times as far as it is.
    penalty: u64,
}

impl BackSeek {
    /// `back_seek_max` and `back_seek_penalty`.
    pub(super) fn new(values: &Values) -> BackSeek {
        BackSeek {
            max: values.count("back_seek_max") * 2,
            penalty: values.count("back_seek_penalty"),
        }
    }

    /// The better one of two requests, if there are two, seen from `last`.
    pub(super) fn choose(
        self,
        requests: &Requests,
        one: Option<RequestId>,
        other: Option<RequestId>,
        last: Sector,
    ) -> Option<RequestId> {
        let (Some(first), Some(second)) = (one, other) else {
            return one.or(other);
        };
        if first == second {
            return other;
        }
        let (a, b) = (&requests[first], &requests[second]);
        if a.sync != b.sync {
            return if a.sync { one } else { other };
        }
        if a.prio != b.prio {
            return if a.prio { one } else { other };
        }
        let first_is_better = match (self.cost(a.start, last), self.cost(b.start, last)) {
            (Some(near), Some(far)) if near != far => near < far,
            (Some(_), Some(_)) => a.start >= b.start,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => a.start <= b.start,
        };
        if first_is_better { one } else { other }
    }

    /// The better one of those beside a request that goes; behind the last one the first is.
    pub(super) fn choose_beside(
        self,
        requests: &Requests,
        sorted: &Sorted<Sector, RequestId>,
        id: RequestId,
    ) -> Option<RequestId> {
        let start = requests[id].start;
        let (previous, next) = sorted.neighbours(start, id);
        let next = next.or_else(|| sorted.first().map(|(_, first)| first));
        let next = next.filter(|&next| next != id);
        self.choose(requests, next, previous, start)
    }

    /// Forward distance, or backward with a penalty; nothing if it is too far back.
    fn cost(self, position: Sector, last: Sector) -> Option<u64> {
        let distance = position.distance(last).as_u64();
        if position >= last {
            Some(distance)
        } else if distance <= self.max {
            Some(distance * self.penalty)
        } else {
            None
        }
    }
}
