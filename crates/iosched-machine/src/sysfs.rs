//! `/sys` as a value: the only code that reads or writes block devices there.
//!
//! A [`Sysfs`] has a root, so tests hand in a directory. A device is named as the kernel names it
//! (`sda`, `cciss/c0d0`): the `/` in such a name is `!` in sysfs, and that is hidden here.
//! `Sysfs::failing_write` makes the n-th write fail, so tests can show that the machine ends as
//! it began whichever write the kernel refuses.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use crate::lossy;

mod by_child;

/// How often a write to a queue that is busy is tried again, and how long after the last time: 10 s together.
const ATTEMPTS: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(10);

/// The `/sys` of a machine.
#[derive(Debug, Clone)]
pub struct Sysfs {
    root: PathBuf,
    writes_until_failure: Option<Arc<AtomicI64>>,
    busy_writes: Option<Arc<AtomicI64>>,
    writes_until_hang: Option<Arc<AtomicI64>>,
    /// Devices with a write from which the kernel has not returned: what else is read or written of their queue would
    /// wait for it.
    hung: Arc<Mutex<Vec<String>>>,
}

impl Sysfs {
    /// The tree whose `block/` and `class/` are directly below `root`.
    pub(crate) fn at(root: impl Into<PathBuf>) -> Sysfs {
        Sysfs {
            root: root.into(),
            writes_until_failure: None,
            busy_writes: None,
            writes_until_hang: None,
            hung: Arc::default(),
        }
    }

    /// The same tree, whose `n`-th write from now (1 is the next) fails with EIO. For tests.
    #[must_use]
    pub(crate) fn failing_write(mut self, n: u32) -> Sysfs {
        self.writes_until_failure = Some(Arc::new(AtomicI64::new(i64::from(n))));
        self
    }

    /// The same tree, whose next `n` writes find the queue busy. For tests.
    #[must_use]
    pub(crate) fn busy_writes(mut self, n: u32) -> Sysfs {
        self.busy_writes = Some(Arc::new(AtomicI64::new(i64::from(n))));
        self
    }

    /// The same tree, from whose `n`-th write from now (1 is the next) the kernel does not return. For tests.
    #[must_use]
    pub(crate) fn hanging_write(mut self, n: u32) -> Sysfs {
        self.writes_until_hang = Some(Arc::new(AtomicI64::new(i64::from(n))));
        self
    }

    /// Where the tree is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The kernel names of all block devices that are not partitions, sorted (`block/`).
    pub fn block_devices(&self) -> io::Result<Vec<String>> {
        let names = names_in(&self.root.join("block"))?;
        Ok(names.iter().map(|name| kernel_name(name)).collect())
    }

    /// The directory of a device or partition: `class/block/NAME`, or `block/NAME` where the tree
    /// has no `class` (a reduced copy).
    pub fn device_dir(&self, device: &str) -> PathBuf {
        let name = sysfs_name(device);
        let by_class = self.root.join("class/block").join(&name);
        if by_class.exists() {
            by_class
        } else {
            self.root.join("block").join(&name)
        }
    }

    /// The names of all block devices and partitions, sorted, as the kernel spells them
    /// (`class/block`, or `block` where the tree has no `class`).
    pub(crate) fn all_devices(&self) -> io::Result<Vec<String>> {
        let by_class = self.root.join("class/block");
        if !by_class.is_dir() {
            return self.block_devices();
        }
        let names = names_in(&by_class)?;
        Ok(names.iter().map(|name| kernel_name(name)).collect())
    }

