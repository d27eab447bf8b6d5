//! deadline: sector order within a batch, the oldest request first once one has expired, reads
//! before writes but not for ever.
//!
//! Follows `block/deadline-iosched.c` (Linux 4.19). Left out: zoned disks.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::{Kernel, Scheduler, SchedulerInfo, TunableInfo, Values};
use crate::list::{Links, List};
use crate::request::{Bio, RequestId, Requests};
use crate::units::{Sector, Time};

const MAX: i64 = i32::MAX as i64;

/// How it is listed.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "deadline",
    summary: "sector order in batches; an expired request goes first; reads before writes",
    tunables: &[
        TunableInfo {
            name: "fifo_batch",
            unit: "",
            default: 16,
            min: 0,
            max: MAX,
        },
        TunableInfo {
            name: "front_merges",
            unit: "",
            default: 1,
            min: 0,
            max: 1,
        },
        TunableInfo {
            name: "read_expire",
            unit: "ms",
            default: 500,
            min: 0,
            max: MAX,
        },
        TunableInfo {
            name: "write_expire",
            unit: "ms",
            default: 5000,
            min: 0,
            max: MAX,
        },
        TunableInfo {
            name: "writes_starved",
            unit: "",
            default: 2,
            min: -MAX,
            max: MAX,
        },
    ],
    initial: &[],
    uses_ticks: true,
};

/// Where a request stands in the order of positions; equal positions in order of insertion.
type Place = (Sector, u64);

/// Reads, or writes: they are queued apart.
#[derive(Debug, Clone, Default)]
struct Side {
    sorted: BTreeMap<Place, RequestId>,
    fifo: List,
    /// Where the batch goes on.
    next: Option<RequestId>,
}

/// What deadline knows of a request besides the block layer.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    /// Tick from which on it is expired.
    expires: u64,
    /// Number of its insertion.
    number: u64,
}

const READ: usize = 0;
const WRITE: usize = 1;

/// See the [module's page](self).
#[derive(Debug, Clone)]
pub struct Deadline {
    /// Reads, writes.
    sides: [Side; 2],
    links: Links,
    marks: Vec<Mark>,
    inserted: u64,
    /// Requests given out in this batch.
    batching: u64,
    /// Choices of reads while writes waited.
    starved: i64,
    kernel: Kernel,
    /// Ticks from insertion to expiry: reads, writes.
    expire: [u64; 2],
    fifo_batch: u64,
    writes_starved: i64,
    front_merges: bool,
}

impl Deadline {
    pub(super) fn new(tunables: &Values, kernel: &Kernel) -> Deadline {
        Deadline {
            sides: [Side::default(), Side::default()],
            links: Links::default(),
            marks: Vec::new(),
            inserted: 0,
            batching: 0,
            starved: 0,
            kernel: *kernel,
            expire: [
                kernel.millis_to_ticks(tunables.count("read_expire")),
                kernel.millis_to_ticks(tunables.count("write_expire")),
            ],
            fifo_batch: tunables.count("fifo_batch"),
            writes_starved: tunables.get("writes_starved"),
            front_merges: tunables.get("front_merges") != 0,
        }
    }

    fn mark(&self, id: RequestId) -> Mark {
        self.marks[id.index()]
    }

    fn place(&self, requests: &Requests, id: RequestId) -> Place {
        (requests[id].start, self.mark(id).number)
    }

    fn side_of(requests: &Requests, id: RequestId) -> usize {
        if requests[id].op.is_write() {
            WRITE
        } else {
            READ
        }
    }

    /// The request after this place.
    fn successor(&self, side: usize, place: Place) -> Option<RequestId> {
        let after = (Bound::Excluded(place), Bound::Unbounded);
        self.sides[side]
            .sorted
            .range(after)
            .next()
            .map(|(_, &id)| id)
    }

    /// The rule: which request is next. Changes what a choice changes, not the queues.
    fn choose(&mut self, now: Time) -> Option<RequestId> {
        let batch = self.sides[WRITE].next.or(self.sides[READ].next);
        if let Some(next) = batch
            && self.batching < self.fifo_batch
        {
            return Some(next);
        }
        let side = self.choose_side()?;
        self.batching = 0;
        let oldest = self.sides[side]
            .fifo
            .first()
            .expect("the side has requests");
        let expired = self.kernel.tick(now) >= self.mark(oldest).expires;
        match self.sides[side].next {
            Some(next) if !expired => Some(next),
            _ => Some(oldest),
        }
    }

    fn choose_side(&mut self) -> Option<usize> {
        let reads = self.sides[READ].fifo.first().is_some();
        let writes = self.sides[WRITE].fifo.first().is_some();
        if reads && writes {
            let too_often = self.starved >= self.writes_starved;
            self.starved += 1;
            if !too_often {
                return Some(READ);
            }
        } else if reads {
            return Some(READ);
        } else if !writes {
            return None;
        }
        self.starved = 0;
        Some(WRITE)
    }

