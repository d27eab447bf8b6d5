//! What a disk is to stand over that has no model: a real device, or a file. Found, looked at, and never touched
//! here; it is opened by `below`.
//!
//! A file is named by a path without links: what a link of somebody else's leads to could be another file when
//! it is opened.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use iosched_machine::beneath::Directory;
use iosched_machine::command_line::quoted_path;
use iosched_machine::device::mounts::MountTable;
use iosched_machine::device::{
    Consent, Device, DeviceNumber, EMULATED, EMULATED_OVER, FileIdentity, GivenUp, MayNotWrite,
    Occasion, Write, find, find_file_system, find_to_change, may_read_alone, may_read_file_alone,
    may_write, may_write_file, schedulable_disks,
};
use iosched_machine::failure::{Problem, exit};
use iosched_machine::host::Host;
use iosched_sim::units::Bytes;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::error::passed_on;

/// Most commands that are under way below at a time: each takes a thread.
pub const MOST_COMMANDS: usize = 32;

/// What the user wants a disk to stand over.
#[derive(Debug, Clone)]
pub struct Wish<'a> {
    /// A device or a file.
    pub target: &'a str,
    /// The file is to be made, with so many bytes.
    pub size: Option<Bytes>,
    /// Commands under way at a time; if not said, as many as the device takes, [`MOST_COMMANDS`] at most.
    pub depth: Option<usize>,
    /// It is only to be read.
    pub read_only: bool,
    /// What may be given up.
    pub consent: &'a Consent,
}

/// What a disk stands over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Over {
    /// The device's node, or the file, without links.
    pub path: PathBuf,
    /// Which of them, and by what it is known again.
    pub kind: OverKind,
    /// Commands under way at a time.
    pub depth: usize,
    /// It is only read.
    pub read_only: bool,
    /// What the kernel says of the disk below; nothing where there is none.
    pub rotational: Option<bool>,
}

/// A device or a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverKind {
    /// A block device.
    Device {
        /// Its kernel name.
        name: String,
        /// What the user gave up; nothing if it is only read.
        given_up: Option<Box<GivenUp>>,
    },
    /// A file that is there.
    File {
        /// As it was looked at.
        identity: FileIdentity,
    },
    /// A file that is to be made.
    NewFile {
        /// With so many bytes.
        size_bytes: u64,
    },
}

/// The path leads over a link, or over `..`: the user names the file itself.
fn is_link(path: &Path, leads_to: Option<&Path>) -> Problem {
    let message = format!("{} is reached by a link or over `..`", path.display());
    Problem::new(exit::UNSAFE, message).hint(match leads_to {
        Some(path) => format!("name the file itself: {}", path.display()),
        None => "name a file that has a name of its own".to_owned(),
    })
}

fn is_not_there(path: &Path, lacks_directory: bool) -> Problem {
    let message = format!("{} does not exist", path.display());
    let hint = if path.parent() == Some(Path::new("/dev")) {
        "`iosched list` shows the disks of this machine"
    } else if lacks_directory {
        "name a file in a directory that is there"
    } else {
        "with --size a file of zeros is made, for example --size 8G"
    };
    Problem::new(exit::NO_SUCH_DEVICE, message).hint(hint)
}

fn is_no_disk(message: String) -> Problem {
    Problem::new(exit::NO_SUCH_DEVICE, message)
        .hint("name a disk, as `iosched list` shows them, or a file whose bytes are the disk's")
}

/// Something stands where a new file is to be made.
pub(super) fn exists(path: &Path) -> Problem {
    let message = format!(
        "{} is there already, and --size makes a new file",
        path.display()
    );
    Problem::new(exit::UNSAFE, message).hint("leave --size out to serve it, or name another file")
}

pub(super) fn has_changed(path: &Path) -> Problem {
    let message = format!("{} has changed since it was looked at", path.display());
    Problem::new(exit::FAILURE, message).hint("nothing was written; try again")
}

pub(super) fn is_taken(path: &Path) -> Problem {
    let message = format!(
        "{} is opened exclusively by another program, or served already",
        path.display()
    );
    Problem::new(exit::BUSY, message)
        .hint("`iosched emulate list` shows what is served; end the other one first")
}

