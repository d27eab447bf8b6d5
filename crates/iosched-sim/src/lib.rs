//! The Linux block layer in miniature: schedulers and disk models in virtual time.
//!
//! Pure: no clock, no files, no threads. Time and chance are arguments, so that a run is a function
//! of its load, scheduler, disk and seed. Modules in the order data passes:
//!
//! - [`random`]: streams of chance from the run's seed
//! - [`request`]: bios and requests
//! - [`scheduler`]: noop, deadline, cfq; none, mq-deadline, kyber, bfq
//! - [`block_layer`]: the rules of Linux's two block layers, which [`simulate`],
//!   [`serve`] and the crate `iosched-conform` drive
//! - [`disk`]: disk models: what a drive does with commands, and when it is done
//! - [`workload`]: loads as fio job files describe them
//! - [`simulate`]: a load, a scheduler and a disk in virtual time; [`histogram`] counts latencies
//! - [`serve`]: the same block layers by a real clock, for real programs
//! - [`trace`]: recordings of block traffic
//!
//! Below them, known to no other crate: `event_queue` (what happens next), `slab`, `list`, `sorted` and
//! `request_table` (requests and what is kept for each), `tags` (the kernel's bitmap of tags with those who
//! wait), `reciprocal` (division by a constant, fast).

#![forbid(unsafe_code)]

pub mod block_layer;
pub mod disk;
mod event_queue;
pub mod histogram;
mod list;
pub mod random;
mod reciprocal;
pub mod request;
pub mod request_table;
pub mod scheduler;
pub mod serve;
pub mod simulate;
mod slab;
mod sorted;
mod tags;
pub mod trace;
pub mod workload;

pub use iosched_facts::{quantity, units};
