//! `persist --method cmdline` and what takes it back with the boot loaders of distributions (`tests/boot`): GRUB's files are
//! changed and put back, for any other boot loader the words are printed, and nothing is changed.

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
const REMOVE: [&str; 3] = ["--yes", "--remove", "elevator"];

#[test]
fn grubs_files_are_changed_and_put_back() {
    for (boot, edits, note) in [
        (
            "debian-cloud",
            &[
                (
                    "etc/default/grub.d/50-cloudimg-settings.cfg",
                    "GRUB_CMDLINE_LINUX_DEFAULT=\"console=tty1 console=ttyS0\"\n",
                ),
                (
                    "etc/default/grub.d/zz-iosched.cfg",
                    "# Made by iosched: for disks on the single-queue path.\n\
                     GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX elevator=deadline\"\n",
                ),
            ][..],
            "`/usr/sbin/update-grub` is run then",
        ),
        (
            "rhel-7-tuned",
            &[(
                "etc/default/grub",
                "GRUB_CMDLINE_LINUX=\"crashkernel=auto rhgb quiet elevator=deadline\"\n",
            )],
            "`/usr/sbin/grub2-mkconfig -o /boot/grub2/grub.cfg` is run then",
        ),
    ] {
        let machine = machine(boot);
        let before = files(&machine);
        let (code, _, stderr) = machine.run("persist", &PUT);
        assert_eq!(code, 0, "{boot}: {stderr}");
        assert!(stderr.contains(note), "{boot}: {stderr}");
        let after = files(&machine);
        for (file, text) in &after {
            match edits.iter().find(|(edited, _)| edited == file) {
                Some((_, part)) => assert!(text.contains(part), "{boot}, {file}: {text}"),
                None => assert_eq!(Some(text), before.get(file), "{boot}: {file}"),
            }
        }
        machine.succeeds("undo", &[]);
        assert_eq!(files(&machine), before, "{boot}");

        // Taken out by `--remove` instead: nothing is left of it anywhere.
        machine.succeeds("persist", &PUT);
        machine.succeeds("persist", &REMOVE);
        for (file, text) in files(&machine) {
            assert!(!text.contains("elevator"), "{boot}, {file}: {text}");
        }
    }
}

#[test]
fn for_any_other_boot_loader_the_words_are_printed_and_nothing_is_changed() {
    for (boot, place, put, take) in [
        (
            "silverblue",
            "/run/ostree-booted",
            "rpm-ostree kargs --append-if-missing=elevator=deadline",
            None,
        ),
        (
            "fedora",
            "/etc/kernel/cmdline",
            "grubby --update-kernel=ALL --args=elevator=deadline",
            None,
        ),
        (
            "alpine",
            "/etc/update-extlinux.conf",
            "put elevator=deadline into /etc/update-extlinux.conf by hand",
            None,
        ),
        (
            "debian-grub-1",
            "/boot/grub/menu.lst",
            "put elevator=deadline into /boot/grub/menu.lst by hand",
            Some("take elevator= out of /boot/grub/menu.lst by hand"),
        ),
    ] {
        let machine = machine(boot);
        let before = files(&machine);
        let refused = |arguments: &[&str], way: &str| {
            let (code, _, stderr) = machine.run("persist", arguments);
            assert_eq!(code, 16, "{boot}: {stderr}");
            let stderr = in_one_line(&stderr);
            assert!(
                stderr.contains(&format!("error: {place}: ")),
                "{boot}: {stderr}"
            );
            assert!(stderr.contains(way), "{boot}: {stderr}");
            assert_eq!(files(&machine), before);
        };
        refused(&PUT, put);
        match take {
            Some(way) => refused(&REMOVE, way),
            None => drop(machine.succeeds("persist", &REMOVE)),
        }
        assert_eq!(files(&machine), before);
    }
}

#[test]
fn a_line_that_is_not_plain_is_refused_by_name_and_nothing_else_is_changed() {
    let machine = machine("debian-cloud");
    for (text, said) in [
        (
            "MORE=\"elevator=cfq\"\nGRUB_CMDLINE_LINUX=\"ro $MORE\"\n",
            "/etc/default/grub, line 1: \"MORE=\\\"elevator=cfq\\\"\"",
        ),
        (
            "GRUB_CMDLINE_LINUX=\"ro \\\n elevator=cfq\"\n",
            "/etc/default/grub, line 2",
        ),
    ] {
        machine.write("etc/default/grub", text);
        let before = files(&machine);
        let (code, _, stderr) = machine.run("persist", &REMOVE);
        assert_eq!(code, 16, "{stderr}");
        let stderr = in_one_line(&stderr);
        assert!(
            stderr.contains(said) && stderr.contains("by hand"),
            "{stderr}"
        );
        assert_eq!(files(&machine), before);
    }
}

#[test]
fn a_dead_elevator_is_pointed_at_wherever_it_stands() {
    const ENTRY: &str =
        "boot/loader/entries/0123456789abcdef0123456789abcdef-4.18.0-80.el8.x86_64.conf";
    let machine = machine("rhel-8");
    machine.write(
        "sys/block/sda/queue/scheduler",
        "[mq-deadline] kyber bfq none\n",
    );
    machine.write("proc/cmdline", "root=/dev/sda1 elevator=cfq\n");
    let entry = machine.read(ENTRY);
    machine.write(ENTRY, &entry.replace("$tuned_params", "elevator=cfq"));
    machine.write("etc/iosched/policy.toml", "version = 1\n");
    let places = [
        "/etc/default/grub:2".to_owned(),
        format!("/{ENTRY}:5"),
        "/boot/grub2/grubenv:3".to_owned(),
    ];
    let (_, stdout, stderr) = machine.run("check", &[]);
    for place in &places {
        assert!(stdout.contains(place), "{place}: {stdout}{stderr}");
    }
    // It is taken out of GRUB's own file, and the others are named.
    let (code, _, stderr) = machine.run("persist", &REMOVE);
    assert_eq!(code, 0, "{stderr}");
    assert!(!machine.read("etc/default/grub").contains("elevator"));
    for place in &places[1..] {
        let named = format!("{place} gives elevator=, too, and is left alone");
        assert!(in_one_line(&stderr).contains(&named), "{stderr}");
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
