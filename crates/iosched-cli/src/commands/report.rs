//! `iosched report`: a record again, in the form that is wanted.

use std::path::PathBuf;

use clap::Args;
use iosched::analysis::Analysis;
use iosched::failure::exit;
use iosched::record::Record;
use iosched::report::{csv, known, text};

use super::{Outcome, boxed};
use crate::output::Output;

/// Arguments of `iosched report`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched report iosched-results/20261121-101500-sda   tables and verdict
  iosched report DIR --csv > trials.csv                one row per trial
  iosched report DIR --json | jq .loads[0].contest.verdict
  iosched report DIR --points --normalised             tables that people know

The points and the normalised table stand in many articles. They have no
intervals and tell less than the verdict above them.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct ReportArgs {
    /// Results directory that `iosched tune` wrote
    directory: PathBuf,

    /// Tidy data, one row per trial
    #[arg(long, group = "form")]
    csv: bool,

    /// Tab-separated log of the iozone sweep: Test, Throughput (KB/s), I/O Scheduler, Threads, n
    #[arg(long, group = "form")]
    tsv: bool,

    /// 2/1/0 points: in each round the best arm gets most, the worst none
    #[arg(long)]
    points: bool,

    /// Throughput with the baseline at 100
    #[arg(long)]
    normalised: bool,
}

/// Runs `iosched report`.
pub(crate) fn run(args: &ReportArgs, output: &Output) -> Outcome {
    let record = Record::load(&args.directory).map_err(boxed)?;
    if args.csv {
        output.text(&csv::trials(&record));
        return Ok(exit::OK);
    }
    if args.tsv {
        output.text(&known::sweep_log(&record));
        return Ok(exit::OK);
    }
    let analysis = Analysis::of(&record);
    if output.is_json() {
        output.json(&analysis);
        return Ok(exit::OK);
    }
    output.text(&text::record(&record, &analysis, output.width()));
    if args.points {
        output.text(&known::points(&record, output.width()));
    }
    if args.normalised {
        output.text(&known::normalised(&record, &analysis, output.width()));
    }
    Ok(exit::OK)
}
