//! What stands after the name of a load: `pgbench:scale=50,clients=100`.

use std::collections::BTreeMap;
use std::str::FromStr;

use iosched_emulate::spec::parse_size;
use iosched_machine::failure::Problem;
use iosched_sim::quantity;
use iosched_sim::units::{Bytes, Nanos};

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// The settings of one load, each to be taken once.
#[derive(Debug)]
pub(crate) struct GivenSettings<'a> {
    load: &'a str,
    values: BTreeMap<&'a str, &'a str>,
}

impl<'a> GivenSettings<'a> {
    /// Reads `name=value,name=value`; a name that is not `known` is refused.
    pub(crate) fn parse(
        load: &'a str,
        text: &'a str,
        known: &[&str],
    ) -> Result<GivenSettings<'a>, Problem> {
        let mut values = BTreeMap::new();
        let known_ones = || {
            let known = known.join(", ");
            format!("write --load {load}:name=value,…; {load} has {known}")
        };
        for piece in text.split(',').filter(|piece| !piece.trim().is_empty()) {
            let Some((name, value)) = piece.split_once('=') else {
                let message = format!("{load}: {piece:?} is not a setting");
                return Err(Problem::usage(message).hint(known_ones()));
            };
            let name = name.trim();
            if !known.contains(&name) {
                let message = format!("{load} has no setting {name:?}");
                return Err(Problem::usage(message).hint(known_ones()));
            }
            values.insert(name, value.trim());
        }
        Ok(GivenSettings { load, values })
    }

    /// The text of a setting.
    pub(crate) fn text(&mut self, name: &str) -> Option<&'a str> {
        self.values.remove(name)
    }

    /// A number in this range, or the default.
    pub(crate) fn number<T>(
        &mut self,
        name: &str,
        range: std::ops::RangeInclusive<T>,
        default: T,
    ) -> Result<T, Problem>
    where
        T: FromStr + PartialOrd + std::fmt::Display,
    {
        let (least, most) = (range.start(), range.end());
        let wanted = format!("a number from {least} to {most} is wanted");
        self.within(name, &range, default, &wanted, |text| text.parse().ok())
    }

    /// A size in this range, bytes, or the default.
    pub(crate) fn size(
        &mut self,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
        default: u64,
    ) -> Result<u64, Problem> {
        let wanted = "a size such as 4k, 16m or 1g is wanted";
        self.within(name, &range, default, wanted, |text| {
            parse_size(text).ok().map(Bytes::as_u64)
        })
    }

    /// A time of whole seconds in this range, or the default: `90`, `90s`, `2m`.
    pub(crate) fn seconds(
        &mut self,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
        default: u64,
    ) -> Result<u64, Problem> {
        let (least, most) = (range.start(), range.end());
        let wanted = format!("{least} to {most} whole seconds are wanted, for example 90 or 2m");
        self.within(name, &range, default, &wanted, |text| {
            let nanos = quantity::time(text, SECOND).map(Nanos::as_nanos);
            let whole = nanos.filter(|nanos| nanos.is_multiple_of(SECOND));
            whole.map(|nanos| nanos / SECOND)
        })
    }

    /// What is read of a setting, if it is in this range, or the default.
    fn within<T: PartialOrd>(
        &mut self,
        name: &str,
        range: &std::ops::RangeInclusive<T>,
        default: T,
        wanted: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Problem> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        let value = read(text).filter(|value| range.contains(value));
        value.ok_or_else(|| self.refuse(name, text, wanted))
    }

    /// A value that was understood otherwise and refused.
    pub(crate) fn refuse(&self, name: &str, value: &str, cause: impl std::fmt::Display) -> Problem {
        let load = self.load;
        Problem::usage(format!("{load}: {name}={value} is not possible: {cause}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_held_to_their_range() {
        let mut settings = GivenSettings::parse("l", "a=3, b=9", &["a", "b", "c"]).unwrap();
        assert_eq!(settings.number("a", 1..=5, 2), Ok(3));
        assert_eq!(settings.number("c", 1..=5, 2), Ok(2));
        let error = settings.number("b", 1..=5, 2).unwrap_err().to_string();
        assert_eq!(
            error,
            "l: b=9 is not possible: a number from 1 to 5 is wanted"
        );
    }

    #[test]
    fn times_take_units_and_are_whole_seconds() {
        let known = ["a", "b", "c", "d"];
        let mut settings = GivenSettings::parse("l", "a=90,b=2m,c=1.5", &known).unwrap();
        assert_eq!(settings.seconds("a", 1..=100, 0), Ok(90));
        assert_eq!(settings.seconds("b", 1..=200, 0), Ok(120));
        let error = settings.seconds("c", 1..=200, 0).unwrap_err().to_string();
        assert!(
            error.contains("1 to 200 whole seconds are wanted"),
            "{error}"
        );
        assert_eq!(settings.seconds("d", 1..=200, 7), Ok(7));
    }

    #[test]
    fn an_unknown_setting_is_refused_by_name() {
        let error = GivenSettings::parse("l", "x=1", &["a"]).unwrap_err();
        assert_eq!(error.to_string(), "l has no setting \"x\"");
        assert!(error.hint.unwrap().contains("l has a"));
        assert!(GivenSettings::parse("l", "a", &["a"]).is_err());
    }
}
