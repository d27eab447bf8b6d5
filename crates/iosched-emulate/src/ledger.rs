//! The disk's own account of what it served: the last requests with the model's times.
//!
//! Read as the file `served.csv` beside the emulated disk's data file. It is how a measured service
//! time is compared with the modelled one (`iosched emulate check`), request by request.

use std::collections::VecDeque;
use std::fmt::Write as _;

use iosched_sim::disk::DiskOp;
use iosched_sim::units::{Nanos, Sector, Sectors, Time};

/// Requests that are remembered; the oldest are dropped first.
const CAPACITY: usize = 16_384;

const HEADER: &str = "op,start_sector,sectors,arrived_ns,started_ns,completed_ns,answered_ns";

/// One request that was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Served {
    /// What it was.
    pub(super) op: DiskOp,
    /// Its first sector.
    pub(super) start: Sector,
    pub(super) length: Sectors,
    /// When it reached the disk, on the disk's clock.
    pub(super) arrived: Time,
    /// When the disk began with it.
    pub(super) started: Time,
    /// When the disk was done with it.
    pub(super) completed: Time,
    /// When the answer was sent: later than `completed` by as much as the server was late.
    pub(super) answered: Time,
}

impl Served {
    /// The time that the model says the request took.
    pub(super) fn modelled(&self) -> Nanos {
        self.completed - self.arrived
    }
}

/// The last requests served, oldest first.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: VecDeque<Served>,
}

impl Ledger {
    pub(super) fn record(&mut self, served: Served) {
        if self.entries.len() == CAPACITY {
            self.entries.pop_front();
        }
        self.entries.push_back(served);
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Copies the entries out, so that the text can be made without holding the disk up.
    pub(super) fn entries(&self) -> Vec<Served> {
        self.entries.iter().copied().collect()
    }
}

/// The entries as CSV with a header line.
pub(super) fn to_csv(entries: &[Served]) -> String {
    let mut text = String::with_capacity(64 * (entries.len() + 2));
    text.push_str(HEADER);
    text.push('\n');
    for served in entries {
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{}",
            op_name(served.op),
            served.start.as_u64(),
            served.length.as_u64(),
            served.arrived.as_nanos(),
            served.started.as_nanos(),
            served.completed.as_nanos(),
            served.answered.as_nanos()
        );
    }
    text
}

/// The entries of a CSV text; `None` if it is not one of ours.
pub(super) fn from_csv(text: &str) -> Option<Vec<Served>> {
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return None;
    }
    lines.map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Served> {
    let mut fields = line.split(',');
    let op = match fields.next()? {
        "read" => DiskOp::Read,
        "write" => DiskOp::Write,
        "flush" => DiskOp::Flush,
        "discard" => DiskOp::Discard,
        _ => return None,
    };
    let numbers: Vec<u64> = fields.map(str::parse).collect::<Result<_, _>>().ok()?;
    let [start, length, arrived, started, completed, answered] = numbers[..] else {
        return None;
    };
    Some(Served {
        op,
        start: Sector::new(start),
        length: Sectors::new(length),
        arrived: Time::from_nanos(arrived),
        started: Time::from_nanos(started),
        completed: Time::from_nanos(completed),
        answered: Time::from_nanos(answered),
    })
}

fn op_name(op: DiskOp) -> &'static str {
    match op {
        DiskOp::Read => "read",
        DiskOp::Write => "write",
        DiskOp::Flush => "flush",
        DiskOp::Discard => "discard",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(start: u64) -> Served {
        Served {
            op: DiskOp::Write,
            start: Sector::new(start),
            length: Sectors::new(8),
            arrived: Time::from_nanos(10),
            started: Time::from_nanos(20),
            completed: Time::from_nanos(90),
            answered: Time::from_nanos(95),
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let entries = vec![served(1), served(2)];
        assert_eq!(from_csv(&to_csv(&entries)), Some(entries));
    }

    #[test]
    fn a_foreign_or_broken_text_is_refused() {
        assert_eq!(from_csv(""), None);
        assert_eq!(from_csv("a,b\n"), None);
        assert_eq!(from_csv(&format!("{HEADER}\nread,1,2,3\n")), None);
        assert_eq!(from_csv(&format!("{HEADER}\nerase,1,2,3,4,5,6\n")), None);
    }

    #[test]
    fn the_oldest_entries_are_dropped_first() {
        let mut ledger = Ledger::default();
        for start in 0..=CAPACITY as u64 {
            ledger.record(served(start));
        }
        let entries = ledger.entries();
        assert_eq!(entries.len(), CAPACITY);
        assert_eq!(entries[0].start, Sector::new(1));
    }
}
