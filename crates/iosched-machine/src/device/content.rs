//! What is written on a device: partition tables, file systems, swap, members of arrays and pools; or data without a
//! signature.
//!
//! For one question: would writing here destroy something? `wipefs --no-act` of util-linux knows the formats. Each
//! signature counts by itself, a leftover of an earlier life too. If it cannot be asked, nothing is known, which is an
//! error. What has no signature may be data all the same: [`blocks`] reads samples.

use std::fmt;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::process::SAFE_PATH;

/// Something written on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// What `blkid` calls it: `ext4`, `linux_raid_member`, `gpt`.
    pub name: String,
    /// What sort of thing it is.
    pub class: SignatureClass,
    /// Where it was found; absent of some in older records.
    pub offset_bytes: Option<u64>,
    /// The name its owner gave it.
    pub label: Option<String>,
    /// What tells it from others of its kind.
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

impl SignatureClass {
    pub(super) fn of(name: &str) -> SignatureClass {
        match name {
            "swap" | "swsuspend" => SignatureClass::Swap,
            "dos" | "gpt" | "mac" | "bsd" | "sgi" | "sun" | "aix" | "atari" | "ultrix"
            | "unixware" | "solaris_x86" => SignatureClass::PartitionTable,
            "crypto_LUKS" | "BitLocker" | "bcache" | "drbd" | "stratis" | "vdo" | "ubi"
            | "ceph_bluestore" | "oracleasm" => SignatureClass::Member,
            _ if name.ends_with("_member") || name.starts_with("DM_") => SignatureClass::Member,
            _ => SignatureClass::FileSystem,
        }
    }
}

