//! The state of a queue: read it, set an arm, put it back, and always look at what really came.
//!
//! A state is the scheduler, then `nr_requests`, then the scheduler's tunables, then the other
//! settings of the queue, with write-back throttling last: a switch of scheduler resets all of
//! them, so they are saved, written and restored in this order. A write that the kernel accepts
//! proves nothing: everything is read back.
//!
//! Follows `block/elevator.c`, `block/blk-sysfs.c` and `Documentation/ABI/stable/sysfs-block`
//! (Linux 4.19 to 6.12). Never written: `write_cache` (loses data) and `rotational` (a lie).

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::device::{NoChoice, Schedulers};
use crate::failure::{Failure, exit};
use crate::sysfs::Sysfs;

/// Settings of a queue besides the scheduler's own tunables that may be set, in the order in which
/// they are written.
pub const SETTINGS: &[&str] = &[
    "async_depth", // in queue/iosched/ before 7.0
    "max_sectors_kb",
    "read_ahead_kb",
    "nomerges",
    "rq_affinity",
    "add_random",
    "iostats",
    "wbt_lat_usec", // last: a switch resets it, and bfq turns it off
];

/// Everything of a queue that a switch of scheduler changes, or that an arm may set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueState {
    /// The active scheduler.
    pub scheduler: String,
    /// `queue/nr_requests`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nr_requests: Option<String>,
    /// The files of `queue/iosched/`.
    pub tunables: BTreeMap<String, String>,
    /// The readable ones of [`SETTINGS`].
    pub settings: BTreeMap<String, String>,
}

/// A scheduler with its tunables: what is compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Arm {
    /// The scheduler's name as the kernel spells it.
    pub scheduler: String,
    /// What is set besides, in the user's order: files of `queue/iosched/`, `nr_requests`, or one
    /// of [`SETTINGS`].
    pub tunables: Vec<(String, String)>,
}

/// A value that the kernel took otherwise than it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjusted {
    /// Kernel name of the device.
    pub device: String,
    /// The tunable.
    pub tunable: String,
    /// What was written.
    pub asked: String,
    /// What was read back.
    pub got: String,
}

impl fmt::Display for Adjusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Adjusted {
            device,
            tunable,
            asked,
            got,
        } = self;
        write!(
            f,
            "{device}: {tunable}={asked} was asked, the kernel made it {got}"
        )
    }
}

/// One file that differs between two states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Below `/sys/block/<device>/`.
    pub file: String,
    /// In the state that was expected.
    pub expected: String,
    /// In the state that was found.
    pub found: String,
}

