//! A fio job file that does a fixed amount of work: how long it takes is what counts.
//!
//! Each load has a directory of its own, so that loads with jobs of one name do not share files
//! unless they mean to.

use std::path::PathBuf;
use std::time::Duration;

use iosched_machine::failure::Problem;
use serde::{Deserialize, Serialize};

use super::fio::{self, Running};
use super::fio_job::{JobFile, JobTarget, TrialSettings};
use super::{Kept, Load, LoadError, Outcome, TrialInfo, Workplace, files};
use crate::objective::Objective;

/// A load that hangs is killed after this time, where the user does not say (`--timeout`).
const LONGEST: Duration = Duration::from_secs(6 * 3600);

/// What is done, and to which files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedWorkSettings {
    /// The job file.
    pub job_file: String,
    /// The directory of its files, which loads of one family share.
    pub directory: String,
    /// Bytes of those files.
    pub bytes: u64,
    /// What a trial finds.
    pub files: Files,
}

/// What a trial finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Files {
    /// The files, written once before the first trial; nothing of them in memory.
    Cold,
    /// The same, and all of them in memory: a control, which no scheduler can change.
    Cached,
    /// None: the trial makes them.
    New,
}

/// A job file with an end.
#[derive(Debug)]
pub(super) struct FixedWork {
    name: String,
    settings: FixedWorkSettings,
    file: JobFile,
}

impl FixedWork {
    /// Checks the job file.
    pub(super) fn new(name: &str, settings: &FixedWorkSettings) -> Result<FixedWork, Problem> {
        Ok(FixedWork {
            name: name.into(),
            settings: settings.clone(),
            file: JobFile::parse(name, &settings.job_file)?,
        })
    }

    /// Where its files are.
    fn directory(&self, at: &Workplace<'_>) -> PathBuf {
        at.directory_of(&self.settings.directory)
    }

    fn place(&self, at: &Workplace<'_>) -> JobTarget {
        JobTarget::Directory {
            directory: self.directory(at).display().to_string(),
            file_size: 0,
        }
    }

    fn compose(&self, settings: &TrialSettings, at: &Workplace<'_>) -> String {
        let settings = TrialSettings {
            place: self.place(at),
            runtime: None,
            ramp: None,
            counted: None,
            seed: settings.seed,
            shift: settings.shift,
        };
        match self.settings.files {
            Files::New => self.file.compose_new(&settings),
            Files::Cold | Files::Cached => self.file.compose(&settings),
        }
    }
}

impl Load for FixedWork {
    fn needs_directory(&self) -> bool {
        true
    }

    fn is_cold(&self) -> bool {
        self.settings.files != Files::Cached
    }

    fn programs(&self) -> Result<Vec<String>, LoadError> {
        Ok(vec![fio::version()?])
    }

    fn kept(&self, _file_size: u64) -> Vec<Kept> {
        Kept::in_directory(&self.settings.directory, self.settings.bytes)
    }

    fn lacks(&self, objective: Objective) -> Option<&'static str> {
        self.file
            .lacks(objective)
            .filter(|_| objective != Objective::Time)
    }

    fn prepare(&mut self, at: &Workplace<'_>, say: &mut dyn FnMut(&str)) -> Result<(), LoadError> {
        let directory = self.directory(at);
        files::make_directory(&directory, at.user()).map_err(LoadError::files)?;
        if self.settings.files == Files::New {
            return Ok(());
        }
        if files::is_empty(&directory, at.user()).map_err(LoadError::files)? {
            say(&format!("writing test files for {}", self.name));
        }
        let settings = TrialSettings {
            place: self.place(at),
            runtime: None,
            ramp: None,
            counted: None,
            seed: 1,
            shift: 0,
        };
        fio::run_long(
            &self.file.compose_layout(&settings),
            &settings.place,
            at.scope,
            at.stop,
        )?;
        Ok(())
    }

    fn reset(&mut self, at: &Workplace<'_>, _trial: &TrialInfo) -> Result<(), LoadError> {
        if self.settings.files == Files::New {
            files::remove_files(&self.directory(at), at.user()).map_err(LoadError::files)?;
        }
        Ok(())
    }

    /// Reads everything once, so that it is in memory.
    fn start(&mut self, at: &Workplace<'_>, _trial: &TrialInfo) -> Result<(), LoadError> {
        if self.settings.files == Files::Cached {
            files::read_files(&self.directory(at), at.user(), at.stop).map_err(LoadError::files)?;
        }
        Ok(())
    }

    fn run(
        &mut self,
        at: &Workplace<'_>,
        trial: &TrialInfo,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError> {
        let running = Running {
            duration: Duration::ZERO,
            read_only: false,
            limit: Some(at.trial_limit.unwrap_or(LONGEST)),
            counted: None,
            place: &self.place(at),
            scope: at.scope,
            stop: at.stop,
        };
        let result = fio::run_timed(&self.compose(&trial.settings, at), &running, tick)?;
        Ok(Outcome {
            elapsed_s: Some(result.longest().as_secs_f64()),
            jobs: result.jobs,
            ..Outcome::default()
        })
    }
}
