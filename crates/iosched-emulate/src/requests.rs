//! How many requests the loop driver above a scheduler inside has (`nr_requests` of a queue with `none`).

use std::io;

use iosched_machine::host::Host;
use iosched_machine::sysfs::Sysfs;

use crate::disk_directory::{MIN_DRIVER_DEPTH, State};
use crate::loop_device;

/// Gives the loop driver above a scheduler inside so many requests, or as many as it has, unless a scheduler of the kernel's
/// is active there: then they are that one's. For the server: that takes two writes, and whoever asked for the scheduler
/// may be killed between them.
pub(super) fn set_requests_above(host: &Host, state: &State, depth: usize) -> io::Result<()> {
    let device = loop_device::name(state.loop_number);
    if !has_none_above(&host.sysfs(), &device) {
        return Ok(());
    }
    let depth = state.driver_takes(depth).to_string();
    set_requests(&host.sysfs(), &device, &depth)
}

/// That the server did that; where it could not, the same again, which says why.
pub(super) fn check_requests_above(host: &Host, state: &State, depth: usize) -> io::Result<()> {
    let device = loop_device::name(state.loop_number);
    let found = host.sysfs().read_if_present(&device, "queue/nr_requests");
    if found.as_deref() == Some(state.driver_takes(depth).to_string().as_str()) {
        return Ok(());
    }
    set_requests_above(host, state, depth)
}

fn has_none_above(sysfs: &Sysfs, device: &str) -> bool {
    let schedulers = sysfs.read_if_present(device, "queue/scheduler");
    schedulers.is_some_and(|schedulers| schedulers.contains("[none]"))
}

/// Writes `nr_requests` so that the driver of a queue with `none` takes it. After a switch of the kernel's scheduler the file
/// shows the driver's own number while the tags are still as few as before, and a write of what it shows does nothing.
pub fn set_requests(sysfs: &Sysfs, device: &str, requests: &str) -> io::Result<()> {
    let file = "queue/nr_requests";
    let is_shown = sysfs.read_if_present(device, file).as_deref() == Some(requests);
    if is_shown && let Ok(number) = requests.parse::<u32>() {
        let is_more = number > MIN_DRIVER_DEPTH;
        let other = if is_more { number - 1 } else { number + 1 };
        sysfs.write(device, file, &other.to_string())?;
    }
    sysfs.write(device, file, requests)
}
