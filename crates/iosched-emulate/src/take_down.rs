//! Taking an emulated disk apart: by its server when it ends, and by `remove` when that is gone.
//!
//! Every step can be repeated, and finds its things by itself rather than trusting the record: loop
//! devices by the file that they stand on, the mount in the kernel's table.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use iosched_machine::capture;
use iosched_machine::command_line::quoted_path;
use iosched_machine::device::mounts::{HeldMount, MountTable};
use iosched_machine::device::{Device, loop_number};
use iosched_machine::failure::{Problem, exit};
use iosched_machine::host::Host;
use rustix::mount::{UnmountFlags, unmount};

use super::disk_directory::DiskDirectory;
use super::error::{cannot, cannot_with};
use super::loop_device;
use super::usage::{self, User};

/// Takes the disk apart, whoever uses it. What still uses its device afterwards is returned: the
/// device and the directory stay until that has ended, and a later call clears them.
///
/// `flush` is called when nothing more can come: what was written is on the medium then. If it fails, that is kept
/// for whoever calls this next.
pub(super) fn take_down(
    host: &Host,
    place: &DiskDirectory,
    flush: impl FnOnce() -> io::Result<()>,
) -> Result<Vec<User>, Problem> {
    let devices = devices(host, place)?;
    let spec = place.try_spec()?;
    if spec
        .as_ref()
        .is_some_and(|spec| spec.stands_over().is_some())
    {
        write_back(host, &devices);
    }
    let has_traced = spec.as_ref().is_some_and(|spec| spec.scheduler.is_some());
    let file = spec.map(|spec| spec.disk_file);
    for device in &devices {
        // File systems first: while the server lives they can still be written back.
        unmount_all(host, device)?;
        let is_ours = || {
            file.as_deref()
                .map_or(Ok(false), |file| loop_device::stands_on(host, device, file))
        };
        let detached = loop_device::detach(host, device, is_ours, patience(host, device));
        detached.map_err(cannot(format!("detach {device}")))?;
    }
    let mount_point = place.mount_point();
    while is_mount_point(&mount_point) {
        let what = format!("unmount {}", mount_point.display());
        unmount(&mount_point, UnmountFlags::DETACH).map_err(cannot(what))?;
    }
    let mut left = Vec::new();
    for device in &devices {
        let Some(number) = loop_number(device) else {
            continue;
        };
        let removed = loop_device::remove_device(host, number, patience(host, device));
        if !removed.map_err(cannot(format!("remove {device}")))? {
            let users = usage::users(host, device, &[]);
            let unknown = User::Exclusive {
                device: device.clone(),
            };
            left.extend(if users.is_empty() {
                vec![unknown]
            } else {
                users
            });
        }
    }
    if has_traced {
        capture::remove_remains(host); // what a killed server recorded
    }
    if let Err(source) = flush() {
        place.note_not_flushed(&source);
        return Err(cannot("flush what is below")(source));
    }
    let not_flushed = place.not_flushed();
    if left.is_empty() {
        place.delete().map_err(cannot_with("delete", place.dir()))?;
    }
    match not_flushed {
        Some(why) if left.is_empty() => Err(Problem::new(
            exit::FAILURE,
            format!(
                "{} is removed, but what was written to it may not be on the medium: {why}",
                place.id()
            ),
        )),
        _ => Ok(left),
    }
}

/// Refuses a disk whose mounts another disk's file system stands below: it would be detached with them. A server that
/// ends has to take its disk apart all the same.
pub(super) fn check_nothing_below(host: &Host, place: &DiskDirectory) -> Result<(), Problem> {
    let devices = devices(host, place)?;
    let mut devices_and_parts = Vec::new();
    for device in devices {
        let parts = Device::read(host, &device).map(|device| device.partitions);
        devices_and_parts.extend(parts.unwrap_or_default());
        devices_and_parts.push(device);
    }
    let names: Vec<&str> = devices_and_parts.iter().map(String::as_str).collect();
    let table = MountTable::read(host).map_err(cannot("look what is mounted"))?;
    match table.of_others_below(host, &names).first() {
        None => Ok(()),
        Some(mount) => {
            let (id, source) = (place.id(), mount.source.display());
            let at = &mount.mount_point;
            let where_to = at.display();
            let message = format!(
                "cannot remove {id}: {source} is mounted at {where_to}, below a mount of it"
            );
            let hint = format!(
                "it would be taken away with it: umount {} first",
                quoted_path(at)
            );
            Err(Problem::new(exit::BUSY, message).hint(hint))
        }
    }
}

