//! Why a trace cannot be read, and where.

use std::fmt;

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

/// What is wrong, and the way out if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    message: String,
    hint: Option<&'static str>,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Cause {
    pub(crate) fn new(message: impl Into<String>) -> Cause {
        Cause {
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn with_hint(self, hint: &'static str) -> Cause {
        Cause {
            hint: Some(hint),
            ..self
        }
    }

    /// A column that is not what it should be; a long one is cut.
    pub(crate) fn bad(what: &str, text: &[u8], expected: &str) -> Cause {
        Cause::new(format!("{what} `{}` is no {expected}", excerpt(text)))
    }

    pub(crate) fn too_short(columns: usize, layout: &str) -> Cause {
        Cause::new(format!("{columns} columns where {layout} is expected"))
    }

    /// Another version of a format than the one that is read.
    pub(crate) fn version(format: &str, found: u64, read: &str) -> Cause {
        Cause::new(format!(
            "version {found} of {format}, and only {read} is read"
        ))
    }

    /// The way out, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        self.hint
    }
}

impl ReadError {
    /// This line says that the recording is of the other block layer.
    pub fn multi_queue(line: u64) -> ReadError {
        let cause = Cause::new(
            "this is a recording of the multi-queue block layer, which has none, mq-deadline, kyber and bfq",
        );
        ReadError::in_line(
            line,
            cause.with_hint("follow it with one of these: `--scheduler mq-deadline`"),
        )
    }

    /// What is wrong in a line, counted from 1.
    pub(crate) fn in_line(line: u64, cause: Cause) -> ReadError {
        let place = TracePosition::Line(line);
        ReadError { place, cause }
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
