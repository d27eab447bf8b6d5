//! `iosched judge`: what results that exist already show.

use std::path::PathBuf;

use clap::Args;
use iosched_experiment::judge::{JudgeRequest, judge};
use iosched_experiment::objective::Objective;
use iosched_machine::failure::exit;
use iosched_report::judged;

use super::tune::{parse_better, parse_objective};
use super::{Outcome, answer_code, boxed};
use crate::output::Output;
use crate::values::Margin;

/// Arguments of `iosched judge`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched judge none=a.json bfq=b.json none=c.json bfq=d.json
      fio's JSON or JSON+, any number of runs of each arm
  iosched judge kyber=old/ kpp=new/ --metric p99
      a folder of results for each arm, judged by another number
  iosched judge none=n/ bfq=b/ --pairs
      the n-th runs are compared with one another
  iosched judge none=n.txt kyber=k.txt
      reports of pgbench
  iosched judge times.json
      hyperfine, with a parameter that names the arm
  iosched judge values.csv --better lower
      lines `arm,round,value`

What the design of the measurement cannot show is said first. `tune` measures
in rounds of random order, so that its answers have none of these doubts.")]
pub(crate) struct JudgeArgs {
    /// Arm and its results: a file or a folder; repeatable. Files that name their arms stand alone
    #[arg(required = true, value_name = "ARM=FILE")]
    results: Vec<String>,

    /// Compare the n-th runs of the arms with one another
    #[arg(long)]
    pairs: bool,

    /// What decides, of fio: throughput, iops, mean, p50, p99, p999, read-mean, read-p99 or fairness
    #[arg(long, value_name = "METRIC", value_parser = parse_objective)]
    metric: Option<Objective>,

    /// Whether more or less of a value in CSV is better [default: higher]
    #[arg(long, value_name = "higher|lower", value_parser = parse_better)]
    better: Option<bool>,

    /// Arm to compare the others with [default: the first]
    #[arg(long, value_name = "ARM")]
    baseline: Option<String>,

    /// Difference that does not matter to you [default: 2%]
    #[arg(long)]
    margin: Option<Margin>,

    /// Print every number
    #[arg(long)]
    details: bool,

    /// Tell by the exit code what is shown: 0 a winner, 20 equal, 21 undecided, 22 not shown
    #[arg(long)]
    exit_code: bool,
}

/// Runs `iosched judge`.
pub(crate) fn run(args: &JudgeArgs, output: &Output) -> Outcome {
    let result = |text: &String| match text.split_once('=') {
        Some((arm, file)) if !arm.is_empty() && !arm.contains('/') => {
            (Some(arm.to_owned()), PathBuf::from(file))
        }
        _ => (None, PathBuf::from(text)),
    };
    let request = JudgeRequest {
        results: args.results.iter().map(result).collect(),
        baseline: args.baseline.clone(),
        pairs: args.pairs,
        objective: args.metric,
        higher_is_better: args.better.unwrap_or(true),
        margin: args.margin.map_or(1.02, |margin| margin.0),
    };
    let judgement = judge(&request).map_err(boxed)?;
    if output.is_json() {
        output.json(&judged::json(&judgement));
    } else {
        output.text(&judged::text(&judgement, output.widths(), args.details));
    }
    let code = answer_code(&judgement.analysis);
    Ok(if args.exit_code { code } else { exit::OK })
}
