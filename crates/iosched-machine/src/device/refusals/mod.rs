//! Every reason not to write to a device. Empty means: nothing that we can see would be destroyed.
//!
//! What is asked, and of what:
//!
//! | reason | looked for on |
//! |---|---|
//! | mounted, swap | the device, its partitions, all that stands on them (see [`users`](super::users)) |
//! | has holders | the device and its partitions; for a partition also its whole disk |
//! | backs a loop device | the same |
//! | another loop device, a writer | the file or the device that a loop device stands on, the files of an overlay's layers among them |
//! | swap | the same |
//! | signature | the device and its partitions |
//! | open for writing | the device and its partitions; for a partition also its whole disk |
//! | opened exclusively | the device and its partitions |
//! | read-only | the device; for a partition also its whole disk |
//!
//! What cannot be looked at is a reason by itself: nothing is taken for harmless because it is unknown.
//! Mounts in other namespaces and ZFS pools leave no trace in sysfs: the exclusive open finds them.
//! Whether a reason stands in the way of a write is decided in [`may_write`](super::may_write), which also
//! looks for data without a signature.

use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::identity::is_on_fuse;
use super::loop_file::{Below, loops};
use super::node::open_exclusively;
use super::openers::{Openers, openers, openers_of_file};
use super::users::{User, swap_files};
use super::{Blocks, Device, DeviceNumber, FileNumber, Inventory, Signature, content};
use crate::host::Host;
use crate::lock;
use crate::regular_file;

/// How those have a device whom only our own exclusive open finds.
pub const OPENED_EXCLUSIVELY: &str = "opened exclusively";

/// A reason not to write to a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// A mount or swap depends on it.
    Used(User),
    /// Another device stands on it: md, LVM, crypt, multipath, bcache.
    Held {
        /// It, one of its partitions, or its whole disk.
        device: String,
        /// The device above, with its name for people: `dm-0 (vg0-root)`.
        by: String,
        /// What the device above is: `LVM`, `md raid1`.
        kind: String,
    },
    /// It is, or has the file of, a loop device.
    BacksLoop {
        /// It or one of its partitions.
        device: String,
        /// The loop device.
        by: String,
    },
    /// Something is written on it.
    Signature {
        /// It or one of its partitions.
        device: String,
        /// The signature that was found there.
        signature: Signature,
    },
    /// It has no signature, and is not empty.
    Data {
        /// The device.
        device: String,
        /// What was found.
        blocks: Blocks,
    },
    /// A process has it open and can write to it.
    Open {
        /// It, one of its partitions, or its whole disk.
        device: String,
        /// The process' command.
        command: String,
        /// The process.
        pid: i32,
    },
    /// Somebody has opened it exclusively: a mount elsewhere, ZFS, a volume manager.
    Busy {
        /// It or one of its partitions.
        device: String,
    },
    /// The kernel refuses writes to it.
    ReadOnly {
        /// It or its whole disk.
        device: String,
    },
    /// Something could not be looked at, so nothing is known of what it would say.
    NotLookedAt {
        /// The node, or a table of the kernel's.
        path: PathBuf,
        /// The cause, as a clause of the message.
        error: String,
    },
}

impl Refusal {
    /// True for what is written on it: those who name the device a second time may overrule that. In
    /// use is in use.
    pub(crate) fn can_be_overruled(&self) -> bool {
        matches!(self, Refusal::Signature { .. } | Refusal::Data { .. })
    }

    /// What is written on the device, if that is the reason.
    pub(crate) fn signature(&self) -> Option<&Signature> {
        match self {
            Refusal::Signature { signature, .. } => Some(signature),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Used(user) => user.fmt(f),
            Refusal::Held { device, by, kind } => write!(f, "{device} is part of {by}, {kind}"),
            Refusal::BacksLoop { device, by } => write!(f, "{by} stands on {device}"),
            Refusal::Signature { device, signature } => write!(f, "{device} carries {signature}"),
            Refusal::Data { device, blocks } => {
                write!(f, "{device} carries no signature, but it is not empty")?;
                if let Blocks::Data { offset_bytes, .. } = blocks {
                    write!(f, ": there are data at byte {offset_bytes}")?;
                }
                Ok(())
            }
            Refusal::Open {
                device,
                command,
                pid,
            } => f.write_str(&lock::in_use_by(device, command, *pid, "open for writing")),
            Refusal::Busy { device } => {
                f.write_str(&lock::in_use(device, None, OPENED_EXCLUSIVELY))
            }
            Refusal::ReadOnly { device } => write!(f, "{device} is read-only"),
            Refusal::NotLookedAt { path, error } => {
                write!(f, "{} cannot be looked at: {error}", path.display())
            }
        }
    }
}

