//! I/O schedulers: which request goes to the disk next.
//!
//! [`Elevator`] is what the block layer asks, with the time as an argument: it never looks at a clock, and where
//! the kernel arms a timer it says when it wants to be called ([`Elevator::next_timer`]). The method
//! names follow the kernel's elevator operations. [`Followed`] is what following a recording asks
//! besides. [`schedulers`] lists what there is, [`build`] makes one as it is asked for (`spec`).

mod adios;
mod back_seek;
mod bfq;
mod cfq;
mod cpu_lists;
mod data_dir;
mod deadline;
#[cfg(test)]
mod fixture;
mod followed;
mod hardware_queues;
mod kyber;
mod mq_deadline;
mod none;
mod noop;
mod spec;
mod values;

pub use followed::Followed;
pub use hardware_queues::HardwareQueues;
pub use iosched_facts::kernel::rules::Rule;
pub use iosched_facts::kernel::{BlockLayer, KernelVersion};
pub use iosched_facts::scheduler::{SchedulerFacts, TunableInfo};
pub use spec::{SchedulerSpec, build, build_followed, info, parse_settings, tell};
pub use values::{NamedValues, Values};

use std::sync::OnceLock;

use iosched_facts::{Problem, exit};

use crate::request::{Bio, Merge, Op, ProcessId, RequestId, Requests};
use crate::units::{Nanos, Sector, Time};

/// Which of the scheduler tags a request may have: the lowest of each word of the kernel's bitmap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagLimit {
    /// So many of each word.
    OfEachWord(u32),
    /// So many in all, of which each word has its part ([`Rule::LimitInAll`]).
    InAll(u32),
}

/// Kernel settings on which rules depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// Ticks per second ([`USUAL_HZ`](iosched_facts::kernel::USUAL_HZ)).
    pub hz: u32,
    /// What `queue/rotational` says.
    pub rotational: bool,
    /// How long before time zero a tick began: at most one tick.
    pub tick_phase: Nanos,
    /// What its `CLOCK_MONOTONIC` says at time zero, in nanoseconds; it may lie before the boot, and wraps then.
    pub monotonic_zero: u64,
    /// Its version: selects the rules of mq-deadline, of bfq and of the multi-queue block layer.
    pub version: KernelVersion,
}

impl Default for Kernel {
    fn default() -> Kernel {
        Kernel {
            hz: 1000,
            rotational: true,
            tick_phase: Nanos::ZERO,
            monotonic_zero: 0,
            version: KernelVersion::new(6, 12),
        }
    }
}

impl Kernel {
    /// The tick that a time lies in.
    pub fn tick(&self, time: Time) -> u64 {
        // No overflow for any run shorter than 500 years.
        let time = time + self.tick_phase;
        let (seconds, nanos) = (
            time.as_nanos() / 1_000_000_000,
            time.as_nanos() % 1_000_000_000,
        );
        seconds * u64::from(self.hz) + nanos * u64::from(self.hz) / 1_000_000_000
    }

    /// What `CLOCK_MONOTONIC` says at this time.
    pub fn monotonic(&self, time: Time) -> u64 {
        self.monotonic_zero.wrapping_add(time.as_nanos())
    }

    /// When a tick begins: the first moment that [`Kernel::tick`] says lies in it.
    pub fn tick_begins(&self, tick: u64) -> Time {
        let hz = u64::from(self.hz);
        let nanos = tick / hz * 1_000_000_000 + (tick % hz * 1_000_000_000).div_ceil(hz);
        Time::from_nanos(nanos.saturating_sub(self.tick_phase.as_nanos()))
    }

    /// Milliseconds as a sysfs file takes them, in ticks (rounded up, as the kernel does).
    pub fn millis_to_ticks(&self, millis: u64) -> u64 {
        (millis * u64::from(self.hz)).div_ceil(1000)
    }

    /// When the multi-queue block layer runs the queue again after a run at this time that dispatched nothing: the
    /// wait of 3 ms ends with a tick. A process that asks during the wait and gets nothing changes nothing (since
    /// Linux 5.18: `blk_mq_delay_run_hw_queues`); a worker that runs the queue ends it.
    #[inline(never)]
    pub(crate) fn delayed_run_at(&self, now: Time) -> Time {
        self.tick_begins(self.tick(now) + self.millis_to_ticks(3) + 1)
    }

