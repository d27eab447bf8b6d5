//! cfq: time slices of the disk for each process, by priority, waiting a little for the next request
//! of a process that is worth waiting for.
//!
//! Follows `block/cfq-iosched.c` (Linux 4.19). Each process has a queue for its synchronous requests;
//! asynchronous ones share a queue per priority. Queues stand in service trees by class and type
//! (asynchronous; synchronous without idling; synchronous with idling); a type is served for a time
//! (the workload slice), within it one queue after the other, each for its slice. A queue that runs
//! empty within its slice keeps the disk idle for `slice_idle`, unless its process thinks for longer, or seeks
//! while other such queues wait; `group_idle` is the same wait for the last queue of a group.
//!
//! Cgroups share the disk by weight; within each it is as if it were alone.
//!
//! Left out: cgroups within cgroups, requests put back by the driver, forced draining at a switch.

mod completion;
mod cooperators;
mod dispatch;
mod followed;
mod group;
mod groups;
mod heuristics;
mod idle;
mod order;
mod preempt;
mod process;
mod queue;
mod round_robin;
mod select;
mod slice;
#[cfg(test)]
mod tests;
mod think;
mod tree;
mod tunables;

use group::{Group, ROOT};
use process::{ContextId, Contexts};
use queue::{GroupId, Queue, QueueId, Type};
pub(crate) use tunables::INFO;
use tunables::Tunables;

use super::{Elevator, Followed, Kernel, SchedulerInfo, Values};
use crate::list::Links;
use crate::request::{Bio, PriorityClass, ProcessId, RequestId, Requests};
use crate::request_table::ByRequest;
use crate::sorted::Sorted;
use crate::units::{Nanos, Sector, Time};

/// What cfq knows of a request besides the block layer.
#[derive(Debug, Clone, Copy)]
struct RequestData {
    context: ContextId,
    queue: QueueId,
    expires: Time,
}

#[derive(Debug, Clone)]
pub(super) struct Cfq {
    tunables: Tunables,
    kernel: Kernel,
    queues: Vec<Queue>,
    unused_queues: Vec<QueueId>,
    contexts: Contexts,
    request_data: ByRequest<Option<RequestData>>,
    links: Links,
    /// The root first.
    groups: Vec<Group>,
    /// Groups that have something to do, by what they got.
    group_order: Sorted<u64, GroupId>,
    /// What the group got least of had got when it was last chosen.
    least_served: u64,
    /// Of the groups that have something to do.
    active_weight: u64,
    serving: GroupId,
    /// Queues by the position of their next request, one tree for each level.
    cooperators: [Sorted<Sector, QueueId>; 8],
    busy_queues: u64,
    busy_sync_queues: u64,
    rq_in_driver: u64,
    /// Of asynchronous, of synchronous queues.
    rq_in_flight: [u64; 2],
    rq_queued: u64,
    /// The drive queues commands: not known, no, yes.
    hw_tag: Option<bool>,
    hw_tag_depth: u64,
    hw_tag_samples: u64,
    idle_timer: Option<Time>,
    active: Option<QueueId>,
    active_context: Option<ContextId>,
    last_position: Sector,
    last_delayed_sync: i64,
    serving_class: PriorityClass,
    serving_type: Type,
    workload_expires: i64,
    run_requested: bool,
}

#[expect(clippy::cast_possible_wrap, reason = "runs are shorter than 292 years")]
fn signed(time: Time) -> i64 {
    time.as_nanos() as i64
}

#[expect(clippy::cast_possible_wrap, reason = "shorter than 292 years")]
fn span(nanos: Nanos) -> i64 {
    nanos.as_nanos() as i64
}

/// `length * part / whole`, where the product may be too long for 64 bits.
fn share_of(length: i64, part: i64, whole: i64) -> i64 {
    let share = i128::from(length) * i128::from(part) / i128::from(whole);
    i64::try_from(share).unwrap_or(i64::MAX / 4)
}

