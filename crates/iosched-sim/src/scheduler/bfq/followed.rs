//! Following a recording of bfq: what stays from one recording of a device to the next, and what can be said to have stayed.
//!
//! The disk's rate and the budgets that follow from it, virtual times, queues of processes that are gone
//! but had more than their share, and the position after the last dispatch.

use super::Bfq;
use super::expire::Reason;
use super::moment::{LONG_AGO, MILLI, Moment};
use super::queue::{Queue, QueueId, ScheduleTree};
use super::schedule::ServiceTree;
use crate::request::{IoPriority, RequestId, Requests};
use crate::scheduler::followed::{BEFORE, Followed};
use crate::scheduler::{Kernel, Values};
use crate::units::{Sector, Time};

/// What is told of happened so long before a recording, in nanoseconds.
const PAUSE: i64 = 100_000 * MILLI;

/// Leftovers that can be told of, for each class that has any.
const LEFTOVERS: [(&str, usize, usize); 2] = [("rt", 0, 2), ("be", 1, 8)];

impl Bfq {
    /// The state that this scheduler leaves when all requests have completed and all processes have ended,
    /// on the clock of another recording.
    fn carried(&self, kernel: &Kernel) -> Bfq {
        let mut left = self.clone();
        left.settle();
        left.clock = super::moment::Clock::new(kernel);
        left.kernel = *kernel;
        let end = left.now;
        let begin = left.clock.moment(BEFORE, None);
        left.shift(begin.ns - end.ns, begin.tick - end.tick);
        left.now = begin;
        left
    }

    /// Whatever has not been told: requests have completed, processes have ended.
    fn settle(&mut self) {
        let (at, none) = (self.now, Requests::default());
        for queue in self.queues.iter_mut().filter(|queue| queue.exists) {
            queue.sort_list = crate::sorted::Sorted::default();
            queue.fifo = crate::list::List::default();
            (queue.next_rq, queue.queued) = (None, [0, 0]);
            (queue.dispatched, queue.allocated) = (0, 0);
        }
        self.links = crate::list::Links::default();
        self.data = crate::request_table::ByRequest::default();
        self.rq_pos_tree = super::red_black::Tree::default();
        (self.rq_in_driver, self.queued, self.run_requested) = (0, 0, false);
        self.processes.forget_requests();
        let living: Vec<_> = self.processes.living().collect();
        for id in living {
            let process = self.processes.find(id).expect("it lives");
            self.exit(at, &none, process);
        }
        if self.in_service_queue.is_some() {
            self.expire(at, &none, Reason::NoMore, false);
        }
        for id in (0..self.queues.len()).map(QueueId::at) {
            let queue = self.queue(id);
            if queue.exists && queue.busy {
                self.del_busy(at, id, false);
            }
            if self.queue(id).exists {
                self.uncount_weight(id);
                self.release_if_unused(id);
            }
        }
        self.run_requested = false;
    }

    /// All times lie elsewhere.
    fn shift(&mut self, ns: i64, ticks: i64) {
        let rate = &mut self.rate;
        for time in [
            &mut rate.first_dispatch,
            &mut rate.last_dispatch,
            &mut rate.last_completion,
            &mut self.last_budget_start,
            &mut self.last_idling_start,
            &mut self.last_empty_occupied_ns,
        ] {
            *time += ns;
        }
        self.burst.last += ticks;
        self.class_idle_last_service += ticks;
        for queue in &mut self.queues {
            queue.shift(ns, ticks);
        }
    }

    /// The state that is told holds, whatever was seen before.
    pub(super) fn believe(&mut self, told: &Values) {
        if told.given("last-position").is_some() {
            self.last_position = Sector::new(told.count("last-position"));
        }
        self.believe_hw_tag(told);
        if let Some(budgets) = told.given("budgets") {
            self.budgets_assigned = budgets;
        }
        if let Some(budget) = told.given("max-budget") {
            self.max_budget = budget;
            self.rate.peak = self.rate_of_budget(budget).max(1);
        }
        if let Some(peak) = told.given("peak-rate") {
            self.rate.peak = peak.max(1);
        }
        self.believe_observation(told);
        for (class, place, count) in LEFTOVERS {
            for nth in 1..=count {
                let weight = told.get(&format!("{class}-weight-{nth}"));
                let ahead = told.count(&format!("{class}-ahead-{nth}"));
                self.leave_behind(place, weight, ahead);
            }
        }
    }

