//! A block layer with one of our schedulers over a disk, on a clock of the caller's: real programs can be
//! served by it.
//!
//! The caller submits accesses at the times at which they came, calls [`Served::advance`] when something is
//! due ([`Served::next_event`]), and is told what is done. It may be late: everything happens at its own
//! time all the same.
//!
//! The disk is a model, or one that the caller has ([`Served::outside`]): then the caller takes commands after
//! each call ([`Served::take_issued`]), and says when each is done and what went wrong ([`Served::completed`]).
//! Processes are named by the caller's numbers (in the server of an emulated disk: those
//! of the machine), and are `askers` here; what nobody asked for belongs to process 0.
//!
//! One access at a time comes in, and is held back by no plug: what its process held back was merged above.

mod askers;
mod device;
mod host;

use crate::block_layer::multi_queue::{self, Depth, MultiQueue};
use crate::block_layer::single_queue::{self, SingleQueue};
use iosched_facts::kernel::USUAL_REQUESTS;

use crate::block_layer::{Attachment, MergeLimits, RequestQueue, Token};
use crate::disk::{Command, Completion, DiskModel, DiskOp};
use crate::request::{Bio, IoPriority, Op, ProcessId};
use crate::scheduler::{BlockLayer, Elevator, Kernel};
use crate::simulate::{HostTimes, Tracer};
use crate::units::{Sector, Sectors, Time};
use askers::Askers;
use device::Device;
use host::{Host, ServedEvent};

/// Processes that are told apart at a time, process 0 among them.
pub(crate) const MOST_PROCESSES: usize = 1024;

/// What a served block layer is like.
#[derive(Debug, Clone, Copy)]
pub struct QueueSettings {
    /// Commands that the driver gives to the disk at a time.
    pub queue_depth: usize,
    /// Requests of each kind that may exist (single-queue), or scheduler tags (multi-queue); as many as the
    /// kernel takes if not said.
    pub nr_requests: Option<usize>,
    /// Limits of merging. A longer access is split.
    pub limits: MergeLimits,
    /// Ticks, whether the disk turns, and whose rules hold.
    pub kernel: Kernel,
}

/// Who asks, and how: what the kernel knows of a bio besides its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// The process; 0 if that is not known.
    pub process: u32,
    /// Its I/O priority.
    pub priority: IoPriority,
    /// It carries the flag that somebody waits for it: direct I/O and fsync do; somebody waits for every read.
    pub sync: bool,
    /// A synchronous write after which no other is to be waited for (fsync's).
    pub noidle: bool,
    /// Metadata or otherwise urgent (`REQ_PRIO`).
    pub prio: bool,
}

impl Asker {
    /// Nobody who is known: as a thread of the kernel asks, that nobody waits for when it writes.
    pub fn unknown(op: DiskOp) -> Asker {
        Asker {
            process: 0,
            priority: IoPriority::default(),
            sync: op == DiskOp::Flush,
            noidle: false,
            prio: false,
        }
    }
}

/// An access to the disk. A flush has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// A flush concerns the whole disk.
    pub op: DiskOp,
    /// The first sector.
    pub start: Sector,
    /// Zero for a flush.
    pub length: Sectors,
    /// The process to whose share the access counts.
    pub asker: Asker,
}

/// An access that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished<T> {
    /// When it came.
    pub arrived: Time,
    /// When the disk began to work on (the last part of) it.
    pub started: Time,
    /// When it was done.
    pub completed: Time,
    /// What went wrong on a disk outside, by the caller's number.
    pub error: Option<i32>,
    /// The caller's.
    pub token: T,
}

/// Either block layer.
enum Layer {
    Single(Box<SingleQueue>),
    Multi(Box<MultiQueue>),
}

/// Does the same with whichever block layer it is.
macro_rules! with {
    ($layer:expr, $queue:ident => $what:expr) => {
        match $layer {
            Layer::Single($queue) => $what,
            Layer::Multi($queue) => $what,
        }
    };
}

/// A block layer with its scheduler over one device, served by a real clock.
pub struct Served<T> {
    layer: Layer,
    host: Host<T>,
    askers: Askers,
    max_sectors: Sectors,
    latest: Time,
}

impl<T> Served<T> {
    /// The scheduler in the block layer that it belongs to, over a disk, at time zero. What happens is told
    /// to `tracer`, if there is one.
    pub fn new(
        scheduler: Box<dyn Elevator>,
        disk: Box<dyn DiskModel>,
        settings: &QueueSettings,
        tracer: Option<Box<dyn Tracer + Send>>,
    ) -> Served<T> {
        Served::on(scheduler, Device::Model(disk), settings, tracer)
    }

