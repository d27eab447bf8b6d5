//! What tells a device from others of its kind: model, serial number, world-wide name; and by which of
//! these a device is known again.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::Device;
use super::loop_file::{Below, below_loop, of_file};
use super::mounts::MountTable;
use super::number::DeviceNumber;
use super::transport::Transport;
use crate::host::Host;
use crate::regular_file;
use crate::sysfs::DeviceDir;

/// What tells a device from every other, so that it is known again after its name went to another one.
///
/// For a partition: that of its disk, and where it begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The product's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The serial number, from whatever file has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// The world-wide name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// The identifier that device mapper keeps for LVM, crypt and multipath.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dm_uuid: Option<String>,
    /// A device-mapper table stands between it and its disks: another may be loaded while the device stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_mapped: bool,
    /// The file behind a loop device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<BackingFile>,
    /// Size of the device itself.
    pub size_bytes: u64,
    /// Where it begins on its disk, in sectors of 512 bytes, if it is a partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_sector: Option<u64>,
    /// The boot of the kernel in which `diskseq` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The kernel's count of disks and media when this one came (Linux 5.15).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diskseq: Option<u64>,
}

/// The file behind a loop device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackingFile {
    /// The number of the device that the file is on.
    pub device: u64,
    /// Its inode, which another file may get after it was removed.
    pub inode: u64,
    /// When it was made, ns since 1970, where the file system keeps that.
    pub created_ns: Option<u64>,
    /// Where in the file the device begins; not in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_bytes: Option<u64>,
    /// How much of the file it has at the most; 0 for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
}

/// What became of a device that was known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Recognition {
    /// It is the same.
    Same,
    /// It is another one: in what they differ.
    Another(String),
    /// Nothing differs, and nothing proves that it is the same.
    Unknown,
}

impl Identity {
    /// Of a device of this machine.
    pub(crate) fn of(host: &Host, device: &Device) -> Identity {
        let whole = match &device.disk {
            Some(disk) => Device::read(host, disk).ok(),
            None => None,
        };
        let disk = whole.as_ref().unwrap_or(device);
        let sysfs = host.sysfs();
        let dir = sysfs.open_device(&disk.name).ok();
        let partition = sysfs.open_device(&device.name).ok();
        Identity {
            model: disk.model.clone(),
            serial: disk.serial.clone(),
            wwn: disk.wwn.clone(),
            dm_uuid: dir.as_ref().and_then(|dir| dir.text("dm/uuid")),
            is_mapped: is_mapped(host, disk),
            file: disk.backing_file.as_ref().and_then(|file| {
                // A file of a FUSE server that hangs would make us hang.
                let part = ["loop/offset", "loop/sizelimit"].map(|part| dir.as_ref()?.number(part));
                let is_asked = !is_on_fuse(host, file);
                is_asked
                    .then(|| BackingFile::of(host, disk, file, part))
                    .flatten()
            }),
            size_bytes: device.size_bytes,
            start_sector: partition
                .filter(|_| device.disk.is_some())
                .and_then(|partition| partition.number("start")),
            boot_id: host.boot_id().ok().flatten(),
            diskseq: dir.as_ref().and_then(|dir| dir.number("diskseq")),
        }
    }

    /// Whether `now` is the device that this is the identity of. What only one of them says proves
    /// nothing.
    pub(crate) fn recognise(&self, now: &Identity) -> Recognition {
        let texts = [
            ("model", &self.model, &now.model),
            ("serial number", &self.serial, &now.serial),
            ("world-wide name", &self.wwn, &now.wwn),
            ("device-mapper UUID", &self.dm_uuid, &now.dm_uuid),
        ];
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let size = |of: &Identity| Some(of.size_bytes.to_string());
        let numbers = [
            ("size in bytes", &size(self), &size(now)),
            (
                "first sector",
                &number(self.start_sector),
                &number(now.start_sector),
            ),
        ];
        for (what, then, now) in texts.into_iter().chain(numbers) {
            if let (Some(then), Some(now)) = (then, now)
                && then != now
            {
                return Recognition::Another(format!("{what} {then} then, {now} now"));
            }
        }
        if let (Some(then), Some(now)) = (self.file, now.file)
            && let Some(difference) = then.difference(now)
        {
            return Recognition::Another(difference.to_owned());
        }
        // The model is no proof: others of its kind have it too. Nor is an identifier that somebody gave a table.
        let is_given = |what: &str, name: &Option<String>| {
            let name = name.as_deref().unwrap_or_default();
            what == "device-mapper UUID" && !OF_WHAT_IT_MAPS.iter().any(|of| name.starts_with(of))
        };
        let names_it = texts[1..]
            .iter()
            .any(|(what, then, now)| then.is_some() && then == now && !is_given(what, then));
        // That they differ is asked above.
        let is_dated = |file: Option<BackingFile>| file.is_some_and(|of| of.created_ns.is_some());
        let has_its_file = is_dated(self.file) && is_dated(now.file);
        let never_left = !now.is_mapped
            && self.diskseq.is_some()
            && self.boot_id.is_some()
            && (&self.diskseq, &self.boot_id) == (&now.diskseq, &now.boot_id);
        if names_it || has_its_file || never_left {
            Recognition::Same
        } else {
            Recognition::Unknown
        }
    }
}

