//! A trace as a stream: bytes in, records out, in memory that does not grow with the trace.

use std::io::Read;

use super::error::{Cause, ReadError, TracePosition};
use super::format::{Format, Parser};
use super::lines::LONGEST_LINE;
use super::record::{Labels, Record, Sink, Skipped};

/// Bytes read in one go: more than the longest line and the longest binary record.
const BLOCK: usize = 4 * LONGEST_LINE;

/// The records of a trace, in the order in which they stand in it.
pub struct Records<R> {
    input: R,
    format: Format,
    parser: Parser,
    block: Vec<u8>,
    /// The part of the block that was not used yet.
    from: usize,
    to: usize,
    at_end: bool,
    /// Lines or bytes that were used.
    position: u64,
    batch: Vec<Record>,
    next: usize,
    skipped: Skipped,
    count: u64,
}

impl<R: Read> Records<R> {
    /// Reads the beginning, and recognises the format if none is given.
    pub fn new(input: R, format: Option<Format>) -> Result<Records<R>, ReadError> {
        let mut records = Records {
            input,
            format: Format::Events,
            parser: Parser::new(Format::Events),
            block: vec![0; BLOCK],
            from: 0,
            to: 0,
            at_end: false,
            position: 0,
            batch: Vec::new(),
            next: 0,
            skipped: Skipped::default(),
            count: 0,
        };
        records.fill()?;
        records.format = match format {
            Some(format) => format,
            None => Format::recognise(&records.block[..records.to], records.at_end)?,
        };
        records.parser = Parser::new(records.format);
        Ok(records)
    }

    /// Which format it is.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What was skipped up to here (a block ahead of the records given).
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Records given.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The next record; nothing at the end.
    pub fn read(&mut self, labels: &mut Labels) -> Result<Option<Record>, ReadError> {
        while self.next == self.batch.len() {
            if self.at_end && self.from == self.to {
                return Ok(None);
            }
            self.parse(labels)?;
        }
        self.next += 1;
        self.count += 1;
        Ok(Some(self.batch[self.next - 1]))
    }

    /// Reads until something new can be parsed, and parses it.
    fn parse(&mut self, labels: &mut Labels) -> Result<(), ReadError> {
        self.batch.clear();
        self.next = 0;
        let mut sink = Sink {
            records: &mut self.batch,
            labels,
            skipped: &mut self.skipped,
        };
        let block = &self.block[self.from..self.to];
        let used = self
            .parser
            .parse(block, self.at_end, &mut self.position, &mut sink)?;
        self.from += used;
        if !self.at_end {
            self.fill()?;
        }
        Ok(())
    }

    /// Fills the block behind what was not used yet.
    fn fill(&mut self) -> Result<(), ReadError> {
        self.block.copy_within(self.from..self.to, 0);
        self.to -= self.from;
        self.from = 0;
        while self.to < self.block.len() && !self.at_end {
            match self.input.read(&mut self.block[self.to..]) {
                Ok(0) => self.at_end = true,
                Ok(count) => self.to += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(())
    }

    fn failed(&self, error: &std::io::Error) -> ReadError {
        let place = match self.format {
            Format::Blktrace => TracePosition::Byte(self.position),
            _ => TracePosition::Line(self.position + 1),
        };
        ReadError {
            place,
            cause: Cause::new(error.to_string()),
        }
    }
}
