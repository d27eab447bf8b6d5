//! The multi-queue path (Linux 6.1 to 6.12).
//!
//! A CPU submits to its hardware queue (`hardware_queue`), which has its own tags, dispatch list and
//! room in the device; a scheduler may be one for all of them. A request needs a scheduler tag from allocation to completion and a driver tag while the device
//! has it; without a scheduler the two are one. What the scheduler gave out and the device has no
//! room for stands in the dispatch list, which goes first. The scheduler is asked after inserts, after
//! each issue, after a completion if one was waited for, and some ticks after an ask that gave
//! nothing. A flush goes to the device before everything else; a write that is to be on the medium
//! passes the scheduler by, and a flush follows it: flushes take the first hardware queue. Each that a
//! process asks for has a tag like other requests, and all who wait share one command.
//!
//! Before all this, writes of the page cache may have to wait (`throttle`).
//!
//! Left out: tags shared by several queues or devices.

mod hardware_queue;
mod issue;
mod throttle;
mod wait_queues;
mod waiters;

use super::MultiQueueSettings;
use super::access::AccessId;
use super::agenda::Event;
use super::flush::{FLUSH, Flushes, Step};
use super::host::Host;
use super::merging::{Found, merge_in_plug, merge_in_scheduler};
use super::path::Path;
use super::process;
use super::processors::Processors;
use super::submitter::Submitter;
use crate::block_layer::{Depth, MergeLimits, Merger, RequestsMerged};
use crate::by_request::ByRequest;
use crate::request::{Bio, Op, ProcessId, Request, RequestId};
use crate::scheduler::{HardwareQueues, Kernel, Scheduler};
use crate::trace::kernel::Action;
use crate::units::Time;
use hardware_queue::HardwareQueue;
use throttle::Throttle;
use wait_queues::Place;
use waiters::{Rise, Waiters};

/// Most requests that a plug holds before it is let go.
const PLUG_REQUESTS: usize = 32;

/// What the path knows of a request.
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

/// See the [module's page](self).
pub(super) struct MultiQueue {
    scheduler: Box<dyn Scheduler>,
    /// There is no scheduler: requests are issued by those who submit them.
    direct: bool,
    kernel: Kernel,
    /// Of each hardware queue, or with a budget of all together.
    depth: Depth,
    merger: Merger,
    hardware: HardwareQueues,
    /// Commands that the device has, from all hardware queues.
    in_flight: usize,
    /// By number.
    queues: Vec<HardwareQueue>,
    submitters: Vec<Submitter>,
    waiters: Waiters,
    known: ByRequest<Known>,
    flushes: Flushes,
    absorbed: Vec<RequestsMerged>,
    processors: Option<Processors>,
    throttle: Option<Throttle>,
}

impl MultiQueue {
    pub(super) fn new(
        limits: &MergeLimits,
        mut scheduler: Box<dyn Scheduler>,
        queue_depth: usize,
        settings: &MultiQueueSettings,
        processes: usize,
        seed: u64,
    ) -> MultiQueue {
        let queue_depth = queue_depth.max(1);
        let direct = scheduler.name() == "none";
        let processors = settings
            .processors
            .map(|count| Processors::new(count, scheduler.name()));
        let hardware = HardwareQueues::new(settings.hardware_queues, settings.cpus());
        let queue = || {
            let attachment = settings.attachment;
            HardwareQueue::new(queue_depth, attachment, direct, settings.nr_requests)
        };
        scheduler.attach(hardware);
        MultiQueue {
            direct,
            kernel: settings.kernel,
            depth: Depth {
                attachment: settings.attachment,
                commands: queue_depth,
            },
            merger: Merger::new(*limits, scheduler.merges_in_lists()),
            hardware,
            in_flight: 0,
            queues: (0..hardware.count()).map(|_| queue()).collect(),
            submitters: Submitter::many(processes),
            waiters: Waiters::new(processes, &settings.retaken, seed),
            known: ByRequest::default(),
            flushes: Flushes::default(),
            absorbed: Vec::new(),
            processors,
            throttle: settings
                .throttle_above
                .map(|target| Throttle::new(target, queue_depth, processes, settings.kernel)),
            scheduler,
        }
    }

    /// The hardware queue that a process submits to.
    fn queue_of(&self, host: &Host<'_>, process: usize) -> usize {
        self.hardware.of_cpu(host.processes[process].cpu)
    }

