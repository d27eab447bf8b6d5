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
use iosched_machine::command_line::{Remedy, quoted_path};
use iosched_machine::device::mounts::MountTable;
use iosched_machine::device::{
    Consent, Device, DeviceError, DeviceNumber, EMULATED, EMULATED_OVER, FileIdentity, GivenUp,
    MayNotWrite, Occasion, Write, find, find_file_system, find_to_change, may_read_alone,
    may_read_file_alone, may_write, may_write_file, schedulable_disks,
};
use iosched_machine::failure::{Failure, exit};
use iosched_machine::host::Host;
use iosched_sim::units::Bytes;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

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

/// Why a disk cannot stand over this.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum OverError {
    /// The path leads over a link, or over `..`.
    #[error("{} is reached by a link or over `..`", path.display())]
    Link {
        /// The path as the user wrote it.
        path: PathBuf,
        /// Where it leads to, if that has a name.
        leads_to: Option<PathBuf>,
    },
    #[error("{} does not exist", path.display())]
    NotThere {
        /// The path as the user wrote it.
        path: PathBuf,
        lacks_directory: bool,
    },
    /// It is to be written, and has other names: it may be somebody else's, under this name in a directory of others.
    #[error("{} has {links} names (hard links), and what is written would be in all of them", path.display())]
    HardLinks {
        /// The path as the user wrote it.
        path: PathBuf,
        links: u64,
    },
    #[error("{} does not exist: {} is not a directory", path.display(), file.display())]
    NotADirectory {
        /// The path as the user wrote it.
        path: PathBuf,
        /// The part of it that is there.
        file: PathBuf,
    },
    #[error("{} is there already, and --size makes a new file", path.display())]
    Exists {
        /// The path as the user wrote it.
        path: PathBuf,
    },
    /// It is neither a block device nor a regular file.
    #[error("{} is neither a block device nor a regular file", path.display())]
    NoDisk {
        /// The path as the user wrote it.
        path: PathBuf,
    },
    #[error("{} is on {fs_type}, where the kernel shows its own state: it holds no data", path.display())]
    OfKernel {
        /// The path as the user wrote it.
        path: PathBuf,
        fs_type: String,
    },
    #[error("{} is a part of the emulated disk {id}", path.display())]
    OfEmulated {
        /// The path as the user wrote it.
        path: PathBuf,
        id: String,
    },
    #[error("{device} is a zoned disk ({model}), which is not served")]
    Zoned {
        device: String,
        /// As the kernel says it.
        model: String,
    },
    #[error("{} has changed since it was looked at", path.display())]
    Changed { path: PathBuf },
    /// Another program has it.
    #[error("{} is opened exclusively by another program, or served already", path.display())]
    Taken { path: PathBuf },
    #[error("{} has no room for a block of {block} bytes", path.display())]
    TooSmall { path: PathBuf, block: u64 },
    #[error("{} has logical blocks of {block} bytes, and a loop device has 4096 at most", path.display())]
    BlockTooLarge { path: PathBuf, block: u64 },
    #[error("{} cannot be opened for direct I/O", path.display())]
    NotDirect { path: PathBuf, source: io::Error },
    #[error("cannot {action} {}", path.display())]
    Io {
        /// A verb.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl Failure for OverError {
    fn hint(&self) -> Option<String> {
        match self {
            OverError::Link { leads_to, .. } => Some(match leads_to {
                Some(path) => format!("name the file itself: {}", path.display()),
                None => "name a file that has a name of its own".to_owned(),
            }),
            OverError::HardLinks { path, .. } => {
                let path = quoted_path(path);
                Some(format!(
                    "`find / -xdev -samefile {path}` shows them; serve a copy, or --read-only"
                ))
            }
            OverError::NotThere { path, .. } if path.parent() == Some(Path::new("/dev")) => {
                Some("`iosched list` shows the disks of this machine".to_owned())
            }
            OverError::NotThere {
                lacks_directory: true,
                ..
            } => Some("name a file in a directory that is there".to_owned()),
            OverError::NotThere {
                lacks_directory: false,
                ..
            } => Some("with --size a file of zeros is made, for example --size 8G".to_owned()),
            OverError::NotADirectory { path, file } => (path.components().as_path() == file)
                .then(|| format!("leave out the / at its end: {}", file.display())),
            OverError::Exists { .. } => {
                Some("leave --size out to serve it, or name another file".to_owned())
            }
            OverError::NoDisk { .. } | OverError::OfKernel { .. } => Some(
                "name a disk, as `iosched list` shows them, or a file whose bytes are the disk's"
                    .to_owned(),
            ),
            OverError::OfEmulated { .. } => {
                Some("`iosched emulate set` puts another scheduler into that disk".to_owned())
            }
            OverError::Changed { .. } => Some("nothing was written; try again".to_owned()),
            OverError::Taken { .. } => Some(
                "`iosched emulate list` shows what is served; end the other one first".to_owned(),
            ),
            OverError::NotDirect { .. } => {
                Some("put it on another file system, ext4 or xfs for example".to_owned())
            }
            OverError::Zoned { .. }
            | OverError::TooSmall { .. }
            | OverError::BlockTooLarge { .. }
            | OverError::Io { .. } => None,
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            OverError::Link {
                path,
                leads_to: Some(meant),
            } => Some(instead(path, meant)),
            OverError::NotADirectory { path, file } if path.components().as_path() == file => {
                Some(instead(path, file))
            }
            _ => None,
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            OverError::NotThere { .. }
            | OverError::NotADirectory { .. }
            | OverError::NoDisk { .. }
            | OverError::OfKernel { .. }
            | OverError::TooSmall { .. } => exit::NO_SUCH_DEVICE,
            OverError::Link { .. }
            | OverError::HardLinks { .. }
            | OverError::Exists { .. }
            | OverError::OfEmulated { .. } => exit::UNSAFE,
            OverError::Taken { .. } => exit::BUSY,
            OverError::Zoned { .. }
            | OverError::BlockTooLarge { .. }
            | OverError::NotDirect { .. } => exit::NOT_SUPPORTED,
            OverError::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => exit::NOT_PERMITTED,
                io::ErrorKind::InvalidFilename => exit::NO_SUCH_DEVICE,
                _ => exit::FAILURE,
            },
            OverError::Changed { .. } => exit::FAILURE,
        }
    }
}

