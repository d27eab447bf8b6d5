//! Why a run ended before its end.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use iosched_machine::command_line::{Remedy, quoted_path};
use iosched_machine::device::MayNotWrite;
use iosched_machine::failure::{Failure, Problem, Remediable, exit};
use iosched_switch::SwitchError;

use crate::load::LoadError;

/// The command line that goes on with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// The record.
    pub directory: PathBuf,
    /// True if it writes to a raw device, which the user has to allow again.
    pub destroys_data: bool,
}

impl fmt::Display for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directory = quoted_path(&self.directory);
        write!(f, "iosched tune --resume {directory}")?;
        if self.destroys_data {
            f.write_str(" --destroy-data")?;
        }
        Ok(())
    }
}

/// Why a run ended before its end. The disks are as before all the same.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum RunError {
    /// An arm cannot be set.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// What a load needs is missing, or it cannot be prepared.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// What it changed is not as before; the journal keeps it.
    #[error("{}not all is as before: {left}", first(ended_by.as_deref()))]
    NotPutBack {
        left: String,
        /// What ended the run, if it did not come to its own end.
        ended_by: Option<Box<RunError>>,
    },
    #[error("interrupted: the disks are as before, the trials so far are saved in {}", resume.directory.display())]
    Interrupted { resume: Resume },
    #[error("the budget of {} s was spent before the first trial", budget.as_secs_f64())]
    NoTimeLeft {
        /// The duration that the user asked for.
        budget: Duration,
        is_simulated: bool,
    },
    #[error("{device} vanished during the run: the trials so far are saved in {}", resume.directory.display())]
    Vanished { device: String, resume: Resume },
    #[error("load {load} fails under every arm: {cause}")]
    LoadFails { load: String, cause: String },
    /// The target may not be written.
    #[error(transparent)]
    MayNotWrite(#[from] MayNotWrite),
    /// Somebody could replace the load's files by links to others.
    #[error(transparent)]
    Untrusted(#[from] Remediable),
    #[error(transparent)]
    Problem(#[from] Problem),
}

impl RunError {
    /// A file or directory cannot be used.
    pub(super) fn io(path: &Path, error: &io::Error) -> RunError {
        let message = format!("cannot use {}: {error}", path.display());
        Problem::new(exit::FAILURE, message).into()
    }

    /// True if the user wanted us to stop, or the time was over.
    pub(super) fn is_stopped(&self) -> bool {
        match self {
            RunError::Load(error) => error.is_stopped(),
            RunError::Problem(problem) => problem.code == exit::INTERRUPTED,
            _ => false,
        }
    }
}

impl Failure for RunError {
    fn passes_on(&self) -> Option<&dyn Failure> {
        Some(match self {
            RunError::Switch(error) => error,
            RunError::Load(error) => error,
            RunError::MayNotWrite(error) => error,
            RunError::Untrusted(error) => error,
            RunError::Problem(problem) => problem,
            _ => return None,
        })
    }

    fn hint(&self) -> Option<String> {
        match self {
            RunError::Interrupted { resume } | RunError::Vanished { resume, .. } => Some(format!("go on with: {resume}")),
            RunError::NoTimeLeft { is_simulated: true, .. } => {
                Some("give more time (--budget) or shorter trials (--runtime)".into())
            }
            RunError::NoTimeLeft { .. } => {
                Some("give more time (--budget), shorter trials (--runtime) or less to prepare (--file-size, scale=, --size of an emulated disk)".into())
            }
            RunError::LoadFails { .. } => Some("run the load by hand to see more".into()),
            RunError::NotPutBack { .. } => Some("`iosched restore` puts it back".into()),
            _ => self.passes_on()?.hint(),
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            RunError::NoTimeLeft { budget, .. } => {
                let twice = (2.0 * budget.as_secs_f64()).ceil();
                Some(Remedy::With(format!("--budget={twice}s")))
            }
            _ => self.passes_on()?.remedy(),
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            RunError::Interrupted { .. } => exit::INTERRUPTED,
            RunError::NotPutBack { .. } => exit::FAILURE,
            RunError::Vanished { .. } => exit::VANISHED,
            RunError::LoadFails { .. } => exit::LOAD_FAILED,
            RunError::NoTimeLeft { .. } => exit::USAGE,
            _ => self.passes_on().map_or(exit::FAILURE, Failure::exit_code),
        }
    }
}

/// What ended a run, before what is said besides.
fn first(error: Option<&RunError>) -> String {
    match error {
        None => String::new(),
        // That one promises the opposite.
        Some(RunError::Interrupted { resume }) => format!(
            "interrupted, the trials so far are saved in {}; ",
            resume.directory.display()
        ),
        Some(error) => format!("{error}; "),
    }
}
