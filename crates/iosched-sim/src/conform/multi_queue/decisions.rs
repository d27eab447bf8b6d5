//! What the recorded scheduler gave out, beside what ours would have.

use crate::request::{Request, RequestId};
use crate::units::Time;

use super::super::recording::Step;
use super::super::{Disagreement, describe, describe_ours};
use super::Follower;

impl Follower<'_> {
    pub(super) fn decided(&mut self, step: &Step) {
        if self.find(&self.queued, step).is_none() {
            self.report.unexplained += 1;
        } else {
            self.decision(step.time, step);
        }
    }

    /// The recorded scheduler gave out the request of this event: what would ours have done?
    pub(super) fn decision(&mut self, now: Time, recorded: &Step) {
        let Some(id) = self.find(&self.queued, recorded) else {
            return;
        };
        self.report.decisions += 1;
        let before = self.scheduler.duplicate();
        let ours = self.scheduler.dispatch(now, &self.requests);
        let alike = |ours: RequestId| {
            let (ours, recorded) = (&self.requests[ours], &self.requests[id]);
            ours.op == recorded.op && ours.start == recorded.start && ours.length == recorded.length
        };
        let given_out = if let Some(ours) = ours.filter(|&ours| alike(ours)) {
            self.report.agreed += 1;
            ours
        } else {
            self.scheduler = before;
            self.disagree(now, id, ours);
            self.scheduler.dispatch_recorded(now, &self.requests, id);
            id
        };
        self.queued.retain(|&other| other != given_out);
        self.last = self.last.filter(|&last| last != given_out);
        self.taken.push(given_out);
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
