//! What can be asked of a simulation, in JSON: the options of `iosched simulate`, with numbers of bytes and seconds.

use std::num::NonZeroU32;
use std::path::PathBuf;

use iosched_emulate::disk_file;
use iosched_emulate::spec::parse_order;
use iosched_experiment::simulate::replay::TraceOptions;
use iosched_experiment::simulate::run::{Load, SimulationRequest};
use iosched_sim::disk::ModelOptions;
use iosched_sim::simulate::{Attachment, Writeback};
use iosched_sim::trace::Format;
use iosched_sim::units::{Bytes, Nanos};
use pyo3::prelude::*;
use serde::Deserialize;

use crate::error::{Failed, IoschedError};

/// A simulation, as Python asks for it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    disk: Disk,
    /// `NAME[:TUNABLE=VALUE,…]`; all if there are none.
    schedulers: Vec<String>,
    /// Name of a built-in load, or a fio job file.
    load: Option<String>,
    trace: Option<Trace>,
    initial: Option<String>,
    device_limit: Option<usize>,
    nr_requests: Option<usize>,
    max_sectors_kb: Option<u64>,
    hz: Option<u32>,
    tick_phase_us: f64,
    scsi: bool,
    cpus: Option<usize>,
    hardware_queues: Option<usize>,
    wbt_lat_seconds: Option<f64>,
    memory_bytes: Option<u64>,
    dirty_ratio: Option<u8>,
    dirty_background_ratio: Option<u8>,
    seed: u64,
    until_seconds: Option<f64>,
    events: Option<PathBuf>,
}

/// A disk model and how the disk departs from it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Disk {
    /// A model's name, or a `.toml` file.
    model: String,
    size_bytes: Option<u64>,
    queue_depth: Option<usize>,
    order: Option<String>,
    write_cache: Option<bool>,
    slow_down: Option<NonZeroU32>,
}

/// A recording as the load.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trace {
    path: PathBuf,
    format: Option<String>,
    device: Option<String>,
    wrap: bool,
    closed: bool,
    speed: Option<f64>,
}

impl Request {
    pub(crate) fn parse(json: &str) -> PyResult<Request> {
        serde_json::from_str(json).map_err(|error| IoschedError::new_err(error.to_string()))
    }

    /// The same for the simulator.
    pub(crate) fn checked(self) -> PyResult<SimulationRequest> {
        self.translated().map_err(Failed::raised)
    }

    fn translated(self) -> Result<SimulationRequest, Failed> {
        let load = self.load()?;
        let until = self.until_seconds.map(|seconds| nanos("until", seconds));
        let all = || iosched_sim::scheduler::schedulers().map(|info| info.facts.name.to_owned());
        let leaves_refused_out = self.schedulers.is_empty();
        let schedulers = if leaves_refused_out {
            all().collect()
        } else {
            self.schedulers
        };
        let writeback = Writeback::default();
        Ok(SimulationRequest {
            disk: disk_file::find(&self.disk.model).map_err(|failure| Failed::of(&failure))?,
            options: ModelOptions {
                size: self.disk.size_bytes.map(Bytes::new),
                queue_depth: None,
                order: self
                    .disk
                    .order
                    .as_deref()
                    .map(parse_order)
                    .transpose()
                    .map_err(wrong)?,
                write_cache: self.disk.write_cache,
                slow_down: self.disk.slow_down,
                seed: self.seed,
            },
            schedulers,
            leaves_refused_out,
            load,
            initial: self.initial,
            queue_depth: self.disk.queue_depth,
            device_limit: self.device_limit,
            emulated: false,
            nr_requests: self.nr_requests,
            max_sectors: self.max_sectors_kb.map(Bytes::from_kib),
            hz: self.hz,
            tick_phase_us: self.tick_phase_us,
            attachment: if self.scsi {
                Attachment::Budget
            } else {
                Attachment::TagOnly
            },
            hardware_queues: self.hardware_queues,
            wbt_lat: self
                .wbt_lat_seconds
                .map(|time| nanos("wbt_lat", time))
                .transpose()?,
            processors: self.cpus,
            seed: self.seed,
            writeback: Writeback {
                memory: self.memory_bytes.map_or(writeback.memory, Bytes::new),
                dirty_ratio: self.dirty_ratio.unwrap_or(writeback.dirty_ratio),
                background_ratio: self
                    .dirty_background_ratio
                    .unwrap_or(writeback.background_ratio),
                ..writeback
            },
            until: until.transpose()?,
            events: self.events,
        })
    }

    fn load(&self) -> Result<Load, Failed> {
        match (&self.load, &self.trace) {
            (Some(_), Some(_)) => Err(wrong("a load and a trace: give one of them".to_owned())),
            (name, None) => {
                let name = name.as_deref().unwrap_or("random-read");
                Load::named(name, Vec::new()).map_err(|failure| Failed::of(&failure))
            }
            (None, Some(trace)) => Ok(Load::Trace(TraceOptions {
                path: trace.path.clone(),
                format: trace.format.as_deref().map(format).transpose()?,
                device: trace.device.clone(),
                wrap: trace.wrap,
                closed: trace.closed,
                speed: trace.speed,
            })),
        }
    }
}

fn wrong(message: String) -> Failed {
    Failed {
        message,
        hint: None,
    }
}

fn format(name: &str) -> Result<Format, Failed> {
    Format::named(name).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        wrong(format!(
            "no format of traces is called {name}; there are: {}",
            names.join(", ")
        ))
    })
}

/// A time that the user gave in seconds.
fn nanos(of: &str, seconds: f64) -> Result<Nanos, Failed> {
    if !(seconds > 0.0 && seconds < 1e9) {
        return Err(wrong(format!(
            "{of}: {seconds} s is not above 0 and below 30 years"
        )));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "above 0, below 30 years"
    )]
    Ok(Nanos::new((seconds * 1e9) as u64))
}
