//! `iosched list`: every block device, its stack, and the schedulers it offers.

use clap::Args;

use super::Outcome;
use crate::output::Output;

/// Arguments of `iosched list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Devices to show (default: all)
    pub(crate) devices: Vec<String>,
}

/// Runs `iosched list`.
pub(crate) fn run(_args: &ListArgs, _output: &Output) -> Outcome {
    Ok(iosched::failure::exit::OK)
}
