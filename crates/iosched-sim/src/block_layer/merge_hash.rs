//! Requests by their ends, so that a bio finds the request that it continues.
//!
//! A hash of fixed size whose chains run through a table by request, as the kernel's does: nothing is
//! allocated for a member. In a chain the newest comes first.

use crate::request::RequestId;
use crate::request_table::ByRequest;
use crate::units::Sector;

/// Four times as many as requests of a kind by default: a chain seldom has two members.
const BUCKETS: usize = 512;

#[derive(Debug, Clone, Copy)]
struct Member {
    end: Sector,
    previous: Option<RequestId>,
    next: Option<RequestId>,
}

#[derive(Debug, Clone)]
pub(super) struct MergeHash {
    newest: Vec<Option<RequestId>>,
    members: ByRequest<Option<Member>>,
}

/// Positions are mostly multiples of eight: a multiplication spreads them.
fn bucket(end: Sector) -> usize {
    let spread = end.as_u64().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread >> 48) as usize % BUCKETS
}

impl Default for MergeHash {
    fn default() -> MergeHash {
        MergeHash {
            newest: vec![None; BUCKETS],
            members: ByRequest::default(),
        }
    }
}

impl MergeHash {
    fn member(&self, id: RequestId) -> Option<&Member> {
        self.members.get(id)?.as_ref()
    }

    fn member_mut(&mut self, id: RequestId) -> &mut Member {
        let member = self.members[id].as_mut();
        member.expect("what a chain names is a member")
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, id: RequestId, end: Sector) {
        let next = self.newest[bucket(end)].replace(id);
        if let Some(next) = next {
            self.member_mut(next).previous = Some(id);
        }
        let member = Member {
            end,
            previous: None,
            next,
        };
        self.members.set(id, Some(member));
    }

    /// Takes a request out, if it is here.
    #[inline(always)]
    pub(super) fn remove(&mut self, id: RequestId) {
        let Some(slot) = self.members.get_mut(id) else {
            return;
        };
        let Some(member) = slot.take() else {
            return;
        };
        match member.previous {
            Some(previous) => self.member_mut(previous).next = member.next,
            None => self.newest[bucket(member.end)] = member.next,
        }
        if let Some(next) = member.next {
            self.member_mut(next).previous = member.previous;
        }
    }

    /// True if the request is one of them.
    pub(super) fn contains(&self, id: RequestId) -> bool {
        self.member(id).is_some()
    }

    /// True if there is one with this end.
    pub(super) fn has(&self, end: Sector) -> bool {
        self.at(end).next().is_some()
    }

    /// Those with this end, the newest first.
    pub(super) fn at(&self, end: Sector) -> impl Iterator<Item = RequestId> {
        let chain = std::iter::successors(self.newest[bucket(end)], |&id| {
            self.member(id).and_then(|member| member.next)
        });
        chain.filter(move |&id| self.member(id).is_some_and(|member| member.end == end))
    }

    /// All of them, in no order that means anything (but always the same).
    pub(super) fn all(&self) -> impl Iterator<Item = RequestId> {
        let chains = self.newest.iter().map(|&newest| {
            std::iter::successors(newest, |&id| self.member(id).and_then(|member| member.next))
        });
        chains.flatten()
    }
}
