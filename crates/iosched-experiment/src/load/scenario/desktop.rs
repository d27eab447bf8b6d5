//! A desktop beside a copy: what is a thread of [`desktop`](super::super::desktop) is a process here.

use std::sync::Arc;

use iosched_sim::request::Op;
use iosched_sim::simulate::Outcome as Simulated;
use iosched_sim::units::{Nanos, Sectors};
use iosched_sim::workload::replay::Step;
use iosched_sim::workload::{Access, Job, Mix, Pattern, Syncing, Think};

use super::super::Outcome;
use super::super::desktop::{
    BETWEEN_COMMITS, BETWEEN_READS, CHUNK, DesktopSettings, FILES_OF_A_PACKAGE, PAGE, PROFILE,
    SETTLING, SMALL_READS,
};
use super::files::{File, Files, sectors};
use super::{simulated, starts};
use crate::metrics::FRAMES_IN_TIME;

/// What is beside the starts, by its place behind them.
const COPY: usize = 0;
const VIDEO: usize = 1;
const READS: usize = 2;
const BROWSER: usize = 3;
const PACKAGE: usize = 4;

/// The starts, spread over the time of the trial, then what goes on beside them. The small reads last as long as
/// the trial.
pub(super) fn jobs(settings: &DesktopSettings, files: &mut Files, seed: u64) -> Vec<Job> {
    let settled = simulated::nanos(SETTLING);
    let whole = Nanos::from_secs(settings.seconds.into());
    let begin = |start: u32| {
        settled + Nanos::new(whole.as_nanos() / u64::from(settings.starts) * u64::from(start))
    };
    let mut jobs = starts::jobs(settings.starts, &begin, files, seed);
    let copied = files.make(settings.size);
    let copy = files.make(settings.size);
    let video = files.make(settings.size);
    let small_reads = files.make(settings.size);
    let profile = files.make(PROFILE);
    jobs.push(copies(copied, copy));
    jobs.push(Job {
        name: "video".to_owned(),
        start: video.start,
        span: video.length,
        plays: true,
        background: true,
        ..Job::default()
    });
    jobs.push(Job {
        name: SMALL_READS.to_owned(),
        pattern: Pattern::EVEN,
        start: small_reads.start,
        span: small_reads.length,
        think: Some(Think {
            time: simulated::nanos(BETWEEN_READS),
            every: 1,
            counts_submitted: false,
        }),
        delay: settled,
        runtime: Some(whole),
        ..Job::default()
    });
    jobs.push(Job {
        pattern: Pattern::EVEN,
        sync: Syncing {
            pause: simulated::nanos(BETWEEN_COMMITS),
            ..each_write_synced()
        },
        ..writer("browser", profile)
    });
    jobs.push(unpacks(files));
    jobs
}

/// A process that writes into its file through the page cache, and waits for each write to be on the disk.
fn writer(name: &str, file: File) -> Job {
    Job {
        name: name.to_owned(),
        mix: Mix { read_percent: 0 },
        start: file.start,
        span: file.length,
        buffered: true,
        background: true,
        sync: each_write_synced(),
        ..Job::default()
    }
}

fn each_write_synced() -> Syncing {
    Syncing {
        every: Some(1),
        own_file: true,
        ..Syncing::default()
    }
}

/// A chunk is read, as one request where the device takes one (Linux reads ahead as far as is asked for), and
/// written into the page cache; each copy is on the disk before the next.
fn copies(copied: File, copy: File) -> Job {
    let chunk = sectors(CHUNK as u64);
    let mut steps = Vec::new();
    let mut at = Sectors::ZERO;
    while at < copied.length {
        let length = chunk.min(copied.length - at);
        let step = |op: Op, file: File| Step {
            access: Access {
                op,
                start: file.start + at,
                length,
                sync: true,
            },
            beside: 0,
            think: Nanos::ZERO,
        };
        steps.extend([step(Op::Read, copied), step(Op::Write, copy)]);
        at += length;
    }
    Job {
        sync: Syncing {
            every: Some(steps.len() as u64 / 2),
            ..each_write_synced()
        },
        steps: Some(Arc::from(steps)),
        ..writer("copy", copy)
    }
}

/// Files of 1 to 16 pages, each on the disk before the next. Where one is removed, another takes its place.
fn unpacks(files: &mut Files) -> Job {
    let pages = |count: u64| sectors(count * PAGE as u64);
    let file = |number: usize| 1 << (number % 5);
    let whole: u64 = (0..FILES_OF_A_PACKAGE).map(file).sum();
    let package = files.make(whole * PAGE as u64);
    let mut at = package.start;
    let steps = (0..FILES_OF_A_PACKAGE).map(|number| {
        let (start, length) = (at, pages(file(number)));
        at += length;
        Step {
            access: Access {
                op: Op::Write,
                start,
                length,
                sync: true,
            },
            beside: 0,
            think: Nanos::ZERO,
        }
    });
    Job {
        steps: Some(steps.collect()),
        ..writer("package", package)
    }
}

/// As the load itself says it.
pub(super) fn outcome(settings: &DesktopSettings, simulated: &Simulated) -> Outcome {
    let took = starts::took(settings.starts, simulated);
    let (mean, slowest) = starts::mean_and_slowest(&took);
    let beside = &simulated.processes[settings.starts as usize..];
    let in_time = 100.0 * beside[VIDEO].frames_in_time.unwrap_or(1.0);
    let per_second =
        |process: usize, amount: f64| amount / beside[process].elapsed.as_secs_f64().max(1e-9);
    let unpacked = beside[PACKAGE].write.latencies.total.count();
    let copied = beside[COPY].read.bytes.as_u64();
    let commits = beside[BROWSER].syncs.total.mean();
    let numbers = [
        (FRAMES_IN_TIME, in_time),
        ("dropped frames %", 100.0 - in_time),
        ("slowest start s", slowest),
        ("browser's commit ms", commits.as_millis_f64()),
        ("files unpacked/s", per_second(PACKAGE, unpacked as f64)),
        ("copied MB/s", per_second(COPY, copied as f64 / 1e6)),
    ];
    Outcome {
        jobs: vec![simulated::job_result(&beside[READS])],
        counts_a_part: true,
        elapsed_s: Some(mean),
        numbers: numbers
            .map(|(name, number)| (name.to_owned(), number))
            .into(),
        ..Outcome::default()
    }
}
