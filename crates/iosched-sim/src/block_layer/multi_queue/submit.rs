//! From a bio to the scheduler: it becomes part of a request, or waits for a tag and becomes one.

use super::super::flush::Step;
use super::super::submitter::Submitter;
use super::super::{
    Outputs, RequestQueue, RequestsMerged, Token, trace_bio, trace_plug, trace_request,
};
use super::throttle::Throttle;
use super::wait_queues::WaitQueueIndex;
use super::{Known, MultiQueue};
use crate::request::{Action, Bio, Op, Request, RequestId};
use crate::scheduler::Rule;
use crate::units::Time;

/// Most requests that a plug holds before it is let go.
const PLUG_REQUESTS: usize = 32;

impl MultiQueue {
    // ---- a bio becomes part of a request -------------------------------------------------

    /// The bio becomes part of the last request in its process's plug, or of one in the scheduler, if
    /// that takes it.
    pub(super) fn merge(
        &mut self,
        out: &mut impl Outputs,
        now: Time,
        bio: &Bio,
        token: Token,
    ) -> bool {
        let Submitter { plug, cpu, .. } = &self.submitters[bio.process.index()];
        let tried = if plug.len() > 1 && self.kernel.merges_oldest_in_plug() {
            plug.first()
        } else {
            plug.last()
        };
        let plug = tried.map_or(&[][..], std::slice::from_ref);
        let (requests, scheduler) = (&mut self.requests, self.scheduler.as_mut());
        let found = self
            .merger
            .merge(now, requests, scheduler, plug, (bio, *cpu));
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
        trace_request(out, now, Action::RequestsMerged, &merged.was, self.current);
        self.carried.join(merged.survivor, merged.victim);
        self.free_tag(out, now, merged.victim);
    }

    // ---- or a request --------------------------------------------------------------------

    /// The bio becomes a request, or its process sleeps until there is a tag.
    #[inline(always)]
    pub(super) fn allocate(&mut self, out: &mut impl Outputs, now: Time, bio: &Bio, token: Token) {
        let process = bio.process.index();
        let tag = if self.submitters[process].is_blocked() {
            None
        } else {
            self.take_tag(now, bio, None)
        };
        if let Some(tag) = tag {
            self.new_request(out, now, (bio, token), tag);
        } else {
            self.submitters[process].blocked.push_back((*bio, token));
            self.run_before_sleep(out, now, process);
            self.unplug(out, now, process); // a process that sleeps lets its requests go
        }
    }

    /// A process that finds no tag runs the queue itself, if a worker has not done so yet, before it sleeps
    /// (`blk_mq_get_tag`).
    fn run_before_sleep(&mut self, out: &mut impl Outputs, now: Time, process: usize) {
        let number = self.queue_of(process);
        if !self.delays.queue_run.is_zero() && self.queues[number].hw.delayed_run().is_some() {
            self.run(out, now, number);
        }
    }

    /// A tag for the bio, if write-back throttling lets it pass and there is one; otherwise the process
    /// waits.
    #[inline]
    pub(super) fn take_tag(
        &mut self,
        now: Time,
        bio: &Bio,
        place: Option<WaitQueueIndex>,
    ) -> Option<u32> {
        if self.throttle.is_some() {
            return self.take_tag_if_admitted(now, bio, place);
        }
        self.take_free_tag(bio, place)
    }

    fn take_tag_if_admitted(
        &mut self,
        now: Time,
        bio: &Bio,
        place: Option<WaitQueueIndex>,
    ) -> Option<u32> {
        let process = bio.process.index();
        let throttle = self.throttle.as_mut()?;
        let sort = throttle.sort(bio);
        if let Some(sort) = sort
            && !throttle.admit(now, process, sort)
        {
            return None;
        }
        let tag = self.take_free_tag(bio, place);
        if let (None, Some(throttle), Some(_)) = (tag, &mut self.throttle, sort) {
            throttle.keep_admitted(process);
        }
        tag
    }

