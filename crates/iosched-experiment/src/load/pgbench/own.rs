//! The databases that a run makes on a server that is not ours: their names, chosen before anything is
//! made so that the journal can hold them, and how they go.

use std::time::{Duration, Instant};

use iosched_machine::failure::{Failure, NotUndone};
use iosched_machine::process::{Scope, Stop, User};
use iosched_switch::journal::OutsideResource;
use rand::Rng;

use super::programs::Programs;
use crate::load::LoadError;

/// How the names of all our databases begin.
const OURS: &str = "iosched_";

/// How often we look whether our sessions have ended, before their databases are dropped.
const LOOKS: u32 = 100;

/// So long a server may take until our databases are dropped. One that does not answer by then keeps them, and the journal
/// their names.
pub(super) const TIDIED_UP_WITHIN: Duration = Duration::from_secs(30);

/// Two databases on an external server: the template, and what a trial runs on.
#[derive(Debug, Clone)]
pub(in crate::load) struct OwnDatabases {
    /// The server, as `--pg` says; without a password, which it must not have.
    connection: String,
    /// First part of the databases' names, and what our sessions call themselves.
    prefix: String,
    /// Whose rights the programs have, if not ours.
    user: Option<User>,
}

impl OwnDatabases {
    /// Those that the journal names.
    pub(in crate::load) fn of(own: &OutsideResource) -> OwnDatabases {
        OwnDatabases {
            connection: own.connection.clone(),
            prefix: own.prefix.clone(),
            user: own.user.clone(),
        }
    }

    /// As the journal names them.
    pub(super) fn outside(&self) -> OutsideResource {
        OutsideResource {
            connection: self.connection.clone(),
            prefix: self.prefix.clone(),
            user: self.user.clone(),
        }
    }

    /// Chooses names; makes nothing.
    pub(super) fn choose(connection: &str) -> OwnDatabases {
        let chance = rand::rng().next_u32();
        OwnDatabases {
            connection: connection.into(),
            prefix: format!("{OURS}{}_{chance:08x}", std::process::id()),
            user: None,
        }
    }

    /// The same with somebody's rights.
    pub(super) fn run_by(self, user: Option<&User>) -> OwnDatabases {
        let user = user.cloned();
        OwnDatabases { user, ..self }
    }

    pub(super) fn template(&self) -> String {
        format!("{}_template", self.prefix)
    }

    pub(super) fn trial(&self) -> String {
        format!("{}_trial", self.prefix)
    }

    /// The connection string for one of the server's databases; of a keyword that is given twice, the
    /// last counts.
    pub(super) fn to(&self, database: &str) -> String {
        let OwnDatabases {
            connection, prefix, ..
        } = self;
        format!("{connection} dbname={database} application_name={prefix}")
    }

    /// Runs one statement in the database that every server has.
    pub(super) fn ask(&self, programs: &Programs, statement: &str) -> Result<String, LoadError> {
        let mut command = programs.client_command("psql");
        command.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only"]);
        command.args([
            "--no-password",
            "--set=ON_ERROR_STOP=1",
            "--command",
            statement,
        ]);
        command.arg(self.to("postgres")).current_dir("/");
        Ok(programs.run("psql", command)?.stdout.trim().to_owned())
    }

    /// Ends our sessions, one that is still making a database among them, and drops what is there.
    /// Gives the names of what was dropped.
    pub(super) fn drop_all(&self, programs: &Programs) -> Result<Vec<String>, LoadError> {
        let (prefix, template, trial) = (&self.prefix, self.template(), self.trial());
        let end_sessions = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE application_name = '{prefix}' AND pid <> pg_backend_pid()"
        );
        for _ in 0..LOOKS {
            if self.ask(programs, &end_sessions)? == "0" {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let there = format!(
            "SELECT datname FROM pg_database WHERE datname IN ('{template}', '{trial}') ORDER BY 1"
        );
        let names = self.ask(programs, &there)?;
        let names: Vec<String> = names.lines().map(str::to_owned).collect();
        for name in &names {
            self.ask(programs, &format!("DROP DATABASE {name}"))?;
        }
        Ok(names)
    }

    /// Drops what a run left, and gives its names: none where nothing is there.
    pub(in crate::load) fn undo(&self, own: &OutsideResource) -> Result<Vec<String>, NotUndone> {
        let failed = |cause: String| Err(own.left(cause));
        if !self.is_ours() {
            return failed("that is no name that we give".into());
        }
        let scope = Scope::default().with_user(self.user.clone());
        let stop = Stop::new().at(Some(Instant::now() + TIDIED_UP_WITHIN));
        let programs = Programs::find(&["psql"], &scope, &stop);
        match programs.and_then(|programs| self.drop_all(&programs)) {
            Ok(names) => Ok(names),
            Err(LoadError::Stopped) => failed(format!(
                "the server has not answered within {} s",
                TIDIED_UP_WITHIN.as_secs()
            )),
            Err(error) => failed(match error.hint() {
                Some(hint) => format!("{error} ({hint})"),
                None => error.to_string(),
            }),
        }
    }

    /// The journal may have been edited, and names go into statements.
    fn is_ours(&self) -> bool {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        self.prefix.starts_with(OURS) && self.prefix.chars().all(is_plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_we_do_not_give_are_never_dropped() {
        let chosen = OwnDatabases::choose("host=h");
        assert!(chosen.is_ours());
        for prefix in ["postgres", "iosched_1; DROP DATABASE x", "iosched_'"] {
            let edited = OwnDatabases {
                prefix: prefix.into(),
                ..chosen.clone()
            };
            let undone = edited.undo(&edited.outside());
            assert!(
                matches!(&undone, Err(NotUndone { cause, .. }) if cause.contains("no name")),
                "{undone:?}"
            );
        }
    }
}
