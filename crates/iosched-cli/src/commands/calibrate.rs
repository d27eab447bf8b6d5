//! `iosched calibrate`: do the verdicts keep what they promise? Whole tunes over simulated trials, and
//! the ways of others beside them. Touches no device.

use std::num::NonZeroUsize;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use iosched_experiment::calibrate::{CalibrationSettings, Rules, calibrate};
use iosched_experiment::plan;
use iosched_machine::failure::exit;

use crate::output::Output;
use crate::values::parse_count;

/// Arguments of `iosched calibrate`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched calibrate                     1000 runs of each method in each case
  iosched calibrate --runs 100          a quick look
  iosched calibrate --seed 7 --json     other chance; for scripts

It simulates trials with known truth (equal arms, one better by so much, drift,
outliers, correlated noise) and counts how often `tune`, and the methods that
people use instead, name a wrong winner or miss the right one. No disk is
touched. results/calibration.md explains the tables.")]
pub(crate) struct CalibrateArgs {
    /// Simulated tunes of each method in each case
    #[arg(long, default_value = "1000", value_name = "N", value_parser = parse_count::<NonZeroUsize>)]
    pub(crate) runs: NonZeroUsize,

    /// Where all chance comes from: the same seed gives the same tables
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Runs `iosched calibrate`.
pub(crate) fn run(args: &CalibrateArgs, output: &Output) -> u8 {
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let settings = CalibrationSettings {
        runs: args.runs,
        seed: args.seed,
        rules: tune_rules(),
        threads,
    };
    let bar = ProgressBar::new(1).with_style(
        ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}, {elapsed}")
            .expect("the template is ours"),
    );
    bar.set_message("simulating");
    bar.enable_steady_tick(Duration::from_millis(500));
    let calibration = calibrate(&settings, &|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        if done == all {
            bar.set_message("searching the fixed design");
        }
    });
    bar.finish_and_clear();
    if output.is_json() {
        output.json(&calibration);
    } else {
        output.text(&calibration.to_text());
    }
    exit::OK
}

/// The rules by which `iosched tune` decides if it is not told otherwise.
fn tune_rules() -> Rules {
    let tune = plan::Rules::default();
    Rules {
        margin: tune.margin,
        confidence: tune.confidence,
        budget_rounds: tune.max_rounds as usize,
        ..Rules::default()
    }
}
