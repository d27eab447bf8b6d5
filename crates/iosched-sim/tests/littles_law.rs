//! Little's law: in a closed loop without think times each process always has as many accesses under
//! way as it may, so that throughput times mean latency is that number. A latency that leaves out
//! anything that a program waits for breaks it.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something is not as it should be"
)]

use iosched_sim::disk::{self, ModelOptions};
use iosched_sim::scheduler::{Kernel, SchedulerSpec, build, schedulers};
use iosched_sim::simulate::{Attachment, MultiQueueSettings, Outcome, ProcessOutcome, Setup, run};
use iosched_sim::units::{Bytes, Nanos, Sectors};
use iosched_sim::workload::{Job, Mix, Pattern, Sizes};
use proptest::prelude::*;

/// All that there are, and these with other tunables.
const VARIANTS: [&str; 2] = ["cfq:slice_idle=0", "mq-deadline:fifo_batch=1"];

fn schedulers_drawn() -> Vec<&'static str> {
    let known = schedulers().map(|info| info.facts.name);
    known.chain(VARIANTS).collect()
}

const DISKS: [&str; 5] = ["hdd-7200", "ssd-sata", "ssd-nvme", "formula", "fixed"];

/// Each process makes so many times as many accesses as it may have under way.
const ROUNDS: u64 = 150;

fn job() -> impl Strategy<Value = Job> {
    let depth = prop_oneof![1..3_usize, 1..80_usize];
    let size = prop::sample::select(vec![1_u64, 8, 64, 300]);
    let read_percent = prop_oneof![Just(100_u8), Just(0), 0..=100_u8];
    let pattern = prop_oneof![
        Just(Pattern::EVEN),
        Just(Pattern::Sequential {
            skip: Sectors::ZERO
        })
    ];
    (depth, 1..20_usize, size, read_percent, pattern).prop_map(
        |(depth, batch, size, read_percent, pattern)| Job {
            depth,
            batch: batch.min(depth),
            pattern,
            read_sizes: Sizes::one(Sectors::new(size)),
            write_sizes: Sizes::one(Sectors::new(size)),
            mix: Mix { read_percent },
            span: Sectors::new(100_000),
            amount: Some(Bytes::new(ROUNDS * depth as u64 * size * 512)),
            ..Job::default()
        },
    )
}

fn simulate(
    jobs: &[Job],
    (scheduler, disk): (&str, &str),
    (queue_depth, nr_requests): (usize, usize),
    (attachment, hardware_queues): (Attachment, usize),
) -> (Outcome, Nanos) {
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    let options = ModelOptions {
        size: Some(Bytes::from_mib(64)),
        ..ModelOptions::default()
    };
    let built = build(&spec, &Kernel::default(), &Vec::new()).unwrap();
    let model = disk::build(disk, &options).unwrap();
    let setup = Setup {
        queue_depth,
        nr_requests,
        multi_queue: MultiQueueSettings {
            attachment,
            hardware_queues,
            nr_requests: (nr_requests > queue_depth).then_some(nr_requests),
            ..MultiQueueSettings::default()
        },
        until: Nanos::from_secs(1_000_000),
        ..Setup::new(built, model, jobs.to_vec())
    };
    let wakeup = setup.host.wakeup;
    (run(setup, &mut ()), wakeup)
}

/// Accesses that a process had under way, mean over the time that it ran: at least, and at most if it
/// needed as long as may be after each answer until it submitted the next access.
fn under_way(process: &ProcessOutcome, wakeup: Nanos) -> (f64, f64) {
    let latencies = process.latencies().total;
    let elapsed = process.elapsed.as_secs_f64();
    let waited = latencies.mean().as_secs_f64() * latencies.count() as f64;
    let between = wakeup.as_secs_f64() * latencies.count() as f64;
    (waited / elapsed, (waited + between) / elapsed)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn throughput_times_mean_latency_is_what_is_under_way(
        job in job(),
        others in 0..4_usize,
        scheduler in prop::sample::select(schedulers_drawn()),
        disk in prop::sample::select(DISKS.to_vec()),
        queue_depth in prop_oneof![1..6_usize, Just(32)],
        nr_requests in prop::sample::select(vec![4_usize, 16, 128]),
        budget in any::<bool>(),
        hardware_queues in prop_oneof![Just(1_usize), 1..5_usize],
    ) {
        // Equal processes: they end together, so that none is alone for long.
        let jobs = vec![job.clone(); others + 1];
        let attachment = if budget { Attachment::Budget } else { Attachment::TagOnly };
        let (outcome, wakeup) =
            simulate(&jobs, (scheduler, disk), (queue_depth, nr_requests), (attachment, hardware_queues));
        for process in &outcome.processes {
            let latencies = process.latencies();
            prop_assert_eq!(latencies.total.count(), ROUNDS * job.depth as u64);
            let parts = [&latencies.before, &latencies.queue, &latencies.service];
            let parts: f64 = parts.map(|part| part.mean().as_secs_f64()).iter().sum();
            let total = latencies.total.mean().as_secs_f64();
            prop_assert!((parts - total).abs() <= 0.001 * total, "{} {}", parts, total);
            // At its end it has fewer and fewer under way, for as long as the longest takes.
            let longest = latencies.total.max().as_secs_f64() / process.elapsed.as_secs_f64();
            let (least, most) = under_way(process, wakeup);
            let depth = job.depth as f64;
            prop_assert!(least <= 1.001 * depth, "{} of {}", least, depth);
            prop_assert!(most >= (0.98 - longest) * depth, "{} of {}, longest {}", most, depth, longest);
        }
    }
}

/// Found by the property: an insertion closed two gaps at once, and what survived the first merge was gone.
#[test]
fn what_absorbed_a_request_may_be_absorbed_at_once() {
    let size = 300;
    let job = Job {
        depth: 36,
        batch: 9,
        pattern: Pattern::Sequential {
            skip: Sectors::ZERO,
        },
        read_sizes: Sizes::one(Sectors::new(size)),
        write_sizes: Sizes::one(Sectors::new(size)),
        mix: Mix { read_percent: 95 },
        span: Sectors::new(100_000),
        amount: Some(Bytes::new(ROUNDS * 36 * size * 512)),
        ..Job::default()
    };
    let jobs = vec![job; 4];
    let machine = ("deadline", "formula");
    let (outcome, _) = simulate(&jobs, machine, (32, 128), (Attachment::TagOnly, 1));
    assert_eq!(outcome.latencies().total.count(), 4 * 36 * ROUNDS);
}
