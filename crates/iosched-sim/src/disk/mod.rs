//! Disk models: what a drive does with the commands that it is given, and when it is done.
//!
//! A model is a machine in virtual time: [`DiskModel::submit`] hands it a command,
//! [`DiskModel::next_event`] says when it has something to do, [`DiskModel::advance`] lets it do it.
//! What happens inside happens at its own time, however late the caller asks: that is what lets the
//! simulator and the emulated disk use the same code. Models hold no data, only times.
//!
//! [`models`] lists what there is, with the source of each parameter set and what it leaves out;
//! [`build`] makes one.

mod door;
pub mod hdd;
mod presets;
pub mod simple;
pub mod ssd;
#[cfg(test)]
mod tests;

pub use presets::{build, models};

use crate::units::{Bytes, Nanos, Sector, Sectors, Time};

/// What a command asks of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DiskOp {
    /// Data from the disk.
    Read,
    /// Data to the disk, or to its write cache.
    Write,
    /// Everything that was acknowledged is to be on the medium. Position and length mean nothing.
    Flush,
    /// The data are no longer needed.
    Discard,
}

/// One command as the driver gives it to the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// The driver's name for the command; comes back in its [`Completion`]. Unique among the
    /// commands that have not completed.
    pub tag: u64,
    /// What to do.
    pub op: DiskOp,
    /// The first sector.
    pub start: Sector,
    /// How many sectors.
    pub length: Sectors,
    /// Force unit access: a write is to be on the medium before it completes.
    pub fua: bool,
}

impl Command {
    /// The position after the last sector.
    pub fn end(&self) -> Sector {
        self.start + self.length
    }
}

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The command's tag.
    pub tag: u64,
    /// When the drive began to work on it: the arm left for it, or the electronics took it up.
    pub started: Time,
    /// When it was done.
    pub time: Time,
}

/// A drive in virtual time.
///
/// Times given to one model never go back (a caller whose clock does is served as if at the latest
/// time seen).
pub trait DiskModel: Send {
    /// Size of the drive.
    fn capacity(&self) -> Sectors;

    /// Commands that the drive itself works on or puts in order. More may be submitted: they wait
    /// at its door in order of arrival.
    fn queue_depth(&self) -> usize;

    /// Takes a command at `now`.
    ///
    /// # Panics
    /// If it reaches beyond the drive's capacity: the caller is to refuse such a command.
    fn submit(&mut self, now: Time, command: Command);

    /// The earliest time at which [`DiskModel::advance`] has something to do or to say. May be in
    /// the past of a late caller. Not every event completes a command.
    fn next_event(&self) -> Option<Time>;

    /// Does what is due up to `now`, each thing at its own time, and appends what completed, in
    /// order of completion.
    fn advance(&mut self, now: Time, completed: &mut Vec<Completion>);
}

/// What kind of thing a model stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelKind {
    /// Platters and an arm.
    HardDisk,
    /// Flash.
    SolidState,
    /// A rule for the service time, no drive.
    Abstract,
}

/// A model that [`build`] knows.
#[derive(Debug, Clone)]
pub struct ModelInfo {
    /// Its name.
    pub name: &'static str,
    /// What it is, in half a line.
    pub summary: &'static str,
    /// What it stands for.
    pub kind: ModelKind,
    /// What a kernel would find in `queue/rotational`.
    pub rotational: bool,
    /// Its size unless another is asked for.
    pub capacity: Bytes,
    /// Its queue depth unless another is asked for.
    pub queue_depth: usize,
    /// Order in which the drive serves its queue, if it has one to choose.
    pub order: Option<DriveQueue>,
    /// True if it has a volatile write cache that is on unless asked otherwise.
    pub write_cache: bool,
    /// Where its parameters come from, one per group of parameters.
    pub sources: &'static [&'static str],
    /// What a real one does and this one does not.
    pub leaves_out: &'static [&'static str],
}

/// The order in which a drive serves the commands in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DriveQueue {
    /// As they came.
    Fifo,
    /// The one that the arm and the platter reach first, but none is passed over for longer than
    /// the drive's age limit.
    ShortestAccessFirst,
}

/// Departures from a model as [`models`] describes it. `Default` departs in nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelOptions {
    /// Another size, a whole number of 4096-byte blocks.
    pub size: Option<Bytes>,
    /// Another queue depth.
    pub queue_depth: Option<usize>,
    /// Another order inside the drive.
    pub order: Option<DriveQueue>,
    /// Write cache on or off.
    pub write_cache: Option<bool>,
    /// Where chance comes from: same seed, same times.
    pub seed: u64,
}

/// Why a model cannot be built as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// There is no such model.
    #[error("no disk model is called `{name}`; there are: {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// The size is out of range.
    #[error("{model} cannot be {size} large: it can have {min} to {max}")]
    Size {
        /// The model.
        model: &'static str,
        /// What was asked for.
        size: Bytes,
        /// The least that it can have.
        min: Bytes,
        /// The most that it can have.
        max: Bytes,
    },
    /// The size is not made of whole blocks.
    #[error("{model} cannot be {} bytes large: sizes are whole numbers of 4096 bytes", size.as_u64())]
    PartialBlock {
        /// The model.
        model: &'static str,
        /// What was asked for.
        size: Bytes,
    },
    /// The queue depth is out of range.
    #[error("{model} cannot have a queue depth of {depth}: it can have 1 to {max}")]
    QueueDepth {
        /// The model.
        model: &'static str,
        /// What was asked for.
        depth: usize,
        /// The most that it can have.
        max: usize,
    },
    /// The model has nothing to which this option could apply.
    #[error("{model} has no {what}")]
    NotApplicable {
        /// The model.
        model: &'static str,
        /// What it has not.
        what: &'static str,
    },
}

/// What `length` bytes take at `bytes_per_second`, rounded up to a nanosecond.
#[expect(clippy::cast_possible_truncation, reason = "centuries fit")]
pub(crate) fn transfer_time(length: Bytes, bytes_per_second: u64) -> Nanos {
    let nanos =
        (u128::from(length.as_u64()) * 1_000_000_000).div_ceil(u128::from(bytes_per_second));
    Nanos::new(nanos as u64)
}

/// Asserts that a command lies on the disk.
pub(crate) fn assert_on_disk(command: &Command, capacity: Sectors) {
    assert!(
        matches!(command.op, DiskOp::Flush) || command.end().as_u64() <= capacity.as_u64(),
        "command {} ends at sector {}, the disk at {}",
        command.tag,
        command.end().as_u64(),
        capacity.as_u64()
    );
}
