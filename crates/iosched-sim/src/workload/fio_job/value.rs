//! Values of options: sizes, times, shares, lists of them.

use super::super::{Distribution, Rate, Sizes};
use crate::units::{Bytes, Nanos, Sectors};

/// A size in the file: bytes, or a share of the disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Size {
    Bytes(u64),
    Percent(u64),
}

impl Size {
    /// In whole 4 KiB blocks of a disk.
    pub(super) fn on(self, capacity: Sectors) -> Sectors {
        let bytes = match self {
            Size::Bytes(bytes) => bytes,
            Size::Percent(percent) => capacity.to_bytes().as_u64() / 100 * percent,
        };
        Bytes::new(bytes / 4096 * 4096).to_sectors()
    }
}

/// The largest size and time that is read, in bytes or nanoseconds.
const LARGEST: u64 = 1 << 62;

/// A size as fio takes it, in bytes: decimal, with a fraction or not, or hexadecimal; units are powers of 1024, with or
/// without `b` or `ib` behind the letter. What is no whole number of bytes is rounded up.
pub fn bytes(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    if let Some(hex) = lower.strip_prefix("0x") {
        let size = u64::from_str_radix(hex, 16).ok();
        return size.filter(|&size| size < LARGEST);
    }
    let number = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &lower[number.len()..] {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        "p" | "pb" | "pib" => 50,
        _ => return None,
    };
    scaled(number, 1 << shift)
}

/// A number, with a fraction or not, of so large units; rounded up.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole = whole.parse::<u64>().ok()?;
    // What stands behind the 18th digit is less than a byte or a nanosecond.
    let digits = u32::try_from(fraction.len())
        .ok()
        .filter(|&digits| digits <= 18)?;
    let fraction = u128::from(fraction.parse::<u64>().ok()?) * u128::from(unit);
    let fraction = u64::try_from(fraction.div_ceil(10_u128.pow(digits))).ok()?;
    let scaled = whole.checked_mul(unit)?.checked_add(fraction)?;
    (scaled < LARGEST).then_some(scaled)
}

pub(super) fn size(text: &str) -> Option<Size> {
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent = percent.parse().ok().filter(|&percent| percent <= 100);
            percent.map(Size::Percent)
        }
        None => bytes(text).map(Size::Bytes),
    }
}

