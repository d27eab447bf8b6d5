//! The way from the single-queue path to blk-mq, on kernels that have both.

use iosched_machine::sysfs::Sysfs;

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
    pub(crate) fn name(self) -> &'static str {
        match self {
            Module::ScsiMod => "scsi_mod",
            Module::DmMod => "dm_mod",
            Module::MmcCore => "mmc_core",
        }
    }
}

impl ToBlkMq {
    /// By what this kernel has for the driver that names its disks so.
    pub(super) fn of(sysfs: &Sysfs, device: &str) -> ToBlkMq {
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
