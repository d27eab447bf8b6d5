//! JSON that others may have written: read with a bound on memory, its numbers checked by the unit in their name.
//!
//! A record or the output of a command may be damaged, edited or made to harm. What is worked out of it relies on
//! lengths of time that a [`Duration`](std::time::Duration) can hold and on counts that can be added up: that is
//! decided here, once, before a value of ours is made of it. What a number means besides (an index, a probability) is
//! checked by the type that it belongs to.

use std::io::{self, BufRead, Read};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::clock::LATEST;
use crate::regular_file::open_to_read;

pub use crate::regular_file::too_large;

/// The longest line of JSON lines, bytes: some thousand workers with all their bins.
pub const LONGEST_LINE: u64 = 32 << 20;

/// The largest file of JSON, bytes. Typed values take up to five times as much memory.
pub const LARGEST_FILE: u64 = 512 << 20;

/// The largest output of another command, bytes: it is read as a whole.
pub const LARGEST_OUTPUT: u64 = 64 << 20;

/// The largest job file, script or parameter file, bytes.
pub const LARGEST_TEXT: u64 = 16 << 20;

/// About 30 years: what options of the command line take, too.
const MOST_SECONDS: f64 = 1e9;

/// Counts and bytes up to here can be added up by the dozen.
const LARGEST_COUNT: f64 = (1_u64 << 60) as f64;

/// Reads up to the next newline, which is kept; empty at the end.
///
/// # Errors
/// Reading fails, or the line is longer than [`LONGEST_LINE`] ([`io::ErrorKind::FileTooLarge`]).
pub fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<()> {
    line.clear();
    let read = reader.take(LONGEST_LINE + 1).read_until(b'\n', line)?;
    if read as u64 > LONGEST_LINE {
        return Err(too_large("a line", LONGEST_LINE));
    }
    Ok(())
}

/// Reads all that is left.
///
/// # Errors
/// Reading fails, it is no UTF-8, or more than `limit` bytes ([`io::ErrorKind::FileTooLarge`]).
pub fn read_all(reader: impl Read, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = reader.take(limit + 1).read_to_string(&mut text)?;
    if read as u64 > limit {
        return Err(too_large("it", limit));
    }
    Ok(text)
}

/// Reads a job file, a script or a file of parameters.
///
/// # Errors
/// Those of [`read_all`] with `LARGEST_TEXT`.
pub fn read_text(path: &Path) -> io::Result<String> {
    read_all(open_to_read(path)?, LARGEST_TEXT)
}

/// Checks every number of a JSON text, one value or several.
///
/// # Errors
/// The path of one that is out of range, its value and the range; or what is no JSON.
pub fn check_numbers(text: &str) -> Result<(), String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    values.try_for_each(|value| {
        let value = value.map_err(|error| cause(&error))?;
        check(&value, Unit::Amount).map_err(|why| why.trim_start_matches('.').to_owned())
    })
}

/// Checks the numbers of a value; says which, by the keys on the way to it.
fn check(value: &Value, unit: Unit) -> Result<(), String> {
    match value {
        Value::Null | Value::Bool(_) => Ok(()),
        Value::String(text) => match unit {
            Unit::Seconds { .. } | Unit::Nanoseconds => {
                Err(format!(" is {text:?}, and must be a number"))
            }
            Unit::Rate | Unit::Amount | Unit::Any => Ok(()),
        },
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            let (least, most) = unit.range();
            if (least..=most).contains(&number) {
                return Ok(());
            }
            let [number, least, most] = [number, least, most].map(shown);
            Err(format!(
                " is {number}, and must be between {least} and {most}"
            ))
        }
        Value::Array(values) => values.iter().try_for_each(|value| check(value, unit)),
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
            // What a load calls its own numbers is no unit of ours.
            let unit = match unit {
                Unit::Any => Unit::Any,
                _ => Unit::of(key),
            };
            check(value, unit).map_err(|why| format!(".{key}{why}"))
        }),
    }
}

