//! Both block layers driven by hand: what goes in, and what comes out.

use std::fmt::Write;

use super::multi_queue::{self, Attachment, Depth, MultiQueue};
use super::single_queue::{self, SingleQueue};
use super::*;
use crate::request::IoPriority;
use crate::request::Requests;
use crate::scheduler::{
    self, Elevator, Kernel, KernelVersion, Rule, SchedulerInfo, SchedulerSpec, TagLimit, build,
};
use iosched_facts::kernel::rules::RULES;

const NOW: Time = Time::ZERO;

/// What came out.
#[derive(Default)]
struct OutputLog {
    /// Where the commands begin that the device was given; flushes at `u64::MAX`.
    issued: Vec<u64>,
    tags: Vec<u64>,
    answered: Vec<usize>,
    woken: Vec<(Time, usize)>,
    /// Actions and sectors, as in a recording.
    events: String,
}

impl Outputs for OutputLog {
    fn is_traced(&self) -> bool {
        true
    }

    fn trace(&mut self, _now: Time, action: Action, subject: Subject<'_>, _process: ProcessId) {
        let Subject::Request(request) = subject else {
            return;
        };
        let action = match action {
            Action::Dispatched => 'X',
            Action::Issued => 'D',
            _ => return,
        };
        write!(self.events, "{action}{} ", request.start.as_u64()).unwrap();
    }

    fn entered(&mut self, _now: Time, _token: Token) {}

    fn took_up(&mut self, _request: &Request) {}

    fn issue(&mut self, _now: Time, command: Command) {
        let is_flush = command.op == DiskOp::Flush;
        let start = command.start.as_u64();
        self.issued.push(if is_flush { u64::MAX } else { start });
        self.tags.push(command.tag);
    }

    fn answered(&mut self, _now: Time, Token(token): Token, _issued: Time) {
        self.answered.push(token);
    }

    fn wake(&mut self, at: Time, process: usize) {
        self.woken.push((at, process));
    }

    fn call_worker(&mut self, _at: Time) {}
}

/// A block layer with what came out of it.
struct Driven<Q> {
    queue: Q,
    told: OutputLog,
}

impl<Q: RequestQueue> Driven<Q> {
    fn new(queue: Q) -> Driven<Q> {
        let told = OutputLog::default();
        Driven { queue, told }
    }

    /// The process submits a bio of eight sectors, which it knows by where that begins.
    fn submits(&mut self, process: usize, op: Op, start: u64, fua: bool) {
        self.submits_long(process, op, (start, 8), fua);
    }

    fn submits_long(&mut self, process: usize, op: Op, (start, length): (u64, u64), fua: bool) {
        let bio = Bio {
            op,
            start: Sector::new(start),
            length: Sectors::new(length),
            sync: true,
            sync_flag: true,
            noidle: false,
            prio: false,
            fua,
            process: ProcessId::of_index(process),
            priority: IoPriority::default(),
        };
        let token = Token(usize::try_from(start).unwrap());
        self.queue.submit(&mut self.told, NOW, &bio, token);
    }

    fn reads(&mut self, process: usize, starts: &[u64]) {
        for &start in starts {
            self.submits(process, Op::Read, start, false);
        }
    }

    /// The same, as one plug.
    fn reads_plugged(&mut self, process: usize, starts: &[u64]) {
        self.queue.plug(process);
        self.reads(process, starts);
        self.queue.unplug(&mut self.told, NOW, process);
    }

    /// The device is done with the oldest command that it has.
    fn completes(&mut self) {
        let tag = self.told.tags.remove(0);
        self.queue.completed(&mut self.told, NOW, tag);
    }
}

/// A scheduler, and the kernel whose rules it and the block layer follow.
fn elevator_and_kernel(scheduler: &str) -> (Box<dyn Elevator>, Kernel) {
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    let kernel = spec.kernel(&Kernel::default());
    (build(&spec, &kernel, &Vec::new()).unwrap(), kernel)
}

