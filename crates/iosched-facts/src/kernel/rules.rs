//! Which kernel follows which rule: the one table of what changed in the multi-queue block layer and its schedulers.
//!
//! A rule holds from a version on; where a stable series got it later than its own first release, from that stable
//! release on in this series. Versions are those of the sources and recordings in which a rule was seen: 6.15 to 6.17,
//! the releases of 6.18 between .2 and .35, and 7.2 and later were not read. `results/kernel-versions.md` is made of this table.

use super::KernelVersion;

/// A rule that not all kernels follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is described in the table")]
pub enum Rule {
    ZonesAreLocked,
    KyberByHistograms,
    BfqStableMerges,
    DeadlinePriorities,
    BfqActuators,
    TicksAligned,
    DeadlineByPosition,
    BioInPlug,
    ZonesOrderedBelow,
    DeadlineOldDepth,
    PlugInOrder,
    PlugMergesOldest,
    PlugMergesNewest,
    FreezeBesideZoneWrites,
    StartTimeOfAccounting,
    LimitInAll,
    BfqDropsWaker,
    LargerRequests,
    DeadlineOneFifo,
    DeadlineNewDepth,
    KyberLimitsSyncWrites,
    QueueAsyncDepth,
    DeadlineWakesBatches,
}

/// A row of the table.
#[derive(Debug)]
pub struct RuleFacts {
    /// The rule.
    pub rule: Rule,
    /// The first version, then the first of each stable series that got it later.
    pub since: &'static [KernelVersion],
    /// Where it is seen in the kernel's sources.
    pub seen_in: &'static str,
    /// What holds.
    pub what: &'static str,
}

const fn row(
    rule: Rule,
    since: &'static [KernelVersion],
    seen_in: &'static str,
    what: &'static str,
) -> RuleFacts {
    RuleFacts {
        rule,
        since,
        seen_in,
        what,
    }
}

/// 6.12
const fn v(major: u16, minor: u16) -> KernelVersion {
    KernelVersion::new(major, minor)
}

/// All rules, in the order of the variants of [`Rule`].
pub static RULES: [RuleFacts; 23] = [
    row(
        Rule::ZonesAreLocked,
        &[v(4, 16)],
        "dd_dispatch_request",
        "mq-deadline keeps the order of writes to a zoned disk",
    ),
    row(
        Rule::KyberByHistograms,
        &[v(4, 20)],
        "kyber_timer_fn",
        "kyber looks at latencies in histograms",
    ),
    row(
        Rule::BfqStableMerges,
        &[v(5, 13)],
        "bfq_do_or_sched_stable_merge",
        "bfq merges queues of processes that began together for good",
    ),
    row(
        Rule::DeadlinePriorities,
        &[v(5, 16)],
        "dd_dispatch_prio_aged_requests",
        "mq-deadline serves one I/O priority class after the other",
    ),
    row(
        Rule::BfqActuators,
        &[v(6, 3)],
        "bfq_find_bfqq_for_underused_actuator",
        "bfq knows of several actuators; a large request is not injected on flash that has anything",
    ),
    row(
        Rule::TicksAligned,
        &[v(6, 4)],
        "tick_init_jiffy_update",
        "ticks begin at whole multiples of their length on CLOCK_MONOTONIC",
    ),
    row(
        Rule::DeadlineByPosition,
        &[v(6, 5)],
        "deadline_next_request",
        "a batch of mq-deadline goes on by position, not with the request that was next",
    ),
    row(
        Rule::BioInPlug,
        &[v(6, 10)],
        "__submit_bio",
        "each bio is submitted in a plug: its process runs the queue, not a worker",
    ),
    row(
        Rule::ZonesOrderedBelow,
        &[v(6, 10)],
        "blk_zone_plug_bio",
        "the block layer keeps the order of writes to a zoned disk under any scheduler",
    ),
    row(
        Rule::DeadlineOldDepth,
        &[v(6, 12)],
        "dd_depth_updated",
        "a write to nr_requests sets mq-deadline's async_depth to the old nr_requests",
    ),
    row(
        Rule::PlugInOrder,
        &[v(6, 14)],
        "blk_add_rq_to_plug",
        "with none a plug is issued in order; it is let go early if its first request is long, not its last",
    ),
    row(
        Rule::PlugMergesOldest,
        &[v(6, 14)],
        "blk_attempt_plug_merge",
        "a bio merges with the first request of its process's plug only",
    ),
    row(
        Rule::PlugMergesNewest,
        &[v(6, 18)],
        "blk_attempt_plug_merge",
        "a bio merges with the last request of the plug again, as before 6.14",
    ),
    row(
        Rule::FreezeBesideZoneWrites,
        &[v(6, 16)],
        "blk_mq_freeze_queue",
        "a queue can be changed while writes to a zoned disk are under way: 6.10 to 6.15 may hang",
    ),
    row(
        Rule::StartTimeOfAccounting,
        &[v(6, 14)],
        "blk_account_io_start",
        "a request has a start time only with `queue/iostats` (left out: simulated disks count)",
    ),
    row(
        Rule::LimitInAll,
        &[v(6, 17), KernelVersion::stable(6, 12, 43)],
        "__map_depth_with_shallow",
        "a limit of tags holds for all words of the bitmap together, not for each",
    ),
    row(
        Rule::BfqDropsWaker,
        &[v(6, 14)],
        "bfq_split_bfqq",
        "a queue that is split loses a waker that no process has any more",
    ),
    row(
        Rule::LargerRequests,
        &[v(6, 18)],
        "blk_validate_limits",
        "a request has 4 MiB at the most by default, not 1280 KiB",
    ),
    row(
        Rule::DeadlineOneFifo,
        &[v(6, 18)],
        "dd_dispatch_request",
        "requests put back at the head go first whatever their class (left out: they wait before the scheduler)",
    ),
    row(
        Rule::DeadlineNewDepth,
        &[v(6, 18)],
        "dd_depth_updated",
        "a write to nr_requests sets mq-deadline's async_depth to the new nr_requests",
    ),
    row(
        Rule::KyberLimitsSyncWrites,
        &[v(7, 0), KernelVersion::stable(6, 18, 35)],
        "kyber_limit_depth",
        "kyber limits the tags of all but synchronous reads, not only of asynchronous requests",
    ),
    row(
        Rule::QueueAsyncDepth,
        &[v(7, 0)],
        "blk_mq_update_nr_requests",
        "`queue/async_depth` limits each scheduler; a write to nr_requests keeps its share",
    ),
    row(
        Rule::DeadlineWakesBatches,
        &[v(7, 0)],
        "dd_depth_updated",
        "processes that wait for a tag of mq-deadline are woken up to eight at a time",
    ),
];

