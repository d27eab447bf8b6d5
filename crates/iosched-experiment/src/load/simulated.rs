//! A load that the simulator runs over a disk model, without a device: a job file. `desktop` uses the same disk.
//!
//! Everything happens in virtual time: a trial of 10 s on a hard disk takes milliseconds, and what a
//! trial gives depends on the arm, the round's seed and nothing else.

use std::time::{Duration, Instant};

use iosched_facts::Problem;
use iosched_facts::kernel::{
    BlockLayer, USUAL_REQUESTS, modelled_scheduler_tags, usual_throttling,
};
use iosched_facts::scheduler::SchedulerFacts;
use iosched_machine::process::Stop;
use iosched_sim::disk::{DiskModel, Model, ModelOptions};
use iosched_sim::scheduler::{
    self, Elevator, Kernel, NamedValues, SchedulerSpec, build, parse_settings,
};
use iosched_sim::simulate::{
    self, Latencies, MultiQueueSettings, Outcome as Simulated, ProcessOutcome, Setup,
};
use iosched_sim::units::{Nanos, Sectors};
use iosched_sim::workload::Job;
use iosched_sim::workload::fio_job as simulated_job;
use iosched_switch::Arm;
use serde::{Deserialize, Serialize};

use super::fio_job::{JobFile, TrialSettings};
use super::{Load, LoadError, Outcome, TrialInfo, Workplace};
use crate::course::Course;
use crate::measure::Measured;
use crate::metrics::{Flow, JobResult};
use crate::objective::Objective;
use crate::split::{Order, Parts, Split};

/// Run time of a trial, in virtual time, where neither the user nor the job file says.
const DEFAULT_RUNTIME: Duration = Duration::from_secs(10);

/// The disk that is simulated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimulatedDisk {
    /// The model.
    pub model: Model,
}

impl SimulatedDisk {
    /// How large it is, and whether it is rotational.
    pub(super) fn size_and_kind(&self) -> (Sectors, bool) {
        (self.model.capacity().to_sectors(), self.model.rotational())
    }

    fn build(&self, seed: u64) -> Result<Box<dyn DiskModel>, Problem> {
        let options = ModelOptions {
            seed,
            ..ModelOptions::default()
        };
        self.model.build(&options)
    }
}

/// The schedulers that can be simulated.
pub fn schedulers() -> Vec<&'static str> {
    scheduler::schedulers()
        .map(|info| info.facts.name)
        .collect()
}

/// What an arm may set that is the queue's, not the scheduler's.
const OF_QUEUE: [&str; 2] = ["nr_requests", "wbt_lat_usec"];

/// An arm as the simulator understands it: the scheduler, and what it sets of the queue.
struct SimulatedArm {
    scheduler: Box<dyn Elevator>,
    kernel: Kernel,
    nr_requests: Option<usize>,
    wbt_lat: Option<Nanos>,
}

impl SimulatedArm {
    fn new(arm: &Arm, disk: &SimulatedDisk) -> Result<SimulatedArm, Problem> {
        let of_queue = |(name, _): &&(String, String)| OF_QUEUE.contains(&name.as_str());
        let (of_queue, tunables): (Vec<_>, Vec<_>) = arm.tunables.iter().partition(of_queue);
        let joined = |settings: &[&(String, String)]| {
            let settings = settings
                .iter()
                .map(|(name, value)| format!("{name}={value}"));
            settings.collect::<Vec<_>>().join(",")
        };
        let spec = SchedulerSpec::parse(&format!("{}:{}", arm.scheduler, joined(&tunables)))?;
        let of_queue = parse_settings(&joined(&of_queue))?;
        let info = scheduler::info(&spec.name)?;
        let value = |wanted: &str| {
            let mut of_queue = of_queue.iter();
            Some(of_queue.find(|(name, _)| name == wanted)?.1)
        };
        let rotational = disk.model.rotational();
        let wbt_lat = value("wbt_lat_usec").filter(|&micros| micros != 0);
        // Below 0 there is -1, the default.
        let wbt_lat = wbt_lat.map(|micros| {
            let micros = u64::try_from(micros);
            micros.map_or_else(|_| usual_throttling(rotational), Nanos::from_micros)
        });
        if wbt_lat.is_some() {
            info.check_throttling()?;
        }
        let nr_requests = value("nr_requests").and_then(|number| usize::try_from(number).ok());
        let kernel = Kernel {
            rotational,
            ..spec.usual_kernel()?
        };
        Ok(SimulatedArm {
            scheduler: build(&spec, &kernel, &NamedValues::new())?,
            kernel,
            nr_requests: nr_requests.map(|number| number.max(4)), // as the kernel
            wbt_lat,
        })
    }
}

