//! The figures that make a hard disk a hard disk, and a solid-state drive one.

mod properties;

use super::*;
use crate::random::Random;
use crate::units::{Bytes, Nanos};

fn command(tag: u64, op: DiskOp, start: u64, length: u64) -> Command {
    Command {
        tag,
        op,
        start: Sector::new(start),
        length: Sectors::new(length),
        fua: false,
    }
}

fn gib(size: u64) -> ModelOptions {
    ModelOptions {
        size: Some(Bytes::from_gib(size)),
        ..ModelOptions::default()
    }
}

/// `count` random commands, `depth` at a time; each next one is given when one completes. Returns
/// the time that it took and the completions.
fn closed_loop(
    model: &mut dyn DiskModel,
    depth: u64,
    count: u64,
    mut next: impl FnMut(u64) -> Command,
) -> (Nanos, Vec<Completion>) {
    let mut all = Vec::new();
    let mut completed = Vec::new();
    let mut now = Time::ZERO;
    let mut given = 0;
    while given < depth.min(count) {
        model.submit(now, next(given));
        given += 1;
    }
    while all.len() < usize::try_from(count).unwrap() {
        now = now.max(model.next_event().expect("commands are outstanding"));
        model.advance(now, &mut completed);
        for completion in completed.drain(..) {
            all.push(completion);
            if given < count {
                model.submit(now, next(given));
                given += 1;
            }
        }
    }
    (now - Time::ZERO, all)
}

fn random_read(model: &dyn DiskModel, seed: u64) -> impl FnMut(u64) -> Command + use<> {
    let mut random = Random::new(seed, "test");
    let blocks = model.capacity().as_u64() / 8;
    move |tag| command(tag, DiskOp::Read, random.below(blocks) * 8, 8)
}

/// 4 KiB random reads per second.
fn random_read_iops(name: &str, options: &ModelOptions, depth: u64) -> f64 {
    let mut model = build(name, options).unwrap();
    let next = random_read(model.as_ref(), 42);
    let count = 3000;
    let (time, _) = closed_loop(model.as_mut(), depth, count, next);
    count as f64 / time.as_secs_f64()
}

/// Bytes per second of `op` in sequence from `start`, one command at a time.
fn sequential_rate(model: &mut dyn DiskModel, op: DiskOp, start: u64, size: u64) -> f64 {
    let count = (64 << 20) / (size * 512);
    let (time, _) = closed_loop(model, 1, count, |tag| {
        command(tag, op, start + tag * size, size)
    });
    (count * size * 512) as f64 / time.as_secs_f64()
}

