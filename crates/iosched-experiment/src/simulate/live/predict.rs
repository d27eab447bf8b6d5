//! The same load in a closed loop over the same disk model, in virtual time.
//!
//! One run of a load is a matter of chance, ours as the kernel's: the places that it visits are drawn
//! from a seed. So there are several, and what is predicted is their mean.

use std::num::NonZeroU32;

use iosched_machine::failure::Problem;
use iosched_machine::process::Stop;
use iosched_sim::block_layer::{MergeLimits, Merging};
use iosched_sim::disk::DiskModel;
use iosched_sim::request::IoPriority;
use iosched_sim::scheduler::{self, NamedValues, SchedulerSpec};
use iosched_sim::simulate::{
    self, HostTimes, MultiQueueSettings, Outcome, Setup, Tracer, WorkerDelay,
};
use iosched_sim::trace::kernel::Line;
use iosched_sim::units::{Bytes, Nanos};
use iosched_sim::workload::Job;

use super::accesses::{Accesses, Predicted};
use super::machine::Machine;
use super::measure::{FIO, Measured};
use super::{Load, Pace, Plan, build};
use crate::load::LoadError;
use crate::threads;

/// How often the load is simulated. Some loads fall into one of two patterns for the whole run (*think-time* under bfq,
/// 150 or 200 IOPS): the mean of five was 10 % off that of many.
const RUNS: usize = 20;

/// How long loads are simulated to see how fast the disk is.
const TRIED: Nanos = Nanos::from_secs(1);

/// Longest request of an emulated disk.
const MAX_KIB: usize = 1024;

/// Longest request of pages that are scattered in memory, as those of the page cache are: 128 pieces,
/// the loop driver's limit.
const SCATTERED_KIB: usize = 512;

/// A machine that takes no time but for copying pages.
const AT_ONCE: HostTimes = HostTimes {
    wakeup: Nanos::ZERO,
    after_flush: Nanos::ZERO,
    tag_wakeup: Nanos::ZERO,
    worker: Nanos::ZERO,
    queue_run: WorkerDelay::ZERO,
    page_to_drive: Nanos::ZERO,
    ..HostTimes::emulated()
};

/// The disk at its own speed, on a machine that takes no time, under the load of which it completes
/// most requests.
pub(super) fn pace(plan: &Plan, driver_depth: usize, stop: &Stop) -> Result<Pace, Problem> {
    let rate = |load: &Load| {
        let disk = build(&plan.wanted, plan.size, NonZeroU32::MIN, plan.wanted.seed)?;
        let none = scheduler::build(
            &SchedulerSpec::parse("none")?,
            &plan.kernel,
            &NamedValues::new(),
        )?;
        let setup = Setup {
            queue_depth: driver_depth,
            host: AT_ONCE,
            ..Setup::new(none, disk, timed(load, TRIED))
        };
        let outcome = simulated(setup, stop, &mut ())?;
        Ok(outcome.disk.commands as f64 / outcome.elapsed.as_secs_f64().max(1e-9))
    };
    let rates = threads::each(plan.loads.len(), |at| rate(&plan.loads[at]));
    let rates: Vec<f64> = rates.into_iter().collect::<Result<_, Problem>>()?;
    let iops = rates.into_iter().fold(1.0, f64::max);
    Ok(Pace {
        iops,
        latency_ns: driver_depth as f64 * 1e9 / iops, // Little's law
    })
}

/// What comes out, if nobody stops it.
fn simulated(setup: Setup, stop: &Stop, tracer: &mut dyn Tracer) -> Result<Outcome, Problem> {
    simulate::run_while(setup, &mut || !stop.is_wanted(), tracer)
        .ok_or_else(|| LoadError::Stopped.into())
}

/// The load's processes, each for this long.
fn timed(load: &Load, runtime: Nanos) -> Vec<Job> {
    let mut jobs = load.jobs.clone();
    for job in &mut jobs {
        job.runtime = Some(runtime);
        job.amount = None;
    }
    jobs
}

/// Simulates the load as it was measured.
pub(super) fn predict(
    plan: &Plan,
    (scheduler, load): (&SchedulerSpec, &Load),
    measured: &Measured,
    machine: &Machine,
    stop: &Stop,
) -> Result<Vec<Predicted>, Problem> {
    let runs = threads::each(RUNS, |run| {
        let seed = plan.wanted.seed.wrapping_add(run as u64);
        let disk = build(&plan.wanted, plan.size, machine.slow_down, seed)?;
        let setup = setup(plan, scheduler, load, measured, machine, disk)?;
        let setup = Setup { seed, ..setup };
        let mut accesses = Accesses::new(load.is_cached());
        let outcome = simulated(setup, stop, &mut accesses)?;
        Ok(Predicted { outcome, accesses })
    });
    runs.into_iter().collect()
}

