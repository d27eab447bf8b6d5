//! The bios that requests carry: each request answers them, in the order in which they joined it.

use super::{Outputs, Token, trace_bio};
use crate::request::{Action, Bio, Merge, RequestId};
use crate::request_table::ByRequest;
use crate::slab::Slab;
use crate::units::Time;

/// A bio that joined a request.
#[derive(Debug, Clone, Copy)]
struct Part {
    token: Token,
    next: Option<usize>,
}

/// The bios of a request: most carry one.
#[derive(Debug, Clone, Copy)]
struct List {
    first: Token,
    joined: Option<Joined>,
}

/// The bios that joined a request, as a list of parts.
#[derive(Debug, Clone, Copy)]
struct Joined {
    first: usize,
    last: usize,
}

#[derive(Debug)]
pub(super) struct Carried {
    parts: Slab<Part>,
    lists: ByRequest<Option<List>>,
}

impl Carried {
    pub(super) fn new() -> Carried {
        Carried {
            parts: Slab::new(),
            lists: ByRequest::default(),
        }
    }

    fn list(&mut self, id: RequestId) -> &mut List {
        let list = self.lists[id].as_mut();
        list.expect("the request carries something")
    }

    /// A new request carries this bio.
    #[inline(always)]
    pub(super) fn begin(&mut self, out: &mut impl Outputs, now: Time, id: RequestId, token: Token) {
        out.entered(now, token);
        let list = List {
            first: token,
            joined: None,
        };
        self.lists.set(id, Some(list));
    }

    /// A request carries one bio more.
    pub(super) fn merged(
        &mut self,
        out: &mut impl Outputs,
        now: Time,
        (bio, token): (&Bio, Token),
        merge: Merge,
    ) {
        let action = if merge.is_back() {
            Action::BackMerged
        } else {
            Action::FrontMerged
        };
        trace_bio(out, now, action, bio);
        out.entered(now, token);
        let part = self.parts.add(Part { token, next: None });
        let alone = Joined {
            first: part,
            last: part,
        };
        self.append(merge.request(), alone);
    }

    /// Parts join a request behind those that have.
    fn append(&mut self, id: RequestId, more: Joined) {
        let joined = &mut self.list(id).joined;
        let Some(Joined { last, .. }) = joined else {
            *joined = Some(more);
            return;
        };
        let last = std::mem::replace(last, more.last);
        self.parts.get_mut(last).next = Some(more.first);
    }

    /// The victim's bios belong to the survivor now.
    pub(super) fn join(&mut self, survivor: RequestId, victim: RequestId) {
        let gone = *self.list(victim);
        self.lists[victim] = None;
        let first = self.parts.add(Part {
            token: gone.first,
            next: gone.joined.map(|joined| joined.first),
        });
        let last = gone.joined.map_or(first, |joined| joined.last);
        self.append(survivor, Joined { first, last });
    }

    /// What a request carries, in order.
    pub(super) fn each(&self, id: RequestId, mut carried: impl FnMut(Token)) {
        let Some(list) = self.lists.get(id).copied().flatten() else {
            return;
        };
        carried(list.first);
        let mut next = list.joined.map(|joined| joined.first);
        while let Some(part) = next {
            let part = self.parts.get(part);
            next = part.next;
            carried(part.token);
        }
    }

    /// A request is done: hands over what it carried.
    #[inline(always)]
    pub(super) fn end(&mut self, id: RequestId, mut answered: impl FnMut(Token)) {
        let Some(list) = self.lists[id].take() else {
            return;
        };
        let mut token = list.first;
        let mut next = list.joined.map(|joined| joined.first);
        loop {
            answered(token); // called in one place, where it is inlined
            let Some(part) = next else {
                return;
            };
            Part { token, next } = self.parts.remove(part);
        }
    }
}
