//! Why a trace cannot be read, and where.

use std::fmt;

use super::kernel;

/// Where in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TracePosition {
    /// The line of this number, from 1.
    Line(u64),
    /// This many bytes after the beginning (of the decompressed trace).
    Byte(u64),
}

impl fmt::Display for TracePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TracePosition::Line(line) => write!(f, "line {line}"),
            TracePosition::Byte(offset) => write!(f, "byte {offset}"),
        }
    }
}

/// A trace cannot be read, from this place on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {cause}")]
pub struct ReadError {
    /// The line or the byte that could not be read.
    pub place: TracePosition,
    /// What is wrong there.
    pub cause: Cause,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Cause {
    #[error("this is no trace that is known here: it begins with `{text}`")]
    Unknown { text: String },
    #[error("it is empty")]
    Empty,
    #[error("{columns} columns where {layout} is expected")]
    TooShort {
        columns: usize,
        layout: &'static str,
    },
    #[error("{what} `{text}` is no {expected}")]
    BadColumn {
        what: &'static str,
        text: String,
        expected: &'static str,
    },
    /// A line without end.
    #[error("longer than 64 KiB: this is no trace")]
    LongLine,
    #[error("an access at sector {start} of {length} sectors ends beyond the largest disk")]
    TooFar {
        start: u64,
        /// In sectors, as the trace says.
        length: u64,
    },
    /// Longer than any kernel makes one.
    #[error("an access of {length} sectors is longer than any, 4 GiB")]
    TooLong {
        /// In sectors, as the trace says.
        length: u64,
    },
    /// More devices than are told apart.
    #[error("more than 65536 devices")]
    TooManyDevices,
    /// A binary trace of a machine with the other byte order.
    #[error("a blktrace recording of a big-endian machine, which is not read")]
    BigEndian,
    /// Another version of the format.
    #[error("version {found} of {format}, and only {read} is read")]
    Version {
        format: &'static str,
        found: u64,
        read: &'static str,
    },
    #[error("a record begins with {found:#010x} where 0x65617407 is expected")]
    Magic { found: u32 },
    #[error("{}", without_line(.0))]
    Kernel(kernel::TraceError),
    /// The bytes cannot be had.
    #[error("{message}")]
    Io { message: String },
}

/// The place is said already.
fn without_line(error: &kernel::TraceError) -> String {
    let text = error.to_string();
    match text.split_once(": ") {
        Some((_, rest)) => rest.to_owned(),
        None => text,
    }
}

impl Cause {
    /// A column that is not what it should be; a long one is cut.
    pub(crate) fn bad(what: &'static str, text: &[u8], expected: &'static str) -> Cause {
        Cause::BadColumn {
            what,
            text: excerpt(text),
            expected,
        }
    }

    /// The way out, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Cause::Unknown { .. } => Some(
                "docs/traces.md lists the formats; `--trace-format` of `iosched simulate` takes their names",
            ),
            Cause::BigEndian => {
                Some("turn it into text with `blkparse -i FILE > FILE.txt` where it was recorded")
            }
            Cause::Version {
                format: "fio iolog",
                ..
            } => Some("record it again with fio 3: `write_iolog=FILE`"),
            _ => None,
        }
    }
}

/// The beginning of what stands there, fit to be printed.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(40)];
    let head = head.trim_ascii();
    String::from_utf8_lossy(head)
        .chars()
        .map(|c| if c.is_control() { '·' } else { c })
        .collect()
}
