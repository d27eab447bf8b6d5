//! One run per disk: an exclusive `flock` on the whole-disk node while it is measured.
//!
//! The same lock keeps udev from re-reading the disk, and so from running its rules again (which
//! would reset the scheduler in the middle of a trial), each time a writer closes it: udev leaves a
//! locked disk alone (systemd, "Locking Block Device Access").
//!
//! The node has to be the kernel's (devtmpfs): a container with a `/dev` of its own has nodes of its own, whose locks the
//! host does not see. There nothing is locked, and so nothing is switched, unless the user says `--in-container`.

use std::fs::{self, File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iosched_machine::device::DeviceNumber;
use iosched_machine::device::mounts::MountTable;
use iosched_machine::failure::{Problem, exit};
use iosched_machine::host::Host;
use iosched_machine::lock::{holder, in_use, try_lock};
use iosched_machine::lossy;
use iosched_machine::sysfs::is_kernel_name;
use rustix::fs::OFlags;

/// udev holds the lock itself for a moment while it probes a disk: so long do we wait for it.
const PATIENCE: Duration = Duration::from_secs(3);

/// A locked device: released when dropped, and by the kernel when we die.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

fn not_opened(device: &str, error: &io::Error) -> Problem {
    let message = format!("cannot open /dev/{device}: {error}");
    match error.kind() {
        io::ErrorKind::PermissionDenied => Problem::new(exit::NOT_PERMITTED, message).hint(
            if rustix::process::geteuid().is_root() {
                "root may not open it here: the rules for devices of this container or service forbid it"
            } else {
                "run it as root"
            },
        ),
        io::ErrorKind::NotFound => Problem::new(exit::NO_SUCH_DEVICE, message),
        _ => Problem::new(exit::FAILURE, message),
    }
}

/// For programs that use the library: as `--in-container` if it is set.
const IN_CONTAINER: &str = "IOSCHED_IN_CONTAINER";

static IS_ALLOWED_IN_CONTAINER: AtomicBool = AtomicBool::new(false);

/// From now on disks are also locked where the host does not see it (`--in-container`).
pub fn allow_in_container() {
    IS_ALLOWED_IN_CONTAINER.store(true, Ordering::Relaxed);
}

/// Refuses a node that is not the kernel's, unless that is allowed. A kernel without devtmpfs has no others.
fn check_is_of_host(host: &Host, device: &str, node: &File) -> io::Result<Result<(), Problem>> {
    let is_allowed =
        IS_ALLOWED_IN_CONTAINER.load(Ordering::Relaxed) || std::env::var_os(IN_CONTAINER).is_some();
    if is_allowed || !host.is_live() {
        return Ok(Ok(()));
    }
    let known = lossy::read(host.proc("filesystems"))?;
    let number = DeviceNumber::of_raw(node.metadata()?.dev());
    let table = MountTable::read(host)?;
    let of_node = table.with_number(number);
    let is_of_host = of_node.is_some_and(|mount| mount.fs_type == "devtmpfs");
    if is_of_host || !known.contains("devtmpfs") {
        return Ok(Ok(()));
    }
    let message = format!(
        "{device}: nothing was changed: /dev is this container's own, so that the host's iosched sees neither lock nor journal"
    );
    Ok(Err(Problem::usage(message).hint(format!(
        "run it on the host; or, if nothing there uses iosched on {device}, add --in-container (after a \
             crash, run `iosched restore` in this container)"
    ))))
}

/// Locks a whole disk by its kernel name.
///
/// # Errors
/// There is none of that name, its node is none of a block device or this container's own, or somebody else has it.
pub fn lock(host: &Host, device: &str) -> Result<Lock, Problem> {
    let failed = |error| not_opened(device, &error);
    let file = open_node(host, device).map_err(failed)?;
    check_is_of_host(host, device, &file).map_err(failed)??;
    in_time(host, device, file)
}

/// Waits a moment until nobody has the lock of a disk: a write to its queue that a killed run began may be under way, and its
/// child holds the lock until it is done.
pub(crate) fn wait_until_free(host: &Host, device: &str) {
    let Ok(file) = open_node(host, device) else {
        return; // it is gone, or we may not
    };
    let deadline = Instant::now() + PATIENCE;
    while matches!(try_lock(&file), Ok(false)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Locks a disk that the run has made for itself, and takes away with it: wherever that is.
///
/// # Errors
/// There is none of that name, its node is none of a block device, or somebody else has it.
pub fn lock_own(host: &Host, device: &str) -> Result<Lock, Problem> {
    let file = open_node(host, device).map_err(|error| not_opened(device, &error))?;
    in_time(host, device, file)
}

fn in_time(host: &Host, device: &str, file: File) -> Result<Lock, Problem> {
    let failed = |error| not_opened(device, &error);
    let deadline = Instant::now() + PATIENCE;
    while !try_lock(&file).map_err(failed)? {
        if Instant::now() > deadline {
            let holder = holder(host, &file);
            let message = in_use(device, holder.as_ref(), "it has locked it");
            return Err(Problem::new(exit::BUSY, message)
                .hint("two experiments on one disk would disturb each other: wait for the other"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(Lock { _file: file })
}

/// Whether its lock could be asked for, without asking: for who only plans.
///
/// # Errors
/// We may not open it, or it is this container's own.
pub fn check_may_lock(host: &Host, device: &str) -> Result<(), Problem> {
    match open_node(host, device) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(not_opened(device, &error))
        }
        Err(_) => Ok(()),
        Ok(node) => check_is_of_host(host, device, &node).unwrap_or(Ok(())),
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

#[cfg(test)]
mod tests {
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
            let is_none = error.message.contains("it is no ");
            assert!(is_none, "{name}: {error}");
        }
    }
}
