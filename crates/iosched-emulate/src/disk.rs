//! An emulated disk on the machine's clock: the model, its data, and the thread that lets time pass.
//!
//! Requests are handed to the model under a lock; a thread of its own sleeps on a timer that is always
//! set to the model's next event, and sends the answers that are due. So nobody is woken only to pass a
//! request on, and a model without delays is answered at once in the thread that the request arrived on.
//!
//! Data are written when a write arrives and read just before a read is answered: how long that takes is
//! hidden in the time that the disk takes anyway. A disk that stands over a real one ([`Below`]) keeps the data of
//! an access until its command is carried out there, by threads that then say when it was done.
//!
//! With a scheduler of ours inside, whose each access is comes from `attribution`; another scheduler takes its
//! place once that holds nothing, and what comes meanwhile waits.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use iosched_sim::disk::{Completion, DiskModel, DiskOp};
use iosched_sim::scheduler::{Elevator, Kernel};
use iosched_sim::serve::Asker;
use iosched_sim::units::{Bytes, Nanos, SECTOR_BYTES, Sector, Sectors, Time};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::attribution::{Attributed, Attribution};
use super::backing::Backing;
use super::below::{self, Aligned, Below, Order};
use super::connection;
use super::disk_directory::PreparedState;
use super::engine::{Engine, Finished, Job};
use super::inside::Inside;
use super::ledger::{Ledger, Served};
use super::log::{log, log_access, monotonic};

/// A sleep of at least this length ends early, see [`EarlyRising`]; shorter ones do not, so that the
/// clock takes a few percent of a processor at most, and never holds one for a fast disk.
const LONG_SLEEP: Nanos = Nanos::from_millis(2);

/// An emulated disk on the machine's clock.
pub(super) struct Disk {
    core: Mutex<Core>,
    timer: OwnedFd,
    /// The next event on the machine's clock in nanoseconds, for a clock that is awake.
    next_event: AtomicU64,
    /// What the timer is set to before a long sleep, on the machine's clock in nanoseconds; else 0.
    alarm: AtomicU64,
    /// What belongs to the scheduler inside, if there is one.
    within: OnceLock<Within>,
    store: Store,
    size: Bytes,
}

/// Where the data are.
enum Store {
    /// In a file of ours, beside the model.
    Backing(Backing),
    /// On what the commands go to.
    Below(Below),
}

/// What the lock protects: the model and everything that depends on its time.
struct Core {
    engine: Engine<Answer>,
    /// The machine's monotonic clock when the model's clock was zero.
    epoch: Nanos,
    /// The scheduler is to be another one as soon as the old one holds nothing.
    switch: Option<Switch>,
    /// How long a request is under way to us and back: it arrived earlier by this much.
    path: Nanos,
    /// The event that the timer is set for.
    armed: Option<Time>,
    rising: EarlyRising,
    ledger: Ledger,
}

/// Prepares the state in which a scheduler of this name is inside.
type StateWith = Box<dyn Fn(&str) -> io::Result<PreparedState> + Send + Sync>;

/// What belongs to a scheduler inside, whichever it is.
struct Within {
    inside: Inside,
    /// Whose the accesses are.
    attribution: Attribution,
    state_with: StateWith,
    /// For a thread that sets the queue above and then says so: it may wait for accesses that others answer.
    came: Sender<Came>,
}

/// Another scheduler has come.
struct Came {
    name: String,
    answer: Answer,
}

/// What became of a [`Switch`].
struct Switched {
    name: String,
    answer: Answer,
    outcome: io::Result<()>,
}

/// Another scheduler that comes.
struct Switch {
    name: String,
    scheduler: (Box<dyn Elevator>, Kernel),
    /// What others read of the disk from then on.
    state: PreparedState,
    /// What came meanwhile.
    held: Vec<(Time, (Job, Asker), Answer)>,
    answer: Answer,
}

