//! What a path shares with the processes above it and the disk below: the agenda, the requests, who
//! waits for them, and who looks on.

use super::access::{Access, AccessId, Accesses, Purpose};
use super::agenda::{Agenda, Event};
use super::drive::Drive;
use super::page_cache::PageCache;
use super::process::{self, Process};
use super::{Happening, HostTimes, Observer};
use crate::disk::{Command, DiskOp};
use crate::request::{Bio, Op, ProcessId, Request, RequestId, Requests};
use crate::trace::kernel::Action;
use crate::units::{Sector, Sectors, Time};

/// See the [module's page](self).
pub(super) struct Host<'run> {
    pub(super) times: HostTimes,
    pub(super) agenda: Agenda,
    pub(super) drive: Drive,
    pub(super) requests: Requests,
    pub(super) accesses: Accesses,
    pub(super) processes: Vec<Process>,
    pub(super) cache: PageCache,
    /// Index of the process that writes dirty pages, if there can be any.
    pub(super) flusher: Option<usize>,
    /// The disk has a volatile cache: flushes mean something.
    pub(super) volatile: bool,
    /// Events tell where processes run.
    pub(super) several_cpus: bool,
    /// Longest request: what is longer is split before it becomes a bio.
    pub(super) max_sectors: Sectors,
    pub(super) observer: &'run mut dyn Observer,
    /// The observer wants to be told.
    pub(super) observed: bool,
    /// When the last request completed.
    pub(super) last: Time,
}

/// A write of the flusher's is done: those who waited for that go on, and the flusher itself if there
/// is more to do.
#[inline(never)]
fn written_back(
    cache: &mut PageCache,
    number: u64,
    length: Sectors,
    flusher: Option<usize>,
    mut wake: impl FnMut(usize),
) {
    cache.write_ends(number, length, &mut wake);
    if let Some(flusher) = flusher.filter(|_| cache.is_to_be_flushed()) {
        wake(flusher);
    }
}

