//! What following a recording of a kernel's scheduler asks of ours (`iosched-conform`).
//!
//! Each scheduler's part stands in a file `followed.rs` below its own: it dispatches what was recorded and takes over what
//! is told of its state, for which it needs the scheduler's private fields.

use iosched_facts::event::KyberEvent;

use super::{Elevator, Kernel, NamedValues, Values};
use crate::request::{RequestId, Requests};
use crate::units::{Nanos, Sector, Time};

/// Where the end of what went before a recording lies on its clock ([`Followed::carried_over`]): recordings
/// begin at 1000 s.
pub(super) const BEFORE: Time = Time::from_nanos(Nanos::from_secs(900).as_nanos());

/// What following a recording of a kernel's scheduler asks for besides (`iosched-conform`).
pub trait Followed: Elevator {
    /// Dispatches this request whatever the rules say: what a recording did in our place.
    fn dispatch_recorded(&mut self, now: Time, requests: &Requests, id: RequestId);

    /// Its timer fired, and a recording tells what the recorded one then said: that holds, whatever
    /// ours would say. Returns how many of the changes of depth ours would have made too.
    fn timer_recorded(&mut self, now: Time, requests: &Requests, _said: &[KyberEvent]) -> usize {
        self.timer(now, requests);
        0
    }

    /// A dispatch that gives nothing may change what it gives later: those are made too, although they
    /// leave no line.
    fn empty_dispatches_matter(&self) -> bool {
        true
    }

    /// What is called next happens under a lock that was taken at this time, when ticks are read: a
    /// recording tells of both moments.
    fn lock_taken(&mut self, _at: Time) {}

    /// A dispatch now would first end the slice of the queue in service: the kernel takes longer over
    /// that.
    fn ends_slice_first(&self, _now: Time, _requests: &Requests) -> bool {
        false
    }

    /// What of it stays when all its requests are done, for a later recording of the same device on
    /// another clock; `None` if nothing does.
    fn carried_over(&self, _kernel: &Kernel) -> Option<Box<dyn Followed>> {
        None
    }

    /// A part of its state is said to be different from what it has seen.
    fn begin_with(&mut self, _state: &Values) {}

    /// What it may have known before a recording of which nothing is told, each by itself, as initial values:
    /// the recorded one dispatched first what lay here.
    fn plausible_states(&self, _first: Sector) -> NamedValues {
        NamedValues::new()
    }

    /// A copy of it with everything that it knows.
    fn duplicate(&self) -> Box<dyn Followed>;
}

impl Clone for Box<dyn Followed> {
    fn clone(&self) -> Box<dyn Followed> {
        self.duplicate()
    }
}
