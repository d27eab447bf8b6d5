//! The drive's read buffer: segments of data read, or read ahead.
//!
//! Nearly every random read looks for its data and finds none: which parts of the disk no segment
//! touches is known by counting, so that the segments themselves are seldom looked at.

use std::collections::VecDeque;

use crate::units::{Sector, Sectors};

/// Data in the drive's memory that were read from the medium.
#[derive(Debug, Clone, Copy)]
struct Segment {
    start: Sector,
    end: Sector,
    /// Where two hold the same, the one that was made first is used.
    made: u32,
}

/// The read segments; the least recently used one is given up for a new stream.
#[derive(Debug)]
pub(super) struct ReadBuffer {
    /// The least recently used first.
    segments: VecDeque<Segment>,
    made: u32,
    count: usize,
    length: Sectors,
    touched: Touched,
}

impl ReadBuffer {
    pub(super) fn new(count: usize, length: Sectors) -> ReadBuffer {
        ReadBuffer {
            segments: VecDeque::with_capacity(count),
            made: 0,
            count,
            length,
            touched: Touched::new(length),
        }
    }

    /// True if all of it is there.
    #[inline]
    pub(super) fn holds(&mut self, start: Sector, end: Sector) -> bool {
        self.touched.may_hold(start) && self.has_segment_of(start, end)
    }

    #[inline(never)]
    fn has_segment_of(&mut self, start: Sector, end: Sector) -> bool {
        let found = self.take(|segment| segment.start <= start && end <= segment.end);
        self.segments.extend(found);
        found.is_some()
    }

    /// Notes that the medium delivered `start` to `end`: more of a segment that ends there, or a
    /// new one.
    #[inline(always)]
    pub(super) fn fill(&mut self, start: Sector, end: Sector) {
        if self.count == 0 || start >= end {
            return;
        }
        if self.touched.may_hold(start) && self.continues_segment(start, end) {
            return;
        }
        let made = if self.segments.len() < self.count {
            self.made += 1;
            self.made
        } else {
            let oldest = self.segments.pop_front();
            let oldest = oldest.expect("there is at least one segment");
            self.touched.remove(oldest.start, oldest.end);
            oldest.made
        };
        self.put(start, end, made);
    }

    #[inline(never)]
    fn continues_segment(&mut self, start: Sector, end: Sector) -> bool {
        let found = self.take(|segment| segment.start <= start && start <= segment.end);
        if let Some(segment) = found {
            self.touched.remove(segment.start, segment.end);
            self.put(segment.start, segment.end.max(end), segment.made);
        }
        found.is_some()
    }

    /// Of the segments that are wanted the one that was made first.
    fn take(&mut self, wanted: impl Fn(&Segment) -> bool) -> Option<Segment> {
        let each = self.segments.iter().enumerate();
        let found = each.filter(|(_, segment)| wanted(segment));
        let (index, _) = found.min_by_key(|(_, segment)| segment.made)?;
        self.segments.remove(index)
    }

    /// Drops what a write made stale.
    pub(super) fn forget(&mut self, start: Sector, end: Sector) {
        if !self.touched.may_overlap(start, end) {
            return;
        }
        let touched = &mut self.touched;
        self.segments.retain(|segment| {
            let is_stale = start < segment.end && segment.start < end;
            if is_stale {
                touched.remove(segment.start, segment.end);
            }
            !is_stale
        });
    }

    /// A segment holds the end of this stretch from now on, as much as it has room for.
    #[inline(always)]
    fn put(&mut self, start: Sector, end: Sector, made: u32) {
        let start = if end - start > self.length {
            end - self.length
        } else {
            start
        };
        self.touched.add(start, end);
        self.segments.push_back(Segment { start, end, made });
    }
}

/// How many segments touch each part of the disk, where parts far from one another share a counter.
#[derive(Debug)]
struct Touched {
    counts: Vec<u16>,
    /// A part is 2^`shift` sectors: no segment is longer.
    shift: u32,
}

impl Touched {
    /// Few enough to stay in the processor's cache, many more than segments.
    const COUNTERS: u64 = 4096;

    fn new(longest: Sectors) -> Touched {
        Touched {
            counts: vec![0; usize::try_from(Self::COUNTERS).expect("a few thousand")],
            shift: longest.as_u64().max(1).next_power_of_two().ilog2(),
        }
    }

