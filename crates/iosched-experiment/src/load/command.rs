//! Any program as a load: run to its end, and its number or its time taken.
//!
//! It is run without a shell (unless it begins with `sh:`), in the target directory, with the
//! rights of `--user`, and is told by environment variables which trial it is. What it leaves in
//! the target directory is the user's business; `SCRATCH` names a directory that is removed.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use iosched_machine::failure::Problem;
use iosched_machine::process::{self, ChildError, Finished, Scope};
use regex_lite::Regex;
use serde::{Deserialize, Serialize};

use super::fio_job::JobTarget;
use super::words;
use super::{Load, LoadError, Outcome, TrialInfo, Workplace, files};
use crate::objective::Objective;

/// A program that hangs is killed after this time, where the user does not say (`--timeout`).
const LONGEST: Duration = Duration::from_secs(3600);

/// What is shown of a program's output.
const SHOWN_LINES: usize = 3;

/// The variable that names the target: a directory or a device.
pub(crate) const TARGET: &str = "IOSCHED_TARGET";
/// The variable that names a directory on the target that is removed after the run; none with a
/// raw device.
pub(crate) const SCRATCH: &str = "IOSCHED_SCRATCH";
/// The variable with the arm: `bfq:low_latency=0`. Not there in the set-up, as those below.
pub(crate) const ARM: &str = "IOSCHED_ARM";
/// The variable with the arm's scheduler: `bfq`.
pub(crate) const SCHEDULER: &str = "IOSCHED_SCHEDULER";
/// The variable with the round, counted from 1.
pub(crate) const ROUND: &str = "IOSCHED_ROUND";
/// The variable with a number that is the same for all arms of a round, and for no two rounds.
pub(crate) const SEED: &str = "IOSCHED_SEED";

/// A program and how to judge it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSettings {
    /// The command line of a trial.
    pub line: String,
    /// The command line that is run once, before the first trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// The command line that is run before each trial, not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// What decides.
    pub metric: Metric,
}

/// What of a program decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// How long it takes.
    Time,
    /// The number that the last match of this regular expression on its output has in its first
    /// group (or is, without a group).
    Regex(String),
    /// The number at this JSON pointer (RFC 6901) of its output.
    Json(String),
}

impl CommandSettings {
    /// A name for the load: the program's.
    pub(crate) fn name(&self) -> String {
        let line = self.line.trim_start();
        if line.starts_with(SHELL) {
            return "sh".into();
        }
        let words = words::split(line).unwrap_or_default();
        let program = words.first().map_or("command", String::as_str);
        program.rsplit('/').next().unwrap_or(program).to_owned()
    }

    /// What decides, where it is not time and the user does not say which way is better.
    pub(crate) fn objective(&self, is_higher_better: Option<bool>) -> Objective {
        match (&self.metric, is_higher_better) {
            (Metric::Time, _) => Objective::Time,
            (_, Some(false)) => Objective::NumberLower,
            _ => Objective::NumberHigher,
        }
    }
}

impl Metric {
    /// `time`, a JSON pointer (it begins with `/`), or else a regular expression.
    pub(crate) fn parse(text: &str) -> Metric {
        match text {
            "time" => Metric::Time,
            _ if text.starts_with('/') => Metric::Json(text.into()),
            _ => Metric::Regex(text.into()),
        }
    }

    fn text(&self) -> &str {
        match self {
            Metric::Time => "time",
            Metric::Regex(text) | Metric::Json(text) => text,
        }
    }
}

/// What lets a shell run the rest of the line.
const SHELL: &str = "sh:";

/// A line as it will be run.
fn words_of(line: &str) -> Result<Vec<String>, Problem> {
    if let Some(script) = line.trim_start().strip_prefix(SHELL) {
        return Ok(["/bin/sh", "-c", script.trim()].map(str::to_owned).into());
    }
    words::split(line).map_err(|cause| {
        Problem::usage(format!("cannot read the command {line:?}: {cause}"))
            .hint("write it as for a shell, or let one run it: --load 'command: sh: a | b'")
    })
}

/// Checks that a line can be begun, as far as that can be known before.
fn check_line(line: &str) -> Result<(), LoadError> {
    let words = words_of(line).expect("checked when the load was made");
    process::check_installed(&words[0]).map_err(child_error)
}

