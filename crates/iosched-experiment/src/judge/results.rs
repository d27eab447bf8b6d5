//! Results of programs, read from their files: fio's JSON and JSON+, pgbench's report, hyperfine's JSON, values in CSV.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use iosched_machine::failure::Problem;
use iosched_machine::foreign;
use serde_json::{Map, Value};

use crate::load::pgbench::output;
use crate::load::{Outcome, fio};
use crate::measure::Measured;
use crate::metrics::{JobResult, Metrics};
use crate::objective::Objective;
use crate::simulate::file;

/// A run that somebody made.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) file: PathBuf,
    /// Its arm and its round, where the file tells them.
    pub(super) arm: Option<String>,
    pub(super) round: Option<u32>,
    /// What it ran, in a few words: what has other words is not compared.
    pub(super) load: String,
    /// What decides, unless the user says otherwise.
    pub(super) objective: Objective,
    /// All that was asked of the program, but names and places.
    pub(super) settings: BTreeMap<String, String>,
    /// When it began: seconds since 1970, or its place in the file.
    pub(super) began: Option<f64>,
    pub(super) program: Option<String>,
    pub(super) device: Option<String>,
    pub(super) jobs: Vec<JobResult>,
    pub(super) metrics: Metrics,
    /// What it did per second, and the least in a part of a second.
    pub(super) rate: Option<f64>,
    pub(super) least_rate: Option<f64>,
}

impl Run {
    fn new(file: &Path, load: &str, objective: Objective, metrics: Metrics) -> Run {
        Run {
            file: file.to_owned(),
            arm: None,
            round: None,
            load: load.to_owned(),
            objective,
            settings: BTreeMap::new(),
            began: None,
            program: None,
            device: None,
            jobs: Vec::new(),
            metrics,
            rate: None,
            least_rate: None,
        }
    }
}

/// The runs that a file tells of; `None` if it holds no results that are known.
pub(super) fn read(path: &Path, higher_is_better: bool) -> Result<Option<Vec<Run>>, Problem> {
    let mut bytes = Vec::new();
    let read = file::open(path)?
        .take(foreign::LARGEST_OUTPUT + 1)
        .read_to_end(&mut bytes);
    let failed = |cause: String| Problem::usage(format!("cannot read {}: {cause}", path.display()));
    read.map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > foreign::LARGEST_OUTPUT {
        return Err(failed(
            foreign::too_large("it", foreign::LARGEST_OUTPUT).to_string(),
        ));
    }
    let Ok(text) = String::from_utf8(bytes) else {
        return Ok(None);
    };
    let json = fio::start_of_json(&text).map(|at| &text[at..]);
    let json = json.and_then(|json| {
        let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
        values.next()?.ok()
    });
    match json {
        Some(json) if json.get("jobs").is_some() => {
            let of_fio = of_fio(path, &text, &json);
            of_fio.map(|run| Some(vec![run])).map_err(failed)
        }
        Some(json) => Ok(of_hyperfine(path, &json)),
        None if text.lines().any(|line| line.starts_with("tps = ")) => {
            of_pgbench(path, &text).map(Some).map_err(failed)
        }
        None => of_values(path, &text, higher_is_better).map_err(failed),
    }
}

/// Options that name things, say where they are, or what is printed: they do not change what is measured.
const NAMES: [&str; 13] = [
    "name",
    "description",
    "filename",
    "directory",
    "filename_format",
    "output",
    "output-format",
    "group_reporting",
    "status-interval",
    "eta",
    "ioscheduler",
    "unlink",
    "new_group",
];

