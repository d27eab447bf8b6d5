//! Why a job file cannot be simulated.

use crate::units::Bytes;

/// Why a job file cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// The option is not understood, or not simulated.
    #[error("line {line}: `{name}` is not simulated")]
    Unsupported {
        /// Number of the line, from 1.
        line: usize,
        /// The option.
        name: String,
    },
    /// The value is not understood, or not simulated.
    #[error("line {line}: {name} cannot be `{value}`: it can be {allowed}")]
    Value {
        /// Number of the line, from 1.
        line: usize,
        /// The option.
        name: String,
        /// Its value.
        value: String,
        /// What it can be.
        allowed: &'static str,
    },
    /// A line is neither section, option nor comment.
    #[error("line {line}: cannot read {text:?}: {cause}")]
    Syntax {
        /// Number of the line, from 1.
        line: usize,
        /// What stands there.
        text: String,
        /// What is wrong with it.
        cause: &'static str,
    },
    /// An option stands before the first section.
    #[error("line {line}: `{text}` stands in no section")]
    NoSection {
        /// Number of the line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// There is no job.
    #[error("there is no job in it")]
    Empty,
    /// A job's part of the disk is empty or smaller than one access.
    #[error("{job}: its part of the disk ({span}) is smaller than one access ({access})")]
    TooSmall {
        /// The job.
        job: String,
        /// How long its part is.
        span: Bytes,
        /// How long an access is.
        access: Bytes,
    },
    /// A job reaches beyond the disk.
    #[error("{job}: its part begins at {offset}, and the disk ends at {capacity}")]
    BeyondEnd {
        /// The job.
        job: String,
        /// Where its part begins.
        offset: Bytes,
        /// How large the disk is.
        capacity: Bytes,
    },
    /// More processes than a simulation can hold.
    #[error("{count} processes are more than the {max} that can be simulated")]
    TooMany {
        /// How many there would be.
        count: u64,
        /// How many there can be.
        max: u64,
    },
}
