//! Following a recording of none.

use super::{NoScheduler, Software};
use crate::request::{RequestId, Requests};
use crate::scheduler::Followed;
use crate::units::Time;

impl Followed for NoScheduler {
    fn dispatch_recorded(&mut self, _now: Time, requests: &Requests, id: RequestId) {
        let cpu = requests[id].cpu;
        let Software { lists, turn } = &mut self.queues[self.hardware.of_cpu(cpu)];
        lists.remove(&mut self.links, requests, id);
        *turn = usize::from(cpu) + 1;
    }

    fn duplicate(&self) -> Box<dyn Followed> {
        Box::new(self.clone())
    }
}