fn of_fio(path: &Path, text: &str, json: &Value) -> Result<Run, String> {
    let measured =
        fio::read_result(text, None).map_err(|error| Problem::from(error).to_string())?;
    let longest = measured.longest();
    let outcome = Outcome {
        jobs: measured.jobs,
        ..Outcome::default()
    };
    let metrics = Metrics::of(&outcome, &Measured::default(), longest);
    let jobs = || json["jobs"].as_array().into_iter().flatten();
    let global = json.get("global options").and_then(Value::as_object);
    let mut settings: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for job in jobs() {
        let own = job.get("job options").and_then(Value::as_object);
        let of = |key: &String| {
            own.and_then(|own| own.get(key))
                .or(global.and_then(|all| all.get(key)))
        };
        let keys = [own, global].into_iter().flatten().flat_map(Map::keys);
        for key in keys.filter(|key| !NAMES.contains(&key.as_str()) && !key.ends_with("_log")) {
            let value = of(key).and_then(Value::as_str).unwrap_or_default();
            settings
                .entry(key.clone())
                .or_default()
                .insert(value.to_owned());
        }
    }
    let joined = |values: BTreeSet<String>| values.into_iter().collect::<Vec<_>>().join("+");
    let settings: BTreeMap<String, String> = settings
        .into_iter()
        .map(|(key, values)| (key, joined(values)))
        .collect();
    let word = |keys: [&str; 2], before: &str, after: &str| {
        let value = keys
            .iter()
            .find_map(|key| settings.get(*key))
            .filter(|value| !value.is_empty());
        value.map(|value| format!("{before}{value}{after}"))
    };
    let words = [
        word(["rw", "readwrite"], "", ""),
        word(["bs", "blocksize"], "", ""),
        word(["iodepth", "iodepth"], "QD", ""),
        word(["numjobs", "numjobs"], "", " jobs"),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    let names: BTreeSet<&str> = jobs().filter_map(|job| job["jobname"].as_str()).collect();
    let load = if settings.contains_key("rw") || settings.contains_key("readwrite") {
        words.join(" ")
    } else {
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let seconds = |value: &Value, per_second: f64| value.as_f64().map(|value| value / per_second);
    let began = jobs()
        .filter_map(|job| seconds(&job["job_start"], 1e3))
        .reduce(f64::min);
    let ended = seconds(&json["timestamp_ms"], 1e3).or(seconds(&json["timestamp"], 1.0));
    let disks = json["disk_util"].as_array().into_iter().flatten();
    let disks: Vec<&str> = disks.filter_map(|disk| disk["name"].as_str()).collect();
    // Of the direction that did most.
    let flows = jobs().flat_map(|job| [&job["read"], &job["write"]]);
    // One sample is no course.
    let has_course = |flow: &Value| flow["iops_samples"].as_u64().is_none_or(|count| count > 1);
    let least = |flow: &Value| flow["iops_min"].as_f64().filter(|_| has_course(flow));
    let rated = flows.filter_map(|flow| Some((flow["iops"].as_f64()?, least(flow))));
    let (rate, least_rate) = rated.max_by(|a, b| a.0.total_cmp(&b.0)).unzip();
    Ok(Run {
        settings,
        began: began.or(ended.map(|ended| ended - longest.as_secs_f64())),
        program: json["fio version"].as_str().map(str::to_owned),
        device: (!disks.is_empty()).then(|| disks.join(", ")),
        jobs: outcome.jobs,
        rate,
        least_rate: least_rate.flatten(),
        ..Run::new(path, &load, Objective::Throughput, metrics)
    })
}

/// Each time of each command; the commands of one file are its arms if they are told apart by parameters.
fn of_hyperfine(path: &Path, json: &Value) -> Option<Vec<Run>> {
    let mut runs = Vec::new();
    for result in json.get("results")?.as_array()? {
        let command = result["command"].as_str()?;
        let parameters = result.get("parameters").and_then(Value::as_object);
        let values = parameters
            .into_iter()
            .flat_map(Map::values)
            .filter_map(Value::as_str);
        let arm = values.collect::<Vec<_>>().join(",");
        for time in result["times"].as_array()? {
            let elapsed = time.as_f64().filter(|time| *time > 0.0)?;
            let metrics = Metrics {
                elapsed_s: Some(elapsed),
                ..Metrics::default()
            };
            runs.push(Run {
                arm: Some(if arm.is_empty() {
                    command.to_owned()
                } else {
                    arm.clone()
                }),
                began: Some(runs.len() as f64),
                rate: Some(1.0 / elapsed),
                ..Run::new(path, "command", Objective::Time, metrics)
            });
        }
    }
    (!runs.is_empty()).then_some(runs)
}

/// One report after another, as a loop of a shell appends them.
fn of_pgbench(path: &Path, text: &str) -> Result<Vec<Run>, String> {
    let mut runs = Vec::new();
    let mut rest = text;
    while !rest.trim().is_empty() {
        // A report ends behind its last line of tps.
        let begins = |line: &&str| line.starts_with("tps = ");
        let Some(first) = rest.lines().find(begins) else {
            break;
        };
        let mut end = rest.find(first).unwrap_or(0) + first.len();
        while let Some(more) = rest[end..].trim_start().lines().next().filter(begins) {
            end += rest[end..].find(more).unwrap_or(0) + more.len();
        }
        let (report, after) = rest.split_at(end);
        rest = after;
        let tps = output::Report::read(report)
            .ok_or("it has no whole report of pgbench")?
            .tps;
        let line = |name: &str| {
            let mut lines = report.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.map(|value| value.trim().to_owned())
        };
        let kept = [
            "transaction type",
            "scaling factor",
            "query mode",
            "number of clients",
            "number of threads",
        ];
        let settings = kept
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), line(name)?)));
        let metrics = Metrics {
            transactions_per_s: Some(tps),
            ..Metrics::default()
        };
        runs.push(Run {
            settings: settings.collect(),
            program: report
                .lines()
                .find(|line| line.starts_with("pgbench ("))
                .map(str::to_owned),
            rate: Some(tps),
            least_rate: output::slowest_second(report),
            ..Run::new(path, "pgbench", Objective::Tps, metrics)
        });
    }
    Ok(runs)
}

