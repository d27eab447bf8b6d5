//! What the real tools write, and what is made by hand in their formats.

use std::io::Write;
use std::os::unix::fs::FileExt;

use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use tempfile::NamedTempFile;

use super::signatures::{MD_MAGIC, ZFS_UBERBLOCK};
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
            iosched_testing::lacks(&format!("package {package} for `{command}`"));
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
    if let Some(Signature { name, .. }) = ask_blkid(file.path()).first() {
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
        // It takes a lock of root's, even for a file.
        if package == "drbd-utils" && !iosched_testing::is_root() {
            continue;
        }
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
    for (package, command, size, name) in [
        ("e2fsprogs", "mkfs.ext4 -q -F -L archive {}", 8, "ext4"),
        ("xfsprogs", "mkfs.xfs -q -f -L archive {}", 512, "xfs"),
        (
            "btrfs-progs",
            "mkfs.btrfs -q -f -L archive {}",
            128,
            "btrfs",
        ),
        ("f2fs-tools", "mkfs.f2fs -q -f -l archive {}", 64, "f2fs"),
    ] {
        let file = image(size);
        if run(package, command, &file, "") {
            let found = probe(file.as_file()).unwrap();
            let said = format!("{name} file system \"archive\"");
            assert_eq!(found[0].to_string(), said);
            assert_eq!(label(file.path()).unwrap().as_deref(), Some("archive"));
            file.as_file().write_all_at(b"SWAPSPACE2", 4086).unwrap();
            let beside = label(file.path()).unwrap();
            assert_eq!(beside, None, "{name} beside something else");
        }
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
