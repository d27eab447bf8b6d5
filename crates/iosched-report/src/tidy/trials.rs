//! One row per trial and metric of a record.

use std::sync::Arc;

use iosched_evidence::columns::{column, number, parquet_file, texts};
use iosched_experiment::analysis::SplitSummary;
use iosched_experiment::record::Record;
use iosched_experiment::split::Parts;
use iosched_experiment::trial::{Latency, Trial};
use parquet::data_type::{DoubleType, Int32Type};
use parquet::errors::ParquetError;

use super::file::quoted;

/// The columns, in their order.
const COLUMNS: &str = "record,load,arm,round,trial,started_unix_s,worker,metric,unit,value";

/// The same for Parquet.
const SCHEMA: &str = "message trials {
    required binary record (UTF8);
    required binary load (UTF8);
    required binary arm (UTF8);
    required int32 round;
    required int32 trial;
    required double started_unix_s;
    required binary worker (UTF8);
    required binary metric (UTF8);
    required binary unit (UTF8);
    required double value;
}";

/// A number of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialRow {
    /// Name of the record.
    pub record: Arc<str>,
    /// Name of the load.
    pub load: Arc<str>,
    /// Label of the arm.
    pub arm: Arc<str>,
    /// Counted from 1.
    pub round: u32,
    /// Number of the trial in its record, from 1; void ones have numbers, too.
    pub trial: u32,
    /// When its load started, seconds since 1970.
    pub started_unix_s: f64,
    /// The worker that it is of; empty where it is of all together.
    pub worker: Arc<str>,
    /// What.
    pub metric: Arc<str>,
    /// Its unit.
    pub unit: &'static str,
    /// How much.
    pub value: f64,
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

/// Every number of every trial that counts, in the order they ran.
pub fn rows<'a>(name: &str, record: &'a Record) -> impl Iterator<Item = TrialRow> + 'a {
    let name: Arc<str> = name.into();
    let plan = &record.header.plan;
    let arms: Vec<Arc<str>> = (0..plan.arms.len())
        .map(|arm| plan.arm_label(arm).into())
        .collect();
    record.trials().flat_map(move |trial| {
        let row = TrialRow {
            record: name.clone(),
            load: plan.loads[trial.slot.load].name.as_str().into(),
            arm: arms[trial.slot.arm].clone(),
            round: trial.slot.round + 1,
            trial: trial.sequence + 1,
            started_unix_s: trial.started_unix_s,
            worker: "".into(),
            metric: "".into(),
            unit: "",
            value: 0.0,
        };
        of_trial(&row, trial)
    })
}

fn of_trial(row: &TrialRow, trial: &Trial) -> Vec<TrialRow> {
    let metric = |metric: &str, unit: &'static str, value: f64| TrialRow {
        metric: metric.into(),
        unit,
        value,
        ..row.clone()
    };
    let mut rows: Vec<TrialRow> = METRICS
        .iter()
        .filter_map(|(name, unit, of)| Some(metric(name, unit, of(trial)?)))
        .collect();
    let metrics = &trial.metrics;
    let kinds = [
        ("", &metrics.all),
        ("read_", &metrics.read),
        ("write_", &metrics.write),
    ];
    for (kind, latency) in kinds {
        for (name, of) in LATENCIES.iter().filter(|_| latency.is_some()) {
            let value = latency.as_ref().map_or(0.0, of);
            rows.push(metric(&format!("{kind}latency_{name}"), "ns", value));
        }
    }
    if let Some(split) = &trial.measured.split {
        let kinds = [("read", &split.read), ("write", &split.write)];
        for (kind, parts) in kinds {
            let parts = parts.iter();
            rows.extend(
                parts
                    .flat_map(|parts| SPLITS.iter().map(move |row| (parts, row)))
                    .filter_map(|(parts, (name, unit, of))| {
                        Some(metric(&format!("{kind}_{name}"), unit, of(parts)?))
                    }),
            );
        }
        for (kind, split) in ["read", "write"]
            .into_iter()
            .zip(SplitSummary::of_trial(trial))
        {
            let before = split.and_then(|split| split.before_mean_ns);
            rows.extend(before.map(|ns| metric(&format!("{kind}_before_mean"), "ns", ns)));
        }
        rows.push(metric("split_one_in", "", split.one_in as f64));
        rows.push(metric("split_lost_events", "", split.lost_events as f64));
    }
    let numbers = metrics.numbers.iter();
    rows.extend(numbers.map(|(name, value)| metric(name, "", *value)));
    for job in &trial.jobs {
        let flows = job.flows();
        rows.push(TrialRow {
            worker: job.name.as_str().into(),
            ..metric(
                "throughput",
                "B/s",
                flows.iter().map(|flow| flow.bytes_per_s).sum(),
            )
        });
        rows.push(TrialRow {
            worker: job.name.as_str().into(),
            ..metric("iops", "1/s", flows.iter().map(|flow| flow.iops).sum())
        });
    }
    rows
}

