//! A Samsung 980 PRO under none, mq-deadline and kyber, point by point beside what was measured on it.
//!
//! The figures are those of "BFQ, Multiqueue-Deadline, or Kyber?" (ICPE 2024; artifact of Ren and
//! others, MIT; Linux 6.3, ten cores, fio with `io_uring`, random reads): figures 1, 2, 7 and 8 with 4 KiB,
//! one drive, and a series with 4 to 64 KiB ("sizes"). `-- --nocapture` prints the table of
//! `docs/validation.md`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(
    clippy::print_stdout,
    reason = "the table that the documentation shows"
)]

use std::collections::BTreeSet;

use iosched_sim::block_layer::{MergeLimits, Merging};
use iosched_sim::disk::{self, ModelOptions};
use iosched_sim::scheduler::{SchedulerSpec, build};
use iosched_sim::simulate::{HostTimes, MultiQueueSettings, Outcome, Setup, run};
use iosched_sim::units::{Bytes, Nanos};
use iosched_sim::workload::fio_job;

/// One measured point.
struct Point<'csv> {
    figure: &'csv str,
    scheduler: &'csv str,
    block_bytes: u64,
    depth: usize,
    processes: usize,
    cores: usize,
    iops: f64,
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
}

fn points(csv: &str) -> Vec<Point<'_>> {
    let point = |line| {
        let fields: Vec<&str> = str::split(line, ',').collect();
        let number = |index: usize| fields[index].parse::<f64>().unwrap();
        Point {
            figure: fields[0],
            scheduler: fields[1],
            block_bytes: fields[2].parse().unwrap(),
            depth: fields[3].parse().unwrap(),
            processes: fields[4].parse().unwrap(),
            cores: fields[5].parse().unwrap(),
            iops: number(6),
            mean_us: number(7),
            p50_us: number(8),
            p99_us: number(9),
        }
    };
    csv.lines().skip(1).map(point).collect()
}

fn simulate(point: &Point<'_>) -> Outcome {
    let settings = MultiQueueSettings {
        processors: Some(point.cores),
        hardware_queues: point.cores,
        ..MultiQueueSettings::default()
    };
    let spec = SchedulerSpec::parse(point.scheduler).unwrap();
    let scheduler = build(&spec, &settings.kernel, &Vec::new()).unwrap();
    let disk = disk::build("ssd-nvme", &ModelOptions::default()).unwrap();
    let load = format!(
        "[reads]\nrw=randread\nbs={}\niodepth={}\nnumjobs={}\ntime_based\nruntime={}ms\n",
        point.block_bytes,
        point.depth,
        point.processes,
        if cfg!(debug_assertions) { 20 } else { 200 } // enough for IOPS, and for percentiles
    );
    let jobs = fio_job::parse(&load, disk.capacity()).unwrap();
    let setup = Setup {
        queue_depth: disk.queue_depth(),
        limits: MergeLimits {
            max_sectors: Bytes::from_kib(128).to_sectors(),
            merging: Merging::Full,
        },
        host: HostTimes::fast(),
        multi_queue: settings,
        seed: 7,
        until: Nanos::from_secs(1),
        ..Setup::new(scheduler, disk, jobs)
    };
    run(setup, &mut ())
}

/// What came out, as multiples of what was measured.
struct Ratios {
    iops: f64,
    mean: f64,
    p50: f64,
    p99: f64,
}

fn ratios(point: &Point<'_>) -> Ratios {
    let outcome = simulate(point);
    let latencies = outcome.latencies().total;
    let micros = |nanos: Nanos| nanos.as_secs_f64() * 1e6;
    let iops = latencies.count() as f64 / outcome.elapsed.as_secs_f64();
    Ratios {
        iops: iops / point.iops,
        mean: micros(latencies.mean()) / point.mean_us,
        p50: micros(latencies.percentile(0.5)) / point.p50_us,
        p99: micros(latencies.percentile(0.99)) / point.p99_us,
    }
}

/// The least and the greatest.
fn span(values: impl Iterator<Item = f64> + Clone) -> String {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    format!("{least:.2}-{:.2}", values.fold(0.0, f64::max))
}

#[test]
fn the_figures_of_one_drive_come_out_as_measured() {
    let points = points(include_str!("figures/icpe24.csv"));
    let ours: Vec<Ratios> = points.iter().map(ratios).collect();
    println!(
        "| figure | scheduler | bytes | depth | processes | cores | IOPS | of it | mean | p50 | p99 |"
    );
    for (point, ours) in points.iter().zip(&ours) {
        println!(
            "| {} | {} | {} | {} | {} | {} | {:.0} | {:.3} | {:.3} | {:.3} | {:.3} |",
            point.figure,
            point.scheduler,
            point.block_bytes,
            point.depth,
            point.processes,
            point.cores,
            point.iops,
            ours.iops,
            ours.mean,
            ours.p50,
            ours.p99
        );
    }
    println!("\n| figure | scheduler | points | IOPS | mean | p50 | p99 |");
    let sets: BTreeSet<_> = points.iter().map(|it| (it.figure, it.scheduler)).collect();
    for (figure, scheduler) in sets {
        let pairs = || points.iter().zip(&ours);
        let set = || pairs().filter(|(it, _)| (it.figure, it.scheduler) == (figure, scheduler));
        println!(
            "| {figure} | {scheduler} | {} | {} | {} | {} | {} |",
            set().count(),
            span(set().map(|(_, ours)| ours.iops)),
            span(set().map(|(_, ours)| ours.mean)),
            span(set().map(|(_, ours)| ours.p50)),
            span(set().map(|(_, ours)| ours.p99)),
        );
    }
    for (point, ours) in points.iter().zip(&ours) {
        let Point {
            figure,
            scheduler,
            block_bytes,
            depth,
            processes,
            ..
        } = point;
        if is_as_in_figure_1(&points, point) {
            assert!(
                (0.85..1.15).contains(&ours.iops),
                "figure {figure}, {scheduler}, {block_bytes} bytes, {processes} processes at depth {depth}: {:.2} times the IOPS",
                ours.iops
            );
        }
    }
}

/// The series of block sizes was made with the drive in another state: whether its 4 KiB reads at a
/// point's depth are those of figure 1, to 15 %.
fn is_as_in_figure_1(points: &[Point<'_>], point: &Point<'_>) -> bool {
    let of_a_page = |figure: &str| {
        let alike = |it: &&Point<'_>| {
            (it.figure, it.block_bytes, it.depth, it.processes) == (figure, 4096, point.depth, 1)
        };
        points.iter().find(alike).unwrap().iops
    };
    point.figure != "sizes" || (0.85..1.15).contains(&(of_a_page("sizes") / of_a_page("1")))
}