/// How long each load runs.
pub(super) fn runtime(plan: &Plan) -> Nanos {
    Nanos::new(u64::try_from(plan.wanted.runtime.as_nanos()).unwrap_or(u64::MAX))
}

/// The priority of processes whose job names none, if that is not the usual one: the kernel gives a
/// process that has none the level of its niceness, and fio's are as nice as this one is.
fn inherited_priority(lines: &[Line], jobs: &[Job]) -> Option<IoPriority> {
    let events = lines.iter().filter_map(|line| match line {
        Line::Event(event) if event.comm == FIO => event.priority,
        _ => None,
    });
    let is_unset = |job: &Job| job.priority == IoPriority::default();
    let mut others = events.filter(|&seen| !jobs.iter().any(|job| job.priority == seen));
    let found = others.next()?;
    let is_one = others.all(|other| other == found);
    (is_one && jobs.iter().any(is_unset)).then_some(found)
}

fn setup(
    plan: &Plan,
    scheduler: &SchedulerSpec,
    load: &Load,
    measured: &Measured,
    machine: &Machine,
    disk: Box<dyn DiskModel>,
) -> Result<Setup, Problem> {
    let kernel = scheduler.kernel(&plan.kernel);
    let max_kib = measured.setting("max_sectors_kb").unwrap_or(MAX_KIB);
    let max_kib = if load.is_cached() {
        max_kib.min(SCATTERED_KIB)
    } else {
        max_kib
    };
    let limits = MergeLimits {
        max_sectors: Bytes::from_kib(max_kib as u64).to_sectors(),
        merging: Merging::Full,
    };
    let mut jobs = timed(load, runtime(plan));
    if let Some(inherited) = inherited_priority(&measured.lines, &jobs) {
        let unset = |job: &&mut Job| job.priority == IoPriority::default();
        jobs.iter_mut()
            .filter(unset)
            .for_each(|job| job.priority = inherited);
    }
    let volatile = plan.wanted.model.write_cache();
    let built = scheduler::build(scheduler, &kernel, &NamedValues::new())?;
    Ok(Setup {
        queue_depth: usize::try_from(machine.driver_depth).unwrap_or(1),
        limits,
        host: HostTimes {
            completion_gap: machine.completion_gap(),
            ..HostTimes::emulated()
        },
        multi_queue: MultiQueueSettings {
            kernel,
            nr_requests: measured.nr_requests(),
            flushes_alone: true,
            wbt_lat: measured.wbt_lat(),
            ..MultiQueueSettings::default()
        },
        volatile_cache: volatile,
        ..Setup::new(built, disk, jobs)
    })
}

#[cfg(test)]
mod tests {
    use iosched_sim::request::PriorityClass;
    use iosched_sim::trace::kernel::Reader;

    use super::*;

    #[test]
    fn jobs_without_a_priority_have_that_of_the_processes_niceness_where_the_recording_shows_it() {
        let best_effort = |level| IoPriority {
            class: PriorityClass::BestEffort,
            level,
        };
        let inherited = |priorities: &[&str], levels: &[u8]| {
            let mut reader = Reader::new(Nanos::ZERO);
            let lines: Vec<Line> = priorities
                .iter()
                .map(|priority| format!("0 I R 0 8 7 {priority} 0"))
                .filter_map(|line| reader.read(&line).unwrap())
                .collect();
            let job = |&level: &u8| Job {
                priority: best_effort(level),
                ..Job::default()
            };
            let jobs: Vec<Job> = levels.iter().map(job).collect();
            inherited_priority(&lines, &jobs)
        };
        let niced = Some(best_effort(1));
        assert_eq!(inherited(&["fio - be/1", "fio - be/1"], &[4]), niced);
        assert_eq!(inherited(&["fio - be/0", "fio - be/1"], &[4, 0]), niced);
        assert_eq!(inherited(&["fio - be/4"], &[4]), None);
        assert_eq!(inherited(&["kworker/0:0 - be/1", "fio - be/4"], &[4]), None);
        assert_eq!(
            inherited(&["fio - be/1", "fio - be/2"], &[4]),
            None,
            "whose is which?"
        );
        assert_eq!(inherited(&["fio - be/1"], &[0]), None, "all have their own");
        assert_eq!(inherited(&["fio - -"], &[4]), None, "before Linux 6.2");
    }
}