/// Why a state could not be set.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// Not a name that the kernel could know.
    #[error("{name:?} is no scheduler name: only a-z, 0-9, _ and - are possible")]
    BadName {
        /// As given.
        name: String,
    },
    /// `scheduler:tunable=value,…` was expected.
    #[error("cannot read {text:?}: {cause}")]
    BadArm {
        /// As given.
        text: String,
        /// What is wrong with it.
        cause: &'static str,
    },
    /// The device has no configurable scheduler.
    #[error("{device} has no scheduler to choose: {}", reason.trim_start_matches("no scheduler: "))]
    NothingToChoose {
        /// Kernel name.
        device: String,
        /// Why there is none.
        reason: String,
    },
    /// The kernel does not offer it, and loading its module did not help.
    #[error("cannot switch {device} to {scheduler}: this kernel does not offer it\n  {device} offers: {}", offered.join(", "))]
    NotOffered {
        /// Kernel name.
        device: String,
        /// What was asked.
        scheduler: String,
        /// What there is.
        offered: Vec<String>,
    },
    /// EINVAL on the switch itself, of a name that the file offers.
    #[error(
        "cannot switch {device} to {scheduler}: the kernel refuses it as invalid, though it lists it; now active: {active}"
    )]
    Refused {
        /// Kernel name.
        device: String,
        /// What was asked.
        scheduler: String,
        /// What is active after the failure: it may not be what was before.
        active: String,
    },
    /// EOPNOTSUPP.
    #[error(
        "cannot switch {device} to {scheduler}: the device does not support a switch now; now active: {active}"
    )]
    NotSupported {
        /// Kernel name.
        device: String,
        /// What was asked.
        scheduler: String,
        /// What is active after the failure.
        active: String,
    },
    /// EBUSY.
    #[error(
        "cannot switch {device} to {scheduler}: the queue is busy being changed; now active: {active}"
    )]
    Busy {
        /// Kernel name.
        device: String,
        /// What was asked.
        scheduler: String,
        /// What is active after the failure.
        active: String,
    },
    /// EACCES, EPERM or EROFS.
    #[error("cannot change {file} of {device}: permission denied")]
    NotPermitted {
        /// Kernel name.
        device: String,
        /// Below `/sys/block/<device>/`.
        file: String,
    },
    /// The write succeeded and changed nothing, or something else.
    #[error("{device}: the kernel accepted {asked} and made it {got}")]
    NotTaken {
        /// Kernel name.
        device: String,
        /// The scheduler that was asked.
        asked: String,
        /// The one read back.
        got: String,
    },
    /// No such file below `queue/iosched/` or among the settings.
    #[error("{scheduler} on {device} has no tunable {tunable}\n  it has: {}", known.join(", "))]
    UnknownTunable {
        /// Kernel name.
        device: String,
        /// The scheduler.
        scheduler: String,
        /// As given.
        tunable: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Never written by us.
    #[error("{tunable} is never written: {cause}")]
    Forbidden {
        /// As given.
        tunable: String,
        /// Why.
        cause: &'static str,
    },
    /// The kernel refused the value.
    #[error("{device}: the kernel refuses {tunable}={value} ({source})")]
    BadValue {
        /// Kernel name.
        device: String,
        /// The tunable.
        tunable: String,
        /// As given.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The device is gone.
    #[error("{device} has vanished")]
    Vanished {
        /// Kernel name.
        device: String,
    },
    /// Anything else.
    #[error("cannot access {file} of {device}")]
    Io {
        /// Kernel name.
        device: String,
        /// Below `/sys/block/<device>/`.
        file: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Failure for SwitchError {
    fn hint(&self) -> Option<String> {
        match self {
            SwitchError::BadName { .. } => {
                Some("`iosched list` shows what each device offers".into())
            }
            SwitchError::BadArm { .. } => Some(
                "a tunable is written as name=value; an arm as scheduler:name=value,name=value"
                    .into(),
            ),
            SwitchError::NotOffered { scheduler, .. } => Some(match scheduler.as_str() {
                "bfq" => {
                    "its module could not be loaded: is CONFIG_IOSCHED_BFQ in this kernel?".into()
                }
                "kyber" => {
                    "its module could not be loaded: is CONFIG_MQ_IOSCHED_KYBER in this kernel?"
                        .into()
                }
                "cfq" | "deadline" | "noop" => {
                    "it was removed in Linux 5.0; `iosched simulate` still has it".into()
                }
                _ => "choose one of those it offers".into(),
            }),
            SwitchError::NotPermitted { .. } => {
                Some("run it as root, and outside a container that mounts /sys read-only".into())
            }
            SwitchError::NothingToChoose { .. } => {
                Some("`iosched list` shows which devices have one".into())
            }
            SwitchError::Busy { .. } => Some("try again in a moment".into()),
            SwitchError::NotTaken { .. } => {
                Some("old kernels do this for schedulers that they lack: see `iosched list`".into())
            }
            SwitchError::Refused { active, .. } | SwitchError::NotSupported { active, .. } => Some(
                format!("a failed switch may leave another scheduler: {active} is active now"),
            ),
            SwitchError::BadValue { .. } => {
                Some("`iosched list -v DEVICE` shows units and values".into())
            }
            _ => None,
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            SwitchError::BadName { .. } | SwitchError::BadArm { .. } => exit::USAGE,
            SwitchError::NothingToChoose { .. } => exit::NOTHING_TO_CHOOSE,
            SwitchError::NotOffered { .. } | SwitchError::Refused { .. } => exit::NOT_OFFERED,
            SwitchError::NotSupported { .. } => exit::NOT_SUPPORTED,
            SwitchError::NotTaken { .. } => exit::NOT_TAKEN,
            SwitchError::Busy { .. } => exit::BUSY,
            SwitchError::NotPermitted { .. } => exit::NOT_PERMITTED,
            SwitchError::UnknownTunable { .. }
            | SwitchError::Forbidden { .. }
            | SwitchError::BadValue { .. } => exit::BAD_TUNABLE,
            SwitchError::Vanished { .. } => exit::VANISHED,
            SwitchError::Io { .. } => exit::FAILURE,
        }
    }
}

impl Arm {
    /// A scheduler as the kernel sets it up.
    pub fn plain(scheduler: impl Into<String>) -> Arm {
        Arm {
            scheduler: scheduler.into(),
            tunables: Vec::new(),
        }
    }

    /// Reads `scheduler` or `scheduler:tunable=value,tunable=value`.
    pub fn parse(text: &str) -> Result<Arm, SwitchError> {
        let (scheduler, rest) = text.split_once(':').unwrap_or((text, ""));
        let words = rest.split(',').filter(|word| !word.is_empty());
        Arm::new(scheduler, words)
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
        Ok(Arm {
            scheduler: scheduler.into(),
            tunables,
        })
    }
}

impl Arm {
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
        write!(f, "{}", self.scheduler)?;
        for (index, (tunable, value)) in self.tunables.iter().enumerate() {
            let separator = if index == 0 { ':' } else { ',' };
            write!(f, "{separator}{tunable}={value}")?;
        }
        Ok(())
    }
}

/// The names that the kernel could know, so that no write can reach beyond the scheduler or load
/// a module of somebody's choice. 15 characters at the most (`ELV_NAME_MAX`).
fn check_scheduler_name(name: &str) -> Result<(), SwitchError> {
    let possible = (1..=15).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
    if possible {
        Ok(())
    } else {
        Err(SwitchError::BadName { name: name.into() })
    }
}

fn parse_tunable(word: &str) -> Result<(String, String), SwitchError> {
    let bad = |cause| SwitchError::BadArm {
        text: word.into(),
        cause,
    };
    let (name, value) = word
        .split_once('=')
        .ok_or_else(|| bad("a tunable needs =value"))?;
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(bad("a tunable's name has only letters, digits and _"));
    }
    if value.is_empty()
        || !value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    {
        return Err(bad("a tunable's value is a number or a word"));
    }
    match name {
        "write_cache" => Err(SwitchError::Forbidden {
            tunable: name.into(),
            cause: "a wrong value loses data at the next power failure",
        }),
        "rotational" => Err(SwitchError::Forbidden {
            tunable: name.into(),
            cause: "it changes what other programs believe of the disk",
        }),
        "scheduler" => Err(bad("the scheduler stands before the colon")),
        _ => Ok((name.into(), value.into())),
    }
}

/// One variable of the kernel can be given one value.
fn check_twice(tunables: &[(String, String)]) -> Result<(), SwitchError> {
    // bfq and cfq have one variable under two names.
    let variable = |name: &str| name.trim_end_matches("_us").to_owned();
    for (index, (name, _)) in tunables.iter().enumerate() {
        if tunables[..index]
            .iter()
            .any(|(other, _)| variable(other) == variable(name))
        {
            return Err(SwitchError::BadArm {
                text: name.clone(),
                cause: "it is given twice (slice_idle and slice_idle_us are one)",
            });
        }
    }
    Ok(())
}

/// The name that today's kernels have for an old scheduler: noop, deadline, cfq.
pub fn modern_name(old: &str) -> Option<&'static str> {
    match old {
        "noop" => Some("none"),
        "deadline" => Some("mq-deadline"),
        "cfq" => Some("bfq"),
        _ => None,
    }
}

