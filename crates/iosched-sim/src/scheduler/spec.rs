//! A scheduler as it is asked for: `mq-deadline:fifo_batch=4,kernel=6.1`; what is wrong with that; and the
//! scheduler itself.

use std::fmt;

use super::{Elevator, Followed, Kernel, KernelVersion, SchedulerInfo, TunableInfo, schedulers};
use crate::units::Nanos;

/// Names with values: tunables or initial state.
pub type NamedValues = Vec<(String, i64)>;

/// Why a scheduler cannot be built as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum SchedulerError {
    #[error("no scheduler is called `{name}` here; there are: {}", known.join(", "))]
    Unknown {
        name: String,
        known: Vec<&'static str>,
    },
    /// The scheduler followed other rules in that kernel.
    #[error(
        "{scheduler} of Linux {version} is not simulated: its rules are known from {oldest} on"
    )]
    TooOld {
        scheduler: &'static str,
        version: KernelVersion,
        /// The first version whose rules are known.
        oldest: KernelVersion,
    },
    /// The scheduler shares between cgroups by rules that are not known here.
    #[error(
        "{scheduler} is not simulated with cgroups: how it shares between them is not known here"
    )]
    Groups { scheduler: &'static str },
    /// Write-back throttling, in the block layer that is simulated without it.
    #[error(
        "write-back throttling is not simulated with {scheduler}: the single-queue block layer has none here"
    )]
    Throttling { scheduler: &'static str },
    #[error("{scheduler} cannot follow a recording")]
    NotFollowed { scheduler: &'static str },
    #[error("{scheduler} has no {kind} `{name}`; it has: {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    NoSuchTunable {
        scheduler: &'static str,
        /// "tunable" or "initial value".
        kind: &'static str,
        name: String,
        known: Vec<&'static str>,
    },
    #[error("{scheduler}: {name} cannot be {value}: it can be {min} to {max}")]
    OutOfRange {
        scheduler: &'static str,
        name: &'static str,
        value: i64,
        min: i64,
        max: i64,
    },
    /// What stands behind `kernel=` is no version.
    #[error("`{text}` is no version of a kernel, such as 6.1 or 6.12")]
    Version { text: String },
    /// A variable of the kernel is given two values.
    #[error("`{name}` is set twice{}", if name == before { String::new() } else { format!(": `{before}` is the same variable") })]
    Twice { name: String, before: String },
    /// What was asked for is not of the form `name[:tunable=value,…]`.
    #[error("`{text}` is not of the form tunable=value with a whole number")]
    Syntax { text: String },
}

/// A scheduler with what is to be set: `deadline:fifo_batch=1,front_merges=0`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SchedulerSpec {
    /// Name of the scheduler.
    pub name: String,
    /// Tunables that differ from the defaults.
    pub tunables: NamedValues,
    /// The kernel whose rules are to hold (`kernel=6.1`).
    pub kernel: Option<KernelVersion>,
}

/// As it is asked for.
impl fmt::Display for SchedulerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let tunables = self
            .tunables
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let kernel = self
            .kernel
            .iter()
            .map(|version| format!("kernel={version}"));
        let settings: Vec<String> = tunables.chain(kernel).collect();
        if !settings.is_empty() {
            write!(f, ":{}", settings.join(","))?;
        }
        Ok(())
    }
}

impl SchedulerSpec {
    /// Reads `name[:tunable=value,…]`, where `kernel=6.1` says whose rules are to hold.
    pub fn parse(text: &str) -> Result<SchedulerSpec, SchedulerError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let is_kernel = |part: &&str| part.trim_start().starts_with("kernel=");
        let tunables: Vec<_> = rest.split(',').filter(|part| !is_kernel(part)).collect();
        let version = |part: &str| {
            let version = part
                .split_once('=')
                .map_or("", |(_, version)| version.trim());
            KernelVersion::parse(version).ok_or_else(|| SchedulerError::Version {
                text: version.to_owned(),
            })
        };
        let kernel = rest.split(',').find(is_kernel).map(version);
        Ok(SchedulerSpec {
            name: name.to_owned(),
            tunables: parse_settings(&tunables.join(","))?,
            kernel: kernel.transpose()?,
        })
    }

    /// The kernel that it runs in on this one: where it names a version, elevator and block layer follow that.
    pub fn kernel(&self, machine: &Kernel) -> Kernel {
        Kernel {
            version: self.kernel.unwrap_or(machine.version),
            ..*machine
        }
    }

    /// The same, with the ticks that are usual where it is at home.
    ///
    /// # Errors
    /// There is no such scheduler.
    pub fn usual_kernel(&self) -> Result<Kernel, SchedulerError> {
        Ok(self.kernel(&Kernel {
            hz: info(&self.name)?.block_layer.usual_hz(),
            ..Kernel::default()
        }))
    }
}

