//! Follows recordings of the multi-queue block layer.
//!
//! A recording may have an event X for each request that the scheduler gave out. Where it has none,
//! the decision is taken to lie where the kernel asks: on devices with look-ahead (loop, `null_blk`)
//! the next request is chosen as soon as the one before was issued, and held aside until a tag is
//! free; on devices with a budget (SCSI) when it is issued. Where two processors dispatch at a time,
//! each may hold one aside: two requests that ours gives out one after the other and that were issued
//! the other way round are agreed on, and counted ([`Report::overtaken`](super::Report::overtaken)).
//!
//! The kernel runs the queue after the last insert of a flush, after a completion if something waited
//! for one, and some ticks after a run that dispatched nothing. What a run then does is the block
//! layer's own `HwQueue`; here is what tells how each of its steps ended. If the next event is no
//! answer of the scheduler's, the answer was "nothing".
//!
//! What a recording cannot tell: which of two requests of the same sectors, priority and process an
//! event is about (the one whose turn it is, or else the oldest); what came first at the edge of a tick
//! if several events have its time (the ask that the kernel repeats then). A bio that was not merged
//! although it touches a request tells that this one has no room.

mod asks;
mod decisions;
mod meanwhile;
mod requests;
#[cfg(test)]
mod tests;

use crate::block_layer::multi_queue::{Depth, HwQueue};
use crate::block_layer::{MergeLimits, Merger};
use crate::by_request::ByRequest;
use crate::request::{RequestId, Requests};
use crate::scheduler::kyber::Statement;
use crate::scheduler::{Followed, Kernel};
use crate::trace::kernel::Action;
use crate::units::{Nanos, Time};

use self::meanwhile::Interrupt;
use super::Report;
pub use super::recording::{Device, Recording};

/// A request that was given out later than this after the kernel asked was not the answer.
const SAME_RUN: Nanos = Nanos::from_micros(200);

/// Follows a recording with this scheduler, which ends in the state that the recording left.
pub fn follow(
    recording: &Recording,
    scheduler: Box<dyn Followed>,
    kernel: &Kernel,
    device: Device,
) -> (Report, Box<dyn Followed>) {
    let merger = Merger::new(MergeLimits::UNKNOWN, scheduler.merges_in_lists());
    let follower = Follower {
        recording,
        with_decisions: recording.has_decisions(),
        kernel,
        depth: device.depth(),
        queue: HwQueue::default(),
        scheduler,
        requests: Requests::default(),
        held: Vec::new(),
        touched: ByRequest::default(),
        queued: Vec::new(),
        merger,
        in_driver: Vec::new(),
        past_scheduler: Vec::new(),
        inserting: false,
        interrupt: None,
        said: 0,
        report: Report::default(),
    };
    follower.follow()
}

struct Follower<'a> {
    recording: &'a Recording,
    /// The recording has events X.
    with_decisions: bool,
    kernel: &'a Kernel,
    depth: Depth,
    /// What was chosen and is not issued yet stands in its dispatch list.
    queue: HwQueue,
    scheduler: Box<dyn Followed>,
    requests: Requests,
    /// Allocated, and not yet in the scheduler: in a plug, or issued past it.
    held: Vec<RequestId>,
    /// When a bio last joined one of those.
    touched: ByRequest<Time>,
    /// In the scheduler.
    queued: Vec<RequestId>,
    merger: Merger,
    /// Issued, and not yet completed.
    in_driver: Vec<RequestId>,
    /// The same, of those that never were in the scheduler.
    past_scheduler: Vec<RequestId>,
    /// The last event is that a request was inserted into another one, or that those became one.
    inserting: bool,
    /// What may have come upon the choice that the next event shows.
    interrupt: Option<Interrupt>,
    /// How much of what the recorded kyber said has been heard.
    said: usize,
    report: Report,
}

impl Follower<'_> {
    fn follow(mut self) -> (Report, Box<dyn Followed>) {
        for at in 0..self.recording.steps.len() {
            let step = self.recording.steps[at];
            self.pass_time(at);
            match (step.action, step.op) {
                (Action::Queued, Some(op)) => self.submitted(at, op),
                (Action::Allocated, Some(op)) => self.allocated(&step, op),
                (Action::BackMerged, Some(op)) => self.merged(&step, op, true),
                (Action::FrontMerged, Some(op)) => self.merged(&step, op, false),
                (Action::Joined, Some(op)) => {
                    self.inserting &=
                        at > 0 && self.recording.steps[at - 1].action == Action::Joined;
                    self.inserting |= self.joined(&step, op);
                    if self.inserting && !self.flush_goes_on(at) {
                        self.runs_after_insert(at);
                    }
                }
                (Action::Inserted, Some(op)) => {
                    self.inserted(&step, op);
                    if !self.flush_goes_on(at) {
                        self.runs_after_insert(at);
                    }
                }
                (Action::Decided, _) => {
                    self.decided(at);
                    self.asks_on(step.time, at + 1);
                }
                (Action::Issued, Some(_)) => {
                    self.issued(at);
                    if !self.next_is(at + 1, Action::GivenBack) {
                        self.issued_on(step.time, at + 1);
                    }
                }
                (Action::GivenBack, Some(_)) => {
                    self.given_back(&step);
                    self.queue.given_back(self.kernel, step.time);
                    self.queue.list_blocked();
                }
                (Action::Completed, Some(_)) => {
                    self.foresee_interrupt(at);
                    self.completed(&step);
                    while self.scheduler.take_kick().is_some() {
                        self.queue.mark_restart();
                    }
                    if self.queue.take_restart() && self.with_decisions {
                        self.runs_in_worker(step.time, at + 1);
                    }
                }
                _ => {}
            }
            if step.action != Action::Completed {
                self.forget_interrupt();
            }
        }
        (self.report, self.scheduler)
    }

    // ---- time ----------------------------------------------------------------------------

    /// What timers do before this event.
    fn pass_time(&mut self, at: usize) {
        let until = self.recording.steps[at].time;
        loop {
            // What the recorded timer said tells that it went off, even where ours does not know why.
            let said = self.recording.said.get(self.said).map(|&(time, _)| time);
            let timer = [self.scheduler.next_timer(), said]
                .into_iter()
                .flatten()
                .min();
            let first = [timer, self.queue.delayed_run()]
                .into_iter()
                .flatten()
                .min();
            let Some(now) = first.filter(|&first| first <= until) else {
                return;
            };
            if timer == Some(now) {
                self.timer(now);
            } else {
                self.runs_in_worker(now, at);
            }
        }
    }

    fn timer(&mut self, now: Time) {
        if self.recording.said.is_empty() {
            return self.scheduler.timer(now, &self.requests);
        }
        let until = now + Nanos::new(self.kernel.tick_nanos() / 2);
        let said = &self.recording.said[self.said..];
        let said = said.iter().take_while(|(time, _)| *time < until);
        let said: Vec<_> = said.map(|(_, said)| said.clone()).collect();
        self.said = self
            .recording
            .said
            .partition_point(|&(time, _)| time < until);
        let depths = said
            .iter()
            .filter(|said| matches!(said, Statement::Depth { .. }));
        self.report.depth_changes += depths.count() as u64;
        let agreed = self.scheduler.timer_recorded(now, &self.requests, &said);
        self.report.depth_changes_agreed += agreed as u64;
    }
}
