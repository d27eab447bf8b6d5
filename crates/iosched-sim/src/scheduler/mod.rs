//! I/O schedulers: which request goes to the disk next.
//!
//! [`Scheduler`] is what the block layer asks, in virtual time: it never looks at a clock, and where
//! the kernel arms a timer it says when it wants to be called ([`Scheduler::next_timer`]). The method
//! names follow the kernel's elevator operations. [`schedulers`] lists what there is, [`build`] makes
//! one.

pub mod cfq;
pub mod deadline;
pub mod noop;

use crate::request::{Bio, ProcessId, RequestId, Requests};
use crate::units::{Nanos, Time};

/// Kernel settings on which rules in ticks depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// Ticks per second: 100, 250, 300 or 1000.
    pub hz: u32,
    /// What `queue/rotational` says.
    pub rotational: bool,
    /// How long before time zero a tick began: at most one tick.
    pub tick_phase: Nanos,
}

impl Default for Kernel {
    fn default() -> Kernel {
        Kernel {
            hz: 1000,
            rotational: true,
            tick_phase: Nanos::ZERO,
        }
    }
}

impl Kernel {
    /// The tick that a time lies in.
    pub fn tick(&self, time: Time) -> u64 {
        // No overflow for any run shorter than 500 years.
        let time = time + self.tick_phase;
        let (seconds, nanos) = (
            time.as_nanos() / 1_000_000_000,
            time.as_nanos() % 1_000_000_000,
        );
        seconds * u64::from(self.hz) + nanos * u64::from(self.hz) / 1_000_000_000
    }

    /// Milliseconds as a sysfs file takes them, in ticks (rounded up, as the kernel does).
    pub fn millis_to_ticks(&self, millis: u64) -> u64 {
        (millis * u64::from(self.hz)).div_ceil(1000)
    }

    /// Nanoseconds in a tick.
    pub fn tick_nanos(&self) -> u64 {
        1_000_000_000 / u64::from(self.hz)
    }
}

/// An I/O scheduler.
///
/// The life of a request: `prepare` when it is allocated, `insert`, perhaps merges, `dispatch`
/// returns it, `activate` when the driver looks at it, `completed`.
pub trait Scheduler: Send {
    /// Its name in the kernel.
    fn name(&self) -> &'static str;

    /// A request was allocated for a process: it may be bound to a queue now.
    fn prepare(&mut self, _now: Time, _requests: &Requests, _id: RequestId) {}

    /// Takes a request. True: run the queue at once.
    fn insert(&mut self, now: Time, requests: &Requests, id: RequestId) -> bool;

    /// Gives out the request that goes to the driver next. `None`: nothing is here, or it is better
    /// to wait; ask again at [`Scheduler::next_timer`], or after the next insert or completion.
    fn dispatch(&mut self, now: Time, requests: &Requests) -> Option<RequestId>;

    /// Gives out this request whatever the rules say: what a recording did in our place.
    fn dispatch_recorded(&mut self, now: Time, requests: &Requests, id: RequestId);

    /// The driver took the dispatched request up.
    fn activate(&mut self, _now: Time, _requests: &Requests, _id: RequestId) {}

    /// The disk is done with it.
    fn completed(&mut self, _now: Time, _requests: &Requests, _id: RequestId) {}

    /// A request that the bio would extend at its front.
    fn front_merge(&self, _requests: &Requests, _bio: &Bio) -> Option<RequestId> {
        None
    }

    /// May the bio become part of this request?
    fn allow_merge(&self, _requests: &Requests, _id: RequestId, _bio: &Bio) -> bool {
        true
    }

    /// May the second request become part of the first?
    fn allow_request_merge(&self, _first: RequestId, _second: RequestId) -> bool {
        true
    }

    /// The request before this one, in the order in which neighbours merge.
    fn former(&self, requests: &Requests, id: RequestId) -> Option<RequestId>;

