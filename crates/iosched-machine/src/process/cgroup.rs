//! Control groups (v2) in which the processes of a load stay together, whatever they do, so that all of them
//! can be ended.
//!
//! Follows `Documentation/admin-guide/cgroup-v2.rst`. No controller is enabled in them: accounting, limits and
//! bfq's groups are those of the process that measures.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::detached_mount;
use crate::host::Host;
use crate::lossy;

/// How the names of all our cgroups begin.
const OURS: &str = "iosched-";

/// `CGROUP2_SUPER_MAGIC` (`linux/magic.h`).
const MAGIC: u32 = 0x6367_7270;

/// How often a cgroup is looked at that is to become empty.
const STEP: Duration = Duration::from_millis(2);

/// Where a cgroup of this name would be, below the one that we are in; `None` without cgroup v2.
pub(super) fn below_ours(host: &Host, name: &str) -> Option<PathBuf> {
    let mounts = lossy::read(host.proc("self/mountinfo")).ok()?;
    let own = lossy::read(host.proc("self/cgroup")).ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (root, mount_point) = mounts.lines().find_map(parse_mount)?;
    let ours = mount_point.join(Path::new(own).strip_prefix(root).ok()?);
    let mut above = ours
        .ancestors()
        .take_while(|above| above.starts_with(&mount_point));
    let is_kept = above.all(keeps_processes);
    let place = if is_kept { ours } else { mount_point };
    keeps_processes(&place).then(|| place.join(format!("{OURS}{name}")))
}

/// True if nobody but us and root may move processes from below this cgroup to another one below it: one that was
/// delegated to a user (`user@1000.service`) would let that user's load go.
fn keeps_processes(path: &Path) -> bool {
    let is_kept = |path: &Path| {
        fs::metadata(path).map_or(true, |status| {
            let is_trusted = [0, geteuid().as_raw()].contains(&status.uid());
            is_trusted && status.mode() & 0o022 == 0
        })
    };
    is_kept(path) && is_kept(&path.join("cgroup.procs"))
}

/// What of cgroup v2 is mounted, and where.
pub(crate) fn parse_mount(line: &str) -> Option<(PathBuf, PathBuf)> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(3);
    let (root, mount_point) = (fields.next()?, fields.next()?);
    let is_escaped = root.contains('\\') || mount_point.contains('\\');
    let is_wanted = after.starts_with("cgroup2 ") && !is_escaped;
    is_wanted.then(|| (root.into(), mount_point.into()))
}

/// Makes one that processes can be put into.
pub(super) fn make(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    let kind = fs::read_to_string(path.join("cgroup.type"));
    if kind.is_ok_and(|kind| kind.trim() == "domain") {
        return Ok(());
    }
    let _ = fs::remove_dir(path);
    Err(io::ErrorKind::Unsupported.into())
}

/// The file through which a process enters it.
pub(super) fn entrance(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new()
        .write(true)
        .open(path.join("cgroup.procs"))
}

/// True if this is a cgroup that we made. A journal may have been edited.
pub(super) fn is_ours(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_cgroup = rustix::fs::statfs(path)
        .is_ok_and(|fs| u32::try_from(fs.f_type).is_ok_and(|magic| magic == MAGIC));
    name.starts_with(OURS) && is_cgroup
}

/// Kills all that is in it and below it, and removes it, within this time; what does not end is left.
///
/// # Errors
/// It is still there.
pub(super) fn end(path: &Path, limit: Duration) -> io::Result<()> {
    let begun = Instant::now();
    let mut is_cut = false;
    loop {
        // Before Linux 5.14 each by itself, until none has had time to fork.
        if fs::write(path.join("cgroup.kill"), "1").is_err() {
            for pid in processes(path) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        match remove(path) {
            // For a moment it may still be busy with those who were in it.
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && begun.elapsed() < limit => {}
            done => return done,
        }
        if !is_cut && begun.elapsed() > limit / 2 {
            abort_own_fuse(path);
            is_cut = true;
        }
        std::thread::sleep(STEP);
    }
}

/// A process that waits for a FUSE file system that it is to serve itself ends by no signal, but with the connection.
/// Those of mount namespaces of their own are cut, where nobody but the load sees what they serve.
fn abort_own_fuse(path: &Path) {
    let ours = fuse_connections("self");
    let pids = processes(path).into_iter();
    let seen = pids.flat_map(|pid| fuse_connections(&pid.as_raw_nonzero().to_string()));
    let own: BTreeSet<String> = seen.filter(|one| !ours.contains(one)).collect();
    if own.is_empty() {
        return;
    }
    // What a distribution mounts at this place may be lacking, and kernels before 5.2 have no other way.
    let mounted = || openat(CWD, "/sys/fs/fuse/connections", OFlags::PATH, Mode::empty());
    let Ok(control) = detached_mount::mount("fusectl").or_else(|_| mounted()) else {
        return;
    };
    for connection in own {
        let abort = format!("{connection}/abort");
        if let Ok(abort) = openat(&control, abort, OFlags::WRONLY, Mode::empty()) {
            let _ = rustix::io::write(abort, b"1");
        }
    }
}

/// The connections (minor numbers) of the FUSE file systems that a process sees.
fn fuse_connections(process: &str) -> BTreeSet<String> {
    let mounts = lossy::read(format!("/proc/{process}/mountinfo")).unwrap_or_default();
    let connection = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let device = before.split(' ').nth(2)?;
        let minor = device.strip_prefix("0:")?;
        after.starts_with("fuse").then(|| minor.to_owned())
    };
    mounts.lines().filter_map(connection).collect()
}

