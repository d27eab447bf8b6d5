//! What can go wrong with emulated disks. Nobody decides by the kind of error: all are [`Problem`]s.

use std::fmt::Display;
use std::io;
use std::path::Path;

use iosched_machine::failure::{Failure, Problem, exit, in_a_sentence};

/// Another crate's error as a problem.
pub(super) fn passed_on(error: &impl Failure) -> Problem {
    Problem::new(error.exit_code(), in_a_sentence(error)).maybe_hint(error.hint())
}

/// Something that emulated disks need and this machine does not give.
pub(super) fn missing(what: impl Into<String>, hint: &str) -> Problem {
    Problem::new(exit::MISSING, what).hint(hint)
}

/// A step that failed, as a verb with its object: `detach loop8`.
pub(super) fn cannot<E: Into<io::Error>>(step: impl Display) -> impl FnOnce(E) -> Problem {
    move |error| {
        let error = error.into();
        let message = format!("cannot {step}: {error}");
        if error.kind() == io::ErrorKind::PermissionDenied {
            return Problem::new(exit::NOT_PERMITTED, message).hint(
                "root is not enough where the system takes rights from it: in a container, start it with `--privileged`",
            );
        }
        Problem::new(exit::FAILURE, message)
    }
}

/// Something that could not be done with a file or directory of ours.
pub(super) fn cannot_with(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Problem {
    let what = format!("{action} {}", path.display());
    move |error| Problem::new(exit::FAILURE, format!("cannot {what}: {error}"))
}
