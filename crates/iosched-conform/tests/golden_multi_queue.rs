//! Recordings of Linux 6.1's own none, mq-deadline, kyber and bfq (of 6.18's mq-deadline and bfq, and 7.1's none and bfq),
//! followed by ours.
//!
//! 6.1: one CPU, HZ 250; `sd1`, `sd4`: SCSI disks of queue depth 1 and 4, 1 ms per command; `hdd1`: a loop
//! device of depth 1 with look-ahead. 7.1: `nb32` is a null block device of depth 32; adios and kpp are built in. 6.18: two CPUs, a loop device of depth 4, and no record of what
//! the scheduler dispatched.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use iosched_conform::multi_queue::{Recording, Until, follow};
use iosched_conform::{Beside, Exact, Report};
use iosched_sim::scheduler::{Kernel, SchedulerSpec, build_followed, parse_settings};
use iosched_sim::units::Nanos;

fn read(compressed: &[u8]) -> Recording {
    let mut recording = Recording::default();
    for line in BufReader::new(GzDecoder::new(compressed)).lines() {
        recording.line(&line.unwrap()).unwrap();
    }
    recording
}

fn follow_at(recording: &Recording, scheduler: &str, phase: Option<Nanos>) -> Report {
    follow_from("", recording, scheduler, phase)
}

/// The same, from what the scheduler had learnt before the recording.
fn follow_from(
    initial: &str,
    recording: &Recording,
    scheduler: &str,
    phase: Option<Nanos>,
) -> Report {
    let mut kernel = kernel_of(recording);
    kernel.tick_phase = phase.unwrap_or(kernel.tick_phase);
    follow_in(&kernel, initial, recording, scheduler)
}

/// The recorded kernel, as far as it says.
fn kernel_of(recording: &Recording) -> Kernel {
    let kernel = Kernel {
        hz: 250,
        monotonic_zero: recording.monotonic_zero(),
        version: recording.version().unwrap(),
        ..Kernel::default()
    };
    Kernel {
        tick_phase: recording.tick_phase(&kernel).unwrap_or_default(),
        ..kernel
    }
}

