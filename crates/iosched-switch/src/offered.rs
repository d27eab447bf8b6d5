//! Which schedulers a device offers, and which of them a name means.

use std::path::Path;
use std::process::Command;

use iosched_machine::device::{NoChoice, Schedulers};
use iosched_machine::sysfs::Sysfs;

use super::arm::check_scheduler_name;
use super::error::{self, SwitchError, not_offered};
use super::names::name_on;

/// The scheduler that this device can really be given when `wanted` is asked: itself, or what
/// became of an old name, after loading its module if that is what lacks.
pub fn resolve(sysfs: &Sysfs, device: &str, wanted: &str) -> Result<String, SwitchError> {
    check_scheduler_name(wanted)?;
    let offered = offered(sysfs, device)?;
    if offered.iter().any(|name| name == wanted) {
        return Ok(wanted.into());
    }
    let to_load = name_on(&offered, wanted);
    if offered.iter().any(|name| name == to_load) {
        return Ok(to_load.into());
    }
    if is_of_this_kernel(sysfs) {
        load_module(to_load);
    }
    let offered = self::offered(sysfs, device)?;
    if offered.iter().any(|name| name == to_load) {
        return Ok(to_load.into());
    }
    Err(not_offered(device, wanted, &offered))
}

/// False of a copied tree, whose modules are not this kernel's.
fn is_of_this_kernel(sysfs: &Sysfs) -> bool {
    sysfs.root() == Path::new("/sys")
}

/// The schedulers that a device offers.
pub fn offered(sysfs: &Sysfs, device: &str) -> Result<Vec<String>, SwitchError> {
    match schedulers(sysfs, device) {
        Schedulers::Choice(choice) => Ok(choice.offered),
        Schedulers::Nothing(reason) => Err(nothing(sysfs, device, &reason)),
    }
}

/// The active scheduler.
pub fn active(sysfs: &Sysfs, device: &str) -> Result<String, SwitchError> {
    match schedulers(sysfs, device) {
        Schedulers::Choice(choice) => Ok(choice.active),
        Schedulers::Nothing(reason) => Err(nothing(sysfs, device, &reason)),
    }
}

fn schedulers(sysfs: &Sysfs, device: &str) -> Schedulers {
    Schedulers::of_file(sysfs.read(device, "queue/scheduler"))
}

fn nothing(sysfs: &Sysfs, device: &str, reason: &NoChoice) -> SwitchError {
    let device = device.to_owned();
    if sysfs.has_device(&device) {
        error::nothing_to_choose(&device, &reason.to_string()).into()
    } else {
        SwitchError::Vanished { device }
    }
}

/// Asks modprobe for a scheduler's module under the alias that the kernel itself uses. Whether it
/// helped is seen in `queue/scheduler`, so a failure is no error here.
fn load_module(scheduler: &str) {
    let _ = Command::new("modprobe")
        .args(["-q", &format!("{scheduler}-iosched")])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status();
}
