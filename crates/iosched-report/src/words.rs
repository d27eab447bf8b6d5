//! Words and numbers as every form of a report writes them: three digits that mean something, units
//! behind a space, lists as in a sentence.

use std::time::Duration;

use iosched_experiment::record::StopReason;

/// Why a run ended, in words.
pub fn stop_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Decided => "the answer is known",
        StopReason::RoundsSpent => "its rounds are spent",
        StopReason::TimeSpent => "its time is spent",
        StopReason::Disturbed => "others disturbed one trial too often",
        StopReason::Hopeless => "a decision within its budget had become too unlikely",
    }
}

/// A length of time for people: `45 s`, `3 min 20 s`, `2 h 5 min`.
pub fn span(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 10.0 && time.subsec_millis() != 0 {
        return format!("{seconds:.1} s");
    }
    let whole = time.as_secs() + u64::from(time.subsec_millis() >= 500);
    match (whole / 3600, whole % 3600 / 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, 0, _) => format!("{h} h"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// A run time in seconds, of three digits that mean something: `0.333 s`, `1.5 s`, `10 s`, `3600 s`.
pub(super) fn run_time(seconds: f64) -> String {
    let decimals = match seconds {
        _ if seconds < 1.0 => 3,
        _ if seconds < 10.0 => 2,
        _ if seconds < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{seconds:.decimals$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text} s")
}

/// `2 %`, `4.1 %`, `95 %`.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    let rounded = (value * 10.0).round() / 10.0;
    format!("{rounded} %")
}

/// A bound, rounded away from what it bounds: `4.1 %` for 0.0401.
pub(super) fn percent_up(share: f64) -> String {
    percent((share * 1000.0).ceil() / 1000.0)
}

/// A ratio with three significant digits: `1.62`, `0.954`, `12.3`.
pub fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "∞".into(),
        a if a >= 1000.0 => ">1000".into(),
        a if a >= 100.0 => format!("{value:.0}"),
        a if a >= 10.0 => format!("{value:.1}"),
        a if a >= 0.9995 => format!("{value:.2}"),
        a if a < 0.001 => "<0.001".into(),
        _ => format!("{value:.3}"),
    }
}

/// A bound of a ratio's interval: as [`number`], but never rounded to 1, so that one can read on which side
/// of it the interval lies.
pub(super) fn bound(value: f64) -> String {
    let text = number(value);
    let distance = (value - 1.0).abs();
    if text != "1.00" || distance < 1e-9 {
        return text;
    }
    let mut decimals = 3;
    while 10_f64.powi(-decimals) > distance {
        decimals += 1;
    }
    format!("{value:.*}", decimals.unsigned_abs() as usize)
}

/// A difference: `+1.20`, `-80.0`, `0`.
pub(super) fn signed(value: f64) -> String {
    let plus = if value > 0.0 { "+" } else { "" };
    format!("{plus}{}", significant(value))
}

/// A number with three significant digits: `1620`, `12.3`, `0.0153`, `1.53e-7`.
pub(super) fn significant(value: f64) -> String {
    // The mean of ones may be a little less than one.
    match value.abs() * (1.0 + 1e-12) {
        a if a >= 99.95 => format!("{value:.0}"),
        a if a >= 9.995 => format!("{value:.1}"),
        a if a >= 0.9995 => format!("{value:.2}"),
        a if a >= 0.1 => format!("{value:.3}"),
        a if a >= 0.01 => format!("{value:.4}"),
        a if a >= 0.001 => format!("{value:.5}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.2e}"),
    }
}

/// `563 kB/s`, `1.21 GB/s`.
pub fn rate(bytes_per_s: f64) -> String {
    scaled(
        bytes_per_s,
        &[(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")],
    )
}

/// An amount of data, or a distance on a disk: `1.39 TB`, `41.2 GB`, `640 MB`.
pub fn size(bytes: f64) -> String {
    scaled(
        bytes,
        &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")],
    )
}

/// A length of time to three digits: `12.3 s`, `600 ms`, `45.8 µs`.
pub fn time(ns: f64) -> String {
    scaled(ns, &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")])
}

/// A number in the largest of these units of which there is one, with what the rounding to three digits makes of it.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let is_one = |&&(size, _): &&(f64, &str)| value.abs() >= size * 0.9995;
    let unit = units.iter().find(is_one).or(units.last());
    let (size, name) = unit.copied().unwrap_or((1.0, ""));
    match value {
        0.0 => "0".to_owned(),
        _ => format!("{} {name}", significant(value / size)),
    }
}

pub(super) fn milliseconds(ns: f64) -> String {
    let ms = ns / 1e6;
    if ms < 0.0005 {
        "0".to_owned() // no zeros that look like a measurement
    } else if ms < 1.0 {
        format!("{ms:.3}")
    } else {
        significant(ms)
    }
}

pub(super) fn count(number: impl Into<Count>, thing: &str) -> String {
    let Count(number) = number.into();
    if number == 1 {
        format!("1 {thing}")
    } else {
        format!("{number} {thing}s")
    }
}

/// A whole number of any of the types that count things here.
pub(super) struct Count(u64);

impl From<u32> for Count {
    fn from(number: u32) -> Count {
        Count(u64::from(number))
    }
}

impl From<usize> for Count {
    fn from(number: usize) -> Count {
        Count(number as u64)
    }
}

/// A name as far as a label has room: what is longer than 60 characters ends in `…`.
pub(super) fn clipped(name: &str) -> String {
    if name.chars().count() <= 60 {
        return name.to_owned();
    }
    name.chars().take(59).chain(['…']).collect()
}

/// `a`, `a and b`, `a, b and c`.
pub fn enumerate<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

pub(super) fn enumerate_plain(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits_however_small() {
        let cases = [
            (1620.4, "1620"),
            (12.34, "12.3"),
            (1.234, "1.23"),
            (-0.4567, "-0.457"),
            (0.0153, "0.0153"),
            (0.00153, "0.00153"),
            (1.234e-5, "1.23e-5"),
            (0.0, "0"),
        ];
        for (value, shown) in cases {
            assert_eq!(significant(value), shown);
        }
    }

    #[test]
    fn numbers_have_three_digits_that_mean_something() {
        assert_eq!(number(1.6234), "1.62");
        assert_eq!(number(0.9541), "0.954");
        assert_eq!(number(123.4), "123");
        assert_eq!(percent(0.95), "95 %");
        assert_eq!(percent(0.041), "4.1 %");
        assert_eq!(percent_up(0.0401), "4.1 %");
        assert_eq!(rate(563_400.0), "563 kB/s");
        assert_eq!([time(6.004e8), time(999_999.0)], ["600 ms", "1.00 ms"]);
        assert_eq!(milliseconds(700.0), "0.001");
        assert_eq!(milliseconds(400.0), "0");
        assert_eq!(span(Duration::from_secs(200)), "3 min 20 s");
        assert_eq!(span(Duration::from_millis(1500)), "1.5 s");
    }

    #[test]
    fn a_bound_shows_on_which_side_of_one_it_lies() {
        assert_eq!(bound(1.0003), "1.0003");
        assert_eq!(bound(0.999_962), "0.99996");
        assert_eq!(bound(1.0), "1.00");
        assert_eq!(bound(1.0021), "1.002");
        assert_eq!(bound(f64::INFINITY), "∞");
    }

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        assert_eq!(enumerate(["a"].into_iter()), "a");
        assert_eq!(enumerate(["a", "b", "c"].into_iter()), "a, b and c");
    }
}