/// Every reason not to write to a device; its own first, then those of its partitions. Where we have it
/// open exclusively ourselves, nobody else has: that is not asked then.
pub(crate) fn refusals(host: &Host, device: &Device, is_claimed: bool) -> Vec<Refusal> {
    let inventory = match Inventory::read(host) {
        Ok(inventory) => inventory,
        Err(error) => {
            return vec![Refusal::NotLookedAt {
                path: host.sysfs().root().to_owned(),
                error: error.to_string(),
            }];
        }
    };
    let usage = &inventory.usage;
    let uses = inventory.users(device).into_iter();
    let mut refusals: Vec<Refusal> = uses.map(Refusal::Used).collect();

    // Without these tables we would see no mount and no swap, and think that there is none. A
    // kernel without swap has no table of it.
    for (table, may_lack) in [("self/mountinfo", false), ("swaps", true)] {
        if let Err(error) = regular_file::read(host.proc(table))
            && !(may_lack && error.kind() == io::ErrorKind::NotFound)
        {
            refusals.push(Refusal::NotLookedAt {
                path: host.proc(table),
                error: error.to_string(),
            });
        }
    }

    // Writing to a partition hurts who uses the whole disk, too, but not its other partitions.
    let disk = device
        .disk
        .as_ref()
        .and_then(|disk| inventory.get(disk))
        .cloned();
    let partitions = device
        .partitions
        .iter()
        .filter_map(|name| inventory.get(name));
    let partitions: Vec<Device> = partitions.cloned().collect();
    if let Some(disk) = &disk {
        refusals.extend(usage.direct(&disk.name).iter().cloned().map(Refusal::Used));
    }
    for touched in std::iter::once(device).chain(&disk).chain(&partitions) {
        refusals.extend(held(host, touched));
        refusals.extend(
            usage
                .loops(&touched.name)
                .iter()
                .map(|by| Refusal::BacksLoop {
                    device: touched.name.clone(),
                    by: by.clone(),
                }),
        );
    }
    for read_only in std::iter::once(device).chain(&disk) {
        if read_only.read_only {
            refusals.push(Refusal::ReadOnly {
                device: read_only.name.clone(),
            });
        }
    }
    let touched: Vec<Device> = std::iter::once(device)
        .chain(&disk)
        .chain(&partitions)
        .cloned()
        .collect();
    refusals.extend(writers(|own| openers(host, &touched, own)));
    for written in std::iter::once(device).chain(&partitions) {
        refusals.extend(written_or_busy(host, written, is_claimed));
    }
    // The longest look, and of no use where the answer is known.
    if refusals.iter().all(Refusal::can_be_overruled) {
        refusals.extend(beside_and_below_loops(host, &touched));
    }
    refusals
}

/// How long a writer may take to end: a load of a killed run has the disk open until its last I/O is done.
const PATIENCE: Duration = Duration::from_secs(3);

/// Processes other than ours that could write beside us, as these looks find them. Whoever only reads loses nothing.
pub(super) fn writers(look: impl Fn(&[i32]) -> Openers) -> Vec<Refusal> {
    let own = [i32::try_from(std::process::id()).unwrap_or(0)];
    let deadline = Instant::now() + PATIENCE;
    let mut openers = look(&own);
    while openers.found.iter().any(|opener| opener.writes) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
        openers = look(&own);
    }
    let hidden = openers
        .not_looked_at
        .map(|(path, error)| Refusal::NotLookedAt {
            path,
            error: error.to_string(),
        });
    let writers = openers.found.into_iter().filter(|opener| opener.writes);
    writers
        .map(|opener| Refusal::Open {
            device: opener.device,
            command: opener.command,
            pid: opener.pid,
        })
        .chain(hidden)
        .collect()
}

