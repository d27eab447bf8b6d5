//! kyber: reads, writes and discards each have a number of tokens, cut while another kind misses its
//! latency target and this one does not.
//!
//! Follows `block/kyber-iosched.c` (Linux 4.20 to 6.12). Each hardware queue has its own requests, in
//! lists by CPU, and its own batches; the tokens (`tokens`), the latencies and what follows from them
//! (`domain`, `latency`) are the device's; how many tokens there are is decided by [`Kyber::adjust`], every
//! 100 ms. [`kpp`] has what that fork does otherwise. Left out: the domain of flushes and zone commands, which do not pass a scheduler here; the
//! design before 4.20.

mod domain;
mod followed;
mod kpp;
mod latency;
mod tokens;

use iosched_facts::scheduler as facts;

use std::collections::VecDeque;

use self::domain::{DISCARD, DOMAINS, Domain, MAX_DEPTH, NAMES, READ, WRITE};
pub(crate) use self::kpp::INFO as KPP;
use self::kpp::Reversal;
use self::latency::{Clock, MISSED};
use super::cpu_lists::CpuLists;
use super::{
    CpuCost, Elevator, Followed, HardwareQueues, Kernel, KernelVersion, PhaseSearch, Rule,
    SchedulerInfo, TagLimit, TunableInfo, Values,
};
use crate::list::{Links, List};
use crate::reciprocal::Divisor;
use crate::request::{Bio, Merge, Op, ProcessId, RequestId, Requests};
use crate::request_table::ByRequest;
use crate::units::{Nanos, Time};
use iosched_facts::event::KyberEvent;

/// How it is listed.
pub(crate) static INFO: SchedulerInfo = SchedulerInfo {
    facts: &facts::KYBER,
    build: |tunables, kernel, initial| Box::new(Kyber::new(&INFO, tunables, kernel, initial)),
    initial: &INITIAL,
    phase_search: PhaseSearch::MostAgreed,
    oldest: Some(OLDEST),
    cpu_cost: CpuCost {
        own: Nanos::new(3300),
        serial: Nanos::ZERO,
    },
    ..SchedulerInfo::PLAIN
};

/// How many tokens there are, and where a batch is.
static INITIAL: [TunableInfo; DOMAINS + 1] = [
    depth_info("read_depth", READ),
    depth_info("write_depth", WRITE),
    depth_info("discard_depth", DISCARD),
    TunableInfo::new(BATCHING, "requests", 0, 0, 16),
];

/// The first kernel with this design.
const OLDEST: KernelVersion = Rule::KyberByHistograms.first();

/// The requests that its batch has had, as its state is told.
const BATCHING: &str = "batching";

/// Requests of a domain in a row.
const BATCH: [u32; DOMAINS] = [16, 8, 1];

/// Discards have five seconds; it cannot be changed.
const DISCARD_TARGET: u64 = 5_000_000_000;

/// What asynchronous requests may use of the scheduler tags, in percent.
const ASYNC_PERCENT: u32 = 75;

/// The statistics are made this much later than the tick begins at which they are due.
const HANDLER: Nanos = Nanos::from_micros(5);

const fn depth_info(name: &'static str, domain: usize) -> TunableInfo {
    let depth = MAX_DEPTH[domain] as i64;
    TunableInfo::new(name, "", depth, 1, depth)
}

/// Requests of one kind in a hardware queue.
#[derive(Debug, Clone, Default)]
struct Lists {
    /// Where bios can still merge with them.
    waiting: CpuLists,
    /// Those that a dispatch took from there.
    flushed: List,
    /// KPP's order, in place of that of arrival.
    reversal: Option<Reversal>,
}

