//! What the block layer does around a scheduler: merging, and the bookkeeping of requests.
//!
//! Follows Linux 4.19's single-queue path: a bio looks for a partner at the request that was last
//! merged or inserted, then by the end of a request (back merge), then in the scheduler (front
//! merge); a request that grew may become contiguous with its neighbour; a request that comes out
//! of a plug is itself tried as the continuation of one that is there. Left out: limits other than
//! the size (segments, chunk boundaries), integrity data, discards of several ranges.

use std::hint::select_unpredictable;

use crate::ends::Ends;
use crate::request::{Bio, Request, RequestId, Requests};
use crate::scheduler::Scheduler;
use crate::units::{Sector, Sectors, Time};

/// How far merging goes (`queue/nomerges`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Merging {
    /// All partners are looked for.
    #[default]
    Full,
    /// Only the request last merged or inserted.
    LastOnly,
    /// None.
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

impl Default for MergeLimits {
    fn default() -> MergeLimits {
        MergeLimits {
            max_sectors: Sectors::new(2560),
            merging: Merging::Full,
        } // 1280 KiB
    }
}

/// Where a bio found a partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// The bio continues this request.
    Back(RequestId),
    /// The request continues the bio.
    Front(RequestId),
}

/// What became of requests after a merge: the victim no longer exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absorbed {
    /// Holds everything now.
    pub survivor: RequestId,
    /// Is gone.
    pub victim: RequestId,
    /// What it was.
    pub was: Request,
}

/// Merging of one queue: knows the requests that stand in the scheduler.
#[derive(Debug, Clone)]
pub struct Merger {
    limits: MergeLimits,
    /// Requests in the scheduler.
    by_end: Ends,
    /// The request last merged or inserted: it is in the scheduler.
    last: Option<RequestId>,
    /// Where that begins.
    last_start: Sector,
}

/// No bio ends there.
const NOWHERE: Sector = Sector::new(u64::MAX);

impl Default for Merger {
    fn default() -> Merger {
        Merger {
            limits: MergeLimits::default(),
            by_end: Ends::default(),
            last: None,
            last_start: NOWHERE,
        }
    }
}

/// True if the two lie on the same side of every line that merging does not cross.
fn alike(request: &Request, bio: &Bio) -> bool {
    request.op == bio.op && !request.unmergeable
}

/// True if the bio may become part of the request.
fn may_join(requests: &Requests, scheduler: &dyn Scheduler, id: RequestId, bio: &Bio) -> bool {
    alike(&requests[id], bio) && scheduler.allow_merge(requests, id, bio)
}

impl Merger {
    /// Merging within these limits.
    pub fn new(limits: MergeLimits) -> Merger {
        Merger {
            limits,
            ..Merger::default()
        }
    }

    fn note_last(&mut self, requests: &Requests, id: RequestId) {
        (self.last, self.last_start) = (Some(id), requests[id].start);
    }

    /// If that is so, as chance has it, nothing was merged or inserted last.
    fn forget_last_if(&mut self, forgotten: bool) {
        self.last = select_unpredictable(forgotten, None, self.last);
        self.last_start = select_unpredictable(forgotten, NOWHERE, self.last_start);
    }

    /// The limits.
    pub fn limits(&self) -> &MergeLimits {
        &self.limits
    }

    /// True if the request stands in the scheduler and can be merged with.
    pub fn knows(&self, id: RequestId) -> bool {
        self.by_end.contains(id)
    }

    #[inline]
    fn note_end(&mut self, requests: &Requests, id: RequestId) {
        self.by_end.insert(id, requests[id].end());
    }

    /// The request with this end that came here last and takes more.
    fn ending_at(&self, requests: &Requests, end: Sector) -> Option<RequestId> {
        self.by_end.at(end).find(|&id| !requests[id].unmergeable)
    }

