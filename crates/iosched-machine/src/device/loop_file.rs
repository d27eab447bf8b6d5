//! Which loop devices stand on a file, by the file itself: its path may mean another one in another mount namespace.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::ioctl::{Getter, Opcode, ioctl};

use super::DeviceNumber;
use crate::host::Host;
use crate::process::numbers;

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
/// What has the path that sysfs names is taken for it, if that path leads to nothing else in any other mount namespace. A
/// loop device is opened and asked itself only where that is not so, and where it is one of `own`: while it is open, its
/// owner can detach it only lazily. Not seen is therefore a file of a namespace in which no process is left, whose path
/// is another file here.
pub(super) fn loops(host: &Host, own: &[&str]) -> Vec<(String, Below)> {
    let sysfs = host.sysfs();
    let devices = sysfs.block_devices().unwrap_or_default().into_iter();
    let roots = Arc::new(roots(host));
    devices
        .filter(|name| name.starts_with("loop"))
        .filter_map(|name| {
            let path = match sysfs.read_or_absent(&name, "loop/backing_file") {
                Ok(path) => Some(PathBuf::from(path?)),
                Err(_) => None,
            };
            let path = path.filter(|_| !own.contains(&&*name));
            let below = below(host.dev(&name), path, &roots)?;
            Some((name, below))
        })
        .collect()
}

/// What this loop device itself says that it stands on.
pub(super) fn below_loop(host: &Host, device: &str) -> Option<Below> {
    below(host.dev(device), None, &Arc::default())
}

/// The root directories of all mount namespaces but ours that some process is in, as we reach them.
fn roots(host: &Host) -> Vec<PathBuf> {
    let key = |process: &Path| {
        let namespace = std::fs::read_link(process.join("ns/mnt")).ok()?;
        let root = process.join("root/.").metadata().ok()?;
        Some((namespace, root.dev(), root.ino()))
    };
    let mut seen: HashSet<_> = key(&host.proc("self")).into_iter().collect();
    let processes = numbers(host).unwrap_or_default().into_iter();
    processes
        .map(|pid| host.proc(&pid.to_string()))
        .filter(|process| key(process).is_some_and(|key| seen.insert(key)))
        .map(|process| process.join("root"))
        .collect()
}

/// What a loop device stands on; none where it is gone, or nobody could use it.
fn below(node: PathBuf, path: Option<PathBuf>, roots: &Arc<Vec<PathBuf>>) -> Option<Below> {
    let roots = Arc::clone(roots);
    // A path that does not answer is no answer.
    let at_path = path.and_then(|path| within_patience(move || at_path(&path, &roots)));
    at_path.or_else(|| within_patience(move || ask(&node)))
}

/// What has a path, if no other mount namespace has something else there.
fn at_path(path: &Path, roots: &[PathBuf]) -> Option<Below> {
    let here = of_file(&path.metadata().ok()?);
    let relative = path.strip_prefix("/").ok()?;
    let there = roots
        .iter()
        .filter_map(|root| root.join(relative).metadata().ok());
    there
        .map(|file| of_file(&file))
        .all(|there| there == here)
        .then_some(here)
}

fn within_patience<T: Send + 'static>(
    look: impl FnOnce() -> Option<T> + Send + 'static,
) -> Option<T> {
    let (answer, answered) = mpsc::channel();
    let looking = std::thread::Builder::new().spawn(move || answer.send(look()?).ok());
    looking.ok()?;
    answered.recv_timeout(PATIENCE).ok()
}

/// What stands on this file stands on the device, if it is the node of one.
pub(super) fn of_file(file: &Metadata) -> Below {
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
    let loops = loops(host, &[]).into_iter();
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
    fn a_path_that_is_another_file_in_another_mount_namespace_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let at = |below: &str| {
            let path = dir.path().join(below);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            path
        };
        let here = at("img");
        let roots = |name: &str| vec![dir.path().join(name)];
        assert!(
            at_path(&here, &roots("empty")).is_some(),
            "nothing is there"
        );
        at(&format!("other{}", here.display()));
        assert_eq!(at_path(&here, &roots("other")), None);
        let same = dir.path().join(format!("same{}", here.display()));
        std::fs::create_dir_all(same.parent().unwrap()).unwrap();
        std::fs::hard_link(&here, &same).unwrap();
        assert!(at_path(&here, &roots("same")).is_some());
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
