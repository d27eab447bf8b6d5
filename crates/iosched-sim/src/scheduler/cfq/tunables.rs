//! What can be set, and in which units.

use super::super::{BlockLayer, CpuCost, Kernel, SchedulerInfo, TunableInfo, Values};
use super::Cfq;
use crate::scheduler::back_seek::BackSeek;
use crate::units::Nanos;

const MAX: i64 = u32::MAX as i64;

/// How it is listed.
pub(crate) const INFO: SchedulerInfo = SchedulerInfo {
    name: "cfq",
    summary: "time slices for each process by priority, with idling",
    block_layer: BlockLayer::SingleQueue,
    tunables: &[
        TunableInfo::new("back_seek_max", "KiB", 16 * 1024, 0, MAX),
        TunableInfo::new("back_seek_penalty", "", 2, 1, MAX),
        TunableInfo::new("fifo_expire_async", "ms", 250, 1, MAX),
        TunableInfo::new("fifo_expire_sync", "ms", 125, 1, MAX),
        // 8 ms in a kernel with cgroup scheduling compiled in: as soon as there is a group.
        TunableInfo::new("group_idle", "ms", 0, 0, MAX),
        TunableInfo::new("group_idle_us", "us", 0, 0, MAX),
        TunableInfo::switch("low_latency", 1),
        TunableInfo::new("quantum", "requests", 8, 1, MAX),
        TunableInfo::new("slice_async", "ms", 40, 1, MAX),
        TunableInfo::new("slice_async_rq", "requests", 2, 1, MAX),
        TunableInfo::new("slice_async_us", "us", 40_000, 1, MAX),
        // 0 on a device that is not rotational.
        TunableInfo::new("slice_idle", "ms", 8, 0, MAX),
        TunableInfo::new("slice_idle_us", "us", 8_000, 0, MAX),
        TunableInfo::new("slice_sync", "ms", 100, 1, MAX),
        TunableInfo::new("slice_sync_us", "us", 100_000, 1, MAX),
        TunableInfo::new("target_latency", "ms", 300, 1, MAX),
        TunableInfo::new("target_latency_us", "us", 300_000, 1, MAX),
    ],
    initial: &[
        TunableInfo::new("average", "", 0, 0, 1 << 20),
        TunableInfo::new("last-position", "sectors", 0, 0, 1 << 53),
        // Of best-effort queues that are not waited for.
        TunableInfo::new("noidle-think", "us", 0, 0, 1 << 40),
    ],
    uses_ticks: false, // only their length
    oldest: None,
    learns: false,
    direct: false,
    refuses_groups: false,
    cpu_cost: CpuCost::BLOCK_LAYER,
    build: |tunables, kernel, initial| Box::new(Cfq::new(tunables, kernel, initial)),
};

/// Settings in nanoseconds and sectors.
#[derive(Debug, Clone)]
pub(super) struct Tunables {
    pub(super) back_seek: BackSeek,
    /// Asynchronous, synchronous.
    pub(super) fifo_expire: [Nanos; 2],
    pub(super) group_idle: Nanos,
    group_idle_given: bool,
    pub(super) low_latency: bool,
    pub(super) quantum: u64,
    /// Asynchronous, synchronous.
    pub(super) slice: [Nanos; 2],
    pub(super) slice_async_rq: u64,
    pub(super) slice_idle: Nanos,
    pub(super) target_latency: Nanos,
}

impl Tunables {
    pub(super) fn new(values: &Values, kernel: &Kernel) -> Tunables {
        let given = |name: &str| {
            let micros = format!("{name}_us");
            values.given(name).is_some() || values.given(&micros).is_some()
        };
        let millis = |name| Nanos::from_millis(values.count(name));
        Tunables {
            back_seek: BackSeek::new(values),
            fifo_expire: [millis("fifo_expire_async"), millis("fifo_expire_sync")],
            group_idle: values.time("group_idle"),
            group_idle_given: given("group_idle"),
            low_latency: values.get("low_latency") != 0,
            quantum: values.count("quantum"),
            slice: [values.time("slice_async"), values.time("slice_sync")],
            slice_async_rq: values.count("slice_async_rq"),
            slice_idle: if kernel.rotational || given("slice_idle") {
                values.time("slice_idle")
            } else {
                Nanos::ZERO
            },
            target_latency: values.time("target_latency"),
        }
    }

    /// There are groups: their default is to be waited for.
    pub(super) fn wait_for_groups(&mut self) {
        if !self.group_idle_given {
            self.group_idle = Nanos::from_millis(8);
        }
    }
}