    #[inline(always)]
    fn take_free_tag(&mut self, bio: &Bio, place: Option<WaitQueueIndex>) -> Option<u32> {
        let process = bio.process.index();
        let number = self.queue_of(process);
        let scheduler = self.scheduler.as_ref();
        let op = if bio.is_flush() { Op::Read } else { bio.op }; // schedulers do not limit a flush
        let tags = &mut self.queues[number].tags;
        // Said once for each request (`blk_mq_limit_depth`): who sleeps for a tag wakes with the limit
        // that it fell asleep with.
        let limit = match place {
            Some(_) => self.submitters[process].tag_limit,
            None => tags.limit(scheduler, (bio.process, op, bio.sync)),
        };
        let tag = tags.take(limit, (process, place));
        if tag.is_none() {
            self.submitters[process].tag_limit = limit;
            self.waiters.sleeps(process);
        }
        tag
    }

    #[inline]
    pub(super) fn new_request(
        &mut self,
        out: &mut impl Outputs,
        now: Time,
        (bio, token): (&Bio, Token),
        tag: u32,
    ) {
        let process = bio.process.index();
        let mut request = Request::new(bio, now);
        request.cpu = self.submitters[process].cpu;
        let id = self.requests.add(request);
        self.carried.begin(out, now, id, token);
        let queue = self.queue_of(process);
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
            return self.run(out, now, 0);
        }
        trace_bio(out, now, Action::Allocated, bio);
        if bio.fua {
            self.queues[queue].hw.dispatch.push_back(id);
            return self.run(out, now, queue);
        }
        self.scheduler.prepare(now, &self.requests, id);
        if !self.submitters[process].plugged {
            return self.insert_alone(out, now, id);
        }
        let plug = &self.submitters[process].plug;
        let head = if plug.len() > 1 && self.kernel.follows(Rule::PlugInOrder) {
            plug.first()
        } else {
            plug.last()
        };
        let head = head.copied();
        if self.submitters[process].is_full(&self.requests, PLUG_REQUESTS, head) {
            self.flush_plug(out, now, process);
        }
        self.submitters[process].hold(out, now, process, id);
    }

    // ---- into the scheduler --------------------------------------------------------------

    /// A request outside of a plug is issued at once where there is no scheduler, or enters it.
    #[inline(always)]
    fn insert_alone(&mut self, out: &mut impl Outputs, now: Time, id: RequestId) {
        let queue = self.known[id].queue;
        let at_once = self.direct && !self.queues[queue].hw.is_busy();
        if !(at_once && self.issue_directly(out, now, id)) {
            self.insert(out, now, id, false);
        }
        self.queues[queue].hw.inserted_alone(&self.kernel);
        self.run(out, now, queue);
    }

    /// What was held back enters the scheduler as it was submitted. Without one it is issued, in order or from
    /// the end of the plug ([`Rule::PlugInOrder`]), until the device has no room for the next; that goes before the rest.
    pub(super) fn flush_plug(&mut self, out: &mut impl Outputs, now: Time, process: usize) {
        let queue = self.queue_of(process);
        let mut plug = std::mem::take(&mut self.submitters[process].plug);
        let reversed = self.direct && self.kernel.follows(Rule::PlugInOrder);
        if reversed {
            plug.reverse();
        }
        while self.direct
            && let Some(id) = plug.pop()
        {
            if !self.issue_directly(out, now, id) {
                self.queues[queue].hw.dispatch.push_back(id);
                break;
            }
        }
        if reversed {
            plug.reverse();
        }
        trace_plug(out, now, Action::Unplugged, process);
        for id in plug.drain(..) {
            self.insert(out, now, id, true);
        }
        self.submitters[process].plug = plug;
        self.run(out, now, queue);
    }

    #[inline(always)]
    fn insert(&mut self, out: &mut impl Outputs, now: Time, id: RequestId, from_plug: bool) {
        self.known[id].scheduled = true;
        self.merger.insert(
            now,
            &mut self.requests,
            self.scheduler.as_mut(),
            id,
            from_plug,
            &mut self.merged,
        );
        if self.merged.is_empty() {
            trace_request(out, now, Action::Inserted, &self.requests[id], self.current);
        } else {
            self.all_requests_merged(out, now);
        }
    }

    fn all_requests_merged(&mut self, out: &mut impl Outputs, now: Time) {
        let mut all = std::mem::take(&mut self.merged);
        for merged in all.drain(..) {
            self.requests_merged(out, now, &merged);
        }
        self.merged = all;
    }
}
