//! Recordings of a kernel's scheduler, followed by ours: files and folders in, one report for each.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use iosched_machine::failure::{Failure, exit};
use iosched_sim::conform::Report;
use iosched_sim::conform::multi_queue::{self, Recording, Until};
use iosched_sim::conform::single_queue::Follower;
use iosched_sim::scheduler::{self, BlockLayer, Followed, NamedValues, PhaseSearch};
use iosched_sim::trace::kernel::TraceError;
use iosched_sim::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::file::{FileError, Lines};
use super::initial::{Initial, InitialError, InitialState};
use super::recordings::{self, TUNABLES};
use super::settings::{Checked, SchedulerRequest, SettingsError};

/// Why a recording cannot be followed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ConformError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}, {cause}", path.display())]
    Line { path: PathBuf, cause: TraceError },
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The state that recordings are said to begin with.
    #[error(transparent)]
    Initial(#[from] InitialError),
    /// The scheduler belongs to the other block layer.
    #[error(
        "{} is a recording of the single-queue block layer, which has no {scheduler}", path.display()
    )]
    SingleQueue { path: PathBuf, scheduler: String },
    #[error("{} holds no recording: no file below it is called or reads like one", path.display())]
    EmptyFolder { path: PathBuf },
    #[error("{} does not read like a recording: its first lines are no events", path.display())]
    NoRecording { path: PathBuf },
    #[error("{} holds no decision of a scheduler: no line of it is an issue (D)", path.display())]
    Empty { path: PathBuf },
    #[error("the recording {} does not say under which scheduler it was made", path.display())]
    Unnamed { path: PathBuf },
    #[error("the recordings are of several schedulers: {}", recorded.join(", "))]
    SeveralSchedulers { recorded: Vec<String> },
}

impl Failure for ConformError {
    iosched_machine::passes_on!(ConformError: File, Settings, Initial);

    fn hint(&self) -> Option<String> {
        match self {
            ConformError::File(file) => file.hint(),
            ConformError::Settings(settings) => settings.hint(),
            ConformError::Initial(initial) => initial.hint(),
            ConformError::Line {
                cause: TraceError::MultiQueue { .. },
                ..
            } => Some("follow it with one of these: `--scheduler mq-deadline`".to_owned()),
            ConformError::SingleQueue { .. } => {
                Some("follow it with noop, deadline or cfq".to_owned())
            }
            ConformError::Unnamed { .. } => Some("say which: --scheduler mq-deadline".to_owned()),
            ConformError::SeveralSchedulers { .. } => {
                Some("follow one folder at a time, or say --scheduler NAME".to_owned())
            }
            _ => Some(
                "a recording has lines `time_us action rwbs sector nsectors pid comm owner`"
                    .to_owned(),
            ),
        }
    }

    fn exit_code(&self) -> u8 {
        self.passes_on().map_or(exit::USAGE, Failure::exit_code)
    }
}

/// The scheduler under which all of these were recorded, by what they say of themselves.
///
/// # Errors
/// They say nothing of it, or several; there is no recording, of which that is said first.
pub fn recorded_scheduler(paths: &[PathBuf]) -> Result<String, ConformError> {
    let recorded = recordings::named_schedulers(paths)?;
    if let [one] = recorded.as_slice() {
        return Ok(one.clone());
    }
    if !recorded.is_empty() {
        return Err(ConformError::SeveralSchedulers { recorded });
    }
    let (mut silent, mut other) = (None, None);
    for path in paths {
        let below: Vec<PathBuf> = recordings::below(path)?.into_iter().flatten().collect();
        if below.is_empty() {
            return Err(ConformError::EmptyFolder { path: path.clone() });
        }
        let is_one = |path: &PathBuf| recordings::reads_like_one(path);
        let (mut ones, mut others) = below.into_iter().partition::<Vec<_>, _>(is_one);
        silent = silent.or(ones.pop());
        other = other.or(others.pop());
    }
    Err(match (silent, other) {
        (Some(path), _) => ConformError::Unnamed { path },
        (None, path) => ConformError::NoRecording {
            path: path.unwrap_or_default(),
        },
    })
}