#[test]
fn every_model_can_be_built_and_is_as_it_is_described() {
    for model in models() {
        let built = model.build(&ModelOptions::default()).unwrap();
        let name = &model.name;
        assert_eq!(built.capacity().to_bytes(), model.capacity(), "{name}");
        assert_eq!(built.queue_depth(), model.queue_depth(), "{name}");
        assert!(
            !model.sources.is_empty() && !model.leaves_out.is_empty(),
            "{name}"
        );
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let error =
        |name: &str, options: ModelOptions| build(name, &options).err().unwrap().to_string();
    assert!(
        error("hdd", gib(1)).starts_with("no disk model is called `hdd`; there are: hdd-7200, ")
    );
    let size = Some(Bytes::new(16 << 20 | 512));
    let message = error(
        "hdd-7200-fifo",
        ModelOptions {
            size,
            ..ModelOptions::default()
        },
    );
    assert_eq!(
        message,
        "hdd-7200-fifo cannot be 16777728 bytes large: sizes are whole numbers of 4096 bytes"
    );
    assert!(
        error("hdd-7200-fifo", gib(1 << 20)).contains("hdd-7200-fifo cannot be 1024 TiB large")
    );
    let depth = |depth| ModelOptions {
        queue_depth: Some(depth),
        ..ModelOptions::default()
    };
    assert_eq!(
        error("ssd-sata", depth(0)),
        "ssd-sata cannot have a queue depth of 0: it can have 1 to 1024"
    );
    let order = ModelOptions {
        order: Some(DriveQueue::Fifo),
        ..ModelOptions::default()
    };
    assert_eq!(
        error("null", order),
        "null has no order of its own to choose"
    );
    let cached = ModelOptions {
        write_cache: Some(true),
        ..ModelOptions::default()
    };
    assert_eq!(error("fixed", cached), "fixed has no write cache");
}

#[test]
fn a_random_read_takes_mean_seek_and_half_a_turn_and_overhead() {
    for (name, parameters) in [
        ("hdd-7200-fifo", presets::hdd("hdd-7200-fifo")),
        ("hdd-10k", presets::hdd("hdd-10k")),
    ] {
        let mean_seek = parameters.seek.mean(parameters.cylinders()).as_secs_f64();
        let expected = mean_seek
            + parameters.turn().as_secs_f64() / 2.0
            + parameters.overheads.read_miss.as_secs_f64();
        let measured = 1.0 / random_read_iops(name, &ModelOptions::default(), 1);
        // Zones make outer cylinders likelier, so that moves are a little shorter than between
        // cylinders drawn evenly.
        let ratio = measured / expected;
        assert!(
            (0.93..1.04).contains(&ratio),
            "{name}: {measured} s, expected {expected} s"
        );
    }
}

#[test]
fn reading_in_sequence_reaches_the_rate_of_the_zone() {
    // 3072 sectors in one turn and one track switch; the innermost zone has half of them.
    let outer = 3072.0 * 512.0 / (60.0 / 7200.0 + 0.0006);
    for options in [ModelOptions::default(), gib(8)] {
        for size in [8, 128, 2048] {
            let mut model = build("hdd-7200-fifo", &options).unwrap();
            let rate = sequential_rate(model.as_mut(), DiskOp::Read, 0, size);
            // One access at the beginning; commands of 4 KiB are bound by the electronics.
            let bound = if size == 8 { 4096.0 / 0.000_17 } else { outer };
            assert!(
                (0.9..1.02).contains(&(rate / bound)),
                "{size}: {rate} of {bound}"
            );
            let inner_start = model.capacity().as_u64() / 2048 * 2048 - (80 << 20) / 512;
            let mut model = build("hdd-7200-fifo", &options).unwrap();
            let inner = sequential_rate(model.as_mut(), DiskOp::Read, inner_start, size);
            let bound = if size == 8 {
                4096.0 / 0.000_17
            } else {
                outer / 2.0
            };
            assert!(
                (0.9..1.05).contains(&(inner / bound)),
                "{size}: {inner} of {bound}"
            );
        }
    }
}

#[test]
fn writing_in_sequence_streams_through_the_cache_and_loses_turns_without() {
    let rate = |write_cache| {
        let options = ModelOptions {
            write_cache: Some(write_cache),
            ..gib(8)
        };
        let mut model = build("hdd-7200-fifo", &options).unwrap();
        // More than the cache holds.
        let count = 4096;
        let next = |tag| command(tag, DiskOp::Write, tag * 128, 128);
        let (time, _) = closed_loop(model.as_mut(), 1, count, next);
        (count * 65_536) as f64 / time.as_secs_f64()
    };
    let (cached, through) = (rate(true), rate(false));
    assert!(cached > 150e6, "{cached}");
    // One turn for each 64 KiB.
    assert!((6e6..9e6).contains(&through), "{through}");
}

#[test]
fn cached_random_writes_are_faster_than_written_through_and_a_flush_pays_for_them() {
    let run = |write_cache| {
        let options = ModelOptions {
            write_cache: Some(write_cache),
            ..gib(8)
        };
        let mut model = build("hdd-7200-fifo", &options).unwrap();
        let mut read = random_read(model.as_ref(), 9);
        let next = |tag| Command {
            op: DiskOp::Write,
            ..read(tag)
        };
        let (time, _) = closed_loop(model.as_mut(), 1, 100, next);
        let before = Time::ZERO + time;
        model.submit(before, command(1000, DiskOp::Flush, 0, 0));
        let mut completed = Vec::new();
        while completed.is_empty() {
            let now = model.next_event().unwrap();
            model.advance(now, &mut completed);
        }
        (time, completed[0].time - before)
    };
    let (cached, flush) = run(true);
    let (through, no_flush) = run(false);
    assert!(cached * 10 < through, "{cached} against {through}");
    assert!(
        flush > Nanos::from_millis(100),
        "{flush} for some 90 random writes"
    );
    assert!(no_flush < Nanos::from_millis(1), "{no_flush}");
}

#[test]
fn the_nvme_model_gives_the_measured_curve() {
    // Depth, IOPS of a Samsung 980 PRO (4 KiB random reads, no kernel between).
    let measured = [
        (1, 16_583.0),
        (8, 125_350.0),
        (32, 400_496.0),
        (128, 735_639.0),
    ];
    for (depth, iops) in measured {
        let mut model = build("ssd-nvme", &ModelOptions::default()).unwrap();
        let next = random_read(model.as_ref(), 1);
        let count = 40_000;
        let (time, _) = closed_loop(model.as_mut(), depth, count, next);
        let ratio = count as f64 / time.as_secs_f64() / iops;
        assert!((0.93..1.07).contains(&ratio), "depth {depth}: {ratio}");
    }
}

#[test]
fn the_sata_model_meets_the_measured_rates() {
    let deep = random_read_iops("ssd-sata", &ModelOptions::default(), 32);
    assert!((0.85..1.0).contains(&(deep / 98_441.0)), "{deep}");
    let mut model = build("ssd-sata", &ModelOptions::default()).unwrap();
    let next = |tag| command(tag, DiskOp::Read, tag * 2048, 2048);
    let (time, _) = closed_loop(model.as_mut(), 8, 500, next);
    let rate = 500.0 * 1_048_576.0 / time.as_secs_f64();
    assert!((0.95..1.0).contains(&(rate / 571_729_370.0)), "{rate}");
}

#[test]
fn a_flush_of_a_hard_disk_ends_after_every_write_acknowledged_before_it() {
    for seed in 0..10 {
        let mut parameters = presets::hdd("hdd-7200-fifo");
        parameters.interface.capacity = Bytes::from_gib(1).to_sectors();
        parameters.interface.queue_depth = 32;
        let mut model = hdd::Hdd::new(parameters, seed);
        let mut read = random_read(&model, seed);
        let mut random = Random::new(seed, "gaps");
        let mut completed = Vec::new();
        let mut pending = None;
        let mut flushes = 0;
        let mut now = Time::ZERO;
        for tag in 0..600 {
            now += Nanos::new(random.below(16_000_000));
            while let Some(event) = model.next_event().filter(|&event| event <= now) {
                model.advance(event, &mut completed);
                for completion in completed.drain(..) {
                    if let Some((flush, acknowledged)) = pending
                        && flush == completion.tag
                    {
                        // All of them have smaller numbers than what came after the flush.
                        assert!(model.dirty_numbers().all(|number| number >= acknowledged));
                        pending = None;
                        flushes += 1;
                    }
                }
            }
            if tag % 40 == 39 && pending.is_none() {
                model.submit(now, command(tag, DiskOp::Flush, 0, 0));
                pending = Some((tag, model.acknowledged()));
            } else if tag % 4 == 0 {
                model.submit(now, read(tag));
            } else {
                // Some continue the one before: stretches grow.
                let at = if tag % 4 == 1 {
                    random.below(1 << 17) * 8
                } else {
                    tag * 8
                };
                model.submit(now, command(tag, DiskOp::Write, at, 8));
            }
        }
        assert!(
            flushes > 3,
            "{flushes} flushes ended: the test shows nothing"
        );
        assert!(
            model.dirty() > Sectors::ZERO,
            "nothing was dirty in the end: it shows little"
        );
    }
}
