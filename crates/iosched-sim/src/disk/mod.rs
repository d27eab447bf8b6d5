//! Disk models: what a drive does with the commands that it is given, and when it is done.
//!
//! A model is a machine in virtual time: [`DiskModel::submit`] hands it a command,
//! [`DiskModel::next_event`] says when it has something to do, [`DiskModel::advance`] lets it do it.
//! What happens inside happens at its own time, however late the caller asks: that is what lets the
//! simulator and the emulated disk use the same code. Models hold no data, only times.
//!
//! A [`Model`] describes one: its parameters, where they come from and what it leaves out.
//! [`models`] lists those that come with the program, [`build`] makes one by name.

mod admission;
pub mod array;
pub mod hdd;
mod model;
mod presets;
pub mod simple;
mod slowed;
pub mod ssd;
#[cfg(test)]
mod tests;
mod values;

pub use model::{Model, ModelOptions, Parameters};
pub use presets::{build, models};
pub use values::{Millis, Rate};

use serde::{Deserialize, Serialize};

use crate::units::{Sector, Sectors, Time};

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

/// The order in which a drive serves the commands in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriveQueue {
    /// As they came.
    Fifo,
    /// The one that the arm and the platter reach first, but none is passed over for longer than
    /// the drive's age limit.
    ShortestAccessFirst,
}

/// What the host sees of a disk of any kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interface {
    /// Size.
    pub capacity: Sectors,
    /// Commands taken at a time.
    pub queue_depth: usize,
    /// Writes are acknowledged in the drive's own, volatile memory.
    pub write_cache: bool,
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
    /// for admission in order of arrival.
    fn queue_depth(&self) -> usize;

    /// Takes a command at `now`.
    ///
    /// # Panics
    /// If it reaches beyond the drive's capacity: the caller is to refuse such a command.
    fn submit(&mut self, now: Time, command: Command);

    /// A time before which nothing completes, and at or after which [`DiskModel::advance`] is to be
    /// called; nothing if the drive has nothing to do. May be in the past of a late caller. Something
    /// need not have completed then, but after the call the next time is later. What happens inside
    /// the drive before, without any effect, may be left for the call.
    fn next_event(&self) -> Option<Time>;

    /// Does what is due up to `now`, each thing at its own time, and appends what completed, in
    /// order of completion.
    fn advance(&mut self, now: Time, completed: &mut Vec<Completion>);
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
