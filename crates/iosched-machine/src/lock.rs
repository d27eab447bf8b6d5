//! One run per disk: an exclusive `flock` on the whole-disk node while it is measured.
//!
//! The same lock keeps udev from re-reading the disk, and so from running its rules again (which
//! would reset the scheduler in the middle of a trial), each time a writer closes it: udev leaves a
//! locked disk alone (systemd, "Locking Block Device Access").

use std::fmt;
use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::failure::{Failure, exit};
use crate::host::Host;
use crate::lossy;
use crate::process;
use crate::sysfs::is_kernel_name;

/// udev holds the lock itself for a moment while it probes a disk: so long do we wait for it.
const PATIENCE: Duration = Duration::from_secs(3);

/// A locked device: released when dropped, and by the kernel when we die.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why a device could not be locked.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum LockError {
    #[error("{}", in_use(device, holder.as_ref(), "it has locked it"))]
    Held {
        device: String,
        /// Who, where `/proc/locks` tells.
        holder: Option<Holder>,
    },
    #[error("cannot open /dev/{device}")]
    Open {
        device: String,
        #[source]
        source: io::Error,
    },
}

/// A process that holds a lock, or has a device open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its pid.
    pub pid: u32,
    /// Its command.
    pub command: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.command, self.pid)
    }
}

/// Who holds something, as sentences name it: `fio (pid 41)`.
pub fn named(holder: Option<&Holder>) -> String {
    holder.map_or("another program".into(), Holder::to_string)
}

/// That somebody has a disk, and in what way: one sentence, whoever found it out.
pub fn in_use(device: &str, holder: Option<&Holder>, how: &str) -> String {
    format!("{device} is in use by {}: {how}", named(holder))
}

/// The same of a process that is known by its command and number.
pub fn in_use_by(device: &str, command: &str, pid: i32, how: &str) -> String {
    let holder = Holder {
        pid: pid.unsigned_abs(),
        command: command.to_owned(),
    };
    in_use(device, Some(&holder), how)
}

impl Failure for LockError {
    fn hint(&self) -> Option<String> {
        match self {
            LockError::Held { .. } => Some(
                "two experiments on one disk would disturb each other: wait for the other".into(),
            ),
            LockError::Open { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some(if rustix::process::geteuid().is_root() {
                    "root may not open it here: the rules for devices of this container or service forbid it".into()
                } else {
                    "run it as root".into()
                })
            }
            LockError::Open { .. } => None,
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            LockError::Held { .. } => exit::BUSY,
            LockError::Open { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => exit::NOT_PERMITTED,
                io::ErrorKind::NotFound => exit::NO_SUCH_DEVICE,
                _ => exit::FAILURE,
            },
        }
    }
}

/// Locks a whole disk by its kernel name.
///
/// # Errors
/// There is none of that name, its node is none of a block device, or somebody else has it.
pub fn lock(host: &Host, device: &str) -> Result<Lock, LockError> {
    let file = open_node(host, device).map_err(|source| LockError::Open {
        device: device.into(),
        source,
    })?;
    let deadline = Instant::now() + PATIENCE;
    while !try_lock(&file).map_err(|source| LockError::Open {
        device: device.into(),
        source,
    })? {
        if Instant::now() > deadline {
            return Err(LockError::Held {
                device: device.into(),
                holder: holder(host, &file),
            });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(Lock { _file: file })
}

/// Whether its lock could be asked for, without asking: for who only plans.
///
/// # Errors
/// We may not open it.
pub fn check_may_lock(host: &Host, device: &str) -> Result<(), LockError> {
    match open_node(host, device) {
        Err(source) if source.kind() == io::ErrorKind::PermissionDenied => Err(LockError::Open {
            device: device.into(),
            source,
        }),
        _ => Ok(()),
    }
}

/// The node of a disk. What else has its name is not opened, since that may wait, or do something.
fn open_node(host: &Host, device: &str) -> io::Result<File> {
    if !is_kernel_name(device) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no name of a disk",
        ));
    }
    let node = host.dev(device);
    let is_disk = |kind: FileType| kind.is_block_device() || (!host.is_live() && kind.is_file());
    if !is_disk(fs::metadata(&node)?.file_type()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no block device",
        ));
    }
    #[expect(clippy::cast_possible_wrap, reason = "a flag of the kernel's int")]
    let flags = OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new().read(true).custom_flags(flags).open(node)
}

