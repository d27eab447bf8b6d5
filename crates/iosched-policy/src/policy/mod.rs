//! The policy of a machine: which disks get which scheduler, why, and what it rests on.
//!
//! - [`mod@file`]: the file, read with line and column of every error
//! - `evidence`: whether what a rule was measured on is still there
//! - `edit`: rules put in and taken out, comments kept
//! - [`matching`]: which disks a rule is for, asked here and in udev's words
//! - [`wanted`]: what the policy wants of the disks that are there, and how far they are from it
//! - [`writers`]: who else sets them, and who of them wins

pub(crate) mod edit;
pub(crate) mod evidence;
pub mod file;
pub mod matching;
pub mod wanted;
pub mod writers;
