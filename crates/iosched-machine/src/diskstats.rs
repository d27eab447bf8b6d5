//! What the kernel counts per block device: `/proc/diskstats`.
//!
//! Follows `Documentation/admin-guide/iostats.rst` (Linux 6.12), fields 1–17; a kernel before 4.18
//! has no discards and one before 5.5 no flushes, which count as none then.

use std::collections::BTreeMap;
use std::io;

use crate::host::Host;
use crate::lossy;

/// One kind of I/O of a device since it appeared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowCounters {
    /// Completed.
    pub ios: u64,
    /// Merged into another before.
    pub merged: u64,
    /// Sectors of 512 bytes moved.
    pub sectors: u64,
    /// From queueing to completion, all of them together, ms.
    pub ms: u64,
}

/// The counters of one device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Reads.
    pub read: FlowCounters,
    /// Writes.
    pub write: FlowCounters,
    /// Discards.
    pub discard: FlowCounters,
    /// Flushes: only how many, and how long they took.
    pub flush: FlowCounters,
    /// Time in which it had something to do, ms.
    pub ms_busy: u64,
    /// Sum over time of the number of requests queued or in service, ms.
    pub weighted_ms: u64,
}

/// The counters of these devices (kernel names), in their order.
pub fn read(host: &Host, devices: &[String]) -> io::Result<Vec<DiskCounters>> {
    let text = lossy::read(host.proc("diskstats"))?;
    devices
        .iter()
        .map(|device| {
            counters_of(&text, device).ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::NotFound,
                    format!("{device} is not in /proc/diskstats: has it vanished?"),
                )
            })
        })
        .collect()
}

/// The line of a device.
pub fn counters_of(text: &str, device: &str) -> Option<DiskCounters> {
    let line = text
        .lines()
        .find(|line| name_of_line(line) == Some(device))?;
    counters_of_line(line)
}

/// Every device, by kernel name.
pub(crate) fn all(text: &str) -> BTreeMap<String, DiskCounters> {
    text.lines()
        .filter_map(|line| Some((name_of_line(line)?.to_owned(), counters_of_line(line)?)))
        .collect()
}

fn name_of_line(line: &str) -> Option<&str> {
    line.split_ascii_whitespace().nth(2)
}

fn counters_of_line(line: &str) -> Option<DiskCounters> {
    let mut fields = line.split_ascii_whitespace().skip(3).map(str::parse::<u64>);
    let mut next = || fields.next()?.ok();
    let read = flow(&mut next)?;
    let write = flow(&mut next)?;
    // In flight comes before, and is a level and not a counter.
    let ms_busy = next().and_then(|_in_flight| next())?;
    let weighted_ms = next()?;
    let discard = flow(&mut next).unwrap_or_default();
    let flush = next().and_then(|ios| Some((ios, next()?)));
    let flush = flush.map_or_else(FlowCounters::default, |(ios, ms)| FlowCounters {
        ios,
        ms,
        ..FlowCounters::default()
    });
    Some(DiskCounters {
        read,
        write,
        discard,
        flush,
        ms_busy,
        weighted_ms,
    })
}

fn flow(next: &mut impl FnMut() -> Option<u64>) -> Option<FlowCounters> {
    Some(FlowCounters {
        ios: next()?,
        merged: next()?,
        sectors: next()?,
        ms: next()?,
    })
}

impl DiskCounters {
    /// What was counted after `before`; counters may wrap at 32 bits.
    #[must_use]
    pub fn since(&self, before: &DiskCounters) -> DiskCounters {
        self.with(before, wrapping_difference)
    }

    /// Two devices together.
    #[must_use]
    pub fn plus(&self, other: &DiskCounters) -> DiskCounters {
        self.with(other, |a, b| a + b)
    }

    fn with(&self, other: &DiskCounters, combine: fn(u64, u64) -> u64) -> DiskCounters {
        let flow = |a: FlowCounters, b: FlowCounters| FlowCounters {
            ios: combine(a.ios, b.ios),
            merged: combine(a.merged, b.merged),
            sectors: combine(a.sectors, b.sectors),
            ms: combine(a.ms, b.ms),
        };
        DiskCounters {
            read: flow(self.read, other.read),
            write: flow(self.write, other.write),
            discard: flow(self.discard, other.discard),
            flush: flow(self.flush, other.flush),
            ms_busy: combine(self.ms_busy, other.ms_busy),
            weighted_ms: combine(self.weighted_ms, other.weighted_ms),
        }
    }
}

impl FlowCounters {
    /// iostat's await: mean time from queueing to completion; none without I/O.
    pub fn await_ns(&self) -> Option<f64> {
        (self.ios > 0).then(|| self.ms as f64 * 1e6 / self.ios as f64)
    }

    /// Bytes moved.
    pub fn bytes(&self) -> u64 {
        self.sectors * 512
    }
}

fn wrapping_difference(now: u64, then: u64) -> u64 {
    if now >= then {
        now - then
    } else {
        (now + (1 << 32)).saturating_sub(then)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_wrapped_at_32_bits_still_counts() {
        assert_eq!(wrapping_difference(5, u64::from(u32::MAX) - 4), 10);
    }

    #[test]
    fn a_name_is_matched_whole() {
        let text = "   8       0 sda 100 10 8000 500 50 5 4000 900 3 700 1400 0 0 0 0 2 1\n";
        assert!(counters_of(text, "sda").is_some());
        assert!(counters_of(text, "sd").is_none());
        assert!(counters_of("8 0 sda1 1 2", "sda").is_none());
    }

    #[test]
    fn each_field_is_what_the_kernel_says_it_is() {
        let text = "8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n";
        let counters = counters_of(text, "sda").unwrap();
        assert_eq!((counters.read.ios, counters.read.ms), (1, 4));
        assert_eq!((counters.write.merged, counters.write.sectors), (6, 7));
        assert_eq!((counters.ms_busy, counters.weighted_ms), (10, 11));
        assert_eq!((counters.discard.ios, counters.discard.ms), (12, 15));
        assert_eq!((counters.flush.ios, counters.flush.ms), (16, 17));
    }

    #[test]
    fn kernels_without_discards_and_flushes_have_none() {
        let counters = counters_of("8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n", "sda").unwrap();
        assert_eq!(counters.weighted_ms, 11);
        assert_eq!(counters.discard, FlowCounters::default());
    }
}
