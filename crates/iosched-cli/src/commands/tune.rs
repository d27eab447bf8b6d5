//! `iosched tune`: the main job. Measure every scheduler under a load, in rounds of random order,
//! until the answer is known; print it with intervals; leave the machine as it was.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use iosched::analysis::Analysis;
use iosched::disk_file;
use iosched::emulate::spec::{Spec, parse_size};
use iosched::emulate::{self, Condition, EmulatedDisk};
use iosched::event::Observer;
use iosched::facts::MachineFacts;
use iosched::failure::{Failure, exit};
use iosched::file_system;
use iosched::host::Host;
use iosched::load::builtin::BUILT_IN;
use iosched::load::fio;
use iosched::load::simulated::SimulatedDisk;
use iosched::objective::Objective;
use iosched::plan::{
    CommandOptions, DEFAULT_MAX_ROUNDS, Plan, Requirement, Rules, Steady, Target, Wanted,
};
use iosched::process::{Stop, User};
use iosched::record::{self, Entry, Header, Record, Recorder, StopReason};
use iosched::report;
use iosched::run::{self, RunOptions};
use iosched::set::{self, Change, Settled};
use iosched_sim::units::Bytes;

use super::{Outcome, boxed, persist, stop_on_signals};

use crate::files;
use crate::output::Output;
use crate::progress::{JsonLines, Progress};
use crate::values::{Margin, Span};

/// The disk that is made where no target is named.
const DEFAULT_MODEL: &str = "hdd-7200";

/// Run time of a trial on an emulated disk, which has no cache to warm and no garbage to collect.
const EMULATED_RUNTIME: Duration = Duration::from_secs(3);

/// Time after which a run on an emulated disk of our own begins no further round.
const EMULATED_BUDGET: Duration = Duration::from_secs(180);

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
  iosched tune --resume iosched-results/20261121-101500-data

