//! A queue: the requests of one process, or the asynchronous ones of one priority.

use super::think::SeekHistory;
use crate::list::List;
use crate::request::{IoPriority, PriorityClass, RequestId};
use crate::sorted::Sorted;
use crate::units::Sector;

/// Names a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupId(pub(super) usize);

/// Names a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueId(pub(super) u32);

impl QueueId {
    pub(super) fn at(index: usize) -> QueueId {
        QueueId(u32::try_from(index).expect("less than 2^32 queues"))
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Type of a queue, which says in which tree of its class it stands. In the order in which trees
/// are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Async,
    SyncNoIdle,
    Sync,
}

pub(super) const TYPES: [Type; 3] = [Type::Async, Type::SyncNoIdle, Type::Sync];

/// A service tree's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeId(pub(super) PriorityClass, pub(super) Type);

/// Requests of one process, or the asynchronous ones of one priority.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the kernel's flags, one by one"
)]
pub(super) struct Queue {
    pub(super) group: GroupId,
    pub(super) sync: bool,
    pub(super) class: PriorityClass,
    pub(super) level: u8,
    /// Level before any temporary change: chooses the tree where cooperators are looked for.
    pub(super) original_level: u8,
    pub(super) priority_changed: bool,
    /// By position.
    pub(super) sorted: Sorted<Sector, RequestId>,
    pub(super) fifo: List,
    pub(super) next: Option<RequestId>,
    /// Asynchronous, synchronous.
    pub(super) queued: [u64; 2],
    pub(super) dispatched: u64,
    pub(super) prio_pending: u64,

    /// Where it stands, if it is to be served: tree and key.
    pub(super) tree: Option<(TreeId, i64)>,
    /// Position under which it stands in its tree of cooperators.
    pub(super) cooperator_key: Option<Sector>,
    pub(super) on_rr: bool,

    /// When it became the active one.
    pub(super) chosen: i64,
    pub(super) slice_start: i64,
    pub(super) slice_end: i64,
    pub(super) slice_length: i64,
    pub(super) slice_resid: i64,
    pub(super) slice_dispatch: u64,
    pub(super) slice_new: bool,
    pub(super) idle_window: bool,
    pub(super) wait_request: bool,
    pub(super) wait_busy: bool,
    pub(super) must_dispatch: bool,
    /// It was given a request beyond the limit in this slice.
    pub(super) must_allocate: bool,
    pub(super) fifo_checked: bool,
    pub(super) deep: bool,

    pub(super) seeks: SeekHistory,
    pub(super) last_request_end: Sector,

    pub(super) merge_into: Option<QueueId>,
    pub(super) coop: bool,
    pub(super) split_coop: bool,
    /// Processes whose queue it is, and those that will join it.
    pub(super) process_refs: u64,
    /// Requests that were allocated to it and have neither completed nor been merged.
    pub(super) requests: u64,
    /// Nobody has to do with it any more: its place may be used again.
    pub(super) unused: bool,
}

impl Queue {
    /// An empty queue of one process.
    pub(super) fn new(group: GroupId, sync: bool, priority: IoPriority) -> Queue {
        Queue {
            group,
            sync,
            class: priority.class,
            level: priority.level,
            original_level: priority.level,
            priority_changed: false,
            sorted: Sorted::default(),
            fifo: List::default(),
            next: None,
            queued: [0; 2],
            dispatched: 0,
            prio_pending: 0,
            tree: None,
            cooperator_key: None,
            on_rr: false,
            chosen: 0,
            slice_start: 0,
            slice_end: 0,
            slice_length: 0,
            slice_resid: 0,
            slice_dispatch: 0,
            slice_new: false,
            idle_window: sync && priority.class != PriorityClass::Idle,
            wait_request: false,
            wait_busy: false,
            must_dispatch: false,
            must_allocate: false,
            fifo_checked: false,
            deep: false,
            seeks: SeekHistory::default(),
            last_request_end: Sector::ZERO,
            merge_into: None,
            coop: false,
            split_coop: false,
            process_refs: 1,
            requests: 0,
            unused: false,
        }
    }

    /// The same place for another process: what it has grown to stays.
    pub(super) fn reuse(&mut self, group: GroupId, sync: bool, priority: IoPriority) {
        let sorted = std::mem::take(&mut self.sorted);
        assert!(sorted.is_empty(), "what is not used is empty");
        *self = Queue {
            sorted,
            ..Queue::new(group, sync, priority)
        };
    }

    /// `CFQQ_SEEKY`.
    pub(super) fn is_seeky(&self) -> bool {
        self.seeks.is_seeky()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// `cfqq_type()`.
    pub(super) fn kind(&self) -> Type {
        match (self.sync, self.idle_window) {
            (false, _) => Type::Async,
            (true, false) => Type::SyncNoIdle,
            (true, true) => Type::Sync,
        }
    }

    /// Where it stands, or else would.
    pub(super) fn tree_or_next(&self) -> TreeId {
        self.tree
            .map_or_else(|| self.tree_by_flags(), |(tree, _)| tree)
    }

    pub(super) fn tree_by_flags(&self) -> TreeId {
        TreeId(self.class, self.kind())
    }
}
