//! The plan of an experiment: arms × loads × rounds on a target, everything checked, nothing
//! touched yet.
//!
//! [`PlanRequest`] is what the user asked; [`Plan::new`] holds it against the machine and refuses what
//! cannot be done or could destroy something. The plan is all that a record needs to be resumed.

use std::path::PathBuf;
use std::time::Duration;

use iosched_machine::device::{GivenUp, find_file_system};
use iosched_machine::failure::{Problem, exit};
use iosched_machine::file_system;
use iosched_machine::host::Host;
use iosched_machine::visible;
use iosched_switch::{self as switch, Arm};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::interference::Tolerance;
use crate::load::fio_job::{JobTarget, TrialSettings};
use crate::load::simulated::SimulatedDisk;
use crate::load::{Load, LoadError, Spec};
use crate::objective::Objective;
use crate::trial::{Metrics, Slot, VoidReason};

mod budget;
mod disks;
mod error;
mod loads;
mod make;
mod own_disk;
mod served;
mod simulated;
mod target;
mod wanted;

pub use budget::Prospect;
pub(crate) use budget::{STEADY_SHARE, TRIAL_OVERHEAD};
pub use disks::disks_below;
pub use error::PlanError;
pub use own_disk::OwnDisk;
pub use served::{scheduler_for_own_disk, served_disks};
pub use wanted::{CommandOptions, PlanRequest, Steady};

/// Rounds after which a run gives up, where the user does not say.
pub const DEFAULT_MAX_ROUNDS: u32 = 30;

/// Rounds before the first verdict of a fixed design.
pub(crate) const MIN_FIXED_ROUNDS: u32 = 2;

/// The most rounds that a run may have.
pub const MOST_ROUNDS: u32 = 100_000;

/// The most arms of a run: what is worked out of them grows with the square.
const MOST_ARMS: usize = 1000;

/// The most loads of a run.
const MOST_LOADS: usize = 1000;

/// The most turns that an arm takes in a round of one load.
const MOST_TURNS: u32 = 1000;

/// The largest weight of a load.
const LARGEST_WEIGHT: f64 = 1e6;

/// How to decide, and when to give up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// The ratio of differences that the user does not care about: 1.02 for 2 %.
    pub margin: f64,
    /// Probability with which all intervals of a load hold together, 0.95.
    pub confidence: f64,
    /// Exactly so many rounds with classical intervals, instead of a race.
    pub fixed_rounds: Option<u32>,
    /// Rounds only count: what the arms did in one of them has nothing in common (of results that others made).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unpaired: bool,
    /// Rounds after which a race gives up.
    pub max_rounds: u32,
    /// Time that a run may take from its start until its last trial, over all sittings, s.
    pub time_budget_s: Option<f64>,
    /// What an arm must keep to be allowed to win: `throughput >= 0.95` of the baseline's.
    #[serde(default)]
    pub requirements: Vec<Requirement>,
    /// Up to what a trial counts that others disturb.
    #[serde(default)]
    pub tolerance: Tolerance,
}

/// A condition on the ratio of another metric to the baseline's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Requirement {
    /// The metric.
    pub objective: Objective,
    /// The least ratio, in terms of better: 0.95 allows 5 % worse.
    pub at_least: f64,
}

impl Rules {
    /// The budget of time, if there is one.
    pub fn time_budget(&self) -> Option<Duration> {
        self.time_budget_s.map(Duration::from_secs_f64)
    }
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            margin: 1.02,
            confidence: 0.95,
            fixed_rounds: None,
            is_unpaired: false,
            max_rounds: DEFAULT_MAX_ROUNDS,
            time_budget_s: None,
            requirements: Vec::new(),
            tolerance: Tolerance::default(),
        }
    }
}

