//! A machine's `/sys`, `/proc`, `/run` and `/etc` in a directory, for commands that take `--root`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use iosched_testing::machine_tree::{text, unpack};

use super::iosched;

/// A copied machine in a directory of its own.
pub(crate) struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    /// With nothing in it.
    pub(crate) fn empty() -> Machine {
        Machine {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// Copies a directory of `tests/` over it.
    pub(crate) fn lay_over(&self, below_tests: &str) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
        let from = format!("{}/.", from.join(below_tests).display());
        super::run("cp", &["-a", &from, self.dir.path().to_str().unwrap()]);
    }

    /// Linux 6.12 with these disks: name and properties in udev's database.
    pub(crate) fn new(disks: &[(&str, &[&str])]) -> Machine {
        let machine = Machine::empty();
        machine.write("proc/sys/kernel/osrelease", "6.12.0-test\n");
        machine.write("etc/hostname", "test\n");
        for (index, (name, properties)) in disks.iter().enumerate() {
            let number = format!("8:{}", 16 * index);
            let block = format!("sys/block/{name}");
            machine.write(&format!("{block}/dev"), &format!("{number}\n"));
            machine.write(&format!("{block}/size"), "2097152\n");
            machine.write(
                &format!("{block}/queue/scheduler"),
                "none [mq-deadline] bfq\n",
            );
            machine.write(&format!("{block}/queue/iosched/fifo_batch"), "16\n");
            machine.write(&format!("{block}/queue/nr_requests"), "64\n");
            let lines = format!("E:{}\n", properties.join("\nE:"));
            machine.write(&format!("run/udev/data/b{number}"), &lines);
        }
        machine
    }

    /// One of `tests/machines`.
    pub(crate) fn copied(name: &str) -> Machine {
        let machine = Machine::empty();
        unpack(&text(name), machine.root());
        machine
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    pub(crate) fn write(&self, below: &str, text: &str) {
        fs::create_dir_all(self.path(below).parent().unwrap()).unwrap();
        fs::write(self.path(below), text).unwrap();
    }

    pub(crate) fn read(&self, below: &str) -> String {
        fs::read_to_string(self.path(below)).unwrap_or_else(|error| panic!("{below}: {error}"))
    }

    /// Exit code, standard output, standard error.
    pub(crate) fn run(&self, command: &str, arguments: &[&str]) -> (i32, String, String) {
        let output = iosched()
            .arg(command)
            .arg("--root")
            .arg(self.dir.path())
            .args(arguments)
            .output()
            .unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    }

    pub(crate) fn succeeds(&self, command: &str, arguments: &[&str]) -> String {
        let (code, stdout, stderr) = self.run(command, arguments);
        assert_eq!(code, 0, "{arguments:?}: {stderr}");
        stdout
    }

    /// Every file below `etc`, with its text (links with their target).
    pub(crate) fn etc(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        let mut waiting = vec![self.path("etc")];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_symlink() {
                    let target = fs::read_link(&path).unwrap();
                    files.insert(path, target.display().to_string());
                } else if path.is_dir() {
                    waiting.push(path);
                } else {
                    let text = fs::read_to_string(&path).unwrap();
                    files.insert(path, text);
                }
            }
        }
        files
    }

    /// One disk with a name of its own, and one that is known by where it is.
    pub(crate) fn two_disks() -> Machine {
        Machine::new(&[
            ("sda", &["ID_SERIAL=ACME_S1", "ID_WWN=0x5000c500a1b2c3d4"]),
            ("sdb", &["ID_PATH=pci-0000:00:06.0"]),
        ])
    }

    /// Where it is.
    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }
}

/// True for a file of ours that was to be renamed to its own name.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().starts_with(".iosched-new-")
}
