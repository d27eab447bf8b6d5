//! A write by a child process, which is left behind if the kernel does not return from it.
//!
//! A write to an attribute of a queue waits in the kernel until the queue is frozen: behind all that is under way there.
//! A disk that does not answer, or one of the deadlocks of some kernels, makes that for ever, and who waits so cannot be
//! killed.

use std::ffi::{CStr, CString};
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::pipe::{PipeFlags, pipe_with};

/// How long a write may take: whatever is under way on a slow disk is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// How often it is looked whether another disk of the host is written to, each 10 ms.
const LOOKS: u32 = 200;

/// What the child does.
struct Task {
    path: CString,
    /// A directory that is locked meanwhile.
    lock: Option<CString>,
    value: Vec<u8>,
    hangs: bool,
    parent: libc::pid_t,
    answer: libc::c_int,
}

/// Writes a file in one `write(2)`, with a directory locked meanwhile. For tests it `hangs`.
///
/// # Errors
/// As of the write itself; `TimedOut` if it has not returned, and may still happen.
pub(super) fn write(
    (path, lock): (&Path, Option<&Path>),
    value: &str,
    patience: Duration,
    hangs: bool,
) -> io::Result<()> {
    let in_c = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let (from_child, to_parent) = pipe_with(PipeFlags::CLOEXEC)?;
    let task = Task {
        path: in_c(path)?,
        lock: lock.map(in_c).transpose()?,
        value: value.as_bytes().to_vec(),
        hangs,
        // SAFETY: it has no preconditions.
        parent: unsafe { libc::getpid() },
        answer: to_parent.as_raw_fd(),
    };
    // Not `fork`: a child without a signal at its end is nobody else's to wait for.
    // SAFETY: the child makes only system calls, on what was allocated before, and ends.
    let child = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    if child == 0 {
        task.run();
    }
    if child < 0 {
        // There is no room for another process: here, where descriptors and locks must not stay behind.
        let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
        return file.write_all(value.as_bytes());
    }
    let child = libc::pid_t::try_from(child).map_err(io::Error::other)?;
    drop(to_parent);
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&from_child, PollFlags::IN)], Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(0) => {
                // What waits for something else than the kernel is not to write later.
                // SAFETY: it is our own child, which nobody has waited for.
                unsafe { libc::kill(child, libc::SIGKILL) };
                return Err(hung(patience));
            }
            Ok(_) => break,
        }
    }
    let mut errno = [0; 4];
    let answered = std::fs::File::from(from_child).read_exact(&mut errno);
    // SAFETY: it is our own child, which has answered or ended.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::__WALL) };
    answered.map_err(|_| io::Error::other("the process that wrote it was killed"))?;
    match i32::from_ne_bytes(errno) {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn hung(patience: Duration) -> io::Error {
    let seconds = patience.as_secs();
    let message = format!(
        "the kernel has not returned from a write to the queue for {seconds} s; the write may still happen"
    );
    io::Error::new(io::ErrorKind::TimedOut, message)
}

impl Task {
    /// In the child: nothing here allocates or locks.
    fn run(&self) -> ! {
        // SAFETY: system calls on what is ours, and on descriptors of this process alone.
        unsafe {
            libc::setsid(); // no Ctrl-C between the write and the answer
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            self.close_others();
            if libc::getppid() == self.parent {
                let errno = self.write().err().unwrap_or(0).to_ne_bytes();
                libc::write(self.answer, errno.as_ptr().cast(), errno.len());
            }
            libc::_exit(0)
        }
    }

    /// Whoever waits for the end of a pipe, or for another lock, is not to wait for a child that is left behind. That of the
    /// disk stays: who puts back what a killed run changed waits for its last write.
    unsafe fn close_others(&self) {
        for descriptor in (0..1024).filter(|&descriptor| descriptor != self.answer) {
            // SAFETY: zeros are a status, which is ours; nothing in this process uses the descriptor any more.
            unsafe {
                let mut status: libc::stat = std::mem::zeroed();
                let is_disk = libc::fstat(descriptor, &raw mut status) == 0
                    && status.st_mode & libc::S_IFMT == libc::S_IFBLK;
                if !is_disk {
                    libc::close(descriptor);
                }
            }
        }
    }

    fn write(&self) -> Result<(), i32> {
        let failed = || {
            io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO)
        };
        let open = |path: &CStr, flags: libc::c_int| {
            // SAFETY: the path ends with a zero byte.
            let file = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
            if file < 0 { Err(failed()) } else { Ok(file) }
        };
        if let Some(lock) = &self.lock
            && let Ok(directory) = open(lock, libc::O_RDONLY | libc::O_DIRECTORY)
        {
            // Whoever may read the directory may lock it: what cannot be locked soon is written all the same.
            for _ in 0..LOOKS {
                // SAFETY: it is open, and the time is ours.
                unsafe {
                    if libc::flock(directory, libc::LOCK_EX | libc::LOCK_NB) == 0 {
                        break;
                    }
                    libc::usleep(10_000);
                }
            }
        }
        // The kernel ignores the truncation; in a copied tree the value must replace the old one.
        let file = open(&self.path, libc::O_WRONLY | libc::O_TRUNC)?;
        if self.hangs {
            // SAFETY: it has no preconditions; only the end of its parent ends it.
            unsafe { libc::pause() };
        }
        let (bytes, length) = (self.value.as_ptr().cast(), self.value.len());
        // SAFETY: the buffer is as long as that.
        let written = unsafe { libc::write(file, bytes, length) };
        match usize::try_from(written) {
            Ok(written) if written == length => Ok(()),
            Ok(_) => Err(libc::EIO),
            Err(_) => Err(failed()),
        }
    }
}