/// How many requests there can be at a time under an arm; none if it cannot be simulated.
pub(crate) fn nr_requests(arm: &Arm, disk: &SimulatedDisk) -> Option<usize> {
    let arm = SimulatedArm::new(arm, disk).ok()?;
    let facts = arm.scheduler.info().facts;
    let depth = disk.model.queue_depth();
    Some(requests(facts, arm.nr_requests, depth))
}

/// How many requests there can be at a time under a scheduler, on a model that takes so many commands.
pub(crate) fn requests(facts: &SchedulerFacts, wanted: Option<usize>, depth: usize) -> usize {
    match facts.block_layer {
        // The disk's own tags are as many as they are.
        BlockLayer::MultiQueue if facts.direct => depth,
        BlockLayer::MultiQueue => wanted.unwrap_or(modelled_scheduler_tags(depth)),
        BlockLayer::SingleQueue => wanted.unwrap_or(USUAL_REQUESTS),
    }
}

/// Checks that an arm can be simulated on a disk.
pub(crate) fn check_arm(arm: &Arm, disk: &SimulatedDisk) -> Result<(), Problem> {
    SimulatedArm::new(arm, disk).map(drop)
}

/// A job file that runs in virtual time over a disk model.
#[derive(Debug)]
pub(crate) struct SimulatedLoad {
    file: JobFile,
    jobs: Vec<Job>,
    disk: SimulatedDisk,
}

impl SimulatedLoad {
    /// Reads and checks job file and disk. `name` is what errors call the load.
    pub(crate) fn new(
        name: &str,
        text: &str,
        disk: &SimulatedDisk,
    ) -> Result<SimulatedLoad, Problem> {
        let file = JobFile::parse(name, text)?;
        let capacity = disk.model.capacity().to_sectors();
        let jobs = simulated_job::parse(text, capacity)
            .map_err(|problem| problem.about(format_args!("load {name}")))?;
        Ok(SimulatedLoad {
            file,
            jobs,
            disk: disk.clone(),
        })
    }

    /// The processes of a trial: as fio would run them with this run time and `time_based`.
    fn jobs(&self, settings: &TrialSettings) -> Vec<Job> {
        let mut jobs = self.jobs.clone();
        if let Some(runtime) = settings.runtime {
            for job in &mut jobs {
                job.runtime = Some(nanos(runtime));
                job.amount = None;
            }
        }
        jobs
    }

    fn simulate(
        &self,
        arm: &Arm,
        settings: &TrialSettings,
        real_time: &mut RealTime<'_>,
    ) -> Result<Simulated, LoadError> {
        let slice = settings.runtime.map(Course::slice_of);
        let jobs = self.jobs(settings);
        self.disk
            .run((arm, settings.seed), jobs, None, slice, real_time)
    }
}

/// How long a simulation takes while somebody waits for it: no longer than that one wants.
pub(super) struct RealTime<'a> {
    begun: Instant,
    limit: Option<Duration>,
    stop: &'a Stop,
    tick: &'a mut dyn FnMut(Duration),
}

