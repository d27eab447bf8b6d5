//! What `iosched tune` can be asked.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;
use iosched_emulate::spec::parse_size;
use iosched_experiment::interference::Tolerance;
use iosched_experiment::objective::Objective;
use iosched_experiment::plan::{Requirement, Steady};
use iosched_facts::near::did_you_mean;
use iosched_machine::device::Consent;
use iosched_machine::file_system;
use iosched_sim::units::Bytes;

use crate::values::{MORE, Margin, Span, parse_count};

/// Arguments of `iosched tune`.
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = "\
Examples:
  iosched tune                          on an emulated disk: see how it works
  iosched tune /srv/data                own files there, removed afterwards
  iosched tune sda                      the raw device, only read
  iosched tune /srv/data --load mixed --load my.fio:2 --apply
  iosched tune /srv/data --load 'command: make -j2' --prepare 'make clean'
  iosched tune --load pgbench:scale=10  an emulated disk with PostgreSQL on it
  iosched tune sdb --mkfs ext4 --destroy-data --load pgbench
                                        the same on a disk that holds nothing
  iosched tune sda --arms none,bfq,mq-deadline:fifo_batch=1
  iosched tune sda --objective p99 --require 'throughput>=0.95' --budget 30m
  iosched tune --simulate hdd-7200 --arms noop,deadline,cfq --load mixed
  iosched tune --emulate hdd-7200 --arms noop,deadline,cfq --load pgbench
                                        over schedulers that no kernel has today
  iosched tune --resume iosched-results/20261121-101500-data

Each round runs every arm once, in random order; arms are compared by their
ratio to the baseline (the scheduler that was active) within a round. The run
stops when the answer is known, or when its budget is spent. Nothing on a raw
device is ever written without --destroy-data.

