//! What block devices this machine has, what they stand on, and who uses them.
//!
//! Modules in the order one asks:
//!
//! - [`find()`](find::find), [`Target`]: a name, a path, a partition, a directory → a [`Device`]
//! - [`Schedulers`]: what a device offers, or why there is nothing to choose
//! - [`stack()`]: down to the disks whose scheduler matters
//! - [`users()`]: the mounts and swap that depend on a device, through the whole stack upwards
//! - [`content()`](content::content): what is written on a device (file systems, members of arrays, tables)
//! - [`openers()`](openers::openers): the processes that have it open
//! - `refusals`: every reason not to write to it
//! - [`may_write()`](may_write::may_write): whether it may be written all the same;
//!   [`may_write_file()`](may_write_file::may_write_file): whether a file may be, as a disk
//! - [`attributes()`](attributes::attributes): every tunable and queue file, with unit and default
//! - [`Inventory`]: all devices at once, in one pass, for `iosched list`
//!
//! A [`Device`] is read from sysfs once and is a value from then on. Nothing here writes, and a tree with
//! missing, unreadable or odd files gives values that are absent, never a panic.

mod attributes;
mod claim;
mod content;
mod error;
mod find;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod fixture;
mod identity;
mod inventory;
mod kind;
mod loop_file;
mod may_write;
mod may_write_file;
mod member;
pub mod mounts;
mod near;
mod node;
mod number;
mod openers;
mod overlay;
mod partition;
mod readable;
mod refusals;
mod schedulers;
mod stack;
mod transport;
mod tunables;
mod users;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use self::attributes::{Attribute, attributes, tunables_of};
pub use self::claim::{NotClaimed, Purpose, claim};
pub(crate) use self::content::blocks;
pub(crate) use self::content::label;
pub use self::content::{Blocks, Signature, SignatureClass, content};
pub use self::find::find_file_system;
pub use self::find::{FileSystem, Target, answers, find, find_to_change};
pub(crate) use self::identity::Recognition;
pub use self::identity::{BackingFile, EMULATED, EMULATED_OVER, Identity};
pub use self::inventory::{Inventory, schedulable_disks, stack, users};
pub use self::kind::DeviceKind;
pub use self::loop_file::loop_number;
pub use self::may_write::{
    Consent, Content, GivenUp, MayNotWrite, Occasion, Write, may_read_alone, may_write,
};
pub use self::may_write_file::{FileIdentity, may_read_file_alone, may_write_file};
pub use self::member::Member;
pub use self::mounts::Mount;
pub use self::node::open_exclusively;
pub use self::number::DeviceNumber;
use self::number::FileNumber;
pub use self::openers::{Opener, Openers, openers};
pub use self::readable::unreadable;
pub use self::refusals::OPENED_EXCLUSIVELY;
pub use self::refusals::Refusal;
pub use self::schedulers::{Choice, NoChoice, Schedulers};
pub use self::stack::{Layer, Role};
pub use self::transport::Transport;
pub use self::tunables::{Tunable, is_switch, tunable_schedulers, tunables};
pub use self::users::{Usage, User};

use self::identity::identify;
use self::kind::kind;
use self::partition::{disk_of_partition, is_partition_of};
use self::transport::transport;
use crate::host::Host;
use crate::sysfs::{DeviceDir, Sysfs, is_of_attribute, kernel_name, natural_order, sysfs_name};

