//! What the tests of this module share: copied machines, and loop devices that go away by themselves.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use iosched_testing::{lacks, loop_device};
use tempfile::NamedTempFile;

use crate::host::Host;

/// One of `tests/machines`.
pub fn machine(name: &str) -> Host {
    Host::at(iosched_testing::machine_tree::tree(name))
}

/// Runs a system tool; `None`, and a line that says so, where it is not installed.
pub fn tool(package: &str, command: &[&str]) -> Option<Output> {
    let output = Command::new(command[0])
        .args(&command[1..])
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output();
    match output {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            lacks(&format!("package {package} for `{}`", command[0]));
            None
        }
        Err(error) => panic!("{command:?}: {error}"),
    }
}

/// Like [`tool`], and it must succeed. False if it is not installed.
pub fn succeeds(package: &str, command: &[&str]) -> bool {
    let Some(output) = tool(package, command) else {
        return false;
    };
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    true
}

/// A loop device on a sparse file, detached in the end.
#[derive(Debug)]
pub struct LoopDevice {
    pub name: String,
    pub node: PathBuf,
    /// Kept so that it is there as long as the device; nobody has it open.
    file: tempfile::TempPath,
}

impl LoopDevice {
    /// `None`, and a line that says why, where loop devices cannot be made.
    pub fn new(mebibytes: u64) -> Option<LoopDevice> {
        let file = NamedTempFile::new().unwrap();
        file.as_file().set_len(mebibytes << 20).unwrap();
        LoopDevice::on(file, &[])
    }

    /// On a file, with more options of `losetup`.
    pub fn on(file: NamedTempFile, options: &[&str]) -> Option<LoopDevice> {
        if !loop_device::can_attach() {
            return None;
        }
        let options = [&["--partscan"], options].concat();
        let name = loop_device::attach(file.path(), &options);
        Some(LoopDevice {
            node: Path::new("/dev").join(&name),
            name,
            file: file.into_temp_path(),
        })
    }

    pub fn path(&self) -> &str {
        self.node.to_str().unwrap()
    }

    /// The file behind it.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Waits until the node of a partition is there.
    pub fn partition(&self, number: u32) -> PathBuf {
        let node = PathBuf::from(format!("{}p{number}", self.path()));
        let is_there = iosched_testing::wait_until(|| File::open(&node).is_ok());
        assert!(is_there, "{} does not appear", node.display());
        node
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // A test may have detached it itself: then its number is somebody else's by now.
        if !loop_device::stands_on(&self.name, &self.file) {
            return;
        }
        let _ = tool("mount", &["losetup", "--detach", self.path()]);
    }
}

/// A mount that is undone in the end.
#[derive(Debug)]
pub struct Mounted {
    pub point: tempfile::TempDir,
}

impl Mounted {
    pub fn new(node: &Path) -> Mounted {
        let point = tempfile::tempdir().unwrap();
        let paths = [node.to_str().unwrap(), point.path().to_str().unwrap()];
        assert!(succeeds("mount", &["mount", paths[0], paths[1]]));
        Mounted { point }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = tool("mount", &["umount", self.point.path().to_str().unwrap()]);
    }
}
