//! `iosched tune` without a device: record, verdict and report as on a real disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use crate::common::lab::wait_for;
use crate::common::tuning::{signal, start};
use crate::common::{CopyForEverybody, can_use_loop_devices, iosched, text};
use serde_json::Value;

fn tune(directory: &Path, arguments: &str) -> Output {
    iosched()
        .arg("tune")
        .args(arguments.split(' '))
        .arg("--out")
        .arg(directory)
        .output()
        .unwrap()
}

fn report(directory: &Path) -> Value {
    let output = iosched()
        .args(["report", "--json"])
        .arg(directory)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_simulated_tune_ends_in_a_verdict_and_a_record_that_says_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("record");
    let output = tune(
        &record,
        "--simulate hdd-7200-fifo --arms noop,deadline,cfq --load random-read --seed 1",
    );
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    let first = stderr.lines().next().unwrap();
    assert!(first.contains("no device is touched"), "{first}");
    assert!(stdout.contains("simulated hdd-7200-fifo"), "{stdout}");
    // Deep random reads: a scheduler that sorts wins on a hard disk, in every kernel and here.
    let answer = "Answer: use deadline for random-read on a simulated hdd-7200-fifo.";
    assert!(stdout.contains(answer), "{stdout}");
    let again = iosched().arg("report").arg(&record).output().unwrap();
    let table = stdout.split("\npage: ").next().unwrap();
    assert_eq!(text(&again.stdout).trim(), table.trim());
}

#[test]
fn the_exit_code_tells_a_winner_from_equals_and_from_no_answer_if_it_is_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        ("noop,deadline", "30", 0, "winner"),
        ("noop,noop", "30", 20, "equal"),
        ("noop,deadline", "2", 21, "undecided"),
    ];
    for (arms, rounds, code, conclusion) in cases {
        let record = dir.path().join(conclusion);
        let arguments = format!(
            "--simulate hdd-7200-fifo --arms {arms} --runtime 1s --rounds {rounds} --seed 1 --exit-code"
        );
        let output = tune(&record, &arguments);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stdout));
        assert_eq!(report(&record)["conclusion"], conclusion);
        let again = |more: &[&str]| {
            let mut command = iosched();
            command.arg("report").arg(&record).args(more);
            command.output().unwrap().status.code()
        };
        assert_eq!(again(&["--exit-code"]), Some(code));
        assert_eq!(again(&[]), Some(0));
    }
}

#[test]
fn what_is_not_simulated_is_refused_by_name_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("odd.fio");
    fs::write(&job, "[odd]\nrw=randread\nverify=crc32c\n").unwrap();
    let job = job.display().to_string();
    for (arguments, named) in [
        ("--simulate floppy", "floppy"),
        ("--simulate hdd-7200-fifo --arms noop,no-such", "no-such"),
        (
            "--simulate hdd-7200-fifo --arms noop,cfq:quantum=-1",
            "quantum",
        ),
        (
            "--simulate hdd-7200-fifo --arms none,deadline:wbt_lat_usec=2000",
            "write-back throttling is not simulated with deadline",
        ),
        (&format!("--simulate hdd-7200-fifo --load {job}"), "verify"),
        ("--simulate hdd-7200-fifo --objective cpu", "no processors"),
        ("--simulate hdd-7200-fifo --size 6G", "--size"),
        ("--simulate hdd-7200-fifo --queue-depth 2", "--queue-depth"),
        ("--simulate hdd-7200-fifo --slow-down 2", "--slow-down"),
        (
            "--simulate hdd-7200-fifo --load command:true",
            "needs a device",
        ),
        (
            "--simulate hdd-10k --load desktop:size=4g",
            "load desktop: its files need",
        ),
        ("--simulate hdd-7200-fifo --ramp 1s", "--ramp"),
        ("--simulate hdd-7200-fifo --timeout 1s", "--timeout"),
        ("--simulate hdd-7200-fifo --file-size 1g", "--file-size"),
        ("--simulate hdd-7200-fifo --apply", "--apply"),
        ("sda --simulate hdd-7200-fifo", "--simulate"),
    ] {
        let record = dir.path().join("record");
        let output = tune(&record, arguments);
        let stderr = text(&output.stderr);
        assert!(!output.status.success(), "{arguments}");
        assert!(stderr.contains(named), "{arguments}: {stderr}");
        assert!(!record.exists(), "{arguments}");
    }
}

