//! cfq: time slices of the disk for each process, by priority, waiting a little for the next request
//! of a process that is worth waiting for.
//!
//! Follows `block/cfq-iosched.c` (Linux 4.19). Each process has a queue for its synchronous requests;
//! asynchronous ones share a queue per priority. Queues stand in service trees by class and type
//! (asynchronous; synchronous without idling; synchronous with idling); a type is served for a time
//! (the workload slice), within it one queue after the other, each for its slice. A queue that runs
//! empty within its slice keeps the disk idle for `slice_idle`, unless its process thinks longer or
//! seeks.
//!
//! Left out: several cgroups (there is one group, so that group idling knows only it), requests put
//! back by the driver, forced draining at a switch.

mod think;
mod tree;

use std::collections::BTreeMap;
use std::ops::Bound;

use think::{SeekHistory, ThinkTime};
use tree::{Place, ServiceTree};

use super::{Kernel, Scheduler, SchedulerInfo, TunableInfo, Values};
use crate::list::{Links, List};
use crate::request::{Bio, IoPriority, PriorityClass, ProcessId, Request, RequestId, Requests};
use crate::units::{Nanos, Sector, Sectors, Time};

const MAX: i64 = u32::MAX as i64;

const fn tunable(name: &'static str, unit: &'static str, default: i64, min: i64) -> TunableInfo {
    TunableInfo {
        name,
        unit,
        default,
        min,
        max: MAX,
    }
}

/// How it is listed.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "cfq",
    summary: "time slices for each process by priority, with idling",
    tunables: &[
        tunable("back_seek_max", "KiB", 16 * 1024, 0),
        tunable("back_seek_penalty", "", 2, 1),
        tunable("fifo_expire_async", "ms", 250, 1),
        tunable("fifo_expire_sync", "ms", 125, 1),
        // 8 ms in a kernel with cgroup scheduling compiled in, which is not modelled.
        tunable("group_idle", "ms", 0, 0),
        tunable("group_idle_us", "us", 0, 0),
        TunableInfo {
            name: "low_latency",
            unit: "",
            default: 1,
            min: 0,
            max: 1,
        },
        tunable("quantum", "", 8, 1),
        tunable("slice_async", "ms", 40, 1),
        tunable("slice_async_rq", "", 2, 1),
        tunable("slice_async_us", "us", 40_000, 1),
        // 0 on a device that is not rotational.
        tunable("slice_idle", "ms", 8, 0),
        tunable("slice_idle_us", "us", 8_000, 0),
        tunable("slice_sync", "ms", 100, 1),
        tunable("slice_sync_us", "us", 100_000, 1),
        tunable("target_latency", "ms", 300, 1),
        tunable("target_latency_us", "us", 300_000, 1),
    ],
    initial: &[
        TunableInfo {
            name: "average",
            unit: "",
            default: 0,
            min: 0,
            max: 1 << 20,
        },
        TunableInfo {
            name: "last-position",
            unit: "sectors",
            default: 0,
            min: 0,
            max: 1 << 53,
        },
    ],
    uses_ticks: false, // only their length
};

/// Farther than this from the last request of its queue, a request is a seek.
const SEEK_THRESHOLD: Sectors = Sectors::new(800);
/// Shorter than this, a request counts as a seek on a device that is not rotational.
const SMALL_REQUEST: Sectors = Sectors::new(64);
/// As near as this to the last request served, another queue's request is as good as its own.
const CLOSE: Sectors = Sectors::new(8192);
/// One page: a larger request ends the wait for it at once.
const PAGE: Sectors = Sectors::new(8);
/// Requests in the drive from which on it is taken to queue them.
const HW_QUEUE_MIN: u64 = 5;
/// How far behind all others the idle class stands.
const IDLE_DELAY: i64 = 200_000_000;
/// How far before all others a preempting queue stands.
const FRONT: i64 = 1_000_000_000;

/// Names a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct QueueId(u32);

impl QueueId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Type of a queue, which says in which tree of its class it stands. In the order in which trees
/// are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Async,
    SyncNoIdle,
    Sync,
}

const TYPES: [Type; 3] = [Type::Async, Type::SyncNoIdle, Type::Sync];

/// A service tree's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TreeId(PriorityClass, Type);

/// Settings in nanoseconds and sectors.
#[derive(Debug, Clone)]
struct Tunables {
    back_seek_max: u64,
    back_seek_penalty: u64,
    /// Asynchronous, synchronous.
    fifo_expire: [Nanos; 2],
    group_idle: Nanos,
    low_latency: bool,
    quantum: u64,
    /// Asynchronous, synchronous.
    slice: [Nanos; 2],
    slice_async_rq: u64,
    slice_idle: Nanos,
    target_latency: Nanos,
}

impl Tunables {
    fn new(values: &Values, kernel: &Kernel) -> Tunables {
        // Two files show the same value: the one in microseconds, if given, is the finer.
        let time = |name: &str| {
            let micros = format!("{name}_us");
            match values.given(&micros) {
                Some(_) => Nanos::from_micros(values.count(&micros)),
                None => Nanos::from_millis(values.count(name)),
            }
        };
        let idle_given =
            values.given("slice_idle").is_some() || values.given("slice_idle_us").is_some();
        let millis = |name| Nanos::from_millis(values.count(name));
        Tunables {
            back_seek_max: values.count("back_seek_max") * 2,
            back_seek_penalty: values.count("back_seek_penalty"),
            fifo_expire: [millis("fifo_expire_async"), millis("fifo_expire_sync")],
            group_idle: time("group_idle"),
            low_latency: values.get("low_latency") != 0,
            quantum: values.count("quantum"),
            slice: [time("slice_async"), time("slice_sync")],
            slice_async_rq: values.count("slice_async_rq"),
            slice_idle: if kernel.rotational || idle_given {
                time("slice_idle")
            } else {
                Nanos::ZERO
            },
            target_latency: time("target_latency"),
        }
    }
}

/// A process as the disk sees it.
#[derive(Debug, Clone)]
struct Context {
    sync_queue: Option<QueueId>,
    async_queue: Option<QueueId>,
    think: ThinkTime,
    priority: IoPriority,
    alive: bool,
}

/// Requests of one process, or the asynchronous ones of one priority.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the kernel's flags, one by one"
)]
struct Queue {
    sync: bool,
    class: PriorityClass,
    level: u8,
    /// Level before any temporary change: chooses the tree where cooperators are looked for.
    original_level: u8,
    priority_changed: bool,
    sorted: BTreeMap<(Sector, u64), RequestId>,
    fifo: List,
    next: Option<RequestId>,
    /// Asynchronous, synchronous.
    queued: [u64; 2],
    dispatched: u64,
    prio_pending: u64,

