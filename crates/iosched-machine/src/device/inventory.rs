//! All block devices of a machine at once, in time that grows with their number and no faster.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use super::mounts::{MountTable, devices_below_file};
use super::stack::{self, Role, Source};
use super::users::names_above;
use super::{Device, Usage};
use crate::host::Host;
use crate::sysfs::{Sysfs, is_of_attribute, natural_order};

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
        let devices = read_all(host, &sysfs, &names)?;
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
    pub(crate) fn below(&self, device: &Device) -> Vec<String> {
        stack::below(self, device)
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
        names_above(self, device, &self.usage)
            .iter()
            .filter_map(|name| self.get(name))
            .collect()
    }

    /// The device and all below it with their roles, from the top down; what is missing is left out.
    pub fn stack<'a>(&'a self, device: &'a Device) -> Vec<(&'a Device, Role)> {
        stack::walk(self, Cow::Borrowed(device))
            .unwrap_or_default()
            .into_iter()
            .filter_map(|(device, _, role)| match device {
                Cow::Borrowed(device) => Some((device, role)),
                Cow::Owned(_) => None,
            })
            .collect()
    }

    /// What a device itself has to do with scheduling.
    pub fn role(&self, device: &Device) -> Role {
        stack::role(
            device,
            stack::is_path_of_multipath(self, device),
            !self.below(device).is_empty(),
        )
    }
}

/// Reads devices on several processors: with thousands, most of the time goes into the kernel opening
/// small files.
fn read_all(host: &Host, sysfs: &Sysfs, names: &[String]) -> io::Result<Vec<Device>> {
    const WORTH_A_THREAD: usize = 250; // some 10 ms of reading
    let threads = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(names.len().div_ceil(WORTH_A_THREAD))
        .max(1);
    let read = |names: &[String]| -> io::Result<Vec<Device>> {
        let devices = names
            .iter()
            .map(|name| Device::read_with(host, sysfs, name));
        devices.filter_map(unless_vanished).collect()
    };
    if threads == 1 {
        return read(names);
    }
    let parts: Vec<&[String]> = names.chunks(names.len().div_ceil(threads)).collect();
    let read_parts = thread::scope(|scope| -> Vec<io::Result<Vec<Device>>> {
        let start = |part| thread::Builder::new().spawn_scoped(scope, move || read(part));
        let started: Vec<_> = parts.iter().map(|&part| (part, start(part))).collect();
        let finish =
            |(part, thread): (&[String], io::Result<thread::ScopedJoinHandle<_>>)| match thread {
                Ok(thread) => thread.join().expect("reading a device does not panic"),
                Err(_) => read(part), // no thread can be started here
            };
        started.into_iter().map(finish).collect()
    });
    let mut devices = Vec::new();
    for part in read_parts {
        devices.extend(part?);
    }
    Ok(devices)
}

/// What was read of a device; nothing if it has vanished since it was listed.
fn unless_vanished(read: io::Result<Device>) -> Option<io::Result<Device>> {
    match read {
        Err(error) if is_of_attribute(&error) => None,
        other => Some(other),
    }
}

impl Source for Inventory {
    fn device(&self, name: &str) -> io::Result<Cow<'_, Device>> {
        self.get(name)
            .map(Cow::Borrowed)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn below_file(&self, file: &Path) -> Vec<String> {
        self.below_file.get(file).cloned().unwrap_or_default()
    }
}
