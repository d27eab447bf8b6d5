//! `iosched tune` without a device: record, verdict and report as on a real disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use crate::common::lab::wait_for;
use crate::common::tuning::{signal, start};
use crate::common::{CopyForEverybody, can_use_loop_devices, iosched, run, text};
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
        "--simulate hdd-7200 --arms noop,deadline,cfq --load random-read --seed 1",
    );
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    let first = stderr.lines().next().unwrap();
    assert!(first.contains("no device is touched"), "{first}");
    assert!(stdout.contains("simulated hdd-7200"), "{stdout}");
    // Deep random reads: a scheduler that sorts wins on a hard disk, in every kernel and here.
    let answer = "Answer: use deadline, on a simulated hdd-7200";
    assert!(stdout.contains(answer), "{stdout}");
    let again = iosched().arg("report").arg(&record).output().unwrap();
    let table = stdout.split("\nrecord: ").next().unwrap();
    assert_eq!(text(&again.stdout).trim(), table.trim());
}

/// A dry run finds what a run finds in its first seconds: that nothing can be written where its record is to be.
#[test]
fn a_dry_run_looks_whether_the_record_can_be_made() {
    if !can_use_loop_devices() {
        return; // needs root for a mount
    }
    let dir = tempfile::tempdir().unwrap();
    let mounted = dir.path().display().to_string();
    run("mount", &["-t", "tmpfs", "-o", "ro", "none", &mounted]);
    let tried: Vec<(String, String)> = [&["--dry-run"][..], &[]]
        .into_iter()
        .flat_map(|dry| [Some("r"), Some("not/there/r"), None].map(|out| (dry, out)))
        .map(|(dry, out)| {
            let mut command = iosched();
            command.args(["tune", "--simulate", "hdd-7200", "--fixed-rounds", "2"]);
            command.args(dry).current_dir(dir.path());
            if let Some(out) = out {
                command.arg("--out").arg(dir.path().join(out));
            }
            let output = command.output().unwrap();
            let said = format!("{dry:?} {out:?}: {:?}", output.status.code());
            (said, text(&output.stderr))
        })
        .collect();
    run("umount", &[&mounted]);
    for (what, stderr) in tried {
        assert!(what.ends_with("Some(12)"), "{what}: {stderr}");
        assert!(stderr.contains("Read-only file system"), "{what}: {stderr}");
    }
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
            "--simulate hdd-7200 --arms {arms} --runtime 1s --rounds {rounds} --seed 1 --exit-code"
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
fn the_same_seed_gives_the_same_record() {
    let dir = tempfile::tempdir().unwrap();
    let ratios = |name: &str, seed: &str| {
        let record = dir.path().join(name);
        let arguments = format!(
            "--simulate hdd-7200 --arms noop,deadline --fixed-rounds 3 --runtime 2s --seed {seed}"
        );
        assert!(tune(&record, &arguments).status.success());
        report(&record)["loads"][0]["arms"].clone()
    };
    let first = ratios("first", "7");
    assert!(first.is_array(), "{first}");
    assert_eq!(first, ratios("second", "7"));
    assert_ne!(first, ratios("third", "8"));
}

#[test]
fn two_arms_that_are_the_same_are_equal() {
    let dir = tempfile::tempdir().unwrap();
    let output = tune(
        &dir.path().join("record"),
        "--simulate hdd-7200 --arms noop,noop --runtime 1s",
    );
    let stdout = text(&output.stdout);
    assert!(stdout.contains("are equal in"), "{stdout}");
    assert!(
        stdout.contains("among equals the baseline stays"),
        "{stdout}"
    );
}

#[test]
fn what_is_not_simulated_is_refused_by_name_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("odd.fio");
    fs::write(&job, "[odd]\nrw=randread\nverify=crc32c\n").unwrap();
    let job = job.display().to_string();
    for (arguments, named) in [
        ("--simulate floppy", "floppy"),
        ("--simulate hdd-7200 --arms noop,no-such", "no-such"),
        ("--simulate hdd-7200 --arms noop,cfq:quantum=-1", "quantum"),
        (
            "--simulate hdd-7200 --arms none,deadline:wbt_lat_usec=2000",
            "write-back throttling is not simulated with deadline",
        ),
        (&format!("--simulate hdd-7200 --load {job}"), "verify"),
        ("--simulate hdd-7200 --objective cpu", "no processors"),
        ("--simulate hdd-7200 --size 6G", "--size"),
        ("--simulate hdd-7200 --queue-depth 2", "--queue-depth"),
        ("--simulate hdd-7200 --slow-down 2", "--slow-down"),
        ("--simulate hdd-7200 --load command:true", "needs a device"),
        (
            "--simulate hdd-7200 --load responsiveness:command=true",
            "what that program reads is not known",
        ),
        (
            "--simulate hdd-10k --load desktop:size=4g",
            "the files of load desktop need",
        ),
        ("--simulate hdd-7200 --ramp 1s", "--ramp"),
        ("--simulate hdd-7200 --timeout 1s", "--timeout"),
        ("--simulate hdd-7200 --file-size 1g", "--file-size"),
        ("--simulate hdd-7200 --apply", "--apply"),
        ("sda --simulate hdd-7200", "--simulate"),
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
        ("hdd-7200", "mixed", false),
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
        "--simulate hdd-7200 --arms cfq,bfq --fixed-rounds 3 --seed 1 --load \
         responsiveness:readers=4,size=16m,starts=1",
    );
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        stdout.contains("Answer: use bfq, on a simulated hdd-7200"),
        "{stdout}"
    );
    let report = report(&record);
    let arms = report["loads"][0]["arms"].as_array().unwrap();
    let time = |arm: usize| arms[arm]["objective"].as_f64().unwrap();
    assert_eq!(report["loads"][0]["objective"], "time");
    assert!(time(1) < time(0) / 4.0, "{} and {}", time(0), time(1));
}

