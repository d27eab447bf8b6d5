//! `iosched tune --load 'command: …'`: any program as a load, and what happens when it goes wrong.
use std::fs;

use crate::common::tuning::MIB;
use crate::common::{Mounted, can_use_loop_devices, in_one_line, iosched, processes_with};

/// A mounted disk, and the command run on it.
struct Bench {
    mounted: Mounted,
    records: tempfile::TempDir,
}

/// How a run ended.
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Bench {
    fn new() -> Option<Bench> {
        can_use_loop_devices().then(|| Bench {
            mounted: Mounted::new(64 * MIB),
            records: tempfile::tempdir().unwrap(),
        })
    }

    /// Two rounds of two arms under this command; whatever happens, nothing may be left over.
    fn tune(&self, command: &str, more: &[&str]) -> Ended {
        let before = self.mounted.disk.whole_queue();
        let output = iosched()
            .args(["tune", self.mounted.path(), "--load"])
            .arg(format!("command: {command}"))
            .args(["--arms", "none,mq-deadline", "--fixed-rounds", "2", "--out"])
            .arg(self.records.path().join("r"))
            .args(more)
            .output()
            .unwrap();
        assert_eq!(self.mounted.disk.whole_queue(), before);
        let hidden = |name: &String| name.starts_with(".iosched-");
        assert!(
            !self.mounted.names().iter().any(hidden),
            "{:?}",
            self.mounted.names()
        );
        Ended {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn record(&self) -> String {
        fs::read_to_string(self.records.path().join("r/record.jsonl")).unwrap()
    }
}

#[test]
fn a_program_is_timed_and_told_its_trial() {
    let Some(bench) = Bench::new() else { return };
    let script = "sh: echo $IOSCHED_ROUND $IOSCHED_ARM $IOSCHED_SCHEDULER $IOSCHED_SEED >> told; \
                  test $IOSCHED_TARGET = $PWD && touch $IOSCHED_SCRATCH/x && sync";
    let ended = bench.tune(
        script,
        &["--setup", "touch once", "--prepare", "sh: echo p >> each"],
    );
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        in_one_line(&ended.stdout).contains("time that the command takes (less is better)"),
        "{}",
        ended.stdout
    );
    let stays = "What a command writes where it runs stays.";
    assert!(ended.stderr.contains(stays), "{}", ended.stderr);
    assert!(ended.stdout.contains("  time  "), "{}", ended.stdout);
    let told = fs::read_to_string(bench.mounted.at.join("told")).unwrap();
    let mut told: Vec<Vec<&str>> = told.lines().map(|line| line.split(' ').collect()).collect();
    told.sort_unstable();
    let rounds_and_arms: Vec<_> = told.iter().map(|told| &told[..3]).collect();
    assert_eq!(
        rounds_and_arms,
        [
            ["1", "mq-deadline", "mq-deadline"],
            ["1", "none", "none"],
            ["2", "mq-deadline", "mq-deadline"],
            ["2", "none", "none"]
        ]
    );
    assert_eq!(told[0][3], told[1][3], "the arms of a round have one seed");
    assert_ne!(told[0][3], told[2][3], "another round has another");
    assert!(bench.mounted.at.join("once").exists());
    let each = fs::read_to_string(bench.mounted.at.join("each")).unwrap();
    assert_eq!(each.lines().count(), 4, "before each trial");
}

#[test]
fn a_number_that_it_prints_decides_either_way() {
    let Some(bench) = Bench::new() else { return };
    // mq-deadline "has" twice the number.
    let script = "sh: if [ $IOSCHED_ARM = none ]; then echo n = 10; else echo n = 20; fi";
    let ended = bench.tune(script, &["--metric", "n = ([0-9]+)", "--better", "lower"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stdout.contains("Answer: keep none"),
        "{}",
        ended.stdout
    );
    assert!(bench.record().contains("\"number\":20.0"));
    fs::remove_dir_all(bench.records.path().join("r")).unwrap();
    let json = script
        .replace("echo n = 10", "echo '{\"n\":10}'")
        .replace("echo n = 20", "echo '{\"n\":20}'");
    let ended = bench.tune(&json, &["--metric", "/n"]);
    assert!(
        ended
            .stdout
            .contains("2.00 × the printed number under none"),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_command_that_cannot_work_is_one_clear_error() {
    let Some(bench) = Bench::new() else { return };
    let cases: [(&str, &[&str], i32, &str); 8] = [
        (
            "sh: echo it broke >&2; exit 3",
            &[],
            13,
            "failed with exit code 3: it broke",
        ),
        (
            "echo tps 5",
            &["--metric", "tps = ([0-9]+)"],
            13,
            "it printed: tps 5",
        ),
        (
            "true",
            &["--metric", "tps = ([0-9+"],
            2,
            "is no regular expression: non-empty",
        ),
        ("echo {}", &["--metric", "/a"], 13, "printed no number"),
        ("iosched-no-such-program", &[], 10, "is not installed"),
        ("echo 'a", &[], 2, "a ' is not closed"),
        (
            "true",
            &["--better", "higher"],
            2,
            "must be lower where time decides",
        ),
        (
            "true",
            &["--setup", "false"],
            13,
            "--setup \"false\" failed with exit code 1",
        ),
    ];
    for (command, more, code, words) in cases {
        let ended = bench.tune(command, more);
        assert_eq!(ended.code, code, "{command}: {}", ended.stderr);
        let error = ended
            .stderr
            .lines()
            .find(|line| line.starts_with("error: "));
        let error = error.unwrap_or_else(|| panic!("{command}: {}", ended.stderr));
        assert!(error.contains(words), "{command}: {}", ended.stderr);
        assert!(
            code == 2 || ended.stderr.contains("hint: "),
            "{command}: {}",
            ended.stderr
        );
        let directory = bench.records.path().join("r");
        if directory.exists() {
            let record = bench.record();
            assert!(record.lines().count() > 1, "{command}: nothing is recorded");
            fs::remove_dir_all(directory).unwrap();
        }
    }
}

#[test]
fn options_without_the_load_that_they_are_about_are_refused() {
    // Without a target a simulated disk is meant where none can be emulated.
    if !iosched_testing::is_root() {
        return;
    }
    let cases: [(&[&str], &str); 3] = [
        (
            &["--metric", "time"],
            "--metric is about a load that is a command",
        ),
        (&["--pg", "host=/x"], "--pg is about the load pgbench"),
        (
            &["--load", "command: true", "--ramp", "1s"],
            "--ramp is not possible with it",
        ),
    ];
    for (options, words) in cases {
        let output = iosched()
            .args(["tune", "--dry-run"])
            .args(options)
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(words), "{stderr}");
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn a_command_that_hangs_is_killed_with_its_children_and_the_others_go_on() {
    let Some(bench) = Bench::new() else { return };
    // Its own number: the same test may run beside this one.
    let sleeper = format!("sleep 98765.{}", std::process::id());
    let script = format!("sh: [ $IOSCHED_ARM != bfq ] || {sleeper} & wait");
    let arms = ["--arms", "bfq", "--timeout", "10s"];
    let ended = bench.tune(&script, &arms);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("did not end within 10 s and was killed"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("bfq leaves"), "{}", ended.stderr);
    assert_eq!(processes_with(&sleeper), Vec::<u32>::new());
}

#[test]
fn a_command_that_fails_sometimes_is_repeated() {
    let Some(bench) = Bench::new() else { return };
    // The second time that it runs, it fails.
    let script = "sh: echo x >> count; [ $(wc -l < count) != 2 ]";
    let ended = bench.tune(script, &[]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(bench.record().matches("\"type\":\"void\"").count(), 1);
    assert_eq!(bench.record().matches("\"type\":\"trial\"").count(), 4);
}

#[test]
fn a_budget_that_is_spent_by_preparing_is_an_error_of_its_own() {
    let Some(bench) = Bench::new() else { return };
    let ended = bench.tune("true", &["--budget", "1s", "--setup", "sleep 1000000"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let cause = "the budget of 1 s was spent before the first trial";
    assert!(ended.stderr.contains(cause), "{}", ended.stderr);
    assert!(ended.stderr.contains("--budget"), "{}", ended.stderr);
    assert!(!bench.records.path().join("r").exists(), "it holds nothing");
}