On an emulated disk with a scheduler inside (`emulate create --scheduler`), cfq
(shown as served/cfq) is the scheduler inside the disk, while the kernel's queue
above it has none; kernel/mq-deadline is the kernel's own, above the disk. With
--emulate, if an arm names a scheduler that this kernel lacks (cfq, deadline,
noop), all plain names are inside the disk.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct TuneArgs {
    /// Device, directory or file [default: an emulated hdd-7200]
    #[arg(
        long_help = "Device, directory or file to measure on. None: an emulated hdd-7200, or, if no emulated disk \
                     can be created, a simulated one"
    )]
    pub(super) target: Option<String>,

    /// Load to run; `--load help` lists them
    #[arg(
        long = "load",
        value_name = "LOAD",
        help_heading = MEASURE,
        long_help = "NAME[:WEIGHT], a fio job file, 'fio --name=…' or 'command: PROGRAM'; repeatable. \
                     `--load help` lists them [default: random-read]"
    )]
    pub(super) loads: Vec<String>,

    /// Schedulers to compare, with commas [default: all]
    #[arg(
        long,
        value_name = "ARMS",
        help_heading = MEASURE,
        long_help = "Schedulers to compare, as NAME or NAME:TUNABLE=VALUE,…; repeatable, or with commas \
                     [default: all that the disk offers]"
    )]
    pub(super) arms: Vec<String>,

    /// Arm to compare with [default: the active one]
    #[arg(
        long,
        value_name = "ARM",
        help_heading = MEASURE,
        long_help = "Arm to compare with [default: the active scheduler, as it is tuned now]"
    )]
    pub(super) baseline: Option<String>,

    /// Value of a variable (${NAME}) in fio job files; repeatable [default: the environment]
    #[arg(long = "define", value_name = "NAME=VALUE", help_heading = MEASURE, value_parser = parse_define, hide_short_help = true)]
    pub(super) defines: Vec<(String, String)>,

    /// If the load is a command: run this once, before the first trial
    #[arg(long, value_name = "COMMAND", help_heading = MEASURE, hide_short_help = true)]
    pub(super) setup: Option<String>,

    /// If the load is a command: run this before each trial; its time does not count
    #[arg(long, value_name = "COMMAND", help_heading = MEASURE, hide_short_help = true)]
    pub(super) prepare: Option<String>,

    /// Server for the load pgbench: libpq's 'host=… user=…' [default: one of our own on the target]
    #[arg(long, value_name = "CONNECTION", help_heading = MEASURE, hide_short_help = true)]
    pub(super) pg: Option<String>,

    /// Size of each worker's test file, if the target is a directory [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = MEASURE, hide_short_help = true)]
    pub(super) file_size: Option<Bytes>,

    /// Make a file system for loads that need a directory (with --destroy-data) [default: ext4 on the run's emulated disk]
    #[arg(
        long,
        value_name = "ext4|xfs|btrfs|f2fs",
        value_parser = parse_file_system,
        conflicts_with_all = ["precondition", "simulate"],
        help_heading = MEASURE,
        hide_short_help = true
    )]
    pub(super) mkfs: Option<file_system::FileSystemKind>,

    /// Allow loads that write to the raw device. If it is not empty, name it here. Needed again with --resume
    #[arg(
        long,
        value_name = "DEVICE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        help_heading = MEASURE,
        hide_short_help = true
    )]
    pub(super) destroy_data: Option<String>,

    /// Run the load with this user's rights [default: yours]
    #[arg(long, value_name = "NAME", help_heading = MEASURE, hide_short_help = true)]
    pub(super) user: Option<String>,

    /// Run this fio instead of the one on PATH (root's PATH is fixed: the system's directories)
    #[arg(long, value_name = "FILE", help_heading = MEASURE, hide_short_help = true)]
    pub(super) fio: Option<PathBuf>,

    /// Time that the whole run may take: 10m, 2h
    #[arg(
        long,
        value_name = "TIME",
        help_heading = HOW_LONG,
        long_help = "Time that the whole run may take (10m, 2h). Unless --runtime is given, trials become shorter \
                     to fit [default: none; 3m on the emulated disk]"
    )]
    pub(super) budget: Option<Span>,

    /// Rounds at most, each with every arm once [default: 30]
    #[arg(long, help_heading = HOW_LONG)]
    pub(super) rounds: Option<u32>,

    /// Run exactly N rounds of all arms, with classical t intervals, instead of stopping at an answer
    #[arg(long, value_name = "N", conflicts_with = "rounds", help_heading = HOW_LONG, hide_short_help = true)]
    pub(super) fixed_rounds: Option<u32>,

    /// Run time of each trial [default: 10s]
    #[arg(
        long,
        value_name = "TIME",
        help_heading = HOW_LONG,
        long_help = "Run time of each trial [default: the job file's, or 10s; 2s on the emulated disk]"
    )]
    pub(super) runtime: Option<Span>,

    /// Time at the start of each trial that is not measured [default: none]
    #[arg(long, value_name = "TIME", help_heading = HOW_LONG, hide_short_help = true)]
    pub(super) ramp: Option<Span>,

    /// Time after which a load that hangs is killed [default: twice its run time and 30s]
    #[arg(long, value_name = "TIME", help_heading = HOW_LONG, hide_short_help = true)]
    pub(super) timeout: Option<Span>,

    /// Run a load unmeasured until it is steady (SNIA's rule). auto: only loads that write to a disk that is not emulated
    /// [default: auto]
    #[arg(
        long,
        value_name = "auto|on|off",
        value_parser = parse_steady,
        help_heading = HOW_LONG,
        hide_short_help = true
    )]
    pub(super) steady: Option<Steady>,

    /// Fill the whole raw device twice first, as flash needs it (with --destroy-data)
    #[arg(long, help_heading = HOW_LONG, hide_short_help = true)]
    pub(super) precondition: bool,

    /// Metric that decides [default: the load's own]
    #[arg(
        long,
        value_name = "METRIC",
        value_parser = parse_objective,
        help_heading = DECIDES,
        long_help = "Metric that decides: throughput, iops, mean, p50, p99, p999, read-mean, read-p99, fairness, cpu, \
                     tps, time [default: the load's]"
    )]
    pub(super) objective: Option<Objective>,

    /// Requirement: 'throughput>=0.95' or 'p99<=1.1'
    #[arg(
        long = "require",
        value_name = "RULE",
        value_parser = parse_requirement,
        help_heading = DECIDES,
        long_help = "Requirement for the winner, as a ratio to the baseline: 'throughput>=0.95' or 'p99<=1.1'; repeatable"
    )]
    pub(super) requirements: Vec<Requirement>,

    /// Difference that does not matter to you [default: 2%]
    #[arg(long, help_heading = DECIDES)]
    pub(super) margin: Option<Margin>,

    /// Probability with which all intervals hold together: 95% or 0.95 [default: 95%]
    #[arg(long, value_parser = parse_confidence, help_heading = DECIDES, hide_short_help = true)]
    pub(super) confidence: Option<f64>,

    /// If the load is a command: time, a regular expression whose first group is a number in the output, or a JSON pointer
    /// (/a/b) [default: time]
    #[arg(long, value_name = "METRIC", help_heading = DECIDES, hide_short_help = true)]
    pub(super) metric: Option<String>,

    /// Whether more or less of the command's number is better [default: higher; lower for time]
    #[arg(
        long,
        value_name = "higher|lower",
        value_parser = parse_better,
        help_heading = DECIDES,
        hide_short_help = true
    )]
    pub(super) better: Option<bool>,

    /// Share of others' work (io, cpu, steal, memory) above which a trial does not count: io=5%, cpu=20%, io=off
    /// [default: io=2%]
    #[arg(
        long = "tolerate",
        value_name = "WHAT=SHARE",
        value_delimiter = ',',
        value_parser = parse_tolerance,
        help_heading = DECIDES,
        hide_short_help = true
    )]
    pub(super) tolerate: Vec<Tolerated>,

    /// Seed of all random choices: it fixes the order of arms and the offsets [default: random]
    #[arg(long, help_heading = DECIDES, hide_short_help = true)]
    pub(super) seed: Option<u64>,

    /// Print the plan and its longest time; do nothing
    #[arg(long, help_heading = HOW_LONG)]
    pub(super) dry_run: bool,

    /// Switch to the winner until the next reboot
    #[arg(
        long,
        help_heading = AFTERWARDS,
        long_help = "Switch to the winner, if there is one, until the next reboot (not with --simulate or --emulate)"
    )]
    pub(super) apply: bool,

    /// Keep the winner across reboots
    #[arg(
        long,
        help_heading = AFTERWARDS,
        long_help = "Keep the winner, if there is one, across reboots: a rule in the policy, with a link to the record \
                     (not with --simulate or --emulate)"
    )]
    pub(super) persist: bool,

    /// Continue an interrupted run
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["target", "out"],
        help_heading = AFTERWARDS,
        long_help = "Continue a run that was interrupted, or whose budget was spent (give a larger one). An emulated \
                     disk of the run is created again, empty"
    )]
    pub(super) resume: Option<PathBuf>,

    /// Directory for the record [default: iosched-results/TIME-TARGET]
    #[arg(long, value_name = "DIR", help_heading = AFTERWARDS, hide_short_help = true)]
    pub(super) out: Option<PathBuf>,

    /// Do not write the page with charts (report.html) beside the record
    #[arg(long, help_heading = AFTERWARDS, hide_short_help = true)]
    pub(super) no_html: bool,

    /// Do not record where requests spend their time, in the queue or at the disk
    #[arg(long, help_heading = AFTERWARDS, hide_short_help = true)]
    pub(super) no_split: bool,

    /// Report the answer in the exit code: 0 a winner, 20 equal (or near enough to the best), 21 undecided, 22 disturbed
    #[arg(long, conflicts_with = "dry_run", help_heading = AFTERWARDS, hide_short_help = true)]
    pub(super) exit_code: bool,

    /// Measure on an emulated disk of this model
    #[arg(
        long,
        value_name = "MODEL",
        conflicts_with_all = ["target", "simulate", "resume", "persist", "apply", "destroy_data"],
        help_heading = WITHOUT_DISK,
        long_help = "Create an emulated disk of this model (of `iosched emulate models`, or a .toml file) for \
                     the run"
    )]
    pub(super) emulate: Option<String>,

    /// Simulate this model, in virtual time
    #[arg(
        long,
        value_name = "MODEL",
        conflicts_with_all = ["target", "user", "apply", "persist", "precondition", "destroy_data", "ramp", "resume", "timeout", "file_size"],
        help_heading = WITHOUT_DISK,
        long_help = "Run the loads on this disk model (a name of `iosched emulate models`, or a .toml file) under our \
                     own schedulers, in virtual time"
    )]
    pub(super) simulate: Option<String>,

    /// Size of the emulated disk, for example 32G [default: the model's]
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = parse_size,
        requires = "emulate",
        conflicts_with = "simulate",
        help_heading = WITHOUT_DISK,
        hide_short_help = true
    )]
    pub(super) size: Option<Bytes>,

    /// Queue depth of the emulated disk [default: the model's]
    #[arg(
        long,
        value_name = "N",
        requires = "emulate",
        conflicts_with = "simulate",
        help_heading = WITHOUT_DISK,
        hide_short_help = true
    )]
    pub(super) queue_depth: Option<usize>,

    /// Make the emulated disk N times slower, if this machine cannot keep up with the model
    #[arg(
        long,
        value_name = "N",
        requires = "emulate",
        conflicts_with = "simulate",
        value_parser = parse_count::<NonZeroU32>,
        help_heading = WITHOUT_DISK,
        hide_short_help = true
    )]
    pub(super) slow_down: Option<NonZeroU32>,
}