    /// A kernel of this version follows the rule.
    #[inline]
    pub fn follows(&self, rule: Rule) -> bool {
        rule.holds(self.version)
    }

    /// Of a process's plug a bio tries the oldest request only; else the newest.
    pub fn merges_oldest_in_plug(&self) -> bool {
        self.follows(Rule::PlugMergesOldest) && !self.follows(Rule::PlugMergesNewest)
    }

    /// Of the scheduler's tags so many in all or so many of each word, whichever this kernel counts.
    pub(crate) fn tag_limit(&self, in_all: u32, of_each_word: u32) -> TagLimit {
        if self.follows(Rule::LimitInAll) {
            TagLimit::InAll(in_all)
        } else {
            TagLimit::OfEachWord(of_each_word)
        }
    }

    /// Nanoseconds in a tick.
    pub fn tick_nanos(&self) -> u64 {
        1_000_000_000 / u64::from(self.hz)
    }
}

/// An I/O scheduler, as the block layer asks it: the kernel's elevator operations.
///
/// The life of a request: `prepare` when it is allocated, `insert`, perhaps merges, `dispatch`
/// returns it, `activate` when the driver takes it up, `completed`. What has a default here may be left
/// out in the kernel, too.
pub trait Elevator: Send {
    /// How it is listed.
    fn info(&self) -> &'static SchedulerInfo;

    /// Said before anything else: the hardware queues of the device (multi-queue). Schedulers that know
    /// them have queues of their own for each (`init_hctx`).
    fn attach(&mut self, _queues: HardwareQueues) {}

    /// Said of processes that are in a cgroup, before they submit anything: its number, from 1,
    /// and its weight. The other processes are in the root.
    fn join_group(&mut self, _process: ProcessId, _group: u32, _weight: u16) {}

    // ---- allocation ----------------------------------------------------------------------

    /// True if this process may have a request although there are as many as there may be
    /// (single-queue: `may_queue`).
    fn must_allocate(&mut self, _process: ProcessId, _sync: bool) -> bool {
        false
    }

    /// Which of the scheduler tags a request of this kind by this process may use, if not all: there
    /// are `tags` of them in words of `word` bits (multi-queue).
    fn limit_depth(
        &self,
        _process: ProcessId,
        _op: Op,
        _sync: bool,
        _tags: u32,
        _word: u32,
    ) -> Option<TagLimit> {
        None
    }

    /// Of so many tags the fewest that a request may be limited to, which says how many processes that wait for one the kernel
    /// wakes at a time (`sbitmap_queue_min_shallow_depth`).
    fn min_shallow_depth(&self, _tags: u32) -> u32 {
        1
    }

    /// A request was allocated for a process: it may be bound to a queue now.
    fn prepare(&mut self, _now: Time, _requests: &Requests, _id: RequestId) {}

    // ---- merging -------------------------------------------------------------------------

    /// A request that the bio would extend at its front.
    fn front_merge(&self, _requests: &Requests, _bio: &Bio) -> Option<RequestId> {
        None
    }

    /// May the bio become part of this request? The scheduler may change what the bio's process has.
    fn allow_merge(
        &mut self,
        _now: Time,
        _requests: &Requests,
        _id: RequestId,
        _bio: &Bio,
    ) -> bool {
        true
    }

    /// True if it is to be asked that for the request last merged or inserted even where the bio does not
    /// touch it.
    fn judges_every_bio(&self) -> bool {
        false
    }

    /// May the second request become part of the first?
    fn allow_request_merge(
        &self,
        _requests: &Requests,
        _first: RequestId,
        _second: RequestId,
    ) -> bool {
        true
    }

    /// True if bios merge with what stands in its own lists ([`Elevator::list_partner`]), and
    /// otherwise not at all.
    fn merges_in_lists(&self) -> bool {
        false
    }

    /// A request in the lists of this CPU that the bio touches (`bio_merge`).
    fn list_partner(&self, _requests: &Requests, _bio: &Bio, _cpu: u16) -> Option<Merge> {
        None
    }

