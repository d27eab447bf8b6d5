//! Follows recordings of the multi-queue block layer.
//!
//! A recording may have an event X for each request that the scheduler gave out. Where it has none,
//! the decision is taken to lie where the kernel asks: on devices with look-ahead (loop, `null_blk`)
//! the next request is chosen as soon as the one before was issued, and held aside until a tag is
//! free; on devices with a budget (SCSI) when it is issued.
//!
//! The kernel asks after each issue, after the last insert of a flush, after a completion if it
//! lacked a slot before, and some ticks after an ask that gave nothing; only while no request is held
//! aside, the scheduler has work and (SCSI) a slot is free. If the next event is no answer, the answer
//! was "nothing".

use crate::request::{Bio, Op, Request, RequestId, Requests};
use crate::scheduler::kyber::Statement;
use crate::scheduler::{Kernel, Scheduler};
use crate::trace::kernel::Action;
use crate::units::{Nanos, Time};

use super::recording::Step;
pub use super::recording::{Device, Recording};
use super::{Disagreement, Report, describe, describe_ours};

/// A request that was given out later than this after the kernel asked was not the answer.
const SAME_RUN: Nanos = Nanos::from_micros(200);

/// Follows a recording with this scheduler, which ends in the state that the recording left.
pub fn follow(
    recording: &Recording,
    scheduler: Box<dyn Scheduler>,
    kernel: &Kernel,
    device: Device,
) -> (Report, Box<dyn Scheduler>) {
    let follower = Follower {
        recording,
        with_decisions: recording.has_decisions(),
        kernel,
        device,
        scheduler,
        requests: Requests::default(),
        held: Vec::new(),
        touched: Vec::new(),
        queued: Vec::new(),
        last: None,
        taken: Vec::new(),
        in_driver: Vec::new(),
        past_scheduler: Vec::new(),
        rerun: None,
        restart: false,
        busy: 0,
        waited: 0,
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
    device: Device,
    scheduler: Box<dyn Scheduler>,
    requests: Requests,
    /// Allocated, and not yet in the scheduler: in a plug, or issued past it.
    held: Vec<RequestId>,
    /// When a bio last joined one of those: by index of the request.
    touched: Vec<Time>,
    /// In the scheduler.
    queued: Vec<RequestId>,
    /// The one of those that was last merged, or else inserted.
    last: Option<RequestId>,
    /// Given out, and not yet issued.
    taken: Vec<RequestId>,
    /// Issued, and not yet completed.
    in_driver: Vec<RequestId>,
    /// The same, of those that never were in the scheduler.
    past_scheduler: Vec<RequestId>,
    /// When the kernel asks again after an ask that gave nothing.
    rerun: Option<Time>,
    /// The next completion runs the queue: the scheduler had work and was not asked, because the
    /// device had no slot (SCSI), or a request that had waited was issued (look-ahead).
    restart: bool,
    /// How often the device had no room, of late.
    busy: u32,
    /// Of those given out, how many have waited through a completion.
    waited: usize,
    /// How much of what the recorded kyber said has been heard.
    said: usize,
    report: Report,
}

impl Follower<'_> {
    fn follow(mut self) -> (Report, Box<dyn Scheduler>) {
        for at in 0..self.recording.steps.len() {
            let step = self.recording.steps[at];
            self.pass_time(at);
            match (step.action, step.op) {
                (Action::Allocated, Some(op)) => self.allocated(&step, op),
                (Action::BackMerged, Some(op)) => self.merged(&step, op, true),
                (Action::FrontMerged, Some(op)) => self.merged(&step, op, false),
                (Action::Joined, Some(op)) => self.joined(&step, op),
                (Action::Inserted, Some(op)) => {
                    self.inserted(&step, op);
                    if !self.flush_goes_on(at) {
                        self.asked(step.time, at + 1);
                    }
                }
                (Action::Decided, _) => {
                    self.decided(&step);
                    self.asked_for_more(step.time, at + 1);
                }
                (Action::Issued, Some(_)) => {
                    self.issued(&step);
                    let handed_over = !self.next_is(at + 1, Action::Issued);
                    if handed_over {
                        self.note_busy(!self.taken.is_empty());
                    }
                    // What was taken together is issued before the next ask.
                    if handed_over || !self.with_decisions {
                        self.asked(step.time, at + 1);
                    }
                }
                (Action::Completed, Some(_)) => {
                    self.completed(&step);
                    self.waited = self.taken.len();
                    if std::mem::take(&mut self.restart) && self.with_decisions {
                        self.asked(step.time, at + 1);
                    }
                }
                _ => {}
            }
        }
        (self.report, self.scheduler)
    }

    /// The process that inserted here inserts more at once: it does nothing else between, whatever
    /// happens on other processors.
    fn flush_goes_on(&self, at: usize) -> bool {
        let steps = &self.recording.steps;
        let Step { time, process, .. } = steps[at];
        let soon = steps[at + 1..].iter();
        let mut soon = soon.take_while(|step| step.time - time < SAME_RUN);
        let next = soon.find(|step| step.process == process);
        next.is_some_and(|next| next.action == Action::Inserted)
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
            let first = [timer, self.rerun].into_iter().flatten().min();
            let Some(now) = first.filter(|&first| first <= until) else {
                return;
            };
            if timer == Some(now) {
                self.timer(now);
            } else {
                self.rerun = None;
                self.asked(now, at);
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
        let said: Vec<_> = said.filter_map(|(_, said)| said.clone()).collect();
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

    // ---- asks ----------------------------------------------------------------------------

    /// The kernel asks the scheduler now, if it may; `next` is the event that may be the answer.
    fn asked(&mut self, now: Time, next: usize) {
        while self.may_ask() {
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
    fn has_an_answer(&self, now: Time) -> bool {
        let mut copy = self.scheduler.duplicate();
        copy.dispatch(now, &self.requests).is_some()
    }

    /// A device that was not busy of late is given several requests at once: the kernel asks on
    /// before it issues the first.
    fn asked_for_more(&mut self, now: Time, next: usize) {
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

    fn next_is(&self, next: usize, action: Action) -> bool {
        let next = self.recording.steps.get(next);
        next.is_some_and(|next| next.action == action)
    }

    /// As the kernel counts it: eighths of how often a device had no room.
    fn note_busy(&mut self, busy: bool) {
        self.busy = (7 * self.busy + if busy { 16 } else { 0 }) / 8;
    }

    /// Requests given out and not completed.
    fn out(&self) -> usize {
        self.in_driver.len() + self.past_scheduler.len() + self.taken.len()
    }

    fn may_ask(&mut self) -> bool {
        let out = self.out();
        if self.device.look_ahead && !self.taken.is_empty() && self.with_decisions {
            self.restart = true;
            self.note_busy(true);
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
    fn asked_in_vain(&mut self, now: Time, asks_soon: bool) {
        let before = self.scheduler.duplicate();
        if self.scheduler.dispatch(now, &self.requests).is_some() {
            self.report.eager += u64::from(!asks_soon);
            self.scheduler = before;
            return;
        }
        self.rerun = Some(self.kernel.asks_again(now));
    }

    // ---- decisions -----------------------------------------------------------------------

    fn decided(&mut self, step: &Step) {
        if self.find(&self.queued, step).is_none() {
            self.report.unexplained += 1;
        } else {
            self.decision(step.time, step);
        }
    }

    /// The recorded scheduler gave out the request of this event: what would ours have done?
    fn decision(&mut self, now: Time, recorded: &Step) {
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

    fn disagree(&mut self, now: Time, recorded: RequestId, ours: Option<RequestId>) {
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

    /// The request that an event is about: the one that covers exactly its sectors, or else one that
    /// begins there.
    fn find(&self, among: &[RequestId], step: &Step) -> Option<RequestId> {
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

    // ---- the life of a request -----------------------------------------------------------

    fn allocated(&mut self, step: &Step, op: Op) {
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

    fn touch(&mut self, id: RequestId, now: Time) {
        if id.index() >= self.touched.len() {
            self.touched.resize(id.index() + 1, Time::ZERO);
        }
        self.touched[id.index()] = now;
    }

    /// A bio joined a request: of its process's plug, or else of the scheduler.
    fn merged(&mut self, step: &Step, op: Op, back: bool) {
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
    fn has_grown(&mut self, id: RequestId) {
        if !self.scheduler.merges_in_lists() {
            self.queued.retain(|&other| other != id);
            self.queued.push(id);
            self.last = Some(id);
        }
    }

    /// A request became part of the one before it.
    fn joined(&mut self, step: &Step, op: Op) {
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

    fn inserted(&mut self, step: &Step, op: Op) {
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

    fn issued(&mut self, step: &Step) {
        if self.find(&self.taken, step).is_none() {
            if self.find(&self.queued, step).is_some() {
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

    /// A request that never was in the scheduler. Its own process issues the newest of its plug (to
    /// which what it allocated just now does not belong yet); what that could not issue stands before
    /// the software queues, in the order in which the plugs were given up.
    fn issued_directly(&mut self, step: &Step) {
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

    fn completed(&mut self, step: &Step) {
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
