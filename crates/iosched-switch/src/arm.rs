//! What is compared: a scheduler with its tunables, and how it is written.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::SETTINGS;
use super::error::{self, SwitchError};
use super::value;

/// Whose scheduler an arm names, on a disk that is served with a scheduler of ours inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// Ours, inside the disk; the kernel's queue above has `none`.
    Served,
    /// The kernel's, on the loop device above; inside stands `none`.
    Kernel,
}

impl Layer {
    /// What stands before the arm's name: `served/cfq`.
    pub fn prefix(self) -> &'static str {
        match self {
            Layer::Served => "served/",
            Layer::Kernel => "kernel/",
        }
    }
}

/// A scheduler with its tunables: what is compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Arm {
    /// Whose scheduler it is, on a disk that has one of ours inside; elsewhere all are the kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<Layer>,
    /// The scheduler's name as the kernel spells it.
    pub scheduler: String,
    /// What is set besides, in the user's order: files of `queue/iosched/`, `nr_requests`, or one
    /// of `SETTINGS`.
    pub tunables: Vec<(String, String)>,
}

impl Arm {
    /// A scheduler as the kernel sets it up.
    pub fn plain(scheduler: impl Into<String>) -> Arm {
        Arm {
            layer: None,
            scheduler: scheduler.into(),
            tunables: Vec::new(),
        }
    }

    /// The same scheduler, of ours or of the kernel's.
    #[must_use]
    pub fn of(mut self, layer: Layer) -> Arm {
        self.layer = Some(layer);
        self
    }

    /// Reads `scheduler` or `scheduler:tunable=value,tunable=value`, with `served/` or `kernel/` before it.
    pub fn parse(text: &str) -> Result<Arm, SwitchError> {
        let layers = [Layer::Served, Layer::Kernel];
        let found = layers
            .into_iter()
            .find_map(|layer| Some((layer, text.strip_prefix(layer.prefix())?)));
        let (layer, text) = found.map_or((None, text), |(layer, rest)| (Some(layer), rest));
        let (scheduler, rest) = text.split_once(':').unwrap_or((text, ""));
        let words = rest.split(',').filter(|word| !word.is_empty());
        Ok(Arm {
            layer,
            ..Arm::new(scheduler, words)?
        })
    }

    /// True of a scheduler of ours that stands inside the disk.
    pub fn is_served(&self) -> bool {
        self.layer == Some(Layer::Served)
    }

    /// Scheduler and tunables alone, as an emulated disk takes them.
    pub fn without_layer(&self) -> String {
        let arm = Arm {
            layer: None,
            ..self.clone()
        };
        arm.to_string()
    }

    /// A scheduler and words of the form `tunable=value`.
    pub fn new<'a>(
        scheduler: &str,
        words: impl IntoIterator<Item = &'a str>,
    ) -> Result<Arm, SwitchError> {
        check_scheduler_name(scheduler)?;
        let tunables = words
            .into_iter()
            .map(parse_tunable)
            .collect::<Result<Vec<_>, _>>()?;
        check_twice(&tunables)?;
        for (tunable, value) in &tunables {
            value::check(scheduler, tunable, value)
                .map_err(|cause| error::wrong_value(None, tunable, value, &cause))?;
        }
        Ok(Arm {
            layer: None,
            scheduler: scheduler.into(),
            tunables,
        })
    }

    /// The words of the command that sets it on a device.
    pub fn set_on(&self, device: &str) -> Vec<String> {
        let tunables = self.tunables.iter();
        let assigned = tunables.map(|(name, value)| format!("{name}={value}"));
        let words = ["iosched", "set", device, &self.scheduler].map(str::to_owned);
        words.into_iter().chain(assigned).collect()
    }

    /// The files below `/sys/block/<device>/` that the tunables may be in, with their values, in the
    /// order of writing. Most have one place; which of several there is, the kernel's version decides.
    pub fn files_in_order(&self) -> Vec<(Vec<String>, &str)> {
        let places = |name: &str| {
            let own = format!("queue/iosched/{name}");
            let queue = format!("queue/{name}");
            match name {
                "nr_requests" => vec![queue],
                "async_depth" => vec![own, queue],
                _ if SETTINGS.contains(&name) => vec![queue],
                _ => vec![own],
            }
        };
        let mut files: Vec<_> = self
            .tunables
            .iter()
            .map(|(name, value)| (places(name), value.as_str()))
            .collect();
        files.sort_by_key(|(places, _)| tunable_rank(&places[0]));
        files
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = self.layer.map_or("", Layer::prefix);
        write!(f, "{prefix}{}", self.scheduler)?;
        for (index, (tunable, value)) in self.tunables.iter().enumerate() {
            let separator = if index == 0 { ':' } else { ',' };
            write!(f, "{separator}{tunable}={value}")?;
        }
        Ok(())
    }
}

