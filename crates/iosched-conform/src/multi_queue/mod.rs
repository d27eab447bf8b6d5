//! Follows recordings of the multi-queue block layer.
//!
//! A recording may have an event X for each request that the scheduler dispatched. Where it has none,
//! the decision is taken to lie where the kernel asks: on devices with look-ahead (loop, `null_blk`)
//! the next request is chosen as soon as the one before was issued, and held aside until a tag is
//! free; on devices with a budget (SCSI) when it is issued. Where two processors dispatch at a time,
//! each may hold one aside: two requests that ours dispatches one after the other and that were issued
//! the other way round are agreed on, and counted ([`Report::issued_out_of_order`](super::Report::issued_out_of_order)).
//!
//! The kernel runs the queue after the last insert of a flush, after a completion if something waited
//! for one, and some ticks after a run that dispatched nothing. If the next event is no answer of the
//! scheduler's, the answer was "nothing".
//!
//! The kernel's rules are the block layer's own: where a bio goes and what becomes of requests that
//! merge (`Merger`), what a run does next, what makes a completion run the queue and when a run is
//! repeated (`HwQueue`), the ticks (`Kernel`). The block layer as a whole (`MultiQueue`) cannot be driven
//! by a recording, because events are what comes out of it. What goes in leaves none:
//!
//! | not recorded | so it is inferred here |
//! |---|---|
//! | when a process began and let go its plug (most forms) | a request is in a plug until it is inserted or issued; a process inserts until it does something else |
//! | who waited for a tag, and how many there were | an allocation is taken as it comes |
//! | the runs of a queue | from what leads to one, and from what comes next |
//! | in which order plugs were given up to `none` that the device had no room for | by when a bio last joined them |
//! | choices, without X | from the issue, where ours would choose the same, and from what follows (`hindsight`) |
//!
//! What a recording cannot tell: which of two requests of the same sectors, priority and process an
//! event is about (the one whose turn it is, or else the oldest); what came first at the edge of a tick
//! if several events have its time (the run that the kernel repeats then). A bio that was not merged
//! although it touches a request tells that this one has no room.

mod coming;
mod decisions;
mod effects;
mod exits;
mod hindsight;
mod interrupts;
mod queue_runs;
mod requests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use iosched_facts::event::KyberEvent;
use iosched_facts::units::{Nanos, Time};
use iosched_sim::block_layer::{Depth, HwQueue};
use iosched_sim::block_layer::{MergeLimits, Merger};
use iosched_sim::request::{Merge, ProcessId, RequestId, Requests};
use iosched_sim::request_table::ByRequest;
use iosched_sim::scheduler::{Followed, Kernel};
use iosched_sim::trace::kernel::Action;

use self::coming::Coming;
use self::interrupts::Interrupt;
use super::recording::Step;
pub use super::recording::{Device, Recording};
use super::{MOST_UNDER_WAY, Report, SAME_RUN};

/// Processes have ended, and timers gone off, so long after the last event.
const AFTERMATH: Nanos = Nanos::from_secs(1);

/// How far a recording is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// To its end.
    End,
    /// To the first disagreement: the decisions before it are what is wanted.
    Disagreement,
}

/// Follows a recording so far with this scheduler, which ends in the state that the recording left.
pub fn follow(
    until: Until,
    recording: &Recording,
    scheduler: Box<dyn Followed>,
    kernel: &Kernel,
    device: Device,
) -> (Report, Box<dyn Followed>) {
    follow_within(
        MOST_UNDER_WAY,
        until,
        recording,
        scheduler,
        (kernel, device),
    )
}

/// The same with so many requests under way at the most.
fn follow_within(
    most_under_way: usize,
    until: Until,
    recording: &Recording,
    scheduler: Box<dyn Followed>,
    (kernel, device): (&Kernel, Device),
) -> (Report, Box<dyn Followed>) {
    let forgets = !scheduler.empty_dispatches_matter();
    let effects = (forgets && recording.has_messages()).then(|| recording.effects());
    let merger = Merger::new(MergeLimits::UNKNOWN, scheduler.as_ref());
    let steps: &[Step] = effects.as_deref().unwrap_or(&recording.steps);
    let said = recording.said();
    let follower = Follower {
        recording,
        steps,
        coming: &Coming::of(steps),
        said: &said,
        most_under_way,
        with_effects: effects.is_some(),
        forgets: forgets && !recording.is_simulated(),
        replays: !forgets || recording.is_simulated() || recording.has_decisions(),
        ends: if forgets {
            recording.ends()
        } else {
            Vec::new()
        },
        ended: 0,
        at: 0,
        until,
        with_decisions: recording.has_decisions(),
        kernel,
        depth: device.depth(),
        queue: HwQueue::default(),
        scheduler,
        requests: Requests::default(),
        held: Vec::new(),
        touched: ByRequest::default(),
        in_plug: ByRequest::default(),
        queued: Vec::new(),
        merger,
        offered: BTreeMap::new(),
        in_driver: Vec::new(),
        past_scheduler: Vec::new(),
        inserting: false,
        interrupt: None,
        heard: 0,
        holds_at: None,
        report: Report::default(),
    };
    follower.follow()
}