/// Takes away what is mounted from a device, and nothing that stands at its path instead: where somebody moves
/// directories about it is looked for again.
fn unmount_all(host: &Host, device: &str) -> Result<(), Problem> {
    const TRIES: u32 = 200;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 0..TRIES {
        let mounts = usage::mount_points(host, device);
        if mounts.is_empty() {
            return Ok(());
        }
        let mut is_any_gone = false;
        for (of, at) in &mounts {
            let unmounted = HeldMount::of(host, of, at).and_then(|held| {
                let held = held.as_ref();
                held.map_or(Ok(false), |held| held.detach().map(|()| true))
            });
            is_any_gone |= unmounted.map_err(cannot(format!("unmount {}", at.display())))?;
        }
        if !is_any_gone {
            std::thread::sleep(PAUSE);
        }
    }
    let mounts = usage::mount_points(host, device);
    let Some((_, at)) = mounts.first() else {
        return Ok(());
    };
    let hidden = io::Error::other("another mount hides it, or directories on its path are moved");
    Err(cannot(format!("unmount {}", at.display()))(hidden))
}

/// What is dirty above a disk over real data goes to it while its server lives, whoever has it open or mounted.
fn write_back(host: &Host, devices: &[String]) {
    for device in devices {
        for (of, at) in usage::mount_points(host, device) {
            let _ = HeldMount::of(host, &of, &at).map(|held| held.map(|held| held.sync()));
        }
        let _ = File::open(host.dev(device)).and_then(|device| device.sync_all());
    }
}

/// How long the kernel, or a rule of udev that looks at the device, may hold it up. Whoever else has
/// it open is not waited for.
fn patience(host: &Host, device: &str) -> Duration {
    let is_held = usage::users(host, device, &[])
        .iter()
        .any(|user| !user.is_passing(host));
    Duration::from_millis(if is_held { 20 } else { 3000 })
}

/// The loop devices that belong to a disk: those that stand on its file, and the recorded one if it stands on
/// none (detached, not yet removed).
fn devices(host: &Host, place: &DiskDirectory) -> Result<Vec<String>, Problem> {
    let look = || cannot("look for its loop devices");
    let mut devices = match place.try_spec()? {
        Some(spec) => loop_device::standing_on(host, &spec.disk_file).map_err(look())?,
        None => Vec::new(),
    };
    let state = place.try_state()?;
    let recorded = state.map(|state| loop_device::name(state.loop_number));
    if let Some(device) = recorded.filter(|device| host.sysfs().has_device(device)) {
        let file = loop_device::backing_file(host, &device).map_err(look())?;
        if file.is_none() && !devices.contains(&device) {
            devices.push(device);
        }
    }
    Ok(devices)
}

/// True if something is mounted on this directory: it is on another device than the one above it, or
/// it belongs to a FUSE server that is gone.
fn is_mount_point(dir: &Path) -> bool {
    let device_of = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.dev());
    match (device_of(dir), dir.parent().map(device_of)) {
        (Ok(own), Some(Ok(above))) => own != above,
        (Err(error), _) => error.kind() == io::ErrorKind::NotConnected,
        _ => false,
    }
}

/// What is left of a disk whose server is gone, in words.
pub(super) fn remains(host: &Host, place: &DiskDirectory) -> Vec<String> {
    let mut remains: Vec<String> = devices(host, place)
        .unwrap_or_default()
        .into_iter()
        .map(|device| format!("loop device {device}"))
        .collect();
    let mount_point = place.mount_point();
    if is_mount_point(&mount_point) {
        remains.push(format!("mount {}", mount_point.display()));
    }
    remains.push(format!("directory {}", place.dir().display()));
    remains
}
