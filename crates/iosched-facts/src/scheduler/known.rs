//! The schedulers of Linux: those of the single-queue block layer as in 4.19, the others as in 6.12. KPP and ADIOS are
//! patches.

use super::{SchedulerFacts, TunableInfo};
use crate::kernel::BlockLayer;

/// Most tunables are an `int`.
const INT_MAX: i64 = i32::MAX as i64;
/// cfq's and some of bfq's are an `unsigned int`.
const UINT_MAX: i64 = u32::MAX as i64;

/// One that goes to the largest `int`.
const fn int(name: &'static str, unit: &'static str, default: i64, min: i64) -> TunableInfo {
    TunableInfo::new(name, unit, default, min, INT_MAX)
}

/// One that goes to the largest `unsigned int`.
const fn uint(name: &'static str, unit: &'static str, default: i64, min: i64) -> TunableInfo {
    TunableInfo::new(name, unit, default, min, UINT_MAX)
}

const BACK_SEEK_MAX: &str = "so far behind the head a request still counts as near";
const BACK_SEEK_PENALTY: &str = "how many times its length a seek backwards counts";
const FIFO_BATCH: &str = "so many requests go in order of place before deadlines are looked at again: few for latency, \
                          many for throughput";
const FIFO_EXPIRE_ASYNC: &str = "a write that nobody waits for goes before nearer ones of its process once it has waited \
                                 so long";
const FIFO_EXPIRE_SYNC: &str = "the same for reads and synchronous writes";
const FINER: &str = "the same, finer";
const FRONT_MERGES: &str = "0 saves looking for requests that a new one stands right before";
const READ_EXPIRE: &str = "a read that has waited so long goes before reads that are nearer";
const SLICE_IDLE: &str = "so long a disk is kept idle for the next request of the process that is served: 0 for fast \
                          flash and RAID";
const WRITE_EXPIRE: &str = "the same for writes";
const WRITES_STARVED: &str = "so many batches of reads may go before a batch of writes";

/// `block/noop-iosched.c`.
pub static NOOP: SchedulerFacts = SchedulerFacts {
    name: "noop",
    summary: "first come, first served, with merging",
    block_layer: BlockLayer::SingleQueue,
    successor: Some("none"),
    ..SchedulerFacts::PLAIN
};

/// `block/deadline-iosched.c`.
pub static DEADLINE: SchedulerFacts = SchedulerFacts {
    name: "deadline",
    summary: "sector order in batches; an expired request goes first; reads before writes",
    block_layer: BlockLayer::SingleQueue,
    successor: Some("mq-deadline"),
    tunables: &[
        int("fifo_batch", "requests", 16, 0).what(FIFO_BATCH),
        TunableInfo::switch("front_merges", 1).what(FRONT_MERGES),
        int("read_expire", "ms", 500, 0).what(READ_EXPIRE),
        int("write_expire", "ms", 5000, 0).what(WRITE_EXPIRE),
        int("writes_starved", "batches", 2, -INT_MAX).what(WRITES_STARVED),
    ],
    ..SchedulerFacts::PLAIN
};

/// `block/cfq-iosched.c`.
pub static CFQ: SchedulerFacts = SchedulerFacts {
    name: "cfq",
    summary: "time slices for each process by priority, with idling",
    block_layer: BlockLayer::SingleQueue,
    successor: Some("bfq"),
    tunables: &[
        uint("back_seek_max", "KiB", 16 * 1024, 0).what(BACK_SEEK_MAX),
        uint("back_seek_penalty", "", 2, 1).what(BACK_SEEK_PENALTY),
        uint("fifo_expire_async", "ms", 250, 1)
            .in_ticks()
            .what(FIFO_EXPIRE_ASYNC),
        uint("fifo_expire_sync", "ms", 125, 1)
            .in_ticks()
            .what(FIFO_EXPIRE_SYNC),
        // Without a group nothing is waited for but by `slice_idle`: it counts once there is one.
        uint("group_idle", "ms", 8, 0)
            .in_ticks()
            .what("so long a disk is kept idle for the next request of a cgroup"),
        uint("group_idle_us", "us", 8_000, 0).what(FINER),
        TunableInfo::switch("low_latency", 1)
            .what("slices are cut so that each process has its turn within target_latency"),
        uint("quantum", "requests", 8, 1).what("so many requests of a process may be in the drive"),
        uint("slice_async", "ms", 40, 1).what("so long is a slice of writes"),
        uint("slice_async_rq", "requests", 2, 1)
            .what("from it follows how many requests a slice of writes has"),
        uint("slice_async_us", "us", 40_000, 1).what(FINER),
        // 0 on a device that is not rotational.
        uint("slice_idle", "ms", 8, 0).in_ticks().what(SLICE_IDLE),
        uint("slice_idle_us", "us", 8_000, 0).what(FINER),
        uint("slice_sync", "ms", 100, 1).what("so long is a slice of a process that reads"),
        uint("slice_sync_us", "us", 100_000, 1).what(FINER),
        uint("target_latency", "ms", 300, 1)
            .what("with low_latency: within so long each process has its turn"),
        uint("target_latency_us", "us", 300_000, 1).what(FINER),
    ],
    ..SchedulerFacts::PLAIN
};

/// No elevator.
pub static NONE: SchedulerFacts = SchedulerFacts {
    name: "none",
    summary: "no scheduler: in order of arrival, straight to the device while it takes more",
    direct: true,
    ..SchedulerFacts::PLAIN
};

