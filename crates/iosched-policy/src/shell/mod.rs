//! The syntax of shells, for those who follow scripts without running them: `policy::writers::shell` asks what one writes into a
//! disk's queue, `system_config::variables` what one sets that others source.

pub(crate) mod dialect;
pub(crate) mod syntax;
