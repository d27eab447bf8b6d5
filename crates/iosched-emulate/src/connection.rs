//! What a server does with its own disk, it does on threads that do not hold the connection to FUSE open.
//!
//! A thread that waits for an answer of FUSE, or for a request of the loop device above it, does not end
//! before that has come, whatever kills it. If the process is killed, the threads that answer end; the kernel
//! fails what is waited for once the last descriptor of `/dev/fuse` is closed; and threads of a process share
//! their descriptors until the last one has ended. So a server that was killed while it attached its loop
//! device would wait for itself for ever, and whoever opens that device, with it. A thread with descriptors
//! of its own, without that one, cannot.

use std::io;
use std::os::fd::RawFd;
use std::panic::resume_unwind;

use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::log::log;

/// Memory is locked; nothing that is done here goes deep.
const STACK: usize = 1 << 20;

/// Does what may wait for this process's own disk. It can answer no request: that is for threads with the
/// connection. Descriptors that `work` opens are its own: no other thread can use them.
///
/// # Errors
/// There is no thread for it.
pub(super) fn without<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let threads = std::thread::Builder::new().name("beside".to_owned());
        let thread = threads.stack_size(STACK).spawn_scoped(scope, || {
            if let Err(error) = let_go() {
                log(format_args!("cannot let go of /dev/fuse: {error}"));
            }
            work()
        })?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Gives this thread descriptors of its own, without those of `/dev/fuse`.
fn let_go() -> io::Result<()> {
    // SAFETY: whatever this thread opens from here on, it closes itself or leaves to its own end: `without` hands
    // out what `work` returns, and that has no descriptors.
    unsafe { unshare_unsafe(UnshareFlags::FILES) }?;
    let mut connections: Vec<RawFd> = Vec::new();
    for entry in std::fs::read_dir("/proc/thread-self/fd")? {
        let entry = entry?;
        let stands_for = std::fs::read_link(entry.path());
        if stands_for.is_ok_and(|file| file.as_os_str() == "/dev/fuse") {
            let number = entry.file_name();
            connections.extend(
                number
                    .to_str()
                    .and_then(|number| number.parse::<RawFd>().ok()),
            );
        }
    }
    for connection in connections {
        // SAFETY: only this thread's copy is closed, and it never uses it.
        unsafe { rustix::io::close(connection) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn is_open(descriptor: RawFd) -> bool {
        std::fs::read_link(format!("/proc/thread-self/fd/{descriptor}")).is_ok()
    }

    #[test]
    fn work_has_all_descriptors_but_those_of_fuse_and_leaves_them_to_the_others() {
        let Ok(fuse) = File::open("/dev/fuse") else {
            iosched_testing::lacks("/dev/fuse");
            return;
        };
        let null = File::open("/dev/null").unwrap();
        let (connection, other) = (fuse.as_raw_fd(), null.as_raw_fd());
        let done = AtomicBool::new(false);
        without(|| {
            assert!(!is_open(connection));
            assert!(is_open(other));
            done.store(true, Ordering::Relaxed);
        })
        .unwrap();
        assert!(done.into_inner() && is_open(connection) && is_open(other));
    }
}
