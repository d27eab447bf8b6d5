//! The multi-queue path (Linux 6.1 to 6.12) with one hardware queue.
//!
//! A request needs a scheduler tag from allocation to completion and a driver tag while the device
//! has it; without a scheduler the two are one. What the scheduler gave out and the device has no
//! room for stands in the dispatch list, which goes first. The scheduler is asked after inserts, after
//! each issue, after a completion if one was waited for, and some ticks after an ask that gave
//! nothing. A flush goes to the device before everything else; a write that is to be on the medium
//! passes the scheduler by, and a flush follows it.
//!
//! Left out: several hardware queues, requests given back by the driver, write-back throttling.

use std::collections::VecDeque;

use super::access::AccessId;
use super::agenda::Event;
use super::flush::{FLUSH, Flushes, Step};
use super::host::Host;
use super::merging::{Found, grow, merge_in_scheduler};
use super::path::Path;
use super::processors::Processors;
use super::submitter::Submitter;
use super::{Attachment, MultiQueueSettings};
use crate::elevator::{Absorbed, Merge, MergeLimits, Merger};
use crate::request::{Bio, Op, ProcessId, Request, RequestId};
use crate::scheduler::{Kernel, Scheduler};
use crate::tags::Tags;
use crate::trace::kernel::Action;
use crate::units::Time;

/// Most requests that a plug holds before it is let go.
const PLUG_REQUESTS: usize = 32;

/// Most tags that the kernel doubles to get its default of `nr_requests`.
const DOUBLED: usize = 128;

/// What the path knows of a request.
#[derive(Debug, Clone, Copy)]
struct Known {
    id: RequestId,
    tag: u32,
    issued: Time,
    /// It has been in the scheduler.
    scheduled: bool,
    /// A processor has dealt with its completion.
    served: bool,
}

/// See the [module's page](self).
pub(super) struct MultiQueue {
    scheduler: Box<dyn Scheduler>,
    /// There is no scheduler: requests are issued by those who submit them.
    direct: bool,
    kernel: Kernel,
    attachment: Attachment,
    merger: Merger,
    queue_depth: usize,
    tags: Tags,
    submitters: Vec<Submitter>,
    /// Processes that wait for any tag, and for one of the few that their requests may have.
    waiting: [VecDeque<usize>; 2],
    /// By the request's index.
    known: Vec<Known>,
    /// Given out, and not yet taken by the device.
    dispatch: VecDeque<RequestId>,
    flushes: Flushes<Step>,
    /// A flush that goes to the device before everything else.
    flush_due: bool,
    flushed: Vec<Step>,
    /// How often the device had no room, of late: from 0 to 16.
    busy: u32,
    /// The next completion runs the queue.
    restart: bool,
    /// When the scheduler is asked again.
    rerun: Option<Time>,
    absorbed: Vec<Absorbed>,
    processors: Option<Processors>,
}

impl MultiQueue {
    pub(super) fn new(
        limits: &MergeLimits,
        scheduler: Box<dyn Scheduler>,
        queue_depth: usize,
        settings: &MultiQueueSettings,
        processes: usize,
    ) -> MultiQueue {
        let queue_depth = queue_depth.max(1);
        let direct = scheduler.name() == "none";
        let tags = if direct && settings.attachment == Attachment::LookAhead {
            queue_depth // the device's own
        } else {
            let default = 2 * queue_depth.min(DOUBLED);
            settings.nr_requests.unwrap_or(default).max(1)
        };
        let name = scheduler.name();
        MultiQueue {
            direct,
            kernel: settings.kernel,
            attachment: settings.attachment,
            merger: Merger::new(*limits),
            queue_depth,
            tags: Tags::new(u32::try_from(tags).unwrap_or(u32::MAX)),
            submitters: Submitter::many(processes),
            waiting: [VecDeque::new(), VecDeque::new()],
            known: Vec::new(),
            dispatch: VecDeque::new(),
            flushes: Flushes::default(),
            flush_due: false,
            flushed: Vec::new(),
            busy: 0,
            restart: false,
            rerun: None,
            absorbed: Vec::new(),
            processors: settings
                .processors
                .map(|count| Processors::new(count, name)),
            scheduler,
        }
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
        let Some(merge) = self.merger.find_held(&mut host.requests, last, bio) else {
            return false;
        };
        grow(host, now, merge, bio, access);
        true
    }

