//! A load, a scheduler and a disk, from event to event in virtual time.
//!
//! - `process`: processes submit accesses and wait for them, as their jobs say (`source`: by chance `generated`,
//!   or one by one `replayed`); what comes by itself is in `arrivals`
//! - `writeback`: reads (`read_ahead`) and writes through the page cache (`page_cache`), and syncs
//! - the [block layer](crate::block_layer): how a bio gets from there to the disk; a completion may cost
//!   time on `processors`
//! - `drive`: the disk, and the account of what it did
//! - `host`: what stands around the block layer, and does what that says; `engine` goes from one event
//!   to the next
//!
//! The host takes its time too ([`HostTimes`]).

mod access;
mod arrivals;
mod drive;
mod engine;
mod event_queue;
mod generated;
mod groups;
mod host;
mod lines;
mod outcome;
mod page_cache;
mod process;
mod processors;
mod read_ahead;
mod replayed;
mod room;
mod source;
mod submit;
mod writeback;

use engine::Simulation;
pub use groups::check_groups;
pub use lines::{write_head, write_line};
pub use outcome::{DiskUse, Flow, Latencies, Outcome, ProcessOutcome, Slice};
pub use page_cache::Writeback;

use iosched_facts::kernel::USUAL_REQUESTS;
use processors::Processors;

use crate::block_layer::multi_queue::{self, Depth, MultiQueue};
use crate::block_layer::single_queue::{self, SingleQueue};
pub use crate::block_layer::{Attachment, WorkerDelay};
use crate::block_layer::{Delays, MergeLimits, Subject};
use crate::disk::DiskModel;
use crate::request::{Action, Op, ProcessId, Request};
use crate::scheduler::{BlockLayer, Elevator, Kernel};
use crate::units::{Nanos, Sector, Sectors, Time};
use crate::workload::Job;
use crate::workload::replay::Replay;

/// How long the host takes for what is not the disk's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostTimes {
    /// From the end of a command in the drive to its completion in the block layer, when the next
    /// one is started.
    pub completion: Nanos,
    /// From a completion until what the process that waited for it submits next is in the queue.
    pub wakeup: Nanos,
    /// How much longer that takes after a flush: the system call that waits for it has more to do.
    pub after_flush: Nanos,
    /// From a completion until a process that waits in the kernel for a tag tries to take it. It has
    /// no way back from its program to go, so that it comes before the process that waited for what
    /// completed.
    pub tag_wakeup: Nanos,
    /// From the wish that a worker run the queue to its doing so.
    pub worker: Nanos,
    /// From a completion for which a hardware queue waits, or the end of a scheduler's timer, until
    /// the kernel's worker runs that queue (multi-queue).
    pub queue_run: WorkerDelay,
    /// To copy a page into the page cache, with its part of the system call.
    pub page_copy: Nanos,
    /// A page of a write on its way to the drive, one write after the other, before the drive sees it:
    /// the server of an emulated disk takes the data in. Zero where the drive fetches them itself.
    pub page_to_drive: Nanos,
    /// Completions are at least this far apart: what lies between drive and block layer does no more
    /// (the server of an emulated disk).
    pub completion_gap: Nanos,
}

impl Default for HostTimes {
    /// As in the recordings of Linux 4.19 that the schedulers were checked against.
    fn default() -> HostTimes {
        let Delays {
            wakeup,
            tag_wakeup,
            worker,
            queue_run,
        } = Delays::RECORDED;
        HostTimes {
            completion: Nanos::from_micros(5),
            wakeup,
            after_flush: Nanos::ZERO,
            tag_wakeup,
            worker,
            queue_run,
            page_copy: Nanos::from_micros(1), // 4 GB/s
            page_to_drive: Nanos::ZERO,
            completion_gap: Nanos::ZERO,
        }
    }
}

impl HostTimes {
    /// Around an emulated disk, as recorded of Linux 6.18 with the server of this project. The way to the
    /// server and back is part of the disk's time: the server answers as much earlier as it takes.
    pub const fn emulated() -> HostTimes {
        HostTimes {
            completion: Nanos::ZERO,
            wakeup: Nanos::from_micros(20),
            after_flush: Nanos::from_micros(40),
            tag_wakeup: Nanos::from_micros(10),
            worker: Nanos::from_micros(10),
            queue_run: WorkerDelay::EMULATED,
            page_copy: Nanos::from_micros(1),
            page_to_drive: Nanos::new(1800), // 3800 to 4300 writes of 512 KiB a second through `null`
            completion_gap: Nanos::ZERO,
        }
    }

    /// Of a fast machine with a fast drive, besides what its processors take for each request
    /// ([`MultiQueueSettings::processors`]): a single 4 KiB read takes 68 µs where the drive takes 60
    /// (ICPE 2024 artifact of Ren and others).
    pub const fn fast() -> HostTimes {
        HostTimes {
            completion: Nanos::from_micros(1),
            wakeup: Nanos::from_micros(4),
            after_flush: Nanos::ZERO,
            tag_wakeup: Nanos::from_micros(3),
            worker: Nanos::from_micros(6),
            queue_run: WorkerDelay::ZERO,
            page_copy: Nanos::from_micros(1),
            page_to_drive: Nanos::ZERO,
            completion_gap: Nanos::ZERO,
        }
    }

