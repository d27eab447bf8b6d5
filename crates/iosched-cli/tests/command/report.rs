//! `iosched report` in its other forms: charts as files, Markdown, tidy data that others can read.
use iosched_testing::lacks;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
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
fn a_page_or_a_table_can_go_to_standard_output() {
    let printed = iosched(&["report", path(&example()), "--html", "-"]);
    let page = String::from_utf8(printed.stdout).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert_eq!(String::from_utf8_lossy(&printed.stderr), "");
    let table = iosched(&["report", path(&example()), "--parquet", "-"]).stdout;
    assert!(table.starts_with(b"PAR1") && table.ends_with(b"PAR1"));
    assert!(!Path::new("-").exists());
}

#[test]
fn what_is_printed_is_printed_beside_files_and_never_mixed_with_one() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.html");
    for form in ["--json", "--md", "--csv", "--points"] {
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
    let two = iosched(&["report", path(&example()), "--html", "-", "--parquet", "-"]);
    assert_eq!((two.status.code(), two.stdout.len()), (Some(2), 0));
    // Without them a file is all that was asked for.
    assert_eq!(
        done(&["report", path(&example()), "--html", path(&page)]),
        ""
    );
    let simulated = directory.path().join("simulated.json");
    fs::write(&simulated, done(&["simulate", "--until", "1", "--json"])).unwrap();
    let shown: [Value; 2] = [vec![], vec!["--html", path(&page)]].map(|more| {
        let args = [&["report", path(&simulated), "--json"], &more[..]].concat();
        serde_json::from_str(&done(&args)).unwrap()
    });
    assert_eq!(shown[0], shown[1]);
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

/// As root these would be /dev/null, /dev/stdout and a disk.
#[test]
fn only_regular_files_are_replaced_and_their_mode_stays() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let mkfifo = Command::new("mkfifo").arg(at("fifo")).status().unwrap();
    assert!(mkfifo.success());
    fs::write(at("victim"), "precious").unwrap();
    symlink("victim", at("link")).unwrap();
    symlink("/proc/self/fd/1", at("stdout")).unwrap();
    let nowhere = Path::new("/dev/iosched-test");
    let example = example();
    for (to, says) in [
        (at("fifo").as_path(), "it is no regular file"),
        (nowhere, "it is no regular file"),
        (&at("link"), "it is a symbolic link"),
        (&at("stdout"), "it is a symbolic link"),
    ] {
        let before = fs::symlink_metadata(to).ok().map(|found| found.file_type());
        for args in [
            &["report", path(&example), "--html", path(to)][..],
            &["report", path(&example), "--parquet", path(to)],
            &["check", "--textfile", path(to)],
        ] {
            let output = iosched(args);
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
            assert!(stderr.contains(says), "{args:?}: {stderr}");
            assert!(stderr.contains("`-` is standard output"), "{stderr}");
            let now = fs::symlink_metadata(to).ok().map(|found| found.file_type());
            assert_eq!(now, before, "{args:?}");
        }
    }
    assert_eq!(fs::read_to_string(at("victim")).unwrap(), "precious");
    fs::set_permissions(at("victim"), fs::Permissions::from_mode(0o600)).unwrap();
    done(&["report", path(&example), "--html", path(&at("victim"))]);
    let page = fs::read_to_string(at("victim")).unwrap();
    assert!(page.starts_with("<!doctype html>"));
    let mode = fs::metadata(at("victim")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "who may read it stays");
    let left = fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 4, "nothing else is left");
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
        (vec!["/proc/nonexistent/record"], "cannot read"),
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

/// True if the examples can run here.
fn has_pandas() -> bool {
    let ready = Command::new("/usr/bin/python3")
        .args(["-c", "import pandas, matplotlib"])
        .output();
    let is_ready = ready.is_ok_and(|output| output.status.success());
    if !is_ready {
        lacks("python3-pandas and python3-matplotlib");
    }
    is_ready
}