/// The scheduler that this device can really be given when `wanted` is asked: itself, or what
/// became of an old name, after loading its module if that is what lacks.
pub fn resolve(sysfs: &Sysfs, device: &str, wanted: &str) -> Result<String, SwitchError> {
    check_scheduler_name(wanted)?;
    let offered = offered(sysfs, device)?;
    if offered.iter().any(|name| name == wanted) {
        return Ok(wanted.into());
    }
    if let Some(modern) = modern_name(wanted).filter(|modern| offered.iter().any(|o| o == modern)) {
        return Ok(modern.into());
    }
    let to_load = modern_name(wanted).unwrap_or(wanted);
    // The modules of a copied tree are not this kernel's.
    if sysfs.root() == Path::new("/sys") {
        load_module(to_load);
    }
    let offered = self::offered(sysfs, device)?;
    if offered.iter().any(|name| name == to_load) {
        return Ok(to_load.into());
    }
    Err(SwitchError::NotOffered {
        device: device.into(),
        scheduler: wanted.into(),
        offered,
    })
}

/// The schedulers that a device offers.
pub fn offered(sysfs: &Sysfs, device: &str) -> Result<Vec<String>, SwitchError> {
    match schedulers(sysfs, device) {
        Schedulers::Choice(choice) => Ok(choice.offered),
        Schedulers::Nothing(reason) => Err(nothing(sysfs, device, &reason)),
    }
}

