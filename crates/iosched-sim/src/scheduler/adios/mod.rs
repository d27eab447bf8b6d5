//! ADIOS: the earliest deadline first, in batches whose expected latency is bounded.
//!
//! Follows `adios.c` 3.3.0 (for Linux 6.12 to 7.3). A request's deadline is its start time, plus a target and what
//! its model expects (`model`) if nobody waits for it. A dispatch takes from the current of two pages; the other one is
//! filled from two trees (`queues`) when little is expected to be left ([`Adios::fill`]). Until the models of reads and
//! writes know something, all is first come, first served. Left out: requests inserted at the head, which reach no
//! scheduler here; statistics by CPU: completions count as one CPU's.

mod followed;
mod model;
mod queues;
#[cfg(test)]
mod tests;

use iosched_facts::scheduler as facts;

use self::model::{Clock, Model, Models, STALE_MS, Shrink};
use self::queues::{BY_POSITION, Page, Tree};
use super::{CpuCost, Elevator, Followed, Kernel, PhaseSearch, SchedulerInfo, TunableInfo, Values};
use crate::list::{Links, List};
use crate::request::{Bio, Op, RequestId, Requests};
use crate::request_table::ByRequest;
use crate::units::{Nanos, Sector, Time};

/// How it is listed.
pub(crate) static INFO: SchedulerInfo = SchedulerInfo {
    facts: &facts::ADIOS,
    build: |tunables, kernel, initial| Box::new(Adios::new(tunables, kernel, initial)),
    initial: &[
        TunableInfo::new("read_base", "ns", 0, 0, MOST_NS),
        TunableInfo::new("read_slope", "ns/KiB", 0, 0, MOST_NS),
        TunableInfo::new("write_base", "ns", 0, 0, MOST_NS),
        TunableInfo::new("write_slope", "ns/KiB", 0, 0, MOST_NS),
        TunableInfo::new("bias", "ns", 0, -MOST_NS, MOST_NS),
    ],
    phase_search: PhaseSearch::MostAgreed,
    learns: true,
    // Not measured: mq-deadline's, which has one lock for all CPUs, too.
    cpu_cost: CpuCost {
        own: Nanos::new(1230),
        serial: Nanos::new(2000),
    },
    ..SchedulerInfo::PLAIN
};

/// The most that its state is said to begin with.
const MOST_NS: i64 = 1_000_000_000;

const READ: usize = 0;
const WRITE: usize = 1;
const DISCARD: usize = 2;
/// Flushes and zone commands, which do not pass a scheduler here: their model takes samples all the same.
const OTHER: usize = 3;
const KINDS: usize = 4;

/// Deadlines are compared in steps of so many bits of nanoseconds.
const QUANTUM_BITS: u32 = 20;

/// The models are updated this much later than the tick begins at which that is due.
const HANDLER: Nanos = Nanos::from_micros(5);

/// By priority, from -20.
const WEIGHTS: [i64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

fn kind_of(op: Op) -> usize {
    match op {
        Op::Read => READ,
        Op::Write => WRITE,
        Op::Discard => DISCARD,
    }
}

/// Reads are in the first tree, all else in the second.
fn tree_of(op: Op) -> usize {
    usize::from(op != Op::Read)
}

#[derive(Debug, Clone, Copy)]
struct Tunables {
    window: u64,
    refill_below: u64,
    batch_limits: [u64; KINDS],
    targets: [u64; KINDS],
    latency_limit: u64,
    /// What an early read and an early write weigh (`prio_to_wmult`).
    weights: [i64; 2],
    is_sorted: bool,
    without_prediction: bool,
}

impl Tunables {
    fn new(tunables: &Values, kernel: &Kernel) -> Tunables {
        let read_weight = usize::try_from(tunables.get("read_priority") + 20);
        Tunables {
            window: tunables.count_on("global_latency_window", kernel.rotational),
            refill_below: tunables.count("bq_refill_below_ratio"),
            batch_limits: [
                tunables.count("batch_limit_read"),
                tunables.count("batch_limit_write"),
                tunables.count("batch_limit_discard"),
                1,
            ],
            targets: [
                tunables.count("lat_target_read"),
                tunables.count("lat_target_write"),
                tunables.count("lat_target_discard"),
                0,
            ],
            latency_limit: tunables.count("lat_model_latency_limit"),
            weights: [WEIGHTS[read_weight.expect("within its range")], WEIGHTS[20]],
            is_sorted: kernel.rotational && tunables.get("batch_order") != 0,
            without_prediction: tunables.count("compliance_flags") & 1 != 0,
        }
    }
}

/// Where a request is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// Dispatched.
    #[default]
    Out,
    Priority,
    Tree,
    Page(usize, usize),
}

