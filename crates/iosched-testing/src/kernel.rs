//! A kernel older than ours: what came after a chosen version fails as it fails there, for a piece of work and all that
//! it starts.
//!
//! A seccomp filter (`seccomp_unotify(2)`) asks this process about each such call; it writes down which program asked
//! for what, and refuses. Other threads keep the kernel that they have. Only calls are filtered: `/sys` and `/proc`
//! stay those of the machine, which a test replaces by a copied tree (`--root`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::panic;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Major and minor version of a kernel.
pub type Version = (u32, u32);

/// The last series with the single-queue block layer.
pub const LINUX_4_19: Version = (4, 19);

/// The oldest one that we support.
pub const LINUX_3_10: Version = (3, 10);

/// Something that a kernel can be asked for by a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facility {
    /// As `results/kernels.md` has it.
    pub name: &'static str,
    /// The first kernel that has it.
    pub since: Version,
    call: Call,
}

/// By which call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// A call of its own: `ENOSYS` before.
    Number(u32),
    /// A request of `ioctl`: `EINVAL` before, as `lo_ioctl` says.
    Ioctl(u32),
    /// An option of `prctl`: `EINVAL` before.
    Prctl(u32),
    /// A flag of `openat` without which the rest of its flags ask for a directory: `EISDIR` before.
    OpenFlag(u32),
    /// A flag of `getrandom`: `EINVAL` before.
    RandomFlag(u32),
}

impl Call {
    fn errno(self) -> libc::c_int {
        match self {
            Call::Number(_) => libc::ENOSYS,
            Call::Ioctl(_) | Call::Prctl(_) | Call::RandomFlag(_) => libc::EINVAL,
            Call::OpenFlag(_) => libc::EISDIR,
        }
    }
}

const fn call(name: &'static str, number: libc::c_long, since: Version) -> Facility {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "they are below 1000"
    )]
    let call = Call::Number(number as u32);
    Facility { name, since, call }
}

