//! Recordings of Linux 6.1's own none, mq-deadline and kyber (and of 6.18's mq-deadline), followed by
//! ours.
//!
//! 6.1: one CPU, HZ 250; `sd1`, `sd4`: SCSI disks of queue depth 1 and 4, 1 ms per command; `hdd1`: a loop
//! device of depth 1 with look-ahead. 6.18: two CPUs, a loop device of depth 4, and no record of what
//! the scheduler gave out.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use iosched_sim::conform::Report;
use iosched_sim::conform::multi_queue::{Recording, follow};
use iosched_sim::scheduler::{Kernel, SchedulerSpec, build_followed};
use iosched_sim::units::Nanos;

fn read(compressed: &[u8]) -> Recording {
    let mut recording = Recording::default();
    for line in BufReader::new(GzDecoder::new(compressed)).lines() {
        recording.line(&line.unwrap()).unwrap();
    }
    recording
}

fn follow_at(recording: &Recording, scheduler: &str, phase: Option<Nanos>) -> Report {
    let kernel = Kernel {
        hz: 250,
        tick_phase: phase.or(recording.tick_phase(250)).unwrap_or_default(),
        version: recording.version().unwrap(),
        ..Kernel::default()
    };
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    let scheduler = build_followed(&spec, &kernel, &Vec::new()).unwrap();
    follow(recording, scheduler, &kernel, recording.device()).0
}

macro_rules! golden {
    ($name:ident, $file:literal, $scheduler:literal, $decisions:literal) => {
        #[test]
        fn $name() {
            let recording = read(include_bytes!(concat!("golden/", $file, ".txt.gz")));
            let report = follow_at(&recording, $scheduler, None);
            assert_eq!(report.decisions, $decisions);
            let first = report.first_disagreements.first();
            assert_eq!(report.agreed, $decisions, "{first:?}");
            assert_eq!(report.unexplained, 0);
        }
    };
}

golden!(
    none_with_a_tag_to_wait_for,
    "none-hdd1-d_mixed_aio",
    "none",
    659
);
golden!(
    none_with_a_slot_to_wait_for,
    "none-sd1-l_rw_aio32",
    "none",
    2040
);
golden!(
    mq_deadline_with_look_ahead,
    "mq-deadline-hdd1-d_mixed_aio",
    "mq-deadline",
    789
);
golden!(
    mq_deadline_with_batches_of_both_kinds,
    "mq-deadline-sd1-l_rw_aio32",
    "mq-deadline",
    2034
);
golden!(
    kyber_with_look_ahead,
    "kyber-hdd1-f1_think2_aiow",
    "kyber",
    606
);
golden!(
    kyber_with_batches_of_both_kinds,
    "kyber-sd1-l_rw_aio32",
    "kyber",
    2034
);
golden!(
    mq_deadline_with_merges_in_front,
    "mq-deadline-sd2-reverse",
    "mq-deadline",
    761
);
golden!(
    kyber_with_merges_in_front,
    "kyber-sd2-reverse",
    "kyber",
    605
);
golden!(
    mq_deadline_with_classes_that_age,
    "mq-deadline-sd4-ageing",
    "mq-deadline:prio_aging_expire=20",
    2677
);
golden!(
    mq_deadline_of_6_12_with_classes_that_age,
    "mq-deadline-6.12-sd4-ageing",
    "mq-deadline:prio_aging_expire=20",
    1690
);
golden!(
    mq_deadline_of_6_18_without_decisions,
    "mq-deadline-6.18-hdd4-b_seq_rand",
    "mq-deadline",
    174
);

#[test]
fn kyber_changes_its_depths_in_the_recorded_ticks_told_of_them_or_not() {
    const TARGETS: &str = "kyber:read_lat_nsec=100000,write_lat_nsec=100000000";
    let told = include_bytes!("golden/kyber-sd32-throttled.txt.gz");
    let phase = read(told).tick_phase(250);
    let mut untold = Recording::default();
    for line in BufReader::new(GzDecoder::new(&told[..])).lines() {
        let line = line.unwrap();
        if !line.starts_with("# kyber") {
            untold.line(&line).unwrap();
        }
    }
    for recording in [&read(told), &untold] {
        let report = follow_at(recording, TARGETS, phase);
        assert_eq!((report.agreed, report.decisions), (6997, 6997));
        assert_eq!(report.depth_changes_agreed, report.depth_changes);
    }
    assert_eq!(follow_at(&read(told), TARGETS, phase).depth_changes, 3);
    let other_targets = follow_at(&untold, "kyber", phase);
    assert!(other_targets.agreement() < 0.99, "{other_targets:?}");
}

#[test]
fn on_two_cpus_the_order_of_arrival_is_not_always_the_recorded_one() {
    let recording = read(include_bytes!(
        "golden/mq-deadline-6.18-hdd4-l_rw_aio32.txt.gz"
    ));
    let report = follow_at(&recording, "mq-deadline", None);
    assert_eq!(report.decisions, 403);
    // Where it was in its batch before is not known either, nor where ticks began.
    assert!(report.agreement() >= 0.99, "{}", report.agreement());
}

#[test]
fn a_class_that_is_held_back_is_asked_for_again_at_the_edge_of_a_tick() {
    let recording = read(include_bytes!(
        "golden/mq-deadline-sd4-e3_rt_be_idle.txt.gz"
    ));
    assert_eq!(recording.device().queue_depth, 4);
    let at = |micros| follow_at(&recording, "mq-deadline", Some(Nanos::from_micros(micros)));
    let right = at(2206);
    assert_eq!((right.agreed, right.decisions), (865, 865));
    assert_eq!(right.eager, 0, "at no moment would ours not have held back");
    assert!(at(3000).eager > 100, "at another phase it would");
}

#[test]
fn the_rules_of_another_kernel_or_scheduler_disagree() {
    let recording = read(include_bytes!("golden/mq-deadline-hdd1-d_mixed_aio.txt.gz"));
    for other in [
        "mq-deadline:kernel=6.12",
        "mq-deadline:fifo_batch=4",
        "kyber",
        "none",
    ] {
        let report = follow_at(&recording, other, None);
        assert!(report.agreed < report.decisions, "{other}");
        let first = &report.first_disagreements[0];
        assert!(
            !first.why.is_empty() && first.recorded != first.ours,
            "{first:?}"
        );
    }
}

#[test]
fn what_the_recorded_kyber_said_tells_where_ticks_begin() {
    let recording = read(include_bytes!("golden/kyber-sd1-l_rw_aio32.txt.gz"));
    // The first line is at 102 097 µs, 5 µs after the tick began.
    assert_eq!(
        recording.tick_phase(250),
        Some(Nanos::from_micros(4000 - 102_092 % 4000))
    );
}
