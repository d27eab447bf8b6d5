//! Whether a plan may use its target: what it destroys, what is in the way, whether there is room.

use std::collections::BTreeMap;
use std::path::Path;

use iosched_machine::device::{
    Device, GivenUp, Occasion, Target as Found, Write, find_file_system, may_write,
};
use iosched_machine::file_system::FileSystemKind;
use iosched_machine::host::Host;
use iosched_sim::workload::fio_job::lines::LONGEST_LINE;

use super::{OwnDisk, PlanError, PlanRequest, PlannedLoad, Target, writer};
use crate::load::Kept;

/// Checks the target, and says how the loads reach it and what the user gave up for that.
pub(super) fn check(
    wanted: &PlanRequest,
    host: &Host,
    found: &Found,
    loads: &[PlannedLoad],
) -> Result<(Target, Option<GivenUp>), PlanError> {
    if let Found::FileSystem(file_system) = found
        && is_odd(&file_system.path)
    {
        return Err(PlanError::OddPath {
            path: file_system.path.clone(),
        });
    }
    let writer = writer(loads, wanted.precondition);
    let needs_directory = loads.iter().find(|load| load.open().needs_directory());
    if let Some(kind) = own_file_system(wanted, needs_directory.is_some()) {
        return check_file_system(wanted, host, found, loads, kind);
    }
    if let Some(load) = needs_directory
        && !matches!(found, Found::FileSystem(file_system) if file_system.path.is_dir())
    {
        return Err(PlanError::NeedsDirectory {
            load: load.name.clone(),
            target: wanted.target.clone(),
        });
    }
    match found {
        Found::Device(device) => {
            let given_up = match &writer {
                Some(what) => give_up(wanted, host, device, what)?,
                None => None,
            };
            let target = Target::Device {
                path: host.dev(&device.name),
                device: device.name.clone(),
                writes: writer.is_some(),
            };
            Ok((target, given_up))
        }
        Found::FileSystem(_) if wanted.precondition => Err(PlanError::NothingToFill {
            target: wanted.target.clone(),
        }),
        Found::FileSystem(file_system) => {
            let device = file_system.devices[0].name.clone();
            let path = file_system.path.clone();
            if path.is_dir() {
                check_directory_is_writable(&path)?;
                check_room(&path, wanted.file_size, loads)?;
                let target = Target::Directory {
                    path,
                    device,
                    file_size: wanted.file_size,
                };
                Ok((target, None))
            } else if let Some(what) = writer {
                Err(PlanError::WritesToFile { what, path })
            } else {
                Ok((Target::File { path, device }, None))
            }
        }
    }
}

/// Asks again when a run goes on: a directory or a file that is on another disk by now (its file system is not
/// mounted, or another one is) would be measured for the one of the plan, and a directory has to have room for
/// the loads' files again.
pub(super) fn check_again(
    host: &Host,
    target: &Target,
    loads: &[PlannedLoad],
) -> Result<(), PlanError> {
    let (path, device, file_size) = match target {
        Target::Directory {
            path,
            device,
            file_size,
        } => (path, device, Some(*file_size)),
        Target::File { path, device } => (path, device, None),
        Target::Device { .. } | Target::FileSystem { .. } | Target::Simulated(_) => return Ok(()),
    };
    let now = find_file_system(host, path)?;
    if now.devices.iter().all(|now| now.name != *device) {
        return Err(PlanError::Moved {
            path: path.clone(),
            was: device.clone(),
            is: now.devices[0].name.clone(),
        });
    }
    let Some(file_size) = file_size else {
        return Ok(());
    };
    check_directory_is_writable(path)?;
    check_room(path, file_size, loads)
}

/// The file system that is made for the run: the one that is asked for, or ext4 where a load needs a
/// directory and the disk is one that this run made.
fn own_file_system(wanted: &PlanRequest, needs_directory: bool) -> Option<FileSystemKind> {
    let of_itself = wanted.is_our_own && needs_directory;
    wanted.mkfs.or(of_itself.then_some(FileSystemKind::ALL[0]))
}

