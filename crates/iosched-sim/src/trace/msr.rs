//! MSR Cambridge: values between commas, a line per access.
//!
//! `time,host,disk,Read|Write,offset,size,response`: times in 100 ns (the first since 1601), places in bytes. A first line
//! with names of columns is skipped.

use super::error::Cause;
use super::lines::LineFormat;
use super::record::{Sink, Skip};
use super::text::{byte_extent, columns, commas, number};
use crate::request::Op;
use crate::units::Time;

/// Reads one line after the other.
#[derive(Debug, Clone)]
pub(crate) struct Msr {
    is_first: bool,
    /// The name of the last device: host and disk.
    device: Vec<u8>,
}

impl Default for Msr {
    fn default() -> Msr {
        Msr {
            is_first: true,
            device: Vec::new(),
        }
    }
}

impl LineFormat for Msr {
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
        const LAYOUT: &str = "`time,host,disk,Read|Write,offset,size,response`";
        let is_first = std::mem::replace(&mut self.is_first, false);
        if is_heading(line, is_first) {
            sink.skip(Skip::Summary);
            return Ok(());
        }
        let [when, host, disk, op, offset, size, response] = columns(commas(line), LAYOUT)?;
        let response = time(response)?;
        count(disk, "disk", "number")?;
        let (offset, bytes) = (
            count(offset, "offset", "number of bytes")?,
            count(size, "size", "number of bytes")?,
        );
        let (when, op) = (time(when)?, operation(op)?);
        if bytes == 0 {
            sink.skip(Skip::NoData);
            return Ok(());
        }
        self.device.clear();
        self.device.extend_from_slice(host);
        self.device.push(b'.');
        self.device.extend_from_slice(disk);
        let device = sink.device(&self.device)?;
        let response = Some(response.saturating_since(Time::ZERO));
        sink.access(when, op, byte_extent(offset, bytes)?, device, response);
        Ok(())
    }
}

/// True for names of columns in the first line, and for empty lines.
pub(super) fn is_heading(line: &[u8], is_first: bool) -> bool {
    line.trim_ascii().is_empty() || (is_first && !line.iter().any(u8::is_ascii_digit))
}

/// A time in units of 100 ns.
fn time(text: &[u8]) -> Result<Time, Cause> {
    let nanos = number(text).and_then(|units| units.checked_mul(100));
    nanos
        .map(Time::from_nanos)
        .ok_or_else(|| Cause::bad("time", text, "number of 100 ns"))
}

pub(super) fn count(text: &[u8], what: &'static str, expected: &'static str) -> Result<u64, Cause> {
    number(text).ok_or_else(|| Cause::bad(what, text, expected))
}

/// `R`, `Read`, `W`, `Write`, whatever the case.
pub(super) fn operation(text: &[u8]) -> Result<Op, Cause> {
    let is = |word: &[u8]| text.eq_ignore_ascii_case(word);
    if is(b"r") || is(b"read") {
        Ok(Op::Read)
    } else if is(b"w") || is(b"write") {
        Ok(Op::Write)
    } else {
        Err(Cause::bad("operation", text, "read (R) or write (W)"))
    }
}
