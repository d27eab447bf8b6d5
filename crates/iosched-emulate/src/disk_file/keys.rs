//! The keys of a model's file, and what their values can be.

mod array;

use iosched_sim::disk::simple::{ServiceTime, SimpleParameters};
use iosched_sim::disk::ssd::{Link, LongReads, Paths, SsdParameters};
use iosched_sim::disk::{Model, Parameters};
use iosched_sim::units::{Bytes, Nanos, Sectors};
use serde::{Deserialize, Serialize};

use self::array::ArrayKeys;
use super::hdd::HddKeys;
use super::values::{Common, Wrong, count, rate, time};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    name: String,
    summary: String,
    source: Vec<String>,
    leaves_out: Vec<String>,
    capacity_bytes: Option<u64>,
    queue_depth: usize,
    #[serde(default)]
    write_cache: bool,
    hdd: Option<HddKeys>,
    ssd: Option<SsdKeys>,
    simple: Option<SimpleKeys>,
    array: Option<ArrayKeys>,
}

impl File {
    /// The keys of a model.
    pub(super) fn of(model: &Model) -> File {
        let mut file = File {
            name: model.name.clone(),
            summary: model.summary.clone(),
            source: model.sources.clone(),
            leaves_out: model.leaves_out.clone(),
            capacity_bytes: Some(model.capacity().as_u64()),
            queue_depth: model.queue_depth(),
            write_cache: model.write_cache(),
            hdd: None,
            ssd: None,
            simple: None,
            array: None,
        };
        match &model.parameters {
            Parameters::Hdd(hdd) => file.hdd = Some(HddKeys::of(hdd)),
            Parameters::Ssd(ssd) => file.ssd = Some(SsdKeys::of(ssd)),
            Parameters::Simple(simple) => file.simple = Some(SimpleKeys::of(simple)),
            Parameters::Array(array) => file.array = Some(ArrayKeys::of(array)),
        }
        file
    }

    /// The model of these keys.
    pub(super) fn model(self) -> Result<Model, Wrong> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if self.name.is_empty() || self.name.len() > 60 || !self.name.chars().all(plain) {
            let what = "and can have letters, digits, dots, dashes and underscores, up to 60";
            return Err(Wrong::new("name", format!("is `{}`, {what}", self.name)));
        }
        for (key, texts) in [("source", &self.source), ("leaves_out", &self.leaves_out)] {
            if texts.iter().all(|text| text.trim().is_empty()) {
                return Err(Wrong::new(key, "must say something"));
            }
        }
        let measured = self.hdd.as_ref().and_then(HddKeys::measured_capacity);
        let capacity_bytes = self.capacity_bytes.or(measured.map(Bytes::as_u64));
        let capacity = capacity_bytes.map(capacity).transpose()?;
        let queue_depth = count("queue_depth", self.queue_depth, 1, 1024)?;
        let common = || {
            Ok(Common {
                capacity: capacity.ok_or_else(|| Wrong::new("capacity_bytes", "is missing"))?,
                queue_depth,
                write_cache: self.write_cache,
            })
        };
        let parameters = match (self.hdd, self.ssd, self.simple, self.array) {
            (Some(hdd), None, None, None) => {
                let parameters = hdd.parameters(&common()?);
                Parameters::Hdd(parameters.map_err(|wrong| wrong.within("hdd"))?)
            }
            (None, Some(ssd), None, None) => {
                let parameters = ssd.parameters(&common()?);
                Parameters::Ssd(parameters.map_err(|wrong| wrong.within("ssd"))?)
            }
            (None, None, Some(simple), None) => {
                let parameters = simple.parameters(&common()?);
                Parameters::Simple(parameters.map_err(|wrong| wrong.within("simple"))?)
            }
            (None, None, None, Some(_)) if self.write_cache => {
                let what =
                    "is the drives' own, volatile one, which is off in an array: see [array.cache]";
                return Err(Wrong::new("write_cache", what));
            }
            (None, None, None, Some(array)) => {
                let parameters = array.parameters(capacity, queue_depth);
                Parameters::Array(parameters.map_err(|wrong| wrong.within("array"))?)
            }
            _ => {
                return Err(Wrong::new(
                    "name",
                    "is followed by one of [hdd], [ssd], [simple] and [array]",
                ));
            }
        };
        Ok(Model {
            name: self.name,
            summary: self.summary,
            sources: self.source,
            leaves_out: self.leaves_out,
            parameters,
        })
    }
}

