//! Emulated disks on the real kernel: made, listed, and used in every way that a disk is used.
//!
//! Each test has a state directory of its own, and takes down whatever is left in it.
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use iosched_testing::lacks;
use iosched_testing::world::DEBUGFS;
use serde_json::Value;

use crate::common::lab::{Lab, attribute};
use crate::common::{CopyForEverybody, assert_refused, run, stderr, stdout, wait_until};

#[test]
fn a_disk_is_made_listed_and_removed() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let device = lab.create("ssd-sata --size 64M --queue-depth 8 --rotational");
    let disk = lab.only_disk();
    assert_eq!(disk["condition"], "running");
    assert_eq!(disk["device"], device[5..]);
    assert_eq!(disk["size_bytes"], 64 << 20);
    assert_eq!(disk["queue_depth"], 8);
    assert_eq!(attribute(&device, "size"), "131072");
    assert_eq!(attribute(&device, "queue/rotational"), "1");
    let text = stdout(&lab.emulate("list"));
    assert!(
        text.contains("ssd-sata-1") && text.contains(&device),
        "{text}"
    );
    lab.remove(&device);
    lab.assert_clean();
    lab.remove("--all"); // again: nothing to do
}

#[test]
fn the_model_has_as_many_requests_at_once_as_it_has_tags_whatever_the_scheduler_holds() {
    let Some(lab) = Lab::new(&["fio"]) else {
        return;
    };
    let device = lab.create("hdd-7200-fifo --size 64M --queue-depth 5");
    let tags = format!("{DEBUGFS}/block/{}/hctx0/tags", &device[5..]);
    match fs::read_to_string(tags) {
        Ok(tags) => assert!(tags.contains("depth=5\n"), "{tags}"),
        Err(_) => lacks("debugfs"),
    }
    let scheduler = format!("/sys/block/{}/queue/scheduler", &device[5..]);
    fs::write(&scheduler, "mq-deadline").unwrap();
    assert!(
        attribute(&device, "queue/nr_requests")
            .parse::<u32>()
            .unwrap()
            > 5
    );
    let filename = format!("--filename={device}");
    let common = ["--name=deep", &filename, "--rw=randread", "--direct=1"];
    let deep = ["--ioengine=libaio", "--iodepth=32", "--number_ios=150"];
    run("fio", &[&common[..], &deep].concat());
    let mut edges = Vec::new();
    for served in lab.served() {
        edges.push((served.completed, -1));
        edges.push((served.arrived, 1));
    }
    edges.sort_unstable(); // an end goes before a beginning at the same time
    let mut at_once = 0;
    let counts = edges.iter().map(|(_, step)| {
        at_once += step;
        at_once
    });
    // How many of them there are at once depends on how soon this machine passes them on.
    let most = counts.max().unwrap();
    assert!((1..=5).contains(&most), "{most}");
}

#[test]
fn file_systems_live_on_it() {
    let tools = ["mkfs.ext4", "fsck.ext4", "mkfs.xfs", "xfs_repair", "mount"];
    let Some(lab) = Lab::new(&tools) else {
        return;
    };
    let device = lab.create("ssd-sata --size 512M");
    let mount_point = lab.mount_point();
    let at = mount_point.to_str().unwrap();
    let contents: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    for (make, check) in [
        (["mkfs.ext4", "-q", "-F"], ["fsck.ext4", "-f", "-n"]),
        (["mkfs.xfs", "-q", "-f"], ["xfs_repair", "-n", "-v"]),
    ] {
        run(make[0], &[make[1], make[2], &device]);
        run("mount", &[&device, at]);
        fs::create_dir(mount_point.join("some")).unwrap();
        let mut file = fs::File::create(mount_point.join("some/file")).unwrap();
        file.write_all(&contents).unwrap();
        file.sync_all().unwrap();
        drop(file);
        run("umount", &[at]);
        run(check[0], &[check[1], check[2], &device]);
        run("mount", &[&device, at]); // an empty page cache
        assert!(
            fs::read(mount_point.join("some/file")).unwrap() == contents,
            "{make:?}"
        );
        run("umount", &[at]);
    }
    let served = lab.served();
    assert!(
        served.iter().any(|served| served.op == "flush"),
        "journals flush"
    );
    assert!(
        served.iter().any(|served| served.op == "discard"),
        "mkfs discards"
    );
}

