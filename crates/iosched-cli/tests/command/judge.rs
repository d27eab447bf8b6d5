//! `iosched judge` on results whose truth is known.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::{answer, text};

/// What fio 3 prints of a run: IOPS, p99, the least in half a second, when it ended.
fn fio(iops: f64, p99_us: u64, least: f64, ended_s: u64) -> Value {
    let mean = 8e9 / iops;
    let read = json!({
        "io_bytes": 409_600_000, "bw_bytes": iops * 4096.0, "iops": iops, "total_ios": 100_000,
        "runtime": 10_000, "iops_min": least, "lat_ns": {"max": 9e9, "mean": mean},
        "clat_ns": {"max": 9e9, "mean": mean, "percentile": {"50.000000": 100_000, "99.000000": p99_us * 1000}},
    });
    let none = json!({"io_bytes": 0, "bw_bytes": 0, "iops": 0.0, "total_ios": 0});
    json!({
        "fio version": "fio-3.42", "timestamp": ended_s,
        "jobs": [{
            "jobname": "j", "error": 0, "job_runtime": 10_000,
            "job options": {"rw": "randread", "bs": "4k", "iodepth": "8", "filename": "/mnt/x"},
            "read": read, "write": none,
        }],
        "disk_util": [{"name": "nvme0n1"}],
    })
}

/// Runs of `a` and `b` in this order, with the rate of each: by chance a little more or less than said.
fn runs(directory: &Path, order: &str, rate: impl Fn(char, usize) -> (f64, f64)) -> Vec<String> {
    let noise = [0.4, -0.7, 0.1, 0.9, -0.3, -0.5, 0.6, 0.2];
    let run = |(place, arm): (usize, char)| {
        let (iops, least) = rate(arm, place);
        let iops = iops * (1.0 + 0.004 * noise[place % noise.len()]);
        let path = directory.join(format!("{arm}{place}.json"));
        let result = fio(iops, 300, least, 1_700_000_000 + 20 * place as u64);
        std::fs::write(&path, result.to_string()).unwrap();
        format!("{arm}={}", path.display())
    };
    order.chars().enumerate().map(run).collect()
}

/// The exit code with `--exit-code`, and what is printed.
fn judged(results: &[String], more: &[&str]) -> (i32, String) {
    let results: Vec<&str> = results.iter().map(String::as_str).collect();
    let output = answer(&[&["judge", "--exit-code"], &results[..], more].concat());
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.code().unwrap(), said)
}

const MIXED: &str = "abbaabbabaab";

