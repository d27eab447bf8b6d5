//! What the disks below a target are, as far as loads go by it: the drive's buffer, and whether
//! writes make it slower with age.
//!
//! The buffer is known of emulated disks, from their model, and of ATA disks that say it: word 21 of
//! IDENTIFY DEVICE, in sectors of 512 bytes (ATA-1 to ATA-3; retired since, but many drives still fill it
//! in; a drive of 32 MiB or more cannot), which the kernel keeps as page 89h of the vital product data
//! (SAT, "ATA Information": IDENTIFY stands in bytes 60 to 571). NVMe and SCSI have no such field.

use iosched_emulate as emulate;
use iosched_machine::device::Buffer;
use iosched_machine::host::Host;
use iosched_machine::sysfs::Sysfs;
use iosched_sim::disk::Model;

use super::PlanRequest;

/// Where IDENTIFY DEVICE begins in page 89h.
const IDENTIFY_AT: usize = 60;

/// The word with the size of the buffer.
const BUFFER_WORD: usize = 21;

/// What loads go by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Below {
    /// The drive's own memory, where it is known.
    pub(super) buffer: Option<Buffer>,
    /// True if writes may make it slower: trials wait until that has come to an end.
    pub(super) ages: bool,
}

impl Below {
    /// Of no device.
    pub(super) fn nothing() -> Below {
        Below {
            buffer: None,
            ages: false,
        }
    }

    /// Of these disks. Where there are several, the largest buffer counts.
    pub(super) fn of(wanted: &PlanRequest, host: &Host, disks: &[String]) -> Below {
        let model = |disk: &String| match &wanted.own_disk {
            Some(own) => Some(own.model.clone()),
            None => emulate::model_of(host, disk),
        };
        let sysfs = host.sysfs();
        let models: Vec<Option<Model>> = disks.iter().map(model).collect();
        let buffers = disks.iter().zip(&models).filter_map(|(disk, model)| {
            let of_model = model.as_ref().and_then(|model| {
                Some(Buffer {
                    bytes: model.buffer()?.as_u64(),
                    source: format!("the model {}", model.name),
                })
            });
            of_model.or_else(|| identified(&sysfs, disk))
        });
        Below {
            buffer: buffers.max_by_key(|buffer| buffer.bytes),
            ages: models.iter().any(Option::is_none),
        }
    }
}

/// What an ATA disk says of itself.
fn identified(sysfs: &Sysfs, disk: &str) -> Option<Buffer> {
    let page = sysfs.read_bytes_if_present(disk, "device/vpd_pg89")?;
    let is_page = page.get(1) == Some(&0x89);
    let at = IDENTIFY_AT + 2 * BUFFER_WORD;
    let word = page.get(at..at + 2).filter(|_| is_page)?;
    let sectors = u16::from_le_bytes([word[0], word[1]]);
    (sectors != 0 && sectors != u16::MAX).then(|| Buffer {
        bytes: u64::from(sectors) * 512,
        source: format!("{disk}'s IDENTIFY DEVICE"),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn disk_with_page(dir: &Path, page: &[u8]) -> Sysfs {
        let device = dir.join("sys/block/sda/device");
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("vpd_pg89"), page).unwrap();
        Host::at(dir).sysfs()
    }

    #[test]
    fn word_21_is_the_buffer_where_the_drive_fills_it_in() {
        let dir = tempfile::tempdir().unwrap();
        let mut page = vec![0; 572];
        page[1] = 0x89;
        let buffer_of = |page: &[u8]| identified(&disk_with_page(dir.path(), page), "sda");
        assert_eq!(buffer_of(&page), None, "retired: 0");
        page[IDENTIFY_AT + 42..][..2].copy_from_slice(&32_768_u16.to_le_bytes());
        let buffer = buffer_of(&page).unwrap();
        assert_eq!(buffer.bytes, 16 << 20);
        assert_eq!(buffer.source, "sda's IDENTIFY DEVICE");
        assert_eq!(buffer_of(&page[..80]), None, "cut off");
        page[1] = 0x80;
        assert_eq!(buffer_of(&page), None, "another page");
    }
}