Each round runs every arm once, in random order; arms are compared by their
ratio to the baseline (the scheduler that was active) within a round. The run
stops when the answer is known, or when its budget is spent. Nothing on a raw
device is ever written without --destroy-data.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct TuneArgs {
    /// Device, directory or file to measure on; none: an emulated hdd-7200
    target: Option<String>,

    /// Touch no device: run the loads under our own schedulers over this disk model, in virtual time
    /// (done by itself where no target is named and no emulated disk can be made)
    #[arg(
        long,
        value_name = "MODEL",
        conflicts_with_all = ["target", "user", "apply", "persist", "precondition", "destroy_data", "ramp", "resume"]
    )]
    simulate: Option<String>,

    #[arg(long = "load", value_name = "LOAD[:WEIGHT]", help = load_help())]
    loads: Vec<String>,

    /// Command that is run once before the first trial of a load that is a command
    #[arg(long, value_name = "COMMAND")]
    setup: Option<String>,

    /// Command that is run before each trial of a load that is a command, not counted
    #[arg(long, value_name = "COMMAND")]
    prepare: Option<String>,

    /// What decides a load that is a command: time, a regular expression whose first group is a
    /// number in its output, or a JSON pointer (/a/b) [default: time]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,

    /// Whether more or less of the command's number is better [default: higher; lower for time]
    #[arg(long, value_name = "higher|lower", value_parser = parse_better)]
    better: Option<bool>,

    /// The server for the load pgbench: libpq's 'host=… user=…' [default: one of our own on the target]
    #[arg(long, value_name = "CONNECTION")]
    pg: Option<String>,

    /// What to compare: scheduler or scheduler:tunable=value,...; repeatable or with commas [default: all offered]
    #[arg(long, value_name = "ARMS")]
    arms: Vec<String>,

    /// The arm to compare with [default: the active one, as it is tuned now]
    #[arg(long, value_name = "ARM")]
    baseline: Option<String>,

    /// What decides: throughput, iops, mean, p50, p99, p999, read-mean, read-p99, fairness, cpu, tps, time [default: the load's own]
    #[arg(long, value_parser = parse_objective)]
    objective: Option<Objective>,

    /// What an arm must keep of the baseline to be allowed to win: throughput>=0.95; repeatable
    #[arg(long = "require", value_name = "REQUIREMENT", value_parser = parse_requirement)]
    requirements: Vec<Requirement>,

    /// Difference that you do not care about, in per cent: 2%, or 2
    #[arg(long, default_value = "2%")]
    margin: Margin,

    /// Probability with which all intervals hold together: 95% or 0.95
    #[arg(long, default_value = "95%", value_parser = parse_confidence)]
    confidence: f64,

    /// Rounds at the most [default: 30]
    #[arg(long)]
    rounds: Option<u32>,

    /// Exactly so many rounds of all arms, with classical t intervals, instead of stopping when known
    #[arg(long, value_name = "N", conflicts_with = "rounds")]
    fixed_rounds: Option<u32>,

    /// Time after which no further round is begun (10m, 2h) [default: none; 3m on the emulated disk]
    #[arg(long, value_name = "DURATION")]
    budget: Option<Span>,

    /// Run time of each trial [default: the job file's, or 10s; 3s on the emulated disk]
    #[arg(long, value_name = "DURATION")]
    runtime: Option<Span>,

    /// Time at the start of each trial that does not count [default: none]
    #[arg(long, value_name = "DURATION")]
    ramp: Option<Span>,

    /// Time after which a load that hangs is killed [default: twice its run time and 30s]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,

    /// Source of all chance: the same seed gives the same orders and offsets [default: random]
    #[arg(long)]
    seed: Option<u64>,

    /// Size of each worker's test file, where the target is a directory
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    file_size: Bytes,

    /// Run a load before it is measured until it is steady (SNIA: five runs within 20 %, slope
    /// within 10 %): auto is for loads that write
    #[arg(long, value_name = "auto|on|off", default_value = "auto", value_parser = parse_steady)]
    steady: Steady,

    /// Fill the whole raw device twice first, as flash needs it (with --destroy-data)
    #[arg(long)]
    precondition: bool,

    /// Make a file system on the device for the run, and remove it afterwards: for loads that need a
    /// directory (with --destroy-data; on an emulated disk of the run's own it is ext4 by itself)
    #[arg(
        long,
        value_name = "ext4|xfs|btrfs|f2fs",
        value_parser = parse_file_system,
        conflicts_with_all = ["precondition", "simulate"]
    )]
    mkfs: Option<file_system::Kind>,

    /// Run the load with this user's rights [default: yours]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Switch to the winner when there is one (until the next reboot)
    #[arg(long)]
    apply: bool,

    /// Keep the winner when there is one, over reboots: a rule in the policy, with a link to the record
    #[arg(long)]
    persist: bool,

    /// Directory for the record [default: iosched-results/TIME-TARGET]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Leave out the page with charts that is written beside the record (report.html)
    #[arg(long)]
    no_html: bool,

    /// Go on with an interrupted run, or with one whose budget was spent (give a larger one)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["target", "loads", "arms", "out", "seed", "mkfs"])]
    resume: Option<PathBuf>,

    /// Print the plan and its time, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Allow loads that write to the raw device; name the device again if it holds something
    #[arg(
        long,
        value_name = "DEVICE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    destroy_data: Option<String>,
}

