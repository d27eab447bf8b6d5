//! Lists of requests by the CPU on which they were submitted: the software queues of the multi-queue
//! block layer.

use crate::list::{Links, List};
use crate::request::{Bio, Merge, RequestId, Requests};

/// How many requests are looked at for a bio.
const LOOKED_AT: usize = 8;

/// One list per CPU.
#[derive(Debug, Clone, Default)]
pub(super) struct CpuLists {
    lists: Vec<List>,
    queued: usize,
}

impl CpuLists {
    /// Adds a request behind the others of its CPU.
    pub(super) fn push(&mut self, links: &mut Links, requests: &Requests, id: RequestId) {
        self.list_of(requests, id).push_back(links, id);
        self.queued += 1;
    }

    /// Adds a request before the others of its CPU.
    pub(super) fn push_front(&mut self, links: &mut Links, requests: &Requests, id: RequestId) {
        self.list_of(requests, id).push_front(links, id);
        self.queued += 1;
    }

    fn list_of(&mut self, requests: &Requests, id: RequestId) -> &mut List {
        let cpu = usize::from(requests[id].cpu);
        if cpu >= self.lists.len() {
            self.lists.resize(cpu + 1, List::default());
        }
        &mut self.lists[cpu]
    }

    /// Takes a request out, wherever it stands.
    pub(super) fn remove(&mut self, links: &mut Links, requests: &Requests, id: RequestId) {
        self.lists[usize::from(requests[id].cpu)].remove(links, id);
        self.queued -= 1;
    }

    /// The oldest request of the first CPU that has one, from this CPU on and around.
    pub(super) fn first_from(&self, cpu: usize) -> Option<RequestId> {
        let (before, after) = self.lists.split_at(cpu.min(self.lists.len()));
        after.iter().chain(before).find_map(List::first)
    }

    /// The request among the newest of this CPU that the bio touches, if it may merge.
    pub(super) fn partner(
        &self,
        links: &Links,
        requests: &Requests,
        bio: &Bio,
        cpu: u16,
    ) -> Option<Merge> {
        let newest = self.lists.get(usize::from(cpu))?.last();
        let newest_first = std::iter::successors(newest, |&id| links.previous(id));
        newest_first.take(LOOKED_AT).find_map(|id| {
            let request = &requests[id];
            let alike =
                request.op == bio.op && request.priority == bio.priority && !request.unmergeable;
            if !alike {
                None
            } else if request.end() == bio.start {
                Some(Merge::Back(id))
            } else {
                (bio.end() == request.start).then_some(Merge::Front(id))
            }
        })
    }

    /// Moves all requests behind those of `to`, CPU by CPU.
    pub(super) fn splice(&mut self, links: &mut Links, to: &mut List) {
        for list in &mut self.lists {
            while let Some(id) = list.pop_front(links) {
                to.push_back(links, id);
            }
        }
        self.queued = 0;
    }

    /// Moves the lists of so many CPUs behind `to`, from this CPU on and around. Returns the CPU after the last of them.
    pub(super) fn splice_some(
        &mut self,
        links: &mut Links,
        to: &mut List,
        from: usize,
        most: usize,
    ) -> usize {
        let cpus = self.lists.len();
        let (mut next, mut left) = (from, most);
        for cpu in (from..cpus).chain(0..from.min(cpus)) {
            if left == 0 || self.lists[cpu].first().is_none() {
                continue;
            }
            (next, left) = (cpu + 1, left - 1);
            while let Some(id) = self.lists[cpu].pop_front(links) {
                to.push_back(links, id);
                self.queued -= 1;
            }
        }
        next
    }

    /// How many requests wait.
    pub(super) fn len(&self) -> usize {
        self.queued
    }
}