/// What is left to do for a command once the disk is done with it.
#[derive(Debug)]
pub(super) enum Answer {
    /// Data that are in a file of ours.
    Data(ReplyData, u64, usize),
    /// Data that are read from below meanwhile.
    Read(ReplyData, below::Data),
    Written(ReplyWrite, u32),
    /// Data that are written below meanwhile.
    Write(ReplyWrite, u32, below::Data),
    Done(ReplyEmpty),
}

impl Answer {
    /// What is read or written below.
    fn data(&self) -> Option<&below::Data> {
        match self {
            Answer::Read(_, data) | Answer::Write(_, _, data) => Some(data),
            Answer::Data(..) | Answer::Written(..) | Answer::Done(_) => None,
        }
    }

    fn fail(self, error: Errno) {
        match self {
            Answer::Data(reply, ..) | Answer::Read(reply, _) => reply.error(error),
            Answer::Written(reply, _) | Answer::Write(reply, ..) => reply.error(error),
            Answer::Done(reply) => reply.error(error),
        }
    }
}

impl Disk {
    pub(super) fn new(model: Box<dyn DiskModel>, backing: Backing) -> io::Result<Disk> {
        let size = model.capacity().to_bytes();
        Disk::with(Engine::new(model), Store::Backing(backing), size)
    }

    /// A disk that stands over another, or over a file, with a scheduler inside.
    pub(super) fn over(engine: Engine<Answer>, below: Below) -> io::Result<Disk> {
        let size = below.size();
        Disk::with(engine, Store::Below(below), size)
    }

    fn with(engine: Engine<Answer>, store: Store, size: Bytes) -> io::Result<Disk> {
        Ok(Disk {
            core: Mutex::new(Core {
                engine,
                epoch: monotonic(),
                switch: None,
                path: Nanos::ZERO,
                armed: None,
                rising: EarlyRising::default(),
                ledger: Ledger::default(),
            }),
            timer: timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?,
            next_event: AtomicU64::new(0),
            alarm: AtomicU64::new(0),
            within: OnceLock::new(),
            store,
            size,
        })
    }

    pub(super) fn size(&self) -> Bytes {
        self.size
    }

    /// What it stands over, if it has no model.
    fn below(&self) -> Option<&Below> {
        match &self.store {
            Store::Backing(_) => None,
            Store::Below(below) => Some(below),
        }
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.below().is_some_and(Below::is_read_only)
    }

    /// Space that the data take in a file of ours.
    pub(super) fn stored(&self) -> Bytes {
        match &self.store {
            Store::Backing(backing) => backing.stored().unwrap_or(Bytes::ZERO),
            Store::Below(_) => self.size,
        }
    }

    // ---- what comes from FUSE ---------------------------------------------------------------

    /// Reads, inside of the disk.
    pub(super) fn read(&self, received: Nanos, offset: u64, length: u64, reply: ReplyData) {
        let job = self.job(DiskOp::Read, offset, length);
        let bytes = usize::try_from(length).expect("a request fits into memory");
        let answer = match &self.store {
            Store::Backing(_) => Answer::Data(reply, offset, bytes),
            Store::Below(below) if !below.takes(offset, length) => {
                return reply.error(Errno::EINVAL);
            }
            Store::Below(_) => Answer::Read(reply, Arc::new(Mutex::new(Aligned::zeroed(bytes)))),
        };
        self.arrive(received, job, answer);
    }

    /// Writes, inside of the disk.
    pub(super) fn write(&self, received: Nanos, offset: u64, data: &[u8], reply: ReplyWrite) {
        let length = data.len() as u64;
        let written = u32::try_from(length).expect("a request is shorter than 4 GiB");
        let answer = match &self.store {
            Store::Backing(backing) => {
                if let Err(error) = backing.write(offset, data) {
                    log_access(format_args!(
                        "cannot store {length} bytes at {offset}: {error}"
                    ));
                    return reply.error(error.into());
                }
                Answer::Written(reply, written)
            }
            Store::Below(below) if below.is_read_only() => return reply.error(Errno::EROFS),
            Store::Below(below) if !below.takes(offset, length) => {
                return reply.error(Errno::EINVAL);
            }
            Store::Below(_) => {
                Answer::Write(reply, written, Arc::new(Mutex::new(Aligned::of(data))))
            }
        };
        let job = self.job(DiskOp::Write, offset, length);
        self.arrive(received, job, answer);
    }

