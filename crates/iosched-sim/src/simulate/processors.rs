//! Processors that requests cost time ([`CpuCost`]), and the section that only one of them is in at a
//! time.

use std::collections::VecDeque;

use crate::scheduler::CpuCost;
use crate::units::{Nanos, Time};

/// What a processor is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Nothing: it has no request.
    Idle,
    /// The part that is its own.
    Own,
    /// Waiting for the lock.
    Waiting,
    /// The part under the lock.
    Serial,
}

/// A processor, with the requests whose completion it is to deal with.
#[derive(Debug, Clone)]
struct Processor {
    step: Step,
    /// Their tags, the one that it is at first.
    requests: VecDeque<u64>,
}

/// Processors that deal with requests one after the other.
///
/// A processor that has something to do is through with its step at a time that is told when the
/// step begins; then [`Processors::step_ends`] is to be called.
#[derive(Debug)]
pub(super) struct Processors {
    cost: CpuCost,
    all: Vec<Processor>,
    /// Someone has the lock.
    locked: bool,
    /// Those that wait for it, the first first.
    waiting: VecDeque<usize>,
}

/// When a processor will be through with its step.
pub(super) type StepEnd = (Time, usize);

impl Processors {
    pub(super) fn new(count: usize, cost: CpuCost) -> Processors {
        let idle = Processor {
            step: Step::Idle,
            requests: VecDeque::new(),
        };
        Processors {
            cost,
            all: vec![idle; count.max(1)],
            locked: false,
            waiting: VecDeque::new(),
        }
    }

    /// A request is to be dealt with. Says when the processor is through with its first step, if it
    /// begins now.
    pub(super) fn give(&mut self, now: Time, processor: usize, tag: u64) -> Option<StepEnd> {
        let own = self.cost.own;
        let it = &mut self.all[processor];
        it.requests.push_back(tag);
        (it.step == Step::Idle).then(|| {
            it.step = Step::Own;
            (now + own, processor)
        })
    }

    /// A processor is through with its step: the request that it has thereby dealt with, if any, and
    /// the steps that begin now.
    pub(super) fn step_ends(
        &mut self,
        now: Time,
        processor: usize,
        mut begins: impl FnMut(StepEnd),
    ) -> Option<u64> {
        let serial = self.cost.serial;
        if self.all[processor].step == Step::Own && serial > Nanos::ZERO {
            if self.locked {
                self.all[processor].step = Step::Waiting;
                self.waiting.push_back(processor);
            } else {
                self.locked = true;
                self.all[processor].step = Step::Serial;
                begins((now + serial, processor));
            }
            return None;
        }
        if self.all[processor].step == Step::Serial {
            let next = self.waiting.pop_front();
            self.locked = next.is_some();
            if let Some(next) = next {
                self.all[next].step = Step::Serial;
                begins((now + serial, next));
            }
        }
        let it = &mut self.all[processor];
        let done = it.requests.pop_front();
        it.step = if it.requests.is_empty() {
            Step::Idle
        } else {
            begins((now + self.cost.own, processor));
            Step::Own
        };
        done
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;
    use crate::scheduler;

    /// Requests per second that so many processors serve together, when they always have some.
    fn rate(processors: usize, scheduler: &str) -> f64 {
        let cost = scheduler::info(scheduler).unwrap().cpu_cost;
        let mut all = Processors::new(processors, cost);
        let requests = 10_000 * processors as u64;
        let mut ends = BinaryHeap::new();
        for (tag, processor) in (0..requests).zip((0..processors).cycle()) {
            ends.extend(all.give(Time::ZERO, processor, tag).map(Reverse));
        }
        let (mut last, mut done) = (Time::ZERO, 0);
        while let Some(Reverse((now, processor))) = ends.pop() {
            let dealt_with = all.step_ends(now, processor, |end| ends.push(Reverse(end)));
            done += u64::from(dealt_with.is_some());
            last = now;
        }
        assert_eq!(done, requests);
        requests as f64 / (last - Time::ZERO).as_secs_f64()
    }

    #[test]
    fn a_global_lock_is_what_ten_processors_wait_for() {
        for (processors, scheduler, measured) in [
            (1, "none", 381_090.0),
            (1, "mq-deadline", 309_722.0),
            (1, "kyber", 303_981.0),
            (1, "bfq", 238_000.0),
            (10, "bfq", 293_000.0),
            (2, "mq-deadline", 505_052.0),
            (10, "mq-deadline", 470_106.0),
        ] {
            let ratio = rate(processors, scheduler) / measured;
            assert!(
                (0.85..1.15).contains(&ratio),
                "{processors} {scheduler}: {ratio}"
            );
        }
        assert!(rate(10, "kyber") > 2e6, "no lock");
    }
}
