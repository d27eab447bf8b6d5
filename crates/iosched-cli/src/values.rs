//! What options take as values: times, margins, lists of schedulers; and the schedulers that help names. (Sizes are read by
//! [`iosched_emulate::spec::parse_size`].)

use std::num::{IntErrorKind, ParseIntError};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser};
use iosched_facts::kernel::BlockLayer;
use iosched_facts::scheduler::{self, SchedulerFacts};
use iosched_report::words::enumerate;
use iosched_sim::quantity;

/// A copied tree, which is there: what a command remembers would make it else.
pub(crate) fn tree() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if path.is_dir() {
            Ok(path)
        } else {
            Err("there is no such directory")
        }
    })
}

/// The last line of a `-h` that leaves options out.
pub(crate) const MORE: &str = "More options, and examples: --help";

/// How many of something: a whole number from 1 on.
pub(crate) fn parse_count<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T, &'static str> {
    text.parse()
        .map_err(|error: ParseIntError| match error.kind() {
            IntErrorKind::PosOverflow => "that is too many",
            _ => "a whole number is wanted, 1 or more",
        })
}

/// A length of time: `90`, `90s`, `10m`, `1.5h`, `500ms`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Span(pub(crate) Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let time = quantity::time(text, 1_000_000_000).ok_or("a time looks like 90s, 10m or 2h")?;
        let time = Duration::from_nanos(time.as_nanos());
        if time.is_zero() || time.as_secs() >= 1_000_000_000 {
            return Err("a time must be above 0 and below 30 years".into());
        }
        Ok(Span(time))
    }
}

/// A length of time in µs: `250`, `250us`, `1.5ms`.
pub(crate) fn parse_micros(text: &str) -> Result<f64, String> {
    let time = quantity::time(text, 1_000).ok_or("a time looks like 250us or 1.5ms")?;
    Ok(time.as_micros_f64())
}

/// A percentage of differences, `2%` or `2`, as the ratio 1.02.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Margin(pub(crate) f64);

impl FromStr for Margin {
    type Err = String;

    fn from_str(text: &str) -> Result<Margin, String> {
        let (number, has_unit) = match text.strip_suffix('%') {
            Some(number) => (number.trim(), true),
            None => (text.trim(), false),
        };
        let percent: f64 = number
            .parse()
            .map_err(|_| "a margin looks like 2%".to_owned())?;
        if !has_unit && percent.abs() < 0.1 && percent != 0.0 {
            let ratio = percent * 100.0;
            return Err(format!("it may mean {percent}% or {ratio}%: write the %"));
        }
        Ok(Margin(1.0 + percent / 100.0))
    }
}

/// Splits `none,bfq:low_latency=0,slice_idle=0` into schedulers with their tunables: a piece with `=` and no `:` still
/// belongs to the arm before it.
pub(crate) fn split_arms(texts: &[String]) -> Vec<String> {
    let mut arms: Vec<String> = Vec::new();
    for text in texts {
        let mut is_first = true;
        for piece in text.split(',') {
            match arms.last_mut() {
                Some(arm) if !is_first && piece.contains('=') && !piece.contains(':') => {
                    arm.push(',');
                    arm.push_str(piece);
                }
                _ => arms.push(piece.to_owned()),
            }
            is_first = false;
        }
    }
    arms
}

/// The usual schedulers of which this is so, as help names them: a new one is there without an edit of the help.
pub(crate) fn schedulers_in_words(which: impl Fn(&SchedulerFacts) -> bool) -> String {
    let those = scheduler::usual().filter(|info| which(info));
    enumerate(those.map(|info| info.name))
}

/// True of the schedulers of today's block layer.
pub(crate) fn is_multi_queue(info: &SchedulerFacts) -> bool {
    info.block_layer == BlockLayer::MultiQueue
}

/// The ticks per second where nobody says others, as help names them.
pub(crate) fn usual_hz_in_words() -> String {
    format!(
        "{}; {}: {}",
        BlockLayer::SingleQueue.usual_hz(),
        schedulers_in_words(is_multi_queue),
        BlockLayer::MultiQueue.usual_hz()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_margins_are_read() {
        assert_eq!("10m".parse(), Ok(Span(Duration::from_secs(600))));
        assert_eq!("500ms".parse(), Ok(Span(Duration::from_millis(500))));
        assert_eq!("90".parse(), Ok(Span(Duration::from_secs(90))));
        assert_eq!("1.5h".parse(), Ok(Span(Duration::from_secs(5400))));
        assert_eq!("2 min".parse(), Ok(Span(Duration::from_secs(120))));
        assert!("ten".parse::<Span>().is_err() && "0".parse::<Span>().is_err());
        assert!("-1s".parse::<Span>().is_err() && "nan".parse::<Span>().is_err());
        assert_eq!("2%".parse(), Ok(Margin(1.02)));
        assert_eq!("0.5".parse(), Ok(Margin(1.005)));
        assert!("0.02".parse::<Margin>().is_err()); // 2 % or a fiftieth of one?
        assert_eq!("0.02%".parse(), Ok(Margin(1.0002)));
    }

    #[test]
    fn commas_split_arms_and_their_tunables_stay_with_them() {
        let split = |text: &str| split_arms(&[text.to_owned()]);
        assert_eq!(split("none,bfq"), ["none", "bfq"]);
        assert_eq!(
            split("none,bfq:low_latency=0,slice_idle=0,kyber"),
            ["none", "bfq:low_latency=0,slice_idle=0", "kyber"]
        );
        assert_eq!(
            split("bfq:a=1,mq-deadline:b=2"),
            ["bfq:a=1", "mq-deadline:b=2"]
        );
    }
}