/// What could not be done with the target: a verb.
pub(super) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Problem {
    let path = path.to_owned();
    move |error| {
        let code = match error.kind() {
            io::ErrorKind::ResourceBusy => return is_taken(&path),
            io::ErrorKind::PermissionDenied => exit::NOT_PERMITTED,
            io::ErrorKind::InvalidFilename => exit::NO_SUCH_DEVICE,
            _ => exit::FAILURE,
        };
        Problem::new(code, format!("cannot {action} {}: {error}", path.display()))
    }
}

/// Why the target may not be written, or not be read alone: it can be read, and no directory takes its place.
pub(super) fn may_not(error: &MayNotWrite) -> Problem {
    let hint = match error {
        MayNotWrite::NotAllowed { device, .. } => format!(
            "allow it with --destroy-data if nothing on {device} is needed; --read-only serves it without a change"
        ),
        MayNotWrite::Refused { device, .. } => match error.way_out() {
            Some(option) => format!(
                "if all of that may be destroyed, name it again: {option}; --read-only serves it without a change"
            ),
            None => format!("take {device} out of use first"),
        },
        _ => return passed_on(error),
    };
    passed_on(error).hint(hint)
}

impl Over {
    /// Finds the target and asks whether it may be served; nothing is written, nothing is made.
    ///
    /// # Errors
    /// It cannot, or may not.
    pub fn choose(host: &Host, wish: &Wish<'_>) -> Result<Over, Problem> {
        match found(host, wish)? {
            Found::Device(device) => over_device(host, &device, wish),
            Found::File(path, file) => over_file(host, path, &file, wish),
            Found::NewFile(path, size) => {
                let disk = disk_of_file(host, path.parent().unwrap_or(Path::new("/")));
                let kind = OverKind::NewFile {
                    size_bytes: size.as_u64(),
                };
                Ok(Over::on(disk.as_ref(), path, kind, wish))
            }
        }
    }

    /// With what is known of the disk at the bottom.
    fn on(disk: Option<&Device>, path: PathBuf, kind: OverKind, wish: &Wish<'_>) -> Over {
        Over {
            path,
            kind,
            depth: wish.depth.unwrap_or_else(|| depth_of(disk)),
            read_only: wish.read_only,
            rotational: disk.and_then(|disk| disk.rotational),
        }
    }

    /// The kernel's schedulers that are active on the disks below, `none` left out: they decide after ours. Each
    /// with its disk.
    pub fn schedulers_below(&self, host: &Host) -> Vec<(String, String)> {
        let devices = match &self.kind {
            OverKind::Device { name, .. } => Device::read(host, name).into_iter().collect(),
            OverKind::File { .. } | OverKind::NewFile { .. } => {
                let dir = self.path.parent().unwrap_or(Path::new("/"));
                find_file_system(host, dir).map_or(Vec::new(), |found| found.devices)
            }
        };
        let disks = devices
            .iter()
            .flat_map(|device| schedulable_disks(host, device).unwrap_or_default());
        let active = disks.filter_map(|disk| {
            let active = disk
                .schedulers
                .active()
                .filter(|&active| active != "none")?;
            Some((disk.name.clone(), active.to_owned()))
        });
        active.collect()
    }

    /// What it is called among emulated disks, before its number.
    pub(super) fn id(&self) -> String {
        match &self.kind {
            OverKind::Device { name, .. } => format!("over-{}", name.replace('/', "!")),
            OverKind::File { .. } | OverKind::NewFile { .. } => "over-file".to_owned(),
        }
    }
}

enum Found {
    Device(Box<Device>),
    File(PathBuf, Metadata),
    NewFile(PathBuf, Bytes),
}

