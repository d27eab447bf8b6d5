//! `iosched tune` over schedulers of ours that stand inside an emulated disk: they are switched, read back, told apart from
//! the kernel's, and put back, whatever happens; and `--emulate`, which makes the disk for the run alone.
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;

use iosched_testing::mounts::own_mounts;
use iosched_testing::world::DEBUGFS;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::lab::{stderr, stdout};
use crate::common::served::ServedDisk;
use crate::common::tuning::{MIB, fio_runs_on, record, signal, start};
use crate::common::{LoopDevice, answer, can_emulate, has_fio, in_one_line, iosched, wait_until};

/// Two very short rounds, without a page.
const SHORT: &[&str] = &["--fixed-rounds", "2", "--runtime", "50ms", "--no-html"];

fn tune(args: &[&str], out: &Path) -> Output {
    let mut command = iosched();
    command.arg("tune").args(args).args(SHORT).arg("--out");
    command.arg(out).output().unwrap()
}

/// The states of each arm's first trial, by the arm's name.
fn states(out: &Path) -> BTreeMap<String, Value> {
    let trials = record(out)
        .into_iter()
        .filter(|line| line["type"] == "trial");
    let mut states = BTreeMap::new();
    for trial in trials {
        let arm = trial["arm_name"].as_str().unwrap().to_owned();
        states
            .entry(arm)
            .or_insert_with(|| trial["states"][0].clone());
    }
    states
}

/// Requests that the loop driver takes at a time, whatever its queue shows.
fn driver_depth(device: &str) -> String {
    let path = format!("{DEBUGFS}/block/{device}/hctx0/tags");
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .find(|line| line.starts_with("depth="))
        .unwrap()
        .to_owned()
}

#[test]
fn arms_inside_are_switched_read_back_and_put_back() {
    let Some(disk) = ServedDisk::new("ssd-sata", "cfq:slice_idle=0") else {
        return;
    };
    let before = disk.state();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let output = tune(&[&disk.name, "--arms", "deadline:fifo_batch=4,noop"], &out);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = in_one_line(&stdout(&output));
    assert!(said.contains("ratio to served/cfq:slice_idle=0"), "{said}");
    assert!(said.contains("(schedulers served inside)"), "{said}");
    let report = iosched().arg("report").arg(&out).arg("--details").output();
    let all = in_one_line(&stdout(&report.unwrap()));
    assert!(all.contains("not this kernel's"), "{all}");
    assert_eq!(disk.state(), before);
    let states = states(&out);
    for arm in ["cfq:slice_idle=0", "deadline:fifo_batch=4", "noop"] {
        let state = &states[&format!("served/{arm}")];
        assert_eq!(state["served"], arm);
        assert_eq!(state["scheduler"], "none");
    }
    let plan = &record(&out)[0]["plan"];
    assert_eq!(plan["arms"][1]["layer"], "served");
    assert_eq!(plan["active"], 0, "what was found inside");
    let report = answer(&["report", "--json", out.to_str().unwrap()]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["arms"][2], "served/noop");
}

#[test]
fn the_kernels_own_above_is_another_arm_and_leaves_the_driver_its_requests() {
    let Some(disk) = ServedDisk::new("hdd-7200-fifo", "noop") else {
        return;
    };
    let before = disk.state();
    let depth = driver_depth(&disk.name);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let arms = "mq-deadline,none,kernel/mq-deadline,kernel/none";
    let output = tune(&[&disk.name, "--arms", arms], &out);
    assert!(output.status.success(), "{}", stderr(&output));
    let states = states(&out);
    let (ours, above) = (&states["served/mq-deadline"], &states["kernel/mq-deadline"]);
    assert_eq!(
        (&ours["scheduler"], &ours["served"]),
        (&"none".into(), &"mq-deadline".into())
    );
    assert_eq!(
        (&above["scheduler"], &above["served"]),
        (&"mq-deadline".into(), &"none".into())
    );
    // As many as the model takes, but no fewer than the kernel accepts.
    assert_eq!(states["kernel/none"]["nr_requests"], "4");
    assert_eq!(
        states["served/none"], states["kernel/none"],
        "the same experiment"
    );
    assert_eq!(above["nr_requests"], "64", "as above such a real disk");
    assert_eq!(states["served/mq-deadline"]["nr_requests"], "128");
    assert_eq!(states["served/noop"]["nr_requests"], "128");
    assert_eq!(disk.state(), before);
    assert_eq!(driver_depth(&disk.name), depth, "not only what is shown");
}