/// What sysfs, which has the paths of loop devices' files only, does not tell: loop devices that stand on one of these
/// devices through another node, or on the same file as one; and who uses the file or the device that one of these is
/// a loop device on. What is written to it is written there.
fn beside_and_below_loops(host: &Host, touched: &[Device]) -> Vec<Refusal> {
    if !host.is_live() {
        return Vec::new();
    }
    let loops = loops(host);
    let mut refusals = Vec::new();
    for device in touched {
        let own = loops.iter().find(|other| other.name == device.name);
        for other in loops.iter().filter(|other| other.name != device.name) {
            if other.below == Below::Device(device.number) {
                refusals.push(Refusal::BacksLoop {
                    device: device.name.clone(),
                    by: other.name.clone(),
                });
            }
            if own.is_some_and(|own| own.below == other.below || own.shares_file(&other.files)) {
                refusals.push(Refusal::BacksLoop {
                    device: below_named(device),
                    by: other.name.clone(),
                });
            }
        }
        match own.map(|own| own.below) {
            Some(Below::Device(number)) => refusals.extend(in_use_below(host, device, number)),
            Some(Below::File(_)) if !is_served_by_fuse(host, device) => {
                let files = own.map_or(&[][..], |own| &own.files);
                let path = PathBuf::from(below_named(device));
                refusals.extend(swapped_to(host, &path, files));
                refusals.extend(writers(|own| openers_of_file(host, &path, files, own)));
            }
            Some(Below::File(_)) | None => {}
        }
    }
    refusals
}

/// The swap file that is one of these files, called by its path.
pub(super) fn swapped_to(host: &Host, path: &Path, files: &[FileNumber]) -> Option<Refusal> {
    let is_it = |file: Metadata| files.contains(&FileNumber::of(&file));
    let mut swaps = swap_files(host).into_iter();
    let is_swap = swaps.any(|swap| std::fs::metadata(swap).is_ok_and(is_it));
    is_swap.then(|| {
        Refusal::Used(User::Swap {
            device: path.display().to_string(),
            file: None,
        })
    })
}

/// What a loop device stands on, for people.
fn below_named(device: &Device) -> String {
    let file = device.backing_file.as_ref();
    file.map_or_else(
        || format!("what is below {}", device.name),
        |file| file.display().to_string(),
    )
}

/// True for a disk of ours, whose server has its file open.
fn is_served_by_fuse(host: &Host, device: &Device) -> bool {
    let file = device.backing_file.as_ref();
    file.is_some_and(|file| is_on_fuse(host, file))
}

/// Who uses the block device that a loop device stands on. What is written on it is seen on the loop device.
fn in_use_below(host: &Host, device: &Device, number: DeviceNumber) -> Vec<Refusal> {
    let name = host.sysfs().device_with_number(number.major, number.minor);
    let below = name.and_then(|name| Device::read(host, &name).ok());
    let Some(below) = below else {
        return vec![Refusal::NotLookedAt {
            path: PathBuf::from(below_named(device)),
            error: "the device is not there".into(),
        }];
    };
    let is_of_ours = |refusal: &Refusal| match refusal {
        Refusal::BacksLoop { by, .. } => *by == device.name,
        Refusal::Used(user) => user.device() == device.name,
        _ => false,
    };
    let mut refusals = refusals(host, &below, false);
    refusals.retain(|refusal| !refusal.can_be_overruled() && !is_of_ours(refusal));
    refusals
}

fn held(host: &Host, device: &Device) -> Vec<Refusal> {
    device
        .holders
        .iter()
        .map(|holder| {
            let above = Device::read(host, holder).ok();
            let alias = above.as_ref().and_then(|above| above.alias.clone());
            Refusal::Held {
                device: device.name.clone(),
                by: match alias {
                    Some(alias) => format!("{holder} ({alias})"),
                    None => holder.clone(),
                },
                kind: above.map_or_else(|| "unknown".to_owned(), |above| above.kind.to_string()),
            }
        })
        .collect()
}

/// What can only be found by opening the node. In a copied tree there are no nodes, and nobody
/// writes to one.
fn written_or_busy(host: &Host, device: &Device, is_claimed: bool) -> Vec<Refusal> {
    if !host.is_live() {
        return Vec::new();
    }
    let node = device.node();
    let not_looked_at = |error: &io::Error| Refusal::NotLookedAt {
        path: node.clone(),
        error: error.to_string(),
    };
    let is_it = std::fs::metadata(&node)
        .is_ok_and(|meta| DeviceNumber::of_raw(meta.rdev()) == device.number);
    if !is_it {
        return vec![not_looked_at(&io::Error::other(
            "it is missing, or the node of another device",
        ))];
    }
    let mut found = Vec::new();
    match open_exclusively(&node) {
        Err(error) if is_claimed && error.kind() == io::ErrorKind::ResourceBusy => {}
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => found.push(Refusal::Busy {
            device: device.name.clone(),
        }),
        Err(error) => return vec![not_looked_at(&error)],
    }
    match content(&node) {
        Ok(signatures) => {
            found.extend(signatures.into_iter().map(|signature| Refusal::Signature {
                device: device.name.clone(),
                signature,
            }));
        }
        Err(error) => found.push(not_looked_at(&error)),
    }
    found
}

#[cfg(test)]
mod tests;
