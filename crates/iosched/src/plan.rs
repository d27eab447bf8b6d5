//! The plan of an experiment: arms × loads × rounds on a target, everything checked, nothing
//! touched yet.
//!
//! [`Wanted`] is what the user asked; [`Plan::new`] holds it against the machine and refuses what
//! cannot be done or could destroy something. The plan is all that a record needs to be resumed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::device::{self, Device, DeviceError, Refusal, Role, Target as Found};
use crate::failure::{Failure, exit};
use crate::host::Host;
use crate::load::builtin::{self, BUILT_IN};
use crate::load::fio_job::{JobFile, JobFileError, Place, TrialSettings};
use crate::objective::Objective;
use crate::switch::{self, Arm, QueueState, SwitchError};
use crate::trial::{Metrics, Slot, VoidReason};

/// Rounds after which a run gives up, where the user does not say.
pub const DEFAULT_MAX_ROUNDS: u32 = 30;

/// Rounds before the first verdict of a fixed design.
pub const MIN_FIXED_ROUNDS: u32 = 2;

/// What the user asked for, as far as it needs the machine to be understood.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// A device, a directory or a file.
    pub target: String,
    /// True if the target is an emulated disk that this very run made: it may be written.
    pub is_our_own: bool,
    /// `NAME`, `NAME:WEIGHT`, or a path to a job file, with an optional weight too.
    pub loads: Vec<String>,
    /// Arms as the user wrote them; empty for all that the device offers.
    pub arms: Vec<String>,
    /// The arm to compare with; default the active one.
    pub baseline: Option<String>,
    /// What decides, over what each load says itself.
    pub objective: Option<Objective>,
    /// Run time of each trial; `None` leaves it to the job file (10 s where it has none).
    pub runtime: Option<Duration>,
    /// Time at the start of each trial that does not count.
    pub ramp: Duration,
    /// How to decide and when to give up.
    pub rules: Rules,
    /// Source of all chance.
    pub seed: u64,
    /// Size of each test file in a directory, bytes.
    pub file_size: u64,
    /// Whether trials wait until writes have become steady.
    pub steady: Steady,
    /// Fill the whole raw device twice before anything else.
    pub precondition: bool,
    /// `None`: nothing on a raw device may be written. `Some(None)`: it may, if it holds nothing.
    /// `Some(Some(device))`: it may although it holds something, if this names it again.
    pub destroy_data: Option<Option<String>>,
}

/// Whether trials wait until writes have become steady.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Steady {
    /// For loads that write to a disk that is not of our own making.
    #[default]
    Auto,
    /// For all loads.
    On,
    /// Never.
    Off,
}

/// How to decide, and when to give up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// The ratio of differences that the user does not care about: 1.02 for 2 %.
    pub margin: f64,
    /// Probability with which all intervals of a load hold together, 0.95.
    pub confidence: f64,
    /// Exactly so many rounds with classical intervals, instead of a race.
    pub fixed_rounds: Option<u32>,
    /// Rounds after which a race gives up.
    pub max_rounds: u32,
    /// Time after which no further round is begun, s.
    pub time_budget_s: Option<f64>,
    /// What an arm must keep to be allowed to win: `throughput >= 0.95` of the baseline's.
    #[serde(default)]
    pub requirements: Vec<Requirement>,
}

/// A condition on the ratio of another metric to the baseline's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Requirement {
    /// The metric.
    pub objective: Objective,
    /// The least ratio, in terms of better: 0.95 allows 5 % worse.
    pub at_least: f64,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            margin: 1.02,
            confidence: 0.95,
            fixed_rounds: None,
            max_rounds: DEFAULT_MAX_ROUNDS,
            time_budget_s: None,
            requirements: Vec::new(),
        }
    }
}