/// A command that cannot be started now cannot be started later.
fn child_error(error: ChildError) -> LoadError {
    let hint = match &error {
        ChildError::Stopped | ChildError::TimedOut { .. } => return error.into(),
        ChildError::Missing { program } => Some(format!(
            "is {program} on PATH? What a shell is to run begins with `sh:`"
        )),
        ChildError::Start { source, .. }
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            Some("its user must be allowed to run it and to enter the target directory".into())
        }
        ChildError::TooMuchOutput { .. } => {
            Some("send what nobody reads to /dev/null: sh:… > /dev/null".into())
        }
        ChildError::Start { .. } => None,
    };
    let error = LoadError::from(error).ending_the_run();
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// A program as a load.
#[derive(Debug)]
pub(crate) struct CommandLoad {
    settings: CommandSettings,
    pattern: Option<Regex>,
    has_worked: bool,
}

impl CommandLoad {
    /// Checks the command lines and the regular expression.
    pub(crate) fn new(settings: &CommandSettings) -> Result<CommandLoad, Problem> {
        let CommandSettings {
            line,
            setup,
            prepare,
            metric,
        } = settings;
        for line in std::iter::once(line).chain(setup).chain(prepare) {
            words_of(line)?;
        }
        let pattern = match metric {
            Metric::Regex(pattern) => Some(compile(pattern)?),
            Metric::Time | Metric::Json(_) => None,
        };
        Ok(CommandLoad {
            settings: settings.clone(),
            pattern,
            has_worked: false,
        })
    }

    /// Runs one of the command lines; an error unless it says that it went well.
    fn run_line(
        &self,
        what: &'static str,
        line: &str,
        at: &Workplace<'_>,
        scope: &Scope,
        trial: Option<&TrialInfo>,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Finished, LoadError> {
        let words = words_of(line).expect("checked when the load was made");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        tell(&mut command, at, trial);
        let limit = at.trial_limit.unwrap_or(LONGEST);
        let finished = scope
            .run(command, limit, at.stop, tick)
            .map_err(child_error)?;
        went_well(finished, &format!("{what} {line:?}")).map_err(|error| {
            let hint = "run it by hand in the target directory, as the same user";
            match error.with_hint(hint) {
                // It will not the next time.
                error if !self.has_worked => error.ending_the_run(),
                error => error,
            }
        })
    }

    /// The number in a program's output.
    fn number(&self, finished: &Finished) -> Result<Option<Printed>, LoadError> {
        let found = match &self.settings.metric {
            Metric::Time => return Ok(None),
            Metric::Json(pointer) => json_number(&finished.stdout, pointer),
            Metric::Regex(_) => self.pattern.as_ref().and_then(|pattern| {
                last_match(pattern, &finished.stdout)
                    .or_else(|| last_match(pattern, &finished.stderr))
            }),
        };
        found.map(Some).ok_or_else(|| {
            let (metric, printed) = (self.settings.metric.text(), &finished.stdout);
            let printed = process::last_lines(printed, SHOWN_LINES);
            let hint = match &self.settings.metric {
                Metric::Json(pointer) => format!(
                    "its whole standard output must be JSON, with a number at {pointer}: for example \
                     /jobs/0/read/iops of fio --output-format=json"
                ),
                Metric::Time | Metric::Regex(_) => {
                    "the last match counts: its first group must be a number such as 12.5".into()
                }
            };
            LoadError::run(format!(
                "the command printed no number for --metric {metric:?}; it printed: {printed}"
            ))
            .with_hint(hint)
        })
    }
}

fn compile(pattern: &str) -> Result<Regex, Problem> {
    Regex::new(pattern).map_err(|cause| {
        Problem::usage(format!(
            "--metric {pattern:?} is no regular expression: {cause}"
        ))
        .hint(r"write --metric 'tps = ([0-9.]+)', --metric /a/b (JSON), or --metric time")
    })
}

/// A number as it was printed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Printed {
    pub(crate) value: f64,
    /// The unit of its last digit: 0.01 of `3.45`.
    pub(crate) unit: Option<f64>,
}

impl Printed {
    fn read(text: &str) -> Option<Printed> {
        let text = text.trim();
        let value = text.parse().ok()?;
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let decimals = digits.split_once('.').map_or(0, |(_, after)| after.len());
        let place = |exponent: i32| exponent.checked_sub(i32::try_from(decimals).ok()?);
        let unit = exponent.parse().ok().and_then(place);
        let unit = unit.map(|place| 10_f64.powi(place));
        Some(Printed {
            value,
            unit: unit.filter(|unit| unit.is_normal()),
        })
    }
}