/// How the device-mapper UUIDs begin that are made from what the table maps: a logical volume, a LUKS header, the
/// world-wide name of a multipath disk.
const OF_WHAT_IT_MAPS: [&str; 3] = ["LVM-", "CRYPT-LUKS", "mpath-"];

/// True for a device of device mapper and for what stands on one. Not seen is a loop device whose file lies on one.
fn is_mapped(host: &Host, device: &Device) -> bool {
    let mut next = vec![device.clone()];
    let mut seen = Vec::new();
    while let Some(device) = next.pop() {
        if host
            .sysfs()
            .open_device(&device.name)
            .is_ok_and(|dir| dir.has("dm"))
        {
            return true;
        }
        let below = device.slaves.iter().chain(&device.disk);
        let below = below.filter(|name| !seen.contains(*name));
        next.extend(below.filter_map(|name| Device::read(host, name).ok()));
        seen.push(device.name);
    }
    false
}

impl BackingFile {
    /// The file with this path, if it is the one that the loop device itself says: in another mount namespace the path may
    /// be another's.
    fn of(
        host: &Host,
        device: &Device,
        path: &Path,
        [offset_bytes, limit_bytes]: [Option<u64>; 2],
    ) -> Option<BackingFile> {
        let at_path = std::fs::metadata(path).ok();
        let said = host
            .is_live()
            .then(|| below_loop(host, &device.name))
            .flatten();
        let at_path = at_path.filter(|file| said.is_none_or(|said| said == of_file(file)));
        let (device, inode) = match (said, &at_path) {
            (_, Some(file)) => (file.dev(), file.ino()),
            (Some(Below::File(file)), None) => (file.device, file.inode),
            (Some(Below::Device(_)) | None, None) => return None,
        };
        let created = at_path.and_then(|file| file.created().ok());
        Some(BackingFile {
            device,
            inode,
            created_ns: created.and_then(nanos_since_1970),
            offset_bytes,
            limit_bytes,
        })
    }

    fn difference(self, now: BackingFile) -> Option<&'static str> {
        let differ =
            |then: Option<u64>, now: Option<u64>| then.is_some() && now.is_some() && then != now;
        let file = |of: BackingFile| (of.device, of.inode);
        if file(self) != file(now) || differ(self.created_ns, now.created_ns) {
            return Some("another file is behind it");
        }
        let is_another_part = differ(self.offset_bytes, now.offset_bytes)
            || differ(self.limit_bytes, now.limit_bytes);
        is_another_part.then_some("another part of its file is behind it")
    }
}

fn nanos_since_1970(time: SystemTime) -> Option<u64> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    since.as_nanos().try_into().ok()
}

/// The file system in which the server of an emulated disk has that disk, where a model answers: what is written to it
/// ends with the server.
pub const EMULATED: &str = "fuse.iosched";

/// The same where the disk stands over a file or device, which keeps what is written.
pub const EMULATED_OVER: &str = "fuse.iosched-over";

impl Device {
    /// True for an emulated disk, and a partition of one, whose content ends with its server.
    pub(crate) fn goes_with_server(&self, host: &Host) -> bool {
        let disk = self.disk.as_ref().map(|disk| Device::read(host, disk));
        let disk = match &disk {
            Some(disk) => disk.as_ref().ok(),
            None => Some(self),
        };
        let file = disk.and_then(|disk| disk.backing_file.as_deref());
        file.and_then(|file| fs_type_of(host, file))
            .is_some_and(|fs_type| fs_type == EMULATED)
    }
}

pub(super) fn is_on_fuse(host: &Host, file: &Path) -> bool {
    fs_type_of(host, file).is_some_and(|fs_type| fs_type.starts_with("fuse"))
}

