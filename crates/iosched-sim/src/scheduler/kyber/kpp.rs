//! KPP, a fork of kyber: it puts seven requests of eight at the head of their list, and takes seven of eight from the
//! tail.
//!
//! Follows KPP of 2026-09-20. All the rest is kyber's, with the tag limit of Linux 7.0. Left out: requests that are
//! inserted at the head, which reach no scheduler here.

use super::super::cpu_lists::CpuLists;
use super::{INITIAL, Kyber, Lists};
use crate::list::{Links, List};
use crate::request::RequestId;
use crate::scheduler::{CpuCost, PhaseSearch, SchedulerInfo};
use crate::units::Nanos;
use iosched_facts::scheduler as facts;

/// How it is listed.
pub(crate) static INFO: SchedulerInfo = SchedulerInfo {
    facts: &facts::KPP,
    build: |tunables, kernel, initial| Box::new(Kyber::new(&INFO, tunables, kernel, initial)),
    initial: &INITIAL,
    phase_search: PhaseSearch::MostAgreed,
    // Not measured: kyber's.
    cpu_cost: CpuCost {
        own: Nanos::new(3300),
        serial: Nanos::ZERO,
    },
    ..SchedulerInfo::PLAIN
};

/// Of so many requests one goes the other way.
const PERIOD: u8 = 8;

/// CPU lists that a flush takes, and CPUs whose statistics the timer collects at a time.
const CPUS_AT_ONCE: usize = 8;

/// The counters of a domain in a hardware queue.
#[derive(Debug, Clone, Default)]
pub(super) struct Reversal {
    /// Requests inserted, by CPU.
    inserted: Vec<u8>,
    /// Requests dispatched.
    drained: u8,
    /// The CPU from which on the next flush looks.
    next_cpu: usize,
}

fn is_reversed(count: u8) -> bool {
    count % PERIOD != PERIOD - 1
}

impl Reversal {
    pub(super) fn flush(&mut self, links: &mut Links, waiting: &mut CpuLists, flushed: &mut List) {
        self.next_cpu = waiting.splice_some(links, flushed, self.next_cpu, CPUS_AT_ONCE);
    }
}

impl Lists {
    /// True if a request of this CPU goes to the head. Counts it.
    pub(super) fn reverses_insert(&mut self, cpu: u16) -> bool {
        let Some(reversal) = &mut self.reversal else {
            return false;
        };
        let (inserted, cpu) = (&mut reversal.inserted, usize::from(cpu));
        if cpu >= inserted.len() {
            inserted.resize(cpu + 1, 0);
        }
        let count = inserted[cpu];
        inserted[cpu] = count.wrapping_add(1);
        is_reversed(count)
    }

    /// True if the next request comes from the tail.
    pub(super) fn takes_last(&self) -> bool {
        let reversal = self.reversal.as_ref();
        reversal.is_some_and(|reversal| is_reversed(reversal.drained))
    }

    /// Takes a flushed request out.
    pub(super) fn drain(&mut self, links: &mut Links, id: RequestId) {
        self.flushed.remove(links, id);
        if let Some(reversal) = &mut self.reversal {
            reversal.drained = reversal.drained.wrapping_add(1);
        }
    }
}

impl Kyber {
    pub(super) fn is_kpp(&self) -> bool {
        self.info.facts.name == facts::KPP.name
    }

    /// The timer collects the statistics of some CPUs and evaluates them once it has those of all. True if it goes on
    /// with the next tick.
    pub(super) fn collects_more(&mut self) -> bool {
        self.collected += CPUS_AT_ONCE;
        let is_left = self.is_kpp() && self.collected < self.hardware.cpus();
        if !is_left {
            self.collected = 0;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture::Queue;
    use crate::request::{Op, PriorityClass};
    use crate::scheduler::HardwareQueues;
    use crate::units::Nanos;

    const BE: PriorityClass = PriorityClass::BestEffort;

    /// The order in which so many requests leave that came on one CPU and were flushed together.
    fn flushed_together(queue: &mut Queue, count: u64) -> Vec<u64> {
        for place in 1..=count {
            queue.insert(Op::Read, place, BE);
        }
        std::iter::from_fn(|| queue.dispatch()).collect()
    }

    #[test]
    fn two_reversals_cancel_but_for_each_eighth() {
        let order = |count| flushed_together(&mut Queue::new("kpp"), count);
        assert_eq!(order(7), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(order(8), [8, 1, 2, 3, 4, 5, 6, 7]);
        let sixteen = [16, 8, 1, 2, 3, 4, 5, 15, 6, 7, 9, 10, 11, 12, 13, 14];
        assert_eq!(order(16), sixteen);
    }

    #[test]
    fn the_counters_run_on() {
        let mut queue = Queue::new("kpp");
        let six: Vec<_> = (0..6)
            .flat_map(|_| flushed_together(&mut queue, 1))
            .collect();
        assert_eq!(six, [1; 6], "one at a time is kyber's order");
        // The second is the eighth that is inserted; the second that is dispatched is the eighth, too.
        assert_eq!(flushed_together(&mut queue, 2), [2, 1]);
    }

    #[test]
    fn a_flush_takes_eight_cpus_and_the_next_goes_on_behind_them() {
        let mut queue = Queue::new("kpp");
        for cpu in 0..10 {
            queue.cpu = cpu;
            queue.insert(Op::Read, u64::from(cpu), BE);
        }
        assert_eq!(queue.dispatch(), Some(7), "the last of the first eight");
        queue.cpu = 0;
        queue.insert(Op::Read, 100, BE);
        let rest: Vec<_> = std::iter::from_fn(|| queue.dispatch()).collect();
        // Seven come from the tail; the eighth from the head, of which only one is left. Then 8, 9 and CPU 0.
        assert_eq!(rest, [6, 5, 4, 3, 2, 1, 0, 100, 9, 8]);
    }

    #[test]
    fn the_timer_looks_at_eight_cpus_in_a_tick() {
        let next = |cpus| {
            let mut queue = Queue::new("kpp");
            queue.scheduler.attach(HardwareQueues::new(1, cpus));
            queue.insert(Op::Read, 1, BE);
            queue.dispatch().unwrap();
            queue.complete(1);
            let due = queue.scheduler.next_timer().unwrap();
            queue.scheduler.timer(due, &queue.requests);
            Some(queue.scheduler.next_timer()? - due)
        };
        assert_eq!(next(8), None);
        assert_eq!(next(9), Some(Nanos::from_millis(4)), "HZ 250");
    }

    #[test]
    fn all_but_reads_may_use_three_quarters_of_the_tags() {
        use crate::request::ProcessId;
        use crate::scheduler::TagLimit;
        let queue = Queue::new("kpp:kernel=7.1");
        let limit = |op| queue.scheduler.limit_depth(ProcessId(1), op, true, 256, 64);
        assert_eq!(limit(Op::Write), Some(TagLimit::InAll(192)));
        assert_eq!(limit(Op::Read), None);
    }
}
