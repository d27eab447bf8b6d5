//! nearest: the request that is nearest to where the disk was sent last, unless one has waited too long.
//!
//! The worked example of `docs/your-own-scheduler.md`: the command `iosched` with one scheduler more. Shortest seek first
//! is as old as disks (Denning, AFIPS 1967); what it lacks is a limit on waiting, and `expire` is that.

use std::process::ExitCode;

use iosched_facts::scheduler::{SchedulerFacts, TunableInfo};
use iosched_facts::units::{Sector, Time};
use iosched_sim::request::{Bio, RequestId, Requests};
use iosched_sim::scheduler::{Elevator, Followed, Kernel, SchedulerInfo, Values};

fn main() -> ExitCode {
    iosched_cli::run_with(&[INFO])
}

/// How it is listed, and how one is made.
const INFO: SchedulerInfo = SchedulerInfo {
    facts: &SchedulerFacts {
        name: "nearest",
        summary: "the nearest request next, the oldest once it has waited too long",
        tunables: &[TunableInfo::new("expire", "ms", 500, 0, 60_000)
            .what("a request that has waited so long goes before nearer ones")],
        ..SchedulerFacts::PLAIN
    },
    build: |tunables, kernel, _| Box::new(Nearest::new(tunables, kernel)),
    ..SchedulerInfo::PLAIN
};

/// A request that waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    id: RequestId,
    /// The tick from which on it has waited too long.
    expires: u64,
}

#[derive(Debug, Clone)]
struct Nearest {
    /// The oldest first.
    waiting: Vec<Waiting>,
    /// Behind the request that was dispatched last.
    head: Sector,
    kernel: Kernel,
    /// In ticks.
    expire: u64,
}

impl Nearest {
    fn new(tunables: &Values, kernel: &Kernel) -> Nearest {
        Nearest {
            waiting: Vec::new(),
            head: Sector::ZERO,
            kernel: *kernel,
            expire: kernel.millis_to_ticks(tunables.count("expire")),
        }
    }

    /// The rule: which request is next.
    fn choose(&self, now: Time, requests: &Requests) -> Option<RequestId> {
        let oldest = self.waiting.first()?;
        if self.kernel.tick(now) >= oldest.expires {
            return Some(oldest.id);
        }
        let seek = |waiting: &&Waiting| {
            let start = requests[waiting.id].start;
            (start.distance(self.head), start < self.head) // of two as near the one ahead
        };
        let nearest = self.waiting.iter().min_by_key(seek)?;
        Some(nearest.id)
    }

    /// Takes a request out.
    fn remove(&mut self, id: RequestId) -> Waiting {
        let place = self.waiting.iter().position(|waiting| waiting.id == id);
        self.waiting.remove(place.expect("the request waits"))
    }

    /// The request of which this is so.
    fn find(&self, is_it: impl Fn(RequestId) -> bool) -> Option<RequestId> {
        let mut ids = self.waiting.iter().map(|waiting| waiting.id);
        ids.find(|&id| is_it(id))
    }
}

impl Elevator for Nearest {
    fn info(&self) -> &'static SchedulerInfo {
        &INFO
    }

    fn insert(&mut self, now: Time, _requests: &Requests, id: RequestId) -> bool {
        let expires = self.kernel.tick(now) + self.expire;
        self.waiting.push(Waiting { id, expires });
        false
    }

    fn dispatch(&mut self, now: Time, requests: &Requests, _queue: usize) -> Option<RequestId> {
        let id = self.choose(now, requests)?;
        self.remove(id);
        self.head = requests[id].end();
        Some(id)
    }

    fn has_work(&self, _queue: usize) -> bool {
        !self.waiting.is_empty()
    }

    fn requests_merged(
        &mut self,
        _now: Time,
        _requests: &Requests,
        survivor: RequestId,
        victim: RequestId,
    ) {
        // What is left is as old as the older of the two.
        let mut of_both = self.waiting.iter_mut();
        let older = of_both.find(|waiting| [survivor, victim].contains(&waiting.id));
        older.expect("both wait").id = survivor;
        let younger = self
            .waiting
            .iter()
            .rposition(|waiting| [survivor, victim].contains(&waiting.id));
        self.waiting.remove(younger.expect("both wait"));
    }

    // What continues a request at its end is found by the block layer. What follows is for the rest.

    fn front_merge(&self, requests: &Requests, bio: &Bio) -> Option<RequestId> {
        self.find(|id| requests[id].start == bio.end() && requests[id].op == bio.op)
    }

    fn former(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        self.find(|other| requests[other].end() == requests[id].start)
    }

    fn latter(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        self.find(|other| requests[other].start == requests[id].end())
    }

    fn followed(self: Box<Self>) -> Option<Box<dyn Followed>> {
        Some(self)
    }
}