    /// The same over a disk that the caller has: it is handed the commands, and says when they are done.
    pub fn outside(
        scheduler: Box<dyn Elevator>,
        settings: &QueueSettings,
        tracer: Option<Box<dyn Tracer + Send>>,
    ) -> Served<T> {
        Served::on(scheduler, Device::outside(), settings, tracer)
    }

    fn on(
        scheduler: Box<dyn Elevator>,
        disk: Device,
        settings: &QueueSettings,
        tracer: Option<Box<dyn Tracer + Send>>,
    ) -> Served<T> {
        Served {
            layer: Layer::new(scheduler, settings),
            host: Host::new(disk, tracer),
            askers: Askers::new(MOST_PROCESSES),
            max_sectors: settings.limits.max_sectors,
            latest: Time::ZERO,
        }
    }

    /// An access that came at `at`; what was due before happens first. One that came before what happened
    /// last counts as having come then.
    pub fn submit(&mut self, at: Time, access: &Access, token: T, finished: &mut Vec<Finished<T>>) {
        self.advance(at, finished);
        let now = at.max(self.latest);
        self.latest = now;
        let process = self.asker(now, access.asker.process);
        let id = ProcessId::of_index(process);
        let bios = access.bios(id, self.max_sectors);
        let parts = bios.clone().count() as u64;
        let token = self.host.wait(now, process, parts, token);
        let host = &mut self.host;
        for bio in bios {
            with!(&mut self.layer, queue => {
                if bio.is_flush() {
                    queue.flush(host, now, &bio, token);
                } else {
                    queue.submit(host, now, &bio, token);
                }
            });
        }
        self.take_finished(finished);
    }

    /// A process ended at `at`, or ends once nothing of it is on its way.
    pub fn exited(&mut self, at: Time, process: u32, finished: &mut Vec<Finished<T>>) {
        self.advance(at, finished);
        self.latest = at.max(self.latest);
        match self.askers.leave(process) {
            Some(place) if self.host.is_idle(place) => self.exit(self.latest, place),
            Some(place) => self.host.leave_once_idle(place),
            None => {}
        }
        self.take_finished(finished);
    }

    /// Does what is due up to `now`, each thing at its own time.
    pub fn advance(&mut self, now: Time, finished: &mut Vec<Finished<T>>) {
        while let Some(event) = self.next_event().filter(|&event| event <= now) {
            self.latest = event.max(self.latest);
            self.step(self.latest);
            self.let_leave();
        }
        self.take_finished(finished);
    }

    /// The next command for a disk outside, in the order in which it gets them; `None` if there is none. To
    /// be asked after each call that may have issued some.
    pub fn take_issued(&mut self) -> Option<Command> {
        self.host.take_issued()
    }

    /// The accesses that a command in the disk is for, each once, in the order in which they joined it: what they
    /// share with the command's range is all of it, and nothing twice. None for a flush.
    pub fn accesses(&self, tag: u64) -> Vec<&T> {
        let mut tokens: Vec<Token> = Vec::new();
        with!(&self.layer, queue => queue.carried(tag, |token| if !tokens.contains(&token) {
            tokens.push(token);
        }));
        let accesses = tokens.into_iter().map(|token| self.host.waiting(token));
        accesses.collect()
    }

    /// A disk outside is done with a command, or could not do it: `error` is the caller's number of why. What
    /// was due before happens first.
    pub fn completed(
        &mut self,
        done: Completion,
        error: Option<i32>,
        finished: &mut Vec<Finished<T>>,
    ) {
        self.advance(done.time, finished);
        let now = done.time.max(self.latest);
        self.latest = now;
        let Served { layer, host, .. } = self;
        host.begin_completion(done, error);
        with!(layer, queue => queue.completed(host, now, done.tag));
        self.let_leave();
        self.take_finished(finished);
    }

    /// When something is due; nothing if nothing ever is.
    pub fn next_event(&self) -> Option<Time> {
        let timer = with!(&self.layer, queue => queue.next_timer());
        let next = timer.unwrap_or(Time::MAX).min(self.host.next_event());
        (next < Time::MAX).then_some(next)
    }

    /// Accesses that are not done.
    pub fn in_flight(&self) -> usize {
        self.host.in_flight()
    }

    /// Completes what is left, whatever time it takes: the disk and its queue are to go.
    ///
    /// # Panics
    /// If accesses wait for a disk outside.
    pub fn finish(mut self) -> Vec<Finished<T>> {
        let mut finished = Vec::new();
        while self.in_flight() > 0 {
            let event = self.next_event().expect("what is in flight goes on");
            self.advance(event, &mut finished);
        }
        finished
    }