impl Lists {
    /// Puts right what was flushed, where the recorded kyber dispatched a request that was not the first
    /// here. What stands before it came too late for the flush, as did all that came later still. If
    /// the request itself was not flushed here, all that waits was flushed with it.
    fn expose(&mut self, links: &mut Links, requests: &Requests, id: RequestId) {
        let flushed = std::iter::successors(self.flushed.first(), |&one| links.next(one));
        let flushed: Vec<RequestId> = flushed.collect();
        let place = flushed.iter().position(|&one| one == id);
        let allocated = |one: &RequestId| requests[*one].allocated;
        let before = &flushed[..place.unwrap_or(0)];
        let flush = before.iter().map(allocated).min();
        let is_late = |one: &RequestId| {
            place.is_none() || *one != id && flush.is_some_and(|flush| allocated(one) >= flush)
        };
        let mut newer = List::default();
        self.waiting.splice(links, &mut newer);
        for one in flushed.iter().copied().filter(is_late) {
            self.flushed.remove(links, one);
            self.waiting.push(links, requests, one);
        }
        while let Some(one) = newer.pop_front(links) {
            self.waiting.push(links, requests, one);
        }
        if place.is_none() {
            self.waiting.splice(links, &mut self.flushed);
        }
    }

    fn insert(&mut self, links: &mut Links, requests: &Requests, id: RequestId) {
        if self.reverses_insert(requests[id].cpu) {
            self.waiting.push_front(links, requests, id);
        } else {
            self.waiting.push(links, requests, id);
        }
    }

    /// `kyber_flush_busy_kcqs()`
    fn flush(&mut self, links: &mut Links) {
        let Lists {
            waiting,
            flushed,
            reversal,
        } = self;
        match reversal {
            None => waiting.splice(links, flushed),
            Some(reversal) => reversal.flush(links, waiting, flushed),
        }
    }

    /// The request that is dispatched next of those that were flushed.
    fn first(&self) -> Option<RequestId> {
        if self.takes_last() {
            self.flushed.last()
        } else {
            self.flushed.first()
        }
    }

    fn has_work(&self) -> bool {
        self.flushed.first().is_some() || self.waiting.len() > 0
    }
}

/// What each hardware queue has for itself.
#[derive(Debug, Clone)]
struct Queue {
    /// By domain.
    domains: [Lists; DOMAINS],
    /// The domain whose batch it is.
    current: usize,
    /// Requests dispatched in this batch.
    batching: u32,
}

impl Queue {
    fn new(info: &SchedulerInfo) -> Queue {
        let reversal = (info.facts.name == facts::KPP.name).then(Reversal::default);
        let lists = || Lists {
            reversal: reversal.clone(),
            ..Lists::default()
        };
        Queue {
            domains: [lists(), lists(), lists()],
            current: READ,
            batching: 0,
        }
    }

    /// The same without requests: the batch and KPP's counters go on.
    fn emptied(&self) -> Queue {
        let emptied = |lists: &Lists| Lists {
            reversal: lists.reversal.clone(),
            ..Lists::default()
        };
        Queue {
            domains: self.domains.each_ref().map(emptied),
            ..*self
        }
    }
}

/// What kyber knows of a request besides the block layer.
#[derive(Debug, Clone, Copy, Default)]
struct RequestData {
    token: Option<u32>,
    issued: Option<Time>,
}

/// The kyber scheduler, or KPP.
#[derive(Debug, Clone)]
pub(super) struct Kyber {
    info: &'static SchedulerInfo,
    kernel: Kernel,
    hardware: HardwareQueues,
    /// By hardware queue.
    queues: Vec<Queue>,
    domains: [Domain; DOMAINS],
    links: Links,
    request_data: ByRequest<RequestData>,
    /// Hardware queues that are to be run because tokens were given back.
    requested_runs: VecDeque<usize>,
    /// When the statistics are due: [`HANDLER`] after a tick begins.
    due: Option<Time>,
    /// CPUs whose statistics the timer has collected for this evaluation (KPP).
    collected: usize,
}

/// `kyber_sched_domain()`.
fn domain_of(op: Op) -> usize {
    match op {
        Op::Read => READ,
        Op::Write => WRITE,
        Op::Discard => DISCARD,
    }
}

impl Kyber {
    pub(super) fn new(
        info: &'static SchedulerInfo,
        tunables: &Values,
        kernel: &Kernel,
        initial: &Values,
    ) -> Kyber {
        let depths = ["read_depth", "write_depth", "discard_depth"];
        let targets = [
            tunables.count("read_lat_nsec"),
            tunables.count("write_lat_nsec"),
            DISCARD_TARGET,
        ];
        let domain = |domain: usize| {
            let depth = u32::try_from(initial.count(depths[domain])).expect("within its range");
            let quarter = Divisor::new((targets[domain] / 4).max(1));
            Domain::new(domain, depth, quarter)
        };
        Kyber::with_domains(info, kernel, [READ, WRITE, DISCARD].map(domain))
    }

