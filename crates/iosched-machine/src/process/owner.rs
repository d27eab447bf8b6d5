//! Whose something is that outlives a killed process: told from a later process with the same number.

use serde::{Deserialize, Serialize};

use super::ProcessStat;
use crate::host::Host;

/// A process that can be told from a later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its pid.
    pub pid: u32,
    /// When it started, in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub start_ticks: u64,
}

impl Owner {
    /// Us.
    pub fn this_process(host: &Host) -> Owner {
        let pid = std::process::id();
        Owner {
            pid,
            start_ticks: start_ticks(host, pid).unwrap_or_default(),
        }
    }

    /// The process of this pid that runs now.
    pub fn of_pid(host: &Host, pid: u32) -> Option<Owner> {
        Some(Owner {
            pid,
            start_ticks: start_ticks(host, pid)?,
        })
    }

    /// True while that very process runs.
    pub fn is_alive(&self, host: &Host) -> bool {
        start_ticks(host, self.pid) == Some(self.start_ticks)
    }
}

/// None for a process that has ended, zombies included.
fn start_ticks(host: &Host, pid: u32) -> Option<u64> {
    let stat = ProcessStat::read(host, pid).filter(|stat| !stat.is_zombie);
    Some(stat?.start_ticks)
}
