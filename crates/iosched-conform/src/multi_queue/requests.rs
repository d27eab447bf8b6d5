//! The life of a request in a recording: allocated, merged, inserted, issued, completed.

use iosched_facts::units::Time;
use iosched_sim::block_layer::Merger;
use iosched_sim::request::{Bio, Merge, Op, Request, RequestId};
use iosched_sim::scheduler::Rule;
use iosched_sim::trace::kernel::Action;

use super::super::recording::Step;
use super::Follower;

/// Most requests that a plug holds.
const PLUG_REQUESTS: usize = 32;

/// Requests among which one is looked for.
pub(super) trait List<'a>: IntoIterator<Item = &'a RequestId> + Clone {}

impl<'a, T: IntoIterator<Item = &'a RequestId> + Clone> List<'a> for T {}

impl Follower<'_> {
    /// The request that an event is about: the one that covers exactly its sectors, or else one that
    /// begins there.
    pub(super) fn find<'a>(&self, among: impl List<'a>, step: &Step) -> Option<RequestId> {
        let exact = self.find_exactly(among.clone(), step);
        exact.or_else(|| self.starting(among, step).next())
    }

    fn find_exactly<'a>(&self, among: impl List<'a>, step: &Step) -> Option<RequestId> {
        self.starting(among, step)
            .find(|&id| self.requests[id].length == step.length)
    }

    fn starting<'a>(&self, among: impl List<'a>, step: &Step) -> impl Iterator<Item = RequestId> {
        among.into_iter().copied().filter(|&id| {
            let request = &self.requests[id];
            request.start == step.start && step.op.is_none_or(|op| op == request.op)
        })
    }

    /// The request is one of the process that did this.
    fn is_of(&self, step: &Step, id: RequestId) -> bool {
        self.requests[id].process == step.process
    }

    fn bio(step: &Step, op: Op) -> Bio {
        Bio {
            op,
            start: step.start,
            length: step.length,
            sync: step.sync,
            sync_flag: step.sync_flag,
            noidle: false,
            fua: false,
            prio: false,
            process: step.process,
            priority: step.priority.unwrap_or_default(),
        }
    }

    /// A request of the process's plug was merged as it entered the scheduler: its line is that of a merge,
    /// but no bio was submitted right before it.
    pub(super) fn joins_at_insertion(&self, at: usize) -> bool {
        let step = &self.steps[at];
        let before = at.checked_sub(1).map(|before| &self.steps[before]);
        let of_bio = before.is_some_and(|before| {
            before.action == Action::Queued
                && before.process == step.process
                && before.start == step.start
        });
        let own = self.held.iter().filter(|id| self.is_of(step, **id));
        !of_bio && self.find_exactly(own, step).is_some()
    }

    /// A process submits a bio: the kernel looks for a request in the scheduler that takes it, if none of
    /// the process's plug does. Where none of its next events tells that it was merged, what it touches had
    /// no room: that takes no more from now on.
    pub(super) fn submitted(&mut self, at: usize, op: Op) {
        self.forget_old_plug(at);
        let step = &self.steps[at];
        let next = self.coming.of_process_after(at);
        let next = next.map(|next| &self.steps[next]);
        let merged = |next: &Step| matches!(next.action, Action::BackMerged | Action::FrontMerged);
        let held = self.plug_partner(step, op);
        let stays_in_plug = held.is_some() && next.is_some_and(merged);
        self.offer(step, op, stays_in_plug);
        if next.is_none_or(merged) {
            return;
        }
        let back = self.partner(step, op, true);
        let queued = back.or_else(|| self.partner(step, op, false));
        for full in [held.map(Merge::request), queued].into_iter().flatten() {
            self.merger.mark_full(&mut self.requests, full);
        }
    }

    /// A process submits a bio after it let its plug go: what it could not issue of that waits before the device. Of a
    /// full plug the request that did not fit begins the next one.
    fn forget_old_plug(&mut self, at: usize) {
        let step = &self.steps[at];
        let before = self.coming.of_process_before(at);
        let before = before.map(|before| self.steps[before].action);
        if !step.after_unplug && !matches!(before, Some(Action::Issued | Action::Inserted)) {
            return;
        }
        let own = |id: &&RequestId| self.is_of(step, **id) && self.in_plug[**id];
        let mut own: Vec<RequestId> = self.held.iter().filter(own).copied().collect();
        own.truncate(own.len() - usize::from(own.len() > PLUG_REQUESTS));
        for id in own {
            self.in_plug.set(id, false);
        }
    }

    /// Notes where in the scheduler a bio goes by the rules, if it gets there.
    fn offer(&mut self, step: &Step, op: Op, stays_in_plug: bool) {
        let (requests, scheduler) = (&self.requests, self.scheduler.as_mut());
        let bio = Self::bio(step, op);
        let found = if stays_in_plug {
            None
        } else {
            let merger = &self.merger;
            merger.find(step.time, requests, scheduler, &bio, step.cpu)
        };
        self.offered.insert(step.process, found);
    }

    pub(super) fn allocated(&mut self, step: &Step, op: Op) {
        if self.requests.count() >= self.most_under_way {
            self.give_up_on_the_older_half(step.time);
        }
        let start = step.exact.unwrap_or(step.time);
        let mut request = Request::new(&Self::bio(step, op), start);
        request.cpu = step.cpu;
        let id = self.requests.add(request);
        self.held.push(id);
        self.touched.set(id, step.time);
        self.in_plug.set(id, true);
    }

    /// More requests are under way than a queue has: what became of the older ones is not in the recording.
    fn give_up_on_the_older_half(&mut self, now: Time) {
        self.forget_interrupt();
        let old = self.requests.older_half();
        let leaves = |list: &mut Vec<RequestId>| -> Vec<RequestId> {
            let (leave, stay) = list.iter().partition(|id| old.contains(id));
            *list = stay;
            leave
        };
        leaves(&mut self.held);
        let mut unissued = leaves(&mut self.queued);
        for &id in &unissued {
            self.scheduler.dispatch_recorded(now, &self.requests, id);
            self.merger.dispatched(self.scheduler.as_mut(), id);
        }
        let dispatched = &mut self.queue.dispatch;
        unissued.extend(dispatched.iter().filter(|id| old.contains(id)));
        dispatched.retain(|id| !old.contains(id));
        for &id in &unissued {
            self.scheduler.activate(now, &self.requests, id);
        }
        let issued = leaves(&mut self.in_driver);
        self.queue.in_flight -= issued.len() + leaves(&mut self.past_scheduler).len();
        for id in unissued.into_iter().chain(issued) {
            self.scheduler.completed(now, &self.requests, id);
        }
        self.report.unexplained += old.len() as u64;
        for id in old {
            self.requests.remove(id);
        }
    }

    /// The bio stands at the end of this request, or before it, and nothing else forbids that they
    /// become one.
    fn is_touched(&self, step: &Step, op: Op, back: bool, id: RequestId) -> bool {
        let request = &self.requests[id];
        let position = if back {
            request.end() == step.start
        } else {
            request.start == step.start + step.length
        };
        let priority = step.priority.is_none_or(|its| its == request.priority);
        position && priority && request.op == op && !request.unmergeable
    }

    /// Where a bio goes in the plug of its process, of which the kernel tries one request only.
    fn plug_partner(&mut self, step: &Step, op: Op) -> Option<Merge> {
        let is_own = |&id: &RequestId| self.is_of(step, id);
        let mut held = self.held.iter().copied();
        let tried = if self.kernel.merges_oldest_in_plug() {
            held.find(is_own)
        } else {
            held.rfind(is_own)
        };
        let bio = Self::bio(step, op);
        self.merger
            .find_plugged(&mut self.requests, tried.as_slice(), &bio)
    }

    /// The request in the scheduler that a bio joins: by the rules, or else the newest that it touches.
    fn partner(&self, step: &Step, op: Op, back: bool) -> Option<RequestId> {
        let touched = |&id: &RequestId| self.is_touched(step, op, back, id);
        let offered = self.offered.get(&step.process).copied().flatten();
        let offered = offered.map(Merge::request);
        offered
            .filter(|id| self.queued.contains(id))
            .filter(touched)
            .or_else(|| self.queued.iter().rev().copied().find(touched))
    }

    /// A bio joined a request: of its process's plug, or else of the scheduler.
    pub(super) fn merged(&mut self, step: &Step, op: Op, back: bool) {
        let held = self.plug_partner(step, op);
        let held = held.filter(|merge| merge.is_back() == back);
        let kind = if back { Merge::Back } else { Merge::Front };
        let Some(merge) = held.or_else(|| self.partner(step, op, back).map(kind)) else {
            return; // the insert will tell
        };
        let id = merge.request();
        self.touched.set(id, step.time);
        let bio = Bio {
            priority: self.requests[id].priority,
            ..Self::bio(step, op)
        };
        let (requests, scheduler) = (&mut self.requests, self.scheduler.as_mut());
        if held.is_some() {
            Merger::grow(requests, merge, &bio);
        } else {
            self.merger
                .extend(step.time, requests, scheduler, merge, &bio);
        }
    }

    /// A request became part of the one before it. True if it was to be inserted.
    pub(super) fn joined(&mut self, step: &Step, op: Op) -> bool {
        let Some(survivor) = self.merger.ending_before(&self.requests, op, step.start) else {
            return false;
        };
        let in_scheduler = self.find(&self.queued, step);
        let Some(victim) = in_scheduler.or_else(|| self.find(&self.held, step)) else {
            return false;
        };
        let (requests, scheduler) = (&mut self.requests, self.scheduler.as_mut());
        if in_scheduler.is_some() {
            self.merger
                .join(step.time, requests, scheduler, survivor, victim);
            self.queued.retain(|&id| id != victim);
        } else {
            scheduler.init_request(step.time, requests, victim);
            self.merger.join_new(requests, scheduler, survivor, victim);
            self.held.retain(|&id| id != victim);
        }
        in_scheduler.is_none()
    }

    pub(super) fn inserted(&mut self, step: &Step, op: Op) {
        let id = if let Some(id) = self.find_to_insert(step) {
            self.held.retain(|&other| other != id);
            id
        } else {
            // Its allocation was not seen.
            self.report.unexplained += 1;
            self.allocated(step, op);
            self.held.pop().expect("it was added")
        };
        let request = &mut self.requests[id];
        request.length = step.length;
        request.priority = step.priority.unwrap_or(request.priority);
        if let Some(locked) = step.locked {
            self.scheduler.lock_taken(locked);
        }
        let (requests, scheduler) = (&self.requests, self.scheduler.as_mut());
        self.merger.insert_alone(step.time, requests, scheduler, id);
        self.queued.push(id);
    }

    /// The request that was allocated for what is inserted now, by this process or (a flush by
    /// another) by any. Without a scheduler those that stay out of the queues are older.
    fn find_to_insert(&self, step: &Step) -> Option<RequestId> {
        let own = self.held.iter().filter(|id| self.is_of(step, **id));
        let exact = if self.is_direct() {
            self.find_exactly(own.rev(), step)
        } else {
            self.find_exactly(own, step)
        };
        exact.or_else(|| self.find(&self.held, step))
    }

    pub(super) fn issued(&mut self, at: usize) {
        let step = &self.steps[at];
        if self.find(&self.queue.dispatch, step).is_none() {
            if self.is_past_scheduler(step) {
                return self.issued_directly(step);
            }
            self.decision(step.time, step, at + 1);
        }
        let Some(id) = self.find(&self.queue.dispatch, step) else {
            return;
        };
        self.queue.dispatch.retain(|&other| other != id);
        self.queue.in_flight += 1;
        let now = step.exact.unwrap_or(step.time);
        self.scheduler.activate(now, &self.requests, id);
        self.in_driver.push(id);
    }

    /// There is no scheduler: those who submit requests issue them.
    fn is_direct(&self) -> bool {
        self.scheduler.info().facts.direct
    }

    /// What was issued never was in the scheduler. If there is one of the same sectors that was, it is
    /// the other, if that was its turn: it goes first.
    fn is_past_scheduler(&self, step: &Step) -> bool {
        let queued = self.find_exactly(&self.queued, step);
        match self.find_held(step) {
            Some(id) => queued.is_none() || self.is_direct() && self.goes_directly(step, id),
            None => self.find(&self.queued, step).is_none(),
        }
    }

    /// A request that never was in the scheduler: is it its turn? Its own process issues the oldest
    /// of its plug or, on older kernels, the newest (to which what it allocated just now does not belong yet); what that
    /// could not issue stands before the software queues, in the order in which the plugs were given up.
    fn goes_directly(&self, step: &Step, id: RequestId) -> bool {
        let mut own = self.held.iter().filter(|other| self.is_of(step, **other));
        let is_next = if self.kernel.follows(Rule::PlugInOrder) {
            own.find(|other| self.in_plug[**other]) == Some(&id)
        } else {
            own.rev().take(2).any(|&newest| newest == id)
        };
        is_next || self.first_held() == Some(id)
    }

    /// Of those that are not in the scheduler, the one that covers exactly these sectors; if there are
    /// several, one whose turn it is.
    fn find_held(&self, step: &Step) -> Option<RequestId> {
        let exact = |&id: &RequestId| self.requests[id].length == step.length;
        let mut turns = self.starting(self.held.iter().rev(), step).filter(exact);
        let turn = turns.find(|&id| self.goes_directly(step, id));
        turn.or_else(|| self.find_exactly(&self.held, step))
    }

    /// Of those that are not in the scheduler, the one whose plug was given up first.
    fn first_held(&self) -> Option<RequestId> {
        let held = self.held.iter().copied();
        held.min_by_key(|id| self.touched[*id])
    }

    fn issued_directly(&mut self, step: &Step) {
        let held = self.find_held(step);
        let Some(id) = held.or_else(|| self.find(&self.held, step)) else {
            self.report.unexplained += 1;
            return;
        };
        let has_choice = self.held.len() > 1;
        self.report.decided(has_choice);
        if self.goes_directly(step, id) {
            self.report.agreed(has_choice);
        } else {
            self.disagree(step.time, id, self.first_held());
        }
        self.held.retain(|&other| other != id);
        self.queue.in_flight += 1;
        self.past_scheduler.push(id);
    }

    /// The device did not take a request: it stands before it again, at the head.
    pub(super) fn requeued(&mut self, step: &Step) {
        if let Some(id) = self.find(&self.in_driver, step) {
            self.in_driver.retain(|&other| other != id);
            self.scheduler.deactivate(step.time, &self.requests, id);
            self.queue.in_flight -= 1;
            self.queue.dispatch.push_front(id);
        } else if let Some(id) = self.find(&self.past_scheduler, step) {
            self.past_scheduler.retain(|&other| other != id);
            self.queue.in_flight -= 1;
            self.held.insert(0, id);
        }
    }

    pub(super) fn completed(&mut self, step: &Step) {
        if let Some(id) = self.find(&self.in_driver, step) {
            self.in_driver.retain(|&other| other != id);
            self.queue.in_flight -= 1;
            let now = step.exact.unwrap_or(step.time);
            self.scheduler.completed(now, &self.requests, id);
            self.leaves(now, id);
        } else if let Some(id) = self.find(&self.past_scheduler, step) {
            self.past_scheduler.retain(|&other| other != id);
            self.queue.in_flight -= 1;
            self.requests.remove(id);
        } else {
            self.report.unexplained += 1;
        }
    }
}
