//! none: no scheduler. What cannot be issued at once waits in its CPU's software queue.
//!
//! Follows the multi-queue block layer (Linux 6.1 to 6.12) where no elevator is attached: the queues
//! of all CPUs are served in turn, one request from each, each in its order of arrival. What is
//! issued directly never comes here: the block layer does that. Left out: that a device which was
//! not busy is given whole software queues, one CPU's after the other's.

use super::cpu_lists::CpuLists;
use super::{BlockLayer, Scheduler, SchedulerInfo};
use crate::elevator::Merge;
use crate::list::Links;
use crate::request::{Bio, RequestId, Requests};
use crate::units::Time;

/// How it is listed.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "none",
    summary: "no scheduler: in order of arrival, straight to the device while it takes more",
    block_layer: BlockLayer::MultiQueue,
    tunables: &[],
    initial: &[],
    uses_ticks: false,
};

/// See the [module's page](self).
#[derive(Debug, Clone, Default)]
pub struct NoScheduler {
    queues: CpuLists,
    links: Links,
    /// The CPU whose turn it is.
    turn: usize,
}

impl Scheduler for NoScheduler {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn insert(&mut self, _now: Time, requests: &Requests, id: RequestId) -> bool {
        self.queues.push(&mut self.links, requests, id);
        false
    }

    fn dispatch(&mut self, now: Time, requests: &Requests) -> Option<RequestId> {
        let id = self.queues.first_from(self.turn)?;
        self.dispatch_recorded(now, requests, id);
        Some(id)
    }

    fn dispatch_recorded(&mut self, _now: Time, requests: &Requests, id: RequestId) {
        self.queues.remove(&mut self.links, requests, id);
        self.turn = usize::from(requests[id].cpu) + 1;
    }

    fn merges_in_lists(&self) -> bool {
        true
    }

    fn list_partner(&self, requests: &Requests, bio: &Bio, cpu: u16) -> Option<Merge> {
        self.queues.partner(&self.links, requests, bio, cpu)
    }

    fn former(&self, _requests: &Requests, _id: RequestId) -> Option<RequestId> {
        None // requests that meet stay two
    }

    fn latter(&self, _requests: &Requests, _id: RequestId) -> Option<RequestId> {
        None
    }

    fn requests_merged(
        &mut self,
        _now: Time,
        requests: &Requests,
        _survivor: RequestId,
        victim: RequestId,
    ) {
        self.queues.remove(&mut self.links, requests, victim);
    }

    fn has_work(&self) -> bool {
        self.queues.len() > 0
    }

    fn explain(&self, _now: Time) -> String {
        format!("{} in the software queues, oldest first", self.queues.len())
    }

    fn duplicate(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Queue;
    use crate::request::{Op, PriorityClass};

    #[test]
    fn the_queues_of_the_cpus_are_served_in_turn() {
        let mut queue = Queue::new("none");
        for (cpu, start) in [(1, 10), (1, 11), (1, 12), (0, 20), (3, 30), (3, 31)] {
            queue.cpu = cpu;
            queue.insert(Op::Read, start, PriorityClass::BestEffort);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.dispatch()).collect();
        assert_eq!(order, [20, 10, 30, 11, 31, 12]);
    }
}
