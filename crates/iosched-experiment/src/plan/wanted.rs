//! From what the user asked to a plan: held against the machine, nothing touched.

use std::time::Duration;

use iosched_machine::device::{self, Consent, Device, Role, Target as Found};
use iosched_machine::file_system;
use iosched_machine::host::Host;
use iosched_switch::{self as switch, Arm, Layer, SwitchError};

use super::below::Below;
use super::{
    OwnDisk, Plan, PlanError, Rules, budget, check_auto, check_rules, loads, served, simulated,
    target,
};
use crate::load::families;
use crate::load::simulated::SimulatedDisk;
use crate::objective::Objective;

/// What the user asked for, as far as it needs the machine to be understood.
#[derive(Debug, Clone)]
pub struct PlanRequest {
    /// A device, a directory or a file.
    pub target: String,
    /// Simulate this disk instead: then there is no target, and no device is touched.
    pub simulate: Option<SimulatedDisk>,
    /// True if the target is an emulated disk that this very run made: it may be written.
    pub is_our_own: bool,
    /// What that disk is, which is known before it is made.
    pub own_disk: Option<OwnDisk>,
    /// `NAME`, `NAME:WEIGHT`, or a path to a job file, with an optional weight too.
    pub loads: Vec<String>,
    /// What the user said of the load that is a command.
    pub command: CommandOptions,
    /// The server that pgbench uses, if it is not one of our own: libpq's `keyword=value …`.
    pub connection: Option<String>,
    /// Arms as the user wrote them; empty for all that the device offers.
    pub arms: Vec<String>,
    /// The arm to compare with; default the active one.
    pub baseline: Option<String>,
    /// What decides, over what each load says itself.
    pub objective: Option<Objective>,
    /// Run time of each trial.
    pub runtime: RunTime,
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
    /// Record where requests spend their time.
    pub split: bool,
    /// Make a file system on the device for the run.
    pub mkfs: Option<file_system::FileSystemKind>,
    /// What the user said about the data on a raw device.
    pub destroy_data: Consent,
}

/// What the user said of the load that is a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandOptions {
    /// `--setup`: a command line, once.
    pub setup: Option<String>,
    /// `--prepare`: a command line, before each trial.
    pub prepare: Option<String>,
    /// `--metric`: `time`, a JSON pointer or a regular expression.
    pub metric: Option<String>,
    /// `--better`.
    pub is_higher_better: Option<bool>,
}

impl CommandOptions {
    pub(super) fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--setup", self.setup.is_some()),
            ("--prepare", self.prepare.is_some()),
            ("--metric", self.metric.is_some()),
            ("--better", self.is_higher_better.is_some()),
        ];
        given
            .into_iter()
            .find_map(|(name, is_given)| is_given.then_some(name))
    }
}

/// How long trials run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunTime {
    /// As long as the job file says, 10 s where it says nothing.
    #[default]
    OfLoad,
    /// So long.
    Of(Duration),
    /// As long as their own course asks for, from the second round on.
    Auto {
        /// How long in the first round, where that is not the load's default.
        first: Option<Duration>,
    },
}

impl RunTime {
    /// What each trial is given before anything is known; `None` leaves it to the load.
    pub(super) fn at_first(self) -> Option<Duration> {
        match self {
            RunTime::OfLoad => None,
            RunTime::Of(time) => Some(time),
            RunTime::Auto { first } => first,
        }
    }

    pub(super) fn is_auto(self) -> bool {
        matches!(self, RunTime::Auto { .. })
    }
}

/// Whether trials wait until writes have become steady.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Steady {
    /// For loads that write to a disk that is not emulated: models do not age.
    #[default]
    Auto,
    /// For all loads.
    On,
    /// Never.
    Off,
}

impl Plan {
    /// Holds what is wanted against the machine.
    pub fn new(wanted: &PlanRequest, host: &Host) -> Result<Plan, PlanError> {
        check_rules(&wanted.rules)?;
        if let Some(disk) = &wanted.simulate {
            return simulated::plan(wanted, disk);
        }
        let found = Found::find_to_change(host, &wanted.target)?;
        let disks = disks_to_switch(host, &found)?;
        let loads = loads::read(wanted, &Below::of(wanted, host, &disks))?;
        let first = &disks[0];
        let sysfs = host.sysfs();
        let active = switch::active(&sysfs, first)?;
        let inside = served::inside(wanted, host, &disks)?;
        let (arms, baseline) = choose_arms(wanted, host, &disks, &active, inside.as_deref())?;
        let active = match &inside {
            // A disk of our own has it because an arm is called so.
            Some(_) if wanted.is_our_own => None,
            Some(inside) => Some(Arm::parse(inside)?.of(Layer::Served)),
            None => Some(Arm::plain(&active)),
        };
        let (target, given_up) = target::check(wanted, host, &found, &loads)?;
        let mut plan = Plan {
            target,
            given_up,
            emulated: None,
            own_disk: None,
            active: active.and_then(|active| arms.iter().position(|arm| *arm == active)),
            disks,
            arms,
            baseline,
            loads,
            rules: Rules {
                fixed_rounds: wanted.rules.fixed_rounds.or(families::runs(&wanted.loads)),
                ..wanted.rules.clone()
            },
            seed: wanted.seed,
            ramp_s: wanted.ramp.as_secs_f64(),
            precondition: wanted.precondition,
            split: wanted.split,
        };
        check_auto(&plan)?;
        budget::choose_run_times(&mut plan)?;
        Ok(plan)
    }
}

