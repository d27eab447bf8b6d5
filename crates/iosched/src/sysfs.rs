//! `/sys` as a value: the only code that reads or writes it.
//!
//! A [`Sysfs`] has a root, so tests hand in a directory. A device is named as the kernel names it
//! (`sda`, `cciss/c0d0`): the `/` in such a name is `!` in sysfs, and that is hidden here.
//! [`Sysfs::failing_write`] makes the n-th write fail, so tests can show that the machine ends as
//! it began whichever write the kernel refuses.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The `/sys` of a machine.
#[derive(Debug, Clone)]
pub struct Sysfs {
    root: PathBuf,
    writes_until_failure: Option<Arc<AtomicI64>>,
}

impl Sysfs {
    /// The tree whose `block/` and `class/` are directly below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Sysfs {
        Sysfs {
            root: root.into(),
            writes_until_failure: None,
        }
    }

    /// The same tree, whose `n`-th write from now (1 is the next) fails with EIO. For tests.
    #[must_use]
    pub fn failing_write(mut self, n: u32) -> Sysfs {
        self.writes_until_failure = Some(Arc::new(AtomicI64::new(i64::from(n))));
        self
    }

    /// Where the tree is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The kernel names of all block devices that are not partitions, sorted (`block/`).
    pub fn block_devices(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join("block"))? {
            names.push(kernel_name(&entry?.file_name().to_string_lossy()));
        }
        names.sort();
        Ok(names)
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

    /// True if there is such a device or partition.
    pub fn has_device(&self, device: &str) -> bool {
        is_kernel_name(device) && self.device_dir(device).exists()
    }

    /// An attribute's value with the trailing newline removed, for example
    /// `read("sda", "queue/scheduler")`.
    pub fn read(&self, device: &str, attribute: &str) -> io::Result<String> {
        let mut text = fs::read_to_string(self.device_dir(device).join(attribute))?;
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

    /// Writes an attribute in one `write(2)`, as the kernel wants it.
    pub fn write(&self, device: &str, attribute: &str, value: &str) -> io::Result<()> {
        if let Some(left) = &self.writes_until_failure
            && left.fetch_sub(1, Ordering::Relaxed) == 1
        {
            return Err(io::Error::from_raw_os_error(5)); // EIO
        }
        let path = self.device_dir(device).join(attribute);
        let mut file = fs::OpenOptions::new().write(true).open(path)?;
        file.write_all(value.as_bytes())
    }

    /// The names below a directory of a device (`queue/iosched`), sorted; empty where there is none.
    pub fn list(&self, device: &str, directory: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.device_dir(device).join(directory)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        names.sort();
        names
    }
}

/// The kernel's name of a device from its name in sysfs: `cciss!c0d0` is `cciss/c0d0`.
pub fn kernel_name(in_sysfs: &str) -> String {
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
        && !name.split('/').any(|part| part.is_empty() || part == "..")
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
        for bad in ["", ".", "..", "../etc", "/etc", "a/../b", "a//b", "a/"] {
            assert!(!is_kernel_name(bad), "{bad:?}");
        }
        assert!(is_kernel_name("cciss/c0d0"));
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
}
