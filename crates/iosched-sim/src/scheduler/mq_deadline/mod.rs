//! mq-deadline: sector order in batches, the oldest request first once one has expired, reads before
//! writes but not for ever, and one priority class after the other.
//!
//! Follows `block/mq-deadline.c` in two versions ([`Rules`]): Linux 6.1, where a batch goes on with
//! the request that came next when the last one was taken, and 6.12, where it goes on with whatever
//! stands next by position now. Left out: zoned disks, requests that are put back before all others (those
//! that a device gives back wait before it here), and kernels before priorities (5.16).

mod direction;
mod followed;

use iosched_facts::scheduler as facts;

use self::direction::Direction;
use super::data_dir::{READ, WRITE, data_dir, next_direction};
use super::{
    CpuCost, Elevator, Followed, Kernel, KernelVersion, PhaseSearch, Rule, SchedulerInfo, TagLimit,
    Values,
};
use crate::list::Links;
use crate::request::{Bio, Op, PriorityClass, ProcessId, Request, RequestId, Requests};
use crate::request_table::ByRequest;
use crate::units::{Nanos, Sector, Time};

/// How it is listed.
pub(crate) static INFO: SchedulerInfo = SchedulerInfo {
    facts: &facts::MQ_DEADLINE,
    build: |tunables, kernel, _| Box::new(MqDeadline::new(tunables, kernel)),
    phase_search: PhaseSearch::MostAgreed,
    oldest: Some(Rules::OLDEST),
    cpu_cost: CpuCost {
        own: Nanos::new(1230),
        serial: Nanos::new(2000),
    },
    ..SchedulerInfo::PLAIN
};

/// With what a batch goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    /// Before 6.5: with the request that stood behind the last one when that was taken.
    SavedPointer,
    /// Since 6.5: with the first request at the last one's position or behind it.
    Position,
}

impl Rules {
    /// The first version that has priorities.
    const OLDEST: KernelVersion = Rule::DeadlinePriorities.first();

    fn of(kernel: &Kernel) -> Rules {
        if kernel.follows(Rule::DeadlineByPosition) {
            Rules::Position
        } else {
            Rules::SavedPointer
        }
    }
}

/// One priority class.
#[derive(Debug, Clone, Default)]
struct Level {
    /// Reads, writes.
    directions: [Direction; 2],
    /// Requests inserted and not yet freed: those in the driver count too.
    present: u64,
}

impl Level {
    fn has_work(&self) -> bool {
        self.directions.iter().any(Direction::has_work)
    }
}

/// What mq-deadline knows of a request besides the block layer.
#[derive(Debug, Clone, Copy, Default)]
struct RequestData {
    /// Tick of its insertion.
    inserted: u64,
    /// Tick from which on it is expired.
    expires: u64,
}

#[derive(Debug, Clone)]
pub(super) struct MqDeadline {
    rules: Rules,
    kernel: Kernel,
    /// Real time, best effort, idle.
    levels: [Level; 3],
    links: Links,
    request_data: ByRequest<RequestData>,
    /// Direction of the batch, whichever level it was for.
    last_dir: usize,
    /// Requests dispatched in this batch.
    batching: u64,
    /// Choices of reads while writes waited.
    starved: i64,
    /// Ticks from insertion to expiry: reads, writes.
    expire: [u64; 2],
    /// Ticks from insertion until the priority class no longer counts.
    aging_expire: u64,
    fifo_batch: u64,
    writes_starved: i64,
    front_merges: bool,
    /// Scheduler tags that all but reads may use, if fewer than there are.
    async_depth: Option<u64>,
}

/// The level that serves a class.
fn level_of(request: &Request) -> usize {
    match request.priority.class {
        PriorityClass::RealTime => 0,
        PriorityClass::BestEffort => 1,
        PriorityClass::Idle => 2,
    }
}

