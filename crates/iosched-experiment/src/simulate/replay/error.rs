//! Why a trace cannot be replayed.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use iosched_machine::failure::Problem;
use iosched_sim::trace::ReadError;

/// What is wrong with the trace at a path: `PATH what`.
pub(super) fn wrong(path: &Path, what: impl std::fmt::Display) -> Problem {
    Problem::usage(format!("{} {what}", path.display()))
}

/// A line or a record cannot be read.
pub(super) fn unreadable(path: &Path, error: &ReadError) -> Problem {
    Problem::usage(format!("{}, {error}", path.display())).maybe_hint(error.cause.hint())
}

/// What went wrong while accesses were taken from a trace: known only after the run, which then ended
/// early.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failed(Arc<Mutex<Option<Problem>>>);

impl Failed {
    pub(super) fn set(&self, error: Problem) {
        self.lock().get_or_insert(error);
    }

    /// What went wrong, if anything did.
    pub(crate) fn take(&self) -> Option<Problem> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Problem>> {
        self.0.lock().expect("no thread panics with it")
    }
}
