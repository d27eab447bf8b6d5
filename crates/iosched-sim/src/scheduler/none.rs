//! none: no scheduler. What cannot be issued at once waits in its CPU's software queue.
//!
//! Follows the multi-queue block layer (Linux 6.1 to 6.12) where no elevator is attached: the queues
//! of all CPUs of a hardware queue are served in turn, one request from each, each in its order of
//! arrival. What is
//! issued directly never comes here: the block layer does that. Left out: that a device which was
//! not busy is given whole software queues, one CPU's after the other's.

mod followed;

use iosched_facts::scheduler as facts;

use super::cpu_lists::CpuLists;
use super::{Elevator, Followed, HardwareQueues, SchedulerInfo};
use crate::list::Links;
use crate::request::{Bio, Merge, RequestId, Requests};
use crate::units::Time;

/// How it is listed.
pub(crate) static INFO: SchedulerInfo = SchedulerInfo {
    facts: &facts::NONE,
    build: |_, _, _| Box::new(NoScheduler::default()),
    ..SchedulerInfo::PLAIN
};

/// The software queues of a hardware queue.
#[derive(Debug, Clone, Default)]
struct Software {
    lists: CpuLists,
    /// The CPU whose turn it is.
    turn: usize,
}

#[derive(Debug, Clone)]
pub(super) struct NoScheduler {
    hardware: HardwareQueues,
    /// By hardware queue.
    queues: Vec<Software>,
    links: Links,
}

impl Default for NoScheduler {
    fn default() -> NoScheduler {
        NoScheduler {
            hardware: HardwareQueues::ONE,
            queues: vec![Software::default()],
            links: Links::default(),
        }
    }
}

impl Elevator for NoScheduler {
    fn info(&self) -> &'static SchedulerInfo {
        &INFO
    }

    fn attach(&mut self, queues: HardwareQueues) {
        self.hardware = queues;
        self.queues = vec![Software::default(); queues.count()];
    }

    fn insert(&mut self, _now: Time, requests: &Requests, id: RequestId) -> bool {
        let queue = self.hardware.of_cpu(requests[id].cpu);
        let lists = &mut self.queues[queue].lists;
        lists.push(&mut self.links, requests, id);
        false
    }

    fn dispatch(
        &mut self,
        now: Time,
        requests: &Requests,
        hardware_queue: usize,
    ) -> Option<RequestId> {
        let Software { lists, turn } = &self.queues[hardware_queue];
        let id = lists.first_from(*turn)?;
        self.dispatch_recorded(now, requests, id);
        Some(id)
    }

    fn merges_in_lists(&self) -> bool {
        true
    }

    fn list_partner(&self, requests: &Requests, bio: &Bio, cpu: u16) -> Option<Merge> {
        let lists = &self.queues[self.hardware.of_cpu(cpu)].lists;
        lists.partner(&self.links, requests, bio, cpu)
    }

    fn requests_merged(
        &mut self,
        _now: Time,
        requests: &Requests,
        _survivor: RequestId,
        victim: RequestId,
    ) {
        let queue = self.hardware.of_cpu(requests[victim].cpu);
        let lists = &mut self.queues[queue].lists;
        lists.remove(&mut self.links, requests, victim);
    }

    fn has_work(&self, hardware_queue: usize) -> bool {
        self.queues[hardware_queue].lists.len() > 0
    }

    fn followed(self: Box<Self>) -> Option<Box<dyn Followed>> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Queue;
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
