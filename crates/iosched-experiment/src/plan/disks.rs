//! Which disks' schedulers matter for a target.

use iosched_machine::device::{self, Device, Role, Target as Found};
use iosched_machine::failure::{Problem, exit};
use iosched_machine::host::Host;
use iosched_switch as switch;

use super::PlanError;

/// The disks whose scheduler matters for a target: on every path down, the first layer that has a
/// scheduler. Below a loop device that has one, its file's disk is left alone.
pub(super) fn disks_to_switch(host: &Host, target: &Found) -> Result<Vec<String>, PlanError> {
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
        let reason = top.schedulers.to_string();
        return Err(switch::nothing_to_choose(&top.name, &reason).into());
    }
    Ok(disks)
}

/// `disks_to_switch` for one device.
pub fn disks_below(host: &Host, device: &Device) -> Result<Vec<String>, PlanError> {
    let layers = device::stack(host, device).map_err(|error| {
        let message = format!("cannot read the state of {}: {error}", device.name);
        Problem::new(exit::FAILURE, message)
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