/// A size in bytes, in sectors.
fn capacity(bytes: u64) -> Result<Sectors, Wrong> {
    count("capacity_bytes", bytes, 1 << 20, 1 << 56)?;
    if !bytes.is_multiple_of(512) {
        let what = "is no whole number of 512-byte sectors";
        return Err(Wrong::new("capacity_bytes", what));
    }
    Ok(Bytes::new(bytes).to_sectors())
}

/// A model without mechanics.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SimpleKeys {
    rotational: bool,
    service_ms: Option<f64>,
    formula: Option<FormulaKeys>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "keys name their unit")]
struct FormulaKeys {
    overhead_ms: f64,
    per_sector_ms: f64,
    positioning_ms: f64,
    full_stroke_ms: f64,
}

impl SimpleKeys {
    fn of(simple: &SimpleParameters) -> SimpleKeys {
        let (service_ms, formula) = match simple.rule {
            ServiceTime::Zero => (Some(0.0), None),
            ServiceTime::Fixed(time) => (Some(time.as_millis_f64()), None),
            ServiceTime::Formula {
                overhead,
                per_sector,
                positioning,
                full_stroke,
            } => {
                let formula = FormulaKeys {
                    overhead_ms: overhead.as_millis_f64(),
                    per_sector_ms: per_sector.as_millis_f64(),
                    positioning_ms: positioning.as_millis_f64(),
                    full_stroke_ms: full_stroke.as_millis_f64(),
                };
                (None, Some(formula))
            }
        };
        SimpleKeys {
            rotational: simple.rotational,
            service_ms,
            formula,
        }
    }

    fn parameters(&self, common: &Common) -> Result<SimpleParameters, Wrong> {
        let rule = match (self.service_ms, &self.formula) {
            (Some(service_ms), None) => match time("service_ms", service_ms)? {
                Nanos::ZERO => ServiceTime::Zero,
                service => ServiceTime::Fixed(service),
            },
            (None, Some(formula)) => ServiceTime::Formula {
                overhead: time("formula.overhead_ms", formula.overhead_ms)?,
                per_sector: time("formula.per_sector_ms", formula.per_sector_ms)?,
                positioning: time("formula.positioning_ms", formula.positioning_ms)?,
                full_stroke: time("formula.full_stroke_ms", formula.full_stroke_ms)?,
            },
            _ => {
                return Err(Wrong::new(
                    "rotational",
                    "is followed by either service_ms or [simple.formula]",
                ));
            }
        };
        Ok(SimpleParameters {
            capacity: common.capacity,
            queue_depth: common.queue_depth,
            rotational: self.rotational,
            rule,
        })
    }
}

fn packed() -> bool {
    true
}

/// A solid-state drive.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SsdKeys {
    dies: usize,
    page_bytes: u64,
    read_pipeline_ms: f64,
    read_fast_ms: f64,
    read_slow_ms: f64,
    read_fast_permille: u64,
    read_link_per_command_ms: f64,
    read_link_bytes_per_second: u64,
    long_read_pipeline_ms: Option<f64>,
    long_read_bytes_per_second: Option<u64>,
    write_pipeline_ms: f64,
    write_link_per_command_ms: f64,
    write_link_bytes_per_second: u64,
    #[serde(default)]
    paths: Paths,
    program_bytes: u64,
    program_ms: f64,
    /// As before there was a choice, unless it is given.
    #[serde(default = "packed")]
    packs_writes: bool,
    program_suspend_ms: Option<f64>,
    buffer_bytes: u64,
    flush_ms: f64,
}

