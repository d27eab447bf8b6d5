//! Tidy data: one row per trial and metric of a record, as CSV (RFC 4180).

use std::fmt::Write as _;

use iosched_experiment::analysis::SplitSummary;
use iosched_experiment::record::Record;
use iosched_experiment::split::Parts;
use iosched_experiment::trial::{Latency, Trial};
use iosched_machine::visible::visible;

/// The columns, in their order.
const COLUMNS: &str = "record,load,arm,round,trial,started_unix_s,worker,metric,unit,value\n";

/// Every number of every trial that counts of these records, each with its name, in the order they ran.
pub fn trials<'a>(records: impl IntoIterator<Item = (&'a str, &'a Record)>) -> String {
    let mut text = COLUMNS.to_owned();
    for (name, record) in records {
        let plan = &record.header.plan;
        for trial in record.trials() {
            let begin = format!(
                "{},{},{},{},{},{:.3}",
                cell(name),
                cell(&plan.loads[trial.slot.load].name),
                cell(&plan.arm_label(trial.slot.arm)),
                trial.slot.round + 1,
                trial.sequence + 1,
                trial.started_unix_s,
            );
            for (worker, metric, unit, value) in numbers(trial) {
                let (worker, metric) = (cell(worker), cell(&metric));
                let _ = writeln!(text, "{begin},{worker},{metric},{unit},{value}");
            }
        }
    }
    text
}

/// A cell without control characters, in quotes where it needs them: arms with several tunables have commas. What a
/// spreadsheet would take for a formula has an apostrophe before it: names in a record may be anybody's.
pub fn cell(text: &str) -> String {
    let mut text = visible(text);
    if text.starts_with(['=', '+', '-', '@', '\t', '\n']) && text.parse::<f64>().is_err() {
        text = format!("'{text}").into();
    }
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into_owned()
    }
}

/// A metric of a trial.
type Of = fn(&Trial) -> Option<f64>;

/// The metrics that every trial can have: name, unit, number.
const METRICS: &[(&str, &str, Of)] = &[
    ("load_s", "s", |t| Some(t.phases.load_ns as f64 / 1e9)),
    ("throughput", "B/s", |t| {
        Some(t.metrics.throughput_bytes_per_s)
    }),
    ("iops", "1/s", |t| Some(t.metrics.iops)),
    ("read_throughput", "B/s", |t| {
        Some(t.metrics.read_bytes_per_s)
    }),
    ("write_throughput", "B/s", |t| {
        Some(t.metrics.write_bytes_per_s)
    }),
    ("transactions", "1/s", |t| t.metrics.transactions_per_s),
    ("elapsed", "s", |t| t.metrics.elapsed_s),
    ("number", "", |t| t.metrics.number),
    ("fairness", "", |t| t.metrics.fairness),
    ("cpu_per_io", "ns", |t| t.metrics.cpu_ns_per_io),
    ("disk_reads", "", |t| Some(t.measured.reads as f64)),
    ("disk_writes", "", |t| Some(t.measured.writes as f64)),
    ("disk_reads_merged", "", |t| {
        Some(t.measured.reads_merged as f64)
    }),
    ("disk_writes_merged", "", |t| {
        Some(t.measured.writes_merged as f64)
    }),
    ("read_await", "ns", |t| t.measured.read_await_ns),
    ("write_await", "ns", |t| t.measured.write_await_ns),
    ("average_queue_length", "", |t| {
        Some(t.measured.average_queue_length)
    }),
    ("utilisation", "", |t| Some(t.measured.utilisation)),
    ("pressure_some", "ns", |t| {
        t.measured.pressure_some_ns.map(|ns| ns as f64)
    }),
    ("pressure_full", "ns", |t| {
        t.measured.pressure_full_ns.map(|ns| ns as f64)
    }),
];

/// A number of a latency, ns.
type OfLatency = fn(&Latency) -> f64;

/// The numbers of a latency.
const LATENCIES: &[(&str, OfLatency)] = &[
    ("mean", |latency| latency.mean_ns),
    ("p50", |latency| latency.p50_ns),
    ("p99", |latency| latency.p99_ns),
    ("p999", |latency| latency.p999_ns),
    ("max", |latency| latency.max_ns),
];

/// A number of one part of a split await.
type OfParts = fn(&Parts) -> Option<f64>;

/// The numbers of where requests spent their time.
const SPLITS: &[(&str, &str, OfParts)] = &[
    ("followed", "", |parts| Some(parts.requests as f64)),
    ("queue_mean", "ns", Parts::queue_mean_ns),
    (
        "queue_p99",
        "ns",
        |parts| Some(parts.queue_p99_ns()? as f64),
    ),
    ("service_mean", "ns", Parts::service_mean_ns),
    ("service_p99", "ns", |parts| {
        Some(parts.service_p99_ns()? as f64)
    }),
];

