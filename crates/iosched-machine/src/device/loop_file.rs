//! Which loop devices stand on a file, by the file itself: its path may mean another one in another mount namespace.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;

use rustix::ioctl::{Getter, Opcode, ioctl};

use crate::host::Host;

const LOOP_GET_STATUS64: Opcode = 0x4C05;

/// `struct loop_info64` of the kernel's interface, as far as we read it.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopStatus {
    device: u64,
    inode: u64,
    rest: [u64; 27],
}

/// The kernel names of the loop devices that stand on this file.
pub(super) fn loops_on_file(host: &Host, file: &Metadata) -> Vec<String> {
    let devices = host.sysfs().block_devices().unwrap_or_default();
    let loops = devices.into_iter().filter(|name| name.starts_with("loop"));
    loops
        .filter(|name| {
            let Ok(node) = File::open(host.dev(name)) else {
                return false; // gone, or nobody could use it
            };
            // SAFETY: LOOP_GET_STATUS64 writes a `struct loop_info64`, which has the size of `LoopStatus`.
            let status = unsafe { ioctl(node, Getter::<LOOP_GET_STATUS64, LoopStatus>::new()) };
            status.is_ok_and(|status| (status.device, status.inode) == (file.dev(), file.ino()))
        })
        .collect()
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
