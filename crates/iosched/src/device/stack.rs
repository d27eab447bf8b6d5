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

use super::users::{MountTable, devices_below_file};
use super::{Device, Kind};
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
    let mut mounts = None;
    let mut layers: Vec<Layer> = Vec::new();
    let mut seen: HashSet<String> = HashSet::from([device.name.clone()]);
    let mut waiting = vec![(device.clone(), 0)]; // still to be looked at, the next one last
    while let Some((device, depth)) = waiting.pop() {
        let below = below(host, &device, &mut mounts);
        let is_path = is_path_of_multipath(host, &device);
        let role = role(&device, is_path, !below.is_empty());
        for name in below.into_iter().rev() {
            if seen.insert(name.clone()) {
                waiting.push((Device::read(host, &name)?, depth + 1));
            }
        }
        layers.push(Layer {
            device,
            depth,
            role,
        });
    }
    Ok(layers)
}

/// The devices whose scheduler matters for this one; empty where there is nothing to choose.
pub fn schedulable_disks(host: &Host, device: &Device) -> io::Result<Vec<Device>> {
    Ok(stack(host, device)?
        .into_iter()
        .filter(|layer| layer.role == Role::Schedules)
        .map(|layer| layer.device)
        .collect())
}

/// The table at the top of this file.
fn role(device: &Device, is_path: bool, has_below: bool) -> Role {
    match device.kind {
        Kind::NvmePath { .. } | Kind::NvmeHead => Role::NothingToChoose,
        Kind::Partition => Role::PassesOn,
        _ if is_path => Role::PathOfMultipath,
        _ if device.schedulers.choice().is_some() => Role::Schedules,
        _ if has_below => Role::PassesOn,
        _ => Role::NothingToChoose,
    }
}

/// The kernel names of what a device stands on.
fn below(host: &Host, device: &Device, mounts: &mut Option<MountTable>) -> Vec<String> {
    if let Some(disk) = &device.disk {
        return vec![disk.clone()];
    }
    if let Some(file) = &device.backing_file {
        let mounts = mounts.get_or_insert_with(|| MountTable::read(host).unwrap_or_default());
        return devices_below_file(host, mounts, file);
    }
    if device.kind == Kind::NvmeHead {
        return nvme_paths(host, &device.name);
    }
    device.slaves.clone()
}

/// The paths of an NVMe head: `nvme0c1n1` for each controller 1 of the subsystem of `nvme0n1`.
fn nvme_paths(host: &Host, head: &str) -> Vec<String> {
    let Some((subsystem, namespace)) = head
        .strip_prefix("nvme")
        .and_then(|numbers| numbers.split_once('n'))
    else {
        return Vec::new();
    };
    let sysfs = host.sysfs();
    sysfs
        .list(head, "device")
        .iter()
        .filter_map(|entry| {
            let controller = entry.strip_prefix("nvme")?;
            let path = format!("nvme{subsystem}c{controller}n{namespace}");
            (super::is_number(controller) && sysfs.has_device(&path)).then_some(path)
        })
        .collect()
}

/// True if a multipath device that schedules itself stands directly on this one.
fn is_path_of_multipath(host: &Host, device: &Device) -> bool {
    device.holders.iter().any(|holder| {
        Device::read(host, holder).is_ok_and(|holder| {
            holder.kind == Kind::Multipath && holder.schedulers.choice().is_some()
        })
    })
}
