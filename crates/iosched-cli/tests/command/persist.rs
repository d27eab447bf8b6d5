//! `iosched persist`, `apply`, `undo` and `log` on copied trees: what is written where, and every way
//! in which it must not be. The same on real machines with real reboots: `tests/vm`.
use std::fs;
use std::os::unix::fs::symlink;

use crate::common::machine::Machine;

const RULES: &str = "etc/udev/rules.d/99-iosched.rules";
const POLICY: &str = "etc/iosched/policy.toml";

#[test]
fn a_choice_is_written_shown_logged_and_taken_back() {
    let machine = Machine::two_disks();
    let before = machine.etc();
    let stdout = machine.succeeds(
        "persist",
        &[
            "--yes",
            "sda",
            "bfq",
            "low_latency=0",
            "nr_requests=32",
            "--why",
            "it won",
        ],
    );
    assert!(
        stdout.contains("+++ /etc/udev/rules.d/99-iosched.rules"),
        "{stdout}"
    );
    let rules = machine.read(RULES);
    let depth = rules.find("ATTR{queue/nr_requests}=\"32\"").unwrap();
    let tunable = rules.find("ATTR{queue/iosched/low_latency}=\"0\"").unwrap();
    assert!(rules.find("ATTR{queue/scheduler}=\"bfq\"").unwrap() < depth && depth < tunable);
    assert!(
        rules.contains("ENV{ID_WWN}==\"0x5000c500a1b2c3d4\""),
        "{rules}"
    );

    let stdout = machine.succeeds("persist", &["--list"]);
    assert!(
        stdout.contains("bfq:low_latency=0,nr_requests=32 on sda"),
        "{stdout}"
    );
    let stdout = machine.succeeds("log", &[]);
    assert!(stdout.contains("why: it won"), "{stdout}");
    let again = machine.succeeds(
        "persist",
        &[
            "--yes",
            "sda",
            "bfq",
            "low_latency=0",
            "nr_requests=32",
            "--why",
            "it won",
            "--dry-run",
        ],
    );
    assert!(
        !again.contains("+++"),
        "the files are as they should be: {again}"
    );

    machine.succeeds("undo", &[]);
    assert_eq!(machine.etc(), before);
    let stdout = machine.succeeds("log", &[]);
    assert!(
        stdout.contains("[taken back]") && stdout.contains("[undo]"),
        "{stdout}"
    );
    let (code, _, stderr) = machine.run("undo", &[]);
    assert_eq!(code, 1);
    assert!(stderr.contains("no change to take back"), "{stderr}");
}

#[test]
fn removing_the_last_rule_leaves_nothing_and_the_users_own_words_stay() {
    let machine = Machine::two_disks();
    let before = machine.etc();
    machine.succeeds("persist", &["--yes", "sda", "bfq"]);
    machine.succeeds("persist", &["--yes", "sdb", "none"]);
    machine.succeeds("persist", &["--yes", "--remove", "sda"]);
    assert!(!machine.read(RULES).contains("0x5000c500a1b2c3d4"));
    machine.succeeds("persist", &["--yes", "--remove", "sdb"]);
    assert_eq!(machine.etc(), before);

    machine.succeeds("persist", &["--yes", "sda", "bfq"]);
    let own = format!("# Ask Ann.\n{}", machine.read(POLICY));
    machine.write(POLICY, &own);
    machine.succeeds("persist", &["--yes", "--remove", "sda"]);
    assert!(machine.read(POLICY).contains("# Ask Ann."));
    let (code, _, stderr) = machine.run("persist", &["--yes", "--remove", "sda"]);
    assert_eq!(code, 3, "{stderr}");
}

