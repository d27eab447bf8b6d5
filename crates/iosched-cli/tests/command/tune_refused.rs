//! What `iosched tune` does not do: write where it may not, share a disk, take bad input or a damaged record.
use std::fs;

use iosched_testing::loop_device;

use crate::common::lab::stderr;
use crate::common::tuning::{MIB, fio_runs_on, signal, small_disk, start, tune};
use crate::common::{CopyForEverybody, LoopDevice, can_use_loop_devices, iosched, run, wait_until};

#[test]
fn a_load_that_writes_is_refused_on_a_raw_device_until_allowed_in_so_many_words() {
    let Some(disk) = small_disk() else {
        return;
    };
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
    for load in ["random-write", "documents-create"] {
        let (_, _, hinted) = tune(&disk.name, &dir.path().join("6"), &["--load", load]);
        let directory = format!("try: iosched tune {} ", mount.path().display());
        assert!(hinted.contains(&directory), "{hinted}");
        assert!(!hinted.contains("--destroy-data"), "{hinted}");
    }
    run("umount", &[mount.path().to_str().unwrap()]);
    assert_eq!(code, 11, "mounted is never overruled: {stderr}");

    let (code, _, stderr) = tune(&disk.name, &dir.path().join("5"), &twice);
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn a_dry_run_finds_what_a_run_would_find_in_its_first_seconds() {
    let Some(disk) = small_disk() else {
        return;
    };
    disk.write("scheduler", "none");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("record");
    let before = disk.whole_queue();
    let dry = |more: &[&str]| {
        let mut command = iosched();
        command
            .args(["tune", &disk.name, "--dry-run", "--out"])
            .arg(&out);
        let output = command.args(more).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap_or(-1), stderr)
    };
    let (code, stderr) = dry(&["--arms", "mq-deadline:fifo_bach=1"]);
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.contains("no tunable fifo_bach"), "{stderr}");
    assert!(stderr.contains("fifo_batch"), "{stderr}");
    let (code, stderr) = dry(&["--arms", "mq-deadline:fifo_batch=many"]);
    assert_eq!(code, 6, "{stderr}");
    assert!(
        stderr.contains("`iosched list --help-tunables`"),
        "{stderr}"
    );
    let (code, stderr) = dry(&["--arms", "mq-deadline:fifo_batch=1,nr_requests=64"]);
    assert_eq!(code, 0, "{stderr}");
    let (code, stderr) = dry(&["--persist"]);
    assert_ne!(code, 0, "a loop device is another disk each time");
    assert!(stderr.contains("another disk each time"), "{stderr}");
    let way_out = format!("--apply sets the answer for as long as {} is", disk.name);
    assert!(stderr.contains(&way_out), "{stderr}");
    // The kernel keeps the flag when the file is detached: it is cleared before anything can fail.
    run("blockdev", &["--setro", disk.path().to_str().unwrap()]);
    let (code, stderr) = dry(&["--load", "random-write", "--destroy-data"]);
    loop_device::make_writable(&disk.name);
    assert_eq!(code, 11, "{stderr}");
    assert!(stderr.contains("is read-only"), "{stderr}");
    assert_eq!(disk.whole_queue(), before);
    assert!(!out.exists());
}

#[test]
fn an_answer_is_left_only_on_a_disk_that_is_there_after_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("record");
    for option in ["--apply", "--persist"] {
        for more in [&["--dry-run"][..], &[]] {
            let mut command = iosched();
            command.args(["tune", option, "--runtime", "1s", "--out"]);
            let output = command.arg(&out).args(more).output().unwrap();
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{option} {more:?}: {said}");
            let words = format!("error: {option} is for a disk that is there after the run");
            assert!(said.starts_with(&words), "{said}");
            assert!(!out.exists());
        }
    }
    // Nor does one that goes on.
    let simulated = "--simulate hdd-7200-fifo --arms noop,deadline --runtime 1s --no-html";
    let mut command = iosched();
    command.args(["tune", "--rounds", "2"]);
    command.args(simulated.split(' ')).arg("--out");
    let output = command.arg(&out).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut command = iosched();
    command.args(["tune", "--rounds", "60", "--apply", "--resume"]);
    let output = command.arg(&out).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("leave --apply out"), "{said}");
}

#[test]
fn two_runs_on_one_disk_are_not_possible() {
    let Some(disk) = small_disk() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let mut child = start(&[&disk.name, "--runtime", "60s"], &dir.path().join("1"));
    assert!(wait_until(|| fio_runs_on(&disk.name)), "fio never ran");
    let (code, _, stderr) = tune(&disk.name, &dir.path().join("2"), &[]);
    assert_eq!(code, 9, "{stderr}");
    let in_use = format!("{} is in use by ", disk.name);
    let other = format!(" (pid {}): ", child.id());
    assert!(
        stderr.contains(&in_use) && stderr.contains(&other),
        "{stderr}"
    );
    signal(child.id(), rustix::process::Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn bad_input_gets_one_clear_error_and_its_exit_code() {
    let Some(disk) = small_disk() else {
        return;
    };
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
            vec![name, "--timeout", "1s"],
            2,
            "ends every trial of random-read",
        ),
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
            "unsupported.fio:3: fio says: Bad option <frobnicate=1>",
        ),
        (vec![name, "--margin", "0%"], 2, "--margin"),
        (vec![name, "--confidence", "1.5"], 2, "--confidence"),
        (vec![name, "--rounds", "1"], 2, "--rounds"),
        (vec![name, "--out", &full], 12, "is not empty"),
        (vec!["--resume", &newer], 12, "schema 99"),
        (
            vec!["--resume", "/no/record/here"],
            12,
            "there is no such directory",
        ),
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
    let copy = CopyForEverybody::new();
    let output = copy.as_nobody().arg("restore").output().unwrap();
    iosched().arg("restore").assert().success();
    assert_eq!(
        output.status.code(),
        Some(8),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(disk.scheduler(), "none");
}

#[test]
fn log_without_rights_calls_no_change_damaged() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    iosched()
        .args(["set", &disk.name, "bfq"])
        .assert()
        .success();
    let copy = CopyForEverybody::new();
    let output = copy.as_nobody().arg("log").output().unwrap();
    let simulated = copy
        .as_nobody()
        .args(["tune", "--simulate", "hdd-7200-fifo", "--arms", "noop,cfq"])
        .args(["--rounds", "2", "--no-html"])
        .arg("--out")
        .arg(std::env::temp_dir().join(&disk.name))
        .output();
    let _ = std::fs::remove_dir_all(std::env::temp_dir().join(&disk.name));
    iosched().arg("undo").assert().success();
    // What touches no disk has nothing to do with what was changed.
    let told = stderr(&simulated.unwrap());
    assert!(!told.contains("undo"), "{told}");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(8), "{said}");
    assert!(said.contains("cannot read the history"), "{said}");
    assert!(said.contains("run it as root"), "{said}");
    assert!(!said.contains("damaged"), "{said}");
}
