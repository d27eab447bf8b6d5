//! Lists of requests where any member can be taken out at once: the links stand in a table by
//! request, so that nothing is allocated for a member.

use crate::by_request::ByRequest;
use crate::request::RequestId;

#[derive(Debug, Clone, Copy, Default)]
struct Link {
    previous: Option<RequestId>,
    next: Option<RequestId>,
    member: bool,
}

/// The links of all lists that a request can be in one of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links {
    links: ByRequest<Link>,
}

impl Links {
    /// The member after this one.
    pub(crate) fn next(&self, id: RequestId) -> Option<RequestId> {
        self.links.get(id).and_then(|link| link.next)
    }

    /// The member before this one.
    pub(crate) fn previous(&self, id: RequestId) -> Option<RequestId> {
        self.links.get(id).and_then(|link| link.previous)
    }
}

/// One list: its ends. All operations need the links.
#[derive(Debug, Clone, Default)]
pub(crate) struct List {
    first: Option<RequestId>,
    last: Option<RequestId>,
}

impl List {
    pub(crate) fn first(&self) -> Option<RequestId> {
        self.first
    }

    pub(crate) fn last(&self) -> Option<RequestId> {
        self.last
    }

    pub(crate) fn pop_front(&mut self, links: &mut Links) -> Option<RequestId> {
        let first = self.first?;
        self.remove(links, first);
        Some(first)
    }

    pub(crate) fn push_back(&mut self, links: &mut Links, id: RequestId) {
        let last = self.last.replace(id);
        let link = Link {
            previous: last,
            next: None,
            member: true,
        };
        links.links.set(id, link);
        match last {
            Some(last) => links.links[last].next = Some(id),
            None => self.first = Some(id),
        }
    }

    pub(crate) fn remove(&mut self, links: &mut Links, id: RequestId) {
        let Link {
            previous,
            next,
            member,
        } = std::mem::take(&mut links.links[id]);
        assert!(member, "{id:?} is in no list");
        match previous {
            Some(previous) => links.links[previous].next = next,
            None => self.first = next,
        }
        match next {
            Some(next) => links.links[next].previous = previous,
            None => self.last = previous,
        }
    }

    /// Puts `id` where `other` stands, and takes `other` out.
    pub(crate) fn replace(&mut self, links: &mut Links, other: RequestId, id: RequestId) {
        self.remove(links, id);
        let link = std::mem::take(&mut links.links[other]);
        assert!(link.member, "{other:?} is in no list");
        links.links.set(id, link);
        match link.previous {
            Some(previous) => links.links[previous].next = Some(id),
            None => self.first = Some(id),
        }
        match link.next {
            Some(next) => links.links[next].previous = Some(id),
            None => self.last = Some(id),
        }
    }
}
