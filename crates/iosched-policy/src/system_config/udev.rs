//! The running udev, through `udevadm`: check a file of rules, load it, have it applied now.

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use iosched_machine::failure::{Failure, exit};
use iosched_machine::host::Host;
use iosched_machine::process::{self, ChildError, Scope, Stop};
use iosched_machine::visible::lines_of_error;

/// How long any of it may take. Settling waits for every event of the machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why udev did not do it.
#[derive(Debug, thiserror::Error)]
pub enum UdevError {
    /// Its own check found fault with our rules: a mistake of ours.
    #[error(fmt = bad_rules)]
    BadRules { output: String },
    /// `udevadm`, or another program that must read what was written, ended with an error.
    #[error("{command} failed: {output}")]
    Failed { command: String, output: String },
    /// It could not be run.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// The kernel did not make an event for it.
    #[error("cannot have the kernel tell udev of {device}")]
    Event {
        device: String,
        #[source]
        source: std::io::Error,
    },
    /// No temporary file could be made for it, or no descriptor.
    #[error("cannot prepare a program that is to read what was written")]
    Io(#[source] std::io::Error),
}

fn bad_rules(output: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let details = output.lines().map(str::to_owned);
    lines_of_error(f, "udevadm finds fault with the rules:", details)
}

impl Failure for UdevError {
    fn exit_code(&self) -> u8 {
        match self {
            UdevError::Child(ChildError::Stopped) => exit::INTERRUPTED,
            _ => exit::FAILURE,
        }
    }
}

/// Where udev's daemon is: systemd's, eudev's, udev's of old.
const DAEMONS: [&str; 7] = [
    "/usr/lib/systemd/systemd-udevd",
    "/lib/systemd/systemd-udevd",
    "/usr/lib/udev/udevd",
    "/lib/udev/udevd",
    "/usr/sbin/udevd",
    "/sbin/udevd",
    "/usr/bin/udevd",
];

/// True if there is a udev that reads rules, or its database. Alpine has none unless it is asked for: its device
/// nodes are made by mdev.
pub(crate) fn is_here(host: &Host) -> bool {
    let mut places = DAEMONS.iter().map(|path| host.path(Path::new(path)));
    host.run("udev").exists() || places.any(|path| path.exists())
}

/// True if udev runs on this machine (and it is this machine that is meant).
pub(crate) fn is_running(host: &Host) -> bool {
    host.is_live() && host.run("udev/control").exists()
}

/// Has udev check rules before they are installed. Udevs before 254 cannot: nothing is said then.
pub(crate) fn verify(text: &str) -> Result<(), UdevError> {
    let Ok(help) = udevadm(&["verify", "--help"]) else {
        return Ok(());
    };
    if !help.status.success() {
        return Ok(());
    }
    let mut file = tempfile::Builder::new()
        .prefix("99-iosched-")
        .suffix(".rules")
        .tempfile()
        .map_err(UdevError::Io)?;
    file.write_all(text.as_bytes()).map_err(UdevError::Io)?;
    let path = file.path().display().to_string();
    let finished = udevadm(&["verify", "--resolve-names=never", &path])?;
    if finished.status.success() {
        return Ok(());
    }
    let output = format!("{}{}", finished.stdout, finished.stderr);
    Err(UdevError::BadRules {
        output: output.trim().to_owned(),
    })
}

/// Has udev read its rules again.
pub(crate) fn reload() -> Result<(), UdevError> {
    succeed(&["control", "--reload"])
}

/// Has udev apply its rules to these devices as at a change, and waits until it has. The kernel is asked for the
/// event: `udevadm trigger` of before systemd 218 takes no devices, and has every one of the machine changed.
pub(crate) fn trigger(host: &Host, devices: &[String]) -> Result<(), UdevError> {
    if devices.is_empty() {
        return Ok(());
    }
    let sysfs = host.sysfs();
    for device in devices {
        sysfs
            .write(device, "uevent", "change")
            .map_err(|source| UdevError::Event {
                device: device.clone(),
                source,
            })?;
    }
    succeed(&["settle", "--timeout=100"])
}

fn succeed(arguments: &[&str]) -> Result<(), UdevError> {
    run(
        &Scope::default(),
        &udevadm_command(arguments),
        PATIENCE,
        &Stop::new(),
    )
}

/// Runs a program that must succeed, within this time and until asked to stop.
pub(crate) fn run(
    scope: &Scope,
    command: &[String],
    patience: Duration,
    stop: &Stop,
) -> Result<(), UdevError> {
    let finished = start(scope, command, patience, stop)?;
    if finished.status.success() {
        return Ok(());
    }
    Err(UdevError::Failed {
        command: command.join(" "),
        output: format!(
            "{} {}",
            process::describe(finished.status),
            finished.stderr.trim()
        ),
    })
}

fn start(
    scope: &Scope,
    command: &[String],
    patience: Duration,
    stop: &Stop,
) -> Result<process::Finished, ChildError> {
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]);
    scope.run(child, patience, stop, &mut |_| {})
}

fn udevadm(arguments: &[&str]) -> Result<process::Finished, ChildError> {
    start(
        &Scope::default(),
        &udevadm_command(arguments),
        PATIENCE,
        &Stop::new(),
    )
}

fn udevadm_command(arguments: &[&str]) -> Vec<String> {
    let arguments = arguments.iter().map(|&argument| argument.to_owned());
    std::iter::once("udevadm".to_owned())
        .chain(arguments)
        .collect()
}
