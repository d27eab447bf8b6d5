//! What tells a device from others of its kind: model, serial number, world-wide name.

use super::Device;
use super::number::DeviceNumber;
use super::transport::Transport;
use crate::host::Host;
use crate::sysfs::DeviceDir;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_page_that_is_cut_short_has_no_serial() {
        assert_eq!(vpd_serial(b"\0\x80\0\x04AB12").as_deref(), Some("AB12"));
        assert_eq!(vpd_serial(b"\0\x80\0\x08AB12"), None);
        assert_eq!(vpd_serial(b"\0\x80"), None);
        assert_eq!(vpd_serial(b"\0\x80\0\x02  "), None);
    }
}
