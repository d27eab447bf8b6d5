//! What keeps a program from everything but what it works on, whatever it is told to do, and whoever runs it.
//!
//! - Landlock (Linux 5.13): it opens, makes and runs only what its [`Reach`] names.
//! - Where Landlock is lacking, as root: a root file system of its own, in a mount namespace, in which only that is there.
//! - A seccomp filter: no process besides its own threads, no sockets, no mounts, modules, clocks or owners of files.
//! - `no_new_privs`.
//!
//! Follows `landlock(7)` and `seccomp(2)`. Everything is prepared before the fork; the child makes system calls only.

use std::ffi::{CStr, CString};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr::null;

use rustix::thread::set_no_new_privs;

/// What a program can open.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// Files and directories that are read, and run.
    pub reads: Vec<PathBuf>,
    /// Files, devices and directories that are read and written.
    pub writes: Vec<PathBuf>,
}

/// Where programs and their libraries are, and what they look at when they start.
const OF_PROGRAMS: [&str; 18] = [
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/alternatives",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/sys",
];

impl Reach {
    /// For this program: what it is made of, and what it works on.
    pub fn of(program: &Path, writes: Vec<PathBuf>) -> Reach {
        let of_programs = OF_PROGRAMS.iter().map(PathBuf::from);
        let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let named: Vec<PathBuf> = std::env::split_paths(&named)
            .filter(|path| path.is_absolute())
            .collect();
        let devices = ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"];
        // Those of a program that was installed with libraries of its own.
        let prefix = program.canonicalize().unwrap_or_default();
        let prefix = prefix
            .parent()
            .and_then(Path::parent)
            .filter(|prefix| *prefix != Path::new("/"));
        let beside = prefix
            .into_iter()
            .flat_map(|prefix| ["lib", "lib64"].map(|lib| prefix.join(lib)));
        let reads = of_programs
            .chain(named)
            .chain(beside)
            .chain([program.to_owned()]);
        Reach {
            reads: reads.filter(|path| path.exists()).collect(),
            writes: devices.iter().map(PathBuf::from).chain(writes).collect(),
        }
    }
}

/// Ready to be entered by a child.
#[derive(Debug)]
pub(super) struct Sandbox {
    walls: Walls,
    filter: Vec<libc::sock_filter>,
}

#[derive(Debug)]
enum Walls {
    Landlock(OwnedFd),
    Root(Vec<Mounted>),
    /// Neither is to be had: the rights of whoever runs it.
    None,
}

impl Sandbox {
    pub(super) fn prepare(reach: &Reach) -> io::Result<Sandbox> {
        let walls = match ruleset()? {
            Some((ruleset, handled)) => {
                let runs = EXECUTE | READ_FILE | READ_DIR;
                for path in &reach.reads {
                    allow(&ruleset, path, handled & runs)?;
                }
                for path in &reach.writes {
                    allow(&ruleset, path, handled & !NEVER)?;
                }
                Walls::Landlock(ruleset)
            }
            None if rustix::process::geteuid().is_root() => Walls::Root(mounts(reach)?),
            None => Walls::None,
        };
        let filter = filter();
        Ok(Sandbox { walls, filter })
    }

    /// In the child, with our own rights still.
    pub(super) fn change_root(&self) -> io::Result<()> {
        match &self.walls {
            Walls::Root(mounted) => change_root(mounted),
            _ => Ok(()),
        }
    }

