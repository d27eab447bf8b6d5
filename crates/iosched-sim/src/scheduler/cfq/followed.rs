//! Following a recording of cfq: what stays from one recording of a device to the next, and what can be said to have stayed: averages,
//! think times and seeks, the position, the queues of asynchronous requests (the one in service stays that),
//! what is served.

use super::queue::{QueueId, TreeId, Type};
use super::{Cfq, signed};
use crate::list::{Links, List};
use crate::request::{PriorityClass, RequestId, Requests};
use crate::request_table::ByRequest;
use crate::scheduler::followed::{BEFORE, Followed};
use crate::scheduler::{Elevator, Kernel, NamedValues, Values};
use crate::sorted::Sorted;
use crate::units::{Nanos, Sector, Time};

/// As many queues as may be taken to have been busy on average where that is not known.
const MOST_BUSY: i64 = 5;

impl Cfq {
    /// The state that this scheduler leaves when all requests have completed and all processes have ended,
    /// on the clock of another recording.
    fn carried(&self) -> Cfq {
        let mut left = self.clone();
        left.settle();
        left.put_before();
        left
    }

    /// When the last request completed.
    fn last_completion(&self) -> Time {
        let ends = self.groups.iter().map(|group| group.think.last_end());
        ends.max().unwrap_or(Time::ZERO)
    }

    /// Whatever has not been recorded: requests have completed, processes have ended.
    fn settle(&mut self) {
        let (end, none) = (self.last_completion(), Requests::default());
        for index in 0..self.queues.len() {
            self.empty(QueueId::at(index));
        }
        (self.links, self.request_data) = (Links::default(), ByRequest::default());
        (self.rq_in_driver, self.rq_in_flight, self.rq_queued) = (0, [0; 2], 0);
        for group in &mut self.groups {
            group.dispatched = 0;
        }
        let living = self.contexts.iter().filter(|context| context.alive);
        let living: Vec<_> = living.map(|context| context.process).collect();
        for process in living {
            self.process_exited(end, &none, process);
        }
        for id in (0..self.queues.len()).map(QueueId::at) {
            if self.queue(id).on_rr && self.active != Some(id) {
                self.remove_from_rr(id);
            }
            self.release_if_unused(id);
        }
        self.contexts.forget();
        (self.active_context, self.idle_timer, self.run_requested) = (None, None, false);
    }

    /// The queue holds nothing.
    fn empty(&mut self, id: QueueId) {
        self.leave_cooperators(id);
        let queue = self.queue_mut(id);
        (queue.sorted, queue.fifo) = (Sorted::default(), List::default());
        (queue.next, queue.queued) = (None, [0; 2]);
        (queue.dispatched, queue.prio_pending, queue.requests) = (0, 0, 0);
    }

    /// The last completion lies at [`BEFORE`], and all other times as far from it as they were.
    fn put_before(&mut self) {
        let shift = signed(BEFORE) - signed(self.last_completion());
        self.last_delayed_sync += shift;
        self.workload_expires += shift;
        for group in &mut self.groups {
            group.pause_since(BEFORE);
        }
        for id in (0..self.queues.len()).map(QueueId::at) {
            let queue = self.queue_mut(id);
            for time in [
                &mut queue.chosen,
                &mut queue.slice_start,
                &mut queue.slice_end,
            ] {
                *time += shift;
            }
            if let Some((tree, key)) = queue.tree {
                queue.tree = Some((tree, key + shift));
                let tree = self.group_of_mut(id).tree_mut(tree);
                tree.remove(key, id);
                tree.insert(key + shift, id);
            }
        }
    }

    /// What it may have known: it goes on where it was, had a few busy queues on average, and those that it
    /// does not wait for thought for long.
    fn plausible(&self, first: Sector) -> NamedValues {
        let position = i64::try_from(first.as_u64()).unwrap_or(0);
        let long = i64::try_from(2 * self.tunables.slice_idle.as_nanos() / 1000).unwrap_or(0);
        let averages = (1..=MOST_BUSY).map(|average| ("average", average));
        let numbers = [("last-position", position)].into_iter().chain(averages);
        let numbers = numbers.chain([("noidle-think", long)]);
        let named = numbers.map(|(name, value)| (name.to_owned(), value));
        named.collect()
    }

    /// The state that is told holds, whatever was seen before.
    pub(super) fn believe(&mut self, told: &Values) {
        if told.given("average").is_some() {
            self.groups[0].busy_average[0] = told.count("average");
        }
        if told.given("last-position").is_some() {
            self.last_position = Sector::new(told.count("last-position"));
        }
        if told.given("noidle-think").is_some() {
            let mean = Nanos::from_micros(told.count("noidle-think"));
            let tree = TreeId(PriorityClass::BestEffort, Type::SyncNoIdle);
            self.groups[0].tree_mut(tree).think.believe(mean);
        }
    }
}

impl Followed for Cfq {
    fn dispatch_recorded(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let queue = self.data_of(id).queue;
        if self.active != Some(queue) {
            self.expire(now, requests, false);
            let TreeId(class, kind) = self.queue(queue).tree_by_flags();
            (self.serving_class, self.serving_type) = (class, kind);
            self.serving = self.queue(queue).group;
            self.set_active_queue(now, Some(queue));
        }
        self.dispatch_request(requests, id);
        self.after_dispatch(now, requests, queue);
    }

    fn carried_over(&self, _kernel: &Kernel) -> Option<Box<dyn Followed>> {
        Some(Box::new(self.carried()))
    }

    fn begin_with(&mut self, state: &Values) {
        self.believe(state);
    }

    fn plausible_states(&self, first: Sector) -> NamedValues {
        self.plausible(first)
    }

    fn duplicate(&self) -> Box<dyn Followed> {
        Box::new(self.clone())
    }
}
