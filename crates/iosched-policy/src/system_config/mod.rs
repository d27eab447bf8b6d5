//! The files below `/etc` by which a system sets schedulers, and the programs that read them. Knows neither policy nor
//! history, which both rest on it.
//!
//! - [`identity`]: what tells a disk from all others at every boot, in udev's words
//! - [`rules`]: the text of our udev rules; [`pattern`]: the patterns in it
//! - [`modules`]: the modules that schedulers come in
//! - [`files`]: files of the system replaced so that a power failure leaves the old one or the new one;
//!   [`attributes`]: what they have besides their text
//! - [`tuned`]: what of TuneD's files is ours
//! - [`parameter`], [`cmdline`], [`bls`], [`menu_lst`], [`boot`]: `elevator=` for kernels before 5.0, and the files of
//!   boot loaders; [`variables`]: what a file sets that a shell reads, [`scripts`]: those of boot loaders
//! - [`initramfs`]: the module of the root disk's scheduler, there before the root is
//! - [`udev`]: the running udev: check rules, load them, apply them now
//! - [`announce`](mod@announce): programs that must be told of files that changed

pub(crate) mod announce;
pub(crate) mod attributes;
pub(crate) mod bls;
pub(crate) mod boot;
pub(crate) mod cmdline;
pub(crate) mod files;
pub(crate) mod identity;
pub(crate) mod initramfs;
mod menu_lst;
pub(crate) mod modules;
pub(crate) mod parameter;
pub(crate) mod pattern;
pub(crate) mod rules;
mod scripts;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod tuned;
pub(crate) mod udev;
mod variables;
