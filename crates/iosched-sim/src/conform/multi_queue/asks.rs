//! When the kernel asks the scheduler, and what an ask that left no line means.

use crate::block_layer::multi_queue::{Attachment, Next};
use crate::trace::kernel::Action;
use crate::units::Time;

use super::super::recording::Step;
use super::{Follower, SAME_RUN};

impl Follower<'_> {
    /// The process that inserted here inserts more at once: it does nothing else between, and nothing
    /// is given out, whatever else happens on other processors.
    pub(super) fn flush_goes_on(&self, at: usize) -> bool {
        let steps = &self.steps;
        let Step { time, process, .. } = steps[at];
        let soon = steps[at + 1..].iter();
        let mut soon = soon.take_while(|step| step.time - time < SAME_RUN && !answers(step));
        let next = soon.find(|step| step.is_done_by(process));
        next.is_some_and(|next| {
            matches!(next.action, Action::Inserted | Action::RequestsMerged) && !next.after_plug
        })
    }

    /// Who inserted here runs the queue, or has a worker do it.
    pub(super) fn runs_after_insert(&mut self, at: usize) {
        let steps = &self.steps;
        let Step { time, process, .. } = steps[at];
        let before = steps[..at].iter().rev();
        let mut before = before.take_while(|step| time - step.time < SAME_RUN);
        let before = before.find(|step| step.is_done_by(process));
        let alone = before.is_some_and(|step| step.action == Action::Allocated);
        if alone && !steps[at].after_plug {
            self.queue.inserted_alone(self.kernel);
        }
        self.runs(time, at + 1);
    }

    /// A worker runs the queue: now, and not when that was planned.
    pub(super) fn runs_in_worker(&mut self, now: Time, next: usize) {
        self.queue.worker_runs();
        self.runs(now, next);
    }

    /// The kernel runs the queue: what was given out and waits goes to the device first, and only when
    /// nothing waits is the scheduler asked. `next` is the event that may show what came of it.
    pub(super) fn runs(&mut self, now: Time, next: usize) {
        if !self.replays {
            return;
        }
        if !self.with_decisions {
            return self.asks_unseen(now, next);
        }
        let step = self.queue.begin_run();
        self.goes_on(step, now, next);
    }

    /// A run goes on with this step.
    fn goes_on(&mut self, step: Next, now: Time, next: usize) {
        match step {
            Next::Issue => self.hands_over(now, next),
            Next::Choose => self.asks(now, next),
            Next::End => {}
        }
    }

    /// The scheduler is asked, if it has work and there is a budget. If the next event is no answer, the
    /// answer was nothing.
    fn asks(&mut self, now: Time, next: usize) {
        if !self.may_choose() {
            return;
        }
        let answered = self.soon(now, next).next().is_some_and(answers);
        if !answered {
            let asks_soon = self.soon(now, next).any(answers);
            self.ends_in_vain(now, asks_soon);
        }
    }

    /// The scheduler gave out a request. A device that was not busy of late is given several at once:
    /// the kernel asks on before it issues the first.
    pub(super) fn asks_on(&mut self, now: Time, next: usize) {
        if !self.replays {
            return;
        }
        let lacks_tag = self.depth.lacks_tag(self.queue.chosen());
        if self.queue.chose(lacks_tag) == Next::Choose && self.may_choose() {
            if self.next_is(next, Action::Dispatched) {
                return;
            }
            self.asked_in_vain(now, true);
        }
        self.hands_over(now, next);
    }

    fn may_choose(&mut self) -> bool {
        let chosen = self.queue.chosen();
        self.scheduler.has_work(0) && self.queue.take_budget(self.depth, chosen)
    }

    /// The device takes what was given out, as events D tell, until it has no room. What is left then
    /// goes first when the next completion runs the queue.
    fn hands_over(&mut self, now: Time, next: usize) {
        let goes_on = self.depth.has_room(self.queue.in_flight)
            && self
                .soon(now, next)
                .find(|step| answers(step))
                .is_some_and(|step| step.action == Action::Issued);
        if !goes_on {
            self.queue.list_blocked();
        }
    }

    /// A request was issued: if it was the last of those given out, the kernel asks again.
    pub(super) fn issued_on(&mut self, now: Time, next: usize) {
        if !self.replays {
            return;
        }
        let step = if self.queue.dispatch.is_empty() {
            self.queue.list_issued(self.depth, true)
        } else {
            Next::Issue
        };
        if self.with_decisions {
            self.goes_on(step, now, next);
        } else {
            self.asks_unseen(now, next);
        }
    }

    /// The events that may come of what the kernel does now, and not of a run that is planned.
    fn soon(&self, now: Time, next: usize) -> impl Iterator<Item = &Step> {
        let soon = self.steps[next..].iter();
        let planned = self.queue.delayed_run().unwrap_or(Time::MAX);
        soon.take_while(move |step| step.time - now < SAME_RUN && step.time < planned)
    }

    /// Without X, what is issued next was chosen here, if it was there and the device is asked for
    /// ahead; else when it is issued.
    fn asks_unseen(&mut self, now: Time, next: usize) {
        while self.depth.attachment == Attachment::TagOnly
            && self.queue.dispatch.is_empty()
            && self.scheduler.has_work(0)
        {
            let mut coming = self.steps.iter().enumerate().skip(next);
            let issue = coming.find(|(_, step)| step.action == Action::Issued);
            let Some((issued, &issue)) = issue else {
                return;
            };
            if self.find(&self.queued, &issue).is_none() || !self.has_an_answer(now) {
                let comes_soon = self
                    .soon(now, next)
                    .filter(|step| step.action == Action::Inserted)
                    .any(|step| step.start == issue.start);
                self.ends_in_vain(now, comes_soon);
                return;
            }
            self.decision(now, &issue, issued + 1);
        }
    }

    /// Without X, and with a scheduler that forgets dispatches that gave nothing: what is issued next was
    /// chosen at some moment since the last issue at which ours chooses it, too.
    pub(super) fn seek_choice(&mut self, now: Time, next: usize) {
        let is_chosen_ahead = self.depth.attachment == Attachment::TagOnly;
        let has_hand_free = self.queue.dispatch.len() < self.recording.processors().max(1);
        if !(is_chosen_ahead && has_hand_free && self.scheduler.has_work(0)) {
            return;
        }
        let mut coming = self.steps[next..].iter();
        let Some(issue) = coming.find(|step| step.action == Action::Issued) else {
            return;
        };
        let Some(recorded) = self.find(&self.queued, issue) else {
            return;
        };
        let mut ours = self.scheduler.duplicate();
        let chosen = ours.dispatch(now, &self.requests, 0);
        if let Some(chosen) = chosen.filter(|&chosen| self.is_alike(chosen, recorded)) {
            self.scheduler = ours;
            self.agree(chosen);
        }
    }

    /// Ours gives out something now. If not, the kernel chose what was issued next at a later ask.
    fn has_an_answer(&self, now: Time) -> bool {
        let mut copy = self.scheduler.duplicate();
        copy.dispatch(now, &self.requests, 0).is_some()
    }

    pub(super) fn next_is(&self, next: usize, action: Action) -> bool {
        let next = self.steps.get(next);
        next.is_some_and(|next| next.action == action)
    }

    /// The kernel asked and got nothing, unless a worker still was to ask and soon did. False then.
    fn asked_in_vain(&mut self, now: Time, asks_soon: bool) -> bool {
        let before = self.scheduler.duplicate();
        if self.scheduler.dispatch(now, &self.requests, 0).is_some() {
            self.report.eager += u64::from(!asks_soon);
            self.scheduler = before;
            return false;
        }
        true
    }

    /// The same, having been given nothing before: the kernel plans to ask again.
    fn ends_in_vain(&mut self, now: Time, asks_soon: bool) {
        if self.asked_in_vain(now, asks_soon) {
            self.queue.chose_nothing(self.kernel, now);
        }
    }
}

/// The event may be what an ask gave.
fn answers(step: &Step) -> bool {
    matches!(step.action, Action::Dispatched | Action::Issued)
}
