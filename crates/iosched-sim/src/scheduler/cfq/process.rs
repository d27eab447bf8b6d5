//! Processes and their queues: which queue a new request goes to.

use super::Cfq;
use super::queue::{Queue, QueueId};
use super::think::ThinkTime;
use crate::request::{IoPriority, PriorityClass, ProcessId, Request};
use crate::units::Time;

/// A process as the disk sees it.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) sync_queue: Option<QueueId>,
    pub(super) async_queue: Option<QueueId>,
    pub(super) think: ThinkTime,
    pub(super) priority: IoPriority,
    pub(super) alive: bool,
}

impl Cfq {
    /// The process's context; it begins with its first request here.
    pub(super) fn context(
        &mut self,
        now: Time,
        process: ProcessId,
        priority: IoPriority,
    ) -> &mut Context {
        self.contexts.entry(process).or_insert_with(|| Context {
            sync_queue: None,
            async_queue: None,
            think: ThinkTime::new(now),
            priority,
            alive: true,
        })
    }

    pub(super) fn new_queue(&mut self, sync: bool, priority: IoPriority) -> QueueId {
        let id = QueueId(u32::try_from(self.queues.len()).expect("less than 2^32 queues"));
        self.queues.push(Queue::new(sync, priority));
        id
    }

    /// The queue that a new request of this process goes to: splits what no longer belongs
    /// together, then joins what does.
    pub(super) fn bind(&mut self, now: Time, request: &Request) -> QueueId {
        let process = request.process;
        let priority = request.priority;
        self.note_priority(now, process, priority);
        if !request.sync {
            let known = self.async_queues.get(&priority).copied();
            let queue = known.unwrap_or_else(|| self.new_queue(false, priority));
            self.async_queues.insert(priority, queue);
            self.context(now, process, priority).async_queue = Some(queue);
            return queue;
        }
        let mut queue = self.context(now, process, priority).sync_queue;
        if let Some(id) = queue
            && self.queue(id).coop
            && self.queue(id).split_coop
        {
            if self.queue(id).process_refs == 1 {
                let queue = self.queue_mut(id);
                queue.coop = false;
                queue.split_coop = false;
            } else {
                self.drop_merge_reference(id);
                self.queue_mut(id).process_refs -= 1;
                queue = None;
            }
        }
        let mut id = queue.unwrap_or_else(|| self.new_queue(true, priority));
        if let Some(target) = self.queue(id).merge_into {
            // The reference of this process was counted there when the merge was decided.
            self.queue_mut(target).coop = true;
            self.queue_mut(id).process_refs -= 1;
            id = target;
        }
        self.context(now, process, priority).sync_queue = Some(id);
        id
    }

    pub(super) fn note_priority(&mut self, now: Time, process: ProcessId, priority: IoPriority) {
        let context = self.context(now, process, priority);
        if context.priority == priority {
            return;
        }
        context.priority = priority;
        if let Some(queue) = context.sync_queue {
            self.queue_mut(queue).priority_changed = true;
        }
    }

    pub(super) fn take_new_priority(&mut self, id: QueueId, priority: IoPriority) {
        if !std::mem::take(&mut self.queue_mut(id).priority_changed) {
            return;
        }
        self.leave_cooperators(id); // its level names the tree
        let queue = self.queue_mut(id);
        queue.class = priority.class;
        queue.level = priority.level;
        queue.original_level = priority.level;
        if priority.class == PriorityClass::Idle {
            queue.idle_window = false;
        }
    }

    /// A queue that was to be merged loses its process: so does the target.
    pub(super) fn drop_merge_reference(&mut self, queue: QueueId) {
        let mut next = self.queue(queue).merge_into;
        while let Some(target) = next.filter(|&target| target != queue) {
            let target = self.queue_mut(target);
            target.process_refs = target.process_refs.saturating_sub(1);
            next = target.merge_into;
        }
    }
}
