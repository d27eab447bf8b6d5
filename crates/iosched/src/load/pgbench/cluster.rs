//! A PostgreSQL cluster of our own, in a directory on the target.
//!
//! It has its own configuration and log, an unprivileged owner, and listens on a unix socket in its
//! data directory only. That is reached through `/proc/self/cwd`, because the path of a socket may
//! have no more than 107 bytes and a target's path may be longer.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::error::PgbenchError;
use super::own::OwnDatabases;
use super::programs::Programs;
use super::snapshot::Snapshot;
use super::{Database, Settings};
use crate::load::Workplace;
use crate::process::{self, ChildError, Daemon, User};

/// A server that is not ready by then does not get ready. Recovery is never needed.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// How a server is ended: a fast shutdown with its checkpoint, then an immediate one.
const FAST: &[(Signal, Duration)] = &[
    (Signal::INT, Duration::from_secs(600)),
    (Signal::QUIT, Duration::from_secs(10)),
];

/// How a server is ended whose data nobody needs any more.
const IMMEDIATE: &[(Signal, Duration)] = &[(Signal::QUIT, Duration::from_secs(10))];

/// How often a server is started to remove what a killed one left.
const LAST_CLIENTS_TRIES: usize = 25;

/// The superuser of the cluster. Nobody but the owner of its directory reaches the socket.
const SUPERUSER: &str = "iosched";

/// Where the socket is, seen from the data directory.
const SOCKET: &str = "/proc/self/cwd";

/// While the database is made: what would be written twice or waited for is not.
const WHILE_MAKING: &[&str] = &["wal_level=minimal", "max_wal_senders=0", "fsync=off"];

/// Chance that strikes some trials and not others is left out; all else is as the server has it.
const WHILE_MEASURING: &[&str] = &["autovacuum=off"];

/// Our own server.
#[derive(Debug)]
pub(super) struct Cluster {
    programs: Programs,
    /// Holds `data`, `copy` and `log`.
    root: PathBuf,
    clients: u32,
    server: Option<Daemon>,
    snapshot: Option<Snapshot>,
}

/// Who owns a cluster: the user that was asked for, or the package's when we are root.
pub(super) fn owner(wanted: Option<User>) -> Result<Option<User>, PgbenchError> {
    let is_root = rustix::process::geteuid().is_root();
    match wanted {
        Some(user) if user.uid != 0 => Ok(Some(user)),
        _ if !is_root => Ok(None),
        _ => User::find("postgres").map(Some).ok_or(PgbenchError::NoUser),
    }
}

impl Cluster {
    /// Makes the cluster and its database, and remembers what they look like.
    pub(super) fn make(
        settings: &Settings,
        at: &Workplace<'_>,
        root: &Path,
        say: &mut dyn FnMut(&str),
    ) -> Result<Cluster, PgbenchError> {
        let user = owner(at.user)?;
        let programs = Programs::find(&["initdb", "postgres", "pgbench"], user, at.stop)?;
        make_root(root, user).map_err(|source| PgbenchError::Io {
            path: root.into(),
            source,
        })?;
        let mut cluster = Cluster {
            programs,
            root: root.into(),
            clients: settings.clients,
            server: None,
            snapshot: None,
        };
        say(&format!(
            "making a PostgreSQL database of scale {}",
            settings.scale
        ));
        cluster.initialise(user)?;
        cluster.start_with(WHILE_MAKING)?;
        let mut command = cluster.pgbench();
        command.args(["--initialize", "--quiet"]);
        command.args(["--scale", &settings.scale.to_string(), "postgres"]);
        cluster.programs.run("pgbench --initialize", command)?;
        if !cluster.end(FAST) {
            return Err(PgbenchError::ServerDied {
                when: "while the database was made",
                message: cluster.last_words(),
            });
        }
        let snapshot = Snapshot::take(&cluster.data(), &root.join("copy"));
        cluster.snapshot = Some(snapshot.map_err(|source| PgbenchError::Io {
            path: root.join("copy"),
            source,
        })?);
        Ok(cluster)
    }

    fn initialise(&self, user: Option<User>) -> Result<(), PgbenchError> {
        let data = self.data();
        // Made by us, it stays when initdb fails.
        make_owned(&data, user).map_err(|source| PgbenchError::Io { path: data, source })?;
        let initialised = self.run_initdb();
        if initialised.is_err() {
            // It has emptied the directory: there is room for this.
            let _ = self.let_a_server_find_what_another_left(user);
        }
        initialised
    }

    /// As initdb does to try settings: a server starts on next to nothing, takes the shared memory of the
    /// one before on the same directory away, then its own, and ends.
    fn let_a_server_find_what_another_left(&self, user: Option<User>) -> io::Result<()> {
        let version = self.programs.version("postgres").unwrap_or_default();
        let major: String = version
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect();
        for (name, text) in [
            ("PG_VERSION", major + "\n"),
            ("postgresql.conf", String::new()),
        ] {
            let path = self.data().join(name);
            fs::write(&path, text)?;
            if let Some(user) = user {
                lchown(&path, Some(user.uid), Some(user.gid))?;
            }
        }
        let mut command = self.programs.own_command("postgres");
        command.arg("--check").arg("-D").arg(self.data());
        command.current_dir(self.data());
        let _ = self.programs.run("postgres --check", command);
        Ok(())
    }

