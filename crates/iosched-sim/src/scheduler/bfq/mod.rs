//! bfq: a share of the disk's service for each process by weight, with low latency for processes that
//! have just begun or that keep a pace.
//!
//! Follows `block/bfq-iosched.c` and `block/bfq-wf2q.c` of Linux 6.1, and those of 6.12 in what they do
//! otherwise. Each process has a queue for its synchronous requests; asynchronous ones share a queue
//! per priority. A queue is served until it has used up its budget of sectors, or has taken too long; the
//! next one is chosen by virtual times (B-WF2Q+: `schedule`). The disk may be kept idle for a process's
//! next request (`idling`), in which others may be let in (`injection`). Queues of new and of paced
//! processes are weight-raised (`weight_raising`), but not those of services that start (`bursts`); queues of processes
//! that read side by side become one (`merging`).
//!
//! One rule, one file: `insert`, `dispatch` and `completion` are what happens; the others are what is
//! decided then.
//!
//! Left out: groups, several actuators, requests that the disk gives back (they wait before the
//! scheduler), kernels before 5.13, which follow other rules.

mod budgets;
mod bursts;
mod completion;
mod depth;
mod dispatch;
mod expire;
mod followed;
mod idling;
mod injection;
mod insert;
mod merging;
mod moment;
mod order;
mod process;
mod queue;
mod rate;
mod red_black;
mod schedule;
#[cfg(test)]
mod tests;
mod tunables;
mod wakers;
mod weight_raising;
mod weights;

use bursts::Burst;
use completion::HwTag;
use moment::{Clock, LONG_AGO, Moment, span};
use process::Processes;
use queue::{CLASSES, ProcessIndex, Queue, QueueId};
use rate::Rate;
use red_black::Tree;
use schedule::ServiceTree;
pub(crate) use tunables::INFO;
use tunables::Tunables;

use super::{Elevator, Followed, Kernel, KernelVersion, Rule, SchedulerInfo, TagLimit, Values};
use crate::list::Links;
use crate::request::{Bio, Op, ProcessId, RequestId, Requests};
use crate::request_table::ByRequest;
use crate::units::{Sector, Time};

/// Kernels with it compare think times with half of `slice_idle`, as 6.1 does.
const OLDEST: KernelVersion = Rule::BfqStableMerges.first();

/// What bfq knows of a request besides the block layer.
#[derive(Debug, Clone, Copy, Default)]
struct RequestData {
    /// From its insertion on: its process and its queue.
    bound: Option<(ProcessIndex, QueueId)>,
    /// When it is old, in nanoseconds.
    expires: i64,
}

impl RequestData {
    fn process(&self) -> ProcessIndex {
        self.bound.expect("the request was bound").0
    }

    fn queue(&self) -> QueueId {
        self.bound.expect("the request was bound").1
    }
}

#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the kernel's flags, one by one"
)]
pub(super) struct Bfq {
    tunables: Tunables,
    clock: Clock,
    rotational: bool,
    /// Merging does not make the disk faster: it does not turn, and queues commands. Looked at when the scheduler is
    /// attached and when [`HwTag`] is decided, whatever `queue/rotational` says later (`nonrot_with_queueing`).
    nonrot_with_queueing: bool,
    kernel: Kernel,
    /// `slice_idle` in nanoseconds.
    slice_idle: i64,
    /// When the lock was taken for what comes next, if that was not now.
    locked: Option<Time>,
    /// When something happened last.
    now: Moment,

    queues: Vec<Queue>,
    unused_queues: Vec<QueueId>,
    processes: Processes,
    /// Real time and best effort by level, then the idle class.
    async_queues: [Option<QueueId>; 17],
    data: ByRequest<RequestData>,
    links: Links,

    /// By class.
    service_trees: [ServiceTree; CLASSES],
    in_service_queue: Option<QueueId>,
    /// The queue in service has left the schedule, and service in a moment.
    slice_is_over: bool,
    next_in_service: Option<QueueId>,
    /// Tick in which the idle class was looked at last.
    class_idle_last_service: i64,
    /// Queues that wait, the one that began to last at the end.
    active_list: Vec<QueueId>,
    /// Busy queues by class.
    busy: [u32; CLASSES],
    wr_busy_queues: u32,
    /// Weights of queues that are not weight-raised, with how many have each.
    weights: Vec<(i64, u32)>,

