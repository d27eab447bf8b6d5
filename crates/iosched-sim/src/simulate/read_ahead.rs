//! Which pages are read before a process asks for them (Linux, `mm/readahead.c`: `ondemand_readahead`; what a stream reads
//! is guessed from what it read before).
//!
//! A window grows from four times what is asked for to [`MOST`] pages while the process reads on. When it reaches the page
//! that marks where the unread part begins, the next window is read. Left out: streams that are recognised by the pages
//! before them only, and `posix_fadvise`.

use std::ops::Range;

/// The longest window: `read_ahead_kb` of 128.
const MOST: u64 = 32;

/// What was read ahead for a process.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadAhead {
    start: u64,
    size: u64,
    /// So many pages at its end are not asked for yet: when the first of them is, the next window is read.
    ahead: u64,
    /// The page after the last that it read.
    last: Option<u64>,
}

impl ReadAhead {
    /// The process reads these pages of a file that ends there: the windows that are read now.
    pub(super) fn read(
        &mut self,
        pages: &Range<u64>,
        end: u64,
        is_there: impl Fn(u64) -> bool,
    ) -> Vec<Range<u64>> {
        let mut windows = Vec::new();
        let mut page = pages.start;
        while page < pages.end {
            let is_marked = self.size > 0 && page == self.start + self.size - self.ahead;
            if !is_there(page)
                && !windows
                    .last()
                    .is_some_and(|window: &Range<u64>| window.contains(&page))
            {
                windows.extend(self.missed(page, pages.end - page, end));
            } else if is_marked && self.ahead > 0 {
                windows.extend(self.next(end));
            }
            page += 1;
            self.last = Some(page);
        }
        windows
    }

    /// A page is not there, and so many from it on are wanted.
    fn missed(&mut self, page: u64, wanted: u64, end: u64) -> Option<Range<u64>> {
        let follows = self.size > 0 && page == self.start + self.size;
        let is_sequential = self
            .last
            .is_none_or(|last| last == page || last == page + 1);
        if follows {
            return self.next(end);
        }
        if wanted <= MOST && !(is_sequential && (self.last.is_some() || page == 0)) {
            return Some(page..page + wanted); // a random read: just what is asked for
        }
        self.start = page;
        self.size = first_window(wanted);
        self.ahead = if self.size > wanted {
            self.size - wanted
        } else {
            self.size
        };
        let window = page..(page + self.size).min(end);
        if self.size == self.ahead {
            let more = self.next(end);
            return Some(page..more.map_or(window.end, |more| more.end));
        }
        Some(window)
    }

    /// The window behind this one.
    fn next(&mut self, end: u64) -> Option<Range<u64>> {
        self.start += self.size;
        self.size = if self.size < MOST / 16 {
            4 * self.size
        } else {
            (2 * self.size).min(MOST)
        };
        self.ahead = self.size;
        let window = self.start..(self.start + self.size).min(end);
        (!window.is_empty()).then_some(window)
    }
}

/// The first window of a stream that asks for so many pages.
fn first_window(wanted: u64) -> u64 {
    match wanted.next_power_of_two() {
        pages if pages <= MOST / 32 => pages * 4,
        pages if pages <= MOST / 4 => pages * 2,
        _ => MOST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What is read for these reads, one after the other.
    fn windows(reads: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
        let mut read_ahead = ReadAhead::default();
        let mut there = BTreeSet::new();
        let mut all = Vec::new();
        for read in reads {
            let mut windows = read_ahead.read(&read, 1_000_000, |page| there.contains(&page));
            windows.push(read);
            for window in windows {
                let missing: Vec<u64> = window.filter(|page| !there.contains(page)).collect();
                if let (Some(first), Some(last)) = (missing.first(), missing.last()) {
                    all.push(*first..last + 1);
                }
                there.extend(missing);
            }
        }
        all
    }

    #[test]
    fn windows_grow_while_a_process_reads_on() {
        let found = windows((0..80).map(|page| page..page + 1));
        assert_eq!(found[..5], [0..4, 4..12, 12..28, 28..60, 60..92]);
    }

    #[test]
    fn random_reads_are_read_as_they_are() {
        let pages = [900, 17, 40_000, 5, 777];
        let found = windows(pages.map(|page| page..page + 4));
        assert_eq!(found, pages.map(|page| page..page + 4));
    }
}
