//! A process held by a descriptor (`pidfd_open`, Linux 5.3): its number may become another process' at any moment.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// A process whose end can be waited for: the descriptor becomes readable then.
#[derive(Debug)]
pub struct ProcessFd(OwnedFd);

impl ProcessFd {
    /// Holds the process that has this number now.
    ///
    /// # Errors
    /// There is none (`ESRCH`), or the kernel is older than 5.3.
    pub fn open(pid: Pid) -> io::Result<ProcessFd> {
        Ok(ProcessFd(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Sends it a signal. It may have ended by itself.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.0, signal)?)
    }
}

impl AsFd for ProcessFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Signals a process if it is still the one that was found, which is asked once it is held. On an older kernel the signal
/// follows the question at once.
pub fn signal_if(pid: Pid, signal: Signal, is_wanted: impl FnOnce() -> bool) {
    let held = ProcessFd::open(pid);
    if is_wanted() {
        // That it has ended is what we hope for.
        let _ = match held {
            Ok(held) => held.signal(signal),
            Err(_) => kill_process(pid, signal).map_err(io::Error::from),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use iosched_testing::kernel::{LINUX_3_10, on};

    use super::*;

    #[test]
    fn only_who_is_wanted_is_signalled_on_an_old_kernel_too() {
        let test = || {
            let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
            let pid = Pid::from_child(&child);
            signal_if(pid, Signal::KILL, || false);
            assert!(child.try_wait().unwrap().is_none());
            signal_if(pid, Signal::KILL, || true);
            assert_eq!(child.wait().unwrap().code(), None);
        };
        test();
        let ((), asked) = on(LINUX_3_10, test);
        assert!(format!("{asked:?}").contains("pidfd_open"), "{asked:?}");
    }
}
