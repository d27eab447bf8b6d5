//! Which schedulers a device offers, and which of them a name means.

use std::path::Path;
use std::process::Command;

use iosched_machine::device::{NoChoice, Schedulers};
use iosched_machine::sysfs::Sysfs;

use super::arm::check_scheduler_name;
use super::error::SwitchError;
use super::names::name_on;

/// The scheduler that this device can really be given when `wanted` is asked: itself, or what
/// became of an old name, after loading its module if that is what lacks.
pub fn resolve(sysfs: &Sysfs, device: &str, wanted: &str) -> Result<String, SwitchError> {
    check_scheduler_name(wanted)?;
    let offered = offered(sysfs, device)?;
    if offered.iter().any(|name| name == wanted) {
        return Ok(wanted.into());
    }
    let to_load = name_on(&offered, wanted);
    if offered.iter().any(|name| name == to_load) {
        return Ok(to_load.into());
    }
    // The modules of a copied tree are not this kernel's.
    if sysfs.root() == Path::new("/sys") {
        load_module(to_load);
    }
    let offered = self::offered(sysfs, device)?;
    if offered.iter().any(|name| name == to_load) {
        return Ok(to_load.into());
    }
    Err(not_offered(sysfs, device, wanted, offered))
}

/// That a device does not offer a scheduler, with what is known of the way to it.
pub fn not_offered(
    sysfs: &Sysfs,
    device: &str,
    scheduler: &str,
    offered: Vec<String>,
) -> SwitchError {
    SwitchError::NotOffered {
        to_blk_mq: ToBlkMq::of(sysfs, device),
        device: device.into(),
        scheduler: scheduler.into(),
        offered,
    }
}

/// How a disk on the single-queue path of Linux before 5.0 can be put on blk-mq.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToBlkMq {
    /// By `use_blk_mq` of the module that is its driver: scsi since 3.17, device-mapper since 4.0, mmc since 4.16, all to
    /// 4.20.
    Parameter(Module),
    /// By nothing: the kernel is too old, or the disk's driver has no such parameter.
    Nothing,
    /// The tree does not show the parameters of the kernel's modules.
    Unknown,
}

/// A module with the parameter `use_blk_mq`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names")]
pub enum Module {
    ScsiMod,
    DmMod,
    MmcCore,
}

impl Module {
    /// As the kernel spells it.
    pub fn name(self) -> &'static str {
        match self {
            Module::ScsiMod => "scsi_mod",
            Module::DmMod => "dm_mod",
            Module::MmcCore => "mmc_core",
        }
    }
}

impl ToBlkMq {
    /// By what this kernel has for the driver that names its disks so.
    fn of(sysfs: &Sysfs, device: &str) -> ToBlkMq {
        let drivers = [
            ("sd", Module::ScsiMod),
            ("sr", Module::ScsiMod),
            ("dm-", Module::DmMod),
            ("mmcblk", Module::MmcCore),
        ];
        let modules = sysfs.root().join("module");
        if !modules.is_dir() {
            return ToBlkMq::Unknown;
        }
        let has_it = |module: Module| {
            let parameters = modules.join(module.name()).join("parameters");
            parameters.join("use_blk_mq").exists()
        };
        match drivers.iter().find(|(name, _)| device.starts_with(name)) {
            Some(&(_, module)) if has_it(module) => ToBlkMq::Parameter(module),
            _ => ToBlkMq::Nothing,
        }
    }
}

/// The schedulers that a device offers.
pub fn offered(sysfs: &Sysfs, device: &str) -> Result<Vec<String>, SwitchError> {
    match schedulers(sysfs, device) {
        Schedulers::Choice(choice) => Ok(choice.offered),
        Schedulers::Nothing(reason) => Err(nothing(sysfs, device, &reason)),
    }
}

/// The active scheduler.
pub fn active(sysfs: &Sysfs, device: &str) -> Result<String, SwitchError> {
    match schedulers(sysfs, device) {
        Schedulers::Choice(choice) => Ok(choice.active),
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
