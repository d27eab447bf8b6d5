//! What a run's loads left running: found by the cgroup that they were started in and by a variable of their
//! environment, and ended.
//!
//! A process cannot leave the cgroup without rights that no load of another user has. Where there is none (no
//! cgroup v2, or not writable), the variable finds what has not emptied its own environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::cgroup;
use crate::host::Host;

/// The variable that says which run, and which child of it, a process belongs to.
pub const RUN: &str = "IOSCHED_RUN";

/// How long those who are asked to end may take: a database server clears its shared memory away.
const BY_ITSELF: Duration = Duration::from_secs(5);

/// How long SIGKILL may take.
const KILLED_WITHIN: Duration = Duration::from_secs(10);

/// How often those who are to end are looked at.
const STEP: Duration = Duration::from_millis(20);

/// How the processes of a run's loads are found again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadProcesses {
    /// The value of [`RUN`] in their environment, up to the first point.
    pub(super) marker: String,
    /// The cgroup with all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cgroup: Option<PathBuf>,
}

impl LoadProcesses {
    /// Those of the run of this process, which is told from a later one by `start_ticks`. Makes nothing.
    pub fn of_run(host: &Host, pid: u32, start_ticks: u64) -> LoadProcesses {
        let marker = format!("{pid}-{start_ticks}");
        LoadProcesses {
            cgroup: cgroup::below_ours(host, &marker),
            marker,
        }
    }

    /// Ends all of them and removes the cgroup. Gives the names of those who were there, or of those who do
    /// not end.
    pub fn end(&self, host: &Host) -> Result<Vec<String>, Vec<String>> {
        let found = self.find(host);
        let names: Vec<String> = found.iter().map(|&pid| name(host, pid)).collect();
        for pid in found {
            signal_if(pid, Signal::TERM, || self.holds(host, pid));
        }
        let deadline = Instant::now() + BY_ITSELF;
        while !self.find(host).is_empty() && Instant::now() < deadline {
            std::thread::sleep(STEP);
        }
        if let Some(path) = self.cgroup() {
            cgroup::kill(path, KILLED_WITHIN);
        }
        kill_marked(host, &self.marker);
        let left = self.find(host);
        if !left.is_empty() {
            return Err(left.iter().map(|&pid| name(host, pid)).collect());
        }
        if let Some(path) = self.cgroup() {
            let _ = cgroup::remove(path);
        }
        Ok(names)
    }

    fn cgroup(&self) -> Option<&Path> {
        self.cgroup.as_deref().filter(|path| cgroup::is_ours(path))
    }

    fn find(&self, host: &Host) -> Vec<Pid> {
        let mut found = marked(host, &self.marker);
        found.extend(self.cgroup().map(cgroup::processes).unwrap_or_default());
        found.sort_unstable_by_key(|pid| pid.as_raw_nonzero());
        found.dedup();
        found
    }

    fn holds(&self, host: &Host, pid: Pid) -> bool {
        let in_cgroup = |path: &Path| cgroup::processes(path).contains(&pid);
        is_marked(host, pid, &self.marker) || self.cgroup().is_some_and(in_cgroup)
    }
}

/// Signals a process, held by its descriptor, if it is still the one that was found: its number may be another's
/// by now.
fn signal_if(pid: Pid, signal: Signal, is_wanted: impl FnOnce() -> bool) {
    if let Ok(process) = pidfd_open(pid, PidfdFlags::empty())
        && is_wanted()
    {
        let _ = pidfd_send_signal(process, signal);
    }
}

/// Kills those whose [`RUN`] is `marker`, or begins with it and a point, until none is left or it takes too
/// long.
pub(super) fn kill_marked(host: &Host, marker: &str) {
    let deadline = Instant::now() + KILLED_WITHIN;
    loop {
        let found = marked(host, marker);
        if found.is_empty() || Instant::now() > deadline {
            return;
        }
        for pid in found {
            signal_if(pid, Signal::KILL, || is_marked(host, pid, marker));
        }
        std::thread::sleep(STEP);
    }
}

fn marked(host: &Host, marker: &str) -> Vec<Pid> {
    let entries = fs::read_dir(host.proc("")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
        .filter(|&pid| is_marked(host, pid, marker))
        .collect()
}

fn is_marked(host: &Host, pid: Pid, marker: &str) -> bool {
    let path = format!("{}/environ", pid.as_raw_nonzero());
    let environment = fs::read(host.proc(&path)).unwrap_or_default();
    environment.split(|&byte| byte == 0).any(|variable| {
        let value = variable
            .strip_prefix(RUN.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="));
        let rest = value.and_then(|value| value.strip_prefix(marker.as_bytes()));
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'.')
    })
}

/// `dd (pid 4711)`.
fn name(host: &Host, pid: Pid) -> String {
    let pid = pid.as_raw_nonzero();
    let command = fs::read_to_string(host.proc(&format!("{pid}/comm"))).unwrap_or_default();
    let command: String = command.trim().chars().filter(|c| !c.is_control()).collect();
    format!("{command} (pid {pid})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_run_and_by_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        for (pid, environment) in [
            (11, "A=1\0IOSCHED_RUN=7-8.1\0"),
            (12, "IOSCHED_RUN=7-8.lasting\0"),
            (13, "IOSCHED_RUN=7-80.1\0"),
            (14, "XIOSCHED_RUN=7-8.1\0"),
            (15, ""),
        ] {
            fs::create_dir_all(host.proc(&pid.to_string())).unwrap();
            fs::write(host.proc(&format!("{pid}/environ")), environment).unwrap();
        }
        let pids = |marker: &str| {
            let mut found: Vec<i32> = marked(&host, marker)
                .iter()
                .map(|pid| pid.as_raw_nonzero().get())
                .collect();
            found.sort_unstable();
            found
        };
        assert_eq!(pids("7-8"), [11, 12]);
        assert_eq!(pids("7-8.1"), [11]);
    }
}
