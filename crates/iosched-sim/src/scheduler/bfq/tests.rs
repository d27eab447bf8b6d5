//! The rules, one by one, on a scheduler whose disk takes as long as a test says.

use proptest::prelude::*;

use super::moment::MILLI;
use super::queue::Queue;
use super::*;
use crate::request::{IoPriority, PriorityClass, Request};
use crate::scheduler::spec::parse_settings;
use crate::units::{Nanos, Sectors};

const USUAL: IoPriority = IoPriority {
    class: PriorityClass::BestEffort,
    level: 4,
};

/// A scheduler in a kernel of 250 ticks per second, at 1000 s of its clock.
struct Lab {
    bfq: Bfq,
    requests: Requests,
    now: Time,
}

impl Lab {
    fn new(tunables: &str) -> Lab {
        Lab::on(tunables, true, "6.1")
    }

    fn on(tunables: &str, rotational: bool, version: &str) -> Lab {
        Lab::with(tunables, "", rotational, version)
    }

    /// One that begins in this state.
    fn told(tunables: &str, initial: &str) -> Lab {
        Lab::with(tunables, initial, true, "6.1")
    }

    fn with(tunables: &str, initial: &str, rotational: bool, version: &str) -> Lab {
        let kernel = Kernel {
            hz: 250,
            rotational,
            version: KernelVersion::parse(version).unwrap(),
            ..Kernel::default()
        };
        let values = |kind, known, text| {
            let settings = parse_settings(text).unwrap();
            Values::new(INFO.facts.name, kind, known, &settings).unwrap()
        };
        let tunables = values("tunable", INFO.facts.tunables, tunables);
        let initial = values("initial value", INFO.initial, initial);
        Lab {
            bfq: Bfq::new(&tunables, &kernel, &initial),
            requests: Requests::default(),
            now: Time::ZERO + Nanos::from_secs(1000),
        }
    }

    fn pass(&mut self, time: Nanos) {
        let until = self.now + time;
        while let Some(timer) = self.bfq.next_timer().filter(|&timer| timer <= until) {
            self.bfq.timer(timer, &self.requests);
        }
        self.now = until;
    }

    fn bio(process: u32, op: Op, start: u64, length: u64, priority: IoPriority) -> Bio {
        Bio {
            op,
            start: Sector::new(start),
            length: Sectors::new(length),
            sync: op == Op::Read,
            sync_flag: op == Op::Read,
            noidle: false,
            prio: false,
            fua: false,
            process: ProcessId(process),
            priority,
        }
    }

    fn insert(&mut self, bio: &Bio) -> RequestId {
        let id = self.requests.add(Request::new(bio, self.now));
        self.bfq.insert(self.now, &self.requests, id);
        id
    }

    /// A read of 8 sectors.
    fn read(&mut self, process: u32, start: u64) -> RequestId {
        self.insert(&Lab::bio(process, Op::Read, start, 8, USUAL))
    }

    fn read_at_level(&mut self, process: u32, start: u64, level: u8) -> RequestId {
        let priority = IoPriority { level, ..USUAL };
        self.insert(&Lab::bio(process, Op::Read, start, 8, priority))
    }

    /// A write that nobody waits for.
    fn write(&mut self, process: u32, start: u64) -> RequestId {
        self.insert(&Lab::bio(process, Op::Write, start, 8, USUAL))
    }

    fn dispatch(&mut self) -> Option<RequestId> {
        self.bfq.dispatch(self.now, &self.requests, 0)
    }

    fn complete(&mut self, id: RequestId) {
        self.bfq.completed(self.now, &self.requests, id);
        self.requests.remove(id);
    }

    /// The disk serves one request.
    fn serve(&mut self, takes: Nanos) -> Option<u64> {
        let id = self.dispatch()?;
        let start = self.requests[id].start.as_u64();
        self.pass(takes);
        self.complete(id);
        Some(start)
    }