/// Checks that a value is one that is read again as written: a line of a record that is not would cost all of it.
///
/// # Errors
/// Those of [`check_numbers`]; or a number that JSON does not have.
pub fn check_kept<T: Serialize + DeserializeOwned>(value: &T) -> Result<(), String> {
    let text = serde_json::to_string(value).map_err(|error| cause(&error))?;
    check_numbers(&text)?;
    let again: Result<T, _> = serde_json::from_str(&text);
    again.map(|_| ()).map_err(|error| cause(&error))
}

/// What serde says of a line, which is the first and only one for it.
pub fn cause(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((cause, _)) => format!("{cause}, at column {}", error.column()),
        None => text,
    }
}

/// What the name of a field says of its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Unit {
    /// A length of time, or a moment since 1970.
    Seconds {
        most: f64,
    },
    Nanoseconds,
    /// How many in a second, or a share: nothing is the least.
    Rate,
    /// How many, or how much.
    Amount,
    /// A number of the load's own, or one that only names something.
    Any,
}

impl Unit {
    fn of(key: &str) -> Unit {
        const FREE: [&str; 6] = [
            "seed",
            "numbers",
            "device",
            "inode",
            "created_ns",
            "diskseq",
        ];
        const RATES: [&str; 5] = [
            "iops",
            "fairness",
            "utilisation",
            "average_queue_length",
            "load_average",
        ];
        match key {
            _ if FREE.contains(&key) => Unit::Any,
            _ if key.ends_with("_per_s") || RATES.contains(&key) => Unit::Rate,
            _ if key.ends_with("_unix_s") => Unit::Seconds { most: LATEST },
            _ if key.ends_with("_s") => Unit::Seconds { most: MOST_SECONDS },
            _ if key.ends_with("_ns") || key.ends_with("_ns_per_io") => Unit::Nanoseconds,
            _ => Unit::Amount,
        }
    }

    /// The least and the most.
    fn range(self) -> (f64, f64) {
        match self {
            Unit::Seconds { most } => (0.0, most),
            Unit::Nanoseconds => (0.0, MOST_SECONDS * 1e9),
            Unit::Rate => (0.0, LARGEST_COUNT),
            Unit::Amount => (-LARGEST_COUNT, LARGEST_COUNT),
            Unit::Any => (f64::MIN, f64::MAX),
        }
    }
}

/// A number that a person can read.
fn shown(number: f64) -> String {
    if number.abs() < 1e12 {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_out_of_range_is_named_with_its_path() {
        for (text, words) in [
            (
                r#"{"plan":{"loads":[{"runtime_s":-1.0}]}}"#,
                "plan.loads.runtime_s is -1, and must be between 0 and 1000000000",
            ),
            (r#"{"a_ns":[[1,2],[1e19,1]]}"#, "a_ns is 1e19"),
            (r#"{"created_unix_s":1e12}"#, "created_unix_s is 1e12"),
            (r#"{"ios":18446744073709551615}"#, "ios is 1.8"),
            (r#"{"metrics":{"iops":-1}}"#, "metrics.iops is -1"),
            (r#"{"read_bytes_per_s":-0.5}"#, "read_bytes_per_s is -0.5"),
            (r#"{"cpu_ns_per_io":-7}"#, "cpu_ns_per_io is -7"),
            (
                r#"{"ramp_s":"NaN"}"#,
                "ramp_s is \"NaN\", and must be a number",
            ),
            (r#"{"a":1e999}"#, "number out of range"),
            ("{} {", "EOF while parsing"),
        ] {
            let error = check_numbers(text).unwrap_err();
            assert!(error.starts_with(words), "{text}: {error}");
        }
    }

    #[test]
    fn usual_numbers_pass_and_so_do_those_that_only_name() {
        for text in [
            r#"{"seed":18446744073709551615,"numbers":{"drift_s":-3.5}}"#,
            r#"{"elapsed_s":null,"slope":-0.1,"throughput_bytes_per_s":1e10}"#,
            r#"{"created_ns":1795254024000000000}"#,
            "{} {}",
        ] {
            assert_eq!(check_numbers(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn a_line_has_an_end() {
        let mut endless = io::BufReader::new(io::repeat(b'x'));
        let error = read_line(&mut endless, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "a line is larger than 32 MiB");
        let error = read_all(io::repeat(b'x'), LARGEST_OUTPUT).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 64 MiB");
    }
}
