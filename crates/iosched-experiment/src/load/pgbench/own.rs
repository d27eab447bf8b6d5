//! The databases that a run makes on a server that is not ours: their names, chosen before anything is
//! made so that the journal can hold them, and how they go.

use std::time::{Duration, Instant};

use iosched_machine::failure::{Failure, NotUndone};
use iosched_machine::process::{Scope, Stop, User};
use rand::Rng;
use serde::{Deserialize, Serialize};

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::load) struct OwnDatabases {
    /// The server, as `--pg` says; without a password, which it must not have.
    connection: String,
    /// First part of the databases' names, and what our sessions call themselves.
    prefix: String,
    /// Whose rights the programs have, if not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<User>,
}

impl OwnDatabases {
    /// The server that they are on, as `--pg` says.
    pub(crate) fn connection(&self) -> &str {
        &self.connection
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

    /// What is said where the server is not asked to drop them.
    pub(crate) fn not_asked(&self) -> NotUndone {
        NotUndone {
            thing: self.in_words(),
            cause: "its server is not asked now".into(),
        }
    }

    fn in_words(&self) -> String {
        format!("databases {}_… on the server of --pg", self.prefix)
    }

    /// Drops what a run left, and gives its names: none where nothing is there.
    pub(crate) fn undo(&self) -> Result<Vec<String>, NotUndone> {
        let failed = |cause: String| {
            Err(NotUndone {
                thing: self.in_words(),
                cause,
            })
        };
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
            let undone = edited.undo();
            assert!(
                matches!(&undone, Err(NotUndone { cause, .. }) if cause.contains("no name")),
                "{undone:?}"
            );
        }
    }
}