/// A decision where ours differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disagreement {
    /// Time in the recording.
    pub time_us: f64,
    /// What was recorded.
    pub recorded: String,
    /// What ours wanted.
    pub ours: String,
    /// The state from which ours decided.
    pub why: String,
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
    #[serde(default)] // records of before said nothing of it
    pub start_state: StartState,
    /// What was told or found of it, as `--initial` takes it.
    #[serde(default)]
    pub start_values: String,
    /// Requests that the recorded scheduler dispatched.
    pub decisions: u64,
    /// Those that ours dispatched too.
    pub agreed: u64,
    /// Their share.
    pub agreement: f64,
    /// Those of them that were issued after the one that ours dispatched next: another processor held
    /// them.
    #[serde(default, alias = "overtaken")]
    // records of before said nothing of it, or named it so
    pub issued_out_of_order: u64,
    /// Those of them that were chosen while others that were chosen before still waited for a tag, by several
    /// processors at once (bfq, where the recording does not show choices).
    #[serde(default)]
    pub chosen_ahead: u64,
    /// Those that ours dispatched only as if the completions or the tick just before had come after it had
    /// begun to choose.
    #[serde(default)]
    pub interrupted: u64,
    /// Those that ours dispatched only as if a process that was through had ended a little earlier than is
    /// known (bfq).
    #[serde(default)]
    pub ended: u64,
    /// Moments where ours would have dispatched a request and the recorded one held back.
    pub eager: u64,
    /// Merges that one made and the other did not.
    pub merge_mismatches: u64,
    /// Events that do not fit what went before.
    pub unexplained: u64,
    /// Times that the recorded scheduler changed one of its depths (kyber).
    pub depth_changes: u64,
    /// Those that ours made too, in the same tick.
    pub depth_changes_agreed: u64,
    /// How long before the recording's clock was zero a tick began, where that matters.
    pub tick_phase_us: f64,
    /// The first disagreements.
    pub first_disagreements: Vec<Disagreement>,
}

impl Conformance {
    fn new(
        path: &Path,
        settings: &Checked,
        report: Report,
        (tick_phase, start): (Nanos, Start),
    ) -> Result<Conformance, ConformError> {
        if report.decisions == 0 {
            return Err(ConformError::Empty {
                path: path.to_owned(),
            });
        }
        let name = path.display().to_string();
        Ok(Conformance {
            start_state: start.state,
            start_values: start.in_words(),
            ..Conformance::of(&name, settings, report, tick_phase)
        })
    }

    /// The same of a recording that may be without decisions; `trace` is what it is called.
    pub(super) fn of(
        trace: &str,
        settings: &Checked,
        report: Report,
        tick_phase: Nanos,
    ) -> Conformance {
        let agreement = report.agreement();
        let disagreements = report
            .first_disagreements
            .into_iter()
            .map(|one| Disagreement {
                time_us: one.time_us,
                recorded: one.recorded,
                ours: one.ours,
                why: one.why,
            });
        Conformance {
            trace: trace.to_owned(),
            scheduler: settings.spec.name.clone(),
            start_state: StartState::Cold,
            start_values: String::new(),
            decisions: report.decisions,
            agreed: report.agreed,
            agreement,
            eager: report.eager,
            merge_mismatches: report.merge_mismatches,
            issued_out_of_order: report.issued_out_of_order,
            chosen_ahead: report.chosen_ahead,
            interrupted: report.interrupted,
            ended: report.ended,
            unexplained: report.unexplained,
            depth_changes: report.depth_changes,
            depth_changes_agreed: report.depth_changes_agreed,
            tick_phase_us: tick_phase.as_micros_f64(),
            first_disagreements: disagreements.collect(),
        }
    }
}

/// Follows recordings, and hands each result over as soon as it is there; one that cannot be
/// followed does not keep the others from it. Of a folder all recordings below it are followed, those
/// of one folder in the order of their workers' process numbers, if all say them, or else of their names: they were made one after the other, so that each begins with the state that
/// the one before left, or with what is told of it (`initial`; if nothing is, in `start_states.json` above
/// a folder with such). Tunables that are not given are taken from `tunables.txt` beside a recording, if
/// there is one.
pub fn follow_all(
    paths: &[PathBuf],
    wanted: &SchedulerRequest,
    initial: Option<&Initial>,
    mut result: impl FnMut(Result<Conformance, ConformError>),
) -> Result<(), ConformError> {
    let checked = Checked::new(wanted)?; // what is wrong with all of them is said once
    if let Some(initial) = initial {
        initial.check(&checked)?;
    }
    for path in paths {
        match recordings::below(path) {
            Err(error) => result(Err(error.into())),
            Ok(folders) if folders.is_empty() => {
                result(Err(ConformError::EmptyFolder { path: path.clone() }));
            }
            Ok(folders) => {
                for folder in folders.into_iter().map(recordings::in_order) {
                    let beside = match initial {
                        Some(_) => Initial::default(),
                        None => Initial::beside(&folder, &checked)?,
                    };
                    follow_folder(&folder, wanted, initial.unwrap_or(&beside), &mut result);
                }
            }
        }
    }
    Ok(())
}