#[test]
fn a_desktop_and_a_build_are_simulated_with_the_numbers_of_the_loads_themselves() {
    let dir = tempfile::tempdir().unwrap();
    for (load, words) in [
        ("desktop:size=16m,seconds=2,starts=1", "dropped frames %"),
        ("build:files=40,jobs=2", "compiling s"),
    ] {
        let record = dir.path().join(load);
        let arguments = format!(
            "--simulate ssd-sata --arms none,mq-deadline --fixed-rounds 3 --seed 1 --load {load}"
        );
        let output = tune(&record, &arguments);
        let stdout = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(stdout.contains(words), "{stdout}");
        let simulated = iosched()
            .args([
                "simulate",
                "--disk",
                "ssd-sata",
                "--scheduler",
                "none",
                "--load",
                load,
            ])
            .output()
            .unwrap();
        let stdout = text(&simulated.stdout);
        assert!(stdout.contains(words), "{stdout}");
    }
}

#[test]
fn a_run_that_ended_early_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("record");
    let output = tune(
        &record,
        "--simulate hdd-7200 --arms noop,deadline --rounds 2 --runtime 1s",
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let more = iosched()
        .args(["tune", "--rounds", "20", "--resume"])
        .arg(&record)
        .output()
        .unwrap();
    assert!(more.status.success(), "{}", text(&more.stderr));
    let rounds = &report(&record)["rounds"];
    assert!(rounds.as_u64().unwrap() > 2, "{rounds}");
}

