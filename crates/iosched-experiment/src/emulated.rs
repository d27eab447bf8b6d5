//! Emulated disks, as `iosched-switch` asks about them: the scheduler inside is a part of a queue's state.

use std::io;

use iosched_emulate as emulate;
use iosched_machine::host::Host;
use iosched_machine::sysfs::Sysfs;
use iosched_switch::SwitchError;
use iosched_switch::inside::{self, Server};

struct Emulated;

/// From now on the state of an emulated disk's queue includes what stands inside.
pub fn serve() {
    inside::serve_by(&Emulated);
}

impl Server for Emulated {
    fn scheduler(&self, host: &Host, device: &str) -> Option<String> {
        emulate::served_by(host, device)?.scheduler
    }

    fn depth(&self, host: &Host, device: &str) -> Option<u32> {
        Some(emulate::served_by(host, device)?.driver_depth)
    }

    fn put(&self, host: &Host, device: &str, scheduler: &str) -> Result<String, SwitchError> {
        match emulate::set_inside(host, device, scheduler) {
            Ok(Some(now)) => Ok(now),
            Ok(None) => Err(SwitchError::Vanished {
                device: device.into(),
            }),
            Err(problem) => Err(problem
                .about(format!("cannot switch what stands inside {device}"))
                .into()),
        }
    }

    fn set_requests(&self, sysfs: &Sysfs, device: &str, requests: &str) -> io::Result<()> {
        emulate::set_requests(sysfs, device, requests)
    }
}