    /// Those that the block layer plans with.
    pub(crate) fn delays(&self) -> Delays {
        Delays {
            wakeup: self.wakeup,
            tag_wakeup: self.tag_wakeup,
            worker: self.worker,
            queue_run: self.queue_run,
        }
    }
}

/// All that a run depends on.
pub struct Setup {
    /// Its block layer is the one that is simulated.
    pub scheduler: Box<dyn Elevator>,
    /// In the state that it has at time zero.
    pub disk: Box<dyn DiskModel>,
    /// The processes.
    pub jobs: Vec<Job>,
    /// Commands that the driver gives to the disk at a time.
    pub queue_depth: usize,
    /// Commands that the disk accepts; it gives back what the driver sends beyond that (SCSI: task set
    /// full). All if not said.
    pub device_limit: Option<usize>,
    /// Requests of each kind (synchronous, asynchronous) that may exist (single-queue).
    pub nr_requests: usize,
    /// Limits of merging.
    pub limits: MergeLimits,
    /// Times of the host.
    pub host: HostTimes,
    /// What the multi-queue block layer is like, if the scheduler belongs to that.
    pub multi_queue: MultiQueueSettings,
    /// How writes through the page cache get to the disk.
    pub writeback: Writeback,
    /// The disk has a volatile write cache, so that a flush is a command to it.
    pub volatile_cache: bool,
    /// Where chance comes from.
    pub seed: u64,
    /// The run ends here at the latest.
    pub until: Nanos,
    /// Count what is completed in each slice of time of this length.
    pub slice: Option<Nanos>,
}

/// What the multi-queue block layer is like.
#[derive(Debug, Clone, Copy, Default)]
pub struct MultiQueueSettings {
    /// How the device is attached.
    pub attachment: Attachment,
    /// Ticks, at whose edges a run that dispatched nothing is repeated, and the version whose rules hold.
    pub kernel: Kernel,
    /// Scheduler tags; by default twice the queue depth, 256 at most.
    pub nr_requests: Option<usize>,
    /// Hardware queues of the device, shared out over the processors, or one for each of as many if
    /// those cost nothing; the queue depth is that of each (of all together with a budget). 0 is 1.
    pub hardware_queues: usize,
    /// Processors of a fast machine, on which requests cost time; otherwise they cost none.
    pub processors: Option<usize>,
    /// Write-back throttling: the latency that reads should not exceed while the page cache is
    /// written (`queue/wbt_lat_usec`); off if not said.
    pub wbt_lat: Option<Nanos>,
    /// The driver gives the device nothing while that flushes, as the loop driver does, which has one
    /// worker for both.
    pub flushes_alone: bool,
}

impl MultiQueueSettings {
    /// CPUs on which processes run: they are dealt out.
    fn cpus(&self) -> usize {
        self.processors.unwrap_or(self.hardware_queues).max(1)
    }
}

/// Something that the block layer did, as blktrace would show it.
#[derive(Debug, Clone, Copy)]
pub struct BlockEvent<'run> {
    /// On the clock of the run, which begins at zero.
    pub time: Time,
    /// The step in the life of a bio or request, as blktrace names it.
    pub action: Action,
    /// Reads or writes; nothing for plugs and flushes.
    pub op: Option<Op>,
    /// A flush of the disk's cache: a command without sectors.
    pub flush: bool,
    /// It carries the flag: all writes that someone waits for, and some reads.
    pub sync: bool,
    /// First sector.
    pub start: Sector,
    /// Of the bio or request.
    pub length: Sectors,
    /// In whose context; process 0 for completions.
    pub process: ProcessId,
    /// The name of the process that the request belongs to.
    pub owner: &'run str,
    /// The CPU on which that process runs, if there are several.
    pub cpu: Option<u16>,
}

impl BlockEvent<'_> {
    /// Without its owner's name and CPU, and the process that it is of: a flush belongs to all who wait for it.
    pub(crate) fn of(
        time: Time,
        action: Action,
        subject: &Subject<'_>,
        process: ProcessId,
    ) -> (BlockEvent<'static>, Option<ProcessId>) {
        let request = match subject {
            Subject::Bio(bio) => Some(Request::new(bio, time)),
            Subject::Request(request) => Some(**request),
            Subject::Plug | Subject::Flush => None,
        };
        let flush = matches!(subject, Subject::Flush);
        let block_event = BlockEvent {
            time,
            action,
            op: request.map(|request| request.op),
            flush,
            sync: flush || request.is_some_and(|request| request.sync_flag),
            start: request.map_or(Sector::ZERO, |request| request.start),
            length: request.map_or(Sectors::ZERO, |request| request.length),
            process,
            owner: "-",
            cpu: None,
        };
        let owner = request.map_or(process, |request| request.process);
        (block_event, (!flush).then_some(owner))
    }
}

