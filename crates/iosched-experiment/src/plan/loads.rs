//! The loads of a plan, from what the user wrote after `--load`.

use std::path::Path;

use iosched_facts::near::did_you_mean;
use iosched_machine::command_line::{Remedy, quoted};
use iosched_machine::failure::Problem;

use super::wanted::CommandOptions;
use super::{PlanError, PlanRequest, PlannedLoad, Steady, error};
use crate::load::builtin;
use crate::load::command::{self, Metric};
use crate::load::desktop::{self, DesktopSettings};
use crate::load::families::{self, Member, Work};
use crate::load::fio_job::{command_line, expand};
use crate::load::job_file::ask_fio;
use crate::load::listed::loads;
use crate::load::{Load, Spec, pgbench};
use crate::objective::Objective;

/// All loads that are wanted, checked.
pub(super) fn read(wanted: &PlanRequest, ages: bool) -> Result<Vec<PlannedLoad>, PlanError> {
    let mut loads: Vec<PlannedLoad> = Vec::new();
    for text in &wanted.loads {
        for load in read_text(wanted, ages, text)? {
            if loads.iter().any(|other| other.name == load.name) {
                let name = &load.name;
                let twice = Problem::usage(format!("load {name:?} is given twice"));
                let with_weight = quoted(&format!("{name}:2"));
                let hint = format!("give each load once, with a weight: --load {with_weight}");
                return Err(twice.hint(hint).into());
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
        Some(option) if !has_command => {
            let message = format!("{option} is about a load that is a command, and there is none");
            Err(Problem::usage(message)
                .hint("name one: --load 'command: make -j2'")
                .into())
        }
        _ if wanted.connection.is_some() && !has_pgbench => {
            let problem = Problem::usage("--pg is about the load pgbench, and there is none");
            let remedy = Remedy::With("--load=pgbench".into());
            Err(error::with(problem.hint("name it: --load pgbench"), remedy))
        }
        _ => Ok(loads),
    }
}

/// Weight of a load that is there to show no difference: none to speak of.
const CONTROL_WEIGHT: f64 = 1e-9;

/// The loads that one text after `--load` stands for.
fn read_text(wanted: &PlanRequest, ages: bool, text: &str) -> Result<Vec<PlannedLoad>, PlanError> {
    let Some(members) = families::read(text) else {
        return Ok(vec![read_one(wanted, ages, text)?]);
    };
    members?
        .into_iter()
        .map(|member| plan_member(wanted, ages, member))
        .collect()
}

/// A load of a family.
fn plan_member(wanted: &PlanRequest, ages: bool, member: Member) -> Result<PlannedLoad, PlanError> {
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
        },
    };
    let planned = plan_one(wanted, ages, chosen, weight)?;
    Ok(PlannedLoad {
        test: member.test,
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
fn read_one(wanted: &PlanRequest, ages: bool, text: &str) -> Result<PlannedLoad, PlanError> {
    if let Some(line) = text.strip_prefix("command:") {
        return plan_one(wanted, ages, command(line, &wanted.command)?, 1.0);
    }
    if let Some(line) = command_line::of(text) {
        let read = |path: &str| job_text(wanted, Path::new(path));
        let line = command_line::read(line, &read)?;
        let (chosen, note) = job(wanted, line.name, "the command line of fio", line.text)?;
        let planned = plan_one(wanted, ages, chosen, 1.0)?;
        return Ok(PlannedLoad { note, ..planned });
    }
    if let Some(settings) = after_name(text, "pgbench") {
        return pgbench(wanted, ages, settings);
    }
    if let Some(settings) = after_name(text, desktop::NAME) {
        return plan_desktop(wanted, ages, settings);
    }
    let (name, weight) = weight(text)?;
    let Some(load) = builtin::find(name) else {
        let (chosen, note) = job_file(wanted, Path::new(name))?;
        let planned = plan_one(wanted, ages, chosen, weight)?;
        return Ok(PlannedLoad { note, ..planned });
    };
    let chosen = Chosen {
        name: load.name.to_owned(),
        spec: spec_of(wanted, load.text.to_owned()),
        objective: load.objective,
    };
    plan_one(wanted, ages, chosen, weight)
}

/// The start of a program, with its weight behind its settings.
fn plan_desktop(
    wanted: &PlanRequest,
    ages: bool,
    settings: &str,
) -> Result<PlannedLoad, PlanError> {
    let (settings, weight) = match settings.rsplit_once(':') {
        Some((settings, weight)) => (settings, weight),
        None if weight_of(settings).is_some() => ("", settings),
        None => (settings, "1"),
    };
    let settings = DesktopSettings::parse(settings)?;
    let chosen = Chosen {
        name: desktop::NAME.into(),
        objective: Objective::Time,
        spec: match &wanted.simulate {
            Some(disk) => Spec::SimulatedDesktop {
                desktop: settings,
                disk: Box::new(disk.clone()),
            },
            None => Spec::DesktopStart(settings),
        },
    };
    let disk = wanted.simulate.as_ref();
    let note = disk.map(|disk| desktop::simulated::accuracy(disk.model.rotational()).to_owned());
    let planned = plan_one(wanted, ages, chosen, checked_weight(weight)?)?;
    Ok(PlannedLoad { note, ..planned })
}

/// What stands after the name of a load that has settings.
fn after_name<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    match text.strip_prefix(name)? {
        "" => Some(""),
        rest => rest.strip_prefix(':'),
    }
}

/// pgbench, with a server of our own or that of `--pg`.
fn pgbench(wanted: &PlanRequest, ages: bool, settings: &str) -> Result<PlannedLoad, PlanError> {
    let parsed = pgbench::PgbenchSettings::parse(settings, wanted.connection.as_deref());
    let parsed = parsed?;
    let chosen = Chosen {
        name: "pgbench".into(),
        spec: Spec::Pgbench(parsed.settings),
        objective: Objective::Tps,
    };
    let mut planned = plan_one(wanted, ages, chosen, parsed.weight)?;
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
    if weight_of(weight).is_none() && builtin::find(name).is_none() && !Path::new(name).exists() {
        return Err(unknown_load(Path::new(text)).into());
    }
    Ok((name, checked_weight(weight)?))
}

fn checked_weight(text: &str) -> Result<f64, PlanError> {
    let wrong = || error::out_of_range("the weight of a load", text, "a number above 0");
    weight_of(text).ok_or_else(wrong)
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
        let range = "lower where time decides";
        return Err(error::out_of_range("--better", "higher", range));
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

/// The user's own job file, and what is said of it.
fn job_file(wanted: &PlanRequest, path: &Path) -> Result<(Chosen, Option<String>), PlanError> {
    let text = job_text(wanted, path)?;
    let stem = path.file_stem().unwrap_or_default();
    let name = stem.to_string_lossy().into_owned();
    // Errors in the file name it as the user did.
    job(wanted, name, &path.display().to_string(), text)
}

/// What stands in a job file, with what it includes and the values of variables.
fn job_text(wanted: &PlanRequest, path: &Path) -> Result<String, Problem> {
    if !path.exists() || path.is_dir() {
        return Err(unknown_load(path));
    }
    expand::read_whole(path, &|name| wanted.variable(name))
}

/// A job of the user's own, and what is said of it. `file` is what errors call it.
fn job(
    wanted: &PlanRequest,
    name: String,
    file: &str,
    text: String,
) -> Result<(Chosen, Option<String>), PlanError> {
    let spec = spec_of(wanted, text);
    let note = match &spec {
        Spec::JobFile(text) => ask_fio(file, text)?,
        _ => None,
    };
    spec.open(file)?;
    let objective = Objective::Throughput;
    let chosen = Chosen {
        name,
        spec,
        objective,
    };
    Ok((chosen, note))
}

fn unknown_load(name: &Path) -> Problem {
    let name = name.display().to_string();
    let problem = Problem::usage(format!(
        "there is no load {name:?}, and no job file of that name"
    ));
    let wanted = name.split(':').next().unwrap_or_default();
    let near = did_you_mean(wanted, loads().map(|load| load.name));
    problem.hint(near.unwrap_or_else(|| {
        "`iosched help loads` lists them; any program: --load 'command: make -j2'".into()
    }))
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
    ages: bool,
    chosen: Chosen,
    weight: f64,
) -> Result<PlannedLoad, PlanError> {
    let Chosen {
        name,
        spec,
        objective,
    } = chosen;
    let is_simulated = matches!(spec, Spec::Simulated { .. } | Spec::SimulatedDesktop { .. });
    if wanted.simulate.is_some() && !is_simulated {
        return Err(error::not_simulated(&format!("load {name}")));
    }
    let load = spec.open(&name)?;
    if !load.takes_ramp() && !wanted.ramp.is_zero() {
        let message = format!("load {name} counts from its start: --ramp is not possible with it");
        return Err(Problem::usage(message).into());
    }
    let objective = wanted.objective.unwrap_or(objective);
    let required = wanted.rules.requirements.iter();
    for metric in required
        .map(|required| required.objective)
        .chain([objective])
    {
        check_objective(&name, load.as_ref(), metric)?;
    }
    let wait_until_steady = match wanted.steady {
        Steady::Auto => load.drifts() && ages,
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
        runtime_s: wanted.runtime.map(|runtime| runtime.as_secs_f64()),
        counted_s: None,
        is_runtime_auto: false,
    })
}

/// A number that the load cannot have is known before anything runs.
fn check_objective(name: &str, load: &dyn Load, objective: Objective) -> Result<(), PlanError> {
    match load.lacks(objective) {
        Some(cause) => {
            let message = format!("load {name} has no {}: {cause}", objective.name());
            Err(Problem::usage(message).into())
        }
        None => Ok(()),
    }
}