/// The worker that a number is of (empty: of all together), its name, its unit, and the number.
type Number<'a> = (&'a str, String, &'static str, f64);

fn numbers(trial: &Trial) -> Vec<Number<'_>> {
    let metrics = METRICS.iter();
    let metrics =
        metrics.filter_map(|(name, unit, of)| Some(("", (*name).to_owned(), *unit, of(trial)?)));
    let mut numbers: Vec<Number<'_>> = metrics.collect();
    let metrics = &trial.metrics;
    let kinds = [
        ("", &metrics.all),
        ("read_", &metrics.read),
        ("write_", &metrics.write),
    ];
    for (kind, latency) in kinds {
        if let Some(latency) = latency {
            let latencies = LATENCIES.iter();
            numbers.extend(
                latencies
                    .map(|(name, of)| ("", format!("{kind}latency_{name}"), "ns", of(latency))),
            );
        }
    }
    if let Some(split) = &trial.measured.split {
        for (kind, parts) in [("read", &split.read), ("write", &split.write)] {
            if let Some(parts) = parts {
                numbers.extend(SPLITS.iter().filter_map(|(name, unit, of)| {
                    Some(("", format!("{kind}_{name}"), *unit, of(parts)?))
                }));
            }
        }
        let splits = SplitSummary::of_trial(trial).into_iter();
        for (kind, split) in ["read", "write"].into_iter().zip(splits) {
            let before = split.and_then(|split| split.before_mean_ns);
            numbers.extend(before.map(|ns| ("", format!("{kind}_before_mean"), "ns", ns)));
        }
        numbers.push(("", "split_one_in".into(), "", split.one_in as f64));
        numbers.push(("", "split_lost_events".into(), "", split.lost_events as f64));
    }
    let own = metrics.numbers.iter();
    numbers.extend(own.map(|(name, value)| ("", name.clone(), "", *value)));
    for job in &trial.jobs {
        let flows = job.flows();
        let bytes = flows.iter().map(|flow| flow.bytes_per_s).sum();
        let iops = flows.iter().map(|flow| flow.iops).sum();
        numbers.push((&job.name, "throughput".into(), "B/s", bytes));
        numbers.push((&job.name, "iops".into(), "1/s", iops));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_experiment::fixture;
    use iosched_experiment::record::Entry;
    use iosched_experiment::split::Split;
    use iosched_experiment::trial::Slot;
    use iosched_switch::Arm;

    const SLOT: Slot = Slot {
        load: 0,
        round: 0,
        arm: 1,
    };

    #[test]
    fn every_row_has_a_cell_for_each_column_and_commas_are_quoted() {
        let mut plan = fixture::plan(2);
        plan.arms[1] = Arm::parse("bfq:low_latency=0,slice_idle=0").unwrap();
        let mut record = fixture::record(&plan);
        record.entries.push(fixture::trial(SLOT, 5e6));
        let text = trials([("a", &record)]);
        let cells = |line: &str| line.replace("low_latency=0,", "").split(',').count();
        assert!(text.lines().all(|line| cells(line) == 10), "{text}");
        assert!(text.contains(",\"bfq:low_latency=0,slice_idle=0\",1,1,"));
        assert!(text.contains(",,throughput,B/s,5000000\n"), "{text}");
        let of_worker = ",random-read,throughput,B/s,5000000\n";
        assert!(text.contains(of_worker), "{text}");
    }

    #[test]
    fn a_name_is_no_formula() {
        assert_eq!(cell("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
        assert_eq!(cell("@SUM(A1)"), "'@SUM(A1)");
        assert_eq!(cell("\t=A1"), "'\t=A1");
        assert_eq!((cell("-5"), cell("bfq")), ("-5".into(), "bfq".into()));
    }

    #[test]
    fn the_time_before_the_queue_has_a_row_where_each_access_was_a_request() {
        let before = |requests_of_disk: u64| {
            let Entry::Trial(mut trial) = fixture::trial(SLOT, 5e6) else {
                unreachable!("a trial")
            };
            let flow = trial.jobs[0].read.as_mut().unwrap();
            (flow.ios, flow.latency_mean_ns) = (100, 1000.0);
            trial.measured.reads = requests_of_disk;
            trial.measured.split = Some(Split {
                read: Some(parts(100, 300, 500)),
                ..Split::default()
            });
            let numbers = numbers(&trial);
            let before = numbers.iter().find(|number| number.1 == "read_before_mean");
            before.map(|&(_, _, unit, value)| (unit, value))
        };
        assert_eq!(before(100), Some(("ns", 200.0)));
        assert_eq!(before(50), None, "half of them were merged");
    }

    /// So many requests, each of which waited and was served for so long.
    fn parts(requests: u64, queue_ns: u64, service_ns: u64) -> Parts {
        Parts::counted(
            requests,
            (requests * queue_ns, [(queue_ns, requests)].into_iter()),
            (requests * service_ns, [(service_ns, requests)].into_iter()),
        )
    }
}