    fn queue_id(&self, process: u32) -> QueueId {
        let process = self.bfq.processes.find(ProcessId(process)).unwrap();
        self.bfq.processes[process].sync_queue.unwrap()
    }

    fn queue(&self, process: u32) -> &Queue {
        self.bfq.queue(self.queue_id(process))
    }

    fn queue_mut(&mut self, process: u32) -> &mut Queue {
        let id = self.queue_id(process);
        self.bfq.queue_mut(id)
    }
}

const MS: Nanos = Nanos::from_millis(1);

// ---- shares --------------------------------------------------------------------------------

/// Sequential readers, each on sectors of its own, that always have four requests waiting: backlogged queues.
struct Backlog {
    lab: Lab,
    levels: Vec<u8>,
    sizes: Vec<u64>,
    places: Vec<u64>,
    /// Sectors served to each.
    served: Vec<u64>,
    largest: u64,
}

impl Backlog {
    /// Budgets are as large as is set from the first slice on (`budgets=249`).
    fn new(max_budget: i64, levels: Vec<u8>, sizes: &[u64]) -> Backlog {
        let lab = Lab::told(
            &format!("low_latency=0,max_budget={max_budget}"),
            "budgets=249",
        );
        let sizes: Vec<u64> = (0..levels.len())
            .map(|nth| 8 * sizes[nth % sizes.len()])
            .collect();
        let mut backlog = Backlog {
            lab,
            places: (1..).map(|nth| nth << 30).take(levels.len()).collect(),
            served: vec![0; levels.len()],
            largest: *sizes.iter().max().unwrap(),
            levels,
            sizes,
        };
        for nth in 0..backlog.levels.len() {
            for _ in 0..4 {
                backlog.submit(nth);
            }
        }
        backlog
    }

    fn submit(&mut self, nth: usize) {
        let level = self.levels[nth];
        let priority = IoPriority { level, ..USUAL };
        let (process, length) = (u32::try_from(nth).unwrap(), self.sizes[nth]);
        self.lab.insert(&Lab::bio(
            process,
            Op::Read,
            self.places[nth],
            length,
            priority,
        ));
        self.places[nth] += length;
    }

    /// One request is served, in 100 µs, and its reader submits another. Whose it was.
    fn serve(&mut self) -> usize {
        let id = self.lab.dispatch().expect("all have requests");
        let request = &self.lab.requests[id];
        let nth = request.process.0 as usize;
        self.served[nth] += request.length.as_u64();
        self.submit(nth);
        self.lab.pass(Nanos::from_micros(100));
        self.lab.complete(id);
        nth
    }

    /// The part of the disk that a reader is to have.
    fn share(&self, nth: usize) -> f64 {
        let weight = |level: u8| 8.0 - f64::from(level);
        let all: f64 = self.levels.iter().map(|&level| weight(level)).sum();
        weight(self.levels[nth]) / all
    }