#[test]
fn a_word_fits_what_is_true() {
    type Rate = fn(char, usize) -> (f64, f64);
    let better: Rate = |arm, _| (if arm == 'b' { 11_000.0 } else { 10_000.0 }, 9000.0);
    let same: Rate = |_, _| (10_000.0, 9000.0);
    // Nothing but the disk's fatigue.
    let drift: Rate = |_, place| (10_000.0 - 300.0 * place as f64, 5000.0);
    // All runs have the same rate, but for the stalls that only runs of `a` had.
    let stalls: Rate = |arm, place| match (arm, place % 3) {
        ('a', 0) => (6000.0, 20.0),
        ('a', _) => (7000.0, 10.0),
        _ => (10_000.0, 9000.0),
    };
    for (order, rate, code, says) in [
        (MIXED, better, 0, "Answer: b is best, 1.10 ×"),
        (MIXED, same, 20, "Answer: a and b are equal"),
        ("abab", better, 22, "- each arm ran twice: too few"),
        (
            "aaaaaabbbbbb",
            drift,
            22,
            "- all runs of a, then all of b: a drift",
        ),
        (
            "abababababab",
            better,
            22,
            "- always a before b: what a run leaves",
        ),
        (MIXED, stalls, 22, "- 6 of 12 runs stalled"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let found = judged(&runs(directory.path(), order, rate), &[]);
        assert_eq!(found.0, code, "{order}: {}", found.1);
        assert!(found.1.contains(says), "{order}: {}", found.1);
        let is_not_shown = found.1.contains("Answer: not shown.");
        assert_eq!(is_not_shown, code == 22, "{}", found.1);
    }
}

#[test]
fn plain_json_has_percentiles_and_other_disks_and_options_are_doubts() {
    let directory = tempfile::tempdir().unwrap();
    let mut results = runs(directory.path(), MIXED, |_, _| (10_000.0, 9000.0));
    let path = directory.path().join("other.json");
    let mut other = fio(10_000.0, 300, 9000.0, 1_700_001_000);
    other["disk_util"][0]["name"] = json!("sda");
    other["jobs"][0]["job options"]["direct"] = json!("1");
    other["fio version"] = json!("fio-3.1");
    std::fs::write(&path, other.to_string()).unwrap();
    results.push(format!("b={}", path.display()));
    let (code, said) = judged(&results, &["--metric", "p99"]);
    for says in [
        "different disks: nvme0n1 / sda",
        "asked for different things: direct=1 / without",
        "Note:\n- the runs are of different programs: fio-3.1 / fio-3.42",
        "300 µs",
    ] {
        assert!(said.contains(says), "{says}: {said}");
    }
    assert_eq!(code, 22, "{said}");
    results.push(format!("a={}", path.display()));
    let (code, said) = judged(&results, &[]);
    assert!(code == 2 && said.contains("are the same run"), "{said}");
}

#[test]
fn values_of_rounds_are_pairs_and_other_programs_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    // Rounds differ more than arms do.
    let mut csv = "arm,round,value\n".to_owned();
    for round in 1..=6_u32 {
        let level = 100.0 * f64::from(round);
        let rows = [
            ("a", level),
            ("b", level * (1.09 + 0.004 * f64::from(round % 3))),
        ];
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for (arm, value) in order.map(|place| rows[place]) {
            writeln!(csv, "{arm},{round},{value:.3}").unwrap();
        }
    }
    let (code, said) = judged(&[write("v.csv", &csv)], &["--baseline", "a"]);
    assert!(
        code == 0 && said.contains("b is best, 1.09 ×") && said.contains("round by round"),
        "{said}"
    );
    let (code, said) = judged(
        &[write("v.csv", &csv)],
        &["--better", "lower", "--baseline", "a"],
    );
    assert!(code == 0 && said.contains("a is best"), "{said}");
    let report = |tps: f64| {
        format!(
            "transaction type: <builtin: TPC-B (sort of)>\nscaling factor: 10\nnumber of transactions actually processed: 9\n\
         tps = {tps:.6} (without initial connection time)\n"
        )
    };
    let both = |one: f64| {
        [0.0, 1.0, 0.5, 0.2, 0.7]
            .map(|more| report(one + more))
            .concat()
    };
    let results = [("n.txt", 100.0), ("k.txt", 120.0)]
        .map(|(name, tps)| format!("{name}={}", write(name, &both(tps))));
    let (code, said) = judged(&results, &[]);
    assert!(
        code == 0 && said.contains("k.txt is best, 1.20 ×"),
        "{said}"
    );
    assert!(said.contains("do not tell in which order"), "{said}");
    let result = |arm: &str, time: f64| json!({"command": "make", "parameters": {"s": arm}, "times": [time, time * 1.01, time * 0.99, time * 1.02, time]});
    let times = json!({"results": [result("none", 2.0), result("bfq", 3.0)]}).to_string();
    let (code, said) = judged(&[write("h.json", &times)], &[]);
    assert!(
        code == 22 && said.contains("all runs of none, then all of bfq"),
        "{said}"
    );
    assert!(said.contains("elapsed time"), "{said}");
    let (code, said) = judged(
        &[format!("none={}", write("x", "hello\n")), "b=y".into()],
        &[],
    );
    assert!(code == 2 && said.contains("holds no results"), "{said}");
}
