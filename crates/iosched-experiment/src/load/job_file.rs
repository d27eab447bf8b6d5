//! A fio job file as a load.

use std::time::Duration;

use iosched_machine::failure::Problem;

use super::fio::{self, Running};
use super::fio_job::{JobFile, JobTarget, TrialSettings, refusal};
use super::{Kept, Load, LoadError, Outcome, TrialInfo, Workplace};
use crate::objective::Objective;

/// Run time of a trial where neither the user nor the job file says.
const DEFAULT_RUNTIME: Duration = Duration::from_secs(10);

/// A job file, and fio to run it.
#[derive(Debug)]
pub(super) struct FioLoad {
    name: String,
    file: JobFile,
}

impl FioLoad {
    /// Reads and checks the job file. `name` is what errors call it.
    pub(super) fn new(name: &str, text: &str) -> Result<FioLoad, Problem> {
        Ok(FioLoad {
            name: name.into(),
            file: JobFile::parse(name, text)?,
        })
    }
}

/// What the user is told of a job file of their own that fio is to run: which options are replaced.
///
/// # Errors
/// fio would not take it: with all that it names. It stops at the first job that it does not take, and is asked again
/// without what it named.
pub(crate) fn ask_fio(name: &str, text: &str) -> Result<Option<String>, Problem> {
    let (mut file, mut refused) = JobFile::read(text);
    let remark = file.remark();
    let anywhere = TrialSettings {
        place: JobTarget::Path("/dev/null".into()),
        runtime: Some(DEFAULT_RUNTIME),
        ramp: None,
        counted: None,
        seed: 1,
        shift: 0,
    };
    loop {
        let said = fio::refusals(&file.compose(&anywhere));
        let lines = said.iter().map(|said| file.remove_refused(said));
        let lines: Vec<usize> = lines.map(Option::unwrap_or_default).collect();
        let goes_on = lines.iter().any(|line| *line > 0);
        let said = said.iter().map(|said| format!("fio says: {said}"));
        refused.extend(lines.into_iter().zip(said));
        if !goes_on {
            break;
        }
    }
    if refused.is_empty() {
        return Ok(remark.map(|remark| format!("{name}: {remark}")));
    }
    Err(refusal(name, refused))
}

impl Load for FioLoad {
    fn writes(&self) -> bool {
        self.file.writes()
    }

    fn is_cold(&self) -> bool {
        self.file.is_cached()
    }

    fn takes_ramp(&self) -> bool {
        true
    }

    fn drifts(&self) -> bool {
        self.file.writes()
    }

    fn programs(&self) -> Result<Vec<String>, LoadError> {
        Ok(vec![fio::version()?])
    }

    fn duration(&self, settings: &TrialSettings) -> Option<Duration> {
        Some(self.file.duration(settings))
    }

    fn counted(&self, settings: &TrialSettings) -> Option<Duration> {
        self.file.counted(settings)
    }

    fn default_runtime(&self) -> Option<Duration> {
        (!self.file.has_runtime()).then_some(DEFAULT_RUNTIME)
    }

    fn kept(&self, file_size: u64) -> Vec<Kept> {
        let files = self.file.files(file_size).into_iter();
        let kept = files.map(|(name, bytes)| Kept {
            name: Some(name),
            bytes,
        });
        kept.collect()
    }

    fn fills_directory(&self) -> Option<String> {
        self.file.fills()
    }

    fn lacks(&self, objective: Objective) -> Option<&'static str> {
        self.file.lacks(objective)
    }

    /// Writes the test files of a directory, so that no trial pays for it.
    fn prepare(&mut self, at: &Workplace<'_>, say: &mut dyn FnMut(&str)) -> Result<(), LoadError> {
        let JobTarget::Directory { .. } = at.place else {
            return Ok(());
        };
        say(&format!("writing test files for {}", self.name));
        let settings = TrialSettings {
            place: at.place.clone(),
            runtime: None,
            ramp: None,
            counted: None,
            seed: 1,
            shift: 0,
        };
        fio::run_long(
            &self.file.compose_layout(&settings),
            at.place,
            at.scope,
            at.stop,
        )?;
        Ok(())
    }

    fn run(
        &mut self,
        at: &Workplace<'_>,
        trial: &TrialInfo,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError> {
        let running = Running {
            duration: self.file.duration(&trial.settings),
            read_only: !self.file.writes(),
            limit: at.trial_limit,
            counted: self.file.counted_window(&trial.settings),
            place: &trial.settings.place,
            scope: at.scope,
            stop: at.stop,
        };
        let measured = fio::run_timed(&self.file.compose(&trial.settings), &running, tick)?;
        Ok(Outcome {
            stages: self.file.stages(&trial.settings, &measured.runtimes),
            jobs: measured.jobs,
            counted: measured.counted,
            ..Outcome::default()
        })
    }
}