    /// Lets another scheduler take the place of the one that is there, over the same disk.
    ///
    /// # Panics
    /// If accesses are on their way: the old one is to be drained first, as the kernel does.
    pub fn switch(&mut self, scheduler: Box<dyn Elevator>, settings: &QueueSettings) {
        assert_eq!(self.in_flight(), 0, "accesses are on their way");
        self.layer = Layer::new(scheduler, settings);
        self.max_sectors = settings.limits.max_sectors;
    }

    /// The place of a process, which one that has gone may have had before.
    fn asker(&mut self, now: Time, process: u32) -> usize {
        let host = &self.host;
        let found = self.askers.find(process, |place| host.is_idle(place));
        if let Some(left) = found.instead_of {
            self.exit(now, left);
        }
        found.place
    }

    fn exit(&mut self, now: Time, place: usize) {
        let host = &mut self.host;
        host.told_of_exit(now, place);
        with!(&mut self.layer, queue => queue.exited(host, now, place));
    }

    /// What is due first: of several things at one time the disk's, then a timer's, then what was planned.
    fn step(&mut self, now: Time) {
        let Served { layer, host, .. } = self;
        if host.disk_is_due(now) {
            for done in host.take_completions(now) {
                host.begin_completion(done, None);
                with!(layer, queue => queue.completed(host, now, done.tag));
            }
            return;
        }
        let timer = with!(layer, queue => queue.next_timer());
        if timer.is_some_and(|timer| timer <= now) {
            return with!(layer, queue => queue.timer(host, now));
        }
        match host.take_due(now) {
            Some(ServedEvent::Wake(process)) => {
                with!(layer, queue => queue.resume(host, now, process));
            }
            Some(ServedEvent::RunQueue) => with!(layer, queue => queue.run_queue(host, now)),
            None => {}
        }
    }

    /// Processes that ended, and of which nothing is on its way any more.
    fn let_leave(&mut self) {
        while let Some(place) = self.host.next_to_leave() {
            self.exit(self.latest, place);
        }
    }

    fn take_finished(&mut self, finished: &mut Vec<Finished<T>>) {
        finished.append(&mut self.host.finished);
    }
}

impl Layer {
    fn new(scheduler: Box<dyn Elevator>, settings: &QueueSettings) -> Layer {
        let delays = HostTimes::default().delays();
        match scheduler.info().facts.block_layer {
            BlockLayer::SingleQueue => {
                let settings = single_queue::SingleQueueParameters {
                    limits: settings.limits,
                    queue_depth: settings.queue_depth,
                    device_limit: None,
                    nr_requests: settings.nr_requests.unwrap_or(USUAL_REQUESTS),
                    processes: MOST_PROCESSES,
                    delays,
                };
                Layer::Single(Box::new(SingleQueue::new(scheduler, &settings)))
            }
            BlockLayer::MultiQueue => {
                let settings = multi_queue::MultiQueueParameters {
                    limits: settings.limits,
                    depth: Depth {
                        attachment: Attachment::default(),
                        commands: settings.queue_depth,
                    },
                    device_limit: None,
                    nr_requests: settings.nr_requests,
                    hardware_queues: 1,
                    cpus: 1,
                    processes: MOST_PROCESSES,
                    kernel: settings.kernel,
                    wbt_lat: None,
                    delays,
                    seed: 0,
                };
                Layer::Multi(Box::new(MultiQueue::new(scheduler, &settings)))
            }
        }
    }
}

impl Access {
    /// Its parts, none longer than `most`. A flush, and what has no sectors, is one.
    fn bios(&self, process: ProcessId, most: Sectors) -> impl Iterator<Item = Bio> + Clone {
        let access = *self;
        let parts = match access.op {
            DiskOp::Flush => 0,
            _ => access.length.as_u64().div_ceil(most.as_u64()),
        };
        let flush = (parts == 0).then(|| Bio::flush(process, access.asker.priority));
        let part = move |number: u64| {
            let before = Sectors::new(number * most.as_u64());
            let length = (access.length - before).min(most);
            access.bio(process, access.start + before, length)
        };
        flush.into_iter().chain((0..parts).map(part))
    }

    /// A part of it, as the block layer knows it.
    fn bio(&self, process: ProcessId, start: Sector, length: Sectors) -> Bio {
        let Asker {
            priority,
            sync,
            noidle,
            prio,
            ..
        } = self.asker;
        Bio {
            op: match self.op {
                DiskOp::Read => Op::Read,
                DiskOp::Write | DiskOp::Flush => Op::Write,
                DiskOp::Discard => Op::Discard,
            },
            start,
            length,
            sync: sync || self.op == DiskOp::Read,
            sync_flag: sync,
            noidle,
            prio,
            fua: false, // a loop device takes no FUA: the kernel sends a flush instead
            process,
            priority,
        }
    }
}
