//! `conform --live`: the kernel's own scheduler on an emulated disk, and ours beside it.
//!
//! ```text
//!  Plan       decide   schedulers, loads and disk, checked; nothing touched
//!  machine    do       how fast this machine is through an emulated disk that answers at once, and
//!                      by how much the disk is slowed down, if it is too fast for that
//!  measure    do       an emulated disk, the scheduler set, the load by fio, block events recorded
//!  follow     work out the recording, followed decision by decision by our scheduler
//!  predict    work out the same load in a closed loop over the same disk model, in virtual time
//!  Comparison tell     agreement; measured beside predicted
//! ```

mod accesses;
mod compare;
mod machine;
mod measure;
mod predict;

use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::ptr;
use std::time::Duration;

use iosched_emulate::{EmulatedDisk, Spec};
use iosched_machine::failure::{Problem, exit};
use iosched_machine::foreign;
use iosched_machine::host::Host;
use iosched_machine::process::Stop;
use iosched_sim::disk::{DiskModel, Model, ModelOptions};
use iosched_sim::scheduler::{self, BlockLayer, Kernel, NamedValues, SchedulerSpec};
use iosched_sim::units::Bytes;
use iosched_sim::workload::Job;
use iosched_sim::workload::fio_job;

pub use self::compare::{
    Comparison, Figures, LiveReport, Measurement, Pace, ProcessComparison, Speed,
};
use crate::load::builtin;
use crate::load::fio_job::JobFile;

/// Agreement below this means that the kernel does not do what ours does.
pub const LEAST_AGREEMENT: f64 = 0.99;

/// Ticks per second of most distributions' kernels.
const USUAL_HZ: u32 = 250;

/// What is wanted.
#[derive(Debug, Clone)]
pub struct LiveRequest {
    /// The disk model.
    pub model: Model,
    /// Another queue depth than the model's: 4 at the least, or the loop driver takes 4.
    pub queue_depth: Option<usize>,
    /// All that the disk does takes this many times as long; if not said, so many times that this
    /// machine is well faster than the disk.
    pub slow_down: Option<NonZeroU32>,
    /// `name[:tunable=value,…]`; all that both have, if there is none.
    pub schedulers: Vec<String>,
    /// Names of built-in loads, or job files; the built-in deep random reads, if there is none.
    pub loads: Vec<String>,
    /// How long each load runs.
    pub runtime: Duration,
    /// Ticks per second of this kernel, if not as it says itself.
    pub hz: Option<u32>,
    /// Where chance comes from.
    pub seed: u64,
    /// The executable that becomes the disk's server.
    pub server: PathBuf,
    /// Where recordings are kept, if they are.
    pub recordings: Option<PathBuf>,
}

/// A load, as fio runs it and as the simulator does.
#[derive(Debug, Clone)]
struct Load {
    name: String,
    file: JobFile,
    jobs: Vec<Job>,
}

impl Load {
    /// True if some of it goes through the page cache.
    fn is_cached(&self) -> bool {
        self.jobs.iter().any(|job| job.buffered)
    }
}

/// Everything checked, and nothing touched yet.
#[derive(Debug, Clone)]
pub struct Plan {
    wanted: LiveRequest,
    schedulers: Vec<SchedulerSpec>,
    loads: Vec<Load>,
    kernel: Kernel,
    /// Size of the disk, and of its model.
    size: Bytes,
}

/// What is done just now.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveEvent<'a> {
    /// The disk is there.
    Disk {
        /// By how much it is slowed down, and why.
        speed: &'a Speed,
        /// Its kernel name.
        device: &'a str,
        /// Requests that its driver takes at a time.
        depth: u32,
    },
    /// Time passes in a run.
    Running {
        /// The scheduler.
        scheduler: &'a str,
        /// The load.
        load: &'a str,
        /// Runs that are done.
        done: usize,
        /// Runs in all.
        of: usize,
        /// Time since this run began.
        elapsed: Duration,
        /// Time that everything still takes, about.
        left: Duration,
    },
    /// A run is done and compared.
    Compared(&'a Comparison),
}

impl Plan {
    /// How the recording of this run is called, which is one of [`Plan::schedulers`] and [`Plan::loads`]: the second of
    /// what is asked for twice has a number.
    fn recording(&self, scheduler: &SchedulerSpec, load: &Load) -> String {
        let name = |scheduler: &SchedulerSpec, load: &Load| {
            let disk = &self.wanted.model.name;
            let scheduler = scheduler.to_string().replace(':', "-");
            format!("{disk}-{}-{scheduler}", load.name)
        };
        let own = name(scheduler, load);
        let all = self.loads.iter().flat_map(|load| {
            let schedulers = self.schedulers.iter();
            schedulers.map(move |scheduler| (scheduler, load))
        });
        let before = all.take_while(|one| !(ptr::eq(one.0, scheduler) && ptr::eq(one.1, load)));
        match before.filter(|one| name(one.0, one.1) == own).count() {
            0 => format!("{own}.txt"),
            alike => format!("{own}-{}.txt", alike + 1),
        }
    }