/// Follows recordings that were made one after the other.
fn follow_folder(
    folder: &[PathBuf],
    wanted: &SchedulerRequest,
    initial: &Initial,
    result: &mut impl FnMut(Result<Conformance, ConformError>),
) {
    let (mut before, mut left) = (None, None);
    let mut previous = "";
    for recording in folder {
        let name = recordings::load_name(recording);
        if name != previous {
            // What is there twice, in two formats, was made once.
            before = left.take().or(before);
        }
        previous = name;
        let queue = recordings::queue_of(recording);
        let is_same = recordings::is_of(queue.as_ref(), &wanted.scheduler);
        // A scheduler that was attached for the recording knew of nothing before.
        let is_fresh = queue.is_some_and(|queue| queue.attached.is_some());
        let history = History {
            before: before.as_deref().filter(|_| !is_fresh),
            may_be_other: is_same && !is_fresh,
        };
        let followed = follow_one(recording, wanted, initial, history);
        if followed.is_err() || !is_same {
            before = None; // what it left is not known, or was left to another scheduler
        }
        result(followed.map(|(conformance, state)| {
            left = Some(state).filter(|_| is_same);
            conformance
        }));
    }
}

/// What went before a recording.
#[derive(Clone, Copy)]
struct History<'a> {
    /// The scheduler as the recording before left it.
    before: Option<&'a dyn Followed>,
    /// Something that was not recorded may have made its state another one.
    may_be_other: bool,
}

/// What came out, and the scheduler's state after it.
type Outcome = (Conformance, Box<dyn Followed>);

fn follow_one(
    recording: &Path,
    wanted: &SchedulerRequest,
    initial: &Initial,
    history: History<'_>,
) -> Result<Outcome, ConformError> {
    let settings = settings_for(recording, wanted)?;
    let told = initial.of(recording);
    let history = History {
        before: history.before.filter(|_| !told.is_whole),
        ..history
    };
    match settings.info.facts.block_layer {
        BlockLayer::SingleQueue => single_queue(recording, &settings, &told, history),
        BlockLayer::MultiQueue => multi_queue(recording, &settings, &told, history.before),
    }
}

/// The settings, with what the recording says of its queue and the tunables that were recorded beside it.
fn settings_for(recording: &Path, wanted: &SchedulerRequest) -> Result<Checked, ConformError> {
    let beside = recording.with_file_name(TUNABLES);
    // Whatever it is: what cannot be read is refused by its name.
    let beside = beside.symlink_metadata().is_ok().then_some(beside);
    let said = recordings::queue_of(recording).unwrap_or_default();
    let wanted = SchedulerRequest {
        tunables: wanted.tunables.clone().or(beside),
        hz: wanted.hz.or(said.hz),
        non_rotational: wanted.non_rotational || said.rotational == Some(false),
        ..wanted.clone()
    };
    let mut settings = Checked::new(&wanted)?;
    let said_max = said
        .max_sectors_kib
        .filter(|kib| (4..=1 << 20).contains(kib));
    if let Some(kib) = said_max.filter(|_| wanted.tunables.is_none()) {
        settings.limits.max_sectors = Bytes::from_kib(kib).to_sectors();
    }
    Ok(settings)
}

