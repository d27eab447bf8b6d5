//! Queues of processes that read close to one another, or that began together, become one; and part
//! again.
//!
//! A merge is planned first. A process moves to the other queue with its next bio or request; what its
//! own queue was like is kept, for when they part: a shared queue that seeks is split.

use super::Bfq;
use super::moment::{LONG_AGO, Moment};
use super::queue::{Injection, ProcessIndex, QueueId, ThinkTime, WeightRaising};
use super::red_black::Descent;
use super::weight_raising::INTERACTIVE;
use crate::scheduler::Rule;
use crate::units::{Sector, Sectors};

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
    has_short_ttime: bool,
    io_bound: bool,
    io_start_time: i64,
    tot_idle_time: u64,
    in_large_burst: bool,
    was_in_burst_list: bool,
    wr: WeightRaising,
}

impl Bfq {
    /// The queue has been served for so long that it is not to be merged (`bfq_too_late_for_merging()`).
    pub(super) fn is_too_late_to_merge(&self, at: Moment, id: QueueId) -> bool {
        let queue = self.queue(id);
        queue.service_from_backlogged > 0 && queue.first_io_time + self.clock.early_merge < at.tick
    }

    /// The queue to which this one's process is to move, now that it submits at this position.
    /// `bfq_setup_cooperator()`.
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
        if self.nonrot_with_queueing || self.is_too_late_to_merge(at, id) || self.busy_queues() == 1
        {
            return None;
        }
        if let Some(served) = self.in_service_queue.filter(|&served| served != id)
            && self.in_serv_last_pos.distance(position) <= CLOSE
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
        let mut target = self.queue(id).new_bfqq?;
        while let Some(next) = self.queue(target).new_bfqq {
            target = next;
        }
        Some(target)
    }

    /// `bfq_may_be_close_cooperator()`.
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

    /// The queue whose next request is at this position, or else one beside it that is close (`bfqq_find_close()`).
    fn find_near(&self, position: Sector) -> Option<QueueId> {
        let end = match self.rq_pos_tree.descend(position.as_u64())? {
            Descent::At(id) => return Some(id),
            Descent::Below(id) => id,
        };
        let place = |id| Sector::new(self.rq_pos_tree.key(id));
        let is_close = |&id: &QueueId| place(id).distance(position) <= CLOSE;
        if is_close(&end) {
            return Some(end);
        }
        let other = if place(end) < position {
            self.rq_pos_tree.successor(end)
        } else {
            self.rq_pos_tree.predecessor(end)
        };
        other.filter(is_close)
    }

    /// Plans that the processes of one queue move to another, or to where that one's are to move.
    /// `bfq_setup_merge()`.
    fn plan_merge(&mut self, id: QueueId, other: QueueId) -> Option<QueueId> {
        if self.queue(other).process_refs == 0 {
            return None;
        }
        let mut target = other;
        while let Some(next) = self.queue(target).new_bfqq {
            if next == id {
                return None;
            }
            target = next;
        }
        let owners = self.queue(id).process_refs;
        if owners == 0 || self.queue(target).process_refs == 0 || target == id {
            return None;
        }
        self.queue_mut(id).new_bfqq = Some(target);
        self.queue_mut(target).process_refs += owners;
        Some(target)
    }

    /// The processes of this queue that have not moved yet will not do so (`bfq_put_cooperator()`).
    pub(super) fn drop_planned_merges(&mut self, id: QueueId) {
        let mut target = self.queue(id).new_bfqq;
        while let Some(other) = target {
            target = self.queue(other).new_bfqq;
            self.queue_mut(other).process_refs -= 1;
            self.release_if_unused(other);
        }
    }

    // ---- stable merges -------------------------------------------------------------------

    /// A queue has begun for a process. If another one began shortly before, they are probably of one
    /// service: on a disk that gains by it they may be merged for good after a while.
    /// `bfq_do_or_sched_stable_merge()`.
    pub(super) fn plan_stable_merge(
        &mut self,
        at: Moment,
        process: ProcessIndex,
        id: QueueId,
    ) -> QueueId {
        let (window, burst) = (self.clock.stable_merge, self.clock.burst);
        let queue = self.queue(id);
        let last = self.last_bfqq_created.filter(|&last| {
            let last = self.queue(last);
            let alike = last.level == queue.level && last.class == queue.class;
            alike && last.creation_time + window >= queue.creation_time
        });
        let Some(last) = last else {
            self.last_bfqq_created = Some(id);
            return id;
        };
        if self.queue(last).creation_time + burst < self.queue(id).creation_time {
            return id;
        }
        if !self.nonrot_with_queueing {
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
        !self.nonrot_with_queueing
            && queue.sync
            && self.processes[process].partner.is_some()
            && !queue.just_created
            && queue.split_time + window < at.tick
            && queue.creation_time + window < at.tick
    }

    /// Merges for good, unless idling makes the disk do more (`bfq_setup_stable_merge()`).
    fn merge_with_partner(&mut self, process: ProcessIndex, id: QueueId) -> Option<QueueId> {
        let partner = self.processes[process].partner.take()?;
        let both_owned = self.queue(id).process_refs > 0 && self.queue(partner).process_refs > 0;
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
            let next = self.queue(here).new_bfqq;
            let next = next.expect("a planned merge leads there");
            self.move_process(at, process, here, next);
            here = next;
        }
    }

    /// `bfq_merge_bfqqs()`.
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
        self.hand_wr_over(from, to);
        self.processes[process].sync_queue = Some(to);
        let target = self.queue_mut(to);
        target.coop = true;
        target.owner = None;
        self.queue_mut(from).owner = None;
        if self.last_bfqq_created == Some(from) {
            self.last_bfqq_created = Some(to);
        }
        self.lose_owner(at, from);
    }

    fn hand_wr_over(&mut self, from: QueueId, to: QueueId) {
        let given = self.queue(from).wr.clone();
        if given.coeff == 1 {
            return;
        }
        let target = self.queue_mut(to);
        if !target.is_weight_raised() {
            let service = target.wr.service;
            target.wr = WeightRaising { service, ..given };
            target.entity.prio_changed = true;
            if target.busy {
                self.wr_busy_queues += 1;
            }
        }
        let source = self.queue_mut(from);
        source.wr.coeff = 1;
        source.entity.prio_changed = true;
        if source.busy {
            self.wr_busy_queues -= 1;
        }
    }

    /// Keeps what the queue is like, for the process that has it for itself (`bfq_bfqq_save_state()`).
    fn save_state(&mut self, at: Moment, id: QueueId) {
        let Some(owner) = self.queue(id).owner else {
            return;
        };
        let queue = self.queue(id);
        let never_raised = queue.just_created && !queue.in_large_burst;
        let wr = if never_raised && self.tunables.low_latency {
            let before = self.processes[owner].saved.as_ref();
            WeightRaising {
                coeff: INTERACTIVE,
                cur_max_time: self.interactive_length(),
                last_start_finish: at.tick,
                start_at_switch_to_srt: LONG_AGO,
                service: before.map_or(0, |saved| saved.wr.service),
            }
        } else {
            queue.wr.clone()
        };
        let saved = Saved {
            injection: queue.injection.clone(),
            weight: queue.entity.orig_weight,
            think: queue.think.clone(),
            has_short_ttime: queue.has_short_ttime,
            io_bound: queue.io_bound,
            io_start_time: queue.io_start_time,
            tot_idle_time: queue.tot_idle_time,
            in_large_burst: queue.in_large_burst,
            was_in_burst_list: self.burst.listed.contains(&id),
            wr,
        };
        self.processes[owner].saved = Some(saved);
    }

    // ---- splitting -----------------------------------------------------------------------

    /// A process parts from those with whom it shares a queue: the last one keeps it (true) (`bfq_split_bfqq()`).
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
        if self.queue(shared).process_refs == 1 {
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
        self.queue_mut(queue).split_time = at.tick;
        let outlives =
            self.kernel.follows(Rule::BfqActuators) && !self.kernel.follows(Rule::BfqDropsWaker);
        let kept = |waker: &QueueId| outlives || self.queue(*waker).process_refs > 0;
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

    /// The queue of a process that has parted is as it was before the merge (`bfq_bfqq_resume_state()`).
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
        let old_factor = queue.wr.coeff;
        queue.has_short_ttime = saved.has_short_ttime;
        queue.io_bound = saved.io_bound;
        queue.injection = saved.injection;
        queue.entity.new_weight = saved.weight;
        queue.think = saved.think;
        queue.io_start_time = saved.io_start_time;
        queue.tot_idle_time = saved.tot_idle_time;
        queue.wr = saved.wr;
        if !low_latency {
            queue.wr.coeff = old_factor;
        }
        queue.entity.prio_changed = true;
        self.check_restored_wr(at, id);
        let queue = self.queue(id);
        let (was_raised, raised) = (old_factor > 1, queue.is_weight_raised());
        if existing && queue.busy {
            self.wr_busy_queues = self.wr_busy_queues + u32::from(raised) - u32::from(was_raised);
        }
    }

    /// A bio is about to look for a request to join: its process may move to another queue first. The
    /// queue that it would go to, if there is one (`bfq_allow_bio_merge()`).
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

    /// The queue that the process has for such requests (`bic_to_bfqq()`).
    pub(super) fn queue_for(&self, process: ProcessIndex, sync: bool) -> Option<QueueId> {
        let process = &self.processes[process];
        if sync {
            process.sync_queue
        } else {
            process.async_queue
        }
    }
}