/// What ADIOS knows of a request besides the block layer (`adios_rq_data`).
#[derive(Debug, Clone, Copy, Default)]
struct RequestData {
    place: Place,
    /// On the kernel's clock.
    deadline: u64,
    /// The deadline is the start time.
    is_urgent: bool,
    /// As it was inserted.
    bytes: u64,
    predicted: u64,
    issued: Option<Time>,
}

/// The ADIOS scheduler.
#[derive(Debug, Clone)]
pub(super) struct Adios {
    kernel: Kernel,
    tunables: Tunables,
    links: Links,
    request_data: ByRequest<RequestData>,
    queued: usize,
    /// In order of arrival, before all else.
    priority: List,
    trees: [Tree; 2],
    pages: [Page; 2],
    /// The current page.
    page: usize,
    /// Below zero: non-reads are due.
    bias: i64,
    /// Requests that were put into a page or the priority queue and have not completed, and what they were expected to
    /// take.
    in_flight: u64,
    expected: u64,
    /// Reads and writes have been seen: the trees are used.
    is_stable: bool,
    models: Models,
    /// When the models are updated.
    due: Option<Time>,
    last_completion: Option<Time>,
    last_position: Sector,
    head: Sector,
    backwards: bool,
    /// Requests that take no more bios.
    closed: Vec<RequestId>,
}

impl Adios {
    pub(super) fn new(tunables: &Values, kernel: &Kernel, initial: &Values) -> Adios {
        let attached = kernel.tick(Time::ZERO);
        let given = |base: &str, slope: &str| {
            Model::given(initial.count(base), initial.count(slope), attached)
        };
        let models = [
            given("read_base", "read_slope"),
            given("write_base", "write_slope"),
            Model::default(),
            Model::default(),
        ];
        let shrink = Shrink {
            requests: tunables.count("shrink_at_kreqs") * 1000,
            bytes: tunables.count("shrink_at_gbytes") << 30,
            resist: u32::try_from(tunables.count("shrink_resist")).expect("within its range"),
        };
        let is_stable = models[READ].base > 0 && models[WRITE].base > 0;
        Adios {
            is_stable,
            bias: initial.get("bias"),
            ..Adios::with(
                kernel,
                Tunables::new(tunables, kernel),
                Models::new(models, shrink),
            )
        }
    }

    fn with(kernel: &Kernel, tunables: Tunables, models: Models) -> Adios {
        Adios {
            kernel: *kernel,
            tunables,
            links: Links::default(),
            request_data: ByRequest::default(),
            queued: 0,
            priority: List::default(),
            trees: Default::default(),
            pages: Default::default(),
            page: 0,
            bias: 0,
            in_flight: 0,
            expected: 0,
            is_stable: false,
            models,
            due: None,
            last_completion: None,
            last_position: Sector::ZERO,
            head: Sector::ZERO,
            backwards: false,
            closed: Vec::new(),
        }
    }

    fn clock(&self, now: Time) -> Clock {
        Clock {
            tick: self.kernel.tick(now),
            stale: self.kernel.millis_to_ticks(STALE_MS),
        }
    }

    // ---- into the trees, and out of them --------------------------------------------------

    fn add_to_tree(&mut self, requests: &Requests, id: RequestId) {
        let group = self.request_data[id].deadline >> QUANTUM_BITS;
        self.trees[tree_of(requests[id].op)].add(&mut self.links, group, id);
    }

    fn remove_from_tree(&mut self, requests: &Requests, id: RequestId) {
        let group = self.request_data[id].deadline >> QUANTUM_BITS;
        self.trees[tree_of(requests[id].op)].remove(&mut self.links, group, id);
    }

    /// A request that grew by a bio goes to the end of its group (`adios_request_merged()`).
    fn grew(&mut self, requests: &Requests, id: RequestId) {
        self.remove_from_tree(requests, id);
        self.add_to_tree(requests, id);
    }

