//! Linux 4.19's single-queue path.
//!
//! A process that keeps several accesses in flight plugs them; bios merge; a request waits for a free
//! place in the pool; a flush goes to the device before everything else, and so does a write that is
//! to be on the medium, which a flush follows (no drive is taken to know better); the driver asks the
//! scheduler after each unplug, unplugged insert, completion and timer, and looks at one request more
//! than the device takes, which then cannot be overtaken.

use std::collections::VecDeque;

use super::access::AccessId;
use super::agenda::Event;
use super::flush::{FLUSH, Flushes, Flushing, Step};
use super::host::Host;
use super::merging::{Found, merge_in_plug, merge_in_scheduler};
use super::path::Path;
use super::pool::{Allocation, Pool};
use super::submitter::Submitter;
use crate::block_layer::{MergeLimits, Merger, RequestsMerged};
use crate::by_request::ByRequest;
use crate::request::{Bio, ProcessId, Request, RequestId};
use crate::scheduler::Scheduler;
use crate::trace::kernel::Action;
use crate::units::Time;

/// Most requests that a plug holds before it is let go.
const PLUG_REQUESTS: usize = 16;

/// See the [module's page](self).
pub(super) struct SingleQueue {
    scheduler: Box<dyn Scheduler>,
    merger: Merger,
    queue_depth: usize,
    /// By process.
    submitters: Vec<Submitter>,
    pool: Pool,
    flushes: Flushes,
    /// Writes that a flush is to follow: they go to the device past the scheduler.
    past_scheduler: VecDeque<RequestId>,
    /// When the driver took up what it has.
    issued: ByRequest<Option<Time>>,
    /// Looked at by the driver, not yet taken by the device.
    held: Option<RequestId>,
    /// The device has given it back.
    given_back: bool,
    absorbed: Vec<RequestsMerged>,
}

impl SingleQueue {
    pub(super) fn new(
        limits: &MergeLimits,
        scheduler: Box<dyn Scheduler>,
        queue_depth: usize,
        nr_requests: usize,
        processes: usize,
    ) -> SingleQueue {
        SingleQueue {
            scheduler,
            merger: Merger::new(*limits, false),
            queue_depth: queue_depth.max(1),
            submitters: Submitter::many(processes),
            pool: Pool::new(nr_requests, processes),
            flushes: Flushes::default(),
            past_scheduler: VecDeque::new(),
            issued: ByRequest::default(),
            held: None,
            given_back: false,
            absorbed: Vec::new(),
        }
    }

    fn heed_kick(&mut self, host: &mut Host<'_>, now: Time) {
        if self.scheduler.take_kick().is_some() {
            host.plan(now + host.times.worker, Event::RunQueue);
        }
    }

    // ---- merging -------------------------------------------------------------------------

    fn merge_in_plug(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        process: usize,
        bio: &Bio,
        access: AccessId,
    ) -> bool {
        let plug = &self.submitters[process].plug;
        merge_in_plug(&self.merger, host, now, plug, bio, access)
    }

    fn merge_in_queue(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        bio: &Bio,
        access: AccessId,
    ) -> bool {
        let (merger, scheduler) = (&mut self.merger, self.scheduler.as_mut());
        match merge_in_scheduler(merger, scheduler, host, now, (bio, 0), access) {
            Found::Nothing => return false,
            Found::Merged => {}
            Found::Closed(absorbed) => self.absorb(host, now, absorbed),
        }
        true
    }

    fn absorb(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        RequestsMerged {
            survivor,
            victim,
            was,
        }: RequestsMerged,
    ) {
        host.accesses.absorb(survivor, victim);
        self.free_request(host, now, was.sync); // the survivor may be another one's victim by now
    }

    // ---- requests ------------------------------------------------------------------------

    /// True if the process may have a request for this bio; if not, it sleeps until it may.
    fn allocate(&mut self, now: Time, process: usize, bio: &Bio) -> bool {
        let must = self.scheduler.must_allocate(bio.process, bio.sync);
        let given = self.pool.allocate(now, process, bio.sync, must) == Allocation::Given;
        if !given {
            self.pool.wait(process, bio.sync);
        }
        given
    }

