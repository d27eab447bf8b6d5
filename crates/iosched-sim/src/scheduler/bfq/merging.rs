//! Queues of processes that read close to one another, or that began together, become one; and part
//! again.
//!
//! A merge is planned first. A process moves to the other queue with its next bio or request; what its
//! own queue was like is kept, for when they part: a shared queue that seeks is split.

use super::Bfq;
use super::moment::{LONG_AGO, Moment};
use super::queue::{Injection, ProcessIndex, QueueId, Raise, ThinkTime};
use super::raising::INTERACTIVE;
use super::red_black::Descent;
use crate::scheduler::KernelVersion;
use crate::units::{Sector, Sectors};

/// Since this version queues are merged on every disk: recordings of 6.18 show it; which version after 6.12 was the
/// first is not known.
const MERGES_ON_ALL: KernelVersion = KernelVersion::new(6, 18);

/// Positions as near as this belong together.
const CLOSE: Sectors = Sectors::new(8192);

/// What a process's own queue was like when it was merged.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the kernel's flags, one by one"
)]
pub(super) struct Saved {
    injection: Injection,
    weight: i64,
    think: ThinkTime,
    short_think: bool,
    io_bound: bool,
    io_start: i64,
    tot_idle: u64,
    in_large_burst: bool,
    was_in_burst_list: bool,
    raise: Raise,
}

impl Bfq {
    /// A disk that does not turn and queues commands: merging does not make it faster, and is left out up to
    /// [`MERGES_ON_ALL`].
    pub(super) fn queues_in_disk(&self) -> bool {
        !self.rotational && self.hw_tag.known == Some(true) && self.version < MERGES_ON_ALL
    }

    /// The queue has been served for so long that it is not to be merged.
    pub(super) fn is_too_late_to_merge(&self, at: Moment, id: QueueId) -> bool {
        let queue = self.queue(id);
        queue.service_from_backlogged > 0 && queue.first_io + self.clock.early_merge < at.tick
    }

    /// The queue to which this one's process is to move, now that it submits at this position.
    pub(super) fn cooperator(
        &mut self,
        at: Moment,
        process: ProcessIndex,
        id: QueueId,
        position: Sector,
    ) -> Option<QueueId> {
        if let Some(target) = self.planned_target(id) {
            return Some(target);
        }
        if self.is_stable_merge_due(at, process, id) {
            return self.merge_with_partner(process, id);
        }
        if self.queues_in_disk() || self.is_too_late_to_merge(at, id) || self.busy_queues() == 1 {
            return None;
        }
        if let Some(served) = self.in_service.filter(|&served| served != id)
            && self.in_serv_pos.distance(position) <= CLOSE
            && self.are_compatible(at, id, served)
            && let Some(target) = self.plan_merge(id, served)
        {
            return Some(target);
        }
        let near = self.find_near(position).filter(|&near| near != id)?;
        if self.are_compatible(at, id, near) {
            self.plan_merge(id, near)
        } else {
            None
        }
    }

    /// Where a merge that is planned leads in the end.
    fn planned_target(&self, id: QueueId) -> Option<QueueId> {
        let mut target = self.queue(id).merges_into?;
        while let Some(next) = self.queue(target).merges_into {
            target = next;
        }
        Some(target)
    }

    fn are_compatible(&self, at: Moment, id: QueueId, other: QueueId) -> bool {
        if self.is_too_late_to_merge(at, other) {
            return false;
        }
        let (one, other) = (self.queue(id), self.queue(other));
        !one.is_idle_class()
            && one.class == other.class
            && !one.is_seeky()
            && !other.is_seeky()
            && one.sync
            && other.sync
    }

    /// The queue whose next request is at this position, or else one beside it that is close.
    fn find_near(&self, position: Sector) -> Option<QueueId> {
        let end = match self.positions.descend(position.as_u64())? {
            Descent::At(id) => return Some(id),
            Descent::Below(id) => id,
        };
        let place = |id| Sector::new(self.positions.key(id));
        let is_close = |&id: &QueueId| place(id).distance(position) <= CLOSE;
        if is_close(&end) {
            return Some(end);
        }
        let other = if place(end) < position {
            self.positions.successor(end)
        } else {
            self.positions.predecessor(end)
        };
        other.filter(is_close)
    }

    /// Plans that the processes of one queue move to another, or to where that one's are to move.
    fn plan_merge(&mut self, id: QueueId, other: QueueId) -> Option<QueueId> {
        if self.queue(other).owners == 0 {
            return None;
        }
        let mut target = other;
        while let Some(next) = self.queue(target).merges_into {
            if next == id {
                return None;
            }
            target = next;
        }
        let owners = self.queue(id).owners;
        if owners == 0 || self.queue(target).owners == 0 || target == id {
            return None;
        }
        self.queue_mut(id).merges_into = Some(target);
        self.queue_mut(target).owners += owners;
        Some(target)
    }

