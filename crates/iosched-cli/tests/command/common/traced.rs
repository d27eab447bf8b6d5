//! A command that is killed right before its n-th system call of a kind, or whose call fails: every moment that
//! matters, none of them by luck. It is traced by `ptrace`, as a debugger would, with all its threads; what it
//! starts is not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Seek};
use std::mem::{MaybeUninit, size_of};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::ptr::null_mut;

/// System calls that fail for the same cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The disk is full.
    Write,
    /// The disk is broken.
    Sync,
    /// The disk is full.
    Rename,
    /// The disk is broken.
    Unlink,
    /// Too many files are open.
    Open,
    /// The disk is full.
    Mkdir,
    /// There is no room for another lock.
    Lock,
    /// The disk is broken.
    Read,
    /// There are too many processes.
    Fork,
    /// There is no memory.
    Memory,
    /// The device does not do that.
    Ioctl,
    /// It is not allowed.
    Mount,
}

impl Kind {
    fn errno(self) -> libc::c_int {
        match self {
            Kind::Write | Kind::Rename | Kind::Mkdir => libc::ENOSPC,
            Kind::Sync | Kind::Unlink | Kind::Read => libc::EIO,
            Kind::Open => libc::EMFILE,
            Kind::Lock => libc::ENOLCK,
            Kind::Fork => libc::EAGAIN,
            Kind::Memory => libc::ENOMEM,
            Kind::Ioctl => libc::EOPNOTSUPP,
            Kind::Mount => libc::EPERM,
        }
    }

    /// Which one a system call is of.
    fn of(call: libc::c_long) -> Option<Kind> {
        Some(match call {
            libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev | libc::SYS_ftruncate => {
                Kind::Write
            }
            libc::SYS_fsync | libc::SYS_fdatasync => Kind::Sync,
            libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => Kind::Rename,
            libc::SYS_unlinkat => Kind::Unlink,
            libc::SYS_openat | libc::SYS_openat2 => Kind::Open,
            libc::SYS_mkdirat => Kind::Mkdir,
            libc::SYS_flock => Kind::Lock,
            libc::SYS_read | libc::SYS_pread64 | libc::SYS_getdents64 => Kind::Read,
            libc::SYS_clone | libc::SYS_clone3 => Kind::Fork,
            libc::SYS_mmap | libc::SYS_brk | libc::SYS_mremap => Kind::Memory,
            libc::SYS_ioctl => Kind::Ioctl,
            libc::SYS_mount | libc::SYS_umount2 | libc::SYS_unshare => Kind::Mount,
            // What some C libraries and processors have besides.
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename | libc::SYS_link => Kind::Rename,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink | libc::SYS_rmdir => Kind::Unlink,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => Kind::Mkdir,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => Kind::Open,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_fork | libc::SYS_vfork => Kind::Fork,
            _ => return None,
        })
    }

    /// True if such a call changes files.
    pub(crate) fn is_change(self) -> bool {
        use Kind::{Mkdir, Rename, Sync, Unlink, Write};
        matches!(self, Write | Sync | Rename | Unlink | Mkdir)
    }
}

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The command is killed before it.
    Kill,
    /// It fails.
    Fail,
    /// It fails, and so do all of its kind after it.
    FailEver,
    /// The command gets SIGINT before it, as from Ctrl-C.
    Interrupt,
}

impl Way {
    /// True if this processor's registers are known here.
    pub(crate) fn is_possible(self) -> bool {
        matches!(self, Way::Kill | Way::Interrupt) || cfg!(target_arch = "x86_64")
    }
}

/// How a traced command ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By a signal.
    Killed,
    /// With this exit code.
    Exited(i32),
}

