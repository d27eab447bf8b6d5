//! Down from a device to the disks whose scheduler matters for it.
//!
//! | layer | where the scheduler is |
//! |---|---|
//! | partition | its whole disk |
//! | md, LVM, crypt, bcache | every member disk below |
//! | multipath, request-based | itself; its paths stay at `none` |
//! | NVMe head and its paths | nowhere: `none` |
//! | loop | itself, and the disk that holds its file |

use std::collections::HashSet;
use std::io;

use serde::Serialize;

use super::{Device, DeviceKind, Inventory};
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
pub(super) fn walk<'a>(
    inventory: &'a Inventory,
    device: &'a Device,
) -> Vec<(&'a Device, usize, Role)> {
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
