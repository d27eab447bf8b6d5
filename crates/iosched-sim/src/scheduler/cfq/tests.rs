//! The rules, one by one, on a scheduler whose disk takes as long as a test says.

use super::*;
use crate::request::{IoPriority, Op, Request};
use crate::scheduler::spec::parse_settings;
use crate::units::Sectors;

const fn ms(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

/// So far apart that every access is a seek.
const FAR: u64 = 100_000;

/// A scheduler in a kernel of 1000 ticks per second, at 1000 s of its clock.
struct Lab {
    cfq: Cfq,
    requests: Requests,
    now: Time,
}

/// Best effort at this level.
fn level(level: u8) -> IoPriority {
    IoPriority {
        class: PriorityClass::BestEffort,
        level,
    }
}

fn class(class: PriorityClass) -> IoPriority {
    IoPriority { class, level: 4 }
}

impl Lab {
    fn new(tunables: &str) -> Lab {
        let kernel = Kernel::default();
        let values = |kind, known, text| {
            let settings = parse_settings(text).unwrap();
            Values::new(INFO.facts.name, kind, known, &settings).unwrap()
        };
        let tunables = values("tunable", INFO.facts.tunables, tunables);
        let initial = values("initial value", INFO.initial, "");
        Lab {
            cfq: Cfq::new(&tunables, &kernel, &initial),
            requests: Requests::default(),
            now: Time::ZERO + Nanos::from_secs(1000),
        }
    }

    /// Inserts a request of 8 sectors; true if the queue is to be run at once.
    fn insert(&mut self, process: u32, op: Op, start: u64, priority: IoPriority) -> bool {
        self.insert_bio(&Bio {
            op,
            start: Sector::new(start),
            length: Sectors::new(8),
            sync: op == Op::Read,
            sync_flag: op == Op::Read,
            noidle: false,
            prio: false,
            fua: false,
            process: ProcessId(process),
            priority,
        })
    }

    fn insert_bio(&mut self, bio: &Bio) -> bool {
        let id = self.requests.add(Request::new(bio, self.now));
        self.cfq.prepare(self.now, &self.requests, id);
        self.cfq.insert(self.now, &self.requests, id)
    }

    fn read(&mut self, process: u32, start: u64) -> bool {
        self.insert(process, Op::Read, start, level(4))
    }

    /// A write that nobody waits for.
    fn write(&mut self, process: u32, start: u64) -> bool {
        self.insert(process, Op::Write, start, level(4))
    }

    fn dispatch(&mut self) -> Option<RequestId> {
        let id = self.cfq.dispatch(self.now, &self.requests, 0)?;
        self.cfq.activate(self.now, &self.requests, id);
        Some(id)
    }

    /// Where the request starts that goes to the drive, and stays there.
    fn dispatched(&mut self) -> Option<u64> {
        let id = self.dispatch()?;
        Some(self.requests[id].start.as_u64())
    }

    fn complete(&mut self, id: RequestId) {
        self.cfq.completed(self.now, &self.requests, id);
        self.requests.remove(id);
    }

    fn pass(&mut self, time: Nanos) {
        let until = self.now + time;
        while let Some(timer) = self.cfq.next_timer().filter(|&timer| timer <= until) {
            self.now = timer;
            self.cfq.timer(timer, &self.requests);
        }
        self.now = until;
    }

    /// The disk serves one request for 5 ms; says where it begins.
    fn serve(&mut self) -> Option<u64> {
        let id = self.dispatch()?;
        let start = self.requests[id].start.as_u64();
        self.now += ms(5);
        self.complete(id);
        Some(start)
    }

    /// A process that reads one place after the other, each some time after the last: it is known by then.
    fn make_known(&mut self, process: u32, mut starts: impl FnMut(u64) -> u64, thinks: Nanos) {
        for nth in 0..8 {
            self.read(process, starts(nth));
            while self.serve().is_none() {
                self.pass(ms(1));
            }
            self.now += thinks;
            self.pass(Nanos::ZERO);
        }
    }

    fn sync_queue(&self, process: u32) -> QueueId {
        let context = self.cfq.contexts.find(ProcessId(process)).unwrap();
        self.cfq.contexts[context].sync_queue.unwrap()
    }

    fn queue(&self, process: u32) -> &Queue {
        self.cfq.queue(self.sync_queue(process))
    }
}

// ---- idling ------------------------------------------------------------------------------

#[test]
fn slice_idle_a_queue_that_runs_empty_in_its_slice_keeps_the_disk_idle() {
    let mut lab = Lab::new("");
    lab.read(1, 0);
    lab.read(2, FAR);
    assert_eq!(lab.serve(), Some(0));
    assert_eq!(lab.dispatched(), None, "its next request may come");
    assert_eq!(lab.cfq.next_timer(), Some(lab.now + ms(8)));
    lab.pass(ms(7));
    assert_eq!(lab.dispatched(), None);
    lab.pass(ms(1));
    assert_eq!(lab.dispatched(), Some(FAR), "it did not come");
}

#[test]
fn slice_idle_the_wait_ends_with_the_request_that_was_waited_for() {
    let mut lab = Lab::new("");
    lab.read(1, 0);
    lab.read(2, FAR);
    lab.serve();
    lab.pass(ms(2));
    assert!(lab.read(1, 8), "others wait: the queue is run at once");
    assert_eq!(lab.cfq.next_timer(), None);
    assert_eq!(lab.dispatched(), Some(8));
}

#[test]
fn slice_idle_zero_waits_for_nobody() {
    let mut lab = Lab::new("slice_idle=0");
    lab.read(1, 0);
    lab.read(2, FAR);
    lab.serve();
    assert_eq!(lab.dispatched(), Some(FAR));
}

#[test]
fn slice_idle_a_process_that_thinks_longer_is_not_waited_for() {
    let mut lab = Lab::new("");
    lab.make_known(1, |nth| nth * 8, ms(12));
    lab.make_known(3, |nth| 50 * FAR + nth * 8, ms(2));
    assert!(!lab.queue(1).idle_window, "12 ms, and 8 would be waited");
    assert!(lab.queue(3).idle_window, "2 ms");
}

#[test]
fn slice_idle_a_process_that_seeks_is_not_waited_for_but_as_the_only_one_of_its_kind() {
    let mut lab = Lab::new("");
    lab.make_known(1, |nth| nth * FAR, ms(1));
    assert!(lab.queue(1).is_seeky());
    assert_eq!(lab.queue(1).kind(), Type::SyncNoIdle);
    lab.read(1, 20 * FAR);
    assert!(lab.cfq.should_idle(lab.sync_queue(1)), "alone in its tree");
    lab.make_known(2, |nth| nth * FAR + 8, ms(1));
    lab.read(2, 30 * FAR);
    assert!(!lab.cfq.should_idle(lab.sync_queue(1)), "another is there");
}

// ---- slices ------------------------------------------------------------------------------

#[test]
fn slices_are_as_long_as_the_level_says() {
    let lab = Lab::new("");
    let slice = |sync, level| lab.cfq.priority_slice(sync, level) / 1_000_000;
    assert_eq!([0, 4, 7].map(|level| slice(true, level)), [180, 100, 40]);
    assert_eq!([0, 4, 7].map(|level| slice(false, level)), [72, 40, 16]);
}

#[test]
fn low_latency_cuts_slices_where_all_together_would_exceed_the_latency_aimed_at() {
    let slice_with = |tunables: &str| {
        let mut lab = Lab::new(tunables);
        for process in 1..=4 {
            lab.read(process, u64::from(process) * FAR);
        }
        for _ in 0..8 {
            lab.cfq.average_busy(group::ROOT, PriorityClass::BestEffort);
        }
        let queue = lab.sync_queue(1);
        lab.cfq.scaled_slice(queue) / 1_000_000
    };
    assert_eq!(slice_with(""), 75, "four of 100 ms in 300 ms");
    assert_eq!(slice_with("low_latency=0"), 100);
}

#[test]
fn a_queue_is_served_until_its_slice_is_used_up() {
    let mut lab = Lab::new("low_latency=0");
    for place in 0..40 {
        lab.read(1, place * 8);
        lab.read(2, FAR + place * 8);
    }
    let served: Vec<_> = (0..40).map(|_| lab.serve().unwrap() >= FAR).collect();
    // A slice begins when its first request completes: 100 ms are 20 requests more.
    assert_eq!(served.iter().position(|&second| second), Some(21));
    assert!(served[21..].iter().all(|&second| second));
}

// ---- classes and preemption --------------------------------------------------------------

#[test]
fn real_time_goes_before_best_effort_and_idle_after_all() {
    let mut lab = Lab::new("slice_idle=0");
    lab.insert(1, Op::Read, 0, class(PriorityClass::Idle));
    lab.insert(2, Op::Read, FAR, level(0));
    lab.insert(3, Op::Read, 2 * FAR, class(PriorityClass::RealTime));
    let order: Vec<_> = (0..3).map(|_| lab.serve().unwrap() / FAR).collect();
    assert_eq!(order, [2, 1, 0]);
}

#[test]
fn preemption_by_real_time_and_not_the_other_way_round() {
    let mut lab = Lab::new("");
    lab.read(1, 0);
    lab.read(1, 8);
    lab.serve();
    let real_time = class(PriorityClass::RealTime);
    assert!(lab.insert(2, Op::Read, FAR, real_time), "it takes the disk");
    assert_eq!(lab.serve(), Some(FAR));
    assert!(!lab.insert(3, Op::Read, 2 * FAR, level(0)));
}

#[test]
fn preemption_of_asynchronous_requests_by_synchronous_ones() {
    let mut lab = Lab::new("");
    lab.write(1, 0);
    lab.write(1, 8);
    lab.serve();
    assert!(lab.read(2, FAR));
    assert_eq!(lab.serve(), Some(FAR));
    lab.pass(ms(8));
    assert!(!lab.write(3, 16), "a write takes nothing from a read");
}

// ---- dispatching -------------------------------------------------------------------------

#[test]
fn fifo_expire_the_oldest_request_goes_first_once_in_a_slice_if_it_waited_too_long() {
    let mut lab = Lab::new("low_latency=0");
    lab.read(1, 10 * FAR);
    lab.now += ms(125);
    for place in [1, 2, 3] {
        lab.read(1, place * 8);
    }
    let order: Vec<_> = (0..2).map(|_| lab.serve().unwrap()).collect();
    assert_eq!(order[0], 10 * FAR, "expired");
    let mut fresh = Lab::new("low_latency=0");
    fresh.read(1, 10 * FAR);
    fresh.now += ms(124);
    for place in [1, 2, 3] {
        fresh.read(1, place * 8);
    }
    assert_eq!(fresh.serve(), Some(8), "not yet: the nearest");
}

#[test]
fn quantum_half_of_it_in_the_drive_while_others_wait_and_all_of_it_early_in_a_slice() {
    let in_drive = |others: bool| {
        let mut lab = Lab::new("slice_idle=0,quantum=4");
        for place in 0..20 {
            lab.read(1, place * 8);
        }
        if others {
            lab.read(2, FAR);
        }
        (0..20).take_while(|_| lab.dispatch().is_some()).count()
    };
    assert_eq!(in_drive(false), 20, "alone: as many as there are");
    // The slice has not begun: it counts as used soon.
    assert_eq!(in_drive(true), 2);
}

// ---- queues ------------------------------------------------------------------------------

#[test]
fn asynchronous_requests_of_one_level_share_a_queue_whoever_they_are_from() {
    let mut lab = Lab::new("");
    lab.write(1, 0);
    lab.write(2, 8);
    lab.insert(3, Op::Write, 16, level(7));
    let queue = |process| {
        let context = lab.cfq.contexts.find(ProcessId(process)).unwrap();
        lab.cfq.contexts[context].async_queue
    };
    assert_eq!(queue(1), queue(2));
    assert_ne!(queue(1), queue(3));
}

#[test]
fn processes_that_read_next_to_one_another_become_one_queue() {
    let mut lab = Lab::new("");
    lab.read(1, 0);
    let first = lab.dispatch().unwrap();
    lab.read(2, 8);
    lab.complete(first);
    assert_eq!(lab.dispatched(), Some(8), "as near as one of its own");
    lab.read(1, 16);
    lab.read(2, 24); // one of them joins the other with its next request
    assert_eq!(lab.sync_queue(1), lab.sync_queue(2));
}

// ---- what is learned ---------------------------------------------------------------------

#[test]
fn the_drive_queues_commands_if_it_had_five_at_a_time_in_fifty_samples() {
    let learned = |in_drive: u64| {
        let mut lab = Lab::new("");
        lab.cfq.rq_queued = 6;
        lab.cfq.rq_in_driver = in_drive;
        (0..51).for_each(|_| lab.cfq.learn_hw_tag());
        lab.cfq.hw_tag
    };
    assert_eq!([4, 5].map(learned), [Some(false), Some(true)]);
    let mut lab = Lab::new("");
    (0..99).for_each(|_| lab.cfq.learn_hw_tag());
    assert_eq!(lab.cfq.hw_tag, None, "too little to do to tell");
}

#[test]
fn groups_share_by_weight() {
    let mut lab = Lab::new("slice_idle=0,low_latency=0");
    lab.cfq.join_group(ProcessId(1), 1, 200);
    lab.cfq.join_group(ProcessId(2), 2, 600);
    for place in 0..4000 {
        lab.read(1, place * 8);
        lab.read(2, 10 * FAR + place * 8);
    }
    let served = (0..4000).map(|_| lab.serve().unwrap() >= 10 * FAR);
    let second = served.filter(|&second| second).count();
    assert!(
        (2800..=3200).contains(&second),
        "{second} of 4000, 3000 are its share"
    );
}
