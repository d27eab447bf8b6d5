//! A load over a disk model under several schedulers: each a run of its own, side by side.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use iosched_facts::near::did_you_mean;
use iosched_machine::failure::{Problem, exit};
use iosched_machine::user_files;
use iosched_sim::block_layer::{MergeLimits, Merging};
use iosched_sim::disk::{Model, ModelOptions};
use iosched_sim::histogram::Histogram;
use iosched_sim::scheduler::{self, Kernel, NamedValues, SchedulerSpec, build, parse_settings};
use iosched_sim::simulate::{
    self, Attachment, CENTURY, Flow, HostTimes, MultiQueueSettings, Outcome, Setup, Tracer,
    Writeback,
};
use iosched_sim::units::{Bytes, Nanos, Sectors};
use iosched_sim::workload::Job;
use iosched_sim::workload::fio_job;
use serde::{Deserialize, Serialize};

use super::events::EventFile;
use super::replay::{Failed, Meter, Trace, TraceOptions, TraceReport};
use super::settings::{checked_hz, tick_phase};
pub use super::times::Times;
use crate::load;
use crate::load::builtin::{self, BuiltIn};
pub use crate::load::desktop::START;
use crate::load::desktop::simulated::{self, Script};
use crate::load::desktop::{self, DesktopSettings};
use crate::load::fio_job::{command_line, expand};
use crate::threads;

/// What the processes do.
#[derive(Debug, Clone)]
pub enum Load {
    /// One that comes with the program.
    BuiltIn(&'static BuiltIn),
    /// The start of a program beside a copy or streams.
    Desktop(DesktopSettings),
    /// As a fio job file says, or a command line of fio; and the variables that are defined for it.
    Job(String, Vec<(String, String)>),
    /// As they did when they were recorded.
    Trace(TraceOptions),
}

impl Load {
    /// The built-in load of this name, or else the job file.
    ///
    /// # Errors
    /// A setting that the load does not have.
    pub fn named(name: &str, defines: Vec<(String, String)>) -> Result<Load, Problem> {
        let (load, settings) = name.split_once(':').unwrap_or((name, ""));
        if load == desktop::NAME {
            return Ok(Load::Desktop(DesktopSettings::parse(settings)?));
        }
        let found = builtin::find(name);
        Ok(found.map_or_else(|| Load::Job(name.into(), defines), Load::BuiltIn))
    }

    /// What the user calls it.
    pub(crate) fn name(&self) -> String {
        match self {
            Load::BuiltIn(load) => load.name.to_owned(),
            Load::Desktop(_) => desktop::NAME.to_owned(),
            Load::Job(text, _) => text.clone(),
            Load::Trace(options) => options.path.display().to_string(),
        }
    }

    /// The processes, on this disk of this size.
    fn work(
        &self,
        (disk, capacity): (&Model, Sectors),
        seed: u64,
        meter: &Arc<Meter>,
    ) -> Result<Work, Problem> {
        let parse = |text: &str| {
            let jobs = fio_job::parse(text, capacity);
            Ok(Work::Jobs(
                jobs.map_err(|problem| problem.about(self.name()))?,
            ))
        };
        match self {
            Load::BuiltIn(load) => parse(load.text),
            Load::Desktop(settings) => {
                let script = Script::new(settings, (capacity, disk.rotational()), seed)?;
                Ok(Work::Script(Arc::new(script)))
            }
            Load::Job(load, defines) => {
                let variable = |name: &str| expand::value_of(defines, name);
                let read = |path: &str| expand::read_whole(Path::new(path), &variable);
                if let Some(line) = command_line::of(load) {
                    return parse(&command_line::read(line, &read)?.text);
                }
                let path = Path::new(load);
                if path.components().count() == 1 && path.symlink_metadata().is_err() {
                    return Err(no_such_load(path));
                }
                parse(&read(load)?)
            }
            Load::Trace(options) => {
                let trace = Trace::new(options.clone(), (disk, capacity), meter)?;
                Ok(Work::Trace(Arc::new(trace)))
            }
        }
    }
}

/// Where accesses come from, checked.
#[derive(Debug, Clone)]
enum Work {
    /// As jobs say.
    Jobs(Vec<Job>),
    /// Starts of a program, and what goes on beside them.
    Script(Arc<Script>),
    /// As they were recorded.
    Trace(Arc<Trace>),
}

impl Work {
    fn jobs(&self) -> &[Job] {
        match self {
            Work::Jobs(jobs) => jobs,
            Work::Script(script) => &script.jobs,
            Work::Trace(trace) => trace.jobs(),
        }
    }

