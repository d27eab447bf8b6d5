//! What is to happen and when, in a run.

use crate::event_queue::{self, Planned};

/// What can be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlannedEvent {
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
impl Planned for PlannedEvent {
    fn line(&self) -> Option<usize> {
        match self {
            PlannedEvent::Completed(_) => Some(0),
            PlannedEvent::Wake(_) => Some(1),
            PlannedEvent::Arrived
            | PlannedEvent::Arrival
            | PlannedEvent::RunQueue
            | PlannedEvent::Processed(_) => None,
        }
    }
}

pub(super) type EventQueue = event_queue::EventQueue<PlannedEvent, 2>;