/// What a traced command did.
#[derive(Debug)]
pub(crate) struct Traced {
    pub end: End,
    /// How many calls of each kind it made before its first fault.
    pub calls: BTreeMap<Kind, usize>,
    /// What happened to it, if anything did.
    pub way: Way,
    /// The call at which it happened; `None` if it made fewer.
    pub hit: Option<String>,
    pub pid: u32,
    /// Empty where it went elsewhere.
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command to its end, and counts its calls.
pub(crate) fn count(command: &mut Command) -> Traced {
    run(command, |_| false, usize::MAX, Way::Kill)
}

/// Runs a command in which something happens at the `n`-th call (from 1) of those that are `wanted`.
pub(crate) fn run(
    command: &mut Command,
    wanted: impl Fn(Kind) -> bool,
    n: usize,
    way: Way,
) -> Traced {
    let mut out = tempfile::tempfile().expect("a file");
    let stdout = out.try_clone().expect("a descriptor");
    let traced = run_into(stdout, command, wanted, n, way);
    Traced {
        stdout: all_of(&mut out),
        ..traced
    }
}

/// Runs a command to its end, with something to be done before each of its calls that has a kind.
pub(crate) fn watch(stdout: fs::File, command: &mut Command, before: impl Fn(Kind)) -> Traced {
    let wanted = |kind| {
        before(kind);
        false
    };
    run_into(stdout, command, wanted, usize::MAX, Way::Kill)
}

fn run_into(
    stdout: fs::File,
    command: &mut Command,
    wanted: impl Fn(Kind) -> bool,
    n: usize,
    way: Way,
) -> Traced {
    let mut file = tempfile::tempfile().expect("a file");
    let stderr = file.try_clone().expect("a descriptor");
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    // SAFETY: `ptrace` is a system call and allocates nothing between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    #[expect(
        clippy::zombie_processes,
        reason = "its end is waited for by the tracer"
    )]
    let child = command.spawn().expect("the command under test");
    let mut tracer = Tracer {
        command: libc::pid_t::try_from(child.id()).expect("a pid"),
        known: BTreeSet::new(),
        failing: BTreeMap::new(),
        calls: BTreeMap::new(),
        count: 0,
        hit: None,
    };
    let end = tracer.trace(&wanted, n, way);
    Traced {
        end,
        calls: tracer.calls,
        way,
        hit: tracer.hit,
        pid: child.id(),
        stdout: String::new(),
        stderr: all_of(&mut file),
    }
}

/// What was written to a file that a command had as its output.
pub(crate) fn all_of(file: &mut fs::File) -> String {
    let mut said = Vec::new();
    file.rewind().expect("a file");
    file.read_to_end(&mut said).expect("what it said");
    String::from_utf8_lossy(&said).into_owned()
}

struct Tracer {
    /// The first thread.
    command: libc::pid_t,
    /// Threads that have stopped once.
    known: BTreeSet<libc::pid_t>,
    /// Threads in a call that does not happen, and what it gives instead.
    failing: BTreeMap<libc::pid_t, libc::c_int>,
    calls: BTreeMap<Kind, usize>,
    /// Of the wanted calls.
    count: usize,
    hit: Option<String>,
}

impl Tracer {
    fn trace(&mut self, wanted: &impl Fn(Kind) -> bool, n: usize, way: Way) -> End {
        loop {
            let (thread, status) = wait();
            if libc::WIFSIGNALED(status) || libc::WIFEXITED(status) {
                if thread != self.command {
                    continue;
                }
                return if libc::WIFEXITED(status) {
                    End::Exited(libc::WEXITSTATUS(status))
                } else {
                    End::Killed
                };
            }
            let signal = libc::WSTOPSIG(status);
            let mut passed_on = 0;
            if self.known.insert(thread) {
                // The stop of its beginning; a new thread has the options of the one that made it.
                if thread == self.command {
                    let options = libc::PTRACE_O_TRACESYSGOOD
                        | libc::PTRACE_O_EXITKILL
                        | libc::PTRACE_O_TRACECLONE;
                    let options = usize::try_from(options).expect("flags");
                    request(libc::PTRACE_SETOPTIONS, thread, options);
                }
            } else if signal == libc::SIGTRAP | 0x80 {
                self.at_call(thread, wanted, n, way);
            } else if status >> 16 == 0 {
                passed_on = usize::try_from(signal).expect("a signal");
            }
            request(libc::PTRACE_SYSCALL, thread, passed_on);
        }
    }

    /// A thread has stopped at the entry or the exit of a call.
    fn at_call(&mut self, thread: libc::pid_t, wanted: &impl Fn(Kind) -> bool, n: usize, way: Way) {
        let Some(Call { number, arguments }) = entered(thread) else {
            if let Some(errno) = self.failing.remove(&thread) {
                set_register(thread, Register::Result, -libc::c_long::from(errno));
            }
            return;
        };
        let Some(kind) = libc::c_long::try_from(number).ok().and_then(Kind::of) else {
            return;
        };
        if kind == Kind::Read && is_pipe(thread, arguments) {
            return;
        }
        if self.hit.is_none() {
            *self.calls.entry(kind).or_default() += 1;
        }
        if !wanted(kind) {
            return;
        }
        self.count += 1;
        if self.count < n || (self.count > n && way != Way::FailEver) {
            return;
        }
        if self.hit.is_none() {
            self.hit = Some(format!("{kind:?} {}", named(thread, kind, arguments)));
        }
        let signal = match way {
            Way::Kill => libc::SIGKILL,
            Way::Interrupt => libc::SIGINT,
            Way::Fail | Way::FailEver => {
                set_register(thread, Register::Call, -1);
                self.failing.insert(thread, kind.errno());
                return;
            }
        };
        // SAFETY: it is our own child, stopped.
        unsafe { libc::kill(self.command, signal) };
    }
}

