//! Processes, and which queue a new request goes to.
//!
//! A process has a queue of its own for synchronous requests; asynchronous ones go to a queue that all
//! processes of a priority share.

use super::Bfq;
use super::merging::Saved;
use super::moment::{LONG_AGO, Moment};
use super::queue::{ProcessIndex, Queue, QueueId, level_of, place_of, weight_of};
use crate::request::{IoPriority, PriorityClass, ProcessId, Request, RequestId, Requests};
use crate::scheduler::Rule;

/// A process as the device sees it (`struct bfq_io_cq`).
#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) id: ProcessId,
    pub(super) sync_queue: Option<QueueId>,
    pub(super) async_queue: Option<QueueId>,
    /// The one that it had when it submitted last.
    priority: IoPriority,
    /// Its requests, from insertion to completion.
    pub(super) requests: u32,
    /// Its queue was merged with another for good.
    pub(super) stably_merged: bool,
    /// A queue with which its own may be merged for good.
    pub(super) partner: Option<QueueId>,
    /// What its own queue was like when that was merged.
    pub(super) saved: Option<Saved>,
    alive: bool,
}

/// All processes, those that ended until their last request has completed.
#[derive(Debug, Clone, Default)]
pub(super) struct Processes {
    all: Vec<Process>,
    unused: Vec<ProcessIndex>,
    /// Those that live, in order.
    by_id: Vec<(ProcessId, ProcessIndex)>,
}

impl Processes {
    pub(super) fn find(&self, id: ProcessId) -> Option<ProcessIndex> {
        let place = self.by_id.binary_search_by_key(&id, |&(id, _)| id);
        place.ok().map(|place| self.by_id[place].1)
    }

    fn find_or_begin(&mut self, id: ProcessId, priority: IoPriority) -> ProcessIndex {
        if let Some(index) = self.find(id) {
            return index;
        }
        let process = Process {
            id,
            sync_queue: None,
            async_queue: None,
            priority,
            requests: 0,
            stably_merged: false,
            partner: None,
            saved: None,
            alive: true,
        };
        let index = if let Some(index) = self.unused.pop() {
            self[index] = process;
            index
        } else {
            self.all.push(process);
            let place = u32::try_from(self.all.len() - 1);
            ProcessIndex(place.expect("less than 2^32 processes"))
        };
        let place = self.by_id.partition_point(|&(other, _)| other < id);
        self.by_id.insert(place, (id, index));
        index
    }

    fn end(&mut self, index: ProcessIndex) {
        let id = self[index].id;
        self[index].alive = false;
        self.by_id.retain(|&(other, _)| other != id);
        self.reuse_if_over(index);
    }

    /// Its last request has completed, perhaps.
    pub(super) fn reuse_if_over(&mut self, index: ProcessIndex) {
        let process = &self[index];
        if !process.alive && process.requests == 0 {
            self.unused.push(index);
        }
    }

    /// Requests whose end is not told have ended.
    pub(super) fn forget_requests(&mut self) {
        for process in &mut self.all {
            process.requests = 0;
        }
        let over = (0..self.all.len()).filter(|&place| !self.all[place].alive);
        let index = |place| ProcessIndex(u32::try_from(place).expect("less than 2^32 processes"));
        self.unused = over.map(index).collect();
    }

    /// Those that live.
    pub(super) fn living(&self) -> impl Iterator<Item = ProcessId> {
        self.by_id.iter().map(|&(id, _)| id)
    }
}

impl std::ops::Index<ProcessIndex> for Processes {
    type Output = Process;
    fn index(&self, ProcessIndex(place): ProcessIndex) -> &Process {
        &self.all[place as usize]
    }
}

impl std::ops::IndexMut<ProcessIndex> for Processes {
    fn index_mut(&mut self, ProcessIndex(place): ProcessIndex) -> &mut Process {
        &mut self.all[place as usize]
    }
}

impl Bfq {
    /// Binds a new request to a queue of its process, under the lock and before it may merge (`bfq_init_rq()`).
    pub(super) fn bind(&mut self, at: Moment, requests: &Requests, id: RequestId) {
        if self.data.get(id).is_some_and(|data| data.bound.is_some()) {
            return;
        }
        let request = &requests[id];
        let process = self
            .processes
            .find_or_begin(request.process, request.priority);
        self.note_priority(at, process, request.priority);
        let (queue, has_split) = self.queue_of(at, process, request);
        self.queue_mut(queue).allocated += 1;
        self.processes[process].requests += 1;
        let data = super::RequestData {
            bound: Some((process, queue)),
            expires: LONG_AGO,
        };
        self.data.set(id, data);
        self.own_alone(at, process, queue, has_split);
        let just_created = self.queue(queue).just_created;
        if just_created && (self.burst.size > 0 || self.busy_queues() == 0) {
            self.note_burst(at, queue);
        }
    }

    /// A queue that one process points at is its own, and no one is to merge with it.
    fn own_alone(&mut self, at: Moment, process: ProcessIndex, id: QueueId, split: Option<bool>) {
        let alone = self.queue(id).process_refs == 1;
        if alone {
            self.queue_mut(id).owner = Some(process);
        }
        if let Some(existing) = split
            && (alone || self.kernel.follows(Rule::BfqActuators))
        {
            self.restore_state(at, process, id, existing);
        }
    }

