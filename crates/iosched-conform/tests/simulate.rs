//! What holds for every load, scheduler and disk: nothing is lost, nothing happens twice, the same
//! seed gives the same events, and what our simulation does is what our schedulers decide when
//! they follow its recording.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something is not as it should be"
)]

use std::fmt::Write;

use iosched_conform::Report;
use iosched_conform::single_queue::Follower;
use iosched_sim::block_layer::{MergeLimits, Merging};
use iosched_sim::disk::{self, ModelOptions};
use iosched_sim::request::{IoPriority, PriorityClass, ProcessId};
use iosched_sim::scheduler::{Kernel, SchedulerSpec, build, build_followed};
use iosched_sim::simulate::{
    BlockEvent, Outcome, ProcessOutcome, Setup, Tracer, Writeback, run, write_head, write_line,
};
use iosched_sim::trace::kernel::Action;
use iosched_sim::units::{Bytes, Nanos, Sector, Sectors, Time};
use iosched_sim::workload::{
    Cgroup, Distribution, Job, Mix, Pattern, Rate, Sizes, Syncing, Think, fio_job,
};
use proptest::prelude::*;

const DISK: Bytes = Bytes::from_mib(64);
const MAX_SECTORS: Sectors = Sectors::new(256);

/// Keeps a recording, and counts.
#[derive(Default)]
struct Recorder {
    head: String,
    text: String,
    exits: String,
    queued: u64,
    queued_sectors: u64,
    completed_sectors: u64,
    outstanding: usize,
    most_outstanding: usize,
}

impl Tracer for Recorder {
    fn happened(&mut self, block_event: &BlockEvent) {
        write_line(&mut self.text, Time::ZERO, block_event).unwrap();
        match block_event.action {
            Action::Queued => {
                self.queued += 1;
                self.queued_sectors += block_event.length.as_u64();
            }
            Action::Issued => {
                self.outstanding += 1;
                self.most_outstanding = self.most_outstanding.max(self.outstanding);
            }
            Action::Requeued => self.outstanding -= 1,
            Action::Completed => {
                self.outstanding -= 1;
                self.completed_sectors += block_event.length.as_u64();
            }
            _ => {}
        }
    }

    fn exited(&mut self, time: Time, process: ProcessId, _name: &str) {
        let nanos = time.as_nanos();
        let (micros, rest) = (nanos / 1000, nanos % 1000);
        writeln!(
            self.exits,
            "# exit pid={} time_us={micros}.{rest:03}",
            process.0
        )
        .unwrap();
    }
}

/// A run that ends when its jobs have done their amount.
fn simulate(
    jobs: &[Job],
    scheduler: &str,
    disk: &str,
    (queue_depth, device_limit): (usize, Option<usize>),
    nr_requests: usize,
    tracer: &mut Recorder,
) -> Outcome {
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    let size = (disk != "null").then_some(DISK);
    let options = ModelOptions {
        size,
        ..ModelOptions::default()
    };
    let built = build(&spec, &Kernel::default(), &Vec::new()).unwrap();
    let setup = Setup {
        queue_depth,
        device_limit,
        nr_requests,
        limits: MergeLimits {
            max_sectors: MAX_SECTORS,
            merging: Merging::Full,
        },
        volatile_cache: disk == "hdd-7200-fifo",
        writeback: Writeback {
            memory: Bytes::from_mib(8), // so that writers have to wait
            ..Writeback::default()
        },
        seed: 7,
        until: Nanos::from_secs(100_000),
        ..Setup::new(built, disk::build(disk, &options).unwrap(), jobs.to_vec())
    };
    write_head(&mut tracer.head, &setup, (scheduler, disk)).unwrap();
    run(setup, tracer)
}

fn pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        Just(Pattern::Sequential { skip: 0 }),
        Just(Pattern::Sequential { skip: 24 }),
        Just(Pattern::EVEN),
        Just(Pattern::Random {
            distribution: Distribution::Zipf { theta: 1.1 },
            percent: 80,
            run: 1,
        }),
    ]
}