fn elevator(scheduler: &str) -> Box<dyn Elevator> {
    elevator_and_kernel(scheduler).0
}

fn multi_queue(scheduler: &str, attachment: Attachment, commands: usize) -> Driven<MultiQueue> {
    with_requests(scheduler, attachment, commands, 64)
}

fn with_requests(
    scheduler: &str,
    attachment: Attachment,
    commands: usize,
    nr_requests: usize,
) -> Driven<MultiQueue> {
    driven_by(
        elevator_and_kernel(scheduler),
        attachment,
        commands,
        nr_requests,
        Delays::RECORDED,
    )
}

fn driven_by(
    (elevator, kernel): (Box<dyn Elevator>, Kernel),
    attachment: Attachment,
    commands: usize,
    nr_requests: usize,
    delays: Delays,
) -> Driven<MultiQueue> {
    let settings = multi_queue::MultiQueueParameters {
        limits: MergeLimits::default(),
        depth: Depth {
            attachment,
            commands,
        },
        device_limit: None,
        nr_requests: Some(nr_requests),
        hardware_queues: 1,
        cpus: 1,
        processes: 2,
        kernel,
        wbt_lat: None,
        delays,
        seed: 0,
    };
    Driven::new(MultiQueue::new(elevator, &settings))
}

fn single_queue(scheduler: &str, queue_depth: usize) -> Driven<SingleQueue> {
    let settings = single_queue::SingleQueueParameters {
        limits: MergeLimits::default(),
        queue_depth,
        device_limit: None,
        nr_requests: 128,
        processes: 2,
        delays: Delays::RECORDED,
    };
    Driven::new(SingleQueue::new(elevator(scheduler), &settings))
}

#[test]
fn what_is_chosen_ahead_of_the_device_is_not_overtaken() {
    let mut driven = multi_queue("mq-deadline", Attachment::TagOnly, 1);
    driven.reads(0, &[100, 300, 500]);
    assert_eq!(driven.told.events, "X100 D100 X300 ");
    driven.reads(0, &[200]);
    driven.completes();
    assert_eq!(driven.told.events, "X100 D100 X300 D300 X500 ");
}

#[test]
fn with_a_budget_the_choice_waits_for_a_slot() {
    let mut driven = multi_queue("mq-deadline", Attachment::Budget, 1);
    driven.reads(0, &[100, 300, 500]);
    assert_eq!(driven.told.events, "X100 D100 ");
    driven.reads(0, &[200]);
    driven.completes();
    assert_eq!(driven.told.events, "X100 D100 X200 D200 ");
}

#[test]
fn without_a_scheduler_a_plug_is_issued_from_its_end() {
    let mut none = multi_queue("none", Attachment::TagOnly, 8);
    none.reads_plugged(0, &[100, 300, 500]);
    assert_eq!(none.told.issued, [500, 300, 100]);
    let mut with_one = multi_queue("kyber", Attachment::TagOnly, 8);
    with_one.reads_plugged(0, &[300, 100, 500]);
    assert_eq!(with_one.told.issued, [300, 100, 500]);
}

#[test]
fn today_only_the_last_request_of_a_plug_takes_a_bio_and_once_any_did() {
    let commands = |issued: &[u64]| issued.len();
    let mut today = multi_queue("mq-deadline", Attachment::TagOnly, 8);
    today.reads_plugged(0, &[100, 300, 308]);
    assert_eq!(commands(&today.told.issued), 2, "300 and 308 are one");
    let mut today = multi_queue("none", Attachment::TagOnly, 8);
    today.reads_plugged(0, &[100, 300, 108]);
    assert_eq!(commands(&today.told.issued), 3);
    let mut once = single_queue("noop", 8);
    once.reads_plugged(0, &[100, 300, 108]);
    assert_eq!(commands(&once.told.issued), 2);
}

