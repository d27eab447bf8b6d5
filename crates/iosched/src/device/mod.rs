//! What block devices this machine has, what they stand on, and who uses them.
//!
//! Modules in the order one asks:
//!
//! - [`find()`](find::find), [`Target`]: a name, a path, a partition, a directory → a [`Device`]
//! - [`Schedulers`]: what a device offers, or why there is nothing to choose
//! - [`stack()`](stack::stack): down to the disks whose scheduler matters
//! - [`users()`](users::users): the mounts and swap that depend on a device, through the whole stack upwards
//! - [`content()`](content::content): what is written on a device (file systems, members of arrays, tables)
//! - [`refusals()`](refusals::refusals): every reason not to write to it
//! - [`attributes()`](attributes::attributes): every tunable and queue file, with unit and default
//! - [`Inventory`]: all devices at once, in one pass, for `iosched list`
//!
//! A [`Device`] is read from sysfs once and is a value from then on. Nothing here writes, and a tree with
//! missing, unreadable or odd files gives values that are absent, never a panic.

mod attributes;
mod content;
mod error;
mod find;
mod inventory;
mod mounts;
mod near;
mod node;
mod refusals;
mod schedulers;
mod stack;
#[cfg(test)]
mod testing;
mod users;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

pub use self::attributes::{Attribute, attributes};
pub use self::content::{Signature, SignatureClass, content};
pub use self::error::{BadName, DeviceError};
pub use self::find::{FileSystem, Target, find, find_file_system};
pub use self::inventory::Inventory;
pub use self::mounts::Mount;
pub use self::refusals::{Refusal, refusals};
pub use self::schedulers::{Choice, NoChoice, Schedulers};
pub use self::stack::{Layer, Role, schedulable_disks, stack};
pub use self::users::{Usage, User, users};
use crate::host::Host;
use crate::sysfs::{DeviceDir, Sysfs, kernel_name, natural_order, sysfs_name};

/// A block device or partition, as the kernel describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Device {
    /// The kernel's name: `sda`, `cciss/c0d0`, `dm-3`.
    pub name: String,
    /// Major and minor number.
    pub number: DeviceNumber,
    /// What it is.
    pub kind: Kind,
    /// The name people gave it: the device-mapper name (`vg0-root`).
    pub alias: Option<String>,
    /// The product's name, as the device says it.
    pub model: Option<String>,
    /// Who made it, as the device says it (`ATA` for most SATA disks).
    pub vendor: Option<String>,
    /// The serial number; virtio and loop disks may have none.
    pub serial: Option<String>,
    /// The world-wide name or a similar identifier that no two devices share.
    pub wwn: Option<String>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// How it is attached.
    pub transport: Transport,
    /// Rotational *as reported*: USB flash and virtio say yes, and it is writable.
    pub rotational: Option<bool>,
    /// True if the kernel refuses writes to it.
    pub read_only: bool,
    /// True for media that can be taken out.
    pub removable: bool,
    /// Zone model of a zoned disk (`host-managed`, `host-aware`); absent for ordinary disks.
    pub zoned: Option<String>,
    /// Schedulers offered and active, or why there is none to choose.
    pub schedulers: Schedulers,
    /// Hardware queues (1 in kernels' legacy path); absent where there are none.
    pub hardware_queues: Option<u32>,
    /// Requests the device takes at once: the SCSI queue depth, or the tags of a hardware queue.
    pub queue_depth: Option<u32>,
    /// Requests the block layer holds: `queue/nr_requests`.
    pub nr_requests: Option<u32>,
    /// The whole disk, for a partition.
    pub disk: Option<String>,
    /// Its partitions.
    pub partitions: Vec<String>,
    /// Devices that stand on it: md, LVM, crypt, multipath, bcache, an NVMe head on its path.
    pub holders: Vec<String>,
    /// Devices that it stands on.
    pub slaves: Vec<String>,
    /// The file behind a loop device.
    pub backing_file: Option<PathBuf>,
}

/// Major and minor number; `8:0` in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct DeviceNumber {
    /// The driver's number.
    pub major: u32,
    /// The device's number with its driver.
    pub minor: u32,
}

