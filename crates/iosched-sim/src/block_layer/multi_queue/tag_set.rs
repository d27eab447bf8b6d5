//! The tags of a hardware queue, and who waits for one.

use iosched_facts::kernel::modelled_scheduler_tags;

use super::hw_queue::{Attachment, Depth};
use super::wait_queues::{WaitQueueIndex, WaitQueues};
use crate::request::{Op, ProcessId};
use crate::scheduler::{Elevator, TagLimit};
use crate::tags::Tags;

#[derive(Debug)]
pub(super) struct TagSet {
    /// Of the scheduler; without one, of the driver.
    tags: Tags,
    /// Processes that wait for one.
    waiting: WaitQueues,
}

impl TagSet {
    /// For a device that takes so many commands, under this scheduler, which may be none (`direct`).
    pub(super) fn new(
        depth: Depth,
        scheduler: &dyn Elevator,
        nr_requests: Option<usize>,
    ) -> TagSet {
        let direct = scheduler.info().facts.direct;
        let tags = if direct && depth.attachment == Attachment::TagOnly {
            depth.commands // the device's own
        } else {
            nr_requests
                .unwrap_or(modelled_scheduler_tags(depth.commands))
                .max(1)
        };
        let tags = u32::try_from(tags).unwrap_or(u32::MAX);
        TagSet {
            tags: Tags::new(tags),
            waiting: WaitQueues::new(if direct {
                tags
            } else {
                scheduler.min_shallow_depth(tags)
            }),
        }
    }

    /// Which tags the scheduler leaves to such a request.
    pub(super) fn limit(
        &self,
        scheduler: &dyn Elevator,
        (submitter, op, sync): (ProcessId, Op, bool),
    ) -> Option<TagLimit> {
        let (tags, word) = (self.tags.depth(), self.tags.word());
        scheduler.limit_depth(submitter, op, sync, tags, word)
    }

    /// A tag within the limit, if there is one; if not, the process waits for it, at its place if it
    /// has one.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        limit: Option<TagLimit>,
        (process, place): (usize, Option<WaitQueueIndex>),
    ) -> Option<u32> {
        let tag = match limit {
            None => self.tags.take(),
            Some(TagLimit::OfEachWord(first)) => self.tags.take_among(first),
            Some(TagLimit::InAll(limit)) => self.tags.take_of(limit),
        };
        if tag.is_none() {
            self.waiting.sleeps(process, place);
        }
        tag
    }

    /// The tag may be taken by anyone. True if processes wait for one.
    pub(super) fn free(&mut self, tag: u32) -> bool {
        self.tags.free(tag);
        self.waiting.is_awaited()
    }

    /// Who is woken because of that.
    pub(super) fn wake(&mut self, wake: impl FnMut(usize)) {
        self.waiting.wake_up(wake);
    }

    /// A process that was woken runs: the place where it sleeps if it finds no tag.
    pub(super) fn runs(&mut self) -> WaitQueueIndex {
        self.waiting.runs()
    }
}
