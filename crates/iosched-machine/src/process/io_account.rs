//! What a process or a thread has read from disks and written to them, as the kernel accounts for it.
//!
//! Follows `/proc/PID/io` (`proc_pid_io(5)`): what goes past the page cache counts when it is submitted; what goes through
//! it to a disk counts where the page was made dirty, and not for the kernel's thread that writes it. Of other users'
//! processes only root is told.

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
}
