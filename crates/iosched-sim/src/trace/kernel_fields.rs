//! The fields of a line of a recording of a kernel's scheduler.

use super::error::Cause;
use crate::request::{IoPriority, PriorityClass};
use crate::units::{Nanos, Time};

/// Reads the fields of one line.
#[derive(Debug, Clone)]
pub(super) struct Fields {
    /// Number of the line, from 1.
    pub(super) line: u64,
    /// Where the recording's time zero lies on our clock.
    pub(super) zero: Nanos,
}

impl Fields {
    /// Microseconds with decimals, exactly.
    pub(super) fn time(&self, text: &str) -> Result<Time, Cause> {
        let bad = || Cause::bad("time", text.as_bytes(), "number of microseconds");
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let total = exact_micros(digits).ok_or_else(bad)?.as_nanos();
        let zero = self.zero.as_nanos();
        let time = if negative {
            zero.checked_sub(total)
        } else {
            zero.checked_add(total)
        };
        time.map(Time::from_nanos).ok_or_else(bad)
    }

    /// Seconds with up to nine decimals, exactly.
    pub(super) fn seconds(&self, text: &str) -> Result<Time, Cause> {
        let bad = || Cause::bad("time", text.as_bytes(), "number of seconds");
        let (seconds, decimals) = text.split_once('.').unwrap_or((text, ""));
        let digits = decimals.len();
        let all_digits = decimals.bytes().all(|byte| byte.is_ascii_digit());
        let seconds: u64 = seconds.parse().map_err(|_| bad())?;
        let nanos = format!("{decimals:0<9}").parse::<u64>();
        let nanos = nanos.ok().filter(|_| digits <= 9 && all_digits);
        let total = seconds.checked_mul(1_000_000_000).zip(nanos);
        let total = total.and_then(|(seconds, nanos)| seconds.checked_add(nanos));
        let time = total.and_then(|total| self.zero.as_nanos().checked_add(total));
        time.map(Time::from_nanos).ok_or_else(bad)
    }
}

/// Microseconds with decimals, of which the first three count.
pub(super) fn exact_micros(digits: &str) -> Option<Nanos> {
    let (micros, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let number = |text: &str| -> Option<u64> {
        let only_digits = text.bytes().all(|byte| byte.is_ascii_digit());
        only_digits.then(|| text.parse().ok()).flatten()
    };
    let decimals = format!("{:0<3}", decimals.get(..decimals.len().min(3))?);
    let nanos = number(micros)?.checked_mul(1000)?;
    nanos.checked_add(number(&decimals)?).map(Nanos::new)
}

/// `class/level`, the class as a number or by name; class 0 takes its level from the nice value,
/// which is 0 here.
pub(super) fn priority(text: &str) -> Option<IoPriority> {
    let (class, level) = text.split_once('/')?;
    let level = level.parse().ok().filter(|&level| level < 8)?;
    Some(match class {
        "0" | "none" => IoPriority::default(),
        "1" | "rt" => IoPriority {
            class: PriorityClass::RealTime,
            level,
        },
        "2" | "be" => IoPriority {
            class: PriorityClass::BestEffort,
            level,
        },
        "3" | "idle" => IoPriority {
            class: PriorityClass::Idle,
            level: 7,
        },
        _ => return None,
    })
}
