//! What is written on a device: partition tables, file systems, swap, members of arrays and pools.
//!
//! For one question: would writing here destroy something? So each signature counts by itself, a
//! leftover of an earlier life too. Names are those of `blkid`, which is asked as well where it is
//! installed, for what it knows and we do not. Left out: checksums of what is found, sizes, and the
//! check that a nested signature is not the content of another one.
//!
//! Reads are bounded: about 2 MiB, at the start and at the end.

use std::fmt;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

/// Something written on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Signature {
    /// What `blkid` calls it: `ext4`, `linux_raid_member`, `gpt`.
    pub name: String,
    /// What sort of thing it is.
    pub class: SignatureClass,
    /// Where it was found; absent if only `blkid` saw it.
    pub offset_bytes: Option<u64>,
    /// The name its owner gave it.
    pub label: Option<String>,
}

/// What sort of thing a signature belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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

/// What is written on an open block device or file at `path`.
pub fn content(path: &Path) -> io::Result<Vec<Signature>> {
    let file = File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    let mut found = probe(&file)?;
    // The mark at the end of a file system's boot sector is no table, as our own probe knows.
    let has_file_system = found.iter().any(|found| found.class == FileSystem);
    for (name, class) in ask_blkid(path) {
        let known = found.iter().any(|signature| signature.name == name);
        let is_boot_sector = has_file_system && name == "dos";
        if !known && !is_boot_sector {
            found.push(Signature {
                name,
                class,
                offset_bytes: None,
                label: None,
            });
        }
    }
    Ok(found)
}

/// What we find without help.
fn probe(file: &File) -> io::Result<Vec<Signature>> {
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
    Ok(found
        .into_iter()
        .map(|(name, class, offset, label)| Signature {
            name: name.to_owned(),
            class,
            offset_bytes: Some(offset),
            label,
        })
        .collect())
}

use SignatureClass::{FileSystem, Member, PartitionTable, Swap};