    pub(super) fn flush(&self, received: Nanos, reply: ReplyEmpty) {
        let job = Job {
            op: DiskOp::Flush,
            start: Sector::ZERO,
            length: Sectors::ZERO,
        };
        self.arrive(received, job, Answer::Done(reply));
    }

    /// Makes a range inside of the disk read as zeros.
    pub(super) fn discard(&self, received: Nanos, offset: u64, length: u64, reply: ReplyEmpty) {
        match &self.store {
            Store::Backing(backing) => {
                if let Err(error) = backing.punch(offset, length) {
                    log_access(format_args!(
                        "cannot discard {length} bytes at {offset}: {error}"
                    ));
                    return reply.error(error.into());
                }
            }
            Store::Below(below) if !below.can_discard() => return reply.error(Errno::EOPNOTSUPP),
            Store::Below(below) if !below.takes(offset, length) => {
                return reply.error(Errno::EINVAL);
            }
            Store::Below(_) => {}
        }
        let job = self.job(DiskOp::Discard, offset, length);
        self.arrive(received, job, Answer::Done(reply));
    }

    // ---- what goes on inside ----------------------------------------------------------------

    /// Puts a fresh model in the place of the one that is there, or a scheduler over one; its clock starts
    /// now. What others have in the old one (whoever looks at all disks, looks at this one) is answered at
    /// once.
    pub(super) fn replace(&self, engine: Engine<Answer>, path: Nanos) {
        let mut core = self.lock();
        let old = std::mem::replace(&mut core.engine, engine);
        core.epoch = monotonic();
        core.path = path;
        core.armed = None;
        core.ledger.clear();
        drop(core);
        self.answer(old.finish(), &mut Vec::new());
    }

