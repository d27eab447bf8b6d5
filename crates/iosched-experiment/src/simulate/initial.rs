//! The state with which recordings are said to begin: what a scheduler learnt before cannot be seen in
//! them.
//!
//! `name=value,…` holds for the first recording of each folder, `RECORDING:name=value,…` for the one of
//! this name, on top of what is carried over to it; several stand behind one another with semicolons. A
//! file tells of whole states by recording (`FOLDER/NAME`): what it names begins with that and nothing else.
//! Where nothing is said, `start_states.json` above a folder with recordings of bfq is such a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use iosched_conform::{Settings, Told};
use iosched_facts::Problem;
use iosched_machine::foreign;
use iosched_sim::scheduler::{self, NamedValues, parse_settings};
use iosched_sim::units::Nanos;
use serde::Deserialize;

use super::recordings;

/// States of all recordings below a folder.
const START_STATES: &str = "start_states.json";

/// State of schedulers at the beginning of recordings, as the user gives it.
#[derive(Debug, Clone, Default)]
pub struct Initial {
    /// Of the first recording in each folder.
    first: NamedValues,
    /// By the name of the recording.
    named: BTreeMap<String, NamedValues>,
    /// By folder and name.
    whole: BTreeMap<String, State>,
}

/// A state as files tell it. Lengths are microseconds and sectors.
#[derive(Debug, Clone, Deserialize)]
struct State {
    hw_tag: i64,
    hw_samples: i64,
    max_in_driver: i64,
    budgets: i64,
    peak: i64,
    max_budget: i64,
    last_position: i64,
    rate: Observation,
    /// By class, weights of queues without a process, and how far they are ahead.
    idle: Vec<(usize, Vec<(i64, i64)>)>,
    /// From the first bio to a tick.
    phase_us: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
struct Observation {
    samples: i64,
    sequential: i64,
    sectors: i64,
    largest: i64,
    interval_us: i64,
    lastcompl_minus_first_us: i64,
}

impl State {
    fn settings(&self) -> NamedValues {
        let rate = &self.rate;
        let numbers = [
            ("hw-tag", self.hw_tag),
            ("hw-samples", self.hw_samples),
            ("max-in-driver", self.max_in_driver),
            ("budgets", self.budgets),
            ("peak-rate", self.peak),
            ("max-budget", self.max_budget),
            ("last-position", self.last_position),
            ("rate-samples", rate.samples),
            ("rate-sequential", rate.sequential),
            ("rate-sectors", rate.sectors),
            ("rate-largest", rate.largest),
            ("rate-interval", rate.interval_us),
            ("rate-last-completion", rate.lastcompl_minus_first_us),
        ];
        let mut settings: NamedValues =
            numbers.map(|(name, value)| (name.to_owned(), value)).into();
        for (class, leftovers) in &self.idle {
            let class = ["rt", "be", "idle"]
                .get(*class)
                .copied()
                .unwrap_or("no-class");
            for (nth, &(weight, ahead)) in (1..).zip(leftovers) {
                settings.push((format!("{class}-weight-{nth}"), weight));
                settings.push((format!("{class}-ahead-{nth}"), ahead));
            }
        }
        settings
    }
}

impl Initial {
    /// Reads what is given: states, or the name of a file of them.
    pub fn parse(text: &str) -> Result<Initial, Problem> {
        if !text.contains('=') && !text.is_empty() {
            return Initial::read(Path::new(text));
        }
        let mut initial = Initial::default();
        for part in text.split(';').filter(|part| !part.is_empty()) {
            match part.split_once(':') {
                None => initial.first = parse_settings(part)?,
                Some((name, state)) => {
                    let name = name.trim().to_owned();
                    initial.named.insert(name, parse_settings(state)?);
                }
            }
        }
        Ok(initial)
    }