/// What a script of the examples prints of a CSV file, once it has drawn its picture.
fn analysed(script: &str, csv: &Path) -> String {
    let script = root().join("examples/analysis").join(script);
    let picture = csv.with_extension("png");
    let output = Command::new("/usr/bin/python3")
        .args([&script, csv, &picture])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(fs::metadata(&picture).unwrap().len() > 10_000);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_events_of_a_recording_are_rows_that_say_what_the_simulation_said() {
    let directory = tempfile::tempdir().unwrap();
    let (events, csv) = (directory.path().join("e"), directory.path().join("e.csv"));
    let simulation = ["simulate", "--scheduler", "cfq", "--until", "2"];
    done(&[&simulation[..], &["--events", path(&events)]].concat());
    let rows = done(&["report", path(&events), "--csv"]);
    let columns =
        "recording,time_ns,stage,op,sync,sector,sectors,device,process,process_name,response_ns";
    assert_eq!(rows.lines().next(), Some(columns));
    let said: Value =
        serde_json::from_str(&done(&[&simulation[..], &["--json"]].concat())).unwrap();
    let run = &said["runs"][0];
    let of_stage = |stage: &str| rows.lines().filter(|row| row.contains(stage)).count();
    assert_eq!(Some(of_stage(",issued,") as u64), run["commands"].as_u64());
    assert_eq!(
        Some(of_stage(",completed,") as u64),
        run["total"]["accesses"].as_u64()
    );
    let parquet = directory.path().join("e.parquet");
    done(&["report", path(&events), "--parquet", path(&parquet)]);
    let reader = SerializedFileReader::new(fs::File::open(&parquet).unwrap()).unwrap();
    let mut there = vec![columns.to_owned()];
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let cells = row.get_column_iter().map(|(_, field)| match field {
            Field::Str(text) => text.clone(),
            Field::Null => String::new(),
            other => other.to_string(),
        });
        there.push(cells.collect::<Vec<_>>().join(","));
    }
    assert_eq!(there, rows.lines().collect::<Vec<_>>());
    if !has_pandas() {
        return;
    }
    fs::write(&csv, &rows).unwrap();
    let printed = analysed("events.py", &csv);
    let cells: Vec<&str> = printed.trim_end().split(',').collect();
    assert_eq!(cells[..2], ["read", &of_stage(",completed,").to_string()]);
    for (cell, ours) in [
        (cells[2], &run["total"]["service_time"]["mean_ns"]),
        (cells[4], &run["mean_seek_sectors"]),
    ] {
        let unit = if cell == cells[2] { 1e6 } else { 1.0 };
        let (theirs, ours) = (cell.parse::<f64>().unwrap() * unit, ours.as_f64().unwrap());
        assert!((theirs / ours - 1.0).abs() < 1e-3, "{printed} {ours}");
    }
}

#[test]
fn others_can_read_the_tidy_data() {
    if !has_pandas() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let csv = directory.path().join("a.csv");
    fs::write(&csv, done(&["report", path(&example()), "--csv"])).unwrap();
    let printed = analysed("compare.py", &csv);
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

/// Compares a Parquet file with the CSV of the same: columns, rows, every cell.
const COMPARE: &str = "
import csv, sys
import polars
table = polars.read_parquet(sys.argv[1])
rows = list(csv.DictReader(open(sys.argv[2], newline='')))
assert table.columns == list(rows[0]), table.columns
for name in table.columns:
    column, cells = table[name].to_list(), [row[name] for row in rows]
    if table[name].dtype == polars.String:
        assert column == cells, name
        continue
    for value, cell in zip(column, cells, strict=True):
        is_same = cell == '' if value is None else abs(float(value) - float(
            {'true': 1, 'false': 0}.get(cell, cell))) < 1e-3
        assert is_same, (name, value, cell)
print(len(table))
";

#[test]
fn a_reader_that_is_not_ours_reads_the_parquet_files() {
    let python = std::env::var("IOSCHED_TEST_PYTHON").unwrap_or("python3".into());
    let can = Command::new(&python).args(["-c", "import polars"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        lacks("polars (pip; IOSCHED_TEST_PYTHON names a python that has it)");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let events = directory.path().join("events");
    let simulation = ["simulate", "--scheduler", "cfq", "--until", "2", "--events"];
    done(&[&simulation[..], &[path(&events)]].concat());
    for source in [example(), events] {
        let (parquet, csv) = (
            directory.path().join("a.parquet"),
            directory.path().join("a.csv"),
        );
        let rows = done(&["report", path(&source), "--csv"]);
        fs::write(&csv, &rows).unwrap();
        done(&["report", path(&source), "--parquet", path(&parquet)]);
        let output = Command::new(&python)
            .args(["-c", COMPARE, path(&parquet), path(&csv)])
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {stderr}", source.display());
        let count = String::from_utf8_lossy(&output.stdout);
        assert_eq!(count.trim(), (rows.lines().count() - 1).to_string());
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
    let page = |other: &Path| done(&["report", path(&example()), path(other), "--html", "-"]);
    assert!(page(&other).contains("The records differ in kernel: each answers for itself."));
    assert!(!page(&same).contains("each answers for itself"));
    let json = iosched(&["--json", "report", path(&example()), path(&other)]);
    let stderr = String::from_utf8(json.stderr).unwrap();
    assert!(stderr.contains("differ in kernel"), "{stderr}");
}

#[test]
fn a_table_in_a_pipe_has_all_its_columns() {
    let shown = |columns: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iosched"));
        command.env_remove("COLUMNS").arg("report").arg(example());
        if let Some(columns) = columns {
            command.env("COLUMNS", columns);
        }
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let last = "await r ms";
    assert!(shown(None).contains(last) && !shown(Some("80")).contains(last));
    let sentences = shown(None);
    let mut sentences = sentences
        .lines()
        .filter(|line| line.contains(" is the winner "));
    assert!(sentences.all(|line| line.chars().count() <= 80));
}
