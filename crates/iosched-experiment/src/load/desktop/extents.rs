//! Where the files of the simulated load lie.

use iosched_sim::units::{Bytes, Sector, Sectors};

/// Files begin at whole pages, and are as many long.
const ALIGNMENT: u64 = 4096;

/// A part of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) start: Sector,
    pub(super) length: Sectors,
}

/// The files of the load, from the beginning of the disk.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) end: Sectors,
}

impl Files {
    /// A file of so many bytes, behind the last one.
    pub(super) fn make(&mut self, bytes: u64) -> Extent {
        let length = Bytes::new(bytes.next_multiple_of(ALIGNMENT)).to_sectors();
        let file = Extent {
            start: Sector::ZERO + self.end,
            length,
        };
        self.end += length;
        file
    }
}
