//! Replayed traces: each access at its time, or after those that its process waited for; none lost,
//! none twice, and what was recorded here comes out the same again.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something is not as it should be"
)]

use std::collections::BTreeMap;

use iosched_sim::block_layer::{MergeLimits, Merging};
use iosched_sim::disk::{self, ModelOptions};
use iosched_sim::request::{IoPriority, Op, ProcessId};
use iosched_sim::scheduler::{Kernel, SchedulerSpec, build};
use iosched_sim::simulate::{self, BlockEvent, Outcome, ProcessOutcome, Setup, Tracer, write_line};
use iosched_sim::trace::kernel::Action;
use iosched_sim::trace::{Merge, Records, Stage};
use iosched_sim::units::{Bytes, Nanos, Sector, Sectors, Time};
use iosched_sim::workload::recorded::{self, Answers, ClosedLoops};
use iosched_sim::workload::replay::{Arrival, Replay, Step};
use iosched_sim::workload::{Access, Job, fio_job};
use proptest::prelude::*;

const DISK: Bytes = Bytes::from_gib(1);

/// Keeps what was submitted, and how much was in flight.
#[derive(Default)]
struct Recorder {
    text: String,
    submitted: Vec<(Time, ProcessId, Sector, Sectors)>,
    completed: u64,
    most_waiting: u64,
    exits: usize,
}

impl Tracer for Recorder {
    fn happened(&mut self, block_event: &BlockEvent) {
        write_line(&mut self.text, Time::ZERO, block_event).unwrap();
        let BlockEvent {
            time,
            process,
            start,
            length,
            ..
        } = *block_event;
        match block_event.action {
            Action::Queued => {
                self.submitted.push((time, process, start, length));
                let waiting = self.submitted.len() as u64 - self.completed;
                self.most_waiting = self.most_waiting.max(waiting);
            }
            Action::Completed => self.completed += 1,
            _ => {}
        }
    }

    fn exited(&mut self, _time: Time, _process: ProcessId, _name: &str) {
        self.exits += 1;
    }
}

fn setup(jobs: Vec<Job>, scheduler: &str, disk: &str) -> Setup {
    let options = ModelOptions {
        size: Some(DISK),
        ..ModelOptions::default()
    };
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    let scheduler = build(&spec, &Kernel::default(), &Vec::new()).unwrap();
    let disk = disk::build(disk, &options).unwrap();
    Setup {
        queue_depth: 1,
        limits: MergeLimits {
            max_sectors: Sectors::new(1024),
            merging: Merging::Full,
        },
        ..Setup::new(scheduler, disk, jobs)
    }
}

fn processes(count: usize) -> Vec<Job> {
    let job = |index| {
        let name = format!("p{index}");
        recorded::job(&name, IoPriority::default(), Nanos::ZERO, 1)
    };
    (0..count).map(job).collect()
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let op = prop::sample::select(vec![Op::Read, Op::Write, Op::Discard]);
    let one = (
        0..3_000_000_u64,
        0..3_usize,
        op,
        0..2_000_000_u64,
        1..200_u64,
        any::<bool>(),
    );
    prop::collection::vec(one, 1..80).prop_map(|all| {
        let mut time = Nanos::ZERO;
        let arrival = |(gap, process, op, start, length, sync)| {
            // Every third comes together with the one before it.
            time += Nanos::new(if gap % 3 == 0 { 0 } else { gap });
            Arrival {
                time,
                process,
                access: Access {
                    op,
                    start: Sector::new(start),
                    length: Sectors::new(length),
                    sync: sync || op == Op::Read,
                },
            }
        };
        all.into_iter().map(arrival).collect()
    })
}

fn accesses(outcome: &Outcome) -> u64 {
    outcome.processes.iter().map(ProcessOutcome::accesses).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn accesses_are_made_at_their_times_and_answered_once(
        arrivals in arrivals(),
        scheduler in prop::sample::select(vec!["noop", "deadline", "cfq"]),
        disk in prop::sample::select(vec!["fixed", "formula", "ssd-sata"]),
    ) {
        let mut recorder = Recorder::default();
        let replay = Replay::Open(Box::new(arrivals.clone().into_iter()));
        let outcome = simulate::replay(setup(processes(3), scheduler, disk), replay, &mut recorder);
        prop_assert_eq!(accesses(&outcome), arrivals.len() as u64);
        prop_assert_eq!(outcome.held_back, Nanos::ZERO);
        prop_assert_eq!(recorder.exits, 3);
        let made: Vec<_> = arrivals
            .iter()
            .map(|arrival| (Time::ZERO + arrival.time, arrival.access.start, arrival.access.length))
            .collect();
        let submitted: Vec<_> = recorder
            .submitted
            .iter()
            .map(|&(time, _, start, length)| (time, start, length))
            .collect();
        prop_assert_eq!(submitted, made);
    }
}

