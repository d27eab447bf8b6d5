//! What can be set, and in which units; what a cold start cannot know.

use super::moment::Clock;
use super::{Bfq, OLDEST};
use crate::scheduler::back_seek::BackSeek;
use crate::scheduler::{BlockLayer, CpuCost, PhaseSearch, SchedulerInfo, TunableInfo, Values};
use crate::units::Nanos;

const MAX: i64 = i32::MAX as i64;

const fn tunable(name: &'static str, unit: &'static str, default: i64, min: i64) -> TunableInfo {
    TunableInfo::new(name, unit, default, min, MAX)
}

const fn state(name: &'static str, unit: &'static str, default: i64, max: i64) -> TunableInfo {
    TunableInfo::new(name, unit, default, 0, max)
}

const FAR: i64 = 1 << 53;

/// How it is listed.
pub(crate) const INFO: SchedulerInfo = SchedulerInfo {
    name: "bfq",
    summary: "shares of the disk for each process by weight, low latency for what is new or paced",
    block_layer: BlockLayer::MultiQueue,
    build: |tunables, kernel, initial| Box::new(Bfq::new(tunables, kernel, initial)),
    tunables: &[
        tunable("back_seek_max", "KiB", 16 * 1024, 0)
            .what("so far behind the head a request still counts as near"),
        tunable("back_seek_penalty", "", 2, 1)
            .what("how many times its length a seek backwards counts"),
        tunable("fifo_expire_async", "ms", 250, 1).what(
            "a write that nobody waits for goes before nearer ones of its process \
                once it has waited so long",
        ),
        tunable("fifo_expire_sync", "ms", 125, 1).what("the same for reads and synchronous writes"),
        TunableInfo::switch("low_latency", 1).what(
            "programs that start or that play and record go first, at some \
                cost in throughput",
        ),
        tunable("max_budget", "sectors", 0, 0).what(
            "a process is served so much at a time, at the most; 0: by the \
                rate of the disk",
        ), // 0: from the rate of the disk
        tunable("slice_idle", "ms", 8, 0).what(
            "so long a disk is kept idle for the next request of the process \
                that is served: 0 for fast flash and RAID",
        ),
        TunableInfo::new("slice_idle_us", "us", 8_000, 0, u32::MAX as i64).what("the same, finer"),
        TunableInfo::switch("strict_guarantees", 0).what(
            "1 sends one request at a time, so that shares hold even in the \
                drive: slow",
        ),
        tunable("timeout_sync", "ms", 125, 1)
            .in_ticks()
            .what("a process is served for so long at a time, at the most"),
    ],
    initial: &[
        state("last-position", "sectors", 0, FAR),
        TunableInfo::new("hw-tag", "", -1, -1, 1), // -1: not known yet
        state("hw-samples", "", 0, 32),
        state("max-in-driver", "", 0, MAX),
        state("budgets", "", 0, 256),
        state("peak-rate", "sectors/us * 2^16", 0, MAX),
        state("max-budget", "sectors", 0, MAX),
        state("rate-samples", "", 0, MAX),
        state("rate-sequential", "", 0, MAX),
        state("rate-sectors", "sectors", 0, FAR),
        state("rate-largest", "sectors", 0, MAX),
        state("rate-interval", "us", 0, FAR),
        state("rate-last-completion", "us", 0, FAR),
        state("rt-weight-1", "", 0, MAX),
        state("rt-ahead-1", "", 0, FAR),
        state("rt-weight-2", "", 0, MAX),
        state("rt-ahead-2", "", 0, FAR),
        state("be-weight-1", "", 0, MAX),
        state("be-ahead-1", "", 0, FAR),
        state("be-weight-2", "", 0, MAX),
        state("be-ahead-2", "", 0, FAR),
        state("be-weight-3", "", 0, MAX),
        state("be-ahead-3", "", 0, FAR),
        state("be-weight-4", "", 0, MAX),
        state("be-ahead-4", "", 0, FAR),
        state("be-weight-5", "", 0, MAX),
        state("be-ahead-5", "", 0, FAR),
        state("be-weight-6", "", 0, MAX),
        state("be-ahead-6", "", 0, FAR),
        state("be-weight-7", "", 0, MAX),
        state("be-ahead-7", "", 0, FAR),
        state("be-weight-8", "", 0, MAX),
        state("be-ahead-8", "", 0, FAR),
    ],
    phase_search: PhaseSearch::LongestAgreed,
    oldest: Some(OLDEST),
    learns: true,
    refuses_groups: true,
    cpu_cost: CpuCost {
        own: Nanos::new(800),
        serial: Nanos::new(3400),
    },
    kernel_option: Some("CONFIG_IOSCHED_BFQ"),
    reduces_async_depth: true,
    disables_wbt: true,
    ..SchedulerInfo::PLAIN
};

/// `slice_idle` where strict guarantees ask for one, and what a seek counts as.
pub(super) const USUAL_SLICE_IDLE: Nanos = Nanos::from_millis(8);

/// Settings in nanoseconds, ticks and sectors.
#[derive(Debug, Clone)]
pub(super) struct Tunables {
    pub(super) back_seek: BackSeek,
    /// Asynchronous, synchronous.
    pub(super) fifo_expire: [Nanos; 2],
    pub(super) low_latency: bool,
    /// In sectors, if it does not follow the rate of the disk.
    pub(super) max_budget: Option<i64>,
    pub(super) slice_idle: Nanos,
    pub(super) strict_guarantees: bool,
    /// In ticks.
    pub(super) timeout: i64,
    /// It was set to something else than it is in a fresh kernel.
    pub(super) timeout_changed: bool,
}

impl Tunables {
    pub(super) fn new(values: &Values, clock: &Clock) -> Tunables {
        let millis = |name| Nanos::from_millis(values.count(name));
        let usual_timeout = clock.hz() / 8;
        let timeout = values
            .given("timeout_sync")
            .map_or(usual_timeout, |_| clock.ticks(values.count("timeout_sync")));
        Tunables {
            back_seek: BackSeek::new(values),
            fifo_expire: [millis("fifo_expire_async"), millis("fifo_expire_sync")],
            low_latency: values.get("low_latency") != 0,
            max_budget: Some(values.get("max_budget")).filter(|&budget| budget > 0),
            // A write of 1 to `strict_guarantees` lifts it to 8 ms, which one of its two files may lower again.
            slice_idle: values.time("slice_idle"),
            strict_guarantees: values.get("strict_guarantees") != 0,
            timeout,
            timeout_changed: timeout != usual_timeout,
        }
    }
}