    /// The request after this one, in the order in which neighbours merge.
    fn latter(&self, requests: &Requests, id: RequestId) -> Option<RequestId>;

    /// A bio extended this request at its front: `old_start` is where it began before.
    fn front_merged(
        &mut self,
        _now: Time,
        _requests: &Requests,
        _id: RequestId,
        _old_start: crate::units::Sector,
    ) {
    }

    /// `victim` became part of `survivor`. Both are still as they were when the scheduler last saw
    /// them, except that the survivor has grown.
    fn requests_merged(
        &mut self,
        now: Time,
        requests: &Requests,
        survivor: RequestId,
        victim: RequestId,
    );

    /// When it wants [`Scheduler::timer`] to be called.
    fn next_timer(&self) -> Option<Time> {
        None
    }

    /// Its timer fired.
    fn timer(&mut self, _now: Time, _requests: &Requests) {}

    /// True once after it asked for the queue to be run by a worker.
    fn take_kick(&mut self) -> bool {
        false
    }

    /// A process ended.
    fn process_exited(&mut self, _now: Time, _requests: &Requests, _process: ProcessId) {}

    /// Said of processes that are in a cgroup, before they submit anything: its number, from 1,
    /// and its weight. The other processes are in the root.
    fn join_group(&mut self, _process: ProcessId, _group: u32, _weight: u16) {}

    /// True if it holds requests.
    fn has_work(&self) -> bool;

    /// Its state in words, for those who want to know why.
    fn explain(&self, now: Time) -> String;

    /// A copy of it with everything that it knows.
    fn duplicate(&self) -> Box<dyn Scheduler>;
}

/// A tunable as the kernel shows it in `queue/iosched/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunableInfo {
    /// Its file's name.
    pub name: &'static str,
    /// Unit of its value, empty for counts and switches.
    pub unit: &'static str,
    /// Its value in a fresh kernel.
    pub default: i64,
    /// The least that it takes.
    pub min: i64,
    /// The most that it takes.
    pub max: i64,
}

/// A scheduler that [`build`] knows.
#[derive(Debug, Clone, Copy)]
pub struct SchedulerInfo {
    /// Its name in the kernel.
    pub name: &'static str,
    /// What it does, in half a line.
    pub summary: &'static str,
    /// Its tunables in the kernel's order.
    pub tunables: &'static [TunableInfo],
    /// State that can be given to it at the beginning, for following a recording.
    pub initial: &'static [TunableInfo],
    /// Its decisions depend on where ticks begin.
    pub uses_ticks: bool,
}

/// The schedulers that [`build`] knows.
pub fn schedulers() -> &'static [SchedulerInfo] {
    &[noop::INFO, deadline::INFO, cfq::INFO]
}

/// Names with values: tunables or initial state.
pub type Settings = Vec<(String, i64)>;

/// Why a scheduler cannot be built as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchedulerError {
    /// There is no such scheduler.
    #[error("no scheduler is called `{name}` here; there are: {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// The scheduler has no such tunable.
    #[error("{scheduler} has no {kind} `{name}`; it has: {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    NoSuchTunable {
        /// The scheduler.
        scheduler: &'static str,
        /// "tunable" or "initial value".
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// The value is out of range.
    #[error("{scheduler}: {name} cannot be {value}: it can be {min} to {max}")]
    OutOfRange {
        /// The scheduler.
        scheduler: &'static str,
        /// The tunable.
        name: &'static str,
        /// What was asked for.
        value: i64,
        /// The least that it takes.
        min: i64,
        /// The most that it takes.
        max: i64,
    },
    /// What was asked for is not of the form `name[:tunable=value,…]`.
    #[error("`{text}` is not of the form tunable=value with a whole number")]
    Syntax {
        /// The part that is not understood.
        text: String,
    },
}