    /// In the child, last: for good.
    pub(super) fn enter(&self) -> io::Result<()> {
        set_no_new_privs(true)?;
        if let Walls::Landlock(ruleset) = &self.walls {
            // SAFETY: takes numbers only.
            checked(unsafe { libc::syscall(RESTRICT_SELF, ruleset.as_raw_fd(), 0) })?;
        }
        install(&self.filter);
        Ok(())
    }
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

// `landlock_create_ruleset` and the two others have the same numbers on every architecture.
const CREATE_RULESET: libc::c_long = 444;
const ADD_RULE: libc::c_long = 445;
const RESTRICT_SELF: libc::c_long = 446;

// `LANDLOCK_ACCESS_FS_*`
const EXECUTE: u64 = 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
/// What is a right to a file that is no directory: execute, write, read, truncate, ioctl of a device.
const OF_FILES: u64 = EXECUTE | 1 << 1 | READ_FILE | 1 << 14 | 1 << 15;
/// What nothing may be done anywhere: execute what was written; make devices, sockets, FIFOs and links.
const NEVER: u64 = EXECUTE | 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;

/// `struct landlock_ruleset_attr`; kernels that know less of it take zeros for the rest.
#[repr(C)]
struct RulesetAttributes {
    file_system: u64,
    network: u64,
    scoped: u64,
}

/// A new set of rules, and the file system rights that it knows; `None` where this kernel has none.
fn ruleset() -> io::Result<Option<(OwnedFd, u64)>> {
    const VERSION: libc::c_long = 1;
    // SAFETY: a null pointer is what this question takes.
    let version = unsafe { libc::syscall(CREATE_RULESET, null::<u8>(), 0, VERSION) };
    let bits = match version {
        ..1 => return Ok(None),
        1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    let attributes = RulesetAttributes {
        file_system: (1 << bits) - 1,
        // To bind and to connect.
        network: if version >= 4 { 3 } else { 0 },
        // Abstract sockets, and signals.
        scoped: if version >= 6 { 3 } else { 0 },
    };
    let size = size_of::<RulesetAttributes>();
    // SAFETY: the kernel reads the structure.
    let made = unsafe { libc::syscall(CREATE_RULESET, &raw const attributes, size, 0) };
    let made = i32::try_from(checked(made)?).expect("a descriptor");
    // SAFETY: it is new, and ours alone.
    let ruleset = unsafe { OwnedFd::from_raw_fd(made) };
    Ok(Some((ruleset, attributes.file_system)))
}

/// Allows these rights to a file, or to all beneath a directory. Links to it are followed now, and never again.
fn allow(ruleset: &OwnedFd, path: &Path, rights: u64) -> io::Result<()> {
    /// `struct landlock_path_beneath_attr`
    #[repr(C, packed)]
    struct PathBeneath {
        allowed: u64,
        parent: i32,
    }
    const PATH_BENEATH: libc::c_long = 1;
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let rights = if file.metadata()?.is_dir() {
        rights
    } else {
        rights & OF_FILES
    };
    let rule = PathBeneath {
        allowed: rights,
        parent: file.as_raw_fd(),
    };
    // SAFETY: the kernel reads the structure.
    let added = unsafe {
        libc::syscall(
            ADD_RULE,
            ruleset.as_raw_fd(),
            PATH_BENEATH,
            &raw const rule,
            0,
        )
    };
    checked(added).map(drop)
}

/// Where the new root is put together: nothing that a program works on is there, and it is there on every machine.
const NEW_ROOT: &CStr = c"/sys";

/// What is there in the new root.
#[derive(Debug)]
struct Mounted {
    source: CString,
    /// The directories that lead to it, itself among them if it is one.
    directories: Vec<CString>,
    target: CString,
    is_directory: bool,
    is_written: bool,
}

fn mounts(reach: &Reach) -> io::Result<Vec<Mounted>> {
    let reads = reach.reads.iter().map(|path| (path, false));
    let all = reads.chain(reach.writes.iter().map(|path| (path, true)));
    let all = all.filter(|(path, _)| !path.starts_with("/sys"));
    all.map(|(path, is_written)| {
        let is_directory = path.metadata()?.is_dir();
        let below = |path: &Path| {
            let path = Path::new("/sys").join(path.strip_prefix("/").unwrap_or(path));
            Ok::<CString, io::Error>(CString::new(path.as_os_str().as_bytes())?)
        };
        let mut directories: Vec<&Path> = path.ancestors().collect();
        directories.reverse();
        let leading = if is_directory {
            directories.len()
        } else {
            directories.len() - 1
        };
        let directories = directories[..leading].iter().map(|path| below(path));
        Ok(Mounted {
            source: CString::new(path.as_os_str().as_bytes())?,
            directories: directories.collect::<io::Result<_>>()?,
            target: below(path)?,
            is_directory,
            is_written,
        })
    })
    .collect()
}

/// Whoever may make no mounts stays where it is: so it is for root in most containers.
fn change_root(mounted: &[Mounted]) -> io::Result<()> {
    const TMPFS: &CStr = c"tmpfs";
    const READ_ONLY: libc::c_ulong =
        libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY | libc::MS_NOSUID;
    // SAFETY: takes a number.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } < 0 {
        return Ok(());
    }
    if mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE).is_err() {
        return Ok(()); // a root that is no mount point
    }
    // SAFETY: takes a number. What is made here is for the load's user, too.
    let umask = unsafe { libc::umask(0o022) };
    mount(Some(TMPFS), NEW_ROOT, Some(TMPFS), libc::MS_NOSUID)?;
    for Mounted {
        source,
        directories,
        target,
        is_directory,
        is_written,
    } in mounted
    {
        for directory in directories {
            // SAFETY: a path that ends with a zero. It may be there already.
            unsafe { libc::mkdir(directory.as_ptr(), 0o755) };
        }
        if !is_directory {
            // SAFETY: as above.
            unsafe { libc::mknod(target.as_ptr(), libc::S_IFREG | 0o644, 0) };
        }
        mount(Some(source), target, None, libc::MS_BIND)?;
        if !is_written {
            mount(None, target, None, READ_ONLY)?;
        }
    }
    // SAFETY: takes a number.
    unsafe { libc::umask(umask) };
    mount(
        None,
        NEW_ROOT,
        None,
        libc::MS_REMOUNT | libc::MS_RDONLY | libc::MS_NOSUID,
    )?;
    // SAFETY: paths that end with a zero.
    let is_there =
        unsafe { libc::chroot(NEW_ROOT.as_ptr()) == 0 && libc::chdir(c"/".as_ptr()) == 0 };
    if is_there {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
) -> io::Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(null(), CStr::as_ptr);
    // SAFETY: texts that end with a zero, or null, as the call takes them.
    let done = unsafe {
        libc::mount(
            pointer(source),
            target.as_ptr(),
            pointer(kind),
            flags,
            null(),
        )
    };
    checked(done.into()).map(drop)
}

