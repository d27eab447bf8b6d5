//! The Linux block layer in miniature: schedulers and disk models in virtual time.
//!
//! Pure: no clock, no files, no threads. Time and chance are arguments, so that a run is a function
//! of its load, scheduler, disk and seed. Modules in the order data passes:
//!
//! - [`units`]: points and lengths of time and of disk
//! - [`random`]: streams of chance from the run's seed
//! - [`disk`]: disk models: what a drive does with commands, and when it is done

pub mod disk;
pub mod random;
pub mod units;
