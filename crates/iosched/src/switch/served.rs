//! The scheduler of ours inside an emulated disk, as part of the state of its queue.
//!
//! Such a disk has two places for a scheduler: inside, and the kernel's queue of the loop device above. An arm uses one
//! of them and leaves the other without a say. A served arm has `none` above, with all the requests of the loop driver,
//! so that everything reaches the scheduler inside. A kernel's arm has `none` inside, and the loop driver has as many
//! requests as the model takes at a time, so that what waits, waits above.

use std::io;
use std::path::Path;

use super::arm::Arm;
use super::error::{SwitchError, io_error};
use super::offered::active;
use super::state::QueueState;
use super::{Entered, switch};
use crate::emulate::{self, EmulateError};
use crate::host::Host;
use crate::sysfs::Sysfs;

/// The fewest requests that the kernel gives a queue (`BLKDEV_MIN_RQ`).
const LEAST_REQUESTS: usize = 4;

/// The scheduler of ours that stands inside a device, with its tunables; `None` if there is none.
pub(super) fn found(sysfs: &Sysfs, device: &str) -> Option<String> {
    Some(emulate::served_by(&host(sysfs)?, device)?.scheduler)
}

/// This machine. A copied tree has no servers.
fn host(sysfs: &Sysfs) -> Option<Host> {
    (sysfs.root() == Path::new("/sys")).then(Host::live)
}

/// Puts a scheduler inside, a fresh one even if it is the same: what the old one holds is done first.
pub(super) fn put_inside(device: &str, scheduler: &str) -> Result<(), SwitchError> {
    let inside = |source| SwitchError::Inside {
        device: device.into(),
        source: Box::new(source),
    };
    let vanished = || SwitchError::Vanished {
        device: device.into(),
    };
    match emulate::set_inside(&Host::live(), device, scheduler) {
        Ok(now) if now == scheduler => Ok(()),
        Ok(now) => Err(SwitchError::NotTaken {
            device: device.into(),
            asked: scheduler.into(),
            got: now,
        }),
        Err(EmulateError::Gone { .. } | EmulateError::Unknown { .. }) => Err(vanished()),
        Err(error) => Err(inside(error)),
    }
}

/// Sets a served arm: the kernel's queue as it was found, and a fresh scheduler inside.
pub(super) fn enter(
    sysfs: &Sysfs,
    device: &str,
    arm: &Arm,
    baseline: &QueueState,
) -> Result<Entered, SwitchError> {
    let scheduler = arm.without_layer();
    put_inside(device, &scheduler)?;
    let wanted = QueueState {
        served: Some(scheduler),
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
pub(super) fn clear_inside(
    sysfs: &Sysfs,
    device: &str,
    baseline: &QueueState,
) -> Result<(), SwitchError> {
    put_inside(device, "none")?;
    // A switch to itself resets nothing: leave and come back.
    if active(sysfs, device)? != "none" {
        switch(sysfs, device, "none")?;
    }
    let model = host(sysfs).and_then(|host| emulate::served_by(&host, device));
    let Some(model) = model else {
        return Err(SwitchError::Vanished {
            device: device.into(),
        });
    };
    let most = baseline.nr_requests.as_ref().and_then(|n| n.parse().ok());
    let most: usize = most.unwrap_or(usize::MAX).max(LEAST_REQUESTS);
    let depth = model.queue_depth.clamp(LEAST_REQUESTS, most);
    set_depth(sysfs, device, &depth.to_string())
        .map_err(|source| io_error(device, "queue/nr_requests", source))
}

/// Writes `nr_requests` so that the driver of a queue with `none` takes it. After a switch of scheduler the file shows the
/// driver's own number while the tags are still as few as before, and a write of what it shows does nothing.
pub(super) fn set_depth(sysfs: &Sysfs, device: &str, depth: &str) -> io::Result<()> {
    let file = "queue/nr_requests";
    let is_shown = sysfs.read_if_present(device, file).as_deref() == Some(depth);
    if is_shown && let Ok(number) = depth.parse::<usize>() {
        let other = if number > LEAST_REQUESTS {
            number - 1
        } else {
            number + 1
        };
        sysfs.write(device, file, &other.to_string())?;
    }
    sysfs.write(device, file, depth)
}
