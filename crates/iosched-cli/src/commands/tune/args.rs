//! What `iosched tune` can be asked.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;
use iosched_emulate::spec::parse_size;
use iosched_experiment::interference::Tolerance;
use iosched_experiment::load::builtin::BUILT_IN;
use iosched_experiment::objective::Objective;
use iosched_experiment::plan::{Requirement, Steady};
use iosched_machine::device::Consent;
use iosched_machine::file_system;
use iosched_sim::units::Bytes;

use crate::values::{Margin, Span, parse_count};

/// Arguments of `iosched tune`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
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
above it has none; kernel/mq-deadline is the kernel's own, above the disk.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct TuneArgs {
    /// Device, directory or file to measure on; none: an emulated hdd-7200
    pub(super) target: Option<String>,

    /// Use no device: run the loads on this disk model (a name of `iosched emulate models`, or a .toml file) under our own
    /// schedulers, in virtual time (the default if no target is given and no emulated disk can be created)
    #[arg(
        long,
        value_name = "MODEL",
        conflicts_with_all = ["target", "user", "apply", "persist", "precondition", "destroy_data", "ramp", "resume", "timeout", "file_size"]
    )]
    pub(super) simulate: Option<String>,

    /// Create an emulated disk of this model (a name of `iosched emulate models`, or a .toml file) for the run, and remove
    /// it afterwards. If an arm names a scheduler that this kernel lacks (cfq, deadline, noop), all plain names are
    /// served inside the disk
    #[arg(
        long,
        value_name = "MODEL",
        conflicts_with_all = ["target", "simulate", "resume", "persist", "apply", "destroy_data"]
    )]
    pub(super) emulate: Option<String>,

    /// Size of the emulated disk, for example 32G [default: the model's]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "emulate", conflicts_with = "simulate")]
    pub(super) size: Option<Bytes>,

    /// Queue depth of the emulated disk [default: the model's]
    #[arg(
        long,
        value_name = "N",
        requires = "emulate",
        conflicts_with = "simulate"
    )]
    pub(super) queue_depth: Option<usize>,

    /// Make the emulated disk N times slower, if this machine cannot keep up with the model
    #[arg(
        long,
        value_name = "N",
        requires = "emulate",
        conflicts_with = "simulate",
        value_parser = parse_count::<NonZeroU32>
    )]
    pub(super) slow_down: Option<NonZeroU32>,

    #[arg(long = "load", value_name = "LOAD[:WEIGHT]", help = load_help())]
    pub(super) loads: Vec<String>,

    /// For a load that is a command: run this once, before the first trial
    #[arg(long, value_name = "COMMAND")]
    pub(super) setup: Option<String>,

    /// For a load that is a command: run this before each trial; its time does not count
    #[arg(long, value_name = "COMMAND")]
    pub(super) prepare: Option<String>,

    /// For a load that is a command: the number that decides. time, a regular expression whose first
    /// group matches a number in the output, or a JSON pointer (/a/b) [default: time]
    #[arg(long, value_name = "METRIC")]
    pub(super) metric: Option<String>,

    /// Whether more or less of the command's number is better [default: higher; lower for time]
    #[arg(long, value_name = "higher|lower", value_parser = parse_better)]
    pub(super) better: Option<bool>,

    /// The server for the load pgbench: libpq's 'host=… user=…' [default: one of our own on the target]
    #[arg(long, value_name = "CONNECTION")]
    pub(super) pg: Option<String>,

    /// What to compare: scheduler or scheduler:tunable=value,...; repeatable or with commas; on a disk with a scheduler
    /// inside also kernel/NAME, the kernel's above it [default: all offered]
    #[arg(long, value_name = "ARMS")]
    pub(super) arms: Vec<String>,

    /// The arm to compare with [default: the active one, as it is tuned now]
    #[arg(long, value_name = "ARM")]
    pub(super) baseline: Option<String>,

    /// What decides: throughput, iops, mean, p50, p99, p999, read-mean, read-p99, fairness, cpu, tps, time [default: the load's own]
    #[arg(long, value_parser = parse_objective)]
    pub(super) objective: Option<Objective>,

    /// What an arm must keep of another metric to win, as a ratio to the baseline's: throughput>=0.95 (at least 0.95 times
    /// as much), p99<=1.1 (at most 1.1 times as long); repeatable
    #[arg(long = "require", value_name = "REQUIREMENT", value_parser = parse_requirement)]
    pub(super) requirements: Vec<Requirement>,

    /// Up to which share of what others do a trial counts: io (of the disk's time) is 2%; cpu and steal (of the
    /// processors) and memory (waiting for it) void no trial unless given: io=5%, cpu=20%, io=off
    #[arg(long = "tolerate", value_name = "WHAT=SHARE", value_delimiter = ',', value_parser = parse_tolerance)]
    pub(super) tolerate: Vec<Tolerated>,

    /// Difference that you do not care about, in per cent: 2%, or 2 [default: 2%]
    #[arg(long)]
    pub(super) margin: Option<Margin>,

    /// Probability with which all intervals hold together: 95%, 95 or 0.95 [default: 95%]
    #[arg(long, value_parser = parse_confidence)]
    pub(super) confidence: Option<f64>,

    /// Maximum number of rounds [default: 30]
    #[arg(long)]
    pub(super) rounds: Option<u32>,

    /// Run exactly this many rounds of all arms, with classical t intervals, instead of stopping at an answer
    #[arg(long, value_name = "N", conflicts_with = "rounds")]
    pub(super) fixed_rounds: Option<u32>,

    /// Time that all measuring may take at most, preparation included (10m, 2h). Trials are made shorter to fit several
    /// rounds, unless --runtime sets their length or they are simulated: then the run ends after as many as fit.
    /// Reaching a steady state takes at most half of it
    /// [default: none; 3m on the emulated disk]
    #[arg(long, value_name = "TIME")]
    pub(super) budget: Option<Span>,

    /// Run time of each trial [default: the job file's, or 10s; 2s on the emulated disk]
    #[arg(long, value_name = "TIME")]
    pub(super) runtime: Option<Span>,

    /// Time to leave out of the measurement at the start of each trial [default: none]
    #[arg(long, value_name = "TIME")]
    pub(super) ramp: Option<Span>,

    /// Time after which a load that hangs is killed [default: twice its run time and 30s]
    #[arg(long, value_name = "TIME")]
    pub(super) timeout: Option<Span>,

    /// Seed of all random choices: the same seed gives the same order of arms and the same offsets [default: random]
    #[arg(long)]
    pub(super) seed: Option<u64>,

    /// Size of each worker's test file, where the target is a directory [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(super) file_size: Option<Bytes>,

    /// Run a load before it is measured until it is steady (SNIA: five runs within 20 %, slope
    /// within 10 %): auto is for loads that write to a disk that is not emulated [default: auto]
    #[arg(long, value_name = "auto|on|off", value_parser = parse_steady)]
    pub(super) steady: Option<Steady>,

    /// Fill the whole raw device twice first, as flash needs it (with --destroy-data)
    #[arg(long)]
    pub(super) precondition: bool,

    /// Make a file system on the device for the run, and remove it afterwards: for loads that need a
    /// directory (with --destroy-data; the run's own emulated disk gets ext4 by default)
    #[arg(
        long,
        value_name = "ext4|xfs|btrfs|f2fs",
        value_parser = parse_file_system,
        conflicts_with_all = ["precondition", "simulate"]
    )]
    pub(super) mkfs: Option<file_system::FileSystemKind>,

    /// Run the load with this user's rights [default: yours]
    #[arg(long, value_name = "NAME")]
    pub(super) user: Option<String>,

    /// Run this fio instead of the one on PATH (root's PATH is fixed: the system's directories)
    #[arg(long, value_name = "FILE")]
    pub(super) fio: Option<PathBuf>,

    /// Switch to the winner when there is one, until the next reboot: on a disk that is there after the run (not with
    /// --simulate or --emulate)
    #[arg(long)]
    pub(super) apply: bool,

    /// Keep the winner when there is one, over reboots: a rule in the policy, with a link to the record (not for simulated
    /// or emulated disks)
    #[arg(long)]
    pub(super) persist: bool,

    /// Do not record where requests spend their time, in the queue or at the disk
    #[arg(long)]
    pub(super) no_split: bool,

    /// Directory for the record [default: iosched-results/TIME-TARGET]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,

    /// Report the answer in the exit code: 0 a winner, 20 equal (or near enough to the best), 21 undecided, 22 disturbed
    #[arg(long, conflicts_with = "dry_run")]
    pub(super) exit_code: bool,

    /// Leave out the page with charts that is written beside the record (report.html)
    #[arg(long)]
    pub(super) no_html: bool,

    /// Continue a run that was interrupted, or whose budget was spent (give a larger one); the run's own emulated
    /// disk is created again, empty
    #[arg(long, value_name = "DIR", conflicts_with_all = ["target", "out"])]
    pub(super) resume: Option<PathBuf>,

    /// Print the plan and how long it could take, and do nothing
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Allow loads that write to the raw device; name the device here if it is not empty; needed again
    /// with --resume
    #[arg(
        long,
        value_name = "DEVICE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    pub(super) destroy_data: Option<String>,
}

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

fn load_help() -> String {
    let loads: Vec<String> = BUILT_IN
        .iter()
        .map(|load| format!("{} ({})", load.name, load.summary))
        .collect();
    format!(
        "Load to run, repeatable: a fio job file; 'command: PROGRAM …' ('command: sh: …' for a shell); one \
         with options, as in pgbench:scale=10,clients=20 (the values listed here are the defaults): \
         pgbench (scale=50, clients=100, threads=2, transactions=… or time=60, mode=tpcb, \
         select, simple-update or FILE, protocol=…), desktop (starts=2, seconds=1, size=64m, readers=0, writers=0), \
         five-tests (size=1g, record=16m, threads=1..3), \
         documents-read (threads=80, documents=32000, stored=…, size=4k, order=random or stored, control=on), \
         documents-create (threads=80, documents=2000, size=4k), database:1..4; or a built-in one: {} [default: random-read]",
        loads.join("; ")
    )
}

fn parse_objective(text: &str) -> Result<Objective, String> {
    Objective::from_name(text).ok_or_else(|| {
        let names: Vec<_> = Objective::ALL
            .iter()
            .map(|objective| objective.name())
            .collect();
        format!("known are {}", names.join(", "))
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

fn parse_better(text: &str) -> Result<bool, String> {
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
