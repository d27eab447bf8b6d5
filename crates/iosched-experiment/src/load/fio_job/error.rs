//! Why a job file cannot be a load.

use iosched_machine::failure::{Failure, exit};

/// Why a job file cannot be a load.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobFileError {
    /// A line that is neither a section, an option nor a comment.
    #[error("{file}:{line}: cannot read {text:?}: {cause}")]
    Syntax {
        /// The job file as the user named it.
        file: String,
        /// Counted from 1.
        line: usize,
        text: String,
        cause: &'static str,
    },
    /// A few lines of it would take all memory.
    #[error("{file}:{line}: more than 100 000 options, with those of [global] in each section")]
    TooManyOptions {
        file: String,
        /// The line that is one too many.
        line: usize,
    },
    /// An option that could reach beyond the target, or change the scheduler under the trial.
    #[error("{file}:{line}: option {option} is refused: {cause}")]
    Dangerous {
        /// The job file as the user named it.
        file: String,
        /// Counted from 1.
        line: usize,
        option: String,
        cause: &'static str,
    },
    /// An option that we do not know to be harmless.
    #[error("{file}:{line}: option {option} is not supported in a load")]
    Unsupported {
        /// The job file as the user named it.
        file: String,
        /// Counted from 1.
        line: usize,
        option: String,
    },
    /// A value that we do not allow for an option that we do.
    #[error("{file}:{line}: {option}={value} is not supported in a load: {cause}")]
    BadValue {
        /// The job file as the user named it.
        file: String,
        /// Counted from 1.
        line: usize,
        option: String,
        value: String,
        cause: String,
    },
    /// No section but `[global]`.
    #[error("{file}: no job in it: only a [global] section or nothing at all")]
    NoJobs {
        /// The job file as the user named it.
        file: String,
    },
}

impl Failure for JobFileError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            JobFileError::TooManyOptions { .. } => "make it smaller".into(),
            JobFileError::Syntax { .. } => {
                "a job file has [section] lines, option=value lines, and comments after # or ;"
                    .into()
            }
            JobFileError::Dangerous { option, .. } => match option.as_str() {
                "ioscheduler" => "name the schedulers with --arms instead".into(),
                "filename" | "directory" | "filename_format" | "opendir" => {
                    "name the target on the command line: iosched tune TARGET".into()
                }
                _ => format!("remove {option} from the job file"),
            },
            JobFileError::Unsupported { option, .. } => format!(
                "remove {option}: only options that are known to stay inside the target are run"
            ),
            JobFileError::BadValue { .. } => "change the value".into(),
            JobFileError::NoJobs { .. } => "add a section such as [job] with rw=randread".into(),
        })
    }

    fn exit_code(&self) -> u8 {
        exit::USAGE
    }
}