/// The rows as CSV, with a head.
pub fn csv(rows: impl Iterator<Item = TrialRow>) -> String {
    let mut text = String::from(COLUMNS);
    text.push('\n');
    for row in rows {
        let cells = [
            quoted(&row.record),
            quoted(&row.load),
            quoted(&row.arm),
            row.round.to_string(),
            row.trial.to_string(),
            format!("{:.3}", row.started_unix_s),
            quoted(&row.worker),
            quoted(&row.metric),
            row.unit.to_owned(),
            row.value.to_string(),
        ];
        text += &cells.join(",");
        text.push('\n');
    }
    text
}

/// The rows as a Parquet file.
pub fn parquet(rows: &[TrialRow]) -> Result<Vec<u8>, ParquetError> {
    let mut writer = parquet_file(SCHEMA, &[], Vec::new())?;
    let mut group = writer.next_row_group()?;
    texts(&mut group, rows.iter().map(|row| &*row.record))?;
    texts(&mut group, rows.iter().map(|row| &*row.load))?;
    texts(&mut group, rows.iter().map(|row| &*row.arm))?;
    column::<Int32Type, _>(&mut group, rows.iter().map(|row| number(row.round)))?;
    column::<Int32Type, _>(&mut group, rows.iter().map(|row| number(row.trial)))?;
    column::<DoubleType, _>(&mut group, rows.iter().map(|row| row.started_unix_s))?;
    texts(&mut group, rows.iter().map(|row| &*row.worker))?;
    texts(&mut group, rows.iter().map(|row| &*row.metric))?;
    texts(&mut group, rows.iter().map(|row| row.unit))?;
    column::<DoubleType, _>(&mut group, rows.iter().map(|row| row.value))?;
    group.close()?;
    writer.into_inner()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;
    use iosched_experiment::fixture;
    use iosched_experiment::record::Entry;
    use iosched_experiment::split::Split;
    use iosched_experiment::trial::Slot;
    use iosched_switch::Arm;

    fn example() -> Vec<TrialRow> {
        let mut plan = fixture::plan(2);
        plan.arms[1] = Arm::parse("bfq:low_latency=0,slice_idle=0").unwrap();
        let mut record = fixture::record(&plan);
        let slot = Slot {
            load: 0,
            round: 0,
            arm: 1,
        };
        record.entries.push(fixture::trial(slot, 5e6));
        rows("a", &record).collect()
    }

    #[test]
    fn every_row_has_a_cell_for_each_column_and_commas_are_quoted() {
        let text = csv(example().into_iter());
        let cells = |line: &str| line.replace("low_latency=0,", "").split(',').count();
        assert!(text.lines().all(|line| cells(line) == 10), "{text}");
        assert!(text.contains(",\"bfq:low_latency=0,slice_idle=0\",1,1,"));
        assert!(text.contains(",,throughput,B/s,5000000\n"), "{text}");
        assert!(
            text.contains(",random-read,throughput,B/s,5000000\n"),
            "{text}"
        );
    }

    #[test]
    fn the_time_before_the_queue_has_a_row_where_each_access_was_a_request() {
        let slot = Slot {
            load: 0,
            round: 0,
            arm: 1,
        };
        let plan = fixture::plan(2);
        let before = |requests_of_disk: u64| {
            let Entry::Trial(mut trial) = fixture::trial(slot, 5e6) else {
                unreachable!("a trial")
            };
            let flow = trial.jobs[0].read.as_mut().unwrap();
            (flow.ios, flow.latency_mean_ns) = (100, 1000.0);
            trial.measured.reads = requests_of_disk;
            trial.measured.split = Some(Split {
                read: Some(parts(100, 300, 500)),
                ..Split::default()
            });
            let mut record = fixture::record(&plan);
            record.entries.push(Entry::Trial(trial));
            let mut rows = rows("", &record);
            let row = rows.find(|row| &*row.metric == "read_before_mean");
            row.map(|row| (row.unit, row.value))
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

    #[test]
    fn parquet_has_the_same_rows() {
        let rows = example();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&parquet(&rows).unwrap()).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let read: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(read.len(), rows.len());
        for (there, here) in read.iter().zip(&rows) {
            assert_eq!(there.get_string(2).unwrap(), &*here.arm);
            assert_eq!(there.get_string(7).unwrap(), &*here.metric);
            assert_eq!(there.get_double(9).unwrap().to_bits(), here.value.to_bits());
        }
    }
}
