//! Writes that the controller has acknowledged and not yet put on its members.

use std::collections::BTreeMap;

use crate::units::{Sector, Sectors};

/// From this sector to that one.
type Range = (u64, u64);

#[derive(Debug)]
pub(super) struct WriteBack {
    /// Disjoint and not adjacent: begin and end.
    dirty: BTreeMap<u64, u64>,
    /// Sum of `dirty`.
    sectors: u64,
    /// On their way to the members.
    leaving: Vec<Range>,
    /// Where the last that left ended: what lies behind it leaves next.
    position: u64,
    /// No more than the rest of such a row leaves at a time.
    row: u64,
}

impl WriteBack {
    pub(super) fn new(row: Sectors) -> WriteBack {
        WriteBack {
            dirty: BTreeMap::new(),
            sectors: 0,
            leaving: Vec::new(),
            position: 0,
            row: row.as_u64(),
        }
    }

    /// Sectors that it holds, those on their way included.
    pub(super) fn used(&self) -> Sectors {
        let leaving = self.leaving.iter().map(|&(start, end)| end - start);
        Sectors::new(self.sectors + leaving.sum::<u64>())
    }

    /// Sectors that have not begun to leave.
    pub(super) fn dirty(&self) -> Sectors {
        Sectors::new(self.sectors)
    }

    /// Writes under way to the members.
    pub(super) fn leaving(&self) -> usize {
        self.leaving.len()
    }

    /// Takes a write; what it overwrites is forgotten.
    pub(super) fn write(&mut self, start: Sector, end: Sector) {
        let (mut start, mut end) = (start.as_u64(), end.as_u64());
        let touching = self.dirty.range(..=end).rev();
        let touching: Vec<Range> = touching
            .map(|(&from, &to)| (from, to))
            .take_while(|&(_, to)| to >= start)
            .collect();
        for (from, to) in touching {
            self.dirty.remove(&from);
            self.sectors -= to - from;
            (start, end) = (start.min(from), end.max(to));
        }
        self.dirty.insert(start, end);
        self.sectors += end - start;
    }

    /// True if all of this is here.
    pub(super) fn holds(&self, start: Sector, end: Sector) -> bool {
        let mut at = start.as_u64();
        while at < end.as_u64() {
            let before = self.dirty.range(..=at).next_back();
            let dirty = before.map(|(&from, &to)| (from, to));
            let here = dirty.into_iter().chain(self.leaving.iter().copied());
            let covering = here.filter(|&(from, to)| from <= at && at < to);
            let Some((_, to)) = covering.max_by_key(|&(_, to)| to) else {
                return false;
            };
            at = to;
        }
        true
    }

    /// What leaves next: in one direction over the array, and from the beginning again (C-LOOK), a row or
    /// what is dirty of it; not what is on its way already.
    pub(super) fn next(&mut self) -> Option<(Sector, Sectors)> {
        let ahead = self.dirty.range(self.position..);
        let again = self.dirty.range(..self.position);
        let mut each = ahead.chain(again).map(|(&from, &to)| (from, to));
        let (start, end, to) = each.find_map(|(from, to)| {
            let end = to.min((from / self.row + 1) * self.row);
            let leaves = |&&(start, stop): &&Range| start < end && from < stop;
            self.leaving
                .iter()
                .find(leaves)
                .is_none()
                .then_some((from, end, to))
        })?;
        self.dirty.remove(&start);
        if end < to {
            self.dirty.insert(end, to);
        }
        self.sectors -= end - start;
        self.leaving.push((start, end));
        self.position = end;
        Some((Sector::new(start), Sectors::new(end - start)))
    }

    /// What left is on the members.
    pub(super) fn left(&mut self, start: Sector, length: Sectors) {
        let range = (start.as_u64(), start.as_u64() + length.as_u64());
        let place = self.leaving.iter().position(|&other| other == range);
        self.leaving.swap_remove(place.expect("it was on its way"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_become_one_and_leave_row_by_row_in_one_direction() {
        let mut cache = WriteBack::new(Sectors::new(100));
        for (start, end) in [(150, 160), (90, 130), (130, 150), (20, 30)] {
            cache.write(Sector::new(start), Sector::new(end));
        }
        assert_eq!(cache.used(), Sectors::new(80));
        let mut left = Vec::new();
        while let Some((start, length)) = cache.next() {
            left.push((start.as_u64(), length.as_u64()));
        }
        assert_eq!(left, [(20, 10), (90, 10), (100, 60)]);
    }

    #[test]
    fn what_is_on_its_way_does_not_leave_a_second_time_before_it_is_there() {
        let mut cache = WriteBack::new(Sectors::new(100));
        let (start, end) = (Sector::new(0), Sector::new(10));
        cache.write(start, end);
        assert_eq!(cache.next(), Some((start, Sectors::new(10))));
        cache.write(start, end);
        assert_eq!((cache.next(), cache.used()), (None, Sectors::new(20)));
        cache.left(start, Sectors::new(10));
        assert_eq!(cache.next(), Some((start, Sectors::new(10))));
    }

    proptest! {
        /// Against a set of sectors: what was written is here until it has left.
        #[test]
        fn it_is_a_set_of_sectors(
            steps in prop::collection::vec((0..3_u8, 0..300_u64, 1..40_u64), 1..80),
        ) {
            let mut cache = WriteBack::new(Sectors::new(32));
            let (mut dirty, mut leaving) = (BTreeSet::new(), Vec::new());
            for (step, start, length) in steps {
                match step {
                    0 | 1 => {
                        cache.write(Sector::new(start), Sector::new(start + length));
                        dirty.extend(start..start + length);
                    }
                    _ if leaving.len() > 3 => {
                        let (start, length) = leaving.remove(0);
                        cache.left(start, length);
                    }
                    _ => if let Some((start, length)) = cache.next() {
                        for sector in start.as_u64()..(start + length).as_u64() {
                            prop_assert!(dirty.remove(&sector), "only what is dirty leaves");
                        }
                        leaving.push((start, length));
                    }
                }
                prop_assert_eq!(cache.dirty(), Sectors::new(dirty.len() as u64));
                let here = |sector: u64| dirty.contains(&sector) || leaving.iter().any(
                    |&(start, length)| start.as_u64() <= sector && sector < (start + length).as_u64());
                let asked = start..start + length;
                prop_assert_eq!(
                    cache.holds(Sector::new(start), Sector::new(start + length)),
                    asked.clone().all(here)
                );
            }
        }
    }
}
