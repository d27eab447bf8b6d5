//! The text that `blkparse` prints by default.
//!
//! `major,minor cpu sequence seconds.nanoseconds pid ACTION RWBS sector + nsectors [process]`. Queued,
//! issued and completed bios and requests are accesses; other events, a scheduler's messages and the totals
//! at the end are skipped and counted. Other layouts (`blkparse -f`) are errors.

use super::error::Cause;
use super::lines::LineFormat;
use super::record::{Record, Sink, Skip, Stage};
use super::text::{Blanks, columns, extent, fixed, number};
use crate::request::{Op, ProcessId};
use crate::units::Time;
use iosched_facts::event::Rwbs;

const LAYOUT: &str =
    "`major,minor cpu sequence seconds pid ACTION RWBS sector + nsectors [process]`";

/// Reads one line after the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Blkparse {
    /// The totals at the end have begun.
    totals: bool,
}

impl LineFormat for Blkparse {
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
        let line = line.trim_ascii();
        if !line.first().is_some_and(u8::is_ascii_digit) {
            self.totals |= begins_totals(line);
            let known = self.totals || line.is_empty() || line.starts_with(b"Input file");
            if !known {
                return Err(Cause::bad("device", first_word(line), "pair `major,minor`"));
            }
            sink.skip(Skip::Summary);
            return Ok(());
        }
        event(line, sink)
    }
}

fn first_word(line: &[u8]) -> &[u8] {
    Blanks(line).next().unwrap_or_default()
}

/// `CPU0 (8,0):`, or `Total (8,0):` where there was one CPU.
fn begins_totals(line: &[u8]) -> bool {
    (line.starts_with(b"CPU") || line.starts_with(b"Total (")) && line.ends_with(b"):")
}

fn event(line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
    let mut words = Blanks(line);
    let [device, cpu, sequence, time, pid, action, letters] = columns(&mut words, LAYOUT)?;
    if !is_device(device) {
        return Err(Cause::bad("device", device, "pair `major,minor`"));
    }
    for (what, text) in [("cpu", cpu), ("sequence", sequence)] {
        if !is_number(text) {
            return Err(Cause::bad(what, text, "number"));
        }
    }
    let time = fixed(time, 9).ok_or_else(|| Cause::bad("time", time, "number of seconds"))?;
    let stage = match action {
        b"Q" => Stage::Submitted,
        b"D" => Stage::Issued,
        b"C" => Stage::Completed,
        b"m" => {
            sink.skip(Skip::Message);
            return Ok(());
        }
        _ if action.len() <= 2 && action.iter().all(u8::is_ascii_alphabetic) => {
            sink.skip(Skip::OtherEvent);
            return Ok(());
        }
        _ => return Err(Cause::bad("action", action, "action of blktrace")),
    };
    let happened = Happened {
        time: Time::from_nanos(time),
        stage,
        pid,
        device,
        letters,
    };
    access(&happened, words, sink)
}

/// An event of a bio or request, without its place.
pub(super) struct Happened<'line> {
    pub(super) time: Time,
    pub(super) stage: Stage,
    pub(super) pid: &'line [u8],
    pub(super) device: &'line [u8],
    pub(super) letters: &'line [u8],
}

/// Takes an access; `words` begin with its place: `sector + nsectors [process]`.
pub(super) fn access(
    happened: &Happened<'_>,
    mut words: Blanks<'_>,
    sink: &mut Sink,
) -> Result<(), Cause> {
    let &Happened {
        time,
        stage,
        pid,
        device,
        letters,
    } = happened;
    if !is_device(device) {
        return Err(Cause::bad("device", device, "pair `major,minor`"));
    }
    let kind = Rwbs::parse(letters);
    let kind = kind.ok_or_else(|| Cause::bad("rwbs", letters, "kind of request"))?;
    let place = place(&mut words)?;
    let (Some(op), Some((start, length))) = (kind.op, place.filter(|(_, length)| *length > 0))
    else {
        // Commands past the scheduler have their bytes where others have a position.
        let is_flush = letters.starts_with(b"F") || kind.op == Some(Op::Write) && place.is_some();
        let has_bytes = kind.op.is_some() && place.is_none() && !words.rest().starts_with(b"[");
        let no_data = Skip::of_letters(letters).unwrap_or(Skip::NoData);
        sink.skip(match no_data {
            Skip::NoData if has_bytes => Skip::Passthrough,
            Skip::NoData if is_flush => Skip::Flush,
            no_data => no_data,
        });
        return Ok(());
    };
    if let Some(skip) = Skip::of_letters(letters) {
        sink.skip(skip);
        return Ok(());
    }
    let (start, length) = extent(start, length)?;
    let process = process(pid)?;
    if stage == Stage::Submitted {
        sink.labels.name_process(process, comm(words.rest()));
    }
    let device = sink.device(device)?;
    sink.push(Record {
        time,
        stage,
        op,
        sync: kind.sync,
        start,
        length,
        process,
        device,
        response: None,
    });
    Ok(())
}

fn is_device(text: &[u8]) -> bool {
    let comma = memchr::memchr(b',', text);
    comma.is_some_and(|comma| is_number(&text[..comma]) && is_number(&text[comma + 1..]))
}

fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

fn process(pid: &[u8]) -> Result<ProcessId, Cause> {
    let number = number(pid).and_then(|pid| u32::try_from(pid).ok());
    number
        .map(ProcessId)
        .ok_or_else(|| Cause::bad("pid", pid, "process"))
}

/// `sector + nsectors`, if that is what comes next.
fn place(words: &mut Blanks) -> Result<Option<(u64, u64)>, Cause> {
    let mut ahead = words.clone();
    let start = ahead.next().and_then(number);
    let (Some(start), Some(b"+")) = (start, ahead.next()) else {
        return Ok(None);
    };
    let length = ahead.next().unwrap_or_default();
    *words = ahead;
    match number(length) {
        Some(length) => Ok(Some((start, length))),
        None => Err(Cause::bad("nsectors", length, "number")),
    }
}

/// What stands between brackets at the end; it may hold blanks.
fn comm(text: &[u8]) -> &[u8] {
    let inner = text.strip_prefix(b"[").unwrap_or(text);
    inner.strip_suffix(b"]").unwrap_or(inner)
}
