//! The running udev, through `udevadm`: check a file of rules, load it, have it applied now.

use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use iosched_machine::failure::{Problem, exit, in_a_sentence};
use iosched_machine::host::Host;
use iosched_machine::process::{self, ChildError, Scope, Stop};

/// How long `udevadm` may take. Settling waits for every event of the machine.
const SETTLING: Duration = Duration::from_secs(120);

/// How long a maker of boot files may take: images for several kernels on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1800);

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
pub(crate) fn verify(text: &str) -> Result<(), Problem> {
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
        .map_err(|error| cannot_prepare(&error))?;
    file.write_all(text.as_bytes())
        .map_err(|error| cannot_prepare(&error))?;
    let path = file.path().display().to_string();
    let finished = udevadm(&["verify", "--resolve-names=never", &path])?;
    if finished.status.success() {
        return Ok(());
    }
    let output = format!("{}{}", finished.stdout, finished.stderr);
    let output = output.trim().replace('\n', "; ");
    let message = format!("udevadm finds fault with the rules: {output}");
    Err(Problem::new(exit::FAILURE, message))
}

/// No temporary file could be made for a program, or no descriptor.
pub(crate) fn cannot_prepare(source: &io::Error) -> Problem {
    let message = format!("cannot prepare a program that is to read what was written: {source}");
    Problem::new(exit::FAILURE, message)
}

/// Has udev read its rules again.
pub(crate) fn reload() -> Result<(), Problem> {
    succeed(&["control", "--reload"])
}

/// Has udev apply its rules to these devices as at a change, and waits until it has. The kernel is asked for the
/// event: `udevadm trigger` of before systemd 218 takes no devices, and has every one of the machine changed.
pub(crate) fn trigger(host: &Host, devices: &[String]) -> Result<(), Problem> {
    if devices.is_empty() {
        return Ok(());
    }
    let sysfs = host.sysfs();
    for device in devices {
        sysfs.write(device, "uevent", "change").map_err(|source| {
            let message = format!("cannot have the kernel tell udev of {device}: {source}");
            Problem::new(exit::FAILURE, message)
        })?;
    }
    succeed(&["settle", "--timeout=100"])
}

fn succeed(arguments: &[&str]) -> Result<(), Problem> {
    let (scope, stop) = (Scope::default(), Stop::new());
    run(&scope, &udevadm_command(arguments), SETTLING, &stop).map(drop)
}

/// Runs a program that must succeed, within this time and until asked to stop.
pub(crate) fn run(
    scope: &Scope,
    command: &[String],
    patience: Duration,
    stop: &Stop,
) -> Result<process::Finished, Problem> {
    let finished = start(scope, command, patience, stop)?;
    if finished.status.success() {
        return Ok(finished);
    }
    let how = process::describe(finished.status);
    let message = format!(
        "{} failed: {how} {}",
        command.join(" "),
        finished.stderr.trim()
    );
    Err(Problem::new(exit::FAILURE, message))
}

fn start(
    scope: &Scope,
    command: &[String],
    patience: Duration,
    stop: &Stop,
) -> Result<process::Finished, Problem> {
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]);
    let finished = scope.run(child, patience, stop, &mut |_| {});
    finished.map_err(|error| match error {
        ChildError::Stopped => stopped(),
        error => Problem::new(exit::FAILURE, in_a_sentence(&error)),
    })
}

/// The user wants no more of it.
pub(crate) fn stopped() -> Problem {
    Problem::new(exit::INTERRUPTED, ChildError::Stopped.to_string())
}

fn udevadm(arguments: &[&str]) -> Result<process::Finished, Problem> {
    let (scope, stop) = (Scope::default(), Stop::new());
    start(&scope, &udevadm_command(arguments), SETTLING, &stop)
}

fn udevadm_command(arguments: &[&str]) -> Vec<String> {
    let words = std::iter::once("udevadm").chain(arguments.iter().copied());
    words.map(str::to_owned).collect()
}