    fn believe_hw_tag(&mut self, told: &Values) {
        if let Some(known) = told.given("hw-tag") {
            self.hw_tag.known = (known >= 0).then_some(known == 1);
            self.nonrot_with_queueing = !self.rotational && known != 0;
        }
        if told.given("hw-samples").is_some() {
            self.hw_tag.samples = u32::try_from(told.count("hw-samples")).unwrap_or(0);
        }
        if told.given("max-in-driver").is_some() {
            self.hw_tag.max_rq_in_driver = told.count("max-in-driver");
        }
    }

    /// The observation of the rate that was under way, and ended long ago.
    fn believe_observation(&mut self, told: &Values) {
        if told.given("rate-samples").is_none() {
            return;
        }
        let since = self.now.ns - PAUSE;
        let micros = |name: &str| told.get(name) * 1000;
        let rate = &mut self.rate;
        rate.samples = told.get("rate-samples");
        rate.sequential = told.get("rate-sequential");
        rate.sectors = told.get("rate-sectors");
        rate.largest = told.get("rate-largest");
        rate.interval = micros("rate-interval");
        rate.first_dispatch = since;
        rate.last_dispatch = since + rate.interval;
        rate.last_completion = since + micros("rate-last-completion");
    }

    /// A queue whose process is gone: it had this much more than its share.
    fn leave_behind(&mut self, class: usize, weight: i64, ahead: u64) {
        if weight == 0 {
            return;
        }
        let at = Moment {
            ns: LONG_AGO,
            tick: LONG_AGO,
        };
        let id = self.new_queue(at, true, IoPriority::default());
        let finish = self.service_trees[class].vtime + ahead;
        let queue: &mut Queue = self.queue_mut(id);
        (queue.class, queue.new_class) = (class, class);
        queue.entity.weight = weight;
        queue.entity.finish = finish;
        queue.entity.place = ScheduleTree::Idle;
        queue.entity.in_sum = true;
        let tree: &mut ServiceTree = &mut self.service_trees[class];
        tree.idle.insert(finish, id);
        tree.weights += weight;
    }
}

impl Queue {
    fn shift(&mut self, ns: i64, ticks: i64) {
        for tick in [
            &mut self.budget_timeout,
            &mut self.last_idle_bklogged,
            &mut self.first_io_time,
            &mut self.creation_time,
            &mut self.split_time,
            &mut self.wr.last_start_finish,
            &mut self.wr.start_at_switch_to_srt,
            &mut self.soft_rt_next_start,
            &mut self.injection.decreased,
        ] {
            *tick += ticks;
        }
        for time in [
            &mut self.think.last_end,
            &mut self.io_start_time,
            &mut self.waking.since,
        ] {
            *time += ns;
        }
    }
}

impl Followed for Bfq {
    fn dispatch_recorded(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let at = self.moment(now);
        self.take_recorded(at, requests, id);
    }

    fn empty_dispatches_matter(&self) -> bool {
        false
    }

    fn lock_taken(&mut self, at: Time) {
        self.locked = Some(at);
    }

    fn ends_slice_first(&self, now: Time, requests: &Requests) -> bool {
        let at = self.clock.moment(now, None);
        self.reason_to_expire(at, requests).is_some()
    }

    fn carried_over(&self, kernel: &Kernel) -> Option<Box<dyn Followed>> {
        Some(Box::new(self.carried(kernel)))
    }

    fn begin_with(&mut self, state: &Values) {
        self.believe(state);
    }

    fn duplicate(&self) -> Box<dyn Followed> {
        Box::new(self.clone())
    }
}