/// Only for `conform`.
impl Followed for Nearest {
    fn dispatch_recorded(&mut self, _now: Time, requests: &Requests, id: RequestId) {
        self.remove(id);
        self.head = requests[id].end();
    }

    fn empty_dispatches_matter(&self) -> bool {
        false
    }

    fn duplicate(&self) -> Box<dyn Followed> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use iosched_facts::event::{IoPriority, Op, ProcessId};
    use iosched_facts::units::{Nanos, Sectors};
    use iosched_sim::request::Request;
    use iosched_sim::scheduler::{self, SchedulerSpec};

    use super::*;

    /// A scheduler with its requests, which are named by where they start.
    struct Queue {
        scheduler: Box<dyn Elevator>,
        requests: Requests,
        now: Time,
    }

    impl Queue {
        fn new(scheduler: &str) -> Queue {
            static REGISTERED: std::sync::Once = std::sync::Once::new();
            REGISTERED.call_once(|| scheduler::register(&[INFO]));
            let spec = SchedulerSpec::parse(scheduler).unwrap();
            let kernel = spec.usual_kernel().unwrap();
            Queue {
                scheduler: scheduler::build(&spec, &kernel, &Vec::new()).unwrap(),
                requests: Requests::default(),
                now: Time::ZERO,
            }
        }

        /// Inserts reads of one sector.
        fn read(&mut self, starts: &[u64]) {
            for &start in starts {
                let bio = Bio {
                    op: Op::Read,
                    start: Sector::new(start),
                    length: Sectors::new(1),
                    sync: true,
                    sync_flag: true,
                    noidle: false,
                    prio: false,
                    fua: false,
                    process: ProcessId(1),
                    priority: IoPriority::default(),
                };
                let id = self.requests.add(Request::new(&bio, self.now));
                self.scheduler.insert(self.now, &self.requests, id);
            }
        }

        fn dispatch(&mut self) -> Option<u64> {
            let id = self.scheduler.dispatch(self.now, &self.requests, 0)?;
            Some(self.requests[id].start.as_u64())
        }

        /// The order in which all are dispatched.
        fn order(&mut self) -> Vec<u64> {
            std::iter::from_fn(|| self.dispatch()).collect()
        }
    }

    #[test]
    fn the_nearest_is_next_whichever_way_it_lies() {
        let mut queue = Queue::new("nearest");
        queue.read(&[400]);
        assert_eq!(queue.dispatch(), Some(400));
        queue.read(&[1000, 390, 300]);
        assert_eq!(queue.order(), [390, 300, 1000]);
    }

    #[test]
    fn of_two_as_near_the_one_ahead_is_next() {
        let mut queue = Queue::new("nearest");
        queue.read(&[49]);
        assert_eq!(queue.dispatch(), Some(49)); // it ends at 50
        queue.read(&[40, 60]);
        assert_eq!(queue.order(), [60, 40]);
    }

    #[test]
    fn what_waited_too_long_is_next_however_far_away_it_is() {
        let mut queue = Queue::new("nearest:expire=100");
        queue.read(&[9000]);
        queue.now += Nanos::from_millis(60);
        queue.read(&[10]);
        queue.now += Nanos::from_millis(60);
        assert_eq!(queue.order(), [9000, 10]);
    }
}