/// Without asking for it again; and it is made again where it was wanted.
#[test]
fn a_run_that_was_begun_without_a_page_has_none_when_it_has_gone_on() {
    for (no_html, pages) in [("--no-html", 0), ("", 1)] {
        let dir = tempfile::tempdir().unwrap();
        let record = dir.path().join("record");
        let arguments =
            format!("--simulate hdd-7200 --arms noop,deadline --rounds 2 --runtime 1s {no_html}");
        let output = tune(&record, arguments.trim_end());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let is_page = |entry: &fs::DirEntry| entry.path().extension() == Some("html".as_ref());
        let found = || {
            fs::read_dir(&record)
                .unwrap()
                .flatten()
                .filter(is_page)
                .count()
        };
        assert_eq!(found(), pages, "begun {no_html}");
        for entry in fs::read_dir(&record).unwrap().flatten().filter(is_page) {
            fs::remove_file(entry.path()).unwrap();
        }
        let more = iosched()
            .args(["tune", "--rounds", "4", "--resume"])
            .arg(&record)
            .output()
            .unwrap();
        assert!(more.status.success(), "{}", text(&more.stderr));
        assert_eq!(found(), pages, "gone on with {no_html}");
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
        "--simulate hdd-7200 --arms noop,deadline --rounds 2 --runtime 1s --no-html --seed 1",
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
    assert!(stdout.contains("simulated hdd-7200"), "{stdout}");
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
            "hdd-7200",
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

/// The run time of each trial of a record: round, arm, s.
fn run_times(directory: &Path) -> Vec<(u64, u64, f64)> {
    let lines = fs::read_to_string(directory.join("record.jsonl")).unwrap();
    let entries = lines
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let trials = entries.filter(|entry| entry["type"] == "trial");
    let number = |trial: &Value, field: &str| trial[field].as_u64().unwrap();
    trials
        .map(|trial| {
            let seconds = trial["runtime_s"].as_f64().unwrap();
            (number(&trial, "round"), number(&trial, "arm"), seconds)
        })
        .collect()
}

/// Where reads are half as many again the answer needs no trials of ten seconds.
#[test]
fn trials_run_for_as_long_as_those_before_ask_for_and_a_resumed_run_goes_on_with_that() {
    const ARGUMENTS: &str =
        "--simulate hdd-7200 --arms noop,deadline --load random-read --seed 1 --runtime auto";
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    let output = tune(&whole, ARGUMENTS);
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let times = run_times(&whole);
    for (round, arm, seconds) in &times {
        let of_round = times.iter().find(|other| other.0 == *round).unwrap();
        assert!(seconds.total_cmp(&of_round.2).is_eq(), "{times:?}");
        let is_first = *round == 0;
        assert_eq!(
            is_first,
            seconds.total_cmp(&10.0).is_eq(),
            "arm {arm}: {times:?}"
        );
        assert!((1.0..=60.0).contains(seconds), "{times:?}");
    }
    assert!(
        times.iter().any(|(_, _, seconds)| *seconds < 10.0),
        "{times:?}"
    );
    let said = format!("chosen as it went on: {} s ", times[2].2);
    assert!(
        stdout.replace("\n  ", " ").contains(&said),
        "{said}: {stdout}"
    );
    let of_load = &report(&whole)["loads"][0];
    assert_eq!(of_load["runtimes"][1]["runtime_s"], times[2].2);
    assert!(of_load["trial_length"]["within"].as_f64().unwrap() > 0.0);

    let cut = dir.path().join("cut");
    let output = tune(&cut, &format!("{ARGUMENTS} --rounds 2"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    // As if it had been killed within the second round.
    let file = cut.join("record.jsonl");
    let lines = fs::read_to_string(&file).unwrap();
    let kept: Vec<&str> = lines.lines().take(5).collect();
    fs::write(&file, kept.join("\n") + "\n").unwrap();
    assert_eq!(run_times(&cut), times[..3]);
    let mut resume = iosched();
    resume
        .args(["tune", "--rounds", "30", "--resume"])
        .arg(&cut);
    let output = resume.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(run_times(&cut), times);
}

#[test]
fn a_run_time_is_chosen_only_where_there_is_one_and_its_course_says_how_well_it_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let stages = dir.path().join("stages.fio");
    fs::write(&stages, "[a]\nrw=read\n[b]\nstonewall\nrw=randread\n").unwrap();
    for (arguments, named, hint) in [
        (
            "--load build",
            "load build takes as long as it takes",
            "job files",
        ),
        ("--objective p99", "decided by p99 latency", "--runtime 10s"),
        ("--fixed-rounds 3", "exactly 3", "--runtime 10s"),
        (
            &format!("--load {}", stages.display()),
            "the jobs of load stages do not all run at the same time (stonewall)",
            "a job file of its own",
        ),
    ] {
        let record = dir.path().join("record");
        let arguments = format!("--simulate hdd-7200 --runtime auto {arguments}");
        let output = tune(&record, &arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {stderr}");
        assert!(
            stderr.contains(named) && stderr.contains(hint),
            "{arguments}: {stderr}"
        );
        assert!(!record.exists(), "{arguments}");
    }
    let dry = tune(
        &dir.path().join("record"),
        "--simulate hdd-7200 --runtime auto --dry-run",
    );
    let stdout = text(&dry.stdout);
    assert!(
        stdout.contains("10 s of virtual time at first, then as long as"),
        "{stdout}"
    );
}

#[test]
fn trials_that_are_longer_than_they_need_to_be_are_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let said = |runtime: &str| {
        let record = dir.path().join(runtime);
        let arguments = format!(
            "--simulate hdd-7200 --arms noop,deadline --load random-read --seed 1 --runtime {runtime}"
        );
        let output = tune(&record, &arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).replace("\n  ", " ")
    };
    let long = said("60s");
    assert!(
        long.contains("shorter trials would do, --runtime"),
        "{long}"
    );
    let short = said("1s");
    assert!(!short.contains("by its own course"), "{short}");
}
