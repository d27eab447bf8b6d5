//! What holds for every load under none, mq-deadline, kyber and bfq, however the device is attached:
//! nothing is lost, the same seed gives the same events, and our schedulers, following the recording of
//! a run, decide as in the run.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write;

use iosched_conform::Report;
use iosched_conform::multi_queue::{Recording, Until, follow};
use iosched_sim::block_layer::{MergeLimits, Merging};
use iosched_sim::disk::{self, ModelOptions};
use iosched_sim::request::{IoPriority, PriorityClass, ProcessId};
use iosched_sim::scheduler::{Kernel, SchedulerSpec, build, build_followed};
use iosched_sim::simulate::{
    Attachment, BlockEvent, HostTimes, MultiQueueSettings, Outcome, Setup, Tracer, run, write_head,
    write_line,
};
use iosched_sim::trace::kernel::Action;
use iosched_sim::units::{Bytes, Nanos, Sectors, Time};
use iosched_sim::workload::{Job, fio_job};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

/// Keeps a recording, and counts.
#[derive(Default)]
struct Recorder {
    text: String,
    outstanding: usize,
    most_outstanding: usize,
    queued_sectors: u64,
    completed_sectors: u64,
}

impl Tracer for Recorder {
    fn happened(&mut self, block_event: &BlockEvent) {
        write_line(&mut self.text, Time::ZERO, block_event).unwrap();
        match block_event.action {
            Action::Queued => self.queued_sectors += block_event.length.as_u64(),
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
        let micros = time.as_nanos() as f64 / 1e3;
        writeln!(self.text, "# exit pid={} time_us={micros:.3}", process.0).unwrap();
    }
}

fn kernel() -> Kernel {
    Kernel {
        hz: 250,
        tick_phase: Nanos::from_micros(1234),
        ..Kernel::default()
    }
}

fn setup(
    jobs: Vec<Job>,
    scheduler: &str,
    disk: &str,
    (queue_depth, device_limit): (usize, Option<usize>),
    settings: &MultiQueueSettings,
) -> Setup {
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    let scheduler = build(&spec, &settings.kernel, &Vec::new()).unwrap();
    let disk = disk::build(disk, &ModelOptions::default()).unwrap();
    Setup {
        queue_depth,
        device_limit,
        limits: MergeLimits {
            max_sectors: Sectors::new(256),
            merging: Merging::Full,
        },
        host: if settings.processors.is_some() {
            HostTimes::fast()
        } else {
            HostTimes::default()
        },
        multi_queue: *settings,
        seed: 7,
        ..Setup::new(scheduler, disk, jobs)
    }
}

fn simulate(
    jobs: Vec<Job>,
    scheduler: &str,
    disk: &str,
    depth: (usize, Option<usize>),
    settings: &MultiQueueSettings,
    tracer: &mut dyn Tracer,
) -> Outcome {
    run(setup(jobs, scheduler, disk, depth, settings), tracer)
}

fn job() -> impl Strategy<Value = Job> {
    let rw = prop::sample::select(vec!["read", "write", "randread", "randwrite", "randrw"]);
    let class = prop::sample::select(vec![
        PriorityClass::RealTime,
        PriorityClass::BestEffort,
        PriorityClass::Idle,
    ]);
    let depth = prop::sample::select(vec![1, 1, 2, 8, 40]);
    let size = prop::sample::select(vec![4_u64, 4, 64, 300]);
    (rw, class, depth, size, 0..3_u64, 1..12_u32).prop_map(
        |(rw, class, depth, size, think, batch)| {
            let load = format!(
                "[job]\nrw={rw}\ndirect=1\nioengine=libaio\nbs={size}k\niodepth={depth}\niodepth_batch={batch}\nthinktime={}\n\
                 size=8m\noffset=16m\n",
                think * 1000
            );
            let mut job = fio_job::parse(&load, Sectors::new(1 << 20))
                .unwrap()
                .remove(0);
            job.priority = IoPriority { class, level: 4 };
            job.amount = Some(Bytes::from_kib(60 * size));
            job
        },
    )
}

/// Schedulers with tunables at their ends.
const SCHEDULERS: [&str; 20] = [
    "none",
    "mq-deadline",
    "mq-deadline:kernel=6.1",
    "mq-deadline:kernel=6.1,fifo_batch=0",
    "mq-deadline:read_expire=0,write_expire=0,front_merges=0",
    "mq-deadline:prio_aging_expire=0,writes_starved=-5",
    "mq-deadline:async_depth=1,fifo_batch=3",
    "kyber",
    "kyber:read_lat_nsec=1,write_lat_nsec=1000000000",
    "kyber:read_lat_nsec=100000000,write_lat_nsec=0",
    "kpp",
    "adios",
    "adios:batch_order=1,read_priority=-20",
    "adios:global_latency_window=1,lat_target_write=0",
    "bfq",
    "bfq:kernel=6.1",
    "bfq:low_latency=0",
    "bfq:slice_idle=0,fifo_expire_sync=1",
    "bfq:strict_guarantees=1,back_seek_max=0",
    "bfq:max_budget=300,timeout_sync=4",
];

/// The first of these follow their own recordings whatever the load.
const FOLLOWED: usize = 14;

fn settings() -> impl Strategy<Value = MultiQueueSettings> {
    let attachment = prop::sample::select(vec![Attachment::TagOnly, Attachment::Budget]);
    let nr_requests = prop::sample::select(vec![None, Some(1), Some(5), Some(256)]);
    let processors = prop::sample::select(vec![None, Some(1), Some(3)]);
    let hardware_queues = prop::sample::select(vec![1, 1, 2, 3]);
    let all = (attachment, nr_requests, hardware_queues, processors);
    (all, any::<bool>()).prop_map(
        |((attachment, nr_requests, hardware_queues, processors), flushes_alone)| {
            MultiQueueSettings {
                attachment,
                kernel: kernel(),
                nr_requests,
                hardware_queues,
                processors,
                flushes_alone,
                wbt_lat: None,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_the_same_seed_gives_the_same_events(
        jobs in prop::collection::vec(job(), 1..5),
        scheduler in prop::sample::select(SCHEDULERS.to_vec()),
        disk in prop::sample::select(vec!["fixed", "formula", "ssd-sata"]),
        queue_depth in 1..6_usize,
        device_limit in prop::sample::select(vec![None, None, Some(1), Some(3)]),
        settings in settings(),
    ) {
        let mut recorder = Recorder::default();
        let outcome =
            simulate(jobs.clone(), scheduler, disk, (queue_depth, device_limit), &settings, &mut recorder);
        prop_assert_eq!(recorder.outstanding, 0);
        prop_assert_eq!(recorder.completed_sectors, recorder.queued_sectors);
        let queues = match settings.attachment {
            Attachment::TagOnly => settings.hardware_queues,
            Attachment::Budget => 1,
        };
        prop_assert!(recorder.most_outstanding <= queue_depth * queues);
        for (process, job) in outcome.processes.iter().zip(&jobs) {
            prop_assert!(process.bytes() >= job.amount.unwrap());
        }
        let mut again = Recorder::default();
        simulate(jobs, scheduler, disk, (queue_depth, device_limit), &settings, &mut again);
        prop_assert!(recorder.text == again.text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, ..ProptestConfig::default() })]

    #[test]
    fn a_scheduler_that_follows_the_recording_of_a_run_decides_as_in_the_run(
        jobs in prop::collection::vec(job(), 1..5),
        scheduler in prop::sample::select(SCHEDULERS[..FOLLOWED].to_vec()),
        disk in prop::sample::select(vec!["fixed", "formula"]),
        queue_depth in 1..6_usize,
        attachment in prop::sample::select(vec![Attachment::TagOnly, Attachment::Budget]),
        processors in prop::sample::select(vec![None, Some(1), Some(3)]),
    ) {
        let kernel = kernel();
        let settings = MultiQueueSettings { attachment, kernel, processors, ..MultiQueueSettings::default() };
        let report = followed(&jobs, scheduler, disk, queue_depth, &settings);
        prop_assert!(report.decisions > 0);
        prop_assert_eq!(report.agreed, report.decisions, "{:?}", report.first_disagreements);
        prop_assert_eq!((report.eager, report.unexplained), (0, 0));
    }
}

/// bfq as others run it: without idling, with strict guarantees, without raises, with budgets that are set.
const BFQ: [&str; 10] = [
    "bfq:slice_idle=0",
    "bfq:slice_idle=0,low_latency=0",
    "bfq:kernel=6.1,slice_idle=0",
    "bfq:strict_guarantees=1",
    "bfq:kernel=6.1,strict_guarantees=1,low_latency=0",
    "bfq:kernel=6.1,low_latency=0",
    "bfq:kernel=6.1,slice_idle_us=500",
    "bfq:max_budget=2000,back_seek_penalty=1",
    "bfq:timeout_sync=40,fifo_expire_async=20,low_latency=0",
    "bfq:kernel=6.1",
];

#[test]
fn bfq_follows_its_own_runs_with_any_tunables_on_disks_that_turn_and_others() {
    let config = ProptestConfig {
        cases: 300,
        ..ProptestConfig::default()
    };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let jobs = prop::collection::vec((job(), 0..8_u8, 0..1200_u64), 2..5);
    let loads = (
        jobs,
        prop::sample::select(BFQ.to_vec()),
        prop::sample::select(vec![1_usize, 4, 32]),
        prop::sample::select(vec![Attachment::TagOnly, Attachment::Budget]),
        any::<bool>(),
    );
    let result = runner.run(
        &loads,
        |(jobs, scheduler, depth, attachment, rotational)| {
            // They begin one after the other, or at once.
            let jobs = jobs.into_iter().map(|(mut job, level, delay)| {
                job.priority.level = level;
                job.delay = Nanos::from_millis(delay.saturating_sub(400)) + Nanos::new(delay);
                job.amount = job.amount.map(|amount| Bytes::new(amount.as_u64() * 4));
                job
            });
            let mut jobs: Vec<Job> = jobs.collect();
            apart(&mut jobs);
            let settings = MultiQueueSettings {
                attachment,
                kernel: Kernel {
                    rotational,
                    ..kernel()
                },
                ..MultiQueueSettings::default()
            };
            let report = followed(&jobs, scheduler, "formula", depth, &settings);
            let first = &report.first_disagreements;
            prop_assert_eq!(report.agreed, report.decisions, "{:?}", first);
            prop_assert_eq!(report.unexplained, 0);
            Ok(())
        },
    );
    result.unwrap();
}

/// Each job has sectors of its own: of two requests for the same ones a recording does not tell which
/// was dispatched, and to bfq it matters whose it was. And none pauses for whole microseconds, nor does
/// the disk take such times: of a request and a timer at the same nanosecond it does not tell which came
/// first.
fn apart(jobs: &mut [Job]) {
    let mut start = jobs[0].start;
    for (job, odd) in jobs.iter_mut().zip([137_003, 211_017, 307_031, 401_057]) {
        job.start = start;
        start += job.span;
        if let Some(think) = &mut job.think {
            think.time += Nanos::new(odd);
        }
    }
}

/// Schedulers whose tunables make them hold back, age and throttle.
const STRICT: [&str; 8] = [
    "mq-deadline:prio_aging_expire=1",
    "mq-deadline:prio_aging_expire=10,fifo_batch=2",
    "mq-deadline:prio_aging_expire=50,read_expire=20,write_expire=60",
    "mq-deadline:kernel=6.1,prio_aging_expire=7,read_expire=30",
    "mq-deadline:kernel=6.1,prio_aging_expire=30,writes_starved=1",
    "kyber:read_lat_nsec=100000,write_lat_nsec=300000",
    "kyber:read_lat_nsec=1500000,write_lat_nsec=3000000",
    "kyber:read_lat_nsec=9000000,write_lat_nsec=500000",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn the_same_where_it_ages_and_throttles_at_any_ticks(
        mut jobs in prop::collection::vec(job(), 2..6),
        scheduler in prop::sample::select(STRICT.to_vec()),
        disk in prop::sample::select(vec!["fixed", "formula"]),
        queue_depth in 1..6_usize,
        attachment in prop::sample::select(vec![Attachment::TagOnly, Attachment::Budget]),
        hz in prop::sample::select(vec![100, 250, 1000]),
        tick_phase in 0..10_000_u64,
        processors in prop::sample::select(vec![None, Some(2), Some(5)]),
    ) {
        for job in &mut jobs {
            job.amount = job.amount.map(|amount| Bytes::new(amount.as_u64() * 5));
        }
        let kernel = Kernel { hz, tick_phase: Nanos::from_micros(tick_phase % (1_000_000 / u64::from(hz))), ..Kernel::default() };
        let settings = MultiQueueSettings { attachment, kernel, processors, ..MultiQueueSettings::default() };
        let report = followed(&jobs, scheduler, disk, queue_depth, &settings);
        prop_assert_eq!(report.agreed, report.decisions, "{:?}", report.first_disagreements);
        prop_assert_eq!((report.eager, report.unexplained), (0, 0));
    }
}

/// What comes of it when a scheduler follows the recording of a run under it, of which it knows what
/// the recording says.
fn followed(
    jobs: &[Job],
    scheduler: &str,
    disk: &str,
    queue_depth: usize,
    settings: &MultiQueueSettings,
) -> Report {
    let depth = (queue_depth, None);
    let setup = setup(jobs.to_vec(), scheduler, disk, depth, settings);
    let mut recorder = Recorder::default();
    write_head(&mut recorder.text, &setup, (scheduler, disk)).unwrap();
    run(setup, &mut recorder);
    let mut recording = Recording::default();
    let mut lines = recorder.text.lines();
    lines.try_for_each(|line| recording.line(line)).unwrap();
    let kernel = Kernel {
        hz: settings.kernel.hz,
        tick_phase: recording.tick_phase(&settings.kernel).unwrap(),
        rotational: settings.kernel.rotational,
        monotonic_zero: recording.monotonic_zero(),
        ..Kernel::default()
    };
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    let scheduler = build_followed(&spec, &kernel, &Vec::new()).unwrap();
    follow(
        Until::End,
        &recording,
        scheduler,
        &kernel,
        recording.device(),
    )
    .0
}

/// Accesses per second of each process.
fn rates(load: &str, scheduler: &str, disk: &str, settings: &MultiQueueSettings) -> Vec<f64> {
    let model = disk::build(disk, &ModelOptions::default()).unwrap();
    let mut jobs = fio_job::parse(load, model.capacity()).unwrap();
    for job in &mut jobs {
        job.runtime = Some(Nanos::from_secs(10));
    }
    let depth = model.queue_depth();
    let outcome = simulate(jobs, scheduler, disk, (depth, None), settings, &mut ());
    let rate = |process: &iosched_sim::simulate::ProcessOutcome| {
        process.accesses() as f64 / process.elapsed.as_secs_f64()
    };
    outcome.processes.iter().map(rate).collect()
}

#[test]
fn a_real_time_reader_holds_best_effort_back_under_mq_deadline_alone() {
    let load = "[global]\nbs=4k\nrw=randread\ndirect=1\nioengine=libaio\ntime_based\n[rt]\nprioclass=1\nthinktime=5000\n\
                [be]\niodepth=8\n";
    let be = |scheduler| rates(load, scheduler, "ssd-sata", &MultiQueueSettings::default())[1];
    let (none, mq_deadline) = (be("none"), be("mq-deadline"));
    assert!(mq_deadline < none * 0.8, "{mq_deadline} beside {none}");
}

/// A reader beside a copy through the page cache, with and without write-back throttling: bytes that
/// each moved per second, and the reader's mean latency.
fn beside_a_copy(disk: &str, wbt_lat: Option<Nanos>) -> ([f64; 2], Nanos) {
    let model = disk::build(disk, &ModelOptions::default()).unwrap();
    let load = "[global]\ntime_based\nruntime=10\nsize=10g\n\
                [read]\nrw=randread\ndirect=1\nioengine=libaio\nbs=4k\nthinktime=5000\n\
                [copy]\nrw=write\ndirect=1\nioengine=libaio\nbs=64k\ndirect=0\noffset=20g\nfsync=5000\n";
    let jobs = fio_job::parse(load, model.capacity()).unwrap();
    let settings = MultiQueueSettings {
        wbt_lat,
        ..MultiQueueSettings::default()
    };
    let depth = model.queue_depth();
    let outcome = simulate(jobs, "none", disk, (depth, None), &settings, &mut ());
    let rate = |index: usize| {
        let process = &outcome.processes[index];
        process.bytes().as_u64() as f64 / process.elapsed.as_secs_f64()
    };
    let reader = outcome.processes[0].latencies().total.mean();
    ([rate(0), rate(1)], reader)
}

#[test]
fn write_back_throttling_shortens_what_a_reader_waits_beside_a_copy() {
    let ([_, copy], waits) = beside_a_copy("ssd-sata", None);
    let target = Some(Nanos::from_millis(2));
    let ([_, throttled_copy], throttled_waits) = beside_a_copy("ssd-sata", target);
    assert!(
        throttled_waits.as_secs_f64() < 0.5 * waits.as_secs_f64(),
        "{throttled_waits:?}, without {waits:?}"
    );
    assert!(
        throttled_copy > 0.5 * copy,
        "{throttled_copy}, without {copy}"
    );
}
