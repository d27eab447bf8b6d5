//! What a child is left with when it starts: a session without a terminal, no descriptors but the three that
//! it is given, and for a load that runs as another user that user's rights and environment.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Signal, Uid, set_parent_process_death_signal};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use super::sandbox::Sandbox;
use super::user::User;

/// Where root, and every load that runs as another user, looks for programs.
pub const SAFE_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a load that runs as another user gets of our environment, besides `LC_*`.
const PASSED_ON: [&str; 4] = ["LANG", "LANGUAGE", "TZ", "TERM"];

/// Descriptors that a kernel without `close_range` is asked about where `/proc` does not say which there are.
const MOST_DESCRIPTORS: i32 = 1 << 16;

/// Prepares `command`: `joins` is the `cgroup.procs` of the cgroup that it is to be in, `when_we_die` the signal
/// that it gets then.
pub(super) fn confine(
    command: &mut Command,
    user: Option<&User>,
    joins: Option<File>,
    lent: Option<RawFd>,
    sandbox: Option<Sandbox>,
    when_we_die: Signal,
) {
    let user = user.filter(|user| !user.is_us()).cloned();
    if let Some(user) = &user {
        replace_environment(command, user, std::env::vars_os());
    }
    let identity = user.map(|user| {
        let directory = command
            .get_current_dir()
            .map(|path| path.as_os_str().as_bytes());
        let directory = directory.and_then(|path| CString::new(path).ok());
        (user.uid, user.gid, user.kernel_groups(), directory)
    });
    let parent = rustix::process::getpid();
    let last = last_descriptor();
    // SAFETY: between fork and exec only system calls are made, on what was allocated before.
    unsafe {
        command.pre_exec(move || {
            if let Some(procs) = &joins {
                // While this is still ours to do: `0` is the process that writes.
                rustix::io::write(procs, b"0")?;
            }
            be_killed_first();
            rustix::process::setsid()?;
            close_descriptors_on_exec(last);
            if let Some(lent) = lent {
                libc::fcntl(lent, libc::F_SETFD, 0);
            }
            if let Some(sandbox) = &sandbox {
                sandbox.change_root()?;
            }
            if let Some((uid, gid, groups, directory)) = &identity {
                become_user(*uid, *gid, groups, directory.as_deref())?;
            }
            // What a shell starts with `&` ignores SIGQUIT, and so would the child until it handles it.
            libc::signal(when_we_die.as_raw(), libc::SIG_DFL);
            // A change of identity would clear it: last.
            set_parent_process_death_signal(Some(when_we_die))?;
            // The parent may have died before the request above was in force.
            if rustix::process::getppid() != Some(parent) {
                return Err(Errno::SRCH.into());
            }
            sandbox.as_ref().map_or(Ok(()), Sandbox::enter)
        });
    }
}

/// Where memory runs out, a load goes before us, who put back what it is measured under. What was set with `CAP_SYS_RESOURCE`
/// nobody lowers again who lacks it.
fn be_killed_first() {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(c"/proc/self/oom_score_adj", flags, Mode::empty()) {
        let _ = rustix::io::write(file, b"1000");
    }
}

/// Gives up all rights but this user's, for good: no program that it runs can win others. The working directory is entered
/// again with the user's rights: [`Command`] entered it with ours.
fn become_user(uid: u32, gid: u32, groups: &[Gid], directory: Option<&CStr>) -> io::Result<()> {
    /// `KEYCTL_JOIN_SESSION_KEYRING`; without a name, a new one. Ours may hold keys that only we may use.
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: a null name is allowed. Without keyrings in the kernel it fails, and there is none to leave.
    unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            JOIN_SESSION_KEYRING,
            std::ptr::null::<u8>(),
        )
    };
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    set_thread_groups(groups)?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    if !uid.is_root() {
        // Another user id takes them away by itself, unless SECBIT_NO_SETUID_FIXUP is set, but for the inheritable ones.
        let none = CapabilitySet::empty();
        let sets = CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        };
        set_capabilities(None, sets)?;
    }
    set_no_new_privs(true)?;
    Ok(directory.map_or(Ok(()), rustix::process::chdir)?)
}

/// Keeps what our own parent left open from a child that may outlive us.
pub fn close_inherited(command: &mut Command) {
    let last = last_descriptor();
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(move || {
            close_descriptors_on_exec(last);
            Ok(())
        });
    }
}