    /// The processes of this queue that have not moved yet will not do so.
    pub(super) fn drop_planned_merges(&mut self, id: QueueId) {
        let mut target = self.queue(id).merges_into;
        while let Some(other) = target {
            target = self.queue(other).merges_into;
            self.queue_mut(other).owners -= 1;
            self.release_if_unused(other);
        }
    }

    // ---- stable merges -------------------------------------------------------------------

    /// A queue has begun for a process. If another one began shortly before, they are probably of one
    /// service: on a disk that gains by it they may be merged for good after a while.
    pub(super) fn plan_stable_merge(
        &mut self,
        at: Moment,
        process: ProcessIndex,
        id: QueueId,
    ) -> QueueId {
        let (window, burst) = (self.clock.stable_merge, self.clock.burst);
        let queue = self.queue(id);
        let last = self.last_created.filter(|&last| {
            let last = self.queue(last);
            let alike = last.level == queue.level && last.class == queue.class;
            alike && last.creation + window >= queue.creation
        });
        let Some(last) = last else {
            self.last_created = Some(id);
            return id;
        };
        if self.queue(last).creation + burst < self.queue(id).creation {
            return id;
        }
        if !self.queues_in_disk() {
            self.queue_mut(last).partner_of += 1;
            self.processes[process].partner = Some(last);
            return id;
        }
        let Some(target) = self.plan_merge(id, last) else {
            return id;
        };
        self.note_stably_merged(process, target);
        self.queue_mut(id).owner = Some(process);
        self.move_along(at, process, id, target);
        target
    }

    fn is_stable_merge_due(&self, at: Moment, process: ProcessIndex, id: QueueId) -> bool {
        let window = self.clock.stable_merge;
        let queue = self.queue(id);
        !self.queues_in_disk()
            && queue.sync
            && self.processes[process].partner.is_some()
            && !queue.just_created
            && queue.split + window < at.tick
            && queue.creation + window < at.tick
    }

    /// Merges for good, unless idling makes the disk do more.
    fn merge_with_partner(&mut self, process: ProcessIndex, id: QueueId) -> Option<QueueId> {
        let partner = self.processes[process].partner.take()?;
        let both_owned = self.queue(id).owners > 0 && self.queue(partner).owners > 0;
        let target = if both_owned && !self.idling_boosts(id) {
            self.plan_merge(id, partner)
        } else {
            None
        };
        if let Some(target) = target {
            self.note_stably_merged(process, target);
        }
        self.drop_partner(partner);
        target
    }

    fn note_stably_merged(&mut self, process: ProcessIndex, target: QueueId) {
        self.processes[process].stably_merged = true;
        if let Some(owner) = self.queue(target).owner {
            self.processes[owner].stably_merged = true;
        }
    }

    /// A process will not merge with the queue.
    pub(super) fn drop_partner(&mut self, partner: QueueId) {
        self.queue_mut(partner).partner_of -= 1;
        self.release_if_unused(partner);
    }

    // ---- moving --------------------------------------------------------------------------

    /// A process moves from its queue to the one where planned merges lead, through all between.
    pub(super) fn move_along(
        &mut self,
        at: Moment,
        process: ProcessIndex,
        from: QueueId,
        to: QueueId,
    ) {
        let mut here = from;
        while here != to {
            let next = self.queue(here).merges_into;
            let next = next.expect("a planned merge leads there");
            self.move_process(at, process, here, next);
            here = next;
        }
    }

    fn move_process(&mut self, at: Moment, process: ProcessIndex, from: QueueId, to: QueueId) {
        self.save_state(at, from);
        self.save_state(at, to);
        if std::mem::take(&mut self.queue_mut(from).io_bound) {
            self.queue_mut(to).io_bound = true;
        }
        let waker = self.queue(from).waking.waker;
        if let Some(waker) = waker.filter(|&waker| waker != to)
            && self.queue(to).waking.waker.is_none()
        {
            self.queue_mut(to).waking.candidate = None;
            self.set_waker(to, waker);
        }
        self.hand_raise_over(from, to);
        self.processes[process].sync_queue = Some(to);
        let target = self.queue_mut(to);
        target.coop = true;
        target.owner = None;
        self.queue_mut(from).owner = None;
        if self.last_created == Some(from) {
            self.last_created = Some(to);
        }
        self.lose_owner(at, from);
    }

    fn hand_raise_over(&mut self, from: QueueId, to: QueueId) {
        let given = self.queue(from).raise.clone();
        if given.factor == 1 {
            return;
        }
        let target = self.queue_mut(to);
        if !target.is_raised() {
            let service = target.raise.service;
            target.raise = Raise { service, ..given };
            target.entity.prio_changed = true;
            if target.busy {
                self.raised_busy += 1;
            }
        }
        let source = self.queue_mut(from);
        source.raise.factor = 1;
        source.entity.prio_changed = true;
        if source.busy {
            self.raised_busy -= 1;
        }
    }

