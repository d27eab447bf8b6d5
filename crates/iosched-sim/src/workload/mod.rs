//! Loads: what processes ask of a disk.
//!
//! [`fio_job`] reads the field's own description, a fio job file, as far as it can be simulated.
//! `Stream` turns a job into one access after the other. [`replay`] is for accesses that were recorded;
//! [`recorded`] makes closed loops of them.

mod distribution;
pub mod fio_job;
pub mod recorded;
pub mod replay;
mod sizes;
mod stream;

pub use distribution::Distribution;
pub use sizes::Sizes;
pub(crate) use stream::Stream;

use std::sync::Arc;

use replay::Step;

use crate::request::{IoPriority, Op};
use crate::units::{Bytes, Nanos, Sector, Sectors};

/// In which order a process visits the disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pattern {
    /// One after the other, leaving out so many sectors after each. Backwards if that is less than zero: from the end of its
    /// part.
    Sequential {
        /// What is left out.
        skip: i64,
    },
    /// Anywhere.
    Random {
        /// Which places are popular.
        distribution: Distribution,
        /// This many of a hundred accesses; the others go where the one before ended.
        percent: u8,
        /// Each place is followed by what lies behind it until it is so many accesses.
        run: u64,
    },
}

impl Pattern {
    /// Anywhere, each place as likely as the others.
    pub const EVEN: Pattern = Pattern::Random {
        distribution: Distribution::Even,
        percent: 100,
        run: 1,
    };
}

/// Reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    /// Reads per hundred accesses.
    pub read_percent: u8,
}

/// Pauses of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Think {
    /// From the answer to the next access.
    pub time: Nanos,
    /// After so many accesses; all that are in flight are answered first.
    pub every: u64,
    /// Accesses count when they are submitted, not when they are answered.
    pub counts_submitted: bool,
}

/// How fast a process submits at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Accesses per second.
    Accesses(u64),
    /// Bytes per second.
    Bytes(u64),
}

impl Rate {
    /// The mean time from an access of this length to the next.
    #[expect(clippy::cast_possible_truncation, reason = "at most a year")]
    pub(crate) fn interval(self, length: Sectors) -> Nanos {
        let second = 1_000_000_000_u128;
        let (amount, per_second) = match self {
            Rate::Accesses(count) => (1, count),
            Rate::Bytes(bytes) => (length.to_bytes().as_u64(), bytes),
        };
        let nanos = u128::from(amount) * second / u128::from(per_second.max(1));
        Nanos::new(nanos.min(365 * 24 * 3600 * second) as u64)
    }
}

/// A control group of processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// What it is called.
    pub name: String,
    /// Its weight: 10 to 1000.
    pub weight: u16,
}

/// When a process makes sure that what it wrote is on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Syncing {
    /// Each write is to be on the medium before it completes (`O_DSYNC`).
    pub each_write: bool,
    /// After so many writes.
    pub every: Option<u64>,
    /// Before it ends.
    pub at_end: bool,
    /// Its part of the disk is a file of its own: what others have written need not be on the medium. Otherwise
    /// all write to one device.
    pub own_file: bool,
    /// How long it thinks after each.
    pub pause: Nanos,
}

/// One process of a load. `Default` reads the first sectors of a disk, 4 KiB at a time, for ever.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "what a job says, one by one")]
pub struct Job {
    /// Its name; clones of a job have a number behind it.
    pub name: String,
    /// Reads and writes.
    pub mix: Mix,
    /// Order of places.
    pub pattern: Pattern,
    /// Lengths of reads.
    pub read_sizes: Sizes,
    /// Lengths of writes.
    pub write_sizes: Sizes,
    /// Where its part of the disk begins.
    pub start: Sector,
    /// How long its part is.
    pub span: Sectors,
    /// Accesses that it keeps in flight.
    pub depth: usize,
    /// Accesses that it submits in one go, if it can.
    pub batch: usize,
    /// When it has as many in flight as it keeps, it goes on once there are so few; none: once there is one less.
    pub refill: usize,
    /// Pauses of the process between accesses.
    pub think: Option<Think>,
    /// How fast it reads and writes at most.
    pub rates: [Option<Rate>; 2],
    /// Times between accesses are those of a Poisson process with this rate, not all the same.
    pub poisson: bool,
    /// It gives sectors back where it would write.
    pub trims: bool,
    /// It reads and writes through the page cache.
    pub buffered: bool,
    /// When it syncs.
    pub sync: Syncing,
    /// Its I/O priority.
    pub priority: IoPriority,
    /// So many of a hundred reads, and writes, have another one.
    pub other_priority: ([u8; 2], IoPriority),
    /// Its control group, if it is not in the root.
    pub cgroup: Option<Cgroup>,
    /// When it begins at the earliest, after its group begins.
    pub delay: Nanos,
    /// It begins once the process in this place of the load, one of its group, has ended.
    pub after: Option<usize>,
    /// Its accesses one by one, where order, places and lengths are not left to chance. One that goes on beside
    /// others begins again with the first.
    pub steps: Option<Arc<[Step]>>,
    /// It ends with the last process that does not.
    pub background: bool,
    /// It ends after this much data, if it is not bound by time alone.
    pub amount: Option<Bytes>,
    /// It ends this long after it began to count.
    pub runtime: Option<Nanos>,
    /// What is answered so long after it began does not count.
    pub ramp: Nanos,
    /// Groups run one after the other; what goes on beside others goes on beside the next group, too.
    pub group: usize,
}

impl Job {
    /// It waits for each access before the next, as `pread` and `pwrite` do, and goes past the page cache.
    pub fn is_synchronous(&self) -> bool {
        self.depth == 1 && !self.buffered
    }
}

impl Default for Job {
    fn default() -> Job {
        let page = Sizes::one(Sectors::new(8));
        Job {
            name: "job".to_owned(),
            mix: Mix { read_percent: 100 },
            pattern: Pattern::Sequential { skip: 0 },
            read_sizes: page.clone(),
            write_sizes: page,
            start: Sector::ZERO,
            span: Sectors::new(1 << 20),
            depth: 1,
            batch: 1,
            refill: usize::MAX,
            think: None,
            rates: [None; 2],
            poisson: false,
            trims: false,
            buffered: false,
            sync: Syncing::default(),
            priority: IoPriority::default(),
            other_priority: ([0; 2], IoPriority::default()),
            cgroup: None,
            delay: Nanos::ZERO,
            after: None,
            steps: None,
            background: false,
            amount: None,
            runtime: None,
            ramp: Nanos::ZERO,
            group: 0,
        }
    }
}

impl Job {
    /// Lengths of accesses that do this.
    pub(crate) fn sizes(&self, op: Op) -> &Sizes {
        if op.is_write() {
            &self.write_sizes
        } else {
            &self.read_sizes
        }
    }
}

/// One access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Reads or writes.
    pub op: Op,
    /// On the whole disk.
    pub start: Sector,
    /// Within the disk.
    pub length: Sectors,
    /// Someone waits for it: reads, and writes that are direct or synced.
    pub sync: bool,
}
