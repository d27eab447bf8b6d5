//! Tunables and initial state by name.

use iosched_facts::{Problem, exit};

use super::TunableInfo;
use crate::units::Nanos;

/// Names with values: tunables or initial state.
pub type NamedValues = Vec<(String, i64)>;

/// Values by name, those not set at their defaults.
#[derive(Debug)]
pub struct Values {
    values: Vec<(&'static TunableInfo, i64, bool)>,
}

impl Values {
    pub(super) fn new(
        scheduler: &'static str,
        kind: &'static str,
        known: &'static [TunableInfo],
        set: &NamedValues,
    ) -> Result<Values, Problem> {
        let mut values: Vec<_> = known
            .iter()
            .map(|info| (info, info.default, false))
            .collect();
        for (name, value) in set {
            let found = values.iter_mut().find(|(info, _, _)| info.name == name);
            let Some((info, slot, given)) = found else {
                let known: Vec<_> = known.iter().map(|info| info.name).collect();
                let known = match known[..] {
                    [] => "none".to_owned(),
                    _ => known.join(", "),
                };
                let message = format!("{scheduler} has no {kind} `{name}`; it has: {known}");
                return Err(Problem::new(exit::BAD_TUNABLE, message));
            };
            if *value < info.min || *value > info.max {
                let TunableInfo { name, min, max, .. } = info;
                let message =
                    format!("{scheduler}: {name} cannot be {value}: it can be {min} to {max}");
                return Err(Problem::new(exit::BAD_TUNABLE, message));
            }
            (*slot, *given) = (*value, true);
        }
        Ok(Values { values })
    }

    /// The value set, or the default.
    pub fn get(&self, name: &str) -> i64 {
        let found = self.values.iter().find(|(info, _, _)| info.name == name);
        found.expect("schedulers ask for their own tunables").1
    }

    /// The value set, if one was.
    pub fn given(&self, name: &str) -> Option<i64> {
        let found = self.values.iter().find(|(info, _, _)| info.name == name);
        found
            .filter(|(_, _, given)| *given)
            .map(|(_, value, _)| *value)
    }

    /// The value set, or the default, of one that cannot be negative.
    pub fn count(&self, name: &str) -> u64 {
        u64::try_from(self.get(name)).expect("its range begins at zero or above")
    }

    /// The same of one that may begin with another value on a rotational disk.
    pub fn count_on(&self, name: &str, rotational: bool) -> u64 {
        let found = self.values.iter().find(|(info, _, _)| info.name == name);
        let other = found.filter(|(_, _, given)| rotational && !given);
        let other = other.and_then(|(info, _, _)| info.rotational);
        other.map_or_else(|| self.count(name), i64::unsigned_abs)
    }

    /// A time in milliseconds that a second file shows in microseconds: that is the finer, and holds if it
    /// was given.
    pub fn time(&self, name: &str) -> Nanos {
        let micros = format!("{name}_us");
        match self.given(&micros) {
            Some(_) => Nanos::from_micros(self.count(&micros)),
            None => Nanos::from_millis(self.count(name)),
        }
    }
}
