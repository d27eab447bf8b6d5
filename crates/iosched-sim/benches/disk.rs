//! Commands per second of each disk model alone: random reads of 4 KiB, one and 32 at a time, each
//! next one given when one completes.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use iosched_sim::disk::{Command, DiskModel, DiskOp, Model, ModelOptions};
use iosched_sim::random::Random;
use iosched_sim::units::{Sector, Sectors, Time};

const COMMANDS: u64 = 20_000;

/// Gives the model all commands, `depth` at a time; returns the time at which the last was done.
fn closed_loop(model: &mut dyn DiskModel, depth: u64) -> Time {
    let blocks = model.capacity().as_u64() / 8;
    let mut random = Random::new(1, "bench");
    let mut completed = Vec::with_capacity(64);
    let (mut given, mut done, mut now) = (0, 0, Time::ZERO);
    while done < COMMANDS {
        while given < COMMANDS.min(done + depth) {
            let command = Command {
                tag: given,
                op: DiskOp::Read,
                start: Sector::new(random.below(blocks) * 8),
                length: Sectors::new(8),
                fua: false,
            };
            model.submit(now, command);
            given += 1;
        }
        now = now.max(model.next_event().unwrap());
        model.advance(now, &mut completed);
        done += completed.drain(..).count() as u64;
    }
    now
}

fn commands(criterion: &mut Criterion) {
    let models = [
        "null",
        "fixed",
        "formula",
        "ssd-sata",
        "ssd-nvme",
        "hdd-7200",
        "hdd-7200-ncq",
    ];
    for name in models {
        let model = Model::named(name).unwrap();
        let mut group = criterion.benchmark_group(name);
        group
            .throughput(Throughput::Elements(COMMANDS))
            .sample_size(10);
        for depth in [1, 32] {
            group.bench_function(format!("depth {depth}"), |bencher| {
                bencher.iter_batched(
                    || model.build(&ModelOptions::default()).unwrap(),
                    |mut disk| closed_loop(disk.as_mut(), depth),
                    BatchSize::LargeInput,
                );
            });
        }
        group.finish();
    }
}

criterion_group!(benches, commands);
criterion_main!(benches);
