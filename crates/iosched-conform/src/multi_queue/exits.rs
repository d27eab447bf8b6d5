//! When the processes of a recording ended, as its scheduler sees it.
//!
//! A recording says so (`# exit`; a simulated one of all that ended), or it follows from the last completion of a worker of a known load: a
//! worker that does one request at a time ends after its pause (or when it says that it was through) and what a process
//! takes to end; one that has several under way later, because its I/O context ends with the last of them. Where the
//! kernel runs the queue about then without anything that led to it, that was the end of the process.

use std::collections::BTreeMap;

use iosched_facts::units::{Nanos, Sector, Time};
use iosched_sim::request::{Op, ProcessId};
use iosched_sim::trace::kernel::Action;

use super::super::recording::{Recording, Step};
use super::effects::before;

/// From the last answer, or the pause after it, to the end of a process: measured on Linux 6.1.
const ENDS: Nanos = Nanos::from_micros(770);

/// The shortest and the longest of them that were seen, a little beyond; the shorter ones on 7.1.
const ENDS_BETWEEN: [Nanos; 2] = [Nanos::from_micros(500), Nanos::from_micros(1700)];
const ENDS_SOON: [Nanos; 2] = [Nanos::from_micros(100), Nanos::from_micros(1700)];

/// Before 20 ms, at which an idle timer may run the queue, and after 8 ms, where it may, too.
const SEVERAL_BETWEEN: [Nanos; 2] = [Nanos::from_millis(10), Nanos::from_micros(19_800)];

/// A run of the queue this long after all else has no other cause; sooner where the kernel prints no messages.
const UNLED: Nanos = Nanos::from_micros(300);
const SILENTLY_UNLED: Nanos = Nanos::from_micros(60);

/// From the end of a process to what the run of the queue gives then.
const RUN_LATER: Nanos = Nanos::from_micros(50);
const SILENTLY_LATER: Nanos = Nanos::from_micros(15);

/// The same of a process with several requests under way: 18.6 and 22.1 ms were seen.
const ENDS_WITH_SEVERAL: Nanos = Nanos::from_millis(20);

impl Recording {
    /// Ends of processes, in order.
    pub(super) fn ends(&self) -> Vec<(Time, ProcessId)> {
        // A simulation that was cut short has processes that did not end.
        if !self.exits.is_empty() || self.is_simulated() {
            let mut exits = self.exits.clone();
            exits.sort_by_key(|&(time, _)| time);
            return exits;
        }
        let last = self.last_completions();
        let is_silent = !self.has_messages();
        let ends = self.workers.iter().filter_map(|(process, worker)| {
            let last = *last.get(process)?;
            let said = worker.elapsed.and_then(|elapsed| {
                let first = self.steps.iter().find(|step| step.is_done_by(*process))?;
                Some(first.time + elapsed)
            });
            let said = said.filter(|&through| is_silent && through >= last);
            let end = match said {
                _ if worker.depth > 1 => {
                    self.end_of_worker(last, (ENDS_WITH_SEVERAL, SEVERAL_BETWEEN))
                }
                Some(through) => self.unled_run(through, ENDS_SOON).unwrap_or(through + ENDS),
                None => self.end_of_worker(last + worker.think, (ENDS, ENDS_BETWEEN)),
            };
            Some((end, *process))
        });
        let mut ends: Vec<_> = ends.collect();
        ends.sort_unstable();
        ends
    }

    /// When a worker ended that was through at this time: so long after it, if no run of the queue between
    /// these tells.
    fn end_of_worker(&self, through: Time, (usual, between): (Nanos, [Nanos; 2])) -> Time {
        let [first, last] = between.map(|after| through + after);
        let from = self.steps.partition_point(|step| step.time < first);
        let run = self.steps.get(from).filter(|run| {
            let before = from.checked_sub(1).map(|before| self.steps[before].time);
            let dispatches = matches!(run.action, Action::Dispatched | Action::Issued);
            dispatches && run.time <= last && before.is_some_and(|before| before + UNLED < run.time)
        });
        run.map_or(through + usual, |run| before(run.time, RUN_LATER))
    }

    /// When a process ended that led to the first run of the queue within so much after it was through, if nothing else
    /// did.
    fn unled_run(&self, through: Time, between: [Nanos; 2]) -> Option<Time> {
        let [first, last] = between.map(|after| through + after);
        let from = self.steps.partition_point(|step| step.time < first).max(1);
        let mut pairs = self.steps[from - 1..].windows(2);
        let run = pairs.find_map(|pair| {
            let [before, run] = pair else { return None };
            let is_unled = before.time + SILENTLY_UNLED < run.time;
            (run.action == Action::Dispatched && is_unled || run.time > last).then_some(run)
        });
        let run = run.filter(|run| run.time <= last)?;
        Some(before(run.time, SILENTLY_LATER))
    }

    /// When the last request of each process completed.
    fn last_completions(&self) -> BTreeMap<ProcessId, Time> {
        let mut open = OpenRequests::default();
        let mut last = BTreeMap::new();
        for step in &self.steps {
            match step.action {
                Action::Inserted => open.add(step),
                Action::Completed => {
                    if let Some(process) = open.take(step) {
                        last.insert(process, step.time);
                    }
                }
                _ => {}
            }
        }
        last
    }
}

/// Requests that were inserted and have not completed, the oldest first, by where they begin and by where they end.
#[derive(Default)]
struct OpenRequests<'a> {
    by_start: BTreeMap<(Option<Op>, Sector, usize), &'a Step>,
    by_end: BTreeMap<(Option<Op>, Sector, usize), &'a Step>,
    count: usize,
}

impl<'a> OpenRequests<'a> {
    fn add(&mut self, step: &'a Step) {
        self.count += 1;
        let end = step.start + step.length;
        self.by_start
            .insert((step.op, step.start, self.count), step);
        self.by_end.insert((step.op, end, self.count), step);
    }

    /// Takes the request that this completion is of, and says whose it is. It may have grown at either end.
    fn take(&mut self, step: &Step) -> Option<ProcessId> {
        let end = step.start + step.length;
        let oldest = |of: &BTreeMap<(Option<Op>, Sector, usize), &'a Step>, place: Sector| {
            let here = of.range((step.op, place, 0)..=(step.op, place, usize::MAX));
            let (&(.., number), &request) = here.into_iter().next()?;
            Some((number, request))
        };
        let by_start = oldest(&self.by_start, step.start);
        let by_end = oldest(&self.by_end, end);
        let found = [by_start, by_end].into_iter().flatten();
        let (number, request) = found.min_by_key(|&(number, _)| number)?;
        let its_end = request.start + request.length;
        self.by_start.remove(&(request.op, request.start, number));
        self.by_end.remove(&(request.op, its_end, number));
        Some(request.process)
    }
}
