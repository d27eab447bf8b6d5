//! Following a recording of ADIOS.

use super::model::Model;
use super::{Adios, READ, WRITE};
use crate::request::{RequestId, Requests};
use crate::scheduler::followed::BEFORE;
use crate::scheduler::{Followed, Kernel, Values};
use crate::units::Time;

impl Followed for Adios {
    fn dispatch_recorded(&mut self, _now: Time, requests: &Requests, id: RequestId) {
        let _ = self.next_request(requests); // what the choice changes, changes all the same
        self.take(requests, id);
    }

    /// All that was learnt stays. Where both recordings tell the kernel's clock, times do, too.
    fn carried_over(&self, kernel: &Kernel) -> Option<Box<dyn Followed>> {
        let is_known = kernel.monotonic_zero != self.kernel.monotonic_zero;
        let moved = |time: Time| {
            let since = self
                .kernel
                .monotonic(time)
                .wrapping_sub(kernel.monotonic_zero);
            let since = u64::try_from(since.cast_signed()).unwrap_or(0);
            Some(Time::from_nanos(since)).filter(|_| is_known)
        };
        let mut models = self.models.clone();
        for model in &mut models.of {
            let updated = moved(self.kernel.tick_begins(model.updated)).unwrap_or(BEFORE);
            model.updated = kernel.tick(updated);
        }
        Some(Box::new(Adios {
            due: self.due.map(|due| moved(due).unwrap_or(BEFORE)),
            bias: self.bias,
            is_stable: self.is_stable,
            last_position: self.last_position,
            head: self.head,
            ..Adios::with(kernel, self.tunables, models)
        }))
    }

    fn begin_with(&mut self, state: &Values) {
        for (kind, base, slope) in [
            (READ, "read_base", "read_slope"),
            (WRITE, "write_base", "write_slope"),
        ] {
            if state.given(base).is_some() || state.given(slope).is_some() {
                let updated = self.models.of[kind].updated;
                self.models.of[kind] = Model::given(state.count(base), state.count(slope), updated);
            }
        }
        self.bias = state.given("bias").unwrap_or(self.bias);
        self.is_stable |= [READ, WRITE]
            .iter()
            .all(|&kind| self.models.of[kind].base > 0);
    }

    fn duplicate(&self) -> Box<dyn Followed> {
        Box::new(self.clone())
    }
}
