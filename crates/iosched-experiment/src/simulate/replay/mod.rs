//! Traces as loads: each access at its time, or each process in a closed loop.
//!
//! A trace is read once to see what is in it, so that everything that can be wrong is known before
//! anything runs; then once more for every scheduler. Closed loops are worked out before the first run
//! and kept in memory.
//!
//! - `files`: the files of a trace; `meter`: how far they are read
//! - `figures`: what it says by itself
//! - `place`: where on the disk its devices lie
//! - `processes`: who makes the accesses

mod error;
mod figures;
mod files;
mod meter;
mod place;
mod processes;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use iosched_machine::failure::Problem;
use iosched_sim::disk::Model;
use iosched_sim::trace::{Format, Merge, MergeError, Record, Stage, Survey};
use iosched_sim::units::{Bytes, Nanos, Sectors, Time};
use iosched_sim::workload::recorded::{Answers, ClosedLoops};
use iosched_sim::workload::replay::{Arrival, Replay, Step};
use iosched_sim::workload::{Access, Job};
use serde::{Deserialize, Serialize};

pub(crate) use error::Failed;
use error::{unreadable, wrong};
pub use figures::{TraceFigures, TracedDirection};
use files::{Files, Source};
pub use meter::Meter;
use place::Placement;
use processes::Processes;

/// What is to be replayed, and how.
#[derive(Debug, Clone)]
pub struct TraceOptions {
    /// The trace, or one of its files.
    pub path: PathBuf,
    /// Its format, if it is not to be recognised.
    pub format: Option<Format>,
    /// Of several devices this one, or `all`.
    pub device: Option<String>,
    /// Fold what lies beyond the end of the disk back onto it.
    pub wrap: bool,
    /// Closed loops.
    pub closed: bool,
    /// Pauses between accesses are divided by this.
    pub speed: Option<f64>,
}

impl TraceOptions {
    /// All of a trace, in a format that is to be recognised.
    pub fn all(path: PathBuf) -> TraceOptions {
        TraceOptions {
            path,
            format: None,
            device: None,
            wrap: false,
            closed: false,
            speed: None,
        }
    }

    /// True if this device is wanted.
    fn is_of(&self, device: &str) -> bool {
        let chosen = self.device.as_deref().filter(|name| *name != "all");
        chosen.is_none_or(|name| name == device)
    }
}

/// How accesses follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loop {
    /// Each at its time.
    Open,
    /// Each after those that it waited for.
    Closed,
}

/// What was found in a trace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TraceReport {
    /// Its format.
    pub format: Cow<'static, str>,
    /// Its files.
    pub files: Vec<PathBuf>,
    /// How its accesses follow one another.
    pub mode: Loop,
    /// Pauses are divided by this.
    pub speed: f64,
    /// The devices that are replayed.
    pub devices: Vec<String>,
    /// Accesses, issues and completions read.
    pub records: u64,
    /// Accesses that are replayed.
    pub accesses: u64,
    /// At which stage an access counts as made.
    pub made: Cow<'static, str>,
    /// From the first access to the last record.
    pub duration_ns: u64,
    /// Lines and binary records that are no access, by reason.
    pub skipped: BTreeMap<Cow<'static, str>, u64>,
    /// Records of other devices.
    pub other_devices: u64,
    /// Records that came too late to be put in order.
    pub late: u64,
    /// The end of the last sector that it touches.
    pub reach_bytes: u64,
    /// The size of disk that it fills, if the disk is much larger and has an arm.
    pub short_size: Option<u64>,
    /// It may lack FUA requests (`Labels::may_lack_fua`).
    pub may_lack_fua: bool,
    /// Closed loops: accesses whose answer is not in the trace.
    pub unanswered: u64,
}

/// A trace, looked through: it can be replayed as often as needed.
#[derive(Debug)]
pub(crate) struct Trace {
    options: TraceOptions,
    files: Files,
    placement: Arc<Placement>,
    processes: Arc<Processes>,
    jobs: Vec<Job>,
    made: Stage,
    first: Time,
    /// Of closed loops the steps of each process.
    steps: Option<Vec<Arc<[Step]>>>,
    report: TraceReport,
}

/// A trace that touches less than this part of a disk is short of it.
const SHORT: u64 = 4;

/// Years that a simulated clock can count, with room to spare.
const MOST_YEARS: u64 = 100;
const YEAR: u64 = 365 * 86_400 * 1_000_000_000;

