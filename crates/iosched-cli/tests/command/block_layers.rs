//! Machines whose kernel is older or newer than the one that tests run on, as copied trees: both block layers of 4.19
//! beside each other, and a scheduler that nobody here knows.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use iosched_testing::world::own_mounts;

use crate::common::fake_queue::show_as_queue_of;
use crate::common::lab::{stderr, stdout};
use crate::common::machine::Machine;
use crate::common::tuning::{MIB, record};
use crate::common::{
    LoopDevice, can_emulate, can_use_loop_devices, has_fio, in_one_line, iosched, run,
};

const RULES: &str = "etc/udev/rules.d/99-iosched.rules";
const POLICY: &str = "etc/iosched/policy.toml";

/// SATA disks on the single-queue path, a virtio and an NVMe disk on blk-mq.
fn mixed() -> Machine {
    let machine = Machine::copied("mixed-4.19");
    machine.write("proc/cmdline", "root=/dev/sda1 ro\n");
    machine.write("etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet\"\n");
    machine
}

#[test]
fn an_old_name_is_each_disks_own_and_a_policy_of_it_is_in_force_after_it_was_applied() {
    let machine = mixed();
    let policy = "[[rule]]\nname = 'all'\nmatch = { serial = '*' }\nscheduler = 'deadline'\n";
    machine.write(POLICY, policy);
    machine.succeeds("apply", &["--yes"]);
    let (code, said, error) = machine.run("check", &[]);
    assert_eq!(code, 2, "{error}");
    // sdb and vda have it already, each by its own name.
    for line in [
        "sda: NOT as wanted by \"all\": deadline",
        "scheduler is cfq, not deadline",
        "sdb: as wanted by \"all\": deadline",
        "vda: as wanted by \"all\": mq-deadline",
        "scheduler is none, not mq-deadline",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    machine.write("sys/block/sda/queue/scheduler", "noop [deadline] cfq \n");
    machine.write(
        "sys/block/nvme0n1/queue/scheduler",
        "[mq-deadline] kyber bfq none\n",
    );
    let (code, said, error) = machine.run("check", &[]);
    assert_eq!(code, 0, "{said}{error}");
    let again = machine.succeeds("apply", &["--yes"]);
    assert!(again.contains("nothing to do"), "{again}");
}

#[test]
fn a_scheduler_that_a_disk_lacks_is_refused_with_the_name_that_it_has_there() {
    let machine = mixed();
    // A driver that has its own way with requests offers two of them on 4.19.
    machine.write("sys/block/vda/queue/scheduler", "[none] mq-deadline\n");
    for (disk, scheduler, words) in [
        ("vda", "cfq", "for disks on the single-queue path"),
        ("vda", "cfq", "where this one is, that is bfq: its module"),
        ("sda", "mq-deadline", "where deadline does that"),
        ("sda", "none", "where noop does that"),
        ("sda", "bfq", "cfq, from which bfq descends"),
        ("nvme0n1", "noop", ""),
    ] {
        let (code, _, error) = machine.run("persist", &["--dry-run", disk, scheduler]);
        let error = in_one_line(&error);
        assert_eq!(code, if words.is_empty() { 0 } else { 5 }, "{error}");
        assert!(error.contains(words), "{disk} {scheduler}: {error}");
    }
}

#[test]
fn a_scheduler_file_that_cannot_be_read_is_named_and_not_taken_for_blk_mq() {
    let machine = mixed();
    let scheduler = machine.path("sys/block/sda/queue/scheduler");
    std::fs::remove_file(&scheduler).unwrap();
    std::fs::create_dir(&scheduler).unwrap();
    let put = ["--dry-run", "--method", "cmdline", "sda", "noop"];
    let (code, _, error) = machine.run("persist", &put);
    let error = in_one_line(&error);
    assert_ne!(code, 0);
    assert!(
        error.contains("sda") && !error.contains("single-queue"),
        "{error}"
    );
}

#[test]
fn the_way_to_blk_mq_is_named_where_this_kernel_has_one_for_the_disks_driver() {
    let machine = mixed();
    let hint = |machine: &Machine, disk: &str| {
        let (code, _, error) = machine.run("persist", &["--dry-run", disk, "kyber"]);
        assert_eq!(code, 5, "{error}");
        in_one_line(&error)
    };
    let unknown = "this one is on the single-queue path";
    assert!(
        hint(&machine, "sda").contains(unknown),
        "no modules are shown"
    );
    machine.write("sys/module/kernel/parameters/panic", "0\n");
    let nothing = "this kernel has no parameter that puts this disk there";
    assert!(hint(&machine, "sda").contains(nothing), "as before 3.17");
    machine.write("sys/module/scsi_mod/parameters/use_blk_mq", "N\n");
    let said = hint(&machine, "sda");
    assert!(said.contains("scsi_mod.use_blk_mq=1"), "{said}");
    // A card is no SCSI disk.
    let card = Machine::new(&[("mmcblk0", &["ID_SERIAL=0x1"])]);
    card.write("sys/block/mmcblk0/queue/scheduler", "noop [cfq]\n");
    card.write("sys/module/scsi_mod/parameters/use_blk_mq", "N\n");
    assert!(hint(&card, "mmcblk0").contains(nothing));
    card.write("sys/module/mmc_core/parameters/use_blk_mq", "N\n");
    let said = hint(&card, "mmcblk0");
    assert!(said.contains("mmc_core.use_blk_mq=1"), "{said}");
}

#[test]
fn a_value_is_kept_as_kernels_show_it_or_not_at_all() {
    let machine = mixed();
    let before = machine.etc();
    for (disk, words, way) in [
        ("sda", ["cfq", "slice_idle=0x8"], "write 8"),
        ("vda", ["mq-deadline", "fifo_batch=0x20"], "write 32"),
        ("vda", ["mq-deadline", "fifo_batch=010"], "8 (octal)"),
        (
            "vda",
            ["none", "wbt_lat_usec=9223372036854776"],
            "from -1 to 9223372036854775",
        ),
    ] {
        let (code, _, error) = machine.run("persist", &[&["--yes", disk][..], &words].concat());
        assert_eq!(code, 6, "{words:?}: {error}");
        assert!(in_one_line(&error).contains(way), "{words:?}: {error}");
        let [scheduler, tunable] = words;
        let (name, value) = tunable.split_once('=').unwrap();
        machine.write(
            POLICY,
            &format!(
                "[[rule]]\nname = 'a'\nmatch = {{ serial = '*' }}\nscheduler = '{scheduler}'\n\
                 tunables = {{ {name} = '{value}' }}\n"
            ),
        );
        for command in ["apply", "check"] {
            let (code, _, error) = machine.run(command, &[]);
            assert_ne!(code, 0, "{command}: {words:?}");
            let error = in_one_line(&error);
            assert!(error.contains("policy.toml:5:"), "{command}: {error}");
            assert!(error.contains(way), "{command}: {error}");
        }
        fs::remove_file(machine.path(POLICY)).unwrap();
    }
    assert_eq!(machine.etc().len(), before.len());
}

#[test]
fn the_values_of_a_policy_are_checked_as_far_as_a_copied_tree_shows_them() {
    let machine = Machine::copied("newest-7.0");
    machine.write("etc/hostname", "newest\n");
    let before = machine.etc();
    for (arm, words) in [
        (["adios", "lat_target_read=fast"], "it takes a number, as"),
        (["adios", "lat_target_read=0x10"], "write 16"),
        (
            ["adios", "lat_target_reed=1"],
            "has no tunable lat_target_reed",
        ),
        (["none", "fifo_batch=1"], "it has: nr_requests"),
    ] {
        let (code, _, error) = machine.run("persist", &[&["--yes", "vdb"][..], &arm].concat());
        assert_eq!(code, 6, "{arm:?}: {error}");
        assert!(in_one_line(&error).contains(words), "{arm:?}: {error}");
        assert_eq!(machine.etc(), before);
    }
}

#[test]
fn elevator_is_for_disks_that_listen_to_it_and_have_what_it_names() {
    let machine = mixed();
    let before = machine.etc();
    for (disk, scheduler, expected, words) in [
        ("sdz", "noop", 3, "sdz"),
        (
            "nvme0n1",
            "noop",
            10,
            "does nothing for nvme0n1, which is not on the single-queue path",
        ),
        ("sda", "mq-deadline", 5, "where deadline does that"),
        ("sda", "anticipatory", 5, "does not offer it"),
    ] {
        let arguments = ["--yes", "--method", "cmdline", disk, scheduler];
        let (code, _, error) = machine.run("persist", &arguments);
        assert_eq!(code, expected, "{disk} {scheduler}: {error}");
        assert!(in_one_line(&error).contains(words), "{error}");
        assert_eq!(machine.etc(), before);
    }
    let arguments = ["--yes", "--method", "cmdline", "sda", "noop"];
    let (code, _, error) = machine.run("persist", &arguments);
    assert_eq!(code, 0, "{error}");
    let error = in_one_line(&error);
    assert!(
        error.contains("single-queue path, from the next boot on: sda, sdb;"),
        "{error}"
    );
    assert!(error.contains("nvme0n1, vda: on blk-mq"), "{error}");
}

#[test]
fn a_disk_without_a_scheduler_changes_no_command_line_for_others() {
    let machine = Machine::copied("legacy-4.4");
    machine.write("etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet\"\n");
    let before = machine.etc();
    let arguments = ["--yes", "--method", "cmdline", "xvdf", "deadline"];
    let (code, _, error) = machine.run("persist", &arguments);
    assert_eq!(code, 10, "{error}");
    assert!(error.contains("does nothing for xvdf"), "{error}");
    assert_eq!(machine.etc(), before);
}

#[test]
fn elevator_wins_at_boot_only_on_disks_that_listen_to_it() {
    let machine = mixed();
    let who = |disk: &str| machine.succeeds("check", &["--who", disk]);
    machine.write(
        "proc/cmdline",
        "root=/dev/sda1 elevator=cfq elevator=noop\n",
    );
    assert!(
        who("sda").contains("noop: the kernel's command line"),
        "{}",
        who("sda")
    );
    for disk in ["nvme0n1", "vda"] {
        assert!(
            who(disk).contains("nothing that is known here sets it"),
            "{}",
            who(disk)
        );
    }
    // The kernel does not find it, and says so.
    machine.write("proc/cmdline", "root=/dev/sda1 elevator=bfq\n");
    assert!(
        who("sda").contains("nothing that is known here sets it"),
        "{}",
        who("sda")
    );
    machine.write(
        POLICY,
        "[[rule]]\nname = 'a'\nmatch = { serial = 'WDC*' }\nscheduler = 'cfq'\n",
    );
    machine.succeeds("apply", &["--yes"]);
    let (code, said, _) = machine.run("check", &[]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("no disk here listens to"), "{said}");
}

#[test]
fn a_value_that_an_old_kernel_would_misread_reaches_no_file() {
    let machine = mixed();
    let before = machine.etc();
    for (disk, words) in [
        ("sda", ["cfq", "slice_idle=abc"]),
        ("sdb", ["deadline", "fifo_batch=99999999999"]),
        ("vda", ["none", "nr_requests=64k"]),
    ] {
        let arguments = [&["--yes", disk][..], &words].concat();
        let (code, _, error) = machine.run("persist", &arguments);
        assert_eq!(code, 6, "{words:?}: {error}");
        assert!(error.contains("it takes a whole number"), "{error}");
    }
    assert_eq!(machine.etc(), before);
}

#[test]
fn a_scheduler_that_nobody_knows_is_kept_checked_and_taken_back_with_its_tunables() {
    let machine = Machine::copied("newest-7.0");
    machine.write("etc/hostname", "newest\n");
    let before = machine.etc();
    let list = machine.succeeds("list", &["-v", "vda"]);
    for words in ["[adios]", "lat_target_read", "async_depth"] {
        assert!(list.contains(words), "{list}");
    }
    let arm = ["adios", "lat_target_read=1500000", "async_depth=32"];
    machine.succeeds("persist", &[&["--yes", "vdb"][..], &arm].concat());
    let rules = machine.read(RULES);
    for line in [
        "ATTR{queue/scheduler}=\"adios\"",
        "TEST==\"queue/iosched/lat_target_read\", ATTR{queue/iosched/lat_target_read}=\"1500000\"",
        "TEST==\"queue/async_depth\", ATTR{queue/async_depth}=\"32\"",
    ] {
        assert!(rules.contains(line), "{line}\n{rules}");
    }
    let (code, said, _) = machine.run("check", &[]);
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("scheduler is mq-deadline, not adios"),
        "{said}"
    );
    // As udev leaves it at the next boot.
    for (file, value) in [
        ("scheduler", "none mq-deadline kyber bfq [adios]"),
        ("iosched/lat_target_read", "1500000"),
        ("async_depth", "32"),
    ] {
        machine.write(
            &format!("sys/block/vdb/queue/{file}"),
            &format!("{value}\n"),
        );
    }
    let (code, said, error) = machine.run("check", &[]);
    assert_eq!(code, 0, "{said}{error}");
    machine.succeeds("undo", &[]);
    assert_eq!(machine.etc(), before);
}

