//! What came while the recorded scheduler was choosing.
//!
//! An X is written when the choice is made. Completions just before it may have come in an interrupt
//! in the midst of the choice, and a tick may have begun since: none of it counted then. So where ours
//! chooses otherwise, it is asked again as if that had not been yet. What is agreed on in this way is
//! counted ([`Report::interrupted`](super::super::Report::interrupted)).

use iosched_facts::units::{Nanos, Time};
use iosched_sim::request::RequestId;
use iosched_sim::scheduler::Followed;

use super::Follower;

/// From a completion that came upon a choice until the next one, or the choice's X: 15 to 29 µs in
/// recordings of Linux 6.1 and 6.12, of which the interrupt takes most.
pub(super) const INTERRUPTED: Nanos = Nanos::from_micros(35);

/// From a look at the clock until the X: 5 to 8 µs there.
const LATE: Nanos = Nanos::from_micros(10);

/// Completions that may have come in the midst of the choice that the next event shows.
#[derive(Clone)]
pub(super) struct Interrupt {
    /// The scheduler as it was.
    before: Box<dyn Followed>,
    /// What completed, and when. It is kept until the choice is seen.
    completed: Vec<(Time, RequestId)>,
}

impl Follower<'_> {
    /// Keeps the scheduler as it is before the completion of this step, where it may be needed.
    pub(super) fn foresee_interrupt(&mut self, at: usize) {
        if !self.coming.shows_choice_soon(at) {
            self.forget_interrupt();
        } else if self.interrupt.is_none() {
            self.interrupt = Some(Interrupt {
                before: self.scheduler.duplicate(),
                completed: Vec::new(),
            });
        }
    }

    /// A request of the scheduler has completed.
    pub(super) fn leaves(&mut self, now: Time, id: RequestId) {
        match &mut self.interrupt {
            Some(interrupt) => interrupt.completed.push((now, id)),
            None => {
                self.requests.remove(id);
            }
        }
    }

    /// The choice is seen: whatever came after it has come now.
    pub(super) fn forget_interrupt(&mut self) {
        for (_, id) in self
            .interrupt
            .take()
            .into_iter()
            .flat_map(|it| it.completed)
        {
            self.requests.remove(id);
        }
    }

    /// What ours chooses if the last completions, or the last tick, came after it had begun: if that is
    /// what was recorded, ours is now as it is after that. `before`: ours before it chose otherwise.
    pub(super) fn chooses_before(
        &mut self,
        now: Time,
        recorded: RequestId,
        before: &dyn Followed,
    ) -> Option<RequestId> {
        if let Some(interrupt) = &self.interrupt {
            let mut ours = interrupt.before.duplicate();
            let chosen = ours.dispatch(now, &self.requests, 0);
            if let Some(chosen) = chosen.filter(|&chosen| self.is_alike(chosen, recorded)) {
                for &(at, id) in &interrupt.completed {
                    ours.completed(at, &self.requests, id);
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
        let chosen = ours.dispatch(begun, &self.requests, 0);
        let chosen = chosen.filter(|&chosen| self.is_alike(chosen, recorded))?;
        self.scheduler = ours;
        Some(chosen)
    }
}