    /// When a run of it ends at the latest if nobody says when.
    fn usual_end(&self) -> UsualEnd {
        let (at, cuts) = match self {
            Work::Jobs(jobs) => {
                let times = RunTimes::of(jobs);
                (times.longest.max(USUAL), !times.bind_all)
            }
            Work::Script(_) => (simulated::LONGEST, false),
            Work::Trace(_) => (CENTURY, false),
        };
        UsualEnd { at, cuts }
    }
}

/// How long jobs are simulated that do not say how long they run.
const USUAL: Nanos = Nanos::from_secs(10);

/// When a run ends at the latest if nobody says when.
#[derive(Debug, Clone, Copy)]
struct UsualEnd {
    at: Nanos,
    /// Jobs would go on after it.
    cuts: bool,
}

/// How long jobs run by their own words.
struct RunTimes {
    /// Of those that say it, groups one after the other.
    longest: Nanos,
    /// None has another end than that.
    bind_all: bool,
}

impl RunTimes {
    fn of(jobs: &[Job]) -> RunTimes {
        let mut groups = BTreeMap::<usize, Nanos>::new();
        for job in jobs {
            let longest = groups.entry(job.group).or_default();
            let end =
                |runtime| job.delay.min(CENTURY) + job.ramp.min(CENTURY) + CENTURY.min(runtime);
            *longest = (*longest).max(job.runtime.map_or(Nanos::ZERO, end));
        }
        RunTimes {
            longest: groups
                .into_values()
                .fold(Nanos::ZERO, |sum, group| CENTURY.min(sum + group)),
            bind_all: jobs.iter().all(|job| job.runtime.is_some()),
        }
    }
}

/// What is to be simulated.
#[derive(Debug, Clone)]
pub struct SimulationRequest {
    /// The disk model.
    pub disk: Model,
    /// Departures of the disk from its model.
    pub options: ModelOptions,
    /// `name[:tunable=value,…]`, each a run.
    pub schedulers: Vec<String>,
    /// Of those, one that refuses the load is left out, and is no error.
    pub leaves_refused_out: bool,
    /// What the processes do.
    pub load: Load,
    /// State that the schedulers begin with: `name=value,…`.
    pub initial: Option<String>,
    /// Commands that the disk takes at a time, if not as many as its model.
    pub queue_depth: Option<usize>,
    /// Commands that the disk accepts, if not as many as the driver sends.
    pub device_limit: Option<usize>,
    /// The host around the disk is as around an emulated one ([`HostTimes::emulated`]); not with
    /// processors.
    pub emulated: bool,
    /// Requests of each kind that may exist.
    pub nr_requests: Option<usize>,
    /// Longest request, if not as long as is usual on the kernel.
    pub max_sectors: Option<Bytes>,
    /// Ticks per second.
    pub hz: Option<u32>,
    /// How long before time zero a tick began, in microseconds.
    pub tick_phase_us: f64,
    /// How the disk is attached, for the multi-queue block layer.
    pub attachment: Attachment,
    /// Hardware queues; if not said, one for each processor that costs time where the disk is
    /// attached so that it can have several, or one.
    pub hardware_queues: Option<usize>,
    /// Write-back throttling: the latency that reads should not exceed; off if not said.
    pub wbt_lat: Option<Nanos>,
    /// Processors on which a request of the multi-queue block layer costs time.
    pub processors: Option<usize>,
    /// Where chance comes from.
    pub seed: u64,
    /// How writes through the page cache get to the disk.
    pub writeback: Writeback,
    /// The run ends here at the latest; if not said, when its jobs do by their own run times, or after 10 s; replayed
    /// traces end by themselves.
    pub until: Option<Nanos>,
    /// Write what happens into this file (one scheduler only).
    pub events: Option<PathBuf>,
}

impl SimulationRequest {
    fn hardware_queues(&self) -> usize {
        let each = match self.attachment {
            Attachment::TagOnly => self.processors,
            Attachment::Budget => None,
        };
        self.hardware_queues.or(each).unwrap_or(1)
    }
}

fn no_such_load(path: &Path) -> Problem {
    let job_files = builtin::BUILT_IN.iter().map(|load| load.name);
    let names: Vec<&str> = job_files.chain([desktop::NAME]).collect();
    Problem::usage(format!(
        "no built-in load that can be simulated and no job file is called {}",
        path.display()
    ))
    .hint(did_you_mean(&path.to_string_lossy(), names.iter().copied()).unwrap_or_else(|| {
        format!(
            "a fio job file, or one of: {}; what runs a program (pgbench, command:, database) needs a disk: \
             `iosched tune --load LOAD`",
            names.join(", ")
        )
    }))
}

/// What a process got, or all of them together.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Share {
    /// The process.
    pub name: String,
    /// Accesses completed.
    pub accesses: u64,
    /// Accesses per second.
    pub iops: f64,
    /// Data per second.
    pub bytes_per_second: f64,
    /// From submission until the program had the answer: the three below together.
    pub latency: Times,
    /// While no request or tag was free.
    #[serde(default)]
    pub before_queue_time: Times,
    /// From the request's allocation until the driver took it.
    pub queue_time: Times,
    /// From there to completion.
    pub service_time: Times,
    /// What it read; nothing if that is nothing, or all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<Direction>,
    /// What it wrote; nothing if that is nothing, or all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<Direction>,
    /// Times that it made sure that what it wrote was on the medium.
    pub syncs: u64,
    /// How long that took.
    pub sync_latency: Times,
}