type Probe = fn(&Image) -> io::Result<Vec<Found>>;
type Found = (&'static str, SignatureClass, u64, Option<String>);

/// Signatures that are a text at a fixed place: name, class, offset, text.
const FIXED: &[(&str, SignatureClass, u64, &[u8])] = &[
    ("btrfs", FileSystem, 0x1_0040, b"_BHRfS_M"),
    ("exfat", FileSystem, 3, b"EXFAT   "),
    ("ntfs", FileSystem, 3, b"NTFS    "),
    ("ReFS", FileSystem, 3, b"ReFS\0"),
    ("BitLocker", Member, 3, b"-FVE-FS-"),
    ("f2fs", FileSystem, 0x400, &0xf2f5_2010_u32.to_le_bytes()),
    ("nilfs2", FileSystem, 0x400, b"\x02\0\0\0\0\0\x34\x34"),
    ("erofs", FileSystem, 0x400, &0xe0f5_e1e2_u32.to_le_bytes()),
    ("squashfs", FileSystem, 0, b"hsqs"),
    ("cramfs", FileSystem, 0, &0x28cd_3d45_u32.to_le_bytes()),
    ("jfs", FileSystem, 0x8000, b"JFS1"),
    ("reiserfs", FileSystem, 0x1_0034, b"ReIsErFs"),
    ("reiserfs", FileSystem, 0x1_0034, b"ReIsEr2Fs"),
    ("reiserfs", FileSystem, 0x1_0034, b"ReIsEr3Fs"),
    ("gfs2", FileSystem, 0x1_0000, &0x0116_1970_u32.to_be_bytes()),
    ("ocfs2", FileSystem, 0x400, b"OCFSV2"),
    ("ocfs2", FileSystem, 0x800, b"OCFSV2"),
    ("ocfs2", FileSystem, 0x1000, b"OCFSV2"),
    ("ocfs2", FileSystem, 0x2000, b"OCFSV2"),
    ("hfsplus", FileSystem, 0x400, b"H+\0\x04"),
    ("hfsplus", FileSystem, 0x400, b"HX\0\x05"),
    ("apfs", FileSystem, 32, b"NXSB"),
    ("ufs", FileSystem, 0x255c, &0x0001_1954_u32.to_le_bytes()),
    ("ufs", FileSystem, 0x1_055c, &0x1954_0119_u32.to_le_bytes()),
    (
        "VMFS",
        FileSystem,
        0x20_0000,
        &0x2fab_f15e_u32.to_le_bytes(),
    ),
    (
        "VMFS_volume_member",
        Member,
        0x10_0000,
        &0xc001_d00d_u32.to_le_bytes(),
    ),
    ("iso9660", FileSystem, 0x8001, b"CD001"),
    ("udf", FileSystem, 0x8001, b"BEA01"),
    ("crypto_LUKS", Member, 0, b"LUKS\xba\xbe"),
    ("ceph_bluestore", Member, 0, b"bluestore block device"),
    ("vdo", Member, 0, b"dmvdo001"),
    ("stratis", Member, 516, b"!Stra0tis\x86\xff\x02^\x41rh"),
    (
        "stratis",
        Member,
        512 * 9 + 4,
        b"!Stra0tis\x86\xff\x02^\x41rh",
    ),
    ("DM_integrity", Member, 0, b"integrt\0"),
    ("DM_verity_hash", Member, 0, b"verity\0\0"),
    ("DM_snapshot_cow", Member, 0, b"SnAp"),
    ("oracleasm", Member, 32, b"ORCLDISK"),
    ("LVM1_member", Member, 0, b"HM\x01\0"),
    ("LVM1_member", Member, 0, b"HM\x02\0"),
    ("bcache", Member, 0x1018, &BCACHE_MAGIC),
    ("bcachefs", FileSystem, 0x1018, &BCACHEFS_MAGIC),
    // A FAT without its name is caught by the boot sector probe; these are the usual ones.
    ("vfat", FileSystem, 0x36, b"FAT12   "),
    ("vfat", FileSystem, 0x36, b"FAT16   "),
    ("vfat", FileSystem, 0x52, b"FAT32   "),
    ("mac", PartitionTable, 512, b"PM\0\0"),
    ("bsd", PartitionTable, 512, &0x8256_4557_u32.to_le_bytes()),
    ("bsd", PartitionTable, 64, &0x8256_4557_u32.to_le_bytes()),
    ("sgi", PartitionTable, 0, &0x0be5_a941_u32.to_be_bytes()),
];

const BCACHE_MAGIC: [u8; 16] = [
    0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81,
];
const BCACHEFS_MAGIC: [u8; 16] = [
    0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9, 0xd9, 0x6a, 0x60, 0xcf, 0x80, 0x3d, 0xf7, 0xef,
];
const MD_MAGIC: u32 = 0xa92b_4efc;
const ZFS_UBERBLOCK: u64 = 0x00ba_b10c;

/// Signatures that need a look at more than one place.
const PROBES: &[Probe] = &[
    gpt,
    dos,
    ext,
    xfs,
    swap,
    md,
    firmware_raid,
    lvm2,
    luks2_second_header,
    zfs,
    drbd,
    minix,
    hfs,
    sun,
];

/// A device or file whose end is known.
struct Image<'a> {
    file: &'a File,
    size: u64,
}

