//! What the Python package `iosched` is made of: each function takes text, numbers or JSON, works while other threads of
//! Python run, and gives back JSON or CSV, of which the Python side makes tables.
//!
//! - [`request`]: what can be asked of a simulation
//! - [`events`]: a recording as rows
//! - [`wait`]: work that Ctrl-C can leave
//! - [`error`]: failures as exceptions

mod error;
mod events;
mod request;
mod wait;

use std::path::PathBuf;

use iosched_experiment::analysis::Analysis;
use iosched_experiment::record::Record;
use iosched_experiment::simulate::conform;
use iosched_experiment::simulate::initial::Initial;
use iosched_experiment::simulate::run::Plan;
use iosched_experiment::simulate::settings::SchedulerRequest;
use iosched_facts::{Problem, scheduler};
use iosched_report::{csv, named};
use iosched_sim::disk;
use iosched_sim::units::Bytes;
use pyo3::prelude::*;
use serde_json::json;

use crate::error::{Failed, IoschedError};
use crate::request::Request;
use crate::wait::interruptibly;

/// The names of the disk models and what each is, as JSON.
#[pyfunction]
fn disk_models() -> String {
    let models = disk::models();
    let models = models
        .iter()
        .map(|model| json!({"name": model.name, "rotational": model.rotational()}));
    serde_json::Value::Array(models.collect()).to_string()
}

/// The schedulers with their tunables, as JSON.
#[pyfunction]
fn scheduler_infos() -> String {
    let infos = scheduler::schedulers().map(|info| {
        let tunables = info.tunables.iter().map(|tunable| {
            json!({
                "name": tunable.name,
                "unit": tunable.unit,
                "default": tunable.default,
                "min": tunable.min,
                "max": tunable.max,
            })
        });
        let tunables = serde_json::Value::Array(tunables.collect());
        json!({"name": info.name, "summary": info.summary, "tunables": tunables})
    });
    serde_json::Value::Array(infos.collect()).to_string()
}

/// Bytes of a size as people write it: `32G`.
#[pyfunction]
fn parse_size(text: &str) -> PyResult<u64> {
    let size = iosched_emulate::spec::parse_size(text);
    size.map(Bytes::as_u64).map_err(IoschedError::new_err)
}

/// Simulates what a [`Request`] in JSON asks for; JSON as of `iosched simulate --json`.
#[pyfunction]
fn simulate(py: Python<'_>, request: &str) -> PyResult<String> {
    let request = Request::parse(request)?.checked()?;
    let simulated = interruptibly(py, move || Plan::new(request)?.run())?;
    let simulated = simulated.map_err(|failure| Failed::of(&failure).raised())?;
    as_json(&simulated)
}

/// Messages, each with its hint.
type Failures = Vec<(String, Option<String>)>;

/// Follows recordings as `iosched conform --json`: a JSON array of what came of each, and one of what went wrong.
#[pyfunction]
#[pyo3(signature = (paths, scheduler, queue_depth, hz, tick_phase_us, tunables, initial, non_rotational))]
#[expect(clippy::too_many_arguments, reason = "called from one place, by name")]
fn conform_all(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    scheduler: Option<String>,
    queue_depth: Option<usize>,
    hz: Option<u32>,
    tick_phase_us: Option<f64>,
    tunables: Option<PathBuf>,
    initial: Option<String>,
    non_rotational: bool,
) -> PyResult<(String, Failures)> {
    let followed = interruptibly(py, move || {
        let scheduler = match scheduler {
            Some(scheduler) => scheduler,
            None => conform::recorded_scheduler(&paths).map_err(|failure| unclear(&failure))?,
        };
        let wanted = SchedulerRequest {
            scheduler,
            tunables,
            hz,
            tick_phase_us,
            non_rotational,
            queue_depth,
            ..SchedulerRequest::default()
        };
        let initial = initial.as_deref().map(Initial::parse).transpose();
        let initial = initial.map_err(|failure| Failed::of(&failure))?;
        let (mut followed, mut failures) = (Vec::new(), Vec::new());
        conform::follow_all(&paths, &wanted, initial.as_ref(), |result| match result {
            Ok(conformance) => followed.push(conformance),
            Err(failure) => failures.push(Failed::of(&failure)),
        })
        .map_err(|failure| Failed::of(&failure))?;
        Ok((followed, failures))
    })?;
    let (followed, failures) = followed.map_err(Failed::raised)?;
    let failures = failures
        .into_iter()
        .map(|failed| (failed.message, failed.hint));
    Ok((as_json(&followed)?, failures.collect()))
}

/// Why it is not clear under which scheduler they were recorded; a hint to say so names the argument, not the option.
fn unclear(failure: &Problem) -> Failed {
    let mut failed = Failed::of(failure);
    if let Some(hint) = failed
        .hint
        .as_mut()
        .filter(|hint| hint.contains("--scheduler"))
    {
        "say which: scheduler=\"mq-deadline\"".clone_into(hint);
    }
    failed
}

/// Writes the events of a recording into a new CSV file: the columns of docs/fleet.md. Memory does not grow with it.
#[pyfunction]
fn trace_to_csv(py: Python<'_>, trace: PathBuf, csv: PathBuf) -> PyResult<()> {
    let written = interruptibly(py, move || events::write(&trace, &csv))?;
    written.map_err(Failed::raised)
}

/// A record of `iosched tune`: its first line and its analysis as JSON, its trials as CSV.
#[pyfunction]
fn record_parts(py: Python<'_>, directory: PathBuf) -> PyResult<(String, String, String)> {
    let read = interruptibly(py, move || {
        let record = Record::load(&directory).map_err(|failure| Failed::of(&failure))?;
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let trials = csv::trials([(&*name, &record)]);
        Ok((record, trials))
    })?;
    let (record, trials) = read.map_err(Failed::raised)?;
    let analysis = named::analysis(&Analysis::of(&record)).to_string();
    Ok((as_json(&record.header)?, analysis, trials))
}

fn as_json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| IoschedError::new_err(error.to_string()))
}

#[pymodule]
fn _iosched(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(disk_models, module)?)?;
    module.add_function(wrap_pyfunction!(scheduler_infos, module)?)?;
    module.add_function(wrap_pyfunction!(parse_size, module)?)?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(conform_all, module)?)?;
    module.add_function(wrap_pyfunction!(trace_to_csv, module)?)?;
    module.add_function(wrap_pyfunction!(record_parts, module)?)
}
