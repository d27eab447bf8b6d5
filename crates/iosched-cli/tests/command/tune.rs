//! `iosched tune` on real block devices with real fio: the answer, the record, and the machine as it was.
use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::common::tuning::{MIB, small_disk, tune};
use crate::common::{
    LoopDevice, Mounted, can_emulate, can_use_loop_devices, has_fio, iosched, remove_emulated, run,
    whole_queue,
};

#[test]
fn a_raw_device_is_measured_read_only_and_ends_as_it_began() {
    let Some(disk) = small_disk() else {
        return;
    };
    disk.write("scheduler", "bfq");
    disk.write("iosched/low_latency", "0");
    disk.write("read_ahead_kb", "64");
    let before = disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("record");
    let (code, stdout, stderr) = tune(&disk.name, &out, &["--seed", "7"]);
    assert_eq!(code, 0, "{stderr}");
    // The baseline is what was active, although it was not among the arms.
    assert!(stdout.contains("ratio to bfq"), "{stdout}");
    assert!(stdout.contains("Answer: "), "{stdout}");
    assert_eq!(disk.whole_queue(), before);
    let text = fs::read_to_string(out.join("record.jsonl")).unwrap();
    assert_eq!(
        text.matches("\"type\":\"trial\"").count(),
        6,
        "3 arms × 2 rounds"
    );
    let place = dir.path().to_str().unwrap();
    let is_whole = |line: &str| line.contains(place) || line.starts_with("try: "); // paths, and commands to be pasted
    let wide = |line: &&str| line.chars().count() > 80 && !is_whole(line);
    assert_eq!(stdout.lines().find(wide), None, "{stdout}");
}

#[test]
fn a_directory_is_measured_with_files_of_our_own_which_are_removed() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(256 * MIB);
    run("mkfs.ext4", &["-q", disk.path().to_str().unwrap()]);
    let mount = tempfile::tempdir().unwrap();
    let at = mount.path().to_str().unwrap();
    run("mount", &[disk.path().to_str().unwrap(), at]);
    fs::write(mount.path().join("theirs"), "kept").unwrap();
    let before = disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    let result = tune(
        at,
        &dir.path().join("r"),
        &["--load", "mixed", "--file-size", "16M"],
    );
    let left: Vec<String> = fs::read_dir(mount.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "lost+found")
        .collect();
    let after = disk.whole_queue();
    run("umount", &[at]);
    assert_eq!(result.0, 0, "{}", result.2);
    assert_eq!(left, ["theirs"]);
    assert_eq!(after, before);
}

#[test]
fn flash_is_filled_and_writes_are_run_until_steady_before_they_are_measured() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(32 * MIB);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let more = ["--load", "random-write", "--destroy-data", "--precondition"];
    let (code, _, stderr) = tune(&disk.name, &out, &more);
    assert_eq!(code, 0, "{stderr}");
    let report = iosched().arg("report").arg(&out).arg("--details").output();
    let all = String::from_utf8(report.unwrap().stdout).unwrap();
    let stored = fs::metadata(disk.file()).unwrap().blocks() * 512;
    assert!(stored >= 32 * MIB, "the whole device was written: {stored}");
    let text = fs::read_to_string(out.join("record.jsonl")).unwrap();
    assert!(text.contains(&format!(
        "\"type\":\"preconditioned\",\"bytes\":{}",
        64 * MIB
    )));
    let steady = text
        .lines()
        .find(|line| line.contains("\"type\":\"steady\""))
        .unwrap();
    let steady: serde_json::Value = serde_json::from_str(steady).unwrap();
    let runs = steady["throughput_bytes_per_s"].as_array().unwrap().len();
    assert!((5..=25).contains(&runs), "{runs}");
    assert_eq!(
        steady["window"].is_null(),
        runs == 25 && all.contains("not steady")
    );
    let mounted = Mounted::new(32 * MIB);
    let more = ["--file-size", "1M", "--precondition"];
    let (code, _, stderr) = tune(mounted.path(), &dir.path().join("2"), &more);
    assert_eq!(code, 2, "a directory cannot be filled: {stderr}");
    assert!(stderr.contains("hint: name the raw device"), "{stderr}");
}

