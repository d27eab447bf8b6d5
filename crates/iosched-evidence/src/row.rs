//! What is kept of two arms of a record. Nothing in it names a machine, a person or a place: no host name, serial number,
//! world-wide name, path, user, command or text of a load.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;

use iosched_experiment::analysis::RESOLUTION;
use iosched_experiment::plan::MOST_ROUNDS;
use iosched_machine::visible;
use serde::{Serialize, Serializer};

/// A text that many rows share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Arc<str>);

impl<T: AsRef<str>> From<T> for Text {
    fn from(text: T) -> Text {
        Text(text.as_ref().into())
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// What the arms were measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A drive.
    Measured,
    /// A disk model under a real kernel.
    Emulated,
    /// A disk model in virtual time.
    Simulated,
}

impl Source {
    /// All of them.
    pub(crate) const ALL: [Source; 3] = [Source::Measured, Source::Emulated, Source::Simulated];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Source::Measured => "measured",
            Source::Emulated => "emulated",
            Source::Simulated => "simulated",
        }
    }

    /// The source of this name.
    pub(crate) fn from_name(name: &str) -> Option<Source> {
        Source::ALL.into_iter().find(|source| source.name() == name)
    }
}

/// Which latencies a p99 is of. All are counted in bins; what differs is what was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum P99Counted {
    /// Accesses that were completed within the trial: none that was still under way at its end.
    Completed,
    /// All accesses, also those that the load waited for after the end of its run time.
    All,
    /// Some trials' in one way, some in the other.
    Mixed,
    /// Transactions of a database.
    Transactions,
}

impl P99Counted {
    /// All of them.
    pub(crate) const ALL: [P99Counted; 4] = [
        P99Counted::Completed,
        P99Counted::All,
        P99Counted::Mixed,
        P99Counted::Transactions,
    ];