/// `arm,round,value`, `arm,value` or `value`, with or without a line of names.
fn of_values(path: &Path, text: &str, higher_is_better: bool) -> Result<Option<Vec<Run>>, String> {
    let lines = text
        .trim_start_matches('\u{feff}')
        .lines()
        .zip(1..)
        .map(|(line, number)| (line.trim(), number));
    let mut lines = lines
        .filter(|(line, _)| !line.is_empty() && !line.starts_with('#'))
        .peekable();
    let Some((first, _)) = lines.peek() else {
        return Ok(None);
    };
    // Where others separate, a comma is part of a value, and no number.
    let others = [';', '\t'].into_iter();
    let separator = others.filter(|other| first.contains(*other)).chain([',']);
    let separator = separator.take(1).collect::<String>();
    let cells = |line: &str| -> Vec<String> {
        line.split(&separator)
            .map(|cell| cell.trim().trim_matches('"').to_owned())
            .collect()
    };
    let first = cells(first);
    let is_number = |cell: Option<&String>| cell.is_some_and(|cell| cell.parse::<f64>().is_ok());
    let place = |names: &[&str]| {
        first
            .iter()
            .position(|cell| names.contains(&&*cell.to_lowercase()))
    };
    let (arm, round, value) = if is_number(first.last()) {
        let at = |place: usize| (first.len() > place + 1).then_some(place);
        (at(0), at(1), first.len() - 1)
    } else {
        lines.next();
        let arm = place(&["arm", "scheduler"]);
        let value = place(&["value"]).or(arm.map(|_| first.len() - 1));
        let Some(value) = value else { return Ok(None) };
        (arm, place(&["round", "block", "rep"]), value)
    };
    let mut runs: Vec<Run> = Vec::new();
    for (line, number) in lines {
        let cells = cells(line);
        let wrong = |what: &str| format!("line {number}: {what}");
        let printed = cells.get(value).ok_or_else(|| wrong("it has no value"))?;
        let measured: f64 = printed
            .parse()
            .map_err(|_| wrong(&format!("value `{printed}` is no number")))?;
        let round = round
            .and_then(|round| cells.get(round))
            .map(|round| round.parse::<u32>());
        let round = round
            .transpose()
            .map_err(|_| wrong("its round is no whole number"))?;
        let decimals = printed
            .split_once('.')
            .map_or(0, |(_, decimals)| decimals.len());
        let metrics = Metrics {
            number: Some(measured).filter(|value| value.is_finite()),
            number_unit: i32::try_from(decimals)
                .ok()
                .map(|decimals| 0.1_f64.powi(decimals)),
            ..Metrics::default()
        };
        let objective = if higher_is_better {
            Objective::NumberHigher
        } else {
            Objective::NumberLower
        };
        runs.push(Run {
            arm: arm.and_then(|arm| cells.get(arm)).cloned(),
            round,
            ..Run::new(path, "values", objective, metrics)
        });
    }
    Ok((!runs.is_empty()).then_some(runs))
}