    fn merge_in_queue(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        process: usize,
        bio: &Bio,
        access: AccessId,
    ) -> bool {
        if self.scheduler.merges_in_lists() {
            let cpu = self.cpu_of(process);
            let found = self.scheduler.list_partner(&host.requests, bio, cpu);
            let Some(merge @ (Merge::Back(id) | Merge::Front(id))) = found else {
                return false;
            };
            if !self.merger.fits(&mut host.requests, id, bio) {
                return false;
            }
            grow(host, now, merge, bio, access);
            return true;
        }
        let (merger, scheduler) = (&mut self.merger, self.scheduler.as_mut());
        match merge_in_scheduler(merger, scheduler, host, now, bio, access) {
            Found::Nothing => return false,
            Found::Joined => {}
            Found::Closed(absorbed) => self.absorb(host, now, absorbed),
        }
        true
    }

    fn absorb(&mut self, host: &mut Host<'_>, now: Time, absorbed: Absorbed) {
        let Absorbed {
            survivor,
            victim,
            was,
        } = absorbed;
        host.tell(now, Action::Joined, &was, was.process);
        host.accesses.absorb(survivor, victim);
        self.free_tag(host, now, self.known[victim.index()].tag);
    }

    // ---- tags ----------------------------------------------------------------------------

    fn take_tag(&mut self, op: Op, sync: bool) -> Option<u32> {
        let word = self.tags.word();
        let limit = self
            .scheduler
            .limit_depth(op, sync, self.tags.depth(), word);
        self.tags.take_among(limit.unwrap_or(word))
    }

    /// The tag may not be one of those that a process waits for: one of each kind is woken. Those that
    /// have got one since, with a completion of their own, no longer wait.
    fn free_tag(&mut self, host: &mut Host<'_>, now: Time, tag: u32) {
        self.tags.free(tag);
        for kind in 0..self.waiting.len() {
            while let Some(process) = self.waiting[kind].pop_front() {
                if self.is_blocked(process) {
                    host.wake_at(now + host.times.wakeup, process);
                    break;
                }
            }
        }
    }

    fn wait_for_tag(&mut self, process: usize, bio: &Bio) {
        let (depth, word) = (self.tags.depth(), self.tags.word());
        let limit = self.scheduler.limit_depth(bio.op, bio.sync, depth, word);
        let waiting = &mut self.waiting[usize::from(limit.is_some())];
        if !waiting.contains(&process) {
            waiting.push_back(process);
        }
    }

    fn cpu_of(&self, process: usize) -> u16 {
        let cpu = self
            .processors
            .as_ref()
            .map_or(0, |processors| processors.of(process));
        u16::try_from(cpu).unwrap_or(u16::MAX)
    }

    // ---- requests ------------------------------------------------------------------------

    fn new_request(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        process: usize,
        (bio, access): (&Bio, AccessId),
        tag: u32,
    ) {
        let mut request = Request::new(bio, now);
        request.cpu = self.cpu_of(process);
        let id = host.requests.add(request);
        host.accesses.carry(id, access);
        let known = Known {
            id,
            tag,
            issued: now,
            scheduled: false,
            served: false,
        };
        if id.index() >= self.known.len() {
            self.known.resize(id.index() + 1, known);
        }
        self.known[id.index()] = known;
        host.tell_bio(now, Action::Allocated, bio);
        if bio.fua {
            self.dispatch.push_back(id);
            return self.run(host, now, bio.process);
        }
        self.scheduler.prepare(now, &host.requests, id);
        if !self.submitters[process].plugged {
            if !(self.direct && self.busy == 0 && self.issue_directly(host, now, bio.process, id)) {
                self.insert(host, now, bio.process, id, false);
            }
            self.run(host, now, bio.process);
            return;
        }
        if self.submitters[process].is_full(&host.requests, PLUG_REQUESTS) {
            self.flush_plug(host, now, process);
        }
        if self.submitters[process].plug.is_empty() {
            host.tell_plug(now, Action::Plugged, process);
        }
        self.submitters[process].plug.push(id);
    }

    /// What was held back enters the scheduler as it was submitted. Without one it is issued, from
    /// the end of the plug, until the device has no room for the next; that goes before the rest.
    fn flush_plug(&mut self, host: &mut Host<'_>, now: Time, process: usize) {
        if self.submitters[process].plug.is_empty() {
            return;
        }
        let submitter = host.process_id(process);
        let mut plug = std::mem::take(&mut self.submitters[process].plug);
        while self.direct
            && let Some(id) = plug.pop()
        {
            if !self.issue_directly(host, now, submitter, id) {
                self.dispatch.push_back(id);
                break;
            }
        }
        host.tell_plug(now, Action::Unplugged, process);
        for id in plug.drain(..) {
            self.insert(host, now, submitter, id, true);
        }
        self.submitters[process].plug = plug;
        self.run(host, now, submitter);
    }

