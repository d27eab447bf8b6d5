//! Making a choice last over reboots.
//!
//! - [`identity`]: what tells a disk from all others at every boot
//! - [`rules`]: the text of our udev rules; [`pattern`]: the patterns in it
//! - [`modules`]: the modules that schedulers come in
//! - [`files`]: files of the system replaced so that a power failure leaves the old one or the new one
//! - [`tuned`]: a profile of TuneD that agrees with our rules
//! - [`cmdline`], [`boot`]: `elevator=` for kernels before 5.0, and the files of boot loaders
//! - [`udev`]: the running udev: check rules, load them, apply them now
//! - [`choice`]: from "this disk, that scheduler" to rules of the policy
//! - [`initramfs`]: the module of the root disk's scheduler, there before the root is
//! - [`made`]: all files that are made from a policy; [`announce`]: programs that must be told of them
//! - [`deploy`]: all of it together: planned, shown, done, read back, taken back if it does not hold

pub mod announce;
pub mod boot;
pub mod choice;
pub mod cmdline;
pub mod deploy;
pub mod error;
pub mod files;
pub mod identity;
pub mod initramfs;
pub mod made;
pub mod modules;
pub mod pattern;
pub mod rules;
#[cfg(test)]
pub(crate) mod testing;
pub mod tuned;
pub mod udev;
