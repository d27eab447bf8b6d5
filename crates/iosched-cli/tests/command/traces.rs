//! `iosched simulate --trace` as a user calls it.
use std::fmt::Write;

use crate::common::{answer, text};
use serde_json::Value;

/// `simulate --json` on the fixed disk under noop.
fn simulate(arguments: &[&str]) -> Value {
    let common = [
        "simulate",
        "--json",
        "--scheduler",
        "noop",
        "--disk",
        "fixed",
    ];
    let output = answer(&[&common, arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn fails(arguments: &[&str], code: i32, messages: &[&str]) {
    let output = answer(&[&["simulate"], arguments].concat());
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    for message in messages {
        assert!(stderr.contains(message), "{arguments:?}: {stderr}");
    }
    assert_eq!(stderr.matches("error:").count(), 1, "{stderr}");
}

fn write(directory: &tempfile::TempDir, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = directory.path().join(name);
    std::fs::write(&path, content).unwrap();
    path.display().to_string()
}

/// MSR lines: a read of 4 KiB each millisecond, answered after half of one.
fn msr(count: u64, disk: u64) -> String {
    let mut text = String::new();
    for index in 0..count {
        let time = 128_166_372_000_000_000 + index * 10_000;
        let offset = index * 7919 % 1000 * 4096;
        writeln!(text, "{time},web,{disk},Read,{offset},4096,5000").unwrap();
    }
    text
}

#[test]
fn accesses_keep_their_times_or_their_pauses() {
    let directory = tempfile::tempdir().unwrap();
    let trace = write(&directory, "web_0.csv", msr(1001, 0));
    let open = simulate(&["--trace", &trace]);
    assert_eq!(open["trace"]["format"], "msr");
    assert_eq!(open["trace"]["accesses"], 1001);
    assert_eq!(open["trace"]["mode"], "open");
    let run = &open["runs"][0];
    assert_eq!(run["processes"][0]["name"], "web.0");
    let seconds = |run: &Value| run["elapsed_ns"].as_f64().unwrap() / 1e9;
    // 1001 accesses of 1.005 ms, one per millisecond: the disk falls behind a little.
    assert!((seconds(run) - 1.006).abs() < 1e-3, "{run}");
    let fast = simulate(&["--trace", &trace, "--speed", "0.5"]);
    assert!((seconds(&fast["runs"][0]) - 2.001).abs() < 1e-3);
    // Half a millisecond of pause after each.
    let closed = simulate(&["--trace", &trace, "--closed"]);
    assert_eq!(closed["trace"]["mode"], "closed");
    assert!(
        (seconds(&closed["runs"][0]) - 1.505).abs() < 2e-3,
        "{closed}"
    );
    let short = simulate(&["--trace", &trace, "--until", "0.1"]);
    assert!((90..=101).contains(&short["runs"][0]["total"]["accesses"].as_u64().unwrap()));
}

#[test]
fn what_is_written_with_events_is_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let load = write(
        &directory,
        "load.fio",
        "[global]\nsize=1m\n[a]\nrw=randwrite\ndirect=1\nioengine=libaio\nprio=2\n[b]\nrw=read\ndirect=1\nioengine=libaio\n",
    );
    let events = directory.path().join("events").display().to_string();
    let first = simulate(&["--load", &load, "--events", &events]);
    let packed = |name: &str, tool: &str| {
        let path = directory.path().join(name);
        let out = std::process::Command::new(tool)
            .args(["-c", &events])
            .output();
        std::fs::write(&path, out.unwrap().stdout).unwrap();
        path.display().to_string()
    };
    for trace in [events.clone(), packed("packed.gz", "gzip")] {
        let again = simulate(&["--trace", &trace, "--closed"]);
        assert_eq!(again["trace"]["format"], "events");
        for process in [0, 1] {
            let of =
                |result: &Value, key: &str| result["runs"][0]["processes"][process][key].clone();
            assert_eq!(of(&again, "name"), of(&first, "name"));
            assert_eq!(of(&again, "latency"), of(&first, "latency"));
        }
    }
}

#[test]
fn devices_are_chosen_or_laid_out_one_after_the_other() {
    let directory = tempfile::tempdir().unwrap();
    let trace = write(&directory, "two.csv", msr(100, 0) + &msr(50, 1));
    let common = ["--trace", &trace];
    fails(
        &common,
        2,
        &[
            "two.csv is of 2 devices: web.0, web.1",
            "hint: `--trace-device NAME`",
        ],
    );
    let one = simulate(&["--trace", &trace, "--trace-device", "web.1"]);
    assert_eq!(one["trace"]["accesses"], 50);
    assert_eq!(one["trace"]["other_devices"], 100);
    let all = simulate(&["--trace", &trace, "--trace-device", "all"]);
    assert_eq!(all["runs"][0]["total"]["accesses"], 150);
    assert_eq!(all["runs"][0]["processes"].as_array().unwrap().len(), 2);
    fails(
        &["--trace", &trace, "--trace-device", "web.7"],
        2,
        &["has no accesses on a device `web.7`; it has: web.0, web.1"],
    );
}

#[test]
fn what_lies_beyond_the_disk_is_refused_or_folded_back() {
    let directory = tempfile::tempdir().unwrap();
    let far = "fio version 3 iolog\n0 f read 21474836480 4096\n100000 f write 4096 4096\n";
    let trace = write(&directory, "far.log", far);
    let arguments = ["--disk", "fixed", "--trace", &trace];
    fails(
        &arguments,
        2,
        &[
            "far.log reaches to 20.0 GiB, and the disk ends at 16 GiB",
            "`--size 21G`",
            "`--wrap`",
        ],
    );
    for way in [&["--size", "21G"][..], &["--wrap"]] {
        let result = simulate(&[&["--trace", &trace], way].concat());
        assert_eq!(result["runs"][0]["total"]["accesses"], 2);
    }
}

#[test]
fn a_trace_far_shorter_than_the_disk_says_so_and_the_hint_can_be_typed() {
    let directory = tempfile::tempdir().unwrap();
    let trace = write(&directory, "web_0.csv", msr(10, 0));
    let common = ["simulate", "--scheduler", "noop", "--trace", &trace];
    let said = text(&answer(&common).stdout);
    assert!(said.contains("far below the disk's end"), "{said}");
    let hinted = answer(&[&common[..], &["--size", "1G"]].concat());
    let said = text(&hinted.stdout);
    assert!(
        hinted.status.success() && !said.contains("far below"),
        "{said}"
    );
}

#[test]
fn a_trace_longer_than_the_model_can_be_names_a_disk_that_is_long_enough() {
    let directory = tempfile::tempdir().unwrap();
    let far = "fio version 3 iolog\n0 f read 14000000000000 4096\n";
    let trace = write(&directory, "far.log", far);
    let disk = ["--disk", "hdd-7200", "--trace", &trace];
    fails(
        &disk,
        2,
        &["`--disk hdd-16tb --size 13039G` is large enough"],
    );
    let hinted = ["--trace", &trace, "--disk", "hdd-16tb", "--size", "13039G"];
    let output = answer(&[&["simulate", "--scheduler", "noop"], &hinted[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn two_traces_are_reported_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let before = write(&directory, "before.csv", msr(101, 0));
    let after = write(
        &directory,
        "after.csv",
        msr(101, 0).replace("5000\n", "20000\n"),
    );
    let said = text(&answer(&["report", &before, &after]).stdout);
    let cells = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let rows: Vec<_> = said
        .lines()
        .filter(|line| line.starts_with("read"))
        .map(cells)
        .collect();
    let means: Vec<(&str, &str)> = rows.iter().map(|row| (&*row[1], &*row[7])).collect();
    assert_eq!(
        means,
        [("before.csv", "0.500"), ("after.csv", "2.000")],
        "{said}"
    );
    let output = answer(&["report", "--json", &after]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["traces"][0]["read"]["latency"]["p99_ns"], 2_000_000);
    let directory = directory.path().display().to_string();
    let output = answer(&["report", &before, &directory]);
    assert!(text(&output.stderr).contains("is a directory, and others are traces"));
}

#[test]
fn what_cannot_be_replayed_is_said_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let fio = "fio version 3 iolog\n0 f read 0 512\n";
    let ages = format!("{fio}17000000000000000 f read 0 512\n");
    for (name, content, option, says) in [
        (
            "damaged.csv",
            msr(3, 0) + "oops\n",
            "--wrap",
            "line 4: 1 columns",
        ),
        (
            "unknown",
            "hello 1\n".into(),
            "--wrap",
            "begins with `hello 1`",
        ),
        (
            "a.log",
            fio.into(),
            "--closed",
            "when accesses were answered",
        ),
        ("empty", String::new(), "--wrap", "holds no access"),
        ("ages.log", ages, "--wrap", "lasts 539 years"),
    ] {
        let trace = write(&directory, name, content);
        fails(&["--trace", &trace, option], 2, &[says]);
    }
    fails(&["--trace", "/proc/nonexistent"], 3, &["cannot open"]);
    fails(&["--trace", "/dev/null"], 2, &["is no file"]);
}
