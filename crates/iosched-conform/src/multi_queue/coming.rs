//! Which events of a recording come next: found once, before it is followed. A search from each event on would go to the
//! end of the recording wherever what it looks for never comes.

use std::collections::BTreeMap;

use iosched_facts::units::Sector;
use iosched_sim::request::ProcessId;
use iosched_sim::trace::kernel::Action;

use super::super::recording::Step;
use super::interrupts::INTERRUPTED;
use super::queue_runs::shows_dispatch;

/// A place in the recording; [`NONE`] is none.
type Place = u32;

const NONE: Place = Place::MAX;

fn found(place: Place) -> Option<usize> {
    (place != NONE).then_some(place as usize)
}

/// What comes next, by the place of an event.
#[derive(Debug)]
pub(super) struct Coming {
    /// What its process does after this event, and what it did before.
    after: Vec<Place>,
    before: Vec<Place>,
    /// The first issue from here on, and the first event that shows a dispatch.
    issue: Vec<Place>,
    shown: Vec<Place>,
    /// A choice follows so soon that this completion may have come in its midst.
    choice_is_soon: Vec<bool>,
    /// What each process does last.
    last: BTreeMap<ProcessId, Place>,
    /// Where requests were inserted that begin at a sector.
    inserts: Vec<(Sector, Place)>,
}

impl Coming {
    pub(super) fn of(steps: &[Step]) -> Coming {
        let count = steps.len();
        let mut coming = Coming {
            after: vec![NONE; count],
            before: vec![NONE; count],
            issue: vec![NONE; count + 1],
            shown: vec![NONE; count + 1],
            choice_is_soon: vec![false; count],
            last: BTreeMap::new(),
            inserts: Vec::new(),
        };
        let mut next_done = BTreeMap::new();
        for (at, step) in steps.iter().enumerate().rev() {
            let place = Place::try_from(at).expect("recordings are shorter");
            coming.after[at] = next_done.get(&step.process).copied().unwrap_or(NONE);
            if step.is_done_by(step.process) {
                next_done.insert(step.process, place);
                coming.last.entry(step.process).or_insert(place);
            }
            let or_later = |is_it: bool, later: Place| if is_it { place } else { later };
            coming.issue[at] = or_later(step.action == Action::Issued, coming.issue[at + 1]);
            coming.shown[at] = or_later(shows_dispatch(step), coming.shown[at + 1]);
            coming.choice_is_soon[at] = steps.get(at + 1).is_some_and(|next| {
                next.time.saturating_since(step.time) < INTERRUPTED
                    && match next.action {
                        Action::Completed => coming.choice_is_soon[at + 1],
                        action => action == Action::Dispatched,
                    }
            });
            if step.action == Action::Inserted {
                coming.inserts.push((step.start, place));
            }
        }
        coming.inserts.sort_unstable();
        let mut last_done = BTreeMap::new();
        for (at, step) in steps.iter().enumerate() {
            coming.before[at] = last_done.get(&step.process).copied().unwrap_or(NONE);
            if step.is_done_by(step.process) {
                last_done.insert(step.process, Place::try_from(at).unwrap_or(NONE));
            }
        }
        coming
    }

    /// What the process of this event does next.
    pub(super) fn of_process_after(&self, at: usize) -> Option<usize> {
        found(self.after[at])
    }

    /// What the process of this event did last.
    pub(super) fn of_process_before(&self, at: usize) -> Option<usize> {
        found(self.before[at])
    }

    /// The process does something from this event on.
    pub(super) fn is_active_from(&self, at: usize, process: ProcessId) -> bool {
        let last = self.last.get(&process).copied().and_then(found);
        last.is_some_and(|last| last >= at)
    }

    /// The issues from this event on.
    pub(super) fn issues_from(&self, at: usize) -> impl Iterator<Item = usize> {
        let first = found(self.issue[at]);
        std::iter::successors(first, |&issue| found(self.issue[issue + 1]))
    }

    /// The first event from this one on that may show what a run dispatched.
    pub(super) fn shown_from(&self, at: usize) -> Option<usize> {
        found(self.shown[at])
    }

    /// After this completion comes a choice, or first more completions, each soon after the one before.
    pub(super) fn shows_choice_soon(&self, at: usize) -> bool {
        self.choice_is_soon[at]
    }

    /// The first insert from this event on of a request that begins there.
    pub(super) fn insert_from(&self, at: usize, start: Sector) -> Option<usize> {
        let here = Place::try_from(at).ok()?;
        let place = self.inserts.partition_point(|&one| one < (start, here));
        let insert = self.inserts.get(place).filter(|one| one.0 == start)?;
        found(insert.1)
    }
}
