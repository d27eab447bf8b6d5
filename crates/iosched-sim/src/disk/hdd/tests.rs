//! What every hard disk keeps, whatever is asked of it: times that the mechanics allow, the promised
//! order, the ends of the disk.

use proptest::prelude::*;

use super::*;
use crate::disk::{DriveQueue, Interface, Parameters, models};

/// The parameters of all hard disks that come with the program, made small.
pub(super) fn any_hdd() -> impl Strategy<Value = HddParameters> {
    let parameters = models()
        .into_iter()
        .filter_map(|model| match model.parameters {
            Parameters::Hdd(hdd) => Some(HddParameters {
                interface: Interface {
                    capacity: Bytes::from_mib(64).to_sectors(),
                    ..hdd.interface
                },
                ..hdd
            }),
            _ => None,
        });
    let measured = HddParameters {
        layout: Layout::Exact {
            zones: vec![zone(0, 99, 120), zone(101, 300, 80)],
            heads: HeadOrder::Alternating,
            spares: Spares::SectorsPerTrack,
        },
        interface: Interface {
            capacity: Sectors::new(8 * (100 * 119 + 200 * 79)),
            queue_depth: 1,
            write_cache: false,
        },
        surfaces: 8,
        ..super::super::presets::hdd("hdd-10k")
    };
    let all: Vec<_> = parameters.chain([measured]).collect();
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), 0..=1000_u32);
    (prop::sample::select(all), switches).prop_map(|(hdd, switches)| {
        let (zero_latency, keeps, ahead, threshold_permille) = switches;
        HddParameters {
            reading: Reading {
                zero_latency,
                keeps_passing: keeps,
                threshold_permille,
                ahead: if ahead {
                    ReadAhead::TrackByTrack
                } else {
                    hdd.reading.ahead
                },
                ahead_distance: hdd.reading.ahead_distance.filter(|_| !ahead),
                ..hdd.reading
            },
            writing: Writing {
                zero_latency,
                keeps_written: keeps,
                ..hdd.writing
            },
            ..hdd
        }
    })
}

fn zone(first_cylinder: u32, last_cylinder: u32, sectors_per_track: u32) -> ExactZone {
    ExactZone {
        first_cylinder,
        last_cylinder,
        sectors_per_track,
        track_skew_sectors: 20.5,
        cylinder_skew_sectors: 40.0,
        offset_sectors: 3.0,
        unused_sectors: 0,
        spares: 1,
    }
}

fn command(tag: u64, op: DiskOp, start: u64, length: u64) -> Command {
    Command {
        tag,
        op,
        start: Sector::new(start),
        length: Sectors::new(length),
        fua: false,
    }
}

/// Commands as (is it a read, where as a share of the disk, length), some at the ends.
fn commands() -> impl Strategy<Value = Vec<(bool, f64, u64)>> {
    let place = prop_oneof![Just(0.0), Just(1.0), 0.0..1.0_f64];
    let length = prop_oneof![Just(1_u64), Just(8), 1..3000_u64];
    prop::collection::vec((any::<bool>(), place, length), 1..40)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a small disk"
)]
fn to_command(tag: u64, (read, place, length): (bool, f64, u64), capacity: u64) -> Command {
    let length = length.min(capacity);
    let start = (place * (capacity - length) as f64) as u64;
    let op = if read { DiskOp::Read } else { DiskOp::Write };
    command(tag, op, start, length)
}

