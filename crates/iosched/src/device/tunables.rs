//! What can be tuned: each tunable of each scheduler, and those of the queue that a scheduler lives with, with unit, range,
//! default and one sentence.
//!
//! Sources: `Documentation/block/{deadline-iosched,bfq-iosched,kyber-iosched,cfq-iosched}` and
//! `Documentation/ABI/stable/sysfs-block` of Linux 4.19 and 6.12, and what the kernels' files said on test machines.

use serde::Serialize;

/// A tunable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tunable {
    /// Its file: below `queue/iosched/`, or below `queue/`.
    pub name: &'static str,
    /// The schedulers that have it; none for one of the queue.
    pub schedulers: &'static [&'static str],
    /// Of its value.
    pub unit: &'static str,
    /// What it may be.
    pub range: &'static str,
    /// What it is if nobody sets it, as far as that depends on nothing.
    pub default: &'static str,
    /// What it does.
    pub what: &'static str,
}

const DEADLINES: &[&str] = &["mq-deadline", "deadline"];
const MQ_DEADLINE: &[&str] = &["mq-deadline"];
const KYBER: &[&str] = &["kyber"];
const BFQ: &[&str] = &["bfq"];
const CFQ: &[&str] = &["cfq"];
const FAIR: &[&str] = &["bfq", "cfq"];
const QUEUE: &[&str] = &[];