#[test]
fn nothing_is_written_unless_asked() {
    let machine = Machine::two_disks();
    let before = machine.etc();
    let stdout = machine.succeeds("persist", &["sda", "bfq", "--dry-run"]);
    assert!(stdout.contains("nothing was written"), "{stdout}");
    assert!(
        stdout.contains("sda: scheduler mq-deadline -> bfq"),
        "{stdout}"
    );
    let (code, _, stderr) = machine.run("persist", &["sda", "bfq"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("--yes"), "{stderr}");
    assert_eq!(machine.etc(), before);
    assert!(!machine.path("var").exists());
}

#[test]
fn a_disk_is_recognised_by_its_place_only_with_a_warning_and_without_any_identity_not_at_all() {
    let machine = Machine::new(&[
        ("sda", &["ID_PATH=pci-0000:00:06.0"]),
        ("sdb", &[]),
        ("loop0", &["ID_SERIAL=x"]),
    ]);
    let (code, _, stderr) = machine.run("persist", &["--yes", "sda", "bfq"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains("another disk plugged in there gets the same"),
        "{stderr}"
    );
    for (disk, words, hint) in [
        ("sdb", "udev knows no", "give the disk a serial number"),
        (
            "loop0",
            "another disk each time",
            "as long as the device is there: iosched set loop0 bfq low_latency=0\n",
        ),
    ] {
        let arguments = ["--yes", disk, "bfq", "low_latency=0"];
        let (code, _, stderr) = machine.run("persist", &arguments);
        assert_eq!(code, 3, "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
        assert!(stderr.contains(hint), "{stderr}");
    }
}

#[test]
fn an_array_is_kept_on_its_members_and_a_multipath_disk_on_its_map() {
    let machine = Machine::copied("md-raid");
    for (disk, serial) in [("sda", "A"), ("sdb", "B")] {
        let number = machine.read(&format!("sys/block/{disk}/dev"));
        let entry = format!("run/udev/data/b{}", number.trim());
        machine.write(&entry, &format!("E:ID_SERIAL={serial}\n"));
    }
    machine.succeeds("persist", &["--yes", "md0", "mq-deadline"]);
    let rules = machine.read(RULES);
    assert!(rules.contains("ENV{ID_SERIAL}==\"A\"") && rules.contains("ENV{ID_SERIAL}==\"B\""));

    let machine = Machine::copied("dm-multipath");
    let number = machine.read("sys/block/dm-0/dev");
    machine.write(
        &format!("run/udev/data/b{}", number.trim()),
        "E:DM_UUID=mpath-3600508b1001c1234\n",
    );
    let (code, _, stderr) = machine.run("persist", &["--yes", "sda", "mq-deadline"]);
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("one path of a multipath disk"), "{stderr}");
    machine.succeeds("persist", &["--yes", "dm-0", "mq-deadline"]);
    assert!(
        machine
            .read(RULES)
            .contains("ENV{DM_UUID}==\"mpath-3600508b1001c1234\"")
    );
}

#[test]
fn a_link_at_the_place_of_our_file_is_not_followed() {
    let machine = Machine::two_disks();
    machine.write("etc/shadow", "secret\n");
    fs::create_dir_all(machine.path("etc/udev/rules.d")).unwrap();
    symlink("/etc/shadow", machine.path(RULES)).unwrap();
    let before = machine.etc();
    let (code, _, stderr) = machine.run("persist", &["--yes", "sda", "bfq"]);
    assert_eq!(code, 16, "{stderr}");
    assert!(
        stderr.contains("is a symbolic link to /etc/shadow"),
        "{stderr}"
    );
    assert_eq!(machine.etc(), before);

    fs::remove_file(machine.path(RULES)).unwrap();
    fs::remove_dir(machine.path("etc/udev/rules.d")).unwrap();
    symlink("/nix/store/abc-rules", machine.path("etc/udev/rules.d")).unwrap();
    let (code, _, stderr) = machine.run("persist", &["--yes", "sda", "bfq"]);
    assert_eq!(code, 16);
    assert!(stderr.contains("services.udev.extraRules"), "{stderr}");
}

#[test]
fn a_malformed_policy_is_refused_with_line_and_column_and_nothing_changes() {
    let machine = Machine::two_disks();
    machine.write(
        POLICY,
        "version = 1\n\n[[rule]]\nname = \"a\"\nscheduler = \"bfq\"\nmatch = { serail = \"x\" }\n",
    );
    let before = machine.etc();
    for (command, arguments) in [
        ("apply", vec!["--yes"]),
        ("persist", vec!["--yes", "sda", "bfq"]),
        ("persist", vec!["--list"]),
    ] {
        let (code, _, stderr) = machine.run(command, &arguments);
        assert_eq!(code, 2, "{stderr}");
        assert!(
            stderr.contains("/etc/iosched/policy.toml:6:11: unknown field `serail`"),
            "{stderr}"
        );
    }
    assert_eq!(machine.etc(), before);
}

#[test]
fn of_two_rules_for_one_disk_the_first_counts_in_the_policy_and_in_udev() {
    let machine = Machine::two_disks();
    machine.write(
        POLICY,
        "[[rule]]\nname = 'first'\nmatch = { serial = 'ACME*' }\nscheduler = 'bfq'\n\
         [[rule]]\nname = 'second'\nmatch = { wwn = '0x5000*' }\nscheduler = 'none'\n",
    );
    let (code, stdout, stderr) = machine.run("apply", &["--yes"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains("rule \"first\" counts; rule \"second\" (line 5) matches, too"),
        "{stderr}"
    );
    assert!(
        stdout.contains("sda: scheduler mq-deadline -> bfq"),
        "{stdout}"
    );
    let rules = machine.read(RULES);
    assert!(rules.find("ACME*").unwrap() < rules.find("0x5000*").unwrap());
}

#[test]
fn a_whole_policy_is_taken_over_and_its_errors_name_the_users_file() {
    let machine = Machine::two_disks();
    let file = machine.path("ours.toml");
    fs::write(
        &file,
        "[[rule]]\nname = 'all'\nmatch = { model = '*' }\nscheduler = 'none'\n",
    )
    .unwrap();
    let path = file.to_str().unwrap();
    machine.succeeds("persist", &["--yes", "--policy", path]);
    assert_eq!(machine.read(POLICY), machine.read("ours.toml"));
    fs::write(&file, "[[rule]]\n").unwrap();
    let (code, _, stderr) = machine.run("persist", &["--yes", "--policy", path]);
    assert_eq!(code, 2);
    assert!(
        stderr.contains("ours.toml:1:1: missing field `name`"),
        "{stderr}"
    );
    fs::write(&file, b"# caf\xe9\n").unwrap();
    let (code, _, stderr) = machine.run("persist", &["--yes", "--policy", path]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("iconv"), "{stderr}");
}

#[test]
fn schedulers_that_a_disk_does_not_offer_are_refused_before_anything_is_written() {
    let machine = Machine::two_disks();
    let before = machine.etc();
    let (code, _, stderr) = machine.run("persist", &["--yes", "sda", "kyber"]);
    assert_eq!(code, 5, "{stderr}");
    for value in ["write_cache=x", "nr_requests=0"] {
        let (code, _, stderr) = machine.run("persist", &["--yes", "sda", "none", value]);
        assert_eq!(code, 6, "{stderr}");
    }
    assert_eq!(machine.etc(), before);
}

/// A machine of this kernel, whose disk is on the single-queue path before 5.0, with a boot loader's file.
fn legacy(kernel: &str, file: &str, text: &str) -> Machine {
    let machine = Machine::new(&[("sda", &["ID_SERIAL=S1"])]);
    machine.write("proc/sys/kernel/osrelease", kernel);
    if !kernel.starts_with('5') {
        machine.write("sys/block/sda/queue/scheduler", "noop [deadline] cfq\n");
    }
    machine.write(file, text);
    machine
}

#[test]
fn elevator_is_refused_where_it_does_nothing_and_a_dead_one_can_be_taken_out() {
    let grub = "GRUB_CMDLINE_LINUX=\"quiet elevator=noop\"\n";
    let machine = legacy("5.4.0", "etc/default/grub", grub);
    let (code, _, stderr) = machine.run("persist", &["--yes", "--method", "cmdline", "sda", "bfq"]);
    assert_eq!(code, 10);
    assert!(stderr.contains("no effect on Linux 5.4"), "{stderr}");
    assert_eq!(machine.read("etc/default/grub"), grub);
    machine.succeeds("persist", &["--yes", "--remove", "elevator"]);
    assert_eq!(
        machine.read("etc/default/grub"),
        "GRUB_CMDLINE_LINUX=\"quiet\"\n"
    );
    let machine = legacy("4.4.0", "etc/hosts", "");
    let arguments = ["--yes", "--method", "cmdline", "sda", "deadline"];
    assert_eq!(machine.run("persist", &arguments).0, 10, "no boot loader");
}

#[test]
fn options_without_effect_and_a_second_device_are_refused_by_name() {
    let machine = legacy("4.4.0", "etc/default/grub", "GRUB_CMDLINE_LINUX=\"\"\n");
    let before = machine.etc();
    for (arguments, said) in [
        (
            ["--method", "cmdline", "--initramfs", "sda", "deadline"].as_slice(),
            "--initramfs has no effect on elevator=",
        ),
        (
            &["--remove", "elevator", "--method", "udev"],
            "--method udev has no effect on elevator=",
        ),
        (
            &["sda", "sda", "deadline", "nr_requests=64"],
            "iosched persist sda deadline nr_requests=64; iosched persist sda deadline",
        ),
        (
            &["--method", "cmdline", "sda", "sda", "deadline"],
            "\"sda\" stands where the scheduler belongs",
        ),
    ] {
        let arguments = [&["--yes"], arguments].concat();
        let (code, _, stderr) = machine.run("persist", &arguments);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
    assert_eq!(machine.etc(), before);
}

#[test]
fn the_module_of_the_root_disk_goes_into_the_initramfs_when_asked_and_goes_with_its_rule() {
    let initramfs = "usr/share/initramfs-tools/modules.d/iosched";
    let machine = Machine::two_disks();
    let mount = "22 1 8:0 / / rw,relatime - ext4 /dev/sda rw\n";
    machine.write("proc/self/mountinfo", mount);
    fs::create_dir_all(machine.path("sys/dev/block")).unwrap();
    symlink("../../block/sda", machine.path("sys/dev/block/8:0")).unwrap();
    let modules = "lib/modules/6.12.0-test";
    machine.write(
        &format!("{modules}/modules.alias"),
        "alias bfq-iosched bfq\n",
    );
    let (code, _, stderr) = machine.run("persist", &["--yes", "--initramfs", "sda", "bfq"]);
    assert_eq!(code, 10, "no program makes an initramfs: {stderr}");

    machine.write("usr/sbin/mkinitramfs", "");
    machine.write("usr/sbin/update-initramfs", "");
    machine.write("usr/share/initramfs-tools/modules.d/others", "");
    let (_, _, stderr) = machine.run("persist", &["--yes", "sda", "bfq"]);
    assert!(stderr.contains("--initramfs puts it"), "{stderr}");
    assert!(!machine.path(initramfs).exists(), "nobody asked");
    let (code, stdout, stderr) = machine.run("apply", &["--yes", "--initramfs"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains(&format!("+++ /{initramfs}")), "{stdout}");
    assert!(stderr.contains("update-initramfs -u -k all"), "{stderr}");
    assert!(machine.read(initramfs).ends_with("\nbfq\n"));
    machine.succeeds("undo", &[]);
    assert!(!machine.path(initramfs).exists());

    machine.succeeds("apply", &["--yes", "--initramfs"]);
    machine.succeeds("persist", &["--yes", "--remove", "sda"]);
    assert!(!machine.path(initramfs).exists());
    let (_, _, stderr) = machine.run("persist", &["--yes", "--initramfs", "sdb", "bfq"]);
    assert!(
        stderr.contains("nothing to put into the initramfs"),
        "{stderr}"
    );
}
