//! What the controller reads ahead: behind a read that goes on where an earlier one ended.

use crate::units::{Sector, Sectors, Time};

/// Readers that it tells apart.
const STREAMS: usize = 32;

/// Someone who waits for what is being read ahead: a command's tag, when it began, and how much it reads.
pub(super) type Waiter = (u64, Time, Sectors);

/// A reader in sequence: the window behind its last read.
#[derive(Debug, Default)]
struct Stream {
    /// Where its next read begins.
    next: u64,
    /// What lies from there to here has been read ahead.
    ready_to: u64,
    /// And to here it has been asked for.
    asked_to: u64,
    waiting: Vec<Waiter>,
    /// Number of the last read, to find the one that was used least recently.
    used: u64,
}

impl Stream {
    fn is_coming(&self) -> bool {
        self.asked_to > self.ready_to
    }
}

/// What was found of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// All of it.
    Here,
    /// It is being read ahead: [`Streams::wait`].
    Coming(usize),
    /// Not all of it.
    Nothing,
}

/// What is to be read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fetch {
    pub(super) stream: usize,
    pub(super) start: Sector,
    pub(super) length: Sectors,
}

#[derive(Debug)]
pub(super) struct Streams {
    readers: Vec<Stream>,
    /// So many sectors are read ahead at a time; none: nothing is.
    ahead: u64,
    capacity: u64,
    reads: u64,
}

impl Streams {
    pub(super) fn new(ahead: Sectors, capacity: Sectors) -> Streams {
        Streams {
            readers: Vec::new(),
            ahead: ahead.as_u64(),
            capacity: capacity.as_u64(),
            reads: 0,
        }
    }

    /// A read: what there is of it, and what to read ahead now.
    pub(super) fn read(&mut self, start: Sector, length: Sectors) -> (Found, Option<Fetch>) {
        if self.ahead == 0 {
            return (Found::Nothing, None);
        }
        self.reads += 1;
        let (start, end) = (start.as_u64(), start.as_u64() + length.as_u64());
        let goes_on = self.readers.iter().position(|stream| stream.next == start);
        let Some(index) = goes_on else {
            self.begin(end);
            return (Found::Nothing, None);
        };
        let stream = &mut self.readers[index];
        (stream.next, stream.used) = (end, self.reads);
        let found = match () {
            () if end <= stream.ready_to => Found::Here,
            () if end <= stream.asked_to => Found::Coming(index),
            () => Found::Nothing,
        };
        (found, self.fetch(index))
    }

    /// More is read ahead when less than half of that is left.
    fn fetch(&mut self, index: usize) -> Option<Fetch> {
        let stream = &mut self.readers[index];
        let from = stream.asked_to.max(stream.next);
        let enough = stream.asked_to >= stream.next + self.ahead.div_ceil(2);
        let to = (from + self.ahead).min(self.capacity);
        if stream.is_coming() || enough || from >= to {
            return None;
        }
        (stream.ready_to, stream.asked_to) = (from, to);
        Some(Fetch {
            stream: index,
            start: Sector::new(from),
            length: Sectors::new(to - from),
        })
    }

    /// A reader that may go on at `next`, in the place of the one that read least recently.
    fn begin(&mut self, next: u64) {
        let stream = Stream {
            next,
            ready_to: next,
            asked_to: next,
            waiting: Vec::new(),
            used: self.reads,
        };
        if self.readers.len() < STREAMS {
            self.readers.push(stream);
            return;
        }
        let idle = self.readers.iter_mut().filter(|stream| !stream.is_coming());
        if let Some(oldest) = idle.min_by_key(|stream| stream.used) {
            *oldest = stream;
        }
    }

    /// A read waits for what is coming.
    pub(super) fn wait(&mut self, stream: usize, waiter: Waiter) {
        self.readers[stream].waiting.push(waiter);
    }

    /// What was read ahead is here: who waited for it.
    pub(super) fn fetched(&mut self, stream: usize) -> Vec<Waiter> {
        let stream = &mut self.readers[stream];
        stream.ready_to = stream.asked_to;
        std::mem::take(&mut stream.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(streams: &mut Streams, start: u64) -> (Found, Option<Fetch>) {
        streams.read(Sector::new(start), Sectors::new(8))
    }

    fn streams() -> Streams {
        Streams::new(Sectors::new(32), Sectors::new(10_000))
    }

    #[test]
    fn what_goes_on_is_read_ahead_and_found_and_what_does_not_is_not() {
        let mut streams = streams();
        assert_eq!(read(&mut streams, 0), (Found::Nothing, None));
        let (found, fetch) = read(&mut streams, 8);
        let fetch = fetch.expect("the second in sequence begins it");
        assert_eq!(found, Found::Nothing);
        assert_eq!(
            (fetch.start, fetch.length),
            (Sector::new(16), Sectors::new(32))
        );
        assert_eq!(read(&mut streams, 16), (Found::Coming(fetch.stream), None));
        assert_eq!(streams.fetched(fetch.stream), []);
        let (found, more) = read(&mut streams, 24);
        assert_eq!((found, more), (Found::Here, None), "half of it is left");
        let (found, more) = read(&mut streams, 32);
        assert_eq!(found, Found::Here);
        assert_eq!(more.map(|fetch| fetch.start), Some(Sector::new(48)));
        assert_eq!(read(&mut streams, 5000), (Found::Nothing, None));
    }

    #[test]
    fn nothing_is_read_ahead_beyond_the_end() {
        let mut streams = streams();
        read(&mut streams, 9976);
        let (_, fetch) = read(&mut streams, 9984);
        assert_eq!(fetch.map(|fetch| fetch.length), Some(Sectors::new(8)));
        let (_, fetch) = read(&mut streams, 9992);
        assert_eq!(fetch, None);
    }

    #[test]
    fn more_readers_than_are_told_apart_push_out_the_one_that_read_least_recently() {
        let mut streams = streams();
        for reader in 0..=STREAMS as u64 {
            read(&mut streams, reader * 100);
        }
        assert_eq!(read(&mut streams, 8).1, None, "the first is forgotten");
        assert!(read(&mut streams, 308).1.is_some(), "the fourth is not");
    }
}
