//! What holds whatever is asked of a served block layer, under every scheduler: each access is answered once,
//! whoever looks and how rarely; and our schedulers, following the recording of what was served, decide as
//! they did there.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use iosched_conform::Report;
use iosched_conform::multi_queue::{Recording, Until, follow};
use iosched_conform::single_queue::Follower;
use iosched_sim::block_layer::MergeLimits;
use iosched_sim::disk::{self, Command, Completion, DiskOp, ModelOptions};
use iosched_sim::request::{IoPriority, PriorityClass, ProcessId};
use iosched_sim::scheduler::{
    self, BlockLayer, Kernel, SchedulerSpec, build, build_followed, schedulers,
};
use iosched_sim::serve::{Access, Asker, Finished, QueueSettings, Served};
use iosched_sim::simulate::{BlockEvent, Tracer, write_line};
use iosched_sim::trace::kernel::Action;
use iosched_sim::units::{Nanos, Sector, Sectors, Time};
use proptest::prelude::*;

/// Keeps a recording that outlives who writes it.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Text>>);

#[derive(Default)]
struct Text {
    events: String,
    exits: String,
    outstanding: usize,
    most_outstanding: usize,
}

impl Tracer for Recorder {
    fn happened(&mut self, block_event: &BlockEvent) {
        let mut text = self.0.lock().unwrap();
        write_line(&mut text.events, Time::ZERO, block_event).unwrap();
        match block_event.action {
            Action::Issued => text.outstanding += 1,
            Action::Completed => text.outstanding -= 1,
            _ => {}
        }
        text.most_outstanding = text.most_outstanding.max(text.outstanding);
    }

    fn exited(&mut self, time: Time, process: ProcessId, _name: &str) {
        let nanos = time.as_nanos();
        let (micros, rest) = (nanos / 1000, nanos % 1000);
        let mut text = self.0.lock().unwrap();
        writeln!(
            text.exits,
            "# exit pid={} time_us={micros}.{rest:03}",
            process.0
        )
        .unwrap();
    }
}

/// Something that comes from above.
#[derive(Debug, Clone, Copy)]
enum Event {
    Access(Access),
    Exit(u32),
}

const PROCESSES: u32 = 4;

/// Of the processes, from 1.
fn priority(process: u32) -> IoPriority {
    let class = match process {
        3 => PriorityClass::RealTime,
        4 => PriorityClass::Idle,
        _ => PriorityClass::BestEffort,
    };
    IoPriority { class, level: 4 }
}

fn access() -> impl Strategy<Value = Access> {
    let op = prop_oneof![
        5 => Just(DiskOp::Read),
        5 => Just(DiskOp::Write),
        1 => Just(DiskOp::Discard),
    ];
    let lengths = prop_oneof![4 => Just(8_u64), 2 => Just(128), 1 => 1..2048_u64];
    let near = prop_oneof![0..64_u64, 0..60_000_u64];
    (op, near, lengths, 1..=PROCESSES, any::<bool>()).prop_map(
        |(op, block, length, process, sync)| Access {
            op,
            start: Sector::new(block * 8),
            length: Sectors::new(length),
            asker: Asker {
                process,
                priority: priority(process),
                sync,
                noidle: false,
                prio: false,
            },
        },
    )
}

/// What comes, each so many nanoseconds after what came before.
fn events(most: usize) -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        30 => access().prop_map(Event::Access),
        1 => (1..=PROCESSES).prop_map(Event::Exit),
    ];
    let pause = prop_oneof![Just(0_u64), 1..300_000_u64, 1..20_000_000_u64];
    prop::collection::vec((pause, event), 1..most)
}

fn kernel() -> Kernel {
    Kernel {
        hz: 250,
        tick_phase: Nanos::from_micros(1234),
        ..Kernel::default()
    }
}

fn settings(queue_depth: usize, nr_requests: Option<usize>) -> QueueSettings {
    QueueSettings {
        queue_depth,
        nr_requests,
        limits: MergeLimits {
            max_sectors: Sectors::new(1024),
            ..MergeLimits::default()
        },
        kernel: kernel(),
    }
}

fn served(
    scheduler: &str,
    disk: &str,
    settings: &QueueSettings,
    recorder: Option<&Recorder>,
) -> Served<usize> {
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    let scheduler = build(&spec, &settings.kernel, &Vec::new()).unwrap();
    let disk = disk::build(disk, &ModelOptions::default()).unwrap();
    let tracer = recorder.map(|recorder| -> Box<dyn Tracer + Send> { Box::new(recorder.clone()) });
    Served::new(scheduler, disk, settings, tracer)
}