/// The type of the file system that a file lies on, by the mounts alone: the file is not asked.
fn fs_type_of(host: &Host, file: &Path) -> Option<String> {
    let mounts = MountTable::read(host).ok()?;
    Some(mounts.containing(file)?.fs_type.clone())
}

/// Model, vendor, serial number and world-wide name, wherever this sort of device keeps them.
pub(super) fn identify(
    device: &mut Device,
    host: &Host,
    dir: &DeviceDir,
    has_parent: bool,
    own: &[String],
) {
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
        let Some(property) = udev_record(host, device.number) else {
            return;
        };
        if device.serial.is_none() {
            device.serial = property("ID_SERIAL_SHORT").or_else(|| property("ID_SERIAL"));
        }
        if device.wwn.is_none() {
            device.wwn = property("ID_WWN");
        }
    }
}

/// What udev's database says of a device, by property; none where it has no record.
pub(super) fn udev_record(
    host: &Host,
    number: DeviceNumber,
) -> Option<impl Fn(&str) -> Option<String>> {
    let DeviceNumber { major, minor } = number;
    let record = regular_file::read(host.run(&format!("udev/data/b{major}:{minor}"))).ok()?;
    let record = String::from_utf8_lossy(&record).into_owned();
    Some(move |name: &str| {
        let mut properties = record.lines().filter_map(|line| {
            line.strip_prefix("E:")?
                .strip_prefix(name)?
                .strip_prefix('=')
        });
        properties
            .find(|value| !value.is_empty())
            .map(str::to_owned)
    })
}