/// In the order of arrival. While it has more than one request, process 1 may have the first tag alone.
#[derive(Debug, Default)]
struct Jealous {
    waiting: Vec<RequestId>,
    present: usize,
}

impl Elevator for Jealous {
    fn info(&self) -> &'static SchedulerInfo {
        scheduler::info("mq-deadline").unwrap()
    }

    fn limit_depth(&self, process: ProcessId, _: Op, _: bool, _: u32, _: u32) -> Option<TagLimit> {
        let is_limited = process == ProcessId::of_index(1) && self.present > 1;
        is_limited.then_some(TagLimit::InAll(1))
    }

    fn requests_merged(&mut self, _: Time, _: &Requests, _: RequestId, _: RequestId) {}

    fn insert(&mut self, _: Time, _: &Requests, id: RequestId) -> bool {
        self.waiting.push(id);
        self.present += 1;
        false
    }

    fn has_work(&self, _: usize) -> bool {
        !self.waiting.is_empty()
    }

    fn dispatch(&mut self, _: Time, _: &Requests, _: usize) -> Option<RequestId> {
        Some(self.waiting.remove(0))
    }

    fn completed(&mut self, _: Time, _: &Requests, _: RequestId) {
        self.present -= 1;
    }
}

#[test]
fn who_sleeps_for_a_tag_keeps_the_limit_that_it_fell_asleep_with() {
    let jealous = (Box::<Jealous>::default() as _, Kernel::default());
    let mut driven = driven_by(jealous, Attachment::TagOnly, 8, 64, Delays::RECORDED);
    driven.reads(0, &[100, 300]);
    driven.reads(1, &[500]);
    assert!(driven.queue.is_blocked(1), "the first tag is taken");
    for (oldest, blocked) in [(1, true), (0, false)] {
        let tag = driven.told.tags.remove(oldest);
        driven.queue.completed(&mut driven.told, NOW, tag);
        let (at, process) = driven.told.woken.pop().unwrap();
        driven.queue.resume(&mut driven.told, at, process);
        assert_eq!(driven.queue.is_blocked(1), blocked);
    }
    assert_eq!(driven.told.issued, [100, 300, 500]);
}

/// A device of depth 2 and a worker that takes 15 µs to come; three requests, of which the second one completes.
fn after_a_completion() -> Driven<MultiQueue> {
    let quantiles = [Nanos::from_micros(15); WorkerDelay::PERCENT.len()];
    let delays = Delays {
        queue_run: WorkerDelay { quantiles },
        ..Delays::RECORDED
    };
    let jealous = (Box::<Jealous>::default() as _, Kernel::default());
    let mut driven = driven_by(jealous, Attachment::TagOnly, 2, 64, delays);
    driven.reads(0, &[100, 300, 500]);
    let tag = driven.told.tags.remove(1);
    driven.queue.completed(&mut driven.told, NOW, tag);
    assert_eq!(driven.told.issued, [100, 300]);
    driven
}

#[test]
fn a_worker_runs_the_queue_a_while_after_a_completion() {
    let mut driven = after_a_completion();
    let run = driven.queue.next_timer().unwrap();
    assert_eq!(run, NOW + Nanos::from_micros(15));
    driven.queue.timer(&mut driven.told, run);
    assert_eq!(driven.told.issued, [100, 300, 500]);
}

#[test]
fn a_process_that_finds_no_tag_runs_the_queue_before_the_worker_does() {
    let mut driven = after_a_completion();
    driven.reads(1, &[700]);
    assert!(driven.queue.is_blocked(1));
    assert_eq!(driven.told.issued, [100, 300, 500]);
}

