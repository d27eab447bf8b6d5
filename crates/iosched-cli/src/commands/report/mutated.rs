//! What is reported on may be damaged, edited or made to harm: each value of an example is replaced by what it cannot be,
//! and every form of the report is made of it, unless it is refused.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use iosched_experiment::schedule::RunProgress;
use iosched_machine::failure::Failure;
use serde_json::{Value, json};

use super::*;

/// How many rounds of the example are taken: of its first load under its first two arms.
const ROUNDS: u64 = 3;

/// Trials of those.
const TRIALS: usize = 2 * 3;

/// A way from the outside of a value to one in it.
type Steps = Vec<Step>;

#[derive(Debug, Clone)]
enum Step {
    Key(String),
    Index(usize),
}

/// All values in a value, itself left out.
fn places(value: &Value) -> Vec<Steps> {
    let below = |step: Step, inner: &Value| {
        let mut found = vec![vec![step.clone()]];
        found.extend(places(inner).into_iter().map(|mut steps| {
            steps.insert(0, step.clone());
            steps
        }));
        found
    };
    match value {
        // Sixty files of a queue: they are texts, and nothing is worked out of them.
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| *key != "queue")
            .flat_map(|(key, inner)| below(Step::Key(key.clone()), inner))
            .collect(),
        // The others are like the first.
        Value::Array(values) => {
            let first = values.first().into_iter();
            first
                .flat_map(|inner| below(Step::Index(0), inner))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// What a value is replaced by; `None` takes it out.
fn replacements(value: &Value) -> Vec<Option<Value>> {
    let others = [Some(Value::Null), None, Some(json!([])), Some(json!(0))];
    let numbers = match value {
        Value::Number(number) if number.is_f64() => {
            vec![
                json!(-1),
                json!(1e300),
                json!(1e17),
                json!(1e-300),
                json!("NaN"),
            ]
        }
        Value::Number(_) => {
            vec![
                json!(-1),
                json!(u64::MAX),
                json!(1_u64 << 59),
                json!(u32::MAX),
                json!("NaN"),
            ]
        }
        _ => Vec::new(),
    };
    others
        .into_iter()
        .chain(numbers.into_iter().map(Some))
        .collect()
}

fn replaced(whole: &Value, steps: &[Step], by: Option<&Value>) -> Value {
    let mut whole = whole.clone();
    let (last, way) = steps.split_last().expect("a place has a step");
    let at = way.iter().fold(&mut whole, |value, step| match step {
        Step::Key(key) => &mut value[key.as_str()],
        Step::Index(index) => &mut value[*index],
    });
    match (at, last, by) {
        (Value::Object(map), Step::Key(key), Some(by)) => _ = map.insert(key.clone(), by.clone()),
        (Value::Object(map), Step::Key(key), None) => _ = map.remove(key),
        (Value::Array(values), Step::Index(index), Some(by)) => values[*index] = by.clone(),
        (Value::Array(values), Step::Index(index), None) => _ = values.remove(*index),
        _ => unreachable!("the place is in it"),
    }
    whole
}

/// Makes a report of each mutant; says which panicked, and how many were reported on.
fn reported(whole: &Value, mut report: impl FnMut(&Value) -> bool) -> usize {
    let mut accepted = 0;
    for steps in places(whole) {
        let value = steps.iter().fold(whole, |value, step| match step {
            Step::Key(key) => &value[key.as_str()],
            Step::Index(index) => &value[*index],
        });
        for by in replacements(value) {
            let mutant = replaced(whole, &steps, by.as_ref());
            let outcome = catch_unwind(AssertUnwindSafe(|| report(&mutant)));
            let is_accepted = outcome.unwrap_or_else(|_| panic!("{steps:?} as {by:?}"));
            accepted += usize::from(is_accepted);
        }
    }
    accepted
}

/// Every form of the report on a record, and what a resumed run would say; false if it is refused.
fn report_record(directory: &Path) -> bool {
    let record = match Record::load(directory) {
        Ok(record) => record,
        Err(error) => {
            assert!(error.to_string().contains("record"), "{error}");
            assert!(error.hint().is_some(), "{error}");
            return false;
        }
    };
    let analysis = Analysis::of(&record);
    let rows: Vec<trials::TrialRow> = trials::rows("r", &record).collect();
    let parts = ["a", "b"].map(|name| (name.to_owned(), &record, &analysis));
    let mut text = text::record(&record, &analysis, 80);
    text += &text::rest(&record, 80);
    text += &markdown::record(&record, &analysis);
    text += &known::points(&record, 80);
    text += &known::normalised(&record, &analysis, 80);
    text += &known::sweep_log(&record);
    text += &html::records(&parts);
    text += &html::records(&parts[..1]);
    text += &serde_json::to_string(&analysis).expect("our own types serialise");
    text += &trials::csv(rows.iter().cloned());
    trials::parquet(&rows).expect("the rows have the columns");
    for chart in of_record::charts(&record, &analysis) {
        text += &svg::file(&chart);
    }
    let progress = RunProgress::of(&record.header.plan, &record);
    let _ = (progress.at_most(), progress.trials_at_most());
    assert!(text.len() < 64 << 20, "{} bytes", text.len());
    true
}

fn example() -> Vec<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("docs/example-record/record.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let is_taken = |line: &Value| {
        let number = |key: &str| line[key].as_u64();
        line["type"].is_null()
            || number("load") == Some(0)
                && number("arm") < Some(2)
                && number("round") < Some(ROUNDS)
    };
    let mut lines: Vec<Value> = lines.filter(is_taken).collect();
    assert_eq!(lines.len(), 1 + TRIALS);
    // One bin is as good as a hundred.
    for line in &mut lines[1..] {
        for job in line["jobs"].as_array_mut().unwrap() {
            for flow in ["read", "write"] {
                if let Some(Value::Array(bins)) =
                    job.get_mut(flow).map(|of| &mut of["latency_bins"])
                {
                    bins.truncate(3);
                }
            }
        }
    }
    let plan = &mut lines[0]["plan"];
    plan["arms"].as_array_mut().unwrap().truncate(2);
    plan["loads"].as_array_mut().unwrap().truncate(1);
    plan["loads"][0]["turns"] = json!(1);
    plan["rules"]["requirements"] = json!([{"objective": "iops", "at_least": 0.9}]);
    lines.extend([
        json!({"type": "void", "load": 0, "round": 3, "arm": 0, "sequence": 16,
               "reason": {"kind": "load-failed", "message": "no"}}),
        json!({"type": "arm-left", "load": 0, "arm": 1, "reason": "refused"}),
        json!({"type": "preconditioned", "bytes": 1_000_000, "elapsed_s": 1.5}),
        json!({"type": "steady", "load": 0, "throughput_bytes_per_s": [1e6, 2e6],
               "window": {"excursion": 0.1, "slope": 0.01}, "elapsed_s": 2.0}),
        json!({"type": "prepared", "elapsed_s": 3.5}),
        json!({"type": "resumed", "at_unix_s": 1.8e9, "max_rounds": 40, "time_budget_s": 900.0}),
        json!({"type": "finished", "at_unix_s": 1.8e9, "stop": "decided"}),
    ]);
    lines
}

fn written(directory: &Path, lines: &[Value]) {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs::write(directory.join("record.jsonl"), lines.join("\n") + "\n").unwrap();
}

#[test]
fn no_value_of_a_record_makes_a_report_panic() {
    let directory = tempfile::tempdir().unwrap();
    let lines = example();
    written(directory.path(), &lines);
    assert!(report_record(directory.path()), "the example is one");
    // The first line, a trial, and one of each other kind.
    for index in [0, 1].into_iter().chain(1 + TRIALS..lines.len()) {
        let mut mutated = lines.clone();
        let accepted = reported(&lines[index], |mutant| {
            mutated[index] = mutant.clone();
            written(directory.path(), &mutated);
            report_record(directory.path())
        });
        assert!(accepted > 0, "line {index}: all is refused");
    }
}

/// A file as another command prints it.
fn results(directory: &Path, value: &Value) -> PathBuf {
    let path = directory.join("results.json");
    fs::write(&path, value.to_string()).unwrap();
    path
}

/// Every form of the report on results; false if they are refused.
fn report_results(path: &Path) -> bool {
    let Ok(input) = Input::read(path) else {
        return false;
    };
    let charts = match &input {
        Input::Simulated(simulated) => {
            simulate::table(simulated, 80);
            html::simulated(simulated);
            of_simulated::charts(simulated)
        }
        Input::Conformances(all) => {
            let texts = all.iter().map(conform::text);
            assert_eq!(texts.count(), all.len());
            html::conformances(all);
            vec![of_simulated::agreement(all)]
        }
        other => panic!("{other:?}"),
    };
    for chart in &charts {
        svg::file(chart);
    }
    true
}

#[test]
fn no_value_of_other_results_makes_a_report_panic() {
    let directory = tempfile::tempdir().unwrap();
    let times = json!({"mean_ns": 2, "p50_ns": 1, "p99_ns": 3, "p999_ns": 4, "max_ns": 5});
    let share = json!({"name": "a", "accesses": 10, "iops": 1.0, "bytes_per_second": 4096.0, "latency": times,
        "queue_time": times, "before_queue_time": times, "service_time": times, "syncs": 0, "sync_latency": times});
    let run = json!({"scheduler": "noop", "total": share, "processes": [share, share], "commands": 10,
        "mean_seek_sectors": 5.0, "sequential_share": 0.5, "disk_idle_ns": 1, "fairness": 0.9,
        "elapsed_ns": 100, "held_back_ns": 0, "wall_ns": 10});
    let simulated = json!({"disk": "hdd-7200", "disk_bytes": 1 << 30, "slow_down": 2, "queue_depth": 1,
        "load": "a", "seed": 1, "runs": [run, run]});
    let conformance = json!({"trace": "t", "scheduler": "cfq", "decisions": 10, "agreed": 9, "agreement": 0.9,
        "issued_out_of_order": 0, "interrupted": 0, "eager": 0, "merge_mismatches": 0, "unexplained": 1,
        "depth_changes": 1, "depth_changes_agreed": 1, "tick_phase_us": 1.0, "first_disagreements":
        [{"time_us": 1.0, "recorded": "a", "ours": "b", "why": "c"}]});
    for value in [simulated, conformance] {
        assert!(
            report_results(&results(directory.path(), &value)),
            "{value}"
        );
        let accepted = reported(&value, |mutant| {
            report_results(&results(directory.path(), mutant))
        });
        assert!(accepted > 0, "all is refused");
    }
}