impl SsdKeys {
    fn of(ssd: &SsdParameters) -> SsdKeys {
        SsdKeys {
            dies: ssd.dies,
            page_bytes: ssd.page.as_u64(),
            read_pipeline_ms: ssd.read_pipeline.as_millis_f64(),
            read_fast_ms: ssd.read_fast.as_millis_f64(),
            read_slow_ms: ssd.read_slow.as_millis_f64(),
            read_fast_permille: ssd.read_fast_permille,
            read_link_per_command_ms: ssd.read_link.per_command.as_millis_f64(),
            read_link_bytes_per_second: ssd.read_link.bytes_per_second,
            long_read_pipeline_ms: ssd.long_reads.map(|long| long.pipeline.as_millis_f64()),
            long_read_bytes_per_second: ssd.long_reads.map(|long| long.bytes_per_second),
            write_pipeline_ms: ssd.write_pipeline.as_millis_f64(),
            write_link_per_command_ms: ssd.write_link.per_command.as_millis_f64(),
            write_link_bytes_per_second: ssd.write_link.bytes_per_second,
            paths: ssd.paths,
            program_bytes: ssd.program.as_u64(),
            program_ms: ssd.program_time.as_millis_f64(),
            packs_writes: ssd.packs_writes,
            program_suspend_ms: ssd.program_suspend.map(Nanos::as_millis_f64),
            buffer_bytes: ssd.buffer.as_u64(),
            flush_ms: ssd.flush.as_millis_f64(),
        }
    }

    fn long_reads(&self) -> Result<Option<LongReads>, Wrong> {
        match (self.long_read_pipeline_ms, self.long_read_bytes_per_second) {
            (None, None) => Ok(None),
            (Some(pipeline), Some(bytes_per_second)) => Ok(Some(LongReads {
                pipeline: time("long_read_pipeline_ms", pipeline)?,
                bytes_per_second: rate("long_read_bytes_per_second", bytes_per_second)?,
            })),
            (Some(_), None) => {
                let what = "comes with long_read_bytes_per_second, or not at all";
                Err(Wrong::new("long_read_pipeline_ms", what))
            }
            (None, Some(_)) => {
                let what = "comes with long_read_pipeline_ms, or not at all";
                Err(Wrong::new("long_read_bytes_per_second", what))
            }
        }
    }

    fn parameters(&self, common: &Common) -> Result<SsdParameters, Wrong> {
        let bytes = |key, value| count(key, value, 512, 1 << 40).map(Bytes::new);
        Ok(SsdParameters {
            capacity: common.capacity,
            queue_depth: common.queue_depth,
            write_cache: common.write_cache,
            dies: count("dies", self.dies, 1, 65_536)?,
            page: bytes("page_bytes", self.page_bytes)?,
            read_pipeline: time("read_pipeline_ms", self.read_pipeline_ms)?,
            read_fast: time("read_fast_ms", self.read_fast_ms)?,
            read_slow: time("read_slow_ms", self.read_slow_ms)?,
            read_fast_permille: count("read_fast_permille", self.read_fast_permille, 0, 1000)?,
            read_link: Link {
                per_command: time("read_link_per_command_ms", self.read_link_per_command_ms)?,
                bytes_per_second: rate(
                    "read_link_bytes_per_second",
                    self.read_link_bytes_per_second,
                )?,
            },
            long_reads: self.long_reads()?,
            write_pipeline: time("write_pipeline_ms", self.write_pipeline_ms)?,
            write_link: Link {
                per_command: time("write_link_per_command_ms", self.write_link_per_command_ms)?,
                bytes_per_second: rate(
                    "write_link_bytes_per_second",
                    self.write_link_bytes_per_second,
                )?,
            },
            paths: self.paths,
            program: bytes("program_bytes", self.program_bytes)?,
            program_time: time("program_ms", self.program_ms)?,
            packs_writes: self.packs_writes,
            program_suspend: self
                .program_suspend_ms
                .map(|suspend| time("program_suspend_ms", suspend))
                .transpose()?,
            buffer: bytes("buffer_bytes", self.buffer_bytes)?,
            flush: time("flush_ms", self.flush_ms)?,
        })
    }
}