impl Image<'_> {
    /// Bytes at a place; fewer where the device ends.
    fn bytes(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut done = 0;
        while done < length {
            match self.file.read_at(&mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    fn is(&self, offset: u64, magic: &[u8]) -> io::Result<bool> {
        Ok(self.bytes(offset, magic.len())? == magic)
    }

    fn u32_le(&self, offset: u64) -> io::Result<Option<u32>> {
        let bytes = self.bytes(offset, 4)?;
        Ok(bytes.try_into().ok().map(u32::from_le_bytes))
    }

    fn u32_be(&self, offset: u64) -> io::Result<Option<u32>> {
        Ok(self.u32_le(offset)?.map(u32::swap_bytes))
    }

    /// A text that ends with a zero byte or after `length` bytes.
    fn label(&self, offset: u64, length: usize) -> io::Result<Option<String>> {
        let bytes = self.bytes(offset, length)?;
        let end = bytes.iter().position(|&byte| byte == 0);
        let text = String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]);
        let text = text.trim();
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    /// The place `back` bytes before the end, if there is one.
    fn before_end(&self, back: u64) -> Option<u64> {
        self.size.checked_sub(back)
    }
}

/// The table stands in the second sector, and again in the last one.
fn gpt(image: &Image) -> io::Result<Vec<Found>> {
    let places = [
        Some(512),
        Some(4096),
        image.before_end(512),
        image.before_end(4096),
    ];
    for place in places.into_iter().flatten() {
        if image.is(place, b"EFI PART")? {
            return Ok(vec![("gpt", PartitionTable, place, None)]);
        }
    }
    Ok(Vec::new())
}

/// The mark 55 AA ends the boot sectors of file systems too: a table has four entries, each either
/// bootable or not, and is no file system's first sector.
fn dos(image: &Image) -> io::Result<Vec<Found>> {
    let sector = image.bytes(0, 512)?;
    if sector.len() < 512 || sector[510..] != [0x55, 0xaa] {
        return Ok(Vec::new());
    }
    if is_fat(&sector) {
        let named = &sector[0x36..0x39] == b"FAT" || &sector[0x52..0x55] == b"FAT";
        return Ok(if named {
            Vec::new()
        } else {
            vec![("vfat", FileSystem, 0, None)]
        });
    }
    let is_boot_sector = matches!(&sector[3..11], b"NTFS    " | b"EXFAT   " | b"-FVE-FS-");
    let plausible = sector[446..510]
        .chunks_exact(16)
        .all(|entry| entry[0] == 0 || entry[0] == 0x80);
    Ok(if plausible && !is_boot_sector {
        vec![("dos", PartitionTable, 510, None)]
    } else {
        Vec::new()
    })
}

/// The parameters of a FAT must make sense: it begins with a jump, sectors and clusters are powers of
/// two, there are one or two tables.
fn is_fat(sector: &[u8]) -> bool {
    let sector_size = u16::from_le_bytes([sector[11], sector[12]]);
    matches!(sector[0], 0xeb | 0xe9)
        && matches!(sector_size, 512 | 1024 | 2048 | 4096)
        && sector[13].is_power_of_two()
        && matches!(sector[16], 1 | 2)
        && matches!(sector[21], 0xf0 | 0xf8..=0xff)
}

fn ext(image: &Image) -> io::Result<Vec<Found>> {
    let superblock = image.bytes(1024, 1024)?;
    if superblock.len() < 1024 || superblock[56..58] != [0x53, 0xef] {
        return Ok(Vec::new());
    }
    let word = |at: usize| {
        u32::from_le_bytes([
            superblock[at],
            superblock[at + 1],
            superblock[at + 2],
            superblock[at + 3],
        ])
    };
    let (compatible, incompatible, read_only) = (word(92), word(96), word(100));
    let name = if incompatible & 0x8 != 0 {
        "jbd" // a journal on its own device
    } else if incompatible & !0x16 != 0 || read_only & !0x7 != 0 {
        "ext4" // has what ext3 does not know
    } else if compatible & 0x4 != 0 {
        "ext3" // has a journal
    } else {
        "ext2"
    };
    Ok(vec![(name, FileSystem, 1080, image.label(1024 + 120, 16)?)])
}

fn xfs(image: &Image) -> io::Result<Vec<Found>> {
    Ok(if image.is(0, b"XFSB")? {
        vec![("xfs", FileSystem, 0, image.label(108, 12)?)]
    } else if image.is(0, b"XFSM")? {
        vec![("xfs_external_log", FileSystem, 0, None)]
    } else {
        Vec::new()
    })
}

/// The mark ends the first page, whose size depends on the machine that made it.
fn swap(image: &Image) -> io::Result<Vec<Found>> {
    for page in [0x1000, 0x2000, 0x4000, 0x8000, 0x1_0000] {
        let mark = image.bytes(page - 10, 10)?;
        match mark.as_slice() {
            b"SWAPSPACE2" | b"SWAP-SPACE" => {
                return Ok(vec![("swap", Swap, page - 10, image.label(1024 + 28, 16)?)]);
            }
            _ if mark.starts_with(b"S1SUSPEND")
                || mark.starts_with(b"S2SUSPEND")
                || mark.starts_with(b"ULSUSPEND")
                || mark.starts_with(b"LINHIB0001") =>
            {
                return Ok(vec![("swsuspend", Swap, page - 10, None)]);
            }
            _ => {}
        }
    }
    Ok(Vec::new())
}

/// Format 1.1 stands at the start, 1.2 at 4 KiB, 1.0 at 8 KiB before the end rounded down to 4 KiB,
/// 0.90 in the last whole 64 KiB.
fn md(image: &Image) -> io::Result<Vec<Found>> {
    let mut places = vec![0, 4096];
    places.extend(image.before_end(8192).map(|place| place & !4095));
    let mut found = Vec::new();
    for place in places {
        if image.u32_le(place)? == Some(MD_MAGIC) && image.u32_le(place + 4)? == Some(1) {
            let label = image.label(place + 32, 32)?;
            found.push(("linux_raid_member", Member, place, label));
        }
    }
    let last = (image.size & !0xffff).checked_sub(0x1_0000);
    if let Some(place) = last
        && (image.u32_le(place)? == Some(MD_MAGIC) || image.u32_be(place)? == Some(MD_MAGIC))
        && !found.iter().any(|&(_, _, other, _)| other == place)
    {
        found.push(("linux_raid_member", Member, place, None));
    }
    Ok(found)
}

/// RAID that the firmware knows: Intel's mark is in the sector before the last, SNIA's in the last.
fn firmware_raid(image: &Image) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    for sector in [512, 4096] {
        if let Some(place) = image.before_end(2 * sector)
            && image.is(place, b"Intel Raid ISM Cfg Sig. ")?
        {
            found.push(("isw_raid_member", Member, place, None));
        }
    }
    if let Some(place) = image.before_end(512)
        && matches!(image.u32_be(place)?, Some(0xde11_de11 | 0x11de_11de))
    {
        found.push(("ddf_raid_member", Member, place, None));
    }
    Ok(found)
}