/// What our own parent left open must not reach the child. Only marked: [`Command`] has a pipe open to tell
/// whether exec worked.
fn close_descriptors_on_exec(last: i32) {
    const FIRST: libc::c_uint = 3;
    let (end, how) = (libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: takes numbers only.
    if unsafe { libc::syscall(libc::SYS_close_range, FIRST, end, how) } == 0 {
        return;
    }
    // Before Linux 5.11.
    for descriptor in FIRST.cast_signed()..=last {
        // SAFETY: changes a flag of a descriptor, or fails where there is none.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// The highest descriptor that is open. What threads of ours open from now on is closed on exec by itself.
fn last_descriptor() -> i32 {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.max().unwrap_or(MOST_DESCRIPTORS)
}

/// Our environment may hold secrets, and lead programs to our files: another user's load gets what is listed
/// here, and what the load itself sets.
fn replace_environment(
    command: &mut Command,
    user: &User,
    ours: impl Iterator<Item = (OsString, OsString)>,
) {
    let of_load = command.get_envs();
    let of_load: Vec<_> = of_load
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    let is_passed_on = |name: &OsStr| {
        let name = name.to_string_lossy();
        PASSED_ON.contains(&&*name) || name.starts_with("LC_")
    };
    command.env_clear();
    command.envs(ours.filter(|(name, _)| is_passed_on(name)));
    command
        .env("PATH", SAFE_PATH)
        .envs(user.variables())
        .envs(of_load);
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn another_users_environment_is_made_of_what_is_listed() {
        let user = User {
            uid: 1000,
            gid: 1000,
            groups: vec![1000],
            name: "bench".into(),
            home: "/home/bench".into(),
            shell: "/bin/dash".into(),
        };
        let ours = [
            ("PATH", "/opt/bin:.:bin"),
            ("HOME", "/root"),
            ("LC_ALL", "C"),
            ("TZ", "UTC"),
            ("AWS_SECRET_ACCESS_KEY", "s3cr3t"),
            ("PGPASSWORD", "s3cr3t"),
            ("LD_PRELOAD", "/root/x.so"),
            ("TMPDIR", "/root/tmp"),
        ];
        let ours = ours.map(|(name, value)| (name.into(), value.into()));
        let mut command = Command::new("true");
        command.env("OWN", "x").env_remove("TERM");
        replace_environment(&mut command, &user, ours.into_iter());
        let kept = command.get_envs();
        let kept: Vec<String> = kept
            .map(|(name, value)| format!("{}={}", name.display(), value.unwrap().display()))
            .collect();
        assert_eq!(
            kept,
            [
                "HOME=/home/bench",
                "LC_ALL=C",
                "LOGNAME=bench",
                "OWN=x",
                &format!("PATH={SAFE_PATH}"),
                "SHELL=/bin/dash",
                "TZ=UTC",
                "USER=bench",
            ]
        );
    }

    #[test]
    fn no_descriptor_of_ours_reaches_a_child_on_any_kernel() {
        let file = std::fs::File::open("/dev/null").unwrap();
        // Without FD_CLOEXEC, as a parent may leave one.
        // SAFETY: makes a descriptor that nobody else uses; it is open until this process ends.
        let left =
            unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&file), libc::F_DUPFD, 900) };
        assert!(left >= 900);
        let is_there = || {
            let mut command = Command::new("test");
            command.arg("-e").arg(format!("/proc/self/fd/{left}"));
            confine(&mut command, None, None, None, None, Signal::KILL);
            command.status().unwrap().success()
        };
        assert!(!is_there());
        let (is_there, asked) = iosched_testing::kernel::on((5, 8), is_there);
        assert!(!is_there);
        assert!(format!("{asked:?}").contains("close_range"), "{asked:?}");
    }

    /// Whether it is ignored by us (a shell's `&`) or handled: before it has become its program, too.
    #[test]
    fn a_child_dies_of_our_death_whatever_we_do_with_that_signal() {
        extern "C" fn handler(_: libc::c_int) {}
        let signal = Signal::QUIT.as_raw();
        let handler: extern "C" fn(libc::c_int) = handler;
        for ours in [libc::SIG_IGN, handler as libc::sighandler_t] {
            // SAFETY: the handler does nothing.
            unsafe { libc::signal(signal, ours) };
            let mut command = Command::new("true");
            confine(&mut command, None, None, None, None, Signal::QUIT);
            // SAFETY: a system call that sends this very signal.
            unsafe {
                command.pre_exec(move || {
                    libc::raise(signal);
                    Ok(())
                });
            }
            let status = command.status().unwrap();
            assert_eq!(status.signal(), Some(signal), "{status}");
        }
    }

    #[test]
    fn a_child_is_killed_before_us_where_memory_runs_out_and_cannot_change_that() {
        let ours = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
        let theirs = |script: &str, user: Option<&User>| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            confine(&mut command, user, None, None, None, Signal::KILL);
            let output = command.output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(theirs("cat /proc/self/oom_score_adj", None), "1000\n");
        if !rustix::process::geteuid().is_root() {
            iosched_testing::lacks("root");
            return;
        }
        let nobody = User::find("nobody").unwrap().unwrap();
        assert_eq!(
            theirs("cat /proc/self/oom_score_adj", Some(&nobody)),
            "1000\n"
        );
        // In most containers root lacks the right to do it for good.
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let rights = u64::from_str_radix(rights.unwrap().trim(), 16).unwrap();
        let is_permanent = rights & (1 << 24) != 0; // CAP_SYS_RESOURCE
        if !is_permanent {
            return;
        }
        let lower = "echo 0 > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj";
        assert_eq!(theirs(lower, Some(&nobody)), "1000\n");
        assert_eq!(
            std::fs::read_to_string("/proc/self/oom_score_adj").unwrap(),
            ours
        );
    }
}
