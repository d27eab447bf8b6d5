//! Estimates and decisions from paired trials. Pure: numbers in, numbers out.
//!
//! Modules in the order data passes:
//!
//! - [`histogram`]: percentiles of a trial, from its merged histograms
//! - [`steady`]: has a series of rounds reached its steady state?
//! - [`interval`]: an estimate with its interval; the classical one for a number of rounds fixed before
//! - [`sequence`]: intervals that stay valid however often one looks
//! - [`race`]: who leaves, who wins, when to stop; the intervals of ratios are those of its `pairs`
//! - [`carry`]: does a trial depend on the arm that ran before it?
//! - [`summary`], [`remarks`]: the robust view beside it; what looks odd
//! - [`calibrate`]: does the race keep its promises? Whole races over drawn trials
//! - [`meta`]: one effect over many machines, and what the next machine may expect
//! - [`fairness`], `points`: Jain's index; points by place
//! - `distribution`, `chance`: Student's t, the normal and the chi-square distribution; random numbers from a seed

#![forbid(unsafe_code)]

pub mod calibrate;
pub mod carry;
#[doc(hidden)]
pub mod chance;
mod distribution;
pub mod fairness;
pub mod histogram;
pub mod interval;
pub mod meta;
mod points;
pub mod race;
pub mod remarks;
pub mod sequence;
pub mod steady;
pub mod summary;

pub use interval::Interval;