/// A block device or partition, as the kernel describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Device {
    /// The kernel's name: `sda`, `cciss/c0d0`, `dm-3`.
    pub name: String,
    /// Major and minor number.
    pub number: DeviceNumber,
    /// What it is.
    pub kind: DeviceKind,
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
    /// What it or a partition of it is a part of, where only what is written on it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<Member>,
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
            None => read_schedulers(&dir)?,
        };
        let queues = if has("mq") {
            dir.list("mq").iter().filter(|q| is_number(q)).count()
        } else {
            usize::from(schedulers.choice().is_some())
        };
        // Without it the disk would be taken for another, which no rule is for.
        let number = match dir.try_bytes("dev") {
            Ok(text) => DeviceNumber::parse(String::from_utf8_lossy(&text).trim()),
            Err(error) if is_of_attribute(&error) => None,
            Err(error) => return Err(error),
        };
        let number = number.unwrap_or_default();
        let partitions = if whole {
            partitions(&name, &entries)
        } else {
            Vec::new()
        };
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
            member: Member::of(host, &dir, number, &partitions),
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

    /// A hypervisor's disk, by its bus or by the name that hypervisors give.
    pub fn is_virtual(&self) -> bool {
        let is_hypervisors = |name: &Option<String>| {
            name.as_ref().is_some_and(|name| {
                [
                    "QEMU",
                    "VMware",
                    "VBOX",
                    "Msft",
                    "Virtual",
                    "Amazon Elastic Block Store",
                    "nvme_card-pd", // Google's persistent disks; `nvme_card` is a drive in the host
                    "VDASD",        // of a POWER hypervisor, AIX' VIOS or IBM i
                ]
                .iter()
                .any(|known| name.starts_with(known))
            })
        };
        matches!(
            self.transport,
            Transport::Virtio | Transport::Xen | Transport::HyperV
        ) || is_hypervisors(&self.model)
            || is_hypervisors(&self.vendor)
    }

    /// Where its node is on the machine: `/dev/cciss/c0d0`.
    pub fn node(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }
}

/// Fails where it is not the device that refuses: then what it offers is unknown, and not nothing.
fn read_schedulers(dir: &DeviceDir) -> std::io::Result<Schedulers> {
    let read = match dir.try_bytes("queue/scheduler") {
        Err(error) if !is_of_attribute(&error) => return Err(error),
        read => read,
    };
    let text = read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Schedulers::of_file(text))
}

/// What stands directly on a device. The kernel links all but the head on an NVMe path.
fn holders(dir: &DeviceDir, kind: &DeviceKind) -> Vec<String> {
    let mut holders = dir.devices("holders");
    if let DeviceKind::NvmePath { head } = kind {
        holders.push(head.clone());
    }
    holders
}

/// What a device stands directly on. The kernel links all but the paths of an NVMe head: those are
/// `nvme0c1n1` for each controller 1 of the subsystem of `nvme0n1`.
fn slaves(dir: &DeviceDir, kind: &DeviceKind, name: &str) -> Vec<String> {
    let mut slaves = dir.devices("slaves");
    let numbers = name
        .strip_prefix("nvme")
        .and_then(|rest| rest.split_once('n'));
    if let (DeviceKind::NvmeHead, Some((subsystem, namespace))) = (kind, numbers) {
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

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The partitions among the entries of a disk's directory.
fn partitions(disk: &str, entries: &[String]) -> Vec<String> {
    let prefix = sysfs_name(disk);
    let entries = entries
        .iter()
        .filter(|entry| is_partition_of(entry, &prefix));
    let mut names: Vec<String> = entries.map(|entry| kernel_name(entry)).collect();
    names.sort_by(|a, b| natural_order(a, b));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(refusals::refusals(&host, &device, false), []);
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
        let error = find(&Host::at(dir.path()), "/dev/mapper/loop").unwrap_err();
        assert!(error.message.contains("no block device"), "{error}");
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        #[test]
        fn no_target_makes_the_search_panic(target in "[a-z0-9/.!\\PC ]{0,12}|\\PC*") {
            let host = fixture::machine("workstation");
            let _ = Target::find(&host, &target);
        }
    }

    #[test]
    fn every_device_of_this_machine_can_be_read_and_found_by_its_own_name() {
        let host = Host::live();
        let Ok(names) = host.sysfs().all_devices() else {
            iosched_testing::lacks("/sys");
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
