//! What tells a disk from all others, at every boot and in every slot, in the words that a udev rule
//! can ask for.
//!
//! Taken from udev's own database, because a rule sees what `60-persistent-storage.rules` found out,
//! not what we would find in sysfs. In the order of trust: a multipath map's uuid, the world-wide
//! name, the serial number, the place where the disk is plugged in (`ID_PATH`: another disk in that
//! place would be taken for it).

use std::collections::BTreeMap;
use std::io;

use iosched_machine::device::{Device, DeviceKind};
use iosched_machine::host::Host;
use iosched_machine::regular_file;
use serde::{Deserialize, Serialize};

/// What a rule recognises a disk by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "by", content = "value")]
pub enum Identity {
    /// `DM_UUID` of a multipath map.
    Map(String),
    /// `ID_WWN`, with its extension where there is one.
    Wwn(String),
    /// `ID_SERIAL`: for most disks model and serial number.
    Serial(String),
    /// `ID_PATH`: the place, not the disk.
    Path(String),
}

impl Identity {
    /// The property of udev that holds it, and its value.
    pub(crate) fn property(&self) -> (&'static str, &str) {
        match self {
            Identity::Map(value) => ("DM_UUID", value),
            // The extension is part of it: several volumes of one controller share the rest.
            Identity::Wwn(value) if value.starts_with("0x") && value.len() > 18 => {
                ("ID_WWN_WITH_EXTENSION", value)
            }
            Identity::Wwn(value) => ("ID_WWN", value),
            Identity::Serial(value) => ("ID_SERIAL", value),
            Identity::Path(value) => ("ID_PATH", value),
        }
    }

    /// True if it names the place and not the disk.
    pub(crate) fn is_a_place(&self) -> bool {
        matches!(self, Identity::Path(_))
    }
}

/// What udev found out about a device: its properties, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    /// Reads the database entry of a device; empty where udev has none.
    ///
    /// # Errors
    /// There is one, and it cannot be read.
    pub(crate) fn read(host: &Host, device: &Device) -> io::Result<Properties> {
        let file = host.run(&format!("udev/data/b{}", device.number));
        match regular_file::read(file) {
            Ok(bytes) => Ok(Properties::parse(&String::from_utf8_lossy(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Properties::default()),
            Err(error) => Err(error),
        }
    }

    /// Parses a database entry: the lines `E:NAME=value`.
    pub(crate) fn parse(text: &str) -> Properties {
        Properties(
            text.lines()
                .filter_map(|line| line.strip_prefix("E:")?.split_once('='))
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// A property's value.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Sets a property, as a rule's assignment does.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }
}

/// Everything that this disk could be recognised by, the most trusted first.
pub(crate) fn identities(device: &Device, properties: &Properties) -> Vec<Identity> {
    let get = |name: &str| properties.get(name).map(str::to_owned);
    if device.kind == DeviceKind::Multipath {
        return get("DM_UUID").map(Identity::Map).into_iter().collect();
    }
    // A loop device is another disk tomorrow, whatever udev says of the file system in it.
    if device.kind == DeviceKind::Loop {
        return Vec::new();
    }
    let wwn = get("ID_WWN_WITH_EXTENSION").or_else(|| get("ID_WWN"));
    [
        wwn.map(Identity::Wwn),
        get("ID_SERIAL").map(Identity::Serial),
        get("ID_PATH").map(Identity::Path),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system_config::testing::{Disk, machine};
    use iosched_machine::device::find;

    fn of(disk: Disk) -> Vec<Identity> {
        let (_dir, host) = machine(&[disk]);
        let device = find(&host, "sda").unwrap();
        identities(&device, &Properties::read(&host, &device).unwrap())
    }

    #[test]
    fn a_world_wide_name_is_trusted_most_and_a_place_least() {
        let found = of(Disk::new("sda")
            .property("ID_PATH", "pci-0000:00:1f.2-ata-1")
            .property("ID_SERIAL", "ACME_S1")
            .property("ID_WWN", "0x5000c500a1b2c3d4"));
        assert_eq!(
            found,
            [
                Identity::Wwn("0x5000c500a1b2c3d4".into()),
                Identity::Serial("ACME_S1".into()),
                Identity::Path("pci-0000:00:1f.2-ata-1".into()),
            ]
        );
    }

    #[test]
    fn an_extension_of_the_name_counts_because_volumes_of_a_controller_share_the_rest() {
        let found = of(Disk::new("sda")
            .property("ID_WWN", "0x600508b1001c1234")
            .property(
                "ID_WWN_WITH_EXTENSION",
                "0x600508b1001c1234567890abcdef0123",
            ));
        assert_eq!(
            found[0].property(),
            (
                "ID_WWN_WITH_EXTENSION",
                "0x600508b1001c1234567890abcdef0123"
            )
        );
    }
}
