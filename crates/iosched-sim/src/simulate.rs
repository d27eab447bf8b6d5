//! A load, a scheduler and a disk, from event to event in virtual time.
//!
//! The block layer between them is Linux 4.19's single-queue path: a process that keeps several
//! accesses in flight plugs them; bios merge; a request waits for a free place among `nr_requests`
//! of its kind; the driver asks the scheduler after each unplug, unplugged insert, completion and
//! timer, and looks at one request more than the device takes, which then cannot be overtaken. The
//! host takes its time too ([`HostTimes`]).
//!
//! Left out: batching when `nr_requests` are in use (waiters go on one by one), writeback through the
//! page cache, flushes, requests given back by the driver.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::disk::{Command, Completion, DiskModel, DiskOp};
use crate::elevator::{Absorbed, Merge, MergeLimits, Merger};
use crate::histogram::Histogram;
use crate::request::{Bio, Op, ProcessId, Request, RequestId, Requests};
use crate::scheduler::Scheduler;
use crate::trace::kernel::Action;
use crate::units::{Bytes, Nanos, Sector, Sectors, Time};
use crate::workload::{Job, Stream};

/// How long the host takes for what is not the disk's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostTimes {
    /// From the end of a command in the drive to its completion in the block layer, when the next
    /// one is started.
    pub completion: Nanos,
    /// From a completion until what the process that waited for it submits next is in the queue.
    pub wakeup: Nanos,
    /// From the wish that a worker run the queue to its doing so.
    pub worker: Nanos,
}

impl Default for HostTimes {
    /// As in the recordings of Linux 4.19 that the schedulers were checked against.
    fn default() -> HostTimes {
        HostTimes {
            completion: Nanos::from_micros(5),
            wakeup: Nanos::from_micros(24), // 22 for reads of 4 KiB, 26 for 64 KiB
            worker: Nanos::from_micros(16),
        }
    }
}

/// Most requests that a plug holds before it is let go.
const PLUG_REQUESTS: usize = 16;
/// A request of this length ends a plug.
const PLUG_LENGTH: Sectors = Sectors::new(256); // 128 KiB
/// The first process.
const FIRST_PROCESS: u32 = 1000;

/// All that a run depends on.
pub struct Setup {
    /// The scheduler.
    pub scheduler: Box<dyn Scheduler>,
    /// The disk.
    pub disk: Box<dyn DiskModel>,
    /// The processes.
    pub jobs: Vec<Job>,
    /// Commands that the driver gives to the disk at a time.
    pub queue_depth: usize,
    /// Requests of each kind (synchronous, asynchronous) that may exist.
    pub nr_requests: usize,
    /// Limits of merging.
    pub limits: MergeLimits,
    /// Times of the host.
    pub host: HostTimes,
    /// Where chance comes from.
    pub seed: u64,
    /// The run ends here at the latest.
    pub until: Nanos,
}

/// Something that the block layer did, as blktrace would show it.
#[derive(Debug, Clone, Copy)]
pub struct Happening<'run> {
    /// When.
    pub time: Time,
    /// What.
    pub action: Action,
    /// Reads or writes; nothing for plugs.
    pub op: Option<Op>,
    /// First sector.
    pub start: Sector,
    /// How many.
    pub length: Sectors,
    /// In whose context; process 0 for completions.
    pub process: ProcessId,
    /// The name of the process that the request belongs to.
    pub owner: &'run str,
}

/// Who wants to see what happens.
pub trait Observer {
    /// Something happened.
    fn happened(&mut self, happening: &Happening);
    /// A process ended.
    fn exited(&mut self, time: Time, process: ProcessId, name: &str);
}

/// Looks away.
impl Observer for () {
    fn happened(&mut self, _happening: &Happening) {}
    fn exited(&mut self, _time: Time, _process: ProcessId, _name: &str) {}
}

/// Latencies of accesses: from submission to issue (queue), from there to completion (service), and
/// together.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    /// Queue and service together.
    pub total: Histogram,
    /// Submission to issue.
    pub queue: Histogram,
    /// Issue to completion.
    pub service: Histogram,
}

