//! What is to happen and when, in a run.

use crate::event_queue::{self, Planned};

/// What can be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// A command that the disk finished is completed in the block layer. Its tag.
    Completed(u64),
    /// The data of the first write on its way have reached the drive.
    Arrived,
    /// A process goes on. Its index.
    Wake(usize),
    /// The next access of an open loop is made.
    Arrival,
    /// A worker runs the queue.
    RunQueue,
    /// A processor is through with a step of its work. Its number.
    Processed(usize),
}

/// Completions and wake-ups come a fixed time after what plans them, nearly always.
impl Planned for Event {
    fn line(&self) -> Option<usize> {
        match self {
            Event::Completed(_) => Some(0),
            Event::Wake(_) => Some(1),
            Event::Arrived | Event::Arrival | Event::RunQueue | Event::Processed(_) => None,
        }
    }
}

pub(super) type EventQueue = event_queue::EventQueue<Event, 2>;
