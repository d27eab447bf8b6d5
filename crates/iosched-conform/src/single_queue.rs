//! Follows recordings of the single-queue block layer (kernels before 5.0).
//!
//! The queue is run after an unplug, an insert without plug, a completion, a timer and a worker's
//! turn, while the device has room. The driver looks at one request more than the device takes: at
//! queue depth N up to N + 1 requests stand between issue and completion, and while the additional
//! one is held the scheduler is not asked.
//!
//! Where bios merge, what inserts join, how far the driver looks and how long a worker takes are the
//! block layer's own rules (`Merger`, `looks_further`, `Delays`). That is not driven as a whole: its
//! events are what comes out of it, at times that it would take to be those of the causes.

use std::collections::{BTreeMap, BTreeSet};

use iosched_facts::units::Time;
use iosched_sim::block_layer::looks_further;
use iosched_sim::block_layer::{Delays, MergeLimits, Merger};
use iosched_sim::request::{Bio, IoPriority, Merge, Op, ProcessId, Request, RequestId, Requests};
use iosched_sim::scheduler::Followed;
use iosched_sim::trace::ReadError;
use iosched_sim::trace::kernel::{Action, Line, Reader, Remark, TraceEvent};

use super::{Disagreement, MOST_UNDER_WAY, Report, SAME_RUN, describe, describe_ours};

/// A worker as the recording describes it.
#[derive(Debug, Clone, Copy, Default)]
struct Worker {
    priority: IoPriority,
    buffered: bool,
}

/// Where a bio would go by our rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Into a request that its process still holds back.
    Plug(Merge),
    /// Into one that stands in the scheduler.
    Queue(Merge),
    /// Into one of its own.
    New,
}

/// Follows one recording. Feed it lines, then [`Follower::finish`].
pub struct Follower {
    reader: Reader,
    scheduler: Box<dyn Followed>,
    merger: Merger,
    requests: Requests,
    /// Requests of more are given up.
    most_under_way: usize,
    queue_depth: usize,
    workers: BTreeMap<ProcessId, Worker>,
    /// When processes end; of those at one time in the order of the lines that say so.
    exits: BTreeMap<(Time, u64), ProcessId>,
    /// When a worker runs the queue.
    worker: Option<Time>,
    /// Processes that hold their requests back.
    plugged: BTreeSet<ProcessId>,
    /// Requests allocated and not yet inserted, oldest first.
    allocated: BTreeMap<ProcessId, Vec<RequestId>>,
    /// Bios that were queued last, and what we expect of them.
    queued: BTreeMap<ProcessId, (Bio, Expected)>,
    /// Requests that the driver has.
    issued: Vec<RequestId>,
    /// Requests that the device gave back to it.
    requeued: Vec<RequestId>,
    /// Commands between issue and completion, also those that do not pass the scheduler.
    outstanding: usize,
    /// The event before the one that was read last: it is judged by what follows.
    pending: Option<TraceEvent>,
    report: Report,
}

impl Follower {
    /// A follower of a recording made on a device with this queue depth.
    pub fn new(scheduler: Box<dyn Followed>, limits: MergeLimits, queue_depth: usize) -> Follower {
        Follower {
            reader: Reader::default(),
            merger: Merger::new(limits, scheduler.as_ref()),
            scheduler,
            requests: Requests::default(),
            most_under_way: MOST_UNDER_WAY,
            queue_depth,
            workers: BTreeMap::new(),
            exits: BTreeMap::new(),
            worker: None,
            plugged: BTreeSet::new(),
            allocated: BTreeMap::new(),
            queued: BTreeMap::new(),
            issued: Vec::new(),
            requeued: Vec::new(),
            outstanding: 0,
            pending: None,
            report: Report::default(),
        }
    }

    /// Reads a line.
    pub fn line(&mut self, text: &str) -> Result<(), ReadError> {
        match self.reader.read(text)? {
            None
            | Some(Line::Remark(
                Remark::Other | Remark::Kyber { .. } | Remark::Dirtied { .. } | Remark::TimeZero(_),
            )) => {}
            Some(Line::Remark(Remark::Queue(queue))) if queue.multi_queue => {
                return Err(self.multi_queue());
            }
            Some(Line::Remark(Remark::Queue(queue))) => {
                if let Some(attached) = queue.attached.filter(|_| self.pending.is_none()) {
                    self.reader.set_zero(attached);
                }
            }
            Some(Line::Remark(Remark::Worker {
                process,
                priority,
                buffered,
                ..
            })) => {
                self.workers.insert(process, Worker { priority, buffered });
            }
            Some(Line::Remark(Remark::Exit { process, time })) => {
                self.exits.insert((time, self.reader.lines()), process);
            }
            Some(Line::Event(event)) if event.action == Action::Dispatched => {
                return Err(self.multi_queue());
            }
            Some(Line::Event(event)) => {
                if let Some(pending) = self.pending.take() {
                    self.follow(&pending, Some(&event));
                }
                self.pending = Some(event);
            }
        }
        Ok(())
    }