fn instead(given: &Path, meant: &Path) -> Remedy {
    Remedy::Instead {
        given: given.display().to_string(),
        meant: meant.display().to_string(),
    }
}

/// Why nothing stands over what the user wants.
#[derive(Debug, thiserror::Error)]
pub enum NotOver {
    /// It is no place for a disk.
    #[error(transparent)]
    Over(#[from] OverError),
    /// There is no such device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// It may not be written, or not be read alone.
    #[error(transparent)]
    MayNot(#[from] MayNotWrite),
}

impl Over {
    /// Finds the target and asks whether it may be served; nothing is written, nothing is made.
    ///
    /// # Errors
    /// It cannot, or may not.
    pub fn choose(host: &Host, wish: &Wish<'_>) -> Result<Over, NotOver> {
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
fn found(host: &Host, wish: &Wish<'_>) -> Result<Found, NotOver> {
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
            Err(OverError::Exists { path: path.into() }.into())
        } else {
            let path = new_path(path)?;
            check_holds_data(host, &path)?;
            Ok(Found::NewFile(path, size))
        };
    }
    if is_device {
        return Ok(Found::Device(Box::new(find_to_change(host, wish.target)?)));
    }
    match metadata {
        Ok(metadata) if metadata.is_file() => {
            let path = without_links(path)?;
            check_not_of_emulated(host, &path, &metadata)?;
            check_holds_data(host, &path)?;
            Ok(Found::File(path, metadata))
        }
        Ok(_) => Err(OverError::NoDisk { path: path.into() }.into()),
        Err(_) if !wish.target.contains('/') => Err(find(host, wish.target).map_or_else(
            NotOver::from,
            |_| OverError::Changed { path: path.into() }.into(), // it came this moment
        )),
        Err(error) => Err(match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => OverError::NotThere {
                path: path.into(),
                lacks_directory: path.parent().is_some_and(|parent| !parent.is_dir()),
            },
            Some(Errno::NOTDIR) => OverError::NotADirectory {
                path: path.into(),
                file: nearest_there(path).into(),
            },
            Some(Errno::LOOP) => OverError::Link {
                path: path.into(),
                leads_to: None,
            },
            _ => OverError::Io {
                action: "look at",
                path: path.into(),
                source: error,
            },
        }
        .into()),
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
fn check_holds_data(host: &Host, path: &Path) -> Result<(), OverError> {
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
        Some(mount) if OF_THE_KERNEL.contains(&mount.fs_type.as_str()) => {
            Err(OverError::OfKernel {
                path: path.to_owned(),
                fs_type: mount.fs_type.clone(),
            })
        }
        _ => Ok(()),
    }
}

/// The path of a file that is there, if no link is on the way.
fn without_links(path: &Path) -> Result<PathBuf, OverError> {
    let unreadable = |source| OverError::Io {
        action: "look at",
        path: path.to_owned(),
        source,
    };
    let given = std::path::absolute(path).map_err(unreadable)?;
    match std::fs::canonicalize(&given) {
        Ok(real) if real == given => Ok(real),
        other => Err(OverError::Link {
            path: path.to_owned(),
            leads_to: other.ok(),
        }),
    }
}

/// The path of a file that is to be made.
fn new_path(path: &Path) -> Result<PathBuf, OverError> {
    let absolute = std::path::absolute(path).map_err(|source| OverError::Io {
        action: "look at",
        path: path.to_owned(),
        source,
    })?;
    let (Some(dir), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(OverError::NoDisk {
            path: path.to_owned(),
        });
    };
    if !dir.is_dir() {
        return Err(OverError::NotThere {
            path: dir.to_owned(),
            lacks_directory: true,
        });
    }
    match without_links(dir) {
        Ok(dir) => Ok(dir.join(name)),
        Err(OverError::Link { leads_to, .. }) => Err(OverError::Link {
            path: path.to_owned(),
            leads_to: leads_to.map(|dir| dir.join(name)),
        }),
        Err(other) => Err(other),
    }
}

/// A disk over what it serves itself would wait for itself.
fn check_not_of_emulated(host: &Host, path: &Path, file: &Metadata) -> Result<(), OverError> {
    let mounts = MountTable::read(host).map_err(|source| OverError::Io {
        action: "read",
        path: host.proc("self/mountinfo"),
        source,
    })?;
    let mount = mounts.with_number(DeviceNumber::of_raw(file.dev()));
    match mount.filter(|mount| [EMULATED, EMULATED_OVER].contains(&mount.fs_type.as_str())) {
        Some(mount) => Err(OverError::OfEmulated {
            path: path.to_owned(),
            id: mount
                .source
                .to_string_lossy()
                .trim_start_matches("iosched:")
                .to_owned(),
        }),
        None => Ok(()),
    }
}

fn over_device(host: &Host, device: &Device, wish: &Wish<'_>) -> Result<Over, NotOver> {
    let disk = whole_disk(host, device);
    if let Some(model) = disk.zoned.as_ref().filter(|model| *model != "none") {
        return Err(OverError::Zoned {
            device: device.name.clone(),
            model: model.clone(),
        }
        .into());
    }
    let given_up = if wish.read_only {
        may_read_alone(host, device, false)?;
        None
    } else {
        let write = Write {
            what: "emulate create --over",
            consent: wish.consent,
            occasion: Occasion::Start,
        };
        Some(Box::new(may_write(host, device, &write)?))
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
) -> Result<Over, NotOver> {
    let file = open_file(&path, true)?;
    let metadata = file.metadata().map_err(|source| OverError::Io {
        action: "look at",
        path: path.clone(),
        source,
    })?;
    if (metadata.dev(), metadata.ino()) != (found.dev(), found.ino()) {
        return Err(OverError::Changed { path }.into());
    }
    if wish.read_only {
        may_read_file_alone(host, &path, &metadata)?;
    } else {
        check_only_name(&path, &metadata)?;
        may_write_file(host, &path, &file, wish.consent)?;
    }
    let kind = OverKind::File {
        identity: FileIdentity::of(&metadata),
    };
    let disk = disk_of_file(host, &path);
    Ok(Over::on(disk.as_ref(), path, kind, wish))
}

/// A name that comes later changes the file's identity, which the server asks for.
fn check_only_name(path: &Path, file: &Metadata) -> Result<(), OverError> {
    match file.nlink() {
        0 | 1 => Ok(()),
        links => Err(OverError::HardLinks {
            path: path.to_owned(),
            links,
        }),
    }
}

/// Opens a file by a path on which no link is followed.
pub(super) fn open_file(path: &Path, read_only: bool) -> Result<std::fs::File, OverError> {
    let failed = |source| OverError::Io {
        action: "open",
        path: path.to_owned(),
        source,
    };
    let directory = Directory::open(path.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
    let name = Path::new(path.file_name().unwrap_or_default());
    let opened = if read_only {
        directory.open_file(name)
    } else {
        directory.open_file_to_write(name)
    };
    opened.map_err(failed)
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