    /// Where it stands, if it is to be served.
    tree: Option<(TreeId, Place)>,
    /// Position under which it stands in its tree of cooperators.
    cooperator_key: Option<Sector>,
    on_rr: bool,

    slice_start: i64,
    slice_end: i64,
    slice_resid: i64,
    slice_dispatch: u64,
    slice_new: bool,
    idle_window: bool,
    wait_request: bool,
    wait_busy: bool,
    must_dispatch: bool,
    fifo_checked: bool,
    deep: bool,

    seeks: SeekHistory,
    last_request_end: Sector,

    merge_into: Option<QueueId>,
    coop: bool,
    split_coop: bool,
    /// Processes whose queue it is, and those that will join it.
    process_refs: u64,
}

impl Queue {
    fn is_seeky(&self) -> bool {
        self.seeks.is_seeky()
    }

    fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    fn kind(&self) -> Type {
        match (self.sync, self.idle_window) {
            (false, _) => Type::Async,
            (true, false) => Type::SyncNoIdle,
            (true, true) => Type::Sync,
        }
    }

    fn tree_by_flags(&self) -> TreeId {
        TreeId(self.class, self.kind())
    }
}

/// All queues: the one group.
#[derive(Debug, Clone)]
struct Group {
    /// Best effort, real time; asynchronous, synchronous without idling, synchronous.
    trees: [[ServiceTree; 3]; 2],
    idle: ServiceTree,
    queues: u64,
    dispatched: u64,
    think: ThinkTime,
    /// Average number of busy queues: best effort (and idle), real time.
    busy_average: [u64; 2],
    /// What is left of the workload slice, and of which workload.
    saved: Option<(i64, PriorityClass, Type)>,
}

impl Group {
    fn tree(&self, TreeId(class, kind): TreeId) -> &ServiceTree {
        match class {
            PriorityClass::BestEffort => &self.trees[0][kind as usize],
            PriorityClass::RealTime => &self.trees[1][kind as usize],
            PriorityClass::Idle => &self.idle,
        }
    }

    fn tree_mut(&mut self, TreeId(class, kind): TreeId) -> &mut ServiceTree {
        match class {
            PriorityClass::BestEffort => &mut self.trees[0][kind as usize],
            PriorityClass::RealTime => &mut self.trees[1][kind as usize],
            PriorityClass::Idle => &mut self.idle,
        }
    }

    fn busy(&self, class: PriorityClass) -> u64 {
        match class {
            PriorityClass::Idle => self.idle.len(),
            class => TYPES
                .iter()
                .map(|&kind| self.tree(TreeId(class, kind)).len())
                .sum(),
        }
    }
}

/// What cfq knows of a request besides the block layer.
#[derive(Debug, Clone, Copy)]
struct Mark {
    queue: QueueId,
    expires: Time,
    number: u64,
}

