//! The file system that a run's directory is on, so that a directory which is not there can be told from one
//! whose file system is not mounted.

use std::path::{Path, PathBuf};

use iosched_machine::device::{self, FileSystem, SignatureClass};
use iosched_machine::host::Host;
use serde::{Deserialize, Serialize};

/// Where a file system was mounted, and which one it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetMount {
    /// Its mount point.
    pub mount_point: PathBuf,
    /// The node of the device that it was on; another one may have that name now.
    pub source: PathBuf,
    /// Its UUID, if `blkid` knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

impl TargetMount {
    /// That of a directory; none where it is on no block device.
    pub fn of(host: &Host, directory: &Path) -> Option<TargetMount> {
        let found = device::find_file_system(host, directory).ok()?;
        Some(TargetMount {
            uuid: uuid(&found),
            source: found.devices.first()?.node(),
            mount_point: found.mount_point,
        })
    }

    /// True if that file system is mounted there now.
    pub(crate) fn is_mounted(&self, host: &Host) -> bool {
        let Some(now) = TargetMount::of(host, &self.mount_point) else {
            return false;
        };
        let is_another = matches!((&self.uuid, &now.uuid), (Some(then), Some(now)) if then != now);
        now.mount_point == self.mount_point && !is_another
    }
}

fn uuid(file_system: &FileSystem) -> Option<String> {
    let signatures = device::content(&file_system.devices.first()?.node()).ok()?;
    let found = signatures
        .into_iter()
        .find(|signature| signature.class == SignatureClass::FileSystem)?;
    found.uuid
}
