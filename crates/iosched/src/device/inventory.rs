//! All block devices of a machine at once, in time that grows with their number and no faster.

use std::io;

use serde::Serialize;

use super::{Device, Usage};
use crate::host::Host;
use crate::sysfs::natural_order;

/// All devices of a machine and their uses.
#[derive(Debug, Serialize)]
pub struct Inventory {
    /// Every device and partition, in the order people count.
    pub devices: Vec<Device>,
    /// Who uses each.
    #[serde(skip)]
    pub usage: Usage,
}

impl Inventory {
    /// Reads everything. A device that vanishes meanwhile is left out.
    pub fn read(host: &Host) -> io::Result<Inventory> {
        let sysfs = host.sysfs();
        let mut names = sysfs.all_devices()?;
        names.sort_by(|a, b| natural_order(a, b));
        let devices = names
            .iter()
            .filter_map(|name| Device::read_with(host, &sysfs, name).ok())
            .collect();
        Ok(Inventory {
            devices,
            usage: Usage::read(host),
        })
    }
}
