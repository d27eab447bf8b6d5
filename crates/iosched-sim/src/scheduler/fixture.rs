//! A scheduler with a few requests, for the tests of multi-queue schedulers.

use super::{Followed, Kernel, SchedulerSpec, build_followed};
use crate::request::{Bio, IoPriority, Op, PriorityClass, ProcessId, Request, RequestId, Requests};
use crate::units::{Nanos, Sector, Sectors, Time};

/// A read of one sector.
pub(super) fn bio(start: Sector) -> Bio {
    Bio {
        op: Op::Read,
        start,
        length: Sectors::new(1),
        sync: true,
        sync_flag: true,
        noidle: false,
        fua: false,
        prio: false,
        process: ProcessId(1),
        priority: IoPriority::default(),
    }
}

/// Requests are named by where they start.
pub(super) struct Queue {
    pub(super) scheduler: Box<dyn Followed>,
    pub(super) requests: Requests,
    pub(super) now: Time,
    /// Where the next requests come from.
    pub(super) cpu: u16,
    in_driver: Vec<RequestId>,
}

impl Queue {
    /// A scheduler in a kernel of 250 ticks per second.
    pub(super) fn new(scheduler: &str) -> Queue {
        let kernel = Kernel {
            hz: 250,
            ..Kernel::default()
        };
        let spec = SchedulerSpec::parse(scheduler).unwrap();
        Queue {
            scheduler: build_followed(&spec, &kernel, &Vec::new()).unwrap(),
            requests: Requests::default(),
            now: Time::ZERO,
            cpu: 0,
            in_driver: Vec::new(),
        }
    }

    pub(super) fn insert(&mut self, op: Op, start: u64, class: PriorityClass) {
        let bio = Bio {
            op,
            priority: IoPriority { class, level: 4 },
            ..bio(Sector::new(start))
        };
        let mut request = Request::new(&bio, self.now);
        request.cpu = self.cpu;
        let id = self.requests.add(request);
        self.scheduler.insert(self.now, &self.requests, id);
    }

    /// Where the request starts that is dispatched.
    pub(super) fn dispatch(&mut self) -> Option<u64> {
        let id = self.scheduler.dispatch(self.now, &self.requests, 0)?;
        self.scheduler.activate(self.now, &self.requests, id);
        self.in_driver.push(id);
        Some(self.requests[id].start.as_u64())
    }

    pub(super) fn complete(&mut self, start: u64) {
        let is_it = |id: &RequestId| self.requests[*id].start.as_u64() == start;
        let place = self.in_driver.iter().position(is_it).unwrap();
        let id = self.in_driver.remove(place);
        self.scheduler.completed(self.now, &self.requests, id);
        self.requests.remove(id);
    }

    /// Time goes by, and timers go off.
    pub(super) fn pass(&mut self, time: Nanos) {
        let until = self.now + time;
        while let Some(timer) = self.scheduler.next_timer().filter(|&timer| timer <= until) {
            self.scheduler.timer(timer, &self.requests);
        }
        self.now = until;
    }
}
