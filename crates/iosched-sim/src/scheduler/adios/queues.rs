//! Where requests wait: two trees by deadline, and batches.

use std::collections::VecDeque;

use super::KINDS;
use crate::list::{Links, List};
use crate::request::{RequestId, Requests};
use crate::units::Sector;

/// Requests by deadline: groups in order, first come, first served within one.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    /// Deadlines mostly come in order: a queue that is searched from its ends is faster than a tree.
    groups: VecDeque<(u64, List)>,
}

impl Tree {
    /// The first request of the first group.
    pub(super) fn first(&self) -> Option<RequestId> {
        self.groups.front().and_then(|(_, group)| group.first())
    }

    pub(super) fn add(&mut self, links: &mut Links, deadline: u64, id: RequestId) {
        let place = match self.groups.back() {
            Some(&(last, _)) if last < deadline => self.groups.len(),
            _ => self.place(deadline),
        };
        if self
            .groups
            .get(place)
            .is_none_or(|&(other, _)| other != deadline)
        {
            self.groups.insert(place, (deadline, List::default()));
        }
        self.groups[place].1.push_back(links, id);
    }

    pub(super) fn remove(&mut self, links: &mut Links, deadline: u64, id: RequestId) {
        let place = self.place(deadline);
        let (_, group) = &mut self.groups[place];
        group.remove(links, id);
        if group.first().is_none() {
            self.groups.remove(place);
        }
    }

    /// The first group with this deadline or a later one.
    fn place(&self, deadline: u64) -> usize {
        match self.groups.front() {
            Some(&(first, _)) if first < deadline => {
                self.groups.partition_point(|&(other, _)| other < deadline)
            }
            _ => 0,
        }
    }
}

/// Requests that go to the device before others are chosen (`adios_batch_queue`).
#[derive(Debug, Clone, Default)]
pub(super) struct Page {
    /// By kind, or in elevator order by class.
    pub(super) fifos: [List; KINDS],
    /// How many of each kind were put here.
    pub(super) counts: [u64; KINDS],
    /// How many are left.
    pub(super) left: usize,
    /// It is in elevator order (`batch_order`).
    pub(super) is_sorted: bool,
}

/// The FIFO of a sorted page that goes by position.
pub(super) const BY_POSITION: usize = 1;

impl Page {
    pub(super) fn push(&mut self, links: &mut Links, fifo: usize, id: RequestId) {
        self.fifos[fifo].push_back(links, id);
        self.left += 1;
    }

    pub(super) fn take(&mut self, links: &mut Links, fifo: usize, id: RequestId) {
        self.fifos[fifo].remove(links, id);
        self.left -= 1;
    }

    /// The request that goes next, and its FIFO.
    pub(super) fn next(&self, backwards: bool) -> Option<(usize, RequestId)> {
        (0..KINDS).find_map(|fifo| {
            let list = &self.fifos[fifo];
            let is_last = backwards && self.is_sorted && fifo == BY_POSITION;
            let next = if is_last { list.last() } else { list.first() };
            Some((fifo, next?))
        })
    }

    /// Puts what goes by position in order.
    pub(super) fn sort(&mut self, links: &mut Links, requests: &Requests) {
        let list = &mut self.fifos[BY_POSITION];
        let mut ids: Vec<RequestId> = std::iter::from_fn(|| list.pop_front(links)).collect();
        ids.sort_by_key(|&id| requests[id].start);
        for id in ids {
            list.push_back(links, id);
        }
    }

    /// True if the head is beyond the middle of what goes by position.
    pub(super) fn goes_backwards(&self, requests: &Requests, head: Sector) -> bool {
        let fifo = &self.fifos[BY_POSITION];
        let (Some(first), Some(last)) = (fifo.first(), fifo.last()) else {
            return false;
        };
        let place = |id: RequestId| requests[id].start.as_u64();
        let middle = u64::midpoint(place(first), place(last));
        self.is_sorted && head.as_u64() > middle
    }
}