#[test]
fn a_winner_can_be_left_inside() {
    let Some(disk) = ServedDisk::new("hdd-7200-fifo", "noop") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let output = tune(
        &[&disk.name, "--arms", "cfq", "--apply"],
        &dir.path().join("r"),
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let is_left = stderr(&output).contains("served/cfq stands inside");
    assert_eq!(disk.inside(), if is_left { "cfq" } else { "noop" });
}

#[test]
fn what_a_killed_run_left_inside_is_put_back_before_the_next_one_takes_its_baseline() {
    let Some(disk) = ServedDisk::new("null", "cfq") else {
        return;
    };
    let before = disk.state();
    let dir = tempfile::tempdir().unwrap();
    loop {
        let out = tempfile::tempdir_in(dir.path()).unwrap();
        let arms = ["--arms", "deadline,kernel/bfq", "--runtime", "1s"];
        let mut child = start(&[&[disk.name.as_str()], &arms[..]].concat(), out.path());
        assert!(wait_until(|| disk.inside() != "cfq"), "it never switched");
        child.kill().unwrap();
        child.wait().unwrap();
        if disk.inside() != "cfq" {
            break;
        }
        assert!(answer(&["restore"]).status.success());
    }
    // An older program, which would leave what is inside, keeps the entry.
    let entries = fs::read_dir("/var/lib/iosched/journal").unwrap();
    let schemas = entries.map(|entry| {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let entry: serde_json::Value = serde_json::from_str(&text).unwrap();
        entry["schema"].clone()
    });
    assert_eq!(schemas.collect::<Vec<_>>(), [2]);
    let out = dir.path().join("next");
    let output = tune(&[&disk.name, "--arms", "noop"], &out);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains("put back what an interrupted run left"),
        "{said}"
    );
    assert_eq!(record(&out)[0]["plan"]["arms"][0]["scheduler"], "cfq");
    assert_eq!(disk.state(), before);
}

#[test]
fn what_another_puts_inside_during_a_trial_makes_it_void() {
    let Some(disk) = ServedDisk::new("ssd-sata", "noop") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let (begun, gate) = (dir.path().join("begun"), dir.path().join("changed"));
    let load = format!(
        "command: sh -c 'touch {}; until [ -e {} ]; do sleep 0.05; done'",
        begun.display(),
        gate.display()
    );
    let target = [&disk.name, "--mkfs", "ext4", "--destroy-data"];
    let child = start(
        &[&target[..], &["--load", &load, "--arms", "cfq"]].concat(),
        &out,
    );
    assert!(wait_until(|| begun.exists()), "no trial began");
    let set = answer(&["emulate", "set", &disk.name, "kyber"]);
    assert!(set.status.success(), "{}", stderr(&set));
    fs::write(&gate, "").unwrap();
    let is_void = || record(&out).iter().any(|line| line["type"] == "void");
    assert!(wait_until(is_void), "the trial counted");
    let void = record(&out)
        .into_iter()
        .find(|line| line["type"] == "void")
        .unwrap();
    assert!(void.to_string().contains("scheduler inside"), "{void}");
    signal(child.id(), Signal::INT);
    child.wait_with_output().unwrap();
    assert_eq!(disk.inside(), "noop");
}