impl Trace {
    /// Looks through a trace that is to be replayed on this disk of this size.
    pub(crate) fn new(
        options: TraceOptions,
        (disk, capacity): (&Model, Sectors),
        meter: &Arc<Meter>,
    ) -> Result<Trace, Problem> {
        let files = Files::find(&options.path, options.format)?;
        let Surveyed {
            survey,
            made,
            first,
            merge,
            other_devices,
        } = Surveyed::of(&options, &files, meter)?;
        let placement = Placement::new(&options, &survey, merge.labels(), (disk, capacity))?;
        let has_processes = merge.format().has_processes() && made == Stage::Submitted;
        let processes = Processes::new(has_processes, &survey, merge.labels());
        let mut report = report(&options, &files, &merge, &survey);
        report.other_devices = other_devices;
        let reach = placement.reach().to_bytes();
        report.reach_bytes = reach.as_u64();
        let size = Bytes::from_gib(reach.as_u64().div_ceil(1 << 30));
        report.short_size = (disk.rotational()
            && size.as_u64().saturating_mul(SHORT) <= capacity.to_bytes().as_u64())
        .then_some(size.as_u64());
        let mut trace = Trace {
            jobs: processes.open(merge.labels()),
            placement: Arc::new(placement),
            processes: Arc::new(processes),
            options,
            files,
            made,
            first,
            steps: None,
            report,
        };
        trace.check_times(survey.last())?;
        if trace.report.mode == Loop::Closed {
            trace.steps = Some(trace.close_loops(&survey, meter)?);
        }
        Ok(trace)
    }

    /// The processes, for [`iosched_sim::simulate::replay`].
    pub(crate) fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// What was found.
    pub(crate) fn report(&self) -> &TraceReport {
        &self.report
    }

    /// What a run reads, for [`Meter::expect`].
    pub(crate) fn run_bytes(&self) -> u64 {
        match self.steps {
            Some(_) => 0, // from memory
            None => self.files.bytes(),
        }
    }

    /// The accesses from the beginning. What goes wrong with them during the run is in `failed` after it.
    pub(crate) fn replay(&self, meter: &Arc<Meter>, failed: &Failed) -> Result<Replay, Problem> {
        if let Some(steps) = &self.steps {
            let each = steps.iter().map(|steps| {
                let steps = Arc::clone(steps);
                let steps = (0..steps.len()).map(move |at| steps[at]);
                Box::new(steps) as Box<dyn Iterator<Item = Step> + Send>
            });
            return Ok(Replay::Closed(each.collect()));
        }
        let merge = open(&self.files, meter)?;
        Ok(Replay::Open(Box::new(OpenLoop {
            merge,
            files: self.files.clone(),
            placement: Arc::clone(&self.placement),
            processes: Arc::clone(&self.processes),
            made: self.made,
            first: self.first,
            speed: self.options.speed,
            failed: failed.clone(),
        })))
    }

    fn check_times(&self, last: Time) -> Result<(), Problem> {
        let has_times = self.report.format != Format::FioIologV2.name();
        let path = &self.options.path;
        if !has_times && self.options.speed.is_some() {
            let what = "has no times, only pauses: --speed has nothing to scale";
            let hint = "leave out --speed: each access waits for the one before it";
            return Err(wrong(path, what).hint(hint));
        }
        let duration = scaled(last.saturating_since(self.first), self.options.speed);
        let years = duration.as_nanos() / YEAR;
        if years > MOST_YEARS {
            let hint = "look at the first and the last line: times of one clock are wanted";
            return Err(wrong(path, format!("lasts {years} years at that speed")).hint(hint));
        }
        Ok(())
    }

    /// Works out the steps of all processes.
    fn close_loops(
        &mut self,
        survey: &Survey,
        meter: &Arc<Meter>,
    ) -> Result<Vec<Arc<[Step]>>, Problem> {
        let path = &self.options.path;
        let open_loop = "without --closed each access is made at its time";
        let answers = if self.report.format == Format::FioIologV2.name() {
            Answers::OneByOne
        } else if survey.at(Stage::Completed) > 0 {
            Answers::Events
        } else if survey.responses() > 0 {
            Answers::Responses
        } else {
            let what = "does not say when accesses were answered, which --closed needs";
            return Err(wrong(path, what).hint(open_loop));
        };
        if self.processes.has_others() {
            let most = iosched_sim::trace::MOST_PROCESSES;
            let what = format!("has more than {most} processes, too many for --closed");
            return Err(wrong(path, what).hint(open_loop));
        }
        meter.expect(self.files.bytes());
        let mut loops = ClosedLoops::new(self.made, answers);
        let mut steps = vec![Vec::new(); self.jobs.len()];
        let mut merge = open(&self.files, meter)?;
        while let Some(record) = next(&mut merge, &self.files)? {
            let Some(record) = self.placement.place(self.processes.identify(record)) else {
                continue;
            };
            if let Some(step) = loops.step(&record) {
                let process = self.processes.index(record.process);
                steps[process].push(step);
            }
        }
        self.report.unanswered = loops.lost();
        self.jobs = self.processes.closed(merge.labels(), self.first, &loops);
        Ok(steps.into_iter().map(Arc::from).collect())
    }
}