/// What was read, or what was written, where there is both.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Direction {
    /// Accesses completed.
    pub accesses: u64,
    /// Accesses per second.
    pub iops: f64,
    /// Data per second.
    pub bytes_per_second: f64,
    /// From submission until the program had the answer.
    pub latency: Times,
}

impl Direction {
    /// Reads and writes, if there are both.
    fn both(flows: [&Flow; 2], elapsed: Nanos) -> [Option<Direction>; 2] {
        let counts = flows.map(|flow| flow.latencies.total.count());
        let is_mixed = counts.iter().all(|&count| count > 0) && elapsed > Nanos::ZERO;
        flows.map(|flow| is_mixed.then(|| Direction::of(flow, elapsed)))
    }

    fn of(flow: &Flow, elapsed: Nanos) -> Direction {
        let (latency, seconds) = (&flow.latencies.total, elapsed.as_secs_f64());
        Direction {
            accesses: latency.count(),
            iops: latency.count() as f64 / seconds,
            bytes_per_second: flow.bytes.as_u64() as f64 / seconds,
            latency: Times::from(latency),
        }
    }
}

impl Share {
    fn new(name: &str, flows: [&Flow; 2], elapsed: Nanos, syncs: &Histogram) -> Share {
        let bytes: Bytes = flows.iter().map(|flow| flow.bytes).sum();
        let latencies = &flows[0].latencies.with(&flows[1].latencies);
        let seconds = elapsed.as_secs_f64();
        let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let accesses = latencies.total.count();
        let [read, write] = Direction::both(flows, elapsed);
        Share {
            name: name.to_owned(),
            accesses,
            iops: rate(accesses as f64),
            bytes_per_second: rate(bytes.as_u64() as f64),
            latency: Times::from(&latencies.total),
            before_queue_time: Times::from(&latencies.before),
            queue_time: Times::from(&latencies.queue),
            service_time: Times::from(&latencies.service),
            read,
            write,
            syncs: syncs.count(),
            sync_latency: Times::from(syncs),
        }
    }
}