/// What a device is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A whole disk of any sort that is not below.
    Disk,
    /// A partition of a disk.
    Partition,
    /// Linux software RAID.
    MdRaid {
        /// `raid1`, `raid5`, `linear` …; absent while it is not running.
        level: Option<String>,
    },
    /// A logical volume (device mapper, by the prefix of its uuid).
    Lvm,
    /// An encrypted volume.
    Crypt,
    /// Several paths to one disk, joined by the device mapper.
    Multipath,
    /// Another device-mapper device, with the prefix of its uuid (`DMRAID`, `part1`, `VDO` …).
    DeviceMapper {
        /// What its uuid begins with; absent where it has none.
        prefix: Option<String>,
    },
    /// A file, or another device, served as a disk.
    Loop,
    /// Compressed memory.
    Zram,
    /// Memory (`ram0`, `pmem0`).
    Memory,
    /// The head of an NVMe disk that may have several paths.
    NvmeHead,
    /// One path to an NVMe disk: hidden, without a node in `/dev`.
    NvmePath {
        /// The name of its head.
        head: String,
    },
    /// A disk with a cache before it.
    Bcache,
    /// A disk mirrored over the network.
    Drbd,
    /// A disk served over the network (`nbd`, `rbd`).
    Network,
    /// A CD, DVD or BD drive.
    Optical,
    /// A floppy drive.
    Floppy,
}

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

impl Device {
    /// Reads a device from sysfs by its kernel name.
    pub fn read(host: &Host, name: &str) -> std::io::Result<Device> {
        Device::read_with(host, &host.sysfs(), name)
    }

    fn read_with(host: &Host, sysfs: &Sysfs, name: &str) -> std::io::Result<Device> {
        let dir = sysfs.open_device(name)?;
        let name = kernel_name(&sysfs_name(name));
        let entries = dir.list(".");
        let has = |entry: &str| entries.iter().any(|e| e == entry);

        let disk = has("partition").then(|| disk_of_partition(dir.location(), &name));
        let kind = kind(&dir, &name, disk.is_some(), &entries);
        let whole = disk.is_none();
        let has_parent = has("device");
        let schedulers = match &disk {
            Some(disk) => Schedulers::Nothing(NoChoice::Partition { disk: disk.clone() }),
            None => read_schedulers(&dir),
        };
        let queues = if has("mq") {
            dir.list("mq").iter().filter(|q| is_number(q)).count()
        } else {
            usize::from(schedulers.choice().is_some())
        };
        let number = dir
            .text("dev")
            .and_then(|text| DeviceNumber::parse(&text))
            .unwrap_or_default();
        let mut partitions: Vec<String> = if whole {
            let prefix = sysfs_name(&name);
            entries
                .iter()
                .filter(|entry| is_partition_of(entry, &prefix))
                .map(|entry| kernel_name(entry))
                .collect()
        } else {
            Vec::new()
        };
        partitions.sort_by(|a, b| natural_order(a, b));

        let mut device = Device {
            alias: has("dm").then(|| dir.text("dm/name")).flatten(),
            model: None,
            vendor: None,
            serial: None,
            wwn: None,
            size_bytes: dir.number("size").unwrap_or(0).saturating_mul(512),
            transport: transport(&dir, &kind, has_parent),
            rotational: whole.then(|| dir.flag("queue/rotational")).flatten(),
            read_only: dir.flag("ro").unwrap_or(false),
            removable: whole && dir.flag("removable").unwrap_or(false),
            zoned: whole
                .then(|| dir.text("queue/zoned"))
                .flatten()
                .filter(|zoned| zoned != "none"),
            hardware_queues: u32::try_from(queues).ok().filter(|&queues| queues > 0),
            queue_depth: has_parent
                .then(|| dir.number("device/queue_depth"))
                .flatten()
                .or_else(|| has("mq").then(|| dir.number("mq/0/nr_tags")).flatten())
                .and_then(|depth| u32::try_from(depth).ok()),
            nr_requests: whole
                .then(|| dir.number("queue/nr_requests"))
                .flatten()
                .and_then(|requests| u32::try_from(requests).ok()),
            holders: holders(&dir, &kind),
            slaves: if whole {
                slaves(&dir, &kind, &name)
            } else {
                Vec::new()
            },
            backing_file: has("loop")
                .then(|| dir.text("loop/backing_file"))
                .flatten()
                .map(PathBuf::from),
            name,
            number,
            kind,
            schedulers,
            disk,
            partitions,
        };
        if whole {
            identify(&mut device, host, &dir, has_parent, &entries);
        }
        Ok(device)
    }