/// What a process got.
#[derive(Debug, Clone)]
pub struct ProcessOutcome {
    /// Its name.
    pub name: String,
    /// Accesses completed.
    pub accesses: u64,
    /// Data of them.
    pub bytes: Bytes,
    /// How long it ran.
    pub elapsed: Nanos,
    /// How long its accesses took.
    pub latencies: Latencies,
}

/// What came out of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Process by process, in the order of the load.
    pub processes: Vec<ProcessOutcome>,
    /// From the first submission to the last completion.
    pub elapsed: Nanos,
    /// Commands that the disk got: merged accesses count once.
    pub commands: u64,
    /// Sum of distances from the end of a command to the beginning of the next issued.
    pub seek_sectors: u64,
    /// Commands that began where the one before ended.
    pub contiguous: u64,
    /// Time in which the disk had nothing to do.
    pub disk_idle: Nanos,
}

impl Outcome {
    /// Jain's index of the processes' data rates: 1 if all got the same, 1 / n if one got all.
    pub fn fairness(&self) -> f64 {
        let rates: Vec<f64> = self
            .processes
            .iter()
            .map(|process| process.bytes.as_u64() as f64 / process.elapsed.as_secs_f64().max(1e-9))
            .collect();
        let sum: f64 = rates.iter().sum();
        let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
        if squares == 0.0 {
            1.0
        } else {
            sum * sum / (rates.len() as f64 * squares)
        }
    }

    /// All processes' latencies together.
    pub fn latencies(&self) -> Latencies {
        let mut all = Latencies::default();
        for process in &self.processes {
            all.total.merge(&process.latencies.total);
            all.queue.merge(&process.latencies.queue);
            all.service.merge(&process.latencies.service);
        }
        all
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A command that the disk finished is completed in the block layer.
    Completed(usize),
    /// A process goes on.
    Wake(usize),
    /// A worker runs the queue.
    RunQueue,
}

/// An access on its way: the parts that it was split into complete one by one.
#[derive(Debug, Clone, Copy)]
struct Flight {
    worker: usize,
    submitted: Time,
    parts: usize,
    length: Sectors,
}

/// A bio in a request.
#[derive(Debug, Clone, Copy)]
struct Part {
    flight: usize,
    next: Option<usize>,
}

/// What the simulation knows of a request besides the block layer.
#[derive(Debug, Clone, Copy)]
struct Track {
    id: RequestId,
    first: usize,
    last: usize,
    issued: Time,
}

/// Values with reusable places.
#[derive(Debug, Clone)]
struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slab<T> {
    fn new() -> Slab<T> {
        Slab {
            values: Vec::new(),
            free: Vec::new(),
        }
    }

    fn add(&mut self, value: T) -> usize {
        if let Some(place) = self.free.pop() {
            self.values[place] = Some(value);
            return place;
        }
        self.values.push(Some(value));
        self.values.len() - 1
    }

    fn remove(&mut self, place: usize) -> T {
        self.free.push(place);
        self.values[place].take().expect("a place is emptied once")
    }

    fn get_mut(&mut self, place: usize) -> &mut T {
        self.values[place].as_mut().expect("the place is in use")
    }
}

struct Worker {
    job: Job,
    process: ProcessId,
    stream: Stream,
    began: Option<Time>,
    ended: Option<Time>,
    in_flight: usize,
    submitted: Bytes,
    wake_planned: Option<Time>,
    /// With a rate: no access before this.
    not_before: Time,
    /// Requests that it holds back.
    plug: Vec<RequestId>,
    plugged: bool,
    /// Bios that wait for a free request.
    blocked: VecDeque<(Bio, usize)>,
    last_completion: Time,
    outcome: Latencies,
    accesses: u64,
    bytes: Bytes,
}

impl Worker {
    fn has_more(&self, now: Time) -> bool {
        let began = self.began.expect("it runs");
        let in_time = self.job.runtime.is_none_or(|runtime| now < began + runtime);
        in_time
            && self.stream.has_more(&self.job)
            && self.job.amount.is_none_or(|amount| self.submitted < amount)
    }
}

/// Runs a load to its end, or to the end of time.
pub fn run(setup: Setup, observer: &mut dyn Observer) -> Outcome {
    Simulation::new(setup, observer).run()
}

struct Simulation<'run> {
    scheduler: Box<dyn Scheduler>,
    disk: Box<dyn DiskModel>,
    merger: Merger,
    requests: Requests,
    queue_depth: usize,
    nr_requests: usize,
    host: HostTimes,
    until: Time,
    workers: Vec<Worker>,
    group: usize,
    observer: &'run mut dyn Observer,
    agenda: BinaryHeap<Reverse<(Time, u64, Event)>>,
    planned: u64,
    flights: Slab<Flight>,
    parts: Slab<Part>,
    /// By the request's index.
    tracks: Vec<Option<Track>>,
    /// Looked at by the driver, not yet taken by the device.
    held: Option<RequestId>,
    in_driver: usize,
    /// Asynchronous, synchronous: how many exist, and who waits.
    in_use: [usize; 2],
    waiting: [VecDeque<usize>; 2],
    absorbed: Vec<Absorbed>,
    completions: Vec<Completion>,
    first: Option<Time>,
    last: Time,
    commands: u64,
    seek_sectors: u64,
    contiguous: u64,
    last_end: Option<Sector>,
    busy_since: Option<Time>,
    busy: Nanos,
}