/// An experiment, ready to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is measured.
    pub target: Target,
    /// The disk model, if the target is an emulated disk that the run made for itself.
    #[serde(default)]
    pub emulated: Option<String>,
    /// Kernel names of the disks whose scheduler is switched.
    pub disks: Vec<String>,
    /// What is compared.
    pub arms: Vec<Arm>,
    /// Index of the arm that the others are compared with.
    pub baseline: usize,
    /// Index of the arm that was active when we came, if it is one of them.
    pub active: Option<usize>,
    /// What each trial runs.
    pub loads: Vec<Load>,
    /// How to decide.
    pub rules: Rules,
    /// Source of all chance.
    pub seed: u64,
    /// Time at the start of each trial that does not count, s.
    pub ramp_s: f64,
    /// Fill the whole raw device twice before anything else.
    #[serde(default)]
    pub precondition: bool,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Target {
    /// A block device or partition, used raw.
    Device {
        /// Kernel name.
        device: String,
        /// Node that the load opens.
        path: PathBuf,
        /// True if the loads write to it.
        writes: bool,
    },
    /// A directory: files of our own in a directory of our own, removed afterwards.
    Directory {
        /// As resolved.
        path: PathBuf,
        /// Kernel name of the device below the file system.
        device: String,
        /// Size of each worker's file.
        file_size: u64,
    },
    /// An existing file, only read.
    File {
        /// As resolved.
        path: PathBuf,
        /// Kernel name of the device below the file system.
        device: String,
    },
}

