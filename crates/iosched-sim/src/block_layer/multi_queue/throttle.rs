//! Write-back throttling: while reads take longer than their target latency, few writes of the page
//! cache may be in flight.
//!
//! Follows `block/blk-wbt.c` and `blk-rq-qos.c` (Linux 6.12). Reads and direct writes are not throttled.
//! The flusher's writes are background writes, those of a sync are not. Left out: writes of memory
//! reclaim, and asynchronous writes other than background ones (there are none here).

use std::collections::VecDeque;

use crate::request::{Bio, Op, Request, RequestId};
use crate::scheduler::Kernel;
use crate::units::{Nanos, Time};

/// What latencies are gathered for, while nothing is cut.
const WINDOW: Nanos = Nanos::from_millis(100);
/// Writes under way at most, on a device that takes as many.
const DEPTH: usize = 16;
/// Writes in a window without which its reads tell nothing.
const FEWEST_WRITES: u64 = 3;
/// Windows that told nothing, one after the other, before a step is taken back.
const UNKNOWN: u32 = 5;

/// A sort of write that is throttled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// Somebody waits for it, or for pages to be clean.
    Urgent,
    /// Nobody does.
    Background,
}

/// What a window says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    Good,
    /// Reads take too long.
    Exceeded,
    /// There were writes, and too few reads or writes to tell.
    UnknownWrites,
    Unknown,
}

#[derive(Debug)]
pub(super) struct Throttle {
    kernel: Kernel,
    /// Least latency of the reads in a window that is still good.
    target: Nanos,
    /// Commands that the device takes.
    device_depth: usize,
    /// How often the depth was halved; doubled if negative.
    step: i32,
    under_way: usize,
    /// Processes that wait, each with what for.
    waiting: VecDeque<(usize, Sort)>,
    /// By process: it may submit one, whatever the others do.
    admitted: Vec<bool>,
    writers_waited: bool,
    window_ends: Option<Time>,
    /// Reads completed in this window, and the least latency of them.
    reads: u64,
    least: Nanos,
    writes: u64,
    /// A read that the device has, and since when; no other is watched until it is done.
    watched: Option<(RequestId, Time)>,
    unknown: u32,
}

impl Throttle {
    /// For a device that takes so many commands.
    pub(super) fn new(
        target: Nanos,
        device_depth: usize,
        processes: usize,
        kernel: Kernel,
    ) -> Throttle {
        Throttle {
            kernel,
            target,
            device_depth,
            step: 0,
            under_way: 0,
            waiting: VecDeque::new(),
            admitted: vec![false; processes],
            writers_waited: false,
            window_ends: None,
            reads: 0,
            least: Nanos::new(u64::MAX),
            writes: 0,
            watched: None,
            unknown: 0,
        }
    }

    // ---- before a request is allocated ---------------------------------------------------

    /// Processes lately had to wait until fewer pages are dirty, or not: they make the flusher's writes
    /// urgent.
    pub(super) fn writers_wait(&mut self, waited: bool) {
        self.writers_waited = waited;
    }

    /// True if such a bio is throttled.
    pub(super) fn concerns(bio: &Bio) -> bool {
        match bio.op {
            Op::Read => false,
            Op::Write => !bio.sync || bio.noidle, // not direct
            Op::Discard => true,
        }
    }

    /// How the bio is throttled, if it is.
    pub(super) fn sort(&self, bio: &Bio) -> Option<Sort> {
        let urgent = bio.op == Op::Write && (bio.sync || self.writers_waited);
        Throttle::concerns(bio).then_some(if urgent {
            Sort::Urgent
        } else {
            Sort::Background
        })
    }

    /// The process may submit one; if not, it is woken when it may.
    pub(super) fn admit(&mut self, now: Time, process: usize, sort: Sort) -> bool {
        if self.window_ends.is_none() {
            self.window_ends = Some(self.window_end(now));
        }
        if std::mem::take(&mut self.admitted[process]) {
            return true;
        }
        if self.waiting.is_empty() && self.under_way < self.limit(sort) {
            self.under_way += 1;
            return true;
        }
        if !self.waiting.iter().any(|&(waiter, _)| waiter == process) {
            self.waiting.push_back((process, sort));
        }
        false
    }

