//! The files below `/etc` by which a system sets schedulers, and the programs that read them. Knows neither policy nor
//! history, which both rest on it.
//!
//! - [`identity`]: what tells a disk from all others at every boot, in udev's words
//! - [`rules`]: the text of our udev rules; [`pattern`]: the patterns in it
//! - [`modules`]: the modules that schedulers come in
//! - [`files`]: files of the system replaced so that a power failure leaves the old one or the new one;
//!   [`attributes`]: what they have besides their text
//! - [`tuned`]: what of TuneD's files is ours
//! - [`cmdline`]: where `elevator=` is given, for kernels before 5.0; [`grub`]: set for good
//! - [`initramfs`]: the module of the root disk's scheduler, there before the root is
//! - [`udev`]: the running udev: check rules, load them, apply them now
//! - [`announce`](mod@announce): programs that must be told of files that changed

pub(crate) mod announce;
pub(crate) mod attributes;
pub(crate) mod cmdline;
pub(crate) mod files;
pub(crate) mod grub;
pub(crate) mod identity;
pub(crate) mod initramfs;
pub(crate) mod modules;
pub(crate) mod pattern;
pub(crate) mod rules;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod tuned;
pub(crate) mod udev;