    // ---- merging -------------------------------------------------------------------------

    /// Only the request that was added last takes more.
    fn merge_in_plug(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        process: usize,
        bio: &Bio,
        access: AccessId,
    ) -> bool {
        let plug = &self.submitters[process].plug;
        let last = &plug[plug.len().saturating_sub(1)..];
        !last.is_empty() && merge_in_plug(&self.merger, host, now, last, bio, access)
    }

    fn merge_in_queue(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        process: usize,
        bio: &Bio,
        access: AccessId,
    ) -> bool {
        let cpu = host.processes[process].cpu;
        let (merger, scheduler) = (&mut self.merger, self.scheduler.as_mut());
        match merge_in_scheduler(merger, scheduler, host, now, (bio, cpu), access) {
            Found::Nothing => return false,
            Found::Merged => {}
            Found::Closed(absorbed) => self.absorb(host, now, bio.process, absorbed),
        }
        true
    }

    fn absorb(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        submitter: ProcessId,
        absorbed: RequestsMerged,
    ) {
        let RequestsMerged {
            survivor,
            victim,
            was,
        } = absorbed;
        host.tell(now, Action::Joined, &was, submitter);
        host.accesses.absorb(survivor, victim);
        self.free_tag(host, now, victim, None);
    }

    // ---- tags ----------------------------------------------------------------------------

    /// A tag for the bio, if write-back throttling lets it pass and there is one; otherwise the process
    /// waits.
    #[inline]
    fn take_tag(
        &mut self,
        host: &Host<'_>,
        now: Time,
        process: (usize, Option<Place>),
        bio: &Bio,
    ) -> Option<u32> {
        if self.throttle.is_some() {
            return self.take_tag_if_admitted(host, now, process, bio);
        }
        self.take_free_tag(host, process, bio)
    }

    #[inline(never)]
    fn take_tag_if_admitted(
        &mut self,
        host: &Host<'_>,
        now: Time,
        (process, place): (usize, Option<Place>),
        bio: &Bio,
    ) -> Option<u32> {
        let sort = Throttle::sort(bio, host.cache.lately_waited(now));
        if let (Some(throttle), Some(sort)) = (&mut self.throttle, sort)
            && !throttle.admit(now, process, sort)
        {
            return None;
        }
        let tag = self.take_free_tag(host, (process, place), bio);
        if let (None, Some(throttle), Some(_)) = (tag, &mut self.throttle, sort) {
            throttle.keep_admitted(process);
        }
        tag
    }

    #[inline(always)]
    fn take_free_tag(
        &mut self,
        host: &Host<'_>,
        (process, place): (usize, Option<Place>),
        bio: &Bio,
    ) -> Option<u32> {
        let number = self.queue_of(host, process);
        let scheduler = self.scheduler.as_ref();
        let op = if bio.is_flush() { Op::Read } else { bio.op }; // schedulers do not limit a flush
        let tag = self.queues[number].take_tag(scheduler, op, bio.sync, (process, place));
        if tag.is_none() {
            self.waiters.sleeps(process, place.is_some());
        }
        tag
    }

    /// If the request completed, `woken` waits for it, and was woken before those that wait for the tag.
    #[inline(always)]
    fn free_tag(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        id: RequestId,
        woken: Option<ProcessId>,
    ) {
        let Known {
            queue,
            tag,
            throttled,
            ..
        } = self.known[id];
        if self.queues[queue].free_tag(tag) {
            self.wake_waiters(host, now, queue, woken);
        }
        // After those who have waited for a tag: they would not get one beside an unending copy.
        if throttled {
            self.throttled_ended(host, now);
        }
    }

    /// A throttled request is no more: others may be let in.
    #[inline(never)]
    fn throttled_ended(&mut self, host: &mut Host<'_>, now: Time) {
        if let Some(throttle) = &mut self.throttle {
            throttle.ended(|process| host.wake_at(now + host.times.wakeup, process));
        }
    }

