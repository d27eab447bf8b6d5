//! The loads of a plan, from what the user wrote after `--load`.

use std::path::Path;
use std::time::Duration;

use iosched_machine::foreign;

use super::below::Below;
use super::wanted::CommandOptions;
use super::{PlanError, PlanRequest, PlannedLoad, Steady};
use crate::load::builtin;
use crate::load::command::{self, Metric};
use crate::load::families::{self, Member, Work};
use crate::load::scenario::Scenario;
use crate::load::{Load, Spec, SpecError, pgbench};
use crate::objective::Objective;

/// All loads that are wanted, checked.
pub(super) fn read(wanted: &PlanRequest, below: &Below) -> Result<Vec<PlannedLoad>, PlanError> {
    let mut loads: Vec<PlannedLoad> = Vec::new();
    for text in &wanted.loads {
        for load in read_text(wanted, below, text)? {
            if loads.iter().any(|other| other.name == load.name) {
                return Err(PlanError::LoadTwice { name: load.name });
            }
            loads.push(load);
        }
    }
    let has_command = loads
        .iter()
        .any(|load| matches!(load.spec, Spec::Command(_)));
    let has_pgbench = loads
        .iter()
        .any(|load| matches!(load.spec, Spec::Pgbench(_)));
    match wanted.command.first_given() {
        Some(option) if !has_command => Err(PlanError::OnlyForCommands { option }),
        _ if wanted.connection.is_some() && !has_pgbench => Err(PlanError::OnlyForPgbench),
        _ => Ok(loads),
    }
}

/// Weight of a load that is there to show no difference: none to speak of.
const CONTROL_WEIGHT: f64 = 1e-9;

/// The loads that one text after `--load` stands for.
fn read_text(
    wanted: &PlanRequest,
    below: &Below,
    text: &str,
) -> Result<Vec<PlannedLoad>, PlanError> {
    let Some(members) = families::read(text, below.buffer.as_ref()) else {
        return Ok(vec![read_one(wanted, below, text)?]);
    };
    let members = members.map_err(SpecError::from)?;
    members
        .into_iter()
        .map(|member| plan_member(wanted, below, member))
        .collect()
}

/// A load of a family.
fn plan_member(
    wanted: &PlanRequest,
    below: &Below,
    member: Member,
) -> Result<PlannedLoad, PlanError> {
    let weight = if member.is_control {
        CONTROL_WEIGHT
    } else {
        1.0
    };
    let chosen = Chosen {
        name: member.name,
        objective: member.objective,
        spec: match member.work {
            Work::Timed(text) => spec_of(wanted, text.to_owned()),
            Work::Fixed(settings) => Spec::FixedWork(settings),
            Work::Iozone(settings) => Spec::Iozone(settings),
        },
    };
    let planned = plan_one(wanted, below, chosen, weight)?;
    Ok(PlannedLoad {
        test: member.test,
        note: member.note,
        is_control: member.is_control,
        turns: member.turns,
        ..planned
    })
}

/// What stands after `--load`, before it is held against the other options.
struct Chosen {
    name: String,
    spec: Spec,
    objective: Objective,
}

/// `command: …`, or `NAME[:WEIGHT]` of a built-in load or a job file.
fn read_one(wanted: &PlanRequest, below: &Below, text: &str) -> Result<PlannedLoad, PlanError> {
    if let Some(line) = text.strip_prefix("command:") {
        return plan_one(wanted, below, command(line, &wanted.command)?, 1.0);
    }
    if let Some(settings) = after_name(text, "pgbench") {
        return pgbench(wanted, below, settings);
    }
    let (without_weight, its_weight) = scenario_weight(text);
    if let Some(scenario) = Scenario::parse(without_weight) {
        let scenario = scenario.map_err(SpecError::from)?;
        return plan_scenario(wanted, below, scenario, its_weight);
    }
    let (name, weight) = weight(text)?;
    let chosen = match builtin::find(name) {
        Some(load) => Chosen {
            name: load.name.to_owned(),
            spec: spec_of(wanted, load.text.to_owned()),
            objective: load.objective,
        },
        None => job_file(wanted, Path::new(name))?,
    };
    plan_one(wanted, below, chosen, weight)
}

