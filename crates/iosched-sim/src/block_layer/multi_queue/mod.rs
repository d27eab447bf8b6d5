//! Today's multi-queue block layer (Linux 6.1 to 6.12).
//!
//! A CPU submits to its hardware queue, which has its own tags (`tag_set`), dispatch list (`hw_queue`) and
//! room in the device; a scheduler may be one for all of them. A request needs a scheduler tag from
//! allocation to completion and a driver tag while the device has it; without a scheduler the two are
//! one. Requests that were dispatched while the device had no room are kept in the dispatch list, which is
//! issued first. The scheduler is asked after inserts, after each issue, after a completion that the queue
//! waited for, and some ticks after a run that dispatched nothing. A flush goes to the device before all
//! other requests. A write that has to reach the medium (FUA) bypasses the scheduler, and a flush follows
//! it. Flushes use the first hardware queue; each one has a tag like other requests, and all that are
//! waiting share one command.
//!
//! Before all this, writes of the page cache may have to wait (`throttle`).
//!
//! - `submit`: from a bio to the scheduler
//! - `run`: from the scheduler to the device, and back
//!
//! Left out: tags shared by several queues or devices.

mod hw_queue;
mod run;
mod submit;
mod tag_set;
mod throttle;
mod wait_queues;
mod waiters;

pub use hw_queue::{Attachment, Depth, HwQueue, Next};

use super::carried::Carried;
use super::flush::{FLUSH, Flushes};
use super::submitter::Submitter;
use super::{
    Delays, Device, MergeLimits, Merger, Outputs, RequestQueue, RequestsMerged, Token, trace_bio,
};
use crate::random::Random;
use crate::request::{Action, Bio, ProcessId, RequestId, Requests};
use crate::request_table::ByRequest;
use crate::scheduler::{Elevator, HardwareQueues, Kernel};
use crate::units::{Nanos, Time};
use tag_set::TagSet;
use throttle::Throttle;
use waiters::{Waiters, WakeState};

/// What a multi-queue block layer is like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MultiQueueParameters {
    pub(crate) limits: MergeLimits,
    /// How the device is attached, and how many commands its driver gives to it at a time: from each
    /// hardware queue, or with a budget from all together.
    pub(crate) depth: Depth,
    /// Commands that the device accepts, if it gives back what is more.
    pub(crate) device_limit: Option<usize>,
    /// Scheduler tags of each hardware queue, if not as many as the kernel takes.
    pub(crate) nr_requests: Option<usize>,
    pub(crate) hardware_queues: usize,
    pub(crate) cpus: usize,
    pub(crate) processes: usize,
    /// Its ticks, and whose rules hold.
    pub(crate) kernel: Kernel,
    /// The latency that reads should not exceed while the page cache is written; off if not said.
    pub(crate) wbt_lat: Option<Nanos>,
    pub(crate) delays: Delays,
    /// Where the chance of the worker's delay comes from.
    pub(crate) seed: u64,
}

/// What is known of a request besides.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// Its hardware queue.
    queue: usize,
    tag: u32,
    issued: Time,
    /// It has been in the scheduler.
    scheduled: bool,
    /// It counts as one that is throttled.
    throttled: bool,
}

/// A hardware queue.
struct Queue {
    /// From the scheduler to the device.
    hw: HwQueue,
    /// Who may have a request.
    tags: TagSet,
}

pub(crate) struct MultiQueue {
    scheduler: Box<dyn Elevator>,
    /// There is no scheduler: requests are issued by those who submit them.
    direct: bool,
    kernel: Kernel,
    /// Who runs, for those who watch; process 0 is a worker or an interrupt.
    current: ProcessId,
    requests: Requests,
    known: ByRequest<Known>,
    carried: Carried,
    merger: Merger,
    depth: Depth,
    device: Device,
    hardware: HardwareQueues,
    /// By number.
    queues: Vec<Queue>,
    /// By process.
    submitters: Vec<Submitter>,
    waiters: Waiters,
    delays: Delays,
    /// Of the worker's delay.
    chance: Random,
    flushes: Flushes,
    merged: Vec<RequestsMerged>,
    throttle: Option<Throttle>,
}

impl MultiQueue {
    pub(crate) fn new(
        mut scheduler: Box<dyn Elevator>,
        settings: &MultiQueueParameters,
    ) -> MultiQueue {
        let MultiQueueParameters {
            kernel,
            processes,
            delays,
            ..
        } = *settings;
        let depth = Depth {
            commands: settings.depth.commands.max(1),
            ..settings.depth
        };
        let direct = scheduler.info().facts.direct;
        let hardware = HardwareQueues::new(settings.hardware_queues, settings.cpus);
        scheduler.attach(hardware);
        let queue = |_| Queue {
            hw: HwQueue::default(),
            tags: TagSet::new(depth, scheduler.as_ref(), settings.nr_requests),
        };
        let throttle = settings
            .wbt_lat
            .map(|target| Throttle::new(target, depth.commands, processes, kernel));
        MultiQueue {
            direct,
            kernel,
            current: ProcessId(0),
            requests: Requests::default(),
            known: ByRequest::default(),
            carried: Carried::new(),
            merger: Merger::new(settings.limits, scheduler.as_ref()),
            depth,
            device: Device::new(settings.device_limit),
            hardware,
            queues: (0..hardware.count()).map(queue).collect(),
            submitters: Submitter::many(processes, settings.cpus),
            waiters: Waiters::new(processes, delays),
            delays,
            chance: Random::new(settings.seed, "workers"),
            flushes: Flushes::default(),
            merged: Vec::new(),
            throttle,
            scheduler,
        }
    }

