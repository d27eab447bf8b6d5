//! Accesses on their way: a process waits for an access, which the block layer knows as one or several
//! bios.

use crate::block_layer::Token;
use crate::request::Op;
use crate::slab::Slab;
use crate::units::{Sectors, Time};

/// What an access is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The process reads or writes.
    Own,
    /// Dirty pages go to the disk; the write's number in the page cache.
    Writeback(u64),
    /// Pages come into the page cache: the first of them.
    Fill(u64),
    /// What was written is to be on the medium.
    Flush,
}

/// An access that has not been answered: the bios that it was split into complete one by one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    /// Index of the process that waits for it.
    pub(super) process: usize,
    pub(super) purpose: Purpose,
    pub(super) op: Op,
    pub(super) submitted: Time,
    /// When the last of its bios became a request or joined one.
    pub(super) entered: Time,
    pub(super) length: Sectors,
    /// Bios that have not completed.
    pub(super) bios: u64,
}

/// Those that have not been answered. The block layer knows each by its place.
#[derive(Debug)]
pub(super) struct Accesses {
    unanswered: Slab<Access>,
    /// Bios of theirs that have not completed.
    bios: u64,
}

impl Accesses {
    pub(super) fn new() -> Accesses {
        Accesses {
            unanswered: Slab::new(),
            bios: 0,
        }
    }

    pub(super) fn begin(&mut self, access: Access) -> Token {
        self.bios += access.bios;
        Token(self.unanswered.add(access))
    }

    /// How many have not been answered, and of how many bios.
    pub(super) fn unanswered(&self) -> (usize, u64) {
        (self.unanswered.len(), self.bios)
    }

    /// A bio of the access became a request, or part of one.
    #[inline]
    pub(super) fn bio_entered(&mut self, now: Time, Token(place): Token) {
        self.unanswered.get_mut(place).entered = now;
    }

    /// A bio of the access is done: the access, if it is answered by that.
    #[inline]
    pub(super) fn bio_done(&mut self, Token(place): Token) -> Option<Access> {
        self.bios -= 1;
        let access = self.unanswered.get_mut(place);
        if access.bios > 1 {
            access.bios -= 1;
            return None;
        }
        Some(self.unanswered.remove(place))
    }
}
