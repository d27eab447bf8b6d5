//! A command killed right before its n-th system call that changes files: every moment that matters, none of
//! them by luck. It is traced by `ptrace`, as a debugger would.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::ptr::null_mut;

/// The system calls before which it can be killed.
const CHANGES: &[libc::c_long] = &[
    libc::SYS_write,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_mkdirat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_linkat,
    libc::SYS_fchmod,
    // What some C libraries and processors have besides.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
];

/// How a traced command ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It was killed.
    Killed,
    /// It has fewer such calls, and ended with this exit code.
    Exited(i32),
}

/// Runs a command of one thread, and kills it before its `n`-th change (from 1).
pub(crate) fn before_change(n: usize, command: &mut Command) -> End {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: `ptrace` is a system call and allocates nothing between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    #[expect(clippy::zombie_processes, reason = "its end is waited for by `trace`")]
    let child = command.spawn().expect("the command under test");
    let pid = libc::pid_t::try_from(child.id()).expect("a pid");
    trace(pid, n)
}

fn trace(pid: libc::pid_t, n: usize) -> End {
    let mut is_first = true;
    let mut changes = 0;
    loop {
        let status = wait(pid);
        if libc::WIFSIGNALED(status) {
            return End::Killed;
        }
        if libc::WIFEXITED(status) {
            return End::Exited(libc::WEXITSTATUS(status));
        }
        if is_first {
            is_first = false;
            let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
            let options = usize::try_from(options).expect("flags");
            request(libc::PTRACE_SETOPTIONS, pid, options);
        } else if is_change(pid) {
            changes += 1;
        }
        if changes == n {
            // SAFETY: it is our own child, stopped.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            changes += 1;
        } else {
            request(libc::PTRACE_SYSCALL, pid, 0);
        }
    }
}

/// True if it is stopped at the entry of a system call that changes files.
fn is_change(pid: libc::pid_t) -> bool {
    let mut info = MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
    let size = size_of::<libc::ptrace_syscall_info>();
    // SAFETY: the kernel writes at most `size` bytes there, and all bytes zero are a valid value.
    let info = unsafe {
        libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, pid, size, info.as_mut_ptr());
        info.assume_init()
    };
    if info.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
        return false;
    }
    // SAFETY: at an entry this is the field that the kernel has filled.
    let number = unsafe { info.u.entry.nr };
    CHANGES
        .iter()
        .any(|&call| u64::try_from(call) == Ok(number))
}

fn wait(pid: libc::pid_t) -> libc::c_int {
    let mut status = 0;
    // SAFETY: `status` is ours.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
    assert_eq!(waited, pid, "{}", io::Error::last_os_error());
    status
}

fn request(what: libc::c_uint, pid: libc::pid_t, data: usize) {
    // SAFETY: these requests take a number, and touch no memory of ours.
    unsafe { libc::ptrace(what, pid, null_mut::<libc::c_void>(), data) };
}
