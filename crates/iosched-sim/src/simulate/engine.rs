//! From one event to the next: the disk, the block layer, the processes.

use super::access::Accesses;
use super::drive::Drive;
use super::event_queue::{EventQueue, PlannedEvent};
use super::host::Host;
use super::outcome::{Outcome, Slices};
use super::page_cache::PageCache;
use super::process::Process;
use super::processors::Processors;
use super::room::Room;
use super::source::{self, Arrivals, Source};
use super::{HostTimes, Tracer, Writeback};
use crate::block_layer::{FLUSH, RequestQueue};
use crate::disk::DiskModel;
use crate::units::{Nanos, Sectors, Time};
use crate::workload::Job;
use crate::workload::replay::Replay;

/// What stands on both sides of the block layer.
pub(super) struct Machine {
    /// CPUs that processes are dealt out over.
    pub(super) cpus: usize,
    pub(super) disk: Box<dyn DiskModel>,
    /// Processors on which requests cost time.
    pub(super) processors: Option<Processors>,
    pub(super) jobs: Vec<Job>,
    pub(super) replay: Option<Replay>,
    pub(super) max_sectors: Sectors,
    pub(super) host: HostTimes,
    pub(super) writeback: Writeback,
    pub(super) volatile_cache: bool,
    pub(super) flushes_alone: bool,
    pub(super) seed: u64,
    pub(super) until: Nanos,
    pub(super) slice: Option<Nanos>,
}

/// The kernel's thread that writes dirty pages, as a process among the others.
fn flusher() -> Job {
    Job {
        name: "writeback".to_owned(),
        ..Job::default()
    }
}

/// Virtual time between two questions whether to go on: some ten milliseconds of work where a disk answers at once, and
/// on a hard disk still several accesses.
const BETWEEN_QUESTIONS: Nanos = Nanos::from_millis(50);

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Disk,
    Timer,
    Planned,
}

pub(super) struct Simulation<'run, Q> {
    pub(super) queue: Q,
    pub(super) host: Host<'run>,
    pub(super) until: Time,
    /// Which processes run: groups run one after the other.
    pub(super) group: usize,
    /// Processes that have not ended.
    pub(super) running: usize,
    /// Of those, the ones that do not end with the others.
    pub(super) foreground: usize,
    /// When the group whose turn it is began.
    pub(super) group_began: Time,
    /// When the block layer wants its timer to be called, at [`Time::MAX`] if never: only what goes
    /// into it changes that.
    timer: Time,
    processors: Option<Processors>,
    /// When the first access was submitted.
    pub(super) first: Option<Time>,
    pub(super) arrivals: Arrivals,
    pub(super) room: Room,
}

impl<'run, Q: RequestQueue> Simulation<'run, Q> {
    pub(super) fn new(queue: Q, machine: Machine, tracer: &'run mut dyn Tracer) -> Self {
        let (sources, arrivals) = source::sources(&machine.jobs, machine.seed, machine.replay);
        let cpu_of = |index: usize| u16::try_from(index % machine.cpus).unwrap_or(u16::MAX);
        let jobs = machine.jobs.into_iter().zip(sources).enumerate();
        let mut processes: Vec<_> = jobs
            .map(|(index, (job, source))| Process::new(index, cpu_of(index), job, source))
            .collect();
        let running = processes.len();
        let background = processes.iter().filter(|process| process.job.background);
        let foreground = running - background.count();
        let flusher = processes
            .iter()
            .any(|process| process.job.buffered)
            .then(|| {
                let index = processes.len();
                processes.push(Process::new(index, cpu_of(index), flusher(), Source::Idle));
                index
            });
        let host = Host {
            event_queue: EventQueue::default(),
            drive: Drive::new(machine.disk, &machine.host, machine.flushes_alone),
            accesses: Accesses::new(),
            processes,
            cache: PageCache::new(machine.writeback),
            flusher,
            volatile: machine.volatile_cache,
            several_cpus: machine.cpus > 1,
            max_sectors: machine.max_sectors,
            times: machine.host,
            observed: tracer.is_enabled(),
            tracer,
            last: Time::ZERO,
            slices: Slices::new(machine.slice),
        };
        Simulation {
            queue,
            host,
            until: Time::ZERO + machine.until,
            group: 0,
            running,
            foreground,
            group_began: Time::ZERO,
            timer: Time::MAX,
            processors: machine.processors,
            first: None,
            arrivals: Arrivals::new(arrivals),
            room: Room::default(),
        }
    }

