//! `iosched tune` and where requests spend their time: in the queue or at the disk, of each trial, with
//! nothing left behind in the kernel.

use crate::common::tuning::{record, small_disk, start, tune};
use crate::common::{can_emulate, can_trace, has_fio, iosched};
use serde_json::Value;

/// An emulated disk that takes 1 ms for each command, one at a time; removed when dropped.
struct SlowDisk(String);

impl SlowDisk {
    fn new() -> SlowDisk {
        let output = iosched().args(["emulate", "create", "fixed"]).output();
        let device = String::from_utf8(output.unwrap().stdout).unwrap();
        SlowDisk(device.trim().trim_start_matches("/dev/").to_owned())
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        let _ = iosched().args(["emulate", "remove", &self.0]).output();
    }
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn each_trial_has_the_time_of_its_requests_in_the_queue_and_at_the_disk() {
    if !can_emulate() || !has_fio() || !can_trace() {
        return;
    }
    let disk = SlowDisk::new();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let run = [
        &disk.0,
        "--arms",
        "none,mq-deadline",
        "--fixed-rounds",
        "2",
        "--runtime",
        "1s",
    ];
    let output = start(&run, &out).wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = record(&out);
    let arms = &lines[0]["plan"]["arms"];
    let trials: Vec<&Value> = lines.iter().filter(|l| l["type"] == "trial").collect();
    assert_eq!(trials.len(), 4);
    for trial in trials {
        let measured = &trial["measured"];
        let read = &measured["split"]["read"];
        assert!(measured["split"]["write"].is_null(), "{measured}");
        let queue = number(&read["queue_sum_ns"]);
        let service = number(&read["service_sum_ns"]);
        assert!(service > 0.0, "{measured}");
        let bins = |name: &str| -> u64 {
            let bins = read[name].as_array().unwrap().iter();
            bins.map(|bin| bin[1].as_u64().unwrap()).sum()
        };
        assert_eq!(Some(bins("queue_bins")), read["requests"].as_u64());
        assert_eq!(Some(bins("service_bins")), read["requests"].as_u64());
        if arms[usize::try_from(trial["arm"].as_u64().unwrap()).unwrap()]["scheduler"] == "none" {
            // It has no queue: a request is issued where it was inserted, unless the device takes no more.
            assert!(queue >= 0.0, "{measured}");
        } else {
            assert!(queue > 0.0, "{measured}");
        }
    }
    // Where other programs read the disk meanwhile, an access is no longer a request.
    let is_known = (0..2).all(|arm| {
        let of_arm = lines
            .iter()
            .filter(|l| l["type"] == "trial" && l["arm"] == arm);
        let sums = of_arm.map(|trial| {
            let jobs = trial["jobs"].as_array().unwrap().iter();
            let accesses: f64 = jobs.map(|job| number(&job["read"]["ios"])).sum();
            [number(&trial["measured"]["reads"]), accesses]
        });
        let [requests, accesses] =
            sums.fold([0.0; 2], |all, one| [all[0] + one[0], all[1] + one[1]]);
        (0.95..=1.05).contains(&(requests / accesses))
    });
    let head = ["read: queue + disk", "read: before + queue + disk"][usize::from(is_known)];
    let report = |option: &str| {
        let output = iosched().arg("report").arg(&out).arg(option).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let details = report("--details");
    assert!(details.contains(head), "{details}");
    let rows = |metric: &str| report("--csv").matches(metric).count();
    assert_eq!(rows(",,read_queue_p99,ns,"), 4);
    assert_eq!(rows(",,read_service_mean,ns,"), 4);
    assert!(report("--md").contains(&format!("| {head} |")));
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("Where a request spends its time"));
}

#[test]
fn without_tracing_the_page_says_so_and_shows_the_whole() {
    let Some(disk) = small_disk() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let (code, _, stderr) = tune(&disk.name, &out, &["--no-split"]);
    assert_eq!(code, 0, "{stderr}");
    let trials = record(&out);
    assert!(
        trials
            .iter()
            .all(|line| line["measured"]["split"].is_null())
    );
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(!page.contains("Where a request spends its time"));
    assert!(page.contains("are not told apart: no tracing was asked for"));
}