/// A load of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Built-in name, or the job file's.
    pub name: String,
    /// Its share in the verdict over all loads.
    pub weight: f64,
    /// What decides.
    pub objective: Objective,
    /// The job file as it was read.
    pub job_file: String,
    /// Run time of a trial, s; `None` leaves it to the job file.
    pub runtime_s: Option<f64>,
    /// Its trials wait until it has become steady.
    #[serde(default)]
    pub wait_until_steady: bool,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The target.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// An arm.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// A job file.
    #[error(transparent)]
    JobFile(#[from] JobFileError),
    /// Neither a built-in load nor a file.
    #[error("there is no load {name:?}, and no job file of that name")]
    UnknownLoad {
        /// As given.
        name: String,
    },
    /// The job file cannot be read.
    #[error("cannot read job file {}", path.display())]
    UnreadableJobFile {
        /// As given.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The load never has the number that is to decide.
    #[error("load {load} has no {objective}: {cause}")]
    NoSuchNumber {
        /// The load.
        load: String,
        /// What was to decide.
        objective: &'static str,
        /// Why it has none.
        cause: &'static str,
    },
    /// fio would read the path otherwise than it is written.
    #[error("fio cannot be given the path {path:?}: it has one of ; # $ \" or a control character")]
    OddPath {
        /// The target.
        path: PathBuf,
    },
    /// Two loads of one name.
    #[error("load {name:?} is given twice")]
    LoadTwice {
        /// Its name.
        name: String,
    },
    /// Only one arm.
    #[error("there is nothing to compare: {device} has only the arm {arm}")]
    OneArm {
        /// Kernel name.
        device: String,
        /// The arm.
        arm: String,
    },
    /// The load writes and the user did not allow it.
    #[error("load {load} writes, and {target} is a raw device whose data it would destroy")]
    WritesNotAllowed {
        /// The load.
        load: String,
        /// The target.
        target: String,
    },
    /// The load writes, and the device holds something or is in use.
    #[error("refusing to write to {device}:{}", list(reasons))]
    Refused {
        /// Kernel name.
        device: String,
        /// Every reason.
        reasons: Vec<String>,
        /// True if naming the device again would not help.
        is_final: bool,
    },
    /// Another device was named the second time.
    #[error("--destroy-data names {named}, and the target is {device}")]
    NamedAnother {
        /// Kernel name of the target.
        device: String,
        /// As given.
        named: String,
    },
    /// The load writes and the target is a file.
    #[error("load {load} writes, and {} is somebody's file", path.display())]
    WritesToFile {
        /// The load.
        load: String,
        /// The target.
        path: PathBuf,
    },
    /// Only a raw device can be filled.
    #[error("--precondition fills a whole device, and {target} is none")]
    NothingToFill {
        /// The target.
        target: String,
    },
    /// The test files do not fit.
    #[error("no room in {}: test files need {needed} MiB, {free} MiB are free", path.display())]
    NoRoom {
        /// The directory.
        path: PathBuf,
        /// MiB.
        needed: u64,
        /// MiB.
        free: u64,
    },
    /// A number outside its range.
    #[error("{what} is {value}, and must be {range}")]
    OutOfRange {
        /// The option.
        what: &'static str,
        /// As given.
        value: String,
        /// What is allowed.
        range: &'static str,
    },
    /// The state of the machine cannot be read.
    #[error("cannot read the state of {thing}")]
    Io {
        /// What.
        thing: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

fn list(reasons: &[String]) -> String {
    let separator = "\n  - ";
    format!("{separator}{}", reasons.join(separator))
}

impl Failure for PlanError {
    fn hint(&self) -> Option<String> {
        match self {
            PlanError::Device(error) => error.hint(),
            PlanError::Switch(error) => error.hint(),
            PlanError::JobFile(error) => error.hint(),
            PlanError::UnknownLoad { .. } => Some(format!(
                "built-in loads: {}",
                BUILT_IN
                    .iter()
                    .map(|load| load.name)
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
            PlanError::LoadTwice { .. } => {
                Some("give each load once, with a weight: NAME:2".into())
            }
            PlanError::OneArm { .. } => {
                Some("give two or more with --arms, for example none,bfq:low_latency=0".into())
            }
            PlanError::WritesNotAllowed { target, .. } => Some(format!(
                "name a directory on it instead, or allow it with --destroy-data if nothing on {target} is needed"
            )),
            PlanError::Refused { is_final: true, .. } => {
                Some("take it out of use first, or name a directory on it as the target".into())
            }
            PlanError::Refused { device, .. } => Some(format!(
                "if all of that may be destroyed, name the device again: --destroy-data={device}"
            )),
            PlanError::NamedAnother { device, .. } => Some(format!(
                "nothing was written; is {device} the one that you mean?"
            )),
            PlanError::WritesToFile { .. } => {
                Some("name the directory: the load then makes files of its own".into())
            }
            PlanError::NothingToFill { .. } => {
                Some("name the raw device, and allow it with --destroy-data".into())
            }
            PlanError::NoRoom { .. } => Some("make the files smaller with --file-size".into()),
            _ => None,
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            PlanError::Device(error) => error.exit_code(),
            PlanError::Switch(error) => error.exit_code(),
            PlanError::WritesNotAllowed { .. }
            | PlanError::Refused { .. }
            | PlanError::NamedAnother { .. }
            | PlanError::WritesToFile { .. } => exit::UNSAFE,
            PlanError::NoRoom { .. } | PlanError::Io { .. } => exit::FAILURE,
            _ => exit::USAGE,
        }
    }
}

impl Plan {
    /// Holds what is wanted against the machine.
    pub fn new(wanted: &Wanted, host: &Host) -> Result<Plan, PlanError> {
        check_rules(&wanted.rules)?;
        let loads = read_loads(wanted)?;
        let found = Found::find(host, &wanted.target)?;
        let disks = disks_to_switch(host, &found)?;
        let first = &disks[0];
        let sysfs = host.sysfs();
        let active = QueueState::read(&sysfs, first)?.scheduler;
        let (arms, baseline) = choose_arms(wanted, host, &disks, &active)?;
        let target = check_target(wanted, host, &found, &loads)?;
        Ok(Plan {
            target,
            emulated: None,
            active: arms.iter().position(|arm| *arm == Arm::plain(&active)),
            disks,
            arms,
            baseline,
            loads,
            rules: wanted.rules.clone(),
            seed: wanted.seed,
            ramp_s: wanted.ramp.as_secs_f64(),
            precondition: wanted.precondition,
        })
    }

    /// The emulated disk of the run has another name now.
    pub fn move_to_disk(&mut self, name: &str) {
        self.disks = vec![name.to_owned()];
        if let Target::Device { device, path, .. } = &mut self.target {
            path.set_file_name(name);
            name.clone_into(device);
        }
    }

    /// What an arm is called: as the user wrote it, with a number where two are the same (A/A).
    pub fn arm_label(&self, arm: usize) -> String {
        let name = self.arms[arm].to_string();
        let same_before = self.arms[..arm]
            .iter()
            .filter(|a| **a == self.arms[arm])
            .count();
        if same_before == 0 {
            name
        } else {
            format!("{name}#{}", same_before + 1)
        }
    }

    /// The most rounds that the run may take.
    pub fn rounds_at_most(&self) -> u32 {
        self.rules.fixed_rounds.unwrap_or(self.rules.max_rounds)
    }

    /// How long the load of one trial runs.
    pub fn trial_duration(&self, load: usize) -> Duration {
        let settings = self.trial_settings(load, 0, Place::Path(String::new()));
        self.loads[load].parsed().duration(&settings)
    }

    /// How long a whole round takes with this many arms, the harness not counted.
    pub fn round_duration(&self, arms: usize) -> Duration {
        (0..self.loads.len())
            .map(|load| self.trial_duration(load) * u32::try_from(arms).unwrap_or(u32::MAX))
            .sum()
    }

    /// The order in which the arms take their turns: a permutation drawn from the seed, the
    /// round and the load, and nothing else.
    pub fn order(&self, round: u32, load: usize, arms: &[usize]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.arms.len()).collect();
        order.shuffle(&mut self.stream(1, round, load));
        order.retain(|arm| arms.contains(arm));
        order
    }

    /// What is put into the load's job file for a trial. The seed of fio's offsets is the same
    /// for all arms of a round, so that they meet the same requests.
    pub fn trial_settings(&self, load: usize, round: u32, place: Place) -> TrialSettings {
        TrialSettings {
            place,
            runtime: self.loads[load].runtime_s.map(Duration::from_secs_f64),
            ramp: (self.ramp_s > 0.0).then(|| Duration::from_secs_f64(self.ramp_s)),
            seed: u64::from(self.stream(2, round, load).next_u32()),
        }
    }

    /// Zero, negative, missing and non-finite numbers have no logarithm: a trial in which such a
    /// one decides is no measurement.
    pub fn bad_metric(&self, slot: Slot, metrics: &Metrics) -> Option<VoidReason> {
        let decisive = self.loads[slot.load].objective;
        let required = self
            .rules
            .requirements
            .iter()
            .map(|requirement| requirement.objective);
        std::iter::once(decisive)
            .chain(required)
            .find_map(|objective| {
                let found = match objective.of(metrics) {
                    Some(value) if value.is_finite() && value > 0.0 => return None,
                    Some(value) => value.to_string(),
                    None => "missing".into(),
                };
                Some(VoidReason::BadMetric {
                    objective: objective.words().into(),
                    found,
                })
            })
    }

    /// True if there is such a load and such an arm.
    pub fn has_slot(&self, slot: Slot) -> bool {
        slot.load < self.loads.len() && slot.arm < self.arms.len()
    }

    /// Checks a plan that was read from a file: it may have been edited.
    pub fn check(&self) -> Result<(), PlanError> {
        check_rules(&self.rules)?;
        let out = |what, value: String, range| Err(PlanError::OutOfRange { what, value, range });
        if self.arms.len() < 2 || self.baseline >= self.arms.len() {
            return out(
                "the baseline",
                self.baseline.to_string(),
                "one of at least two arms",
            );
        }
        if self.loads.is_empty() {
            return out("the number of loads", "0".into(), "at least 1");
        }
        for load in &self.loads {
            JobFile::parse(&load.name, &load.job_file)?;
            if !(load.weight.is_finite() && load.weight > 0.0) {
                return out(
                    "the weight of a load",
                    load.weight.to_string(),
                    "a number above 0",
                );
            }
        }
        Ok(())
    }

    /// A source of chance of its own for each purpose, round and load.
    fn stream(&self, purpose: u64, round: u32, load: usize) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream((purpose << 56) | ((load as u64) << 32) | u64::from(round));
        rng
    }
}

impl Load {
    /// The job file, which was checked when the plan was made.
    pub fn parsed(&self) -> JobFile {
        JobFile::parse(&self.name, &self.job_file).expect("the plan holds checked job files")
    }
}

/// The disks whose scheduler matters for a target: on every path down, the first layer that has a
/// scheduler. Below a loop device that has one, its file's disk is left alone.
pub fn disks_to_switch(host: &Host, target: &Found) -> Result<Vec<String>, PlanError> {
    let mut disks: Vec<String> = Vec::new();
    for device in target.devices() {
        for disk in disks_below(host, device)? {
            if !disks.contains(&disk) {
                disks.push(disk);
            }
        }
    }
    if disks.is_empty() {
        let top = &target.devices()[0];
        return Err(PlanError::Switch(SwitchError::NothingToChoose {
            device: top.name.clone(),
            reason: top.schedulers.to_string(),
        }));
    }
    Ok(disks)
}

/// [`disks_to_switch`] for one device.
pub fn disks_below(host: &Host, device: &Device) -> Result<Vec<String>, PlanError> {
    let layers = device::stack(host, device).map_err(|source| PlanError::Io {
        thing: device.name.clone(),
        source,
    })?;
    let mut disks = Vec::new();
    let mut covered_below: Option<usize> = None;
    for layer in layers {
        if covered_below.is_some_and(|depth| layer.depth > depth) {
            continue;
        }
        covered_below = None;
        if layer.role == Role::Schedules {
            covered_below = Some(layer.depth);
            disks.push(layer.device.name);
        }
    }
    Ok(disks)
}

fn check_rules(rules: &Rules) -> Result<(), PlanError> {
    let out = |what, value: String, range| Err(PlanError::OutOfRange { what, value, range });
    if !(rules.margin > 1.0 && rules.margin <= 2.0) {
        let percent = ((rules.margin - 1.0) * 1e6).round() / 1e4;
        return out(
            "--margin",
            format!("{percent} %"),
            "above 0 % and at most 100 %",
        );
    }
    if !(0.5..1.0).contains(&rules.confidence) {
        return out(
            "--confidence",
            rules.confidence.to_string(),
            "at least 0.5 and below 1",
        );
    }
    if let Some(rounds) = rules
        .fixed_rounds
        .filter(|&rounds| rounds < MIN_FIXED_ROUNDS)
    {
        return out("--fixed-rounds", rounds.to_string(), "at least 2");
    }
    if rules.max_rounds < MIN_FIXED_ROUNDS {
        return out("--rounds", rules.max_rounds.to_string(), "at least 2");
    }
    Ok(())
}

fn read_loads(wanted: &Wanted) -> Result<Vec<Load>, PlanError> {
    let mut loads: Vec<Load> = Vec::new();
    for text in &wanted.loads {
        let load = read_load(wanted, text)?;
        if loads.iter().any(|other| other.name == load.name) {
            return Err(PlanError::LoadTwice { name: load.name });
        }
        loads.push(load);
    }
    Ok(loads)
}

/// `NAME[:WEIGHT]` of a built-in load, or of a job file.
fn read_load(wanted: &Wanted, text: &str) -> Result<Load, PlanError> {
    let (name, weight) = match text.rsplit_once(':') {
        Some((name, weight)) if !Path::new(text).exists() => {
            let parsed = weight
                .parse()
                .ok()
                .filter(|w: &f64| w.is_finite() && *w > 0.0);
            (
                name,
                parsed.ok_or_else(|| PlanError::OutOfRange {
                    what: "the weight of a load",
                    value: weight.into(),
                    range: "a number above 0",
                })?,
            )
        }
        _ => (text, 1.0),
    };
    let (shown, job_file, objective) = if let Some(load) = builtin::find(name) {
        (load.name.to_owned(), load.text.to_owned(), load.objective)
    } else {
        let path = Path::new(name);
        if !path.is_file() {
            return Err(PlanError::UnknownLoad { name: name.into() });
        }
        let text =
            std::fs::read_to_string(path).map_err(|source| PlanError::UnreadableJobFile {
                path: path.into(),
                source,
            })?;
        let stem = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        (stem, text, Objective::Throughput)
    };
    let parsed = JobFile::parse(name, &job_file)?;
    let runtime = wanted
        .runtime
        .or_else(|| (!parsed.has_runtime()).then_some(Duration::from_secs(10)));
    let objective = wanted.objective.unwrap_or(objective);
    check_objective(&shown, &parsed, objective)?;
    Ok(Load {
        name: shown,
        weight,
        objective,
        wait_until_steady: match wanted.steady {
            Steady::Auto => parsed.writes() && !wanted.is_our_own,
            Steady::On => true,
            Steady::Off => false,
        },
        job_file,
        runtime_s: runtime.map(|runtime| runtime.as_secs_f64()),
    })
}

/// A number that the load cannot have is known before anything runs.
fn check_objective(load: &str, job: &JobFile, objective: Objective) -> Result<(), PlanError> {
    let cause = match objective {
        Objective::Fairness if job.workers() < 2 => "it has one worker",
        Objective::ReadMean | Objective::ReadP99 if !job.reads() => "it reads nothing",
        _ => return Ok(()),
    };
    Err(PlanError::NoSuchNumber {
        load: load.to_owned(),
        objective: objective.name(),
        cause,
    })
}

/// The arms as the device can really be given them, and which of them the others are compared
/// with: the named one, or the active one, which is added where the user left it out.
fn choose_arms(
    wanted: &Wanted,
    host: &Host,
    disks: &[String],
    active: &str,
) -> Result<(Vec<Arm>, usize), PlanError> {
    let sysfs = host.sysfs();
    let mut arms = if wanted.arms.is_empty() {
        switch::offered(&sysfs, &disks[0])?
            .into_iter()
            .map(Arm::plain)
            .collect()
    } else {
        wanted
            .arms
            .iter()
            .map(|text| Arm::parse(text))
            .collect::<Result<Vec<_>, _>>()?
    };
    for arm in &mut arms {
        for disk in disks {
            arm.scheduler = switch::resolve(&sysfs, disk, &arm.scheduler)?;
        }
    }
    let baseline = match &wanted.baseline {
        Some(text) => {
            let mut arm = Arm::parse(text)?;
            arm.scheduler = switch::resolve(&sysfs, &disks[0], &arm.scheduler)?;
            arm
        }
        None => Arm::plain(active),
    };
    let at = arms
        .iter()
        .position(|arm| *arm == baseline)
        .unwrap_or_else(|| {
            arms.insert(0, baseline);
            0
        });
    if arms.len() < 2 {
        return Err(PlanError::OneArm {
            device: disks[0].clone(),
            arm: arms[0].to_string(),
        });
    }
    Ok((arms, at))
}

fn check_target(
    wanted: &Wanted,
    host: &Host,
    found: &Found,
    loads: &[Load],
) -> Result<Target, PlanError> {
    if let Found::FileSystem(file_system) = found
        && is_odd(&file_system.path)
    {
        return Err(PlanError::OddPath {
            path: file_system.path.clone(),
        });
    }
    let writer = loads
        .iter()
        .find(|load| load.parsed().writes())
        .map(|load| load.name.as_str())
        .or(wanted.precondition.then_some("--precondition"));
    match found {
        Found::Device(device) => {
            if let Some(load) = writer {
                check_may_write(wanted, host, device, load)?;
            }
            Ok(Target::Device {
                path: host.dev(&device.name),
                device: device.name.clone(),
                writes: writer.is_some(),
            })
        }
        Found::FileSystem(_) if wanted.precondition => Err(PlanError::NothingToFill {
            target: wanted.target.clone(),
        }),
        Found::FileSystem(file_system) => {
            let device = file_system.devices[0].name.clone();
            let path = file_system.path.clone();
            if path.is_dir() {
                check_room(&path, wanted.file_size, loads)?;
                Ok(Target::Directory {
                    path,
                    device,
                    file_size: wanted.file_size,
                })
            } else if let Some(load) = writer {
                Err(PlanError::WritesToFile {
                    load: load.to_owned(),
                    path,
                })
            } else {
                Ok(Target::File { path, device })
            }
        }
    }
}

/// The rule when a raw device may be written: it is a disk that this run made; or the user said
/// so and it holds nothing and nobody uses it; or it holds something, nobody uses it, and the user
/// named it a second time.
fn check_may_write(
    wanted: &Wanted,
    host: &Host,
    device: &Device,
    load: &str,
) -> Result<(), PlanError> {
    if wanted.is_our_own {
        return Ok(());
    }
    let Some(allowance) = &wanted.destroy_data else {
        return Err(PlanError::WritesNotAllowed {
            load: load.into(),
            target: wanted.target.clone(),
        });
    };
    // A name that is given is a name to be checked, whether or not it would be needed.
    if let Some(name) = allowance
        && !is_same_device(host, name, device)
    {
        return Err(PlanError::NamedAnother {
            device: device.name.clone(),
            named: name.clone(),
        });
    }
    let reasons = device::refusals(host, device);
    let in_use = reasons
        .iter()
        .any(|reason: &Refusal| !reason.can_be_overruled());
    let named_again = allowance.is_some();
    if reasons.is_empty() || (named_again && !in_use) {
        return Ok(());
    }
    Err(PlanError::Refused {
        device: device.name.clone(),
        reasons: reasons.iter().map(ToString::to_string).collect(),
        is_final: in_use,
    })
}

/// True if fio's job files give one of its characters a meaning that cannot be escaped.
fn is_odd(path: &Path) -> bool {
    path.to_str()
        .is_none_or(|text| text.contains([';', '#', '$', '"']) || text.contains(char::is_control))
}

fn is_same_device(host: &Host, name: &str, device: &Device) -> bool {
    device::find(host, name).is_ok_and(|named| named.number == device.number)
}

fn check_room(directory: &Path, file_size: u64, loads: &[Load]) -> Result<(), PlanError> {
    let room = rustix::fs::statvfs(directory).map_err(|error| PlanError::Io {
        thing: directory.display().to_string(),
        source: error.into(),
    })?;
    let free = room.f_bavail * room.f_frsize;
    let workers: u64 = loads.iter().map(|load| load.parsed().workers()).sum();
    let needed = workers * file_size;
    // A file system filled to the brim behaves unlike itself: leave a tenth.
    if needed > free / 10 * 9 {
        const MIB: u64 = 1 << 20;
        return Err(PlanError::NoRoom {
            path: directory.into(),
            needed: needed / MIB,
            free: free / MIB,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    const SLOT: Slot = Slot {
        load: 0,
        round: 0,
        arm: 0,
    };

    #[test]
    fn a_trial_without_a_positive_number_that_decides_is_no_measurement() {
        let plan = fixture::plan(2);
        let with = |throughput_bytes_per_s| Metrics {
            throughput_bytes_per_s,
            ..Metrics::default()
        };
        assert_eq!(plan.bad_metric(SLOT, &with(1.0)), None);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let reason = plan.bad_metric(SLOT, &with(bad));
            assert!(
                matches!(reason, Some(VoidReason::BadMetric { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_missing_number_is_named() {
        let mut plan = fixture::plan(2);
        plan.loads[0].objective = Objective::ReadP99;
        let reason = plan
            .bad_metric(SLOT, &Metrics::default())
            .unwrap()
            .to_string();
        assert_eq!(
            reason,
            "the load's p99 read latency is missing, which is no measurement"
        );
    }

    #[test]
    fn a_plan_that_was_edited_is_checked() {
        assert!(fixture::plan(2).check().is_ok());
        let edits: [fn(&mut Plan); 6] = [
            |plan| plan.baseline = 9,
            |plan| plan.rules.margin = 0.0,
            |plan| plan.rules.confidence = 1.5,
            |plan| plan.rules.fixed_rounds = Some(0),
            |plan| plan.loads[0].weight = -1.0,
            |plan| plan.loads[0].job_file = "[a]\nfilename=/etc/passwd\n".into(),
        ];
        for edit in edits {
            let mut plan = fixture::plan(2);
            edit(&mut plan);
            assert!(plan.check().is_err(), "{plan:?}");
        }
    }
}
