//! A recording of the multi-queue block layer, kept in memory, so that it can be followed again at
//! another phase of the ticks.

use std::collections::{BTreeMap, BTreeSet};

use iosched_facts::event::KyberEvent;
use iosched_facts::units::{Nanos, Sector, Sectors, Time};
use iosched_sim::block_layer::{Attachment, Depth};
use iosched_sim::request::{IoPriority, Op, ProcessId};
use iosched_sim::scheduler::{Kernel, KernelVersion, Rule};
use iosched_sim::trace::ReadError;
use iosched_sim::trace::kernel::{Action, Line, Queue, Reader, Remark, TraceEvent};

/// One decision in so many may lie at the wrong place in a recording.
const FEW: usize = 200;

/// kyber's lines come this much after the tick began.
const KYBER_LINE: Nanos = Nanos::from_micros(5);

/// What two processes do sooner after one another, two processors do: the first of them needs longer to
/// begin with the other process.
const AT_ONCE: Nanos = Nanos::from_micros(2);

/// An event of a recording, as far as it matters.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a question of its own"
)]
pub(super) struct Step {
    pub(super) time: Time,
    pub(super) action: Action,
    /// An X does not say it; its D does.
    pub(super) op: Option<Op>,
    pub(super) sync: bool,
    pub(super) sync_flag: bool,
    pub(super) start: Sector,
    pub(super) length: Sectors,
    pub(super) process: ProcessId,
    /// If the event says so.
    pub(super) priority: Option<IoPriority>,
    pub(super) cpu: u16,
    /// Its process began or let go a plug since its event before.
    pub(super) after_plug: bool,
    /// It let one go.
    pub(super) after_unplug: bool,
    /// When the lock was taken for it, if that is known.
    pub(super) locked: Option<Time>,
    /// When the kernel says that a request began, was issued or completed, to the nanosecond.
    pub(super) exact: Option<Time>,
    /// A choice whose beginning is known, whatever it then did.
    pub(super) begun: bool,
}

/// A worker of the recorded load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Worker {
    priority: IoPriority,
    pub(super) depth: u64,
    pub(super) think: Nanos,
    pub(super) elapsed: Option<Nanos>,
}

impl Step {
    /// The process did it. A completion is attributed to the interrupted task.
    pub(super) fn is_done_by(&self, process: ProcessId) -> bool {
        self.process == process && self.action != Action::Completed
    }
}

/// A recording, read.
#[derive(Debug, Default)]
pub struct Recording {
    pub(super) reader: Reader,
    pub(super) steps: Vec<Step>,
    /// The number of the last processor that is named, and one; nothing is named in most forms.
    processors: usize,
    /// Two processes did something at once, and no processor is named.
    shows_two_processors: bool,
    /// What a process did last, and when.
    last_done: Option<(Time, ProcessId)>,
    pub(super) workers: BTreeMap<ProcessId, Worker>,
    /// Processes that ended, if it says so, in the order of its lines.
    pub(super) exits: Vec<(Time, ProcessId)>,
    /// Processes that began or let go a plug in their last event.
    plugged: BTreeSet<ProcessId>,
    /// Those that let one go.
    unplugged: BTreeSet<ProcessId>,
    /// The X whose D is still to come, by the sectors that they name.
    undirected: BTreeMap<(Sector, Sectors), usize>,
    /// What its first line says.
    queue: Option<Queue>,
    /// What `CLOCK_MONOTONIC` said at its time zero.
    time_zero: Option<Nanos>,
    /// What the recorded kyber said, in the order of its lines.
    said: Vec<(Time, KyberEvent)>,
}

impl Recording {
    /// Reads a line.
    pub fn line(&mut self, text: &str) -> Result<(), ReadError> {
        if let Some(line) = self.reader.read(text)? {
            self.add(line);
        }
        Ok(())
    }