    fn multi_queue(&self) -> ReadError {
        ReadError::multi_queue(self.reader.lines())
    }

    /// The recording has ended: what came out, and the scheduler as it is then.
    pub fn finish(mut self) -> (Report, Box<dyn Followed>) {
        if let Some(pending) = self.pending.take() {
            self.follow(&pending, None);
        }
        (self.report, self.scheduler)
    }

    // ---- one event -----------------------------------------------------------------------

    fn follow(&mut self, event: &TraceEvent, next: Option<&TraceEvent>) {
        self.pass_time(event);
        let now = event.time;
        match (event.action, event.op) {
            (Action::Queued, Some(op)) => self.queued(now, event, op),
            (Action::Allocated, Some(op)) => self.allocated(now, event, op),
            (Action::BackMerged | Action::FrontMerged, Some(op)) => self.merged(now, event, op),
            (Action::Plugged, _) => {
                self.plugged.insert(event.process);
            }
            (Action::Unplugged, _) => {
                self.plugged.remove(&event.process);
                self.run(now, next);
            }
            (Action::UnpluggedLater, _) => {
                self.plugged.remove(&event.process);
                self.call_worker(now);
            }
            (Action::Inserted, Some(op)) if self.inserted(now, event, op) => self.run(now, next),
            (Action::Issued, op) => {
                match op {
                    Some(op) => self.issued(now, event, op),
                    None => self.outstanding += 1,
                }
                self.run(now, next);
            }
            (Action::Requeued, Some(op)) => self.requeued(now, event, op),
            (Action::Completed, op) => {
                self.completed(now, event, op);
                self.run_if_requested(now);
                self.run(now, next);
            }
            _ => {}
        }
    }

    /// What our scheduler's timer, workers and the ends of processes do before this event.
    fn pass_time(&mut self, event: &TraceEvent) {
        while let Some(now) = self.next_cause().filter(|&next| next <= event.time) {
            if self.scheduler.next_timer() == Some(now) {
                self.scheduler.timer(now, &self.requests);
                self.run_if_requested(now);
            } else if let Some(exit) = self.exits.first_entry()
                && exit.key().0 == now
            {
                let process = exit.remove();
                self.scheduler.process_exited(now, &self.requests, process);
                self.run_if_requested(now);
            } else {
                self.worker = None;
                self.run(now, Some(event));
            }
        }
    }

    /// When the queue may be run next for something that is no event.
    fn next_cause(&self) -> Option<Time> {
        let timer = self.scheduler.next_timer();
        let exit = self.exits.keys().next().map(|&(time, _)| time);
        [timer, exit, self.worker].into_iter().flatten().min()
    }

    fn run_if_requested(&mut self, now: Time) {
        if self.scheduler.take_queue_run_request().is_some() {
            self.call_worker(now);
        }
    }

    fn call_worker(&mut self, now: Time) {
        self.worker.get_or_insert(now + Delays::RECORDED.worker);
    }

    /// The kernel runs the queue. If the next event is an issue, it is what this run dispatched, and
    /// is judged when its turn comes; otherwise this run gave nothing, which may have changed the
    /// scheduler's state all the same. Where the queue may have been run again before the issue, it
    /// was this run's if ours dispatches something now.
    fn run(&mut self, now: Time, next: Option<&TraceEvent>) {
        if !looks_further(self.outstanding, self.queue_depth) {
            return;
        }
        let issue = next.filter(|next| {
            next.action == Action::Issued && next.op.is_some() && next.time - now < SAME_RUN
        });
        let next_cause = self.next_cause();
        let run_again = |by: Time| next_cause.is_some_and(|cause| cause <= by);
        if issue.is_some_and(|issue| !run_again(issue.time)) {
            return;
        }
        let before = self.scheduler.duplicate();
        if self.scheduler.dispatch(now, &self.requests, 0).is_some() {
            self.report.eager += u64::from(issue.is_none());
            self.scheduler = before;
        }
    }

