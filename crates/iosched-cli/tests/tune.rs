//! `iosched tune` on real block devices with real fio: the answer, the record, and what happens
//! when things go wrong. The machine must end as it began, whatever happens.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test may panic, and says what it lacked"
)]

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use common::{
    LoopDevice, can_emulate, can_use_loop_devices, has_fio, iosched, iosched_process,
    processes_with, run, wait_until, whole_queue,
};

const MIB: u64 = 1 << 20;

/// Arguments for two very short rounds of two arms.
const SHORT: &[&str] = &[
    "--arms",
    "none,mq-deadline",
    "--fixed-rounds",
    "2",
    "--runtime",
    "200ms",
];

fn tune(target: &str, out: &Path, more: &[&str]) -> (i32, String, String) {
    let output = iosched()
        .arg("tune")
        .arg(target)
        .arg("--out")
        .arg(out)
        .args(SHORT)
        .args(more)
        .output()
        .unwrap();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn a_raw_device_is_measured_read_only_and_ends_as_it_began() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
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
    assert!(
        stdout.lines().all(|line| line.chars().count() <= 80),
        "{stdout}"
    );
}

#[test]
fn the_report_of_a_record_is_what_tune_printed_in_every_form() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("record");
    let (code, stdout, stderr) = tune(&disk.name, &out, &[]);
    assert_eq!(code, 0, "{stderr}");
    let report = |more: &[&str]| {
        let output = iosched()
            .arg("report")
            .arg(&out)
            .args(more)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let table = report(&[]);
    assert!(stdout.contains(table.trim()), "{stdout}\n---\n{table}");
    let csv = report(&["--csv"]);
    let throughputs = csv.lines().filter(|line| line.contains(",,throughput,"));
    assert_eq!(throughputs.count(), 4, "{csv}");
    let log = report(&["--tsv"]);
    assert!(
        log.starts_with("Test\tThroughput (KB/s)\tI/O Scheduler\tThreads\tn\n"),
        "{log}"
    );
    assert!(report(&["--points"]).contains("Points"));
    assert!(report(&["--normalised"]).contains("none = 100"));
    let json: serde_json::Value = serde_json::from_str(&report(&["--json"])).unwrap();
    assert_eq!(json["trials"], 4);
}

#[test]
fn json_events_are_one_object_a_line_and_end_with_the_answer() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
    let dir = tempfile::tempdir().unwrap();
    let (code, stdout, stderr) = tune(&disk.name, &dir.path().join("r"), &["--json"]);
    assert_eq!(code, 0, "{stderr}");
    let events: Vec<serde_json::Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<&str> = events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert_eq!(names.first(), Some(&"started"));
    assert!(
        names.contains(&"finished") && names.contains(&"trial-ended"),
        "{names:?}"
    );
    assert_eq!(names.last(), Some(&"restored"));
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
fn a_load_can_have_the_rights_of_another_user() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
    let dir = tempfile::tempdir().unwrap();
    let (code, _, stderr) = tune(&disk.name, &dir.path().join("1"), &["--user", "nobody"]);
    assert_eq!(code, 13, "nobody may not open the device: {stderr}");
    assert!(stderr.contains("Permission denied"), "{stderr}");
    let target = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    let (code, _, stderr) = tune(
        target.path().to_str().unwrap(),
        &dir.path().join("2"),
        &["--user", "no-such-user"],
    );
    assert_eq!(code, 2, "{stderr}");
}