/// All that are known, by scheduler, those of the queue last.
pub const TUNABLES: &[Tunable] = &[
    of(
        "read_expire",
        DEADLINES,
        "ms",
        "0 or more",
        "500",
        "a read that has waited so long goes before reads that are nearer",
    ),
    of(
        "write_expire",
        DEADLINES,
        "ms",
        "0 or more",
        "5000",
        "the same for writes",
    ),
    of(
        "writes_starved",
        DEADLINES,
        "batches",
        "any",
        "2",
        "so many batches of reads may go before a batch of writes",
    ),
    of(
        "fifo_batch",
        DEADLINES,
        "requests",
        "0 or more",
        "16",
        "so many requests go in order of place before deadlines are looked at again: few for latency, many for throughput",
    ),
    of(
        "front_merges",
        DEADLINES,
        "",
        "0 or 1",
        "1",
        "0 saves looking for requests that a new one stands right before",
    ),
    of(
        "async_depth",
        MQ_DEADLINE,
        "requests",
        "1 to nr_requests",
        "as the kernel",
        "so many requests may writes and other asynchronous ones take of the scheduler's",
    ),
    of(
        "prio_aging_expire",
        MQ_DEADLINE,
        "ms",
        "0 or more",
        "10000",
        "a request of a lower I/O priority that has waited so long goes before those of higher ones",
    ),
    of(
        "read_lat_nsec",
        KYBER,
        "ns",
        "1 or more",
        "2000000",
        "reads are to take no longer: if they do, fewer others are let through",
    ),
    of(
        "write_lat_nsec",
        KYBER,
        "ns",
        "1 or more",
        "10000000",
        "the same for synchronous writes",
    ),
    of(
        "low_latency",
        BFQ,
        "",
        "0 or 1",
        "1",
        "programs that start or that play and record go first, at some cost in throughput",
    ),
    of(
        "slice_idle",
        FAIR,
        "ms",
        "0 or more",
        "8",
        "so long a disk is kept idle for the next request of the process that is served: 0 for fast flash and RAID",
    ),
    of(
        "slice_idle_us",
        FAIR,
        "µs",
        "0 or more",
        "8000",
        "the same, finer",
    ),
    of(
        "timeout_sync",
        BFQ,
        "ms",
        "1 or more",
        "125",
        "a process is served for so long at a time, at the most",
    ),
    of(
        "max_budget",
        BFQ,
        "sectors",
        "0 or more",
        "0 (found out)",
        "a process is served so much at a time, at the most",
    ),
    of(
        "strict_guarantees",
        BFQ,
        "",
        "0 or 1",
        "0",
        "1 sends one request at a time, so that shares hold even in the drive: slow",
    ),
    of(
        "fifo_expire_sync",
        FAIR,
        "ms",
        "1 or more",
        "125",
        "a read or synchronous write that has waited so long goes before nearer ones of its process",
    ),
    of(
        "fifo_expire_async",
        FAIR,
        "ms",
        "1 or more",
        "250",
        "the same for other writes",
    ),
    of(
        "back_seek_max",
        FAIR,
        "KiB",
        "0 or more",
        "16384",
        "so far behind the head a request still counts as near",
    ),
    of(
        "back_seek_penalty",
        FAIR,
        "times",
        "1 or more",
        "2",
        "so many times as far counts a way backwards",
    ),
    of(
        "quantum",
        CFQ,
        "requests",
        "1 or more",
        "8",
        "so many requests of a process may be in the drive",
    ),
    of(
        "slice_sync",
        CFQ,
        "ms",
        "1 or more",
        "100",
        "so long is a slice of a process that reads",
    ),
    of(
        "slice_async",
        CFQ,
        "ms",
        "1 or more",
        "40",
        "so long is a slice of writes",
    ),
    of(
        "slice_async_rq",
        CFQ,
        "requests",
        "1 or more",
        "2",
        "from it follows how many requests a slice of writes has",
    ),
    of(
        "group_idle",
        CFQ,
        "ms",
        "0 or more",
        "8",
        "so long a disk is kept idle for the next request of a cgroup",
    ),
    of(
        "low_latency",
        CFQ,
        "",
        "0 or 1",
        "1",
        "slices are cut so that each process has its turn within target_latency",
    ),
    of(
        "target_latency",
        CFQ,
        "ms",
        "1 or more",
        "300",
        "with low_latency: within so long each process has its turn",
    ),
    of(
        "nr_requests",
        QUEUE,
        "requests",
        "4 or more",
        "as the kernel",
        "so many requests may wait: with none in all, with the others twice the drive's depth by default",
    ),
    of(
        "read_ahead_kb",
        QUEUE,
        "KiB",
        "0 or more",
        "128",
        "so much is read ahead of a program that reads on",
    ),
    of(
        "max_sectors_kb",
        QUEUE,
        "KiB",
        "a page to max_hw_sectors_kb",
        "1280",
        "no request is longer",
    ),
    of(
        "rq_affinity",
        QUEUE,
        "",
        "0, 1 or 2",
        "1",
        "a request is completed near (1) or on (2) the processor that asked for it",
    ),
    of(
        "nomerges",
        QUEUE,
        "",
        "0, 1 or 2",
        "0",
        "1 looks for simple merges only, 2 for none",
    ),
    of(
        "wbt_lat_usec",
        QUEUE,
        "µs",
        "0 or more",
        "75000, 2000 on flash",
        "writeback is throttled so that reads take no longer: 0 is off; bfq switches it off",
    ),
    of(
        "add_random",
        QUEUE,
        "",
        "0 or 1",
        "as the drive",
        "1 feeds the kernel's random numbers: costs time per request",
    ),
    of(
        "iostats",
        QUEUE,
        "",
        "0 or 1",
        "1",
        "0 counts nothing: a little faster, and `iosched watch` sees nothing",
    ),
    of(
        "rotational",
        QUEUE,
        "",
        "0 or 1",
        "as the drive",
        "what schedulers believe that the disk is",
    ),
];

const fn of(
    name: &'static str,
    schedulers: &'static [&'static str],
    unit: &'static str,
    range: &'static str,
    default: &'static str,
    what: &'static str,
) -> Tunable {
    Tunable {
        name,
        schedulers,
        unit,
        range,
        default,
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_there_once_for_a_scheduler_and_says_something() {
        for (at, one) in TUNABLES.iter().enumerate() {
            assert!(!one.what.is_empty() && !one.range.is_empty(), "{one:?}");
            let is_like = |other: &&Tunable| {
                let shared = other
                    .schedulers
                    .iter()
                    .any(|name| one.schedulers.contains(name));
                other.name == one.name && (shared || other.schedulers == one.schedulers)
            };
            assert_eq!(TUNABLES[at + 1..].iter().find(is_like), None);
        }
    }
}