fn load_help() -> String {
    let loads: Vec<String> = BUILT_IN
        .iter()
        .map(|load| format!("{} ({})", load.name, load.summary))
        .collect();
    format!(
        "Load to run, repeatable: a fio job file; 'command: PROGRAM …' (sh: before it for a shell); one \
         of those with options, as in pgbench:scale=10,clients=20 (their values here are the defaults): \
         pgbench (scale=50, clients=100, threads=2, transactions=… or time=60, mode=tpcb, \
         select, simple-update or FILE, protocol=…), five-tests (size=1g, record=16m, \
         threads=1..3, runs=…, driver=iozone or fio), \
         documents-read (threads=80, documents=32000, stored=…, size=4k, control=on), \
         documents-create (the same), database:1..4; or a built-in one: {} [default: random-read]",
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
    let (number, scale) = match text.strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    let number: f64 = number
        .trim()
        .parse()
        .map_err(|_| "a confidence looks like 95%".to_owned())?;
    Ok(number / scale)
}

fn parse_file_system(text: &str) -> Result<file_system::Kind, String> {
    file_system::Kind::from_name(text).ok_or_else(|| {
        let names = file_system::Kind::ALL.map(file_system::Kind::name);
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
    let (metric, ratio) = text
        .split_once(">=")
        .ok_or("write it as throughput>=0.95")?;
    let at_least: f64 = ratio
        .trim()
        .parse()
        .map_err(|_| "the ratio is a number such as 0.95")?;
    if !(at_least > 0.0 && at_least <= 2.0) {
        return Err("the ratio must be above 0 and at most 2".into());
    }
    Ok(Requirement {
        objective: parse_objective(metric.trim())?,
        at_least,
    })
}

/// Splits `none,bfq:low_latency=0,slice_idle=0` into arms: a piece with `=` and no `:` still
/// belongs to the arm before it.
fn split_arms(texts: &[String]) -> Vec<String> {
    let mut arms: Vec<String> = Vec::new();
    for text in texts {
        let mut is_first = true;
        for piece in text.split(',') {
            match arms.last_mut() {
                Some(arm) if !is_first && piece.contains('=') && !piece.contains(':') => {
                    arm.push(',');
                    arm.push_str(piece);
                }
                _ => arms.push(piece.to_owned()),
            }
            is_first = false;
        }
    }
    arms
}

/// Something that `tune` cannot do here.
#[derive(Debug, thiserror::Error)]
enum TuneError {
    #[error("this machine cannot measure: {}", missing.join("; "))]
    Missing {
        missing: Vec<String>,
        hints: Vec<String>,
    },
    #[error("there is no user {name:?}")]
    NoSuchUser { name: String },
    #[error("the record in {} is complete: it ended because {why}", directory.display())]
    Complete {
        directory: PathBuf,
        why: &'static str,
    },
    #[error("the record in {} is of another machine or kernel: {difference}", directory.display())]
    OtherMachine {
        directory: PathBuf,
        difference: String,
    },
}

impl Failure for TuneError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            TuneError::Missing { hints, .. } => hints.join("; "),
            TuneError::NoSuchUser { .. } => {
                "`getent passwd` lists the users of this machine".into()
            }
            TuneError::Complete { directory, .. } => {
                format!("see it with: iosched report {}", directory.display())
            }
            TuneError::OtherMachine { .. } => {
                "its trials cannot be continued here: start a new run".into()
            }
        })
    }

    fn exit_code(&self) -> u8 {
        match self {
            TuneError::Missing { .. } => exit::MISSING,
            TuneError::NoSuchUser { .. } => exit::USAGE,
            TuneError::Complete { .. } | TuneError::OtherMachine { .. } => exit::BAD_RECORD,
        }
    }
}

/// What every step of the command needs.
struct Session<'a> {
    args: &'a TuneArgs,
    host: Host,
    stop: Stop,
    user: Option<User>,
    output: &'a Output,
}

/// Runs `iosched tune`.
pub(crate) fn run(args: &TuneArgs, output: &Output) -> Outcome {
    let session = Session {
        args,
        host: Host::live(),
        stop: Stop::new(),
        user: args.user.as_deref().map(find_user).transpose()?,
        output,
    };
    stop_on_signals(&session.stop);
    if let Some(directory) = &args.resume {
        return session.resume(directory);
    }
    if let Some(out) = &args.out {
        record::check_new(out).map_err(boxed)?;
    }
    let place = Place::choose(args, &session.host, output)?;
    let outcome = session.start(&place);
    place.leave(output);
    outcome
}