#[test]
fn a_load_that_writes_is_refused_on_a_raw_device_until_allowed_in_so_many_words() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
    let dir = tempfile::tempdir().unwrap();
    let write = ["--load", "random-write"];
    let (code, _, stderr) = tune(&disk.name, &dir.path().join("1"), &write);
    assert_eq!(code, 11, "{stderr}");
    assert!(stderr.contains("--destroy-data"), "{stderr}");

    run("mkfs.ext4", &["-q", disk.path().to_str().unwrap()]);
    let content = fs::read(disk.file()).unwrap();
    let named_wrong = [&write[..], &["--destroy-data=loop-control"]].concat();
    let (code, _, stderr) = tune(&disk.name, &dir.path().join("1b"), &named_wrong);
    assert_eq!(
        code, 11,
        "a wrong name is no permission, even for a blank disk: {stderr}"
    );

    let allowed = [&write[..], &["--destroy-data"]].concat();
    let (code, _, stderr) = tune(&disk.name, &dir.path().join("2"), &allowed);
    assert_eq!(code, 11, "it carries a file system: {stderr}");
    assert!(stderr.contains("ext4"), "{stderr}");

    assert_eq!(tune(&disk.name, &dir.path().join("3"), &named_wrong).0, 11);
    assert!(
        fs::read(disk.file()).unwrap() == content,
        "not a byte may have changed"
    );

    let named_again = format!("--destroy-data={}", disk.path().display());
    let twice = [&write[..], &[&*named_again]].concat();
    let mount = tempfile::tempdir().unwrap();
    run(
        "mount",
        &[
            disk.path().to_str().unwrap(),
            mount.path().to_str().unwrap(),
        ],
    );
    let (code, _, stderr) = tune(&disk.name, &dir.path().join("4"), &twice);
    run("umount", &[mount.path().to_str().unwrap()]);
    assert_eq!(code, 11, "mounted is never overruled: {stderr}");

    let (code, _, stderr) = tune(&disk.name, &dir.path().join("5"), &twice);
    assert_eq!(code, 0, "{stderr}");
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
    let (code, stdout, stderr) = tune(&disk.name, &out, &more);
    assert_eq!(code, 0, "{stderr}");
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
        runs == 25 && stdout.contains("not steady")
    );
    let (code, _, stderr) = tune("/dev/shm", &dir.path().join("2"), &["--precondition"]);
    assert_ne!(code, 0, "a directory cannot be filled: {stderr}");
}

#[test]
fn a_record_that_was_cut_off_is_resumed_and_ends_the_same() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
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
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
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
        output.status.code().unwrap()
    };
    assert_eq!(resume(&[]), 12, "nothing is left of its budget");
    assert_eq!(resume(&["--rounds", "3"]), 0);
    let text = fs::read_to_string(out.join("record.jsonl")).unwrap();
    assert_eq!(text.matches("\"type\":\"trial\"").count(), 6);
}

#[test]
fn a_trial_whose_scheduler_was_changed_by_another_is_void_and_repeated() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
    let before = disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let child = iosched_process()
        .args([
            "tune",
            &disk.name,
            "--arms",
            "none,mq-deadline",
            "--fixed-rounds",
            "2",
        ])
        .args(["--runtime", "1500ms", "--out"])
        .arg(&out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(wait_until(30, || fio_runs_on(&disk.name)), "fio never ran");
    disk.write("scheduler", "kyber");
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("another process changed queue/scheduler"),
        "{stderr}"
    );
    assert!(stderr.contains("kyber was found"), "{stderr}");
    assert_eq!(disk.whole_queue(), before);
    let text = fs::read_to_string(out.join("record.jsonl")).unwrap();
    assert_eq!(text.matches("\"type\":\"trial\"").count(), 4);
    assert_eq!(text.matches("\"type\":\"void\"").count(), 1);
}

/// True while some fio has this device open.
fn fio_runs_on(device: &str) -> bool {
    let node = format!("/dev/{device}");
    processes_with("fio ").into_iter().any(|pid| {
        fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target == Path::new(&node)))
    })
}

