//! A queue: the requests of a process (or of several that were merged), what the schedule knows of it,
//! and what was learnt about its process.

use super::moment::{LONG_AGO, Moment};
use crate::list::List;
use crate::request::{IoPriority, PriorityClass, Request, RequestId};
use crate::sorted::Sorted;
use crate::units::{Sector, Sectors};

/// Names a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessIndex(pub(super) u32);

/// Names a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueId(u32);

impl QueueId {
    pub(super) fn at(index: usize) -> QueueId {
        QueueId(u32::try_from(index).expect("less than 2^32 queues"))
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Real time, best effort, idle: the places of the classes' trees.
pub(super) const CLASSES: usize = 3;

/// The place of the idle class.
pub(super) const IDLE: usize = 2;

/// The place of a class's tree.
pub(super) fn place_of(class: PriorityClass) -> usize {
    match class {
        PriorityClass::RealTime => 0,
        PriorityClass::BestEffort => 1,
        PriorityClass::Idle => IDLE,
    }
}

/// The level of a priority. The idle class has one.
pub(super) fn level_of(priority: IoPriority) -> u8 {
    match priority.class {
        PriorityClass::Idle => 7,
        _ => priority.level.min(7),
    }
}

/// Weight of a priority: 80 at level 0, 10 at level 7 (`bfq_ioprio_to_weight()`).
pub(super) fn weight_of(priority: IoPriority) -> i64 {
    10 * (8 - i64::from(level_of(priority)))
}

/// The weight of the usual priority (best effort, level 4): only queues of this weight are weight-raised.
pub(super) const USUAL_WEIGHT: i64 = 40;

/// On which tree a queue stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ScheduleTree {
    /// On none: it is in service, or not known to the schedule.
    #[default]
    Nowhere,
    /// It waits to be served.
    Active,
    /// It has nothing to do, and has had more than its share.
    Idle,
}

/// What the schedule knows of a queue (`struct bfq_entity`). Service and budgets are in sectors.
#[derive(Debug, Clone, Default)]
pub(super) struct Entity {
    pub(super) budget: i64,
    pub(super) service: i64,
    pub(super) start: u64,
    pub(super) finish: u64,
    /// The present one: what was set, times `wr_coeff`.
    pub(super) weight: i64,
    /// As was set.
    pub(super) orig_weight: i64,
    /// As is to be set.
    pub(super) new_weight: i64,
    /// Weight or class are to be looked at when it enters a tree next.
    pub(super) prio_changed: bool,
    pub(super) place: ScheduleTree,
    /// On a tree or in service: its weight is part of the tree's sum.
    pub(super) in_sum: bool,
}

/// How long its process takes from the end of one request to the next.
#[derive(Debug, Clone, Default)]
pub(super) struct ThinkTime {
    /// When its last request ended.
    pub(super) last_end: i64,
    pub(super) samples: i64,
    pub(super) total: i64,
    pub(super) mean: i64,
}

/// Two seeks in a row count as such from this distance on.
const SEEK: Sectors = Sectors::new(800);

/// More seeks than these among the last 32 requests make a queue seeky.
const SEEKY: u32 = 19;

/// A seek: from one position to another, 0 being no position yet. On a disk that does not turn only
/// small requests count (`BFQ_RQ_SEEKY`).
pub(super) fn is_seek(from: Sector, to: Sector, length: Sectors, rotational: bool) -> bool {
    from != Sector::ZERO && from.distance(to) > SEEK && (rotational || length < LARGE)
}

/// The longest request that counts: the kernel's lengths have 32 bits in bytes.
const LONGEST: u64 = 1 << 23;

/// A request's length in sectors.
pub(super) fn sectors_of(request: &Request) -> i64 {
    i64::try_from(request.length.as_u64().min(LONGEST)).unwrap_or(0)
}

/// From this length on a request is large on a disk that does not turn.
pub(super) const LARGE: Sectors = Sectors::new(64);

/// Weight-raising of a queue (`wr_coeff`, `wr_cur_max_time`, `last_wr_start_finish`, `wr_start_at_switch_to_srt`,
/// `service_from_wr`).
#[derive(Debug, Clone)]
pub(super) struct WeightRaising {
    /// 1: none. 30: interactive. 3000: soft real time.
    pub(super) coeff: i64,
    /// In ticks.
    pub(super) cur_max_time: i64,
    /// Tick in which it began, or if there is none, in which there last was reason to note it.
    pub(super) last_start_finish: i64,
    /// Tick in which the interactive weight-raising had begun that soft real time replaced.
    pub(super) start_at_switch_to_srt: i64,
    /// Sectors served since.
    pub(super) service: i64,
}

/// How many requests of others may go in while the queue has none.
#[derive(Debug, Clone, Default)]
pub(super) struct Injection {
    pub(super) limit: u64,
    /// How long its requests take without injection, if that is known.
    pub(super) baseline: Option<i64>,
    /// Tick of the last decrease or reset.
    pub(super) decreased: i64,
}

/// Who wakes the queue's process.
#[derive(Debug, Clone, Default)]
pub(super) struct Waking {
    pub(super) waker: Option<QueueId>,
    /// Queues that this one wakes, the latest first.
    pub(super) woken: Vec<QueueId>,
    pub(super) candidate: Option<QueueId>,
    pub(super) detections: u32,
    pub(super) since: i64,
}

/// Times without a unit in their description are ticks.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the kernel's flags, one by one"
)]
pub(super) struct Queue {
    pub(super) sync: bool,
    /// Place of its class's tree.
    pub(super) class: usize,
    /// The class that it is to have from its next insertion in a tree on.
    pub(super) new_class: usize,
    /// Priority level with which it was made.
    pub(super) level: u8,
    /// In use: its place is not to be given to another.
    pub(super) exists: bool,
    /// Shared by all processes of a priority, and never given up.
    pub(super) shared_async: bool,

