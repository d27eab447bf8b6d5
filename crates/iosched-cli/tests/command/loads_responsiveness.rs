//! `iosched tune --load responsiveness`: a program that starts cold beside streams.
use std::fs;

use serde_json::Value;

use crate::common::tuning::{MIB, SHORTEST};
use crate::common::{Mounted, can_use_loop_devices, has_fio, iosched, processes_with};

/// How a run ended.
struct Ended {
    code: i32,
    said: String,
    trials: Vec<Value>,
}

/// Two rounds of two arms; whatever happens, the disk and its file system are as before.
fn tune(mounted: &Mounted, settings: &str) -> Ended {
    let records = tempfile::tempdir().unwrap();
    let record = records.path().join("r");
    let before = (mounted.disk.whole_queue(), mounted.names());
    let output = iosched()
        .args(["tune", mounted.path(), "--load"])
        .arg(format!("responsiveness:{settings}"))
        .args(
            SHORTEST
                .iter()
                .filter(|&&it| it != "--runtime" && it != "50ms"),
        )
        .arg("--out")
        .arg(&record)
        .output()
        .unwrap();
    assert_eq!((mounted.disk.whole_queue(), mounted.names()), before);
    let below = format!("directory={}", mounted.path());
    assert!(processes_with(&below).is_empty(), "a stream goes on");
    let lines = fs::read_to_string(record.join("record.jsonl")).unwrap_or_default();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    Ended {
        code: output.status.code().unwrap_or(-1),
        said: format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
        trials: lines
            .filter(|line: &Value| line["type"] == "trial")
            .collect(),
    }
}

fn bench() -> Option<Mounted> {
    (can_use_loop_devices() && has_fio()).then(|| Mounted::new(256 * MIB))
}

/// Nothing else reads from that disk: what is read is the program, at every start.
#[test]
fn every_start_reads_the_program_from_the_disk_again() {
    let Some(mounted) = bench() else { return };
    let read = |starts: u32| {
        let ended = tune(&mounted, &format!("readers=0,starts={starts}"));
        assert_eq!(ended.code, 0, "{}", ended.said);
        assert!(ended.said.contains("time s"), "{}", ended.said);
        assert_eq!(ended.trials.len(), 4);
        let bytes = ended.trials.iter().map(|trial| {
            assert!(trial["metrics"]["elapsed_s"].as_f64().unwrap() > 0.0);
            trial["measured"]["read_bytes"].as_u64().unwrap()
        });
        bytes.min().unwrap()
    };
    let (one, four) = (read(1), read(4));
    assert!(one > MIB, "{one} bytes: it was in memory");
    assert!(four > 3 * one, "{four} bytes by four starts, {one} by one");
}

#[test]
fn streams_run_beside_it_and_end_with_it() {
    let Some(mounted) = bench() else { return };
    let streams = "readers=1,random-readers=1,writers=1,random-writers=1,size=4m,starts=1";
    // The program ends once the streams have written 128 KiB, however long fio takes to begin.
    let written = format!("set -- $(cat /sys/block/{}/stat)", mounted.disk.name);
    let program = format!(
        "sh -c '{written}; end=$(($7 + 256)); until [ $7 -ge $end ]; do sleep 0.1; {written}; done'"
    );
    let ended = tune(&mounted, &format!("{streams},command={program}"));
    assert_eq!(ended.code, 0, "{}", ended.said);
    for trial in &ended.trials {
        let written = trial["measured"]["write_bytes"].as_u64().unwrap();
        assert!(written > 0, "{trial}");
    }
}

#[test]
fn a_program_that_fails_is_told_with_its_words() {
    let Some(mounted) = bench() else { return };
    let ended = tune(
        &mounted,
        "readers=1,size=4m,command=sh -c 'echo no such font >&2; exit 3'",
    );
    assert_eq!(ended.code, 13, "{}", ended.said);
    assert!(
        ended.said.contains("exit code 3: no such font"),
        "{}",
        ended.said
    );
}
