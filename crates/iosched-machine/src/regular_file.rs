//! Files that may be anything, to be read: those that a user names, those of the system, and those of a copied tree.
//!
//! A FIFO would be waited for, and to open a device may do anything (a tape is rewound, a watchdog starts to count): neither
//! is opened. The kernel's own files in `/proc` and `/sys` are regular ones.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

/// Opens a file to be read.
///
/// # Errors
/// It cannot be opened, or is no regular file.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    let held = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    check_regular(&held)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = match openat(CWD, held_path(&held), flags, Mode::empty()) {
        // Without /proc it is found by its name once more.
        Err(Errno::NOENT) => openat(CWD, path, flags, Mode::empty()),
        opened => opened,
    }?;
    check_regular(&opened)?;
    Ok(File::from(opened))
}

/// The most that [`read`] takes, bytes: the kernel's tables of a large machine have a tenth of that.
const LARGEST_READ: u64 = 64 << 20;

/// The content of a file of the kernel's or the system's, or of a copied tree, where it may be anything.
///
/// # Errors
/// It cannot be opened or read, is a directory ([`io::ErrorKind::IsADirectory`]), is no regular file otherwise (those of
/// `/proc` and `/sys` are), or has more than 64 MiB
/// ([`io::ErrorKind::FileTooLarge`]).
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let path = path.as_ref();
    let file = match open_to_read(path) {
        Err(_) if path.is_dir() => return Err(Errno::ISDIR.into()),
        opened => opened?,
    };
    file.take(LARGEST_READ + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_READ {
        return Err(too_large("it", LARGEST_READ));
    }
    Ok(bytes)
}

fn check_regular(file: &OwnedFd) -> io::Result<()> {
    if FileType::from_raw_mode(fstat(file)?.st_mode) == FileType::RegularFile {
        Ok(())
    } else {
        Err(io::Error::other("it is no regular file"))
    }
}

/// What is said of something that is larger than what we read.
pub fn too_large(what: &str, limit: u64) -> io::Error {
    let text = format!("{what} is larger than {} MiB", limit >> 20);
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}

/// A path to what is held, for this thread: one that has left the others' table of descriptors has numbers of its own.
pub(crate) fn held_path(held: impl AsFd) -> PathBuf {
    let thread = rustix::thread::gettid().as_raw_nonzero();
    let number = held.as_fd().as_raw_fd();
    format!("/proc/self/task/{thread}/fd/{number}").into()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use rustix::thread::{UnshareFlags, unshare_unsafe};

    use super::*;

    #[test]
    fn a_thread_with_a_table_of_descriptors_of_its_own_reads_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let ours = dir.path().join("ours");
        std::fs::write(&ours, "ours").unwrap();
        let (has_left, left) = channel();
        let (go_on, may_go_on) = channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: this thread opens a file and closes it, and uses no descriptor of another's.
            unsafe { unshare_unsafe(UnshareFlags::FILES) }.unwrap();
            has_left.send(()).unwrap();
            may_go_on.recv().unwrap();
            read(&ours).unwrap()
        });
        left.recv().unwrap();
        // The numbers that are free in the thread's table are taken in this one.
        let taken: Vec<File> = (0..64).map(|_| File::open(dir.path()).unwrap()).collect();
        go_on.send(()).unwrap();
        assert_eq!(thread.join().unwrap(), b"ours");
        drop(taken);
    }
}