    // ---- bios ----------------------------------------------------------------------------

    fn bio(&self, event: &TraceEvent, op: Op) -> Bio {
        let worker = self
            .workers
            .get(&event.process)
            .copied()
            .unwrap_or_default();
        let waited_write = op.is_write() && event.sync;
        Bio {
            op,
            start: event.start,
            length: event.length,
            sync: event.sync,
            sync_flag: event.sync_flag,
            // Not in the recording: direct writes may be followed by more, those of fsync may not.
            noidle: waited_write && (worker.buffered || event.comm == "sync"),
            prio: event.meta && op == Op::Read,
            fua: false, // what file systems mark so
            process: event.process,
            priority: worker.priority,
        }
    }

    fn queued(&mut self, now: Time, event: &TraceEvent, op: Op) {
        let bio = self.bio(event, op);
        let expected = self.expect(now, &bio);
        self.queued.insert(event.process, (bio, expected));
    }

    fn expect(&mut self, now: Time, bio: &Bio) -> Expected {
        if let Some(merge) = self.plug_partner(bio) {
            return Expected::Plug(merge);
        }
        let scheduler = self.scheduler.as_mut();
        match self.merger.find(now, &self.requests, scheduler, bio, 0) {
            Some(merge) if self.merger.admit(&mut self.requests, merge.request(), bio) => {
                Expected::Queue(merge)
            }
            _ => Expected::New,
        }
    }

    fn plug_partner(&mut self, bio: &Bio) -> Option<Merge> {
        let held = self.allocated.get(&bio.process)?;
        self.merger.find_plugged(&mut self.requests, held, bio)
    }

    /// The bio that this process queued last, if it is the one that the event is about.
    fn take_queued(&mut self, event: &TraceEvent, op: Op) -> (Bio, Expected) {
        match self.queued.remove(&event.process) {
            Some((bio, expected)) if bio.start == event.start => (bio, expected),
            _ => (self.bio(event, op), Expected::New),
        }
    }

    fn allocated(&mut self, now: Time, event: &TraceEvent, op: Op) {
        let (bio, expected) = self.take_queued(event, op);
        if expected != Expected::New {
            self.report.merge_mismatches += 1;
        }
        let bio = Bio {
            length: event.length,
            ..bio
        };
        let id = self.prepared(now, &bio);
        self.allocated.entry(event.process).or_default().push(id);
    }

    /// A request of this bio, which the scheduler knows of.
    fn prepared(&mut self, now: Time, bio: &Bio) -> RequestId {
        if self.requests.count() >= self.most_under_way {
            self.give_up_on_the_older_half(now);
        }
        let id = self.requests.add(Request::new(bio, now));
        self.scheduler.prepare(now, &self.requests, id);
        id
    }

    /// More requests are under way than a queue has: what became of the older ones is not in the recording.
    fn give_up_on_the_older_half(&mut self, now: Time) {
        let mut old = self.requests.older_half();
        self.report.unexplained += old.len() as u64;
        let leaves = |list: &mut Vec<RequestId>, old: &mut BTreeSet<RequestId>| -> Vec<RequestId> {
            let (leave, stay) = list.iter().partition(|id| old.contains(id));
            *list = stay;
            for id in &leave {
                old.remove(id);
            }
            leave
        };
        for held in self.allocated.values_mut() {
            for id in leaves(held, &mut old) {
                self.scheduler.absorbed(id);
                self.requests.remove(id);
            }
        }
        let issued = leaves(&mut self.issued, &mut old);
        self.outstanding = self.outstanding.saturating_sub(issued.len());
        let mut unissued = leaves(&mut self.requeued, &mut old);
        for id in old {
            self.scheduler.dispatch_recorded(now, &self.requests, id);
            self.merger.dispatched(self.scheduler.as_mut(), id);
            unissued.push(id);
        }
        for &id in &unissued {
            self.scheduler.activate(now, &self.requests, id);
        }
        for id in unissued.into_iter().chain(issued) {
            self.scheduler.completed(now, &self.requests, id);
            self.requests.remove(id);
        }
    }