#[test]
fn an_answer_for_reads_beside_writes_on_simulated_flash_says_what_the_model_lacks() {
    let dir = tempfile::tempdir().unwrap();
    for (model, load, is_said) in [
        ("ssd-sata", "mixed", true),
        ("ssd-sata", "random-read", false),
        ("hdd-7200-fifo", "mixed", false),
    ] {
        let record = dir.path().join(format!("{model}-{load}"));
        let arguments = format!(
            "--simulate {model} --arms noop,deadline --load {load} --fixed-rounds 3 --runtime 1s --seed 1"
        );
        let output = tune(&record, &arguments);
        let stdout = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let says = stdout.contains("reads beside writes on simulated flash");
        assert_eq!(says, is_said, "{model}, {load}: {stdout}");
    }
}

#[test]
fn a_program_starts_sooner_under_bfq_than_under_cfq_beside_readers_and_both_are_decided_by_that() {
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("record");
    let output = tune(
        &record,
        "--simulate hdd-7200-fifo --arms cfq,bfq --fixed-rounds 4 --seed 1 --load desktop:readers=10,size=16m",
    );
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(stdout.contains("Answer: use bfq for desktop"), "{stdout}");
    let report = report(&record);
    let arms = report["loads"][0]["arms"].as_array().unwrap();
    let time = |arm: usize| arms[arm]["objective"].as_f64().unwrap();
    assert_eq!(report["loads"][0]["objective"], "time");
    assert!(time(1) < time(0) / 4.0, "{} and {}", time(0), time(1));
}

#[test]
fn a_desktop_beside_a_copy_is_simulated_by_tune_and_by_simulate() {
    let dir = tempfile::tempdir().unwrap();
    let load = "desktop:size=16m,starts=1";
    let arguments = format!(
        "--simulate ssd-sata --arms none,mq-deadline --fixed-rounds 3 --seed 1 --load {load}"
    );
    let output = tune(&dir.path().join("r"), &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut simulate = iosched();
    simulate.args([
        "simulate",
        "--disk",
        "ssd-sata",
        "--scheduler",
        "none",
        "--load",
        load,
    ]);
    let mut details = iosched();
    details
        .args(["report", "--details"])
        .arg(dir.path().join("r"));
    for mut shown in [details, simulate] {
        let stdout = shown.output().unwrap().stdout;
        let stdout = text(&stdout);
        assert!(stdout.contains("copied MB/s"), "{stdout}");
    }
}

/// As versions before wrote them.
#[test]
fn a_record_of_a_load_that_is_no_more_is_reported_and_its_run_does_not_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("record");
    let output = tune(
        &record,
        "--simulate hdd-7200-fifo --arms noop,deadline --rounds 2 --load desktop:starts=1 --no-html",
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let file = record.join("record.jsonl");
    let written = fs::read_to_string(&file).unwrap();
    let begin = written.find("\"simulated_desktop\"").unwrap();
    let disk = begin + written[begin..].find(",\"disk\"").unwrap();
    for (name, settings) in [
        ("build", r#"{"files":40,"jobs":4}"#),
        ("desktop", r#"{"starts":1,"seconds":2,"size":16777216}"#),
        (
            "responsiveness",
            r#"{"readers":2,"random_readers":0,"writers":0,"random_writers":0,"size":16777216,"starts":1}"#,
        ),
    ] {
        let was = format!("\"simulated_scenario\":{{\"scenario\":{{\"{name}\":{settings}}}");
        let text_of = format!("{}{was}{}", &written[..begin], &written[disk..]);
        let text_of = text_of.replacen("\"name\":\"desktop\"", &format!("\"name\":\"{name}\""), 1);
        fs::write(&file, text_of).unwrap();
        assert_eq!(report(&record)["loads"][0]["name"], name);
        let mut command = iosched();
        command.args(["tune", "--rounds", "20", "--resume"]);
        let output = command.arg(&record).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(12), "{stderr}");
        let words = format!("load {name}: this version does not run it any more");
        assert!(stderr.contains(&words), "{stderr}");
    }
}

#[test]
fn what_a_run_has_from_its_beginning_cannot_be_changed_when_it_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("r");
    let resume = |more: &[&str]| {
        let mut command = iosched();
        command.args(["tune", "--resume"]).arg(&record).args(more);
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), stderr)
    };
    for (option, value) in [
        ("--runtime", Some("2s")),
        ("--margin", Some("2%")),
        ("--confidence", Some("95%")),
        ("--objective", Some("p99")),
        ("--require", Some("throughput>=0.9")),
        ("--baseline", Some("none")),
        ("--arms", Some("none,bfq")),
        ("--load", Some("mixed")),
        ("--fixed-rounds", Some("3")),
        ("--file-size", Some("1G")),
        ("--steady", Some("auto")),
        ("--ramp", Some("1s")),
        ("--seed", Some("1")),
        ("--no-split", None),
    ] {
        let given: Vec<&str> = std::iter::once(option).chain(value).collect();
        let (code, stderr) = resume(&[&given[..], &["--budget", "1h"]].concat());
        assert_eq!(code, Some(2), "{option}: {stderr}");
        let begins = format!("error: {option} cannot be changed: the run in ");
        assert!(stderr.starts_with(&begins), "{stderr}");
        let record = record.display();
        let last = format!("try: iosched tune --resume {record} --budget 1h\n");
        assert!(stderr.ends_with(&last), "{stderr}");
    }
    let (code, stderr) = resume(&["--rounds", "60", "--budget", "1m", "--apply"]);
    assert_eq!(code, Some(12), "there is no record: {stderr}");
}

