//! From a plan to the answer: decide, do, work out.
//!
//! Modules in the order data passes:
//!
//! - [`plan`]: arms × loads × rounds on a target, checked, nothing touched
//! - [`objective`], [`load`]: what decides, and what a trial runs
//! - [`emulated`]: the scheduler inside an emulated disk, for who asks of its queue
//! - [`schedule`], [`run`], [`event`]: which trial is next, the trial loop, what it says meanwhile
//! - [`measure`], [`split`], `course`, [`metrics`], [`trial`], [`record`]: what was measured, kept on disk
//! - [`interference`]: what else happened meanwhile, and whether the trial counts
//! - [`analysis`]: from the record to the answer
//! - [`simulate`]: schedulers and disks in virtual time, with files and threads around them
//! - [`calibrate`]: do the answers keep what they promise? Whole tunes over simulated trials

pub mod analysis;
pub mod calibrate;
mod course;
pub mod emulated;
pub mod event;
#[doc(hidden)]
pub mod fixture;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod interference;
pub mod judge;
pub mod load;
pub mod measure;
pub mod metrics;
pub mod objective;
pub mod plan;
pub mod record;
pub mod run;
pub mod schedule;
pub mod simulate;
pub mod split;
mod threads;
pub mod trial;

#[cfg(test)]
iosched_testing::world!();