#[test]
fn who_finds_no_tag_sleeps_until_one_is_free() {
    let mut driven = with_requests("mq-deadline", Attachment::TagOnly, 4, 1);
    driven.reads(0, &[100]);
    driven.reads(1, &[300]);
    assert!(driven.queue.is_blocked(1) && !driven.queue.is_blocked(0));
    driven.completes();
    let (at, process) = driven.told.woken[0];
    assert_eq!((at, process), (NOW + Delays::RECORDED.tag_wakeup, 1));
    driven.queue.resume(&mut driven.told, at, process);
    assert_eq!(driven.told.issued, [100, 300]);
    assert_eq!(driven.told.answered, [100]);
}

#[test]
fn a_write_that_is_to_be_on_the_medium_is_answered_after_a_flush() {
    fn goes_past_the_scheduler(mut driven: Driven<impl RequestQueue>) {
        driven.submits(0, Op::Write, 100, true);
        driven.completes();
        assert_eq!(driven.told.issued, [100, u64::MAX]);
        assert_eq!(driven.told.answered, [0; 0]);
        driven.completes();
        assert_eq!(driven.told.answered, [100]);
    }
    goes_past_the_scheduler(multi_queue("mq-deadline", Attachment::Budget, 4));
    goes_past_the_scheduler(single_queue("cfq", 4));
}

#[test]
fn the_single_queue_driver_looks_at_one_request_more_than_the_device_takes() {
    let mut driven = single_queue("deadline", 2);
    driven.reads(0, &[100, 300, 500, 700]);
    assert_eq!(driven.told.events, "D100 D300 D500 ");
    assert_eq!(driven.told.issued, [100, 300]);
    driven.reads(0, &[400]);
    driven.completes();
    assert_eq!(driven.told.issued, [100, 300, 500], "it is not overtaken");
}

#[test]
fn a_single_queue_plug_enters_the_scheduler_in_order_of_position() {
    let mut driven = single_queue("noop", 8);
    driven.reads_plugged(0, &[500, 100, 300]);
    assert_eq!(driven.told.issued, [100, 300, 500]);
}

// ---- rules by version --------------------------------------------------------------------

/// What is issued of a plug, in order; the device takes eight commands.
fn issued_of_plug(scheduler: &str, bios: &[(u64, u64)]) -> Vec<u64> {
    let mut driven = multi_queue(scheduler, Attachment::TagOnly, 8);
    driven.queue.plug(0);
    for &bio in bios {
        driven.submits_long(0, Op::Read, bio, false);
    }
    let early = driven.told.issued.len() as u64;
    driven.queue.unplug(&mut driven.told, NOW, 0);
    [&[early][..], driven.told.issued.as_slice()].concat()
}

/// Writes that get one of 256 tags while none completes.
fn writes_admitted(scheduler: &str) -> u64 {
    let mut driven = with_requests(scheduler, Attachment::TagOnly, 1, 256);
    let admitted = (1..=256).take_while(|nth| {
        driven.submits(0, Op::Write, 1000 * nth, false);
        !driven.queue.is_blocked(0)
    });
    admitted.count() as u64
}