/// Reads `name=value,…`, no variable twice.
pub fn parse_settings(text: &str) -> Result<NamedValues, SchedulerError> {
    // bfq and cfq have one variable under two names.
    let variable = |name: &str| name.trim_end_matches("_us").to_owned();
    let mut settings = NamedValues::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let syntax = || SchedulerError::Syntax {
            text: part.to_owned(),
        };
        let (name, value) = part.split_once('=').ok_or_else(syntax)?;
        let name = name.trim().to_owned();
        let mut before = settings.iter().map(|(name, _)| name);
        if let Some(before) = before.find(|before| variable(before) == variable(&name)) {
            let before = before.clone();
            return Err(SchedulerError::Twice { name, before });
        }
        settings.push((name, value.trim().parse().map_err(|_| syntax())?));
    }
    Ok(settings)
}

/// The scheduler of this name.
pub fn info(name: &str) -> Result<&'static SchedulerInfo, SchedulerError> {
    let found = schedulers().iter().find(|info| info.name == name);
    found.ok_or_else(|| {
        let name = name.to_owned();
        let known = schedulers().iter().map(|info| info.name).collect();
        SchedulerError::Unknown { name, known }
    })
}

/// Makes a scheduler with its tunables, as attached to a device at time zero.
pub fn build(
    spec: &SchedulerSpec,
    kernel: &Kernel,
    initial: &NamedValues,
) -> Result<Box<dyn Elevator>, SchedulerError> {
    let info = info(&spec.name)?;
    let tunables = Values::new(info.name, "tunable", info.tunables, &spec.tunables)?;
    let initial = Values::new(info.name, "initial value", info.initial, initial)?;
    let kernel = &spec.kernel(kernel);
    if let Some(oldest) = info.oldest.filter(|&oldest| kernel.version < oldest) {
        return Err(SchedulerError::TooOld {
            scheduler: info.name,
            version: kernel.version,
            oldest,
        });
    }
    Ok((info.build)(&tunables, kernel, &initial))
}

/// The same, to follow a recording.
pub fn build_followed(
    spec: &SchedulerSpec,
    kernel: &Kernel,
    initial: &NamedValues,
) -> Result<Box<dyn Followed>, SchedulerError> {
    let elevator = build(spec, kernel, initial)?;
    let scheduler = elevator.info().name;
    let followed = elevator.followed();
    followed.ok_or(SchedulerError::NotFollowed { scheduler })
}

/// Tells a scheduler, whatever it has seen so far, that a part of its state is different.
pub fn tell(scheduler: &mut dyn Followed, state: &NamedValues) -> Result<(), SchedulerError> {
    let info = scheduler.info();
    let state = Values::new(info.name, "initial value", info.initial, state)?;
    scheduler.begin_with(&state);
    Ok(())
}

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
    ) -> Result<Values, SchedulerError> {
        let mut values: Vec<_> = known
            .iter()
            .map(|info| (info, info.default, false))
            .collect();
        for (name, value) in set {
            let found = values.iter_mut().find(|(info, _, _)| info.name == name);
            let Some((info, slot, given)) = found else {
                return Err(SchedulerError::NoSuchTunable {
                    scheduler,
                    kind,
                    name: name.clone(),
                    known: known.iter().map(|info| info.name).collect(),
                });
            };
            if *value < info.min || *value > info.max {
                return Err(SchedulerError::OutOfRange {
                    scheduler,
                    name: info.name,
                    value: *value,
                    min: info.min,
                    max: info.max,
                });
            }
            (*slot, *given) = (*value, true);
        }
        Ok(Values { values })
    }

    /// The value set, or the default.
    pub(crate) fn get(&self, name: &str) -> i64 {
        let found = self.values.iter().find(|(info, _, _)| info.name == name);
        found.expect("schedulers ask for their own tunables").1
    }

    /// The value set, if one was.
    pub(crate) fn given(&self, name: &str) -> Option<i64> {
        let found = self.values.iter().find(|(info, _, _)| info.name == name);
        found
            .filter(|(_, _, given)| *given)
            .map(|(_, value, _)| *value)
    }

    /// The value set, or the default, of one that cannot be negative.
    pub(crate) fn count(&self, name: &str) -> u64 {
        u64::try_from(self.get(name)).expect("its range begins at zero or above")
    }

    /// A time in milliseconds that a second file shows in microseconds: that is the finer, and holds if it
    /// was given.
    pub(crate) fn time(&self, name: &str) -> Nanos {
        let micros = format!("{name}_us");
        match self.given(&micros) {
            Some(_) => Nanos::from_micros(self.count(&micros)),
            None => Nanos::from_millis(self.count(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_is_written_as_it_is_asked_for() {
        for text in [
            "none",
            "bfq:slice_idle=0",
            "cfq:quantum=4,slice_idle=0,kernel=4.19",
        ] {
            assert_eq!(SchedulerSpec::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn one_variable_is_given_one_value() {
        let said = |text| SchedulerSpec::parse(text).unwrap_err().to_string();
        assert_eq!(
            said("cfq:slice_idle=0,quantum=4,slice_idle=8"),
            "`slice_idle` is set twice"
        );
        assert_eq!(
            said("cfq:slice_idle=0,slice_idle_us=8000"),
            "`slice_idle_us` is set twice: `slice_idle` is the same variable"
        );
        assert!(SchedulerSpec::parse("cfq:slice_idle=0,slice_sync=8").is_ok());
    }
}