    /// It counts as under way from here until it completes, and takes no more bios.
    fn leaves_trees(&mut self, id: RequestId, place: Place) {
        let data = &mut self.request_data[id];
        data.place = place;
        self.in_flight += 1;
        self.expected += data.predicted;
        self.closed.push(id);
    }

    // ---- batches ---------------------------------------------------------------------------

    /// Which tree's first request goes into the batch, and whether that changes the bias.
    fn earliest(&self) -> Option<(usize, RequestId, bool)> {
        let biased = usize::from(self.bias < 0);
        match [self.trees[0].first(), self.trees[1].first()] {
            [None, None] => None,
            [Some(reads), Some(others)] => {
                let id = [reads, others][biased];
                let other = [others, reads][biased];
                let deadline = |id: RequestId| self.request_data[id].deadline;
                Some((biased, id, deadline(id) > deadline(other)))
            }
            [Some(id), None] => Some((0, id, biased == 0)),
            [None, Some(id)] => Some((1, id, biased == 1)),
        }
    }

    /// Fills the page that is not current (`fill_batch_queues()`).
    fn fill(&mut self, requests: &Requests) {
        let back = 1 - self.page;
        let is_sorted = self.tunables.is_sorted;
        self.pages[back] = Page {
            is_sorted,
            ..Page::default()
        };
        while let Some((tree, id, counts)) = self.earliest() {
            let kind = kind_of(requests[id].op);
            let data = self.request_data[id];
            let page = &mut self.pages[back];
            let is_full = self.models.of[kind].base == 0
                || page.counts[kind] >= self.tunables.batch_limits[kind]
                || self.expected + data.predicted > self.tunables.window;
            if page.left > 0 && is_full {
                break;
            }
            if counts {
                self.change_bias(tree, data.predicted);
            }
            let fifo = match (is_sorted, data.is_urgent) {
                (false, _) => kind,
                (true, true) => 0,
                (true, false) => BY_POSITION,
            };
            self.remove_from_tree(requests, id);
            self.pages[back].counts[kind] += 1;
            self.pages[back].push(&mut self.links, fifo, id);
            self.leaves_trees(id, Place::Page(back, fifo));
        }
        if is_sorted && self.pages[back].counts[WRITE] > 1 {
            self.pages[back].sort(&mut self.links, requests);
        }
    }

    /// A request went before an earlier one of the other tree.
    fn change_bias(&mut self, tree: usize, predicted: u64) {
        let sign = [-1, 1][tree];
        let predicted = i64::try_from(predicted).unwrap_or(i64::MAX);
        if predicted == 0 {
            self.bias = sign;
        } else {
            self.bias += sign * (predicted * self.tunables.weights[tree] / 1024);
        }
    }

    /// `update_elv_direction()`
    fn choose_direction(&mut self, requests: &Requests) {
        self.backwards = self.pages[self.page].goes_backwards(requests, self.head);
    }

    /// The request that goes next (`adios_dispatch_request()`).
    fn next_request(&mut self, requests: &Requests) -> Option<RequestId> {
        if let Some(first) = self.priority.first() {
            return Some(first);
        }
        let has_current = self.pages[self.page].left > 0;
        let has_back = self.pages[1 - self.page].left > 0;
        let Tunables {
            window,
            refill_below,
            ..
        } = self.tunables;
        let is_low =
            !has_current || self.expected == 0 || self.expected < window * refill_below / 100;
        let has_waiting = self.trees.iter().any(|tree| tree.first().is_some());
        if !has_back && has_waiting && is_low {
            self.fill(requests);
        }
        if !has_current && self.pages[1 - self.page].left > 0 {
            self.page = 1 - self.page;
            self.choose_direction(requests);
        }
        let next = self.pages[self.page].next(self.backwards);
        next.map(|(_, id)| id)
    }

    /// Takes a request out, wherever it is.
    fn take(&mut self, requests: &Requests, id: RequestId) {
        match self.request_data[id].place {
            Place::Out => unreachable!("a request is dispatched once"),
            Place::Tree => {
                self.remove_from_tree(requests, id);
                self.leaves_trees(id, Place::Out);
            }
            Place::Page(page, fifo) => self.pages[page].take(&mut self.links, fifo, id),
            Place::Priority => {
                self.priority.remove(&mut self.links, id);
                if self.priority.first().is_none() {
                    self.choose_direction(requests);
                }
            }
        }
        self.request_data[id].place = Place::Out;
        self.queued -= 1;
        self.head = requests[id].end();
    }

