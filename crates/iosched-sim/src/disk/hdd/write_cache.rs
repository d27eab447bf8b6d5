//! The drive's write cache: writes that were acknowledged and wait for the medium.

use super::geometry::PlatterPosition;
use crate::units::{Sector, Sectors, Time};

/// A stretch of acknowledged data that is not on the medium yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dirty {
    pub(super) start: Sector,
    pub(super) end: Sector,
    /// Where it begins.
    pub(super) place: PlatterPosition,
    /// When its first data came.
    pub(super) since: Time,
    /// Number of the write that made it; rises.
    pub(super) number: u64,
}

/// The write cache: bounded in data and in stretches.
#[derive(Debug)]
pub(super) struct WriteCache {
    stretches: Vec<Dirty>,
    capacity: Sectors,
    max_stretches: usize,
    /// Longest stretch that grows by appending.
    max_length: Sectors,
    held: Sectors,
    /// Promised to writes whose data are on the way.
    reserved: Sectors,
    reserved_stretches: usize,
    number: u64,
}

impl WriteCache {
    pub(super) fn new(capacity: Sectors, max_stretches: usize, max_length: Sectors) -> WriteCache {
        WriteCache {
            stretches: Vec::with_capacity(max_stretches),
            capacity,
            max_stretches,
            max_length,
            held: Sectors::ZERO,
            reserved: Sectors::ZERO,
            reserved_stretches: 0,
            number: 0,
        }
    }

    pub(super) fn capacity(&self) -> Sectors {
        self.capacity
    }

    pub(super) fn stretches(&self) -> &[Dirty] {
        &self.stretches
    }

    /// Data in the cache, in sectors.
    pub(super) fn held(&self) -> Sectors {
        self.held
    }

    /// The number that the next write will get: all earlier ones have smaller numbers.
    pub(super) fn next_number(&self) -> u64 {
        self.number
    }

    /// Keeps room for a write; false if there is none.
    pub(super) fn reserve(&mut self, length: Sectors) -> bool {
        let fits = self.held + self.reserved + length <= self.capacity
            && self.stretches.len() + self.reserved_stretches < self.max_stretches;
        if fits {
            self.reserved += length;
            self.reserved_stretches += 1;
        }
        fits
    }

    /// The data of a write for which room was kept have come. `barrier`: what a flush waits for has
    /// smaller numbers and must not grow any more.
    pub(super) fn take(
        &mut self,
        start: Sector,
        end: Sector,
        place: PlatterPosition,
        now: Time,
        barrier: Option<u64>,
    ) {
        self.reserved -= end - start;
        self.reserved_stretches -= 1;
        let number = self.number;
        self.number += 1;
        let growing = |dirty: &&mut Dirty| barrier.is_none_or(|barrier| dirty.number >= barrier);
        let mut known = self.stretches.iter_mut().filter(growing);
        if let Some(dirty) = known.find(|dirty| {
            (dirty.start <= start && end <= dirty.end)
                || (dirty.end == start && end - dirty.start <= self.max_length)
        }) {
            if end > dirty.end {
                self.held += end - dirty.end;
                dirty.end = end;
            }
            dirty.number = number;
            return;
        }
        self.held += end - start;
        self.stretches.push(Dirty {
            start,
            end,
            place,
            since: now,
            number,
        });
    }

    /// True if all of it is there.
    pub(super) fn holds(&self, start: Sector, end: Sector) -> bool {
        self.stretches
            .iter()
            .any(|dirty| dirty.start <= start && end <= dirty.end)
    }

    /// Takes up to `max` sectors from the beginning of a stretch, to be written now.
    pub(super) fn take_out(
        &mut self,
        index: usize,
        max: Sectors,
        place_of: impl FnOnce(Sector) -> PlatterPosition,
    ) -> Dirty {
        let dirty = &mut self.stretches[index];
        let mut taken = *dirty;
        if dirty.end - dirty.start > max {
            taken.end = dirty.start + max;
            dirty.start = taken.end;
            dirty.place = place_of(taken.end);
        } else {
            self.stretches.swap_remove(index);
        }
        taken
    }

    /// What was taken out is on the medium: its room is free.
    pub(super) fn written(&mut self, dirty: &Dirty) {
        self.held -= dirty.end - dirty.start;
    }
}
