//! `scripts/write-up`: what it refuses, the commands that it would run, and its table, made from records.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use iosched_testing::{is_root, lacks};

use crate::common::lab::Lab;
use crate::common::{iosched, stand_in, text};

/// The script with an `iosched` of the caller's.
fn write_up(iosched: &Path, arguments: &[&str]) -> Output {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/write-up"))
        .args(arguments)
        .env("IOSCHED", iosched)
        .output()
        .unwrap()
}

fn real() -> &'static Path {
    Path::new(assert_cmd::cargo::cargo_bin!("iosched"))
}

#[test]
fn help_names_every_option_and_what_cannot_be_is_refused_with_a_hint() {
    let help = write_up(real(), &["--help"]);
    assert!(help.status.success());
    let help = text(&help.stdout);
    for option in [
        "--full",
        "--rounds",
        "--repetitions",
        "--out",
        "--dry-run",
        "--tables",
        "--document",
    ] {
        assert!(
            help.contains(&format!("\n    {option} ")),
            "{option}: {help}"
        );
    }
    for (arguments, cause) in [
        (&[][..], "which write-up?"),
        (&["9"], "there is no write-up 9; there are: 1 2 3 4"),
        (&["3", "3"], "one write-up at a time"),
        (&["3", "--rounds", "1"], "--rounds wants a number from 2 on"),
        (&["3", "--rounds"], "--rounds wants a value"),
        (&["3", "--repetitions", "x"], "--repetitions wants a number"),
        (
            &["3", "--rounds", "99999"],
            "from 2 on, 9999 at the most, not 99999",
        ),
        (&["3", "--fast"], "there is no option --fast"),
        (&["3", "--tables", ""], "--tables wants a value"),
        (
            &["3", "--document", "x", "--dry-run"],
            "--document writes, and --dry-run does not",
        ),
        (&["3", "--tables", "/nowhere"], "cannot read /nowhere"),
        (
            &["3", "--document", "a", "--tables", "b"],
            "one file of results at a time: a or b",
        ),
    ] {
        let output = write_up(real(), arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(cause), "{arguments:?}: {said}");
        assert!(said.contains("hint: scripts/write-up --help"), "{said}");
    }
}

#[test]
fn a_dry_run_writes_nothing_and_its_simulation_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = fs::read_to_string(root.join("docs/write-ups.md")).unwrap();
    for (number, disks) in [("1", 1), ("2", 2), ("3", 1), ("4", 2)] {
        // Its page begins with what the document tells of it.
        let told = document.split_once(&format!("\n## {number}. ")).unwrap().1;
        for part in [
            "What they had.",
            "What they did.",
            "What they got.",
            "What we run.",
        ] {
            let begins = told.split("\n## ").next().unwrap();
            assert!(begins.contains(&format!("**{part}**")), "{number}: {part}");
        }
        for size in [&[][..], &["--full"]] {
            let arguments = [&[number, "--dry-run", "--out", out.to_str().unwrap()], size].concat();
            let output = write_up(real(), &arguments);
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert!(!out.exists());
            let said = text(&output.stderr);
            let commands: Vec<&str> = said.lines().collect();
            assert_eq!(commands.len(), 2 * disks, "{said}");
            for pair in commands.chunks(2) {
                assert!(pair[0].contains("tune --emulate "), "{said}");
                assert!(pair[1].contains("tune --simulate "), "{said}");
                assert_accepted(pair[1]);
            }
        }
    }
}

/// The command that was printed, quoted for a shell, passes as a dry run.
fn assert_accepted(printed: &str) {
    let dry = format!("{} --dry-run", printed.strip_prefix("+ ").unwrap());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tried = Command::new("bash")
        .args(["-c", &dry])
        .current_dir(root)
        .output()
        .unwrap();
    assert!(tried.status.success(), "{}", text(&tried.stderr));
}

