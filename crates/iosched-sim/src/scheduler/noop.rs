//! noop: first come, first served, with merging.
//!
//! Follows `block/noop-iosched.c` (Linux 4.19). The kernel sorts lightly against requests that still
//! stand in the dispatch list; as that list takes the next request only when it is empty, there is
//! nothing to sort against, and it is left out.

mod followed;

use iosched_facts::scheduler as facts;

use super::{Elevator, Followed, SchedulerInfo};
use crate::list::{Links, List};
use crate::request::{RequestId, Requests};
use crate::units::Time;

/// How it is listed.
pub(crate) static INFO: SchedulerInfo = SchedulerInfo {
    facts: &facts::NOOP,
    build: |_, _, _| Box::new(Noop::default()),
    ..SchedulerInfo::PLAIN
};

#[derive(Debug, Clone, Default)]
pub(crate) struct Noop {
    fifo: List,
    links: Links,
}

impl Elevator for Noop {
    fn info(&self) -> &'static SchedulerInfo {
        &INFO
    }

    fn insert(&mut self, _now: Time, _requests: &Requests, id: RequestId) -> bool {
        self.fifo.push_back(&mut self.links, id);
        false
    }

    fn dispatch(&mut self, _now: Time, _requests: &Requests, _queue: usize) -> Option<RequestId> {
        let id = self.fifo.first()?;
        self.fifo.remove(&mut self.links, id);
        Some(id)
    }

    fn former(&self, _requests: &Requests, id: RequestId) -> Option<RequestId> {
        self.links.previous(id)
    }

    fn latter(&self, _requests: &Requests, id: RequestId) -> Option<RequestId> {
        self.links.next(id)
    }

    fn requests_merged(
        &mut self,
        _now: Time,
        _requests: &Requests,
        _survivor: RequestId,
        victim: RequestId,
    ) {
        self.fifo.remove(&mut self.links, victim);
    }

    fn has_work(&self, _queue: usize) -> bool {
        self.fifo.first().is_some()
    }

    fn followed(self: Box<Self>) -> Option<Box<dyn Followed>> {
        Some(self)
    }
}