    /// The request before this one, in the order in which neighbours merge, if they do.
    fn former(&self, _requests: &Requests, _id: RequestId) -> Option<RequestId> {
        None
    }

    /// The request after this one, in the order in which neighbours merge, if they do.
    fn latter(&self, _requests: &Requests, _id: RequestId) -> Option<RequestId> {
        None
    }

    /// A bio extended this request at its front: `old_start` is where it began before.
    fn front_merged(
        &mut self,
        _now: Time,
        _requests: &Requests,
        _id: RequestId,
        _old_start: Sector,
    ) {
    }

    /// A bio extended this request at its end.
    fn back_merged(&mut self, _now: Time, _requests: &Requests, _id: RequestId) {}

    /// Requests that take no more bios although they are still here: the block layer empties this after each insert and
    /// dispatch. None if there never are any.
    fn closed_to_merging(&mut self) -> Option<&mut Vec<RequestId>> {
        None
    }

    /// `victim` became part of `survivor`. Both are still as they were when the scheduler last saw
    /// them, except that the survivor has grown.
    fn requests_merged(
        &mut self,
        now: Time,
        requests: &Requests,
        survivor: RequestId,
        victim: RequestId,
    );

    /// A request that was allocated became part of another one before it was inserted.
    fn absorbed(&mut self, _id: RequestId) {}

    // ---- a request -----------------------------------------------------------------------

    /// A request from a plug is about to be tried as a continuation of what is here, before its insertion
    /// or in place of it (`bfq_init_rq`).
    fn init_request(&mut self, _now: Time, _requests: &Requests, _id: RequestId) {}

    /// Takes a request. True: run the queue at once.
    fn insert(&mut self, now: Time, requests: &Requests, id: RequestId) -> bool;

    /// True if it holds requests that this hardware queue may take, now or later.
    fn has_work(&self, queue: usize) -> bool;

    /// Dispatches the request that goes to the driver next, for this hardware queue. `None`: nothing is
    /// here, or it is better to wait; it is asked again after [`Elevator::next_timer`], and after the next
    /// insert or completion. A scheduler that does not know hardware queues dispatches any, which then
    /// goes to the queue of its CPU. Single-queue devices have number 0.
    fn dispatch(&mut self, now: Time, requests: &Requests, queue: usize) -> Option<RequestId>;

    /// The driver took the dispatched request up.
    fn activate(&mut self, _now: Time, _requests: &Requests, _id: RequestId) {}

    /// The disk did not take the request that was activated: it is to be activated again.
    fn deactivate(&mut self, _now: Time, _requests: &Requests, _id: RequestId) {}

    /// The disk is done with it.
    fn completed(&mut self, _now: Time, _requests: &Requests, _id: RequestId) {}

    // ---- by itself -----------------------------------------------------------------------

    /// When it wants [`Elevator::timer`] to be called.
    fn next_timer(&self) -> Option<Time> {
        None
    }

    /// Its timer fired.
    fn timer(&mut self, _now: Time, _requests: &Requests) {}

    /// A hardware queue that it asked to be run by a worker: each is told once.
    fn take_queue_run_request(&mut self) -> Option<usize> {
        None
    }

    /// A process ended.
    fn process_exited(&mut self, _now: Time, _requests: &Requests, _process: ProcessId) {}

    /// The same as one that can follow a recording, if it can.
    fn followed(self: Box<Self>) -> Option<Box<dyn Followed>> {
        None
    }
}

/// How the moment at which ticks begin is found for a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseSearch {
    /// No decision depends on it.
    Unneeded,
    /// The phase is taken with which most decisions agree.
    MostAgreed,
    /// That with which the first disagreement comes last, in finer steps: what comes after a wrong decision tells
    /// nothing of the phase.
    LongestAgreed,
}

