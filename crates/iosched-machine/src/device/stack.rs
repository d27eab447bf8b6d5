//! Down from a device to the disks whose scheduler matters for it.
//!
//! | layer | where the scheduler is |
//! |---|---|
//! | partition | its whole disk |
//! | md, LVM, crypt, bcache | every member disk below |
//! | multipath, request-based | itself; its paths stay at `none` |
//! | NVMe head and its paths | nowhere: `none` |
//! | loop | itself, and the disk that holds its file |

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::io;
use std::path::Path;

use serde::Serialize;

use super::mounts::{MountTable, devices_below_file};
use super::{Device, DeviceKind};
use crate::host::Host;

/// A device of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// The device.
    pub device: Device,
    /// How far below the device that was asked for: 0 is that device itself.
    pub depth: usize,
    /// What it has to do with scheduling.
    pub role: Role,
}

/// What a layer has to do with scheduling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Its scheduler matters.
    Schedules,
    /// It passes requests on to the layers below.
    PassesOn,
    /// A path of a multipath device that schedules itself: this one stays at `none`.
    PathOfMultipath,
    /// It has no scheduler to choose and nothing below.
    NothingToChoose,
}

/// The device and all below it, each once, from the top down.
pub fn stack(host: &Host, device: &Device) -> io::Result<Vec<Layer>> {
    let source = LiveSource::new(host);
    let layers = walk(&source, Cow::Borrowed(device))?;
    Ok(layers
        .into_iter()
        .map(|(device, depth, role)| Layer {
            device: device.into_owned(),
            depth,
            role,
        })
        .collect())
}

/// The devices whose scheduler matters for this one; empty where there is nothing to choose.
pub fn schedulable_disks(host: &Host, device: &Device) -> io::Result<Vec<Device>> {
    Ok(stack(host, device)?
        .into_iter()
        .filter(|layer| layer.role == Role::Schedules)
        .map(|layer| layer.device)
        .collect())
}

/// Where the walk down gets devices from: sysfs, or an [`Inventory`](super::Inventory) of it.
pub(super) trait Source {
    fn device(&self, name: &str) -> io::Result<Cow<'_, Device>>;
    /// The kernel names of the devices that the file of a loop device lies on.
    fn below_file(&self, file: &Path) -> Vec<String>;
}

/// Reads a device when the walk comes to it.
pub(super) struct LiveSource<'a> {
    host: &'a Host,
    mounts: OnceCell<MountTable>,
}

impl LiveSource<'_> {
    pub(super) fn new(host: &Host) -> LiveSource<'_> {
        LiveSource {
            host,
            mounts: OnceCell::new(),
        }
    }
}

impl Source for LiveSource<'_> {
    fn device(&self, name: &str) -> io::Result<Cow<'_, Device>> {
        Device::read(self.host, name).map(Cow::Owned)
    }

    fn below_file(&self, file: &Path) -> Vec<String> {
        let mounts = self
            .mounts
            .get_or_init(|| MountTable::read(self.host).unwrap_or_default());
        devices_below_file(self.host, mounts, file)
    }
}

/// The walk down: a device, how deep it lies, its role.
pub(super) fn walk<'a>(
    source: &'a impl Source,
    device: Cow<'a, Device>,
) -> io::Result<Vec<(Cow<'a, Device>, usize, Role)>> {
    let mut layers = Vec::new();
    let mut seen: HashSet<String> = HashSet::from([device.name.clone()]);
    let mut waiting = vec![(device, 0)]; // still to be looked at, the next one last
    while let Some((device, depth)) = waiting.pop() {
        let below = below(source, &device);
        let role = role(
            &device,
            is_path_of_multipath(source, &device),
            !below.is_empty(),
        );
        for name in below.into_iter().rev() {
            if seen.insert(name.clone()) {
                waiting.push((source.device(&name)?, depth + 1));
            }
        }
        layers.push((device, depth, role));
    }
    Ok(layers)
}

/// The table at the top of this file.
pub(super) fn role(device: &Device, is_path: bool, has_below: bool) -> Role {
    match device.kind {
        DeviceKind::NvmePath { .. } | DeviceKind::NvmeHead => Role::NothingToChoose,
        DeviceKind::Partition => Role::PassesOn,
        _ if is_path => Role::PathOfMultipath,
        _ if device.schedulers.choice().is_some() => Role::Schedules,
        _ if has_below => Role::PassesOn,
        _ => Role::NothingToChoose,
    }
}

/// The kernel names of what a device stands on.
pub(super) fn below(source: &impl Source, device: &Device) -> Vec<String> {
    if let Some(disk) = &device.disk {
        return vec![disk.clone()];
    }
    if let Some(file) = &device.backing_file {
        return source.below_file(file);
    }
    device.slaves.clone()
}

/// True if a multipath device that schedules itself stands directly on this one.
pub(super) fn is_path_of_multipath(source: &impl Source, device: &Device) -> bool {
    device.holders.iter().any(|holder| {
        source.device(holder).is_ok_and(|holder| {
            holder.kind == DeviceKind::Multipath && holder.schedulers.choice().is_some()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::machine;
    use super::super::{Inventory, find};
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
            let host = machine(&name);
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

    #[test]
    fn the_inventory_walks_as_sysfs_does() {
        for name in iosched_testing::machine_tree::names() {
            let host = machine(&name);
            let inventory = Inventory::read(&host).unwrap();
            for device in &inventory.devices {
                let read: Vec<(Device, Role)> = stack(&host, device)
                    .unwrap()
                    .into_iter()
                    .map(|layer| (layer.device, layer.role))
                    .collect();
                let known: Vec<(Device, Role)> = inventory
                    .stack(device)
                    .into_iter()
                    .map(|(device, role)| (device.clone(), role))
                    .collect();
                assert_eq!(read, known, "{} of {name}", device.name);
            }
        }
    }
}
