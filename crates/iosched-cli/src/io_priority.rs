//! The I/O priority of what is measured: the usual one, however nice the command itself was made.
//!
//! The kernel takes the I/O priority of a process that has none from its niceness: `nice -n -10` is level 2, which has another
//! weight under bfq and longer slices under cfq, and bfq never raises it. So a run that is to be undisturbed would measure
//! something else than the programs that it stands for.

use std::io;

use rustix::process::getpriority_process;

const NORMAL: u32 = 4;
const CLASS_SHIFT: u32 = 13;
const REAL_TIME: u32 = 1;
const BEST_EFFORT: u32 = 2;
const IDLE: u32 = 3;
/// The calling thread (`IOPRIO_WHO_PROCESS` and 0); what it starts has its priority.
const THIS: [libc::c_int; 2] = [1, 0];

/// Gives this thread and all that it starts the usual I/O priority, unless `ionice` gave it another than its niceness does.
/// Where that fails, it stays as it is.
pub(crate) fn forget_niceness() {
    let (Ok(niceness), Ok(policy), Ok(now)) = (getpriority_process(None), policy(), priority())
    else {
        return;
    };
    let usual = value(BEST_EFFORT, NORMAL);
    if now != usual && comes_from_niceness(now, niceness, policy) {
        let [which, who] = THIS;
        // SAFETY: it takes numbers only.
        unsafe { libc::syscall(libc::SYS_ioprio_set, which, who, usual) };
    }
}

fn value(class: u32, level: u32) -> u32 {
    class << CLASS_SHIFT | level
}

/// Is this I/O priority the one that the kernel makes of a niceness, or none?
fn comes_from_niceness(priority: u32, niceness: i32, policy: libc::c_int) -> bool {
    let class = match policy {
        libc::SCHED_IDLE => IDLE,
        libc::SCHED_FIFO | libc::SCHED_RR => REAL_TIME,
        _ => BEST_EFFORT,
    };
    let level = u32::try_from((niceness + 20) / 5).unwrap_or(NORMAL);
    priority >> CLASS_SHIFT == 0 || priority == value(class, level)
}

/// The C library's function is not everywhere: musl's fails always.
fn policy() -> io::Result<libc::c_int> {
    /// The kernel's flag for "not for children".
    const RESET_ON_FORK: libc::c_int = 0x4000_0000;
    // SAFETY: it takes a number only; 0 is the calling thread.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    let policy = libc::c_int::try_from(policy)
        .ok()
        .filter(|policy| *policy >= 0);
    let policy = policy.ok_or_else(io::Error::last_os_error)?;
    Ok(policy & !RESET_ON_FORK)
}

fn priority() -> io::Result<u32> {
    let [which, who] = THIS;
    // SAFETY: it takes numbers only.
    let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, which, who) };
    u32::try_from(priority).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_that_somebody_gave_is_told_from_one_by_niceness() {
        let normal = libc::SCHED_OTHER;
        assert!(comes_from_niceness(value(BEST_EFFORT, 2), -10, normal));
        assert!(comes_from_niceness(value(BEST_EFFORT, 7), 19, normal));
        assert!(comes_from_niceness(value(IDLE, 7), 19, libc::SCHED_IDLE));
        assert!(comes_from_niceness(0, -10, normal));
        assert!(!comes_from_niceness(value(BEST_EFFORT, 4), -10, normal));
        assert!(!comes_from_niceness(value(BEST_EFFORT, 7), 0, normal));
        assert!(!comes_from_niceness(value(IDLE, 0), 0, normal));
    }
}