    /// Opens a device's directory, to read many of its attributes.
    pub(crate) fn open_device(&self, device: &str) -> io::Result<DeviceDir> {
        if !is_kernel_name(device) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.check_returned(device)?;
        let name = sysfs_name(device);
        let mut path = self.root.join("class/block").join(&name);
        let open = |path: &Path| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty())
        };
        let dir = open(&path).or_else(|_| {
            path = self.root.join("block").join(&name);
            open(&path)
        })?;
        // Where it really is: `devices/…/host0/target0:0:0/0:0:0:0/block/sda`. In a reduced copy
        // it is no link, and nothing can be learnt from where it lies.
        let location = fs::read_link(&path).unwrap_or_default();
        Ok(DeviceDir { dir, location })
    }

    /// The kernel name of the device with this number (`dev/block/MAJOR:MINOR`).
    pub(crate) fn device_with_number(&self, major: u32, minor: u32) -> Option<String> {
        let link = self.root.join(format!("dev/block/{major}:{minor}"));
        let target = fs::read_link(link).ok()?;
        Some(kernel_name(&target.file_name()?.to_string_lossy()))
    }

    /// The entries of a directory of the tree that belongs to no device (`fs/btrfs`), sorted; empty
    /// where there is none.
    pub(crate) fn entries(&self, below: &str) -> Vec<String> {
        names_in(&self.root.join(below)).unwrap_or_default()
    }

    /// True if there is such a device or partition.
    pub fn has_device(&self, device: &str) -> bool {
        is_kernel_name(device) && self.device_dir(device).exists()
    }

    /// An attribute's value with the trailing newline removed, for example
    /// `read("sda", "queue/scheduler")`.
    pub fn read(&self, device: &str, attribute: &str) -> io::Result<String> {
        self.check_returned(device)?;
        let mut text = lossy::read(self.device_dir(device).join(attribute))?;
        while text.ends_with('\n') {
            text.pop();
        }
        Ok(text)
    }

    /// Like [`Sysfs::read`], with `None` where there is no such file or it cannot be read (some
    /// files answer EINVAL where the feature is not attached).
    pub fn read_if_present(&self, device: &str, attribute: &str) -> Option<String> {
        self.read(device, attribute).ok()
    }

    /// Like [`Sysfs::read_if_present`], where it matters to know that there is none: an error says nothing of the
    /// attribute (too many open files, no memory).
    pub fn read_or_absent(&self, device: &str, attribute: &str) -> io::Result<Option<String>> {
        match self.read(device, attribute) {
            Ok(text) => Ok(Some(text)),
            Err(error) if is_of_attribute(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes an attribute in one `write(2)`, as the kernel wants it.
    ///
    /// Since 7.0 (and in later ones of 6.18) a kernel does not wait where `scheduler` or `nr_requests` of another disk of the
    /// same controller is being written: `EBUSY`, at once. That passes, so it is tried again.
    pub fn write(&self, device: &str, attribute: &str, value: &str) -> io::Result<()> {
        until_free(PAUSE, || self.write_once(device, attribute, value))
    }

    fn write_once(&self, device: &str, attribute: &str, value: &str) -> io::Result<()> {
        let is_busy = |left: &Arc<AtomicI64>| left.fetch_sub(1, Ordering::Relaxed) > 0;
        if self.busy_writes.as_ref().is_some_and(is_busy) {
            return Err(Errno::BUSY.into());
        }
        if let Some(left) = &self.writes_until_failure
            && left.fetch_sub(1, Ordering::Relaxed) == 1
        {
            return Err(Errno::IO.into());
        }
        let left = self.writes_until_hang.as_ref();
        let hangs = left.is_some_and(|left| left.fetch_sub(1, Ordering::Relaxed) == 1);
        let patience = if hangs { PAUSE } else { by_child::PATIENCE };
        self.check_returned(device)?;
        let directory = self.device_dir(device);
        let places = (&*directory.join(attribute), host_of(&directory));
        let written = by_child::write((places.0, places.1.as_deref()), value, patience, hangs);
        if written
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
        {
            let mut hung = self.hung.lock().unwrap_or_else(PoisonError::into_inner);
            hung.push(device.to_owned());
        }
        written
    }

    /// Refuses what would wait for a write from which the kernel has not returned.
    fn check_returned(&self, device: &str) -> io::Result<()> {
        let hung = self.hung.lock().unwrap_or_else(PoisonError::into_inner);
        if hung.iter().any(|hung| hung == device) {
            let message = "the kernel has not returned from an earlier write to its queue";
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        Ok(())
    }

    /// True if an attribute can be written at all: the kernel gives those that only tell something no such right.
    pub fn is_writable(&self, device: &str, attribute: &str) -> bool {
        const BY_OWNER: u32 = 0o200;
        let metadata = fs::metadata(self.device_dir(device).join(attribute));
        metadata.is_ok_and(|metadata| metadata.permissions().mode() & BY_OWNER != 0)
    }

    /// The names below a directory of a device (`queue/iosched`), sorted; empty where there is none.
    pub fn list(&self, device: &str, directory: &str) -> Vec<String> {
        self.try_list(device, directory).unwrap_or_default()
    }

    /// [`Sysfs::list`], where it matters to know them: an error says nothing of what is there.
    pub fn try_list(&self, device: &str, directory: &str) -> io::Result<Vec<String>> {
        match names_in(&self.device_dir(device).join(directory)) {
            Err(error) if is_of_attribute(&error) => Ok(Vec::new()),
            names => names,
        }
    }
}

/// The directory of the host or controller of a device: its disks share tags, and since 6.18 a write to the queue of one
/// keeps those to the others waiting, or away.
fn host_of(device: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(device).ok()?;
    let is_host = |path: &&Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = ["host", "nvme"]
            .iter()
            .find_map(|kind| name.strip_prefix(kind));
        number
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    real.ancestors().find(is_host).map(Path::to_owned)
}

/// The names in a directory, sorted.
fn names_in(directory: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(directory)?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// True if an error is the kernel's answer about an attribute: it is not there, or does not give or take this now.
/// False if it is about us or the moment: what the attribute is stays unknown.
pub fn is_of_attribute(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, NotADirectory, NotFound, PermissionDenied, Unsupported};
    let is_removed = matches!(
        Errno::from_io_error(error),
        Some(Errno::NODEV | Errno::NXIO)
    );
    let kind = error.kind();
    is_removed
        || matches!(
            kind,
            InvalidInput | NotADirectory | NotFound | PermissionDenied | Unsupported
        )
}

/// Does it again while the device is busy, but not for ever.
fn until_free(pause: Duration, mut attempt: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let is_busy = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::BUSY);
    let mut done = attempt();
    for _ in 0..ATTEMPTS {
        if !done.as_ref().is_err_and(is_busy) {
            break;
        }
        thread::sleep(pause);
        done = attempt();
    }
    done
}

/// A device's open directory. Cheaper than [`Sysfs::read`] for many attributes, and it stays the same
/// device if the name is given to another one meanwhile (then all reads fail).
#[derive(Debug)]
pub(crate) struct DeviceDir {
    dir: OwnedFd,
    location: PathBuf,
}

impl DeviceDir {
    /// Where the device really is below `devices/`, as the link to it says; empty in a reduced copy.
    pub(crate) fn location(&self) -> &Path {
        &self.location
    }

    /// An attribute's bytes; `None` where there is no such file or it cannot be read.
    pub(crate) fn bytes(&self, attribute: &str) -> Option<Vec<u8>> {
        self.try_bytes(attribute).ok()
    }

    /// An attribute's bytes, or why not.
    pub(crate) fn try_bytes(&self, attribute: &str) -> io::Result<Vec<u8>> {
        // In a copied tree it may be a device, and to open that may do anything.
        let there = statat(&self.dir, attribute, AtFlags::empty())?;
        match FileType::from_raw_mode(there.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR.into()),
            _ => return Err(io::Error::other("it is no regular file")),
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = openat(&self.dir, attribute, flags, Mode::empty())?;
        // An attribute is at most a page. What is longer is no attribute; the start will do.
        let mut bytes = vec![0; 4096];
        let mut length = 0;
        while length < bytes.len() {
            match rustix::io::read(&file, &mut bytes[length..])? {
                0 => break,
                n => length += n,
            }
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    /// An attribute's text with blanks and newlines around it removed; `None` where there is no such
    /// file, it cannot be read, or it is empty.
    pub(crate) fn text(&self, attribute: &str) -> Option<String> {
        let bytes = self.bytes(attribute)?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(crate) fn number(&self, attribute: &str) -> Option<u64> {
        self.text(attribute)?.parse().ok()
    }

    /// An attribute that is `0` or `1`.
    pub(crate) fn flag(&self, attribute: &str) -> Option<bool> {
        self.number(attribute).map(|value| value != 0)
    }

    /// True if there is such a file or directory.
    pub(crate) fn has(&self, entry: &str) -> bool {
        rustix::fs::accessat(
            &self.dir,
            entry,
            rustix::fs::Access::EXISTS,
            rustix::fs::AtFlags::empty(),
        )
        .is_ok()
    }

    /// The names in a directory below (`.` is the device's own), unsorted; empty where there is none.
    pub(crate) fn list(&self, directory: &str) -> Vec<String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(mut dir) = openat(&self.dir, directory, flags, Mode::empty()).and_then(Dir::new)
        else {
            return Vec::new();
        };
        let mut names = Vec::new();
        while let Some(Ok(entry)) = dir.read() {
            let name = entry.file_name().to_string_lossy();
            if name != "." && name != ".." {
                names.push(name.into_owned());
            }
        }
        names
    }

    /// The names of the devices in a directory of links to devices (`holders`, `slaves`), sorted.
    pub(crate) fn devices(&self, directory: &str) -> Vec<String> {
        let mut names: Vec<String> = self
            .list(directory)
            .iter()
            .map(|name| kernel_name(name))
            .collect();
        names.sort_by(|a, b| natural_order(a, b));
        names
    }
}

/// The order in which people count: `sda2` before `sda10`, `sdb` before `sdaa`.
///
/// The kernel numbers disks `sda` … `sdz`, `sdaa` …: of two names that begin alike and go on in
/// letters, the shorter one is older.
pub(crate) fn natural_order(a: &str, b: &str) -> std::cmp::Ordering {
    natural_parts(a)
        .cmp(natural_parts(b))
        .then_with(|| a.cmp(b))
}

/// A name cut into runs of letters and runs of digits; after the driver's two letters (`sd`, `vd`),
/// and for digits, the length counts first.
fn natural_parts(name: &str) -> impl Iterator<Item = (&str, usize, &str)> {
    let mut rest = name;
    std::iter::from_fn(move || {
        let digits = rest.chars().next()?.is_ascii_digit();
        let end = rest
            .find(|c: char| c.is_ascii_digit() != digits)
            .unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(if digits {
            let part = part.trim_start_matches('0');
            ("", part.len(), part)
        } else {
            let driver = part.char_indices().nth(2).map_or(part.len(), |(at, _)| at);
            let (driver, part) = part.split_at(driver);
            (driver, part.len(), part)
        })
    })
}

/// The kernel's name of a device from its name in sysfs: `cciss!c0d0` is `cciss/c0d0`.
pub(crate) fn kernel_name(in_sysfs: &str) -> String {
    in_sysfs.replace('!', "/")
}

/// The name in sysfs of a device from its kernel name: `cciss/c0d0` is `cciss!c0d0`.
pub fn sysfs_name(kernel_name: &str) -> String {
    kernel_name.replace('/', "!")
}

/// True if this can be a kernel name of a device: it cannot leave the directory it is looked up in.
pub fn is_kernel_name(name: &str) -> bool {
    !name.is_empty()
        && name != "."
        && name != ".."
        && !name.starts_with('/')
        && !name.contains('\0')
        && !name
            .split(['/', '!'])
            .any(|part| matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_in_a_kernel_name_is_a_bang_in_sysfs() {
        assert_eq!(sysfs_name("cciss/c0d0"), "cciss!c0d0");
        assert_eq!(kernel_name("cciss!c0d0"), "cciss/c0d0");
    }

    #[test]
    fn a_name_that_leaves_the_tree_is_no_kernel_name() {
        for bad in [
            "", ".", "..", "../etc", "/etc", "a/../b", "a//b", "a/", "a!..!b", "..!b", "a/./b",
        ] {
            assert!(!is_kernel_name(bad), "{bad:?}");
        }
        assert!(is_kernel_name("cciss/c0d0"));
    }

    #[test]
    fn devices_are_ordered_as_people_count() {
        let mut names = [
            "sdaa", "sda10", "sdb", "sda2", "nvme10n1", "nvme9n1", "sda", "sd",
        ];
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(
            names,
            [
                "nvme9n1", "nvme10n1", "sd", "sda", "sda2", "sda10", "sdb", "sdaa"
            ]
        );
    }

    #[test]
    fn the_nth_write_fails_and_only_that_one() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("block/sda/queue")).unwrap();
        fs::write(dir.path().join("block/sda/queue/nr_requests"), "64\n").unwrap();
        let sysfs = Sysfs::at(dir.path()).failing_write(2);
        assert!(sysfs.write("sda", "queue/nr_requests", "1").is_ok());
        assert!(sysfs.write("sda", "queue/nr_requests", "2").is_err());
        assert!(sysfs.write("sda", "queue/nr_requests", "3").is_ok());
        assert_eq!(sysfs.read("sda", "queue/nr_requests").unwrap(), "3");
    }

    #[test]
    fn a_write_that_hangs_is_left_behind_and_nothing_waits_for_it_again() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("block/sda/queue")).unwrap();
        fs::write(dir.path().join("block/sda/queue/nr_requests"), "64\n").unwrap();
        let sysfs = Sysfs::at(dir.path()).hanging_write(2);
        assert!(sysfs.write("sda", "queue/nr_requests", "32").is_ok());
        let hung = |done: io::Result<()>| done.unwrap_err().kind() == io::ErrorKind::TimedOut;
        assert!(hung(sysfs.write("sda", "queue/nr_requests", "16")));
        assert!(hung(sysfs.write("sda", "queue/nr_requests", "8")));
        assert!(hung(
            sysfs.clone().read("sda", "queue/nr_requests").map(drop)
        ));
        let error = Sysfs::at(dir.path()).write("sda", "queue/absent", "1");
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_busy_device_is_tried_again_but_not_for_ever() {
        let attempts = |busy: u32, otherwise: Result<(), Errno>| {
            let mut made = 0;
            let done = until_free(Duration::ZERO, || {
                made += 1;
                let left = if made <= busy {
                    Err(Errno::BUSY)
                } else {
                    otherwise
                };
                left.map_err(io::Error::from)
            });
            (made, done.is_ok())
        };
        assert_eq!(attempts(0, Ok(())), (1, true));
        assert_eq!(attempts(3, Ok(())), (4, true));
        assert_eq!(attempts(3, Err(Errno::INVAL)), (4, false));
        assert_eq!(attempts(u32::MAX, Ok(())), (ATTEMPTS + 1, false));
    }
}
