//! Why the kernel's scheduler cannot be compared with ours.

use std::io;
use std::path::PathBuf;

use iosched_facts::Problem;
use iosched_machine::command_line::Remedy;
use iosched_machine::failure::{Failure, exit};
use iosched_switch::SwitchError;

use crate::load::LoadError;

/// Why a live comparison could not be made.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum LiveError {
    /// The scheduler, the disk model or the emulated disk cannot be used, or events cannot be recorded.
    #[error(transparent)]
    Problem(#[from] Problem),
    /// No kernel of today has it.
    #[error("{scheduler} cannot be compared live: this kernel ({kernel}) does not have it")]
    NoSuchKernel {
        scheduler: String,
        /// The kernel's version.
        kernel: String,
    },
    /// A job file cannot be read.
    #[error("no built-in load is called {name:?}, and no job file of that name can be read")]
    Load {
        /// The argument as the user wrote it.
        name: String,
        #[source]
        source: io::Error,
    },
    /// The scheduler cannot be set.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// fio.
    #[error(transparent)]
    Fio(#[from] LoadError),
    /// A recording cannot be kept.
    #[error("cannot keep the recording in {}", path.display())]
    Keep {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Failure for LiveError {
    iosched_machine::passes_on!(LiveError: Problem, Switch, Fio);

    fn hint(&self) -> Option<String> {
        match self {
            LiveError::NoSuchKernel { .. } => Some(
                "follow a recording of a kernel before 5.0 instead: `iosched conform TRACE`".into(),
            ),
            LiveError::Load { .. } => {
                let names: Vec<_> = crate::load::builtin::BUILT_IN
                    .iter()
                    .map(|load| load.name)
                    .collect();
                Some(format!("built-in loads: {}", names.join(", ")))
            }
            _ => self.passes_on()?.hint(),
        }
    }

    /// What a server that does not end needs is an option of `emulate remove`.
    fn remedy(&self) -> Option<Remedy> {
        None
    }

    fn exit_code(&self) -> u8 {
        match self {
            LiveError::Load { .. } => exit::USAGE,
            LiveError::NoSuchKernel { .. } => exit::NOT_OFFERED,
            _ => self.passes_on().map_or(exit::FAILURE, Failure::exit_code),
        }
    }
}
