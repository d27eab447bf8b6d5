//! What can be tuned: each tunable of each scheduler, and those of the queue that a scheduler lives with, with unit, range,
//! default and one sentence. Units and defaults are those of [`attributes`](super::attributes()).
//!
//! Sources: `Documentation/block/{deadline-iosched,bfq-iosched,kyber-iosched,cfq-iosched}` and
//! `Documentation/ABI/stable/sysfs-block` of Linux 4.19 and 6.12, and what the kernels' files said on test machines.

use serde::Serialize;

use super::attributes::{tunables_of, unit_of_queue};

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
    pub range: &'static str,
    /// What it is if nobody sets it, as far as that depends on nothing.
    pub default: Option<String>,
    /// What it does.
    pub what: &'static str,
}

/// The range of what is on or off.
const ON_OR_OFF: &str = "0 or 1";

/// The schedulers that have tunables.
pub const TUNABLE_SCHEDULERS: [&str; 5] = ["mq-deadline", "kyber", "bfq", "deadline", "cfq"];

/// All that are explained: by scheduler, those of the queue last.
pub fn tunables() -> Vec<Tunable> {
    let of_schedulers = TUNABLE_SCHEDULERS.iter().flat_map(|&scheduler| {
        let known = tunables_of(scheduler).into_iter();
        known.filter_map(move |(name, known)| {
            let (range, what) = explained(scheduler, name)?;
            Some(Tunable {
                scheduler: Some(scheduler),
                name,
                unit: known.unit,
                range,
                default: known.defaults.into_iter().next(),
                what,
            })
        })
    });
    let of_queue = OF_QUEUE
        .iter()
        .map(|&(name, range, default, what)| Tunable {
            scheduler: None,
            name,
            unit: unit_of_queue(name),
            range,
            default: Some(default.into()),
            what,
        });
    of_schedulers.chain(of_queue).collect()
}

/// True if a tunable, of whichever scheduler or of the queue, is on or off: 1 or 0.
pub fn is_switch(tunable: &str) -> bool {
    let of_schedulers = TUNABLE_SCHEDULERS.iter();
    let of_schedulers = of_schedulers.filter_map(|scheduler| explained(scheduler, tunable));
    let of_queue = OF_QUEUE.iter().filter(|(name, ..)| *name == tunable);
    of_schedulers
        .map(|(range, _)| range)
        .chain(of_queue.map(|(_, range, ..)| *range))
        .any(|range| range == ON_OR_OFF)
}

/// Range and meaning of a scheduler's tunable; none if this scheduler does not have it.
fn explained(scheduler: &str, name: &str) -> Option<(&'static str, &'static str)> {
    Some(match (scheduler, name) {
        ("mq-deadline" | "deadline", "read_expire") => (
            "0 or more",
            "a read that has waited so long goes before reads that are nearer",
        ),
        ("mq-deadline" | "deadline", "write_expire") => ("0 or more", "the same for writes"),
        ("mq-deadline" | "deadline", "writes_starved") => (
            "any",
            "so many batches of reads may go before a batch of writes",
        ),
        ("mq-deadline" | "deadline", "fifo_batch") => (
            "0 or more",
            "so many requests go in order of place before deadlines are looked at again: few for latency, many for throughput",
        ),
        ("mq-deadline" | "deadline", "front_merges") => (
            ON_OR_OFF,
            "0 saves looking for requests that a new one stands right before",
        ),
        ("mq-deadline", "async_depth") => (
            "1 to nr_requests",
            "so many requests may writes and other asynchronous ones take of the scheduler's",
        ),
        ("mq-deadline", "prio_aging_expire") => (
            "0 or more",
            "a request of a lower I/O priority that has waited so long goes before those of higher ones",
        ),
        ("kyber", "read_lat_nsec") => (
            "1 or more",
            "reads are to take no longer: if they do, fewer others are let through",
        ),
        ("kyber", "write_lat_nsec") => ("1 or more", "the same for synchronous writes"),
        ("bfq", "low_latency") => (
            ON_OR_OFF,
            "programs that start or that play and record go first, at some cost in throughput",
        ),
        ("bfq" | "cfq", "slice_idle") => (
            "0 or more",
            "so long a disk is kept idle for the next request of the process that is served: 0 for fast flash and RAID",
        ),
        ("bfq" | "cfq", "slice_idle_us") => ("0 or more", "the same, finer"),
        ("bfq", "timeout_sync") => (
            "1 or more",
            "a process is served for so long at a time, at the most",
        ),
        ("bfq", "max_budget") => (
            "0 or more",
            "a process is served so much at a time, at the most",
        ),
        ("bfq", "strict_guarantees") => (
            ON_OR_OFF,
            "1 sends one request at a time, so that shares hold even in the drive: slow",
        ),
        ("bfq" | "cfq", "fifo_expire_sync") => (
            "1 or more",
            "a read or synchronous write that has waited so long goes before nearer ones of its process",
        ),
        ("bfq" | "cfq", "fifo_expire_async") => ("1 or more", "the same for other writes"),
        ("bfq" | "cfq", "back_seek_max") => (
            "0 or more",
            "so far behind the head a request still counts as near",
        ),
        ("bfq" | "cfq", "back_seek_penalty") => {
            ("1 or more", "so many times as far counts a way backwards")
        }
        ("cfq", "quantum") => (
            "1 or more",
            "so many requests of a process may be in the drive",
        ),
        ("cfq", "slice_sync") => ("1 or more", "so long is a slice of a process that reads"),
        ("cfq", "slice_async") => ("1 or more", "so long is a slice of writes"),
        ("cfq", "slice_async_rq") => (
            "1 or more",
            "from it follows how many requests a slice of writes has",
        ),
        ("cfq", "group_idle") => (
            "0 or more",
            "so long a disk is kept idle for the next request of a cgroup",
        ),
        ("cfq", "low_latency") => (
            ON_OR_OFF,
            "slices are cut so that each process has its turn within target_latency",
        ),
        ("cfq", "target_latency") => (
            "1 or more",
            "with low_latency: within so long each process has its turn",
        ),
        _ => return None,
    })
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
    fn all_that_is_known_is_explained_and_is_on_or_off_if_it_is_so_simulated() {
        for scheduler in TUNABLE_SCHEDULERS {
            let simulated = iosched_sim::scheduler::info(scheduler).unwrap().tunables;
            for (name, _) in tunables_of(scheduler) {
                assert!(explained(scheduler, name).is_some(), "{scheduler} {name}");
                let range = simulated.iter().find(|tunable| tunable.name == name);
                let range = range.map(|tunable| (tunable.min, tunable.max));
                let is_so_simulated = range == Some((0, 1));
                assert_eq!(is_switch(name), is_so_simulated, "{name}");
            }
        }
    }
}
