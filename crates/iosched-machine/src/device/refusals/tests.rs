//! Real loop devices, file systems, swap and mounts, each a reason not to write.

use std::path::Path;

use iosched_testing::shell::Shell;

use super::*;
use crate::device::fixture::{LoopDevice, Mounted, machine, succeeds, tool};
use crate::device::{find, find_file_system, users};

/// The refusals of a live device. A child that another test is just starting holds all our
/// descriptors for an instant, the exclusive ones too: only what is busy a hundred times running is busy.
fn of(path: &Path) -> Vec<Refusal> {
    let host = Host::live();
    let device = find(&host, path.to_str().unwrap()).unwrap();
    let mut found = refusals(&host, &device, false);
    for _ in 0..100 {
        if !found.iter().any(|r| matches!(r, Refusal::Busy { .. })) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        found = refusals(&host, &device, false);
    }
    found
}

#[test]
fn a_writer_is_waited_for_and_whoever_is_hidden_is_named() {
    let opener = |writes| super::super::Opener {
        device: "sda".into(),
        command: "mkfs".into(),
        pid: 2,
        writes,
    };
    let looks = std::cell::Cell::new(0);
    let found = writers(|_| {
        looks.set(looks.get() + 1);
        Openers {
            found: vec![opener(looks.get() == 1)],
            not_looked_at: None,
        }
    });
    assert_eq!((found.len(), looks.get()), (0, 2));
    let hidden = writers(|_| Openers {
        found: Vec::new(),
        not_looked_at: Some(("/proc/2/fd".into(), io::ErrorKind::PermissionDenied.into())),
    });
    assert!(
        matches!(hidden[..], [Refusal::NotLookedAt { .. }]),
        "{hidden:?}"
    );
}

fn signatures(refusals: &[Refusal]) -> Vec<&str> {
    refusals
        .iter()
        .filter_map(|refusal| match refusal {
            Refusal::Signature { signature, .. } => Some(signature.name.as_str()),
            _ => None,
        })
        .collect()
}

fn is_busy(refusals: &[Refusal], name: &str) -> bool {
    let busy = |refusal: &Refusal| matches!(refusal, Refusal::Busy { device } if device == name);
    refusals.iter().any(busy)
}

#[test]
fn nothing_speaks_against_writing_to_a_blank_disk() {
    if let Some(disk) = LoopDevice::new(16) {
        assert_eq!(of(&disk.node), []);
    }
}

#[test]
fn every_kind_of_member_and_file_system_is_refused_by_node_and_by_link() {
    // bcache is not among them: where udev runs it would take the disk over. The probe's own tests
    // have it, on a file.
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "secret").unwrap();
    let key = key.path().to_str().unwrap();
    for (package, command, expected) in [
        ("e2fsprogs", "mkfs.ext4 -q -F", "ext4"),
        ("xfsprogs", "mkfs.xfs -q -f", "xfs"),
        ("btrfs-progs", "mkfs.btrfs -q -f", "btrfs"),
        ("util-linux", "mkswap", "swap"),
        ("lvm2", "pvcreate -q -y -ff", "LVM2_member"),
        ("gdisk", "sgdisk -o", "gpt"),
        ("parted", "parted -s DISK mklabel msdos", "dos"),
        (
            "cryptsetup-bin",
            "cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 DISK KEY",
            "crypto_LUKS",
        ),
        (
            "cryptsetup-bin",
            "cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 DISK KEY",
            "crypto_LUKS",
        ),
    ] {
        let Some(disk) = LoopDevice::new(320) else {
            return;
        };
        let mut words: Vec<&str> = command
            .split(' ')
            .map(|word| match word {
                "DISK" => disk.path(),
                "KEY" => key,
                word => word,
            })
            .collect();
        if !words.contains(&disk.path()) {
            words.push(disk.path());
        }
        if !succeeds(package, &words) {
            continue;
        }
        let links = tempfile::tempdir().unwrap();
        let link = links.path().join("by-id");
        std::os::unix::fs::symlink(&disk.node, &link).unwrap();
        for path in [&disk.node, &link] {
            let refusals = of(path);
            assert!(
                signatures(&refusals).contains(&expected),
                "{command}: {refusals:?}"
            );
            assert!(refusals.iter().all(Refusal::can_be_overruled));
        }
    }
}