    /// Takes a request out; the batch goes on behind it.
    fn give_out(&mut self, requests: &Requests, id: RequestId) {
        let side = Self::side_of(requests, id);
        self.batching += 1;
        let next = self.successor(side, self.place(requests, id));
        self.remove(requests, id);
        self.sides[READ].next = None;
        self.sides[WRITE].next = None;
        self.sides[side].next = next;
    }

    fn remove(&mut self, requests: &Requests, id: RequestId) {
        let side = Self::side_of(requests, id);
        let place = self.place(requests, id);
        if self.sides[side].next == Some(id) {
            self.sides[side].next = self.successor(side, place);
        }
        let removed = self.sides[side].sorted.remove(&place);
        assert_eq!(
            removed,
            Some(id),
            "the sorted queue holds what was inserted"
        );
        self.sides[side].fifo.remove(&mut self.links, id);
    }
}

impl Scheduler for Deadline {
    fn name(&self) -> &'static str {
        "deadline"
    }

    fn insert(&mut self, now: Time, requests: &Requests, id: RequestId) -> bool {
        let side = Self::side_of(requests, id);
        if id.index() >= self.marks.len() {
            self.marks.resize(id.index() + 1, Mark::default());
        }
        self.inserted += 1;
        let expires = self.kernel.tick(now) + self.expire[side];
        self.marks[id.index()] = Mark {
            expires,
            number: self.inserted,
        };
        let place = self.place(requests, id);
        self.sides[side].sorted.insert(place, id);
        self.sides[side].fifo.push_back(&mut self.links, id);
        false
    }

    fn dispatch(&mut self, now: Time, requests: &Requests) -> Option<RequestId> {
        let id = self.choose(now)?;
        self.give_out(requests, id);
        Some(id)
    }

    fn dispatch_recorded(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let _ = self.choose(now); // what the choice changes, changes all the same
        self.give_out(requests, id);
    }

    fn front_merge(&self, requests: &Requests, bio: &Bio) -> Option<RequestId> {
        if !self.front_merges {
            return None;
        }
        let side = if bio.op.is_write() { WRITE } else { READ };
        let end = bio.end();
        let at_end = self.sides[side]
            .sorted
            .range((end, 0)..=(end, u64::MAX))
            .next();
        at_end
            .map(|(_, &id)| id)
            .filter(|&id| requests[id].op == bio.op)
    }

    fn former(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        let sorted = &self.sides[Self::side_of(requests, id)].sorted;
        sorted
            .range(..self.place(requests, id))
            .next_back()
            .map(|(_, &id)| id)
    }

    fn latter(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        self.successor(Self::side_of(requests, id), self.place(requests, id))
    }

    fn front_merged(&mut self, _now: Time, requests: &Requests, id: RequestId, old: Sector) {
        let side = Self::side_of(requests, id);
        // Sorted anew; a batch that was to go on with it still does.
        let removed = self.sides[side].sorted.remove(&(old, self.mark(id).number));
        assert_eq!(
            removed,
            Some(id),
            "the sorted queue holds what was inserted"
        );
        self.inserted += 1;
        self.marks[id.index()].number = self.inserted;
        let place = self.place(requests, id);
        self.sides[side].sorted.insert(place, id);
    }

    fn requests_merged(
        &mut self,
        _now: Time,
        requests: &Requests,
        survivor: RequestId,
        victim: RequestId,
    ) {
        let side = Self::side_of(requests, victim);
        let place = self.place(requests, victim);
        if self.sides[side].next == Some(victim) {
            self.sides[side].next = self.successor(side, place);
        }
        self.sides[side].sorted.remove(&place);
        if self.mark(victim).expires < self.mark(survivor).expires {
            self.marks[survivor.index()].expires = self.mark(victim).expires;
            self.sides[side]
                .fifo
                .replace(&mut self.links, victim, survivor);
        } else {
            self.sides[side].fifo.remove(&mut self.links, victim);
        }
    }

    fn has_work(&self) -> bool {
        self.sides.iter().any(|side| side.fifo.first().is_some())
    }

    fn explain(&self, now: Time) -> String {
        let waits = |side: usize| match self.sides[side].fifo.first() {
            None => "none".to_owned(),
            Some(oldest) => {
                let left = self
                    .mark(oldest)
                    .expires
                    .saturating_sub(self.kernel.tick(now));
                let state = if left == 0 {
                    "expired".to_owned()
                } else {
                    format!("expires in {left} ticks")
                };
                format!("{} (oldest {state})", self.sides[side].sorted.len())
            }
        };
        format!(
            "batch at {} of {}, reads: {}, writes: {}, writes passed over {} of {} times",
            self.batching,
            self.fifo_batch,
            waits(READ),
            waits(WRITE),
            self.starved,
            self.writes_starved
        )
    }

    fn duplicate(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
