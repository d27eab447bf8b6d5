//! What a served block layer stands on: a disk model, or a disk that the caller has.

use std::collections::VecDeque;

use crate::disk::{Command, Completion, DiskModel};
use crate::units::Time;

pub(super) enum Device {
    /// It says itself when commands are done.
    Model(Box<dyn DiskModel>),
    /// The caller takes the commands and says when they are done.
    Outside {
        /// Commands that the caller has not taken yet.
        issued: VecDeque<Command>,
    },
}

impl Device {
    pub(super) fn outside() -> Device {
        Device::Outside {
            issued: VecDeque::new(),
        }
    }

    pub(super) fn issue(&mut self, now: Time, command: Command) {
        match self {
            Device::Model(disk) => disk.submit(now, command),
            Device::Outside { issued } => issued.push_back(command),
        }
    }

    /// The next command for the caller.
    pub(super) fn take_issued(&mut self) -> Option<Command> {
        match self {
            Device::Model(_) => None,
            Device::Outside { issued } => issued.pop_front(),
        }
    }

    /// When it has something to do by itself.
    pub(super) fn next_event(&self) -> Option<Time> {
        match self {
            Device::Model(disk) => disk.next_event(),
            Device::Outside { .. } => None,
        }
    }

    /// What it has done by itself up to `now`.
    pub(super) fn advance(&mut self, now: Time, completions: &mut Vec<Completion>) {
        if let Device::Model(disk) = self {
            disk.advance(now, completions);
        }
    }
}
