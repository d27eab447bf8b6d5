//! Why there is no plan.

use std::path::PathBuf;
use std::time::Duration;

use iosched_emulate::EmulateError;
use iosched_machine::command_line::{Remedy, quoted, quoted_path};
use iosched_machine::device::{DeviceError, MayNotWrite};
use iosched_machine::failure::{Failure, exit};
use iosched_switch::SwitchError;

use crate::load::SpecError;
use crate::load::builtin::BUILT_IN;
use crate::load::simulated::SimulationError;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PlanError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Switch(#[from] SwitchError),
    #[error(transparent)]
    Load(#[from] SpecError),
    /// An arm or a disk that cannot be simulated.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// An arm that cannot be served.
    #[error(transparent)]
    Inside(#[from] EmulateError),
    /// The arm stands inside an emulated disk, and there is no such thing.
    #[error("{device} has no scheduler of ours inside: {arm} cannot be set there")]
    NotServed {
        /// Kernel name, or what is simulated.
        device: String,
        arm: String,
    },
    /// An arm would mean one thing on one disk and another on the other.
    #[error(
        "{target} stands on several disks, and not all are served with a scheduler inside: {other} is not"
    )]
    OneIsServed { other: String, target: String },
    #[error(
        "{device} has two schedulers, {above} of the kernel's above {inside} inside: no arm stands alone"
    )]
    TwoSchedulers {
        device: String,
        /// The kernel's.
        above: String,
        /// Ours.
        inside: String,
    },
    #[error("{what} cannot be simulated: it needs a device")]
    NotSimulated { what: String },
    #[error("there is no load {name:?}, and no job file of that name")]
    UnknownLoad {
        /// The argument as the user wrote it.
        name: String,
    },
    #[error("cannot read job file {}", path.display())]
    UnreadableJobFile {
        /// The path as the user wrote it.
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The load never has the number that is to decide.
    #[error("load {load} has no {objective}: {cause}")]
    NoSuchNumber {
        load: String,
        objective: &'static str,
        cause: &'static str,
    },
    /// fio would read the path otherwise than it is written.
    #[error("fio cannot be given the path {path:?}: it has one of ; # $ \" or a control character")]
    OddPath { path: PathBuf },
    #[error("load {name:?} is given twice")]
    LoadTwice { name: String },
    #[error("{option} is about a load that is a command, and there is none")]
    OnlyForCommands { option: &'static str },
    #[error("--pg is about the load pgbench, and there is none")]
    OnlyForPgbench,
    #[error("load {load} counts from its start: --ramp is not possible with it")]
    NoRamp { load: String },
    #[error("load {load} takes as long as it takes: --runtime auto has nothing to choose")]
    NoRunTime { load: String },
    /// Its number is none that a trial's slices have.
    #[error(
        "load {load} is decided by {objective}, and --runtime auto judges the course of throughput and IOPS"
    )]
    RunTimeNotJudged {
        load: String,
        objective: &'static str,
    },
    /// What one of its jobs takes would be taken for what a trial takes besides.
    #[error(
        "the jobs of load {load} do not all run at the same time ({option}): --runtime auto cannot tell what its trials cost"
    )]
    RunTimeOfStages { load: String, option: &'static str },
    #[error(
        "--runtime auto chooses between longer trials and more rounds, and there are to be exactly {rounds}"
    )]
    RunTimeOfFixedRounds { rounds: u32 },
    #[error("there is nothing to compare: {arm} is the only arm")]
    OneArm { arm: String },
    /// The load writes, and the device may not be written.
    #[error(transparent)]
    MayNotWrite(#[from] MayNotWrite),
    #[error("load {load} needs a directory, and {target} is none")]
    NeedsDirectory { load: String, target: String },
    #[error("{what} writes, and {} is somebody's file", path.display())]
    WritesToFile { what: String, path: PathBuf },
    #[error("--mkfs makes a file system on a device, and {target} is none")]
    NoDevice { target: String },
    #[error("--precondition fills a whole device, and {target} is none")]
    NothingToFill { target: String },
    #[error("{target} cannot be written")]
    NotWritable {
        target: String,
        #[source]
        source: std::io::Error,
    },
    /// It was on another disk when the run began.
    #[error("{} is on {is} now, and was on {was} when the run began", path.display())]
    Moved {
        path: PathBuf,
        /// Kernel name of the device then.
        was: String,
        /// Kernel name of the device now.
        is: String,
    },
    #[error("no room in {}: the loads need {needed} MiB, {free} MiB are free", path.display())]
    NoRoom {
        path: PathBuf,
        /// MiB.
        needed: u64,
        /// MiB.
        free: u64,
    },
    #[error("load {load} would fill the file system: {option}")]
    FillsDirectory { load: String, option: String },
    #[error("{what} is {value}, and must be {range}")]
    OutOfRange {
        what: &'static str,
        /// The argument as the user wrote it.
        value: String,
        range: &'static str,
    },
    #[error(
        "the budget of {} s is too short: {rounds} rounds take {} s",
        budget.as_secs_f64(),
        needed.as_secs_f64().ceil()
    )]
    BudgetTooShort {
        /// What a decision takes at the least.
        rounds: u32,
        /// The duration that the user asked for.
        budget: Duration,
        needed: Duration,
    },
    #[error("cannot read the state of {thing}")]
    Io {
        thing: String,
        #[source]
        source: std::io::Error,
    },
}