/// Something that a kernel does otherwise since it follows the rule; nothing of rules that are noticed by tests elsewhere or
/// left out here.
fn outcome(rule: Rule, version: KernelVersion) -> Option<Vec<u64>> {
    let of = |scheduler: &str| format!("{scheduler}kernel={version}");
    let is_built = |scheduler: &str| {
        let spec = SchedulerSpec::parse(&of(scheduler)).unwrap();
        vec![u64::from(
            build(&spec, &Kernel::default(), &Vec::new()).is_ok(),
        )]
    };
    let kernel = Kernel {
        version,
        ..Kernel::default()
    };
    Some(match rule {
        Rule::KyberByHistograms => is_built("kyber:"),
        Rule::BfqStableMerges => is_built("bfq:"),
        Rule::DeadlinePriorities => is_built("mq-deadline:"),
        Rule::DeadlineByPosition => {
            let mut driven = multi_queue(&of("mq-deadline:"), Attachment::Budget, 1);
            driven.reads(0, &[100, 300]);
            driven.reads(0, &[200]);
            driven.completes();
            driven.told.issued
        }
        Rule::PlugInOrder => [
            issued_of_plug(&of("none:"), &[(100, 8), (300, 8), (500, 8)]),
            issued_of_plug(&of("none:"), &[(100, 8), (300, 512), (9000, 8)]),
            issued_of_plug(&of("none:"), &[(300, 512), (9000, 8)]),
        ]
        .concat(),
        Rule::PlugMergesOldest | Rule::PlugMergesNewest => {
            issued_of_plug(&of("none:"), &[(100, 8), (300, 8), (308, 8), (108, 8)])
        }
        Rule::LimitInAll => vec![writes_admitted(&of("mq-deadline:async_depth=10,"))],
        Rule::KyberLimitsSyncWrites => vec![writes_admitted(&of("kyber:"))],
        Rule::QueueAsyncDepth => {
            let bfq = elevator(&of("bfq:"));
            let limit = bfq.limit_depth(ProcessId(1), Op::Write, false, 10, 2);
            vec![u64::from(limit == Some(TagLimit::InAll(5)))]
        }
        Rule::DeadlineWakesBatches => {
            vec![elevator(&of("mq-deadline:")).min_shallow_depth(64).into()]
        }
        Rule::LargerRequests => vec![MergeLimits::usual_max(&kernel).as_u64()],
        // Noticed by tests of hw_queue, of bfq, of zones and of conform.
        Rule::BioInPlug
        | Rule::BfqActuators
        | Rule::BfqDropsWaker
        | Rule::ZonesAreLocked
        | Rule::ZonesOrderedBelow
        | Rule::FreezeBesideZoneWrites
        | Rule::TicksAligned
        // Left out, as their rows say, or for whoever writes to nr_requests.
        | Rule::StartTimeOfAccounting
        | Rule::DeadlineOneFifo
        | Rule::DeadlineOldDepth
        | Rule::DeadlineNewDepth => return None,
    })
}

#[test]
fn each_rule_makes_a_difference_from_the_version_on_that_its_row_names() {
    let versions = [
        "4.15", "4.19", "5.12", "5.15", "6.2", "6.3", "6.4", "6.9", "6.11", "6.13", "6.16", "6.17",
        "6.19",
    ];
    for row in &RULES {
        let versions = versions.map(|version| KernelVersion::parse(version).unwrap());
        let before = versions
            .into_iter()
            .rfind(|&version| !row.rule.holds(version));
        let then = outcome(row.rule, before.unwrap());
        let since = outcome(row.rule, row.rule.first());
        assert!(then.is_none() || then != since, "{row:?}: {since:?}");
    }
}

#[test]
fn plugs_and_limits_are_those_of_the_kernel() {
    let outcome = |rule, version| outcome(rule, KernelVersion::parse(version).unwrap()).unwrap();
    let plugs = |version| outcome(Rule::PlugInOrder, version);
    // Each time: how many were issued early, and all. A long request lets the plug go before the next one only if it is the
    // last, or since 6.14 the first.
    let then = [0, 500, 300, 100, 2, 300, 100, 9000, 1, 300, 9000];
    assert_eq!(plugs("6.12"), then);
    let since = [0, 100, 300, 500, 0, 100, 300, 9000, 1, 300, 9000];
    assert_eq!(plugs("7.1"), since);
    for (version, admitted) in [("6.12", 12), ("6.12.43", 10), ("7.1", 10)] {
        assert_eq!(outcome(Rule::LimitInAll, version), [admitted], "{version}");
    }
    for (version, admitted) in [
        ("6.18.2", 256),
        ("6.19", 256),
        ("6.18.35", 192),
        ("7.1", 192),
    ] {
        let found = outcome(Rule::KyberLimitsSyncWrites, version);
        assert_eq!(found, [admitted], "{version}");
    }
}