/// Where a new run measures.
enum Place {
    /// What the user named.
    Target(String),
    /// An emulated disk of our own.
    Emulated(EmulatedDisk),
    /// A dry run makes no disk: any loop device shows what the kernel offers.
    LikeEmulated(String),
    /// No device at all.
    Simulated {
        disk: Box<SimulatedDisk>,
        /// How the line begins that says so.
        because: String,
    },
}

impl Place {
    fn choose(args: &TuneArgs, host: &Host, output: &Output) -> Result<Place, Box<dyn Failure>> {
        if let Some(model) = &args.simulate {
            return Place::simulated(model, "Simulating".to_owned());
        }
        if let Some(target) = &args.target {
            return Ok(Place::Target(target.clone()));
        }
        let lacks = lacks_for_emulation(host);
        if !lacks.is_empty() && args.user.is_none() && !args.precondition {
            let what: Vec<String> = lacks.iter().map(|(what, _)| what.clone()).collect();
            let because = format!("No emulated disk here ({}): simulating", what.join("; "));
            return Place::simulated(DEFAULT_MODEL, because);
        }
        if args.dry_run {
            return Ok(Place::LikeEmulated(any_loop_device(host)));
        }
        make_disk(host, DEFAULT_MODEL, output).map(Place::Emulated)
    }

    fn simulated(model: &str, because: String) -> Result<Place, Box<dyn Failure>> {
        let disk = Box::new(SimulatedDisk {
            model: disk_file::find(model).map_err(boxed)?,
        });
        Ok(Place::Simulated { disk, because })
    }

    /// The target as the plan understands it.
    fn target(&self) -> String {
        match self {
            Place::Target(target) => target.clone(),
            Place::Emulated(disk) => disk.device().to_owned(),
            Place::LikeEmulated(device) => device.clone(),
            Place::Simulated { disk, .. } => disk.model.name.clone(),
        }
    }

    /// What the record is named after.
    fn name(&self) -> &str {
        match self {
            Place::Target(target) => target,
            Place::Emulated(_) | Place::LikeEmulated(_) => DEFAULT_MODEL,
            Place::Simulated { disk, .. } => &disk.model.name,
        }
    }

    fn is_emulated(&self) -> bool {
        matches!(self, Place::Emulated(_) | Place::LikeEmulated(_))
    }

    fn emulated(&self) -> Option<&EmulatedDisk> {
        match self {
            Place::Emulated(disk) => Some(disk),
            _ => None,
        }
    }

    fn leave(self, output: &Output) {
        if let Place::Emulated(disk) = self {
            end_disk(disk, output);
        }
    }
}

/// The first line of a run that touches no device says so.
fn say_simulated(place: &Place, output: &Output) {
    if let Place::Simulated { disk, because } = place
        && !output.is_json()
    {
        output.note(&format!(
            "{because} {} with our own schedulers, in virtual time; no device is touched.",
            disk.model.name
        ));
    }
}

/// What keeps an emulated disk from being measured here, each with the way out.
fn lacks_for_emulation(host: &Host) -> Vec<(String, String)> {
    let missing = emulate::missing(host);
    let mut lacks: Vec<(String, String)> = missing
        .iter()
        .map(|missing| (missing.to_string(), missing.hint()))
        .collect();
    if let Err(error) = fio::version() {
        lacks.push((error.to_string(), error.hint().unwrap_or_default()));
    }
    lacks
}