    /// There is a scheduler inside, which can be another one once the state that says so is prepared; then the queue above
    /// is set for it.
    pub(super) fn may_switch(
        self: &Arc<Disk>,
        inside: Inside,
        attribution: Attribution,
        state_with: impl Fn(&str) -> io::Result<PreparedState> + Send + Sync + 'static,
        set_above: impl Fn(&str) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<()> {
        let (came, coming) = mpsc::channel::<Came>();
        let disk = Arc::clone(self);
        let threads = std::thread::Builder::new().name("above".to_owned());
        threads.spawn(move || {
            for Came { name, answer } in coming {
                let set = connection::without(|| set_above(&name)).flatten();
                if let Err(error) = set {
                    log_access(format_args!("cannot set the queue above: {error}"));
                }
                disk.reply(answer, &mut Vec::new());
            }
        })?;
        let within = Within {
            inside,
            attribution,
            state_with: Box::new(state_with),
            came,
        };
        assert!(self.within.set(within).is_ok(), "a disk is set up once");
        Ok(())
    }

    /// What was written below is on the medium, also what no program has flushed.
    pub(super) fn flush_below(&self) -> io::Result<()> {
        Ok(self.below().map_or(Ok(()), Below::flush)?)
    }

    /// What watches the disk's accesses goes.
    pub(super) fn end(&self) {
        if let Some(within) = self.within.get() {
            within.attribution.end();
        }
    }

    /// How many accesses were told whose they are.
    pub(super) fn attributed(&self) -> Attributed {
        let within = self.within.get();
        within
            .map(|within| within.attribution.counts())
            .unwrap_or_default()
    }

    /// Lets another scheduler take the place of the one inside, once that holds nothing; `reply` says so.
    pub(super) fn switch(&self, name: &str, reply: ReplyWrite, length: u32) {
        let Some(within) = self.within.get() else {
            return reply.error(Errno::EOPNOTSUPP);
        };
        let scheduler = match within.inside.build(name) {
            Ok(scheduler) => scheduler,
            Err(error) => {
                log_access(format_args!("{error}"));
                return reply.error(Errno::EINVAL);
            }
        };
        // Before anything is switched: what others would read is what is.
        let state = match (within.state_with)(name) {
            Ok(state) => state,
            Err(error) => {
                log_access(format_args!("cannot write the state: {error}"));
                return reply.error(error.into());
            }
        };
        let mut core = self.lock();
        if core.switch.is_some() {
            drop(core);
            return reply.error(Errno::EBUSY);
        }
        core.switch = Some(Switch {
            name: name.to_owned(),
            scheduler,
            state,
            held: Vec::new(),
            answer: Answer::Written(reply, length),
        });
        self.go_on(core, Vec::new(), &mut Vec::new());
    }

    /// Has the queue above set for a scheduler that has come, and the answer given then.
    fn set_above(&self, name: String, answer: Answer) {
        let within = self.within.get().expect("only then is there one to come");
        let sent = within.came.send(Came { name, answer });
        assert!(sent.is_ok(), "the thread ends with the process");
    }

    /// Switches, if that is to be and nothing stands in the way any more, unless others cannot be told; gives who waits for
    /// it, and whether it was.
    fn switch_if_idle(
        &self,
        core: &mut Core,
        now: Time,
        finished: &mut Vec<Finished<Answer>>,
    ) -> Option<Switched> {
        let within = self.within.get()?;
        let switch = core.switch.take_if(|_| core.engine.in_flight() == 0)?;
        let outcome = switch.state.commit();
        if outcome.is_ok() {
            let (scheduler, kernel) = switch.scheduler;
            let settings = within.inside.settings(kernel);
            core.engine.switch(scheduler, &settings);
        }
        for (at, what, answer) in switch.held {
            core.engine.submit(at.max(now), what, answer, finished);
        }
        Some(Switched {
            name: switch.name,
            answer: switch.answer,
            outcome,
        })
    }

    /// The last requests served.
    pub(super) fn served(&self) -> Vec<Served> {
        self.lock().ledger.entries()
    }

    /// Sleeps until the model's next event, answers what is due, and so on; never returns.
    pub(super) fn keep_time(&self) -> io::Result<()> {
        let mut timer = File::from(self.timer.try_clone()?);
        let mut buffer = Vec::new();
        let mut expirations = [0; 8];
        loop {
            match timer.read_exact(&mut expirations) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let woke = monotonic();
            let alarm = self.alarm.swap(0, Ordering::Relaxed);
            if !self.pass_time_awake() {
                continue; // the event is gone, the timer is set to the next
            }
            let mut core = self.lock();
            if alarm > 0 {
                core.rising.learn(woke.saturating_sub(Nanos::new(alarm)));
            }
            core.armed = None;
            self.go_on(core, Vec::new(), &mut buffer);
        }
    }

    /// Carries out commands below, one after the other; never returns.
    pub(super) fn carry_out(&self) {
        let below = self.below().expect("a disk that stands over another");
        loop {
            let order = below.next_order();
            let started = monotonic();
            let error = below.carry_out(&order).err();
            let mut core = self.lock();
            let time = |at: Nanos| Time::ZERO + at.saturating_sub(core.epoch);
            let completion = Completion {
                tag: order.tag,
                started: time(started),
                time: time(monotonic()),
            };
            let error = error.map(rustix::io::Errno::raw_os_error);
            let mut finished = Vec::new();
            core.engine.completed(completion, error, &mut finished);
            self.go_on(core, finished, &mut Vec::new());
        }
    }

    /// Waits awake for an event that is near; false if the next one is far.
    fn pass_time_awake(&self) -> bool {
        loop {
            let next = self.next_event.load(Ordering::Relaxed);
            let left = next.saturating_sub(monotonic().as_nanos());
            if left == 0 {
                return true;
            }
            if left > EarlyRising::MOST.as_nanos() {
                return false;
            }
            std::hint::spin_loop();
        }
    }

    /// An access that was received at `received` on the machine's clock.
    fn arrive(&self, received: Nanos, job: Job, answer: Answer) {
        let within = self.within.get();
        let told = within.map(|within| within.attribution.ask(job));
        let (asker, exits) = told.unwrap_or((Asker::unknown(job.op), Vec::new()));
        let what = (job, asker);
        let mut finished = Vec::new();
        let mut core = self.lock();
        let since_epoch = received
            .saturating_sub(core.epoch)
            .saturating_sub(core.path);
        let at = Time::ZERO + since_epoch;
        for process in exits {
            core.engine.exited(at, process, &mut finished);
        }
        match &mut core.switch {
            Some(switch) => switch.held.push((at, what, answer)),
            None => core.engine.submit(at, what, answer, &mut finished),
        }
        self.go_on(core, finished, &mut Vec::new());
    }

    /// Does what is due; then, with the lock let go, tells of it and answers.
    fn go_on(
        &self,
        mut core: MutexGuard<'_, Core>,
        mut finished: Vec<Finished<Answer>>,
        buffer: &mut Vec<u8>,
    ) {
        let switched = self.step(&mut core, &mut finished);
        drop(core);
        if let Some(switched) = switched {
            match switched.outcome {
                Ok(()) => {
                    log(format_args!("the scheduler inside is {}", switched.name));
                    self.set_above(switched.name, switched.answer);
                }
                Err(error) => {
                    log_access(format_args!("cannot write the state: {error}"));
                    switched.answer.fail(error.into());
                }
            }
        }
        self.answer(finished, buffer);
    }

    /// Lets the model do what is due, and sets the timer to what comes next; says what became of a switch.
    fn step(&self, core: &mut Core, finished: &mut Vec<Finished<Answer>>) -> Option<Switched> {
        let now = Time::ZERO + monotonic().saturating_sub(core.epoch);
        core.engine.advance(now, finished);
        let switched = self.switch_if_idle(core, now, finished);
        self.issue_below(core);
        for done in finished.iter() {
            core.ledger.record(Served {
                op: done.job.op,
                start: done.job.start,
                length: done.job.length,
                arrived: done.arrived,
                started: done.started,
                completed: done.completed,
                answered: now,
            });
        }
        let next = core.engine.next_event();
        if next.is_some() && next != core.armed {
            core.armed = next;
            let event = core.epoch + (next.unwrap_or(Time::MAX) - Time::ZERO);
            self.next_event.store(event.as_nanos(), Ordering::Relaxed);
            let sleep = event.saturating_sub(core.epoch + (now - Time::ZERO));
            let is_long = sleep >= LONG_SLEEP;
            let early = if is_long {
                core.rising.early
            } else {
                Nanos::ZERO
            };
            let alarm = event.saturating_sub(early);
            let lesson = if is_long { alarm.as_nanos() } else { 0 };
            self.alarm.store(lesson, Ordering::Relaxed);
            let setting = Itimerspec {
                it_interval: timespec(Nanos::ZERO),
                it_value: timespec(alarm),
            };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)
                .expect("our own timer takes any time");
        }
        switched
    }

