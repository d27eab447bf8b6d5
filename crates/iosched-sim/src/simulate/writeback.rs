//! Reads and writes through the page cache: what is missing is read ahead, processes dirty pages, the flusher writes them to
//! the disk, and who wants to be sure syncs.

use std::ops::Range;

use super::access::{Access, Purpose};
use super::engine::Simulation;
use super::page_cache::{PAGE, pages_of};
use super::process::Sync;
use crate::block_layer::RequestQueue;
use crate::request::{Bio, Op};
use crate::units::{Sector, Sectors, Time};
use crate::workload;

impl<Q: RequestQueue> Simulation<'_, Q> {
    /// The process writes into the page cache, as it wanted to since then: at once, or when less is
    /// dirty.
    #[inline(never)]
    pub(super) fn write_cached(
        &mut self,
        since: Time,
        now: Time,
        index: usize,
        access: workload::Access,
    ) {
        let host = &mut self.host;
        if host.cache.is_full() {
            host.cache.wait_for_room(now, index);
            host.processes[index].held_back = Some((since, access));
            return self.rouse_flusher(now);
        }
        host.cache.dirty(now, access.start, access.length);
        let pages = access.length.as_u64().div_ceil(8);
        let until = now + host.times.page_copy * pages;
        host.last = host.last.max(until);
        host.processes[index].cached(since, until, &access);
        self.rouse_flusher(now);
    }

    pub(super) fn go_on_with_held_back(&mut self, now: Time, index: usize) {
        if let Some((since, access)) = self.host.processes[index].held_back.take() {
            self.cached(since, now, index, access);
        }
    }

    /// The process does this through the page cache, as it wanted to since then. Discards go past it, and reads whose place
    /// is told one by one: what is read ahead is among them.
    pub(super) fn cached(
        &mut self,
        since: Time,
        now: Time,
        index: usize,
        access: workload::Access,
    ) {
        match access.op {
            Op::Write => self.write_cached(since, now, index, access),
            Op::Read if self.host.processes[index].job.steps.is_none() => {
                self.read_cached(since, now, index, access);
            }
            Op::Read | Op::Discard => self.submit(now, index, access),
        }
    }

    /// The process reads through the page cache: at once, or when its pages are there.
    #[inline(never)]
    fn read_cached(&mut self, since: Time, now: Time, index: usize, access: workload::Access) {
        let pages = pages_of(access.start, access.length);
        let process = &mut self.host.processes[index];
        // Who was woken for its pages has asked for them already.
        if since == now {
            let end = pages_of(process.job.start, process.job.span).end;
            let cache = &self.host.cache;
            let is_there = |page: u64| cache.missing(page..page + 1).is_none();
            for wanted in process.read_ahead.read(&pages, end, is_there) {
                self.fill(now, index, wanted);
            }
        }
        let is_first = since == now;
        if is_first {
            self.fill(now, index, pages.clone());
        }
        let host = &mut self.host;
        let waits = if is_first {
            host.cache.wait_for_pages(index, pages.clone())
        } else {
            host.cache.is_reading(index) // woken for something else
        };
        if waits {
            host.processes[index].held_back = Some((since, access));
            return;
        }
        let until = now + host.times.page_copy * (pages.end - pages.start);
        host.last = host.last.max(until);
        host.processes[index].cached(since, until, &access);
    }

    /// Reads what is missing of these pages.
    fn fill(&mut self, now: Time, index: usize, mut pages: Range<u64>) {
        while let Some(missing) = self.host.cache.missing(pages.clone()) {
            pages.start = missing.end;
            self.host.cache.fill_begins(missing.clone());
            let process = &self.host.processes[index];
            let bio = Bio {
                op: Op::Read,
                start: Sector::new(missing.start * PAGE),
                length: Sectors::new((missing.end - missing.start) * PAGE),
                sync: true,
                sync_flag: false, // as of buffered reads
                noidle: false,
                prio: false,
                fua: false,
                process: process.id,
                priority: process.job.priority,
            };
            self.submit_bios(now, index, &bio, Purpose::Fill(missing.start));
        }
    }

    /// The flusher goes on if there is something to do, or when there will be.
    fn rouse_flusher(&mut self, now: Time) {
        let Some(flusher) = self.host.flusher else {
            return;
        };
        let host = &mut self.host;
        if host.cache.is_to_be_flushed() || host.cache.is_full() {
            host.wake_at(now + host.times.worker, flusher);
        } else if let Some(look) = host.cache.next_look() {
            host.wake_at(look.max(now), flusher);
        }
    }

    /// The flusher: writes what is to be written, as long as it gets requests for it.
    #[inline(never)]
    pub(super) fn write_back(&mut self, now: Time, flusher: usize) {
        if self.running == 0 {
            return;
        }
        self.host.cache.look(now);
        self.queue.plug(flusher);
        while self.host.cache.is_to_be_flushed()
            && !self.queue.is_congested()
            && !self.queue.is_blocked(flusher)
        {
            let Some(next) = self.host.cache.take_next(self.host.max_sectors) else {
                break;
            };
            self.write(now, flusher, next, false);
        }
        self.queue.unplug(&mut self.host, now, flusher);
        if !self.host.cache.is_to_be_flushed()
            && let Some(look) = self.host.cache.next_look()
        {
            self.host.wake_at(look, flusher);
        }
    }

    /// Dirty pages go to the disk, for someone who waits or for nobody.
    fn write(&mut self, now: Time, index: usize, (start, length): (Sector, Sectors), sync: bool) {
        let host = &mut self.host;
        let number = host.cache.write_begins(start, length);
        let bio = Bio {
            op: Op::Write,
            start,
            length,
            sync,
            sync_flag: sync,
            noidle: sync, // another one may follow or not: nobody is to wait for it
            prio: false,
            fua: false,
            process: host.process_id(index),
            priority: host.processes[index].job.priority,
        };
        self.submit_bios(now, index, &bio, Purpose::Writeback(number));
    }

    /// The process syncs: what is dirty, of its file or at all, is written, then the disk's cache is flushed.
    pub(super) fn begin_sync(&mut self, now: Time, index: usize) {
        let process = &mut self.host.processes[index];
        process.begins_sync(now);
        let file = if process.job.sync.own_file {
            pages_of(process.job.start, process.job.span)
        } else {
            0..u64::MAX
        };
        self.queue.plug(index);
        let max = self.host.max_sectors;
        while let Some(next) = self.host.cache.take_next_of(&file, max) {
            self.write(now, index, next, true);
        }
        self.queue.unplug(&mut self.host, now, index);
        if !self.host.cache.wait_for_writes(index, file) {
            self.go_on_with_sync(now, index);
        }
    }

    /// The process was woken: if what it wrote is on the disk, the disk's cache is flushed.
    pub(super) fn go_on_with_sync(&mut self, now: Time, index: usize) {
        let host = &mut self.host;
        let Some(Sync::Writing { since }) = host.processes[index].sync else {
            return;
        };
        if host.cache.is_waiting(index) {
            return; // woken for something else
        }
        host.processes[index].sync = Some(Sync::Flushing { since });
        if !host.volatile {
            return host.processes[index].flushed(now); // there is nothing to flush
        }
        let access = host.accesses.begin(Access {
            process: index,
            purpose: Purpose::Flush,
            op: Op::Write,
            submitted: now,
            entered: now,
            length: Sectors::ZERO,
            bios: 1,
        });
        let bio = Bio::flush(host.process_id(index), host.processes[index].job.priority);
        self.queue.flush(host, now, &bio, access);
    }
}
