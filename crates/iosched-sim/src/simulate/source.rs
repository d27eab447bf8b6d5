//! What comes next in a process: drawn by chance as its job says, listed in a trace, or not up to it.

use super::drawn::Drawn;
use super::listed::Listed;
use crate::units::{Nanos, Time};
use crate::workload::replay::{Arrival, Replay};
use crate::workload::{Access, Job};

/// See the [module's page](self).
pub(super) enum Source {
    /// As the job says.
    Drawn(Box<Drawn>),
    /// The steps of a closed loop.
    Listed(Listed),
    /// Accesses arrive at their times ([`super::arrivals`]), until that is over.
    Arriving { over: bool },
    /// Nothing by itself: the flusher.
    Nothing,
}

impl Source {
    /// The process begins.
    pub(super) fn begin(&mut self, now: Time) {
        if let Source::Drawn(drawn) = self {
            drawn.begin(now);
        }
    }

    /// True if something may be to come.
    pub(super) fn has_more(&self) -> bool {
        match self {
            Source::Drawn(_) => true,
            Source::Listed(listed) => listed.has_more(),
            Source::Arriving { over } => !over,
            Source::Nothing => false,
        }
    }

    /// When the next access may be submitted, if nothing has to happen before.
    pub(super) fn due(&mut self, now: Time, job: &Job, in_flight: usize) -> Option<Time> {
        match self {
            Source::Drawn(drawn) => drawn.due(now, job, in_flight),
            Source::Listed(listed) => listed.due(now, in_flight),
            Source::Arriving { .. } | Source::Nothing => None,
        }
    }

    /// The next access.
    #[inline(always)]
    pub(super) fn next(&mut self, job: &Job) -> Access {
        match self {
            Source::Drawn(drawn) => drawn.next(job),
            Source::Listed(listed) => listed.take(),
            Source::Arriving { .. } | Source::Nothing => unreachable!("it has none by itself"),
        }
    }

    /// An access was answered, which the process notices then: how long it pauses before it goes on.
    /// Nothing if it does not go on for that.
    pub(super) fn answered(&mut self, noticed: Time, job: &Job, in_flight: usize) -> Option<Nanos> {
        match self {
            Source::Drawn(drawn) => Some(drawn.answered(noticed, job, in_flight)),
            Source::Listed(listed) => listed.answered(noticed, in_flight),
            Source::Arriving { over } => (*over && in_flight == 0).then_some(Nanos::ZERO),
            Source::Nothing => None,
        }
    }
}

/// What the accesses of an open loop come from.
pub(super) type Timed = Option<Box<dyn Iterator<Item = Arrival> + Send>>;

/// The source of each process, and what arrives by itself.
pub(super) fn sources(jobs: &[Job], seed: u64, replay: Option<Replay>) -> (Vec<Source>, Timed) {
    match replay {
        None => {
            let drawn = |job| Source::Drawn(Box::new(Drawn::new(job, seed)));
            (jobs.iter().map(drawn).collect(), None)
        }
        Some(Replay::Open(arrivals)) => {
            let arriving = |_| Source::Arriving { over: false };
            (jobs.iter().map(arriving).collect(), Some(arrivals))
        }
        Some(Replay::Closed(lists)) => {
            assert_eq!(lists.len(), jobs.len(), "each process has its accesses");
            let listed = |steps| Source::Listed(Listed::new(steps));
            (lists.into_iter().map(listed).collect(), None)
        }
    }
}

/// The accesses of an open loop, in the order of time.
pub(super) struct Arrivals {
    source: Timed,
    pub(super) next: Option<Arrival>,
    /// For how long the clock stood still.
    pub(super) held_back: Nanos,
    pub(super) is_held: bool,
}

impl Arrivals {
    pub(super) fn new(mut source: Timed) -> Arrivals {
        Arrivals {
            next: source.as_mut().and_then(Iterator::next),
            source,
            held_back: Nanos::ZERO,
            is_held: false,
        }
    }

    pub(super) fn held_back(&self) -> Nanos {
        self.held_back
    }

    /// When the next one is made, and by which process.
    pub(super) fn due(&self) -> Option<(Time, usize)> {
        let next = self.next?;
        Some((Time::ZERO + next.time + self.held_back, next.process))
    }

    pub(super) fn take(&mut self) -> Arrival {
        let after = self.source.as_mut().and_then(Iterator::next);
        let next = std::mem::replace(&mut self.next, after);
        next.expect("one is due")
    }
}