/// An experiment, ready to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is measured.
    pub target: Target,
    /// What the user gave up, where the target is a raw device that is written. A resumed run may have
    /// been given up something else since: `Record::given_up`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<GivenUp>,
    /// The disk model and what is changed of it, if the target is an emulated disk that the run made for itself.
    #[serde(default)]
    pub emulated: Option<String>,
    /// What that disk is, where the user said more than that it be one: so it is made again to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_disk: Option<OwnDisk>,
    /// Kernel names of the disks whose scheduler is switched.
    pub disks: Vec<String>,
    /// What is compared.
    pub arms: Vec<Arm>,
    /// Index of the arm that the others are compared with.
    pub baseline: usize,
    /// Index of the arm that was active when we came, if it is one of them.
    pub active: Option<usize>,
    /// What each trial runs.
    pub loads: Vec<PlannedLoad>,
    /// How to decide.
    pub rules: Rules,
    /// Source of all chance.
    pub seed: u64,
    /// Time at the start of each trial that does not count, s.
    pub ramp_s: f64,
    /// Fill the whole raw device twice before anything else.
    #[serde(default)]
    pub precondition: bool,
    /// Record during each trial where requests spend their time ([`crate::split`]).
    #[serde(default)]
    pub split: bool,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Target {
    /// A block device or partition, used raw.
    Device {
        /// Kernel name.
        device: String,
        /// Node that the load opens.
        path: PathBuf,
        /// True if the loads write to it.
        writes: bool,
    },
    /// A directory: files of our own in a directory of our own, removed afterwards.
    Directory {
        /// As resolved.
        path: PathBuf,
        /// Kernel name of the device below the file system.
        device: String,
        /// Size of each worker's file.
        file_size: u64,
    },
    /// A block device or partition that gets a file system of our own for the run; then as a directory.
    FileSystem {
        /// Kernel name.
        device: String,
        /// What is made.
        file_system: file_system::FileSystemKind,
        /// Size of each worker's file.
        file_size: u64,
    },
    /// A disk model, in virtual time: no device is touched.
    Simulated(Box<SimulatedDisk>),
    /// An existing file, only read.
    File {
        /// As resolved.
        path: PathBuf,
        /// Kernel name of the device below the file system.
        device: String,
    },
}

impl Target {
    /// The type of the file system that the loads' files are on; none for a raw device, and where it is not known.
    pub fn file_system(&self, host: &Host) -> Option<String> {
        match self {
            Target::Directory { path, .. } | Target::File { path, .. } => {
                Some(find_file_system(host, path).ok()?.fs_type)
            }
            Target::FileSystem { file_system, .. } => Some(file_system.name().to_owned()),
            Target::Device { .. } | Target::Simulated(_) => None,
        }
    }

    /// Why a directory or a file cannot be measured any more: it is gone, or something else is in its place.
    pub(crate) fn failed(&self) -> Option<String> {
        let (path, is_there) = match self {
            Target::Directory { path, .. } => (path, path.is_dir()),
            Target::File { path, .. } => (path, path.is_file()),
            Target::Device { .. } | Target::FileSystem { .. } | Target::Simulated(_) => {
                return None;
            }
        };
        (!is_there).then(|| {
            format!(
                "{} is gone, or something else is in its place",
                path.display()
            )
        })
    }
}

/// A load of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedLoad {
    /// Built-in name, or the job file's.
    pub name: String,
    /// Its share in the verdict over all loads.
    pub weight: f64,
    /// What decides.
    pub objective: Objective,
    /// What it is.
    #[serde(flatten)]
    pub spec: Spec,
    /// The name of its test in the sweep's log, where that is not the load's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// What was chosen for the user, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// True if it is there to show no difference, and has no say over all loads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_control: bool,
    /// How often each arm takes its turn in a round: what is short is repeated, arms in alternation.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub turns: u32,
    /// Run time of a trial, s; `None` leaves it to the job file.
    pub runtime_s: Option<f64>,
    /// How much of it the percentiles of latencies are of, s, so that they have nothing of what is under way at the end;
    /// `None`: they are of all accesses, also of those that end later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_s: Option<f64>,
    /// Of an older version: from the second round on its trials ran for as long as those before asked for; `runtime_s` is
    /// that of the first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_runtime_auto: bool,
    /// Its trials wait until it has become steady.
    #[serde(default)]
    pub wait_until_steady: bool,
}