    /// Checks everything that is wanted.
    pub fn new(wanted: LiveRequest) -> Result<Plan, Problem> {
        let host = Host::live();
        let mut kernel = Kernel {
            hz: wanted.hz.or_else(|| hz(&host)).unwrap_or(USUAL_HZ),
            rotational: wanted.model.rotational(),
            ..Kernel::default()
        };
        kernel.version = host.kernel_version().unwrap_or(kernel.version);
        let mut names = wanted.schedulers.clone();
        if names.is_empty() {
            let usual = iosched_facts::scheduler::usual();
            let today = usual.filter(|facts| facts.block_layer == BlockLayer::MultiQueue);
            names.extend(today.map(|facts| facts.name.to_owned()));
        }
        let schedulers = names.iter().map(|name| checked_scheduler(name, &kernel));
        let schedulers = schedulers.collect::<Result<Vec<_>, _>>()?;
        // Block devices are made of blocks of 4096 bytes.
        let size = Bytes::new(wanted.model.capacity().as_u64() / 4096 * 4096);
        let disk = build(&wanted, size, NonZeroU32::MIN, wanted.seed)?;
        let names = match wanted.loads.as_slice() {
            [] => vec![builtin::BUILT_IN[0].name.to_owned()],
            names => names.to_vec(),
        };
        let loads = names.iter().map(|name| checked_load(name, disk.as_ref()));
        Ok(Plan {
            schedulers,
            loads: loads.collect::<Result<Vec<_>, _>>()?,
            kernel,
            size,
            wanted,
        })
    }