    fn run_initdb(&self) -> Result<(), PgbenchError> {
        let mut command = self.programs.own_command("initdb");
        command.arg("-D").arg(self.data()).current_dir(&self.root);
        command.args(["-U", SUPERUSER, "--auth=trust", "--no-sync"]);
        command.args(["--encoding=UTF8", "--locale=C"]);
        self.programs.run("initdb", command)?;
        Ok(())
    }

    /// Starts the server and waits until it takes connections.
    fn start_with(&mut self, configuration: &[&str]) -> Result<(), PgbenchError> {
        let log = self.root.join("log");
        let file = File::create(&log).map_err(|source| PgbenchError::Io { path: log, source })?;
        let mut command = self.programs.own_command("postgres");
        command.arg("-D").arg(self.data()).current_dir(self.data());
        let connections = format!("max_connections={}", self.clients + 10);
        let own = [
            "listen_addresses=",
            "unix_socket_directories=.",
            connections.as_str(),
        ];
        for setting in own.iter().chain(configuration) {
            command.args(["-c", setting]);
        }
        // Killed, it would leave its shared memory behind.
        self.server = Some(Daemon::start(command, file, Signal::QUIT)?);
        self.wait_until_ready()
    }

    /// Watches the last line of `postmaster.pid`, where the server says how far it is.
    fn wait_until_ready(&mut self) -> Result<(), PgbenchError> {
        let started = Instant::now();
        loop {
            let pid_file = fs::read_to_string(self.data().join("postmaster.pid"));
            if pid_file
                .unwrap_or_default()
                .lines()
                .nth(7)
                .is_some_and(|s| s.trim() == "ready")
            {
                return Ok(());
            }
            if self.has_died() {
                return Err(PgbenchError::ServerDied {
                    when: "while it started",
                    message: self.last_words(),
                });
            }
            if started.elapsed() > READY_WITHIN {
                return Err(PgbenchError::NotReady {
                    seconds: READY_WITHIN.as_secs(),
                    message: self.last_words(),
                });
            }
            if self.programs.is_stopped() {
                return Err(ChildError::Stopped.into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// True if the server ended well.
    fn end(&mut self, signals: &[(Signal, Duration)]) -> bool {
        self.server
            .take()
            .is_some_and(|mut server| server.end(signals))
    }

    fn has_died(&mut self) -> bool {
        self.server
            .as_mut()
            .is_none_or(|server| server.has_ended().is_some())
    }

    /// What the server's log says of its end.
    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.root.join("log")).unwrap_or_default();
        let is_telling = |line: &&str| {
            let marks = ["FATAL:", "PANIC:", "ERROR:", "terminated", "shut down"];
            marks.iter().any(|mark| line.contains(mark))
        };
        let telling: Vec<&str> = log.lines().filter(is_telling).collect();
        if telling.is_empty() {
            return process::last_lines(&log, 2);
        }
        process::last_lines(&telling.join("\n"), 2)
    }

    /// A server that was killed leaves shared memory behind, which the next one on the same data finds
    /// and removes.
    fn sweep_up(&mut self) {
        self.programs.go_on_after_stop();
        let is_restored = self.reset().is_ok();
        for _ in 0..LAST_CLIENTS_TRIES {
            // As long as a client of the dead one lives, the memory is in use.
            if !is_restored || self.start_with(WHILE_MAKING).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn data(&self) -> PathBuf {
        self.root.join("data")
    }
}

impl Database for Cluster {
    /// The server is ended, which empties its buffers, and its files are put back.
    fn reset(&mut self) -> Result<(), PgbenchError> {
        self.end(IMMEDIATE);
        let Some(snapshot) = &mut self.snapshot else {
            return Ok(());
        };
        snapshot.restore().map_err(|source| PgbenchError::Io {
            path: self.root.join("data"),
            source,
        })?;
        Ok(())
    }

    fn start(&mut self) -> Result<(), PgbenchError> {
        self.start_with(WHILE_MEASURING)
    }

    fn pgbench(&self) -> Command {
        let mut command = self.programs.own_command("pgbench");
        command
            .current_dir(self.data())
            .env("PGHOST", SOCKET)
            .env("PGUSER", SUPERUSER);
        command
    }

    fn connection(&self) -> String {
        "postgres".into()
    }

    /// Its clients may see the end of a server before we do.
    fn death(&mut self) -> Option<String> {
        let has_died = (0..50).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            self.has_died()
        });
        has_died.then(|| self.last_words())
    }

    fn take_down(&mut self) -> Option<OwnDatabases> {
        if self.server.is_some() && self.has_died() {
            self.sweep_up();
        }
        self.end(IMMEDIATE);
        None
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.take_down();
    }
}

/// A directory that only its owner may enter, and that he can reach.
fn make_root(root: &Path, user: Option<User>) -> io::Result<()> {
    make_owned(root, user)?;
    if user.is_some()
        && let Some(above) = root.parent()
    {
        // Its name cannot be guessed, and it cannot be listed; but it can be passed through.
        fs::set_permissions(above, Permissions::from_mode(0o711))?;
    }
    Ok(())
}

/// A directory that only its owner may enter.
fn make_owned(path: &Path, user: Option<User>) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    match user {
        Some(user) => lchown(path, Some(user.uid), Some(user.gid)),
        None => Ok(()),
    }
}