impl Session<'_> {
    /// A new run: plan, then measure unless the plan alone was asked for.
    fn start(&self, place: &Place) -> Outcome {
        let Session {
            args, host, output, ..
        } = self;
        let wanted = wanted(args, place);
        let mut plan = Plan::new(&wanted, host).map_err(boxed)?;
        say_simulated(place, output);
        plan.emulated = place.is_emulated().then(|| DEFAULT_MODEL.to_owned());
        if args.dry_run {
            for leftover in set::left_on(host, &plan.disks) {
                output.note(&format!(
                    "note: what an interrupted run left will be put back first, so the baseline may be \
                     another one: {}",
                    leftover.entry.command
                ));
            }
            if output.is_json() {
                output.json(&plan);
            } else {
                output.text(&report::text::plan(&plan));
            }
            return Ok(exit::OK);
        }
        let programs = plan.programs().map_err(boxed)?;
        settle(host, &plan, output)?;
        let now = run::unix_time();
        let machine = MachineFacts::read(host, &plan.disks, programs);
        let directory = args.out.clone();
        let directory = directory.unwrap_or_else(|| new_directory(place.name(), now));
        let command = std::env::args().collect();
        let header = Header::new(command, now, machine, plan);
        let recorder = Recorder::create(&directory, header).map_err(boxed)?;
        self.measure(recorder, place.emulated())
    }

    /// Goes on with a record.
    fn resume(&self, directory: &Path) -> Outcome {
        let Session {
            args, host, output, ..
        } = self;
        let mut recorder = Recorder::resume(directory).map_err(boxed)?;
        let has_more = args.rounds.is_some() || args.budget.is_some();
        let may_go_on = |stop| has_more && stop != StopReason::Decided;
        if let Some(why) = recorder
            .record()
            .stop_reason()
            .filter(|&stop| !may_go_on(stop))
        {
            return Err(boxed(TuneError::Complete {
                directory: directory.to_owned(),
                why: report::words::stop_reason(why),
            }));
        }
        let model = recorder.record().header.plan.emulated.clone();
        let disk = match &model {
            Some(model) => Some(make_disk(host, model, output)?),
            None => None,
        };
        if let Some(disk) = &disk {
            recorder.move_to_disk(disk.device());
        }
        let outcome = self.go_on(recorder, disk.as_ref());
        if let Some(disk) = disk {
            end_disk(disk, output);
        }
        outcome
    }

    /// Goes on with a record whose disk is there, if it is the same disk and kernel.
    fn go_on(&self, mut recorder: Recorder, disk: Option<&EmulatedDisk>) -> Outcome {
        let header = &recorder.record().header;
        let here = MachineFacts::read(&self.host, &header.plan.disks, Vec::new());
        if let Some(difference) = here.difference_that_matters(&header.machine) {
            return Err(boxed(TuneError::OtherMachine {
                directory: recorder.directory().to_owned(),
                difference,
            }));
        }
        settle(&self.host, &header.plan, self.output)?;
        let resumed = Entry::Resumed {
            at_unix_s: run::unix_time(),
            max_rounds: self.args.rounds,
            time_budget_s: self.args.budget.map(|span| span.0.as_secs_f64()),
        };
        recorder.append(resumed).map_err(boxed)?;
        self.measure(recorder, disk)
    }

    /// Runs the plan, prints the answer, applies it if asked.
    fn measure(&self, mut recorder: Recorder, disk: Option<&EmulatedDisk>) -> Outcome {
        let output = self.output;
        let health = || {
            let is_running = disk.is_none_or(|disk| disk.status().condition == Condition::Running);
            (!is_running).then(|| "the emulated disk's server has ended".to_owned())
        };
        let options = RunOptions {
            trial_limit: self.args.timeout.map(|span| span.0),
            user: self.user,
            health: &health,
        };
        let mut progress = Progress::new(&recorder.record().header.plan);
        let mut lines = JsonLines::new();
        let observer: &mut dyn Observer = if output.is_json() {
            &mut lines
        } else {
            &mut progress
        };
        let ended = run::run(&self.host, &mut recorder, &options, &self.stop, observer);
        progress.finish();
        let record = recorder.record();
        if let Err(error) = ended {
            if !output.is_json() && record.trials().count() > 0 {
                output.text(&report::text::record(
                    record,
                    &Analysis::of(record),
                    output.width(),
                ));
            }
            return Err(boxed(error));
        }
        let analysis = Analysis::of(record);
        if !output.is_json() {
            output.text(&report::text::record(record, &analysis, output.width()));
            output.text(&format!("record: {}", recorder.directory().display()));
        }
        if !self.args.no_html {
            write_page(record, &analysis, recorder.directory(), output);
        }
        if self.args.persist {
            persist::keep_answer(record, &analysis, recorder.directory(), &self.host, output)?;
        }
        if self.args.apply {
            let directory = recorder.directory();
            apply(
                &record.header.plan,
                &analysis,
                directory,
                &self.host,
                output,
            )?;
        }
        Ok(exit::OK)
    }
}

