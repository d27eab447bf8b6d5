//! Arms on disks that are served with a scheduler of ours inside.
//!
//! There a plain name (`cfq`, and `mq-deadline`, too) is the scheduler inside, with the kernel's queue above kept at
//! `none`: that is what the disk was made for. `served/cfq` says the same, and is what plans, records and reports say.
//! `kernel/mq-deadline` is the kernel's scheduler above, over `none` inside. On other disks a plain name is the kernel's.

use iosched_emulate::{self as emulate, ServedDisk};
use iosched_facts::scheduler;
use iosched_machine::device::Target as Found;
use iosched_machine::failure::Problem;
use iosched_machine::host::Host;
use iosched_switch::{self as switch, Arm, Layer, QueueState, SwitchError};

use super::disks::disks_to_switch;
use super::{PlanError, PlanRequest};

/// What stands inside these disks; `None` if they have the kernel's schedulers alone.
///
/// # Errors
/// One of several has a scheduler inside and another has none; or one has a second scheduler above.
pub(super) fn inside(
    wanted: &PlanRequest,
    host: &Host,
    disks: &[String],
) -> Result<Option<String>, PlanError> {
    if let Some(own) = wanted
        .own_disk
        .as_ref()
        .filter(|own| own.scheduler.is_some())
    {
        return Ok(own.scheduler.clone());
    }
    let sysfs = host.sysfs();
    let states = disks.iter().map(|disk| QueueState::read(&sysfs, disk));
    let states = states.collect::<Result<Vec<_>, _>>()?;
    let is_served = |state: &QueueState| state.served.is_some();
    if !states.iter().any(is_served) {
        return Ok(None);
    }
    for (disk, state) in disks.iter().zip(&states) {
        let Some(served) = &state.served else {
            // An arm would mean one thing on one disk and another on the other.
            let message = format!(
                "{} stands on several disks, and not all are served with a scheduler inside: {disk} is not",
                wanted.target
            );
            let hint = "measure on one disk: the schedulers of the others are the kernel's";
            return Err(Problem::usage(message).hint(hint).into());
        };
        if state.scheduler != "none" {
            let message = format!(
                "{disk} has two schedulers, {} of the kernel's above {served} inside: no arm stands alone",
                state.scheduler
            );
            let hint = format!(
                "take the kernel's away first: `iosched set {disk} none` (`iosched restore`, if an interrupted run left it)"
            );
            return Err(Problem::usage(message).hint(hint).into());
        }
    }
    Ok(states.into_iter().next().and_then(|state| state.served))
}

/// An arm as these disks can be given it, where all of them have a scheduler of ours inside.
///
/// # Errors
/// It cannot be served, or the kernel does not offer it.
pub(super) fn arm(text: &str, host: &Host, disks: &[String]) -> Result<Arm, PlanError> {
    let mut arm = Arm::parse(text)?;
    if arm.layer == Some(Layer::Kernel) {
        for disk in disks {
            arm.scheduler = switch::resolve(&host.sysfs(), disk, &arm.scheduler)?;
        }
        return Ok(arm);
    }
    emulate::check_scheduler(&arm.without_layer())?;
    Ok(arm.of(Layer::Served))
}

/// The disks below a target that have a scheduler of ours inside; none where it cannot be told, which the plan then says.
pub fn served_disks(host: &Host, target: &str) -> Vec<String> {
    let found = Found::find(host, target).ok();
    let disks = found.and_then(|found| disks_to_switch(host, &found).ok());
    let mut disks = disks.unwrap_or_default();
    let has_one = |disk: ServedDisk| disk.scheduler.is_some();
    disks.retain(|disk| emulate::served_by(host, disk).is_some_and(has_one));
    disks
}

/// The schedulers that are compared where none is named.
pub(super) fn usual() -> Vec<Arm> {
    scheduler::usual()
        .map(|info| Arm::plain(info.name).of(Layer::Served))
        .collect()
}

/// What an emulated disk that is made for these arms has to be made with: nothing, if the kernel has them all; else the
/// baseline, or the first of those that are served. `device` is any loop device.
///
/// # Errors
/// An arm cannot be read, or not be served.
pub fn scheduler_for_own_disk(
    arms: &[String],
    baseline: Option<&str>,
    host: &Host,
    device: &str,
) -> Result<Option<String>, PlanError> {
    let texts = baseline.into_iter().chain(arms.iter().map(String::as_str));
    let arms = texts.map(Arm::parse).collect::<Result<Vec<_>, _>>()?;
    if !arms.iter().any(|arm| has_to_be_served(arm, host, device)) {
        return Ok(None);
    }
    let first = arms.iter().find(|arm| arm.layer != Some(Layer::Kernel));
    let first = first.map(Arm::without_layer);
    first.as_deref().map_or(Ok(()), emulate::check_scheduler)?;
    Ok(first)
}

/// True of an arm that says so, and of a scheduler of ours that this kernel does not have.
fn has_to_be_served(arm: &Arm, host: &Host, device: &str) -> bool {
    let is_ours = scheduler::find(&arm.scheduler).is_some();
    arm.is_served()
        || arm.layer.is_none()
            && is_ours
            && match switch::resolve(&host.sysfs(), device, &arm.scheduler) {
                Ok(name) => name != arm.scheduler,
                // No loop device is there that could tell: an old name is none of today's kernels'.
                Err(SwitchError::Vanished { .. }) => switch::modern_name(&arm.scheduler).is_some(),
                Err(error) => matches!(error, SwitchError::NotOffered { .. }),
            }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_scheduler_is_served_also_where_no_loop_device_is_there_to_be_asked() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("sys/block")).unwrap();
        let host = Host::at(tree.path());
        let inside = |arms: &[&str]| {
            let arms: Vec<String> = arms.iter().map(|&arm| arm.to_owned()).collect();
            scheduler_for_own_disk(&arms, None, &host, "loop0").unwrap()
        };
        assert_eq!(inside(&["cfq", "deadline"]).as_deref(), Some("cfq"));
        assert_eq!(inside(&["none", "mq-deadline"]), None);
    }
}