    /// Keeps what the queue is like, for the process that has it for itself.
    fn save_state(&mut self, at: Moment, id: QueueId) {
        let Some(owner) = self.queue(id).owner else {
            return;
        };
        let queue = self.queue(id);
        let never_raised = queue.just_created && !queue.in_large_burst;
        let raise = if never_raised && self.tunables.low_latency {
            let before = self.processes[owner].saved.as_ref();
            Raise {
                factor: INTERACTIVE,
                length: self.interactive_length(),
                start: at.tick,
                start_of_interactive: LONG_AGO,
                service: before.map_or(0, |saved| saved.raise.service),
            }
        } else {
            queue.raise.clone()
        };
        let saved = Saved {
            injection: queue.injection.clone(),
            weight: queue.entity.orig_weight,
            think: queue.think.clone(),
            short_think: queue.short_think,
            io_bound: queue.io_bound,
            io_start: queue.io_start,
            tot_idle: queue.tot_idle,
            in_large_burst: queue.in_large_burst,
            was_in_burst_list: self.burst.listed.contains(&id),
            raise,
        };
        self.processes[owner].saved = Some(saved);
    }

    // ---- splitting -----------------------------------------------------------------------

    /// A process parts from those with whom it shares a queue: the last one keeps it (true).
    pub(super) fn split(
        &mut self,
        at: Moment,
        process: ProcessIndex,
        shared: QueueId,
    ) -> (QueueId, bool) {
        if self.queue(shared).in_large_burst
            && let Some(saved) = &mut self.processes[process].saved
        {
            saved.in_large_burst = true;
        }
        if self.queue(shared).owners == 1 {
            let queue = self.queue_mut(shared);
            (queue.coop, queue.split_coop) = (false, false);
            return (shared, true);
        }
        let waker = self.queue(shared).waking.waker;
        self.drop_planned_merges(shared);
        self.processes[process].sync_queue = None;
        let queue = self.begin_split_queue(at, process);
        self.lose_owner(at, shared);
        self.restore_burst(process, queue);
        self.queue_mut(queue).split = at.tick;
        let kept = |waker: &QueueId| self.since_actuators() || self.queue(*waker).owners > 0;
        if let Some(waker) = waker.filter(|waker| self.queue(*waker).exists).filter(kept) {
            self.set_waker(queue, waker);
        }
        (queue, false)
    }

    fn restore_burst(&mut self, process: ProcessIndex, id: QueueId) {
        let Some(saved) = &self.processes[process].saved else {
            return;
        };
        let (listed, large) = (saved.was_in_burst_list, saved.in_large_burst);
        if listed && self.burst.large || large {
            self.queue_mut(id).in_large_burst = true;
        } else if listed {
            self.burst.listed.push(id);
        }
    }

    /// The queue of a process that has parted is as it was before the merge.
    pub(super) fn restore_state(
        &mut self,
        at: Moment,
        process: ProcessIndex,
        id: QueueId,
        existing: bool,
    ) {
        let Some(saved) = self.processes[process].saved.clone() else {
            return;
        };
        let low_latency = self.tunables.low_latency;
        let queue = self.queue_mut(id);
        let old_factor = queue.raise.factor;
        queue.short_think = saved.short_think;
        queue.io_bound = saved.io_bound;
        queue.injection = saved.injection;
        queue.entity.new_weight = saved.weight;
        queue.think = saved.think;
        queue.io_start = saved.io_start;
        queue.tot_idle = saved.tot_idle;
        queue.raise = saved.raise;
        if !low_latency {
            queue.raise.factor = old_factor;
        }
        queue.entity.prio_changed = true;
        self.check_restored_raise(at, id);
        let queue = self.queue(id);
        let (was_raised, raised) = (old_factor > 1, queue.is_raised());
        if existing && queue.busy {
            self.raised_busy = self.raised_busy + u32::from(raised) - u32::from(was_raised);
        }
    }

    /// A bio is about to look for a request to join: its process may move to another queue first. The
    /// queue that it would go to, if there is one.
    pub(super) fn queue_of_bio(
        &mut self,
        at: Moment,
        process: ProcessIndex,
        sync: bool,
        position: Sector,
    ) -> Option<QueueId> {
        let queue = self.queue_for(process, sync)?;
        let target = self.cooperator(at, process, queue, position);
        if let Some(target) = target {
            self.move_along(at, process, queue, target);
        }
        Some(target.unwrap_or(queue))
    }

    /// The queue that the process has for such requests.
    pub(super) fn queue_for(&self, process: ProcessIndex, sync: bool) -> Option<QueueId> {
        let process = &self.processes[process];
        if sync {
            process.sync_queue
        } else {
            process.async_queue
        }
    }
}
