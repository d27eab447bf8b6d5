//! Linux 4.19's single-queue block layer.
//!
//! A process that submits several bios plugs them; bios merge; a request waits for a free place in the
//! pool; a flush goes to the device before all other requests, and so does a write that has to reach the
//! medium, which a flush follows (no drive is assumed to support FUA); the driver asks the scheduler after
//! each unplug, unplugged insert, completion and timer, and fetches one request more than the device
//! accepts, which is then fixed as the next.
//!
//! Follows `block/blk-core.c` and `drivers/scsi/scsi_lib.c` (Linux 4.9 and 4.19).

use std::collections::VecDeque;

use super::carried::Carried;
use super::flush::{FLUSH, Flushes, Flushing, Step};
use super::pool::{Allocation, Pool};
use super::submitter::Submitter;
use super::{
    Delays, Device, MergeLimits, Merger, Outputs, RequestQueue, RequestsMerged, Token, trace_bio,
    trace_plug, trace_request,
};
use crate::request::{Action, Bio, ProcessId, Request, RequestId, Requests};
use crate::request_table::ByRequest;
use crate::scheduler::Elevator;
use crate::units::Time;

/// Most requests that a plug holds before it is let go.
const PLUG_REQUESTS: usize = 16;

/// What a single-queue block layer is like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SingleQueueParameters {
    pub(crate) limits: MergeLimits,
    /// Commands that the driver gives to the device at a time.
    pub(crate) queue_depth: usize,
    /// Commands that the device accepts, if it gives back what is more.
    pub(crate) device_limit: Option<usize>,
    /// Requests of each kind that may exist.
    pub(crate) nr_requests: usize,
    pub(crate) processes: usize,
    pub(crate) delays: Delays,
}

/// The driver asks the scheduler while it has looked at no more requests than the device takes: so it
/// looks at one more, before it checks whether there is room.
pub fn looks_further(outstanding: usize, queue_depth: usize) -> bool {
    outstanding <= queue_depth
}

pub(crate) struct SingleQueue {
    scheduler: Box<dyn Elevator>,
    /// Who runs, for those who watch; process 0 is a worker or an interrupt.
    current: ProcessId,
    requests: Requests,
    carried: Carried,
    merger: Merger,
    queue_depth: usize,
    device: Device,
    delays: Delays,
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
    requeued: bool,
    merged: Vec<RequestsMerged>,
}

impl SingleQueue {
    pub(crate) fn new(
        scheduler: Box<dyn Elevator>,
        settings: &SingleQueueParameters,
    ) -> SingleQueue {
        SingleQueue {
            merger: Merger::new(settings.limits, scheduler.as_ref()),
            scheduler,
            current: ProcessId(0),
            requests: Requests::default(),
            carried: Carried::new(),
            queue_depth: settings.queue_depth.max(1),
            device: Device::new(settings.device_limit),
            delays: settings.delays,
            submitters: Submitter::many(settings.processes, 1),
            pool: Pool::new(settings.nr_requests, settings.processes),
            flushes: Flushes::default(),
            past_scheduler: VecDeque::new(),
            issued: ByRequest::default(),
            held: None,
            requeued: false,
            merged: Vec::new(),
        }
    }
}

impl RequestQueue for SingleQueue {
    fn plug(&mut self, process: usize) {
        self.submitters[process].plugged = true;
    }

    fn submit(&mut self, out: &mut impl Outputs, now: Time, bio: &Bio, token: Token) {
        self.current = bio.process;
        trace_bio(out, now, Action::Queued, bio);
        if !bio.fua && self.merge(out, now, bio, token) {
            return;
        }
        let process = bio.process.index();
        if self.is_blocked(process) || !self.allocate(now, bio) {
            self.submitters[process].blocked.push_back((*bio, token));
            self.unplug(out, now, process); // a process that sleeps lets its requests go
            return;
        }
        self.new_request(out, now, bio, token);
    }

    fn flush(&mut self, out: &mut impl Outputs, now: Time, bio: &Bio, token: Token) {
        self.current = bio.process;
        self.flushes.ask(now, Step::Bio(token));
        self.flushes.begin(now);
        self.run(out, now);
    }

    fn unplug(&mut self, out: &mut impl Outputs, now: Time, process: usize) {
        self.current = ProcessId::of_index(process);
        self.flush_plug(out, now, process);
        self.submitters[process].plugged = false;
    }

    fn resume(&mut self, out: &mut impl Outputs, now: Time, process: usize) {
        if !self.is_blocked(process) {
            return;
        }
        self.current = ProcessId::of_index(process);
        self.pool.woken(now, process);
        while let Some(&(bio, token)) = self.submitters[process].blocked.front() {
            if !self.allocate(now, &bio) {
                break;
            }
            self.submitters[process].blocked.pop_front();
            self.new_request(out, now, &bio, token);
        }
        self.unplug(out, now, process);
    }

