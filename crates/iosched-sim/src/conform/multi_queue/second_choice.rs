//! What a second processor chooses while the first one's choice still waits for a tag.
//!
//! Each processor that runs the queue can hold one request aside. On a busy disk two often do: a process that
//! gets no tag for its next request runs the queue itself before it sleeps. Without X such a choice leaves no
//! line, and it may lie before the last issue. So where ours would choose, while one request waits, the one
//! that was issued after it, and would not do so any more after the next event, it was chosen before that
//! event. These are counted ([`Report::chosen_ahead`](super::super::Report::chosen_ahead)).

use crate::block_layer::multi_queue::Attachment;
use crate::request::RequestId;
use crate::trace::kernel::Action;
use crate::units::Time;

use super::Follower;

impl Follower<'_> {
    /// What this event tells; before it, perhaps, a choice that would not be made after it.
    pub(super) fn step_with_second_choice(&mut self, at: usize) {
        let now = at.checked_sub(1).map(|last| self.steps[last].time);
        let second = now.and_then(|now| Some((now, self.second_choice(now, at)?)));
        let Some((now, chosen)) = second else {
            return self.step(at);
        };
        let before = self.clone();
        self.step(at);
        let is_lost = self.queued.contains(&chosen) && !self.chooses(self.steps[at].time, chosen);
        if is_lost {
            *self = before;
            let ours = self.scheduler.dispatch(now, &self.requests, 0);
            self.agree(ours.expect("it was chosen now, too"));
            self.report.chosen_ahead += 1;
            self.step(at);
        }
    }

    /// What ours would choose at this time while another choice waits, if it was issued right after that.
    fn second_choice(&self, now: Time, next: usize) -> Option<RequestId> {
        let waiting = self.queue.dispatch.len();
        let is_possible = !self.replays
            && !self.with_decisions
            && self.depth.attachment == Attachment::TagOnly
            && (1..self.recording.processors()).contains(&waiting);
        if !(is_possible && self.scheduler.has_work(0)) {
            return None;
        }
        let issues = self.steps[next..].iter();
        let mut issues = issues.filter(|step| step.action == Action::Issued);
        let after = issues.find(|step| self.find(&self.queue.dispatch, step).is_none())?;
        let recorded = self.find(&self.queued, after)?;
        self.chooses(now, recorded).then_some(recorded)
    }

    /// Ours would choose this request now, or one like it.
    fn chooses(&self, now: Time, recorded: RequestId) -> bool {
        let mut ours = self.scheduler.duplicate();
        let chosen = ours.dispatch(now, &self.requests, 0);
        chosen.is_some_and(|chosen| self.is_alike(chosen, recorded))
    }
}