#[test]
fn a_mounted_disk_is_refused_and_its_directory_leads_back_to_it() {
    let Some(disk) = LoopDevice::new(16) else {
        return;
    };
    if !succeeds("e2fsprogs", &["mkfs.ext4", "-q", "-F", disk.path()]) {
        return;
    }
    let mounted = Mounted::new(&disk.node);
    let refusals = of(&disk.node);
    let used = Refusal::Used(User::Mount {
        device: disk.name.clone(),
        mount_point: mounted.point.path().to_owned(),
        fs_type: "ext4".to_owned(),
        is_read_only: false,
    });
    assert!(refusals.contains(&used), "{refusals:?}");
    assert!(!used.can_be_overruled());
    assert!(is_busy(&refusals, &disk.name), "{refusals:?}");
    assert_eq!(signatures(&refusals), ["ext4"]);
    let file = mounted.point.path().join("file");
    std::fs::write(&file, "").unwrap();
    let file_system = find_file_system(&Host::live(), &file).unwrap();
    assert_eq!(file_system.devices[0].name, disk.name);
    assert_eq!(file_system.mount_point, mounted.point.path());
    assert_eq!(file_system.fs_type, "ext4");
}

#[test]
fn a_disk_is_refused_for_the_mount_of_its_partition_and_a_neighbour_is_not() {
    let Some(disk) = LoopDevice::new(32) else {
        return;
    };
    let table = ["sgdisk", "-n", "1:0:+8M", "-n", "2:0:+8M", disk.path()];
    if !succeeds("gdisk", &table) {
        return;
    }
    tool("mount", &["partx", "--update", disk.path()]);
    let (first, second) = (disk.partition(1), disk.partition(2));
    if !succeeds(
        "e2fsprogs",
        &["mkfs.ext4", "-q", "-F", first.to_str().unwrap()],
    ) {
        return;
    }
    let _mounted = Mounted::new(&first);
    let of_disk = of(&disk.node);
    let in_use = |refusals: &[Refusal]| {
        let used = |refusal: &Refusal| matches!(refusal, Refusal::Used(_));
        refusals.iter().filter(|refusal| used(refusal)).count()
    };
    assert_eq!(in_use(&of_disk), 1, "{of_disk:?}");
    assert!(is_busy(&of_disk, &format!("{}p1", disk.name)));
    assert!(signatures(&of_disk).contains(&"gpt"));
    assert!(signatures(&of_disk).contains(&"ext4"));
    assert_eq!(in_use(&of(&first)), 1);
    assert_eq!(of(&second), []);
}

#[test]
fn swap_on_a_disk_and_in_a_file_is_refused() {
    let Some(disk) = LoopDevice::new(16) else {
        return;
    };
    if !succeeds("util-linux", &["mkswap", disk.path()]) {
        return;
    }
    let on = tool("mount", &["swapon", disk.path()]).unwrap();
    if !on.status.success() {
        iosched_testing::lacks("a kernel that lets us swap to a loop device");
        return;
    }
    let refusals = of(&disk.node);
    succeeds("mount", &["swapoff", disk.path()]);
    let swap = Refusal::Used(User::Swap {
        device: disk.name.clone(),
        file: None,
    });
    assert!(refusals.contains(&swap), "{refusals:?}");
}

#[test]
fn a_mount_that_only_another_namespace_sees_makes_the_disk_busy() {
    let Some(disk) = LoopDevice::new(16) else {
        return;
    };
    if !succeeds("e2fsprogs", &["mkfs.ext4", "-q", "-F", disk.path()]) {
        return;
    }
    let point = tempfile::tempdir().unwrap();
    let script = r#"mount "$1" "$2" && echo done && read -r _ && umount "$2""#;
    let point = point.path().to_str().unwrap();
    let elsewhere = Shell::new(&["unshare", "--mount", "sh"], script, &[disk.path(), point]);
    let refusals = of(&disk.node);
    drop(elsewhere);
    assert!(
        users(&Host::live(), &find(&Host::live(), disk.path()).unwrap()).is_empty(),
        "the mount is not ours to see"
    );
    assert!(is_busy(&refusals, &disk.name), "{refusals:?}");
}

#[test]
fn a_disk_that_somebody_holds_open_exclusively_is_busy() {
    let Some(disk) = LoopDevice::new(16) else {
        return;
    };
    let held = open_exclusively(&disk.node).unwrap();
    let name = disk.name.clone();
    assert_eq!(of(&disk.node), [Refusal::Busy { device: name }]);
    drop(held);
    assert_eq!(of(&disk.node), []);
}

#[test]
fn a_machine_whose_mounts_cannot_be_read_is_not_taken_for_one_without_mounts() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("sys/block/sda")).unwrap();
    let host = Host::at(dir.path());
    let device = find(&host, "sda").unwrap();
    assert!(matches!(
        refusals(&host, &device, false)[..],
        [Refusal::NotLookedAt { .. }]
    ));
}

