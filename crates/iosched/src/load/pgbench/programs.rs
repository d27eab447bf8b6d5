//! Where PostgreSQL's programs are, and how they are run.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::error::PgbenchError;
use crate::process::{self, Finished, Stop, User};

/// Making a large database on a slow disk takes at the most this long.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Where packages put the programs of each version.
const VERSIONED: &[&str] = &["/usr/lib/postgresql/{}/bin", "/usr/pgsql-{}/bin"];

/// Versions that are looked for, the newest first.
const VERSIONS: std::ops::RangeInclusive<u32> = 10..=25;

/// One version's programs, with the rights that they are run with.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    directory: PathBuf,
    user: Option<User>,
    stop: Stop,
}

impl Programs {
    /// The newest version that has all of `needed`: in the packages' own places first (what is on
    /// PATH there are wrappers that look for a cluster of the distribution), then on PATH.
    pub(super) fn find(
        needed: &[&str],
        user: Option<User>,
        stop: &Stop,
    ) -> Result<Programs, PgbenchError> {
        let versioned = VERSIONS.rev().flat_map(|version| {
            let version = version.to_string();
            let places = VERSIONED.iter();
            places.map(move |place| PathBuf::from(place.replace("{}", &version)))
        });
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let places: Vec<PathBuf> = versioned.chain(on_path).collect();
        let has = |place: &Path, program: &str| place.join(program).is_file();
        let found = places
            .iter()
            .find(|place| needed.iter().all(|program| has(place, program)));
        if let Some(directory) = found {
            return Ok(Programs {
                directory: directory.clone(),
                user,
                stop: stop.clone(),
            });
        }
        let lacks = |program: &&&str| !places.iter().any(|place| has(place, program));
        let missing = needed.iter().find(lacks).unwrap_or(&needed[0]);
        Err(PgbenchError::Missing {
            program: (*missing).to_owned(),
        })
    }

    /// What `program --version` prints: `pgbench (PostgreSQL) 15.18`.
    pub(super) fn version(&self, program: &str) -> Result<String, PgbenchError> {
        let mut command = self.command(program);
        command.arg("--version").current_dir("/");
        Ok(self.run(program, command)?.stdout.trim().to_owned())
    }

    /// A program, to be given its arguments: with the user's rights, in English, and without what
    /// the environment says of some other server.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.directory.join(program));
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command.env("LC_ALL", "C");
        command
    }

    /// The same for our own server.
    pub(super) fn own_command(&self, program: &str) -> Command {
        let mut command = self.command(program);
        let is_of_postgres = |name: &OsString| name.to_string_lossy().starts_with("PG");
        for name in std::env::vars_os()
            .map(|(name, _)| name)
            .filter(is_of_postgres)
        {
            command.env_remove(name);
        }
        command
    }

    /// Whether the user wants us to stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_wanted()
    }

    /// What is run from now on is run to its end even if the user wanted us to stop.
    pub(super) fn go_on_after_stop(&mut self) {
        self.stop = Stop::new();
    }

    /// Runs a step of the preparation to its end.
    pub(super) fn run(&self, step: &str, command: Command) -> Result<Finished, PgbenchError> {
        let finished = process::run(command, LONGEST, &self.stop, &mut |_| {})?;
        if finished.status.success() {
            return Ok(finished);
        }
        Err(PgbenchError::Setup {
            step: step.into(),
            status: process::describe(finished.status),
            message: what_went_wrong(&finished),
        })
    }
}

/// The lines that say it: those with an error, or else the last ones.
pub(super) fn what_went_wrong(finished: &Finished) -> String {
    let is_error = |line: &&str| {
        ["error:", "ERROR:", "FATAL:", "PANIC:"]
            .iter()
            .any(|mark| line.contains(mark))
    };
    let errors: Vec<&str> = finished.stderr.lines().filter(is_error).collect();
    match errors.first() {
        Some(first) => (*first).to_owned(),
        None => process::last_lines(&finished.stderr, 3),
    }
}