fn schedulers(sysfs: &Sysfs, device: &str) -> Schedulers {
    Schedulers::of_file(sysfs.read(device, "queue/scheduler"))
}

fn nothing(sysfs: &Sysfs, device: &str, reason: &NoChoice) -> SwitchError {
    let device = device.to_owned();
    if sysfs.has_device(&device) {
        SwitchError::NothingToChoose {
            device,
            reason: reason.to_string(),
        }
    } else {
        SwitchError::Vanished { device }
    }
}

/// Asks modprobe for a scheduler's module under the alias that the kernel itself uses. Whether it
/// helped is seen in `queue/scheduler`, so a failure is no error here.
fn load_module(scheduler: &str) {
    let _ = Command::new("modprobe")
        .args(["--quiet", &format!("{scheduler}-iosched")])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status();
}

impl QueueState {
    /// Reads the whole state of a device.
    pub fn read(sysfs: &Sysfs, device: &str) -> Result<QueueState, SwitchError> {
        let read = |file: &str| sysfs.read_if_present(device, &format!("queue/{file}"));
        let tunables = sysfs
            .list(device, "queue/iosched")
            .into_iter()
            .filter_map(|name| Some((name.clone(), read(&format!("iosched/{name}"))?)))
            .collect();
        let settings = SETTINGS
            .iter()
            .filter_map(|&name| Some((name.to_owned(), read(name)?)))
            .collect();
        Ok(QueueState {
            scheduler: active(sysfs, device)?,
            nr_requests: read("nr_requests"),
            tunables,
            settings,
        })
    }

    /// Sets this state, as it was read before, and reads it back. What could not be put back
    /// exactly is returned; an error means that even the scheduler is not as wanted.
    pub fn restore(&self, sysfs: &Sysfs, device: &str) -> Result<Vec<Adjusted>, SwitchError> {
        if active(sysfs, device)? != self.scheduler {
            switch(sysfs, device, &self.scheduler)?;
        }
        for (file, value) in self.files_in_order() {
            let is_there = sysfs.read_if_present(device, &file).as_ref() == Some(value);
            if !is_there {
                // What the kernel does not take is seen in the comparison below.
                let _ = sysfs.write(device, &file, value);
            }
        }
        let found = QueueState::read(sysfs, device)?;
        Ok(self
            .differences(&found)
            .into_iter()
            .map(|difference| Adjusted {
                device: device.into(),
                tunable: difference.file,
                asked: difference.expected,
                got: difference.found,
            })
            .collect())
    }