/// Writes the page beside the record. What was measured is safe without it: that it cannot be written
/// is worth a note, and no failure.
fn write_page(record: &Record, analysis: &Analysis, directory: &Path, output: &Output) {
    let path = directory.join("report.html");
    let page = report::html::record(record, analysis);
    match files::write(&path, page.as_bytes()) {
        Ok(()) if output.is_json() => {}
        Ok(()) => output.text(&format!("page: {}", path.display())),
        Err(error) => output.note(&format!(
            "note: no page: {error}; the record is whole: iosched report {} --html FILE",
            directory.display()
        )),
    }
}

/// A directory below `iosched-results` that is not there yet.
fn new_directory(target: &str, now: f64) -> PathBuf {
    let name = run::record_name(Path::new(target), now);
    let results = Path::new("iosched-results");
    let numbered = (2..).map(|number| results.join(format!("{name}-{number}")));
    std::iter::once(results.join(&name))
        .chain(numbered)
        .find(|directory| !directory.exists())
        .expect("some number is free")
}

/// Switches every disk to the winner.
fn apply(
    plan: &Plan,
    analysis: &Analysis,
    record: &Path,
    host: &Host,
    output: &Output,
) -> Result<(), Box<dyn Failure>> {
    if plan.emulated.is_some() {
        output.note("nothing to apply: the disk was an emulated one");
        return Ok(());
    }
    if matches!(plan.target, Target::Simulated(_)) {
        output.note("nothing to apply: the disk was a simulated one");
        return Ok(());
    }
    let Some(arm) = analysis.choice else {
        output.note("not applied: nothing is proven better, so nothing is changed");
        return Ok(());
    };
    if Some(arm) == plan.active {
        output.note(&format!("{} stays: it was active", plan.arm_label(arm)));
        return Ok(());
    }
    let record = std::path::absolute(record).unwrap_or_else(|_| record.to_owned());
    let why = format!("the answer of a tune: {}", record.display());
    for disk in &plan.disks {
        let change = Change::plan(host, disk, &plan.arms[arm]).map_err(boxed)?;
        let made = change.make(host).map_err(boxed)?;
        made.keep(host, Some(why.clone())).map_err(boxed)?;
        output.note(&format!(
            "{disk}: {} is active until the next reboot",
            plan.arm_label(arm)
        ));
    }
    Ok(())
}

fn wanted(args: &TuneArgs, place: &Place) -> Wanted {
    let is_emulated = place.is_emulated();
    let loads = if args.loads.is_empty() {
        vec!["random-read".into()]
    } else {
        args.loads.clone()
    };
    Wanted {
        target: place.target(),
        simulate: match place {
            Place::Simulated { disk, .. } => Some(disk.as_ref().clone()),
            _ => None,
        },
        is_our_own: is_emulated,
        loads,
        command: CommandOptions {
            setup: args.setup.clone(),
            prepare: args.prepare.clone(),
            metric: args.metric.clone(),
            is_higher_better: args.better,
        },
        connection: args.pg.clone(),
        arms: split_arms(&args.arms),
        baseline: args.baseline.clone().or_else(|| {
            // A disk that is yet to be made begins with none.
            matches!(place, Place::LikeEmulated(_)).then(|| "none".to_owned())
        }),
        objective: args.objective,
        runtime: args
            .runtime
            .map(|span| span.0)
            .or(is_emulated.then_some(EMULATED_RUNTIME)),
        ramp: args.ramp.map_or(Duration::ZERO, |span| span.0),
        rules: Rules {
            margin: args.margin.0,
            confidence: args.confidence,
            fixed_rounds: args.fixed_rounds,
            max_rounds: args.rounds.unwrap_or(DEFAULT_MAX_ROUNDS),
            time_budget_s: args
                .budget
                .map(|span| span.0)
                .or(is_emulated.then_some(EMULATED_BUDGET))
                .map(|budget| budget.as_secs_f64()),
            requirements: args.requirements.clone(),
        },
        seed: args.seed.unwrap_or_else(run::random_seed),
        file_size: args.file_size.as_u64(),
        steady: args.steady,
        precondition: args.precondition,
        mkfs: args.mkfs,
        destroy_data: args
            .destroy_data
            .clone()
            .map(|device| (!device.is_empty()).then_some(device)),
    }
}

