//! `iosched simulate` and `iosched conform` as a user calls them.

use crate::common::{answer, text};
use serde_json::Value;

fn load(dir: &tempfile::TempDir, jobs: &str) -> String {
    let path = dir.path().join("load.fio");
    std::fs::write(&path, jobs).unwrap();
    path.display().to_string()
}

#[test]
fn schedulers_are_compared_and_cfq_streams_where_the_others_seek() {
    let dir = tempfile::tempdir().unwrap();
    let load = load(
        &dir,
        "[global]\nrw=read\ndirect=1\nioengine=libaio\nbs=64k\n[front]\n[back]\noffset=50%\n",
    );
    let output = answer(&[
        "simulate", "--json", "--disk", "formula", "--until", "3", "--load", &load,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rate = |index: usize| {
        result["runs"][index]["total"]["bytes_per_second"]
            .as_f64()
            .unwrap()
    };
    assert_eq!(result["runs"][2]["scheduler"], "cfq");
    assert!(rate(2) > 3.0 * rate(0), "{result}");
    assert!(
        result["runs"][0]["processes"][1]["latency"]["p99_ns"]
            .as_u64()
            .unwrap()
            > 0
    );
}

#[test]
fn several_schedulers_end_in_an_answer_and_one_table_and_details_are_asked_for() {
    let said = |more: &[&str]| {
        let simulate = ["simulate", "--until", "2", "--disk", "hdd-7200-fifo"];
        text(&answer(&[&simulate[..], more].concat()).stdout)
    };
    let streams = ["--load=sequential-read", "--scheduler=cfq,noop"];
    let short = said(&streams);
    assert!(
        short.starts_with("Answer: cfq is best for sequential-read on a simulated hdd-7200-fifo."),
        "{short}"
    );
    assert!(short.contains("\nnr_requests 128\n") && !short.contains("reader-back"));
    let long = said(&[&streams[..], &["--details"]].concat());
    assert!(long.contains("reader-back"), "{long}");
    let equal = said(&[
        "--load=random-read",
        "--scheduler=none,mq-deadline",
        "--order=shortest-access-first",
        "--queue-depth=32",
    ]);
    assert!(
        equal.starts_with("Answer: no difference for random-read"),
        "{equal}"
    );
    assert!(
        equal.contains("\nnr_requests 64 (mq-deadline), 32 (none)\n"),
        "{equal}"
    );
    let reads = said(&["--load=readers-vs-writer", "--scheduler=none,bfq"]);
    assert!(
        reads.contains("p99 read latency"),
        "what decides this load: {reads}"
    );
    let one = said(&["--load=sequential-read", "--scheduler=cfq"]);
    assert!(
        !one.contains("Answer") && one.contains("reader-back"),
        "{one}"
    );
}

#[test]
fn around_an_emulated_disk_reads_wait_for_flushes() {
    let dir = tempfile::tempdir().unwrap();
    let load = load(
        &dir,
        "[log]\nrw=write\ndirect=1\nioengine=libaio\nfdatasync=1\n[reader]\nrw=randread\ndirect=1\nioengine=libaio\n",
    );
    let reads = |more: &[&str]| {
        let simulate = [
            "simulate",
            "--json",
            "--disk",
            "ssd-sata",
            "--scheduler",
            "noop,none",
        ];
        let output = answer(&[&simulate[..], &["--until", "1", "--load", &load], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let runs = result["runs"].as_array().unwrap().iter();
        runs.map(|run| run["total"]["read"]["accesses"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    for (plain, emulated) in reads(&[]).into_iter().zip(reads(&["--emulated"])) {
        assert!(emulated > 0 && emulated * 2 < plain, "{emulated} {plain}");
    }
}

#[test]
fn the_events_of_a_run_are_followed_to_the_last_decision() {
    let dir = tempfile::tempdir().unwrap();
    let load = load(
        &dir,
        "[w]\nrw=randwrite\ndirect=1\nioengine=libaio\niodepth=32\n[r]\nrw=randread\ndirect=1\nioengine=libaio\nnumjobs=2\n",
    );
    let events = dir.path().join("events").display().to_string();
    let simulate = [
        "simulate",
        "--disk",
        "fixed",
        "--scheduler",
        "deadline",
        "--until",
        "2",
        "--load",
        &load,
        "--events",
        &events,
        "--max-sectors-kb",
        "512",
    ];
    let output = answer(&simulate);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = answer(&["conform", "--json", "--scheduler", "deadline", &events]);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["agreement"], 1.0, "{result}");
    assert!(result["decisions"].as_u64().unwrap() > 1_000);
    for key in [
        "trace",
        "scheduler",
        "agreed",
        "eager",
        "merge_mismatches",
        "first_disagreements",
    ] {
        assert!(!result[key].is_null(), "{key} is missing");
    }
    let output = answer(&["conform", "--scheduler", "noop", &events]);
    let words = text(&output.stdout);
    assert!(
        words.contains("noop agrees on") && words.contains(": recorded read "),
        "{words}"
    );
    // A second run does not write over the first one's events.
    let output = answer(&simulate);
    assert!(
        text(&output.stderr).contains("cannot write"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn agreement_without_a_choice_is_told_and_is_none_for_an_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let conform = |depth: u32| {
        let load = load(
            &dir,
            &format!("[r]\nrw=randread\ndirect=1\nioengine=libaio\niodepth={depth}\n"),
        );
        let events = dir.path().join(format!("events-{depth}"));
        let events = events.display().to_string();
        let simulate = ["simulate", "--disk", "fixed", "--scheduler", "deadline"];
        let rest = ["--until", "1", "--load", &load, "--events", &events];
        let output = answer(&[&simulate[..], &rest].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let output = answer(&["conform", &events, "--exit-code=100"]);
        (output.status.code(), text(&output.stdout))
    };
    let (code, alone) = conform(1);
    assert_eq!(code, Some(23), "{alone}");
    assert!(
        alone.contains("(100.000 %)\n  no decision had a choice"),
        "{alone}"
    );
    let (code, many) = conform(32);
    assert_eq!(code, Some(0), "{many}");
    assert!(many.contains("\n  with a choice: "), "{many}");
}

#[test]
fn recordings_below_a_folder_are_followed_though_one_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let load = load(
        &dir,
        "[r]\nrw=randread\ndirect=1\nioengine=libaio\niodepth=4\n",
    );
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.path().join("all").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let events = write("b/2.txt", b"");
    std::fs::remove_file(&events).unwrap();
    let simulate = [
        "simulate",
        "--disk",
        "fixed",
        "--scheduler",
        "noop",
        "--until",
        "1",
    ];
    let output = answer(&[&simulate[..], &["--load", &load, "--events", &events]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let recorded = std::fs::read(&events).unwrap();
    let damaged = write("b/1.trace.gz", b"\x1f\x8b no gzip");
    write("a-recording-without-a-name", &recorded);
    write("notes.md", b"What was recorded where.");
    let folder = dir.path().join("all").display().to_string();
    let output = answer(&["conform", "--scheduler", "noop", &folder]);
    let words = text(&output.stdout);
    let followed: Vec<_> = words
        .lines()
        .filter(|line| line.contains(" agrees on "))
        .collect();
    assert_eq!(followed.len(), 2, "{words}");
    assert!(
        followed[0].contains("a-recording-without-a-name: noop agrees on "),
        "{words}"
    );
    assert!(followed[1].contains("b/2.txt: noop agrees on "), "{words}");
    let errors = text(&output.stderr);
    assert!(
        errors.contains(&format!("cannot read {damaged} ")),
        "{errors}"
    );
    assert!(
        errors.contains("1 of 3 recordings could not be followed"),
        "{errors}"
    );
    assert_eq!(output.status.code(), Some(1));
    let output = answer(&[
        "conform",
        "--scheduler",
        "noop",
        "--json",
        &damaged,
        &events,
    ]);
    assert_eq!(text(&output.stdout).lines().count(), 1);
    assert_eq!(output.status.code(), Some(1));
}

#[track_caller]
fn fails(arguments: &[&str], code: i32, message: &str) {
    let output = answer(arguments);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    assert!(stderr.contains(message), "{arguments:?}: {stderr}");
    assert_eq!(stderr.matches("error:").count(), 1, "{stderr}");
}

#[test]
fn what_cannot_be_simulated_is_said_with_its_reason_and_code() {
    let dir = tempfile::tempdir().unwrap();
    let load = load(
        &dir,
        "[a]\nrw=read\ndirect=1\nioengine=libaio\nverify=md5\n",
    );
    fails(
        &["simulate", "--load", &load],
        2,
        "`verify` is not simulated",
    );
    fails(
        &["simulate", "--load", "/proc/nonexistent"],
        2,
        "cannot read job file /proc/nonexistent",
    );
    fails(
        &["simulate", "--load", &load, "--disk", "x"],
        2,
        "no disk model is called `x`",
    );
    fails(
        &["simulate", "--load", &load, "--scheduler", "x"],
        5,
        "no scheduler is called `x`",
    );
    let quantum = ["simulate", "--load", &load, "--scheduler", "cfq:quantum=0"];
    fails(
        &quantum,
        6,
        "cfq: quantum cannot be 0: it can be 1 to 4294967295",
    );
    let groups = dir.path().join("groups").display().to_string();
    std::fs::write(
        &groups,
        "[a]\nrw=read\ndirect=1\nioengine=libaio\nsize=1m\ncgroup=one\n",
    )
    .unwrap();
    fails(
        &["simulate", "--load", &groups, "--scheduler", "bfq"],
        6,
        "bfq is not simulated with cgroups",
    );
    let throttled = ["simulate", "--wbt-lat", "2ms", "--until", "100ms"];
    for name in ["noop", "deadline", "cfq"] {
        fails(
            &[&throttled[..], &["--scheduler", name]].concat(),
            6,
            &format!("write-back throttling is not simulated with {name}"),
        );
    }
    // Where all are meant, those that have it are.
    let all: serde_json::Value =
        serde_json::from_slice(&answer(&[&throttled[..], &["--json"]].concat()).stdout).unwrap();
    let runs = all["runs"].as_array().unwrap().iter();
    let names: Vec<&str> = runs.map(|run| run["scheduler"].as_str().unwrap()).collect();
    assert_eq!(names, ["none", "mq-deadline", "kyber", "bfq"]);
}

#[test]
fn what_cannot_be_followed_is_said_with_its_reason_and_code() {
    let dir = tempfile::tempdir().unwrap();
    let load = load(
        &dir,
        "[a]\nrw=read\ndirect=1\nioengine=libaio\nverify=md5\n",
    );
    fails(
        &["conform", "--scheduler", "noop", &load],
        2,
        "line 1: 1 columns where at least 6",
    );
    let empty = dir.path().join("empty").display().to_string();
    std::fs::write(&empty, "# nothing\n").unwrap();
    fails(
        &["conform", "--scheduler", "noop", &empty],
        2,
        "holds no decision of a scheduler",
    );
    fails(
        &["conform", "--scheduler", "bfg", &empty],
        5,
        "no scheduler is called `bfg` here; there are: noop",
    );
    for (name, text, message) in [
        (
            "nothing",
            "",
            "does not read like a recording: its first lines are no events",
        ),
        (
            "silent.txt",
            "0.000 Q R 8 8 1 a a\n",
            "does not say under which scheduler it was made",
        ),
    ] {
        let path = dir.path().join(name).display().to_string();
        std::fs::write(&path, text).unwrap();
        fails(&["conform", &path], 2, message);
        std::fs::remove_file(path).unwrap();
    }
    let old = ["conform", "--scheduler", "mq-deadline:kernel=4.19", &empty];
    fails(&old, 6, "mq-deadline of Linux 4.19 is not simulated");
    let old = ["conform", "--scheduler", "bfq:kernel=4.19", &empty];
    fails(&old, 6, "bfq of Linux 4.19 is not simulated");
    let recordings = dir.path().display().to_string();
    fails(
        &["conform", "--scheduler", "mq-deadline", &recordings],
        2,
        "holds no recording: no file below it is called or reads like one",
    );
    let multi_queue = dir.path().join("mq.txt").display().to_string();
    std::fs::write(&multi_queue, "1 X - 8 8 1 a a\n").unwrap();
    fails(
        &["conform", "--scheduler", "deadline", &multi_queue],
        2,
        "line 1: this is a recording of the multi-queue block layer",
    );
    let single_queue = dir.path().join("sq.txt").display().to_string();
    std::fs::write(&single_queue, "# kernel 4.19.40 scheduler=noop\n").unwrap();
    fails(
        &["conform", "--scheduler", "kyber", &single_queue],
        2,
        "is a recording of the single-queue block layer, which has no kyber",
    );
}

#[test]
fn a_job_file_without_its_option_is_told_which() {
    let output = answer(&["simulate", "my job.fio"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.ends_with("hint: a job file is a load: --load 'my job.fio'\n"),
        "{stderr}"
    );
}

#[test]
fn a_folder_is_followed_in_the_order_in_which_it_was_made_with_the_tunables_beside() {
    let dir = tempfile::tempdir().unwrap();
    let golden = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../iosched-conform/tests/golden/"
    );
    let copy = |from: &str, to: &str| {
        std::fs::copy(format!("{golden}{from}.txt.gz"), dir.path().join(to)).unwrap();
    };
    copy("mq-deadline-sd4-e3_rt_be_idle", "b.txt.gz");
    copy("mq-deadline-sd1-l_rw_aio32", "a.txt.gz");
    let tunables = dir.path().join("tunables.txt");
    std::fs::write(&tunables, "/sys/block/sda/queue/iosched/fifo_batch: 3\n").unwrap();
    let folder = dir.path().display().to_string();
    let follow = || -> Vec<serde_json::Value> {
        let output = answer(&["conform", "--json", "--scheduler", "mq-deadline", &folder]);
        let lines = text(&output.stdout);
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let other_batches = follow();
    assert!(other_batches[1]["agreement"].as_f64().unwrap() < 0.95);
    std::fs::remove_file(tunables).unwrap();
    let [first, second] = &follow()[..] else {
        panic!("two recordings")
    };
    // The workers' process numbers tell, not the names.
    assert!(first["trace"].as_str().unwrap().ends_with("b.txt.gz"));
    assert_eq!(
        (&first["agreed"], &second["agreed"]),
        (&865.into(), &2034.into())
    );
    assert_eq!(
        (&first["start_state"], &second["start_state"]),
        (&"cold".into(), &"carried".into())
    );
    // The edges of ticks at which held requests went on tell where ticks began.
    assert_eq!(first["eager"], 0);
    let phase = first["tick_phase_us"].as_f64().unwrap();
    assert!((phase - 2206.0).abs() < 50.0, "{phase}");
}

#[test]
fn what_cfq_knew_before_a_recording_is_carried_told_or_found() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["f1_think2_aiow", "f2_think12_aiow"] {
        let from = recording(&format!("cfq-hdd1-{name}.txt.gz"));
        std::fs::copy(from, dir.path().join(format!("{name}.txt.gz"))).unwrap();
    }
    let folder = dir.path().display().to_string();
    let follow = |initial: &[&str]| {
        let output = answer(&[&["conform", "--json", &folder], initial].concat());
        let lines = text(&output.stdout);
        let followed: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        followed
    };
    // Before the first one others ran that were not recorded: something of it has to be found.
    let found = follow(&[]);
    assert_eq!(found[0]["start_values"], "last-position=18367808");
    for one in &found {
        assert_eq!(one["start_state"], "found");
        assert_eq!(one["agreed"], one["decisions"]);
    }
    // What is told is taken as it is.
    let told = "f1_think2_aiow:last-position=0;f2_think12_aiow:noidle-think=8000";
    let told = follow(&["--initial", told]);
    let right = |one: &Value| one["agreed"] == one["decisions"];
    assert_eq!((right(&told[0]), right(&told[1])), (false, true));
    for one in &told {
        assert_eq!(one["start_state"], "told");
    }
    // A scheduler that was not the recorded one does not become it.
    let other = follow(&["--scheduler", "deadline"]);
    assert!(other[0]["agreement"].as_f64().unwrap() < 0.9);
}

/// A recording of Linux in the simulator's tests.
fn recording(name: &str) -> String {
    let golden = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../iosched-conform/tests/golden"
    );
    format!("{golden}/{name}")
}

#[test]
fn a_recording_says_which_scheduler_follows_it_and_another_one_is_named() {
    let trace = recording("mq-deadline-sd1-l_rw_aio32.txt.gz");
    let output = answer(&["conform", &trace]);
    let said = text(&output.stdout);
    assert!(
        said.contains(": mq-deadline agrees on 2034 of 2034"),
        "{said}"
    );
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    let output = answer(&["conform", &trace, "--scheduler", "kyber"]);
    let note = text(&output.stderr);
    let words = "was recorded under mq-deadline, and is followed with kyber";
    assert!(note.contains(words), "{note}");
    let other = recording("noop-hdd1-d_mixed_aio.txt.gz");
    let output = answer(&["conform", &trace, &other]);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(
        error.contains("of several schedulers: mq-deadline, noop"),
        "{error}"
    );
}

#[test]
fn reads_and_writes_of_a_mixed_job_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = "[mixed]\nrw=randrw\ndirect=1\nioengine=libaio\nrwmixread=70\nbs=4k\n[reads]\nrw=randread\ndirect=1\nioengine=libaio\nbs=4k\n";
    let load = load(&dir, jobs);
    let output = answer(&["simulate", "--json", "--until", "3", "--load", &load]);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &result["runs"][0];
    let [mixed, reads] = [0, 1].map(|index| &run["processes"][index]);
    let accesses = |share: &Value| share["accesses"].as_u64().unwrap();
    let sum = accesses(&mixed["read"]) + accesses(&mixed["write"]);
    assert_eq!(sum, accesses(mixed));
    assert!(accesses(&mixed["read"]) > accesses(&mixed["write"]));
    assert!(mixed["write"]["latency"]["p99_ns"].as_u64().unwrap() > 0);
    assert!(reads["read"].is_null(), "it is the whole: {reads}");
    assert_eq!(accesses(&run["total"]["write"]), accesses(&mixed["write"]));
}

#[test]
fn jobs_run_as_long_as_they_say_and_others_are_said_to_be_cut() {
    let dir = tempfile::tempdir().unwrap();
    let simulated = |jobs: &str, more: &[&str]| {
        let load = load(&dir, jobs);
        let fixed = ["simulate", "--disk", "formula", "--scheduler", "noop"];
        let output = answer(&[&fixed[..], &["--load", &load], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let seconds = |jobs: &str, more: &[&str]| {
        let (json, _) = simulated(jobs, &[&["--json"], more].concat());
        let result: Value = serde_json::from_str(&json).unwrap();
        let elapsed = result["runs"][0]["elapsed_ns"].as_u64().unwrap();
        let cut = result["cut_at_ns"].as_u64();
        (
            elapsed.div_ceil(1_000_000_000),
            cut.map(|at| at / 1_000_000_000),
        )
    };
    let one = "[a]\nrw=randread\ndirect=1\nioengine=libaio\nruntime=30\ntime_based\n";
    assert_eq!(seconds(one, &[]), (30, None));
    assert_eq!(seconds(one, &["--until", "20s"]), (20, None));
    let two = format!(
        "{one}[b]\nstonewall\nstartdelay=5\nrw=read\ndirect=1\nioengine=libaio\nruntime=12\ntime_based\n"
    );
    assert_eq!(seconds(&two, &[]), (47, None));
    let endless = "[a]\nrw=randread\ndirect=1\nioengine=libaio\n";
    assert_eq!(seconds(endless, &[]), (10, Some(10)));
    let (_, said) = simulated(endless, &[]);
    assert!(said.contains("ended after 10 s"), "{said}");
    assert!(said.contains("--until"), "{said}");
    let small = "[a]\nrw=read\ndirect=1\nioengine=libaio\nbs=64k\nsize=1m\n";
    assert_eq!(seconds(small, &[]), (1, None), "it ends by itself");
}

#[test]
fn a_load_that_cannot_be_simulated_is_named_with_what_can() {
    let output = answer(&["simulate", "--load", "pgbench"]);
    let error = text(&output.stderr);
    assert!(error.contains("no job file is called pgbench"), "{error}");
    assert!(error.contains("random-read"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let two = load(
        &dir,
        "[a]\nrw=read\ndirect=1\nioengine=libaio\nfilename=/dev/sda:/dev/sdb\n",
    );
    let output = answer(&["simulate", "--load", &two]);
    let error = text(&output.stderr);
    assert!(error.contains("line 5: filename cannot be"), "{error}");
}