/// The number in the first group (or the whole) of the last match.
pub(crate) fn last_match(pattern: &Regex, text: &str) -> Option<Printed> {
    let captures = pattern.captures_iter(text).last()?;
    let group = captures.get(1).or_else(|| captures.get(0))?;
    Printed::read(group.as_str())
}

/// The number at a JSON pointer, also where it is written as a string.
pub(crate) fn json_number(text: &str, pointer: &str) -> Option<Printed> {
    let value: serde_json::Value = serde_json::from_str(text.trim()).ok()?;
    match value.pointer(pointer)? {
        serde_json::Value::Number(number) => Printed::read(&number.to_string()),
        found => Printed::read(found.as_str()?),
    }
}

/// What has ended, if it says that it went well; else an error with what it said last.
pub(super) fn went_well(finished: Finished, what: &str) -> Result<Finished, LoadError> {
    if finished.status.success() {
        return Ok(finished);
    }
    let said = match finished.stderr.trim() {
        "" => &finished.stdout,
        _ => &finished.stderr,
    };
    let status = process::describe(finished.status);
    let message = process::last_lines(said, SHOWN_LINES);
    Err(LoadError::trial(format!(
        "{what} failed with {status}: {message}"
    )))
}

/// Where the program runs, and what it is told.
fn tell(command: &mut Command, at: &Workplace<'_>, trial: Option<&TrialInfo>) {
    match at.place {
        JobTarget::Path(path) => {
            command.current_dir("/").env(TARGET, path);
        }
        JobTarget::Directory { .. } => {
            if let Some(target) = at.target_directory() {
                command.current_dir(target).env(TARGET, target);
            }
            command.env(SCRATCH, scratch(at).unwrap_or_default());
        }
    }
    if let Some(trial) = trial {
        command
            .env(ARM, &trial.label)
            .env(SCHEDULER, &trial.arm.scheduler)
            .env(ROUND, (trial.round + 1).to_string())
            .env(SEED, trial.settings.seed.to_string());
    }
}

/// The directory that is removed after the run.
fn scratch(at: &Workplace<'_>) -> Option<PathBuf> {
    Some(at.own_directory()?.join("scratch"))
}

impl Load for CommandLoad {
    /// They are there; what `--setup` makes is not there yet.
    fn programs(&self) -> Result<Vec<String>, LoadError> {
        let CommandSettings {
            line,
            setup,
            prepare,
            ..
        } = &self.settings;
        match setup {
            Some(setup) => check_line(setup)?,
            None => prepare
                .iter()
                .chain([line])
                .try_for_each(|line| check_line(line))?,
        }
        Ok(Vec::new())
    }

    /// Unless it works on the target by its name.
    fn wants_directory(&self) -> bool {
        let CommandSettings {
            line,
            setup,
            prepare,
            ..
        } = &self.settings;
        let mut lines = std::iter::once(line).chain(setup).chain(prepare);
        !lines.any(|line| line.contains(TARGET))
    }

