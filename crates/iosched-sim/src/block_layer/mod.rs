//! Linux's two block layers, each one state machine without clock, disk or processes.
//!
//! Events go in (`RequestQueue`), actions come out (`Outputs`); time is an argument. The path of a bio,
//! in the order of the modules:
//!
//! - `single_queue`: Linux 4.19's block layer, with its `pool` of requests
//! - `multi_queue`: today's; `tag_set` and `throttle` say who may have a request, `hw_queue` when the
//!   scheduler is asked
//! - `submitter`: a process's plug, and its bios that wait for a request
//! - `merging`: of bios into requests (found by `merge_hash`), and of requests with each other
//! - `worker_delay`: how soon after a completion the worker runs
//! - `carried`: the bios that requests carry
//! - `flush`: flushes, and writes that one is to follow
//!
//! Drivers: [`simulate`](crate::simulate) in virtual time, with processes that wait and a disk model;
//! [`serve`](crate::serve) by a real clock, for real programs;
//! `iosched-conform` by the times in a recording, with the same rules for merging and for
//! running a queue.

mod carried;
mod flush;
mod merge_hash;
mod merging;
pub(crate) mod multi_queue;
mod pool;
pub(crate) mod single_queue;
mod submitter;
#[cfg(test)]
mod tests;
mod worker_delay;

pub(crate) use flush::FLUSH;
pub use merging::{MergeLimits, Merger, Merging, RequestsMerged};
pub use multi_queue::{Attachment, Depth, HwQueue, Next};
pub use single_queue::looks_further;
pub use worker_delay::WorkerDelay;

use crate::disk::{Command, DiskOp};
use crate::request::{Action, Bio, Op, ProcessId, Request, RequestId};
use crate::units::{Nanos, Sector, Sectors, Time};

/// What the driver knows a bio by. Bios that it waits for together have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) usize);

/// How long it takes until somebody who is woken goes on.
#[derive(Debug, Clone, Copy)]
pub struct Delays {
    /// A process that waits for a request, or was held back.
    pub wakeup: Nanos,
    /// A process that waits for a tag.
    pub tag_wakeup: Nanos,
    /// A worker that runs the queue.
    pub worker: Nanos,
    /// The kernel's worker that runs a hardware queue.
    pub queue_run: WorkerDelay,
}

impl Delays {
    /// As in the recordings of Linux 4.19 that the schedulers were checked against.
    pub const RECORDED: Delays = Delays {
        wakeup: Nanos::from_micros(24), // 22 for reads of 4 KiB, 26 for 64 KiB
        tag_wakeup: Nanos::from_micros(10),
        worker: Nanos::from_micros(16),
        queue_run: WorkerDelay::ZERO,
    };
}

/// What goes into a block layer.
///
/// Processes are named by their number, from 0.
pub(crate) trait RequestQueue {
    /// The process is about to submit several bios: they are held back until it [unplugs](Self::unplug).
    fn plug(&mut self, process: usize);

    /// A bio is submitted: merged, made a request, or blocked until there is a free request.
    fn submit(&mut self, out: &mut impl Outputs, now: Time, bio: &Bio, token: Token);

    /// What was acknowledged is to be on the medium of a disk with a volatile cache: a bio that
    /// [is a flush](Bio::flush), and is answered when that is so.
    fn flush(&mut self, out: &mut impl Outputs, now: Time, bio: &Bio, token: Token);

    /// What the process held back goes on its way.
    fn unplug(&mut self, out: &mut impl Outputs, now: Time, process: usize);

    /// The process was woken: bios for which there was no free request are tried again.
    fn resume(&mut self, out: &mut impl Outputs, now: Time, process: usize);

    /// The process ended.
    fn exited(&mut self, out: &mut impl Outputs, now: Time, process: usize);

    /// The device is done with the command with this tag.
    fn completed(&mut self, out: &mut impl Outputs, now: Time, tag: u64);

    /// The time has come that [`RequestQueue::next_timer`] said.
    fn timer(&mut self, out: &mut impl Outputs, now: Time);

    /// A worker runs the queue, as was asked for ([`Outputs::call_worker`]).
    fn run_queue(&mut self, _out: &mut impl Outputs, _now: Time) {}

