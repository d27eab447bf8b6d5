//! The accesses of a process in a closed loop, as they were recorded.

use crate::units::{Nanos, Time};
use crate::workload::Access;
use crate::workload::replay::Step;

pub(super) struct Replayed {
    steps: Box<dyn Iterator<Item = Step> + Send>,
    next: Option<Step>,
    /// Since when no more accesses are in flight than may be beside the next one.
    ready: Option<Time>,
}

impl Replayed {
    pub(super) fn new(mut steps: Box<dyn Iterator<Item = Step> + Send>) -> Replayed {
        Replayed {
            next: steps.next(),
            steps,
            ready: None,
        }
    }

    /// True if another one is to come.
    pub(super) fn has_more(&self) -> bool {
        self.next.is_some()
    }

    /// When the next access is due, if nothing has to happen before.
    #[inline(never)]
    pub(super) fn due(&mut self, now: Time, in_flight: usize) -> Option<Time> {
        let next = self.next.filter(|next| in_flight <= next.beside)?;
        Some(*self.ready.get_or_insert(now) + next.think)
    }

    /// An access was answered, which the process notices then: how long it pauses before it goes
    /// on. Nothing if that changes nothing for it.
    #[inline(never)]
    pub(super) fn answered(&mut self, noticed: Time, in_flight: usize) -> Option<Nanos> {
        let Some(next) = self.next else {
            return (in_flight == 0).then_some(Nanos::ZERO);
        };
        if in_flight > next.beside || self.ready.is_some() {
            return None;
        }
        self.ready = Some(noticed);
        Some(next.think)
    }

    /// The access that is due.
    #[inline(never)]
    pub(super) fn take(&mut self) -> Access {
        let step = std::mem::replace(&mut self.next, self.steps.next());
        self.ready = None;
        step.expect("it is due").access
    }
}