/// Trials of a thousand hours: what ends them is the budget, or who is at the keyboard.
#[test]
fn a_simulated_trial_ends_when_its_budget_is_spent_or_somebody_wants_it() {
    let dir = tempfile::tempdir().unwrap();
    let endless = "--simulate null --arms none,noop --load random-read --runtime 1000h";
    let output = tune(&dir.path().join("a"), &format!("{endless} --budget 1s"));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let cause = "the budget of 1 s was spent before the first trial";
    assert!(stderr.contains(cause), "{stderr}");
    assert!(stderr.contains("shorter trials (--runtime)"), "{stderr}");
    assert!(
        !stderr.contains("--size"),
        "simulations refuse it: {stderr}"
    );
    assert!(!dir.path().join("a").exists(), "the remedy makes it");

    let record = dir.path().join("b");
    let arguments: Vec<&str> = endless.split(' ').collect();
    let child = start(&arguments, &record);
    wait_for("a record", || record.join("record.jsonl").exists());
    signal(child.id(), rustix::process::Signal::INT);
    let output = child.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("--resume"), "{stderr}");
}

#[test]
fn a_dry_run_of_a_resumed_run_says_what_is_left_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("record");
    let output = tune(
        &record,
        "--simulate hdd-7200-fifo --arms noop,deadline --rounds 2 --runtime 1s --no-html --seed 1",
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let file = record.join("record.jsonl");
    // As a run that was killed while it wrote leaves it.
    let mut before = fs::read(&file).unwrap();
    before.extend_from_slice(b"{\"type\":\"tri");
    fs::write(&file, &before).unwrap();
    let files = || fs::read_dir(&record).unwrap().count();
    let files_before = files();
    let resume = |more: &[&str]| {
        let mut command = iosched();
        command.args(["tune", "--dry-run", "--resume"]).arg(&record);
        command.args(more).output().unwrap()
    };
    let output = resume(&["--rounds", "4"]);
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        stdout.contains("done: 4 trials, 2 complete rounds"),
        "{stdout}"
    );
    assert!(stdout.contains("next, in round 3: "), "{stdout}");
    assert!(stdout.contains("at most 4 trials in all"), "{stdout}");
    let json = resume(&["--rounds", "4", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["trials_at_most"], 4);
    assert_eq!(json["next"].as_array().map(Vec::len), Some(2), "{json}");
    for (too_little, named) in [
        (
            "--rounds 2",
            "its rounds are spent (complete rounds so far: 2)",
        ),
        (
            "--rounds 4 --budget 1us",
            "its time is spent (time so far: ",
        ),
        ("--budget 1h", "its rounds are spent"),
        ("--rounds 1", "--rounds is 1, and must be at least 2"),
    ] {
        let too_little: Vec<&str> = too_little.split(' ').collect();
        let refused = resume(&too_little);
        let stderr = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(named), "{stderr}");
    }
    let complete = resume(&[]);
    assert!(!complete.status.success());
    assert!(text(&complete.stderr).contains(" is over: its rounds are spent"));
    assert!(fs::read(&file).unwrap() == before, "the record was changed");
    assert_eq!(files(), files_before, "a file was made");
}

