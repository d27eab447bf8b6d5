//! What can be asked on the command line. Each command's own arguments stand in its file below
//! `commands/`.

use clap::{Parser, Subcommand};

/// Which I/O scheduler should each disk of this machine use? Measure, decide, apply, keep, undo.
#[derive(Debug, Parser)]
#[command(
    name = "iosched",
    version,
    about,
    propagate_version = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// Print JSON on standard output instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands, in the order of a decision's life.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show every block device, its stack, and the schedulers it offers
    List(crate::commands::list::ListArgs),
    /// Make a disk model a block device, and take it away again
    Emulate(crate::commands::emulate::EmulateArgs),
    /// Follow recordings of a kernel's scheduler with ours, and count where they agree
    Conform(crate::commands::conform::ConformArgs),
}