/// All commands at once; their completions.
fn all_at_once(disk: &mut Hdd, load: &[(bool, f64, u64)]) -> Vec<Completion> {
    let capacity = disk.capacity().as_u64();
    for (tag, one) in (0_u64..).zip(load) {
        disk.submit(Time::ZERO, to_command(tag, *one, capacity));
    }
    let mut completed = Vec::new();
    disk.advance(Time::MAX, &mut completed);
    completed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_command_is_done_before_the_electronics_and_the_link_allow(
        hdd in any_hdd(), load in commands(), seed in any::<u64>(),
    ) {
        let overheads = hdd.overheads;
        let (link, write_cache) = (hdd.link, hdd.interface.write_cache);
        let mut disk = Hdd::new(hdd, seed);
        let capacity = disk.capacity().as_u64();
        let mut now = Time::ZERO;
        for (tag, one) in (0_u64..).zip(&load) {
            let command = to_command(tag, *one, capacity);
            disk.submit(now, command);
            let mut completed = Vec::new();
            while completed.is_empty() {
                let event = disk.next_event().unwrap();
                disk.advance(event, &mut completed);
            }
            prop_assert_eq!(completed.len(), 1);
            let (rate, overhead) = match command.op {
                DiskOp::Read => (link, overheads.read_hit.min(*overheads.read_miss)),
                _ if write_cache => (link, overheads.write_hit.min(*overheads.write_miss)),
                _ => (link, *overheads.write_miss),
            };
            let least = overhead + Pace::new(rate.0).time(command.length);
            prop_assert!(completed[0].time - now >= least, "{command:?}: {completed:?}, {least}");
            now = completed[0].time;
        }
    }

    #[test]
    fn the_arm_of_a_drive_that_does_not_choose_serves_in_order(
        hdd in any_hdd(), load in commands(), depth in 1..40_usize,
    ) {
        // Nothing is in the buffer: all need the arm.
        let mut disk = Hdd::new(
            HddParameters {
                order: DriveQueue::Fifo,
                interface: Interface {
                    queue_depth: depth,
                    write_cache: false,
                    ..hdd.interface
                },
                reading: Reading { segments: 0, ..hdd.reading.clone() },
                ..hdd
            },
            1,
        );
        let mut completed = all_at_once(&mut disk, &load);
        prop_assert_eq!(completed.len(), load.len());
        completed.sort_unstable_by_key(|done| done.tag);
        prop_assert!(completed.is_sorted_by_key(|done| done.started), "{:?}", completed);
    }

    #[test]
    fn a_drive_that_chooses_passes_over_none_for_longer_than_its_limit(
        load in prop::collection::vec(0.0..1.0_f64, 40..200), seed in any::<u64>(),
    ) {
        let limit = Nanos::from_millis(60);
        let mut disk = Hdd::new(
            HddParameters {
                interface: Interface {
                    capacity: Bytes::from_mib(64).to_sectors(),
                    queue_depth: 32,
                    write_cache: true,
                },
                order: DriveQueue::ShortestAccessFirst,
                age_limit: Millis(limit),
                ..super::super::presets::hdd("hdd-7200-fifo")
            },
            seed,
        );
        let load: Vec<_> = load.into_iter().map(|place| (true, place, 8)).collect();
        let completed = all_at_once(&mut disk, &load);
        prop_assert_eq!(completed.len(), load.len());
        // Once past the limit a command waits for those that are older, 31 at most, each a longest
        // move and two turns.
        let longest = Nanos::from_millis(8 + 2 * 9);
        let mut ends: Vec<Time> = completed.iter().map(|done| done.time).collect();
        ends.sort_unstable();
        for done in &completed {
            let tag = usize::try_from(done.tag).unwrap();
            let entered = if tag < 32 { Time::ZERO } else { ends[tag - 32] };
            prop_assert!(done.time - entered <= limit + longest * 32, "{done:?} entered {entered}");
        }
    }

    #[test]
    fn zone_boundaries_and_the_whole_disk_can_be_crossed(hdd in any_hdd(), write in any::<bool>()) {
        let op = if write { DiskOp::Write } else { DiskOp::Read };
        let mut disk = Hdd::new(hdd, 1);
        let capacity = disk.capacity().as_u64();
        let mut completed = Vec::new();
        disk.submit(Time::ZERO, command(0, op, 0, capacity));
        disk.submit(Time::ZERO, command(1, op, capacity - 1, 1));
        disk.submit(Time::ZERO, command(2, DiskOp::Read, 0, 1));
        disk.advance(Time::MAX, &mut completed);
        prop_assert_eq!(completed.len(), 3);
        // The medium turns once for each track at least.
        let whole = completed.iter().find(|done| done.tag == 0).unwrap();
        prop_assert!(whole.time.as_nanos() > 1_000_000_000 / 20, "{:?}", whole);
    }
}
