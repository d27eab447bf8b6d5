//! What a recording of block traffic shows: where the disk's arm went, and how much waited.
//!
//! Pure and in one pass: records in the order of time in, numbers for charts out. It keeps 16 bytes
//! for each request and each change of what waits.

use std::collections::BTreeMap;

use iosched_sim::request::Op;
use iosched_sim::trace::{Record, Stage};

/// A recording, taken in record by record.
#[derive(Debug, Default)]
pub struct Traffic {
    /// What it is called.
    pub name: String,
    /// Its format, in words.
    pub format: String,
    /// Records taken in.
    pub records: u64,
    /// Time of the first record, ns on the recording's clock.
    begin_ns: Option<u64>,
    /// Time from the first record to the last, ns.
    pub length_ns: u64,
    /// Where requests began, as the disk got them.
    reached: BTreeMap<RequestKind, Vec<Access>>,
    /// Where requests began, as they were submitted, as long as that is all that the recording has.
    submitted: BTreeMap<RequestKind, Vec<Access>>,
    /// Data that waits for the disk, and data that the disk has, whenever one of them changes.
    pub waiting: Vec<Level>,
    /// Requests that the disk has, whenever that changes.
    pub at_disk: Vec<Level>,
    now: Now,
    /// Bytes that were read and written, as submitted or issued.
    pub bytes: BTreeMap<RequestKind, u64>,
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Discards.
    Discard,
}

/// When and where a request began.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Access {
    /// Since the first record, ns.
    pub time_ns: u64,
    /// First sector.
    pub sector: u64,
}

/// A number from a moment on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// Since the first record, ns.
    pub time_ns: u64,
    /// Sectors or requests.
    pub amount: u64,
}

#[derive(Debug, Default)]
struct Now {
    waiting_sectors: u64,
    requests: u64,
    has_issues: bool,
}

impl RequestKind {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            RequestKind::Read => "reads",
            RequestKind::Write => "writes",
            RequestKind::Discard => "discards",
        }
    }
}

impl From<Op> for RequestKind {
    fn from(op: Op) -> RequestKind {
        match op {
            Op::Read => RequestKind::Read,
            Op::Write => RequestKind::Write,
            Op::Discard => RequestKind::Discard,
        }
    }
}

impl Traffic {
    /// An empty recording.
    pub(crate) fn new(name: String, format: String) -> Traffic {
        Traffic {
            name,
            format,
            ..Traffic::default()
        }
    }

    /// Takes the next record in.
    pub(crate) fn take(&mut self, record: &Record) {
        let clock = record.time.as_nanos();
        let time_ns = clock.saturating_sub(*self.begin_ns.get_or_insert(clock));
        self.length_ns = self.length_ns.max(time_ns);
        self.records += 1;
        let kind = RequestKind::from(record.op);
        let sectors = record.length.as_u64();
        let access = Access {
            time_ns,
            sector: record.start.as_u64(),
        };
        match record.stage {
            Stage::Submitted => {
                if !self.now.has_issues {
                    self.submitted.entry(kind).or_default().push(access);
                }
                self.now.waiting_sectors += sectors;
                *self.bytes.entry(kind).or_default() += sectors * 512;
            }
            Stage::Issued => {
                self.reached.entry(kind).or_default().push(access);
                self.now.waiting_sectors = self.now.waiting_sectors.saturating_sub(sectors);
                self.now.requests += 1;
                self.now.has_issues = true;
                self.submitted.clear(); // what is not shown need not be kept
                self.at_disk.push(self.requests_at(time_ns));
            }
            Stage::Completed => {
                // What was at the disk before the recording began ends without having begun.
                self.now.requests = self.now.requests.saturating_sub(1);
                self.at_disk.push(self.requests_at(time_ns));
                return;
            }
        }
        self.waiting.push(Level {
            time_ns,
            amount: self.now.waiting_sectors,
        });
    }

    fn requests_at(&self, time_ns: u64) -> Level {
        Level {
            time_ns,
            amount: self.now.requests,
        }
    }

    /// Where the disk was asked to go.
    pub fn accesses(&self) -> &BTreeMap<RequestKind, Vec<Access>> {
        if self.now.has_issues {
            &self.reached
        } else {
            &self.submitted
        }
    }

    /// True if the recording tells when the disk got a request.
    pub(crate) fn has_issues(&self) -> bool {
        self.now.has_issues
    }

    /// Requests in all.
    pub fn requests(&self) -> usize {
        self.accesses().values().map(Vec::len).sum()
    }
}