    /// Apart from [`MultiQueue::free_tag`], which most loads call without anyone waiting.
    #[inline(never)]
    fn wake_waiters(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        queue: usize,
        woken: Option<ProcessId>,
    ) {
        let is_rival = |woken: ProcessId| !self.submitters[process::index_of(woken)].is_blocked();
        let rival = woken.is_some_and(is_rival);
        let waiters = &mut self.waiters;
        let mut late = None;
        self.queues[queue].wake(|process| {
            let is_late = || rival && waiters.come_too_late(now, process);
            let late = *late.get_or_insert_with(is_late);
            let runs = waiters.wake(now, process, late, &host.times);
            host.tell_woken(now, process);
            host.wake_at(runs, process);
        });
    }

    // ---- requests ------------------------------------------------------------------------

    /// The bio becomes a request, or its process sleeps until there is a tag.
    #[inline(always)]
    fn allocate(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        process: usize,
        bio: &Bio,
        of: AccessId,
    ) {
        let tag = if self.is_blocked(process) {
            None
        } else {
            self.take_tag(host, now, (process, None), bio)
        };
        if let Some(tag) = tag {
            self.new_request(host, now, process, (bio, of), tag);
        } else {
            self.submitters[process].blocked.push_back((*bio, of));
            self.unplug(host, now, process); // a process that sleeps lets its requests go
        }
    }

    #[inline]
    fn new_request(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        process: usize,
        (bio, access): (&Bio, AccessId),
        tag: u32,
    ) {
        let mut request = Request::new(bio, now);
        request.cpu = host.processes[process].cpu;
        let id = host.requests.add(request);
        host.accesses.carry(now, id, access);
        let queue = self.queue_of(host, process);
        let known = Known {
            queue,
            tag,
            issued: now,
            scheduled: false,
            throttled: self.throttle.is_some() && Throttle::concerns(bio),
        };
        self.known.set(id, known);
        if bio.is_flush() {
            self.flushes.ask(now, Step::Request(id));
            self.flushes.begin(now);
            return self.run(host, now, 0, bio.process);
        }
        host.tell_bio(now, Action::Allocated, bio);
        if bio.fua {
            self.queues[queue].hw.dispatch.push_back(id);
            return self.run(host, now, queue, bio.process);
        }
        self.scheduler.prepare(now, &host.requests, id);
        if !self.submitters[process].plugged {
            let at_once = self.direct && !self.queues[queue].hw.is_busy();
            if !(at_once && self.issue_directly(host, now, bio.process, id)) {
                self.insert(host, now, bio.process, id, false);
            }
            self.queues[queue].hw.inserted_alone(&self.kernel);
            self.run(host, now, queue, bio.process);
            return;
        }
        if self.submitters[process].is_full(&host.requests, PLUG_REQUESTS) {
            self.flush_plug(host, now, process);
        }
        self.submitters[process].hold(host, now, process, id);
    }

    /// What was held back enters the scheduler as it was submitted. Without one it is issued, from
    /// the end of the plug, until the device has no room for the next; that goes before the rest.
    fn flush_plug(&mut self, host: &mut Host<'_>, now: Time, process: usize) {
        let submitter = host.process_id(process);
        let queue = self.queue_of(host, process);
        let mut plug = std::mem::take(&mut self.submitters[process].plug);
        while self.direct
            && let Some(id) = plug.pop()
        {
            if !self.issue_directly(host, now, submitter, id) {
                self.queues[queue].hw.dispatch.push_back(id);
                break;
            }
        }
        host.tell_plug(now, Action::Unplugged, process);
        for id in plug.drain(..) {
            self.insert(host, now, submitter, id, true);
        }
        self.submitters[process].plug = plug;
        self.run(host, now, queue, submitter);
    }

    #[inline(always)]
    fn insert(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        submitter: ProcessId,
        id: RequestId,
        from_plug: bool,
    ) {
        self.known[id].scheduled = true;
        self.merger.insert(
            now,
            &mut host.requests,
            self.scheduler.as_mut(),
            id,
            from_plug,
            &mut self.absorbed,
        );
        if self.absorbed.is_empty() {
            host.tell_request(now, Action::Inserted, id, submitter);
        } else {
            self.absorb_all(host, now, submitter);
        }
    }

    #[inline(never)]
    fn absorb_all(&mut self, host: &mut Host<'_>, now: Time, submitter: ProcessId) {
        let mut absorbed = std::mem::take(&mut self.absorbed);
        for absorbed in absorbed.drain(..) {
            self.absorb(host, now, submitter, absorbed);
        }
        self.absorbed = absorbed;
    }
}