/// A scheduler with what is to be set: `deadline:fifo_batch=1,front_merges=0`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SchedulerSpec {
    /// Name of the scheduler.
    pub name: String,
    /// Tunables that differ from the defaults.
    pub tunables: Settings,
}

impl SchedulerSpec {
    /// Reads `name[:tunable=value,…]`.
    pub fn parse(text: &str) -> Result<SchedulerSpec, SchedulerError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        Ok(SchedulerSpec {
            name: name.to_owned(),
            tunables: parse_settings(rest)?,
        })
    }
}

/// Reads `name=value,…`.
pub fn parse_settings(text: &str) -> Result<Settings, SchedulerError> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let syntax = || SchedulerError::Syntax {
                text: part.to_owned(),
            };
            let (name, value) = part.split_once('=').ok_or_else(syntax)?;
            Ok((
                name.trim().to_owned(),
                value.trim().parse().map_err(|_| syntax())?,
            ))
        })
        .collect()
}

/// What a scheduler is called in today's kernels and in those before 5.0.
pub fn info(name: &str) -> Result<&'static SchedulerInfo, SchedulerError> {
    schedulers()
        .iter()
        .find(|info| info.name == name)
        .ok_or_else(|| SchedulerError::Unknown {
            name: name.to_owned(),
            known: schedulers().iter().map(|info| info.name).collect(),
        })
}

/// Makes a scheduler with its tunables, as attached to a device at time zero.
pub fn build(
    spec: &SchedulerSpec,
    kernel: &Kernel,
    initial: &Settings,
) -> Result<Box<dyn Scheduler>, SchedulerError> {
    let info = info(&spec.name)?;
    let tunables = Values::new(info.name, "tunable", info.tunables, &spec.tunables)?;
    let initial = Values::new(info.name, "initial value", info.initial, initial)?;
    Ok(match info.name {
        "noop" => Box::new(noop::Noop::default()),
        "deadline" => Box::new(deadline::Deadline::new(&tunables, kernel)),
        "cfq" => Box::new(cfq::Cfq::new(&tunables, kernel, &initial)),
        listed => unreachable!("{listed} is listed and cannot be built"),
    })
}

/// Values by name, those not set at their defaults.
#[derive(Debug)]
pub(crate) struct Values {
    values: Vec<(&'static TunableInfo, i64, bool)>,
}

impl Values {
    fn new(
        scheduler: &'static str,
        kind: &'static str,
        known: &'static [TunableInfo],
        set: &Settings,
    ) -> Result<Values, SchedulerError> {
        let mut values: Vec<_> = known
            .iter()
            .map(|info| (info, info.default, false))
            .collect();
        for (name, value) in set {
            let found = values.iter_mut().find(|(info, _, _)| info.name == name);
            let Some((info, slot, given)) = found else {
                return Err(SchedulerError::NoSuchTunable {
                    scheduler,
                    kind,
                    name: name.clone(),
                    known: known.iter().map(|info| info.name).collect(),
                });
            };
            if *value < info.min || *value > info.max {
                return Err(SchedulerError::OutOfRange {
                    scheduler,
                    name: info.name,
                    value: *value,
                    min: info.min,
                    max: info.max,
                });
            }
            (*slot, *given) = (*value, true);
        }
        Ok(Values { values })
    }

    /// The value set, or the default.
    pub(crate) fn get(&self, name: &str) -> i64 {
        let found = self.values.iter().find(|(info, _, _)| info.name == name);
        found.expect("schedulers ask for their own tunables").1
    }

    /// The value set, if one was.
    pub(crate) fn given(&self, name: &str) -> Option<i64> {
        let found = self.values.iter().find(|(info, _, _)| info.name == name);
        found
            .filter(|(_, _, given)| *given)
            .map(|(_, value, _)| *value)
    }

    /// The value set, or the default, of one that cannot be negative.
    pub(crate) fn count(&self, name: &str) -> u64 {
        u64::try_from(self.get(name)).expect("its range begins at zero or above")
    }
}
