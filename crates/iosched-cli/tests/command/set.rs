//! `iosched set` on real loop devices, and what it says when it cannot.
use crate::common::tuning::MIB;
use crate::common::{LoopDevice, can_use_loop_devices, iosched, run, text, wait_until};

fn set(arguments: &[&str]) -> (i32, String, String) {
    let output = iosched().arg("set").args(arguments).output().unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn a_scheduler_and_its_tunables_are_set_and_read_back() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    let (code, stdout, _) = set(&[&disk.name, "mq-deadline", "fifo_batch=3", "nr_requests=64"]);
    assert_eq!(code, 0);
    assert!(stdout.contains(": none -> mq-deadline"), "{stdout}");
    assert_eq!(disk.scheduler(), "mq-deadline");
    assert_eq!(disk.read("iosched/fifo_batch"), "3");
    assert_eq!(disk.read("nr_requests"), "64");
}

#[test]
fn what_may_have_been_meant_is_named() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(300 * MIB);
    let (_, _, stderr) = set(&[&disk.name, "bqf"]);
    assert!(stderr.contains("hint: did you mean bfq?"), "{stderr}");

    let mount = tempfile::tempdir().unwrap();
    let (device, at) = (disk.path(), mount.path().to_str().unwrap());
    run("mkfs.ext4", &["-q", device.to_str().unwrap()]);
    run("mount", &[device.to_str().unwrap(), at]);
    let (_, _, stderr) = set(&[at, "bfq"]);
    run("umount", &[at]);
    let name = &disk.name;
    let meant = format!("hint: {at} is on {name}\ntry: iosched set {name} bfq\n");
    assert!(stderr.ends_with(&meant), "{stderr}");
}

#[test]
fn a_clamped_value_and_an_old_name_are_said() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    let (code, _, stderr) = set(&[&disk.name, "deadline"]);
    assert_eq!(code, 0);
    assert!(
        stderr.contains("deadline is an old name: mq-deadline"),
        "{stderr}"
    );
    assert_eq!(disk.scheduler(), "mq-deadline");
    let (code, stdout, _) = set(&[&disk.name, "none", "nr_requests=1"]);
    assert_eq!(code, 0, "{stdout}");
    assert!(
        stdout.contains("nr_requests=4 (the kernel's choice; 1 was asked)"),
        "{stdout}"
    );
}

#[test]
fn a_dry_run_writes_nothing() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    let before = disk.whole_queue();
    let (code, stdout, _) = set(&[&disk.name, "bfq", "low_latency=0", "--dry-run"]);
    assert_eq!(code, 0);
    assert!(
        stdout.contains("none -> bfq:low_latency=0 (not written)"),
        "{stdout}"
    );
    let (code, stdout, _) = set(&[&disk.name, "none", "--for", "10m", "--dry-run"]);
    assert_eq!(code, 0);
    assert!(
        stdout.contains("would be back as before in 600 s"),
        "{stdout}"
    );
    assert_eq!(disk.whole_queue(), before);
}

#[test]
fn a_tunable_that_is_refused_leaves_everything_as_before() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    let before = disk.whole_queue();
    let (code, _, stderr) = set(&[&disk.name, "bfq", "low_latency=0", "nonsense=1"]);
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.contains("has no tunable nonsense"), "{stderr}");
    assert_eq!(disk.whole_queue(), before);
    let (code, _, stderr) = set(&[&disk.name, "mq-deadline", "fifo_batch=abc"]);
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.contains("fifo_batch cannot be abc"), "{stderr}");
    assert_eq!(disk.whole_queue(), before);
}

#[test]
fn set_for_a_while_reverts_by_itself_and_at_once_on_restore() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    disk.write("read_ahead_kb", "64");
    let before = disk.whole_queue();
    let (code, stdout, _) = set(&[&disk.name, "bfq", "--for", "1s"]);
    assert_eq!(code, 0);
    assert!(stdout.contains(": none -> bfq"), "{stdout}");
    assert!(
        wait_until(|| disk.whole_queue() == before),
        "{:?}",
        disk.whole_queue()
    );

    // The queue is back a moment before who put it back has let go of the disk.
    let for_an_hour = || set(&[&disk.name, "bfq", "--for", "1h"]).0;
    assert!(wait_until(|| for_an_hour() == 0));
    let (code, _, stderr) = set(&[&disk.name, "kyber"]);
    assert_eq!(code, 9, "another command will put it back: {stderr}");
    let restored = iosched().arg("restore").output().unwrap();
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    let said = text(&restored.stdout);
    assert!(
        said.contains("has put back now what it was to put back later"),
        "{said}"
    );
    assert_eq!(disk.whole_queue(), before);
}

