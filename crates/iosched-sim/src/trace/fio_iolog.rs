//! What fio's `write_iolog` writes, versions 2 and 3.
//!
//! First line `fio version N iolog`. Version 3 (fio 3.31 and later) has lines `microseconds file add|open|close` and
//! `microseconds file read|write|trim|sync|datasync offset length`, in bytes. Version 2 is the same
//! without times; `file wait microseconds` lines say how long nothing was done, so that its clock counts
//! pauses only.

use super::error::Cause;
use super::lines::LineFormat;
use super::record::{Sink, Skip};
use super::text::{Blanks, byte_extent, number};
use crate::request::Op;
use crate::units::{Nanos, Time};

const LAYOUT: &str = "`[microseconds] file action [offset length]`";

/// Reads one line after the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct FioIolog {
    /// Known after the first line.
    version: Option<u64>,
    /// Version 2: how long it has waited.
    waited: Nanos,
}

/// The version in a first line, if it is one.
pub(crate) fn version(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"fio version ")?;
    number(Blanks(rest).next()?)
}

impl LineFormat for FioIolog {
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
        let Some(version) = self.version else {
            return self.first_line(line, sink);
        };
        let mut words = Blanks(line);
        if words.rest().is_empty() {
            sink.skip(Skip::Summary);
            return Ok(());
        }
        let time = if version == 3 {
            let text = words.next().unwrap_or_default();
            let micros = number(text).and_then(|micros| micros.checked_mul(1000));
            let nanos = micros.ok_or_else(|| Cause::bad("time", text, "number of microseconds"))?;
            Time::from_nanos(nanos)
        } else {
            Time::ZERO + self.waited
        };
        let too_short = |columns| Cause::too_short(columns, LAYOUT);
        let file = words.next().ok_or_else(|| too_short(1))?;
        let action = words.next().ok_or_else(|| too_short(2))?;
        self.action(time, file, action, &mut words, sink)
    }
}

impl FioIolog {
    fn first_line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
        match version(line) {
            Some(version @ (2 | 3)) => self.version = Some(version),
            Some(found) => {
                return Err(Cause::version("fio iolog", found, "2 or 3")
                    .with_hint("record it again with fio 3: `write_iolog=FILE`"));
            }
            None => return Err(Cause::bad("first line", line, "`fio version N iolog`")),
        }
        sink.skip(Skip::Summary);
        Ok(())
    }

    fn action(
        &mut self,
        time: Time,
        file: &[u8],
        action: &[u8],
        words: &mut Blanks,
        sink: &mut Sink,
    ) -> Result<(), Cause> {
        let op = match action {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            b"sync" | b"datasync" => {
                sink.skip(Skip::Flush);
                return Ok(());
            }
            b"add" | b"open" | b"close" => {
                sink.skip(Skip::Message);
                return Ok(());
            }
            b"wait" => return self.wait(words, sink),
            _ => return Err(Cause::bad("action", action, "action of an iolog")),
        };
        let mut bytes = |what| {
            let text = words.next().unwrap_or_default();
            number(text).ok_or_else(|| Cause::bad(what, text, "number of bytes"))
        };
        let (offset, length) = (bytes("offset")?, bytes("length")?);
        if length == 0 {
            sink.skip(Skip::NoData);
            return Ok(());
        }
        let device = sink.device(file)?;
        sink.access(time, op, byte_extent(offset, length)?, device, None);
        Ok(())
    }

    fn wait(&mut self, words: &mut Blanks, sink: &mut Sink) -> Result<(), Cause> {
        let text = words.next().unwrap_or_default();
        let micros = number(text).and_then(|micros| micros.checked_mul(1000));
        let total = micros.and_then(|nanos| self.waited.as_nanos().checked_add(nanos));
        let total = total.ok_or_else(|| Cause::bad("wait", text, "number of microseconds"))?;
        self.waited = Nanos::new(total);
        sink.skip(Skip::Message);
        Ok(())
    }
}