/// Direct reads and writes, as many at a time as may be.
fn direct_job() -> impl Strategy<Value = Job> {
    let class = prop::sample::select(vec![
        PriorityClass::RealTime,
        PriorityClass::BestEffort,
        PriorityClass::Idle,
    ]);
    let read_percent = prop_oneof![Just(0_u8), Just(100), 0..=100_u8];
    let size = prop::sample::select(vec![1_u64, 8, 64, 500]);
    let start = prop::sample::select(vec![0_u64, 0, 4096, 60_000]);
    let rate = prop::option::of((50..500_u64).prop_map(Rate::Accesses));
    let think = prop::option::of((1..3_u64, 1..4_u64, any::<bool>()));
    (
        (pattern(), class, read_percent, size.clone(), size),
        (start, 1..40_usize, 1..20_usize),
        (think, rate, any::<bool>(), 0..2_u64),
    )
        .prop_map(
            |((pattern, class, read_percent, read, write), (start, depth, batch), pace)| {
                let (think, rate, poisson, delay) = pace;
                Job {
                    mix: Mix { read_percent },
                    pattern,
                    read_sizes: Sizes::one(Sectors::new(read)),
                    write_sizes: Sizes::one(Sectors::new(write)),
                    start: Sector::new(start),
                    span: Sectors::new(20_000),
                    depth,
                    batch,
                    think: think.map(|(millis, every, counts_submitted)| Think {
                        time: Nanos::from_millis(millis),
                        every,
                        counts_submitted,
                    }),
                    rates: [rate; 2],
                    poisson,
                    priority: IoPriority { class, level: 4 },
                    delay: Nanos::from_millis(delay),
                    amount: Some(Bytes::new(60 * 512 * read.min(write))),
                    ..Job::default()
                }
            },
        )
}

/// Jobs that sync, write through the page cache and are in control groups besides.
fn job() -> impl Strategy<Value = Job> {
    let every = prop::option::of(1..20_u64);
    let sync = (prop::bool::weighted(0.1), every, any::<bool>());
    let cgroup = prop::option::of((0..2_u32, 10..1000_u16));
    (direct_job(), sync, prop::bool::weighted(0.3), cgroup).prop_map(
        |(job, (each_write, every, at_end), buffered, cgroup)| Job {
            sync: Syncing {
                each_write,
                every,
                at_end,
                ..Syncing::default()
            },
            buffered,
            mix: if buffered {
                Mix { read_percent: 0 }
            } else {
                job.mix
            },
            depth: if buffered { 1 } else { job.depth },
            cgroup: cgroup.map(|(name, weight)| Cgroup {
                name: name.to_string(),
                weight,
            }),
            ..job
        },
    )
}

