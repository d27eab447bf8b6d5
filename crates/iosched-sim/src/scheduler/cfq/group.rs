//! A group: its queues in service trees by class and type.

use super::queue::{TYPES, TreeId, Type};
use super::think::ThinkTime;
use super::tree::ServiceTree;
use crate::request::PriorityClass;

/// All queues: the one group.
#[derive(Debug, Clone)]
pub(super) struct Group {
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