/// The machine's `/sys` over ours, for this test alone.
#[test]
fn a_scheduler_that_nobody_knows_is_foreseen_by_set_and_tune() {
    if !can_use_loop_devices() {
        return;
    }
    let machine = Machine::copied("newest-7.0");
    // What counts is no tunable: it changes by itself.
    let statistics = machine.path("sys/block/vda/queue/iosched/batch_actual_max");
    fs::set_permissions(statistics, fs::Permissions::from_mode(0o444)).unwrap();
    own_mounts().unwrap();
    run(
        "mount",
        &["--bind", machine.path("sys").to_str().unwrap(), "/sys"],
    );
    // A dry run looks whether it may open the disk; this machine may have one of that name, and forbid it.
    if Path::new("/dev/vda").exists() {
        run("mount", &["--bind", "/dev/null", "/dev/vda"]);
    }
    let told = |arguments: &[&str]| -> Output { iosched().args(arguments).output().unwrap() };
    let output = told(&["list"]);
    assert!(stdout(&output).contains("[adios]"), "{}", stderr(&output));
    let output = told(&[
        "set",
        "vda",
        "adios",
        "lat_target_read=1500000",
        "--dry-run",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("lat_target_read"),
        "{}",
        stdout(&output)
    );
    for (arm, expected) in [
        ("adios:lat_target_read=1500000,async_depth=16", 0),
        ("adios:lat_target_reed=1", 6),
        ("adios:lat_target_read=fast", 6),
        ("adios:batch_actual_max=1", 6),
    ] {
        let arms = format!("none,{arm}");
        let output = told(&["tune", "vda", "--arms", &arms, "--dry-run"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(expected), "{arm}: {said}");
    }
}

/// On a queue that answers as that of a kernel with such a scheduler, over a real disk.
#[test]
fn a_scheduler_that_nobody_knows_is_set_measured_and_taken_back() {
    if !can_emulate() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
    own_mounts().unwrap();
    show_as_queue_of(&disk.name);
    let said = |arguments: &[&str]| -> String {
        let output = iosched().args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            stderr(&output)
        );
        stdout(&output)
    };
    assert!(said(&["list", &disk.name]).contains("[none] mq-deadline adios"));
    said(&[
        "set",
        &disk.name,
        "adios",
        "lat_target=1500000",
        "async_depth=32",
    ]);
    assert_eq!(disk.scheduler(), "adios");
    assert_eq!(disk.read("iosched/lat_target"), "1500000");
    assert_eq!(disk.read("async_depth"), "32");
    let clamped = said(&["set", &disk.name, "adios", "lat_target=9000000000"]);
    assert!(
        clamped.contains("lat_target=1000000000 (the kernel's choice"),
        "{clamped}"
    );
    let refused = iosched()
        .args(["set", &disk.name, "adios", "lat_target=fast"])
        .output();
    assert_eq!(refused.unwrap().status.code(), Some(6));
    said(&["undo"]);
    assert_eq!(disk.read("iosched/lat_target"), "1500000");
    said(&["undo"]);
    assert_eq!(disk.scheduler(), "none");

    // One value is shown as another text.
    for (asked, shown) in [
        ("flags=1", "0x1"),
        ("flags=0x2", "0x2"),
        ("order=position", "type [position]"),
    ] {
        let told = said(&["set", &disk.name, "adios", asked]);
        assert!(!told.contains("the kernel's choice"), "{told}");
        let (name, _) = asked.split_once('=').unwrap();
        assert_eq!(disk.read(&format!("iosched/{name}")), shown, "{asked}");
    }
    for _ in 0..3 {
        said(&["undo"]);
    }
    assert_eq!(disk.scheduler(), "none");

    disk.write("scheduler", "adios");
    disk.write("iosched/lat_target", "1700000");
    disk.write("iosched/order", "position");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let arms = "none,mq-deadline,adios:lat_target=1000000";
    let out_name = out.to_str().unwrap();
    let rest = [
        "--fixed-rounds",
        "2",
        "--runtime",
        "50ms",
        "--no-html",
        "--out",
        out_name,
    ];
    let answer = said(&[&["tune", &disk.name, "--arms", arms][..], &rest].concat());
    assert!(answer.contains("adios:lat_target=1000000"), "{answer}");
    let trials = record(&out)
        .into_iter()
        .filter(|line| line["type"] == "trial");
    assert_eq!(
        trials.count(),
        8,
        "with the baseline, adios as it was found"
    );
    assert_eq!(disk.scheduler(), "adios");
    assert_eq!(disk.read("iosched/lat_target"), "1700000");
    assert_eq!(disk.read("iosched/order"), "type [position]");
    disk.write("scheduler", "none");
}