/// A length of time as fio takes it; a bare number counts in `unit` nanoseconds.
pub fn time(text: &str, unit: u64) -> Option<Nanos> {
    let lower = text.to_ascii_lowercase();
    let number = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &lower[number.len()..] {
        "" => unit,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    let time = scaled(number, unit)?;
    (time < 1 << 60).then_some(Nanos::new(time))
}

pub(super) fn percent(text: &str) -> Option<u8> {
    let number = text.trim_end_matches('%').parse().ok();
    number.filter(|&percent| percent <= 100)
}

/// For reads and for writes: `both`, `reads,writes` or one of them left out (`,writes`).
pub(super) fn pair<T: Clone>(
    text: &str,
    before: [T; 2],
    one: impl Fn(&str) -> Option<T>,
) -> Option<[T; 2]> {
    let [reads, writes] = before;
    let mut parts = text.split(',');
    let (first, second) = (parts.next().unwrap_or(""), parts.next());
    let _trims = parts.next(); // there are none in a load
    if parts.next().is_some() {
        return None;
    }
    let read = match first {
        "" if second.is_some() => reads,
        text => one(text)?,
    };
    let write = match second {
        None => read.clone(),
        Some("") => writes,
        Some(text) => one(text)?,
    };
    Some([read, write])
}

/// The length of an access.
pub(super) fn block(text: &str) -> Option<Sectors> {
    let size =
        bytes(text).filter(|&size| size > 0 && size.is_multiple_of(512) && size <= 1 << 30)?;
    Some(Bytes::new(size).to_sectors())
}

/// `SIZE/PERCENT:SIZE/PERCENT:…`; those without a percentage share what is left.
pub(super) fn split(text: &str) -> Option<Sizes> {
    let parts = text.split(':').filter(|part| !part.is_empty());
    let parts: Option<Vec<(Sectors, Option<u8>)>> = parts
        .map(|part| {
            let (size, share) = part.split_once('/').unwrap_or((part, ""));
            let share = if share.is_empty() {
                None
            } else {
                Some(percent(share)?)
            };
            Some((block(size)?, share))
        })
        .collect();
    let parts = parts.filter(|parts| !parts.is_empty())?;
    let given: u32 = parts
        .iter()
        .filter_map(|&(_, share)| share)
        .map(u32::from)
        .sum();
    let left = u8::try_from(100_u32.checked_sub(given)?).ok()?;
    let without = parts.iter().filter(|(_, share)| share.is_none()).count();
    let each = left / u8::try_from(without.max(1)).ok()?;
    let shares: Vec<_> = parts
        .iter()
        .map(|&(size, share)| (size, share.unwrap_or(each)))
        .collect();
    Some(Sizes::split(&shares))
}

/// A rate in bytes per second.
pub(super) fn byte_rate(text: &str) -> Option<Rate> {
    bytes(text).filter(|&rate| rate > 0).map(Rate::Bytes)
}

/// A rate in accesses per second.
pub(super) fn access_rate(text: &str) -> Option<Rate> {
    let rate = text.parse().ok();
    rate.filter(|&rate| rate > 0 && rate <= 1 << 30)
        .map(Rate::Accesses)
}

/// `random`, `zipf:THETA`, `pareto:H`, `normal:DEVIATION`.
pub(super) fn distribution(text: &str) -> Option<Distribution> {
    let (name, parameter) = match text.split_once(':') {
        None => (text, None),
        Some((name, parameter)) => (name, Some(parameter.parse::<f64>().ok()?)),
    };
    // The defaults are fio's.
    let found = match (name, parameter) {
        ("random", None) => Distribution::Even,
        ("zipf", theta) => Distribution::Zipf {
            theta: theta.unwrap_or(1.1),
        },
        ("pareto", h) => Distribution::Pareto {
            h: h.unwrap_or(0.2),
        },
        ("normal", Some(deviation)) => Distribution::Normal { deviation },
        _ => return None,
    };
    let in_range = match found {
        Distribution::Even => true,
        Distribution::Zipf { theta } => theta > 0.0 && theta < 10.0 && (theta - 1.0).abs() > 1e-6,
        Distribution::Pareto { h } => h > 0.0 && h < 1.0,
        Distribution::Normal { deviation } => deviation > 0.0 && deviation <= 100.0,
    };
    in_range.then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_fio_takes_them_for() {
        let known = [
            ("4096", 4096),
            ("4k", 4096),
            ("4KiB", 4096),
            ("1.5g", 3 << 29),
            ("0.001k", 2),
            ("2p", 1 << 51),
            ("0x1b", 27),
            ("4b", 4),
        ];
        for (text, size) in known {
            assert_eq!(bytes(text), Some(size), "{text}");
        }
        let unknown = [
            "",
            "k",
            "4x",
            "-1",
            "1e3",
            "1.",
            ".5",
            "4096p",
            "0xg",
            "18446744073709551615",
        ];
        for text in unknown {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_what_fio_takes_them_for() {
        let known = [
            ("3", 3_000_000),
            ("3us", 3_000),
            ("3usec", 3_000),
            ("1.5ms", 1_500_000),
            ("2m", 120_000_000_000),
            ("2d", 172_800_000_000_000),
        ];
        for (text, nanos) in known {
            assert_eq!(time(text, 1_000_000), Some(Nanos::new(nanos)), "{text}");
        }
        for text in ["", "s", "3x", "-3", "100000d"] {
            assert_eq!(time(text, 1), None, "{text}");
        }
    }
}
