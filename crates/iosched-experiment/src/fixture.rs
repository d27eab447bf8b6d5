//! For tests: plans and records, made of nothing, and the recording of a simulated run.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use iosched_machine::facts::MachineFacts;
use iosched_switch::Arm;

use crate::load::{Outcome, Spec};
use crate::measure::Measured;
use crate::objective::Objective;
use crate::plan::{Plan, PlannedLoad, Rules, Target};
use crate::record::{Entry, Header, Record};
use crate::trial::{Flow, JobResult, Metrics, Phases, Slot, Trial};

/// A plan of this many arms and one load.
pub fn plan(arms: usize) -> Plan {
    let names = ["none", "mq-deadline", "kyber", "bfq"];
    Plan {
        target: Target::Device {
            device: "sda".into(),
            path: "/dev/sda".into(),
            writes: false,
        },
        given_up: None,
        emulated: None,
        own_disk: None,
        disks: vec!["sda".into()],
        arms: names[..arms].iter().map(|&name| Arm::plain(name)).collect(),
        baseline: 0,
        active: Some(0),
        loads: vec![PlannedLoad {
            name: "random-read".into(),
            weight: 1.0,
            objective: Objective::Throughput,
            spec: Spec::JobFile("[random-read]\nrw=randread\n".into()),
            test: None,
            note: None,
            is_control: false,
            turns: 1,
            runtime_s: Some(10.0),
            counted_s: None,
            is_runtime_auto: false,
            wait_until_steady: false,
        }],
        rules: Rules::default(),
        seed: 1,
        ramp_s: 0.0,
        precondition: false,
        split: false,
    }
}

/// An empty record of a plan.
pub fn record(plan: &Plan) -> Record {
    Record {
        header: Header::new(
            vec!["iosched".into(), "tune".into()],
            0.0,
            MachineFacts::default(),
            plan.clone(),
        ),
        entries: Vec::new(),
    }
}

/// A trial with this throughput in bytes per second, of 4 KiB reads that all took the same time.
pub fn trial(slot: Slot, throughput: f64) -> Entry {
    let iops = throughput / 4096.0;
    let jobs = vec![JobResult {
        name: "random-read".into(),
        read: Some(Flow {
            ios: 1000,
            bytes: 4_096_000,
            bytes_per_s: throughput,
            iops,
            latency_mean_ns: 32e9 / iops,
            latency_max_ns: 2_000_000,
            latency_bins: vec![(1_000_000, 990), (2_000_000, 10)],
        }),
        write: None,
        trim: None,
        transactions: None,
    }];
    let measured = Measured {
        reads: 1000,
        writes: 0,
        reads_merged: 0,
        writes_merged: 0,
        read_bytes: 4_096_000,
        write_bytes: 0,
        read_await_ns: Some(1e6),
        write_await_ns: None,
        average_queue_length: 32.0,
        utilisation: 1.0,
        cpu_busy_ns: 50_000_000,
        pressure_some_ns: Some(0),
        pressure_full_ns: Some(0),
        others_cpu_ns: None,
        split: None,
        course: None,
    };
    let outcome = Outcome {
        jobs: jobs.clone(),
        ..Outcome::default()
    };
    let metrics = Metrics::of(&outcome, &measured, Duration::from_secs(10));
    Entry::Trial(Box::new(Trial {
        slot,
        sequence: 0,
        started_unix_s: 0.0,
        phases: Phases {
            load_ns: 10_000_000_000,
            ..Phases::default()
        },
        states: Vec::new(),
        measured,
        jobs,
        metrics,
        counted_s: None,
        runtime_s: None,
        interference: None,
        beside: Vec::new(),
    }))
}
