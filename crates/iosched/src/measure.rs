//! What the kernel counts while a load runs: per-disk I/O, CPU time of the machine, I/O pressure.
//!
//! Follows `Documentation/admin-guide/iostats.rst`, `Documentation/scheduler/sched-stats.rst` and
//! `Documentation/accounting/psi.rst` (Linux 6.12). CPU time is the whole machine's, because with
//! `none` requests are dispatched by the submitter and with a scheduler mostly by a kernel worker.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

use crate::host::Host;

/// Everything counted at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Counters {
    disks: Vec<DiskCounters>,
    cpu_busy_ns: u64,
    io_pressure: Option<Pressure>,
}

/// The counters of one device as `/proc/diskstats` has them (fields 1–11).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct DiskCounters {
    reads: u64,
    reads_merged: u64,
    sectors_read: u64,
    ms_reading: u64,
    writes: u64,
    writes_merged: u64,
    sectors_written: u64,
    ms_writing: u64,
    ms_busy: u64,
    weighted_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pressure {
    some_us: u64,
    full_us: u64,
}

/// What changed between two moments, summed over the disks of the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
}

impl Counters {
    /// Reads the counters of these devices (kernel names) and of the machine.
    pub fn read(host: &Host, devices: &[String]) -> io::Result<Counters> {
        let text = fs::read_to_string(host.proc("diskstats"))?;
        let disks = devices
            .iter()
            .map(|device| {
                disk_counters(&text, device).ok_or_else(|| {
                    io::Error::new(
                        io::ErrorKind::NotFound,
                        format!("{device} is not in /proc/diskstats: has it vanished?"),
                    )
                })
            })
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Counters {
            disks,
            cpu_busy_ns: cpu_busy_ns(host)?,
            io_pressure: fs::read_to_string(host.proc("pressure/io"))
                .ok()
                .and_then(|text| pressure(&text)),
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
        let await_ns = |ms: u64, count: u64| (count > 0).then(|| ms as f64 * 1e6 / count as f64);
        let pressure = |field: fn(&Pressure) -> u64| {
            let (now, then) = (self.io_pressure.as_ref()?, before.io_pressure.as_ref()?);
            Some(field(now).saturating_sub(field(then)) * 1000)
        };
        Measured {
            reads: sum.reads,
            writes: sum.writes,
            reads_merged: sum.reads_merged,
            writes_merged: sum.writes_merged,
            read_bytes: sum.sectors_read * 512,
            write_bytes: sum.sectors_written * 512,
            read_await_ns: await_ns(sum.ms_reading, sum.reads),
            write_await_ns: await_ns(sum.ms_writing, sum.writes),
            average_queue_length: sum.weighted_ms as f64 / interval_ms,
            utilisation: (busiest_ms as f64 / interval_ms).min(1.0),
            cpu_busy_ns: self.cpu_busy_ns.saturating_sub(before.cpu_busy_ns),
            pressure_some_ns: pressure(|p| p.some_us),
            pressure_full_ns: pressure(|p| p.full_us),
        }
    }
}

impl DiskCounters {
    /// The difference; counters may wrap at 32 bits.
    fn since(&self, then: &DiskCounters) -> DiskCounters {
        self.with(then, wrapping_difference)
    }

    fn plus(&self, other: &DiskCounters) -> DiskCounters {
        self.with(other, |a, b| a + b)
    }

    fn with(&self, other: &DiskCounters, combine: fn(u64, u64) -> u64) -> DiskCounters {
        DiskCounters {
            reads: combine(self.reads, other.reads),
            reads_merged: combine(self.reads_merged, other.reads_merged),
            sectors_read: combine(self.sectors_read, other.sectors_read),
            ms_reading: combine(self.ms_reading, other.ms_reading),
            writes: combine(self.writes, other.writes),
            writes_merged: combine(self.writes_merged, other.writes_merged),
            sectors_written: combine(self.sectors_written, other.sectors_written),
            ms_writing: combine(self.ms_writing, other.ms_writing),
            ms_busy: combine(self.ms_busy, other.ms_busy),
            weighted_ms: combine(self.weighted_ms, other.weighted_ms),
        }
    }
}

fn wrapping_difference(now: u64, then: u64) -> u64 {
    if now >= then {
        now - then
    } else {
        (now + (1 << 32)).saturating_sub(then)
    }
}

/// The line of a device in `/proc/diskstats`.
fn disk_counters(text: &str, device: &str) -> Option<DiskCounters> {
    let line = text
        .lines()
        .find(|line| line.split_ascii_whitespace().nth(2) == Some(device))?;
    let mut fields = line.split_ascii_whitespace().skip(3).map(str::parse::<u64>);
    let mut next = || fields.next()?.ok();
    Some(DiskCounters {
        reads: next()?,
        reads_merged: next()?,
        sectors_read: next()?,
        ms_reading: next()?,
        writes: next()?,
        writes_merged: next()?,
        sectors_written: next()?,
        ms_writing: next()?,
        // In flight, between them, is a level and not a counter.
        ms_busy: next().and_then(|_in_flight| next())?,
        weighted_ms: next()?,
    })
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

/// All but idle (4th) and iowait (5th) of the first line, in ticks of 10 ms (`USER_HZ` is 100 on
/// every architecture that Linux still runs on).
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
    Some(ticks * 10_000_000)
}

fn pressure(text: &str) -> Option<Pressure> {
    let total = |kind: &str| {
        text.lines()
            .find(|line| line.starts_with(kind))?
            .rsplit_once("total=")?
            .1
            .parse()
            .ok()
    };
    Some(Pressure {
        some_us: total("some ")?,
        full_us: total("full ")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "   8       0 sda 100 10 8000 500 50 5 4000 900 3 700 1400 0 0 0 0 2 1\n";
    const AFTER: &str =
        "   8       0 sda 300 30 24000 1500 150 25 12000 2900 9 1700 4400 0 0 0 0 2 1\n";

    fn counters(text: &str) -> Counters {
        Counters {
            disks: vec![disk_counters(text, "sda").unwrap()],
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
    fn a_counter_that_wrapped_at_32_bits_still_counts() {
        assert_eq!(wrapping_difference(5, u64::from(u32::MAX) - 4), 10);
    }

    #[test]
    fn a_name_is_matched_whole() {
        assert!(disk_counters(BEFORE, "sd").is_none());
        assert!(disk_counters("8 0 sda1 1 2", "sda").is_none());
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
    fn pressure_totals_are_read() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=123\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=45\n";
        assert_eq!(
            pressure(text),
            Some(Pressure {
                some_us: 123,
                full_us: 45
            })
        );
    }

    #[test]
    fn this_machine_counts() {
        let counted = Counters::read(&Host::live(), &[]).unwrap();
        assert!(counted.cpu_busy_ns > 0);
    }
}
