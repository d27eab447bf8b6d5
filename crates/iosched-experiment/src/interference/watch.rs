//! Looks on while a load runs.

use std::time::Instant;

use iosched_machine::capture;
use iosched_machine::failure::Problem;
use iosched_machine::host::Host;
use iosched_machine::lossy;
use iosched_machine::pressure::Pressure;
use iosched_machine::process::processors::{ProcessorTimes, stopped};

use super::state::{Change, State};
use super::{ForeignIo, Interference, Other};
use crate::measure::Measured;

/// Looks on during the trials of a run. What a load starts from its opening on is known to be the load's.
#[derive(Debug)]
pub(crate) struct Watch {
    io: Option<capture::ForeignIo>,
    disks: Vec<String>,
    servers: Vec<i32>,
}

/// Looking at all processes is to take at most one in so many of a processor's time.
const LOOKS: u32 = 50;

/// Counters before a load.
#[derive(Debug)]
pub(crate) struct Before {
    state: State,
    counted: Counted,
    stopped: Option<Other>,
    next_look: Instant,
}

/// Counters at one moment.
#[derive(Debug)]
struct Counted {
    times: ProcessorTimes,
    memory_us: Option<u64>,
    swapped_pages: u64,
    throttled: u64,
}

impl Watch {
    /// Gets ready for these disks; and why their I/O cannot be told apart, where that is so.
    pub(crate) fn open(host: &Host, disks: &[String], servers: &[i32]) -> (Watch, Option<Problem>) {
        let opened = (!disks.is_empty()).then(|| capture::ForeignIo::open(host, disks, servers));
        let (io, why_not) = match opened {
            Some(Ok(io)) => (Some(io), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        let servers = servers.to_vec();
        let disks = disks.to_vec();
        (Watch { io, disks, servers }, why_not)
    }

    /// A load is about to run.
    pub(crate) fn begin(&mut self, host: &Host) -> Before {
        self.or_no_io(capture::ForeignIo::begin);
        Before {
            counted: Counted::read(host, &self.servers),
            state: State::read(host, &self.disks),
            stopped: None,
            next_look: Instant::now(),
        }
    }

    /// Some ten times a second while it runs.
    pub(crate) fn tick(&mut self, host: &Host, before: &mut Before) {
        before.state.look(host, &self.disks);
        self.or_no_io(capture::ForeignIo::drain);
        let begun = Instant::now();
        if before.stopped.is_none() && begun >= before.next_look {
            let found = stopped(host, &self.servers);
            before.stopped = found.map(|(pid, name)| Other::of(pid.unsigned_abs(), &name));
            before.next_look = begun + begun.elapsed() * LOOKS;
        }
    }

    /// It has run, and did all of this with the others: what was theirs, and the processor time that they used, ns; and a
    /// setting that did not stay as it was.
    pub(crate) fn end(
        &mut self,
        host: &Host,
        before: Before,
        measured: &Measured,
        elapsed_ns: u64,
    ) -> (Interference, u64, Option<Change>) {
        let submitters = self.or_no_io(capture::ForeignIo::end);
        let change = before.state.change(host, &self.disks);
        let stopped = before.stopped;
        let (before, after) = (before.counted, Counted::read(host, &self.servers));
        let used = after.times.used_by_others_since(host, &before.times);
        let of_one = |ns: u64| ns as f64 / elapsed_ns.max(1) as f64;
        let memory = after.memory_us.zip(before.memory_us);
        let seen = Interference {
            io: submitters.map(|all| ForeignIo::of(&all, measured)),
            processors: used
                .by
                .into_iter()
                .map(|(pid, command, ns)| Other {
                    share: of_one(ns),
                    ..Other::of(pid.unsigned_abs(), &command)
                })
                .filter(|other| other.share >= 0.01)
                .collect(),
            stopped,
            steal_ns: used.steal_ns,
            memory_pressure_ns: memory.map(|(now, then)| now.saturating_sub(then) * 1000),
            swapped_pages: after.swapped_pages.saturating_sub(before.swapped_pages),
            throttled: after.throttled.saturating_sub(before.throttled),
        };
        (seen, used.total_ns, change)
    }

    /// What the events tell; where they cannot be read any more they are not asked again.
    fn or_no_io<T>(
        &mut self,
        ask: impl FnOnce(&mut capture::ForeignIo) -> Result<T, Problem>,
    ) -> Option<T> {
        let told = ask(self.io.as_mut()?).ok();
        if told.is_none() {
            self.io = None;
        }
        told
    }
}

impl Counted {
    fn read(host: &Host, servers: &[i32]) -> Counted {
        Counted {
            times: ProcessorTimes::read(host, servers),
            memory_us: Pressure::of_memory(host).map(|pressure| pressure.some_us),
            swapped_pages: swapped_pages(host),
            throttled: throttled(host),
        }
    }
}

/// Pages swapped in and out since boot (`pswpin` and `pswpout` of `/proc/vmstat`).
fn swapped_pages(host: &Host) -> u64 {
    let text = lossy::read(host.proc("vmstat")).unwrap_or_default();
    let of_swap = text.lines().filter_map(|line| line.strip_prefix("pswp"));
    of_swap
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
        .sum()
}

/// How often processors were slowed because they were hot (`thermal_throttle/core_throttle_count`, x86).
fn throttled(host: &Host) -> u64 {
    let counts = (0..).map_while(|cpu| {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count");
        lossy::read(host.path(std::path::Path::new(&path)))
            .ok()?
            .trim()
            .parse::<u64>()
            .ok()
    });
    counts.sum()
}
