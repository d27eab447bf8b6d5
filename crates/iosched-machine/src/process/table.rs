//! The processes of `/proc` (`proc_pid_stat(5)`), and those that descend from us: where there is no cgroup v2, this is how
//! all that a load started is found, though it has left its session and emptied its environment.
//!
//! A process whose parent ends becomes a child of its nearest ancestor that asked for that (`PR_SET_CHILD_SUBREAPER`, Linux
//! 3.4), so nothing that we started leaves us while we live.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, set_child_subreaper, waitpid};

use super::pidfd::signal_if;
use crate::host::Host;

/// How long those who get SIGKILL may take.
const KILLED_WITHIN: Duration = Duration::from_secs(60);

/// How often they are looked at.
const STEP: Duration = Duration::from_millis(5);

/// What we want to know of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// Its parent; 0 where that is outside of our pid namespace.
    pub parent: i32,
    /// Clock ticks from boot to its start: with its number, tells it from every other process of this boot.
    pub start_ticks: u64,
    /// It has ended, and its parent has not asked how. With more than one thread only the first has.
    pub is_zombie: bool,
    /// A signal stopped it.
    pub(super) is_stopped: bool,
    /// Its threads, with those that have ended and are still there.
    pub(super) threads: u32,
    /// `PF_*` of the kernel's `linux/sched.h`.
    pub(crate) flags: u64,
    /// Processor time outside of the kernel, with that of the children that it has waited for, in clock ticks.
    pub(super) user_ticks: u64,
    /// The same inside of the kernel.
    pub(super) system_ticks: u64,
}

impl ProcessStat {
    /// Of this process; `None` if there is none.
    pub fn read(host: &Host, pid: impl Into<i64>) -> Option<ProcessStat> {
        ProcessStat::read_below(host, &pid.into().to_string())
    }

    /// Of the process that has this directory in `/proc`: its number, or `self`.
    pub(super) fn read_below(host: &Host, directory: &str) -> Option<ProcessStat> {
        let text = fs::read(host.proc(&format!("{directory}/stat"))).ok()?;
        ProcessStat::parse(&String::from_utf8_lossy(&text))
    }

    /// Fields 3, 4, 9, 14 to 17, 20 and 22. The command (field 2) may hold anything, so count from its closing parenthesis.
    fn parse(stat: &str) -> Option<ProcessStat> {
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let flags = fields.nth(4)?.parse().ok()?;
        fields.nth(3)?;
        let mut ticks = [0_i64; 4]; // user, system, and the same of children
        for ticks in &mut ticks {
            *ticks = fields.next()?.parse().ok()?;
        }
        let [user, system, of_children, system_of_children] =
            ticks.map(|ticks| u64::try_from(ticks).unwrap_or(0));
        Some(ProcessStat {
            is_zombie: matches!(state, "Z" | "X"),
            is_stopped: state == "T",
            parent,
            flags,
            user_ticks: user + of_children,
            system_ticks: system + system_of_children,
            threads: fields.nth(2)?.parse().ok()?,
            start_ticks: fields.nth(1)?.parse().ok()?,
        })
    }
}

/// The numbers of the processes that are there, as `/proc` lists them. Any of them may have ended since.
///
/// # Errors
/// The list cannot be read: then nothing is known of any process.
pub(crate) fn numbers(host: &Host) -> io::Result<Vec<i32>> {
    let names = fs::read_dir(host.proc(""))?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?.into_iter();
    Ok(names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect())
}

/// All processes; where the list cannot be read, none is known.
pub(super) fn all(host: &Host) -> BTreeMap<i32, ProcessStat> {
    let numbers = numbers(host).unwrap_or_default().into_iter();
    let stats = numbers.filter_map(|pid| Some((pid, ProcessStat::read(host, pid)?)));
    stats.collect()
}

pub(super) fn us() -> i32 {
    getpid().as_raw_nonzero().get()
}

/// A process: its number and the ticks of its start.
pub(super) type Process = (i32, u64);

/// Processes that descended from us at one moment: they, and what they start, are not to be ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Descendants(BTreeSet<Process>);

impl Descendants {
    /// Makes whatever we start from now on ours when its parent ends, and gives those that are there already.
    pub(super) fn keep(host: &Host) -> Option<Descendants> {
        set_child_subreaper(Some(getpid())).ok()?;
        Some(Descendants::now(host))
    }