#[test]
fn without_rights_to_make_a_disk_it_simulates_and_says_so_first() {
    if !can_use_loop_devices() {
        return;
    }
    let copy = CopyForEverybody::new();
    fs::set_permissions(copy.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    let output = copy
        .as_nobody()
        .args(["tune", "--arms", "noop,deadline", "--out"])
        .arg(copy.dir().join("record"))
        .output()
        .unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    let first = stderr.lines().next().unwrap();
    assert!(first.starts_with("No emulated disk here"), "{first}");
    assert!(first.contains("need root"), "{first}");
    assert!(stdout.contains("simulated hdd-7200."), "{stdout}");
}

#[test]
fn events_name_arms_and_loads_wherever_they_are_meant() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("r");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_iosched"))
        .args([
            "--json",
            "tune",
            "--simulate",
            "hdd-7200-fifo",
            "--arms",
            "noop,deadline",
        ])
        .args([
            "--fixed-rounds",
            "2",
            "--runtime",
            "1s",
            "--no-html",
            "--out",
        ])
        .arg(&out)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let events: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let event = |name: &str| events.iter().find(|event| event["event"] == name).unwrap();
    assert_eq!(event("started")["plan"]["baseline"], "noop");
    let trial = &event("trial-ended")["trial"];
    assert!(
        trial["arm"].is_string() && trial["load"] == "random-read",
        "{trial}"
    );
    let contest = &event("estimate")["standing"]["loads"][0];
    assert_eq!(contest["arms"][1]["arm"], "deadline");
    assert_eq!(event("finished")["analysis"]["baseline"], "noop");
    let record = std::fs::read_to_string(out.join("record.jsonl")).unwrap();
    let mut lines = record.lines();
    let line = lines
        .find(|line| line.contains("\"type\":\"trial\""))
        .unwrap();
    assert!(line.contains("\"load_name\":\"random-read\""), "{line}");
}

#[test]
fn a_dry_run_says_whether_the_budget_can_hold_a_decision() {
    let dir = tempfile::tempdir().unwrap();
    let simulated =
        "--simulate null --arms noop,deadline,cfq --load random-read --dry-run --rounds";
    let dry =
        |more: &str| text(&tune(&dir.path().join("r"), &format!("{simulated} {more}")).stdout);
    let few = dry("2");
    assert!(few.contains("2 rounds only: cannot decide"), "{few}");
    let enough: Value = serde_json::from_str(&dry("20 --json")).unwrap();
    assert_eq!(enough["prospect"]["can_decide"], true, "{enough}");
}

#[test]
fn a_load_that_is_none_names_how_a_program_is_one() {
    let mut tune = iosched();
    tune.args(["tune", "--simulate", "null", "--load", "cmd: /tmp/load.sh"]);
    let said = text(&tune.output().unwrap().stderr);
    assert!(
        said.contains("there is no load \"cmd: /tmp/load.sh\""),
        "{said}"
    );
    assert!(said.contains("--load 'command: "), "{said}");
}