fn any_loop_device(host: &Host) -> String {
    let devices = host.sysfs().block_devices().unwrap_or_default();
    devices
        .into_iter()
        .find(|device| device.starts_with("loop"))
        .unwrap_or_else(|| "loop0".into())
}

/// Makes the emulated disk, which goes when we do, whatever happens to us.
fn make_disk(host: &Host, model: &str, output: &Output) -> Result<EmulatedDisk, Box<dyn Failure>> {
    let lacks = lacks_for_emulation(host);
    if !lacks.is_empty() {
        let (missing, hints) = lacks.into_iter().unzip();
        return Err(boxed(TuneError::Missing { missing, hints }));
    }
    let server = std::env::current_exe().unwrap_or_else(|_| "iosched".into());
    let mut spec = Spec::new(disk_file::find(model).map_err(boxed)?, server);
    spec.owner_pid = i32::try_from(std::process::id()).ok();
    let disk = EmulatedDisk::create(&spec).map_err(boxed)?;
    if !output.is_json() {
        output.note(&format!(
            "No target given: measuring an emulated {model} as /dev/{}, which is removed afterwards.",
            disk.device()
        ));
    }
    Ok(disk)
}

fn find_user(name: &str) -> Result<User, Box<dyn Failure>> {
    User::find(name).ok_or_else(|| {
        boxed(TuneError::NoSuchUser {
            name: name.to_owned(),
        })
    })
}

fn end_disk(disk: EmulatedDisk, output: &Output) {
    if let Err(error) = disk.remove(true) {
        output.note(&format!("note: {error}"));
    }
}

/// What an earlier run left of these disks is put back before the baseline is read.
fn settle(host: &Host, plan: &Plan, output: &Output) -> Result<(), Box<dyn Failure>> {
    let settled = set::settle(host, &plan.disks).map_err(boxed)?;
    for note in settled.iter().flat_map(Settled::notes) {
        output.note(&format!("note: {note}"));
    }
    if output.is_json() {
        return Ok(());
    }
    match &plan.target {
        Target::Directory { device, .. } => output.note(&format!(
            "Measuring on {device}; test files are removed afterwards."
        )),
        Target::FileSystem {
            device,
            file_system,
            ..
        } => output.note(&format!(
            "Measuring on {device}, on a file system of its own ({}) that is removed afterwards.",
            file_system.name()
        )),
        Target::Device { .. } | Target::File { .. } | Target::Simulated(_) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_split_arms_and_their_tunables_stay_with_them() {
        let split = |text: &str| split_arms(&[text.to_owned()]);
        assert_eq!(split("none,bfq"), ["none", "bfq"]);
        assert_eq!(
            split("none,bfq:low_latency=0,slice_idle=0,kyber"),
            ["none", "bfq:low_latency=0,slice_idle=0", "kyber"]
        );
        assert_eq!(
            split("bfq:a=1,mq-deadline:b=2"),
            ["bfq:a=1", "mq-deadline:b=2"]
        );
    }

    #[test]
    fn a_requirement_is_a_metric_and_a_ratio() {
        let requirement = parse_requirement("throughput>=0.95").unwrap();
        assert_eq!(requirement.objective, Objective::Throughput);
        assert!(parse_requirement("speed>=1").is_err());
        assert!(parse_requirement("p99>=-1").is_err());
        assert!(parse_requirement("p99").is_err());
    }
}