    fn insert(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        submitter: ProcessId,
        id: RequestId,
        from_plug: bool,
    ) {
        let request = host.requests[id];
        self.known[id.index()].scheduled = true;
        if self.scheduler.merges_in_lists() {
            host.tell(now, Action::Inserted, &request, submitter);
            self.scheduler.insert(now, &host.requests, id);
            return;
        }
        let mut absorbed = std::mem::take(&mut self.absorbed);
        self.merger.insert(
            now,
            &mut host.requests,
            self.scheduler.as_mut(),
            id,
            from_plug,
            &mut absorbed,
        );
        if absorbed.is_empty() {
            host.tell(now, Action::Inserted, &request, submitter);
        }
        for absorbed in absorbed.drain(..) {
            self.absorb(host, now, absorbed);
        }
        self.absorbed = absorbed;
    }

    // ---- the hardware queue --------------------------------------------------------------

    fn has_room(&self, host: &Host<'_>) -> bool {
        host.drive.in_flight() < self.queue_depth
    }

    fn issue_directly(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        submitter: ProcessId,
        id: RequestId,
    ) -> bool {
        let issued = self.has_room(host) && self.dispatch.is_empty();
        if issued {
            self.issue(host, now, submitter, id);
        }
        self.note_busy(!issued);
        issued
    }

    fn note_busy(&mut self, busy: bool) {
        self.busy = (7 * self.busy + if busy { 16 } else { 0 }) / 8;
    }

    /// Gives the device what it takes. In the context of `process`. Only what waits for room, now or
    /// when the run began, makes the next completion run the queue.
    fn run(&mut self, host: &mut Host<'_>, now: Time, process: ProcessId) {
        self.restart |= !self.dispatch.is_empty() || self.flush_due;
        loop {
            if self.flush_due && self.has_room(host) {
                self.flush_due = false;
                host.flush_drive(now, FLUSH);
            }
            if !self.dispatch.is_empty() {
                while self.has_room(host)
                    && let Some(id) = self.dispatch.pop_front()
                {
                    self.issue(host, now, process, id);
                }
                self.note_busy(!self.dispatch.is_empty());
                if !self.dispatch.is_empty() {
                    self.restart = true;
                    return;
                }
            }
            self.ask(host, now, process);
            if self.dispatch.is_empty() {
                return;
            }
        }
    }

    /// Takes from the scheduler: one request, or if the device was not busy of late, as many as there
    /// are tags for. Without a budget, one more than that.
    fn ask(&mut self, host: &mut Host<'_>, now: Time, process: ProcessId) {
        let budget = self.attachment == Attachment::Budget;
        let batch = if self.busy > 0 { 1 } else { usize::MAX };
        while self.scheduler.has_work() && self.dispatch.len() < batch {
            let out = host.drive.in_flight() + self.dispatch.len();
            if budget && out >= self.queue_depth {
                self.restart = true;
                return;
            }
            let Some(id) = self.scheduler.dispatch(now, &host.requests) else {
                self.rerun = Some(self.kernel.asks_again(now));
                return;
            };
            if !self.scheduler.merges_in_lists() {
                self.merger.dispatched(id);
            }
            if !self.direct {
                let request = host.requests[id];
                host.tell(now, Action::Decided, &request, process);
            }
            self.dispatch.push_back(id);
            if out >= self.queue_depth {
                return; // there was no tag for it
            }
        }
    }

    fn issue(&mut self, host: &mut Host<'_>, now: Time, process: ProcessId, id: RequestId) {
        let request = host.requests[id];
        host.tell(now, Action::Issued, &request, process);
        host.drive.note_issue(&request);
        if request.fua {
            self.flushes.write_begins();
        } else {
            self.scheduler.activate(now, &host.requests, id);
        }
        self.known[id.index()].issued = now;
        host.start(now, id);
    }

    /// When the processor of the request has dealt with its completion, if not at once.
    fn served_later(&mut self, now: Time, cpu: u16) -> Option<Time> {
        let processors = self.processors.as_mut()?;
        Some(processors.serve(now, usize::from(cpu)))
    }

    // ---- completions ---------------------------------------------------------------------

