//! When the kernel asks the scheduler, and what an ask that left no line means.

use crate::trace::kernel::Action;
use crate::units::Time;

use super::super::recording::Step;
use super::{Follower, SAME_RUN};

impl Follower<'_> {
    /// The process that inserted here inserts more at once: it does nothing else between, and nothing
    /// is given out, whatever else happens on other processors.
    pub(super) fn flush_goes_on(&self, at: usize) -> bool {
        let steps = &self.recording.steps;
        let Step { time, process, .. } = steps[at];
        let given_out = |step: &Step| matches!(step.action, Action::Decided | Action::Issued);
        let soon = steps[at + 1..].iter();
        let mut soon = soon.take_while(|step| step.time - time < SAME_RUN && !given_out(step));
        let next = soon.find(|step| step.process == process);
        next.is_some_and(|next| next.action == Action::Inserted)
    }

    /// The kernel asks the scheduler now, if it may; `next` is the event that may be the answer.
    pub(super) fn asked(&mut self, now: Time, next: usize) {
        while self.may_ask(next) {
            if self.with_decisions {
                let soon = &self.recording.steps[next..];
                let mut soon = soon.iter().take_while(|step| step.time - now < SAME_RUN);
                let answers = |step: &Step| matches!(step.action, Action::Decided | Action::Issued);
                if !soon.clone().next().is_some_and(answers) {
                    self.asked_in_vain(now, soon.any(answers));
                }
                return;
            }
            // Without X, what is issued next was chosen here, if it was there.
            let coming = &self.recording.steps[next..];
            let issue = coming.iter().find(|step| step.action == Action::Issued);
            let Some(&issue) = issue else { return };
            if self.find(&self.queued, &issue).is_none() || !self.has_an_answer(now) {
                let in_time = |step: &&Step| step.time - now < SAME_RUN;
                let soon = coming.iter().take_while(in_time);
                let comes_soon = soon
                    .filter(|step| step.action == Action::Inserted)
                    .any(|step| step.start == issue.start);
                self.asked_in_vain(now, comes_soon);
                return;
            }
            self.decision(now, &issue);
        }
    }

    /// Ours gives out something now. If not, the kernel chose what was issued next at a later ask.
    pub(super) fn has_an_answer(&self, now: Time) -> bool {
        let mut copy = self.scheduler.duplicate();
        copy.dispatch(now, &self.requests).is_some()
    }

    /// A device that was not busy of late is given several requests at once: the kernel asks on
    /// before it issues the first.
    pub(super) fn asked_for_more(&mut self, now: Time, next: usize) {
        let (out, depth) = (self.out(), self.device.queue_depth);
        let issued_next = self.next_is(next, Action::Issued);
        if out > depth && !issued_next {
            self.note_busy(true);
        }
        let another = self.next_is(next, Action::Decided);
        let room = out < depth || out == depth && self.device.look_ahead;
        if !room {
            self.restart |= !self.device.look_ahead && self.scheduler.has_work();
        } else if self.busy == 0 && !another && self.scheduler.has_work() {
            self.asked_in_vain(now, true);
        }
    }

    pub(super) fn next_is(&self, next: usize, action: Action) -> bool {
        let next = self.recording.steps.get(next);
        next.is_some_and(|next| next.action == action)
    }

    /// As the kernel counts it: eighths of how often a device had no room.
    pub(super) fn note_busy(&mut self, busy: bool) {
        self.busy = (7 * self.busy + if busy { 16 } else { 0 }) / 8;
    }

    /// Requests given out and not completed.
    pub(super) fn out(&self) -> usize {
        self.in_driver.len() + self.past_scheduler.len() + self.taken.len()
    }

    pub(super) fn may_ask(&mut self, next: usize) -> bool {
        let out = self.out();
        if self.device.look_ahead && !self.taken.is_empty() && self.with_decisions {
            self.restart = true;
            if !self.next_is(next, Action::Issued) {
                self.note_busy(true); // there is still no room for it
            }
        }
        if !self.scheduler.has_work() {
            return false;
        }
        if self.device.look_ahead {
            return self.taken.is_empty(); // what is held aside goes first
        }
        self.restart |= out >= self.device.queue_depth;
        self.with_decisions && self.taken.is_empty() && out < self.device.queue_depth
    }

    /// The kernel asked and got nothing, unless a worker still was to ask and soon did.
    pub(super) fn asked_in_vain(&mut self, now: Time, asks_soon: bool) {
        let before = self.scheduler.duplicate();
        if self.scheduler.dispatch(now, &self.requests).is_some() {
            self.report.eager += u64::from(!asks_soon);
            self.scheduler = before;
            return;
        }
        self.rerun = Some(self.kernel.asks_again(now));
    }
}