/// Headings of the options, in the order in which a user meets the questions.
const MEASURE: &str = "What to measure";
const HOW_LONG: &str = "How long";
const DECIDES: &str = "What decides";
const AFTERWARDS: &str = "Afterwards";
const WITHOUT_DISK: &str = "Without a disk of your own";

impl TuneArgs {
    pub(super) fn tolerance(&self) -> Tolerance {
        let wanted = self.tolerate.iter();
        wanted.fold(Tolerance::default(), |tolerance, Tolerated(text)| {
            tolerance.with(text).expect("it was read before")
        })
    }

    /// The options that were given and that a run has from its beginning, each with whether it has a value: with
    /// `--resume` the record has them.
    pub(super) fn of_the_plan(&self) -> Vec<(&'static str, bool)> {
        let options = [
            ("--load", true, !self.loads.is_empty()),
            ("--define", true, !self.defines.is_empty()),
            ("--setup", true, self.setup.is_some()),
            ("--prepare", true, self.prepare.is_some()),
            ("--metric", true, self.metric.is_some()),
            ("--better", true, self.better.is_some()),
            ("--pg", true, self.pg.is_some()),
            ("--arms", true, !self.arms.is_empty()),
            ("--baseline", true, self.baseline.is_some()),
            ("--objective", true, self.objective.is_some()),
            ("--require", true, !self.requirements.is_empty()),
            ("--tolerate", true, !self.tolerate.is_empty()),
            ("--margin", true, self.margin.is_some()),
            ("--confidence", true, self.confidence.is_some()),
            ("--fixed-rounds", true, self.fixed_rounds.is_some()),
            ("--runtime", true, self.runtime.is_some()),
            ("--ramp", true, self.ramp.is_some()),
            ("--seed", true, self.seed.is_some()),
            ("--file-size", true, self.file_size.is_some()),
            ("--steady", true, self.steady.is_some()),
            ("--precondition", false, self.precondition),
            ("--mkfs", true, self.mkfs.is_some()),
            ("--no-split", false, self.no_split),
        ];
        let given = options.into_iter().filter(|(.., is_given)| *is_given);
        given
            .map(|(name, has_value, _)| (name, has_value))
            .collect()
    }
}

