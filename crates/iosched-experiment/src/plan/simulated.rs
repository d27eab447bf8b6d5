//! A plan without a device: arms and loads held against a disk model.

use iosched_facts::scheduler;
use iosched_switch::Arm;

use super::{Plan, PlanError, PlanRequest, Target, budget, error, loads};
use crate::load::simulated::{self, SimulatedDisk};

/// Holds what is wanted against what can be simulated. No device is there, so that the first arm
/// is what the others are compared with, unless another is named.
pub(super) fn plan(wanted: &PlanRequest, disk: &SimulatedDisk) -> Result<Plan, PlanError> {
    if !wanted.ramp.is_zero() {
        return Err(error::not_simulated("--ramp"));
    }
    let (arms, baseline) = choose_arms(wanted, disk)?;
    let mut plan = Plan {
        target: Target::Simulated(Box::new(disk.clone())),
        given_up: None,
        emulated: None,
        own_disk: None,
        disks: Vec::new(),
        arms,
        baseline,
        active: None,
        loads: loads::read(wanted, false)?,
        rules: wanted.rules.clone(),
        seed: wanted.seed,
        ramp_s: 0.0,
        precondition: false,
        split: false,
    };
    budget::choose_run_times(&mut plan)?;
    Ok(plan)
}

/// The arms that are wanted, or every scheduler that can be simulated; and the baseline's index.
fn choose_arms(wanted: &PlanRequest, disk: &SimulatedDisk) -> Result<(Vec<Arm>, usize), PlanError> {
    let mut arms = wanted
        .arms
        .iter()
        .map(|text| Arm::parse(text))
        .collect::<Result<Vec<Arm>, _>>()?;
    if arms.is_empty() {
        arms = scheduler::usual()
            .map(|info| Arm::plain(info.name))
            .collect();
    }
    let baseline = match &wanted.baseline {
        None => 0,
        Some(text) => {
            let baseline = Arm::parse(text)?;
            arms.iter()
                .position(|arm| *arm == baseline)
                .unwrap_or_else(|| {
                    arms.insert(0, baseline);
                    0
                })
        }
    };
    for arm in &arms {
        if arm.layer.is_some() {
            let device = format!("the simulated {}", disk.model.name);
            return Err(error::not_served(&device, &arm.to_string()));
        }
        simulated::check_arm(arm, disk)?;
    }
    if arms.len() < 2 {
        return Err(error::one_arm(&arms[0].to_string()));
    }
    Ok((arms, baseline))
}