fn follow_in(kernel: &Kernel, initial: &str, recording: &Recording, scheduler: &str) -> Report {
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    let initial = parse_settings(initial).unwrap();
    let scheduler = build_followed(&spec, kernel, &initial).unwrap();
    let device = recording.device();
    follow(Until::End, recording, scheduler, kernel, device).0
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
    none_of_7_1_with_plugs_that_are_issued_in_order,
    "none-7.1-sd4-m1_rexpire",
    "none",
    2384
);
golden!(
    bfq_of_7_1_with_a_process_that_ends_when_it_is_through,
    "bfq-7.1-sd1-f2_think12_aiow",
    "bfq",
    1509
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
fn bfq_of_7_1_does_not_merge_queues_on_flash_that_queues_commands() {
    let recording = read(include_bytes!(
        "golden/bfq-7.1-nb32-nonrot-d_mixed_aio.txt.gz"
    ));
    let follow = |rotational| {
        let kernel = Kernel {
            rotational,
            ..kernel_of(&recording)
        };
        let report = follow_in(&kernel, "", &recording, "bfq");
        (report.agreed, report.decisions)
    };
    assert_eq!(follow(false), (4081, 4081));
    assert!(follow(true).0 < 4000, "{:?}", follow(true));
}

golden!(
    kpp_whose_counters_run_on,
    "kpp-7.1-sd1-a_rand4",
    "kpp",
    1484
);

/// A reader of one of the files beside a recording.
macro_rules! beside {
    ($beside:expr, $exact:ident, $ending:literal) => {
        let file = include_bytes!(concat!("golden/adios-7.1-hdd1-a_rand4", $ending, ".gz"));
        for line in BufReader::new(GzDecoder::new(&file[..])).lines() {
            $beside.line(Exact::$exact, &line.unwrap()).unwrap();
        }
    };
}

#[test]
fn adios_from_its_start_with_the_times_that_it_saw() {
    let mut recording = read(include_bytes!("golden/adios-7.1-hdd1-a_rand4.txt.gz"));
    let mut beside = Beside::default();
    beside!(beside, Starts, ".start");
    beside!(beside, Completions, ".done");
    recording.refine(&beside);
    let report = follow_at(&recording, "adios", None);
    let first = report.first_disagreements.first();
    assert_eq!((report.agreed, report.decisions), (588, 588), "{first:?}");
}

/// What bfq had learnt before a recording, and where its ticks began (microseconds after the first bio).
fn follow_bfq(recording: &Recording, scheduler: &str, edge_us: u64, initial: &str) -> Report {
    let phase = Nanos::from_micros(4000 - edge_us);
    follow_from(initial, recording, scheduler, Some(phase))
}

macro_rules! bfq {
    ($name:ident, $file:literal, $edge_us:literal, $decisions:literal, $initial:expr) => {
        #[test]
        fn $name() {
            let recording = read(include_bytes!(concat!("golden/bfq-", $file, ".txt.gz")));
            let report = follow_bfq(&recording, "bfq", $edge_us, &$initial.concat());
            assert_eq!(report.decisions, $decisions);
            let first = report.first_disagreements.first();
            assert_eq!(report.agreed, $decisions, "{first:?}");
            assert_eq!((report.unexplained, report.ended), (0, 0));
        }
    };
}

bfq!(
    bfq_from_its_start_with_four_readers_that_become_one,
    "hdd1-a_rand4",
    2000,
    599,
    [""]
);

bfq!(
    bfq_with_deep_writers_that_end_beside_readers,
    "hdd1-d_mixed_aio",
    2000,
    595,
    [
        "hw-tag=0,hw-samples=0,max-in-driver=2,budgets=249,peak-rate=9333,",
        "max-budget=16384,last-position=12510856,rate-samples=2,rate-sequential=0,",
        "rate-sectors=136,rate-largest=128,rate-interval=9447,rate-last-completion=27585,",
        "be-weight-1=1200,be-ahead-1=21654965,be-weight-2=1200,be-ahead-2=85856684",
    ]
);

bfq!(
    bfq_with_real_time_and_the_idle_class,
    "hdd1-e3_rt_be_idle",
    1960,
    375,
    [
        "hw-tag=0,hw-samples=27,max-in-driver=2,budgets=249,peak-rate=7843,",
        "max-budget=14839,last-position=10105432,rate-samples=0,rate-sequential=0,",
        "rate-sectors=16,rate-largest=8,rate-interval=5897,rate-last-completion=16454,",
        "be-weight-1=80,be-ahead-1=31768717,be-weight-2=80,be-ahead-2=719455732,",
        "be-weight-3=10,be-ahead-3=2401550906",
    ]
);

bfq!(
    bfq_with_sequential_readers,
    "hdd1-h_2seq",
    1760,
    474,
    [
        "hw-tag=0,hw-samples=32,max-in-driver=2,budgets=249,peak-rate=6673,",
        "max-budget=12625,last-position=1058464,rate-samples=0,rate-sequential=0,",
        "rate-sectors=1360,rate-largest=128,rate-interval=191606,",
        "rate-last-completion=210194,rt-weight-1=80,rt-ahead-1=5,be-weight-1=1200,",
        "be-ahead-1=40647566,be-weight-2=80,be-ahead-2=556763810,be-weight-3=10,",
        "be-ahead-3=2238858984",
    ]
);

bfq!(
    bfq_with_processes_that_read_one_file_in_turns,
    "hdd1-i_interleave",
    1760,
    616,
    [
        "hw-tag=0,hw-samples=32,max-in-driver=2,budgets=249,peak-rate=6673,",
        "max-budget=12625,last-position=30336,rate-samples=92,rate-sequential=0,",
        "rate-sectors=11776,rate-largest=128,rate-interval=963265,",
        "rate-last-completion=984375,rt-weight-1=80,rt-ahead-1=5,be-weight-1=1200,",
        "be-ahead-1=103226057,be-weight-2=80,be-ahead-2=478617043,be-weight-3=10,",
        "be-ahead-3=2160712217",
    ]
);

bfq!(
    bfq_of_6_18_without_decisions,
    "6.18-hdd4-b_seq_rand",
    2000,
    168,
    [""]
);

#[test]
fn bfq_on_two_processors_that_each_hold_a_request_aside() {
    let recording = read(include_bytes!("golden/bfq-6.18-hdd4-l_rw_aio32.txt.gz"));
    let report = follow_bfq(&recording, "bfq", 2000, "");
    assert_eq!(report.decisions, 381);
    // What bfq had learnt before is not known.
    assert!(report.agreement() >= Some(0.98), "{report:?}");
    // Two processors are told from what two processes did at once.
    assert!(report.issued_out_of_order + report.chosen_ahead > 0);
    assert!(report.issued_out_of_order + report.chosen_ahead < 20);
}

#[test]
fn a_choice_of_bfq_that_is_issued_after_later_ones_leads_to_all_that_follows() {
    // Of 6.18, live: a reader of the idle class sleeps for a tag, and whenever one is given back it runs the queue, too.
    let recording = read(include_bytes!("golden/bfq-6.18-priorities.txt.gz"));
    let report = follow_bfq(&recording, "bfq", 0, "");
    assert_eq!(report.decisions, 152);
    let first = report.first_disagreements.first();
    assert_eq!(report.agreed, 152, "{first:?}");
    assert!(report.issued_out_of_order + report.chosen_ahead < 10);
    let other = follow_bfq(&recording, "bfq:fifo_expire_sync=1000", 0, "");
    assert!(
        other.agreement() < Some(0.95),
        "hindsight does not excuse a wrong rule"
    );
}

#[test]
fn with_other_tunables_bfq_decides_otherwise() {
    let recording = read(include_bytes!("golden/bfq-hdd1-a_rand4.txt.gz"));
    for other in ["bfq:low_latency=0", "bfq:slice_idle=0", "bfq:max_budget=16"] {
        let report = follow_bfq(&recording, other, 2000, "");
        assert!(report.agreed < report.decisions, "{other}");
    }
}

#[test]
fn kyber_changes_its_depths_in_the_recorded_ticks_told_of_them_or_not() {
    const TARGETS: &str = "kyber:read_lat_nsec=100000,write_lat_nsec=100000000";
    let told = include_bytes!("golden/kyber-sd32-throttled.txt.gz");
    let phase = Some(kernel_of(&read(told)).tick_phase);
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
    assert!(other_targets.agreement() < Some(0.99), "{other_targets:?}");
}

#[test]
fn on_two_cpus_the_order_of_arrival_is_not_always_the_recorded_one() {
    let recording = read(include_bytes!(
        "golden/mq-deadline-6.18-hdd4-l_rw_aio32.txt.gz"
    ));
    let report = follow_at(&recording, "mq-deadline", None);
    assert_eq!(report.decisions, 403);
    // Where it was in its batch before is not known either, nor where ticks began.
    assert!(report.agreement() >= Some(0.99), "{report:?}");
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
        assert!(first.recorded != first.ours, "{first:?}");
    }
}

#[test]
fn what_the_recorded_kyber_said_tells_where_ticks_begin() {
    let recording = read(include_bytes!("golden/kyber-sd1-l_rw_aio32.txt.gz"));
    // The first line is at 102 097 µs, 5 µs after the tick began.
    assert_eq!(
        kernel_of(&recording).tick_phase,
        Nanos::from_micros(4000 - 102_092 % 4000)
    );
}
