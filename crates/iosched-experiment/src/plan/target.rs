//! Whether a plan may use its target: what it destroys, what is in the way, whether there is room.

use std::collections::BTreeMap;
use std::path::Path;

use iosched_machine::command_line::{Remedy, quoted, quoted_path};
use iosched_machine::device::{
    Consent, Device, GivenUp, Inventory, Occasion, Target as Found, User, Write, find_file_system,
    may_write,
};
use iosched_machine::failure::{Problem, exit};
use iosched_machine::file_system::FileSystemKind;
use iosched_machine::host::Host;
use iosched_machine::process;
use iosched_sim::workload::fio_job::lines::LONGEST_LINE;
use rustix::io::Errno;

use super::{OwnDisk, PlanError, PlanRequest, PlannedLoad, Target, error, writer};
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
        return Err(odd_path(&file_system.path));
    }
    let writer = writer(loads, wanted.precondition);
    let needs_directory = loads.iter().find(|load| load.open().needs_directory());
    if let Some(kind) = own_file_system(wanted, loads) {
        return check_file_system(wanted, host, found, loads, kind);
    }
    if let Some(load) = needs_directory
        && !matches!(found, Found::FileSystem(file_system) if file_system.path.is_dir())
    {
        let message = format!(
            "load {} needs a directory, and {} is none",
            load.name, wanted.target
        );
        let problem = Problem::new(exit::NO_SUCH_DEVICE, message);
        if let Found::Device(device) = found
            && let Some((hint, remedy)) = directory_instead(wanted, host, device)
        {
            return Err(error::with(problem.hint(hint), remedy));
        }
        let problem = problem.hint(
            "name a directory on the disk that is meant; on a disk that holds nothing, let a file \
             system be made for the run: --mkfs ext4 --destroy-data",
        );
        return Err(problem.into());
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
        Found::FileSystem(_) if wanted.precondition => {
            let target = &wanted.target;
            let message = format!("--precondition fills a whole device, and {target} is none");
            let hint = "name the raw device, and allow it with --destroy-data";
            Err(Problem::usage(message).hint(hint).into())
        }
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
                Err(writes_to_file(&what, &path))
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
        let (path, is) = (path.display(), &now.devices[0].name);
        let message = format!("{path} is on {is} now, and was on {device} when the run began");
        let hint = format!("mount {device} where it was; what {path} is on now is for a new run");
        return Err(Problem::new(exit::BAD_RECORD, message).hint(hint).into());
    }
    let Some(file_size) = file_size else {
        return Ok(());
    };
    check_directory_is_writable(path)?;
    check_room(path, file_size, loads)
}

/// The file system that is made for the run: the one that is asked for, or ext4 where a load wants a
/// directory and the disk is one that this run made. What `--precondition` fills stays raw if it can.
fn own_file_system(wanted: &PlanRequest, loads: &[PlannedLoad]) -> Option<FileSystemKind> {
    let of_itself = wanted.is_our_own
        && loads
            .iter()
            .map(PlannedLoad::open)
            .any(|load| load.needs_directory() || load.wants_directory() && !wanted.precondition);
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
        let target = &wanted.target;
        let message = format!("--mkfs makes a file system on a device, and {target} is none");
        let hint = "leave it out: the load works in a directory";
        return Err(Problem::new(exit::NO_SUCH_DEVICE, message)
            .hint(hint)
            .into());
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
    may_write(host, device, &write)
        .map(Some)
        .map_err(|refused| {
            let mut refused = PlanError::from(refused);
            let asks_for_loads = !wanted.precondition && wanted.destroy_data == Consent::No;
            if asks_for_loads && let Some((_, remedy)) = directory_instead(wanted, host, device) {
                refused.remedy = Some(remedy);
            }
            refused
        })
}

/// A directory on a device that is mounted, as a hint and in the place of the device: loads have files of their own there.
fn directory_instead(
    wanted: &PlanRequest,
    host: &Host,
    device: &Device,
) -> Option<(String, Remedy)> {
    let users = Inventory::read(host).ok()?.users(device);
    let mount_point = users.into_iter().find_map(|user| match user {
        User::Mount {
            mount_point,
            is_read_only: false,
            ..
        } => mount_point.into_os_string().into_string().ok(),
        _ => None,
    })?;
    let hint = format!(
        "name a directory on {}, as {}",
        device.name,
        quoted(&mount_point)
    );
    let remedy = Remedy::Instead {
        of: wanted.target.clone(),
        with: mount_point,
    };
    Some((hint, remedy))
}

/// The loads have files of their own in it.
fn check_directory_is_writable(directory: &Path) -> Result<(), PlanError> {
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).map_err(|error| {
        let cause = std::io::Error::from(error);
        let message = format!("{} cannot be written: {cause}", directory.display());
        let hint =
            "name a target that may be written; a device or file may be measured with reads alone";
        Problem::new(exit::NOT_PERMITTED, message).hint(hint).into()
    })
}

/// A file of somebody's is only read.
pub(super) fn writes_to_file(what: &str, path: &Path) -> PlanError {
    let message = format!("{what} writes, and {} is somebody's file", path.display());
    let hint = "name the directory: the load then makes files of its own";
    Problem::new(exit::UNSAFE, message).hint(hint).into()
}

/// fio would read the path otherwise than it is written.
fn odd_path(path: &Path) -> PlanError {
    let message = format!(
        "fio cannot be given the path {:?}: it has one of ; # $ \" or a control character",
        path.to_string_lossy()
    );
    let hint = if path.is_dir() {
        format!(
            "give the directory a second, plainer name: mount --bind {} /mnt",
            quoted_path(path)
        )
    } else {
        "give it a plainer name".into()
    };
    Problem::usage(message).hint(hint).into()
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
    let asked = directory.to_owned();
    let room = process::ask_patiently(move || rustix::fs::statvfs(&asked));
    let room = room.unwrap_or(Err(Errno::TIMEDOUT)).map_err(|error| {
        let cause = std::io::Error::from(error);
        let message = format!("cannot read the state of {}: {cause}", directory.display());
        Problem::new(exit::FAILURE, message)
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
        let message = format!("load {load} would fill the file system: {option}");
        let hint =
            "give a size such as size=1g, or leave it out: --file-size says how large files are";
        return Err(Problem::usage(message).hint(hint).into());
    }
    if let Some(PlannedLoad { name, .. }) = loads.iter().find(|load| load.open().trims()) {
        let message = format!("load {name} trims, which files do not take");
        return Err(Problem::usage(message)
            .hint("measure a raw disk, or leave its trims out")
            .into());
    }
    let needed = bytes_needed(loads, file_size);
    // A file system filled to the brim behaves unlike itself: leave a tenth.
    if needed > free / 10 * 9 {
        const MIB: u64 = 1 << 20;
        let (path, needed, free) = (path.display(), needed / MIB, free / MIB);
        let message =
            format!("no room in {path}: the loads need {needed} MiB, {free} MiB are free");
        let hint = "make room there; or of a new run make it smaller: --file-size, or the load's own scale= or size=";
        return Err(Problem::new(exit::FAILURE, message).hint(hint).into());
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
