//! A bio that becomes part of a request, as both block layers do it.

use super::access::AccessId;
use super::host::Host;
use crate::block_layer::{Merger, RequestsMerged};
use crate::request::{Bio, Merge, RequestId};
use crate::scheduler::Scheduler;
use crate::trace::kernel::Action;
use crate::units::Time;

/// The bio becomes part of a request that its process holds back, if one takes it.
pub(super) fn merge_in_plug(
    merger: &Merger,
    host: &mut Host<'_>,
    now: Time,
    plug: &[RequestId],
    bio: &Bio,
    access: AccessId,
) -> bool {
    let found = merger.find_plugged(&mut host.requests, plug, bio);
    if let Some(merge) = found {
        Merger::grow(&mut host.requests, merge, bio);
        merged(host, now, merge, bio, access);
    }
    found.is_some()
}

/// What came of a bio that looked for a request in the scheduler.
pub(super) enum Found {
    /// None takes it.
    Nothing,
    Merged,
    /// It is part of one, which thereby met its neighbour.
    Closed(RequestsMerged),
}

/// Looks for a request in the scheduler that takes the bio.
#[inline(always)]
pub(super) fn merge_in_scheduler(
    merger: &mut Merger,
    scheduler: &mut dyn Scheduler,
    host: &mut Host<'_>,
    now: Time,
    (bio, cpu): (&Bio, u16),
    access: AccessId,
) -> Found {
    let Some(merge) = merger.find(&host.requests, scheduler, bio, cpu) else {
        return Found::Nothing;
    };
    if !merger.fits(&mut host.requests, merge.request(), bio) {
        return Found::Nothing;
    }
    let closed = merger.merge(now, &mut host.requests, scheduler, merge, bio);
    merged(host, now, merge, bio, access);
    closed.map_or(Found::Merged, Found::Closed)
}

fn merged(host: &mut Host<'_>, now: Time, merge: Merge, bio: &Bio, access: AccessId) {
    let action = if merge.is_back() {
        Action::BackMerged
    } else {
        Action::FrontMerged
    };
    host.tell_bio(now, action, bio);
    host.accesses.join(now, merge.request(), access);
}
