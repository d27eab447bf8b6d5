//! What a run has besides its block layer: processes, page cache and accesses above it, the disk below,
//! the event queue, and who looks on. What comes out of the block layer arrives here.

use super::access::{Access, Accesses, Purpose};
use super::drive::Drive;
use super::event_queue::{EventQueue, PlannedEvent};
use super::outcome::Slices;
use super::page_cache::{PAGE, PageCache};
use super::process::Process;
use super::{BlockEvent, HostTimes, Tracer};
use crate::block_layer::{Outputs, Subject, Token};
use crate::disk::Command;
use crate::request::{Action, ProcessId, Request};
use crate::units::{Sectors, Time};

pub(super) struct Host<'run> {
    pub(super) times: HostTimes,
    pub(super) event_queue: EventQueue,
    pub(super) drive: Drive,
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
    pub(super) tracer: &'run mut dyn Tracer,
    /// The tracer wants to be told.
    pub(super) observed: bool,
    /// When the last request completed.
    pub(super) last: Time,
    pub(super) slices: Slices,
}

impl Host<'_> {
    /// How many bios an access of this length becomes: none is longer than a request can be.
    #[inline]
    pub(super) fn bios_of(&self, length: Sectors) -> u64 {
        if length <= self.max_sectors {
            1
        } else {
            length.as_u64().div_ceil(self.max_sectors.as_u64())
        }
    }

    pub(super) fn process_id(&self, process: usize) -> ProcessId {
        self.processes[process].id
    }

    pub(super) fn plan(&mut self, time: Time, event: PlannedEvent) {
        self.event_queue.plan(time, event);
    }

    /// The process goes on at this time, if it does not before.
    pub(super) fn wake_at(&mut self, time: Time, process: usize) {
        self.processes[process].wake_at(time, process, &mut self.event_queue);
    }

    /// An access is done, whose bio the driver took up at `issued`: whoever waited for it goes on after
    /// a while.
    #[inline]
    fn finish(&mut self, now: Time, issued: Time, access: &Access) {
        let noticed = now + self.times.wakeup;
        let process = &mut self.processes[access.process];
        let event_queue = &mut self.event_queue;
        match access.purpose {
            Purpose::Own => {
                self.slices.add(now, access.length.to_bytes());
                if let Some(pause) = process.answered(now, noticed, issued, access) {
                    process.wake_at(noticed + pause, access.process, event_queue);
                }
            }
            Purpose::Writeback(number) => {
                self.slices.add(now, access.length.to_bytes());
                self.written_back(noticed, number, access.length);
            }
            Purpose::Fill(first) => {
                self.slices.add(now, access.length.to_bytes());
                self.filled(noticed, first, access.length);
            }
            Purpose::Flush => {
                process.flushed(now);
                let goes_on = noticed + self.times.after_flush;
                process.wake_at(goes_on, access.process, event_queue);
            }
        }
    }

    /// Pages are there: those who waited for them go on.
    #[inline(never)]
    fn filled(&mut self, noticed: Time, first: u64, length: Sectors) {
        let (processes, event_queue) = (&mut self.processes, &mut self.event_queue);
        let wake = |process: usize| processes[process].wake_at(noticed, process, event_queue);
        let pages = first..first + length.as_u64() / PAGE;
        self.cache.fill_ends(&pages, wake);
    }

    /// A write of the flusher's is done: those who waited for that go on, and the flusher itself if
    /// there is more to do.
    #[inline(never)]
    fn written_back(&mut self, noticed: Time, number: u64, length: Sectors) {
        let Host {
            processes,
            event_queue,
            cache,
            flusher,
            ..
        } = self;
        let mut wake = |process: usize| processes[process].wake_at(noticed, process, event_queue);
        cache.write_ends(number, length, &mut wake);
        if let Some(flusher) = flusher.filter(|_| cache.is_to_be_flushed()) {
            wake(flusher);
        }
    }
}

impl Outputs for Host<'_> {
    #[inline]
    fn is_traced(&self) -> bool {
        self.observed
    }

    #[cold]
    fn trace(&mut self, time: Time, action: Action, subject: Subject<'_>, process: ProcessId) {
        let (block_event, owner) = BlockEvent::of(time, action, &subject, process);
        let owner = owner.map(|owner| &self.processes[owner.index()]);
        self.tracer.happened(&BlockEvent {
            owner: owner.map_or("-", |owner| &owner.job.name),
            cpu: owner.filter(|_| self.several_cpus).map(|owner| owner.cpu),
            ..block_event
        });
    }

    #[inline]
    fn entered(&mut self, now: Time, token: Token) {
        self.accesses.bio_entered(now, token);
    }

    #[inline]
    fn took_up(&mut self, request: &Request) {
        self.drive.note_issue(request);
    }

    #[inline]
    fn issue(&mut self, now: Time, command: Command) {
        self.drive.submit(now, command, &mut self.event_queue);
    }

    #[inline(always)]
    fn answered(&mut self, now: Time, token: Token, issued: Time) {
        self.last = now;
        if let Some(access) = self.accesses.bio_done(token) {
            self.finish(now, issued, &access);
        }
    }

    #[inline]
    fn wake(&mut self, at: Time, process: usize) {
        self.wake_at(at, process);
    }

    fn call_worker(&mut self, at: Time) {
        self.plan(at, PlannedEvent::RunQueue);
    }
}
