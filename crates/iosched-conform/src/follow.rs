//! One recording, from the state that it is said or found to begin with.

use std::convert::Infallible;

use iosched_facts::units::Nanos;
use iosched_sim::scheduler::{self, Followed, NamedValues};
use serde::{Deserialize, Serialize};

use super::Report;
use super::multi_queue::{self, Recording};
use super::phase::{best_phase, score};
use super::settings::Settings;
use super::single_queue::Follower;

/// What is told of the scheduler's state at the beginning of one recording.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// The values.
    pub state: NamedValues,
    /// Nothing else is carried over.
    pub is_whole: bool,
    /// It is told of this very recording, and holds on top of what is carried over.
    pub is_named: bool,
    /// How long before its time zero a tick began, or about so long.
    pub tick_phase: Option<Nanos>,
}

/// From which state a recording was followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartState {
    /// That of a scheduler that has seen nothing.
    #[default]
    Cold,
    /// The one that the recording before left.
    Carried,
    /// Told of (`--initial`), on top of what was carried.
    Told,
    /// The values in `start_values`, with which more agrees than without: what was before is not recorded.
    Found,
}

/// How well ours agrees with one recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conformance {
    /// The recording.
    pub trace: String,
    /// Our scheduler.
    pub scheduler: String,
    /// From which state it was followed.
    pub start_state: StartState,
    /// What was told or found of it, as `--initial` takes it.
    pub start_values: String,
    /// Share of decisions on which ours agrees; none of no decision.
    pub agreement: Option<f64>,
    /// The same of the decisions in which there was a choice.
    pub agreement_with_choice: Option<f64>,
    /// How long before the recording's clock was zero a tick began, where that matters.
    pub tick_phase_us: f64,
    /// The counts.
    #[serde(flatten)]
    pub report: Report,
}

impl Conformance {
    /// Of a scheduler that had seen nothing before; `trace` is what the recording is called.
    pub fn of(trace: &str, settings: &Settings, report: Report, tick_phase: Nanos) -> Conformance {
        let start = Start {
            state: StartState::Cold,
            values: NamedValues::new(),
        };
        Conformance::new(trace, settings, report, (tick_phase, start))
    }

    fn new(
        trace: &str,
        settings: &Settings,
        report: Report,
        (tick_phase, start): (Nanos, Start),
    ) -> Conformance {
        Conformance {
            trace: trace.to_owned(),
            scheduler: settings.spec.name.clone(),
            start_state: start.state,
            start_values: start.in_words(),
            agreement: report.agreement(),
            agreement_with_choice: report.agreement_with_choice(),
            tick_phase_us: tick_phase.as_micros_f64(),
            report,
        }
    }
}

/// What went before a recording.
#[derive(Clone, Copy)]
pub struct History<'a> {
    /// The scheduler as the recording before left it.
    pub before: Option<&'a dyn Followed>,
    /// Something that was not recorded may have made its state another one.
    pub may_be_other: bool,
}

/// What came out, and the scheduler's state after it.
type Outcome = (Conformance, Box<dyn Followed>);

/// The scheduler with the state that the recording before left, and with these values of it.
fn scheduler_with(
    before: Option<&dyn Followed>,
    settings: &Settings,
    state: &NamedValues,
) -> Box<dyn Followed> {
    let carried = before.and_then(|before| before.carried_over(&settings.kernel));
    let mut scheduler = carried.unwrap_or_else(|| settings.build());
    scheduler::tell(scheduler.as_mut(), state).expect("checked before");
    scheduler
}

/// From what a recording is followed.
struct Start {
    state: StartState,
    /// On top of what is carried.
    values: NamedValues,
}

impl Start {
    fn of(before: Option<&dyn Followed>, told: &Told) -> Start {
        // What is told of the first one holds for no other.
        let values = if before.is_none() || told.is_named {
            told.state.clone()
        } else {
            NamedValues::new()
        };
        let state = match before {
            _ if !values.is_empty() => StartState::Told,
            Some(_) => StartState::Carried,
            None => StartState::Cold,
        };
        Start { state, values }
    }

    fn found(values: NamedValues) -> Start {
        Start {
            state: StartState::Found,
            values,
        }
    }

    fn in_words(&self) -> String {
        let values = self.values.iter();
        let values: Vec<_> = values
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        values.join(",")
    }
}

/// Follows a recording of the single-queue block layer, from the state that the one before left. What was
/// before a recording may not have been recorded: where ours disagrees and nothing is told, the values of
/// its state that may have been others are looked for.
pub fn of_single_queue<E>(
    trace: &str,
    settings: &Settings,
    told: &Told,
    History {
        before,
        may_be_other,
    }: History<'_>,
    read: impl Fn(&mut Follower) -> Result<(), E>,
) -> Result<Outcome, E> {
    let follow = |state: &NamedValues| {
        best_phase(settings, |settings, _| {
            let depth = settings.queue_depth.unwrap_or(1);
            let scheduler = scheduler_with(before, settings, state);
            let mut follower = Follower::new(scheduler, settings.limits, depth);
            read(&mut follower)?;
            Ok(follower.finish())
        })
    };
    let start = Start::of(before, told);
    let ((report, left, phase), start) = from_best_start(start, may_be_other, follow)?;
    let conformance = Conformance::new(trace, settings, report, (phase, start));
    Ok((conformance, left))
}

/// What came of a recording, the scheduler's state after it, and where ticks began.
type Attempt = (Report, Box<dyn Followed>, Nanos);

