//! `iosched tune --load desktop`: a program that starts cold, and small reads, beside a copy or streams.
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
fn tune(bench: &Bench, load: &str, more: &[&str]) -> (String, Vec<Value>) {
    let before = (bench.mounted.disk.whole_queue(), bench.mounted.names());
    let more = [&["--load", load, "--no-html"], more].concat();
    let output = bench.tune(bench.mounted.path(), &more);
    let after = (bench.mounted.disk.whole_queue(), bench.mounted.names());
    assert_eq!(after, before);
    let said = lossy(&output.stdout) + &lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let lines = record(&bench.records.path().join("r")).into_iter();
    let trials: Vec<Value> = lines.filter(|line| line["type"] == "trial").collect();
    assert_eq!(trials.len(), 4);
    (said, trials)
}

fn moved(trial: &Value, name: &str) -> u64 {
    trial["measured"][name].as_u64().unwrap()
}

#[test]
fn a_trial_has_the_start_the_small_reads_and_the_copy() {
    let Some(bench) = bench() else { return };
    let (said, trials) = tune(&bench, SHORT, &[]);
    assert!(in_one_line(&said).contains("time to start a program (less is better)"));
    for word in ["time", "throughput", "p99"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    for trial in &trials {
        let metrics = &trial["metrics"];
        let numbers = &metrics["numbers"];
        for number in [
            &metrics["elapsed_s"],
            &metrics["read"]["p99_ns"],
            &numbers["slowest start s"],
            &numbers["copied MB/s"],
            // Its own small reads are a part of it: rates are those of the disk.
            &metrics["write_bytes_per_s"],
        ] {
            assert!(number.as_f64().unwrap() > 0.0, "{metrics}");
        }
    }
}

/// The streams of a trial go past the page cache, and each start reads the program from the disk again.
#[test]
fn streams_take_the_place_of_the_copy_and_every_start_is_cold() {
    let Some(bench) = bench() else { return };
    let load = "desktop:readers=1,writers=2,starts=3,seconds=1,size=4m";
    let (said, trials) = tune(&bench, load, &[]);
    assert!(!said.contains("copied"), "{said}");
    for trial in &trials {
        assert!(moved(trial, "read_bytes") > 3 * MIB, "{trial}");
        assert!(moved(trial, "write_bytes") > 4 * MIB, "{trial}");
    }
}

#[test]
fn it_runs_with_the_rights_of_another_user() {
    let Some(bench) = bench() else { return };
    let (uid, gid) = nobody();
    chown(&bench.mounted.at, Some(uid), Some(gid)).unwrap();
    tune(&bench, SHORT, &["--user", "nobody"]);
    bench.assert_private_is_untouched();
}

#[test]
fn where_it_cannot_run_it_is_refused_by_name_before_anything_is_touched() {
    let Some(bench) = bench() else { return };
    let disk = bench.mounted.disk.name.as_str();
    let at = bench.mounted.path();
    for (target, more, expected, words) in [
        (disk, ["--load", SHORT], 3, "load desktop needs a directory"),
        (at, ["--load", "desktop:size=1g"], 1, "no room in "),
        (
            at,
            ["--load", "desktop:start=1"],
            2,
            "desktop has no setting \"start\"",
        ),
        (
            at,
            ["--load=desktop", "--objective=tps"],
            2,
            "it makes no transactions",
        ),
    ] {
        let mut command = iosched();
        let output = command
            .args(["tune", "--dry-run", target])
            .args(more)
            .output();
        let output = output.unwrap();
        let said = lossy(&output.stderr);
        assert!(said.contains(words), "{more:?}: {said}");
        assert_eq!(output.status.code(), Some(expected), "{more:?}: {said}");
    }
}
