//! The cgroups of a load's jobs.

use iosched_facts::{Problem, exit};

use crate::request::ProcessId;
use crate::scheduler::{Elevator, SchedulerInfo};
use crate::workload::{Cgroup, Job};

/// Refuses jobs in cgroups where the scheduler's rules for them are not known.
pub fn check_groups(info: &SchedulerInfo, jobs: &[Job]) -> Result<(), Problem> {
    if !info.refuses_groups || jobs.iter().all(|job| job.cgroup.is_none()) {
        return Ok(());
    }
    let message = format!(
        "{} is not simulated with cgroups: how it shares between them is not known here",
        info.facts.name
    );
    Err(Problem::new(exit::BAD_TUNABLE, message)
        .hint("take a load without cgroups, or another scheduler"))
}

/// Says which processes are in which control group: those of one name are in one, whose weight is
/// the first that is given.
pub(super) fn join_groups(scheduler: &mut dyn Elevator, jobs: &[Job]) {
    let mut groups: Vec<&Cgroup> = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let Some(cgroup) = &job.cgroup else {
            continue;
        };
        let known = groups.iter().position(|group| group.name == cgroup.name);
        let place = known.unwrap_or_else(|| {
            groups.push(cgroup);
            groups.len() - 1
        });
        let number = u32::try_from(place + 1).expect("fewer groups than processes");
        scheduler.join_group(ProcessId::of_index(index), number, groups[place].weight);
    }
}