/// A load that is decided by how long something in it takes.
fn plan_scenario(
    wanted: &PlanRequest,
    below: &Below,
    scenario: Scenario,
    weight: f64,
) -> Result<PlannedLoad, PlanError> {
    let chosen = Chosen {
        name: scenario.name().into(),
        objective: Objective::Time,
        spec: match (&wanted.simulate, scenario) {
            (Some(disk), scenario) => Spec::SimulatedScenario {
                scenario,
                disk: Box::new(disk.clone()),
            },
            (None, Scenario::Responsiveness(settings)) => Spec::Responsiveness(settings),
            (None, Scenario::Desktop(settings)) => Spec::Desktop(settings),
            (None, Scenario::Build(settings)) => Spec::Build(settings),
        },
    };
    plan_one(wanted, below, chosen, weight)
}

/// Splits a weight off a load that has settings, where no command stands that may end like one.
fn scenario_weight(text: &str) -> (&str, f64) {
    let split = text
        .rsplit_once(':')
        .and_then(|(name, weight)| Some((name, weight_of(weight)?)));
    split
        .filter(|_| !text.contains("command="))
        .unwrap_or((text, 1.0))
}

/// What stands after the name of a load that has settings.
fn after_name<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    match text.strip_prefix(name)? {
        "" => Some(""),
        rest => rest.strip_prefix(':'),
    }
}

/// pgbench, with a server of our own or that of `--pg`.
fn pgbench(wanted: &PlanRequest, below: &Below, settings: &str) -> Result<PlannedLoad, PlanError> {
    let parsed = pgbench::PgbenchSettings::parse(settings, wanted.connection.as_deref());
    let parsed = parsed.map_err(SpecError::from)?;
    let chosen = Chosen {
        name: "pgbench".into(),
        spec: Spec::Pgbench(parsed.settings),
        objective: Objective::Tps,
    };
    let mut planned = plan_one(wanted, below, chosen, parsed.weight)?;
    if let Some(time) = parsed.time {
        planned.runtime_s = Some(time.as_secs_f64());
    }
    Ok(planned)
}

/// Splits a weight off.
fn weight(text: &str) -> Result<(&str, f64), PlanError> {
    let Some((name, weight)) = text.rsplit_once(':').filter(|_| !Path::new(text).exists()) else {
        return Ok((text, 1.0));
    };
    let number = weight_of(weight).ok_or_else(|| PlanError::OutOfRange {
        what: "the weight of a load",
        value: weight.into(),
        range: "a number above 0",
    })?;
    Ok((name, number))
}

/// A number that a weight can be.
fn weight_of(text: &str) -> Option<f64> {
    text.parse()
        .ok()
        .filter(|&w: &f64| w.is_finite() && w > 0.0)
}

/// Any program.
fn command(line: &str, options: &CommandOptions) -> Result<Chosen, PlanError> {
    let metric = options
        .metric
        .as_deref()
        .map_or(Metric::Time, Metric::parse);
    if metric == Metric::Time && options.is_higher_better == Some(true) {
        return Err(PlanError::OutOfRange {
            what: "--better",
            value: "higher".into(),
            range: "lower where time decides",
        });
    }
    let settings = command::CommandSettings {
        line: line.trim().into(),
        setup: options.setup.clone(),
        prepare: options.prepare.clone(),
        metric,
    };
    Ok(Chosen {
        name: settings.name(),
        objective: settings.objective(options.is_higher_better),
        spec: Spec::Command(settings),
    })
}

/// The user's own job file.
fn job_file(wanted: &PlanRequest, path: &Path) -> Result<Chosen, PlanError> {
    if !path.exists() || path.is_dir() {
        return Err(PlanError::UnknownLoad {
            name: path.display().to_string(),
        });
    }
    let text = foreign::read_text(path).map_err(|source| PlanError::UnreadableJobFile {
        path: path.into(),
        source,
    })?;
    let stem = path.file_stem().unwrap_or_default();
    let file = path.display().to_string();
    // Errors in the file name it as the user did.
    let spec = spec_of(wanted, text);
    spec.open(&file)?;
    Ok(Chosen {
        name: stem.to_string_lossy().into_owned(),
        spec,
        objective: Objective::Throughput,
    })
}

