//! What can be set, and in which units; what a cold start cannot know.

use iosched_facts::scheduler as facts;

use super::moment::Clock;
use super::{Bfq, OLDEST};
use crate::scheduler::back_seek::BackSeek;
use crate::scheduler::{CpuCost, PhaseSearch, SchedulerInfo, TunableInfo, Values};
use crate::units::Nanos;

const MAX: i64 = i32::MAX as i64;

const fn state(name: &'static str, unit: &'static str, default: i64, max: i64) -> TunableInfo {
    TunableInfo::new(name, unit, default, 0, max)
}

const FAR: i64 = 1 << 53;

/// How it is listed.
pub(crate) static INFO: SchedulerInfo = SchedulerInfo {
    facts: &facts::BFQ,
    build: |tunables, kernel, initial| Box::new(Bfq::new(tunables, kernel, initial)),
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
