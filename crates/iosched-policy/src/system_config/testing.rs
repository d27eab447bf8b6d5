//! Machines made of nothing, for the tests of `policy`, `persist` and `history`, too.

use std::fmt::Write;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use iosched_machine::host::Host;
use tempfile::TempDir;

/// A disk of such a machine.
pub(crate) struct Disk {
    name: String,
    files: Vec<(String, String)>,
    properties: Vec<(String, String)>,
}

impl Disk {
    /// A disk that offers none, mq-deadline and bfq, with mq-deadline active.
    pub(crate) fn new(name: &str) -> Disk {
        Disk {
            name: name.into(),
            files: Vec::new(),
            properties: Vec::new(),
        }
        .file("queue/scheduler", "none [mq-deadline] bfq")
        .file("queue/nr_requests", "64")
        .file("queue/iosched/fifo_batch", "16")
        .file("size", "2097152")
    }

    /// With this file below its directory.
    pub(crate) fn file(mut self, path: &str, text: &str) -> Disk {
        self.files.push((path.into(), format!("{text}\n")));
        self
    }

    /// With this property in udev's database.
    pub(crate) fn property(mut self, name: &str, value: &str) -> Disk {
        self.properties.push((name.into(), value.into()));
        self
    }
}

/// A machine with these disks, on Linux 6.12.
pub(crate) fn machine(disks: &[Disk]) -> (TempDir, Host) {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "proc/sys/kernel/osrelease", "6.12.0-test\n");
    write(dir.path(), "proc/sys/kernel/random/boot_id", "boot-1\n");
    write(dir.path(), "proc/cmdline", "root=/dev/sda1 quiet\n");
    for (index, disk) in disks.iter().enumerate() {
        let number = format!("8:{}", 16 * index);
        let below = |file: &str| format!("sys/block/{}/{file}", disk.name);
        write(dir.path(), &below("dev"), &format!("{number}\n"));
        for (file, text) in &disk.files {
            write(dir.path(), &below(file), text);
        }
        let mut lines = String::new();
        for (name, value) in &disk.properties {
            writeln!(lines, "E:{name}={value}").unwrap();
        }
        write(dir.path(), &format!("run/udev/data/b{number}"), &lines);
    }
    let host = Host::at(dir.path());
    (dir, host)
}

/// Writes a file of such a machine and the directories that lead to it; one that names an interpreter can be run.
pub(crate) fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    if text.starts_with("#!") {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
}
