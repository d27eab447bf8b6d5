//! `iosched report` in its other forms: charts as files, Markdown, tidy data that others can read.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot read its own results has failed"
)]

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
fn every_chart_is_a_file_as_svg_and_as_png() {
    let directory = tempfile::tempdir().unwrap();
    let (svgs, pngs) = (directory.path().join("svg"), directory.path().join("png"));
    done(&[
        "report",
        path(&example()),
        "--svg",
        path(&svgs),
        "--png",
        path(&pngs),
    ]);
    let names = |directory: &Path| -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .unwrap()
                    .path()
                    .file_stem()
                    .unwrap()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&svgs), names(&pngs));
    assert!(
        names(&svgs).contains(&"ratio".to_owned()),
        "{:?}",
        names(&svgs)
    );
    for name in names(&svgs) {
        let svg = fs::read_to_string(svgs.join(format!("{name}.svg"))).unwrap();
        assert!(
            svg.contains("</svg>") && !svg.contains("NaN"),
            "{name}: {svg}"
        );
        let png = fs::read(pngs.join(format!("{name}.png"))).unwrap();
        assert!(png.starts_with(b"\x89PNG") && png.len() > 5000, "{name}");
    }
}

#[test]
fn a_page_replaces_a_link_instead_of_following_it() {
    let directory = tempfile::tempdir().unwrap();
    let (page, victim) = (
        directory.path().join("page.html"),
        directory.path().join("victim"),
    );
    fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, &page).unwrap();
    done(&["report", path(&example()), "--html", path(&page)]);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(
        fs::read_to_string(&page)
            .unwrap()
            .starts_with("<!doctype html>")
    );
}

#[test]
fn what_cannot_be_done_is_said_with_the_way_out() {
    let directory = tempfile::tempdir().unwrap();
    let simulated = directory.path().join("simulated.json");
    fs::write(&simulated, done(&["simulate", "--until", "1", "--json"])).unwrap();
    let other = directory.path().join("other.json");
    fs::write(&other, "{\"a\": 1}").unwrap();
    let example = example();
    for (args, words) in [
        (
            vec![path(&simulated), "--csv"],
            "is for results directories",
        ),
        (
            vec![path(&simulated), path(&example)],
            "can be put side by side",
        ),
        (vec![path(&other)], "is JSON, but not what"),
        (vec!["/nonexistent/record"], "cannot read"),
        (
            vec![path(&example), "--html", "/nonexistent/page.html"],
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
    let shown = done(&["report", path(&simulated)]);
    assert!(shown.contains("deadline"), "{shown}");
}

#[test]
fn a_ticket_has_every_ratio_of_the_terminal() {
    let markdown = done(&["report", path(&example()), "--md"]);
    let text = done(&["report", path(&example())]);
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
        "share, p99 ms",
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
        eprintln!("SKIPPED: needs python3-pandas and python3-matplotlib");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (csv, picture) = (
        directory.path().join("a.csv"),
        directory.path().join("a.png"),
    );
    fs::write(&csv, done(&["report", path(&example()), "--csv"])).unwrap();
    let script = root().join("examples/analysis/compare.py");
    let output = Command::new("/usr/bin/python3")
        .args([path(&script), path(&csv), path(&picture)])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(fs::metadata(&picture).unwrap().len() > 10_000);
    // What pandas works out of it is what the race worked out: the mean of the log-ratios.
    let analysis = done(&["report", path(&example()), "--json"]);
    let analysis: Value = serde_json::from_str(&analysis).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
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
