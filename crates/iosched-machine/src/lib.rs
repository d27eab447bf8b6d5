//! This machine: what is there, who uses it, what may be written, and what a run takes, starts and makes.
//!
//! Modules in the order data passes:
//!
//! - [`host`], [`sysfs`]: where the machine is read (its root can be a copied tree); [`clock`]: the time of day
//! - [`failure`]: what every error can say of itself (hint, exit code); [`command_line`]: the command that would do
//! - [`device`]: what is there, what it stands on, who uses it, what is written on it, whether it may be written
//! - [`diskstats`], [`pressure`]: the kernel's counters; [`facts`]: what a record says of the machine
//! - [`capture`]: what the kernel's block layer does with a disk, event by event;
//!   `detached_mount`: tracefs where nobody has mounted it
//! - [`watch`]: what each device does now
//! - [`lock`], [`process`], [`file_system`]: what a run takes, starts and makes
//! - [`beneath`]: files in directories that others may change; [`user_files`]: those that a user names; [`durable`]:
//!   files of our own that a power failure leaves whole
//! - [`path_trust`]: who could lead us elsewhere, or have written what we go on with
//! - [`foreign`]: JSON that others may have written; [`lossy`]: text in which names of others stand; [`visible`]: text without control characters

pub mod beneath;
pub mod capture;
pub mod clock;
pub mod command_line;
mod detached_mount;
pub mod device;
pub mod diskstats;
pub mod durable;
pub mod facts;
pub mod failure;
pub mod file_system;
pub mod foreign;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod host;
pub mod lock;
pub mod lossy;
pub mod path_trust;
pub mod pressure;
pub mod process;
pub mod regular_file;
pub mod sysfs;
pub mod user_files;
pub mod visible;
pub mod watch;

#[cfg(test)]
iosched_testing::world!();
