//! From what the user asked to a plan: held against the machine, nothing touched.

use iosched_emulate as emulate;
use iosched_machine::device::Target as Found;
use iosched_machine::failure::Problem;
use iosched_machine::host::Host;
use iosched_switch::{self as switch, Arm, Layer, SwitchError};

use super::disks::disks_to_switch;
use super::{
    Plan, PlanError, PlanRequest, budget, check_rules, error, loads, served, simulated, target,
};

impl Plan {
    /// Holds what is wanted against the machine.
    pub fn new(wanted: &PlanRequest, host: &Host) -> Result<Plan, PlanError> {
        check_rules(&wanted.rules)?;
        if let Some(disk) = &wanted.simulate {
            return simulated::plan(wanted, disk);
        }
        let found = Found::find_to_change(host, &wanted.target)?;
        let disks = disks_to_switch(host, &found)?;
        let ages = wanted.own_disk.is_none()
            && disks
                .iter()
                .any(|disk| emulate::model_of(host, disk).is_none());
        let loads = loads::read(wanted, ages)?;
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
            rules: wanted.rules.clone(),
            seed: wanted.seed,
            ramp_s: wanted.ramp.as_secs_f64(),
            precondition: wanted.precondition,
            split: wanted.split,
        };
        budget::choose_run_times(&mut plan)?;
        Ok(plan)
    }
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
        Some(_) if wanted.arms.is_empty() => served::usual(),
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
        return Err(error::one_arm(&arms[0].to_string()));
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
fn keeps_order(host: &Host, disks: &[String], arm: &Arm) -> Result<(), Problem> {
    disks
        .iter()
        .try_for_each(|disk| switch::check_order(host, disk, &arm.scheduler))
}

/// An arm as these disks can really be given it, none of which has a scheduler of ours inside.
fn kernel_arm(text: &str, host: &Host, disks: &[String]) -> Result<Arm, PlanError> {
    let mut arm = Arm::parse(text)?;
    if arm.is_served() {
        return Err(error::not_served(&disks[0], &arm.to_string()));
    }
    arm.layer = None; // nothing to confuse it with
    for disk in disks {
        switch::check_hang(host, disk)?;
        arm.scheduler = switch::resolve(&host.sysfs(), disk, &arm.scheduler)?;
    }
    Ok(arm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_machine::device::fixture::machine;
    use iosched_machine::failure::exit;

    #[test]
    fn no_arm_is_chosen_under_which_a_zoned_disk_loses_its_order() {
        let host = machine("zoned"); // Linux 5.15
        let disks = ["sdc".to_owned()];
        assert_eq!(
            all_offered(&host, &disks).unwrap(),
            [Arm::plain("mq-deadline".to_owned())]
        );
        let none = keeps_order(&host, &disks, &Arm::plain("none".to_owned()));
        assert_eq!(none.unwrap_err().code, exit::UNSAFE);
        let conventional = ["sda".to_owned()];
        assert_eq!(all_offered(&host, &conventional).unwrap().len(), 2);
    }
}
