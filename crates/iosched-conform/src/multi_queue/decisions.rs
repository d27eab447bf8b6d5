//! What the recorded scheduler dispatched, beside what ours would have.

use iosched_facts::units::Time;
use iosched_sim::request::{ProcessId, Request, RequestId};
use iosched_sim::scheduler::Followed;

use super::super::recording::Step;
use super::super::{Disagreement, describe, describe_ours};
use super::Follower;
use super::effects::{ENDING_A_SLOT, before};

/// Issues in which one that another processor has in hand comes at last.
const SLOW_ISSUE: usize = 3;

impl Follower<'_> {
    pub(super) fn decided(&mut self, at: usize) {
        let step = &self.steps[at];
        if self.find(&self.queued, step).is_none() {
            self.report.unexplained += 1;
        } else {
            self.decision(self.begins(step), step, at + 1);
        }
    }

    /// When the choice was begun: earlier if it first ended a slot.
    fn begins(&self, step: &Step) -> Time {
        let ends_slot = || self.scheduler.ends_slice_first(step.time, &self.requests);
        if self.with_effects && !step.begun && ends_slot() {
            before(step.time, ENDING_A_SLOT)
        } else {
            step.time
        }
    }

    /// Two requests or more are in the scheduler.
    fn has_choice(&self) -> bool {
        self.queued.len() > 1
    }

    /// Ours chose as was recorded.
    pub(super) fn agree(&mut self, chosen: RequestId) {
        let has_choice = self.has_choice();
        self.report.decided(has_choice);
        self.report.agreed(has_choice);
        self.dispatch_request(chosen);
    }

    /// The recorded scheduler dispatched the request of this event: what would ours have done? `next` is
    /// the event after the one that shows what it dispatched.
    pub(super) fn decision(&mut self, now: Time, recorded: &Step, next: usize) {
        let Some(id) = self.find(&self.queued, recorded) else {
            return;
        };
        let has_choice = self.has_choice();
        self.report.decided(has_choice);
        let before = self.scheduler.duplicate();
        let ours = self.scheduler.dispatch(now, &self.requests, 0);
        if let Some(ours) = ours.filter(|&ours| self.is_alike(ours, id)) {
            self.report.agreed(has_choice);
            return self.dispatch_request(ours);
        }
        if let Some(ours) = ours
            && let Some(alike) = self.issued_later(now, ours, id, next)
        {
            // Two wait at least: what ours dispatched, and what was recorded.
            self.report.decided(true);
            self.report.agreed(true);
            self.report.agreed(true);
            self.report.issued_out_of_order += 1;
            self.dispatch_request(alike);
            return self.dispatch_request(ours);
        }
        if self.with_decisions
            && let Some(alike) = self.chooses_before(now, id, before.as_ref())
        {
            self.report.agreed(has_choice);
            self.report.interrupted += 1;
            return self.dispatch_request(alike);
        }
        if let Some((alike, after)) = self.chooses_after_ends(now, id, before.as_ref()) {
            self.scheduler = after;
            self.report.agreed(has_choice);
            self.report.ended += 1;
            return self.dispatch_request(alike);
        }
        self.scheduler = before;
        self.disagree(now, id, ours);
        self.scheduler.dispatch_recorded(now, &self.requests, id);
        self.dispatch_request(id);
    }

    /// What ours chooses if a process that has done its last request has ended already: when it ends
    /// exactly is not recorded.
    fn chooses_after_ends(
        &mut self,
        now: Time,
        recorded: RequestId,
        before: &dyn Followed,
    ) -> Option<(RequestId, Box<dyn Followed>)> {
        if !self.forgets {
            return None;
        }
        let mut ours = before.duplicate();
        let mut told = self.ended;
        while let Some(&(_, process)) = self.ends.get(told) {
            if !self.is_through(process) {
                return None;
            }
            told += 1;
            ours.process_exited(now, &self.requests, process);
            let mut after = ours.duplicate();
            let chosen = after.dispatch(now, &self.requests, 0);
            if let Some(chosen) = chosen.filter(|&chosen| self.is_alike(chosen, recorded)) {
                self.ended = told;
                return Some((chosen, after));
            }
        }
        None
    }

    /// All requests of the process have completed, and it submits no more.
    fn is_through(&self, process: ProcessId) -> bool {
        let lists = [&self.in_driver, &self.queued, &self.held];
        let open = lists.into_iter().flatten();
        open.chain(&self.queue.dispatch)
            .all(|&id| self.requests[id].process != process)
            && !self.coming.is_active_from(self.at, process)
    }

    /// Two requests that cannot be told apart.
    pub(super) fn is_alike(&self, ours: RequestId, recorded: RequestId) -> bool {
        let (ours, recorded) = (&self.requests[ours], &self.requests[recorded]);
        ours.op == recorded.op && ours.start == recorded.start && ours.length == recorded.length
    }

    /// Without X, what ours dispatched may be held by another processor, which took it first and issues it next.
    /// Each holds one at most: so nothing is issued out of order while the one before is not issued. Then ours dispatches what was recorded, right after it. bfq never finds back from a wrong
    /// decision, so that there the other processor may be slower.
    fn issued_later(
        &mut self,
        now: Time,
        ours: RequestId,
        recorded: RequestId,
        next: usize,
    ) -> Option<RequestId> {
        let in_hand = !self.queue.dispatch.is_empty();
        if self.with_decisions || self.recording.processors() < 2 || in_hand {
            return None;
        }
        let reach = if self.replays { 1 } else { SLOW_ISSUE };
        if !self.is_issued_soon(next, ours, reach) {
            return None;
        }
        let second = self.scheduler.dispatch(now, &self.requests, 0);
        second.filter(|&second| self.is_alike(second, recorded))
    }

    fn dispatch_request(&mut self, id: RequestId) {
        self.queued.retain(|&other| other != id);
        self.merger.dispatched(self.scheduler.as_mut(), id);
        self.queue.dispatch.push_back(id);
        if !self.with_decisions {
            self.queue.dispatched_one(false); // an X tells what comes after it
        }
    }

    pub(super) fn disagree(&mut self, now: Time, recorded: RequestId, ours: Option<RequestId>) {
        if self.report.first_disagreements.is_empty() {
            self.report.agreed_at_first = self.report.agreed;
        }
        let (requests, reader) = (&self.requests, &self.recording.reader);
        self.report.disagree(|| {
            let Request {
                op,
                start,
                length,
                process,
                ..
            } = requests[recorded];
            Disagreement {
                time_us: reader.recorded_micros(now),
                recorded: describe(op, start, length, process),
                ours: describe_ours(ours.map(|id| &requests[id])),
            }
        });
    }
}