#[test]
fn ctrl_c_puts_everything_back_and_the_record_can_be_resumed() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
    let before = disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    let child = iosched_process()
        .args(["tune", &disk.name, "--runtime", "60s", "--out"])
        .arg(dir.path().join("r"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(wait_until(30, || fio_runs_on(&disk.name)), "fio never ran");
    signal(child.id(), rustix::process::Signal::INT);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(
        stderr.contains("interrupted") && stderr.contains("--resume"),
        "{stderr}"
    );
    assert_eq!(disk.whole_queue(), before);
    assert!(!fio_runs_on(&disk.name));
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// How many runs are killed: a few in CI, 50 for `make test-full`.
fn kills() -> u32 {
    std::env::var("IOSCHED_TEST_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(6)
}

#[test]
fn killed_at_any_moment_restore_finds_everything_to_put_back() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
    disk.write("scheduler", "mq-deadline");
    disk.write("iosched/fifo_batch", "5");
    disk.write("read_ahead_kb", "72");
    let before = disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    for kill in 0..kills() {
        let mut child = iosched_process()
            .args([
                "tune",
                &disk.name,
                "--runtime",
                "300ms",
                "--seed",
                &kill.to_string(),
                "--out",
            ])
            .arg(dir.path().join(kill.to_string()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Moments that differ from run to run, from before the journal to the third round.
        let delay = u64::from(kill) * 997 % 4000;
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        iosched().arg("restore").assert().success();
        assert_eq!(disk.whole_queue(), before, "killed after {delay} ms");
        assert!(
            wait_until(5, || !fio_runs_on(&disk.name)),
            "a fio outlived its run"
        );
    }
}

#[test]
fn the_emulated_disk_goes_with_a_killed_run() {
    if !can_emulate() || !has_fio() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for kill in 0..kills().div_ceil(3) {
        let mut child = iosched_process()
            .args(["tune", "--runtime", "300ms", "--out"])
            .arg(dir.path().join(kill.to_string()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(u64::from(kill) * 1499 % 5000));
        child.kill().unwrap();
        child.wait().unwrap();
        let owner = child.id();
        // A running server ends by itself when its owner dies; what was killed while it was being
        // set up is cleared by `restore`.
        let is_gone = wait_until(30, || {
            iosched().arg("restore").assert().success();
            let output = iosched()
                .args(["emulate", "list", "--json"])
                .output()
                .unwrap();
            let list = String::from_utf8(output.stdout).unwrap();
            !list.contains(&format!("\"owner_pid\":{owner},"))
        });
        assert!(is_gone, "the emulated disk of pid {owner} is still there");
    }
}

#[test]
fn the_death_of_the_emulated_disks_server_ends_the_run_with_its_cause() {
    if !can_emulate() || !has_fio() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let child = iosched_process()
        .args(["tune", "--runtime", "2s", "--out"])
        .arg(dir.path().join("r"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut server = 0;
    let is_served = wait_until(30, || {
        let output = iosched()
            .args(["emulate", "list", "--json"])
            .output()
            .unwrap();
        let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let disks = list
            .as_array()
            .cloned()
            .or_else(|| list["disks"].as_array().cloned());
        let ours = disks
            .unwrap_or_default()
            .into_iter()
            .find(|disk| disk["owner_pid"] == child.id());
        let Some(ours) = ours else { return false };
        server = u32::try_from(ours["server_pid"].as_u64().unwrap_or(0)).unwrap();
        server != 0 && ours["device"].as_str().is_some_and(fio_runs_on)
    });
    assert!(is_served, "no trial ran");
    signal(server, rustix::process::Signal::KILL);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(14), "{stderr}");
    assert!(stderr.contains("server has ended"), "{stderr}");
    iosched().arg("restore").assert().success();
    let output = iosched()
        .args(["emulate", "list", "--json"])
        .output()
        .unwrap();
    let list = String::from_utf8(output.stdout).unwrap();
    assert!(
        !list.contains(&format!("\"server_pid\":{server},")),
        "{list}"
    );
}

#[test]
fn a_full_results_directory_ends_the_run_with_its_cause() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
    let before = disk.whole_queue();
    let mount = tempfile::tempdir().unwrap();
    let at = mount.path().to_str().unwrap();
    run("mount", &["-t", "tmpfs", "-o", "size=16k", "tmpfs", at]);
    let output = iosched()
        .args([
            "tune",
            &disk.name,
            "--runtime",
            "100ms",
            "--out",
            &format!("{at}/r"),
        ])
        .output()
        .unwrap();
    run("umount", &[at]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(12), "{stderr}");
    assert!(
        stderr.contains("is full") && stderr.contains("make room"),
        "{stderr}"
    );
    assert_eq!(disk.whole_queue(), before);
}

#[test]
fn fio_missing_and_fio_hanging_are_said_so() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
    let before = disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    let output = iosched()
        .args(["tune", &disk.name, "--out"])
        .arg(dir.path().join("r"))
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(10), "{stderr}");
    assert!(
        stderr.contains("fio is not installed") && stderr.contains("apt install fio"),
        "{stderr}"
    );

    let bin = tempfile::tempdir().unwrap();
    let fake = bin.path().join("fio");
    let mut file = fs::File::create(&fake).unwrap();
    writeln!(
        file,
        "#!/bin/sh\n[ \"$1\" = --version ] && echo fio-0 && exit\nsleep 1000"
    )
    .unwrap();
    drop(file);
    run("chmod", &["+x", fake.to_str().unwrap()]);
    let path = format!(
        "{}:{}",
        bin.path().display(),
        std::env::var("PATH").unwrap()
    );
    let output = iosched()
        .args([
            "tune",
            &disk.name,
            "--arms",
            "none,bfq",
            "--timeout",
            "300ms",
            "--out",
        ])
        .arg(dir.path().join("hang"))
        .env("PATH", path)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(13), "{stderr}");
    assert!(stderr.contains("was killed"), "{stderr}");
    assert_eq!(disk.whole_queue(), before);
    assert!(processes_with(fake.to_str().unwrap()).is_empty());
}

#[test]
fn an_arm_that_always_fails_leaves_with_its_error_and_the_others_go_on() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
    let dir = tempfile::tempdir().unwrap();
    // A fio that fails under bfq and is the real one otherwise.
    let script = format!(
        "#!/bin/sh\nif grep -q '\\[bfq\\]' /sys/block/{}/queue/scheduler && [ \"$1\" != --version ]; then\n\
         echo no luck with bfq >&2; exit 1\nfi\nPATH=${{PATH#*:}} exec fio \"$@\"\n",
        disk.name
    );
    let fake = dir.path().join("fio");
    fs::write(&fake, script).unwrap();
    run("chmod", &["+x", fake.to_str().unwrap()]);
    let path = format!(
        "{}:{}",
        dir.path().display(),
        std::env::var("PATH").unwrap()
    );
    let output = iosched()
        .args([
            "tune",
            &disk.name,
            "--arms",
            "none,mq-deadline,bfq",
            "--fixed-rounds",
            "2",
        ])
        .args(["--runtime", "200ms", "--out"])
        .arg(dir.path().join("r"))
        .env("PATH", path)
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        stdout.contains("bfq left: the load failed") && stdout.contains("no luck"),
        "{stdout}"
    );
    let text = fs::read_to_string(dir.path().join("r/record.jsonl")).unwrap();
    assert_eq!(text.matches("\"type\":\"trial\"").count(), 4);
    assert_eq!(text.matches("\"type\":\"void\"").count(), 3);
}