impl Signature {
    /// True if nothing was written to it since `then`. Versions differ in which of its marks they report.
    pub(super) fn is_unchanged_since(&self, then: &Signature) -> bool {
        let agree = |now: &Option<String>, then: &Option<String>| {
            now.is_none() || then.is_none() || now == then
        };
        self.name == then.name && agree(&self.uuid, &then.uuid) && agree(&self.digest, &then.digest)
    }
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

/// The signatures on a block device or file, each kind once.
///
/// # Errors
/// It cannot be read, or `wipefs` cannot be asked about it.
pub fn content(path: &Path) -> io::Result<Vec<Signature>> {
    let file = open(path)?;
    let mut found: Vec<Signature> = Vec::new();
    for mut signature in wipefs(path)?.lines().filter_map(wipefs_line) {
        if let Some(offset) = signature.offset_bytes {
            signature.digest = Some(digest(&read_at(&file, offset / BLOCK * BLOCK)?));
        }
        if !found.iter().any(|known| known.name == signature.name) {
            found.push(signature);
        }
    }
    found.sort_by_key(|signature| signature.offset_bytes);
    Ok(found)
}

/// The label of the file system on a device, if that is all that is there besides a partition table.
pub(crate) fn label(path: &Path) -> io::Result<Option<String>> {
    let mut found = content(path)?;
    found.retain(|found| found.class != SignatureClass::PartitionTable);
    Ok(match found.as_mut_slice() {
        [one] if one.class == SignatureClass::FileSystem => one.label.take(),
        _ => None,
    })
}

/// A line of `wipefs -p`: offset, UUID, label, type. Labels may have commas, and have `\x20` for a blank.
fn wipefs_line(line: &str) -> Option<Signature> {
    let (offset, rest) = line.strip_prefix("0x")?.split_once(',')?;
    let (uuid, rest) = rest.split_once(',')?;
    let (label, name) = rest.rsplit_once(',')?;
    let some = |text: String| (!text.is_empty()).then_some(text);
    // The table of the old kind that protects a GPT.
    let name = if name == "PMBR" { "dos" } else { name };
    Some(Signature {
        name: name.to_owned(),
        class: SignatureClass::of(name),
        offset_bytes: Some(u64::from_str_radix(offset, 16).ok()?),
        label: some(unescape(label)),
        uuid: some(uuid.to_owned()),
        digest: None,
    })
}

fn unescape(text: &str) -> String {
    let mut parts = text.split(r"\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part
            .get(..2)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
        {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[2..]);
            }
            None => bytes.extend([br"\x", part.as_bytes()].concat()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What `wipefs` of util-linux says, which knows the formats.
///
/// # Errors
/// It is not installed or fails: what is there is not known.
fn wipefs(path: &Path) -> io::Result<String> {
    let mut command = Command::new("wipefs");
    let command = command.args(["-n", "-p", "--"]).arg(path);
    let command = command.env("PATH", SAFE_PATH).env("LC_ALL", "C");
    let failed = |cause: String| io::Error::other(format!("wipefs of util-linux {cause}"));
    let output = match command.stdin(Stdio::null()).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(failed("is not installed, which knows what is on it".into()));
        }
        output => output?,
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("says {:?}", said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What the blocks that were read hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocks {
    /// Zeros only, or there are none.
    Zero,
    /// Something else somewhere.
    Data {
        /// The first block that is not zero.
        offset_bytes: u64,
        /// Of all that was read: another one means that something was written.
        digest: String,
    },
}

/// How much is read at either end, in blocks.
const END: u64 = (1 << 20) / BLOCK;

/// How many blocks are read between the ends.
const SAMPLES: u64 = 128;

/// What is read at a time.
const BLOCK: u64 = 4096;

/// Reads samples of the device or file at `path`: the first and the last mebibyte, and 128 blocks at even distances
/// between. Data that lie between all of these are not seen.
pub(crate) fn blocks(path: &Path) -> io::Result<Blocks> {
    let mut file = open(path)?;
    let size = file.seek(SeekFrom::End(0))?;
    let mut first = None;
    let mut read = Vec::new();
    for offset in offsets(size) {
        let block = read_at(&file, offset)?;
        if block.iter().any(|&byte| byte != 0) {
            first = first.or(Some(offset));
        }
        read.extend(block);
    }
    Ok(first.map_or(Blocks::Zero, |offset_bytes| Blocks::Data {
        offset_bytes,
        digest: digest(&read),
    }))
}

/// Where blocks are read on a device of this size, in order.
fn offsets(size: u64) -> Vec<u64> {
    let blocks = size.div_ceil(BLOCK);
    let between = blocks.saturating_sub(2 * END);
    let middle: Vec<u64> = if between <= SAMPLES {
        (END.min(blocks)..blocks).collect()
    } else {
        let part = |sample| u128::from(between) * u128::from(sample) / u128::from(SAMPLES);
        let samples = (0..SAMPLES)
            .map(|sample| END + u64::try_from(part(sample)).expect("less than the whole"));
        samples.chain(blocks - END..blocks).collect()
    };
    let all = (0..END.min(blocks)).chain(middle);
    all.map(|block| block * BLOCK).collect()
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

/// A block; less where the device ends.
fn read_at(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    const LENGTH: usize = 4096;
    let mut bytes = vec![0; LENGTH];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

/// FNV-1a with 64 bits: tells contents apart that differ by accident, and is the same in every version.
pub(in crate::device) fn digest(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use tempfile::NamedTempFile;

    use super::*;
    use crate::device::fixture::succeeds;

    #[test]
    fn a_signature_is_the_same_until_something_is_written_to_it_whatever_version_saw_it() {
        let file = NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        file.as_file().set_len(8 << 20).unwrap();
        assert_eq!(content(file.path()).unwrap(), []);
        if !succeeds(
            "e2fsprogs",
            &["mkfs.ext4", "-q", "-F", "-L", r"a, b\x", path],
        ) {
            return;
        }
        let [then] = &content(file.path()).unwrap()[..] else {
            panic!("one file system")
        };
        assert_eq!(then.to_string(), r#"ext4 file system "a, b\\x""#);
        assert_eq!(label(file.path()).unwrap().as_deref(), Some(r"a, b\x"));
        let older = Signature {
            offset_bytes: Some(4),
            uuid: None,
            ..then.clone()
        };
        assert!(then.is_unchanged_since(&older));
        file.as_file().write_all_at(b"x", 2000).unwrap();
        let now = content(file.path()).unwrap().remove(0);
        assert!(!now.is_unchanged_since(then));
        assert!(succeeds("util-linux", &["wipefs", "-q", "-a", path]));
        assert_eq!(content(file.path()).unwrap(), []);
        assert_ne!(blocks(file.path()).unwrap(), Blocks::Zero);
    }

    #[test]
    fn a_label_beside_a_table_is_known_and_one_beside_something_else_is_not() {
        let file = NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        file.as_file().set_len(128 << 20).unwrap();
        if !succeeds(
            "btrfs-progs",
            &["mkfs.btrfs", "-q", "-f", "-L", "archive", path],
        ) {
            return;
        }
        assert_eq!(label(file.path()).unwrap().as_deref(), Some("archive"));
        assert!(succeeds("util-linux", &["mkswap", path]));
        let names: Vec<String> = content(file.path())
            .unwrap()
            .into_iter()
            .map(|found| found.name)
            .collect();
        assert_eq!(names, ["swap"], "mkswap erases what it knows");
    }

    #[test]
    fn what_wipefs_prints_is_read() {
        let found = wipefs_line(r"0x10040,uuid,a,b\x20c,btrfs").unwrap();
        assert_eq!(found.to_string(), "btrfs file system \"a,b c\"");
        assert_eq!(
            (found.offset_bytes, found.uuid.as_deref()),
            (Some(0x10040), Some("uuid"))
        );
        assert_eq!(wipefs_line("# offset,uuid,label,type"), None);
    }

    #[test]
    fn the_blocks_that_are_read_ascend_and_cover_both_ends() {
        for size in [0, 1, 4095, 4096, 1 << 20, 3 << 20, 64 << 20, 20 << 40] {
            let offsets = offsets(size);
            assert!(offsets.is_sorted_by(|a, b| a < b), "{size}");
            if let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) {
                assert_eq!(first, 0);
                assert!(last < size && size <= last + BLOCK, "{size}: {last}");
            }
        }
    }

    #[test]
    fn a_byte_at_either_end_is_seen_and_another_byte_gives_another_digest() {
        let file = NamedTempFile::new().unwrap();
        let size = 64 << 20;
        file.as_file().set_len(size).unwrap();
        assert_eq!(blocks(file.path()).unwrap(), Blocks::Zero);
        file.as_file().write_all_at(b"x", size - 1).unwrap();
        let one = blocks(file.path()).unwrap();
        assert!(matches!(&one, Blocks::Data { offset_bytes, .. } if *offset_bytes == size - BLOCK));
        file.as_file().write_all_at(b"y", 0).unwrap();
        let two = blocks(file.path()).unwrap();
        assert!(matches!(
            &two,
            Blocks::Data {
                offset_bytes: 0,
                ..
            }
        ));
        assert_ne!(one, two);
    }
}
