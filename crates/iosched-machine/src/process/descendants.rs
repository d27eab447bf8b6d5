//! What descends from us: where there is no cgroup v2, this is how all that a load started is found, though it
//! has left its session and emptied its environment.
//!
//! A process whose parent ends becomes a child of its nearest ancestor that asked for that
//! (`PR_SET_CHILD_SUBREAPER`, Linux 3.4), so nothing that we started leaves us while we live. What outlives us is
//! found by [`RUN`](super::RUN).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, set_child_subreaper, waitpid};

use super::numbers::numbers;
use super::pidfd::signal_if;
use super::stat::ProcessStat;
use crate::host::Host;

/// How long those who get SIGKILL may take.
const KILLED_WITHIN: Duration = Duration::from_secs(60);

/// How often they are looked at.
const STEP: Duration = Duration::from_millis(5);

/// A process: its number and the ticks of its start.
type Process = (i32, u64);

/// Processes that descended from us at one moment: they, and what they start, are not to be ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Descendants(BTreeSet<Process>);

/// Makes whatever we start from now on ours when its parent ends.
pub(super) fn keep() -> bool {
    set_child_subreaper(Some(getpid())).is_ok()
}

impl Descendants {
    /// Those of now.
    pub(super) fn now(host: &Host) -> Descendants {
        let table = Table::read(host);
        Descendants(table.below_us(&BTreeSet::new()).into_iter().collect())
    }

    /// Kills all others that descend from us and that `may_end`, until none is left or it takes too long. `own`
    /// is a child whose end somebody else waits for, if there is one.
    pub(super) fn kill_others(&self, host: &Host, own: Option<Pid>, may_end: impl Fn(Pid) -> bool) {
        let deadline = Instant::now() + KILLED_WITHIN;
        loop {
            let table = Table::read(host);
            let mut is_over = !table.is_torn;
            for process in table.below_us(&self.0) {
                let Some(pid) = Pid::from_raw(process.0).filter(|&pid| may_end(pid)) else {
                    continue;
                };
                if table.is_zombie(process) {
                    if Some(pid) != own && table.is_our_child(process) {
                        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
                    }
                    continue;
                }
                is_over = false;
                signal_if(pid, Signal::KILL, || is_still(host, process));
            }
            if is_over || Instant::now() > deadline {
                return;
            }
            std::thread::sleep(STEP);
        }
    }
}

/// Children of ours that do not run their program yet: those that a signal stopped, or all.
pub(super) fn not_begun(host: &Host, only_stopped: bool) -> Vec<Pid> {
    let us = getpid().as_raw_nonzero().get();
    let program = |process: &str| fs::read_link(host.proc(&format!("{process}/exe"))).ok();
    let ours = program("self");
    let is_one = |pid: &i32| {
        ProcessStat::read(host, *pid)
            .is_some_and(|stat| stat.parent == us && (stat.is_stopped || !only_stopped))
            && program(&pid.to_string()) == ours
    };
    let numbers = numbers(host).unwrap_or_default().into_iter();
    numbers.filter(is_one).filter_map(Pid::from_raw).collect()
}

fn is_still(host: &Host, (pid, start_ticks): Process) -> bool {
    ProcessStat::read(host, pid).is_some_and(|stat| stat.start_ticks == start_ticks)
}

/// Every process, read one after the other.
struct Table {
    us: i32,
    processes: BTreeMap<i32, ProcessStat>,
    /// A parent ended between its child's line and its own: whose child that is now, the next table says.
    is_torn: bool,
}

impl Table {
    fn read(host: &Host) -> Table {
        // Where the list cannot be read, nobody is known to descend from us.
        let numbers = numbers(host).unwrap_or_default().into_iter();
        let processes: BTreeMap<i32, ProcessStat> = numbers
            .filter_map(|pid| Some((pid, ProcessStat::read(host, pid)?)))
            .collect();
        let mut parents = processes.values().map(|stat| stat.parent);
        Table {
            us: getpid().as_raw_nonzero().get(),
            is_torn: parents.any(|parent| parent != 0 && !processes.contains_key(&parent)),
            processes,
        }
    }

    /// Those below us, without `spared` and what is below these.
    fn below_us(&self, spared: &BTreeSet<Process>) -> Vec<Process> {
        let mut found = Vec::new();
        let mut parents = vec![self.us];
        while let Some(parent) = parents.pop() {
            for (&pid, stat) in self
                .processes
                .iter()
                .filter(|(_, stat)| stat.parent == parent)
            {
                let process = (pid, stat.start_ticks);
                if !spared.contains(&process) {
                    found.push(process);
                    parents.push(pid);
                }
            }
        }
        found
    }

    fn is_zombie(&self, (pid, _): Process) -> bool {
        self.processes[&pid].is_zombie
    }

    fn is_our_child(&self, (pid, _): Process) -> bool {
        self.processes[&pid].parent == self.us
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A machine with these processes: number, parent.
    fn table(processes: &[(i32, i32)]) -> Table {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        let fields = (5..22).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        for (pid, parent) in processes {
            fs::create_dir_all(host.proc(&pid.to_string())).unwrap();
            let stat = format!("{pid} (x) S {parent} {fields} {}\n", pid * 10);
            fs::write(host.proc(&format!("{pid}/stat")), stat).unwrap();
        }
        let mut table = Table::read(&host);
        table.us = 5;
        table
    }

    #[test]
    fn who_was_there_before_is_spared_with_all_below() {
        let table = table(&[(1, 0), (5, 1), (6, 5), (7, 6), (8, 5), (9, 8), (10, 1)]);
        assert!(!table.is_torn);
        let mut all = table.below_us(&BTreeSet::new());
        all.sort_unstable();
        assert_eq!(all, [(6, 60), (7, 70), (8, 80), (9, 90)]);
        let mut others = table.below_us(&BTreeSet::from([(6, 60)]));
        others.sort_unstable();
        assert_eq!(others, [(8, 80), (9, 90)]);
        // Another process by now, with the number of the one that was there.
        assert_eq!(table.below_us(&BTreeSet::from([(6, 61)])).len(), 4);
    }

    #[test]
    fn a_table_that_lacks_a_parent_is_looked_at_again() {
        assert!(table(&[(1, 0), (5, 1), (7, 6)]).is_torn);
    }
}