#[test]
fn a_target_that_vanishes_is_named_and_the_trials_are_kept() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    // Detaching a loop device that is open takes effect when the last one closes it: the next
    // trial finds a device without a size, as with a disk that was pulled.
    let disk = LoopDevice::new(64 * MIB);
    let dir = tempfile::tempdir().unwrap();
    let child = iosched_process()
        .args(["tune", &disk.name, "--runtime", "300ms", "--out"])
        .arg(dir.path().join("r"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(wait_until(30, || fio_runs_on(&disk.name)), "fio never ran");
    fs::OpenOptions::new()
        .write(true)
        .open(disk.file())
        .unwrap()
        .set_len(0)
        .unwrap();
    run(
        "losetup",
        &["--set-capacity", disk.path().to_str().unwrap()],
    );
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let code = output.status.code();
    assert!(matches!(code, Some(13 | 14)), "{code:?}: {stderr}");
    assert!(
        stderr.contains("error: ") && stderr.contains("random-read"),
        "{stderr}"
    );
    assert_eq!(
        whole_queue(&disk.name)["scheduler"],
        "[none] mq-deadline kyber bfq"
    );
}

#[test]
fn two_runs_on_one_disk_are_not_possible() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
    let dir = tempfile::tempdir().unwrap();
    let mut child = iosched_process()
        .args(["tune", &disk.name, "--runtime", "60s", "--out"])
        .arg(dir.path().join("1"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(wait_until(30, || fio_runs_on(&disk.name)), "fio never ran");
    let (code, _, stderr) = tune(&disk.name, &dir.path().join("2"), &[]);
    assert_eq!(code, 9, "{stderr}");
    assert!(
        stderr.contains(&child.id().to_string()),
        "the other is named: {stderr}"
    );
    signal(child.id(), rustix::process::Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn bad_input_gets_one_clear_error_and_its_exit_code() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
    let dir = tempfile::tempdir().unwrap();
    let job = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let dangerous = job("dangerous.fio", "[a]\nrw=read\nioscheduler=bfq\n");
    let unsupported = job("unsupported.fio", "[a]\nrw=read\nfrobnicate=1\n");
    let full = dir.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("x"), "").unwrap();
    let full = full.display().to_string();
    let newer = dir.path().join("newer");
    fs::create_dir(&newer).unwrap();
    fs::write(
        newer.join("record.jsonl"),
        "{\"kind\":\"iosched-record\",\"schema\":99}\n",
    )
    .unwrap();
    let newer = newer.display().to_string();
    let name = disk.name.as_str();
    for (arguments, expected, words) in [
        (vec!["nonexistent0"], 3, "nonexistent0"),
        (vec!["/no/such/dir"], 3, "/no/such/dir"),
        (vec!["/proc"], 3, "/proc"),
        (vec![name, "--arms", "nonesuch"], 5, "does not offer it"),
        (vec![name, "--arms", "none"], 2, "nothing to compare"),
        (
            vec![name, "--arms", "none,bfq:nonsense=1"],
            6,
            "no tunable nonsense",
        ),
        (vec![name, "--load", "no-such-load"], 2, "no-such-load"),
        (
            vec![name, "--load", &dangerous],
            2,
            "ioscheduler is refused",
        ),
        (
            vec![name, "--load", &unsupported],
            2,
            "frobnicate is not supported",
        ),
        (vec![name, "--margin", "0%"], 2, "--margin"),
        (vec![name, "--confidence", "1.5"], 2, "--confidence"),
        (vec![name, "--rounds", "1"], 2, "--rounds"),
        (vec![name, "--out", &full], 12, "is not empty"),
        (vec!["--resume", &newer], 12, "schema 99"),
        (vec!["--resume", "/no/record/here"], 12, "holds no record"),
    ] {
        let output = iosched()
            .arg("tune")
            .args(&arguments)
            .current_dir(dir.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            output.status.code(),
            Some(expected),
            "{arguments:?}: {stderr}"
        );
        let error = stderr
            .lines()
            .find(|line| line.starts_with("error: "))
            .unwrap_or_default();
        assert!(
            stderr.contains(words) && !error.is_empty(),
            "{arguments:?}: {stderr}"
        );
        assert_eq!(
            stderr.matches("error: ").count(),
            1,
            "{arguments:?}: {stderr}"
        );
    }
    assert_eq!(disk.scheduler(), "none");
}

/// The command in a directory that any user may enter.
fn copy_for_everybody() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(
        assert_cmd::cargo::cargo_bin!("iosched"),
        dir.path().join("iosched"),
    )
    .unwrap();
    dir
}

#[test]
fn the_winner_on_an_emulated_hard_disk_is_found_and_applied() {
    if !can_emulate() || !has_fio() {
        return;
    }
    let output = iosched()
        .args(["emulate", "create", "hdd-7200"])
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
    iosched()
        .args(["emulate", "remove", &device])
        .assert()
        .success();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("Answer: use mq-deadline."), "{stdout}");
    assert!(queue["scheduler"].contains("[mq-deadline]"), "{queue:?}");
}

