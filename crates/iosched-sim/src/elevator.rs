//! What the block layer does around a scheduler: merging, and the bookkeeping of requests.
//!
//! Follows Linux 4.19's single-queue path: a bio looks for a partner at the request that was last
//! merged or inserted, then by the end of a request (back merge), then in the scheduler (front
//! merge); a request that grew may become contiguous with its neighbour; a request that comes out
//! of a plug is itself tried as the continuation of one that is there. Left out: limits other than
//! the size (segments, chunk boundaries), integrity data, discards of several ranges.

use std::collections::BTreeMap;

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
}

/// Merging of one queue: knows the requests that stand in the scheduler.
#[derive(Debug, Clone, Default)]
pub struct Merger {
    limits: MergeLimits,
    /// Requests in the scheduler by end; those with the same end in order of arrival here.
    by_end: BTreeMap<(Sector, u64), RequestId>,
    /// The number under which a request stands in `by_end`.
    numbers: Vec<Option<u64>>,
    counter: u64,
    /// The request last merged or inserted.
    last: Option<RequestId>,
}

/// True if the two lie on the same side of every line that merging does not cross.
fn alike(request: &Request, bio: &Bio) -> bool {
    request.op == bio.op && !request.unmergeable
}

impl Merger {
    /// Merging within these limits.
    pub fn new(limits: MergeLimits) -> Merger {
        Merger {
            limits,
            ..Merger::default()
        }
    }

    /// The limits.
    pub fn limits(&self) -> &MergeLimits {
        &self.limits
    }

    fn number(&self, id: RequestId) -> Option<u64> {
        self.numbers.get(id.index()).copied().flatten()
    }

    /// True if the request stands in the scheduler and can be merged with.
    pub fn knows(&self, id: RequestId) -> bool {
        self.number(id).is_some()
    }

    fn note_end(&mut self, requests: &Requests, id: RequestId) {
        self.counter += 1;
        if id.index() >= self.numbers.len() {
            self.numbers.resize(id.index() + 1, None);
        }
        self.numbers[id.index()] = Some(self.counter);
        self.by_end.insert((requests[id].end(), self.counter), id);
    }

    fn forget_end(&mut self, end: Sector, id: RequestId) {
        if let Some(number) = self.number(id) {
            self.numbers[id.index()] = None;
            let removed = self.by_end.remove(&(end, number));
            assert_eq!(removed, Some(id), "requests stand under their ends");
        }
    }

    /// The request with this end that came here last and takes more.
    fn ending_at(&self, requests: &Requests, end: Sector) -> Option<RequestId> {
        let ending = self.by_end.range((end, 0)..=(end, u64::MAX)).rev();
        ending
            .map(|(_, &id)| id)
            .find(|&id| !requests[id].unmergeable)
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

    /// The requests in the scheduler, by their ends.
    pub fn all(&self) -> impl Iterator<Item = RequestId> {
        self.by_end.values().copied()
    }

    /// The request in the scheduler that covers exactly these sectors.
    pub fn covering(
        &self,
        requests: &Requests,
        op: crate::request::Op,
        start: Sector,
        length: Sectors,
    ) -> Option<RequestId> {
        let end = start + length;
        let mut ending = self
            .by_end
            .range((end, 0)..=(end, u64::MAX))
            .map(|(_, &id)| id);
        ending.find(|&id| requests[id].start == start && requests[id].op == op)
    }

    /// Where this bio would go by the rules, if not into a request of its own.
    pub fn find(&self, requests: &Requests, scheduler: &dyn Scheduler, bio: &Bio) -> Option<Merge> {
        if self.limits.merging == Merging::Off {
            return None;
        }
        let allowed =
            |id: RequestId| alike(&requests[id], bio) && scheduler.allow_merge(requests, id, bio);
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
        if let Some(back) = self
            .ending_at(requests, bio.start)
            .filter(|&back| allowed(back))
        {
            return Some(Merge::Back(back));
        }
        scheduler
            .front_merge(requests, bio)
            .filter(|&front| allowed(front))
            .map(Merge::Front)
    }

    /// True if the partner has room; if not, it takes no more from now on.
    pub fn fits(&mut self, requests: &mut Requests, id: RequestId, bio: &Bio) -> bool {
        if requests[id].length + bio.length <= self.limits.max_sectors {
            return true;
        }
        requests[id].unmergeable = true;
        if self.last == Some(id) {
            self.last = None;
        }
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
        let (Merge::Back(id) | Merge::Front(id)) = merge;
        let old = requests[id];
        let request = &mut requests[id];
        request.length += bio.length;
        request.priority = request.priority.min(bio.priority);
        let absorbed = if let Merge::Back(_) = merge {
            let latter = scheduler.latter(requests, id);
            latter.and_then(|latter| self.join(now, requests, scheduler, id, latter, old.end()))
        } else {
            requests[id].start = bio.start;
            // The neighbours are those of the place where the request stood.
            let former = scheduler.former(requests, id);
            let met = former.filter(|&former| requests[former].end() == bio.start);
            if let Some(former) = met {
                // The scheduler still knows the victim by its old place.
                scheduler.front_merged(now, requests, id, old.start);
                let former_end = requests[former].end();
                self.join(now, requests, scheduler, former, id, former_end)
            } else {
                scheduler.front_merged(now, requests, id, old.start);
                None
            }
        };
        if absorbed.is_none() {
            if let Merge::Back(_) = merge {
                self.forget_end(old.end(), id);
                self.note_end(requests, id);
            }
            self.last = Some(id);
        }
        absorbed
    }

    /// Makes one request of two that stand in the scheduler, if they may be one. `first_end` is
    /// the end under which the first is noted.
    fn join(
        &mut self,
        now: Time,
        requests: &mut Requests,
        scheduler: &mut dyn Scheduler,
        first: RequestId,
        second: RequestId,
        first_end: Sector,
    ) -> Option<Absorbed> {
        if !self.can_join(requests, scheduler, first, second) {
            return None;
        }
        let victim = requests[second];
        self.forget_end(victim.end(), second);
        self.forget_end(first_end, first);
        self.grow(requests, first, &victim);
        scheduler.requests_merged(now, requests, first, second);
        self.note_end(requests, first);
        self.last = Some(first);
        requests.remove(second);
        Some(Absorbed {
            survivor: first,
            victim: second,
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
            && scheduler.allow_request_merge(first, second)
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
        if !requests[id].unmergeable {
            self.last.get_or_insert(id);
        }
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
        if self.limits.merging == Merging::Off {
            return false;
        }
        if let Some(last) = self.last
            && self.can_join(requests, scheduler, last, id)
        {
            self.join_new(requests, last, id);
            absorbed.push(Absorbed {
                survivor: last,
                victim: id,
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
        self.join_new(requests, survivor, id);
        absorbed.push(Absorbed {
            survivor,
            victim: id,
        });
        while let Some(before) = self.ending_at(requests, requests[survivor].start) {
            let end = requests[before].end();
            match self.join(now, requests, scheduler, before, survivor, end) {
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
        let end = requests[first].end();
        self.forget_end(end, first);
        self.grow(requests, first, &victim);
        self.note_end(requests, first);
        self.last = Some(first);
    }

    /// A request left the scheduler: nothing merges with it any more.
    pub fn dispatched(&mut self, requests: &Requests, id: RequestId) {
        if self.last == Some(id) {
            self.last = None;
        }
        self.forget_end(requests[id].end(), id);
    }
}
