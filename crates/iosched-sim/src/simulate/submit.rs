//! Processes whose turn it is submit what they have, and end when they have no more.

use super::access::{Access, Purpose};
use super::engine::Simulation;
use super::process::Process;
use super::room;
use crate::block_layer::RequestQueue;
use crate::request::Bio;
use crate::units::Time;
use crate::workload;

impl<Q: RequestQueue> Simulation<'_, Q> {
    /// Starts the processes of the group whose turn it is; if there is none, the load is over.
    pub(super) fn begin_group(&mut self, now: Time) {
        self.group_began = now;
        for index in 0..self.host.processes.len() {
            let process = &self.host.processes[index];
            let job = &process.job;
            let by_itself = self.host.flusher != Some(index) && !process.arrives();
            if job.group == self.group && by_itself && job.after.is_none() {
                let begin = now + job.delay;
                self.host.wake_at(begin, index);
            }
        }
    }

    pub(super) fn wake(&mut self, now: Time, index: usize) {
        if !self.host.processes[index].wakes(now) {
            return;
        }
        if self.host.flusher.is_some() {
            self.queue.writers_wait(self.host.cache.lately_waited(now));
        }
        self.queue.resume(&mut self.host, now, index);
        if self.host.flusher == Some(index) {
            return self.write_back(now, index);
        }
        self.first.get_or_insert(now);
        if self.host.processes[index].is_held_up() {
            self.go_on_with_sync(now, index);
            self.go_on_with_held_back(now, index);
        }
        self.submit_what_is_due(now, index);
        let asleep = self.queue.is_blocked(index);
        self.host.processes[index].finish_submitting(now, asleep);
        self.end_if_done(now, index);
    }

    fn submit_what_is_due(&mut self, now: Time, index: usize) {
        self.begin_sync_if_due(now, index);
        let batch = self.host.processes[index].job.batch;
        loop {
            let mut submitted = 0;
            while submitted < batch && self.due_or_planned(now, index) {
                submitted += 1;
                let process = &mut self.host.processes[index];
                if process.job.depth > 1 {
                    self.queue.plug(index);
                }
                let access = process.next();
                if process.job.buffered {
                    self.cached(now, now, index, access);
                } else {
                    self.submit(now, index, access);
                }
                self.begin_sync_if_due(now, index);
            }
            self.queue.unplug(&mut self.host, now, index);
            if submitted == 0 || self.queue.is_blocked(index) {
                return;
            }
        }
    }

    fn begin_sync_if_due(&mut self, now: Time, index: usize) {
        if self.host.processes[index].may_begin_sync() {
            self.unplug_and_begin_sync(now, index);
        }
    }

    #[inline(never)]
    fn unplug_and_begin_sync(&mut self, now: Time, index: usize) {
        self.queue.unplug(&mut self.host, now, index);
        self.begin_sync(now, index);
    }

    /// Its next access is due now, and there is room for it; if that is later, it is woken then.
    fn due_or_planned(&mut self, now: Time, index: usize) -> bool {
        if self.queue.is_blocked(index) {
            return false;
        }
        match self.host.processes[index].due(now) {
            Some(time) if time > now => {
                self.host.wake_at(time, index);
                false
            }
            due => due.is_some() && self.has_room_or_waits(now, index),
        }
    }

    /// Whether the process may make another access now; if not, it is woken when it may.
    #[inline]
    fn has_room_or_waits(&mut self, now: Time, index: usize) -> bool {
        let has_room = room::left(self.host.accesses.unanswered()) > 0;
        if !has_room {
            self.wait_for_room(now, index);
        }
        has_room
    }

    #[inline(never)]
    fn wait_for_room(&mut self, now: Time, index: usize) {
        let waits = &mut self.host.processes[index].waits_for_room;
        if !std::mem::replace(waits, true) {
            self.room.add(now, index);
        }
    }

    /// The process reads or writes the disk itself.
    pub(super) fn submit(&mut self, now: Time, index: usize, wanted: workload::Access) {
        let volatile = self.host.volatile;
        let process = &mut self.host.processes[index];
        process.take_until_fewer(now, process.job.depth);
        process.in_flight += 1;
        let bio = Bio {
            op: wanted.op,
            start: wanted.start,
            length: wanted.length,
            sync: wanted.sync,
            sync_flag: wanted.sync && (wanted.op.is_write() || process.job.is_synchronous()),
            noidle: false,
            prio: false,
            fua: wanted.op.is_write() && process.job.sync.each_write && volatile,
            process: process.id,
            priority: process.priority_of(wanted.op),
        };
        self.submit_bios(now, index, &bio, Purpose::Own);
    }

    /// What is longer than a request can be becomes several bios.
    pub(super) fn submit_bios(&mut self, now: Time, index: usize, whole: &Bio, purpose: Purpose) {
        let max = self.host.max_sectors;
        let access = self.host.accesses.begin(Access {
            process: index,
            purpose,
            op: whole.op,
            submitted: now,
            entered: now,
            length: whole.length,
            bios: self.host.bios_of(whole.length),
        });
        if whole.length <= max {
            return self.queue.submit(&mut self.host, now, whole, access);
        }
        let mut start = whole.start;
        while start < whole.end() {
            let length = (whole.end() - start).min(max);
            let bio = Bio {
                start,
                length,
                ..*whole
            };
            self.queue.submit(&mut self.host, now, &bio, access);
            start += length;
        }
    }

    fn end_if_done(&mut self, now: Time, index: usize) {
        let process = &mut self.host.processes[index];
        let waits = process.in_flight > 0 || process.sync.is_some() || process.held_back.is_some();
        if waits || process.has_more(now) {
            return;
        }
        if process.busy_until > now {
            let until = process.busy_until;
            return self.host.wake_at(until, index);
        }
        if process.is_to_sync_at_end() {
            process.synced_at_end = true;
            self.begin_sync(now, index);
            if self.host.processes[index].sync.is_some() {
                return;
            }
        }
        self.exit(now, index);
    }

    fn exit(&mut self, now: Time, index: usize) {
        let host = &mut self.host;
        let process = &mut host.processes[index];
        process.ended = Some(now);
        self.running -= 1;
        self.foreground -= usize::from(!process.job.background);
        host.tracer.exited(now, process.id, &process.job.name);
        self.queue.exited(host, now, index);
        self.begin_those_after(now, index);
        let (group, flusher) = (self.group, self.host.flusher);
        let mut others = self.host.processes.iter().enumerate();
        let runs = |(index, process): (usize, &Process)| {
            let job = &process.job;
            let goes_on = job.group == group && !job.background;
            goes_on && process.ended.is_none() && Some(index) != flusher
        };
        if !others.any(runs) {
            self.group += 1;
            self.begin_group(now);
        }
    }

    /// Starts the processes that waited for the end of this one.
    fn begin_those_after(&mut self, now: Time, ended: usize) {
        for index in 0..self.host.processes.len() {
            let job = &self.host.processes[index].job;
            if job.after == Some(ended) {
                let begin = now.max(self.group_began + job.delay);
                self.host.wake_at(begin, index);
            }
        }
    }
}
