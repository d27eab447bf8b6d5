//! What is to happen and when; of two things at one time the one that was planned first.
//!
//! Most of what is planned comes about the same time after what plans it, so that things of one kind
//! are planned nearly in order of time: they stand in a line of their own, and only what belongs far
//! from its end goes into a heap.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use crate::units::Time;

/// So many places from the end of a line a thing is put into it.
const NEAR: usize = 32;

/// A kind of thing that can be planned.
pub(crate) trait Planned: Copy {
    /// The line of things that are planned nearly in order of time; nothing for others.
    fn line(&self) -> Option<usize>;
}

/// When, and how many were planned before: one number, so that one comparison tells the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u128);

impl Key {
    /// After everything that is planned.
    const NEVER: Key = Key(u128::MAX);

    fn new(time: Time, number: u64) -> Key {
        Key(u128::from(time.as_nanos()) << 64 | u128::from(number))
    }

    /// How many were planned before, which no other key says.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    fn number(self) -> u64 {
        self.0 as u64
    }

    /// When it is to happen.
    #[inline]
    pub(crate) fn time(self) -> Time {
        Time::from_nanos((self.0 >> 64) as u64)
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry<E> {
    key: Key,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

#[derive(Debug)]
pub(crate) struct EventQueue<E, const LINES: usize> {
    lines: [VecDeque<Entry<E>>; LINES],
    others: BinaryHeap<Reverse<Entry<E>>>,
    /// The first entry of each line.
    firsts: [Key; LINES],
    first_other: Key,
    first: Key,
    planned: u64,
}

impl<E, const LINES: usize> Default for EventQueue<E, LINES> {
    fn default() -> EventQueue<E, LINES> {
        EventQueue {
            lines: std::array::from_fn(|_| VecDeque::with_capacity(64)),
            others: BinaryHeap::with_capacity(64),
            firsts: [Key::NEVER; LINES],
            first_other: Key::NEVER,
            first: Key::NEVER,
            planned: 0,
        }
    }
}

impl<E: Planned, const LINES: usize> EventQueue<E, LINES> {
    /// Plans something.
    #[inline]
    pub(crate) fn plan(&mut self, time: Time, event: E) {
        let key = self.reserve(time);
        self.plan_at(key, event);
    }

    /// The place that something would have if it were planned now.
    #[inline]
    pub(crate) fn reserve(&mut self, time: Time) -> Key {
        self.planned += 1;
        Key::new(time, self.planned)
    }

    /// Plans something in a place that was reserved for it.
    #[inline]
    pub(crate) fn plan_at(&mut self, key: Key, event: E) {
        self.first = self.first.min(key);
        let Some(number) = event.line() else {
            return self.plan_other(key, event);
        };
        let line = &mut self.lines[number];
        match line.back() {
            None => self.firsts[number] = key,
            Some(last) if last.key > key => return self.plan_before(number, key, event),
            Some(_) => {}
        }
        line.push_back(Entry { key, event });
    }

    /// Puts something into a line, not at its end.
    #[inline(never)]
    fn plan_before(&mut self, number: usize, key: Key, event: E) {
        let line = &mut self.lines[number];
        let later = line.iter().rev().take(NEAR + 1);
        let later = later.take_while(|other| other.key > key).count();
        if later > NEAR {
            return self.plan_other(key, event);
        }
        let place = line.len() - later;
        line.insert(place, Entry { key, event });
        if place == 0 {
            self.firsts[number] = key;
        }
    }

    #[inline(never)]
    fn plan_other(&mut self, key: Key, event: E) {
        self.first_other = self.first_other.min(key);
        self.others.push(Reverse(Entry { key, event }));
    }

    /// When something is to happen next; [`Time::MAX`] if nothing is.
    #[inline]
    pub(crate) fn next_time(&self) -> Time {
        self.first.time()
    }

    /// When the next thing in this line is to happen; [`Time::MAX`] if there is none.
    #[inline]
    pub(crate) fn next_time_in(&self, line: usize) -> Time {
        self.firsts[line].time()
    }

    /// When the next thing is to happen that stands in no line; [`Time::MAX`] if there is none.
    #[inline]
    pub(crate) fn next_other_time(&self) -> Time {
        self.first_other.time()
    }

    /// The next thing of this line.
    #[inline]
    pub(crate) fn next_in(&self, line: usize) -> Option<(Time, E)> {
        let next = self.lines[line].front();
        next.map(|entry| (entry.key.time(), entry.event))
    }

    /// The next thing, if it is due by `now`.
    #[inline]
    pub(crate) fn take_due(&mut self, now: Time) -> Option<(Key, E)> {
        let first = self.first;
        if first.time() > now || first.number() == Key::NEVER.number() {
            return None;
        }
        let heads = |head: &Key| head.number() == first.number();
        let event = match self.firsts.iter().position(heads) {
            Some(number) => self.take_from(number)?,
            None => self.take_other()?,
        };
        let firsts = self.firsts.iter().copied();
        self.first = firsts.fold(self.first_other, Key::min);
        Some((first, event))
    }

    #[inline]
    fn take_from(&mut self, number: usize) -> Option<E> {
        let line = &mut self.lines[number];
        let entry = line.pop_front()?;
        self.firsts[number] = line.front().map_or(Key::NEVER, |next| next.key);
        Some(entry.event)
    }

    #[inline(never)]
    fn take_other(&mut self) -> Option<E> {
        let Reverse(entry) = self.others.pop()?;
        let next = self.others.peek();
        self.first_other = next.map_or(Key::NEVER, |Reverse(next)| next.key);
        Some(entry.event)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Which line it stands in, if it is in 0 to 2, and its number.
    impl Planned for (usize, usize) {
        fn line(&self) -> Option<usize> {
            (self.0 < 3).then_some(self.0)
        }
    }

    proptest! {
        #[test]
        fn things_come_in_order_of_time_and_then_of_planning(
            things in prop::collection::vec((0..20_u64, 0..5_usize), 0..300),
        ) {
            let mut event_queue = EventQueue::<(usize, usize), 3>::default();
            let mut expected = Vec::new();
            let mut reserved = Vec::new();
            for (number, &(time, line)) in things.iter().enumerate() {
                let time = Time::from_nanos(time);
                if number % 5 == 3 {
                    reserved.push((event_queue.reserve(time), (line, number)));
                } else {
                    event_queue.plan(time, (line, number));
                }
                expected.push((time, (line, number)));
            }
            for (key, event) in reserved {
                event_queue.plan_at(key, event);
            }
            expected.sort_by_key(|(time, _)| *time); // keeps the order of equals
            for (time, event) in expected {
                prop_assert_eq!(event_queue.next_time(), time);
                if time > Time::ZERO {
                    let before = Time::from_nanos(time.as_nanos() - 1);
                    prop_assert!(event_queue.take_due(before).is_none());
                }
                let (key, taken) = event_queue.take_due(Time::MAX).unwrap();
                prop_assert_eq!((key.time(), taken), (time, event));
            }
            prop_assert!(event_queue.take_due(Time::MAX).is_none());
        }
    }
}
