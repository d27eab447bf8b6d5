//! A hardware queue: its tags, who waits for one, and what stands before the device.

use std::collections::VecDeque;

use super::super::Attachment;
use crate::request::{Op, RequestId};
use crate::scheduler::Scheduler;
use crate::tags::Tags;
use crate::units::Time;

/// Most tags that the kernel doubles to get its default of `nr_requests`.
const DOUBLED: usize = 128;

/// See the [module's page](self).
#[derive(Debug)]
pub(super) struct HardwareQueue {
    /// Commands that the device has from it.
    pub(super) in_flight: usize,
    /// Of the scheduler; without one, of the driver.
    tags: Tags,
    /// Processes that wait for any tag, and for one of the few that their requests may have.
    waiting: [VecDeque<usize>; 2],
    /// Given out, and not yet taken by the device.
    pub(super) dispatch: VecDeque<RequestId>,
    /// How often the device had no room, of late: from 0 to 16.
    busy: u32,
    /// The next completion runs it.
    pub(super) restart: bool,
    /// When the scheduler is asked again.
    pub(super) rerun: Option<Time>,
}

impl HardwareQueue {
    /// An empty one of this depth for a device that is attached like this, without a scheduler if `direct`.
    pub(super) fn new(
        depth: usize,
        attachment: Attachment,
        direct: bool,
        nr_requests: Option<usize>,
    ) -> HardwareQueue {
        let tags = if direct && attachment == Attachment::LookAhead {
            depth // the device's own
        } else {
            nr_requests.unwrap_or(2 * depth.min(DOUBLED)).max(1)
        };
        HardwareQueue {
            in_flight: 0,
            tags: Tags::new(u32::try_from(tags).unwrap_or(u32::MAX)),
            waiting: [VecDeque::new(), VecDeque::new()],
            dispatch: VecDeque::new(),
            busy: 0,
            restart: false,
            rerun: None,
        }
    }

    // ---- tags ----------------------------------------------------------------------------

    /// How many bits of each word of the tags such a request may use, if not all.
    fn limit(&self, scheduler: &dyn Scheduler, op: Op, sync: bool) -> Option<u32> {
        scheduler.limit_depth(op, sync, self.tags.depth(), self.tags.word())
    }

    /// A tag for such a request, if there is one; if not, the process waits for it.
    pub(super) fn take_tag(
        &mut self,
        scheduler: &dyn Scheduler,
        op: Op,
        sync: bool,
        process: usize,
    ) -> Option<u32> {
        let limit = self.limit(scheduler, op, sync);
        let tag = self.tags.take_among(limit.unwrap_or(self.tags.word()));
        if tag.is_none() {
            let waiting = &mut self.waiting[usize::from(limit.is_some())];
            if waiting.is_empty() || !waiting.contains(&process) {
                waiting.push_back(process);
            }
        }
        tag
    }

    /// The tag may be taken by anyone. True if processes wait for one.
    pub(super) fn free_tag(&mut self, tag: u32) -> bool {
        self.tags.free(tag);
        self.waiting.iter().any(|waiting| !waiting.is_empty())
    }

    /// Who is woken for a tag: it may not be one of those that a process waits for, so that it is one of
    /// each kind. Those that have got one since no longer wait.
    pub(super) fn next_waiters(&mut self, waits: impl Fn(usize) -> bool) -> [Option<usize>; 2] {
        let mut next = [None; 2];
        for (waiting, next) in self.waiting.iter_mut().zip(&mut next) {
            while next.is_none()
                && let Some(process) = waiting.pop_front()
            {
                *next = Some(process).filter(|process| waits(*process));
            }
        }
        next
    }

    // ---- the device ----------------------------------------------------------------------

    /// The device had no room of late.
    pub(super) fn is_busy(&self) -> bool {
        self.busy > 0
    }

    /// Whether the device had room now.
    pub(super) fn note_busy(&mut self, busy: bool) {
        self.busy = (7 * self.busy + if busy { 16 } else { 0 }) / 8;
    }
}