/// Records what the block layer does, as blktrace would.
pub trait Tracer {
    /// False if it records nothing: events are not even built, which takes less time.
    fn is_enabled(&self) -> bool {
        true
    }
    /// Something happened.
    fn happened(&mut self, block_event: &BlockEvent);
    /// A process ended.
    fn exited(&mut self, time: Time, process: ProcessId, name: &str);
}

/// Records nothing.
impl Tracer for () {
    fn is_enabled(&self) -> bool {
        false
    }
    fn happened(&mut self, _block_event: &BlockEvent) {}
    fn exited(&mut self, _time: Time, _process: ProcessId, _name: &str) {}
}

/// Longer than any load or trace: a run of which nobody says when it ends is ended then.
pub const CENTURY: Nanos = Nanos::from_secs(100 * 366 * 86_400);

impl Setup {
    /// The load over the disk as the kernel sets a queue up, with all of the disk's own depth; until
    /// the load's end.
    pub fn new(scheduler: Box<dyn Elevator>, disk: Box<dyn DiskModel>, jobs: Vec<Job>) -> Setup {
        Setup {
            scheduler,
            queue_depth: disk.queue_depth(),
            device_limit: None,
            disk,
            jobs,
            nr_requests: USUAL_REQUESTS,
            limits: MergeLimits::default(),
            host: HostTimes::default(),
            multi_queue: MultiQueueSettings::default(),
            writeback: Writeback::default(),
            volatile_cache: false,
            seed: 0,
            until: CENTURY,
            slice: None,
        }
    }
}

/// Runs a load to its end, or to the end of time.
pub fn run(setup: Setup, tracer: &mut dyn Tracer) -> Outcome {
    let outcome = run_while(setup, &mut || true, tracer);
    outcome.expect("nobody ends it")
}

/// The same, and ends with nothing once `goes_on` says no: it is asked again and again, however long the run takes.
pub fn run_while(
    setup: Setup,
    goes_on: &mut dyn FnMut() -> bool,
    tracer: &mut dyn Tracer,
) -> Option<Outcome> {
    run_with(setup, None, goes_on, tracer)
}

/// Replays a trace to its end, or to the end of time. The jobs of the setup name its processes and
/// their priorities, and say when a closed loop begins and how deep it is.
pub fn replay(setup: Setup, replay: Replay, tracer: &mut dyn Tracer) -> Outcome {
    let outcome = run_with(setup, Some(replay), &mut || true, tracer);
    outcome.expect("nobody ends it")
}

fn run_with(
    mut setup: Setup,
    replay: Option<Replay>,
    goes_on: &mut dyn FnMut() -> bool,
    tracer: &mut dyn Tracer,
) -> Option<Outcome> {
    groups::join_groups(setup.scheduler.as_mut(), &setup.jobs);
    let info = setup.scheduler.info();
    match info.facts.block_layer {
        BlockLayer::SingleQueue => {
            let settings = setup.single_queue();
            let (scheduler, machine) = setup.split(1, None, replay);
            let queue = SingleQueue::new(scheduler, &settings);
            Simulation::new(queue, machine, tracer).run(goes_on)
        }
        BlockLayer::MultiQueue => {
            let settings = setup.multi_queue();
            let processors = setup.multi_queue.processors;
            let processors = processors.map(|count| Processors::new(count, info.cpu_cost));
            let (scheduler, machine) = setup.split(settings.cpus, processors, replay);
            let queue = MultiQueue::new(scheduler, &settings);
            Simulation::new(queue, machine, tracer).run(goes_on)
        }
    }
}

impl Setup {
    /// Those of the jobs, and the flusher.
    fn processes(&self) -> usize {
        self.jobs.len() + 1
    }

    fn single_queue(&self) -> single_queue::SingleQueueParameters {
        single_queue::SingleQueueParameters {
            limits: self.limits,
            queue_depth: self.queue_depth,
            device_limit: self.device_limit,
            nr_requests: self.nr_requests,
            processes: self.processes(),
            delays: self.host.delays(),
        }
    }

    fn multi_queue(&self) -> multi_queue::MultiQueueParameters {
        let settings = &self.multi_queue;
        multi_queue::MultiQueueParameters {
            limits: self.limits,
            depth: Depth {
                attachment: settings.attachment,
                commands: self.queue_depth,
            },
            device_limit: self.device_limit,
            nr_requests: settings.nr_requests,
            hardware_queues: settings.hardware_queues,
            cpus: settings.cpus(),
            processes: self.processes(),
            kernel: settings.kernel,
            wbt_lat: settings.wbt_lat,
            delays: self.host.delays(),
            seed: self.seed,
        }
    }

    /// The scheduler, and what stands around the block layer.
    fn split(
        self,
        cpus: usize,
        processors: Option<Processors>,
        replay: Option<Replay>,
    ) -> (Box<dyn Elevator>, engine::Machine) {
        let machine = engine::Machine {
            cpus,
            processors,
            disk: self.disk,
            jobs: self.jobs,
            replay,
            max_sectors: self.limits.max_sectors,
            host: self.host,
            writeback: self.writeback,
            volatile_cache: self.volatile_cache,
            flushes_alone: self.multi_queue.flushes_alone,
            seed: self.seed,
            until: self.until,
            slice: self.slice,
        };
        (self.scheduler, machine)
    }
}