    /// Processes that point at it, and merges that are scheduled onto it.
    pub(super) process_refs: u32,
    /// Processes that may merge with it for good.
    pub(super) partner_of: u32,
    /// Its requests, from insertion to completion.
    pub(super) allocated: u32,
    /// The process that has it for itself.
    pub(super) owner: Option<ProcessIndex>,

    pub(super) entity: Entity,
    /// The weight under which it is counted.
    pub(super) counted_weight: Option<i64>,
    pub(super) busy: bool,

    pub(super) sort_list: Sorted<Sector, RequestId>,
    pub(super) fifo: List,
    pub(super) next_rq: Option<RequestId>,
    /// Asynchronous, synchronous.
    pub(super) queued: [u32; 2],
    pub(super) dispatched: u32,

    /// What it learnt to ask for, in sectors.
    pub(super) max_budget: i64,
    /// When its slice ends; when it is out of service, when it last had nothing left in the disk.
    pub(super) budget_timeout: i64,
    pub(super) service_from_backlogged: i64,
    pub(super) last_idle_bklogged: i64,
    pub(super) first_io_time: i64,
    pub(super) creation_time: i64,
    pub(super) split_time: i64,

    pub(super) think: ThinkTime,
    /// A bit per request, the last one lowest: a seek.
    pub(super) seek_history: u32,
    pub(super) last_request_pos: Sector,
    /// Beginning of the time that `tot_idle_time` is a part of, in nanoseconds.
    pub(super) io_start_time: i64,
    /// In nanoseconds.
    /// The kernel's unsigned number, which may have gone below zero.
    pub(super) tot_idle_time: u64,

    pub(super) wr: WeightRaising,
    pub(super) soft_rt_next_start: i64,
    pub(super) injection: Injection,
    pub(super) waking: Waking,
    /// The queue that its processes are to move to.
    pub(super) new_bfqq: Option<QueueId>,

    pub(super) just_created: bool,
    /// The disk is kept idle for its next request.
    pub(super) wait_request: bool,
    /// Its budget goes on if its next request comes soon (the kernel's `non_blocking_wait_rq`).
    pub(super) non_blocking_wait_rq: bool,
    /// The age of its oldest request was looked at in this slice.
    pub(super) fifo_checked: bool,
    pub(super) has_short_ttime: bool,
    pub(super) io_bound: bool,
    pub(super) in_large_burst: bool,
    pub(super) softrt_update: bool,
    /// Several processes share it.
    pub(super) coop: bool,
    /// They are to part.
    pub(super) split_coop: bool,
}