    /// Where this bio would go among the requests that its process holds back, newest first. One
    /// that it touches and that has no room takes no more from now on.
    pub fn find_held(
        &self,
        requests: &mut Requests,
        held: &[RequestId],
        bio: &Bio,
    ) -> Option<Merge> {
        for &id in held.iter().rev() {
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

    /// The requests in the scheduler.
    pub fn all(&self) -> impl Iterator<Item = RequestId> {
        self.by_end.all()
    }

    /// The request in the scheduler that covers exactly these sectors; of several the oldest.
    pub fn covering(
        &self,
        requests: &Requests,
        op: crate::request::Op,
        start: Sector,
        length: Sectors,
    ) -> Option<RequestId> {
        let covers = |&id: &RequestId| requests[id].start == start && requests[id].op == op;
        self.by_end.at(start + length).filter(covers).last()
    }

    /// Where this bio would go by the rules, if not into a request of its own.
    #[inline]
    pub fn find(&self, requests: &Requests, scheduler: &dyn Scheduler, bio: &Bio) -> Option<Merge> {
        if self.limits.merging == Merging::Off {
            return None;
        }
        // Hardly any bio of a random load touches a request, and whether one was last is chance.
        let touches = self.by_end.has(bio.start) || bio.end() == self.last_start;
        if touches && let Some(merge) = self.find_touching(requests, scheduler, bio) {
            return Some(merge);
        }
        if self.limits.merging == Merging::LastOnly {
            return None;
        }
        scheduler
            .front_merge(requests, bio)
            .filter(|&front| may_join(requests, scheduler, front, bio))
            .map(Merge::Front)
    }

    /// The same without what only the scheduler knows.
    #[inline(never)]
    fn find_touching(
        &self,
        requests: &Requests,
        scheduler: &dyn Scheduler,
        bio: &Bio,
    ) -> Option<Merge> {
        let allowed = |id: RequestId| may_join(requests, scheduler, id, bio);
        if let Some(last) = self.last.filter(|&last| allowed(last)) {
            if requests[last].end() == bio.start {
                return Some(Merge::Back(last));
            }
            if bio.end() == requests[last].start {
                return Some(Merge::Front(last));
            }
        }
        if self.limits.merging == Merging::LastOnly {
            return None;
        }
        let back = self.ending_at(requests, bio.start);
        back.filter(|&back| allowed(back)).map(Merge::Back)
    }

    /// True if the partner has room; if not, it takes no more from now on.
    pub fn fits(&mut self, requests: &mut Requests, id: RequestId, bio: &Bio) -> bool {
        if requests[id].length + bio.length <= self.limits.max_sectors {
            return true;
        }
        requests[id].unmergeable = true;
        self.forget_last_if(self.last == Some(id));
        false
    }

    /// Joins the bio to its partner, then perhaps two requests that met. The caller made sure that
    /// it [`Merger::fits`].
    pub fn merge(
        &mut self,
        now: Time,
        requests: &mut Requests,
        scheduler: &mut dyn Scheduler,
        merge: Merge,
        bio: &Bio,
    ) -> Option<Absorbed> {
        let absorbed = match merge {
            Merge::Back(id) => {
                Self::grow_by_bio(requests, id, bio);
                let latter = scheduler.latter(requests, id);
                latter.and_then(|latter| self.join(now, requests, scheduler, id, latter))
            }
            Merge::Front(id) => {
                // The neighbours are those of the place where the request stood.
                let former = scheduler.former(requests, id);
                let old_start = requests[id].start;
                Self::grow_by_bio(requests, id, bio);
                requests[id].start = bio.start;
                scheduler.front_merged(now, requests, id, old_start);
                former.and_then(|former| self.join(now, requests, scheduler, former, id))
            }
        };
        let (Merge::Back(id) | Merge::Front(id)) = merge;
        if absorbed.is_none() {
            if let Merge::Back(_) = merge {
                self.by_end.remove(id);
                self.note_end(requests, id);
            }
            self.note_last(requests, id);
        }
        absorbed
    }

    fn grow_by_bio(requests: &mut Requests, id: RequestId, bio: &Bio) {
        let request = &mut requests[id];
        request.length += bio.length;
        request.priority = request.priority.min(bio.priority);
    }

    /// Makes one request of two that stand in the scheduler, if they may be one.
    fn join(
        &mut self,
        now: Time,
        requests: &mut Requests,
        scheduler: &mut dyn Scheduler,
        first: RequestId,
        second: RequestId,
    ) -> Option<Absorbed> {
        if !self.can_join(requests, scheduler, first, second) {
            return None;
        }
        let victim = requests[second];
        self.by_end.remove(second);
        self.by_end.remove(first);
        self.grow(requests, first, &victim);
        scheduler.requests_merged(now, requests, first, second);
        self.note_end(requests, first);
        self.note_last(requests, first);
        requests.remove(second);
        Some(Absorbed {
            survivor: first,
            victim: second,
            was: victim,
        })
    }

    fn can_join(
        &self,
        requests: &Requests,
        scheduler: &dyn Scheduler,
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

    fn grow(&self, requests: &mut Requests, survivor: RequestId, victim: &Request) {
        let request = &mut requests[survivor];
        request.length += victim.length;
        request.allocated = request.allocated.min(victim.allocated);
        request.priority = request.priority.min(victim.priority);
    }

    /// A request enters the scheduler. From a plug it is first tried as the continuation of one
    /// that is there: then it is gone, and what it joined may itself be the continuation of another.
    /// Returns what was absorbed, in order, and whether the scheduler wants the queue to be run.
    #[inline(always)]
    pub fn insert(
        &mut self,
        now: Time,
        requests: &mut Requests,
        scheduler: &mut dyn Scheduler,
        id: RequestId,
        from_plug: bool,
        absorbed: &mut Vec<Absorbed>,
    ) -> bool {
        if from_plug && self.absorb(now, requests, scheduler, id, absorbed) {
            return false;
        }
        self.note_end(requests, id);
        let is_last = self.last.is_none() && !requests[id].unmergeable;
        self.last = select_unpredictable(is_last, Some(id), self.last);
        self.last_start = select_unpredictable(is_last, requests[id].start, self.last_start);
        scheduler.insert(now, requests, id)
    }

    fn absorb(
        &mut self,
        now: Time,
        requests: &mut Requests,
        scheduler: &mut dyn Scheduler,
        id: RequestId,
        absorbed: &mut Vec<Absorbed>,
    ) -> bool {
        if self.limits.merging == Merging::Off || !self.by_end.has(requests[id].start) {
            return false;
        }
        self.absorb_touching(now, requests, scheduler, id, absorbed)
    }

    /// The same where something ends at the request's beginning.
    #[inline(never)]
    fn absorb_touching(
        &mut self,
        now: Time,
        requests: &mut Requests,
        scheduler: &mut dyn Scheduler,
        id: RequestId,
        absorbed: &mut Vec<Absorbed>,
    ) -> bool {
        if let Some(last) = self.last
            && self.can_join(requests, scheduler, last, id)
        {
            let was = requests[id];
            self.join_new(requests, last, id);
            scheduler.absorbed(id);
            absorbed.push(Absorbed {
                survivor: last,
                victim: id,
                was,
            });
            return true;
        }
        if self.limits.merging == Merging::LastOnly {
            return false;
        }
        let Some(mut survivor) = self.ending_at(requests, requests[id].start) else {
            return false;
        };
        if !self.can_join(requests, scheduler, survivor, id) {
            return false;
        }
        let was = requests[id];
        self.join_new(requests, survivor, id);
        scheduler.absorbed(id);
        absorbed.push(Absorbed {
            survivor,
            victim: id,
            was,
        });
        while let Some(before) = self.ending_at(requests, requests[survivor].start) {
            match self.join(now, requests, scheduler, before, survivor) {
                None => break,
                Some(more) => absorbed.push(more),
            }
            survivor = before;
        }
        true
    }

    /// The second never was in the scheduler.
    fn join_new(&mut self, requests: &mut Requests, first: RequestId, second: RequestId) {
        let victim = requests.remove(second);
        self.by_end.remove(first);
        self.grow(requests, first, &victim);
        self.note_end(requests, first);
        self.note_last(requests, first);
    }

    /// A request left the scheduler: nothing merges with it any more.
    pub fn dispatched(&mut self, id: RequestId) {
        self.forget_last_if(self.last == Some(id));
        self.by_end.remove(id);
    }
}
