//! All block devices of a machine at once, in time that grows with their number and no faster.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;

use super::mounts::{MountTable, devices_below_file};
use super::stack::{self, Layer, Role};
use super::users::{Usage, User};
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
        let layers = walk(self, device).into_iter();
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

/// The device and all below it, each once, from the top down.
///
/// # Errors
/// The devices of the machine cannot be read.
pub fn stack(host: &Host, device: &Device) -> io::Result<Vec<Layer>> {
    let inventory = Inventory::read(host)?;
    let layers = walk(&inventory, device).into_iter();
    let layers = layers.map(|(device, depth, role)| Layer {
        device: device.clone(),
        depth,
        role,
    });
    Ok(layers.collect())
}

/// The devices whose scheduler matters for this one; empty where there is nothing to choose.
///
/// # Errors
/// Those of [`stack`].
pub fn schedulable_disks(host: &Host, device: &Device) -> io::Result<Vec<Device>> {
    let mut layers = stack(host, device)?;
    layers.retain(|layer| layer.role == Role::Schedules);
    Ok(layers.into_iter().map(|layer| layer.device).collect())
}

/// The walk down: a device, how deep it lies, its role. What is missing is left out.
fn walk<'a>(inventory: &'a Inventory, device: &'a Device) -> Vec<(&'a Device, usize, Role)> {
    let mut layers = Vec::new();
    let mut seen: HashSet<String> = HashSet::from([device.name.clone()]);
    let mut waiting = vec![(device, 0)]; // still to be looked at, the next one last
    while let Some((device, depth)) = waiting.pop() {
        layers.push((device, depth, inventory.role(device)));
        for name in inventory.below(device).into_iter().rev() {
            if seen.insert(name.clone())
                && let Some(below) = inventory.get(&name)
            {
                waiting.push((below, depth + 1));
            }
        }
    }
    layers
}

/// The mounts and swap that depend on a device, through the whole stack upwards; none where the devices of the machine
/// cannot be read.
pub fn users(host: &Host, device: &Device) -> Vec<User> {
    let inventory = Inventory::read(host).ok();
    inventory.map_or_else(Vec::new, |inventory| inventory.users(device))
}

/// The device itself and everything that stands on it, each once, nearest first.
fn names_above(inventory: &Inventory, device: &Device) -> Vec<String> {
    let mut names = vec![device.name.clone()];
    let mut seen: HashSet<String> = names.iter().cloned().collect();
    let mut next = 0;
    while next < names.len() {
        let mut above: Vec<String> = inventory.usage.loops(&names[next]).to_vec();
        if let Some(found) = inventory.get(&names[next]) {
            above.extend(found.partitions.iter().chain(&found.holders).cloned());
        }
        next += 1;
        above.sort_by(|a, b| natural_order(a, b));
        names.extend(above.into_iter().filter(|name| seen.insert(name.clone())));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::super::fixture::machine;
    use super::*;

    #[test]
    fn the_disks_whose_scheduler_matters_are_found_below_every_kind_of_layer() {
        for (name, device, expected) in [
            ("workstation", "sda", &["sda"][..]),
            ("workstation", "nvme0n1p2", &["nvme0n1"]),
            ("md-raid", "md0", &["sda", "sdb"]),
            ("md-raid", "md1p1", &["sda", "sdb", "sdc", "sdd"]),
            ("lvm-on-crypt", "dm-1", &["nvme0n1"]),
            ("cciss", "dm-1", &["cciss/c0d0", "cciss/c0d1"]),
            ("dm-multipath", "dm-0", &["dm-0"]),
            ("dm-multipath", "dm-2", &["dm-0"]), // a partition of a multipath device
            ("dm-multipath", "dm-3", &["dm-1"]), // LVM on another
            ("dm-multipath", "sda", &[]),        // a path stays at none
            ("nvme-multipath", "nvme0n1", &[]),
            ("nvme-multipath", "nvme0n1p1", &[]),
            ("nvme-multipath", "nvme0c0n1", &[]),
            ("virtual-machine", "loop0", &["loop0", "vda"]), // on a file
            ("virtual-machine", "loop1", &["loop1", "vdb"]), // on a disk
            ("virtual-machine", "zram0", &[]),
            ("zoned", "sdb", &["sdb"]),
            ("legacy-4.4", "sda5", &["sda"]),
            ("legacy-4.4", "xvdf", &[]),
        ] {
            let host = machine(name);
            let device = find(&host, device).unwrap();
            let disks: Vec<String> = schedulable_disks(&host, &device)
                .unwrap()
                .into_iter()
                .map(|disk| disk.name)
                .collect();
            assert_eq!(disks, expected, "{} of {name}", device.name);
        }
    }

    #[test]
    fn the_paths_below_a_multipath_device_are_named_as_such() {
        let host = machine("dm-multipath");
        let layers: Vec<(String, usize, Role)> = stack(&host, &find(&host, "dm-2").unwrap())
            .unwrap()
            .into_iter()
            .map(|layer| (layer.device.name, layer.depth, layer.role))
            .collect();
        assert_eq!(
            layers,
            [
                ("dm-2".to_owned(), 0, Role::PassesOn),
                ("dm-0".to_owned(), 1, Role::Schedules),
                ("sda".to_owned(), 2, Role::PathOfMultipath),
                ("sdc".to_owned(), 2, Role::PathOfMultipath),
            ]
        );
    }
}