    fn merged(&mut self, now: Time, event: &TraceEvent, op: Op) {
        let (bio, expected) = self.take_queued(event, op);
        let back = event.action == Action::BackMerged;
        let fits_kind = |merge: Merge| merge.is_back() == back;
        if let Some(merge) = self.plug_partner(&bio).filter(|&merge| fits_kind(merge)) {
            return Merger::grow(&mut self.requests, merge, &bio);
        }
        let merge = match expected {
            Expected::Queue(merge) if fits_kind(merge) && self.still_takes(merge, &bio) => {
                Some(merge)
            }
            _ => {
                self.report.merge_mismatches += 1;
                self.touching(&bio, back)
            }
        };
        if let Some(merge) = merge {
            let Follower {
                merger,
                requests,
                scheduler,
                ..
            } = self;
            merger.merge_into(now, requests, scheduler.as_mut(), merge, &bio);
        }
    }

    /// The request that a bio was to go into is still in the scheduler, and the bio touches it.
    fn still_takes(&self, merge: Merge, bio: &Bio) -> bool {
        let id = merge.request();
        self.merger.has(id) && {
            let request = &self.requests[id];
            let touches = match merge {
                Merge::Back(_) => request.end() == bio.start,
                Merge::Front(_) => bio.end() == request.start,
            };
            touches && request.op == bio.op
        }
    }

    /// A request in the scheduler that the recording may have merged the bio with.
    fn touching(&self, bio: &Bio, back: bool) -> Option<Merge> {
        let mut alike = self
            .merger
            .all()
            .filter(|&id| self.requests[id].op == bio.op);
        if back {
            alike
                .find(|&id| self.requests[id].end() == bio.start)
                .map(Merge::Back)
        } else {
            alike
                .find(|&id| self.requests[id].start == bio.end())
                .map(Merge::Front)
        }
    }

    // ---- requests ------------------------------------------------------------------------

    /// True if the queue is run now.
    fn inserted(&mut self, now: Time, event: &TraceEvent, op: Op) -> bool {
        let from_plug = self.plugged.contains(&event.process);
        let id = if let Some(id) = self.take_allocated(event, op) {
            id
        } else {
            // Its allocation was not seen.
            self.report.unexplained += 1;
            let bio = self.bio(event, op);
            self.prepared(now, &bio)
        };
        self.requests[id].length = event.length;
        let Follower {
            merger,
            requests,
            scheduler,
            ..
        } = self;
        let mut absorbed = Vec::new();
        let at_once = merger.insert(
            now,
            requests,
            scheduler.as_mut(),
            id,
            from_plug,
            &mut absorbed,
        );
        at_once || !from_plug
    }

    /// The request that was allocated for what is now inserted, by the same process or (a flush by
    /// another) by any.
    fn take_allocated(&mut self, event: &TraceEvent, op: Op) -> Option<RequestId> {
        let requests = &self.requests;
        let is_it = |id: &RequestId| requests[*id].start == event.start && requests[*id].op == op;
        let holds = |held: &Vec<RequestId>| held.iter().any(is_it);
        let own = self.allocated.get(&event.process).is_some_and(holds);
        let process = if own {
            event.process
        } else {
            *self.allocated.iter().find(|(_, held)| holds(held))?.0
        };
        let held = self.allocated.get_mut(&process)?;
        let place = held.iter().position(is_it)?;
        Some(held.remove(place))
    }

    /// The device did not take a request: the driver sends it again, without asking.
    fn requeued(&mut self, now: Time, event: &TraceEvent, op: Op) {
        if let Some(id) = take(&mut self.issued, &self.requests, event, op) {
            self.outstanding = self.outstanding.saturating_sub(1);
            self.scheduler.deactivate(now, &self.requests, id);
            self.requeued.push(id);
        }
    }

    fn issued(&mut self, now: Time, event: &TraceEvent, op: Op) {
        self.outstanding += 1;
        if let Some(id) = take(&mut self.requeued, &self.requests, event, op) {
            self.scheduler.activate(now, &self.requests, id);
            self.issued.push(id);
            return;
        }
        let has_choice = self.merger.all().nth(1).is_some();
        self.report.decided(has_choice);
        self.report.first_position.get_or_insert(event.start);
        let recorded = self
            .merger
            .covering(&self.requests, op, event.start, event.length);
        let recorded = recorded.or_else(|| {
            let starting = |&id: &RequestId| {
                self.requests[id].start == event.start && self.requests[id].op == op
            };
            self.merger.all().find(starting)
        });
        let before = self.scheduler.duplicate();
        let ours = self.scheduler.dispatch(now, &self.requests, 0);
        let same = |id: RequestId| {
            let request = &self.requests[id];
            request.op == op && request.start == event.start && request.length == event.length
        };
        let agreed = ours.is_some_and(same);
        if agreed {
            self.report.agreed(has_choice);
        } else {
            self.scheduler = before;
            self.disagree(now, event, op, ours);
        }
        let Some(id) = recorded.filter(|_| !agreed).or(ours.filter(|_| agreed)) else {
            self.report.unexplained += 1;
            return;
        };
        if !agreed {
            self.scheduler.dispatch_recorded(now, &self.requests, id);
        }
        self.merger.dispatched(self.scheduler.as_mut(), id);
        self.scheduler.activate(now, &self.requests, id);
        self.issued.push(id);
    }