    /// What was admitted could not have a request: it stays admitted.
    pub(super) fn keep_admitted(&mut self, process: usize) {
        self.admitted[process] = true;
    }

    /// Writes that may be under way.
    fn limit(&self, sort: Sort) -> usize {
        let most = self.max_depth();
        match sort {
            Sort::Urgent => most,
            Sort::Background if most <= 2 => 1,
            Sort::Background => most.div_ceil(4),
        }
    }

    fn max_depth(&self) -> usize {
        if self.device_depth == 1 {
            return if self.step > 0 { 1 } else { 2 };
        }
        let depth = self.device_depth.min(DEPTH);
        let halvings = self.step.unsigned_abs().min(31);
        match self.step {
            0 => depth,
            1.. => 1 + ((depth - 1) >> halvings),
            _ => (1 + ((depth - 1) << halvings)).min(self.widest()),
        }
    }

    /// The most that it may become while only writes come.
    fn widest(&self) -> usize {
        (3 * self.device_depth / 4).max(1)
    }

    // ---- what happens --------------------------------------------------------------------

    /// A request went to the device.
    pub(super) fn issued(&mut self, now: Time, id: RequestId, request: &Request) {
        if request.op == Op::Read && self.watched.is_none() {
            self.watched = Some((id, now));
        }
    }

    /// The device is done with a request that it had since then.
    pub(super) fn completed(&mut self, now: Time, issued: Time, id: RequestId, request: &Request) {
        if self.watched.is_some_and(|(watched, _)| watched == id) {
            self.watched = None;
        }
        match request.op {
            Op::Read => {
                self.reads += 1;
                self.least = self.least.min(now.saturating_since(issued));
            }
            Op::Write => self.writes += 1,
            Op::Discard => {}
        }
    }

    /// A throttled request is no more: done, or part of another.
    pub(super) fn ended(&mut self, wake: impl FnMut(usize)) {
        self.under_way -= 1;
        self.let_in(wake);
    }

    fn let_in(&mut self, mut wake: impl FnMut(usize)) {
        while let Some(&(process, sort)) = self.waiting.front()
            && self.under_way < self.limit(sort)
        {
            self.waiting.pop_front();
            self.under_way += 1;
            self.admitted[process] = true;
            wake(process);
        }
    }

    // ---- windows -------------------------------------------------------------------------

    fn window(&self) -> Nanos {
        let Ok(step) = u64::try_from(self.step) else {
            return WINDOW;
        };
        Nanos::new(WINDOW.as_nanos() * 16 / ((step + 1) * 256).isqrt())
    }

    /// When a window ends that begins now: with a tick, the one after that in which it is over.
    fn window_end(&self, now: Time) -> Time {
        let ticks = self.window().as_nanos() / self.kernel.tick_nanos();
        self.kernel.tick_begins(self.kernel.tick(now) + ticks + 1)
    }

    /// When the window ends, if there is one.
    pub(super) fn next_timer(&self) -> Option<Time> {
        self.window_ends
    }

    /// The window ends: the depth follows what was seen in it.
    pub(super) fn timer(&mut self, now: Time, wake: impl FnMut(usize)) {
        match self.finding(now) {
            Finding::Good | Finding::UnknownWrites => self.widen(),
            Finding::Exceeded => self.narrow(true),
            Finding::Unknown => {
                self.unknown += 1;
                if self.unknown >= UNKNOWN {
                    match self.step.signum() {
                        1 => self.widen(),
                        -1 => self.narrow(false),
                        _ => {}
                    }
                }
            }
        }
        (self.reads, self.writes, self.least) = (0, 0, Nanos::new(u64::MAX));
        let goes_on = self.step != 0 || self.under_way > 0;
        self.window_ends = goes_on.then(|| self.window_end(now));
        self.let_in(wake);
    }

