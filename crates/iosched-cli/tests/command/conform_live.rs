//! `iosched conform --live`: this kernel's schedulers decide as ours, and nothing stays behind.
use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::common::{
    can_emulate, can_trace, has_fio, iosched, iosched_process, processes_with, tracing_instances,
    wait_until,
};
use iosched::simulate::live::{LEAST_AGREEMENT, Report};

/// True if the command can run here; says why not otherwise.
fn can_run() -> bool {
    can_emulate() && has_fio() && can_trace()
}

/// How often a comparison is made before it has to hold. Without a probe on the choice itself a request counts
/// as chosen when it is issued: where whoever chose was interrupted for long, as on a machine that is busy with
/// other things, others have come in between.
const ATTEMPTS: usize = 3;

/// Emulated disks that go with this process.
fn disks_of(pid: u32) -> Vec<String> {
    let disks = iosched::emulate::list();
    let pid = i32::try_from(pid).unwrap();
    let ours = disks.into_iter().filter(|disk| disk.owner_pid == Some(pid));
    ours.map(|disk| disk.id).collect()
}

#[test]
fn the_kernels_schedulers_decide_as_ours() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let load = dir.path().join("both.fio");
    let text = "[reads]\nrw=randread\niodepth=8\n[writes]\nrw=randwrite\niodepth=8\nprio=7\n\
                prioclass=2\n[seldom]\nrw=randread\nprioclass=2\nprio=0\nthinktime=20ms\n";
    fs::write(&load, text).unwrap();
    let kept = |attempt: usize| dir.path().join(format!("kept-{attempt}"));
    let compare = |attempt: usize| {
        let mut command = iosched();
        command.args(["conform", "--live", "--json", "--runtime", "2s"]);
        command.args(["--seed", "7", "--load"]).arg(&load);
        command.arg("--recordings").arg(kept(attempt));
        (attempt, command.output().unwrap())
    };
    let mut attempts = (1..=ATTEMPTS).map(compare);
    let (attempt, output) = attempts
        .find(|(attempt, output)| output.status.success() || *attempt == ATTEMPTS)
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let report: Report =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    assert!(report.driver_depth >= 4 && report.disk == "hdd-7200");
    let names: Vec<_> = report
        .results
        .iter()
        .map(|one| one.scheduler.as_str())
        .collect();
    assert_eq!(names, ["none", "mq-deadline", "kyber"]);
    for one in &report.results {
        assert_eq!(one.lost_events, 0, "{one:?}");
        assert!(one.followed.decisions > 50, "{one:?}");
        assert!(one.followed.agreement >= LEAST_AGREEMENT, "{one:?}");
        assert_eq!(one.processes.len(), 3);
        assert!(one.measured.figures.iops > 0.0 && one.predicted.figures.iops > 0.0);
    }
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let recordings = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.retain(|name| name != "simulated");
        names.sort();
        names
    };
    let measured = recordings(&kept(attempt));
    assert_eq!(measured.len(), 3);
    assert_eq!(measured, recordings(&kept(attempt).join("simulated")));
}

#[test]
fn a_disk_that_is_too_fast_for_the_machine_is_slowed_down_and_predicted_so() {
    if !can_run() {
        return;
    }
    let live = |arguments: &[&str]| {
        let command = [
            "conform",
            "--live",
            "--json",
            "--disk",
            "ssd-sata",
            "--queue-depth",
            "4",
            "--scheduler",
            "none",
            "--runtime",
            "1s",
            "--seed",
            "7",
        ];
        let output = iosched().args(command).args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice::<Report>(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {stderr}"))
    };
    let chosen = live(&[]);
    let (disk, machine) = (chosen.speed.disk.unwrap(), chosen.speed.machine.unwrap());
    let factor = f64::from(chosen.speed.slow_down.get());
    let is_enough = |factor: f64| {
        machine.iops >= 29.999_999 * disk.iops / factor
            && factor * disk.latency_ns >= 39.999_999 * machine.latency_ns
    };
    assert!(is_enough(factor), "{:?}", chosen.speed);
    assert!(
        factor < 1.5 || !is_enough(factor - 1.01),
        "{:?}",
        chosen.speed
    );

    // So slow that a busy machine keeps up: what is measured and predicted are of the slowed disk.
    let slowed = live(&["--slow-down", "200"]);
    assert_eq!(slowed.speed.slow_down.get(), 200);
    let one = &slowed.results[0];
    let most = disk.iops / 200.0;
    assert!(one.predicted.figures.iops <= 1.05 * most, "{one:?}, {most}");
    assert!(one.measured.figures.iops <= 1.25 * most, "{one:?}, {most}");
    assert!(
        one.lost_events == 0 && one.followed.agreement >= LEAST_AGREEMENT,
        "{one:?}"
    );
}

#[test]
fn what_was_recorded_live_can_be_followed_again() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let command = [
        "conform",
        "--live",
        "--runtime",
        "1s",
        "--scheduler",
        "mq-deadline",
    ];
    let made = iosched()
        .args(command)
        .arg("--recordings")
        .arg(dir.path())
        .assert()
        .success();
    let live = String::from_utf8(made.get_output().stdout.clone()).unwrap();
    let again = iosched()
        .args(["conform", "--scheduler", "mq-deadline"])
        .arg(dir.path())
        .assert()
        .success();
    let again = String::from_utf8(again.get_output().stdout.clone()).unwrap();
    let decisions = |text: &str| {
        let before = text.split(" decisions").next().unwrap();
        let count = before.split_ascii_whitespace().next_back();
        count.unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(decisions(&live), decisions(&again), "{live}\n{again}");
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
        let is_recording = wait_until(60, || !tracing_instances(pid).is_empty());
        assert!(is_recording, "it records");
        let device = iosched::emulate::list()
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
        assert!(wait_until(60, || disks_of(pid).is_empty()), "the disk went");
        assert!(
            wait_until(60, || processes_with(&format!("/dev/{device}")).is_empty()),
            "no process works on it"
        );
        iosched().arg("restore").assert().success();
        assert_eq!(tracing_instances(pid), Vec::<String>::new(), "{signal:?}");
    }
}

#[test]
fn what_cannot_be_compared_live_is_refused_by_name() {
    for (arguments, code, words) in [
        (&["--scheduler", "bfq"][..], 5, "bfq is not simulated yet"),
        (&["--scheduler", "cfq"], 5, "this kernel"),
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
