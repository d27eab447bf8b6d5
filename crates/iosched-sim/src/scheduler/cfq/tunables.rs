//! What can be set, and in which units.

use super::super::{BlockLayer, Kernel, SchedulerInfo, TunableInfo, Values};
use super::Cfq;
use crate::scheduler::back_seek::BackSeek;
use crate::units::Nanos;

const MAX: i64 = u32::MAX as i64;

/// How it is listed.
pub(crate) const INFO: SchedulerInfo = SchedulerInfo {
    name: "cfq",
    summary: "time slices for each process by priority, with idling",
    block_layer: BlockLayer::SingleQueue,
    build: |tunables, kernel, initial| Box::new(Cfq::new(tunables, kernel, initial)),
    successor: Some("bfq"),
    is_outdone: true,
    tunables: &[
        TunableInfo::new("back_seek_max", "KiB", 16 * 1024, 0, MAX)
            .what("so far behind the head a request still counts as near"),
        TunableInfo::new("back_seek_penalty", "", 2, 1, MAX)
            .what("how many times its length a seek backwards counts"),
        TunableInfo::new("fifo_expire_async", "ms", 250, 1, MAX)
            .in_ticks()
            .what(
                "a write that nobody waits for goes before nearer ones of its process \
                once it has waited so long",
            ),
        TunableInfo::new("fifo_expire_sync", "ms", 125, 1, MAX)
            .in_ticks()
            .what("the same for reads and synchronous writes"),
        // Without a group nothing is waited for but by `slice_idle`: it counts once there is one.
        TunableInfo::new("group_idle", "ms", 8, 0, MAX)
            .in_ticks()
            .what("so long a disk is kept idle for the next request of a cgroup"),
        TunableInfo::new("group_idle_us", "us", 8_000, 0, MAX).what("the same, finer"),
        TunableInfo::switch("low_latency", 1)
            .what("slices are cut so that each process has its turn within target_latency"),
        TunableInfo::new("quantum", "requests", 8, 1, MAX)
            .what("so many requests of a process may be in the drive"),
        TunableInfo::new("slice_async", "ms", 40, 1, MAX).what("so long is a slice of writes"),
        TunableInfo::new("slice_async_rq", "requests", 2, 1, MAX)
            .what("from it follows how many requests a slice of writes has"),
        TunableInfo::new("slice_async_us", "us", 40_000, 1, MAX).what("the same, finer"),
        // 0 on a device that is not rotational.
        TunableInfo::new("slice_idle", "ms", 8, 0, MAX)
            .in_ticks()
            .what(
                "so long a disk is kept idle for the next request of the process \
                that is served: 0 for fast flash and RAID",
            ),
        TunableInfo::new("slice_idle_us", "us", 8_000, 0, MAX).what("the same, finer"),
        TunableInfo::new("slice_sync", "ms", 100, 1, MAX)
            .what("so long is a slice of a process that reads"),
        TunableInfo::new("slice_sync_us", "us", 100_000, 1, MAX).what("the same, finer"),
        TunableInfo::new("target_latency", "ms", 300, 1, MAX)
            .what("with low_latency: within so long each process has its turn"),
        TunableInfo::new("target_latency_us", "us", 300_000, 1, MAX).what("the same, finer"),
    ],
    initial: &[
        TunableInfo::new("average", "", 0, 0, 1 << 20),
        TunableInfo::new("last-position", "sectors", 0, 0, 1 << 53),
        // Of best-effort queues that are not waited for.
        TunableInfo::new("noidle-think", "us", 0, 0, 1 << 40),
    ],
    ..SchedulerInfo::PLAIN
};

/// Settings in nanoseconds and sectors.
#[derive(Debug, Clone)]
pub(super) struct Tunables {
    pub(super) back_seek: BackSeek,
    /// Asynchronous, synchronous.
    pub(super) fifo_expire: [Nanos; 2],
    /// Zero while there are no groups, unless it was set.
    pub(super) group_idle: Nanos,
    group_idle_of_groups: Nanos,
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
            group_idle: if given("group_idle") {
                values.time("group_idle")
            } else {
                Nanos::ZERO
            },
            group_idle_of_groups: values.time("group_idle"),
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

    /// There are groups: they are waited for unless that was set to zero.
    pub(super) fn wait_for_groups(&mut self) {
        self.group_idle = self.group_idle_of_groups;
    }
}
