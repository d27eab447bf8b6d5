//! `persist --method cmdline` and what takes it back with the boot loaders of other distributions (`tests/boot`): every
//! file that carries the kernel's command line is changed, no other is, and what cannot be changed is refused by name.

use std::collections::BTreeMap;
use std::fs;

use crate::common::in_one_line;
use crate::common::machine::Machine;

/// Linux 4.19 with a disk on the single-queue path, and this boot loader.
fn machine(boot: &str) -> Machine {
    let machine = Machine::new(&[("sda", &["ID_SERIAL=S1"])]);
    machine.write("proc/sys/kernel/osrelease", "4.19.300\n");
    machine.write("proc/cmdline", "root=/dev/sda1 ro\n");
    machine.write("sys/block/sda/queue/scheduler", "noop deadline [cfq]\n");
    machine.lay_over(&format!("boot/{boot}"));
    machine
}

/// Every file of the system with its text; links with their target.
fn files(machine: &Machine) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut waiting: Vec<_> = ["etc", "boot", "efi", "usr"]
        .iter()
        .map(|top| machine.path(top))
        .collect();
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(machine.root()).unwrap();
            let name = name.display().to_string();
            if path.is_symlink() {
                files.insert(name, fs::read_link(&path).unwrap().display().to_string());
            } else if path.is_dir() {
                waiting.push(path);
            } else {
                files.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

const PUT: [&str; 5] = ["--yes", "--method", "cmdline", "sda", "deadline"];
const RHEL_ENTRY: &str =
    "boot/loader/entries/0123456789abcdef0123456789abcdef-4.18.0-80.el8.x86_64.conf";
const ENVIRONMENT: &str = "boot/efi/EFI/redhat/grubenv";

/// A file, what stands in it, and what stands there in its place then.
type Edit = (&'static str, &'static str, &'static str);

/// What of a menu changes, from Debian's `# kopt=` on.
const MENU: (&str, &str) = (
    "sda1 ro\n\
     # defoptions=quiet elevator=noop\n\
     # xenhopt=dom0_mem=512M\n\
     ## ## End Default Options ##\n\
     \n\
     title Debian\n\
     root (hd0,0)\n\
     kernel /boot/vmlinuz-4.19.0 root=/dev/sda1 ro quiet elevator=noop\n\
     initrd /boot/initrd.img-4.19.0\n\
     \n\
     title Xen\n\
     root (hd0,0)\n\
     kernel /boot/xen-4.gz dom0_mem=512M\n\
     module /boot/vmlinuz-4.19.0 root=/dev/sda1 ro\n\
     module /boot/initrd.img-4.19.0\n\
     \n\
     ### END DEBIAN AUTOMAGIC KERNELS LIST\n\
     \n\
     title Gentoo\n\
     kernel (hd0,1)/kernel-genkernel-x86_64-4.19 real_root=/dev/sda3\n",
    "sda1 ro elevator=deadline\n\
     # defoptions=quiet\n\
     # xenhopt=dom0_mem=512M\n\
     ## ## End Default Options ##\n\
     \n\
     title Debian\n\
     root (hd0,0)\n\
     kernel /boot/vmlinuz-4.19.0 root=/dev/sda1 ro quiet elevator=deadline\n\
     initrd /boot/initrd.img-4.19.0\n\
     \n\
     title Xen\n\
     root (hd0,0)\n\
     kernel /boot/xen-4.gz dom0_mem=512M\n\
     module /boot/vmlinuz-4.19.0 root=/dev/sda1 ro elevator=deadline\n\
     module /boot/initrd.img-4.19.0\n\
     \n\
     ### END DEBIAN AUTOMAGIC KERNELS LIST\n\
     \n\
     title Gentoo\n\
     kernel (hd0,1)/kernel-genkernel-x86_64-4.19 real_root=/dev/sda3 elevator=deadline\n",
);

/// What stands where, by boot loader: the files that change, and what is said of a program that is run then.
const BOOTS: [(&str, &[Edit], &str); 10] = [
    (
        "fedora",
        &[
            ("etc/default/grub", "quiet", "quiet elevator=deadline"),
            ("etc/kernel/cmdline", "quiet", "quiet elevator=deadline"),
            (
                "boot/loader/entries/0123456789abcdef0123456789abcdef-4.19.300-1.fc41.x86_64.conf",
                "quiet",
                "quiet elevator=deadline",
            ),
            (
                "boot/loader/entries/0123456789abcdef0123456789abcdef-0-rescue.conf",
                "quiet",
                "quiet elevator=deadline",
            ),
        ],
        "",
    ),
    (
        "rhel-8",
        &[
            ("etc/default/grub", "elevator=cfq", "elevator=deadline"),
            // Its entries, and those of kernels to come, have `$kernelopts`.
            (
                ENVIRONMENT,
                " elevator=cfq \nboot_success=0\n#####",
                " elevator=deadline \nboot_success=0\n",
            ),
        ],
        "",
    ),
    (
        "debian-cloud",
        &[
            (
                "etc/default/grub",
                "GRUB_CMDLINE_LINUX=\"\"",
                "GRUB_CMDLINE_LINUX=\"elevator=deadline\"",
            ),
            (
                "etc/default/grub.d/50-cloudimg-settings.cfg",
                " elevator=noop",
                "",
            ),
        ],
        "`/usr/sbin/update-grub` is run then",
    ),
    (
        "arch",
        &[(
            "boot/loader/entries/arch.conf",
            "quiet",
            "quiet elevator=deadline",
        )],
        "",
    ),
    (
        "kernel-install",
        &[
            // From the distribution's file below /usr, which a file in /etc stands for.
            ("etc/kernel/cmdline", "quiet", "quiet elevator=deadline"),
            (
                "efi/loader/entries/0123456789abcdef0123456789abcdef-4.19.300.conf",
                "abcdef\nlinux ",
                "abcdef elevator=deadline\nlinux ",
            ),
        ],
        "",
    ),
    (
        "opensuse",
        &[(
            "etc/default/grub",
            "GRUB_CMDLINE_LINUX=\"\"",
            "GRUB_CMDLINE_LINUX=\"elevator=deadline\"",
        )],
        "`/usr/sbin/grub2-mkconfig -o /boot/grub2/grub.cfg` is run then",
    ),
    (
        "rhel-7-tuned",
        &[("etc/default/grub", "quiet\"", "quiet elevator=deadline\"")],
        "`/usr/sbin/grub2-mkconfig -o /boot/grub2/grub.cfg` is run then",
    ),
    (
        "debian-grub-1",
        &[("boot/grub/menu.lst", MENU.0, MENU.1)],
        "",
    ),
    (
        "opensuse-sdbootutil",
        &[("etc/kernel/cmdline", "quiet", "quiet elevator=deadline")],
        "`/usr/bin/sdbootutil update-all-entries` is run then",
    ),
    (
        "alpine",
        &[(
            "etc/update-extlinux.conf",
            "rootfstype=ext4\"",
            "rootfstype=ext4 elevator=deadline\"",
        )],
        "`/sbin/update-extlinux` is run then",
    ),
];

#[test]
fn every_file_that_carries_the_command_line_is_changed_and_put_back() {
    for (boot, edits, note) in BOOTS {
        let machine = machine(boot);
        let before = files(&machine);
        let (code, _, stderr) = machine.run("persist", &PUT);
        assert_eq!(code, 0, "{boot}: {stderr}");
        assert_eq!(
            stderr.contains("is run then"),
            !note.is_empty(),
            "{boot}: {stderr}"
        );
        assert!(stderr.contains(note), "{boot}: {stderr}");

        let mut expected = before.clone();
        for (file, from, to) in edits {
            let below_usr = format!("usr/lib/{}", file.strip_prefix("etc/").unwrap_or(file));
            let text = before.get(*file).or_else(|| before.get(&below_usr));
            let text = text.unwrap_or_else(|| panic!("{boot} has {file}"));
            assert!(text.contains(from), "{boot}, {file}: {text}");
            expected.insert((*file).to_owned(), text.replacen(from, to, 1));
        }
        let found = files(&machine);
        for (file, text) in &found {
            assert_eq!(Some(text), expected.get(file), "{boot}: {file}");
        }
        assert_eq!(found.len(), expected.len(), "{boot}");
        machine.succeeds("undo", &[]);
        assert_eq!(files(&machine), before, "{boot}");

        // Taken out by `--remove` instead: nothing is left of it anywhere.
        machine.succeeds("persist", &PUT);
        machine.succeeds("persist", &["--yes", "--remove", "elevator"]);
        for (file, text) in files(&machine) {
            assert!(!text.contains("elevator"), "{boot}, {file}: {text}");
            if file == ENVIRONMENT {
                assert_eq!(text.len(), 1024);
            }
        }
    }
}

#[test]
fn a_command_line_that_is_in_other_hands_is_refused_with_the_way_out() {
    for (boot, thing, way) in [
        (
            "silverblue",
            "/run/ostree-booted: the system is an image of ostree",
            "rpm-ostree kargs --append-if-missing=elevator=deadline",
        ),
        (
            "nixos",
            "/etc/NIXOS: NixOS makes the boot loader's files",
            "put elevator=deadline into boot.kernelParams",
        ),
        (
            "unified-image",
            "/efi/EFI/Linux/arch-linux.efi: a unified kernel image holds its command line itself",
            "put elevator=deadline into /etc/kernel/cmdline, and have",
        ),
        (
            "alpine-by-hand",
            "/etc/update-extlinux.conf: overwrite is not 1",
            "put elevator=deadline into /boot/extlinux.conf",
        ),
    ] {
        let machine = machine(boot);
        let before = files(&machine);
        let (code, _, stderr) = machine.run("persist", &PUT);
        assert_eq!(code, 16, "{boot}: {stderr}");
        assert!(
            stderr.contains(thing) && stderr.contains(way),
            "{boot}: {stderr}"
        );
        let remove = ["--yes", "--remove", "elevator"];
        machine.succeeds("persist", &remove);
        assert_eq!(
            files(&machine),
            before,
            "{boot}: there is nothing to take out"
        );
        machine.write("proc/cmdline", "root=/dev/sda1 elevator=noop\n");
        let (code, _, stderr) = machine.run("persist", &remove);
        assert_eq!(code, 16, "{boot}: {stderr}");
        let way = way.replace(
            "append-if-missing=elevator=deadline",
            "delete-if-present=elevator=noop",
        );
        let way = way.replace("put elevator=deadline into", "take elevator= out of");
        assert!(stderr.contains(&way), "{boot}: {stderr}");
        assert_eq!(files(&machine), before);
    }
}

/// Which files they are made from differs by who makes them.
#[test]
fn of_a_unified_image_the_files_are_named_that_it_is_made_from() {
    for (files, place) in [
        (&[][..], "/etc/kernel/cmdline"),
        (
            &[("etc/cmdline.d/root.conf", "root=/dev/sda1\n")],
            "/etc/cmdline.d/root.conf",
        ),
        (
            &[
                ("etc/cmdline.d/root.conf", "root=/dev/sda1\n"),
                ("etc/kernel/cmdline", "rw\n"),
                ("etc/dracut.conf.d/uki.conf", "kernel_cmdline=\"quiet\"\n"),
                ("etc/dracut.conf.d/other.conf", "compress=zstd\n"),
            ],
            "the one of /etc/kernel/cmdline, /etc/cmdline.d/root.conf, /etc/dracut.conf.d/uki.conf that it reads",
        ),
        (
            &[
                ("etc/kernel/uki.conf", "[UKI]\nCmdline=ro\n"),
                ("etc/kernel/cmdline", "rw\n"),
            ],
            "/etc/kernel/uki.conf",
        ),
    ] {
        let machine = machine("unified-image");
        fs::remove_file(machine.path("etc/kernel/cmdline")).unwrap();
        for (file, text) in files {
            machine.write(file, text);
        }
        let (code, _, stderr) = machine.run("persist", &PUT);
        assert_eq!(code, 16, "{stderr}");
        let way = format!("put elevator=deadline into {place}, and have");
        assert!(stderr.replace("\n      ", " ").contains(&way), "{stderr}");
    }
}

#[test]
fn what_cannot_be_edited_is_refused_by_name_and_nothing_else_is_changed() {
    const ENTRY: &str = "boot/loader/entries/arch.conf";
    let refused = |machine: &Machine, arguments: &[&str], words: [&str; 2]| {
        let before = files(machine);
        let (code, _, stderr) = machine.run("persist", arguments);
        assert_eq!(code, 16, "{stderr}");
        let stderr = in_one_line(&stderr);
        for words in words {
            assert!(stderr.contains(words), "{words}: {stderr}");
        }
        assert_eq!(files(machine), before);
    };
    let remove = ["--yes", "--remove", "elevator"];

    let link = machine("arch");
    fs::rename(link.path(ENTRY), link.path("boot/arch.conf")).unwrap();
    std::os::unix::fs::symlink("../../arch.conf", link.path(ENTRY)).unwrap();
    let way = [
        "/boot/loader/entries/arch.conf is a symbolic link to ../../arch.conf",
        "make the change in /boot/arch.conf by hand",
    ];
    refused(&link, &PUT, way);

    let bytes = machine("fedora");
    let entry = "boot/loader/entries/0123456789abcdef0123456789abcdef-0-rescue.conf";
    let text = bytes.read(entry);
    fs::write(
        bytes.path(entry),
        [text.as_bytes(), b"# caf\xe9\n"].concat(),
    )
    .unwrap();
    let (code, _, stderr) = bytes.run("persist", &PUT);
    assert_eq!(code, 16, "{stderr}");
    let named = format!("/{entry} is not text in UTF-8");
    assert!(stderr.contains(&named), "{stderr}");
    let grub = bytes.read("etc/default/grub");
    assert!(!grub.contains("elevator"), "the others stay: {grub}");

    let script = machine("debian-cloud");
    script.write(
        "etc/default/grub",
        "MORE=\"elevator=cfq\"\nGRUB_CMDLINE_LINUX=\"ro $MORE\"\n",
    );
    let way = [
        "/etc/default/grub, line 1: \"MORE=\\\"elevator=cfq\\\"\"",
        "take elevator= out of",
    ];
    refused(&script, &remove, way);
    script.write(
        "etc/default/grub",
        "GRUB_CMDLINE_LINUX=\"ro \\\n elevator=cfq\"\n",
    );
    refused(&script, &remove, ["/etc/default/grub, line 2", "by hand"]);
}

#[test]
fn an_entry_with_line_ends_of_dos_gets_the_parameter_before_them() {
    const ENTRY: &str = "boot/loader/entries/arch.conf";
    let machine = machine("arch");
    let entry = machine.read(ENTRY).replace('\n', "\r\n");
    machine.write(ENTRY, &entry);
    machine.succeeds("persist", &PUT);
    let expected = entry.replace("quiet", "quiet elevator=deadline");
    assert_eq!(machine.read(ENTRY), expected);
    machine.succeeds("undo", &[]);
    assert_eq!(machine.read(ENTRY), entry);
}

#[test]
fn a_dead_elevator_is_pointed_at_wherever_it_stands() {
    let machine = machine("rhel-8");
    machine.write(
        "sys/block/sda/queue/scheduler",
        "[mq-deadline] kyber bfq none\n",
    );
    machine.write("proc/cmdline", "root=/dev/sda1 elevator=cfq\n");
    let entry = machine.read(RHEL_ENTRY);
    machine.write(RHEL_ENTRY, &entry.replace("$tuned_params", "elevator=cfq"));
    machine.write("etc/iosched/policy.toml", "version = 1\n");
    let (_, stdout, stderr) = machine.run("check", &[]);
    for place in [
        "/etc/default/grub:2",
        &format!("/{RHEL_ENTRY}:5"),
        "/boot/efi/EFI/redhat/grubenv:3",
    ] {
        assert!(stdout.contains(place), "{place}: {stdout}{stderr}");
    }
}

#[test]
fn rules_that_nothing_reads_are_not_written() {
    // Alpine as it is installed: mdev makes the device nodes.
    let machine = Machine::new(&[("sda", &["ID_SERIAL=S1"])]);
    fs::remove_dir_all(machine.path("run/udev")).unwrap();
    machine.write("etc/mdev.conf", "sd[a-z].* root:disk 660\n");
    machine.write(
        "etc/iosched/policy.toml",
        "version = 1\n[[rule]]\nname = 'all'\nmatch = { model = 'ACME*' }\nscheduler = 'bfq'\n",
    );
    machine.write("sys/block/sda/device/model", "ACME 4000\n");
    let before = machine.etc();
    let (code, _, stderr) = machine.run("apply", &["--yes"]);
    assert_eq!(code, 10, "{stderr}");
    assert!(
        stderr.contains("no udev is installed here") && stderr.contains("setup-devd udev"),
        "{stderr}"
    );
    assert_eq!(machine.etc(), before);
    // eudev, installed and not yet started: the rules are for the next boot.
    machine.write("sbin/udevd", "");
    machine.succeeds("apply", &["--yes"]);
    assert!(machine.path("etc/udev/rules.d/99-iosched.rules").exists());
}
