//! `iosched tune FILE`: the file is somebody's, and only read.
use std::fs;
use std::path::Path;

use crate::common::tuning::{MIB, record, start, tune};
use crate::common::{Mounted, can_use_loop_devices, has_fio, wait_until};

/// Options that make fio remove, extend, shorten or write what it works on.
const ALTER: &[&str] = &[
    "unlink=1",
    "unlink=1\nloops=3",
    "unlink=1\nnumjobs=2",
    "unlink=1\ncreate_on_open=1",
    "overwrite=1\nsize=4m",
    "fallocate=posix\nsize=4m\noverwrite=1",
    "fallocate=truncate\nfilesize=4m",
    "filesize=4k\ncreate_on_open=1",
    "fill_device=1\nsize=4m",
    "ioengine=mmap\nunlink=1",
    "do_verify=1\nverify=md5\ntrim_percentage=50\ntrim_backlog=1",
];

#[test]
fn a_file_that_is_the_target_is_as_before_whatever_the_job_file_says() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let mounted = Mounted::new(64 * MIB);
    let file = mounted.at.join("theirs");
    let content: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
    fs::write(&file, &content).unwrap();
    let modified = |file: &Path| fs::metadata(file).unwrap().modified().unwrap();
    let before = modified(&file);
    let dir = tempfile::tempdir().unwrap();
    for (number, alter) in ALTER.iter().enumerate() {
        let job = dir.path().join("job.fio");
        fs::write(
            &job,
            format!("[a]\nrw=randread\ndirect=1\nioengine=libaio\nbs=4k\n{alter}\n"),
        )
        .unwrap();
        let out = dir.path().join(number.to_string());
        let load = ["--load", job.to_str().unwrap(), "--no-html"];
        let (code, _, stderr) = tune(file.to_str().unwrap(), &out, &load);
        assert!(
            code == 0 || !alter.starts_with("unlink"),
            "{alter}: {stderr}"
        );
        assert!(file.exists(), "{alter}: the file was removed");
        assert!(fs::read(&file).unwrap() == content, "{alter}");
        assert_eq!(modified(&file), before, "{alter}");
    }
    assert_eq!(mounted.names(), ["theirs"]);
    // What would reach other files, or run programs, is replaced.
    for option in [
        "filename=x",
        "write_iolog=x",
        "exec_prerun=true",
        "unlink_each_loop=1",
    ] {
        let job = dir.path().join("job.fio");
        fs::write(
            &job,
            format!("[a]\nrw=randread\ndirect=1\nioengine=libaio\n{option}\n"),
        )
        .unwrap();
        let load = ["--load", job.to_str().unwrap()];
        let (code, _, stderr) = tune(file.to_str().unwrap(), &dir.path().join(option), &load);
        assert_eq!(code, 0, "{option}: {stderr}");
        assert!(stderr.contains("replaced by"), "{option}: {stderr}");
        assert!(fs::read(&file).unwrap() == content, "{option}");
    }
    assert_eq!(mounted.names(), ["theirs"]);
}

#[test]
fn a_file_that_vanishes_in_the_middle_ends_the_run_and_no_arm_is_blamed() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let mounted = Mounted::new(64 * MIB);
    let file = mounted.at.join("theirs");
    fs::write(&file, vec![7; 1 << 20]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let short = [
        "--load",
        "random-read",
        "--runtime",
        "100ms",
        "--fixed-rounds",
        "200",
    ];
    let run = start(&[&[file.to_str().unwrap()], &short[..]].concat(), &out);
    let has_trial = || {
        let text = fs::read_to_string(out.join("record.jsonl")).unwrap_or_default();
        text.contains("\"type\":\"trial\"")
    };
    assert!(wait_until(has_trial), "no trial ran");
    fs::remove_file(&file).unwrap();
    let output = run.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(14), "{stderr}");
    assert!(
        stderr.contains("is gone, or something else is in its place"),
        "{stderr}"
    );
    let lines = record(&out);
    assert!(
        !lines
            .iter()
            .any(|line| line["type"] == "finished" || line["type"] == "arm-left")
    );
}
