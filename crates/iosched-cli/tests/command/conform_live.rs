//! `iosched conform --live`: this kernel's schedulers decide as ours, and nothing stays behind.
use std::fs;
use std::process::Stdio;

use crate::common::{
    can_emulate, can_trace, has_fio, iosched, iosched_process, processes_with, tracing_instances,
    wait_until,
};
use iosched_experiment::simulate::live::{Comparison, LEAST_AGREEMENT, LiveReport};

/// True if the command can run here; says why not otherwise.
fn can_run() -> bool {
    can_emulate() && has_fio() && can_trace()
}

/// Asserts that a comparison was judged by its own numbers. How well the schedulers agree is measured by
/// `lab/validate-live`: on a busy machine events are lost, and whoever chose a request is interrupted
/// before it is issued.
fn assert_judged_rightly(results: &[Comparison], code: Option<i32>, stderr: &str) {
    let agrees = |one: &Comparison| one.followed.agreement >= Some(LEAST_AGREEMENT);
    let wanted = i32::from(!results.iter().all(agrees));
    assert_eq!(code, Some(wanted), "{stderr}");
    for one in results {
        assert!(
            one.followed.report.agreed <= one.followed.report.decisions,
            "{one:?}"
        );
        assert!(one.measured.figures.iops > 0.0, "{one:?}");
        assert!(one.predicted.figures.iops > 0.0, "{one:?}");
    }
}

/// Emulated disks that go with this process.
fn disks_of(pid: u32) -> Vec<String> {
    let disks = iosched_emulate::list().unwrap();
    let pid = i32::try_from(pid).unwrap();
    let ours = disks.into_iter().filter(|disk| disk.owner_pid == Some(pid));
    ours.map(|disk| disk.id).collect()
}

#[test]
fn the_kernels_schedulers_are_followed_measured_and_predicted() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let load = dir.path().join("both.fio");
    let text = "[reads]\nrw=randread\ndirect=1\nioengine=libaio\niodepth=8\n[writes]\nrw=randwrite\ndirect=1\nioengine=libaio\niodepth=8\nprio=7\n\
                prioclass=2\n[seldom]\nrw=randread\ndirect=1\nioengine=libaio\nprioclass=2\nprio=0\nthinktime=20ms\n";
    fs::write(&load, text).unwrap();
    let kept = dir.path().join("kept");
    let mut command = iosched();
    command.args(["conform", "--live", "--json", "--runtime", "1s"]);
    command.args(["--seed", "7", "--load"]).arg(&load);
    let output = command.arg("--recordings").arg(&kept).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let report: LiveReport =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    assert!(report.driver_depth >= 4 && report.disk == "hdd-7200-fifo");
    let names: Vec<_> = report
        .results
        .iter()
        .map(|one| one.scheduler.as_str())
        .collect();
    assert_eq!(names, ["none", "mq-deadline", "kyber", "bfq"]);
    for one in &report.results {
        assert_eq!(one.processes.len(), 3);
    }
    assert_judged_rightly(&report.results, output.status.code(), &stderr);
    assert_eq!(fs::read_dir(&kept).unwrap().count(), 4);
}

#[test]
fn nothing_stays_behind_when_it_is_killed_or_interrupted() {
    if !can_run() {
        return;
    }
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::INT] {
        let mut child = iosched_process()
            .args([
                "conform",
                "--live",
                "--runtime",
                "60s",
                "--scheduler",
                "none",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        let is_recording = wait_until(|| !tracing_instances(pid).is_empty());
        assert!(is_recording, "it records");
        let device = iosched_emulate::list()
            .unwrap()
            .into_iter()
            .find(|disk| disk.owner_pid == i32::try_from(pid).ok())
            .and_then(|disk| disk.device)
            .unwrap();
        let raw = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(raw, signal).unwrap();
        let status = child.wait().unwrap();
        if signal == rustix::process::Signal::INT {
            assert_eq!(status.code(), Some(130));
        }
        // The disk's server sees its owner go; fio dies with it.
        assert!(wait_until(|| disks_of(pid).is_empty()), "the disk went");
        assert!(
            wait_until(|| processes_with(&format!("/dev/{device}")).is_empty()),
            "no process works on it"
        );
        iosched().arg("restore").assert().success();
        assert_eq!(tracing_instances(pid), Vec::<String>::new(), "{signal:?}");
    }
}

#[test]
fn what_cannot_be_compared_live_is_refused_by_name() {
    for (arguments, code, words) in [
        (
            &["--scheduler", "bfg"][..],
            5,
            "no scheduler is called `bfg`",
        ),
        (
            &["--scheduler", "cfq"],
            5,
            "cfq is for the single-queue path",
        ),
        (
            &["--load", "no-such"],
            2,
            "no built-in load is called \"no-such\"",
        ),
        (&["--runtime", "0"], 2, "a time must be above 0"),
        (&["--tick-phase", "1"], 2, "cannot be used with"),
        (&["trace.txt"], 2, "cannot be used with"),
    ] {
        let output = iosched()
            .args(["conform", "--live"])
            .args(arguments)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
    }
    let none = iosched().arg("conform").output().unwrap();
    assert_eq!(none.status.code(), Some(2), "a recording or --live");
}
