//! What the kernel counts while a load runs: per-disk I/O, CPU time of the machine, I/O pressure.
//!
//! Follows `Documentation/admin-guide/iostats.rst`, `Documentation/scheduler/sched-stats.rst` and
//! `Documentation/accounting/psi.rst` (Linux 6.12). CPU time is the whole machine's, because with
//! `none` requests are dispatched by the submitter and with a scheduler mostly by a kernel worker.

use std::fs;
use std::io;

use iosched_machine::diskstats::{self, DiskCounters};
use iosched_machine::host::Host;
use iosched_machine::pressure::Pressure;
use serde::{Deserialize, Serialize};

use crate::course::Course;
use crate::split::Split;

/// Everything counted at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Counters {
    disks: Vec<DiskCounters>,
    cpu_busy_ns: u64,
    io_pressure: Option<Pressure>,
}

/// What changed between two moments, summed over the disks of the target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Reads completed by the disks (after merging).
    pub reads: u64,
    /// Writes completed by the disks (after merging).
    pub writes: u64,
    /// Reads that were merged into another before.
    pub reads_merged: u64,
    /// Writes that were merged into another before.
    pub writes_merged: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// iostat's `r_await`: mean time of a read from queueing to completion; none without reads.
    pub read_await_ns: Option<f64>,
    /// iostat's `w_await`.
    pub write_await_ns: Option<f64>,
    /// iostat's `aqu-sz`: mean number of requests queued or in service.
    pub average_queue_length: f64,
    /// iostat's `%util` as a share (0 to 1) of the time, the busiest disk's.
    pub utilisation: f64,
    /// CPU time of the whole machine that was not idle.
    pub cpu_busy_ns: u64,
    /// Time in which at least one task waited for I/O (PSI `some`).
    pub pressure_some_ns: Option<u64>,
    /// Time in which all tasks waited for I/O (PSI `full`).
    pub pressure_full_ns: Option<u64>,
    /// CPU time, outside of the kernel, of programs that are neither the load nor ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_cpu_ns: Option<u64>,
    /// Await, split into the time in the queue and at the disk; none where it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// What was completed in slices of the trial; none where that was not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Course>,
}

impl Counters {
    /// Reads the counters of these devices (kernel names) and of the machine.
    pub fn read(host: &Host, devices: &[String]) -> io::Result<Counters> {
        Ok(Counters {
            disks: diskstats::read(host, devices)?,
            cpu_busy_ns: cpu_busy_ns(host)?,
            io_pressure: Pressure::read(host),
        })
    }

    /// What changed from `before` to `self`, over `elapsed_ns`.
    pub fn since(&self, before: &Counters, elapsed_ns: u64) -> Measured {
        let mut sum = DiskCounters::default();
        let mut busiest_ms = 0;
        for (now, then) in self.disks.iter().zip(&before.disks) {
            let delta = now.since(then);
            busiest_ms = busiest_ms.max(delta.ms_busy);
            sum = sum.plus(&delta);
        }
        let interval_ms = elapsed_ns as f64 / 1e6;
        let pressure = |field: fn(&Pressure) -> u64| {
            let (now, then) = (self.io_pressure.as_ref()?, before.io_pressure.as_ref()?);
            Some(field(now).saturating_sub(field(then)) * 1000)
        };
        Measured {
            reads: sum.read.ios,
            writes: sum.write.ios,
            reads_merged: sum.read.merged,
            writes_merged: sum.write.merged,
            read_bytes: sum.read.bytes(),
            write_bytes: sum.write.bytes(),
            read_await_ns: sum.read.await_ns(),
            write_await_ns: sum.write.await_ns(),
            average_queue_length: sum.weighted_ms as f64 / interval_ms,
            utilisation: (busiest_ms as f64 / interval_ms).min(1.0),
            cpu_busy_ns: self.cpu_busy_ns.saturating_sub(before.cpu_busy_ns),
            pressure_some_ns: pressure(|p| p.some_us),
            pressure_full_ns: pressure(|p| p.full_us),
            others_cpu_ns: None,
            split: None,
            course: None,
        }
    }
}

