//! Following a recording of mq-deadline.

use super::{Level, MqDeadline};
use crate::list::Links;
use crate::request::{RequestId, Requests};
use crate::request_table::ByRequest;
use crate::scheduler::data_dir::{READ, WRITE};
use crate::scheduler::{Followed, Kernel};
use crate::units::Time;

impl Followed for MqDeadline {
    fn dispatch_recorded(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let _ = self.next_request(now); // what the choice changes, changes all the same
        self.dispatch_request(requests, id);
    }

    fn carried_over(&self, kernel: &Kernel) -> Option<Box<dyn Followed>> {
        let emptied = |level: &Level| Level {
            directions: [READ, WRITE].map(|direction| level.directions[direction].emptied()),
            ..Level::default()
        };
        Some(Box::new(MqDeadline {
            kernel: *kernel,
            levels: [0, 1, 2].map(|level: usize| emptied(&self.levels[level])),
            links: Links::default(),
            request_data: ByRequest::default(),
            ..*self
        }))
    }

    fn duplicate(&self) -> Box<dyn Followed> {
        Box::new(self.clone())
    }
}
