//! Readers of journals, loads, what programs print, and recordings, as functions of bytes: for fuzzing.
//!
//! See [`iosched_testing::fuzz`]: what a reader promises, and who runs this list.

use std::io::{Cursor, Read};
use std::time::Duration;

use iosched_machine::foreign;
use iosched_machine::fuzz::entry_is_read_again;
use iosched_sim::trace::kernel::{Line, Reader};
use iosched_sim::trace::write_event;
use iosched_sim::units::{Nanos, Sectors, Time};
use iosched_sim::workload::fio_job;
use iosched_testing::fuzz::{KIB, MIB, NOWHERE, Target, file, target, utf8};

use crate::load::fio_job::{CountedWindow, JobFile, JobTarget, TrialSettings};
use crate::load::pgbench::output;
use crate::load::{Outcome, command, fio};
use crate::measure::Measured;
use crate::simulate::file::decompressed;
use crate::simulate::settings::{self, SchedulerRequest};
use crate::simulate::{conform as following, recordings};
use crate::trial::{JobResult, Metrics};
use iosched_switch::journal;

/// What is compressed may refer far back, see [`crate::simulate::file`].
const WINDOW: usize = 400 * MIB;

/// The readers of this crate.
pub const TARGETS: &[Target] = &[
    target("journal", journal, 64 * KIB, 100),
    target("fio-job", fio_job, 32 * MIB, 200),
    // What programs print.
    target("fio-output", fio_output, 64 * KIB, 100),
    target("pgbench-output", pgbench_output, 64 * KIB, 50),
    target("command-output", command_output, 256 * KIB, 100),
    // Recordings.
    target("events", events, 64 * KIB, 50),
    target("conform", conform, WINDOW, 400),
    target("tunables", tunables, WINDOW, 50),
    target("compressed", compressed, WINDOW, 0),
];

fn journal(bytes: &[u8]) {
    entry_is_read_again::<journal::Entry>(bytes, journal::SCHEMA);
}

fn fio_job(bytes: &[u8]) {
    let Some(text) = utf8(bytes) else {
        return;
    };
    if let Ok(file) = JobFile::parse(NOWHERE, text) {
        let settings = TrialSettings {
            place: JobTarget::Path("/dev/loop9".into()),
            runtime: None,
            ramp: None,
            counted: None,
            seed: 7,
            shift: 0,
        };
        let _ = (file.writes(), file.reads(), file.workers());
        let _ = (file.duration(&settings), file.has_runtime(), file.fills());
        let _ = file.files(1 << 30);
        let composed = file.compose(&settings);
        // The target is named last in every section, where it wins.
        let sections = composed.lines().filter(|line| line.starts_with('['));
        let targets = composed
            .lines()
            .filter(|line| line.starts_with("filename=/dev/loop9"));
        assert_eq!(sections.count(), targets.count(), "{composed}");
    }
    let _ = fio_job::parse(text, Sectors::new(1 << 30));
}

fn fio_output(bytes: &[u8]) {
    let window = CountedWindow {
        ramp: Duration::ZERO,
        counted: Duration::from_secs(1),
        runtime: Duration::from_secs(u64::MAX),
    };
    for window in [None, Some(&window)] {
        if let Some(Ok(measured)) = utf8(bytes).map(|text| fio::read_result(text, window)) {
            is_kept(measured.jobs, None);
        }
    }
}

/// What a load gave is refused, or can be recorded with all that is worked out of it.
fn is_kept(jobs: Vec<JobResult>, number: Option<f64>) {
    let outcome = Outcome {
        jobs,
        number,
        ..Outcome::default()
    };
    let measured = Measured {
        cpu_busy_ns: 1,
        ..Measured::default()
    };
    let metrics = Metrics::of(&outcome, &measured, Duration::from_secs(1));
    if outcome.check(&metrics).is_ok() {
        // What a run writes of it beside the trial itself.
        let rate = metrics.throughput_bytes_per_s;
        assert_eq!(foreign::check_kept(&rate), Ok(()), "{outcome:?}");
    }
}

fn pgbench_output(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let report = output::Report::read(&text);
    let tps = report.map_or(1.0, |report| report.tps);
    let slowest = output::slowest_second(&text);
    if let Some(flow) = output::transactions(&[text], tps) {
        let job = JobResult {
            name: "pgbench".into(),
            read: None,
            write: None,
            trim: None,
            transactions: Some(flow),
        };
        is_kept(vec![job], slowest);
    }
}

fn command_output(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let number = command::json_number(&text, "/a/0");
    is_kept(Vec::new(), number.map(|printed| printed.value));
    let pattern = regex_lite::Regex::new("rate ([^ ]+)").expect("it is a pattern");
    let number = command::last_match(&pattern, &text);
    is_kept(Vec::new(), number.map(|printed| printed.value));
}

fn events(bytes: &[u8]) {
    let Some(text) = utf8(bytes) else {
        return;
    };
    let zero = Nanos::from_secs(1000);
    let mut reader = Reader::new(zero);
    for line in text.lines() {
        let Ok(Some(Line::Event(event))) = reader.read(line) else {
            continue;
        };
        let mut written = String::new();
        write_event(&mut written, Time::ZERO + zero, &event).expect("text takes what is written");
        let again = Reader::new(zero).read(written.trim_end());
        let Ok(Some(Line::Event(again))) = again else {
            panic!("{again:?}: {written} of {line}");
        };
        let told = |event: &iosched_sim::trace::kernel::TraceEvent| {
            (
                event.op,
                event.start,
                event.length,
                event.process,
                event.priority,
                event.cpu,
            )
        };
        assert_eq!(told(&again), told(&event), "{written} of {line}");
    }
}

fn conform(bytes: &[u8]) {
    let recording = file("recording.txt", bytes);
    let scheduler = recordings::named_scheduler(&recording);
    let wanted = SchedulerRequest {
        scheduler: scheduler.unwrap_or_else(|| "mq-deadline".into()),
        ..SchedulerRequest::default()
    };
    let _ = following::follow_all(&[recording], &wanted, None, |_| {});
}

fn tunables(bytes: &[u8]) {
    let tunables = file("tunables.txt", bytes);
    for scheduler in [
        "none",
        "mq-deadline",
        "kyber",
        "bfq",
        "noop",
        "deadline",
        "cfq",
    ] {
        let wanted = SchedulerRequest {
            scheduler: scheduler.into(),
            tunables: Some(tunables.clone()),
            ..SchedulerRequest::default()
        };
        if let Ok(checked) = settings::checked(&wanted) {
            let _ = checked.build();
        }
    }
}

fn compressed(bytes: &[u8]) {
    /// As much as is taken of each: some bytes hold terabytes.
    const MOST: u64 = 4 << 20;
    if let Ok(reader) = decompressed(Cursor::new(bytes.to_vec())) {
        let mut block = [0; 4096];
        let mut reader = reader.take(MOST);
        while reader.read(&mut block).is_ok_and(|read| read > 0) {}
    }
}

iosched_testing::replay!(TARGETS);
