//! A service tree: queues of one class and type in the order in which they are to be served.

use std::collections::BTreeMap;

use super::QueueId;
use super::think::ThinkTime;
use crate::units::Time;

/// Where a queue stands in a tree: its key, and among equal keys the order of arrival.
pub(super) type Place = (i64, u64);

#[derive(Debug, Clone)]
pub(super) struct ServiceTree {
    queues: BTreeMap<Place, QueueId>,
    arrivals: u64,
    /// Think time of the tree's requests together.
    pub(super) think: ThinkTime,
}

impl ServiceTree {
    pub(super) fn new(now: Time) -> ServiceTree {
        ServiceTree {
            queues: BTreeMap::new(),
            arrivals: 0,
            think: ThinkTime::new(now),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.queues.len() as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// The queue to be served first, with its key.
    pub(super) fn first(&self) -> Option<(i64, QueueId)> {
        self.queues
            .first_key_value()
            .map(|(&(key, _), &queue)| (key, queue))
    }

    pub(super) fn insert(&mut self, key: i64, queue: QueueId) -> Place {
        self.arrivals += 1;
        let place = (key, self.arrivals);
        self.queues.insert(place, queue);
        place
    }

    pub(super) fn remove(&mut self, place: Place) {
        let removed = self.queues.remove(&place);
        assert!(
            removed.is_some(),
            "a queue leaves the tree that it stands in"
        );
    }
}
