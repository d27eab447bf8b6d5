//! Where PostgreSQL's programs are, and how they are run.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use iosched_machine::process::{self, ChildError, Daemon, Finished, Scope, Stop, User};
use iosched_machine::visible;
use rustix::io::Errno;
use rustix::process::Signal;

use super::error;
use crate::load::LoadError;

/// Making a large database on a slow disk takes at the most this long.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Where packages put the programs of each version.
const VERSIONED: &[&str] = &["/usr/lib/postgresql/{}/bin", "/usr/pgsql-{}/bin"];

/// The oldest major version that has the options which we give its programs (`pgbench --random-seed`).
const OLDEST: u32 = 11;

/// Versions that are looked for, the newest first; those that are too old, too, to say so.
fn versions() -> impl Iterator<Item = String> {
    let old = (0..=6).rev().map(|minor| format!("9.{minor}"));
    let majors = (10..=25).rev().map(|major: u32| major.to_string());
    majors.chain(old)
}

/// One version's programs, with the rights that they are run with.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    directory: PathBuf,
    scope: Scope,
    stop: Stop,
}

impl Programs {
    /// The newest version that has all of `needed`: in the packages' own places first (what is on
    /// PATH there are wrappers that look for a cluster of the distribution), then on PATH.
    pub(super) fn find(needed: &[&str], scope: &Scope, stop: &Stop) -> Result<Programs, LoadError> {
        let versioned = versions().flat_map(|version| {
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
                scope: scope.clone(),
                stop: stop.clone(),
            });
        }
        let lacks = |program: &&&str| !places.iter().any(|place| has(place, program));
        let missing = needed.iter().find(lacks).unwrap_or(&needed[0]);
        let message =
            format!("{missing} is not installed (looked on PATH and in /usr/lib/postgresql)");
        Err(error::missing(
            message,
            "install it: apt install postgresql (Debian, Ubuntu), dnf install \
             postgresql-server postgresql-contrib (Fedora, RHEL)",
        ))
    }

    /// pgbench's version.
    ///
    /// # Errors
    /// It is older than what we know.
    pub(super) fn checked_version(&self) -> Result<String, LoadError> {
        let found = self.version("pgbench")?;
        match major(&found) {
            Some(major) if major < OLDEST => Err(error::missing(
                format!(
                    "PostgreSQL is too old: {found}, and {OLDEST} is the oldest that is understood"
                ),
                "install a newer one beside it: https://www.postgresql.org/download has packages for old distributions",
            )),
            _ => Ok(found),
        }
    }

    /// What `program --version` prints: `pgbench (PostgreSQL) 15.18`.
    pub(super) fn version(&self, program: &str) -> Result<String, LoadError> {
        let mut command = self.own_command(program);
        command.arg("--version").current_dir("/");
        Ok(self.run(program, command)?.stdout.trim().to_owned())
    }

    /// A program, to be given its arguments, for a server of the user's: in English, and with what our
    /// environment says of that server, whoever runs it.
    pub(super) fn client_command(&self, program: &str) -> Command {
        let mut command = Command::new(self.directory.join(program));
        command.envs(of_postgres()).env("LC_ALL", "C");
        command
    }

    /// The same for our own server, of which our environment knows nothing.
    pub(super) fn own_command(&self, program: &str) -> Command {
        let mut command = Command::new(self.directory.join(program));
        for (name, _) in of_postgres() {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C");
        command
    }

    /// What they are run in.
    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Whose rights the programs have, if not ours.
    pub(super) fn user(&self) -> Option<&User> {
        self.scope.user()
    }

    /// Starts the server; what it says goes to `log`.
    pub(super) fn start_server(&self, command: Command, log: File) -> Result<Daemon, ChildError> {
        // Killed, it would leave its shared memory behind.
        Daemon::start(&self.scope, command, log, Signal::QUIT)
    }

    /// What is run from now on tidies up: even if the user wanted us to stop, but no longer than this. A server that
    /// does not answer would keep us for ever.
    pub(super) fn tidy_up_within(&mut self, limit: Duration) {
        self.stop = Stop::new().at(Some(Instant::now() + limit));
    }

    /// Whether the user wants us to stop, or the time to tidy up is over.
    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Runs a step of the preparation to its end.
    pub(super) fn run(&self, step: &str, command: Command) -> Result<Finished, LoadError> {
        let finished = self.scope.run(command, LONGEST, &self.stop, &mut |_| {})?;
        if finished.status.success() {
            return Ok(finished);
        }
        let message = what_went_wrong(&finished);
        if !kernel_has_random_numbers() {
            return Err(error::missing(
                format!(
                    "{step} needs Linux 3.17 or later (getrandom), as today's OpenSSL does: {message}"
                ),
                "measure with another load, fio's or a command of your own: `iosched help loads` lists them",
            ));
        }
        Err(error::setup(
            step,
            &process::describe(finished.status),
            &message,
        ))
    }
}

/// The first number in what a program says of its version: 15 of `pgbench (PostgreSQL) 15.18 (Debian 15.18-1)`.
pub(super) fn major(version: &str) -> Option<u32> {
    let mut words = version.split_whitespace();
    words.find_map(|word| {
        let end = word.find(|c: char| !c.is_ascii_digit());
        word[..end.unwrap_or(word.len())].parse().ok()
    })
}

/// Whether there is `getrandom`, without which no server of today starts.
fn kernel_has_random_numbers() -> bool {
    let flags = rustix::rand::GetRandomFlags::NONBLOCK;
    rustix::rand::getrandom(&mut [0_u8; 1], flags) != Err(Errno::NOSYS)
}

/// The variables that libpq and the server heed.
fn of_postgres() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG"))
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
        Some(first) => visible::beginning_of(first),
        None => process::last_lines(&finished.stderr, 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_of_what_pgbench_says() {
        for (said, expected) in [
            ("pgbench (PostgreSQL) 9.2.24", Some(9)),
            (
                "pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)",
                Some(15),
            ),
            ("pgbench (PostgreSQL) 19beta1", Some(19)),
            ("pgbench (of somebody's own)", None),
        ] {
            assert_eq!(major(said), expected, "{said}");
        }
    }

    #[test]
    fn of_a_servers_long_error_the_beginning_is_told() {
        let of = |stderr: String| {
            what_went_wrong(&Finished {
                status: std::process::ExitStatus::default(),
                stdout: String::new(),
                stderr,
                elapsed: Duration::ZERO,
            })
        };
        assert_eq!(of("x\nERROR: no\n".into()), "ERROR: no");
        let long = of(format!("ERROR: {}\n", "A".repeat(45_000_000)));
        assert!(long.starts_with("ERROR: AAA") && long.len() < 2000);
    }
}
