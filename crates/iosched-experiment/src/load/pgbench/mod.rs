//! pgbench as a load: PostgreSQL's own benchmark, each trial from the same database, cold.
//!
//! Without care the order of runs decides, not the scheduler: the cache warms, tables grow, and
//! tps rose from 70 to 149 over eight runs in a row. So the database is made once and copied; before
//! each trial the server is ended, its files are put back page by page into the blocks where they
//! were (`snapshot`), the arm is set, the page cache is emptied, and the server starts anew. With
//! `--pg` it is a server of the user's, where a database is made anew from a template
//! (`existing`). Latencies come from pgbench's log of every transaction.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use iosched_machine::beneath::{self, Directory};
use iosched_machine::failure::Problem;
use iosched_machine::foreign;
use iosched_machine::process::{self, Finished, Scope, User, as_user};
use iosched_switch::journal::OutsideResource;
use serde::{Deserialize, Serialize};

use super::fio_job::TrialSettings;
use super::settings;
use super::{Kept, Load, LoadError, Outcome, TrialInfo, Workplace, files};
use crate::metrics::JobResult;
use crate::objective::Objective;

mod cluster;
mod error;
mod existing;
pub(crate) mod output;
mod own;
mod programs;
mod snapshot;

pub(super) use own::OwnDatabases;

use cluster::Cluster;
use existing::Existing;
use output::Report;
use programs::Programs;

/// Run time of a trial where neither the user nor `transactions=` says.
const DEFAULT_RUNTIME: Duration = Duration::from_secs(60);

/// What pgbench may take beyond its run time: connecting, and the last transactions.
const ALLOWANCE: Duration = Duration::from_secs(120);

/// A trial with a number of transactions is killed after this time, where the user does not say.
const LONGEST: Duration = Duration::from_secs(6 * 3600);

/// Bytes of a database per unit of scale: 100 000 accounts of 121 bytes, and their index.
const BYTES_PER_SCALE: u64 = 16 << 20;

/// Bytes of an empty cluster, and of the log that it writes ahead before a checkpoint.
const BYTES_BESIDE: u64 = 128 << 20;

/// The settings, as they are written.
const KNOWN: &[&str] = &[
    "scale",
    "clients",
    "threads",
    "transactions",
    "time",
    "mode",
    "protocol",
    "weight",
];

/// A database and what is run on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PgbenchSettings {
    /// pgbench's scale: 100 000 accounts, 16 MB each.
    pub scale: u32,
    /// Clients side by side.
    pub clients: u32,
    /// pgbench's own threads, among which the clients are shared out.
    pub threads: u32,
    /// Transactions of each client; `None` where a time is given.
    pub transactions: Option<u64>,
    /// What is run.
    pub mode: Mode,
    /// How it is sent: `simple`, `extended` or `prepared`.
    pub protocol: String,
    /// The server, if it is not one of our own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
}

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// pgbench's `tpcb-like`: reads and writes, with a commit each.
    Tpcb,
    /// pgbench's `select-only`.
    Select,
    /// pgbench's `simple-update`: `tpcb-like` without its hot rows.
    SimpleUpdate,
    /// A script of the user's, as it was read.
    Script(String),
}

/// What a load has besides its settings.
pub(crate) struct Parsed {
    /// The load's settings.
    pub settings: PgbenchSettings,
    /// Time of a trial, if it is given here.
    pub time: Option<Duration>,
    /// Its share in the verdict over all loads.
    pub weight: f64,
}

impl PgbenchSettings {
    /// What the database and its copy take.
    fn bytes_kept(&self) -> u64 {
        2 * (u64::from(self.scale) * BYTES_PER_SCALE + BYTES_BESIDE)
    }

    /// Reads `scale=50,clients=100,…`, and what `--pg` says.
    pub(crate) fn parse(text: &str, connection: Option<&str>) -> Result<Parsed, Problem> {
        let mut given = settings::GivenSettings::parse("pgbench", text, KNOWN)?;
        let transactions = match given.number("transactions", 1..=u64::from(u32::MAX), 0)? {
            0 => None,
            number => Some(number),
        };
        let seconds = given.seconds("time", 1..=1_000_000, 0)?;
        if seconds > 0 && transactions.is_some() {
            let seconds = seconds.to_string();
            let refused = given.refuse("time", &seconds, "transactions are given too");
            return Err(refused);
        }
        let protocol = given.text("protocol").unwrap_or("simple");
        if !["simple", "extended", "prepared"].contains(&protocol) {
            let cause = "simple, extended or prepared is wanted";
            return Err(given.refuse("protocol", protocol, cause));
        }
        let settings = PgbenchSettings {
            scale: given.number("scale", 1..=100_000, 50)?,
            clients: given.number("clients", 1..=10_000, 100)?,
            threads: given.number("threads", 1..=1000, 2)?,
            transactions,
            mode: mode(&mut given)?,
            protocol: protocol.into(),
            connection: connection.map(str::to_owned),
        };
        settings.check()?;
        Ok(Parsed {
            time: (seconds > 0).then(|| Duration::from_secs(seconds)),
            weight: given.number("weight", 1e-6..=1e6, 1.0)?,
            settings,
        })
    }

