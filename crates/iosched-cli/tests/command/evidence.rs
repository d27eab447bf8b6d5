//! `iosched evidence`: records of several machines, made of the example record, gathered, merged, shown and damaged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use iosched_evidence::row::Row;

use serde_json::{Value, json};

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iosched"));
    command.env("COLUMNS", "100").args(args).output().unwrap()
}

#[track_caller]
fn done(args: &[&str]) -> String {
    let output = run(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The error of a command that fails with this exit code.
#[track_caller]
fn refused(args: &[&str], code: i32) -> String {
    let output = run(args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert_eq!(said.matches("error: ").count(), 1, "{said}");
    said
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    serde_json::from_str(&done(&[args, &["--json"]].concat())).unwrap()
}

/// Makes a record of a machine of this number: the example, as if it had been measured on a drive.
fn record(directory: &Path, number: u32, edit: impl Fn(&mut Value)) -> PathBuf {
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/example-record/record.jsonl");
    let text = fs::read_to_string(example).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let mut header: Value = serde_json::from_str(first).unwrap();
    header["machine"]["hostname"] = format!("secret-host-{number}").into();
    header["machine"]["kernel"] = "6.12.48-acme".into();
    header["machine"]["disks"][0]["model"] = "ST4000DM004-2CV104".into();
    header["machine"]["disks"][0]["serial"] = format!("SECRET{number}").into();
    header["machine"]["disks"][0]["transport"] = "sata".into();
    header["plan"]["emulated"] = Value::Null;
    header["plan"]["seed"] = number.into();
    edit(&mut header);
    let at = directory.join(format!("record-{number}"));
    fs::create_dir_all(&at).unwrap();
    fs::write(at.join("record.jsonl"), format!("{header}\n{rest}")).unwrap();
    at
}

/// Makes a dataset of machines of these numbers.
pub(crate) fn dataset_of(
    directory: &Path,
    at: &Path,
    numbers: std::ops::Range<u32>,
    edit: impl Fn(&mut Value),
) {
    let records: Vec<PathBuf> = numbers
        .map(|number| record(directory, number, &edit))
        .collect();
    let mut args = vec!["evidence", "add", "--yes", "--to", at.to_str().unwrap()];
    args.extend(records.iter().map(|record| record.to_str().unwrap()));
    done(&args);
}

/// A dataset of machines of these numbers, as they are.
fn dataset(directory: &Path, name: &str, numbers: std::ops::Range<u32>) -> String {
    let at = directory.join(name);
    dataset_of(directory, &at, numbers, |_| {});
    at.to_str().unwrap().to_owned()
}

#[test]
fn records_are_added_once_and_what_they_say_together_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let at = dataset(dir.path(), "fleet", 0..6);
    let shown = json(&["evidence", "show", &at, "--load-class", "general"]);
    assert_eq!(
        (&shown["machines"], &shown["records"]),
        (&json!(6), &json!(6))
    );
    let findings = shown["findings"].as_array().unwrap();
    let levels: Vec<&Value> = findings.iter().map(|finding| &finding["level"]).collect();
    assert_eq!(levels, ["model", "family", "class"]);
    for finding in findings {
        assert_eq!(finding["kernel"], "6.12");
        assert_eq!(finding["machines"], 6);
        let arms = finding["arms"].as_array().unwrap();
        assert!(
            arms.iter()
                .all(|arm| arm["next_machine"]["lower"].is_number()),
            "{finding}"
        );
    }
    // A seventh and one of before.
    let seventh = record(dir.path(), 6, |_| {});
    let again = record(dir.path(), 2, |_| {});
    let output = run(&[
        "evidence",
        "add",
        seventh.to_str().unwrap(),
        again.to_str().unwrap(),
        "--to",
        &at,
        "--yes",
    ]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("note: 1 record is in") && said.contains("already and is left out"),
        "{said}"
    );
    assert_eq!(json(&["evidence", "show", &at])["machines"], 7);
    let text = done(&[
        "evidence", "show", &at, "--model", "st4000", "--kernel", "6.12",
    ]);
    assert!(
        text.contains("ST4000DM004-2CV104 (model, sata-hdd)\n"),
        "{text}"
    );
    assert!(
        text.contains("general by throughput, Linux 6.12, 7 machines, "),
        "{text}"
    );
    let said = refused(&["evidence", "show", &at, "--model", "Samsung"], 3);
    assert!(
        said.contains("its models are: ST4000DM004-2CV104"),
        "{said}"
    );
}

#[test]
fn nothing_is_written_that_was_not_shown_and_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let record = record(dir.path(), 1, |_| {});
    let at = dir.path().join("new");
    let (record, to) = (record.to_str().unwrap(), at.to_str().unwrap());
    let text = done(&["evidence", "add", record, "--to", to, "--dry-run"]);
    for shown in [
        "ST4000DM004-2CV104",
        "class sata-hdd",
        "Linux 6.12.48,",
        "against",
        "(not written)",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert!(!at.exists());
    // No number is shown of a machine that it will not have.
    let planned = json(&["evidence", "add", record, "--to", to, "--dry-run"]);
    let of_machine = |added: &Value| added["rows"][0]["machine"].as_str().unwrap().to_owned();
    assert_eq!(of_machine(&planned), "new-1");
    assert!(text.contains("machine new-1"), "{text}");
    let said = refused(&["evidence", "add", record, "--to", to], 2);
    assert!(
        said.contains("there is no terminal to ask on") && said.contains("--yes"),
        "{said}"
    );
    assert!(!at.exists());
    let added = json(&["evidence", "add", record, "--to", to, "--yes"]);
    let rows = added["rows"].as_array().unwrap();
    assert_eq!(added["new_rows"], rows.len());
    let other = self::record(dir.path(), 1, |header| header["plan"]["seed"] = 7.into());
    let planned = [
        "evidence",
        "add",
        other.to_str().unwrap(),
        "--to",
        to,
        "--dry-run",
    ];
    assert_eq!(of_machine(&json(&planned)), of_machine(&added));
    // Neither in what is printed nor in what is written.
    let packed = at.join("rows.jsonl.gz");
    let unpacked = Command::new("gunzip").arg("-c").arg(packed).output();
    let written = unpacked.unwrap().stdout;
    assert_eq!(written.split(|byte| *byte == b'\n').count(), rows.len() + 2);
    let written = [serde_json::to_vec(rows).unwrap(), written].concat();
    let written = String::from_utf8_lossy(&written).to_lowercase();
    for private in ["secret", "acme", "loop8", "example", "/dev"] {
        assert!(!written.contains(private), "{private}");
    }
}

#[test]
fn a_record_that_cannot_be_used_keeps_no_other_out() {
    let dir = tempfile::tempdir().unwrap();
    let good = record(dir.path(), 1, |_| {});
    let lying = record(dir.path(), 2, |header| {
        header["created_unix_s"] = (-5).into();
    });
    let damaged = dir.path().join("damaged");
    fs::create_dir(&damaged).unwrap();
    fs::write(damaged.join("record.jsonl"), "nonsense\n").unwrap();
    let at = dir.path().join("fleet");
    let [good, lying, damaged, at] = [&good, &lying, &damaged, &at].map(|it| it.to_str().unwrap());
    let output = run(&[
        "evidence", "add", damaged, good, lying, "--to", at, "--yes", "--json",
    ]);
    assert_eq!(output.status.code(), Some(12), "{output:?}");
    let added: Value = serde_json::from_slice(&output.stdout).unwrap();
    let left_out = added["left_out"].as_array().unwrap();
    let error = |number: usize| left_out[number]["error"].as_str().unwrap();
    assert_eq!(left_out.len(), 2, "{added}");
    assert!(
        error(0).contains("damaged") && error(1).contains("created_unix_s is -5"),
        "{added}"
    );
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("warning: left out: ").count(), 2, "{said}");
    assert_eq!(json(&["evidence", "show", at])["records"], 1);
    // Where none can be used nothing is made.
    let none = dir.path().join("none");
    let said = refused(
        &[
            "evidence",
            "add",
            damaged,
            "--to",
            none.to_str().unwrap(),
            "--yes",
        ],
        12,
    );
    assert!(said.contains("damaged") && !none.exists(), "{said}");
}

#[test]
fn what_is_not_there_is_answered_with_what_is_there_of_that_kind() {
    let dir = tempfile::tempdir().unwrap();
    let at = dataset(dir.path(), "fleet", 0..2);
    let said = refused(&["evidence", "show", &at, "--kernel", "6.12.48"], 3);
    assert!(
        said.contains("its kernel series are: 6.12\n") && !said.contains("models"),
        "{said}"
    );
    let said = refused(&["evidence", "show", &at, "--load-class", "vm"], 3);
    assert!(
        said.contains("its load classes are: backup, general"),
        "{said}"
    );
}

#[test]
fn datasets_are_merged_without_counting_anything_twice() {
    let dir = tempfile::tempdir().unwrap();
    let a = dataset(dir.path(), "a", 0..4);
    let b = dataset(dir.path(), "b", 3..7);
    let c = dir.path().join("c").to_str().unwrap().to_owned();
    let merged = json(&["evidence", "merge", &a, &b, "--to", &c, "--dry-run"]);
    assert_eq!(merged["files"], json!([]));
    assert!(!Path::new(&c).exists());
    let merged = json(&["evidence", "merge", &a, &b, "--to", &c]);
    assert_eq!(merged["files"], json!([format!("{c}/rows.jsonl.gz")]));
    let shown = json(&["evidence", "show", &c]);
    assert_eq!(
        (&shown["records"], &shown["machines"]),
        (&json!(7), &json!(7))
    );
    let again = json(&["evidence", "merge", &b, "--to", &c]);
    assert_eq!(
        (&again["new_rows"], &again["already_there"]),
        (&json!(0), &json!(4))
    );
    // A machine of the first secret is known again in the new directory.
    let more = record(dir.path(), 2, |header| header["plan"]["seed"] = 99.into());
    done(&[
        "evidence",
        "add",
        more.to_str().unwrap(),
        "--to",
        &c,
        "--yes",
    ]);
    let shown = json(&["evidence", "show", &c]);
    assert_eq!(
        (&shown["records"], &shown["machines"]),
        (&json!(8), &json!(7))
    );
}

#[test]
fn a_damaged_dataset_and_one_of_parquet_files_are_refused_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let at = dataset(dir.path(), "fleet", 0..2);
    let rows = Path::new(&at).join("rows.jsonl.gz");
    let mut bytes = fs::read(&rows).unwrap();
    bytes.truncate(bytes.len() / 2);
    fs::write(&rows, bytes).unwrap();
    let to = dir.path().join("c");
    let record = record(dir.path(), 7, |_| {});
    let [to, record] = [&to, &record].map(|path| path.to_str().unwrap());
    let old = dir.path().join("old");
    fs::create_dir_all(old.join("class=sata-hdd")).unwrap();
    let old = old.to_str().unwrap();
    for (at, cause) in [
        (at.as_str(), "rows.jsonl.gz is damaged"),
        (old, "convert_evidence"),
    ] {
        for args in [
            &["evidence", "show", at][..],
            &["evidence", "merge", at, "--to", to],
            &["evidence", "add", record, "--to", at, "--yes"],
            &["advise", "--evidence", at],
        ] {
            let said = refused(args, 12);
            assert!(said.contains(cause) && said.contains("hint: "), "{said}");
        }
    }
    assert!(!Path::new(to).exists());
}

