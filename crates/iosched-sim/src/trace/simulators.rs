//! The traces of other simulators, and FIU's: values between blanks, a line per access.
//!
//! | format | columns |
//! |---|---|
//! | `DiskSim` ascii | milliseconds with decimals, device, sector, sectors, flags (lowest bit: read) |
//! | `MQSim` ascii | nanoseconds, device, sector, sectors, 1 (read) or 0 (write) |
//! | FIU | nanoseconds, pid, process, sector, sectors, `R`/`W`, major, minor, digest |

use super::error::Cause;
use super::lines::LineFormat;
use super::record::{Record, Sink, Skip, Stage};
use super::text::{Blanks, columns, extent, fixed, number};
use crate::request::{Op, ProcessId};
use crate::units::Time;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    DiskSim,
    MqSim,
    Fiu,
}

/// Reads one line after the other.
#[derive(Debug, Clone)]
pub(crate) struct Simulators(pub(crate) Dialect);

impl LineFormat for Simulators {
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            sink.skip(Skip::Summary);
            return Ok(());
        }
        match self.0 {
            Dialect::Fiu => fiu(line, sink),
            dialect => simulator(dialect, line, sink),
        }
    }
}

fn count(text: &[u8], what: &'static str) -> Result<u64, Cause> {
    number(text).ok_or_else(|| Cause::bad(what, text, "number"))
}

fn simulator(dialect: Dialect, line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
    let disksim = dialect == Dialect::DiskSim;
    let layout = if disksim {
        "`milliseconds device sector sectors flags`"
    } else {
        "`nanoseconds device sector sectors 1|0`"
    };
    let [when, device, sector, sectors, flags] = columns(Blanks(line), layout)?;
    let (when, what) = if disksim {
        let decimals = when.contains(&b'.').then(|| fixed(when, 6)).flatten();
        (decimals.ok_or(when), "number of milliseconds with decimals")
    } else {
        (number(when).ok_or(when), "number of nanoseconds")
    };
    let when = when.map_err(|text| Cause::bad("time", text, what))?;
    count(device, "device")?;
    let (start, length) = (count(sector, "sector")?, count(sectors, "sectors")?);
    let op = if flag_is_read(flags)? {
        Op::Read
    } else {
        Op::Write
    };
    if length == 0 {
        sink.skip(Skip::NoData);
        return Ok(());
    }
    let device = sink.device(device)?;
    let place = extent(start, length)?;
    sink.access(Time::from_nanos(when), op, place, device, None);
    Ok(())
}

/// `DiskSim` writes its flags in hexadecimal; the lowest bit is the same either way.
fn flag_is_read(flags: &[u8]) -> Result<bool, Cause> {
    let text = std::str::from_utf8(flags).ok();
    let value = text.and_then(|text| u32::from_str_radix(text, 16).ok());
    value
        .map(|value| value & 1 == 1)
        .ok_or_else(|| Cause::bad("flags", flags, "hexadecimal number"))
}

fn fiu(line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
    const LAYOUT: &str = "`nanoseconds pid process sector sectors R|W major minor`";
    let [when, pid, name, sector, sectors, op, major, minor] = columns(Blanks(line), LAYOUT)?;
    let when = count(when, "time")?;
    let process = count(pid, "pid")?;
    let process = u32::try_from(process).map_err(|_| Cause::bad("pid", pid, "process"))?;
    let (start, length) = (count(sector, "sector")?, count(sectors, "sectors")?);
    let op = match op {
        b"R" => Op::Read,
        b"W" => Op::Write,
        _ => return Err(Cause::bad("operation", op, "read (R) or write (W)")),
    };
    count(major, "major")?;
    count(minor, "minor")?;
    if length == 0 {
        sink.skip(Skip::NoData);
        return Ok(());
    }
    let (start, length) = extent(start, length)?;
    let device = sink.device(&[major, b",", minor].concat())?;
    let process = ProcessId(process);
    sink.labels.name_process(process, name);
    sink.records.push(Record {
        time: Time::from_nanos(when),
        stage: Stage::Submitted,
        op,
        sync: true,
        start,
        length,
        process,
        device,
        response: None,
    });
    Ok(())
}