#[test]
fn an_undo_beside_a_change_that_will_be_put_back_is_refused() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    assert_eq!(set(&[&disk.name, "bfq"]).0, 0);
    let kept = disk.whole_queue();
    assert_eq!(set(&[&disk.name, "kyber", "--for", "1h"]).0, 0);
    for arguments in [&["undo"][..], &["undo", "--dry-run"]] {
        let output = iosched().args(arguments).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(9), "{stderr}");
        assert!(
            stderr.contains("it will put back what it changed"),
            "{stderr}"
        );
        assert_eq!(disk.scheduler(), "kyber");
    }
    iosched().arg("restore").assert().success();
    assert_eq!(disk.whole_queue(), kept);
    iosched().arg("undo").assert().success();
    assert_eq!(disk.scheduler(), "none");
}

#[test]
fn bad_input_gets_one_clear_error_and_its_exit_code() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    for (arguments, expected, words) in [
        (vec!["no-such-disk", "bfq"], 3, "no-such-disk"),
        (vec!["../../etc/passwd", "bfq"], 3, "etc/passwd"),
        (vec!["a b", "bfq"], 3, "a b"),
        (vec![&*disk.name, "BFQ;rm"], 2, "is no scheduler name"),
        (
            vec![&*disk.name, "nr_requests=64"],
            2,
            "`iosched set DEVICE SCHEDULER nr_requests=64`",
        ),
        (
            vec![&*disk.name, "nonesuch"],
            5,
            "this kernel does not offer it",
        ),
        (
            vec![&*disk.name, "none", "write_cache=writethrough"],
            6,
            "loses data",
        ),
        (vec![&*disk.name, "none", "oops"], 2, "needs =value"),
    ] {
        let (code, _, stderr) = set(&arguments);
        assert_eq!(code, expected, "{arguments:?}: {stderr}");
        assert!(
            stderr.starts_with("error: ") && stderr.contains(words),
            "{arguments:?}: {stderr}"
        );
        assert_eq!(stderr.matches("error:").count(), 1, "{stderr}");
    }
    assert_eq!(disk.scheduler(), "none");
}

#[test]
fn a_container_with_nodes_of_its_own_switches_only_if_that_is_said() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    let script = "mount -t tmpfs none /mnt && cp -a /dev/null /dev/$1 /mnt && mount --move /mnt /dev && shift && exec \"$@\"";
    let in_container = |more: &[&str]| {
        let program = assert_cmd::cargo::cargo_bin!("iosched");
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh", &disk.name]);
        command.arg(program).args(["set", &disk.name, "bfq"]);
        command.args(more).env_remove("IOSCHED_IN_CONTAINER");
        let output = command.output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (code, stderr) = in_container(&[]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("/dev is this container's own"), "{stderr}");
    assert_eq!(disk.scheduler(), "none");
    let (code, stderr) = in_container(&["--in-container"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(disk.scheduler(), "bfq");
}

#[test]
fn where_the_kernel_does_not_name_the_boot_nothing_is_set() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    let names = "/proc/sys/kernel/random";
    crate::common::run("mount", &["-t", "tmpfs", "none", names]);
    let (code, _, stderr) = set(&[&disk.name, "bfq"]);
    crate::common::run("umount", &[names]);
    assert_eq!(code, 1, "{stderr}");
    assert!(
        stderr.contains("error: nothing was set: which boot"),
        "{stderr}"
    );
    assert_eq!(disk.scheduler(), "none");
}

/// Kernels since 7.0 do not wait for another disk of the same controller.
#[test]
fn a_queue_that_is_busy_for_a_moment_is_set_and_put_back_all_the_same() {
    use iosched_machine::host::Host;
    use iosched_policy::set::Change;
    use iosched_switch::{Arm, QueueState};

    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    let before = disk.whole_queue();
    let arm = Arm::new("bfq", ["nr_requests=32"]).unwrap();
    let plan = Change::plan(&Host::live(), &disk.name, &arm).unwrap();
    let baseline = QueueState::read(&Host::live().sysfs(), &disk.name).unwrap();
    plan.make(&Host::live().busy_writes(3))
        .unwrap()
        .journal
        .keep_changes()
        .unwrap();
    assert_eq!(disk.scheduler(), "bfq");
    assert_eq!(disk.read("nr_requests"), "32");
    let busy = Host::live().busy_writes(3).sysfs();
    assert_eq!(baseline.restore(&busy, &disk.name).unwrap(), []);
    assert_eq!(disk.whole_queue(), before);
}

/// Whichever write the kernel does not return from, the change ends and names the disk, and what it leaves is put back.
#[test]
fn a_write_that_hangs_ends_the_change_and_is_left_to_restore() {
    use iosched_machine::host::Host;
    use iosched_policy::set::Change;
    use iosched_switch::{Arm, journal};

    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    let before = disk.whole_queue();
    let arm = Arm::new("bfq", ["nr_requests=32"]).unwrap();
    for write in [1, 2] {
        let plan = Change::plan(&Host::live(), &disk.name, &arm).unwrap();
        let error = plan.make(&Host::live().hanging_write(write)).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(&disk.name), "{said}");
        assert!(said.contains("has not returned"), "{said}");
        for left in journal::leftovers(&Host::live()) {
            left.undo_disks(&Host::live());
        }
        assert_eq!(disk.whole_queue(), before, "write {write}");
    }
}

