//! Merging: of bios into requests, and of requests with each other.
//!
//! Follows `block/blk-core.c`, `blk-merge.c` and `elevator.c` (Linux 4.19), and for lists by CPU
//! `blk-mq-sched.c` (Linux 6.12). Where a bio looks, in order: the requests that its process holds back
//! in a plug; the request that was last merged or inserted; the end of any request in the scheduler
//! (back merge); the scheduler's own order (front merge). A request that grew may become contiguous with
//! its neighbour; one that leaves a plug may itself merge into another. With schedulers that keep a list
//! for each CPU, a bio merges with a request in such a list and nowhere else. Left out: limits
//! other than the size (segments, chunk boundaries), integrity data, discards of several ranges.

use super::merge_hash::MergeHash;
use crate::request::{Bio, Merge, Op, Request, RequestId, Requests};
use crate::scheduler::{Elevator, Kernel, Rule};
use crate::units::{Bytes, Sector, Sectors, Time};

/// How far merging goes (`queue/nomerges`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Merging {
    /// All partners are looked for.
    #[default]
    Full,
    /// None among the requests that stand in the scheduler. A plug's and those in lists by CPU take bios all the same.
    Off,
}

/// Limits of a queue that bound merging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeLimits {
    /// Longest request (`max_sectors_kb`).
    pub max_sectors: Sectors,
    /// How far merging goes.
    pub merging: Merging,
}

impl MergeLimits {
    /// The longest request of most disks (`BLK_DEF_MAX_SECTORS`).
    pub const USUAL_MAX: Bytes = Bytes::from_kib(1280);

    /// The same of disks that do not say otherwise, on this kernel.
    pub fn usual_max(kernel: &Kernel) -> Bytes {
        if kernel.follows(Rule::LargerRequests) {
            Bytes::from_kib(4096)
        } else {
            MergeLimits::USUAL_MAX
        }
    }

    /// For following what merged within limits that are not known.
    pub const UNKNOWN: MergeLimits = MergeLimits {
        max_sectors: Sectors::new(u64::MAX),
        merging: Merging::Full,
    };
}

impl Default for MergeLimits {
    fn default() -> MergeLimits {
        MergeLimits {
            max_sectors: MergeLimits::USUAL_MAX.to_sectors(),
            merging: Merging::Full,
        }
    }
}

/// Two requests that became one: the victim no longer exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestsMerged {
    /// Holds everything now.
    pub survivor: RequestId,
    /// The request that is no more.
    pub victim: RequestId,
    /// The victim, as it was.
    pub was: Request,
}

/// Merging of one queue: knows the requests that stand in the scheduler.
#[derive(Debug, Clone)]
pub struct Merger {
    limits: MergeLimits,
    /// The scheduler finds partners in its lists, and the rest of this is not used.
    in_lists: bool,
    /// Requests in the scheduler.
    by_end: MergeHash,
    /// The request last merged or inserted: it is in the scheduler (`last_merge`).
    last: Option<RequestId>,
    /// Where that begins.
    last_start: Sector,
    /// The scheduler is asked about that even where a bio does not touch it.
    last_is_judged: bool,
}

/// No bio ends there.
const NOWHERE: Sector = Sector::new(u64::MAX);

/// True if the two lie on the same side of every line that merging does not cross.
fn alike(request: &Request, bio: &Bio) -> bool {
    request.op == bio.op && !request.unmergeable
}

/// True if the bio may become part of the request.
fn may_merge(
    now: Time,
    requests: &Requests,
    scheduler: &mut dyn Elevator,
    id: RequestId,
    bio: &Bio,
) -> bool {
    alike(&requests[id], bio) && scheduler.allow_merge(now, requests, id, bio)
}

impl Merger {
    /// Merging within these limits, as this scheduler wants it.
    pub fn new(limits: MergeLimits, scheduler: &dyn Elevator) -> Merger {
        Merger {
            limits,
            in_lists: scheduler.merges_in_lists(),
            by_end: MergeHash::default(),
            last: None,
            last_start: NOWHERE,
            last_is_judged: scheduler.judges_every_bio(),
        }
    }

    // ---- where a bio goes ----------------------------------------------------------------

