//! Following a recording of deadline.

use super::Deadline;
use crate::request::{RequestId, Requests};
use crate::scheduler::Followed;
use crate::units::Time;

impl Followed for Deadline {
    fn dispatch_recorded(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let _ = self.next_request(now); // what the choice changes, changes all the same
        self.dispatch_request(requests, id);
    }

    fn duplicate(&self) -> Box<dyn Followed> {
        Box::new(self.clone())
    }
}
