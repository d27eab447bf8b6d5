//! Why a policy was not brought into force: every part's error under one roof, with its way out.

use std::io;
use std::path::PathBuf;

use iosched_machine::command_line::joined;
use iosched_machine::device::DeviceError;
use iosched_machine::failure::{Failure, NO_SYSFS, exit};
use iosched_machine::process::ChildError;
use iosched_switch::{Arm, SwitchError};

use crate::history::HistoryError;
use crate::policy::file::{self, PolicyError};
use crate::set::SetError;
use crate::system_config::files::FileError;
use crate::system_config::udev::UdevError;

/// Why it was not done. The machine is as before then.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum DeployError {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The kernel does not take it.
    #[error(transparent)]
    Set(#[from] SetError),
    /// A disk cannot be read.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    #[error(transparent)]
    Udev(#[from] UdevError),
    #[error("{error}; change {id} is made in part")]
    InPart { id: u64, error: Box<DeployError> },
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error("cannot list the block devices in /sys: {0}")]
    List(#[source] io::Error),
    /// Nothing tells the disk from others.
    #[error("{device} cannot be recognised at the next boot: {reason}")]
    NoIdentity { device: String, reason: String },
    /// It goes with its file, and its name is another file's then.
    #[error(
        "{device} cannot be recognised at the next boot: a loop device is another disk each time"
    )]
    LoopDevice { device: String, arm: Arm },
    /// After our rule another one was applied, or ours was not.
    #[error("{device}: udev made {file} {found}, not {expected}: {reason}")]
    Overridden {
        device: String,
        /// Below `/sys/block/<device>/`.
        file: String,
        found: String,
        expected: String,
        reason: &'static str,
    },
    /// No disk listens to `elevator=`.
    #[error(
        "elevator= has no effect on Linux {kernel}: no disk here is on the single-queue path, which 5.0 removed"
    )]
    DeadCommandLine { kernel: String },
    /// The disk does not listen to `elevator=`.
    #[error("elevator= does nothing for {device}, which is not on the single-queue path")]
    NotForElevator { device: String, listening: String },
    #[error("no file of a boot loader that is known here carries the kernel's command line")]
    NoBootLoader { by_hand: Vec<PathBuf> },
    #[error("TuneD does not run here")]
    NoTuned,
    #[error("no udev is installed here, and nothing else reads its rules")]
    NoUdev,
    /// An initramfs was asked for, and nothing that is known here makes one.
    #[error("none of initramfs-tools, dracut and mkinitcpio makes the initramfs here")]
    NoInitramfs,
    /// An initramfs was asked for, and what makes it reads no file of ours.
    #[error(
        "mkinitcpio reads no /etc/mkinitcpio.conf.d here: that is not there (version 38 and later have it)"
    )]
    OldMkinitcpio,
    #[error("no rule of {} is for {what}", file::PATH)]
    NoRule {
        /// A device, or what should have been a rule's name.
        what: String,
    },
}

impl Failure for DeployError {
    iosched_machine::passes_on!(DeployError: Policy, File, Device, Set, Switch, Udev, History);

    fn hint(&self) -> Option<String> {
        match self {
            DeployError::Udev(UdevError::Child(ChildError::Stopped)) => {
                Some("what was written was taken back".into())
            }
            DeployError::InPart { .. } => Some("`iosched undo` takes it back".into()),
            DeployError::List(error) => {
                (error.kind() == io::ErrorKind::NotFound).then(|| NO_SYSFS.to_owned())
            }
            DeployError::NoIdentity { .. } => Some(
                "give the disk a serial number where it is made (virtual machines), or write a \
                 rule by model or transport into the policy"
                    .into(),
            ),
            DeployError::LoopDevice { device, arm } => Some(format!(
                "set it for as long as the device is there: {}",
                joined(&arm.set_on(device))
            )),
            DeployError::Overridden { .. } => {
                Some("everything was taken back; `iosched check` names who else sets it".into())
            }
            DeployError::NoRule { .. } => Some("`iosched persist --list` shows the rules".into()),
            DeployError::DeadCommandLine { .. } => {
                Some("leave out --method: a udev rule does it, disk by disk".into())
            }
            DeployError::NotForElevator { listening, .. } => Some(format!(
                "leave out --method: a udev rule does it; elevator= is for {listening}"
            )),
            DeployError::NoBootLoader { by_hand } => {
                let names: Vec<_> = by_hand.iter().map(|path| path.display().to_string()).collect();
                let or_by_hand = match &names[..] {
                    [] => String::new(),
                    names => format!("; or put it into {} by hand", names.join(", ")),
                };
                Some(format!("a udev rule needs none: leave out --method{or_by_hand}"))
            }
            DeployError::NoUdev => Some(
                "install it (Alpine: `setup-devd udev`), or have `iosched set` run at every boot \
                 (OpenRC: a script in /etc/local.d)"
                    .into(),
            ),
            DeployError::NoInitramfs => Some(
                "leave out --initramfs: the module is loaded when the root is mounted; or name it to \
                 the program that makes the initramfs"
                    .into(),
            ),
            DeployError::OldMkinitcpio => Some(
                "put the scheduler's module into MODULES=(…) of /etc/mkinitcpio.conf, run `mkinitcpio -P`, and leave out \
                 --initramfs; or, where mkinitcpio is 38 or later, make the directory: mkdir /etc/mkinitcpio.conf.d"
                    .into(),
            ),
            DeployError::NoTuned => {
                Some("start it (systemctl enable --now tuned), or leave out --method".into())
            }
            _ => self.passes_on()?.hint(),
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            DeployError::InPart { error, .. } => error.exit_code(),
            DeployError::NoIdentity { .. }
            | DeployError::LoopDevice { .. }
            | DeployError::NoRule { .. } => exit::NO_SUCH_DEVICE,
            DeployError::Overridden { .. } => exit::NOT_TAKEN,
            DeployError::DeadCommandLine { .. }
            | DeployError::NotForElevator { .. }
            | DeployError::NoBootLoader { .. }
            | DeployError::NoInitramfs
            | DeployError::OldMkinitcpio
            | DeployError::NoUdev
            | DeployError::NoTuned => exit::MISSING,
            _ => self.passes_on().map_or(exit::FAILURE, Failure::exit_code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_passed_on_failure_knows_is_not_lost() {
        let mistyped = || DeviceError::NoSuch {
            target: "sdx".into(),
            near: vec!["sda".into()],
        };
        for error in [
            DeployError::Device(mistyped()),
            DeployError::Set(SetError::Device(mistyped())),
        ] {
            assert_eq!(error.hint(), mistyped().hint());
            assert_eq!(error.exit_code(), exit::NO_SUCH_DEVICE);
        }
        assert_eq!(DeployError::NoTuned.exit_code(), exit::MISSING);
    }
}
