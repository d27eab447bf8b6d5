//! Estimates and decisions from paired trials. Pure: numbers in, numbers out.
//!
//! Modules in the order data passes:
//!
//! - [`interval`]: an estimate with its interval; the classical one for a number of rounds fixed before
//! - [`sequence`]: intervals that stay valid however often one looks
//! - [`race`]: who leaves, who wins, when to stop
//! - [`distribution`]: Student's t and the normal distribution

pub mod distribution;
pub mod interval;
pub mod race;
pub mod sequence;

pub use interval::Interval;