#[test]
fn a_damaged_record_is_refused_with_its_line_and_a_full_disk_is_said() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let disk = LoopDevice::new(64 * MIB);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    assert_eq!(tune(&disk.name, &out, &[]).0, 0);
    let whole = fs::read_to_string(out.join("record.jsonl")).unwrap();
    let report = |more: &str| {
        let command = format!(
            "{} report {} {more}",
            env!("CARGO_BIN_EXE_iosched"),
            out.display()
        );
        std::process::Command::new("sh")
            .args(["-c", &command])
            .output()
            .unwrap()
    };
    let full = report("--csv > /dev/full");
    assert_eq!(full.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&full.stderr).contains("could not be written"));
    assert_eq!(report("--csv | true").status.code(), Some(0));
    for (good, bad) in [
        (
            "\"throughput_bytes_per_s\":",
            "\"throughput_bytes_per_s\":-",
        ),
        ("\"margin\":1.02", "\"margin\":0.0"),
        ("\"baseline\":0", "\"baseline\":9"),
        (
            "\"type\":\"trial\",\"load\":0",
            "\"type\":\"trial\",\"load\":99",
        ),
    ] {
        assert!(whole.contains(good), "{good}");
        fs::write(out.join("record.jsonl"), whole.replace(good, bad)).unwrap();
        let output = report("");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(12), "{bad}: {stderr}");
        assert!(stderr.contains("record.jsonl:"), "{stderr}");
    }
}

#[test]
fn restore_without_rights_does_not_say_that_all_is_well() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    iosched()
        .args(["set", &disk.name, "bfq", "--for", "1h"])
        .assert()
        .success();
    let dir = copy_for_everybody();
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(dir.path().join("iosched"))
        .arg("restore")
        .output()
        .unwrap();
    iosched().arg("restore").assert().success();
    assert_eq!(
        output.status.code(),
        Some(8),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(disk.scheduler(), "none");
}