    fn exited(&mut self, out: &mut impl Outputs, now: Time, process: usize) {
        let id = ProcessId::of_index(process);
        self.scheduler.process_exited(now, &self.requests, id);
        self.call_worker(out, now);
    }

    fn completed(&mut self, out: &mut impl Outputs, now: Time, tag: u64) {
        self.current = ProcessId(0);
        self.device.in_flight -= 1;
        if tag == FLUSH {
            self.flush_done(out, now);
            return self.run(out, now);
        }
        let id = RequestId::of_tag(tag);
        let request = &self.requests[id];
        // As blktrace shows it: the device is done with it, whoever else has to wait for a flush.
        trace_request(out, now, Action::Completed, request, self.current);
        let is_followed = request.fua;
        self.device_done(out, now, id, is_followed);
        self.run(out, now);
        self.call_worker(out, now);
    }

    fn timer(&mut self, out: &mut impl Outputs, now: Time) {
        self.scheduler.timer(now, &self.requests);
        self.call_worker(out, now);
    }

    fn run_queue(&mut self, out: &mut impl Outputs, now: Time) {
        self.current = ProcessId(0);
        self.run(out, now);
    }

    fn next_timer(&self) -> Option<Time> {
        self.scheduler.next_timer()
    }

    fn is_blocked(&self, process: usize) -> bool {
        self.submitters[process].is_blocked()
    }

    fn is_congested(&self) -> bool {
        self.pool.is_congested()
    }

    fn carried(&self, tag: u64, each: impl FnMut(Token)) {
        if tag != FLUSH {
            self.carried.each(RequestId::of_tag(tag), each);
        }
    }

    fn cpu_of(&self, _tag: u64) -> usize {
        0
    }
}

impl SingleQueue {
    // ---- a bio becomes part of a request, or a request -----------------------------------

    /// The bio becomes part of a request in its process's plug, or in the scheduler, if one takes it.
    fn merge(&mut self, out: &mut impl Outputs, now: Time, bio: &Bio, token: Token) -> bool {
        let plug = &self.submitters[bio.process.index()].plug;
        let (requests, scheduler) = (&mut self.requests, self.scheduler.as_mut());
        let found = self.merger.merge(now, requests, scheduler, plug, (bio, 0));
        let Some((merge, closed)) = found else {
            return false;
        };
        self.carried.merged(out, now, (bio, token), merge);
        if let Some(closed) = closed {
            self.requests_merged(out, now, &closed);
        }
        true
    }

    fn requests_merged(&mut self, out: &mut impl Outputs, now: Time, merged: &RequestsMerged) {
        self.carried.join(merged.survivor, merged.victim);
        // The survivor may be another one's victim by now.
        self.free_request(out, now, merged.was.sync);
    }

    /// True if the process may have a request for this bio; if not, it sleeps until it may.
    fn allocate(&mut self, now: Time, bio: &Bio) -> bool {
        let process = bio.process.index();
        let must = self.scheduler.must_allocate(bio.process, bio.sync);
        let given = self.pool.allocate(now, process, bio.sync, must) == Allocation::Given;
        if !given {
            self.pool.wait(process, bio.sync);
        }
        given
    }

    fn free_request(&mut self, out: &mut impl Outputs, now: Time, sync: bool) {
        let submitters = &self.submitters;
        let waits = |process: usize| submitters[process].waits_for(sync);
        if let Some(process) = self.pool.free(sync, waits) {
            out.wake(now + self.delays.wakeup, process);
        }
    }

    fn new_request(&mut self, out: &mut impl Outputs, now: Time, bio: &Bio, token: Token) {
        let id = self.requests.add(Request::new(bio, now));
        self.carried.begin(out, now, id, token);
        if bio.fua {
            trace_bio(out, now, Action::Allocated, bio);
            self.past_scheduler.push_back(id);
            return self.run(out, now);
        }
        self.scheduler.prepare(now, &self.requests, id);
        trace_bio(out, now, Action::Allocated, bio);
        let process = bio.process.index();
        if !self.submitters[process].plugged {
            self.insert(out, now, id, false);
            return self.run(out, now);
        }
        let last = self.submitters[process].plug.last().copied();
        if self.submitters[process].is_full(&self.requests, PLUG_REQUESTS, last) {
            self.flush_plug(out, now, process);
        }
        self.submitters[process].hold(out, now, process, id);
    }

    // ---- into the scheduler --------------------------------------------------------------

