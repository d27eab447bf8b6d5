//! Who holds a file or a disk: `flock`, and who is to be named where something is in use.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::host::Host;
use crate::lossy;
use crate::process;

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
