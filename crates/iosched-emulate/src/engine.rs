//! The disk model with the requests that wait for it: what arrived, what is done by now. Between them stands
//! a scheduler of ours, if the disk is served with one; it may stand over a real disk instead of a model.
//!
//! Knows no clock and no data. It carries a token per command (in the server: the FUSE reply) from
//! [`Engine::submit`] to [`Engine::advance`], and lets the model do each thing at the time the model
//! has for it: the caller may be late, the disk is not.

use std::collections::BTreeMap;

use iosched_sim::disk::{Command, Completion, DiskModel, DiskOp};
use iosched_sim::scheduler::Elevator;
use iosched_sim::serve::{self, Access, Asker, QueueSettings, Served};
use iosched_sim::units::{Sector, Sectors, Time};

/// What takes the requests: the model itself, or a block layer with a scheduler over it.
pub(super) enum Engine<T> {
    Disk(Bare<T>),
    Scheduled(Box<Scheduled<T>>),
}

/// A block layer over a model, or over a disk whose commands the caller takes.
pub(super) struct Scheduled<T> {
    served: Served<(Job, T)>,
    done: Vec<serve::Finished<(Job, T)>>,
}

impl<T> Engine<T> {
    /// The model, to which everything goes as it comes.
    pub(super) fn new(model: Box<dyn DiskModel>) -> Engine<T> {
        Engine::Disk(Bare::new(model))
    }

    /// The model below a scheduler.
    pub(super) fn scheduled(
        scheduler: Box<dyn Elevator>,
        model: Box<dyn DiskModel>,
        settings: &QueueSettings,
    ) -> Engine<T> {
        Engine::Scheduled(Box::new(Scheduled {
            served: Served::new(scheduler, model, settings, None),
            done: Vec::new(),
        }))
    }

    /// A scheduler over a disk that the caller has.
    pub(super) fn outside(scheduler: Box<dyn Elevator>, settings: &QueueSettings) -> Engine<T> {
        Engine::Scheduled(Box::new(Scheduled {
            served: Served::outside(scheduler, settings, None),
            done: Vec::new(),
        }))
    }

    /// The next command for the disk that the caller has, and the tokens of what it is for, as that lies on the disk.
    pub(super) fn take_issued(&mut self) -> Option<(Command, Vec<&T>)> {
        let Engine::Scheduled(inside) = self else {
            return None;
        };
        let command = inside.served.take_issued()?;
        let mut accesses = inside.served.accesses(command.tag);
        accesses.sort_by_key(|(job, _)| job.start);
        if matches!(command.op, DiskOp::Read | DiskOp::Write) {
            let sectors: u64 = accesses.iter().map(|(job, _)| job.length.as_u64()).sum();
            let whole = command.length.as_u64();
            assert_eq!(sectors, whole, "accesses with data are never split");
        }
        Some((
            command,
            accesses.into_iter().map(|(_, token)| token).collect(),
        ))
    }

    /// The disk that the caller has is done with a command, or failed with this error.
    pub(super) fn completed(
        &mut self,
        completion: Completion,
        error: Option<i32>,
        finished: &mut Vec<Finished<T>>,
    ) {
        match self {
            Engine::Disk(_) => unreachable!("a model completes its commands itself"),
            Engine::Scheduled(inside) => {
                let Scheduled { served, done } = &mut **inside;
                served.completed(completion, error, done);
                finished.extend(done.drain(..).map(Finished::from));
            }
        }
    }

    /// Takes a request that arrived at `at`; what was due before it is done first and appended to
    /// `finished`. An arrival in the model's past counts as one at the model's present.
    pub(super) fn submit(
        &mut self,
        at: Time,
        (job, asker): (Job, Asker),
        token: T,
        finished: &mut Vec<Finished<T>>,
    ) {
        match self {
            Engine::Disk(disk) => disk.submit(at, job, token, finished),
            Engine::Scheduled(inside) => {
                let access = Access {
                    op: job.op,
                    start: job.start,
                    length: job.length,
                    asker,
                };
                let Scheduled { served, done } = &mut **inside;
                served.submit(at, &access, (job, token), done);
                finished.extend(done.drain(..).map(Finished::from));
            }
        }
    }

    /// A process that asked has ended.
    pub(super) fn exited(&mut self, at: Time, process: u32, finished: &mut Vec<Finished<T>>) {
        if let Engine::Scheduled(inside) = self {
            let Scheduled { served, done } = &mut **inside;
            served.exited(at, process, done);
            finished.extend(done.drain(..).map(Finished::from));
        }
    }

    /// Does what is due up to `now`, event by event, and appends what completed.
    pub(super) fn advance(&mut self, now: Time, finished: &mut Vec<Finished<T>>) {
        match self {
            Engine::Disk(disk) => disk.advance(now, finished),
            Engine::Scheduled(inside) => {
                let Scheduled { served, done } = &mut **inside;
                served.advance(now, done);
                finished.extend(done.drain(..).map(Finished::from));
            }
        }
    }

