//! Which loop devices stand on a file, by the file itself: its path may mean another one in another mount namespace.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::ioctl::{Getter, Opcode, ioctl};

use super::mounts::MountTable;
use super::{DeviceNumber, FileNumber, overlay};
use crate::host::Host;
use crate::process::ask_patiently;

const LOOP_GET_STATUS64: Opcode = 0x4C05;

/// `struct loop_info64` of the kernel's interface, as far as we read it.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopStatus {
    device: u64,
    inode: u64,
    rdevice: u64,
    rest: [u64; 26],
}

/// The number of a loop device, by its kernel name; `None` of any other device, and of a partition.
pub fn loop_number(device: &str) -> Option<u32> {
    device.strip_prefix("loop")?.parse().ok()
}

/// What a loop device stands on, by the kernel's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    /// A block device.
    Device(DeviceNumber),
    File(FileNumber),
}

/// A loop device and what it stands on.
#[derive(Debug)]
pub(super) struct Loop {
    /// Kernel name.
    pub(super) name: String,
    pub(super) below: Below,
    /// The file, and those of an overlay's layers that it may be; none of a device.
    pub(super) files: Vec<FileNumber>,
}

impl Loop {
    /// True if what is written to one is seen on the other.
    pub(super) fn shares_file(&self, files: &[FileNumber]) -> bool {
        self.files.iter().any(|file| files.contains(file))
    }
}

/// The loop devices that stand on something, and on what, as they say themselves. One that does not answer stands on a
/// file of a FUSE server that hangs, which is no device, and no file that we have looked at.
pub(super) fn loops(host: &Host) -> Vec<Loop> {
    let sysfs = host.sysfs();
    let devices = sysfs.block_devices().unwrap_or_default().into_iter();
    let mounts = Arc::new(MountTable::read(host).unwrap_or_default());
    devices
        .filter(|name| loop_number(name).is_some())
        .filter_map(|name| {
            let path = match sysfs.read_or_absent(&name, "loop/backing_file") {
                Ok(path) => Some(PathBuf::from(path?)),
                Err(_) => None,
            };
            let below = below_loop(host, &name)?;
            let files = match below {
                Below::Device(_) => Vec::new(),
                Below::File(file) => {
                    let mounts = Arc::clone(&mounts);
                    let at_path = ask_patiently(move || files_at(&mounts, &path?, file));
                    at_path.flatten().unwrap_or_else(|| vec![file])
                }
            };
            Some(Loop { name, below, files })
        })
        .collect()
}

/// This file, which has this path, and those of an overlay's layers that it may be; nothing if another one has the path.
fn files_at(mounts: &MountTable, path: &Path, file: FileNumber) -> Option<Vec<FileNumber>> {
    let files = overlay::numbers_of(mounts, path, &path.metadata().ok()?);
    (files.first() == Some(&file)).then_some(files)
}

/// What this loop device itself says that it stands on; none where it is gone, or nobody could use it.
pub(super) fn below_loop(host: &Host, device: &str) -> Option<Below> {
    let node = host.dev(device);
    ask_patiently(move || ask(&node)).flatten()
}

/// What stands on this file stands on the device, if it is the node of one.
pub(super) fn of_file(file: &Metadata) -> Below {
    if file.file_type().is_block_device() {
        Below::Device(DeviceNumber::of_raw(file.rdev()))
    } else {
        Below::File(FileNumber::of(file))
    }
}

/// Asks the loop device.
fn ask(node: &Path) -> Option<Below> {
    let node = File::open(node).ok()?;
    // SAFETY: LOOP_GET_STATUS64 writes a `struct loop_info64`, which has the size of `LoopStatus`.
    let status = unsafe { ioctl(node, Getter::<LOOP_GET_STATUS64, LoopStatus>::new()) };
    let status: LoopStatus = status.ok()?;
    Some(if status.rdevice == 0 {
        Below::File(FileNumber {
            device: status.device,
            inode: status.inode,
        })
    } else {
        Below::Device(DeviceNumber::of_raw(status.rdevice))
    })
}

/// The kernel names of the loop devices that stand on one of these files.
pub(super) fn loops_on_files(host: &Host, files: &[FileNumber]) -> Vec<String> {
    let loops = loops(host).into_iter();
    let on_one = loops.filter(|of_file| of_file.shares_file(files));
    on_one.map(|of_file| of_file.name).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::LoopDevice;
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
        let on = |file: &Metadata| loops_on_files(&host, &[FileNumber::of(file)]);
        assert_eq!(on(&file), [disk.name.as_str()]);
        let other = tempfile::tempfile().unwrap().metadata().unwrap();
        assert_eq!(on(&other), [""; 0]);
    }
}
