//! The drive's read buffer: segments of data read, or read ahead.
//!
//! Nearly every random read looks for its data and finds none: which parts of the disk no segment
//! touches is known by counting, so that the segments themselves are seldom looked at.

use crate::units::{Sector, Sectors};

/// Data in the drive's memory that were read from the medium.
#[derive(Debug, Clone, Copy)]
struct Segment {
    start: Sector,
    end: Sector,
    /// The one used next before this one, and next after it.
    older: Option<u32>,
    newer: Option<u32>,
}

/// The read segments; the least recently used one is given up for a new stream.
#[derive(Debug)]
pub(super) struct ReadBuffer {
    /// In order of their making, as far as none was dropped.
    segments: Vec<Segment>,
    oldest: Option<u32>,
    newest: Option<u32>,
    count: usize,
    length: Sectors,
    touched: Touched,
}

impl ReadBuffer {
    pub(super) fn new(count: usize, length: Sectors) -> ReadBuffer {
        ReadBuffer {
            segments: Vec::with_capacity(count),
            oldest: None,
            newest: None,
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
        let holds = |segment: &Segment| segment.start <= start && end <= segment.end;
        let found = self.segments.iter().position(holds);
        if let Some(index) = found {
            self.use_again(index);
        }
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
        let index = if self.segments.len() < self.count {
            self.add_segment(start)
        } else {
            let oldest = self.oldest.expect("there is at least one segment") as usize;
            self.unlink(oldest);
            oldest
        };
        self.place(index, start, end);
        self.link_newest(index);
    }

    #[inline(never)]
    fn continues_segment(&mut self, start: Sector, end: Sector) -> bool {
        let continues = |segment: &Segment| segment.start <= start && start <= segment.end;
        let found = self.segments.iter().position(continues);
        if let Some(index) = found {
            let segment = self.segments[index];
            self.place(index, segment.start, segment.end.max(end));
            self.use_again(index);
        }
        found.is_some()
    }

    #[cold]
    fn add_segment(&mut self, start: Sector) -> usize {
        self.segments.push(Segment {
            start,
            end: start,
            older: None,
            newer: None,
        });
        self.touched.add(start, start);
        self.segments.len() - 1
    }

    /// Drops what a write made stale.
    pub(super) fn forget(&mut self, start: Sector, end: Sector) {
        if !self.touched.may_overlap(start, end) {
            return;
        }
        let mut index = 0;
        while let Some(&segment) = self.segments.get(index) {
            if start < segment.end && segment.start < end {
                self.drop_segment(index);
            } else {
                index += 1;
            }
        }
    }

    fn drop_segment(&mut self, index: usize) {
        self.unlink(index);
        let Segment { start, end, .. } = self.segments.remove(index);
        self.touched.remove(start, end);
        // Those behind it have moved.
        let moved = |link: &mut Option<u32>| {
            if let Some(link) = link.as_mut().filter(|link| **link as usize > index) {
                *link -= 1;
            }
        };
        for segment in &mut self.segments {
            moved(&mut segment.older);
            moved(&mut segment.newer);
        }
        moved(&mut self.oldest);
        moved(&mut self.newest);
    }

    /// A segment holds the end of this stretch from now on, as much as it has room for.
    #[inline(always)]
    fn place(&mut self, index: usize, start: Sector, end: Sector) {
        let start = if end - start > self.length {
            end - self.length
        } else {
            start
        };
        let segment = &mut self.segments[index];
        self.touched.remove(segment.start, segment.end);
        self.touched.add(start, end);
        (segment.start, segment.end) = (start, end);
    }

    fn use_again(&mut self, index: usize) {
        self.unlink(index);
        self.link_newest(index);
    }

    fn unlink(&mut self, index: usize) {
        let Segment { older, newer, .. } = self.segments[index];
        match older {
            Some(older) => self.segments[older as usize].newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.segments[newer as usize].older = older,
            None => self.newest = older,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a drive has few segments")]
    fn link_newest(&mut self, index: usize) {
        let older = self.newest.replace(index as u32);
        self.segments[index].older = older;
        self.segments[index].newer = None;
        match older {
            Some(older) => self.segments[older as usize].newer = Some(index as u32),
            None => self.oldest = Some(index as u32),
        }
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
                let segments = buffer.segments.iter();
                let held: Vec<_> = segments.map(|s| (s.start.as_u64(), s.end.as_u64())).collect();
                let expected: Vec<_> = plain.segments.iter().map(|s| (s.0, s.1)).collect();
                prop_assert_eq!(held, expected);
            }
        }
    }
}
