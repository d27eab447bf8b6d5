//! Requests or queues in order of a key, those with equal keys in order of arrival.
//!
//! A table of pairs, searched by halving: with the few hundred entries that a queue of a disk holds,
//! moving what lies behind a place is faster than following the nodes of a tree, and nothing is
//! allocated once the table has grown to the most that was ever in it. With very many entries
//! (`nr_requests` above 10 000) inserting gets slow, not wrong.
//!
//! While there are few entries, each operation goes through all of them and does the same with each:
//! where random requests stand is chance, and each branch that follows chance costs as much as a dozen
//! comparisons.

/// So many entries are few.
const FEW: usize = 16;

#[derive(Debug, Clone)]
pub(crate) struct Sorted<K, V> {
    entries: Vec<(K, V)>,
}

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Sorted<K, V> {
        Sorted {
            entries: Vec::new(),
        }
    }
}

impl<K: Copy + Ord, V: Copy + PartialEq> Sorted<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn are_few(&self) -> bool {
        self.entries.len() <= FEW
    }

    /// For how many keys this holds: for the first ones and for none behind them.
    fn count(&self, holds: impl Fn(K) -> bool) -> usize {
        if self.are_few() {
            let each = self.entries.iter().map(|&(key, _)| usize::from(holds(key)));
            each.sum()
        } else {
            self.count_by_halving(holds)
        }
    }

    #[inline(never)]
    fn count_by_halving(&self, holds: impl Fn(K) -> bool) -> usize {
        self.entries.partition_point(|&(key, _)| holds(key))
    }

    /// Puts a value behind all whose keys are not greater.
    #[inline]
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.are_few() {
            return self.insert_among_few(key, value);
        }
        let place = self.count_by_halving(|other| other <= key);
        self.entries.insert(place, (key, value));
    }

    /// Each entry behind the place moves into the next one's.
    fn insert_among_few(&mut self, key: K, value: V) {
        let mut moving = (key, value);
        for entry in &mut self.entries {
            let (old, stays) = (*entry, entry.0 <= key);
            *entry = if stays { old } else { moving };
            moving = if stays { moving } else { old };
        }
        self.entries.push(moving);
    }

    /// Takes a value out; says which one stood after it.
    ///
    /// # Panics
    /// As [`Sorted::place`].
    #[inline]
    pub(crate) fn remove(&mut self, key: K, value: V) -> Option<V> {
        let place = self.take_out(key, value);
        self.value_at(place)
    }

    /// Takes a value out; says where it stood, where the one after it stands now.
    ///
    /// # Panics
    /// As [`Sorted::place`].
    #[inline]
    pub(crate) fn take_out(&mut self, key: K, value: V) -> usize {
        let place = self.place(key, value);
        if self.are_few() {
            self.remove_among_few(place);
        } else {
            self.entries.remove(place);
        }
        place
    }

    /// What stands at a place.
    #[inline]
    pub(crate) fn value_at(&self, place: usize) -> Option<V> {
        self.entries.get(place).map(|(_, value)| *value)
    }

    /// Each place from this one on takes the entry of the next.
    fn remove_among_few(&mut self, place: usize) {
        assert!(place < self.entries.len(), "nothing stands at {place}");
        for at in 1..self.entries.len() {
            let (stays, moves) = (self.entries[at - 1], self.entries[at]);
            self.entries[at - 1] = if at <= place { stays } else { moves };
        }
        self.entries.pop();
    }

    /// Where a value stands, counted from the first.
    ///
    /// # Panics
    /// If it does not stand under this key: whoever sorts it in knows its key.
    #[inline]
    pub(crate) fn place(&self, key: K, value: V) -> usize {
        let mut place = self.first_from(key);
        while self.entries[place].1 != value {
            place += 1;
        }
        assert!(self.entries[place].0 == key, "a value stands under its key");
        place
    }

    /// The place of the first whose key is not less.
    fn first_from(&self, key: K) -> usize {
        self.count(|other| other < key)
    }

    pub(crate) fn first(&self) -> Option<(K, V)> {
        self.entries.first().copied()
    }

    pub(crate) fn last(&self) -> Option<(K, V)> {
        self.entries.last().copied()
    }

    /// The first under this key or a greater one.
    pub(crate) fn at_or_after(&self, key: K) -> Option<(K, V)> {
        self.entries.get(self.first_from(key)).copied()
    }

    /// The last under a lesser key.
    pub(crate) fn before(&self, key: K) -> Option<(K, V)> {
        let place = self.first_from(key).checked_sub(1)?;
        self.entries.get(place).copied()
    }

    /// The first under exactly this key.
    pub(crate) fn at(&self, key: K) -> Option<V> {
        if self.are_few() && !self.is_among_few(key) {
            return None; // as nearly always, where random requests stand
        }
        let found = self.at_or_after(key).filter(|(other, _)| *other == key);
        found.map(|(_, value)| value)
    }

    fn is_among_few(&self, key: K) -> bool {
        let each = self.entries.iter().map(|&(other, _)| other == key);
        each.fold(false, |found, is_it| found | is_it)
    }

    /// The value before this one.
    pub(crate) fn predecessor(&self, key: K, value: V) -> Option<V> {
        let place = self.place(key, value).checked_sub(1)?;
        self.entries.get(place).map(|(_, value)| *value)
    }

    /// The value after this one.
    pub(crate) fn successor(&self, key: K, value: V) -> Option<V> {
        let next = self.entries.get(self.place(key, value) + 1);
        next.map(|(_, value)| *value)
    }

    /// The values before and after this one.
    pub(crate) fn neighbours(&self, key: K, value: V) -> (Option<V>, Option<V>) {
        let place = self.place(key, value);
        let before = place.checked_sub(1).map(|place| self.entries[place].1);
        let after = self.entries.get(place + 1).map(|(_, value)| *value);
        (before, after)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a tree with the key and the number of arrival.
        #[test]
        fn it_is_a_tree_with_numbered_arrivals(
            steps in prop::collection::vec((any::<bool>(), 0..6_u64), 1..200),
        ) {
            let mut sorted = Sorted::default();
            let mut tree = BTreeSet::new();
            for (number, &(insert, key)) in steps.iter().enumerate() {
                let present = tree.range((key, 0)..).next().copied();
                match present {
                    Some((key, old)) if !insert => {
                        let next = tree.range((key, old + 1)..).next().map(|place| place.1);
                        prop_assert_eq!(sorted.remove(key, old), next);
                        tree.remove(&(key, old));
                    }
                    _ => {
                        sorted.insert(key, number);
                        tree.insert((key, number));
                    }
                }
                let values = |range: &mut dyn Iterator<Item = (u64, usize)>| range.next();
                let from = values(&mut tree.range((key, 0)..).copied());
                let before = values(&mut tree.range(..(key, 0)).rev().copied());
                prop_assert_eq!(sorted.at_or_after(key), from);
                prop_assert_eq!(sorted.before(key), before);
                prop_assert_eq!(sorted.len(), tree.len());
                prop_assert_eq!(sorted.first(), tree.first().copied());
                if let Some((key, value)) = from {
                    let next = tree.range((key, value + 1)..).next().map(|place| place.1);
                    let last = tree.range(..(key, value)).next_back().map(|place| place.1);
                    prop_assert_eq!(sorted.successor(key, value), next);
                    prop_assert_eq!(sorted.neighbours(key, value), (last, next));
                }
            }
        }
    }
}