/// One scheduler's run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunResult {
    /// The scheduler with its tunables, as asked for.
    pub scheduler: String,
    /// Requests that there could be at a time; of each kind, in the single-queue block layer.
    #[serde(default)]
    pub nr_requests: usize,
    /// All processes together.
    pub total: Share,
    /// Each process.
    pub processes: Vec<Share>,
    /// What else the load gives, by name: how long a program took to start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, f64>,
    /// Commands that the disk got (merged accesses are one).
    pub commands: u64,
    /// Mean distance between the end of a command and the beginning of the next.
    pub mean_seek_sectors: f64,
    /// Share of commands that began where the one before ended.
    pub sequential_share: f64,
    /// Time in which the disk had nothing to do.
    pub disk_idle_ns: u64,
    /// Jain's index of the processes' data rates.
    pub fairness: f64,
    /// From the first submission to the last completion.
    pub elapsed_ns: u64,
    /// A trace's clock stood still for so long because the disk could not keep up.
    pub held_back_ns: u64,
    /// What the run took on this machine.
    pub wall_ns: u64,
}

impl RunResult {
    fn new(
        (scheduler, nr_requests): (&str, usize),
        outcome: &Outcome,
        numbers: BTreeMap<String, f64>,
        wall: std::time::Duration,
    ) -> RunResult {
        let mut syncs = Histogram::default();
        for process in &outcome.processes {
            syncs.merge(&process.syncs.total);
        }
        let [read, write] = &outcome.flows();
        let total = Share::new("all", [read, write], outcome.elapsed, &syncs);
        let processes = outcome.processes.iter().map(|process| {
            Share::new(
                &process.name,
                process.flows(),
                process.elapsed,
                &process.syncs.total,
            )
        });
        let moves = outcome.disk.commands.saturating_sub(1).max(1) as f64;
        RunResult {
            scheduler: scheduler.to_owned(),
            nr_requests,
            processes: processes.collect(),
            numbers,
            total,
            commands: outcome.disk.commands,
            mean_seek_sectors: outcome.disk.seek_sectors as f64 / moves,
            sequential_share: outcome.disk.contiguous as f64 / moves,
            disk_idle_ns: outcome.disk_idle().as_nanos(),
            fairness: outcome.fairness(),
            elapsed_ns: outcome.elapsed.as_nanos(),
            held_back_ns: outcome.held_back.as_nanos(),
            wall_ns: u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

/// What was simulated, and what came out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Simulated {
    /// The disk model.
    pub disk: String,
    /// Its size.
    pub disk_bytes: u64,
    /// How many times as long as its model says all that it does took, if not once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_down: Option<u32>,
    /// Commands that the driver gave it at a time.
    pub queue_depth: usize,
    /// The load.
    pub load: String,
    /// How near it comes to the load itself, if that is known to be not quite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<String>,
    /// What was found in the trace, if the load is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceReport>,
    /// Where chance came from.
    pub seed: u64,
    /// When runs were ended whose jobs would have gone on, where nobody had said when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_at_ns: Option<u64>,
    /// Scheduler by scheduler, as asked for.
    pub runs: Vec<RunResult>,
}

/// A simulation, checked: nothing has run yet.
#[derive(Debug, Clone)]
pub struct Plan {
    wanted: SimulationRequest,
    specs: Vec<SchedulerSpec>,
    initial: NamedValues,
    work: Work,
    meter: Arc<Meter>,
    capacity: Bytes,
    queue_depth: usize,
}

/// The kernel that a scheduler runs in.
fn kernel_of(wanted: &SimulationRequest, spec: &SchedulerSpec) -> Result<Kernel, Problem> {
    let usual = spec.usual_kernel()?;
    let mut kernel = Kernel {
        hz: wanted.hz.map_or(Ok(usual.hz), checked_hz)?,
        rotational: wanted.disk.rotational(),
        ..usual
    };
    kernel.tick_phase = tick_phase(wanted.tick_phase_us, &kernel)?;
    Ok(kernel)
}

impl Plan {
    /// Checks everything that is wanted.
    pub fn new(wanted: SimulationRequest) -> Result<Plan, Problem> {
        Plan::watched(wanted, Arc::default())
    }

    /// The same; a trace is looked through, and the meter says how far that is, and the runs after it.
    pub fn watched(wanted: SimulationRequest, meter: Arc<Meter>) -> Result<Plan, Problem> {
        let mut wanted = wanted;
        wanted.options.queue_depth = wanted.queue_depth.or(wanted.options.queue_depth);
        let model = wanted.disk.build(&wanted.options)?;
        let initial = parse_settings(wanted.initial.as_deref().unwrap_or(""))?;
        let mut specs = Vec::new();
        for text in &wanted.schedulers {
            let spec = SchedulerSpec::parse(text)?;
            build(&spec, &kernel_of(&wanted, &spec)?, &initial)?; // tells what is wrong, if anything
            specs.push(spec);
        }
        if wanted.events.is_some() && specs.len() > 1 {
            let count = specs.len();
            return Err(Problem::usage(format!(
                "events can be written of one scheduler at a time, and there are {count}"
            ))
            .hint("give one --scheduler together with --events"));
        }
        let seed = wanted.seed;
        let work = wanted
            .load
            .work((&wanted.disk, model.capacity()), seed, &meter)?;
        let may_run = |spec: &SchedulerSpec| -> Result<(), Problem> {
            let info = scheduler::info(&spec.name)?;
            if wanted.wbt_lat.is_some_and(|wbt_lat| wbt_lat > Nanos::ZERO) {
                info.check_throttling()?;
            }
            simulate::check_groups(info, work.jobs())
        };
        if wanted.leaves_refused_out {
            let both = specs.into_iter().zip(wanted.schedulers);
            let taken = both.filter(|(spec, _)| may_run(spec).is_ok());
            (specs, wanted.schedulers) = taken.unzip();
        }
        for spec in &specs {
            may_run(spec)?;
        }
        Ok(Plan {
            specs,
            initial,
            work,
            meter,
            capacity: model.capacity().to_bytes(),
            queue_depth: model.queue_depth(),
            wanted,
        })
    }

    /// Runs every scheduler, as many at a time as there are processors.
    pub fn run(&self) -> Result<Simulated, Problem> {
        if let Work::Trace(trace) = &self.work {
            self.meter
                .expect(trace.run_bytes() * self.specs.len() as u64);
        }
        let runs = threads::each(self.specs.len(), |index| self.run_one(index))
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Simulated {
            disk: self.wanted.disk.name.clone(),
            disk_bytes: self.capacity.as_u64(),
            slow_down: self
                .wanted
                .options
                .slow_down
                .map(NonZeroU32::get)
                .filter(|&factor| factor > 1),
            queue_depth: self.queue_depth,
            load: self.wanted.load.name(),
            accuracy: match &self.work {
                Work::Script(_) => {
                    Some(simulated::accuracy(self.wanted.disk.rotational()).to_owned())
                }
                Work::Jobs(_) | Work::Trace(_) => None,
            },
            trace: match &self.work {
                Work::Jobs(_) | Work::Script(_) => None,
                Work::Trace(trace) => Some(trace.report().clone()),
            },
            seed: self.wanted.seed,
            cut_at_ns: self.cut_at(&runs).map(Nanos::as_nanos),
            runs,
        })
    }

    /// When runs were ended that would have gone on, where nobody had said when. A built-in load has no end: how long it
    /// runs is always another's choice.
    fn cut_at(&self, runs: &[RunResult]) -> Option<Nanos> {
        let end = self.work.usual_end();
        let is_cut = end.cuts && self.wanted.until.is_none();
        let is_of_user = matches!(self.wanted.load, Load::Job(..));
        let mut ended = runs.iter().map(|run| run.elapsed_ns);
        (is_cut && is_of_user && ended.any(|ended| ended >= end.at.as_nanos())).then_some(end.at)
    }

    fn run_one(&self, index: usize) -> Result<RunResult, Problem> {
        let wanted = &self.wanted;
        let kernel = kernel_of(wanted, &self.specs[index])?;
        let settings = MultiQueueSettings {
            attachment: wanted.attachment,
            kernel,
            nr_requests: wanted.nr_requests,
            hardware_queues: wanted.hardware_queues(),
            processors: wanted.processors,
            wbt_lat: wanted.wbt_lat,
            flushes_alone: wanted.emulated,
        };
        let scheduler = build(&self.specs[index], &kernel, &self.initial)?;
        let facts = scheduler.info().facts;
        let requests = load::simulated::requests(facts, wanted.nr_requests, self.queue_depth);
        let disk = wanted.disk.build(&wanted.options)?;
        let usual = Setup::new(scheduler, disk, self.work.jobs().to_vec());
        let setup = Setup {
            device_limit: wanted.device_limit,
            nr_requests: wanted.nr_requests.unwrap_or(usual.nr_requests),
            queue_depth: self.queue_depth,
            limits: MergeLimits {
                max_sectors: wanted
                    .max_sectors
                    .unwrap_or_else(|| MergeLimits::usual_max(&kernel))
                    .to_sectors(),
                merging: Merging::Full,
            },
            host: match wanted.processors {
                Some(_) => HostTimes::fast(),
                None if wanted.emulated => HostTimes::emulated(),
                None => HostTimes::default(),
            },
            multi_queue: settings,
            writeback: wanted.writeback,
            volatile_cache: wanted
                .options
                .write_cache
                .unwrap_or(wanted.disk.write_cache()),
            seed: wanted.seed,
            until: wanted.until.unwrap_or(self.work.usual_end().at),
            ..usual
        };
        let began = Instant::now();
        let outcome = match &wanted.events {
            None => self.run_watched(setup, &mut ())?,
            Some(path) => {
                let failed = |cause: io::Error| {
                    let message = format!("cannot write {}: {cause}", path.display());
                    Problem::new(exit::FAILURE, message)
                };
                let names = (wanted.schedulers[index].as_str(), wanted.disk.name.as_str());
                let file = user_files::create_new(path).map_err(failed)?;
                let mut file = EventFile::begin(file, &setup, names);
                let outcome = self.run_watched(setup, &mut file)?;
                file.finish().map_err(failed)?;
                outcome
            }
        };
        let numbers = match &self.work {
            Work::Script(script) => script.numbers(&outcome)?,
            Work::Jobs(_) | Work::Trace(_) => BTreeMap::new(),
        };
        Ok(RunResult::new(
            (&wanted.schedulers[index], requests),
            &outcome,
            numbers,
            began.elapsed(),
        ))
    }

    fn run_watched(&self, setup: Setup, tracer: &mut dyn Tracer) -> Result<Outcome, Problem> {
        match &self.work {
            Work::Jobs(_) | Work::Script(_) => Ok(simulate::run(setup, tracer)),
            Work::Trace(trace) => {
                let failed = Failed::default();
                let replay = trace.replay(&self.meter, &failed)?;
                let outcome = simulate::replay(setup, replay, tracer);
                match failed.take() {
                    Some(error) => Err(error),
                    None => Ok(outcome),
                }
            }
        }
    }
}

/// One line per process and scheduler, for spreadsheets.
pub fn csv(simulated: &Simulated) -> String {
    let mut text = "disk,load,scheduler,process,accesses,iops,bytes_per_second,latency_mean_ns,\
                    latency_p50_ns,latency_p99_ns,latency_p999_ns,latency_max_ns,\
                    before_queue_mean_ns,queue_mean_ns,service_mean_ns\n"
        .to_owned();
    for run in &simulated.runs {
        for share in std::iter::once(&run.total).chain(&run.processes) {
            let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
            let latency = share.latency;
            let _ = writeln!(
                text,
                "{},{},{},{},{},{:.1},{:.0},{},{},{},{},{},{},{},{}",
                simulated.disk,
                quoted(&simulated.load),
                quoted(&run.scheduler),
                quoted(&share.name),
                share.accesses,
                share.iops,
                share.bytes_per_second,
                latency.mean_ns,
                latency.p50_ns,
                latency.p99_ns,
                latency.p999_ns,
                latency.max_ns,
                share.before_queue_time.mean_ns,
                share.queue_time.mean_ns,
                share.service_time.mean_ns,
            );
        }
    }
    text
}
