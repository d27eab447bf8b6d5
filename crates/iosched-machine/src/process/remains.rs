//! What a run's loads left running: found by the cgroup that they were started in and by a variable of their
//! environment, and ended.
//!
//! A process cannot leave the cgroup without rights that no load of another user has. Where there is none (no
//! cgroup v2, or not writable), all that a load starts descends from us while we live (`table.rs`). After us
//! the variable finds what has not emptied its own environment.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::cgroup;
use super::patience::ask_each;
use super::pidfd::signal_if;
use super::table::numbers;
use crate::host::Host;
use crate::lossy;

/// The variable that says which run a process belongs to.
pub(super) const RUN: &str = "IOSCHED_RUN";

/// How long those who are asked to end may take: a database server clears its shared memory away.
const BY_ITSELF: Duration = Duration::from_secs(5);

/// How long SIGKILL may take.
const KILLED_WITHIN: Duration = Duration::from_secs(10);

/// How often those who are to end are looked at.
const STEP: Duration = Duration::from_millis(20);

/// How the processes of a run's loads are found again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadProcesses {
    /// The value of `IOSCHED_RUN` in their environment, up to the first point.
    pub(super) marker: String,
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
        let names = self.names(host);
        self.signal_until_gone(host, Signal::TERM, BY_ITSELF);
        let removed = self
            .cgroup()
            .map_or(Ok(()), |path| cgroup::end(path, KILLED_WITHIN));
        self.signal_until_gone(host, Signal::KILL, KILLED_WITHIN);
        match (self.names(host), self.cgroup()) {
            (left, _) if !left.is_empty() => Err(left),
            (_, Some(path)) if removed.is_err() => {
                Err(vec![format!("the cgroup {}", path.display())])
            }
            _ => Ok(names),
        }
    }

    /// Signals all of them, once or, with SIGKILL, again and again, until none was there twice: a process that is just being
    /// executed has no environment for a moment.
    fn signal_until_gone(&self, host: &Host, signal: Signal, limit: Duration) {
        let begun = Instant::now();
        let mut looks_without = 0;
        let mut is_first = true;
        while looks_without < 2 && begun.elapsed() < limit {
            let found = self.find(host);
            looks_without = if found.is_empty() {
                looks_without + 1
            } else {
                0
            };
            for pid in found
                .into_iter()
                .filter(|_| is_first || signal == Signal::KILL)
            {
                signal_if(pid, signal, || self.holds(host, pid));
            }
            is_first = false;
            std::thread::sleep(STEP);
        }
    }

    /// Name and pid of each that is there.
    pub fn names(&self, host: &Host) -> Vec<String> {
        self.find(host).iter().map(|&pid| name(host, pid)).collect()
    }

    fn cgroup(&self) -> Option<&Path> {
        self.cgroup.as_deref().filter(|path| cgroup::is_ours(path))
    }

    /// Those in the cgroup, and those that somebody with the right to moved out of it, as PAM does who logs another user in.
    fn find(&self, host: &Host) -> Vec<Pid> {
        // Where the list cannot be read, nobody is known to be marked.
        let all = numbers(host).unwrap_or_default().into_iter();
        let mut found = self.marked(host, all.filter_map(Pid::from_raw).collect());
        found.extend(self.cgroup().map(cgroup::processes).unwrap_or_default());
        found.sort_unstable_by_key(|pid| pid.as_raw_nonzero());
        found.dedup();
        found
    }

    fn holds(&self, host: &Host, pid: Pid) -> bool {
        let in_cgroup = |path: &Path| cgroup::processes(path).contains(&pid);
        self.cgroup().is_some_and(in_cgroup) || !self.marked(host, vec![pid]).is_empty()
    }

    /// Those whose environment says that they belong to this run; not those that do not answer.
    fn marked(&self, host: &Host, pids: Vec<Pid>) -> Vec<Pid> {
        let (host, marker) = (host.clone(), self.marker.clone());
        let answers = ask_each(&pids, move |pid| {
            has_mark(
                &host.proc(&format!("{}/environ", pid.as_raw_nonzero())),
                &marker,
            )
        });
        let answers = pids.into_iter().zip(answers);
        answers
            .filter(|(_, answer)| *answer == Some(true))
            .map(|(pid, _)| pid)
            .collect()
    }
}

/// True of an environment in which [`RUN`] is `marker`, or begins with it and a point.
fn has_mark(environment: &Path, marker: &str) -> bool {
    /// More than programs can be given (a quarter of the largest stack that counts, 6 MiB); a process can say that its
    /// environment is much more of its memory.
    const LONGEST: u64 = 8 << 20;
    let mut bytes = Vec::new();
    let read =
        fs::File::open(environment).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
    let value = |variable: &[u8]| {
        let rest = variable.strip_prefix(RUN.as_bytes())?.strip_prefix(b"=")?;
        let rest = rest.strip_prefix(marker.as_bytes())?;
        (rest.is_empty() || rest[0] == b'.').then_some(())
    };
    read.is_ok() && bytes.split(|&byte| byte == 0).find_map(value).is_some()
}

/// `dd (pid 4711)`.
fn name(host: &Host, pid: Pid) -> String {
    let pid = pid.as_raw_nonzero();
    let command = lossy::read(host.proc(&format!("{pid}/comm"))).unwrap_or_default();
    let command: String = command.trim().chars().filter(|c| !c.is_control()).collect();
    format!("{command} (pid {pid})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_environment_without_end_the_beginning_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("environ");
        fs::write(&path, format!("A=1\0{RUN}=x.1\0")).unwrap();
        let file = fs::File::options().append(true).open(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        assert!(has_mark(&path, "x"));
    }

    #[test]
    fn a_process_is_found_by_its_run_and_by_no_other_whoever_does_not_answer() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        for (pid, environment) in [
            (11, "A=1\0IOSCHED_RUN=7-8\0"),
            (12, "IOSCHED_RUN=7-8.lasting\0"), // of an older version
            (13, "IOSCHED_RUN=7-80\0"),
            (14, "XIOSCHED_RUN=7-8\0"),
            (15, ""),
            (16, "a FIFO, whose other end nobody opens"),
            (17, "IOSCHED_RUN=7-8\0"),
        ] {
            let path = host.proc(&format!("{pid}/environ"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if environment.starts_with("a FIFO") {
                let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
                rustix::fs::mknodat(rustix::fs::CWD, path, fifo, mode, 0).unwrap();
            } else {
                fs::write(path, environment).unwrap();
            }
        }
        let of_run = LoadProcesses {
            marker: "7-8".into(),
            cgroup: None,
        };
        let found: Vec<i32> = of_run
            .find(&host)
            .iter()
            .map(|pid| pid.as_raw_nonzero().get())
            .collect();
        assert_eq!(found, [11, 12, 17]);
    }
}