/// What no load needs. Newer mount calls have the same numbers on every architecture.
#[rustfmt::skip]
const DENIED: &[libc::c_long] = &[
    libc::SYS_socket, libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev,
    libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_chroot, libc::SYS_setns, libc::SYS_unshare,
    428, 429, 430, 431, 432, 433, 442, // open_tree to fspick, mount_setattr
    libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_reboot, libc::SYS_kexec_load,
    libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module, libc::SYS_bpf, libc::SYS_perf_event_open,
    libc::SYS_settimeofday, libc::SYS_clock_settime, libc::SYS_adjtimex, libc::SYS_clock_adjtime,
    libc::SYS_sethostname, libc::SYS_setdomainname, libc::SYS_acct, libc::SYS_quotactl, libc::SYS_syslog,
    libc::SYS_open_by_handle_at, libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl, libc::SYS_execveat,
    libc::SYS_userfaultfd, libc::SYS_truncate,
    libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fchown, libc::SYS_fchownat,
    libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr,
    libc::SYS_removexattr, libc::SYS_lremovexattr, libc::SYS_fremovexattr,
    libc::SYS_mknodat, libc::SYS_symlinkat, libc::SYS_linkat,
    #[cfg(target_arch = "x86_64")] libc::SYS_fork,
    #[cfg(target_arch = "x86_64")] libc::SYS_vfork,
    #[cfg(target_arch = "x86_64")] libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")] libc::SYS_chown,
    #[cfg(target_arch = "x86_64")] libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")] libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")] libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")] libc::SYS_link,
    #[cfg(target_arch = "x86_64")] libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")] libc::SYS_ioperm,
];