impl PlannedLoad {
    /// What decides, in words that fit this load.
    pub fn measure(&self) -> &'static str {
        match (&self.spec, self.objective) {
            (Spec::DesktopStart(_) | Spec::SimulatedDesktop { .. }, Objective::Time) => {
                "time to start a program"
            }
            (Spec::Command(_), Objective::Time) => "time that the command takes",
            _ => self.objective.words(),
        }
    }
}

fn once() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_once(turns: &u32) -> bool {
    *turns == once()
}

impl Plan {
    /// The emulated disk of the run has another name now.
    pub fn move_to_disk(&mut self, name: &str) {
        self.disks = vec![name.to_owned()];
        match &mut self.target {
            Target::Device { device, path, .. } => {
                path.set_file_name(name);
                name.clone_into(device);
            }
            Target::FileSystem { device, .. } => name.clone_into(device),
            Target::Directory { .. } | Target::Simulated(_) | Target::File { .. } => {}
        }
    }

    /// The raw device that the run writes to, and what writes. What the loads say counts, and not the
    /// record, which may have been edited.
    pub(crate) fn writes_to(&self) -> Option<(&str, String)> {
        match &self.target {
            Target::Device { device, .. } => {
                Some((device, writer(&self.loads, self.precondition)?))
            }
            Target::FileSystem { device, .. } => Some((device, "--mkfs".to_owned())),
            Target::Directory { .. } | Target::Simulated(_) | Target::File { .. } => None,
        }
    }

    /// The same, if the user has to give the device up: a disk that the run made holds nothing of anybody's.
    pub fn destroys(&self) -> Option<(&str, String)> {
        self.writes_to().filter(|_| self.emulated.is_none())
    }

    /// Whether the directory or the file is still on the disk that it was on, with room for the loads, when a run goes
    /// on. (Whether a raw device may be written is asked by itself.)
    ///
    /// # Errors
    /// It is elsewhere, or cannot be used any more.
    pub fn check_target(&self, host: &Host) -> Result<(), PlanError> {
        target::check_again(host, &self.target, &self.loads)
    }

    /// True if schedulers of ours inside the disk are compared.
    pub fn is_served(&self) -> bool {
        self.arms.iter().any(Arm::is_served)
    }

    /// What was chosen for the user, and why, each once.
    pub fn notes(&self) -> Vec<&str> {
        let mut notes: Vec<&str> = self
            .loads
            .iter()
            .filter_map(|load| load.note.as_deref())
            .collect();
        notes.dedup();
        notes
    }

    /// What an arm is called: as the user wrote it, with a number where two are the same (A/A); in one line, though the
    /// plan may be of a record that somebody edited.
    pub fn arm_label(&self, arm: usize) -> String {
        let name = self.arms[arm].to_string();
        let name = visible::line(&name).into_owned();
        let same_before = self.arms[..arm]
            .iter()
            .filter(|a| **a == self.arms[arm])
            .count();
        if same_before == 0 {
            name
        } else {
            format!("{name}#{}", same_before + 1)
        }
    }

    /// What a run would find as soon as it sets each arm, as far as it can be known without setting one. Served arms were
    /// tried when the plan was made.
    ///
    /// # Errors
    /// The first arm that cannot be set.
    pub fn foresee(&self, host: &Host) -> Result<(), PlanError> {
        for disk in &self.disks {
            for arm in self.arms.iter().filter(|arm| !arm.is_served()) {
                switch::foresee(&host.sysfs(), disk, arm)?;
            }
        }
        Ok(())
    }

    /// The programs that the loads need, with their versions.
    ///
    /// # Errors
    /// One of them is missing.
    pub fn programs(&self) -> Result<Vec<String>, LoadError> {
        let mut programs = Vec::new();
        for load in &self.loads {
            programs.extend(load.open().programs()?);
        }
        programs.sort_unstable();
        programs.dedup();
        Ok(programs)
    }

    /// The most rounds that the run may take.
    pub fn rounds_at_most(&self) -> u32 {
        self.rules.fixed_rounds.unwrap_or(self.rules.max_rounds)
    }

