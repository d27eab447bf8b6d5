//! Why pgbench gave no result.

use std::io;
use std::path::PathBuf;

use iosched_machine::failure::{Failure, exit};
use iosched_machine::process::ChildError;

use crate::load::settings::SettingError;

/// Why pgbench cannot be a load as the user wrote it.
#[derive(Debug, thiserror::Error)]
pub enum PgbenchSpecError {
    /// A setting.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The record would keep it.
    #[error("--pg has a password in it, which the record would keep")]
    Password,
    /// Another database cannot be named in it.
    #[error("--pg {given:?} is no list of keyword=value")]
    NotKeywords {
        /// The argument as the user wrote it.
        given: String,
    },
}

impl Failure for PgbenchSpecError {
    fn hint(&self) -> Option<String> {
        match self {
            PgbenchSpecError::Setting(error) => error.hint(),
            PgbenchSpecError::Password => {
                Some("put it into ~/.pgpass, or into the environment as PGPASSWORD".into())
            }
            PgbenchSpecError::NotKeywords { .. } => {
                Some("write --pg 'host=/run/postgresql user=me'; a dbname is ignored".into())
            }
        }
    }

    fn exit_code(&self) -> u8 {
        exit::USAGE
    }
}

/// Why pgbench gave no result.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PgbenchError {
    /// A program hung, could not be started, or we were interrupted.
    #[error(transparent)]
    Child(#[from] ChildError),
    #[error("{program} is not installed (looked on PATH and in /usr/lib/postgresql)")]
    Missing {
        /// The program, as it was called.
        program: String,
    },
    /// It lacks options that we give it.
    #[error("PostgreSQL is too old: {found}, and {oldest} is the oldest that is understood")]
    TooOld { found: String, oldest: u32 },
    #[error("{step} needs Linux 3.17 or later (getrandom), as today's OpenSSL does: {message}")]
    OldKernel {
        step: String,
        /// The last lines it wrote.
        message: String,
    },
    /// The server does not run as root, and there is nobody else.
    #[error("PostgreSQL does not run as root, and there is no user postgres")]
    NoUser,
    #[error(
        "PostgreSQL does not run as root, and whether there is a user postgres cannot be found out"
    )]
    Users {
        #[source]
        source: io::Error,
    },
    #[error("cannot prepare PostgreSQL: {step} failed with {status}: {message}")]
    Setup {
        step: String,
        status: String,
        /// The last lines it wrote.
        message: String,
    },
    #[error("the PostgreSQL server died {when}: {message}")]
    ServerDied {
        /// `while it started`, `during the trial`.
        when: &'static str,
        /// The last lines of its log.
        message: String,
    },
    #[error("the PostgreSQL server was not ready after {seconds} s: {message}")]
    NotReady {
        seconds: u64,
        /// The last lines of its log.
        message: String,
    },
    #[error("pgbench failed with {status}: {message}")]
    Failed {
        status: String,
        /// The last lines it wrote.
        message: String,
    },
    /// pgbench printed something else than we know.
    #[error("cannot read pgbench's result: {cause}")]
    Unreadable { cause: String },
    /// The server of `--pg` keeps its data elsewhere.
    #[error("the server of --pg keeps its data in {}, which is not on {}", data.display(), target.display())]
    Elsewhere { data: PathBuf, target: PathBuf },
    /// A file or directory of ours.
    #[error("cannot access {}", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl PgbenchError {
    /// True if another trial would fail the same way.
    pub(crate) fn ends_the_run(&self) -> bool {
        match self {
            PgbenchError::Child(ChildError::TimedOut { .. })
            | PgbenchError::ServerDied { .. }
            | PgbenchError::NotReady { .. }
            | PgbenchError::Failed { .. } => false,
            PgbenchError::Child(_)
            | PgbenchError::Missing { .. }
            | PgbenchError::TooOld { .. }
            | PgbenchError::OldKernel { .. }
            | PgbenchError::NoUser
            | PgbenchError::Users { .. }
            | PgbenchError::Setup { .. }
            | PgbenchError::Unreadable { .. }
            | PgbenchError::Elsewhere { .. }
            | PgbenchError::Io { .. } => true,
        }
    }
}

impl Failure for PgbenchError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            PgbenchError::Missing { .. } => {
                "install it: apt install postgresql (Debian, Ubuntu), dnf install \
                 postgresql-server postgresql-contrib (Fedora, RHEL)"
                    .into()
            }
            PgbenchError::TooOld { .. } => {
                "install a newer one beside it: https://www.postgresql.org/download has packages for old distributions"
                    .into()
            }
            PgbenchError::OldKernel { .. } => {
                "measure with another load, fio's or a command of your own: `iosched tune --help` lists them".into()
            }
            PgbenchError::NoUser | PgbenchError::Users { .. } => {
                "name an unprivileged user with --user".into()
            }
            PgbenchError::Setup { message, .. } => setup_hint(message)?.into(),
            PgbenchError::Elsewhere { .. } => {
                "name a directory on the file system with the server's data as the target".into()
            }
            _ => return None,
        })
    }

    fn exit_code(&self) -> u8 {
        match self {
            PgbenchError::Missing { .. }
            | PgbenchError::TooOld { .. }
            | PgbenchError::OldKernel { .. }
            | PgbenchError::NoUser => exit::MISSING,
            PgbenchError::Child(ChildError::Stopped) => exit::INTERRUPTED,
            PgbenchError::Elsewhere { .. } => exit::NO_SUCH_DEVICE,
            _ => exit::LOAD_FAILED,
        }
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
