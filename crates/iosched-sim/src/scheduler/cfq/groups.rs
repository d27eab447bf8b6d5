//! Groups of processes (cgroups) share the disk by weight: the one that got least for its weight is
//! served next.
//!
//! What a group got is counted in virtual disk time: time of the disk divided by the group's share.
//! All groups stand beside one another below the root, whose own processes count as one more group.

use super::group::Group;
use super::queue::{GroupId, QueueId, TreeId, Type};
use super::{Cfq, signed, span};
use crate::request::PriorityClass;
use crate::units::{Nanos, Time};

/// A share of one, as the kernel's whole numbers hold it.
const WHOLE: u64 = 4096;
/// How far behind the last one a group starts that had nothing to do.
const LATE_START: u64 = 200_000_000;

impl Cfq {
    pub(super) fn group(&self, GroupId(place): GroupId) -> &Group {
        &self.groups[place]
    }

    pub(super) fn group_mut(&mut self, GroupId(place): GroupId) -> &mut Group {
        &mut self.groups[place]
    }

    pub(super) fn group_of(&self, id: QueueId) -> &Group {
        self.group(self.queue(id).group)
    }

    pub(super) fn group_of_mut(&mut self, id: QueueId) -> &mut Group {
        self.group_mut(self.queue(id).group)
    }

    /// A group's share of the disk among those that have something to do, of [`WHOLE`].
    fn share(&self, group: GroupId) -> u64 {
        let group = self.group(group);
        let others = self.active_weight - if group.queues > 0 { group.weight } else { 0 };
        (WHOLE * group.weight / (others + group.weight)).max(1)
    }

    /// A group's part of the latency aimed at (`cfq_group_slice()`).
    pub(super) fn group_slice(&self, group: GroupId) -> i64 {
        let target = span(self.tunables.target_latency);
        target * i64::try_from(self.share(group)).expect("at most 4096") / 4096
    }

    /// Time on the disk does not count, only requests do: nobody is waited for, and the drive
    /// queues commands (or is not known not to).
    fn counts_requests(&self) -> bool {
        self.tunables.slice_idle == Nanos::ZERO && self.drive_queues()
    }

    /// A queue of the group is to be served now. The first one brings the group in, at the end.
    /// `cfq_group_notify_queue_add()`.
    pub(super) fn queue_entered(&mut self, id: GroupId) {
        self.group_mut(id).queues += 1;
        if self.group(id).queues > 1 {
            return;
        }
        let late = if self.counts_requests() {
            u64::from(self.kernel.hz) / 5
        } else {
            LATE_START
        };
        let last = self.group_order.last().map(|(last, _)| last + late);
        let start = last.unwrap_or(self.least_served);
        self.group_mut(id).served = start;
        self.group_order.insert(start, id);
        self.active_weight += self.group(id).weight;
    }

    /// A queue of the group is no longer to be served (`cfq_group_notify_queue_del()`).
    pub(super) fn queue_left(&mut self, id: GroupId) {
        self.group_mut(id).queues -= 1;
        if self.group(id).queues > 0 {
            return;
        }
        self.group_mut(id).saved = None;
        self.group_order.remove(self.group(id).served, id);
        self.active_weight -= self.group(id).weight;
    }

    /// The group that got least for its weight (`cfq_get_next_cfqg()`).
    pub(super) fn least_served_group(&mut self) -> Option<GroupId> {
        let (served, id) = self.group_order.first()?;
        self.least_served = self.least_served.max(served);
        Some(id)
    }

    /// The active queue's slice ends: its group is charged for what it used (`cfq_group_served()`).
    pub(super) fn charge(&mut self, now: Time, queue: QueueId) {
        let id = self.queue(queue).group;
        if self.group(id).queues == 0 {
            return;
        }
        let charge = self.charge_of(now, queue);
        let scaled = u128::from(charge) * u128::from(WHOLE * WHOLE) / u128::from(self.share(id));
        let before = self.group(id).served;
        let served = before.saturating_add(u64::try_from(scaled).unwrap_or(u64::MAX / 4));
        self.group_order.remove(before, id);
        self.group_mut(id).served = served;
        self.group_order.insert(served, id);
    }

    /// `cfq_cfqq_slice_usage()`.
    fn charge_of(&self, now: Time, id: QueueId) -> u64 {
        let queue = self.queue(id);
        if self.counts_requests() {
            return queue.slice_dispatch;
        }
        let group = self.group_of(id);
        let of = |class| group.tree(TreeId(class, Type::Async)).len();
        let asynchronous = of(PriorityClass::RealTime) + of(PriorityClass::BestEffort);
        let others = group.queues - asynchronous.min(group.queues);
        if !queue.sync && others.saturating_sub(group.busy(PriorityClass::Idle)) == 0 {
            return queue.slice_length.cast_unsigned();
        }
        let now = signed(now);
        let used = if queue.slice_new || queue.slice_start == now {
            (now - queue.chosen).max(self.tick())
        } else {
            (now - queue.slice_start).min(queue.slice_length)
        };
        used.max(0).cast_unsigned()
    }
}