impl<'a> RealTime<'a> {
    /// From now on, for a trial at this workplace.
    pub(super) fn of_trial(at: &Workplace<'a>, tick: &'a mut dyn FnMut(Duration)) -> RealTime<'a> {
        RealTime {
            begun: Instant::now(),
            limit: at.trial_limit,
            stop: at.stop,
            tick,
        }
    }

    /// Whether the simulation goes on; who waits for it is told that time passes.
    fn goes_on(&mut self) -> bool {
        let elapsed = self.begun.elapsed();
        (self.tick)(elapsed);
        !self.stop.is_wanted() && self.limit.is_none_or(|limit| elapsed < limit)
    }

    /// Why it did not go on.
    fn cause(&self) -> LoadError {
        match self.limit {
            Some(limit) if !self.stop.is_wanted() => LoadError::trial(format!(
                "the simulation did not end within {} s and was ended",
                limit.as_secs_f64()
            )),
            _ => LoadError::Stopped,
        }
    }
}

impl SimulatedDisk {
    /// The processes under an arm, by chance of this seed.
    pub(super) fn run(
        &self,
        (arm, seed): (&Arm, u64),
        jobs: Vec<Job>,
        until: Option<Nanos>,
        slice: Option<Duration>,
        real_time: &mut RealTime<'_>,
    ) -> Result<Simulated, LoadError> {
        let disk = self.build(seed).map_err(LoadError::Run)?;
        let arm = SimulatedArm::new(arm, self).map_err(LoadError::Run)?;
        let requests = arm.nr_requests.unwrap_or(USUAL_REQUESTS);
        let block_layer = MultiQueueSettings {
            nr_requests: arm.nr_requests,
            kernel: arm.kernel,
            wbt_lat: arm.wbt_lat,
            ..MultiQueueSettings::default()
        };
        let mut setup = Setup {
            multi_queue: block_layer,
            volatile_cache: self.model.write_cache(),
            seed,
            slice: slice.map(nanos),
            ..Setup::new(arm.scheduler, disk, jobs)
        };
        setup.nr_requests = requests;
        setup.until = until.unwrap_or(setup.until);
        simulate::run_while(setup, &mut || real_time.goes_on(), &mut ())
            .ok_or_else(|| real_time.cause())
    }
}

impl Load for SimulatedLoad {
    /// No device is there to be written.
    fn writes(&self) -> bool {
        false
    }

    fn is_cold(&self) -> bool {
        false
    }

    fn default_runtime(&self) -> Option<Duration> {
        (!self.file.has_runtime()).then_some(DEFAULT_RUNTIME)
    }

    fn lacks(&self, objective: Objective) -> Option<&'static str> {
        match objective {
            Objective::Cpu => Some("the simulation has no processors"),
            _ => self.file.lacks(objective),
        }
    }

    fn run(
        &mut self,
        at: &Workplace<'_>,
        trial: &TrialInfo,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError> {
        let real_time = &mut RealTime::of_trial(at, tick);
        let simulated = self.simulate(&trial.arm, &trial.settings, real_time)?;
        Ok(Outcome {
            jobs: simulated.processes.iter().map(job_result).collect(),
            measured: Some(Measured {
                course: course(&simulated, trial.settings.runtime),
                ..measured(&simulated)
            }),
            ..Outcome::default()
        })
    }
}

/// What fio would say of the process.
pub(crate) fn job_result(process: &ProcessOutcome) -> JobResult {
    let seconds = process.elapsed.as_secs_f64();
    let flow = |flow: &simulate::Flow| {
        let latency = &flow.latencies.total;
        let ios = latency.count();
        let bytes = flow.bytes.as_u64();
        (ios > 0 && seconds > 0.0).then(|| Flow {
            ios,
            bytes,
            bytes_per_s: bytes as f64 / seconds,
            iops: ios as f64 / seconds,
            latency_mean_ns: latency.mean().as_nanos() as f64,
            latency_max_ns: latency.max().as_nanos(),
            latency_bins: latency
                .bins()
                .map(|(nanos, count)| (nanos.as_nanos(), count))
                .collect(),
        })
    };
    JobResult {
        name: process.name.clone(),
        read: flow(&process.read),
        write: flow(&process.write),
        trim: None,
        transactions: None,
    }
}

