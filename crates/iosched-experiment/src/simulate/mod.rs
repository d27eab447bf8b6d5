//! What simulation needs of this machine: files read, several runs side by side. The simulation
//! itself is in `iosched-sim`, which knows neither.
//!
//! - [`mod@file`]: text files line by line, compressed or not
//! - [`settings`]: a scheduler with its tunables, from the command line and from a recording's file
//! - [`replay`]: traces as loads
//! - [`run`]: loads over disk models, several schedulers side by side
//! - [`conform`]: recordings of a kernel's scheduler, followed by ours
//! - [`initial`]: the state with which those are said to begin
//! - [`live`]: the kernel's own scheduler on an emulated disk, recorded, followed and predicted

pub mod conform;
mod events;
pub mod file;
pub mod initial;
pub mod live;
pub mod recordings;
pub mod replay;
pub mod run;
pub mod settings;
mod times;
