//! Which formats there are, and which one a trace is in.

use super::blkparse::Blkparse;
use super::blktrace::{self, Blktrace};
use super::error::{Cause, ReadError, excerpt};
use super::fio_iolog::{self, FioIolog};
use super::ftrace::{self, Ftrace};
use super::lines::{self, LineFormat};
use super::msr::Msr;
use super::record::{Labels, Sink, Skipped};
use super::recording::Recording;
use super::systor::Systor;

/// A format of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// This project's recordings, and what `simulate --events` writes.
    Events,
    /// Text of `blkparse`.
    Blkparse,
    /// Binary of `blktrace`.
    Blktrace,
    /// Block events as text: ftrace, `trace-cmd report`, `perf script`.
    Ftrace,
    /// fio's `write_iolog`, version 2: pauses, no times.
    FioIologV2,
    /// fio's `write_iolog`, version 3.
    FioIologV3,
    /// MSR Cambridge.
    Msr,
    /// SYSTOR '17.
    Systor,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 8] = [
        Format::Events,
        Format::Blkparse,
        Format::Blktrace,
        Format::Ftrace,
        Format::FioIologV2,
        Format::FioIologV3,
        Format::Msr,
        Format::Systor,
    ];

    /// What the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Events => "events",
            Format::Blkparse => "blkparse",
            Format::Blktrace => "blktrace",
            Format::Ftrace => "ftrace",
            Format::FioIologV2 => "fio-iolog-2",
            Format::FioIologV3 => "fio-iolog-3",
            Format::Msr => "msr",
            Format::Systor => "systor-17",
        }
    }

    /// True if it tells who made an access.
    pub fn has_processes(self) -> bool {
        matches!(
            self,
            Format::Events | Format::Blkparse | Format::Blktrace | Format::Ftrace
        )
    }

    /// The format of this name.
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The format of a trace that begins like this; `is_whole` if this is all of it.
    ///
    /// Binary formats and iologs say what they are, block events stand among other lines. Of the others, the one that can read the first
    /// line that is neither a comment nor a heading.
    pub(crate) fn recognise(head: &[u8], is_whole: bool) -> Result<Format, ReadError> {
        let failed = |cause| ReadError::in_line(1, cause);
        if blktrace::begins_like(head) {
            return Ok(Format::Blktrace);
        }
        if let Some(version) = fio_iolog::version(head) {
            // The reader refuses what it does not know by its number.
            return Ok(if version == 2 {
                Format::FioIologV2
            } else {
                Format::FioIologV3
            });
        }
        if head.is_empty() {
            return Err(failed(Cause::new("it is empty")));
        }
        let end = memchr::memrchr(b'\n', head).filter(|_| !is_whole);
        let lines = &head[..end.map_or(head.len(), |end| end + 1)];
        if ftrace::has_event(lines.split(|&byte| byte == b'\n').take(MOST_HEADINGS)) {
            return Ok(Format::Ftrace);
        }
        let text_formats = [
            Format::Blkparse,
            Format::Events,
            Format::Msr,
            Format::Systor,
        ];
        let found = text_formats
            .into_iter()
            .find(|&format| begins_like(format, lines));
        found.ok_or_else(|| {
            let text = excerpt(lines);
            let message = format!("this is no trace that is known here: it begins with `{text}`");
            failed(Cause::new(message).with_hint(
                "docs/simulate.md lists the formats; `--trace-format` of `iosched simulate` takes their names",
            ))
        })
    }
}

/// True if the format's own parser takes the first line that looks like data.
fn begins_like(format: Format, lines: &[u8]) -> bool {
    let mut parser = Parser::new(format);
    let (mut records, mut labels, mut skipped) =
        (Vec::new(), Labels::default(), Skipped::default());
    let mut seen = 0;
    for line in lines
        .split_inclusive(|&byte| byte == b'\n')
        .take(MOST_HEADINGS)
    {
        let mut sink = Sink {
            records: &mut records,
            labels: &mut labels,
            skipped: &mut skipped,
        };
        if parser.parse(line, true, &mut seen, &mut sink).is_err() {
            return false;
        }
        if looks_like_data(line) {
            return true;
        }
    }
    false
}

/// Lines before the first with data.
const MOST_HEADINGS: usize = 1000;

fn looks_like_data(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let comment = line.first().is_none_or(|&byte| byte == b'#');
    !comment && line.iter().any(u8::is_ascii_digit) && !line.starts_with(b"Input file")
}

/// Reads a format out of blocks of bytes.
#[derive(Debug, Clone)]
pub(crate) enum Parser {
    Blktrace(Blktrace),
    Blkparse(Blkparse),
    Ftrace(Ftrace),
    Recording(Recording),
    FioIolog(FioIolog),
    Msr(Msr),
    Systor(Systor),
}

impl Parser {
    pub(crate) fn new(format: Format) -> Parser {
        match format {
            Format::Events => Parser::Recording(Recording::default()),
            Format::Blkparse => Parser::Blkparse(Blkparse::default()),
            Format::Blktrace => Parser::Blktrace(Blktrace::default()),
            Format::Ftrace => Parser::Ftrace(Ftrace),
            Format::FioIologV2 | Format::FioIologV3 => Parser::FioIolog(FioIolog::default()),
            Format::Msr => Parser::Msr(Msr::default()),
            Format::Systor => Parser::Systor(Systor::default()),
        }
    }

    /// Reads what is whole in a block, and of the last block what remains; returns how many bytes were
    /// used. `position` is counted on: lines of text, bytes of binary formats.
    pub(crate) fn parse(
        &mut self,
        block: &[u8],
        is_last: bool,
        position: &mut u64,
        sink: &mut Sink,
    ) -> Result<usize, ReadError> {
        fn text<F: LineFormat>(
            format: &mut F,
            block: &[u8],
            is_last: bool,
            position: &mut u64,
            sink: &mut Sink,
        ) -> Result<usize, ReadError> {
            lines::parse(format, block, is_last, position, sink)
        }
        match self {
            Parser::Blktrace(format) => {
                let used = format.parse(block, is_last, *position, sink)?;
                *position += used as u64;
                Ok(used)
            }
            Parser::Blkparse(format) => text(format, block, is_last, position, sink),
            Parser::Ftrace(format) => text(format, block, is_last, position, sink),
            Parser::Recording(format) => text(format, block, is_last, position, sink),
            Parser::FioIolog(format) => text(format, block, is_last, position, sink),
            Parser::Msr(format) => text(format, block, is_last, position, sink),
            Parser::Systor(format) => text(format, block, is_last, position, sink),
        }
    }
}