    /// The process's queue for this request. If it just parted from those with whom it shared one: whether
    /// it kept that one (`bfq_get_bfqq_handle_split()`).
    fn queue_of(
        &mut self,
        at: Moment,
        process: ProcessIndex,
        request: &Request,
    ) -> (QueueId, Option<bool>) {
        let Process {
            sync_queue,
            async_queue,
            stably_merged,
            ..
        } = self.processes[process];
        if !request.sync {
            let queue = async_queue.unwrap_or_else(|| self.join_async_queue(at, process));
            return (queue, None);
        }
        let Some(queue) = sync_queue else {
            return (self.begin_sync_queue(at, process), None);
        };
        let entry = self.queue(queue);
        if entry.coop && entry.split_coop && !stably_merged {
            let (queue, kept) = self.split(at, process, queue);
            return (queue, Some(kept));
        }
        (queue, None)
    }

    /// `bfq_get_queue()`.
    fn begin_sync_queue(&mut self, at: Moment, process: ProcessIndex) -> QueueId {
        let queue = self.new_queue(at, true, self.processes[process].priority);
        self.queue_mut(queue).process_refs = 1;
        self.processes[process].sync_queue = Some(queue);
        self.plan_stable_merge(at, process, queue)
    }

    /// A queue for a process that parted from others.
    pub(super) fn begin_split_queue(&mut self, at: Moment, process: ProcessIndex) -> QueueId {
        let queue = self.new_queue(at, true, self.processes[process].priority);
        self.queue_mut(queue).process_refs = 1;
        self.processes[process].sync_queue = Some(queue);
        queue
    }

    /// `bfq_async_queue_prio()`.
    fn join_async_queue(&mut self, at: Moment, process: ProcessIndex) -> QueueId {
        let priority = self.processes[process].priority;
        let place = match priority.class {
            PriorityClass::Idle => 16,
            class => 8 * place_of(class) + usize::from(level_of(priority)),
        };
        let queue = match self.async_queues[place] {
            Some(queue) => queue,
            None => self.new_queue(at, false, priority),
        };
        self.async_queues[place] = Some(queue);
        self.queue_mut(queue).process_refs += 1;
        self.processes[process].async_queue = Some(queue);
        queue
    }

    /// `bfq_init_bfqq()`.
    pub(super) fn new_queue(&mut self, at: Moment, sync: bool, priority: IoPriority) -> QueueId {
        let mut queue = Queue::new(at, sync, priority, self.full_budget());
        if self.kernel.follows(Rule::BfqActuators) {
            queue.injection.decreased = at.tick;
        }
        if let Some(id) = self.unused_queues.pop() {
            *self.queue_mut(id) = queue;
            return id;
        }
        self.queues.push(queue);
        QueueId::at(self.queues.len() - 1)
    }

    /// A priority that has changed holds for requests from now on, and for the queue of the process from
    /// its next turn (`bfq_check_ioprio_change()`).
    fn note_priority(&mut self, at: Moment, process: ProcessIndex, priority: IoPriority) {
        if self.processes[process].priority == priority {
            return;
        }
        self.processes[process].priority = priority;
        if let Some(old) = self.processes[process].async_queue.take() {
            self.join_async_queue(at, process);
            self.lose_owner(at, old);
        }
        if let Some(queue) = self.processes[process].sync_queue {
            let queue = self.queue_mut(queue);
            queue.new_class = place_of(priority.class);
            queue.level = level_of(priority);
            queue.entity.new_weight = weight_of(priority);
            queue.entity.prio_changed = true;
        }
    }

    /// A process does not point at the queue any more (`bfq_release_process_ref()`).
    pub(super) fn lose_owner(&mut self, at: Moment, id: QueueId) {
        let queue = self.queue(id);
        if queue.busy && queue.is_empty() && self.in_service_queue != Some(id) {
            self.del_busy(at, id, false);
        }
        self.last_bfqq_created = self.last_bfqq_created.filter(|&last| last != id);
        self.queue_mut(id).process_refs -= 1;
        self.release_if_unused(id);
    }

    /// The process has ended (`bfq_exit_icq()`).
    pub(super) fn exit(&mut self, at: Moment, requests: &Requests, process: ProcessIndex) {
        if let Some(partner) = self.processes[process].partner.take() {
            self.drop_partner(partner);
        }
        let Process {
            sync_queue,
            async_queue,
            ..
        } = &mut self.processes[process];
        let queues = [sync_queue.take(), async_queue.take()];
        for queue in queues.into_iter().flatten() {
            if self.in_service_queue == Some(queue) {
                self.leave_service(at, requests, queue, super::expire::Reason::Timeout);
                self.request_run_if_queued();
            }
            self.drop_planned_merges(queue);
            self.lose_owner(at, queue);
        }
        self.processes.end(process);
    }

    /// The request is no more.
    pub(super) fn forget_request(&mut self, id: RequestId) {
        let bound = self.data[id].bound.take();
        let (process, queue) = bound.expect("the request was bound");
        self.queue_mut(queue).allocated -= 1;
        self.processes[process].requests -= 1;
        self.release_if_unused(queue);
        self.processes.reuse_if_over(process);
    }

    /// A queue to which nothing refers is no more (`bfq_put_queue()`).
    pub(super) fn release_if_unused(&mut self, id: QueueId) {
        if !self.queue(id).is_unused() {
            return;
        }
        if self.burst.listed.contains(&id) && self.queue(id).owner.is_some() {
            self.burst.size = self.burst.size.saturating_sub(1);
        }
        self.leave_burst(id);
        self.leave_wakers(id);
        self.uncount_weight(id);
        self.last_bfqq_created = self.last_bfqq_created.filter(|&last| last != id);
        self.queue_mut(id).exists = false;
        self.unused_queues.push(id);
    }
}
