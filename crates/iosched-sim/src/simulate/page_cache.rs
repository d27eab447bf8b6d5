//! The page cache as far as a disk sees it: which pages are there, which are dirty, which are on their way to or from the
//! disk, and when there are too many.
//!
//! Follows Linux 4.19: a flusher begins when more than the background ratio is dirty, or when
//! something has been dirty for too long, and goes over the disk in order of position; who dirties
//! beyond the ratio waits. Left out: the pauses that slow a writer down already between the two
//! ratios. It is empty at first, and what came first goes first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use crate::units::{Bytes, Nanos, Sector, Sectors, Time};

/// Sectors in a page.
pub(super) const PAGE: u64 = 8;

/// Settings of writeback, as `/proc/sys/vm/` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writeback {
    /// Memory of which dirty pages may be a part.
    pub memory: Bytes,
    /// Percent of it from which on the flusher writes (`dirty_background_ratio`).
    pub background_ratio: u8,
    /// Percent of it that are dirty at most (`dirty_ratio`).
    pub dirty_ratio: u8,
    /// What has been dirty for as long is written (`dirty_expire_centisecs`).
    pub expire: Nanos,
    /// The flusher looks for such as often (`dirty_writeback_centisecs`).
    pub interval: Nanos,
}

impl Default for Writeback {
    /// The kernel's, with memory of a gibibyte.
    fn default() -> Writeback {
        Writeback {
            memory: Bytes::from_gib(1),
            background_ratio: 10,
            dirty_ratio: 20,
            expire: Nanos::from_secs(30),
            interval: Nanos::from_secs(5),
        }
    }
}