pub(in crate::commands) fn parse_define(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is wanted")?;
    Ok((name.into(), value.into()))
}

pub(crate) fn parse_objective(text: &str) -> Result<Objective, String> {
    Objective::from_name(text).ok_or_else(|| {
        let names = Objective::ALL.map(Objective::name);
        let near = did_you_mean(text, names).map_or(String::new(), |near| format!("{near} "));
        format!("{near}known are {}", names.join(", "))
    })
}

fn parse_confidence(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%');
    let number: f64 = percent
        .unwrap_or(text)
        .trim()
        .parse()
        .map_err(|_| "a confidence looks like 95%".to_owned())?;
    // A probability is at most 1: what is more counts per cent, as a bare --margin does.
    let is_percent = percent.is_some() || number > 1.0;
    Ok(if is_percent { number / 100.0 } else { number })
}

/// A part of `--tolerate`, as it was written.
#[derive(Debug, Clone)]
pub(super) struct Tolerated(String);

fn parse_tolerance(text: &str) -> Result<Tolerated, String> {
    Tolerance::default().with(text)?;
    Ok(Tolerated(text.to_owned()))
}

fn parse_file_system(text: &str) -> Result<file_system::FileSystemKind, String> {
    file_system::FileSystemKind::from_name(text).ok_or_else(|| {
        let names = file_system::FileSystemKind::ALL.map(file_system::FileSystemKind::name);
        format!("known are {}", names.join(", "))
    })
}

