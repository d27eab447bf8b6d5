//! The units in which numbers are shown: a factor from SI, and a name.

use iosched_experiment::objective::Objective;

/// A unit for showing a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unit {
    /// `MB/s`; empty for what has none.
    pub(super) name: &'static str,
    /// One of it, in the unit of the record (bytes per second, ns).
    pub(super) size: f64,
}

/// Millions of bytes per second.
pub(super) const MEGABYTES: Unit = Unit {
    name: "MB/s",
    size: 1e6,
};
/// Thousandths of a second.
pub(super) const MILLISECONDS: Unit = Unit {
    name: "ms",
    size: 1e6,
};
/// Millionths of a second.
pub(super) const MICROSECONDS: Unit = Unit {
    name: "µs",
    size: 1e3,
};
/// Seconds, as they are.
const SECONDS: Unit = Unit {
    name: "s",
    size: 1.0,
};
/// Hundredths, as they are.
const PERCENT: Unit = Unit {
    name: "%",
    size: 1.0,
};
/// A bare number.
pub(super) const NUMBER: Unit = Unit {
    name: "",
    size: 1.0,
};

impl Unit {
    /// The unit that an objective is shown in.
    pub(super) fn of(objective: Objective) -> Unit {
        match objective {
            Objective::Throughput => MEGABYTES,
            Objective::Iops
            | Objective::Fairness
            | Objective::Tps
            | Objective::NumberHigher
            | Objective::NumberLower => NUMBER,
            Objective::Time => SECONDS,
            Objective::Frames => PERCENT,
            Objective::Cpu => MICROSECONDS,
            Objective::Mean
            | Objective::P50
            | Objective::P99
            | Objective::P999
            | Objective::ReadMean
            | Objective::ReadP99 => MILLISECONDS,
        }
    }

    /// `throughput, MB/s`.
    pub(super) fn after(self, words: &str) -> String {
        if self.name.is_empty() {
            words.to_owned()
        } else {
            format!("{words}, {}", self.name)
        }
    }
}
