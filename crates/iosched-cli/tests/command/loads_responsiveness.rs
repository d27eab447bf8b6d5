//! `iosched tune --load responsiveness`: a program that starts cold beside streams.
use std::fs;

use serde_json::Value;

use crate::common::tuning::{MIB, SHORTEST};
use crate::common::{Mounted, can_use_loop_devices, has_fio, iosched, processes_with, stand_in};

/// How a run ended.
struct Ended {
    code: i32,
    said: String,
    trials: Vec<Value>,
}

/// Two rounds of two arms; whatever happens, the disk and its file system are as before.
fn tune(mounted: &Mounted, settings: &str) -> Ended {
    tune_with(mounted, settings, |command| command)
}

/// The same, called otherwise.
fn tune_with(
    mounted: &Mounted,
    settings: &str,
    otherwise: impl FnOnce(&mut assert_cmd::Command) -> &mut assert_cmd::Command,
) -> Ended {
    let records = tempfile::tempdir().unwrap();
    let record = records.path().join("r");
    let before = (mounted.disk.whole_queue(), mounted.names());
    let mut command = iosched();
    command
        .args(["tune", mounted.path(), "--load"])
        .arg(format!("responsiveness:{settings}"))
        .args(
            SHORTEST
                .iter()
                .filter(|&&it| it != "--runtime" && it != "50ms"),
        )
        .arg("--out")
        .arg(&record);
    let output = otherwise(&mut command).output().unwrap();
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

/// An fio that is long in coming, as it is on a machine without a processor to spare.
#[test]
fn no_start_is_timed_before_the_streams_have_begun() {
    let Some(mounted) = bench() else { return };
    let programs = tempfile::tempdir().unwrap();
    for starts in ["exec fio", "fio"] {
        let script = format!("#!/bin/sh\n[ \"$1\" = --version ] || sleep 1\n{starts} \"$@\"\n");
        let fio = stand_in(programs.path(), "fio", &script);
        let settings = "writers=2,random-readers=1,size=1m,settle=0s,starts=1,command=true";
        let ended = tune_with(&mounted, settings, |command| command.arg("--fio").arg(&fio));
        assert_eq!(ended.code, 0, "{}", ended.said);
        for trial in &ended.trials {
            for bytes in ["read_bytes", "write_bytes"] {
                assert!(trial["measured"][bytes].as_u64().unwrap() > 0, "{trial}");
            }
        }
    }
}

#[test]
fn streams_that_never_begin_are_no_trial() {
    let Some(mounted) = bench() else { return };
    let programs = tempfile::tempdir().unwrap();
    // The files are written; then nothing happens.
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && exec fio \"$@\"\njob=$(cat)\n\
                  case $job in *create_only*) ;; *) exec sleep 1000;; esac\nprintf '%s\\n' \"$job\" | fio \"$@\"\n";
    let fio = stand_in(programs.path(), "fio", script);
    let settings = "readers=2,size=1m,settle=0s,starts=1,command=true";
    let ended = tune_with(&mounted, settings, |command| {
        command.arg("--fio").arg(&fio).args(["--timeout", "1s"])
    });
    assert_eq!(ended.code, 13, "{}", ended.said);
    let words = "of 2 streams 0 had begun after 1 s";
    assert!(ended.said.contains(words), "{}", ended.said);
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