fn parse_steady(text: &str) -> Result<Steady, String> {
    match text {
        "auto" => Ok(Steady::Auto),
        "on" => Ok(Steady::On),
        "off" => Ok(Steady::Off),
        _ => Err("auto, on or off".into()),
    }
}

pub(crate) fn parse_better(text: &str) -> Result<bool, String> {
    match text {
        "higher" => Ok(true),
        "lower" => Ok(false),
        _ => Err("higher or lower".into()),
    }
}

fn parse_requirement(text: &str) -> Result<Requirement, String> {
    let ((metric, ratio), is_least) = text
        .split_once(">=")
        .map(|parts| (parts, true))
        .or_else(|| text.split_once("<=").map(|parts| (parts, false)))
        .ok_or("write it as throughput>=0.95 or p99<=1.1")?;
    let objective = parse_objective(metric.trim())?;
    let ratio: f64 = ratio
        .trim()
        .parse()
        .map_err(|_| "the ratio is a number such as 0.95")?;
    let name = objective.name();
    match (is_least, objective.higher_is_better()) {
        (true, false) => Err(format!(
            "less of {name} is better: write {name}<=1.1, at most 1.1 times the baseline's"
        )),
        (false, true) => Err(format!(
            "more of {name} is better: write {name}>=0.95, at least 0.95 times the baseline's"
        )),
        (true, true) if ratio > 0.0 && ratio <= 2.0 => Ok(ratio),
        (true, true) => Err("the ratio must be above 0 and at most 2".into()),
        (false, false) if (0.5..=1e6).contains(&ratio) => Ok(1.0 / ratio),
        (false, false) => Err("the ratio must be at least 0.5 and at most a million".into()),
    }
    .map(|at_least| Requirement {
        objective,
        at_least,
    })
}

/// What the user said about the data on a raw device.
pub(super) fn consent(args: &TuneArgs) -> Consent {
    match args.destroy_data.as_deref() {
        None => Consent::No,
        Some("") => Consent::ToWrite,
        Some(device) => Consent::Named(device.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_is_a_metric_and_a_ratio() {
        let requirement = parse_requirement("throughput>=0.95").unwrap();
        assert_eq!(requirement.objective, Objective::Throughput);
        assert!(parse_requirement("speed>=1").is_err());
        assert!(parse_requirement("throughput>=-1").is_err());
        let at_most = parse_requirement("p99<=1.25").unwrap();
        assert_eq!((at_most.objective, at_most.at_least), (Objective::P99, 0.8));
        for (wrong_way, right) in [("p99>=0.9", "p99<=1.1"), ("iops<=1", "iops>=0.95")] {
            let error = parse_requirement(wrong_way).unwrap_err();
            assert!(error.contains(right), "{error}");
        }
        assert!(parse_requirement("p99").is_err());
    }
}
