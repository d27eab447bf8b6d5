//! What comes next in a process: drawn by chance as its job says, or listed.

use super::drawn::Drawn;
use crate::units::{Nanos, Time};
use crate::workload::{Access, Job};

/// See the [module's page](self).
pub(super) enum Source {
    /// As the job says.
    Drawn(Box<Drawn>),
    /// The accesses of the job's list, as many of them as were taken.
    Listed(usize),
    /// Nothing by itself: the flusher.
    Nothing,
}

impl Source {
    pub(super) fn new(job: &Job, seed: u64) -> Source {
        match job.listed {
            Some(_) => Source::Listed(0),
            None => Source::Drawn(Box::new(Drawn::new(job, seed))),
        }
    }

    /// The process begins.
    pub(super) fn begin(&mut self, now: Time) {
        if let Source::Drawn(drawn) = self {
            drawn.begin(now);
        }
    }

    /// True if the list, if there is one, is not at its end.
    pub(super) fn has_more(&self, job: &Job) -> bool {
        match self {
            Source::Drawn(_) => true,
            Source::Listed(taken) => listed(job, *taken).is_some(),
            Source::Nothing => false,
        }
    }

    /// When the next access may be submitted, if nothing has to happen before.
    pub(super) fn due(&mut self, now: Time, job: &Job, in_flight: usize) -> Option<Time> {
        match self {
            Source::Drawn(drawn) => drawn.due(now, job, in_flight),
            Source::Listed(_) => (in_flight < job.depth).then_some(now),
            Source::Nothing => None,
        }
    }

    /// The next access.
    pub(super) fn next(&mut self, job: &Job) -> Access {
        match self {
            Source::Drawn(drawn) => drawn.next(job),
            Source::Listed(taken) => {
                *taken += 1;
                *listed(job, *taken - 1).expect("it has more")
            }
            Source::Nothing => unreachable!("it has no more"),
        }
    }

    /// An access was answered, which the process notices then: how long it pauses before it goes on.
    pub(super) fn answered(&mut self, noticed: Time, job: &Job, in_flight: usize) -> Nanos {
        match self {
            Source::Drawn(drawn) => drawn.answered(noticed, job, in_flight),
            Source::Listed(taken) if in_flight == 0 => {
                listed(job, *taken).map_or(Nanos::ZERO, |access| access.think)
            }
            Source::Listed(_) | Source::Nothing => Nanos::ZERO,
        }
    }
}

fn listed(job: &Job, place: usize) -> Option<&Access> {
    job.listed.as_ref().and_then(|listed| listed.get(place))
}
