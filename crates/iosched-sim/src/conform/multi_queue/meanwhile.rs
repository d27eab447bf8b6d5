//! What came while the recorded scheduler was choosing.
//!
//! An X is written when the choice is made. A completion just before it may have come in an interrupt
//! in the midst of the choice, and a tick may have begun since: neither counted then. So where ours
//! chooses otherwise, it is asked again as if that had not been yet. What is agreed on in this way is
//! counted ([`Report::interrupted`](super::super::Report::interrupted)).

use crate::request::RequestId;
use crate::scheduler::Scheduler;
use crate::trace::kernel::Action;
use crate::units::{Nanos, Time};

use super::Follower;

/// From when a completion came upon a choice until the choice's X: 17 µs in a recording of Linux 6.1,
/// of which the interrupt took most.
const INTERRUPTED: Nanos = Nanos::from_micros(25);

/// From a look at the clock until the X: 5 to 8 µs there.
const LATE: Nanos = Nanos::from_micros(10);

/// A completion that may have come in the midst of the choice that the next event shows.
pub(super) struct Interrupt {
    at: Time,
    /// The scheduler as it was.
    before: Box<dyn Scheduler>,
    /// What completed. It is kept until the choice is seen.
    completed: Option<RequestId>,
}

impl Follower<'_> {
    /// Keeps the scheduler as it is before the completion of this step, where it may be needed.
    pub(super) fn foresee_interrupt(&mut self, at: usize) {
        let now = self.recording.steps[at].time;
        let next = self.recording.steps.get(at + 1);
        let shows = next
            .is_some_and(|next| next.action == Action::Decided && next.time - now < INTERRUPTED);
        self.interrupt = shows.then(|| Interrupt {
            at: now,
            before: self.scheduler.duplicate(),
            completed: None,
        });
    }

    /// A request of the scheduler has completed.
    pub(super) fn leaves(&mut self, id: RequestId) {
        match &mut self.interrupt {
            Some(interrupt) => interrupt.completed = Some(id),
            None => {
                self.requests.remove(id);
            }
        }
    }

    /// The choice is seen: whatever came after it has come now.
    pub(super) fn forget_interrupt(&mut self) {
        if let Some(id) = self
            .interrupt
            .take()
            .and_then(|interrupt| interrupt.completed)
        {
            self.requests.remove(id);
        }
    }

    /// What ours chooses if the last completion, or the last tick, came after it had begun: if that is
    /// what was recorded, ours is now as it is after that. `before`: ours before it chose otherwise.
    pub(super) fn chooses_before(
        &mut self,
        now: Time,
        recorded: RequestId,
        before: &dyn Scheduler,
    ) -> Option<RequestId> {
        if let Some(interrupt) = &self.interrupt {
            let mut ours = interrupt.before.duplicate();
            let chosen = ours.dispatch(now, &self.requests);
            if let Some(chosen) = chosen.filter(|&chosen| self.is_alike(chosen, recorded)) {
                if let Some(id) = interrupt.completed {
                    ours.completed(interrupt.at, &self.requests, id);
                }
                self.scheduler = ours;
                return Some(chosen);
            }
        }
        let begun = now - LATE;
        if self.kernel.tick(begun) == self.kernel.tick(now) {
            return None;
        }
        let mut ours = before.duplicate();
        let chosen = ours.dispatch(begun, &self.requests);
        let chosen = chosen.filter(|&chosen| self.is_alike(chosen, recorded))?;
        self.scheduler = ours;
        Some(chosen)
    }
}