#[test]
fn evidence_that_is_not_there_is_said_with_the_way_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let none = dir.path().join("none");
    for at in [&none, dir.path()] {
        let said = refused(&["evidence", "show", at.to_str().unwrap()], 3);
        let parts = ["there is no evidence in", "iosched evidence add RECORD"];
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
    let record = record(dir.path(), 1, |_| {});
    let add = ["evidence", "add", "--yes", record.to_str().unwrap(), "--to"];
    let said = refused(&[&add[..], &[dir.path().to_str().unwrap()]].concat(), 12);
    assert!(said.contains("is no evidence"), "{said}");
}

#[test]
fn the_set_that_ships_is_shown_as_simulated_and_is_what_the_simulator_says() {
    let text = done(&["evidence", "show", "--simulated"]);
    for line in text.lines().filter(|line| line.contains("(model")) {
        assert!(line.contains("(model, simulated)"), "{line}");
    }
    assert!(!text.contains("Linux"), "{text}");
    let shipped = iosched_evidence::simulated::rows();
    let dir = tempfile::tempdir().unwrap();
    // lab/simulated-evidence makes all of it.
    for (model, load) in [("ssd-sata", "fairness"), ("hdd-7200-fifo", "fairness")] {
        let at = dir.path().join(model);
        let (record, to) = (at.join("record"), at.join("evidence"));
        let (record, to) = (record.to_str().unwrap(), to.to_str().unwrap());
        let arms = ["--arms", "none,mq-deadline,kyber,bfq", "--baseline", "none"];
        let runs = ["--fixed-rounds", "3", "--seed", "2", "--out", record];
        let tune = ["tune", "--simulate", model, "--load", load];
        fs::create_dir(&at).unwrap();
        done(&[&tune[..], &arms, &runs].concat());
        let made = json(&["evidence", "add", record, "--to", to, "--dry-run"]);
        let made = made["rows"].as_array().unwrap();
        let made = made.iter().filter(|row| row["is_baseline"] == true);
        let is_it =
            |row: &&Row| (&*row.model, &*row.load, &*row.machine) == (model, load, "seed-2");
        let shipped: Vec<&Row> = shipped.iter().filter(is_it).collect();
        assert_eq!(shipped.len(), 3);
        for (shipped, made) in shipped.iter().zip(made) {
            let shipped = serde_json::to_value(shipped).unwrap();
            for column in [
                "arm",
                "against",
                "load_class",
                "fingerprint",
                "objective",
                "rounds",
            ] {
                assert_eq!(shipped[column], made[column], "{column}");
            }
            for column in [
                "rotational",
                "queue_depth",
                "transport",
                "kernel",
                "program",
            ] {
                assert_eq!(shipped[column], made[column], "{column}");
            }
            for column in ["log_ratio", "standard_error", "p99_ratio"] {
                let (shipped, made) = (shipped[column].as_f64(), made[column].as_f64());
                let apart = shipped.unwrap() - made.unwrap();
                assert!(apart.abs() < 1e-4, "{column}: {shipped:?} {made:?}");
            }
        }
    }
}
