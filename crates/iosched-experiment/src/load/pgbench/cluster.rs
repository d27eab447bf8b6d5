//! A PostgreSQL cluster of our own, in a directory on the target.
//!
//! It has its own configuration and log, an unprivileged owner, and listens on a unix socket in its
//! data directory only. That is reached through `/proc/self/cwd`, because the path of a socket may
//! have no more than 107 bytes and a target's path may be longer.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use iosched_machine::beneath::Directory;
use iosched_machine::process::{self, Daemon, Scope, User, as_user};
use rustix::fs::Mode;
use rustix::process::Signal;

use super::error;
use super::own::OwnDatabases;
use super::programs::Programs;
use super::snapshot::Snapshot;
use super::{Database, PgbenchSettings};
use crate::load::{LoadError, Workplace, files};

/// A server that is not ready by then does not get ready. Recovery is never needed.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// How a server is ended: a fast shutdown with its checkpoint, then an immediate one.
const FAST: &[(Signal, Duration)] = &[
    (Signal::INT, Duration::from_secs(600)),
    (Signal::QUIT, Duration::from_secs(10)),
];

/// How a server is ended whose data nobody needs any more.
const IMMEDIATE: &[(Signal, Duration)] = &[(Signal::QUIT, Duration::from_secs(10))];

/// The superuser of the cluster. Nobody but the owner of its directory reaches the socket.
const SUPERUSER: &str = "iosched";

/// Where the socket is, seen from the data directory.
const SOCKET: &str = "/proc/self/cwd";

/// The server's log, in the directory above its data.
const LOG: &str = "log";

/// The longest text of the server's that is read, in bytes.
const LONGEST_TEXT: u64 = 64 << 20;

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

const NAME_A_USER: &str = "name an unprivileged user with --user";

/// For a cluster's programs: the user that was asked for, or the package's when we are root.
pub(super) fn scope(wanted: &Scope) -> Result<Scope, LoadError> {
    let is_root = rustix::process::geteuid().is_root();
    match wanted.user() {
        Some(user) if user.uid != 0 => Ok(wanted.clone()),
        _ if !is_root => Ok(wanted.with_user(None)),
        _ => {
            let package = User::find("postgres").map_err(|error| {
                LoadError::run(format!(
                    "PostgreSQL does not run as root, and whether there is a user postgres cannot be found out: {error}"
                ))
                .with_hint(NAME_A_USER)
            })?;
            let package = package.ok_or_else(|| {
                let message = "PostgreSQL does not run as root, and there is no user postgres";
                error::missing(message, NAME_A_USER)
            })?;
            Ok(wanted.with_user(Some(package)))
        }
    }
}

impl Cluster {
    /// Makes the cluster and its database, and remembers what they look like.
    pub(super) fn make(
        settings: &PgbenchSettings,
        at: &Workplace<'_>,
        root: &Path,
        say: &mut dyn FnMut(&str),
    ) -> Result<Cluster, LoadError> {
        let scope = scope(at.scope)?;
        let programs = Programs::find(&["initdb", "postgres", "pgbench"], &scope, at.stop)?;
        make_root(root, scope.user()).map_err(|error| error::io(root, &error))?;
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
        cluster.initialise()?;
        cluster.start_with(WHILE_MAKING)?;
        let mut command = cluster.pgbench();
        command.args(["--initialize", "--quiet"]);
        command.args(["--scale", &settings.scale.to_string(), "postgres"]);
        cluster.programs.run("pgbench --initialize", command)?;
        if !cluster.end(FAST) {
            let message = cluster.last_words();
            return Err(error::server_died("while the database was made", &message));
        }
        let snapshot = as_user(cluster.programs.user(), || {
            let most = settings.bytes_kept();
            Snapshot::take(&cluster.data(), &root.join("copy"), most, at.stop)
        });
        cluster.snapshot = Some(snapshot.map_err(|error| cluster.not_copied("copy", &error))?);
        Ok(cluster)
    }

