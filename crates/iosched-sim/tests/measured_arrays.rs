//! What was measured on arrays elsewhere, done again in virtual time: the same experiment, with figures of theirs as bounds.
//! docs/disk-models.md (*Arrays*) has the sources and our figures beside theirs.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test that cannot go on is to fail"
)]

use std::collections::{BTreeMap, BTreeSet};

use iosched_sim::disk::{Command, DiskOp, Model, ModelOptions};
use iosched_sim::random::Random;
use iosched_sim::units::{Nanos, Sector, Sectors, Time};

const MS: f64 = 1e6;

/// An array with a cache of this many bytes; without a battery it writes through.
fn array(level: &str, (count, drive): (usize, &str), cache: u64, battery: bool) -> Model {
    let preset = Model::named("raid10-15k").unwrap();
    let mut text = String::new();
    for line in preset.text().lines() {
        let (key, _) = line.split_once(" = ").unwrap_or((line, ""));
        text += &match key {
            "capacity_bytes" => continue,
            "queue_depth" => "queue_depth = 256".to_owned(),
            "level" => format!("level = \"{level}\""),
            "size_bytes" => format!("size_bytes = {cache}"),
            "battery" => format!("battery = {battery}"),
            "count" => format!("count = {count}"),
            "model" => format!("model = \"{drive}\""),
            _ => line.to_owned(),
        };
        text.push('\n');
    }
    Model::parse(&text).unwrap()
}

/// Writers of random blocks of 8 KiB, each with one at a time and a pause behind it, from one second to another: how many a
/// second, and how long each takes on average, in ns.
fn writes(model: &Model, writers: u64, pause: Nanos, seconds: (u64, u64)) -> (f64, f64) {
    let mut disk = model.build(&ModelOptions::default()).unwrap();
    let blocks = disk.capacity().as_u64() / 16;
    let mut random = Random::new(7, "writers");
    let [from, to] = [seconds.0, seconds.1].map(|at| Time::from_nanos(at * 1_000_000_000));
    // Who writes next, and when; who waits since when.
    let mut due: BTreeSet<(Time, u64)> = (0..writers)
        .map(|writer| (Time::from_nanos(writer), writer))
        .collect();
    let mut since = BTreeMap::new();
    let (mut count, mut sum) = (0_u64, Nanos::ZERO);
    let mut completed = Vec::new();
    loop {
        let next = due.first().copied();
        let event = disk.next_event().unwrap_or(Time::MAX);
        match next.filter(|&(time, _)| time <= event) {
            Some((now, writer)) => {
                due.remove(&(now, writer));
                since.insert(writer, now);
                disk.submit(
                    now,
                    Command {
                        tag: writer,
                        op: DiskOp::Write,
                        start: Sector::new(random.below(blocks) * 16),
                        length: Sectors::new(16),
                        fua: false,
                    },
                );
            }
            None => disk.advance(event, &mut completed),
        }
        for completion in completed.drain(..) {
            let begun = since.remove(&completion.tag).unwrap();
            if completion.time >= to {
                let span = (seconds.1 - seconds.0) as f64;
                return (count as f64 / span, sum.as_nanos() as f64 / count as f64);
            }
            if begun >= from {
                count += 1;
                sum += completion.time - begun;
            }
            due.insert((completion.time + pause, completion.tag));
        }
    }
}

/// How many times as many writes a second from the cache as through it, once the cache is full.
fn gain(cache: u64, depth: u64) -> f64 {
    let rate = |battery| {
        let model = array("raid0", (4, "hdd-10k"), cache, battery);
        writes(&model, depth, Nanos::ZERO, (60, 120)).0
    };
    rate(true) / rate(false)
}

/// X-bit labs, four drives of 10 000 rpm as RAID 0, random writes of 8 KB, write-back against write-through: up to 7.5
/// times as fast on a 3ware 9500S-8 (128 MB), up to 6 times on an 8506-8 (2.25 MB), the less the more are in flight.
#[test]
fn write_back_gains_what_was_measured_with_each_cache_and_less_with_more_in_flight() {
    let (large, small) = (128 << 20, 2_359_296);
    let (of_large, of_small) = (gain(large, 1), gain(small, 1));
    assert!((0.8 * 7.5..=7.5).contains(&of_large), "{of_large}");
    assert!((0.8 * 6.0..=6.0).contains(&of_small), "{of_small}");
    for cache in [large, small] {
        let gains = [1, 16, 256].map(|depth| gain(cache, depth));
        assert!(
            gains.is_sorted_by(|before, after| before > after),
            "{gains:?}"
        );
        assert!(gains[2] > 1.0, "{gains:?}");
    }
}

/// A database server whose battery failed: writes took just under 30 ms longer. Neither the array nor the load is told: two
/// to four writers at a time on five 7200 rpm drives as RAID 5 give it, a single one gives the 20 ms that its engineers expected.
#[test]
fn a_failed_battery_costs_what_was_measured_on_an_array_and_a_load_of_that_kind() {
    let time = |battery, writers| {
        let model = array("raid5", (5, "hdd-7200"), 512 << 20, battery);
        writes(&model, writers, Nanos::from_millis(50), (0, 60)).1 / MS
    };
    let longer = [1, 2, 4].map(|writers| time(false, writers) - time(true, writers));
    assert!((20.0..25.0).contains(&longer[0]), "{longer:?}");
    assert!(longer[1] < 30.0 && 30.0 < longer[2], "{longer:?}");
}

/// "Microseconds rather than milliseconds" (HP's brief on Smart Arrays): as long as there is room.
#[test]
fn a_write_into_the_cache_takes_microseconds() {
    let model = array("raid10", (8, "hdd-15k"), 512 << 20, true);
    let (_, mean) = writes(&model, 4, Nanos::from_millis(50), (0, 30));
    assert!(mean < 0.2 * MS, "{mean}");
}