    fn request_done(&mut self, host: &mut Host<'_>, now: Time, id: RequestId) {
        let known = self.known[id.index()];
        host.finish(now, id, known.issued);
        if known.scheduled {
            self.scheduler.completed(now, &host.requests, id);
        }
        host.requests.remove(id);
        self.free_tag(host, now, known.tag);
    }

    fn flush_completed(&mut self, host: &mut Host<'_>, now: Time) {
        host.drive.completed(now);
        let mut flushed = std::mem::take(&mut self.flushed);
        flushed.extend(self.flushes.end());
        for step in flushed.drain(..) {
            match step {
                Step::Access(access) => host.flushed(now, access),
                Step::Write(id) => self.request_done(host, now, id),
            }
        }
        self.flushed = flushed;
        self.flush_due |= self.flushes.begin(now);
        self.run(host, now, ProcessId(0));
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
        if merged {
            return;
        }
        let tag = if self.is_blocked(process) {
            None
        } else {
            self.take_tag(bio.op, bio.sync)
        };
        if let Some(tag) = tag {
            self.new_request(host, now, process, (bio, of), tag);
        } else {
            self.wait_for_tag(process, bio);
            self.submitters[process].blocked.push_back((*bio, of));
            self.unplug(host, now, process); // a process that sleeps lets its requests go
        }
    }

    fn unplug(&mut self, host: &mut Host<'_>, now: Time, process: usize) {
        self.flush_plug(host, now, process);
        self.submitters[process].plugged = false;
    }

    fn is_blocked(&self, process: usize) -> bool {
        !self.submitters[process].blocked.is_empty()
    }

    fn resume(&mut self, host: &mut Host<'_>, now: Time, process: usize) {
        if !self.is_blocked(process) {
            return;
        }
        while let Some(&(bio, access)) = self.submitters[process].blocked.front() {
            let Some(tag) = self.take_tag(bio.op, bio.sync) else {
                self.wait_for_tag(process, &bio);
                return;
            };
            self.submitters[process].blocked.pop_front();
            self.new_request(host, now, process, (&bio, access), tag);
        }
        self.unplug(host, now, process);
    }

    fn flush(&mut self, host: &mut Host<'_>, now: Time, process: usize, of: AccessId) {
        self.flushes.ask(now, Step::Access(of));
        self.flush_due |= self.flushes.begin(now);
        self.run(host, now, host.process_id(process));
    }

    /// This block layer does not tell writeback how full it is.
    fn is_congested(&self) -> bool {
        false
    }

    fn completed(&mut self, host: &mut Host<'_>, now: Time, tag: u64) {
        if tag == FLUSH {
            return self.flush_completed(host, now);
        }
        let place = usize::try_from(tag).expect("tags are indices");
        let known = self.known[place];
        let request = host.requests[known.id];
        if !known.served
            && let Some(later) = self.served_later(now, request.cpu)
        {
            self.known[place].served = true;
            host.plan(later, Event::Completed(tag));
            return;
        }
        host.drive.completed(now);
        // As blktrace shows it: the drive is done with it, whoever else has to wait for a flush.
        host.tell(now, Action::Completed, &request, ProcessId(0));
        if request.fua {
            self.flushes.write_ends();
            self.flushes.ask(now, Step::Write(known.id));
        } else {
            self.request_done(host, now, known.id);
        }
        self.flush_due |= self.flushes.begin(now);
        let kick = self.scheduler.take_kick();
        if std::mem::take(&mut self.restart) || kick || self.flush_due {
            self.run(host, now, ProcessId(0));
        }
    }

    fn run_queue(&mut self, host: &mut Host<'_>, now: Time) {
        self.run(host, now, ProcessId(0));
    }

    fn next_timer(&self) -> Option<Time> {
        [self.scheduler.next_timer(), self.rerun]
            .into_iter()
            .flatten()
            .min()
    }

    fn timer(&mut self, host: &mut Host<'_>, now: Time) {
        if self
            .scheduler
            .next_timer()
            .is_some_and(|timer| timer <= now)
        {
            self.scheduler.timer(now, &host.requests);
        }
        if self.rerun.is_some_and(|rerun| rerun <= now) {
            self.rerun = None;
            host.plan(now, Event::RunQueue);
        }
    }

    fn exited(&mut self, host: &mut Host<'_>, now: Time, process: usize) {
        let id = host.process_id(process);
        self.scheduler.process_exited(now, &host.requests, id);
    }
}