    fn initialise(&self) -> Result<(), LoadError> {
        let data = self.data();
        // Made by us, it stays when initdb fails.
        files::make_new_directory(&data, self.programs.user())
            .map_err(|error| error::io(&data, &error))?;
        let mut command = self.programs.own_command("initdb");
        command.arg("-D").arg(self.data()).current_dir(&self.root);
        command.args(["-U", SUPERUSER, "--auth=trust", "--no-sync"]);
        command.args(["--encoding=UTF8", "--locale=C"]);
        self.programs.run("initdb", command)?;
        Ok(())
    }

    /// Starts the server and waits until it takes connections.
    fn start_with(&mut self, configuration: &[&str]) -> Result<(), LoadError> {
        let log = self.new_log();
        let log = log.map_err(|error| error::io(&self.root.join(LOG), &error))?;
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
        self.server = Some(self.programs.start_server(command, log)?);
        self.wait_until_ready()
    }

    /// An empty file for what the server says.
    fn new_log(&self) -> io::Result<File> {
        as_user(self.programs.user(), || {
            let root = Directory::open(&self.root)?;
            match root.remove_file(OsStr::new(LOG)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => root.create_file(OsStr::new(LOG)),
            }
        })
    }

    /// What a file of the cluster holds; nothing where it cannot be read.
    fn text_of(&self, path: &str) -> String {
        let text = as_user(self.programs.user(), || {
            Directory::open(&self.root)?.read_to_string(Path::new(path), LONGEST_TEXT)
        });
        text.unwrap_or_default()
    }

    /// Watches the last line of `postmaster.pid`, where the server says how far it is.
    fn wait_until_ready(&mut self) -> Result<(), LoadError> {
        let started = Instant::now();
        loop {
            let pid_file = self.text_of("data/postmaster.pid");
            if pid_file.lines().nth(7).is_some_and(|s| s.trim() == "ready") {
                return Ok(());
            }
            if self.has_died() {
                return Err(error::server_died("while it started", &self.last_words()));
            }
            if started.elapsed() > READY_WITHIN {
                let (seconds, words) = (READY_WITHIN.as_secs(), self.last_words());
                return Err(LoadError::trial(format!(
                    "the PostgreSQL server was not ready after {seconds} s: {words}"
                )));
            }
            if self.programs.stop().is_wanted() {
                return Err(LoadError::Stopped);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// True if the server ended well.
    fn end(&mut self, signals: &[(Signal, Duration)]) -> bool {
        let stop = self.programs.stop();
        self.server
            .take()
            .is_some_and(|mut server| server.end(signals, stop))
    }

    fn has_died(&mut self) -> bool {
        self.server
            .as_mut()
            .is_none_or(|server| server.has_ended().is_some())
    }

    /// What the server's log says of its end.
    fn last_words(&self) -> String {
        let log = self.text_of(LOG);
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

    fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// Why a copy was not made to its end.
    fn not_copied(&self, to: &str, error: &io::Error) -> LoadError {
        if self.programs.stop().is_wanted() {
            return LoadError::Stopped;
        }
        error::io(&self.root.join(to), error)
    }
}

impl Database for Cluster {
    /// The server is ended, which empties its buffers, and its files are put back.
    fn reset(&mut self) -> Result<(), LoadError> {
        self.end(IMMEDIATE);
        let Some(snapshot) = &mut self.snapshot else {
            return Ok(());
        };
        let stop = self.programs.stop();
        let restored = as_user(self.programs.user(), || snapshot.restore(stop));
        restored.map_err(|error| self.not_copied("data", &error))?;
        Ok(())
    }

    fn start(&mut self) -> Result<(), LoadError> {
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

    fn scope(&self) -> &Scope {
        self.programs.scope()
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
fn make_root(root: &Path, user: Option<&User>) -> io::Result<()> {
    files::make_new_directory(root, user)?;
    let Some(above) = root.parent().filter(|_| user.is_some()) else {
        return Ok(());
    };
    // Its name cannot be guessed, and it cannot be listed; but it can be passed through. Where it is the
    // user's own, he passes.
    let ours = Directory::open(above)?;
    let status = rustix::fs::fstat(ours.descriptor())?;
    if status.st_uid == rustix::process::geteuid().as_raw() {
        rustix::fs::fchmod(ours.descriptor(), Mode::from_raw_mode(0o711))?;
    }
    Ok(())
}