    /// How long the load of one trial runs; `None` if only a trial can tell.
    pub fn trial_duration(&self, load: usize) -> Option<Duration> {
        let settings = self.trial_settings(load, 0, JobTarget::Path(String::new()));
        self.loads[load].open().duration(&settings)
    }

    /// How long a whole round takes with this many arms, the harness not counted; `None` if only
    /// trials can tell.
    pub fn round_duration(&self, arms: usize) -> Option<Duration> {
        let arms = u32::try_from(arms).unwrap_or(u32::MAX);
        (0..self.loads.len())
            .map(|load| Some(self.trial_duration(load)? * arms * self.loads[load].turns))
            .sum()
    }

    /// The order in which the arms take each of their turns: permutations drawn from the seed, the turn and the load, and
    /// nothing else; each second one is the reverse of the one before it. So two arms run as A B B A: both trials of a
    /// turn mostly follow the same arm, and what that left behind does not make them differ.
    pub fn order(&self, round: u32, load: usize, arms: &[usize]) -> Vec<Vec<usize>> {
        let turns = self.loads[load].turns;
        let first = round.saturating_mul(turns);
        let order = |turn: u32| {
            let mut order: Vec<usize> = (0..self.arms.len()).collect();
            order.shuffle(&mut self.stream(1, turn / 2, load));
            if turn % 2 == 1 {
                order.reverse();
            }
            order.retain(|arm| arms.contains(arm));
            order
        };
        (0..turns)
            .map(|turn| order(first.saturating_add(turn)))
            .collect()
    }

    /// What is put into the load's job file for the run, or the round, of this number, from which its seed is drawn.
    pub(crate) fn trial_settings(
        &self,
        load: usize,
        number: u32,
        place: JobTarget,
    ) -> TrialSettings {
        TrialSettings {
            place,
            runtime: self.loads[load].runtime_s.map(Duration::from_secs_f64),
            ramp: (self.ramp_s > 0.0).then(|| Duration::from_secs_f64(self.ramp_s)),
            counted: self.loads[load].counted_s.map(Duration::from_secs_f64),
            seed: u64::from(self.stream(2, number, load).next_u32()),
            shift: 0,
        }
    }

    /// A trial in which a missing or non-finite number decides is no measurement; neither is one that did nothing, or took no
    /// time. What a command counts may be 0.
    pub(crate) fn bad_metric(&self, slot: Slot, metrics: &Metrics) -> Option<VoidReason> {
        let decisive = self.loads[slot.load].objective;
        let required = self
            .rules
            .requirements
            .iter()
            .map(|requirement| requirement.objective);
        std::iter::once(decisive)
            .chain(required)
            .find_map(|objective| {
                let found = match objective.of(metrics) {
                    Some(value)
                        if value.is_finite() && (value > 0.0 || objective.may_be_zero()) =>
                    {
                        return None;
                    }
                    Some(value) => value.to_string(),
                    None => "missing".into(),
                };
                Some(VoidReason::BadMetric {
                    objective: objective.words().into(),
                    found,
                })
            })
    }

    /// True if there is such a load and such an arm.
    pub(crate) fn has_slot(&self, slot: Slot) -> bool {
        slot.load < self.loads.len() && slot.arm < self.arms.len()
    }

    /// True if a run may have so many rounds.
    pub(crate) fn may_have_rounds(rounds: u32) -> bool {
        (MIN_FIXED_ROUNDS..=MOST_ROUNDS).contains(&rounds)
    }

    /// Checks a plan that was read from a file, which may have been edited, or whose bounds were changed.
    ///
    /// # Errors
    /// What it may not be.
    pub fn check(&self) -> Result<(), PlanError> {
        check_rules(&self.rules)?;
        let out = |what, value: String, range| Err(error::out_of_range(what, &value, range));
        if !(2..=MOST_ARMS).contains(&self.arms.len()) || self.baseline >= self.arms.len() {
            return out(
                "the baseline",
                self.baseline.to_string(),
                "one of at least two arms, of 1000 at the most",
            );
        }
        if let Some(active) = self.active.filter(|&active| active >= self.arms.len()) {
            return out("the active arm", active.to_string(), "one of the arms");
        }
        if !(1..=MOST_LOADS).contains(&self.loads.len()) {
            let loads = self.loads.len().to_string();
            return out("the number of loads", loads, "1 to 1000");
        }
        if !is_seconds(self.ramp_s) {
            return out("ramp_s", self.ramp_s.to_string(), SECONDS);
        }
        self.loads.iter().try_for_each(PlannedLoad::check)?;
        if let Target::File { path, .. } = &self.target
            && let Some(what) = writer(&self.loads, self.precondition)
        {
            return Err(target::writes_to_file(&what, path));
        }
        Ok(())
    }