    /// The hardware queue that a process submits to.
    fn queue_of(&self, process: usize) -> usize {
        self.hardware.of_cpu(self.submitters[process].cpu)
    }
}

impl RequestQueue for MultiQueue {
    fn plug(&mut self, process: usize) {
        self.submitters[process].plugged = true;
    }

    fn submit(&mut self, out: &mut impl Outputs, now: Time, bio: &Bio, token: Token) {
        self.current = bio.process;
        trace_bio(out, now, Action::Queued, bio);
        if bio.fua || !self.merge(out, now, bio, token) {
            self.allocate(out, now, bio, token);
        }
    }

    fn flush(&mut self, out: &mut impl Outputs, now: Time, bio: &Bio, token: Token) {
        self.current = bio.process;
        self.allocate(out, now, bio, token);
    }

    fn unplug(&mut self, out: &mut impl Outputs, now: Time, process: usize) {
        self.current = ProcessId::of_index(process);
        if !self.submitters[process].plug.is_empty() {
            self.flush_plug(out, now, process);
        }
        self.submitters[process].plugged = false;
    }

    #[inline(always)]
    fn resume(&mut self, out: &mut impl Outputs, now: Time, process: usize) {
        if !self.is_blocked(process) {
            return;
        }
        self.current = ProcessId::of_index(process);
        let mut place = match self.waiters.wake_state(now, process) {
            WakeState::Sleeps => return,
            WakeState::Later(runs) => return out.wake(runs, process),
            WakeState::Woken => {
                let queue = self.queue_of(process);
                Some(self.queues[queue].tags.runs())
            }
            WakeState::Awake => None,
        };
        while let Some(&(bio, token)) = self.submitters[process].blocked.front() {
            let Some(tag) = self.take_tag(now, &bio, place.take()) else {
                return;
            };
            self.submitters[process].blocked.pop_front();
            self.new_request(out, now, (&bio, token), tag);
        }
        self.unplug(out, now, process);
    }

    fn exited(&mut self, out: &mut impl Outputs, now: Time, process: usize) {
        let id = ProcessId::of_index(process);
        self.scheduler.process_exited(now, &self.requests, id);
        self.run_requested_queues(out, now);
    }

    #[inline]
    fn completed(&mut self, out: &mut impl Outputs, now: Time, tag: u64) {
        self.current = ProcessId(0);
        if tag == FLUSH {
            self.flush_ended(out, now);
        } else {
            self.request_ended(out, now, RequestId::of_tag(tag));
        }
    }

    fn timer(&mut self, out: &mut impl Outputs, now: Time) {
        self.current = ProcessId(0);
        let timer = self.scheduler.next_timer();
        if timer.is_some_and(|timer| timer <= now) {
            self.scheduler.timer(now, &self.requests);
            self.run_requested_queues(out, now);
        }
        if let Some(throttle) = &mut self.throttle
            && throttle.next_timer().is_some_and(|end| end <= now)
        {
            throttle.timer(now, |process| out.wake(now, process));
        }
        for number in 0..self.queues.len() {
            let delayed = self.queues[number].hw.delayed_run();
            if delayed.is_some_and(|run| run <= now) {
                self.run_in_worker(out, now, number);
            }
        }
    }

    fn writers_wait(&mut self, waited: bool) {
        if let Some(throttle) = &mut self.throttle {
            throttle.writers_wait(waited);
        }
    }

    fn next_timer(&self) -> Option<Time> {
        let or_never = |timer: Option<Time>| timer.unwrap_or(Time::MAX);
        let delayed = self.queues.iter();
        let delayed = delayed.map(|queue| or_never(queue.hw.delayed_run()));
        let of_queues = delayed.fold(or_never(self.scheduler.next_timer()), Time::min);
        let window = self.throttle.as_ref().and_then(Throttle::next_timer);
        let next = of_queues.min(or_never(window));
        (next < Time::MAX).then_some(next)
    }

    fn is_blocked(&self, process: usize) -> bool {
        self.submitters[process].is_blocked()
    }

    /// This block layer does not tell writeback how full it is.
    fn is_congested(&self) -> bool {
        false
    }

    fn carried(&self, tag: u64, each: impl FnMut(Token)) {
        if tag != FLUSH {
            self.carried.each(RequestId::of_tag(tag), each);
        }
    }

    fn cpu_of(&self, tag: u64) -> usize {
        usize::from(self.requests[RequestId::of_tag(tag)].cpu)
    }
}