#[test]
fn a_disk_whose_node_is_not_its_own_is_not_looked_at() {
    let (Some(one), Some(two)) = (LoopDevice::new(1), LoopDevice::new(1)) else {
        return;
    };
    let host = Host::live();
    let mut device = find(&host, one.path()).unwrap();
    device.number = find(&host, two.path()).unwrap().number;
    assert!(matches!(
        refusals(&host, &device, false)[..],
        [Refusal::NotLookedAt { .. }]
    ));
}

#[test]
fn a_read_only_disk_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(16 << 20).unwrap();
    if let Some(disk) = LoopDevice::on(file, &["--read-only"]) {
        let device = disk.name.clone();
        assert_eq!(of(&disk.node), [Refusal::ReadOnly { device }]);
    }
}

#[test]
fn a_disk_below_a_loop_device_or_with_its_file_is_refused() {
    let Some(disk) = LoopDevice::new(64) else {
        return;
    };
    let losetup = ["losetup", "--find", "--show", disk.path()];
    let upper = tool("mount", &losetup).unwrap();
    let upper_node = String::from_utf8(upper.stdout).unwrap().trim().to_owned();
    let refusals = of(&disk.node);
    succeeds("mount", &["losetup", "--detach", &upper_node]);
    let backs = Refusal::BacksLoop {
        device: disk.name.clone(),
        by: upper_node.trim_start_matches("/dev/").to_owned(),
    };
    assert!(refusals.contains(&backs), "{refusals:?}");

    if !succeeds("e2fsprogs", &["mkfs.ext4", "-q", "-F", disk.path()]) {
        return;
    }
    let mounted = Mounted::new(&disk.node);
    let file = tempfile::NamedTempFile::new_in(mounted.point.path()).unwrap();
    file.as_file().set_len(16 << 20).unwrap();
    let inner = LoopDevice::on(file, &[]).unwrap();
    let refusals = of(&disk.node);
    let backs = Refusal::BacksLoop {
        device: disk.name.clone(),
        by: inner.name.clone(),
    };
    assert!(refusals.contains(&backs), "{refusals:?}");
    // The other way round: the scheduler of the lower disk matters for the upper one.
    let host = Host::live();
    let inner = find(&host, inner.path()).unwrap();
    let disks = super::super::schedulable_disks(&host, &inner).unwrap();
    let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
    assert_eq!(names[..2], [inner.name.as_str(), disk.name.as_str()]);
}

#[test]
fn a_btrfs_over_two_disks_uses_both() {
    let (Some(one), Some(two)) = (LoopDevice::new(128), LoopDevice::new(128)) else {
        return;
    };
    let make = ["mkfs.btrfs", "-q", "-f", one.path(), two.path()];
    if !succeeds("btrfs-progs", &make) {
        return;
    }
    let known = std::fs::read_to_string("/proc/filesystems").unwrap();
    if !known.contains("btrfs") {
        iosched_testing::lacks("a kernel with btrfs");
        return;
    }
    succeeds(
        "btrfs-progs",
        &["btrfs", "device", "scan", one.path(), two.path()],
    );
    let mounted = Mounted::new(&one.node);
    for disk in [&one, &two] {
        let refusals = of(&disk.node);
        assert!(
            refusals
                .iter()
                .any(|refusal| matches!(refusal, Refusal::Used(_))),
            "{}: {refusals:?}",
            disk.name
        );
    }
    let file_system = find_file_system(&Host::live(), mounted.point.path()).unwrap();
    assert_eq!(file_system.devices.len(), 2);
}

#[test]
fn members_are_refused_for_what_holds_them_and_a_partition_for_what_holds_its_disk() {
    let refused = |name: &str, device: &str| -> Vec<String> {
        let host = machine(name);
        refusals(&host, &find(&host, device).unwrap(), false)
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(
        refused("md-raid", "sdc1"),
        ["sdc1 is part of md127, md raid"]
    );
    assert_eq!(
        refused("md-raid", "sda2"),
        [
            "md1p1 (xfs) is mounted on /srv",
            "sda2 is part of md1, md raid10"
        ]
    );
    assert_eq!(
        refused("lvm-on-crypt", "nvme0n1p3").last().unwrap(),
        "nvme0n1p3 is part of dm-0 (luks-home), crypt"
    );
    assert_eq!(
        refused("dm-multipath", "sdd"),
        [
            "dm-3 (xfs) is mounted on /srv/db",
            "sdd is part of dm-1 (mpathb), multipath"
        ]
    );
    assert_eq!(
        refused("cciss", "cciss!c0d1"),
        [
            "dm-1 (xfs) is mounted on /data",
            "cciss/c0d1 is part of dm-1 (vg-data), LVM"
        ]
    );
    assert_eq!(refused("virtual-machine", "vdb"), ["loop1 stands on vdb"]);
    assert_eq!(refused("legacy-4.4", "sdb"), [""; 0]);
}