    /// The files below `/sys/block/<device>/` and their values, in the order of writing.
    fn files_in_order(&self) -> impl Iterator<Item = (String, &String)> {
        let nr_requests = self
            .nr_requests
            .iter()
            .map(|value| ("queue/nr_requests".to_owned(), value));
        let mut tunables: Vec<_> = self
            .tunables
            .iter()
            // One variable under two names: the finer unit wins.
            .filter(|(name, _)| {
                *name != "slice_idle" || !self.tunables.contains_key("slice_idle_us")
            })
            .map(|(name, value)| (format!("queue/iosched/{name}"), value))
            .collect();
        tunables.sort_by_key(|(file, _)| write_rank(file));
        let settings = SETTINGS
            .iter()
            .filter_map(|&name| Some((format!("queue/{name}"), self.settings.get(name)?)));
        nr_requests.chain(tunables).chain(settings)
    }

    /// The files in which `found` differs from this state.
    pub fn differences(&self, found: &QueueState) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut compare = |file: String, expected: Option<&String>, found: Option<&String>| {
            if expected != found {
                let shown = |value: Option<&String>| value.map_or("(absent)".into(), Clone::clone);
                differences.push(Difference {
                    file,
                    expected: shown(expected),
                    found: shown(found),
                });
            }
        };
        compare(
            "queue/scheduler".into(),
            Some(&self.scheduler),
            Some(&found.scheduler),
        );
        if self.scheduler != found.scheduler {
            // Everything else differs because of it.
            return differences;
        }
        compare(
            "queue/nr_requests".into(),
            self.nr_requests.as_ref(),
            found.nr_requests.as_ref(),
        );
        for (directory, ours, theirs) in [
            ("queue/iosched", &self.tunables, &found.tunables),
            ("queue", &self.settings, &found.settings),
        ] {
            let names: std::collections::BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
            for name in names {
                compare(
                    format!("{directory}/{name}"),
                    ours.get(name),
                    theirs.get(name),
                );
            }
        }
        differences
    }
}

/// The depth of the queue first, write-back throttling last, the scheduler's own between them.
fn tunable_rank(file: &str) -> (bool, bool, (bool, String)) {
    (
        file != "queue/nr_requests",
        file == "queue/wbt_lat_usec",
        write_rank(file),
    )
}

/// bfq's `strict_guarantees` raises `slice_idle`, so it is written before it; the rest in order.
fn write_rank(file: &str) -> (bool, String) {
    (!file.ends_with("/strict_guarantees"), file.to_owned())
}

/// The active scheduler.
pub fn active(sysfs: &Sysfs, device: &str) -> Result<String, SwitchError> {
    match schedulers(sysfs, device) {
        Schedulers::Choice(choice) => Ok(choice.active),
        Schedulers::Nothing(reason) => Err(nothing(sysfs, device, &reason)),
    }
}

/// Writes the scheduler and reads it back.
fn switch(sysfs: &Sysfs, device: &str, scheduler: &str) -> Result<(), SwitchError> {
    const EBUSY: i32 = 16;
    const EINVAL: i32 = 22;
    const EOPNOTSUPP: i32 = 95;
    let written = sysfs.write(device, "queue/scheduler", scheduler);
    let now = active(sysfs, device)?;
    let (device, scheduler) = (device.to_owned(), scheduler.to_owned());
    match written {
        Ok(()) if now == scheduler => Ok(()),
        Ok(()) => Err(SwitchError::NotTaken {
            device,
            asked: scheduler,
            got: now,
        }),
        Err(error) => Err(match error.raw_os_error() {
            Some(EINVAL) => SwitchError::Refused {
                device,
                scheduler,
                active: now,
            },
            Some(EOPNOTSUPP) => SwitchError::NotSupported {
                device,
                scheduler,
                active: now,
            },
            Some(EBUSY) => SwitchError::Busy {
                device,
                scheduler,
                active: now,
            },
            _ => io_error(&device, "queue/scheduler", error),
        }),
    }
}

