//! deadline: sector order within a batch, the oldest request first once one has expired, reads
//! before writes but not for ever.
//!
//! Follows `block/deadline-iosched.c` (Linux 4.19). Left out: zoned disks.

mod followed;

use iosched_facts::scheduler as facts;

use super::data_dir::{READ, WRITE, data_dir, next_direction};
use super::{Elevator, Followed, Kernel, PhaseSearch, SchedulerInfo, Values};
use crate::list::{Links, List};
use crate::request::{Bio, RequestId, Requests};
use crate::request_table::ByRequest;
use crate::sorted::Sorted;
use crate::units::{Sector, Time};

/// How it is listed.
pub(crate) static INFO: SchedulerInfo = SchedulerInfo {
    facts: &facts::DEADLINE,
    build: |tunables, kernel, _| Box::new(Deadline::new(tunables, kernel)),
    phase_search: PhaseSearch::MostAgreed,
    ..SchedulerInfo::PLAIN
};

/// Reads, or writes: they are queued apart.
#[derive(Debug, Clone, Default)]
struct Direction {
    /// By position.
    sorted: Sorted<Sector, RequestId>,
    fifo: List,
    /// Where the batch goes on.
    next: Option<RequestId>,
}

#[derive(Debug, Clone)]
pub(super) struct Deadline {
    /// Reads, writes.
    directions: [Direction; 2],
    links: Links,
    /// By the request's index: the tick from which on it is expired.
    expires: ByRequest<u64>,
    /// Requests dispatched in this batch.
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
            directions: [Direction::default(), Direction::default()],
            links: Links::default(),
            expires: ByRequest::default(),
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

    /// The rule: which request is next. Changes what a choice changes, not the queues.
    /// `deadline_dispatch_requests()`.
    fn next_request(&mut self, now: Time) -> Option<RequestId> {
        let batch = self.directions[WRITE].next.or(self.directions[READ].next);
        if let Some(next) = batch
            && self.batching < self.fifo_batch
        {
            return Some(next);
        }
        let waiting = [READ, WRITE].map(|dir| self.directions[dir].fifo.first().is_some());
        let direction = next_direction(waiting, &mut self.starved, self.writes_starved)?;
        self.batching = 0;
        let oldest = self.directions[direction]
            .fifo
            .first()
            .expect("the direction has requests");
        let expired = self.kernel.tick(now) >= self.expires[oldest];
        match self.directions[direction].next {
            Some(next) if !expired => Some(next),
            _ => Some(oldest),
        }
    }

    /// Takes a request out; the batch goes on behind it (`deadline_move_request()`).
    fn dispatch_request(&mut self, requests: &Requests, id: RequestId) {
        let direction = data_dir(requests[id].op);
        self.batching += 1;
        let next = self.directions[direction]
            .sorted
            .remove(requests[id].start, id);
        self.directions[READ].next = None;
        self.directions[WRITE].next = None;
        self.directions[direction].next = next;
        self.directions[direction].fifo.remove(&mut self.links, id);
    }
}

