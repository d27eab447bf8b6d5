//! A die: one operation at a time, reads before programs.
//!
//! Reads are done in the order in which they come. They go before a program that has not begun, and wait for one that has.
//! A program is put off only for so long, so that reads without
//! end do not keep the write buffer full for ever.

use std::collections::VecDeque;

use crate::units::{Bytes, Nanos, Time};

/// A program is put off by reads for at most so many times as long as it takes.
const PUT_OFF_TIMES: u64 = 4;

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
    pub(super) fn read(&mut self, now: Time, time: Nanos, program_time: Nanos) -> Time {
        let mut start = self.reads_until.max(now);
        if let Some(current) = &mut self.current
            && current.ends > start
        {
            let has_begun = current.begins < start;
            if has_begun || current.put_off >= program_time * PUT_OFF_TIMES {
                start = current.ends;
            } else {
                current.begins += time;
                current.ends += time;
                current.put_off += time;
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
        program_time: Nanos,
    ) -> Option<Time> {
        if self.current.is_some() {
            self.waiting.push_back(program);
            return None;
        }
        Some(self.begin(now, program, program_time))
    }

    fn begin(&mut self, now: Time, program: Program, program_time: Nanos) -> Time {
        let begins = self.reads_until.max(now);
        let ends = begins + program_time;
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
        program_time: Nanos,
    ) -> (Option<Program>, Option<Time>) {
        match self.current {
            Some(current) if current.ends > now => (None, Some(current.ends)),
            Some(current) => {
                self.current = None;
                let next = self.waiting.pop_front();
                let end = next.map(|next| self.begin(now, next, program_time));
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

    const PROGRAM: Nanos = Nanos::from_micros(400);

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
        let mut die = Die::default();
        assert_eq!(die.program(at(0), program(0), PROGRAM), Some(at(400)));
        assert_eq!(die.program(at(0), program(1), PROGRAM), None);
        assert_eq!(die.read(at(100), READ, PROGRAM), at(450));
        let (ended, next) = die.ends(at(400), PROGRAM);
        assert_eq!((ended, next), (Some(program(0)), Some(at(850))));
        // One that comes before the second program has begun goes first, too.
        assert_eq!(die.read(at(420), READ, PROGRAM), at(500));
        assert_eq!(die.ends(at(850), PROGRAM), (None, Some(at(900))));
        assert_eq!(die.ends(at(900), PROGRAM), (Some(program(1)), None));
    }

    #[test]
    fn reads_without_end_do_not_keep_a_program_from_its_end() {
        let mut die = Die::default();
        let mut now = die.read(at(0), READ, PROGRAM);
        let mut end = die.program(at(10), program(0), PROGRAM).unwrap();
        while now < at(10_000) {
            now = die.read(now - Nanos::from_micros(10), READ, PROGRAM);
            if now < end {
                continue;
            }
            match die.ends(end, PROGRAM) {
                (Some(_), _) => break,
                (None, again) => end = again.unwrap(),
            }
        }
        assert!(now <= at(3_000), "{now:?}");
    }
}