/// Schedulers with tunables at their ends.
const SCHEDULERS: [&str; 12] = [
    "noop",
    "deadline",
    "deadline:fifo_batch=0",
    "deadline:read_expire=0,write_expire=0",
    "deadline:writes_starved=-5,front_merges=0",
    "cfq",
    "cfq:slice_idle=0",
    "cfq:quantum=1,slice_sync=1,slice_async=1",
    "cfq:low_latency=0,slice_idle=500",
    "cfq:group_idle=8,slice_idle=0",
    "cfq:target_latency=1,slice_sync=4294967295",
    "cfq:back_seek_max=0,back_seek_penalty=4294967295,fifo_expire_sync=1",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_nothing_happens_twice(
        jobs in prop::collection::vec(job(), 1..5),
        scheduler in prop::sample::select(SCHEDULERS.to_vec()),
        disk in prop::sample::select(vec!["fixed", "formula", "hdd-7200-fifo", "ssd-sata"]),
        queue_depth in 1..6_usize,
        device_limit in prop::sample::select(vec![None, None, Some(1), Some(3)]),
        nr_requests in prop::sample::select(vec![4_usize, 128]),
    ) {
        let mut recorder = Recorder::default();
        let depth = (queue_depth, device_limit);
        let outcome = simulate(&jobs, scheduler, disk, depth, nr_requests, &mut recorder);
        prop_assert_eq!(recorder.outstanding, 0);
        prop_assert_eq!(recorder.completed_sectors, recorder.queued_sectors);
        prop_assert!(recorder.most_outstanding <= queue_depth + 1);
        let bytes: Bytes = outcome.processes.iter().map(ProcessOutcome::bytes).sum();
        if jobs.iter().all(|job| !job.buffered) {
            prop_assert_eq!(bytes.to_sectors().as_u64(), recorder.queued_sectors);
        }
        for (process, job) in outcome.processes.iter().zip(&jobs) {
            prop_assert!(process.bytes() >= job.amount.unwrap());
            prop_assert_eq!(process.latencies().total.count(), process.accesses());
            let syncs = process.syncs.total.count();
            let writes = process.write.latencies.total.count();
            let due = job.sync.every.map_or(0, |every| writes / every);
            let due = if job.sync.each_write { writes } else { due };
            let last = u64::from(job.sync.at_end);
            prop_assert_eq!(syncs, due + last, "{} writes, {:?}", writes, job.sync);
        }
    }

    #[test]
    fn what_was_synced_is_on_the_disk(
        job in job(),
        scheduler in prop::sample::select(SCHEDULERS.to_vec()),
        disk in prop::sample::select(vec!["formula", "hdd-7200-fifo"]),
    ) {
        let job = Job {
            mix: Mix { read_percent: 0 },
            pattern: Pattern::Sequential { skip: 0 },
            write_sizes: Sizes::one(Sectors::new(64)),
            amount: Some(Bytes::from_mib(2)), // less than its part of the disk: every page once
            start: Sector::ZERO,
            buffered: true,
            depth: 1,
            sync: Syncing { at_end: true, ..job.sync },
            ..job
        };
        let mut recorder = Recorder::default();
        simulate(&[job], scheduler, disk, (4, None), 128, &mut recorder);
        prop_assert_eq!(recorder.completed_sectors, Bytes::from_mib(2).to_sectors().as_u64());
    }

    #[test]
    fn the_same_seed_gives_the_same_events(
        jobs in prop::collection::vec(job(), 1..4),
        scheduler in prop::sample::select(SCHEDULERS.to_vec()),
        disk in prop::sample::select(vec!["formula", "hdd-7200-fifo", "ssd-sata"]),
    ) {
        let (mut one, mut other) = (Recorder::default(), Recorder::default());
        simulate(&jobs, scheduler, disk, (2, None), 128, &mut one);
        simulate(&jobs, scheduler, disk, (2, None), 128, &mut other);
        prop_assert!(one.text == other.text);
    }

    #[test]
    fn a_scheduler_that_follows_the_recording_of_a_run_decides_as_in_the_run(
        jobs in prop::collection::vec(direct_job(), 1..5),
        scheduler in prop::sample::select(vec!["noop", "deadline", "deadline:fifo_batch=3","cfq","cfq:slice_idle=0","cfq:low_latency=0,quantum=2"]),
        queue_depth in 1..5_usize,
    ) {
        let report = followed(&jobs, scheduler, queue_depth);
        prop_assert!(report.decisions > 0);
        prop_assert_eq!(report.agreed, report.decisions, "{:?}", report.first_disagreements);
        prop_assert_eq!((report.eager, report.merge_mismatches, report.unexplained), (0, 0, 0));
    }
}

/// What comes of it when a scheduler follows the recording of a run under it.
fn followed(jobs: &[Job], scheduler: &str, queue_depth: usize) -> Report {
    let mut recorder = Recorder::default();
    simulate(
        jobs,
        scheduler,
        "formula",
        (queue_depth, None),
        128,
        &mut recorder,
    );
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    let scheduler = build_followed(&spec, &Kernel::default(), &Vec::new()).unwrap();
    let limits = MergeLimits {
        max_sectors: MAX_SECTORS,
        merging: Merging::Full,
    };
    let mut follower = Follower::new(scheduler, limits, queue_depth);
    let Recorder {
        head, exits, text, ..
    } = &recorder;
    for line in [head, exits, text]
        .into_iter()
        .flat_map(|text| text.lines())
    {
        follower.line(line).unwrap();
    }
    follower.finish().0
}