struct Call {
    number: u64,
    arguments: [u64; 6],
}

/// The call at whose entry a thread is stopped; `None` at its exit.
fn entered(thread: libc::pid_t) -> Option<Call> {
    let mut info = MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
    let size = size_of::<libc::ptrace_syscall_info>();
    // SAFETY: the kernel writes at most `size` bytes there, and all bytes zero are a valid value.
    let info = unsafe {
        libc::ptrace(
            libc::PTRACE_GET_SYSCALL_INFO,
            thread,
            size,
            info.as_mut_ptr(),
        );
        info.assume_init()
    };
    if info.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
        return None;
    }
    // SAFETY: at an entry this is the field that the kernel has filled.
    let entry = unsafe { info.u.entry };
    Some(Call {
        number: entry.nr,
        arguments: entry.args,
    })
}

/// True if a call reads a pipe, which never fails (`pipe_read` of `fs/pipe.c`), and Rust's library relies on that.
fn is_pipe(thread: libc::pid_t, arguments: [u64; 6]) -> bool {
    let link = fs::read_link(format!("/proc/{thread}/fd/{}", arguments[0]));
    link.is_ok_and(|path| path.as_os_str().as_encoded_bytes().starts_with(b"pipe:"))
}

/// What a call is about, for people: a path or a descriptor's.
fn named(thread: libc::pid_t, kind: Kind, arguments: [u64; 6]) -> String {
    use std::os::unix::fs::FileExt;
    match kind {
        Kind::Memory | Kind::Fork => String::new(),
        Kind::Open | Kind::Unlink | Kind::Mkdir | Kind::Rename => {
            let mut path = [0; 200];
            let memory = fs::File::open(format!("/proc/{thread}/mem"));
            let read = memory.and_then(|memory| memory.read_at(&mut path, arguments[1]));
            let path = &path[..read.unwrap_or(0)];
            let end = path.iter().position(|&byte| byte == 0).unwrap_or(0);
            String::from_utf8_lossy(&path[..end]).into_owned()
        }
        _ => {
            let link = format!("/proc/{thread}/fd/{}", arguments[0]);
            fs::read_link(link).map_or_else(|_| String::new(), |path| path.display().to_string())
        }
    }
}

fn wait() -> (libc::pid_t, libc::c_int) {
    let mut status = 0;
    // SAFETY: `status` is ours. Other threads' children are theirs.
    let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
    assert!(thread > 0, "{}", io::Error::last_os_error());
    (thread, status)
}

#[derive(Clone, Copy)]
enum Register {
    /// Which call it is, at an entry.
    Call,
    /// What it gives, at an exit.
    Result,
}

#[cfg(target_arch = "x86_64")]
fn set_register(thread: libc::pid_t, register: Register, value: libc::c_long) {
    let offset = match register {
        Register::Call => std::mem::offset_of!(libc::user_regs_struct, orig_rax),
        Register::Result => std::mem::offset_of!(libc::user_regs_struct, rax),
    };
    // SAFETY: writes one register of our stopped child.
    unsafe { libc::ptrace(libc::PTRACE_POKEUSER, thread, offset, value) };
}

#[cfg(not(target_arch = "x86_64"))]
fn set_register(_thread: libc::pid_t, _register: Register, _value: libc::c_long) {
    unreachable!("`Way::is_possible` says so");
}

fn request(what: libc::c_uint, thread: libc::pid_t, data: usize) {
    // SAFETY: these requests take a number, and touch no memory of ours.
    unsafe { libc::ptrace(what, thread, null_mut::<libc::c_void>(), data) };
}

/// A process that stands still, unseen by its parent.
pub(crate) struct Held(libc::pid_t);

/// Kills a process, whose first thread then stands still at the very end of its life.
pub(crate) fn hold_dying(pid: u32) -> Held {
    let pid = libc::pid_t::try_from(pid).expect("a pid");
    let options = usize::try_from(libc::PTRACE_O_TRACEEXIT).expect("flags");
    request(libc::PTRACE_SEIZE, pid, options);
    // SAFETY: it is a process of the test's.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    let mut status = 0;
    // SAFETY: `status` is ours.
    let stopped = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
    assert_eq!(stopped, pid, "{}", io::Error::last_os_error());
    assert_eq!(status >> 16, libc::PTRACE_EVENT_EXIT, "{status:#x}");
    Held(pid)
}

impl Held {
    /// It goes on.
    pub(crate) fn let_go(self) {}
}

/// Also where the test fails: who waits for the process would wait for ever.
impl Drop for Held {
    fn drop(&mut self) {
        request(libc::PTRACE_DETACH, self.0, 0);
    }
}
