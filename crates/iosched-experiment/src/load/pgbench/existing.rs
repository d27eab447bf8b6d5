//! A database of our own on a server that runs already (`--pg`).
//!
//! For each trial it is made anew from a template, file by file: what the server reads of it then
//! is neither in its buffers nor, once the page cache was dropped, in the kernel's. The server itself
//! is not restarted; nothing of the other databases is touched.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use iosched_machine::failure::{Problem, exit};
use iosched_machine::process::Scope;

use super::own::{OwnDatabases, TIDIED_UP_WITHIN};
use super::programs::Programs;
use super::{Database, PgbenchSettings};
use crate::load::{LoadError, Workplace};

/// The first version where how a template is copied can be said (before, it was by files).
const HAS_STRATEGY: u32 = 150_000;

/// An external server: neither started nor stopped by us.
#[derive(Debug)]
pub(super) struct Existing {
    programs: Programs,
    own: OwnDatabases,
    copy_by_files: &'static str,
}

impl Existing {
    /// Finds the server, and makes nothing.
    pub(super) fn find(own: OwnDatabases, at: &Workplace<'_>) -> Result<Existing, LoadError> {
        let programs = Programs::find(&["psql", "pgbench"], at.scope, at.stop)?;
        let mut existing = Existing {
            programs,
            own,
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
        Ok(existing)
    }

    /// Makes the template.
    pub(super) fn make(
        &self,
        settings: &PgbenchSettings,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), LoadError> {
        say(&format!(
            "making a database of scale {} on the server",
            settings.scale
        ));
        let template = self.own.template();
        self.ask(&format!("CREATE DATABASE {template}"))?;
        let mut command = self.programs.client_command("pgbench");
        command.args([
            "--initialize",
            "--quiet",
            "--scale",
            &settings.scale.to_string(),
        ]);
        command.arg(self.own.to(&template)).current_dir("/");
        self.programs.run("pgbench --initialize", command)?;
        Ok(())
    }

    fn ask(&self, statement: &str) -> Result<String, LoadError> {
        self.own.ask(&self.programs, statement)
    }

    /// Where the server's data can be seen from here, they must be on the target.
    fn check_place(&self, target: Option<&Path>) -> Result<(), LoadError> {
        // Not everybody may ask for it.
        let (Ok(data), Some(target)) = (self.ask("SHOW data_directory"), target) else {
            return Ok(());
        };
        let data = PathBuf::from(data);
        let device = |path: &Path| path.metadata().map(|metadata| metadata.dev()).ok();
        match (device(&data), device(target)) {
            (Some(there), Some(here)) if there != here => {
                let message = format!(
                    "the server of --pg keeps its data in {}, which is not on {}",
                    data.display(),
                    target.display()
                );
                let hint =
                    "name a directory on the file system with the server's data as the target";
                Err(LoadError::Run(
                    Problem::new(exit::NO_SUCH_DEVICE, message).hint(hint),
                ))
            }
            _ => Ok(()),
        }
    }
}

impl Database for Existing {
    fn reset(&mut self) -> Result<(), LoadError> {
        let (trial, template) = (self.own.trial(), self.own.template());
        let by_files = self.copy_by_files;
        self.ask(&format!("DROP DATABASE IF EXISTS {trial}"))?;
        self.ask(&format!(
            "CREATE DATABASE {trial} TEMPLATE {template} {by_files}"
        ))?;
        Ok(())
    }

    fn start(&mut self) -> Result<(), LoadError> {
        Ok(())
    }

    fn pgbench(&self) -> Command {
        let mut command = self.programs.client_command("pgbench");
        command.current_dir("/");
        command
    }

    fn scope(&self) -> &Scope {
        self.programs.scope()
    }

    fn connection(&self) -> String {
        self.own.to(&self.own.trial())
    }

    fn death(&mut self) -> Option<String> {
        None
    }

    fn take_down(&mut self) -> Option<OwnDatabases> {
        // After Ctrl-C, too: what the user wants to stop is the measuring.
        self.programs.tidy_up_within(TIDIED_UP_WITHIN);
        let dropped = self.own.drop_all(&self.programs);
        dropped.is_err().then(|| self.own.clone())
    }
}