/// Opens a file that is there to be locked, and that only its owner can open: whoever may open a file may lock it.
/// A link in its place is not followed, a FIFO not waited for.
pub fn open_private(path: &Path) -> io::Result<File> {
    #[expect(clippy::cast_possible_wrap, reason = "a flag of the kernel's int")]
    let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits() as i32;
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)
}

/// Locks a file if nobody else has; true if it is ours now.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// True if somebody else has locked a file; it is not kept from being locked for longer than a moment.
pub fn is_locked(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

/// Who holds a `flock` on this file, by `/proc/locks`.
pub fn holder(host: &Host, file: &File) -> Option<Holder> {
    holder_of(host, &file.metadata().ok()?)
}

/// The same for a file that is not open.
pub fn holder_of(host: &Host, metadata: &Metadata) -> Option<Holder> {
    let dev = metadata.dev();
    let ours = format!(
        "{:02x}:{:02x}:{}",
        rustix::fs::major(dev),
        rustix::fs::minor(dev),
        metadata.ino()
    );
    let holds = |pid: &u32| holds(host, *pid, &ours);
    let taker = taker_of(host, &ours)?;
    // It may have ended, and those go on that it started; its number may be another's by now. Linux before 4.1 does not
    // tell who has the lock.
    let heir = || {
        let all = process::numbers(host).unwrap_or_default();
        all.into_iter()
            .filter_map(|pid| u32::try_from(pid).ok())
            .find(holds)
    };
    let pid = Some(taker).filter(holds).or_else(heir).unwrap_or(taker);
    let command = lossy::read(host.proc(&format!("{pid}/comm"))).ok()?;
    Some(Holder {
        pid,
        command: command.trim().to_owned(),
    })
}

/// Who took the `flock` on a file, which `/proc` calls so.
fn taker_of(host: &Host, file: &str) -> Option<u32> {
    let locks = lossy::read(host.proc("locks")).ok()?;
    locks
        .lines()
        .filter(|line| !line.contains("->") && line.contains("FLOCK"))
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>())
        .find(|fields| fields.get(5) == Some(&file))?
        .get(4)?
        .parse()
        .ok()
}

/// True of a process one of whose descriptors has a `flock` on this file.
fn holds(host: &Host, pid: u32, file: &str) -> bool {
    let descriptors = std::fs::read_dir(host.proc(&format!("{pid}/fdinfo")));
    descriptors
        .into_iter()
        .flatten()
        .flatten()
        .any(|descriptor| {
            let about = lossy::read(descriptor.path()).unwrap_or_default();
            about.lines().any(|line| {
                let mut fields = line.split_ascii_whitespace();
                line.starts_with("lock:")
                    && line.contains("FLOCK")
                    && fields.any(|field| field == file)
            })
        })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn what_is_no_disk_is_not_opened() {
        let host = Host::live();
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let fifo = dir.path().join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let below_dev = fifo.strip_prefix("/dev").unwrap().to_str().unwrap();
        let by_detour = format!("shm/../{below_dev}");
        // A FIFO would be waited for, and another process told of it.
        for name in [
            below_dev,
            &by_detour,
            "../dev/null",
            "full",
            "null",
            "",
            ".",
        ] {
            let error = lock(&host, name).unwrap_err();
            let LockError::Open { source, .. } = &error else {
                panic!("{name}: {error}")
            };
            assert_eq!(
                source.kind(),
                io::ErrorKind::InvalidInput,
                "{name}: {source}"
            );
        }
    }

    #[test]
    fn who_inherited_a_lock_is_named_when_its_taker_has_it_no_more() {
        let host = Host::live();
        let file = tempfile::NamedTempFile::new().unwrap();
        let taken = File::open(file.path()).unwrap();
        assert!(try_lock(&taken).unwrap());
        let named = || holder_of(&host, &file.path().metadata().unwrap());
        let us = std::process::id();
        assert_eq!(named().map(|holder| holder.pid), Some(us));
        let mut heir = Command::new("sleep")
            .arg("600")
            .stdin(Stdio::from(taken))
            .spawn()
            .unwrap();
        // By its number alone: a program that has only just begun still bears our name.
        let named_pid = named().map(|holder| holder.pid);
        heir.kill().unwrap();
        heir.wait().unwrap();
        assert_eq!(named_pid, Some(heir.id()), "it has the descriptor alone");
        assert_eq!(named(), None);
    }
}