impl Queue {
    /// A queue as the kernel makes it, with two thirds of a full budget.
    pub(super) fn new(at: Moment, sync: bool, priority: IoPriority, full_budget: i64) -> Queue {
        let class = place_of(priority.class);
        let weight = weight_of(priority);
        Queue {
            sync,
            class,
            new_class: class,
            level: level_of(priority),
            exists: true,
            shared_async: !sync,
            process_refs: 0,
            partner_of: 0,
            allocated: 0,
            owner: None,
            entity: Entity {
                weight,
                orig_weight: weight,
                new_weight: weight,
                prio_changed: true,
                ..Entity::default()
            },
            counted_weight: None,
            busy: false,
            sort_list: Sorted::default(),
            fifo: List::default(),
            next_rq: None,
            queued: [0; 2],
            dispatched: 0,
            max_budget: 2 * full_budget / 3,
            budget_timeout: LONG_AGO,
            service_from_backlogged: 0,
            last_idle_bklogged: LONG_AGO,
            first_io_time: LONG_AGO,
            creation_time: at.tick,
            split_time: LONG_AGO,
            think: ThinkTime {
                last_end: at.ns + 1,
                ..ThinkTime::default()
            },
            seek_history: 1,
            last_request_pos: Sector::ZERO,
            io_start_time: at.ns,
            tot_idle_time: 0,
            wr: WeightRaising {
                coeff: 1,
                cur_max_time: 0,
                last_start_finish: at.tick,
                start_at_switch_to_srt: LONG_AGO,
                service: 0,
            },
            soft_rt_next_start: at.tick,
            injection: Injection {
                decreased: LONG_AGO,
                ..Injection::default()
            },
            waking: Waking::default(),
            new_bfqq: None,
            just_created: sync,
            wait_request: false,
            non_blocking_wait_rq: false,
            fifo_checked: false,
            has_short_ttime: sync,
            io_bound: true,
            in_large_burst: false,
            softrt_update: false,
            coop: false,
            split_coop: false,
        }
    }

    /// It has no request to serve.
    pub(super) fn is_empty(&self) -> bool {
        self.queued == [0, 0]
    }

    pub(super) fn is_weight_raised(&self) -> bool {
        self.wr.coeff > 1
    }

    pub(super) fn is_idle_class(&self) -> bool {
        self.class == IDLE
    }

    /// `BFQQ_SEEKY`.
    pub(super) fn is_seeky(&self) -> bool {
        self.seek_history.count_ones() > SEEKY
    }

    /// `BFQQ_TOTALLY_SEEKY`.
    pub(super) fn is_totally_seeky(&self) -> bool {
        self.seek_history == u32::MAX
    }

    /// `bfq_bfqq_budget_left()`.
    pub(super) fn budget_left(&self) -> i64 {
        self.entity.budget - self.entity.service
    }

    /// Its slice has lasted as long as it may (`bfq_bfqq_budget_timeout()`).
    pub(super) fn is_out_of_time(&self, at: Moment) -> bool {
        self.budget_timeout <= at.tick
    }

    /// Nothing refers to it.
    pub(super) fn is_unused(&self) -> bool {
        self.exists
            && !self.shared_async
            && self.process_refs == 0
            && self.partner_of == 0
            && self.allocated == 0
            && !self.entity.in_sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_go_down_by_ten_from_level_to_level() {
        let weight = |class, level| weight_of(IoPriority { class, level });
        assert_eq!(weight(PriorityClass::BestEffort, 0), 80);
        assert_eq!(weight(PriorityClass::RealTime, 4), USUAL_WEIGHT);
        assert_eq!(weight(PriorityClass::Idle, 0), 10);
    }

    #[test]
    fn all_of_the_idle_class_are_of_one_level() {
        let at = Moment { ns: 0, tick: 0 };
        let level = |level| {
            let class = PriorityClass::Idle;
            Queue::new(at, true, IoPriority { class, level }, 16_384).level
        };
        assert_eq!((level(0), level(3)), (7, 7));
    }

    #[test]
    fn a_seek_is_farther_than_800_sectors_and_small_where_nothing_turns() {
        let (here, small) = (Sector::new(1000), Sectors::new(8));
        let seek = |to, length, rotational| is_seek(here, Sector::new(to), length, rotational);
        assert!(!seek(1800, small, true) && seek(1801, small, true));
        assert!(seek(5000, LARGE, true) && !seek(5000, LARGE, false));
        assert!(!is_seek(Sector::ZERO, here, small, true), "no position yet");
    }

    #[test]
    fn more_than_19_seeks_of_32_make_a_queue_seeky() {
        let at = Moment { ns: 0, tick: 0 };
        let mut queue = Queue::new(at, true, IoPriority::default(), 16_384);
        queue.seek_history = (1 << 19) - 1;
        assert!(!queue.is_seeky());
        queue.seek_history = (1 << 20) - 1;
        assert!(queue.is_seeky() && !queue.is_totally_seeky());
    }
}