/// The label is in one of the first four sectors.
fn lvm2(image: &Image) -> io::Result<Vec<Found>> {
    for place in [0, 512, 1024, 1536] {
        if image.is(place, b"LABELONE")? && image.is(place + 24, b"LVM2 001")? {
            return Ok(vec![("LVM2_member", Member, place, None)]);
        }
    }
    Ok(Vec::new())
}

/// Where the first header was overwritten, LUKS2 still has the second: its place depends on the size
/// of the first.
fn luks2_second_header(image: &Image) -> io::Result<Vec<Found>> {
    for shift in 14..=22 {
        let place = 1 << shift;
        if image.is(place, b"SKUL\xba\xbe")? && !image.is(0, b"LUKS\xba\xbe")? {
            return Ok(vec![("crypto_LUKS", Member, place, None)]);
        }
    }
    Ok(Vec::new())
}

/// Four labels of 256 KiB, two at the start and two at the end; the second half of each is a ring of
/// uberblocks, written in turn, each in a slot of at least 1 KiB.
fn zfs(image: &Image) -> io::Result<Vec<Found>> {
    const LABEL: u64 = 256 << 10;
    let size = image.size & !(LABEL - 1);
    let mut labels = vec![0, LABEL];
    labels.extend(size.checked_sub(2 * LABEL));
    labels.extend(size.checked_sub(LABEL));
    for label in labels {
        let ring = image.bytes(label + LABEL / 2, 128 << 10)?;
        for (slot, block) in ring.chunks_exact(1024).enumerate() {
            let magic = u64::from_le_bytes(block[..8].try_into().expect("eight bytes"));
            if magic == ZFS_UBERBLOCK || magic.swap_bytes() == ZFS_UBERBLOCK {
                let place = label + LABEL / 2 + slot as u64 * 1024;
                return Ok(vec![("zfs_member", Member, place, None)]);
            }
        }
    }
    Ok(Vec::new())
}

