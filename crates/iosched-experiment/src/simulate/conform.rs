//! Recordings of a kernel's scheduler, followed by ours: files and folders in, one report for each.

use std::path::{Path, PathBuf};

use iosched_conform::multi_queue::Recording;
use iosched_conform::{
    Beside, Conformance, Exact, History, Settings, of_multi_queue, of_single_queue,
};
use iosched_machine::failure::Problem;
use iosched_sim::scheduler::{BlockLayer, Followed};
use iosched_sim::trace::ReadError;
use iosched_sim::units::Bytes;

use super::file::Lines;
use super::initial::Initial;
use super::recordings::{self, TUNABLES};
use super::settings::{self, SchedulerRequest};

/// What recordings look like, for whoever has something else.
const LOOKS: &str = "a recording has lines `time_us action rwbs sector nsectors pid comm owner`";

/// What is there is no recording that can be followed.
fn no_recording(path: &Path, what: &str) -> Problem {
    Problem::usage(format!("{} {what}", path.display())).hint(LOOKS)
}

fn empty_folder(path: &Path) -> Problem {
    no_recording(
        path,
        "holds no recording: no file below it is called or reads like one",
    )
}

/// The scheduler under which all of these were recorded, by what they say of themselves.
///
/// # Errors
/// They say nothing of it, or several; there is no recording, of which that is said first.
pub fn recorded_scheduler(paths: &[PathBuf]) -> Result<String, Problem> {
    let recorded = recordings::named_schedulers(paths)?;
    if let [one] = recorded.as_slice() {
        return Ok(one.clone());
    }
    if !recorded.is_empty() {
        let several = recorded.join(", ");
        let message = format!("the recordings are of several schedulers: {several}");
        let hint = "follow one folder at a time, or say --scheduler NAME";
        return Err(Problem::usage(message).hint(hint));
    }
    let (mut silent, mut other) = (None, None);
    for path in paths {
        let below: Vec<PathBuf> = recordings::below(path)?.into_iter().flatten().collect();
        if below.is_empty() {
            return Err(empty_folder(path));
        }
        let is_one = |path: &PathBuf| recordings::reads_like_one(path);
        let (mut ones, mut others) = below.into_iter().partition::<Vec<_>, _>(is_one);
        silent = silent.or(ones.pop());
        other = other.or(others.pop());
    }
    Err(match (silent, other) {
        (Some(path), _) => Problem::usage(format!(
            "the recording {} does not say under which scheduler it was made",
            path.display()
        ))
        .hint("say which: --scheduler mq-deadline"),
        (None, path) => no_recording(
            &path.unwrap_or_default(),
            "does not read like a recording: its first lines are no events",
        ),
    })
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
    mut result: impl FnMut(Result<Conformance, Problem>),
) -> Result<(), Problem> {
    let checked = settings::checked(wanted)?; // what is wrong with all of them is said once
    if let Some(initial) = initial {
        initial.check(&checked)?;
    }
    for path in paths {
        match recordings::below(path) {
            Err(error) => result(Err(error)),
            Ok(folders) if folders.is_empty() => {
                result(Err(empty_folder(path)));
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
    result: &mut impl FnMut(Result<Conformance, Problem>),
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

fn follow_one(
    recording: &Path,
    wanted: &SchedulerRequest,
    initial: &Initial,
    history: History<'_>,
) -> Result<(Conformance, Box<dyn Followed>), Problem> {
    let settings = settings_for(recording, wanted)?;
    let told = initial.of(recording);
    let history = History {
        before: history.before.filter(|_| !told.is_whole),
        ..history
    };
    let trace = recording.display().to_string();
    let outcome = match settings.info.facts.block_layer {
        BlockLayer::SingleQueue => {
            of_single_queue(&trace, &settings, &told, history, |follower| {
                each_line(recording, |line| follower.line(line))
            })?
        }
        BlockLayer::MultiQueue => {
            let lines = multi_queue(recording, &settings)?;
            let settings = match lines.version() {
                Some(version) => settings.on(version)?,
                None => settings,
            };
            of_multi_queue(&trace, &settings, &told, history, &lines)
        }
    };
    if outcome.0.report.decisions == 0 {
        let what = "holds no decision of a scheduler: no line of it is an issue (D)";
        return Err(no_recording(recording, what));
    }
    Ok(outcome)
}

/// Reads a recording of the multi-queue block layer.
fn multi_queue(path: &Path, settings: &Settings) -> Result<Recording, Problem> {
    let mut recording = Recording::default();
    each_line(path, |line| recording.line(line))?;
    recording.refine(&beside(path)?);
    if recording.is_single_queue() {
        let message = format!(
            "{} is a recording of the single-queue block layer, which has no {}",
            path.display(),
            settings.spec.name
        );
        return Err(Problem::usage(message).hint("follow it with noop, deadline or cfq"));
    }
    Ok(recording)
}

/// What files beside a recording tell: `NAME.start.gz` beside `NAME.txt.gz`.
fn beside(recording: &Path) -> Result<Beside, Problem> {
    let mut beside = Beside::default();
    for (exact, ending) in Exact::ALL {
        let Some(path) = recordings::sibling(recording, ending) else {
            continue;
        };
        let (mut lines, mut number) = (Lines::open(&path)?, 0);
        while let Some(line) = lines.next_line()? {
            number += 1;
            beside.line(exact, line).ok_or_else(|| {
                Problem::usage(format!(
                    "{}, line {number}: no whole numbers as beside a recording",
                    path.display()
                ))
                .hint("remove the file: the recording is followed without it, to the microsecond")
            })?;
        }
    }
    Ok(beside)
}

/// The settings, with what the recording says of its queue and the tunables that were recorded beside it.
fn settings_for(recording: &Path, wanted: &SchedulerRequest) -> Result<Settings, Problem> {
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
    let mut settings = settings::checked(&wanted)?;
    let said_max = said
        .max_sectors_kib
        .filter(|kib| (4..=1 << 20).contains(kib));
    if let Some(kib) = said_max.filter(|_| wanted.tunables.is_none()) {
        settings.limits.max_sectors = Bytes::from_kib(kib).to_sectors();
    }
    Ok(settings)
}

fn each_line(
    path: &Path,
    mut read: impl FnMut(&str) -> Result<(), ReadError>,
) -> Result<(), Problem> {
    let mut lines = Lines::open(path)?;
    while let Some(line) = lines.next_line()? {
        read(line).map_err(|cause| {
            Problem::usage(format!("{}, {cause}", path.display()))
                .hint(cause.cause.hint().unwrap_or(LOOKS))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut result = |followed: Result<Conformance, Problem>| {
            said = followed.unwrap_err().to_string();
        };
        follow_all(&[path], &wanted, None, &mut result).unwrap();
        assert!(said.contains("4.19"), "{said}");
    }
}