#[test]
fn a_partition_is_set_on_its_whole_disk() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    let node = disk.path();
    crate::common::run("sgdisk", &["--new=1:2048:8191", node.to_str().unwrap()]);
    // Many kernels read no partition tables of loop devices by themselves.
    crate::common::run("partx", &["--update", node.to_str().unwrap()]);
    let partition = format!("{}p1", disk.name);
    let (code, stdout, stderr) = set(&[&partition, "kyber"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains(&format!("{partition} stands on {}", disk.name)),
        "{stderr}"
    );
    assert!(
        stdout.contains(&format!("{}: none -> kyber", disk.name)),
        "{stdout}"
    );
    assert_eq!(disk.scheduler(), "kyber");
}

#[test]
fn what_was_set_is_in_the_log_and_taken_back_with_what_came_with_it() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    disk.write("nr_requests", "77");
    let before = disk.whole_queue();
    assert_eq!(set(&[&disk.name, "bfq", "low_latency=0"]).0, 0);
    assert_ne!(disk.read("nr_requests"), "77", "it came with bfq");
    let said = |command: &str| {
        let output = iosched().arg(command).output().unwrap();
        (output.status.code(), text(&output.stdout))
    };
    let (_, log) = said("log");
    let line = format!("iosched set {} bfq low_latency=0", disk.name);
    assert!(log.contains(&line), "{log}");
    let (code, undone) = said("undo");
    assert_eq!(code, Some(0), "{undone}");
    assert!(undone.contains(&disk.name), "{undone}");
    assert_eq!(disk.whole_queue(), before);

    let ahead = disk.read("read_ahead_kb");
    assert_eq!(set(&[&disk.name, "none", "read_ahead_kb=64"]).0, 0);
    let line = format!("{}: none stays, read_ahead_kb {ahead} -> 64", disk.name);
    let (_, log) = said("log");
    assert!(log.contains(&line), "{log}");
}

#[test]
fn what_was_set_on_a_device_that_is_gone_is_not_taken_back_from_the_next_one() {
    if !can_use_loop_devices() {
        return;
    }
    let mut disk = LoopDevice::new(8 * MIB);
    loop {
        assert_eq!(set(&[&disk.name, "bfq"]).0, 0);
        if disk.attach_again() {
            break;
        }
    }
    disk.write("scheduler", "kyber");
    let output = iosched().arg("undo").output().unwrap();
    assert!(text(&output.stdout).contains("gone"), "{output:?}");
    assert_eq!(disk.scheduler(), "kyber");
}

#[test]
fn undo_leaves_alone_what_somebody_has_set_on_the_disk_since() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    let undo = |more: &[&str]| iosched().arg("undo").args(more).output().unwrap();
    for (file, theirs) in [("scheduler", "kyber"), ("nr_requests", "33")] {
        assert_eq!(set(&[&disk.name, "mq-deadline"]).0, 0);
        disk.write(file, theirs);
        let found = disk.whole_queue();
        let foretold = text(&undo(&["--dry-run"]).stdout);
        let name = &disk.name;
        let line = format!("  {name}: set by somebody else since, {file} is {theirs}, not ");
        assert!(foretold.contains(&line), "{foretold}");
        let output = undo(&["--json"]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        let line = format!("is taken back, but not on {name}: somebody has set that otherwise");
        assert!(said.contains(&line), "{said}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["disks"][0]["what"], "set-since");
        assert_eq!(disk.whole_queue(), found);
        disk.write("scheduler", "none");
    }
}

#[test]
fn a_dry_run_of_undo_says_what_the_undo_then_does() {
    if !can_use_loop_devices() {
        return;
    }
    // With plain `cargo test` other tests of this program have left changes in the history.
    let _ = std::fs::remove_dir_all("/var/lib/iosched/history");
    let disk = LoopDevice::new(8 * MIB);
    let dry = |more: &[&str]| {
        let output = iosched()
            .args(["undo", "--dry-run"])
            .args(more)
            .output()
            .unwrap();
        (
            output.status.code(),
            text(&output.stdout) + &text(&output.stderr),
        )
    };
    let (code, said) = dry(&[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("there is no change to take back"), "{said}");
    let before = disk.whole_queue();
    iosched()
        .args(["set", &disk.name, "mq-deadline", "fifo_batch=3"])
        .assert()
        .success();
    let changed = disk.whole_queue();
    let (code, said) = dry(&[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("would take back change 1: "), "{said}");
    let line = format!("{}: scheduler mq-deadline back to none", disk.name);
    assert!(said.contains(&line), "{said}");
    let (_, said) = dry(&["--json"]);
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(json["disks"][0]["differences"][0]["expected"], "none");
    assert_eq!(disk.whole_queue(), changed, "nothing was touched");
    iosched().arg("undo").assert().success();
    assert_eq!(disk.whole_queue(), before);
    assert_eq!(dry(&[]).0, Some(1), "it is taken back");
}
