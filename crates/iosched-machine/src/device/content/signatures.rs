//! Where each format puts the mark by which it is known.

use std::io;

use super::SignatureClass::{self, FileSystem, Member, PartitionTable, Swap};
use super::image::Image;

pub(super) type Probe = fn(&Image) -> io::Result<Vec<Found>>;

pub(super) type Found = (&'static str, SignatureClass, u64, Option<String>);

/// Signatures that are a text at a fixed place: name, class, offset, text.
pub(super) const FIXED: &[(&str, SignatureClass, u64, &[u8])] = &[
    ("exfat", FileSystem, 3, b"EXFAT   "),
    ("ntfs", FileSystem, 3, b"NTFS    "),
    ("ReFS", FileSystem, 3, b"ReFS\0"),
    ("BitLocker", Member, 3, b"-FVE-FS-"),
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

pub(super) const MD_MAGIC: u32 = 0xa92b_4efc;

pub(super) const ZFS_UBERBLOCK: u64 = 0x00ba_b10c;

/// Signatures that need a look at more than one place.
pub(super) const PROBES: &[Probe] = &[
    gpt,
    dos,
    ext,
    xfs,
    btrfs,
    f2fs,
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

fn btrfs(image: &Image) -> io::Result<Vec<Found>> {
    const SUPERBLOCK: u64 = 0x1_0000;
    let mark = SUPERBLOCK + 0x40;
    Ok(if image.is(mark, b"_BHRfS_M")? {
        let label = image.label(SUPERBLOCK + 0x12b, 256)?;
        vec![("btrfs", FileSystem, mark, label)]
    } else {
        Vec::new()
    })
}

/// Its label is in UTF-16.
fn f2fs(image: &Image) -> io::Result<Vec<Found>> {
    const SUPERBLOCK: u64 = 0x400;
    if !image.is(SUPERBLOCK, &0xf2f5_2010_u32.to_le_bytes())? {
        return Ok(Vec::new());
    }
    let text = image.bytes(SUPERBLOCK + 0x7c, 1024)?;
    let units = text
        .chunks_exact(2)
        .map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    let units: Vec<u16> = units.take_while(|&unit| unit != 0).collect();
    let label = String::from_utf16_lossy(&units);
    let label = (!label.is_empty()).then_some(label);
    Ok(vec![("f2fs", FileSystem, SUPERBLOCK, label)])
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
