//! A die: one operation at a time, reads before programs.
//!
//! Reads are done in the order in which they come. They go before a program that has not begun; one that has
//! begun they suspend, if the die can, or wait for. A program is put off only for so long, so that reads without
//! end do not keep the write buffer full for ever.

use std::collections::VecDeque;

use crate::units::{Bytes, Nanos, Time};

/// A program is put off by reads for at most so many times as long as it takes.
const PUT_OFF_TIMES: u64 = 4;

/// How the dies of a drive program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Programming {
    time: Nanos,
    suspend: Option<Nanos>,
    /// From then on reads wait for the program.
    most_put_off: Nanos,
}

impl Programming {
    pub(super) fn new(time: Nanos, suspend: Option<Nanos>) -> Programming {
        Programming {
            time,
            suspend,
            most_put_off: time * PUT_OFF_TIMES,
        }
    }
}

/// Data on their way from the buffer to the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Program {
    /// How many were given to the dies before.
    pub(super) number: u64,
    pub(super) bytes: Bytes,
}

/// The program that a die is at, or begins after the reads that it has.
#[derive(Debug, Clone, Copy)]
struct Current {
    program: Program,
    begins: Time,
    ends: Time,
    put_off: Nanos,
}

#[derive(Debug, Default)]
pub(super) struct Die {
    /// When all reads that it was given are done.
    reads_until: Time,
    current: Option<Current>,
    waiting: VecDeque<Program>,
}

impl Die {
    /// A page is read, which takes `time`; when that is done.
    pub(super) fn read(&mut self, now: Time, time: Nanos, programming: &Programming) -> Time {
        let mut start = self.reads_until.max(now);
        if let Some(current) = &mut self.current
            && current.ends > start
        {
            let may_put_off = current.put_off < programming.most_put_off;
            let has_begun = current.begins < start;
            let is_suspended = has_begun && self.reads_until > now;
            let suspend = match programming.suspend {
                _ if !has_begun || is_suspended => Some(Nanos::ZERO),
                Some(suspend) if current.ends - start > suspend => Some(suspend),
                _ => None,
            };
            match suspend.filter(|_| may_put_off) {
                Some(suspend) => {
                    start += suspend;
                    let delay = suspend + time;
                    current.ends += delay;
                    current.put_off += delay;
                    if !has_begun {
                        current.begins += delay;
                    }
                }
                None => start = current.ends,
            }
        }
        self.reads_until = start + time;
        self.reads_until
    }

    /// Takes a program. Says when it ends, if nothing puts it off, where it is the die's next.
    pub(super) fn program(
        &mut self,
        now: Time,
        program: Program,
        programming: &Programming,
    ) -> Option<Time> {
        if self.current.is_some() {
            self.waiting.push_back(program);
            return None;
        }
        Some(self.begin(now, program, programming))
    }

    fn begin(&mut self, now: Time, program: Program, programming: &Programming) -> Time {
        let begins = self.reads_until.max(now);
        let ends = begins + programming.time;
        self.current = Some(Current {
            program,
            begins,
            ends,
            put_off: Nanos::ZERO,
        });
        ends
    }

    /// The current program was to end by now: it, if it has, and when this is to be asked again.
    pub(super) fn ends(
        &mut self,
        now: Time,
        programming: &Programming,
    ) -> (Option<Program>, Option<Time>) {
        match self.current {
            Some(current) if current.ends > now => (None, Some(current.ends)),
            Some(current) => {
                self.current = None;
                let next = self.waiting.pop_front();
                let end = next.map(|next| self.begin(now, next, programming));
                (Some(current.program), end)
            }
            None => (None, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Nanos = Nanos::from_micros(50);

    fn programming(suspend: Option<u64>) -> Programming {
        Programming::new(Nanos::from_micros(400), suspend.map(Nanos::from_micros))
    }

    fn at(micros: u64) -> Time {
        Time::ZERO + Nanos::from_micros(micros)
    }

    fn program(number: u64) -> Program {
        Program {
            number,
            bytes: Bytes::from_kib(64),
        }
    }

    #[test]
    fn a_read_waits_for_the_program_under_way_and_goes_before_the_next() {
        let (mut die, programming) = (Die::default(), programming(None));
        assert_eq!(die.program(at(0), program(0), &programming), Some(at(400)));
        assert_eq!(die.program(at(0), program(1), &programming), None);
        assert_eq!(die.read(at(100), READ, &programming), at(450));
        let (ended, next) = die.ends(at(400), &programming);
        assert_eq!((ended, next), (Some(program(0)), Some(at(850))));
        // One that comes before the second program has begun goes first, too.
        assert_eq!(die.read(at(420), READ, &programming), at(500));
        assert_eq!(die.ends(at(850), &programming), (None, Some(at(900))));
        assert_eq!(die.ends(at(900), &programming), (Some(program(1)), None));
    }

    #[test]
    fn a_suspended_program_ends_later_by_the_reads_and_the_suspension() {
        let (mut die, programming) = (Die::default(), programming(Some(20)));
        die.program(at(0), program(0), &programming);
        assert_eq!(die.read(at(100), READ, &programming), at(170));
        // The next read finds it suspended.
        assert_eq!(die.read(at(110), READ, &programming), at(220));
        assert_eq!(die.ends(at(400), &programming), (None, Some(at(520))));
        // What is left takes no longer than suspending it.
        assert_eq!(die.read(at(510), READ, &programming), at(570));
        assert_eq!(die.ends(at(520), &programming), (Some(program(0)), None));
    }

    #[test]
    fn reads_without_end_do_not_keep_a_program_from_its_end() {
        for suspend in [None, Some(20)] {
            let (mut die, programming) = (Die::default(), programming(suspend));
            let mut now = die.read(at(0), READ, &programming);
            let mut end = die.program(at(10), program(0), &programming).unwrap();
            while now < at(10_000) {
                now = die.read(now - Nanos::from_micros(10), READ, &programming);
                if now < end {
                    continue;
                }
                match die.ends(end, &programming) {
                    (Some(_), _) => break,
                    (None, again) => end = again.unwrap(),
                }
            }
            assert!(now <= at(3_000), "{suspend:?}: {now:?}");
        }
    }
}
