//! The numbers under which the kernel knows a device or a file.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use serde::{Serialize, Serializer};

/// Major and minor number; `8:0` in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct DeviceNumber {
    /// The driver's number.
    pub major: u32,
    /// The device's number with its driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// From the number as `stat(2)` gives it.
    pub fn of_raw(raw: u64) -> DeviceNumber {
        DeviceNumber {
            major: rustix::fs::major(raw),
            minor: rustix::fs::minor(raw),
        }
    }

    /// Parses `8:0`.
    pub(crate) fn parse(text: &str) -> Option<DeviceNumber> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(DeviceNumber {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl Serialize for DeviceNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// By what a file is told from all others of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileNumber {
    /// The number of its file system.
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl FileNumber {
    pub(super) fn of(file: &Metadata) -> FileNumber {
        FileNumber {
            device: file.dev(),
            inode: file.ino(),
        }
    }
}
