//! Lists of requests where any member can be taken out at once: the links stand in a table by
//! request, so that nothing is allocated for a member.
//!
//! Whether a member has neighbours is chance where requests are taken out of the middle, and a branch
//! that follows chance costs more than all the rest: so the first link of the table is nobody's, and
//! what would be told to a neighbour that is not there is told to it.

use crate::request::RequestId;

/// The place of a request's link in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct LinkIndex(usize);

impl LinkIndex {
    const NOBODY: LinkIndex = LinkIndex(0);

    fn of(id: RequestId) -> LinkIndex {
        LinkIndex(id.number())
    }

    fn request(self) -> Option<RequestId> {
        RequestId::from_number(self.0)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Link {
    previous: LinkIndex,
    next: LinkIndex,
    member: bool,
}

/// The links of all lists that a request can be in one of.
#[derive(Debug, Clone)]
pub(crate) struct Links {
    links: Vec<Link>,
}

impl Default for Links {
    fn default() -> Links {
        Links {
            links: vec![Link::default()], // nobody's
        }
    }
}

impl Links {
    /// The member after this one.
    pub(crate) fn next(&self, id: RequestId) -> Option<RequestId> {
        self.get(id).and_then(|link| link.next.request())
    }

    /// The member before this one.
    pub(crate) fn previous(&self, id: RequestId) -> Option<RequestId> {
        self.get(id).and_then(|link| link.previous.request())
    }

    fn get(&self, id: RequestId) -> Option<&Link> {
        self.links.get(LinkIndex::of(id).0)
    }

    /// A member leaves: who stood before and behind it.
    fn take(&mut self, id: RequestId) -> (LinkIndex, LinkIndex) {
        let link = &mut self.links[LinkIndex::of(id).0];
        assert!(std::mem::take(&mut link.member), "{id:?} is in no list");
        (
            std::mem::take(&mut link.previous),
            std::mem::take(&mut link.next),
        )
    }

    /// A member stands between these two.
    fn set(&mut self, id: RequestId, (previous, next): (LinkIndex, LinkIndex)) {
        let LinkIndex(place) = LinkIndex::of(id);
        if place >= self.links.len() {
            self.grow(place);
        }
        self.links[place] = Link {
            previous,
            next,
            member: true,
        };
    }

    #[cold]
    fn grow(&mut self, place: usize) {
        self.links.resize(place + 1, Link::default());
    }
}

/// One list: its ends. All operations need the links.
#[derive(Debug, Clone, Default)]
pub(crate) struct List {
    first: LinkIndex,
    last: LinkIndex,
}

impl List {
    pub(crate) fn first(&self) -> Option<RequestId> {
        self.first.request()
    }

    pub(crate) fn last(&self) -> Option<RequestId> {
        self.last.request()
    }

    pub(crate) fn pop_front(&mut self, links: &mut Links) -> Option<RequestId> {
        let first = self.first()?;
        self.remove(links, first);
        Some(first)
    }

    pub(crate) fn push_front(&mut self, links: &mut Links, id: RequestId) {
        let around = (LinkIndex::NOBODY, self.first);
        links.set(id, around);
        self.tell(links, around, (LinkIndex::of(id), LinkIndex::of(id)));
    }

    pub(crate) fn push_back(&mut self, links: &mut Links, id: RequestId) {
        let around = (self.last, LinkIndex::NOBODY);
        links.set(id, around);
        self.tell(links, around, (LinkIndex::of(id), LinkIndex::of(id)));
    }

    pub(crate) fn remove(&mut self, links: &mut Links, id: RequestId) {
        let (previous, next) = links.take(id);
        self.tell(links, (previous, next), (next, previous));
    }

    /// Puts `id` where `other` stands, and takes `other` out.
    pub(crate) fn replace(&mut self, links: &mut Links, other: RequestId, id: RequestId) {
        self.remove(links, id);
        let around = links.take(other);
        links.set(id, around);
        self.tell(links, around, (LinkIndex::of(id), LinkIndex::of(id)));
    }

    /// Tells those before and behind a place what is next to them now. Where nobody is the list ends.
    #[inline]
    fn tell(
        &mut self,
        links: &mut Links,
        (before, behind): (LinkIndex, LinkIndex),
        (next, previous): (LinkIndex, LinkIndex),
    ) {
        links.links[before.0].next = next;
        links.links[behind.0].previous = previous;
        if before == LinkIndex::NOBODY {
            self.first = next;
        }
        if behind == LinkIndex::NOBODY {
            self.last = previous;
        }
    }
}