#[test]
fn a_record_that_was_cut_off_is_resumed_and_ends_the_same() {
    let Some(disk) = small_disk() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let (code, _, stderr) = tune(&disk.name, &out, &["--seed", "3"]);
    assert_eq!(code, 0, "{stderr}");
    let path = out.join("record.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    let resume = || {
        iosched()
            .args(["tune", "--resume"])
            .arg(&out)
            .output()
            .unwrap()
    };
    let complete = resume();
    assert_eq!(
        complete.status.code(),
        Some(12),
        "a complete record is not resumed"
    );

    // As after a power failure: two trials whole, the third cut in the middle.
    let lines: Vec<&str> = whole.lines().collect();
    let cut = format!(
        "{}\n{}\n{}\n{}",
        lines[0],
        lines[1],
        lines[2],
        &lines[3][..100]
    );
    fs::write(&path, cut).unwrap();
    let output = resume();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let again = fs::read_to_string(&path).unwrap();
    assert_eq!(again.matches("\"type\":\"trial\"").count(), 4);
    assert!(again.contains("\"type\":\"resumed\"") && again.contains("\"type\":\"finished\""));
    let slots = |text: &str| -> Vec<(u64, u64)> {
        text.lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .filter(|line| line["type"] == "trial")
            .map(|line| {
                (
                    line["round"].as_u64().unwrap(),
                    line["arm"].as_u64().unwrap(),
                )
            })
            .collect()
    };
    assert_eq!(
        slots(&again),
        slots(&whole),
        "the same order, from the same seed"
    );
}

#[test]
fn a_run_whose_rounds_were_spent_goes_on_with_more() {
    let Some(disk) = small_disk() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    // The same arm twice cannot be told apart in two rounds.
    let output = iosched()
        .args([
            "tune",
            &disk.name,
            "--arms",
            "none,none",
            "--rounds",
            "2",
            "--runtime",
            "200ms",
            "--no-html",
        ])
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(
        stdout.contains("It stopped because its rounds are spent"),
        "{stdout}"
    );
    assert!(stdout.contains("keep none (it was active)"), "{stdout}");
    let resume = |more: &[&str]| {
        let output = iosched()
            .args(["tune", "--resume"])
            .arg(&out)
            .args(more)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), said)
    };
    let (code, said) = resume(&[]);
    assert_eq!(code, 12, "nothing is left of its budget");
    // What goes on with it is the command that the run itself named, if it named one.
    let named = (stdout.lines()).find_map(|line| line.strip_prefix("Go on:       "));
    let hint = named.map(|command| format!("go on with a larger budget: {command}"));
    assert!(
        hint.is_none_or(|hint| said.contains(&hint)),
        "{stdout}{said}"
    );
    assert_eq!(resume(&["--rounds", "3"]).0, 0);
    assert!(!out.join("report.html").exists(), "it began with --no-html");
    let text = fs::read_to_string(out.join("record.jsonl")).unwrap();
    assert_eq!(text.matches("\"type\":\"trial\"").count(), 6);
}

#[test]
fn what_tune_answers_for_an_emulated_hard_disk_is_active_after_apply() {
    if !can_emulate() || !has_fio() {
        return;
    }
    let output = iosched()
        .args(["emulate", "create", "hdd-7200-fifo", "--owner-pid"])
        .arg(std::process::id().to_string())
        .output()
        .unwrap();
    let device = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let dir = tempfile::tempdir().unwrap();
    let output = iosched()
        .args([
            "tune",
            &device,
            "--arms",
            "none,mq-deadline",
            "--runtime",
            "1500ms",
            "--apply",
        ])
        .arg("--out")
        .arg(dir.path().join("r"))
        .output()
        .unwrap();
    let queue = whole_queue(device.trim_start_matches("/dev/"));
    remove_emulated(&[&device]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    // What this disk is for: sorted by place, its reads are half as long again. A machine that is too busy to
    // show it keeps what was active.
    let applied = if stdout.contains("Answer: use mq-deadline for ") {
        "mq-deadline"
    } else {
        assert!(stdout.contains("Answer: keep none"), "{stdout}");
        "none"
    };
    assert_eq!(queue["scheduler"], applied, "{stdout}");
}

#[test]
fn who_wants_quiet_gets_the_result_warnings_and_errors() {
    let Some(disk) = small_disk() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (code, stdout, stderr) = tune(&disk.name, &dir.path().join("1"), &["--quiet"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("Answer: "), "{stdout}");
    let is_warning = |line: &str| line.starts_with("note: ") || line.starts_with("hint: ");
    assert!(stderr.lines().all(is_warning), "{stderr}");
    let (code, _, stderr) = tune(&disk.name, &dir.path().join("2"), &["-q", "--load", "none"]);
    assert_ne!(code, 0);
    assert!(stderr.starts_with("error: "), "{stderr}");
}
