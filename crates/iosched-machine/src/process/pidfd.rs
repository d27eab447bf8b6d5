//! A process held by a descriptor, and on kernels that have no such thing (`pidfd_open`, Linux 5.3) by its number.
//!
//! The number of a child is its own until it was waited for. Another process' number may become somebody else's
//! between the look that recognises it and the signal: without pidfds the two follow each other at once, and no
//! closer is possible.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, pidfd_send_signal,
    waitid,
};

use super::stat::ProcessStat;
use crate::host::Host;

/// How often a process that is not our child is looked at without pidfds.
const STEP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// A process, whose end can be waited for: the descriptor becomes readable then.
#[derive(Debug)]
pub struct ProcessFd {
    pid: Pid,
    descriptor: OwnedFd,
    is_pidfd: bool,
}

impl ProcessFd {
    /// Holds the process that has this number now.
    ///
    /// # Errors
    /// There is none (`ESRCH`), or no descriptor or thread is left.
    pub fn open(pid: Pid) -> io::Result<ProcessFd> {
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Ok(ProcessFd {
                pid,
                descriptor,
                is_pidfd: true,
            }),
            Err(error) if is_lacking(error) => Ok(ProcessFd {
                pid,
                descriptor: watched(pid)?,
                is_pidfd: false,
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends it a signal. It may have ended by itself.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(if self.is_pidfd {
            pidfd_send_signal(&self.descriptor, signal)
        } else {
            kill_process(self.pid, signal)
        }?)
    }
}

impl AsFd for ProcessFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Signals a process if it is still the one that was found, which is asked once it is held: its number may be
/// another's by now.
pub fn signal_if(pid: Pid, signal: Signal, is_wanted: impl FnOnce() -> bool) {
    let held = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(held) => Some(held),
        Err(error) if is_lacking(error) => None,
        Err(_) => return,
    };
    if is_wanted() {
        // ESRCH (it has ended) is what we hope for.
        let _ = match held {
            Some(held) => pidfd_send_signal(held, signal),
            None => kill_process(pid, signal),
        };
    }
}

/// True if the kernel does not know the call, or forbids it to programs that a filter does not expect to know it.
fn is_lacking(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::PERM)
}

/// A pipe that ends when the process does: a thread of its own waits for that.
fn watched(pid: Pid) -> io::Result<OwnedFd> {
    let host = Host::live();
    let number = pid.as_raw_nonzero().get();
    let Some(begun) = ProcessStat::read(&host, number) else {
        return Err(Errno::SRCH.into());
    };
    let (reader, writer) = io::pipe()?;
    let watch = move || {
        if wait_for_child(pid) {
            return;
        }
        let is_there = || {
            let now = ProcessStat::read(&host, number);
            now.is_some_and(|now| now.start_ticks == begun.start_ticks && !now.is_zombie)
        };
        while is_there() {
            // Nobody waits any more once the other end is closed.
            let mut other_end = [PollFd::new(&writer, PollFlags::empty())];
            if poll(&mut other_end, Some(&STEP)).is_ok_and(|closed| closed > 0) {
                return;
            }
        }
    };
    let thread = thread::Builder::new().stack_size(STACK);
    thread.name("process-end".into()).spawn(watch)?;
    Ok(reader.into())
}

/// It calls little; who locks all memory has less of it to lock.
const STACK: usize = 128 << 10;

/// Waits for a child's end without taking the status, which is for whoever started it. False if it is no child of
/// ours, or none any more.
fn wait_for_child(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(pid), options) {
            Ok(_) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use iosched_testing::kernel::{LINUX_3_10, LINUX_4_19, on};

    use super::*;

    fn sleeps() -> (Child, Pid) {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_child(&child);
        (child, pid)
    }

    fn wait(process: &ProcessFd) {
        let mut waiting = [PollFd::new(process, PollFlags::IN)];
        poll(&mut waiting, None).unwrap();
        assert!(!waiting[0].revents().is_empty());
    }

    fn both_kernels(test: impl Fn() + Send + Sync) {
        test();
        for version in [LINUX_4_19, LINUX_3_10] {
            let ((), asked) = on(version, &test);
            assert!(format!("{asked:?}").contains("pidfd_open"), "{asked:?}");
        }
    }

    #[test]
    fn a_childs_end_is_noticed_and_its_status_left_for_who_started_it() {
        both_kernels(|| {
            let (mut child, pid) = sleeps();
            let held = ProcessFd::open(pid).unwrap();
            held.signal(Signal::TERM).unwrap();
            wait(&held);
            assert_eq!(child.wait().unwrap().code(), None, "a signal ended it");
        });
    }

    #[test]
    fn the_end_of_a_process_that_is_not_our_child_is_noticed() {
        both_kernels(|| {
            let script = "sleep 1000 >&- 2>&- & echo $!";
            let parent = Command::new("sh").args(["-c", script]).output().unwrap();
            let number = String::from_utf8(parent.stdout).unwrap();
            let pid = Pid::from_raw(number.trim().parse().unwrap()).unwrap();
            let held = ProcessFd::open(pid).unwrap();
            let mut nothing_yet = [PollFd::new(&held, PollFlags::IN)];
            assert_eq!(poll(&mut nothing_yet, Some(&STEP)), Ok(0));
            held.signal(Signal::KILL).unwrap();
            wait(&held);
        });
    }

    #[test]
    fn only_who_is_wanted_is_signalled() {
        both_kernels(|| {
            let (mut child, pid) = sleeps();
            signal_if(pid, Signal::KILL, || false);
            assert!(child.try_wait().unwrap().is_none());
            signal_if(pid, Signal::KILL, || true);
            assert_eq!(child.wait().unwrap().code(), None);
        });
    }

    #[test]
    fn who_is_gone_cannot_be_held() {
        both_kernels(|| {
            let mut command = Command::new("true");
            let mut child = command.stdin(Stdio::null()).spawn().unwrap();
            let pid = Pid::from_child(&child);
            child.wait().unwrap();
            assert!(ProcessFd::open(pid).is_err());
        });
    }
}