/// A kernel name or a node is a device, whatever links lead to it: its number says which.
fn found(host: &Host, wish: &Wish<'_>) -> Result<Found, Problem> {
    let path = Path::new(wish.target);
    let is_name = !wish.target.contains('/') && host.sysfs().has_device(wish.target);
    let metadata = std::fs::metadata(path);
    let is_device = is_name
        || metadata
            .as_ref()
            .is_ok_and(|meta| meta.file_type().is_block_device());
    if let Some(size) = wish.size {
        let without_slash = path.components().as_path();
        let is_there = is_device || std::fs::symlink_metadata(without_slash).is_ok();
        return if is_there {
            Err(exists(path))
        } else {
            let path = new_path(path)?;
            check_holds_data(host, &path)?;
            Ok(Found::NewFile(path, size))
        };
    }
    if is_device {
        let device = find_to_change(host, wish.target);
        return Ok(Found::Device(Box::new(
            device.map_err(|error| passed_on(&error))?,
        )));
    }
    match metadata {
        Ok(metadata) if metadata.is_file() => {
            let path = without_links(path)?;
            check_not_of_emulated(host, &path, &metadata)?;
            check_holds_data(host, &path)?;
            Ok(Found::File(path, metadata))
        }
        Ok(_) => Err(is_no_disk(format!(
            "{} is neither a block device nor a regular file",
            path.display()
        ))),
        // If there is one, it came this moment.
        Err(_) if !wish.target.contains('/') => {
            Err(find(host, wish.target)
                .map_or_else(|error| passed_on(&error), |_| has_changed(path)))
        }
        Err(error) => Err(match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => {
                is_not_there(path, path.parent().is_some_and(|parent| !parent.is_dir()))
            }
            Some(Errno::NOTDIR) => {
                let file = nearest_there(path);
                let (whole, part) = (path.display(), file.display());
                let is_slash = path.components().as_path() == file;
                let message = format!("{whole} does not exist: {part} is not a directory");
                Problem::new(exit::NO_SUCH_DEVICE, message)
                    .maybe_hint(is_slash.then(|| format!("leave out the / at its end: {part}")))
            }
            Some(Errno::LOOP) => is_link(path, None),
            _ => failed("look at", path)(error),
        }),
    }
}

/// As much of a path as is there.
fn nearest_there(path: &Path) -> &Path {
    let mut above = path.components().as_path().ancestors();
    above
        .find(|above| std::fs::metadata(above).is_ok())
        .unwrap_or(path)
}

/// A file of `/proc` or `/sys` can be opened and written like any other, and is no disk.
fn check_holds_data(host: &Host, path: &Path) -> Result<(), Problem> {
    const OF_THE_KERNEL: [&str; 15] = [
        "proc",
        "sysfs",
        "debugfs",
        "tracefs",
        "securityfs",
        "selinuxfs",
        "cgroup",
        "cgroup2",
        "bpf",
        "configfs",
        "efivarfs",
        "pstore",
        "fusectl",
        "mqueue",
        "devpts",
    ];
    let mounts = MountTable::read(host).unwrap_or_default();
    match mounts.containing(path) {
        Some(mount) if OF_THE_KERNEL.contains(&mount.fs_type.as_str()) => Err(is_no_disk(format!(
            "{} is on {}, where the kernel shows its own state: it holds no data",
            path.display(),
            mount.fs_type
        ))),
        _ => Ok(()),
    }
}

/// The path of a file that is there, if no link is on the way.
fn without_links(path: &Path) -> Result<PathBuf, Problem> {
    let given = std::path::absolute(path).map_err(failed("look at", path))?;
    match std::fs::canonicalize(&given) {
        Ok(real) if real == given => Ok(real),
        other => Err(is_link(path, other.ok().as_deref())),
    }
}

/// The path of a file that is to be made.
fn new_path(path: &Path) -> Result<PathBuf, Problem> {
    let absolute = std::path::absolute(path).map_err(failed("look at", path))?;
    let (Some(dir), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(is_no_disk(format!("{} is no file", path.display())));
    };
    if !dir.is_dir() {
        return Err(is_not_there(dir, true));
    }
    match std::fs::canonicalize(dir) {
        Ok(real) if real == dir => Ok(absolute),
        other => Err(is_link(
            path,
            other.ok().map(|dir| dir.join(name)).as_deref(),
        )),
    }
}

