//! Which disks a rule of a policy is for: asked of a disk here, and of udev in its own words.
//!
//! `Match::conditions` gives the keys of a udev rule that ask the same, where udev can; where it
//! cannot (sizes, roles in a stack), the disks that match now are named one by one.

use std::collections::BTreeSet;
use std::io;

use iosched_emulate::spec::parse_size;
use iosched_machine::device::{Device, DeviceKind, Inventory, Role, Transport};
use iosched_machine::failure::{NO_SYSFS, Problem, exit};
use iosched_machine::host::Host;
use serde::{Deserialize, Serialize};

use crate::system_config::identity::{Identity, Properties, identities};
use crate::system_config::pattern::{self, is_like};
use crate::system_config::rules::Condition;

/// What a disk must be; all that is given must hold. Texts are patterns: `*` is anything, `?` one
/// character, `[a-z]` one of these, `[*]` a star.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    /// World-wide name (`ID_WWN`, `ID_WWN_WITH_EXTENSION`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// Serial number (`ID_SERIAL`, `ID_SERIAL_SHORT`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Where it is plugged in (`ID_PATH`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The uuid of a multipath map (`DM_UUID`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<String>,
    /// The model, as the device says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How it is attached, as `iosched list` calls it: `sata`, `nvme`, `usb` …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// At least this large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_size: Option<String>,
    /// At most this large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<String>,
    /// A hypervisor's disk, or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#virtual: Option<bool>,
    /// Rotational as reported, which is not always true: never alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// What stands on it: `raid`, `lvm`, `crypt`, `cache`, or `plain` for none of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// The names that [`Match::transport`] can have, and what the device's path in sysfs looks like to
/// udev; none where that does not tell.
const TRANSPORTS: [(Transport, Option<&str>); 14] = [
    (Transport::Sata, Some("*/ata[0-9]*/*")),
    (Transport::Sas, Some("*/end_device-*")),
    (Transport::Nvme, Some("/devices/pci*/nvme/nvme*")),
    (Transport::NvmeFabrics, None),
    (Transport::Usb, Some("*/usb[0-9]*/*")),
    (Transport::Virtio, Some("*/virtio[0-9]*/*")),
    (Transport::Xen, Some("*/vbd-*")),
    (Transport::HyperV, None),
    (Transport::FibreChannel, Some("*/rport-*")),
    (Transport::Iscsi, Some("*/session[0-9]*/*")),
    (Transport::Mmc, Some("*/mmc_host/*")),
    (Transport::Ufs, None),
    (Transport::RaidController, None),
    (Transport::Scsi, None),
];

/// The longest pattern: a rule's line in udev's file may have one of each kind.
const LONGEST_PATTERN: usize = 1000;

/// What a role is called.
const ROLES: [&str; 5] = ["raid", "lvm", "crypt", "cache", "plain"];

/// A disk with all that a rule can ask of it.
#[derive(Debug, Clone)]
pub struct KnownDisk {
    /// As sysfs describes it.
    pub device: Device,
    /// As udev describes it.
    pub properties: Properties,
    /// What it can be recognised by, the most trusted first, but for what another disk here shares.
    pub identities: Vec<Identity>,
    /// What another disk here shares with it (cheap USB adapters have one serial number for all).
    pub shared: Vec<Identity>,
    /// What stands on it.
    pub roles: BTreeSet<&'static str>,
}

/// A disk by its kernel name, a loop device too.
pub fn known(host: &Host, name: &str) -> Result<KnownDisk, Problem> {
    if let Some(disk) = disks(host)?
        .into_iter()
        .find(|disk| disk.device.name == name)
    {
        return Ok(disk);
    }
    let device = Device::read(host, name).map_err(|error| not_listed(&error))?;
    KnownDisk::of(host, device, BTreeSet::new())
}

impl KnownDisk {
    fn of(
        host: &Host,
        device: Device,
        roles: BTreeSet<&'static str>,
    ) -> Result<KnownDisk, Problem> {
        let properties = Properties::read(host, &device).map_err(|error| not_listed(&error))?;
        Ok(KnownDisk {
            identities: identities(&device, &properties),
            shared: Vec::new(),
            roles,
            properties,
            device,
        })
    }
}

