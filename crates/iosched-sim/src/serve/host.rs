//! What stands around a served block layer: the disk, the accesses that wait, and what was planned.

use super::Finished;
use super::device::Device;
use crate::block_layer::{Outputs, Subject, Token};
use crate::disk::{Command, Completion};
use crate::event_queue::{self, Planned};
use crate::request::{ProcessId, Request};
use crate::simulate::{BlockEvent, Tracer};
use crate::slab::Slab;
use crate::trace::kernel::Action;
use crate::units::Time;

use super::MOST_PROCESSES;

/// What can be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServedEvent {
    /// A process goes on: there may be a request for its bios. Its place.
    Wake(usize),
    /// A worker runs the queue.
    RunQueue,
}

impl Planned for ServedEvent {
    fn line(&self) -> Option<usize> {
        match self {
            ServedEvent::Wake(_) => Some(0),
            ServedEvent::RunQueue => None,
        }
    }
}

/// An access on its way.
struct Waiting<T> {
    arrived: Time,
    process: usize,
    /// Bios of it that are not done.
    parts: u64,
    /// What went wrong with one of them.
    error: Option<i32>,
    token: T,
}

pub(super) struct Host<T> {
    disk: Device,
    event_queue: event_queue::EventQueue<ServedEvent, 1>,
    waiting: Slab<Waiting<T>>,
    /// Accesses on their way, by process.
    of_process: Vec<usize>,
    /// Processes that end once nothing of them is on its way, and those that do now.
    leaving: Vec<bool>,
    left: Vec<usize>,
    /// When each process goes on, if it is to.
    wakes: Vec<Option<Time>>,
    /// When the disk began with the command that completes.
    started: Time,
    /// What went wrong with it.
    error: Option<i32>,
    pub(super) finished: Vec<Finished<T>>,
    tracer: Option<Box<dyn Tracer + Send>>,
}

impl<T> Host<T> {
    pub(super) fn new(disk: Device, tracer: Option<Box<dyn Tracer + Send>>) -> Host<T> {
        Host {
            disk,
            event_queue: event_queue::EventQueue::default(),
            waiting: Slab::new(),
            of_process: vec![0; MOST_PROCESSES],
            leaving: vec![false; MOST_PROCESSES],
            left: Vec::new(),
            wakes: vec![None; MOST_PROCESSES],
            started: Time::ZERO,
            error: None,
            finished: Vec::new(),
            tracer,
        }
    }

    /// An access of so many bios begins to wait.
    pub(super) fn wait(&mut self, arrived: Time, process: usize, parts: u64, token: T) -> Token {
        self.of_process[process] += 1;
        Token(self.waiting.add(Waiting {
            arrived,
            process,
            parts,
            error: None,
            token,
        }))
    }

    /// The caller's token of an access that waits.
    pub(super) fn waiting(&self, Token(place): Token) -> &T {
        &self.waiting.get(place).token
    }

    /// The next command for a disk outside.
    pub(super) fn take_issued(&mut self) -> Option<Command> {
        self.disk.take_issued()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    /// Nothing of the process is on its way.
    pub(super) fn is_idle(&self, process: usize) -> bool {
        self.of_process[process] == 0
    }

    /// The process ends once nothing of it is on its way.
    pub(super) fn leave_once_idle(&mut self, process: usize) {
        self.leaving[process] = true;
    }

    /// A process that ends now.
    pub(super) fn next_to_leave(&mut self) -> Option<usize> {
        self.left.pop()
    }

    /// When the disk or something that was planned is due; [`Time::MAX`] if nothing is.
    pub(super) fn next_event(&self) -> Time {
        let disk = self.disk.next_event().unwrap_or(Time::MAX);
        disk.min(self.event_queue.next_time())
    }

    pub(super) fn disk_is_due(&self, now: Time) -> bool {
        self.disk.next_event().is_some_and(|event| event <= now)
    }

    /// What the disk has done by now.
    pub(super) fn take_completions(&mut self, now: Time) -> Vec<Completion> {
        let mut completions = Vec::new();
        self.disk.advance(now, &mut completions);
        completions
    }

    /// What is answered next was done with this command, or failed with it.
    pub(super) fn begin_completion(&mut self, completion: Completion, error: Option<i32>) {
        self.started = completion.started;
        self.error = error;
    }

    /// What was planned first, if it is due and still wanted.
    pub(super) fn take_due(&mut self, now: Time) -> Option<ServedEvent> {
        let (_, event) = self.event_queue.take_due(now)?;
        if let ServedEvent::Wake(process) = event {
            if self.wakes[process].is_none_or(|planned| planned > now) {
                return None; // it went on before
            }
            self.wakes[process] = None;
        }
        Some(event)
    }

    pub(super) fn told_of_exit(&mut self, now: Time, process: usize) {
        if let Some(tracer) = &mut self.tracer {
            tracer.exited(now, ProcessId::of_index(process), "-");
        }
    }
}

impl<T> Outputs for Host<T> {
    fn is_traced(&self) -> bool {
        self.tracer.is_some()
    }

    fn trace(&mut self, time: Time, action: Action, subject: Subject<'_>, process: ProcessId) {
        if let Some(tracer) = &mut self.tracer {
            tracer.happened(&BlockEvent::of(time, action, &subject, process).0);
        }
    }

    fn entered(&mut self, _now: Time, _token: Token) {}

    fn took_up(&mut self, _request: &Request) {}

    fn issue(&mut self, now: Time, command: Command) {
        self.disk.issue(now, command);
    }

    fn answered(&mut self, now: Time, Token(place): Token, _issued: Time) {
        let waiting = self.waiting.get_mut(place);
        waiting.parts -= 1;
        waiting.error = waiting.error.or(self.error);
        if waiting.parts > 0 {
            return;
        }
        let Waiting {
            arrived,
            process,
            error,
            token,
            ..
        } = self.waiting.remove(place);
        self.of_process[process] -= 1;
        if self.of_process[process] == 0 && std::mem::take(&mut self.leaving[process]) {
            self.left.push(process);
        }
        self.finished.push(Finished {
            arrived,
            started: self.started.max(arrived),
            completed: now,
            error,
            token,
        });
    }

    fn wake(&mut self, at: Time, process: usize) {
        if self.wakes[process].is_none_or(|planned| at < planned) {
            self.wakes[process] = Some(at);
            self.event_queue.plan(at, ServedEvent::Wake(process));
        }
    }

    fn call_worker(&mut self, at: Time) {
        self.event_queue.plan(at, ServedEvent::RunQueue);
    }
}
