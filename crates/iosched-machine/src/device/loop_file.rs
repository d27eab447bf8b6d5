//! Which loop devices stand on a file, by the file itself: its path may mean another one in another mount namespace.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::ioctl::{Getter, Opcode, ioctl};

use super::DeviceNumber;
use crate::host::Host;

const LOOP_GET_STATUS64: Opcode = 0x4C05;

/// So long may a loop device take to say what it stands on. What takes longer stands on a file of a FUSE server that
/// hangs, which is no device, and no file that we have looked at.
const PATIENCE: Duration = Duration::from_secs(2);

/// `struct loop_info64` of the kernel's interface, as far as we read it.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopStatus {
    device: u64,
    inode: u64,
    rdevice: u64,
    rest: [u64; 26],
}

/// What a loop device stands on, by the kernel's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    /// A block device.
    Device(DeviceNumber),
    File {
        /// The number of its file system.
        device: u64,
        inode: u64,
    },
}

/// The loop devices that stand on something, and on what.
///
/// What has the path that sysfs names is taken for it. A loop device is opened and asked itself only where nothing has
/// that path here (it was deleted, or belongs to another mount namespace): while it is open, its owner can detach it
/// only lazily. Not seen is therefore a file of another namespace whose path is another file here.
pub(super) fn loops(host: &Host) -> Vec<(String, Below)> {
    let sysfs = host.sysfs();
    let devices = sysfs.block_devices().unwrap_or_default().into_iter();
    devices
        .filter(|name| name.starts_with("loop"))
        .filter_map(|name| {
            let path = match sysfs.read_or_absent(&name, "loop/backing_file") {
                Ok(path) => Some(PathBuf::from(path?)),
                Err(_) => None,
            };
            let below = below(host.dev(&name), path)?;
            Some((name, below))
        })
        .collect()
}

/// What a loop device stands on; none where it is gone, or nobody could use it.
fn below(node: PathBuf, path: Option<PathBuf>) -> Option<Below> {
    let (answer, answered) = mpsc::channel();
    let asking = std::thread::Builder::new().spawn(move || {
        let at_path = path.and_then(|path| path.metadata().ok());
        let below = at_path.map(|file| of_file(&file)).or_else(|| ask(&node));
        answer.send(below?).ok()
    });
    asking.ok()?;
    answered.recv_timeout(PATIENCE).ok()
}

/// What stands on this file stands on the device, if it is the node of one.
fn of_file(file: &Metadata) -> Below {
    if file.file_type().is_block_device() {
        Below::Device(DeviceNumber::of_raw(file.rdev()))
    } else {
        Below::File {
            device: file.dev(),
            inode: file.ino(),
        }
    }
}

/// Asks the loop device.
fn ask(node: &Path) -> Option<Below> {
    let node = File::open(node).ok()?;
    // SAFETY: LOOP_GET_STATUS64 writes a `struct loop_info64`, which has the size of `LoopStatus`.
    let status = unsafe { ioctl(node, Getter::<LOOP_GET_STATUS64, LoopStatus>::new()) };
    let status: LoopStatus = status.ok()?;
    Some(if status.rdevice == 0 {
        Below::File {
            device: status.device,
            inode: status.inode,
        }
    } else {
        Below::Device(DeviceNumber::of_raw(status.rdevice))
    })
}

/// The kernel names of the loop devices that stand on this file.
pub(super) fn loops_on_file(host: &Host, file: &Metadata) -> Vec<String> {
    let wanted = Below::File {
        device: file.dev(),
        inode: file.ino(),
    };
    let loops = loops(host).into_iter();
    let on_it = loops.filter(|(_, below)| *below == wanted);
    on_it.map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::LoopDevice;
    use super::*;

    #[test]
    fn the_structure_has_the_size_of_the_kernels_interface() {
        assert_eq!(size_of::<LoopStatus>(), 232);
    }

    #[test]
    fn a_loop_device_is_found_by_its_file_and_by_no_other() {
        let Some(disk) = LoopDevice::new(16) else {
            return;
        };
        let host = Host::live();
        let file = std::fs::metadata(disk.file()).unwrap();
        assert_eq!(loops_on_file(&host, &file), [disk.name.as_str()]);
        let other = tempfile::tempfile().unwrap().metadata().unwrap();
        assert_eq!(loops_on_file(&host, &other), [""; 0]);
    }
}
