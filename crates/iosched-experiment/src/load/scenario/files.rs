//! Where files lie: one after the other, each in one piece.

use iosched_sim::units::{Bytes, Sector, Sectors};

/// Files begin at whole pages, and are as many long.
const ALIGNMENT: Sectors = Sectors::new(8);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct File {
    pub(super) start: Sector,
    pub(super) length: Sectors,
}

/// The files of a load, from the beginning of the disk.
#[derive(Debug, Default)]
pub(super) struct Files {
    end: Sectors,
}

impl Files {
    /// A file of so many bytes, behind the last one.
    pub(super) fn make(&mut self, bytes: u64) -> File {
        let length =
            Sectors::new(bytes.div_ceil(ALIGNMENT.to_bytes().as_u64()) * ALIGNMENT.as_u64());
        let file = File {
            start: Sector::ZERO + self.end,
            length,
        };
        self.end += length;
        file
    }

    /// What they take together.
    pub(super) fn end(&self) -> Sectors {
        self.end
    }
}

/// Whole bytes as sectors.
pub(super) fn sectors(bytes: u64) -> Sectors {
    Bytes::new(bytes).to_sectors()
}
