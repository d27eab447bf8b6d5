//! Following a recording of kyber.

use iosched_facts::event::KyberEvent;

use super::domain::{DISCARD, Domain, MAX_DEPTH, READ, WRITE};
use super::{BATCHING, Kyber, Queue};
use crate::request::{RequestId, Requests};
use crate::scheduler::{Followed, Kernel, NamedValues, Values};
use crate::units::{Sector, Time};

impl Followed for Kyber {
    fn dispatch_recorded(&mut self, _now: Time, requests: &Requests, id: RequestId) {
        let (queue, domain) = self.place(requests, id);
        let _ = self.choose(queue); // what the choice changes, changes all the same
        let queue = &mut self.queues[queue];
        if queue.current != domain {
            (queue.current, queue.batching) = (domain, 0);
        }
        queue.domains[domain].expose(&mut self.links, requests, id);
        self.dispatch_request(requests, id);
    }

    fn timer_recorded(&mut self, now: Time, _requests: &Requests, said: &[KyberEvent]) -> usize {
        self.due = None;
        let before = self.depths();
        self.adjust(now, Some(said));
        let mut agreed = 0;
        for (index, (name, before)) in before.into_iter().enumerate() {
            let depth = said.iter().find_map(|statement| statement.depth(name));
            let ours = self.domains[index].tokens.depth();
            agreed += usize::from(depth == Some(ours));
            self.domains[index].set_depth(depth.unwrap_or(before), MAX_DEPTH[index]);
        }
        agreed
    }

    /// Depths, latencies and the batch stay. More than a second has passed, so that few samples will do.
    fn carried_over(&self, kernel: &Kernel) -> Option<Box<dyn Followed>> {
        let emptied = |index: usize| {
            let domain = &self.domains[index];
            Domain {
                total: domain.total,
                device: domain.device,
                saved_p99: domain.saved_p99,
                deadline: domain.deadline.map(|_| 0),
                ..Domain::new(index, domain.tokens.depth(), domain.quarter_of_target)
            }
        };
        let domains = [READ, WRITE, DISCARD].map(emptied);
        Some(Box::new(Kyber {
            queues: self.queues.iter().map(Queue::emptied).collect(),
            ..Kyber::with_domains(self.info, kernel, domains)
        }))
    }

    fn begin_with(&mut self, state: &Values) {
        if let Some(batching) = state.given(BATCHING) {
            self.queues[0].batching = u32::try_from(batching).unwrap_or(0);
        }
    }

    /// What was not recorded may have ended the batch.
    fn plausible_states(&self, _first: Sector) -> NamedValues {
        vec![(BATCHING.to_owned(), 0)]
    }

    fn duplicate(&self) -> Box<dyn Followed> {
        Box::new(self.clone())
    }
}
