//! Making a choice last over reboots.
//!
//! - `tuned`: a profile of TuneD that agrees with our rules
//! - [`choice`]: from "this disk, that scheduler" to rules of the policy
//! - `from_policy`: all files that are made from a policy
//! - [`deploy`]: all of it together: planned, shown, done, read back, taken back if it does not hold

pub mod choice;
pub mod deploy;
pub(crate) mod from_policy;
pub(crate) mod tuned;
