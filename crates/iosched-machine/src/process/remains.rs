//! What a run's loads left running: found by the cgroup that they were started in and by a variable of their
//! environment, and ended.
//!
//! A process cannot leave the cgroup without rights that no load of another user has. Where there is none (no
//! cgroup v2, or not writable), all that a load starts descends from us while we live (`descendants.rs`). After us
//! the variable finds what has not emptied its own environment.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::cgroup;
use super::numbers::numbers;
use super::patience::PATIENCE;
use super::pidfd::signal_if;
use super::stat::ProcessStat;
use crate::host::Host;
use crate::lossy;

/// The variable that says which run, and which child of it, a process belongs to.
pub(crate) const RUN: &str = "IOSCHED_RUN";

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
        let names = self.names(host);
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
        match self.cgroup() {
            Some(path) if cgroup::remove_within(path, KILLED_WITHIN).is_err() => {
                Err(vec![format!("the cgroup {}", path.display())])
            }
            _ => Ok(names),
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
        let mut found = marked(host, &self.marker);
        found.extend(self.cgroup().map(cgroup::processes).unwrap_or_default());
        found.sort_unstable_by_key(|pid| pid.as_raw_nonzero());
        found.dedup();
        found
    }

    fn holds(&self, host: &Host, pid: Pid) -> bool {
        let in_cgroup = |path: &Path| cgroup::processes(path).contains(&pid);
        self.cgroup().is_some_and(in_cgroup) || is_marked(host, pid, &self.marker)
    }
}

/// Kills those whose [`RUN`] is `marker`, or begins with it and a point, until none is left or it takes too
/// long. A process that is just being executed has no environment for a moment: it is looked at again.
pub(super) fn kill_marked(host: &Host, marker: &str) {
    let deadline = Instant::now() + KILLED_WITHIN;
    let mut without = None;
    loop {
        let found = Marks::read(host, marker);
        let is_over = found.marked.is_empty()
            && without.is_some_and(|before| found.without.is_subset(&before));
        if is_over || Instant::now() > deadline {
            return;
        }
        for pid in found.marked {
            signal_if(pid, Signal::KILL, || is_marked(host, pid, marker));
        }
        without = Some(found.without);
        std::thread::sleep(STEP);
    }
}

fn marked(host: &Host, marker: &str) -> Vec<Pid> {
    Marks::read(host, marker).marked
}

/// Every process, by what its environment says of it.
struct Marks {
    marked: Vec<Pid>,
    /// Those that have no environment, zombies aside.
    without: BTreeSet<i32>,
}

impl Marks {
    fn read(host: &Host, marker: &str) -> Marks {
        let (mut of_marker, mut without) = (Vec::new(), BTreeSet::new());
        // Where the list cannot be read, nobody is known to be marked.
        let numbers = numbers(host).unwrap_or_default().into_iter();
        for (pid, environment) in environments(host, numbers.filter_map(Pid::from_raw).collect()) {
            let number = pid.as_raw_nonzero().get();
            match environment {
                Environment::Empty => {
                    let stat = ProcessStat::read(host, number);
                    without.extend(stat.filter(|stat| !stat.is_zombie).map(|_| number));
                }
                Environment::Marked(mark) if belongs(&mark, marker) => of_marker.push(pid),
                Environment::Marked(_) | Environment::Unmarked => {}
            }
        }
        Marks {
            marked: of_marker,
            without,
        }
    }
}

fn is_marked(host: &Host, pid: Pid, marker: &str) -> bool {
    mark(host, pid).is_some_and(|mark| belongs(&mark, marker))
}

/// True if a process says in its environment that it belongs to another child than that of `marker`.
pub(super) fn is_of_another_child(host: &Host, pid: Pid, marker: &str) -> bool {
    mark(host, pid).is_some_and(|mark| !belongs(&mark, marker))
}

fn belongs(mark: &[u8], marker: &str) -> bool {
    let rest = mark.strip_prefix(marker.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'.')
}

/// The value of [`RUN`] in a process' environment.
fn mark(host: &Host, pid: Pid) -> Option<Vec<u8>> {
    match environments(host, vec![pid]).pop()? {
        (_, Environment::Marked(mark)) => Some(mark),
        _ => None,
    }
}

/// What the environment of a process says.
#[derive(Debug, PartialEq, Eq)]
enum Environment {
    /// There is none, as of kernel threads, and of a process that is just being executed.
    Empty,
    Unmarked,
    /// The value of [`RUN`].
    Marked(Vec<u8>),
}

/// More than programs can be given (a quarter of the largest stack that counts, 6 MiB); a process can say that its
/// environment is much more of its memory.
const LONGEST_ENVIRONMENT: u64 = 8 << 20;

fn environment(path: &Path) -> io::Result<Environment> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path)?;
    file.take(LONGEST_ENVIRONMENT).read_to_end(&mut bytes)?;
    Ok(match mark_in(&bytes) {
        _ if bytes.is_empty() => Environment::Empty,
        None => Environment::Unmarked,
        Some(mark) => Environment::Marked(mark.to_vec()),
    })
}

fn mark_in(environment: &[u8]) -> Option<&[u8]> {
    environment.split(|&byte| byte == 0).find_map(|variable| {
        let rest = variable.strip_prefix(RUN.as_bytes())?;
        rest.strip_prefix(b"=")
    })
}

/// The environments of those that have one to read, but for those that do not answer.
fn environments(host: &Host, pids: Vec<Pid>) -> Vec<(Pid, Environment)> {
    let of_host = host.clone();
    let answers = PATIENCE.ask_each(&pids, move |pid| {
        environment(&of_host.proc(&format!("{}/environ", pid.as_raw_nonzero())))
    });
    let answers = pids.into_iter().zip(answers);
    answers
        .filter_map(|(pid, answer)| Some((pid, answer?.ok()?)))
        .collect()
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
        let of = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            environment(&path).unwrap()
        };
        assert_eq!(of(b""), Environment::Empty);
        assert_eq!(of(b"A=1\0"), Environment::Unmarked);
        let mark = format!("A=1\0{RUN}=x.1\0");
        assert_eq!(of(mark.as_bytes()), Environment::Marked(b"x.1".to_vec()));
        let file = fs::File::options().append(true).open(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        assert_eq!(
            environment(&path).unwrap(),
            Environment::Marked(b"x.1".to_vec())
        );
    }

    #[test]
    fn an_environment_that_does_not_come_keeps_no_other_from_being_read() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        let pids: Vec<Pid> = [11, 12, 13].into_iter().filter_map(Pid::from_raw).collect();
        for pid in &pids {
            let of_process = host.proc(&pid.as_raw_nonzero().to_string());
            fs::create_dir_all(&of_process).unwrap();
            let environment = of_process.join("environ");
            if pid.as_raw_nonzero().get() == 12 {
                // Nobody opens its other end.
                let fifo = rustix::fs::FileType::Fifo;
                let mode = rustix::fs::Mode::RUSR;
                rustix::fs::mknodat(rustix::fs::CWD, environment, fifo, mode, 0).unwrap();
            } else {
                fs::write(environment, "A=1").unwrap();
            }
        }
        let read = environments(&host, pids.clone());
        let read: Vec<Pid> = read.iter().map(|(pid, _)| *pid).collect();
        assert_eq!(read, [pids[0], pids[2]]);
    }

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