    /// Whether a run of an older version can go on with this one.
    ///
    /// # Errors
    /// A load is no more, or is run otherwise.
    pub fn check_can_go_on(&self) -> Result<(), Problem> {
        let refused = self.loads.iter().find_map(|load| {
            let name = visible::line(&load.name);
            if load.spec.is_retired() {
                return Some(format!(
                    "load {name}: this version does not run it any more"
                ));
            }
            let chosen =
                "its run time was chosen as the run went on, which this version does not do";
            load.is_runtime_auto
                .then(|| format!("load {name}: {chosen}"))
        });
        let hint = "`iosched report` still reads the record; start a new run for more trials";
        refused.map_or(Ok(()), |message| {
            Err(Problem::new(exit::BAD_RECORD, message).hint(hint))
        })
    }

    /// A source of chance of its own for each purpose, round and load.
    fn stream(&self, purpose: u64, round: u32, load: usize) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream((purpose << 56) | ((load as u64) << 32) | u64::from(round));
        rng
    }
}

impl PlannedLoad {
    fn check(&self) -> Result<(), PlanError> {
        self.spec.open(&self.name)?;
        let out = |what, value: String, range| Err(error::out_of_range(what, &value, range));
        if !(1..=MOST_TURNS).contains(&self.turns) {
            let turns = self.turns.to_string();
            return out("the turns of a load", turns, "1 to 1000");
        }
        if !(self.weight > 0.0 && self.weight <= LARGEST_WEIGHT) {
            let weight = self.weight.to_string();
            return out(
                "the weight of a load",
                weight,
                "above 0, and at most 1000000",
            );
        }
        if let Some(runtime) = self.runtime_s.filter(|&runtime| !is_seconds(runtime)) {
            return out("runtime_s of a load", runtime.to_string(), SECONDS);
        }
        if let Some(counted) = self.counted_s.filter(|&counted| !is_seconds(counted)) {
            return out("counted_s of a load", counted.to_string(), SECONDS);
        }
        Ok(())
    }

    /// The load itself.
    ///
    /// # Panics
    /// Never: what it is made of was checked when the plan was made or read.
    pub(crate) fn open(&self) -> Box<dyn Load> {
        self.spec
            .open(&self.name)
            .expect("the plan holds checked loads")
    }
}

/// What of a run writes to a raw device or to the file that is the target: a load, or the option that
/// fills the device.
fn writer(loads: &[PlannedLoad], precondition: bool) -> Option<String> {
    let load = loads.iter().find(|load| load.open().writes());
    load.map(|load| format!("load {}", load.name))
        .or(precondition.then(|| "--precondition".to_owned()))
}

fn check_rules(rules: &Rules) -> Result<(), PlanError> {
    let out = |what, value: String, range| Err(error::out_of_range(what, &value, range));
    if !(rules.margin > 1.0 && rules.margin <= 2.0) {
        let percent = ((rules.margin - 1.0) * 1e6).round() / 1e4;
        return out(
            "--margin",
            format!("{percent} %"),
            "above 0 % and at most 100 %",
        );
    }
    if !(0.5..1.0).contains(&rules.confidence) {
        return out(
            "--confidence",
            rules.confidence.to_string(),
            "at least 0.5 and below 1",
        );
    }
    let rounds = [
        ("--fixed-rounds", rules.fixed_rounds),
        ("--rounds", Some(rules.max_rounds)),
    ];
    for (what, rounds) in rounds {
        if let Some(rounds) = rounds.filter(|&rounds| !Plan::may_have_rounds(rounds)) {
            return out(what, rounds.to_string(), "at least 2 and at most 100000");
        }
    }
    if let Some(budget) = rules.time_budget_s.filter(|&budget| !is_seconds(budget)) {
        return out("--budget", format!("{budget} s"), SECONDS);
    }
    let mut requirements = rules.requirements.iter();
    let is_ratio = |ratio: f64| ratio > 0.0 && ratio.is_finite();
    if let Some(wrong) = requirements.find(|requirement| !is_ratio(requirement.at_least)) {
        let ratio = wrong.at_least.to_string();
        return out("what --require asks for", ratio, "a ratio above 0");
    }
    let mut required = rules.requirements.iter().map(|it| it.objective);
    if let Some(wrong) = required.find(|objective| objective.may_be_zero()) {
        let words = wrong.words().to_owned();
        return out("what --require asks for", words, "a metric that is never 0");
    }
    Ok(())
}