/// What a load asks for with each access: the filter passes it first.
#[rustfmt::skip]
const OFTEN: &[libc::c_long] = &[
    libc::SYS_io_submit, libc::SYS_io_getevents, 426, // io_uring_enter
    libc::SYS_pread64, libc::SYS_pwrite64, libc::SYS_preadv, libc::SYS_pwritev, libc::SYS_read, libc::SYS_write,
    libc::SYS_lseek, libc::SYS_fsync, libc::SYS_fdatasync,
];

/// `AUDIT_ARCH_*` of this machine; without it there is no filter.
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else {
    None
};

const fn errno(number: libc::c_int) -> u32 {
    libc::SECCOMP_RET_ERRNO | number.cast_unsigned()
}

/// The program of the filter; `struct seccomp_data` has the number of the call, the architecture, a pointer and arguments.
fn filter() -> Vec<libc::sock_filter> {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const IF_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    const IF_SET: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    const NUMBER: u32 = 0;
    const ARCH: u32 = 4;
    const FIRST_ARGUMENT: u32 = 16;
    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
    const CLONE3: u32 = 435;
    let Some(architecture) = ARCHITECTURE else {
        return Vec::new();
    };
    let number = |call: &libc::c_long| u32::try_from(*call).expect("a call's number");
    let mut program = vec![
        step(LOAD, ARCH, 0, 0),
        step(IF_EQUAL, architecture, 1, 0),
        step(RETURN, errno(libc::EPERM), 0, 0),
        step(LOAD, NUMBER, 0, 0),
    ];
    let mut answer = |call, answer| {
        program.extend([step(IF_EQUAL, call, 0, 1), step(RETURN, answer, 0, 0)]);
    };
    for call in OFTEN {
        answer(number(call), ALLOW);
    }
    for call in DENIED {
        answer(number(call), errno(libc::EPERM));
    }
    // Its flags are behind a pointer: the C library takes `clone` then.
    answer(CLONE3, errno(libc::ENOSYS));
    program.extend([
        // The other calls of x86-64, x32, begin there.
        step(IF_AT_LEAST, 0x4000_0000, 0, 1),
        step(RETURN, errno(libc::EPERM), 0, 0),
        step(IF_EQUAL, number(&libc::SYS_clone), 0, 3),
        step(LOAD, FIRST_ARGUMENT, 0, 0),
        step(IF_SET, libc::CLONE_THREAD.cast_unsigned(), 1, 0),
        step(RETURN, errno(libc::EPERM), 0, 0),
        step(RETURN, ALLOW, 0, 0),
    ]);
    program
}

/// One instruction, and how many are left out where a condition is met, and where it is not.
fn step(code: u32, value: u32, met: u8, not_met: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: u16::try_from(code).expect("an instruction has 16 bits"),
        jt: met,
        jf: not_met,
        k: value,
    }
}

/// Kernels without filters have none. Where it is possible, the filter does not slow the processor's guesses down, which
/// would change what is measured (`SECCOMP_FILTER_FLAG_SPEC_ALLOW`, Linux 4.17).
fn install(filter: &[libc::sock_filter]) {
    const SPECULATION_ALLOWED: libc::c_ulong = 1 << 2;
    let Ok(len) = u16::try_from(filter.len()) else {
        return;
    };
    let program = libc::sock_fprog {
        len,
        filter: filter.as_ptr().cast_mut(),
    };
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the kernel copies the program, which lives until then.
    unsafe {
        let program = &raw const program;
        if len > 0 && libc::syscall(libc::SYS_seccomp, mode, SPECULATION_ALLOWED, program) < 0 {
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, program);
        }
    }
}
