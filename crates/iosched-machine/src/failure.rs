//! What every error of this library can say of itself besides its message: the way out, and the
//! exit code that a script sees.

use std::io;

pub use iosched_facts::{Problem, exit};

use crate::command_line::Remedy;
use crate::visible;

/// The way out where a file of `/proc` is not there: in a root file system that somebody made by hand.
pub const NO_PROC: &str = "is /proc mounted? `mount -t proc proc /proc`";

/// The same of `/sys`.
pub const NO_SYSFS: &str = "is sysfs mounted? `mount -t sysfs sysfs /sys`";

/// An error that knows the way out.
///
/// `Display` names the thing and the cause, in lower case, so that it fits after `error: `. The
/// hint is the way out, when there is one.
pub trait Failure: std::error::Error {
    /// The failure that this one is, or comes from: where this one says nothing else, the way out and the exit code are
    /// that one's.
    fn passes_on(&self) -> Option<&dyn Failure> {
        None
    }

    /// What the user can do about it; several lines are allowed.
    fn hint(&self) -> Option<String> {
        self.passes_on()?.hint()
    }

    /// What the command line lacks, where that is known.
    fn remedy(&self) -> Option<Remedy> {
        self.passes_on()?.remedy()
    }

    /// One of [`exit`].
    fn exit_code(&self) -> u8 {
        self.passes_on().map_or(exit::FAILURE, Failure::exit_code)
    }
}

/// What an error comes from, as far as its message does not say so.
pub fn causes(error: &dyn std::error::Error) -> Vec<String> {
    let said = visible::message(error);
    let sources = std::iter::successors(error.source(), |cause| cause.source());
    let causes = sources.map(visible::message);
    causes.filter(|cause| !said.contains(cause)).collect()
}

/// An error in one sentence, with what it comes from: `cannot run fio: Permission denied (os error 13)`. The lines of an
/// error of several are its clauses.
pub fn in_a_sentence(error: &dyn std::error::Error) -> String {
    let parts = std::iter::once(error.to_string()).chain(causes(error));
    let sentence = parts.collect::<Vec<_>>().join(": ");
    sentence.replace(":\n  - ", ": ").replace("\n  - ", "; ")
}

/// The same as a part of a message, or of a record: of what is longer than a few lines the beginning.
pub fn in_a_message(error: &dyn std::error::Error) -> String {
    visible::beginning_of(&in_a_sentence(error))
}

/// What to do about a file that cannot be written for want of room: none if that is not the cause.
pub fn room_hint(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some("make room there"),
        // What we ourselves do not read, or write, for its size has no number of the system's.
        io::ErrorKind::FileTooLarge if error.raw_os_error().is_some() => {
            Some("let files become larger: ulimit -f unlimited")
        }
        _ => None,
    }
}

/// Something of ours that could not be removed or put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotUndone {
    /// Kernel name or path.
    pub thing: String,
    /// The cause, as a clause of the message.
    pub cause: String,
}

impl Failure for Problem {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }

    fn exit_code(&self) -> u8 {
        self.code
    }
}

impl From<Problem> for Box<dyn Failure> {
    fn from(problem: Problem) -> Box<dyn Failure> {
        Box::new(problem)
    }
}

/// A problem that the same command with other options does not have.
#[derive(Debug, thiserror::Error)]
pub struct Remediable {
    /// What is wrong.
    pub problem: Problem,
    /// What the command line lacks, where that is known.
    pub remedy: Option<Remedy>,
}

impl Remediable {
    /// Any failure with its remedy, for callers that pass it on and decide nothing by it.
    pub fn of(failure: &dyn Failure) -> Remediable {
        Remediable {
            problem: problem(failure),
            remedy: failure.remedy(),
        }
    }
}

/// As the problem, with its lines.
impl std::fmt::Display for Remediable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.problem.fmt(f)
    }
}

impl From<Problem> for Remediable {
    fn from(problem: Problem) -> Remediable {
        let remedy = None;
        Remediable { problem, remedy }
    }
}

impl Failure for Remediable {
    fn passes_on(&self) -> Option<&dyn Failure> {
        Some(&self.problem)
    }

    fn remedy(&self) -> Option<Remedy> {
        self.remedy.clone()
    }
}

/// Any failure as a problem, for callers that pass it on and decide nothing by it.
pub fn problem(failure: &dyn Failure) -> Problem {
    Problem::new(failure.exit_code(), in_a_sentence(failure)).maybe_hint(failure.hint())
}

/// `result.or_problem()?`: see [`problem`].
pub trait OrProblem<T> {
    /// The same result with a [`Problem`].
    ///
    /// # Errors
    /// Those of the result.
    fn or_problem(self) -> Result<T, Problem>;
}

impl<T, F: Failure> OrProblem<T> for Result<T, F> {
    fn or_problem(self) -> Result<T, Problem> {
        self.map_err(|failure| problem(&failure))
    }
}
