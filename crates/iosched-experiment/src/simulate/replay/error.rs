//! Why a trace cannot be replayed.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use iosched_machine::failure::{Failure, exit};
use iosched_sim::trace::ReadError;
use iosched_sim::units::Bytes;

use crate::simulate::file::FileError;

/// A trace that cannot be replayed, and why.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ReplayError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is no file: a trace is read more than once", path.display())]
    NotAFile { path: PathBuf },
    #[error("{}, {cause}", path.display())]
    Trace { path: PathBuf, cause: ReadError },
    #[error("{} holds no access", path.display())]
    Empty { path: PathBuf },
    #[error("{} is one of more than {most} files of a recording", path.display())]
    TooManyFiles { path: PathBuf, most: usize },
    #[error("{} is of {count} devices: {names}", path.display())]
    SeveralDevices {
        path: PathBuf,
        count: usize,
        names: String,
    },
    #[error("{} has no accesses on a device `{device}`; it has: {names}", path.display())]
    NoSuchDevice {
        path: PathBuf,
        device: String,
        /// The first of those that there are.
        names: String,
    },
    #[error("{} reaches to {end}, and the disk ends at {disk}", path.display())]
    DiskTooSmall {
        path: PathBuf,
        end: Bytes,
        disk: Bytes,
    },
    #[error(
        "{} does not say when accesses were answered, which --closed needs", path.display()
    )]
    NoAnswers { path: PathBuf },
    #[error("{} has no times, only pauses: --speed has nothing to scale", path.display())]
    NoTimes { path: PathBuf },
    #[error("{} lasts {years} years at that speed", path.display())]
    TooLong { path: PathBuf, years: u64 },
    /// More closed loops than can be kept apart.
    #[error("{} has more than {most} processes, too many for --closed", path.display())]
    TooManyProcesses { path: PathBuf, most: usize },
    #[error("cannot keep the trace's steps in a temporary file in {}: {cause}", directory.display())]
    Spill {
        directory: PathBuf,
        cause: io::Error,
    },
}

/// What went wrong while accesses were taken from a trace: known only after the run, which then ended
/// early.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failed(Arc<Mutex<Option<ReplayError>>>);

impl Failed {
    pub(super) fn set(&self, error: ReplayError) {
        self.lock().get_or_insert(error);
    }

    /// What went wrong, if anything did.
    pub(crate) fn take(&self) -> Option<ReplayError> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<ReplayError>> {
        self.0.lock().expect("no thread panics with it")
    }
}

impl Failure for ReplayError {
    iosched_machine::passes_on!(ReplayError: File);

    fn hint(&self) -> Option<String> {
        match self {
            ReplayError::NotAFile { .. } => {
                Some("write it into a file first (gzip or zstd will do)".to_owned())
            }
            ReplayError::Trace { cause, .. } => cause.cause.hint().map(str::to_owned),
            ReplayError::SeveralDevices { .. } | ReplayError::NoSuchDevice { .. } => Some(
                "`--trace-device NAME` replays one of them, `--trace-device all` puts them one \
                 after the other on the disk"
                    .to_owned(),
            ),
            ReplayError::DiskTooSmall { end, .. } => {
                let gib = end.as_u64().div_ceil(1 << 30);
                Some(format!(
                    "`--size {gib}G` makes the disk large enough, `--wrap` folds what lies beyond its \
                     end back onto it (distances change)"
                ))
            }
            ReplayError::NoAnswers { .. } | ReplayError::TooManyProcesses { .. } => {
                Some("without --closed each access is made at its time".to_owned())
            }
            ReplayError::NoTimes { .. } => {
                Some("leave out --speed: each access waits for the one before it".to_owned())
            }
            ReplayError::Spill { .. } => {
                Some("TMPDIR names a directory with more room: 32 bytes per access".to_owned())
            }
            ReplayError::TooLong { .. } => Some(
                "look at the first and the last line: times of one clock are wanted".to_owned(),
            ),
            ReplayError::TooManyFiles { .. } => {
                Some("blkparse puts them together into one file".to_owned())
            }
            _ => self.passes_on()?.hint(),
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            ReplayError::Spill { .. } => exit::FAILURE,
            _ => self.passes_on().map_or(exit::USAGE, Failure::exit_code),
        }
    }
}