    /// When [`Engine::advance`] has something to do.
    pub(super) fn next_event(&self) -> Option<Time> {
        match self {
            Engine::Disk(disk) => disk.next_event(),
            Engine::Scheduled(inside) => inside.served.next_event(),
        }
    }

    /// Requests that are not done.
    pub(super) fn in_flight(&self) -> usize {
        match self {
            Engine::Disk(disk) => disk.in_flight.len(),
            Engine::Scheduled(inside) => inside.served.in_flight(),
        }
    }

    /// Another scheduler takes the place of the one that is there, once nothing is on its way.
    pub(super) fn switch(&mut self, scheduler: Box<dyn Elevator>, settings: &QueueSettings) {
        match self {
            Engine::Disk(_) => unreachable!("only a disk with a scheduler inside has it switched"),
            Engine::Scheduled(inside) => inside.served.switch(scheduler, settings),
        }
    }

    /// Completes what is left, at whatever time the model has for it: for a model that is to go.
    pub(super) fn finish(self) -> Vec<Finished<T>> {
        match self {
            Engine::Disk(disk) => disk.finish(),
            Engine::Scheduled(inside) => {
                let left = inside.served.finish();
                left.into_iter().map(Finished::from).collect()
            }
        }
    }
}

/// A model and the commands in it, each with a token of the caller.
pub(super) struct Bare<T> {
    model: Box<dyn DiskModel>,
    in_flight: BTreeMap<u64, InFlight<T>>,
    next_tag: u64,
    latest: Time,
    completions: Vec<Completion>,
}

struct InFlight<T> {
    job: Job,
    arrived: Time,
    token: T,
}

/// What a command asks of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) op: DiskOp,
    pub(super) start: Sector,
    pub(super) length: Sectors,
}

/// A command that is done.
#[derive(Debug)]
pub(super) struct Finished<T> {
    pub(super) job: Job,
    pub(super) arrived: Time,
    pub(super) started: Time,
    pub(super) completed: Time,
    /// What went wrong, if the disk is no model.
    pub(super) error: Option<i32>,
    pub(super) token: T,
}

impl<T> From<serve::Finished<(Job, T)>> for Finished<T> {
    fn from(done: serve::Finished<(Job, T)>) -> Finished<T> {
        let (job, token) = done.token;
        Finished {
            job,
            arrived: done.arrived,
            started: done.started,
            completed: done.completed,
            error: done.error,
            token,
        }
    }
}

impl<T> Bare<T> {
    fn new(model: Box<dyn DiskModel>) -> Bare<T> {
        Bare {
            model,
            in_flight: BTreeMap::new(),
            next_tag: 0,
            latest: Time::ZERO,
            completions: Vec::new(),
        }
    }

    /// Hands the model a command that arrived at `at`; what was due before it is done first and
    /// appended to `finished`. An arrival in the model's past counts as one at the model's present.
    fn submit(&mut self, at: Time, job: Job, token: T, finished: &mut Vec<Finished<T>>) {
        self.advance(at, finished);
        let arrived = at.max(self.latest);
        self.latest = arrived;
        let tag = self.next_tag;
        self.next_tag += 1;
        self.model.submit(
            arrived,
            Command {
                tag,
                op: job.op,
                start: job.start,
                length: job.length,
                fua: false, // a loop device takes no FUA: the kernel sends a flush instead
            },
        );
        let in_flight = InFlight {
            job,
            arrived,
            token,
        };
        self.in_flight.insert(tag, in_flight);
    }

    /// Does what is due up to `now`, event by event, and appends what completed.
    ///
    /// The model is never told a time later than its own events, so that a command which arrived
    /// before `now` but is submitted after this call still arrives when it did.
    fn advance(&mut self, now: Time, finished: &mut Vec<Finished<T>>) {
        while let Some(event) = self.model.next_event().filter(|&event| event <= now) {
            let event = event.max(self.latest);
            self.latest = event;
            self.model.advance(event, &mut self.completions);
            assert!(
                self.model.next_event().is_none_or(|next| next > event),
                "the model stays at its event of {event}"
            );
            for done in self.completions.drain(..) {
                let Some(command) = self.in_flight.remove(&done.tag) else {
                    panic!("tag {} completed, but is not in flight", done.tag);
                };
                finished.push(Finished {
                    job: command.job,
                    arrived: command.arrived,
                    started: done.started,
                    completed: done.time,
                    error: None,
                    token: command.token,
                });
            }
        }
    }

    /// When [`Bare::advance`] has something to do.
    fn next_event(&self) -> Option<Time> {
        self.model.next_event()
    }

    /// Completes what is left, at whatever time the model has for it: for a model that is to go.
    fn finish(mut self) -> Vec<Finished<T>> {
        let mut finished = Vec::new();
        self.advance(Time::MAX, &mut finished);
        assert!(self.in_flight.is_empty(), "commands that never complete");
        finished
    }
}

#[cfg(test)]
mod tests {
    use iosched_sim::units::Nanos;

    use super::*;

    /// One command after the other, each for a millisecond.
    struct OneByOne {
        free_at: Time,
        queue: Vec<Completion>,
    }

