//! Facts that every crate shares. Pure: values and types, no clock, no files, no decisions.
//!
//! - [`units`]: points and lengths of time and of disk
//! - [`quantity`]: sizes and times as people write them
//! - [`problem`]: an error that nobody matches on, and the exit codes of the command

#![forbid(unsafe_code)]

pub mod problem;
pub mod quantity;
pub mod units;

pub use problem::{Problem, exit};
