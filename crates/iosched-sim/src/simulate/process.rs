//! Processes: each submits accesses as its job says, as many at a time as it keeps in flight, and
//! goes on when they are answered.

use super::ProcessOutcome;
use super::access::Access;
use super::agenda::{Agenda, Event};
use super::engine::Simulation;
use super::outcome::Flow;
use super::path::Path;
use crate::request::{Bio, ProcessId};
use crate::units::{Bytes, Nanos, Time};
use crate::workload::{Job, Stream};

/// The first process.
const FIRST: u32 = 1000;

/// Where a process stands among the host's.
pub(super) fn index_of(process: ProcessId) -> usize {
    (process.0 - FIRST) as usize
}

/// See the [module's page](self).
pub(super) struct Process {
    pub(super) id: ProcessId,
    pub(super) job: Job,
    stream: Stream,
    began: Option<Time>,
    ended: Option<Time>,
    in_flight: usize,
    submitted: Bytes,
    wake_planned: Option<Time>,
    /// With a rate: no access before this.
    not_before: Time,
    last_completion: Time,
    read: Flow,
    write: Flow,
}

impl Process {
    pub(super) fn new(index: usize, job: Job, seed: u64) -> Process {
        Process {
            id: ProcessId(FIRST + u32::try_from(index).expect("fewer than 2^31")),
            stream: Stream::new(&job, seed),
            job,
            began: None,
            ended: None,
            in_flight: 0,
            submitted: Bytes::ZERO,
            wake_planned: None,
            not_before: Time::ZERO,
            last_completion: Time::ZERO,
            read: Flow::default(),
            write: Flow::default(),
        }
    }

    /// It goes on at this time, if it does not before.
    pub(super) fn wake_at(&mut self, time: Time, index: usize, agenda: &mut Agenda) {
        if self.wake_planned.is_none_or(|planned| time < planned) {
            self.wake_planned = Some(time);
            agenda.plan(time, Event::Wake(index));
        }
    }

    /// An access is answered: it is counted. Returns for how long the process thinks before it
    /// goes on.
    pub(super) fn answered(&mut self, now: Time, issued: Time, access: &Access) -> Nanos {
        self.in_flight -= 1;
        self.last_completion = now;
        let flow = if access.op.is_write() {
            &mut self.write
        } else {
            &mut self.read
        };
        flow.bytes += access.length.to_bytes();
        flow.latencies.add(issued - access.submitted, now - issued);
        let alone = self.in_flight == 0 || self.job.listed.is_none();
        if alone {
            self.stream.think(&self.job)
        } else {
            Nanos::ZERO
        }
    }

    fn has_more(&self, now: Time) -> bool {
        let began = self.began.expect("it runs");
        let in_time = self.job.runtime.is_none_or(|runtime| now < began + runtime);
        in_time
            && self.stream.has_more(&self.job)
            && self.job.amount.is_none_or(|amount| self.submitted < amount)
    }

    /// True if this wake-up is the one that counts: then the process runs from now on.
    fn wakes(&mut self, now: Time) -> bool {
        if self.ended.is_some() || self.wake_planned.is_none_or(|planned| planned > now) {
            return false; // woken before, by something sooner
        }
        self.wake_planned = None;
        if self.began.is_none() {
            self.began = Some(now);
            self.not_before = now;
        }
        true
    }

    pub(super) fn outcome(self, now: Time) -> ProcessOutcome {
        let began = self.began.unwrap_or(Time::ZERO);
        let end = self.ended.map_or(now, |_| self.last_completion);
        ProcessOutcome {
            elapsed: end.saturating_since(began),
            name: self.job.name,
            read: self.read,
            write: self.write,
        }
    }
}

impl<P: Path> Simulation<'_, P> {
    /// Starts the processes of the group whose turn it is; if there is none, the load is over.
    pub(super) fn begin_group(&mut self, now: Time) {
        for index in 0..self.host.processes.len() {
            let job = &self.host.processes[index].job;
            if job.group == self.group {
                let begin = now + job.delay;
                self.host.wake_at(begin, index);
            }
        }
    }

    pub(super) fn wake(&mut self, now: Time, index: usize) {
        if !self.host.processes[index].wakes(now) {
            return;
        }
        self.first.get_or_insert(now);
        self.path.resume(&mut self.host, now, index);
        self.submit_what_is_due(now, index);
        let process = &self.host.processes[index];
        if process.in_flight == 0 && !process.has_more(now) {
            self.exit(now, index);
        }
    }

    fn submit_what_is_due(&mut self, now: Time, index: usize) {
        loop {
            let mut submitted = 0;
            while submitted < self.host.processes[index].job.batch && self.may_submit(now, index) {
                if self.host.processes[index].job.depth > 1 {
                    self.path.plug(index);
                }
                submitted += 1;
                self.submit(now, index);
            }
            self.path.unplug(&mut self.host, now, index);
            if submitted == 0 {
                return;
            }
        }
    }

    fn may_submit(&mut self, now: Time, index: usize) -> bool {
        let process = &self.host.processes[index];
        let free = process.in_flight < process.job.depth && !self.path.is_blocked(index);
        if !free || !process.has_more(now) {
            return false;
        }
        if process.job.rate_iops.is_some() && process.not_before > now {
            let at = process.not_before;
            self.host.wake_at(at, index);
            return false;
        }
        true
    }

    fn submit(&mut self, now: Time, index: usize) {
        let process = &mut self.host.processes[index];
        if let Some(rate) = process.job.rate_iops {
            process.not_before += Nanos::from_secs(1) / rate.max(1);
        }
        let wanted = process.stream.next(&process.job);
        process.in_flight += 1;
        process.submitted += wanted.length.to_bytes();
        let (id, priority) = (process.id, process.job.priority);
        let max = self.host.max_sectors;
        let access = self.host.accesses.begin(Access {
            process: index,
            op: wanted.op,
            submitted: now,
            length: wanted.length,
            bios: wanted.length.as_u64().div_ceil(max.as_u64()),
        });
        let mut start = wanted.start;
        let end = wanted.start + wanted.length;
        while start < end {
            let length = (end - start).min(max);
            let bio = Bio {
                op: wanted.op,
                start,
                length,
                sync: true, // direct access
                noidle: false,
                prio: false,
                process: id,
                priority,
            };
            self.path.submit(&mut self.host, now, index, &bio, access);
            start += length;
        }
    }

    fn exit(&mut self, now: Time, index: usize) {
        let host = &mut self.host;
        let process = &mut host.processes[index];
        process.ended = Some(now);
        host.observer.exited(now, process.id, &process.job.name);
        self.path.exited(host, now, index);
        let group = self.group;
        let running = |process: &Process| process.job.group == group && process.ended.is_none();
        if !self.host.processes.iter().any(running) {
            self.group += 1;
            self.begin_group(now);
        }
    }
}