#[test]
fn a_disk_that_cannot_keep_up_holds_the_trace_back() {
    // One access a microsecond, each of which takes a millisecond, and none can be merged.
    let count = 80_000;
    let arrivals = (0..count).map(|index| Arrival {
        time: Nanos::from_micros(index),
        process: usize::try_from(index % 2).unwrap(),
        access: Access {
            op: Op::Read,
            start: Sector::new(index * 7919 % 100_000 * 16),
            length: Sectors::new(8),
            sync: true,
        },
    });
    let mut recorder = Recorder::default();
    let replay = Replay::Open(Box::new(arrivals));
    let outcome = simulate::replay(setup(processes(2), "noop", "fixed"), replay, &mut recorder);
    assert_eq!(accesses(&outcome), count);
    assert_eq!(recorder.most_waiting, 1 << 16, "memory is bounded");
    // All but the last 65 536 had to be answered before the last was made.
    let seconds = outcome.held_back.as_secs_f64();
    let expected = (count - (1 << 16)) as f64 * 1.005e-3;
    assert!((seconds / expected - 1.0).abs() < 0.05, "{seconds} s");
}

/// The closed loops of what was recorded here, whose processes have the numbers 1000, 1001, ….
fn closed_loops(text: &str, count: usize) -> (Vec<Job>, Vec<Vec<Step>>) {
    let mut loops = ClosedLoops::new(Stage::Submitted, Answers::Events);
    let mut steps: BTreeMap<ProcessId, (Time, Vec<Step>)> = BTreeMap::new();
    for record in Merge::new(vec![Records::new(text.as_bytes(), None).unwrap()]) {
        let record = record.unwrap();
        if let Some(step) = loops.step(&record) {
            let of_process = steps.entry(record.process);
            let (_, of_process) = of_process.or_insert((record.time, Vec::new()));
            of_process.push(step);
        }
    }
    assert_eq!(steps.len(), count);
    // Its time zero lies 1000 s after the beginning of our clock.
    let zero = Time::ZERO + Nanos::from_secs(1000);
    let job = |(index, (process, (begins, _))): (usize, (&ProcessId, &(Time, Vec<Step>)))| {
        let name = format!("p{index}");
        let (delay, depth) = (*begins - zero, loops.deepest(*process));
        recorded::job(&name, IoPriority::default(), delay, depth)
    };
    let jobs = steps.iter().enumerate().map(job).collect();
    (jobs, steps.into_values().map(|(_, steps)| steps).collect())
}

fn closed(steps: Vec<Vec<Step>>) -> Replay {
    let boxed =
        |steps: Vec<Step>| Box::new(steps.into_iter()) as Box<dyn Iterator<Item = Step> + Send>;
    Replay::Closed(steps.into_iter().map(boxed).collect())
}

fn replay_closed(jobs: Vec<Job>, steps: Vec<Vec<Step>>, scheduler: &str) -> Recorder {
    let mut recorder = Recorder::default();
    let setup = setup(jobs, scheduler, "formula");
    simulate::replay(setup, closed(steps), &mut recorder);
    recorder
}

#[test]
fn what_was_recorded_here_comes_out_the_same_again() {
    let load = "[global]\nsize=2m\n[a]\nrw=randread\ndirect=1\nioengine=libaio\nthinktime=3000\n[b]\nrw=read\ndirect=1\nioengine=libaio\nbs=64k\nstartdelay=1\n\
                [c]\nrw=randwrite\ndirect=1\nioengine=libaio\nthinktime=150\n";
    for scheduler in ["noop", "deadline", "cfq"] {
        let jobs = fio_job::parse(load, DISK.to_sectors()).unwrap();
        let mut first = Recorder::default();
        simulate::run(setup(jobs, scheduler, "formula"), &mut first);
        let (jobs, steps) = closed_loops(&first.text, 3);
        let second = replay_closed(jobs, steps, scheduler);
        assert_eq!(first.submitted.len(), 512 + 32 + 512);
        assert_eq!(second.submitted, first.submitted, "{scheduler}");
    }
}

#[test]
fn a_process_keeps_as_many_in_flight_as_it_did() {
    let load = "[deep]\nrw=randread\ndirect=1\nioengine=libaio\niodepth=16\nsize=4m\n[shallow]\nrw=randread\ndirect=1\nioengine=libaio\nsize=1m\n";
    let jobs = fio_job::parse(load, DISK.to_sectors()).unwrap();
    let mut first = Recorder::default();
    simulate::run(setup(jobs, "deadline", "formula"), &mut first);
    let (jobs, steps) = closed_loops(&first.text, 2);
    let depths: Vec<_> = jobs.iter().map(|job| job.depth).collect();
    assert_eq!(depths, [16, 1]);
    let second = replay_closed(jobs, steps, "deadline");
    assert_eq!(second.submitted.len(), first.submitted.len());
    let end = |recorder: &Recorder| recorder.submitted.last().unwrap().0.as_secs_f64();
    let (first, second) = (end(&first), end(&second));
    assert!(
        (second / first - 1.0).abs() < 0.02,
        "{first} s, then {second} s"
    );
}