/// What was completed in slices of a trial of this length.
fn course(simulated: &Simulated, runtime: Option<Duration>) -> Option<Course> {
    let slices = &simulated.slices;
    Some(Course {
        slice_s: Course::slice_of(runtime?).as_secs_f64(),
        ios: slices.iter().map(|slice| slice.accesses).collect(),
        bytes: slices.iter().map(|slice| slice.bytes.as_u64()).collect(),
    })
}

/// What the kernel's counters would say: awaits begin with a request's allocation. They are those of
/// accesses, not of requests.
pub(super) fn measured(simulated: &Simulated) -> Measured {
    let total = |pick: fn(&ProcessOutcome) -> &simulate::Flow| {
        let flows = simulated.processes.iter().map(pick);
        flows.fold((0, 0, 0.0), |(ios, bytes, time), flow| {
            let Latencies { queue, service, .. } = &flow.latencies;
            let mean = (queue.mean() + service.mean()).as_nanos() as f64;
            (
                ios + queue.count(),
                bytes + flow.bytes.as_u64(),
                time + mean * queue.count() as f64,
            )
        })
    };
    let (reads, read_bytes, read_time) = total(|process| &process.read);
    let (writes, write_bytes, write_time) = total(|process| &process.write);
    let elapsed = (simulated.elapsed.as_nanos() as f64).max(1.0);
    let mean = |time: f64, count: u64| (count > 0).then(|| time / count as f64);
    Measured {
        reads: simulated.disk.reads,
        writes: simulated.disk.commands - simulated.disk.reads,
        reads_merged: reads.saturating_sub(simulated.disk.reads),
        writes_merged: writes.saturating_sub(simulated.disk.commands - simulated.disk.reads),
        read_bytes,
        write_bytes,
        read_await_ns: mean(read_time, reads),
        write_await_ns: mean(write_time, writes),
        average_queue_length: (read_time + write_time) / elapsed,
        utilisation: simulated.disk.busy.as_nanos() as f64 / elapsed,
        cpu_busy_ns: 0,
        pressure_some_ns: None,
        pressure_full_ns: None,
        others_cpu_ns: None,
        course: None,
        split: Some(Split {
            read: parts(simulated, |process| &process.read),
            write: parts(simulated, |process| &process.write),
            lost_events: 0,
            one_in: 1,
            order: Some(Order {
                requests: simulated.disk.commands,
                sequential: simulated.disk.contiguous,
                distance_sectors: simulated.disk.seek_sectors,
                reach: None,
            }),
        }),
    }
}

/// Where the accesses of one direction spent their time.
fn parts(simulated: &Simulated, pick: fn(&ProcessOutcome) -> &simulate::Flow) -> Option<Parts> {
    let counted = |histogram: &iosched_sim::histogram::Histogram| {
        let sum = histogram.mean().as_nanos() * histogram.count();
        let bins: Vec<(u64, u64)> = histogram
            .bins()
            .map(|(nanos, count)| (nanos.as_nanos(), count))
            .collect();
        (sum, bins.into_iter())
    };
    let flows: Vec<Parts> = simulated
        .processes
        .iter()
        .map(|process| {
            let Latencies { queue, service, .. } = &pick(process).latencies;
            Parts::counted(queue.count(), counted(queue), counted(service))
        })
        .collect();
    Parts::merged(flows.iter())
}