/// Throughput of each process over ten seconds on `formula`, and the longest latency of each.
fn shares(load: &str, scheduler: &str) -> Vec<(f64, Nanos)> {
    let model = disk::build("formula", &ModelOptions::default()).unwrap();
    let jobs = fio_job::parse(load, model.capacity()).unwrap();
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    let scheduler = build(&spec, &Kernel::default(), &Vec::new()).unwrap();
    let setup = Setup {
        queue_depth: 1,
        seed: 1,
        until: Nanos::from_secs(10),
        ..Setup::new(scheduler, model, jobs)
    };
    let outcome = run(setup, &mut ());
    let share = |process: &ProcessOutcome| {
        (
            process.bytes().as_u64() as f64 / 1e7,
            process.latencies().total.max(),
        )
    };
    outcome.processes.iter().map(share).collect()
}

const TWO_READERS: &str = "[global]\nrw=read\ndirect=1\nioengine=libaio\nbs=64k\ntime_based\n[a]\nsize=4g\n[b]\noffset=8g\n";

#[test]
fn two_sequential_readers_stream_under_cfq_and_fight_under_the_others() {
    let total = |scheduler| {
        shares(TWO_READERS, scheduler)
            .iter()
            .map(|(rate, _)| rate)
            .sum()
    };
    let (noop, deadline, cfq): (f64, f64, f64) = (total("noop"), total("deadline"), total("cfq"));
    assert!(cfq > 5.0 * noop, "cfq {cfq} MB/s, noop {noop}");
    assert!(
        (0.9..1.1).contains(&(deadline / noop)),
        "deadline {deadline} MB/s, noop {noop}"
    );
    let [(a, _), (b, _)] = shares(TWO_READERS, "cfq")[..] else {
        panic!()
    };
    assert!((0.8..1.25).contains(&(a / b)), "{a} and {b} MB/s");
}

#[test]
fn levels_get_time_as_their_slices_say() {
    let load = "[global]\nrw=read\ndirect=1\nioengine=libaio\nbs=64k\ntime_based\nsize=2g\nprioclass=2\n\
                [be0]\nprio=0\n[be4]\nprio=4\noffset=4g\n[be7]\nprio=7\noffset=8g\n";
    let [(be0, _), (be4, _), (be7, _)] = shares(load, "cfq:low_latency=0")[..] else {
        panic!()
    };
    // Slices of 180, 100 and 40 ms.
    assert!((1.5..2.1).contains(&(be0 / be4)), "{be0} and {be4} MB/s");
    assert!((2.0..3.2).contains(&(be4 / be7)), "{be4} and {be7} MB/s");
}

#[test]
fn the_idle_class_waits_until_nobody_else_wants_the_disk() {
    let load = "[global]\nrw=read\ndirect=1\nioengine=libaio\nbs=64k\ntime_based\nsize=2g\n[normal]\n\
                [idle]\nprioclass=3\noffset=8g\n";
    let [(normal, _), (idle, _)] = shares(load, "cfq")[..] else {
        panic!()
    };
    assert!(idle < normal / 20.0, "{idle} beside {normal} MB/s");
}

#[test]
fn deadline_bounds_what_a_read_waits_behind_deep_writes() {
    let load = "[global]\ntime_based\n[reader]\nrw=randread\ndirect=1\nioengine=libaio\nbs=4k\n\
                [writer]\nrw=randwrite\ndirect=1\nioengine=libaio\nbs=4k\niodepth=64\n";
    let [(_, noop), _] = shares(load, "noop")[..] else {
        panic!()
    };
    let [(_, deadline), _] = shares(load, "deadline")[..] else {
        panic!()
    };
    // One batch of 16 writes (12 ms each at most) may be before it, and two requests in the driver.
    assert!(deadline < Nanos::from_millis(18 * 12), "{deadline}");
    assert!(noop > deadline * 2, "{noop} against {deadline}");
}

#[test]
fn control_groups_share_the_disk_by_weight_and_not_by_number_of_processes() {
    let load = "[global]\nrw=read\ndirect=1\nioengine=libaio\nbs=64k\ntime_based\nsize=1g\noffset_increment=1g\n\
                [one]\ncgroup=one\ncgroup_weight=300\n\
                [three]\ncgroup=three\ncgroup_weight=100\nnumjobs=3\noffset=6g\n";
    let rates = shares(load, "cfq");
    let three: f64 = rates[1..].iter().map(|(rate, _)| rate).sum();
    let ratio = rates[0].0 / three;
    assert!((2.6..3.4).contains(&ratio), "{ratio}: {rates:?}");
}
