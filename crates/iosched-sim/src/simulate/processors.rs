//! Processor time: what a request costs there, and the section that only one processor is in at a
//! time.
//!
//! Measured on Linux 6.3 with 4 KiB random reads through `io_uring` (ICPE 2024 artifact of Ren and
//! others, a 10-core machine without turbo): one core does 381 000 reads/s with none, 304 000 with
//! kyber, 310 000 with mq-deadline; ten cores and mq-deadline no more than 500 000, because its lock is
//! global.

use crate::units::{Nanos, Time};

/// What a request costs, from submission to completion.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// On its own processor.
    own: Nanos,
    /// Under the device's lock, on its own processor too.
    serial: Nanos,
}

impl Cost {
    fn of(scheduler: &str) -> Cost {
        let (own, serial) = match scheduler {
            "mq-deadline" => (1230, 2000),
            "kyber" => (3300, 0),
            _ => (2620, 0),
        };
        Cost {
            own: Nanos::new(own),
            serial: Nanos::new(serial),
        }
    }
}

/// Processors that serve requests one after the other.
#[derive(Debug)]
pub(super) struct Processors {
    cost: Cost,
    /// Until when each is busy.
    busy_until: Vec<Time>,
    /// Until when the lock is held.
    locked_until: Time,
}

impl Processors {
    pub(super) fn new(count: usize, scheduler: &str) -> Processors {
        Processors {
            cost: Cost::of(scheduler),
            busy_until: vec![Time::ZERO; count.max(1)],
            locked_until: Time::ZERO,
        }
    }

    /// The processor that a process runs on.
    pub(super) fn of(&self, process: usize) -> usize {
        process % self.busy_until.len()
    }

    /// A processor serves a request: when it is done.
    pub(super) fn serve(&mut self, now: Time, processor: usize) -> Time {
        let begins = self.busy_until[processor].max(now) + self.cost.own;
        let done = if self.cost.serial == Nanos::ZERO {
            begins
        } else {
            self.locked_until = begins.max(self.locked_until) + self.cost.serial;
            self.locked_until
        };
        self.busy_until[processor] = done;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests per second that so many processors serve together.
    fn rate(processors: usize, scheduler: &str) -> f64 {
        let mut all = Processors::new(processors, scheduler);
        let requests = 10_000 * processors;
        let done = (0..requests).map(|index| all.serve(Time::ZERO, index % processors));
        let last = done.max().unwrap();
        requests as f64 / (last - Time::ZERO).as_secs_f64()
    }

    #[test]
    fn a_global_lock_is_what_ten_processors_wait_for() {
        for (processors, scheduler, measured) in [
            (1, "none", 381_090.0),
            (1, "mq-deadline", 309_722.0),
            (1, "kyber", 303_981.0),
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
