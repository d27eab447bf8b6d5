//! What can be asked on the command line. Each command's own arguments stand in its file below
//! `commands/`; here are the commands themselves and the types that several of them read.

use std::str::FromStr;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::commands::{
    calibrate, completions, conform, emulate, list, report, restore, set, simulate, tune,
};

/// Which I/O scheduler should each disk of this machine use? Measure, decide, apply, undo.
#[derive(Debug, Parser)]
#[command(
    name = "iosched",
    version,
    about,
    propagate_version = true,
    max_term_width = 100,
    after_long_help = EXIT_CODES
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
    List(list::ListArgs),
    /// Switch a disk's scheduler now, with read-back
    Set(set::SetArgs),
    /// Measure every scheduler under a load until the answer is known
    Tune(Box<tune::TuneArgs>),
    /// Show a record again: text, JSON, CSV, tables that people know
    Report(report::ReportArgs),
    /// Put back what an interrupted run left
    Restore(restore::RestoreArgs),
    /// Make a disk model a block device, and take it away again
    Emulate(emulate::EmulateArgs),
    /// Run a load under schedulers on a disk model, in virtual time
    Simulate(simulate::SimulateArgs),
    /// Follow recordings of a kernel's scheduler with ours, and count where they agree
    Conform(conform::ConformArgs),
    /// Check by simulation that the answers of tune keep what they promise
    Calibrate(calibrate::CalibrateArgs),
    /// Print a completion script for your shell
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    RevertAfter(set::RevertArgs),
}

/// The exit codes of [`iosched::failure::exit`], for `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0  done                              8  not permitted (run it as root)
  1  failed otherwise                  9  device busy, or in another run
  2  bad arguments or job file        10  a program or kernel feature is missing
  3  no such device                   11  refused: it could destroy data
  4  no scheduler to choose           12  record or results directory unusable
  5  scheduler not offered            13  the load failed under every arm
  6  bad tunable or value             14  the device vanished
  7  the kernel did not take it       15  the device does not support the switch
                                     130  interrupted (everything was put back)";

/// A length of time: `90`, `90s`, `10m`, `1.5h`, `500ms`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Span(pub(crate) Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let (number, unit) = split_unit(text);
        let seconds_each = match unit {
            "" | "s" => 1.0,
            "ms" => 1e-3,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return Err(format!("{unit:?} is no unit of time: use ms, s, m, h or d")),
        };
        let seconds = number
            .parse::<f64>()
            .map_err(|_| "a time looks like 90s, 10m or 2h".to_owned())?
            * seconds_each;
        if !(seconds > 0.0 && seconds < 1e9) {
            return Err("a time must be above 0 and below 30 years".into());
        }
        Ok(Span(Duration::from_secs_f64(seconds)))
    }
}

/// A number of bytes: `512M`, `32G`, `4T`, `1048576`; powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let (number, unit) = split_unit(text);
        let shift = match unit
            .to_ascii_uppercase()
            .trim_end_matches("IB")
            .trim_end_matches('B')
        {
            "" => 0,
            "K" => 10,
            "M" => 20,
            "G" => 30,
            "T" => 40,
            _ => return Err(format!("{unit:?} is no unit of size: use K, M, G or T")),
        };
        let number: u64 = number
            .parse()
            .map_err(|_| "a size looks like 512M or 32G".to_owned())?;
        number
            .checked_mul(1 << shift)
            .filter(|&bytes| bytes > 0)
            .map(Size)
            .ok_or_else(|| "a size must be above 0 and fit in 64 bits".into())
    }
}

/// A percentage or ratio of differences: `2%`, `2`, or `1.02`, as the ratio 1.02.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Margin(pub(crate) f64);

impl FromStr for Margin {
    type Err = String;

    fn from_str(text: &str) -> Result<Margin, String> {
        let number = text.strip_suffix('%').unwrap_or(text).trim();
        let percent: f64 = number
            .parse()
            .map_err(|_| "a margin looks like 2%".to_owned())?;
        Ok(Margin(1.0 + percent / 100.0))
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_sizes_and_margins_are_read() {
        assert_eq!("10m".parse(), Ok(Span(Duration::from_secs(600))));
        assert_eq!("500ms".parse(), Ok(Span(Duration::from_millis(500))));
        assert_eq!("90".parse(), Ok(Span(Duration::from_secs(90))));
        assert!("ten".parse::<Span>().is_err() && "0".parse::<Span>().is_err());
        assert!("-1s".parse::<Span>().is_err() && "nan".parse::<Span>().is_err());
        assert_eq!("32G".parse(), Ok(Size(32 << 30)));
        assert_eq!("1MiB".parse(), Ok(Size(1 << 20)));
        assert!("0".parse::<Size>().is_err() && "99999999T".parse::<Size>().is_err());
        assert_eq!("2%".parse(), Ok(Margin(1.02)));
        assert_eq!("0.5".parse(), Ok(Margin(1.005)));
    }
}