    /// What was recorded just now, in the order of time.
    pub fn of_lines(lines: Vec<Line>) -> Recording {
        let mut recording = Recording {
            reader: Reader::new(Nanos::ZERO),
            ..Recording::default()
        };
        for line in lines {
            recording.add(line);
        }
        recording
    }

    fn add(&mut self, line: Line) {
        match line {
            Line::Event(event) => self.event(&event),
            Line::Remark(Remark::Worker {
                process,
                priority,
                depth,
                think,
                elapsed,
                ..
            }) => {
                self.workers.entry(process).or_insert(Worker {
                    priority,
                    depth,
                    think,
                    elapsed,
                });
            }
            Line::Remark(Remark::Exit { process, time }) => self.exits.push((time, process)),
            Line::Remark(Remark::Queue(queue)) => self.queue = Some(queue),
            Line::Remark(Remark::Kyber { time, said }) => self.said.push((time, said)),
            Line::Remark(Remark::TimeZero(monotonic)) => self.time_zero = Some(monotonic),
            Line::Remark(_) => {}
        }
    }

    fn event(&mut self, event: &TraceEvent) {
        if matches!(
            event.action,
            Action::Plugged | Action::Unplugged | Action::UnpluggedLater
        ) {
            self.plugged.insert(event.process);
            if event.action != Action::Plugged {
                self.unplugged.insert(event.process);
            }
            return;
        }
        let of_request = event.op.is_some() || event.action == Action::Dispatched;
        if !of_request || event.length == Sectors::ZERO {
            return;
        }
        self.learn_direction(event);
        self.look_for_two_processors(event);
        let worker = self.workers.get(&event.process);
        let by_process = event.action != Action::Completed; // that names the interrupted task
        let cpu = event.cpu.unwrap_or(0);
        self.processors = self.processors.max(usize::from(cpu) + 1);
        self.steps.push(Step {
            time: event.time,
            action: event.action,
            op: event.op,
            sync: event.sync,
            sync_flag: event.sync_flag,
            start: event.start,
            length: event.length,
            process: event.process,
            priority: event.priority.or(worker.map(|worker| worker.priority)),
            cpu,
            after_plug: by_process && self.plugged.remove(&event.process),
            after_unplug: by_process && self.unplugged.remove(&event.process),
            locked: None,
            exact: None,
            begun: false,
        });
    }

    /// A completion is attributed to the interrupted task.
    fn look_for_two_processors(&mut self, event: &TraceEvent) {
        if event.action == Action::Completed {
            return;
        }
        if let Some((last, process)) = self.last_done {
            let at_once = event.time.saturating_since(last) <= AT_ONCE;
            self.shows_two_processors |= at_once && process != event.process && event.cpu.is_none();
        }
        self.last_done = Some((event.time, event.process));
    }

    /// Two requests may ask for the same sectors, a read and a write: which of them an X dispatched is
    /// known from the D that follows.
    fn learn_direction(&mut self, event: &TraceEvent) {
        let place = (event.start, event.length);
        match event.action {
            Action::Dispatched if event.op.is_none() => {
                self.undirected.entry(place).or_insert(self.steps.len());
            }
            Action::Issued => {
                if let Some(decided) = self.undirected.remove(&place) {
                    self.steps[decided].op = event.op;
                }
            }
            _ => {}
        }
    }

    /// What the recorded kyber said, in order of time.
    pub(super) fn said(&self) -> Vec<(Time, KyberEvent)> {
        let mut said = self.said.clone();
        said.sort_by_key(|&(time, _)| time);
        said
    }

    /// The recorded kernel's version, if its first line says so.
    pub fn version(&self) -> Option<KernelVersion> {
        self.queue.as_ref()?.version
    }

