//! The scheduler of ours inside an emulated disk, as part of the state of its queue.

use std::path::Path;

use iosched_emulate as emulate;
use iosched_machine::host::Host;
use iosched_machine::sysfs::Sysfs;

use super::error::SwitchError;

/// The scheduler of ours that stands inside a device, with its tunables; `None` if there is none.
pub(super) fn found(sysfs: &Sysfs, device: &str) -> Option<String> {
    Some(emulate::served_by(&host(sysfs)?, device)?.scheduler)
}

/// This machine. A copied tree has no servers.
pub(super) fn host(sysfs: &Sysfs) -> Option<Host> {
    (sysfs.root() == Path::new("/sys")).then(Host::live)
}

/// Puts a scheduler inside, a fresh one even if it is the same: what the old one holds is done first.
pub(super) fn put_inside(device: &str, scheduler: &str) -> Result<(), SwitchError> {
    match emulate::set_inside(&Host::live(), device, scheduler) {
        Ok(Some(now)) if now == scheduler => Ok(()),
        Ok(Some(now)) => Err(SwitchError::NotTaken {
            device: device.into(),
            asked: scheduler.into(),
            got: now,
        }),
        Ok(None) => Err(SwitchError::Vanished {
            device: device.into(),
        }),
        Err(source) => Err(SwitchError::Inside {
            device: device.into(),
            source,
        }),
    }
}
