//! Reads or writes of one priority class: in order of position, and in order of arrival.

use super::Rules;
use crate::list::{Links, List};
use crate::request::RequestId;
use crate::sorted::Sorted;
use crate::units::Sector;

#[derive(Debug, Clone, Default)]
pub(super) struct Direction {
    sorted: Sorted<Sector, RequestId>,
    pub(super) fifo: List,
    /// Where the batch goes on, by the rules before 6.5.
    next: Option<RequestId>,
    /// Where the last request dispatched began: there or behind it goes on by the rules since 6.5.
    last_position: Sector,
}

impl Direction {
    /// Without requests, and with the place where the last one was dispatched.
    pub(super) fn emptied(&self) -> Direction {
        Direction {
            last_position: self.last_position,
            ..Direction::default()
        }
    }

    pub(super) fn has_work(&self) -> bool {
        self.fifo.first().is_some()
    }

    #[inline]
    pub(super) fn insert(&mut self, links: &mut Links, start: Sector, id: RequestId) {
        self.sorted.insert(start, id);
        self.fifo.push_back(links, id);
    }

    /// The request with which a batch goes on (`deadline_next_request()`).
    #[inline]
    pub(super) fn batch_next(&self, rules: Rules) -> Option<RequestId> {
        match rules {
            Rules::SavedPointer => self.next,
            Rules::Position => {
                let next = self.sorted.at_or_after(self.last_position);
                next.map(|(_, id)| id)
            }
        }
    }

    /// Takes out a request that goes to the disk: the batch goes on behind it (`deadline_move_request()`).
    #[inline]
    pub(super) fn dispatch_request(
        &mut self,
        rules: Rules,
        links: &mut Links,
        start: Sector,
        id: RequestId,
    ) {
        let place = self.sorted.take_out(start, id);
        if rules == Rules::SavedPointer {
            self.next = self.sorted.value_at(place);
        }
        self.fifo.remove(links, id);
        self.last_position = start;
    }

    /// Takes a request out of the order of positions, not of arrival: a batch that was to go on with
    /// it goes on with the one behind it.
    pub(super) fn unsort(&mut self, start: Sector, id: RequestId) {
        let next = self.sorted.remove(start, id);
        if self.next == Some(id) {
            self.next = next;
        }
    }

    /// A request begins elsewhere now: a batch that was to go on with it still does.
    pub(super) fn moved(&mut self, old: Sector, new: Sector, id: RequestId) {
        self.sorted.remove(old, id);
        self.sorted.insert(new, id);
    }

    /// A request that begins here.
    pub(super) fn at(&self, start: Sector) -> Option<RequestId> {
        self.sorted.at(start)
    }

    pub(super) fn predecessor(&self, start: Sector, id: RequestId) -> Option<RequestId> {
        self.sorted.predecessor(start, id)
    }

    pub(super) fn successor(&self, start: Sector, id: RequestId) -> Option<RequestId> {
        self.sorted.successor(start, id)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Requests;
    use crate::scheduler::fixture::bio;
    use crate::units::Time;

    proptest! {
        #[test]
        fn a_batch_goes_on_with_the_first_at_the_last_position_or_behind(
            steps in prop::collection::vec((0..5_u8, 0..12_u64), 1..120),
        ) {
            let (mut direction, mut links) = (Direction::default(), Links::default());
            let mut requests = Requests::default();
            let mut queued: Vec<(Sector, RequestId)> = Vec::new(); // sorted, equals as they came
            let mut last = Sector::ZERO;
            for (step, start) in steps {
                let start = Sector::new(start);
                let found = queued.iter().position(|&(at, _)| at >= start);
                match (step, found) {
                    (0, Some(place)) => {
                        let (at, id) = queued.remove(place);
                        direction.dispatch_request(Rules::Position, &mut links, at, id);
                        last = at;
                    }
                    (1, Some(place)) => {
                        let (at, id) = queued.remove(place);
                        direction.unsort(at, id);
                        direction.fifo.remove(&mut links, id);
                    }
                    (2, Some(place)) => {
                        let (old, id) = queued.remove(place);
                        direction.moved(old, start, id);
                        let place = queued.partition_point(|&(at, _)| at <= start);
                        queued.insert(place, (start, id));
                    }
                    _ => {
                        let id = requests.add(crate::request::Request::new(&bio(start), Time::ZERO));
                        direction.insert(&mut links, start, id);
                        let place = queued.partition_point(|&(at, _)| at <= start);
                        queued.insert(place, (start, id));
                    }
                }
                let next = queued.iter().find(|&&(at, _)| at >= last);
                prop_assert_eq!(direction.batch_next(Rules::Position), next.map(|&(_, id)| id));
                prop_assert_eq!(direction.has_work(), !queued.is_empty());
            }
        }
    }
}