    /// What was held back enters the scheduler in order of position, then the queue is run.
    fn flush_plug(&mut self, out: &mut impl Outputs, now: Time, process: usize) {
        if self.submitters[process].plug.is_empty() {
            return;
        }
        if let [only] = self.submitters[process].plug[..] {
            self.submitters[process].plug.clear();
            self.insert(out, now, only, true);
        } else {
            let mut plug = std::mem::take(&mut self.submitters[process].plug);
            plug.sort_by_key(|&id| self.requests[id].start);
            for id in plug.drain(..) {
                self.insert(out, now, id, true);
            }
            self.submitters[process].plug = plug;
        }
        trace_plug(out, now, Action::Unplugged, process);
        self.run(out, now);
    }

    fn insert(&mut self, out: &mut impl Outputs, now: Time, id: RequestId, from_plug: bool) {
        trace_request(out, now, Action::Inserted, &self.requests[id], self.current);
        let at_once = self.merger.insert(
            now,
            &mut self.requests,
            self.scheduler.as_mut(),
            id,
            from_plug,
            &mut self.merged,
        );
        if !self.merged.is_empty() {
            let mut merged = std::mem::take(&mut self.merged);
            for merged in merged.drain(..) {
                self.requests_merged(out, now, &merged);
            }
            self.merged = merged;
        }
        if at_once {
            self.run(out, now);
        }
    }

    // ---- from the scheduler to the device ------------------------------------------------

    /// Gives the device what it takes, and looks at one request more.
    fn run(&mut self, out: &mut impl Outputs, now: Time) {
        loop {
            if self.flushes.is_due() {
                if !self.has_room() || !self.device.is_accepting() {
                    return;
                }
                self.flushes.issued();
                self.device.flush(out, now, self.current);
            }
            if let Some(&id) = self.past_scheduler.front() {
                if !self.has_room() || !self.device.is_accepting() {
                    return;
                }
                self.past_scheduler.pop_front();
                self.flushes.write_begins();
                self.take_up(out, now, id);
                self.issue(out, now, id);
                continue;
            }
            if let Some(held) = self.held {
                let outstanding = self.device.in_flight + 1;
                if !looks_further(outstanding, self.queue_depth)
                    || !self.send_or_requeue(out, now, held)
                {
                    return;
                }
                self.held = None;
                self.issue(out, now, held);
            }
            let Some(id) = self.scheduler.dispatch(now, &self.requests, 0) else {
                return;
            };
            self.merger.dispatched(self.scheduler.as_mut(), id);
            self.scheduler.activate(now, &self.requests, id);
            self.take_up(out, now, id);
            self.held = Some(id);
        }
    }

    fn has_room(&self) -> bool {
        self.device.in_flight < self.queue_depth
    }

    /// The driver sends the request that it looked at; the device may give it back. Then it stays at
    /// the head, and is sent again when a command has completed: there is one, or the device would
    /// take it.
    fn send_or_requeue(&mut self, out: &mut impl Outputs, now: Time, held: RequestId) -> bool {
        let accepts = self.device.is_accepting();
        if accepts && self.requeued {
            self.scheduler.activate(now, &self.requests, held);
            trace_request(out, now, Action::Issued, &self.requests[held], self.current);
            self.issued[held] = Some(now);
        } else if !accepts && !self.requeued {
            self.scheduler.deactivate(now, &self.requests, held);
            trace_request(
                out,
                now,
                Action::Requeued,
                &self.requests[held],
                self.current,
            );
        }
        self.requeued = !accepts;
        accepts
    }

    fn take_up(&mut self, out: &mut impl Outputs, now: Time, id: RequestId) {
        let request = &self.requests[id];
        trace_request(out, now, Action::Issued, request, self.current);
        out.took_up(request);
        self.issued.set(id, Some(now));
    }

    fn issue(&mut self, out: &mut impl Outputs, now: Time, id: RequestId) {
        self.device.issue(out, now, id, &self.requests[id]);
    }

    /// A worker runs the queue if the scheduler asked for one.
    fn call_worker(&mut self, out: &mut impl Outputs, now: Time) {
        if self.scheduler.take_queue_run_request().is_some() {
            out.call_worker(now + self.delays.worker);
        }
    }
}

impl Flushing for SingleQueue {
    fn flushes(&mut self) -> &mut Flushes {
        &mut self.flushes
    }

    fn request_done(&mut self, out: &mut impl Outputs, now: Time, id: RequestId) {
        let issued = self.issued[id].take();
        let issued = issued.expect("a request is done once");
        self.carried
            .end(id, |token| out.answered(now, token, issued));
        if !self.requests[id].fua {
            self.scheduler.completed(now, &self.requests, id);
        }
        let request = self.requests.remove(id);
        self.free_request(out, now, request.sync);
    }
}
