//! Emulated disks: a disk model as a block device under the kernel's own schedulers.
//!
//! ```text
//!  fio, ext4, a database
//!  the kernel's block layer, with the scheduler that is to be measured
//!  /dev/loopN       a loop device with direct I/O; its driver takes as many requests as the model
//!  disk             a file in a FUSE mount of our own
//!  the server       a process of ours: answers a request when the model says that it is done
//! ```
//!
//! [`disk_file`] reads and writes disk models as TOML files.
//!
//! Modules in the order data passes: [`spec`] (what is wanted), `control` (made, listed, removed), `disk_directory` (the disk's directory and
//! its lock), `server` (the process), `filesystem` (FUSE and the clock), `engine` (the model with
//! what waits for it), `backing` (the data), `loop_device`, `usage` and `take_down` (the way back),
//! `check` and `ledger` (is it as the model says?), `connection` (how the server waits for its own disk). Instead
//! of a model there may be a real disk or a file: [`over`] (which, and whether it may be), `below` (what does the
//! commands there). A scheduler of ours inside the disk is in `inside`, and `attribution` says which process each
//! access there comes from. Around them: `disk` (the model on the machine's clock), `priority` (of the server's
//! threads), `requests` (of the loop driver), `log` (the server's, and the clock that stamps it), `error`.

mod attribution;
mod backing;
mod below;
mod check;
mod connection;
mod control;
mod disk;
mod disk_directory;
pub mod disk_file;
mod engine;
mod error;
mod filesystem;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod inside;
mod ledger;
mod log;
mod loop_device;
pub mod over;
mod priority;
mod requests;
mod server;
pub mod spec;
mod take_down;
mod usage;

pub use self::attribution::Attributed;
pub use self::check::{Check, Spread};
pub use self::control::{
    Condition, EmulatedDisk, Removal, ServedDisk, Status, check, check_scheduler, list, list_in,
    missing, model_of, remove_all, remove_each, remove_remains, served_by, server_of, set,
    set_inside,
};
pub use self::requests::set_requests;
pub use self::server::serve;
pub use self::spec::Spec;
pub use self::usage::User;

#[cfg(test)]
iosched_testing::world!();
