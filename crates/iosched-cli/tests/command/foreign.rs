//! What others wrote or named: no control character of it reaches the terminal, no size of it takes the memory or the
//! disk, and no value of it ends the command otherwise than with an error.
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common;
use crate::common::machine::Machine;
use crate::common::tuning::{MIB, tune};
use crate::common::{Mounted, answer, can_use_loop_devices, has_fio, text};

/// Sets the title of the window, colours, goes up a line, turns the order of letters round.
const EVIL: &str = "ev\u{1b}]0;owned\u{7}il\u{1b}[31m\r\u{9b}1A\u{202e}";

/// Fails if something but text is in it.
fn assert_plain(what: &str, printed: &[u8]) {
    let printed = text(printed);
    common::assert_plain(what, &printed);
    assert!(printed.contains("ev"), "{what} does not name it: {printed}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The example record with our text wherever one is.
fn evil_record(directory: &Path, evil: &str) -> PathBuf {
    let example = fs::read_to_string(root().join("docs/example-record/record.jsonl")).unwrap();
    let mut lines: Vec<Value> = example
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let header = &mut lines[0];
    header["command"] = json!(["iosched", evil]);
    header["program"] = evil.into();
    let machine = &mut header["machine"];
    machine["hostname"] = evil.into();
    machine["kernel"] = evil.into();
    machine["disks"][0]["model"] = evil.into();
    header["plan"]["loads"][0]["name"] = evil.into();
    header["plan"]["loads"][0]["note"] = evil.into();
    header["plan"]["arms"][1]["scheduler"] = evil.into();
    for line in &mut lines[1..] {
        for job in line["jobs"].as_array_mut().into_iter().flatten() {
            job["name"] = evil.into();
        }
    }
    let record = directory.join("record");
    fs::create_dir(&record).unwrap();
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs::write(record.join("record.jsonl"), lines.join("\n") + "\n").unwrap();
    record
}

#[test]
fn no_control_character_of_a_record_is_printed() {
    let directory = tempfile::tempdir().unwrap();
    let record = evil_record(directory.path(), EVIL);
    let record = record.to_str().unwrap();
    for form in [&[][..], &["--md"], &["--csv"], &["--json"]] {
        let output = answer(&[&["report", record], form].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_plain(&format!("{form:?}"), &output.stdout);
    }
    let page = directory.path().join("page.html");
    let charts = directory.path().join("charts");
    let (page_path, charts_path) = (page.to_str().unwrap(), charts.to_str().unwrap());
    answer(&["report", record, "--html", page_path, "--svg", charts_path]);
    assert_plain("page", &fs::read(page).unwrap());
    assert_plain("chart", &fs::read(charts.join("ratio.svg")).unwrap());
}

#[test]
fn no_control_character_of_a_machine_a_process_or_a_journal_is_printed() {
    let directory = tempfile::tempdir().unwrap();
    let machine = Machine::copied("workstation");
    let model = "sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/model";
    machine.write(model, EVIL);
    let machine = machine.root().to_str().unwrap();
    assert_plain("list", &answer(&["list", "--root", machine]).stdout);
    let json = answer(&["list", "--root", machine, "--json"]).stdout;
    assert_plain("list --json", &json);
    assert!(text(&json).contains("\\u202e"), "JSON says what it is");

    // A process of a simulated load, and the same in the recording of it.
    let job = directory.path().join("evil.fio");
    fs::write(
        &job,
        format!("[{EVIL}]\nrw=randread\ndirect=1\nioengine=libaio\n"),
    )
    .unwrap();
    let events = directory.path().join("events");
    let simulation = ["simulate", "--until", "1", "--scheduler", "noop", "--load"];
    let files = [job.to_str().unwrap(), "--events", events.to_str().unwrap()];
    let simulated = answer(&[&simulation[..], &files].concat());
    for output in [&simulated.stdout, &simulated.stderr] {
        assert!(
            !text(output).contains(['\u{1b}', '\u{202e}']),
            "{}",
            text(output)
        );
    }

    // What a killed run left, with its command.
    if !iosched_testing::is_root() {
        return;
    }
    let journal = Path::new("/var/lib/iosched/journal");
    fs::create_dir_all(journal).unwrap();
    let entry = json!({"schema": 1, "command": EVIL, "owner": {"pid": 1, "start_ticks": 1}, "boot_id": "none",
        "disks": [], "directories": []});
    fs::write(journal.join("1-00000001.json"), entry.to_string()).unwrap();
    assert_plain("restore", &answer(&["restore"]).stdout);
}

#[test]
fn what_is_wrong_in_a_record_is_one_error_with_file_line_and_field() {
    let directory = tempfile::tempdir().unwrap();
    let example = fs::read_to_string(root().join("docs/example-record/record.jsonl")).unwrap();
    let path = directory.path().join("record.jsonl");
    for (from, to, words) in [
        (
            "\"ramp_s\":0.0",
            "\"ramp_s\":-1",
            "record.jsonl:1: not a line of a record: plan.ramp_s is -1,",
        ),
        (
            "\"active\":0",
            "\"active\":9",
            "record.jsonl:1: not a line of a record: the active arm is 9",
        ),
        (
            "\"runtime_s\":3.0",
            "\"runtime_s\":1e30",
            "plan.loads.runtime_s is 1e30",
        ),
        (
            "\"time_budget_s\":480.0",
            "\"time_budget_s\":1e20",
            "plan.rules.time_budget_s is 1e20",
        ),
        (
            "\"round\":0",
            "\"round\":4294967295",
            "record.jsonl:2: not a line of a record: round is 4294967295",
        ),
        ("\"iops\":", "\"iops\":-", "iops is -"),
    ] {
        assert!(example.contains(from), "{from}");
        fs::write(&path, example.replacen(from, to, 1)).unwrap();
        let output = answer(&["report", directory.path().to_str().unwrap()]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(12), "{to}: {message}");
        assert!(
            message.contains(words) && message.contains("hint: "),
            "{to}: {message}"
        );
        assert_eq!(message.matches("error: ").count(), 1, "{to}: {message}");
    }
}

#[test]
fn a_job_file_that_would_fill_the_file_system_writes_nothing() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let mounted = Mounted::new(64 * MIB);
    let directory = tempfile::tempdir().unwrap();
    let job = directory.path().join("job.fio");
    for (options, words) in [
        ("size=1g", "the loads need 1024 MiB"),
        // Of the file that we make.
        ("size=100%", "the loads need 1024 MiB"),
        ("size=1m\nfill_fs=1", "would fill the file system: fill_"),
    ] {
        fs::write(
            &job,
            format!("[a]\nrw=randwrite\ndirect=1\nioengine=libaio\n{options}\n"),
        )
        .unwrap();
        let load = ["--load", job.to_str().unwrap()];
        let (code, _, message) = tune(mounted.path(), &directory.path().join("r"), &load);
        assert_ne!(code, 0, "{options}");
        assert!(
            message.contains(words) && message.contains("hint: "),
            "{options}: {message}"
        );
        assert!(
            mounted.names().is_empty(),
            "{options}: {:?}",
            mounted.names()
        );
    }
    // What fits runs, whatever --file-size would have been.
    fs::write(
        &job,
        "[a]\nrw=randwrite\ndirect=1\nioengine=libaio\nsize=2m\n",
    )
    .unwrap();
    let load = [
        "--load",
        job.to_str().unwrap(),
        "--file-size",
        "1G",
        "--no-html",
    ];
    let (code, _, message) = tune(mounted.path(), &directory.path().join("r"), &load);
    assert_eq!(code, 0, "{message}");
}