    fn free_request(&mut self, host: &mut Host<'_>, now: Time, sync: bool) {
        let submitters = &self.submitters;
        let waits = |process: usize| submitters[process].waits_for(sync);
        if let Some(process) = self.pool.free(sync, waits) {
            host.wake_at(now + host.times.wakeup, process);
        }
    }

    fn new_request(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        process: usize,
        bio: &Bio,
        access: AccessId,
    ) {
        let id = host.requests.add(Request::new(bio, now));
        host.accesses.carry(now, id, access);
        if bio.fua {
            host.tell_bio(now, Action::Allocated, bio);
            self.past_scheduler.push_back(id);
            return self.ask(host, now, bio.process);
        }
        self.scheduler.prepare(now, &host.requests, id);
        host.tell_bio(now, Action::Allocated, bio);
        if !self.submitters[process].plugged {
            self.insert(host, now, process, id, false);
            self.ask(host, now, bio.process);
            return;
        }
        if self.submitters[process].is_full(&host.requests, PLUG_REQUESTS) {
            self.flush_plug(host, now, process);
        }
        self.submitters[process].hold(host, now, process, id);
    }

    /// What was held back enters the scheduler in order of position, then the queue is run.
    fn flush_plug(&mut self, host: &mut Host<'_>, now: Time, process: usize) {
        if self.submitters[process].plug.is_empty() {
            return;
        }
        if let [only] = self.submitters[process].plug[..] {
            self.submitters[process].plug.clear();
            self.insert(host, now, process, only, true);
        } else {
            let mut plug = std::mem::take(&mut self.submitters[process].plug);
            plug.sort_by_key(|&id| host.requests[id].start);
            for id in plug.drain(..) {
                self.insert(host, now, process, id, true);
            }
            self.submitters[process].plug = plug;
        }
        host.tell_plug(now, Action::Unplugged, process);
        self.ask(host, now, host.process_id(process));
    }

    fn insert(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        process: usize,
        id: RequestId,
        from_plug: bool,
    ) {
        let submitter = host.process_id(process);
        host.tell_request(now, Action::Inserted, id, submitter);
        let at_once = self.merger.insert(
            now,
            &mut host.requests,
            self.scheduler.as_mut(),
            id,
            from_plug,
            &mut self.absorbed,
        );
        if !self.absorbed.is_empty() {
            let mut absorbed = std::mem::take(&mut self.absorbed);
            for absorbed in absorbed.drain(..) {
                self.absorb(host, now, absorbed);
            }
            self.absorbed = absorbed;
        }
        if at_once {
            self.ask(host, now, submitter);
        }
    }

    // ---- the driver ----------------------------------------------------------------------

    /// Gives the device what it takes, and looks at one request more. In the context of `process`.
    fn ask(&mut self, host: &mut Host<'_>, now: Time, process: ProcessId) {
        loop {
            if self.flushes.is_due() {
                if !self.has_room(host) || !host.drive.accepts() {
                    return;
                }
                self.flushes.issued();
                host.flush_drive(now, FLUSH, process);
            }
            if let Some(&id) = self.past_scheduler.front() {
                if !self.has_room(host) || !host.drive.accepts() {
                    return;
                }
                self.past_scheduler.pop_front();
                self.flushes.write_begins();
                self.note_issue(host, now, id, process);
                host.start(now, id);
                continue;
            }
            if let Some(held) = self.held {
                if !self.has_room(host) || !self.is_accepted(host, now, held, process) {
                    return;
                }
                self.held = None;
                host.start(now, held);
            }
            let Some(id) = self.scheduler.dispatch(now, &host.requests) else {
                return;
            };
            self.merger.dispatched(id);
            self.scheduler.activate(now, &host.requests, id);
            self.note_issue(host, now, id, process);
            self.held = Some(id);
        }
    }

    fn has_room(&self, host: &Host<'_>) -> bool {
        host.drive.in_flight() < self.queue_depth
    }

