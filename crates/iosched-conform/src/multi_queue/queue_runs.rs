//! When the kernel runs a hardware queue, and what a run that left no event did.

use iosched_facts::units::Time;
use iosched_sim::block_layer::{Attachment, Next};
use iosched_sim::trace::kernel::Action;

use super::super::recording::Step;
use super::{Follower, SAME_RUN};

impl Follower<'_> {
    /// The process that inserted here inserts more at once: it does nothing else between, and nothing
    /// is dispatched, whatever else happens on other processors.
    pub(super) fn flush_continues(&self, at: usize) -> bool {
        let steps = &self.steps;
        let time = steps[at].time;
        let shown = self.coming.shown_from(at + 1);
        let next = self.coming.of_process_after(at);
        let next = next.filter(|&next| shown.is_none_or(|shown| next < shown));
        next.map(|next| &steps[next]).is_some_and(|next| {
            let inserts = matches!(next.action, Action::Inserted | Action::RequestsMerged);
            inserts && !next.after_plug && next.time.saturating_since(time) < SAME_RUN
        })
    }

    /// Who inserted here runs the queue, or has a worker do it.
    pub(super) fn run_after_insert(&mut self, at: usize) {
        let steps = &self.steps;
        let time = steps[at].time;
        let before = self.coming.of_process_before(at);
        let before = before.map(|before| &steps[before]);
        let alone = before.is_some_and(|before| {
            before.action == Action::Allocated && time.saturating_since(before.time) < SAME_RUN
        });
        if alone && !steps[at].after_plug {
            self.queue.inserted_alone(self.kernel);
        }
        self.run_hw_queue(time, at + 1);
    }

    /// A worker runs the queue: now, and not when that was planned.
    pub(super) fn run_in_worker(&mut self, now: Time, next: usize) {
        self.queue.worker_runs();
        self.run_hw_queue(now, next);
    }

    /// The kernel runs the queue: what was dispatched and waits goes to the device first, and only when
    /// nothing waits is the scheduler asked. `next` is the event that may show what came of it.
    pub(super) fn run_hw_queue(&mut self, now: Time, next: usize) {
        if !self.replays {
            return;
        }
        if !self.with_decisions {
            return self.dispatch_unrecorded(now, next);
        }
        let step = self.queue.begin_run();
        self.continue_run(step, now, next);
    }

    /// A run goes on with this step, until an event has to tell what came of one.
    fn continue_run(&mut self, mut step: Next, now: Time, next: usize) {
        loop {
            step = match step {
                Next::Issue => self.issue_dispatch_list(now, next),
                Next::Dispatch => self.dispatch_from_scheduler(now, next),
                Next::End => return,
            }
        }
    }

    /// The scheduler is to dispatch, if it has work and there is a budget. If the next event shows none of
    /// its requests, it dispatched nothing.
    fn dispatch_from_scheduler(&mut self, now: Time, next: usize) -> Next {
        let outstanding = self.queue.outstanding();
        if !(self.scheduler.has_work(0) && self.queue.take_budget(self.depth, outstanding)) {
            return self.queue.batch_ends();
        }
        let in_batch = self.queue.batch_ends() == Next::Issue;
        let is_told = if in_batch {
            self.next_is(next, Action::Dispatched)
        } else {
            self.shown_soon(now, next) == Some(next)
        };
        if is_told {
            return Next::End;
        }
        let run_follows = in_batch || self.shown_soon(now, next).is_some();
        self.end_without_dispatch(now, run_follows)
    }

    /// The scheduler dispatched a request. A device that was not busy of late is given several at once:
    /// the kernel has more dispatched before it issues the first.
    pub(super) fn dispatch_more(&mut self, now: Time, next: usize) {
        if self.replays {
            let lacks_tag = self.depth.lacks_tag(self.queue.outstanding());
            let step = self.queue.dispatched_one(lacks_tag);
            self.continue_run(step, now, next);
        }
    }

    /// The device takes what was dispatched, as events D tell, until it has no room. What is left then
    /// goes first when the next completion runs the queue.
    fn issue_dispatch_list(&mut self, now: Time, next: usize) -> Next {
        let goes_on = self.depth.has_room(self.queue.in_flight)
            && self
                .shown_soon(now, next)
                .is_some_and(|shown| self.steps[shown].action == Action::Issued);
        if goes_on {
            Next::End
        } else {
            self.queue.list_blocked()
        }
    }

    /// A request was issued: if it was the last of those dispatched, the kernel has more dispatched.
    pub(super) fn after_issue(&mut self, now: Time, next: usize) {
        if !self.replays {
            return;
        }
        let step = if self.queue.dispatch.is_empty() {
            self.queue.list_issued(self.depth, true)
        } else {
            Next::Issue
        };
        if self.with_decisions {
            self.continue_run(step, now, next);
        } else {
            self.dispatch_unrecorded(now, next);
        }
    }

    /// The event may come of what the kernel does now, and not of a run that is planned.
    fn is_soon(&self, now: Time, at: usize) -> bool {
        let time = self.steps[at].time;
        let planned = self.queue.delayed_run().unwrap_or(Time::MAX);
        time.saturating_since(now) < SAME_RUN && time < planned
    }

    /// The first event from this one on that shows a dispatch, if it may come of what the kernel does now.
    fn shown_soon(&self, now: Time, next: usize) -> Option<usize> {
        let shown = self.coming.shown_from(next);
        shown.filter(|&shown| self.is_soon(now, shown))
    }

    /// Without X, what is issued next was chosen here, if it was there and requests are chosen ahead for
    /// the device; else when it is issued.
    fn dispatch_unrecorded(&mut self, now: Time, next: usize) {
        while self.depth.attachment == Attachment::TagOnly
            && self.queue.dispatch.is_empty()
            && self.scheduler.has_work(0)
        {
            let Some(issued) = self.coming.issues_from(next).next() else {
                return;
            };
            let issue = self.steps[issued];
            if self.find(&self.queued, &issue).is_none() || !self.would_dispatch(now) {
                let insert = self.coming.insert_from(next, issue.start);
                let comes_soon = insert.is_some_and(|insert| self.is_soon(now, insert));
                self.end_without_dispatch(now, comes_soon);
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
        let Some(issue) = self.coming.issues_from(next).next() else {
            return;
        };
        let Some(recorded) = self.find(&self.queued, &self.steps[issue]) else {
            return;
        };
        let mut ours = self.scheduler.duplicate();
        let chosen = ours.dispatch(now, &self.requests, 0);
        if let Some(chosen) = chosen.filter(|&chosen| self.is_alike(chosen, recorded)) {
            self.scheduler = ours;
            self.agree(chosen);
        }
    }

    /// Ours would dispatch something now. If not, the kernel chose what was issued next in a later run.
    fn would_dispatch(&self, now: Time) -> bool {
        let mut copy = self.scheduler.duplicate();
        copy.dispatch(now, &self.requests, 0).is_some()
    }

    pub(super) fn next_is(&self, next: usize, action: Action) -> bool {
        let next = self.steps.get(next);
        next.is_some_and(|next| next.action == action)
    }

    /// The recorded scheduler dispatched nothing, which ends the run or the batch; ours, too? Where a run
    /// follows soon, one that is early by that much counts as no difference.
    fn end_without_dispatch(&mut self, now: Time, run_follows: bool) -> Next {
        let before = self.scheduler.duplicate();
        if self.scheduler.dispatch(now, &self.requests, 0).is_none() {
            return self.queue.dispatched_nothing(self.kernel, now);
        }
        self.report.eager += u64::from(!run_follows);
        self.scheduler = before;
        self.queue.batch_ends()
    }
}

/// The event may show what a run dispatched.
pub(super) fn shows_dispatch(step: &Step) -> bool {
    matches!(step.action, Action::Dispatched | Action::Issued)
}