/// The pages that these sectors touch.
pub(super) fn pages_of(start: Sector, length: Sectors) -> Range<u64> {
    start.as_u64() / PAGE..(start + length).as_u64().div_ceil(PAGE)
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// A process that waits until what of its file was on its way to the disk when it began is there.
#[derive(Debug, Clone)]
struct Waiter {
    process: usize,
    file: Range<u64>,
    /// Writes with lesser numbers count.
    before: u64,
    left: u64,
}

#[derive(Debug)]
pub(super) struct PageCache {
    settings: Writeback,
    dirty: BTreeSet<u64>,
    /// Pages with data, or on their way from the disk (false), and in which order they came.
    present: BTreeMap<u64, bool>,
    came: VecDeque<u64>,
    /// Processes that wait until pages have come, and which have not.
    readers: Vec<(usize, BTreeSet<u64>)>,
    /// Pages on their way to the disk.
    under_way: u64,
    /// Where the flusher goes on.
    cursor: u64,
    /// Since when something has been dirty.
    dirty_since: Option<Time>,
    /// The flusher writes everything that is dirty, because it has been so for too long.
    writes_all: bool,
    /// Number of the last write to the disk, and the pages of those that are under way.
    number: u64,
    writes: BTreeMap<u64, Range<u64>>,
    waiters: Vec<Waiter>,
    /// Processes that wait until less is dirty.
    throttled: Vec<usize>,
    /// When one of them last began to wait.
    waited: Option<Time>,
}

impl PageCache {
    pub(super) fn new(settings: Writeback) -> PageCache {
        PageCache {
            settings,
            dirty: BTreeSet::new(),
            present: BTreeMap::new(),
            came: VecDeque::new(),
            readers: Vec::new(),
            under_way: 0,
            cursor: 0,
            dirty_since: None,
            writes_all: false,
            number: 0,
            writes: BTreeMap::new(),
            waiters: Vec::new(),
            throttled: Vec::new(),
            waited: None,
        }
    }

    fn pages(&self, percent: u8) -> u64 {
        self.settings.memory.as_u64() / 4096 * u64::from(percent) / 100
    }

    /// More is dirty or on its way than may be.
    pub(super) fn is_full(&self) -> bool {
        self.dirty.len() as u64 + self.under_way > self.pages(self.settings.dirty_ratio)
    }

    pub(super) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The first dirty page of a file.
    pub(super) fn first_dirty_of(&self, file: &Range<u64>) -> Option<u64> {
        self.dirty.range(file.clone()).next().copied()
    }

    /// The flusher has something to do.
    pub(super) fn is_to_be_flushed(&self) -> bool {
        let background = self.pages(self.settings.background_ratio);
        let much = self.dirty.len() as u64 > background.min(self.pages(self.settings.dirty_ratio));
        self.has_dirty() && (much || self.writes_all)
    }

    /// These sectors are written to.
    pub(super) fn dirty(&mut self, now: Time, start: Sector, length: Sectors) {
        self.dirty.extend(pages_of(start, length));
        for page in pages_of(start, length) {
            self.add(page, true);
        }
        self.dirty_since.get_or_insert(now);
    }

    fn add(&mut self, page: u64, is_there: bool) {
        if self.present.insert(page, is_there).is_none() {
            self.came.push_back(page);
        }
        let most = usize::try_from(self.pages(100)).unwrap_or(usize::MAX);
        while self.came.len() > most.max(1)
            && let Some(&oldest) = self.came.front()
            && !self.dirty.contains(&oldest)
            && self.present[&oldest]
        {
            self.came.pop_front();
            self.present.remove(&oldest);
        }
    }

    /// The first of these pages that is neither there nor on its way, and how many follow it.
    pub(super) fn missing(&self, pages: Range<u64>) -> Option<Range<u64>> {
        let is_missing = |page: &u64| !self.present.contains_key(page);
        let first = pages.clone().find(is_missing)?;
        let end = (first..pages.end).find(|page| !is_missing(page));
        Some(first..end.unwrap_or(pages.end))
    }

    /// These pages are on their way from the disk.
    pub(super) fn fill_begins(&mut self, pages: Range<u64>) {
        for page in pages {
            self.add(page, false);
        }
    }

    /// They are there. Calls those that waited for one of them.
    pub(super) fn fill_ends(&mut self, pages: &Range<u64>, mut wake: impl FnMut(usize)) {
        for page in pages.clone() {
            self.present.insert(page, true);
        }
        self.readers.retain_mut(|(process, wanted)| {
            for page in pages.clone() {
                wanted.remove(&page);
            }
            if wanted.is_empty() {
                wake(*process);
            }
            !wanted.is_empty()
        });
    }

    /// The process goes on when those of these pages that are on their way have come. False if none is.
    pub(super) fn wait_for_pages(&mut self, process: usize, pages: Range<u64>) -> bool {
        let is_coming = |page: &u64| self.present.get(page) == Some(&false);
        let coming: BTreeSet<u64> = pages.filter(is_coming).collect();
        let is_to_wait = !coming.is_empty();
        if is_to_wait {
            self.readers.push((process, coming));
        }
        is_to_wait
    }

    /// True if the process waits for pages.
    pub(super) fn is_reading(&self, process: usize) -> bool {
        self.readers.iter().any(|(reader, _)| *reader == process)
    }

    /// When the flusher is to look whether something has been dirty for too long: at a multiple of
    /// its interval.
    pub(super) fn next_look(&self) -> Option<Time> {
        let expires = self.dirty_since? + self.settings.expire;
        let interval = self.settings.interval.as_nanos().max(1_000_000);
        let looks = expires.as_nanos().div_ceil(interval);
        Some(Time::from_nanos(looks * interval))
    }

    /// The flusher looks.
    pub(super) fn look(&mut self, now: Time) {
        if self.next_look().is_some_and(|look| look <= now) {
            self.writes_all = true;
        }
    }

    /// What the flusher writes next: pages that follow one another, at most this long. They are
    /// clean from now on, and on their way.
    pub(super) fn take_next(&mut self, most: Sectors) -> Option<(Sector, Sectors)> {
        let from_here = self.dirty.range(self.cursor..).next();
        let first = *from_here.or_else(|| self.dirty.first())?;
        let taken = self.take_from(first, u64::MAX, most);
        self.cursor = (taken.0 + taken.1).as_u64() / PAGE;
        Some(taken)
    }

    /// What a sync of these pages writes next, in the same way.
    pub(super) fn take_next_of(
        &mut self,
        file: &Range<u64>,
        most: Sectors,
    ) -> Option<(Sector, Sectors)> {
        let first = self.first_dirty_of(file)?;
        Some(self.take_from(first, file.end, most))
    }

    fn take_from(&mut self, first: u64, before: u64, most: Sectors) -> (Sector, Sectors) {
        let most = (most.as_u64() / PAGE).max(1);
        let before = before.min(first + most);
        let mut end = first;
        while end < before && self.dirty.remove(&end) {
            end += 1;
        }
        self.under_way += end - first;
        if self.dirty.is_empty() {
            self.dirty_since = None;
            self.writes_all = false;
        }
        (
            Sector::new(first * PAGE),
            Sectors::new((end - first) * PAGE),
        )
    }

    /// A write of what was taken begins; returns its number.
    pub(super) fn write_begins(&mut self, start: Sector, length: Sectors) -> u64 {
        self.number += 1;
        self.writes.insert(self.number, pages_of(start, length));
        self.number
    }

    /// It is done. Calls those that may go on now.
    pub(super) fn write_ends(&mut self, number: u64, length: Sectors, mut wake: impl FnMut(usize)) {
        self.under_way -= length.as_u64() / PAGE;
        let pages = self.writes.remove(&number).expect("a write ends once");
        for waiter in &mut self.waiters {
            let waits = number <= waiter.before && overlap(&pages, &waiter.file);
            waiter.left -= u64::from(waits);
            if waiter.left == 0 {
                wake(waiter.process);
            }
        }
        self.waiters.retain(|waiter| waiter.left > 0);
        if !self.is_full() {
            self.throttled.drain(..).for_each(wake);
        }
    }

    /// The process goes on when all writes of its file that are under way now are done. False if none is.
    pub(super) fn wait_for_writes(&mut self, process: usize, file: Range<u64>) -> bool {
        let writes = self.writes.values();
        let left = writes.filter(|pages| overlap(pages, &file)).count() as u64;
        if left == 0 {
            return false;
        }
        self.waiters.push(Waiter {
            process,
            file,
            before: self.number,
            left,
        });
        true
    }

    /// True if the process waits for writes.
    pub(super) fn is_waiting(&self, process: usize) -> bool {
        self.waiters.iter().any(|waiter| waiter.process == process)
    }

    /// Within the last second a process waited until less was dirty.
    pub(super) fn lately_waited(&self, now: Time) -> bool {
        let lately = |since| now.saturating_since(since) < Nanos::from_secs(1);
        !self.throttled.is_empty() || self.waited.is_some_and(lately)
    }

    /// The process goes on when less is dirty.
    pub(super) fn wait_for_room(&mut self, now: Time, process: usize) {
        self.waited = Some(now);
        if !self.throttled.contains(&process) {
            self.throttled.push(process);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> PageCache {
        PageCache::new(Writeback {
            memory: Bytes::from_kib(4 * 100),
            ..Writeback::default()
        })
    }

    #[test]
    fn what_follows_one_another_is_written_together_and_in_order() {
        let mut cache = cache();
        let now = Time::ZERO;
        for (start, length) in [(800, 16), (0, 8), (8, 8), (816, 4)] {
            cache.dirty(now, Sector::new(start), Sectors::new(length));
        }
        let most = Sectors::new(16);
        let mut taken = Vec::new();
        while let Some((start, length)) = cache.take_next(most) {
            taken.push((start.as_u64(), length.as_u64()));
        }
        assert_eq!(taken, [(0, 16), (800, 16), (816, 8)]);
        assert!(!cache.has_dirty());
    }

    #[test]
    fn the_flusher_begins_above_its_ratio_and_writers_wait_above_theirs() {
        let mut cache = cache();
        cache.dirty(Time::ZERO, Sector::ZERO, Sectors::new(10 * PAGE));
        assert!(!cache.is_to_be_flushed());
        cache.dirty(Time::ZERO, Sector::new(10 * PAGE), Sectors::new(PAGE));
        assert!(cache.is_to_be_flushed() && !cache.is_full());
        cache.dirty(Time::ZERO, Sector::new(11 * PAGE), Sectors::new(10 * PAGE));
        assert!(cache.is_full());
        let (_, length) = cache.take_next(Sectors::new(80 * PAGE)).unwrap();
        let number = cache.write_begins(Sector::ZERO, length);
        assert!(cache.is_full(), "what is on its way counts");
        cache.wait_for_room(Time::ZERO, 7);
        let mut woken = Vec::new();
        cache.write_ends(number, length, |process| woken.push(process));
        assert_eq!(woken, [7]);
    }

    #[test]
    fn who_syncs_waits_for_the_writes_before_and_not_for_later_ones() {
        let mut cache = cache();
        cache.dirty(Time::ZERO, Sector::ZERO, Sectors::new(2 * PAGE));
        let page = Sectors::new(PAGE);
        let (first, second) = {
            let (start, _) = cache.take_next(page).unwrap();
            let first = cache.write_begins(start, page);
            assert!(cache.wait_for_writes(3, 0..2));
            let (start, _) = cache.take_next(page).unwrap();
            (first, cache.write_begins(start, page))
        };
        let mut woken = Vec::new();
        cache.write_ends(second, page, |process| woken.push(process));
        assert!(woken.is_empty());
        cache.write_ends(first, page, |process| woken.push(process));
        assert_eq!(woken, [3]);
        assert!(!cache.wait_for_writes(3, 0..2));
    }
}