/// The bit of `O_TMPFILE` that is its own.
const O_TMPFILE: u32 = (libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;

/// Everything newer than Linux 3.10 that a program can call, after `arch/x86/entry/syscalls/syscall_64.tbl` of 6.18 and
/// the history of each call's manual page; of requests and options of older calls, those that are ours or a library's.
/// What has a larger number than the last one here is newer than all of them.
pub const FACILITIES: &[Facility] = &[
    Facility {
        name: "O_TMPFILE",
        since: (3, 11),
        call: Call::OpenFlag(O_TMPFILE),
    },
    call("sched_setattr", libc::SYS_sched_setattr, (3, 14)),
    call("sched_getattr", libc::SYS_sched_getattr, (3, 14)),
    call("renameat2", libc::SYS_renameat2, (3, 15)),
    call("seccomp", libc::SYS_seccomp, (3, 17)),
    call("getrandom", libc::SYS_getrandom, (3, 17)),
    call("memfd_create", libc::SYS_memfd_create, (3, 17)),
    call("kexec_file_load", libc::SYS_kexec_file_load, (3, 17)),
    call("bpf", libc::SYS_bpf, (3, 18)),
    call("execveat", libc::SYS_execveat, (3, 19)),
    call("userfaultfd", libc::SYS_userfaultfd, (4, 3)),
    call("membarrier", libc::SYS_membarrier, (4, 3)),
    call("mlock2", libc::SYS_mlock2, (4, 4)),
    call("copy_file_range", libc::SYS_copy_file_range, (4, 5)),
    call("preadv2", libc::SYS_preadv2, (4, 6)),
    call("pwritev2", libc::SYS_pwritev2, (4, 6)),
    call("pkey_mprotect", libc::SYS_pkey_mprotect, (4, 9)),
    call("pkey_alloc", libc::SYS_pkey_alloc, (4, 9)),
    call("pkey_free", libc::SYS_pkey_free, (4, 9)),
    call("statx", libc::SYS_statx, (4, 11)),
    call("io_pgetevents", 333, (4, 18)),
    call("rseq", libc::SYS_rseq, (4, 18)),
    call("uretprobe", 335, (6, 11)),
    call("pidfd_send_signal", libc::SYS_pidfd_send_signal, (5, 1)),
    call("io_uring_setup", libc::SYS_io_uring_setup, (5, 1)),
    call("io_uring_enter", libc::SYS_io_uring_enter, (5, 1)),
    call("io_uring_register", libc::SYS_io_uring_register, (5, 1)),
    call("open_tree", libc::SYS_open_tree, (5, 2)),
    call("move_mount", libc::SYS_move_mount, (5, 2)),
    call("fsopen", libc::SYS_fsopen, (5, 2)),
    call("fsconfig", libc::SYS_fsconfig, (5, 2)),
    call("fsmount", libc::SYS_fsmount, (5, 2)),
    call("fspick", libc::SYS_fspick, (5, 2)),
    call("pidfd_open", libc::SYS_pidfd_open, (5, 3)),
    call("clone3", libc::SYS_clone3, (5, 3)),
    Facility {
        name: "PR_SET_IO_FLUSHER",
        since: (5, 6),
        call: Call::Prctl(57),
    },
    Facility {
        name: "GRND_INSECURE",
        since: (5, 6),
        call: Call::RandomFlag(libc::GRND_INSECURE),
    },
    call("openat2", libc::SYS_openat2, (5, 6)),
    call("pidfd_getfd", libc::SYS_pidfd_getfd, (5, 6)),
    Facility {
        name: "LOOP_CONFIGURE",
        since: (5, 8),
        call: Call::Ioctl(0x4C0A),
    },
    call("faccessat2", libc::SYS_faccessat2, (5, 8)),
    call("close_range", libc::SYS_close_range, (5, 9)),
    call("process_madvise", libc::SYS_process_madvise, (5, 10)),
    call("epoll_pwait2", libc::SYS_epoll_pwait2, (5, 11)),
    call("mount_setattr", libc::SYS_mount_setattr, (5, 12)),
    call("landlock_create_ruleset", 444, (5, 13)),
    call("landlock_add_rule", 445, (5, 13)),
    call("landlock_restrict_self", 446, (5, 13)),
    call("quotactl_fd", 443, (5, 14)),
    call("memfd_secret", 447, (5, 14)),
    call("process_mrelease", 448, (5, 15)),
    Facility {
        name: "PR_GET_AUXV",
        since: (6, 4),
        call: Call::Prctl(0x4155_5856),
    },
    call("futex_waitv", 449, (5, 16)),
    call("set_mempolicy_home_node", 450, (5, 17)),
    call("cachestat", 451, (6, 5)),
    call("fchmodat2", 452, (6, 6)),
    call("map_shadow_stack", 453, (6, 6)),
    call("futex_wake", 454, (6, 7)),
    call("futex_wait", 455, (6, 7)),
    call("futex_requeue", 456, (6, 7)),
    call("statmount", 457, (6, 8)),
    call("listmount", 458, (6, 8)),
    call("lsm_get_self_attr", 459, (6, 8)),
    call("lsm_set_self_attr", 460, (6, 8)),
    call("lsm_list_modules", 461, (6, 8)),
    call("mseal", 462, (6, 10)),
    call("setxattrat", 463, (6, 13)),
    call("getxattrat", 464, (6, 13)),
    call("listxattrat", 465, (6, 13)),
    call("removexattrat", 466, (6, 13)),
    call("open_tree_attr", 467, (6, 15)),
    call("file_getattr", 468, (6, 17)),
    call("file_setattr", 469, (6, 17)),
];

/// What programs asked for and did not get, by the file name of the program.
pub type Asked = BTreeMap<String, BTreeSet<String>>;

/// Does something on a kernel of this version; with what was asked for there. What goes on afterwards stays on it.
///
/// # Panics
/// Where the work panics, or the kernel takes no such filter.
pub fn on<T: Send>(version: Version, work: impl FnOnce() -> T + Send) -> (T, Asked) {
    thread::scope(|threads| {
        let (sender, receiver) = mpsc::channel();
        let worker = threads.spawn(move || {
            let listener = install(&filter(version));
            let listener =
                listener.unwrap_or_else(|error| panic!("no old kernel by seccomp: {error}"));
            sender.send(listener).expect("somebody waits for it");
            work()
        });
        let mut asked = Asked::new();
        if let Ok(listener) = receiver.recv() {
            while !worker.is_finished() {
                if is_readable(&listener) {
                    refuse_next(&listener, version, &mut asked);
                }
            }
        }
        let done = worker.join();
        (
            done.unwrap_or_else(|panic| panic::resume_unwind(panic)),
            asked,
        )
    })
}

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_ABOVE: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
const IF_SET: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`, as wide as the field.
const CONTINUE: u32 = 1;

/// Where the call's number is in `struct seccomp_data`, and the lower half of an argument (little-endian machines).
const NUMBER: u32 = 0;
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

/// Asks about all that is newer than this version.
fn filter(version: Version) -> Vec<libc::sock_filter> {
    let mut program = vec![step(LOAD, NUMBER, 0)];
    let newer = FACILITIES.iter().filter(|of| of.since > version);
    let mut last = 0;
    for facility in newer {
        match facility.call {
            Call::Number(number) => {
                last = last.max(number);
                program.push(step(IF_EQUAL, number, 1));
                program.push(step(RETURN, libc::SECCOMP_RET_USER_NOTIF, 0));
            }
            Call::Ioctl(request) => argument_is(&mut program, libc::SYS_ioctl, 1, request),
            Call::Prctl(option) => argument_is(&mut program, libc::SYS_prctl, 0, option),
            Call::OpenFlag(flag) => argument_has(&mut program, libc::SYS_openat, 2, flag),
            Call::RandomFlag(flag) => argument_has(&mut program, libc::SYS_getrandom, 2, flag),
        }
    }
    program.push(step(IF_ABOVE, last, 1));
    program.push(step(RETURN, libc::SECCOMP_RET_USER_NOTIF, 0));
    program.push(step(RETURN, libc::SECCOMP_RET_ALLOW, 0));
    program
}

fn argument_is(program: &mut Vec<libc::sock_filter>, call: libc::c_long, index: u32, value: u32) {
    about_argument(program, call, index, step(IF_EQUAL, value, 1));
}

fn argument_has(program: &mut Vec<libc::sock_filter>, call: libc::c_long, index: u32, bits: u32) {
    about_argument(program, call, index, step(IF_SET, bits, 1));
}

fn about_argument(
    program: &mut Vec<libc::sock_filter>,
    call: libc::c_long,
    index: u32,
    condition: libc::sock_filter,
) {
    let call = u32::try_from(call).expect("a call's number");
    program.extend([
        step(IF_EQUAL, call, 4),
        step(LOAD, argument(index), 0),
        condition,
        step(RETURN, libc::SECCOMP_RET_USER_NOTIF, 0),
        step(LOAD, NUMBER, 0),
    ]);
}

/// One instruction; of a condition, how many are left out where it is not met.
fn step(code: u32, value: u32, otherwise: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: u16::try_from(code).expect("an instruction has 16 bits"),
        jt: 0,
        jf: otherwise,
        k: value,
    }
}

/// Puts this thread and what it starts under the filter.
fn install(program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    if !rustix::process::geteuid().is_root() {
        rustix::thread::set_no_new_privs(true)?;
    }
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).expect("a short program"),
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel copies the program, which lives until then, and gives a new descriptor or -1.
    let listener = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    if listener < 0 {
        return Err(io::Error::last_os_error());
    }
    let listener = i32::try_from(listener).expect("a descriptor");
    // SAFETY: it is new, and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(listener) })
}

/// True once somebody asks; false after a moment without.
fn is_readable(listener: &OwnedFd) -> bool {
    let moment = Timespec {
        tv_sec: 0,
        tv_nsec: 20_000_000,
    };
    let mut waiting = [PollFd::new(listener, PollFlags::IN)];
    poll(&mut waiting, Some(&moment)).is_ok_and(|ready| ready > 0)
        && waiting[0].revents().contains(PollFlags::IN)
}

/// Answers one call as the old kernel does. Of a call that it lacks no flag matters.
fn refuse_next(listener: &OwnedFd, version: Version, asked: &mut Asked) {
    let mut call = MaybeUninit::<libc::seccomp_notif>::zeroed();
    // SAFETY: the kernel wants zeros there, and fills it; zeros are a value of it, too.
    let call = unsafe {
        let done = libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV,
            call.as_mut_ptr(),
        );
        if done < 0 {
            return; // who asked was killed meanwhile
        }
        call.assume_init()
    };
    let lacking = FACILITIES.iter().filter(|of| of.since > version);
    let lacking = lacking.filter(|of| is_call(of.call, &call.data));
    let facility = lacking.min_by_key(|of| of.since);
    let name = facility.map_or_else(
        || format!("system call {}", call.data.nr),
        |of| of.name.to_owned(),
    );
    let errno = facility.map_or(libc::ENOSYS, |of| of.call.errno());
    let mut answer = libc::seccomp_notif_resp {
        id: call.id,
        val: 0,
        error: -errno,
        flags: 0,
    };
    if name == "rseq" && is_thread_of_ours(call.pid) {
        // The C library ends a program of which one thread has it and another one cannot get it.
        answer.error = 0;
        answer.flags = CONTINUE;
    } else {
        asked.entry(program(call.pid)).or_default().insert(name);
    }
    // SAFETY: the kernel reads it. It fails only if who asked is gone.
    unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND,
            &raw const answer,
        );
    }
}

fn is_call(call: Call, data: &libc::seccomp_data) -> bool {
    let is = |number: libc::c_long| libc::c_long::from(data.nr) == number;
    let lower = |index: usize| data.args[index] & u64::from(u32::MAX);
    match call {
        Call::Number(number) => is(libc::c_long::from(number)),
        Call::Ioctl(request) => is(libc::SYS_ioctl) && lower(1) == u64::from(request),
        Call::Prctl(option) => is(libc::SYS_prctl) && lower(0) == u64::from(option),
        Call::OpenFlag(flag) => is(libc::SYS_openat) && lower(2) & u64::from(flag) != 0,
        Call::RandomFlag(flag) => is(libc::SYS_getrandom) && lower(2) & u64::from(flag) != 0,
    }
}

fn is_thread_of_ours(thread: u32) -> bool {
    Path::new(&format!("/proc/self/task/{thread}")).exists()
}

/// The file name of the program that a thread runs.
fn program(thread: u32) -> String {
    let path = fs::read_link(format!("/proc/{thread}/exe")).unwrap_or_default();
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use rustix::process::{PidfdFlags, getpid, pidfd_open};

    use super::*;

    #[test]
    fn what_is_newer_is_refused_and_written_down_and_the_rest_is_not() {
        let ask = || pidfd_open(getpid(), PidfdFlags::empty()).map(drop);
        assert_eq!(ask(), Ok(()), "this kernel has it");
        let (refused, asked) = on(LINUX_4_19, ask);
        assert_eq!(refused, Err(rustix::io::Errno::NOSYS));
        let of_us = asked.values().next().map(BTreeSet::len);
        assert_eq!((asked.len(), of_us), (1, Some(1)), "{asked:?}");
        assert!(asked.values().all(|calls| calls.contains("pidfd_open")));
        let (given, asked) = on((5, 3), ask);
        assert_eq!((given, asked.len()), (Ok(()), 0), "{asked:?}");
    }

    #[test]
    fn a_program_that_is_started_there_is_there_too() {
        let (status, asked) = on(LINUX_3_10, || {
            let mut command = std::process::Command::new("stat");
            command.arg("/").stdout(std::process::Stdio::null());
            command.status()
        });
        assert!(status.is_ok_and(|status| status.success()));
        assert!(
            asked.values().any(|calls| calls.contains("statx")),
            "{asked:?}"
        );
    }

    #[test]
    fn no_call_stands_twice_in_the_table() {
        for (index, facility) in FACILITIES.iter().enumerate() {
            let others = &FACILITIES[index + 1..];
            let is_same =
                |other: &Facility| other.name == facility.name || other.call == facility.call;
            assert!(!others.iter().any(is_same), "{facility:?}");
        }
    }
}
