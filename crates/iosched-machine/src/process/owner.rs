//! Whose something is that outlives a killed process: told from a later process with the same number, and from one
//! of another pid namespace.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

use super::table::ProcessStat;
use crate::host::Host;
use crate::lossy;

/// A process that can be told from a later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its pid.
    pub pid: u32,
    /// When it started, in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub start_ticks: u64,
    /// The pid namespace in which `pid` is its number, by the inode of `/proc/PID/ns/pid`; older versions did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
}

/// Whether an [`Owner`] still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerState {
    /// It has ended.
    Ended,
    /// It runs.
    Runs,
    /// It was killed, and has not ended: a system call that it is in may still do what it was to do.
    Dying,
    /// It is, or was, in a pid namespace that is not ours: `/proc` does not say.
    OutOfSight,
}

impl Owner {
    /// Us.
    pub fn this_process(host: &Host) -> Owner {
        let pid = std::process::id();
        let own = if sees_own_namespace(host) {
            ProcessStat::read(host, pid)
        } else {
            ProcessStat::read_below(host, "self")
        };
        Owner {
            pid,
            start_ticks: own.map_or(0, |stat| stat.start_ticks),
            pid_namespace: own_namespace(host),
        }
    }

    /// The process of this pid that runs now.
    pub fn of_pid(host: &Host, pid: u32) -> Option<Owner> {
        let stat = ProcessStat::read(host, pid).filter(|stat| !stat.is_zombie)?;
        Some(Owner {
            pid,
            start_ticks: stat.start_ticks,
            pid_namespace: own_namespace(host),
        })
    }

    /// Whether that very process runs.
    pub fn state(&self, host: &Host) -> OwnerState {
        let is_of_ours = self.pid_namespace.is_none() || self.pid_namespace == own_namespace(host);
        if !is_of_ours || !sees_own_namespace(host) {
            return OwnerState::OutOfSight;
        }
        let now = ProcessStat::read(host, self.pid);
        match now.filter(|now| now.start_ticks == self.start_ticks) {
            None => OwnerState::Ended,
            // Its threads end after it.
            Some(now) if now.is_zombie && now.threads > 1 => OwnerState::Dying,
            Some(now) if now.is_zombie => OwnerState::Ended,
            Some(now) if is_dying(host, self.pid, now) => OwnerState::Dying,
            Some(_) => OwnerState::Runs,
        }
    }
}

/// True once a signal that ends a process has reached it, though what it does in the kernel is not over.
fn is_dying(host: &Host, pid: u32, stat: ProcessStat) -> bool {
    /// `PF_EXITING`, `PF_DUMPCORE` and `PF_SIGNALED`: it is on its way out, is written to a core file, was killed.
    const ON_ITS_WAY_OUT: u64 = 0x4 | 0x200 | 0x400;
    const SIGKILL: u64 = 1 << 8;
    if stat.flags & ON_ITS_WAY_OUT != 0 {
        return true;
    }
    let status = lossy::read(host.proc(&format!("{pid}/status"))).unwrap_or_default();
    let pending = status.lines().filter_map(|line| {
        let mask = line
            .strip_prefix("SigPnd:")
            .or(line.strip_prefix("ShdPnd:"));
        u64::from_str_radix(mask?.trim(), 16).ok()
    });
    pending.fold(0, |all, mask| all | mask) & SIGKILL != 0
}

/// The inode of our pid namespace; none in a copied tree.
fn own_namespace(host: &Host) -> Option<u64> {
    let link = fs::metadata(host.proc("self/ns/pid"));
    link.ok().map(|link| link.ino())
}

/// False where `/proc` is of another pid namespace than ours (`unshare --pid` without `--mount-proc`): a number there is
/// another process' here.
fn sees_own_namespace(host: &Host) -> bool {
    fs::read_link(host.proc("self")).map_or(true, |own| {
        own.as_os_str() == std::process::id().to_string().as_str()
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    fn put(root: &Path, file: &str, text: &str) {
        let path = root.join("proc").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn stat(state: &str, flags: u64, threads: u32) -> String {
        format!(
            "41 (a) {state} 1 5 6 7 8 {flags} 10 11 12 13 14 15 16 17 18 19 {threads} 21 4711 9\n"
        )
    }

    #[test]
    fn an_owner_runs_until_its_last_thread_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        let owner = Owner {
            pid: 41,
            start_ticks: 4711,
            pid_namespace: None,
        };
        assert_eq!(owner.state(&host), OwnerState::Ended, "there is none");
        for (text, status, expected) in [
            (stat("S", 0, 1), "", OwnerState::Runs),
            (stat("D", 0x4, 1), "", OwnerState::Dying),
            (
                stat("D", 0, 3),
                "SigPnd:\t0000000000000100\n",
                OwnerState::Dying,
            ),
            (
                stat("D", 0, 3),
                "ShdPnd:\t0000000000004100\n",
                OwnerState::Dying,
            ),
            (
                stat("S", 0, 3),
                "ShdPnd:\t0000000000004000\n",
                OwnerState::Runs,
            ),
            (stat("Z", 0x4, 2), "", OwnerState::Dying),
            (stat("Z", 0x4, 1), "", OwnerState::Ended),
            (
                stat("S", 0, 1).replace("4711", "4712"),
                "",
                OwnerState::Ended,
            ),
        ] {
            put(dir.path(), "41/stat", &text);
            put(dir.path(), "41/status", status);
            assert_eq!(owner.state(&host), expected, "{text} {status}");
        }
    }

    #[test]
    fn an_owner_of_another_pid_namespace_is_out_of_sight() {
        let live = Host::live();
        let us = Owner::this_process(&live);
        assert_eq!(us.state(&live), OwnerState::Runs);
        assert!(us.pid_namespace.is_some());
        let elsewhere = Owner {
            pid_namespace: Some(1),
            ..us
        };
        assert_eq!(elsewhere.state(&live), OwnerState::OutOfSight);
        // A /proc in which we have another number.
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        put(dir.path(), "99/stat", &stat("S", 0, 1));
        symlink("99", dir.path().join("proc/self")).unwrap();
        let us = Owner::this_process(&host);
        assert_eq!((us.pid, us.start_ticks), (std::process::id(), 4711));
        assert_eq!(us.state(&host), OwnerState::OutOfSight);
    }
}
