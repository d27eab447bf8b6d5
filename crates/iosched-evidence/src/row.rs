//! What is kept of two arms of a record. Nothing in it names a machine, a person or a place: no host name, serial number,
//! world-wide name, path, user, command or text of a load.

use std::collections::HashSet;
use std::sync::Arc;

use iosched_experiment::analysis::RESOLUTION;
use iosched_experiment::plan::MOST_ROUNDS;
use iosched_machine::visible;
use serde::{Deserialize, Serialize};

/// A text that many rows share.
pub type Text = Arc<str>;

/// What the arms were measured on.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A drive.
    #[default]
    Measured,
    /// A disk model under a real kernel.
    Emulated,
    /// A disk model in virtual time.
    Simulated,
}

impl Source {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Source::Measured => "measured",
            Source::Emulated => "emulated",
            Source::Simulated => "simulated",
        }
    }
}

/// Two arms of a record under one load. results/fleet.md describes the columns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which record, by what only it has.
    pub record: Text,
    /// Which machine: the same within a dataset, and no name.
    pub machine: Text,
    /// What was measured on.
    pub source: Source,
    /// When the record was begun: days since 1970.
    pub day: i32,
    /// Version of the program that measured.
    pub program: Text,
    /// Model, as the device says it; empty where it says none.
    pub model: Text,
    /// Firmware; empty where it is not known.
    pub firmware: Text,
    /// How the drive is attached; `-` where it is not known.
    pub transport: Text,
    /// Whether it says that it rotates.
    pub rotational: Option<bool>,
    /// A hypervisor's disk.
    pub is_virtual: bool,
    /// Requests that it takes at once.
    pub queue_depth: Option<i32>,
    /// The kernel's version, its numbers alone; empty where no kernel took part.
    pub kernel: Text,
    /// The file system below the load; empty for a raw device.
    pub file_system: Text,
    /// What the load stands for; `own` for loads of one's own.
    pub load_class: Text,
    /// The load, if it is one of ours; otherwise `own`.
    pub load: Text,
    /// Tells loads apart: what they do, and for how long.
    pub fingerprint: Text,
    /// What decided.
    pub objective: Text,
    /// The arm.
    pub arm: Text,
    /// What it is compared with.
    pub against: Text,
    /// True if that is the record's baseline.
    pub is_baseline: bool,
    /// ln of how many times as good the arm is, by the objective.
    pub log_ratio: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Rounds in which both ran.
    pub rounds: i32,
    /// The arm's p99 latency / the other's.
    pub p99_ratio: Option<f64>,
    /// The arm's processor time per I/O / the other's.
    pub cpu_ratio: Option<f64>,
}

/// The load class of loads of one's own: they are shown, and advise nobody.
pub const OWN: &str = "own";

/// A ratio that may be seven times as large says nothing.
const LARGEST_ERROR: f64 = 2.0;

/// Texts are no longer than this.
pub(crate) const LONGEST_TEXT: usize = 200;

impl Row {
    /// The kernel's series: `6.12` of `6.12.48`; empty where no kernel took part.
    pub fn series(&self) -> &str {
        let second = self.kernel.match_indices('.').nth(1);
        second.map_or(&self.kernel, |(at, _)| &self.kernel[..at])
    }

    /// The class of its drive, which is the part of the dataset that it stands in.
    pub fn class(&self) -> String {
        super::drive::class(&self.transport, self.rotational, self.is_virtual)
    }

    /// Its texts by their columns: those of the run first, then the arms.
    fn texts(&self) -> [(&'static str, &Text); 14] {
        [
            ("record", &self.record),
            ("machine", &self.machine),
            ("program", &self.program),
            ("model", &self.model),
            ("firmware", &self.firmware),
            ("transport", &self.transport),
            ("kernel", &self.kernel),
            ("file_system", &self.file_system),
            ("load_class", &self.load_class),
            ("load", &self.load),
            ("fingerprint", &self.fingerprint),
            ("objective", &self.objective),
            ("arm", &self.arm),
            ("against", &self.against),
        ]
    }

    /// Takes the texts that rows before it had, too, in place of its own, and leaves it the others.
    pub(crate) fn share(&mut self, known: &mut HashSet<Text>) {
        let texts = [
            &mut self.record,
            &mut self.machine,
            &mut self.program,
            &mut self.model,
            &mut self.firmware,
            &mut self.transport,
            &mut self.kernel,
            &mut self.file_system,
            &mut self.load_class,
            &mut self.load,
            &mut self.fingerprint,
            &mut self.objective,
            &mut self.arm,
            &mut self.against,
        ];
        for text in texts {
            match known.get(text) {
                Some(shared) => *text = shared.clone(),
                None => _ = known.insert(text.clone()),
            }
        }
    }

    /// What is compared, whatever the numbers are: a record may be added again once it has more rounds.
    pub(crate) fn key(&self) -> (&str, &str, &str, &str, &str) {
        // Whichever way round it was written.
        let (arm, against): (&str, &str) = (&self.arm, &self.against);
        (
            &self.record,
            &self.fingerprint,
            &self.objective,
            arm.min(against),
            arm.max(against),
        )
    }

    /// Whether another was found by the same load in the same record: they differ in their arms alone.
    pub(crate) fn is_of_the_same_run(&self, other: &Row) -> bool {
        const TEXTS: usize = 12;
        let run = |row: &Row| (row.source, row.rotational, row.is_virtual);
        run(self) == run(other) && self.texts()[..TEXTS] == other.texts()[..TEXTS]
    }

    /// The column that differs from another row of the same record, and that can not, however much the record has grown.
    pub(crate) fn other_origin(&self, other: &Row) -> Option<&'static str> {
        // The same simulation is the same record whenever it runs.
        let is_day = self.source != Source::Simulated;
        let columns = [
            ("machine", self.machine == other.machine),
            ("model", self.model == other.model),
            ("firmware", self.firmware == other.firmware),
            ("transport", self.transport == other.transport),
            ("kernel", self.kernel == other.kernel),
            ("source", self.source == other.source),
            ("day", !is_day || self.day == other.day),
            ("rotational", self.rotational == other.rotational),
            ("is_virtual", self.is_virtual == other.is_virtual),
        ];
        let mut columns = columns.into_iter();
        columns.find_map(|(name, is_same)| (!is_same).then_some(name))
    }

