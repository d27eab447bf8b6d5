//! Loop devices: making one over a file, finding what it stands on, taking it away.
//!
//! A device is always added under a number that was free and removed again, so that nothing of what
//! is set on its queue outlives it, and no device that was there before is touched.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use iosched_machine::device::loop_number;
use iosched_machine::host::Host;
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, ioctl};

const LOOP_CLR_FD: Opcode = 0x4C01;
const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LOOP_CTL_ADD: Opcode = 0x4C80;
const LOOP_CTL_REMOVE: Opcode = 0x4C81;

/// How often a device that was just added may be lost to somebody else before that is an error.
const ATTEMPTS: u32 = 32;

/// How long udev may look at a device that was just added, and is to go again.
const LOOKED_AT: Duration = Duration::from_secs(3);

const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_PARTSCAN: u32 = 8;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64` of the kernel's interface.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    real_device: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of the kernel's interface.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// What a loop device is to be like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Bytes of a logical block.
    pub(super) block: u32,
    /// It takes no writes.
    pub(super) read_only: bool,
}

impl Shape {
    /// As most disks are.
    pub(super) const USUAL: Shape = Shape {
        block: 512,
        read_only: false,
    };
}

impl LoopConfig {
    /// Direct I/O to a file, partitions looked for.
    fn direct(fd: u32, shape: Shape) -> LoopConfig {
        let read_only = if shape.read_only {
            LO_FLAGS_READ_ONLY
        } else {
            0
        };
        LoopConfig {
            fd,
            block_size: shape.block,
            info: LoopInfo {
                device: 0,
                inode: 0,
                real_device: 0,
                offset: 0,
                size_limit: 0,
                number: 0,
                encrypt_type: 0,
                encrypt_key_size: 0,
                flags: LO_FLAGS_DIRECT_IO | LO_FLAGS_PARTSCAN | read_only,
                file_name: [0; 64],
                crypt_name: [0; 64],
                encrypt_key: [0; 32],
                init: [0; 2],
            },
            reserved: [0; 8],
        }
    }
}

/// An ioctl whose argument is a number and whose result is a number.
struct Numbered<const OPCODE: Opcode>(usize);

// SAFETY: the two ioctls of /dev/loop-control that this is used with take a plain number where
// others take a pointer, write nothing to memory, and return a number.
unsafe impl<const OPCODE: Opcode> Ioctl for Numbered<OPCODE> {
    type Output = i32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        OPCODE
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::without_provenance_mut(self.0)
    }

    unsafe fn output_from_ptr(
        output: IoctlOutput,
        _: *mut std::ffi::c_void,
    ) -> rustix::io::Result<i32> {
        Ok(output)
    }
}

/// A loop device that we added. Dropping it leaves it in place: it is to outlive us if we crash, so
/// that `list` can show it.
#[derive(Debug)]
pub(super) struct LoopDevice {
    number: u32,
    file: File,
}

impl LoopDevice {
    /// Adds a loop device under a free number and puts it over `file` with direct I/O.
    ///
    /// # Errors
    /// [`Unsupported`](io::ErrorKind::Unsupported) where the kernel has no `LOOP_CONFIGURE`. Nothing is left then.
    pub(super) fn attach(host: &Host, file: &File, shape: Shape) -> io::Result<LoopDevice> {
        let control = open_control(host)?;
        let mut number = first_unused(host);
        let mut lost = 0;
        loop {
            match add(control.as_fd(), number) {
                Ok(()) => {}
                Err(Errno::EXIST) => {
                    number += 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            match configure(host, number, file, shape) {
                Ok(device) => return Ok(device),
                // Somebody attached it to a file, or removed it, between the two calls.
                Err(error) if lost < ATTEMPTS && (is_busy(&error) || is_gone(&error)) => {
                    lost += 1;
                    number += 1;
                }
                Err(error) => {
                    let _ = remove_device(host, number, LOOKED_AT);
                    return Err(error);
                }
            }
        }
    }

    /// Its kernel name.
    pub(super) fn name(&self) -> String {
        name(self.number)
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Keeps udev from looking at the device (and setting its scheduler) until the guard is closed.
    pub(super) fn hold_off_udev(self) -> io::Result<File> {
        rustix::fs::flock(&self.file, rustix::fs::FlockOperation::LockExclusive)?;
        Ok(self.file)
    }
}

/// The kernel name of a loop device.
pub(super) fn name(number: u32) -> String {
    format!("loop{number}")
}

/// The file that a loop device stands on, as the kernel tells it; `None` if it stands on none.
pub(super) fn backing_file(host: &Host, device: &str) -> io::Result<Option<PathBuf>> {
    let path = host.sysfs().read_or_absent(device, "loop/backing_file")?;
    Ok(path.map(|path| PathBuf::from(path.trim_end_matches(" (deleted)"))))
}

/// Loop devices that stand on a file of this name.
pub(super) fn standing_on(host: &Host, name: &str) -> io::Result<Vec<String>> {
    let mut devices = host.sysfs().block_devices()?;
    devices.retain(|device| loop_number(device).is_some());
    let mut found = Vec::new();
    for device in devices {
        if stands_on(host, &device, name)? {
            found.push(device);
        }
    }
    Ok(found)
}

/// True if this loop device stands on a file of this name.
pub(super) fn stands_on(host: &Host, device: &str, name: &str) -> io::Result<bool> {
    let file = backing_file(host, device)?;
    Ok(file.is_some_and(|file| file.file_name().is_some_and(|found| found == name)))
}

/// Detaches a loop device from its file, if it is ours once it is open and so cannot be replaced. A device
/// that is still open is detached when its last user closes it: then this returns false, after `patience`.
pub(super) fn detach(
    host: &Host,
    device: &str,
    is_ours: impl Fn() -> io::Result<bool>,
    patience: Duration,
) -> io::Result<bool> {
    let file = match OpenOptions::new().read(true).open(host.dev(device)) {
        Ok(file) => file,
        // Nothing attached, or gone altogether.
        Err(error) if is_gone(&error) => return Ok(true),
        Err(error) => return Err(error),
    };
    if is_ours()? {
        detach_open(&file)?;
    }
    drop(file);
    Ok(wait_until(patience, || matches!(is_ours(), Ok(false))))
}

/// [`detach`] through a descriptor that is already open, for instance exclusively.
pub(super) fn detach_open(file: &File) -> io::Result<()> {
    // SAFETY: LOOP_CLR_FD takes no argument and writes nothing to memory.
    let result = unsafe { ioctl(file, rustix::ioctl::NoArg::<LOOP_CLR_FD>::new()) };
    match result {
        Ok(()) | Err(Errno::NXIO) => Ok(()), // ENXIO: nothing attached
        Err(error) => Err(error.into()),
    }
}

/// Removes a detached loop device with all that was set on it. False if somebody still has it open
/// after `patience`.
pub(super) fn remove_device(host: &Host, number: u32, patience: Duration) -> io::Result<bool> {
    let control = open_control(host)?;
    let mut last = Ok(true);
    wait_until(patience, || {
        last = match remove(control.as_fd(), number) {
            Ok(()) | Err(Errno::NODEV) => Ok(true), // ENODEV: there is none
            Err(Errno::BUSY) => Ok(false),
            Err(error) => Err(error.into()),
        };
        !matches!(last, Ok(false))
    });
    last
}

fn open_control(host: &Host) -> io::Result<File> {
    let path = host.dev("loop-control");
    OpenOptions::new().read(true).write(true).open(path)
}

fn first_unused(host: &Host) -> u32 {
    let devices = host.sysfs().block_devices().unwrap_or_default();
    let numbers = devices.iter().filter_map(|name| loop_number(name));
    numbers.max().map_or(0, |last| last + 1)
}

fn add(control: BorrowedFd<'_>, number: u32) -> Result<(), Errno> {
    // SAFETY: see `Numbered`.
    unsafe { ioctl(control, Numbered::<LOOP_CTL_ADD>(number as usize)) }.map(drop)
}

fn remove(control: BorrowedFd<'_>, number: u32) -> Result<(), Errno> {
    // SAFETY: see `Numbered`.
    unsafe { ioctl(control, Numbered::<LOOP_CTL_REMOVE>(number as usize)) }.map(drop)
}

/// True if the kernel has `LOOP_CONFIGURE`: it looks at the file first, and says that there is none.
fn knows_configure(device: &File) -> bool {
    let config = LoopConfig::direct(u32::MAX, Shape::USUAL);
    // SAFETY: as in `configure`.
    let result = unsafe { ioctl(device, Setter::<LOOP_CONFIGURE, LoopConfig>::new(config)) };
    result == Err(Errno::BADF)
}

fn configure(host: &Host, number: u32, file: &File, shape: Shape) -> io::Result<LoopDevice> {
    let path = host.dev(&name(number));
    // devtmpfs makes the node before the ioctl returns; a static /dev never does.
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot open {}: {error}", path.display()),
            )
        })?;
    let descriptor = u32::try_from(file.as_raw_fd()).expect("descriptors are not negative");
    let config = LoopConfig::direct(descriptor, shape);
    // SAFETY: LOOP_CONFIGURE reads a `struct loop_config`, which `LoopConfig` is, field by field.
    let result = unsafe { ioctl(&device, Setter::<LOOP_CONFIGURE, LoopConfig>::new(config)) };
    match result {
        Ok(()) => {}
        // A file that it does not take is EINVAL, too; a descriptor that is none is told from it only where it is known.
        Err(Errno::INVAL | Errno::NOTTY) if !knows_configure(&device) => {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Err(error) => return Err(error.into()),
    }
    Ok(LoopDevice {
        number,
        file: device,
    })
}

fn is_busy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::BUSY.raw_os_error())
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(Errno::NXIO.raw_os_error())
        || error.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}

fn wait_until(patience: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_kernels_interface() {
        assert_eq!(size_of::<LoopInfo>(), 232);
        assert_eq!(size_of::<LoopConfig>(), 304);
    }

    #[test]
    fn a_kernel_that_cannot_configure_it_in_one_step_is_left_no_device() {
        use std::collections::BTreeSet;
        use std::sync::atomic::{AtomicBool, Ordering};
        const TIMES: usize = 20;
        if !iosched_testing::loop_device::can_attach() {
            return;
        }
        let host = Host::live();
        let is_bare = |name: &str| backing_file(&host, name).is_ok_and(|file| file.is_none());
        let devices = || {
            let devices = host.sysfs().block_devices().unwrap().into_iter();
            let loops = devices.filter(|name| name.starts_with("loop"));
            loops.collect::<BTreeSet<_>>()
        };
        let before = devices();
        // Devices that others detach stay, and were there.
        let without_file = || {
            let new = devices().into_iter().filter(|name| !before.contains(name));
            new.filter(|name| is_bare(name)).count()
        };
        let file = tempfile::tempfile().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            // As udev does with a device that comes.
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let last = name(first_unused(&host).saturating_sub(1));
                    // One with a file is somebody's, who may just want to remove it.
                    let opened = is_bare(&last).then(|| File::open(host.dev(&last)));
                    std::thread::sleep(Duration::from_millis(5));
                    drop(opened);
                }
            });
            let (errors, asked) = iosched_testing::kernel::on((5, 7), || {
                (0..TIMES)
                    .map(|_| {
                        LoopDevice::attach(&host, &file, Shape::USUAL)
                            .unwrap_err()
                            .kind()
                    })
                    .collect::<Vec<_>>()
            });
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(errors, [io::ErrorKind::Unsupported; TIMES]);
            assert!(format!("{asked:?}").contains("LOOP_CONFIGURE"));
        });
        let others_make_fewer = || without_file() < TIMES / 2;
        assert!(iosched_testing::wait_until(others_make_fewer));
    }

    #[test]
    fn devices_are_found_by_the_name_of_their_file() {
        let root = tempfile::tempdir().unwrap();
        for (device, file) in [
            ("loop0", Some("/run/iosched/emulated/null-1/mount/disk-1f")),
            ("loop1", Some("/run/iosched/emulated/null-1/mount/disk-1e")),
            ("loop3", Some("/disk-1f")), // its mount is gone
            ("loop2", None),
            ("sda", None),
        ] {
            let dir = root.path().join("sys/block").join(device).join("loop");
            std::fs::create_dir_all(&dir).unwrap();
            if let Some(file) = file {
                std::fs::write(dir.join("backing_file"), format!("{file} (deleted)\n")).unwrap();
            }
        }
        let host = Host::at(root.path());
        assert_eq!(standing_on(&host, "disk-1f").unwrap(), ["loop0", "loop3"]);
        assert_eq!(first_unused(&host), 4);
    }
}
