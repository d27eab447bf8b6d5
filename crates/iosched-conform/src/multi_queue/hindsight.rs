//! Choices of which only the issues after them tell: a recording without X does not show when one was made.
//!
//! Each processor that runs the queue takes one request and holds it until there is a tag. On a busy disk several
//! wait so: a process that gets no tag for its next request runs the queue itself before it sleeps, and one that is
//! interrupted on its way issues what it holds after what others chose later. Of bfq each choice decides on those after
//! it (the oldest request goes first once in a slot, an idle class once in a fifth of a second), so that one that is
//! taken to lie in the wrong place is never made up for.
//!
//! Ours chooses what was issued next as soon as it can (`seek_choice`). Where that leads to a disagreement, each moment
//! of shortly before is tried again: there ours chooses what it would, ahead of what waits, if that was issued soon after;
//! or it does not choose there yet. The way with the fewest disagreements up to some issues later is taken, if it
//! has fewer than the first. Choices ahead are counted ([`Report::chosen_ahead`](super::super::Report::chosen_ahead)).

use std::collections::VecDeque;

use iosched_sim::block_layer::Attachment;
use iosched_sim::request::RequestId;

use super::{Follower, Until};

/// Events before a disagreement at which ours may have had to choose otherwise.
const BACK: usize = 60;

/// Issues after a disagreement by which ways are compared.
const AHEAD: usize = 12;

/// Issues that come before the one of a request that was chosen ahead, besides those of the requests that waited then.
const SLOW_ISSUES: usize = 3;

/// So many disagreements in a row of which no way leads past: ours is not where the recorded one is, and what is tried costs
/// a hundred times what following does.
const LOST: u32 = 10;

/// What is otherwise in a way that is tried.
#[derive(Debug, Clone, Copy)]
enum Deviation {
    /// Ours chooses although others wait.
    ChooseAhead,
    /// Ours does not choose after this event, though it could.
    Hold,
}

/// The state before an event, and the place of that.
type Checkpoint<'a> = (usize, Follower<'a>);

impl<'a> Follower<'a> {
    /// Follows all that is recorded.
    pub(super) fn follow_steps(mut self) -> Self {
        let has_unseen_choices = self.has_unseen_choices();
        let mut past = VecDeque::new();
        let mut fruitless = 0;
        for at in 0..self.steps.len() {
            if self.until == Until::Disagreement && !self.report.first_disagreements.is_empty() {
                break;
            }
            if !has_unseen_choices || fruitless == LOST {
                self.step(at);
                continue;
            }
            if past.len() == BACK {
                past.pop_front();
            }
            past.push_back((at, self.clone()));
            let before = self.disagreements();
            self.step(at);
            if self.disagreements() > before {
                let better = self.in_hindsight(at, &mut past);
                fruitless = if better.is_some() { 0 } else { fruitless + 1 };
                self = better.unwrap_or(self);
            }
        }
        self
    }

    /// More than one processor chooses, and no line tells when.
    fn has_unseen_choices(&self) -> bool {
        !self.replays
            && !self.with_decisions
            && self.depth.attachment == Attachment::TagOnly
            && self.recording.processors() > 1
    }

    fn disagreements(&self) -> u64 {
        self.report.decisions - self.report.agreed
    }

    /// The state after this event, which ours disagreed with, by a better way to it; `past` is then of that.
    fn in_hindsight(&self, at: usize, past: &mut VecDeque<Checkpoint<'a>>) -> Option<Self> {
        let until = self.after_issues(at + 1);
        let mut best = None;
        let mut least = self.clone().disagreements_by(at + 1, until, u64::MAX);
        for (from, before) in past.iter().rev() {
            for deviation in [Deviation::ChooseAhead, Deviation::Hold] {
                let Some(other) = before.with(deviation, *from) else {
                    continue;
                };
                let disagreements = other.clone().disagreements_by(*from, until, least);
                if disagreements < least {
                    least = disagreements;
                    best = Some((*from, other));
                }
            }
        }
        let (from, mut best) = best?;
        past.retain(|&(place, _)| place < from);
        for place in from..=at {
            past.push_back((place, best.clone()));
            best.step(place);
        }
        Some(best)
    }

    /// The state before this event, with this otherwise.
    fn with(&self, deviation: Deviation, at: usize) -> Option<Self> {
        match deviation {
            Deviation::ChooseAhead => self.choosing_ahead(at),
            Deviation::Hold if self.holds_at == Some(at) => None,
            Deviation::Hold => Some(Follower {
                holds_at: Some(at),
                ..self.clone()
            }),
        }
    }

    /// Ours has chosen once more before this event, though others wait, if that was issued soon.
    fn choosing_ahead(&self, at: usize) -> Option<Self> {
        let waiting = self.queue.dispatch.len();
        if waiting > self.recording.processors() || !self.scheduler.has_work(0) {
            return None;
        }
        let now = self.steps[at.checked_sub(1)?].time;
        let mut other = self.clone();
        let chosen = other.scheduler.dispatch(now, &self.requests, 0)?;
        if !self.is_issued_soon(at, chosen, waiting + SLOW_ISSUES + 1) {
            return None;
        }
        other.agree(chosen);
        other.report.chosen_ahead += 1;
        Some(other)
    }

    /// One of the next issues, so many, is that of this request.
    pub(super) fn is_issued_soon(&self, next: usize, id: RequestId, issues: usize) -> bool {
        let request = &self.requests[id];
        let mut coming = self.coming.issues_from(next).take(issues);
        coming.any(|issue| {
            let step = &self.steps[issue];
            step.start == request.start && step.op == Some(request.op)
        })
    }

    /// How many disagreements there are by then; it stops at `most`.
    fn disagreements_by(mut self, from: usize, until: usize, most: u64) -> u64 {
        for at in from..until {
            self.step(at);
            if self.disagreements() >= most {
                break;
            }
        }
        self.disagreements()
    }

    /// The place by which some more requests were issued.
    fn after_issues(&self, from: usize) -> usize {
        let mut issues = self.coming.issues_from(from);
        issues
            .nth(AHEAD)
            .map_or(self.steps.len(), |place| place + 1)
    }
}
