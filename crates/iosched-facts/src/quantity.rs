//! Sizes and times as people and fio job files write them: the one place that reads them, whether they come from a
//! command line, a policy, a load's settings or a job file.

use crate::units::Nanos;

/// The largest size and time that is read, in bytes or nanoseconds.
const LARGEST: u64 = 1 << 62;

/// A size in bytes: decimal, with a fraction or not, or hexadecimal; units are powers of 1024, with or
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
        "k" | "kb" | "ki" | "kib" => 10,
        "m" | "mb" | "mi" | "mib" => 20,
        "g" | "gb" | "gi" | "gib" => 30,
        "t" | "tb" | "ti" | "tib" => 40,
        "p" | "pb" | "pi" | "pib" => 50,
        _ => return None,
    };
    scaled(number, 1 << shift)
}

/// A length of time, of one part or several (`1h30m`); a bare number counts in `unit` nanoseconds.
pub fn time(text: &str, unit: u64) -> Option<Nanos> {
    let lower = text.to_ascii_lowercase();
    // Where a letter is followed by a digit, a part ends.
    let mut ends = lower.as_bytes().windows(2);
    let last = ends.rposition(|pair| pair[0].is_ascii_alphabetic() && pair[1].is_ascii_digit());
    let Some(last) = last else {
        return time_of_one(&lower, unit);
    };
    let (before, part) = lower.split_at(last + 1);
    let sum = time(before, unit)?.as_nanos() + time_of_one(part, unit)?.as_nanos();
    (sum < 1 << 60).then_some(Nanos::new(sum))
}

fn time_of_one(lower: &str, unit: u64) -> Option<Nanos> {
    let number = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &lower[number.len()..] {
        "" => unit,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    let time = scaled(number.trim_end(), unit)?;
    (time < 1 << 60).then_some(Nanos::new(time))
}

/// A number, with a fraction or not, of so large units; rounded up.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
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
            ("64Mi", 64 << 20),
        ];
        for (text, size) in known {
            assert_eq!(bytes(text), Some(size), "{text}");
        }
        let unknown = [
            "",
            "k",
            "4x",
            "-1",
            "+1",
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
            ("2 min", 120_000_000_000),
            ("2d", 172_800_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1s500ms", 1_500_000_000),
        ];
        for (text, nanos) in known {
            assert_eq!(time(text, 1_000_000), Some(Nanos::new(nanos)), "{text}");
        }
        for text in ["", "s", "3x", "-3", "100000d", "1h-3m", "1h3x"] {
            assert_eq!(time(text, 1), None, "{text}");
        }
    }
}
