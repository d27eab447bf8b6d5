//! Why pgbench gave no result.

use std::io;
use std::path::Path;

use iosched_machine::failure::{Problem, exit};

use crate::load::LoadError;

/// What PostgreSQL needs is not there.
pub(super) fn missing(message: impl Into<String>, hint: &str) -> LoadError {
    LoadError::Run(Problem::new(exit::MISSING, message).hint(hint))
}

/// A file or directory of ours.
pub(super) fn io(path: &Path, error: &io::Error) -> LoadError {
    LoadError::run(format!("cannot access {}: {error}", path.display()))
}

pub(super) fn server_died(when: &str, message: &str) -> LoadError {
    LoadError::trial(format!("the PostgreSQL server died {when}: {message}"))
}

pub(super) fn unreadable(cause: &str) -> LoadError {
    LoadError::run(format!("cannot read pgbench's result: {cause}"))
}

/// A step of the preparation failed.
pub(super) fn setup(step: &str, status: &str, message: &str) -> LoadError {
    let error = LoadError::run(format!(
        "cannot prepare PostgreSQL: {step} failed with {status}: {message}"
    ));
    match setup_hint(message) {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// The way out of what PostgreSQL's own programs say (in English: they are run with `LC_ALL=C`).
fn setup_hint(message: &str) -> Option<&'static str> {
    let hints = [
        (
            "No space left",
            "make room on the target, or make the database smaller (scale=)",
        ),
        (
            "Connection refused",
            "is the server of --pg running, and is its host and port right?",
        ),
        (
            "No such file or directory",
            "is the server of --pg running, and is its host and port right?",
        ),
        (
            "password authentication failed",
            "put the right password into ~/.pgpass or PGPASSWORD",
        ),
        (
            "no password supplied",
            "put the password into ~/.pgpass or PGPASSWORD",
        ),
        (
            "permission denied to create database",
            "its user needs the right to make databases: ALTER ROLE … CREATEDB",
        ),
        (
            "does not exist",
            "name a user that the server has: --pg 'host=… user=…'",
        ),
        (
            "Permission denied",
            "its user must be allowed to enter every directory above the target",
        ),
    ];
    hints
        .into_iter()
        .find_map(|(words, hint)| message.contains(words).then_some(hint))
}