    /// As it is written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            P99Counted::Completed => "completed",
            P99Counted::All => "all",
            P99Counted::Mixed => "mixed",
            P99Counted::Transactions => "transactions",
        }
    }

    /// The one of this name.
    pub(crate) fn from_name(name: &str) -> Option<P99Counted> {
        P99Counted::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// Two arms of a record under one load. docs/evidence.md describes the columns.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    /// Which latencies p99 is of; none where it is not known, as in rows of schema 1.
    pub p99_counted: Option<P99Counted>,
    /// How many latencies the trial of the two arms has that has fewest.
    pub p99_count: Option<i32>,
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

    /// Its texts, in the order of the columns.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &Text> {
        [
            &self.record,
            &self.machine,
            &self.program,
            &self.model,
            &self.firmware,
            &self.transport,
            &self.kernel,
            &self.file_system,
            &self.load_class,
            &self.load,
            &self.fingerprint,
            &self.objective,
            &self.arm,
            &self.against,
        ]
        .into_iter()
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
        let run = |row: &Row| (row.source, row.rotational, row.is_virtual);
        let mut texts = self.texts().zip(other.texts());
        run(self) == run(other) && texts.by_ref().take(Row::COMMON_TEXTS).all(|(a, b)| a == b)
    }

    /// What differs from another row of the same record that can not differ, however much the record has grown.
    pub(crate) fn other_origin(&self, other: &Row) -> Option<&'static str> {
        let texts = |row: &'_ Row| {
            [
                ("machine", row.machine.clone()),
                ("model", row.model.clone()),
                ("firmware", row.firmware.clone()),
                ("transport", row.transport.clone()),
                ("kernel", row.kernel.clone()),
            ]
        };
        let mut texts = texts(self).into_iter().zip(texts(other));
        let of_text = texts.find(|(ours, theirs)| ours != theirs);
        let others = [
            ("source", self.source != other.source),
            // The same simulation is the same record whenever it runs.
            (
                "day",
                self.source != Source::Simulated && self.day != other.day,
            ),
            ("rotational", self.rotational != other.rotational),
            ("is_virtual", self.is_virtual != other.is_virtual),
        ];
        let of_other = others.into_iter().find(|(_, is_other)| *is_other);
        of_text
            .map(|((name, _), _)| name)
            .or(of_other.map(|(name, _)| name))
    }

    /// So many of its texts are those of the run.
    const COMMON_TEXTS: usize = 12;

    /// What it compares on what, whatever machine did: what is pooled with others of its kind at the narrowest level.
    pub(crate) fn kind(&self) -> impl Hash + use<'_> {
        let own_load = if *self.load_class == *OWN {
            &*self.fingerprint
        } else {
            ""
        };
        let load = (&self.load_class, own_load, &self.objective);
        let drive = (&self.model, &self.transport, self.rotational);
        (
            self.source,
            self.is_virtual,
            drive,
            load,
            self.series(),
            (&self.arm, &self.against),
        )
    }

    /// Whether it can be a row: nothing that follows has to expect another.
    ///
    /// # Errors
    /// The first column that cannot be so, with its value.
    pub(crate) fn check(&self) -> Result<(), String> {
        let texts = [
            ("record", &self.record, true),
            ("machine", &self.machine, true),
            ("program", &self.program, false),
            ("model", &self.model, false),
            ("firmware", &self.firmware, false),
            ("transport", &self.transport, true),
            ("kernel", &self.kernel, false),
            ("file_system", &self.file_system, false),
            ("load_class", &self.load_class, true),
            ("load", &self.load, true),
            ("fingerprint", &self.fingerprint, true),
            ("objective", &self.objective, true),
            ("arm", &self.arm, true),
            ("against", &self.against, true),
        ];
        for (name, text, is_needed) in texts {
            if text.len() > LONGEST_TEXT || (is_needed && text.is_empty()) {
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
            ("p99_count", self.p99_count.map(f64::from), 0.0..=1e10),
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
pub(crate) fn example() -> Row {
    Row {
        record: "0123456789abcdef0123456789abcdef".into(),
        machine: "0123456789abcdef".into(),
        source: Source::Measured,
        day: 20_782,
        program: "0.1.0".into(),
        model: "Samsung SSD 970 EVO Plus 1TB".into(),
        firmware: "2B2QEXM7".into(),
        transport: "nvme".into(),
        rotational: Some(false),
        is_virtual: false,
        queue_depth: Some(1023),
        kernel: "6.12.48".into(),
        file_system: "ext4".into(),
        load_class: "general".into(),
        load: "random-read".into(),
        fingerprint: "89abcdef01234567".into(),
        objective: "throughput".into(),
        arm: "kyber".into(),
        against: "none".into(),
        is_baseline: true,
        log_ratio: 0.1,
        standard_error: 0.02,
        rounds: 5,
        p99_ratio: Some(0.8),
        cpu_ratio: None,
        p99_counted: Some(P99Counted::Completed),
        p99_count: Some(24_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let cases: [(&str, Spoil); 16] = [
            ("standard_error is 0.0004, not within", |row| {
                row.standard_error = 0.0004; // five rounds tell 0.00045
            }),
            ("standard_error is 0.000001, not", |row| {
                (row.rounds, row.standard_error) = (100_000, 1e-6);
            }),
            ("standard_error is 2.1, not", |row| row.standard_error = 2.1),
            ("rounds is 100001, not", |row| row.rounds = 100_001),
            ("log_ratio is -13.8, not", |row| row.log_ratio = -13.8),
            ("log_ratio is 1e300, not", |row| row.log_ratio = 1e300),
            ("kernel is \"006.012\"", |row| row.kernel = "006.012".into()),
            ("standard_error is -0.1", |row| row.standard_error = -0.1),
            ("standard_error is 0,", |row| row.standard_error = 0.0),
            ("log_ratio is NaN", |row| row.log_ratio = f64::NAN),
            ("rounds is -3", |row| row.rounds = -3),
            ("day is -400", |row| row.day = -400),
            ("p99_ratio is -2", |row| row.p99_ratio = Some(-2.0)),
            ("kernel is \"six\"", |row| row.kernel = "six".into()),
            ("arm has 0 bytes", |row| row.arm = "".into()),
            ("none is compared with itself", |row| {
                row.arm = "none".into();
            }),
        ];
        for (expected, spoil) in cases {
            let mut row = example();
            spoil(&mut row);
            let error = row.check().unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
