//! Processes and their queues: which queue a new request goes to.

use super::Cfq;
use super::group::{Group, ROOT};
use super::queue::{GroupId, Queue, QueueId};
use super::think::ThinkTime;
use crate::request::{Bio, IoPriority, PriorityClass, ProcessId, Request};
use crate::units::Time;

/// A process as the disk sees it.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) process: ProcessId,
    pub(super) group: GroupId,
    pub(super) sync_queue: Option<QueueId>,
    pub(super) async_queue: Option<QueueId>,
    pub(super) think: ThinkTime,
    pub(super) priority: IoPriority,
    pub(super) alive: bool,
}

/// Names a process's context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContextId(usize);

/// The contexts of all processes that were ever here.
#[derive(Debug, Clone, Default)]
pub(super) struct Contexts {
    all: Vec<Context>,
    /// In order of processes.
    by_process: Vec<(ProcessId, ContextId)>,
    /// Processes that are not in the root group.
    members: Vec<(ProcessId, GroupId)>,
}

impl Contexts {
    pub(super) fn find(&self, process: ProcessId) -> Option<ContextId> {
        let place = self
            .by_process
            .binary_search_by_key(&process, |&(process, _)| process);
        place.ok().map(|place| self.by_process[place].1)
    }

    /// The process's context; it begins with its first request here.
    fn find_or_begin(&mut self, now: Time, process: ProcessId, priority: IoPriority) -> ContextId {
        let known = self.find(process);
        if let Some(id) = known.filter(|&id| self[id].alive) {
            return id;
        }
        let member = self.members.iter().find(|&&(other, _)| other == process);
        let context = Context {
            process,
            group: member.map_or(ROOT, |&(_, group)| group),
            sync_queue: None,
            async_queue: None,
            think: ThinkTime::new(now),
            priority,
            alive: true,
        };
        if let Some(id) = known {
            self[id] = context; // another process of the same number
            return id;
        }
        let id = ContextId(self.all.len());
        self.all.push(context);
        let place = self
            .by_process
            .partition_point(|&(other, _)| other < process);
        self.by_process.insert(place, (process, id));
        id
    }

    /// All processes have ended, and nothing of theirs is here any more.
    pub(super) fn forget(&mut self) {
        *self = Contexts::default();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Context> {
        self.all.iter()
    }
}

impl std::ops::Index<ContextId> for Contexts {
    type Output = Context;
    fn index(&self, ContextId(place): ContextId) -> &Context {
        &self.all[place]
    }
}

impl std::ops::IndexMut<ContextId> for Contexts {
    fn index_mut(&mut self, ContextId(place): ContextId) -> &mut Context {
        &mut self.all[place]
    }
}

impl Cfq {
    fn new_queue(&mut self, group: GroupId, sync: bool, priority: IoPriority) -> QueueId {
        if let Some(id) = self.unused_queues.pop() {
            self.queue_mut(id).reuse(group, sync, priority);
            return id;
        }
        let id = QueueId::at(self.queues.len());
        self.queues.push(Queue::new(group, sync, priority));
        id
    }

    /// The process is in the group of this number. The first group makes waiting for groups worth it.
    pub(super) fn note_member(&mut self, process: ProcessId, name: u32, weight: u16) {
        let known = self.groups.iter().position(|group| group.name == name);
        let place = known.unwrap_or_else(|| {
            let group = Group::new(Time::ZERO, name, u64::from(weight));
            self.groups.push(group);
            self.groups.len() - 1
        });
        self.contexts.members.push((process, GroupId(place)));
        self.tunables.wait_for_groups();
    }

    /// The process and the queue that a new request belongs to.
    pub(super) fn bind(&mut self, now: Time, request: &Request) -> (ContextId, QueueId) {
        let context = self
            .contexts
            .find_or_begin(now, request.process, request.priority);
        self.note_priority(context, request.priority);
        let queue = if request.sync {
            self.sync_queue(context)
        } else {
            self.async_queue(context)
        };
        (context, queue)
    }

    /// Asynchronous requests of one priority share a queue (`cfq_async_queue_prio()`, `cfq_get_queue()`).
    fn async_queue(&mut self, context: ContextId) -> QueueId {
        let Context {
            group, priority, ..
        } = self.contexts[context];
        let place = match priority.class {
            PriorityClass::RealTime => usize::from(priority.level),
            PriorityClass::BestEffort => 8 + usize::from(priority.level),
            PriorityClass::Idle => 16,
        };
        let known = self.group(group).async_queues[place];
        let queue = known.unwrap_or_else(|| self.new_queue(group, false, priority));
        self.group_mut(group).async_queues[place] = Some(queue);
        self.contexts[context].async_queue = Some(queue);
        queue
    }

    /// Splits what no longer belongs together, then joins what does (`cfq_set_request()`).
    fn sync_queue(&mut self, context: ContextId) -> QueueId {
        let mut queue = self.contexts[context].sync_queue;
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
                self.release_if_unused(id);
                queue = None;
            }
        }
        let Context {
            group, priority, ..
        } = self.contexts[context];
        let mut id = queue.unwrap_or_else(|| self.new_queue(group, true, priority));
        if let Some(target) = self.queue(id).merge_into {
            // The reference of this process was counted there when the merge was decided.
            self.queue_mut(target).coop = true;
            self.queue_mut(id).process_refs -= 1;
            self.release_if_unused(id);
            id = target;
        }
        self.contexts[context].sync_queue = Some(id);
        id
    }

    /// The place of a queue that no process and no request needs any more may be used again (`cfq_put_queue()`).
    pub(super) fn release_if_unused(&mut self, id: QueueId) {
        let queue = self.queue(id);
        let needed = queue.process_refs > 0 || queue.requests > 0 || queue.on_rr;
        if !needed && !queue.unused && self.active != Some(id) {
            self.queue_mut(id).unused = true;
            self.unused_queues.push(id);
        }
    }

    /// The queue to which this bio would go as things stand (`cfq_allow_bio_merge()`).
    pub(super) fn queue_of_bio(&self, bio: &Bio) -> Option<QueueId> {
        let context = &self.contexts[self.contexts.find(bio.process)?];
        if bio.sync {
            context.sync_queue
        } else {
            context.async_queue
        }
    }

    /// `check_ioprio_changed()`.
    fn note_priority(&mut self, id: ContextId, priority: IoPriority) {
        let context = &mut self.contexts[id];
        if context.priority == priority {
            return;
        }
        context.priority = priority;
        if let Some(queue) = context.sync_queue {
            self.queue_mut(queue).priority_changed = true;
        }
    }

    /// `cfq_init_prio_data()`.
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

    /// A queue that was to be merged loses its process: so does the target (`cfq_put_cooperator()`).
    pub(super) fn drop_merge_reference(&mut self, queue: QueueId) {
        let mut next = self.queue(queue).merge_into;
        while let Some(target) = next.filter(|&target| target != queue) {
            let target = self.queue_mut(target);
            target.process_refs = target.process_refs.saturating_sub(1);
            next = target.merge_into;
        }
    }
}