impl Path for MultiQueue {
    fn plug(&mut self, process: usize) {
        self.submitters[process].plugged = true;
    }

    fn submit(&mut self, host: &mut Host<'_>, now: Time, process: usize, bio: &Bio, of: AccessId) {
        host.tell_bio(now, Action::Queued, bio);
        let merged = !bio.fua
            && (self.merge_in_plug(host, now, process, bio, of)
                || self.merge_in_queue(host, now, process, bio, of));
        if !merged {
            self.allocate(host, now, process, bio, of);
        }
    }

    fn unplug(&mut self, host: &mut Host<'_>, now: Time, process: usize) {
        if !self.submitters[process].plug.is_empty() {
            self.flush_plug(host, now, process);
        }
        self.submitters[process].plugged = false;
    }

    fn is_blocked(&self, process: usize) -> bool {
        self.submitters[process].is_blocked()
    }

    #[inline(always)]
    fn resume(&mut self, host: &mut Host<'_>, now: Time, process: usize) {
        if !self.is_blocked(process) {
            return;
        }
        let mut place = match self.waiters.rises(now, process) {
            Rise::Sleeps => return,
            Rise::Later(runs) => return host.wake_at(runs, process),
            Rise::Woken => {
                let queue = self.queue_of(host, process);
                Some(self.queues[queue].runs())
            }
            Rise::Awake => None,
        };
        while let Some(&(bio, access)) = self.submitters[process].blocked.front() {
            let Some(tag) = self.take_tag(host, now, (process, place.take()), &bio) else {
                return;
            };
            self.submitters[process].blocked.pop_front();
            self.new_request(host, now, process, (&bio, access), tag);
        }
        self.unplug(host, now, process);
    }

    fn flush(&mut self, host: &mut Host<'_>, now: Time, process: usize, of: AccessId) {
        let priority = host.processes[process].job.priority;
        let bio = Bio::flush(host.process_id(process), priority);
        self.allocate(host, now, process, &bio, of);
    }

    /// This block layer does not tell writeback how full it is.
    fn is_congested(&self) -> bool {
        false
    }

    fn completed(&mut self, host: &mut Host<'_>, now: Time, tag: u64) {
        if tag == FLUSH {
            return self.flush_completed(host, now);
        }
        let id = RequestId::of_tag(tag);
        let Some(processors) = &mut self.processors else {
            return self.end(host, now, id);
        };
        let cpu = usize::from(host.requests[id].cpu);
        if let Some((time, cpu)) = processors.give(now, cpu, tag) {
            host.plan(time, Event::Processed(cpu));
        }
    }

    fn processed(&mut self, host: &mut Host<'_>, now: Time, processor: usize) {
        let Some(processors) = &mut self.processors else {
            return;
        };
        let done = processors.step_ends(now, processor, |(time, processor)| {
            host.plan(time, Event::Processed(processor));
        });
        if let Some(tag) = done {
            self.end(host, now, RequestId::of_tag(tag));
        }
    }

    fn next_timer(&self) -> Option<Time> {
        let or_never = |timer: Option<Time>| timer.unwrap_or(Time::MAX);
        let delayed = self.queues.iter();
        let delayed = delayed.map(|queue| or_never(queue.hw.delayed_run()));
        let of_queues = or_never(self.scheduler.next_timer());
        let of_queues = delayed.fold(of_queues, Time::min);
        let window = self.throttle.as_ref().and_then(Throttle::next_timer);
        let next = of_queues.min(or_never(window));
        (next < Time::MAX).then_some(next)
    }

    fn timer(&mut self, host: &mut Host<'_>, now: Time) {
        if self
            .scheduler
            .next_timer()
            .is_some_and(|timer| timer <= now)
        {
            self.scheduler.timer(now, &host.requests);
        }
        if let Some(throttle) = &mut self.throttle
            && throttle.next_timer().is_some_and(|end| end <= now)
        {
            throttle.timer(now, |process| host.wake_at(now, process));
        }
        for number in 0..self.queues.len() {
            let delayed = self.queues[number].hw.delayed_run();
            if delayed.is_some_and(|run| run <= now) {
                self.run_in_worker(host, now, number);
            }
        }
    }

    fn exited(&mut self, host: &mut Host<'_>, now: Time, process: usize) {
        let id = host.process_id(process);
        self.scheduler.process_exited(now, &host.requests, id);
    }
}
