//! Published traces with a line per access: values between commas.
//!
//! | format | columns |
//! |---|---|
//! | MSR Cambridge | time (100 ns since 1601), host, disk, `Read`/`Write`, offset and size in bytes, response (100 ns) |
//! | SPC (Financial, `WebSearch`) | unit, sector, bytes, `R`/`W`, seconds |
//! | Alibaba block traces | device, `R`/`W`, offset and length in bytes, microseconds |
//! | Tencent CBS | seconds, sector, sectors, 0 (read) or 1 (write), volume |
//! | SYSTOR '17 | seconds, response in seconds (may be empty), `R`/`W`, LUN, offset and size in bytes |
//!
//! A first line with names of columns is skipped.

use super::error::Cause;
use super::lines::LineFormat;
use super::record::{Sink, Skip};
use super::text::{byte_extent, columns, commas, extent, fixed, number};
use crate::request::Op;
use crate::units::{Nanos, SECTOR_BYTES, Time};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Msr,
    Spc,
    Alibaba,
    Tencent,
    Systor,
}

/// Reads one line after the other.
#[derive(Debug, Clone)]
pub(crate) struct Csv {
    dialect: Dialect,
    is_first: bool,
    /// The name of the last device, where it is put together from columns.
    device: Vec<u8>,
}

impl Csv {
    pub(crate) fn new(dialect: Dialect) -> Csv {
        Csv {
            dialect,
            is_first: true,
            device: Vec::new(),
        }
    }
}

impl LineFormat for Csv {
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        let line = line.trim_ascii();
        if line.is_empty() || (is_first && !line.iter().any(u8::is_ascii_digit)) {
            sink.skip(Skip::Summary);
            return Ok(());
        }
        match self.dialect {
            Dialect::Msr => self.msr(line, sink),
            Dialect::Spc => spc(line, sink),
            Dialect::Alibaba => alibaba(line, sink),
            Dialect::Tencent => tencent(line, sink),
            Dialect::Systor => systor(line, sink),
        }
    }
}

/// A time in units of `10^-places` seconds, as nanoseconds.
fn time(text: &[u8], places: u32, what: &'static str) -> Result<Time, Cause> {
    let units = number(text).and_then(|units| units.checked_mul(10_u64.pow(9 - places)));
    units
        .map(Time::from_nanos)
        .ok_or_else(|| Cause::bad("time", text, what))
}

fn seconds(text: &[u8], what: &'static str) -> Result<u64, Cause> {
    fixed(text, 9).ok_or_else(|| Cause::bad(what, text, "number of seconds"))
}

fn count(text: &[u8], what: &'static str, expected: &'static str) -> Result<u64, Cause> {
    number(text).ok_or_else(|| Cause::bad(what, text, expected))
}

/// `R`, `Read`, `W`, `Write`, whatever the case.
fn operation(text: &[u8]) -> Result<Op, Cause> {
    let is = |word: &[u8]| text.eq_ignore_ascii_case(word);
    if is(b"r") || is(b"read") {
        Ok(Op::Read)
    } else if is(b"w") || is(b"write") {
        Ok(Op::Write)
    } else {
        Err(Cause::bad("operation", text, "read (R) or write (W)"))
    }
}

/// An access of `bytes` at `offset`; without bytes there is none.
fn in_bytes(
    sink: &mut Sink,
    (time, op): (Time, Op),
    (offset, bytes): (u64, u64),
    device: &[u8],
    response: Option<Nanos>,
) -> Result<(), Cause> {
    if bytes == 0 {
        sink.skip(Skip::NoData);
        return Ok(());
    }
    let device = sink.device(device)?;
    sink.access(time, op, byte_extent(offset, bytes)?, device, response);
    Ok(())
}

impl Csv {
    fn msr(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
        const LAYOUT: &str = "`time,host,disk,Read|Write,offset,size,response`";
        let [when, host, disk, op, offset, size, response] = columns(commas(line), LAYOUT)?;
        let response = time(response, 7, "number of 100 ns")?;
        self.device.clear();
        self.device.extend_from_slice(host);
        self.device.push(b'.');
        self.device.extend_from_slice(disk);
        count(disk, "disk", "number")?;
        let place = (
            count(offset, "offset", "number of bytes")?,
            count(size, "size", "number of bytes")?,
        );
        let when = (time(when, 7, "number of 100 ns")?, operation(op)?);
        let response = Some(response.saturating_since(Time::ZERO));
        in_bytes(sink, when, place, &self.device, response)
    }
}

fn spc(line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
    const LAYOUT: &str = "`unit,sector,bytes,R|W,seconds`";
    let [unit, sector, bytes, op, when] = columns(commas(line), LAYOUT)?;
    count(unit, "unit", "number")?;
    let start = count(sector, "sector", "number")?;
    let bytes = count(bytes, "size", "number of bytes")?;
    let when = Time::from_nanos(seconds(when, "time")?);
    let op = operation(op)?;
    if bytes == 0 {
        sink.skip(Skip::NoData);
        return Ok(());
    }
    let device = sink.device(unit)?;
    let place = extent(start, bytes.div_ceil(SECTOR_BYTES))?;
    sink.access(when, op, place, device, None);
    Ok(())
}

fn alibaba(line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
    const LAYOUT: &str = "`device,R|W,offset,length,microseconds`";
    let [device, op, offset, length, when] = columns(commas(line), LAYOUT)?;
    count(device, "device", "number")?;
    let place = (
        count(offset, "offset", "number of bytes")?,
        count(length, "length", "number of bytes")?,
    );
    let when = (time(when, 6, "number of microseconds")?, operation(op)?);
    in_bytes(sink, when, place, device, None)
}

fn tencent(line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
    const LAYOUT: &str = "`seconds,sector,sectors,0|1,volume`";
    let [when, sector, sectors, op, volume] = columns(commas(line), LAYOUT)?;
    let when = time(when, 0, "number of seconds")?;
    let start = count(sector, "sector", "number")?;
    let length = count(sectors, "size", "number of sectors")?;
    count(volume, "volume", "number")?;
    let op = match op {
        b"0" => Op::Read,
        b"1" => Op::Write,
        _ => return Err(Cause::bad("operation", op, "read (0) or write (1)")),
    };
    if length == 0 {
        sink.skip(Skip::NoData);
        return Ok(());
    }
    let device = sink.device(volume)?;
    sink.access(when, op, extent(start, length)?, device, None);
    Ok(())
}

fn systor(line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
    const LAYOUT: &str = "`seconds,response,R|W,LUN,offset,size`";
    let [when, response, op, lun, offset, size] = columns(commas(line), LAYOUT)?;
    let response = match response {
        b"" => None,
        text => Some(Nanos::new(seconds(text, "response")?)),
    };
    count(lun, "LUN", "number")?;
    let place = (
        count(offset, "offset", "number of bytes")?,
        count(size, "size", "number of bytes")?,
    );
    let when = (Time::from_nanos(seconds(when, "time")?), operation(op)?);
    in_bytes(sink, when, place, lun, response)
}
