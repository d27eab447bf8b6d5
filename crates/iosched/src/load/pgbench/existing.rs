//! A database of our own on a server that runs already (`--pg`).
//!
//! For each trial it is made anew from a template, file by file: what the server reads of it then
//! is neither in its buffers nor, once the page cache was dropped, in the kernel's. The server itself
//! is not restarted; nothing of the other databases is touched.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rand::Rng;

use super::error::PgbenchError;
use super::programs::Programs;
use super::{Database, Settings};
use crate::load::Workplace;

/// The first version where how a template is copied can be said (before, it was by files).
const HAS_STRATEGY: u32 = 150_000;

/// A server of somebody's.
#[derive(Debug)]
pub(super) struct Existing {
    programs: Programs,
    connection: String,
    /// First part of our databases' names.
    prefix: String,
    copy_by_files: &'static str,
}

impl Existing {
    /// Makes the template.
    pub(super) fn make(
        settings: &Settings,
        connection: &str,
        at: &Workplace<'_>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Existing, PgbenchError> {
        let programs = Programs::find(&["psql", "pgbench"], at.user, at.stop)?;
        let chance = rand::rng().next_u32();
        let mut existing = Existing {
            programs,
            connection: connection.into(),
            prefix: format!("iosched_{}_{chance:08x}", std::process::id()),
            copy_by_files: "",
        };
        let version = existing.ask("SHOW server_version_num")?;
        if version
            .parse()
            .is_ok_and(|version: u32| version >= HAS_STRATEGY)
        {
            existing.copy_by_files = "STRATEGY file_copy";
        }
        existing.check_place(at.target_directory())?;
        say(&format!(
            "making a database of scale {} on the server",
            settings.scale
        ));
        existing.ask(&format!("CREATE DATABASE {}", existing.template()))?;
        let mut command = existing.programs.command("pgbench");
        command.args([
            "--initialize",
            "--quiet",
            "--scale",
            &settings.scale.to_string(),
        ]);
        command
            .arg(existing.to(&existing.template()))
            .current_dir("/");
        existing.programs.run("pgbench --initialize", command)?;
        Ok(existing)
    }

    /// Runs one statement in the database that everybody has.
    fn ask(&self, statement: &str) -> Result<String, PgbenchError> {
        let mut command = self.programs.command("psql");
        command.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only"]);
        command.args([
            "--no-password",
            "--set=ON_ERROR_STOP=1",
            "--command",
            statement,
        ]);
        command.arg(self.to("postgres")).current_dir("/");
        Ok(self.programs.run("psql", command)?.stdout.trim().to_owned())
    }

    /// The connection string for one of the databases; of a keyword that is given twice, the last
    /// counts.
    fn to(&self, database: &str) -> String {
        format!("{} dbname={database}", self.connection)
    }

    fn template(&self) -> String {
        format!("{}_template", self.prefix)
    }

    /// Where the server's data can be seen from here, they must be on the target.
    fn check_place(&self, target: Option<&Path>) -> Result<(), PgbenchError> {
        // Not everybody may ask for it.
        let (Ok(data), Some(target)) = (self.ask("SHOW data_directory"), target) else {
            return Ok(());
        };
        let data = PathBuf::from(data);
        let device = |path: &Path| path.metadata().map(|metadata| metadata.dev()).ok();
        match (device(&data), device(target)) {
            (Some(there), Some(here)) if there != here => Err(PgbenchError::Elsewhere {
                data,
                target: target.into(),
            }),
            _ => Ok(()),
        }
    }

    fn drop_database(&self, name: &str) -> Result<(), PgbenchError> {
        self.ask(&format!("DROP DATABASE IF EXISTS {name}"))
            .map(|_| ())
    }
}

impl Database for Existing {
    fn reset(&mut self) -> Result<(), PgbenchError> {
        self.drop_database(&self.name())?;
        let (name, template, by_files) = (self.name(), self.template(), self.copy_by_files);
        self.ask(&format!(
            "CREATE DATABASE {name} TEMPLATE {template} {by_files}"
        ))?;
        Ok(())
    }

    fn start(&mut self) -> Result<(), PgbenchError> {
        Ok(())
    }

    fn pgbench(&self) -> Command {
        let mut command = self.programs.command("pgbench");
        command.current_dir("/");
        command
    }

    fn name(&self) -> String {
        format!("{}_trial", self.prefix)
    }

    fn connection(&self) -> String {
        self.to(&self.name())
    }

    fn death(&mut self) -> Option<String> {
        None
    }

    fn take_down(&mut self) {
        // After Ctrl-C, too: what the user wants to stop is the measuring.
        self.programs.go_on_after_stop();
        let _ = self.drop_database(&self.name());
        let _ = self.drop_database(&self.template());
    }
}

impl Drop for Existing {
    fn drop(&mut self) {
        self.take_down();
    }
}
