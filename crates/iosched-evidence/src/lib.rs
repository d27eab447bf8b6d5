//! Evidence: what many machines found of schedulers, and what it says of a drive that was not measured.
//!
//! Modules in the order data passes:
//!
//! - [`load_class`], [`drive`]: what a load stands for; families and classes of drives
//! - [`row`]: what is kept of two arms of a record, and what may not be in it
//! - [`reduce`]: from a record to rows
//! - [`dataset`]: rows in a directory, as JSON Lines
//! - [`simulated`]: the rows that ship with the program
//! - [`pool`]: from rows to what holds for a model, a family, a class
//! - `digest`: names that come from content

pub mod dataset;
mod digest;
pub mod drive;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod fixture;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod load_class;
pub mod pool;
pub mod reduce;
pub mod row;
pub mod simulated;

#[cfg(test)]
iosched_testing::world!();