/// What runs a job file: fio, or the simulator.
fn spec_of(wanted: &PlanRequest, job_file: String) -> Spec {
    match &wanted.simulate {
        None => Spec::JobFile(job_file),
        Some(disk) => Spec::Simulated {
            job_file,
            disk: Box::new(disk.clone()),
        },
    }
}

/// Holds a load against the options that are about all loads.
fn plan_one(
    wanted: &PlanRequest,
    below: &Below,
    chosen: Chosen,
    weight: f64,
) -> Result<PlannedLoad, PlanError> {
    let Chosen {
        name,
        spec,
        objective,
    } = chosen;
    let is_simulated = matches!(
        spec,
        Spec::Simulated { .. } | Spec::SimulatedScenario { .. }
    );
    if wanted.simulate.is_some() && !is_simulated {
        return Err(PlanError::NotSimulated {
            what: format!("load {name}"),
        });
    }
    let load = spec.open(&name)?;
    if !load.takes_ramp() && !wanted.ramp.is_zero() {
        return Err(PlanError::NoRamp { load: name });
    }
    let objective = wanted.objective.unwrap_or(objective);
    let required = wanted.rules.requirements.iter();
    for metric in required
        .map(|required| required.objective)
        .chain([objective])
    {
        check_objective(&name, load.as_ref(), metric)?;
    }
    let runtime = runtime(wanted, &name, &spec, objective)?;
    let wait_until_steady = match wanted.steady {
        Steady::Auto => load.drifts() && below.ages,
        Steady::On => true,
        Steady::Off => false,
    };
    Ok(PlannedLoad {
        name,
        weight,
        objective,
        wait_until_steady,
        spec,
        test: None,
        note: None,
        is_control: false,
        turns: 1,
        runtime_s: runtime.map(|runtime| runtime.as_secs_f64()),
        counted_s: None,
        is_runtime_auto: wanted.runtime.is_auto(),
    })
}

/// Run time of a trial; `None` leaves it to the load.
fn runtime(
    wanted: &PlanRequest,
    name: &str,
    spec: &Spec,
    objective: Objective,
) -> Result<Option<Duration>, PlanError> {
    let at_first = wanted.runtime.at_first();
    if !wanted.runtime.is_auto() {
        return Ok(at_first);
    }
    let load = || name.to_owned();
    if !spec.runs_for_a_time() {
        return Err(PlanError::NoRunTime { load: load() });
    }
    if !objective.has_course() {
        return Err(PlanError::RunTimeNotJudged {
            load: load(),
            objective: objective.words(),
        });
    }
    if let Some(option) = spec.times_of_its_own() {
        return Err(PlanError::RunTimeOfStages {
            load: load(),
            option,
        });
    }
    Ok(at_first)
}

/// A number that the load cannot have is known before anything runs.
fn check_objective(name: &str, load: &dyn Load, objective: Objective) -> Result<(), PlanError> {
    match load.lacks(objective) {
        Some(cause) => Err(PlanError::NoSuchNumber {
            load: name.to_owned(),
            objective: objective.name(),
            cause,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_with_settings_has_a_weight_behind_them() {
        for (text, expected) in [
            ("build", ("build", 1.0)),
            ("build:2", ("build", 2.0)),
            (
                "build:files=100,jobs=2:0.5",
                ("build:files=100,jobs=2", 0.5),
            ),
            ("build:files=100", ("build:files=100", 1.0)),
            ("build:files=100:-1", ("build:files=100:-1", 1.0)),
            (
                "responsiveness:command=ssh host:22",
                ("responsiveness:command=ssh host:22", 1.0),
            ),
        ] {
            assert_eq!(scenario_weight(text), expected);
        }
    }
}
