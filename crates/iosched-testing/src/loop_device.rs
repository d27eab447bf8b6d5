//! Attaching a file to a free loop device while other tests do the same.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Mode, OFlags};

/// So much room in memory is enough for the disks of all tests that run side by side.
const PLENTY: u64 = 2 << 30;

/// Where tests put the files behind their disks: into memory, or where there is little room for that (64 MB in most
/// containers) to the other temporary files.
pub fn directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
    if room >= PLENTY {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

/// Where tests put files that are opened for direct I/O, which tmpfs takes since Linux 6.6.
pub fn direct_io_directory() -> PathBuf {
    let fallback = PathBuf::from("/var/tmp");
    let mut places = [directory(), std::env::temp_dir()].into_iter();
    places
        .find(|place| takes_direct_io(place))
        .unwrap_or(fallback)
}

/// True if files in this directory can be opened for direct I/O.
pub fn takes_direct_io(directory: &Path) -> bool {
    let file = tempfile::Builder::new()
        .prefix(&prefix())
        .tempfile_in(directory);
    let direct = |file: tempfile::NamedTempFile| {
        let flags = OFlags::RDONLY | OFlags::DIRECT;
        rustix::fs::open(file.path(), flags, Mode::empty()).is_ok()
    };
    file.is_ok_and(direct)
}

/// How the names of files of tests in memory begin, by which `scripts/run-tests` knows what one of its runs left.
pub fn prefix() -> String {
    let run = std::env::var("IOSCHED_TEST_RUN").unwrap_or_default();
    format!("iosched-test-{run}-")
}

/// Attaches a file to a free loop device and returns the device's name (`loop3`). `options` are more options
/// of `losetup`. It is as new, whatever was set for that number before: the kernel keeps that when the file is detached.
pub fn attach(file: &Path, options: &[&str]) -> String {
    let mut said = String::new();
    let mut name = None;
    // Another test may take a device between finding and attaching it.
    crate::wait_until(|| {
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .args(options)
            .arg(file)
            .output()
            .unwrap_or_else(|error| panic!("losetup (package mount): {error}"));
        if output.status.success() {
            let node = String::from_utf8(output.stdout).expect("a device's path is text");
            name = Some(node.trim().trim_start_matches("/dev/").to_owned());
        }
        said = String::from_utf8_lossy(&output.stderr).into_owned();
        name.is_some() || !said.contains("busy")
    });
    let name = name.unwrap_or_else(|| panic!("no loop device for {}: {said}", file.display()));
    if !options.contains(&"--read-only") {
        make_writable(&name);
    }
    set_as_new(&name);
    name
}

/// What a new loop device has, of what the kernel keeps for the next file. A `max_sectors_kb` of 0 takes back what
/// was asked for (Linux 6.9, `blk_validate_limits`); an older kernel refuses it.
const AS_NEW: [(&str, &str); 8] = [
    ("scheduler", "none"),
    ("nr_requests", "128"),
    ("iostats", "1"),
    ("add_random", "0"),
    ("nomerges", "0"),
    ("rq_affinity", "1"),
    ("max_sectors_kb", "0"),
    ("read_ahead_kb", "128"), // last: others set it anew
];

/// Takes back what somebody set for a device of this name and left there.
pub fn set_as_new(name: &str) {
    for (attribute, value) in AS_NEW {
        let path = format!("/sys/block/{name}/queue/{attribute}");
        let is_so = std::fs::read_to_string(&path).is_ok_and(|now| now.trim() == value);
        // Who has no such attribute, or may not write it, has nothing left there either.
        let _ = is_so || std::fs::write(&path, value).is_ok();
    }
}

/// Detaches a device (`loop3`) and returns once it is: while somebody else looks into it, as udev does, the kernel puts
/// that off and says nothing.
pub fn detach(name: &str) {
    let backing = || std::fs::read(format!("/sys/block/{name}/loop/backing_file")).ok();
    let before = backing();
    let output = Command::new("losetup")
        .args(["--detach", &format!("/dev/{name}")])
        .output()
        .unwrap_or_else(|error| panic!("losetup (package mount): {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {said}");
    // Another test may have it by then, for a file of its own.
    let is_detached = || before.is_none() || backing() != before;
    assert!(crate::wait_until(is_detached), "{name} stays attached");
}

/// Takes back `blockdev --setro`.
pub fn make_writable(name: &str) {
    let status = Command::new("blockdev")
        .args(["--setrw", &format!("/dev/{name}")])
        .status()
        .unwrap_or_else(|error| panic!("blockdev (package util-linux): {error}"));
    assert!(status.success(), "{name} stays read-only");
}

/// True if a device stands on this file.
pub fn stands_on(name: &str, file: &Path) -> bool {
    let backing = std::fs::read(format!("/sys/block/{name}/loop/backing_file"));
    backing.is_ok_and(|backing| backing.trim_ascii_end() == file.as_os_str().as_encoded_bytes())
}

/// True if loop devices can be made; says what is lacking otherwise.
pub fn can_attach() -> bool {
    if !super::is_root() {
        return false;
    }
    let can = Path::new("/dev/loop-control").exists();
    if !can {
        super::lacks("loop devices (/dev/loop-control)");
    }
    can
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_set_is_taken_back() {
        if !can_attach() {
            return;
        }
        let file = tempfile::NamedTempFile::new_in(directory()).unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let name = attach(file.path(), &[]);
        let path = |attribute| format!("/sys/block/{name}/queue/{attribute}");
        let read = |attribute| std::fs::read_to_string(path(attribute)).unwrap();
        let attributes = ["iostats", "nomerges", "rq_affinity", "max_sectors_kb"];
        let before = attributes.map(read);
        for (attribute, value) in attributes.iter().zip(["0", "2", "2", "64"]) {
            std::fs::write(path(attribute), value).unwrap();
        }
        assert!(before != attributes.map(read));
        set_as_new(&name);
        let after = attributes.map(read);
        detach(&name);
        assert_eq!(before[..3], after[..3]);
        assert!(after[3] == before[3] || after[3] == "64\n", "{after:?}");
    }
}
