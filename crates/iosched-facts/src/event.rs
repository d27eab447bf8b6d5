//! What happens in the block layer, as recordings tell it.

use crate::kernel::KernelVersion;
use crate::units::{Nanos, Sector, Sectors, Time};

/// What a bio or a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// From the medium or a cache.
    Read,
    /// To the medium or a cache.
    Write,
    /// Gives sectors back.
    Discard,
}

impl Op {
    /// The data direction as queues count it: discards go with writes.
    pub fn is_write(self) -> bool {
        !matches!(self, Op::Read)
    }
}

/// Who submitted: a process with its own I/O context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ProcessId(pub u32);

/// The first process of a simulated run.
const FIRST: u32 = 1000;

impl ProcessId {
    /// The process with this number in a simulated run, from 0.
    ///
    /// # Panics
    /// If there are more than 2^31.
    pub fn of_index(index: usize) -> ProcessId {
        ProcessId(FIRST + u32::try_from(index).expect("fewer than 2^31"))
    }

    /// Its number in a simulated run.
    pub fn index(self) -> usize {
        (self.0 - FIRST) as usize
    }
}

/// Scheduling class of an I/O priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum PriorityClass {
    /// Real time: before all others.
    RealTime,
    /// Best effort: what everyone is in.
    #[default]
    BestEffort,
    /// Idle: when nobody else wants the disk.
    Idle,
}

/// An I/O priority as `ionice` sets it. `None` class is best effort at the level that the nice value
/// gives, which the caller works out ([`IoPriority::default`] is nice 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoPriority {
    /// Classes are served one before the other.
    pub class: PriorityClass,
    /// 0 (first) to 7 (last) within the class.
    pub level: u8,
}

impl Default for IoPriority {
    fn default() -> IoPriority {
        IoPriority {
            class: PriorityClass::BestEffort,
            level: 4,
        }
    }
}

/// What happens to bios and requests, by the letters of `blktrace`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Q: a bio was queued.
    Queued,
    /// G: a request was allocated.
    Allocated,
    /// P: a process holds its requests back.
    Plugged,
    /// U: and lets them go.
    Unplugged,
    /// UT: it let them go because it fell asleep; a worker runs the queue.
    UnpluggedLater,
    /// I: a request entered the scheduler.
    Inserted,
    /// M: a bio continued a request.
    BackMerged,
    /// F: a bio was put before a request.
    FrontMerged,
    /// RM: a request became part of the one before it.
    RequestsMerged,
    /// X: the scheduler dispatched a request (multi-queue, in recordings of our own; for `blktrace` it is a split).
    Dispatched,
    /// D: the driver took a request.
    Issued,
    /// R: the disk did not take it after all; the driver has to try again.
    Requeued,
    /// C: the disk was done.
    Completed,
    /// Anything else (A, X of others, …).
    Other,
}

impl Action {
    /// All with their letters.
    const LETTERS: [(Action, &'static str); 14] = [
        (Action::Queued, "Q"),
        (Action::Allocated, "G"),
        (Action::Plugged, "P"),
        (Action::Unplugged, "U"),
        (Action::UnpluggedLater, "UT"),
        (Action::Inserted, "I"),
        (Action::BackMerged, "M"),
        (Action::FrontMerged, "F"),
        (Action::RequestsMerged, "RM"),
        (Action::Dispatched, "X"),
        (Action::Issued, "D"),
        (Action::Requeued, "R"),
        (Action::Completed, "C"),
        (Action::Other, "A"),
    ];

    /// As it is written.
    pub fn letters(self) -> &'static str {
        let mut all = Action::LETTERS.iter();
        let found = all.find(|(action, _)| *action == self);
        found.map_or("A", |(_, letters)| letters)
    }

    /// What is written so.
    pub fn of_letters(letters: &str) -> Action {
        let found = Action::LETTERS.iter().find(|(_, known)| *known == letters);
        found.map_or(Action::Other, |(action, _)| *action)
    }
}

/// One event of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// When, on the recording's clock.
    pub time: Time,
    /// The step in the life of a bio or request.
    pub action: Action,
    /// What the request does; `None` for commands that do not pass the scheduler.
    pub op: Option<Op>,
    /// Someone waits for it.
    pub sync: bool,
    /// It carries the flag (`S`), which most reads do not.
    pub sync_flag: bool,
    /// It was submitted as metadata (`M`).
    pub meta: bool,
    /// First sector.
    pub start: Sector,
    /// How many sectors.
    pub length: Sectors,
    /// The process in whose context it happened.
    pub process: ProcessId,
    /// The command of the process, 15 bytes at the most.
    pub comm: String,
    /// With which priority, if it is told.
    pub priority: Option<IoPriority>,
    /// On which processor, if it is told.
    pub cpu: Option<u16>,
}

/// A line of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// An event.
    Event(TraceEvent),
    /// Something said about the recording.
    Remark(Remark),
}

/// What a recording says besides its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// A worker of the recorded load.
    Worker {
        /// The number of the process in the events.
        process: ProcessId,
        /// Its I/O priority throughout the recording.
        priority: IoPriority,
        /// Its writes go through the page cache.
        buffered: bool,
        /// Requests that it has under way at a time; 1 if it does not say.
        depth: u64,
        /// It pauses so long after each answer.
        think: Nanos,
        /// From its first access until it was through, if it says so.
        elapsed: Option<Nanos>,
    },
    /// A process ended.
    Exit {
        /// The number of the process in the events.
        process: ProcessId,
        /// On the clock of the events.
        time: Time,
    },
    /// A page of a file became dirty: what is written of it later, by the kernel, is this process's.
    Dirtied {
        /// The number of the process in the events.
        process: ProcessId,
        /// On the clock of the events.
        time: Time,
    },
    /// What was recorded: the first line.
    Queue(Queue),
    /// The recorded kyber said something, as its timer went off.
    Kyber {
        /// On the clock of the events.
        time: Time,
        /// What it printed.
        said: KyberEvent,
    },
    /// What `CLOCK_MONOTONIC` said at time zero.
    TimeZero(Nanos),
    /// For people.
    Other,
}

