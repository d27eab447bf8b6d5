//! The files of one recording as one stream, in the order of time.
//!
//! `blktrace` writes a file per CPU, each nearly in order; published traces have lines that were logged a
//! little late. The files are merged by their next records' times, then up to [`WINDOW`] records are held
//! back to put late ones in their place. What comes later still keeps its place in the file, takes the
//! time of the record before it, and is counted.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::Read;

use super::error::ReadError;
use super::format::Format;
use super::record::{Labels, Record, Skipped};
use super::records::Records;
use crate::units::Time;

/// Records that are held back to be put in order.
pub const WINDOW: usize = 4096;

/// Which file, and what is wrong in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeError {
    /// The index of the file.
    pub file: usize,
    /// What is wrong.
    pub error: ReadError,
}

/// The records of one or several files in the order of time.
pub struct Merge<R> {
    files: Vec<Records<R>>,
    /// The next record of each file.
    heads: BinaryHeap<Reverse<(Time, usize)>>,
    next: Vec<Option<Record>>,
    labels: Labels,
    window: VecDeque<Record>,
    started: bool,
    last: Time,
    late: u64,
}

impl<R: Read> Merge<R> {
    /// The files of one recording.
    pub fn new(files: Vec<Records<R>>) -> Merge<R> {
        Merge {
            next: vec![None; files.len()],
            files,
            heads: BinaryHeap::new(),
            labels: Labels::default(),
            window: VecDeque::with_capacity(WINDOW),
            started: false,
            last: Time::ZERO,
            late: 0,
        }
    }

    /// The format of the first file.
    pub fn format(&self) -> Format {
        self.files[0].format()
    }

    /// The names seen so far.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// What was skipped in all files.
    pub fn skipped(&self) -> Skipped {
        let mut all = Skipped::default();
        for file in &self.files {
            all.merge(&file.skipped());
        }
        all
    }

    /// Records read from all files.
    pub fn count(&self) -> u64 {
        self.files.iter().map(Records::count).sum()
    }

    /// Records that were too late to be put in order.
    pub fn late(&self) -> u64 {
        self.late
    }

    fn next_in_order(&mut self) -> Result<Option<Record>, MergeError> {
        if !self.started {
            self.started = true;
            for file in 0..self.files.len() {
                self.advance(file)?;
            }
        }
        while self.window.len() < WINDOW {
            match self.next_merged()? {
                Some(record) => self.sort_in(record),
                None => break,
            }
        }
        let Some(mut record) = self.window.pop_front() else {
            return Ok(None);
        };
        if record.time < self.last {
            record.time = self.last;
            self.late += 1;
        }
        self.last = record.time;
        Ok(Some(record))
    }

    fn next_merged(&mut self) -> Result<Option<Record>, MergeError> {
        if self.files.len() == 1 {
            // Nothing to compare with.
            let record = self.next[0].take();
            self.advance(0)?;
            return Ok(record);
        }
        let Some(Reverse((_, file))) = self.heads.pop() else {
            return Ok(None);
        };
        let record = self.next[file].take();
        self.advance(file)?;
        Ok(record)
    }

    fn advance(&mut self, file: usize) -> Result<(), MergeError> {
        let next = self.files[file].read(&mut self.labels);
        let next = next.map_err(|error| MergeError { file, error })?;
        self.next[file] = next;
        if let (Some(record), true) = (next, self.files.len() > 1) {
            self.heads.push(Reverse((record.time, file)));
        }
        Ok(())
    }

    /// Nearly always at the end.
    fn sort_in(&mut self, record: Record) {
        if self
            .window
            .back()
            .is_none_or(|last| last.time <= record.time)
        {
            self.window.push_back(record);
            return;
        }
        let place = self
            .window
            .partition_point(|other| other.time <= record.time);
        self.window.insert(place, record);
    }
}

impl<R: Read> Iterator for Merge<R> {
    type Item = Result<Record, MergeError>;

    fn next(&mut self) -> Option<Result<Record, MergeError>> {
        self.next_in_order().transpose()
    }
}