    queued: u64,
    /// Requests from dispatch to completion.
    rq_in_driver: u64,
    /// End of the last dispatched request.
    last_position: Sector,
    /// The same of the queue in service, in this slice.
    in_serv_last_pos: Sector,
    /// Queues by the position of their next request.
    rq_pos_tree: Tree,
    hw_tag: HwTag,
    rate: Rate,
    /// Average of slices given: 256 after many.
    budgets_assigned: i64,
    /// In sectors.
    max_budget: i64,

    /// Nanoseconds.
    last_budget_start: i64,
    last_idling_start: i64,
    idle_timer: Option<Time>,
    run_requested: bool,

    burst: Burst,
    last_bfqq_created: Option<QueueId>,
    /// The queue whose request completed last, if it is of one process.
    last_completed_rq_bfqq: Option<QueueId>,

    /// The next request of the queue in service is to be measured.
    wait_dispatch: bool,
    waited_rq: Option<RequestId>,
    last_empty_occupied_ns: i64,
    /// Requests of others have gone in since the measurement began.
    rqs_injected: bool,
}

impl Bfq {
    pub(super) fn new(values: &Values, kernel: &Kernel, initial: &Values) -> Bfq {
        let clock = Clock::new(kernel);
        let tunables = Tunables::new(values, &clock);
        let (reference, _) = weight_raising::REFERENCES[usize::from(!kernel.rotational)];
        let mut bfq = Bfq {
            slice_idle: span(tunables.slice_idle),
            clock,
            rotational: kernel.rotational,
            nonrot_with_queueing: !kernel.rotational,
            kernel: *kernel,
            locked: None,
            now: Moment { ns: 0, tick: 0 },
            queues: Vec::new(),
            unused_queues: Vec::new(),
            processes: Processes::default(),
            async_queues: [None; 17],
            data: ByRequest::default(),
            links: Links::default(),
            service_trees: Default::default(),
            in_service_queue: None,
            slice_is_over: false,
            next_in_service: None,
            class_idle_last_service: LONG_AGO,
            active_list: Vec::new(),
            busy: [0; CLASSES],
            wr_busy_queues: 0,
            weights: Vec::new(),
            queued: 0,
            rq_in_driver: 0,
            last_position: Sector::ZERO,
            in_serv_last_pos: Sector::ZERO,
            rq_pos_tree: Tree::default(),
            hw_tag: HwTag::default(),
            rate: Rate::new(reference * 2 / 3),
            budgets_assigned: 0,
            max_budget: tunables.max_budget.unwrap_or(budgets::FIRST_MAX_BUDGET),
            last_budget_start: LONG_AGO,
            last_idling_start: LONG_AGO,
            idle_timer: None,
            run_requested: false,
            burst: Burst::default(),
            last_bfqq_created: None,
            last_completed_rq_bfqq: None,
            wait_dispatch: false,
            waited_rq: None,
            last_empty_occupied_ns: LONG_AGO,
            rqs_injected: false,
            tunables,
        };
        if bfq.tunables.timeout_changed {
            bfq.learn_max_budget(); // as the write of a timeout does
        }
        bfq.believe(initial);
        bfq
    }

    fn queue(&self, id: QueueId) -> &Queue {
        &self.queues[id.index()]
    }

    fn queue_mut(&mut self, id: QueueId) -> &mut Queue {
        &mut self.queues[id.index()]
    }

    fn moment(&mut self, now: Time) -> Moment {
        let locked = self.locked.take();
        self.now = self.clock.moment(now, locked);
        self.now
    }
}