    /// Where this bio goes among the requests that its process holds back, newest first. One that it
    /// touches and that has no room takes no more from now on.
    pub fn find_plugged(
        &self,
        requests: &mut Requests,
        plug: &[RequestId],
        bio: &Bio,
    ) -> Option<Merge> {
        for &id in plug.iter().rev() {
            let request = &mut requests[id];
            let back = request.end() == bio.start;
            if !alike(request, bio) || !(back || bio.end() == request.start) {
                continue;
            }
            if request.length + bio.length <= self.limits.max_sectors {
                return Some(if back {
                    Merge::Back(id)
                } else {
                    Merge::Front(id)
                });
            }
            request.unmergeable = true;
        }
        None
    }

    /// Where this bio, submitted on this CPU, goes among the requests in the scheduler.
    #[inline]
    pub fn find(
        &self,
        now: Time,
        requests: &Requests,
        scheduler: &mut dyn Elevator,
        bio: &Bio,
        cpu: u16,
    ) -> Option<Merge> {
        if self.in_lists {
            return scheduler.list_partner(requests, bio, cpu);
        }
        if self.limits.merging == Merging::Off {
            return None;
        }
        // Hardly any bio of a random load touches a request, and whether one was last is chance.
        let touches = self.by_end.has(bio.start) || bio.end() == self.last_start;
        if (touches || self.last_is_judged)
            && let Some(merge) = self.find_touching(now, requests, scheduler, bio)
        {
            return Some(merge);
        }
        scheduler
            .front_merge(requests, bio)
            .filter(|&front| may_merge(now, requests, scheduler, front, bio))
            .map(Merge::Front)
    }

    /// The same without what only the scheduler knows.
    fn find_touching(
        &self,
        now: Time,
        requests: &Requests,
        scheduler: &mut dyn Elevator,
        bio: &Bio,
    ) -> Option<Merge> {
        let mut allowed = |id: RequestId| may_merge(now, requests, scheduler, id, bio);
        if let Some(last) = self.last.filter(|&last| allowed(last)) {
            if requests[last].end() == bio.start {
                return Some(Merge::Back(last));
            }
            if bio.end() == requests[last].start {
                return Some(Merge::Front(last));
            }
        }
        let back = self.ending_at(requests, bio.start);
        back.filter(|&back| allowed(back)).map(Merge::Back)
    }

    /// The request with this end that came here last and takes more.
    fn ending_at(&self, requests: &Requests, end: Sector) -> Option<RequestId> {
        self.by_end.at(end).find(|&id| !requests[id].unmergeable)
    }

    /// True if the request that the bio touches takes it; without room for it, it takes no more from now on.
    pub fn admit(&mut self, requests: &mut Requests, id: RequestId, bio: &Bio) -> bool {
        let fits = requests[id].length + bio.length <= self.limits.max_sectors;
        if !fits {
            self.mark_full(requests, id);
        }
        fits
    }

    /// The request takes no more.
    pub fn mark_full(&mut self, requests: &mut Requests, id: RequestId) {
        requests[id].unmergeable = true;
        self.forget_last_if(self.last == Some(id));
    }

    // ---- merging a bio -------------------------------------------------------------------

    /// The bio becomes part of a request, wherever that stands.
    pub fn grow(requests: &mut Requests, merge: Merge, bio: &Bio) {
        let request = &mut requests[merge.request()];
        request.length += bio.length;
        request.priority = request.priority.min(bio.priority);
        if !merge.is_back() {
            request.start = bio.start;
        }
    }

    /// The bio, submitted on this CPU, becomes part of a request in its process's plug or in the
    /// scheduler, if one takes it; and that request perhaps one with its neighbour.
    #[inline(always)]
    pub fn merge(
        &mut self,
        now: Time,
        requests: &mut Requests,
        scheduler: &mut dyn Elevator,
        plug: &[RequestId],
        (bio, cpu): (&Bio, u16),
    ) -> Option<(Merge, Option<RequestsMerged>)> {
        if let Some(merge) = self.find_plugged(requests, plug, bio) {
            Self::grow(requests, merge, bio);
            return Some((merge, None));
        }
        let merge = self.find(now, requests, scheduler, bio, cpu)?;
        let fits = self.admit(requests, merge.request(), bio);
        fits.then(|| (merge, self.merge_into(now, requests, scheduler, merge, bio)))
    }