fn io_error(device: &str, file: &str, source: io::Error) -> SwitchError {
    const ENXIO: i32 = 6;
    const ENODEV: i32 = 19;
    const EROFS: i32 = 30;
    let (device, file) = (device.to_owned(), file.to_owned());
    match (source.kind(), source.raw_os_error()) {
        (io::ErrorKind::PermissionDenied, _) | (_, Some(EROFS)) => {
            SwitchError::NotPermitted { device, file }
        }
        (io::ErrorKind::NotFound, _) | (_, Some(ENXIO | ENODEV)) => {
            SwitchError::Vanished { device }
        }
        _ => SwitchError::Io {
            device,
            file,
            source,
        },
    }
}

/// What setting an arm led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entered {
    /// The whole state as read back.
    pub state: QueueState,
    /// What the kernel took otherwise than asked.
    pub adjusted: Vec<Adjusted>,
}

/// Sets an arm for an experiment: the scheduler with the kernel's own defaults, all other settings
/// as they were in `baseline`, then the arm's tunables. The baseline's own scheduler without
/// tunables is the state as it was found, its tuned values included.
pub fn enter(
    sysfs: &Sysfs,
    device: &str,
    arm: &Arm,
    baseline: &QueueState,
) -> Result<Entered, SwitchError> {
    if arm.tunables.is_empty() && arm.scheduler == baseline.scheduler {
        let adjusted = baseline.restore(sysfs, device)?;
        return Ok(Entered {
            state: QueueState::read(sysfs, device)?,
            adjusted,
        });
    }
    if active(sysfs, device)? == arm.scheduler {
        // A switch to itself resets nothing: leave and come back.
        let other = offered(sysfs, device)?
            .into_iter()
            .find(|name| *name != arm.scheduler);
        if let Some(other) = other {
            switch(sysfs, device, &other)?;
        }
    }
    set(sysfs, device, arm, Some(baseline))
}

/// Switches to an arm's scheduler if it is not active, then sets the arm's tunables over whatever
/// is there (over `settings_of`, where given), and reads everything back.
pub fn set(
    sysfs: &Sysfs,
    device: &str,
    arm: &Arm,
    settings_of: Option<&QueueState>,
) -> Result<Entered, SwitchError> {
    if active(sysfs, device)? != arm.scheduler {
        switch(sysfs, device, &arm.scheduler)?;
    }
    for (name, value) in settings_of.iter().flat_map(|state| &state.settings) {
        // What a switch resets is the arm's own business, not the baseline's.
        if name != "wbt_lat_usec" && name != "async_depth" {
            let file = format!("queue/{name}");
            if sysfs.read_if_present(device, &file).as_ref() != Some(value) {
                let _ = sysfs.write(device, &file, value);
            }
        }
    }
    let adjusted = write_tunables(sysfs, device, arm)?;
    Ok(Entered {
        state: QueueState::read(sysfs, device)?,
        adjusted,
    })
}

/// Writes an arm's tunables in the order that the kernel needs, then reads each back.
fn write_tunables(sysfs: &Sysfs, device: &str, arm: &Arm) -> Result<Vec<Adjusted>, SwitchError> {
    let mut located = arm
        .tunables
        .iter()
        .map(|(name, value)| Ok((locate(sysfs, device, arm, name)?, name, value)))
        .collect::<Result<Vec<_>, SwitchError>>()?;
    located.sort_by_key(|(file, _, _)| tunable_rank(file));
    for (file, name, value) in &located {
        sysfs.write(device, file, value).map_err(|source| {
            match io_error(device, file, source) {
                SwitchError::Io { source, .. } => SwitchError::BadValue {
                    device: device.into(),
                    tunable: (*name).clone(),
                    value: (*value).clone(),
                    source,
                },
                other => other,
            }
        })?;
    }
    let mut adjusted = Vec::new();
    for (file, name, value) in located {
        let got = sysfs
            .read(device, &file)
            .map_err(|source| io_error(device, &file, source))?;
        if got != *value {
            adjusted.push(Adjusted {
                device: device.into(),
                tunable: name.clone(),
                asked: value.clone(),
                got,
            });
        }
    }
    Ok(adjusted)
}