/// The disks whose scheduler matters for a target: on every path down, the first layer that has a
/// scheduler. Below a loop device that has one, its file's disk is left alone.
pub(crate) fn disks_to_switch(host: &Host, target: &Found) -> Result<Vec<String>, PlanError> {
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

/// `disks_to_switch` for one device.
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

/// The arms as the device can really be given them, and which of them the others are compared
/// with: the named one, or the active one, which is added where the user left it out. On a disk of our own that has a
/// scheduler inside because of the arms, the first one.
fn choose_arms(
    wanted: &PlanRequest,
    host: &Host,
    disks: &[String],
    active: &str,
    inside: Option<&str>,
) -> Result<(Vec<Arm>, usize), PlanError> {
    let read = |text: &String| match inside {
        Some(_) => served::arm(text, host, disks),
        None => kernel_arm(text, host, disks),
    };
    let mut arms: Vec<Arm> = match inside {
        Some(_) if wanted.arms.is_empty() => served::all(),
        None if wanted.arms.is_empty() => all_offered(host, disks)?,
        _ => wanted.arms.iter().map(read).collect::<Result<_, _>>()?,
    };
    let baseline = match (&wanted.baseline, inside) {
        (Some(text), _) => read(text)?,
        (None, Some(inside)) => Arm::parse(inside)?.of(Layer::Served),
        (None, None) => Arm::plain(active),
    };
    let at = arms
        .iter()
        .position(|arm| *arm == baseline)
        .unwrap_or_else(|| {
            arms.insert(0, baseline);
            0
        });
    for arm in &arms {
        keeps_order(host, disks, arm)?;
    }
    if arms.len() < 2 {
        let arm = arms[0].to_string();
        return Err(PlanError::OneArm { arm });
    }
    Ok((arms, at))
}

/// What the first disk offers, but for what would lose the order of writes to a zoned one.
fn all_offered(host: &Host, disks: &[String]) -> Result<Vec<Arm>, SwitchError> {
    let offered = switch::offered(&host.sysfs(), &disks[0])?.into_iter();
    let arms = offered.map(Arm::plain);
    Ok(arms
        .filter(|arm| keeps_order(host, disks, arm).is_ok())
        .collect())
}

/// Whether writes to these disks keep their order under an arm.
fn keeps_order(host: &Host, disks: &[String], arm: &Arm) -> Result<(), SwitchError> {
    disks
        .iter()
        .try_for_each(|disk| switch::check_order(host, disk, &arm.scheduler))
}

/// An arm as these disks can really be given it, none of which has a scheduler of ours inside.
fn kernel_arm(text: &str, host: &Host, disks: &[String]) -> Result<Arm, PlanError> {
    let mut arm = Arm::parse(text)?;
    if arm.is_served() {
        return Err(PlanError::NotServed {
            device: disks[0].clone(),
            arm: arm.to_string(),
        });
    }
    arm.layer = None; // nothing to confuse it with
    for disk in disks {
        arm.scheduler = switch::resolve(&host.sysfs(), disk, &arm.scheduler)?;
    }
    Ok(arm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_machine::device::testing::machine;

    #[test]
    fn no_arm_is_chosen_under_which_a_zoned_disk_loses_its_order() {
        let host = machine("zoned"); // Linux 5.15
        let disks = ["sdc".to_owned()];
        assert_eq!(
            all_offered(&host, &disks).unwrap(),
            [Arm::plain("mq-deadline".to_owned())]
        );
        let none = keeps_order(&host, &disks, &Arm::plain("none".to_owned()));
        assert!(matches!(none, Err(SwitchError::Zoned { .. })), "{none:?}");
        let conventional = ["sda".to_owned()];
        assert_eq!(all_offered(&host, &conventional).unwrap().len(), 2);
    }
}
