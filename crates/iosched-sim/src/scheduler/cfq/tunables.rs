//! What can be set, and in which units.

use iosched_facts::scheduler as facts;

use super::super::{Kernel, SchedulerInfo, TunableInfo, Values};
use super::Cfq;
use crate::scheduler::back_seek::BackSeek;
use crate::units::Nanos;

/// How it is listed.
pub(crate) static INFO: SchedulerInfo = SchedulerInfo {
    facts: &facts::CFQ,
    build: |tunables, kernel, initial| Box::new(Cfq::new(tunables, kernel, initial)),
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