    /// False of a script or a server of the user's.
    pub(super) fn is_ours(&self) -> bool {
        !matches!(self.mode, Mode::Script(_)) && self.connection.is_none()
    }

    /// A plan may have been edited.
    fn check(&self) -> Result<(), Problem> {
        let Some(connection) = &self.connection else {
            return Ok(());
        };
        let is_uri = connection.contains("://");
        if connection.contains("password") || (is_uri && connection.contains('@')) {
            let message = "--pg has a password in it, which the record would keep";
            let hint = "put it into ~/.pgpass, or into the environment as PGPASSWORD";
            return Err(Problem::usage(message).hint(hint));
        }
        if is_uri || (!connection.trim().is_empty() && !connection.contains('=')) {
            let message = format!("--pg {connection:?} is no list of keyword=value");
            let hint = "write --pg 'host=/run/postgresql user=me'; a dbname is ignored";
            return Err(Problem::usage(message).hint(hint));
        }
        Ok(())
    }
}

fn mode(given: &mut settings::GivenSettings<'_>) -> Result<Mode, Problem> {
    let text = given.text("mode").unwrap_or("tpcb");
    Ok(match text {
        "tpcb" => Mode::Tpcb,
        "select" => Mode::Select,
        "simple-update" => Mode::SimpleUpdate,
        path => {
            let script = foreign::read_text(path.as_ref());
            let cause = "tpcb, select, simple-update or a readable file is wanted";
            Mode::Script(script.map_err(|_| given.refuse("mode", path, cause))?)
        }
    })
}

/// A database that trials run on.
trait Database: std::fmt::Debug {
    /// The data as they were at first. Nothing of them may be in memory once the page cache was
    /// dropped.
    fn reset(&mut self) -> Result<(), LoadError>;
    /// Ready to take connections.
    fn start(&mut self) -> Result<(), LoadError>;
    /// pgbench, to be given its arguments, so that it finds the server.
    fn pgbench(&self) -> Command;
    /// What pgbench is run in.
    fn scope(&self) -> &Scope;
    /// What pgbench is given as the database.
    fn connection(&self) -> String;
    /// What our own server said when it died, if it has.
    fn death(&mut self) -> Option<String>;
    /// Nothing of it is left running, nor on an external server but for what could not be dropped.
    fn take_down(&mut self) -> Option<OwnDatabases>;
}

/// pgbench, and a database for it.
#[derive(Debug)]
pub(crate) struct PgbenchLoad {
    settings: PgbenchSettings,
    database: Option<Box<dyn Database>>,
    /// What is, or will be, on an external server.
    own: Option<OwnDatabases>,
}

impl PgbenchLoad {
    /// Checks the settings.
    pub(crate) fn new(settings: &PgbenchSettings) -> Result<PgbenchLoad, Problem> {
        settings.check()?;
        Ok(PgbenchLoad {
            settings: settings.clone(),
            database: None,
            own: settings.connection.as_deref().map(OwnDatabases::choose),
        })
    }

    fn database(&mut self) -> &mut dyn Database {
        let database = self.database.as_deref_mut();
        database.expect("a load is prepared before its trials")
    }