impl Failure for PlanError {
    iosched_machine::passes_on!(PlanError: Device, Switch, Load, Simulation, Inside, MayNotWrite);

    fn hint(&self) -> Option<String> {
        match self {
            PlanError::NotServed { arm, .. } => Some(format!(
                "make a disk that has one: `iosched tune --emulate hdd-7200 --arms {arm},…` for the run alone, or \
                 `iosched emulate create hdd-7200 --scheduler …`"
            )),
            PlanError::OneIsServed { .. } => {
                Some("measure on one disk: the schedulers of the others are the kernel's".into())
            }
            PlanError::TwoSchedulers { device, .. } => Some(format!(
                "take the kernel's away first: `iosched set {device} none` (`iosched restore`, if an interrupted run left it)"
            )),
            PlanError::UnknownLoad { .. } => Some(format!(
                "built-in loads: {}; pgbench, responsiveness, desktop, build, five-tests, command: and others: `iosched tune --help`",
                BUILT_IN
                    .iter()
                    .map(|load| load.name)
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
            PlanError::NotSimulated { .. } => {
                Some("let a disk be made for the run: --emulate in place of --simulate; or name one".into())
            }
            PlanError::LoadTwice { name } => Some(format!(
                "give each load once, with a weight: --load {}",
                quoted(&format!("{name}:2"))
            )),
            PlanError::OnlyForCommands { .. } => {
                Some("name one: --load 'command: make -j2'".into())
            }
            PlanError::OnlyForPgbench => Some("name it: --load pgbench".into()),
            PlanError::NoRunTime { .. } => Some(
                "leave it out; it is for loads that run for a time that is given: the built-in ones and fio job files"
                    .into(),
            ),
            PlanError::RunTimeNotJudged { .. } => {
                Some("say how long trials are (--runtime 10s), or let throughput or iops decide".into())
            }
            PlanError::RunTimeOfStages { .. } => Some(
                "say how long its jobs run (--runtime 10s), or give each a job file of its own: --load a.fio --load b.fio"
                    .into(),
            ),
            PlanError::RunTimeOfFixedRounds { .. } => Some(
                "say how long trials are (--runtime 10s), or leave the number of rounds to the race".into(),
            ),
            PlanError::OneArm { .. } => {
                Some("give two or more with --arms, for example none,bfq:low_latency=0".into())
            }
            PlanError::NeedsDirectory { .. } => Some(
                "name a directory on the disk that is meant; on a disk that holds nothing, let a file \
                 system be made for the run: --mkfs ext4 --destroy-data"
                    .into(),
            ),
            PlanError::NoDevice { .. } => Some("leave it out: the load works in a directory".into()),
            PlanError::WritesToFile { .. } => {
                Some("name the directory: the load then makes files of its own".into())
            }
            PlanError::NothingToFill { .. } => {
                Some("name the raw device, and allow it with --destroy-data".into())
            }
            PlanError::OddPath { path } if path.is_dir() => Some(format!(
                "give the directory a second, plainer name: mount --bind {} /mnt",
                quoted_path(path)
            )),
            PlanError::OddPath { .. } => Some("give it a plainer name".into()),
            PlanError::NotWritable { .. } => {
                Some("name a target that may be written; a device or file may be measured with reads alone".into())
            }
            PlanError::Moved { path, was, .. } => Some(format!(
                "mount {was} where it was; what {} is on now is for a new run",
                path.display()
            )),
            PlanError::NoRoom { .. } => {
                Some(
                "make room there; or of a new run make it smaller: --file-size, or the load's own scale=, size= or \
                 files="
                    .into(),
            )
            }
            PlanError::BudgetTooShort { needed, .. } => Some(format!(
                "give more time (--budget {}s), shorter trials (--runtime), fewer loads or fewer --arms",
                needed.as_secs_f64().ceil()
            )),
            PlanError::FillsDirectory { .. } => Some(
                "give a size such as size=1g, or leave it out: --file-size says how large files are"
                    .into(),
            ),
            _ => self.passes_on()?.hint(),
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            PlanError::OnlyForPgbench => Some(Remedy::With("--load=pgbench".into())),
            PlanError::NoRunTime { .. } => Some(Remedy::Without(vec![("--runtime", true)])),
            PlanError::BudgetTooShort { needed, .. } => {
                let needed = needed.as_secs_f64().ceil();
                Some(Remedy::With(format!("--budget={needed}s")))
            }
            _ => self.passes_on()?.remedy(),
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            PlanError::NotServed { .. } => exit::NOT_OFFERED,
            PlanError::NeedsDirectory { .. } | PlanError::NoDevice { .. } => exit::NO_SUCH_DEVICE,
            PlanError::WritesToFile { .. } => exit::UNSAFE,
            PlanError::NotWritable { .. } => exit::NOT_PERMITTED,
            PlanError::Moved { .. } => exit::BAD_RECORD,
            PlanError::NoRoom { .. } | PlanError::Io { .. } => exit::FAILURE,
            _ => self.passes_on().map_or(exit::USAGE, Failure::exit_code),
        }
    }
}