    fn with_domains(
        info: &'static SchedulerInfo,
        kernel: &Kernel,
        domains: [Domain; DOMAINS],
    ) -> Kyber {
        Kyber {
            info,
            kernel: *kernel,
            hardware: HardwareQueues::ONE,
            queues: vec![Queue::new(info)],
            domains,
            links: Links::default(),
            request_data: ByRequest::default(),
            requested_runs: VecDeque::new(),
            due: None,
            collected: 0,
        }
    }

    /// The request that goes next, with all that the choice changes but taking it out (`kyber_dispatch_request()`).
    fn choose(&mut self, queue: usize) -> Option<RequestId> {
        let Queue {
            current, batching, ..
        } = self.queues[queue];
        if batching < BATCH[current]
            && let Some(id) = self.first_of(queue, current)
        {
            return Some(id);
        }
        self.queues[queue].batching = 0;
        for step in 1..=DOMAINS {
            let domain = (current + step) % DOMAINS;
            self.queues[queue].current = domain;
            if let Some(id) = self.first_of(queue, domain) {
                return Some(id);
            }
        }
        None
    }

    /// The oldest request of a domain, if there is a token for it. Without a token the requests stay
    /// where bios can merge with them (`kyber_dispatch_cur_domain()`).
    fn first_of(&mut self, queue: usize, domain: usize) -> Option<RequestId> {
        let lists = &mut self.queues[queue].domains[domain];
        if !lists.has_work() {
            return None;
        }
        if !self.domains[domain].tokens.ask(queue) {
            return None;
        }
        if lists.flushed.first().is_none() {
            lists.flush(&mut self.links);
        }
        lists.first()
    }

    /// The hardware queue of a request, and its domain.
    fn place(&self, requests: &Requests, id: RequestId) -> (usize, usize) {
        let request = &requests[id];
        (self.hardware.of_cpu(request.cpu), domain_of(request.op))
    }

    fn depths(&self) -> Vec<(&'static str, u32)> {
        let depths = self.domains.iter().map(|domain| domain.tokens.depth());
        NAMES.into_iter().zip(depths).collect()
    }

    fn dispatch_request(&mut self, requests: &Requests, id: RequestId) {
        let (number, domain) = self.place(requests, id);
        let queue = &mut self.queues[number];
        queue.domains[domain].drain(&mut self.links, id);
        queue.batching += 1;
        let token = self.domains[domain].tokens.take(number);
        self.request_data[id].token = token;
    }

    /// Looks at the latencies and sets the depths. Where a recording tells what the kernel found,
    /// that holds: it knows latencies of requests that were not recorded (`kyber_timer_fn()`).
    fn adjust(&mut self, now: Time, said: Option<&[KyberEvent]>) {
        let clock = Clock {
            tick: self.kernel.tick(now),
            second: u64::from(self.kernel.hz),
        };
        let mut missed = false;
        for domain in &mut self.domains {
            let p90 = domain.percentile(false, clock, said);
            missed |= p90.is_some_and(|bucket| bucket >= MISSED);
        }
        for (index, domain) in self.domains.iter_mut().enumerate() {
            let fresh = domain.percentile(true, clock, said);
            let p99 = if missed {
                fresh.or(domain.saved_p99.take())
            } else {
                domain.saved_p99 = fresh.or(domain.saved_p99);
                fresh
            };
            if let Some(bucket) = p99.filter(|&bucket| missed || bucket >= MISSED) {
                let quarters = u32::try_from(bucket).expect("below eight") + 1;
                domain.set_depth(domain.tokens.depth() * quarters / 4, MAX_DEPTH[index]);
            }
        }
    }
}

