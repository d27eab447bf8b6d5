//! Arms of an emulated disk with a scheduler of ours inside: served ones, and the kernel's above.
//!
//! Such a disk has two places for a scheduler: inside, and the kernel's queue of the loop device above. An arm uses one
//! of them and leaves the other without a say. A served arm has `none` above, with as many requests in the loop driver as
//! that scheduler wants (all, but for `none`). A kernel's arm has `none` inside, and the loop driver has as many
//! requests as the model takes at a time, so that what waits, waits above.

use iosched_machine::sysfs::Sysfs;

use super::arm::Arm;
use super::error::{SwitchError, io_error};
use super::inside;
use super::offered::active;
use super::state::QueueState;
use super::{Entered, switch};

/// Sets a served arm: a fresh scheduler inside, and the kernel's queue as it was found but for the requests that this one
/// wants.
pub(super) fn enter(
    sysfs: &Sysfs,
    device: &str,
    arm: &Arm,
    baseline: &QueueState,
) -> Result<Entered, SwitchError> {
    let scheduler = arm.without_layer();
    leave_above(sysfs, device)?;
    inside::put(sysfs, device, &scheduler)?;
    let wanted = QueueState {
        served: Some(scheduler),
        nr_requests: sysfs.read_if_present(device, "queue/nr_requests"),
        ..baseline.clone()
    };
    let adjusted = wanted.restore(sysfs, device)?;
    Ok(Entered {
        state: QueueState::read(sysfs, device)?,
        adjusted,
    })
}

/// Makes way for a scheduler of the kernel's above: none inside, and no more requests in the loop driver than the model
/// takes at a time.
pub(super) fn clear_inside(sysfs: &Sysfs, device: &str) -> Result<(), SwitchError> {
    inside::put(sysfs, device, "none")?;
    leave_above(sysfs, device)?;
    let served = inside::server(sysfs);
    let depth = served.and_then(|(server, host)| server.depth(&host, device));
    let depth = depth.ok_or_else(|| inside::gone(device))?;
    inside::set_requests(sysfs, device, &depth.to_string())
        .map_err(|source| io_error(device, "queue/nr_requests", source))
}

/// Takes the kernel's scheduler above away: a switch to itself would reset nothing.
fn leave_above(sysfs: &Sysfs, device: &str) -> Result<(), SwitchError> {
    if active(sysfs, device)? == "none" {
        return Ok(());
    }
    switch(sysfs, device, "none")
}