    /// True for a partition.
    pub fn is_partition(&self) -> bool {
        self.kind == Kind::Partition
    }

    /// Where its node is on the machine: `/dev/cciss/c0d0`.
    pub fn node(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }
}

/// Model, vendor, serial number and world-wide name, wherever this sort of device keeps them.
fn identify(device: &mut Device, host: &Host, dir: &DeviceDir, has_parent: bool, own: &[String]) {
    let own = |file: &str| {
        own.iter()
            .any(|entry| entry == file)
            .then(|| dir.text(file))
            .flatten()
    };
    device.wwn = own("wwid");
    device.serial = own("serial"); // virtio
    if !has_parent {
        return;
    }
    let parent = dir.list("device");
    let parents = |file: &str| {
        parent
            .iter()
            .any(|entry| entry == file)
            .then(|| dir.text(&format!("device/{file}")))
            .flatten()
    };
    device.model = parents("model");
    if device.model.is_none() && device.transport == Transport::Mmc {
        device.model = parents("name"); // an SD card's model is its name
    }
    // virtio's vendor is a PCI number.
    device.vendor = parents("vendor").filter(|vendor| !vendor.starts_with("0x"));
    device.wwn = device.wwn.take().or_else(|| parents("wwid"));
    // NVMe and MMC have a file for it, SCSI a page.
    device.serial = device
        .serial
        .take()
        .or_else(|| parents("serial"))
        .or_else(|| vpd_serial(&dir.bytes("device/vpd_pg80")?));
    if device.serial.is_none() || device.wwn.is_none() {
        let DeviceNumber { major, minor } = device.number;
        let Ok(record) = std::fs::read(host.run(&format!("udev/data/b{major}:{minor}"))) else {
            return;
        };
        let record = String::from_utf8_lossy(&record);
        let property = |name: &str| {
            record
                .lines()
                .find_map(|line| {
                    line.strip_prefix("E:")?
                        .strip_prefix(name)?
                        .strip_prefix('=')
                })
                .filter(|value| !value.is_empty())
                .map(str::to_owned)
        };
        if device.serial.is_none() {
            device.serial = property("ID_SERIAL_SHORT").or_else(|| property("ID_SERIAL"));
        }
        if device.wwn.is_none() {
            device.wwn = property("ID_WWN");
        }
    }
}

/// The serial number in the SCSI page 0x80: a header of four bytes, the last two the length.
fn vpd_serial(page: &[u8]) -> Option<String> {
    let length = usize::from(u16::from_be_bytes([*page.get(2)?, *page.get(3)?]));
    let text = String::from_utf8_lossy(page.get(4..)?.get(..length)?)
        .trim_matches(|c: char| c.is_whitespace() || c == '\0')
        .to_owned();
    (!text.is_empty()).then_some(text)
}

