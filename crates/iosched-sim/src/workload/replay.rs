//! Loads that were recorded: accesses from outside, in the order in which they are made.
//!
//! In an open loop every access is made at its time, whatever the disk does. In closed loops each
//! process makes its accesses one after the other, as soon as those before are answered and it has
//! thought as long as it did when it was recorded.

use super::Access;
use crate::units::Nanos;

/// An access of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When it is made, after the beginning. Never before the one before it.
    pub time: Nanos,
    /// The index of its process.
    pub process: usize,
    /// What it is.
    pub access: Access,
}

/// An access of a closed loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What it is.
    pub access: Access,
    /// How many others of its process may be in flight when it is made.
    pub beside: usize,
    /// How long the process thinks before it, once no more than those are in flight and the access
    /// before it was made.
    pub think: Nanos,
}

/// Where replayed accesses come from.
pub enum Replay {
    /// Each at its time.
    Open(Box<dyn Iterator<Item = Arrival> + Send>),
    /// For each process of the load, its own.
    Closed(Vec<Box<dyn Iterator<Item = Step> + Send>>),
}
