//! `iosched report` on much: what is on the page is bounded, extremes stay on it, memory grows no faster
//! than the data. Small sizes here; `make test-full` has 10 000 trials, for which the memory that the documentation
//! promises holds (`IOSCHED_TEST_LARGE=1`, release build).
use std::fmt::Write as _;
use std::fs;
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// What a command took, by the kernel's account of it.
#[derive(Debug, Clone, Copy)]
struct Took {
    /// The most memory that it held, bytes.
    memory: u64,
    /// Time of processors, which others on the machine do not lengthen.
    cpu: Duration,
}

fn is_large() -> bool {
    std::env::var_os("IOSCHED_TEST_LARGE").is_some()
}

/// Runs it to its end.
#[expect(
    clippy::zombie_processes,
    reason = "wait4 waits for it, and tells what it took"
)]
fn iosched(arguments: &[&str]) -> Took {
    let child = Command::new(env!("CARGO_BIN_EXE_iosched"))
        .args(arguments)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: it is our child, nobody else waits for it, and both pointers are to memory of ours.
    let ended = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
    assert_eq!((ended, status), (pid, 0), "{arguments:?}");
    // SAFETY: a rusage of zeros is one, and the kernel has filled it in.
    let usage = unsafe { usage.assume_init() };
    let time = |time: libc::timeval| {
        Duration::from_micros(u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap())
    };
    Took {
        memory: u64::try_from(usage.ru_maxrss).unwrap() * 1024,
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
    }
}

/// The page of a path, and what making it took.
fn page(path: &Path) -> (String, Took) {
    let page = path.with_extension("html");
    let took = iosched(&[
        "report",
        path.to_str().unwrap(),
        "--html",
        page.to_str().unwrap(),
    ]);
    let html = fs::read_to_string(page).unwrap();
    eprintln!(
        "{}: {:?} of processors, {} bytes held; page of {} bytes",
        path.display(),
        took.cpu,
        took.memory,
        html.len()
    );
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
    if is_large() {
        assert!(took.memory < 500_000_000, "{took:?}");
    }
    (html, took)
}

/// The charts of a page: anchor and drawings.
fn charts(html: &str) -> Vec<(&str, Vec<&str>)> {
    let figures = html.split("<figure id=\"chart-").skip(1);
    let chart = |figure| -> (&str, Vec<&str>) {
        let (id, rest) = str::split_once(figure, '"').unwrap();
        let (_, rest) = rest.split_once("<div class=\"chart\">").unwrap();
        let (drawings, _) = rest.split_once("</div>").unwrap();
        (id, drawings.split("<svg ").skip(1).collect())
    };
    figures.map(chart).collect()
}

/// The points of each series of a drawing: markers, bars, and corners of lines.
fn points(drawing: &str) -> Vec<usize> {
    let series = drawing.split("data-series=").skip(1);
    let count = |series: &str| {
        let forms = ["<circle", "<path", "<rect"];
        let marks: usize = forms.iter().map(|form| series.matches(form).count()).sum();
        let lines = series.lines().filter(|line| line.contains("data-words"));
        let corners = lines.map(|line| {
            let (_, points) = line.split_once("points=\"").unwrap();
            points.split('"').next().unwrap().split(' ').count()
        });
        marks + corners.sum::<usize>()
    };
    series.map(count).collect()
}

/// Points in each page's largest drawings of its charts, with the most of a series.
fn drawn(html: &str) -> (usize, usize) {
    let of_charts = charts(html);
    let largest = of_charts
        .iter()
        .filter_map(|(_, drawings)| drawings.first());
    let all: Vec<usize> = largest.flat_map(|drawing| points(drawing)).collect();
    (all.iter().sum(), all.into_iter().max().unwrap())
}

/// No trial of the example is so fast.
const SPIKE: f64 = 987_654_321.0;

/// A record of so many trials: those of the example again and again, one of them with a spike.
fn record(directory: &Path, trials: usize) -> u64 {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/example-record");
    let text = fs::read_to_string(example.join("record.jsonl")).unwrap();
    let mut lines = text.lines();
    let mut header: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    header["plan"]["rules"]["fixed_rounds"] = json!(trials);
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["type"] == "trial")
        .collect();
    let slots = header["plan"]["loads"].as_array().unwrap().len()
        * header["plan"]["arms"].as_array().unwrap().len();
    let mut text = format!("{header}\n");
    for number in 0..trials {
        let slot = number % slots;
        let arms = header["plan"]["arms"].as_array().unwrap().len();
        let (load, arm) = (slot / arms, slot % arms);
        let alike = |line: &&Value| line["load"] == load && line["arm"] == arm;
        let mut trial = lines
            .iter()
            .filter(alike)
            .cycle()
            .nth(number / slots % 7)
            .unwrap()
            .clone();
        trial["round"] = json!(number / slots);
        trial["sequence"] = json!(number);
        if number == trials / 2 / slots * slots {
            trial["metrics"]["throughput_bytes_per_s"] = json!(SPIKE);
        }
        writeln!(text, "{trial}").unwrap();
    }
    fs::create_dir(directory).unwrap();
    fs::write(directory.join("record.jsonl"), &text).unwrap();
    text.len() as u64
}

#[test]
fn the_page_of_many_trials_is_bounded_and_keeps_their_extremes() {
    let (few, many) = if is_large() {
        (1000, 10_000)
    } else {
        (250, 1000)
    };
    let directory = tempfile::tempdir().unwrap();
    let (small, large) = (
        directory.path().join("small"),
        directory.path().join("large"),
    );
    let bytes = [record(&small, few), record(&large, many)];
    let (_, took_few) = page(&small);
    let (html, took_many) = page(&large);
    let (sum, longest) = drawn(&html);
    assert!(sum <= 6000 && longest <= 1700, "{sum} points, {longest}");
    let spike = format!(": {:.0} MB/s</title>", SPIKE / 1e6);
    let progress = charts(&html)
        .into_iter()
        .find(|(id, _)| id.starts_with("trials-random-read"));
    for drawing in progress.expect("a chart of the trials").1 {
        assert!(drawing.contains(&spike), "no {spike}");
    }
    let more = took_many.memory.saturating_sub(took_few.memory) as f64;
    let per_byte = more / (bytes[1] - bytes[0]) as f64;
    assert!(
        per_byte < 8.0,
        "{per_byte} bytes held for each of the record"
    );
}