/// See the [module's page](self).
#[derive(Debug, Clone)]
pub struct Cfq {
    tunables: Tunables,
    kernel: Kernel,
    queues: Vec<Queue>,
    contexts: BTreeMap<ProcessId, Context>,
    async_queues: BTreeMap<IoPriority, QueueId>,
    marks: Vec<Option<Mark>>,
    links: Links,
    insertions: u64,
    group: Group,
    /// Queues by the position of their next request, one tree for each level.
    cooperators: [BTreeMap<Sector, QueueId>; 8],
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
    active_context: Option<ProcessId>,
    last_position: Sector,
    last_delayed_sync: i64,
    serving_class: PriorityClass,
    serving_type: Type,
    workload_expires: i64,
    kick: bool,
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
        let start = Time::ZERO;
        let trees = || std::array::from_fn(|_| ServiceTree::new(start));
        Cfq {
            tunables: Tunables::new(values, kernel),
            kernel: *kernel,
            queues: Vec::new(),
            contexts: BTreeMap::new(),
            async_queues: BTreeMap::new(),
            marks: Vec::new(),
            links: Links::default(),
            insertions: 0,
            group: Group {
                trees: [trees(), trees()],
                idle: ServiceTree::new(start),
                queues: 0,
                dispatched: 0,
                think: ThinkTime::new(start),
                busy_average: [initial.count("average"), 0],
                saved: None,
            },
            cooperators: std::array::from_fn(|_| BTreeMap::new()),
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
            last_position: Sector::new(initial.count("last-position")),
            last_delayed_sync: -1_000_000_000,
            serving_class: PriorityClass::BestEffort,
            serving_type: Type::Async,
            workload_expires: -1,
            kick: false,
        }
    }

    fn queue(&self, id: QueueId) -> &Queue {
        &self.queues[id.index()]
    }

    fn queue_mut(&mut self, id: QueueId) -> &mut Queue {
        &mut self.queues[id.index()]
    }

    fn mark(&self, id: RequestId) -> Mark {
        self.marks[id.index()].expect("the request was prepared")
    }

    fn mark_mut(&mut self, id: RequestId) -> &mut Mark {
        self.marks[id.index()]
            .as_mut()
            .expect("the request was prepared")
    }

    fn drive_queues(&self) -> bool {
        self.hw_tag != Some(false)
    }

    // ---- processes and their queues ------------------------------------------------------

    /// The process's context; it begins with its first request here.
    fn context(&mut self, now: Time, process: ProcessId, priority: IoPriority) -> &mut Context {
        self.contexts.entry(process).or_insert_with(|| Context {
            sync_queue: None,
            async_queue: None,
            think: ThinkTime::new(now),
            priority,
            alive: true,
        })
    }

    fn new_queue(&mut self, sync: bool, priority: IoPriority) -> QueueId {
        let id = QueueId(u32::try_from(self.queues.len()).expect("less than 2^32 queues"));
        self.queues.push(Queue {
            sync,
            class: priority.class,
            level: priority.level,
            original_level: priority.level,
            priority_changed: false,
            sorted: BTreeMap::new(),
            fifo: List::default(),
            next: None,
            queued: [0; 2],
            dispatched: 0,
            prio_pending: 0,
            tree: None,
            cooperator_key: None,
            on_rr: false,
            slice_start: 0,
            slice_end: 0,
            slice_resid: 0,
            slice_dispatch: 0,
            slice_new: false,
            idle_window: sync && priority.class != PriorityClass::Idle,
            wait_request: false,
            wait_busy: false,
            must_dispatch: false,
            fifo_checked: false,
            deep: false,
            seeks: SeekHistory::default(),
            last_request_end: Sector::ZERO,
            merge_into: None,
            coop: false,
            split_coop: false,
            process_refs: 1,
        });
        id
    }

    /// The queue that a new request of this process goes to: splits what no longer belongs
    /// together, then joins what does.
    fn bind(&mut self, now: Time, request: &Request) -> QueueId {
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

    fn note_priority(&mut self, now: Time, process: ProcessId, priority: IoPriority) {
        let context = self.context(now, process, priority);
        if context.priority == priority {
            return;
        }
        context.priority = priority;
        if let Some(queue) = context.sync_queue {
            self.queue_mut(queue).priority_changed = true;
        }
    }

    fn take_new_priority(&mut self, id: QueueId, priority: IoPriority) {
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
    fn drop_merge_reference(&mut self, queue: QueueId) {
        let mut next = self.queue(queue).merge_into;
        while let Some(target) = next.filter(|&target| target != queue) {
            let target = self.queue_mut(target);
            target.process_refs = target.process_refs.saturating_sub(1);
            next = target.merge_into;
        }
    }

    // ---- the requests of a queue ---------------------------------------------------------

    /// Which of two requests is better served next, seen from `head`.
    fn choose(
        &self,
        requests: &Requests,
        one: Option<RequestId>,
        other: Option<RequestId>,
        head: Sector,
    ) -> Option<RequestId> {
        let (Some(first), Some(second)) = (one, other) else {
            return one.or(other);
        };
        if first == second {
            return other;
        }
        let (a, b) = (&requests[first], &requests[second]);
        if a.sync != b.sync {
            return if a.sync { one } else { other };
        }
        if a.prio != b.prio {
            return if a.prio { one } else { other };
        }
        match (self.cost(a.start, head), self.cost(b.start, head)) {
            (Some(near), Some(far)) if near < far => one,
            (Some(far), Some(near)) if near < far => other,
            (Some(_), Some(_)) => {
                if a.start >= b.start {
                    one
                } else {
                    other
                }
            }
            (Some(_), None) => one,
            (None, Some(_)) => other,
            (None, None) => {
                if a.start <= b.start {
                    one
                } else {
                    other
                }
            }
        }
    }

    /// Forward distance, or backward with a penalty; nothing if it is too far back.
    fn cost(&self, position: Sector, head: Sector) -> Option<u64> {
        let distance = position.distance(head).as_u64();
        if position >= head {
            Some(distance)
        } else if distance <= self.tunables.back_seek_max {
            Some(distance * self.tunables.back_seek_penalty)
        } else {
            None
        }
    }

    /// The best request after this one has gone.
    fn find_next(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        let Mark { queue, number, .. } = self.mark(id);
        let sorted = &self.queue(queue).sorted;
        let place = (requests[id].start, number);
        let after = (Bound::Excluded(place), Bound::Unbounded);
        let next = sorted
            .range(after)
            .next()
            .or_else(|| sorted.first_key_value());
        let next = next.map(|(_, &next)| next).filter(|&next| next != id);
        let previous = sorted
            .range(..place)
            .next_back()
            .map(|(_, &previous)| previous);
        self.choose(requests, next, previous, requests[id].start)
    }

    fn sort_in(&mut self, now: Time, requests: &Requests, id: RequestId) {
        self.insertions += 1;
        self.mark_mut(id).number = self.insertions;
        let Mark { queue, number, .. } = self.mark(id);
        let request = &requests[id];
        let entry = self.queue_mut(queue);
        entry.queued[usize::from(request.sync)] += 1;
        entry.sorted.insert((request.start, number), id);
        if !entry.on_rr {
            self.add_to_rr(now, requests, queue);
        }
        let before = self.queue(queue).next;
        let next = self.choose(requests, before, Some(id), self.last_position);
        self.queue_mut(queue).next = next;
        if before != next {
            self.place_among_cooperators(requests, queue);
        }
    }

    fn sort_out(&mut self, requests: &Requests, id: RequestId, start: Sector) {
        let Mark { queue, number, .. } = self.mark(id);
        let entry = self.queue_mut(queue);
        entry.queued[usize::from(requests[id].sync)] -= 1;
        let removed = entry.sorted.remove(&(start, number));
        assert_eq!(removed, Some(id), "a queue holds what was inserted");
        if entry.on_rr && entry.sorted.is_empty() {
            self.leave_cooperators(queue);
        }
    }

    /// Takes a request out of its queue altogether.
    fn remove(&mut self, requests: &Requests, id: RequestId) {
        let queue = self.mark(id).queue;
        if self.queue(queue).next == Some(id) {
            let next = self.find_next(requests, id);
            self.queue_mut(queue).next = next;
        }
        let Cfq { queues, links, .. } = self;
        queues[queue.index()].fifo.remove(links, id);
        self.sort_out(requests, id, requests[id].start);
        self.rq_queued -= 1;
        if requests[id].prio {
            self.queue_mut(queue).prio_pending -= 1;
        }
    }

    // ---- round robin ---------------------------------------------------------------------

    fn add_to_rr(&mut self, now: Time, requests: &Requests, queue: QueueId) {
        self.queue_mut(queue).on_rr = true;
        self.busy_queues += 1;
        if self.queue(queue).sync {
            self.busy_sync_queues += 1;
        }
        self.resort(now, requests, queue);
    }

    fn remove_from_rr(&mut self, queue: QueueId) {
        self.queue_mut(queue).on_rr = false;
        if let Some((tree, place)) = self.queue_mut(queue).tree.take() {
            self.group.tree_mut(tree).remove(place);
            self.group.queues -= 1;
            if self.group.queues == 0 {
                self.group.saved = None;
            }
        }
        self.leave_cooperators(queue);
        self.busy_queues -= 1;
        if self.queue(queue).sync {
            self.busy_sync_queues -= 1;
        }
    }

    /// Gives a queue that is to be served a fresh place.
    fn resort(&mut self, now: Time, requests: &Requests, queue: QueueId) {
        if self.queue(queue).on_rr {
            self.place_in_tree(now, queue, false);
            self.place_among_cooperators(requests, queue);
        }
    }

    fn place_in_tree(&mut self, now: Time, id: QueueId, front: bool) {
        let tree = self.queue(id).tree_by_flags();
        let key = if self.queue(id).class == PriorityClass::Idle {
            signed(now) + IDLE_DELAY
        } else if front {
            self.group
                .tree(tree)
                .first()
                .map_or(signed(now), |(key, _)| key)
                - FRONT
        } else {
            let key = signed(now) + self.slice_offset(id) - self.queue(id).slice_resid;
            self.queue_mut(id).slice_resid = 0;
            key
        };
        if let Some((old_tree, old_place)) = self.queue(id).tree {
            if old_place.0 == key && old_tree == tree {
                return;
            }
            self.group.tree_mut(old_tree).remove(old_place);
        } else {
            self.group.queues += 1;
        }
        let place = self.group.tree_mut(tree).insert(key, id);
        self.queue_mut(id).tree = Some((tree, place));
    }

    /// How much later than the best level this one comes: more, the more queues there are.
    #[expect(clippy::cast_possible_wrap, reason = "a count of queues")]
    fn slice_offset(&self, id: QueueId) -> i64 {
        let queue = self.queue(id);
        let difference =
            self.priority_slice(true, 0) - self.priority_slice(queue.sync, queue.level);
        (self.group.queues as i64 - 1) * difference
    }

    // ---- cooperators ---------------------------------------------------------------------

    fn place_among_cooperators(&mut self, requests: &Requests, id: QueueId) {
        self.leave_cooperators(id);
        let queue = self.queue(id);
        let Some(next) = queue.next.filter(|_| queue.class != PriorityClass::Idle) else {
            return;
        };
        let position = requests[next].start;
        let tree = &mut self.cooperators[usize::from(queue.original_level)];
        // Of two at the same position the later one stays out.
        if let std::collections::btree_map::Entry::Vacant(place) = tree.entry(position) {
            place.insert(id);
            self.queue_mut(id).cooperator_key = Some(position);
        }
    }

    fn leave_cooperators(&mut self, id: QueueId) {
        let queue = self.queue_mut(id);
        if let Some(position) = queue.cooperator_key.take() {
            let level = usize::from(queue.original_level);
            self.cooperators[level].remove(&position);
        }
    }

    fn is_close(&self, position: Sector) -> bool {
        position.distance(self.last_position) <= CLOSE
    }

    /// Another queue whose next request lies where the last one ended, or near it.
    fn close_cooperator(&self, requests: &Requests, id: QueueId) -> Option<QueueId> {
        let queue = self.queue(id);
        let alone = self.group.queues == 1;
        if queue.class == PriorityClass::Idle || !queue.sync || queue.is_seeky() || alone {
            return None;
        }
        let tree = &self.cooperators[usize::from(queue.original_level)];
        let near = |found: Option<(&Sector, &QueueId)>| {
            found.map(|(_, &found)| found).filter(|&found| {
                let next = self.queue(found).next;
                next.is_some_and(|next| self.is_close(requests[next].start))
            })
        };
        let at_or_after = near(tree.range(self.last_position..).next());
        let found = at_or_after.or_else(|| near(tree.range(..self.last_position).next_back()))?;
        let other = self.queue(found);
        let same_kind = other.sync
            && !other.is_seeky()
            && (other.class == PriorityClass::RealTime) == (queue.class == PriorityClass::RealTime);
        same_kind.then_some(found)
    }

    /// Decides that two queues become one, toward the one with more processes.
    fn set_up_merge(&mut self, queue: QueueId, other: QueueId) {
        let mut target = other;
        if self.queue(target).process_refs == 0 {
            return;
        }
        while let Some(next) = self.queue(target).merge_into {
            if next == queue {
                return;
            }
            target = next;
        }
        let (refs, target_refs) = (
            self.queue(queue).process_refs,
            self.queue(target).process_refs,
        );
        if refs == 0 || target_refs == 0 {
            return;
        }
        if target_refs >= refs {
            self.queue_mut(queue).merge_into = Some(target);
            self.queue_mut(target).process_refs += refs;
        } else {
            self.queue_mut(target).merge_into = Some(queue);
            self.queue_mut(queue).process_refs += target_refs;
        }
    }

    // ---- slices --------------------------------------------------------------------------

    fn priority_slice(&self, sync: bool, level: u8) -> i64 {
        let base = span(self.tunables.slice[usize::from(sync)]);
        base + base / 5 * (4 - i64::from(level))
    }

    /// Average number of busy queues in a class: rises fast, falls slowly.
    fn average_busy(&mut self, class: PriorityClass) -> u64 {
        let index = usize::from(class == PriorityClass::RealTime);
        let counted = if index == 1 {
            PriorityClass::RealTime
        } else {
            PriorityClass::BestEffort
        };
        let busy = self.group.busy(counted);
        let average = self.group.busy_average[index];
        let (low, high) = (average.min(busy), average.max(busy));
        self.group.busy_average[index] = (3 * high + low + 2) / 4;
        self.group.busy_average[index]
    }

    /// A queue's slice, cut where all slices together would exceed the latency aimed at.
    #[expect(clippy::cast_possible_wrap, reason = "a count of queues")]
    fn scaled_slice(&mut self, id: QueueId) -> i64 {
        let (sync, level, class) = {
            let queue = self.queue(id);
            (queue.sync, queue.level, queue.class)
        };
        let slice = self.priority_slice(sync, level);
        if !self.tunables.low_latency {
            return slice;
        }
        let queues = self.average_busy(class) as i64;
        let sync_slice = span(self.tunables.slice[1]);
        let expected = sync_slice * queues;
        let group_slice = span(self.tunables.target_latency);
        if expected <= group_slice {
            return slice;
        }
        let low = share_of(2 * span(self.tunables.slice_idle), slice, sync_slice).min(slice);
        share_of(slice, group_slice, expected).max(low)
    }

    fn set_slice(&mut self, now: Time, id: QueueId) {
        let slice = self.scaled_slice(id);
        let queue = self.queue_mut(id);
        queue.slice_start = signed(now);
        queue.slice_end = signed(now) + slice;
        queue.slice_new = false;
    }

    fn slice_used(&self, now: Time, id: QueueId) -> bool {
        let queue = self.queue(id);
        !queue.slice_new && signed(now) >= queue.slice_end
    }

    /// Ends the active queue's slice. `timed_out`: it keeps what is left of it.
    fn expire(&mut self, now: Time, requests: &Requests, timed_out: bool) {
        let Some(id) = self.active else {
            return;
        };
        if self.queue(id).wait_request {
            self.idle_timer = None;
        }
        let resid = timed_out.then(|| {
            if self.queue(id).slice_new {
                self.scaled_slice(id)
            } else {
                self.queue(id).slice_end - signed(now)
            }
        });
        let queue = self.queue_mut(id);
        queue.wait_request = false;
        queue.wait_busy = false;
        if queue.coop && queue.is_seeky() {
            queue.split_coop = true;
        }
        if let Some(resid) = resid {
            queue.slice_resid = resid;
        }
        let left = self.workload_expires - signed(now);
        self.group.saved = (left > 0).then_some((left, self.serving_class, self.serving_type));
        if self.queue(id).on_rr && self.queue(id).is_empty() {
            self.remove_from_rr(id);
        }
        self.resort(now, requests, id);
        self.active = None;
        self.active_context = None;
    }

    // ---- choosing a queue ----------------------------------------------------------------

    /// The queue that may dispatch now: the rule of cfq.
    fn select(&mut self, now: Time, requests: &Requests) -> Option<QueueId> {
        let Some(id) = self.active else {
            return self.next_queue(now);
        };
        if self.rq_queued == 0 {
            return None;
        }
        let has_requests = !self.queue(id).is_empty();
        if self.queue(id).wait_busy && has_requests {
            self.expire(now, requests, false);
            return self.next_queue(now);
        }
        if self.slice_used(now, id) && !self.queue(id).must_dispatch {
            let last_one = self.group.queues == 1 && !has_requests;
            if last_one && self.queue(id).dispatched > 0 && self.should_idle(id) {
                return None;
            }
            return self.after_group_idle(now, requests);
        }
        if has_requests {
            return Some(id);
        }
        if let Some(other) = self.close_cooperator(requests, id) {
            if self.queue(id).merge_into.is_none() {
                self.set_up_merge(id, other);
            }
            self.expire(now, requests, false);
            self.activate_queue(Some(other));
            return Some(other);
        }
        if self.idle_timer.is_some() {
            return None;
        }
        self.stop_idling_if_fast(now, id);
        if self.queue(id).dispatched > 0 && self.should_idle(id) {
            return None;
        }
        self.after_group_idle(now, requests)
    }

    /// The active queue is done, unless the group is to be waited for.
    fn after_group_idle(&mut self, now: Time, requests: &Requests) -> Option<QueueId> {
        let idle = self.tunables.group_idle;
        let waits = idle > Nanos::ZERO
            && self.group.queues == 1
            && self.group.dispatched > 0
            && !self.group.think.is_longer_than(idle);
        if waits {
            return None;
        }
        self.expire(now, requests, false);
        self.next_queue(now)
    }

    /// A seeky queue whose requests are answered faster than it sends them is not waited for.
    fn stop_idling_if_fast(&mut self, now: Time, id: QueueId) {
        let now = signed(now);
        let queue = self.queue_mut(id);
        // Unsigned in the kernel: a slice that has ended counts as endless here.
        let left = queue.slice_end.wrapping_sub(now).cast_unsigned();
        let used = now.wrapping_sub(queue.slice_start).cast_unsigned();
        if queue.is_seeky() && queue.idle_window && (queue.slice_new || left > used) {
            queue.deep = false;
            queue.idle_window = false;
        }
    }

    fn next_queue(&mut self, now: Time) -> Option<QueueId> {
        self.choose_workload(now);
        let first = if self.rq_queued == 0 {
            None
        } else {
            let tree = TreeId(self.serving_class, self.serving_type);
            self.group.tree(tree).first().map(|(_, queue)| queue)
        };
        self.activate_queue(first);
        first
    }

    fn activate_queue(&mut self, id: Option<QueueId>) {
        if let Some(id) = id {
            let queue = self.queue_mut(id);
            queue.slice_start = 0;
            queue.slice_end = 0;
            queue.slice_dispatch = 0;
            queue.wait_request = false;
            queue.must_dispatch = false;
            queue.fifo_checked = false;
            queue.slice_new = true;
            self.idle_timer = None;
        }
        self.active = id;
    }

    /// Which class and type is served: the one that was, while its workload slice lasts.
    fn choose_workload(&mut self, now: Time) {
        if self.group.queues > 0 {
            match self.group.saved {
                Some((left, class, kind)) => {
                    self.workload_expires = signed(now) + left;
                    self.serving_class = class;
                    self.serving_type = kind;
                }
                None => self.workload_expires = signed(now) - 1,
            }
        }
        let before = self.serving_class;
        self.serving_class = [PriorityClass::RealTime, PriorityClass::BestEffort]
            .into_iter()
            .find(|&class| self.group.busy(class) > 0)
            .unwrap_or(PriorityClass::Idle);
        if self.serving_class == PriorityClass::Idle {
            self.workload_expires = signed(now) + self.tick();
            return;
        }
        let tree = self
            .group
            .tree(TreeId(self.serving_class, self.serving_type));
        let lasts = signed(now) <= self.workload_expires;
        if before == self.serving_class && !tree.is_empty() && lasts {
            return;
        }
        self.serving_type = self.choose_type();
        self.workload_expires = signed(now) + self.workload_slice();
    }

    /// The type whose first queue is due soonest.
    fn choose_type(&self) -> Type {
        let firsts = TYPES.iter().filter_map(|&kind| {
            let tree = self.group.tree(TreeId(self.serving_class, kind));
            tree.first().map(|(key, _)| (key, kind))
        });
        firsts
            .min_by_key(|&(key, _)| key)
            .map_or(Type::Async, |(_, kind)| kind)
    }

    /// A type's share of the latency aimed at, by its number of queues.
    #[expect(clippy::cast_possible_wrap, reason = "counts of queues")]
    fn workload_slice(&self) -> i64 {
        let class = self.serving_class;
        let busy = self.group.busy(class);
        let average = self.group.busy_average[usize::from(class == PriorityClass::RealTime)];
        let count = self.group.tree(TreeId(class, self.serving_type)).len() as i64;
        let target = span(self.tunables.target_latency);
        let mut slice = target * count / average.max(busy).max(1) as i64;
        if self.serving_type == Type::Async {
            let of = |class| self.group.tree(TreeId(class, Type::Async)).len() as i64;
            let all_async = of(PriorityClass::RealTime) + of(PriorityClass::BestEffort);
            slice = slice.min(target * all_async / (self.busy_queues as i64).max(1));
            let [asynchronous, synchronous] = self.tunables.slice.map(span);
            slice = share_of(slice, asynchronous, synchronous);
        } else {
            slice = slice.max(2 * span(self.tunables.slice_idle));
        }
        slice.max(2 * self.tick())
    }

    #[expect(clippy::cast_possible_wrap, reason = "at most 10 ms")]
    fn tick(&self) -> i64 {
        self.kernel.tick_nanos() as i64
    }

    // ---- idling --------------------------------------------------------------------------

    /// Is it worth waiting for this queue's next request?
    fn should_idle(&self, id: QueueId) -> bool {
        let queue = self.queue(id);
        let idle = self.tunables.slice_idle;
        if idle == Nanos::ZERO || queue.class == PriorityClass::Idle {
            return false;
        }
        let fast = !self.kernel.rotational && self.drive_queues();
        if queue.idle_window && !fast {
            return true;
        }
        let tree = self.tree_of(id);
        tree.len() == 1 && queue.sync && !tree.think.is_longer_than(idle)
    }

    /// The tree where a queue stands, or would.
    fn tree_of(&self, id: QueueId) -> &ServiceTree {
        let queue = self.queue(id);
        let tree = queue
            .tree
            .map_or_else(|| queue.tree_by_flags(), |(tree, _)| tree);
        self.group.tree(tree)
    }

    fn context_is_alive(&self, process: ProcessId) -> bool {
        self.contexts
            .get(&process)
            .is_some_and(|context| context.alive)
    }

    /// The active queue ran empty: wait for its next request, if that is worth it.
    fn arm_idle_timer(&mut self, now: Time, id: QueueId) {
        let group_idle = self.tunables.group_idle;
        let fast = !self.kernel.rotational && self.drive_queues();
        if fast && group_idle == Nanos::ZERO {
            return;
        }
        let mut idle = self.tunables.slice_idle;
        let for_group = !self.should_idle(id);
        if for_group {
            if group_idle == Nanos::ZERO {
                return;
            }
            idle = group_idle;
        }
        if self.queue(id).dispatched > 0 {
            return;
        }
        let Some(process) = self
            .active_context
            .filter(|&process| self.context_is_alive(process))
        else {
            return;
        };
        let left = self.queue(id).slice_end - signed(now);
        if self.contexts[&process]
            .think
            .mean()
            .is_some_and(|mean| left < span(mean))
        {
            return;
        }
        let tree = self.tree_of(id);
        if for_group && (self.group.queues > 1 || tree.think.is_longer_than(group_idle)) {
            return;
        }
        self.queue_mut(id).wait_request = true;
        self.idle_timer = Some(now + idle);
    }

    /// The queue is alone in its group, empty, and its slice will be over before the next request
    /// comes: wait for it all the same, so that the group is not lost.
    fn should_wait_busy(&self, now: Time, id: QueueId) -> bool {
        if !self.queue(id).is_empty() || self.group.queues > 1 {
            return false;
        }
        if self.group.think.is_longer_than(self.tunables.group_idle) {
            return false;
        }
        if self.slice_used(now, id) {
            return true;
        }
        let left = self.queue(id).slice_end - signed(now);
        let process = self
            .active_context
            .and_then(|process| self.contexts.get(&process));
        let mean = process.and_then(|context| context.think.mean());
        mean.is_some_and(|mean| left < span(mean)) || left <= self.tick()
    }

    // ---- dispatching ---------------------------------------------------------------------

    /// May this queue put one more request into the drive?
    fn may_dispatch(&self, now: Time, id: QueueId) -> bool {
        let queue = self.queue(id);
        if queue.must_dispatch {
            return true;
        }
        // Asynchronous ones are drained before synchronous ones, and the other way round.
        if self.should_idle(id) && self.rq_in_flight[0] > 0 {
            return false;
        }
        if self.rq_in_flight[1] > 0 && !queue.sync {
            return false;
        }
        let idle_class = queue.class == PriorityClass::Idle;
        let mut max = if idle_class {
            1
        } else {
            (self.tunables.quantum / 2).max(1)
        };
        if queue.dispatched >= max {
            if idle_class {
                return false;
            }
            let only_sync = queue.sync && self.busy_sync_queues == 1;
            if self.busy_queues > 1 && self.slice_used_soon(now, id) && !only_sync {
                return false;
            }
            let unlimited = self.busy_queues == 1 || only_sync;
            max = if unlimited {
                u64::MAX
            } else {
                self.tunables.quantum
            };
        }
        if !queue.sync && self.tunables.low_latency {
            max = max.min(self.async_depth(now, queue));
        }
        queue.dispatched < max
    }

    /// After a synchronous request that took long, asynchronous ones start again with one at a time.
    fn async_depth(&self, now: Time, queue: &Queue) -> u64 {
        let since = u64::try_from(signed(now) - self.last_delayed_sync).unwrap_or(0);
        let depth = since / self.tunables.slice[1].as_nanos();
        if depth == 0 && queue.dispatched == 0 {
            1
        } else {
            depth
        }
    }

    #[expect(clippy::cast_possible_wrap, reason = "requests in the drive")]
    fn slice_used_soon(&self, now: Time, id: QueueId) -> bool {
        let queue = self.queue(id);
        let idle = span(self.tunables.slice_idle) * queue.dispatched as i64;
        queue.slice_new || signed(now) + idle > queue.slice_end
    }

    /// The oldest request of the queue if it has expired; looked at once in a slice.
    fn expired_head(&mut self, now: Time, id: QueueId) -> Option<RequestId> {
        if std::mem::replace(&mut self.queue_mut(id).fifo_checked, true) {
            return None;
        }
        let head = self.queue(id).fifo.first()?;
        (now >= self.mark(head).expires).then_some(head)
    }

    fn hand_out(&mut self, requests: &Requests, id: RequestId) {
        let queue = self.mark(id).queue;
        let next = self.find_next(requests, id);
        self.queue_mut(queue).next = next;
        self.remove(requests, id);
        // The kernel compares with the position of the next request as it is now.
        if !self.queue(queue).is_empty() && self.queue(queue).cooperator_key.is_some() {
            self.place_among_cooperators(requests, queue);
        }
        self.queue_mut(queue).dispatched += 1;
        self.group.dispatched += 1;
        self.rq_in_flight[usize::from(self.queue(queue).sync)] += 1;
        self.active_context.get_or_insert(requests[id].process);
    }

    fn after_hand_out(&mut self, now: Time, requests: &Requests, id: QueueId) {
        let most = 2 * self.tunables.slice_async_rq * (8 - u64::from(self.queue(id).level));
        let queue = self.queue_mut(id);
        queue.slice_dispatch += 1;
        queue.must_dispatch = false;
        let enough = !queue.sync && queue.slice_dispatch >= most;
        if self.busy_queues > 1 && (enough || self.queue(id).class == PriorityClass::Idle) {
            self.queue_mut(id).slice_end = signed(now) + 1;
            self.expire(now, requests, false);
        }
    }

    // ---- what an insert changes ----------------------------------------------------------

    fn note_habits(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let queue = self.mark(id).queue;
        let request = &requests[id];
        let idle = self.tunables.slice_idle;
        if self.queue(queue).sync {
            let context = self.contexts.get_mut(&request.process);
            context.expect("bound at preparation").think.came(now, idle);
            let entry = self.queue(queue);
            let tree = entry
                .tree
                .map_or_else(|| entry.tree_by_flags(), |(tree, _)| tree);
            self.group.tree_mut(tree).think.came(now, idle);
        }
        if self.tunables.group_idle > Nanos::ZERO {
            self.group.think.came(now, self.tunables.group_idle);
        }
        let rotational = self.kernel.rotational;
        let entry = self.queue_mut(queue);
        let last = entry.last_request_end;
        let distance = if last == Sector::ZERO {
            Sectors::ZERO
        } else {
            last.distance(request.start)
        };
        let far = if rotational {
            distance > SEEK_THRESHOLD
        } else {
            request.length < SMALL_REQUEST
        };
        entry.seeks.note(far);
        self.update_idle_window(requests, queue, request.process);
        self.queue_mut(queue).last_request_end = request.end();
    }

    /// Is this queue one to wait for?
    fn update_idle_window(&mut self, requests: &Requests, id: QueueId, process: ProcessId) {
        let queue = self.queue(id);
        if !queue.sync || queue.class == PriorityClass::Idle {
            return;
        }
        let deep = queue.deep || queue.queued[0] + queue.queued[1] >= 4;
        let idle = self.tunables.slice_idle;
        let next_says_no = queue.next.is_some_and(|next| requests[next].noidle);
        let gone = !self.context_is_alive(process);
        let window = if next_says_no || gone || idle == Nanos::ZERO || (!deep && queue.is_seeky()) {
            false
        } else {
            let mean = self.contexts[&process].think.mean();
            mean.map_or(queue.idle_window, |mean| mean <= idle)
        };
        let queue = self.queue_mut(id);
        queue.deep = deep;
        queue.idle_window = window;
    }

    /// May this request's queue take the disk from the active one?
    fn should_preempt(&self, now: Time, requests: &Requests, id: RequestId) -> bool {
        let Some(active_id) = self.active else {
            return false;
        };
        let new = self.queue(self.mark(id).queue);
        let active = self.queue(active_id);
        let request = &requests[id];
        if new.class == PriorityClass::Idle {
            return false;
        }
        if active.class == PriorityClass::Idle {
            return true;
        }
        let real_time = |queue: &Queue| queue.class == PriorityClass::RealTime;
        if real_time(active) && !real_time(new) {
            return false;
        }
        if request.sync && !active.sync && !active.must_dispatch {
            return true;
        }
        if self.slice_used(now, active_id) {
            return true;
        }
        if real_time(new) && !real_time(active) {
            return true;
        }
        let no_idle = Type::SyncNoIdle;
        if self.serving_type == no_idle && new.kind() == no_idle && active.is_empty() {
            return true;
        }
        if request.prio && active.prio_pending == 0 {
            return true;
        }
        if active.is_empty() && !self.should_idle(active_id) {
            return true;
        }
        if self.active_context.is_none() || !active.wait_request {
            return false;
        }
        self.is_close(request.start)
    }

    fn preempt(&mut self, now: Time, requests: &Requests, id: QueueId) {
        let old = self
            .queue(self.active.expect("only an active queue is preempted"))
            .kind();
        self.expire(now, requests, true);
        if old != self.queue(id).kind() {
            self.group.saved = None;
        }
        self.place_in_tree(now, id, true);
        let queue = self.queue_mut(id);
        queue.slice_end = 0;
        queue.slice_new = true;
    }

    /// Does the drive queue commands? Learned from how many it holds when there is enough to do.
    fn learn_hw_tag(&mut self) {
        self.hw_tag_depth = self.hw_tag_depth.max(self.rq_in_driver);
        if self.hw_tag == Some(true) {
            return;
        }
        if self.rq_queued <= HW_QUEUE_MIN && self.rq_in_driver <= HW_QUEUE_MIN {
            return;
        }
        if let Some(active) = self.active {
            let queue = self.queue(active);
            let held = queue.dispatched + queue.queued[0] + queue.queued[1];
            if queue.idle_window && held < HW_QUEUE_MIN && self.rq_in_driver < HW_QUEUE_MIN {
                return;
            }
        }
        self.hw_tag_samples += 1;
        if self.hw_tag_samples > 50 {
            self.hw_tag = Some(self.hw_tag_depth >= HW_QUEUE_MIN);
        }
    }

    fn schedule_dispatch(&mut self) {
        if self.busy_queues > 0 {
            self.kick = true;
        }
    }
}

impl Scheduler for Cfq {
    fn name(&self) -> &'static str {
        "cfq"
    }

    fn prepare(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let queue = self.bind(now, &requests[id]);
        if id.index() >= self.marks.len() {
            self.marks.resize(id.index() + 1, None);
        }
        self.marks[id.index()] = Some(Mark {
            queue,
            expires: Time::ZERO,
            number: 0,
        });
    }

    fn insert(&mut self, now: Time, requests: &Requests, id: RequestId) -> bool {
        let request = &requests[id];
        let queue = self.mark(id).queue;
        let priority = self.contexts[&request.process].priority;
        self.take_new_priority(queue, priority);
        self.mark_mut(id).expires = now + self.tunables.fifo_expire[usize::from(request.sync)];
        let Cfq { queues, links, .. } = self;
        queues[queue.index()].fifo.push_back(links, id);
        self.sort_in(now, requests, id);
        self.rq_queued += 1;
        if request.prio {
            self.queue_mut(queue).prio_pending += 1;
        }
        self.note_habits(now, requests, id);
        if self.active == Some(queue) {
            if !self.queue(queue).wait_request {
                return false;
            }
            if request.length > PAGE || self.busy_queues > 1 {
                self.idle_timer = None;
                self.queue_mut(queue).wait_request = false;
                return true;
            }
            self.queue_mut(queue).must_dispatch = true;
            return false;
        }
        if self.should_preempt(now, requests, id) {
            self.preempt(now, requests, queue);
            return true;
        }
        false
    }

    fn dispatch(&mut self, now: Time, requests: &Requests) -> Option<RequestId> {
        if self.busy_queues == 0 {
            return None;
        }
        let queue = self.select(now, requests)?;
        let expired = self.expired_head(now, queue);
        if expired.is_some() {
            self.queue_mut(queue).must_dispatch = true;
        }
        if !self.may_dispatch(now, queue) {
            return None;
        }
        let id = expired.or(self.queue(queue).next)?;
        self.hand_out(requests, id);
        self.after_hand_out(now, requests, queue);
        Some(id)
    }

    fn dispatch_recorded(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let queue = self.mark(id).queue;
        if self.active != Some(queue) {
            self.expire(now, requests, false);
            let TreeId(class, kind) = self.queue(queue).tree_by_flags();
            (self.serving_class, self.serving_type) = (class, kind);
            self.activate_queue(Some(queue));
        }
        self.hand_out(requests, id);
        self.after_hand_out(now, requests, queue);
    }

    fn activate(&mut self, _now: Time, requests: &Requests, id: RequestId) {
        self.rq_in_driver += 1;
        self.last_position = requests[id].end();
    }

    fn completed(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let request = &requests[id];
        let queue = self.mark(id).queue;
        self.learn_hw_tag();
        self.rq_in_driver -= 1;
        self.queue_mut(queue).dispatched -= 1;
        self.group.dispatched -= 1;
        self.rq_in_flight[usize::from(self.queue(queue).sync)] -= 1;
        if request.sync {
            if let Some(context) = self.contexts.get_mut(&request.process) {
                context.think.ended(now);
            }
            let entry = self.queue(queue);
            let tree = match entry.tree {
                Some((tree, _)) if entry.on_rr => tree,
                _ => entry.tree_by_flags(),
            };
            self.group.tree_mut(tree).think.ended(now);
            if request.allocated + self.tunables.fifo_expire[1] <= now {
                self.last_delayed_sync = signed(now);
            }
        }
        self.group.think.ended(now);
        if self.active == Some(queue) {
            let empty = self.queue(queue).is_empty();
            if self.queue(queue).slice_new {
                self.set_slice(now, queue);
            }
            if self.should_wait_busy(now, queue) {
                let idle = self.tunables.slice_idle;
                let idle = if idle == Nanos::ZERO {
                    self.tunables.group_idle
                } else {
                    idle
                };
                let queue = self.queue_mut(queue);
                queue.slice_end = signed(now) + span(idle);
                queue.wait_busy = true;
            }
            if self.slice_used(now, queue) || self.queue(queue).class == PriorityClass::Idle {
                self.expire(now, requests, true);
            } else if request.sync && empty && self.close_cooperator(requests, queue).is_none() {
                self.arm_idle_timer(now, queue);
            }
        }
        if self.rq_in_driver == 0 {
            self.schedule_dispatch();
        }
        self.marks[id.index()] = None;
    }

    fn front_merge(&self, requests: &Requests, bio: &Bio) -> Option<RequestId> {
        let context = self.contexts.get(&bio.process)?;
        let queue = if bio.sync {
            context.sync_queue
        } else {
            context.async_queue
        }?;
        let end = bio.end();
        let at_end = self
            .queue(queue)
            .sorted
            .range((end, 0)..=(end, u64::MAX))
            .next();
        at_end
            .map(|(_, &id)| id)
            .filter(|&id| requests[id].op == bio.op)
    }

    fn allow_merge(&self, requests: &Requests, id: RequestId, bio: &Bio) -> bool {
        if bio.sync && !requests[id].sync {
            return false;
        }
        let Some(context) = self.contexts.get(&bio.process) else {
            return false;
        };
        let queue = if bio.sync {
            context.sync_queue
        } else {
            context.async_queue
        };
        queue == Some(self.mark(id).queue)
    }

    fn allow_request_merge(&self, first: RequestId, second: RequestId) -> bool {
        self.mark(first).queue == self.mark(second).queue
    }

    fn former(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        let Mark { queue, number, .. } = self.mark(id);
        let before = self
            .queue(queue)
            .sorted
            .range(..(requests[id].start, number));
        before.map(|(_, &former)| former).next_back()
    }

    fn latter(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        let Mark { queue, number, .. } = self.mark(id);
        let after = (
            Bound::Excluded((requests[id].start, number)),
            Bound::Unbounded,
        );
        self.queue(queue)
            .sorted
            .range(after)
            .next()
            .map(|(_, &latter)| latter)
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
        let queue = self.mark(victim).queue;
        if self.mark(victim).expires < self.mark(survivor).expires {
            self.mark_mut(survivor).expires = self.mark(victim).expires;
            let Cfq { queues, links, .. } = self;
            let fifo = &mut queues[queue.index()].fifo;
            fifo.replace(links, victim, survivor);
            fifo.push_back(links, victim); // taken out below like any other
        }
        if self.queue(queue).next == Some(victim) {
            self.queue_mut(queue).next = Some(survivor);
        }
        self.remove(requests, victim);
        self.marks[victim.index()] = None;
        let entry = self.queue(queue);
        if entry.on_rr && entry.is_empty() && self.active != Some(queue) {
            self.remove_from_rr(queue);
        }
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

    fn take_kick(&mut self) -> bool {
        std::mem::take(&mut self.kick)
    }

    fn process_exited(&mut self, now: Time, requests: &Requests, process: ProcessId) {
        let Some(context) = self.contexts.get_mut(&process) else {
            return;
        };
        context.alive = false;
        let queues = [context.async_queue.take(), context.sync_queue.take()];
        for queue in queues.into_iter().flatten() {
            if self.active == Some(queue) {
                self.expire(now, requests, false);
                self.schedule_dispatch();
            }
            if self.queue(queue).sync {
                self.drop_merge_reference(queue);
                let queue = self.queue_mut(queue);
                queue.process_refs = queue.process_refs.saturating_sub(1);
            }
        }
    }

    fn has_work(&self) -> bool {
        self.rq_queued > 0
    }

    fn explain(&self, now: Time) -> String {
        let Some(id) = self.active else {
            return format!("no active queue, {} busy", self.busy_queues);
        };
        let queue = self.queue(id);
        let owner = self
            .contexts
            .iter()
            .find(|(_, context)| context.sync_queue == Some(id));
        let owner = owner.map_or("asynchronous".to_owned(), |(process, _)| {
            format!("of process {}", process.0)
        });
        let slice = if queue.slice_new {
            "slice not begun".to_owned()
        } else {
            format!(
                "{:.2} ms of its slice left",
                (queue.slice_end - signed(now)) as f64 / 1e6
            )
        };
        let timer = self.idle_timer.map_or("idle timer off".to_owned(), |at| {
            format!(
                "idle timer fires in {:.2} ms",
                at.saturating_since(now).as_millis_f64()
            )
        });
        format!(
            "active queue {owner} ({:?}, {} queued, {} in the drive, idle window {}), {slice}, {timer}, {} busy",
            queue.kind(),
            queue.queued[0] + queue.queued[1],
            queue.dispatched,
            if queue.idle_window { "on" } else { "off" },
            self.busy_queues
        )
    }

    fn duplicate(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
