//! The life of a request in a recording: allocated, merged, inserted, issued, completed.

use crate::request::{Bio, Op, Request, RequestId};
use crate::units::Time;

use super::super::recording::Step;
use super::Follower;

impl Follower<'_> {
    /// The request that an event is about: the one that covers exactly its sectors, or else one that
    /// begins there.
    pub(super) fn find(&self, among: &[RequestId], step: &Step) -> Option<RequestId> {
        let starting = || {
            among.iter().copied().filter(|&id| {
                let request = &self.requests[id];
                request.start == step.start && step.op.is_none_or(|op| op == request.op)
            })
        };
        starting()
            .find(|&id| self.requests[id].length == step.length)
            .or_else(|| starting().next())
    }

    pub(super) fn allocated(&mut self, step: &Step, op: Op) {
        let bio = Bio {
            op,
            start: step.start,
            length: step.length,
            sync: step.sync,
            noidle: false,
            fua: false,
            prio: false,
            process: step.process,
            priority: step.priority.unwrap_or_default(),
        };
        let mut request = Request::new(&bio, step.time);
        request.cpu = step.cpu;
        let id = self.requests.add(request);
        self.held.push(id);
        self.touch(id, step.time);
    }

    pub(super) fn touch(&mut self, id: RequestId, now: Time) {
        if id.index() >= self.touched.len() {
            self.touched.resize(id.index() + 1, Time::ZERO);
        }
        self.touched[id.index()] = now;
    }

    /// A bio joined a request: of its process's plug, or else of the scheduler.
    pub(super) fn merged(&mut self, step: &Step, op: Op, back: bool) {
        let touches = |&id: &RequestId| {
            let request = &self.requests[id];
            let position = if back {
                request.end() == step.start
            } else {
                request.start == step.start + step.length
            };
            position && request.op == op
        };
        let own = |id: &RequestId| self.requests[*id].process == step.process;
        let newest = self.held.iter().rev().copied().find(own);
        let held = newest.filter(touches);
        let last = self.last.filter(touches);
        let queued = || last.or_else(|| self.queued.iter().rev().copied().find(touches));
        let Some(id) = held.or_else(queued) else {
            return; // the insert will tell
        };
        self.touch(id, step.time);
        if held.is_none() {
            self.has_grown(id);
        }
        let request = &mut self.requests[id];
        let old_start = request.start;
        request.length += step.length;
        if !back {
            request.start = step.start;
            if held.is_none() {
                self.scheduler
                    .front_merged(step.time, &self.requests, id, old_start);
            }
        }
    }

    /// Where bios are matched by the ends of requests, one that has grown is the first choice for
    /// the next, and the newest of those that end at the same place.
    pub(super) fn has_grown(&mut self, id: RequestId) {
        if !self.scheduler.merges_in_lists() {
            self.queued.retain(|&other| other != id);
            self.queued.push(id);
            self.last = Some(id);
        }
    }

    /// A request became part of the one before it.
    pub(super) fn joined(&mut self, step: &Step, op: Op) {
        let before =
            |&id: &RequestId| self.requests[id].end() == step.start && self.requests[id].op == op;
        let Some(survivor) = self.queued.iter().copied().find(before) else {
            return;
        };
        let in_scheduler = self.find(&self.queued, step);
        let Some(victim) = in_scheduler.or_else(|| self.find(&self.held, step)) else {
            return;
        };
        let absorbed = self.requests[victim];
        let request = &mut self.requests[survivor];
        request.length += absorbed.length;
        request.allocated = request.allocated.min(absorbed.allocated);
        if in_scheduler.is_some() {
            self.scheduler
                .requests_merged(step.time, &self.requests, survivor, victim);
        }
        self.queued.retain(|&id| id != victim);
        self.held.retain(|&id| id != victim);
        self.requests.remove(victim);
        self.has_grown(survivor);
    }

    pub(super) fn inserted(&mut self, step: &Step, op: Op) {
        let id = if let Some(id) = self.find(&self.held, step) {
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
        self.scheduler.insert(step.time, &self.requests, id);
        self.queued.push(id);
        if !self.scheduler.merges_in_lists() {
            self.last.get_or_insert(id);
        }
    }

    pub(super) fn issued(&mut self, step: &Step) {
        if self.find(&self.taken, step).is_none() {
            if self.find(&self.queued, step).is_some() && !self.is_rather_held(step) {
                self.decision(step.time, step);
            } else {
                self.issued_directly(step);
            }
        }
        let Some(id) = self.find(&self.taken, step) else {
            return;
        };
        self.taken.retain(|&other| other != id);
        if self.waited > 0 && self.device.look_ahead {
            self.waited -= 1;
            self.restart = true;
        }
        self.scheduler.activate(step.time, &self.requests, id);
        self.in_driver.push(id);
    }

    /// Two requests of the same sectors: one is in the scheduler, which would give out another, and
    /// one is not.
    fn is_rather_held(&self, step: &Step) -> bool {
        if self.find(&self.held, step).is_none() {
            return false;
        }
        let mut copy = self.scheduler.duplicate();
        let ours = copy.dispatch(step.time, &self.requests);
        ours.is_none_or(|ours| self.find(&[ours], step).is_none())
    }

    /// A request that never was in the scheduler. Its own process issues the newest of its plug (to
    /// which what it allocated just now does not belong yet); what that could not issue stands before
    /// the software queues, in the order in which the plugs were given up.
    pub(super) fn issued_directly(&mut self, step: &Step) {
        let Some(id) = self.find(&self.held, step) else {
            self.report.unexplained += 1;
            return;
        };
        let own = |other: &RequestId| self.requests[*other].process == step.process;
        let mut newest = self.held.iter().rev().copied().filter(own).take(2);
        let oldest = self
            .held
            .iter()
            .copied()
            .min_by_key(|other| self.touched[other.index()]);
        self.report.decisions += 1;
        if newest.any(|newest| newest == id) || oldest == Some(id) {
            self.report.agreed += 1;
        } else {
            self.disagree(step.time, id, oldest);
        }
        self.held.retain(|&other| other != id);
        self.past_scheduler.push(id);
    }

    /// The device did not take a request: it stands before it again, at the head.
    pub(super) fn given_back(&mut self, step: &Step) {
        if let Some(id) = self.find(&self.in_driver, step) {
            self.in_driver.retain(|&other| other != id);
            self.scheduler.deactivate(step.time, &self.requests, id);
            self.taken.insert(0, id);
        }
    }

    pub(super) fn completed(&mut self, step: &Step) {
        if let Some(id) = self.find(&self.in_driver, step) {
            self.in_driver.retain(|&other| other != id);
            self.scheduler.completed(step.time, &self.requests, id);
            self.requests.remove(id);
        } else if let Some(id) = self.find(&self.past_scheduler, step) {
            self.past_scheduler.retain(|&other| other != id);
            self.requests.remove(id);
        } else {
            self.report.unexplained += 1;
        }
    }
}
