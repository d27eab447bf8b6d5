//! A group: its queues in service trees by class and type.

use super::queue::{GroupId, QueueId};
use super::queue::{TYPES, TreeId, Type};
use super::think::ThinkTime;
use super::tree::ServiceTree;
use crate::request::PriorityClass;
use crate::units::Time;

/// The group of all processes that are in no other.
pub(super) const ROOT: GroupId = GroupId(0);
/// The weight of the root's own processes, twice that of a new group.
const ROOT_WEIGHT: u64 = 1000;

#[derive(Debug, Clone)]
pub(super) struct Group {
    /// What the load calls it.
    pub(super) name: u32,
    pub(super) weight: u64,
    /// Virtual disk time that it got.
    pub(super) served: u64,
    /// Queues of asynchronous requests by priority: eight of real time, eight of best effort, one
    /// idle.
    pub(super) async_queues: [Option<QueueId>; 17],
    /// Best effort, real time; asynchronous, synchronous without idling, synchronous.
    pub(super) trees: [[ServiceTree; 3]; 2],
    pub(super) idle: ServiceTree,
    pub(super) queues: u64,
    pub(super) dispatched: u64,
    pub(super) think: ThinkTime,
    /// Average number of busy queues: best effort (and idle), real time.
    pub(super) busy_average: [u64; 2],
    /// What is left of the workload slice, and of which workload.
    pub(super) saved: Option<(i64, PriorityClass, Type)>,
}

impl Group {
    pub(super) fn root(now: Time) -> Group {
        Group::new(now, 0, ROOT_WEIGHT)
    }

    pub(super) fn new(now: Time, name: u32, weight: u64) -> Group {
        let trees = || std::array::from_fn(|_| ServiceTree::new(now));
        Group {
            name,
            weight,
            served: 0,
            async_queues: [None; 17],
            trees: [trees(), trees()],
            idle: ServiceTree::new(now),
            queues: 0,
            dispatched: 0,
            think: ThinkTime::new(now),
            busy_average: [0; 2],
            saved: None,
        }
    }

    pub(super) fn tree(&self, TreeId(class, kind): TreeId) -> &ServiceTree {
        match class {
            PriorityClass::BestEffort => &self.trees[0][kind as usize],
            PriorityClass::RealTime => &self.trees[1][kind as usize],
            PriorityClass::Idle => &self.idle,
        }
    }

    pub(super) fn tree_mut(&mut self, TreeId(class, kind): TreeId) -> &mut ServiceTree {
        match class {
            PriorityClass::BestEffort => &mut self.trees[0][kind as usize],
            PriorityClass::RealTime => &mut self.trees[1][kind as usize],
            PriorityClass::Idle => &mut self.idle,
        }
    }

    /// Its last requests, of whatever kind, completed then.
    pub(super) fn pause_since(&mut self, end: Time) {
        self.think.ended(end);
        let trees = self.trees.iter_mut().flatten();
        for tree in trees.chain([&mut self.idle]) {
            tree.think.ended(end);
        }
    }

    pub(super) fn busy(&self, class: PriorityClass) -> u64 {
        match class {
            PriorityClass::Idle => self.idle.len(),
            class => TYPES
                .iter()
                .map(|&kind| self.tree(TreeId(class, kind)).len())
                .sum(),
        }
    }
}