impl Host<'_> {
    pub(super) fn process_id(&self, process: usize) -> ProcessId {
        self.processes[process].id
    }

    pub(super) fn plan(&mut self, time: Time, event: Event) {
        self.agenda.plan(time, event);
    }

    /// The process goes on at this time, if it does not before.
    #[inline(always)]
    pub(super) fn wake_at(&mut self, time: Time, process: usize) {
        self.processes[process].wake_at(time, process, &mut self.agenda);
    }

    /// Tells the disk.
    #[inline(always)]
    pub(super) fn start(&mut self, now: Time, id: RequestId) {
        let request = &self.requests[id];
        let op = match request.op {
            Op::Read => DiskOp::Read,
            Op::Write => DiskOp::Write,
            Op::Discard => DiskOp::Discard,
        };
        let command = Command {
            tag: id.tag(),
            op,
            start: request.start,
            length: request.length,
            fua: false,
        };
        self.drive.submit(now, command, &mut self.agenda);
    }

    /// Tells the disk to flush its cache, in a command with this tag. In the context of `process`.
    pub(super) fn flush_drive(&mut self, now: Time, tag: u64, process: ProcessId) {
        self.tell_flush(now, Action::Issued, process);
        let command = Command {
            tag,
            op: DiskOp::Flush,
            start: Sector::ZERO,
            length: Sectors::ZERO,
            fua: false,
        };
        self.drive.submit(now, command, &mut self.agenda);
    }

    /// A request is done: whoever waited for what it carried goes on after a while.
    #[inline]
    pub(super) fn finish(&mut self, now: Time, id: RequestId, issued: Time) {
        self.last = now;
        let noticed = now + self.times.wakeup;
        let Host {
            accesses,
            processes,
            agenda,
            cache,
            flusher,
            times,
            ..
        } = self;
        accesses.finish(id, |access: Access| {
            let process = &mut processes[access.process];
            match access.purpose {
                Purpose::Own => {
                    if let Some(pause) = process.answered(now, noticed, issued, &access) {
                        process.wake_at(noticed + pause, access.process, agenda);
                    }
                }
                Purpose::Writeback(number) => {
                    let woken = |waiter: usize| {
                        processes[waiter].wake_at(noticed, waiter, agenda);
                    };
                    written_back(cache, number, access.length, *flusher, woken);
                }
                Purpose::Flush => {
                    process.flushed(now);
                    process.wake_at(noticed + times.after_flush, access.process, agenda);
                }
            }
        });
    }

    /// A flush is done, for this access of it.
    pub(super) fn flushed(&mut self, now: Time, access: AccessId) {
        self.last = self.last.max(now);
        let access = self.accesses.end(access);
        self.processes[access.process].flushed(now);
        let goes_on = now + self.times.wakeup + self.times.after_flush;
        self.wake_at(goes_on, access.process);
    }

    /// Tells the observer. Most runs have none that looks on: what is done for it stands apart, so that
    /// what a run goes through stays together in the processor's cache.
    #[inline]
    pub(super) fn tell(
        &mut self,
        time: Time,
        action: Action,
        request: &Request,
        process: ProcessId,
    ) {
        if self.observed {
            self.tell_observer(time, action, request, process);
        }
    }

    #[cold]
    fn tell_observer(&mut self, time: Time, action: Action, request: &Request, process: ProcessId) {
        let owner = &self.processes[process::index_of(request.process)];
        self.observer.happened(&Happening {
            time,
            action,
            op: Some(request.op),
            flush: false,
            sync: request.sync,
            start: request.start,
            length: request.length,
            process,
            owner: &owner.job.name,
            cpu: self.several_cpus.then_some(owner.cpu),
        });
    }

    #[inline]
    pub(super) fn tell_request(
        &mut self,
        time: Time,
        action: Action,
        id: RequestId,
        process: ProcessId,
    ) {
        if self.observed {
            self.tell_observer_request(time, action, id, process);
        }
    }

    #[cold]
    fn tell_observer_request(
        &mut self,
        time: Time,
        action: Action,
        id: RequestId,
        process: ProcessId,
    ) {
        let request = self.requests[id];
        self.tell_observer(time, action, &request, process);
    }

    #[inline]
    pub(super) fn tell_bio(&mut self, now: Time, action: Action, bio: &Bio) {
        if self.observed {
            self.tell_observer_bio(now, action, bio);
        }
    }

    #[cold]
    fn tell_observer_bio(&mut self, now: Time, action: Action, bio: &Bio) {
        self.tell_observer(now, action, &Request::new(bio, now), bio.process);
    }

    #[inline]
    pub(super) fn tell_plug(&mut self, time: Time, action: Action, process: usize) {
        if self.observed {
            self.tell_observer_plug(time, action, process);
        }
    }

    #[cold]
    fn tell_observer_plug(&mut self, time: Time, action: Action, process: usize) {
        let process = &self.processes[process];
        self.observer.happened(&Happening {
            time,
            action,
            op: None,
            flush: false,
            sync: false,
            start: Sector::ZERO,
            length: Sectors::ZERO,
            process: process.id,
            owner: &process.job.name,
            cpu: self.several_cpus.then_some(process.cpu),
        });
    }

    /// The process was woken for a tag.
    pub(super) fn tell_woken(&mut self, time: Time, process: usize) {
        if self.observed {
            let id = self.process_id(process);
            self.observer.woken(time, id);
        }
    }

    /// A flush has no request, and belongs to all who wait for it.
    pub(super) fn tell_flush(&mut self, time: Time, action: Action, process: ProcessId) {
        if !self.observed {
            return;
        }
        self.observer.happened(&Happening {
            time,
            action,
            op: None,
            flush: true,
            sync: true,
            start: Sector::ZERO,
            length: Sectors::ZERO,
            process,
            owner: "-",
            cpu: None,
        });
    }
}
