//! How a device is attached: by the directories it lies below.

use std::fmt;

use serde::Serialize;

use super::is_number;
use super::kind::DeviceKind;
use crate::sysfs::DeviceDir;

/// How a device is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Serial ATA (or parallel, on old machines: the kernel's library is the same).
    Sata,
    /// Serial-attached SCSI.
    Sas,
    /// NVMe over PCI Express.
    Nvme,
    /// NVMe over TCP, RDMA or Fibre Channel.
    NvmeFabrics,
    /// USB.
    Usb,
    /// A hypervisor's virtio-blk or virtio-scsi.
    Virtio,
    /// Xen's virtual disks.
    Xen,
    /// Hyper-V's virtual disks.
    HyperV,
    /// Fibre Channel.
    FibreChannel,
    /// SCSI over a network.
    Iscsi,
    /// SD card or eMMC.
    Mmc,
    /// Universal Flash Storage.
    Ufs,
    /// A RAID controller's own driver (`cciss`, `DAC960`).
    RaidController,
    /// SCSI, and nothing more is known.
    Scsi,
    /// None: the device is made by software.
    Virtual,
    /// Not known.
    Unknown,
}

/// How a device is attached, by the directories it lies below.
pub(super) fn transport(dir: &DeviceDir, kind: &DeviceKind, has_parent: bool) -> Transport {
    match kind {
        DeviceKind::NvmePath { .. } | DeviceKind::NvmeHead => return nvme_transport(dir),
        DeviceKind::MdRaid { .. }
        | DeviceKind::Lvm
        | DeviceKind::Crypt
        | DeviceKind::Multipath
        | DeviceKind::DeviceMapper { .. }
        | DeviceKind::Loop
        | DeviceKind::Zram
        | DeviceKind::Memory
        | DeviceKind::Bcache
        | DeviceKind::Zvol
        | DeviceKind::Drbd
        | DeviceKind::Network => return Transport::Virtual,
        DeviceKind::Disk | DeviceKind::Partition | DeviceKind::Optical | DeviceKind::Floppy => {}
    }
    let numbered = |part: &str, prefix: &str| part.strip_prefix(prefix).is_some_and(is_number);
    // From the root down the first bus that says something wins: what lies behind USB is a USB disk.
    let mut found = Transport::Unknown;
    for part in dir.location() {
        let part = part.to_string_lossy();
        let here = if numbered(&part, "usb") {
            Transport::Usb
        } else if numbered(&part, "virtio") {
            Transport::Virtio
        } else if part.starts_with("end_device-") {
            Transport::Sas
        } else if part.starts_with("rport-") {
            Transport::FibreChannel
        } else if numbered(&part, "session") {
            Transport::Iscsi
        } else if numbered(&part, "ata") {
            Transport::Sata
        } else if part == "nvme" || part == "nvme-fabrics" {
            return nvme_transport(dir);
        } else if part == "mmc_host" {
            Transport::Mmc
        } else if part.starts_with("vbd-") {
            Transport::Xen
        } else if part.to_ascii_lowercase().starts_with("vmbus") {
            Transport::HyperV
        } else if part.contains("ufs") {
            Transport::Ufs
        } else if numbered(&part, "cciss") {
            Transport::RaidController
        } else if numbered(&part, "host") {
            Transport::Scsi
        } else {
            continue;
        };
        if matches!(found, Transport::Unknown | Transport::Scsi) {
            found = here;
        }
    }
    match found {
        Transport::Unknown if !has_parent && dir.location().iter().any(|p| p == "virtual") => {
            Transport::Virtual
        }
        Transport::Unknown if has_parent && dir.has("device/scsi_level") => Transport::Scsi,
        found => found,
    }
}

fn nvme_transport(dir: &DeviceDir) -> Transport {
    match dir.text("device/transport").as_deref() {
        None | Some("pcie") => Transport::Nvme,
        Some(_) => Transport::NvmeFabrics,
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Sata => "sata",
            Transport::Sas => "sas",
            Transport::Nvme => "nvme",
            Transport::NvmeFabrics => "nvme-of",
            Transport::Usb => "usb",
            Transport::Virtio => "virtio",
            Transport::Xen => "xen",
            Transport::HyperV => "hyper-v",
            Transport::FibreChannel => "fc",
            Transport::Iscsi => "iscsi",
            Transport::Mmc => "mmc",
            Transport::Ufs => "ufs",
            Transport::RaidController => "raid",
            Transport::Scsi => "scsi",
            Transport::Virtual => "virtual",
            Transport::Unknown => "-",
        })
    }
}