    /// True if it says that it was made on the single-queue block layer.
    pub fn is_single_queue(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| !queue.multi_queue)
    }

    /// A simulation wrote it: its times are those at which everything took effect.
    pub(super) fn is_simulated(&self) -> bool {
        self.queue
            .as_ref()
            .is_some_and(|queue| queue.tick_phase.is_some())
    }

    /// How long before its time zero a tick began, if its lines tell (the first, the one on clocks, or those of kyber).
    pub fn tick_phase(&self, kernel: &Kernel) -> Option<Nanos> {
        if let Some(phase) = self.queue.as_ref().and_then(|queue| queue.tick_phase) {
            return Some(phase);
        }
        let tick = kernel.tick_nanos();
        let aligned = self
            .time_zero
            .filter(|_| kernel.follows(Rule::TicksAligned));
        if let Some(time_zero) = aligned {
            return Some(Nanos::new(time_zero.as_nanos() % tick));
        }
        let first = self.said.iter().map(|&(time, _)| time).min();
        let edge = first? - KYBER_LINE;
        Some(Nanos::new((tick - edge.as_nanos() % tick) % tick))
    }

    /// What the recorded kernel's `CLOCK_MONOTONIC` said at our time zero.
    pub fn monotonic_zero(&self) -> u64 {
        let time_zero = self.time_zero.unwrap_or_default();
        time_zero
            .as_nanos()
            .wrapping_sub(self.reader.zero().as_nanos())
    }

    /// On how many processors something happened, as far as it says or shows it. In a simulation all that
    /// happens at one time may be one processor's.
    pub(super) fn processors(&self) -> usize {
        if self.shows_two_processors && !self.is_simulated() {
            self.processors.max(2)
        } else {
            self.processors
        }
    }

    /// True if it says which requests the scheduler dispatched.
    pub(super) fn has_decisions(&self) -> bool {
        self.steps
            .iter()
            .any(|step| step.action == Action::Dispatched)
    }

    /// What the device is like, as the recording says, or else as far as it shows it: the most
    /// commands that it had, and whether requests were dispatched while it had them all.
    pub fn device(&self) -> Device {
        let said = self.queue.clone().unwrap_or_default();
        let queue_depth = said.queue_depth.unwrap_or_else(|| self.most_in_driver());
        let is_ahead = || !self.has_decisions() || self.is_dispatched_ahead(queue_depth);
        Device {
            queue_depth,
            attachment: if said.look_ahead.unwrap_or_else(is_ahead) {
                Attachment::TagOnly
            } else {
                Attachment::Budget
            },
        }
    }

    fn most_in_driver(&self) -> usize {
        let (mut in_driver, mut most) = (0_usize, 1);
        for step in &self.steps {
            match step.action {
                Action::Issued => in_driver += 1,
                Action::Requeued | Action::Completed => in_driver = in_driver.saturating_sub(1),
                _ => {}
            }
            most = most.max(in_driver);
        }
        most
    }

    /// True if requests were dispatched while the device had no room for them, more often than where
    /// another processor tells of a completion late.
    fn is_dispatched_ahead(&self, queue_depth: usize) -> bool {
        let (mut decisions, mut ahead) = (0_usize, 0_usize);
        let (mut dispatched, mut in_driver) = (0_usize, 0_usize);
        for step in &self.steps {
            match step.action {
                Action::Dispatched => {
                    decisions += 1;
                    dispatched += 1;
                    ahead += usize::from(dispatched + in_driver > queue_depth);
                }
                Action::Issued => {
                    dispatched = dispatched.saturating_sub(1);
                    in_driver += 1;
                }
                Action::Requeued => {
                    dispatched += 1;
                    in_driver = in_driver.saturating_sub(1);
                }
                Action::Completed => in_driver = in_driver.saturating_sub(1),
                _ => {}
            }
        }
        ahead * FEW > decisions
    }
}

/// The recorded device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// Commands that it takes at a time.
    pub queue_depth: usize,
    /// How the block layer knew that it had room for one.
    pub attachment: Attachment,
}

impl Device {
    pub(super) fn depth(self) -> Depth {
        Depth {
            commands: self.queue_depth,
            attachment: self.attachment,
        }
    }
}