    /// Whether it can be a row: nothing that follows has to expect another.
    ///
    /// # Errors
    /// The first column that cannot be so, with its value.
    pub(crate) fn check(&self) -> Result<(), String> {
        const MAY_BE_EMPTY: [&str; 5] = ["program", "model", "firmware", "kernel", "file_system"];
        for (name, text) in self.texts() {
            let is_missing = text.is_empty() && !MAY_BE_EMPTY.contains(&name);
            if text.len() > LONGEST_TEXT || is_missing {
                let shown: String = text.chars().take(40).collect();
                return Err(format!("{name} has {} bytes: {shown:?}", text.len()));
            }
            if visible::line(text) != **text {
                return Err(format!("{name} has what cannot be shown: {:?}", &**text));
            }
        }
        if !self
            .transport
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-')
        {
            return Err(format!("transport is {:?}", &*self.transport));
        }
        let wants_kernel = self.source != Source::Simulated;
        let is_release = numbers_of_release(&self.kernel).as_deref() == Some(&*self.kernel);
        if wants_kernel != is_release {
            return Err(format!("kernel is {:?}", &*self.kernel));
        }
        if self.arm == self.against {
            return Err(format!("{} is compared with itself", self.arm));
        }
        // As exactly as so many rounds can tell, with room for how numbers are rounded.
        let least_error = 0.98e6 * RESOLUTION / f64::from(self.rounds.max(1)).sqrt();
        let errors = least_error.floor() / 1e6..=LARGEST_ERROR;
        let numbers = [
            // A hundred thousand times as good: what is beyond that was measured in other units.
            ("log_ratio", Some(self.log_ratio), -11.6..=11.6),
            (
                "rounds",
                Some(f64::from(self.rounds)),
                2.0..=f64::from(MOST_ROUNDS),
            ),
            ("standard_error", Some(self.standard_error), errors),
            // The year 1990, and 2200.
            ("day", Some(f64::from(self.day)), 7305.0..=84_006.0),
            ("queue_depth", self.queue_depth.map(f64::from), 0.0..=1e9),
            ("p99_ratio", self.p99_ratio, 1e-9..=1e9),
            ("cpu_ratio", self.cpu_ratio, 1e-9..=1e9),
        ];
        for (name, value, range) in numbers {
            if value.is_some_and(|value| !range.contains(&value)) {
                let value = value.unwrap_or_default();
                let value = if value != 0.0 && !(1e-9..1e9).contains(&value.abs()) {
                    format!("{value:e}")
                } else {
                    value.to_string()
                };
                return Err(format!(
                    "{name} is {value}, not within {} to {}",
                    range.start(),
                    range.end()
                ));
            }
        }
        Ok(())
    }
}

/// The numbers that a kernel's release begins with, three at the most: what follows them may name who built it.
pub(crate) fn numbers_of_release(release: &str) -> Option<String> {
    let end = release.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let numbers = release[..end.unwrap_or(release.len())].trim_end_matches('.');
    let parts: Vec<&str> = numbers.split('.').take(3).collect();
    // `006.012` would be a series beside 6.12.
    let is_number = |part: &&str| part.parse::<u32>().is_ok_and(|it| it.to_string() == **part);
    let is_version = parts.len() > 1 && parts.iter().all(is_number);
    is_version.then(|| parts.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::example;

    #[test]
    fn a_comparison_is_the_same_whichever_arm_is_written_first() {
        let (row, mut swapped) = (example(), example());
        (swapped.arm, swapped.against) = (row.against.clone(), row.arm.clone());
        assert_eq!(row.key(), swapped.key());
        swapped.against = "bfq".into();
        assert_ne!(row.key(), swapped.key());
    }

    #[test]
    fn a_series_is_two_numbers_of_the_version() {
        for (kernel, series) in [
            ("6.12.48", "6.12"),
            ("6.12", "6.12"),
            ("3.10.0.1", "3.10"),
            ("", ""),
        ] {
            let row = Row {
                kernel: kernel.into(),
                ..example()
            };
            assert_eq!(row.series(), series);
        }
    }

    #[test]
    fn what_cannot_be_is_named_with_its_value() {
        type Spoil = fn(&mut Row);
        assert_eq!(example().check(), Ok(()));
        let cases: [(&str, Spoil); 10] = [
            ("standard_error is 0.0004, not within", |row| {
                row.standard_error = 0.0004; // five rounds tell 0.00045
            }),
            ("standard_error is 2.1, not", |row| row.standard_error = 2.1),
            ("rounds is 100001, not", |row| row.rounds = 100_001),
            ("log_ratio is -13.8, not", |row| row.log_ratio = -13.8),
            ("log_ratio is NaN", |row| row.log_ratio = f64::NAN),
            ("kernel is \"006.012\"", |row| row.kernel = "006.012".into()),
            ("day is -400", |row| row.day = -400),
            ("p99_ratio is -2", |row| row.p99_ratio = Some(-2.0)),
            ("arm has 0 bytes", |row| row.arm = "".into()),
            ("none is compared", |row| row.arm = "none".into()),
        ];
        for (expected, spoil) in cases {
            let mut row = example();
            spoil(&mut row);
            let error = row.check().unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