    /// To the end, if `goes_on` says so whenever it is asked.
    pub(super) fn run(mut self, goes_on: &mut dyn FnMut() -> bool) -> Option<Outcome> {
        self.begin_group(Time::ZERO);
        self.plan_arrival();
        self.note_timer();
        let mut now = Time::ZERO;
        // The end is seen where the next question is: the loop compares one time with each event.
        let mut asks_after = self.until.min(Time::ZERO + BETWEEN_QUESTIONS);
        loop {
            let (time, due) = self.next();
            if time == Time::MAX || (due == Due::Timer && self.is_over()) {
                break; // a timer that fires for ever keeps nothing alive
            }
            if time > asks_after {
                if time > self.until {
                    now = self.until;
                    break;
                }
                if !goes_on() {
                    return None;
                }
                asks_after = self.until.min(time + BETWEEN_QUESTIONS);
            }
            now = now.max(time);
            self.step(now, due);
            if self.foreground == 0 && self.running > 0 {
                break; // what is left goes on only beside others
            }
        }
        Some(self.outcome(now))
    }

    /// True if nothing is left to be done: only timers can fire.
    fn is_over(&self) -> bool {
        let host = &self.host;
        self.running == 0
            && host.event_queue.next_time() == Time::MAX
            && host.drive.next_event() == Time::MAX
    }

    /// What is due next, at [`Time::MAX`] if nothing ever is; of several things at one time the
    /// disk's first, then the block layer's timer, then what was planned.
    fn next(&self) -> (Time, Due) {
        let disk = self.host.drive.next_event();
        let planned = self.host.event_queue.next_time();
        if disk <= self.timer && disk <= planned {
            (disk, Due::Disk)
        } else if self.timer <= planned {
            (self.timer, Due::Timer)
        } else {
            (planned, Due::Planned)
        }
    }

    fn note_timer(&mut self) {
        self.timer = self.queue.next_timer().unwrap_or(Time::MAX);
    }

    fn step(&mut self, now: Time, due: Due) {
        let Simulation { queue, host, .. } = self;
        match due {
            Due::Disk => return host.drive.advance(now, &mut host.event_queue),
            Due::Timer => queue.timer(host, now),
            Due::Planned => match host
                .event_queue
                .take_due(now)
                .expect("something is planned")
                .1
            {
                PlannedEvent::Completed(tag) => {
                    self.completed(now, tag);
                    self.go_on_with_room(now);
                }
                PlannedEvent::Arrived => host.drive.arrived(now),
                PlannedEvent::Arrival => self.arrive(now),
                PlannedEvent::Wake(process) => self.wake(now, process),
                PlannedEvent::RunQueue => queue.run_queue(host, now),
                PlannedEvent::Processed(processor) => {
                    self.processed(now, processor);
                    self.go_on_with_room(now);
                }
            },
        }
        self.note_timer();
    }

    /// The drive is done with a command: first a processor deals with that, if it costs time there.
    #[inline]
    fn completed(&mut self, now: Time, tag: u64) {
        match &mut self.processors {
            Some(processors) if tag != FLUSH => {
                let cpu = self.queue.cpu_of(tag);
                if let Some((time, cpu)) = processors.give(now, cpu, tag) {
                    self.host.plan(time, PlannedEvent::Processed(cpu));
                }
            }
            _ => self.end(now, tag),
        }
    }

    /// This processor is through with a step of its work, as was planned.
    fn processed(&mut self, now: Time, processor: usize) {
        let Some(processors) = &mut self.processors else {
            return;
        };
        let done = processors.step_ends(now, processor, |(time, processor)| {
            self.host.plan(time, PlannedEvent::Processed(processor));
        });
        if let Some(tag) = done {
            self.end(now, tag);
        }
    }

    /// The command with this tag is completed in the block layer.
    #[inline]
    fn end(&mut self, now: Time, tag: u64) {
        self.host.drive.completed(now, tag);
        self.queue.completed(&mut self.host, now, tag);
    }

    fn outcome(self, now: Time) -> Outcome {
        let Host {
            drive,
            processes,
            flusher,
            last,
            slices,
            ..
        } = self.host;
        let (disk, busy) = drive.end(now);
        let last = if busy { last.max(now) } else { last };
        let first = self.first.unwrap_or(Time::ZERO);
        Outcome {
            processes: processes
                .into_iter()
                .take(flusher.unwrap_or(usize::MAX))
                .map(|process| process.outcome(now))
                .collect(),
            elapsed: last.saturating_since(first),
            disk,
            slices: slices.end(),
            held_back: self.arrivals.held_back() + self.room.held_back(now),
        }
    }
}
