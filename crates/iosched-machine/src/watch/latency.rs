//! Where the requests of a disk spend their time: in its queue (inserted to issued), or in service
//! (issued to completed).
//!
//! The counters of `/proc/diskstats` know only the sum; the block layer's events know the parts
//! ([`Waits`]).

use iosched_facts::event::Line;
use serde::Serialize;

use crate::capture::{self, Events, Recorder, Took, Waits};
use crate::failure::Problem;
use crate::host::Host;

/// What one kind of request took, mean over an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Parts {
    /// Requests that were completed.
    pub requests: u64,
    /// Inserted to issued, ns; none without requests.
    pub queue_ns: Option<f64>,
    /// Issued to completed, ns; none without requests.
    pub service_ns: Option<f64>,
}

/// What the requests took that were completed within an interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LatencySample {
    /// Reads.
    pub read: Parts,
    /// Writes.
    pub write: Parts,
    /// Events that the kernel lost meanwhile: their requests are not counted.
    pub lost_events: u64,
}

/// Follows the events of one disk.
#[derive(Debug)]
pub struct LatencyWatch {
    recorder: Recorder,
    lines: Vec<Line>,
    waits: Waits,
    done: Done,
    lost: u64,
}

impl LatencyWatch {
    /// Begins with a disk, by its kernel name.
    ///
    /// # Errors
    /// Where the kernel's tracing files may not be used, or do not exist.
    pub fn start(host: &Host, device: &str) -> Result<LatencyWatch, Problem> {
        let number = capture::device_number(host, device)?;
        Ok(LatencyWatch {
            recorder: Recorder::start(number, &[Events::Requests])?,
            lines: Vec::new(),
            waits: Waits::default(),
            done: Done::default(),
            lost: 0,
        })
    }

    /// Takes in what has happened; to be called some ten times a second.
    ///
    /// # Errors
    /// When the tracing files cannot be read any more.
    pub fn drain(&mut self) -> Result<(), Problem> {
        self.recorder.drain(&mut self.lines)?;
        for line in self.lines.drain(..) {
            if let Line::Event(event) = line
                && let Some(took) = self.waits.take(&event)
            {
                self.done.add(took);
            }
        }
        Ok(())
    }

    /// What was completed since the last look.
    ///
    /// # Errors
    /// When the tracing files cannot be read any more.
    pub fn look(&mut self) -> Result<LatencySample, Problem> {
        self.drain()?;
        let lost = self.recorder.lost()?;
        let lost_events = lost.saturating_sub(self.lost);
        self.lost = lost;
        Ok(LatencySample {
            lost_events,
            ..std::mem::take(&mut self.done).sample()
        })
    }
}

/// The sums of the requests that are done.
#[derive(Debug, Default)]
struct Done {
    read: Sums,
    write: Sums,
}

#[derive(Debug, Default)]
struct Sums {
    requests: u64,
    queue_ns: u64,
    service_ns: u64,
}

impl Done {
    fn add(&mut self, took: Took) {
        let sums = if took.is_read {
            &mut self.read
        } else {
            &mut self.write
        };
        sums.requests += 1;
        sums.queue_ns += took.queue_ns;
        sums.service_ns += took.service_ns;
    }

    fn sample(self) -> LatencySample {
        LatencySample {
            read: self.read.means(),
            write: self.write.means(),
            lost_events: 0,
        }
    }
}

impl Sums {
    fn means(self) -> Parts {
        let mean = |sum: u64| (self.requests > 0).then(|| sum as f64 / self.requests as f64);
        Parts {
            requests: self.requests,
            queue_ns: mean(self.queue_ns),
            service_ns: mean(self.service_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_have_means_of_their_own() {
        let mut done = Done::default();
        for (is_read, queue_ns, service_ns) in [
            (true, 1_000_000, 3_000_000),
            (true, 3_000_000, 1_000_000),
            (false, 0, 4_000_000),
        ] {
            done.add(Took {
                is_read,
                queue_ns,
                service_ns,
            });
        }
        let sample = done.sample();
        let parts = |requests, queue: f64, service: f64| Parts {
            requests,
            queue_ns: Some(queue),
            service_ns: Some(service),
        };
        assert_eq!(sample.read, parts(2, 2e6, 2e6));
        assert_eq!(sample.write, parts(1, 0.0, 4e6));
        assert_eq!(Done::default().sample(), LatencySample::default());
    }
}