    fn part(&self, sector: Sector) -> u64 {
        sector.as_u64() >> self.shift
    }

    fn counter(part: u64) -> usize {
        (part % Self::COUNTERS) as usize
    }

    /// A segment's end counts as touched: it may be continued there.
    fn add(&mut self, start: Sector, end: Sector) {
        self.each(start, end, |count| *count += 1);
    }

    fn remove(&mut self, start: Sector, end: Sector) {
        self.each(start, end, |count| *count -= 1);
    }

    /// Nearly always that is one part.
    #[inline(always)]
    fn each(&mut self, start: Sector, end: Sector, change: impl Fn(&mut u16)) {
        let (mut part, last) = (self.part(start), self.part(end));
        change(&mut self.counts[Self::counter(part)]);
        while part < last {
            part += 1;
            change(&mut self.counts[Self::counter(part)]);
        }
    }

    /// False if no segment holds this sector, or ends before it.
    #[inline]
    fn may_hold(&self, sector: Sector) -> bool {
        self.counts[Self::counter(self.part(sector))] > 0
    }

    /// False if no segment has anything of this stretch.
    fn may_overlap(&self, start: Sector, end: Sector) -> bool {
        let (first, last) = (self.part(start), self.part(end));
        last - first >= Self::COUNTERS
            || (first..=last).any(|part| self.counts[Self::counter(part)] > 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The rules, with nothing but the segments and the time of their last use.
    struct Plain {
        segments: Vec<(u64, u64, u64)>,
        count: usize,
        length: u64,
        uses: u64,
    }

    impl Plain {
        fn holds(&mut self, start: u64, end: u64) -> bool {
            self.uses += 1;
            let mut all = self.segments.iter_mut();
            let found = all.find(|segment| segment.0 <= start && end <= segment.1);
            found.is_some_and(|segment| {
                segment.2 = self.uses;
                true
            })
        }

        fn fill(&mut self, start: u64, end: u64) {
            if self.count == 0 || start >= end {
                return;
            }
            self.uses += 1;
            let mut all = self.segments.iter_mut();
            if let Some(segment) = all.find(|segment| segment.0 <= start && start <= segment.1) {
                segment.1 = segment.1.max(end);
                segment.0 = segment.0.max(segment.1.saturating_sub(self.length));
                segment.2 = self.uses;
                return;
            }
            let segment = (start.max(end.saturating_sub(self.length)), end, self.uses);
            if self.segments.len() < self.count {
                return self.segments.push(segment);
            }
            let oldest = self.segments.iter_mut().min_by_key(|segment| segment.2);
            *oldest.unwrap() = segment;
        }

        fn forget(&mut self, start: u64, end: u64) {
            self.segments
                .retain(|segment| segment.1 <= start || end <= segment.0);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

        #[test]
        fn it_holds_what_looking_at_every_segment_finds(
            count in 0..6_usize,
            length in 1..100_u64,
            far in any::<bool>(),
            steps in prop::collection::vec((0..3_u8, 0..400_u64, 0..150_u64), 1..200),
        ) {
            let mut buffer = ReadBuffer::new(count, Sectors::new(length));
            let mut plain = Plain { segments: Vec::new(), count, length, uses: 0 };
            for &(step, start, more) in &steps {
                // Spread over a large disk, different parts share counters.
                let start = if far { start * 7919 * 128 % 50_000_000 } else { start };
                let end = start + more;
                let (first, last) = (Sector::new(start), Sector::new(end));
                match step {
                    0 => prop_assert_eq!(buffer.holds(first, last), plain.holds(start, end)),
                    1 => {
                        buffer.fill(first, last);
                        plain.fill(start, end);
                    }
                    _ => {
                        buffer.forget(first, last);
                        plain.forget(start, end);
                    }
                }
                let mut segments: Vec<_> = buffer.segments.iter().collect();
                segments.sort_unstable_by_key(|segment| segment.made);
                let held: Vec<_> = segments.iter().map(|s| (s.start.as_u64(), s.end.as_u64())).collect();
                let expected: Vec<_> = plain.segments.iter().map(|s| (s.0, s.1)).collect();
                prop_assert_eq!(held, expected);
            }
        }
    }
}
