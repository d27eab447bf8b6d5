//! A bio that joins a request, as both block layers do it.

use super::access::AccessId;
use super::host::Host;
use crate::elevator::{Absorbed, Merge, Merger};
use crate::request::Bio;
use crate::scheduler::Scheduler;
use crate::trace::kernel::Action;
use crate::units::Time;

/// The request grows; no scheduler minds.
pub(super) fn grow(host: &mut Host<'_>, now: Time, merge: Merge, bio: &Bio, access: AccessId) {
    let (Merge::Back(id) | Merge::Front(id)) = merge;
    host.requests[id].length += bio.length;
    if let Merge::Front(_) = merge {
        host.requests[id].start = bio.start;
    }
    joined(host, now, merge, bio, access);
}

/// What came of a bio that looked for a request in the scheduler.
pub(super) enum Found {
    /// None takes it.
    Nothing,
    /// It has joined one.
    Joined,
    /// It has joined one, which thereby met its neighbour.
    Closed(Absorbed),
}

/// Looks for a request in the scheduler that takes the bio.
#[inline(always)]
pub(super) fn merge_in_scheduler(
    merger: &mut Merger,
    scheduler: &mut dyn Scheduler,
    host: &mut Host<'_>,
    now: Time,
    bio: &Bio,
    access: AccessId,
) -> Found {
    let found = merger.find(&host.requests, scheduler, bio);
    let Some(merge @ (Merge::Back(id) | Merge::Front(id))) = found else {
        return Found::Nothing;
    };
    if !merger.fits(&mut host.requests, id, bio) {
        return Found::Nothing;
    }
    let absorbed = merger.merge(now, &mut host.requests, scheduler, merge, bio);
    joined(host, now, merge, bio, access);
    absorbed.map_or(Found::Joined, Found::Closed)
}

fn joined(host: &mut Host<'_>, now: Time, merge: Merge, bio: &Bio, access: AccessId) {
    let (action, id) = match merge {
        Merge::Back(id) => (Action::BackMerged, id),
        Merge::Front(id) => (Action::FrontMerged, id),
    };
    host.tell_bio(now, action, bio);
    host.accesses.join(now, id, access);
}