/// The serial number in the SCSI page 0x80: a header of four bytes, the last two the length.
fn vpd_serial(page: &[u8]) -> Option<String> {
    let length = usize::from(u16::from_be_bytes([*page.get(2)?, *page.get(3)?]));
    let text = String::from_utf8_lossy(page.get(4..)?.get(..length)?)
        .trim_matches(|c: char| c.is_whitespace() || c == '\0')
        .to_owned();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> Identity {
        Identity {
            model: Some("SSD".into()),
            size_bytes: 1 << 30,
            boot_id: Some("a".into()),
            diskseq: Some(7),
            ..Identity::default()
        }
    }

    #[test]
    fn what_names_a_disk_decides_and_its_model_proves_nothing() {
        let then = disk();
        assert_eq!(then.recognise(&then), Recognition::Same);
        let after_boot = Identity {
            boot_id: Some("b".into()),
            ..disk()
        };
        assert_eq!(then.recognise(&after_boot), Recognition::Unknown);
        let came_later = Identity {
            diskseq: Some(8),
            ..disk()
        };
        assert_eq!(then.recognise(&came_later), Recognition::Unknown);
        let named = |mut identity: Identity, wwn: &str| {
            identity.wwn = Some(wwn.into());
            identity
        };
        let was_named = named(disk(), "naa.1");
        let is_back = named(after_boot, "naa.1");
        assert_eq!(was_named.recognise(&is_back), Recognition::Same);
        let swapped = was_named.recognise(&named(disk(), "naa.2"));
        let words = "world-wide name naa.1 then, naa.2 now";
        assert_eq!(swapped, Recognition::Another(words.into()));
        let larger = Identity {
            size_bytes: 2 << 30,
            ..disk()
        };
        assert!(matches!(then.recognise(&larger), Recognition::Another(_)));
    }

    /// A machine whose disks are like each other but for the files that are given; each its own directory.
    struct Machine {
        root: tempfile::TempDir,
    }

    /// A file of a disk's directory, and what is in it.
    type Attribute<'a> = (&'a str, &'a [u8]);

    impl Machine {
        fn new(boot: &str, disks: &[(&str, &[Attribute<'_>])]) -> Machine {
            let machine = Machine {
                root: tempfile::tempdir().unwrap(),
            };
            machine.put("proc/sys/kernel/random/boot_id", boot.as_bytes());
            for (at, (name, own)) in disks.iter().enumerate() {
                let (number, count) = (format!("8:{}", at * 16), (at + 1).to_string());
                let alike: [Attribute<'_>; 4] = [
                    ("dev", number.as_bytes()),
                    ("size", b"2097152"),
                    ("diskseq", count.as_bytes()),
                    ("device/model", b"LIKE OTHERS"),
                ];
                for (file, bytes) in alike.iter().chain(own.iter()) {
                    machine.put(&format!("sys/block/{name}/{file}"), bytes);
                }
            }
            machine
        }

        fn put(&self, file: &str, bytes: &[u8]) {
            let path = self.root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }

        fn identity(&self, name: &str) -> Identity {
            let host = Host::at(self.root.path());
            Identity::of(&host, &Device::read(&host, name).unwrap())
        }
    }

    fn is_another(recognition: &Recognition, what: &str) -> bool {
        matches!(recognition, Recognition::Another(why) if why.starts_with(what))
    }

    #[test]
    fn two_like_disks_that_swapped_names_are_told_apart_by_each_thing_that_names_them() {
        for (file, first, second, what) in [
            (
                "device/wwid",
                &b"naa.5001"[..],
                &b"naa.5002"[..],
                "world-wide name",
            ),
            ("wwid", b"eui.01", b"eui.02", "world-wide name"),
            ("serial", b"vd-1", b"vd-2", "serial number"), // virtio
            ("device/serial", b"S1", b"S2", "serial number"), // NVMe
            (
                "device/vpd_pg80",
                b"\0\x80\0\x02S1",
                b"\0\x80\0\x02S2",
                "serial number",
            ),
            ("dm/uuid", b"LVM-1", b"LVM-2", "device-mapper UUID"),
        ] {
            let first: &[Attribute<'_>] = &[(file, first)];
            let second: &[Attribute<'_>] = &[(file, second)];
            let then = Machine::new("a", &[("sda", first), ("sdb", second)]);
            let now = Machine::new("b", &[("sda", second), ("sdb", first)]);
            for (old, new) in [("sda", "sdb"), ("sdb", "sda")] {
                let known = then.identity(old);
                let same_name = known.recognise(&now.identity(old));
                assert!(is_another(&same_name, what), "{file}: {same_name:?}");
                let moved = known.recognise(&now.identity(new));
                assert_eq!(moved, Recognition::Same, "{file}");
            }
        }
    }

    #[test]
    fn one_name_that_differs_outweighs_all_that_agree() {
        let page_80 = ("device/vpd_pg80", &b"\0\x80\0\x02S1"[..]);
        // A clone with the same serial number, two namespaces of one NVMe controller, two units of one target.
        for (agrees, file, first, second, what) in [
            (
                page_80,
                "device/wwid",
                &b"naa.5001"[..],
                &b"naa.5002"[..],
                "world-wide",
            ),
            (
                ("device/serial", b"S1"),
                "wwid",
                b"eui.01",
                b"eui.02",
                "world-wide",
            ),
            (
                ("device/wwid", b"naa.5001"),
                "device/vpd_pg80",
                b"\0\x80\0\x02S1",
                b"\0\x80\0\x02S2",
                "serial number",
            ),
        ] {
            let then = Machine::new("a", &[("sda", &[agrees, (file, first)])]);
            let now = Machine::new("a", &[("sda", &[agrees, (file, second)])]);
            let recognition = then.identity("sda").recognise(&now.identity("sda"));
            assert!(is_another(&recognition, what), "{file}: {recognition:?}");
        }
    }

    #[test]
    fn what_only_one_of_two_looks_says_proves_nothing() {
        let named: &[Attribute<'_>] = &[
            ("device/wwid", b"naa.5001"),
            ("device/vpd_pg80", b"\0\x80\0\x02S1"),
        ];
        let then = Machine::new("a", &[("sda", named)]).identity("sda");
        let nameless = Machine::new("b", &[("sda", &[])]).identity("sda");
        assert_eq!(then.recognise(&nameless), Recognition::Unknown);
        assert_eq!(nameless.recognise(&then), Recognition::Unknown);
        let half = Machine::new("b", &[("sda", &named[..1])]).identity("sda");
        assert_eq!(then.recognise(&half), Recognition::Same);
    }

    #[test]
    fn a_disk_that_only_udev_can_name_is_known_by_that() {
        let of = |serial: &str, wwn: &str| {
            let machine = Machine::new("a", &[("sda", &[])]);
            let record = format!("E:ID_SERIAL_SHORT={serial}\nE:ID_WWN={wwn}\n");
            machine.put("run/udev/data/b8:0", record.as_bytes());
            let mut identity = machine.identity("sda");
            identity.diskseq = None;
            identity
        };
        let then = of("S1", "0x5001");
        assert_eq!(then.recognise(&of("S1", "0x5001")), Recognition::Same);
        assert!(is_another(
            &then.recognise(&of("S2", "0x5001")),
            "serial number"
        ));
        assert!(is_another(
            &then.recognise(&of("S1", "0x5002")),
            "world-wide name"
        ));
    }

    /// `dmsetup load` and `resume` put other sectors below it; name, UUID and `diskseq` stay.
    #[test]
    fn a_device_whose_table_may_have_been_loaded_anew_is_not_known_by_having_stayed() {
        let of = |own: &[Attribute<'_>]| {
            let machine = Machine::new("a", &[("dm-0", own), ("md0", &[]), ("sda", &[])]);
            for (device, below) in [("dm-0", "sda"), ("md0", "dm-0")] {
                let slaves = machine
                    .root
                    .path()
                    .join(format!("sys/block/{device}/slaves"));
                std::fs::create_dir_all(&slaves).unwrap();
                let target = format!("../../{below}");
                std::os::unix::fs::symlink(target, slaves.join(below)).unwrap();
            }
            ["dm-0", "md0", "sda"].map(|name| machine.identity(name))
        };
        let name = ("dm/name", &b"data"[..]);
        for own in [&[name][..], &[name, ("dm/uuid", b"mine")]] {
            let [mapped, above, below] = of(own);
            assert_eq!(mapped.recognise(&mapped), Recognition::Unknown);
            assert_eq!(above.recognise(&above), Recognition::Unknown);
            assert_eq!(below.recognise(&below), Recognition::Same);
        }
        let [volume, ..] = of(&[name, ("dm/uuid", b"LVM-1")]);
        assert_eq!(volume.recognise(&volume), Recognition::Same);
    }

    #[test]
    fn a_partition_is_known_by_its_disk_and_by_where_it_begins() {
        let of = |disk: &[u8], start: &[u8]| {
            let partition = [
                ("partition", &b"1"[..]),
                ("start", start),
                ("size", b"8192"),
            ];
            let machine = Machine::new("a", &[("sda", &[("device/wwid", disk)])]);
            for (file, bytes) in partition {
                machine.put(&format!("sys/block/sda/sda1/{file}"), bytes);
            }
            let link = machine.root.path().join("sys/class/block");
            std::fs::create_dir_all(&link).unwrap();
            for (name, at) in [("sda", "sda"), ("sda1", "sda/sda1")] {
                let target = Path::new("../../block").join(at);
                std::os::unix::fs::symlink(target, link.join(name)).unwrap();
            }
            machine.identity("sda1")
        };
        let then = of(b"naa.5001", b"2048");
        assert_eq!(then.wwn.as_deref(), Some("naa.5001"));
        assert_eq!(then.recognise(&of(b"naa.5001", b"2048")), Recognition::Same);
        assert!(is_another(
            &then.recognise(&of(b"naa.5001", b"4096")),
            "first sector"
        ));
        assert!(is_another(
            &then.recognise(&of(b"naa.5002", b"2048")),
            "world-wide name"
        ));
    }

    #[test]
    fn another_file_or_another_part_of_it_makes_a_loop_device_another_disk() {
        let file = BackingFile {
            device: 1,
            inode: 5,
            created_ns: Some(1),
            offset_bytes: Some(0),
            limit_bytes: Some(0),
        };
        let on = |file: BackingFile, diskseq| Identity {
            file: Some(file),
            diskseq: Some(diskseq),
            ..disk()
        };
        let then = on(file, 7);
        assert_eq!(then.recognise(&on(file, 9)), Recognition::Same);
        let without_part = BackingFile {
            offset_bytes: None,
            limit_bytes: None,
            ..file
        };
        assert_eq!(then.recognise(&on(without_part, 9)), Recognition::Same);
        let mut others = [file; 4];
        others[0].inode = 6;
        others[1].created_ns = Some(2);
        others[2].offset_bytes = Some(512);
        others[3].limit_bytes = Some(512);
        for (other, what) in others
            .into_iter()
            .zip(["another file"; 2].into_iter().chain(["another part"; 2]))
        {
            let recognition = then.recognise(&on(other, 7));
            assert!(is_another(&recognition, what), "{recognition:?}");
        }
        let undated = BackingFile {
            created_ns: None,
            ..file
        };
        let recognition = on(undated, 7).recognise(&on(undated, 9));
        assert_eq!(recognition, Recognition::Unknown);
    }

    #[test]
    fn a_serial_page_that_is_cut_short_has_no_serial() {
        assert_eq!(vpd_serial(b"\0\x80\0\x04AB12").as_deref(), Some("AB12"));
        assert_eq!(vpd_serial(b"\0\x80\0\x08AB12"), None);
        assert_eq!(vpd_serial(b"\0\x80"), None);
        assert_eq!(vpd_serial(b"\0\x80\0\x02  "), None);
    }
}
