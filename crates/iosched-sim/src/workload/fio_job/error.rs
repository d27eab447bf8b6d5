//! Why a job file cannot be simulated.

use crate::units::Bytes;

/// Why a job file cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum JobError {
    #[error("line {line}: `{name}` is not simulated")]
    Unsupported {
        /// Number of the line, from 1.
        line: usize,
        name: String,
    },
    #[error("line {line}: {name} cannot be `{value}`: it can be {allowed}")]
    Value {
        /// Number of the line, from 1.
        line: usize,
        name: String,
        value: String,
        allowed: &'static str,
    },
    /// A line is neither section, option nor comment.
    #[error("line {line}: cannot read {text:?}: {cause}")]
    Syntax {
        /// Number of the line, from 1.
        line: usize,
        text: String,
        cause: &'static str,
    },
    /// An option stands before the first section.
    #[error("line {line}: `{text}` stands in no section")]
    NoSection {
        /// Number of the line, from 1.
        line: usize,
        text: String,
    },
    #[error("there is no job in it")]
    Empty,
    /// A job's part of the disk is empty or smaller than one access.
    #[error("{job}: its part of the disk ({span}) is smaller than one access ({access})")]
    TooSmall {
        job: String,
        span: Bytes,
        access: Bytes,
    },
    /// A job transfers less than one access.
    #[error("{job}: its io_size ({amount}) is smaller than one access ({access})")]
    AmountTooSmall {
        job: String,
        amount: Bytes,
        access: Bytes,
    },
    #[error("{job}: its part begins at {offset}, and the disk ends at {capacity}")]
    BeyondEnd {
        job: String,
        offset: Bytes,
        capacity: Bytes,
    },
    /// More processes than a simulation can hold.
    #[error("{count} processes are more than the {max} that can be simulated")]
    TooMany { count: u64, max: u64 },
}