fn read_schedulers(dir: &DeviceDir) -> Schedulers {
    let read = dir.try_bytes("queue/scheduler");
    Schedulers::of_file(read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// What a device is, by the directories that its driver adds and by its name.
fn kind(dir: &DeviceDir, name: &str, is_partition: bool, entries: &[String]) -> Kind {
    let has = |entry: &str| entries.iter().any(|e| e == entry);
    if is_partition {
        return Kind::Partition;
    }
    if has("dm") {
        return device_mapper_kind(dir.text("dm/uuid").as_deref());
    }
    if has("md") {
        return Kind::MdRaid {
            level: dir.text("md/level"),
        };
    }
    if let Some(head) = nvme_head_of(name) {
        return Kind::NvmePath { head };
    }
    if name.starts_with("nvme") && in_subsystem(dir.location()) {
        return Kind::NvmeHead;
    }
    let (driver, rest) = name.split_at(
        name.find(|c: char| c.is_ascii_digit())
            .unwrap_or(name.len()),
    );
    match driver {
        "loop" => Kind::Loop,
        "zram" => Kind::Zram,
        "ram" | "pmem" => Kind::Memory,
        "bcache" => Kind::Bcache,
        "drbd" => Kind::Drbd,
        "nbd" | "rbd" => Kind::Network,
        "sr" if is_number(rest) => Kind::Optical,
        "fd" if is_number(rest) => Kind::Floppy,
        _ => Kind::Disk,
    }
}

/// What a device-mapper device is: the part of its uuid before the first `-` says who made it.
fn device_mapper_kind(uuid: Option<&str>) -> Kind {
    let prefix = uuid
        .and_then(|uuid| uuid.split_once('-'))
        .map(|(prefix, _)| prefix);
    match prefix {
        Some("LVM") => Kind::Lvm,
        Some("CRYPT") => Kind::Crypt,
        Some("mpath") => Kind::Multipath,
        other => Kind::DeviceMapper {
            prefix: other.map(str::to_owned),
        },
    }
}

/// The head of an NVMe path: `nvme0n1` for `nvme0c1n1` (subsystem 0, controller 1, namespace 1).
fn nvme_head_of(name: &str) -> Option<String> {
    let rest = name.strip_prefix("nvme")?;
    let (subsystem, rest) = rest.split_once('c')?;
    let (controller, namespace) = rest.split_once('n')?;
    [subsystem, controller, namespace]
        .iter()
        .all(|part| is_number(part))
        .then(|| format!("nvme{subsystem}n{namespace}"))
}

/// What stands directly on a device. The kernel links all but the head on an NVMe path.
fn holders(dir: &DeviceDir, kind: &Kind) -> Vec<String> {
    let mut holders = dir.devices("holders");
    if let Kind::NvmePath { head } = kind {
        holders.push(head.clone());
    }
    holders
}

/// What a device stands directly on. The kernel links all but the paths of an NVMe head: those are
/// `nvme0c1n1` for each controller 1 of the subsystem of `nvme0n1`.
fn slaves(dir: &DeviceDir, kind: &Kind, name: &str) -> Vec<String> {
    let mut slaves = dir.devices("slaves");
    let numbers = name
        .strip_prefix("nvme")
        .and_then(|rest| rest.split_once('n'));
    if let (Kind::NvmeHead, Some((subsystem, namespace))) = (kind, numbers) {
        for entry in dir.list("device") {
            if let Some(controller) = entry.strip_prefix("nvme")
                && is_number(controller)
            {
                let path = format!("nvme{subsystem}c{controller}n{namespace}");
                if dir.has(&format!("device/{entry}/{path}")) {
                    slaves.push(path);
                }
            }
        }
        slaves.sort_by(|a, b| natural_order(a, b));
    }
    slaves
}

/// True for a device that hangs from an NVMe subsystem, not from one controller.
fn in_subsystem(location: &Path) -> bool {
    location
        .parent()
        .and_then(Path::file_name)
        .is_some_and(|parent| parent.to_string_lossy().starts_with("nvme-subsys"))
}

/// How a device is attached, by the directories it lies below.
fn transport(dir: &DeviceDir, kind: &Kind, has_parent: bool) -> Transport {
    match kind {
        Kind::NvmePath { .. } | Kind::NvmeHead => return nvme_transport(dir),
        Kind::MdRaid { .. }
        | Kind::Lvm
        | Kind::Crypt
        | Kind::Multipath
        | Kind::DeviceMapper { .. }
        | Kind::Loop
        | Kind::Zram
        | Kind::Memory
        | Kind::Bcache
        | Kind::Drbd
        | Kind::Network => return Transport::Virtual,
        Kind::Disk | Kind::Partition | Kind::Optical | Kind::Floppy => {}
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

/// The disk that a partition lies on: the directory above its own, or its name without the number.
fn disk_of_partition(location: &Path, name: &str) -> String {
    let above = location
        .parent()
        .and_then(Path::file_name)
        .map(|disk| kernel_name(&disk.to_string_lossy()))
        .filter(|disk| is_partition_of(&sysfs_name(name), &sysfs_name(disk)));
    above.unwrap_or_else(|| {
        let disk = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let before = disk.strip_suffix('p').unwrap_or(disk);
        // `nvme0n1p2` is on `nvme0n1`, but `sdp2` is on `sdp`.
        if before.ends_with(|c: char| c.is_ascii_digit()) {
            before.to_owned()
        } else {
            disk.to_owned()
        }
    })
}

/// True if `name` is `disk` and a partition number, with a `p` between them if the disk's name ends
/// with a digit.
fn is_partition_of(name: &str, disk: &str) -> bool {
    name.strip_prefix(disk).is_some_and(|rest| {
        let rest = if disk.ends_with(|c: char| c.is_ascii_digit()) {
            rest.strip_prefix('p').unwrap_or("")
        } else {
            rest
        };
        is_number(rest)
    })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl DeviceNumber {
    /// From the number as `stat(2)` gives it.
    pub fn of_raw(raw: u64) -> DeviceNumber {
        DeviceNumber {
            major: rustix::fs::major(raw),
            minor: rustix::fs::minor(raw),
        }
    }

    /// Parses `8:0`.
    pub fn parse(text: &str) -> Option<DeviceNumber> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(DeviceNumber {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl Serialize for DeviceNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// In a few words: `raid1`, `LVM`, `NVMe path of nvme0n1`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Disk => f.write_str("disk"),
            Kind::Partition => f.write_str("partition"),
            Kind::MdRaid { level: Some(level) } => write!(f, "md {level}"),
            Kind::MdRaid { level: None } => f.write_str("md raid"),
            Kind::Lvm => f.write_str("LVM"),
            Kind::Crypt => f.write_str("crypt"),
            Kind::Multipath => f.write_str("multipath"),
            Kind::DeviceMapper {
                prefix: Some(prefix),
            } => write!(f, "dm {prefix}"),
            Kind::DeviceMapper { prefix: None } => f.write_str("dm"),
            Kind::Loop => f.write_str("loop"),
            Kind::Zram => f.write_str("zram"),
            Kind::Memory => f.write_str("memory"),
            Kind::NvmeHead => f.write_str("NVMe head"),
            Kind::NvmePath { head } => write!(f, "NVMe path of {head}"),
            Kind::Bcache => f.write_str("bcache"),
            Kind::Drbd => f.write_str("DRBD"),
            Kind::Network => f.write_str("network disk"),
            Kind::Optical => f.write_str("optical"),
            Kind::Floppy => f.write_str("floppy"),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_name_tells_its_disk() {
        for (partition, disk) in [
            ("sda1", "sda"),
            ("sdp12", "sdp"),
            ("nvme0n1p2", "nvme0n1"),
            ("cciss/c0d0p1", "cciss/c0d0"),
            ("mmcblk0p1", "mmcblk0"),
            ("md0p1", "md0"),
        ] {
            assert_eq!(disk_of_partition(Path::new(""), partition), disk);
            assert!(is_partition_of(&sysfs_name(partition), &sysfs_name(disk)));
        }
        assert!(!is_partition_of("sdab", "sda"));
        assert!(!is_partition_of("loop10", "loop1"));
        assert!(!is_partition_of("sda", "sda"));
    }

    #[test]
    fn an_nvme_path_tells_its_head() {
        assert_eq!(nvme_head_of("nvme0c1n2").as_deref(), Some("nvme0n2"));
        assert_eq!(nvme_head_of("nvme0n1"), None);
        assert_eq!(nvme_head_of("nvme0c1"), None);
        assert_eq!(nvme_head_of("nvmecn"), None);
    }

    #[test]
    fn a_serial_page_that_is_cut_short_has_no_serial() {
        assert_eq!(vpd_serial(b"\0\x80\0\x04AB12").as_deref(), Some("AB12"));
        assert_eq!(vpd_serial(b"\0\x80\0\x08AB12"), None);
        assert_eq!(vpd_serial(b"\0\x80"), None);
        assert_eq!(vpd_serial(b"\0\x80\0\x02  "), None);
    }

    #[test]
    fn odd_files_where_attributes_should_be_give_values_that_are_absent() {
        let dir = tempfile::tempdir().unwrap();
        let sda = dir.path().join("sys/block/sda");
        let write = |file: &str, bytes: &[u8]| {
            let file = sda.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, bytes).unwrap();
        };
        write("dev", b"eight:zero");
        write("size", b"-1");
        write("ro", b"");
        write("queue/scheduler", b"\xff\xfe [bfq");
        write("queue/nr_requests", b"99999999999999999999");
        write("device/model", b"\xff\0 \n");
        write("mq/x/nr_tags", b"1");
        std::fs::create_dir_all(sda.join("queue/rotational")).unwrap();
        // Opens, and cannot be read: as wbt_lat_usec where no throttling is attached.
        std::os::unix::fs::symlink("/proc/self/mem", sda.join("queue/wbt_lat_usec")).unwrap();
        std::os::unix::fs::symlink("nowhere", sda.join("queue/zoned")).unwrap();
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        std::fs::write(dir.path().join("proc/self/mountinfo"), b"\xff - \n").unwrap();
        let host = Host::at(dir.path());
        let device = find(&host, "sda").unwrap();
        assert_eq!(device.number, DeviceNumber::default());
        assert_eq!(device.size_bytes, 0);
        assert_eq!(device.rotational, None);
        assert_eq!(device.nr_requests, None);
        assert_eq!(device.zoned, None);
        assert!(matches!(
            device.schedulers,
            Schedulers::Nothing(NoChoice::NotUnderstood { .. })
        ));
        let attributes = attributes(&host, &device);
        let of = |path: &str| attributes.iter().find(|attribute| attribute.path == path);
        assert!(of("queue/rotational").is_none(), "a directory");
        assert!(of("queue/wbt_lat_usec").unwrap().error.is_some());
        assert!(of("queue/zoned").unwrap().error.is_some());
        assert_eq!(users(&host, &device), []);
        assert_eq!(refusals(&host, &device), []);
        assert_eq!(Inventory::read(&host).unwrap().devices, [device]);
    }

    #[test]
    fn a_tree_that_goes_in_circles_is_walked_once() {
        let dir = tempfile::tempdir().unwrap();
        for (name, other) in [("dm-0", "dm-1"), ("dm-1", "dm-0"), ("dm-2", "dm-2")] {
            let dm = dir.path().join("sys/block").join(name);
            for links in ["slaves", "holders"] {
                std::fs::create_dir_all(dm.join(links)).unwrap();
                std::fs::write(dm.join(links).join(other), "").unwrap();
            }
        }
        let host = Host::at(dir.path());
        for (name, layers) in [("dm-0", 2), ("dm-2", 1)] {
            let device = find(&host, name).unwrap();
            assert_eq!(stack(&host, &device).unwrap().len(), layers);
            assert_eq!(users(&host, &device), []);
        }
    }

    #[test]
    fn a_link_in_dev_that_points_at_itself_is_no_device() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("dev/mapper")).unwrap();
        std::os::unix::fs::symlink("loop", dir.path().join("dev/mapper/loop")).unwrap();
        assert!(matches!(
            find(&Host::at(dir.path()), "/dev/mapper/loop"),
            Err(DeviceError::NoSuch { .. })
        ));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        #[test]
        fn no_target_makes_the_search_panic(target in "[a-z0-9/.!\\PC ]{0,12}|\\PC*") {
            let host = testing::machine("workstation");
            let _ = Target::find(&host, &target);
        }

        #[test]
        fn no_table_makes_the_parsers_of_mounts_and_swap_panic(
            text in proptest::collection::vec(
                proptest::prop_oneof![
                    proptest::prelude::any::<u8>(),
                    proptest::sample::select(b" \\0123456789:-/\n".to_vec()),
                ],
                0..300,
            ),
        ) {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
            std::fs::write(dir.path().join("proc/self/mountinfo"), &text).unwrap();
            std::fs::write(dir.path().join("proc/swaps"), &text).unwrap();
            Usage::read(&Host::at(dir.path()));
        }
    }

    #[test]
    fn every_device_of_this_machine_can_be_read_and_found_by_its_own_name() {
        let host = Host::live();
        let Ok(names) = host.sysfs().all_devices() else {
            eprintln!("SKIPPED: needs /sys");
            return;
        };
        for name in names {
            if name.starts_with("loop") {
                continue; // other tests attach and detach these meanwhile
            }
            let device = Device::read(&host, &name).unwrap();
            assert_eq!(device.name, name);
            assert_eq!(find(&host, &name).unwrap(), device);
            let node = device.node();
            if node.exists() {
                assert_eq!(find(&host, node.to_str().unwrap()).unwrap(), device);
            }
            users(&host, &device);
            assert_eq!(stack(&host, &device).unwrap()[0].device, device);
        }
    }
}