    fn lacks(&self, objective: Objective) -> Option<&'static str> {
        match objective {
            Objective::NumberHigher | Objective::NumberLower => {
                (self.settings.metric == Metric::Time).then_some("--metric does not ask for one")
            }
            Objective::Time | Objective::Throughput | Objective::Iops | Objective::Cpu => None,
            Objective::Tps => Some("its transactions are not counted: use --metric"),
            Objective::Fairness => Some("its workers are not known"),
            _ => Some("the latencies that it sees are not known: use --metric"),
        }
    }

    fn prepare(&mut self, at: &Workplace<'_>, say: &mut dyn FnMut(&str)) -> Result<(), LoadError> {
        if let Some(path) = scratch(at) {
            files::make_directory(&path, at.user()).map_err(|error| {
                LoadError::run(format!("cannot make {}: {error}", path.display()))
                    .with_hint("its user must be allowed to write there")
            })?;
        }
        if let Some(line) = self.settings.setup.clone() {
            say(&format!("running --setup {line:?}"));
            let scope = at.scope.lasting();
            self.run_line("--setup", &line, at, &scope, None, &mut |_| {})?;
        }
        Ok(())
    }

    fn reset(&mut self, at: &Workplace<'_>, trial: &TrialInfo) -> Result<(), LoadError> {
        if let Some(line) = &self.settings.prepare {
            let scope = at.scope.lasting();
            self.run_line("--prepare", line, at, &scope, Some(trial), &mut |_| {})?;
        }
        Ok(())
    }

    fn run(
        &mut self,
        at: &Workplace<'_>,
        trial: &TrialInfo,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError> {
        let line = &self.settings.line;
        let finished = self.run_line("the command", line, at, at.scope, Some(trial), tick)?;
        let number = self.number(&finished)?;
        self.has_worked = true;
        Ok(Outcome {
            elapsed_s: Some(finished.elapsed.as_secs_f64()),
            number: number.map(|printed| printed.value),
            number_unit: number.and_then(|printed| printed.unit),
            ..Outcome::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(line: &str, metric: &str) -> CommandSettings {
        CommandSettings {
            line: line.into(),
            setup: None,
            prepare: None,
            metric: Metric::parse(metric),
        }
    }

    fn shown(stdout: &str, metric: &str) -> String {
        let printed = number_in(stdout, metric).unwrap().unwrap();
        printed.value.to_string()
    }

    fn number_in(stdout: &str, metric: &str) -> Result<Option<Printed>, LoadError> {
        let load = CommandLoad::new(&settings("true", metric)).unwrap();
        load.number(&Finished {
            status: std::process::ExitStatus::default(),
            stdout: stdout.into(),
            stderr: String::new(),
            elapsed: Duration::from_millis(1500),
        })
    }

    #[test]
    fn the_last_match_counts_and_its_first_group_is_the_number() {
        let output = "progress: tps = 10.0\ntps = 149.5 (without initial connection time)\n";
        assert_eq!(shown(output, "tps = ([0-9.]+)"), "149.5");
        assert_eq!(shown("a 3\nb 4\n", "[0-9]+"), "4");
        assert_eq!(shown("rate -1.5e3/s", r"rate (\S+)/s"), "-1500");
    }

    #[test]
    fn the_last_digit_that_is_printed_says_how_coarse_a_number_is() {
        for (text, unit) in [
            ("3", 1.0),
            ("3.45", 0.01),
            ("-0.05", 0.01),
            ("1.5e3", 100.0),
            ("2E-3", 0.001),
        ] {
            let found = Printed::read(text).unwrap().unit.unwrap();
            assert!((found / unit - 1.0).abs() < 1e-9, "{text}: {found}");
        }
        assert_eq!(Printed::read("1e-999").unwrap().unit, None);
        assert_eq!(json_number("{\"a\":3.0}", "/a").unwrap().unit, Some(0.1));
    }

    #[test]
    fn a_json_pointer_finds_numbers_and_numbers_in_strings() {
        let output = r#"{"a":[{"b":7.5},{"b":"8"}]}"#;
        assert_eq!(shown(output, "/a/0/b"), "7.5");
        assert_eq!(shown(output, "/a/1/b"), "8");
        assert!(number_in(output, "/a/2/b").is_err());
        assert!(number_in("not json", "/a").is_err());
    }

    #[test]
    fn what_was_printed_instead_of_a_number_is_shown() {
        let error = number_in("one\ntwo\n", "tps = ([0-9.]+)").unwrap_err();
        assert!(matches!(error, LoadError::Run(_)));
        assert_eq!(
            error.to_string(),
            "the command printed no number for --metric \"tps = ([0-9.]+)\"; it printed: one; two"
        );
    }

    #[test]
    fn the_load_is_named_after_its_program() {
        assert_eq!(settings("/usr/bin/make -j2", "time").name(), "make");
        assert_eq!(settings(" sh: make | tail", "time").name(), "sh");
    }

    #[test]
    fn a_command_wants_a_directory_unless_it_names_the_target() {
        let wants =
            |settings: &CommandSettings| CommandLoad::new(settings).unwrap().wants_directory();
        let mut settings = settings("sh: cd $IOSCHED_SCRATCH && make", "time");
        assert!(wants(&settings));
        settings.prepare = Some("sh: dd if=$IOSCHED_TARGET of=/dev/null".into());
        assert!(!wants(&settings));
    }

    #[test]
    fn a_wrong_pattern_is_known_before_anything_runs() {
        let error = CommandLoad::new(&settings("true", "tps = ([0-9.+")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--metric \"tps = ([0-9.+\" is no regular expression: non-empty character class has no closing bracket"
        );
    }
}