/// Serves what comes; who `looks` lets everything happen when it is due, the other only when something comes.
fn serve(mut served: Served<usize>, events: &[(u64, Event)], looks: bool) -> Vec<Finished<usize>> {
    let mut finished = Vec::new();
    let mut at = Time::ZERO;
    for (token, &(pause, event)) in events.iter().enumerate() {
        at += Nanos::new(pause);
        while looks && let Some(next) = served.next_event().filter(|&next| next <= at) {
            served.advance(next, &mut finished);
        }
        match event {
            Event::Access(access) => served.submit(at, &access, token, &mut finished),
            Event::Exit(process) => served.exited(at, process, &mut finished),
        }
    }
    while served.in_flight() > 0 {
        at = served.next_event().unwrap();
        served.advance(at, &mut finished);
    }
    for process in 1..=PROCESSES {
        served.exited(at, process, &mut finished); // a recording tells when processes ended
    }
    finished.extend(served.finish());
    finished
}

/// What a disk of the caller's does with the commands that it has: which of them is done next, how long after
/// the last one, and whether it fails.
type Deed = (prop::sample::Index, u64, bool);

/// An access that came, the commands that it was in, and how it was answered.
#[derive(Debug, Default, Clone, Copy)]
struct Fate {
    failed: bool,
    answer: Option<Result<(), i32>>,
}

/// A disk outside, and what became of the accesses.
struct Outside<'a> {
    served: Served<usize>,
    accesses: Vec<Option<Access>>,
    fates: Vec<Fate>,
    in_disk: Vec<(Command, Vec<usize>)>,
    deeds: std::iter::Cycle<std::slice::Iter<'a, Deed>>,
    depth: usize,
    at: Time,
}

impl Outside<'_> {
    /// The disk takes what is issued; each command is for accesses of its kind, which lie side by side in it.
    fn take(&mut self) {
        while let Some(command) = self.served.take_issued() {
            let tokens: Vec<usize> = self
                .served
                .accesses(command.tag)
                .into_iter()
                .copied()
                .collect();
            if command.op == DiskOp::Flush {
                assert_eq!(tokens, []);
            } else {
                let mut parts: Vec<_> = tokens
                    .iter()
                    .map(|&token| {
                        let access = self.accesses[token].unwrap();
                        assert_eq!(access.op, command.op);
                        let end = (access.start + access.length).min(command.end());
                        (access.start.max(command.start), end)
                    })
                    .collect();
                parts.sort_unstable();
                let end = parts.iter().fold(command.start, |end, part| {
                    assert_eq!(part.0, end, "{command:?} of {parts:?}");
                    part.1
                });
                assert_eq!(end, command.end());
            }
            self.in_disk.push((command, tokens));
            assert!(self.in_disk.len() <= self.depth);
        }
    }

    /// The disk is done with one command.
    fn complete_one(&mut self) {
        let &(which, pause, fails) = self.deeds.next().unwrap();
        let (command, tokens) = self.in_disk.remove(which.index(self.in_disk.len()));
        let started = self.at;
        self.at += Nanos::new(pause);
        for token in tokens {
            self.fates[token].failed |= fails;
        }
        let done = Completion {
            tag: command.tag,
            started,
            time: self.at,
        };
        let mut finished = Vec::new();
        self.served
            .completed(done, fails.then_some(5), &mut finished);
        if command.op == DiskOp::Flush && fails {
            for done in &finished {
                let access = self.accesses[done.token].unwrap();
                self.fates[done.token].failed |= access.op == DiskOp::Flush;
            }
        }
        self.note(&finished);
        self.take();
    }

    fn note(&mut self, finished: &[Finished<usize>]) {
        for done in finished {
            let answer = &mut self.fates[done.token].answer;
            let said = done.error.map_or(Ok(()), Err);
            assert_eq!(answer.replace(said), None, "answered once");
        }
    }

    fn advance(&mut self) {
        let mut finished = Vec::new();
        self.served.advance(self.at, &mut finished);
        self.note(&finished);
        self.take();
    }
}

/// ADIOS decides by times to the nanosecond, which a recording tells in files beside it only.
fn needs_more_than_the_recording(scheduler: &str) -> bool {
    empty_dispatches_change_it(scheduler) || scheduler == "adios"
}

/// How often a scheduler dispatches nothing when asked is not recorded: what that changes cannot be followed exactly.
fn empty_dispatches_change_it(scheduler: &str) -> bool {
    ["cfq", "bfq"].contains(&scheduler)
}