pub(super) fn nanos(duration: Duration) -> Nanos {
    Nanos::new(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::super::desktop::DesktopSettings;
    use super::super::desktop::simulated::SimulatedDesktop;
    use super::super::fio_job::JobTarget;
    use super::*;
    use iosched_machine::process::Scope;
    use iosched_sim::scheduler::KernelVersion;

    const MIXED: &str = "[reader]\nrw=randread\ndirect=1\nioengine=libaio\nbs=4k\n[writer]\nrw=randrw\ndirect=1\nioengine=libaio\nbs=8k\niodepth=16\n";

    fn disk() -> SimulatedDisk {
        SimulatedDisk {
            model: Model::named("hdd-7200-fifo").unwrap(),
        }
    }

    fn settings(seed: u64) -> TrialSettings {
        TrialSettings {
            place: JobTarget::Path(String::new()),
            runtime: Some(Duration::from_secs(3)),
            ramp: None,
            counted: None,
            seed,
            shift: 0,
        }
    }

    /// A trial for which there is all the time in the world.
    fn simulated(load: &SimulatedLoad, arm: &Arm, settings: &TrialSettings) -> Simulated {
        let mut real_time = RealTime {
            begun: Instant::now(),
            limit: None,
            stop: &Stop::new(),
            tick: &mut |_| (),
        };
        load.simulate(arm, settings, &mut real_time).unwrap()
    }

    /// A trial that somebody stops when it has ticked so often, or whose time is limited.
    fn ended(
        load: &mut dyn Load,
        ticks: u32,
        trial_limit: Option<Duration>,
    ) -> Result<Outcome, LoadError> {
        let (stop, scope) = (Stop::new(), Scope::default());
        let settings = settings(1);
        let at = Workplace {
            place: &settings.place,
            scope: &scope,
            trial_limit,
            stop: &stop,
        };
        let turn = TrialInfo {
            arm: Arm::plain("noop"),
            label: "noop".into(),
            round: 0,
            settings: settings.clone(),
        };
        let mut ticked = 0;
        let outcome = load.run(&at, &turn, &mut |_| {
            ticked += 1;
            assert!(ticked <= ticks, "it goes on");
            if ticked == ticks {
                stop.ask();
            }
        });
        assert!(ticked > 0, "nobody is told that time passes");
        outcome
    }

    #[test]
    fn a_trial_ends_when_somebody_stops_it_and_is_no_result() {
        let job = "[reader]\nrw=randread\ndirect=1\nioengine=libaio\nbs=4k\niodepth=4\n";
        for model in ["null", "hdd-7200-fifo"] {
            let model = Model::named(model).unwrap();
            let mut load = SimulatedLoad::new("reads", job, &SimulatedDisk { model }).unwrap();
            let error = ended(&mut load, 5, None).unwrap_err();
            assert!(error.is_stopped(), "{error}");
            assert!(ended(&mut load, 1_000_000, None).is_ok());
        }
    }

    #[test]
    fn a_simulated_desktop_ends_when_somebody_stops_it() {
        let mut load = SimulatedDesktop::new(&DesktopSettings::default(), &disk()).unwrap();
        let error = ended(&mut load, 5, None).unwrap_err();
        assert!(error.is_stopped(), "{error}");
    }

    #[test]
    fn a_trial_that_takes_longer_than_its_limit_is_void_and_others_are_tried() {
        let mut load = SimulatedLoad::new("mixed", MIXED, &disk()).unwrap();
        let error = ended(&mut load, 1_000_000, Some(Duration::ZERO)).unwrap_err();
        assert!(matches!(error, LoadError::Trial(_)), "{error}");
        let words = "the simulation did not end within 0 s and was ended";
        assert_eq!(error.to_string(), words);
    }

    #[test]
    fn a_trial_depends_on_arm_and_seed_and_nothing_else() {
        let load = SimulatedLoad::new("mixed", MIXED, &disk()).unwrap();
        let run = |arm: &str, seed| {
            let arm = Arm::parse(arm).unwrap();
            let simulated = simulated(&load, &arm, &settings(seed));
            let jobs: Vec<JobResult> = simulated.processes.iter().map(job_result).collect();
            (jobs, measured(&simulated))
        };
        assert_eq!(run("deadline", 1), run("deadline", 1));
        assert_ne!(run("deadline", 1), run("deadline", 2));
        assert_ne!(run("deadline", 1), run("noop", 1));
        assert_ne!(run("deadline", 1), run("deadline:fifo_batch=1", 1));
    }

    #[test]
    fn the_block_layer_is_of_the_version_whose_rules_the_scheduler_is_to_follow() {
        for (arm, version) in [
            ("mq-deadline:kernel=6.1", KernelVersion::new(6, 1)),
            ("mq-deadline", KernelVersion::new(6, 12)),
        ] {
            let simulated = SimulatedArm::new(&Arm::parse(arm).unwrap(), &disk()).unwrap();
            let kernel = simulated.kernel;
            assert_eq!((kernel.version, kernel.hz), (version, 250), "{arm}");
            assert!(kernel.rotational);
        }
    }

    #[test]
    fn throttling_of_minus_one_is_what_the_kernel_has_for_such_a_disk() {
        let of = |arm: &str, model: &str| {
            let model = Model::named(model).unwrap();
            let arm = SimulatedArm::new(&Arm::parse(arm).unwrap(), &SimulatedDisk { model });
            arm.map(|arm| arm.wbt_lat)
        };
        let usual = |model| of("none:wbt_lat_usec=-1", model).unwrap();
        assert_eq!(usual("hdd-7200-fifo"), Some(Nanos::from_millis(75)));
        assert_eq!(usual("ssd-sata"), Some(Nanos::from_millis(2)));
        for (value, micros) in [("0", None), ("300", Some(300))] {
            let arm = format!("kyber:wbt_lat_usec={value}");
            assert_eq!(
                of(&arm, "ssd-sata").unwrap(),
                micros.map(Nanos::from_micros)
            );
        }
        assert!(of("cfq:wbt_lat_usec=-1", "ssd-sata").is_err());
    }

    #[test]
    fn a_scheduler_has_as_many_requests_as_on_an_emulated_disk() {
        let deep = "[readers]\nrw=randread\ndirect=1\nioengine=libaio\nbs=4k\niodepth=32\n";
        let load = SimulatedLoad::new("deep", deep, &disk()).unwrap();
        let reads = |arm: &str| {
            let arm = Arm::parse(arm).unwrap();
            simulated(&load, &arm, &settings(1)).disk.reads
        };
        assert_eq!(reads("mq-deadline"), reads("mq-deadline:nr_requests=64"));
        assert!(reads("mq-deadline") > reads("mq-deadline:nr_requests=8"));
        assert_eq!(reads("none"), reads("none:nr_requests=8"));
    }

    #[test]
    fn directions_are_counted_apart_and_add_up() {
        let load = SimulatedLoad::new("mixed", MIXED, &disk()).unwrap();
        let simulated = simulated(&load, &Arm::plain("deadline"), &settings(1));
        let jobs: Vec<JobResult> = simulated.processes.iter().map(job_result).collect();
        let [reader, writer] = jobs.as_slice() else {
            panic!("two jobs")
        };
        assert!(reader.read.is_some() && reader.write.is_none());
        assert!(writer.read.is_some() && writer.write.is_some());
        let measured = measured(&simulated);
        let flows = || jobs.iter().flat_map(JobResult::flows);
        let bytes: u64 = flows().map(|flow| flow.bytes).sum();
        assert_eq!(bytes, measured.read_bytes + measured.write_bytes);
        let ios: u64 = flows().map(|flow| flow.ios).sum();
        let binned = flows().flat_map(|flow| &flow.latency_bins);
        assert_eq!(binned.map(|(_, count)| count).sum::<u64>(), ios);
        // Little's law: seventeen accesses in flight, all the time.
        assert!((measured.average_queue_length - 17.0).abs() < 0.5);
    }

    #[test]
    fn what_cannot_be_simulated_is_refused_by_name() {
        for (arm, named) in [
            ("bfg", "bfg"),
            ("deadline:read_ahead_kb=1", "read_ahead_kb"),
            ("deadline:fifo_batch=x", "fifo_batch"),
        ] {
            let error = match Arm::parse(arm) {
                Ok(arm) => check_arm(&arm, &disk()).unwrap_err().to_string(),
                Err(error) => error.to_string(), // a value is looked at first
            };
            assert!(error.contains(named), "{error}");
        }
    }
}