impl Rule {
    /// Its row.
    #[inline]
    pub const fn facts(self) -> &'static RuleFacts {
        &RULES[self as usize]
    }

    /// A kernel of this version follows it.
    #[inline]
    pub fn holds(self, version: KernelVersion) -> bool {
        let [first, later @ ..] = self.facts().since else {
            return false;
        };
        let in_series =
            |&since: &KernelVersion| version.is_of_series(since) && version.is_since(since);
        version.is_since(*first) || later.iter().any(in_series)
    }

    /// The first version that follows it.
    pub const fn first(self) -> KernelVersion {
        self.facts().since[0]
    }
}

impl KernelVersion {
    /// Kernels of both versions follow the same rules.
    pub fn is_like(self, other: KernelVersion) -> bool {
        let alike = |row: &RuleFacts| row.rule.holds(self) == row.rule.holds(other);
        RULES.iter().all(alike)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_rules() {
        for (at, row) in RULES.iter().enumerate() {
            assert_eq!(row.rule as usize, at);
        }
    }

    #[test]
    fn a_stable_series_may_get_a_rule_before_the_next_series_has_it() {
        let holds = |rule: Rule, version: &str| rule.holds(KernelVersion::parse(version).unwrap());
        for (rule, version, expected) in [
            (Rule::KyberLimitsSyncWrites, "6.18.2", false),
            (Rule::KyberLimitsSyncWrites, "6.18.35-1-lts", true),
            (Rule::KyberLimitsSyncWrites, "6.19.10", false),
            (Rule::KyberLimitsSyncWrites, "7.0", true),
            (Rule::LimitInAll, "6.12.42", false),
            (Rule::LimitInAll, "6.12.43+deb13-amd64", true),
            (Rule::LimitInAll, "6.14.1", false),
            (Rule::PlugInOrder, "6.12.90", false),
            (Rule::PlugInOrder, "6.14", true),
        ] {
            assert_eq!(holds(rule, version), expected, "{rule:?} {version}");
        }
    }

    #[test]
    fn the_page_on_kernel_versions_has_the_table() {
        let since = |row: &RuleFacts| {
            let all: Vec<_> = row.since.iter().map(ToString::to_string).collect();
            all.join(", ")
        };
        let page = include_str!("../../../../results/kernel-versions.md");
        for row in &RULES {
            let line = format!("| {} | `{}` | {} |", since(row), row.seen_in, row.what);
            assert!(
                page.contains(&line),
                "results/kernel-versions.md lacks\n{line}"
            );
        }
    }
}