/// `block/mq-deadline.c`.
pub static MQ_DEADLINE: SchedulerFacts = SchedulerFacts {
    name: "mq-deadline",
    summary: "deadline for today's kernels, with priority classes",
    alias: Some("deadline"),
    locks_zones: true,
    tunables: &[
        // nr_requests at most: no limit
        int("async_depth", "requests", 256, 1).what(
            "so many of the scheduler's nr_requests may writes and other asynchronous ones take",
        ),
        int("fifo_batch", "requests", 16, 0).what(FIFO_BATCH),
        TunableInfo::switch("front_merges", 1).what(FRONT_MERGES),
        int("prio_aging_expire", "ms", 10_000, 0).what(
            "a request of a lower I/O priority that has waited so long goes before those of higher ones",
        ),
        int("read_expire", "ms", 500, 0).what(READ_EXPIRE),
        int("write_expire", "ms", 5000, 0).what(WRITE_EXPIRE),
        int("writes_starved", "batches", 2, -INT_MAX - 1).what(WRITES_STARVED),
    ],
    ..SchedulerFacts::PLAIN
};

/// kyber's, and KPP's.
static LATENCY_TARGETS: [TunableInfo; 2] = [
    TunableInfo::new("read_lat_nsec", "ns", 2_000_000, 0, i64::MAX)
        .what("reads are to take no longer: if they do, fewer others are let through"),
    TunableInfo::new("write_lat_nsec", "ns", 10_000_000, 0, i64::MAX)
        .what("the same for synchronous writes"),
];

/// `block/kyber-iosched.c`.
pub static KYBER: SchedulerFacts = SchedulerFacts {
    name: "kyber",
    summary: "limits each kind of request so that reads and writes meet latency targets",
    kernel_option: Some("CONFIG_MQ_IOSCHED_KYBER"),
    tunables: &LATENCY_TARGETS,
    ..SchedulerFacts::PLAIN
};

/// `block/bfq-iosched.c`.
pub static BFQ: SchedulerFacts = SchedulerFacts {
    name: "bfq",
    summary: "shares of the disk for each process by weight, low latency for what is new or paced",
    kernel_option: Some("CONFIG_IOSCHED_BFQ"),
    disables_wbt: true,
    tunables: &[
        int("back_seek_max", "KiB", 16 * 1024, 0).what(BACK_SEEK_MAX),
        int("back_seek_penalty", "", 2, 1).what(BACK_SEEK_PENALTY),
        int("fifo_expire_async", "ms", 250, 1).what(FIFO_EXPIRE_ASYNC),
        int("fifo_expire_sync", "ms", 125, 1).what(FIFO_EXPIRE_SYNC),
        TunableInfo::switch("low_latency", 1).what(
            "programs that start or that play and record go first, at some cost in throughput",
        ),
        int("max_budget", "sectors", 0, 0)
            .what("a process is served so much at a time, at the most; 0: by the rate of the disk"),
        int("slice_idle", "ms", 8, 0).what(SLICE_IDLE),
        uint("slice_idle_us", "us", 8_000, 0).what(FINER),
        TunableInfo::switch("strict_guarantees", 0)
            .what("1 sends one request at a time, so that shares hold even in the drive: slow"),
        int("timeout_sync", "ms", 125, 1)
            .in_ticks()
            .what("a process is served for so long at a time, at the most"),
    ],
    ..SchedulerFacts::PLAIN
};

/// KPP, a fork of kyber.
pub static KPP: SchedulerFacts = SchedulerFacts {
    name: "kpp",
    summary: "kyber that reverses most of its lists twice",
    out_of_tree: true,
    tunables: &LATENCY_TARGETS,
    ..SchedulerFacts::PLAIN
};

/// ADIOS 3.3.0.
pub static ADIOS: SchedulerFacts = SchedulerFacts {
    name: "adios",
    summary: "earliest deadline first, in batches bounded by a latency that it learns",
    out_of_tree: true,
    tunables: &[
        int("batch_limit_discard", "requests", 1, 1).what("a batch has so many discards at most"),
        int("batch_limit_read", "requests", 36, 1).what("a batch has so many reads at most"),
        int("batch_limit_write", "requests", 72, 1).what("a batch has so many writes at most"),
        TunableInfo::switch("batch_order", 0)
            .what("1 sorts the writes and asynchronous reads of a batch by place; only a rotational disk takes it"),
        TunableInfo::new("bq_refill_below_ratio", "%", 20, 0, 100)
            .what("the next batch is made once so much of global_latency_window is under way"),
        TunableInfo::switch("compliance_flags", 0)
            .what("1 leaves the expected latency out of deadlines"),
        TunableInfo::new("global_latency_window", "ns", 16_000_000, 0, i64::MAX)
            .rotational(22_000_000)
            .what("requests that are expected to take so long together are under way at most"),
        TunableInfo::new("lat_model_latency_limit", "ns", 500_000_000, 0, 2_000_000_000)
            .what("a latency beyond this teaches nothing"),
        TunableInfo::new("lat_target_discard", "ns", 8_000_000_000, 0, i64::MAX)
            .what("the same for discards"),
        TunableInfo::new("lat_target_read", "ns", 2_000_000, 0, i64::MAX).what(
            "a read without the SYNC flag has its deadline so long after its start; a write here forgets what was \
             learnt of reads",
        ),
        TunableInfo::new("lat_target_write", "ns", 2_000_000_000, 0, i64::MAX)
            .what("the same for writes"),
        TunableInfo::new("read_priority", "", 8, -20, 19)
            .what("higher: more reads go before writes that are due earlier"),
        TunableInfo::new("shrink_at_gbytes", "GiB", 50, 1, 1000)
            .what("what was learnt of large requests is cut after so many bytes"),
        TunableInfo::new("shrink_at_kreqs", "1000 requests", 5000, 1, 100_000)
            .what("what was learnt of small requests is cut after so many"),
        TunableInfo::new("shrink_resist", "", 2, 1, 3).what("a cut is smaller, the higher this is"),
    ],
    ..SchedulerFacts::PLAIN
};