impl MqDeadline {
    pub(super) fn new(tunables: &Values, kernel: &Kernel) -> MqDeadline {
        let ticks = |name: &str| kernel.millis_to_ticks(tunables.count(name));
        MqDeadline {
            rules: Rules::of(kernel),
            kernel: *kernel,
            levels: Default::default(),
            links: Links::default(),
            request_data: ByRequest::default(),
            last_dir: WRITE, // as the kernel begins: seen only if both directions come at once
            batching: 0,
            starved: 0,
            expire: [ticks("read_expire"), ticks("write_expire")],
            aging_expire: ticks("prio_aging_expire"),
            fifo_batch: tunables.count("fifo_batch"),
            writes_starved: tunables.get("writes_starved"),
            front_merges: tunables.get("front_merges") != 0,
            async_depth: tunables.given("async_depth").map(i64::unsigned_abs),
        }
    }

    fn data_of(&self, id: RequestId) -> &RequestData {
        &self.request_data[id]
    }

    fn direction(&self, request: &Request) -> &Direction {
        &self.levels[level_of(request)].directions[data_dir(request.op)]
    }

    fn direction_mut(&mut self, request: &Request) -> &mut Direction {
        &mut self.levels[level_of(request)].directions[data_dir(request.op)]
    }

    /// Which request goes next, with all that the choice changes (`dd_dispatch_request()`).
    #[inline]
    fn next_request(&mut self, now: Time) -> Option<RequestId> {
        let tick = self.kernel.tick(now);
        let occupied = self.levels.iter().filter(|level| level.present > 0).count();
        if occupied >= 2 {
            // Who has waited too long goes first, whatever its class. One that came in tick 0 or
            // before has not been here for longer than there are ticks.
            let latest_start = tick.checked_sub(self.aging_expire);
            for level in [1, 2] {
                if let Some(id) = self.pick(level, tick, latest_start) {
                    return Some(id);
                }
            }
        }
        // Lower classes wait for all that the first has, in the driver too.
        let first = self.levels.iter().position(|level| level.present > 0)?;
        self.pick(first, tick, Some(tick))
    }

    /// The request that a level would dispatch, if it was inserted at tick `latest_start` or before.
    /// `__dd_dispatch_request()`.
    fn pick(&mut self, level: usize, tick: u64, latest_start: Option<u64>) -> Option<RequestId> {
        if !self.levels[level].has_work() {
            return None;
        }
        let batch = self.batch_next(level, self.last_dir);
        let chosen = match batch.filter(|_| self.batching < self.fifo_batch) {
            Some(next) => next,
            None => self.begin_batch(level, tick)?,
        };
        let old_enough =
            latest_start.is_some_and(|latest_start| self.data_of(chosen).inserted <= latest_start);
        old_enough.then_some(chosen)
    }

    /// The first request of a new batch. The batch counts as begun even if its first request turns
    /// out to be too young.
    fn begin_batch(&mut self, level: usize, tick: u64) -> Option<RequestId> {
        let directions = &self.levels[level].directions;
        let waiting = [READ, WRITE].map(|dir| directions[dir].has_work());
        let direction = next_direction(waiting, &mut self.starved, self.writes_starved)?;
        let oldest = self.levels[level].directions[direction].fifo.first();
        let oldest = oldest.expect("the direction has requests");
        let expired = tick >= self.data_of(oldest).expires;
        let next = self.batch_next(level, direction).filter(|_| !expired);
        self.last_dir = direction;
        self.batching = 0;
        Some(next.unwrap_or(oldest))
    }

    fn batch_next(&self, level: usize, direction: usize) -> Option<RequestId> {
        self.levels[level].directions[direction].batch_next(self.rules)
    }

    /// Takes a request out; its direction goes on behind it (`dd_dispatch_request()`, `deadline_move_request()`).
    fn dispatch_request(&mut self, requests: &Requests, id: RequestId) {
        let request = &requests[id];
        self.batching += 1;
        let MqDeadline { levels, links, .. } = self;
        let direction = &mut levels[level_of(request)].directions[data_dir(request.op)];
        direction.dispatch_request(self.rules, links, request.start, id);
    }