    /// What the block layer has issued goes to what is below.
    fn issue_below(&self, core: &mut Core) {
        let Some(below) = self.below() else {
            return;
        };
        while let Some((command, accesses)) = core.engine.take_issued() {
            let data = accesses.into_iter().filter_map(Answer::data).cloned();
            below.order(Order {
                tag: command.tag,
                op: command.op,
                offset: command.start.as_u64() * SECTOR_BYTES,
                length: command.length.to_bytes().as_u64(),
                data: data.collect(),
            });
        }
    }

    fn answer(&self, finished: Vec<Finished<Answer>>, buffer: &mut Vec<u8>) {
        for done in finished {
            match done.error {
                Some(error) => done.token.fail(Errno::from_i32(error)),
                None => self.reply(done.token, buffer),
            }
        }
    }

    fn reply(&self, answer: Answer, buffer: &mut Vec<u8>) {
        match answer {
            Answer::Data(reply, offset, length) => {
                let Store::Backing(backing) = &self.store else {
                    unreachable!("data of ours are in a file of ours");
                };
                buffer.resize(length.max(buffer.len()), 0);
                match backing.read(offset, &mut buffer[..length]) {
                    Ok(()) => reply.data(&buffer[..length]),
                    Err(error) => {
                        log_access(format_args!(
                            "cannot read {length} bytes at {offset}: {error}"
                        ));
                        reply.error(error.into());
                    }
                }
            }
            Answer::Read(reply, data) => reply.data(below::lock(&data).bytes()),
            Answer::Written(reply, length) | Answer::Write(reply, length, _) => {
                reply.written(length);
            }
            Answer::Done(reply) => reply.ok(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        // A panic ends the server (see `server`), so a poisoned lock is never seen.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sectors that a range of bytes touches.
    fn job(&self, op: DiskOp, offset: u64, length: u64) -> Job {
        let end = (offset + length).min(self.size.as_u64());
        let first = offset / SECTOR_BYTES;
        Job {
            op,
            start: Sector::new(first),
            length: Sectors::new(end.div_ceil(SECTOR_BYTES) - first),
        }
    }

    pub(super) fn is_inside(&self, offset: u64, length: u64) -> bool {
        offset
            .checked_add(length)
            .is_some_and(|end| end <= self.size.as_u64())
    }
}

/// How much earlier than needed the clock is to wake up from a long sleep.
///
/// A processor that sleeps for long wakes up late: by microseconds on real hardware, by hundreds of
/// them on a virtual machine. So the clock rises early and passes what is left awake. How early is
/// learned from how late it was: a step up when that was not enough, a small step down when it was,
/// which settles where one sleep in fifty ends too late.
struct EarlyRising {
    early: Nanos,
}

impl EarlyRising {
    const LEAST: Nanos = Nanos::from_micros(10);
    const MOST: Nanos = Nanos::from_micros(500);
    const STEP_DOWN: Nanos = Nanos::new(500);
    const STEP_UP: Nanos = Nanos::new(49 * 500);

    fn learn(&mut self, late: Nanos) {
        let next = if late > self.early {
            self.early + EarlyRising::STEP_UP
        } else {
            self.early.saturating_sub(EarlyRising::STEP_DOWN)
        };
        self.early = next.clamp(EarlyRising::LEAST, EarlyRising::MOST);
    }
}

impl Default for EarlyRising {
    fn default() -> EarlyRising {
        EarlyRising {
            early: Nanos::from_micros(150),
        }
    }
}

#[expect(clippy::cast_possible_wrap, reason = "292 years fit")]
fn timespec(at: Nanos) -> Timespec {
    Timespec {
        tv_sec: (at.as_nanos() / 1_000_000_000) as i64,
        tv_nsec: (at.as_nanos() % 1_000_000_000) as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_rises_as_early_as_its_sleeps_end_late_but_for_one_in_fifty() {
        let mut rising = EarlyRising::default();
        for sleep in 0..20_000_u64 {
            // 30 to 79 µs late in turn, one sleep in a hundred by 5 ms
            let late = if sleep % 100 == 99 {
                5_000
            } else {
                30 + sleep * 7 % 50
            };
            rising.learn(Nanos::from_micros(late));
        }
        let early = rising.early.as_micros_f64();
        assert!((60.0..=110.0).contains(&early), "{early} µs");
    }

    #[test]
    fn the_clock_rises_early_within_bounds() {
        let mut rising = EarlyRising::default();
        (0..10_000).for_each(|_| rising.learn(Nanos::from_millis(9)));
        assert_eq!(rising.early, EarlyRising::MOST);
        (0..10_000).for_each(|_| rising.learn(Nanos::ZERO));
        assert_eq!(rising.early, EarlyRising::LEAST);
    }
}