/// Follows with the settings at one phase of the ticks after the other.
///
/// Where ticks began in a recording is not recorded. A scheduler whose decisions depend on it is
/// given the one phase, the same for the whole recording, with which it agrees best: each expiry (and
/// each ask that the kernel repeats some ticks later) that lies near the edge of a tick rules out some phases, so that the count falls on both sides of the
/// true one, and narrowing in on it finds it.
pub(super) fn best_phase<T, E>(
    settings: &Checked,
    mut follow_at: impl FnMut(&Checked, Until) -> Result<(Report, T), E>,
) -> Result<(Report, T, Nanos), E> {
    if settings.info.phase_search == PhaseSearch::LongestAgreed {
        return phase_before_errors(settings, follow_at);
    }
    let mut settings = settings.clone();
    let mut best_phase = settings.kernel.tick_phase;
    let (mut best, mut state) = follow_at(&settings, Until::End)?;
    let search = settings.info.phase_search != PhaseSearch::Unneeded && !settings.tick_phase_given;
    let tick = settings.kernel.tick_nanos();
    let mut step = tick / STEPS;
    while search && score(&best) < (best.decisions, Reverse(0)) && step > FINEST {
        let from = best_phase.as_nanos() + tick - step * (STEPS / 2);
        for phase in (0..=STEPS).map(|index| (from + index * step) % tick) {
            settings.kernel.tick_phase = Nanos::new(phase);
            let (tried, left) = follow_at(&settings, Until::End)?;
            if score(&tried) > score(&best) {
                (best, state) = (tried, left);
                best_phase = settings.kernel.tick_phase;
            }
        }
        step /= STEPS / 4;
    }
    Ok((best, state, best_phase))
}

/// Where a tick began in a recording of bfq, before anything is tried: in those of Linux 6.1 that say
/// so (in messages), mostly some 2 ms before the first bio.
const USUAL_PHASE: Nanos = Nanos::from_millis(2);

/// Steps of the search for the phase of bfq's ticks, and how far each reaches to either side.
const BFQ_STEPS: [(u64, u64); 3] = [(100_000, u64::MAX), (20_000, 100_000), (3_000, 20_000)];

/// Where less agrees, it is no error of a few microseconds.
const ENOUGH: f64 = 0.99;

/// The same for bfq, whose soft real-time raises depend on the phase to 3 µs: after the first
/// disagreement its state is another one, so that the phase with the latest first one is taken. A
/// disagreement that no phase mends hides later ones from that search: where much is wrong all the
/// same, the phase is taken with which most of the recording agrees.
fn phase_before_errors<T, E>(
    settings: &Checked,
    mut follow_at: impl FnMut(&Checked, Until) -> Result<(Report, T), E>,
) -> Result<(Report, T, Nanos), E> {
    let mut settings = settings.clone();
    let tick = settings.kernel.tick_nanos();
    if settings.kernel.tick_phase == Nanos::ZERO && !settings.tick_phase_given {
        settings.kernel.tick_phase = Nanos::new(USUAL_PHASE.as_nanos() % tick);
    }
    let mut best_phase = settings.kernel.tick_phase;
    let (mut best, mut state) = follow_at(&settings, Until::End)?;
    if settings.tick_phase_given {
        return Ok((best, state, best_phase));
    }
    let mut right = until_wrong(&best);
    let usual_phase = best_phase;
    for (step, reach) in BFQ_STEPS {
        let reach = reach.min(tick / 2);
        let from = best_phase.as_nanos() + tick - reach;
        for index in 0..=2 * reach / step {
            if right == best.decisions {
                break;
            }
            settings.kernel.tick_phase = Nanos::new((from + index * step) % tick);
            let (tried, _) = follow_at(&settings, Until::Disagreement)?;
            if until_wrong(&tried) > right {
                right = until_wrong(&tried);
                best_phase = settings.kernel.tick_phase;
            }
        }
    }
    if best_phase != usual_phase {
        settings.kernel.tick_phase = best_phase;
        (best, state) = follow_at(&settings, Until::End)?;
    }
    let (coarse, _) = BFQ_STEPS[0];
    for phase in (0..tick).step_by(usize::try_from(coarse).unwrap_or(usize::MAX)) {
        if best.agreement() >= ENOUGH {
            break;
        }
        settings.kernel.tick_phase = Nanos::new(phase);
        let (tried, left) = follow_at(&settings, Until::End)?;
        if score(&tried) > score(&best) {
            (best, state) = (tried, left);
            best_phase = settings.kernel.tick_phase;
        }
    }
    Ok((best, state, best_phase))
}

/// Decisions that are right before the first that is not.
fn until_wrong(report: &Report) -> u64 {
    if report.first_disagreements.is_empty() {
        report.agreed
    } else {
        report.agreed_at_first
    }
}

/// Phases tried at once.
const STEPS: u64 = 32;

/// Recordings have times to this many nanoseconds.
const FINEST: u64 = 1000;

