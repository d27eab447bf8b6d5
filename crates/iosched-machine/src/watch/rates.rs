//! From counters to the columns of `iostat -x`.
//!
//! Meanings and formulas are those of iostat(1), sysstat 12; units are ours (bytes, ns, shares).

use serde::Serialize;

use crate::diskstats::{DiskCounters, FlowCounters};

/// One kind of I/O of a device over an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct FlowRates {
    /// Completed per second: `r/s`.
    pub ios_per_s: f64,
    /// Moved per second: `rkB/s` in bytes.
    pub bytes_per_s: f64,
    /// Merged into others before, per second: `rrqm/s`.
    pub merged_per_s: f64,
    /// Merged of all that came, 0 to 1: `%rrqm`.
    pub merged_share: f64,
    /// Mean time from queueing to completion: `r_await`. None without I/O.
    pub await_ns: Option<f64>,
    /// Mean size of a request: `rareq-sz` in bytes. None without I/O.
    pub mean_bytes: Option<f64>,
}

/// What a device did over an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Reads.
    pub read: FlowRates,
    /// Writes.
    pub write: FlowRates,
    /// Discards.
    pub discard: FlowRates,
    /// Flushes per second: `f/s`.
    pub flushes_per_s: f64,
    /// Mean time of a flush: `f_await`.
    pub flush_await_ns: Option<f64>,
    /// Mean number of requests queued or in service: `aqu-sz`.
    pub queue_length: f64,
    /// Share of the time in which it had something to do, 0 to 1: `%util`.
    pub utilisation: f64,
}

impl Rates {
    /// From what was counted within `elapsed_s` seconds.
    pub fn of(counted: &DiskCounters, elapsed_s: f64) -> Rates {
        Rates {
            read: FlowRates::of(&counted.read, elapsed_s),
            write: FlowRates::of(&counted.write, elapsed_s),
            discard: FlowRates::of(&counted.discard, elapsed_s),
            flushes_per_s: counted.flush.ios as f64 / elapsed_s,
            flush_await_ns: counted.flush.await_ns(),
            queue_length: counted.weighted_ms as f64 / 1e3 / elapsed_s,
            utilisation: (counted.ms_busy as f64 / 1e3 / elapsed_s).min(1.0),
        }
    }

    /// Reads and writes per second.
    pub fn ios_per_s(&self) -> f64 {
        self.read.ios_per_s + self.write.ios_per_s
    }

    /// Bytes read and written per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.read.bytes_per_s + self.write.bytes_per_s
    }

    /// Mean time from queueing to completion of reads and writes together; none without I/O.
    pub fn await_ns(&self) -> Option<f64> {
        let flows = [&self.read, &self.write];
        let ios: f64 = flows.iter().map(|flow| flow.ios_per_s).sum();
        let time = flows
            .iter()
            .filter_map(|flow| Some(flow.await_ns? * flow.ios_per_s));
        (ios > 0.0).then(|| time.sum::<f64>() / ios)
    }
}

impl FlowRates {
    fn of(counted: &FlowCounters, elapsed_s: f64) -> FlowRates {
        let came = counted.ios + counted.merged;
        FlowRates {
            ios_per_s: counted.ios as f64 / elapsed_s,
            bytes_per_s: counted.bytes() as f64 / elapsed_s,
            merged_per_s: counted.merged as f64 / elapsed_s,
            merged_share: if came == 0 {
                0.0
            } else {
                counted.merged as f64 / came as f64
            },
            await_ns: counted.await_ns(),
            mean_bytes: (counted.ios > 0).then(|| counted.bytes() as f64 / counted.ios as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_iostats() {
        let counted = DiskCounters {
            read: FlowCounters {
                ios: 200,
                merged: 50,
                sectors: 1600,
                ms: 1000,
            },
            ms_busy: 1000,
            weighted_ms: 3000,
            ..DiskCounters::default()
        };
        let rates = Rates::of(&counted, 2.0);
        let expected = Rates {
            read: FlowRates {
                ios_per_s: 100.0,
                bytes_per_s: 409_600.0,
                merged_per_s: 25.0,
                merged_share: 0.2,
                await_ns: Some(5e6),
                mean_bytes: Some(4096.0),
            },
            queue_length: 1.5,
            utilisation: 0.5,
            ..Rates::default()
        };
        assert_eq!(rates, expected);
        assert_eq!(rates.await_ns(), Some(5e6));
    }

    #[test]
    fn awaits_are_weighted_by_how_many_waited() {
        let flow = |ios, ms| FlowCounters {
            ios,
            ms,
            ..FlowCounters::default()
        };
        let counted = DiskCounters {
            read: flow(300, 300),
            write: flow(100, 900),
            ..DiskCounters::default()
        };
        let together = Rates::of(&counted, 1.0).await_ns().unwrap();
        assert!((together - 3e6).abs() < 1e-3); // 1200 ms over 400
        assert_eq!(Rates::of(&DiskCounters::default(), 1.0).await_ns(), None);
    }
}