    fn disagree(&mut self, now: Time, event: &TraceEvent, op: Op, ours: Option<RequestId>) {
        let Follower {
            report,
            merger,
            requests,
            reader,
            ..
        } = self;
        report.disagree(|| {
            let owner = merger.all().find(|&id| requests[id].start == event.start);
            let owner = owner.map_or(event.process, |id| requests[id].process);
            Disagreement {
                time_us: reader.recorded_micros(now),
                recorded: describe(op, event.start, event.length, owner),
                ours: describe_ours(ours.map(|id| &requests[id])),
            }
        });
    }

    fn completed(&mut self, now: Time, event: &TraceEvent, op: Option<Op>) {
        self.outstanding = self.outstanding.saturating_sub(1);
        let Some(op) = op else { return };
        let Some(id) = take(&mut self.issued, &self.requests, event, op) else {
            self.report.unexplained += 1;
            return;
        };
        self.scheduler.completed(now, &self.requests, id);
        self.requests.remove(id);
    }
}

/// Takes the request that an event is about out of a list.
fn take(
    list: &mut Vec<RequestId>,
    requests: &Requests,
    event: &TraceEvent,
    op: Op,
) -> Option<RequestId> {
    let about = |&id: &RequestId| requests[id].start == event.start && requests[id].op == op;
    let at = list.iter().position(about)?;
    Some(list.remove(at))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use iosched_sim::scheduler::{Kernel, SchedulerSpec, build_followed};

    const SCHEDULERS: [&str; 3] = ["noop", "deadline", "cfq"];

    fn followed(scheduler: &str, most_under_way: usize, text: &str) -> Report {
        let spec = SchedulerSpec::parse(scheduler).unwrap();
        let scheduler = build_followed(&spec, &Kernel::default(), &Vec::new()).unwrap();
        let mut follower = Follower::new(scheduler, MergeLimits::default(), 1);
        follower.most_under_way = most_under_way;
        text.lines().for_each(|line| follower.line(line).unwrap());
        follower.finish().0
    }

    #[test]
    fn a_bio_whose_request_is_gone_by_the_time_of_its_merge_is_a_mismatch() {
        let text = "\
            0 Q R 800 8 1 a a\n0 G R 800 8 1 a a\n0 I R 800 8 1 a a\n\
            4 Q R 808 8 2 b b\n12 D R 800 8 1 a a\n34 C R 800 8 1 a a\n36 M R 808 8 2 b b\n";
        for scheduler in SCHEDULERS {
            let report = followed(scheduler, MOST_UNDER_WAY, text);
            assert_eq!(report.merge_mismatches, 1, "{scheduler}: {report:?}");
        }
    }

    #[test]
    fn what_is_never_issued_is_given_up() {
        for scheduler in SCHEDULERS {
            let count = 500;
            let mut text = String::new();
            for number in 0..count {
                let (start, process) = (1000 + 16 * number, 10 + number);
                // One stays in a plug, one in the scheduler.
                writeln!(text, "0 P N 0 0 {process} p p").unwrap();
                writeln!(text, "0 Q R {start} 8 {process} p p").unwrap();
                writeln!(text, "0 G R {start} 8 {process} p p").unwrap();
                for action in ["Q", "G", "I"] {
                    writeln!(text, "0 {action} W {start} 8 9 q q").unwrap();
                }
                for action in ["Q", "G", "I", "D", "C"] {
                    writeln!(text, "0 {action} R 500 8 1 a a").unwrap();
                }
            }
            let report = followed(scheduler, 64, &text);
            assert_eq!(report.decisions, count, "{scheduler}");
            assert!(report.unexplained >= 2 * count - 64, "{report:?}");
        }
    }
}