fn names() -> impl Iterator<Item = &'static str> {
    schedulers().map(|info| info.facts.name)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn each_access_is_answered_once_and_as_soon_however_rarely_somebody_looks(
        mut events in events(120),
        flushes in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        depth in 1..8_usize,
        nr_requests in 4..40_usize,
    ) {
        for flush in flushes {
            let place = flush.index(events.len());
            if let (_, Event::Access(access)) = &mut events[place] {
                access.op = DiskOp::Flush;
            }
        }
        let settings = settings(depth, Some(nr_requests));
        for disk in ["formula", "hdd-7200-fifo", "ssd-sata"] {
            for scheduler in names() {
                let often = serve(served(scheduler, disk, &settings, None), &events, true);
                let rarely = serve(served(scheduler, disk, &settings, None), &events, false);
                prop_assert_eq!(&often, &rarely, "{} on {}", scheduler, disk);
                let mut tokens: Vec<_> = often.iter().map(|done| done.token).collect();
                tokens.sort_unstable();
                let asked = events.iter().enumerate();
                let asked = asked.filter(|(_, (_, event))| matches!(event, Event::Access(_)));
                let asked: Vec<_> = asked.map(|(token, _)| token).collect();
                prop_assert_eq!(tokens, asked, "{} on {}", scheduler, disk);
                for done in &often {
                    prop_assert!(done.arrived <= done.started && done.started <= done.completed);
                }
            }
        }
    }

    #[test]
    fn over_a_disk_outside_each_access_is_answered_with_what_became_of_its_commands(
        mut events in events(120),
        flushes in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        deeds in prop::collection::vec(
            (any::<prop::sample::Index>(), 1..9_000_000_u64, prop::bool::weighted(0.1)),
            1..60,
        ),
        depth in 1..33_usize,
    ) {
        for flush in flushes {
            let place = flush.index(events.len());
            if let (_, Event::Access(access)) = &mut events[place] {
                access.op = DiskOp::Flush;
            }
        }
        let settings = settings(depth, None);
        for name in names() {
            let spec = SchedulerSpec::parse(name).unwrap();
            let scheduler = build(&spec, &settings.kernel, &Vec::new()).unwrap();
            let mut outside = Outside {
                served: Served::outside(scheduler, &settings, None),
                accesses: Vec::new(),
                fates: vec![Fate::default(); events.len()],
                in_disk: Vec::new(),
                deeds: deeds.iter().cycle(),
                depth,
                at: Time::ZERO,
            };
            for (token, &(pause, event)) in events.iter().enumerate() {
                outside.at += Nanos::new(pause);
                let at = outside.at;
                let mut finished = Vec::new();
                outside.accesses.push(match event {
                    Event::Access(access) => Some(access),
                    Event::Exit(_) => None,
                });
                match event {
                    Event::Access(access) => outside.served.submit(at, &access, token, &mut finished),
                    Event::Exit(process) => outside.served.exited(at, process, &mut finished),
                }
                outside.note(&finished);
                outside.take();
                if outside.in_disk.len() > token % depth {
                    outside.complete_one();
                }
            }
            while outside.served.in_flight() > 0 {
                if outside.in_disk.is_empty() {
                    outside.at = outside.served.next_event().unwrap().max(outside.at);
                    outside.advance();
                } else {
                    outside.complete_one();
                }
            }
            for (access, fate) in outside.accesses.iter().zip(&outside.fates) {
                let expected = access.map(|_| if fate.failed { Err(5) } else { Ok(()) });
                prop_assert_eq!(fate.answer, expected, "{:?} under {}", access, name);
            }
        }
    }

    #[test]
    fn a_scheduler_that_follows_the_recording_of_what_was_served_decides_as_it_did(
        mut events in events(120),
        depth in 1..8_usize,
    ) {
        for (_, event) in &mut events {
            if let Event::Access(access) = event {
                access.asker.priority = IoPriority::default(); // a place may be another's after an exit
            }
        }
        let settings = settings(depth, None);
        for scheduler in names().filter(|name| !needs_more_than_the_recording(name)) {
            let recorder = Recorder::default();
            serve(served(scheduler, "formula", &settings, Some(&recorder)), &events, true);
            let text = recorder.0.lock().unwrap();
            prop_assert!(text.most_outstanding <= depth + 1);
            let report = followed(scheduler, &settings, &text);
            let Report { agreed, decisions, .. } = report;
            prop_assert_eq!(agreed, decisions, "{}: {:?}", scheduler, report.first_disagreements);
            prop_assert_eq!((report.eager, report.unexplained), (0, 0), "{}", scheduler);
        }
    }
}

/// What comes of it when the scheduler follows what was served.
fn followed(scheduler: &str, settings: &QueueSettings, text: &Text) -> Report {
    let info = scheduler::info(scheduler).unwrap();
    let multi_queue = info.facts.block_layer == BlockLayer::MultiQueue;
    let layer = if multi_queue { "blk-mq, " } else { "" };
    let depth = settings.queue_depth;
    let mut head = format!(
        "# simulated: {layer}scheduler={scheduler} disk=formula queue_depth={depth} seed=0 attached_us=0 look_ahead=0 tick_phase_us=1234.000\n"
    );
    for place in 1..=64 {
        let _ = writeln!(
            head,
            "# worker name=w pid={} ioprio=2/4 buf=0",
            1000 + place
        );
    }
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    let kernel = Kernel {
        monotonic_zero: Recording::default().monotonic_zero(),
        ..kernel()
    };
    let scheduler = build_followed(&spec, &kernel, &Vec::new()).unwrap();
    let lines = [&head, &text.exits, &text.events];
    let mut lines = lines.into_iter().flat_map(|text| text.lines());
    if multi_queue {
        let mut recording = Recording::default();
        lines.try_for_each(|line| recording.line(line)).unwrap();
        follow(
            Until::End,
            &recording,
            scheduler,
            &kernel,
            recording.device(),
        )
        .0
    } else {
        let mut follower = Follower::new(scheduler, settings.limits, depth);
        lines.try_for_each(|line| follower.line(line)).unwrap();
        follower.finish().0
    }
}
