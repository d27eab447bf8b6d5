//! The library behind `iosched`: this machine, and the way from plan to report.
//!
//! Modules in the order data passes:
//!
//! - [`host`], [`sysfs`]: where the machine is read (its root can be a copied tree)
//! - [`device`]: what is there, what it stands on, who uses it, what is written on it
//! - [`emulate`]: disk models as block devices
//! - [`simulate`]: schedulers and disks in virtual time, with files and threads around them
//! - [`failure`]: what every error of this library can say of itself (hint, exit code)

pub mod device;
pub mod emulate;
pub mod failure;
pub mod host;
pub mod simulate;
pub mod sysfs;