    /// Measures, follows and predicts: every load under every scheduler, on one emulated disk, which
    /// is removed afterwards, whatever happens.
    pub fn run(
        &self,
        stop: &Stop,
        observer: &mut dyn FnMut(&LiveEvent<'_>),
    ) -> Result<LiveReport, Problem> {
        let speed = self.speed(stop)?;
        let mut spec = Spec::new(self.wanted.model.clone(), &self.wanted.server);
        spec.queue_depth = self.wanted.queue_depth;
        spec.size_bytes = Some(self.size.as_u64());
        spec.slow_down = Some(speed.slow_down);
        spec.seed = self.wanted.seed;
        spec.owner_pid = i32::try_from(std::process::id()).ok();
        let disk = EmulatedDisk::create(&spec)?;
        let compared = self.on_disk(&disk, &speed, stop, observer);
        let removed = disk.remove(true);
        let report = compared?;
        removed?;
        Ok(report)
    }

    fn on_disk(
        &self,
        disk: &EmulatedDisk,
        speed: &Speed,
        stop: &Stop,
        observer: &mut dyn FnMut(&LiveEvent<'_>),
    ) -> Result<LiveReport, Problem> {
        let status = disk.status();
        let depth = status.driver_depth.unwrap_or(1);
        let machine = machine::Machine {
            slow_down: speed.slow_down,
            driver_depth: depth,
            most_iops: speed.machine.map(|machine| machine.iops),
        };
        let device = disk.device();
        observer(&LiveEvent::Disk {
            speed,
            device,
            depth,
        });
        let bench = measure::Bench::new(disk.device(), stop)?;
        let of = self.schedulers.len() * self.loads.len();
        let mut results = Vec::new();
        for load in &self.loads {
            for scheduler in &self.schedulers {
                let done = results.len();
                let mut tick = |elapsed: Duration| {
                    observer(&LiveEvent::Running {
                        scheduler: &scheduler.name,
                        load: &load.name,
                        done,
                        of,
                        elapsed,
                        left: self.expected(of - done).saturating_sub(elapsed),
                    });
                };
                let measured = bench.run(self, scheduler, load, &mut tick)?;
                let followed = measured.follow(self, scheduler, depth)?;
                let setting = (scheduler, load);
                let predicted = predict::predict(self, setting, &measured, &machine, stop)?;
                let comparison = Comparison::new(setting, &measured, followed, &predicted);
                observer(&LiveEvent::Compared(&comparison));
                results.push(comparison);
            }
        }
        Ok(LiveReport {
            disk: self.wanted.model.name.clone(),
            queue_depth: status.queue_depth.unwrap_or(1),
            driver_depth: depth,
            path_ns: status.path_ns.unwrap_or(0),
            speed: *speed,
            kernel: self.kernel.version.to_string(),
            hz: self.kernel.hz,
            runtime_s: self.wanted.runtime.as_secs_f64(),
            seed: self.wanted.seed,
            results,
        })
    }

    /// How fast the disk is to be on this machine.
    fn speed(&self, stop: &Stop) -> Result<Speed, Problem> {
        let machine = machine::pace(&self.wanted, stop)?;
        let depth = self.wanted.queue_depth;
        let depth = depth.unwrap_or_else(|| self.wanted.model.queue_depth());
        let disk = match machine {
            Some(_) => Some(predict::pace(self, depth, stop)?),
            None => None,
        };
        let both = disk.zip(machine);
        let least = both.map(|(disk, machine)| machine::least_slow_down(disk, machine));
        let slow_down = self.wanted.slow_down.or(least);
        Ok(Speed {
            slow_down: slow_down.unwrap_or(NonZeroU32::MIN),
            disk,
            machine,
        })
    }

    /// How long so many runs take, about.
    fn expected(&self, runs: usize) -> Duration {
        let one = self.wanted.runtime + Duration::from_millis(1500);
        one * u32::try_from(runs).unwrap_or(u32::MAX)
    }
}

/// A recording cannot be kept.
fn not_kept(path: &Path, cause: &io::Error) -> Problem {
    let message = format!("cannot keep the recording in {}: {cause}", path.display());
    Problem::new(exit::FAILURE, message)
}

/// The disk as the simulator has it: what the emulated disk's server runs, too.
fn build(
    wanted: &LiveRequest,
    size: Bytes,
    slow_down: NonZeroU32,
    seed: u64,
) -> Result<Box<dyn DiskModel>, Problem> {
    wanted.model.build(&ModelOptions {
        size: Some(size),
        queue_depth: wanted.queue_depth,
        slow_down: Some(slow_down),
        seed,
        ..ModelOptions::default()
    })
}

/// The scheduler, if both the kernel and the simulator have it.
fn checked_scheduler(text: &str, kernel: &Kernel) -> Result<SchedulerSpec, Problem> {
    let spec = SchedulerSpec::parse(text)?;
    if scheduler::info(&spec.name)?.facts.block_layer != BlockLayer::MultiQueue {
        let name = &spec.name;
        let message = format!(
            "{name} cannot be compared live: emulated disks are on blk-mq, and {name} is for the single-queue path"
        );
        let hint = "follow a recording of a kernel before 5.0 instead: `iosched conform TRACE`";
        return Err(Problem::new(exit::NOT_OFFERED, message).hint(hint));
    }
    // Tells what is wrong, if anything. The rules of another kernel than this one are no way out here.
    scheduler::build(&spec, kernel, &NamedValues::new()).map_err(|problem| {
        if scheduler::info(&spec.name).is_ok_and(|info| {
            info.oldest
                .is_some_and(|oldest| !kernel.version.is_since(oldest))
        }) {
            return problem.hint("leave it out, as in: iosched conform --live --scheduler none");
        }
        problem
    })?;
    Ok(spec)
}

/// The built-in load of this name, or else the job file: one that both fio and the simulator run.
fn checked_load(name: &str, disk: &dyn DiskModel) -> Result<Load, Problem> {
    let text = match builtin::find(name) {
        Some(load) => load.text.to_owned(),
        None => foreign::read_text(name.as_ref()).map_err(|cause| {
            let names: Vec<_> = builtin::BUILT_IN.iter().map(|load| load.name).collect();
            Problem::usage(format!(
                "no built-in load is called {name:?}, and no job file of that name can be read: {cause}"
            ))
            .hint(format!("built-in loads: {}", names.join(", ")))
        })?,
    };
    let file = JobFile::parse(name, &text)?;
    let jobs = fio_job::parse(&text, disk.capacity()).map_err(|problem| problem.about(name))?;
    let short = Path::new(name).file_stem();
    let short = short.map_or(name.into(), |stem| stem.to_string_lossy());
    Ok(Load {
        name: short.into_owned(),
        file,
        jobs,
    })
}

/// Ticks per second, as the kernel's configuration says, where it can be read.
fn hz(host: &Host) -> Option<u32> {
    let boot = format!("/boot/config-{}", host.kernel_release()?);
    let places = [host.proc("config.gz"), host.path(boot.as_ref())];
    places.iter().find_map(|place| {
        let mut lines = super::file::Lines::open(place).ok()?;
        while let Some(line) = lines.next_line().ok()? {
            if let Some(number) = line.strip_prefix("CONFIG_HZ=") {
                return number.trim().parse().ok();
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_run_has_a_recording_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let load = dir.path().join("random-read.fio");
        std::fs::write(&load, "[reader]\nrw=randread\ndirect=1\nioengine=libaio\n").unwrap();
        let schedulers = [
            "bfq",
            "bfq:slice_idle=0",
            "bfq:slice_idle=0,low_latency=0",
            "bfq",
            "none",
        ];
        let plan = Plan::new(LiveRequest {
            model: Model::named("hdd-7200-fifo").unwrap(),
            queue_depth: None,
            slow_down: None,
            schedulers: schedulers.map(str::to_owned).to_vec(),
            loads: vec!["random-read".into(), load.display().to_string()],
            runtime: Duration::from_secs(1),
            hz: None,
            seed: 1,
            server: PathBuf::new(),
            recordings: None,
        })
        .unwrap();
        let mut names = Vec::new();
        for load in &plan.loads {
            let of_load = plan.schedulers.iter();
            names.extend(of_load.map(|scheduler| plan.recording(scheduler, load)));
        }
        assert_eq!(
            names[..4],
            [
                "hdd-7200-fifo-random-read-bfq.txt",
                "hdd-7200-fifo-random-read-bfq-slice_idle=0.txt",
                "hdd-7200-fifo-random-read-bfq-slice_idle=0,low_latency=0.txt",
                "hdd-7200-fifo-random-read-bfq-2.txt",
            ]
        );
        let different: BTreeSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
    }
}