/// Internal metadata end the device: 4 KiB before its end, the mark in the middle of a block.
fn drbd(image: &Image) -> io::Result<Vec<Found>> {
    let Some(block) = (image.size & !4095).checked_sub(4096) else {
        return Ok(Vec::new());
    };
    Ok(match image.u32_be(block + 60)? {
        // Format 8, the same unclean, format 9.
        Some(0x8374_026b..=0x8374_026d) => vec![("drbd", Member, block + 60, None)],
        _ => Vec::new(),
    })
}

/// Two bytes are little: some counts of the super block must make sense too.
fn minix(image: &Image) -> io::Result<Vec<Found>> {
    let block = image.bytes(1024, 32)?;
    if block.len() < 32 {
        return Ok(Vec::new());
    }
    let half = |at: usize| u16::from_le_bytes([block[at], block[at + 1]]);
    let old = matches!(half(16), 0x137f | 0x138f | 0x2468 | 0x2478)
        && half(0) > 0
        && half(4) > 0
        && half(6) > 0
        && half(18) <= 1 << 2;
    let new = half(24) == 0x4d5a && half(28).is_power_of_two() && half(28) >= 1024;
    Ok(if old || new {
        vec![("minix", FileSystem, 1024, None)]
    } else {
        Vec::new()
    })
}

/// Two bytes again: the size of its blocks must be one.
fn hfs(image: &Image) -> io::Result<Vec<Found>> {
    let block_size = image.u32_be(1024 + 20)?.unwrap_or(0);
    let is_hfs = image.is(1024, b"BD")? && block_size > 0 && block_size.is_multiple_of(512);
    Ok(if is_hfs {
        vec![("hfs", FileSystem, 1024, None)]
    } else {
        Vec::new()
    })
}

/// Two bytes at the end of the first sector, and a check sum: all its 16-bit words give 0.
fn sun(image: &Image) -> io::Result<Vec<Found>> {
    let sector = image.bytes(0, 512)?;
    let sum = sector
        .chunks_exact(2)
        .fold(0, |sum, pair| sum ^ u16::from_be_bytes([pair[0], pair[1]]));
    Ok(if sector.get(508..510) == Some(&[0xda, 0xbe]) && sum == 0 {
        vec![("sun", PartitionTable, 508, None)]
    } else {
        Vec::new()
    })
}