impl Cfq {
    pub(super) fn new(values: &Values, kernel: &Kernel, initial: &Values) -> Cfq {
        let mut cfq = Cfq {
            tunables: Tunables::new(values, kernel),
            kernel: *kernel,
            queues: Vec::new(),
            unused_queues: Vec::new(),
            contexts: Contexts::default(),
            request_data: ByRequest::default(),
            links: Links::default(),
            groups: vec![Group::root(Time::ZERO)],
            group_order: Sorted::default(),
            least_served: 0,
            active_weight: 0,
            serving: ROOT,
            cooperators: std::array::from_fn(|_| Sorted::default()),
            busy_queues: 0,
            busy_sync_queues: 0,
            rq_in_driver: 0,
            rq_in_flight: [0; 2],
            rq_queued: 0,
            hw_tag: None,
            hw_tag_depth: 0,
            hw_tag_samples: 0,
            idle_timer: None,
            active: None,
            active_context: None,
            last_position: Sector::ZERO,
            last_delayed_sync: -1_000_000_000,
            serving_class: PriorityClass::BestEffort,
            serving_type: Type::Async,
            workload_expires: -1,
            run_requested: false,
        };
        cfq.believe(initial);
        cfq
    }

    fn queue(&self, id: QueueId) -> &Queue {
        &self.queues[id.index()]
    }

    fn queue_mut(&mut self, id: QueueId) -> &mut Queue {
        &mut self.queues[id.index()]
    }

    fn data_of(&self, id: RequestId) -> RequestData {
        self.request_data[id].expect("the request was prepared")
    }

    fn data_of_mut(&mut self, id: RequestId) -> &mut RequestData {
        self.request_data[id]
            .as_mut()
            .expect("the request was prepared")
    }

    /// The request is no more.
    fn forget(&mut self, id: RequestId) {
        let data = self.request_data[id].take();
        let RequestData { queue, .. } = data.expect("the request was prepared");
        self.queue_mut(queue).requests -= 1;
        self.release_if_unused(queue);
    }

    fn drive_queues(&self) -> bool {
        self.hw_tag != Some(false)
    }
}

