//! What a process or a thread has read from disks and written to them, as the kernel accounts for it.
//!
//! Follows `/proc/PID/io` (`proc_pid_io(5)`): what goes past the page cache counts when it is submitted; what goes through
//! it to a disk counts where the page was made dirty, and not for the kernel's thread that writes it. Of other users'
//! processes only root is told.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::Pid;

use super::numbers::{numbers, numbers_below};
use super::stat::ProcessStat;
use crate::host::Host;

/// Bytes since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IoBytes {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

impl IoBytes {
    /// From the text of `/proc/PID/io`; `None` where the kernel does not count them.
    pub(crate) fn parse(text: &str) -> Option<IoBytes> {
        let number = |name: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        let cancelled = number("cancelled_write_bytes:").unwrap_or(0);
        Some(IoBytes {
            read: number("read_bytes:")?,
            written: number("write_bytes:")?.saturating_sub(cancelled),
        })
    }
}

/// The session of the child that a [`Scope`](super::Scope) started last: the child, and what it started that stayed with it.
#[derive(Debug, Clone, Default)]
pub struct Session(Arc<AtomicI32>);

/// The threads of a session, the first of each process aside: those do the work of a program that has several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Workers {
    /// How many there are.
    pub count: usize,
    /// How many of them have read from a disk or written to one; `None` where there is no telling.
    pub with_io: Option<usize>,
}

impl Session {
    pub(super) fn begin(&self, leader: Pid) {
        let leader = leader.as_raw_nonzero().get();
        self.0.store(leader, Ordering::Relaxed);
    }

    /// Those that are there now: none before it has begun.
    pub fn workers(&self, host: &Host) -> Workers {
        let session = self.0.load(Ordering::Relaxed);
        if session == 0 {
            return Workers::default();
        }
        let is_of_it =
            |pid: &i32| ProcessStat::read(host, *pid).is_some_and(|stat| stat.session == session);
        let processes = numbers(host).unwrap_or_default().into_iter();
        let mut workers = Workers::default();
        for pid in processes.filter(is_of_it) {
            let threads = numbers_below(host, &format!("{pid}/task")).unwrap_or_default();
            for thread in threads.into_iter().filter(|&thread| thread != pid) {
                workers.count += 1;
                let text = fs::read_to_string(host.proc(&format!("{pid}/task/{thread}/io")));
                if let Some(bytes) = text.ok().and_then(|text| IoBytes::parse(&text)) {
                    let has_io = bytes.read + bytes.written > 0;
                    *workers.with_io.get_or_insert(0) += usize::from(has_io);
                }
            }
        }
        workers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_writes_do_not_count_and_a_kernel_that_counts_nothing_is_told_apart() {
        let text = "rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 4096\n";
        let expected = IoBytes {
            read: 4096,
            written: 4096,
        };
        assert_eq!(IoBytes::parse(text), Some(expected));
        assert_eq!(IoBytes::parse("rchar: 9\nwchar: 9\n"), None);
    }

    #[test]
    fn a_session_that_has_not_begun_has_no_workers() {
        assert_eq!(
            Session::default().workers(&Host::live()),
            Workers::default()
        );
    }
}
