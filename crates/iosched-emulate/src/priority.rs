//! Priorities of the server's threads: a clock that is woken late makes a disk that is late.

use std::io;

use super::log::log;

/// The clock's thread goes before everything else: what it does is short, and late is wrong.
pub(super) fn run_clock_in_real_time() {
    // The kernel's `struct sched_param`. The C library's function is not everywhere: musl's fails always.
    let priority: libc::c_int = 1;
    // SAFETY: 0 is the calling thread; the pointer is to a structure that lives through the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_FIFO,
            &raw const priority,
        )
    };
    if result != 0 {
        let error = io::Error::last_os_error();
        log(format_args!(
            "the clock gets no real-time priority: {error}"
        ));
        prefer_this_thread();
    }
}

/// Goes before other threads, as do the threads that this one makes.
pub(super) fn prefer_this_thread() {
    // None is the calling thread on Linux.
    if let Err(error) = rustix::process::setpriority_process(None, -20) {
        log(format_args!("no higher priority: {error}"));
    }
}