impl Elevator for Kyber {
    fn info(&self) -> &'static SchedulerInfo {
        self.info
    }

    fn attach(&mut self, queues: HardwareQueues) {
        self.hardware = queues;
        self.queues = vec![Queue::new(self.info); queues.count()];
    }

    fn insert(&mut self, _now: Time, requests: &Requests, id: RequestId) -> bool {
        self.request_data.set(id, RequestData::default());
        let (queue, domain) = self.place(requests, id);
        self.queues[queue].domains[domain].insert(&mut self.links, requests, id);
        false
    }

    fn dispatch(
        &mut self,
        _now: Time,
        requests: &Requests,
        hardware_queue: usize,
    ) -> Option<RequestId> {
        let id = self.choose(hardware_queue)?;
        self.dispatch_request(requests, id);
        Some(id)
    }

    fn activate(&mut self, now: Time, _requests: &Requests, id: RequestId) {
        self.request_data[id].issued = Some(now);
    }

    fn limit_depth(
        &self,
        _process: ProcessId,
        op: Op,
        sync: bool,
        tags: u32,
        word: u32,
    ) -> Option<TagLimit> {
        let limits_sync_writes = self.is_kpp() || self.kernel.follows(Rule::KyberLimitsSyncWrites);
        let is_free = sync && (op == Op::Read || !limits_sync_writes);
        let share = |of: u32| (of * ASYNC_PERCENT / 100).max(1);
        (!is_free).then(|| self.kernel.tag_limit(share(tags), share(word)))
    }

    fn completed(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let request = &requests[id];
        let data = self.request_data[id];
        let domain = &mut self.domains[domain_of(request.op)];
        if let Some(token) = data.token {
            for woken in domain.tokens.free(token) {
                if !self.requested_runs.contains(&woken) {
                    self.requested_runs.push_back(woken);
                }
            }
        }
        let quarter = domain.quarter_of_target;
        domain
            .total
            .add(now.saturating_since(request.allocated), quarter);
        let issued = data.issued.unwrap_or(request.allocated);
        domain.device.add(now.saturating_since(issued), quarter);
        if self.due.is_none() {
            let tick = self.kernel.tick(now) + u64::from(self.kernel.hz) / 10 + 1;
            self.due = Some(self.kernel.tick_begins(tick) + HANDLER);
        }
    }

    fn requests_merged(
        &mut self,
        _now: Time,
        requests: &Requests,
        _survivor: RequestId,
        victim: RequestId,
    ) {
        let (queue, domain) = self.place(requests, victim);
        let Lists {
            waiting, flushed, ..
        } = &mut self.queues[queue].domains[domain];
        waiting.splice(&mut self.links, flushed);
        flushed.remove(&mut self.links, victim);
    }

    fn take_queue_run_request(&mut self) -> Option<usize> {
        self.requested_runs.pop_front()
    }

    fn merges_in_lists(&self) -> bool {
        true
    }

    fn list_partner(&self, requests: &Requests, bio: &Bio, cpu: u16) -> Option<Merge> {
        let queue = &self.queues[self.hardware.of_cpu(cpu)];
        let waiting = &queue.domains[domain_of(bio.op)].waiting;
        waiting.partner(&self.links, requests, bio, cpu)
    }

    fn next_timer(&self) -> Option<Time> {
        self.due
    }

    fn timer(&mut self, now: Time, _requests: &Requests) {
        self.due = self.collects_more().then(|| {
            let next_tick = self.kernel.tick(now) + 1;
            self.kernel.tick_begins(next_tick) + HANDLER
        });
        if self.due.is_none() {
            self.adjust(now, None);
        }
    }

    fn has_work(&self, hardware_queue: usize) -> bool {
        let domains = &self.queues[hardware_queue].domains;
        domains.iter().any(Lists::has_work)
    }

    fn followed(self: Box<Self>) -> Option<Box<dyn Followed>> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Queue;
    use super::*;
    use crate::request::PriorityClass;

    const BE: PriorityClass = PriorityClass::BestEffort;

    #[test]
    fn reads_and_writes_take_turns_until_their_tokens_are_gone() {
        let mut queue = Queue::new("kyber");
        for place in 0..300 {
            queue.insert(Op::Read, place, BE);
            queue.insert(Op::Write, 1000 + place, BE);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.dispatch()).collect();
        let kinds: Vec<_> = order.iter().map(|&start| start >= 1000).collect();
        let turns: Vec<_> = kinds.chunk_by(|a, b| a == b).map(<[bool]>::len).collect();
        assert_eq!(turns[..4], [16, 8, 16, 8]);
        let writes = kinds.iter().filter(|&&write| write).count();
        assert_eq!((order.len() - writes, writes), (256, 128));
        queue.complete(1000);
        assert_eq!(queue.dispatch(), Some(1128), "a token was given back");
        assert_eq!(queue.dispatch(), None);
    }

    /// Requests of one kind, one after the other, each taking this long.
    fn serve(queue: &mut Queue, op: Op, count: u64, latency: Nanos) {
        for _ in 0..count {
            queue.insert(op, 7, BE);
            queue.dispatch().unwrap();
            queue.pass(latency);
            queue.complete(7);
        }
    }

    #[test]
    fn a_slow_device_takes_tokens_from_the_kind_that_meets_its_target() {
        let mut queue = Queue::new("kyber");
        serve(&mut queue, Op::Write, 500, Nanos::from_micros(1));
        serve(&mut queue, Op::Read, 500, Nanos::from_millis(3));
        queue.pass(Nanos::from_secs(1));
        for place in 0..300 {
            queue.insert(Op::Write, place, BE);
            queue.insert(Op::Read, 1000 + place, BE);
        }
        // Half of the writes' latencies lie in the first of four quarters; reads missed and stay.
        let order: Vec<_> = std::iter::from_fn(|| queue.dispatch()).collect();
        let writes = order.iter().filter(|&&start| start < 1000).count();
        assert_eq!((writes, order.len() - writes), (32, 256));
    }

    #[test]
    fn the_timer_goes_off_a_tenth_of_a_second_after_the_first_completion() {
        let mut queue = Queue::new("kyber");
        assert_eq!(queue.scheduler.next_timer(), None);
        queue.now = Time::ZERO + Nanos::from_micros(4100);
        serve(&mut queue, Op::Read, 3, Nanos::from_millis(9));
        // The first completed in tick 3 (HZ 250).
        let due = Time::ZERO + Nanos::from_millis((3 + 26) * 4) + HANDLER;
        assert_eq!(queue.scheduler.next_timer(), Some(due));
    }

    #[test]
    fn a_dispatch_takes_what_all_cpus_hold_of_a_kind_cpu_by_cpu() {
        let mut queue = Queue::new("kyber");
        for (cpu, start) in [(2, 20), (1, 10), (2, 21), (0, 1)] {
            queue.cpu = cpu;
            queue.insert(Op::Read, start, BE);
        }
        assert_eq!(queue.dispatch(), Some(1));
        queue.cpu = 0;
        queue.insert(Op::Read, 2, BE); // after what was taken
        let rest: Vec<_> = std::iter::from_fn(|| queue.dispatch()).collect();
        assert_eq!(rest, [10, 20, 21, 2]);
    }

    #[test]
    fn a_hardware_queue_that_lacks_tokens_of_a_kind_is_run_for_tokens_of_that_kind() {
        let mut queue = Queue::new("kyber");
        queue.scheduler.attach(HardwareQueues::new(2, 2));
        for write in 0..128 {
            queue.insert(Op::Write, write, BE);
        }
        queue.insert(Op::Read, 1000, BE);
        assert_eq!(std::iter::from_fn(|| queue.dispatch()).count(), 129);
        queue.cpu = 1;
        queue.insert(Op::Write, 2000, BE);
        let Queue {
            scheduler,
            requests,
            now,
            ..
        } = &mut queue;
        assert_eq!(scheduler.dispatch(*now, requests, 1), None);
        queue.complete(1000);
        for write in 0..7 {
            queue.complete(write);
            assert_eq!(queue.scheduler.take_queue_run_request(), None);
        }
        queue.complete(7); // a batch: an eighth of 128 tokens, but 8 at most
        assert_eq!(queue.scheduler.take_queue_run_request(), Some(1));
        assert_eq!(queue.scheduler.take_queue_run_request(), None);
    }
}