/// A device that is to bear a file system of our own.
fn check_file_system(
    wanted: &PlanRequest,
    host: &Host,
    found: &Found,
    loads: &[PlannedLoad],
    kind: FileSystemKind,
) -> Result<(Target, Option<GivenUp>), PlanError> {
    let Found::Device(device) = found else {
        return Err(PlanError::NoDevice {
            target: wanted.target.clone(),
        });
    };
    let given_up = give_up(wanted, host, device, "--mkfs")?;
    // Before it is made another device stands for it.
    let own_disk = wanted.own_disk.as_ref().filter(|_| wanted.is_our_own);
    let free = own_disk.map_or(device.size_bytes, OwnDisk::bytes);
    check_has_room(&device.node(), free, wanted.file_size, loads)?;
    let target = Target::FileSystem {
        device: device.name.clone(),
        file_system: kind,
        file_size: wanted.file_size,
    };
    Ok((target, given_up))
}

/// What the user gives up of a device that is written. A disk that this run made holds nothing of
/// anybody's.
fn give_up(
    wanted: &PlanRequest,
    host: &Host,
    device: &Device,
    what: &str,
) -> Result<Option<GivenUp>, PlanError> {
    if wanted.is_our_own {
        return Ok(None);
    }
    let write = Write {
        what,
        consent: &wanted.destroy_data,
        occasion: Occasion::Start,
    };
    Ok(Some(may_write(host, device, &write)?))
}

/// The loads have files of their own in it.
fn check_directory_is_writable(directory: &Path) -> Result<(), PlanError> {
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).map_err(|error| {
        PlanError::NotWritable {
            target: directory.display().to_string(),
            source: error.into(),
        }
    })
}

/// True if fio's job files give one of its characters a meaning that cannot be escaped, or if it may be longer than a line
/// of theirs once its colons are.
fn is_odd(path: &Path) -> bool {
    let is_odd = |text: &str| {
        text.contains([';', '#', '$', '"'])
            || text.contains(char::is_control)
            || text.len() > LONGEST_LINE / 2
    };
    path.to_str().is_none_or(is_odd)
}

fn check_room(directory: &Path, file_size: u64, loads: &[PlannedLoad]) -> Result<(), PlanError> {
    let room = rustix::fs::statvfs(directory).map_err(|error| PlanError::Io {
        thing: directory.display().to_string(),
        source: error.into(),
    })?;
    let free = room.f_bavail * room.f_frsize;
    check_has_room(directory, free, file_size, loads)
}

fn check_has_room(
    path: &Path,
    free: u64,
    file_size: u64,
    loads: &[PlannedLoad],
) -> Result<(), PlanError> {
    let filler = |load: &PlannedLoad| Some((load.name.clone(), load.open().fills_directory()?));
    if let Some((load, option)) = loads.iter().find_map(filler) {
        return Err(PlanError::FillsDirectory { load, option });
    }
    let needed = bytes_needed(loads, file_size);
    // A file system filled to the brim behaves unlike itself: leave a tenth.
    if needed > free / 10 * 9 {
        const MIB: u64 = 1 << 20;
        return Err(PlanError::NoRoom {
            path: path.into(),
            needed: needed / MIB,
            free: free / MIB,
        });
    }
    Ok(())
}

/// What all loads keep in the directory; a family's files count once, and so do those of one name.
fn bytes_needed(loads: &[PlannedLoad], file_size: u64) -> u64 {
    let mut shared: BTreeMap<String, u64> = BTreeMap::new();
    let mut own: u64 = 0;
    let open = loads.iter().map(PlannedLoad::open);
    for Kept { name, bytes } in open.flat_map(|load| load.kept(file_size)) {
        match name {
            Some(name) => {
                let most = shared.entry(name).or_default();
                *most = bytes.max(*most);
            }
            None => own = own.saturating_add(bytes),
        }
    }
    shared.into_values().fold(own, u64::saturating_add)
}