impl Elevator for Bfq {
    fn info(&self) -> &'static SchedulerInfo {
        &INFO
    }

    fn init_request(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let locked = self.locked;
        let at = self.moment(now);
        self.locked = locked; // until it has been inserted
        self.bind(at, requests, id);
    }

    fn insert(&mut self, now: Time, requests: &Requests, id: RequestId) -> bool {
        let at = self.moment(now);
        self.bind(at, requests, id);
        self.add(at, requests, id);
        false
    }

    fn dispatch(&mut self, now: Time, requests: &Requests, _hw_queue: usize) -> Option<RequestId> {
        let at = self.moment(now);
        let queue = self.select(at, requests)?;
        let id = self.queue(queue).next_rq?;
        self.take(at, requests, id);
        Some(id)
    }

    fn limit_depth(
        &self,
        process: ProcessId,
        op: Op,
        sync: bool,
        tags: u32,
        word: u32,
    ) -> Option<TagLimit> {
        self.tag_limit(process, op == Op::Read && sync, sync, tags, word)
    }

    fn completed(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let at = self.moment(now);
        self.complete(at, requests, id);
        self.forget_request(id);
    }

    fn judges_every_bio(&self) -> bool {
        true
    }

    fn allow_merge(&mut self, now: Time, requests: &Requests, id: RequestId, bio: &Bio) -> bool {
        let request = &requests[id];
        if request.priority != bio.priority || bio.sync && !request.sync {
            return false;
        }
        let Some(process) = self.processes.find(bio.process) else {
            return false;
        };
        let at = self.moment(now);
        self.queue_of_bio(at, process, bio.sync, bio.start) == Some(self.data[id].queue())
    }

    fn allow_request_merge(
        &self,
        requests: &Requests,
        first: RequestId,
        second: RequestId,
    ) -> bool {
        requests[first].priority == requests[second].priority
    }

    fn front_merge(&self, requests: &Requests, bio: &Bio) -> Option<RequestId> {
        let process = self.processes.find(bio.process)?;
        let queue = self.queue_for(process, bio.sync)?;
        let at_end = self.queue(queue).sort_list.at(bio.end());
        at_end.filter(|&id| requests[id].op == bio.op)
    }

    fn former(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        let sorted = &self.queue(self.data[id].queue()).sort_list;
        sorted.predecessor(requests[id].start, id)
    }

    fn latter(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        let sorted = &self.queue(self.data[id].queue()).sort_list;
        sorted.successor(requests[id].start, id)
    }

    fn front_merged(&mut self, now: Time, requests: &Requests, id: RequestId, old: Sector) {
        let at = self.moment(now);
        self.moved(at, requests, id, old);
    }

    fn requests_merged(
        &mut self,
        now: Time,
        requests: &Requests,
        survivor: RequestId,
        victim: RequestId,
    ) {
        let at = self.moment(now);
        let (lasting, going) = (self.data[survivor].queue(), self.data[victim].queue());
        let expires = self.data[victim].expires;
        if lasting == going && expires < self.data[survivor].expires {
            self.data[survivor].expires = expires;
            let Bfq { queues, links, .. } = self;
            let fifo = &mut queues[going.index()].fifo;
            fifo.replace(links, victim, survivor);
            fifo.push_back(links, victim); // taken out below like any other
        }
        if self.queue(lasting).next_rq == Some(victim) {
            self.queue_mut(lasting).next_rq = Some(survivor);
        }
        self.remove(at, requests, victim);
        self.forget_request(victim);
    }

    fn absorbed(&mut self, id: RequestId) {
        self.locked = None;
        self.forget_request(id);
    }

    fn next_timer(&self) -> Option<Time> {
        self.idle_timer
    }

    fn timer(&mut self, now: Time, requests: &Requests) {
        let at = self.moment(now);
        self.idled_long_enough(at, requests);
    }

    fn take_queue_run_request(&mut self) -> Option<usize> {
        std::mem::take(&mut self.run_requested).then_some(0)
    }

    fn process_exited(&mut self, now: Time, requests: &Requests, process: ProcessId) {
        if let Some(process) = self.processes.find(process) {
            let at = self.moment(now);
            self.exit(at, requests, process);
        }
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        self.queued > 0
    }

    fn followed(self: Box<Self>) -> Option<Box<dyn Followed>> {
        Some(self)
    }
}