    /// The arguments of a trial.
    fn arguments(&self, trial: &TrialInfo, logs: &Path) -> Vec<String> {
        let PgbenchSettings {
            clients,
            threads,
            transactions,
            mode,
            protocol,
            ..
        } = &self.settings;
        // More threads than clients are refused.
        let threads = threads.min(clients);
        let mut arguments = vec![
            // The database is as it has to be; pgbench would vacuum it.
            "--no-vacuum".to_owned(),
            "--log".into(),
            "--progress=1".into(),
            format!("--log-prefix={}", logs.join("log").display()),
            format!("--client={clients}"),
            format!("--jobs={threads}"),
            format!("--protocol={protocol}"),
            format!("--random-seed={}", trial.settings.seed),
        ];
        arguments.push(match transactions {
            Some(transactions) => format!("--transactions={transactions}"),
            None => format!("--time={}", runtime(&trial.settings).as_secs().max(1)),
        });
        arguments.push(match mode {
            Mode::Tpcb => "--builtin=tpcb-like".into(),
            Mode::Select => "--builtin=select-only".into(),
            Mode::SimpleUpdate => "--builtin=simple-update".into(),
            Mode::Script(_) => format!("--file={}", logs.join("script").display()),
        });
        arguments
    }

    /// pgbench's end: its report, or what went wrong, which may be the server's death.
    fn report(&mut self, finished: &Finished) -> Result<Report, LoadError> {
        let report = Report::read(&finished.stdout);
        if finished.status.success()
            && let Some(report) = report
        {
            return Ok(report);
        }
        if let Some(message) = self.database().death() {
            return Err(error::server_died("during the trial", &message));
        }
        if finished.status.success() {
            return Err(error::unreadable("it has no tps"));
        }
        Err(LoadError::trial(format!(
            "pgbench failed with {}: {}",
            process::describe(finished.status),
            programs::what_went_wrong(finished)
        )))
    }

    fn run_pgbench(
        &mut self,
        at: &Workplace<'_>,
        trial: &TrialInfo,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError> {
        let logs = at.directory_of("pgbench").join("logs");
        let scope = self.database().scope().clone();
        self.make_logs(&logs, scope.user())?;
        let arguments = self.arguments(trial, &logs);
        let mut command = self.database().pgbench();
        command.args(arguments).arg(self.database().connection());
        let limit = at
            .trial_limit
            .unwrap_or_else(|| match self.duration(&trial.settings) {
                Some(duration) => duration * 2 + ALLOWANCE,
                None => LONGEST,
            });
        let finished = scope.run(command, limit, at.stop, tick)?;
        let report = self.report(&finished)?;
        let transactions = output::transactions(&read_logs(&logs, scope.user())?, report.tps);
        let transactions =
            transactions.ok_or_else(|| error::unreadable("its log has no transaction"))?;
        let slowest = output::slowest_second(&finished.stderr);
        let numbers = slowest.map(|tps| ("tps of the slowest second".to_owned(), tps));
        Ok(Outcome {
            jobs: vec![JobResult {
                name: "transactions".into(),
                read: None,
                write: None,
                trim: None,
                transactions: Some(transactions),
            }],
            elapsed_s: (self.settings.transactions)
                .map(|each| each as f64 * f64::from(self.settings.clients) / report.tps),
            numbers: numbers.into_iter().collect(),
            ..Outcome::default()
        })
    }

    /// An empty directory for the log of every transaction, and for the script.
    fn make_logs(&self, logs: &Path, user: Option<&User>) -> Result<(), LoadError> {
        let what = &self.settings.mode;
        let made = as_user(user, || {
            let (above, name) = beneath::split(logs)?;
            match above.remove_all(name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => above.create_directory(name)?,
            }
            if let Mode::Script(text) = what {
                above
                    .enter(Path::new(name))?
                    .create_file(OsStr::new("script"))?
                    .write_all(text.as_bytes())?;
            }
            Ok(())
        });
        made.map_err(|error| error::io(logs, &error))
    }
}

fn runtime(settings: &TrialSettings) -> Duration {
    settings.runtime.unwrap_or(DEFAULT_RUNTIME)
}

/// The longest log of a trial that is read, in bytes: some ten million transactions.
const LONGEST_LOG: u64 = 512 << 20;

/// The log of every transaction: a file per thread, `LONGEST_LOG` in all.
fn read_logs(directory: &Path, user: Option<&User>) -> Result<Vec<String>, LoadError> {
    let read = as_user(user, || {
        let logs = Directory::open(directory)?;
        let mut names = logs.names()?;
        names.retain(|name| name.to_string_lossy().starts_with("log."));
        let mut left = LONGEST_LOG;
        let read_one = |name: &OsString| {
            let text = logs.read_to_string(Path::new(name), left)?;
            left -= text.len() as u64;
            Ok(text)
        };
        names.iter().map(read_one).collect()
    });
    read.map_err(|error| error::io(directory, &error))
}

impl Load for PgbenchLoad {
    fn needs_directory(&self) -> bool {
        true
    }