/// The disks of a machine that a policy can be for: all whose scheduler matters, loop devices left
/// out (they are another disk each time).
pub fn disks(host: &Host) -> Result<Vec<KnownDisk>, Problem> {
    let inventory = Inventory::read(host).map_err(|error| not_listed(&error))?;
    let mut disks: Vec<KnownDisk> = inventory
        .devices
        .iter()
        .filter(|device| {
            inventory.role(device) == Role::Schedules && device.kind != DeviceKind::Loop
        })
        .map(|device| KnownDisk::of(host, device.clone(), roles(&inventory, device)))
        .collect::<Result<_, _>>()?;
    set_apart(&mut disks);
    Ok(disks)
}

/// The block devices of the machine cannot be read.
pub fn not_listed(source: &io::Error) -> Problem {
    let is_absent = source.kind() == io::ErrorKind::NotFound;
    let message = format!("cannot list the block devices in /sys: {source}");
    Problem::new(exit::FAILURE, message).maybe_hint(is_absent.then_some(NO_SYSFS))
}

/// Moves what several disks share out of what they can be recognised by.
fn set_apart(disks: &mut [KnownDisk]) {
    let all: Vec<Identity> = disks
        .iter()
        .flat_map(|disk| disk.identities.clone())
        .collect();
    for disk in disks {
        let (shared, own) = std::mem::take(&mut disk.identities)
            .into_iter()
            .partition(|identity| all.iter().filter(|other| *other == identity).count() > 1);
        disk.shared = shared;
        disk.identities = own;
    }
}

fn roles(inventory: &Inventory, device: &Device) -> BTreeSet<&'static str> {
    let found: BTreeSet<_> = inventory
        .above(device)
        .into_iter()
        .filter_map(|above| match above.kind {
            DeviceKind::MdRaid { .. } => Some("raid"),
            DeviceKind::Lvm => Some("lvm"),
            DeviceKind::Crypt => Some("crypt"),
            DeviceKind::Bcache => Some("cache"),
            _ => None,
        })
        .collect();
    if found.is_empty() {
        BTreeSet::from(["plain"])
    } else {
        found
    }
}

impl Match {
    /// Exactly the disk of this identity.
    pub(crate) fn of_identity(identity: &Identity) -> Match {
        let mut found = Match::default();
        let (place, value) = match identity {
            Identity::Map(value) => (&mut found.map, value),
            Identity::Wwn(value) => (&mut found.wwn, value),
            Identity::Serial(value) => (&mut found.serial, value),
            Identity::Path(value) => (&mut found.path, value),
        };
        *place = Some(pattern::literal(value));
        found
    }

    /// True if it is for a disk by its identity, not for a sort of disks.
    pub(crate) fn is_of_identity(&self) -> bool {
        [&self.wwn, &self.serial, &self.path, &self.map]
            .iter()
            .any(|value| value.is_some())
    }

    /// Why this cannot be asked, if so.
    pub(crate) fn check(&self) -> Result<(), String> {
        if *self == Match::default() {
            return Err("it would match every disk: say which are meant".into());
        }
        let only_rotational = Match {
            rotational: self.rotational,
            ..Match::default()
        };
        if *self == only_rotational {
            return Err(
                "`rotational` alone is no ground: USB flash and virtual disks say 1, too; \
                 add transport or model"
                    .into(),
            );
        }
        for pattern in [&self.wwn, &self.serial, &self.path, &self.map, &self.model]
            .into_iter()
            .flatten()
        {
            // To udev a property that a disk lacks is empty.
            if pattern.is_empty() {
                return Err("\"\" would match disks that have none: say which are meant".into());
            }
            if pattern.len() > LONGEST_PATTERN {
                return Err(format!("a pattern has at most {LONGEST_PATTERN} bytes"));
            }
            if let Some(bad) = pattern
                .chars()
                .find(|c| c.is_control() || "\"|".contains(*c))
            {
                let bad = bad.escape_debug();
                return Err(format!("`{bad}` cannot stand in a pattern: use `?`"));
            }
            if pattern.ends_with('\\') {
                return Err("a pattern cannot end with `\\`: use `[\\\\]`".into());
            }
        }
        for size in [&self.min_size, &self.max_size].into_iter().flatten() {
            parse_size(size)?;
        }
        check_word("transport", self.transport.as_deref(), &transport_names())?;
        check_word("role", self.role.as_deref(), &ROLES.map(str::to_owned))
    }