/// A scheduler that [`build`] makes.
#[derive(Debug, Clone, Copy)]
pub struct SchedulerInfo {
    /// Its name, its block layer, its tunables.
    pub facts: &'static SchedulerFacts,
    /// Makes one with these tunables and initial values, as attached to a device at time zero.
    pub build: fn(&Values, &Kernel, &Values) -> Box<dyn Elevator>,
    /// What a request costs on a fast machine's processors.
    pub cpu_cost: CpuCost,
    /// The first kernel whose rules are known, where older ones had others.
    pub oldest: Option<KernelVersion>,
    /// How it shares between cgroups is not known here: loads in them are refused.
    pub refuses_groups: bool,
    /// State that can be given to it at the beginning, for following a recording.
    pub initial: &'static [TunableInfo],
    /// How the moment at which ticks begin is found where a recording does not tell it.
    pub phase_search: PhaseSearch,
    /// What it learnt before a load decides in it: recordings of a device are followed in the order in which they were
    /// made, each from a state that may be told.
    pub learns: bool,
}

impl SchedulerInfo {
    /// What is so of a scheduler that says nothing else. Facts and `build` are each scheduler's own.
    pub const PLAIN: SchedulerInfo = SchedulerInfo {
        facts: &SchedulerFacts::PLAIN,
        build: |_, _, _| unreachable!("each scheduler brings its own"),
        cpu_cost: CpuCost::BLOCK_LAYER,
        oldest: None,
        refuses_groups: false,
        initial: &[],
        phase_search: PhaseSearch::Unneeded,
        learns: false,
    };

    /// Refuses a scheduler of the block layer that is simulated without write-back throttling.
    ///
    /// # Errors
    /// It is one.
    pub fn check_throttling(&self) -> Result<(), Problem> {
        if self.facts.block_layer == BlockLayer::MultiQueue {
            return Ok(());
        }
        let message = format!(
            "write-back throttling is not simulated with {}: the single-queue block layer has none here",
            self.facts.name
        );
        let of_blk_mq = schedulers()
            .map(|info| info.facts)
            .filter(|facts| facts.block_layer == BlockLayer::MultiQueue);
        let names: Vec<&str> = of_blk_mq.map(|facts| facts.name).collect();
        Err(Problem::new(exit::BAD_TUNABLE, message).hint(format!(
            "leave it out, or take schedulers that have it: {}",
            names.join(", ")
        )))
    }
}

/// Processor time of a request, from submission to completion.
///
/// Measured on Linux 6.3 with 4 KiB random reads through `io_uring` (ICPE 2024 artifact of Ren and
/// others, a 10-core machine without turbo): one core does 381 000 reads/s with none, 304 000 with
/// kyber, 310 000 with mq-deadline, 238 000 with bfq; ten cores and mq-deadline no more than 500 000, and
/// with bfq 293 000, because their locks are global.
#[derive(Debug, Clone, Copy)]
pub struct CpuCost {
    /// On its own processor.
    pub own: Nanos,
    /// Under the device's lock, on its own processor too.
    pub serial: Nanos,
}

impl CpuCost {
    /// Of the block layer alone.
    pub const BLOCK_LAYER: CpuCost = CpuCost {
        own: Nanos::new(2620),
        serial: Nanos::ZERO,
    };
}

/// The kernel's.
static OF_THE_KERNEL: [&SchedulerInfo; 9] = [
    &noop::INFO,
    &deadline::INFO,
    &cfq::INFO,
    &none::INFO,
    &mq_deadline::INFO,
    &kyber::INFO,
    &bfq::INFO,
    &adios::INFO,
    &kyber::KPP,
];

/// Those of the program that uses this library.
static REGISTERED: OnceLock<&'static [SchedulerInfo]> = OnceLock::new();

/// Adds schedulers to [`schedulers`], once, before anything is looked up.
///
/// # Panics
/// If a name is taken, or if it is called twice.
pub fn register(schedulers: &'static [SchedulerInfo]) {
    iosched_facts::scheduler::register(schedulers.iter().map(|info| info.facts).collect());
    let registered = REGISTERED.set(schedulers);
    assert!(registered.is_ok(), "schedulers are registered once");
}

/// All schedulers that [`build`] makes: the kernel's, then those that were [registered](register).
pub fn schedulers() -> impl Iterator<Item = &'static SchedulerInfo> {
    let registered = REGISTERED.get().copied().unwrap_or_default();
    OF_THE_KERNEL.into_iter().chain(registered)
}