    fn programs(&self) -> Result<Vec<String>, LoadError> {
        let needed: &[&str] = match self.settings.connection {
            Some(_) => &["psql", "pgbench"],
            None => &["initdb", "postgres", "pgbench"],
        };
        let programs = Programs::find(needed, &Scope::default(), &process::Stop::new())?;
        Ok(vec![programs.checked_version()?])
    }

    fn duration(&self, settings: &TrialSettings) -> Option<Duration> {
        match self.settings.transactions {
            Some(_) => None,
            None => Some(runtime(settings)),
        }
    }

    fn default_runtime(&self) -> Option<Duration> {
        match self.settings.transactions {
            Some(_) => None,
            None => Some(DEFAULT_RUNTIME),
        }
    }

    /// The database and its copy.
    fn kept(&self, _file_size: u64) -> Vec<Kept> {
        Kept::own(self.settings.bytes_kept())
    }

    fn lacks(&self, objective: Objective) -> Option<&'static str> {
        match objective {
            Objective::Fairness => Some("its clients are not told apart"),
            Objective::ReadMean | Objective::ReadP99 => Some("it counts transactions, not reads"),
            Objective::NumberHigher | Objective::NumberLower => Some("it prints no such number"),
            Objective::Time if self.settings.transactions.is_none() => {
                Some("it runs for a time that is given: use transactions=")
            }
            _ => None,
        }
    }

    fn prepare(&mut self, at: &Workplace<'_>, say: &mut dyn FnMut(&str)) -> Result<(), LoadError> {
        let root = at.directory_of("pgbench");
        let Some(own) = self.own.clone() else {
            self.database = Some(Box::new(Cluster::make(&self.settings, at, &root, say)?));
            return Ok(());
        };
        files::make_new_directory(&root, at.user()).map_err(|error| error::io(&root, &error))?;
        let existing = Existing::find(own, at)?;
        let made = existing.make(&self.settings, say);
        self.database = Some(Box::new(existing));
        made
    }

    fn reset(&mut self, _at: &Workplace<'_>, _trial: &TrialInfo) -> Result<(), LoadError> {
        self.database().reset()
    }

    fn start(&mut self, _at: &Workplace<'_>, _trial: &TrialInfo) -> Result<(), LoadError> {
        self.database().start()
    }

    fn run(
        &mut self,
        at: &Workplace<'_>,
        trial: &TrialInfo,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError> {
        self.run_pgbench(at, trial, tick)
    }

    fn outside(&self, user: Option<&User>) -> Option<OutsideResource> {
        self.own.clone().map(|own| own.run_by(user).outside())
    }

    fn clean_up(&mut self) {
        let database = self.database.take();
        self.own = database.and_then(|mut database| database.take_down());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PgbenchSettings, Problem> {
        PgbenchSettings::parse(text, None).map(|parsed| parsed.settings)
    }

    #[test]
    fn the_settings_of_the_write_up_are_the_defaults() {
        let settings = parse("transactions=1000").unwrap();
        assert_eq!(
            (settings.scale, settings.clients, settings.threads),
            (50, 100, 2)
        );
        assert_eq!(
            (settings.mode, settings.transactions),
            (Mode::Tpcb, Some(1000))
        );
        assert_eq!(settings.protocol, "simple");
    }

    #[test]
    fn what_is_not_possible_is_refused_by_name() {
        let cases = [
            (
                "scale=0",
                "pgbench: scale=0 is not possible: a number from 1 to 100000 is wanted",
            ),
            (
                "transactions=5,time=5",
                "pgbench: time=5 is not possible: transactions are given too",
            ),
            ("client=5", "pgbench has no setting \"client\""),
            (
                "protocol=fast",
                "pgbench: protocol=fast is not possible: simple, extended or prepared is wanted",
            ),
            (
                "mode=/no/such/file",
                "pgbench: mode=/no/such/file is not possible: tpcb, select, simple-update or a \
                 readable file is wanted",
            ),
        ];
        for (text, words) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), words);
        }
    }

    #[test]
    fn a_password_is_not_taken_because_the_record_keeps_the_plan() {
        for connection in ["host=h password=x", "postgres://me:x@h/d"] {
            let error = PgbenchSettings::parse("", Some(connection)).err().unwrap();
            assert!(error.message.contains("has a password"), "{connection}");
        }
        assert!(PgbenchSettings::parse("", Some("postgresql://h/d")).is_err());
        assert!(PgbenchSettings::parse("", Some("host=/run/postgresql user=me")).is_ok());
    }
}