    /// What a file above a folder of recordings tells, if there is one and they are bfq's.
    pub(super) fn beside(recordings: &[PathBuf], settings: &Settings) -> Result<Initial, Problem> {
        let recording = recordings.first().and_then(|path| path.canonicalize().ok());
        let above = recording
            .as_deref()
            .and_then(|path| path.parent()?.parent());
        let file = above.map(|above| above.join(START_STATES));
        match file.filter(|file| settings.info.learns && file.symlink_metadata().is_ok()) {
            None => Ok(Initial::default()),
            Some(file) => {
                let initial = Initial::read(&file)?;
                initial.check(settings)?;
                Ok(initial)
            }
        }
    }

    fn read(path: &Path) -> Result<Initial, Problem> {
        let shown = path.display();
        let text = foreign::read_text(path).map_err(|cause| {
            Problem::usage(format!("cannot read {shown}: {cause}"))
                .hint("a state is given as name=value, or by recording in a file")
        })?;
        let whole = serde_json::from_str(&text).map_err(|cause| {
            Problem::usage(format!("{shown} tells no states by recording: {cause}"))
        })?;
        Ok(Initial {
            whole,
            ..Initial::default()
        })
    }

    /// Every state can be told to this scheduler.
    pub(super) fn check(&self, settings: &Settings) -> Result<(), Problem> {
        let whole = self.whole.values().map(State::settings);
        let told = [self.first.clone()].into_iter();
        for state in told.chain(self.named.values().cloned()).chain(whole) {
            scheduler::build(&settings.spec, &settings.kernel, &state)?;
        }
        Ok(())
    }

    /// What is told of this recording. What is told of the first one matters only if it is that.
    pub(super) fn of(&self, recording: &Path) -> Told {
        let name = recordings::load_name(recording);
        let folder = recording.canonicalize().ok();
        let folder = folder
            .as_deref()
            .and_then(Path::parent)
            .and_then(Path::file_name);
        let folder = folder.unwrap_or_default().to_string_lossy();
        if let Some(state) = self.whole.get(&format!("{folder}/{name}")) {
            return Told {
                state: state.settings(),
                is_whole: true,
                is_named: true,
                tick_phase: state.phase_us.map(before_zero),
            };
        }
        match self.named.get(name) {
            Some(state) => Told {
                state: state.clone(),
                is_named: true,
                ..Told::default()
            },
            None => Told {
                state: self.first.clone(),
                ..Told::default()
            },
        }
    }
}

/// The tick before the first bio, where one began so long after it: those recordings have 250 ticks per
/// second.
fn before_zero(after_us: u64) -> Nanos {
    const TICK_US: u64 = 4000;
    Nanos::from_micros((TICK_US - after_us % TICK_US) % TICK_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_told_of_the_first_recording_and_of_those_that_are_named() {
        let initial = Initial::parse("budgets=7;h_2seq:max-budget=12625,hw-tag=0").unwrap();
        let state = |path: &str| initial.of(Path::new(path)).state;
        assert_eq!(state("hdd1/a_rand4.txt.gz"), [("budgets".to_owned(), 7)]);
        let named = [("max-budget".to_owned(), 12_625), ("hw-tag".to_owned(), 0)];
        assert_eq!(state("hdd1/h_2seq.txt.gz"), named);
    }

    #[test]
    fn a_file_tells_whole_states_by_folder_and_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("states.json");
        let text = r#"{"hdd1/a": {"hw_tag": -1, "hw_samples": 0, "max_in_driver": 0, "budgets": 3,
            "peak": 9333, "max_budget": 16384, "last_position": 5, "rate": {"samples": 1,
            "sequential": 0, "sectors": 8, "largest": 8, "interval_us": 0,
            "lastcompl_minus_first_us": 9}, "idle": [[1, [[40, 77]]]], "phase_us": 1500}}"#;
        std::fs::write(&file, text).unwrap();
        std::fs::create_dir(dir.path().join("hdd1")).unwrap();
        let recording = dir.path().join("hdd1/a.txt.gz");
        std::fs::write(&recording, "").unwrap();
        let initial = Initial::parse(&file.display().to_string()).unwrap();
        let told = initial.of(&recording);
        assert!(told.is_whole && told.state.contains(&("be-ahead-1".to_owned(), 77)));
        assert_eq!(told.tick_phase, Some(Nanos::from_micros(2500)));
        assert!(!initial.of(Path::new("other.txt")).is_whole);
    }
}