    fn total(&self) -> f64 {
        self.served.iter().sum::<u64>() as f64
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// What B-WF2Q+ promises: a fluid schedule would serve all queues at once, each at its share.
    #[test]
    fn a_backlogged_queue_is_at_most_one_largest_budget_off_a_fluid_schedule(
        levels in prop::collection::vec(0..8_u8, 2..6),
        sizes in prop::collection::vec(1..33_u64, 2..6),
        max_budget in 256..4096_i64,
    ) {
        let mut backlog = Backlog::new(max_budget, levels, &sizes);
        // No request is cut in two.
        let bound = max_budget as f64 + backlog.largest as f64;
        // Less than 600 ms in all, after which equal readers are merged.
        for _ in 0..4000 {
            backlog.serve();
            for nth in 0..backlog.levels.len() {
                let fluid = backlog.total() * backlog.share(nth);
                let error = (backlog.served[nth] as f64 - fluid).abs();
                prop_assert!(error <= bound, "{error} of {bound}");
            }
        }
    }

}

#[test]
fn weights_of_queues_in_service_and_with_nothing_to_do_count_too() {
    let mut lab = Lab::new("low_latency=0");
    lab.read(1, 0);
    lab.read_at_level(2, 1 << 30, 0);
    assert_eq!(lab.bfq.service_trees[1].weights, 40 + 80);
    lab.serve(MS);
    assert_eq!(lab.bfq.service_trees[1].weights, 40 + 80);
}

#[test]
fn the_idle_class_gives_one_request_of_a_slot_where_others_wait() {
    let mut lab = Lab::new("low_latency=0");
    let idle = IoPriority {
        class: PriorityClass::Idle,
        level: 7,
    };
    lab.insert(&Lab::bio(1, Op::Read, 0, 8, idle));
    lab.insert(&Lab::bio(1, Op::Read, 8, 8, idle));
    lab.dispatch().unwrap();
    assert!(
        lab.bfq.in_service_queue.is_some(),
        "alone it keeps its slot"
    );
    lab.read(2, 1 << 30);
    assert_eq!(lab.bfq.in_service_queue, None, "best effort goes first");
}

#[test]
fn an_asynchronous_request_costs_three_times_its_size_where_all_queues_are_alike() {
    let mut lab = Lab::new("low_latency=0");
    let write = lab.write(1, 0);
    let queue = lab.bfq.data[write].queue();
    assert_eq!(lab.bfq.charge(&lab.requests, queue, write), 24);
    lab.read_at_level(2, 1 << 30, 6);
    assert_eq!(
        lab.bfq.charge(&lab.requests, queue, write),
        8,
        "now they differ"
    );
}

// ---- requests of a queue -------------------------------------------------------------------

#[test]
fn the_oldest_request_is_looked_at_once_in_a_slot() {
    let mut lab = Lab::new("fifo_expire_sync=1,low_latency=0");
    for start in [800, 0, 8, 16] {
        lab.read(1, start);
    }
    lab.pass(MS + MS);
    let order: Vec<_> = std::iter::from_fn(|| lab.dispatch()).collect();
    let starts: Vec<_> = order
        .iter()
        .map(|&id| lab.requests[id].start.as_u64())
        .collect();
    assert_eq!(
        starts,
        [0, 800, 16, 8],
        "800 is old after the first, and then 16 is nearest"
    );
}

#[test]
fn budgets_are_trusted_from_the_eleventh_slot_on() {
    let mut lab = Lab::new("");
    lab.bfq.max_budget = 999;
    for slot in 1..=11 {
        assert_eq!(lab.bfq.full_budget(), 16_384, "slot {slot}");
        lab.bfq.count_slice();
    }
    assert_eq!((lab.bfq.full_budget(), lab.bfq.min_budget()), (999, 31));
    for _ in 0..100 {
        lab.bfq.count_slice();
    }
    assert_eq!(lab.bfq.budgets_assigned, 249);
}

#[test]
fn a_slot_that_ends_exhausted_quadruples_the_budget_and_one_without_requests_shrinks_it() {
    let mut lab = Lab::new("low_latency=0");
    lab.read(1, 0);
    let id = lab.queue_id(1);
    lab.queue_mut(1).max_budget = 1000;
    lab.bfq
        .set_next_budget(&lab.requests, id, expire::Reason::Exhausted);
    assert_eq!(lab.queue(1).max_budget, 4000);
    lab.bfq
        .set_next_budget(&lab.requests, id, expire::Reason::Preempted);
    assert_eq!(lab.queue(1).max_budget, 4000);
    lab.bfq
        .set_next_budget(&lab.requests, id, expire::Reason::TooIdle);
    assert_eq!(lab.queue(1).max_budget, 4000 - 4 * 512);
    lab.bfq
        .set_next_budget(&lab.requests, id, expire::Reason::NoMore);
    assert_eq!(
        lab.queue(1).max_budget,
        512,
        "at least a 32nd of the largest"
    );
}

// ---- raising -------------------------------------------------------------------------------

#[test]
fn a_new_reader_is_raised_thirty_times_for_ten_and_a_half_seconds() {
    let mut lab = Lab::new("");
    lab.read(1, 0);
    let queue = lab.queue(1);
    assert_eq!((queue.entity.weight, queue.wr.cur_max_time), (1200, 2625));
    assert_eq!(queue.entity.budget, 2 * 512, "in small slots");
    lab.read_at_level(2, 1 << 30, 3);
    assert_eq!(lab.queue(2).entity.weight, 50, "not at another level");
}

#[test]
fn an_interactive_raise_ends_after_120_000_sectors() {
    let mut lab = Lab::new("");
    lab.read(1, 0);
    lab.queue_mut(1).wr.service = 120_000;
    lab.dispatch().unwrap();
    let queue = lab.queue(1);
    assert_eq!((queue.wr.coeff, queue.entity.weight), (1, 40), "at once");
    assert_eq!(lab.bfq.wr_busy_queues, 0);
}

#[test]
fn a_process_that_keeps_a_pace_is_raised_as_soft_real_time() {
    let mut lab = Lab::new("");
    let mut start = 0;
    for _ in 0..400 {
        lab.read(1, start);
        start += 8;
        lab.serve(MS);
        lab.pass(Nanos::from_millis(40)); // more than the time after which it is early enough
    }
    assert_eq!(
        lab.queue(1).wr.coeff,
        3000,
        "when the interactive raise was over"
    );
    for _ in 0..200 {
        lab.read(1, start);
        start += 8;
        lab.serve(MS);
        lab.pass(Nanos::from_millis(10));
    }
    assert_eq!(lab.queue(1).wr.coeff, 1, "now it does more");
}

#[test]
fn the_eighth_queue_of_a_burst_makes_it_large_and_none_of_them_is_raised() {
    let mut lab = Lab::new("");
    for process in 1..=8 {
        lab.read(process, u64::from(process) << 24);
        lab.pass(Nanos::from_millis(10));
    }
    assert!(lab.bfq.burst.large);
    assert!((1..=8).all(|process| lab.queue(process).in_large_burst));
    lab.read(9, 9 << 24);
    assert_eq!(lab.queue(9).wr.coeff, 1);
    lab.pass(Nanos::from_millis(200));
    lab.read(10, 10 << 24);
    assert!(!lab.queue(10).in_large_burst, "180 ms later it is over");
}

// ---- idling --------------------------------------------------------------------------------

fn armed_for(lab: &Lab) -> Nanos {
    lab.bfq.idle_timer.expect("it is armed") - lab.now
}

#[test]
fn the_disk_is_kept_idle_8_ms_or_20_for_a_raised_queue_or_2_for_one_that_seeks() {
    let mut lab = Lab::new("");
    lab.read(1, 0);
    lab.serve(MS);
    assert_eq!(armed_for(&lab), Nanos::from_millis(20));
    let mut lab = Lab::new("low_latency=0");
    lab.read(1, 0);
    lab.serve(MS);
    assert_eq!(armed_for(&lab), Nanos::from_millis(8));
    lab.read(1, 8);
    lab.queue_mut(1).seek_history = u32::MAX;
    lab.serve(MS);
    assert_eq!(armed_for(&lab), Nanos::from_millis(2));
    lab.pass(Nanos::from_millis(3));
    assert_eq!(lab.bfq.in_service_queue, None, "then others may come");
}

#[test]
fn strict_guarantees_leave_one_request_in_the_disk() {
    let mut lab = Lab::new("strict_guarantees=1");
    lab.read(1, 0);
    lab.read(1, 8);
    let first = lab.dispatch().unwrap();
    assert_eq!(lab.dispatch(), None);
    lab.complete(first);
    assert!(lab.dispatch().is_some());
}

#[test]
fn whether_the_disk_queues_is_unknown_until_the_33rd_sample() {
    let mut lab = Lab::new("low_latency=0,slice_idle=0");
    for start in 0..40 {
        lab.read(1, start << 20);
    }
    for sample in 1..=33 {
        assert_eq!(lab.bfq.hw_tag.known, None, "sample {sample}");
        lab.serve(MS);
    }
    assert_eq!(lab.bfq.hw_tag.known, Some(false), "one at a time");
}

// ---- injection and wakers ------------------------------------------------------------------

#[test]
fn the_first_time_alone_in_the_disk_is_the_baseline_and_allows_one_injected_request() {
    let mut lab = Lab::new("low_latency=0");
    let mut start = 0;
    for _ in 0..8 {
        lab.read(1, start);
        start += 8;
        lab.serve(MS);
        lab.pass(Nanos::from_millis(4));
    }
    let injection = &lab.queue(1).injection;
    assert_eq!(injection.baseline, Some(MILLI));
    assert_eq!(injection.limit, 1);
}

#[test]
fn three_requests_right_after_anothers_completion_tell_who_wakes_a_process() {
    let mut lab = Lab::new("low_latency=0,slice_idle=1");
    for round in 0..4 {
        lab.read(1, 8 * round);
        if round > 0 {
            let known = lab.queue(2).waking.waker;
            assert_eq!(known, None, "round {round}");
        }
        lab.serve(MS);
        lab.read(2, (1 << 30) + 8 * round);
        let think = &mut lab.queue_mut(2).think;
        (think.samples, think.total) = (250, 250 * 2 * MILLI);
        lab.pass(MS + MS);
        lab.serve(MS);
        lab.pass(MS + MS);
    }
    assert_eq!(lab.queue(2).waking.waker, Some(lab.queue_id(1)));
    assert_eq!(lab.queue(1).waking.woken, [lab.queue_id(2)]);
}

#[test]
fn on_a_disk_that_does_not_turn_6_12_passes_a_large_request_over_while_the_disk_has_any() {
    for (version, in_driver, injected) in [("6.1", 0, true), ("6.1", 1, false), ("6.12", 1, false)]
    {
        let mut lab = Lab::on("low_latency=0", false, version);
        lab.bfq.nonrot_with_queueing = false; // two that begin together stay apart
        lab.read(1, 0);
        lab.dispatch();
        lab.insert(&Lab::bio(2, Op::Read, 1 << 30, 64, USUAL));
        lab.queue_mut(1).injection.limit = 2;
        lab.bfq.rq_in_driver = in_driver;
        let served = lab.queue_id(1);
        lab.bfq.in_service_queue = Some(served);
        let found = lab.bfq.choose_injected(&lab.requests, served);
        assert_eq!(
            found.is_some(),
            injected,
            "{version}, {in_driver} in the disk"
        );
    }
}

// ---- merging -------------------------------------------------------------------------------

#[test]
fn readers_that_are_close_share_a_queue_and_part_when_it_seeks() {
    let mut lab = Lab::new("low_latency=0");
    lab.read(1, 1000);
    lab.dispatch().unwrap();
    lab.read(1, 2000);
    lab.read(3, 1 << 30);
    lab.read(2, 1500);
    assert_eq!(lab.queue_id(2), lab.queue_id(1));
    assert!(lab.queue(1).coop && lab.queue(1).owner.is_none());
    assert_eq!(lab.queue(1).process_refs, 2);
    let queue = lab.queue_mut(1);
    queue.split_coop = true;
    lab.read(2, 90_000_000);
    assert_ne!(
        lab.queue_id(2),
        lab.queue_id(1),
        "process 2 has its own again"
    );
    lab.read(1, 3000);
    assert!(!lab.queue(1).coop, "the last one keeps it");
}

#[test]
fn readers_that_began_together_are_merged_for_good_after_600_ms() {
    let mut lab = Lab::new("low_latency=0,slice_idle=0");
    for process in [1, 2] {
        lab.read(process, u64::from(process) << 28);
        lab.serve(MS);
    }
    lab.pass(Nanos::from_millis(620));
    lab.queue_mut(2).io_bound = false; // idling for it does not make the disk do more
    lab.read(2, 5);
    assert_eq!(lab.queue_id(2), lab.queue_id(1));
    let process = lab.bfq.processes.find(ProcessId(2)).unwrap();
    assert!(lab.bfq.processes[process].stably_merged);
}

// ---- the ends of processes -----------------------------------------------------------------

#[test]
fn a_process_that_ends_takes_its_queue_out_of_service_and_wants_a_run() {
    let mut lab = Lab::new("low_latency=0");
    lab.read(1, 0);
    lab.serve(MS);
    lab.read(2, 1 << 30);
    assert!(lab.queue(1).wait_request && lab.bfq.idle_timer.is_some());
    lab.bfq.process_exited(lab.now, &lab.requests, ProcessId(1));
    assert_eq!((lab.bfq.in_service_queue, lab.bfq.idle_timer), (None, None));
    assert_eq!(lab.bfq.take_queue_run_request(), Some(0));
}

// ---- tunables ------------------------------------------------------------------------------

#[test]
fn queues_are_merged_on_flash_only_once_it_was_seen_not_to_queue_commands() {
    let mut lab = Lab::on("", false, "7.1");
    assert!(lab.bfq.nonrot_with_queueing, "until it is known");
    lab.bfq.rotational = true; // `queue/rotational` was written
    assert!(
        lab.bfq.nonrot_with_queueing,
        "looked at when it was attached"
    );
    for (most, expected) in [(3, false), (4, true)] {
        lab.bfq.rotational = false;
        lab.bfq.hw_tag = HwTag {
            known: None,
            samples: 32,
            max_rq_in_driver: most,
        };
        for nth in 0..4 {
            lab.read(1, 100_000 * nth);
        }
        lab.bfq.rq_in_driver = 1;
        lab.bfq.learn_hw_tag();
        assert_eq!(lab.bfq.nonrot_with_queueing, expected, "{most} at a time");
    }
    assert!(!Lab::on("", true, "7.1").bfq.nonrot_with_queueing);
}

#[test]
fn a_split_queue_keeps_a_waker_that_no_process_has_from_6_3_to_6_13() {
    for (version, kept) in [("6.1", false), ("6.12", true), ("6.14", false)] {
        let mut lab = Lab::on("low_latency=0", true, version);
        for process in 1..=3 {
            lab.read(process, u64::from(process) << 30);
        }
        let (waker, shared) = (lab.queue_id(1), lab.queue_id(2));
        lab.bfq.set_waker(shared, waker);
        lab.queue_mut(1).process_refs = 0;
        lab.queue_mut(2).process_refs = 2;
        let process = lab.bfq.processes.find(ProcessId(2)).unwrap();
        let (queue, _) = lab.bfq.split(lab.bfq.now, process, shared);
        let found = lab.bfq.queue(queue).waking.waker;
        assert_eq!(found.is_some(), kept, "{version}");
    }
}

#[test]
fn a_queue_that_holds_its_share_of_requests_gets_one_tag_of_each_word_and_since_6_17_one_in_all() {
    for (version, one) in [
        ("6.16", TagLimit::OfEachWord(1)),
        ("6.17", TagLimit::InAll(1)),
    ] {
        let mut lab = Lab::on("low_latency=0", true, version);
        lab.read_at_level(1, 0, 0);
        for nth in 0..30 {
            lab.read_at_level(2, (1 << 30) + 100_000 * nth, 7);
        }
        // 256 tags times 10 of 90.
        let limit = |lab: &Lab, process| {
            lab.bfq
                .limit_depth(ProcessId(process), Op::Read, true, 256, 64)
        };
        assert_eq!((limit(&lab, 1), limit(&lab, 2)), (None, Some(one)));
    }
}
