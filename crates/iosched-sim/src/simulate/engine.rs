//! From one event to the next: the disk, the path, the processes.

use super::access::Accesses;
use super::agenda::{Agenda, Event};
use super::drive::Drive;
use super::host::Host;
use super::outcome::Outcome;
use super::path::Path;
use super::process::Process;
use super::{HostTimes, Observer};
use crate::disk::DiskModel;
use crate::request::Requests;
use crate::units::{Nanos, Sectors, Time};
use crate::workload::Job;

/// What stands on both sides of the path.
pub(super) struct Machine {
    pub(super) disk: Box<dyn DiskModel>,
    pub(super) jobs: Vec<Job>,
    pub(super) max_sectors: Sectors,
    pub(super) host: HostTimes,
    pub(super) seed: u64,
    pub(super) until: Nanos,
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy)]
enum Due {
    Disk,
    Timer,
    Planned,
}

/// A run.
pub(super) struct Simulation<'run, P> {
    pub(super) path: P,
    pub(super) host: Host<'run>,
    pub(super) until: Time,
    /// Which processes run: groups run one after the other.
    pub(super) group: usize,
    /// When the first access was submitted.
    pub(super) first: Option<Time>,
}

impl<'run, P: Path> Simulation<'run, P> {
    pub(super) fn new(path: P, machine: Machine, observer: &'run mut dyn Observer) -> Self {
        let jobs = machine.jobs.into_iter().enumerate();
        let processes = jobs.map(|(index, job)| Process::new(index, job, machine.seed));
        let host = Host {
            agenda: Agenda::default(),
            drive: Drive::new(machine.disk, machine.host.completion),
            requests: Requests::default(),
            accesses: Accesses::new(),
            processes: processes.collect(),
            max_sectors: machine.max_sectors,
            times: machine.host,
            observed: observer.looks(),
            observer,
            last: Time::ZERO,
        };
        Simulation {
            path,
            host,
            until: Time::ZERO + machine.until,
            group: 0,
            first: None,
        }
    }

    pub(super) fn run(mut self) -> Outcome {
        self.begin_group(Time::ZERO);
        let mut now = Time::ZERO;
        loop {
            let (time, due) = self.next();
            if time == Time::MAX {
                break;
            }
            if time > self.until {
                now = self.until;
                break;
            }
            now = now.max(time);
            self.step(now, due);
        }
        self.outcome(now)
    }

    /// What is due next, at [`Time::MAX`] if nothing ever is; of several things at one time the
    /// disk's first, then the path's timer, then what was planned.
    fn next(&self) -> (Time, Due) {
        let disk = self.host.drive.next_event().unwrap_or(Time::MAX);
        let timer = self.path.next_timer().unwrap_or(Time::MAX);
        let planned = self.host.agenda.next_time();
        if disk <= timer && disk <= planned {
            (disk, Due::Disk)
        } else if timer <= planned {
            (timer, Due::Timer)
        } else {
            (planned, Due::Planned)
        }
    }

    fn step(&mut self, now: Time, due: Due) {
        let Simulation { path, host, .. } = self;
        match due {
            Due::Disk => host.drive.advance(now, &mut host.agenda),
            Due::Timer => path.timer(host, now),
            Due::Planned => match host.agenda.pop().expect("something is planned") {
                Event::Completed(tag) => path.completed(host, now, tag),
                Event::Wake(process) => self.wake(now, process),
                Event::RunQueue => path.run_queue(host, now),
            },
        }
    }

    fn outcome(self, now: Time) -> Outcome {
        let Host {
            drive,
            processes,
            last,
            ..
        } = self.host;
        let (disk, busy) = drive.end(now);
        let last = if busy { last.max(now) } else { last };
        let first = self.first.unwrap_or(Time::ZERO);
        Outcome {
            processes: processes
                .into_iter()
                .map(|process| process.outcome(now))
                .collect(),
            elapsed: last.saturating_since(first),
            disk,
        }
    }
}
