//! nearest: the request that is nearest to where the disk was sent last, unless one has waited too long.
//!
//! The worked example of `docs/your-own-scheduler.md`. Shortest seek first is as old as disks (Denning,
//! AFIPS 1967); what it lacks is a limit on waiting, and `expire` is that.

use super::{
    BlockLayer, Elevator, Followed, Kernel, PhaseSearch, SchedulerInfo, TunableInfo,
    Values,
};
use crate::list::{Links, List};
use crate::request::{Bio, RequestId, Requests};
use crate::request_table::ByRequest;
use crate::sorted::Sorted;
use crate::units::{Sector, Time};

/// How it is listed.
pub(crate) const INFO: SchedulerInfo = SchedulerInfo {
    name: "nearest",
    summary: "the nearest request next, the oldest once it has waited too long",
    block_layer: BlockLayer::MultiQueue,
    build: |tunables, kernel, _| Box::new(Nearest::new(tunables, kernel)),
    tunables: &[TunableInfo::new("expire", "ms", 500, 0, 60_000)
        .what("a request that has waited so long goes before nearer ones")],
    phase_search: PhaseSearch::MostAgreed,
    ..SchedulerInfo::PLAIN
};

/// See the [module's page](self).
#[derive(Debug, Clone)]
pub(super) struct Nearest {
    /// By position: where the nearest is.
    sorted: Sorted<Sector, RequestId>,
    /// By age: the oldest is the first.
    fifo: List,
    links: Links,
    /// The tick from which on a request has waited too long.
    expires: ByRequest<u64>,
    /// Behind the request that was dispatched last.
    head: Sector,
    kernel: Kernel,
    /// In ticks.
    expire: u64,
}

impl Nearest {
    fn new(tunables: &Values, kernel: &Kernel) -> Nearest {
        Nearest {
            sorted: Sorted::default(),
            fifo: List::default(),
            links: Links::default(),
            expires: ByRequest::default(),
            head: Sector::ZERO,
            kernel: *kernel,
            expire: kernel.millis_to_ticks(tunables.count("expire")),
        }
    }

    /// The rule: which request is next.
    fn choose(&self, now: Time) -> Option<RequestId> {
        let oldest = self.fifo.first()?;
        if self.kernel.tick(now) >= self.expires[oldest] {
            return Some(oldest);
        }
        let (behind, ahead) = (
            self.sorted.before(self.head),
            self.sorted.at_or_after(self.head),
        );
        let seek = |place: &(Sector, RequestId)| place.0.distance(self.head);
        let nearest = ahead.into_iter().chain(behind).min_by_key(seek); // of two as near the one ahead
        nearest.map(|(_, id)| id)
    }

    fn dispatch_request(&mut self, requests: &Requests, id: RequestId) {
        self.sorted.remove(requests[id].start, id);
        self.fifo.remove(&mut self.links, id);
        self.head = requests[id].end();
    }
}

impl Elevator for Nearest {
    fn info(&self) -> &'static SchedulerInfo {
        &INFO
    }

    fn insert(&mut self, now: Time, requests: &Requests, id: RequestId) -> bool {
        self.expires.set(id, self.kernel.tick(now) + self.expire);
        self.sorted.insert(requests[id].start, id);
        self.fifo.push_back(&mut self.links, id);
        false
    }

    fn dispatch(&mut self, now: Time, requests: &Requests, _queue: usize) -> Option<RequestId> {
        let id = self.choose(now)?;
        self.dispatch_request(requests, id);
        Some(id)
    }

    fn has_work(&self, _queue: usize) -> bool {
        !self.sorted.is_empty()
    }

    // What continues a request at its end is found by the block layer. What follows is for the rest.

    fn front_merge(&self, requests: &Requests, bio: &Bio) -> Option<RequestId> {
        let behind = self.sorted.at(bio.end());
        behind.filter(|&id| requests[id].op == bio.op)
    }

    fn former(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        self.sorted.predecessor(requests[id].start, id)
    }

    fn latter(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        self.sorted.successor(requests[id].start, id)
    }

    fn front_merged(&mut self, _now: Time, requests: &Requests, id: RequestId, old: Sector) {
        self.sorted.remove(old, id);
        self.sorted.insert(requests[id].start, id);
    }

    fn requests_merged(
        &mut self,
        _now: Time,
        requests: &Requests,
        survivor: RequestId,
        victim: RequestId,
    ) {
        self.sorted.remove(requests[victim].start, victim);
        if self.expires[victim] < self.expires[survivor] {
            self.expires[survivor] = self.expires[victim];
            self.fifo.replace(&mut self.links, victim, survivor);
        } else {
            self.fifo.remove(&mut self.links, victim);
        }
    }

    fn followed(self: Box<Self>) -> Option<Box<dyn Followed>> {
        Some(self)
    }
}

/// Only for `conform`.
impl Followed for Nearest {
    fn dispatch_recorded(&mut self, _now: Time, requests: &Requests, id: RequestId) {
        self.dispatch_request(requests, id);
    }

    fn empty_dispatches_matter(&self) -> bool {
        false
    }

    fn explain(&self, now: Time) -> String {
        let Some(oldest) = self.fifo.first() else {
            return "nothing waits".to_owned();
        };
        let left = self.expires[oldest].saturating_sub(self.kernel.tick(now));
        format!(
            "{} wait, the disk was sent to {} last, the oldest expires in {left} ticks",
            self.sorted.len(),
            self.head.as_u64()
        )
    }

    fn duplicate(&self) -> Box<dyn Followed> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::request::{Op, PriorityClass};
    use crate::scheduler::testing::Queue;
    use crate::units::Nanos;

    fn with_reads(scheduler: &str, starts: &[u64]) -> Queue {
        let mut queue = Queue::new(scheduler);
        for &start in starts {
            queue.insert(Op::Read, start, PriorityClass::BestEffort);
        }
        queue
    }

    /// Where the requests start, in the order in which they are dispatched.
    fn order(queue: &mut Queue) -> Vec<u64> {
        std::iter::from_fn(|| queue.dispatch()).collect()
    }

    #[test]
    fn the_nearest_is_next_whichever_way_it_lies() {
        let mut queue = with_reads("nearest", &[1000, 300, 320, 100]);
        assert_eq!(order(&mut queue), [100, 300, 320, 1000]);
        let mut queue = with_reads("nearest", &[400]);
        assert_eq!(queue.dispatch(), Some(400));
        for start in [1000, 390, 300] {
            queue.insert(Op::Read, start, PriorityClass::BestEffort);
        }
        assert_eq!(order(&mut queue), [390, 300, 1000]);
    }

    #[test]
    fn of_two_as_near_the_one_ahead_is_next() {
        let mut queue = with_reads("nearest", &[49]);
        assert_eq!(queue.dispatch(), Some(49)); // it ends at 50
        for start in [40, 60] {
            queue.insert(Op::Read, start, PriorityClass::BestEffort);
        }
        assert_eq!(order(&mut queue), [60, 40]);
    }

    #[test]
    fn what_waited_too_long_is_next_however_far_away_it_is() {
        let mut queue = with_reads("nearest:expire=100", &[9000]);
        queue.pass(Nanos::from_millis(60));
        queue.insert(Op::Read, 10, PriorityClass::BestEffort);
        queue.pass(Nanos::from_millis(60));
        assert_eq!(order(&mut queue), [9000, 10]);
    }
}
