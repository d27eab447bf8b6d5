//! Facts that every crate shares. Pure: values and types, no clock, no files, no decisions.
//!
//! - [`units`]: points and lengths of time and of disk
//! - [`quantity`]: sizes and times as people write them
//! - [`kernel`]: kernel versions, block layers, defaults of queues
//! - [`scheduler`]: schedulers with their tunables, ranges and defaults, successors and aliases
//! - [`fio`]: options of fio job files, and what becomes of them in a load
//! - [`event`]: what happens in the block layer, as recordings tell it
//! - [`near`]: which known name may have been meant
//! - [`problem`]: an error that nobody matches on, and the exit codes of the command

#![forbid(unsafe_code)]

pub mod event;
pub mod fio;
pub mod kernel;
pub mod near;
pub mod problem;
pub mod quantity;
pub mod scheduler;
pub mod units;

pub use problem::{Problem, exit};
