//! Who used the processors, between two moments.
//!
//! A process's time holds that of the children that it has waited for (`proc_pid_stat(5)`), so that what lived for a
//! moment is not lost. What the kernel's threads do is done for somebody, and left out.

use std::collections::{BTreeMap, BTreeSet};

use super::ProcessStat;
use super::table::{Process, all, below, us};
use crate::host::Host;
use crate::lossy;

/// `PF_KTHREAD` of `linux/sched.h`: a thread of the kernel.
pub(crate) const KERNEL_THREAD: u64 = 0x0020_0000;

/// One of `USER_HZ`, ns: 100 on every architecture that Linux still runs on.
const TICK_NS: u64 = 10_000_000;

/// The processor time of all processes at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessorTimes {
    /// Outside of the kernel: of the machine, and of what is ours of it.
    machine_user: u64,
    own_user: u64,
    /// Of each process that is not ours, in and outside of the kernel.
    others: BTreeMap<Process, u64>,
    /// Taken by the hypervisor.
    steal: u64,
}

/// This process, these, and all that descend from them.
fn own(table: &BTreeMap<i32, ProcessStat>, servers: &[i32]) -> BTreeSet<i32> {
    let tops = servers.iter().copied().chain([us()]);
    tops.flat_map(|top| {
        let below = below(table, top, &BTreeSet::new()).into_iter();
        below.map(|(pid, _)| pid).chain([top])
    })
    .collect()
}

/// One of ours, or of these servers, that a signal stopped (`SIGSTOP`), if any: its number and command. Children that do not
/// run their program yet are stopped by us.
pub fn stopped(host: &Host, servers: &[i32]) -> Option<(i32, String)> {
    let table = all(host);
    let own = own(&table, servers).into_iter();
    let mut stopped = own.filter(|pid| table.get(pid).is_some_and(|stat| stat.is_stopped));
    let program = |process: &str| std::fs::read_link(host.proc(&format!("{process}/exe"))).ok();
    let ours = program("self");
    let pid = stopped.find(|pid| servers.contains(pid) || program(&pid.to_string()) != ours)?;
    let name = lossy::read(host.proc(&format!("{pid}/comm"))).ok()?;
    Some((pid, name.trim_end().to_owned()))
}

/// What others used between two moments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsedByOthers {
    /// Processor time of all of them, ns.
    pub total_ns: u64,
    /// Those that used the most of it, the most first: number, command, ns. At most three.
    pub by: Vec<(i32, String, u64)>,
    /// Time that the hypervisor gave to others, ns.
    pub steal_ns: u64,
}

impl ProcessorTimes {
    /// Reads them; ours are this process, these (servers of emulated disks), and all that descend from them.
    pub fn read(host: &Host, servers: &[i32]) -> ProcessorTimes {
        let table = all(host);
        let own = own(&table, servers);
        let stat = lossy::read(host.proc("stat")).unwrap_or_default();
        let fields: Vec<u64> = stat
            .lines()
            .next()
            .unwrap_or_default()
            .split_ascii_whitespace()
            .skip(1)
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        let field = |at: usize| fields.get(at).copied().unwrap_or(0);
        let is_other = |(pid, stat): &(&i32, &ProcessStat)| {
            !own.contains(pid) && stat.flags & KERNEL_THREAD == 0
        };
        ProcessorTimes {
            machine_user: field(0) + field(1),
            own_user: own
                .iter()
                .filter_map(|pid| Some(table.get(pid)?.user_ticks))
                .sum(),
            others: table
                .iter()
                .filter(is_other)
                .map(|(&pid, stat)| {
                    let ticks = stat.user_ticks + stat.system_ticks;
                    ((pid, stat.start_ticks), ticks)
                })
                .collect(),
            steal: field(7),
        }
    }

    /// What others used since then.
    pub fn used_by_others_since(&self, host: &Host, before: &ProcessorTimes) -> UsedByOthers {
        let sum = |times: &ProcessorTimes| times.others.values().sum::<u64>();
        let seen = sum(self).saturating_sub(sum(before));
        // In a container the machine's others are not seen.
        let machine = self.machine_user.saturating_sub(before.machine_user);
        let unseen = machine.saturating_sub(self.own_user.saturating_sub(before.own_user));
        let mut by: Vec<(i32, u64)> = self
            .others
            .iter()
            .map(|(process, ticks)| {
                let then = before.others.get(process).copied().unwrap_or(0);
                (process.0, ticks.saturating_sub(then) * TICK_NS)
            })
            .filter(|&(_, used)| used > 0)
            .collect();
        by.sort_by_key(|&(pid, used)| (std::cmp::Reverse(used), pid));
        by.truncate(3);
        UsedByOthers {
            total_ns: seen.max(unseen) * TICK_NS,
            by: by
                .into_iter()
                .filter_map(|(pid, used)| {
                    let name = lossy::read(host.proc(&format!("{pid}/comm"))).ok()?;
                    Some((pid, name.trim_end().to_owned(), used))
                })
                .collect(),
            steal_ns: self.steal.saturating_sub(before.steal) * TICK_NS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, kill_process};

    #[test]
    fn a_child_that_somebody_stopped_is_told_by_name() {
        let host = Host::live();
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        let runs = || lossy::read(host.proc(&format!("{}/comm", child.id()))).unwrap() == "sleep\n";
        while !runs() {
            std::thread::yield_now();
        }
        kill_process(pid, Signal::STOP).unwrap();
        let is_stopped = || ProcessStat::read(&host, child.id()).unwrap().is_stopped;
        while !is_stopped() {
            std::thread::yield_now();
        }
        let servers = [pid.as_raw_nonzero().get()];
        let found = stopped(&host, &servers);
        kill_process(pid, Signal::KILL).unwrap();
        child.wait().unwrap();
        assert_eq!(found, Some((servers[0], "sleep".to_owned())));
    }
}