/// The emulated part is replaced by a simulated one: what is tested is the way from records to the table.
#[test]
fn the_table_has_theirs_beside_ours_and_nothing_is_overwritten() {
    if !is_root() {
        return;
    }
    if Command::new("jq").arg("--version").output().is_err() {
        return lacks("jq");
    }
    let dir = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let script = format!(
        "#!/bin/bash\nreal={}\n\
         [[ $* == *--emulate* ]] || exec \"$real\" \"$@\"\n\
         exec \"$real\" tune --simulate raid10-15k --load {}/examples/write-ups/3-read.fio --arms cfq,deadline,noop \
         --arms cfq:slice_idle=0,group_idle=0 --runtime 1s --fixed-rounds 2 --out \"${{@: -1}}\"\n",
        real().display(),
        root.display(),
    );
    let (stand_in, _) = stand_in(dir.path(), "iosched", &script);
    let out = dir.path().join("out");
    let arguments = [
        &["3", "--rounds", "2", "--repetitions", "2"][..],
        &["--out", out.to_str().unwrap()],
    ]
    .concat();
    let output = write_up(&stand_in, &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = fs::read_to_string(out.join("table.md")).unwrap();
    let head = "raid10-15k:\n\n| times as fast as cfq | deadline: ours (95 %) | noop: theirs | ours (95 %) |";
    assert!(table.starts_with(head), "{table}");
    let row = "\n| read, cold, as stored (virtual time) | ";
    assert!(table.contains(row), "{table}");
    assert!(text(&output.stdout).contains(&table));
    // The page tells what they did, from the document, and has the rows of the table and the pages of the runs.
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    for part in [
        "<h1>3. The document server</h1>",
        "<b>What they did.</b> 80 threads",
        "<td>read, cold, as stored (virtual time)</td>",
        "<iframe src=\"raid10-15k/simulate/report.html\"",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(
        !page.contains("What we run") && !page.contains('|'),
        "{page}"
    );
    assert!(out.join("raid10-15k/simulate/report.html").exists());

    // Each way to conclude has concluded twice.
    let concluded = |by: &str| -> u32 {
        let rows = table
            .lines()
            .filter(|line| line.starts_with(&format!("| {by} | ")));
        rows.map(|row| {
            row.split(" | ")
                .nth(2)
                .unwrap()
                .trim_end_matches(" |")
                .parse::<u32>()
                .unwrap()
        })
        .sum()
    };
    for by in ["one run each", "three runs with points", "tune"] {
        assert_eq!(concluded(by), 2, "{by}: {table}");
    }
    // Ratios have two decimals, theirs and ours.
    let ratios: Vec<&str> = table
        .split([' ', '(', ')', '-'])
        .filter(|word| word.chars().all(|c| c.is_ascii_digit() || c == '.'))
        .filter(|word| word.contains('.'))
        .collect();
    assert!(ratios.len() >= 8, "{table}");
    for ratio in ratios {
        assert_eq!(
            ratio.split_once('.').unwrap().1.len(),
            2,
            "{ratio}: {table}"
        );
    }

    // Ratios are how many times as fast as the first arm, whatever decides a load.
    let report = iosched()
        .args(["report", "--json"])
        .arg(out.join("raid10-15k/simulate"))
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let contest = &report["loads"][1]["contest"];
    assert_eq!(contest["better"], "higher");
    let noop = &contest["arms"][2];
    assert_eq!(noop["arm"], "noop");
    let ratio = noop["to_baseline"]["estimate"].as_f64().unwrap();
    let cells: Vec<&str> = table.split_once(row).unwrap().1.split(" | ").collect();
    assert_eq!(cells[1], "1.82");
    let said: f64 = cells[2].split(' ').next().unwrap().parse().unwrap();
    assert!((said - ratio).abs() < 0.006, "{said} of {ratio}: {table}");

    assert_tables_come_from_results(&out, &table);

    let again = write_up(&stand_in, &arguments);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("is there already"));
}

/// Tables are made from the results alone, each trial's figure among them.
fn assert_tables_come_from_results(out: &Path, table: &str) {
    let results = out.join("results.jsonl");
    let made = write_up(real(), &["3", "--tables", results.to_str().unwrap()]);
    assert_eq!(text(&made.stdout).trim_end(), table.trim_end());
    let results = fs::read_to_string(results).unwrap();
    let lines: Vec<serde_json::Value> = results
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["machine"]["cpus"], report_header(out)["cpus"]);
    let loads: Vec<_> = lines
        .iter()
        .filter(|line| line["arms"].is_array())
        .collect();
    assert_eq!(loads.len(), 3, "{results}");
    for load in loads {
        for arm in load["arms"].as_array().unwrap() {
            assert_eq!(arm["trials"].as_array().unwrap().len(), 2, "{load}");
        }
    }
}