    /// Those of now.
    pub(super) fn now(host: &Host) -> Descendants {
        Descendants(
            below(&all(host), us(), &BTreeSet::new())
                .into_iter()
                .collect(),
        )
    }

    /// Kills all others that descend from us, until none is left or it takes too long. `own` is a child whose end somebody
    /// else waits for.
    pub(super) fn kill_others(&self, host: &Host, own: Option<Pid>) {
        let deadline = Instant::now() + KILLED_WITHIN;
        loop {
            let table = all(host);
            // A parent that ended between its child's line and its own: the next table says whose child that is now.
            let is_torn =
                |stat: &ProcessStat| stat.parent != 0 && !table.contains_key(&stat.parent);
            let mut is_over = !table.values().any(is_torn);
            for (number, start_ticks) in below(&table, us(), &self.0) {
                let Some(pid) = Pid::from_raw(number) else {
                    continue;
                };
                if !table[&number].is_zombie {
                    is_over = false;
                    let now = || ProcessStat::read(host, number);
                    signal_if(pid, Signal::KILL, || {
                        now().is_some_and(|now| now.start_ticks == start_ticks)
                    });
                } else if Some(pid) != own && table[&number].parent == us() {
                    let _ = waitpid(Some(pid), WaitOptions::NOHANG);
                }
            }
            if is_over || Instant::now() > deadline {
                return;
            }
            std::thread::sleep(STEP);
        }
    }
}

/// Those below a process, without `spared` and what is below these.
pub(super) fn below(
    table: &BTreeMap<i32, ProcessStat>,
    top: i32,
    spared: &BTreeSet<Process>,
) -> Vec<Process> {
    let mut found = Vec::new();
    let mut parents = vec![top];
    while let Some(parent) = parents.pop() {
        for (&pid, stat) in table.iter().filter(|(_, stat)| stat.parent == parent) {
            let process = (pid, stat.start_ticks);
            if !spared.contains(&process) {
                found.push(process);
                parents.push(pid);
            }
        }
    }
    found
}

/// Children of ours that do not run their program yet: those that a signal stopped, or all.
pub(super) fn not_begun(host: &Host, only_stopped: bool) -> Vec<Pid> {
    let program = |process: &str| fs::read_link(host.proc(&format!("{process}/exe"))).ok();
    let ours = program("self");
    let is_one = |(pid, stat): &(i32, ProcessStat)| {
        stat.parent == us()
            && (stat.is_stopped || !only_stopped)
            && program(&pid.to_string()) == ours
    };
    let found = all(host).into_iter().filter(is_one);
    found.filter_map(|(pid, _)| Pid::from_raw(pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with these processes: number, parent.
    fn table(processes: &[(i32, i32)]) -> BTreeMap<i32, ProcessStat> {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        let fields = (5..22).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        for (pid, parent) in processes {
            fs::create_dir_all(host.proc(&pid.to_string())).unwrap();
            // Names are bytes.
            let stat = format!(" x) S {parent} {fields} {}\n", pid * 10);
            let stat = [format!("{pid} (").as_bytes(), b"\xff)", stat.as_bytes()].concat();
            fs::write(host.proc(&format!("{pid}/stat")), stat).unwrap();
        }
        all(&host)
    }

    #[test]
    fn who_was_there_before_is_spared_with_all_below() {
        let table = table(&[(1, 0), (5, 1), (6, 5), (7, 6), (8, 5), (9, 8), (10, 1)]);
        let below = |spared: &[Process]| {
            let mut found = below(&table, 5, &spared.iter().copied().collect());
            found.sort_unstable();
            found
        };
        assert_eq!(below(&[]), [(6, 60), (7, 70), (8, 80), (9, 90)]);
        assert_eq!(below(&[(6, 60)]), [(8, 80), (9, 90)]);
        // Another process by now, with the number of the one that was there.
        assert_eq!(below(&[(6, 61)]).len(), 4);
    }

    #[test]
    fn fields_are_counted_from_the_end_of_the_command_whatever_it_is_called() {
        let fields = (5..22).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let stat = ProcessStat::parse(&format!("7 (a) b) Z 3 {fields} 4711 9\n")).unwrap();
        assert_eq!((stat.parent, stat.flags), (3, 9));
        assert_eq!((stat.threads, stat.start_ticks), (20, 4711));
        assert!(stat.is_zombie && !stat.is_stopped);
        assert_eq!(ProcessStat::parse("7 (a) S 3"), None);
    }
}
