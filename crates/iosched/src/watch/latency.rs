//! Where the requests of a disk spend their time: in its queue (inserted to issued), or in service
//! (issued to completed).
//!
//! The counters of `/proc/diskstats` know only the sum; the block layer's events know the parts. A
//! request is known by what it does and where it begins, which a merge at its front changes: such a
//! one counts as never queued. So does one that a disk without a scheduler gets at once.

use std::collections::BTreeMap;

use iosched_sim::request::Op;
use iosched_sim::trace::kernel::{Action, Event, Line};
use iosched_sim::units::Time;
use serde::Serialize;

use crate::capture::{self, CaptureError, Events, Recorder};
use crate::host::Host;

/// Classes of latencies: the first is below 2 µs, each further one has twice the latency, the last
/// begins at 8.4 s.
pub const CLASSES: usize = 24;

/// Requests that are remembered: more than any disk holds, so that lost completions do not pile up.
const MOST_REQUESTS: usize = 1 << 16;

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
    /// Reads and writes by their whole time, see [`class`].
    pub classes: [u64; CLASSES],
    /// Events that the kernel lost meanwhile: their requests are not counted.
    pub lost_events: u64,
}

/// The class of a latency.
pub fn class(nanos: u64) -> usize {
    let micros = (nanos / 1000).max(1);
    (micros.ilog2() as usize).min(CLASSES - 1)
}

/// The least latency of a class, µs.
pub fn class_begin_us(class: usize) -> u64 {
    if class == 0 { 0 } else { 1 << class }
}

/// Follows the events of one disk.
#[derive(Debug)]
pub struct LatencyWatch {
    recorder: Recorder,
    lines: Vec<Line>,
    requests: Requests,
    lost: u64,
}

impl LatencyWatch {
    /// Begins with a disk, by its kernel name.
    ///
    /// # Errors
    /// Where the kernel's tracing files may not be used, or do not exist.
    pub fn start(host: &Host, device: &str) -> Result<LatencyWatch, CaptureError> {
        let number = capture::device_number(host, device)?;
        Ok(LatencyWatch {
            recorder: Recorder::start(number, &[Events::Requests])?,
            lines: Vec::new(),
            requests: Requests::default(),
            lost: 0,
        })
    }

    /// Takes in what has happened; to be called some ten times a second.
    ///
    /// # Errors
    /// When the tracing files cannot be read any more.
    pub fn drain(&mut self) -> Result<(), CaptureError> {
        self.recorder.drain(&mut self.lines)?;
        for line in self.lines.drain(..) {
            if let Line::Event(event) = line {
                self.requests.take(&event);
            }
        }
        Ok(())
    }

    /// What was completed since the last look.
    ///
    /// # Errors
    /// When the tracing files cannot be read any more.
    pub fn look(&mut self) -> Result<LatencySample, CaptureError> {
        self.drain()?;
        let lost = self.recorder.lost()?;
        let lost_events = lost.saturating_sub(self.lost);
        self.lost = lost;
        Ok(LatencySample {
            lost_events,
            ..self.requests.sample()
        })
    }
}

/// What a request is known by: whether it reads, and its first sector.
type Key = (bool, u64);

/// The requests that are under way, and the sums of those that are done.
#[derive(Debug, Default)]
struct Requests {
    queued: BTreeMap<Key, Time>,
    /// When each was inserted and issued.
    at_disk: BTreeMap<Key, (Time, Time)>,
    read: Sums,
    write: Sums,
    classes: [u64; CLASSES],
}

#[derive(Debug, Default)]
struct Sums {
    requests: u64,
    queue_ns: u64,
    service_ns: u64,
}

impl Requests {
    fn take(&mut self, event: &Event) {
        let Some(op) = event.op.filter(|op| *op != Op::Discard) else {
            return;
        };
        if event.length.as_u64() == 0 {
            return; // a flush has no place to be known by
        }
        let key = (op == Op::Read, event.start.as_u64());
        match event.action {
            Action::Inserted => {
                remember(&mut self.queued, key, event.time);
            }
            Action::Issued => {
                let inserted = self.queued.remove(&key).unwrap_or(event.time);
                remember(&mut self.at_disk, key, (inserted, event.time));
            }
            Action::Completed => {
                if let Some((inserted, issued)) = self.at_disk.remove(&key) {
                    self.done(op, inserted, issued, event.time);
                }
            }
            _ => {}
        }
    }

    fn done(&mut self, op: Op, inserted: Time, issued: Time, completed: Time) {
        let between = |from: Time, to: Time| to.as_nanos().saturating_sub(from.as_nanos());
        let sums = match op {
            Op::Read => &mut self.read,
            _ => &mut self.write,
        };
        sums.requests += 1;
        sums.queue_ns += between(inserted, issued);
        sums.service_ns += between(issued, completed);
        self.classes[class(between(inserted, completed))] += 1;
    }

    /// The sums since the last time.
    fn sample(&mut self) -> LatencySample {
        LatencySample {
            read: std::mem::take(&mut self.read).means(),
            write: std::mem::take(&mut self.write).means(),
            classes: std::mem::take(&mut self.classes),
            lost_events: 0,
        }
    }
}

fn remember<V>(requests: &mut BTreeMap<Key, V>, key: Key, value: V) {
    if requests.len() >= MOST_REQUESTS {
        requests.clear();
    }
    requests.insert(key, value);
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
    use iosched_sim::request::ProcessId;
    use iosched_sim::units::{Sector, Sectors};

    use super::*;

    fn event(micros: u64, action: Action, op: Op, start: u64) -> Event {
        Event {
            time: Time::from_nanos(micros * 1000),
            action,
            op: Some(op),
            sync: true,
            meta: false,
            start: Sector::new(start),
            length: Sectors::new(8),
            process: ProcessId(1),
            comm: String::new(),
            priority: None,
            cpu: None,
        }
    }

    #[test]
    fn the_time_of_a_request_is_that_in_the_queue_and_that_in_service() {
        let mut requests = Requests::default();
        for (micros, action, op, start) in [
            (0, Action::Inserted, Op::Read, 100),
            (1000, Action::Issued, Op::Read, 100),
            (1000, Action::Issued, Op::Write, 100), // without a scheduler: never queued
            (4000, Action::Completed, Op::Read, 100),
            (5000, Action::Completed, Op::Write, 100),
            (6000, Action::Completed, Op::Write, 700), // began before we looked
        ] {
            requests.take(&event(micros, action, op, start));
        }
        let sample = requests.sample();
        let parts = |queue: f64, service: f64| Parts {
            requests: 1,
            queue_ns: Some(queue),
            service_ns: Some(service),
        };
        assert_eq!(sample.read, parts(1e6, 3e6));
        assert_eq!(sample.write, parts(0.0, 4e6));
        assert_eq!(sample.classes[class(4_000_000)], 2);
        assert_eq!(requests.sample(), LatencySample::default());
    }

    #[test]
    fn classes_double() {
        assert_eq!([0, 1999, 2000, 3999, 4000].map(class), [0, 0, 1, 1, 2]);
        assert_eq!(class(u64::MAX), CLASSES - 1);
        assert_eq!(class(class_begin_us(13) * 1000), 13);
    }

    #[test]
    fn lost_completions_do_not_pile_up() {
        let mut requests = Requests::default();
        for start in 0..3 * MOST_REQUESTS as u64 {
            requests.take(&event(start, Action::Issued, Op::Read, start));
        }
        assert!(requests.at_disk.len() <= MOST_REQUESTS);
    }
}