/// What [`is_seconds`] takes.
const SECONDS: &str = "0 to 1000000000 seconds";

/// A length of time up to some 30 years, which a [`Duration`] can hold many times over.
fn is_seconds(seconds: f64) -> bool {
    (0.0..=1e9).contains(&seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    const SLOT: Slot = Slot {
        load: 0,
        round: 0,
        arm: 0,
    };

    #[test]
    fn a_trial_without_a_positive_number_that_decides_is_no_measurement() {
        let plan = fixture::plan(2);
        let with = |throughput_bytes_per_s| Metrics {
            throughput_bytes_per_s,
            ..Metrics::default()
        };
        assert_eq!(plan.bad_metric(SLOT, &with(1.0)), None);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let reason = plan.bad_metric(SLOT, &with(bad));
            assert!(
                matches!(reason, Some(VoidReason::BadMetric { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_load_that_is_over_too_soon_is_said_to_be() {
        let mut plan = fixture::plan(2);
        plan.loads[0].objective = Objective::Time;
        let metrics = Metrics {
            elapsed_s: Some(0.0),
            ..Metrics::default()
        };
        let reason = plan.bad_metric(SLOT, &metrics).unwrap().to_string();
        assert_eq!(
            reason,
            "the load's elapsed time is 0, which is no measurement: it did nothing, or was over \
             within the tick of its clock"
        );
    }

    #[test]
    fn a_missing_number_is_named() {
        let mut plan = fixture::plan(2);
        plan.loads[0].objective = Objective::ReadP99;
        let reason = plan
            .bad_metric(SLOT, &Metrics::default())
            .unwrap()
            .to_string();
        assert_eq!(
            reason,
            "the load's p99 read latency is missing, which is no measurement"
        );
    }

    #[test]
    fn a_plan_that_was_edited_is_checked() {
        assert!(fixture::plan(2).check().is_ok());
        let edits: [fn(&mut Plan); 17] = [
            |plan| plan.baseline = 9,
            |plan| plan.active = Some(9),
            |plan| plan.ramp_s = 1e300,
            |plan| plan.ramp_s = f64::NAN,
            |plan| plan.rules.time_budget_s = Some(-1.0),
            |plan| plan.rules.max_rounds = u32::MAX,
            |plan| plan.loads[0].runtime_s = Some(1e20),
            |plan| plan.loads[0].counted_s = Some(-1.0),
            |plan| plan.loads[0].turns = u32::MAX,
            |plan| plan.loads[0].weight = 1e300,
            |plan| plan.rules.margin = 0.0,
            |plan| {
                plan.rules.requirements.push(Requirement {
                    objective: Objective::NumberLower,
                    at_least: 1.0,
                });
            },
            |plan| plan.rules.confidence = 1.5,
            |plan| plan.rules.fixed_rounds = Some(0),
            |plan| plan.loads[0].weight = -1.0,
            |plan| plan.loads[0].turns = 0,
            |plan| plan.loads[0].spec = Spec::JobFile("[a]\nioscheduler=bfq\n".into()),
        ];
        for edit in edits {
            let mut plan = fixture::plan(2);
            edit(&mut plan);
            assert!(plan.check().is_err(), "{plan:?}");
        }
    }
}