    fn finding(&self, now: Time) -> Finding {
        if let Some((_, since)) = self.watched {
            let age = now.saturating_since(since);
            if age > self.window() || (age > self.target && self.reads == 0) {
                return Finding::Exceeded;
            }
        }
        if self.reads == 0 || self.writes < FEWEST_WRITES {
            return if self.writes > 0 || self.under_way > 0 {
                Finding::UnknownWrites
            } else {
                Finding::Unknown
            };
        }
        if self.least > self.target {
            Finding::Exceeded
        } else {
            Finding::Good
        }
    }

    fn widen(&mut self) {
        self.unknown = 0;
        if self.step > 0 || self.max_depth() < self.widest() {
            self.step -= 1;
        }
    }

    /// `hard`: at once, whatever was added while there were only writes.
    fn narrow(&mut self, hard: bool) {
        self.unknown = 0;
        if self.step > 0 && self.max_depth() == 1 {
            return;
        }
        self.step = if hard && self.step < 0 {
            0
        } else {
            self.step + 1
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{IoPriority, ProcessId, Requests};
    use crate::units::{Sector, Sectors};

    const TARGET: Nanos = Nanos::from_millis(2);

    fn depths(device_depth: usize, steps: impl IntoIterator<Item = i32>) -> Vec<usize> {
        let mut throttle = Throttle::new(TARGET, device_depth, 1, Kernel::default());
        let depth = |step| {
            throttle.step = step;
            throttle.max_depth()
        };
        steps.into_iter().map(depth).collect()
    }

    #[test]
    fn each_step_halves_the_depth_or_doubles_it_up_to_three_quarters_of_the_device() {
        assert_eq!(depths(32, -2..=5), [24, 24, 16, 8, 4, 2, 1, 1]);
        assert_eq!(depths(1, 0..=1), [2, 1]);
        assert_eq!(depths(4, 0..=2), [4, 2, 1]);
    }

    #[test]
    fn background_writes_get_a_quarter_of_what_urgent_ones_get() {
        let throttle = Throttle::new(TARGET, 32, 1, Kernel::default());
        assert_eq!(throttle.limit(Sort::Urgent), 16);
        assert_eq!(throttle.limit(Sort::Background), 4);
    }

    #[test]
    fn a_read_that_the_device_keeps_for_longer_than_the_target_cuts_the_depth() {
        let mut throttle = Throttle::new(TARGET, 32, 1, Kernel::default());
        assert!(throttle.admit(Time::ZERO, 0, Sort::Background));
        let end = throttle.next_timer().unwrap();
        let bio = Bio {
            op: Op::Read,
            start: Sector::ZERO,
            length: Sectors::new(8),
            sync: true,
            sync_flag: true,
            noidle: false,
            prio: false,
            fua: false,
            process: ProcessId(1),
            priority: IoPriority::default(),
        };
        let mut requests = Requests::default();
        let read = requests.add(Request::new(&bio, Time::ZERO));
        throttle.issued(Time::ZERO, read, &requests[read]);
        throttle.timer(end, |_| ());
        assert_eq!(throttle.step, 1);
        throttle.completed(end, Time::ZERO, read, &requests[read]);
        throttle.reads = 0; // as if in an earlier window
        let end = throttle.next_timer().unwrap();
        throttle.timer(end, |_| ());
        assert_eq!(throttle.step, 0, "only writes: opened again");
    }

    #[test]
    fn who_waits_goes_on_in_turn_when_a_write_has_ended() {
        let mut throttle = Throttle::new(TARGET, 32, 8, Kernel::default());
        let in_at_once = (0..8).filter(|&it| throttle.admit(Time::ZERO, it, Sort::Background));
        assert_eq!(in_at_once.collect::<Vec<_>>(), [0, 1, 2, 3]);
        let mut woken = Vec::new();
        throttle.ended(|process| woken.push(process));
        assert_eq!(woken, [4]);
        assert!(throttle.admit(Time::ZERO, 4, Sort::Background));
        assert!(!throttle.admit(Time::ZERO, 5, Sort::Background));
    }
}