    /// True if the disk is one of those meant.
    pub(crate) fn is_met(&self, disk: &KnownDisk) -> bool {
        let device = &disk.device;
        let size =
            |text: &String| parse_size(text).map_or(u64::MAX, iosched_sim::units::Bytes::as_u64);
        let property = |pattern: &Option<String>, names: &[&str]| {
            pattern.as_ref().is_none_or(|pattern| {
                names.iter().any(|name| {
                    disk.properties
                        .get(name)
                        .is_some_and(|value| is_like(pattern, value))
                })
            })
        };
        property(&self.wwn, &WWN)
            && property(&self.serial, &SERIAL)
            && property(&self.path, &PLACE)
            && property(&self.map, &MAP)
            && self.model.as_ref().is_none_or(|pattern| {
                let model = device.model.as_deref().filter(|model| !model.is_empty());
                model.is_some_and(|model| is_like(pattern, model))
            })
            && (self.transport.as_ref()).is_none_or(|name| *name == device.transport.to_string())
            && (self.min_size.as_ref()).is_none_or(|least| device.size_bytes >= size(least))
            && (self.max_size.as_ref()).is_none_or(|most| device.size_bytes <= size(most))
            && self
                .r#virtual
                .is_none_or(|wanted| device.is_virtual() == wanted)
            && (self.rotational).is_none_or(|wanted| device.rotational == Some(wanted))
            && (self.role.as_ref()).is_none_or(|role| disk.roles.contains(role.as_str()))
    }

    /// The keys of a udev rule that ask the same; none where udev cannot ask it.
    pub(crate) fn conditions(&self) -> Option<Vec<Condition>> {
        if self.min_size.is_some()
            || self.max_size.is_some()
            || self.r#virtual.is_some()
            || self.role.is_some()
        {
            return None;
        }
        let mut conditions = Vec::new();
        for (pattern, names) in [
            (&self.wwn, &WWN[..]),
            (&self.serial, &SERIAL),
            (&self.path, &PLACE),
            (&self.map, &MAP),
        ] {
            if let Some(pattern) = pattern {
                let keys: Vec<String> = names.iter().map(|name| format!("ENV{{{name}}}")).collect();
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                conditions.push(Condition::any_like(&keys, of_what_is_there(pattern)));
            }
        }
        if let Some(model) = &self.model {
            // An SD card's model is its name.
            let keys = ["ATTR{device/model}", "ATTR{device/name}"];
            conditions.push(Condition::any_like(&keys, of_what_is_there(model)));
        }
        if let Some(name) = &self.transport {
            let (_, path) = TRANSPORTS
                .iter()
                .find(|(transport, _)| transport.to_string() == *name)?;
            conditions.push(Condition::like("DEVPATH", (*path)?));
        }
        if let Some(rotational) = self.rotational {
            let value = if rotational { "1" } else { "0" };
            conditions.push(Condition::like("ATTR{queue/rotational}", value));
        }
        Some(conditions)
    }
}

/// A pattern that no absent property has: to udev that is an empty one, which stars alone match.
fn of_what_is_there(pattern: &str) -> &str {
    if pattern.chars().all(|c| c == '*') {
        "?*"
    } else {
        pattern
    }
}

const WWN: [&str; 2] = ["ID_WWN_WITH_EXTENSION", "ID_WWN"];
const SERIAL: [&str; 2] = ["ID_SERIAL", "ID_SERIAL_SHORT"];
const PLACE: [&str; 1] = ["ID_PATH"];
const MAP: [&str; 1] = ["DM_UUID"];

fn transport_names() -> Vec<String> {
    TRANSPORTS
        .iter()
        .map(|(transport, _)| transport.to_string())
        .collect()
}

