//! Accesses on their way: a process waits for an access, the block layer carries it as one or
//! several bios, and a request holds bios of one or several accesses.

use super::slab::Slab;
use crate::by_request::ByRequest;
use crate::request::{Op, RequestId};
use crate::units::{Sectors, Time};

/// What an access is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The process reads or writes.
    Own,
    /// Dirty pages go to the disk; the write's number in the page cache.
    Writeback(u64),
    /// What was written is to be on the medium.
    Flush,
}

/// An access that has not been answered: the bios that it was split into complete one by one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    /// Index of the process that waits for it.
    pub(super) process: usize,
    pub(super) purpose: Purpose,
    pub(super) op: Op,
    pub(super) submitted: Time,
    /// When the last of its bios became a request or joined one.
    pub(super) entered: Time,
    pub(super) length: Sectors,
    /// Bios that have not completed.
    pub(super) bios: u64,
}

/// Names an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AccessId(usize);

/// A bio in a request.
#[derive(Debug, Clone, Copy)]
struct Part {
    access: AccessId,
    next: Option<usize>,
}

/// The bios of a request, as a list.
#[derive(Debug, Clone, Copy)]
struct Carried {
    first: usize,
    last: usize,
}

/// See the [module's page](self).
#[derive(Debug)]
pub(super) struct Accesses {
    unanswered: Slab<Access>,
    parts: Slab<Part>,
    carried: ByRequest<Option<Carried>>,
}

impl Accesses {
    pub(super) fn new() -> Accesses {
        Accesses {
            unanswered: Slab::new(),
            parts: Slab::new(),
            carried: ByRequest::default(),
        }
    }

    /// An access begins.
    pub(super) fn begin(&mut self, access: Access) -> AccessId {
        AccessId(self.unanswered.add(access))
    }

    /// How many have not been answered.
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    fn carried(&mut self, id: RequestId) -> &mut Carried {
        let carried = self.carried[id].as_mut();
        carried.expect("the request carries something")
    }

    /// A new request carries a bio of the access.
    pub(super) fn carry(&mut self, now: Time, id: RequestId, access: AccessId) {
        self.unanswered.get_mut(access.0).entered = now;
        let part = self.parts.add(Part { access, next: None });
        let carried = Carried {
            first: part,
            last: part,
        };
        self.carried.set(id, Some(carried));
    }

    /// A request carries one bio more.
    pub(super) fn join(&mut self, now: Time, id: RequestId, access: AccessId) {
        self.unanswered.get_mut(access.0).entered = now;
        let part = self.parts.add(Part { access, next: None });
        let last = std::mem::replace(&mut self.carried(id).last, part);
        self.parts.get_mut(last).next = Some(part);
    }

    /// The victim's bios belong to the survivor now.
    pub(super) fn absorb(&mut self, survivor: RequestId, victim: RequestId) {
        let gone = *self.carried(victim);
        self.carried[victim] = None;
        let last = std::mem::replace(&mut self.carried(survivor).last, gone.last);
        self.parts.get_mut(last).next = Some(gone.first);
    }

    /// An access that no request carries is answered.
    pub(super) fn end(&mut self, AccessId(place): AccessId) -> Access {
        self.unanswered.remove(place)
    }

    /// A request is done: hands over each access that is answered by that, in the order in which
    /// their bios joined it.
    pub(super) fn finish(&mut self, id: RequestId, mut answered: impl FnMut(Access)) {
        let carried = self.carried[id].take();
        let mut next = carried.map(|carried| carried.first);
        while let Some(part) = next {
            let part = self.parts.remove(part);
            next = part.next;
            let access = self.unanswered.get_mut(part.access.0);
            access.bios -= 1;
            if access.bios == 0 {
                answered(self.unanswered.remove(part.access.0));
            }
        }
    }
}