/// I/Os and bytes that these devices have completed since the counters were read; `None` where they cannot be read.
pub(crate) fn completed_since(
    before: &Counters,
    host: &Host,
    devices: &[String],
) -> Option<(u64, u64)> {
    let now = diskstats::read(host, devices).ok()?;
    let deltas = now
        .iter()
        .zip(&before.disks)
        .map(|(now, then)| now.since(then));
    let sum = deltas.fold(DiskCounters::default(), |sum, delta| sum.plus(&delta));
    let ios = sum.read.ios.saturating_add(sum.write.ios);
    let bytes = sum.read.bytes().saturating_add(sum.write.bytes());
    Some((ios, bytes))
}

/// CPU time of the machine that was not idle: `/proc/schedstat` to the nanosecond where the kernel
/// keeps it, `/proc/stat` to the tick otherwise.
fn cpu_busy_ns(host: &Host) -> io::Result<u64> {
    if let Some(busy) = fs::read_to_string(host.proc("schedstat"))
        .ok()
        .and_then(|text| busy_from_schedstat(&text))
    {
        return Ok(busy);
    }
    let text = fs::read_to_string(host.proc("stat"))?;
    busy_from_stat(&text)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no cpu line in /proc/stat"))
}

/// Sum over CPUs of the 7th field: time spent running by tasks, ns.
fn busy_from_schedstat(text: &str) -> Option<u64> {
    let sum = text
        .lines()
        .filter(|line| line.starts_with("cpu"))
        .filter_map(|line| line.split_ascii_whitespace().nth(7)?.parse::<u64>().ok())
        .sum();
    (sum > 0).then_some(sum)
}

/// One of `USER_HZ`, ns: 100 on every architecture that Linux still runs on.
const TICK_NS: u64 = 10_000_000;

/// All but idle (4th) and iowait (5th) of the first line.
fn busy_from_stat(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("cpu "))?;
    let ticks: u64 = line
        .split_ascii_whitespace()
        .skip(1)
        .take(7) // steal is the hypervisor's time; guest time is in user time already
        .enumerate()
        .filter(|(index, _)| !matches!(index, 3 | 4))
        .filter_map(|(_, field)| field.parse::<u64>().ok())
        .sum();
    Some(ticks * TICK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "   8       0 sda 100 10 8000 500 50 5 4000 900 3 700 1400 0 0 0 0 2 1\n";
    const AFTER: &str =
        "   8       0 sda 300 30 24000 1500 150 25 12000 2900 9 1700 4400 0 0 0 0 2 1\n";

    fn counters(text: &str) -> Counters {
        Counters {
            disks: vec![diskstats::counters_of(text, "sda").unwrap()],
            cpu_busy_ns: 0,
            io_pressure: None,
        }
    }

    #[test]
    fn awaits_queue_length_and_utilisation_are_iostats() {
        let measured = counters(AFTER).since(&counters(BEFORE), 2_000_000_000);
        assert_eq!(measured.reads, 200);
        assert_eq!(measured.read_bytes, 16_000 * 512);
        assert_eq!(measured.read_await_ns, Some(5e6)); // 1000 ms over 200 reads
        assert_eq!(measured.write_await_ns, Some(2e7)); // 2000 ms over 100 writes
        assert!((measured.average_queue_length - 1.5).abs() < 1e-12); // 3000 ms weighted in 2000 ms
        assert!((measured.utilisation - 0.5).abs() < 1e-12);
    }

    #[test]
    fn no_reads_means_no_read_await() {
        let measured = counters(BEFORE).since(&counters(BEFORE), 1_000_000_000);
        assert_eq!(measured.read_await_ns, None);
    }

    #[test]
    fn idle_iowait_and_steal_are_not_busy() {
        assert_eq!(
            busy_from_stat("cpu  1 2 3 400 500 6 7 8 9 10\n"),
            Some(19 * 10_000_000)
        );
    }

    #[test]
    fn this_machine_counts() {
        let counted = Counters::read(&Host::live(), &[]).unwrap();
        assert!(counted.cpu_busy_ns > 0);
    }
}