    /// The bio becomes part of a request in the scheduler, where it [fits](Merger::admit). Perhaps that
    /// request has thereby met its neighbour, and the two become one.
    pub fn merge_into(
        &mut self,
        now: Time,
        requests: &mut Requests,
        scheduler: &mut dyn Elevator,
        merge: Merge,
        bio: &Bio,
    ) -> Option<RequestsMerged> {
        if self.in_lists {
            Self::grow(requests, merge, bio);
            return None;
        }
        let (first, second) = match merge {
            Merge::Back(id) => {
                self.extend(now, requests, scheduler, merge, bio);
                (id, scheduler.latter(requests, id)?)
            }
            Merge::Front(id) => {
                // The neighbours are those of the place where the request stood.
                let former = scheduler.former(requests, id);
                self.extend(now, requests, scheduler, merge, bio);
                (former?, id)
            }
        };
        let can_join = self.can_join(requests, scheduler, first, second);
        can_join.then(|| self.join(now, requests, scheduler, first, second))
    }

    /// The bio becomes part of a request in the scheduler, and nothing else.
    pub fn extend(
        &mut self,
        now: Time,
        requests: &mut Requests,
        scheduler: &mut dyn Elevator,
        merge: Merge,
        bio: &Bio,
    ) {
        let id = merge.request();
        let old_start = requests[id].start;
        Self::grow(requests, merge, bio);
        if self.in_lists {
            return;
        }
        if merge.is_back() {
            self.by_end.remove(id);
            self.note_end(requests, id);
            scheduler.back_merged(now, requests, id);
        } else {
            scheduler.front_merged(now, requests, id, old_start);
        }
        self.note_last(requests, id);
    }

    // ---- merging requests ----------------------------------------------------------------

    fn can_join(
        &self,
        requests: &Requests,
        scheduler: &dyn Elevator,
        first: RequestId,
        second: RequestId,
    ) -> bool {
        let (one, other) = (&requests[first], &requests[second]);
        one.end() == other.start
            && one.op == other.op
            && !one.unmergeable
            && !other.unmergeable
            && one.length + other.length <= self.limits.max_sectors
            && scheduler.allow_request_merge(requests, first, second)
    }

    /// Makes one request of two that stand in the scheduler.
    pub fn join(
        &mut self,
        now: Time,
        requests: &mut Requests,
        scheduler: &mut dyn Elevator,
        first: RequestId,
        second: RequestId,
    ) -> RequestsMerged {
        let victim = requests[second];
        self.by_end.remove(second);
        self.by_end.remove(first);
        Self::append(requests, first, &victim);
        scheduler.requests_merged(now, requests, first, second);
        self.note_end(requests, first);
        self.note_last(requests, first);
        requests.remove(second);
        RequestsMerged {
            survivor: first,
            victim: second,
            was: victim,
        }
    }

    /// The second never was in the scheduler.
    pub fn join_new(
        &mut self,
        requests: &mut Requests,
        scheduler: &mut dyn Elevator,
        first: RequestId,
        second: RequestId,
    ) -> RequestsMerged {
        let victim = requests.remove(second);
        self.by_end.remove(first);
        Self::append(requests, first, &victim);
        self.note_end(requests, first);
        self.note_last(requests, first);
        scheduler.absorbed(second);
        RequestsMerged {
            survivor: first,
            victim: second,
            was: victim,
        }
    }

    fn append(requests: &mut Requests, survivor: RequestId, victim: &Request) {
        let request = &mut requests[survivor];
        request.length += victim.length;
        request.allocated = request.allocated.min(victim.allocated);
        request.priority = request.priority.min(victim.priority);
    }

    // ---- into the scheduler, and out of it -----------------------------------------------

    /// A request enters the scheduler. From a plug it is first tried as the continuation of one
    /// that is there: then it is gone, and what it joined may itself be the continuation of another.
    /// Adds what was merged, in order, and says whether the scheduler wants the queue to be run.
    #[inline(always)]
    pub fn insert(
        &mut self,
        now: Time,
        requests: &mut Requests,
        scheduler: &mut dyn Elevator,
        id: RequestId,
        from_plug: bool,
        merged: &mut Vec<RequestsMerged>,
    ) -> bool {
        if from_plug && self.is_continuation(requests, id) {
            self.append_to_queued(now, requests, scheduler, id, merged);
            if !merged.is_empty() {
                return false;
            }
        }
        self.insert_alone(now, requests, scheduler, id)
    }