/// What `blkid` says by low-level probing; nothing where it is not installed or fails.
fn ask_blkid(path: &Path) -> Vec<(String, SignatureClass)> {
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
    let mut found = Vec::new();
    if let Some(name) = value("TYPE") {
        let class = match value("USAGE").as_deref() {
            Some("filesystem") => FileSystem,
            _ if name == "swap" || name == "swsuspend" => Swap,
            _ => Member,
        };
        found.push((name, class));
    }
    found.extend(value("PTTYPE").map(|name| (name, PartitionTable)));
    if output.status.code() == Some(8) {
        // Several signatures that contradict one another, and it names none of them.
        found.push(("several_signatures".to_owned(), Member));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use tempfile::NamedTempFile;

    use super::*;

    /// A sparse file to write on.
    fn image(mebibytes: u64) -> NamedTempFile {
        let file = NamedTempFile::new().unwrap();
        file.as_file().set_len(mebibytes << 20).unwrap();
        file
    }

    fn names(file: &NamedTempFile) -> Vec<String> {
        let found = probe(file.as_file()).unwrap();
        found.into_iter().map(|signature| signature.name).collect()
    }

    /// Runs a tool on a file; `{}` in its arguments is the file. False if the tool is missing.
    fn run(package: &str, command: &str, file: &NamedTempFile, input: &str) -> bool {
        let path = file.path().to_str().unwrap();
        let mut words = command.split(' ').map(|word| word.replace("{}", path));
        let mut child = match Command::new(words.next().unwrap())
            .args(words)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
        {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                eprintln!("SKIPPED: needs package {package} for `{command}`");
                return false;
            }
            Err(error) => panic!("{command}: {error}"),
        };
        // A tool that asks nothing may have ended already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{command}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        true
    }

    /// Checks that we and `blkid` (where it is) see this and nothing else.
    fn expect(file: &NamedTempFile, expected: &str) {
        assert_eq!(names(file), [expected]);
        let found = content(file.path()).unwrap();
        assert_eq!(found.len(), 1, "blkid sees something else: {found:?}");
        if let Some((name, _)) = ask_blkid(file.path()).first() {
            assert_eq!(name, expected, "blkid");
        }
    }

    #[test]
    fn what_the_real_tools_write_is_recognised_and_blkid_agrees() {
        let tools = [
            ("e2fsprogs", "mkfs.ext2 -q -F {}", "", 8, "ext2"),
            ("e2fsprogs", "mkfs.ext3 -q -F {}", "", 8, "ext3"),
            ("e2fsprogs", "mkfs.ext4 -q -F -L data {}", "", 8, "ext4"),
            ("e2fsprogs", "mke2fs -q -F -O journal_dev {}", "", 8, "jbd"),
            ("xfsprogs", "mkfs.xfs -q -L data {}", "", 320, "xfs"),
            ("btrfs-progs", "mkfs.btrfs -q {}", "", 128, "btrfs"),
            ("dosfstools", "mkfs.vfat -F 12 {}", "", 4, "vfat"),
            ("dosfstools", "mkfs.vfat -F 16 {}", "", 32, "vfat"),
            ("dosfstools", "mkfs.vfat -F 32 {}", "", 64, "vfat"),
            ("exfatprogs", "mkfs.exfat {}", "", 8, "exfat"),
            (
                "ntfs-3g",
                "mkfs.ntfs -q -F -Q -s 512 -p 0 -H 16 -S 63 {}",
                "",
                8,
                "ntfs",
            ),
            ("f2fs-tools", "mkfs.f2fs -q {}", "", 64, "f2fs"),
            ("nilfs-tools", "mkfs.nilfs2 -q -f {}", "", 256, "nilfs2"),
            ("util-linux", "mkfs.minix {}", "", 4, "minix"),
            ("util-linux", "mkfs.minix -3 {}", "", 4, "minix"),
            ("util-linux", "mkswap {}", "", 4, "swap"),
            ("util-linux", "mkswap -p 65536 {}", "", 4, "swap"),
            ("fdisk", "sfdisk -q --label dos {}", "1M,1M\n", 4, "dos"),
            ("fdisk", "sfdisk -q --label gpt {}", "1M,1M\n", 4, "gpt"),
            ("fdisk", "sfdisk -q --label sun {}", ";\n", 64, "sun"),
            ("fdisk", "sfdisk -q --label sgi {}", ";\n", 64, "sgi"),
            ("gdisk", "sgdisk -n 1:0:0 {}", "", 4, "gpt"),
            ("parted", "parted -s {} mklabel msdos", "", 4, "dos"),
            ("parted", "parted -s {} mklabel bsd", "", 4, "bsd"),
            ("parted", "parted -s {} mklabel mac", "", 4, "mac"),
            (
                "cryptsetup-bin",
                "cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 {} -",
                "secret",
                8,
                "crypto_LUKS",
            ),
            (
                "cryptsetup-bin",
                "cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 {} -",
                "secret",
                32,
                "crypto_LUKS",
            ),
            ("bcache-tools", "make-bcache -B {}", "", 8, "bcache"),
            ("bcache-tools", "make-bcache -C {}", "", 64, "bcache"),
            (
                "drbd-utils",
                "drbdmeta --force 0 v08 {} internal create-md",
                "yes",
                8,
                "drbd",
            ),
            (
                "drbd-utils",
                "drbdmeta --force 0 v09 {} internal create-md 1",
                "yes",
                8,
                "drbd",
            ),
        ];
        for (package, command, input, mebibytes, expected) in tools {
            let file = image(mebibytes);
            if run(package, command, &file, input) {
                let found = probe(file.as_file()).unwrap();
                assert!(
                    found.iter().any(|found| found.name == expected),
                    "{command}: {found:?}"
                );
                // A GPT comes with a table of the old kind that protects it.
                if expected == "gpt" {
                    assert_eq!(names(&file), ["dos", "gpt"], "{command}");
                } else {
                    expect(&file, expected);
                }
            }
        }
    }

    #[test]
    fn a_squashfs_and_a_cd_image_are_recognised() {
        let source = tempfile::tempdir().unwrap();
        std::fs::write(source.path().join("file"), "content").unwrap();
        let from = source.path().display();
        let file = image(0);
        let command = format!("mksquashfs {from} {{}} -noappend -quiet -no-progress");
        if run("squashfs-tools", &command, &file, "") {
            expect(&file, "squashfs");
        }
        let file = image(0);
        if run(
            "genisoimage",
            &format!("genisoimage -quiet -o {{}} {from}"),
            &file,
            "",
        ) {
            expect(&file, "iso9660");
        }
    }

    #[test]
    fn a_label_is_reported_with_its_file_system() {
        let file = image(8);
        if run("e2fsprogs", "mkfs.ext4 -q -F -L archive {}", &file, "") {
            let found = probe(file.as_file()).unwrap();
            assert_eq!(found[0].to_string(), "ext4 file system \"archive\"");
        }
    }

    #[test]
    fn a_gpt_whose_start_was_overwritten_is_still_seen_by_its_copy_at_the_end() {
        let file = image(4);
        if run("gdisk", "sgdisk -n 1:0:0 {}", &file, "") {
            file.as_file().write_all_at(&vec![0; 1 << 16], 0).unwrap();
            expect(&file, "gpt");
        }
    }

    #[test]
    fn a_luks2_header_that_was_overwritten_is_still_seen_by_its_copy() {
        let file = image(32);
        let command = "cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 \
                       --pbkdf-force-iterations 1000 {} -";
        if run("cryptsetup-bin", command, &file, "secret") {
            file.as_file().write_all_at(&[0; 4096], 0).unwrap();
            assert_eq!(names(&file), ["crypto_LUKS"]);
        }
    }

    /// A superblock of md's format 1, as its documentation describes it, with the right checksum.
    fn md_superblock_1(place: u64, device_sectors: u64) -> Vec<u8> {
        let mut block = vec![0_u8; 4096];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MD_MAGIC.to_le_bytes());
        put(4, &1_u32.to_le_bytes()); // major version
        put(16, &[7; 16]); // uuid of the set
        put(32, b"host:7");
        put(72, &1_u32.to_le_bytes()); // level
        put(80, &(device_sectors / 2).to_le_bytes()); // size
        put(92, &2_u32.to_le_bytes()); // disks
        put(128, &16_u64.to_le_bytes()); // data offset
        put(136, &(device_sectors / 2).to_le_bytes()); // data size
        put(144, &(place / 512).to_le_bytes()); // where this is
        put(168, &[9; 16]); // uuid of the device
        put(220, &128_u32.to_le_bytes()); // most devices
        for role in 0..128_u16 {
            let value = if role < 2 { role } else { 0xffff };
            put(256 + 2 * usize::from(role), &value.to_le_bytes());
        }
        let sum: u64 = block[..256 + 256]
            .chunks_exact(4)
            .map(|word| u64::from(u32::from_le_bytes(word.try_into().unwrap())))
            .sum();
        #[expect(clippy::cast_possible_truncation, reason = "folding is the point")]
        let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
        block[216..220].copy_from_slice(&sum.to_le_bytes());
        block
    }

    #[test]
    fn a_member_of_an_md_array_is_recognised_in_every_format() {
        let size = 64 << 20;
        // mdadm writes no superblock without the kernel's driver: these are made by hand, and mdadm
        // and blkid say whether they are right.
        for (format, place) in [("1.0", size - 8192), ("1.1", 0), ("1.2", 4096)] {
            let file = image(64);
            file.as_file()
                .write_all_at(&md_superblock_1(place, size / 512), place)
                .unwrap();
            expect(&file, "linux_raid_member");
            let found = probe(file.as_file()).unwrap();
            assert_eq!(found[0].label.as_deref(), Some("host:7"), "{format}");
            run("mdadm", "mdadm --examine {}", &file, "");
        }
        for magic in [MD_MAGIC.to_le_bytes(), MD_MAGIC.to_be_bytes()] {
            let file = image(64);
            let place = size - 0x1_0000;
            file.as_file().write_all_at(&magic, place).unwrap();
            assert_eq!(names(&file), ["linux_raid_member"], "0.90");
        }
    }

    #[test]
    fn a_zfs_member_is_recognised_by_any_of_its_four_labels() {
        let size = 64_u64 << 20;
        for label in [0, 256 << 10, size - (512 << 10), size - (256 << 10)] {
            let file = image(64);
            for slot in 0..4 {
                file.as_file()
                    .write_all_at(
                        &ZFS_UBERBLOCK.to_le_bytes(),
                        label + (128 << 10) + slot * 1024,
                    )
                    .unwrap();
            }
            expect(&file, "zfs_member");
        }
    }

    #[test]
    fn an_lvm_label_is_found_in_each_of_the_first_four_sectors() {
        for sector in 0..4 {
            let file = image(1);
            let mut label = [0_u8; 512];
            label[..8].copy_from_slice(b"LABELONE");
            label[24..32].copy_from_slice(b"LVM2 001");
            file.as_file().write_all_at(&label, sector * 512).unwrap();
            assert_eq!(names(&file), ["LVM2_member"]);
        }
    }

    #[test]
    fn ceph_and_firmware_raid_are_recognised() {
        let file = image(1);
        let text = b"bluestore block device\n5a6b";
        file.as_file().write_all_at(text, 0).unwrap();
        assert_eq!(names(&file), ["ceph_bluestore"]);
        let end = 1 << 20;
        for (place, mark, name) in [
            (
                end - 1024,
                &b"Intel Raid ISM Cfg Sig. 1.3.00"[..],
                "isw_raid_member",
            ),
            (end - 512, &[0xde, 0x11, 0xde, 0x11], "ddf_raid_member"),
        ] {
            let file = image(1);
            file.as_file().write_all_at(mark, place).unwrap();
            assert_eq!(names(&file), [name]);
        }
    }

    #[test]
    fn every_signature_on_a_device_is_reported_leftovers_too() {
        let file = image(320);
        if !run("xfsprogs", "mkfs.xfs -q {}", &file, "") {
            return;
        }
        let md = md_superblock_1((320 << 20) - 8192, 320 << 11);
        file.as_file()
            .write_all_at(&md, (320 << 20) - 8192)
            .unwrap();
        assert_eq!(names(&file), ["xfs", "linux_raid_member"]);
    }

    #[test]
    fn zeros_and_random_data_carry_no_signature() {
        assert_eq!(names(&image(64)), [""; 0]);
        assert_eq!(names(&image(0)), [""; 0]);
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let mut data = vec![0; 3 << 20];
        for _ in 0..8 {
            random.fill_bytes(&mut data);
            let file = image(0);
            file.as_file().write_all_at(&data, 0).unwrap();
            assert_eq!(names(&file), [""; 0]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_content_makes_the_probe_panic(
            start in proptest::collection::vec(any::<u8>(), 0..5000),
            size in 0_u64..70_000,
            magic in 0..FIXED.len(),
        ) {
            let file = image(0);
            file.as_file().write_all_at(&start, 0).unwrap();
            let (_, _, offset, text) = FIXED[magic];
            if size > offset {
                file.as_file().write_all_at(text, offset).unwrap();
            }
            file.as_file().set_len(size).unwrap();
            probe(file.as_file()).unwrap();
        }
    }
}
