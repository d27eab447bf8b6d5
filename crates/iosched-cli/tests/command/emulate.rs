//! Emulated disks on the real kernel: made, listed, and used in every way that a disk is used.
//!
//! Each test has a state directory of its own, and takes down whatever is left in it.
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use iosched_testing::lacks;
use iosched_testing::world::DEBUGFS;
use serde_json::Value;

use crate::common::lab::{Lab, Served, attribute, stored};
use crate::common::{
    CopyForEverybody, assert_refused, processes_with, run, stderr, stdout, wait_until,
};

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
    let device = lab.create("hdd-7200 --size 64M --queue-depth 5");
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
fn data_are_kept_on_the_whole_disk() {
    let Some(lab) = Lab::new(&["fio"]) else {
        return;
    };
    let device = lab.create("ssd-sata --size 64M");
    let filename = format!("--filename={device}");
    let common = [
        "--name=verify",
        &filename,
        "--rw=randwrite",
        "--direct=1",
        "--ioengine=libaio",
        "--iodepth=16",
        "--bsrange=4k-128k",
        "--size=64M",
        "--randseed=1",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_state_save=0", // no file in the working directory
    ];
    // Written and verified, and verified once more by another process.
    run("fio", &[&common[..], &["--do_verify=1"]].concat());
    assert_eq!(stored(&lab.only_disk()), 64 << 20);
    run("fio", &[&common[..], &["--verify_only=1"]].concat());
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
fn a_flush_reaches_the_model_and_a_block_request_is_one_command() {
    let Some(lab) = Lab::new(&["dd"]) else {
        return;
    };
    let device = lab.create("null --size 16M");
    assert_eq!(attribute(&device, "queue/max_sectors_kb"), "1024");
    // 512 KiB are at most 128 pages: a loop device takes no more pieces of memory in one request.
    let (to, from) = (format!("of={device}"), format!("if={device}"));
    let write = ["if=/dev/zero", &to, "bs=512k", "seek=4", "count=1"];
    run(
        "dd",
        &[&write[..], &["oflag=direct", "conv=notrunc,fsync"]].concat(),
    );
    run(
        "dd",
        &[
            &from,
            "of=/dev/null",
            "bs=512k",
            "skip=4",
            "count=1",
            "iflag=direct",
        ],
    );
    let served = lab.served();
    // Others may read it, too, as whoever looks for file systems on all disks.
    let ours = |served: &&Served| served.op == "flush" || served.start == 4096;
    let last: Vec<_> = served
        .iter()
        .filter(ours)
        .map(|served| (served.op.as_str(), served.start, served.sectors))
        .collect();
    let wanted = [("write", 4096, 1024), ("flush", 0, 0), ("read", 4096, 1024)];
    assert!(last.windows(3).any(|three| three == wanted), "{last:?}");
}

#[test]
fn discarded_data_give_their_space_back() {
    let Some(lab) = Lab::new(&["blkdiscard"]) else {
        return;
    };
    let device = lab.create("null --size 32M");
    let mut file = fs::OpenOptions::new().write(true).open(&device).unwrap();
    file.write_all(&vec![7; 16 << 20]).unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert!(stored(&lab.only_disk()) >= 16 << 20);
    run(
        "blkdiscard",
        &["--offset", "0", "--length", "8388608", &device],
    );
    let half = stored(&lab.only_disk());
    assert!(half <= (8 << 20) + 65536, "{half}");
    let mut data = [1; 4096];
    fs::File::open(&device)
        .unwrap()
        .read_exact(&mut data)
        .unwrap();
    assert_eq!(data, [0; 4096]);
    run("blkdiscard", &[&device]);
    assert_eq!(stored(&lab.only_disk()), 0);
}

#[test]
fn no_read_is_faster_than_the_model_but_for_the_way_to_it() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    lab.create("hdd-7200 --size 1G");
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

/// True if a thread of this process waits for an answer of FUSE, or for a device.
fn waits_for_a_disk(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    threads.into_iter().flatten().flatten().any(|thread| {
        let at = |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        at("status").contains("\nState:\tD") || at("wchan") == "request_wait_answer"
    })
}

/// What a server waits for while it sets its disk up is answered by its own threads, which end with it.
#[test]
fn a_server_that_is_killed_while_it_waits_for_its_own_disk_ends_and_leaves_nothing() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    // Whatever the disk does takes a quarter of an hour. A kernel that does not tell when it is waited for lets
    // `create` kill the server, which is not ready in time.
    let mut create = lab.command("create hdd-7200 --size 64M --slow-down 100000");
    let mut create = create.stderr(Stdio::piped()).spawn().unwrap();
    let place = format!("{}/hdd-7200-1", lab.state_dir().display());
    let mut server = None;
    assert!(wait_until(|| {
        let processes = processes_with(&place);
        server = processes.into_iter().find(|pid| waits_for_a_disk(*pid));
        server.is_some() || create.try_wait().unwrap().is_some()
    }));
    if let Some(server) = server {
        run("kill", &["-KILL", &server.to_string()]);
    }
    let ended = create.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", stderr(&ended));
    assert!(wait_until(|| processes_with(&place).is_empty()));
    lab.remove("--all");
    lab.assert_clean();
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
        ("hdd-7200 --order random", 2, "is no order"),
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
    for model in ["hdd-7200", "hdd-5400", "hdd-15k", "ssd-sata", "null"] {
        assert!(
            stdout(&models).contains(&format!("\n{model} ")),
            "{}",
            stdout(&models)
        );
    }
}