    /// How much a completion here counts: more, the further the head went.
    fn weight(&mut self, position: Sector) -> u64 {
        if !self.kernel.rotational {
            return 1;
        }
        let last = std::mem::replace(&mut self.last_position, position);
        if last == Sector::ZERO {
            return 1;
        }
        let distance = position.as_u64().abs_diff(last.as_u64());
        u64::from(u64::BITS - distance.leading_zeros()) + 1
    }
}

impl Elevator for Adios {
    fn info(&self) -> &'static SchedulerInfo {
        &INFO
    }

    fn insert(&mut self, _now: Time, requests: &Requests, id: RequestId) -> bool {
        let request = &requests[id];
        let kind = kind_of(request.op);
        let bytes = request.length.as_u64() * 512;
        let predicted = self.models.of[kind].predict(bytes);
        let predicted = predicted.min(self.tunables.latency_limit);
        let start = self.kernel.monotonic(request.allocated);
        let expected = if self.tunables.without_prediction {
            0
        } else {
            predicted
        };
        let deadline = if request.sync_flag {
            start
        } else {
            start + self.tunables.targets[kind] + expected
        };
        let data = RequestData {
            place: Place::Tree,
            deadline,
            is_urgent: deadline == start,
            bytes,
            predicted,
            issued: None,
        };
        self.request_data.set(id, data);
        self.queued += 1;
        if self.is_stable {
            self.add_to_tree(requests, id);
        } else {
            self.priority.push_back(&mut self.links, id);
            self.leaves_trees(id, Place::Priority);
            self.is_stable = [READ, WRITE]
                .iter()
                .all(|&kind| self.models.of[kind].base > 0);
        }
        false
    }

    fn dispatch(&mut self, _now: Time, requests: &Requests, _queue: usize) -> Option<RequestId> {
        let id = self.next_request(requests)?;
        self.take(requests, id);
        Some(id)
    }

    fn activate(&mut self, now: Time, _requests: &Requests, id: RequestId) {
        self.request_data[id].issued = Some(now);
    }

    fn completed(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let RequestData {
            bytes,
            predicted,
            issued,
            ..
        } = self.request_data[id];
        let request = &requests[id];
        self.in_flight -= 1;
        self.expected -= predicted;
        let since = self.last_completion.or(issued);
        self.last_completion = (self.in_flight > 0).then_some(now);
        let Some(since) = since.filter(|&since| issued.is_some() && since <= now) else {
            return;
        };
        let latency = (now - since).as_nanos();
        let weight = self.weight(request.start);
        if latency > self.tunables.latency_limit {
            return;
        }
        let (kind, clock) = (kind_of(request.op), self.clock(now));
        self.models
            .input(kind, (bytes, predicted), latency, weight, clock);
        if self.due.is_none() {
            let tick = clock.tick + u64::from(self.kernel.hz) / 10 + 1;
            self.due = Some(self.kernel.tick_begins(tick) + HANDLER);
        }
    }

    fn allow_merge(&mut self, _now: Time, requests: &Requests, id: RequestId, bio: &Bio) -> bool {
        requests[id].priority == bio.priority
    }

    fn allow_request_merge(
        &self,
        requests: &Requests,
        first: RequestId,
        second: RequestId,
    ) -> bool {
        requests[first].priority == requests[second].priority
    }

    fn front_merged(&mut self, _now: Time, requests: &Requests, id: RequestId, _old: Sector) {
        self.grew(requests, id);
    }

    fn back_merged(&mut self, _now: Time, requests: &Requests, id: RequestId) {
        self.grew(requests, id);
    }

    fn requests_merged(
        &mut self,
        _now: Time,
        requests: &Requests,
        _survivor: RequestId,
        victim: RequestId,
    ) {
        self.remove_from_tree(requests, victim);
        self.queued -= 1;
    }

    fn closed_to_merging(&mut self) -> Option<&mut Vec<RequestId>> {
        Some(&mut self.closed)
    }

    fn next_timer(&self) -> Option<Time> {
        self.due
    }

    fn timer(&mut self, now: Time, _requests: &Requests) {
        self.due = None;
        self.models.update_all(self.clock(now));
    }

    fn has_work(&self, _queue: usize) -> bool {
        self.queued > 0
    }

    fn followed(self: Box<Self>) -> Option<Box<dyn Followed>> {
        Some(self)
    }
}