#[test]
fn arms_that_cannot_be_are_refused_by_name() {
    let Some(disk) = ServedDisk::new("null", "cfq") else {
        return;
    };
    let before = disk.state();
    let refused = |target: &str, more: &[&str], code: i32, words: &[&str]| {
        let output = answer(&[&["tune", target, "--dry-run"], more].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{more:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{word} is not in: {said}");
        }
    };
    let at = disk.name.as_str();
    refused(
        at,
        &["--arms", "anticipatory"],
        5,
        &["no scheduler is called `anticipatory`", "cfq"],
    );
    refused(
        at,
        &["--arms", "cfq:slice_idel=0"],
        6,
        &["slice_idel", "slice_idle"],
    );
    refused(
        at,
        &["--arms", "noop,deadline:nr_requests=8"],
        6,
        &["no tunable `nr_requests`"],
    );
    refused(
        at,
        &["--arms", "kernel/anticipatory"],
        5,
        &["this kernel does not offer it"],
    );
    refused(at, &["--arms", "noop", "--persist"], 2, &["--persist"]);
    let dry = answer(&["tune", at, "--arms", "bfq,kernel/bfq", "--dry-run"]);
    for arm in [
        "arm served/cfq (baseline)",
        "arm served/bfq",
        "arm kernel/bfq",
    ] {
        assert!(stdout(&dry).contains(arm), "{}", stdout(&dry));
    }
    fs::write(format!("/sys/block/{at}/queue/scheduler"), "mq-deadline").unwrap();
    refused(
        at,
        &["--arms", "noop"],
        2,
        &["two schedulers", &format!("iosched set {at} none")],
    );
    fs::write(format!("/sys/block/{at}/queue/scheduler"), "none").unwrap();
    assert_eq!(disk.state(), before);
    let other = LoopDevice::new(8 * MIB);
    let hint = "tune --emulate hdd-7200 --arms served/cfq";
    refused(
        &other.name,
        &["--arms", "served/cfq"],
        5,
        &["no scheduler of ours inside", hint],
    );
}

#[test]
fn a_disk_made_for_the_run_is_gone_afterwards() {
    if !can_emulate() || !has_fio() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("raw");
    let args = [
        "--emulate",
        "ssd-sata",
        "--size",
        "64M",
        "--arms",
        "cfq,mq-deadline",
    ];
    let output = tune(&args, &out);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = in_one_line(&stdout(&output));
    assert!(
        said.contains("(emulated ssd-sata, 64 MiB, schedulers served inside)"),
        "{said}"
    );
    assert!(
        said.contains("ratio to served/cfq"),
        "the first arm: {said}"
    );
    assert_eq!(disks(), "");
    // One arm has to be served, so that all plain names are.
    let states = states(&out);
    assert_eq!(states["served/mq-deadline"]["served"], "mq-deadline");

    for (name, load) in [
        ("files", "documents-create:threads=2,documents=200"),
        ("left", "command: sh: echo x >left"),
    ] {
        let out = dir.path().join(name);
        let args = [
            "--emulate",
            "null",
            "--size",
            "512M",
            "--arms",
            "noop,deadline",
            "--load",
            load,
        ];
        let output = tune(&args, &out);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(record(&out)[0]["plan"]["target"]["file_system"], "ext4");
    }
    assert_eq!(disks(), "");
}

/// What there is of emulated disks in this test's world.
fn disks() -> String {
    let list = answer(&["emulate", "list", "--json"]);
    let mut left = stdout(&list).trim().replace("[]", "");
    let mounts = own_mounts();
    let ours = mounts
        .lines()
        .filter(|line| line.contains(" /run/iosched/"));
    ours.for_each(|line| left.push_str(line));
    left
}

#[test]
fn ctrl_c_and_sigkill_leave_nothing_of_it_and_the_record_goes_on_with_another() {
    if !can_emulate() || !has_fio() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let disk = ["--emulate", "ssd-sata", "--size", "128M", "--mkfs", "ext4"];
    let load = [
        "--arms",
        "cfq,noop",
        "--runtime",
        "500ms",
        "--file-size",
        "8M",
        "--no-html",
    ];
    let fixed = ["--fixed-rounds", "2"];
    for end in [Signal::INT, Signal::KILL] {
        let _ = fs::remove_dir_all(&out);
        let child = start(&[&disk[..], &load, &fixed].concat(), &out);
        let has_trial = || {
            let text = fs::read_to_string(out.join("record.jsonl")).unwrap_or_default();
            text.contains("\"type\":\"trial\"")
        };
        assert!(wait_until(has_trial), "no trial ran");
        signal(child.id(), end);
        let output = child.wait_with_output().unwrap();
        if end == Signal::INT {
            assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
            assert_eq!(disks(), "");
        }
        assert!(wait_until(|| disks().is_empty()), "{}", disks());
        let restored = answer(&["restore"]);
        assert!(restored.status.success(), "{}", stderr(&restored));
        assert_eq!(fs::read_dir("/var/lib/iosched/journal").unwrap().count(), 0);
        assert!(wait_until(|| !fio_runs_on("iosched")));
    }
    let again = answer(&["tune", "--resume", out.to_str().unwrap()]);
    assert!(again.status.success(), "{}", stderr(&again));
    let said = stderr(&again);
    assert!(
        said.contains("Going on with an emulated ssd-sata, 128 MiB"),
        "{said}"
    );
    let trials = record(&out)
        .into_iter()
        .filter(|line| line["type"] == "trial");
    assert_eq!(trials.count(), 4);
    assert_eq!(disks(), "");
}
