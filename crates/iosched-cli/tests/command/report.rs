//! `iosched report` in its other forms: charts as files, Markdown, tidy data.
use iosched_testing::lacks;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A real record: a tune of two loads on an emulated disk.
fn example() -> PathBuf {
    root().join("docs/example-record")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn iosched(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_iosched"))
        .args(args)
        .output()
        .unwrap()
}

fn done(args: &[&str]) -> String {
    let output = iosched(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn what_is_printed_is_printed_beside_files_and_never_mixed_with_one() {
    let printed = iosched(&["report", path(&example()), "--html", "-"]);
    let page = String::from_utf8(printed.stdout).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert_eq!(String::from_utf8_lossy(&printed.stderr), "");
    assert!(!Path::new("-").exists());
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.html");
    for form in ["--json", "--md", "--csv"] {
        let alone = done(&["report", path(&example()), form]);
        let beside = done(&["report", path(&example()), form, "--html", path(&page)]);
        assert!(!alone.is_empty() && beside == alone, "{form}: {beside}");
        assert!(fs::read_to_string(&page).unwrap().starts_with("<!doctype"));
        fs::remove_file(&page).unwrap();
        let mixed = iosched(&["report", path(&example()), form, "--html", "-"]);
        let said = String::from_utf8_lossy(&mixed.stderr);
        assert_eq!(mixed.status.code(), Some(2), "{said}");
        assert!(mixed.stdout.is_empty() && said.contains(form), "{said}");
    }
    // Without them a file is all that was asked for.
    assert_eq!(
        done(&["report", path(&example()), "--html", path(&page)]),
        ""
    );
}

#[test]
fn every_chart_is_a_file() {
    let directory = tempfile::tempdir().unwrap();
    done(&["report", path(&example()), "--svg", path(directory.path())]);
    let charts: Vec<PathBuf> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(charts.contains(&directory.path().join("ratio.svg")));
    for chart in charts {
        let svg = fs::read_to_string(&chart).unwrap();
        let is_whole = svg.contains("</svg>") && !svg.contains("NaN");
        assert!(is_whole, "{}: {svg}", chart.display());
    }
}

#[test]
fn what_cannot_be_done_is_said_with_the_way_out() {
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("other.json");
    fs::write(&other, "{\"a\": 1}").unwrap();
    let example = example();
    for (args, words) in [
        (vec![path(&other)], "this is no trace that is known here"),
        (
            vec![path(&example), path(&other)],
            "report records and traces apart",
        ),
        (
            vec!["/proc/nonexistent/record"],
            "there is no such directory",
        ),
        (
            vec![path(&example), "--html", "/proc/nonexistent/page.html"],
            "cannot write",
        ),
    ] {
        let output = iosched(&[&["report"], &args[..]].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && stderr.contains(words),
            "{args:?}: {stderr}"
        );
    }
}

#[test]
fn a_ticket_has_every_ratio_of_the_terminal() {
    let markdown = done(&["report", path(&example()), "--md"]);
    let text = done(&["report", path(&example()), "--details"]);
    let rows = markdown
        .lines()
        .filter(|line| line.starts_with("| ") && !line.contains("---"));
    let rows: Vec<Vec<&str>> = rows
        .map(|row| row.split('|').map(str::trim).collect())
        .collect();
    let (details, arms): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.len() < 8);
    assert_eq!(arms.len(), 2 * (1 + 4), "{markdown}");
    // A writer, four readers, and who of the five got least and most.
    let heads: Vec<&str> = details.iter().map(|row| row[1]).collect();
    let wanted = [
        "share, p99",
        "writer",
        "readers ×4",
        "smallest share",
        "largest share",
    ];
    assert_eq!(heads, wanted, "{markdown}");
    for row in arms.iter().filter(|row| row[1] != "arm") {
        let is_told = |line: &str| line.starts_with(row[1]) && line.contains(row[2]);
        assert!(text.lines().any(is_told), "{row:?} is not in\n{text}");
    }
}

#[test]
fn others_can_read_the_tidy_data() {
    let ready = Command::new("/usr/bin/python3")
        .args(["-c", "import pandas, matplotlib"])
        .output();
    if !ready.is_ok_and(|output| output.status.success()) {
        lacks("python3-pandas and python3-matplotlib");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let csv = directory.path().join("a.csv");
    fs::write(&csv, done(&["report", path(&example()), "--csv"])).unwrap();
    let picture = directory.path().join("a.png");
    let output = Command::new("/usr/bin/python3")
        .args([&root().join("examples/analysis/compare.py"), &csv, &picture])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(fs::metadata(&picture).unwrap().len() > 10_000);
    let printed = String::from_utf8(output.stdout).unwrap();
    // What pandas works out of it is what the race worked out: the mean of the log-ratios.
    let analysis = done(&["report", path(&example()), "--json"]);
    let analysis: Value = serde_json::from_str(&analysis).unwrap();
    let arms = analysis["arms"].as_array().unwrap();
    for (index, arm) in arms.iter().enumerate() {
        let ratio = &analysis["loads"][0]["contest"]["arms"][index]["to_baseline"]["estimate"];
        let start = format!("random-read,{},", arm.as_str().unwrap());
        let line = printed
            .lines()
            .find(|line| line.starts_with(&start))
            .unwrap();
        let there: f64 = line.rsplit(',').next().unwrap().parse().unwrap();
        let here = ratio.as_f64().unwrap();
        assert!((there / here - 1.0).abs() < 1e-3, "{line}, here {here}");
    }
}

#[test]
fn records_of_different_questions_are_not_compared_as_if_they_were_of_one() {
    let directory = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(example().join("record.jsonl")).unwrap();
    let kernel = text.split("\"kernel\":\"").nth(1).unwrap();
    let kernel = kernel.split('"').next().unwrap();
    let copy = |name: &str, text: &str| {
        let copy = directory.path().join(name);
        fs::create_dir(&copy).unwrap();
        fs::write(copy.join("record.jsonl"), text).unwrap();
        copy
    };
    let same = copy("same", &text);
    let other = copy("other", &text.replacen(kernel, "6.99.0", 1));
    let said = |other: &Path| done(&["report", path(&example()), path(other)]);
    assert!(said(&same).contains("The records are of the same loads, kernel, target"));
    let differ = said(&other);
    assert!(
        differ.contains("The records differ in kernel: each answers for itself")
            && differ.contains("6.99.0"),
        "{differ}"
    );
    let page = iosched(&["report", path(&example()), path(&other), "--html", "-"]);
    assert_eq!(page.status.code(), Some(2));
    let json = iosched(&["--json", "report", path(&example()), path(&other)]);
    let stderr = String::from_utf8(json.stderr).unwrap();
    assert!(stderr.contains("differ in kernel"), "{stderr}");
}

#[test]
fn a_table_in_a_pipe_has_all_its_columns() {
    let shown = |columns: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iosched"));
        command.env_remove("COLUMNS").arg("report");
        command.arg(example()).arg("--details");
        if let Some(columns) = columns {
            command.env("COLUMNS", columns);
        }
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let last = "read await";
    assert!(shown(None).contains(last) && !shown(Some("80")).contains(last));
    let sentences = shown(None);
    let mut sentences = sentences.lines().filter(|line| line.contains(" is best, "));
    assert!(sentences.all(|line| line.chars().count() <= 80));
}