/// The file of a tunable: `queue/nr_requests`, `queue/iosched/NAME`, or one of [`SETTINGS`].
fn locate(sysfs: &Sysfs, device: &str, arm: &Arm, name: &str) -> Result<String, SwitchError> {
    let own = sysfs.list(device, "queue/iosched");
    if own.iter().any(|tunable| tunable == name) {
        return Ok(format!("queue/iosched/{name}"));
    }
    let file = format!("queue/{name}");
    let may_be_set = name == "nr_requests" || SETTINGS.contains(&name);
    if may_be_set && sysfs.device_dir(device).join(&file).exists() {
        return Ok(file);
    }
    let mut known = own;
    known.push("nr_requests".into());
    known.extend(
        SETTINGS
            .iter()
            .filter(|setting| {
                sysfs
                    .device_dir(device)
                    .join("queue")
                    .join(setting)
                    .exists()
            })
            .map(|&setting| setting.to_owned()),
    );
    Err(SwitchError::UnknownTunable {
        device: device.into(),
        scheduler: arm.scheduler.clone(),
        tunable: name.into(),
        known,
    })
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
        ] {
            assert_eq!(Arm::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_name_that_could_load_another_module_is_refused() {
        for bad in [
            "",
            "BFQ",
            "bfq iosched",
            "../x",
            "a/b",
            "bfq\n",
            "a-name-too-long-for-it",
        ] {
            let error = Arm::parse(bad).unwrap_err();
            assert!(
                matches!(error, SwitchError::BadName { .. }),
                "{bad:?}: {error}"
            );
        }
    }

    #[test]
    fn what_could_lose_data_is_never_written() {
        for bad in ["none:write_cache=x", "none:rotational=0"] {
            let error = Arm::parse(bad).unwrap_err();
            assert!(matches!(error, SwitchError::Forbidden { .. }), "{error}");
        }
        assert!(matches!(
            Arm::parse("none:a"),
            Err(SwitchError::BadArm { .. })
        ));
        assert!(matches!(
            Arm::parse("none:a=$(x)"),
            Err(SwitchError::BadArm { .. })
        ));
    }

    #[test]
    fn one_variable_is_given_one_value() {
        for twice in ["bfq:a=1,a=2", "bfq:slice_idle=1,slice_idle_us=2"] {
            assert!(
                matches!(Arm::parse(twice), Err(SwitchError::BadArm { .. })),
                "{twice}"
            );
        }
    }

    #[test]
    fn states_are_written_scheduler_depth_tunables_settings_throttling() {
        let state = QueueState {
            scheduler: "bfq".into(),
            nr_requests: Some("64".into()),
            tunables: [
                ("slice_idle", "8"),
                ("slice_idle_us", "8000"),
                ("strict_guarantees", "1"),
            ]
            .map(|(name, value)| (name.into(), value.into()))
            .into(),
            settings: [("wbt_lat_usec", "0"), ("read_ahead_kb", "128")]
                .map(|(name, value)| (name.into(), value.into()))
                .into(),
        };
        let files: Vec<String> = state.files_in_order().map(|(file, _)| file).collect();
        assert_eq!(
            files,
            [
                "queue/nr_requests",
                "queue/iosched/strict_guarantees",
                "queue/iosched/slice_idle_us",
                "queue/read_ahead_kb",
                "queue/wbt_lat_usec",
            ]
        );
    }

    #[test]
    fn a_changed_scheduler_hides_what_differs_because_of_it() {
        let state = |scheduler: &str, depth: &str| QueueState {
            scheduler: scheduler.into(),
            nr_requests: Some(depth.into()),
            ..QueueState::default()
        };
        let differences = state("none", "128").differences(&state("bfq", "256"));
        assert_eq!(differences.len(), 1);
        assert_eq!(differences[0].file, "queue/scheduler");
        let differences = state("none", "128").differences(&state("none", "64"));
        assert_eq!(differences[0].file, "queue/nr_requests");
    }
}
