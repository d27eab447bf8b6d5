//! What can be tuned: each tunable of each scheduler, as the scheduler itself brings it, and those of the queue that a
//! scheduler lives with, with unit, range, default and one sentence.
//!
//! Sources: `Documentation/block/{deadline-iosched,bfq-iosched,kyber-iosched,cfq-iosched}` and
//! `Documentation/ABI/stable/sysfs-block` of Linux 4.19 and 6.12, and what the kernels' files said on test machines.

use iosched_facts::kernel::BlockLayer;
use iosched_facts::scheduler::{self, TunableInfo};
use serde::Serialize;

use super::attributes::{of_tunable, tunables_of, unit_of_queue};

/// A tunable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tunable {
    /// The scheduler that has it; none for one of the queue.
    pub scheduler: Option<&'static str>,
    /// Its file: below `queue/iosched/`, or below `queue/`.
    pub name: &'static str,
    /// Of its value, where it has one.
    pub unit: Option<&'static str>,
    /// What it may be.
    pub range: String,
    /// What it is if nobody sets it, as far as that depends on nothing.
    pub default: Option<String>,
    /// What it does.
    pub what: &'static str,
}

/// The range of what is on or off.
const ON_OR_OFF: &str = "0 or 1";

/// The schedulers that have tunables, those of today's kernels first.
pub fn tunable_schedulers() -> Vec<&'static str> {
    let mut infos: Vec<_> = scheduler::schedulers()
        .filter(|info| !info.tunables.is_empty())
        .collect();
    infos.sort_by_key(|info| info.block_layer != BlockLayer::MultiQueue);
    infos.into_iter().map(|info| info.name).collect()
}

/// All that are explained: by scheduler, those of the queue last.
pub fn tunables() -> Vec<Tunable> {
    let of_schedulers = tunable_schedulers().into_iter().flat_map(|scheduler| {
        let tunables = tunables_of(scheduler).unwrap_or_default();
        tunables.iter().map(move |tunable| {
            let known = of_tunable(tunable);
            Tunable {
                scheduler: Some(scheduler),
                name: tunable.name,
                unit: known.unit,
                range: range(tunable),
                default: known.defaults.into_iter().next(),
                what: tunable.what,
            }
        })
    });
    let of_queue = OF_QUEUE
        .iter()
        .map(|&(name, range, default, what)| Tunable {
            scheduler: None,
            name,
            unit: unit_of_queue(name),
            range: range.to_owned(),
            default: Some(default.into()),
            what,
        });
    of_schedulers.chain(of_queue).collect()
}

/// True if a tunable, of whichever scheduler or of the queue, is on or off: 1 or 0.
pub fn is_switch(tunable: &str) -> bool {
    let mut of_schedulers = scheduler::schedulers().flat_map(|info| info.tunables);
    let is_of_queue =
        |(name, range, ..): &(&str, &str, &str, &str)| *name == tunable && *range == ON_OR_OFF;
    of_schedulers.any(|info| info.name == tunable && info.is_switch())
        || OF_QUEUE.iter().any(is_of_queue)
}

/// What a scheduler's tunable may be, in words.
fn range(tunable: &TunableInfo) -> String {
    match tunable.min {
        _ if tunable.is_switch() => ON_OR_OFF.to_owned(),
        ..0 => "any".to_owned(),
        least => format!("{least} or more"),
    }
}

/// Name, range, default and meaning of those of the queue.
const OF_QUEUE: &[(&str, &str, &str, &str)] = &[
    (
        "nr_requests",
        "4 or more",
        "as the kernel",
        "so many requests may wait: with none in all, with the others twice the drive's depth by default",
    ),
    (
        "read_ahead_kb",
        "0 or more",
        "128",
        "so much is read ahead of a program that reads on",
    ),
    (
        "max_sectors_kb",
        "a page to max_hw_sectors_kb",
        "1280",
        "no request is longer",
    ),
    (
        "rq_affinity",
        "0, 1 or 2",
        "1",
        "a request is completed near (1) or on (2) the processor that asked for it",
    ),
    (
        "nomerges",
        "0, 1 or 2",
        "0",
        "1 looks for simple merges only, 2 for none",
    ),
    (
        "wbt_lat_usec",
        "0 or more",
        "75000, 2000 on flash",
        "writeback is throttled so that reads take no longer: 0 is off; bfq switches it off",
    ),
    (
        "add_random",
        ON_OR_OFF,
        "as the drive",
        "1 feeds the kernel's random numbers: costs time per request",
    ),
    (
        "iostats",
        ON_OR_OFF,
        "1",
        "0 counts nothing: a little faster, and `iosched watch` sees nothing",
    ),
    (
        "rotational",
        ON_OR_OFF,
        "as the drive",
        "what schedulers believe that the disk is",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_there_once_for_a_scheduler_and_says_something() {
        let all = tunables();
        for (at, one) in all.iter().enumerate() {
            assert!(!one.what.is_empty() && !one.range.is_empty(), "{one:?}");
            let is_like =
                |other: &&Tunable| (other.scheduler, other.name) == (one.scheduler, one.name);
            assert_eq!(all[at + 1..].iter().find(is_like), None);
        }
    }

    #[test]
    fn all_that_each_scheduler_has_are_there_with_the_range_that_it_is_simulated_with() {
        let all = tunables();
        for info in scheduler::schedulers() {
            for tunable in info.tunables {
                let is_it =
                    |one: &&Tunable| (one.scheduler, one.name) == (Some(info.name), tunable.name);
                let explained = all.iter().find(is_it).unwrap();
                assert_eq!(explained.range == ON_OR_OFF, is_switch(tunable.name));
            }
        }
        let range = |name: &str| &all.iter().find(|one| one.name == name).unwrap().range;
        assert_eq!(range("writes_starved"), "any");
        assert_eq!(range("fifo_batch"), "0 or more");
        assert_eq!(range("slice_sync_us"), "1 or more");
    }
}