/// A trace that was read to its end.
struct Surveyed {
    survey: Survey,
    made: Stage,
    first: Time,
    merge: Merge<Source>,
    other_devices: u64,
}

impl Surveyed {
    fn of(options: &TraceOptions, files: &Files, meter: &Arc<Meter>) -> Result<Surveyed, Problem> {
        let mut merge = open(files, meter)?;
        let mut survey = Survey::default();
        let mut other_devices = 0;
        while let Some(record) = next(&mut merge, files)? {
            if options.is_of(merge.labels().device_name(record.device)) {
                survey.add(&record);
            } else {
                other_devices += 1;
            }
        }
        let (Some(made), Some(first)) = (survey.made(), survey.first()) else {
            return Err(place::nothing(options, merge.labels()));
        };
        Ok(Surveyed {
            survey,
            made,
            first,
            merge,
            other_devices,
        })
    }
}

fn open(files: &Files, meter: &Arc<Meter>) -> Result<Merge<Source>, Problem> {
    files.open(meter)
}

fn next(merge: &mut Merge<Source>, files: &Files) -> Result<Option<Record>, Problem> {
    let located = |MergeError { file, error }| unreadable(&files.paths()[file], &error);
    merge.next().transpose().map_err(located)
}

fn report(
    options: &TraceOptions,
    files: &Files,
    merge: &Merge<Source>,
    survey: &Survey,
) -> TraceReport {
    let format = merge.format();
    let made = survey.made().unwrap_or(Stage::Submitted);
    let names = survey
        .devices()
        .map(|(id, _)| merge.labels().device_name(id).to_owned());
    let first = survey.first().unwrap_or_default();
    let skipped = merge.skipped();
    TraceReport {
        format: format.name().into(),
        files: files.paths().to_vec(),
        mode: if options.closed || format == Format::FioIologV2 {
            Loop::Closed
        } else {
            Loop::Open
        },
        speed: options.speed.unwrap_or(1.0),
        devices: names.collect(),
        records: merge.count(),
        accesses: survey.at(made),
        made: match made {
            Stage::Submitted => "submitted".into(),
            Stage::Issued => "issued".into(),
            Stage::Completed => "completed".into(),
        },
        duration_ns: survey.last().saturating_since(first).as_nanos(),
        skipped: skipped
            .iter()
            .map(|(skip, count)| (skip.name().into(), count))
            .collect(),
        other_devices: 0,
        late: merge.late(),
        reach_bytes: 0,
        short_size: None,
        may_lack_fua: merge.labels().may_lack_fua(),
        unanswered: 0,
    }
}

/// A length of the trace's time at this speed.
fn scaled(length: Nanos, speed: Option<f64>) -> Nanos {
    let Some(speed) = speed else {
        return length; // to the nanosecond
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "above zero, and a cast ends at the largest number"
    )]
    let nanos = (length.as_nanos() as f64 / speed) as u64;
    Nanos::new(nanos)
}

/// The accesses of a trace at their times.
struct OpenLoop {
    merge: Merge<Source>,
    files: Files,
    placement: Arc<Placement>,
    processes: Arc<Processes>,
    made: Stage,
    first: Time,
    speed: Option<f64>,
    failed: Failed,
}

impl Iterator for OpenLoop {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        loop {
            let record = match next(&mut self.merge, &self.files) {
                Ok(record) => record?,
                Err(error) => {
                    self.failed.set(error);
                    return None;
                }
            };
            if record.stage != self.made {
                continue;
            }
            let Some(record) = self.placement.place(self.processes.identify(record)) else {
                continue;
            };
            let after = record.time.saturating_since(self.first);
            return Some(Arrival {
                time: scaled(after, self.speed),
                process: self.processes.index(record.process),
                access: Access::from(&record),
            });
        }
    }
}