    /// A request enters the scheduler as it is.
    #[inline(always)]
    pub fn insert_alone(
        &mut self,
        now: Time,
        requests: &Requests,
        scheduler: &mut dyn Elevator,
        id: RequestId,
    ) -> bool {
        if !self.in_lists {
            self.note_end(requests, id);
            if self.last.is_none() && !requests[id].unmergeable {
                self.note_last(requests, id);
            }
        }
        let runs = scheduler.insert(now, requests, id);
        self.forget_closed(scheduler);
        runs
    }

    /// A request in the scheduler ends where this one begins.
    fn is_continuation(&self, requests: &Requests, id: RequestId) -> bool {
        !self.in_lists && self.limits.merging != Merging::Off && self.by_end.has(requests[id].start)
    }

    fn append_to_queued(
        &mut self,
        now: Time,
        requests: &mut Requests,
        scheduler: &mut dyn Elevator,
        id: RequestId,
        merged: &mut Vec<RequestsMerged>,
    ) {
        scheduler.init_request(now, requests, id);
        if let Some(last) = self.last
            && self.can_join(requests, scheduler, last, id)
        {
            merged.push(self.join_new(requests, scheduler, last, id));
            return;
        }
        let Some(mut survivor) = self.ending_at(requests, requests[id].start) else {
            return;
        };
        if !self.can_join(requests, scheduler, survivor, id) {
            return;
        }
        merged.push(self.join_new(requests, scheduler, survivor, id));
        while let Some(before) = self.ending_at(requests, requests[survivor].start)
            && self.can_join(requests, scheduler, before, survivor)
        {
            merged.push(self.join(now, requests, scheduler, before, survivor));
            survivor = before;
        }
    }

    /// A request left the scheduler: nothing merges with it any more.
    pub fn dispatched(&mut self, scheduler: &mut dyn Elevator, id: RequestId) {
        self.forget(id);
        self.forget_closed(scheduler);
    }

    fn forget(&mut self, id: RequestId) {
        if !self.in_lists {
            self.forget_last_if(self.last == Some(id));
            self.by_end.remove(id);
        }
    }

    /// Nothing merges any more with what the scheduler has closed to it (`elv_rqhash_del`).
    fn forget_closed(&mut self, scheduler: &mut dyn Elevator) {
        let closed = scheduler.closed_to_merging().into_iter();
        closed
            .flat_map(|closed| closed.drain(..))
            .for_each(|id| self.forget(id));
    }

    // ---- what is known of the requests there ---------------------------------------------

    fn note_last(&mut self, requests: &Requests, id: RequestId) {
        (self.last, self.last_start) = (Some(id), requests[id].start);
    }

    /// If that is so, nothing was merged or inserted last.
    fn forget_last_if(&mut self, forgotten: bool) {
        if forgotten {
            (self.last, self.last_start) = (None, NOWHERE);
        }
    }

    #[inline]
    fn note_end(&mut self, requests: &Requests, id: RequestId) {
        self.by_end.insert(id, requests[id].end());
    }

    /// The request in the scheduler that one which begins here continues.
    pub fn ending_before(&self, requests: &Requests, op: Op, start: Sector) -> Option<RequestId> {
        let alike = |&id: &RequestId| requests[id].op == op;
        let last = self.last.filter(|&last| requests[last].end() == start);
        last.filter(alike)
            .or_else(|| self.by_end.at(start).find(alike))
    }

    /// The requests in the scheduler.
    pub fn all(&self) -> impl Iterator<Item = RequestId> {
        self.by_end.all()
    }

    /// True if the request is in the scheduler.
    pub fn has(&self, id: RequestId) -> bool {
        self.by_end.contains(id)
    }

    /// The request in the scheduler that covers exactly these sectors; of several the oldest.
    pub fn covering(
        &self,
        requests: &Requests,
        op: Op,
        start: Sector,
        length: Sectors,
    ) -> Option<RequestId> {
        let covers = |&id: &RequestId| requests[id].start == start && requests[id].op == op;
        self.by_end.at(start + length).filter(covers).last()
    }
}
