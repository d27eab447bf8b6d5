//! What is written on a device: partition tables, file systems, swap, members of arrays and pools.
//!
//! For one question: would writing here destroy something? So each signature counts by itself, a
//! leftover of an earlier life too. Names are those of `blkid`, which is asked as well where it is
//! installed, for what it knows and we do not. What has no signature may be data all the same:
//! [`blocks`] reads samples. Left out: checksums of what is found, sizes, and the check that a nested
//! signature is not the content of another one.
//!
//! Reads are bounded: about 2 MiB at the start and at the end, and 128 blocks between.

mod blocks;
mod image;
mod signatures;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use self::SignatureClass::{FileSystem, Member, PartitionTable, Swap};
pub use self::blocks::Blocks;
pub(crate) use self::blocks::blocks;
use self::image::Image;
use self::signatures::{FIXED, PROBES};

/// Something written on a device. Two are equal if nothing was written to the superblock in between.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// What `blkid` calls it: `ext4`, `linux_raid_member`, `gpt`.
    pub name: String,
    /// What sort of thing it is.
    pub class: SignatureClass,
    /// Where it was found; absent if only `blkid` saw it.
    pub offset_bytes: Option<u64>,
    /// The name its owner gave it.
    pub label: Option<String>,
    /// What `blkid` says tells it from others of its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Digest of the 4 KiB in which it was found: of the superblock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// What sort of thing a signature belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignatureClass {
    /// The disk is divided.
    PartitionTable,
    /// A file system.
    FileSystem,
    /// Swap, or an image of a hibernated machine.
    Swap,
    /// A part of something bigger: md, LVM, LUKS, bcache, ZFS, DRBD, Ceph.
    Member,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            SignatureClass::PartitionTable => write!(f, "{} partition table", self.name)?,
            SignatureClass::FileSystem => write!(f, "{} file system", self.name)?,
            SignatureClass::Swap => f.write_str("swap")?,
            SignatureClass::Member => f.write_str(&self.name)?,
        }
        if let Some(label) = &self.label {
            write!(f, " {label:?}")?;
        }
        Ok(())
    }
}

/// What is written on a block device or file at `path`.
pub fn content(path: &Path) -> io::Result<Vec<Signature>> {
    let file = open(path)?;
    let mut found = probe(&file)?;
    // The mark at the end of a file system's boot sector is no table, as our own probe knows.
    let has_file_system = found.iter().any(|found| found.class == FileSystem);
    for seen in ask_blkid(path) {
        let is_boot_sector = has_file_system && seen.name == "dos";
        match found.iter_mut().find(|known| known.name == seen.name) {
            Some(known) => known.uuid = seen.uuid,
            None if is_boot_sector => {}
            None => found.push(seen),
        }
    }
    Ok(found)
}

/// The label of the file system on a device, if that is all that is there besides a partition table. Nobody is asked:
/// `blkid` has had several sets of options, and not everybody has one.
pub(crate) fn label(path: &Path) -> io::Result<Option<String>> {
    let mut found = probe(&open(path)?)?;
    found.retain(|found| found.class != PartitionTable);
    Ok(match found.as_mut_slice() {
        [one] if one.class == FileSystem => one.label.take(),
        _ => None,
    })
}

/// Opens without waiting for media. What is cached of a device may be older than what was written to
/// it through a file system, so that the cache is dropped.
fn open(path: &Path) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(file)
}

/// What we find without help.
fn probe(file: &File) -> io::Result<Vec<Signature>> {
    const SUPERBLOCK: u64 = 4096;
    let size = { file }.seek(SeekFrom::End(0))?;
    let image = Image { file, size };
    let mut found = Vec::new();
    for &(name, class, offset, magic) in FIXED {
        if image.is(offset, magic)? {
            found.push((name, class, offset, None));
        }
    }
    for probe in PROBES {
        found.extend(probe(&image)?);
    }
    found.sort_by_key(|&(_, _, offset, _)| offset);
    found
        .into_iter()
        .map(|(name, class, offset, label)| {
            let superblock = image.bytes(offset / SUPERBLOCK * SUPERBLOCK, 4096)?;
            Ok(Signature {
                name: name.to_owned(),
                class,
                offset_bytes: Some(offset),
                label,
                uuid: None,
                digest: Some(digest(&superblock)),
            })
        })
        .collect()
}

/// FNV-1a with 64 bits: tells contents apart that differ by accident, and is the same in every version.
pub(in crate::device) fn digest(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// What `blkid` says by low-level probing; nothing where it is not installed or fails.
fn ask_blkid(path: &Path) -> Vec<Signature> {
    let Ok(output) = Command::new("blkid")
        .args(["-p", "-o", "export", "--"])
        .arg(path)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
    else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
            .map(str::to_owned)
    };
    let seen = |name: String, class: SignatureClass, uuid: Option<String>| Signature {
        name,
        class,
        offset_bytes: None,
        label: None,
        uuid,
        digest: None,
    };
    let mut found = Vec::new();
    if let Some(name) = value("TYPE") {
        let class = match value("USAGE").as_deref() {
            Some("filesystem") => FileSystem,
            _ if name == "swap" || name == "swsuspend" => Swap,
            _ => Member,
        };
        found.push(seen(name, class, value("UUID")));
    }
    found.extend(value("PTTYPE").map(|name| seen(name, PartitionTable, value("PTUUID"))));
    if output.status.code() == Some(8) {
        // Several signatures that contradict one another, and it names none of them.
        found.push(seen("several_signatures".to_owned(), Member, None));
    }
    found
}