    impl DiskModel for OneByOne {
        fn capacity(&self) -> Sectors {
            Sectors::new(1 << 20)
        }
        fn queue_depth(&self) -> usize {
            8
        }
        fn submit(&mut self, now: Time, command: Command) {
            let started = self.free_at.max(now);
            self.free_at = started + Nanos::from_millis(1);
            self.queue.push(Completion {
                tag: command.tag,
                started,
                time: self.free_at,
            });
        }
        fn next_event(&self) -> Option<Time> {
            self.queue.first().map(|first| first.time)
        }
        fn advance(&mut self, now: Time, completed: &mut Vec<Completion>) {
            while self.queue.first().is_some_and(|first| first.time <= now) {
                completed.push(self.queue.remove(0));
            }
        }
    }

    fn engine() -> Bare<&'static str> {
        Bare::new(Box::new(OneByOne {
            free_at: Time::ZERO,
            queue: Vec::new(),
        }))
    }

    fn read() -> Job {
        Job {
            op: DiskOp::Read,
            start: Sector::ZERO,
            length: Sectors::new(8),
        }
    }

    fn millis(ms: u64) -> Time {
        Time::ZERO + Nanos::from_millis(ms)
    }

    #[test]
    fn a_late_caller_does_not_slow_the_disk() {
        let mut engine = engine();
        let mut finished = Vec::new();
        for name in ["first", "second", "third"] {
            engine.submit(millis(0), read(), name, &mut finished);
        }
        engine.advance(millis(50), &mut finished); // should have come at 1, 2 and 3 ms
        let times: Vec<_> = finished.iter().map(|f| (f.token, f.completed)).collect();
        assert_eq!(
            times,
            [
                ("first", millis(1)),
                ("second", millis(2)),
                ("third", millis(3))
            ]
        );
        assert!(engine.in_flight.is_empty());
    }

    #[test]
    fn what_arrived_before_a_late_wake_up_still_arrives_when_it_did() {
        let mut engine = engine();
        let mut finished = Vec::new();
        engine.submit(millis(0), read(), "first", &mut finished);
        engine.advance(millis(9), &mut finished);
        engine.submit(millis(4), read(), "second", &mut finished); // handled late
        engine.advance(millis(9), &mut finished);
        assert_eq!(finished[1].arrived, millis(4));
        assert_eq!(finished[1].completed, millis(5));
    }

    #[test]
    fn an_arrival_in_the_models_past_counts_as_one_now() {
        let mut engine = engine();
        let mut finished = Vec::new();
        engine.submit(millis(7), read(), "first", &mut finished);
        engine.submit(millis(3), read(), "second", &mut finished);
        engine.advance(millis(20), &mut finished);
        assert_eq!(finished[1].arrived, millis(7));
        assert_eq!(finished[1].completed, millis(9));
    }

    #[test]
    fn submitting_delivers_what_was_due_before() {
        let mut engine = engine();
        let mut finished = Vec::new();
        engine.submit(millis(0), read(), "first", &mut finished);
        engine.submit(millis(5), read(), "second", &mut finished);
        assert_eq!(finished.len(), 1);
        assert_eq!(engine.next_event(), Some(millis(6)));
    }

    /// What all commands complete at, if the caller looks at every event, or only now and then.
    fn completions(model: &str, arrivals: &[(u64, u64, bool)], looks_at_events: bool) -> Vec<Time> {
        let options = iosched_sim::disk::ModelOptions {
            size: Some(iosched_sim::units::Bytes::from_gib(1)),
            ..Default::default()
        };
        let mut engine = Bare::new(iosched_sim::disk::build(model, &options).unwrap());
        let mut finished = Vec::new();
        let mut at = Time::ZERO;
        for (token, &(pause_us, block, is_read)) in arrivals.iter().enumerate() {
            at += Nanos::from_micros(pause_us);
            while looks_at_events && let Some(event) = engine.next_event().filter(|&e| e <= at) {
                engine.advance(event, &mut finished);
            }
            let op = if is_read { DiskOp::Read } else { DiskOp::Write };
            let job = Job {
                op,
                start: Sector::new(block * 8),
                length: Sectors::new(8),
            };
            engine.submit(at, job, token, &mut finished);
        }
        finished.extend(engine.finish());
        let mut times = vec![Time::ZERO; arrivals.len()];
        for done in finished {
            assert_eq!(times[done.token], Time::ZERO, "nothing completes twice");
            assert!(done.arrived <= done.started && done.started <= done.completed);
            times[done.token] = done.completed;
        }
        times
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]

        #[test]
        fn every_model_keeps_its_times_however_rarely_it_is_looked_at(
            arrivals in proptest::collection::vec((1..20_000_u64, 0..262_144_u64, proptest::prelude::any::<bool>()), 1..60),
        ) {
            for model in iosched_sim::disk::models() {
                let often = completions(&model.name, &arrivals, true);
                proptest::prop_assert_eq!(&often, &completions(&model.name, &arrivals, false), "{}", model.name);
            }
        }
    }
}