/// How well a phase fits: decisions first, then moments at which the kernel held back.
fn score(report: &Report) -> (u64, Reverse<u64>) {
    (report.agreed, Reverse(report.eager))
}

/// The scheduler with the state that the recording before left, and with these values of it.
fn scheduler_with(
    before: Option<&dyn Followed>,
    settings: &Checked,
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
    fn of(before: Option<&dyn Followed>, told: &InitialState) -> Start {
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
fn single_queue(
    path: &Path,
    settings: &Checked,
    told: &InitialState,
    History {
        before,
        may_be_other,
    }: History<'_>,
) -> Result<Outcome, ConformError> {
    let follow = |state: &NamedValues| {
        best_phase(settings, |settings, _| {
            let depth = settings.queue_depth.unwrap_or(1);
            let scheduler = scheduler_with(before, settings, state);
            let mut follower = Follower::new(scheduler, settings.limits, depth);
            each_line(path, |line| follower.line(line))?;
            Ok::<_, ConformError>(follower.finish())
        })
    };
    let mut start = Start::of(before, told);
    let (mut report, mut left, mut phase) = follow(&start.values)?;
    if start.values.is_empty() && may_be_other {
        let first = report.first_position.unwrap_or_default();
        for guess in left.plausible_states(first) {
            if report.agreed == report.decisions {
                break;
            }
            let mut values = start.values.clone();
            values.retain(|(name, _)| *name != guess.0);
            values.push(guess);
            let tried = follow(&values)?;
            if score(&tried.0) > score(&report) {
                (report, left, phase) = tried;
                start = Start::found(values);
            }
        }
    }
    let conformance = Conformance::new(path, settings, report, (phase, start))?;
    Ok((conformance, left))
}

/// Follows a recording of the multi-queue block layer, from the state that the one before left.
fn multi_queue(
    path: &Path,
    settings: &Checked,
    told: &InitialState,
    before: Option<&dyn Followed>,
) -> Result<Outcome, ConformError> {
    let mut recording = Recording::default();
    each_line(path, |line| recording.line(line))?;
    if recording.is_single_queue() {
        return Err(ConformError::SingleQueue {
            path: path.to_owned(),
            scheduler: settings.spec.name.clone(),
        });
    }
    let mut settings = match recording.version() {
        Some(version) => settings.on(version)?,
        None => settings.clone(),
    };
    let kernel = &mut settings.kernel;
    let known_phase = recording
        .tick_phase(kernel.hz)
        .filter(|_| !settings.tick_phase_given);
    if let Some(phase) = known_phase {
        kernel.tick_phase = phase;
        settings.tick_phase_given = true;
    }
    if let Some(phase) = told.tick_phase.filter(|_| !settings.tick_phase_given) {
        settings.kernel.tick_phase = phase;
    }
    let mut device = recording.device();
    device.queue_depth = settings.queue_depth.unwrap_or(device.queue_depth);
    device.attachment = settings.attachment.unwrap_or(device.attachment);
    let start = Start::of(before, told);
    let (report, left, phase) = best_phase(&settings, |settings, until| {
        Ok::<_, ConformError>(multi_queue::follow(
            until,
            &recording,
            scheduler_with(before, settings, &start.values),
            &settings.kernel,
            device,
        ))
    })?;
    let conformance = Conformance::new(path, &settings, report, (phase, start))?;
    Ok((conformance, left))
}

fn each_line(
    path: &Path,
    mut read: impl FnMut(&str) -> Result<(), TraceError>,
) -> Result<(), ConformError> {
    let mut lines = Lines::open(path)?;
    while let Some(line) = lines.next_line()? {
        read(line).map_err(|cause| ConformError::Line {
            path: path.to_owned(),
            cause,
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use iosched_sim::conform::Disagreement;
    use iosched_sim::disk::{self, ModelOptions};
    use iosched_sim::scheduler::{Kernel, SchedulerSpec, build};
    use iosched_sim::simulate::{Setup, run};
    use iosched_sim::workload::fio_job;

    use super::*;
    use crate::fixture::Recording;

    /// Of a scheduler that was attached for the recording.
    const NOTHING: History<'static> = History {
        before: None,
        may_be_other: false,
    };

    #[test]
    fn a_count_is_read_under_the_name_that_it_had_before() {
        let settings = Checked::new(&SchedulerRequest {
            scheduler: "none".into(),
            ..SchedulerRequest::default()
        });
        let report = Report {
            decisions: 10,
            issued_out_of_order: 3,
            ..Report::default()
        };
        let conformance = Conformance::of("t", &settings.unwrap(), report, Nanos::ZERO);
        let now = serde_json::to_string(&conformance).unwrap();
        let before = now.replace("issued_out_of_order", "overtaken");
        assert_ne!(now, before);
        for text in [now, before] {
            let read: Conformance = serde_json::from_str(&text).unwrap();
            assert_eq!(read.issued_out_of_order, 3);
        }
    }

    #[test]
    fn a_recording_of_a_kernel_that_is_older_than_the_scheduler_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old.txt");
        let text = "# Debian 4.19.40 blk-mq, scheduler=mq-deadline device=sda\n0 Q R 8 8 1 a a\n5 D R 8 8 1 a a\n";
        std::fs::write(&path, text).unwrap();
        let wanted = SchedulerRequest {
            scheduler: "mq-deadline".into(),
            ..SchedulerRequest::default()
        };
        let mut said = String::new();
        let mut result = |followed: Result<Conformance, ConformError>| {
            said = followed.unwrap_err().to_string();
        };
        follow_all(&[path], &wanted, None, &mut result).unwrap();
        assert!(said.contains("4.19"), "{said}");
    }

    #[test]
    fn what_no_phase_mends_does_not_hide_the_phase_of_bfq() {
        let settings = Checked::new(&SchedulerRequest {
            scheduler: "bfq".into(),
            hz: Some(250),
            ..SchedulerRequest::default()
        });
        let (report, (), phase) = best_phase(&settings.unwrap(), |settings, _| {
            let is_near = settings.kernel.tick_phase.as_nanos().abs_diff(1_300_000) < 100_000;
            let nothing = Disagreement {
                time_us: 0.0,
                recorded: String::new(),
                ours: String::new(),
                why: String::new(),
            };
            Ok::<_, ()>((
                Report {
                    decisions: 1000,
                    agreed: if is_near { 995 } else { 700 },
                    agreed_at_first: 10,
                    first_disagreements: vec![nothing],
                    ..Report::default()
                },
                (),
            ))
        })
        .unwrap();
        assert_eq!(report.agreed, 995, "at {phase:?}");
    }

    #[test]
    fn where_ticks_began_in_a_recording_is_found() {
        // Requests expire often, in a kernel of 100 ticks per second whose ticks are not ours.
        let scheduler = "deadline:read_expire=90,write_expire=260,fifo_batch=4";
        let phase = Nanos::from_micros(6_300);
        let kernel = Kernel {
            tick_phase: phase,
            hz: 100,
            ..Kernel::default()
        };
        let disk = disk::build("formula", &ModelOptions::default()).unwrap();
        let load = "[r]\nrw=randread\niodepth=8\n[w]\nrw=randwrite\niodepth=16\n";
        let settings = Checked::new(&SchedulerRequest {
            scheduler: scheduler.to_owned(),
            hz: Some(100),
            ..SchedulerRequest::default()
        });
        let settings = settings.unwrap();
        let spec = SchedulerSpec::parse(scheduler).unwrap();
        let jobs = fio_job::parse(load, disk.capacity()).unwrap();
        let setup = Setup {
            queue_depth: 1,
            limits: settings.limits,
            seed: 3,
            until: Nanos::from_secs(12),
            ..Setup::new(build(&spec, &kernel, &Vec::new()).unwrap(), disk, jobs)
        };
        let mut recorder = Recording::default();
        run(setup, &mut recorder);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("recording");
        std::fs::write(&path, recorder.0).unwrap();
        let mut at_our_ticks = settings.clone();
        at_our_ticks.tick_phase_given = true;
        let (at_our_ticks, _) =
            single_queue(&path, &at_our_ticks, &InitialState::default(), NOTHING).unwrap();
        assert!(
            at_our_ticks.agreed < at_our_ticks.decisions,
            "the phase must matter"
        );
        let (found, _) = single_queue(&path, &settings, &InitialState::default(), NOTHING).unwrap();
        assert_eq!(
            found.agreed, found.decisions,
            "at {} µs",
            found.tick_phase_us
        );
        assert!(
            (found.tick_phase_us - 6_300.0).abs() < 1_500.0,
            "{} µs",
            found.tick_phase_us
        );
    }
}