/// A disk over what it serves itself would wait for itself.
fn check_not_of_emulated(host: &Host, path: &Path, file: &Metadata) -> Result<(), Problem> {
    let mounts = MountTable::read(host).map_err(failed("read", &host.proc("self/mountinfo")))?;
    let mount = mounts.with_number(DeviceNumber::of_raw(file.dev()));
    match mount.filter(|mount| [EMULATED, EMULATED_OVER].contains(&mount.fs_type.as_str())) {
        Some(mount) => {
            let source = mount.source.to_string_lossy();
            let id = source.trim_start_matches("iosched:");
            let message = format!("{} is a part of the emulated disk {id}", path.display());
            Err(Problem::new(exit::UNSAFE, message).hint(format!(
                "`iosched emulate set {id} SCHEDULER` puts another scheduler into that disk"
            )))
        }
        None => Ok(()),
    }
}

fn over_device(host: &Host, device: &Device, wish: &Wish<'_>) -> Result<Over, Problem> {
    let disk = whole_disk(host, device);
    if let Some(model) = disk.zoned.as_ref().filter(|model| *model != "none") {
        let message = format!(
            "{} is a zoned disk ({model}), which is not served",
            device.name
        );
        return Err(Problem::new(exit::NOT_SUPPORTED, message));
    }
    let given_up = if wish.read_only {
        may_read_alone(host, device, false).map_err(|error| may_not(&error))?;
        None
    } else {
        let write = Write {
            what: "emulate create --over",
            consent: wish.consent,
            occasion: Occasion::Start,
        };
        let given_up = may_write(host, device, &write).map_err(|error| may_not(&error))?;
        Some(Box::new(given_up))
    };
    let kind = OverKind::Device {
        name: device.name.clone(),
        given_up,
    };
    Ok(Over::on(Some(&disk), device.node(), kind, wish))
}

fn over_file(
    host: &Host,
    path: PathBuf,
    found: &Metadata,
    wish: &Wish<'_>,
) -> Result<Over, Problem> {
    let file = open_file(&path, true)?;
    let metadata = file.metadata().map_err(failed("look at", &path))?;
    if (metadata.dev(), metadata.ino()) != (found.dev(), found.ino()) {
        return Err(has_changed(&path));
    }
    let may = if wish.read_only {
        may_read_file_alone(host, &path, &metadata)
    } else {
        check_only_name(&path, &metadata)?;
        may_write_file(host, &path, &file, wish.consent)
    };
    may.map_err(|error| may_not(&error))?;
    let kind = OverKind::File {
        identity: FileIdentity::of(&metadata),
    };
    let disk = disk_of_file(host, &path);
    Ok(Over::on(disk.as_ref(), path, kind, wish))
}

/// A name that comes later changes the file's identity, which the server asks for.
fn check_only_name(path: &Path, file: &Metadata) -> Result<(), Problem> {
    match file.nlink() {
        0 | 1 => Ok(()),
        links => {
            let message = format!(
                "{} has {links} names (hard links), and what is written would be in all of them",
                path.display()
            );
            Err(Problem::new(exit::UNSAFE, message).hint(format!(
                "`find / -xdev -samefile {}` shows them; serve a copy, or --read-only",
                quoted_path(path)
            )))
        }
    }
}

/// Opens a file by a path on which no link is followed.
pub(super) fn open_file(path: &Path, read_only: bool) -> Result<std::fs::File, Problem> {
    let directory =
        Directory::open(path.parent().unwrap_or(Path::new("/"))).map_err(failed("open", path))?;
    let name = Path::new(path.file_name().unwrap_or_default());
    let opened = if read_only {
        directory.open_file(name)
    } else {
        directory.open_file_to_write(name)
    };
    opened.map_err(failed("open", path))
}

fn whole_disk(host: &Host, device: &Device) -> Device {
    let disk = device.disk.as_ref();
    let disk = disk.and_then(|disk| Device::read(host, disk).ok());
    disk.unwrap_or_else(|| device.clone())
}

/// What the disk takes at a time, as the kernel tells it; the most where there is none.
fn depth_of(disk: Option<&Device>) -> usize {
    let depth = disk.and_then(|disk| disk.queue_depth.or(disk.nr_requests));
    let depth = depth.and_then(|depth| usize::try_from(depth).ok());
    depth.map_or(MOST_COMMANDS, |depth| depth.clamp(1, MOST_COMMANDS))
}

/// The disk that a path is on.
fn disk_of_file(host: &Host, path: &Path) -> Option<Device> {
    let file_system = find_file_system(host, path).ok()?;
    Some(whole_disk(host, file_system.devices.first()?))
}