    /// The driver sends the request that it looked at; the disk may give it back. Then it stays at the
    /// head, and is sent again when a command has completed: there is one, or the disk would take it.
    fn is_accepted(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        held: RequestId,
        process: ProcessId,
    ) -> bool {
        let accepts = host.drive.accepts();
        if accepts && self.given_back {
            self.scheduler.activate(now, &host.requests, held);
            host.tell_request(now, Action::Issued, held, process);
            self.issued[held] = Some(now);
        } else if !accepts && !self.given_back {
            self.scheduler.deactivate(now, &host.requests, held);
            host.tell_request(now, Action::GivenBack, held, process);
        }
        self.given_back = !accepts;
        accepts
    }

    fn note_issue(&mut self, host: &mut Host<'_>, now: Time, id: RequestId, process: ProcessId) {
        host.tell_request(now, Action::Issued, id, process);
        host.drive.note_issue(&host.requests[id]);
        self.issued.set(id, Some(now));
    }
}

impl Flushing for SingleQueue {
    fn flushes(&mut self) -> &mut Flushes {
        &mut self.flushes
    }

    fn request_done(&mut self, host: &mut Host<'_>, now: Time, id: RequestId) {
        let issued = self.issued[id].take();
        host.finish(now, id, issued.expect("a request is done once"));
        if !host.requests[id].fua {
            self.scheduler.completed(now, &host.requests, id);
        }
        let request = host.requests.remove(id);
        self.free_request(host, now, request.sync);
    }
}

impl Path for SingleQueue {
    fn plug(&mut self, process: usize) {
        self.submitters[process].plugged = true;
    }

    fn submit(&mut self, host: &mut Host<'_>, now: Time, process: usize, bio: &Bio, of: AccessId) {
        host.tell_bio(now, Action::Queued, bio);
        let merged = !bio.fua
            && (self.merge_in_plug(host, now, process, bio, of)
                || self.merge_in_queue(host, now, bio, of));
        if merged {
            return;
        }
        if self.is_blocked(process) || !self.allocate(now, process, bio) {
            self.submitters[process].blocked.push_back((*bio, of));
            self.unplug(host, now, process); // a process that sleeps lets its requests go
            return;
        }
        self.new_request(host, now, process, bio, of);
    }

    fn unplug(&mut self, host: &mut Host<'_>, now: Time, process: usize) {
        self.flush_plug(host, now, process);
        self.submitters[process].plugged = false;
    }

    fn is_blocked(&self, process: usize) -> bool {
        self.submitters[process].is_blocked()
    }

    fn resume(&mut self, host: &mut Host<'_>, now: Time, process: usize) {
        if !self.is_blocked(process) {
            return;
        }
        self.pool.woken(now, process);
        while let Some(&(bio, access)) = self.submitters[process].blocked.front() {
            if !self.allocate(now, process, &bio) {
                break;
            }
            self.submitters[process].blocked.pop_front();
            self.new_request(host, now, process, &bio, access);
        }
        self.unplug(host, now, process);
    }

    fn flush(&mut self, host: &mut Host<'_>, now: Time, process: usize, of: AccessId) {
        self.flushes.ask(now, Step::Access(of));
        self.flushes.begin(now);
        self.ask(host, now, host.process_id(process));
    }

    fn is_congested(&self) -> bool {
        self.pool.is_congested()
    }

    fn completed(&mut self, host: &mut Host<'_>, now: Time, tag: u64) {
        if tag == FLUSH {
            self.flush_done(host, now);
            return self.ask(host, now, ProcessId(0));
        }
        self.drive_done(host, now, RequestId::of_tag(tag));
        self.ask(host, now, ProcessId(0));
        self.heed_kick(host, now);
    }

    fn run_queue(&mut self, host: &mut Host<'_>, now: Time) {
        self.ask(host, now, ProcessId(0));
    }

    fn next_timer(&self) -> Option<Time> {
        self.scheduler.next_timer()
    }

    fn timer(&mut self, host: &mut Host<'_>, now: Time) {
        self.scheduler.timer(now, &host.requests);
        self.heed_kick(host, now);
    }

    fn exited(&mut self, host: &mut Host<'_>, now: Time, process: usize) {
        let id = host.process_id(process);
        self.scheduler.process_exited(now, &host.requests, id);
        self.heed_kick(host, now);
    }
}
