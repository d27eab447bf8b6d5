//! The loads that come as several: the sweep with its log, the document server with its control, the
//! database server's four, and fairness. Real fio on a loop device, in small.
use std::fs;

use crate::common::tuning::MIB;
use crate::common::{Mounted, can_use_loop_devices, has_fio, in_one_line, iosched};

/// Runs two rounds of two arms under a load and returns what it printed and the record's directory.
fn tune(load: &str, more: &[&str]) -> Option<(String, tempfile::TempDir)> {
    if !can_use_loop_devices() || !has_fio() {
        return None;
    }
    let mounted = Mounted::new(256 * MIB);
    let records = tempfile::tempdir().unwrap();
    let output = iosched()
        .args(["tune", mounted.path(), "--load", load])
        .args([
            "--arms",
            "none,mq-deadline",
            "--fixed-rounds",
            "2",
            "--steady",
            "off",
        ])
        .arg("--out")
        .arg(records.path().join("r"))
        .args(more)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert_eq!(mounted.names(), Vec::<String>::new());
    assert_eq!(mounted.disk.scheduler(), "none");
    Some((String::from_utf8(output.stdout).unwrap(), records))
}

fn report(records: &tempfile::TempDir, form: &str) -> String {
    let output = iosched()
        .arg("report")
        .arg(records.path().join("r"))
        .arg(form)
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn trials(records: &tempfile::TempDir) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(records.path().join("r/record.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter(|line: &serde_json::Value| line["type"] == "trial")
        .collect()
}

/// Trials, verdict, charts, and what each thread did.
#[test]
fn the_sweep_ends_with_a_verdict() {
    let tests = FIVE;
    let load = "five-tests:size=16m,record=1m,threads=2";
    let Some((stdout, records)) = tune(load, &[]) else {
        return;
    };
    assert!(stdout.contains("Answer: "), "{stdout}");
    let all = trials(&records).len();
    assert_eq!(all, tests.len() * 2 * 2, "tests × arms × runs");
    for trial in trials(&records) {
        let jobs = trial["jobs"].as_array().unwrap();
        assert_eq!(jobs.len(), 2);
        let bytes = |job: &serde_json::Value, flow: &str| job[flow]["bytes"].as_u64().unwrap_or(0);
        let moved = jobs
            .iter()
            .map(|job| bytes(job, "read") + bytes(job, "write"));
        assert_eq!(
            moved.max(),
            Some(16 * MIB),
            "the first to be ready is through its file"
        );
        let load = usize::try_from(trial["load"].as_u64().unwrap()).unwrap();
        let reads = match tests[load] {
            "Random read" => [true, true],
            "Mixed workload" => [true, false],
            _ => [false, false],
        };
        for (job, reads) in jobs.iter().zip(reads) {
            // The other one may not have begun when the first was through.
            let wrong_way = bytes(job, if reads { "write" } else { "read" });
            assert_eq!(wrong_way, 0, "{trial}");
        }
    }
    let charts = tempfile::tempdir().unwrap();
    let made = iosched()
        .arg("report")
        .arg(records.path().join("r"))
        .arg("--svg")
        .arg(charts.path())
        .output();
    assert!(made.unwrap().status.success());
    for test in tests.map(|test| test.to_lowercase().replace(' ', "-")) {
        let name = format!("throughput-{test}.svg");
        let chart = fs::read_to_string(charts.path().join(&name)).expect(&name);
        assert!(chart.contains("mq-deadline"), "{chart}");
    }
}

/// The tests of the sweep.
const FIVE: [&str; 5] = [
    "Initial write",
    "Rewrite",
    "Random read",
    "Mixed workload",
    "Random write",
];

#[test]
fn cold_documents_come_from_the_disk_and_those_of_the_control_do_not() {
    let load = "documents-read:threads=4,documents=200";
    let Some((stdout, records)) = tune(load, &[]) else {
        return;
    };
    assert!(stdout.contains("The control documents-read-cached, which no scheduler can change,"));
    let analysis: serde_json::Value = serde_json::from_str(&report(&records, "--json")).unwrap();
    let finding = analysis["loads"][1]["control"]["finding"].as_str();
    assert!(
        matches!(finding, Some("equal" | "not-proven" | "differs")),
        "{finding:?}: {stdout}"
    );
    for trial in trials(&records) {
        let read = trial["measured"]["read_bytes"].as_u64().unwrap();
        let seen = trial["jobs"][0]["read"]["ios"].as_u64().unwrap();
        if trial["load"] == 0 {
            assert_eq!(seen, 200, "every document once");
            assert!(read >= 4 * 200 * 4096, "{read}");
        } else {
            assert_eq!(seen, 200_000 / 4, "so many that a median means something");
            // Of its accesses at most those miss whose pages somebody else made the kernel drop.
            assert!(
                read < 200_000 * 4096 / 2,
                "{read} bytes were read from the disk"
            );
        }
        assert!(trial["metrics"]["elapsed_s"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn documents_are_created_anew_in_every_trial() {
    let load = "documents-create:threads=3,documents=200";
    let Some((stdout, records)) = tune(load, &[]) else {
        return;
    };
    assert!(stdout.contains("elapsed time (less"), "{stdout}");
    for trial in trials(&records) {
        let jobs = trial["jobs"].as_array().unwrap();
        assert_eq!(jobs.len(), 3);
        assert!(jobs.iter().all(|job| job["write"]["ios"] == 200));
    }
}

#[test]
fn the_database_server_has_four_loads() {
    let more = ["--runtime", "500ms", "--file-size", "4M"];
    let Some((_, records)) = tune("database", &more) else {
        return;
    };
    let csv = report(&records, "--csv");
    for load in ["database:1", "database:2", "database:3", "database:4"] {
        assert!(csv.contains(&format!(",{load},none,")), "{csv}");
    }
}

#[test]
fn fairness_is_jains_index_over_its_workers() {
    let more = ["--runtime", "300ms", "--file-size", "8M"];
    let Some((_, records)) = tune("fairness", &more) else {
        return;
    };
    let stdout = report(&records, "--details");
    assert!(
        in_one_line(&stdout).contains("fairness between jobs"),
        "{stdout}"
    );
    for row in [
        "light-reader",
        "stream-writer",
        "smallest share",
        "largest share",
    ] {
        let line = stdout.lines().find(|line| line.starts_with(row));
        let shares = line
            .unwrap_or_else(|| panic!("no {row}: {stdout}"))
            .matches('%');
        assert_eq!(shares.count(), 2, "one for each arm: {stdout}");
    }
    let analysis: serde_json::Value = serde_json::from_str(&report(&records, "--json")).unwrap();
    let arm = &analysis["loads"][0]["arms"][0];
    let (smallest, largest) = (&arm["smallest_share"], &arm["largest_share"]);
    assert!(
        smallest.as_f64().unwrap() <= 0.2 && largest.as_f64().unwrap() >= 0.2,
        "{arm}"
    );
    assert_eq!(arm["workers"][0]["name"], "light-reader");
    assert!(
        arm["workers"][0]["latency_p99_ns"].as_f64().unwrap() > 0.0,
        "{arm}"
    );
    for trial in trials(&records) {
        let index = trial["metrics"]["fairness"].as_f64().unwrap();
        assert!((0.199_999..=1.0).contains(&index), "{index}: five workers");
    }
}
