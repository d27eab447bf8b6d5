//! SYSTOR '17: values between commas, a line per access.
//!
//! `time,response,Read|Write,LUN,offset,size`: times in seconds, places in bytes. The response may be blank; so may the
//! type, of commands that are neither. A first line with names of columns is skipped.

use super::error::Cause;
use super::lines::LineFormat;
use super::msr::{count, is_heading, operation};
use super::record::{Sink, Skip};
use super::text::{byte_extent, columns, commas, fixed};
use crate::units::{Nanos, Time};

/// Reads one line after the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Systor {
    is_further: bool,
}

impl LineFormat for Systor {
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
        const LAYOUT: &str = "`time,response,Read|Write,LUN,offset,size`";
        let is_first = !std::mem::replace(&mut self.is_further, true);
        if is_heading(line, is_first) {
            sink.skip(Skip::Summary);
            return Ok(());
        }
        let [when, response, op, lun, offset, size] = columns(commas(line), LAYOUT)?;
        let when = Time::from_nanos(seconds(when)?);
        if op.is_empty() {
            sink.skip(Skip::NoData);
            return Ok(());
        }
        let op = operation(op)?;
        count(lun, "LUN", "number")?;
        let offset = count(offset, "offset", "number of bytes")?;
        let bytes = count(size, "size", "number of bytes")?;
        if bytes == 0 {
            sink.skip(Skip::NoData);
            return Ok(());
        }
        let response = match response {
            b"" => None,
            response => Some(Nanos::new(seconds(response)?)),
        };
        let device = sink.device(lun)?;
        sink.access(when, op, byte_extent(offset, bytes)?, device, response);
        Ok(())
    }
}

fn seconds(text: &[u8]) -> Result<u64, Cause> {
    fixed(text, 9).ok_or_else(|| Cause::bad("time", text, "number of seconds"))
}