impl Elevator for Deadline {
    fn info(&self) -> &'static SchedulerInfo {
        &INFO
    }

    fn insert(&mut self, now: Time, requests: &Requests, id: RequestId) -> bool {
        let direction = data_dir(requests[id].op);
        self.expires
            .set(id, self.kernel.tick(now) + self.expire[direction]);
        self.directions[direction]
            .sorted
            .insert(requests[id].start, id);
        self.directions[direction]
            .fifo
            .push_back(&mut self.links, id);
        false
    }

    fn dispatch(&mut self, now: Time, requests: &Requests, _hw_queue: usize) -> Option<RequestId> {
        let id = self.next_request(now)?;
        self.dispatch_request(requests, id);
        Some(id)
    }

    fn front_merge(&self, requests: &Requests, bio: &Bio) -> Option<RequestId> {
        if !self.front_merges {
            return None;
        }
        let direction = data_dir(bio.op);
        let at_end = self.directions[direction].sorted.at(bio.end());
        at_end.filter(|&id| requests[id].op == bio.op)
    }

    fn former(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        let sorted = &self.directions[data_dir(requests[id].op)].sorted;
        sorted.predecessor(requests[id].start, id)
    }

    fn latter(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        let sorted = &self.directions[data_dir(requests[id].op)].sorted;
        sorted.successor(requests[id].start, id)
    }

    fn front_merged(&mut self, _now: Time, requests: &Requests, id: RequestId, old: Sector) {
        // Sorted anew; a batch that was to go on with it still does.
        let sorted = &mut self.directions[data_dir(requests[id].op)].sorted;
        sorted.remove(old, id);
        sorted.insert(requests[id].start, id);
    }

    fn requests_merged(
        &mut self,
        _now: Time,
        requests: &Requests,
        survivor: RequestId,
        victim: RequestId,
    ) {
        let Deadline {
            directions,
            links,
            expires,
            ..
        } = self;
        let direction = &mut directions[data_dir(requests[victim].op)];
        let after = direction.sorted.remove(requests[victim].start, victim);
        if direction.next == Some(victim) {
            direction.next = after;
        }
        if expires[victim] < expires[survivor] {
            expires[survivor] = expires[victim];
            direction.fifo.replace(links, victim, survivor);
        } else {
            direction.fifo.remove(links, victim);
        }
    }

    fn has_work(&self, _queue: usize) -> bool {
        self.directions
            .iter()
            .any(|direction| direction.fifo.first().is_some())
    }

    fn followed(self: Box<Self>) -> Option<Box<dyn Followed>> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use crate::request::{Op, PriorityClass};
    use crate::scheduler::fixture::Queue;
    use crate::units::Nanos;

    fn queue(tunables: &str) -> Queue {
        Queue::new(&format!("deadline{tunables}"))
    }

    fn read(queue: &mut Queue, start: u64) {
        queue.insert(Op::Read, start, PriorityClass::BestEffort);
    }

    fn reads(queue: &mut Queue, starts: &[u64]) {
        for &start in starts {
            read(queue, start);
        }
    }

    fn writes(queue: &mut Queue, starts: &[u64]) {
        for &start in starts {
            queue.insert(Op::Write, start, PriorityClass::BestEffort);
        }
    }

    /// Where the requests start, in the order in which they are dispatched.
    fn order(queue: &mut Queue) -> Vec<u64> {
        std::iter::from_fn(|| queue.dispatch()).collect()
    }

    #[test]
    fn a_batch_begins_with_the_oldest_and_goes_forward_from_it() {
        let mut queue = queue("");
        reads(&mut queue, &[50, 70, 30, 60]);
        assert_eq!(order(&mut queue), [50, 60, 70, 30]);
    }

    #[test]
    fn fifo_batch_an_expired_request_is_next_when_the_batch_is_over_and_not_before() {
        let mut queue = queue(":fifo_batch=2,read_expire=100");
        reads(&mut queue, &[10, 20, 30, 40]);
        read(&mut queue, 5);
        assert_eq!(queue.dispatch(), Some(10));
        queue.pass(Nanos::from_millis(200));
        assert_eq!(queue.dispatch(), Some(20), "within the batch");
        // All have expired: each batch begins with the oldest.
        assert_eq!(order(&mut queue), [30, 40, 5]);
    }

    #[test]
    fn what_has_not_expired_does_not_end_the_way_forward() {
        let mut queue = queue(":fifo_batch=1,read_expire=100");
        reads(&mut queue, &[50, 70, 30, 60]);
        assert_eq!(queue.dispatch(), Some(50));
        assert_eq!(queue.dispatch(), Some(60), "a new batch goes on in place");
        queue.pass(Nanos::from_millis(200));
        assert_eq!(queue.dispatch(), Some(70), "the oldest that is left");
    }

    #[test]
    fn writes_starved_reads_are_chosen_so_often_before_writes() {
        for (starved, expected) in [(1, [1, 100, 2, 101]), (2, [1, 2, 100, 3])] {
            let mut queue = queue(&format!(":fifo_batch=1,writes_starved={starved}"));
            reads(&mut queue, &[1, 2, 3]);
            writes(&mut queue, &[100, 101]);
            assert_eq!(order(&mut queue)[..4], expected, "{starved}");
        }
    }

    #[test]
    fn writes_alone_wait_for_nobody() {
        let mut queue = queue("");
        writes(&mut queue, &[9, 8]);
        assert_eq!(order(&mut queue), [9, 8]);
    }

    #[test]
    fn front_merges_a_bio_that_ends_where_a_request_begins_joins_it_if_that_is_wanted() {
        use crate::scheduler::fixture::bio;
        use crate::units::Sector;
        for (tunables, joins) in [("", true), (":front_merges=0", false)] {
            let mut queue = queue(tunables);
            read(&mut queue, 50);
            let found = queue
                .scheduler
                .front_merge(&queue.requests, &bio(Sector::new(49)));
            assert_eq!(found.is_some(), joins, "{tunables}");
        }
    }
}