    #[inline]
    fn set_request_data(&mut self, now: Time, id: RequestId, direction: usize) {
        let inserted = self.kernel.tick(now);
        let data = RequestData {
            inserted,
            expires: inserted + self.expire[direction],
        };
        self.request_data.set(id, data);
    }
}

impl Elevator for MqDeadline {
    fn info(&self) -> &'static SchedulerInfo {
        &INFO
    }

    fn insert(&mut self, now: Time, requests: &Requests, id: RequestId) -> bool {
        let request = &requests[id];
        self.set_request_data(now, id, data_dir(request.op));
        let MqDeadline { levels, links, .. } = self;
        let level = &mut levels[level_of(request)];
        level.present += 1;
        level.directions[data_dir(request.op)].insert(links, request.start, id);
        false
    }

    fn dispatch(&mut self, now: Time, requests: &Requests, _hw_queue: usize) -> Option<RequestId> {
        let id = self.next_request(now)?;
        self.dispatch_request(requests, id);
        Some(id)
    }

    fn completed(&mut self, _now: Time, requests: &Requests, id: RequestId) {
        self.levels[level_of(&requests[id])].present -= 1;
    }

    fn limit_depth(
        &self,
        _process: ProcessId,
        op: Op,
        sync: bool,
        tags: u32,
        word: u32,
    ) -> Option<TagLimit> {
        let depth = self.async_depth.filter(|_| !(op == Op::Read && sync))?;
        let share = (depth * u64::from(word)).div_ceil(u64::from(tags.max(1)));
        let share = u32::try_from(share.max(1)).unwrap_or(word).min(word);
        let depth = u32::try_from(depth.max(1)).unwrap_or(tags).min(tags);
        Some(self.kernel.tag_limit(depth, share))
    }

    fn min_shallow_depth(&self, tags: u32) -> u32 {
        if !self.kernel.follows(Rule::DeadlineWakesBatches) {
            return 1;
        }
        let depth = self.async_depth.and_then(|depth| u32::try_from(depth).ok());
        depth.map_or(tags, |depth| depth.min(tags))
    }

    fn front_merge(&self, requests: &Requests, bio: &Bio) -> Option<RequestId> {
        if !self.front_merges {
            return None;
        }
        let like = Request::new(bio, Time::ZERO);
        let at_end = self.direction(&like).at(bio.end())?;
        (requests[at_end].op == bio.op).then_some(at_end)
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

    fn former(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        let request = &requests[id];
        self.direction(request).predecessor(request.start, id)
    }

    fn latter(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        let request = &requests[id];
        self.direction(request).successor(request.start, id)
    }

    fn front_merged(&mut self, _now: Time, requests: &Requests, id: RequestId, old: Sector) {
        let request = &requests[id];
        self.direction_mut(request).moved(old, request.start, id);
    }

    fn requests_merged(
        &mut self,
        _now: Time,
        requests: &Requests,
        survivor: RequestId,
        victim: RequestId,
    ) {
        let request = &requests[victim];
        self.direction_mut(request).unsort(request.start, victim);
        let (victims, survivors) = (*self.data_of(victim), *self.data_of(survivor));
        let MqDeadline { levels, links, .. } = self;
        let level = &mut levels[level_of(request)];
        level.present -= 1;
        let fifo = &mut level.directions[data_dir(request.op)].fifo;
        if victims.expires < survivors.expires {
            fifo.replace(links, victim, survivor);
            let data = &mut self.request_data[survivor];
            (data.inserted, data.expires) = (victims.inserted, victims.expires);
        } else {
            fifo.remove(links, victim);
        }
    }

    fn has_work(&self, _queue: usize) -> bool {
        self.levels.iter().any(Level::has_work)
    }

    fn followed(self: Box<Self>) -> Option<Box<dyn Followed>> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Queue;
    use super::*;
    use crate::units::Nanos;

    const BE: PriorityClass = PriorityClass::BestEffort;

    fn starts(queue: &mut Queue) -> Vec<u64> {
        std::iter::from_fn(|| queue.dispatch()).collect()
    }

    #[test]
    fn the_rules_changed_between_6_1_and_6_12() {
        let after = |kernel: &str| {
            let mut queue = Queue::new(&format!("mq-deadline:kernel={kernel}"));
            for start in [100, 200, 300] {
                queue.insert(Op::Read, start, BE);
            }
            assert_eq!(queue.dispatch(), Some(100));
            queue.insert(Op::Read, 150, BE);
            queue.insert(Op::Read, 100, BE);
            starts(&mut queue)
        };
        assert_eq!(
            after("6.1"),
            [200, 300, 150, 100],
            "as it was when 100 was taken"
        );
        assert_eq!(after("6.12"), [100, 150, 200, 300], "by position");
    }

    #[test]
    fn two_batches_of_reads_go_before_one_of_writes() {
        let mut queue = Queue::new("mq-deadline:fifo_batch=2");
        for place in 0..6 {
            queue.insert(Op::Read, 100 + place, BE);
            queue.insert(Op::Write, 500 + place, BE);
        }
        // The first decision goes on with writes, which is how the kernel begins.
        let order = starts(&mut queue);
        assert_eq!(
            order,
            [500, 501, 100, 101, 102, 103, 502, 503, 104, 105, 504, 505]
        );
    }

    #[test]
    fn a_lower_class_waits_for_what_a_higher_one_has_in_the_driver_until_it_is_old() {
        let mut queue = Queue::new("mq-deadline:prio_aging_expire=1000");
        queue.insert(Op::Read, 10, PriorityClass::RealTime);
        queue.insert(Op::Read, 20, BE);
        queue.insert(Op::Read, 30, PriorityClass::Idle);
        assert_eq!(queue.dispatch(), Some(10));
        assert_eq!(queue.dispatch(), None);
        assert!(
            queue.scheduler.has_work(0),
            "so that the block layer asks again"
        );
        queue.now += Nanos::from_millis(1001);
        assert_eq!(queue.dispatch(), Some(20), "old enough");
        assert_eq!(queue.dispatch(), Some(30));
        queue.insert(Op::Read, 40, BE);
        queue.complete(20);
        assert_eq!(queue.dispatch(), None, "10 is still in the driver");
        queue.complete(10);
        assert_eq!(queue.dispatch(), Some(40));
    }

    #[test]
    fn an_expired_request_goes_first_when_a_batch_ends_not_before() {
        let mut queue = Queue::new("mq-deadline:read_expire=100,fifo_batch=3");
        queue.insert(Op::Read, 900, BE);
        queue.now += Nanos::from_millis(104);
        for start in [10, 20, 30, 40] {
            queue.insert(Op::Read, start, BE);
        }
        queue.now += Nanos::from_millis(1);
        assert_eq!(starts(&mut queue), [900, 10, 20, 30, 40]);
    }

    #[test]
    fn all_but_reads_may_use_a_share_of_each_word_of_tags() {
        let limit = |settings: &str, op, tags, word| {
            Queue::new(settings)
                .scheduler
                .limit_depth(ProcessId(1), op, true, tags, word)
        };
        assert_eq!(
            limit("mq-deadline:async_depth=4", Op::Write, 256, 64),
            Some(TagLimit::OfEachWord(1))
        );
        assert_eq!(
            limit("mq-deadline:async_depth=100", Op::Write, 256, 64),
            Some(TagLimit::OfEachWord(25))
        );
        assert_eq!(limit("mq-deadline:async_depth=4", Op::Read, 256, 64), None);
        assert_eq!(limit("mq-deadline", Op::Write, 256, 64), None);
    }
}
