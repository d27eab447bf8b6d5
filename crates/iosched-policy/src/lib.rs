//! What each disk is to have: set now, kept over reboots, checked, taken back, advised.
//!
//! Modules in the order data passes:
//!
//! - [`policy`]: which disk gets what, and how far it is from it
//! - [`set`]: an arm on every disk below a device, all or none
//! - `system_config`: the files below `/etc` that set schedulers, and the programs that read them
//! - [`persist`], [`check`]: kept over reboots, compared with what is
//! - [`history`]: what was changed, and taken back
//! - [`advise`]: what each disk should have, without measuring

pub mod advise;
pub mod check;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod history;
pub mod persist;
pub mod policy;
pub mod set;
mod system_config;

#[cfg(test)]
iosched_testing::world!();
