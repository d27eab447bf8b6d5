//! What values of a model's file can be.

use std::fmt;

use iosched_sim::units::{Nanos, Sectors};

/// A value that cannot be.
#[derive(Debug)]
pub(super) struct Wrong {
    /// The key with its tables, as in `hdd.seek.table_ms`.
    pub(super) key: String,
    what: String,
}

impl Wrong {
    pub(super) fn new(key: &str, what: impl fmt::Display) -> Wrong {
        Wrong {
            key: key.to_owned(),
            what: what.to_string(),
        }
    }

    /// The same inside of a table.
    pub(super) fn within(self, table: &str) -> Wrong {
        Wrong {
            key: format!("{table}.{}", self.key),
            ..self
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key, self.what)
    }
}

/// What a drive of any kind has.
pub(super) struct Common {
    pub(super) capacity: Sectors,
    pub(super) queue_depth: usize,
    pub(super) write_cache: bool,
}

/// A length of time in milliseconds, up to a minute.
pub(super) fn time(key: &str, millis: f64) -> Result<Nanos, Wrong> {
    between(key, millis, 0.0, 60_000.0).map(Nanos::from_millis_f64)
}

/// Bytes per second.
pub(super) fn rate(key: &str, bytes_per_second: u64) -> Result<u64, Wrong> {
    count(key, bytes_per_second, 1000, 1 << 40)
}

/// A number within bounds.
pub(super) fn between(key: &str, value: f64, min: f64, max: f64) -> Result<f64, Wrong> {
    let bound = if value.is_nan() {
        "and that is no number".to_owned()
    } else if value < min {
        format!("and cannot be below {min}")
    } else if value > max {
        format!("and cannot be above {max}")
    } else {
        return Ok(value);
    };
    Err(Wrong::new(key, format!("is {value}, {bound}")))
}

/// A whole number within bounds.
pub(super) fn count<N: Ord + Copy + fmt::Display>(
    key: &str,
    value: N,
    min: N,
    max: N,
) -> Result<N, Wrong> {
    let bound = if value < min {
        format!("cannot be below {min}")
    } else if value > max {
        format!("cannot be above {max}")
    } else {
        return Ok(value);
    };
    Err(Wrong::new(key, format!("is {value}, and {bound}")))
}