impl Simulation<'_> {
    fn new(setup: Setup, observer: &mut dyn Observer) -> Simulation<'_> {
        let workers = setup
            .jobs
            .into_iter()
            .enumerate()
            .map(|(index, job)| Worker {
                process: ProcessId(FIRST_PROCESS + u32::try_from(index).expect("fewer than 2^31")),
                stream: Stream::new(&job, setup.seed),
                job,
                began: None,
                ended: None,
                in_flight: 0,
                submitted: Bytes::ZERO,
                wake_planned: None,
                not_before: Time::ZERO,
                plug: Vec::new(),
                plugged: false,
                blocked: VecDeque::new(),
                last_completion: Time::ZERO,
                outcome: Latencies::default(),
                accesses: 0,
                bytes: Bytes::ZERO,
            });
        Simulation {
            workers: workers.collect(),
            scheduler: setup.scheduler,
            disk: setup.disk,
            merger: Merger::new(setup.limits),
            requests: Requests::default(),
            queue_depth: setup.queue_depth.max(1),
            nr_requests: setup.nr_requests.max(1),
            host: setup.host,
            until: Time::ZERO + setup.until,
            group: 0,
            observer,
            agenda: BinaryHeap::new(),
            planned: 0,
            flights: Slab::new(),
            parts: Slab::new(),
            tracks: Vec::new(),
            held: None,
            in_driver: 0,
            in_use: [0; 2],
            waiting: [VecDeque::new(), VecDeque::new()],
            absorbed: Vec::new(),
            completions: Vec::new(),
            first: None,
            last: Time::ZERO,
            commands: 0,
            seek_sectors: 0,
            contiguous: 0,
            last_end: None,
            busy_since: None,
            busy: Nanos::ZERO,
        }
    }

    fn plan(&mut self, time: Time, event: Event) {
        self.planned += 1;
        self.agenda.push(Reverse((time, self.planned, event)));
    }

    // ---- time ----------------------------------------------------------------------------

    fn run(mut self) -> Outcome {
        self.begin_group(Time::ZERO);
        let mut now = Time::ZERO;
        while let Some(next) = self.next_time() {
            if next > self.until {
                now = self.until;
                break;
            }
            now = now.max(next);
            self.step(now);
        }
        self.outcome(now)
    }

    fn next_time(&self) -> Option<Time> {
        let agenda = self.agenda.peek().map(|Reverse((time, _, _))| *time);
        [agenda, self.disk.next_event(), self.scheduler.next_timer()]
            .into_iter()
            .flatten()
            .min()
    }

    /// One thing that is due: the disk first, then the scheduler's timer, then the host.
    fn step(&mut self, now: Time) {
        if self.disk.next_event().is_some_and(|time| time <= now) {
            let mut completions = std::mem::take(&mut self.completions);
            self.disk.advance(now, &mut completions);
            for completion in completions.drain(..) {
                let index = usize::try_from(completion.tag).expect("tags are indices");
                self.plan(
                    completion.time + self.host.completion,
                    Event::Completed(index),
                );
            }
            self.completions = completions;
        } else if self.scheduler.next_timer().is_some_and(|time| time <= now) {
            self.scheduler.timer(now, &self.requests);
            self.heed_kick(now);
        } else if let Some(Reverse((_, _, event))) = self.agenda.pop() {
            match event {
                Event::Completed(index) => self.completed(now, index),
                Event::Wake(worker) => self.wake(now, worker),
                Event::RunQueue => self.run_queue(now, ProcessId(0)),
            }
        }
    }

    fn heed_kick(&mut self, now: Time) {
        if self.scheduler.take_kick() {
            self.plan(now + self.host.worker, Event::RunQueue);
        }
    }

    // ---- processes -----------------------------------------------------------------------

    /// Starts the processes of the group whose turn it is; if there is none, the load is over.
    fn begin_group(&mut self, now: Time) {
        let group = self.group;
        for index in 0..self.workers.len() {
            if self.workers[index].job.group == group {
                let begin = now + self.workers[index].job.delay;
                self.plan_wake(begin, index);
            }
        }
    }

    fn plan_wake(&mut self, time: Time, worker: usize) {
        if self.workers[worker]
            .wake_planned
            .is_none_or(|planned| time < planned)
        {
            self.workers[worker].wake_planned = Some(time);
            self.plan(time, Event::Wake(worker));
        }
    }

    fn wake(&mut self, now: Time, index: usize) {
        let worker = &mut self.workers[index];
        if worker.ended.is_some() || worker.wake_planned.is_none_or(|planned| planned > now) {
            return; // woken before, by something sooner
        }
        worker.wake_planned = None;
        if worker.began.is_none() {
            worker.began = Some(now);
            worker.not_before = now;
        }
        self.first.get_or_insert(now);
        self.submit_what_waited(now, index);
        self.submit_what_is_due(now, index);
        let worker = &self.workers[index];
        if worker.in_flight == 0 && worker.blocked.is_empty() && !worker.has_more(now) {
            self.exit(now, index);
        }
    }

    /// Bios for which there was no free request.
    fn submit_what_waited(&mut self, now: Time, index: usize) {
        while let Some(&(bio, flight)) = self.workers[index].blocked.front() {
            let kind = usize::from(bio.sync);
            if self.in_use[kind] >= self.nr_requests {
                if !self.waiting[kind].contains(&index) {
                    self.waiting[kind].push_back(index);
                }
                return;
            }
            self.workers[index].blocked.pop_front();
            self.new_request(now, index, &bio, flight);
        }
        self.unplug(now, index);
    }

    fn submit_what_is_due(&mut self, now: Time, index: usize) {
        loop {
            let mut submitted = 0;
            while submitted < self.workers[index].job.batch && self.may_submit(now, index) {
                let worker = &mut self.workers[index];
                worker.plugged |= worker.job.depth > 1;
                submitted += 1;
                self.submit(now, index);
            }
            self.unplug(now, index);
            if submitted == 0 {
                return;
            }
        }
    }

    fn may_submit(&mut self, now: Time, index: usize) -> bool {
        let worker = &self.workers[index];
        let free = worker.in_flight < worker.job.depth && worker.blocked.is_empty();
        if !free || !worker.has_more(now) {
            return false;
        }
        if worker.job.rate_iops.is_some() && worker.not_before > now {
            let at = worker.not_before;
            self.plan_wake(at, index);
            return false;
        }
        true
    }

    fn submit(&mut self, now: Time, index: usize) {
        let worker = &mut self.workers[index];
        if let Some(rate) = worker.job.rate_iops {
            worker.not_before += Nanos::from_secs(1) / rate.max(1);
        }
        let access = worker.stream.next(&worker.job);
        worker.in_flight += 1;
        worker.submitted += access.length.to_bytes();
        let (process, priority) = (worker.process, worker.job.priority);
        let max = self.merger.limits().max_sectors;
        let parts = access.length.as_u64().div_ceil(max.as_u64());
        let flight = self.flights.add(Flight {
            worker: index,
            submitted: now,
            parts: usize::try_from(parts).expect("few parts"),
            length: access.length,
        });
        let mut start = access.start;
        let end = access.start + access.length;
        while start < end {
            let length = (end - start).min(max);
            let bio = Bio {
                op: access.op,
                start,
                length,
                sync: true, // direct access
                noidle: false,
                prio: false,
                process,
                priority,
            };
            self.queue_bio(now, index, bio, flight);
            start += length;
        }
    }

    fn exit(&mut self, now: Time, index: usize) {
        self.workers[index].ended = Some(now);
        let process = self.workers[index].process;
        self.observer
            .exited(now, process, &self.workers[index].job.name);
        self.scheduler.process_exited(now, &self.requests, process);
        self.heed_kick(now);
        let group = self.group;
        let running = |worker: &Worker| worker.job.group == group && worker.ended.is_none();
        if !self.workers.iter().any(running) {
            self.group += 1;
            self.begin_group(now);
        }
    }

    // ---- bios ----------------------------------------------------------------------------

    fn tell(&mut self, time: Time, action: Action, request: &Request, process: ProcessId) {
        let owner = (request.process.0 - FIRST_PROCESS) as usize;
        self.observer.happened(&Happening {
            time,
            action,
            op: Some(request.op),
            start: request.start,
            length: request.length,
            process,
            owner: &self.workers[owner].job.name,
        });
    }

    fn tell_bio(&mut self, now: Time, action: Action, bio: &Bio) {
        self.tell(now, action, &Request::new(bio, now), bio.process);
    }

    fn tell_plug(&mut self, time: Time, action: Action, index: usize) {
        let worker = &self.workers[index];
        self.observer.happened(&Happening {
            time,
            action,
            op: None,
            start: Sector::ZERO,
            length: Sectors::ZERO,
            process: worker.process,
            owner: &worker.job.name,
        });
    }

    fn queue_bio(&mut self, now: Time, index: usize, bio: Bio, flight: usize) {
        self.tell_bio(now, Action::Queued, &bio);
        if self.merge_in_plug(now, index, &bio, flight) || self.merge_in_queue(now, &bio, flight) {
            return;
        }
        let kind = usize::from(bio.sync);
        let must_wait =
            self.in_use[kind] >= self.nr_requests || !self.workers[index].blocked.is_empty();
        if must_wait {
            if !self.waiting[kind].contains(&index) {
                self.waiting[kind].push_back(index);
            }
            self.workers[index].blocked.push_back((bio, flight));
            self.unplug(now, index); // a process that sleeps lets its requests go
            return;
        }
        self.new_request(now, index, &bio, flight);
    }

    fn merge_in_plug(&mut self, now: Time, index: usize, bio: &Bio, flight: usize) -> bool {
        let held = &self.workers[index].plug;
        let found = self.merger.find_held(&mut self.requests, held, bio);
        let Some(merge) = found else {
            return false;
        };
        let (Merge::Back(id) | Merge::Front(id)) = merge;
        self.requests[id].length += bio.length;
        if let Merge::Front(_) = merge {
            self.requests[id].start = bio.start;
        }
        self.tell_merge(now, merge, bio);
        self.add_part(id, flight);
        true
    }

    fn merge_in_queue(&mut self, now: Time, bio: &Bio, flight: usize) -> bool {
        let Simulation {
            merger,
            requests,
            scheduler,
            ..
        } = self;
        let Some(merge) = merger.find(requests, scheduler.as_ref(), bio) else {
            return false;
        };
        let (Merge::Back(id) | Merge::Front(id)) = merge;
        if !merger.fits(requests, id, bio) {
            return false;
        }
        let absorbed = merger.merge(now, requests, scheduler.as_mut(), merge, bio);
        self.tell_merge(now, merge, bio);
        self.add_part(id, flight);
        if let Some(absorbed) = absorbed {
            self.absorb(now, absorbed);
        }
        true
    }

    fn tell_merge(&mut self, now: Time, merge: Merge, bio: &Bio) {
        let back = matches!(merge, Merge::Back(_));
        self.tell_bio(
            now,
            if back {
                Action::BackMerged
            } else {
                Action::FrontMerged
            },
            bio,
        );
    }

    fn add_part(&mut self, id: RequestId, flight: usize) {
        let part = self.parts.add(Part { flight, next: None });
        let track = self.tracks[id.index()]
            .as_mut()
            .expect("the request is tracked");
        let last = std::mem::replace(&mut track.last, part);
        self.parts.get_mut(last).next = Some(part);
    }

    /// The victim's bios belong to the survivor now.
    fn absorb(&mut self, now: Time, Absorbed { survivor, victim }: Absorbed) {
        let gone = self.tracks[victim.index()]
            .take()
            .expect("the request is tracked");
        let track = self.tracks[survivor.index()]
            .as_mut()
            .expect("the request is tracked");
        let last = std::mem::replace(&mut track.last, gone.last);
        self.parts.get_mut(last).next = Some(gone.first);
        let kind = usize::from(self.requests[survivor].sync);
        self.free_request(now, kind);
    }

    fn free_request(&mut self, now: Time, kind: usize) {
        self.in_use[kind] -= 1;
        if let Some(worker) = self.waiting[kind].pop_front() {
            self.plan_wake(now + self.host.wakeup, worker);
        }
    }

    fn new_request(&mut self, now: Time, index: usize, bio: &Bio, flight: usize) {
        self.in_use[usize::from(bio.sync)] += 1;
        let id = self.requests.add(Request::new(bio, now));
        let part = self.parts.add(Part { flight, next: None });
        if id.index() >= self.tracks.len() {
            self.tracks.resize(id.index() + 1, None);
        }
        self.tracks[id.index()] = Some(Track {
            id,
            first: part,
            last: part,
            issued: now,
        });
        self.scheduler.prepare(now, &self.requests, id);
        self.tell_bio(now, Action::Allocated, bio);
        if !self.workers[index].plugged {
            self.insert(now, index, id, false);
            self.run_queue(now, bio.process);
            return;
        }
        let plug = &self.workers[index].plug;
        let long = plug
            .last()
            .is_some_and(|&last| self.requests[last].length >= PLUG_LENGTH);
        if plug.len() >= PLUG_REQUESTS || long {
            self.flush_plug(now, index);
        }
        if self.workers[index].plug.is_empty() {
            self.tell_plug(now, Action::Plugged, index);
        }
        self.workers[index].plug.push(id);
    }

    fn unplug(&mut self, now: Time, index: usize) {
        self.flush_plug(now, index);
        self.workers[index].plugged = false;
    }

    /// What was held back enters the scheduler in order of position, then the queue is run.
    fn flush_plug(&mut self, now: Time, index: usize) {
        if self.workers[index].plug.is_empty() {
            return;
        }
        let mut plug = std::mem::take(&mut self.workers[index].plug);
        plug.sort_by_key(|&id| self.requests[id].start);
        for id in plug.drain(..) {
            self.insert(now, index, id, true);
        }
        self.workers[index].plug = plug;
        self.tell_plug(now, Action::Unplugged, index);
        let process = self.workers[index].process;
        self.run_queue(now, process);
    }

    fn insert(&mut self, now: Time, index: usize, id: RequestId, from_plug: bool) {
        let process = self.workers[index].process;
        let request = self.requests[id];
        self.tell(now, Action::Inserted, &request, process);
        let mut absorbed = std::mem::take(&mut self.absorbed);
        let Simulation {
            merger,
            requests,
            scheduler,
            ..
        } = self;
        let at_once = merger.insert(
            now,
            requests,
            scheduler.as_mut(),
            id,
            from_plug,
            &mut absorbed,
        );
        for absorbed in absorbed.drain(..) {
            self.absorb(now, absorbed);
        }
        self.absorbed = absorbed;
        if at_once {
            self.run_queue(now, process);
        }
    }

    // ---- the driver ----------------------------------------------------------------------

    /// Gives the device what it takes, and looks at one request more.
    fn run_queue(&mut self, now: Time, process: ProcessId) {
        loop {
            if let Some(held) = self.held {
                if self.in_driver == self.queue_depth {
                    return;
                }
                self.held = None;
                self.start(now, held);
            }
            let Some(id) = self.scheduler.dispatch(now, &self.requests) else {
                return;
            };
            self.merger.dispatched(&self.requests, id);
            self.scheduler.activate(now, &self.requests, id);
            self.note_issue(now, id, process);
            self.held = Some(id);
        }
    }

    fn note_issue(&mut self, now: Time, id: RequestId, process: ProcessId) {
        let request = self.requests[id];
        self.tell(now, Action::Issued, &request, process);
        self.tracks[id.index()]
            .as_mut()
            .expect("the request is tracked")
            .issued = now;
        self.commands += 1;
        if let Some(last_end) = self.last_end {
            let distance = last_end.distance(request.start).as_u64();
            self.seek_sectors += distance;
            self.contiguous += u64::from(distance == 0);
        }
        self.last_end = Some(request.end());
    }

    fn start(&mut self, now: Time, id: RequestId) {
        let request = &self.requests[id];
        self.in_driver += 1;
        self.busy_since.get_or_insert(now);
        self.disk.submit(
            now,
            Command {
                tag: id.index() as u64,
                op: match request.op {
                    Op::Read => DiskOp::Read,
                    Op::Write => DiskOp::Write,
                    Op::Discard => DiskOp::Discard,
                },
                start: request.start,
                length: request.length,
                fua: false,
            },
        );
    }

    fn completed(&mut self, now: Time, index: usize) {
        let track = self.tracks[index].take().expect("a request completes once");
        let request = self.requests[track.id];
        self.tell(now, Action::Completed, &request, ProcessId(0));
        self.last = now;
        let mut next = Some(track.first);
        while let Some(part) = next {
            let part = self.parts.remove(part);
            next = part.next;
            self.part_completed(now, part.flight, track.issued);
        }
        self.in_driver -= 1;
        if self.in_driver == 0 {
            let since = self.busy_since.take().expect("it was busy");
            self.busy += now - since;
        }
        self.scheduler.completed(now, &self.requests, track.id);
        self.requests.remove(track.id);
        self.free_request(now, usize::from(request.sync));
        self.run_queue(now, ProcessId(0));
        self.heed_kick(now);
    }

    fn part_completed(&mut self, now: Time, flight_place: usize, issued: Time) {
        let flight = self.flights.get_mut(flight_place);
        flight.parts -= 1;
        if flight.parts > 0 {
            return;
        }
        let flight = self.flights.remove(flight_place);
        let worker = &mut self.workers[flight.worker];
        worker.in_flight -= 1;
        worker.last_completion = now;
        worker.accesses += 1;
        worker.bytes += flight.length.to_bytes();
        worker.outcome.total.add(now - flight.submitted);
        worker.outcome.queue.add(issued - flight.submitted);
        worker.outcome.service.add(now - issued);
        let alone = worker.in_flight == 0 || worker.job.listed.is_none();
        let think = if alone {
            worker.stream.think(&worker.job)
        } else {
            Nanos::ZERO
        };
        let wake = now + self.host.wakeup + think;
        self.plan_wake(wake, flight.worker);
    }

    // ---- the end -------------------------------------------------------------------------

    fn outcome(mut self, now: Time) -> Outcome {
        if let Some(since) = self.busy_since {
            self.busy += now.max(since) - since;
            self.last = self.last.max(now);
        }
        let first = self.first.unwrap_or(Time::ZERO);
        let elapsed = self.last.saturating_since(first);
        let processes = self.workers.into_iter().map(|worker| {
            let began = worker.began.unwrap_or(Time::ZERO);
            let end = worker.ended.map_or(now, |_| worker.last_completion);
            ProcessOutcome {
                elapsed: end.saturating_since(began),
                name: worker.job.name,
                accesses: worker.accesses,
                bytes: worker.bytes,
                latencies: worker.outcome,
            }
        });
        Outcome {
            processes: processes.collect(),
            elapsed,
            commands: self.commands,
            seek_sectors: self.seek_sectors,
            contiguous: self.contiguous,
            disk_idle: elapsed.saturating_sub(self.busy),
        }
    }
}