#[test]
fn no_read_is_faster_than_the_model_but_for_the_way_to_it() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    lab.create("hdd-7200-fifo --size 1G");
    let id = lab.only_disk()["id"].as_str().unwrap().to_owned();
    let mut output = lab.emulate(&format!("check {id} --reads 60 --json"));
    // `restore` in a test beside this one looks at all disks: then it was refused.
    let was_alone = wait_until(|| {
        output.status.success() || {
            assert!(stdout(&output).contains("others use it"), "{output:?}");
            output = lab.emulate(&format!("check {id} --reads 60 --json"));
            false
        }
    });
    assert!(was_alone);
    let check: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(check["reads"], 60);
    let path = check["path_ns"].as_i64().unwrap();
    assert!(
        check["difference_ns"]["min"].as_i64().unwrap() >= -path,
        "{check}"
    );
    assert!(check["late_ns"]["min"].as_i64().unwrap() >= 0, "{check}");
    let modelled = check["modelled_ns"]["p50"].as_i64().unwrap();
    assert!(modelled > 1_000_000, "an arm takes milliseconds: {check}");
}

/// Neither who uses one nor one that never gets ready keeps the others.
#[test]
fn all_disks_but_those_in_use_are_removed_and_one_that_is_starting_by_force() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let used = lab.create("fixed --size 8M");
    lab.create("null --size 8M");
    let file = fs::File::open(&used).unwrap();
    let mut told = Value::Null;
    // Another test, or udev, may look into the other one for a moment.
    assert!(wait_until(|| {
        let refused = lab.emulate("remove --all --json");
        assert_eq!(refused.status.code(), Some(9), "{}", stderr(&refused));
        told = serde_json::from_slice(&refused.stdout).unwrap();
        told["removed"] == serde_json::json!(["null-1"])
    }));
    assert_eq!(told["not_removed"][0]["disk"], "fixed-1");
    assert_eq!(told["not_removed"][0]["exit_code"], 9);
    assert_eq!(lab.only_disk()["id"], "fixed-1", "the other one is gone");
    drop(file);

    // Whatever this disk does takes a quarter of an hour; it sorts before the others.
    let mut create = lab.command("create fixed --size 64M --slow-down 1000000");
    let mut create = create.stderr(Stdio::piped()).spawn().unwrap();
    assert!(wait_until(|| lab.list().len() == 2));
    lab.create("null --size 8M");
    lab.remove("--all --force");
    assert_eq!(create.wait().unwrap().code(), Some(1));
    lab.assert_clean();
}

#[test]
fn what_cannot_be_made_is_refused_with_one_clear_error() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    for (words, code, says) in [
        ("floppy", 2, "no disk model is called `floppy`"),
        ("null --size 12Q", 2, "is no size"),
        ("null --size 1", 2, "null cannot be"),
        ("null --queue-depth 0", 2, "queue depth"),
        ("hdd-7200-fifo --order random", 2, "is no order"),
        (
            "null --backing-dir /proc",
            1,
            "hint: `--backing-dir` names another",
        ),
        (
            "null --owner-pid 2147483647",
            2,
            "cannot watch process 2147483647",
        ),
    ] {
        lab.refuses(&format!("create {words}"), code, says);
    }
    lab.refuses("remove /dev/loop4711", 3, "no emulated disk /dev/loop4711");
    lab.assert_clean();
}

#[test]
fn without_root_it_says_that_root_is_missing() {
    let copy = CopyForEverybody::new();
    let missing = iosched_emulate::missing(&iosched_machine::host::Host::live());
    let are_root = missing.iter().all(|missing| missing.code != 8);
    let as_nobody = |args: &[&str]| {
        let mut command = Command::new(copy.binary());
        command.arg("emulate").args(args).current_dir("/");
        if are_root {
            command.uid(65534).gid(65534);
        }
        command.output().unwrap()
    };
    let refused = [
        &["create", "null"][..],
        &["list"],
        &["remove", "--all"],
        &["check", "null-1"],
    ];
    for args in refused {
        let output = as_nobody(args);
        assert_refused(&output, 8, "need root");
        assert!(stderr(&output).contains("hint: run it as root"));
    }
    let models = as_nobody(&["models"]);
    assert!(models.status.success(), "the models are no secret");
    for model in ["hdd-7200-fifo", "hdd-5400", "hdd-15k", "ssd-sata", "null"] {
        assert!(
            stdout(&models).contains(&format!("\n{model} ")),
            "{}",
            stdout(&models)
        );
    }
}
