//! All block devices of a machine at once, in time that grows with their number and no faster.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use super::mounts::{MountTable, devices_below_file};
use super::stack::{self, Role};
use super::users::{Usage, User, names_above};
use super::{Device, DeviceKind};
use crate::host::Host;
use crate::sysfs::{is_of_attribute, natural_order};

/// All devices of a machine and their uses.
#[derive(Debug)]
pub struct Inventory {
    /// Every device and partition, in the order people count.
    pub devices: Vec<Device>,
    /// Who uses each.
    pub usage: Usage,
    by_name: HashMap<String, usize>,
    /// What the file of each loop device lies on.
    below_file: HashMap<PathBuf, Vec<String>>,
}

impl Inventory {
    /// Reads everything. A device that vanishes meanwhile is left out.
    pub fn read(host: &Host) -> io::Result<Inventory> {
        let sysfs = host.sysfs();
        let mut names = sysfs.all_devices()?;
        names.sort_by(|a, b| natural_order(a, b));
        let devices = names
            .iter()
            .map(|name| Device::read_with(host, &sysfs, name))
            .filter_map(unless_vanished)
            .collect::<io::Result<Vec<_>>>()?;
        let mounts = MountTable::read(host).unwrap_or_default();
        let usage = Usage::of(host, &mounts, &devices);
        let below_file = devices
            .iter()
            .filter_map(|device| device.backing_file.clone())
            .map(|file| {
                let below = devices_below_file(host, &mounts, &file);
                (file, below)
            })
            .collect();
        let by_name = devices
            .iter()
            .enumerate()
            .map(|(at, device)| (device.name.clone(), at))
            .collect();
        Ok(Inventory {
            devices,
            usage,
            by_name,
            below_file,
        })
    }

    /// A device by its kernel name.
    pub fn get(&self, name: &str) -> Option<&Device> {
        self.by_name.get(name).map(|&at| &self.devices[at])
    }

    /// What a device stands directly on: its disk, its members, what its file lies on.
    pub(super) fn below(&self, device: &Device) -> Vec<String> {
        match (&device.disk, &device.backing_file) {
            (Some(disk), _) => vec![disk.clone()],
            (None, Some(file)) => self.below_file.get(file).cloned().unwrap_or_default(),
            (None, None) => device.slaves.clone(),
        }
    }

    /// What stands directly on a device: its partitions, then its holders.
    pub fn directly_above(&self, device: &Device) -> Vec<&Device> {
        device
            .partitions
            .iter()
            .chain(&device.holders)
            .filter_map(|name| self.get(name))
            .collect()
    }

    /// The device and everything that stands on it, loop devices too, each once, nearest first.
    pub fn above(&self, device: &Device) -> Vec<&Device> {
        let names = names_above(self, device);
        names.iter().filter_map(|name| self.get(name)).collect()
    }

    /// The mounts and swap that depend on a device: on itself, its partitions, and all that stands on them.
    pub fn users(&self, device: &Device) -> Vec<User> {
        let names = names_above(self, device);
        let users = names.iter().flat_map(|name| self.usage.direct(name));
        users.cloned().collect()
    }

    /// The device and all below it with their roles, from the top down; what is missing is left out.
    pub fn stack<'a>(&'a self, device: &'a Device) -> Vec<(&'a Device, Role)> {
        let layers = stack::walk(self, device).into_iter();
        layers.map(|(device, _, role)| (device, role)).collect()
    }

    /// What a device itself has to do with scheduling.
    pub fn role(&self, device: &Device) -> Role {
        let is_path_of = |above: &Device| {
            above.kind == DeviceKind::Multipath && above.schedulers.choice().is_some()
        };
        let mut holders = device.holders.iter().filter_map(|name| self.get(name));
        stack::role(
            device,
            holders.any(is_path_of),
            !self.below(device).is_empty(),
        )
    }
}

/// What was read of a device; nothing if it has vanished since it was listed.
fn unless_vanished(read: io::Result<Device>) -> Option<io::Result<Device>> {
    match read {
        Err(error) if is_of_attribute(&error) => None,
        other => Some(other),
    }
}