/// Those who are in it and below it.
pub(super) fn processes(path: &Path) -> Vec<Pid> {
    let own = lossy::read(path.join("cgroup.procs")).unwrap_or_default();
    let own = own
        .lines()
        .filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
    let below = children(path)
        .into_iter()
        .flat_map(|child| processes(&child));
    own.chain(below).collect()
}

/// Removes it with all below it, once nobody is in them.
fn remove(path: &Path) -> io::Result<()> {
    children(path).iter().try_for_each(|child| remove(child))?;
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn children(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(mountinfo: impl AsRef<[u8]>, cgroup: &str) -> (tempfile::TempDir, Host) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        fs::write(dir.path().join("proc/self/mountinfo"), mountinfo).unwrap();
        fs::write(dir.path().join("proc/self/cgroup"), cgroup).unwrap();
        let host = Host::at(dir.path());
        (dir, host)
    }

    #[test]
    fn ours_is_below_the_one_that_we_are_in_wherever_v2_is_mounted() {
        let line = "30 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let (_dir, host) = machine(line, "4:memory:/x\n0::/user.slice/a.scope\n");
        assert_eq!(
            below_ours(&host, "7-8"),
            Some("/sys/fs/cgroup/unified/user.slice/a.scope/iosched-7-8".into())
        );
        let another = b"29 24 0:40 / /mnt/caf\xe9 rw - tmpfs tmpfs rw\n".as_slice();
        let (_dir, host) = machine([another, line.as_bytes()].concat(), "0::/a.scope\n");
        assert!(below_ours(&host, "7-8").is_some());
        let bound = "30 24 0:26 /user.slice /cg rw - cgroup2 cgroup2 rw\n";
        let (_dir, host) = machine(bound, "0::/user.slice/a.scope\n");
        assert_eq!(
            below_ours(&host, "7-8"),
            Some("/cg/a.scope/iosched-7-8".into())
        );
        let (_dir, host) = machine("30 24 0:26 / /a rw - cgroup cgroup rw,cpu\n", "1:cpu:/\n");
        assert_eq!(below_ours(&host, "7-8"), None);
    }

    #[test]
    fn below_what_was_delegated_to_a_user_there_is_no_place_for_ours() {
        if !iosched_testing::is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mounted = dir.path().join("cgroup");
        let own = mounted.join("user.slice/user@1.service/app/term");
        fs::create_dir_all(&own).unwrap();
        let line = format!(
            "30 24 0:26 / {} rw - cgroup2 cgroup2 rw\n",
            mounted.display()
        );
        let (_machine, host) = machine(line, "0::/user.slice/user@1.service/app/term\n");
        assert_eq!(below_ours(&host, "7-8"), Some(own.join("iosched-7-8")));
        let procs = mounted.join("user.slice/user@1.service/cgroup.procs");
        fs::write(&procs, "").unwrap();
        std::os::unix::fs::chown(&procs, Some(65_534), None).unwrap();
        assert_eq!(below_ours(&host, "7-8"), Some(mounted.join("iosched-7-8")));
        std::os::unix::fs::chown(&mounted, Some(65_534), None).unwrap();
        assert_eq!(below_ours(&host, "7-8"), None);
    }

    #[test]
    fn what_is_no_cgroup_is_not_ours() {
        let dir = tempfile::tempdir().unwrap();
        let named = dir.path().join("iosched-1-2");
        fs::create_dir(&named).unwrap();
        assert!(!is_ours(&named));
        assert!(!is_ours(Path::new("/sys/fs/cgroup")));
    }
}
