//! Simulated requests per second: every scheduler over three disks, random reads of 4 KiB, 32 in
//! flight. `null` answers at once: what it takes is the block layer's and the scheduler's; the
//! difference to the others is the disk model's.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use iosched_sim::disk::{self, ModelOptions};
use iosched_sim::scheduler::{Kernel, SchedulerSpec, build, schedulers};
use iosched_sim::simulate::{Setup, run};
use iosched_sim::units::Bytes;
use iosched_sim::workload::fio_job;

const REQUESTS: u64 = 100_000;
const LOAD: &str =
    "[reader]\nrw=randread\ndirect=1\nioengine=libaio\nbs=4k\niodepth=32\ntime_based\n";

fn setup(scheduler: &str, disk: &str) -> Setup {
    let disk = disk::build(disk, &ModelOptions::default()).unwrap();
    let mut jobs = fio_job::parse(LOAD, disk.capacity()).unwrap();
    jobs[0].amount = Some(Bytes::from_kib(4 * REQUESTS));
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    let scheduler = build(&spec, &Kernel::default(), &Vec::new()).unwrap();
    Setup {
        seed: 1,
        ..Setup::new(scheduler, disk, jobs)
    }
}

fn simulated_requests(criterion: &mut Criterion) {
    for disk in ["null", "ssd-sata", "hdd-7200-fifo"] {
        let mut group = criterion.benchmark_group(disk);
        group
            .throughput(Throughput::Elements(REQUESTS))
            .sample_size(10);
        for scheduler in schedulers() {
            group.bench_function(scheduler.facts.name, |bencher| {
                let prepare = || setup(scheduler.facts.name, disk);
                bencher.iter_batched(prepare, |setup| run(setup, &mut ()), BatchSize::LargeInput);
            });
        }
        group.finish();
    }
}

criterion_group!(benches, simulated_requests);
criterion_main!(benches);