/// The names that the kernel could know, so that no write can reach beyond the scheduler or load
/// a module that somebody else chose. 15 characters at the most (`ELV_NAME_MAX`).
pub(super) fn check_scheduler_name(name: &str) -> Result<(), SwitchError> {
    let possible = (1..=15).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
    if possible {
        Ok(())
    } else {
        Err(error::bad_name(name).into())
    }
}

fn parse_tunable(word: &str) -> Result<(String, String), SwitchError> {
    let bad = |cause| SwitchError::from(error::bad_arm(word, cause));
    let (name, value) = word
        .split_once('=')
        .ok_or_else(|| bad("a tunable needs =value"))?;
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(bad("a tunable's name has only letters, digits and _"));
    }
    if value.is_empty()
        || !value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
    {
        return Err(bad("a tunable's value is a number or a word"));
    }
    match name {
        "write_cache" => {
            let cause = "a wrong value loses data at the next power failure";
            Err(error::forbidden(name, cause).into())
        }
        "rotational" => {
            let cause = "it changes what other programs believe of the disk";
            Err(error::forbidden(name, cause).into())
        }
        "scheduler" => Err(bad("the scheduler stands before the colon")),
        _ => Ok((name.into(), value.into())),
    }
}

/// One variable of the kernel can be given one value.
fn check_twice(tunables: &[(String, String)]) -> Result<(), SwitchError> {
    // bfq and cfq have one variable under two names.
    let variable = |name: &str| name.trim_end_matches("_us").to_owned();
    for (index, (name, _)) in tunables.iter().enumerate() {
        let mut before = tunables[..index].iter();
        if let Some((other, _)) = before.find(|(other, _)| variable(other) == variable(name)) {
            let cause = if other == name {
                "it is given twice"
            } else {
                "it is given twice (with _us and without it is one variable)"
            };
            return Err(error::bad_arm(name, cause).into());
        }
    }
    Ok(())
}

/// The depth of the queue first, write-back throttling last, the scheduler's own between them.
pub(super) fn tunable_rank(file: &str) -> (bool, bool, (bool, String)) {
    (
        file != "queue/nr_requests",
        file == "queue/wbt_lat_usec",
        write_rank(file),
    )
}

/// bfq's `strict_guarantees` raises `slice_idle`, so it is written before it; the rest in order.
pub(super) fn write_rank(file: &str) -> (bool, String) {
    (!file.ends_with("/strict_guarantees"), file.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_is_read_and_shown_the_same() {
        for text in [
            "none",
            "mq-deadline:fifo_batch=1",
            "bfq:low_latency=0,slice_idle=0",
            "served/cfq:slice_idle=0",
            "served/mq-deadline:kernel=6.1",
            "kernel/none",
        ] {
            assert_eq!(Arm::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_name_that_is_too_long_is_refused_for_that() {
        assert!(Arm::parse("a-scheduler-1-2").is_ok());
        let error = Arm::parse("a-scheduler-1-23").unwrap_err().to_string();
        assert!(
            error.ends_with("1 to 15 letters a-z, digits, _ and -"),
            "{error}"
        );
    }

    #[test]
    fn a_name_that_could_load_another_module_is_refused() {
        for bad in [
            "",
            "BFQ",
            "bfq iosched",
            "../x",
            "a/b",
            "served/kernel/bfq",
            "served/",
            "bfq\n",
            "a-name-too-long-for-it",
        ] {
            let error = Arm::parse(bad).unwrap_err();
            let is_of_name = error.to_string().contains("is no scheduler name");
            assert!(is_of_name, "{bad:?}: {error}");
        }
    }

    #[test]
    fn what_could_lose_data_is_never_written() {
        for bad in ["none:write_cache=x", "none:rotational=0"] {
            let error = Arm::parse(bad).unwrap_err();
            assert!(error.to_string().contains("is never written"), "{error}");
        }
        for bad in ["none:a", "none:a=$(x)"] {
            let error = Arm::parse(bad).unwrap_err().to_string();
            assert!(error.starts_with("cannot read"), "{error}");
        }
    }

    #[test]
    fn one_variable_is_given_one_value() {
        for (twice, speaks_of_us) in [
            ("bfq:a=1,a=2", false),
            ("bfq:slice_idle=1,slice_idle_us=2", true),
        ] {
            let error = Arm::parse(twice).unwrap_err();
            assert!(error.to_string().starts_with("cannot read"), "{error}");
            assert_eq!(error.to_string().contains("_us"), speaks_of_us, "{error}");
        }
    }
}