impl Elevator for Cfq {
    fn info(&self) -> &'static SchedulerInfo {
        &INFO
    }

    fn prepare(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let (context, queue) = self.bind(now, &requests[id]);
        self.queue_mut(queue).requests += 1;
        let data = RequestData {
            context,
            queue,
            expires: Time::ZERO,
        };
        self.request_data.set(id, Some(data));
    }

    fn insert(&mut self, now: Time, requests: &Requests, id: RequestId) -> bool {
        let request = &requests[id];
        let RequestData { queue, context, .. } = self.data_of(id);
        let priority = self.contexts[context].priority;
        self.take_new_priority(queue, priority);
        self.data_of_mut(id).expires = now + self.tunables.fifo_expire[usize::from(request.sync)];
        let Cfq { queues, links, .. } = self;
        queues[queue.index()].fifo.push_back(links, id);
        self.sort_in(now, requests, id);
        self.rq_queued += 1;
        if request.prio {
            self.queue_mut(queue).prio_pending += 1;
        }
        self.update_think_and_seek(now, requests, id);
        if self.active == Some(queue) {
            return self.end_wait(request, queue);
        }
        let preempts = self.should_preempt(now, requests, id);
        if preempts {
            self.preempt(now, requests, queue);
        }
        preempts
    }

    fn dispatch(&mut self, now: Time, requests: &Requests, _hw_queue: usize) -> Option<RequestId> {
        if self.busy_queues == 0 {
            return None;
        }
        let queue = self.select_queue(now, requests)?;
        let expired = self.expired_head(now, queue);
        if expired.is_some() {
            self.queue_mut(queue).must_dispatch = true;
        }
        if !self.may_dispatch(now, queue) {
            return None;
        }
        let id = expired.or(self.queue(queue).next)?;
        self.dispatch_request(requests, id);
        self.after_dispatch(now, requests, queue);
        Some(id)
    }

    fn activate(&mut self, _now: Time, requests: &Requests, id: RequestId) {
        self.rq_in_driver += 1;
        self.last_position = requests[id].end();
    }

    fn deactivate(&mut self, _now: Time, _requests: &Requests, _id: RequestId) {
        self.rq_in_driver -= 1;
    }

    fn completed(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let request = &requests[id];
        let data = self.data_of(id);
        let queue = data.queue;
        self.learn_hw_tag();
        self.count_completion(queue);
        self.note_end(now, request, data);
        if self.active == Some(queue) {
            self.go_on_with_active(now, requests, request, queue);
        }
        if self.rq_in_driver == 0 {
            self.schedule_dispatch();
        }
        self.forget(id);
    }

    fn front_merge(&self, requests: &Requests, bio: &Bio) -> Option<RequestId> {
        let sorted = &self.queue(self.queue_of_bio(bio)?).sorted;
        let at_end = sorted.at(bio.end());
        at_end.filter(|&id| requests[id].op == bio.op)
    }

    fn allow_merge(&mut self, _now: Time, requests: &Requests, id: RequestId, bio: &Bio) -> bool {
        if bio.sync && !requests[id].sync {
            return false;
        }
        self.queue_of_bio(bio) == Some(self.data_of(id).queue)
    }

    fn allow_request_merge(
        &self,
        _requests: &Requests,
        first: RequestId,
        second: RequestId,
    ) -> bool {
        self.data_of(first).queue == self.data_of(second).queue
    }

    fn former(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        let sorted = &self.queue(self.data_of(id).queue).sorted;
        sorted.predecessor(requests[id].start, id)
    }

    fn latter(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        let sorted = &self.queue(self.data_of(id).queue).sorted;
        sorted.successor(requests[id].start, id)
    }

    fn front_merged(&mut self, now: Time, requests: &Requests, id: RequestId, old: Sector) {
        self.sort_out(requests, id, old);
        self.sort_in(now, requests, id);
    }

    fn requests_merged(
        &mut self,
        _now: Time,
        requests: &Requests,
        survivor: RequestId,
        victim: RequestId,
    ) {
        let queue = self.data_of(victim).queue;
        if self.data_of(victim).expires < self.data_of(survivor).expires {
            self.data_of_mut(survivor).expires = self.data_of(victim).expires;
            let Cfq { queues, links, .. } = self;
            let fifo = &mut queues[queue.index()].fifo;
            fifo.replace(links, victim, survivor);
            fifo.push_back(links, victim); // taken out below like any other
        }
        if self.queue(queue).next == Some(victim) {
            self.queue_mut(queue).next = Some(survivor);
        }
        self.remove(requests, victim);
        let entry = self.queue(queue);
        if entry.on_rr && entry.is_empty() && self.active != Some(queue) {
            self.remove_from_rr(queue);
        }
        self.forget(victim);
    }

    fn absorbed(&mut self, id: RequestId) {
        self.forget(id);
    }

    fn next_timer(&self) -> Option<Time> {
        self.idle_timer
    }

    fn timer(&mut self, now: Time, requests: &Requests) {
        self.idle_timer = None;
        let Some(id) = self.active else {
            self.schedule_dispatch();
            return;
        };
        let queue = self.queue(id);
        let used = self.slice_used(now, id);
        if queue.must_dispatch {
            self.schedule_dispatch();
            return;
        }
        if !used {
            if self.busy_queues == 0 {
                return;
            }
            if !queue.is_empty() {
                self.schedule_dispatch();
                return;
            }
            self.queue_mut(id).deep = false;
        }
        self.expire(now, requests, false);
        self.schedule_dispatch();
    }

    fn take_queue_run_request(&mut self) -> Option<usize> {
        std::mem::take(&mut self.run_requested).then_some(0)
    }

    fn process_exited(&mut self, now: Time, requests: &Requests, process: ProcessId) {
        let Some(context) = self.contexts.find(process) else {
            return;
        };
        let context = &mut self.contexts[context];
        context.alive = false;
        let queues = [context.async_queue.take(), context.sync_queue.take()];
        for queue in queues.into_iter().flatten() {
            if self.active == Some(queue) {
                self.expire(now, requests, false);
                self.schedule_dispatch();
            }
            if self.queue(queue).sync {
                self.drop_merge_reference(queue);
                let refs = &mut self.queue_mut(queue).process_refs;
                *refs = refs.saturating_sub(1);
                self.release_if_unused(queue);
            }
        }
    }

    fn must_allocate(&mut self, process: ProcessId, sync: bool) -> bool {
        self.claim_must_allocate(process, sync)
    }

    fn join_group(&mut self, process: ProcessId, group: u32, weight: u16) {
        self.note_member(process, group, weight);
    }

    fn has_work(&self, _queue: usize) -> bool {
        self.rq_queued > 0
    }

    fn followed(self: Box<Self>) -> Option<Box<dyn Followed>> {
        Some(self)
    }
}