fn check_word(what: &str, word: Option<&str>, known: &[String]) -> Result<(), String> {
    match word {
        Some(word) if !known.iter().any(|name| name == word) => Err(format!(
            "{word:?} is no {what}: it is one of {}",
            known.join(", ")
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system_config::rules;
    use crate::system_config::testing::{Disk, machine};

    fn all(of: &[Disk]) -> Vec<KnownDisk> {
        let (_dir, host) = machine(of);
        disks(&host).unwrap()
    }

    #[test]
    fn all_that_is_given_must_hold() {
        let disks = all(&[Disk::new("sda")
            .property("ID_SERIAL", "ACME_4000_S1")
            .property("ID_SERIAL_SHORT", "S1")
            .file("device/model", "ACME 4000       ")
            .file("queue/rotational", "1")]);
        let text = |text: &str| toml::from_str::<Match>(text).unwrap();
        for (matching, expected) in [
            ("serial = 'S1'", true),
            ("serial = 'ACME_4000_S?'", true),
            ("serial = 'S2'", false),
            ("serial = 'S1'\nmodel = 'ACME*'", true),
            ("serial = 'S1'\nmodel = 'OTHER*'", false),
            ("model = 'ACME 4000'\nmin_size = '1G'", true),
            ("model = 'ACME 4000'\nmin_size = '2G'", false),
            (
                "model = 'ACME 4000'\nmax_size = '1G'\nrotational = true",
                true,
            ),
            ("model = 'ACME 4000'\nrotational = false", false),
            ("virtual = false\nrole = 'plain'", true),
            ("role = 'raid'", false),
            ("wwn = '*'", false),
        ] {
            assert_eq!(text(matching).is_met(&disks[0]), expected, "{matching}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_disk_is_recognised_by_its_serial_number_whatever_stands_in_it(
            serial in "[aé1*?\\[\\]!^\\\\_ -]{1,8}",
            other in "[aé1*?\\[\\]!^\\\\_ -]{1,8}",
        ) {
            proptest::prop_assume!(serial != other);
            let matching = Match::of_identity(&Identity::Serial(serial.clone()));
            proptest::prop_assert_eq!(matching.check(), Ok(()));
            let rule = rules::text(&[rules::Rule {
                name: "x".into(),
                remark: String::new(),
                conditions: matching.conditions().unwrap(),
                arm: iosched_switch::Arm::plain("none"),
                old_name: None,
            }]);
            let line = rule.lines().find(|line| line.starts_with("ENV{ID_SERIAL}")).unwrap();
            let tokens = crate::policy::writers::rule_text::tokens(line);
            for (serial, expected) in [(&serial, true), (&other, false)] {
                proptest::prop_assert_eq!(is_like(matching.serial.as_ref().unwrap(), serial), expected);
                let pattern = &tokens[0].value;
                proptest::prop_assert_eq!(is_like(pattern, serial), expected, "{} {}", line, serial);
            }
        }
    }

    #[test]
    fn what_would_end_a_string_of_udev_is_refused_and_a_set_is_not() {
        let check = |serial: &str| {
            let matching = Match {
                serial: Some(serial.into()),
                ..Match::default()
            };
            matching.check()
        };
        for serial in ["[*]", "S[0-9]*", "a\\*?", "a["] {
            assert_eq!(check(serial), Ok(()));
        }
        for serial in ["\"", "a|b", "a\n", "a\\", ""] {
            assert!(check(serial).is_err(), "{serial}");
        }
    }

    #[test]
    fn what_two_disks_share_tells_neither() {
        let disks = all(&[
            Disk::new("sda")
                .property("ID_SERIAL", "0123456789")
                .property("ID_PATH", "usb-1"),
            Disk::new("sdb")
                .property("ID_SERIAL", "0123456789")
                .property("ID_PATH", "usb-2"),
        ]);
        assert_eq!(disks[0].identities, [Identity::Path("usb-1".into())]);
        assert_eq!(disks[0].shared, [Identity::Serial("0123456789".into())]);
    }

    #[test]
    fn udev_is_asked_what_it_can_be_asked() {
        let keys = |text: &str| {
            let matching: Match = toml::from_str(text).unwrap();
            matching.conditions().map(|conditions| {
                conditions
                    .iter()
                    .map(|Condition(any)| {
                        any.iter()
                            .map(|(k, p)| format!("{k}={p}"))
                            .collect::<Vec<_>>()
                            .join("|")
                    })
                    .collect::<Vec<_>>()
                    .join(" & ")
            })
        };
        assert_eq!(
            keys("serial = 'S*'\ntransport = 'usb'").unwrap(),
            "ENV{ID_SERIAL}=S*|ENV{ID_SERIAL_SHORT}=S* & DEVPATH=*/usb[0-9]*/*"
        );
        assert_eq!(keys("role = 'raid'"), None);
        assert_eq!(keys("model = 'x'\nmin_size = '1G'"), None);
    }
}
