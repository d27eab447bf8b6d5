//! `iosched tune --load desktop`: starts, a video, a package, a browser and small reads beside a copy.
use std::os::unix::fs::chown;

use serde_json::Value;

use crate::common::bench::{Bench, nobody};
use crate::common::tuning::{MIB, record};
use crate::common::{Mounted, can_use_loop_devices, in_one_line, iosched, lossy};

/// As short as it can be: files that a second is enough for.
const SHORT: &str = "desktop:starts=1,seconds=1,size=4m";

fn bench() -> Option<Bench> {
    can_use_loop_devices().then(|| Bench::on(Mounted::new(256 * MIB)))
}

/// Two rounds of two arms; whatever happens, the disk and its file system are as before.
fn tune(bench: &Bench, more: &[&str]) -> (Option<i32>, String, Vec<Value>) {
    let before = (bench.mounted.disk.whole_queue(), bench.mounted.names());
    let more = [&["--load", SHORT, "--no-html"], more].concat();
    let output = bench.tune(bench.mounted.path(), &more);
    let after = (bench.mounted.disk.whole_queue(), bench.mounted.names());
    assert_eq!(after, before);
    let said = lossy(&output.stdout) + &lossy(&output.stderr);
    let lines = match output.status.code() {
        Some(0) => record(&bench.records.path().join("r")),
        _ => Vec::new(),
    };
    let trials = lines.into_iter().filter(|line| line["type"] == "trial");
    (output.status.code(), said, trials.collect())
}

#[test]
fn a_trial_has_a_number_for_each_part_of_a_desktop() {
    let Some(bench) = bench() else { return };
    let (code, said, trials) = tune(&bench, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(in_one_line(&said).contains("elapsed time (less is better)"));
    for word in [
        "time s",
        "frames in time %",
        "dropped frames %",
        "copied MB/s",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert_eq!(trials.len(), 4);
    for trial in &trials {
        let metrics = &trial["metrics"];
        let number = |name: &str| metrics["numbers"][name].as_f64().unwrap();
        let (shown, dropped) = (number("frames in time %"), number("dropped frames %"));
        assert!(shown > 0.0 && dropped >= 0.0, "{metrics}");
        assert!((shown + dropped - 100.0).abs() < 1e-6, "{metrics}");
        assert!(metrics["elapsed_s"].as_f64().unwrap() > 0.0, "{metrics}");
        assert!(
            metrics["read"]["p99_ns"].as_f64().unwrap() > 0.0,
            "{metrics}"
        );
        for name in ["slowest start s", "browser's commit ms", "files unpacked/s"] {
            assert!(number(name) > 0.0, "{name}: {metrics}");
        }
        // Its own small reads are a part of it: rates are those of the disk.
        let measured = |name: &str| trial["measured"][name].as_u64().unwrap();
        assert!(measured("read_bytes") > 0 && measured("write_bytes") > 0);
        let rate = metrics["write_bytes_per_s"].as_f64().unwrap();
        assert!(rate > 0.0, "{metrics}");
    }
}

#[test]
fn frames_and_small_reads_decide_where_they_are_asked_for() {
    let Some(bench) = bench() else { return };
    let (code, said, _) = tune(&bench, &["--objective", "frames"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(in_one_line(&said).contains(": frames in time, "), "{said}");
    let planned = |arguments: &[&str]| {
        let mut command = iosched();
        command.args(["tune", bench.mounted.path(), "--dry-run", "--file-size=4m"]);
        let output = command.args(arguments).output().unwrap();
        (
            output.status.code(),
            lossy(&output.stdout) + &lossy(&output.stderr),
        )
    };
    let (code, said) = planned(&["--load", SHORT, "--objective", "read-p99"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("decided by p99 read latency"), "{said}");
    let (code, said) = planned(&["--load", SHORT, "--objective", "tps"]);
    assert_eq!(code, Some(2), "{said}");
    let (code, said) = planned(&["--load", "random-read", "--objective", "frames"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("it shows no video"), "{said}");
}

#[test]
fn it_runs_with_the_rights_of_another_user() {
    let Some(bench) = bench() else { return };
    let (uid, gid) = nobody();
    chown(&bench.mounted.at, Some(uid), Some(gid)).unwrap();
    let (code, said, trials) = tune(&bench, &["--user", "nobody"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(trials.len(), 4);
    bench.assert_private_is_untouched();
}

#[test]
fn where_it_cannot_run_it_is_refused_by_name_before_anything_is_touched() {
    let Some(bench) = bench() else { return };
    let refused = |arguments: &[&str]| {
        let mut command = iosched();
        let output = command.args(["tune", "--dry-run"]).args(arguments).output();
        let output = output.unwrap();
        (output.status.code(), lossy(&output.stderr))
    };
    let disk = bench.mounted.disk.name.as_str();
    for (arguments, expected, words) in [
        (
            vec![disk, "--load", SHORT],
            3,
            "load desktop needs a directory",
        ),
        (
            vec![bench.mounted.path(), "--load", "desktop"],
            1,
            "no room in ",
        ),
        (
            vec![bench.mounted.path(), "--load", "desktop:start=1"],
            2,
            "desktop has no setting \"start\"",
        ),
    ] {
        let (code, said) = refused(&arguments);
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert_eq!(code, Some(expected), "{arguments:?}: {said}");
    }
}