    /// Whether processes lately had to wait until fewer pages are dirty.
    fn writers_wait(&mut self, _waited: bool) {}

    /// When it wants [`RequestQueue::timer`] to be called.
    fn next_timer(&self) -> Option<Time>;

    /// True if the process sleeps because there was no free request for one of its bios.
    fn is_blocked(&self, process: usize) -> bool;

    /// There are so many asynchronous requests that writeback is to hold back.
    fn is_congested(&self) -> bool;

    /// The bios of the command with this tag, which the device has; none if that is a flush.
    fn carried(&self, tag: u64, each: impl FnMut(Token));

    /// The CPU on which the request of the command with this tag was submitted.
    fn cpu_of(&self, tag: u64) -> usize;
}

/// What comes out of a block layer, in order, while something goes in.
pub(crate) trait Outputs {
    /// Events are traced: without a tracer they are not built.
    fn is_traced(&self) -> bool;

    /// An event of blktrace, in the context of `process`. Called only while [`Outputs::is_traced`].
    fn trace(&mut self, now: Time, action: Action, subject: Subject<'_>, process: ProcessId);

    /// The bio became a request, or part of one.
    fn entered(&mut self, now: Time, token: Token);

    /// The driver of the device took the request up: it is the next that the device gets.
    fn took_up(&mut self, request: &Request);

    /// The device is to do this.
    fn issue(&mut self, now: Time, command: Command);

    /// What the bio asked for is done; the driver of the device had it since `issued`.
    fn answered(&mut self, now: Time, token: Token, issued: Time);

    /// The process goes on at this time, if it does not before.
    fn wake(&mut self, at: Time, process: usize);

    /// A worker is to run the queue at this time.
    fn call_worker(&mut self, at: Time);
}

/// What an event is about.
pub(crate) enum Subject<'a> {
    Bio(&'a Bio),
    Request(&'a Request),
    Plug,
    Flush,
}

/// Tells of a bio. Most runs are watched by nobody: what is done for those who watch stands apart, so
/// that what a run goes through stays together in the processor's cache.
#[inline]
fn trace_bio(out: &mut impl Outputs, now: Time, action: Action, bio: &Bio) {
    if out.is_traced() {
        out.trace(now, action, Subject::Bio(bio), bio.process);
    }
}

/// Tells of a request, in the context of `process`.
#[inline]
fn trace_request(
    out: &mut impl Outputs,
    now: Time,
    action: Action,
    request: &Request,
    process: ProcessId,
) {
    if out.is_traced() {
        out.trace(now, action, Subject::Request(request), process);
    }
}

/// Tells of a process's plug.
#[inline]
fn trace_plug(out: &mut impl Outputs, now: Time, action: Action, process: usize) {
    if out.is_traced() {
        out.trace(now, action, Subject::Plug, ProcessId::of_index(process));
    }
}

/// The device that a block layer issues to.
#[derive(Debug)]
struct Device {
    /// Commands that it has.
    in_flight: usize,
    /// Commands that it accepts; it gives back what is more.
    device_limit: usize,
}

impl Device {
    fn new(device_limit: Option<usize>) -> Device {
        Device {
            in_flight: 0,
            device_limit: device_limit.unwrap_or(usize::MAX).max(1),
        }
    }

    /// It does not give the next command back.
    fn is_accepting(&self) -> bool {
        self.in_flight < self.device_limit
    }

    #[inline(always)]
    fn issue(&mut self, out: &mut impl Outputs, now: Time, id: RequestId, request: &Request) {
        self.in_flight += 1;
        let command = Command {
            tag: id.tag(),
            op: match request.op {
                Op::Read => DiskOp::Read,
                Op::Write => DiskOp::Write,
                Op::Discard => DiskOp::Discard,
            },
            start: request.start,
            length: request.length,
            fua: false,
        };
        out.issue(now, command);
    }

    /// In the context of `process`.
    fn flush(&mut self, out: &mut impl Outputs, now: Time, process: ProcessId) {
        self.in_flight += 1;
        if out.is_traced() {
            out.trace(now, Action::Issued, Subject::Flush, process);
        }
        let command = Command {
            tag: FLUSH,
            op: DiskOp::Flush,
            start: Sector::ZERO,
            length: Sectors::ZERO,
            fua: false,
        };
        out.issue(now, command);
    }
}
