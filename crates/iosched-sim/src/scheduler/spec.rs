//! A scheduler as it is asked for: `mq-deadline:fifo_batch=4,kernel=6.1`; what is wrong with that; and the
//! scheduler itself.

use std::fmt;

use iosched_facts::near::did_you_mean;
use iosched_facts::{Problem, exit};

use super::values::{NamedValues, Values};
use super::{Elevator, Followed, Kernel, KernelVersion, SchedulerInfo, schedulers};

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
    pub fn parse(text: &str) -> Result<SchedulerSpec, Problem> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let is_kernel = |part: &&str| part.trim_start().starts_with("kernel=");
        let tunables: Vec<_> = rest.split(',').filter(|part| !is_kernel(part)).collect();
        let version = |part: &str| {
            let version = part
                .split_once('=')
                .map_or("", |(_, version)| version.trim());
            KernelVersion::parse(version).ok_or_else(|| {
                Problem::usage(format!(
                    "`{version}` is no version of a kernel, such as 6.1 or 6.12"
                ))
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
    pub fn usual_kernel(&self) -> Result<Kernel, Problem> {
        Ok(self.kernel(&Kernel {
            hz: info(&self.name)?.facts.block_layer.usual_hz(),
            ..Kernel::default()
        }))
    }
}

/// Reads `name=value,…`, no variable twice.
pub fn parse_settings(text: &str) -> Result<NamedValues, Problem> {
    // bfq and cfq have one variable under two names.
    let variable = |name: &str| name.trim_end_matches("_us").to_owned();
    let mut settings = NamedValues::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let syntax = || {
            Problem::usage(format!(
                "`{part}` is not of the form tunable=value with a whole number"
            ))
            .hint(
                "tunables stand behind the scheduler's name, as in cfq:slice_idle=0,quantum=16; \
                 `iosched list --help-tunables` has those of today's schedulers",
            )
        };
        let (name, value) = part.split_once('=').ok_or_else(syntax)?;
        let name = name.trim().to_owned();
        let mut before = settings.iter().map(|(name, _)| name);
        if let Some(before) = before.find(|before| variable(before) == variable(&name)) {
            let why = if *before == name {
                String::new()
            } else {
                format!(": `{before}` is the same variable")
            };
            return Err(Problem::usage(format!("`{name}` is set twice{why}")));
        }
        settings.push((name, value.trim().parse().map_err(|_| syntax())?));
    }
    Ok(settings)
}

/// The scheduler of this name.
pub fn info(name: &str) -> Result<&'static SchedulerInfo, Problem> {
    let found = schedulers().find(|info| info.facts.name == name);
    found.ok_or_else(|| {
        let known: Vec<_> = schedulers().map(|info| info.facts.name).collect();
        let near = did_you_mean(name, known.iter().copied());
        Problem::new(
            exit::NOT_OFFERED,
            format!(
                "no scheduler is called `{name}` here; there are: {}",
                known.join(", ")
            ),
        )
        .maybe_hint(near)
    })
}

/// Makes a scheduler with its tunables, as attached to a device at time zero.
pub fn build(
    spec: &SchedulerSpec,
    kernel: &Kernel,
    initial: &NamedValues,
) -> Result<Box<dyn Elevator>, Problem> {
    let info = info(&spec.name)?;
    let name = info.facts.name;
    let tunables = Values::new(name, "tunable", info.facts.tunables, &spec.tunables)?;
    let initial = Values::new(name, "initial value", info.initial, initial)?;
    let kernel = &spec.kernel(kernel);
    if let Some(oldest) = info
        .oldest
        .filter(|&oldest| !kernel.version.is_since(oldest))
    {
        let message = format!(
            "{name} of Linux {} is not simulated: its rules are known from {oldest} on",
            kernel.version
        );
        return Err(Problem::new(exit::BAD_TUNABLE, message).hint(format!(
            "take the rules of a later kernel: `kernel={oldest}`"
        )));
    }
    Ok((info.build)(&tunables, kernel, &initial))
}

/// The same, to follow a recording.
pub fn build_followed(
    spec: &SchedulerSpec,
    kernel: &Kernel,
    initial: &NamedValues,
) -> Result<Box<dyn Followed>, Problem> {
    let elevator = build(spec, kernel, initial)?;
    elevator.followed().ok_or_else(|| {
        let message = format!("{} cannot follow a recording", spec.name);
        Problem::new(exit::NOT_OFFERED, message)
    })
}

/// Tells a scheduler, whatever it has seen so far, that a part of its state is different.
pub fn tell(scheduler: &mut dyn Followed, state: &NamedValues) -> Result<(), Problem> {
    let info = scheduler.info();
    let state = Values::new(info.facts.name, "initial value", info.initial, state)?;
    scheduler.begin_with(&state);
    Ok(())
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
