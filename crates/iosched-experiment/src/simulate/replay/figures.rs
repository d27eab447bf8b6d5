//! What a trace says by itself: how much was read and written, and how long that took.

use std::collections::BTreeMap;
use std::sync::Arc;

use iosched_machine::failure::Problem;
use iosched_sim::histogram::Histogram;
use iosched_sim::trace::{DeviceId, Record, Stage};
use iosched_sim::units::{SECTOR_BYTES, Sector};
use iosched_sim::workload::recorded::{Answers, ClosedLoops};
use serde::Serialize;

use super::{Files, Meter, Surveyed, TraceOptions, TraceReport, next, open};
use crate::simulate::times::Times;

/// A trace in figures.
#[derive(Debug, Clone, Serialize)]
pub struct TraceFigures {
    /// What was found.
    #[serde(flatten)]
    pub trace: TraceReport,
    /// What was read, if anything was.
    pub read: Option<TracedDirection>,
    /// What was written, if anything was.
    pub write: Option<TracedDirection>,
}

/// What was read, or what was written.
#[derive(Debug, Clone, Serialize)]
pub struct TracedDirection {
    /// How many accesses.
    pub accesses: u64,
    /// Accesses per second of the trace.
    pub iops: f64,
    /// Data per second of the trace.
    pub bytes_per_second: f64,
    /// Mean length.
    pub mean_bytes: f64,
    /// Part of them that began where the one before ended, 0 to 1.
    pub sequential_share: f64,
    /// From submission to completion, where the trace tells.
    pub latency: Option<Times>,
    /// From the driver to completion, where the trace tells both beside submissions.
    pub service: Option<Times>,
}

impl TraceFigures {
    /// Reads a trace twice: once to see what it tells.
    pub fn read(options: &TraceOptions, meter: &Arc<Meter>) -> Result<TraceFigures, Problem> {
        let files = Files::find(&options.path, options.format)?;
        meter.expect(2 * files.bytes());
        let Surveyed {
            survey,
            made,
            merge,
            other_devices,
            ..
        } = Surveyed::of(options, &files, meter)?;
        let mut trace = super::report(options, &files, &merge, &survey);
        trace.other_devices = other_devices;
        let ends = survey.devices().map(|(_, device)| device.end);
        let end = ends.max().unwrap_or(Sector::ZERO);
        trace.reach_bytes = end.as_u64().saturating_mul(SECTOR_BYTES);
        let mut gathered = [Gathered::default(), Gathered::default()];
        let mut whole = ClosedLoops::new(made, Answers::Events);
        let mut at_disk = ClosedLoops::new(Stage::Issued, Answers::Events);
        let mut merge = open(&files, meter)?;
        while let Some(record) = next(&mut merge, &files)? {
            if !options.is_of(merge.labels().device_name(record.device)) {
                continue;
            }
            if record.stage == made {
                gathered[usize::from(record.op.is_write())].add(&record);
            }
            whole.step(&record);
            for &(is_write, latency) in whole.answered_now() {
                gathered[usize::from(is_write)].latency.add(latency);
            }
            at_disk.step(&record);
            for &(is_write, service) in at_disk.answered_now() {
                gathered[usize::from(is_write)].service.add(service);
            }
        }
        trace.unanswered = match survey.at(Stage::Completed) {
            0 => 0,
            _ => whole.lost(),
        };
        let seconds = trace.duration_ns as f64 / 1e9;
        let [read, write] = gathered.map(|of| of.direction(seconds, made));
        Ok(TraceFigures { trace, read, write })
    }
}

/// A direction while the trace is read.
#[derive(Debug, Default)]
struct Gathered {
    accesses: u64,
    sectors: u64,
    sequential: u64,
    /// Where the last access ended.
    ends: BTreeMap<DeviceId, Sector>,
    latency: Histogram,
    service: Histogram,
}

impl Gathered {
    fn add(&mut self, record: &Record) {
        self.accesses += 1;
        self.sectors += record.length.as_u64();
        let end = record.start + record.length;
        let before = self.ends.insert(record.device, end);
        self.sequential += u64::from(before == Some(record.start));
        if let Some(response) = record.response {
            self.latency.add(response);
        }
    }

    fn direction(&self, seconds: f64, made: Stage) -> Option<TracedDirection> {
        let accesses = self.accesses as f64;
        let per_second = |number: f64| if seconds > 0.0 { number / seconds } else { 0.0 };
        let bytes = self.sectors as f64 * SECTOR_BYTES as f64;
        let times = |of: &Histogram| (of.count() > 0).then(|| Times::from(of));
        (self.accesses > 0).then(|| TracedDirection {
            accesses: self.accesses,
            iops: per_second(accesses),
            bytes_per_second: per_second(bytes),
            mean_bytes: bytes / accesses,
            sequential_share: self.sequential as f64 / accesses,
            latency: times(&self.latency),
            service: times(&self.service).filter(|_| made == Stage::Submitted),
        })
    }
}

#[cfg(test)]
mod tests {
    use iosched_sim::units::Nanos;

    use super::*;

    #[test]
    fn latencies_are_told_by_direction_and_apart_from_those_of_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t");
        let text = "\
8,0 0 1 0.000000000 7 Q R 0 + 8 [a]
8,0 0 2 0.001000000 7 Q R 8 + 8 [a]
8,0 0 3 0.002000000 7 D R 0 + 16 [a]
8,0 0 4 0.003000000 7 Q W 800 + 8 [b]
8,0 0 5 0.003000000 7 D W 800 + 8 [b]
8,0 0 6 0.004000000 0 C W 800 + 8 [0]
8,0 0 7 0.010000000 0 C R 0 + 16 [0]
";
        std::fs::write(&path, text).unwrap();
        let options = TraceOptions::all(path);
        let figures = TraceFigures::read(&options, &Arc::default()).unwrap();
        let (read, write) = (figures.read.unwrap(), figures.write.unwrap());
        assert_eq!((read.accesses, write.accesses), (2, 1));
        assert!((read.iops - 200.0).abs() < 1e-6, "{read:?}");
        assert!((read.sequential_share - 0.5).abs() < 1e-6);
        let mean = |times: Option<Times>| Nanos::new(times.unwrap().mean_ns);
        assert_eq!(mean(read.latency), Nanos::from_micros(9500));
        assert_eq!(mean(read.service), Nanos::from_micros(8000));
        assert_eq!(mean(write.latency), Nanos::from_micros(1000));
    }
}