#[derive(Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a question of its own"
)]
struct Follower<'a> {
    recording: &'a Recording,
    /// What it tells, in order; with bfq's messages, as it took effect.
    steps: &'a [Step],
    coming: &'a Coming,
    /// What the recorded kyber said, in order of time.
    said: &'a [(Time, KyberEvent)],
    /// Requests of more are given up.
    most_under_way: usize,
    with_effects: bool,
    /// What the scheduler did without a line of its own has to be inferred: processes that ended.
    forgets: bool,
    /// Dispatches that gave nothing are made, too.
    replays: bool,
    /// Ends of processes, in order, and how many have been told.
    ends: Vec<(Time, ProcessId)>,
    ended: usize,
    /// The step that is followed.
    at: usize,
    until: Until,
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
    /// It is in a plug that is not let go yet, or is just let go.
    in_plug: ByRequest<bool>,
    /// In the scheduler.
    queued: Vec<RequestId>,
    merger: Merger,
    /// Where in the scheduler the bio that a process submitted last goes.
    offered: BTreeMap<ProcessId, Option<Merge>>,
    /// Issued, and not yet completed.
    in_driver: Vec<RequestId>,
    /// The same, of those that never were in the scheduler.
    past_scheduler: Vec<RequestId>,
    /// The last event is that a request was inserted into another one, or that those became one.
    inserting: bool,
    /// What may have come upon the choice that the next event shows.
    interrupt: Option<Interrupt>,
    /// How much of what the recorded kyber said has been heard.
    heard: usize,
    /// After this event ours does not choose yet, though it could.
    holds_at: Option<usize>,
    report: Report,
}

impl Follower<'_> {
    fn follow(mut self) -> (Report, Box<dyn Followed>) {
        self = self.follow_steps();
        if let Some(last) = self.steps.last()
            && self.forgets
        {
            self.pass_time(last.time + AFTERMATH, self.steps.len());
        }
        (self.report, self.scheduler)
    }

    /// What this event tells.
    fn step(&mut self, at: usize) {
        let step = self.steps[at];
        self.at = at;
        self.pass_time(step.time, at);
        match (step.action, step.op) {
            (Action::Queued, Some(op)) => self.submitted(at, op),
            (Action::Allocated, Some(op)) => self.allocated(&step, op),
            (Action::BackMerged, Some(op)) if self.joins_at_insertion(at) => {
                self.joined(&step, op);
            }
            (Action::BackMerged, Some(op)) => self.merged(&step, op, true),
            (Action::FrontMerged, Some(op)) => self.merged(&step, op, false),
            (Action::RequestsMerged, Some(op)) => {
                self.inserting &= at > 0 && self.steps[at - 1].action == Action::RequestsMerged;
                self.inserting |= self.joined(&step, op);
                if self.replays && self.inserting && !self.flush_continues(at) {
                    self.run_after_insert(at);
                }
            }
            (Action::Inserted, Some(op)) => {
                self.inserted(&step, op);
                if self.replays && !self.flush_continues(at) {
                    self.run_after_insert(at);
                }
            }
            (Action::Dispatched, _) => {
                self.decided(at);
                self.dispatch_more(step.time, at + 1);
            }
            (Action::Issued, Some(_)) => {
                self.issued(at);
                if !self.next_is(at + 1, Action::Requeued) {
                    self.after_issue(step.time, at + 1);
                }
            }
            (Action::Requeued, Some(_)) => {
                self.requeued(&step);
                self.queue.requeued(self.kernel, step.time);
                self.queue.list_blocked();
            }
            (Action::Completed, Some(_)) => {
                if !self.with_effects {
                    self.foresee_interrupt(at);
                }
                self.completed(&step);
                while self.scheduler.take_queue_run_request().is_some() {
                    self.queue.mark_restart();
                }
                if self.queue.take_restart() && self.with_decisions {
                    self.run_in_worker(step.time, at + 1);
                }
            }
            _ => {}
        }
        if step.action != Action::Completed {
            self.forget_interrupt();
        }
        if !self.replays && !self.with_decisions && self.holds_at != Some(at) {
            self.seek_choice(step.time, at + 1);
        }
    }

    // ---- time ----------------------------------------------------------------------------

    /// What timers and processes that end do until then, before this event.
    fn pass_time(&mut self, until: Time, at: usize) {
        loop {
            // What the recorded timer said tells that it went off, even where ours does not know why.
            let said = self.said.get(self.heard).map(|&(time, _)| time);
            let timer = [self.scheduler.next_timer(), said]
                .into_iter()
                .flatten()
                .min();
            let end = self.ends.get(self.ended).copied();
            let end_time = end.map(|(time, _)| time);
            let first = [timer, self.queue.delayed_run(), end_time]
                .into_iter()
                .flatten()
                .min();
            let Some(now) = first.filter(|&first| first <= until) else {
                return;
            };
            if timer == Some(now) {
                self.timer(now);
                self.run_requested_queues(now, at);
            } else if let Some((_, process)) = end.filter(|&(time, _)| time == now) {
                self.ended += 1;
                self.scheduler.process_exited(now, &self.requests, process);
                self.run_requested_queues(now, at);
            } else {
                self.run_in_worker(now, at);
            }
        }
    }

    /// The scheduler wants the queue to be run: a worker does it.
    fn run_requested_queues(&mut self, now: Time, at: usize) {
        while self.scheduler.take_queue_run_request().is_some() {
            if self.with_decisions {
                self.run_in_worker(now, at);
            }
        }
    }

    fn timer(&mut self, now: Time) {
        if self.said.is_empty() {
            return self.scheduler.timer(now, &self.requests);
        }
        let until = now + Nanos::new(self.kernel.tick_nanos() / 2);
        let said = &self.said[self.heard..];
        let said = said.iter().take_while(|(time, _)| *time < until);
        let said: Vec<_> = said.map(|(_, said)| said.clone()).collect();
        self.heard = self.said.partition_point(|&(time, _)| time < until);
        let depths = said
            .iter()
            .filter(|said| matches!(said, KyberEvent::Depth { .. }));
        self.report.depth_changes += depths.count() as u64;
        let agreed = self.scheduler.timer_recorded(now, &self.requests, &said);
        self.report.depth_changes_agreed += agreed as u64;
    }
}