/// The machine as the simulated part's record tells of it.
fn report_header(out: &Path) -> serde_json::Value {
    let record = fs::read_to_string(out.join("raid10-15k/simulate/record.jsonl")).unwrap();
    let head: serde_json::Value = serde_json::from_str(record.lines().next().unwrap()).unwrap();
    head["machine"].clone()
}

#[test]
fn tables_of_the_document_are_those_of_the_results_that_are_kept_beside_it() {
    if Command::new("jq").arg("--version").output().is_err() {
        return lacks("jq");
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let document = fs::read_to_string(docs.join("write-ups.md")).unwrap();
    for number in ["1", "2", "3", "4"] {
        let kept = docs.join(format!("write-ups/{number}.jsonl"));
        let begins = format!("\n<!-- tables of {number} -->\n");
        let (_, rest) = document
            .split_once(&begins)
            .expect("a place for its tables");
        let (tables, _) = rest
            .split_once("\n<!-- end of tables -->\n")
            .expect("its end");
        let made = write_up(real(), &[number, "--tables", kept.to_str().unwrap()]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        assert_eq!(tables.trim(), text(&made.stdout).trim(), "{number}");
    }
}

#[test]
fn a_place_that_cannot_be_made_and_a_command_that_is_none_are_refused() {
    if !is_root() {
        return;
    }
    if Command::new("jq").arg("--version").output().is_err() {
        return lacks("jq");
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("file"), "").unwrap();
    std::os::unix::fs::symlink(at("nowhere"), at("link")).unwrap();
    for (iosched, out, cause) in [
        (real(), "file", "is there already"),
        (real(), "link", "is there already"),
        (real(), "file/below", "cannot make "),
        (dir.path(), "new", "is missing, or no program"),
    ] {
        let output = write_up(iosched, &["3", "--out", at(out).to_str().unwrap()]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{out}: {said}");
        assert!(said.contains(cause), "{out}: {said}");
        assert!(!at("new").exists());
    }
}

/// The same results, but that no trial of the first load is told.
fn without_trials(results: &str) -> String {
    let mut lines: Vec<serde_json::Value> = results
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let load = lines.iter_mut().find(|line| line["arms"].is_array());
    load.expect("it has loads")["arms"][1]["trials"] = serde_json::json!([]);
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    lines.join("\n") + "\n"
}

#[test]
fn what_is_no_complete_results_of_this_write_up_is_refused_and_the_document_stays() {
    if Command::new("jq").arg("--version").output().is_err() {
        return lacks("jq");
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let kept = fs::read_to_string(docs.join("write-ups/4.jsonl")).unwrap();
    let before =
        ["write-ups.md", "write-ups/1.jsonl"].map(|file| fs::read(docs.join(file)).unwrap());
    let lines: Vec<&str> = kept.lines().collect();
    let without_second_load = [&lines[..1], &lines[2..]].concat().join("\n");
    let mut of_one_disk = lines.clone();
    of_one_disk.retain(|line| line.contains("\"disk\":\"raid5-15k\""));
    let dir = tempfile::tempdir().unwrap();
    for (number, results, cause) in [
        ("1", kept.clone(), "it is of 4"),
        ("4", String::new(), "it has no trials"),
        ("4", "garbage".into(), "it is damaged ("),
        ("4", "[1]".into(), "a line is none of results"),
        ("4", kept[..3000].to_owned(), "it is damaged ("),
        (
            "4",
            without_second_load,
            "of raid5-15k, emulated, it has 1 of 2 loads",
        ),
        (
            "4",
            kept.replacen("\"deadline\"", "\"d\"", 3),
            "the loads were not under the same schedulers",
        ),
        (
            "4",
            kept.replacen("\"lower\":0.", "\"lower\":-0.", 1),
            "a ratio is missing",
        ),
        ("4", without_trials(&kept), "a ratio has no trials"),
        (
            "4",
            kept.replacen("\"trials\":[", "\"trials\":[null,", 1),
            "a ratio has no trials",
        ),
        (
            "4",
            kept.replacen("\"concluded\":[[", "\"concluded\":[[1,", 1),
            "a conclusion is missing",
        ),
        ("4", format!("{kept}{}\n", lines[1]), "a load is told twice"),
        (
            "4",
            of_one_disk.join("\n"),
            "it has nothing of raid10-sas-ssd, emulated",
        ),
    ] {
        fs::write(dir.path().join("results.jsonl"), &results).unwrap();
        for option in ["--tables", "--document"] {
            // Named from where the caller stands.
            let output = Command::new(docs.join("../scripts/write-up"))
                .args([number, option, "results.jsonl"])
                .current_dir(dir.path())
                .output()
                .unwrap();
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{cause}: {said}");
            let whole = format!("results.jsonl is no results.jsonl of write-up {number}: {cause}");
            assert!(said.contains(&whole), "{cause}: {said}");
            assert_eq!(text(&output.stdout), "");
        }
    }
    let after =
        ["write-ups.md", "write-ups/1.jsonl"].map(|file| fs::read(docs.join(file)).unwrap());
    assert!(before == after, "the document was changed");
}

#[test]
fn a_document_in_which_tables_do_not_end_stays_as_it_is() {
    if Command::new("jq").arg("--version").output().is_err() {
        return lacks("jq");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = tempfile::tempdir().unwrap();
    for part in ["scripts", "docs"] {
        let copied = Command::new("cp")
            .arg("-r")
            .arg(root.join(part))
            .arg(dir.path())
            .status();
        assert!(copied.unwrap().success());
    }
    let document = dir.path().join("docs/write-ups.md");
    let whole = fs::read_to_string(&document).unwrap();
    let end = "\n<!-- end of tables -->\n";
    for number in ["1", "4"] {
        // The end of its own tables; after those of 1 others have one.
        let (before, after) = whole
            .split_once(&format!("\n<!-- tables of {number} -->\n"))
            .unwrap();
        let damaged = format!(
            "{before}\n<!-- tables of {number} -->\n{}",
            after.replacen(end, "\n", 1)
        );
        fs::write(&document, &damaged).unwrap();
        let output = Command::new(dir.path().join("scripts/write-up"))
            .args([
                number,
                "--document",
                &format!("docs/write-ups/{number}.jsonl"),
            ])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("has no line <!-- end of tables -->"),
            "{said}"
        );
        assert_eq!(fs::read_to_string(&document).unwrap(), damaged);
        assert!(!dir.path().join("docs/write-ups.md.new").exists());
    }
}

#[test]
fn two_schedulers_one_above_the_other_are_compared_or_refused_with_a_hint() {
    if !is_root() || Lab::new(&["fio", "jq", "losetup"]).is_none() {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/two-schedulers");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let two_schedulers = |arguments: &[&str]| {
        Command::new(&script)
            .args(arguments)
            .args(["--out", out.to_str().unwrap()])
            .env("IOSCHED", real())
            .envs([("RUNTIME", "1"), ("SCHEDULERS", "deadline noop")])
            .env("LOADS", "examples/live/random-read.fio")
            .output()
            .unwrap()
    };
    for (arguments, cause) in [
        (&["--rounds", "1"][..], "--rounds wants a number from 2 on"),
        (&["--fast"], "there is no option --fast"),
    ] {
        let output = two_schedulers(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(cause), "{said}");
        assert!(!out.exists());
    }
    let output = two_schedulers(&["--rounds", "2"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = fs::read_to_string(out.join("table.md")).unwrap();
    for host in ["deadline", "noop"] {
        assert!(
            table.contains(&format!("| random-read | {host} | ")),
            "{table}"
        );
    }
    assert_eq!(text(&output.stdout), table);
}
