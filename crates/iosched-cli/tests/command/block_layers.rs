//! Machines whose kernel is older or newer than the one that tests run on, as copied trees: both block layers of 4.19
//! beside each other, and a scheduler that nobody here knows.

use crate::common::in_one_line;
use crate::common::machine::Machine;

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
        ("vda", "cfq", "on blk-mq its successor is bfq"),
        ("sda", "mq-deadline", "take deadline, its predecessor"),
        ("sda", "none", "take noop, its predecessor"),
        ("sda", "bfq", "take cfq, its predecessor"),
        ("nvme0n1", "noop", ""),
    ] {
        let (code, _, error) = machine.run("persist", &["--dry-run", disk, scheduler]);
        let error = in_one_line(&error);
        assert_eq!(code, if words.is_empty() { 0 } else { 5 }, "{error}");
        assert!(error.contains(words), "{disk} {scheduler}: {error}");
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
        ("sda", "mq-deadline", 5, "take deadline, its predecessor"),
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
        error.contains("single-queue path, from the next boot on: sda, sdb"),
        "{error}"
    );
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