/// Follows from this start. If nothing is told of the start, ours disagrees and something unrecorded may have come before,
/// the values of the scheduler's state that may be others are looked for.
fn from_best_start<E>(
    mut start: Start,
    may_be_other: bool,
    follow: impl Fn(&NamedValues) -> Result<Attempt, E>,
) -> Result<(Attempt, Start), E> {
    let mut best = follow(&start.values)?;
    if start.values.is_empty() && may_be_other {
        let first = best.0.first_position.unwrap_or_default();
        for guess in best.1.plausible_states(first) {
            if best.0.agreed == best.0.decisions {
                break;
            }
            let mut values = start.values.clone();
            values.retain(|(name, _)| *name != guess.0);
            values.push(guess);
            let tried = follow(&values)?;
            if score(&tried.0) > score(&best.0) {
                best = tried;
                start = Start::found(values);
            }
        }
    }
    Ok((best, start))
}

/// Follows a recording of the multi-queue block layer, from the state that the one before left. The settings are those of
/// the recorded kernel.
pub fn of_multi_queue(
    trace: &str,
    settings: &Settings,
    told: &Told,
    History {
        before,
        may_be_other,
    }: History<'_>,
    recording: &Recording,
) -> Outcome {
    let mut settings = settings.clone();
    let known_phase = recording.tick_phase(&settings.kernel);
    if let Some(phase) = known_phase.filter(|_| !settings.tick_phase_given) {
        settings.kernel.tick_phase = phase;
        settings.tick_phase_given = true;
    }
    if let Some(phase) = told.tick_phase.filter(|_| !settings.tick_phase_given) {
        settings.kernel.tick_phase = phase;
    }
    settings.kernel.monotonic_zero = recording.monotonic_zero();
    let mut device = recording.device();
    device.queue_depth = settings.queue_depth.unwrap_or(device.queue_depth);
    device.attachment = settings.attachment.unwrap_or(device.attachment);
    let follow = |state: &NamedValues| {
        best_phase(&settings, |settings, until| {
            Ok::<_, Infallible>(multi_queue::follow(
                until,
                recording,
                scheduler_with(before, settings, state),
                &settings.kernel,
                device,
            ))
        })
    };
    let may_be_other = may_be_other && before.is_some();
    let Ok(((report, left, phase), start)) =
        from_best_start(Start::of(before, told), may_be_other, follow);
    let conformance = Conformance::new(trace, &settings, report, (phase, start));
    (conformance, left)
}

#[cfg(test)]
pub(crate) mod tests {
    use iosched_facts::units::Time;
    use iosched_sim::disk::{self, ModelOptions};
    use iosched_sim::request::ProcessId;
    use iosched_sim::simulate::{BlockEvent, Setup, Tracer, run, write_line};
    use iosched_sim::workload::fio_job;

    use iosched_sim::block_layer::MergeLimits;
    use iosched_sim::scheduler::{Kernel, SchedulerSpec};

    use super::*;

    /// A scheduler with its tunables, in a kernel of so many ticks per second.
    pub(crate) fn settings(scheduler: &str, hz: u32) -> Settings {
        let spec = SchedulerSpec::parse(scheduler).unwrap();
        let kernel = spec.kernel(&Kernel {
            hz,
            ..Kernel::default()
        });
        Settings {
            info: scheduler::info(&spec.name).unwrap(),
            spec,
            kernel,
            initial: NamedValues::new(),
            limits: MergeLimits::default(),
            queue_depth: None,
            attachment: None,
            tick_phase_given: false,
        }
    }

    /// What a simulated run looks like in a kernel's recording, as text.
    #[derive(Default)]
    struct Text(String);

    impl Tracer for Text {
        fn happened(&mut self, event: &BlockEvent) {
            write_line(&mut self.0, Time::ZERO, event).unwrap();
        }

        fn exited(&mut self, _time: Time, _process: ProcessId, _name: &str) {}
    }

    #[test]
    fn where_ticks_began_in_a_recording_is_found() {
        // Requests expire often, in a kernel of 100 ticks per second whose ticks are not ours.
        let scheduler = "deadline:read_expire=90,write_expire=260,fifo_batch=4";
        let settings = settings(scheduler, 100);
        let kernel = Kernel {
            tick_phase: Nanos::from_micros(6_300),
            ..settings.kernel
        };
        let disk = disk::build("formula", &ModelOptions::default()).unwrap();
        let load = "[r]\nrw=randread\ndirect=1\nioengine=libaio\niodepth=8\n[w]\nrw=randwrite\ndirect=1\nioengine=libaio\niodepth=16\n";
        let jobs = fio_job::parse(load, disk.capacity()).unwrap();
        let recorded = scheduler::build(&settings.spec, &kernel, &Vec::new()).unwrap();
        let setup = Setup {
            queue_depth: 1,
            limits: settings.limits,
            seed: 3,
            until: Nanos::from_secs(12),
            ..Setup::new(recorded, disk, jobs)
        };
        let mut text = Text::default();
        run(setup, &mut text);
        let follow = |settings: &Settings| {
            // Of a scheduler that was attached for the recording.
            let history = History {
                before: None,
                may_be_other: false,
            };
            let read = |follower: &mut Follower| {
                text.0
                    .lines()
                    .try_for_each(|line| follower.line(line).map(drop))
            };
            let told = Told::default();
            of_single_queue("t", settings, &told, history, read)
                .unwrap()
                .0
        };
        let at_our_ticks = follow(&Settings {
            tick_phase_given: true,
            ..settings.clone()
        });
        assert!(
            at_our_ticks.report.agreed < at_our_ticks.report.decisions,
            "the phase must matter"
        );
        let found = follow(&settings);
        let phase = found.tick_phase_us;
        assert_eq!(found.report.agreed, found.report.decisions, "at {phase} µs");
        assert!((phase - 6_300.0).abs() < 1_500.0, "{phase} µs");
    }
}
