//! Following a recording of noop.

use super::Noop;
use crate::request::{RequestId, Requests};
use crate::scheduler::Followed;
use crate::units::Time;

impl Followed for Noop {
    fn dispatch_recorded(&mut self, _now: Time, _requests: &Requests, id: RequestId) {
        self.fifo.remove(&mut self.links, id);
    }

    fn duplicate(&self) -> Box<dyn Followed> {
        Box::new(self.clone())
    }
}
