//! Recordings of Linux 4.19's own noop, deadline and cfq, followed by ours: every decision agrees.
//!
//! The recordings were made on a simulated SCSI disk of 16 GiB with queue depth 1 (`fix1`: 1 ms per
//! command; `hdd1`: a formula of size and distance), HZ 1000, `max_sectors_kb` 512, cgroup scheduling
//! not compiled in. For cfq, the state that it had from the workloads before is given where it
//! matters.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use iosched_conform::Report;
use iosched_conform::single_queue::Follower;
use iosched_sim::block_layer::{MergeLimits, Merging};
use iosched_sim::scheduler::{
    self, Followed, Kernel, SchedulerSpec, build_followed, parse_settings,
};
use iosched_sim::units::Sectors;

fn follow(compressed: &[u8], scheduler: &str, initial: &str) -> Report {
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    let initial = parse_settings(initial).unwrap();
    let scheduler = build_followed(&spec, &Kernel::default(), &initial).unwrap();
    follow_with(compressed, scheduler).0
}

#[track_caller]
fn assert_agrees(report: &Report, decisions: u64) {
    assert_eq!(report.decisions, decisions);
    assert_eq!(
        report.agreed,
        decisions,
        "{:?}",
        report.first_disagreements.first()
    );
    assert_eq!(report.eager, 0, "held back less than the kernel");
    assert_eq!(report.merge_mismatches, 0);
    assert_eq!(report.unexplained, 0);
}

macro_rules! golden {
    ($name:ident, $file:literal, $scheduler:literal, $initial:literal, $decisions:literal) => {
        #[test]
        fn $name() {
            let recording = include_bytes!(concat!("golden/", $file, ".txt.gz"));
            assert_agrees(&follow(recording, $scheduler, $initial), $decisions);
        }
    };
}

golden!(
    noop_on_mixed_loads,
    "noop-hdd1-d_mixed_aio",
    "noop",
    "",
    1220
);
golden!(
    deadline_on_mixed_loads,
    "deadline-hdd1-d_mixed_aio",
    "deadline",
    "",
    1573
);
golden!(
    deadline_on_a_faster_disk,
    "deadline-fix1-d_mixed_aio",
    "deadline",
    "",
    3015
);
golden!(
    cfq_on_four_random_readers,
    "cfq-fix1-a_rand4",
    "cfq",
    "",
    2982
);
golden!(
    cfq_on_three_priorities,
    "cfq-fix1-e1_prio_seq",
    "cfq",
    "average=3",
    2908
);
golden!(
    cfq_on_mixed_loads,
    "cfq-hdd1-d_mixed_aio",
    "cfq",
    "average=3,last-position=17530752",
    3960
);
golden!(
    cfq_on_a_reader_that_thinks,
    "cfq-hdd1-f1_think2_aiow",
    "cfq",
    "average=2,last-position=17729920",
    1615
);

/// Follows a recording with a scheduler, and says what comes out and what state it leaves.
fn follow_with(compressed: &[u8], scheduler: Box<dyn Followed>) -> (Report, Box<dyn Followed>) {
    let limits = MergeLimits {
        max_sectors: Sectors::new(1024),
        merging: Merging::Full,
    };
    let mut follower = Follower::new(scheduler, limits, 1);
    for line in BufReader::new(GzDecoder::new(compressed)).lines() {
        follower.line(&line.unwrap()).unwrap();
    }
    follower.finish()
}

/// cfq as attached, told this.
fn cfq(initial: &str) -> Box<dyn Followed> {
    let initial = parse_settings(initial).unwrap();
    let spec = SchedulerSpec::parse("cfq").unwrap();
    build_followed(&spec, &Kernel::default(), &initial).unwrap()
}

#[test]
fn what_cfq_saw_in_one_recording_decides_in_the_next() {
    // Made one after the other on one boot.
    let first = include_bytes!("golden/cfq-fix1-a_rand4.txt.gz");
    let second = include_bytes!("golden/cfq-fix1-b_seq_rand.txt.gz");
    let third = include_bytes!("golden/cfq-fix1-d_mixed_aio.txt.gz");
    let mut scheduler = cfq("");
    for (recording, decisions) in [(&first[..], 2982), (second, 2912), (third, 2976)] {
        let (report, left) = follow_with(recording, scheduler);
        assert_agrees(&report, decisions);
        scheduler = left.carried_over(&Kernel::default()).unwrap();
    }
    let cold = follow(third, "cfq", "");
    assert!(cold.agreed < cold.decisions, "the state must matter");
}

#[test]
fn how_long_those_think_that_cfq_does_not_wait_for_is_carried_and_can_be_told() {
    let first = include_bytes!("golden/cfq-hdd1-f1_think2_aiow.txt.gz");
    let second = include_bytes!("golden/cfq-hdd1-f2_think12_aiow.txt.gz");
    let (report, left) = follow_with(first, cfq("average=2,last-position=17729920"));
    assert_agrees(&report, 1615);
    // Loads before the first, which were not recorded, left a long mean in that tree.
    let mut scheduler = left.carried_over(&Kernel::default()).unwrap();
    let told = parse_settings("noidle-think=8000").unwrap();
    scheduler::tell(scheduler.as_mut(), &told).unwrap();
    assert_agrees(&follow_with(second, scheduler).0, 1631);
}

#[test]
fn a_scheduler_that_is_not_the_recorded_one_disagrees() {
    let recording = include_bytes!("golden/deadline-hdd1-d_mixed_aio.txt.gz");
    let report = follow(recording, "noop", "");
    assert!(report.agreement() < Some(0.9), "{report:?}");
    let other_batch = follow(recording, "deadline:fifo_batch=4", "");
    assert!(other_batch.agreement() < Some(0.99), "{other_batch:?}");
    let first = &other_batch.first_disagreements[0];
    assert!(first.time_us > 0.0, "{first:?}");
}

#[test]
fn following_from_an_unknown_state_still_agrees_on_nearly_all() {
    let recording = include_bytes!("golden/cfq-hdd1-d_mixed_aio.txt.gz");
    let report = follow(recording, "cfq", "");
    assert!(report.agreement() > Some(0.998), "{report:?}");
}
