//! What the recorded scheduler gave out, beside what ours would have.

use crate::request::{Request, RequestId};
use crate::trace::kernel::Action;
use crate::units::Time;

use super::super::recording::Step;
use super::super::{Disagreement, describe, describe_ours};
use super::Follower;

impl Follower<'_> {
    pub(super) fn decided(&mut self, at: usize) {
        let step = &self.recording.steps[at];
        if self.find(&self.queued, step).is_none() {
            self.report.unexplained += 1;
        } else {
            self.decision(step.time, step, at + 1);
        }
    }

    /// The recorded scheduler gave out the request of this event: what would ours have done? `next` is
    /// the event after the one that shows what it gave out.
    pub(super) fn decision(&mut self, now: Time, recorded: &Step, next: usize) {
        let Some(id) = self.find(&self.queued, recorded) else {
            return;
        };
        self.report.decisions += 1;
        let before = self.scheduler.duplicate();
        let ours = self.scheduler.dispatch(now, &self.requests, 0);
        if let Some(ours) = ours.filter(|&ours| self.is_alike(ours, id)) {
            self.report.agreed += 1;
            return self.give_out(ours);
        }
        if let Some(ours) = ours
            && let Some(alike) = self.overtakes(now, ours, id, next)
        {
            self.report.decisions += 1;
            self.report.agreed += 2;
            self.report.overtaken += 1;
            self.give_out(alike);
            return self.give_out(ours);
        }
        if self.with_decisions
            && let Some(alike) = self.chooses_before(now, id, before.as_ref())
        {
            self.report.agreed += 1;
            self.report.interrupted += 1;
            return self.give_out(alike);
        }
        self.scheduler = before;
        self.disagree(now, id, ours);
        self.scheduler.dispatch_recorded(now, &self.requests, id);
        self.give_out(id);
    }

    /// Two requests that cannot be told apart.
    pub(super) fn is_alike(&self, ours: RequestId, recorded: RequestId) -> bool {
        let (ours, recorded) = (&self.requests[ours], &self.requests[recorded]);
        ours.op == recorded.op && ours.start == recorded.start && ours.length == recorded.length
    }

    /// Without X, what ours gave out may be in the hands of another processor, which took it first and
    /// issues it next. Each can have one: so nothing overtakes while what was overtaken before is not
    /// issued. Then ours gives out what was recorded, right after it.
    fn overtakes(
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
        let coming = self.recording.steps[next..].iter();
        let mut issues = coming.filter(|step| step.action == Action::Issued);
        let is_next = issues.next().is_some_and(|step| {
            let request = &self.requests[ours];
            request.start == step.start && step.op == Some(request.op)
        });
        if !is_next {
            return None;
        }
        let second = self.scheduler.dispatch(now, &self.requests, 0);
        second.filter(|&second| self.is_alike(second, recorded))
    }

    fn give_out(&mut self, id: RequestId) {
        self.queued.retain(|&other| other != id);
        self.merger.dispatched(id);
        self.queue.dispatch.push_back(id);
        if !self.with_decisions {
            self.queue.chose(false); // an X tells what comes after it
        }
    }

    pub(super) fn disagree(&mut self, now: Time, recorded: RequestId, ours: Option<RequestId>) {
        let (requests, scheduler) = (&self.requests, &self.scheduler);
        let reader = &self.recording.reader;
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
                why: scheduler.explain(now),
            }
        });
    }
}