/// What was recorded, as far as it is said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Queue {
    /// The scheduler, with tunables if it is ours.
    pub scheduler: String,
    /// It is the multi-queue block layer.
    pub multi_queue: bool,
    /// The kernel's version.
    pub version: Option<KernelVersion>,
    /// Commands that the device took at a time.
    pub queue_depth: Option<usize>,
    /// The next request was chosen before the device had room for it.
    pub look_ahead: Option<bool>,
    /// Ticks per second.
    pub hz: Option<u32>,
    /// How long before its time zero a tick began.
    pub tick_phase: Option<Nanos>,
    /// The device turns.
    pub rotational: Option<bool>,
    /// The longest request in KiB.
    pub max_sectors_kib: Option<u64>,
    /// How long before its time zero the scheduler was attached to the device.
    pub attached: Option<Nanos>,
}

/// What kyber tells of itself in trace events when its timer has gone off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KyberEvent {
    /// It had samples enough for a percentile, in this bucket of eight (`kyber_latency`).
    Percentile {
        /// The domain's name.
        domain: String,
        /// Of the total latency; otherwise of the device's.
        total: bool,
        /// Quarters of the target, from 0.
        bucket: usize,
    },
    /// It set a depth (`kyber_adjust`).
    Depth {
        /// The domain's name.
        domain: String,
        /// Its tokens from now on.
        depth: u32,
    },
}

impl KyberEvent {
    /// The bucket of this kind of latency, if that is what it tells.
    pub fn bucket(&self, of: &str, of_total: bool) -> Option<usize> {
        match self {
            KyberEvent::Percentile {
                domain,
                total,
                bucket,
            } if domain == of && *total == of_total => Some(*bucket),
            _ => None,
        }
    }

    /// The depth of this domain, if that is what it tells.
    pub fn depth(&self, of: &str) -> Option<u32> {
        match self {
            KyberEvent::Depth { domain, depth } if domain == of => Some(*depth),
            _ => None,
        }
    }
}

/// The kernel's letters for what a request does: `R`, `WS`, `FWFS`, `DS`, …
///
/// An optional `F` (flush before), the operation (`R` read, `W` write, `WZ` write of zeroes, `D` discard, `DE` secure erase,
/// `F` flush, `ZA` zone append, `ZR`, `ZRA`, `ZF`, `ZO`, `ZC` other zone operations, `N` none), then `F` (force unit
/// access), `A` (read-ahead), `S` (synchronous), `M` (metadata), `U` (atomic).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rwbs {
    /// What it does to data; nothing for flushes and commands past the scheduler.
    pub op: Option<Op>,
    /// Someone waits for it.
    pub sync: bool,
    /// It carries the flag (`S`).
    pub sync_flag: bool,
}

impl Rwbs {
    /// Reads the letters; nothing if they are no such letters.
    pub fn parse(letters: &[u8]) -> Option<Rwbs> {
        if letters.is_empty() || !letters.iter().all(u8::is_ascii_alphabetic) {
            return (letters == b"-").then_some(Rwbs {
                op: None,
                sync: false,
                sync_flag: false,
            });
        }
        let flush_first =
            letters.len() > 1 && letters[0] == b'F' && letters[1].is_ascii_uppercase();
        let flush_first = flush_first && b"WRDFNZ".contains(&letters[1]);
        let letters = &letters[usize::from(flush_first)..];
        let (op, flags) = match letters {
            [b'R', flags @ ..] => (Some(Op::Read), flags),
            [b'W', flags @ ..] | [b'Z', b'A', flags @ ..] => (Some(Op::Write), flags),
            [b'D', flags @ ..] => (Some(Op::Discard), flags),
            [b'Z', _, flags @ ..] | [_, flags @ ..] => (None, flags),
            [] => (None, letters),
        };
        let sync =
            op == Some(Op::Read) || flush_first || flags.iter().any(|f| matches!(f, b'S' | b'F'));
        let sync_flag = flags.contains(&b'S');
        Some(Rwbs {
            op,
            sync,
            sync_flag,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_what_the_kernel_means() {
        let (read, write, discard) = (Some(Op::Read), Some(Op::Write), Some(Op::Discard));
        let table: [(&[u8], Option<Op>, bool); 16] = [
            (b"R", read, true),
            (b"RA", read, true),
            (b"RSM", read, true),
            (b"W", write, false),
            (b"WS", write, true),
            (b"WM", write, false),
            (b"WFS", write, true),
            (b"FWFS", write, true),
            (b"D", discard, false),
            (b"DES", discard, true),
            (b"FF", None, true),
            (b"N", None, false),
            (b"WZS", write, true),
            (b"ZAU", write, false),
            (b"FZAS", write, true),
            (b"ZF", None, false),
        ];
        for (letters, op, sync) in table {
            let sync_flag = letters[1..].contains(&b'S');
            let expected = Rwbs {
                op,
                sync,
                sync_flag,
            };
            assert_eq!(Rwbs::parse(letters), Some(expected), "{letters:?}");
        }
        assert_eq!(Rwbs::parse(b"8"), None);
        assert_eq!(Rwbs::parse(b""), None);
    }
}
